//! Promises that change while requests wait: who keeps to its promise, before and after, is in time all the same.
//!
//! The store has the capacity that the promises need before all changes and the one that they need after them,
//! together: when a flow changes, what waits was admitted by the old promise and what comes by the new one. A request
//! is due by what it was promised when it came, or when the one before it in its flow (under Nested QoS, in its class
//! of the flow) is, if that is later: these keep their order.

mod common;

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use common::{one_by_one, request};
use evenkeel_core::admission::{nested_capacity, required_capacity};
use evenkeel_core::sched::avatar::Avatar;
use evenkeel_core::sched::edf::Edf;
use evenkeel_core::sched::nested::Nested;
use evenkeel_core::sched::pclock::PClock;
use evenkeel_core::sched::sced::Sced;
use evenkeel_core::*;
use proptest::prelude::*;

/// Promised flows; one more is in the background.
const PROMISED: usize = 3;

/// What happens at an instant, in ns.
#[derive(Clone, Debug)]
enum Event {
    /// (flow, cost in thousandths)
    Arrive(usize, u64),
    /// The flow's promise becomes the new one.
    Change(usize),
}

/// Serves `events` on a store of that capacity ([`one_by_one::serve`]); changed flows get what is in `after`.
fn serve(engine: &mut Engine, after: &[Slo], capacity: u128, events: &[(u64, Event)]) -> Vec<(Record, u128)> {
    let inputs = (0_u64..).zip(events).map(|(id, (at, event))| match event {
        Event::Arrive(flow, cost) => (*at, Input::Arrival(request(id, *flow, *cost))),
        Event::Change(flow) => (*at, Input::Configure(FlowId(*flow as u32), after[*flow].clone())),
    });
    one_by_one::serve(engine, capacity, inputs)
}

fn envelopes() -> impl Strategy<Value = Envelope> {
    // Half of them rather extreme: it takes a long bound and a burst to harm one with a short bound.
    let any = (3_u64..20, 1_u64..20, 1_u64..20);
    let extreme = prop_oneof![(15_u64..20, 1_u64..3, 15_u64..20), (3_u64..5, 1_u64..3, 1_u64..3)];
    prop_oneof![any, extreme].prop_map(|(burst, rate, tens)| {
        let (burst, rate) = (Cost::requests(burst), Rate::per_second(25 * rate));
        Envelope::new(burst, rate, Span::from_millis(25 * tens)).unwrap()
    })
}

/// One to three classes.
fn classes() -> impl Strategy<Value = Slo> {
    prop::collection::vec((0_u64..8, 0_u64..4, 0_u64..5), 1..4).prop_map(|steps| {
        let outward = |sum: &mut (u64, u64, u64), (burst, rate, latency): (u64, u64, u64)| {
            *sum = (sum.0 + burst, sum.1 + 25 * rate, sum.2 + 20 * latency);
            Some(common::slo(sum.0, sum.1, sum.2).classes()[0])
        };
        Slo::nested(&steps.into_iter().scan((1, 25, 20), outward).collect::<Vec<_>>()).unwrap()
    })
}

/// (gap in ns, flow, how many at once or none for a change, cost)
type Wish = (u64, usize, Option<usize>, u64);

fn wishes(largest: u64) -> impl Strategy<Value = Vec<Wish>> {
    let gap =
        prop_oneof![4 => Just(0_u64), 3 => (1_u64..8).prop_map(|n| n * 10_000_000), 2 => 1_u64..60_000_000];
    let cost = prop_oneof![4 => Just(1_000), 1 => Just(largest), 2 => 1..=largest];
    let count =
        prop_oneof![6 => (1_usize..4).prop_map(Some), 2 => (4_usize..30).prop_map(Some), 1 => Just(None)];
    prop::collection::vec((gap, 0..=PROMISED, count, cost), 1..60)
}

/// The promises of an engine, with a background flow; `scheduler` has none yet.
fn engine(scheduler: Box<dyn Scheduler + Send>, before: &[Slo]) -> Engine {
    let mut engine = Engine::new(scheduler, NonZeroU32::MIN);
    for (flow, slo) in (0..).zip(before) {
        engine.handle_input(Time::ZERO, Input::Add(FlowId(flow), slo.clone())).unwrap();
    }
    let background = Input::Add(FlowId(PROMISED as u32), Slo::background());
    engine.handle_input(Time::ZERO, background).unwrap();
    engine
}

