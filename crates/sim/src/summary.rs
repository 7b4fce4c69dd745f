//! The results of a simulation, as values and as JSON.
//!
//! Every key ends in its unit: `latency_p99_us` in microseconds, `served_iops` in requests per second.

use evenkeel_core::{FlowId, Slo, Span};
use evenkeel_device::TierCounts;
use evenkeel_trace::MalformedLine;
use serde::Serialize;

use crate::measure::{ClassMeasure, DepthMeasure, FlowMeasure, Measure};
use crate::source::TraceAccount;

/// The results of one run.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The scenario's name.
    pub scenario: String,
    /// BLAKE3 of the scenario file, in hexadecimal.
    pub scenario_hash: String,
    /// The commit of the program, where it is known.
    pub commit: Option<String>,
    /// The seed.
    pub seed: u64,
    /// The scheduler that the run began with.
    pub scheduler: String,
    /// Length of the run in s.
    pub duration_s: f64,
    /// The beginning that is left out of all statistics but the windows, in s.
    pub warmup_s: f64,
    /// Requests of all flows done per second of the measured time.
    pub served_iops: f64,
    /// Requests that arrived inside their envelope and took longer than promised, of all flows.
    pub missed: u64,
    /// Jain's fairness index over served requests per second and weight, of the flows that sent anything:
    /// 1 if they all got the same per weight, 1/n if one got everything.
    pub fairness_index: f64,
    /// The device.
    pub device: DeviceSummary,
    /// How traces were read, if flows sent some.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub traces: Vec<TraceSummary>,
    /// The flows, in the order of the scenario.
    pub flows: Vec<FlowSummary>,
    /// Length of a window in s.
    pub window_s: f64,
}

/// The device over the measured time.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceSummary {
    /// The share of time in which something was at the device.
    pub utilisation: f64,
    /// Requests at the device, on average over time.
    pub outstanding_mean: f64,
    /// The dispatch depth, if it is adapted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<DepthSummary>,
    /// What went where, on a hybrid device, over the whole run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tiers: Option<TierSummary>,
}

/// How a trace was read.
#[derive(Clone, Debug, Serialize)]
pub struct TraceSummary {
    /// The flow that sent it.
    pub flow: String,
    /// The file.
    pub file: String,
    /// What it was read as.
    pub format: String,
    /// How sure that is, in words.
    pub confidence: String,
    /// Requests read, of all its volumes.
    pub requests: u64,
    /// Lines or records that were malformed and left out.
    pub malformed: u64,
    /// Whether the last line lacks its newline: the file may have been cut there.
    pub unterminated: bool,
    /// The first of those that were left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub malformed_lines: Vec<MalformedSummary>,
}

/// A line or record that was left out of a trace.
#[derive(Clone, Debug, Serialize)]
pub struct MalformedSummary {
    /// Its number, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub message: String,
}

impl TraceSummary {
    /// Of the trace of `flow`, one of those called `names`.
    #[must_use]
    pub fn new(names: &[String], flow: FlowId, account: &TraceAccount) -> Self {
        let TraceAccount { file, report } = account;
        let malformed =
            |line: &MalformedLine| MalformedSummary { line: line.place.number(), message: line.to_string() };
        Self {
            flow: names.get(flow.0 as usize).cloned().unwrap_or_default(),
            file: file.to_string_lossy().into_owned(),
            format: report.format.name().to_owned(),
            confidence: report.confidence.to_string(),
            requests: report.requests,
            malformed: report.malformed,
            unterminated: report.unterminated,
            malformed_lines: report.malformed_lines.iter().map(malformed).collect(),
        }
    }
}

/// The dispatch depth that a controller chose.
#[derive(Clone, Debug, Serialize)]
pub struct DepthSummary {
    /// The smallest.
    pub least: u32,
    /// The largest.
    pub most: u32,
    /// The mean over the measured time in which it was adapted.
    pub mean: f64,
    /// The last one.
    pub at_end: u32,
    /// How often it changed.
    pub changes: u64,
    /// At the end of each window; 0 before it was adapted.
    pub windows: Vec<u32>,
}

impl From<&DepthMeasure> for DepthSummary {
    fn from(depth: &DepthMeasure) -> Self {
        Self {
            least: depth.least,
            most: depth.most,
            mean: depth.area_ns as f64 / depth.measured_ns.max(1) as f64,
            at_end: depth.present,
            changes: depth.changes,
            windows: depth.windows.clone(),
        }
    }
}

/// The two tiers of a hybrid device.
#[derive(Clone, Debug, Serialize)]
pub struct TierSummary {
    /// Accesses to the fast device for requests.
    pub fast_accesses: u64,
    /// Accesses to the slow device for requests.
    pub slow_accesses: u64,
    /// Clusters copied to the fast device.
    pub promoted_clusters: u64,
    /// Clusters copied back.
    pub demoted_clusters: u64,
}

impl From<TierCounts> for TierSummary {
    fn from(counts: TierCounts) -> Self {
        Self {
            fast_accesses: counts.fast,
            slow_accesses: counts.slow,
            promoted_clusters: counts.promoted,
            demoted_clusters: counts.demoted,
        }
    }
}

