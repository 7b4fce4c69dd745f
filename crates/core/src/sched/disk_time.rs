//! Whose disk time passes, where the driver cannot tell: every slice of time with n requests at the
//! store is charged in equal parts to each of them (FAIRIO; also of use to any other sharer of time).
//!
//! ```text
//!  n        1    2         4      2      outstanding
//!         ├────┼────┼────────────┼────┤
//!  slope    1    1       2/4       1     min(n, disks) / n, here on two disks
//!  I(t)   the running integral of the slope: a request outstanding from a to b took I(b) − I(a)
//!
//!  a flow   k = 0       k = 1    k = 2     k = 1
//!                     ├────────┼─────────┼────┤
//!  base       0        −I(a)     −I(b)    +I(c)      taken = base + k · I(now)
//! ```
//!
//! A flow's base changes when k, the number of its requests at the store, does: what it has taken by now takes no
//! table of requests, and nothing is written while time passes.
//!
//! The store's parallelism with n outstanding is min(n, disks): a lone request keeps one disk busy, not
//! all of them. Of a store that works on one request after the other only those are counted in k that it is working
//! on (line.rs), and the slope is 1.
//!
//! Scale: `u128` in units of 2⁻³² ns. What is left of a division is kept until n changes, so that a look at the clock
//! changes nothing. The integral grows no faster than time, so it stays below 2⁹⁶, and k · I below 2¹²⁸: bases are
//! right modulo 2¹²⁸.

use crate::packed::Packed;
use crate::units::{Span, Time};

/// Bits behind the binary point of a nanosecond of disk time.
const SCALE_BITS: u32 = 32;

/// Whom time is charged to as it passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charges {
    /// Nobody: what is reported is charged ([`Taken::report`]).
    Reported,
    /// All requests at the store, in equal parts.
    All,
    /// Those that the store is working on, all of it.
    Served,
}

/// The running integral.
#[derive(Clone, Debug)]
pub(crate) struct DiskClock {
    at: Time,
    integral: u128,
    /// What is left of the integral's unit, in parts of 1 / outstanding.
    part: u32,
    outstanding: u32,
    disks: u32,
    charges: Charges,
    /// The last instant at which there were more requests than disks.
    crowded: Option<Time>,
    /// The last completion, or when the store had nothing before.
    progress: Time,
}

/// The disk time that a flow has taken, or rather its base.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken(Packed<u128>);

impl DiskClock {
    pub(crate) const fn new(disks: u32, charges: Charges) -> Self {
        Self {
            at: Time::ZERO,
            integral: 0,
            part: 0,
            outstanding: 0,
            disks,
            charges,
            crowded: None,
            progress: Time::ZERO,
        }
    }

    /// Whom time is charged to as it passes.
    pub(crate) const fn charges(&self) -> Charges {
        self.charges
    }

    /// The time up to which everything is charged.
    pub(crate) const fn now(&self) -> Time {
        self.at
    }

    /// Requests at the store, of all flows.
    pub(crate) const fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Moves the integral on to `now`, if that is later.
    #[inline]
    pub(crate) fn advance(&mut self, now: Time) {
        let slice = now.since(self.at).as_nanos();
        if slice == 0 {
            return;
        }
        self.at = now;
        if self.outstanding > self.disks {
            self.crowded = Some(now);
        }
        let grown = match self.charges {
            Charges::All if self.outstanding > 0 => {
                growth(slice, self.outstanding, self.disks, &mut self.part)
            }
            Charges::Served => u128::from(slice) << SCALE_BITS,
            _ => return,
        };
        self.integral = self.integral.saturating_add(grown);
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
}

/// What the integral grows by in `slice` ns; `part` is what is left of its unit, before and after.
#[inline(always)]
fn growth(slice: u64, outstanding: u32, disks: u32, part: &mut u32) -> u128 {
    if outstanding <= disks {
        return u128::from(slice) << SCALE_BITS;
    }
    let before = *part;
    match slice.checked_mul(disks.into()) {
        Some(product) if product >> (u64::BITS - SCALE_BITS) == 0 => {
            let (grown, outstanding) = ((product << SCALE_BITS) + u64::from(before), u64::from(outstanding));
            *part = (grown % outstanding) as u32;
            u128::from(grown / outstanding)
        }
        _ => {
            let grown = (u128::from(slice) << SCALE_BITS) * u128::from(disks) + u128::from(before);
            let outstanding = u128::from(outstanding);
            *part = (grown % outstanding) as u32;
            grown / outstanding
        }
    }
}

impl Taken {
    /// Nothing by now, for a flow with `requests` that count.
    #[inline(always)]
    pub(crate) fn nothing(clock: &DiskClock, requests: u32) -> Self {
        Self(Packed(clock.integral.wrapping_mul(requests.into()).wrapping_neg()))
    }

