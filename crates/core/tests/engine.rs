//! The engine through its public face: promises, tickets, depth, change of scheduler, and garbage.

mod common;

use std::collections::{HashMap, HashSet, VecDeque};
use std::num::NonZeroU32;

use common::{request, slo};
use evenkeel_core::sched::fcfs::Fcfs;
use evenkeel_core::sched::pclock::PClock;
use evenkeel_core::*;
use proptest::prelude::*;

fn engine(scheduler: impl Scheduler + Send + 'static, depth: u32) -> Engine {
    Engine::new(Box::new(scheduler), NonZeroU32::new(depth).unwrap())
}

fn millis(millis: u64) -> Time {
    Time::from_millis(millis)
}

fn arrive(engine: &mut Engine, at: u64, id: u64, flow: usize) {
    engine.handle_input(millis(at), Input::Arrival(request(id, flow, 1_000))).unwrap();
}

fn submitted(engine: &mut Engine, at: u64) -> Option<Submission> {
    match engine.poll_output(millis(at)) {
        Some(Output::Submit(submission)) => Some(submission),
        None => None,
        Some(Output::Reply(record)) => panic!("a reply: {record:?}"),
    }
}

fn complete(engine: &mut Engine, at: u64, ticket: Ticket) -> Record {
    let completion = Completion::new(ticket, Outcome::Done);
    engine.handle_input(millis(at), Input::Completion(completion)).unwrap();
    match engine.poll_output(millis(at)) {
        Some(Output::Reply(record)) => record,
        other => panic!("no reply: {other:?}"),
    }
}

#[test]
fn a_record_tells_the_whole_life() {
    let mut engine = engine(PClock::new(), 1);
    engine.handle_input(Time::ZERO, Input::Configure(FlowId(2), slo(1, 10, 50))).unwrap();
    arrive(&mut engine, 5, 7, 2);
    arrive(&mut engine, 6, 8, 2);
    assert_eq!((engine.waiting(), engine.backlog(FlowId(2)), engine.outstanding()), (2, 2, 0));
    let first = submitted(&mut engine, 10).unwrap();
    assert_eq!(submitted(&mut engine, 10), None, "the depth is one");
    let record = complete(&mut engine, 56, first.ticket);
    assert_eq!(record.request.id, RequestId(7));
    assert_eq!((record.arrival, record.dispatch, record.completion), (millis(5), millis(10), millis(56)));
    assert_eq!(record.promise, Some(Span::from_millis(50)));
    assert!(record.missed());
    let second = submitted(&mut engine, 56).unwrap();
    assert_eq!(complete(&mut engine, 60, second.ticket).promise, None, "it was outside the envelope");
}

#[test]
fn the_promise_does_not_depend_on_the_scheduler() {
    let mut engines = [engine(PClock::new(), 4), engine(Fcfs::new(), 4)];
    let promises = engines.each_mut().map(|engine| {
        engine.handle_input(Time::ZERO, Input::Configure(FlowId(0), slo(2, 100, 30))).unwrap();
        engine.handle_input(Time::ZERO, Input::Configure(FlowId(1), Slo::background())).unwrap();
        let mut promises = HashMap::new();
        for id in 0..60 {
            arrive(engine, 4 * id, id, usize::from(id % 4 == 3));
            while let Some(submission) = submitted(engine, 4 * id) {
                let record = complete(engine, 4 * id + 1, submission.ticket);
                promises.insert(record.request.id, record.promise);
            }
        }
        promises
    });
    assert_eq!(promises[0], promises[1]);
    assert!(promises[0].values().any(Option::is_some) && promises[0].values().any(Option::is_none));
}

