//! Cello: classes of applications share the store by weight, and each class has a scheduler of its own.
//!
//! Source: Shenoy, Vin, "Cello: A Disk Scheduling Framework for Next Generation Operating Systems",
//! SIGMETRICS 1998 and Real-Time Systems 22, 2002. This was written from published descriptions (the
//! abstract; Jain, Penn State 2008, section 2.2; FAIRIO, section V), not from the paper's own
//! pseudocode. Taken from there: the two levels and two time scales, a class-independent scheduler that
//! gives each class its share by weight and hands idle shares on, class-specific schedulers that place requests
//! within the share; the three classes; interactive requests go first as far as the slack of
//! real-time requests allows; throughput-intensive requests go behind; work conservation.
//!
//! ```text
//!  class-specific: who of a class                    class-independent: which class
//!   real-time    [ deadline | ... ]  EDF             left of the round  ███░░   allocation = weight · quantum
//!   interactive  [ S flow   | ... ]  by weight                          █░░░░
//!   throughput   [ S flow   | ... ]  by weight                          ████░
//!                                                    nobody who waits has any left: next round
//!
//!  now ├──── at the store ────┼ interactive ┼── real-time that waits ──┤<── slack ──>│ earliest deadline
//!       the interactive request goes first if all of this fits; if not, the real-time one goes
//! ```
//!
//! **Class of a flow.** With an envelope it is real-time (deadline: arrival + δ of the innermost class);
//! without, interactive if its [`Slo`] says so, and throughput-intensive otherwise. All three share:
//! unlike elsewhere, flows without a promise are served beside the others, by their class's weight.
//!
//! **Law.** Over any interval in which the classes f and m both have requests waiting, what is dispatched
//! to them satisfies |W_f/a_f − W_m/a_m| ≤ 2 + c_f/a_f + c_m/a_m, with a the allocation of a round
//! and c the largest cost. Within a best-effort class likewise by weight of the flow, as in SFQ. Work
//! conserving, each flow in the order of arrival. No latency is promised: EDF within a share that
//! may be too small.
//!
//! Settled here:
//! 1. Cello can divide time or bytes. Rounds are measured in cost here (bytes, with the cost model in their
//!    place): to divide time it would need a model of the store (FAIRIO, section V). A round ends when
//!    no class that waits has any of its allocation left. What a class overdraws with its last
//!    request is taken from its next allocation; what it leaves is lost.
//! 2. Slack: earliest deadline − now − (what is at the store + the interactive request + what the real-time
//!    class may still send of what waits) at the store's pace. That is a sum instead of a search for the
//!    tightest place, so it errs towards real-time.
//! 3. The pace is measured: time between completions while the store is busy, per unit of cost, averaged
//!    with weight 1/8 for the newest. Before the first completion requests are taken to need no time.
//! 4. Within a round a real-time request goes before throughput-intensive ones. Seeks are left to the
//!    store: what is dispatched may be reordered there, so SCAN order is not imitated.
//! 5. A flow that changes its class takes its waiting requests along, with their arrivals. A class that
//!    was idle has one allocation at most, and claims nothing for the past.

use alloc::vec::Vec;

use super::fair::FairShare;
use super::{Arrival, ConfigureError, Decision, Scheduler};
use crate::heap::{FlowHeap, Key};
use crate::queue::{Fifo, Slab, Waiting};
use crate::request::{Completion, FlowId, Outcome, Request};
use crate::slo::Slo;
use crate::table;
use crate::units::{Cost, Span, Time, Weight};

pub use super::cello_config::{CelloConfig, CelloConfigError};

/// The Cello scheduler. [`Dispatch::finish_tag`](super::Dispatch::finish_tag) is the deadline of a real-time
/// request, and `None` for the others.
#[derive(Clone, Debug)]
pub struct Cello {
    flows: Vec<Flow>,
    slab: Slab,
    by_deadline: FlowHeap,
    interactive: FairShare,
    throughput: FairShare,
    shares: [Share; 3],
    pace: StorePace,
    sequence: u64,
    now: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    RealTime,
    Interactive,
    Throughput,
}

/// A class in the eyes of the class-independent scheduler. In thousandths of a request.
#[derive(Clone, Copy, Debug)]
struct Share {
    allocation: i128,
    /// What is left of it in this round; below zero if overdrawn.
    left: i128,
    requests: usize,
    cost: i128,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    /// `None` if the flow is not known.
    class: Option<Class>,
    queue: Fifo,
    weight: Weight,
    latency: Span,
    /// Best effort: virtual finish tag of the last request served.
    virtual_finish: u128,
}

const _: () = assert!(size_of::<Flow>() <= 144, "an idle flow stays small");

/// How fast the store is, and what it has been given.
#[derive(Clone, Copy, Debug, Default)]
struct StorePace {
    /// Time per request of cost 1, in nanoseconds; `None` before the first completion.
    nanos: Option<u64>,
    outstanding: u32,
    cost: u128,
    /// When it became busy, or when it last completed a request.
    since: Time,
}

