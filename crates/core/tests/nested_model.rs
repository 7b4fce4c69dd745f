//! Nested QoS against a quadratic model of it: all waiting requests in one vector, the classes by the
//! definition ("the smallest k with tokens(j) ≥ cost for all j ≥ k"), everything searched for.

mod common;

use common::request;
use common::side_by_side::{Model, Pair, Step, steps};
use evenkeel_core::sched::nested::Nested;
use evenkeel_core::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Promise {
    /// (σ in 1/1000 request, ρ in 1/1000 per second, δ in ns), innermost first.
    Classes(Vec<(i128, i128, i128)>),
    Background(u32),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// In class k; of a class that is dropped it keeps the latency.
    Class(usize),
    Excess,
    Background,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: u64,
    flow: usize,
    cost: i128,
    arrived: i128,
    latency: i128,
    place: Place,
    /// When it came into the queue where it is, among all.
    turn: u64,
}

#[derive(Clone, Debug)]
struct Flow {
    promise: Promise,
    /// In 1e-12 request.
    tokens: Vec<i128>,
    refilled: i128,
    virtual_start: u128,
    virtual_finish: u128,
}

#[derive(Default)]
struct Graduated {
    flows: Vec<Option<Flow>>,
    /// In the order of arrival.
    waiting: Vec<Waiting>,
    now: i128,
    virtual_now: u128,
    turns: u64,
}

impl Flow {
    fn classes(&self) -> &[(i128, i128, i128)] {
        if let Promise::Classes(classes) = &self.promise { classes } else { &[] }
    }

    fn refill(&mut self, now: i128) {
        let classes = self.classes().to_vec();
        for (tokens, (burst, rate, _)) in self.tokens.iter_mut().zip(classes) {
            *tokens = (*tokens + (now - self.refilled) * rate).min(burst * 1_000_000_000);
        }
        self.refilled = now;
    }

    fn classify(&mut self, now: i128, cost: i128) -> Place {
        self.refill(now);
        let needed = cost * 1_000_000_000;
        let all_from = |k: &usize| self.tokens[*k..].iter().all(|tokens| *tokens >= needed);
        let Some(class) = (0..self.tokens.len()).find(all_from) else { return Place::Excess };
        for tokens in &mut self.tokens[class..] {
            *tokens -= needed;
        }
        Place::Class(class)
    }
}

impl Model for Graduated {
    type Promise = Promise;

    fn slo_of(promise: &Promise) -> Slo {
        match promise {
            Promise::Background(weight) => Slo::background().with_weight(Weight::new(*weight).unwrap()),
            Promise::Classes(classes) => {
                let envelope = |&(burst, rate, latency): &(i128, i128, i128)| {
                    let (burst, rate) = (Cost::from_millis(burst as u64), Rate::from_millis(rate as u64));
                    Envelope::new(burst, rate, Span::from_nanos(latency as u64)).unwrap()
                };
                Slo::nested(&classes.iter().map(envelope).collect::<Vec<_>>()).unwrap()
            }
        }
    }

    fn now(&self) -> u64 {
        self.now as u64
    }

    fn wait(&mut self, nanos: u64) {
        self.now += i128::from(nanos);
    }

    fn backlog(&self, flow: usize) -> usize {
        self.waiting.iter().filter(|waiting| waiting.flow == flow).count()
    }

    fn configure(&mut self, id: usize, promise: &Promise) {
        let now = self.now;
        let classes = if let Promise::Classes(classes) = promise { classes.clone() } else { vec![] };
        let old = self.flows[id].take();
        let mut flow = Flow {
            promise: promise.clone(),
            tokens: classes.iter().map(|(burst, ..)| burst * 1_000_000_000).collect(),
            refilled: now,
            virtual_start: self.virtual_now,
            virtual_finish: 0,
        };
        if let Some(mut old) = old {
            old.refill(now);
            if (old.tokens.len() > 1) == (classes.len() > 1) {
                for (new, old) in flow.tokens.iter_mut().zip(&old.tokens) {
                    *new = *old.min(new);
                }
            }
            if classes.is_empty() && old.tokens.is_empty() {
                (flow.virtual_start, flow.virtual_finish) = (old.virtual_start, old.virtual_finish);
            }
        }
        for waiting in self.waiting.iter_mut().filter(|waiting| waiting.flow == id) {
            match waiting.place {
                Place::Class(class) if class < classes.len() => waiting.latency = classes[class].2,
                Place::Background if !classes.is_empty() => {
                    waiting.place = flow.classify(now, waiting.cost);
                    waiting.arrived = now;
                    self.turns += 1;
                    waiting.turn = self.turns;
                    waiting.latency =
                        if let Place::Class(class) = waiting.place { classes[class].2 } else { 0 };
                }
                _ => {}
            }
        }
        self.flows[id] = Some(flow);
    }

    fn remove(&mut self, flow: usize) -> bool {
        let may = self.flows[flow].is_some() && self.backlog(flow) == 0;
        if may {
            self.flows[flow] = None;
        }
        may
    }

    fn arrive(&mut self, id: u64, index: usize, cost: u64) -> bool {
        let (now, virtual_now, cost) = (self.now, self.virtual_now, i128::from(cost));
        let in_background = |waiting: &Waiting| waiting.flow == index && waiting.place == Place::Background;
        let was_busy = self.waiting.iter().any(in_background);
        let Some(flow) = &mut self.flows[index] else { return false };
        let (mut place, mut latency) = (Place::Background, 0);
        if flow.classes().is_empty() {
            if !was_busy {
                flow.virtual_start = flow.virtual_finish.max(virtual_now);
            }
        } else {
            place = flow.classify(now, cost);
            latency = if let Place::Class(class) = place { flow.classes()[class].2 } else { 0 };
        }
        self.turns += 1;
        let turn = self.turns;
        self.waiting.push(Waiting { id, flow: index, cost, arrived: now, latency, place, turn });
        true
    }