#[test]
fn a_ticket_is_good_once() {
    let mut engine = engine(Fcfs::new(), 1);
    engine.handle_input(Time::ZERO, Input::Configure(FlowId(0), Slo::background())).unwrap();
    arrive(&mut engine, 0, 1, 0);
    arrive(&mut engine, 0, 2, 0);
    let first = submitted(&mut engine, 0).unwrap().ticket;
    complete(&mut engine, 1, first);
    let second = submitted(&mut engine, 1).unwrap().ticket;
    assert_eq!(second.slot(), first.slot(), "the slot is used again");
    for ticket in [first, Ticket::from_bits(u64::MAX)] {
        let again = Input::Completion(Completion::new(ticket, Outcome::Failed));
        assert_eq!(engine.handle_input(millis(2), again), Err(InputError::UnknownTicket(ticket)));
    }
    assert_eq!(engine.outstanding(), 1);
    assert_eq!(complete(&mut engine, 3, second).request.id, RequestId(2));
}

#[test]
fn the_depth_can_be_changed_while_requests_are_out() {
    let mut engine = engine(Fcfs::new(), 4);
    engine.handle_input(Time::ZERO, Input::Configure(FlowId(0), Slo::background())).unwrap();
    (0..10).for_each(|id| arrive(&mut engine, 0, id, 0));
    let out: Vec<Ticket> = std::iter::from_fn(|| submitted(&mut engine, 0)).map(|s| s.ticket).collect();
    assert_eq!(out.len(), 4);
    engine.set_depth(NonZeroU32::MIN);
    for ticket in &out[..3] {
        complete(&mut engine, 1, *ticket);
        assert_eq!(submitted(&mut engine, 1), None, "{} are still out", engine.outstanding());
    }
    complete(&mut engine, 1, out[3]);
    assert_eq!(submitted(&mut engine, 1).unwrap().ticket.slot(), 0);
    engine.set_depth(NonZeroU32::new(3).unwrap());
    let slots: HashSet<usize> =
        std::iter::from_fn(|| submitted(&mut engine, 1)).map(|s| s.ticket.slot()).collect();
    assert_eq!(slots, HashSet::from([1, 2]));
}

#[test]
fn refusals_are_typed_and_change_nothing() {
    let mut engine = engine(PClock::new(), 1);
    let refused = |engine: &mut Engine, input, error: ConfigureError| {
        assert_eq!(engine.handle_input(millis(1_000), input), Err(InputError::Configure(error)));
    };
    let beyond = FlowId(FlowId::MAX.0 + 1);
    refused(&mut engine, Input::Arrival(request(1, 3, 1_000)), ConfigureError::UnknownFlow(FlowId(3)));
    refused(&mut engine, Input::Remove(FlowId(3)), ConfigureError::UnknownFlow(FlowId(3)));
    refused(&mut engine, Input::Configure(beyond, slo(1, 1, 1)), ConfigureError::FlowOutOfRange(beyond));
    engine.handle_input(Time::ZERO, Input::Configure(FlowId(3), slo(1, 1, 1))).unwrap();
    arrive(&mut engine, 1, 1, 3);
    refused(&mut engine, Input::Remove(FlowId(3)), ConfigureError::Busy(FlowId(3)));
    assert!(engine.slo(FlowId(3)).is_some());
    let submission = submitted(&mut engine, 1).unwrap();
    let record = complete(&mut engine, 2, submission.ticket);
    assert_eq!((record.arrival, record.completion), (millis(1), millis(2)), "refusals left the clock alone");
    let fcfs = &mut Engine::new(Box::new(Fcfs::new()), NonZeroU32::MIN);
    assert_eq!(fcfs.set_spare(Time::ZERO, SpareCapacity::Background), Err(ConfigureError::Unsupported));
}

