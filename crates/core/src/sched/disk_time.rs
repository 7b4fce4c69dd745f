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
//! all of them. Scale: `u128` in units of 2⁻³² ns, rounded down once per slice. The integral grows no
//! faster than time, so it stays below 2⁹⁶, and k · I below 2¹²⁸: bases are right modulo 2¹²⁸.

use crate::packed::Packed;
use crate::units::{Span, Time};

/// Bits behind the binary point of a nanosecond of disk time.
const SCALE_BITS: u32 = 32;

/// The running integral.
#[derive(Clone, Debug)]
pub(crate) struct DiskClock {
    at: Time,
    integral: u128,
    outstanding: u32,
    disks: u32,
    /// Whether time is charged as it passes; otherwise the integral stays 0.
    estimates: bool,
    /// The last instant at which there were more requests than disks.
    crowded: Option<Time>,
}

/// The disk time that a flow has taken, or rather its base.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken(Packed<u128>);

impl DiskClock {
    /// Without `estimates` only what is reported is charged ([`Taken::report`]).
    pub(crate) const fn new(disks: u32, estimates: bool) -> Self {
        Self { at: Time::ZERO, integral: 0, outstanding: 0, disks, estimates, crowded: None }
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
        if self.estimates && self.outstanding > 0 {
            self.integral = self.integral.saturating_add(growth(slice, self.outstanding, self.disks));
        }
    }

    /// Whether there have been more requests than disks within the last `window`: only then is the estimate
    /// no more than that.
    pub(crate) fn was_crowded(&self, window: Span) -> bool {
        self.crowded.is_some_and(|last| self.at.since(last) < window)
    }

    /// One more request at the store, as of the last [`DiskClock::advance`].
    pub(crate) fn enter(&mut self) {
        self.outstanding = self.outstanding.saturating_add(1);
    }

    /// One fewer.
    pub(crate) fn leave(&mut self) {
        self.outstanding = self.outstanding.saturating_sub(1);
    }
}

/// What the integral grows by in `slice` ns.
#[inline(always)]
fn growth(slice: u64, outstanding: u32, disks: u32) -> u128 {
    if outstanding <= disks {
        return u128::from(slice) << SCALE_BITS;
    }
    match slice.checked_mul(disks.into()) {
        Some(product) if product >> (u64::BITS - SCALE_BITS) == 0 => {
            u128::from((product << SCALE_BITS) / u64::from(outstanding))
        }
        _ => (u128::from(slice) << SCALE_BITS) * u128::from(disks) / u128::from(outstanding),
    }
}

impl Taken {
    /// Nothing by now, for a flow with `requests` at the store.
    #[inline(always)]
    pub(crate) fn nothing(clock: &DiskClock, requests: u32) -> Self {
        Self(Packed(clock.integral.wrapping_mul(requests.into()).wrapping_neg()))
    }

    /// Whole nanoseconds by now, rounded down, of a flow with `requests` at the store; saturates.
    #[inline(always)]
    pub(crate) fn nanos(self, clock: &DiskClock, requests: u32) -> u64 {
        let taken = self.0.0.wrapping_add(clock.integral.wrapping_mul(requests.into()));
        if taken >> (u64::BITS + SCALE_BITS) > 0 { u64::MAX } else { (taken >> SCALE_BITS) as u64 }
    }

    /// The flow has one request more at the store.
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
        let mut clock = DiskClock::new(2, true);
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

    #[test]
    fn what_is_reported_saturates() {
        let clock = DiskClock::new(1, false);
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
        ) {
            let slice = slice >> shift;
            let busy = u128::from(outstanding.min(disks));
            let exact = (u128::from(slice) << SCALE_BITS) * busy / u128::from(outstanding);
            prop_assert_eq!(growth(slice, outstanding, disks), exact);
        }
    }
}