impl StorePace {
    /// The weight of a new sample is 1 / this.
    const MEMORY: u64 = 8;
    /// The longest sample, an hour.
    const SAMPLE_MAX: u128 = 3_600_000_000_000;

    fn dispatch(&mut self, now: Time, cost: Cost) {
        if self.outstanding == 0 {
            self.since = now;
        }
        self.outstanding += 1;
        self.cost += u128::from(cost.as_millis());
    }

    fn complete(&mut self, now: Time, cost: Cost, counts: bool) {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.cost = self.cost.saturating_sub(cost.as_millis().into());
        if !counts {
            return;
        }
        let gap = u128::from(now.since(self.since).as_nanos()) * u128::from(Cost::ONE.as_millis());
        let sample = (gap / u128::from(cost.as_millis().max(1))).min(Self::SAMPLE_MAX) as u64;
        self.since = now;
        self.nanos = Some(match self.nanos {
            Some(nanos) => nanos - nanos / Self::MEMORY + sample / Self::MEMORY,
            None => sample,
        });
    }

    /// How long the store takes for what it has and for `cost` thousandths more.
    fn time_for(&self, cost: u128) -> u128 {
        let nanos = u128::from(self.nanos.unwrap_or(0));
        nanos.saturating_mul(self.cost.saturating_add(cost)) / u128::from(Cost::ONE.as_millis())
    }
}

impl Flow {
    const ABSENT: Self =
        Self { class: None, queue: Fifo::EMPTY, weight: Weight::ONE, latency: Span::ZERO, virtual_finish: 0 };

    fn deadline_of(&self, waiting: &Waiting) -> u128 {
        waiting.tag + u128::from(self.latency.as_nanos())
    }
}

impl Class {
    fn of(slo: &Slo) -> Self {
        match slo.envelope() {
            Some(_) => Self::RealTime,
            None if slo.is_interactive() => Self::Interactive,
            None => Self::Throughput,
        }
    }
}

impl Share {
    /// Whether the class waits and may send in this round.
    fn may_send(&self) -> bool {
        self.requests > 0 && self.left > 0
    }
}

impl Cello {
    /// A scheduler without flows.
    ///
    /// # Errors
    /// If a parameter is outside its range.
    pub fn new(config: CelloConfig) -> Result<Self, CelloConfigError> {
        config.check()?;
        let share = |allocation| Share { allocation, left: allocation, requests: 0, cost: 0 };
        Ok(Self {
            flows: Vec::new(),
            slab: Slab::new(),
            by_deadline: FlowHeap::default(),
            interactive: FairShare::default(),
            throughput: FairShare::default(),
            shares: config.allocations().map(share),
            pace: StorePace::default(),
            sequence: 0,
            now: Time::ZERO,
        })
    }

    /// Moves the clock; it never goes back.
    fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    fn class_of(&self, flow: FlowId) -> Result<Class, ConfigureError> {
        let class = self.flows.get(flow.index()).and_then(|known| known.class);
        class.ok_or(ConfigureError::UnknownFlow(flow))
    }

    /// Makes room for `flow` as one of `class`.
    fn cover(&mut self, flow: FlowId, class: Class) {
        let flows = flow.index() + 1;
        if flows > self.flows.len() {
            table::cover(&mut self.flows, flows, Flow::ABSENT);
        }
        match class {
            Class::RealTime => self.by_deadline.cover(flows),
            Class::Interactive => self.interactive.cover(flows),
            Class::Throughput => self.throughput.cover(flows),
        }
    }

    /// Puts the head of `id` where its class looks for it, or takes the flow out if it is idle.
    fn settle(&mut self, id: FlowId) {
        let flow = &self.flows[id.index()];
        let (head, finish) = (flow.queue.front(&self.slab), flow.virtual_finish);
        match (flow.class, head) {
            (Some(Class::RealTime), Some(head)) => {
                self.by_deadline.set(id, Key { tag: flow.deadline_of(head), sequence: head.sequence });
            }
            (Some(Class::Interactive), Some(head)) => self.interactive.enter(id, finish, head.sequence),
            (Some(Class::Throughput), Some(head)) => self.throughput.enter(id, finish, head.sequence),
            (_, None) | (None, _) => self.leave(id),
        }
    }

    fn leave(&mut self, id: FlowId) {
        self.by_deadline.remove(id);
        self.interactive.withdraw(id);
        self.throughput.withdraw(id);
    }

    /// `requests` of `cost` thousandths have moved from one class to another.
    fn move_backlog(&mut self, from: Option<Class>, to: Class, requests: usize, cost: i128) {
        if let Some(from) = from {
            self.shares[from as usize].requests -= requests;
            self.shares[from as usize].cost -= cost;
        }
        self.shares[to as usize].requests += requests;
        self.shares[to as usize].cost += cost;
    }

    /// Begins as many rounds as it takes until a class that waits may send.
    fn renew(&mut self) {
        let waiting = self.shares.iter().filter(|share| share.requests > 0);
        let rounds = waiting.map(|share| (-share.left).max(0) / share.allocation + 1).min().unwrap_or(0);
        for share in &mut self.shares {
            share.left = (share.left + rounds * share.allocation).min(share.allocation);
        }
    }

