//! The mean of a series and how far it can be trusted.
//!
//! ```text
//!  slices    x x x x x x x x x x x x x x x x x x …        rates of equal slices of time
//!  batches  [ x x x ][ x x x ][ x x x ][ x x x ] …        10 to 20 of them: neighbours in time are alike,
//!                                                         means of batches hardly
//!  mean ± t(0.975, batches − 1) · s/√batches · √((1 + r)/(1 − r))
//!                                               └ r: what likeness of neighbouring batches is left
//! ```
//!
//! Source: the method of batch means (Law, *Simulation Modeling and Analysis*, chapter 9); the last factor
//! is the asymptotic variance of a mean of an autoregressive series of order 1.

/// The fewest batches of which an interval is made.
const BATCHES_MIN: usize = 10;
/// Above this many batches, neighbours are put together.
const BATCHES_MAX: usize = 20;

/// The quantile 0.975 of Student's t for 1 to 10 degrees of freedom; beyond, the expansion below is exact
/// to four digits.
const T_975: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];

/// A mean with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half of the width of the 95 % confidence interval.
    pub half_width: f64,
    /// Batches that it was made of.
    pub batches: usize,
}

impl Estimate {
    /// The lower end of the interval, at least 0.
    #[must_use]
    pub fn low(&self) -> f64 {
        (self.mean - self.half_width).max(0.0)
    }

    /// The upper end of the interval.
    #[must_use]
    pub fn high(&self) -> f64 {
        self.mean + self.half_width
    }

    /// Whether the interval reaches at most this fraction of the mean to either side.
    #[must_use]
    pub fn is_within(&self, precision: f64) -> bool {
        self.mean > 0.0 && self.half_width <= precision * self.mean
    }
}

/// The mean of what `series` samples, and the 95 % confidence interval of it. `None` if there are fewer
/// than 10 values. What is left over when batches are made is left out at the beginning.
#[must_use]
pub fn estimate(series: &[f64]) -> Option<Estimate> {
    if series.len() < BATCHES_MIN {
        return None;
    }
    let per_batch = series.len().div_ceil(BATCHES_MAX);
    let batches = series.len() / per_batch;
    let used = &series[series.len() - batches * per_batch..];
    let means: Vec<f64> = used.chunks_exact(per_batch).map(mean_of).collect();
    let mean = mean_of(&means);
    let squares: f64 = means.iter().map(|batch| (batch - mean).powi(2)).sum();
    let variance = squares / (batches - 1) as f64;
    let likeness = likeness(&means, mean, squares);
    let inflation = ((1.0 + likeness) / (1.0 - likeness)).sqrt();
    let half_width = t_975(batches - 1) * (variance / batches as f64).sqrt() * inflation;
    Some(Estimate { mean, half_width, batches })
}

/// The correlation of neighbours, from 0 to 0.8: a negative one is not held in favour. Corrected for the
/// bias of short series, −(1 + 4r)/n (Kendall 1954).
fn likeness(means: &[f64], mean: f64, squares: f64) -> f64 {
    if squares <= 0.0 {
        return 0.0;
    }
    let products: f64 = means.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    let raw = products / squares;
    (raw + (1.0 + 4.0 * raw) / means.len() as f64).clamp(0.0, 0.8)
}

/// The arithmetic mean; 0 of nothing.
pub(crate) fn mean_of(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// The quantile 0.975 of Student's t (Abramowitz and Stegun, 26.7.5).
fn t_975(freedom: usize) -> f64 {
    if let Some(value) = freedom.checked_sub(1).and_then(|index| T_975.get(index)) {
        return *value;
    }
    let (z, n) = (1.959_964_f64, freedom.max(1) as f64);
    let first = (z.powi(3) + z) / (4.0 * n);
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * n * n);
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / (384.0 * n.powi(3));
    z + first + second + third
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, value) in [(1, 12.706), (9, 2.262), (11, 2.201), (15, 2.131), (19, 2.093), (60, 2.000)]
        {
            assert!((t_975(freedom) - value).abs() < 0.001, "{freedom}: {}", t_975(freedom));
        }
    }

    #[test]
    fn a_mean_by_hand() {
        let series: Vec<f64> = [9.0, 11.0].repeat(5);
        let found = estimate(&series).unwrap();
        assert!((found.mean - 10.0).abs() < 1e-12 && found.batches == 10);
        // s² = 10/9; neighbours differ, which is not held in favour: 2.262 · √(10/9/10).
        assert!((found.half_width - 2.262 / 3.0).abs() < 1e-9, "{found:?}");
        assert!(estimate(&series[1..]).is_none());
    }

    #[test]
    fn what_is_left_over_is_left_out_at_the_beginning() {
        let mut series = vec![1_000.0];
        series.extend([5.0; 40]);
        let found = estimate(&series).unwrap();
        assert_eq!((found.mean, found.half_width, found.batches), (5.0, 0.0, 13));
    }
}
