//! Many runs of one scenario: means with confidence intervals.
//!
//! For n independent runs with mean m and sample deviation s, the true mean lies within m ± t·s/√n with a
//! probability of 95 %, t being Student's with n − 1 degrees of freedom (Law, Kelton: Simulation Modeling and
//! Analysis, section 4.5). One run says nothing about its own error.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::summary::Summary;

/// A mean over runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half the length of the 95 % confidence interval; `null` for a single run.
    pub half_width: Option<f64>,
    /// The smallest value of a run.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

/// What many runs of one scenario say together.
#[derive(Clone, Debug, Serialize)]
pub struct Replicated {
    /// The scenario's name.
    pub scenario: String,
    /// BLAKE3 of the scenario file, in hexadecimal.
    pub scenario_hash: String,
    /// The commit of the program, where it is known.
    pub commit: Option<String>,
    /// The scheduler.
    pub scheduler: String,
    /// The seeds, one for each run.
    pub seeds: Vec<u64>,
    /// Requests of all flows done per second.
    pub served_iops: Estimate,
    /// Requests that missed their promise, of all flows.
    pub missed: Estimate,
    /// Jain's fairness index.
    pub fairness_index: Estimate,
    /// The share of time in which something was at the device.
    pub device_utilisation: Estimate,
    /// The flows, in the order of the scenario.
    pub flows: Vec<ReplicatedFlow>,
}

/// One flow over many runs.
#[derive(Clone, Debug, Serialize)]
pub struct ReplicatedFlow {
    /// Its name.
    pub name: String,
    /// Requests that arrived per second.
    pub offered_iops: Estimate,
    /// Requests done per second.
    pub served_iops: Estimate,
    /// The mean latency.
    pub latency_mean_us: Estimate,
    /// Half took no longer.
    pub latency_p50_us: Estimate,
    /// 95 % took no longer.
    pub latency_p95_us: Estimate,
    /// 99 % took no longer.
    pub latency_p99_us: Estimate,
    /// 99.9 % took no longer.
    pub latency_p999_us: Estimate,
    /// The longest.
    pub latency_max_us: Estimate,
    /// Requests inside the envelope that took longer than promised.
    pub missed: Estimate,
    /// Runs in which the agreement was broken.
    pub runs_broken: usize,
}

impl Estimate {
    /// The estimate from the values of independent runs; all zero if there are none.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        if values.is_empty() {
            return Self { mean: 0.0, half_width: None, min: 0.0, max: 0.0 };
        }
        let mean = values.iter().sum::<f64>() / count;
        let half_width = (values.len() > 1).then(|| {
            let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
            let deviation = (squares / (count - 1.0)).sqrt();
            student(values.len() - 1) * deviation / count.sqrt()
        });
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self { mean, half_width, min, max }
    }
}

impl Replicated {
    /// What `runs` of one scenario say together; `None` if there are none.
    #[must_use]
    pub fn of(runs: &[Summary]) -> Option<Self> {
        let first = runs.first()?;
        let over = |value: fn(&Summary) -> f64| Estimate::of(&runs.iter().map(value).collect::<Vec<_>>());
        let flows = (0..first.flows.len()).map(|flow| ReplicatedFlow::of(runs, flow)).collect();
        Some(Self {
            scenario: first.scenario.clone(),
            scenario_hash: first.scenario_hash.clone(),
            commit: first.commit.clone(),
            scheduler: first.scheduler.clone(),
            seeds: runs.iter().map(|run| run.seed).collect(),
            served_iops: over(|run| run.served_iops),
            missed: over(|run| run.missed as f64),
            fairness_index: over(|run| run.fairness_index),
            device_utilisation: over(|run| run.device.utilisation),
            flows,
        })
    }
}

impl ReplicatedFlow {
    fn of(runs: &[Summary], flow: usize) -> Self {
        let flows = || runs.iter().map(|run| &run.flows[flow]);
        let over = |value: fn(&crate::summary::FlowSummary) -> f64| {
            Estimate::of(&flows().map(value).collect::<Vec<_>>())
        };
        Self {
            name: runs[0].flows[flow].name.clone(),
            offered_iops: over(|flow| flow.offered_iops),
            served_iops: over(|flow| flow.served_iops),
            latency_mean_us: over(|flow| flow.latency.latency_mean_us),
            latency_p50_us: over(|flow| flow.latency.latency_p50_us),
            latency_p95_us: over(|flow| flow.latency.latency_p95_us),
            latency_p99_us: over(|flow| flow.latency.latency_p99_us),
            latency_p999_us: over(|flow| flow.latency.latency_p999_us),
            latency_max_us: over(|flow| flow.latency.latency_max_us),
            missed: over(|flow| flow.missed as f64),
            runs_broken: flows().filter(|flow| flow.verdict == "broken").count(),
        }
    }
}

/// The 97.5 % quantile of Student's t.
fn student(freedom: usize) -> f64 {
    StudentsT::new(0.0, 1.0, freedom as f64).map_or(f64::INFINITY, |law| law.inverse_cdf(0.975))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Law, Random};
    use evenkeel_core::Span;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, quantile) in [(1, 12.706), (2, 4.303), (9, 2.262), (29, 2.045), (1_000, 1.962)] {
            assert!((student(freedom) - quantile).abs() < 0.001, "{freedom}: {}", student(freedom));
        }
    }

    #[test]
    fn an_interval_by_hand() {
        let estimate = Estimate::of(&[1.0, 2.0, 3.0]);
        assert_eq!((estimate.mean, estimate.min, estimate.max), (2.0, 1.0, 3.0));
        assert!((estimate.half_width.expect("three runs") - 4.3027 / 3.0_f64.sqrt()).abs() < 1e-3);
        assert_eq!(Estimate::of(&[5.0]).half_width, None);
    }

    #[test]
    fn nineteen_of_twenty_intervals_hold_the_mean() {
        let mut random = Random::new(1, &[]);
        let mut draw = || random.span(Law::Exponential(Span::from_nanos(1_000_000))).as_nanos() as f64;
        let holds =
            |estimate: Estimate| (estimate.mean - 1e6).abs() <= estimate.half_width.expect("many runs");
        let mean_of = |draw: &mut dyn FnMut() -> f64| (0..50).map(|_| draw()).sum::<f64>() / 50.0;
        let covered = (0..1_000)
            .filter(|_| holds(Estimate::of(&(0..10).map(|_| mean_of(&mut draw)).collect::<Vec<_>>())))
            .count();
        assert!((925..=970).contains(&covered), "{covered} of 1000");
    }
}
