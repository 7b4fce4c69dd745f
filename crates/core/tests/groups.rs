//! Groups: members share one agreement under every scheduler, and limits hold members back.

mod common;

use std::collections::{HashMap, HashSet, VecDeque};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use common::schedulers::{Boxed, FCFS, KINDS, PCLOCK};
use common::{request, slo};
use evenkeel_core::sched::fairio::FairioConfig;
use evenkeel_core::*;
use proptest::prelude::*;

const GROUP: FlowId = FlowId(9);

fn scheduler(kind: usize) -> Boxed {
    common::schedulers::scheduler(kind, FairioConfig::new(Span::from_millis(100), 1))
}

fn engine(number: usize, depth: u32, slo: Slo) -> Engine {
    let mut engine = Engine::new(scheduler(number), NonZeroU32::new(depth).unwrap());
    engine.handle_input(Time::ZERO, Input::Add(GROUP, slo)).unwrap();
    engine
}

fn member(weight: u32, limit: Option<Limit>) -> Membership {
    Membership { group: GROUP, weight: Weight::new(weight).unwrap(), limit }
}

fn join(engine: &mut Engine, flow: u32, weight: u32) {
    engine.handle_input(Time::ZERO, Input::Join(FlowId(flow), member(weight, None))).unwrap();
}

fn arrive(engine: &mut Engine, at: Time, id: u64, flow: usize, cost: u64) {
    engine.handle_input(at, Input::Arrival(request(id, flow, cost))).unwrap();
}

fn submitted(engine: &mut Engine, at: Time) -> Option<Submission> {
    match engine.poll_output(at)? {
        Output::Submit(submission) => Some(submission),
        Output::Reply(record) => panic!("a reply: {record:?}"),
    }
}

fn complete(engine: &mut Engine, at: Time, ticket: Ticket) -> Record {
    engine.handle_input(at, Input::Completion(Completion::new(ticket, Outcome::Done))).unwrap();
    match engine.poll_output(at) {
        Some(Output::Reply(record)) => record,
        other => panic!("no reply: {other:?}"),
    }
}

/// Serves one after the other at `at`, and tells who came, by id.
fn served(engine: &mut Engine, at: Time, count: usize) -> Vec<Record> {
    let mut serve = || submitted(engine, at).map(|out| complete(engine, at, out.ticket));
    (0..count).map_while(|_| serve()).collect()
}

fn flows_of(records: &[Record]) -> Vec<u32> {
    records.iter().map(|record| record.request.flow.0).collect()
}

#[test]
fn beyond_the_envelope_members_share_by_weight_and_an_idle_share_goes_to_the_others() {
    for number in 0..KINDS {
        let mut engine = engine(number, 1, slo(1, 10, 1_000));
        join(&mut engine, 0, 3);
        join(&mut engine, 1, 1);
        (0..40).for_each(|id| arrive(&mut engine, Time::ZERO, id, 0, 1_000));
        (40..60).for_each(|id| arrive(&mut engine, Time::ZERO, id, 1, 1_000));
        assert_eq!(engine.backlog(GROUP), 60);
        // FAIRIO takes the next round's instant to begin it.
        let at = |step: u64| Time::from_millis(1_000 * step);
        let mut records = Vec::new();
        for step in 1..=600 {
            records.extend(served(&mut engine, at(step), 1));
        }
        assert_eq!(records.len(), 60, "scheduler {number}");
        let of_first = |count: usize| flows_of(&records[..count]).iter().filter(|flow| **flow == 0).count();
        assert!((29..=31).contains(&of_first(40)), "scheduler {number}: {}", of_first(40));
        assert_eq!(of_first(60), 40, "and the rest is the other's");
    }
}

#[test]
fn within_the_envelope_the_order_of_arrival_counts() {
    let mut engine = engine(PCLOCK, 1, slo(6, 10, 100));
    join(&mut engine, 0, 1);
    join(&mut engine, 1, 1);
    for (id, flow) in [0, 0, 0, 0, 1, 1].into_iter().enumerate() {
        arrive(&mut engine, Time::ZERO, id as u64, flow, 1_000);
    }
    let records = served(&mut engine, Time::ZERO, 6);
    assert_eq!(flows_of(&records), [0, 0, 0, 0, 1, 1]);
    assert!(records.iter().all(|record| record.promise == Some(Span::from_millis(100))));
}