/// Checks that the promised requests of those flows that behave are in time.
fn check(records: &[(Record, u128)], capacity: u128, behaves: impl Fn(usize) -> bool) {
    let largest = records.iter().map(|(record, _)| record.request.cost.as_millis()).max().unwrap_or(0);
    // What the clocks round: the arrival, the tag, and the instant of each dispatch.
    let allowance = u128::from(largest) * 1_000_000_000 + 4 * capacity;
    let mut by_arrival: Vec<_> = records.iter().collect();
    by_arrival.sort_by_key(|(record, _)| record.request.id);
    let mut latest = BTreeMap::new();
    for (record, done) in by_arrival {
        let flow = record.request.flow.0 as usize;
        let Some(promise) = record.promise.filter(|_| behaves(flow)) else { continue };
        let latest = latest.entry((flow, record.class)).or_insert(Time::ZERO);
        *latest = (*latest).max(record.arrival + promise);
        let due = u128::from(latest.as_nanos()) * capacity;
        assert!(*done <= due + allowance, "flow {flow}: {} > {allowance}", done - due);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    /// pClock under each policy for spare capacity, SCED, and AVATAR with its rate control.
    #[test]
    fn the_well_behaved_are_in_time_while_promises_change(
        before in prop::collection::vec(envelopes(), PROMISED), after in prop::collection::vec(envelopes(), PROMISED),
        behaved in prop::array::uniform3(any::<bool>()), wishes in wishes(3_000), kind in 0..4,
    ) {
        let scheduler: Box<dyn Scheduler + Send> = match kind {
            0 => Box::new(PClock::with_spare(SpareCapacity::Flows)),
            1 => Box::new(PClock::with_spare(SpareCapacity::Background)),
            2 => Box::new(Sced::new()),
            _ => Box::new(Avatar::new()),
        };
        let capacity = [&before, &after].map(|set| u128::from(required_capacity(set).capacity.as_millis()));
        let mut meters: Vec<TokenBucket> =
            before.iter().map(|it| TokenBucket::new(Time::ZERO, it.burst(), it.rate())).collect();
        let behaves = |flow: usize| behaved.get(flow).is_some_and(|behaves| *behaves);
        let (mut at, mut events, mut changed) = (0, vec![], [false; PROMISED]);
        for (gap, flow, count, cost) in wishes {
            at += gap;
            let now = Time::from_nanos(at);
            match count {
                None if flow < PROMISED && !std::mem::replace(&mut changed[flow], true) => {
                    meters[flow].reconfigure(now, after[flow].burst(), after[flow].rate());
                    events.push((at, Event::Change(flow)));
                }
                None => {}
                Some(count) => for _ in 0..count {
                    if !behaves(flow) || meters[flow].take(now, Cost::from_millis(cost)) {
                        events.push((at, Event::Arrive(flow, cost)));
                    }
                }
            }
        }
        let [before, after] = [before, after].map(|set| set.into_iter().map(Slo::guaranteed).collect::<Vec<_>>());
        let capacity = capacity[0] + capacity[1];
        let records = serve(&mut engine(scheduler, &before), &after, capacity, &events);
        check(&records, capacity, behaves);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    /// Every classified request of Nested QoS, beside any excess and background work.
    #[test]
    fn no_classified_request_is_late_while_classes_change(
        before in prop::collection::vec(classes(), PROMISED), after in prop::collection::vec(classes(), PROMISED),
        wishes in wishes(1_000),
    ) {
        let (mut at, mut events) = (0, vec![]);
        for (gap, flow, count, cost) in wishes {
            at += gap;
            match count {
                None if flow < PROMISED => events.push((at, Event::Change(flow))),
                None => {}
                Some(count) => events.extend((0..count).map(|_| (at, Event::Arrive(flow, cost)))),
            }
        }
        let capacity = [&before, &after].map(|set| {
            let set: Vec<&[Envelope]> = set.iter().map(Slo::classes).collect();
            u128::from(nested_capacity(&set).capacity.as_millis())
        });
        let capacity = capacity[0] + capacity[1];
        let records = serve(&mut engine(Box::new(Nested::new()), &before), &after, capacity, &events);
        check(&records, capacity, |_| true);
    }
}

fn capacity_for(sets: [&[Slo]; 2]) -> u128 {
    let need = |set: &[Slo]| {
        let envelopes: Vec<Envelope> = set.iter().map(|slo| slo.classes()[0]).collect();
        u128::from(required_capacity(&envelopes).capacity.as_millis())
    };
    need(sets[0]) + need(sets[1])
}

fn schedulers() -> [Box<dyn Scheduler + Send>; 4] {
    [Box::new(PClock::new()), Box::new(Sced::new()), Box::new(Avatar::new()), Box::new(Nested::new())]
}

/// Requests of two flows at 0, between which flow 0 is promised something else.
fn around_a_change(of_first: usize, of_second: usize) -> Vec<(u64, Event)> {
    let burst = |flow, count| std::iter::repeat_n((0, Event::Arrive(flow, 1_000)), count);
    burst(0, of_first).chain([(0, Event::Change(0))]).chain(burst(1, of_second)).collect()
}

/// A volume has 19 requests waiting that are due in 475 ms when its bound becomes 25 ms. Its neighbour's three, due in
/// 50 ms, do not wait for them.
#[test]
fn a_shorter_bound_does_not_hurry_what_waits_past_others() {
    let before = [common::slo(19, 25, 475), common::slo(3, 25, 50)];
    let after = [common::slo(3, 25, 25), common::slo(3, 25, 50)];
    let capacity = capacity_for([&before, &after]);
    for scheduler in schedulers() {
        let name = scheduler.name();
        let records = serve(&mut engine(scheduler, &before), &after, capacity, &around_a_change(19, 3));
        let neighbour = records.iter().filter(|(record, _)| record.request.flow == FlowId(1));
        let last = neighbour.map(|(_, done)| *done).max().unwrap();
        assert!(
            last <= capacity * 50_000_000 + 2_000_000_000_000,
            "{name}: {} ms",
            last / capacity / 1_000_000
        );
        check(&records, capacity, |_| true);
    }
}

/// Three requests are due in 25 ms when their bound becomes 475 ms: they are not late by what they were promised.
#[test]
fn a_longer_bound_does_not_delay_what_was_promised_sooner() {
    let before = [common::slo(3, 25, 25), common::slo(19, 25, 100)];
    let after = [common::slo(3, 25, 475), common::slo(19, 25, 100)];
    let capacity = capacity_for([&before, &after]);
    for scheduler in schedulers() {
        check(
            &serve(&mut engine(scheduler, &before), &after, capacity, &around_a_change(3, 19)),
            capacity,
            |_| true,
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// To schedulers of one class of several the innermost counts: what was promised in an outer one is no bound of
    /// theirs, and goes where it would with the innermost class alone.
    #[test]
    fn of_several_classes_the_innermost_counts(
        arrivals in prop::collection::vec((0_usize..3, 0_u64..30_000_000), 1..60),
        rate in 20_u64..200, latency in 5_u64..100,
    ) {
        let inner = |flow: u64| Envelope::new(
            Cost::requests(1 + flow), Rate::per_second(rate / (1 + flow)), Span::from_millis(latency * (1 + flow)),
        ).unwrap();
        let outer = |flow: u64| Envelope::new(
            Cost::requests(20), Rate::per_second(400), Span::from_millis(latency * (1 + flow) * 10),
        ).unwrap();
        let single: Vec<Slo> = (0..3).map(|flow| Slo::guaranteed(inner(flow))).collect();
        let nested: Vec<Slo> = (0..3).map(|flow| Slo::nested(&[inner(flow), outer(flow)]).unwrap()).collect();
        let mut at = 0;
        let events: Vec<(u64, Event)> = arrivals.iter().map(|(flow, gap)| {
            at += gap;
            (at, Event::Arrive(*flow, 1_000))
        }).collect();
        let schedulers: [fn() -> Box<dyn Scheduler + Send>; 4] = [
            || Box::new(PClock::new()), || Box::new(Sced::new()), || Box::new(Edf::new()), || Box::new(Avatar::new()),
        ];
        for make in schedulers {
            let [one, several] = [&single, &nested].map(|slos| {
                let records = serve(&mut engine(make(), slos), slos, 100_000, &events);
                records.iter().map(|(record, _)| record.request.id).collect::<Vec<_>>()
            });
            prop_assert_eq!(one, several, "{}", make().name());
        }
    }
}
