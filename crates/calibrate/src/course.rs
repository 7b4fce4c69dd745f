//! How throughput went over a long measurement: steady, drifting, or falling when a credit was used up.
//!
//! ```text
//!  rate │▄▄▄▄▄▄▄▄                     │▄▄▖                        │
//!       │        ▄▄▄▄▄▄▄▄▄            │   ▀▀▀▀▄▄▄▖                │▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄
//!       └──────────────────           └───────────▀▀▀──           └──────────────────
//!          a burst credit                   drift                       steady
//! ```
//!
//! A step is placed where the two halves leave the least squares; a line is fitted likewise. Whichever
//! leaves less is judged: it has to be large (a tenth of the mean for a step, a twentieth over the whole
//! length for a line) and far outside of the noise. The noise is taken from differences of neighbouring
//! batches, so that the step or line itself does not count as noise, and is widened by their likeness.

use crate::statistics::mean_of;

/// The series is judged as so many batches.
const BATCHES: usize = 40;
/// A step has at least so many batches on either side.
const SIDE: usize = 3;
/// The smallest fall (rise) that is told, as a fraction of the larger level.
const STEP: f64 = 0.1;
/// The smallest drift that is told, over the whole length, as a fraction of the mean.
const DRIFT: f64 = 0.05;
/// How far outside of the noise a step must be: the largest of some thirty places by pure chance is
/// beyond 3.5 standard errors once in a few hundred times, and noise is known only roughly.
const STEP_ERRORS: f64 = 6.0;
const DRIFT_ERRORS: f64 = 5.0;

/// What a series of rates does over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Course {
    /// It stays where it is.
    Steady,
    /// It falls at once and stays there: a credit was used up (or a cache is full).
    BurstCredit {
        /// The mean before the fall.
        before: f64,
        /// The mean after it.
        after: f64,
        /// Where it fell, as an index into the series.
        at: usize,
    },
    /// It rises or falls slowly, or rises at once: the mean over the whole length, and the change over it.
    Drift {
        /// The mean.
        mean: f64,
        /// The change from beginning to end; negative if it falls.
        change: f64,
    },
}

/// Judges `series`, rates of equal slices of time; at least 20, or it counts as steady.
#[must_use]
pub fn course(series: &[f64]) -> Course {
    if series.len() < 20 {
        return Course::Steady;
    }
    let per_batch = series.len().div_ceil(BATCHES);
    let batches: Vec<f64> = series.chunks_exact(per_batch).map(mean_of).collect();
    let mean = mean_of(&batches);
    let noise = noise(&batches);
    let step = best_step(&batches);
    let (slope, line_squares) = line(&batches, mean);
    if mean <= 0.0 {
        return Course::Steady;
    }
    if step.squares <= line_squares {
        let count = batches.len();
        let error = noise * (1.0 / step.at as f64 + 1.0 / (count - step.at) as f64).sqrt();
        let fall = step.before - step.after;
        let is_clear = fall.abs() > STEP_ERRORS * error;
        let is_large = fall.abs() >= STEP * step.before.max(step.after);
        return match (is_clear && is_large, fall > 0.0) {
            (false, _) => Course::Steady,
            (true, true) => refined(series, step.at * per_batch, per_batch),
            (true, false) => Course::Drift { mean, change: -fall },
        };
    }
    let count = batches.len() as f64;
    let change = slope * (count - 1.0);
    let error = noise * (12.0 / (count * (count * count - 1.0))).sqrt() * (count - 1.0);
    if change.abs() > DRIFT_ERRORS * error && change.abs() >= DRIFT * mean {
        Course::Drift { mean, change }
    } else {
        Course::Steady
    }
}

struct Step {
    at: usize,
    before: f64,
    after: f64,
    squares: f64,
}

/// The step that leaves the least squares.
fn best_step(values: &[f64]) -> Step {
    let mut best = Step { at: SIDE, before: 0.0, after: 0.0, squares: f64::INFINITY };
    for at in SIDE..=values.len() - SIDE {
        let (left, right) = values.split_at(at);
        let (before, after) = (mean_of(left), mean_of(right));
        let squares = squares_around(left, before) + squares_around(right, after);
        if squares < best.squares {
            best = Step { at, before, after, squares };
        }
    }
    best
}

