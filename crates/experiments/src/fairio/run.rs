//! Runs of FAIRIO's evaluation: four classes with a benchmark's requests on RAID-0 of eight disks.
//!
//! ```text
//!  generator of the benchmark ──> requests of each class ──> FAIRIO or FCFS ──> Metered ──> RAID-0 ──> 8 disks
//!                                                                                 └ disk time of each class
//! ```

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};

use evenkeel_core::sched::fairio::{Accounting, Fairio, FairioConfig};
use evenkeel_core::{Engine, FlowId, Operation, Record, Span, Submission, Time, Weight};
use evenkeel_device::raid::{self, Level};
use evenkeel_device::spec::Model;
use evenkeel_device::{Device, Finished, Io, Spec};
use evenkeel_sim::{Load, Observer, Simulation};
use evenkeel_trace::TraceRequest;
use evenkeel_trace::generate::{Generator, Personality};

use crate::{Context, ExperimentError};

const ARRAY: &str = include_str!("../../../../experiments/fairio-array.toml");

/// The seed of all runs.
pub(super) const SEED: u64 = 1;
const DISKS: u32 = 8;
const STRIPE_UNIT: u32 = 8 << 10;
/// From class to class on the array.
const APART: u64 = 8 << 30;
/// Cycles of a run, and those before the measurement begins: a window of observation.
const CYCLES: u64 = 220;
const WARMUP: u64 = 20;

/// A benchmark of table II.
#[derive(Clone, Copy, Debug)]
pub(super) struct Benchmark {
    pub(super) name: &'static str,
    /// What each class does.
    pub(super) classes: [Personality; 4],
    pub(super) cycle_ms: u64,
    /// Dispatch depth: 16 commands for each disk.
    depth: NonZeroU32,
    /// Requests of each class: more than it can be served.
    requests: usize,
    /// What each class asks for, as a share of what the array can do with this load; everything is there
    /// from the start without it.
    asks: Option<[f64; 4]>,
}

const fn benchmark(name: &'static str, what: Personality, cycle_ms: u64, requests: usize) -> Benchmark {
    Benchmark { name, classes: [what; 4], cycle_ms, depth: WHOLE_STRIPES, requests, asks: None }
}

/// Requests of 64 KiB are a command for each of eight disks.
const WHOLE_STRIPES: NonZeroU32 = NonZeroU32::new(16).expect("above 0");
/// Requests of 4 to 16 KiB are 1.4 commands.
const FEW_UNITS: NonZeroU32 = NonZeroU32::new(91).expect("above 0");

/// Of T = 11.76 MB/s, what MADbench2's classes ask for: 3.04, 2.06, 3.01 and 3.01 MB/s (section IV-C).
const MADBENCH_ASKS: [f64; 4] = [3.04 / 11.76, 2.06 / 11.76, 3.01 / 11.76, 3.01 / 11.76];

/// In the order of figure 3.
pub(super) const BENCHMARKS: [Benchmark; 6] = [
    Benchmark { depth: FEW_UNITS, ..benchmark("varmail", Personality::Varmail, 1_000, 200_000) },
    benchmark("BTIO", Personality::BtIo, 2_200, 100_000),
    Benchmark { asks: Some(MADBENCH_ASKS), ..benchmark("MADbench2", Personality::MadBench2, 3_100, 100_000) },
    benchmark("IOR1", Personality::IorRandom, 2_100, 100_000),
    benchmark("IOR2", Personality::IorSequential, 3_600, 100_000),
    Benchmark {
        classes: [
            Personality::IorRandom,
            Personality::IorSequential,
            Personality::IorRandom,
            Personality::IorSequential,
        ],
        ..benchmark("IOR3", Personality::IorRandom, 1_700, 100_000)
    },
];

/// What a run found.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// Bytes per second of each class.
    pub(super) throughput: [f64; 4],
    /// Disk time of each class, in s.
    pub(super) disk_time: [f64; 4],
    /// Bytes per second that each class asked for; without end if all was there from the start.
    pub(super) demand: [f64; 4],
    /// Requests at the array, the mean over dispatches.
    pub(super) outstanding: f64,
}

