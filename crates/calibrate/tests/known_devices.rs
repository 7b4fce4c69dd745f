//! Devices whose rate is known: the measurement finds it within the interval that it states.

use std::collections::VecDeque;
use std::num::NonZeroU32;

use evenkeel_calibrate::{Cell, Course, Goal, ModelTarget, Pattern, measure, sustain};
use evenkeel_core::{Rate, Span, Time};
use evenkeel_device::spec::Model;
use evenkeel_device::{Device, Finished, Io, Spec};
use proptest::prelude::*;

const RANGE: (u64, u64) = (0, 1 << 30);

fn cell(depth: u32) -> Cell {
    Cell { writes: false, pattern: Pattern::Random, bytes: 4096, depth }
}

fn constant(millis: u64, servers: u32) -> ModelTarget<Box<dyn Device + Send>> {
    let servers = NonZeroU32::new(servers).unwrap();
    let model = Model::ConstantRate { rate: Rate::from_millis(millis), servers, capacity: None };
    ModelTarget::new(Spec::new(model).unwrap().build())
}

/// One server whose service times are drawn anew each time, from half the mean to one and a half of it.
struct Uneven {
    seed: u64,
    mean: u64,
    free: Time,
    queue: VecDeque<Finished>,
}

impl Device for Uneven {
    fn submit(&mut self, now: Time, io: Io) {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let busy = Span::from_nanos(self.mean / 2 + (self.seed >> 33) % self.mean);
        self.free = self.free.max(now) + busy;
        self.queue.push_back(Finished { token: io.token, at: self.free, busy });
    }

    fn next_event(&self) -> Option<Time> {
        self.queue.front().map(|finished| finished.at)
    }

    fn poll_completion(&mut self, now: Time) -> Option<Finished> {
        self.queue.pop_front_if(|finished| finished.at <= now)
    }
}

/// Fast until so many accesses have been served, then slow.
struct Credit {
    left: u64,
    fast: Span,
    slow: Span,
    free: Time,
    queue: VecDeque<Finished>,
}

impl Device for Credit {
    fn submit(&mut self, now: Time, io: Io) {
        let busy = if self.left > 0 { self.fast } else { self.slow };
        self.left = self.left.saturating_sub(1);
        self.free = self.free.max(now) + busy;
        self.queue.push_back(Finished { token: io.token, at: self.free, busy });
    }

    fn next_event(&self) -> Option<Time> {
        self.queue.front().map(|finished| finished.at)
    }

    fn poll_completion(&mut self, now: Time) -> Option<Finished> {
        self.queue.pop_front_if(|finished| finished.at <= now)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A constant rate is found exactly, up to the one request that counting cannot tell: which, at few
    /// requests per second, may leave the interval wide when the time is up.
    #[test]
    fn a_constant_rate_is_inside_the_interval(millis in 50_000_u64..20_000_000, servers in 1_u32..16) {
        let rated = measure(&mut constant(millis, servers), cell(servers), RANGE, &Goal::default()).unwrap();
        let rate = millis as f64 / 1_000.0;
        prop_assert!(rated.rate.low() <= rate && rate <= rated.rate.high(), "{rated:?} of {rate}");
        prop_assert!(rated.is_narrow || rated.time >= Goal::default().most, "{rated:?}");
        prop_assert!(rated.course == Course::Steady, "{rated:?}");
    }

    /// Fewer accesses than servers reach their share of it.
    #[test]
    fn shallow_depths_reach_their_share(depth in 1_u32..8) {
        let rated = measure(&mut constant(8_000_000, 8), cell(depth), RANGE, &Goal::default()).unwrap();
        let share = 1_000.0 * f64::from(depth);
        prop_assert!(rated.rate.low() <= share && share <= rated.rate.high(), "{rated:?}");
    }
}

#[test]
fn uneven_service_times_are_covered_as_often_as_stated() {
    let covered = (1..=200_u64)
        .filter(|seed| {
            let device =
                Uneven { seed: seed * 7_919, mean: 400_000, free: Time::ZERO, queue: VecDeque::new() };
            let rated = measure(&mut ModelTarget::new(device), cell(2), RANGE, &Goal::default()).unwrap();
            rated.rate.low() <= 2_500.0 && 2_500.0 <= rated.rate.high()
        })
        .count();
    // 190 of 200 are promised; three standard deviations of chance are 9.
    assert!(covered >= 181, "{covered} of 200");
}

#[test]
fn a_wanted_precision_takes_more_time_until_the_limit() {
    let goal = |precision| Goal { precision, ..Goal::default() };
    let device = || Uneven { seed: 5, mean: 5_000_000, free: Time::ZERO, queue: VecDeque::new() };
    let coarse = measure(&mut ModelTarget::new(device()), cell(1), RANGE, &goal(0.1)).unwrap();
    let fine = measure(&mut ModelTarget::new(device()), cell(1), RANGE, &goal(0.000_1)).unwrap();
    assert!(coarse.is_narrow && !fine.is_narrow);
    assert!(coarse.time < fine.time && fine.time >= Goal::default().most);
}

#[test]
fn a_burst_credit_is_found_with_its_size_and_the_rate_is_that_after_it() {
    let (fast, slow) = (Span::from_micros(333), Span::from_millis(1));
    let device = Credit { left: 30_000, fast, slow, free: Time::ZERO, queue: VecDeque::new() };
    let time = (Span::from_millis(30_000), Span::from_millis(100));
    let rated = sustain(&mut ModelTarget::new(device), cell(4), RANGE, &Goal::default(), time).unwrap();
    let Course::BurstCredit { before, after, at } = rated.course else { panic!("{rated:?}") };
    // 30 000 accesses of 333 µs last 9.99 s, of which 0.1 s are warm-up.
    assert!((98..=99).contains(&at), "{at}");
    assert!((before - 3_003.0).abs() < 5.0 && (after - 1_000.0).abs() < 5.0, "{before} {after}");
    assert!(rated.rate.low() <= 1_000.0 && 1_000.0 <= rated.rate.high(), "{rated:?}");
}

#[test]
fn a_range_too_small_and_a_device_that_does_not_answer_are_errors() {
    let small = measure(&mut constant(1_000_000, 1), cell(1), (0, 4095), &Goal::default());
    assert!(small.unwrap_err().to_string().contains("range of 4095 bytes"));
    let silent = measure(&mut constant(10, 1), cell(1), RANGE, &Goal::default());
    assert!(silent.unwrap_err().to_string().contains("does not answer"));
}
