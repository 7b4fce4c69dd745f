//! The scenario file, key by key. These types are both what is parsed and what the JSON Schema is
//! generated from, so that the two cannot differ.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::told::{CelloText, CostText, DepthText, FairioText};
use super::words::{BytesText, OneOrMany, RateText, Requests, SpareText, TimeText};

/// A scenario of the Evenkeel simulator: a device, flows with their promises and workloads, and what
/// changes in the course of the run. Times are "100 ms", rates "200 IOPS", sizes "4 KiB".
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScenarioFile {
    /// What the scenario shows, in a line.
    pub description: Option<String>,
    /// Length of the run.
    pub duration: TimeText,
    /// The beginning that is left out of the statistics. None by default.
    pub warmup: Option<TimeText>,
    /// Names all random numbers. 1 by default; `--seed` overrides it.
    pub seed: Option<u64>,
    /// Length of a window in results over time. "1 s" by default.
    pub window: Option<TimeText>,
    /// Whether the run goes on after its end, without new requests, until every request is over.
    pub drain: Option<bool>,
    /// "pclock" by default; `evenkeel schedulers` lists them, `--scheduler` overrides it.
    pub scheduler: Option<String>,
    /// Who gets the capacity that nobody was promised (pClock): "flows" (the default), "background", or the
    /// share of each batch that goes to the background.
    pub spare: Option<SpareText>,
    /// Requests outstanding at the device: 1 to 65536, "auto", or bounds between which it is adapted. The number
    /// of servers by default.
    pub depth: Option<DepthText>,
    /// FAIRIO's parameters: `cycle`, `disks`, `window`, `class_threshold`, `load_threshold`, `first_request`,
    /// `accounting`.
    pub fairio: Option<FairioText>,
    /// Cello's: the weights `real_time`, `interactive` and `throughput` of its classes, and `quantum`.
    pub cello: Option<CelloText>,
    /// What requests cost, by kind and size; 1 each by default.
    pub cost: Option<CostText>,
    /// The device: `rate` and `servers`, the name of a drive, or a description with a `kind`.
    pub device: super::device::DeviceText,
    /// Agreements that several flows share, by name, `[group.NAME]`.
    #[serde(default)]
    pub group: BTreeMap<String, GroupSection>,
    /// The flows by name, `[flow.NAME]`; their order in the file is that of arrivals at one instant.
    pub flow: BTreeMap<String, FlowSection>,
    /// What changes in the course of the run, `[[change]]`.
    #[serde(default)]
    pub change: Vec<ChangeSection>,
}

/// An agreement that several flows share: to the scheduler they are one.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupSection {
    /// What they are promised together, as with a flow.
    pub sla: Option<OneOrMany<SlaSection>>,
    /// The share of the whole.
    pub weight: Option<u32>,
    /// What they get at least, together.
    pub reservation: Option<RateText>,
    /// What they get at most, together.
    pub limit: Option<RateText>,
}

/// A flow: a client's stream of requests. In the gateway, a volume.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowSection {
    /// The promise: as long as no more than `burst` requests come at once and `rate` in the long run, each
    /// takes at most `latency`. A list of classes, the innermost first, for graduated promises. A flow
    /// without it is a background flow.
    pub sla: Option<OneOrMany<SlaSection>>,
    /// The group whose agreement it shares; it has no `sla` of its own then.
    pub group: Option<String>,
    /// The share among flows, where the scheduler shares by weight: 1 (the default) to 1000000. Of a member: the
    /// share within its group, once that has left its envelope.
    pub weight: Option<u32>,
    /// What it gets at least, under schedulers that reserve.
    pub reservation: Option<RateText>,
    /// What it gets at most, under schedulers that limit. Of a member: under every scheduler.
    pub limit: Option<RateText>,
    /// Somebody waits for each of its requests (Cello's interactive class). For flows without an `sla`.
    pub interactive: Option<bool>,
    /// What its requests cost, where that differs from the scenario's `cost`.
    pub cost: Option<CostText>,
    /// When the flow begins to exist. At the start by default.
    pub start: Option<TimeText>,
    /// When it ceases to. Never by default.
    pub stop: Option<TimeText>,
    /// What it asks for, unless a part of the workload says otherwise.
    pub access: Option<AccessSection>,
    /// What it sends: one part, or a list of parts that run side by side or, with `from` and `until`, one after
    /// the other.
    pub workload: OneOrMany<WorkloadSection>,
}

/// An envelope with a latency bound, ⟨σ, ρ, δ⟩.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlaSection {
    /// Requests that may come at once. 0 is the papers' way of writing a flow that is paced at `rate`.
    pub burst: Requests,
    /// Requests per second in the long run.
    pub rate: RateText,
    /// The longest latency within the envelope.
    pub latency: TimeText,
}