/// Places a fall that lies near `near` to the slice; the batch in which it lies belongs to neither level.
fn refined(series: &[f64], near: usize, reach: usize) -> Course {
    let before = mean_of(&series[..near.saturating_sub(reach).max(1)]);
    let after = mean_of(&series[(near + reach).min(series.len() - 1)..]);
    let middle = before.midpoint(after);
    let around = near.saturating_sub(reach)..(near + reach).min(series.len());
    // The place at which most slices are on their own side of the middle.
    let misplaced = |at: usize| {
        let wrong = |index: usize| (series[index] > middle) != (index < at);
        around.clone().filter(|index| wrong(*index)).count()
    };
    let at = around.clone().min_by_key(|at| (misplaced(*at), at.abs_diff(near))).unwrap_or(near);
    Course::BurstCredit { before, after, at }
}

/// The slope of the line that leaves the least squares, and those.
fn line(values: &[f64], mean: f64) -> (f64, f64) {
    let middle = (values.len() as f64 - 1.0) / 2.0;
    let (mut products, mut places) = (0.0, 0.0);
    for (index, value) in values.iter().enumerate() {
        let place = index as f64 - middle;
        products += place * (value - mean);
        places += place * place;
    }
    let slope = products / places;
    let rest = |(index, value): (usize, &f64)| (value - mean - slope * (index as f64 - middle)).powi(2);
    (slope, values.iter().enumerate().map(rest).sum())
}

fn squares_around(values: &[f64], mean: f64) -> f64 {
    values.iter().map(|value| (value - mean).powi(2)).sum()
}

/// The standard deviation as a mean over stretches of time sees it: half of the mean square of differences
/// (von Neumann's), of neighbours and of batches that lie further apart, whichever is largest. Where
/// neighbours are alike the further ones differ more. A tenth is left out, so that a step does not count.
fn noise(values: &[f64]) -> f64 {
    let at_lag = |lag: usize| {
        let mut squares: Vec<f64> =
            (lag..values.len()).map(|index| (values[index] - values[index - lag]).powi(2)).collect();
        squares.sort_by(f64::total_cmp);
        let kept = squares.len() - squares.len() / 10;
        // Of normal differences, the smallest nine tenths have 0.615 of the mean square.
        (mean_of(&squares[..kept]) / 0.615 / 2.0).sqrt()
    };
    at_lag(1).max(at_lag(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small numbers around 0 that do not repeat soon.
    fn wobble(index: usize) -> f64 {
        ((index * 7_919) % 101) as f64 - 50.0
    }

    #[test]
    fn a_fall_is_a_credit_and_is_placed() {
        let series: Vec<f64> =
            (0..300).map(|i| if i < 137 { 3_000.0 } else { 1_000.0 } + wobble(i)).collect();
        let Course::BurstCredit { before, after, at } = course(&series) else { panic!() };
        assert!((before - 3_000.0).abs() < 30.0 && (after - 1_000.0).abs() < 30.0, "{before} {after}");
        assert_eq!(at, 137);
    }

    #[test]
    fn a_slope_is_drift() {
        let series: Vec<f64> = (0..300).map(|i| 2_000.0 - i as f64 + wobble(i)).collect();
        let Course::Drift { change, .. } = course(&series) else { panic!() };
        assert!((change + 299.0).abs() < 30.0, "{change}");
        let rising: Vec<f64> = (0..100).map(|i| if i < 50 { 100.0 } else { 200.0 }).collect();
        assert!(matches!(course(&rising), Course::Drift { change, .. } if change > 90.0));
    }

    #[test]
    fn constant_noisy_and_short_series_are_steady() {
        assert_eq!(course(&[500.0; 100]), Course::Steady);
        assert_eq!(course(&[0.0; 100]), Course::Steady);
        assert_eq!(course(&[9.0, 1.0]), Course::Steady);
        let noisy: Vec<f64> = (0..400).map(|i| 1_000.0 + 5.0 * wobble(i)).collect();
        assert_eq!(course(&noisy), Course::Steady);
    }
}
