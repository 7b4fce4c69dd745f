//! When requests arrive.
//!
//! ```text
//!  constant  |   |   |   |   |      exact: the k-th at ⌊k/ρ⌋, nothing drifts
//!  poisson   | ||   |  | |    |     exponential gaps
//!  pareto    ||||        |  ||||    gaps with a heavy tail
//!  on-off    ||||||      |||||||    a rate while on, another (or none) while off
//!  bursts    |||||       |||||      n at once, every so often
//!  closed    |──>think|──>think|    so many outstanding; the next after a reply and a pause
//! ```

use evenkeel_core::units::NANOS_PER_SECOND;
use evenkeel_core::{Rate, Span, Time};

use crate::random::{Law, Random};

/// When the requests of a source arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// At this rate, evenly; the first at the start.
    Constant(Rate),
    /// At this mean rate, with exponential gaps.
    Poisson(Rate),
    /// At this mean rate, with Pareto gaps.
    Pareto {
        /// The mean rate.
        rate: Rate,
        /// The tail index α of gaps, above 1.
        shape: f64,
    },
    /// Phases of two rates in turn; on comes first. ON/OFF sources and load spikes.
    OnOff {
        /// The rate while on.
        rate: Rate,
        /// The rate while off; 0 for none.
        off_rate: Rate,
        /// Length of a phase that is on.
        on: Law,
        /// Length of a phase that is off.
        off: Law,
        /// Whether gaps within a phase are exponential; otherwise they are even.
        poisson: bool,
    },
    /// So many at once, the first at the start.
    Bursts {
        /// Requests in a burst.
        size: u32,
        /// From burst to burst.
        every: Span,
    },
    /// So many outstanding: each reply is followed, after a think time, by the next request. The first ones
    /// come at the start.
    Closed {
        /// Requests that are outstanding or thought about.
        outstanding: u32,
        /// Think time.
        think: Law,
    },
}

/// The clock of one source with an open loop.
#[derive(Debug)]
pub(crate) struct Clock {
    pace: Pace,
    /// The latest arrival, exactly: `nanos + part / unit`.
    at: Exact,
    /// Requests of the present burst that are still to come at `at`.
    burst_left: u32,
    /// Whether the phase is on, and when it ends.
    on: bool,
    phase_end: Time,
    started: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Exact {
    nanos: u64,
    part: u64,
}

impl Clock {
    /// A clock whose first arrival is at `from`, or a random gap after it.
    pub(crate) fn new(pace: Pace, from: Time) -> Self {
        let at = Exact { nanos: from.as_nanos(), part: 0 };
        Self { pace, at, burst_left: 0, on: false, phase_end: from, started: false }
    }

    /// The next arrival; the end of time if there is none.
    pub(crate) fn next(&mut self, random: &mut Random) -> Time {
        let first = !std::mem::replace(&mut self.started, true);
        match self.pace {
            Pace::Constant(rate) => {
                if !first {
                    self.step_evenly(rate);
                }
            }
            Pace::Poisson(rate) => self.step(random, Law::Exponential(gap(rate))),
            Pace::Pareto { rate, shape } => self.step(random, Law::Pareto { mean: gap(rate), shape }),
            Pace::OnOff { rate, off_rate, on, off, poisson } => {
                self.step_in_phases(random, [off_rate, rate], [off, on], poisson, first);
            }
            Pace::Bursts { size, every } => {
                if self.burst_left == 0 {
                    self.burst_left = size;
                    if !first {
                        self.step(random, Law::Constant(every));
                    }
                }
                self.burst_left = self.burst_left.saturating_sub(1);
            }
            // The driver sends these after replies.
            Pace::Closed { .. } => {}
        }
        Time::from_nanos(self.at.nanos)
    }

    fn step(&mut self, random: &mut Random, law: Law) {
        self.at = Exact { nanos: self.at.nanos.saturating_add(random.span(law).as_nanos()), part: 0 };
    }

    /// One exact gap of 1/rate.
    fn step_evenly(&mut self, rate: Rate) {
        let unit = rate.as_millis();
        if unit == 0 {
            self.at.nanos = u64::MAX;
            return;
        }
        let (gap, remainder) = (NANOS_PER_SECOND * 1_000 / unit, NANOS_PER_SECOND * 1_000 % unit);
        let part = self.at.part + remainder;
        self.at.nanos = self.at.nanos.saturating_add(gap + u64::from(part >= unit));
        self.at.part = if part >= unit { part - unit } else { part };
    }

