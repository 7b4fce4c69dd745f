//! FAIRIO dispatches what a naive model dispatches: one that keeps every request and every column of
//! its history in plain lists and works everything out anew each time.

mod common;

use std::collections::BTreeMap;

use common::{request, slo};
use evenkeel_core::sched::fairio::{Accounting, Fairio, FairioConfig};
use evenkeel_core::*;
use proptest::prelude::*;

#[derive(Clone, Debug, Default)]
struct Flow {
    class: bool,
    weight: u128,
    active: bool,
    share: u128,
    granted: u128,
    credit: u128,
    /// In 2⁻³² ns.
    used: u128,
    completed: u128,
    /// Whether it has had requests waiting ever since the cycle began.
    kept_waiting: bool,
    mean: u128,
    sample: (u128, u128),
    earlier: (u128, u128),
    idle_since: u128,
    deviation: i128,
    virtual_start: u128,
    virtual_finish: u128,
}

#[derive(Clone, Debug, Default)]
struct Column {
    elapsed: u128,
    charges: BTreeMap<usize, u128>,
}

struct Model {
    cycle: u128,
    disks: u128,
    r: usize,
    threshold: u128,
    load: usize,
    reported: bool,
    queued: bool,
    now: u128,
    start: Option<u128>,
    /// Requests of classes sent in this cycle, and requests completed.
    sent: usize,
    done: usize,
    /// When there were last more requests at the store than disks.
    crowded: Option<u128>,
    changed: bool,
    flows: BTreeMap<usize, Flow>,
    waiting: Vec<(u64, usize)>,
    store: Vec<(u64, usize)>,
    columns: Vec<Column>,
    /// What is left of the last slice, in parts of 1 / requests at the store.
    part: u128,
    /// The last completion, or when the store had nothing before.
    progress: u128,
    attempts: usize,
    failed: usize,
    virtual_now: u128,
}

impl Model {
    fn advance(&mut self, now: u128) {
        let n = self.store.len() as u128;
        if n > self.disks && now > self.now {
            self.crowded = Some(now);
        }
        if self.queued {
            for (_, flow) in self.store.iter().take(self.disks as usize) {
                if let Some(flow) = self.flows.get_mut(flow) {
                    flow.used += if flow.active { (now - self.now) << 32 } else { 0 };
                }
            }
        } else if n > 0 && !self.reported {
            let grown = ((now - self.now) << 32) * n.min(self.disks) + self.part;
            let slice = grown / n;
            self.part = grown % n;
            for (_, flow) in &self.store {
                if let Some(flow) = self.flows.get_mut(flow) {
                    flow.used += if flow.active { slice } else { 0 };
                }
            }
        }
        self.now = now;
    }

    fn here(&self, flow: usize) -> usize {
        self.waiting.iter().filter(|waiting| waiting.1 == flow).count()
    }

    fn there(&self, flow: usize) -> usize {
        self.store.iter().filter(|out| out.1 == flow).count()
    }

    fn waits(&self) -> bool {
        self.waiting.iter().any(|waiting| self.flows[&waiting.1].class)
    }

    fn active(&self) -> Vec<usize> {
        self.flows.iter().filter(|(_, flow)| flow.active).map(|(id, _)| *id).collect()
    }

    fn flow(&mut self, id: usize) -> &mut Flow {
        self.flows.get_mut(&id).unwrap()
    }

    fn join(&mut self, id: usize) {
        if !self.flows[&id].active {
            let now = self.now;
            let Flow { class, weight, mean, .. } = self.flows[&id];
            let joined = Flow { class, weight, mean, active: true, idle_since: now, ..Flow::default() };
            self.flows.insert(id, joined);
            self.changed = true;
        }
    }

    fn catch_up(&mut self) {
        let Some(start) = self.start else { return };
        if self.now >= start + self.cycle {
            let idle = !self.waits() && self.store.is_empty();
            if self.done >= self.active().len() {
                self.turn(if idle { self.cycle } else { self.now - start }, false);
            } else if idle {
                self.start = Some(self.now - self.cycle);
            }
        }
    }

