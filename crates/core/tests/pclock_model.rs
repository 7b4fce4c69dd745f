//! pClock against a quadratic model of it: all waiting requests in one vector, every tag really moved at
//! every synchronization, nothing kept up to date that can be searched for.

mod common;

use common::curve::{Curve, LONG_AGO, Promise, promises};
use common::side_by_side::{Model, Pair, Step, steps};
use evenkeel_core::sched::pclock::PClock;
use evenkeel_core::*;
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
struct Flow {
    promise: Promise,
    curve: Curve,
    largest: i128,
    lends: bool,
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
#[derive(Default)]
struct Synchronized {
    flows: Vec<Option<Flow>>,
    waiting: Vec<Waiting>,
    now: i128,
    permille: i128,
    virtual_now: u128,
    batch: Option<Batch>,
}

struct Batch {
    opened: i128,
    bank: i128,
    latency: i128,
    lenders: Vec<usize>,
}

impl Flow {
    fn new(now: i128, promise: Promise) -> Self {
        let curve = Curve::new(now, &promise);
        Self { promise, curve, largest: 0, lends: false, virtual_start: 0, virtual_finish: 0 }
    }

    fn stamp(&mut self, now: i128, cost: i128, behind: i128) -> i128 {
        self.largest = self.largest.max(cost);
        self.curve.stamp(now, &self.promise, cost, behind)
    }

    fn loan(&self) -> i128 {
        self.promise.guaranteed().map_or(0, |(burst, _, _)| (burst - self.largest).max(0))
    }
}

impl Synchronized {
    fn flow(&mut self, flow: usize) -> &mut Flow {
        self.flows[flow].as_mut().unwrap()
    }

    fn is_guaranteed(&self, flow: usize) -> bool {
        self.flows[flow].is_some_and(|flow| flow.promise.guaranteed().is_some())
    }

    fn heads(&self) -> Vec<Waiting> {
        let is_head = |i: usize| self.waiting[..i].iter().all(|before| before.flow != self.waiting[i].flow);
        (0..self.waiting.len()).filter(|&i| is_head(i)).map(|i| self.waiting[i]).collect()
    }

    fn guaranteed_heads(&self) -> Vec<Waiting> {
        self.heads().into_iter().filter(|head| self.is_guaranteed(head.flow)).collect()
    }

    /// The oldest among the background heads with the smallest virtual start.
    fn background_head(&self) -> Option<Waiting> {
        let heads = self.heads().into_iter().filter(|head| !self.is_guaranteed(head.flow));
        heads.min_by_key(|head| self.flows[head.flow].unwrap().virtual_start)
    }

    fn synchronize(&mut self) {
        let Some(first) = self.guaranteed_heads().iter().map(|head| head.start).min() else { return };
        let drift = first - self.now;
        if drift <= 0 {
            return;
        }
        for waiting in &mut self.waiting {
            waiting.start -= drift;
        }
        for flow in self.flows.iter_mut().flatten() {
            flow.curve.shift(drift, &flow.promise);
        }
        self.batch = None;
        if self.permille > 0 && self.background_head().is_some() {
            let lends =
                |flow: &usize| self.backlog(*flow) > 0 && self.flows[*flow].is_some_and(|flow| flow.lends);
            let lenders = (0..self.flows.len()).filter(lends).collect();
            self.batch = Some(Batch { opened: self.now, bank: 0, latency: 0, lenders });
        }
    }

    fn stop_lending(&mut self, flow: usize) {
        if let Some(batch) = &mut self.batch {
            batch.lenders.retain(|lender| *lender != flow);
        }
    }

    fn end_batch_without_background(&mut self) {
        if self.background_head().is_none() {
            self.batch = None;
        }
    }

    fn draw(&mut self, cost: i128) -> Option<i128> {
        let batch = self.batch.as_mut()?;
        while batch.bank < cost {
            let latency = |lender: usize| self.flows[lender].unwrap().promise.guaranteed().unwrap().2;
            let least = batch.lenders.iter().copied().min_by_key(|lender| (latency(*lender), *lender))?;
            batch.lenders.retain(|lender| *lender != least);
            batch.bank += self.flows[least].unwrap().loan() * self.permille / 1_000;
            batch.latency = latency(least);
        }
        Some(batch.opened + batch.latency)
    }

    fn serve_background(&mut self, head: Waiting) -> u64 {
        self.take(head.id);
        let flow = self.flow(head.flow);
        let Promise::Background { weight } = flow.promise else { panic!("a background flow") };
        let served = flow.virtual_start;
        flow.virtual_finish = served + ((head.cost as u128) << 40) / u128::from(weight);
        flow.virtual_start = flow.virtual_finish;
        self.virtual_now = served;
        self.end_batch_without_background();
        head.id
    }

