//! A whole log: its files in order, each held against the one before it.
//!
//! ```text
//!  folder  00000007.audit ──> 00000008.audit ──> 00000009.audit
//!             end: rotated       before = chain at the end of 7, its blocks; oldest kept = 7
//!             (1 to 6 made room: file 9 says so, under its signature)
//! ```
//!
//! A file that ends without its closing checkpoint is accepted only if its successor says that this is
//! how it found it: its writer crashed, and went on in a new file.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use evenkeel_core::{Record, Span, Time};

use crate::block::{Before, Checkpoint, End, Header};
use crate::error::LogError;
use crate::event::{Event, Terms};
use crate::segment::{Block, Fault, Finding, Segment, What};

/// A step through a log.
pub(crate) enum Step {
    /// A file begins.
    Begin,
    Events(Vec<Event>),
    Checkpoint(Checkpoint),
}

/// Walks through the files of a log.
pub(crate) struct Walk {
    files: std::vec::IntoIter<(u64, PathBuf)>,
    whole: bool,
    current: Option<(PathBuf, Segment<BufReader<File>>)>,
    /// How the file before the current one ended.
    ended: Option<Ended>,
    /// Files whose writer crashed.
    pub(crate) torn: Vec<u64>,
    expected_key: Option<[u8; 32]>,
}

struct Ended {
    path: PathBuf,
    header: Header,
    before: Before,
    end: End,
    next_record: u64,
    /// What made it end, if not its closing checkpoint.
    finding: Option<Finding>,
}

/// Why a walk stops.
pub(crate) enum Stop {
    Error(LogError),
    Found(PathBuf, Finding),
}

impl Walk {
    pub(crate) fn new(path: &Path, expected_key: Option<[u8; 32]>) -> Result<Self, LogError> {
        let whole = path.is_dir();
        let files =
            if whole { files_in(path)? } else { vec![(number_of(path).unwrap_or(1), path.to_owned())] };
        if files.is_empty() {
            return Err(LogError::Empty { path: path.to_owned() });
        }
        let torn = Vec::new();
        Ok(Self { files: files.into_iter(), whole, current: None, ended: None, torn, expected_key })
    }

    /// The header of the file that the last step came from.
    pub(crate) fn header(&self) -> Option<&Header> {
        self.current.as_ref().map(|(_, segment)| &segment.header)
    }

    /// Blocks and chain of that file so far.
    pub(crate) fn position(&self) -> Option<Before> {
        self.current.as_ref().map(|(_, segment)| before(segment))
    }

    /// Whether no further file follows.
    pub(crate) fn is_at_last(&self) -> bool {
        self.files.as_slice().is_empty()
    }

    pub(crate) fn finding(&self, what: What) -> Option<(PathBuf, Finding)> {
        self.current.as_ref().map(|(path, segment)| (path.clone(), segment.finding(what)))
    }

    pub(crate) fn step(&mut self) -> Result<Option<Step>, Stop> {
        loop {
            let Some((path, segment)) = &mut self.current else {
                return if self.begin_next()? { Ok(Some(Step::Begin)) } else { Ok(None) };
            };
            let finding = match segment.next_block() {
                Ok(Some(Block::Events(events))) => return Ok(Some(Step::Events(events))),
                Ok(Some(Block::Checkpoint(checkpoint))) => return Ok(Some(Step::Checkpoint(checkpoint))),
                Ok(None) => (segment.end == End::No).then(|| segment.finding(What::NoEnd)),
                Err(Fault::Found(finding)) => Some(finding),
                Err(fault) => return Err(Stop::from_fault(fault, path)),
            };
            self.ended = Some(Ended {
                path: path.clone(),
                header: segment.header.clone(),
                before: before(segment),
                end: segment.end,
                next_record: segment.next_record,
                finding,
            });
            // The last one stays current, for its header and position.
            if self.is_at_last() {
                return self.finish();
            }
            self.current = None;
        }
    }

    /// Past the last file.
    fn finish(&mut self) -> Result<Option<Step>, Stop> {
        let Some(ended) = self.ended.take() else { return Ok(None) };
        if let Some(finding) = ended.finding {
            return Err(Stop::Found(ended.path, finding));
        }
        if self.whole && ended.end == End::Rotated {
            let finding = missing(ended.header.segment + 1, ended.next_record);
            return Err(Stop::Found(ended.path, finding));
        }
        Ok(None)
    }