    /// Whole nanoseconds by now, rounded down, of a flow with `requests` that count; saturates.
    #[inline(always)]
    pub(crate) fn nanos(self, clock: &DiskClock, requests: u32) -> u64 {
        let taken = self.0.0.wrapping_add(clock.integral.wrapping_mul(requests.into()));
        if taken >> (u64::BITS + SCALE_BITS) > 0 { u64::MAX } else { (taken >> SCALE_BITS) as u64 }
    }

    /// The flow has one request more that counts.
    pub(crate) fn enter(&mut self, clock: &DiskClock) {
        self.0 = Packed(self.0.0.wrapping_sub(clock.integral));
    }

    /// One fewer.
    pub(crate) fn leave(&mut self, clock: &DiskClock) {
        self.0 = Packed(self.0.0.wrapping_add(clock.integral));
    }

    /// A request has taken so much, where nothing is estimated.
    pub(crate) fn report(&mut self, span: Span) {
        self.0 = Packed(self.0.0.saturating_add(u128::from(span.as_nanos()) << SCALE_BITS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_drawing_above() {
        let mut clock = DiskClock::new(2, Charges::All);
        let mut taken = Taken::nothing(&clock, 0);
        let mut others = Taken::nothing(&clock, 0);
        taken.enter(&clock);
        for (at, enter) in [(0, 1), (100, 1), (200, 2)] {
            clock.advance(Time::from_nanos(at));
            (0..enter).for_each(|_| clock.enter());
        }
        (0..3).for_each(|_| others.enter(&clock));
        clock.advance(Time::from_nanos(500));
        assert_eq!(taken.nanos(&clock, 1), 100 + 100 + 150);
        assert_eq!(others.nanos(&clock, 3), 3 * 150);
        (0..2).for_each(|_| others.leave(&clock));
        clock.leave();
        clock.leave();
        clock.advance(Time::from_nanos(400));
        clock.advance(Time::from_nanos(600));
        assert_eq!((taken.nanos(&clock, 1), clock.outstanding()), (450, 2));
        assert_eq!(others.nanos(&clock, 1), 3 * 150 + 100);
        assert_eq!(Taken::nothing(&clock, 7).nanos(&clock, 7), 0);
    }

    /// Looked at every 7 ns or once: a third each of 7000 ns.
    #[test]
    fn a_look_at_the_clock_changes_nothing() {
        let taken = [7, 7_000].map(|step| {
            let mut clock = DiskClock::new(1, Charges::All);
            let mut taken = Taken::nothing(&clock, 0);
            taken.enter(&clock);
            (0..3).for_each(|_| clock.enter());
            (step..=7_000).step_by(step).for_each(|at| clock.advance(Time::from_nanos(at as u64)));
            taken.nanos(&clock, 1)
        });
        assert_eq!(taken, [2_333, 2_333]);
    }

    #[test]
    fn of_those_that_are_served_all_time_counts() {
        let mut clock = DiskClock::new(1, Charges::Served);
        let mut taken = Taken::nothing(&clock, 0);
        (0..3).for_each(|_| clock.enter());
        clock.advance(Time::from_nanos(100));
        taken.enter(&clock);
        clock.advance(Time::from_nanos(350));
        assert_eq!(taken.nanos(&clock, 1), 250);
    }

    #[test]
    fn what_is_reported_saturates() {
        let clock = DiskClock::new(1, Charges::Reported);
        let mut taken = Taken::nothing(&clock, 0);
        taken.report(Span::from_nanos(5));
        taken.report(Span::from_nanos(u64::MAX - 6));
        assert_eq!(taken.nanos(&clock, 9), u64::MAX - 1);
        taken.report(Span::from_nanos(2));
        assert_eq!(taken.nanos(&clock, 9), u64::MAX);
    }

    proptest! {
        #[test]
        fn short_slices_grow_as_long_ones_do(
            slice in any::<u64>(), shift in 0_u32..64, outstanding in 1_u32..70_000, disks in 1_u32..4_097,
            before in any::<u32>(),
        ) {
            let slice = slice >> shift;
            let before = if outstanding > disks { before % outstanding } else { 0 };
            let busy = u128::from(outstanding.min(disks));
            let all = (u128::from(slice) << SCALE_BITS) * busy + u128::from(before);
            let mut part = before;
            let grown = growth(slice, outstanding, disks, &mut part);
            prop_assert_eq!(grown, all / u128::from(outstanding));
            prop_assert_eq!(u128::from(part), all % u128::from(outstanding));
        }
    }
}
