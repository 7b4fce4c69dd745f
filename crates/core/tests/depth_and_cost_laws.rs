//! The guarantees with requests of different cost and with several of them at the store, also when their number
//! changes all the time as a program may choose.
//!
//! A store of capacity C (cost per second) meets the capacity constraint. Up to D requests are outstanding, of
//! cost c at most. A request that keeps to its promise is done by its deadline plus
//!
//! - `D·c/C`, if the store works on one request after the other at speed C: when the last request with a later
//!   deadline went, at most D were there; from then on the store has worked only for them and for
//!   requests that are due no later, and of those no more than fit.
//! - `(2D − 1)·c/C`, if it works on D at a time at speed C/D each: likewise, and the last request
//!   takes D·c/C by itself, of which the constraint knows c/C.
//!
//! With D = 1 both are the one service time of the theorems.

mod common;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use common::request;
use evenkeel_core::admission::{nested_capacity_of_costs, required_capacity};
use evenkeel_core::sched::avatar::Avatar;
use evenkeel_core::sched::nested::Nested;
use evenkeel_core::sched::pclock::PClock;
use evenkeel_core::sched::sced::Sced;
use evenkeel_core::*;
use proptest::prelude::*;

const FLOWS: usize = 4;

/// A request to come: ns, flow, cost in thousandths.
type Sent = (u64, usize, u64);

/// A store of `capacity` thousandths per second with `depth` places. Its time is nanoseconds times the
/// capacity, in which a thousandth takes 10⁹ at full speed, so that nothing rounds.
struct Store {
    capacity: u128,
    depth: usize,
    /// How many of the places are used, in turn from one instant to the next: a depth that a program chooses. A
    /// store that works on several at a time has them all.
    chosen: Vec<usize>,
    parallel: bool,
    /// When the requests at the store are done.
    busy: BinaryHeap<Reverse<(u128, u64)>>,
    last: u128,
}

impl Store {
    fn submit(&mut self, now: u128, id: u64, cost: u64) -> u128 {
        let work = u128::from(cost) * 1_000_000_000;
        let done = if self.parallel { now + work * self.depth as u128 } else { self.last.max(now) + work };
        self.last = done;
        self.busy.push(Reverse((done, id)));
        done
    }
}

/// When each request was done, in the store's time.
fn serve(scheduler: &mut dyn Scheduler, store: &mut Store, sent: &[Sent]) -> BTreeMap<u64, u128> {
    let mut arrivals: VecDeque<_> = (0_u64..).zip(sent.iter().copied()).collect();
    let (mut done, mut waiting, mut now, mut turn) = (BTreeMap::new(), 0, 0_u128, 0);
    loop {
        let clock = Time::from_nanos(now.div_ceil(store.capacity) as u64);
        while let Some((id, (_, flow, cost))) = arrivals.pop_front_if(|(_, (at, ..))| *at <= clock.as_nanos())
        {
            scheduler.on_arrival(clock, Arrival::new(clock, request(id, flow, cost))).unwrap();
            waiting += 1;
        }
        turn += 1;
        let chosen = store.chosen[turn % store.chosen.len()];
        let depth = if store.parallel { store.depth } else { chosen.clamp(1, store.depth) };
        while store.busy.len() < depth {
            let chosen = common::dispatch(scheduler, clock);
            assert_eq!(chosen.is_some(), waiting > 0, "work conservation");
            let Some(chosen) = chosen else { break };
            let (id, cost) = (chosen.request.id.0, chosen.request.cost.as_millis());
            assert!(done.insert(id, store.submit(now, id, cost)).is_none(), "served once");
            waiting -= 1;
        }
        let arrival = arrivals.front().map(|(_, (at, ..))| u128::from(*at) * store.capacity);
        let completion = store.busy.peek().map(|Reverse((at, _))| *at);
        let Some(next) = arrival.into_iter().chain(completion).min() else { return done };
        now = now.max(next);
        while store.busy.peek().is_some_and(|Reverse((at, _))| *at <= now) {
            store.busy.pop();
        }
    }
}

/// How late a request may be, in the store's time.
fn allowance(store: &Store, largest: u64) -> u128 {
    let depth = store.depth as u128;
    let services = if store.parallel { 2 * depth - 1 } else { depth };
    // What the clocks round: the arrival, the tag, and the instant of each dispatch.
    services * u128::from(largest) * 1_000_000_000 + 4 * store.capacity
}

