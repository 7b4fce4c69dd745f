//! The blocks that a file of the log is made of, and the chain that holds them together.
//!
//! ```text
//!  file    "EVENKEEL" version │ HEADER │ EVENTS │ EVENTS │ CHECKPOINT │ EVENTS │ ... │ CHECKPOINT (end)
//!
//!  block   kind u8 │ length u32 │ payload │ chain 32 bytes
//!                                             └ BLAKE3( chain before │ kind │ length │ payload )
//!
//!  HEADER      log id, file number, the chain at the end of the file before it, public key, ...
//!  EVENTS      number of its first record, then events (codec.rs), each with its tag (tags.rs)
//!  CHECKPOINT  blocks and records so far, the chain so far, an Ed25519 signature of it
//! ```
//!
//! Whatever changes, every later chain value does too, so who alters a block must also rewrite all
//! that follows, and cannot sign it. Integers of fixed width are little-endian.

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use evenkeel_core::Time;

use crate::VERSION;
use crate::error::Malformed;
use crate::wire::{Cursor, put_text, put_varint};

/// The first bytes of every file of a log.
pub(crate) const MAGIC: [u8; 8] = *b"EVENKEEL";
/// Bytes before the first block: magic and version.
pub(crate) const PREFACE_BYTES: usize = 10;
/// Bytes of a block before its payload.
pub(crate) const HEAD_BYTES: usize = 5;
/// Bytes of a chain value.
pub(crate) const CHAIN_BYTES: usize = 32;
/// The longest payload: an encoder seals a block long before.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 256 * 1024;

/// Bytes of the payload of a checkpoint.
pub(crate) const CHECKPOINT_BYTES: usize = 1 + 3 * 8 + CHAIN_BYTES + 64;

/// What is signed begins with this, so that a signature means nothing anywhere else.
const DOMAIN: &[u8] = b"evenkeel audit log checkpoint, version 3\0";

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Header,
    Events,
    Checkpoint,
}

impl Kind {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Header => 0,
            Self::Events => 1,
            Self::Checkpoint => 2,
        }
    }

    pub(crate) const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Header),
            1 => Some(Self::Events),
            2 => Some(Self::Checkpoint),
            _ => None,
        }
    }
}

/// A value of the chain.
pub(crate) type Chain = [u8; CHAIN_BYTES];

/// The first bytes of a file.
pub(crate) fn preface() -> [u8; PREFACE_BYTES] {
    let mut bytes = [0; PREFACE_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// Where the chain of a file begins.
pub(crate) fn first_chain() -> Chain {
    *blake3::hash(&preface()).as_bytes()
}

/// The chain after a block, whose `head` is its kind and length.
pub(crate) fn next_chain(before: &Chain, head: &[u8], payload: &[u8]) -> Chain {
    let mut hasher = blake3::Hasher::new();
    hasher.update(before).update(head).update(payload);
    *hasher.finalize().as_bytes()
}

/// Appends a block to `out`; the chain after it.
pub(crate) fn put_block(out: &mut Vec<u8>, before: &Chain, kind: Kind, payload: &[u8]) -> Chain {
    let start = out.len();
    out.push(kind.code());
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(payload);
    // Head and payload lie together, as they are hashed.
    let chain = next_chain(before, &out[start..], &[]);
    out.extend_from_slice(&chain);
    chain
}

/// Where a file of the log stands in the whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The log's own name, drawn at random when it was begun.
    pub log: [u8; 16],
    /// The number of this file, from 1.
    pub segment: u64,
    /// The oldest file that was kept when this one was begun; older ones made room.
    pub oldest: u64,
    /// How the file before this one ended; `None` for the first.
    pub before: Option<Before>,
    /// The number of the first record in this file, from 0.
    pub first_record: u64,
    /// The key that its checkpoints are signed with.
    pub key: [u8; 32],
    /// Nanoseconds from 1970-01-01 UTC to the epoch of all times in the file.
    pub epoch_unix_ns: u64,
    /// The store's name.
    pub store: Box<str>,
}

/// How a file ended, as its successor found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Before {
    /// Its whole blocks.
    pub blocks: u64,
    /// The chain after them.
    pub chain: [u8; 32],
    /// Whether it was ended properly; otherwise what follows the whole blocks was lost in a crash.
    pub clean: bool,
}

