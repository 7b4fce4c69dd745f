//! Whose disk time passes, where the driver cannot tell: every slice of time with n requests at the
//! store is charged in equal parts to each of them (FAIRIO; also of use to any other sharer of time).
//!
//! ```text
//!  n        1    2         4      2      outstanding
//!         ├────┼────┼────────────┼────┤
//!  slope    1    1       2/4       1     min(n, disks) / n, here on two disks
//!  I(t)   the running integral of the slope: a request outstanding from a to b took I(b) − I(a)
//! ```
//!
//! A flow with k requests outstanding since the integral stood at `mark` owes k · (I − mark): settled
//! whenever k changes or somebody asks, in O(1), without a table of requests.
//!
//! The store's parallelism with n outstanding is min(n, disks): a lone request keeps one disk busy, not
//! all of them. Scale: `u128` in units of 2⁻³² ns. What is left of a division is kept until n changes, so that
//! a look at the clock changes nothing. The integral grows no faster than time: 2⁹⁴ after a century.

use crate::units::{Span, Time};

/// Bits behind the binary point of a nanosecond of disk time.
const SCALE_BITS: u32 = 32;

/// An amount of disk time, in units of 2⁻³² ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DiskTime(u128);

/// The running integral.
#[derive(Clone, Debug)]
pub(crate) struct DiskClock {
    at: Time,
    integral: u128,
    /// What is left of the integral's unit, in parts of 1 / outstanding.
    part: u32,
    outstanding: u32,
    disks: u32,
    /// Whether requests that wait in the store are charged nothing: then the slope is 1.
    queued: bool,
    /// The last instant at which there were more requests than disks.
    crowded: Option<Time>,
    /// The last completion, or when the store had nothing before.
    progress: Time,
}

/// How far one flow has been charged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark(u128);

impl DiskTime {
    pub(crate) const ZERO: Self = Self(0);

    pub(crate) const fn from_span(span: Span) -> Self {
        Self((span.as_nanos() as u128) << SCALE_BITS)
    }

    /// Whole nanoseconds, rounded down; saturates.
    pub(crate) fn as_nanos(self) -> u64 {
        u64::try_from(self.0 >> SCALE_BITS).unwrap_or(u64::MAX)
    }

    pub(crate) fn add(&mut self, more: Self) {
        self.0 = self.0.saturating_add(more.0);
    }
}

impl DiskClock {
    pub(crate) const fn new(disks: u32, queued: bool) -> Self {
        Self {
            at: Time::ZERO,
            integral: 0,
            part: 0,
            outstanding: 0,
            disks,
            queued,
            crowded: None,
            progress: Time::ZERO,
        }
    }

    /// Requests at the store, of all flows.
    pub(crate) const fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Moves the integral on to `now`.
    pub(crate) fn advance(&mut self, now: Time) {
        let slice = u128::from(now.since(self.at).as_nanos());
        if slice == 0 {
            return;
        }
        self.at = now;
        if self.outstanding > self.disks {
            self.crowded = Some(self.at);
        }
        if self.queued {
            self.integral = self.integral.saturating_add(slice << SCALE_BITS);
        } else if self.outstanding > 0 {
            let busy = self.outstanding.min(self.disks);
            let grown = (slice << SCALE_BITS) * u128::from(busy) + u128::from(self.part);
            let outstanding = u128::from(self.outstanding);
            let whole = grown / outstanding;
            self.integral = self.integral.saturating_add(whole);
            self.part = (grown - whole * outstanding) as u32;
        }
    }

    /// Whether there have been more requests than disks within the last `window`: only then is the estimate
    /// no more than that.
    pub(crate) fn was_crowded(&self, window: Span) -> bool {
        self.crowded.is_some_and(|last| self.at.since(last) < window)
    }

    /// A request is done: whether the store has been busy for `window` without completing another.
    pub(crate) fn has_stalled(&mut self, window: Span) -> bool {
        let before = core::mem::replace(&mut self.progress, self.at);
        self.at.since(before) >= window
    }

    /// One more request at the store, as of the last [`DiskClock::advance`].
    pub(crate) fn enter(&mut self) {
        if self.outstanding == 0 {
            self.progress = self.at;
        }
        self.outstanding = self.outstanding.saturating_add(1);
        self.part = 0;
    }

    /// One fewer.
    pub(crate) fn leave(&mut self) {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.part = 0;
    }

    /// The point up to which everything is charged now.
    pub(crate) const fn mark(&self) -> Mark {
        Mark(self.integral)
    }

    /// What a flow with `requests` outstanding since `mark` took; `mark` moves on.
    pub(crate) fn settle(&self, mark: &mut Mark, requests: u32) -> DiskTime {
        let slope = self.integral - mark.0;
        *mark = self.mark();
        DiskTime(slope.saturating_mul(u128::from(requests)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looked at every 7 ns or once: a third each of 7000 ns.
    #[test]
    fn a_look_at_the_clock_changes_nothing() {
        let taken = [7, 7_000].map(|step| {
            let mut clock = DiskClock::new(1, false);
            (0..3).for_each(|_| clock.enter());
            let mut mark = clock.mark();
            let mut taken = DiskTime::ZERO;
            for at in (step..=7_000).step_by(step) {
                clock.advance(Time::from_nanos(at as u64));
                taken.add(clock.settle(&mut mark, 1));
            }
            taken
        });
        assert_eq!(taken[0], taken[1]);
        assert_eq!(taken[0].as_nanos(), 2_333);
    }

    #[test]
    fn the_drawing_above() {
        let mut clock = DiskClock::new(2, false);
        let mut mark = clock.mark();
        let mut taken = DiskTime::ZERO;
        for (at, enter) in [(0, 1), (100, 1), (200, 2)] {
            clock.advance(Time::from_nanos(at));
            (0..enter).for_each(|_| clock.enter());
        }
        clock.advance(Time::from_nanos(500));
        taken.add(clock.settle(&mut mark, 1));
        assert_eq!(taken.as_nanos(), 100 + 100 + 150);
        clock.leave();
        clock.leave();
        clock.advance(Time::from_nanos(400));
        clock.advance(Time::from_nanos(600));
        taken.add(clock.settle(&mut mark, 1));
        assert_eq!((taken.as_nanos(), clock.outstanding()), (450, 2));
    }
}
