//! Whatever is done to a log, the very record is named.

use std::ops::Range;
use std::sync::LazyLock;

use ed25519_dalek::SigningKey;
use evenkeel_core::{
    Cost, Envelope, FlowId, Operation, Outcome, Rate, Record, Request, RequestId, Slo, Span, Time,
};
use proptest::prelude::*;

use crate::block::{CHAIN_BYTES as HASH, HEAD_BYTES as HEAD, Header, next_chain};
use crate::codec::Codec;
use crate::encoder::Encoder;
use crate::event::{Change, Event};
use crate::segment::{Finding, Part, What, read_segment};
use crate::tags::{TAG_BYTES, Tags};
use crate::wire::Cursor;

const LOG: [u8; 16] = [5; 16];
const FIRST_RECORD: u64 = 1_000;

/// A block of the file and, if it holds events, where each is with its tag and which record it is or stands in
/// front of.
#[derive(Clone, Debug)]
struct Block {
    all: Range<usize>,
    first_record: u64,
    events: Vec<(Range<usize>, bool, u64)>,
}

impl Block {
    fn payload(&self) -> Range<usize> {
        self.all.start + HEAD..self.all.end - HASH
    }
}

fn record(number: u64) -> Record {
    let at = |nanos: u64| Time::from_nanos(1_000_000 + number * 5_900 + nanos);
    let request = Request {
        id: RequestId(0),
        flow: FlowId((number % 3) as u32),
        operation: if number.is_multiple_of(7) { Operation::Write } else { Operation::Read },
        offset: 0,
        length: 4096 << (number / 11 % 3),
        cost: if number.is_multiple_of(13) { Cost::requests(2) } else { Cost::ONE },
    };
    let promised = number.is_multiple_of(3);
    Record {
        request,
        arrival: at(0),
        dispatch: at(number % 977),
        completion: at(70_000 + number % 20_011),
        promise: promised.then_some(Span::from_millis(20)),
        class: promised.then_some(0),
        outcome: Outcome::Done,
    }
}

/// A file of 2000 records in several blocks, with notes and checkpoints between them.
static GOOD: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let header = Header {
        log: LOG,
        segment: 1,
        oldest: 1,
        before: None,
        first_record: FIRST_RECORD,
        key: [0; 32],
        epoch_unix_ns: 7,
        store: "pool".into(),
    };
    let mut encoder = Encoder::new(header, SigningKey::from_bytes(&[7; 32]));
    let envelope = Envelope::new(Cost::requests(4), Rate::per_second(50), Span::from_millis(20));
    for flow in 0..3 {
        let slo = Slo::guaranteed(envelope.expect("valid"));
        encoder.configure(Time::ZERO, FlowId(flow), "volume", &slo);
    }
    for number in 0..2_000 {
        let record = record(number);
        encoder.on_arrival(&record.request);
        encoder.record(&record);
        match number % 601 {
            200 => encoder.change(record.completion, Change::Depth(number as u32)),
            500 => encoder.checkpoint(record.completion),
            _ => {}
        }
    }
    encoder.close(Time::from_millis(90));
    std::mem::take(encoder.output())
});

static BLOCKS: LazyLock<Vec<Block>> = LazyLock::new(|| {
    let (mut blocks, mut at, mut record) = (Vec::new(), 10, FIRST_RECORD);
    let mut codec = Codec::default();
    while at < GOOD.len() {
        let length: [u8; 4] = GOOD[at + 1..at + HEAD].try_into().expect("four");
        let end = at + HEAD + u32::from_le_bytes(length) as usize + HASH;
        let mut block = Block { all: at..end, first_record: record, events: Vec::new() };
        if GOOD[at] == 1 {
            let mut cursor = Cursor::new(&GOOD[block.payload()]);
            assert_eq!(cursor.varint(), Ok(record));
            codec.begin_block();
            while cursor.left() > TAG_BYTES {
                let start = block.payload().end - cursor.left();
                let is_record = matches!(codec.next(&mut cursor), Ok(Event::Record(_)));
                cursor.bytes(TAG_BYTES).expect("a tag");
                block.events.push((start..block.payload().end - cursor.left(), is_record, record));
                record += u64::from(is_record);
            }
        }
        blocks.push(block);
        at = end;
    }
    assert_eq!(record, FIRST_RECORD + 2_000);
    blocks
});

