//! The results of simulations as tables, for people.

use std::fmt::Write as _;

use evenkeel_sim::scenario::Scenario;
use evenkeel_sim::statistics::{Estimate, Replicated};
use evenkeel_sim::summary::{FlowSummary, Summary, TraceSummary};

use crate::text_table::{Align, text_table};

/// The heads of the table of flows.
pub(super) const FLOW_HEADS: [&str; 11] = [
    "flow", "offered", "IOPS", "MB/s", "mean ms", "p50 ms", "p95 ms", "p99 ms", "p99.9 ms", "max ms",
    "verdict",
];

/// One run.
pub(super) fn run(scenario: &Scenario, summary: &Summary) -> String {
    let mut text = heading(scenario, &summary.scheduler, &format!("seed {}", summary.seed));
    let rows: Vec<[String; 11]> = summary.flows.iter().map(flow_row).collect();
    text += &text_table(aligned(FLOW_HEADS), &rows);
    let classes: Vec<[String; 7]> = class_rows(summary);
    if !classes.is_empty() {
        text.push('\n');
        let heads = ["flow", "class", "bound ms", "served", "missed", "p99 ms", "max ms"];
        text += &text_table(aligned(heads), &classes);
    }
    text.push('\n');
    for flow in summary.flows.iter().filter(|flow| flow.verdict != "no_promise") {
        let _ = writeln!(text, "  {}: {}", flow.name, flow.explanation);
    }
    for line in whole_lines(summary) {
        let _ = writeln!(text, "  {line}");
    }
    text
}

/// The device and the whole, in a few lines.
pub(super) fn whole_lines(summary: &Summary) -> Vec<String> {
    let mut lines = vec![format!(
        "device: {:.1} % busy, {:.2} requests there on average, {:.1} IOPS in all; fairness index {:.3}",
        summary.device.utilisation * 100.0,
        summary.device.outstanding_mean,
        summary.served_iops,
        summary.fairness_index
    )];
    lines.extend(summary.device.depth.as_ref().map(|depth| {
        format!(
            "depth: {} at the end, {:.1} on average, {} to {}, changed {} times",
            depth.at_end, depth.mean, depth.least, depth.most, depth.changes
        )
    }));
    lines.extend(trace_lines(summary));
    lines
}

/// How the traces were read, a line each.
pub(super) fn trace_lines(summary: &Summary) -> Vec<String> {
    let line = |trace: &TraceSummary| {
        let mut line = format!(
            "trace of {}: {}, {} ({}), {} requests read",
            trace.flow, trace.file, trace.format, trace.confidence, trace.requests
        );
        if trace.malformed > 0 {
            let named: Vec<&str> = trace.malformed_lines.iter().map(|line| line.message.as_str()).collect();
            let _ = write!(line, "; {} malformed left out: {}", trace.malformed, named.join("; "));
            if trace.malformed > named.len() as u64 {
                let _ = write!(line, "; and {} more", trace.malformed - named.len() as u64);
            }
        }
        if trace.unterminated {
            line += "; the last line lacks its newline: it may have been cut off";
        }
        line
    };
    summary.traces.iter().map(line).collect()
}

/// Many seeds.
pub(super) fn many(scenario: &Scenario, replicated: &Replicated, runs: &[Summary]) -> String {
    let seeds = format!("{} seeds, means with 95 % confidence intervals", replicated.seeds.len());
    let mut text = heading(scenario, &replicated.scheduler, &seeds);
    text += &text_table(aligned(MANY_HEADS), &many_rows(replicated));
    let _ = writeln!(
        text,
        "\n  in all {} IOPS, device {} % busy, fairness index {}",
        interval(replicated.served_iops, 1.0, 1),
        interval(replicated.device_utilisation, 100.0, 1),
        interval(replicated.fairness_index, 1.0, 3)
    );
    tell_traces(&mut text, runs);
    text
}

/// How the traces were read: in every run alike, so the first one tells.
fn tell_traces(text: &mut String, runs: &[Summary]) {
    for line in runs.first().map(trace_lines).unwrap_or_default() {
        let _ = writeln!(text, "  {line}");
    }
}

/// The heads of the table over many seeds.
pub(super) const MANY_HEADS: [&str; 7] =
    ["flow", "offered IOPS", "IOPS", "mean ms", "p99 ms", "missed", "runs broken"];

/// The rows of the table over many seeds.
pub(super) fn many_rows(replicated: &Replicated) -> Vec<[String; 7]> {
    let row = |flow: &evenkeel_sim::statistics::ReplicatedFlow| {
        [
            flow.name.clone(),
            interval(flow.offered_iops, 1.0, 1),
            interval(flow.served_iops, 1.0, 1),
            interval(flow.latency_mean_us, 1e-3, 2),
            interval(flow.latency_p99_us, 1e-3, 2),
            interval(flow.missed, 1.0, 1),
            format!("{} of {}", flow.runs_broken, replicated.seeds.len()),
        ]
    };
    replicated.flows.iter().map(row).collect()
}

