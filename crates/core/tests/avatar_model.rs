//! AVATAR under SARC against a quadratic model: all waiting requests in one vector, all tokens counted
//! anew, instants of release found by bisection.

mod common;

use common::request;
use evenkeel_core::sched::avatar::Avatar;
use evenkeel_core::*;
use proptest::prelude::*;

const FLOWS: usize = 5;

#[derive(Clone, Copy, Debug)]
enum Promise {
    Guaranteed { burst: i128, rate: i128, latency: i128, weight: u32 },
    Background { weight: u32 },
}

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
struct Model {
    flows: Vec<Option<Flow>>,
    waiting: Vec<Waiting>,
    now: i128,
    spare_now: u128,
    background_now: u128,
}

fn length(cost: i128, weight: u32) -> u128 {
    ((cost as u128) << 40) / u128::from(weight)
}

impl Model {
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

    fn configure(&mut self, id: usize, promise: Promise) {
        let now = self.now;
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

    fn take(&mut self, id: u64) -> u64 {
        self.waiting.retain(|waiting| waiting.id != id);
        id
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

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Back(u64),
    Arrive { flow: usize, count: u8, cost: u64 },
    Dispatch(u8),
    Configure(usize, Promise),
    Remove(usize),
}

fn promises() -> impl Strategy<Value = Promise> {
    let burst = prop_oneof![3 => (0_i128..6).prop_map(|n| n * 1_000), 1 => 0_i128..6_000];
    let rate = prop_oneof![(1_i128..20).prop_map(|n| n * 50_000), 1_i128..2_000_000];
    let latency = prop_oneof![(1_i128..20).prop_map(|n| n * 10_000_000), 1_i128..200_000_000];
    prop_oneof![
        3 => (burst, rate, latency, 1_u32..6).prop_map(|(burst, rate, latency, weight)| {
            Promise::Guaranteed { burst, rate, latency, weight }
        }),
        1 => (1_u32..8).prop_map(|weight| Promise::Background { weight }),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let waits = prop_oneof![Just(10_000_000_u64), 0_u64..30_000_000, 0_u64..1_000];
    let costs = prop_oneof![4 => Just(1_000_u64), 1 => 0_u64..9_000];
    let step = prop_oneof![
        8 => waits.prop_map(Step::Wait),
        1 => (0_u64..50_000_000).prop_map(Step::Back),
        12 => (0..FLOWS, 1_u8..6, costs).prop_map(|(flow, count, cost)| Step::Arrive { flow, count, cost }),
        12 => (1_u8..5).prop_map(Step::Dispatch),
        1 => (0..FLOWS, promises()).prop_map(|(flow, promise)| Step::Configure(flow, promise)),
        1 => (0..FLOWS).prop_map(Step::Remove),
    ];
    prop::collection::vec(step, 1..120)
}

fn slo_of(promise: Promise) -> Slo {
    let weigh = |slo: Slo, weight| slo.with_weight(Weight::new(weight).unwrap());
    match promise {
        Promise::Background { weight } => weigh(Slo::background(), weight),
        Promise::Guaranteed { burst, rate, latency, weight } => {
            let (rate, latency) = (Rate::from_millis(rate as u64), Span::from_nanos(latency as u64));
            weigh(
                Slo::guaranteed(Envelope::new(Cost::from_millis(burst as u64), rate, latency).unwrap()),
                weight,
            )
        }
    }
}

/// Both side by side.
struct Pair {
    model: Model,
    real: Avatar,
    /// By how much the clock that the real one sees is behind: time may seem to go back.
    behind: u64,
    next_id: u64,
}

impl Pair {
    fn now(&self) -> Time {
        Time::from_nanos((self.model.now as u64).saturating_sub(self.behind))
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

    fn step(&mut self, step: &Step) {
        let now = self.now();
        match *step {
            Step::Wait(nanos) => {
                self.model.now += i128::from(nanos);
                self.behind = 0;
            }
            // Only after the real one has seen the present: what it has not seen is not past.
            Step::Back(nanos) => {
                self.real.on_completion(
                    now,
                    &request(0, 0, 0),
                    &Completion::new(Ticket::from_bits(0), Outcome::Done),
                );
                self.behind = nanos;
            }
            Step::Arrive { flow, count, cost } => {
                for _ in 0..count {
                    let arrival = Arrival::new(now, request(self.next_id, flow, cost));
                    let taken = self.real.on_arrival(now, arrival).is_ok();
                    assert_eq!(taken, self.model.flows[flow].is_some());
                    if taken {
                        let (id, at) = (self.next_id, self.model.now);
                        self.model.waiting.push(Waiting { id, flow, cost: cost.into(), at });
                    }
                    self.next_id += 1;
                }
            }
            Step::Dispatch(count) => (0..count).for_each(|_| _ = self.dispatch()),
            Step::Configure(flow, promise) => {
                self.model.configure(flow, promise);
                self.real.configure(now, FlowId(flow as u32), &slo_of(promise)).unwrap();
            }
            Step::Remove(flow) => {
                let busy = self.model.waiting.iter().any(|waiting| waiting.flow == flow);
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
        promises in prop::collection::vec(promises(), FLOWS - 1), steps in steps(),
    ) {
        let model =
            Model { flows: vec![None; FLOWS], waiting: vec![], now: 0, spare_now: 0, background_now: 0 };
        let mut pair = Pair { model, real: Avatar::new(), behind: 0, next_id: 0 };
        for (flow, promise) in promises.iter().enumerate() {
            pair.step(&Step::Configure(flow, *promise));
        }
        for step in &steps {
            pair.step(step);
        }
        pair.step(&Step::Wait(0));
        while pair.dispatch() {
            pair.step(&Step::Wait(1_000_000));
        }
        for flow in 0..FLOWS {
            prop_assert_eq!(pair.real.backlog(FlowId(flow as u32)), 0);
        }
    }
}
