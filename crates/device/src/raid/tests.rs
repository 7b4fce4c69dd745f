//! Arrays of devices that remember what they were asked.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};

use super::*;
use crate::ConstantRate;
use evenkeel_core::Rate;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

/// Which accesses reached which member.
type Log = Arc<Mutex<Vec<(usize, Operation, u64, u32)>>>;

/// Takes a millisecond for everything, one access at a time.
struct Recorder(usize, ConstantRate, Log);

impl Device for Recorder {
    fn submit(&mut self, now: Time, io: Io) {
        self.2.lock().unwrap().push((self.0, io.operation, io.offset, io.length));
        self.1.submit(now, io);
    }

    fn next_event(&self) -> Option<Time> {
        self.1.next_event()
    }

    fn poll_completion(&mut self, now: Time) -> Option<Finished> {
        self.1.poll_completion(now)
    }
}

fn array(parameters: Parameters, members: usize, capacity: u64) -> (Raid, Log) {
    let log = Log::default();
    let member = |index| -> (Box<dyn Device + Send>, u64) {
        let disk = ConstantRate::new(Rate::per_second(1_000), NonZeroU32::MIN);
        (Box::new(Recorder(index, disk, log.clone())), capacity)
    };
    (Raid::new(parameters, (0..members).map(member).collect()).expect("fine"), log)
}

fn level(level: Level) -> Parameters {
    Parameters::new(level)
}

/// Submits one access at `now` and runs it to its end: milliseconds taken, milliseconds of disks.
fn run(raid: &mut Raid, now: Time, operation: Operation, offset: u64, length: u64) -> (u64, u64) {
    raid.submit(now, Io { token: 1, operation, offset, length: length as u32 });
    loop {
        let at = raid.next_event().expect("the access is under way");
        if let Some(over) = raid.poll_completion(at) {
            assert_eq!(over.at, at);
            return (over.at.since(now).as_nanos() / 1_000_000, over.busy.as_nanos() / 1_000_000);
        }
    }
}

#[test]
fn capacities_are_those_of_disksim() {
    // Sectors of eight ST39102LW with stripe units of 128 sectors.
    let members = vec![17_783_240_u64 * 512; 8];
    let sectors = |kind| level(kind).capacity(&members).map(|bytes| bytes / 512);
    assert_eq!(sectors(Level::Raid5), Ok(17_783_168 * 7));
    assert_eq!(sectors(Level::Jbod), Ok(17_783_240 * 8));
    assert_eq!(sectors(Level::Raid1), Ok(17_783_240));
    assert_eq!(sectors(Level::Raid10), Ok(17_783_168 * 4));
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |parameters: Parameters, members: &[u64]| parameters.capacity(members).unwrap_err().key;
    assert_eq!(refused(level(Level::Raid5), &[MIB; 2]), "members");
    assert_eq!(refused(level(Level::Raid10), &[MIB; 3]), "members");
    assert_eq!(refused(level(Level::Raid0), &[100; 3]), "members");
    assert_eq!(refused(Parameters { failed: Some(0), ..level(Level::Raid0) }, &[MIB; 3]), "failed");
    assert_eq!(refused(Parameters { failed: Some(3), ..level(Level::Raid5) }, &[MIB; 3]), "failed");
    assert_eq!(refused(Parameters { stripe_unit: 0, ..level(Level::Raid5) }, &[MIB; 3]), "stripe_unit");
}

#[test]
fn a_small_write_takes_two_rounds_and_a_whole_row_one() {
    let (mut raid, log) = array(level(Level::Raid5), 5, MIB);
    assert_eq!(run(&mut raid, Time::ZERO, Operation::Write, 4096, 4096), (2, 4));
    assert_eq!(
        raid.disk_times().map(|time| time.as_nanos() / 1_000_000).collect::<Vec<_>>(),
        [2, 0, 0, 0, 2]
    );
    let small = [(0, Operation::Read), (4, Operation::Read), (0, Operation::Write), (4, Operation::Write)];
    assert_eq!(log.lock().unwrap().iter().map(|access| (access.0, access.1)).collect::<Vec<_>>(), small);
    assert!(log.lock().unwrap().iter().all(|access| (access.2, access.3) == (4096, 4096)));
    let row = 4 * 65_536;
    assert_eq!(run(&mut raid, Time::from_millis(10), Operation::Write, 0, row), (1, 5));
    // Two rows, each on its own: one whole, one small; they share two disks for a round.
    assert_eq!(run(&mut raid, Time::from_millis(20), Operation::Write, 0, row + 512).1, 9);
}

