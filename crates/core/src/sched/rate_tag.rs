//! When the next request of a flow is due at a rate: the reservation and limit tags of mClock and RBFQ.
//!
//! ```text
//!  ──┬────────┬────────┬───────────────────┬────────┬──> time     one tag per flow, that of its head:
//!    S  c/rate S  c/rate next     idle      S = now   next        moving a flow's tags is O(1)
//! ```
//!
//! Scale: a tag is a `u128` in units of 2⁻²⁴ ns. cost/rate is rounded down once per request, so a rate is
//! too high by at most rate · 2⁻²⁴ ns: one part in 10¹³ at 1000 IOPS, 6·10⁻⁸ at the largest rate.
//! Time ends at 2⁶⁴ ns, 584 years, and tags are held there.

use crate::slo::{Envelope, Slo};
use crate::units::{Cost, NANOS_PER_SECOND, Rate, Time};

/// Bits behind the binary point of a nanosecond. The longest step of one request, 10¹² ns at 0.001 IOPS,
/// just fits into 64 bits.
const SCALE_BITS: u32 = 24;

/// How long a client that waits for a reply may be late without beginning anew: 10 ms. A tag far in the past
/// would make others believe that the store is behind with its reservations.
const REPLY_MAX: u128 = 10_000_000 << SCALE_BITS;

/// The end of time: everything is due then.
const END: u128 = (u64::MAX as u128) << SCALE_BITS;

/// The tags of one flow at one rate. Packed: a flow of mClock has two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(Rust, packed(4))]
pub(crate) struct RateTag {
    /// The tag of the head, or the earliest tag of an idle flow's next request.
    next: Tag,
    /// Zero for no rate: every request is due at once.
    rate: Rate,
    /// cost/rate for a request of cost 1.
    step: u64,
    /// The cost of the request before: what `next` is waiting for.
    owed: Cost,
}

/// A tag at rest: none is above [`END`], which has 88 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(Rust, packed(4))]
struct Tag {
    low: u64,
    high: u32,
}

const _: () = assert!(size_of::<RateTag>() == 36);
const _: () = assert!(END >> 96 == 0);

impl Tag {
    const ZERO: Self = Self { low: 0, high: 0 };

    /// `tag`, or the end of time if it is beyond that.
    fn new(tag: u128) -> Self {
        let tag = tag.min(END);
        Self { low: tag as u64, high: (tag >> u64::BITS) as u32 }
    }

    const fn get(self) -> u128 {
        (self.high as u128) << u64::BITS | self.low as u128
    }
}

impl RateTag {
    pub(crate) const NONE: Self =
        Self { next: Tag::ZERO, rate: Rate::from_millis(0), step: 0, owed: Cost::ZERO };

    /// A pace whose first request is due at the tag `begin`.
    pub(crate) fn new(begin: u128, rate: Option<Rate>) -> Self {
        let Some(rate) = rate else { return Self::NONE };
        let step = length(Cost::ONE, rate) as u64;
        Self { next: Tag::new(begin), rate, step, owed: Cost::ZERO }
    }

    pub(crate) const fn is_set(&self) -> bool {
        self.rate.as_millis() != 0
    }

    /// The tag of the head.
    pub(crate) const fn due(&self) -> u128 {
        self.next.get()
    }

    /// `requests` ordinary requests have been served elsewhere.
    pub(crate) fn count_elsewhere(&mut self, requests: u32) {
        let away = u128::from(requests) * u128::from(self.step);
        self.next = Tag::new(self.due().saturating_add(away));
    }

    /// The head has been served and counts.
    pub(crate) fn charge(&mut self, cost: Cost) {
        let length = if cost == Cost::ONE { self.step.into() } else { length(cost, self.rate) };
        self.next = Tag::new(self.due().saturating_add(length));
        self.owed = cost;
    }

    /// The head is due at the tag `earliest` at the earliest.
    pub(crate) fn not_before(&mut self, earliest: u128) {
        if self.due() < earliest {
            (self.next, self.owed) = (Tag::new(earliest), Cost::ZERO);
        }
    }

    /// The flow was idle. If the tag `now` is later than its own by a request of its rate, or by
    /// [`REPLY_MAX`], it begins anew there; if not it has only waited for a reply, and keeps its place. So
    /// it claims less than one request: an ordinary one, or one as dear as the one that it waited for.
    pub(crate) fn resume(&mut self, now: u128) {
        let late = now.saturating_sub(self.due());
        if late >= u128::from(self.step).min(REPLY_MAX) && late >= self.dear_step().min(REPLY_MAX) {
            self.not_before(now);
        }
    }

    /// The step of the last request if that cost more than one; none if not.
    fn dear_step(&self) -> u128 {
        let Self { owed, rate, .. } = *self;
        if owed > Cost::ONE { length(owed, rate) } else { 0 }
    }

