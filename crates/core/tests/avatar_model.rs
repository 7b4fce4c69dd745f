//! AVATAR under SARC against a quadratic model: all waiting requests in one vector, all tokens counted
//! anew, instants of release found by bisection.

mod common;

use common::curve::{Promise, promises};
use common::side_by_side::{Model, Pair, steps};
use evenkeel_core::sched::avatar::Avatar;
use evenkeel_core::*;
use proptest::prelude::*;

const FLOWS: usize = 5;

#[derive(Clone, Copy, Debug)]
struct Flow {
    promise: Promise,
    /// Tokens after the last release, in 10⁻¹² requests, and when that was.
    tokens: i128,
    last: i128,
    finish: u128,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: u64,
    flow: usize,
    cost: i128,
    at: i128,
}

/// Requests are in the order of their arrival.
struct Controlled {
    flows: Vec<Option<Flow>>,
    waiting: Vec<Waiting>,
    now: i128,
    spare_now: u128,
    background_now: u128,
}

fn length(cost: i128, weight: u32) -> u128 {
    ((cost as u128) << 40) / u128::from(weight)
}

impl Controlled {
    fn heads(&self, guaranteed: bool) -> Vec<Waiting> {
        let of_kind = |waiting: &&Waiting| {
            matches!(self.flows[waiting.flow].unwrap().promise, Promise::Guaranteed { .. }) == guaranteed
        };
        let first =
            |waiting: &&Waiting| self.waiting.iter().find(|other| other.flow == waiting.flow).unwrap().id;
        self.waiting.iter().filter(of_kind).filter(|waiting| first(waiting) == waiting.id).copied().collect()
    }

    /// The first instant at which the tokens are there.
    fn release(&self, head: &Waiting) -> i128 {
        let flow = self.flows[head.flow].unwrap();
        let Promise::Guaranteed { burst, rate, .. } = flow.promise else { unreachable!() };
        let enough = |at: i128| {
            let tokens = (flow.tokens + (at - flow.last) * rate).min(burst * 1_000_000_000);
            tokens >= head.cost.min(burst) * 1_000_000_000
        };
        let from = head.at.max(flow.last);
        let (mut low, mut high) = (from - 1, from + (1 << 62));
        while high - low > 1 {
            let middle = (low + high) / 2;
            if enough(middle) { high = middle } else { low = middle }
        }
        high
    }

    fn take(&mut self, id: u64) -> u64 {
        self.waiting.retain(|waiting| waiting.id != id);
        id
    }
}

impl Model for Controlled {
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
            self.waiting.push(Waiting { id, flow, cost: cost.into(), at: self.now });
        }
        known
    }

    fn configure(&mut self, id: usize, promise: &Promise) {
        let (now, promise) = (self.now, *promise);
        let fresh = |tokens| Flow { promise, tokens, last: now, finish: 0 };
        let flow = match (self.flows[id], promise) {
            (Some(old), Promise::Guaranteed { burst, .. }) => {
                if matches!(old.promise, Promise::Guaranteed { .. }) {
                    let tokens = old.tokens.min(burst * 1_000_000_000);
                    Flow { promise, tokens, ..old }
                } else {
                    self.waiting.iter_mut().filter(|it| it.flow == id).for_each(|it| it.at = now);
                    fresh(burst * 1_000_000_000)
                }
            }
            (None, Promise::Guaranteed { burst, .. }) => fresh(burst * 1_000_000_000),
            (Some(old), Promise::Background { .. }) if matches!(old.promise, Promise::Background { .. }) => {
                Flow { promise, ..old }
            }
            (_, Promise::Background { .. }) => {
                let finish = self.background_now;
                Flow { finish, ..fresh(0) }
            }
        };
        self.flows[id] = Some(flow);
    }

    fn dispatch(&mut self) -> Option<(u64, Option<i128>)> {
        let heads = self.heads(true);
        let due = |head: &Waiting| {
            let Promise::Guaranteed { latency, .. } = self.flows[head.flow].unwrap().promise else {
                unreachable!()
            };
            self.release(head) + latency
        };
        let released = heads.iter().filter(|head| self.release(head) <= self.now);
        if let Some(head) = released.min_by_key(|head| (due(head), head.id)) {
            let (due, release) = (due(head), self.release(head));
            let flow = self.flows[head.flow].as_mut().unwrap();
            let Promise::Guaranteed { burst, rate, .. } = flow.promise else { unreachable!() };
            let earned = (flow.tokens + (release - flow.last) * rate).min(burst * 1_000_000_000);
            flow.tokens = earned - head.cost * 1_000_000_000;
            flow.last = release;
            return Some((self.take(head.id), Some(due)));
        }
        let spare = !heads.is_empty();
        let heads = if spare { heads } else { self.heads(false) };
        let clock = if spare { self.spare_now } else { self.background_now };
        let start = |head: &Waiting| clock.max(self.flows[head.flow].unwrap().finish);
        let head = heads.iter().min_by_key(|head| (start(head), head.id))?;
        let start = start(head);
        if spare {
            self.spare_now = start;
        } else {
            self.background_now = start;
        }
        let flow = self.flows[head.flow].as_mut().unwrap();
        let (Promise::Guaranteed { weight, .. } | Promise::Background { weight }) = flow.promise;
        flow.finish = start + length(head.cost, weight);
        Some((self.take(head.id), None))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]

    #[test]
    fn dispatches_what_the_model_dispatches(
        promises in prop::collection::vec(promises(), FLOWS - 1),
        steps in steps(FLOWS, 9_000, promises(), vec![]),
    ) {
        let model =
            Controlled { flows: vec![None; FLOWS], waiting: vec![], now: 0, spare_now: 0, background_now: 0 };
        Pair::new(model, Avatar::new(), FLOWS, &promises).run(&steps);
    }
}