    fn turn(&mut self, elapsed: u128, forward: bool) {
        self.charge(elapsed);
        for id in self.active() {
            let idle = self.here(id) + self.there(id) == 0;
            if idle && self.now - self.flows[&id].idle_since >= self.cycle * self.r as u128 {
                self.flow(id).active = false;
                self.changed = true;
            }
        }
        self.start = if self.active().is_empty() { None } else { Some(self.now) };
        (self.sent, self.done) = (0, 0);
        if self.start.is_some() {
            self.begin(forward);
        }
    }

    fn charge(&mut self, elapsed: u128) {
        let (mut spare, mut short, mut excess) = (0, 0, 0);
        let mut verdicts = Vec::new();
        for id in self.active() {
            let flow = &self.flows[&id];
            let (used, entitled) = (flow.used >> 32, flow.share * elapsed / self.cycle);
            let pending = self.here(id) + if flow.credit == 0 { self.there(id) } else { 0 };
            let behind = entitled.saturating_sub(used);
            let owed = if flow.kept_waiting { behind } else { behind.min(8 * pending as u128 * flow.mean) };
            spare += behind - owed;
            short += owed;
            excess += used.saturating_sub(entitled);
            verdicts.push((id, used, entitled, owed));
        }
        let forgiven = spare.saturating_sub(short).min(excess);
        if self.columns.last().is_none_or(|column| column.elapsed >= self.cycle) {
            self.columns.push(Column::default());
        }
        let column = self.columns.last_mut().unwrap();
        column.elapsed += elapsed;
        let full = column.elapsed >= self.cycle;
        for (id, used, entitled, owed) in verdicts {
            let over = used.saturating_sub(entitled);
            let charged = if over > 0 { used - over * forgiven / excess } else { entitled - owed };
            *column.charges.entry(id).or_default() += charged;
            let flow = self.flows.get_mut(&id).unwrap();
            flow.sample = (flow.sample.0 + used, flow.sample.1 + flow.completed);
            if flow.sample.1 > 0 && full {
                flow.mean = (flow.sample.0 / flow.sample.1).max(1);
                flow.earlier = std::mem::take(&mut flow.sample);
            } else if flow.sample.1 > 0 {
                let (sample, earlier) = (flow.sample, flow.earlier);
                flow.mean = ((sample.0 + earlier.0) / (sample.1 + earlier.1)).max(1);
            }
        }
    }

    fn begin(&mut self, forward: bool) {
        if std::mem::take(&mut self.changed) {
            self.columns.clear();
        }
        self.deviate();
        let service = self.cycle * self.disks;
        let size = |flow: &Flow| flow.deviation.unsigned_abs();
        if self.any(|_, flow| flow.deviation < 0) {
            self.divide(service, |_, flow| if flow.deviation < 0 { size(flow) } else { 0 }, false);
        } else if self.any(|_, flow| flow.deviation == 0) {
            self.divide(service, |_, flow| if flow.deviation == 0 { flow.weight } else { 0 }, false);
        } else {
            self.divide(service, |_, flow| (1 << 72) / size(flow), false);
        }
        self.grant(forward);
        let batch = self.failed.min(self.load.saturating_sub(self.store.len()));
        self.failed -= batch;
        self.attempts += batch;
    }

