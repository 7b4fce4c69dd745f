//! The whole drive: worked examples of the buffer, and laws.

use super::parameters::tests::small;
use super::parameters::{Policy, ReadAhead};
use super::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

/// The drive for sums by hand with a buffer of 2 segments of 8 sectors that reads ahead.
fn buffered(change: impl Fn(&mut Parameters)) -> Disk {
    let mut drive = small();
    drive.cache.read = true;
    drive.cache.segments = 2;
    drive.cache.segment_sectors = 8;
    drive.cache.read_ahead = ReadAhead::Segment;
    change(&mut drive);
    Disk::new(&drive).expect("valid parameters")
}

/// When an access that is submitted at `at` to the idle drive is over; nanoseconds.
fn at(disk: &mut Disk, at: u64, operation: Operation, lbn: u64, sectors: u32) -> u64 {
    disk.submit(Time::from_nanos(at), Io { token: 0, operation, offset: lbn * 512, length: sectors * 512 });
    let finish = disk.next_event().expect("it is in service");
    disk.poll_completion(finish).expect("it finishes").at.as_nanos()
}

fn read(disk: &mut Disk, now: u64, lbn: u64, sectors: u32) -> u64 {
    at(disk, now, Operation::Read, lbn, sectors)
}

fn write(disk: &mut Disk, now: u64, lbn: u64, sectors: u32) -> u64 {
    at(disk, now, Operation::Write, lbn, sectors)
}

#[test]
fn what_was_read_ahead_comes_from_the_buffer() {
    let mut disk = buffered(|_| {});
    assert_eq!(read(&mut disk, 0, 0, 1), MS + MS / 10);
    // Sectors 1 to 4 have come in; two of them take 0.2 ms on the bus.
    assert_eq!(read(&mut disk, 5 * MS, 2, 2), 5 * MS + MS / 5);
    // Sector 5 has come in, 6 and 7 have not: the last is there at 8 ms.
    assert_eq!(read(&mut disk, 6 * MS, 5, 3), 8 * MS + MS / 10);
}

#[test]
fn the_sector_under_the_head_is_waited_for_if_the_drive_can() {
    let mut starts_anew = buffered(|_| {});
    read(&mut starts_anew, 0, 0, 1);
    assert_eq!(read(&mut starts_anew, 3 * MS + MS / 2, 3, 1), 14 * MS + MS / 10);
    let mut waits = buffered(|drive| drive.cache.almost_read_hits = true);
    read(&mut waits, 0, 0, 1);
    assert_eq!(read(&mut waits, 3 * MS + MS / 2, 3, 1), 4 * MS + MS / 10);
}

#[test]
fn a_segment_holds_its_size_and_pushes_out_or_keeps_what_was_asked_for() {
    let mut pushes_out = buffered(|_| {});
    read(&mut pushes_out, 0, 0, 2);
    // Eight more sectors fill the segment by 10 ms; 1 must be read again.
    assert!(read(&mut pushes_out, 60 * MS, 1, 1) > 61 * MS);
    let mut keeps = buffered(|drive| drive.cache.keep_requested = true);
    read(&mut keeps, 0, 0, 2);
    assert_eq!(read(&mut keeps, 60 * MS, 1, 1), 60 * MS + MS / 10);
    assert!(read(&mut keeps, 70 * MS, 8, 1) > 71 * MS, "nothing beyond the segment");
}

#[test]
fn reading_ahead_stops_where_the_drive_says() {
    let ends = |read_ahead, segment_sectors, probe| {
        let mut disk = buffered(|drive| {
            drive.cache.read_ahead = read_ahead;
            drive.cache.segment_sectors = segment_sectors;
        });
        read(&mut disk, 0, 0, 1);
        read(&mut disk, 100 * MS + 500_000, probe, 1) == 100 * MS + 600_000
    };
    assert!(ends(ReadAhead::Track, 64, 9) && !ends(ReadAhead::Track, 64, 10));
    assert!(ends(ReadAhead::Cylinder, 64, 19) && !ends(ReadAhead::Cylinder, 64, 20));
    assert!(ends(ReadAhead::NextTrack, 64, 9) && !ends(ReadAhead::NextTrack, 64, 10));
    assert!(ends(ReadAhead::Segment, 16, 16) && !ends(ReadAhead::Segment, 16, 17));
    assert!(!ends(ReadAhead::None, 16, 1));
}