/// A member that has sent far too much cannot delay what another is promised.
#[test]
fn a_promised_request_passes_those_that_are_not() {
    let mut engine = engine(FCFS, 1, slo(2, 10, 100));
    join(&mut engine, 0, 1);
    join(&mut engine, 1, 1);
    (0..6).for_each(|id| arrive(&mut engine, Time::ZERO, id, 0, 1_000));
    let later = Time::from_millis(500);
    arrive(&mut engine, later, 10, 1, 1_000);
    let records = served(&mut engine, later, 7);
    let ids: Vec<u64> = records.iter().map(|record| record.request.id.0).collect();
    assert_eq!(records.iter().filter(|record| record.promise.is_some()).count(), 3);
    assert_eq!(ids, [0, 1, 10, 2, 3, 4, 5]);
}

#[test]
fn a_limit_holds_a_member_back_and_nobody_else() {
    let mut engine = engine(PCLOCK, 8, slo(10, 100, 100));
    let limit = Limit::new(Cost::requests(2), Rate::per_second(10)).unwrap();
    engine.handle_input(Time::ZERO, Input::Join(FlowId(0), member(1, Some(limit)))).unwrap();
    join(&mut engine, 1, 1);
    (0..4).for_each(|id| arrive(&mut engine, Time::ZERO, id, 0, 1_000));
    (4..7).for_each(|id| arrive(&mut engine, Time::ZERO, id, 1, 1_000));
    assert_eq!((engine.waiting(), engine.backlog(FlowId(0)), engine.backlog(GROUP)), (7, 4, 7));
    assert_eq!(flows_of(&served(&mut engine, Time::ZERO, 9)), [0, 0, 1, 1, 1]);
    assert_eq!(engine.poll_timeout(), Some(Time::from_millis(100)));
    assert_eq!(submitted(&mut engine, Time::from_nanos(99_999_999)), None);
    let late = served(&mut engine, Time::from_millis(100), 9);
    assert_eq!(flows_of(&late), [0]);
    assert_eq!(
        (late[0].arrival, late[0].promise),
        (Time::ZERO, None),
        "what is held back is promised nothing"
    );
    assert_eq!(engine.poll_timeout(), Some(Time::from_millis(200)));
    // A changed limit counts at once, also for what is held back.
    let wider = Limit::new(Cost::requests(2), Rate::per_second(1_000)).unwrap();
    engine.handle_input(Time::from_millis(110), Input::Join(FlowId(0), member(1, Some(wider)))).unwrap();
    assert_eq!(submitted(&mut engine, Time::from_millis(110)), None);
    assert_eq!(
        engine.poll_timeout(),
        Some(Time::from_nanos(110_900_000)),
        "0.1 were there, 0.9 come in 0.9 ms"
    );
}

/// firecracker#259: a request larger than the bucket must not wait for ever.
#[test]
fn a_request_dearer_than_the_limit_goes_when_the_bucket_is_full() {
    let mut engine = engine(FCFS, 8, Slo::background());
    let limit = Limit::new(Cost::requests(2), Rate::per_second(10)).unwrap();
    engine.handle_input(Time::ZERO, Input::Join(FlowId(0), member(1, Some(limit)))).unwrap();
    (0..2).for_each(|id| arrive(&mut engine, Time::ZERO, id, 0, 5_000));
    assert_eq!(served(&mut engine, Time::ZERO, 9).len(), 1);
    assert_eq!(engine.poll_timeout(), Some(Time::from_millis(500)), "a debt of 3, and 2 to be full");
    assert_eq!(served(&mut engine, Time::from_millis(500), 9).len(), 1);
}

