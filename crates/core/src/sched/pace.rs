//! cost / share as a length of virtual or real time, without drift.
//!
//! ```text
//!  charge:   cost · SCALE / share  =  whole units  +  part / share of a unit
//!                                     returned        kept: carried into the next charge
//! ```
//!
//! The sum of all charges at one share is the exact quotient of the sum, rounded down once. Range:
//! costs below 2⁶⁴ thousandths and `SCALE` up to 2⁵⁶ give numerators below 2¹²⁰. The share of a flow is
//! below 2⁶⁰ (10¹² thousandths per second, times a weight of 10⁶), so its parts take 64 bits and a sum of
//! two does not wrap; that of 2²⁰ flows together is below 2⁸⁰, and takes 128.

use crate::packed::Packed;
use crate::slo::{Envelope, Slo};
use crate::units::{Cost, NANOS_PER_SECOND, Weight};

/// Units of virtual time in a thousandth of a request at share 1. A request of cost 1 is 64 units long
/// at the largest share, 10¹⁸, and 2⁶⁶ at the smallest: 2¹²⁸ is a century of them at 10⁹ per second.
pub(super) const VIRTUAL: u64 = 1 << 56;

/// Nanoseconds in the time that 1/1000 request takes at a rate of 1/1000 request per second.
pub(super) const NANOS: u64 = NANOS_PER_SECOND;

/// How fast time passes for the share of a flow, and the part of a unit that it has not been charged yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace<const SCALE: u64> {
    share: u64,
    /// For a request of cost 1: up to 2⁶⁶ units.
    step: Packed<u128>,
    step_part: u64,
    part: u64,
}

/// The same for the share of all flows together.
#[derive(Clone, Copy, Debug)]
pub(super) struct TotalPace<const SCALE: u64> {
    share: u128,
    step: u128,
    step_part: u128,
    part: u128,
}

/// The share of a guaranteed flow: ρ in thousandths, times the weight, which is 1 unless it is set.
/// With weights of 1 a saturated store gives each flow at least its ρ if Σρ fits its capacity, which is
/// what an SLO in IOPS leads its owner to expect; a weight beside it multiplies its share.
pub(super) fn share_of(envelope: &Envelope, slo: &Slo) -> u64 {
    envelope.rate().as_millis() * u64::from(slo.weight().as_u32())
}

const _: () = assert!(
    (Envelope::RATE_MAX.as_millis() as u128 * Weight::MAX.as_u32() as u128) >> 60 == 0,
    "no share wraps"
);

impl<const SCALE: u64> Pace<SCALE> {
    /// The pace of `share`; that of share 1 if it is zero.
    pub(super) const fn new(share: u64) -> Self {
        let share = if share == 0 { 1 } else { share };
        let one = length_numerator(Cost::ONE, SCALE);
        let (step, step_part) = (one / share as u128, (one % share as u128) as u64);
        Self { share, step: Packed(step), step_part, part: 0 }
    }

    /// Changes the share. The part of a unit that is not charged yet is kept if it stays the same.
    pub(super) const fn change(&mut self, share: u64) {
        if share != self.share {
            *self = Self::new(share);
        }
    }

    pub(super) const fn share(&self) -> u64 {
        self.share
    }

    /// The length of `cost`, with what was left over from earlier ones.
    pub(super) fn charge(&mut self, cost: Cost) -> u128 {
        let (whole, part) = if cost == Cost::ONE {
            (self.step.0, self.step_part)
        } else {
            let (numerator, share) = (length_numerator(cost, SCALE), u128::from(self.share));
            (numerator / share, (numerator % share) as u64)
        };
        let part = self.part + part;
        let carry = u64::from(part >= self.share);
        self.part = part - carry * self.share;
        whole + u128::from(carry)
    }
}

impl<const SCALE: u64> TotalPace<SCALE> {
    /// As [`Pace::new`].
    pub(super) const fn new(share: u128) -> Self {
        let share = if share == 0 { 1 } else { share };
        let one = length_numerator(Cost::ONE, SCALE);
        Self { share, step: one / share, step_part: one % share, part: 0 }
    }

    /// As [`Pace::charge`].
    pub(super) fn charge(&mut self, cost: Cost) -> u128 {
        let (whole, part) = if cost == Cost::ONE {
            (self.step, self.step_part)
        } else {
            let numerator = length_numerator(cost, SCALE);
            (numerator / self.share, numerator % self.share)
        };
        let part = self.part + part;
        let carry = u128::from(part >= self.share);
        self.part = part - carry * self.share;
        whole + carry
    }
}

const fn length_numerator(cost: Cost, scale: u64) -> u128 {
    cost.as_millis() as u128 * scale as u128
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn charges_add_up_exactly(share in 1_u64..1 << 60, costs in prop::collection::vec(0_u64..3_000, 0..50)) {
            let mut pace = Pace::<VIRTUAL>::new(share);
            let charged: u128 = costs.iter().map(|cost| pace.charge(Cost::from_millis(*cost))).sum();
            let total: u64 = costs.iter().sum();
            prop_assert_eq!(charged, u128::from(total) * u128::from(VIRTUAL) / u128::from(share));
        }

        #[test]
        fn so_do_those_of_all_flows(share in 1_u128..1 << 80, costs in prop::collection::vec(0_u64..3_000, 0..50)) {
            let mut pace = TotalPace::<VIRTUAL>::new(share);
            let charged: u128 = costs.iter().map(|cost| pace.charge(Cost::from_millis(*cost))).sum();
            let total: u64 = costs.iter().sum();
            prop_assert_eq!(charged, u128::from(total) * u128::from(VIRTUAL) / share);
        }
    }

    #[test]
    fn the_extremes_do_not_wrap() {
        let most = u128::from(u64::MAX) << 56;
        for share in [0, 1, 10_u64.pow(18)] {
            let mut pace = Pace::<VIRTUAL>::new(share);
            for _ in 0..4 {
                assert!(pace.charge(Cost::from_millis(u64::MAX)) <= most);
            }
        }
        let mut pace = TotalPace::<VIRTUAL>::new(10_u128.pow(18) << 20);
        for _ in 0..4 {
            assert!(pace.charge(Cost::from_millis(u64::MAX)) <= most);
        }
    }
}