    fn begin_next(&mut self) -> Result<bool, Stop> {
        let Some((number, path)) = self.files.next() else { return Ok(false) };
        let file = File::open(&path).map_err(|error| io(&path, error)).map_err(Stop::Error)?;
        let opened = Segment::open(BufReader::with_capacity(1 << 16, file), number);
        let segment = match opened {
            Ok(segment) => segment,
            Err(fault) => return self.begin_failed(number, path, fault),
        };
        let found = |what| Err(Stop::Found(path.clone(), segment.finding(what)));
        if self.expected_key.is_some_and(|key| key != segment.header.key) {
            return found(What::OtherKey);
        }
        if self.whole && segment.header.segment != number {
            return found(What::Broken);
        }
        if let Some(ended) = self.ended.take() {
            self.torn.extend(goes_on(&ended, &segment.header, number).map_err(|what| match what {
                Some(what) => Stop::Found(path.clone(), segment.finding(what)),
                None => Stop::Found(
                    ended.path.clone(),
                    ended.finding.unwrap_or_else(|| missing(ended.header.segment + 1, ended.next_record)),
                ),
            })?);
        }
        self.current = Some((path, segment));
        Ok(true)
    }

    /// A file whose header cannot be read: a writer may have crashed just there.
    fn begin_failed(&mut self, number: u64, path: PathBuf, fault: Fault) -> Result<bool, Stop> {
        let Fault::Found(finding) = fault else { return Err(Stop::from_fault(fault, &path)) };
        let torn = matches!(finding.what, What::Truncated { .. }) && !self.files.as_slice().is_empty();
        let Some(ended) = self.ended.as_mut().filter(|_| torn) else {
            return Err(Stop::Found(path, finding));
        };
        // Its successor must say that it found nothing in it.
        ended.header.segment = number;
        ended.before = Before { blocks: 0, chain: crate::block::first_chain(), clean: false };
        ended.end = End::No;
        ended.finding = Some(finding);
        ended.path = path;
        self.begin_next()
    }
}

/// The file that was torn, if `ended` was and `header` says so; the fault, `None` being that of `ended`.
fn goes_on(ended: &Ended, header: &Header, number: u64) -> Result<Option<u64>, Option<What>> {
    if header.log != ended.header.log {
        return Err(Some(What::OtherLog));
    }
    if number != ended.header.segment + 1 {
        return Err(None);
    }
    let stated = header.before == Some(ended.before) && header.first_record == ended.next_record;
    match (&ended.finding, stated) {
        (None, true) => Ok(None),
        (Some(_), true) if !ended.before.clean => Ok(Some(ended.header.segment)),
        (None, false) => Err(Some(What::Broken)),
        (Some(_), _) => Err(None),
    }
}

fn missing(segment: u64, record: u64) -> Finding {
    Finding { segment, block: 0, offset: 0, record, after: None, what: What::Missing }
}

fn before<R: std::io::Read>(segment: &Segment<R>) -> Before {
    Before { blocks: segment.blocks, chain: segment.chain, clean: segment.end != End::No }
}

impl Stop {
    pub(crate) fn from_fault(fault: Fault, path: &Path) -> Self {
        let path = path.to_owned();
        match fault {
            Fault::Io(error) => Self::Error(LogError::Io { path, error }),
            Fault::NotALog => Self::Error(LogError::NotALog { path }),
            Fault::Version(found) => Self::Error(LogError::Version { path, found }),
            Fault::Found(finding) => Self::Found(path, finding),
        }
    }
}

pub(crate) fn io(path: &Path, error: std::io::Error) -> LogError {
    LogError::Io { path: path.to_owned(), error }
}

/// The files of the log in `folder`, by number.
pub(crate) fn files_in(folder: &Path) -> Result<Vec<(u64, PathBuf)>, LogError> {
    let mut files = Vec::new();
    for entry in folder.read_dir().map_err(|error| io(folder, error))? {
        let path = entry.map_err(|error| io(folder, error))?.path();
        if let Some(number) = number_of(&path) {
            files.push((number, path));
        }
    }
    files.sort();
    Ok(files)
}

/// The file of the log in `folder` with this number.
pub(crate) fn file_name(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:08}.audit"))
}

