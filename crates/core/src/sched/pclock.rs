//! pClock: bursts, rates and latency bounds, each flow shielded from the others.
//!
//! Source: Gulati, Merchant, Varman, "pClock: An Arrival Curve Based Approach for QoS Guarantees in
//! Shared Storage Systems", SIGMETRICS 2007, section 3 (algorithms 1 and 2) and section 3.3.
//!
//! ```text
//!  flows [ bucket, frontier, δ, queue ]                       by flow number
//!                           │
//!             ┌─────────────┴──────────────┐  one list per flow through one slab (queue.rs);
//!             v head                       v   each waiting request carries its start tag S
//!           [ S ]─>[ S ]─>[ S ]          [ S ]─>[ S ]
//!             │                            │
//!  by_finish  [ S + δ of each head | ... ]    smallest: dispatched next        O(log flows)
//!  by_start   [ S of each head     | ... ]    smallest later than now: shift   O(1)
//!  fair       [ background heads   | ... ]    fair.rs
//!  lending    who has room to lend them       spare.rs
//!
//!  stored tag = actual tag + shift          ──┬─────────┬───────────────────> stored
//!  synchronize: shift += min S − now         now     min S     all tags, those of idle flows
//!                                             └─────────┘      too, move back by this much
//! ```
//!
//! **Tags** are nanoseconds on one stored axis, `u128`: a synchronization adds to `shift` instead of
//! subtracting from every tag. 64 bits would overflow: a flow of 0.001 IOPS alone on a device that
//! serves 10⁶ IOPS shifts by 1000 s per request, 10⁹ times as fast as real time. `shift` starts at
//! 2⁹⁶ so that tags before the epoch are positive too, and everything saturates at the top: that
//! takes 10¹⁰ requests of the largest cost at the smallest rate.
//!
//! **Start tags.** The *frontier* of a flow is the instant at which its arrival bound is used up by
//! what it has sent; the paper's MaxS is frontier + cost/ρ. It carries the remainder of cost/ρ in
//! units of 1/ρ ns, so rates do not drift. A request inside the bound has S = now, any other has
//! S = max(now, frontier + cost/ρ), and that is the new frontier. F = S + δ. S is rounded down to 1 ns.
//!
//! Deviations from the paper:
//! 1. Every arrival takes its cost from the bucket, in both branches (see envelope.rs).
//! 2. *The first request over the bound.* As printed, MaxS is stale when a flow has used its burst, so
//!    its request number σ + 1 has S = now as well. Three flows ⟨1, 1/s, 1 s⟩ need C = 3; let two of
//!    them send two requests and then the third, well-behaved, its one: five requests have the finish
//!    tag 1 s and the last is done after 5/3 s, late by more than the request in service. Here the
//!    first request over the bound starts when the bound admits it, which is what the paper's text and
//!    figure 3(b) say ("the earliest time at which R does not exceed the AUB").
//! 3. For σ smaller than a request the bound admits nothing, yet example 1 (σ = 0) has the tags 0, 20,
//!    40: such a flow is treated as if its σ were that one request. Admission counts it so too.
//! 4. MinS is the start tag of the oldest *pending* request (table 2), not of the last dispatched.
//! 5. Synchronization also before every dispatch, and the tags of idle flows move with the others.
//!    Otherwise a closed-loop client is never busy at its own arrivals, hence never synchronized,
//!    and is starved later (case 2).
//! 6. Costs other than one: "tokens < 1" is "tokens < cost" and 1/ρ is cost/ρ.
//! 7. Parameters changed while requests wait: the new δ applies to those too, tokens keep their debt,
//!    start tags stay. A later request never starts before an earlier one of its flow; where new
//!    parameters would have it so, its S is that of the request before it. A flow that turns from
//!    background to guaranteed has its waiting requests stamped as if they arrived at that moment.
//! 8. Several background flows share by weight (fair.rs); batches: see spare.rs.

use alloc::vec::Vec;

use super::fair::FairShare;
use super::spare::Lending;
use super::{Arrival, ConfigureError, Decision, Scheduler, SpareCapacity};
use crate::envelope::{TokenBucket, grains_of};
use crate::heap::{FlowHeap, Key};
use crate::queue::{Fifo, Slab, Waiting};
use crate::request::{Completion, FlowId, Request};
use crate::slo::{Envelope, Slo};
use crate::units::{Cost, NANOS_PER_SECOND, Rate, Span, Time, Weight};