/// The file with the hash of a block made anew, and with `tags` those behind its events too.
fn sealed_anew(file: &[u8], block: &Block, tags: bool) -> Vec<u8> {
    let mut file = file.to_vec();
    if tags {
        let mut state = Tags::begin(&LOG, 1, block.first_record);
        for (range, ..) in &block.events {
            let tag = state.next(&file[range.start..range.end - TAG_BYTES]);
            file[range.end - TAG_BYTES..range.end].copy_from_slice(&tag);
        }
        let end = block.payload().end;
        file[end - TAG_BYTES..end].copy_from_slice(&state.closing());
    }
    let before = file[block.all.start - HASH..block.all.start].try_into().expect("a hash");
    let hash = next_chain(&before, &file[block.all.start..block.payload().end], &[]);
    file[block.payload().end..block.all.end].copy_from_slice(&hash);
    file
}

fn finding(bytes: &[u8]) -> Finding {
    read_segment(bytes, |_| ()).expect_err("found").expect("a finding")
}

/// The file with a range of bytes replaced, and the length of the block made to fit.
fn replaced(block: &Block, range: Range<usize>, by: &[u8]) -> Vec<u8> {
    let mut bytes = GOOD[..range.start].to_vec();
    bytes.extend_from_slice(by);
    bytes.extend_from_slice(&GOOD[range.end..]);
    let length = block.payload().len() - range.len() + by.len();
    bytes[block.all.start + 1..block.all.start + HEAD].copy_from_slice(&(length as u32).to_le_bytes());
    bytes
}

/// Any event, with its block.
fn event(index: prop::sample::Index) -> (Block, usize) {
    let all: usize = BLOCKS.iter().map(|block| block.events.len()).sum();
    let mut index = index.index(all);
    for block in BLOCKS.iter() {
        if index < block.events.len() {
            return (block.clone(), index);
        }
        index -= block.events.len();
    }
    unreachable!("within all of them")
}

fn part(is_record: bool) -> What {
    What::Altered { part: if is_record { Part::Record } else { Part::Note } }
}

#[test]
fn the_file_is_good_and_holds_several_blocks_of_each_kind() {
    assert!(read_segment(&GOOD[..], |_| ()).is_ok());
    let of_events = BLOCKS.iter().filter(|block| !block.events.is_empty()).count();
    assert!(of_events > 6 && BLOCKS.len() - of_events > 4, "{of_events} of {}", BLOCKS.len());
    assert!(BLOCKS.iter().flat_map(|block| &block.events).any(|(_, is_record, _)| !is_record));
}

