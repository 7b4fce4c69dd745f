//! Random numbers that are the same everywhere.

use rand_core::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64;

#[derive(Clone, Debug)]
pub(super) struct Random(Pcg64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(Pcg64::seed_from_u64(seed))
    }

    /// From 0 to below 1, in steps of 2^-53.
    pub(super) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// From 0 to below `bound`, which is above 0 (Lemire's multiplication; its bias is below 2^-32 for
    /// bounds below 2^32).
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// An index, with probability in proportion to its weight.
    pub(super) fn weighted(&mut self, weights: impl Iterator<Item = u32> + Clone) -> usize {
        let total: u64 = weights.clone().map(u64::from).sum();
        let mut left = self.below(total.max(1));
        for (index, weight) in weights.enumerate() {
            let weight = u64::from(weight);
            if left < weight {
                return index;
            }
            left -= weight;
        }
        0
    }

    /// Exponentially distributed.
    pub(super) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(1.0 - self.unit())
    }

    /// Pareto distributed with this mean and a `shape` above 1.
    pub(super) fn pareto(&mut self, mean: f64, shape: f64) -> f64 {
        let least = mean * (shape - 1.0) / shape;
        least * libm::pow(1.0 - self.unit(), -1.0 / shape)
    }

    /// A rank from 0 to below `count`, popularity falling with its power of `-skew`.
    pub(super) fn ranked(&mut self, count: u64, skew: f64) -> u64 {
        let power = 1.0 - skew;
        let most = libm::pow(count as f64 + 1.0, power);
        let place = libm::pow(1.0 + self.unit() * (most - 1.0), 1.0 / power);
        (place as u64).clamp(1, count) - 1
    }
}