/// Where the stored axis has the epoch: room for tags before it.
const EPOCH: u128 = 1 << 96;

/// The pClock scheduler.
#[derive(Clone, Debug)]
pub struct PClock {
    flows: Vec<Flow>,
    slab: Slab,
    by_finish: FlowHeap,
    by_start: FlowHeap,
    fair: FairShare,
    lending: Lending,
    spare: SpareCapacity,
    shift: u128,
    sequence: u64,
    now: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Absent,
    Guaranteed,
    Background,
}

/// One flow. The fields of the other role are at rest.
#[derive(Clone, Copy, Debug)]
struct Flow {
    role: Role,
    queue: Fifo,
    /// Guaranteed: σ, ρ and the tokens.
    bucket: TokenBucket,
    latency: Span,
    /// The stored instant at which the arrival bound is used up: whole ns and a part in 1/ρ ns.
    frontier: u128,
    frontier_part: u64,
    /// 1/ρ for a request of cost 1, likewise.
    step: u64,
    step_part: u64,
    /// Whether the last arrival was over the bound; if not, the frontier follows from the bucket.
    overrun: bool,
    /// The largest cost that has arrived.
    largest: Cost,
    /// Background: weight and virtual finish tag of the last request served.
    weight: Weight,
    virtual_finish: u128,
}

const _: () =
    assert!(size_of::<Flow>() <= 144, "an idle flow stays small: 256 bytes with the engine's share");

impl PClock {
    /// A scheduler without flows that gives spare capacity to the guaranteed flows.
    #[must_use]
    pub fn new() -> Self {
        Self::with_spare(SpareCapacity::Flows)
    }

    /// A scheduler without flows.
    #[must_use]
    pub fn with_spare(spare: SpareCapacity) -> Self {
        Self {
            flows: Vec::new(),
            slab: Slab::new(),
            by_finish: FlowHeap::default(),
            by_start: FlowHeap::default(),
            fair: FairShare::default(),
            lending: Lending::new(),
            spare,
            shift: EPOCH,
            sequence: 0,
            now: Time::ZERO,
        }
    }

    /// Who gets spare capacity now.
    #[must_use]
    pub const fn spare(&self) -> SpareCapacity {
        self.spare
    }

    /// Moves the clock; it never goes back.
    fn advance(&mut self, now: Time) -> Time {
        self.now = self.now.max(now);
        self.now
    }

    /// The current instant on the stored axis.
    fn stored_now(&self) -> u128 {
        self.shift.saturating_add(u128::from(self.now.as_nanos()))
    }

    /// A stored tag as an instant; one beyond the end of time is at the end of time.
    fn instant(&self, stored: u128) -> Time {
        Time::from_nanos(u64::try_from(stored.saturating_sub(self.shift)).unwrap_or(u64::MAX))
    }

    fn known(&self, flow: FlowId) -> Result<Role, ConfigureError> {
        match self.flows.get(flow.index()) {
            Some(known) if known.role != Role::Absent => Ok(known.role),
            _ => Err(ConfigureError::UnknownFlow(flow)),
        }
    }

    /// CheckAndAdjustTags: if every waiting guaranteed request starts later than now, all tags move
    /// back until the first starts now.
    fn synchronize(&mut self) {
        let stored_now = self.stored_now();
        let Some((head, _)) = self.by_start.peek() else { return };
        if head.tag <= stored_now {
            return;
        }
        self.shift = self.shift.saturating_add(head.tag - stored_now);
        if self.spare.background_share().as_u16() > 0 && self.fair.next().is_some() {
            let flows = &self.flows;
            self.lending.open(self.now, |flow| flows[flow.index()].latency);
        } else {
            self.lending.close();
        }
    }

    /// Queues a request of a guaranteed flow and computes its tags.
    fn enqueue_guaranteed(&mut self, arrival: Arrival) {
        let (id, stored_now) = (arrival.request.flow, self.stored_now());
        let flow = &mut self.flows[id.index()];
        let behind = flow.queue.back(&self.slab).map_or(0, |last| last.tag);
        let start = flow.stamp(self.now, stored_now, arrival.request.cost, behind);
        flow.queue.push(&mut self.slab, Waiting::new(arrival, self.sequence, start));
        if flow.queue.len() == 1 {
            self.enter_guaranteed(id);
        }
        self.sequence += 1;
    }