    fn deviate(&mut self) {
        let window = &self.columns[self.columns.len().saturating_sub(self.r)..];
        let whole = self.columns.iter().filter(|column| column.elapsed >= self.cycle).count() >= self.r;
        let offered: u128 = window.iter().map(|column| column.elapsed * self.disks).sum();
        let sum = |id: usize| window.iter().filter_map(|column| column.charges.get(&id)).sum::<u128>();
        let active = self.active();
        let sums: BTreeMap<usize, u128> = active.iter().map(|id| (*id, sum(*id))).collect();
        let all: u128 = sums.values().sum();
        let queued = self.crowded.is_some_and(|last| self.now - last < self.cycle * self.r as u128);
        let offered = if !self.reported && !self.queued && queued {
            offered.min(all + all / 16)
        } else if all > offered + offered / 16 {
            offered
        } else {
            all + all / 16
        };
        let weights: u128 = active.iter().map(|id| self.flows[id].weight).sum();
        let tolerance = (offered >> 20).max(self.r as u128);
        for (id, sum) in sums {
            let flow = self.flow(id);
            let deviation = sum as i128 - (offered * flow.weight / weights) as i128;
            flow.deviation = if whole && deviation.unsigned_abs() > tolerance { deviation } else { 0 };
        }
    }

    fn any(&self, which: impl Fn(usize, &Flow) -> bool) -> bool {
        self.active().into_iter().any(|id| which(id, &self.flows[&id]))
    }

    fn divide(&mut self, total: u128, part: impl Fn(usize, &Flow) -> u128, granted: bool) {
        let parts: Vec<_> = self.active().into_iter().map(|id| (id, part(id, &self.flows[&id]))).collect();
        let whole: u128 = parts.iter().map(|(_, part)| part).sum();
        for (id, part) in parts {
            let flow = self.flow(id);
            *(if granted { &mut flow.granted } else { &mut flow.share }) = total * part / whole.max(1);
        }
    }

    fn grant(&mut self, forward: bool) {
        let wants: BTreeMap<usize, bool> = self
            .active()
            .into_iter()
            .map(|id| (id, self.here(id) > 0 || !forward && self.there(id) > 0))
            .collect();
        let threshold = self.threshold;
        let able = |id: usize, flow: &Flow| wants[&id] && flow.share.div_ceil(flow.mean) >= threshold;
        let total = self.active().iter().map(|id| self.flows[id].share).sum();
        if self.any(able) {
            self.divide(total, |id, flow| if able(id, flow) { flow.share } else { 0 }, true);
        } else if self.any(|id, flow| wants[&id] && flow.share > 0) {
            self.divide(total, |id, flow| if wants[&id] { flow.share } else { 0 }, true);
        } else {
            self.divide(total, |id, flow| if wants[&id] { flow.weight } else { 0 }, true);
        }
        let waits: BTreeMap<usize, bool> =
            self.active().into_iter().map(|id| (id, self.here(id) > 0)).collect();
        for id in self.active() {
            let flow = self.flow(id);
            flow.granted = if flow.granted == 0 && !wants[&id] { flow.share } else { flow.granted };
            flow.credit = flow.granted.div_ceil(flow.mean);
            (flow.used, flow.completed, flow.kept_waiting) = (0, 0, waits[&id]);
        }
    }

    fn revoke(&mut self, id: usize) {
        let flow = self.flow(id);
        if flow.used >= flow.granted << 32 {
            flow.credit = 0;
        }
    }

    fn arrive(&mut self, id: u64, flow: usize) -> bool {
        if !self.flows.contains_key(&flow) {
            return false;
        }
        self.catch_up();
        let first = self.here(flow) == 0;
        self.waiting.push((id, flow));
        if self.flows[&flow].class {
            self.attempts += 1;
            self.join(flow);
        } else if first {
            let virtual_now = self.virtual_now;
            let flow = self.flow(flow);
            flow.virtual_start = flow.virtual_finish.max(virtual_now);
        }
        true
    }

    fn send(&mut self, index: usize) -> Result<u64, u128> {
        if self.store.is_empty() {
            self.progress = self.now;
        }
        let sent = self.waiting.remove(index);
        self.store.push(sent);
        let waits = self.here(sent.1) > 0;
        self.flow(sent.1).kept_waiting &= waits;
        self.part = 0;
        Ok(sent.0)
    }