/// The heads of the table of a comparison.
pub(super) const COMPARE_HEADS: [&str; 8] =
    ["flow", "scheduler", "IOPS", "mean ms", "p99 ms", "max ms", "missed", "within bound"];

/// A comparison: for each flow a line per scheduler.
pub(super) fn comparison(scenario: &Scenario, firsts: &[Summary], replicated: &[Replicated]) -> String {
    let names: Vec<&str> = firsts.iter().map(|summary| summary.scheduler.as_str()).collect();
    let seeds = replicated.first().map_or(1, |first| first.seeds.len());
    let note = if seeds == 1 { String::new() } else { format!("{seeds} seeds") };
    let mut text = heading(scenario, &names.join(", "), &note);
    text += &text_table(aligned_words(COMPARE_HEADS), &comparison_rows(firsts, replicated));
    text.push('\n');
    for (summary, all) in firsts.iter().zip(replicated) {
        let _ = writeln!(
            text,
            "  {}: {} IOPS in all, device {} % busy, {} missed, fairness index {}",
            summary.scheduler,
            interval(all.served_iops, 1.0, 1),
            interval(all.device_utilisation, 100.0, 1),
            interval(all.missed, 1.0, 0),
            interval(all.fairness_index, 1.0, 3)
        );
    }
    tell_traces(&mut text, firsts);
    text
}

/// The rows of the table of a comparison.
pub(super) fn comparison_rows(firsts: &[Summary], replicated: &[Replicated]) -> Vec<[String; 8]> {
    let flows = firsts.first().map_or(0, |first| first.flows.len());
    let mut rows = Vec::new();
    for flow in 0..flows {
        for (number, (summary, all)) in firsts.iter().zip(replicated).enumerate() {
            let (one, many) = (&summary.flows[flow], &all.flows[flow]);
            rows.push([
                if number == 0 { one.name.clone() } else { String::new() },
                summary.scheduler.clone(),
                interval(many.served_iops, 1.0, 1),
                interval(many.latency_mean_us, 1e-3, 2),
                interval(many.latency_p99_us, 1e-3, 2),
                interval(many.latency_max_us, 1e-3, 2),
                interval(many.missed, 1.0, 0),
                one.within_latency.map_or("-".to_owned(), |share| format!("{:.1} %", share * 100.0)),
            ]);
        }
    }
    rows
}

/// A flow's row.
pub(super) fn flow_row(flow: &FlowSummary) -> [String; 11] {
    let ms = |us: f64| format!("{:.2}", us / 1e3);
    [
        flow.name.clone(),
        flow.offered.to_string(),
        format!("{:.1}", flow.served_iops),
        format!("{:.2}", flow.bytes_per_second / 1e6),
        ms(flow.latency.latency_mean_us),
        ms(flow.latency.latency_p50_us),
        ms(flow.latency.latency_p95_us),
        ms(flow.latency.latency_p99_us),
        ms(flow.latency.latency_p999_us),
        ms(flow.latency.latency_max_us),
        flow.verdict.replace('_', " "),
    ]
}

/// Rows for the flows that have several classes.
pub(super) fn class_rows(summary: &Summary) -> Vec<[String; 7]> {
    let graduated = summary.flows.iter().filter(|flow| flow.classes.len() > 2);
    let rows = graduated.flat_map(|flow| {
        flow.classes.iter().enumerate().map(|(index, class)| {
            [
                if index == 0 { flow.name.clone() } else { String::new() },
                class.class.clone(),
                class.bound_us.map_or("-".to_owned(), |us| format!("{:.2}", us / 1e3)),
                class.served.to_string(),
                class.missed.to_string(),
                format!("{:.2}", class.latency.latency_p99_us / 1e3),
                format!("{:.2}", class.latency.latency_max_us / 1e3),
            ]
        })
    });
    rows.collect()
}

/// "12.3 ± 0.4", or the mean alone of a single run.
fn interval(estimate: Estimate, factor: f64, digits: usize) -> String {
    let mean = estimate.mean * factor;
    match estimate.half_width {
        Some(half) => format!("{mean:.digits$} ± {:.digits$}", half * factor),
        None => format!("{mean:.digits$}"),
    }
}

fn heading(scenario: &Scenario, scheduler: &str, note: &str) -> String {
    let about = if scenario.description.is_empty() { "" } else { ": " };
    let note = if note.is_empty() { String::new() } else { format!(", {note}") };
    format!(
        "{}{about}{}\n{} under {scheduler}{note}\n\n",
        scenario.name, scenario.description, scenario.duration
    )
}

/// Names to the left, numbers to the right.
fn aligned<const N: usize>(heads: [&str; N]) -> [(&str, Align); N] {
    let words = ["flow", "scheduler", "class", "verdict"];
    heads.map(|head| (head, if words.contains(&head) { Align::Left } else { Align::Right }))
}

fn aligned_words<const N: usize>(heads: [&str; N]) -> [(&str, Align); N] {
    aligned(heads)
}
