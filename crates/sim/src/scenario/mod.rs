//! Scenarios: what is simulated, from a TOML file.
//!
//! ```text
//!  text ──> serde, strict ──> ScenarioFile ──> resolve: names, ranges, phases ──> Scenario
//!    │          │                 │                  │                              │ setup(seed)
//!    │          └─────────────────┴── Problem { span, key, message, remedy }        v
//!    └──> schema() is generated from the same types                          simulation::Setup
//! ```
//!
//! Unknown keys and values without their units are errors; nothing is rounded.

use std::num::NonZeroU32;
use std::path::Path;

use evenkeel_catalogue::{AdaptiveDepth, Depth, Tuning};
use evenkeel_core::{CostModel, Engine, FlowId, Membership, Slo, Span, SpareCapacity, Time};
use evenkeel_strict::ConfigError;
pub use evenkeel_strict::file::FILE_BYTES_MAX;
use toml::de::DeValue;

use crate::access::Access;
use crate::pace::Pace;
use crate::simulation::{Change, Setup, SimError};
use crate::source::{Load, SourceConfig};

mod check;
mod device;
mod file;
mod groups;
mod hybrid;
mod profile;
mod resolve;
mod schedulers;
mod told;
mod trace;
mod words;
mod workload;

pub use device::{DeviceConfig, DeviceText};
pub use file::{
    AccessSection, ArrivalKind, ChangeSection, EventKind, FlowSection, GroupSection, LawKind, PatternKind,
    ScenarioFile, SlaSection, WorkloadSection,
};
pub use hybrid::{HybridConfig, PolicyConfig};
pub use schedulers::{scheduler, scheduler_names};
pub use told::{CelloText, CostText, DepthText, FairioText};
pub use trace::TraceSpec;
pub use words::{BytesText, OneOrMany, RateText, Requests, SpareText, TimeText};

/// A scenario that makes sense.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The file's name without its ending.
    pub name: String,
    /// What it shows, in a line.
    pub description: String,
    /// BLAKE3 of the file, in hexadecimal.
    pub hash: String,
    /// Length of the run.
    pub duration: Span,
    /// The beginning that is left out of the statistics.
    pub warmup: Span,
    /// Length of a window in results over time.
    pub window: Span,
    /// The seed, unless another one is asked for.
    pub seed: u64,
    /// Whether the run goes on, without new requests, until every request is over.
    pub drain: bool,
    /// The scheduler's name.
    pub scheduler: String,
    /// Who gets spare capacity at the start.
    pub spare: SpareCapacity,
    /// Parameters of the schedulers that have some (FAIRIO, Cello).
    pub tuning: Tuning,
    /// The dispatch depth, or the most of it.
    pub depth: NonZeroU32,
    /// How the depth is adapted; `None` if it stays as it is.
    pub adaptive: Option<AdaptiveDepth>,
    /// The device.
    pub device: DeviceConfig,
    /// The flows, in the order of the file.
    pub flows: Vec<ScenarioFlow>,
    /// Agreements that flows share. To the engine they are flows, numbered after those.
    pub groups: Vec<ScenarioGroup>,
    changes: Vec<(Time, ScenarioChange)>,
}

/// An agreement that flows share.
#[derive(Clone, Debug)]
pub struct ScenarioGroup {
    /// Its name.
    pub name: String,
    /// What is promised to its members together.
    pub slo: Slo,
}

/// A flow of a scenario.
#[derive(Clone, Debug)]
pub struct ScenarioFlow {
    /// Its name.
    pub name: String,
    /// What it is promised at its start; a member, what its group is.
    pub slo: Slo,
    /// The group to which it belongs.
    pub membership: Option<Membership>,
    /// What its requests cost.
    pub cost: CostModel,
    /// When it begins to exist.
    pub start: Time,
    /// When it ceases to.
    pub stop: Option<Time>,
    parts: Vec<Part>,
}

/// A part of a workload.
#[derive(Clone, Debug)]
struct Part {
    from: Time,
    until: Option<Time>,
    requests_max: Option<u64>,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Generated(Pace, Access),
    Trace(TraceSpec),
}

#[derive(Clone, Debug)]
enum ScenarioChange {
    Slo(FlowId, Slo),
    Group(FlowId, Slo),
    Scheduler(String),
    Spare(SpareCapacity),
    Speed(u64),
    Depth(Depth),
}

/// The JSON Schema of scenario files.
#[must_use]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(ScenarioFile).to_value()
}

/// Reads and checks the scenario file at `path`.
///
/// # Errors
/// If it cannot be read, is not UTF-8, is above [`FILE_BYTES_MAX`], or [`parse`] refuses it.
pub fn load(path: &Path) -> Result<Scenario, ConfigError> {
    let text = evenkeel_strict::file::read(path, "name a scenario file")?;
    parse(&text, path)
}

