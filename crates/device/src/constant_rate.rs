//! A device that serves every access in the same time.
//!
//! ```text
//!  submit ──> one queue, first come first served ──> server 1 ┐
//!                                                    server 2 ├─> finished, in the order of arrival
//!                                                    ...      ┘
//!             every access takes  S = servers / rate
//! ```
//!
//! It is the device of pClock's and Nested QoS's analyses, for which the capacity of a promise can
//! be worked out on paper. Two properties make it useful as a yardstick:
//!
//! - **Exact.** S is seldom a whole number of nanoseconds. An access's finish is therefore kept as
//!   whole nanoseconds and a remainder, and only what is reported is rounded down. `n` accesses back
//!   to back on one server finish at ⌊n/rate⌋ after the first began, for every `n`; nothing drifts.
//! - **Never idle while work waits.** An access that waits begins at the exact instant at which a
//!   server becomes free, also when the driver learns of that later.
//!
//! Since every access takes equally long and the queue keeps its order, servers become free in the
//! order in which they began. So the model needs no servers, only a queue of exact finishes:
//!
//! ```text
//!  busy      [ f1 f2 f3 ... ]    exact finishes, not before each other; access k waits for f(k-servers)
//!  finished  [ (token, ⌊f⌋) ]    what the driver has not collected yet
//! ```

use std::collections::VecDeque;
use std::num::NonZeroU32;

use evenkeel_core::units::NANOS_PER_SECOND;
use evenkeel_core::{Rate, Span, Time};

use crate::{Device, Finished, Io};

/// `servers` equal servers with one queue; together they finish `rate` accesses per second.
#[derive(Debug)]
pub struct ConstantRate {
    service: Service,
    servers: usize,
    /// The finishes of the latest accesses, at most one per server, the earliest in front.
    busy: VecDeque<Exact>,
    /// What [`Device::poll_completion`] has still to hand out, the earliest in front.
    finished: VecDeque<Finished>,
    /// The latest instant that the driver has named.
    now: Time,
}

impl ConstantRate {
    /// A device that finishes `rate` accesses per second with `servers` of them in service at a
    /// time, so that each takes `servers / rate` seconds. At a rate of zero nothing ever finishes:
    /// every access is due at the end of time, 584 years after the epoch.
    #[must_use]
    pub fn new(rate: Rate, servers: NonZeroU32) -> Self {
        Self {
            service: Service::new(rate, servers),
            servers: servers.get() as usize,
            busy: VecDeque::new(),
            finished: VecDeque::new(),
            now: Time::ZERO,
        }
    }

    /// Accesses that have been submitted and not yet collected.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.finished.len()
    }

    /// When an access that arrives at `now` begins: at once if a server is free, otherwise at the
    /// exact instant at which the next one becomes free.
    fn begin(&mut self, now: Time) -> Exact {
        while self.busy.front().is_some_and(|finish| finish.is_by(now)) {
            self.busy.pop_front();
        }
        if self.busy.len() < self.servers {
            return Exact { nanos: now.as_nanos(), part: 0 };
        }
        // Never empty: there is at least one server, and all of them are busy.
        self.busy.pop_front().unwrap_or_default()
    }
}

impl Device for ConstantRate {
    /// A time earlier than one already named counts as that one.
    fn submit(&mut self, now: Time, io: Io) {
        self.now = self.now.max(now);
        let finish = self.service.after(self.begin(self.now));
        self.busy.push_back(finish);
        let at = Time::from_nanos(finish.nanos);
        self.finished.push_back(Finished { token: io.token, at, busy: Span::from_nanos(self.service.nanos) });
    }

    fn next_event(&self) -> Option<Time> {
        self.finished.front().map(|finished| finished.at)
    }

    fn poll_completion(&mut self, now: Time) -> Option<Finished> {
        let at = self.finished.front()?.at;
        if at > now.max(self.now) {
            return None;
        }
        // Not `now`: a driver that comes late may go on from the instant of the completion.
        self.now = self.now.max(at);
        self.finished.pop_front()
    }
}

/// An instant finer than a nanosecond: `nanos + part / unit`, where the unit is [`Service::unit`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Exact {
    nanos: u64,
    part: u64,
}

impl Exact {
    /// Whether this instant is not after `now`.
    fn is_by(self, now: Time) -> bool {
        self.nanos < now.as_nanos() || (self.nanos == now.as_nanos() && self.part == 0)
    }
}