    /// `rates` and `lengths` are those of off and on.
    fn step_in_phases(
        &mut self,
        random: &mut Random,
        rates: [Rate; 2],
        lengths: [Law; 2],
        poisson: bool,
        first: bool,
    ) {
        let mut begins = first;
        loop {
            if !begins {
                let rate = rates[usize::from(self.on)];
                if poisson && rate.as_millis() > 0 {
                    self.step(random, Law::Exponential(gap(rate)));
                } else {
                    self.step_evenly(rate);
                }
                if self.at.nanos < self.phase_end.as_nanos() || self.phase_end.as_nanos() == u64::MAX {
                    return;
                }
            }
            // The next phase begins where this one ends; with even gaps, with a request.
            self.on = !self.on;
            self.at = Exact { nanos: self.phase_end.as_nanos(), part: 0 };
            self.phase_end += random.span(lengths[usize::from(self.on)]);
            begins = false;
            let rate = rates[usize::from(self.on)];
            if !poisson && rate.as_millis() > 0 && self.at.nanos < self.phase_end.as_nanos() {
                return;
            }
        }
    }
}

fn gap(rate: Rate) -> Span {
    let nanos = (NANOS_PER_SECOND * 1_000).checked_div(rate.as_millis());
    Span::from_nanos(nanos.unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals_ms(pace: Pace, count: usize) -> Vec<u64> {
        let mut clock = Clock::new(pace, Time::from_millis(100));
        let mut random = Random::new(1, &[]);
        (0..count).map(|_| clock.next(&mut random).as_nanos() / 1_000_000).collect()
    }

    fn ms(millis: u64) -> Law {
        Law::Constant(Span::from_millis(millis))
    }

    #[test]
    fn even_arrivals_do_not_drift() {
        assert_eq!(arrivals_ms(Pace::Constant(Rate::per_second(50)), 3), [100, 120, 140]);
        let mut clock = Clock::new(Pace::Constant(Rate::per_second(3)), Time::ZERO);
        let mut random = Random::new(1, &[]);
        let last = (0..=3_000_000).map(|_| clock.next(&mut random)).last();
        assert_eq!(last, Some(Time::from_millis(1_000_000_000)), "3 million thirds are a million seconds");
    }

    #[test]
    fn bursts_come_at_once() {
        let pace = Pace::Bursts { size: 3, every: Span::from_millis(500) };
        assert_eq!(arrivals_ms(pace, 7), [100, 100, 100, 600, 600, 600, 1_100]);
    }

    #[test]
    fn on_off_is_silent_while_off() {
        let (rate, off_rate) = (Rate::per_second(100), Rate::per_second(0));
        let pace = Pace::OnOff { rate, off_rate, on: ms(30), off: ms(1_000), poisson: false };
        assert_eq!(arrivals_ms(pace, 7), [100, 110, 120, 1_130, 1_140, 1_150, 2_160]);
    }

    #[test]
    fn a_spike_is_a_phase_of_a_higher_rate() {
        let (rate, off_rate) = (Rate::per_second(1_000), Rate::per_second(100));
        let pace = Pace::OnOff { rate, off_rate, on: ms(3), off: ms(20), poisson: false };
        assert_eq!(arrivals_ms(pace, 7), [100, 101, 102, 103, 113, 123, 124]);
    }

    #[test]
    fn the_mean_rates_are_those_asked_for() {
        let rate = Rate::per_second(1_000);
        let (off, on) = (Law::Exponential(Span::from_millis(300)), Law::Exponential(Span::from_millis(100)));
        let paces = [
            (Pace::Poisson(rate), 1.0),
            (Pace::Pareto { rate, shape: 2.5 }, 1.0),
            (Pace::OnOff { rate, off_rate: Rate::per_second(0), on, off, poisson: true }, 4.0),
        ];
        for (pace, factor) in paces {
            let count = 400_000;
            let last = *arrivals_ms(pace, count).last().expect("some arrive") as f64 - 100.0;
            let ratio = last / (count as f64 * factor);
            assert!((ratio - 1.0).abs() < 0.02, "{pace:?}: {ratio}");
        }
    }
}
