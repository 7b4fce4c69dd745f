//! Servers with one queue whose service times may differ: by direction, or at random.
//!
//! ```text
//!  submit ──> one queue, first come first served ──> the server that is free first ──> finished
//!             service time: reads and writes apart, each fixed or exponential (M/M/c, M/D/c)
//!
//!  free   heap [ t1 t2 ... ]   when each server is free again; at most one entry per busy server
//! ```
//!
//! [`crate::ConstantRate`] is the exact device for one rate; here service times are whole
//! nanoseconds. Exponential times come from a generator of the device's own, so the same seed and the
//! same submissions give the same finishes. Their mean is that stated less half a nanosecond, since
//! each is rounded down.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU32;

use evenkeel_core::{Operation, Span, Time};

use crate::finishes::Finishes;
use crate::{Device, Finished, Io};

/// How long one access keeps a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Always as long.
    Fixed(Span),
    /// Exponentially distributed with this mean.
    Exponential(Span),
}

/// Parameters of [`Servers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Servers that work at the same time.
    pub servers: NonZeroU32,
    /// The service time of reads, and of everything that is not a write.
    pub read: Service,
    /// The service time of writes and of writing zeros.
    pub write: Service,
    /// Where the random times begin.
    pub seed: u64,
}

/// Equal servers with one queue.
#[derive(Debug)]
pub struct Servers {
    parameters: Parameters,
    free: BinaryHeap<Reverse<Time>>,
    random: SplitMix,
    finishes: Finishes,
}

impl Servers {
    /// An idle device.
    #[must_use]
    pub fn new(parameters: Parameters) -> Self {
        let random = SplitMix(parameters.seed);
        Self { parameters, free: BinaryHeap::new(), random, finishes: Finishes::default() }
    }

    fn service(&mut self, operation: Operation) -> Span {
        let service = match operation {
            Operation::Write | Operation::WriteZeroes => self.parameters.write,
            Operation::Read | Operation::Flush | Operation::Trim => self.parameters.read,
        };
        match service {
            Service::Fixed(span) => span,
            Service::Exponential(mean) => {
                Span::from_nanos((-self.random.above_zero().ln() * mean.as_nanos() as f64) as u64)
            }
        }
    }
}

impl Device for Servers {
    fn submit(&mut self, now: Time, io: Io) {
        let now = self.finishes.advance(now);
        while self.free.peek().is_some_and(|Reverse(at)| *at <= now) {
            self.free.pop();
        }
        let busy = self.service(io.operation);
        let all_busy = self.free.len() == self.parameters.servers.get() as usize;
        let begin = if all_busy { self.free.pop().map_or(now, |Reverse(at)| at) } else { now };
        let at = begin + busy;
        self.free.push(Reverse(at));
        self.finishes.push(at, io.token, busy);
    }

    fn next_event(&self) -> Option<Time> {
        self.finishes.next()
    }

    fn poll_completion(&mut self, now: Time) -> Option<Finished> {
        self.finishes.poll(now)
    }
}

/// A seed that depends on both, evenly.
pub(crate) fn mixed(seed: u64, other: u64) -> u64 {
    SplitMix(SplitMix(seed).next() ^ other).next()
}

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
#[derive(Clone, Debug)]
pub(crate) struct SplitMix(pub(crate) u64);

impl SplitMix {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Evenly below `bound`, but for a bias of less than bound / 2⁶⁴.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u32
    }

    /// Evenly within (0, 1].
    fn above_zero(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mean wait in the queue, in mean service times, of `count` Poisson arrivals at this load.
    fn mean_wait(service: impl Fn(Span) -> Service, servers: u32, load: f64, count: u64) -> f64 {
        let mean = Span::from_millis(1);
        let servers = NonZeroU32::new(servers).expect("tests use at least one server");
        let read = service(mean);
        let mut device = Servers::new(Parameters { servers, read, write: read, seed: 7 });
        let (mut random, mut at, mut waited) = (SplitMix(1), 0.0_f64, 0.0);
        for token in 0..count {
            at += -random.above_zero().ln() * 1e6 / (load * f64::from(servers.get()));
            let now = Time::from_nanos(at as u64);
            while let Some(over) = device.poll_completion(now) {
                waited -= over.busy.as_nanos() as f64;
                waited += over.at.as_nanos() as f64;
            }
            device.submit(now, Io { token, operation: Operation::Read, offset: 0, length: 1 });
            waited -= now.as_nanos() as f64;
        }
        while let Some(over) = device.poll_completion(Time::from_nanos(u64::MAX)) {
            waited += over.at.as_nanos() as f64 - over.busy.as_nanos() as f64;
        }
        waited / count as f64 / 1e6
    }

    #[test]
    fn random_arrivals_wait_as_long_as_theory_says() {
        // M/M/1: load / (1 - load). M/D/1: half of it. M/M/3: Erlang's C / (3 (1 - load)).
        let (load, count) = (0.6, 2_000_000);
        let erlang = |c: f64, a: f64| {
            let terms = [1.0, a, a * a / 2.0];
            let last = a * a * a / 6.0 * c / (c - a);
            last / (terms.iter().sum::<f64>() + last)
        };
        let close = |wait: f64, theory: f64| assert!((wait / theory - 1.0).abs() < 0.01, "{wait} {theory}");
        close(mean_wait(Service::Exponential, 1, load, count), load / (1.0 - load));
        close(mean_wait(Service::Fixed, 1, load, count), load / (2.0 * (1.0 - load)));
        close(mean_wait(Service::Exponential, 3, load, count), erlang(3.0, 1.8) / (3.0 * (1.0 - load)));
    }

    #[test]
    fn writes_take_their_own_time_and_may_be_overtaken() {
        let servers = NonZeroU32::new(2).expect("two");
        let fixed = |micros| Service::Fixed(Span::from_micros(micros));
        let mut device = Servers::new(Parameters { servers, read: fixed(10), write: fixed(100), seed: 0 });
        for (token, operation) in [(0, Operation::Write), (1, Operation::Read), (2, Operation::Read)] {
            device.submit(Time::ZERO, Io { token, operation, offset: 0, length: 4096 });
        }
        let order: Vec<_> = std::iter::from_fn(|| device.poll_completion(device.next_event()?))
            .map(|over| (over.token, over.at.as_nanos() / 1_000, over.busy.as_nanos() / 1_000))
            .collect();
        assert_eq!(order, [(1, 10, 10), (2, 20, 10), (0, 100, 100)]);
    }
}