#[test]
fn every_flipped_byte_names_what_it_belongs_to() {
    for (number, block) in (0_u64..).zip(BLOCKS.iter()) {
        // Of long blocks the beginning and the end, and every 41st byte.
        for at in block.all.clone() {
            let near_an_end = at < block.all.start + 40 || at + 48 > block.all.end;
            if !near_an_end && !at.is_multiple_of(41) {
                continue;
            }
            let mut bad = GOOD.clone();
            bad[at] ^= 1 << (at % 8);
            let found = finding(&bad);
            assert_eq!(found.block, number, "byte {at}: {found}");
            let owner = block.events.iter().find(|(range, ..)| range.contains(&at));
            match owner {
                Some((_, is_record, record)) => {
                    assert_eq!((found.record, found.what), (*record, part(*is_record)), "byte {at}: {found}");
                }
                // A header whose length goes beyond the file is as if cut off.
                None if number == 0 && matches!(found.what, What::Truncated { .. }) => {}
                None => {
                    let expected = What::Altered { part: Part::Frame };
                    assert_eq!(found.what, expected, "byte {at} of {:?}: {found}", block.all);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_byte_of_any_value_names_its_event(index: prop::sample::Index, place: prop::sample::Index, value: u8) {
        let (block, index) = event(index);
        let (range, is_record, record) = &block.events[index];
        let at = range.start + place.index(range.len());
        prop_assume!(GOOD[at] != value);
        let mut bad = GOOD.clone();
        bad[at] = value;
        let found = finding(&bad);
        prop_assert_eq!((found.record, found.what), (*record, part(*is_record)), "{}", found);
        // The hash of the block made anew hides nothing: the tags tell.
        let found = finding(&sealed_anew(&bad, &block, false));
        prop_assert_eq!(found.record, *record, "{}", found);
    }

    #[test]
    fn dropped_doubled_swapped_and_inserted_events_are_named(one: prop::sample::Index, other: prop::sample::Index) {
        let (block, index) = event(one);
        let (range, _, record) = block.events[index].clone();
        let bytes = &GOOD[range.clone()];
        let dropped = finding(&replaced(&block, range.clone(), &[]));
        prop_assert_eq!(dropped.record, record, "dropped: {}", dropped);
        let doubled = finding(&replaced(&block, range.start..range.start, bytes));
        let next = record + u64::from(block.events[index].1);
        prop_assert_eq!(doubled.record, next, "doubled: {}", doubled);
        // One from anywhere in the file inserted here.
        let (from, at) = event(other);
        let (foreign, is_record, _) = from.events[at].clone();
        if GOOD[foreign.clone()] != *bytes {
            let inserted = finding(&replaced(&block, range.start..range.start, &GOOD[foreign]));
            prop_assert_eq!((inserted.record, inserted.what), (record, part(is_record)), "inserted: {}", inserted);
        }
        // And swapped with another of the same block.
        let second = other.index(block.events.len());
        let (low, high) = (index.min(second), index.max(second));
        let ((first, _, record), (last, ..)) = (block.events[low].clone(), block.events[high].clone());
        if low < high && GOOD[first.clone()] != GOOD[last.clone()] {
            let mut swapped = GOOD[last.clone()].to_vec();
            swapped.extend_from_slice(&GOOD[first.end..last.start]);
            swapped.extend_from_slice(&GOOD[first.clone()]);
            let found = finding(&replaced(&block, first.start..last.end, &swapped));
            prop_assert_eq!(found.record, record, "swapped: {}", found);
        }
    }

    #[test]
    fn a_cut_names_the_first_record_that_is_not_whole(at: prop::sample::Index) {
        let at = BLOCKS[1].all.start + at.index(GOOD.len() - BLOCKS[1].all.start);
        let found = finding(&GOOD[..at]);
        let whole = BLOCKS.iter().flat_map(|block| &block.events);
        let lost = whole.clone().find(|(range, is_record, _)| *is_record && range.end > at);
        let last = FIRST_RECORD + 2_000;
        prop_assert_eq!(found.record, lost.map_or(last, |(.., record)| *record), "cut at {}: {}", at, found);
        let is_cut = matches!(found.what, What::Truncated { .. } | What::NoEnd);
        prop_assert!(is_cut, "{}", found);
    }

    #[test]
    fn who_makes_hash_and_tags_anew_is_told_to_the_block(index: prop::sample::Index) {
        let (block, index) = event(index);
        let (range, is_record, record) = block.events[index].clone();
        prop_assume!(is_record);
        let mut bad = GOOD.clone();
        // A read becomes a write, or the other way round.
        bad[range.start] ^= 1;
        let mut bad = sealed_anew(&bad, &block, true);
        let found = finding(&bad);
        let What::Rewritten { until } = found.what else { panic!("{record}: {found}") };
        prop_assert!((found.record..until).contains(&record), "{}", found);
        prop_assert!(until - found.record <= 601 + 400, "{}", found);
        // And every hash behind it: only the signature is left.
        let changed = BLOCKS.iter().position(|it| it.all == block.all).expect("one of them");
        for block in &BLOCKS[changed + 1..] {
            bad = sealed_anew(&bad, block, false);
        }
        let found = finding(&bad);
        let What::Rewritten { until } = found.what else { panic!("{record}: {found}") };
        prop_assert!((found.record..until).contains(&record), "{}", found);
    }
}