#[test]
fn a_new_scheduler_takes_everything_over() {
    let mut engine = engine(PClock::new(), 2);
    let promised = [slo(3, 10, 100), slo(1, 1, 20), Slo::background()];
    for (flow, slo) in promised.iter().enumerate() {
        engine.handle_input(Time::ZERO, Input::Configure(FlowId(flow as u32), slo.clone())).unwrap();
    }
    (0..30).for_each(|id| arrive(&mut engine, id, id, id as usize % 3));
    let early = submitted(&mut engine, 30).unwrap();
    engine.replace_scheduler(millis(40), Box::new(Fcfs::new())).unwrap();
    assert_eq!(engine.scheduler_name(), "fcfs");
    assert_eq!(engine.waiting(), 29);
    assert_eq!(
        engine.flows().map(|(flow, slo)| (flow.0, slo)).collect::<Vec<_>>(),
        [(0, &promised[0]), (1, &promised[1]), (2, &promised[2])]
    );
    engine.replace_scheduler(millis(40), Box::new(PClock::with_spare(SpareCapacity::Background))).unwrap();
    let mut records = vec![complete(&mut engine, 50, early.ticket)];
    while let Some(submission) = submitted(&mut engine, 50) {
        records.push(complete(&mut engine, 50, submission.ticket));
    }
    records.sort_by_key(|record| record.request.id);
    let seen: Vec<(u64, Time)> = records.iter().map(|r| (r.request.id.0, r.arrival)).collect();
    assert_eq!(seen, (0..30).map(|id| (id, millis(id))).collect::<Vec<_>>());
    let kept: Vec<u64> = records.iter().filter(|r| r.promise.is_some()).map(|r| r.request.id.0).collect();
    assert_eq!(kept, [0, 1, 3, 6], "three of flow 0, one of flow 1, none of the background flow");
}

#[derive(Clone, Debug)]
enum Step {
    Arrive { flow: u32, cost: u64 },
    Complete { which: usize, bits: Option<u64> },
    Configure { flow: u32, slo: Slo },
    Remove(u32),
    Poll(u8),
    Timeout,
    Depth(u32),
    Spare(u16),
    Replace(bool),
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let flow = prop_oneof![9 => 0_u32..5, 1 => 1_048_574_u32..=u32::MAX]
        .prop_filter("no huge tables", |f| *f != 1_048_574 && *f != 1_048_575);
    let burst = prop_oneof![0_u64..8_000, Just(1_000_000_000_000)];
    let rate = prop_oneof![1_u64..100_000, Just(1_000_000_000_000)];
    let latency = prop_oneof![1_u64..1_000_000_000, Just(86_400_000_000_000)];
    let slo = (burst, rate, latency, any::<bool>()).prop_map(|(burst, rate, latency, background)| {
        let envelope =
            Envelope::new(Cost::from_millis(burst), Rate::from_millis(rate), Span::from_nanos(latency));
        if background { Slo::background() } else { Slo::guaranteed(envelope.unwrap()) }
    });
    let cost = prop_oneof![4 => Just(1_000_u64), 1 => any::<u64>()];
    let time = prop_oneof![8 => 0_u64..1_000_000_000, 1 => any::<u64>()];
    let bits = prop_oneof![4 => Just(None), 1 => any::<u64>().prop_map(Some)];
    let step = prop_oneof![
        12 => (flow.clone(), cost).prop_map(|(flow, cost)| Step::Arrive { flow, cost }),
        8 => (any::<usize>(), bits).prop_map(|(which, bits)| Step::Complete { which, bits }),
        4 => (flow.clone(), slo).prop_map(|(flow, slo)| Step::Configure { flow, slo }),
        2 => flow.prop_map(Step::Remove),
        8 => (1_u8..5).prop_map(Step::Poll),
        1 => Just(Step::Timeout),
        1 => (1_u32..6).prop_map(Step::Depth),
        1 => (0_u16..=1_000).prop_map(Step::Spare),
        1 => any::<bool>().prop_map(Step::Replace),
    ];
    prop::collection::vec((time, step), 0..150)
}

/// What a driver sees, for comparing before and after.
type State = (u32, usize, Vec<(FlowId, Slo)>, Vec<usize>, Option<Time>);

fn state(engine: &Engine) -> State {
    let flows: Vec<(FlowId, Slo)> = engine.flows().map(|(flow, slo)| (flow, slo.clone())).collect();
    let backlogs = flows.iter().map(|(flow, _)| engine.backlog(*flow)).collect();
    (engine.outstanding(), engine.waiting(), flows, backlogs, engine.poll_timeout())
}

/// Requests that wait or are out, and what has come back; panics if anything is lost or doubled.
#[derive(Default)]
struct Books {
    waiting: HashSet<u64>,
    out: VecDeque<(Ticket, u64)>,
    owed: HashSet<u64>,
}

