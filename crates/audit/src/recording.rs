//! A recording: everything that a store's engine was told, and what it answered, so that the same engine can
//! be told the same again.
//!
//! ```text
//!  "EVENKREC" version │ store │ configuration │ frame │ frame │ … │ frame with END
//!  frame      length (4 bytes, little endian) │ calls
//!  call       kind │ time − the time before it, zigzag │ what the call carries
//!  POLL       several in a row at one instant are one, with their number
//!  END        why │ answers │ BLAKE3 of all answers
//! ```
//!
//! Kept are the calls in their order, also those that only ask: whatever the engine does, it does within one
//! of them. Answers are not kept, only their hash: who replays makes them anew and compares.

use std::io::{self, Read, Write};

use evenkeel_core::{
    Completion, Cost, Input, Membership, Outcome, Output, Record, Request, RequestId, Span, Submission,
    Ticket, Time,
};

use crate::codec;
use crate::error::Malformed;
use crate::wire::{Cursor, put_text, put_varint, unzigzag, zigzag};

const MAGIC: [u8; 8] = *b"EVENKREC";
/// The version that is written, and the only one that is read.
pub const RECORDING_VERSION: u16 = 1;
/// A frame is written once it has so many bytes.
const FRAME_BYTES: usize = 64 * 1024;
/// The longest frame that is read: a call more than that, with a promise of many classes.
const FRAME_BYTES_MAX: usize = 2 * FRAME_BYTES;
/// The longest configuration.
const CONFIGURATION_BYTES_MAX: usize = 1 << 20;

const POLL: u8 = 0;
const ARRIVAL: u8 = 1;
const COMPLETION: u8 = 2;
const TIMEOUT: u8 = 3;
const ADD: u8 = 4;
const CONFIGURE: u8 = 5;
const JOIN: u8 = 6;
const REMOVE: u8 = 7;
const DEPTH: u8 = 8;
const SCHEDULER: u8 = 9;
const END: u8 = 10;

/// One call of a driver to its engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// `handle_input`.
    Input(Time, Input),
    /// `poll_output`, so many times.
    Poll(Time, u64),
    /// `set_depth`.
    Depth(u32),
    /// `replace_scheduler`, with the name and whether spare capacity goes to background flows.
    Scheduler(Time, Box<str>, bool),
    /// The recording's end.
    End(RecordingEnd),
}

/// How a recording ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingEnd {
    /// Why there.
    pub reason: EndReason,
    /// How many answers the engine gave.
    pub answers: u64,
    /// The BLAKE3 hash of them, as [`Answers`] makes it.
    pub hash: [u8; 32],
}

/// Why a recording ended where it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The store ended.
    Ended,
    /// The recording had become as large as it may.
    Full,
    /// The disk under it could not keep up.
    Behind,
}

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The system said no.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Something else.
    #[error(
        "this is no recording (it does not begin with \"EVENKREC\"); name a file of `evenkeel serve --record`"
    )]
    NotARecording,
    /// Of another version.
    #[error(
        "this recording has version {0}, and this program reads version {RECORDING_VERSION}; replay it with the program that made it"
    )]
    Version(u16),
    /// Bytes that are no call.
    #[error("the call at byte {at} cannot be read: {error}")]
    Malformed {
        /// Where its frame begins.
        at: u64,
        /// Why.
        error: Malformed,
    },
}

/// Counts and hashes what an engine answers.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    count: u64,
    hasher: blake3::Hasher,
    line: Vec<u8>,
}

impl Answers {
    /// Takes in the next answer; its line of the event log, which holds for as long as nothing else comes.
    pub fn take(&mut self, now: Time, output: &Output, outstanding: u32) -> &[u8] {
        self.count += 1;
        self.line.clear();
        // Writing into memory cannot fail.
        let _ = match output {
            Output::Submit(submission) => submit_line(&mut self.line, now, submission, outstanding),
            Output::Reply(record) => reply_line(&mut self.line, record),
        };
        self.hasher.update(&self.line);
        &self.line
    }

    /// How many there were, and their hash.
    #[must_use]
    pub fn end(&self, reason: EndReason) -> RecordingEnd {
        RecordingEnd { reason, answers: self.count, hash: *self.hasher.finalize().as_bytes() }
    }
}

fn submit_line(out: &mut Vec<u8>, now: Time, submission: &Submission, outstanding: u32) -> io::Result<()> {
    let Submission { ticket, request } = submission;
    let (at, flow, id, slot) = (now.as_nanos(), request.flow.0, request.id.0, ticket.slot());
    writeln!(out, "{at} submit flow={flow} id={id} slot={slot} outstanding={outstanding}")
}

