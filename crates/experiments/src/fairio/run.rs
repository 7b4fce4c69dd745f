//! Runs of FAIRIO's evaluation: four classes with a benchmark's requests on RAID-0 of eight disks.
//!
//! ```text
//!  generator of the benchmark ──> requests of each class ──> FAIRIO or FCFS ──> Controller ──> RAID-0 ──> 8 disks
//!                                                                                  └ disk time of each class
//! ```

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};

use evenkeel_core::sched::fairio::{Accounting, Fairio, FairioConfig};
use evenkeel_core::{Engine, Operation, Record, Span, Time, Weight};
use evenkeel_device::Spec;
use evenkeel_device::raid::{self, Level};
use evenkeel_device::spec::Model;
use evenkeel_sim::{Load, Observer, Simulation};
use evenkeel_trace::TraceRequest;
use evenkeel_trace::generate::{Generator, Personality};

use super::controller::Controller;
use crate::{Context, ExperimentError};

const ARRAY: &str = include_str!("../../../../experiments/fairio-array.toml");

/// The seed of all runs.
pub(super) const SEED: u64 = 1;
const DISKS: u32 = 8;
const STRIPE_UNIT: u32 = 8 << 10;
/// Commands that a disk's queue holds (section III-B).
const DISK_QUEUE: u32 = 16;
/// The driver hands over all that FAIRIO lets go: the controller's queue has no end (section III-B).
const NO_LIMIT: NonZeroU32 = NonZeroU32::new(1 << 20).expect("above 0");
/// How much faster than in the trace requests come, so that they wait at all times, in the order of the trace.
const FASTER: f64 = 1_000.0;
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
    /// Requests of each class: more than it can be served.
    requests: usize,
    /// What each class asks for, as a share of what the array can do with this load; more than can be done
    /// without it.
    asks: Option<[f64; 4]>,
}

impl Benchmark {
    /// Whether all classes do the same, and more of it than can be done.
    pub(super) fn is_uniform(&self) -> bool {
        self.asks.is_none() && self.classes.iter().all(|class| *class == self.classes[0])
    }
}

const fn benchmark(name: &'static str, what: Personality, cycle_ms: u64, requests: usize) -> Benchmark {
    Benchmark { name, classes: [what; 4], cycle_ms, requests, asks: None }
}

/// Of T = 11.76 MB/s, what MADbench2's classes ask for: 3.04, 2.06, 3.01 and 3.01 MB/s (section IV-C).
const MADBENCH_ASKS: [f64; 4] = [3.04 / 11.76, 2.06 / 11.76, 3.01 / 11.76, 3.01 / 11.76];

/// In the order of figure 3.
pub(super) const BENCHMARKS: [Benchmark; 6] = [
    benchmark("varmail", Personality::Varmail, 1_000, 200_000),
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
    /// Bytes per second that each class asked for; without end if it was more than could be done.
    pub(super) demand: [f64; 4],
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

/// What the array can do with this load, in bytes per second: the achievable bandwidth of step 4 and of section III-E.
pub(super) fn able(context: &Context, benchmark: &Benchmark) -> Result<f64, ExperimentError> {
    let backlogged = Benchmark { asks: None, ..*benchmark };
    Ok(run(context, &backlogged, [1; 4], Scheduler::Fcfs, 0.0)?.total())
}

/// Who chooses the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheduler {
    Fairio,
    Fcfs,
}

/// Runs `benchmark` on an array that can do `able` bytes per second of it.
pub(super) fn run(
    context: &Context,
    benchmark: &Benchmark,
    weights: [u32; 4],
    scheduler: Scheduler,
    able: f64,
) -> Result<Outcome, ExperimentError> {
    let other = |error: &dyn std::fmt::Display| ExperimentError::Other(error.to_string());
    let mut scenario = context.scenario("fairio-array.toml", ARRAY)?;
    for (flow, weight) in scenario.flows.iter_mut().zip(weights) {
        let weight = Weight::new(weight).ok_or_else(|| other(&"a weight of 0"))?;
        flow.slo = flow.slo.clone().with_weight(weight);
    }
    scenario.depth = NO_LIMIT;
    let mut setup = scenario.setup(SEED)?;
    let asked = benchmark.asks.map(|shares| shares.map(|share| share * able));
    let (mut bytes, mut count) = (0_u64, 0_u64);
    for (class, source) in setup.sources.iter_mut().enumerate() {
        let requests = requests(benchmark, class, asked.map(|asked| asked[class]))?;
        bytes += requests.iter().map(|request| u64::from(request.length)).sum::<u64>();
        count += requests.len() as u64;
        source.load = Load::Trace(Box::new(requests.into_iter().map(Ok)));
    }
    if scheduler == Scheduler::Fairio {
        // Step 4: the first credits come from the achievable bandwidth and the size of a request.
        let first = f64::from(DISKS) * bytes as f64 / count.max(1) as f64 / able;
        let config = FairioConfig {
            accounting: Accounting::Reported,
            first_request: Span::from_nanos((first * 1e9) as u64),
            ..FairioConfig::new(Span::from_millis(benchmark.cycle_ms), DISKS)
        };
        let fairio = Fairio::new(config).map_err(|error| other(&error))?;
        setup.engine = Engine::new(Box::new(fairio), NO_LIMIT);
    }
    let busy = Arc::new(Mutex::new([0.0; 4]));
    let begin = Time::ZERO + Span::from_millis(benchmark.cycle_ms * WARMUP);
    let end = Time::ZERO + Span::from_millis(benchmark.cycle_ms * CYCLES);
    let controller = Controller::new(array()?.build(), DISKS, STRIPE_UNIT, DISK_QUEUE);
    setup.device = Box::new(controller.metered(begin, busy.clone()));
    let mut simulation = Simulation::new(setup, Seen { begin, done: [0; 4] })?;
    simulation.run_until(end)?;
    let seconds = end.since(begin).as_secs_f64();
    let throughput = simulation.observer().done.map(|bytes| bytes as f64 / seconds);
    let disk_time = *busy.lock().map_err(|_| other(&"a run was given up"))?;
    Ok(Outcome { throughput, disk_time, demand: asked.unwrap_or([f64::INFINITY; 4]) })
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
/// of bytes per second that they come with; without it they come [`FASTER`] than in the trace.
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
    let stretch = asked.map_or(1.0 / FASTER, |asked| bytes as f64 / seconds.max(1e-9) / asked);
    for request in &mut requests {
        let nanos = request.at.since(Time::ZERO).as_nanos() as f64 * stretch;
        request.at = Time::from_nanos(nanos as u64);
        request.offset += class as u64 * APART;
    }
    Ok(requests)
}

/// Counts bytes.
struct Seen {
    begin: Time,
    done: [u64; 4],
}

impl Observer for Seen {
    fn on_reply(&mut self, record: &Record, _outstanding: u32) {
        if record.completion >= self.begin
            && let Some(done) = self.done.get_mut(record.request.flow.0 as usize)
        {
            *done += u64::from(record.request.length);
        }
    }
}
