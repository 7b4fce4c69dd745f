//! The store's engine, and what it is told, on record.
//!
//! ```text
//!  store thread: handle_input, poll_output, … ──> engine
//!                     │ if it is on record
//!                     └──> pipe ──> record-NAME: FILE (what it was told), EVENTS (what it answered)
//! ```
//!
//! As with the audit log the data path never waits. What the pipe has no room for ends the recording: a
//! recording with a hole could not be replayed.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::num::NonZeroU32;
use std::ops::Deref;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use evenkeel_audit::{Answers, Call, EndReason, Recorder};
use evenkeel_core::ConfigureError;
use evenkeel_core::{Engine, Input, InputError, Output, Record, Scheduler, Time};

use crate::pipe::{self, Kind, Receiver, Sender, pipe};

const LOOK: Duration = Duration::from_millis(100);

/// What is to be recorded of a gateway, and where.
#[derive(Clone, Debug)]
pub struct RecordTo {
    /// The store, by name.
    pub store: String,
    /// The file for what its engine is told; it must not exist.
    pub file: PathBuf,
    /// The file for what its engine answers, a line each; it must not exist.
    pub events: Option<PathBuf>,
    /// The recording ends once it has so many bytes.
    pub bytes_max: u64,
    /// The text of the configuration, for who replays.
    pub configuration: String,
}

/// The files of a recording, open.
pub(crate) struct RecordParts {
    store: String,
    recorder: Recorder<BufWriter<File>>,
    events: Option<BufWriter<File>>,
    bytes_max: u64,
}

impl RecordParts {
    /// Makes the files.
    pub(crate) fn create(to: &RecordTo) -> io::Result<Self> {
        let create = |path: &PathBuf| {
            let named = |error| io::Error::other(format!("{}: {error}", path.display()));
            File::create_new(path).map(BufWriter::new).map_err(named)
        };
        let events = to.events.as_ref().map(create).transpose()?;
        let recorder = Recorder::new(create(&to.file)?, &to.store, &to.configuration)?;
        Ok(Self { store: to.store.clone(), recorder, events, bytes_max: to.bytes_max })
    }
}

/// What the writer's thread is told.
enum Said {
    Call(Call),
    Answer(Time, Output, u32),
}

impl pipe::Note for Said {
    fn kind(&self) -> Kind {
        Kind::Dropped
    }
}

/// An engine that may be on record.
pub(super) struct Told {
    engine: Engine,
    tape: Option<Tape>,
}

struct Tape {
    said: Sender<Said>,
    thread: JoinHandle<io::Result<()>>,
}

impl Deref for Told {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl Told {
    /// Starts the writer's thread, if there is something to write.
    pub(super) fn new(engine: Engine, parts: Option<RecordParts>) -> io::Result<Self> {
        let start = |parts: RecordParts| {
            let (said, receiver) = pipe();
            let name = format!("record-{}", parts.store);
            let thread = thread::Builder::new().name(name).spawn(move || write(parts, receiver))?;
            Ok::<_, io::Error>(Tape { said, thread })
        };
        Ok(Self { engine, tape: parts.map(start).transpose()? })
    }

    pub(super) fn handle_input(&mut self, now: Time, input: Input) -> Result<(), InputError> {
        self.say(|| Call::Input(now, input.clone()));
        self.engine.handle_input(now, input)
    }

    pub(super) fn poll_output(&mut self, now: Time) -> Option<Output> {
        let output = self.engine.poll_output(now);
        if let Some(tape) = &mut self.tape {
            tape.said.send(Said::Call(Call::Poll(now, 1)));
            if let Some(output) = output {
                tape.said.send(Said::Answer(now, output, self.engine.outstanding()));
            }
        }
        output
    }

    /// Replies only: what a hybrid store asks for while its devices are full. Such a store is never on
    /// record, since what its engine may submit depends on more than what the engine is told.
    pub(super) fn poll_reply(&mut self) -> Option<Record> {
        self.engine.poll_reply()
    }

    pub(super) fn set_depth(&mut self, depth: NonZeroU32) {
        self.say(|| Call::Depth(depth.get()));
        self.engine.set_depth(depth);
    }

    pub(super) fn replace_scheduler(
        &mut self,
        now: Time,
        scheduler: Box<dyn Scheduler + Send>,
        background: bool,
    ) -> Result<(), ConfigureError> {
        self.say(|| Call::Scheduler(now, scheduler.name().into(), background));
        self.engine.replace_scheduler(now, scheduler)
    }

    /// To be called at the end of each turn.
    pub(super) fn flush(&mut self) {
        if let Some(tape) = &mut self.tape {
            tape.said.flush();
        }
    }

    pub(super) fn is_pending(&self) -> bool {
        self.tape.as_ref().is_some_and(|tape| tape.said.is_pending())
    }

    /// Ends the recording; waits until it is written.
    pub(super) fn close(&mut self) -> io::Result<()> {
        let Some(Tape { said, thread }) = self.tape.take() else { return Ok(()) };
        said.close();
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the recording's thread panicked")))
    }

    fn say(&mut self, call: impl FnOnce() -> Call) {
        if let Some(tape) = &mut self.tape {
            tape.said.send(Said::Call(call()));
        }
    }
}

/// Writes until the store ends; takes in, and forgets, what comes after the recording's end.
fn write(parts: RecordParts, mut said: Receiver<Said>) -> io::Result<()> {
    let mut writing = Some(parts);
    let mut answers = Answers::default();
    let mut result = Ok(());
    loop {
        let found = said.wait(LOOK);
        while let Some(chunk) = said.next_chunk() {
            if let Some(parts) = &mut writing
                && let Err(error) = chunk.iter().try_for_each(|said| parts.write(&mut answers, said))
            {
                tracing::error!(store = %parts.store, %error, "the recording cannot be written and ends here");
                result = Err(io::Error::other(format!("the recording could not be written: {error}")));
                writing = None;
            }
            said.give_back(chunk);
        }
        let full = writing.as_ref().is_some_and(|parts| parts.recorder.bytes() >= parts.bytes_max);
        let reason = match (found.lost.notes > 0, found.closed, full) {
            (true, ..) => EndReason::Behind,
            (_, true, _) => EndReason::Ended,
            (_, _, true) => EndReason::Full,
            _ => continue,
        };
        if let Some(parts) = writing.take() {
            if reason != EndReason::Ended {
                tracing::warn!(store = %parts.store, ?reason, "the recording ends here");
            }
            result = parts.end(&answers, reason);
        }
        if found.closed {
            return result;
        }
    }
}

impl RecordParts {
    fn write(&mut self, answers: &mut Answers, said: &Said) -> io::Result<()> {
        match said {
            Said::Call(call) => self.recorder.call(call),
            Said::Answer(now, output, outstanding) => {
                let line = answers.take(*now, output, *outstanding);
                self.events.as_mut().map_or(Ok(()), |events| events.write_all(line))
            }
        }
    }

    fn end(self, answers: &Answers, reason: EndReason) -> io::Result<()> {
        self.recorder.end(answers.end(reason))?;
        self.events.map_or(Ok(()), |mut events| events.flush())
    }
}