impl Books {
    fn poll(&mut self, engine: &mut Engine, now: Time) -> bool {
        match engine.poll_output(now) {
            Some(Output::Submit(Submission { ticket, request })) => {
                assert!(self.waiting.remove(&request.id.0));
                assert!(self.owed.is_empty(), "replies first");
                assert!(self.out.iter().all(|(other, _)| other.slot() != ticket.slot()));
                assert_eq!(Ticket::from_bits(ticket.to_bits()), ticket);
                self.out.push_back((ticket, request.id.0));
                assert!(engine.outstanding() <= engine.depth());
                true
            }
            Some(Output::Reply(record)) => {
                assert!(self.owed.remove(&record.request.id.0));
                assert!(record.arrival <= record.dispatch && record.dispatch <= record.completion);
                true
            }
            None => false,
        }
    }

    fn complete(&mut self, engine: &mut Engine, now: Time, which: usize, bits: Option<u64>) -> bool {
        let known = if self.out.is_empty() { None } else { Some(which % self.out.len()) };
        let ticket = match (bits, known) {
            (None, Some(index)) => self.out[index].0,
            (bits, _) => Ticket::from_bits(bits.unwrap_or(0)),
        };
        let outcome = Outcome::Done;
        let taken = engine.handle_input(now, Input::Completion(Completion::new(ticket, outcome))).is_ok();
        let index = self.out.iter().position(|(out, _)| *out == ticket);
        assert_eq!(taken, index.is_some());
        if let Some((_, id)) = index.and_then(|index| self.out.remove(index)) {
            self.owed.insert(id);
        }
        taken
    }

    fn step(&mut self, engine: &mut Engine, now: Time, id: u64, step: Step) -> bool {
        match step {
            Step::Arrive { flow, cost } => {
                let taken =
                    engine.handle_input(now, Input::Arrival(request(id, flow as usize, cost))).is_ok();
                assert_eq!(taken, engine.slo(FlowId(flow)).is_some());
                if taken {
                    self.waiting.insert(id);
                }
                taken
            }
            Step::Complete { which, bits } => self.complete(engine, now, which, bits),
            Step::Configure { flow, slo } => {
                engine.handle_input(now, Input::Configure(FlowId(flow), slo)).is_ok()
            }
            Step::Remove(flow) => engine.handle_input(now, Input::Remove(FlowId(flow))).is_ok(),
            Step::Poll(count) => (0..count).any(|_| self.poll(engine, now)),
            Step::Timeout => engine.handle_input(now, Input::Timeout).is_ok(),
            Step::Depth(depth) => {
                engine.set_depth(NonZeroU32::new(depth).unwrap());
                true
            }
            Step::Spare(permille) => {
                engine.set_spare(now, SpareCapacity::Share(Permille::new(permille).unwrap())).is_ok()
            }
            Step::Replace(true) => engine.replace_scheduler(now, Box::new(Fcfs::new())).is_ok(),
            Step::Replace(false) => engine.replace_scheduler(now, Box::new(PClock::new())).is_ok(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]

    /// Whatever comes, in whatever order and at whatever time: no panic, refusals leave no trace, and
    /// every request that was taken in comes back once.
    #[test]
    fn garbage_is_refused_and_nothing_is_lost(steps in steps(), depth in 1_u32..6) {
        let mut engine = engine(PClock::new(), depth);
        let mut books = Books::default();
        for (id, (nanos, step)) in steps.into_iter().enumerate() {
            let before = state(&engine);
            let changed = books.step(&mut engine, Time::from_nanos(nanos), id as u64, step);
            if !changed {
                prop_assert_eq!(before, state(&engine));
            }
            prop_assert_eq!(engine.waiting(), books.waiting.len());
            prop_assert_eq!(engine.outstanding() as usize, books.out.len());
        }
        let end = Time::from_nanos(u64::MAX);
        while books.poll(&mut engine, end) || books.complete(&mut engine, end, 0, None) {}
        prop_assert!(books.waiting.is_empty() && books.out.is_empty() && books.owed.is_empty());
    }
}
