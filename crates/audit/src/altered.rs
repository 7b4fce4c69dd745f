//! Which record it is, in a block that does not fit.
//!
//! ```text
//!  head │ number │ event tag │ event tag │ event tag │ closing │ hash │ next block ...
//!                 └──────────── the walk ───────────>│
//!                 ends at the first tag that does not fit, or at the closing tag
//! ```
//!
//! The walk goes by the tags alone and past the end that the head states, so an altered length is told from
//! altered records. Once every event has turned out to be in its place, what is left is the frame of the block,
//! or something before it that was altered together with its hash.

use ed25519_dalek::VerifyingKey;

use crate::block::{self, CHAIN_BYTES, Chain, Checkpoint, HEAD_BYTES, Kind, PAYLOAD_BYTES_MAX};
use crate::codec::{Codec, is_record};
use crate::error::Malformed;
use crate::event::Event;
use crate::segment::{Part, What};
use crate::tags::{TAG_BYTES, Tags};
use crate::wire::{Cursor, put_varint};

/// A block that does not fit, and what is known in front of it.
pub(crate) struct Suspect<'s> {
    pub(crate) log: &'s [u8; 16],
    pub(crate) segment: u64,
    pub(crate) codec: &'s Codec,
    /// The chain in front of the block.
    pub(crate) before: &'s Chain,
    /// The number that its first record should have.
    pub(crate) record: u64,
    /// The number of the first record behind the last good checkpoint.
    pub(crate) signed_until: u64,
    pub(crate) key: &'s VerifyingKey,
    pub(crate) head: [u8; HEAD_BYTES],
    /// The length that the head states.
    pub(crate) length: usize,
    /// Everything behind the head, as far as it was read: payload, hash and what follows.
    pub(crate) bytes: &'s [u8],
}

/// How far the tags fit.
enum Walk {
    /// To the closing tag, which ends here, in front of this record.
    Closed { end: usize, record: u64 },
    /// Up to this event. `cut`: there are too few bytes for it.
    Until { at: usize, record: u64, is_record: bool, cut: bool, tags: Tags },
}