/// How long one access takes: `nanos + part / unit`, exactly.
#[derive(Clone, Copy, Debug)]
struct Service {
    nanos: u64,
    part: u64,
    /// The denominator of every part: the rate in thousandths.
    unit: u64,
}

impl Service {
    fn new(rate: Rate, servers: NonZeroU32) -> Self {
        let unit = rate.as_millis();
        if unit == 0 {
            return Self { nanos: u64::MAX, part: 0, unit: 1 };
        }
        // servers / (unit / 1000 per second), in nanoseconds: at most 2^32 * 2^40, so 128 bits do.
        let numerator = u128::from(servers.get()) * u128::from(NANOS_PER_SECOND) * 1_000;
        let nanos = u64::try_from(numerator / u128::from(unit)).unwrap_or(u64::MAX);
        let part = (numerator % u128::from(unit)) as u64;
        Self { nanos, part, unit }
    }

    /// The exact finish of an access that begins at `begin`; saturates at the end of time.
    fn after(self, begin: Exact) -> Exact {
        let parts = u128::from(begin.part) + u128::from(self.part);
        let unit = u128::from(self.unit);
        let carry = u64::from(parts >= unit);
        Exact {
            nanos: begin.nanos.saturating_add(self.nanos).saturating_add(carry),
            part: (parts % unit) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::Operation;
    use proptest::prelude::*;

    fn device(rate: Rate, servers: u32) -> ConstantRate {
        ConstantRate::new(rate, NonZeroU32::new(servers).expect("tests use at least one server"))
    }

    fn io(token: u64) -> Io {
        Io { token, operation: Operation::Read, offset: 0, length: 4096 }
    }

    fn drain(device: &mut ConstantRate) -> Vec<Finished> {
        let mut all = Vec::new();
        while let Some(at) = device.next_event() {
            all.push(device.poll_completion(at).expect("an event that is due completes"));
        }
        all
    }

    #[test]
    fn one_access_takes_one_service_time() {
        let mut device = device(Rate::per_second(1_000), 1);
        device.submit(Time::from_millis(5), io(7));
        assert_eq!(device.next_event(), Some(Time::from_millis(6)));
        assert_eq!(device.poll_completion(Time::from_nanos(5_999_999)), None);
        assert_eq!(
            device.poll_completion(Time::from_millis(6)),
            Some(Finished { token: 7, at: Time::from_millis(6), busy: Span::from_millis(1) })
        );
        assert_eq!(device.next_event(), None);
    }

    #[test]
    fn accesses_queue_behind_one_server_and_run_side_by_side_on_four() {
        let finishes = |servers| {
            let mut device = device(Rate::per_second(1_000), servers);
            (0..5).for_each(|token| device.submit(Time::ZERO, io(token)));
            drain(&mut device).iter().map(|f| f.at.as_nanos() / 1_000_000).collect::<Vec<_>>()
        };
        assert_eq!(finishes(1), [1, 2, 3, 4, 5]);
        assert_eq!(finishes(4), [4, 4, 4, 4, 8]);
    }

    #[test]
    fn a_closed_loop_of_one_runs_at_exactly_the_rate() {
        // A third of a second has no exact nanoseconds; the driver hears of each finish rounded
        // down and answers at once, and after 3 000 000 accesses not a nanosecond has been lost.
        let mut device = device(Rate::per_second(3), 1);
        let mut now = Time::ZERO;
        for token in 0..3_000_000 {
            device.submit(now, io(token));
            now = device.next_event().expect("an access is in service");
            assert_eq!(device.poll_completion(now).map(|f| f.token), Some(token));
        }
        assert_eq!(now, Time::from_millis(1_000_000_000));
    }

    #[test]
    fn a_driver_that_comes_late_loses_nothing() {
        let mut device = device(Rate::per_second(475), 1);
        device.submit(Time::ZERO, io(0));
        let mut last = Time::ZERO;
        for token in 1..=4_750 {
            let due = device.next_event().unwrap();
            let late = due + Span::from_micros(700);
            let finished = device.poll_completion(late).unwrap();
            assert_eq!(finished.at, due);
            device.submit(finished.at, io(token));
            last = finished.at;
        }
        assert_eq!(last, Time::from_millis(10_000));
    }

    #[test]
    fn the_queue_of_random_arrivals_is_as_long_as_theory_says() {
        // M/D/1 at a load of 0.8: the mean wait is load / (2 (1 - load)) = 2 service times.
        let service = 1_000_000.0;
        let mut device = device(Rate::per_second(1_000), 1);
        let (mut state, mut at, mut waited) = (0x2545_f491_4f6c_dd1d_u64, 0.0_f64, 0.0);
        let count = 400_000_u64;
        for token in 0..count {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let uniform = ((state >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
            at += -uniform.ln() * service / 0.8;
            let now = Time::from_nanos(at as u64);
            while device.poll_completion(now).is_some() {}
            device.submit(now, io(token));
            let finish = device.finished.back().expect("just submitted").at;
            waited += finish.since(now).as_nanos() as f64 - service;
        }
        let mean = waited / count as f64 / service;
        assert!((1.9..2.1).contains(&mean), "mean wait of {mean} service times");
    }

    #[test]
    fn a_rate_of_zero_finishes_nothing() {
        let mut device = device(Rate::from_millis(0), 1);
        device.submit(Time::ZERO, io(1));
        device.submit(Time::from_millis(1), io(2));
        assert_eq!(device.next_event(), Some(Time::from_nanos(u64::MAX)));
        assert_eq!(device.poll_completion(Time::from_millis(1_000_000)), None);
    }

    #[test]
    fn the_memory_follows_the_queue_and_not_the_servers() {
        let mut device = device(Rate::per_second(1), u32::MAX);
        device.submit(Time::ZERO, io(1));
        assert!(device.busy.capacity() < 64);
    }

    /// The obvious model: every server has its own exact clock, in parts of `unit` per nanosecond;
    /// an access goes to the one that is free first.
    fn naive(rate: Rate, servers: u32, arrivals: &[u64]) -> Vec<u64> {
        let unit = u128::from(rate.as_millis());
        let service = u128::from(servers) * u128::from(NANOS_PER_SECOND) * 1_000;
        let mut free = vec![0_u128; servers as usize];
        let mut finishes = Vec::new();
        for &arrival in arrivals {
            let server = (0..free.len()).min_by_key(|&s| free[s]).expect("at least one server");
            free[server] = free[server].max(u128::from(arrival) * unit) + service;
            finishes.push((free[server] / unit) as u64);
        }
        finishes
    }

    proptest! {
        #[test]
        fn throughput_is_exact_over_long_runs(millis in 1_u64..5_000_000_000, count in 1_u64..5_000) {
            let mut device = device(Rate::from_millis(millis), 1);
            (0..count).for_each(|token| device.submit(Time::ZERO, io(token)));
            let last = drain(&mut device).pop().expect("at least one access");
            let exact = u128::from(count) * u128::from(NANOS_PER_SECOND) * 1_000 / u128::from(millis);
            prop_assert_eq!(u128::from(last.at.as_nanos()), exact);
        }

        #[test]
        fn it_agrees_with_the_naive_model(
            millis in 1_000_u64..10_000_000,
            servers in 1_u32..6,
            gaps in prop::collection::vec(0_u64..2_000_000, 1..200),
            collects in prop::collection::vec(any::<bool>(), 200),
        ) {
            let rate = Rate::from_millis(millis);
            let mut device = device(rate, servers);
            let (mut now, mut arrivals, mut seen) = (0, Vec::new(), Vec::new());
            for (token, gap) in gaps.iter().enumerate() {
                now += gap;
                arrivals.push(now);
                device.submit(Time::from_nanos(now), io(token as u64));
                // Whether the driver collects between arrivals must make no difference.
                if collects[token] {
                    seen.extend(std::iter::from_fn(|| device.poll_completion(Time::from_nanos(now))));
                }
            }
            prop_assert_eq!(device.outstanding(), arrivals.len() - seen.len());
            seen.extend(drain(&mut device));
            let expected = naive(rate, servers, &arrivals);
            prop_assert_eq!(seen.len(), expected.len());
            for (index, (finished, expected)) in seen.iter().zip(expected).enumerate() {
                prop_assert_eq!(finished.token, index as u64, "the order is the order of arrival");
                prop_assert_eq!(finished.at.as_nanos(), expected);
            }
        }

        #[test]
        fn it_takes_any_parameters(
            millis: u64, servers in 1_u32.., times in prop::collection::vec(any::<u64>(), 1..20)
        ) {
            let mut device = device(Rate::from_millis(millis), servers);
            for (token, time) in times.iter().enumerate() {
                device.submit(Time::from_nanos(*time), io(token as u64));
            }
            prop_assert_eq!(drain(&mut device).len(), times.len());
        }
    }
}
