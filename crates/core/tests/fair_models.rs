//! SFQ(D), WF²Q+ and Virtual Clock against a quadratic model: all waiting requests in one vector, and
//! whatever can be searched for is searched for.

mod common;

use common::side_by_side::{Model, Pair, Step, steps};
use evenkeel_core::sched::sfq::SfqD;
use evenkeel_core::sched::virtual_clock::VirtualClock;
use evenkeel_core::sched::wf2q::Wf2qPlus;
use evenkeel_core::*;
use proptest::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    StartTime,
    EligibleFirst,
    OwnClocks,
}

#[derive(Clone, Copy, Debug)]
enum Promise {
    Guaranteed { rate: u64, weight: u32 },
    Background { weight: u32 },
}

/// The cost since the share last changed: what it is charged is the difference of two quotients.
#[derive(Clone, Copy, Debug)]
struct Meter {
    scale: u128,
    share: u128,
    sum: u128,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    promise: Promise,
    meter: Meter,
    start: u128,
    finish: u128,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: u64,
    flow: usize,
    cost: u64,
    tag: u128,
}

/// Requests are in the order of their arrival, so "the first" is "the oldest" throughout.
struct Fair {
    kind: Kind,
    flows: Vec<Option<Flow>>,
    waiting: Vec<Waiting>,
    now: u128,
    virtual_now: u128,
    latest_finish: u128,
    total: Meter,
    background_now: u128,
}

impl Meter {
    fn new(scale: u128, share: u128) -> Self {
        Self { scale, share: share.max(1), sum: 0 }
    }

    fn charge(&mut self, cost: u64) -> u128 {
        let before = self.sum * self.scale / self.share;
        self.sum += u128::from(cost);
        self.sum * self.scale / self.share - before
    }
}

impl Flow {
    fn is_guaranteed(&self) -> bool {
        matches!(self.promise, Promise::Guaranteed { .. })
    }
}

impl Fair {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            flows: vec![None; FLOWS],
            waiting: vec![],
            now: 0,
            virtual_now: 0,
            latest_finish: 0,
            total: Meter::new(1 << 56, 1),
            background_now: 0,
        }
    }

    fn flow(&mut self, flow: usize) -> &mut Flow {
        self.flows[flow].as_mut().unwrap()
    }

    fn meter(&self, promise: Promise) -> Meter {
        match promise {
            Promise::Guaranteed { rate, .. } if self.kind == Kind::OwnClocks => {
                Meter::new(1_000_000_000, rate.into())
            }
            Promise::Guaranteed { rate, weight } => {
                Meter::new(1 << 56, u128::from(rate) * u128::from(weight))
            }
            Promise::Background { weight } => Meter::new(1 << 40, weight.into()),
        }
    }

    fn of(&self, flow: usize) -> impl Iterator<Item = &Waiting> {
        self.waiting.iter().filter(move |waiting| waiting.flow == flow)
    }

    fn heads(&self, guaranteed: bool) -> Vec<Waiting> {
        let kind = |flow: &usize| self.flows[*flow].is_some_and(|flow| flow.is_guaranteed() == guaranteed);
        let mut heads: Vec<_> =
            (0..FLOWS).filter(kind).filter_map(|flow| self.of(flow).next().copied()).collect();
        heads.sort_by_key(|head| head.id);
        heads
    }

    fn sum_up(&mut self) {
        let shares =
            self.flows.iter().flatten().filter(|flow| flow.is_guaranteed()).map(|flow| flow.meter.share);
        let total = Meter::new(1 << 56, shares.sum());
        // A flow of the background comes and goes without a trace.
        if total.share != self.total.share {
            self.total = total;
        }
    }

    /// The flow has a new head: from `start` on it takes its cost over its share.
    fn start(&mut self, flow: usize, start: u128) {
        let Some(head) = self.of(flow).next().copied() else { return };
        let flow = self.flow(flow);
        flow.start = start;
        if !flow.is_guaranteed() {
            flow.meter.sum = 0; // fair.rs rounds each request down
        }
        flow.finish = start + flow.meter.charge(head.cost);
    }

    /// The virtual time at which `flow` becomes busy.
    fn floor(&mut self, flow: usize) -> u128 {
        if !self.flow(flow).is_guaranteed() {
            return self.background_now;
        }
        let alone = self.heads(true).iter().all(|head| head.flow == flow);
        if alone && self.kind == Kind::EligibleFirst {
            self.virtual_now = self.virtual_now.max(self.latest_finish);
        }
        self.virtual_now
    }
}

impl Model for Fair {
    type Promise = Promise;