/// Checks `text` as the content of `path`, which gives the scenario its name, errors their file and
/// relative paths their folder; it need not exist.
///
/// # Errors
/// The first problem of form, or every problem of sense, with key, place and remedy.
pub fn parse(text: &str, path: &Path) -> Result<Scenario, ConfigError> {
    let refused = |problems| ConfigError::new(path.to_owned(), text.to_owned(), problems);
    let document = evenkeel_strict::document(text).map_err(refused)?;
    let mut report = evenkeel_strict::Report::default();
    let device = device::read(&mut report, document.get_ref(), path.parent().unwrap_or(Path::new("")));
    let file: ScenarioFile = toml::from_str(text).map_err(|error| {
        let mut problems = std::mem::take(&mut report.problems);
        problems.push(check::translated(&error, document.get_ref()));
        refused(problems)
    })?;
    // The parser sorts by name; the order of flows is that of the file.
    let mut order: Vec<(usize, &str)> = match document.get_ref().get("flow").map(toml::Spanned::get_ref) {
        Some(DeValue::Table(flows)) => {
            flows.iter().map(|(name, _)| (name.span().start, name.get_ref().as_ref())).collect()
        }
        _ => Vec::new(),
    };
    order.sort_unstable();
    let names: Vec<&str> = order.into_iter().map(|(_, name)| name).collect();
    let mut checker = check::Checker::new(document.get_ref());
    let disks = device.as_ref().map_or(1, |device| device.parallelism().get());
    let told = told::read(&mut report, document.get_ref(), disks);
    let scenario = resolve::scenario(&mut checker, &file, device.as_ref(), &told, &names, path);
    checker.problems.append(&mut report.problems);
    match (scenario, checker.problems.is_empty()) {
        (Some(scenario), true) => {
            let hash = blake3::hash(text.as_bytes()).to_hex().to_string();
            Ok(Scenario { hash, ..scenario })
        }
        _ => Err(refused(checker.problems)),
    }
}

impl Scenario {
    /// The names of the flows, by number.
    #[must_use]
    pub fn flow_names(&self) -> Vec<String> {
        self.flows.iter().map(|flow| flow.name.clone()).collect()
    }

    /// The end of the run.
    #[must_use]
    pub fn end(&self) -> Time {
        Time::ZERO + self.duration
    }

    /// The same scenario under another scheduler; `None` if there is no such scheduler.
    #[must_use]
    pub fn with_scheduler(&self, name: &str) -> Option<Self> {
        scheduler(name, self.spare, &self.tuning)?;
        Some(Self { scheduler: name.to_owned(), ..self.clone() })
    }

    /// What a simulation with `seed` consists of.
    ///
    /// # Errors
    /// If a trace cannot be opened.
    ///
    /// # Panics
    /// Never for a scenario that [`parse`] has made: its schedulers are known.
    pub fn setup(&self, seed: u64) -> Result<Setup, SimError> {
        let made = |name: &str| {
            scheduler(name, self.spare, &self.tuning).expect("names of schedulers have been checked")
        };
        let capacity = self.device.capacity();
        let depth = Depth { most: self.depth, adaptive: self.adaptive };
        let mut changes = Vec::new();
        changes.extend(depth.control().map(|control| (Time::ZERO, Change::Adapt(Box::new(control)))));
        let mut sources = Vec::new();
        for (group, config) in (self.flows.len() as u32..).map(FlowId).zip(&self.groups) {
            changes.push((Time::ZERO, Change::Group(group, config.slo.clone())));
        }
        if let Some(flow) = self.migration_flow() {
            changes.push((Time::ZERO, Change::Configure(flow, Slo::background())));
            // What all flows pay; where they differ, a copy is two requests.
            let mut costs = self.flows.iter().map(|flow| &flow.cost);
            if let Some(cost) = costs.next().filter(|first| costs.all(|cost| cost == *first)) {
                changes.push((Time::ZERO, Change::Cost(flow, cost.clone())));
            }
        }
        for (flow, config) in (0..).map(FlowId).zip(&self.flows) {
            let begin = match config.membership {
                Some(membership) => Change::Join(flow, membership),
                None => Change::Configure(flow, config.slo.clone()),
            };
            changes.push((config.start, begin));
            if config.cost != CostModel::default() {
                changes.push((config.start, Change::Cost(flow, config.cost.clone())));
            }
            if let Some(stop) = config.stop {
                changes.push((stop, Change::Stop(flow)));
            }
            for (part, config) in config.parts.iter().enumerate() {
                let load = match &config.what {
                    What::Generated(pace, access) => Load::Generated(*pace, access.clone()),
                    What::Trace(spec) => {
                        Load::Trace(spec.open(capacity).map_err(|source| SimError::Trace { flow, source })?)
                    }
                };
                sources.push(SourceConfig {
                    flow,
                    stream: [u64::from(flow.0), part as u64],
                    from: config.from,
                    until: config.until,
                    requests_max: config.requests_max,
                    load,
                });
            }
        }
        changes.extend(self.changes.iter().map(|(at, change)| {
            let change = match change {
                ScenarioChange::Slo(flow, slo) => Change::Configure(*flow, slo.clone()),
                ScenarioChange::Group(group, slo) => Change::Group(*group, slo.clone()),
                ScenarioChange::Scheduler(name) => Change::Scheduler(made(name)),
                ScenarioChange::Spare(spare) => Change::Spare(*spare),
                ScenarioChange::Speed(speed) => Change::Speed(*speed),
                ScenarioChange::Depth(depth) => {
                    depth.control().map_or(Change::Depth(depth.most), |it| Change::Adapt(Box::new(it)))
                }
            };
            (*at, change)
        }));
        let engine = Engine::new(made(&self.scheduler), depth.start());
        Ok(Setup { seed, engine, device: self.build_device(seed)?, changes, sources })
    }
}

#[cfg(test)]
mod tests;
