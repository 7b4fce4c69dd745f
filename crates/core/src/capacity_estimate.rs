//! How fast the device really is, seen from what it completes while it is kept busy.
//!
//! ```text
//!  outstanding = depth  ├────── busy ──────┤        ├──── busy ────┤
//!  completions             ^ x   x  x   x  x           ^  x   x  x
//!                          └ the first opens the period: what it did before counts for nobody
//!
//!  window: completions and time, until there is enough of both ──> rate ──> [ r r r r … ] ──> mean ± t·s/√n
//! ```
//!
//! Only time counts during which as many requests were outstanding as the dispatch depth allows, from one
//! completion to another: an idle device says nothing about its speed. The interval is the two-sided one of
//! 95 % for the mean of independent windows (Student's t), plus one request over the whole time, which
//! counting cannot tell. All of it is exact in integers, rounded outward to 1/1000 IOPS; nothing allocates.

use crate::units::{Cost, NANOS_PER_SECOND, Rate, Span, Time};

/// Windows that are kept; older ones are forgotten.
const WINDOWS: usize = 16;
/// The fewest windows of which an interval is made.
const WINDOWS_MIN: usize = 5;
/// A window has at least so many completions.
const COMPLETIONS_MIN: u32 = 8;
/// Rates are cut off here, in 1/1000 IOPS, so that squares fit.
const RATE_MAX: u64 = 10_000_000_000_000;

/// The quantile 0.975 of Student's t in thousandths, from 4 degrees of freedom on.
const T_975: [u128; WINDOWS - WINDOWS_MIN + 1] =
    [2_777, 2_571, 2_447, 2_365, 2_307, 2_263, 2_229, 2_201, 2_179, 2_161, 2_145, 2_132];

/// Learns the capacity of a device from its completions.
#[derive(Clone, Debug)]
pub struct CapacityEstimate {
    window: Span,
    /// The last completion of the present busy period, and the one that opened it.
    last: Option<Time>,
    opened: Time,
    /// The present window.
    busy: u64,
    done: u64,
    completions: u32,
    rates: [u64; WINDOWS],
    filled: usize,
    next: usize,
}

/// What is known of a capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapacityInterval {
    /// The mean.
    pub mean: Rate,
    /// The lower end of the 95 % confidence interval.
    pub low: Rate,
    /// The upper end.
    pub high: Rate,
    /// Of how many windows.
    pub windows: u32,
}

impl CapacityEstimate {
    /// An estimate whose windows have this much busy time each, at least 1 ns; a quarter of a second or so.
    #[must_use]
    pub const fn new(window: Span) -> Self {
        let window = if window.as_nanos() == 0 { Span::from_nanos(1) } else { window };
        Self {
            window,
            last: None,
            opened: Time::ZERO,
            busy: 0,
            done: 0,
            completions: 0,
            rates: [0; WINDOWS],
            filled: 0,
            next: 0,
        }
    }

    /// A request of this cost has completed at `at`; `was_full` if until then as many were outstanding as
    /// the depth allows. Whether a window has come to its end. A time before an earlier one counts as that.
    pub fn on_completion(&mut self, at: Time, cost: Cost, was_full: bool) -> bool {
        let Some(last) = self.last else {
            if was_full {
                (self.last, self.opened) = (Some(at), at);
            }
            return false;
        };
        if at <= self.opened {
            return false;
        }
        self.busy = self.busy.saturating_add(at.since(last).as_nanos());
        self.last = Some(last.max(at));
        self.done = self.done.saturating_add(cost.as_millis());
        self.completions = self.completions.saturating_add(1);
        if self.busy < self.window.as_nanos() || self.completions < COMPLETIONS_MIN {
            return false;
        }
        let rate = u128::from(self.done) * u128::from(NANOS_PER_SECOND) / u128::from(self.busy);
        self.rates[self.next] = rate.min(u128::from(RATE_MAX)) as u64;
        self.next = (self.next + 1) % WINDOWS;
        self.filled = (self.filled + 1).min(WINDOWS);
        (self.busy, self.done, self.completions) = (0, 0, 0);
        true
    }

    /// After dispatching: with fewer requests outstanding than the depth allows, the busy period is over.
    pub const fn on_dispatched(&mut self, is_full: bool) {
        if !is_full {
            self.last = None;
        }
    }

