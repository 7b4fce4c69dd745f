//! Runs of the thesis: two backlogged flows under RBFQ, so many requests, one at a time.
//!
//! ```text
//!  base scenario + Plan { weights, device, load } ──> [offline: pass 1 ──> chosen clusters]
//!        ──> Simulation until `skip` + `requests` are over ──> Outcome of the last `requests`
//! ```

use evenkeel_core::{Operation, Record, Submission, Time, Weight};
use evenkeel_device::Spec;
use evenkeel_sim::scenario::{DeviceConfig, HybridConfig, PolicyConfig, Scenario};
use evenkeel_sim::{Load, Observer, Simulation};
use evenkeel_tiering::policy::Profile;
use evenkeel_tiering::{Cluster, Geometry};
use evenkeel_trace::TraceRequest;

use crate::{Context, ExperimentError};

const STREAMS: &str = include_str!("../../../../experiments/jain-streams.toml");

/// The seed of all runs.
pub(super) const SEED: u64 = 1;

/// Which devices there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Store {
    /// The disk alone.
    Disk,
    /// Flash that has room for everything.
    Flash,
    /// So many MiB of flash before the disk, under a policy.
    Hybrid(u64, PolicyConfig),
}

/// One run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The scenario that is varied.
    pub(super) base: Scenario,
    /// Weights of the two flows.
    pub(super) weights: [u32; 2],
    /// The devices.
    pub(super) store: Store,
    /// Requests of each flow, all there from the start; the scenario's own load without them.
    pub(super) requests_of: Option<[Vec<TraceRequest>; 2]>,
    /// Requests before the measurement begins.
    pub(super) skip: u64,
    /// Requests that are measured.
    pub(super) requests: u64,
    /// Bytes of a request, for the gain equation.
    pub(super) request_bytes: u32,
}

/// What a run found.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// The weights of the two flows.
    pub(super) weights: [u32; 2],
    /// Requests per second.
    pub(super) iops: f64,
    /// Those of each flow.
    pub(super) flows: [f64; 2],
    /// Mean time at the store in ms, of each flow.
    pub(super) response_ms: [f64; 2],
    /// The share of accesses that went to flash, in percent, over the whole run.
    pub(super) flash_percent: f64,
    /// Every request in the order of dispatch.
    pub(super) seen: Vec<Seen>,
}

/// A request as a policy sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) flow: u32,
    pub(super) cluster: Cluster,
    pub(super) is_write: bool,
    /// When it was over, in s, and how long it was at the store, in ms.
    pub(super) end_s: f64,
    pub(super) response_ms: f64,
}

impl Plan {
    /// The thesis's two synthetic streams.
    pub(super) fn streams(context: &Context) -> Result<Self, ExperimentError> {
        Self::varied(context, &[])
    }

    /// The same with changes of the scenario's text: what stands there, and what stands there instead.
    pub(super) fn varied(context: &Context, changes: &[(&str, &str)]) -> Result<Self, ExperimentError> {
        let mut text = STREAMS.to_owned();
        for (from, to) in changes {
            if !text.contains(from) {
                return Err(ExperimentError::Other(format!("jain-streams.toml has no {from:?}")));
            }
            text = text.replace(from, to);
        }
        let base = context.scenario("jain-streams.toml", &text)?;
        Ok(Self {
            base,
            weights: [1, 1],
            store: Store::Disk,
            requests_of: None,
            skip: 0,
            requests: 10_000,
            request_bytes: 512,
        })
    }

    pub(super) fn weights(&self, weights: [u32; 2]) -> Self {
        Self { weights, ..self.clone() }
    }

    pub(super) fn on(&self, store: Store) -> Self {
        Self { store, ..self.clone() }
    }

    /// Runs it.
    pub(super) fn run(&self) -> Result<Outcome, ExperimentError> {
        let config = self.config()?;
        let chosen =
            if config.policy == PolicyConfig::Offline { self.first_pass(&config)? } else { Vec::new() };
        let (watch, flash_percent) = self.simulate(&config, &chosen)?;
        Ok(Outcome { weights: self.weights, ..watch.outcome(self.skip, flash_percent) })
    }

    fn config(&self) -> Result<HybridConfig, ExperimentError> {
        let DeviceConfig::Hybrid(config) = &self.base.device else {
            return Err(ExperimentError::Other("the scenario has no hybrid device".to_owned()));
        };
        let config = HybridConfig { slow: drive()?, ..HybridConfig::clone(config) };
        Ok(match self.store {
            // Flash alone is the fast model in both places.
            Store::Flash => HybridConfig { slow: config.fast.clone(), policy: PolicyConfig::None, ..config },
            Store::Disk => HybridConfig { policy: PolicyConfig::None, ..config },
            Store::Hybrid(mebibytes, policy) => {
                HybridConfig { fast_bytes: mebibytes << 20, policy, ..config }
            }
        })
    }

    /// The offline scheme's first pass: the same requests on the disk alone.
    fn first_pass(&self, config: &HybridConfig) -> Result<Vec<Cluster>, ExperimentError> {
        let plain = HybridConfig { policy: PolicyConfig::None, ..config.clone() };
        let (watch, _) = self.simulate(&plain, &[])?;
        Ok(config.choose(&watch.profile, self.request_bytes))
    }

