//! How fast the simulator is: ten million requests of a hundred flows at constant rates, under pClock, with
//! everything measured that `evenkeel simulate` measures.
//!
//! `cargo run --release -p evenkeel-sim --example speed [REQUESTS]` prints seconds, requests per second and
//! the memory that the process took at its peak.
#![allow(clippy::disallowed_methods, reason = "here the real time is what is measured")]

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use evenkeel_sim::run::{Options, run};
use evenkeel_sim::scenario;

const FLOWS: u64 = 100;
const RATE_PER_FLOW: u64 = 1_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let requests: u64 = std::env::args().nth(1).map_or(Ok(10_000_000), |text| text.parse())?;
    let millis = requests * 1_000 / (FLOWS * RATE_PER_FLOW);
    let mut text = format!(
        "duration = \"{millis} ms\"\ndepth = 1\n[device]\nrate = \"{} IOPS\"\n",
        FLOWS * RATE_PER_FLOW * 10 / 9
    );
    for flow in 0..FLOWS {
        write!(
            text,
            "[flow.f{flow}]\nsla = {{ burst = 4, rate = \"{RATE_PER_FLOW} IOPS\", latency = \"10 ms\" }}\n\
             workload = {{ arrivals = \"constant\", rate = \"{RATE_PER_FLOW} IOPS\" }}\n"
        )?;
    }
    let scenario = scenario::parse(&text, Path::new("speed.toml"))?;
    let began = Instant::now();
    let options = Options { seed: 1, commit: None };
    let summary = run(&scenario, &options, None, &mut |_| {})?;
    let seconds = began.elapsed().as_secs_f64();
    let served: u64 = summary.flows.iter().map(|flow| flow.served).sum();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM: unknown").to_owned();
    println!(
        "{served} requests of {FLOWS} flows in {seconds:.2} s: {:.0} per second",
        served as f64 / seconds
    );
    println!("missed {}, device {:.1} % busy", summary.missed, summary.device.utilisation * 100.0);
    println!("{peak}");
    Ok(())
}