#[test]
fn the_least_that_is_read_ahead_comes_in_before_another_command_has_the_heads() {
    let with = |read_ahead_sectors_min| {
        buffered(|drive| {
            drive.cache.read_ahead_sectors_min = read_ahead_sectors_min;
            drive.cache.segment_sectors = 32;
        })
    };
    // Sector 0 is read at 1 ms; another read comes at once, for cylinder 4 (6 ms away), sector 9.
    let far = 4 * 20 + 9;
    let second = |least| {
        let mut disk = with(least);
        read(&mut disk, 0, 0, 1);
        let second = read(&mut disk, MS + MS / 10, far, 1);
        (second, read(&mut disk, 60 * MS + MS / 2, least.max(1).into(), 1))
    };
    // Without a least the sector under way is completed at 2 ms: there at 8 ms, read at 10 ms.
    let (at, again) = second(0);
    assert_eq!(at, 10 * MS + MS / 10);
    assert!(again > 61 * MS, "sector 1 was not kept");
    // Four sectors more are in at 5 ms: there at 11 ms, read at 20 ms.
    assert_eq!(second(4), (20 * MS + MS / 10, 60 * MS + MS / 2 + MS / 10));
    // Over the end of the track: sectors 10 to 12 come in from 20 to 23 ms; there at 29 ms, just in time.
    assert_eq!(second(12), (30 * MS + MS / 10, 60 * MS + MS / 2 + MS / 10));
    // What had come in by then costs nothing.
    let mut disk = with(4);
    read(&mut disk, 0, 0, 1);
    assert_eq!(read(&mut disk, 7 * MS + MS / 2, far, 1), 20 * MS + MS / 10);
}

#[test]
fn a_stream_is_recognised_after_as_many_reads_as_the_drive_asks_for() {
    let mut disk = buffered(|drive| {
        drive.cache.read_ahead_after = 1;
        drive.cache.segment_sectors = 32;
    });
    read(&mut disk, 0, 0, 1);
    assert!(read(&mut disk, 50 * MS, 1, 1) > 51 * MS, "nothing was read ahead yet");
    assert_eq!(read(&mut disk, 100 * MS, 2, 1), 100 * MS + MS / 10);
}

#[test]
fn after_a_hit_the_drive_goes_on_reading_if_it_is_that_kind() {
    let beyond_the_first_segment = |on_hit| {
        let mut disk = buffered(|drive| drive.cache.read_ahead_on_hit = on_hit);
        read(&mut disk, 0, 0, 1);
        read(&mut disk, 50 * MS, 6, 1);
        read(&mut disk, 100 * MS + 500_000, 12, 1) == 100 * MS + 600_000
    };
    assert!(beyond_the_first_segment(true));
    assert!(!beyond_the_first_segment(false));
}

#[test]
fn sectors_that_pass_before_the_wanted_one_may_be_kept() {
    let again = |free_reads| {
        let mut disk = buffered(|drive| {
            drive.cache.free_reads = free_reads;
            drive.cache.read_ahead = ReadAhead::Track;
        });
        // The heads are there from the start, and 4 sectors pass before the wanted one at 5 ms.
        read(&mut disk, MS, 5, 1);
        read(&mut disk, 50 * MS, 2, 1) == 50 * MS + MS / 10
    };
    assert!(again(true));
    assert!(!again(false));
}

