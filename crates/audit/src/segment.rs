//! Reads one file of the log block by block, and holds the chain against it.

use std::fmt;
use std::io::{self, Read};

use ed25519_dalek::VerifyingKey;
use evenkeel_core::Time;

use crate::altered::Suspect;
use crate::block::{
    self, CHAIN_BYTES, Chain, Checkpoint, End, HEAD_BYTES, Header, Kind, PAYLOAD_BYTES_MAX, PREFACE_BYTES,
};
use crate::codec::Codec;
use crate::error::Malformed;
use crate::event::Event;
use crate::tags::{TAG_BYTES, Tags};
use crate::wire::Cursor;

/// Where a log is not what was written, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The number of the file.
    pub segment: u64,
    /// The block in that file, from 0.
    pub block: u64,
    /// Where that block begins, in bytes.
    pub offset: u64,
    /// The number of the first record that is affected, from 0 over the whole log. All before are intact. Where
    /// no record is affected, that of the next one.
    pub record: u64,
    /// The last instant of which the intact part tells.
    pub after: Option<Time>,
    /// What is wrong.
    pub what: What,
}

/// What is wrong with a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// This is not what was written there.
    Altered {
        /// What exactly is not.
        part: Part,
    },
    /// The block is as it was written. Something in front of it was altered together with its tags and with the
    /// hashes of its blocks: one of the records up to `until`, that one excepted, or what stands between them.
    Rewritten {
        /// The number of the first record of the block.
        until: u64,
    },
    /// The block belongs elsewhere: by its own account its first record is this one.
    Moved {
        /// That record.
        first: u64,
    },
    /// The file ends in the middle of the block. Blocks are read as a whole.
    Truncated {
        /// The number after the last record that can still be read.
        readable: u64,
    },
    /// The file ends without the checkpoint that ends it.
    NoEnd,
    /// The signature of the checkpoint is not the key's: one of the records up to `until`, that one excepted, or
    /// something between them was altered together with all hashes behind it.
    BadSignature {
        /// The number after the last record that it speaks for.
        until: u64,
    },
    /// The checkpoint states something else than what stands before it.
    BadCheckpoint,
    /// The block is as written, but no writer writes this.
    Malformed(Malformed),
    /// The file is signed with another key than was expected.
    OtherKey,
    /// The file belongs to another log.
    OtherLog,
    /// The file does not go on from where the one before it ends.
    Broken,
    /// The file is missing.
    Missing,
    /// The log does not hold the statement that was expected of it.
    NotAsStated,
}

/// What was altered in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The record [`Finding::record`]: it was altered, it was inserted, or the one that stood there was dropped or
    /// moved.
    Record,
    /// A note that stands in front of that record (a promise, a change by the operator, a count of open requests, a
    /// gap), likewise.
    Note,
    /// No record and no note: a header, a checkpoint, or what holds a block together (its kind, length, number or
    /// hash).
    Frame,
}

impl Finding {
    /// The last of the records one of which is the first altered; the first and only one where it is known.
    #[must_use]
    pub fn last_record(&self) -> u64 {
        match self.what {
            What::Rewritten { until } | What::BadSignature { until } => until.max(self.record + 1) - 1,
            _ => self.record,
        }
    }