/// A part of a flow's workload.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkloadSection {
    /// How requests arrive; needed unless `trace` is given.
    pub arrivals: Option<ArrivalKind>,
    /// Mean rate ("constant", "poisson", "pareto"), or the rate while on ("on-off").
    pub rate: Option<RateText>,
    /// Tail index of gaps ("pareto"), or of lengths that are "pareto"; above 1. 1.5 by default.
    pub shape: Option<f64>,
    /// Rate while off ("on-off"). None by default.
    pub off_rate: Option<RateText>,
    /// Length, or mean length, of a phase that is on ("on-off").
    pub on: Option<TimeText>,
    /// Length, or mean length, of a phase that is off ("on-off").
    pub off: Option<TimeText>,
    /// How the lengths of phases are distributed ("on-off"). "constant" by default.
    pub lengths: Option<LawKind>,
    /// Whether gaps within a phase are "constant" (the default) or "exponential" ("on-off").
    pub gaps: Option<LawKind>,
    /// Requests in a burst ("bursts").
    pub burst: Option<u32>,
    /// From burst to burst ("bursts"). Without it there is one burst.
    pub every: Option<TimeText>,
    /// Requests that are outstanding or thought about ("closed").
    pub outstanding: Option<u32>,
    /// Think time between a reply and the next request, or its mean ("closed"). None by default.
    pub think: Option<TimeText>,
    /// How think times are distributed ("closed"). "constant" by default.
    pub thinking: Option<LawKind>,
    /// The file of a trace, whose requests are sent as they are.
    pub trace: Option<String>,
    /// The trace's format; recognised if left out.
    pub format: Option<String>,
    /// Only the requests to this volume of the trace, numbered from 0.
    pub volume: Option<u32>,
    /// Malformed lines of the trace that are left out before it is refused. 100 by default.
    pub malformed_max: Option<u64>,
    /// Requests of the trace within which the order may be wrong: they are sorted by time. 0 by default, at
    /// most 1048576.
    pub reorder: Option<u32>,
    /// Which event of a request is its arrival ("blktrace" and "blkparse" traces). "queued" by default.
    pub event: Option<EventKind>,
    /// Time between requests, for traces that hold no times ("nbdlog").
    pub interval: Option<TimeText>,
    /// What the columns of a CSV trace mean, as `evenkeel trace --columns` takes it.
    pub columns: Option<String>,
    /// When this part begins. With the flow by default; what a trace says is counted from there.
    pub from: Option<TimeText>,
    /// When it ends. With the flow by default.
    pub until: Option<TimeText>,
    /// At most this many requests.
    pub requests: Option<u64>,
    /// What it asks for; the flow's `access` by default.
    pub access: Option<AccessSection>,
}

/// How requests arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ArrivalKind {
    /// Evenly.
    Constant,
    /// With exponential gaps.
    Poisson,
    /// With Pareto gaps.
    Pareto,
    /// Phases of two rates in turn: ON/OFF sources, spikes.
    OnOff,
    /// So many at once, every so often.
    Bursts,
    /// So many outstanding, with think times.
    Closed,
}

/// An event in the life of a request that Linux traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// It came to the block layer (Q).
    Queued,
    /// It went to the driver (D).
    Issued,
    /// It was completed (C).
    Completed,
}

/// How a length of time is distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LawKind {
    /// Always the same.
    Constant,
    /// Exponential.
    Exponential,
    /// Pareto, with the tail index `shape`.
    Pareto,
}

/// What requests ask for.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AccessSection {
    /// How addresses follow each other. "random" by default.
    pub pattern: Option<PatternKind>,
    /// The probability that a request goes on where the last one ended ("mixed"). 0.5 by default.
    pub sequential: Option<f64>,
    /// The exponent of popularity ("zipf"). 0.99 by default.
    pub theta: Option<f64>,
    /// Bytes per request: one size, or a list of them, each equally likely. "4 KiB" by default.
    pub size: Option<OneOrMany<BytesText>>,
    /// The share of reads; the rest are writes. 1 by default.
    pub read: Option<f64>,
    /// First byte of the region that is asked for. "0 B" by default.
    pub offset: Option<BytesText>,
    /// Bytes of the region. "1 GiB" by default.
    pub extent: Option<BytesText>,
}

/// How addresses follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PatternKind {
    /// Uniformly over the region.
    Random,
    /// Each where the last one ended.
    Sequential,
    /// Now and then a jump.
    Mixed,
    /// A few blocks get most.
    Zipf,
}

/// Something that changes in the course of the run.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeSection {
    /// When.
    pub at: TimeText,
    /// From then on the device runs at this share of its speed: 0.7 is 30 % less capacity. In millionths.
    pub capacity: Option<f64>,
    /// Another scheduler; waiting requests move over.
    pub scheduler: Option<String>,
    /// Another policy for spare capacity.
    pub spare: Option<SpareText>,
    /// Another dispatch depth.
    pub depth: Option<DepthText>,
    /// The flow that `sla`, `weight`, `reservation` and `limit` are for.
    pub flow: Option<String>,
    /// The group that they are for.
    pub group: Option<String>,
    /// Another promise.
    pub sla: Option<OneOrMany<SlaSection>>,
    /// Another weight.
    pub weight: Option<u32>,
    /// Another reservation.
    pub reservation: Option<RateText>,
    /// Another limit.
    pub limit: Option<RateText>,
}
