//! Bad input: a typed error each, and nothing has changed.

mod common;

use std::num::NonZeroU32;

use common::schedulers::{Boxed, KINDS};
use common::{request, slo};
use evenkeel_core::depth::DepthError;
use evenkeel_core::sched::fairio::FairioConfig;
use evenkeel_core::*;
use proptest::prelude::*;

fn scheduler(kind: usize) -> Boxed {
    common::schedulers::scheduler(kind, FairioConfig::new(Span::from_millis(100), 1))
}

/// Units are unsigned whole numbers: what is negative, infinite or no number cannot be written down.
#[test]
fn parameters_that_are_no_promise() {
    let (one, second, rate) = (Cost::ONE, Span::from_millis(1_000), Rate::per_second(1));
    let of = |burst, rate, latency| Envelope::new(burst, rate, latency).unwrap_err();
    assert_eq!(of(one, Rate::from_millis(0), second), SloError::ZeroRate);
    assert_eq!(of(one, rate, Span::ZERO), SloError::ZeroLatency);
    assert_eq!(of(one, Rate::from_millis(u64::MAX), second), SloError::RateTooLarge);
    assert_eq!(of(Cost::from_millis(u64::MAX), rate, second), SloError::BurstTooLarge);
    assert_eq!(of(one, rate, Span::from_nanos(u64::MAX)), SloError::LatencyTooLarge);
    assert_eq!(Slo::background().with_reservation(Rate::from_millis(0)), Err(SloError::ZeroRate));
    assert_eq!(Slo::background().with_limit(Rate::from_millis(u64::MAX)), Err(SloError::RateTooLarge));
    assert_eq!((Weight::new(0), Weight::new(1_000_001)), (None, None));
    assert_eq!(Elsewhere::new(1, 2), None, "more reserved than served");
    let (two, four) = (NonZeroU32::new(2).unwrap(), NonZeroU32::new(4).unwrap());
    let control = |least, most, window| DepthControl::new(least, most, window).err();
    assert_eq!(control(four, two, second), Some(DepthError::EmptyRange));
    assert_eq!(control(two, four, Span::ZERO), Some(DepthError::ZeroWindow));
    let outside = DepthControl::new(two, four, second).unwrap().starting_at(NonZeroU32::MIN);
    assert_eq!(outside.err(), Some(DepthError::StartOutside));
}

#[test]
fn classes_that_are_not_nested() {
    let class = |burst, rate, millis| slo(burst, rate, millis).classes()[0];
    let outer = class(5, 50, 100);
    let cases = [
        (class(6, 50, 100), Parameter::Burst),
        (class(5, 51, 100), Parameter::Rate),
        (class(5, 50, 101), Parameter::Latency),
    ];
    for (inner, parameter) in cases {
        assert_eq!(Slo::nested(&[inner, outer]), Err(SloError::NotNested { inner: 0, parameter }));
    }
    assert_eq!(Slo::nested(&[]), Err(SloError::NoClasses));
    assert_eq!(Slo::nested(&[outer; 256]), Err(SloError::TooManyClasses));
}

#[test]
fn a_burst_below_the_largest_request() {
    let dear = Cost::requests(6);
    let refused = SloError::BurstBelowRequest { burst: Cost::requests(5), request: dear };
    assert_eq!(slo(5, 50, 100).covers(dear), Err(refused));
    assert_eq!(slo(6, 50, 100).covers(dear), Ok(()));
    let classes = [slo(5, 50, 100).classes()[0], slo(7, 50, 200).classes()[0]];
    assert_eq!(Slo::nested(&classes).unwrap().covers(dear), Ok(()), "the outermost counts");
    assert_eq!(Slo::background().covers(dear), Ok(()));
}

/// Such a request is still served, at once where nothing else waits, and holds nobody up for ever
/// (firecracker#259): under every scheduler.
#[test]
fn a_request_dearer_than_its_burst_is_served() {
    for number in 0..KINDS {
        let mut engine = Engine::new(scheduler(number), NonZeroU32::MIN);
        engine.handle_input(Time::ZERO, Input::Add(FlowId(0), slo(2, 10, 100))).unwrap();
        for id in 0..3 {
            engine.handle_input(Time::ZERO, Input::Arrival(request(id, 0, 50_000))).unwrap();
        }
        let (mut now, mut served) = (Time::ZERO, 0);
        for _ in 0..1_000 {
            while let Some(output) = engine.poll_output(now) {
                match output {
                    Output::Submit(Submission { ticket, .. }) => {
                        let done = Input::Completion(Completion::new(ticket, Outcome::Done));
                        engine.handle_input(now, done).unwrap();
                    }
                    Output::Reply(record) => {
                        assert_eq!(record.promise, None);
                        served += 1;
                    }
                }
            }
            now += Span::from_millis(100);
        }
        assert_eq!(served, 3, "scheduler {number}");
    }
}

