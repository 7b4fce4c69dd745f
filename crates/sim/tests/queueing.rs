//! Queueing theory: mean times in the system within 1 % of the formulas.

mod common;

use std::num::NonZeroU32;

use common::{configured, constant, source};
use evenkeel_core::sched::fcfs::Fcfs;
use evenkeel_core::*;
use evenkeel_device::Device;
use evenkeel_sim::server::RandomServers;
use evenkeel_sim::*;

#[derive(Default)]
struct Sojourns {
    count: u64,
    sum_ns: u128,
}

impl Observer for Sojourns {
    fn on_reply(&mut self, record: &Record, _: u32) {
        self.count += 1;
        self.sum_ns += u128::from(record.latency().as_nanos());
    }
}

/// The mean time in the system, in ms, of Poisson arrivals at `rate`.
fn mean_ms(device: Box<dyn Device + Send>, servers: u32, rate: u64, count: u64, seed: u64) -> f64 {
    let depth = NonZeroU32::new(servers).expect("at least one server");
    let setup = Setup {
        seed,
        engine: Engine::new(Box::new(Fcfs::new()), depth),
        device,
        changes: configured(vec![Slo::background()]),
        sources: vec![SourceConfig {
            requests_max: Some(count),
            ..source(0, 0, Pace::Poisson(Rate::per_second(rate)))
        }],
    };
    let mut simulation = Simulation::new(setup, Sojourns::default()).expect("nothing to refuse");
    simulation.run_until(Time::from_nanos(u64::MAX - 1)).expect("nothing to refuse");
    let seen = simulation.observer();
    assert_eq!(seen.count, count);
    seen.sum_ns as f64 / seen.count as f64 / 1e6
}

fn exponential(servers: u32, mean_us: u64, seed: u64) -> Box<dyn Device + Send> {
    let servers = NonZeroU32::new(servers).expect("at least one server");
    let law = Law::Exponential(Span::from_micros(mean_us));
    Box::new(RandomServers::new(servers, law, Random::new(seed, &[99])))
}

fn within_one_percent(name: &str, mean: f64, theory: f64) {
    println!("{name}: {mean:.5} ms, by theory {theory:.5} ms, {:+.2} %", (mean / theory - 1.0) * 100.0);
    assert!((mean / theory - 1.0).abs() < 0.01, "{name}: {mean} ms, by theory {theory} ms");
}

/// W = 1 / (μ − λ).
#[test]
fn m_m_1() {
    let mean = mean_ms(exponential(1, 1_000, 1), 1, 500, 500_000, 1);
    within_one_percent("M/M/1 at 50 %", mean, 2.0);
}

/// W = 1/μ + ρ / (2 μ (1 − ρ)), Pollaczek and Khinchin.
#[test]
fn m_d_1() {
    let mean = mean_ms(constant(1_000), 1, 700, 400_000, 2);
    within_one_percent("M/D/1 at 70 %", mean, 1.0 + 0.7 / (2.0 * 0.3));
}

/// W = 1/μ + C(c, a) / (c μ − λ) with Erlang's C.
#[test]
fn m_m_c() {
    let (servers, rate) = (4, 2_800);
    let mean = mean_ms(exponential(servers, 1_000, 3), servers, rate, 500_000, 3);
    let load = rate as f64 / 1_000.0;
    let utilisation = load / f64::from(servers);
    let mut term = 1.0;
    let mut sum = 0.0;
    for k in 0..servers {
        sum += term;
        term *= load / f64::from(k + 1);
    }
    let waits = term / (1.0 - utilisation);
    let erlang_c = waits / (sum + waits);
    let theory = 1.0 + erlang_c / (f64::from(servers) - load);
    within_one_percent("M/M/4 at 70 %", mean, theory);
}