fn reply_line(out: &mut Vec<u8>, record: &Record) -> io::Result<()> {
    let Record { request, arrival, dispatch, completion, promise, class, outcome } = record;
    let (at, flow, id) = (completion.as_nanos(), request.flow.0, request.id.0);
    let outcome = match outcome {
        Outcome::Done => "done",
        Outcome::Failed => "failed",
        Outcome::Cancelled => "cancelled",
    };
    write!(
        out,
        "{at} reply flow={flow} id={id} arrival={} dispatch={} {outcome}",
        arrival.as_nanos(),
        dispatch.as_nanos()
    )?;
    match (class, promise) {
        (Some(class), Some(promise)) => {
            writeln!(out, " class={} promise_ns={}", class + 1, promise.as_nanos())
        }
        _ => writeln!(out, " outside"),
    }
}

/// Writes a recording.
pub struct Recorder<W> {
    out: W,
    frame: Vec<u8>,
    written: u64,
    now: u64,
    polls: Option<(Time, u64)>,
}

impl<W: Write> Recorder<W> {
    /// Begins a recording of `store`, of the gateway with this configuration.
    ///
    /// # Errors
    /// If the system refuses a write; likewise for the other methods.
    pub fn new(mut out: W, store: &str, configuration: &str) -> io::Result<Self> {
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(&RECORDING_VERSION.to_le_bytes());
        put_text(&mut head, store);
        put_varint(&mut head, configuration.len() as u64);
        head.extend_from_slice(configuration.as_bytes());
        out.write_all(&(head.len() as u32).to_le_bytes())?;
        out.write_all(&head)?;
        let frame = Vec::with_capacity(FRAME_BYTES_MAX);
        Ok(Self { out, frame, written: head.len() as u64 + 4, now: 0, polls: None })
    }

