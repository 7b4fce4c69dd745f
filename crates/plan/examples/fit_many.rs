//! Fits a long generated trace and prints the time and the memory that it took:
//! `cargo run --release -p evenkeel-plan --example fit_many -- 100000000`.
#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::time::Instant;

use evenkeel_core::{Operation, Time};
use evenkeel_plan::{PlanError, Requests, Source, fit, parse_targets};
use evenkeel_trace::TraceRequest;

/// Bursts of 1 to 64 requests, 5 000 a second on average, made anew in each pass.
struct Generated(u64);

impl Source for Generated {
    fn name(&self) -> String {
        "generated".to_owned()
    }

    fn open(&self) -> Result<Requests<'_>, PlanError> {
        let (mut random, mut now, mut burst) = (1_u64, 0, 0);
        Ok(Box::new((0..self.0).map(move |_| {
            if burst == 0 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                burst = random % 64 + 1;
                now += random >> 8 & 0xff_ffff;
            }
            burst -= 1;
            now += 10_000;
            let at = Time::from_nanos(now);
            Ok(TraceRequest { at, volume: 0, operation: Operation::Read, offset: 0, length: 4096 })
        })))
    }
}

fn main() {
    let requests = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let targets = parse_targets("90% 5 ms, 95% 50 ms, 100% 500 ms").expect("good targets");
    let (start, mut passes) = (Instant::now(), 0);
    let fitted = fit(&Generated(requests), &targets, &mut |count| passes = count).expect("fits");
    let seconds = start.elapsed().as_secs_f64();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM not known");
    println!("{requests} requests, {passes} passes, {seconds:.1} s, {peak}");
    println!("{:?} needs {}", fitted.classes, fitted.capacity);
}