    /// Whether this is how a log looks whose writer still runs, or crashed.
    pub(crate) const fn is_open_end(&self) -> bool {
        matches!(self.what, What::NoEnd) || (matches!(self.what, What::Truncated { .. }) && self.block > 0)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { segment, block, offset, record, .. } = self;
        let place = format!("file {segment}, block {block} (byte {offset})");
        match &self.what {
            What::Altered { part: Part::Record } => {
                write!(f, "{place}: record {record} is not the one that was written there")
            }
            What::Altered { part: Part::Note } => {
                write!(
                    f,
                    "{place}: the note in front of record {record} is not the one that was written there"
                )
            }
            What::Altered { part: Part::Frame } => write!(
                f,
                "{place}: no record, but what holds the block together was altered (in front of record {record})"
            ),
            What::Rewritten { until } if until > record => write!(
                f,
                "{place}: does not go on from what stands in front of it, which was rewritten together with its \
                 hashes: the first altered record is one of {record} to {}",
                until - 1
            ),
            What::Rewritten { .. } => write!(
                f,
                "{place}: does not go on from what stands in front of it: notes in front of record {record} were \
                 rewritten or dropped"
            ),
            What::Moved { first } if first > record => {
                write!(f, "{place}: records {record} to {} are missing or were moved", first - 1)
            }
            What::Moved { first } => {
                write!(f, "{place}: records from {first} on stand where record {record} should be")
            }
            What::Truncated { readable } if readable < record => write!(
                f,
                "{place}: cut off; record {record} and what follows is lost, and the log is read up to record \
                 {readable}"
            ),
            What::Truncated { .. } => {
                write!(f, "{place}: cut off; record {record} and what follows is lost")
            }
            What::NoEnd => write!(
                f,
                "file {segment} ends after record {record} without its closing checkpoint: it was cut off, or \
                 its writer crashed or still runs"
            ),
            What::BadSignature { until } => write!(
                f,
                "{place}: the signature does not fit; something from record {record} up to record {until} was \
                 rewritten, with all hashes behind it"
            ),
            What::BadCheckpoint => {
                write!(f, "{place}: the checkpoint does not speak of the blocks before it (record {record})")
            }
            What::Malformed(error) => write!(f, "{place}: {error} (record {record})"),
            What::OtherKey => write!(f, "file {segment} is signed with another key than expected"),
            What::OtherLog => write!(f, "file {segment} belongs to another log"),
            What::Broken => write!(
                f,
                "file {segment} does not go on from where the file before it ends: before record {record}, \
                 something was dropped, swapped or altered"
            ),
            What::Missing => write!(f, "file {segment} is missing (its first record is {record})"),
            What::NotAsStated => {
                write!(f, "{place}: the log does not hold what was stated about it (record {record})")
            }
        }
    }
}

/// Why a file could not be read on.
#[derive(Debug)]
pub(crate) enum Fault {
    Io(io::Error),
    NotALog,
    Version(u16),
    Found(Finding),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A file of the log being read.
pub(crate) struct Segment<R> {
    input: R,
    pub(crate) header: Header,
    key: VerifyingKey,
    codec: Codec,
    payload: Vec<u8>,
    /// The chain after the blocks read so far.
    pub(crate) chain: Chain,
    pub(crate) blocks: u64,
    offset: u64,
    pub(crate) next_record: u64,
    /// The first record after the last good checkpoint.
    signed_until: u64,
    pub(crate) end: End,
    pub(crate) latest: Option<Time>,
}

/// What [`Segment::next_block`] has read.
pub(crate) enum Block {
    Events(Vec<Event>),
    Checkpoint(Checkpoint),
}

impl<R: Read> Segment<R> {
    /// Reads up to the end of the header. `expected` is the number that the file should have.
    pub(crate) fn open(mut input: R, expected: u64) -> Result<Self, Fault> {
        let mut preface = [0; PREFACE_BYTES];
        let read = fill(&mut input, &mut preface)?;
        let magic = read.min(block::MAGIC.len());
        if preface[..magic] != block::MAGIC[..magic] {
            return Err(Fault::NotALog);
        }
        let version = u16::from_le_bytes([preface[8], preface[9]]);
        if read == PREFACE_BYTES && version != crate::VERSION {
            return Err(Fault::Version(version));
        }
        // The header's key is not known yet; any valid one stands in for it.
        let stand_in = ed25519_dalek::SigningKey::from_bytes(&[0; 32]).verifying_key();
        let header = Header {
            log: [0; 16],
            segment: expected,
            oldest: 0,
            before: None,
            first_record: 0,
            key: [0; 32],
            epoch_unix_ns: 0,
            store: "".into(),
        };
        let mut segment = Self {
            input,
            header,
            key: stand_in,
            codec: Codec::default(),
            payload: Vec::new(),
            chain: block::first_chain(),
            blocks: 0,
            offset: PREFACE_BYTES as u64,
            next_record: 0,
            signed_until: 0,
            end: End::No,
            latest: None,
        };
        if read < PREFACE_BYTES {
            return Err(segment.found(What::Truncated { readable: 0 }));
        }
        match segment.read_block()? {
            Some(Kind::Header) => {}
            Some(_) => return Err(segment.found(What::Malformed(Malformed::Kind(1)))),
            None => return Err(segment.found(What::Truncated { readable: 0 })),
        }
        let header =
            Header::parse(&segment.payload).map_err(|error| segment.found(What::Malformed(error)))?;
        let key = VerifyingKey::from_bytes(&header.key);
        segment.key = key.map_err(|_| segment.found(What::Malformed(Malformed::Range)))?;
        segment.next_record = header.first_record;
        segment.signed_until = header.first_record;
        segment.header = header;
        segment.advance();
        Ok(segment)
    }