    fn slo_of(promise: &Promise) -> Slo {
        match *promise {
            Promise::Background { weight } => Slo::background().with_weight(Weight::new(weight).unwrap()),
            Promise::Guaranteed { rate, weight } => {
                let envelope =
                    Envelope::new(Cost::ONE, Rate::from_millis(rate), Span::from_millis(100)).unwrap();
                Slo::guaranteed(envelope).with_weight(Weight::new(weight).unwrap())
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
        self.of(flow).count()
    }

    fn configure(&mut self, id: usize, promise: &Promise) {
        let promise = *promise;
        let meter = self.meter(promise);
        let (now, clocks) = (self.now, self.kind == Kind::OwnClocks);
        let new = Flow { promise, meter, start: 0, finish: 0 };
        let same = self.flows[id].is_some_and(|old| old.is_guaranteed() == new.is_guaranteed());
        if same && self.flow(id).meter.share == meter.share {
            self.flow(id).promise = promise;
            return;
        }
        if same {
            let flow = self.flow(id);
            (flow.promise, flow.meter) = (promise, meter);
            let start = self.flow(id).start;
            if !(clocks && new.is_guaranteed()) {
                self.start(id, start);
            }
        } else {
            self.flows[id] = Some(new);
            if clocks && new.is_guaranteed() {
                let flow = self.flows[id].as_mut().unwrap();
                for waiting in self.waiting.iter_mut().filter(|waiting| waiting.flow == id) {
                    flow.finish = flow.finish.max(now) + flow.meter.charge(waiting.cost);
                    waiting.tag = flow.finish;
                }
            } else {
                if self.of(id).next().is_some() {
                    let start = self.floor(id);
                    self.start(id, start);
                }
            }
        }
        if !same || new.is_guaranteed() {
            self.sum_up();
        }
    }

    fn remove(&mut self, flow: usize) -> bool {
        let may = self.flows[flow].is_some() && self.of(flow).next().is_none();
        if may {
            let guaranteed = self.flow(flow).is_guaranteed();
            self.flows[flow] = None;
            if guaranteed {
                self.sum_up();
            }
        }
        may
    }

    fn arrive(&mut self, id: u64, flow: usize, cost: u64) -> bool {
        if self.flows[flow].is_none() {
            return false;
        }
        let (now, was_idle) = (self.now, self.of(flow).next().is_none());
        let clocks = self.kind == Kind::OwnClocks && self.flow(flow).is_guaranteed();
        let mut tag = 0;
        if clocks {
            let flow = self.flow(flow);
            tag = flow.finish.max(now) + flow.meter.charge(cost);
            flow.finish = tag;
        }
        self.waiting.push(Waiting { id, flow, cost, tag });
        if was_idle && !clocks {
            let start = self.floor(flow).max(self.flow(flow).finish);
            self.start(flow, start);
        }
        true
    }

    fn dispatch(&mut self) -> Option<(u64, Option<i128>)> {
        let heads = self.heads(true);
        let tags = |head: &Waiting| self.flows[head.flow].unwrap();
        let (guaranteed, chosen) = match self.kind {
            _ if heads.is_empty() => {
                (false, self.heads(false).into_iter().min_by_key(|head| tags(head).start)?)
            }
            Kind::StartTime => (true, heads.into_iter().min_by_key(|head| tags(head).start)?),
            Kind::OwnClocks => (true, heads.into_iter().min_by_key(|head| head.tag)?),
            Kind::EligibleFirst => {
                let least = heads.iter().map(|head| tags(head).start).min()?;
                let virtual_now = self.virtual_now.max(least);
                let eligible = heads.into_iter().filter(|head| tags(head).start <= virtual_now);
                let chosen = eligible.min_by_key(|head| tags(head).finish)?;
                self.latest_finish = self.latest_finish.max(tags(&chosen).finish);
                self.virtual_now = virtual_now + self.total.charge(chosen.cost);
                (true, chosen)
            }
        };
        let Flow { start, finish, .. } = self.flows[chosen.flow].unwrap();
        self.waiting.retain(|waiting| waiting.id != chosen.id);
        if !guaranteed {
            self.background_now = start;
        } else if self.kind == Kind::OwnClocks {
            return Some((chosen.id, Some(chosen.tag as i128)));
        } else if self.kind == Kind::StartTime {
            self.virtual_now = start;
        }
        self.start(chosen.flow, finish);
        Some((chosen.id, None))
    }
}

const FLOWS: usize = 6;

fn promises() -> impl Strategy<Value = Promise> {
    let rates = prop_oneof![(1_u64..20).prop_map(|n| n * 50_000), 1_u64..2_000_000];
    let weights = prop_oneof![2 => Just(1_u32), 1 => 1_u32..8];
    prop_oneof![
        3 => (rates, weights).prop_map(|(rate, weight)| Promise::Guaranteed { rate, weight }),
        1 => (1_u32..8).prop_map(|weight| Promise::Background { weight }),
    ]
}

fn compare(kind: Kind, real: impl Scheduler + 'static, promises: &[Promise], steps: &[Step<Promise>]) {
    Pair::new(Fair::new(kind), real, FLOWS, promises).run(steps);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]

    #[test]
    fn sfq_dispatches_what_the_model_dispatches(
        promises in prop::collection::vec(promises(), FLOWS),
        steps in steps(FLOWS, 5_000, promises(), vec![]),
    ) {
        compare(Kind::StartTime, SfqD::new(), &promises, &steps);
    }

    #[test]
    fn wf2q_plus_dispatches_what_the_model_dispatches(
        promises in prop::collection::vec(promises(), FLOWS),
        steps in steps(FLOWS, 5_000, promises(), vec![]),
    ) {
        compare(Kind::EligibleFirst, Wf2qPlus::new(), &promises, &steps);
    }

    #[test]
    fn virtual_clock_dispatches_what_the_model_dispatches(
        promises in prop::collection::vec(promises(), FLOWS),
        steps in steps(FLOWS, 5_000, promises(), vec![]),
    ) {
        compare(Kind::OwnClocks, VirtualClock::new(), &promises, &steps);
    }
}