    /// What goes now, or until when to wait; 0: nothing waits; [`BLOCKED`]: until a completion.
    fn dispatch(&mut self) -> Result<u64, u128> {
        self.catch_up();
        if !self.waits() {
            let heads = self.waiting.iter().enumerate();
            let head = heads.min_by_key(|(index, waiting)| (self.flows[&waiting.1].virtual_start, *index));
            let Some((index, &(_, id))) = head else { return Err(0) };
            self.virtual_now = self.flows[&id].virtual_start;
            let flow = self.flow(id);
            flow.virtual_finish = flow.virtual_start + (1_000 << 40) / flow.weight;
            flow.virtual_start = flow.virtual_finish;
            return self.send(index);
        }
        if self.start.is_none() {
            (self.start, self.sent, self.done) = (Some(self.now), 0, 0);
            self.begin(false);
        }
        loop {
            // The oldest whose class has credit; classes that turn out to have used it up lose it.
            let mut next = None;
            for index in 0..self.waiting.len() {
                let id = self.waiting[index].1;
                if self.flows[&id].active && next.is_none() && self.flows[&id].credit > 0 {
                    self.revoke(id);
                    next = (self.flows[&id].credit > 0).then_some(index);
                }
            }
            match next {
                Some(index) if self.attempts > 0 => {
                    let id = self.waiting[index].1;
                    self.flow(id).credit -= 1;
                    self.attempts -= 1;
                    self.sent += 1;
                    return self.send(index);
                }
                Some(_) => {}
                None => self.failed += std::mem::take(&mut self.attempts),
            }
            let start = self.start.unwrap();
            if self.store.len() >= self.load {
                return Err(if self.now < start + self.cycle { start + self.cycle } else { BLOCKED });
            }
            if self.active().len() > 8 * self.sent.max(1) {
                // Too early for a turn: the oldest goes, whether or not its class has credit.
                let oldest = |waiting: &(u64, usize)| self.flows[&waiting.1].active;
                let index = next.or(self.waiting.iter().position(oldest)).unwrap();
                let id = self.waiting[index].1;
                self.flow(id).credit = self.flows[&id].credit.saturating_sub(1);
                if self.attempts > 0 {
                    self.attempts -= 1;
                } else {
                    self.failed = self.failed.saturating_sub(1);
                }
                self.sent += 1;
                return self.send(index);
            }
            if self.now == start {
                return Err(start + 1);
            }
            self.turn(self.now - start, true);
        }
    }

    fn complete(&mut self, index: usize, service: Option<u64>, cancelled: bool) {
        self.changed |= self.now - self.progress >= self.cycle * self.r as u128;
        self.progress = self.now;
        // Which of a flow's requests is done nobody tells: in a queue it is taken for the oldest.
        let id = self.store[index].1;
        let oldest = self.store.iter().position(|(_, flow)| *flow == id);
        self.store.remove(if self.queued { oldest.unwrap() } else { index });
        self.part = 0;
        let (now, reported) = (self.now, self.reported);
        if let Some(flow) = self.flows.get_mut(&id).filter(|flow| flow.active) {
            let unknown = if cancelled { 0 } else { flow.mean };
            flow.used += if reported { service.map_or(unknown, u128::from) << 32 } else { 0 };
            flow.completed += u128::from(!cancelled);
            flow.idle_since = now;
            self.revoke(id);
        }
        self.attempts += 1;
        self.done += 1;
        self.catch_up();
    }

    fn configure(&mut self, id: usize, weight: u32, class: bool) {
        let weight = weight.into();
        let here = self.here(id);
        let old = self.flows.get(&id).cloned();
        if let Some(same) = old.clone().filter(|old| old.class == class) {
            self.changed |= same.active && same.weight != weight;
            self.flows.insert(id, Flow { weight, ..same });
            return;
        }
        self.changed |= old.is_some_and(|old| old.active);
        let virtual_start = self.virtual_now;
        self.flows.insert(id, Flow { class, weight, mean: 5_000_000, virtual_start, ..Flow::default() });
        if class && here > 0 {
            self.attempts += here;
            self.join(id);
        }
    }

