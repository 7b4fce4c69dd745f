//! What a scheduler that takes over in mid-run is told: envelopes, classes, and counts of other servers.

mod common;

use std::num::NonZeroU32;

use common::{request, slo};
use evenkeel_core::sched::fcfs::Fcfs;
use evenkeel_core::sched::mclock::MClock;
use evenkeel_core::sched::nested::Nested;
use evenkeel_core::*;

fn millis(millis: u64) -> Time {
    Time::from_millis(millis)
}

fn engine(scheduler: impl Scheduler + Send + 'static, slos: &[Slo]) -> Engine {
    let mut engine = Engine::new(Box::new(scheduler), NonZeroU32::MIN);
    for (flow, slo) in (0..).map(FlowId).zip(slos) {
        engine.handle_input(Time::ZERO, Input::Add(flow, slo.clone())).unwrap();
    }
    engine
}

fn arrive(engine: &mut Engine, at: u64, id: u64, flow: usize) {
    engine.handle_input(millis(at), Input::Arrival(request(id, flow, 1_000))).unwrap();
}

/// Serves one after the other at `at`: the ids, in order.
fn served(engine: &mut Engine, at: Time) -> Vec<u64> {
    let mut ids = Vec::new();
    while let Some(output) = engine.poll_output(at) {
        match output {
            Output::Submit(Submission { ticket, request }) => {
                ids.push(request.id.0);
                let completion = Completion::new(ticket, Outcome::Done);
                engine.handle_input(at, Input::Completion(completion)).unwrap();
            }
            Output::Reply(_) => {}
        }
    }
    ids
}

#[test]
fn nested_takes_over_how_full_the_buckets_are() {
    for classes in [1, 2] {
        let first = slo(2, 1, 10);
        let outer = slo(2, 1, 20);
        let nested = Slo::nested(&[first.classes(), outer.classes()].concat()[..classes]).unwrap();
        let mut engine = engine(Fcfs::new(), &[nested, slo(2, 1, 500)]);
        (0..2).for_each(|id| arrive(&mut engine, 0, id, 0));
        assert_eq!(served(&mut engine, Time::ZERO), [0, 1]);
        engine.replace_scheduler(millis(1), Box::new(Nested::new())).unwrap();
        arrive(&mut engine, 2, 2, 0);
        arrive(&mut engine, 2, 3, 1);
        assert_eq!(served(&mut engine, millis(2)), [3, 2], "the first flow has used up its burst");
    }
}

#[test]
fn requests_that_wait_keep_their_class() {
    let mut engine = engine(Fcfs::new(), &[slo(2, 1_000, 100), slo(2, 1_000, 500)]);
    for (id, at) in [0, 0, 1, 2, 3].into_iter().enumerate() {
        arrive(&mut engine, at, id as u64, 0);
    }
    arrive(&mut engine, 3, 5, 1);
    // Now an excess request of the first flow, and then the other scheduler.
    arrive(&mut engine, 3, 6, 0);
    arrive(&mut engine, 3, 7, 0);
    engine.replace_scheduler(millis(4), Box::new(Nested::new())).unwrap();
    assert_eq!(engine.backlog(FlowId(0)), 7);
    let order = served(&mut engine, millis(4));
    assert_eq!(order[..5], [0, 1, 2, 3, 4], "five came inside the envelope, over time");
    assert!(order[5..].contains(&5) && order.len() == 8);
    assert!(order.iter().position(|id| *id == 5) < order.iter().position(|id| *id == 7));
}

/// Of two equal flows, one is served elsewhere as well: mClock gives it less here, whether or not it has
/// taken over its waiting requests from another scheduler.
#[test]
fn counts_of_other_servers_are_kept() {
    let order = |replace: bool, counted: bool| {
        let flows = [Slo::background(), Slo::background()];
        let flows = flows.map(|slo| slo.with_reservation(Rate::per_second(1)).unwrap());
        let mut engine = if replace { engine(Fcfs::new(), &flows) } else { engine(MClock::new(), &flows) };
        for id in 0..20 {
            let request = request(id, (id % 2) as usize, 1_000);
            let elsewhere = Elsewhere::new(3, 0).unwrap();
            let input = match id % 2 {
                0 if counted => Input::CountedArrival(request, elsewhere),
                _ => Input::Arrival(request),
            };
            engine.handle_input(Time::ZERO, input).unwrap();
        }
        if replace {
            engine.replace_scheduler(Time::ZERO, Box::new(MClock::new())).unwrap();
        }
        let at = millis(1);
        let first: Vec<u64> = served(&mut engine, at).into_iter().take(10).collect();
        first.iter().filter(|id| *id % 2 == 0).count()
    };
    assert_eq!(order(false, false), 5, "equal shares without counts");
    let with_counts = order(false, true);
    assert!(with_counts <= 3, "{with_counts} of ten");
    assert_eq!(order(true, true), with_counts, "the same after a change of the scheduler");
    assert_eq!(order(true, false), 5);
}

#[test]
fn counts_may_begin_in_mid_backlog() {
    let mut engine = engine(Fcfs::new(), &[slo(1, 10, 100)]);
    arrive(&mut engine, 0, 0, 0);
    let counted = |id| Input::CountedArrival(request(id, 0, 1_000), Elsewhere::new(2, 1).unwrap());
    engine.handle_input(Time::ZERO, counted(1)).unwrap();
    arrive(&mut engine, 0, 2, 0);
    for _ in 0..2 {
        engine.replace_scheduler(Time::ZERO, Box::new(MClock::new())).unwrap();
    }
    assert_eq!(served(&mut engine, millis(1)), [0, 1, 2]);
    engine.handle_input(millis(1), Input::Remove(FlowId(0))).unwrap();
}