    /// The class that sends next; some class waits.
    fn choose(&mut self) -> Class {
        if !self.shares.iter().any(Share::may_send) {
            self.renew();
        }
        let [real_time, interactive, _] = self.shares.map(|share| share.may_send());
        if interactive && (!real_time || self.has_slack()) {
            Class::Interactive
        } else if real_time {
            Class::RealTime
        } else {
            Class::Throughput
        }
    }

    /// Whether the next interactive request can go before all real-time ones without making them late.
    fn has_slack(&mut self) -> bool {
        let head = self.interactive.next().and_then(|id| self.flows[id.index()].queue.front(&self.slab));
        let cost = head.map_or(0, |head| u128::from(head.cost.as_millis()));
        let share = &self.shares[Class::RealTime as usize];
        let behind = share.cost.min(share.left).unsigned_abs();
        let done = u128::from(self.now.as_nanos()) + self.pace.time_for(cost + behind);
        self.by_deadline.peek().is_none_or(|(head, _)| done <= head.tag)
    }

    fn serve(&mut self, class: Class) -> Option<Decision> {
        let next = match class {
            Class::RealTime => self.by_deadline.peek().map(|(_, flow)| flow),
            Class::Interactive => self.interactive.next(),
            Class::Throughput => self.throughput.next(),
        };
        let id = next?;
        let flow = &mut self.flows[id.index()];
        let waiting = flow.queue.pop(&mut self.slab)?;
        let cost = waiting.cost;
        let deadline = u64::try_from(flow.deadline_of(&waiting)).unwrap_or(u64::MAX);
        let deadline = (class == Class::RealTime).then_some(Time::from_nanos(deadline));
        match class {
            Class::RealTime => {}
            Class::Interactive => flow.virtual_finish = self.interactive.serve(cost, flow.weight, None),
            Class::Throughput => flow.virtual_finish = self.throughput.serve(cost, flow.weight, None),
        }
        let share = &mut self.shares[class as usize];
        share.requests -= 1;
        share.cost -= i128::from(cost.as_millis());
        share.left -= i128::from(cost.as_millis().max(1));
        self.pace.dispatch(self.now, cost);
        self.settle(id);
        Some(Decision::Dispatch(waiting.dispatch(deadline)))
    }
}

impl Scheduler for Cello {
    fn name(&self) -> &'static str {
        "cello"
    }

    fn configure(&mut self, now: Time, id: FlowId, slo: &Slo) -> Result<(), ConfigureError> {
        if id > FlowId::MAX {
            return Err(ConfigureError::FlowOutOfRange(id));
        }
        self.advance(now);
        let class = Class::of(slo);
        self.cover(id, class);
        let flow = &mut self.flows[id.index()];
        let old = flow.class.replace(class);
        flow.weight = slo.weight();
        flow.latency = slo.envelope().map_or(Span::ZERO, |envelope| envelope.latency());
        if old != Some(class) {
            flow.virtual_finish = 0;
            let (queue, mut cost) = (flow.queue, 0);
            queue.for_each_mut(&mut self.slab, |waiting| cost += i128::from(waiting.cost.as_millis()));
            self.move_backlog(old, class, queue.len(), cost);
            self.leave(id);
            self.settle(id);
        } else if class == Class::RealTime {
            self.settle(id);
        }
        Ok(())
    }

    fn remove(&mut self, now: Time, flow: FlowId) -> Result<(), ConfigureError> {
        self.class_of(flow)?;
        if !self.flows[flow.index()].queue.is_empty() {
            return Err(ConfigureError::Busy(flow));
        }
        self.advance(now);
        self.flows[flow.index()] = Flow::ABSENT;
        Ok(())
    }

    fn on_arrival(&mut self, now: Time, arrival: Arrival) -> Result<(), ConfigureError> {
        let id = arrival.request.flow;
        let class = self.class_of(id)?;
        if self.slab.is_full() {
            return Err(ConfigureError::TooManyWaiting);
        }
        self.advance(now);
        let waiting = Waiting::new(arrival, self.sequence, self.now.as_nanos().into());
        self.sequence += 1;
        self.move_backlog(None, class, 1, arrival.request.cost.as_millis().into());
        let flow = &mut self.flows[id.index()];
        flow.queue.push(&mut self.slab, waiting);
        if flow.queue.len() == 1 {
            self.settle(id);
        }
        Ok(())
    }

    fn poll_dispatch(&mut self, now: Time) -> Decision {
        self.advance(now);
        if self.shares.iter().all(|share| share.requests == 0) {
            return Decision::Idle;
        }
        let class = self.choose();
        self.serve(class).unwrap_or(Decision::Idle)
    }

    fn on_completion(&mut self, now: Time, request: &Request, completion: &Completion) {
        self.advance(now);
        self.pace.complete(self.now, request.cost, completion.outcome != Outcome::Cancelled);
    }

    fn backlog(&self, flow: FlowId) -> usize {
        self.flows.get(flow.index()).map_or(0, |flow| flow.queue.len())
    }
}