    fn remove(&mut self, id: usize) -> bool {
        let may = self.flows.contains_key(&id) && self.here(id) == 0;
        if may {
            self.changed |= self.flows[&id].active;
            self.flows.remove(&id);
        }
        may
    }
}

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Arrive { flow: usize, count: u8 },
    Dispatch(u8),
    Complete { which: usize, count: u8, service: Option<u64>, cancelled: bool },
    Configure { flow: usize, weight: u32, class: bool },
    Remove(usize),
}

const FLOWS: usize = 5;

const MANY: usize = 40;

/// "Not before a completion".
const BLOCKED: u128 = u128::MAX;

fn steps(flows: usize) -> impl Strategy<Value = Vec<Step>> {
    let waits = prop_oneof![0_u64..3_000_000, 0_u64..40_000_000, Just(10_000_000), Just(500_000_000)];
    let done = (0_usize..100, 1_u8..6, prop::option::of(0_u64..20_000_000), prop::bool::weighted(0.1));
    let step = prop_oneof![
        10 => waits.prop_map(Step::Wait),
        8 => (0..flows, 1_u8..12).prop_map(|(flow, count)| Step::Arrive { flow, count }),
        12 => (1_u8..20).prop_map(Step::Dispatch),
        12 => done.prop_map(|(which, count, service, cancelled)| Step::Complete { which, count, service, cancelled }),
        1 => (0..flows, 1_u32..9, prop::bool::weighted(0.8))
            .prop_map(|(flow, weight, class)| Step::Configure { flow, weight, class }),
        1 => (0..flows).prop_map(Step::Remove),
    ];
    prop::collection::vec(step, 1..250)
}

fn configs() -> impl Strategy<Value = FairioConfig> {
    let cycle = prop_oneof![Just(10_000_000_u64), 1_000_u64..50_000_000];
    let accounting =
        prop_oneof![Just(Accounting::Reported), Just(Accounting::Estimated), Just(Accounting::Queued)];
    (cycle, 1_u32..9, 1_u32..5, 1_u32..4, 1_u32..17, accounting).prop_map(
        |(cycle, disks, window_cycles, class_threshold, load_threshold, accounting)| FairioConfig {
            window_cycles,
            class_threshold,
            load_threshold,
            accounting,
            ..FairioConfig::new(Span::from_nanos(cycle), disks)
        },
    )
}

/// Both side by side.
struct Pair {
    model: Model,
    real: Fairio,
    next_id: u64,
}

impl Pair {
    /// Flows 0 .. `flows`, all classes but the last.
    fn new(config: FairioConfig, flows: usize) -> Self {
        let model = Model {
            cycle: config.cycle.as_nanos().into(),
            disks: config.disks.into(),
            r: config.window_cycles as usize,
            threshold: config.class_threshold.into(),
            load: config.load_threshold as usize,
            reported: config.accounting == Accounting::Reported,
            queued: config.accounting == Accounting::Queued,
            now: 0,
            start: None,
            sent: 0,
            done: 0,
            crowded: None,
            changed: false,
            flows: BTreeMap::new(),
            waiting: Vec::new(),
            store: Vec::new(),
            columns: Vec::new(),
            part: 0,
            progress: 0,
            attempts: 0,
            failed: 0,
            virtual_now: 0,
        };
        let mut pair = Self { model, real: Fairio::new(config).unwrap(), next_id: 0 };
        for flow in 0..flows {
            pair.step(&Step::Configure { flow, weight: 1 + flow as u32, class: flow + 1 < flows });
        }
        pair
    }

    fn now(&self) -> Time {
        Time::from_nanos(self.model.now as u64)
    }

    fn dispatch(&mut self) -> Result<u64, u128> {
        let expected = self.model.dispatch();
        let actual = match self.real.poll_dispatch(self.now()) {
            Decision::Dispatch(dispatch) => Ok(dispatch.request.id.0),
            Decision::WaitUntil(instant) => Err(instant.as_nanos().into()),
            Decision::Idle => Err(0),
            Decision::Blocked => Err(BLOCKED),
        };
        assert_eq!(actual, expected);
        expected
    }

