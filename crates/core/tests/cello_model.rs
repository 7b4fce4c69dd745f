//! Cello against a quadratic model: all waiting requests in one vector, searched for whatever is needed.

mod common;

use common::request;
use evenkeel_core::sched::cello::{Cello, CelloConfig};
use evenkeel_core::*;
use proptest::prelude::*;

const FLOWS: usize = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Promise {
    RealTime { latency: u128 },
    BestEffort { class: usize, weight: u32 },
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    promise: Promise,
    finish: u128,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: u64,
    flow: usize,
    cost: u64,
    at: u128,
}

/// Classes are real-time, interactive, throughput. Requests are in the order of their arrival.
struct Model {
    flows: Vec<Option<Flow>>,
    waiting: Vec<Waiting>,
    store: Vec<Waiting>,
    allocations: [i128; 3],
    left: [i128; 3],
    clocks: [u128; 3],
    pace: Option<u128>,
    since: u128,
    now: u128,
}

impl Model {
    fn new(config: CelloConfig) -> Self {
        let allocations = [config.real_time, config.interactive, config.throughput]
            .map(|weight| i128::from(weight.as_u32()) * i128::from(config.quantum.as_millis()));
        Self {
            flows: vec![None; FLOWS],
            waiting: vec![],
            store: vec![],
            allocations,
            left: allocations,
            clocks: [0; 3],
            pace: None,
            since: 0,
            now: 0,
        }
    }

    fn class(&self, flow: usize) -> usize {
        match self.flows[flow].unwrap().promise {
            Promise::RealTime { .. } => 0,
            Promise::BestEffort { class, .. } => class,
        }
    }

    /// The next request of the class.
    fn next(&self, class: usize) -> Option<Waiting> {
        let first =
            |it: &Waiting| self.waiting.iter().find(|other| other.flow == it.flow).unwrap().id == it.id;
        let heads = self.waiting.iter().filter(|it| self.class(it.flow) == class && first(it));
        heads.min_by_key(|it| (self.rank(it), it.id)).copied()
    }

    /// Deadline or start tag.
    fn rank(&self, head: &Waiting) -> u128 {
        let flow = self.flows[head.flow].unwrap();
        match flow.promise {
            Promise::RealTime { latency } => head.at + latency,
            Promise::BestEffort { class, .. } => self.clocks[class].max(flow.finish),
        }
    }

    fn has_slack(&self, urgent: &Waiting, interactive: &Waiting) -> bool {
        let real_time = self.waiting.iter().filter(|it| self.class(it.flow) == 0);
        let behind: i128 = real_time.map(|it| i128::from(it.cost)).sum();
        let before: u64 = self.store.iter().map(|it| it.cost).sum::<u64>() + interactive.cost;
        let work = u128::from(before) + behind.min(self.left[0]) as u128;
        self.now + work * self.pace.unwrap_or(0) / 1_000 <= self.rank(urgent)
    }

    fn dispatch(&mut self) -> Option<(u64, Option<u128>)> {
        if self.waiting.is_empty() {
            return None;
        }
        let next: Vec<_> = (0..3).map(|class| self.next(class)).collect();
        while !(0..3).any(|class| next[class].is_some() && self.left[class] > 0) {
            for class in 0..3 {
                self.left[class] = (self.left[class] + self.allocations[class]).min(self.allocations[class]);
            }
        }
        let able = |class: usize| next[class].filter(|_| self.left[class] > 0);
        let class = match (able(0), able(1)) {
            (None, Some(_)) => 1,
            (Some(urgent), Some(interactive)) if self.has_slack(&urgent, &interactive) => 1,
            (Some(_), _) => 0,
            (None, None) => 2,
        };
        let chosen = next[class].unwrap();
        let rank = self.rank(&chosen);
        if let Promise::BestEffort { weight, .. } = self.flows[chosen.flow].unwrap().promise {
            self.clocks[class] = rank;
            let length = (u128::from(chosen.cost) << 40) / u128::from(weight);
            self.flows[chosen.flow].as_mut().unwrap().finish = rank + length;
        }
        self.left[class] -= i128::from(chosen.cost.max(1));
        self.waiting.retain(|it| it.id != chosen.id);
        if self.store.is_empty() {
            self.since = self.now;
        }
        self.store.push(chosen);
        Some((chosen.id, (class == 0).then_some(rank)))
    }

    fn complete(&mut self, index: usize, cancelled: bool) -> Waiting {
        let done = self.store.remove(index);
        if !cancelled {
            let sample = (self.now - self.since) * 1_000 / u128::from(done.cost.max(1));
            let sample = sample.min(3_600_000_000_000);
            self.pace = Some(self.pace.map_or(sample, |pace| pace - pace / 8 + sample / 8));
            self.since = self.now;
        }
        done
    }

    fn configure(&mut self, flow: usize, promise: Promise) {
        let class = |promise| match promise {
            Promise::RealTime { .. } => 0,
            Promise::BestEffort { class, .. } => class,
        };
        let stays = self.flows[flow].filter(|old| class(old.promise) == class(promise));
        self.flows[flow] = Some(Flow { promise, finish: stays.map_or(0, |old| old.finish) });
    }
}

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Arrive { flow: usize, count: u8, cost: u64 },
    Dispatch(u8),
    Complete { which: usize, cancelled: bool },
    Configure(usize, Promise),
    Remove(usize),
}