fn number_of(path: &Path) -> Option<u64> {
    let stem = path.file_name()?.to_str()?.strip_suffix(".audit")?;
    (stem.len() >= 8 && stem.bytes().all(|byte| byte.is_ascii_digit())).then(|| stem.parse().ok())?
}

/// The events of a log, in order, with the chain and the signatures checked on the way. Memory: one block.
///
/// Times are nanoseconds after the epoch of the first file; those of later runs are shifted to it by the
/// wall clock. A log whose writer still runs, or crashed, ends where its whole blocks end:
/// [`Log::is_closed`] tells.
pub struct Log {
    walk: Walk,
    events: std::vec::IntoIter<Event>,
    shift: Span,
    epoch: Option<u64>,
    closed: bool,
    signed_until: Option<Time>,
    done: bool,
}

impl Log {
    /// Opens the log in a folder, or one file of it.
    ///
    /// # Errors
    /// If there is none, or it is of another version.
    pub fn open(path: &Path) -> Result<Self, LogError> {
        let walk = Walk::new(path, None)?;
        let events = Vec::new().into_iter();
        let (shift, epoch) = (Span::ZERO, None);
        let mut log = Self { walk, events, shift, epoch, closed: false, signed_until: None, done: false };
        // The first header, so that a file of another version is refused here.
        log.refill()?;
        Ok(log)
    }

    /// The header of the file that is being read.
    #[must_use]
    pub fn header(&self) -> Option<&Header> {
        self.walk.header()
    }

    /// Nanoseconds from 1970-01-01 UTC to the epoch of all times that are read.
    #[must_use]
    pub fn epoch_unix_ns(&self) -> u64 {
        self.epoch.unwrap_or(0)
    }

    /// Whether the log was closed in order; known at its end.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    /// The instant of the last checkpoint that has been read: of a log that was closed in order, known at
    /// its end, when it was closed.
    #[must_use]
    pub const fn signed_until(&self) -> Option<Time> {
        self.signed_until
    }

    /// Reads on; whether there was something.
    fn refill(&mut self) -> Result<bool, LogError> {
        match self.walk.step() {
            Ok(Some(Step::Begin)) => {
                let epoch = self.walk.header().map_or(0, |header| header.epoch_unix_ns);
                let first = *self.epoch.get_or_insert(epoch);
                self.shift = Span::from_nanos(epoch.saturating_sub(first));
            }
            Ok(Some(Step::Events(events))) => self.events = events.into_iter(),
            Ok(Some(Step::Checkpoint(checkpoint))) => {
                self.closed = checkpoint.end == End::Closed;
                self.signed_until = Some(checkpoint.at + self.shift);
            }
            Ok(None) => return Ok(false),
            Err(Stop::Error(error)) => return Err(error),
            // What a writer is just writing, or a crash has cut off; an audit goes as far as the whole blocks.
            Err(Stop::Found(_, finding)) if finding.is_open_end() && self.walk.is_at_last() => {
                self.closed = false;
                return Ok(false);
            }
            Err(Stop::Found(path, finding)) => {
                return Err(LogError::Damaged { path, finding: Box::new(finding) });
            }
        }
        Ok(true)
    }
}

impl Iterator for Log {
    type Item = Result<Event, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(event) = self.events.next() {
                return Some(Ok(if self.shift == Span::ZERO { event } else { shifted(event, self.shift) }));
            }
            if self.done {
                return None;
            }
            match self.refill() {
                Ok(true) => {}
                Ok(false) => self.done = true,
                Err(error) => {
                    self.done = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

fn shifted(event: Event, by: Span) -> Event {
    let terms = |terms: Terms| Terms { at: terms.at + by, ..terms };
    let later = |at: Time| at + by;
    match event {
        Event::Configure(it) => Event::Configure(terms(it)),
        Event::Standing(it) => Event::Standing(terms(it)),
        Event::Remove { at, flow } => Event::Remove { at: later(at), flow },
        Event::Change { at, change } => Event::Change { at: later(at), change },
        Event::Open { at, flow, requests, bytes } => Event::Open { at: later(at), flow, requests, bytes },
        Event::Gap { at, notes, records } => Event::Gap { at: later(at), notes, records },
        Event::Record(record) => Event::Record(Record {
            arrival: later(record.arrival),
            dispatch: later(record.dispatch),
            completion: later(record.completion),
            ..record
        }),
    }
}