impl Outcome {
    /// All classes together.
    pub(super) fn total(&self) -> f64 {
        self.throughput.iter().sum()
    }

    /// Error_i = ActualRatio_i − IdealRatio_i of throughput, in points (section IV).
    pub(super) fn errors(&self, weights: [u32; 4]) -> [f64; 4] {
        errors(self.throughput, weights)
    }

    /// The same of disk time.
    pub(super) fn disk_errors(&self, weights: [u32; 4]) -> [f64; 4] {
        errors(self.disk_time, weights)
    }
}

fn errors(values: [f64; 4], weights: [u32; 4]) -> [f64; 4] {
    let total: f64 = values.iter().sum();
    let weight: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
    std::array::from_fn(|class| 100.0 * (values[class] / total - f64::from(weights[class]) / weight))
}

/// The largest size of an error.
pub(super) fn largest(errors: [f64; 4]) -> f64 {
    errors.iter().fold(0.0, |most, error| f64::max(most, error.abs()))
}

/// Runs `benchmark` under FAIRIO, or without it.
pub(super) fn run(
    context: &Context,
    benchmark: &Benchmark,
    weights: [u32; 4],
    fairio: bool,
) -> Result<Outcome, ExperimentError> {
    let other = |error: &dyn std::fmt::Display| ExperimentError::Other(error.to_string());
    let mut scenario = context.scenario("fairio-array.toml", ARRAY)?;
    for (flow, weight) in scenario.flows.iter_mut().zip(weights) {
        let weight = Weight::new(weight).ok_or_else(|| other(&"a weight of 0"))?;
        flow.slo = flow.slo.clone().with_weight(weight);
    }
    scenario.depth = benchmark.depth;
    let mut setup = scenario.setup(SEED)?;
    let cycle = Span::from_millis(benchmark.cycle_ms);
    if fairio {
        let config = FairioConfig { accounting: Accounting::Reported, ..FairioConfig::new(cycle, DISKS) };
        let fairio = Fairio::new(config).map_err(|error| other(&error))?;
        setup.engine = Engine::new(Box::new(fairio), benchmark.depth);
    }
    let busy = Arc::new(Mutex::new([0.0; 4]));
    let begin = Time::ZERO + Span::from_millis(benchmark.cycle_ms * WARMUP);
    let end = Time::ZERO + Span::from_millis(benchmark.cycle_ms * CYCLES);
    setup.device =
        Box::new(Metered { inner: array()?.build(), flows: BTreeMap::new(), begin, busy: busy.clone() });
    let asked = match benchmark.asks {
        Some(shares) => {
            let able = run(context, &Benchmark { asks: None, ..*benchmark }, weights, false)?.total();
            Some(shares.map(|share| share * able))
        }
        None => None,
    };
    for (class, source) in setup.sources.iter_mut().enumerate() {
        let requests = requests(benchmark, class, asked.map(|asked| asked[class]))?;
        source.load = Load::Trace(Box::new(requests.into_iter().map(Ok)));
    }
    let mut simulation = Simulation::new(setup, Seen { begin, done: [0; 4], outstanding: (0, 0) })?;
    simulation.run_until(end)?;
    let seconds = end.since(begin).as_secs_f64();
    let seen = simulation.observer();
    let throughput = seen.done.map(|bytes| bytes as f64 / seconds);
    let outstanding = seen.outstanding.0 as f64 / seen.outstanding.1.max(1) as f64;
    let disk_time = *busy.lock().map_err(|_| other(&"a run was given up"))?;
    Ok(Outcome { throughput, disk_time, demand: asked.unwrap_or([f64::INFINITY; 4]), outstanding })
}

