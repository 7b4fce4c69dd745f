//! Cello against a quadratic model: all waiting requests in one vector, searched for whatever is needed.

mod common;

use common::side_by_side::{Model, Pair, Step, steps};
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
struct Classes {
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

impl Classes {
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
}

impl Model for Classes {
    type Promise = Promise;

    fn slo_of(promise: &Promise) -> Slo {
        match *promise {
            Promise::RealTime { latency } => common::slo(1, 1, latency as u64 / 1_000_000),
            Promise::BestEffort { class, weight } => {
                let slo = Slo::background().with_weight(Weight::new(weight).unwrap());
                if class == 1 { slo.with_interactive() } else { slo }
            }
        }
    }

    fn now(&self) -> u64 {
        self.now as u64
    }

    fn wait(&mut self, nanos: u64) {
        self.now += u128::from(nanos);
    }

    fn backlog(&self, flow: usize) -> usize {
        self.waiting.iter().filter(|waiting| waiting.flow == flow).count()
    }

    fn remove(&mut self, flow: usize) -> bool {
        let may = self.flows[flow].is_some() && self.backlog(flow) == 0;
        if may {
            self.flows[flow] = None;
        }
        may
    }

    fn arrive(&mut self, id: u64, flow: usize, cost: u64) -> bool {
        let known = self.flows[flow].is_some();
        if known {
            self.waiting.push(Waiting { id, flow, cost, at: self.now });
        }
        known
    }

    fn dispatch(&mut self) -> Option<(u64, Option<i128>)> {
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
        Some((chosen.id, (class == 0).then_some(rank as i128)))
    }

    fn complete(&mut self, index: usize, cancelled: bool) {
        let done = self.store.remove(index);
        if !cancelled {
            let sample = (self.now - self.since) * 1_000 / u128::from(done.cost.max(1));
            let sample = sample.min(3_600_000_000_000);
            self.pace = Some(self.pace.map_or(sample, |pace| pace - pace / 8 + sample / 8));
            self.since = self.now;
        }
    }

    fn configure(&mut self, flow: usize, promise: &Promise) {
        let promise = *promise;
        let class = |promise| match promise {
            Promise::RealTime { .. } => 0,
            Promise::BestEffort { class, .. } => class,
        };
        let stays = self.flows[flow].filter(|old| class(old.promise) == class(promise));
        self.flows[flow] = Some(Flow { promise, finish: stays.map_or(0, |old| old.finish) });
    }
}

fn promises() -> impl Strategy<Value = Promise> {
    prop_oneof![
        (1_u128..100).prop_map(|millis| Promise::RealTime { latency: millis * 1_000_000 }),
        (1_usize..3, 1_u32..6).prop_map(|(class, weight)| Promise::BestEffort { class, weight }),
    ]
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

/// A completion, one in ten of a cancelled request.
fn completions() -> BoxedStrategy<Step<Promise>> {
    let cancelled = prop::bool::weighted(0.1);
    (any::<usize>(), cancelled).prop_map(|(which, cancelled)| Step::Complete { which, cancelled }).boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]

    #[test]
    fn dispatches_what_the_model_dispatches(
        config in configs(), promises in prop::collection::vec(promises(), FLOWS - 1),
        steps in steps(FLOWS, 30_000, promises(), vec![(16, completions())]),
    ) {
        Pair::new(Classes::new(config), Cello::new(config).unwrap(), FLOWS, &promises).run(&steps);
    }
}
