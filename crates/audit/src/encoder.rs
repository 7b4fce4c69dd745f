//! The writing side without a disk: events in, bytes out.
//!
//! ```text
//!  configure, change, record ──> payload ── 4 KiB ──> block + chain ──> output ──> driver
//!  on_arrival ──> counters ── checkpoint ──> OPEN events, CHECKPOINT block ──┘
//! ```
//!
//! An arrival costs two additions and a record some 15 bytes and a hash of them; both allocate nothing once buffers have
//! grown. A checkpoint costs an Ed25519 signature, some 20 µs.

use std::collections::BTreeMap;

use ed25519_dalek::SigningKey;
use evenkeel_core::{FlowId, Operation, Record, Request, Slo, Time};

use crate::block::{self, Before, Chain, Checkpoint, End, Header, Kind};
use crate::codec::Codec;
use crate::event::{Change, Event, Terms};
use crate::tags::Tags;
use crate::wire::put_varint;

/// A block is sealed once its payload has this many bytes.
const BLOCK_BYTES: usize = 4096;

/// Encodes the log of one store. Bytes collect in [`Encoder::output`].
pub struct Encoder {
    key: SigningKey,
    header: Header,
    codec: Codec,
    tags: Tags,
    payload: Vec<u8>,
    chain: Chain,
    blocks: u64,
    records: u64,
    segment_bytes: u64,
    terms: BTreeMap<FlowId, Terms>,
    /// The latest scheduler, depth and capacity.
    changes: [Option<(Time, Change)>; 3],
    counts: Vec<Counts>,
    output: Vec<u8>,
}

/// How many of a flow's requests have come and gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    open: u64,
    open_bytes: u64,
    said: (u64, u64),
}

impl Encoder {
    /// Begins a file with `header`, whose key is replaced by the public half of `key`.
    #[must_use]
    pub fn new(mut header: Header, key: SigningKey) -> Self {
        header.key = key.verifying_key().to_bytes();
        let records = header.first_record;
        let mut encoder = Self {
            key,
            header,
            codec: Codec::default(),
            tags: Tags::default(),
            payload: Vec::with_capacity(2 * BLOCK_BYTES),
            chain: Chain::default(),
            blocks: 0,
            records,
            segment_bytes: 0,
            terms: BTreeMap::new(),
            changes: [const { None }; 3],
            counts: Vec::new(),
            output: Vec::new(),
        };
        encoder.begin();
        encoder
    }

    /// Notes a new flow, or a new promise to it.
    pub fn configure(&mut self, now: Time, flow: FlowId, name: &str, slo: &Slo) {
        self.terms(Terms { flow, at: now, name: name.into(), slo: slo.clone(), member: None });
    }

    /// Notes a new flow, which may belong to a group, or a new promise to it.
    pub fn terms(&mut self, terms: Terms) {
        let index = terms.flow.0 as usize;
        if self.counts.len() <= index {
            self.counts.resize(index + 1, Counts::default());
        }
        self.terms.insert(terms.flow, terms.clone());
        self.put(&Event::Configure(terms));
    }

    /// Notes that a flow is no more.
    pub fn remove(&mut self, now: Time, flow: FlowId) {
        self.terms.remove(&flow);
        self.put(&Event::Remove { at: now, flow });
    }

    /// Notes how the store is run; to be called at the start for the scheduler, the depth and the
    /// capacity, and at every change of one of them.
    pub fn change(&mut self, now: Time, change: Change) {
        if let Some(slot) = change.slot() {
            self.changes[slot] = Some((now, change.clone()));
        }
        self.put(&Event::Change { at: now, change });
    }

    /// Notes that `request` has arrived. Does not allocate.
    pub fn on_arrival(&mut self, request: &Request) {
        if let Some(counts) = self.counts.get_mut(request.flow.0 as usize) {
            counts.open += 1;
            counts.open_bytes = counts.open_bytes.saturating_add(moved_bytes(request));
        }
    }

    /// Notes a request that is over.
    pub fn record(&mut self, record: &Record) {
        if let Some(counts) = self.counts.get_mut(record.request.flow.0 as usize) {
            counts.open = counts.open.saturating_sub(1);
            counts.open_bytes = counts.open_bytes.saturating_sub(moved_bytes(&record.request));
        }
        self.begin_payload();
        let start = self.payload.len();
        self.codec.put_record(&mut self.payload, record);
        self.tag(start);
        self.records += 1;
        self.seal_if_full();
    }

