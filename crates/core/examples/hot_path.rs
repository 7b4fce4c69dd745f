//! Nanoseconds per arrival, dispatch and completion through the engine, with one request of every flow
//! waiting. Run it with `cargo run --release -p evenkeel-core --example hot_path`.

// An example measures; the rule against clocks is for the library.
#![allow(clippy::disallowed_methods)]

use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::Instant;

use evenkeel_core::sched::avatar::Avatar;
use evenkeel_core::sched::cello::{Cello, CelloConfig};
use evenkeel_core::sched::edf::Edf;
use evenkeel_core::sched::fcfs::Fcfs;
use evenkeel_core::sched::nested::Nested;
use evenkeel_core::sched::pclock::PClock;
use evenkeel_core::sched::sced::Sced;
use evenkeel_core::*;

const ROUNDS: u64 = 2_000_000;

fn request(id: u64, flow: u32) -> Request {
    Request {
        id: RequestId(id),
        flow: FlowId(flow),
        operation: Operation::Read,
        offset: id << 12,
        length: 4096,
        cost: Cost::ONE,
    }
}

fn engine(scheduler: Box<dyn Scheduler + Send>, flows: u32) -> Engine {
    let mut engine = Engine::new(scheduler, NonZeroU32::MIN);
    for flow in 0..flows {
        let (burst, rate) =
            (Cost::requests(1 + u64::from(flow % 32)), Rate::per_second(10 + u64::from(flow % 91)));
        let latency = Span::from_millis(1 + u64::from(flow % 50));
        let slo = Slo::guaranteed(Envelope::new(burst, rate, latency).expect("in range"));
        engine.handle_input(Time::ZERO, Input::Configure(FlowId(flow), slo)).expect("in range");
    }
    for flow in 0..flows {
        engine.handle_input(Time::ZERO, Input::Arrival(request(0, flow))).expect("configured");
    }
    engine
}

/// Each served flow sends its next request, so that one request of every flow keeps waiting.
fn nanos_per_request(scheduler: Box<dyn Scheduler + Send>, flows: u32, service_nanos: u64) -> f64 {
    let mut engine = engine(scheduler, flows);
    let mut now = Time::ZERO;
    let mut start = Instant::now();
    for round in 0..ROUNDS + ROUNDS / 4 {
        if round == ROUNDS / 4 {
            start = Instant::now();
        }
        let Some(Output::Submit(submission)) = engine.poll_output(now) else { panic!("requests wait") };
        now += Span::from_nanos(service_nanos);
        let completion = Completion::new(submission.ticket, Outcome::Done);
        engine.handle_input(now, Input::Completion(completion)).expect("outstanding");
        black_box(engine.poll_output(now));
        // The reply may have been followed by a submission only after it was taken: depth is one.
        let next = request(round, submission.request.flow.0);
        engine.handle_input(now, Input::Arrival(next)).expect("configured");
    }
    start.elapsed().as_nanos() as f64 / ROUNDS as f64
}

fn main() {
    println!("{:>10} {:>8} {:>14} {:>14}", "scheduler", "flows", "idle device", "busy device");
    for flows in [10, 1_000, 100_000] {
        // An idle device serves faster than the sum of the rates, so every request is synchronized.
        let (fast, slow) = (100, 1_000_000);
        let row = |name: &str, make: &dyn Fn() -> Box<dyn Scheduler + Send>| {
            let (fast, slow) =
                (nanos_per_request(make(), flows, fast), nanos_per_request(make(), flows, slow));
            println!("{name:>10} {flows:>8} {fast:>11.1} ns {slow:>11.1} ns");
        };
        row("pclock", &|| Box::new(PClock::new()));
        row("nested", &|| Box::new(Nested::new()));
        row("avatar", &|| Box::new(Avatar::new()));
        row("cello", &|| Box::new(Cello::new(CelloConfig::default()).expect("the defaults are in range")));
        row("sced", &|| Box::new(Sced::new()));
        row("edf", &|| Box::new(Edf::new()));
        row("fcfs", &|| Box::new(Fcfs::new()));
    }
}