    fn dispatch(&mut self) -> Option<(u64, Option<i128>)> {
        let classified = self.waiting.iter().filter(|waiting| matches!(waiting.place, Place::Class(_)));
        if let Some(first) = classified.min_by_key(|waiting| waiting.arrived + waiting.latency).copied() {
            self.waiting.retain(|waiting| waiting.id != first.id);
            return Some((first.id, Some(first.arrived + first.latency)));
        }
        let excess = self.waiting.iter().filter(|waiting| waiting.place == Place::Excess);
        if let Some(first) = excess.min_by_key(|waiting| waiting.turn).copied() {
            self.waiting.retain(|waiting| waiting.id != first.id);
            return Some((first.id, None));
        }
        let start = |waiting: &&Waiting| self.flows[waiting.flow].as_ref().unwrap().virtual_start;
        let first = *self.waiting.iter().min_by_key(start)?;
        self.waiting.retain(|waiting| waiting.id != first.id);
        let flow = self.flows[first.flow].as_mut().unwrap();
        let Promise::Background(weight) = flow.promise else { panic!("a background flow") };
        self.virtual_now = flow.virtual_start;
        flow.virtual_finish = flow.virtual_start + ((first.cost as u128) << 40) / u128::from(weight);
        flow.virtual_start = flow.virtual_finish;
        Some((first.id, None))
    }
}

const FLOWS: usize = 5;

fn promises() -> impl Strategy<Value = Promise> {
    let burst = prop_oneof![3 => (0_i128..4).prop_map(|n| n * 1_000), 1 => 0_i128..4_000];
    let rate = prop_oneof![(1_i128..10).prop_map(|n| n * 50_000), 1_i128..1_000_000];
    let latency = prop_oneof![(1_i128..8).prop_map(|n| n * 10_000_000), 1_i128..80_000_000];
    let classes = prop::collection::vec((burst, rate, latency), 1..5).prop_map(|steps| {
        let outward = |sum: &mut (i128, i128, i128), step: (i128, i128, i128)| {
            *sum = (sum.0 + step.0, sum.1 + step.1, sum.2 + step.2);
            Some(*sum)
        };
        Promise::Classes(steps.into_iter().scan((0, 0, 0), outward).collect())
    });
    prop_oneof![4 => classes, 1 => (1_u32..8).prop_map(Promise::Background)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn dispatches_what_the_model_dispatches(
        promises in prop::collection::vec(promises(), FLOWS), steps in steps(FLOWS, 5_000, promises(), vec![]),
    ) {
        let model = Graduated { flows: vec![None; FLOWS], ..Graduated::default() };
        Pair::new(model, Nested::new(), FLOWS, &promises).run(&steps);
    }

    /// The engine's judgement is the same cascade: class, promise and the deadline of the scheduler agree.
    #[test]
    fn the_engine_promises_what_the_scheduler_keeps(
        promises in prop::collection::vec(promises(), FLOWS), steps in steps(FLOWS, 5_000, promises(), vec![]),
    ) {
        let mut engine = Engine::new(Box::new(Nested::new()), std::num::NonZeroU32::MIN);
        let mut flows: Vec<Option<Flow>> = vec![None; FLOWS];
        let mut expected = std::collections::BTreeMap::new();
        let (mut now, mut id) = (0_i128, 0);
        let mut model = Graduated { flows: vec![None; FLOWS], ..Graduated::default() };
        let configures = promises.iter().cloned().enumerate().map(|(flow, promise)| Step::Configure(flow, promise));
        for step in configures.chain(steps) {
            let at = Time::from_nanos(now as u64);
            model.now = now;
            match step {
                Step::Wait(nanos) => now += i128::from(nanos),
                Step::Configure(flow, promise) => {
                    engine.handle_input(at, Input::Configure(FlowId(flow as u32), Graduated::slo_of(&promise))).unwrap();
                    model.configure(flow, &promise);
                    flows[flow] = model.flows[flow].clone();
                }
                Step::Arrive { flow, count, cost } => for _ in 0..count {
                    engine.handle_input(at, Input::Arrival(request(id, flow, cost))).unwrap();
                    let several = model.flows[flow].as_ref().unwrap().classes().len() > 1;
                    model.arrive(id, flow, cost);
                    let judged = model.waiting.pop().unwrap();
                    if several {
                        let class = if let Place::Class(class) = judged.place { Some(class as u8) } else { None };
                        let promise = class.map(|_| Span::from_nanos(judged.latency as u64));
                        expected.insert(id, (class, promise));
                    }
                    id += 1;
                },
                _ => {}
            }
        }
        let mut over = 0;
        while let Some(output) = engine.poll_output(Time::from_nanos(now as u64)) {
            match output {
                Output::Submit(submission) => {
                    let completion = Completion::new(submission.ticket, Outcome::Done);
                    engine.handle_input(Time::from_nanos(now as u64), Input::Completion(completion)).unwrap();
                }
                Output::Reply(record) => {
                    over += 1;
                    if let Some(judged) = expected.get(&record.request.id.0) {
                        prop_assert_eq!((record.class, record.promise), *judged);
                    } else {
                        prop_assert_eq!(record.class, record.promise.map(|_| 0));
                    }
                }
            }
        }
        prop_assert_eq!(over, id);
    }
}