    /// Bytes so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.written + self.frame.len() as u64
    }

    /// Keeps `call`.
    ///
    /// # Errors
    /// See [`Recorder::new`].
    pub fn call(&mut self, call: &Call) -> io::Result<()> {
        if let Call::Poll(now, count) = call {
            if let Some((at, polls)) = &mut self.polls
                && at == now
            {
                *polls = polls.saturating_add(*count);
                return Ok(());
            }
            self.put_polls();
            self.polls = Some((*now, *count));
            return Ok(());
        }
        self.put_polls();
        self.put(call);
        self.write_if(FRAME_BYTES)
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// See [`Recorder::new`].
    pub fn end(mut self, end: RecordingEnd) -> io::Result<W> {
        self.call(&Call::End(end))?;
        self.write_if(1)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn write_if(&mut self, bytes: usize) -> io::Result<()> {
        if self.frame.len() >= bytes {
            self.out.write_all(&(self.frame.len() as u32).to_le_bytes())?;
            self.out.write_all(&self.frame)?;
            self.written += self.frame.len() as u64 + 4;
            self.frame.clear();
        }
        Ok(())
    }

    fn put_polls(&mut self) {
        if let Some((at, count)) = self.polls.take() {
            self.begin(POLL, at);
            put_varint(&mut self.frame, count);
        }
    }

    fn begin(&mut self, kind: u8, at: Time) {
        self.frame.push(kind);
        put_varint(&mut self.frame, zigzag(at.as_nanos().wrapping_sub(self.now)));
        self.now = at.as_nanos();
    }

    fn put(&mut self, call: &Call) {
        match call {
            Call::Poll(..) => {}
            Call::Input(at, input) => self.put_input(*at, input),
            Call::Depth(depth) => {
                self.frame.push(DEPTH);
                put_varint(&mut self.frame, u64::from(*depth));
            }
            Call::Scheduler(at, name, background) => {
                self.begin(SCHEDULER, *at);
                put_text(&mut self.frame, name);
                self.frame.push(u8::from(*background));
            }
            Call::End(RecordingEnd { reason, answers, hash }) => {
                self.frame.extend([END, *reason as u8]);
                put_varint(&mut self.frame, *answers);
                self.frame.extend_from_slice(hash);
            }
        }
    }

    fn put_input(&mut self, at: Time, input: &Input) {
        match input {
            // Counts of other servers do not come in through the gateway.
            Input::Arrival(request) | Input::CountedArrival(request, _) => {
                self.begin(ARRIVAL, at);
                self.frame.push(codec::operation_code(request.operation));
                let Request { id, flow, offset, length, cost, .. } = *request;
                for value in [id.0, u64::from(flow.0), offset, u64::from(length), cost.as_millis()] {
                    put_varint(&mut self.frame, value);
                }
            }
            Input::Completion(Completion { ticket, outcome, service }) => {
                self.begin(COMPLETION, at);
                self.frame.push(codec::outcome_code(*outcome));
                put_varint(&mut self.frame, ticket.to_bits());
                put_varint(&mut self.frame, service.map_or(0, |span| span.as_nanos().saturating_add(1)));
            }
            Input::Timeout => self.begin(TIMEOUT, at),
            Input::Add(flow, slo) | Input::Configure(flow, slo) => {
                self.begin(if matches!(input, Input::Add(..)) { ADD } else { CONFIGURE }, at);
                put_varint(&mut self.frame, u64::from(flow.0));
                codec::put_slo(&mut self.frame, slo);
            }
            Input::Join(flow, membership) => {
                self.begin(JOIN, at);
                put_varint(&mut self.frame, u64::from(flow.0));
                codec::put_membership(&mut self.frame, *membership);
            }
            Input::Remove(flow) => {
                self.begin(REMOVE, at);
                put_varint(&mut self.frame, u64::from(flow.0));
            }
        }
    }
}

/// Reads a recording, call by call. Memory: one frame.
pub struct Recording<R> {
    input: R,
    store: String,
    configuration: String,
    frame: Vec<u8>,
    at: usize,
    frame_start: u64,
    now: u64,
    ended: bool,
}

impl<R: Read> Recording<R> {
    /// Begins to read.
    ///
    /// # Errors
    /// See [`RecordingError`].
    pub fn open(mut input: R) -> Result<Self, RecordingError> {
        let mut length = [0; 4];
        read_whole(&mut input, &mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > CONFIGURATION_BYTES_MAX + 8192 {
            return Err(RecordingError::NotARecording);
        }
        let mut head = vec![0; length];
        read_whole(&mut input, &mut head)?;
        let rest = head.strip_prefix(&MAGIC).ok_or(RecordingError::NotARecording)?;
        let mut cursor = Cursor::new(rest);
        let malformed = |error| RecordingError::Malformed { at: 0, error };
        let version = u16::from_le_bytes(cursor.array().map_err(malformed)?);
        if version != RECORDING_VERSION {
            return Err(RecordingError::Version(version));
        }
        let store = cursor.text().map_err(malformed)?.to_owned();
        let bytes = cursor.varint().map_err(malformed)?;
        let bytes = usize::try_from(bytes).map_err(|_| malformed(Malformed::Range))?;
        let text = cursor.bytes(bytes).map_err(malformed)?;
        let configuration = str::from_utf8(text).map_err(|_| malformed(Malformed::Text))?.to_owned();
        let frame_start = length as u64 + 4;
        Ok(Self { input, store, configuration, frame: Vec::new(), at: 0, frame_start, now: 0, ended: false })
    }

    /// The name of the store.
    #[must_use]
    pub fn store(&self) -> &str {
        &self.store
    }

    /// The configuration that the gateway ran with.
    #[must_use]
    pub fn configuration(&self) -> &str {
        &self.configuration
    }

    /// The next call; `None` at the end of the file, which without an [`Call::End`] before it was cut.
    ///
    /// # Errors
    /// See [`RecordingError`].
    pub fn next_call(&mut self) -> Result<Option<Call>, RecordingError> {
        if self.ended || (self.at == self.frame.len() && !self.next_frame()?) {
            return Ok(None);
        }
        let mut cursor = Cursor::new(&self.frame[self.at..]);
        let call = read_call(&mut cursor, &mut self.now);
        let call = call.map_err(|error| RecordingError::Malformed { at: self.frame_start, error })?;
        self.at = self.frame.len() - cursor.left();
        self.ended = matches!(call, Call::End(_));
        Ok(Some(call))
    }

    fn next_frame(&mut self) -> Result<bool, RecordingError> {
        let mut length = [0; 4];
        self.frame_start += if self.frame.is_empty() { 0 } else { self.frame.len() as u64 + 4 };
        self.at = 0;
        match self.input.read_exact(&mut length) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.frame.clear();
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        }
        let length = u32::from_le_bytes(length) as usize;
        let at = self.frame_start;
        if length == 0 || length > FRAME_BYTES_MAX {
            return Err(RecordingError::Malformed { at, error: Malformed::Range });
        }
        self.frame.resize(length, 0);
        match self.input.read_exact(&mut self.frame) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.frame.clear();
                Ok(false)
            }
            other => Ok(other.map(|()| true)?),
        }
    }
}

fn read_whole(input: &mut impl Read, bytes: &mut [u8]) -> Result<(), RecordingError> {
    input.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => RecordingError::NotARecording,
        _ => RecordingError::Io(error),
    })
}