    /// Changes the rate; the last request's cost is spread at the new one. `begin` as in [`RateTag::new`], for
    /// a flow that had no rate.
    pub(crate) fn reconfigure(&mut self, begin: u128, rate: Option<Rate>) {
        if !self.is_set() || rate.is_none() {
            *self = Self::new(begin, rate);
        } else if let Some(rate) = rate
            && rate != { self.rate }
        {
            let last = self.due().saturating_sub(length(self.owed, self.rate));
            let next = last.saturating_add(length(self.owed, rate)).min(END);
            *self = Self { owed: self.owed, ..Self::new(next, Some(rate)) };
        }
    }
}

/// The clock that reservation tags go by. It is the time while the store keeps up with the reservations.
/// When the smallest tag has fallen behind by more than [`LAG_MAX`], in an overload or because the store
/// has stalled, the clock loses what is over that: otherwise a stall of an hour would be followed by
/// hours in which reservations are caught up and weights mean nothing. All tags fall behind alike, so
/// that an overload is still shared in proportion to the reservations.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReservationClock {
    lost: u128,
    /// By how much the smallest tag was behind when last observed.
    lag: u128,
}

/// One second.
const LAG_MAX: u128 = (NANOS_PER_SECOND as u128) << SCALE_BITS;

impl ReservationClock {
    fn at(&self, now: Time) -> u128 {
        tag_of(now).saturating_sub(self.lost)
    }

    /// The earliest tag of a new or returning flow: as far behind as those that wait.
    pub(crate) fn earliest(&self, now: Time) -> u128 {
        self.at(now).saturating_sub(self.lag)
    }

    /// Takes note of the smallest tag that waits; says whether it is due.
    pub(crate) fn observe(&mut self, now: Time, smallest: u128) -> bool {
        let behind = self.at(now).saturating_sub(smallest);
        self.lost += behind.saturating_sub(LAG_MAX);
        self.lag = behind.min(LAG_MAX);
        smallest <= self.at(now)
    }

    /// Takes note that no reservation waits.
    pub(crate) fn observe_nothing(&mut self) {
        self.lag = 0;
    }

    /// The first instant at which `tag` has come.
    pub(crate) fn instant_of(&self, tag: u128) -> Time {
        instant_of(tag.saturating_add(self.lost))
    }
}

/// What is reserved for a flow: its reservation, or else the rate of its envelope.
pub(crate) fn reserved(slo: &Slo) -> Option<Rate> {
    slo.reservation().or(slo.envelope().map(Envelope::rate))
}

/// `time` on the axis of the tags.
pub(crate) const fn tag_of(time: Time) -> u128 {
    (time.as_nanos() as u128) << SCALE_BITS
}

/// The first instant at which `tag` has come.
pub(crate) fn instant_of(tag: u128) -> Time {
    let nanos = tag.div_ceil(1 << SCALE_BITS);
    Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// cost / rate, rounded down; without a rate, no time.
fn length(cost: Cost, rate: Rate) -> u128 {
    let nanos = u128::from(cost.as_millis()) * u128::from(NANOS_PER_SECOND);
    let rate = u128::from(rate.as_millis());
    match nanos.checked_mul(1 << SCALE_BITS) {
        Some(scaled) => scaled.checked_div(rate).unwrap_or(0),
        None => (nanos.checked_div(rate).unwrap_or(0)).saturating_mul(1 << SCALE_BITS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(rate: Rate) -> RateTag {
        RateTag::new(0, Some(rate))
    }

    #[test]
    fn the_longest_and_the_shortest_step_fit() {
        assert_eq!(u128::from(pace(Rate::from_millis(1)).step), 1_000_000_000_000 << SCALE_BITS);
        assert_eq!({ pace(Envelope::RATE_MAX).step }, 1 << SCALE_BITS);
    }

    #[test]
    fn a_third_of_a_second_does_not_drift() {
        let mut pace = pace(Rate::per_second(3));
        for _ in 0..300_000 {
            pace.charge(Cost::ONE);
        }
        assert_eq!(instant_of(pace.due()), Time::from_millis(100_000_000), "less than 1 ns was lost");
    }

    #[test]
    fn a_new_rate_holds_at_once() {
        let mut pace = pace(Rate::from_millis(1));
        pace.charge(Cost::ONE);
        pace.reconfigure(tag_of(Time::from_millis(1)), Some(Rate::per_second(100)));
        assert_eq!(instant_of(pace.due()), Time::from_millis(10));
        pace.count_elsewhere(2);
        assert_eq!(instant_of(pace.due()), Time::from_millis(30));
        pace.not_before(tag_of(Time::from_millis(35)));
        assert_eq!(instant_of(pace.due()), Time::from_millis(35));
    }

    #[test]
    fn the_end_of_time_comes() {
        let mut pace = pace(Rate::from_millis(1));
        for cost in [u64::MAX, u64::MAX, 1] {
            pace.charge(Cost::from_millis(cost));
            pace.count_elsewhere(u32::MAX);
        }
        assert_eq!(instant_of(pace.due()), Time::from_nanos(u64::MAX));
    }
}
