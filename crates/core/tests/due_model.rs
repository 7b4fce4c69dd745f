//! SCED and EDF against one quadratic model of both: all waiting requests in one vector, everything
//! searched for.

mod common;

use common::curve::{Curve, LONG_AGO, Promise, promises};
use common::side_by_side::{Model, Pair, Step, steps};
use evenkeel_core::sched::edf::Edf;
use evenkeel_core::sched::sced::Sced;
use evenkeel_core::*;
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
struct Flow {
    promise: Promise,
    curve: Curve,
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
struct Deadlines {
    sced: bool,
    flows: Vec<Option<Flow>>,
    waiting: Vec<Waiting>,
    now: i128,
    virtual_now: u128,
}

impl Flow {
    fn new(now: i128, promise: Promise) -> Self {
        Self { promise, curve: Curve::new(now, &promise), virtual_start: 0, virtual_finish: 0 }
    }

    /// ComputeTags for SCED; for EDF the arrival.
    fn stamp(&mut self, sced: bool, now: i128, cost: i128, behind: i128) -> i128 {
        if sced { self.curve.stamp(now, &self.promise, cost, behind) } else { now.max(behind) }
    }
}

impl Deadlines {
    fn guaranteed(&self, flow: usize) -> Option<(i128, i128, i128)> {
        self.flows[flow].as_ref().and_then(|flow| flow.promise.guaranteed())
    }

    fn heads(&self, guaranteed: bool) -> impl Iterator<Item = Waiting> + '_ {
        let is_head =
            |i: &usize| self.waiting[..*i].iter().all(|before| before.flow != self.waiting[*i].flow);
        let heads = (0..self.waiting.len()).filter(is_head).map(|i| self.waiting[i]);
        heads.filter(move |head| self.guaranteed(head.flow).is_some() == guaranteed)
    }
}

impl Model for Deadlines {
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

    fn configure(&mut self, id: usize, promise: &Promise) {
        let (now, sced) = (self.now, self.sced);
        let mut new = Flow::new(now, *promise);
        match (self.guaranteed(id), promise.guaranteed()) {
            (Some(_), Some(_)) => {
                let old = self.flows[id].unwrap();
                new.curve = old.curve;
                new.curve.change(now, &old.promise, promise);
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
        let may = self.flows[flow].is_some() && self.backlog(flow) == 0;
        if may {
            self.flows[flow] = None;
        }
        may
    }

    fn arrive(&mut self, id: u64, index: usize, cost: u64) -> bool {
        let (now, sced, virtual_now) = (self.now, self.sced, self.virtual_now);
        let (cost, was_busy) = (i128::from(cost), self.backlog(index) > 0);
        let behind = self.waiting.iter().rfind(|waiting| waiting.flow == index);
        let behind = behind.map_or(LONG_AGO, |last| last.start);
        let Some(flow) = &mut self.flows[index] else { return false };
        let mut start = 0;
        if flow.promise.guaranteed().is_some() {
            start = flow.stamp(sced, now, cost, behind);
        } else if !was_busy {
            flow.virtual_start = flow.virtual_finish.max(virtual_now);
        }
        self.waiting.push(Waiting { id, flow: index, cost, start });
        true
    }

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

const FLOWS: usize = 6;

fn compare(real: impl Scheduler + 'static, sced: bool, promises: &[Promise], steps: &[Step<Promise>]) {
    let model = Deadlines { sced, flows: vec![None; FLOWS], waiting: vec![], now: 0, virtual_now: 0 };
    Pair::new(model, real, FLOWS, promises).run(steps);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]

    #[test]
    fn sced_dispatches_what_the_model_dispatches(
        promises in prop::collection::vec(promises(), FLOWS),
        steps in steps(FLOWS, 5_000, promises(), vec![]),
    ) {
        compare(Sced::new(), true, &promises, &steps);
    }

    #[test]
    fn edf_dispatches_what_the_model_dispatches(
        promises in prop::collection::vec(promises(), FLOWS),
        steps in steps(FLOWS, 5_000, promises(), vec![]),
    ) {
        compare(Edf::new(), false, &promises, &steps);
    }
}
