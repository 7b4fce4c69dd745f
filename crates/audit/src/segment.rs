//! Reads one file of the log block by block, and holds the chain against it.

use std::fmt;
use std::io::{self, Read};

use ed25519_dalek::VerifyingKey;
use evenkeel_core::Time;

use crate::block::{
    self, CHAIN_BYTES, Chain, Checkpoint, End, HEAD_BYTES, Header, Kind, PAYLOAD_BYTES_MAX, PREFACE_BYTES,
};
use crate::codec::Codec;
use crate::error::Malformed;
use crate::event::Event;
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
    /// The number of the first record that is affected, from 0 over the whole log. All before are intact.
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
    /// The block is not the one that was written; by its own account its records go up to `last`.
    Altered {
        /// Its last record.
        last: Option<u64>,
    },
    /// The block belongs elsewhere: by its own account its first record is this one.
    Moved {
        /// That record.
        first: u64,
    },
    /// The file ends in the middle of the block.
    Truncated,
    /// The file ends without the checkpoint that ends it.
    NoEnd,
    /// The signature of the checkpoint is not the key's; `since` is the first record it speaks for.
    BadSignature {
        /// That record.
        since: u64,
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

impl Finding {
    /// Whether this is how a log looks whose writer still runs, or crashed.
    pub(crate) const fn is_open_end(&self) -> bool {
        matches!(self.what, What::NoEnd) || (matches!(self.what, What::Truncated) && self.block > 0)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { segment, block, offset, record, .. } = self;
        let place = format!("file {segment}, block {block} (byte {offset})");
        match &self.what {
            What::Altered { last: Some(last) } if last > record => {
                write!(f, "{place}: altered; the first altered record is one of {record} to {last}")
            }
            What::Altered { .. } => write!(f, "{place}: altered, from record {record} on"),
            What::Moved { first } if first > record => {
                write!(f, "{place}: records {record} to {} are missing or were moved", first - 1)
            }
            What::Moved { first } => {
                write!(f, "{place}: records from {first} on stand where record {record} should be")
            }
            What::Truncated => write!(f, "{place}: cut off; record {record} and what follows is lost"),
            What::NoEnd => write!(
                f,
                "file {segment} ends after record {record} without its closing checkpoint: it was cut off, or \
                 its writer crashed or still runs"
            ),
            What::BadSignature { since } => write!(
                f,
                "{place}: the signature does not fit; something from record {since} to {record} was rewritten"
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
            return Err(segment.found(What::Truncated));
        }
        match segment.read_block()? {
            Some(Kind::Header) => {}
            Some(_) => return Err(segment.found(What::Malformed(Malformed::Kind(1)))),
            None => return Err(segment.found(What::Truncated)),
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

    /// Reads a block into the payload and checks its chain.
    fn read_block(&mut self) -> Result<Option<Kind>, Fault> {
        let mut head = [0; HEAD_BYTES];
        match fill(&mut self.input, &mut head)? {
            0 => return Ok(None),
            HEAD_BYTES => {}
            _ => return Err(self.found(What::Truncated)),
        }
        let [code, length @ ..] = head;
        let length = u32::from_le_bytes(length) as usize;
        if length > PAYLOAD_BYTES_MAX {
            return Err(self.found(What::Altered { last: None }));
        }
        self.payload.resize(length, 0);
        let mut chain = [0; CHAIN_BYTES];
        if fill(&mut self.input, &mut self.payload)? < length
            || fill(&mut self.input, &mut chain)? < CHAIN_BYTES
        {
            return Err(self.found(What::Truncated));
        }
        if block::next_chain(&self.chain, &head, &self.payload) != chain {
            return Err(self.found(self.what_is_here(code)));
        }
        self.chain = chain;
        Kind::from_code(code).map(Some).ok_or_else(|| self.found(What::Malformed(Malformed::Kind(code))))
    }

    /// What a block that does not fit says about itself.
    fn what_is_here(&self, code: u8) -> What {
        let unknown = What::Altered { last: None };
        if Kind::from_code(code) != Some(Kind::Events) {
            return unknown;
        }
        let mut cursor = Cursor::new(&self.payload);
        let Ok(first) = cursor.varint() else { return unknown };
        if first != self.next_record {
            return What::Moved { first };
        }
        let mut codec = self.codec.clone();
        codec.begin_block();
        let mut records = 0;
        while !cursor.is_empty() {
            match codec.next(&mut cursor) {
                Ok(event) => records += u64::from(matches!(event, Event::Record(_))),
                Err(_) => break,
            }
        }
        What::Altered { last: (first + records).checked_sub(1) }
    }

    fn events(&mut self) -> Result<Vec<Event>, Fault> {
        let payload = std::mem::take(&mut self.payload);
        let events = self.parse_events(&payload).map_err(|error| self.found(What::Malformed(error)));
        self.payload = payload;
        let events = events?;
        let records = events.iter().filter(|event| matches!(event, Event::Record(_))).count();
        self.next_record += records as u64;
        if let Some(Event::Record(record)) = events.last() {
            self.latest = self.latest.max(Some(record.completion));
        }
        Ok(events)
    }

    fn parse_events(&mut self, payload: &[u8]) -> Result<Vec<Event>, Malformed> {
        let mut cursor = Cursor::new(payload);
        if cursor.varint()? != self.next_record {
            return Err(Malformed::Range);
        }
        self.codec.begin_block();
        let mut events = Vec::new();
        while !cursor.is_empty() {
            events.push(self.codec.next(&mut cursor)?);
        }
        Ok(events)
    }

    fn checkpoint(&mut self) -> Result<Checkpoint, Fault> {
        let parsed = Checkpoint::parse(&self.payload);
        let checkpoint = parsed.map_err(|error| self.found(What::Malformed(error)))?;
        if !checkpoint.is_signed_by(&self.key, &self.header.log, self.header.segment) {
            return Err(self.found(What::BadSignature { since: self.signed_until }));
        }
        // `self.chain` is that after this block already: the statement is checked by hashing again.
        let mut head = vec![Kind::Checkpoint.code()];
        head.extend_from_slice(&(self.payload.len() as u32).to_le_bytes());
        let follows = block::next_chain(&checkpoint.chain, &head, &self.payload) == self.chain;
        if !follows || checkpoint.blocks != self.blocks || checkpoint.records != self.next_record {
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