    fn simulate(&self, config: &HybridConfig, chosen: &[Cluster]) -> Result<(Watch, f64), ExperimentError> {
        let mut scenario = self.base.clone();
        for (flow, weight) in scenario.flows.iter_mut().zip(self.weights) {
            let weight = Weight::new(weight)
                .ok_or_else(|| ExperimentError::Other(format!("{weight} is no weight")))?;
            flow.slo = flow.slo.clone().with_weight(weight);
        }
        let plain = HybridConfig { policy: PolicyConfig::None, ..config.clone() };
        scenario.device = DeviceConfig::Hybrid(Box::new(plain));
        let mut setup = scenario.setup(SEED)?;
        setup.device = Box::new(config.build(chosen));
        if let Some(requests_of) = &self.requests_of {
            for (source, requests) in setup.sources.iter_mut().zip(requests_of) {
                source.load = Load::Trace(Box::new(requests.clone().into_iter().map(Ok)));
            }
        }
        let until = (self.skip + self.requests) as usize;
        let watch = Watch::new(config.geometry);
        let mut simulation = Simulation::new(setup, watch)?;
        while simulation.observer().seen.len() < until {
            let Some(at) = simulation.next_instant() else { break };
            simulation.run_until(at)?;
        }
        let counts = simulation.tier_counts().unwrap_or_default();
        let accesses = (counts.fast + counts.slow).max(1) as f64;
        Ok((simulation.into_observer(), 100.0 * counts.fast as f64 / accesses))
    }
}

/// Sectors that the thesis's disk reads ahead before another command gets the heads: half a segment. The power of two
/// at which the drive serves what the thesis's does at 1:100, where nearly all requests are random: 259 per second.
pub(super) const LEAST_AHEAD: u32 = 256;

/// The thesis's disk, in one place: the synthetic drive, which serves a sector from its buffer as it comes in, and goes
/// on reading for a while. As shipped it does neither, and a stream that was interrupted loses a revolution with each
/// of its requests.
fn drive() -> Result<Spec, ExperimentError> {
    let stock = Spec::text_of("ibm36z15approx").unwrap_or_default();
    let changed = format!("almost_read_hits = true\nread_ahead_sectors_min = {LEAST_AHEAD}");
    let text = stock.replace("almost_read_hits = false", &changed);
    Spec::parse(&text, "ibm36z15approx").map_err(|error| ExperimentError::Other(error.to_string()))
}

/// Sees every request.
struct Watch {
    geometry: Geometry,
    profile: Profile,
    seen: Vec<Seen>,
}

impl Watch {
    fn new(geometry: Geometry) -> Self {
        Self { geometry, profile: Profile::new(geometry), seen: Vec::new() }
    }

    fn outcome(self, skip: u64, flash_percent: f64) -> Outcome {
        let skip = skip as usize;
        let begin = if skip == 0 { 0.0 } else { self.seen.get(skip - 1).map_or(0.0, |seen| seen.end_s) };
        let measured = self.seen.get(skip..).unwrap_or_default();
        let seconds = measured.last().map_or(0.0, |seen| seen.end_s) - begin;
        let of = |flow: u32| measured.iter().filter(move |seen| seen.flow == flow);
        let flows = [0, 1].map(|flow| of(flow).count() as f64 / seconds);
        let response_ms = [0, 1].map(|flow| {
            of(flow).map(|seen| seen.response_ms).sum::<f64>() / (of(flow).count().max(1) as f64)
        });
        Outcome {
            iops: measured.len() as f64 / seconds,
            flows,
            response_ms,
            flash_percent,
            weights: [1, 1],
            seen: measured.to_vec(),
        }
    }
}

impl Observer for Watch {
    fn on_submit(&mut self, _now: Time, submission: &Submission, _outstanding: u32) {
        let request = &submission.request;
        let is_write = request.operation != Operation::Read;
        self.profile.observe(request.flow, is_write, request.offset, request.length);
    }

    fn on_reply(&mut self, record: &Record, _outstanding: u32) {
        let request = &record.request;
        self.seen.push(Seen {
            flow: request.flow.0,
            cluster: self.geometry.cluster_of(request.offset),
            is_write: request.operation != Operation::Read,
            end_s: record.completion.since(Time::ZERO).as_secs_f64(),
            response_ms: record.completion.since(record.dispatch).as_secs_f64() * 1e3,
        });
    }
}

/// The share of the first flow over that of the second.
pub(super) fn ratio(outcome: &Outcome) -> f64 {
    outcome.flows[0] / outcome.flows[1]
}

/// A ratio as the thesis writes it: `54.5:1` or `1:7.1`.
pub(super) fn written(ratio: f64) -> String {
    if ratio >= 1.0 { format!("{ratio:.1}:1") } else { format!("1:{:.1}", 1.0 / ratio) }
}

/// How far an achieved ratio is from the wanted one, in factors of two: the distance in the thesis's
/// figures.
pub(super) fn unfairness(wanted: [u32; 2], achieved: f64) -> f64 {
    (achieved.log2() - (f64::from(wanted[0]) / f64::from(wanted[1])).log2()).abs()
}