#[test]
fn refusals_are_typed_and_change_nothing() {
    let mut engine = engine(PCLOCK, 1, slo(1, 10, 50));
    engine.handle_input(Time::ZERO, Input::Add(FlowId(0), slo(1, 10, 50))).unwrap();
    join(&mut engine, 1, 1);
    arrive(&mut engine, Time::ZERO, 1, 1, 1_000);
    let to = |group| Membership { group, ..member(1, None) };
    let cases = [
        (Input::Add(FlowId(0), slo(2, 20, 50)), ConfigureError::FlowExists(FlowId(0))),
        (Input::Add(FlowId(1), slo(2, 20, 50)), ConfigureError::FlowExists(FlowId(1))),
        (Input::Add(GROUP, slo(2, 20, 50)), ConfigureError::FlowExists(GROUP)),
        (Input::Configure(FlowId(1), slo(2, 20, 50)), ConfigureError::IsMember(FlowId(1))),
        (Input::Join(FlowId(0), to(GROUP)), ConfigureError::FlowExists(FlowId(0))),
        (Input::Join(GROUP, to(GROUP)), ConfigureError::FlowExists(GROUP)),
        (Input::Join(FlowId(2), to(FlowId(7))), ConfigureError::UnknownFlow(FlowId(7))),
        (Input::Join(FlowId(2), to(FlowId(1))), ConfigureError::UnknownFlow(FlowId(1))),
        (Input::Join(FlowId(u32::MAX), to(GROUP)), ConfigureError::FlowOutOfRange(FlowId(u32::MAX))),
        (Input::Join(FlowId(1), to(FlowId(0))), ConfigureError::Busy(FlowId(1))),
        (Input::Remove(GROUP), ConfigureError::IsGroup(GROUP)),
        (Input::Remove(FlowId(1)), ConfigureError::Busy(FlowId(1))),
        (Input::Arrival(request(2, 9, 1_000)), ConfigureError::IsGroup(GROUP)),
        (Input::Arrival(request(2, 3, 1_000)), ConfigureError::UnknownFlow(FlowId(3))),
    ];
    for (input, error) in cases {
        let before = (engine.waiting(), engine.flows().count(), engine.membership(FlowId(1)));
        let refused = engine.handle_input(Time::from_millis(500), input.clone());
        assert_eq!(refused, Err(InputError::Configure(error)), "{input:?}");
        assert_eq!((engine.waiting(), engine.flows().count(), engine.membership(FlowId(1))), before);
    }
    assert_eq!(engine.slo(FlowId(0)), Some(&slo(1, 10, 50)), "not changed by what was refused");
    // A flow with requests of its own cannot become a group.
    arrive(&mut engine, Time::ZERO, 3, 0, 1_000);
    let busy = engine.handle_input(Time::ZERO, Input::Join(FlowId(2), to(FlowId(0))));
    assert_eq!(busy, Err(ConfigureError::Busy(FlowId(0)).into()));
    let records = served(&mut engine, Time::ZERO, 9);
    assert_eq!((flows_of(&records).len(), records[0].arrival), (2, Time::ZERO), "no clock was moved");
    engine.handle_input(Time::ZERO, Input::Remove(FlowId(1))).unwrap();
    engine.handle_input(Time::ZERO, Input::Arrival(request(4, 9, 1_000))).expect("no group any more");
    assert!(Limit::new(Cost::ZERO, Rate::per_second(1)) == Err(SloError::ZeroBurst));
    assert!(Limit::new(Cost::ONE, Rate::per_second(0)) == Err(SloError::ZeroRate));
}

