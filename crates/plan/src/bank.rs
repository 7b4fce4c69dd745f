//! Many buckets that see the same requests, and count what each admits.
//!
//! ```text
//!  request ──> time since the one before, cost ──> [ lack_1 | lack_2 | ... | lack_n ]
//!                                                     what each bucket lacks of being full, in grains
//! ```
//!
//! The same as [`evenkeel_core::TokenBucket::take`], which a test holds it against, in 64 bits instead of 128 where
//! the bursts allow it, and with the time since the last request computed once for all.

use evenkeel_core::envelope::grains_of;
use evenkeel_core::{Cost, Rate, Time, TokenBucket};

/// The largest burst that 64 bits are enough for, in grains of 10⁻¹² request: 4.6 million requests.
const NARROW_MAX: u64 = 1 << 62;

/// Buckets that are full at the beginning of time.
pub(crate) enum Bank {
    Narrow { buckets: Vec<Narrow>, now: Time },
    Wide(Vec<(TokenBucket, u64)>),
}

#[derive(Clone, Copy)]
pub(crate) struct Narrow {
    /// What it lacks of being full.
    lack: u64,
    burst: u64,
    rate: u64,
    /// After so many nanoseconds it is full again, whatever it lacked.
    full_after: u64,
    admitted: u64,
}

impl Bank {
    pub(crate) fn new(buckets: impl Iterator<Item = (Cost, Rate)> + Clone) -> Self {
        let narrow = |(burst, rate): (Cost, Rate)| {
            let burst = u64::try_from(grains_of(burst)).ok().filter(|burst| *burst <= NARROW_MAX)?;
            let rate = rate.as_millis();
            let full_after = if rate == 0 { 0 } else { burst.div_ceil(rate) };
            // So that nothing earned overflows.
            rate.checked_mul(full_after)?;
            Some(Narrow { lack: 0, burst, rate, full_after, admitted: 0 })
        };
        match buckets.clone().map(narrow).collect() {
            Some(buckets) => Self::Narrow { buckets, now: Time::ZERO },
            None => {
                let wide = |(burst, rate)| (TokenBucket::new(Time::ZERO, burst, rate), 0);
                Self::Wide(buckets.map(wide).collect())
            }
        }
    }

    /// A request, not before the one before it.
    pub(crate) fn take(&mut self, at: Time, cost: Cost) {
        match self {
            Self::Narrow { buckets, now } => {
                let passed = at.since(*now).as_nanos();
                *now = at;
                // More than the largest burst is refused by all, as it should be.
                let cost = u64::try_from(grains_of(cost)).unwrap_or(u64::MAX).min(NARROW_MAX + 1);
                for bucket in buckets {
                    let earned = bucket.rate * passed.min(bucket.full_after);
                    let lack = bucket.lack.saturating_sub(earned);
                    let admits = lack + cost <= bucket.burst;
                    bucket.lack = lack + if admits { cost } else { 0 };
                    bucket.admitted += u64::from(admits);
                }
            }
            Self::Wide(buckets) => {
                for (bucket, admitted) in buckets {
                    *admitted += u64::from(bucket.take(at, cost));
                }
            }
        }
    }

    /// How many requests each has admitted.
    pub(crate) fn admitted(self) -> Vec<u64> {
        match self {
            Self::Narrow { buckets, .. } => buckets.into_iter().map(|bucket| bucket.admitted).collect(),
            Self::Wide(buckets) => buckets.into_iter().map(|(_, admitted)| admitted).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_bank_admits_what_its_buckets_admit_one_by_one(
            buckets in prop::collection::vec(
                (prop_oneof![0_u64..20_000, 0..=1_000_000_000_000_u64], prop_oneof![0_u64..9_000_000, 0..=1_000_000_000_000_u64]),
                1..6,
            ),
            requests in prop::collection::vec(
                (prop_oneof![0_u64..3_000_000, 0..1_u64 << 50], prop_oneof![Just(1_000_u64), 0..9_000_u64, any::<u64>()]),
                0..80,
            ),
        ) {
            let buckets = buckets.iter().map(|(burst, rate)| (Cost::from_millis(*burst), Rate::from_millis(*rate)));
            let mut bank = Bank::new(buckets.clone());
            let mut singly: Vec<(TokenBucket, u64)> =
                buckets.map(|(burst, rate)| (TokenBucket::new(Time::ZERO, burst, rate), 0)).collect();
            let mut now = 0;
            for (gap, cost) in requests {
                now += gap;
                let (at, cost) = (Time::from_nanos(now), Cost::from_millis(cost));
                bank.take(at, cost);
                for (bucket, admitted) in &mut singly {
                    *admitted += u64::from(bucket.take(at, cost));
                }
            }
            let singly: Vec<u64> = singly.into_iter().map(|(_, admitted)| admitted).collect();
            prop_assert_eq!(bank.admitted(), singly);
        }
    }
}