    /// What is known by now; `None` until five windows are over.
    #[must_use]
    pub fn interval(&self) -> Option<CapacityInterval> {
        let count = self.filled;
        let t = *T_975.get(count.checked_sub(WINDOWS_MIN)?)?;
        let rates = &self.rates[..count];
        let n = count as u128;
        let sum: u128 = rates.iter().map(|rate| u128::from(*rate)).sum();
        let squares: u128 = rates.iter().map(|rate| u128::from(*rate).pow(2)).sum();
        // (t · s/√n)², with s² = (n·Σx² − (Σx)²) / (n·(n − 1)).
        let spread = t * t * (n * squares - sum * sum) / (n * n * (n - 1));
        let half = spread.isqrt().div_ceil(1_000) + 1;
        let time = n * u128::from(self.window.as_nanos());
        let resolution = (u128::from(Cost::ONE.as_millis()) * u128::from(NANOS_PER_SECOND)).div_ceil(time);
        let half = half + resolution;
        let rate = |millis: u128| Rate::from_millis(u64::try_from(millis).unwrap_or(u64::MAX));
        let mean = sum / n;
        Some(CapacityInterval {
            mean: rate(mean),
            low: rate(mean.saturating_sub(half)),
            high: rate(mean + half + 1),
            windows: count as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WINDOW: Span = Span::from_millis(250);

    #[test]
    fn a_steady_device_by_hand() {
        // 100 IOPS: 25 completions per window of 250 ms, and one to begin with.
        let mut estimate = CapacityEstimate::new(WINDOW);
        for tick in 0..=125 {
            estimate.on_completion(Time::from_millis(tick * 10), Cost::ONE, true);
            estimate.on_dispatched(true);
        }
        let found = estimate.interval().unwrap();
        assert_eq!((found.mean, found.windows), (Rate::per_second(100), 5));
        assert!(found.low >= Rate::per_second(99) && found.high <= Rate::per_second(101), "{found:?}");
    }

    #[test]
    fn idle_time_and_shallow_queues_do_not_count() {
        let mut estimate = CapacityEstimate::new(WINDOW);
        // Periods of 20 completions 10 ms apart, with a second of rest between them.
        for tick in 0..400_u64 {
            let at = Time::from_millis(tick * 10 + tick / 20 * 1_000);
            estimate.on_completion(at, Cost::ONE, tick % 20 == 0);
            estimate.on_dispatched(tick % 20 != 19);
        }
        assert_eq!(estimate.interval().unwrap().mean, Rate::per_second(100));
        let mut shallow = CapacityEstimate::new(WINDOW);
        for tick in 0..1_000 {
            shallow.on_completion(Time::from_millis(tick * 10), Cost::ONE, false);
            shallow.on_dispatched(false);
        }
        assert_eq!(shallow.interval(), None);
    }

    #[test]
    fn the_largest_rates_do_not_overflow() {
        let mut estimate = CapacityEstimate::new(Span::from_nanos(1));
        for tick in 0..1_000 {
            let cost = Cost::from_millis(if tick % 3 == 0 { u64::MAX } else { 0 });
            estimate.on_completion(Time::from_nanos(tick), cost, true);
        }
        let found = estimate.interval().unwrap();
        assert!(found.low <= found.mean && found.mean <= found.high);
    }

    /// Evenly spread, from a seed.
    fn next(state: &mut u64, below: u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % below
    }

    /// One server, kept busy in periods of `period` completions: of 400 devices, how many intervals hold
    /// the true rate of 1000 IOPS.
    fn covered(period: u64) -> usize {
        (1..=400_u64)
            .filter(|seed| {
                let mut state = seed * 7_919;
                let mut estimate = CapacityEstimate::new(WINDOW);
                let mut now = Time::ZERO;
                for tick in 0..6_000 {
                    if tick % period == 0 {
                        // An instant inside a service: how long that one still takes says nothing.
                        now += Span::from_micros(10_000);
                    }
                    now += Span::from_micros(500 + next(&mut state, 1_001));
                    estimate.on_completion(now, Cost::ONE, tick % period == 0);
                    estimate.on_dispatched(tick % period != period - 1);
                }
                let found = estimate.interval().unwrap();
                let truth = Rate::per_second(1_000);
                found.low <= truth && truth <= found.high
            })
            .count()
    }

    #[test]
    fn the_interval_covers_the_truth_as_often_as_it_says() {
        for period in [6_000, 50, 5] {
            let covered = covered(period);
            // 380 are promised, and one request of resolution more; three deviations of chance are 13.
            assert!(covered >= 367, "{period}: {covered} of 400");
        }
    }

    proptest! {
        /// Against the same written down naively: all busy time and all completions in it.
        #[test]
        fn windows_hold_all_that_was_completed(gaps in prop::collection::vec(1_u64..5_000_000, 200..400)) {
            let mut estimate = CapacityEstimate::new(Span::from_millis(1));
            let (mut now, mut window, mut rates) = (Time::from_nanos(1), (0_u64, 0_u64), std::vec::Vec::new());
            estimate.on_completion(now, Cost::ONE, true);
            for gap in gaps {
                now += Span::from_nanos(gap);
                estimate.on_completion(now, Cost::ONE, true);
                window = (window.0 + gap, window.1 + 1);
                if window.0 >= 1_000_000 && window.1 >= 8 {
                    rates.push(window.1 * 1_000_000_000_000 / window.0);
                    window = (0, 0);
                }
            }
            let kept = &rates[rates.len().saturating_sub(WINDOWS)..];
            let mean = kept.iter().sum::<u64>() / kept.len() as u64;
            let found = estimate.interval().unwrap();
            prop_assert_eq!(found.mean, Rate::from_millis(mean));
            prop_assert_eq!(found.windows as usize, kept.len());
        }
    }
}