    /// The guaranteed `flow` has become busy.
    fn enter_guaranteed(&mut self, flow: FlowId) {
        self.rekey(flow);
        if self.flows[flow.index()].lends() {
            self.lending.enter(flow);
        }
    }

    /// Puts the head of the guaranteed `flow` into both heaps, or takes the flow out if it is idle.
    fn rekey(&mut self, id: FlowId) {
        let flow = &self.flows[id.index()];
        if let Some(head) = flow.queue.front(&self.slab) {
            self.by_start.set(id, Key { tag: head.tag, sequence: head.sequence });
            self.by_finish.set(id, Key { tag: flow.finish_of(head.tag), sequence: head.sequence });
        } else {
            self.by_start.remove(id);
            self.by_finish.remove(id);
            self.lending.withdraw(id);
        }
    }

    fn enqueue_background(&mut self, arrival: Arrival) {
        let id = arrival.request.flow;
        let flow = &mut self.flows[id.index()];
        flow.queue.push(&mut self.slab, Waiting::new(arrival, self.sequence, 0));
        if flow.queue.len() == 1 {
            self.fair.enter(id, flow.virtual_finish, self.sequence);
        }
        self.sequence += 1;
    }

    /// If the next background request goes before a head with this finish tag: when it is due.
    fn background_due(&mut self, finish: u128) -> Option<Time> {
        let next = self.fair.next()?;
        let cost = self.flows[next.index()].queue.front(&self.slab)?.request.cost;
        let (flows, share) = (&self.flows, self.spare.background_share().as_u16());
        let due = self.lending.draw(cost, |flow| flows[flow.index()].loan(share))?;
        // Background wins a tie. All loans of one synchronization tie with the first heads of their
        // lenders, so losing ties would leave it only what nobody else wants.
        if u128::from(due.as_nanos()).saturating_add(self.shift) > finish {
            return None;
        }
        self.lending.spend(cost);
        Some(due)
    }

    fn serve_background(&mut self, due: Option<Time>) -> Decision {
        let Some(id) = self.fair.next() else { return Decision::Idle };
        let flow = &mut self.flows[id.index()];
        let Some(waiting) = flow.queue.pop(&mut self.slab) else { return Decision::Idle };
        let successor = flow.queue.front(&self.slab).map(|next| next.sequence);
        flow.virtual_finish = self.fair.serve(waiting.request.cost, flow.weight, successor);
        if self.fair.next().is_none() {
            self.lending.close();
        }
        Decision::Dispatch(waiting.dispatch(due))
    }

    fn serve_guaranteed(&mut self, id: FlowId) -> Decision {
        let flow = &mut self.flows[id.index()];
        let Some(waiting) = flow.queue.pop(&mut self.slab) else { return Decision::Idle };
        let finish = flow.finish_of(waiting.tag);
        self.rekey(id);
        Decision::Dispatch(waiting.dispatch(Some(self.instant(finish))))
    }

    /// Makes room for `flow` in every table.
    fn cover(&mut self, flow: FlowId) {
        let flows = flow.index() + 1;
        if flows > self.flows.len() {
            self.flows.resize(flows, Flow::ABSENT);
            self.by_finish.cover(flows);
            self.by_start.cover(flows);
            self.fair.cover(flows);
            self.lending.cover(flows);
        }
    }

    fn configure_guaranteed(&mut self, id: FlowId, envelope: &Envelope) {
        let (now, stored_now) = (self.now, self.stored_now());
        let flow = &mut self.flows[id.index()];
        if flow.role == Role::Guaranteed {
            flow.reconfigure(now, envelope);
            self.lending.withdraw(id);
        } else {
            self.fair.withdraw(id);
            *flow = Flow { queue: flow.queue, ..Flow::guaranteed(now, envelope) };
            let mut behind = 0;
            let queue = flow.queue;
            queue.for_each_mut(&mut self.slab, |waiting| {
                behind = flow.stamp(now, stored_now, waiting.request.cost, behind);
                waiting.tag = behind;
            });
        }
        if !self.flows[id.index()].queue.is_empty() {
            self.enter_guaranteed(id);
        }
    }

