//! Mean, variance and quantiles of a number.

const SUB_BITS: u32 = 4;
const SUBS: usize = 1 << SUB_BITS;
const BINS: usize = (64 - SUB_BITS as usize + 1) * SUBS;

/// A log-linear histogram: bins of 1/16 of a power of two, each with the largest value it met, so
/// quantiles are at most 6.3 % too high, and exact where a bin met one value only.
///
/// ```text
///  0 1 2 … 15 | 16 … 31 | 32 34 … 62 | 64 68 … 124 | …
///   exact        exact      by 2           by 4
/// ```
#[derive(Clone, Debug)]
pub struct Spread {
    /// How many values, and the largest of them.
    bins: Box<[(u64, u64)]>,
    count: u64,
    least: u64,
    most: u64,
    mean: f64,
    /// Sum of squared distances from the mean (Welford 1962).
    squares: f64,
}

impl Spread {
    pub(super) fn new() -> Self {
        let bins = vec![(0, 0); BINS].into_boxed_slice();
        Self { bins, count: 0, least: u64::MAX, most: 0, mean: 0.0, squares: 0.0 }
    }

    pub(super) fn add(&mut self, value: u64) {
        let bin = &mut self.bins[bin_of(value)];
        *bin = (bin.0 + 1, bin.1.max(value));
        self.count += 1;
        self.least = self.least.min(value);
        self.most = self.most.max(value);
        let distance = value as f64 - self.mean;
        self.mean += distance / self.count as f64;
        self.squares += distance * (value as f64 - self.mean);
    }

    /// Values taken.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The smallest; 0 if there is none.
    #[must_use]
    pub fn least(&self) -> u64 {
        if self.count == 0 { 0 } else { self.least }
    }

    /// The largest.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.most
    }

    /// The mean; 0 of nothing.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The squared coefficient of variation: 0 of what is constant, 1 of a Poisson process's gaps, more
    /// of bursts.
    #[must_use]
    pub fn variation_squared(&self) -> f64 {
        if self.count == 0 || self.mean == 0.0 {
            return 0.0;
        }
        self.squares / self.count as f64 / (self.mean * self.mean)
    }

    /// The smallest value that no more than `1 - share` of all exceed, at most 6.3 % too high.
    #[must_use]
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = (self.count as f64 * share).ceil().max(1.0) as u64;
        let mut below = 0;
        for (count, largest) in &self.bins {
            below += count;
            if below >= wanted {
                return *largest;
            }
        }
        self.most
    }

    /// Counts by powers of two: the smallest value of each that was met, and how often.
    #[must_use]
    pub fn powers(&self) -> Vec<(u64, u64)> {
        let mut powers: Vec<(u64, u64)> = Vec::new();
        for (bin, (count, _)) in self.bins.iter().enumerate().filter(|(_, bin)| bin.0 > 0) {
            let value = first_of(bin);
            let power = if value == 0 { 0 } else { 1 << value.ilog2() };
            match powers.last_mut() {
                Some((last, sum)) if *last == power => *sum += count,
                _ => powers.push((power, *count)),
            }
        }
        powers
    }
}

fn bin_of(value: u64) -> usize {
    if value < SUBS as u64 {
        return value as usize;
    }
    let shift = value.ilog2() - SUB_BITS;
    (shift as usize + 1) * SUBS + (value >> shift) as usize - SUBS
}

fn first_of(bin: usize) -> u64 {
    if bin < SUBS {
        return bin as u64;
    }
    ((bin % SUBS + SUBS) as u64) << (bin / SUBS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bins_cover_every_value(value: u64) {
            let bin = bin_of(value);
            prop_assert!(first_of(bin) <= value && (bin + 1 == BINS || value < first_of(bin + 1)));
        }

        #[test]
        fn quantiles_and_moments_agree_with_sorting(mut values in prop::collection::vec(0_u64..1 << 40, 1..200)) {
            let mut spread = Spread::new();
            values.iter().for_each(|value| spread.add(*value));
            values.sort_unstable();
            for share in [0.01, 0.5, 0.95, 0.99, 1.0] {
                let exact = values[((values.len() as f64 * share).ceil() as usize).max(1) - 1];
                let found = spread.quantile(share);
                prop_assert!(found >= exact && found as f64 <= exact as f64 * 1.0625 + 1.0, "{found} {exact}");
            }
            let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
            prop_assert!((spread.mean() - mean).abs() <= mean * 1e-9 + 1e-9);
            prop_assert_eq!(spread.powers().iter().map(|(_, count)| count).sum::<u64>(), values.len() as u64);
        }
    }
}
