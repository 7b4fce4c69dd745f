//! One run with another scheduler, another speed of the device, or with the disk time of each flow measured.
//!
//! ```text
//!  engine ── Submit ──> Probe: ticket -> flow
//!                          │ (shared)
//!  device ── Finished ──> Metered: flow += busy
//! ```

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_core::{Engine, FlowId, Record, Request, Scheduler, Slo, Span, Submission, Time};
use evenkeel_device::{Device, Finished, Io};
use evenkeel_sim::dilated::SPEED_ONE;
use evenkeel_sim::summary::Heading;
use evenkeel_sim::{Change, Measure, Observer, Scenario, Simulation, Summary};

use crate::{Context, ExperimentError};

/// What a trial changes of its scenario.
#[derive(Default)]
pub(super) struct Changes {
    /// A scheduler that scenarios cannot name, or with parameters that they cannot set.
    pub(super) scheduler: Option<Box<dyn Scheduler + Send>>,
    /// Millionths of the speed that the scenario gives its device, its changes of capacity included.
    pub(super) speed: Option<u64>,
}

/// What a trial found.
pub(super) struct Found {
    pub(super) summary: Summary,
    /// Time for which each flow kept disks busy, by number, over the whole run.
    pub(super) disk_time: Vec<Span>,
}

/// Runs `scenario` with `changes`.
pub(super) fn run(
    context: &Context,
    scenario: &Scenario,
    changes: Changes,
) -> Result<Found, ExperimentError> {
    let mut setup = scenario.setup(scenario.seed)?;
    let mut name = scenario.scheduler.clone();
    if let Some(scheduler) = changes.scheduler {
        scheduler.name().clone_into(&mut name);
        setup.engine = Engine::new(scheduler, scenario.depth);
    }
    if let Some(speed) = changes.speed {
        for (_, change) in &mut setup.changes {
            if let Change::Speed(own) = change {
                let scaled = u128::from(*own) * u128::from(speed) / u128::from(SPEED_ONE);
                *own = u64::try_from(scaled).unwrap_or(u64::MAX);
            }
        }
        setup.changes.insert(0, (Time::ZERO, Change::Speed(speed)));
    }
    let shared: Arc<Mutex<Busy>> = Arc::default();
    setup.device = Box::new(Metered { inner: setup.device, busy: Arc::clone(&shared) });
    let (warmup, end) = (Time::ZERO + scenario.warmup, scenario.end());
    let measure = Measure::new(warmup, end, scenario.window);
    let mut simulation = Simulation::new(setup, Probe { measure, busy: Arc::clone(&shared) })?;
    simulation.run_until(Time::from_nanos(end.as_nanos().saturating_sub(1)))?;
    if scenario.drain {
        simulation.drain()?;
    }
    let names = scenario.flow_names();
    let heading = Heading {
        scenario: &scenario.name,
        scenario_hash: &scenario.hash,
        commit: context.commit.as_deref(),
        seed: scenario.seed,
        scheduler: &name,
        flows: &names,
    };
    let summary = simulation.into_observer().measure.summary(&heading);
    let busy = shared.lock().unwrap_or_else(PoisonError::into_inner);
    let of = |flow: usize| busy.by_flow.get(&(flow as u32)).copied().unwrap_or(Span::ZERO);
    Ok(Found { summary, disk_time: (0..names.len()).map(of).collect() })
}

/// The least speed of the device, as a share of the scenario's, at which no request inside its envelope
/// misses its promise, to 1/64; `None` if four times the speed does not do.
pub(super) fn capacity_needed(
    context: &Context,
    scenario: &Scenario,
) -> Result<Option<f64>, ExperimentError> {
    const STEPS: u64 = 64;
    let keeps = |step: u64| -> Result<bool, ExperimentError> {
        let changes = Changes { speed: Some(step * SPEED_ONE / STEPS), ..Changes::default() };
        let flows = run(context, scenario, changes)?.summary.flows;
        // A run that is too slow to answer anything keeps nothing.
        Ok(flows.iter().all(|flow| flow.missed == 0 && (flow.served > 0 || flow.offered == 0)))
    };
    let (mut low, mut high) = (0, 4 * STEPS);
    if !keeps(high)? {
        return Ok(None);
    }
    while high - low > 1 {
        let middle = low.midpoint(high);
        if keeps(middle)? { high = middle } else { low = middle }
    }
    Ok(Some(high as f64 / STEPS as f64))
}

/// Who kept the device busy.
#[derive(Default)]
struct Busy {
    flow_of: HashMap<u64, u32>,
    by_flow: HashMap<u32, Span>,
}

/// A device that notes for whom it was busy.
struct Metered {
    inner: Box<dyn Device + Send>,
    busy: Arc<Mutex<Busy>>,
}

impl Device for Metered {
    fn submit(&mut self, now: Time, io: Io) {
        self.inner.submit(now, io);
    }

    fn next_event(&self) -> Option<Time> {
        self.inner.next_event()
    }

    fn poll_completion(&mut self, now: Time) -> Option<Finished> {
        let finished = self.inner.poll_completion(now)?;
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(flow) = busy.flow_of.remove(&finished.token) {
            let sum = busy.by_flow.entry(flow).or_insert(Span::ZERO);
            *sum = Span::from_nanos(sum.as_nanos() + finished.busy.as_nanos());
        }
        Some(finished)
    }
}

/// Measures, and tells the device whose access is whose.
struct Probe {
    measure: Measure,
    busy: Arc<Mutex<Busy>>,
}

impl Observer for Probe {
    fn on_arrival(&mut self, now: Time, request: &Request) {
        self.measure.on_arrival(now, request);
    }

    fn on_submit(&mut self, now: Time, submission: &Submission, outstanding: u32) {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        busy.flow_of.insert(submission.ticket.to_bits(), submission.request.flow.0);
        drop(busy);
        self.measure.on_submit(now, submission, outstanding);
    }

    fn on_reply(&mut self, record: &Record, outstanding: u32) {
        self.measure.on_reply(record, outstanding);
    }

    fn on_configure(&mut self, now: Time, flow: FlowId, slo: &Slo) {
        self.measure.on_configure(now, flow, slo);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "duration = \"4 s\"\nscheduler = \"pclock\"\n[device]\nrate = \"100 IOPS\"\n\
        [flow.a]\nsla = { burst = 2, rate = \"50 IOPS\", latency = \"50 ms\" }\n\
        workload = { arrivals = \"constant\", rate = \"50 IOPS\" }\n\
        [flow.b]\nworkload = { arrivals = \"closed\", outstanding = 4 }\n";

    #[test]
    fn disk_time_is_that_of_the_requests() {
        let context = Context::default();
        let scenario = context.scenario("trial.toml", TEXT).expect("it is a scenario");
        let found = run(&context, &scenario, Changes::default()).expect("it runs");
        for (flow, busy) in found.summary.flows.iter().zip(&found.disk_time) {
            let expected = flow.served_iops * 4.0 * 0.01;
            assert!((busy.as_secs_f64() - expected).abs() < 0.021, "{}: {busy:?}", flow.name);
        }
    }

    #[test]
    fn the_capacity_needed_lies_between_what_misses_and_what_does_not() {
        let context = Context::default();
        let scenario = context.scenario("trial.toml", TEXT).expect("it is a scenario");
        let need = capacity_needed(&context, &scenario).expect("it runs").expect("four times would do");
        // One request of b in service, then the one of a: 2 service times within 50 ms.
        assert!((0.4..=1.0).contains(&need), "{need}");
    }
}