fn envelopes() -> impl Strategy<Value = Envelope> {
    let round = ((3_u64..20).prop_map(|n| n * 1_000), (1_u64..20).prop_map(|n| n * 25_000), 2_u64..12);
    let any = (3_000_u64..30_000, 1_000_u64..500_000, 2_u64..12);
    prop_oneof![round, any].prop_map(|(burst, rate, tens)| {
        let latency = Span::from_millis(25 * tens);
        Envelope::new(Cost::from_millis(burst), Rate::from_millis(rate), latency).unwrap()
    })
}

fn wishes(largest: u64) -> impl Strategy<Value = Vec<(u64, usize, usize, u64)>> {
    let gap =
        prop_oneof![2 => Just(0_u64), 3 => (1_u64..8).prop_map(|n| n * 10_000_000), 2 => 1_u64..60_000_000];
    let cost = prop_oneof![2 => Just(1_000), 1 => Just(largest), 2 => 1..=largest];
    prop::collection::vec((gap, 0..FLOWS, prop_oneof![3 => 1_usize..4, 1 => 4_usize..30], cost), 1..60)
}

/// Requests in the order of time; those of well-behaved flows only as their envelopes allow.
fn sent(wishes: &[(u64, usize, usize, u64)], mut allows: impl FnMut(usize, Time, Cost) -> bool) -> Vec<Sent> {
    let (mut now, mut sent) = (0, vec![]);
    for (gap, flow, count, cost) in wishes {
        now += gap;
        for _ in 0..*count {
            if allows(*flow, Time::from_nanos(now), Cost::from_millis(*cost)) {
                sent.push((now, *flow, *cost));
            }
        }
    }
    sent
}

/// Half of the time always all places.
fn chosen() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![Just(vec![8]), prop::collection::vec(1_usize..9, 2..30)]
}

