//! Laws of the simulation: nothing is lost, instants have their order, the same seed gives the same bytes.

mod common;

use std::num::NonZeroU32;

use common::{Witness, configured, constant, ms, one, slo, source};
use evenkeel_core::sched::fcfs::Fcfs;
use evenkeel_core::sched::pclock::PClock;
use evenkeel_core::sched::sced::Sced;
use evenkeel_core::*;
use evenkeel_sim::*;
use evenkeel_trace::TraceRequest;
use proptest::prelude::*;

fn paces() -> impl Strategy<Value = Pace> {
    let rate = (1_u64..400).prop_map(Rate::per_second);
    let span = (1_u64..200).prop_map(Span::from_millis);
    prop_oneof![
        rate.clone().prop_map(Pace::Constant),
        rate.clone().prop_map(Pace::Poisson),
        (rate.clone(), 1.1_f64..4.0).prop_map(|(rate, shape)| Pace::Pareto { rate, shape }),
        (1_u32..30, span.clone()).prop_map(|(size, every)| Pace::Bursts { size, every }),
        (1_u32..20, span.clone())
            .prop_map(|(outstanding, think)| Pace::Closed { outstanding, think: Law::Exponential(think) }),
        (1_u32..20).prop_map(|outstanding| Pace::Closed { outstanding, think: Law::Constant(Span::ZERO) }),
        (rate.clone(), rate, span.clone(), span, any::<bool>()).prop_map(
            |(rate, off_rate, on, off, poisson)| {
                Pace::OnOff { rate, off_rate, on: Law::Constant(on), off: Law::Exponential(off), poisson }
            }
        ),
    ]
}

