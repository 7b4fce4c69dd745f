//! The start tags of one flow, by its arrival bound (pClock, section 3.1, ComputeTags): shared by
//! pclock.rs, which also shifts them, and sced.rs, which does not.
//!
//! ```text
//!  0                    2⁹⁶ (the epoch)        frontier     frontier + cost/ρ
//!  ├────────────────────┼──────────────────────┼────────────┼──────────────────> stored tags
//!                         used up by arrivals ─┘            └─ S of the next one over the bound,
//!                                                              if that is not before now
//! ```
//!
//! The *frontier* of a flow is the instant at which its arrival bound is used up by what it has sent;
//! the paper's MaxS is frontier + cost/ρ. It carries the remainder of cost/ρ in units of 1/ρ ns, so
//! rates do not drift. A request inside the bound has S = now, any other has S = max(now, frontier +
//! cost/ρ), and that is the new frontier. S is rounded down to 1 ns.
//!
//! The stored axis starts at 2⁹⁶, so that tags before the epoch are positive too: a frontier is at most
//! σ/ρ = 10²¹ ns before its time. Everything saturates at the top.

use crate::envelope::{TokenBucket, grains_of};
use crate::packed::Packed;
use crate::slo::Envelope;
use crate::units::{Cost, NANOS_PER_SECOND, Rate, Time};

/// Where the stored axis has the epoch: room for tags before it.
pub(crate) const EPOCH: u128 = 1 << 96;

/// A guaranteed flow's arrival bound and how far it is used up. Its last bytes are its owner's to use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamper<Rest = ()> {
    /// σ, ρ and the tokens.
    bucket: TokenBucket,
    /// The stored instant at which the arrival bound is used up: whole ns and a part in 1/ρ ns.
    frontier: Packed<u128>,
    frontier_part: u64,
    /// 1/ρ for a request of cost 1, in whole ns; what is left over follows from it.
    step: u64,
    /// Whether the last arrival was over the bound; if not, the frontier follows from the bucket.
    overrun: bool,
    pub(crate) rest: Rest,
}

impl<Rest: Copy + Default> Stamper<Rest> {
    pub(crate) fn new(now: Time, envelope: &Envelope) -> Self {
        let (step, _) = ONE_REQUEST.div_rem(envelope.rate());
        Self {
            bucket: TokenBucket::new(now, envelope.burst(), envelope.rate()),
            frontier: Packed(0),
            frontier_part: 0,
            step: step as u64,
            overrun: false,
            rest: Rest::default(),
        }
    }

    /// σ.
    pub(crate) const fn burst(&self) -> Cost {
        self.bucket.burst()
    }

    /// Whether σ and ρ are those of `envelope`.
    pub(crate) fn bounds(&self, envelope: &Envelope) -> bool {
        self.burst() == envelope.burst() && self.bucket.rate() == envelope.rate()
    }

    /// New parameters: the debt stays, and so do the frontier and its part of a nanosecond.
    pub(crate) fn reconfigure(&mut self, now: Time, envelope: &Envelope) {
        let (old, new) = (self.bucket.rate().as_millis(), envelope.rate().as_millis());
        let part = u128::from(self.frontier_part) * u128::from(new) / u128::from(old);
        let (step, _) = ONE_REQUEST.div_rem(envelope.rate());
        self.bucket.reconfigure(now, envelope.burst(), envelope.rate());
        self.frontier_part = part as u64;
        self.step = step as u64;
    }

    /// UpdateNumtokens and ComputeTags: the start tag of a request of `cost` that arrives now, not
    /// before `behind`, the tag of the request in front of it.
    #[inline(always)]
    pub(crate) fn stamp(&mut self, now: Time, stored_now: u128, cost: Cost, behind: u128) -> u128 {
        if self.bucket.arrive(now, cost) {
            self.overrun = false;
            return stored_now.max(behind);
        }
        if !self.overrun {
            self.overrun = true;
            self.take_frontier_from_bucket(stored_now, cost);
        }
        self.advance_frontier(cost);
        let earliest = stored_now.max(behind);
        if self.frontier.0 < earliest {
            (self.frontier, self.frontier_part) = (Packed(earliest), 0);
        }
        self.frontier.0
    }

    /// The frontier of a flow whose arrivals so far were inside its bound: now − tokens/ρ, with the
    /// tokens as they were before the request of `cost` that has just been taken.
    fn take_frontier_from_bucket(&mut self, stored_now: u128, cost: Cost) {
        let cost = grains_of(cost);
        let lacking = (cost - grains_of(self.bucket.burst())).max(0);
        let tokens = self.bucket.grains() + cost + lacking;
        let rate = self.bucket.rate().as_millis();
        let (offset, part) = match i64::try_from(-tokens) {
            Ok(short) => (i128::from(short.div_euclid(rate as i64)), short.rem_euclid(rate as i64) as u64),
            Err(_) => ((-tokens).div_euclid(i128::from(rate)), (-tokens).rem_euclid(i128::from(rate)) as u64),
        };
        let frontier = (stored_now.saturating_add_signed(offset), part);
        (self.frontier.0, self.frontier_part) = frontier.max((self.frontier.0, self.frontier_part));
    }

    /// Moves the frontier by cost/ρ.
    fn advance_frontier(&mut self, cost: Cost) {
        let rate = self.bucket.rate();
        let (whole, part) = if cost == Cost::ONE {
            (u128::from(self.step), ONE_REQUEST.0 as u64 - self.step * rate.as_millis())
        } else {
            cost_nanos(cost).div_rem(rate)
        };
        let part = self.frontier_part + part;
        let carry = u64::from(part >= rate.as_millis());
        self.frontier.0 = { self.frontier.0 }.saturating_add(whole).saturating_add(u128::from(carry));
        self.frontier_part = part - carry * rate.as_millis();
    }
}

/// A cost times a second: divided by a rate it is a length of time.
#[derive(Clone, Copy)]
struct CostNanos(u128);

const ONE_REQUEST: CostNanos = cost_nanos(Cost::ONE);

const fn cost_nanos(cost: Cost) -> CostNanos {
    CostNanos(cost.as_millis() as u128 * NANOS_PER_SECOND as u128)
}

impl CostNanos {
    /// Whole nanoseconds, and what is left in units of 1/rate ns. Rates of envelopes are not zero.
    fn div_rem(self, rate: Rate) -> (u128, u64) {
        let rate = rate.as_millis().max(1);
        match u64::try_from(self.0) {
            Ok(short) => (u128::from(short / rate), short % rate),
            Err(_) => (self.0 / u128::from(rate), (self.0 % u128::from(rate)) as u64),
        }
    }
}
