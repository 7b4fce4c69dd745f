//! The workloads of chapter 4, and a replay of them on a server of constant rate.

use evenkeel_core::{Cost, Envelope, Rate, Record, Span, Time};
use evenkeel_plan::{Flow, MemorySource, PlanError, SchedulerKind, Served, replay, scheduler};
use evenkeel_trace::TraceRequest;
use evenkeel_trace::generate::{Arrivals, Generator, Parameters, Personality};

use crate::ExperimentError;

/// The traces of the thesis are not to be had; what stands in for them.
pub(super) const STAND_INS: &str = "The traces of the thesis (SPC WebSearch and Financial of the UMass repository, Microsoft Exchange) may not be passed on; Evenkeel's \
     generators of the same mean rates stand in for them (docs/traces.md says where their parameters come from), stretched to have those means over the run.";

/// Levels of the cascade that makes Exchange's bursts, from 1 ms up to 2^12 ms.
const CASCADE_LEVELS: u32 = 12;
/// Why so many.
pub(super) const CASCADE: &str = "The bursts of the Exchange generator are kept to 4 s (it makes them on all scales up to 17 min): at that, Nested \
     QoS has 90 % in time at about the capacity of figure 4.9. Everything else follows.";

/// A generated workload of `seconds`, at `iops` on average.
pub(super) fn generated(
    personality: Personality,
    iops: f64,
    seed: u64,
    seconds: u64,
) -> Result<MemorySource, ExperimentError> {
    let mut parameters = personality.parameters().with_iops(iops);
    if let Arrivals::BModel { levels, .. } = &mut parameters.arrivals {
        *levels = CASCADE_LEVELS;
    }
    from_parameters(&parameters, seed, seconds)
}

/// `seconds` of these parameters, stretched or shortened to hold exactly as many requests as their mean rate says: a
/// mean of the long run, which with heavy tails is off by a tenth in two minutes, where the thesis's is of the trace as it was played.
pub(super) fn from_parameters(
    parameters: &Parameters,
    seed: u64,
    seconds: u64,
) -> Result<MemorySource, ExperimentError> {
    let generator =
        Generator::new(parameters, seed).map_err(|error| ExperimentError::Other(error.to_string()))?;
    let wanted = (parameters.arrivals.iops() * seconds as f64) as usize;
    let mut requests: Vec<TraceRequest> = generator.take(wanted + 1).collect();
    let last = requests.last().map_or(0, |request| request.at.as_nanos()).max(1);
    requests.truncate(wanted);
    for request in &mut requests {
        let at = u128::from(request.at.as_nanos()) * u128::from(seconds * 1_000_000_000) / u128::from(last);
        request.at = Time::from_nanos(at as u64);
    }
    Ok(MemorySource { requests })
}

/// `load`, and beside it what `extra` has from `from` to `until`, in s.
pub(super) fn with_extra(load: &MemorySource, extra: &MemorySource, from: u64, until: u64) -> MemorySource {
    let within = |request: &&TraceRequest| {
        (from * 1_000_000_000..until * 1_000_000_000).contains(&request.at.as_nanos())
    };
    let mut requests = load.requests.clone();
    requests.extend(extra.requests.iter().filter(within).copied());
    requests.sort_by_key(|request| request.at);
    MemorySource { requests }
}

/// ⟨σ, ρ, δ⟩ with δ in ms.
pub(super) fn envelope(burst: u64, rate: u64, latency_ms: u64) -> Result<Envelope, ExperimentError> {
    let made = Envelope::new(Cost::requests(burst), Rate::per_second(rate), Span::from_millis(latency_ms));
    made.map_err(|error| ExperimentError::Other(error.to_string()))
}

/// Replays `flows` on a server of `iops`, one request at a time; every record goes to `visit`.
pub(super) fn run(
    flows: &[Flow<'_>],
    contender: SchedulerKind,
    iops: Rate,
    visit: &mut dyn FnMut(&Record),
) -> Result<Vec<Served>, ExperimentError> {
    replay(flows, scheduler(contender), iops, visit).map_err(planned)
}

/// A planner's error as one of ours.
pub(super) fn planned(error: PlanError) -> ExperimentError {
    ExperimentError::Other(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_has_its_mean_rate_over_the_run() {
        for seed in 1..=3 {
            let load = generated(Personality::WebSearch, 330.0, seed, 20).expect("it can be generated");
            assert_eq!(load.requests.len(), 6_600);
            assert!(load.requests.iter().all(|request| request.at < Time::from_nanos(20_000_000_000)));
            assert!(load.requests.is_sorted_by_key(|request| request.at));
        }
    }
}