/// A good input, or one of those that are refused.
#[derive(Clone, Copy, Debug)]
enum Step {
    Arrive { flow: usize, cost: u64 },
    Dispatch,
    Complete,
    Wait { micros: u64 },
    Bad { kind: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0_usize..4, 1_u64..5_000).prop_map(|(flow, cost)| Step::Arrive { flow, cost }),
        2 => Just(Step::Dispatch),
        2 => Just(Step::Complete),
        1 => (0_u64..20_000).prop_map(|micros| Step::Wait { micros }),
        4 => (0_usize..10).prop_map(|kind| Step::Bad { kind }),
    ];
    prop::collection::vec(step, 0..200)
}

/// An input that is refused, and why. The engine has flows 0 to 2, and 3 as the only member of group 4.
fn bad(kind: usize, used: Option<Ticket>) -> (Input, InputError) {
    let unknown = FlowId(77);
    let beyond = FlowId(FlowId::MAX.0 + 1);
    let member = |group| Membership { group, weight: Weight::ONE, limit: None };
    let stray = used.unwrap_or(Ticket::from_bits(u64::MAX));
    let (input, error) = match kind {
        0 => (Input::Arrival(request(1, 77, 1_000)), ConfigureError::UnknownFlow(unknown)),
        1 => (Input::Add(FlowId(1), slo(9, 900, 1)), ConfigureError::FlowExists(FlowId(1))),
        2 => (Input::Add(beyond, slo(9, 900, 1)), ConfigureError::FlowOutOfRange(beyond)),
        3 => (Input::Configure(beyond, slo(9, 900, 1)), ConfigureError::FlowOutOfRange(beyond)),
        4 => (Input::Remove(unknown), ConfigureError::UnknownFlow(unknown)),
        5 => (Input::Configure(FlowId(3), slo(9, 900, 1)), ConfigureError::IsMember(FlowId(3))),
        6 => (Input::Join(FlowId(1), member(FlowId(4))), ConfigureError::FlowExists(FlowId(1))),
        7 => (Input::Join(unknown, member(FlowId(88))), ConfigureError::UnknownFlow(FlowId(88))),
        8 => (Input::Arrival(request(1, 4, 1_000)), ConfigureError::IsGroup(FlowId(4))),
        _ => {
            let completion = Completion::new(stray, Outcome::Done);
            return (Input::Completion(completion), InputError::UnknownTicket(stray));
        }
    };
    (input, error.into())
}

/// Everything that an engine puts out, with or without the bad inputs.
fn run(number: usize, steps: &[Step], with_bad: bool) -> Vec<String> {
    let mut engine = Engine::new(scheduler(number), NonZeroU32::new(2).unwrap());
    for flow in 0..3 {
        engine.handle_input(Time::ZERO, Input::Add(FlowId(flow), slo(2, 50 + u64::from(flow), 40))).unwrap();
    }
    engine.handle_input(Time::ZERO, Input::Add(FlowId(4), slo(2, 60, 40))).unwrap();
    let member = Membership { group: FlowId(4), weight: Weight::ONE, limit: None };
    engine.handle_input(Time::ZERO, Input::Join(FlowId(3), member)).unwrap();
    let (mut now, mut out, mut used, mut log) = (Time::ZERO, Vec::new(), None, Vec::new());
    for (id, step) in (0..).zip(steps) {
        match *step {
            Step::Arrive { flow, cost } => {
                engine.handle_input(now, Input::Arrival(request(id, flow, cost))).unwrap();
            }
            Step::Wait { micros } => now += Span::from_micros(micros),
            Step::Dispatch => {
                let output = engine.poll_output(now);
                if let Some(Output::Submit(Submission { ticket, .. })) = output {
                    out.push(ticket);
                }
                log.push(format!("{output:?} {:?} {}", engine.poll_timeout(), engine.waiting()));
            }
            Step::Complete => {
                if let Some(ticket) = out.pop() {
                    engine
                        .handle_input(now, Input::Completion(Completion::new(ticket, Outcome::Done)))
                        .unwrap();
                    used = Some(ticket);
                }
            }
            Step::Bad { kind } if with_bad => {
                let (input, error) = bad(kind, used);
                // From far in the future: not even the clock may move.
                assert_eq!(engine.handle_input(now + Span::from_millis(9_999), input), Err(error));
            }
            Step::Bad { .. } => {}
        }
    }
    log
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_refused_changes_nothing(steps in steps()) {
        for number in 0..KINDS {
            prop_assert_eq!(run(number, &steps, true), run(number, &steps, false));
        }
    }
}