/// The work of a century at the largest rate through one group: its virtual time still divides.
#[test]
fn a_century_of_work_wraps_no_tag_of_a_group() {
    const CENTURY: u64 = 3_155_760_000 * 1_000_000_000;
    const ROUNDS: u64 = 1_000;
    let mut engine = engine(FCFS, 1, slo(1, 1, 1));
    let burst = Limit::new(Envelope::BURST_MAX, Envelope::RATE_MAX).unwrap();
    for (flow, weight, limit) in [(0, 1, None), (1, 1_000_000, Some(burst)), (2, 3, None), (3, 1, None)] {
        engine.handle_input(Time::ZERO, Input::Join(FlowId(flow), member(weight, limit))).unwrap();
    }
    for round in 1..=ROUNDS {
        let now = Time::from_nanos(CENTURY / ROUNDS * round);
        // What a billion a second makes in this time, in thousandths.
        (0..2).for_each(|flow| arrive(&mut engine, now, round, flow, CENTURY / ROUNDS));
        served(&mut engine, now, 2);
    }
    let now = Time::from_nanos(CENTURY);
    (0..40).for_each(|id| arrive(&mut engine, now, id, 2, 1_000));
    (0..40).for_each(|id| arrive(&mut engine, now, id, 3, 1_000));
    let of_heavier = flows_of(&served(&mut engine, now, 40)).iter().filter(|flow| **flow == 2).count();
    assert!((29..=31).contains(&of_heavier), "{of_heavier} of 40");
}

/// What happens in the random runs.
#[derive(Clone, Copy, Debug)]
enum Step {
    Arrive { member: usize, cost: u64 },
    Wait { micros: u64 },
    Dispatch,
    Complete { which: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0_usize..4, 1_u64..5_000).prop_map(|(member, cost)| Step::Arrive { member, cost }),
        1 => (0_u64..40_000).prop_map(|micros| Step::Wait { micros }),
        3 => Just(Step::Dispatch),
        3 => (0_usize..8).prop_map(|which| Step::Complete { which }),
    ];
    prop::collection::vec(step, 0..300)
}

/// A group beside another flow, and the same load without a group: all of it one flow.
struct Pair {
    grouped: Engine,
    plain: Engine,
    out: Vec<(Ticket, Ticket)>,
    now: Time,
}

impl Pair {
    fn new(number: usize, slo: &Slo) -> Self {
        let mut grouped = engine(number, 4, slo.clone());
        let mut plain = engine(number, 4, slo.clone());
        for flow in 0..3 {
            join(&mut grouped, flow, 1 + flow);
        }
        for engine in [&mut grouped, &mut plain] {
            engine.handle_input(Time::ZERO, Input::Add(FlowId(3), common::slo(3, 100, 30))).unwrap();
        }
        Self { grouped, plain, out: Vec::new(), now: Time::ZERO }
    }

    fn arrive(&mut self, id: u64, member: usize, cost: u64) {
        arrive(&mut self.grouped, self.now, id, member, cost);
        arrive(&mut self.plain, self.now, id, if member == 3 { 3 } else { GROUP.0 as usize }, cost);
    }

