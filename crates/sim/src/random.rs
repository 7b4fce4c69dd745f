//! Random numbers that repeat: a pinned generator, and distributions computed without the system's
//! mathematical library, whose last bits differ from machine to machine.
//!
//! ```text
//!  seed, purpose ──> splitmix64 ──> Pcg64Mcg ──> 53 bits ──> u in [0, 1) ──> inverse of the distribution
//! ```
//!
//! Every stream of requests draws from a generator of its own, named by flow and component: what one
//! flow draws never changes what another one gets, so schedulers are compared on the same arrivals.

use evenkeel_core::Span;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random(Pcg64Mcg);

impl Random {
    /// The stream of `seed` for the purpose that `path` names; equal names give equal numbers.
    #[must_use]
    pub fn new(seed: u64, path: &[u64]) -> Self {
        let mut state = splitmix64(seed);
        for step in path {
            state = splitmix64(state ^ splitmix64(*step));
        }
        Self(Pcg64Mcg::seed_from_u64(state))
    }

    /// A number in [0, 1), a multiple of 2⁻⁵³.
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A whole number below `bound`, each with the same probability up to `bound`/2⁶⁴; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Whether something of probability `probability` happens.
    pub fn happens(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// A length of time from `law`.
    pub fn span(&mut self, law: Law) -> Span {
        match law {
            Law::Constant(span) => span,
            Law::Exponential(mean) => {
                let nanos = -libm::log1p(-self.unit()) * mean.as_nanos() as f64;
                Span::from_nanos(rounded(nanos))
            }
            Law::Pareto { mean, shape } => {
                // Of mean m and shape a, the least value is m (a − 1) / a.
                let least = mean.as_nanos() as f64 * (shape - 1.0) / shape;
                let nanos = least * libm::pow(1.0 - self.unit(), -1.0 / shape);
                Span::from_nanos(rounded(nanos))
            }
        }
    }
}

/// How lengths of time are distributed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Law {
    /// Always this one.
    Constant(Span),
    /// Exponential with this mean.
    Exponential(Span),
    /// Pareto (type I) with this mean.
    Pareto {
        /// The mean.
        mean: Span,
        /// The tail index α, above 1; the variance is infinite up to 2.
        shape: f64,
    },
}

fn rounded(nanos: f64) -> u64 {
    // The cast saturates.
    libm::round(nanos) as u64
}

/// The finaliser of splitmix64 (Steele, Lea, Flood 2014) over a counter.
fn splitmix64(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_ns(law: Law, count: u32) -> f64 {
        let mut random = Random::new(1, &[2, 3]);
        (0..count).map(|_| random.span(law).as_nanos() as f64).sum::<f64>() / f64::from(count)
    }

    #[test]
    fn the_stream_of_a_seed_is_pinned() {
        let mut random = Random::new(42, &[1, 0]);
        let drawn: Vec<u64> = (0..4).map(|_| random.below(1_000_000)).collect();
        assert_eq!(drawn, PINNED, "a new generator changes every result: say so in the changelog");
        assert_ne!(Random::new(42, &[0, 1]).below(u64::MAX), Random::new(42, &[1, 0]).below(u64::MAX));
    }

    const PINNED: [u64; 4] = [178_422, 666_728, 660_764, 314_401];

    #[test]
    fn the_means_are_those_asked_for() {
        let mean = Span::from_millis(10);
        assert_eq!(mean_ns(Law::Constant(mean), 3), 1e7);
        let exponential = mean_ns(Law::Exponential(mean), 400_000);
        assert!((exponential / 1e7 - 1.0).abs() < 0.005, "{exponential}");
        let pareto = mean_ns(Law::Pareto { mean, shape: 3.0 }, 400_000);
        assert!((pareto / 1e7 - 1.0).abs() < 0.01, "{pareto}");
    }

    #[test]
    fn pareto_never_falls_below_its_least_value() {
        let mut random = Random::new(7, &[]);
        let law = Law::Pareto { mean: Span::from_millis(3), shape: 1.5 };
        assert!((0..10_000).all(|_| random.span(law) >= Span::from_millis(1)));
    }
}