    fn configure_background(&mut self, id: FlowId, weight: Weight) {
        let flow = &mut self.flows[id.index()];
        if flow.role == Role::Background {
            flow.weight = weight;
            return;
        }
        *flow = Flow { role: Role::Background, weight, queue: flow.queue, ..Flow::ABSENT };
        if let Some(head) = flow.queue.front(&self.slab) {
            self.fair.enter(id, 0, head.sequence);
        }
        self.by_start.remove(id);
        self.by_finish.remove(id);
        self.lending.withdraw(id);
    }
}

impl Default for PClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Scheduler for PClock {
    fn name(&self) -> &'static str {
        "pclock"
    }

    fn configure(&mut self, now: Time, flow: FlowId, slo: &Slo) -> Result<(), ConfigureError> {
        if flow > FlowId::MAX {
            return Err(ConfigureError::FlowOutOfRange(flow));
        }
        self.advance(now);
        self.cover(flow);
        match slo.envelope() {
            Some(envelope) => self.configure_guaranteed(flow, envelope),
            None => self.configure_background(flow, slo.weight()),
        }
        if self.fair.next().is_none() {
            self.lending.close();
        }
        Ok(())
    }

    fn remove(&mut self, now: Time, flow: FlowId) -> Result<(), ConfigureError> {
        self.known(flow)?;
        if !self.flows[flow.index()].queue.is_empty() {
            return Err(ConfigureError::Busy(flow));
        }
        self.advance(now);
        self.flows[flow.index()] = Flow::ABSENT;
        Ok(())
    }

    fn on_arrival(&mut self, now: Time, arrival: Arrival) -> Result<(), ConfigureError> {
        let role = self.known(arrival.request.flow)?;
        if self.slab.is_full() {
            return Err(ConfigureError::TooManyWaiting);
        }
        self.advance(now);
        if role == Role::Background {
            self.enqueue_background(arrival);
        } else {
            self.synchronize();
            self.enqueue_guaranteed(arrival);
        }
        Ok(())
    }

    fn poll_dispatch(&mut self, now: Time) -> Decision {
        self.advance(now);
        self.synchronize();
        let Some((head, flow)) = self.by_finish.peek() else {
            self.lending.close();
            return self.serve_background(None);
        };
        match self.background_due(head.tag) {
            Some(due) => self.serve_background(Some(due)),
            None => self.serve_guaranteed(flow),
        }
    }

    fn on_completion(&mut self, now: Time, _request: &Request, _completion: &Completion) {
        self.advance(now);
    }

    fn backlog(&self, flow: FlowId) -> usize {
        self.flows.get(flow.index()).map_or(0, |flow| flow.queue.len())
    }

    fn set_spare(&mut self, now: Time, spare: SpareCapacity) -> Result<(), ConfigureError> {
        self.advance(now);
        self.spare = spare;
        self.lending.close();
        Ok(())
    }
}

impl Flow {
    const ABSENT: Self = Self {
        role: Role::Absent,
        queue: Fifo::EMPTY,
        bucket: TokenBucket::new(Time::ZERO, Cost::ZERO, Rate::from_millis(0)),
        latency: Span::ZERO,
        frontier: 0,
        frontier_part: 0,
        step: 0,
        step_part: 0,
        overrun: false,
        largest: Cost::ZERO,
        weight: Weight::ONE,
        virtual_finish: 0,
    };

    fn guaranteed(now: Time, envelope: &Envelope) -> Self {
        let (step, step_part) = ONE_REQUEST.div_rem(envelope.rate());
        Self {
            role: Role::Guaranteed,
            bucket: TokenBucket::new(now, envelope.burst(), envelope.rate()),
            latency: envelope.latency(),
            step: step as u64,
            step_part,
            ..Self::ABSENT
        }
    }