impl Header {
    pub(crate) fn to_payload(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&self.log);
        put_varint(&mut out, self.segment);
        put_varint(&mut out, self.oldest);
        match &self.before {
            None => out.push(0),
            Some(before) => {
                out.push(if before.clean { 1 } else { 2 });
                put_varint(&mut out, before.blocks);
                out.extend_from_slice(&before.chain);
            }
        }
        put_varint(&mut out, self.first_record);
        out.extend_from_slice(&self.key);
        put_varint(&mut out, self.epoch_unix_ns);
        put_text(&mut out, &self.store);
        out
    }

    pub(crate) fn parse(payload: &[u8]) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(payload);
        let log = cursor.array()?;
        let segment = cursor.varint()?;
        let oldest = cursor.varint()?;
        let before = match cursor.byte()? {
            0 => None,
            mark @ (1 | 2) => {
                Some(Before { blocks: cursor.varint()?, chain: cursor.array()?, clean: mark == 1 })
            }
            other => return Err(Malformed::Kind(other)),
        };
        let first_record = cursor.varint()?;
        let key = cursor.array()?;
        let epoch_unix_ns = cursor.varint()?;
        let store = cursor.text()?.into();
        if !cursor.is_empty() {
            return Err(Malformed::Trailing);
        }
        Ok(Self { log, segment, oldest, before, first_record, key, epoch_unix_ns, store })
    }
}

/// What a checkpoint ends, if anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing: the file goes on.
    No,
    /// The file; the log goes on in the next one.
    Rotated,
    /// The log, until a writer opens it again.
    Closed,
}

/// A signed statement of what the log held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// What it ends.
    pub end: End,
    /// When it was signed.
    pub at: Time,
    /// Blocks before it in its file.
    pub blocks: u64,
    /// Records before it in the whole log.
    pub records: u64,
    /// The chain before it.
    pub chain: [u8; 32],
    /// The Ed25519 signature of all of this, the log's id and the number of the file.
    pub signature: [u8; 64],
}

impl Checkpoint {
    /// A checkpoint with its signature.
    pub(crate) fn signed(mut self, key: &SigningKey, log: &[u8; 16], segment: u64) -> Self {
        self.signature = key.sign(&self.message(log, segment)).to_bytes();
        self
    }

    /// Whether `key` signed it.
    pub(crate) fn is_signed_by(&self, key: &VerifyingKey, log: &[u8; 16], segment: u64) -> bool {
        let signature = Signature::from_bytes(&self.signature);
        key.verify_strict(&self.message(log, segment), &signature).is_ok()
    }

    fn message(&self, log: &[u8; 16], segment: u64) -> Vec<u8> {
        let mut message = DOMAIN.to_vec();
        message.extend_from_slice(log);
        message.extend_from_slice(&segment.to_le_bytes());
        self.put_unsigned(&mut message);
        message
    }

    fn put_unsigned(&self, out: &mut Vec<u8>) {
        out.push(match self.end {
            End::No => 0,
            End::Rotated => 1,
            End::Closed => 2,
        });
        for value in [self.at.as_nanos(), self.blocks, self.records] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        out.extend_from_slice(&self.chain);
    }

    pub(crate) fn to_payload(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(CHECKPOINT_BYTES);
        self.put_unsigned(&mut out);
        out.extend_from_slice(&self.signature);
        out
    }

    pub(crate) fn parse(payload: &[u8]) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(payload);
        let end = match cursor.byte()? {
            0 => End::No,
            1 => End::Rotated,
            2 => End::Closed,
            other => return Err(Malformed::Kind(other)),
        };
        let mut number = || cursor.array().map(u64::from_le_bytes);
        let (at, blocks, records) = (Time::from_nanos(number()?), number()?, number()?);
        let checkpoint =
            Self { end, at, blocks, records, chain: cursor.array()?, signature: cursor.array()? };
        if cursor.is_empty() { Ok(checkpoint) } else { Err(Malformed::Trailing) }
    }
}