    /// One dispatch of each, which must be of the same flow.
    fn dispatch(&mut self) -> Option<(Submission, Submission)> {
        let (grouped, plain) = (submitted(&mut self.grouped, self.now), submitted(&mut self.plain, self.now));
        assert_eq!(grouped.is_some(), plain.is_some());
        let (grouped, plain) = (grouped?, plain?);
        assert_eq!(grouped.request.flow == FlowId(3), plain.request.flow == FlowId(3));
        self.out.push((grouped.ticket, plain.ticket));
        Some((grouped, plain))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    /// Under every scheduler the group as a whole is served exactly like one flow, if requests cost the same; a
    /// promised request goes no later than it would in that flow; members keep their order; nothing is lost or
    /// duplicated.
    #[test]
    fn a_group_is_one_flow_to_the_scheduler(number in 0..KINDS, steps in steps(), nested: bool, cost in 1_u64..5_000) {
        let slo = if nested { two_classes() } else { slo(6, 120, 50) };
        let mut pair = Pair::new(number, &slo);
        let (mut id, mut position) = (0, 0);
        let mut places: HashMap<u64, (Option<usize>, Option<usize>)> = HashMap::new();
        let mut orders = [const { Vec::new() }; 4];
        let mut promised = HashMap::new();
        let drain = std::iter::repeat_n([Step::Dispatch, Step::Complete { which: 0 }, Step::Wait { micros: 9_000 }], 400);
        let (mut left, steps_taken) = (steps.len(), steps.into_iter().chain(drain.flatten()));
        for step in steps_taken {
            if left == 0 && pair.plain.waiting() + pair.plain.outstanding() as usize == 0 {
                break;
            }
            left = left.saturating_sub(1);
            match step {
                Step::Arrive { member, .. } => {
                    pair.arrive(id, member, cost);
                    id += 1;
                }
                Step::Wait { micros } => pair.now += Span::from_micros(micros),
                Step::Complete { which } if !pair.out.is_empty() => {
                    let (grouped, plain) = pair.out.remove(which % pair.out.len());
                    let record = complete(&mut pair.grouped, pair.now, grouped);
                    complete(&mut pair.plain, pair.now, plain);
                    promised.insert(record.request.id.0, record.promise.is_some());
                }
                Step::Complete { .. } => {}
                Step::Dispatch => if let Some((grouped, plain)) = pair.dispatch() {
                    position += 1;
                    orders[grouped.request.flow.0 as usize].push(grouped.request.id.0);
                    let slot = places.entry(grouped.request.id.0).or_default();
                    prop_assert!(slot.0.replace(position).is_none(), "dispatched twice");
                    places.entry(plain.request.id.0).or_default().1 = Some(position);
                }
            }
        }
        prop_assert_eq!(places.len() as u64, id, "nothing is lost");
        for (id, (grouped, plain)) in &places {
            if promised[id] {
                prop_assert!(grouped <= plain, "{id} goes at {grouped:?}, alone at {plain:?}");
            }
        }
        if scheduler(number).name() != "nested" {
            for order in &orders {
                prop_assert!(order.is_sorted(), "{order:?}");
            }
        }
    }
}

/// A scheduler whose dispatches of the group's places are counted, and what they cost.
struct Spied {
    scheduler: Boxed,
    places: Arc<AtomicUsize>,
    cost: Arc<AtomicU64>,
}

impl Scheduler for Spied {
    fn name(&self) -> &'static str {
        self.scheduler.name()
    }

    fn configure(&mut self, now: Time, flow: FlowId, slo: &Slo) -> Result<(), ConfigureError> {
        self.scheduler.configure(now, flow, slo)
    }

    fn remove(&mut self, now: Time, flow: FlowId) -> Result<(), ConfigureError> {
        self.scheduler.remove(now, flow)
    }

    fn on_arrival(&mut self, now: Time, arrival: Arrival) -> Result<(), ConfigureError> {
        self.scheduler.on_arrival(now, arrival)
    }

    fn poll_dispatch(&mut self, now: Time) -> Decision {
        let decision = self.scheduler.poll_dispatch(now);
        if let Decision::Dispatch(Dispatch { request, .. }) = decision
            && request.flow == GROUP
        {
            self.places.fetch_add(1, Ordering::Relaxed);
            self.cost.fetch_add(request.cost.as_millis(), Ordering::Relaxed);
        }
        decision
    }

    fn on_completion(&mut self, now: Time, request: &Request, completion: &Completion) {
        self.scheduler.on_completion(now, request, completion);
    }

    fn counts_cost(&self) -> bool {
        self.scheduler.counts_cost()
    }

    fn backlog(&self, flow: FlowId) -> usize {
        self.scheduler.backlog(flow)
    }
}

/// The members 0 to 2 and flow 3 under a spied scheduler, at a store that is never full.
struct Costly {
    engine: Engine,
    places: Arc<AtomicUsize>,
    cost: Arc<AtomicU64>,
    out: Vec<Ticket>,
    now: Time,
    /// Requests of the group in order of arrival, and which of them have gone.
    arrived: Vec<u64>,
    gone: HashSet<u64>,
    spent: u64,
    orders: [Vec<u64>; 4],
    promised: HashSet<u64>,
}

