//! pClock's worked examples (section 2, cases 1 and 2; section 3.2, example II) in the simulator, with the
//! schedulers that the paper sets against each other, on its server of 100 IOPS.

mod common;

use common::{Witness, configured, constant, ms, one, slo, source};
use evenkeel_core::sched::pclock::PClock;
use evenkeel_core::sched::sced::Sced;
use evenkeel_core::sched::virtual_clock::VirtualClock;
use evenkeel_core::sched::wf2q::Wf2qPlus;
use evenkeel_core::*;
use evenkeel_sim::*;

fn steady(flow: u32, rate: u64, from: u64) -> SourceConfig {
    SourceConfig { from: ms(from), ..source(flow, 1, Pace::Constant(Rate::per_second(rate))) }
}

fn burst(flow: u32, size: u32, at: u64) -> SourceConfig {
    let pace = Pace::Bursts { size, every: Span::from_millis(1 << 20) };
    SourceConfig { from: ms(at), requests_max: Some(u64::from(size)), ..source(flow, 0, pace) }
}

fn run(
    scheduler: Box<dyn Scheduler + Send>,
    slos: [Slo; 2],
    sources: Vec<SourceConfig>,
    end: u64,
) -> Vec<Record> {
    let engine = Engine::new(scheduler, one());
    let changes = configured(slos.to_vec());
    let setup = Setup { seed: 1, engine, device: constant(100), changes, sources };
    let mut simulation = Simulation::new(setup, Witness::default()).expect("good");
    simulation.run_until(ms(end)).expect("good");
    simulation.into_observer().records
}

fn longest_ms(records: &[Record], flow: u32) -> u64 {
    let of_flow = records.iter().filter(|record| record.request.flow.0 == flow);
    of_flow.map(|record| record.latency().as_nanos() / 1_000_000).max().unwrap_or(0)
}

fn case_1(scheduler: Box<dyn Scheduler + Send>) -> (u64, u64) {
    let bursts = Pace::Bursts { size: 25, every: Span::from_millis(500) };
    let sources = vec![steady(0, 50, 0), source(1, 0, bursts)];
    let records = run(scheduler, [slo(0, 50, 500), slo(25, 50, 250)], sources, 10_000);
    assert!(records.len() >= 975, "the server is fully used");
    (longest_ms(&records, 0), longest_ms(&records, 1))
}

#[test]
fn case_1_bursts_within_250_ms_under_pclock_up_to_500_under_wf2q() {
    let (a, b) = case_1(Box::new(PClock::new()));
    assert!(a <= 500 && b == 250, "pClock: f_A {a} ms, f_B {b} ms");
    let (a, b) = case_1(Box::new(Wf2qPlus::new()));
    assert!(a <= 500 && (480..=510).contains(&b), "WF2Q+: f_A {a} ms, f_B {b} ms");
}

/// Requests done in each half second from 2 to 4 s.
fn case_2(scheduler: Box<dyn Scheduler + Send>) -> [Vec<usize>; 2] {
    let sources = vec![burst(0, 200, 0), steady(0, 50, 2_000), burst(1, 100, 2_000), steady(1, 50, 3_000)];
    let records = run(scheduler, [slo(0, 50, 500), slo(0, 50, 500)], sources, 4_000);
    [0, 1].map(|flow| {
        let done = |from: u64, to: u64| {
            let inside = |record: &&Record| {
                record.request.flow.0 == flow && record.completion > ms(from) && record.completion <= ms(to)
            };
            records.iter().filter(inside).count()
        };
        (0..4).map(|half| done(2_000 + 500 * half, 2_500 + 500 * half)).collect()
    })
}

#[test]
fn case_2_only_pclock_does_not_punish_the_use_of_spare_capacity() {
    assert_eq!(case_2(Box::new(PClock::new())), [[25; 4], [25; 4]]);
    let starving: [Box<dyn Scheduler + Send>; 2] = [Box::new(Sced::new()), Box::new(VirtualClock::new())];
    for scheduler in starving {
        let name = scheduler.name();
        let [a, b] = case_2(scheduler);
        assert!(a[0] + a[1] <= 2 && b[0] + b[1] >= 98, "{name}: f_A gets {a:?}, f_B {b:?}");
    }
}

#[test]
fn example_2_a_flow_that_used_spare_capacity_meets_its_deadlines_again() {
    let sources = vec![burst(0, 100, 0), steady(0, 50, 1_000), burst(1, 25, 1_000), steady(1, 50, 1_020)];
    let records = run(Box::new(PClock::new()), [slo(0, 50, 500), slo(25, 50, 250)], sources, 3_000);
    let later: Vec<Record> = records.into_iter().filter(|record| record.arrival >= ms(1_000)).collect();
    assert!(longest_ms(&later, 0) <= 500, "its tags shift from 2500 to 1500 ms");
    assert!(longest_ms(&later, 1) <= 260, "250 ms and one request in service");
}
