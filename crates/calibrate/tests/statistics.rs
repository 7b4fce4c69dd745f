//! Laws of the statistics on synthetic series: how often the interval covers the truth, and what is told of
//! the course.

use evenkeel_calibrate::{Course, course, estimate};
use proptest::prelude::*;

/// A seeded sequence of its own, so that the series do not depend on what is tested.
struct Noise(u64);

impl Noise {
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Standard normal enough: the sum of twelve uniform ones.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    /// Around `mean`, neighbours alike by `likeness`, with a standard deviation of `spread`.
    fn series(&mut self, length: usize, mean: f64, spread: f64, likeness: f64) -> Vec<f64> {
        let mut level = self.normal();
        let fresh = (1.0 - likeness * likeness).sqrt();
        (0..length)
            .map(|_| {
                level = likeness * level + fresh * self.normal();
                mean + spread * level
            })
            .collect()
    }
}

/// Of a thousand series, how many intervals hold the true mean.
fn covered(length: usize, likeness: f64) -> usize {
    let mut noise = Noise(0x2545_f491_4f6c_dd1d);
    (0..1_000)
        .filter(|_| {
            let found = estimate(&noise.series(length, 1_000.0, 100.0, likeness)).unwrap();
            found.low() <= 1_000.0 && 1_000.0 <= found.high()
        })
        .count()
}

#[test]
fn the_interval_covers_the_truth_as_often_as_it_says() {
    for (length, likeness) in [(40, 0.0), (160, 0.0), (80, 0.3), (160, 0.5), (400, 0.8)] {
        let covered = covered(length, likeness);
        // 950 are promised; four standard deviations of chance are 28.
        assert!((915..=990).contains(&covered), "{length} {likeness}: {covered}");
    }
}

#[test]
fn steady_series_are_hardly_ever_called_anything_else() {
    for likeness in [0.0, 0.5] {
        let mut noise = Noise(77);
        let wrong = (0..1_000)
            .filter(|_| course(&noise.series(200, 1_000.0, 200.0, likeness)) != Course::Steady)
            .count();
        assert!(wrong <= 10, "{likeness}: {wrong} of 1000");
    }
}

proptest! {
    /// A credit that is used up in the middle part is found, with both levels and its end.
    #[test]
    fn credits_are_found(
        seed in 1_u64.., length in 100_usize..600, place in 0.15_f64..0.85, fall in 0.3_f64..0.9,
        likeness in 0.0_f64..0.4,
    ) {
        let at = (length as f64 * place) as usize;
        let mut series = Noise(seed).series(length, 1_000.0, 40.0, likeness);
        series[at..].iter_mut().for_each(|rate| *rate *= 1.0 - fall);
        let Course::BurstCredit { before, after, at: found } = course(&series) else {
            return Err(TestCaseError::fail(format!("{:?}", course(&series))));
        };
        prop_assert!(found.abs_diff(at) <= 2, "{found} for {at}");
        prop_assert!((before - 1_000.0).abs() < 60.0 && (after - 1_000.0 * (1.0 - fall)).abs() < 60.0);
    }

    /// Drift is found with its sign and size.
    #[test]
    fn drift_is_found(seed in 1_u64.., length in 100_usize..600, change in 0.2_f64..0.6, rises: bool) {
        let change = if rises { change } else { -change };
        let mut series = Noise(seed).series(length, 0.0, 30.0, 0.0);
        for (index, rate) in series.iter_mut().enumerate() {
            *rate += 1_000.0 * (1.0 + change * index as f64 / length as f64);
        }
        let Course::Drift { change: found, .. } = course(&series) else {
            return Err(TestCaseError::fail(format!("{:?}", course(&series))));
        };
        prop_assert!((found / 1_000.0 - change).abs() < 0.1, "{found} for {change}");
    }

    /// Any numbers are judged without a fault, and the interval holds its own mean.
    #[test]
    fn any_series_is_judged(series in prop::collection::vec(0.0_f64..1e7, 0..300)) {
        let _ = course(&series);
        if let Some(found) = estimate(&series) {
            prop_assert!(found.low() <= found.mean && found.mean <= found.high());
            prop_assert!(found.half_width.is_finite());
        }
    }
}