fn read_call(cursor: &mut Cursor<'_>, now: &mut u64) -> Result<Call, Malformed> {
    let kind = cursor.byte()?;
    if kind == DEPTH {
        return Ok(Call::Depth(cursor.small()?));
    }
    if kind == END {
        let reasons = [EndReason::Ended, EndReason::Full, EndReason::Behind];
        let reason = cursor.byte()?;
        let reason = *reasons.get(usize::from(reason)).ok_or(Malformed::Kind(reason))?;
        return Ok(Call::End(RecordingEnd { reason, answers: cursor.varint()?, hash: cursor.array()? }));
    }
    *now = now.wrapping_add(unzigzag(cursor.varint()?));
    let at = Time::from_nanos(*now);
    let input = match kind {
        POLL => return Ok(Call::Poll(at, cursor.varint()?)),
        SCHEDULER => return Ok(Call::Scheduler(at, cursor.text()?.into(), cursor.byte()? != 0)),
        ARRIVAL => {
            let operation = codec::operation(cursor.byte()?)?;
            let id = RequestId(cursor.varint()?);
            let flow = codec::flow(cursor)?;
            let (offset, length) = (cursor.varint()?, cursor.small()?);
            let cost = Cost::from_millis(cursor.varint()?);
            Input::Arrival(Request { id, flow, operation, offset, length, cost })
        }
        COMPLETION => {
            let outcome = codec::outcome(cursor.byte()?)?;
            let ticket = Ticket::from_bits(cursor.varint()?);
            let service = cursor.varint()?.checked_sub(1).map(Span::from_nanos);
            Input::Completion(Completion { ticket, outcome, service })
        }
        TIMEOUT => Input::Timeout,
        ADD => Input::Add(codec::flow(cursor)?, codec::slo(cursor)?),
        CONFIGURE => Input::Configure(codec::flow(cursor)?, codec::slo(cursor)?),
        JOIN => Input::Join(codec::flow(cursor)?, membership(cursor)?),
        REMOVE => Input::Remove(codec::flow(cursor)?),
        other => return Err(Malformed::Kind(other)),
    };
    Ok(Call::Input(at, input))
}

fn membership(cursor: &mut Cursor<'_>) -> Result<Membership, Malformed> {
    codec::member(cursor)?.ok_or(Malformed::Range)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::{Envelope, FlowId, Operation, Rate, Slo, Weight};

    fn calls() -> Vec<Call> {
        let at = Time::from_nanos;
        let envelope = Envelope::new(Cost::requests(3), Rate::per_second(7), Span::from_millis(9)).unwrap();
        let request = Request {
            id: RequestId(77),
            flow: FlowId(1),
            operation: Operation::Trim,
            offset: 1 << 40,
            length: 4096,
            cost: Cost::from_millis(1500),
        };
        let member = Membership { group: FlowId(0), weight: Weight::ONE, limit: None };
        let completion = Completion::new(Ticket::from_bits(5 << 32 | 3), Outcome::Failed);
        vec![
            Call::Input(at(5), Input::Add(FlowId(0), Slo::guaranteed(envelope).with_interactive())),
            Call::Input(at(5), Input::Join(FlowId(1), member)),
            Call::Input(at(9), Input::Arrival(request)),
            Call::Poll(at(9), 2),
            Call::Input(at(8), Input::Completion(completion.with_service(Span::ZERO))),
            Call::Poll(at(8), 3),
            Call::Poll(at(10), 1),
            Call::Depth(4),
            Call::Scheduler(at(11), "nested".into(), true),
            Call::Input(at(u64::MAX), Input::Timeout),
            Call::Input(at(12), Input::Configure(FlowId(0), Slo::background())),
            Call::Input(at(13), Input::Remove(FlowId(1))),
        ]
    }

    fn written() -> Vec<u8> {
        let mut recorder = Recorder::new(Vec::new(), "pool", "[gateway]").unwrap();
        calls().iter().for_each(|call| recorder.call(call).unwrap());
        recorder.end(Answers::default().end(EndReason::Ended)).unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = written();
        let mut recording = Recording::open(&bytes[..]).unwrap();
        assert_eq!((recording.store(), recording.configuration()), ("pool", "[gateway]"));
        for call in calls() {
            assert_eq!(recording.next_call().unwrap(), Some(call));
        }
        let end = recording.next_call().unwrap();
        assert!(matches!(end, Some(Call::End(RecordingEnd { reason: EndReason::Ended, answers: 0, .. }))));
        assert_eq!(recording.next_call().unwrap(), None);
    }

    #[test]
    fn foreign_cut_and_damaged_files_are_refused_or_end_early() {
        assert!(matches!(Recording::open(&b"abc"[..]), Err(RecordingError::NotARecording)));
        assert!(matches!(
            Recording::open(&b"\x0a\0\0\0something else"[..]),
            Err(RecordingError::NotARecording)
        ));
        let bytes = written();
        let mut other = bytes.clone();
        other[12] = 9;
        assert!(matches!(Recording::open(&other[..]), Err(RecordingError::Version(9))));
        let mut cut = Recording::open(&bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(cut.next_call().unwrap(), None);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x80;
            // Whatever comes of it, it is an error or another recording, never a panic.
            if let Ok(mut recording) = Recording::open(&damaged[..]) {
                while let Ok(Some(_)) = recording.next_call() {}
            }
        }
    }
}