#[test]
fn the_least_recently_used_segment_goes_first() {
    let mut disk = buffered(|drive| drive.cache.read_ahead = ReadAhead::None);
    read(&mut disk, 0, 0, 1);
    read(&mut disk, 50 * MS, 40, 1);
    read(&mut disk, 100 * MS, 0, 1);
    read(&mut disk, 150 * MS, 80, 1);
    assert_eq!(read(&mut disk, 200 * MS, 0, 1), 200 * MS + MS / 10);
    assert!(read(&mut disk, 250 * MS, 40, 1) > 251 * MS);
}

#[test]
fn a_buffered_write_is_reported_early_and_holds_the_heads() {
    let mut disk = buffered(|drive| drive.cache.write_buffering = true);
    assert_eq!(write(&mut disk, 0, 5, 1), MS / 10);
    // What follows on joins it: sector 6 is on the medium at 7 ms.
    assert_eq!(write(&mut disk, MS, 6, 1), MS + MS / 10);
    assert_eq!(at(&mut disk, 2 * MS, Operation::Flush, 0, 0), 7 * MS);
    // The heads come free at 7 ms; sector 8 is read at 9 ms.
    assert_eq!(read(&mut disk, 2 * MS, 8, 1), 9 * MS + MS / 10);
    // Beyond a segment there is nothing to report early: the last sector is written at 13 + 10 ms.
    assert_eq!(write(&mut disk, 10 * MS, 0, 9), 29 * MS);
}

#[test]
fn what_was_written_is_read_from_the_buffer_only_if_the_drive_does_that() {
    let read_back = |serves| {
        let mut disk = buffered(|drive| {
            drive.cache.write_buffering = true;
            drive.cache.read_hits_on_write_data = serves;
        });
        write(&mut disk, 0, 5, 1);
        read(&mut disk, 50 * MS, 5, 1) == 50 * MS + MS / 10
    };
    assert!(read_back(true));
    assert!(!read_back(false));
}

#[test]
fn a_write_makes_what_was_read_before_it_stale() {
    let mut disk = buffered(|_| {});
    read(&mut disk, 0, 0, 4);
    write(&mut disk, 50 * MS, 3, 1);
    assert!(read(&mut disk, 100 * MS + 500_000, 1, 1) > 101 * MS);
}

#[test]
fn overheads_depend_on_the_command_before() {
    let mut drive = small();
    drive.overhead_ns.read_miss_after_read = MS / 4;
    drive.overhead_ns.read_miss_after_write = MS / 2;
    drive.overhead_ns.write_miss_after_read = 3 * MS / 4;
    let mut disk = Disk::new(&drive).unwrap();
    assert_eq!(read(&mut disk, 3 * MS / 4, 1, 1), 2 * MS + MS / 10, "0.25 ms are just in time");
    assert_eq!(write(&mut disk, 10 * MS + MS / 4 - 100_000, 1, 1), 12 * MS);
    assert_eq!(read(&mut disk, 20 * MS + MS / 2, 1, 1), 22 * MS + MS / 10);
}

#[test]
fn a_trim_is_over_at_once_and_bytes_are_widened_to_sectors() {
    let mut disk = buffered(|drive| drive.cache = Default::default());
    assert_eq!(at(&mut disk, 5, Operation::Trim, 0, 100), 5);
    disk.submit(Time::ZERO, Io { token: 1, operation: Operation::Read, offset: 1_000, length: 100 });
    // Bytes 1000 to 1099 lie in sectors 1 and 2.
    assert_eq!(disk.next_event(), Some(Time::from_nanos(3 * MS + MS / 10)));
}