#[test]
fn a_write_across_two_units_updates_only_the_parity_that_changes() {
    let (mut raid, log) = array(level(Level::Raid5), 5, MIB);
    let (took, disks) = run(&mut raid, Time::ZERO, Operation::Write, 65_536 - 1_024, 1_536);
    // Two small updates: the parity's disk reads twice and writes twice.
    assert_eq!((took, disks), (4, 8));
    assert_eq!(log.lock().unwrap().iter().map(|access| access.3).sum::<u32>(), 4 * 1_536);
}

#[test]
fn data_may_be_written_before_all_reads_are_over() {
    // The parity's disk is busy for three more milliseconds: the data need not wait for it.
    let writes_at = |write_after| {
        let (mut raid, log) = array(Parameters { write_after, ..level(Level::Raid5) }, 4, MIB);
        for token in 0..3 {
            // Unit 3, the first of row 1, is on the disk of row 0's parity (see layout.rs).
            let offset = 3 * 65_536;
            raid.submit(Time::ZERO, Io { token: 7 + token, operation: Operation::Read, offset, length: 512 });
        }
        raid.submit(Time::ZERO, Io { token: 1, operation: Operation::Write, offset: 0, length: 512 });
        let mut seen = Vec::new();
        while let Some(at) = raid.next_event() {
            raid.poll_completion(at);
            let writes = log.lock().unwrap().iter().filter(|access| access.1 == Operation::Write).count();
            seen.push((at.as_nanos() / 1_000_000, writes));
        }
        let first = |count| seen.iter().find(|(_, writes)| *writes >= count).expect("both are written").0;
        (first(1), first(2), seen.last().expect("something").0)
    };
    assert_eq!(writes_at(WriteAfter::OwnRead), (1, 4, 5));
    assert_eq!(writes_at(WriteAfter::AllReads), (4, 4, 5));
}

#[test]
fn a_long_read_is_one_access_to_each_disk() {
    for (kind, disks) in [(Level::Raid0, 4), (Level::Raid5, 4), (Level::Raid10, 4)] {
        let (mut raid, log) = array(level(kind), disks, MIB);
        let (took, _) = run(&mut raid, Time::ZERO, Operation::Read, 0, 12 * 65_536);
        let accesses = log.lock().unwrap().len();
        if kind == Level::Raid0 {
            assert_eq!((took, accesses), (1, 4));
        }
        let read: u64 = log.lock().unwrap().iter().map(|access| u64::from(access.3)).sum();
        assert_eq!(read, 12 * 65_536, "{kind:?}");
    }
}

#[test]
fn mirrors_write_everywhere_and_spread_reads() {
    for (read_from, expected) in [
        (ReadFrom::First, vec![0, 0, 0]),
        (ReadFrom::InTurn, vec![1, 2, 0]),
        (ReadFrom::Shortest, vec![0, 1, 2]),
    ] {
        let (mut raid, log) = array(Parameters { read_from, ..level(Level::Raid1) }, 3, MIB);
        for token in 0..3 {
            raid.submit(Time::ZERO, Io { token, operation: Operation::Read, offset: 0, length: 512 });
        }
        assert_eq!(log.lock().unwrap().iter().map(|access| access.0).collect::<Vec<_>>(), expected);
    }
    let (mut raid, _) = array(level(Level::Raid1), 3, MIB);
    assert_eq!(run(&mut raid, Time::ZERO, Operation::Write, 0, 512), (1, 3));
    // The nearest of the idle: each disk's last access ended where its last read or write did.
    let (mut raid, log) = array(level(Level::Raid1), 2, MIB);
    raid.submit(Time::ZERO, Io { token: 0, operation: Operation::Read, offset: 0, length: 512 });
    raid.submit(Time::ZERO, Io { token: 1, operation: Operation::Read, offset: 800_000, length: 512 });
    while raid.poll_completion(Time::from_millis(5)).is_some() {}
    run(&mut raid, Time::from_millis(5), Operation::Read, 700_000, 512);
    assert_eq!(log.lock().unwrap()[2].0, 1);
}

#[test]
fn a_degraded_array_reads_from_the_others() {
    let (mut raid, log) = array(Parameters { failed: Some(1), ..level(Level::Raid5) }, 4, MIB);
    assert_eq!(run(&mut raid, Time::ZERO, Operation::Read, 65_536, 512), (1, 3));
    assert_eq!(run(&mut raid, Time::from_millis(9), Operation::Write, 65_536, 512), (2, 3));
    assert_eq!(run(&mut raid, Time::from_millis(19), Operation::Flush, 0, 0), (1, 3));
    assert!(log.lock().unwrap().iter().all(|access| access.0 != 1));
    let (mut mirror, log) = array(Parameters { failed: Some(0), ..level(Level::Raid1) }, 2, MIB);
    assert_eq!(run(&mut mirror, Time::ZERO, Operation::Write, 0, 512), (1, 1));
    run(&mut mirror, Time::from_millis(9), Operation::Read, 0, 512);
    assert!(log.lock().unwrap().iter().all(|access| access.0 == 1));
}

