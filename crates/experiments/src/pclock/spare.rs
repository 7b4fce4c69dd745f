//! Section 5.4: who gets spare capacity (figure 12).

use evenkeel_core::SpareCapacity;
use evenkeel_sim::Summary;

use super::examples::flow;
use super::machine::{Machine, mean_latency, scenario, throughput_figure};
use crate::study::number;
use crate::{Check, Context, ExperimentError, Study};

const FIG_12: &str = include_str!("../../../../experiments/pclock-fig12.toml");
const JOB: u64 = 2000;

/// What one policy did.
struct Outcome {
    summary: Summary,
    /// When the background job was over, in s.
    finished: f64,
    /// Requests per second of all together until then.
    total: f64,
    /// Mean latency of the flows until then, in ms.
    latency: [f64; 2],
    /// Their throughput until then.
    iops: [f64; 2],
}

pub(super) fn fig_12(context: &Context) -> Result<Study, ExperimentError> {
    let scenario = scenario(context, "pclock-fig12.toml", FIG_12)?;
    let mut study = Study { seeds: vec![scenario.seed], ..Study::default() };
    Machine::OneDisk.describe(context, &mut study)?;
    let mut outcomes = Vec::new();
    for spare in [SpareCapacity::Flows, SpareCapacity::Background] {
        let mut scenario = scenario.clone();
        scenario.spare = spare;
        outcomes.push(outcome(context.run(&scenario, "pclock", scenario.seed)?)?);
    }
    let [flows, background] = <[Outcome; 2]>::try_from(outcomes)
        .map_err(|_| ExperimentError::Other("there are two policies".to_owned()))?;
    study
        .check(Check::at_least(
            "The background job is over several times sooner in batches",
            flows.finished / background.finished,
            2.0,
            "times",
        ))
        .check(Check::near("In batches it takes", background.finished, 96.0, 48.0, "s"))
        .check(Check::at_least(
            "Total throughput rises in batches",
            background.total / flows.total,
            1.02,
            "times",
        ))
        .check(Check::at_most(
            "Flow 1 is unharmed by batches: mean latency",
            background.latency[0],
            500.0,
            "ms",
        ))
        .check(Check::at_least(
            "Flow 1 is unharmed by batches: throughput",
            background.iops[0],
            0.98 * 42.0,
            "IOPS",
        ))
        .check(Check::at_least("Flow 2 keeps what it was promised", background.iops[1], 0.98 * 45.0, "IOPS"));
    let row = |what: &str, paper: [&str; 2], ours: [f64; 2]| {
        vec![what.to_owned(), paper[0].to_owned(), number(ours[0]), paper[1].to_owned(), number(ours[1])]
    };
    study.table(
        "Until the background job is over",
        &["", "to flows, paper", "to flows, ours", "to background, paper", "to background, ours"],
        vec![
            row("background job over, s", ["–", "96"], [flows.finished, background.finished]),
            row("all together, IOPS", ["–", "much higher"], [flows.total, background.total]),
            row("flow 1, IOPS", ["42", "42"], [flows.iops[0], background.iops[0]]),
            row("flow 2, IOPS", ["48", "45"], [flows.iops[1], background.iops[1]]),
            row("flow 1, mean latency, ms", ["–", "unaffected"], [flows.latency[0], background.latency[0]]),
            row("flow 2, mean latency, ms", ["–", "higher"], [flows.latency[1], background.latency[1]]),
        ],
    );
    study.note(
        "The paper draws gaps uniformly between bounds that it does not give; here they are even, which those bounds may be. \
         Exponential gaps, as here before, have no bounds.",
    );
    study
        .figures
        .push(throughput_figure(&background.summary, "Throughput, spare capacity to the background job")?);
    study.figures.push(throughput_figure(&flows.summary, "Throughput, spare capacity to the flows")?);
    Ok(study)
}

fn outcome(summary: Summary) -> Result<Outcome, ExperimentError> {
    let mut left = JOB;
    let mut windows = 0;
    for served in &flow(&summary, "background")?.windows.served {
        windows += 1;
        left = left.saturating_sub(*served);
        if left == 0 {
            break;
        }
    }
    let finished = if left == 0 { windows as f64 * summary.window_s } else { f64::INFINITY };
    let until = finished.min(summary.duration_s);
    let iops = |name: &str| -> Result<f64, ExperimentError> {
        let served = flow(&summary, name)?.windows.served.iter().take(windows).sum::<u64>();
        Ok(served as f64 / until)
    };
    let (one, two) = (iops("flow1")?, iops("flow2")?);
    let latency =
        [mean_latency(&summary, "flow1", 0.0, until)?, mean_latency(&summary, "flow2", 0.0, until)?];
    let total = one + two + iops("background")?;
    Ok(Outcome { finished, total, latency, iops: [one, two], summary })
}
