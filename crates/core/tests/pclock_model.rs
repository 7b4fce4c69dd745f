//! pClock against a quadratic model of it: all waiting requests in one vector, every tag really moved at
//! every synchronization, nothing kept up to date that can be searched for.

mod common;

use common::request;
use evenkeel_core::sched::pclock::PClock;
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
struct Model {
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
        let tokens = if let Promise::Guaranteed { burst, .. } = promise { burst * 1_000_000_000 } else { 0 };
        Self {
            promise,
            tokens,
            refilled: now,
            frontier: -(1 << 110),
            overrun: false,
            largest: 0,
            lends: false,
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
        if let Some((burst, rate, _)) = self.guaranteed() {
            self.tokens = (self.tokens + (now - self.refilled) * rate).min(burst * 1_000_000_000);
            self.refilled = now;
        }
    }

    fn stamp(&mut self, now: i128, cost: i128, behind: i128) -> i128 {
        let (burst, rate, _) = self.guaranteed().unwrap();
        self.largest = self.largest.max(cost);
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

    fn loan(&self) -> i128 {
        self.guaranteed().map_or(0, |(burst, _, _)| (burst - self.largest).max(0))
    }
}

impl Model {
    fn flow(&mut self, flow: usize) -> &mut Flow {
        self.flows[flow].as_mut().unwrap()
    }

    fn is_guaranteed(&self, flow: usize) -> bool {
        self.flows[flow].is_some_and(|flow| flow.guaranteed().is_some())
    }

    fn busy(&self, flow: usize) -> bool {
        self.waiting.iter().any(|waiting| waiting.flow == flow)
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
            if let Some((_, rate, _)) = flow.guaranteed() {
                flow.frontier -= drift * rate;
            }
        }
        self.batch = None;
        if self.permille > 0 && self.background_head().is_some() {
            let lends = |flow: &usize| self.busy(*flow) && self.flows[*flow].is_some_and(|flow| flow.lends);
            let lenders = (0..self.flows.len()).filter(lends).collect();
            self.batch = Some(Batch { opened: self.now, bank: 0, latency: 0, lenders });
        }
    }