    /// The next block; `None` where the file ends between two.
    pub(crate) fn next_block(&mut self) -> Result<Option<Block>, Fault> {
        let Some(kind) = self.read_block()? else { return Ok(None) };
        if self.end != End::No {
            return Err(self.found(What::Malformed(Malformed::Trailing)));
        }
        let block = match kind {
            Kind::Header => return Err(self.found(What::Malformed(Malformed::Kind(0)))),
            Kind::Events => Block::Events(self.events()?),
            Kind::Checkpoint => Block::Checkpoint(self.checkpoint()?),
        };
        self.advance();
        Ok(Some(block))
    }

    pub(crate) fn finding(&self, what: What) -> Finding {
        Finding {
            segment: self.header.segment,
            block: self.blocks,
            offset: self.offset,
            record: self.next_record,
            after: self.latest,
            what,
        }
    }

    fn found(&self, what: What) -> Fault {
        Fault::Found(self.finding(what))
    }

    fn found_at(&self, record: u64, what: What) -> Fault {
        Fault::Found(Finding { record, ..self.finding(what) })
    }

    /// Reads a block into the payload and checks its chain.
    fn read_block(&mut self) -> Result<Option<Kind>, Fault> {
        let mut head = [0; HEAD_BYTES];
        match fill(&mut self.input, &mut head)? {
            0 => return Ok(None),
            HEAD_BYTES => {}
            _ => return Err(self.found(What::Truncated { readable: self.next_record })),
        }
        let [code, length @ ..] = head;
        let length = u32::from_le_bytes(length) as usize;
        if length > PAYLOAD_BYTES_MAX {
            return Err(self.found(What::Altered { part: Part::Frame }));
        }
        self.payload.resize(length, 0);
        let mut chain = [0; CHAIN_BYTES];
        let read = fill(&mut self.input, &mut self.payload)?;
        let read = read + fill(&mut self.input, &mut chain)?;
        if read < length + CHAIN_BYTES || block::next_chain(&self.chain, &head, &self.payload) != chain {
            let mut bytes = std::mem::take(&mut self.payload);
            bytes.extend_from_slice(&chain);
            bytes.truncate(read);
            return Err(self.judged(head, length, bytes)?);
        }
        self.chain = chain;
        Kind::from_code(code).map(Some).ok_or_else(|| self.found(What::Malformed(Malformed::Kind(code))))
    }

    /// What is wrong with a block that does not fit, of which `bytes` have been read behind its head.
    fn judged(&mut self, head: [u8; HEAD_BYTES], length: usize, mut bytes: Vec<u8>) -> io::Result<Fault> {
        // Past the block: an altered length must not hide what was written, and the next block tells whether it
        // goes on from the hash that stands here.
        let more = 2 * (HEAD_BYTES + PAYLOAD_BYTES_MAX + CHAIN_BYTES) as u64;
        (&mut self.input).take(more).read_to_end(&mut bytes)?;
        let suspect = Suspect {
            log: &self.header.log,
            segment: self.header.segment,
            codec: &self.codec,
            before: &self.chain,
            record: self.next_record,
            signed_until: self.signed_until,
            key: &self.key,
            head,
            length,
            bytes: &bytes,
        };
        let (record, what) = suspect.judge();
        Ok(self.found_at(record, what))
    }

    fn events(&mut self) -> Result<Vec<Event>, Fault> {
        let payload = std::mem::take(&mut self.payload);
        let events = self.parse_events(&payload);
        self.payload = payload;
        let events = events?;
        let records = events.iter().filter(|event| matches!(event, Event::Record(_))).count();
        self.next_record += records as u64;
        if let Some(Event::Record(record)) = events.last() {
            self.latest = self.latest.max(Some(record.completion));
        }
        Ok(events)
    }

