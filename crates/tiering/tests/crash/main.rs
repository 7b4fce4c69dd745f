//! The hybrid store under random operations, faults and crashes, checked against what each client was
//! told.
//!
//! ```text
//!  seed ─> operations ─> Hybrid ─> outputs, completed in any order, some of them failing
//!                                     │ devices: what is not synced may be lost, torn, reordered
//!            crash at any step ───────┤ map: a commit under way may have taken place or not
//!                                     v
//!            recovery: each sector holds what was last flushed, or something newer
//! ```
//! Each run prints its seed on failure. `EVENKEEL_CRASH_SEED=n` repeats one, `EVENKEEL_CRASH_RUNS=n` makes
//! more of them.

mod device;
mod history;
mod world;

use world::World;

/// A small generator (splitmix64): the same seed gives the same run on every machine.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// True `percent` times in a hundred.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}

/// What may go wrong in a run, besides the crash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    pub(crate) access_percent: u64,
    pub(crate) sync_percent: u64,
    pub(crate) commit_percent: u64,
    /// Lives that begin without the fast device.
    pub(crate) absent_percent: u64,
}

const NONE: Faults = Faults { access_percent: 0, sync_percent: 0, commit_percent: 0, absent_percent: 0 };
const SOME: Faults = Faults { access_percent: 3, sync_percent: 2, commit_percent: 10, absent_percent: 0 };
const ABSENT: Faults = Faults { absent_percent: 50, ..NONE };

fn runs(default: u64) -> Box<dyn Iterator<Item = u64>> {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    match number("EVENKEEL_CRASH_SEED") {
        Some(seed) => Box::new(std::iter::once(seed)),
        None => Box::new(0..number("EVENKEEL_CRASH_RUNS").unwrap_or(default)),
    }
}

/// Several lives of one store: operations, a crash, recovery, operations on what was recovered …
fn lives(seed: u64, faults: Faults) {
    let mut world = World::new(seed, faults);
    for _ in 0..3 {
        let steps = 20 + world.random.below(400);
        world.operate(steps);
        world.crash_and_recover();
    }
    world.faults = NONE;
    world.settle();
    world.check_everything("at the end");
}

#[test]
fn no_flushed_write_is_lost_by_a_crash() {
    for seed in runs(1500) {
        with_seed(seed, || lives(seed, NONE));
    }
}

#[test]
fn no_flushed_write_is_lost_by_a_crash_after_faults() {
    for seed in runs(1500) {
        with_seed(seed, || lives(seed, SOME));
    }
}

/// The fast device is missing in every second life, and back in others.
#[test]
fn no_flushed_write_is_lost_in_lives_without_the_fast_device() {
    for seed in runs(800) {
        with_seed(seed, || lives(seed, ABSENT));
    }
}

/// Without a crash and without faults, everything ends, and draining empties the fast device.
#[test]
fn draining_empties_the_fast_device_and_keeps_the_content() {
    for seed in runs(300) {
        with_seed(seed, || {
            let mut world = World::new(seed, NONE);
            world.operate(300);
            world.settle();
            world.drain();
            assert_eq!(world.slots_used(), 0);
            world.check_everything("after draining");
        });
    }
}

/// The checker itself must notice when a rule is broken: here the devices forget a sync.
#[test]
fn a_device_that_lies_about_its_sync_is_noticed() {
    let caught = (0..200).any(|seed| {
        std::panic::catch_unwind(|| {
            let mut world = World::new(seed, NONE);
            world.devices_lie = true;
            world.operate(300);
            world.crash_and_recover();
        })
        .is_err()
    });
    assert!(caught, "200 runs on lying devices, and none was noticed");
}

fn with_seed(seed: u64, run: impl FnOnce() + std::panic::UnwindSafe) {
    if let Err(panic) = std::panic::catch_unwind(run) {
        eprintln!("failed with EVENKEEL_CRASH_SEED={seed}");
        std::panic::resume_unwind(panic);
    }
}
