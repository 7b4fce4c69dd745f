//! The matrix on generated loads: the papers' scenarios, and those that come with Evenkeel.

use evenkeel_report::figure::Bars;
use evenkeel_sim::scenario::scheduler_names;
use evenkeel_sim::{Scenario, SimError, Summary};

use super::trial::{Changes, capacity_needed, run as trial};
use crate::study::{Figure, number};
use crate::{Check, Context, ExperimentError, Study};

/// A scenario of the matrix.
struct Load {
    name: &'static str,
    text: &'static str,
    /// Schedulers whose theory says that they keep every promise of this scenario, and by how much one
    /// service time at the slowest may delay a request at most, in ms.
    keepers: &'static [&'static str],
    service_ms: f64,
}

macro_rules! load {
    ($file:literal, $keepers:expr, $service_ms:expr) => {
        Load {
            name: $file,
            text: include_str!(concat!("../../../../", $file, ".toml")),
            keepers: &$keepers,
            service_ms: $service_ms,
        }
    };
}

/// Those of the papers: each scenario of `experiments/`, the live ones' twins with it. The workloads that experiments
/// put into them (traces, FAIRIO's benchmarks and with them `fairio-array.toml`) are not here: these are the loads of the files.
const OF_PAPERS: &[Load] = &[
    load!("experiments/pclock-case-1", ["pclock", "nested"], 10.0),
    load!("experiments/pclock-case-2", [], 10.0),
    load!("experiments/pclock-fig5-6", [], 0.0),
    load!("experiments/pclock-fig7-8", [], 0.0),
    load!("experiments/pclock-fig9", [], 0.0),
    load!("experiments/pclock-fig10", [], 0.0),
    load!("experiments/pclock-fig11", [], 0.0),
    load!("experiments/pclock-fig12", [], 0.0),
    load!("experiments/live/pclock-fig13a", ["pclock"], 11.765),
    load!("experiments/live/pclock-fig13c", ["pclock"], 11.765),
    load!("experiments/live/pclock-two-backlogged", [], 0.0),
    load!("experiments/live/pclock-table3-webserver", [], 0.0),
    load!("experiments/live/pclock-table3-varmail", [], 0.0),
    load!("experiments/live/pclock-table3-oltp", [], 0.0),
    load!("experiments/nested-ex1", ["pclock", "nested"], 5.0),
    load!("experiments/nested-ex2", [], 0.0),
    load!("experiments/live/nested-prxy", [], 0.0),
    load!("experiments/live/nested-prxy-proj", [], 0.0),
    load!("experiments/nested-flash-gc", [], 0.0),
    load!("experiments/fairio-raid", [], 0.0),
    load!("experiments/jain-streams", [], 0.0),
    load!("experiments/capacity-drop-fits", ["pclock", "nested"], 1.429),
    load!("experiments/capacity-drop-tight", [], 0.0),
    load!("experiments/capacity-drop-overrun", [], 0.0),
];

/// `scenarios/trace-replay.toml` is not among them: it names a file beside it. The matrix on traces shows it all.
const LOADS: &[Load] = &[
    load!("scenarios/capacity-drop", ["pclock", "nested"], 2.858),
    load!("scenarios/flash-drive", [], 0.0),
    load!("scenarios/graduated-classes", ["nested"], 1.593),
    load!("scenarios/mm1", [], 0.0),
    load!("scenarios/shares", [], 10.0),
    load!("scenarios/spikes-and-batches", ["pclock"], 8.0),
];

pub(super) fn run(context: &Context) -> Result<Study, ExperimentError> {
    all(context, LOADS)
}

pub(super) fn of_papers(context: &Context) -> Result<Study, ExperimentError> {
    all(context, OF_PAPERS)
}

fn all(context: &Context, loads: &[Load]) -> Result<Study, ExperimentError> {
    let mut study = Study::default();
    for load in loads {
        let file = format!("{}.toml", load.name);
        // The disks of pClock's section 5 are those of its figures; other devices are as in the file.
        let is_pclock = load.name.contains("pclock-");
        let read = if is_pclock { crate::pclock::scenario } else { Context::scenario };
        let scenario = read(context, &file, load.text)?;
        study.seeds.push(scenario.seed);
        let summaries = matrix(context, &mut study, load.name, &scenario)?;
        for name in load.keepers {
            let found = summaries.iter().find(|summary| summary.scheduler == *name);
            let summary = found.ok_or_else(|| ExperimentError::Other(format!("no scheduler {name}")))?;
            study.check(Check::at_most(
                format!("{}: {name} is late by no more than one service time", load.name),
                latest(summary),
                load.service_ms,
                "ms",
            ));
        }
    }
    study.note(
        "Promises are judged at arrival, by the envelope, and the same for all schedulers: a client that overruns its \
         envelope breaks nobody's promise. Latencies are the worst of the flows that were promised something. Capacity \
         needed is the share of the scenario's device, to 1/64, at which no promise is missed; > 4 where four times the \
         device does not do, – where nothing is promised.",
    );
    study.note(
        "A closed loop takes more as the device gets faster, so schedulers without deadlines may need more than any speed.",
    );
    Ok(study)
}