    fn take(&mut self, id: u64) {
        self.waiting.retain(|waiting| waiting.id != id);
    }
}

impl Model for Synchronized {
    type Promise = Promise;

    fn slo_of(promise: &Promise) -> Slo {
        common::curve::slo_of(promise)
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

    fn set_spare(&mut self, spare: SpareCapacity) {
        self.permille = permille_of(spare);
        self.batch = None;
    }

    fn configure(&mut self, id: usize, promise: &Promise) {
        let (now, promise) = (self.now, *promise);
        self.stop_lending(id);
        let old = self.flows[id];
        let was_guaranteed = self.is_guaranteed(id);
        match (promise, old) {
            (Promise::Guaranteed { .. }, Some(mut flow)) if was_guaranteed => {
                flow.curve.change(now, &flow.promise, &promise);
                flow.promise = promise;
                self.flows[id] = Some(flow);
            }
            (Promise::Background { .. }, Some(mut flow)) if !was_guaranteed => {
                flow.promise = promise;
                self.flows[id] = Some(flow);
            }
            (Promise::Guaranteed { .. }, _) => {
                let mut flow = Flow::new(now, promise);
                let mut behind = LONG_AGO;
                for waiting in self.waiting.iter_mut().filter(|waiting| waiting.flow == id) {
                    waiting.start = flow.stamp(now, waiting.cost, behind);
                    behind = waiting.start;
                }
                self.flows[id] = Some(flow);
            }
            (Promise::Background { .. }, _) => {
                let mut flow = Flow::new(now, promise);
                flow.virtual_start = self.virtual_now;
                self.flows[id] = Some(flow);
            }
        }
        let flow = self.flow(id);
        flow.lends = flow.loan() >= 1_000;
        self.end_batch_without_background();
    }

    fn remove(&mut self, flow: usize) -> bool {
        let may = self.flows[flow].is_some() && self.backlog(flow) == 0;
        if may {
            self.flows[flow] = None;
        }
        may
    }

    fn arrive(&mut self, id: u64, flow: usize, cost: u64) -> bool {
        let cost = i128::from(cost);
        if self.flows[flow].is_none() {
            return false;
        }
        let (now, virtual_now, was_busy) = (self.now, self.virtual_now, (self.backlog(flow) > 0));
        let mut start = 0;
        if self.is_guaranteed(flow) {
            self.synchronize();
            let last = self.waiting.iter().rfind(|waiting| waiting.flow == flow);
            let behind = last.map_or(LONG_AGO, |last| last.start);
            start = self.flow(flow).stamp(now, cost, behind);
            if !was_busy {
                self.flow(flow).lends = self.flow(flow).loan() >= 1_000;
            }
        } else if !was_busy {
            let flow = self.flow(flow);
            flow.virtual_start = flow.virtual_finish.max(virtual_now);
        }
        self.waiting.push(Waiting { id, flow, cost, start });
        true
    }

    fn dispatch(&mut self) -> Option<(u64, Option<i128>)> {
        self.synchronize();
        let heads = self.guaranteed_heads();
        let finish =
            |head: &Waiting| head.start + self.flows[head.flow].unwrap().promise.guaranteed().unwrap().2;
        let Some(first) = heads.iter().min_by_key(|head| finish(head)).copied() else {
            self.batch = None;
            let head = self.background_head()?;
            return Some((self.serve_background(head), None));
        };
        let finish = finish(&first);
        if let Some(head) = self.background_head()
            && let Some(due) = self.draw(head.cost)
            && due <= finish
        {
            self.batch.as_mut().unwrap().bank -= head.cost;
            return Some((self.serve_background(head), Some(due)));
        }
        self.take(first.id);
        if self.backlog(first.flow) == 0 {
            self.stop_lending(first.flow);
        }
        Some((first.id, Some(finish)))
    }
}

const FLOWS: usize = 6;

fn spares() -> impl Strategy<Value = SpareCapacity> {
    prop_oneof![
        Just(SpareCapacity::Flows),
        Just(SpareCapacity::Background),
        (0_u16..=1_000).prop_map(|permille| SpareCapacity::Share(Permille::new(permille).unwrap())),
    ]
}

fn permille_of(spare: SpareCapacity) -> i128 {
    match spare {
        SpareCapacity::Flows => 0,
        SpareCapacity::Background => 1_000,
        SpareCapacity::Share(share) => share.as_u16().into(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    #[test]
    fn dispatches_what_the_model_dispatches(
        promises in prop::collection::vec(promises(), FLOWS), spare in spares(),
        steps in steps(FLOWS, 5_000, promises(), vec![(1, spares().prop_map(Step::Spare).boxed())]),
    ) {
        let permille = permille_of(spare);
        let model = Synchronized { flows: vec![None; FLOWS], permille, ..Synchronized::default() };
        Pair::new(model, PClock::with_spare(spare), FLOWS, &promises).run(&steps);
    }
}