    /// New parameters: the debt stays, and so do the frontier and its part of a nanosecond.
    fn reconfigure(&mut self, now: Time, envelope: &Envelope) {
        let (old, new) = (self.bucket.rate().as_millis(), envelope.rate().as_millis());
        let part = u128::from(self.frontier_part) * u128::from(new) / u128::from(old);
        let (step, step_part) = ONE_REQUEST.div_rem(envelope.rate());
        self.bucket.reconfigure(now, envelope.burst(), envelope.rate());
        self.latency = envelope.latency();
        self.frontier_part = part as u64;
        (self.step, self.step_part) = (step as u64, step_part);
    }

    /// UpdateNumtokens and ComputeTags: the start tag of a request of `cost` that arrives now, not
    /// before `behind`, the tag of the request in front of it.
    fn stamp(&mut self, now: Time, stored_now: u128, cost: Cost, behind: u128) -> u128 {
        self.largest = self.largest.max(cost);
        if self.bucket.arrive(now, cost) {
            self.overrun = false;
            return stored_now.max(behind);
        }
        if !self.overrun {
            self.overrun = true;
            self.take_frontier_from_bucket(stored_now, cost);
        }
        self.advance_frontier(cost);
        let earliest = stored_now.max(behind);
        if self.frontier < earliest {
            (self.frontier, self.frontier_part) = (earliest, 0);
        }
        self.frontier
    }

    /// The frontier of a flow whose arrivals so far were inside its bound: now − tokens/ρ, with the
    /// tokens as they were before the request of `cost` that has just been taken.
    fn take_frontier_from_bucket(&mut self, stored_now: u128, cost: Cost) {
        let cost = grains_of(cost);
        let lacking = (cost - grains_of(self.bucket.burst())).max(0);
        let tokens = self.bucket.grains() + cost + lacking;
        let rate = self.bucket.rate().as_millis();
        let (offset, part) = match i64::try_from(-tokens) {
            Ok(short) => (i128::from(short.div_euclid(rate as i64)), short.rem_euclid(rate as i64) as u64),
            Err(_) => ((-tokens).div_euclid(i128::from(rate)), (-tokens).rem_euclid(i128::from(rate)) as u64),
        };
        let frontier = (stored_now.saturating_add_signed(offset), part);
        (self.frontier, self.frontier_part) = frontier.max((self.frontier, self.frontier_part));
    }

    /// Moves the frontier by cost/ρ.
    fn advance_frontier(&mut self, cost: Cost) {
        let rate = self.bucket.rate();
        let (whole, part) = if cost == Cost::ONE {
            (u128::from(self.step), self.step_part)
        } else {
            cost_nanos(cost).div_rem(rate)
        };
        let part = self.frontier_part + part;
        let carry = u64::from(part >= rate.as_millis());
        self.frontier = self.frontier.saturating_add(whole).saturating_add(u128::from(carry));
        self.frontier_part = part - carry * rate.as_millis();
    }

    fn finish_of(&self, start: u128) -> u128 {
        start.saturating_add(u128::from(self.latency.as_nanos()))
    }

    /// σ less what its own largest request needs: what it can lend.
    fn surplus(&self) -> u64 {
        self.bucket.burst().as_millis().saturating_sub(self.largest.as_millis())
    }

    /// Whether there is a whole request to lend.
    fn lends(&self) -> bool {
        self.surplus() >= Cost::ONE.as_millis()
    }

    /// What it lends to the background at one synchronization, if that gets `permille` of it.
    fn loan(&self, permille: u16) -> Cost {
        let share = u128::from(self.surplus()) * u128::from(permille) / 1_000;
        Cost::from_millis(share as u64)
    }
}

/// A cost times a second: divided by a rate it is a length of time.
#[derive(Clone, Copy)]
struct CostNanos(u128);

const ONE_REQUEST: CostNanos = cost_nanos(Cost::ONE);

const fn cost_nanos(cost: Cost) -> CostNanos {
    CostNanos(cost.as_millis() as u128 * NANOS_PER_SECOND as u128)
}

impl CostNanos {
    /// Whole nanoseconds, and what is left in units of 1/rate ns. Rates of envelopes are not zero.
    fn div_rem(self, rate: Rate) -> (u128, u64) {
        let rate = rate.as_millis().max(1);
        match u64::try_from(self.0) {
            Ok(short) => (u128::from(short / rate), short % rate),
            Err(_) => (self.0 / u128::from(rate), (self.0 % u128::from(rate)) as u64),
        }
    }
}