impl Costly {
    fn new(number: usize, slo: Slo) -> Self {
        let (places, cost) = (Arc::default(), Arc::default());
        let spied =
            Spied { scheduler: scheduler(number), places: Arc::clone(&places), cost: Arc::clone(&cost) };
        let mut engine = Engine::new(Box::new(spied), NonZeroU32::new(1_000).unwrap());
        engine.handle_input(Time::ZERO, Input::Add(GROUP, slo)).unwrap();
        engine.handle_input(Time::ZERO, Input::Add(FlowId(3), common::slo(3, 100, 30))).unwrap();
        (0..3).for_each(|flow| join(&mut engine, flow, 1 + 3 * flow));
        let (out, arrived, gone, promised) = (vec![], vec![], HashSet::new(), HashSet::new());
        let orders = [const { Vec::new() }; 4];
        Self { engine, places, cost, out, now: Time::ZERO, arrived, gone, spent: 0, orders, promised }
    }

    /// One dispatch, and what must hold after it.
    fn dispatch(&mut self) -> bool {
        let backlog = self.engine.backlog(GROUP);
        assert_eq!(backlog, self.arrived.len() - self.gone.len());
        assert_eq!(backlog, (0..3).map(|flow| self.engine.backlog(FlowId(flow))).sum());
        assert_eq!(self.engine.waiting(), backlog + self.engine.backlog(FlowId(3)));
        let Some(Submission { ticket, request }) = submitted(&mut self.engine, self.now) else {
            return false;
        };
        self.out.push(ticket);
        self.orders[request.flow.0 as usize].push(request.id.0);
        if request.flow != FlowId(3) {
            assert!(self.gone.insert(request.id.0), "sent twice");
            self.spent += request.cost.as_millis();
            if self.engine.scheduler_name() != "fairio" {
                assert!(
                    self.spent <= self.cost.load(Ordering::Relaxed),
                    "more work than its places stand for"
                );
            }
        }
        true
    }

    /// All that may go now; then no promise waits whose place has gone.
    fn dispatch_all(&mut self) {
        while self.dispatch() {}
        if self.engine.scheduler_name() != "nested" {
            let passed = &self.arrived[..self.places.load(Ordering::Relaxed)];
            let late = passed.iter().find(|id| self.promised.contains(id) && !self.gone.contains(id));
            assert_eq!(late, None, "promised, and its place has gone");
        }
    }