impl Suspect<'_> {
    /// The number of the first record that is affected, and what is wrong.
    pub(crate) fn judge(&self) -> (u64, What) {
        let frame = (self.record, What::Altered { part: Part::Frame });
        let cut_at_the_start = (self.record, What::Truncated { readable: self.record });
        if self.is_another_kind() {
            return frame;
        }
        let is_cut = self.bytes.len() < self.length + CHAIN_BYTES;
        match Kind::from_code(self.head[0]) {
            Some(Kind::Checkpoint) if is_cut && self.length == block::CHECKPOINT_BYTES => {
                return cut_at_the_start;
            }
            Some(Kind::Checkpoint) if self.is_signed() => return self.rewritten(),
            Some(Kind::Header) if is_cut => return cut_at_the_start,
            Some(Kind::Events) => {}
            _ => return frame,
        }
        let mut number = Vec::new();
        put_varint(&mut number, self.record);
        let walk = self.walk(number.len(), self.record);
        let mut cursor = Cursor::new(self.bytes);
        let stated = match cursor.varint() {
            Ok(stated) => stated,
            Err(Malformed::Short) if is_cut => return cut_at_the_start,
            Err(_) => return frame,
        };
        if stated != self.record {
            if !walk.is_at(number.len()) {
                return frame;
            }
            let start = self.bytes.len() - cursor.left();
            let unreadable = self.codec.clone().next(&mut cursor).is_err();
            if unreadable || !self.walk(start, stated).is_at(start) {
                return (self.record, What::Moved { first: stated });
            }
        }
        match walk {
            Walk::Closed { end, record } if end == self.length && is_cut => {
                (record, What::Truncated { readable: self.record })
            }
            Walk::Closed { end, .. } if end == self.length => self.only_the_hash(),
            Walk::Closed { .. } => frame,
            Walk::Until { at, tags, .. } if self.is_only_the_closing_tag(at, &tags) => frame,
            Walk::Until { record, cut: true, .. } if is_cut => {
                (record, What::Truncated { readable: self.record })
            }
            Walk::Until { record, is_record, .. } => {
                (record, What::Altered { part: if is_record { Part::Record } else { Part::Note } })
            }
        }
    }

    /// Whether all fits once the head names another kind.
    fn is_another_kind(&self) -> bool {
        let Some((payload, hash)) = self.payload_and_hash() else { return false };
        [Kind::Header, Kind::Events, Kind::Checkpoint].iter().any(|kind| {
            let mut head = self.head;
            head[0] = kind.code();
            head != self.head && block::next_chain(self.before, &head, payload)[..] == *hash
        })
    }

    fn payload_and_hash(&self) -> Option<(&[u8], &[u8])> {
        let (payload, rest) = self.bytes.split_at_checked(self.length)?;
        Some((payload, rest.get(..CHAIN_BYTES)?))
    }

    fn rewritten(&self) -> (u64, What) {
        (self.signed_until, What::Rewritten { until: self.record })
    }

    /// Whether this is a checkpoint that the key has signed.
    fn is_signed(&self) -> bool {
        let checkpoint = self.payload_and_hash().and_then(|(payload, _)| Checkpoint::parse(payload).ok());
        checkpoint
            .is_some_and(|it| it.chain != *self.before && it.is_signed_by(self.key, self.log, self.segment))
    }

    /// Goes from event to event for as long as their tags fit those of a block whose first record is `first`.
    fn walk(&self, start: usize, first: u64) -> Walk {
        let mut codec = self.codec.clone();
        codec.begin_block();
        let mut tags = Tags::begin(self.log, self.segment, first);
        let (mut at, mut record) = (start, self.record);
        loop {
            let rest = self.bytes.get(at..).unwrap_or_default();
            if rest.starts_with(&tags.closing()) {
                return Walk::Closed { end: at + TAG_BYTES, record };
            }
            let mut cursor = Cursor::new(rest);
            let event = codec.next(&mut cursor);
            let length = rest.len() - cursor.left();
            let tag = tags.clone().next(&rest[..length]);
            match event {
                Ok(event) if rest[length..].starts_with(&tag) => {
                    tags.next(&rest[..length]);
                    record += u64::from(matches!(event, Event::Record(_)));
                    at += length + TAG_BYTES;
                }
                event => {
                    let is_record = was_record(&codec, &tags, rest);
                    let cut = matches!(event, Err(Malformed::Short)) || cursor.left() < TAG_BYTES;
                    return Walk::Until { at, record, is_record, cut, tags };
                }
            }
        }
    }

    /// Whether every event up to `at` is in its place, and the block fits with the closing tag that follows from
    /// them.
    fn is_only_the_closing_tag(&self, at: usize, tags: &Tags) -> bool {
        let Some((payload, hash)) = self.payload_and_hash() else { return false };
        if at + TAG_BYTES != payload.len() {
            return false;
        }
        let mut mended = payload[..at].to_vec();
        mended.extend_from_slice(&tags.closing());
        block::next_chain(self.before, &self.head, &mended)[..] == *hash
    }

    /// All events are in their places: either the hash was altered, or something in front of the block together
    /// with its own hash. In the latter case what follows still goes on from the hash that stands here.
    fn only_the_hash(&self) -> (u64, What) {
        let frame = (self.record, What::Altered { part: Part::Frame });
        let Some((_, hash)) = self.payload_and_hash() else { return frame };
        let next = &self.bytes[self.length + CHAIN_BYTES..];
        let Some((head, rest)) = next.split_at_checked(HEAD_BYTES) else { return frame };
        let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if length > PAYLOAD_BYTES_MAX || rest.len() < length + CHAIN_BYTES {
            return frame;
        }
        let (payload, after) = rest.split_at(length);
        let mut here = [0; CHAIN_BYTES];
        here.copy_from_slice(hash);
        if block::next_chain(&here, head, payload) == after[..CHAIN_BYTES] {
            return self.rewritten();
        }
        frame
    }
}

impl Walk {
    /// Whether not even the event at `start` fits.
    const fn is_at(&self, start: usize) -> bool {
        matches!(self, Self::Until { at, .. } if *at == start)
    }
}

/// Whether the event that does not fit was a record. If its first byte alone was altered, which says that, the
/// right one is found by trying all.
fn was_record(codec: &Codec, tags: &Tags, rest: &[u8]) -> bool {
    let Some(&first) = rest.first() else { return true };
    let mut tried = rest[..rest.len().min(16 * 1024)].to_vec();
    for byte in 0..=u8::MAX {
        tried[0] = byte;
        let mut cursor = Cursor::new(&tried);
        if codec.clone().next(&mut cursor).is_ok() {
            let length = tried.len() - cursor.left();
            if tried[length..].starts_with(&tags.clone().next(&tried[..length])) {
                return is_record(byte);
            }
        }
    }
    is_record(first)
}