/// One flow.
#[derive(Clone, Debug, Serialize)]
pub struct FlowSummary {
    /// Its name.
    pub name: String,
    /// Whether the agreement was kept: `kept`, `broken`, `no_promise`, `idle`, `outside_only`, `unanswered`.
    pub verdict: String,
    /// The verdict in one sentence.
    pub explanation: String,
    /// The weight.
    pub weight: u32,
    /// Requests that arrived in the measured time.
    pub offered: u64,
    /// Those of them that were done.
    pub served: u64,
    /// Those of them that still waited at the end.
    pub open: u64,
    /// Bytes that they asked to read or write.
    pub offered_bytes: u64,
    /// Requests that arrived per second.
    pub offered_iops: f64,
    /// Requests done per second.
    pub served_iops: f64,
    /// Bytes read and written per second.
    pub bytes_per_second: f64,
    /// Served requests that had come inside the envelope.
    pub promised: u64,
    /// Those of them that took longer than promised.
    pub missed: u64,
    /// Served requests that had come outside the envelope or were promised nothing.
    pub outside: u64,
    /// The share of all served requests that took no longer than the innermost latency bound; `null` without one.
    pub within_latency: Option<f64>,
    /// Latencies of all served requests.
    #[serde(flatten)]
    pub latency: LatencySummary,
    /// The classes, innermost first, and last what came outside of them.
    pub classes: Vec<ClassSummary>,
    /// Latency in us by percentile: pairs of percentile and latency.
    pub latency_cdf_us: Vec<(f64, f64)>,
    /// What happened over time.
    pub windows: WindowSummary,
}

/// One class of a flow.
#[derive(Clone, Debug, Serialize)]
pub struct ClassSummary {
    /// `1` for the innermost, and so on; `outside` for what no class admitted.
    pub class: String,
    /// The latency bound in us; `null` outside.
    pub bound_us: Option<f64>,
    /// Requests of this class that were served.
    pub served: u64,
    /// Those of them that took longer than the bound.
    pub missed: u64,
    /// Their latencies.
    #[serde(flatten)]
    pub latency: LatencySummary,
}

/// How long requests took; all zero if there were none.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct LatencySummary {
    /// The mean, in us.
    pub latency_mean_us: f64,
    /// Half took no longer; percentiles are exact to 64 ns or 0.1 %, whichever is coarser.
    pub latency_p50_us: f64,
    /// 95 % took no longer.
    pub latency_p95_us: f64,
    /// 99 % took no longer.
    pub latency_p99_us: f64,
    /// 99.9 % took no longer.
    pub latency_p999_us: f64,
    /// The longest, exactly.
    pub latency_max_us: f64,
}

/// Windows of equal length from time 0, one number in each list per window.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WindowSummary {
    /// Requests that arrived.
    pub arrivals: Vec<u64>,
    /// Requests that were done.
    pub served: Vec<u64>,
    /// Bytes that they moved.
    pub bytes: Vec<u64>,
    /// Their mean latency; 0 where none was done.
    pub latency_mean_us: Vec<f64>,
    /// Their longest latency.
    pub latency_max_us: Vec<f64>,
    /// Those of them that missed their promise.
    pub missed: Vec<u64>,
}

/// What a summary needs to know besides the measures.
#[derive(Clone, Debug)]
pub struct Heading<'a> {
    /// The scenario's name.
    pub scenario: &'a str,
    /// The scenario's hash.
    pub scenario_hash: &'a str,
    /// The program's commit.
    pub commit: Option<&'a str>,
    /// The seed.
    pub seed: u64,
    /// The scheduler's name.
    pub scheduler: &'a str,
    /// The names of the flows, by number.
    pub flows: &'a [String],
}

impl Measure {
    /// What has been measured.
    #[must_use]
    pub fn summary(mut self, heading: &Heading<'_>) -> Summary {
        self.finish();
        let seconds = self.end.since(self.warmup).as_secs_f64();
        let per_second = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        let named = heading.flows.iter().enumerate();
        let flows: Vec<FlowSummary> =
            named.map(|(index, name)| self.flow_summary(index, name, per_second)).collect();
        let nanos = self.end.since(self.warmup).as_nanos().max(1) as f64;
        Summary {
            scenario: heading.scenario.to_owned(),
            scenario_hash: heading.scenario_hash.to_owned(),
            commit: heading.commit.map(str::to_owned),
            seed: heading.seed,
            scheduler: heading.scheduler.to_owned(),
            duration_s: Span::from_nanos(self.end.as_nanos()).as_secs_f64(),
            warmup_s: Span::from_nanos(self.warmup.as_nanos()).as_secs_f64(),
            served_iops: flows.iter().map(|flow| flow.served_iops).sum(),
            missed: flows.iter().map(|flow| flow.missed).sum(),
            fairness_index: fairness(&flows),
            device: DeviceSummary {
                utilisation: self.device.busy_ns as f64 / nanos,
                outstanding_mean: self.device.area_ns as f64 / nanos,
                depth: self.depth.as_ref().map(DepthSummary::from),
                tiers: None,
            },
            traces: Vec::new(),
            flows,
            window_s: self.window.as_secs_f64(),
        }
    }