/// RAID-0 of eight IBM 18ES: SSTF in the drives, a buffer of one segment of 32 blocks, writes on the medium
/// before they are reported (section III-A and B).
fn array() -> Result<Spec, ExperimentError> {
    let stock = Spec::text_of("ibm18es").unwrap_or_default();
    let text = stock
        .replace("segments = 7", "segments = 1")
        .replace("segment_sectors = 511", "segment_sectors = 32")
        .replace("read_ahead_sectors_max = 511", "read_ahead_sectors_max = 32")
        .replace("write_buffering = true", "write_buffering = false");
    let text = format!("{text}\n[queue]\npolicy = \"sstf\"\n");
    let refused = |error: &dyn std::fmt::Display| ExperimentError::Other(error.to_string());
    let disk = Spec::parse(&text, "ibm18es").map_err(|error| refused(&error))?;
    let parameters = raid::Parameters { stripe_unit: STRIPE_UNIT, ..raid::Parameters::new(Level::Raid0) };
    Spec::new(Model::Raid { parameters, members: vec![disk; DISKS as usize] })
        .map_err(|error| refused(&error))
}

/// The requests of one class, without flushes: the paper's traces were taken below the file system. `asked` is the mean
/// of bytes per second that they come with; all at once without it.
fn requests(
    benchmark: &Benchmark,
    class: usize,
    asked: Option<f64>,
) -> Result<Vec<TraceRequest>, ExperimentError> {
    let parameters = benchmark.classes[class].parameters();
    let generator =
        Generator::new(&parameters, SEED).map_err(|error| ExperimentError::Other(error.to_string()))?;
    let own = generator
        .filter(|request| request.volume as usize == class && request.operation != Operation::Flush)
        .take(benchmark.requests);
    let mut requests: Vec<TraceRequest> = own.collect();
    let bytes: u64 = requests.iter().map(|request| u64::from(request.length)).sum();
    let seconds = requests.last().map_or(0.0, |request| request.at.since(Time::ZERO).as_secs_f64());
    let stretch = asked.map_or(0.0, |asked| bytes as f64 / seconds.max(1e-9) / asked);
    for request in &mut requests {
        let nanos = request.at.since(Time::ZERO).as_nanos() as f64 * stretch;
        request.at = Time::from_nanos(nanos as u64);
        request.offset += class as u64 * APART;
    }
    Ok(requests)
}

/// Counts bytes, and requests at the array.
struct Seen {
    begin: Time,
    done: [u64; 4],
    outstanding: (u64, u64),
}

impl Observer for Seen {
    fn on_submit(&mut self, now: Time, _submission: &Submission, outstanding: u32) {
        if now >= self.begin {
            self.outstanding.0 += u64::from(outstanding);
            self.outstanding.1 += 1;
        }
    }

    fn on_reply(&mut self, record: &Record, _outstanding: u32) {
        if record.completion >= self.begin
            && let Some(done) = self.done.get_mut(record.request.flow.0 as usize)
        {
            *done += u64::from(record.request.length);
        }
    }
}

/// A device that adds up the disk time of each class.
struct Metered {
    inner: Box<dyn Device + Send>,
    flows: BTreeMap<u64, FlowId>,
    begin: Time,
    busy: Arc<Mutex<[f64; 4]>>,
}

impl Device for Metered {
    fn submit(&mut self, now: Time, io: Io) {
        self.submit_for(now, FlowId(0), io);
    }

    fn submit_for(&mut self, now: Time, flow: FlowId, io: Io) {
        self.flows.insert(io.token, flow);
        self.inner.submit_for(now, flow, io);
    }

    fn next_event(&self) -> Option<Time> {
        self.inner.next_event()
    }

    fn poll_completion(&mut self, now: Time) -> Option<Finished> {
        let finished = self.inner.poll_completion(now)?;
        if let Some(flow) = self.flows.remove(&finished.token)
            && finished.at >= self.begin
            && let Ok(mut busy) = self.busy.lock()
            && let Some(busy) = busy.get_mut(flow.0 as usize)
        {
            *busy += finished.busy.as_secs_f64();
        }
        Some(finished)
    }
}
