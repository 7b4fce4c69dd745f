//! SCED and EDF against one quadratic model of both: all waiting requests in one vector, everything
//! searched for.

mod common;

use common::request;
use evenkeel_core::sched::edf::Edf;
use evenkeel_core::sched::sced::Sced;
use evenkeel_core::*;
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Promise {
    Guaranteed { burst: i128, rate: i128, latency: i128 },
    Background { weight: u32 },
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    promise: Promise,
    /// In 1e-12 request.
    tokens: i128,
    refilled: i128,
    /// The frontier times the rate: exact without remainders.
    frontier: i128,
    overrun: bool,
    virtual_start: u128,
    virtual_finish: u128,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: u64,
    flow: usize,
    cost: i128,
    start: i128,
}

/// Requests are in the order of their arrival, so "the first" is "the oldest" throughout.
struct Model {
    sced: bool,
    flows: Vec<Option<Flow>>,
    waiting: Vec<Waiting>,
    now: i128,
    virtual_now: u128,
}

/// Before every tag.
const LONG_AGO: i128 = -(1 << 67);

impl Flow {
    fn new(now: i128, promise: Promise) -> Self {
        let tokens = if let Promise::Guaranteed { burst, .. } = promise { burst * 1_000_000_000 } else { 0 };
        Self {
            promise,
            tokens,
            refilled: now,
            frontier: -(1 << 110),
            overrun: false,
            virtual_start: 0,
            virtual_finish: 0,
        }
    }

    fn guaranteed(&self) -> Option<(i128, i128, i128)> {
        match self.promise {
            Promise::Guaranteed { burst, rate, latency } => Some((burst, rate, latency)),
            Promise::Background { .. } => None,
        }
    }

    fn refill(&mut self, now: i128) {
        let (burst, rate, _) = self.guaranteed().unwrap();
        self.tokens = (self.tokens + (now - self.refilled) * rate).min(burst * 1_000_000_000);
        self.refilled = now;
    }

    /// ComputeTags for SCED; for EDF the arrival.
    fn stamp(&mut self, sced: bool, now: i128, cost: i128, behind: i128) -> i128 {
        if !sced {
            return now.max(behind);
        }
        let (burst, rate, _) = self.guaranteed().unwrap();
        self.refill(now);
        let (tokens, needed) = (self.tokens, cost * 1_000_000_000);
        self.tokens -= needed;
        if tokens >= needed {
            self.overrun = false;
            return now.max(behind);
        }
        if !self.overrun {
            let lacking = (needed - burst * 1_000_000_000).max(0);
            self.frontier = self.frontier.max(now * rate - tokens - lacking);
            self.overrun = true;
        }
        self.frontier = (self.frontier + needed).max(now * rate).max(behind * rate);
        self.frontier.div_euclid(rate)
    }
}

impl Model {
    fn guaranteed(&self, flow: usize) -> Option<(i128, i128, i128)> {
        self.flows[flow].as_ref().and_then(Flow::guaranteed)
    }

    fn busy(&self, flow: usize) -> bool {
        self.waiting.iter().any(|waiting| waiting.flow == flow)
    }