fn setup(seed: u64, depth: u32, paces: &[Pace]) -> Setup {
    let slos = paces.iter().map(|_| slo(5, 50, 100)).collect();
    let mut changes = configured(slos);
    changes.push((ms(700), Change::Speed(700_000)));
    changes.push((ms(900), Change::Scheduler(Box::new(Sced::new()))));
    changes.push((ms(1_100), Change::Configure(FlowId(0), slo(1, 500, 20))));
    Setup {
        seed,
        engine: Engine::new(Box::new(PClock::new()), NonZeroU32::new(depth).expect("above 0")),
        device: constant(300),
        changes,
        sources: paces.iter().enumerate().map(|(flow, pace)| source(flow as u32, 0, *pace)).collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_arrives_is_answered_or_waits(
        seed: u64, depth in 1_u32..8, paces in prop::collection::vec(paces(), 1..4)
    ) {
        let mut simulation = Simulation::new(setup(seed, depth, &paces), Witness::default()).expect("good");
        for at in [ms(350), ms(1_000), ms(1_500)] {
            simulation.run_until(at).expect("nothing is refused");
            prop_assert_eq!(simulation.arrived(), simulation.completed() + simulation.open());
            let sent: u64 = (0..paces.len()).map(|source| simulation.sent(source)).sum();
            prop_assert_eq!(sent, simulation.arrived());
        }
        simulation.drain().expect("nothing is refused");
        prop_assert_eq!(simulation.open(), 0);
        let seen = simulation.into_observer();
        prop_assert_eq!(seen.arrivals, seen.records.len() as u64);
        prop_assert_eq!(seen.submitted, seen.arrivals);
        for record in &seen.records {
            prop_assert!(record.arrival <= record.dispatch && record.dispatch < record.completion);
        }
        for (flow, pace) in paces.iter().enumerate() {
            let Pace::Closed { outstanding, .. } = pace else { continue };
            prop_assert!(most_open(&seen, flow as u32) <= *outstanding as usize);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_events(
        seed: u64, depth in 1_u32..8, paces in prop::collection::vec(paces(), 1..4), cut in 1_u64..1_500
    ) {
        let run = |stops: &[Time]| {
            let mut simulation = Simulation::new(setup(seed, depth, &paces), Witness::default()).expect("good");
            for at in stops {
                simulation.run_until(*at).expect("nothing is refused");
            }
            simulation.into_observer().log
        };
        // Where a run is paused makes no difference either.
        prop_assert_eq!(run(&[ms(1_500)]), run(&[ms(cut), ms(1_500)]));
    }
}

fn most_open(seen: &Witness, flow: u32) -> usize {
    let of_flow: Vec<&Record> = seen.records.iter().filter(|it| it.request.flow.0 == flow).collect();
    let mut steps: Vec<(Time, i32)> =
        of_flow.iter().flat_map(|it| [(it.arrival, 1), (it.completion, -1)]).collect();
    // Completions go before arrivals.
    steps.sort_unstable();
    let mut open = 0;
    let levels = steps.iter().map(|(_, step)| {
        open += step;
        open
    });
    levels.max().unwrap_or(0) as usize
}

/// Completion, change, arrival, dispatch: a server that becomes free at t chooses among all that has come by t.
#[test]
fn one_instant_has_an_order() {
    let slow_then_urgent = vec![slo(10, 100, 1_000), slo(10, 100, 50)];
    let mut changes = configured(slow_then_urgent);
    changes.push((ms(20), Change::Speed(500_000)));
    let setup = Setup {
        seed: 1,
        engine: Engine::new(Box::new(PClock::new()), one()),
        device: constant(100),
        changes,
        sources: vec![
            source(0, 0, Pace::Bursts { size: 3, every: Span::from_millis(1_000) }),
            SourceConfig {
                from: ms(10),
                requests_max: Some(1),
                ..source(1, 0, Pace::Constant(Rate::per_second(1)))
            },
        ],
    };
    let mut simulation = Simulation::new(setup, Witness::default()).expect("good");
    simulation.run_until(ms(100)).expect("good");
    let urgent = 1_u64 << 40;
    let expected = [
        "0 arrival 0".to_owned(),
        "0 arrival 1".to_owned(),
        "0 arrival 2".to_owned(),
        "0 submit 0 1".to_owned(),
        "10000000 reply 0 0".to_owned(),
        format!("10000000 arrival {urgent}"),
        format!("10000000 submit {urgent} 1"),
        format!("20000000 reply {urgent} 0"),
        // The change of speed at 20 ms holds for what is dispatched then.
        "20000000 submit 1 1".to_owned(),
        "40000000 reply 1 0".to_owned(),
        "40000000 submit 2 1".to_owned(),
        "60000000 reply 2 0".to_owned(),
    ];
    assert_eq!(simulation.observer().log, expected);
}

#[test]
fn flows_come_and_go() {
    let mut setup = setup(1, 1, &[Pace::Constant(Rate::per_second(100)); 2]);
    setup.changes = vec![
        (Time::ZERO, Change::Configure(FlowId(0), slo(1, 100, 50))),
        (ms(500), Change::Configure(FlowId(1), slo(1, 100, 50))),
        (ms(1_000), Change::Stop(FlowId(0))),
    ];
    setup.sources[1].from = ms(500);
    let mut simulation = Simulation::new(setup, Witness::default()).expect("good");
    simulation.run_until(ms(1_500)).expect("good");
    assert_eq!((simulation.sent(0), simulation.sent(1)), (100, 101));
    assert_eq!(simulation.engine().slo(FlowId(0)), None, "forgotten once nothing of it waits");
    assert!(simulation.engine().slo(FlowId(1)).is_some());
}

fn trace_of(instants: &'static [u64]) -> SourceConfig {
    let request = |at: &u64| TraceRequest {
        at: ms(*at),
        volume: 0,
        operation: Operation::Write,
        offset: 4096,
        length: 512,
    };
    let requests = instants.iter().map(move |at| Ok(request(at)));
    SourceConfig { load: Load::Trace(Box::new(requests)), ..source(0, 0, Pace::Constant(Rate::default())) }
}

#[test]
fn a_trace_is_sent_as_it_is_and_from_its_beginning() {
    let mut setup = setup(1, 1, &[Pace::Constant(Rate::per_second(1))]);
    setup.changes.truncate(1);
    setup.sources = vec![SourceConfig { from: ms(100), ..trace_of(&[0, 0, 7, 30]) }];
    let mut simulation = Simulation::new(setup, Witness::default()).expect("good");
    simulation.run_until(ms(5_000)).expect("good");
    let seen = simulation.into_observer();
    let arrivals: Vec<Time> = seen.records.iter().map(|it| it.arrival).collect();
    assert_eq!(arrivals, [ms(100), ms(100), ms(107), ms(130)]);
    assert!(
        seen.records.iter().all(|it| it.request.operation == Operation::Write && it.request.length == 512)
    );
}

#[test]
fn a_trace_that_goes_back_in_time_is_refused() {
    let mut setup = setup(1, 1, &[Pace::Constant(Rate::per_second(1))]);
    setup.sources = vec![trace_of(&[0, 9, 8])];
    let mut simulation = Simulation::new(setup, ()).expect("good");
    let error = simulation.run_until(ms(100)).expect_err("8 ms come after 9 ms");
    let expected = "the trace of flow 0: request 3 of the trace goes back in time, from 9000000 ns to 8000000 ns; \
                    sort the trace by time";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_refused_change_says_what_and_when() {
    let mut setup = setup(1, 1, &[Pace::Constant(Rate::per_second(1))]);
    setup.engine = Engine::new(Box::new(Fcfs::new()), one());
    setup.changes = configured(vec![Slo::background()]);
    setup.changes.push((ms(3), Change::Spare(SpareCapacity::Background)));
    let mut simulation = Simulation::new(setup, ()).expect("good");
    let error = simulation.run_until(ms(10)).expect_err("FCFS knows no spare capacity");
    assert_eq!(error.to_string(), "at 3000000 ns: spare capacity: the scheduler has no such setting");
}
