//! What becomes of requests when the fast device is lost while they are on their way there.

use evenkeel_core::{FlowId, Operation};
use evenkeel_tiering::policy::Lru;
use evenkeel_tiering::store::{Background, HybridRequest, Output, TierAccess};
use evenkeel_tiering::{Blocks, Change, Entry, Geometry, Hybrid, Tier};

fn store() -> Hybrid {
    let geometry = Geometry::new(4096, 1024).expect("valid");
    let background = Background { migrations_max: 0, ..Background::default() };
    Hybrid::new(geometry, 1 << 20, 64 << 10, Box::<Lru>::default(), background, []).expect("empty")
}

fn request(token: u64, flow: u32, operation: Operation, offset: u64, length: u32) -> HybridRequest {
    HybridRequest { token, flow: FlowId(flow), operation, fua: false, offset, length }
}

fn access(hybrid: &mut Hybrid) -> TierAccess {
    match hybrid.poll_output() {
        Some(Output::Access(access)) => access,
        other => panic!("an access was to come: {other:?}"),
    }
}

fn done(hybrid: &mut Hybrid) -> (u64, bool) {
    match hybrid.poll_output() {
        Some(Output::Done { token, outcome }) => (token, outcome.is_ok()),
        other => panic!("an answer was to come: {other:?}"),
    }
}

/// Carries a flush to its end; whether it succeeded.
fn flush(hybrid: &mut Hybrid, flow: u32) -> bool {
    hybrid.submit(&request(99, flow, Operation::Flush, 0, 0));
    loop {
        match hybrid.poll_output().expect("the flush goes on") {
            Output::Sync(tier) => hybrid.on_sync_done(tier, true),
            Output::Commit(_) => hybrid.on_commit_done(true),
            Output::Done { token: 99, outcome } => return outcome.is_ok(),
            other => panic!("not asked for: {other:?}"),
        }
    }
}

#[test]
fn a_write_on_its_way_to_a_new_place_goes_home_and_its_flow_flushes() {
    let mut hybrid = store();
    hybrid.submit(&request(1, 7, Operation::Write, 8192, 2048));
    let first = access(&mut hybrid);
    assert_eq!((first.tier, first.length), (Tier::Fast, 2048));
    hybrid.on_tier_lost(Tier::Fast);
    hybrid.on_access_done(first.id, false);
    let again = access(&mut hybrid);
    assert_eq!((again.tier, again.offset, again.length, again.within), (Tier::Slow, 8192, 2048, 0));
    hybrid.on_access_done(again.id, true);
    assert_eq!(done(&mut hybrid), (1, true));
    assert!(flush(&mut hybrid, 7), "nothing of it was ever on the fast device");
    hybrid.submit(&request(2, 7, Operation::Read, 8192, 2048));
    assert_eq!(access(&mut hybrid).tier, Tier::Slow);
}

#[test]
fn what_was_there_fails_and_who_wrote_there_is_told() {
    let mut hybrid = store();
    for (token, flow, offset) in [(1, 1, 0), (2, 2, 4096)] {
        hybrid.submit(&request(token, flow, Operation::Write, offset, 1024));
        let access = access(&mut hybrid);
        hybrid.on_access_done(access.id, true);
        assert_eq!(done(&mut hybrid), (token, true));
    }
    assert!(flush(&mut hybrid, 1), "flow 1 has flushed, flow 2 with it");
    hybrid.submit(&request(3, 2, Operation::Write, 4096, 1024));
    let unsynced = access(&mut hybrid);
    hybrid.on_access_done(unsynced.id, true);
    assert_eq!(done(&mut hybrid), (3, true));
    hybrid.on_tier_lost(Tier::Fast);
    assert!(flush(&mut hybrid, 1), "nothing of flow 1 was under way");
    assert!(!flush(&mut hybrid, 2), "its last write may be gone");
    hybrid.submit(&request(4, 1, Operation::Read, 0, 1024));
    assert_eq!(done(&mut hybrid), (4, false));
    hybrid.submit(&request(5, 3, Operation::Write, 64 << 10, 1024));
    let access = access(&mut hybrid);
    assert_eq!(access.tier, Tier::Slow, "nothing goes there any more");
    hybrid.on_access_done(access.id, true);
    assert_eq!(done(&mut hybrid), (5, true));
    assert!(flush(&mut hybrid, 3));
}