    fn heads(&self, guaranteed: bool) -> impl Iterator<Item = Waiting> + '_ {
        let is_head =
            |i: &usize| self.waiting[..*i].iter().all(|before| before.flow != self.waiting[*i].flow);
        let heads = (0..self.waiting.len()).filter(is_head).map(|i| self.waiting[i]);
        heads.filter(move |head| self.guaranteed(head.flow).is_some() == guaranteed)
    }

    fn configure(&mut self, id: usize, promise: Promise) {
        let (now, sced) = (self.now, self.sced);
        let mut new = Flow::new(now, promise);
        match (self.guaranteed(id), new.guaranteed()) {
            (Some((_, old_rate, _)), Some((burst, rate, _))) => {
                let mut old = self.flows[id].unwrap();
                old.refill(now);
                let whole = old.frontier.div_euclid(old_rate);
                new.frontier = whole * rate + old.frontier.rem_euclid(old_rate) * rate / old_rate;
                new.tokens = old.tokens.min(burst * 1_000_000_000);
                new.overrun = old.overrun;
            }
            (None, Some(_)) => {
                let mut behind = LONG_AGO;
                for waiting in self.waiting.iter_mut().filter(|waiting| waiting.flow == id) {
                    waiting.start = new.stamp(sced, now, waiting.cost, behind);
                    behind = waiting.start;
                }
            }
            (Some(_), None) => new.virtual_start = self.virtual_now,
            (None, None) => {
                if let Some(old) = self.flows[id] {
                    (new.virtual_start, new.virtual_finish) = (old.virtual_start, old.virtual_finish);
                }
            }
        }
        self.flows[id] = Some(new);
    }

    fn remove(&mut self, flow: usize) -> bool {
        let may = self.flows[flow].is_some() && !self.busy(flow);
        if may {
            self.flows[flow] = None;
        }
        may
    }

    fn arrive(&mut self, id: u64, index: usize, cost: i128) -> bool {
        let (now, sced, virtual_now, was_busy) = (self.now, self.sced, self.virtual_now, self.busy(index));
        let behind = self.waiting.iter().rfind(|waiting| waiting.flow == index);
        let behind = behind.map_or(LONG_AGO, |last| last.start);
        let Some(flow) = &mut self.flows[index] else { return false };
        let mut start = 0;
        if flow.guaranteed().is_some() {
            start = flow.stamp(sced, now, cost, behind);
        } else if !was_busy {
            flow.virtual_start = flow.virtual_finish.max(virtual_now);
        }
        self.waiting.push(Waiting { id, flow: index, cost, start });
        true
    }

    /// The identifier and the finish tag of what goes next.
    fn dispatch(&mut self) -> Option<(u64, Option<i128>)> {
        let finish = |head: &Waiting| head.start + self.guaranteed(head.flow).unwrap().2;
        if let Some(first) = self.heads(true).min_by_key(finish) {
            let tag = finish(&first);
            self.waiting.retain(|waiting| waiting.id != first.id);
            return Some((first.id, Some(tag)));
        }
        let start = |head: &Waiting| self.flows[head.flow].unwrap().virtual_start;
        let first = self.heads(false).min_by_key(start)?;
        self.waiting.retain(|waiting| waiting.id != first.id);
        let flow = self.flows[first.flow].as_mut().unwrap();
        let Promise::Background { weight } = flow.promise else { panic!("a background flow") };
        self.virtual_now = flow.virtual_start;
        flow.virtual_finish = flow.virtual_start + ((first.cost as u128) << 40) / u128::from(weight);
        flow.virtual_start = flow.virtual_finish;
        Some((first.id, None))
    }
}

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Arrive { flow: usize, count: u8, cost: u64 },
    Dispatch(u8),
    Configure(usize, Promise),
    Remove(usize),
}

const FLOWS: usize = 6;

