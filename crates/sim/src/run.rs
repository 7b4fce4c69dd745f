//! Running a scenario: once, or with many seeds on many threads.
//!
//! ```text
//!  scenario + seed ──> Simulation<Seen> ──> Summary
//!                          │   └─ Measure, and on demand: event log, records
//!                          └─ in slices, so that progress can be shown
//! ```
//!
//! Runs share nothing, so the results do not depend on the number of threads.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use evenkeel_core::{FlowId, Record, Request, Slo, Submission, Time};

use crate::measure::Measure;
use crate::scenario::Scenario;
use crate::simulation::{Change, Observer, SimError, Simulation};
use crate::summary::{Heading, Summary, TraceSummary};

/// Slices of a run, after each of which progress is told.
const SLICES: u64 = 1_000;

/// Measures, and passes everything on to another observer.
struct Seen<'o> {
    measure: Measure,
    also: Option<&'o mut dyn Observer>,
}

impl Observer for Seen<'_> {
    fn on_arrival(&mut self, now: Time, request: &Request) {
        self.measure.on_arrival(now, request);
        if let Some(also) = &mut self.also {
            also.on_arrival(now, request);
        }
    }

    fn on_submit(&mut self, now: Time, submission: &Submission, outstanding: u32) {
        self.measure.on_submit(now, submission, outstanding);
        if let Some(also) = &mut self.also {
            also.on_submit(now, submission, outstanding);
        }
    }

    fn on_reply(&mut self, record: &Record, outstanding: u32) {
        self.measure.on_reply(record, outstanding);
        if let Some(also) = &mut self.also {
            also.on_reply(record, outstanding);
        }
    }

    fn on_configure(&mut self, now: Time, flow: FlowId, slo: &Slo) {
        self.measure.on_configure(now, flow, slo);
        if let Some(also) = &mut self.also {
            also.on_configure(now, flow, slo);
        }
    }

    fn on_change(&mut self, now: Time, change: &Change) {
        self.measure.on_change(now, change);
        if let Some(also) = &mut self.also {
            also.on_change(now, change);
        }
    }
}

/// What a run is asked for besides the scenario.
pub struct Options<'a> {
    /// The seed.
    pub seed: u64,
    /// The program's commit, for the summary.
    pub commit: Option<&'a str>,
}

/// Runs `scenario` once. `also` sees every event; `progress` is told the share that is done, from 0 to 1.
///
/// # Errors
/// If a change is refused or a trace cannot be read.
pub fn run(
    scenario: &Scenario,
    options: &Options<'_>,
    also: Option<&mut dyn Observer>,
    progress: &mut dyn FnMut(f64),
) -> Result<Summary, SimError> {
    let setup = scenario.setup(options.seed)?;
    let (warmup, end) = (Time::ZERO + scenario.warmup, scenario.end());
    let seen = Seen { measure: Measure::new(warmup, end, scenario.window), also };
    let mut simulation = Simulation::new(setup, seen)?;
    // What happens at the very end belongs to the next instant, as in every half-open interval.
    let last = end.as_nanos().saturating_sub(1);
    for slice in 1..=SLICES {
        let at = u128::from(last) * u128::from(slice) / u128::from(SLICES);
        simulation.run_until(Time::from_nanos(at as u64))?;
        progress(slice as f64 / SLICES as f64);
    }
    if scenario.drain {
        simulation.drain()?;
    }
    let names = scenario.flow_names();
    let heading = Heading {
        scenario: &scenario.name,
        scenario_hash: &scenario.hash,
        commit: options.commit,
        seed: options.seed,
        scheduler: &scenario.scheduler,
        flows: &names,
    };
    let tiers = simulation.tier_counts();
    let traces =
        simulation.traces().map(|(flow, account)| TraceSummary::new(&names, flow, &account)).collect();
    let mut summary = simulation.into_observer().measure.summary(&heading);
    summary.device.tiers = tiers.map(Into::into);
    summary.traces = traces;
    Ok(summary)
}

/// A job of [`run_all`]: a scenario and a seed.
pub type Job<'s> = (&'s Scenario, u64);

/// Runs every job, on up to `threads` threads; the summaries are in the order of `jobs`. `progress` is told
/// how many jobs' worth of work is done, in thousandths, from any thread.
///
/// # Errors
/// The error of the first job, in their order, that failed; the others are given up.
///
/// # Panics
/// If a run panics.
pub fn run_all(
    jobs: &[Job<'_>],
    commit: Option<&str>,
    threads: NonZeroUsize,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Vec<Summary>, SimError> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let results: Vec<Mutex<Option<Result<Summary, SimError>>>> =
        jobs.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        while !failed.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some((scenario, seed)) = jobs.get(index) else { return };
            let options = Options { seed: *seed, commit };
            let result = run(scenario, &options, None, &mut |_| progress(1));
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            *results[index].lock().expect("no holder of this lock panics") = Some(result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.get().min(jobs.len()) {
            scope.spawn(work);
        }
        work();
    });
    let done = results.into_iter().filter_map(|result| result.into_inner().ok().flatten());
    done.collect()
}
