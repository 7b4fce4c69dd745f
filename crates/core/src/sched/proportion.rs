//! The rule of three for many parts of one whole: `part · numerator / denominator`, rounded down exactly,
//! without a division for each part.
//!
//! ```text
//!  F = ⌊numerator · 2ˢ / denominator⌋        once; s as large as keeps F below 2⁶³
//!  q = ⌊part · F / 2ˢ⌋                       for part < 2ˢ this is the result, or one less
//!  part · numerator − q · denominator        tells which: below the denominator, or below twice of it
//! ```
//!
//! F is less than one too small, so `part · F / 2ˢ` is less than `part / 2ˢ` < 1 too small. The rest fits into 64 bits
//! if the denominator has 63, so that it is right modulo 2⁶⁴. Whatever does not fit is divided in 128 bits.

/// Bits of F.
const FACTOR_BITS: u32 = 63;

/// A numerator and a denominator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proportion {
    factor: u64,
    shift: u32,
    /// Parts below it need no division.
    below: u64,
    numerator: u64,
    denominator: u128,
}

impl Proportion {
    /// A denominator of 0 counts as 1. Of a numerator beyond 64 bits, 584 years of disk time in nanoseconds, those
    /// that are too many are dropped on both sides.
    pub(super) fn new(numerator: u128, denominator: u128) -> Self {
        let excess = (u128::BITS - numerator.leading_zeros()).saturating_sub(u64::BITS);
        let (numerator, denominator) = ((numerator >> excess) as u64, (denominator >> excess).max(1));
        let bits = u128::BITS - denominator.leading_zeros();
        let shift = (FACTOR_BITS - 1 + bits).saturating_sub(u64::BITS - numerator.leading_zeros());
        if bits > u64::BITS - 1 {
            return Self { factor: 0, shift: 0, below: 0, numerator, denominator };
        }
        let factor = ((u128::from(numerator) << shift) / denominator) as u64;
        // A shift of 0 may be one that would have been negative: F has more than its bits then.
        let below = match shift {
            0 => 0,
            _ => 1_u64.checked_shl(shift).unwrap_or(u64::MAX),
        };
        Self { factor, shift, below, numerator, denominator }
    }

    /// `part · numerator / denominator`, rounded down; at most 2⁶⁴ − 1.
    #[inline(always)]
    pub(super) fn of(&self, part: u64) -> u64 {
        if part >= self.below {
            return self.divided(part);
        }
        let denominator = self.denominator as u64;
        let quotient = ((u128::from(part) * u128::from(self.factor)) >> self.shift) as u64;
        let rest = part.wrapping_mul(self.numerator).wrapping_sub(quotient.wrapping_mul(denominator));
        quotient + u64::from(rest >= denominator)
    }

    /// The same in 128 bits.
    #[cold]
    #[inline(never)]
    fn divided(&self, part: u64) -> u64 {
        let quotient = u128::from(part) * u128::from(self.numerator) / self.denominator;
        u64::try_from(quotient).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Numbers of every length, and those at the ends of it.
    fn number() -> impl Strategy<Value = u64> {
        (any::<u64>(), 0_u32..64, 0_u64..3).prop_map(|(number, shift, less)| match less {
            0 => number >> shift,
            _ => (u64::MAX >> shift).wrapping_sub(less - 1),
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

        #[test]
        fn it_is_the_quotient(part in number(), numerator in number(), denominator in number(), near in 0_u64..4) {
            let denominator = denominator.max(1);
            let proportion = Proportion::new(numerator.into(), denominator.into());
            // A part whose quotient is close to a whole number, too.
            let close = u128::from(part) * u128::from(denominator) / u128::from(numerator.max(1));
            let close = (close as u64).wrapping_add(near).wrapping_sub(2);
            for part in [part, close] {
                let exact = u128::from(part) * u128::from(numerator) / u128::from(denominator);
                prop_assert_eq!(proportion.of(part), u64::try_from(exact).unwrap_or(u64::MAX));
                prop_assert_eq!(proportion.divided(part), u64::try_from(exact).unwrap_or(u64::MAX));
            }
        }

        #[test]
        fn denominators_beyond_64_bits(part in number(), numerator in number(), high in 1_u64..1 << 40, low in any::<u64>()) {
            let denominator = u128::from(high) << 64 | u128::from(low);
            let exact = u128::from(part) * u128::from(numerator) / denominator;
            prop_assert_eq!(u128::from(Proportion::new(numerator.into(), denominator).of(part)), exact);
        }

        /// With what is ordinary nothing is divided: parts of the whole, of up to 62 bits.
        #[test]
        fn parts_of_a_whole_take_no_division(
            numerator in number(), denominator in number(), part in number(),
        ) {
            let (numerator, denominator) = (numerator >> 2, (denominator >> 1).max(1));
            let proportion = Proportion::new(numerator.into(), denominator.into());
            prop_assert!(part % denominator < proportion.below);
        }
    }

    #[test]
    fn a_numerator_beyond_64_bits_keeps_its_first_64() {
        let proportion = Proportion::new(3 << 70, 6 << 70);
        assert_eq!(proportion.of(1_001), 500);
        assert_eq!(Proportion::new(1 << 70, 1).of(2), u64::MAX);
        assert_eq!(Proportion::new(7, 0).of(3), 21);
    }
}