    /// Notes that `notes` notes are missing, `records` of them about requests that are over.
    pub fn gap(&mut self, now: Time, notes: u64, records: u64) {
        // Which of the open ones have ended in the gap is not known. From nothing on, the counts are right again
        // once all that came before the gap is over.
        for counts in &mut self.counts {
            (counts.open, counts.open_bytes) = (0, 0);
        }
        self.put(&Event::Gap { at: now, notes, records });
    }

    /// Signs all that has been noted.
    pub fn checkpoint(&mut self, now: Time) {
        self.sign(now, End::No);
    }

    /// Ends this file and begins the next one, in whose header `oldest` stands as the oldest file that
    /// is kept. To be called in the order: `end_segment`, take the output, `begin_segment`.
    pub fn end_segment(&mut self, now: Time) {
        self.sign(now, End::Rotated);
    }

    /// Begins the next file; see [`Encoder::end_segment`].
    pub fn begin_segment(&mut self, oldest: u64) {
        self.header.before = Some(Before { blocks: self.blocks, chain: self.chain, clean: true });
        self.header.segment += 1;
        self.header.oldest = oldest;
        self.header.first_record = self.records;
        self.begin();
        let standing: Vec<Terms> = self.terms.values().cloned().collect();
        for terms in standing {
            self.put(&Event::Standing(terms));
        }
        for (at, change) in self.changes.clone().into_iter().flatten() {
            self.put(&Event::Change { at, change });
        }
    }

    /// Ends the log.
    pub fn close(&mut self, now: Time) {
        self.sign(now, End::Closed);
    }

    /// Bytes for the file, in order; the driver takes them out.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Bytes of the current file so far, those in the output included.
    #[must_use]
    pub const fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// The number of the current file.
    #[must_use]
    pub const fn segment(&self) -> u64 {
        self.header.segment
    }

    /// Records in the log so far.
    #[must_use]
    pub const fn records(&self) -> u64 {
        self.records
    }

    fn begin(&mut self) {
        let preface = block::preface();
        self.output.extend_from_slice(&preface);
        self.segment_bytes = preface.len() as u64;
        self.codec = Codec::default();
        self.chain = block::first_chain();
        self.blocks = 0;
        let payload = self.header.to_payload();
        self.put_block(Kind::Header, &payload);
    }

    fn begin_payload(&mut self) {
        if self.payload.is_empty() {
            put_varint(&mut self.payload, self.records);
            self.codec.begin_block();
            self.tags = Tags::begin(&self.header.log, self.header.segment, self.records);
        }
    }

    /// Puts the tag behind the event that begins at `start`.
    fn tag(&mut self, start: usize) {
        let tag = self.tags.next(&self.payload[start..]);
        self.payload.extend_from_slice(&tag);
    }

    fn put(&mut self, event: &Event) {
        self.begin_payload();
        let start = self.payload.len();
        self.codec.put(&mut self.payload, event);
        self.tag(start);
        self.seal_if_full();
    }

    fn seal_if_full(&mut self) {
        if self.payload.len() >= BLOCK_BYTES {
            self.seal();
        }
    }

    fn seal(&mut self) {
        if !self.payload.is_empty() {
            let mut payload = std::mem::take(&mut self.payload);
            payload.extend_from_slice(&self.tags.closing());
            self.put_block(Kind::Events, &payload);
            payload.clear();
            self.payload = payload;
        }
    }

    fn sign(&mut self, now: Time, end: End) {
        for index in 0..self.counts.len() {
            let Counts { open, open_bytes, said } = self.counts[index];
            if said != (open, open_bytes) {
                self.counts[index].said = (open, open_bytes);
                let flow = FlowId(index as u32);
                self.put(&Event::Open { at: now, flow, requests: open, bytes: open_bytes });
            }
        }
        self.seal();
        let Self { blocks, records, chain, .. } = *self;
        let unsigned = Checkpoint { end, at: now, blocks, records, chain, signature: [0; 64] };
        let signed = unsigned.signed(&self.key, &self.header.log, self.header.segment);
        self.put_block(Kind::Checkpoint, &signed.to_payload());
    }

    fn put_block(&mut self, kind: Kind, payload: &[u8]) {
        let before = self.output.len();
        self.chain = block::put_block(&mut self.output, &self.chain, kind, payload);
        self.segment_bytes += (self.output.len() - before) as u64;
        self.blocks += 1;
    }
}

/// Bytes that cross between client and store, as the ledger counts them.
pub(crate) fn moved_bytes(request: &Request) -> u64 {
    match request.operation {
        Operation::Read | Operation::Write => u64::from(request.length),
        Operation::Flush | Operation::Trim | Operation::WriteZeroes => 0,
    }
}