fn promises() -> impl Strategy<Value = Promise> {
    let burst = prop_oneof![3 => (0_i128..6).prop_map(|n| n * 1_000), 1 => 0_i128..6_000];
    let rate = prop_oneof![(1_i128..20).prop_map(|n| n * 50_000), 1_i128..2_000_000];
    let latency = prop_oneof![(1_i128..20).prop_map(|n| n * 10_000_000), 1_i128..200_000_000];
    let guaranteed = (burst, rate, latency);
    prop_oneof![
        3 => guaranteed.prop_map(|(burst, rate, latency)| Promise::Guaranteed { burst, rate, latency }),
        1 => (1_u32..8).prop_map(|weight| Promise::Background { weight }),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let waits = prop_oneof![Just(10_000_000_u64), 0_u64..30_000_000, 0_u64..1_000];
    let costs = prop_oneof![4 => Just(1_000_u64), 1 => 0_u64..5_000];
    let step = prop_oneof![
        8 => waits.prop_map(Step::Wait),
        12 => (0..FLOWS, 1_u8..6, costs).prop_map(|(flow, count, cost)| Step::Arrive { flow, count, cost }),
        12 => (1_u8..5).prop_map(Step::Dispatch),
        1 => (0..FLOWS, promises()).prop_map(|(flow, promise)| Step::Configure(flow, promise)),
        1 => (0..FLOWS).prop_map(Step::Remove),
    ];
    prop::collection::vec(step, 1..120)
}

fn slo_of(promise: Promise) -> Slo {
    match promise {
        Promise::Background { weight } => Slo::background().with_weight(Weight::new(weight).unwrap()),
        Promise::Guaranteed { burst, rate, latency } => {
            let rate = Rate::from_millis(rate as u64);
            let latency = Span::from_nanos(latency as u64);
            Slo::guaranteed(Envelope::new(Cost::from_millis(burst as u64), rate, latency).unwrap())
        }
    }
}

/// Both side by side.
struct Pair {
    model: Model,
    real: Box<dyn Scheduler>,
    next_id: u64,
}

impl Pair {
    fn dispatch(&mut self) -> bool {
        let now = Time::from_nanos(self.model.now as u64);
        let expected = self.model.dispatch();
        let dispatched = common::dispatch(self.real.as_mut(), now);
        let tag = |tag: i128| Time::from_nanos(tag.max(0) as u64);
        assert_eq!(
            dispatched.map(|dispatch| (dispatch.request.id.0, dispatch.finish_tag)),
            expected.map(|(id, finish)| (id, finish.map(tag)))
        );
        expected.is_some()
    }

    fn step(&mut self, step: &Step) {
        let now = Time::from_nanos(self.model.now as u64);
        match *step {
            Step::Wait(nanos) => self.model.now += i128::from(nanos),
            Step::Arrive { flow, count, cost } => {
                for _ in 0..count {
                    let arrival = Arrival::new(now, request(self.next_id, flow, cost));
                    let taken = self.real.on_arrival(now, arrival).is_ok();
                    assert_eq!(taken, self.model.arrive(self.next_id, flow, cost.into()));
                    self.next_id += 1;
                }
            }
            Step::Dispatch(count) => (0..count).for_each(|_| _ = self.dispatch()),
            Step::Configure(flow, promise) => {
                self.model.configure(flow, promise);
                self.real.configure(now, FlowId(flow as u32), &slo_of(promise)).unwrap();
            }
            Step::Remove(flow) => {
                let removed = self.real.remove(now, FlowId(flow as u32)).is_ok();
                assert_eq!(removed, self.model.remove(flow));
            }
        }
    }
}

fn compare(sced: bool, promises: &[Promise], steps: &[Step]) {
    let model = Model { sced, flows: vec![None; FLOWS], waiting: vec![], now: 0, virtual_now: 0 };
    let real: Box<dyn Scheduler> = if sced { Box::new(Sced::new()) } else { Box::new(Edf::new()) };
    let mut pair = Pair { model, real, next_id: 0 };
    for (flow, promise) in promises.iter().enumerate() {
        pair.step(&Step::Configure(flow, *promise));
    }
    for step in steps {
        pair.step(step);
    }
    while pair.dispatch() {
        pair.step(&Step::Wait(1_000_000));
    }
    for flow in 0..FLOWS {
        assert_eq!(pair.real.backlog(FlowId(flow as u32)), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]

    #[test]
    fn sced_dispatches_what_the_model_dispatches(
        promises in prop::collection::vec(promises(), FLOWS), steps in steps(),
    ) {
        compare(true, &promises, &steps);
    }

    #[test]
    fn edf_dispatches_what_the_model_dispatches(
        promises in prop::collection::vec(promises(), FLOWS), steps in steps(),
    ) {
        compare(false, &promises, &steps);
    }
}