/// What a scheduler refuses when it is asked directly, at `now`; the flows are 0 to 2. `None` where it has no
/// reason to refuse.
fn refusal(
    scheduler: &mut dyn Scheduler,
    now: Time,
    kind: usize,
) -> Option<(Result<(), ConfigureError>, ConfigureError)> {
    let (unknown, beyond) = (FlowId(77), FlowId(FlowId::MAX.0 + 1));
    let arrival = |flow| Arrival::new(now, request(1, flow, 1_000));
    let tight = Slo::background().with_reservation(Rate::per_second(9)).unwrap();
    let tight = tight.with_limit(Rate::per_second(8)).unwrap();
    Some(match kind {
        0 => (scheduler.configure(now, beyond, &slo(9, 900, 1)), ConfigureError::FlowOutOfRange(beyond)),
        1 => (scheduler.on_arrival(now, arrival(77)), ConfigureError::UnknownFlow(unknown)),
        2 => {
            let none = FlowId(u32::MAX);
            (scheduler.on_arrival(now, arrival(u32::MAX as usize)), ConfigureError::UnknownFlow(none))
        }
        3 => {
            let elsewhere = Elsewhere::new(3, 2).unwrap();
            let refused = scheduler.on_arrival_counted(now, arrival(77), elsewhere);
            (refused, ConfigureError::UnknownFlow(unknown))
        }
        4 => (scheduler.remove(now, unknown), ConfigureError::UnknownFlow(unknown)),
        5 => (scheduler.remove(now, beyond), ConfigureError::UnknownFlow(beyond)),
        6 if scheduler.name() != "pclock" => {
            (scheduler.set_spare(now, SpareCapacity::Background), ConfigureError::Unsupported)
        }
        // A limit that shuts the reservation out, of a flow that is there and of one that is not.
        7 | 8 if scheduler.name() == "mclock" => {
            let flow = if kind == 7 { FlowId(1) } else { unknown };
            (scheduler.configure(now, flow, &tight), ConfigureError::LimitBelowReservation(flow))
        }
        9 => {
            let busy = (0..3).map(FlowId).find(|flow| scheduler.backlog(*flow) > 0)?;
            (scheduler.remove(now, busy), ConfigureError::Busy(busy))
        }
        _ => return None,
    })
}

/// Everything that a scheduler answers, with or without being asked what it refuses.
fn run_alone(number: usize, steps: &[Step], with_bad: bool) -> Vec<String> {
    let mut scheduler = scheduler(number);
    for flow in 0..3 {
        scheduler.configure(Time::ZERO, FlowId(flow), &slo(2, 50 + u64::from(flow), 40)).unwrap();
    }
    let (mut now, mut store, mut log) = (Time::ZERO, Vec::new(), Vec::new());
    for (id, step) in (0..).zip(steps) {
        match *step {
            Step::Arrive { flow, cost } => {
                let arrival = Arrival::new(now, request(id, flow % 3, cost));
                scheduler.on_arrival(now, arrival).unwrap();
            }
            Step::Wait { micros } => now += Span::from_micros(micros),
            Step::Dispatch => {
                let decision = scheduler.poll_dispatch(now);
                if let Decision::Dispatch(dispatch) = decision {
                    store.push(dispatch.request);
                }
                let backlogs = [0, 1, 2, 77].map(|flow| scheduler.backlog(FlowId(flow)));
                log.push(format!("{decision:?} {backlogs:?}"));
            }
            Step::Complete => {
                if let Some(done) = store.pop() {
                    let completion = Completion::new(Ticket::from_bits(done.id.0), Outcome::Done);
                    scheduler.on_completion(now, &done, &completion);
                }
            }
            Step::Bad { kind } if with_bad => {
                let later = now + Span::from_millis(9_999);
                if let Some((refused, error)) = refusal(scheduler.as_mut(), later, kind) {
                    assert_eq!(refused, Err(error), "{}", scheduler.name());
                }
            }
            Step::Bad { .. } => {}
        }
    }
    log
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    /// The same of a scheduler without an engine in front of it.
    #[test]
    fn what_a_scheduler_refuses_changes_nothing(steps in steps()) {
        for number in 0..KINDS {
            prop_assert_eq!(run_alone(number, &steps, true), run_alone(number, &steps, false));
        }
    }
}