fn promises() -> impl Strategy<Value = Promise> {
    prop_oneof![
        (1_u128..100).prop_map(|millis| Promise::RealTime { latency: millis * 1_000_000 }),
        (1_usize..3, 1_u32..6).prop_map(|(class, weight)| Promise::BestEffort { class, weight }),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let waits = prop_oneof![Just(10_000_000_u64), 0_u64..30_000_000, 0_u64..1_000];
    let costs = prop_oneof![4 => Just(1_000_u64), 1 => 0_u64..30_000];
    let step = prop_oneof![
        8 => waits.prop_map(Step::Wait),
        12 => (0..FLOWS, 1_u8..6, costs).prop_map(|(flow, count, cost)| Step::Arrive { flow, count, cost }),
        12 => (1_u8..5).prop_map(Step::Dispatch),
        16 => (any::<usize>(), prop::bool::weighted(0.1)).prop_map(|(which, cancelled)| {
            Step::Complete { which, cancelled }
        }),
        1 => (0..FLOWS, promises()).prop_map(|(flow, promise)| Step::Configure(flow, promise)),
        1 => (0..FLOWS).prop_map(Step::Remove),
    ];
    prop::collection::vec(step, 1..150)
}

fn configs() -> impl Strategy<Value = CelloConfig> {
    (1_u32..6, 1_u32..6, 1_u32..6, 1_000_u64..6_000).prop_map(
        |(real_time, interactive, throughput, quantum)| {
            let weight = |weight| Weight::new(weight).unwrap();
            CelloConfig {
                real_time: weight(real_time),
                interactive: weight(interactive),
                throughput: weight(throughput),
                quantum: Cost::from_millis(quantum),
            }
        },
    )
}

fn slo_of(promise: Promise) -> Slo {
    match promise {
        Promise::RealTime { latency } => common::slo(1, 1, latency as u64 / 1_000_000),
        Promise::BestEffort { class, weight } => {
            let slo = Slo::background().with_weight(Weight::new(weight).unwrap());
            if class == 1 { slo.with_interactive() } else { slo }
        }
    }
}

/// Both side by side.
struct Pair {
    model: Model,
    real: Cello,
    next_id: u64,
}

impl Pair {
    fn now(&self) -> Time {
        Time::from_nanos(self.model.now as u64)
    }

    fn dispatch(&mut self) -> bool {
        let expected = self.model.dispatch();
        let now = self.now();
        let dispatched = common::dispatch(&mut self.real, now);
        assert_eq!(
            dispatched.map(|dispatch| (dispatch.request.id.0, dispatch.finish_tag)),
            expected.map(|(id, due)| (id, due.map(|due| Time::from_nanos(due as u64))))
        );
        expected.is_some()
    }

    fn complete(&mut self, which: usize, cancelled: bool) {
        if self.model.store.is_empty() {
            return;
        }
        let now = self.now();
        let done = self.model.complete(which % self.model.store.len(), cancelled);
        let outcome =
            if cancelled { evenkeel_core::Outcome::Cancelled } else { evenkeel_core::Outcome::Done };
        let completion = Completion::new(Ticket::from_bits(done.id), outcome);
        self.real.on_completion(now, &request(done.id, done.flow, done.cost), &completion);
    }

    fn step(&mut self, step: &Step) {
        let now = self.now();
        match *step {
            Step::Wait(nanos) => self.model.now += u128::from(nanos),
            Step::Arrive { flow, count, cost } => {
                for _ in 0..count {
                    let arrival = Arrival::new(now, request(self.next_id, flow, cost));
                    let taken = self.real.on_arrival(now, arrival).is_ok();
                    assert_eq!(taken, self.model.flows[flow].is_some());
                    if taken {
                        let (id, at) = (self.next_id, self.model.now);
                        self.model.waiting.push(Waiting { id, flow, cost, at });
                    }
                    self.next_id += 1;
                }
            }
            Step::Dispatch(count) => (0..count).for_each(|_| _ = self.dispatch()),
            Step::Complete { which, cancelled } => self.complete(which, cancelled),
            Step::Configure(flow, promise) => {
                self.model.configure(flow, promise);
                self.real.configure(now, FlowId(flow as u32), &slo_of(promise)).unwrap();
            }
            Step::Remove(flow) => {
                let busy = self.model.waiting.iter().any(|it| it.flow == flow);
                let removable = self.model.flows[flow].is_some() && !busy;
                assert_eq!(self.real.remove(now, FlowId(flow as u32)).is_ok(), removable);
                if removable {
                    self.model.flows[flow] = None;
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]

    #[test]
    fn dispatches_what_the_model_dispatches(
        config in configs(), promises in prop::collection::vec(promises(), FLOWS - 1), steps in steps(),
    ) {
        let mut pair = Pair { model: Model::new(config), real: Cello::new(config).unwrap(), next_id: 0 };
        for (flow, promise) in promises.iter().enumerate() {
            pair.step(&Step::Configure(flow, *promise));
        }
        for step in &steps {
            pair.step(step);
        }
        while pair.dispatch() {
            pair.step(&Step::Wait(1_000_000));
            pair.complete(0, false);
        }
        for flow in 0..FLOWS {
            prop_assert_eq!(pair.real.backlog(FlowId(flow as u32)), 0);
        }
    }
}
