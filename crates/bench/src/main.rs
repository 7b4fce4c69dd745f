//! Measures one thing about one scheduler at one number of flows, and prints it as a line of JSON.
//! `cargo xtask bench core` runs it for all of them.

use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, Subcommand, ValueEnum};
use evenkeel_bench::growth::{self, Change};
use evenkeel_bench::{
    BUSY_DEVICE, Boxed, IDLE_DEVICE, Load, Queue, counting, equal_slo, limited_slo, mixed_slo, scheduler, slo,
};
use evenkeel_core::Span;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// Measures the scheduling core: one scheduler, one number of flows, one line of JSON.
#[derive(Parser)]
#[command(name = "evenkeel-bench", disable_version_flag = true)]
struct Cli {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Nanoseconds and allocations for each request.
    Time {
        /// The scheduler, such as pclock.
        scheduler: String,
        /// How many flows have a request waiting.
        #[arg(value_parser = clap::value_parser!(u32).range(1..))]
        flows: u32,
        /// What is measured.
        #[arg(value_enum)]
        load: Kind,
        /// How many slices are timed, of 10 000 requests or eight of each flow; fewer if that is beyond four million.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
        slices: u32,
    },
    /// Nothing but the requests, for a program that counts instructions; prints how many.
    Steps {
        /// The scheduler, such as pclock.
        scheduler: String,
        /// How many flows have a request waiting.
        #[arg(value_parser = clap::value_parser!(u32).range(1..))]
        flows: u32,
        /// What is measured.
        #[arg(value_enum)]
        load: Kind,
        /// How many requests.
        steps: u64,
    },
    /// Nanoseconds that a flow costs which returns, appears and leaves, or changes its rate.
    Changes {
        /// The scheduler, such as pclock.
        scheduler: String,
        /// How many flows there are, an even number.
        #[arg(value_parser = clap::value_parser!(u32).range(2..))]
        flows: u32,
    },
    /// Bytes per idle flow, those that a busy one takes besides, and those per waiting request.
    Memory {
        /// The scheduler, such as pclock.
        scheduler: String,
        /// How many flows there are.
        #[arg(value_parser = clap::value_parser!(u32).range(1..))]
        flows: u32,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// The scheduler alone, every flow promised the same: the load of the peer.
    Queue,
    /// The engine, many different promises, a device that is faster than they are.
    Idle,
    /// The engine, many different promises, a device that is slower than they are.
    Busy,
    /// The engine, single and nested classes, limits and background flows, a device that is faster than they are.
    Mixed,
}

fn main() -> ExitCode {
    match run(&Cli::parse().what) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

fn run(what: &What) -> Result<String, String> {
    let named = |name: &str| {
        let known = || evenkeel_bench::SCHEDULERS.map(|(name, _)| name).join(", ");
        scheduler(name).ok_or_else(|| format!("no scheduler is called `{name}`; there are {}", known()))
    };
    match what {
        What::Time { scheduler, flows, load, slices } => {
            let mut step = steps(named(scheduler)?, *flows, *load);
            Ok(time(&mut *step, *flows, *slices))
        }
        What::Steps { scheduler, flows, load, steps: count } => {
            let mut step = steps(named(scheduler)?, *flows, *load);
            (0..*count).for_each(|_| step(1));
            Ok(format!("{{\"steps\":{count}}}"))
        }
        What::Changes { scheduler, flows } => {
            named(scheduler)?;
            Ok(changes(scheduler, *flows))
        }
        What::Memory { scheduler, flows } => {
            let memory = growth::memory(named(scheduler)?, *flows, limited_slo);
            let (idle, busy, request) =
                (memory.per_idle_flow, memory.per_busy_flow, memory.per_waiting_request);
            Ok(format!(
                "{{\"idle_flow_bytes\":{idle:.1},\"busy_flow_bytes\":{busy:.1},\"waiting_request_bytes\":{request:.1}}}"
            ))
        }
    }
}

/// What carries out so many requests of the load.
fn steps(scheduler: Boxed, flows: u32, kind: Kind) -> Box<dyn FnMut(u64)> {
    let service = match kind {
        Kind::Queue => {
            let mut queue = Queue::new(scheduler, flows, Span::from_micros(10), move |_| equal_slo(flows));
            return Box::new(move |count| (0..count).for_each(|_| queue.step()));
        }
        Kind::Idle => IDLE_DEVICE,
        Kind::Busy => BUSY_DEVICE,
        Kind::Mixed => IDLE_DEVICE,
    };
    let promise = if matches!(kind, Kind::Mixed) { mixed_slo } else { slo };
    let mut load = Load::new(scheduler, flows, service, promise);
    Box::new(move |count| (0..count).for_each(|_| load.step()))
}

/// Requests of a slice, at the least.
const SLICE_MIN: u64 = 10_000;

/// Turns of each flow in a slice. Schedulers with reservations have times in which everything goes by reservation and
/// times in which everything goes by weight, turn about; a slice has several of both.
const TURNS: u64 = 8;

/// So many requests are enough, in three slices at the least.
const REQUESTS_MAX: u64 = 4_000_000;

/// Every flow has its turn several times before the first slice: tables have grown, promises are used up.
fn time(step: &mut dyn FnMut(u64), flows: u32, slices: u32) -> String {
    step(100_000.max(3 * u64::from(flows)));
    let slice = SLICE_MIN.max(TURNS * u64::from(flows));
    let slices = u64::from(slices).min((REQUESTS_MAX / slice).max(3));
    let calls = counting::calls();
    let mut nanos: Vec<f64> = Vec::with_capacity(slices as usize);
    let own_calls = counting::calls() - calls;
    for _ in 0..slices {
        let start = Instant::now();
        step(slice);
        nanos.push(start.elapsed().as_nanos() as f64 / slice as f64);
    }
    let allocations = counting::calls() - calls - own_calls;
    nanos.sort_by(f64::total_cmp);
    let (least, median) = (nanos[0], nanos[nanos.len() / 2]);
    format!("{{\"median_ns\":{median:.1},\"least_ns\":{least:.1},\"allocations\":{allocations}}}")
}

/// The median of a hundred slices of each change.
fn changes(name: &str, flows: u32) -> String {
    let cells = Change::ALL.map(|change| {
        let scheduler = scheduler(name).expect("known");
        let mut load = growth::idle_half(scheduler, flows, IDLE_DEVICE);
        let (slice, mut turn) = (1_000, 0);
        let mut nanos: Vec<f64> = Vec::new();
        for _ in 0..120 {
            let start = Instant::now();
            for _ in 0..slice {
                change.happen(&mut load, flows, turn);
                turn = turn.wrapping_add(1);
            }
            nanos.push(start.elapsed().as_nanos() as f64 / f64::from(slice));
        }
        nanos.drain(..20);
        nanos.sort_by(f64::total_cmp);
        format!("\"{}\":{:.1}", change.name(), nanos[nanos.len() / 2])
    });
    format!("{{{}}}", cells.join(","))
}