#[test]
fn without_the_fast_device_from_the_start_blocks_come_back_as_they_are_overwritten() {
    let geometry = Geometry::new(4096, 1024).expect("valid");
    let entry = |slot, first| Entry { slot, on_fast: Blocks::range(first, 4) };
    let stored = [(0, entry(0, 0)), (5, entry(3, 2))];
    let policy = Box::<Lru>::default();
    let mut hybrid =
        Hybrid::new(geometry, 1 << 20, 64 << 10, policy, Background::default(), stored).expect("sound");
    hybrid.without_fast();
    assert_eq!(hybrid.fast_bytes_within(&(0..1 << 20)), (4 + 2) * 1024);
    assert_eq!(hybrid.fast_bytes_within(&(3000..5 * 4096 + 2048 + 500)), 4096 - 3000 + 500);
    hybrid.submit(&request(1, 1, Operation::Read, 1024, 512));
    assert_eq!(done(&mut hybrid), (1, false), "its newest content is not here");
    hybrid.submit(&request(2, 1, Operation::Write, 1024, 512));
    assert_eq!(done(&mut hybrid), (2, false), "a part of a block cannot be joined to the rest");
    hybrid.submit(&request(3, 1, Operation::Read, 5 * 4096, 2048));
    let home = access(&mut hybrid);
    assert_eq!((home.tier, home.length), (Tier::Slow, 2048), "its neighbours are at home");
    hybrid.on_access_done(home.id, true);
    assert_eq!(done(&mut hybrid), (3, true));
    assert!(flush(&mut hybrid, 1));
    // One block of cluster 0 is written anew, and the map that says so becomes durable.
    hybrid.submit(&request(4, 1, Operation::Write, 1024, 1024));
    let again = access(&mut hybrid);
    assert_eq!((again.tier, again.offset), (Tier::Slow, 1024));
    hybrid.on_access_done(again.id, true);
    assert_eq!(done(&mut hybrid), (4, true));
    hybrid.submit(&request(5, 1, Operation::Flush, 0, 0));
    assert_eq!(hybrid.poll_output(), Some(Output::Sync(Tier::Slow)), "and not the other one");
    hybrid.on_sync_done(Tier::Slow, true);
    let left = Blocks::range(0, 4).without(Blocks::range(1, 2));
    let change = Change { cluster: 0, entry: Some(Entry { slot: 0, on_fast: left }) };
    assert_eq!(hybrid.poll_output(), Some(Output::Commit(vec![change])));
    hybrid.on_commit_done(true);
    assert_eq!(done(&mut hybrid), (5, true));
    hybrid.submit(&request(6, 2, Operation::Read, 1024, 1024));
    assert_eq!(access(&mut hybrid).tier, Tier::Slow);
    assert_eq!(hybrid.entries(), [(0, Entry { slot: 0, on_fast: left }), (5, entry(3, 2))]);
}

#[test]
fn a_part_of_a_block_that_is_there_is_not_sent_home() {
    let mut hybrid = store();
    hybrid.submit(&request(1, 1, Operation::Write, 0, 1024));
    let whole = access(&mut hybrid);
    hybrid.on_access_done(whole.id, true);
    assert_eq!(done(&mut hybrid), (1, true));
    hybrid.submit(&request(2, 1, Operation::Write, 512, 256));
    let part = access(&mut hybrid);
    assert_eq!(part.tier, Tier::Fast);
    hybrid.on_tier_lost(Tier::Fast);
    hybrid.on_access_done(part.id, false);
    assert_eq!(done(&mut hybrid), (2, false));
}