fn largest(sent: &[Sent]) -> u64 {
    sent.iter().map(|(.., cost)| *cost).max().unwrap_or(0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// pClock under each policy for spare capacity, SCED, and AVATAR with its rate control. The last flow
    /// is a background flow; of the others some send more than they should.
    #[test]
    fn the_well_behaved_are_in_time_at_any_depth_and_cost(
        flows in prop::collection::vec((envelopes(), any::<bool>()), FLOWS - 1),
        wishes in wishes(3_000),
        depth in 1_usize..9, chosen in chosen(), parallel in any::<bool>(), kind in 0..4,
    ) {
        let mut scheduler: Box<dyn Scheduler> = match kind {
            0 => Box::new(PClock::with_spare(SpareCapacity::Flows)),
            1 => Box::new(PClock::with_spare(SpareCapacity::Background)),
            2 => Box::new(Sced::new()),
            _ => Box::new(Avatar::new()),
        };
        let envelopes: Vec<Envelope> = flows.iter().map(|flow| flow.0).collect();
        let mut meters: Vec<TokenBucket> =
            envelopes.iter().map(|it| TokenBucket::new(Time::ZERO, it.burst(), it.rate())).collect();
        for (flow, envelope) in (0..).zip(&envelopes) {
            scheduler.configure(Time::ZERO, FlowId(flow), &Slo::guaranteed(*envelope)).unwrap();
        }
        scheduler.configure(Time::ZERO, FlowId(FLOWS as u32 - 1), &Slo::background()).unwrap();
        let behaves = |flow: usize| flows.get(flow).is_some_and(|flow| flow.1);
        let sent = sent(&wishes, |flow, now, cost| !behaves(flow) || meters[flow].take(now, cost));
        let capacity = u128::from(required_capacity(&envelopes).capacity.as_millis());
        let mut store = Store { capacity, depth, chosen, parallel, busy: BinaryHeap::new(), last: 0 };
        let done = serve(scheduler.as_mut(), &mut store, &sent);
        prop_assert_eq!(done.len(), sent.len());
        let allowance = allowance(&store, largest(&sent));
        for ((at, flow, _), done) in sent.iter().zip(done.values()).filter(|((_, flow, _), _)| behaves(*flow)) {
            let deadline = u128::from(at + envelopes[*flow].latency().as_nanos()) * capacity;
            prop_assert!(*done <= deadline + allowance, "flow {}: {} > {}", flow, *done - deadline, allowance);
        }
    }

    /// Nested QoS: every classified request, with costs up to the largest that the capacity is worked out with, the
    /// one request of the lemmas or three, and beside excess and background work of any cost.
    #[test]
    fn no_classified_request_is_late_at_any_depth_and_cost(
        steps in prop::collection::vec(prop::collection::vec((0_u64..8, 0_u64..4, 0_u64..5), 1..4), FLOWS - 1),
        (dearest, wishes) in prop_oneof![Just(1_000), Just(3_000)].prop_flat_map(|most| (Just(most), wishes(most))),
        depth in 1_usize..9, chosen in chosen(), parallel in any::<bool>(),
    ) {
        let slos: Vec<Slo> = steps.iter().map(|steps| classes(steps)).collect();
        let mut nested = Nested::new();
        let mut cascades: Vec<Cascade> =
            slos.iter().map(|slo| Cascade::new(Time::ZERO, slo.classes())).collect();
        for (flow, slo) in (0..).zip(&slos) {
            nested.configure(Time::ZERO, FlowId(flow), slo).unwrap();
        }
        nested.configure(Time::ZERO, FlowId(FLOWS as u32 - 1), &Slo::background()).unwrap();
        let sent = sent(&wishes, |_, _, _| true);
        let needs: Vec<_> = slos.iter().map(|slo| (slo.classes(), Cost::from_millis(dearest))).collect();
        let capacity = u128::from(nested_capacity_of_costs(&needs).capacity.as_millis());
        let mut store = Store { capacity, depth, chosen, parallel, busy: BinaryHeap::new(), last: 0 };
        let done = serve(&mut nested, &mut store, &sent);
        prop_assert_eq!(done.len(), sent.len());
        let allowance = allowance(&store, largest(&sent));
        for ((at, flow, cost), done) in sent.iter().zip(done.values()) {
            let Some(cascade) = cascades.get_mut(*flow) else { continue };
            let class = cascade.classify(Time::from_nanos(*at), Cost::from_millis(*cost));
            let Some(class) = class else { continue };
            let latency = slos[*flow].classes()[usize::from(class)].latency();
            let deadline = u128::from(at + latency.as_nanos()) * capacity;
            prop_assert!(*done <= deadline + allowance, "flow {}: {} > {}", flow, *done - deadline, allowance);
        }
    }

    /// A synchronization never increases a tag: no deadline of pClock is later than the same request's under
    /// SCED, which has the same tags without synchronizations, however the two are dispatched.
    #[test]
    fn synchronization_never_increases_tags(
        flows in prop::collection::vec(envelopes(), FLOWS), wishes in wishes(3_000), depth in 1_usize..5,
        capacity in 20_000_u128..400_000,
    ) {
        let sent = sent(&wishes, |_, _, _| true);
        let deadlines = |mut scheduler: Box<dyn Scheduler>| {
            for (flow, envelope) in (0..).zip(&flows) {
                scheduler.configure(Time::ZERO, FlowId(flow), &Slo::guaranteed(*envelope)).unwrap();
            }
            let mut noted = Noted { scheduler, deadlines: BTreeMap::new() };
            let chosen = vec![depth];
            let mut store = Store { capacity, depth, chosen, parallel: false, busy: BinaryHeap::new(), last: 0 };
            serve(&mut noted, &mut store, &sent);
            noted.deadlines
        };
        let (pclock, sced) = (deadlines(Box::new(PClock::new())), deadlines(Box::new(Sced::new())));
        for (id, deadline) in &pclock {
            prop_assert!(*deadline <= sced[id], "request {}: {:?} > {:?}", id, deadline, sced[id]);
        }
    }
}

fn classes(steps: &[(u64, u64, u64)]) -> Slo {
    let mut sums = (1, 25, 20);
    let mut classes = vec![];
    for (burst, rate, latency) in steps {
        sums = (sums.0 + burst, sums.1 + 25 * rate, sums.2 + 20 * latency);
        classes.extend(common::slo(sums.0, sums.1, sums.2).classes());
    }
    Slo::nested(&classes).unwrap()
}

/// A scheduler whose finish tags are written down.
struct Noted {
    scheduler: Box<dyn Scheduler>,
    deadlines: BTreeMap<u64, Option<Time>>,
}

impl Scheduler for Noted {
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
        if let Decision::Dispatch(dispatch) = decision {
            self.deadlines.insert(dispatch.request.id.0, dispatch.finish_tag);
        }
        decision
    }

    fn on_completion(&mut self, now: Time, request: &Request, completion: &Completion) {
        self.scheduler.on_completion(now, request, completion);
    }

    fn backlog(&self, flow: FlowId) -> usize {
        self.scheduler.backlog(flow)
    }
}