/// Runs `scenario` under every scheduler: a table, a figure, and what must hold of any load.
pub(super) fn matrix(
    context: &Context,
    study: &mut Study,
    name: &str,
    scenario: &Scenario,
) -> Result<Vec<Summary>, ExperimentError> {
    let mut rows = Vec::new();
    let mut summaries = Vec::new();
    let promised = scenario.flows.iter().any(|flow| flow.slo.envelope().is_some());
    for scheduler in scheduler_names() {
        let chosen = scenario
            .with_scheduler(scheduler)
            .ok_or_else(|| ExperimentError::Other(format!("there is no scheduler {scheduler}")))?;
        let summary = match trial(context, &chosen, Changes::default()) {
            Ok(found) => found.summary,
            // The scenario asks for something in mid-run that this scheduler has not.
            Err(ExperimentError::Simulation(SimError::Refused { source, .. })) => {
                rows.push(refused(scheduler, &source.to_string()));
                continue;
            }
            Err(error) => return Err(error),
        };
        let need = match summary.flows.iter().any(|flow| flow.promised > 0) {
            false => "–".to_owned(),
            true => capacity_needed(context, &chosen)?.map_or("> 4".to_owned(), |need| format!("{need:.2}")),
        };
        rows.push(row(&summary, promised, need));
        summaries.push(summary);
    }
    let heads = [
        "scheduler",
        "throughput, IOPS",
        "fairness index",
        "p50, ms",
        "p99, ms",
        "p99.9, ms",
        "missed, of promised",
        "capacity needed",
    ];
    study.table(name, &heads, rows);
    if promised {
        let groups = summaries.iter().map(|summary| summary.scheduler.clone()).collect();
        let title = format!("{name}: missed promises");
        let values = summaries.iter().map(missed_percent).collect();
        let series = vec![("all flows".to_owned(), values)];
        let bars = Bars { title: title.clone(), y: "missed, of promised, %".to_owned(), groups, series };
        study.figures.push(Figure { title, svg: bars.svg()? });
    }
    let found = |name: &str| summaries.iter().find(|summary| summary.scheduler == name);
    for scheduler in ["pclock", "nested"] {
        if let (Some(ours), Some(fcfs)) = (found(scheduler), found("fcfs")) {
            let law = format!("{name}: {scheduler} serves at least 99 % of what FCFS does");
            let share = 100.0 * ours.served_iops / fcfs.served_iops;
            study.check(Check::at_least(law, share, 99.0, "%").because(&order_counts(ours, fcfs)));
        }
    }
    Ok(summaries)
}

/// Why a device does less under `ours` than under FCFS.
fn order_counts(ours: &Summary, fcfs: &Summary) -> String {
    let flows = |summary: &Summary| {
        let each = summary.flows.iter().map(|flow| format!("{} {}", flow.name, number(flow.served_iops)));
        each.collect::<Vec<_>>().join(", ")
    };
    format!(
        "closed loops on a device where a request's time depends on its size and on what came before it: who is served, and whether a \
         sequential stream is served in runs or in turns with another, makes how much is served. Under {}: {}; under FCFS: {} (IOPS)",
        ours.scheduler,
        flows(ours),
        flows(fcfs)
    )
}

fn row(summary: &Summary, promised: bool, need: String) -> Vec<String> {
    let worst = |value: &dyn Fn(&evenkeel_sim::summary::FlowSummary) -> f64| {
        let flows = summary.flows.iter().filter(|flow| !promised || flow.within_latency.is_some());
        number(flows.map(value).fold(0.0, f64::max) / 1e3)
    };
    let all: u64 = summary.flows.iter().map(|flow| flow.promised).sum();
    vec![
        summary.scheduler.clone(),
        number(summary.served_iops),
        format!("{:.3}", summary.fairness_index),
        worst(&|flow| flow.latency.latency_p50_us),
        worst(&|flow| flow.latency.latency_p99_us),
        worst(&|flow| flow.latency.latency_p999_us),
        if promised { format!("{} of {all}", summary.missed) } else { "–".to_owned() },
        need,
    ]
}

fn refused(scheduler: &str, why: &str) -> Vec<String> {
    let cells = [scheduler, why, "–", "–", "–", "–", "–", "–"];
    cells.map(str::to_owned).to_vec()
}

fn missed_percent(summary: &Summary) -> f64 {
    let promised: u64 = summary.flows.iter().map(|flow| flow.promised).sum();
    if promised == 0 { f64::NAN } else { 100.0 * summary.missed as f64 / promised as f64 }
}

/// How late the latest promised request was, in ms; 0 if none was.
fn latest(summary: &Summary) -> f64 {
    let classes = summary.flows.iter().flat_map(|flow| &flow.classes);
    let late =
        classes.filter_map(|class| Some((class.latency.latency_max_us - class.bound_us?).max(0.0) / 1e3));
    late.fold(0.0, f64::max)
}
