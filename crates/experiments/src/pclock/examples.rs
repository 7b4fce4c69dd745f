//! The worked examples.

use evenkeel_core::admission::required_capacity;
use evenkeel_core::{Cost, Envelope, Rate, Span};
use evenkeel_report::simulation::throughput;
use evenkeel_sim::Summary;
use evenkeel_sim::summary::FlowSummary;

use crate::study::{Figure, number};
use crate::{Check, Context, ExperimentError, Study};

const CASE_1: &str = include_str!("../../../../experiments/pclock-case-1.toml");
const CASE_2: &str = include_str!("../../../../experiments/pclock-case-2.toml");

pub(super) fn case_1(context: &Context) -> Result<Study, ExperimentError> {
    let scenario = context.scenario("pclock-case-1.toml", CASE_1)?;
    let pclock = context.run(&scenario, "pclock", scenario.seed)?;
    let wf2q = context.run(&scenario, "wf2q+", scenario.seed)?;
    let mut study = Study { seeds: vec![scenario.seed], ..Study::default() };
    let worst = |summary: &Summary, name: &str| -> Result<f64, ExperimentError> {
        Ok(flow(summary, name)?.latency.latency_max_us / 1e3)
    };
    // A request in service is not preempted: one service time of 10 ms on top of each bound.
    study
        .check(Check::at_most("pClock: the burst of f_B within 250 ms", worst(&pclock, "f_b")?, 260.0, "ms"))
        .check(Check::at_most("pClock: f_A within 500 ms", worst(&pclock, "f_a")?, 510.0, "ms"))
        .check(Check::at_least("WF2Q+: f_B misses 250 ms", worst(&wf2q, "f_b")?, 250.0, "ms"))
        .check(Check::at_most("WF2Q+: f_B takes up to 500 ms", worst(&wf2q, "f_b")?, 510.0, "ms"));
    let row = |name: &str, paper: [&str; 2]| -> Result<Vec<String>, ExperimentError> {
        let ours = [worst(&pclock, name)?, worst(&wf2q, name)?].map(number);
        let [a, b] = ours;
        Ok(vec![name.to_owned(), paper[0].to_owned(), a, paper[1].to_owned(), b])
    };
    study.table(
        "Longest latency, ms",
        &["flow", "pClock, paper", "pClock, ours", "WF2Q+, paper", "WF2Q+, ours"],
        vec![row("f_a", ["≤ 500", "–"])?, row("f_b", ["≤ 250", "up to 500"])?],
    );
    study.note(
        "Bounds are checked with one service time (10 ms) on top: a request in service is not preempted.",
    );
    for (summary, title) in [(&pclock, "Case 1 under pClock"), (&wf2q, "Case 1 under WF2Q+")] {
        let mut lines = evenkeel_report::simulation::latency(summary);
        title.clone_into(&mut lines.title);
        study.figures.push(Figure { title: title.to_owned(), svg: lines.svg()? });
    }
    Ok(study)
}

pub(super) fn case_2(context: &Context) -> Result<Study, ExperimentError> {
    let scenario = context.scenario("pclock-case-2.toml", CASE_2)?;
    let mut study = Study { seeds: vec![scenario.seed], ..Study::default() };
    let mut rows = Vec::new();
    for scheduler in ["pclock", "sced", "virtual-clock"] {
        let summary = context.run(&scenario, scheduler, scenario.seed)?;
        let (a, b) = (served(&summary, "f_a", 2.0, 3.0)?, served(&summary, "f_b", 2.0, 3.0)?);
        rows.push(vec![scheduler.to_owned(), number(a), number(b)]);
        if scheduler == "pclock" {
            study.check(Check::near("pClock: f_A in [2, 3] s", a, 50.0, 2.0, "IOPS")).check(Check::near(
                "pClock: f_B in [2, 3] s",
                b,
                50.0,
                2.0,
                "IOPS",
            ));
        } else {
            study.check(Check::at_most(format!("{scheduler}: f_A is starved in [2, 3] s"), a, 2.0, "IOPS"));
        }
        let mut lines = throughput(&summary);
        lines.title = format!("Case 2 under {scheduler}");
        study.figures.push(Figure { title: lines.title.clone(), svg: lines.svg()? });
    }
    study.table("Requests per second in [2, 3] s", &["scheduler", "f_A", "f_B"], rows);
    Ok(study)
}

pub(super) fn capacity(_context: &Context) -> Result<Study, ExperimentError> {
    let envelope = |burst, rate, latency_ms| {
        Envelope::new(Cost::requests(burst), Rate::per_second(rate), Span::from_millis(latency_ms))
            .map_err(|error| ExperimentError::Other(error.to_string()))
    };
    let flows = [envelope(50, 50, 200)?, envelope(110, 100, 600)?];
    let need = required_capacity(&flows).capacity.as_millis() as f64 / 1e3;
    let mut study = Study::default();
    study.check(Check::near(
        "⟨50, 50/s, 200 ms⟩ and ⟨110, 100/s, 600 ms⟩ together",
        need,
        300.0,
        0.0,
        "IOPS",
    ));
    let rows = vec![vec!["System Capacity Constraint".to_owned(), "300".to_owned(), number(need)]];
    study.table("Capacity needed, IOPS", &["", "paper", "ours"], rows);
    Ok(study)
}

/// The flow of that name.
pub(crate) fn flow<'s>(summary: &'s Summary, name: &str) -> Result<&'s FlowSummary, ExperimentError> {
    let found = summary.flows.iter().find(|flow| flow.name == name);
    found.ok_or_else(|| ExperimentError::Other(format!("the scenario has no flow {name}")))
}

/// Requests per second that `name` was served from `from` to `until`, in s, which must be borders of windows.
pub(crate) fn served(summary: &Summary, name: &str, from: f64, until: f64) -> Result<f64, ExperimentError> {
    let window = |at: f64| (at / summary.window_s).round() as usize;
    let served = &flow(summary, name)?.windows.served;
    let range = served.get(window(from)..window(until).min(served.len())).unwrap_or_default();
    Ok(range.iter().sum::<u64>() as f64 / (until - from))
}