    fn flow_summary(&self, index: usize, name: &str, per_second: impl Fn(u64) -> f64) -> FlowSummary {
        let background = Slo::background();
        let measured = self.flows.get(index).and_then(Option::as_ref);
        let slo = measured.map_or(&background, |flow| &flow.slo);
        let account = self.ledger.account(self.end, FlowId(index as u32));
        let mut all = ClassMeasure::new();
        let classes: &[ClassMeasure] = measured.map_or(&[], |flow| &flow.classes);
        classes.iter().for_each(|class| all.add(class));
        let served = all.latencies.len();
        let outside = classes.last().map_or(0, |class| class.latencies.len());
        let (offered, within) = measured.map_or((0, 0), |flow| (flow.offered, flow.within));
        let has_bound = slo.envelope().is_some() && served > 0;
        FlowSummary {
            name: name.to_owned(),
            verdict: account.as_ref().map_or("idle", |account| account.verdict.name()).to_owned(),
            explanation: account.map(|account| account.explanation).unwrap_or_default(),
            weight: slo.weight().as_u32(),
            offered,
            served,
            open: offered.saturating_sub(served),
            offered_bytes: measured.map_or(0, |flow| flow.offered_bytes),
            offered_iops: per_second(offered),
            served_iops: per_second(measured.map_or(0, |flow| flow.done)),
            bytes_per_second: per_second(measured.map_or(0, |flow| flow.done_bytes)),
            promised: served - outside,
            missed: all.missed,
            outside,
            within_latency: has_bound.then(|| within as f64 / served as f64),
            latency: all.summary(),
            classes: class_summaries(slo, classes),
            latency_cdf_us: all.cdf(),
            windows: measured.map(FlowMeasure::window_summary).unwrap_or_default(),
        }
    }
}

fn class_summaries(slo: &Slo, classes: &[ClassMeasure]) -> Vec<ClassSummary> {
    let outside = classes.len().saturating_sub(1);
    let summary = |(index, class): (usize, &ClassMeasure)| ClassSummary {
        class: if index == outside { "outside".to_owned() } else { (index + 1).to_string() },
        bound_us: slo.classes().get(index).map(|envelope| micros(envelope.latency())),
        served: class.latencies.len(),
        missed: class.missed,
        latency: class.summary(),
    };
    classes.iter().enumerate().map(summary).collect()
}

impl ClassMeasure {
    fn summary(&self) -> LatencySummary {
        let count = self.latencies.len();
        if count == 0 {
            return LatencySummary::default();
        }
        LatencySummary {
            latency_mean_us: self.sum_ns as f64 / count as f64 / 1e3,
            latency_p50_us: self.at(0.5),
            latency_p95_us: self.at(0.95),
            latency_p99_us: self.at(0.99),
            latency_p999_us: self.at(0.999),
            latency_max_us: micros(self.max),
        }
    }

    /// A percentile is the upper end of its bucket, which may lie above the exact maximum.
    fn at(&self, quantile: f64) -> f64 {
        micros(Span::from_nanos(self.latencies.value_at_quantile(quantile)).min(self.max))
    }

    fn cdf(&self) -> Vec<(f64, f64)> {
        if self.latencies.is_empty() {
            return Vec::new();
        }
        let percent = (0..100).map(f64::from).chain([99.5, 99.9, 99.99, 100.0]);
        percent.map(|percent| (percent, self.at(percent / 100.0))).collect()
    }
}

impl FlowMeasure {
    fn window_summary(&self) -> WindowSummary {
        let windows = &self.windows;
        let mean = |sum: u64, count: u64| if count == 0 { 0.0 } else { sum as f64 / count as f64 / 1e3 };
        WindowSummary {
            arrivals: windows.iter().map(|window| window.arrivals).collect(),
            served: windows.iter().map(|window| window.served).collect(),
            bytes: windows.iter().map(|window| window.bytes).collect(),
            latency_mean_us: windows.iter().map(|it| mean(it.latency_sum_ns, it.served)).collect(),
            latency_max_us: windows.iter().map(|window| micros(window.latency_max)).collect(),
            missed: windows.iter().map(|window| window.missed).collect(),
        }
    }
}

/// (Σx)² / (n Σx²) of Jain, Chiu, Hawe 1984; 1 if nobody got anything.
fn fairness(flows: &[FlowSummary]) -> f64 {
    let sending = flows.iter().filter(|flow| flow.offered > 0);
    let shares: Vec<f64> = sending.map(|flow| flow.served_iops / f64::from(flow.weight)).collect();
    let (sum, squares) = (shares.iter().sum::<f64>(), shares.iter().map(|share| share * share).sum::<f64>());
    if squares > 0.0 { sum * sum / (shares.len() as f64 * squares) } else { 1.0 }
}

/// Microseconds whose three decimals are the nanoseconds.
fn micros(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e3
}