    fn complete(&mut self, which: usize) {
        if !self.out.is_empty() {
            let ticket = self.out.remove(which % self.out.len());
            complete(&mut self.engine, self.now, ticket);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    /// Requests of any cost: the group never has more work done than its places stand for, a promised request
    /// goes by the time when its place does, members keep their order, and nothing is lost.
    #[test]
    fn places_pay_for_what_the_group_sends(number in 0..KINDS, steps in steps(), nested: bool) {
        let slo = if nested { two_classes() } else { slo(6, 120, 50) };
        let mut costly = Costly::new(number, slo.clone());
        let mut meter = Engine::new(scheduler(FCFS), NonZeroU32::MIN);
        meter.handle_input(Time::ZERO, Input::Add(GROUP, slo)).unwrap();
        let mut id = 0;
        for step in steps {
            match step {
                Step::Arrive { member, cost } => {
                    arrive(&mut costly.engine, costly.now, id, member, cost);
                    if member != 3 {
                        costly.arrived.push(id);
                        // The same judgement as that of the group: of a flow that has nothing waiting.
                        arrive(&mut meter, costly.now, id, GROUP.0 as usize, cost);
                        if served(&mut meter, costly.now, 1)[0].promise.is_some() {
                            costly.promised.insert(id);
                        }
                    }
                    id += 1;
                }
                Step::Wait { micros } => costly.now += Span::from_micros(micros),
                Step::Complete { which } => costly.complete(which),
                Step::Dispatch if id % 3 == 0 => costly.dispatch_all(),
                Step::Dispatch => _ = costly.dispatch(),
            }
        }
        for _ in 0..1_000 {
            costly.dispatch_all();
            (0..costly.out.len()).for_each(|_| costly.complete(0));
            if costly.engine.waiting() == 0 {
                break;
            }
            costly.now += Span::from_millis(9);
        }
        prop_assert_eq!(costly.engine.waiting(), 0, "nothing is lost");
        prop_assert_eq!(costly.arrived.len(), costly.gone.len());
        if costly.engine.scheduler_name() != "nested" {
            prop_assert!(costly.orders.iter().all(|order| order.is_sorted()), "{:?}", costly.orders);
        }
        (0..3).for_each(|flow| costly.engine.handle_input(costly.now, Input::Remove(FlowId(flow))).unwrap());
    }
}

fn two_classes() -> Slo {
    let class = |burst, rate, millis| {
        Envelope::new(Cost::requests(burst), Rate::per_second(rate), Span::from_millis(millis)).unwrap()
    };
    Slo::nested(&[class(4, 100, 20), class(9, 150, 80)]).unwrap()
}

/// The naive reference for first come, first served: everything is looked up in plain lists.
#[derive(Default)]
struct Naive {
    /// Ids of places, oldest first.
    places: VecDeque<u64>,
    /// Waiting requests in order of arrival: id, member, cost, promised.
    waiting: Vec<(u64, usize, u64, bool)>,
    /// Start tags, for weight 6 exact: cost / weight in sixths of thousandths.
    tags: [u64; 3],
    virtual_now: u64,
}

impl Naive {
    const WEIGHTS: [u64; 3] = [1, 2, 3];

    fn arrive(&mut self, id: u64, member: usize, cost: u64, promised: bool) {
        if !self.waiting.iter().any(|waiting| waiting.1 == member) {
            self.tags[member] = self.tags[member].max(self.virtual_now);
        }
        self.places.push_back(id);
        self.waiting.push((id, member, cost, promised));
    }

    fn dispatch(&mut self) -> Option<u64> {
        let place = self.places.pop_front()?;
        let first_of = |member: usize| self.waiting.iter().position(|waiting| waiting.1 == member);
        let own = self.waiting.iter().position(|waiting| waiting.0 == place && waiting.3);
        let promised = self.waiting.iter().find(|waiting| waiting.3).and_then(|waiting| first_of(waiting.1));
        let heads = (0..3).filter_map(first_of);
        let least = heads.min_by_key(|head| (self.tags[self.waiting[*head].1], self.waiting[*head].0))?;
        self.virtual_now = self.virtual_now.max(self.tags[self.waiting[least].1]);
        let (id, member, cost, _) = self.waiting.remove(own.or(promised).unwrap_or(least));
        self.tags[member] += cost * 6 / Self::WEIGHTS[member];
        Some(id)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]

    /// The same order as the naive reference. Costs are multiples of six thousandths, so that its tags are exact.
    #[test]
    fn the_naive_reference_chooses_alike(steps in steps()) {
        let mut engine = engine(FCFS, 1_000, slo(5, 300, 50));
        (0..3).for_each(|flow| join(&mut engine, flow, flow + 1));
        let mut meter = TokenBucket::new(Time::ZERO, Cost::requests(5), Rate::per_second(300));
        let mut naive = Naive::default();
        let mut now = Time::ZERO;
        let mut id = 0;
        for step in steps {
            match step {
                Step::Arrive { member, cost } => {
                    let (member, cost) = (member % 3, cost * 6);
                    arrive(&mut engine, now, id, member, cost);
                    naive.arrive(id, member, cost, meter.arrive(now, Cost::from_millis(cost)));
                    id += 1;
                }
                Step::Wait { micros } => now += Span::from_micros(micros),
                _ => {
                    let chosen = submitted(&mut engine, now).map(|out| out.request.id.0);
                    prop_assert_eq!(chosen, naive.dispatch());
                }
            }
        }
    }

    /// What a member gets dispatched stays below its limit, plus one request, over every interval; and it
    /// is at the limit as long as something is held back.
    #[test]
    fn limits_hold_over_every_interval(
        burst in 1_u64..6, rate in 1_u64..500, gaps in prop::collection::vec((0_u64..30_000, 1_u64..4_000), 1..60),
    ) {
        let mut engine = engine(FCFS, 100_000, Slo::background());
        let limit = Limit::new(Cost::requests(burst), Rate::per_second(rate)).unwrap();
        engine.handle_input(Time::ZERO, Input::Join(FlowId(0), member(1, Some(limit)))).unwrap();
        let mut out: Vec<(u64, u64)> = Vec::new();
        let mut now = Time::ZERO;
        let count = gaps.len();
        let poll = |engine: &mut Engine, now: Time, out: &mut Vec<(u64, u64)>| {
            while let Some(submission) = submitted(engine, now) {
                out.push((now.as_nanos(), submission.request.cost.as_millis()));
            }
        };
        for (id, (gap, cost)) in gaps.into_iter().enumerate() {
            let next = now + Span::from_micros(gap);
            while let Some(due) = engine.poll_timeout().filter(|due| *due <= next) {
                poll(&mut engine, due, &mut out);
            }
            now = next;
            arrive(&mut engine, now, id as u64, 0, cost);
            poll(&mut engine, now, &mut out);
        }
        while let Some(due) = engine.poll_timeout() {
            poll(&mut engine, due, &mut out);
        }
        prop_assert_eq!(out.len(), count, "everything went");
        for (i, (from, _)) in out.iter().enumerate() {
            for (j, (to, _)) in out.iter().enumerate().skip(i) {
                let sent: u128 = out[i..=j].iter().map(|(_, cost)| u128::from(*cost)).sum();
                // A request dearer than σ goes when the bucket is full: at most 4 requests more than it held.
                let bound = (u128::from(burst) * 1_000 + 4_000) * 1_000_000_000
                    + u128::from(to - from) * u128::from(rate) * 1_000;
                prop_assert!(sent * 1_000_000_000 <= bound);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    /// Any scheduler hands a group over to any other, also one that counts costs to one that does not, while some
    /// places have gone without a request: nothing is lost, and members keep their order.
    #[test]
    fn a_group_survives_a_change_of_the_scheduler(
        kinds in prop::collection::vec(0..KINDS, 2..6), steps in steps(), depth in 1_u32..4,
    ) {
        let mut engine = engine(kinds[0], depth, slo(6, 120, 50));
        engine.handle_input(Time::ZERO, Input::Add(FlowId(3), slo(3, 100, 30))).unwrap();
        (0..3).for_each(|flow| join(&mut engine, flow, 1 + 3 * flow));
        let (mut now, mut out, mut id, mut orders) = (Time::ZERO, vec![], 0, [const { Vec::new() }; 4]);
        let mut send = |engine: &mut Engine, now: Time, out: &mut Vec<Ticket>| {
            let sent = submitted(engine, now);
            if let Some(Submission { ticket, request }) = sent {
                orders[request.flow.0 as usize].push(request.id.0);
                out.push(ticket);
            }
            sent.is_some()
        };
        let every = steps.len().div_ceil(kinds.len()).max(1);
        for (turn, step) in steps.into_iter().enumerate() {
            match step {
                Step::Arrive { member, cost } => {
                    arrive(&mut engine, now, id, member, cost);
                    id += 1;
                }
                Step::Wait { micros } => now += Span::from_micros(micros),
                Step::Complete { which } if !out.is_empty() => {
                    let ticket = out.remove(which % out.len());
                    complete(&mut engine, now, ticket);
                }
                Step::Complete { .. } => {}
                Step::Dispatch => _ = send(&mut engine, now, &mut out),
            }
            if turn % every == every - 1 {
                engine.replace_scheduler(now, scheduler(kinds[turn / every])).unwrap();
            }
        }
        for _ in 0..2_000 {
            while send(&mut engine, now, &mut out) {}
            out.drain(..).for_each(|ticket| _ = complete(&mut engine, now, ticket));
            now += Span::from_millis(9);
        }
        prop_assert_eq!(engine.waiting(), 0);
        prop_assert_eq!(orders.iter().map(Vec::len).sum::<usize>() as u64, id);
        if kinds.iter().all(|kind| scheduler(*kind).name() != "nested") {
            prop_assert!(orders.iter().all(|order| order.is_sorted()), "{:?}", orders);
        }
    }
}