#[test]
fn what_comes_at_the_instant_of_a_completion_is_chosen_from() {
    let mut drive = small();
    drive.queue.policy = Policy::Sstf;
    let mut disk = Disk::new(&drive).unwrap();
    let io = |token, lbn: u64| Io { token, operation: Operation::Read, offset: lbn * 512, length: 512 };
    disk.submit(Time::ZERO, io(0, 0));
    disk.submit(Time::ZERO, io(1, 180));
    let first = disk.next_event().unwrap();
    assert_eq!(disk.poll_completion(first).map(|f| f.token), Some(0));
    disk.submit(first, io(2, 5));
    assert_eq!(disk.outstanding(), 2);
    assert_eq!(disk.next_event(), Some(first), "the drive has a choice to make");
    assert_eq!(disk.poll_completion(first), None);
    let second = disk.next_event().unwrap();
    assert_eq!(disk.poll_completion(second).map(|f| f.token), Some(2));
}

#[test]
fn the_end_of_time_is_no_accident() {
    let mut disk = buffered(|drive| drive.cache.write_buffering = true);
    assert_eq!(write(&mut disk, u64::MAX - 1, 5, 1), u64::MAX);
    assert_eq!(read(&mut disk, u64::MAX, 5, 1), u64::MAX);
    let mut slow = buffered(|drive| {
        drive.cache.write_buffering = true;
        (drive.bus.sector_ns, drive.rpm) = (4_000_000_000, 100_000);
    });
    assert!(write(&mut slow, (1 << 63) - 1, 0, 200) > 1 << 63);
}

proptest! {
    #[test]
    fn everything_finishes_once_and_in_order_of_time(
        policy in prop::sample::select(vec![Policy::Fcfs, Policy::Sstf, Policy::CLook, Policy::Sptf]),
        cached: bool, fast_writes: bool, almost: bool,
        load in prop::collection::vec((0_u64..20 * MS, 0_u64..250, 0_u32..30, 0_u8..5), 1..80),
    ) {
        let mut drive = small();
        drive.queue.policy = policy;
        if cached {
            drive = buffered_parameters(drive, almost, fast_writes);
        }
        let mut disk = Disk::new(&drive).unwrap();
        let (mut now, mut done, mut last) = (Time::ZERO, vec![false; load.len()], Time::ZERO);
        let mut collect = |disk: &mut Disk, until: Time, done: &mut Vec<bool>| {
            while let Some(finished) = disk.poll_completion(until) {
                assert!(!std::mem::replace(&mut done[finished.token as usize], true), "finished twice");
                assert!(finished.at >= last, "time went back");
                last = finished.at;
            }
        };
        for (token, (gap, lbn, sectors, kind)) in load.iter().enumerate() {
            now += Span::from_nanos(*gap);
            while let Some(event) = disk.next_event().filter(|event| *event <= now) {
                collect(&mut disk, event, &mut done);
            }
            let operation = [Operation::Read, Operation::Write, Operation::Read, Operation::Flush, Operation::Trim]
                [usize::from(*kind)];
            disk.submit(now, Io { token: token as u64, operation, offset: lbn * 512, length: sectors * 512 });
        }
        while let Some(event) = disk.next_event() {
            collect(&mut disk, event, &mut done);
        }
        prop_assert!(done.iter().all(|done| *done));
        prop_assert_eq!(disk.outstanding(), 0);
    }

    #[test]
    fn the_same_load_takes_the_same_time(load in prop::collection::vec((0_u64..200, 1_u32..9, any::<bool>()), 1..40)) {
        let run = || {
            let mut disk = buffered(|drive| drive.cache.write_buffering = true);
            let mut now = 0;
            for (lbn, sectors, is_read) in &load {
                let operation = if *is_read { Operation::Read } else { Operation::Write };
                now = at(&mut disk, now, operation, *lbn, *sectors);
            }
            now
        };
        prop_assert_eq!(run(), run());
    }
}

fn buffered_parameters(mut drive: Parameters, almost: bool, fast_writes: bool) -> Parameters {
    drive.cache.read = true;
    drive.cache.segments = 3;
    drive.cache.segment_sectors = 12;
    drive.cache.read_ahead = ReadAhead::NextTrack;
    drive.cache.almost_read_hits = almost;
    drive.cache.write_buffering = fast_writes;
    drive.cache.read_hits_on_write_data = almost;
    drive
}
