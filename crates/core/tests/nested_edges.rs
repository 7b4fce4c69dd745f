//! Nested QoS, SCED and EDF at the edges: strangers, clocks that go back, the end of time, a change of the
//! scheduler in mid-run.

mod common;

use std::num::NonZeroU32;

use common::{arrive, dispatch, request, slo};
use evenkeel_core::sched::edf::Edf;
use evenkeel_core::sched::nested::Nested;
use evenkeel_core::sched::pclock::PClock;
use evenkeel_core::sched::sced::Sced;
use evenkeel_core::*;

fn envelope(burst: u64, rate: u64, millis: u64) -> Envelope {
    Envelope::new(Cost::requests(burst), Rate::per_second(rate), Span::from_millis(millis)).unwrap()
}

fn schedulers() -> [Box<dyn Scheduler>; 3] {
    [Box::new(Nested::new()), Box::new(Sced::new()), Box::new(Edf::new())]
}

#[test]
fn strangers_are_refused() {
    for mut scheduler in schedulers() {
        let (now, known, beyond) = (Time::ZERO, FlowId(0), FlowId(FlowId::MAX.0 + 1));
        let out_of_range = Err(ConfigureError::FlowOutOfRange(beyond));
        assert_eq!(scheduler.configure(now, beyond, &Slo::background()), out_of_range);
        let unknown = Err(ConfigureError::UnknownFlow(FlowId(7)));
        assert_eq!(scheduler.on_arrival(now, Arrival::new(now, request(0, 7, 1_000))), unknown);
        assert_eq!(scheduler.remove(now, FlowId(7)), unknown);
        scheduler.configure(now, known, &slo(1, 1, 1)).unwrap();
        for id in 0..3 {
            arrive(scheduler.as_mut(), now, id, 0);
        }
        for left in (0..3).rev() {
            assert_eq!(scheduler.remove(now, known), Err(ConfigureError::Busy(known)));
            assert!(dispatch(scheduler.as_mut(), now).is_some());
            assert_eq!(scheduler.backlog(known), left);
        }
        assert_eq!(scheduler.remove(now, known), Ok(()));
        assert_eq!(scheduler.poll_dispatch(now), Decision::Idle);
        assert_eq!(scheduler.set_spare(now, SpareCapacity::Background), Err(ConfigureError::Unsupported));
    }
}

#[test]
fn a_clock_that_goes_back_stands_still() {
    for mut scheduler in schedulers() {
        let late = Time::from_millis(1_000);
        scheduler.configure(late, FlowId(0), &slo(2, 10, 50)).unwrap();
        arrive(scheduler.as_mut(), late, 0, 0);
        arrive(scheduler.as_mut(), Time::ZERO, 1, 0);
        for id in 0..2 {
            let chosen = dispatch(scheduler.as_mut(), Time::ZERO).unwrap();
            assert_eq!(chosen.request.id, RequestId(id));
            assert_eq!(chosen.finish_tag, Some(Time::from_millis(1_050)), "{}", scheduler.name());
        }
    }
}

#[test]
fn tags_at_the_end_of_the_range_saturate() {
    let slowest = Envelope::new(Cost::ONE, Rate::from_millis(1), Envelope::LATENCY_MAX).unwrap();
    for mut scheduler in schedulers() {
        scheduler.configure(Time::ZERO, FlowId(0), &Slo::guaranteed(slowest)).unwrap();
        for id in 0..1_000 {
            let now = Time::from_nanos(if id < 500 { 0 } else { u64::MAX });
            let cost = if id == 500 { 1_000 } else { u64::MAX };
            scheduler.on_arrival(now, Arrival::new(now, request(id, 0, cost))).unwrap();
        }
        let mut tags = 0;
        while let Some(chosen) = dispatch(scheduler.as_mut(), Time::ZERO) {
            tags += usize::from(chosen.finish_tag == Some(Time::from_nanos(u64::MAX)));
        }
        assert!(tags > 0, "{}", scheduler.name());
        assert_eq!(scheduler.backlog(FlowId(0)), 0);
    }
}

/// Dropped classes keep their δ, kept ones take the new one at once, and excess stays excess.
#[test]
fn classes_change_while_requests_wait() {
    let mut nested = Nested::new();
    let three = [envelope(1, 1, 100), envelope(2, 1, 200), envelope(3, 1, 300)];
    nested.configure(Time::ZERO, FlowId(0), &Slo::nested(&three).unwrap()).unwrap();
    for id in 0..4 {
        arrive(&mut nested, Time::ZERO, id, 0);
    }
    nested.configure(Time::ZERO, FlowId(0), &Slo::nested(&[envelope(1, 1, 250)]).unwrap()).unwrap();
    let order: Vec<_> = std::iter::from_fn(|| dispatch(&mut nested, Time::ZERO))
        .map(|chosen| (chosen.request.id.0, chosen.finish_tag.map(|tag| tag.as_nanos() / 1_000_000)))
        .collect();
    assert_eq!(order, [(1, Some(200)), (0, Some(250)), (2, Some(300)), (3, None)]);
}

/// A change of the scheduler changes neither the promise nor the class of what waits.
#[test]
fn a_successor_hands_back_promise_and_class() {
    let mut engine = Engine::new(Box::new(PClock::new()), NonZeroU32::MIN);
    let classes = [envelope(1, 1, 100), envelope(2, 1, 200)];
    let slo = Slo::nested(&classes).unwrap();
    engine.handle_input(Time::ZERO, Input::Configure(FlowId(0), slo)).unwrap();
    for id in 0..3 {
        engine.handle_input(Time::ZERO, Input::Arrival(request(id, 0, 1_000))).unwrap();
    }
    engine.replace_scheduler(Time::from_millis(5), Box::new(Nested::new())).unwrap();
    let mut judged = vec![];
    let now = Time::from_millis(6);
    while let Some(output) = engine.poll_output(now) {
        match output {
            Output::Submit(submission) => {
                let completion = Completion::new(submission.ticket, Outcome::Done);
                engine.handle_input(now, Input::Completion(completion)).unwrap();
            }
            Output::Reply(record) => judged.push((record.request.id.0, record.class, record.promise)),
        }
    }
    judged.sort_unstable_by_key(|(id, ..)| *id);
    let promise = |class: u8| Some(classes[usize::from(class)].latency());
    assert_eq!(judged, [(0, Some(0), promise(0)), (1, Some(1), promise(1)), (2, None, None)]);
}