    fn parse_events(&mut self, payload: &[u8]) -> Result<Vec<Event>, Fault> {
        let (mut events, mut record) = (Vec::new(), self.next_record);
        let mut cursor = Cursor::new(payload);
        if cursor.varint().map_err(|error| self.found(What::Malformed(error)))? != record {
            return Err(self.found(What::Malformed(Malformed::Range)));
        }
        self.codec.begin_block();
        let mut tags = Tags::begin(&self.header.log, self.header.segment, record);
        let mut read = || -> Result<Option<Part>, Malformed> {
            while cursor.left() > TAG_BYTES {
                let start = payload.len() - cursor.left();
                let event = self.codec.next(&mut cursor)?;
                let end = payload.len() - cursor.left();
                let is_record = matches!(event, Event::Record(_));
                // The hash of the block was made anew then, its tags were not.
                if tags.next(&payload[start..end]) != cursor.array()? {
                    return Ok(Some(if is_record { Part::Record } else { Part::Note }));
                }
                record += u64::from(is_record);
                events.push(event);
            }
            Ok((tags.closing() != cursor.array()?).then_some(Part::Record))
        };
        match read() {
            Ok(None) => Ok(events),
            Ok(Some(part)) => Err(self.found_at(record, What::Altered { part })),
            Err(error) => Err(self.found_at(record, What::Malformed(error))),
        }
    }

    fn checkpoint(&mut self) -> Result<Checkpoint, Fault> {
        let parsed = Checkpoint::parse(&self.payload);
        let checkpoint = parsed.map_err(|error| self.found(What::Malformed(error)))?;
        if !checkpoint.is_signed_by(&self.key, &self.header.log, self.header.segment) {
            let until = self.next_record;
            return Err(self.found_at(self.signed_until, What::BadSignature { until }));
        }
        // `self.chain` is that after this block already: the statement is checked by hashing again.
        let mut head = vec![Kind::Checkpoint.code()];
        head.extend_from_slice(&(self.payload.len() as u32).to_le_bytes());
        let follows = block::next_chain(&checkpoint.chain, &head, &self.payload) == self.chain;
        if !follows {
            let until = self.next_record;
            return Err(self.found_at(self.signed_until, What::Rewritten { until }));
        }
        if checkpoint.blocks != self.blocks || checkpoint.records != self.next_record {
            return Err(self.found(What::BadCheckpoint));
        }
        self.signed_until = self.next_record;
        self.end = checkpoint.end;
        self.latest = self.latest.max(Some(checkpoint.at));
        Ok(checkpoint)
    }

    fn advance(&mut self) {
        self.blocks += 1;
        self.offset += (HEAD_BYTES + self.payload.len() + CHAIN_BYTES) as u64;
    }
}

/// Reads one file of a log from any input, as far as it is whole, and hands each event to `visit`.
///
/// # Errors
/// What makes it end, if not its closing checkpoint; `None` if these are not the bytes of a log at all, or of
/// another version, or the input fails.
pub fn read_segment(input: impl Read, mut visit: impl FnMut(Event)) -> Result<Header, Option<Finding>> {
    let finding = |fault| match fault {
        Fault::Found(finding) => Some(finding),
        Fault::Io(_) | Fault::NotALog | Fault::Version(_) => None,
    };
    let mut segment = Segment::open(input, 1).map_err(finding)?;
    while let Some(block) = segment.next_block().map_err(finding)? {
        if let Block::Events(events) = block {
            events.into_iter().for_each(&mut visit);
        }
    }
    if segment.end == End::No {
        return Err(Some(segment.finding(What::NoEnd)));
    }
    Ok(segment.header)
}

/// The events of the payload of one block, as the first of its file; for tests that want to get past the
/// chain.
///
/// # Errors
/// If it is no such payload.
#[doc(hidden)]
pub fn events_of_payload(payload: &[u8]) -> Result<Vec<Event>, Malformed> {
    let (mut codec, mut cursor, mut events) = (Codec::default(), Cursor::new(payload), Vec::new());
    while !cursor.is_empty() {
        events.push(codec.next(&mut cursor)?);
    }
    Ok(events)
}

/// The inverse of [`events_of_payload`].
#[doc(hidden)]
#[must_use]
pub fn payload_of_events(events: &[Event]) -> Vec<u8> {
    let (mut codec, mut payload) = (Codec::default(), Vec::new());
    events.iter().for_each(|event| codec.put(&mut payload, event));
    payload
}

/// Reads until `buffer` is full or the input ends; how much was read.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        match input.read(&mut buffer[read..]) {
            Ok(0) => break,
            Ok(count) => read += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}