    fn configure(&mut self, id: usize, promise: Promise) {
        let now = self.now;
        self.stop_lending(id);
        let old = self.flows[id];
        let was_guaranteed = self.is_guaranteed(id);
        match (promise, old) {
            (Promise::Guaranteed { burst, rate, .. }, Some(mut flow)) if was_guaranteed => {
                flow.refill(now);
                let (_, old_rate, _) = flow.guaranteed().unwrap();
                let whole = flow.frontier.div_euclid(old_rate);
                flow.frontier = whole * rate + flow.frontier.rem_euclid(old_rate) * rate / old_rate;
                flow.tokens = flow.tokens.min(burst * 1_000_000_000);
                flow.promise = promise;
                self.flows[id] = Some(flow);
            }
            (Promise::Background { .. }, Some(mut flow)) if !was_guaranteed => {
                flow.promise = promise;
                self.flows[id] = Some(flow);
            }
            (Promise::Guaranteed { .. }, _) => {
                let mut flow = Flow::new(now, promise);
                let mut behind = i128::MIN >> 60;
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
        let may = self.flows[flow].is_some() && !self.busy(flow);
        if may {
            self.flows[flow] = None;
        }
        may
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

    fn arrive(&mut self, id: u64, flow: usize, cost: i128) -> bool {
        if self.flows[flow].is_none() {
            return false;
        }
        let (now, virtual_now, was_busy) = (self.now, self.virtual_now, self.busy(flow));
        let mut start = 0;
        if self.is_guaranteed(flow) {
            self.synchronize();
            let last = self.waiting.iter().rfind(|waiting| waiting.flow == flow);
            let behind = last.map_or(i128::MIN >> 60, |last| last.start);
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

    /// The identifier and the finish tag of what goes next.
    fn dispatch(&mut self) -> Option<(u64, Option<i128>)> {
        self.synchronize();
        let heads = self.guaranteed_heads();
        let finish = |head: &Waiting| head.start + self.flows[head.flow].unwrap().guaranteed().unwrap().2;
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
        if !self.busy(first.flow) {
            self.stop_lending(first.flow);
        }
        Some((first.id, Some(finish)))
    }

    fn draw(&mut self, cost: i128) -> Option<i128> {
        let batch = self.batch.as_mut()?;
        while batch.bank < cost {
            let latency = |lender: usize| self.flows[lender].unwrap().guaranteed().unwrap().2;
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

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Arrive { flow: usize, count: u8, cost: u64 },
    Dispatch(u8),
    Configure(usize, Promise),
    Remove(usize),
    Spare(SpareCapacity),
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

fn spares() -> impl Strategy<Value = SpareCapacity> {
    prop_oneof![
        Just(SpareCapacity::Flows),
        Just(SpareCapacity::Background),
        (0_u16..=1_000).prop_map(|permille| SpareCapacity::Share(Permille::new(permille).unwrap())),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let waits = prop_oneof![Just(10_000_000_u64), 0_u64..30_000_000, 0_u64..1_000];
    let costs = prop_oneof![4 => Just(1_000_u64), 1 => 0_u64..5_000];
    let arrivals = (0..FLOWS, 1_u8..6, costs);
    let step = prop_oneof![
        8 => waits.prop_map(Step::Wait),
        12 => arrivals.prop_map(|(flow, count, cost)| Step::Arrive { flow, count, cost }),
        12 => (1_u8..5).prop_map(Step::Dispatch),
        1 => (0..FLOWS, promises()).prop_map(|(flow, promise)| Step::Configure(flow, promise)),
        1 => (0..FLOWS).prop_map(Step::Remove),
        1 => spares().prop_map(Step::Spare),
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

fn permille_of(spare: SpareCapacity) -> i128 {
    match spare {
        SpareCapacity::Flows => 0,
        SpareCapacity::Background => 1_000,
        SpareCapacity::Share(share) => share.as_u16().into(),
    }
}

/// Both side by side.
struct Pair {
    model: Model,
    real: PClock,
    next_id: u64,
}

impl Pair {
    fn new(promises: &[Promise], spare: SpareCapacity) -> Self {
        let model = Model { flows: vec![None; FLOWS], permille: permille_of(spare), ..Model::default() };
        let mut pair = Self { model, real: PClock::with_spare(spare), next_id: 0 };
        for (flow, promise) in promises.iter().enumerate() {
            pair.step(&Step::Configure(flow, *promise));
        }
        pair
    }

    fn now(&self) -> Time {
        Time::from_nanos(self.model.now as u64)
    }

    fn dispatch(&mut self) -> bool {
        let (expected, now) = (self.model.dispatch(), self.now());
        let dispatched = common::dispatch(&mut self.real, now);
        let tag = |tag: i128| Time::from_nanos(tag.max(0) as u64);
        assert_eq!(
            dispatched.map(|dispatch| (dispatch.request.id.0, dispatch.finish_tag)),
            expected.map(|(id, finish)| (id, finish.map(tag)))
        );
        expected.is_some()
    }

    fn step(&mut self, step: &Step) {
        let now = self.now();
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
            Step::Spare(spare) => {
                self.model.permille = permille_of(spare);
                self.model.batch = None;
                self.real.set_spare(now, spare).unwrap();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    #[test]
    fn dispatches_what_the_model_dispatches(
        promises in prop::collection::vec(promises(), FLOWS), spare in spares(), steps in steps(),
    ) {
        let mut pair = Pair::new(&promises, spare);
        for step in &steps {
            pair.step(step);
        }
        while pair.dispatch() {
            pair.step(&Step::Wait(1_000_000));
        }
        for flow in 0..FLOWS {
            prop_assert_eq!(pair.real.backlog(FlowId(flow as u32)), 0);
        }
    }
}