    fn complete(&mut self, which: usize, service: Option<u64>, cancelled: bool) {
        if self.model.store.is_empty() {
            return;
        }
        let index = which % self.model.store.len();
        let (id, flow) = self.model.store[index];
        let outcome = if cancelled { Outcome::Cancelled } else { Outcome::Done };
        let mut completion = Completion::new(Ticket::from_bits(id), outcome);
        completion.service = service.map(Span::from_nanos);
        self.model.complete(index, service, cancelled);
        self.real.on_completion(self.now(), &request(id, flow, 1_000), &completion);
    }

    fn step(&mut self, step: &Step) {
        let now = self.now();
        match *step {
            Step::Wait(nanos) => {
                self.model.advance(self.model.now + u128::from(nanos));
            }
            Step::Arrive { flow, count } => {
                for _ in 0..count {
                    let arrival = Arrival::new(now, request(self.next_id, flow, 1_000));
                    let taken = self.real.on_arrival(now, arrival).is_ok();
                    assert_eq!(taken, self.model.arrive(self.next_id, flow));
                    self.next_id += 1;
                }
            }
            Step::Dispatch(count) => _ = (0..count).try_for_each(|_| self.dispatch().map(|_| ())),
            Step::Complete { which, count, service, cancelled } => {
                (0..count).for_each(|_| self.complete(which, service, cancelled));
            }
            Step::Configure { flow, weight, class } => {
                let promise = if class { slo(1, 1, 1) } else { Slo::background() };
                let promise = promise.with_weight(Weight::new(weight).unwrap());
                self.real.configure(now, FlowId(flow as u32), &promise).unwrap();
                self.model.configure(flow, weight, class);
            }
            Step::Remove(flow) => {
                let removed = self.real.remove(now, FlowId(flow as u32)).is_ok();
                assert_eq!(removed, self.model.remove(flow));
            }
        }
    }
}

/// Goes through `steps`. Nothing is lost: with completions coming, everything that waits goes out.
fn compare(config: FairioConfig, flows: usize, steps: &[Step]) {
    let mut pair = Pair::new(config, flows);
    for step in steps {
        pair.step(step);
    }
    for _ in 0..20_000 {
        match pair.dispatch() {
            Ok(_) => {}
            Err(0) => break,
            Err(later) if pair.model.store.is_empty() => pair.model.advance(later),
            Err(_) => pair.step(&Step::Wait(1_000_000)),
        }
        pair.complete(0, Some(3_000_000), false);
    }
    for flow in 0..flows {
        assert_eq!(pair.real.backlog(FlowId(flow as u32)), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]

    #[test]
    fn dispatches_what_the_model_dispatches(config in configs(), steps in steps(FLOWS)) {
        compare(config, FLOWS, &steps);
    }

    /// What a scheduler that takes over gets: everything, once, each flow in its order.
    #[test]
    fn evicts_everything(config in configs(), steps in steps(FLOWS)) {
        let mut pair = Pair::new(config, FLOWS);
        for step in &steps {
            pair.step(step);
        }
        let mut left = Vec::new();
        while let Some(dispatch) = pair.real.evict(pair.now()) {
            left.push((dispatch.request.id.0, dispatch.request.flow.0 as usize));
        }
        for flow in 0..FLOWS {
            let of = |all: &[(u64, usize)]| all.iter().filter(|one| one.1 == flow).copied().collect::<Vec<_>>();
            prop_assert_eq!(of(&left), of(&pair.model.waiting));
        }
        prop_assert_eq!(left.len(), pair.model.waiting.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// With a request of most classes waiting at first.
    #[test]
    fn dispatches_what_the_model_dispatches_with_many_classes(
        config in configs(), idle in 1_usize..9, steps in steps(MANY),
    ) {
        let busy = (0..MANY).filter(|flow| flow % 9 >= idle).map(|flow| Step::Arrive { flow, count: 1 });
        compare(config, MANY, &busy.chain(steps).collect::<Vec<_>>());
    }
}