#[test]
fn an_access_beyond_the_end_is_over_at_once() {
    let (mut raid, log) = array(level(Level::Raid0), 2, MIB);
    assert_eq!(run(&mut raid, Time::ZERO, Operation::Read, 2 * MIB, 4096), (0, 0));
    assert!(log.lock().unwrap().is_empty());
}

fn levels() -> impl Strategy<Value = Parameters> {
    let layouts = [
        ParityLayout::LeftSymmetric,
        ParityLayout::LeftAsymmetric,
        ParityLayout::RightSymmetric,
        ParityLayout::RightAsymmetric,
    ];
    let kinds = [Level::Jbod, Level::Raid0, Level::Raid1, Level::Raid5, Level::Raid10];
    let updates = [ParityUpdate::FewestReads, ParityUpdate::ReadModifyWrite, ParityUpdate::Reconstruct];
    (0_usize..5, 0_usize..4, 0_usize..3, 1_u32..5, any::<bool>()).prop_map(
        move |(kind, layout, update, unit, fails)| Parameters {
            stripe_unit: unit * 1024,
            parity_layout: layouts[layout],
            parity_update: updates[update],
            write_after: if unit % 2 == 0 { WriteAfter::OwnRead } else { WriteAfter::AllReads },
            failed: (fails && !matches!(kinds[kind], Level::Jbod | Level::Raid0)).then_some(1),
            ..level(kinds[kind])
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_byte_has_a_place_of_its_own(parameters in levels()) {
        let parameters = Parameters { failed: None, ..parameters };
        let (mut raid, log) = array(parameters, 4, 24 << 10);
        let mut places = BTreeSet::new();
        for sector in 0..raid.capacity() / 512 {
            run(&mut raid, Time::from_millis(10 * sector), Operation::Read, sector * 512, 512);
            for (member, _, offset, length) in log.lock().unwrap().drain(..) {
                prop_assert_eq!(length, 512);
                prop_assert!(offset + 512 <= 24 << 10);
                let place = if parameters.level == Level::Raid1 { (0, offset) }
                    else if parameters.level == Level::Raid10 { (member / 2, offset) }
                    else { (member, offset) };
                prop_assert!(places.insert(place), "sector {} shares a place", sector);
            }
        }
        prop_assert_eq!(places.len() as u64, raid.capacity() / 512);
    }

    #[test]
    fn nothing_is_lost_and_a_late_driver_sees_the_same(
        parameters in levels(),
        accesses in prop::collection::vec((0_u64..3_000_000, 0_u8..5, 0_u64..50, 1_u32..40), 1..40),
    ) {
        let operations =
            [Operation::Read, Operation::Write, Operation::Flush, Operation::Trim, Operation::WriteZeroes];
        let drive = |eager: bool| {
            let (mut raid, log) = array(parameters, 4, 24 << 10);
            let (mut now, mut seen) = (0, Vec::new());
            for (token, (gap, operation, sector, sectors)) in accesses.iter().enumerate() {
                now += gap;
                while eager && raid.next_event().is_some_and(|at| at.as_nanos() < now) {
                    let at = raid.next_event().unwrap();
                    seen.extend(raid.poll_completion(at));
                }
                let operation = operations[usize::from(*operation)];
                let io = Io { token: token as u64, operation, offset: sector * 512, length: sectors * 512 };
                raid.submit(Time::from_nanos(now), io);
            }
            seen.extend(std::iter::from_fn(|| raid.poll_completion(Time::from_nanos(u64::MAX))));
            let disks: u64 = raid.disk_times().map(|time| time.as_nanos()).sum();
            let asked = log.lock().unwrap().len() as u64;
            assert_eq!(disks, asked * 1_000_000, "every access to a member is accounted for");
            assert_eq!(seen.iter().map(|over| over.busy.as_nanos()).sum::<u64>(), disks);
            assert!(raid.requests.is_empty() && raid.jobs.is_empty());
            assert!(log.lock().unwrap().iter().all(|access| Some(access.0) != parameters.failed));
            seen
        };
        let (eager, late) = (drive(true), drive(false));
        prop_assert_eq!(eager.len(), accesses.len());
        let sorted = |mut all: Vec<Finished>| {
            all.sort_by_key(|over| over.token);
            all
        };
        prop_assert_eq!(sorted(eager), sorted(late));
    }
}
