//! pClock: bursts, rates and latency bounds, each flow shielded from the others.
//!
//! Source: Gulati, Merchant, Varman, "pClock: An Arrival Curve Based Approach for QoS Guarantees in
//! Shared Storage Systems", SIGMETRICS 2007, section 3 (algorithms 1 and 2) and section 3.3.
//!
//! ```text
//!  flows [ stamper, δ, queue ]                                by flow number
//!                           │
//!             ┌─────────────┴──────────────┐  one list per flow through one slab (queue.rs);
//!             v head                       v   each waiting request carries its start tag S
//!           [ S ]─>[ S ]─>[ S ]          [ S ]─>[ S ]
//!             │                            │
//!  by_finish  [ S + δ of each head | ... ]    smallest: dispatched next        O(log flows)
//!  started    how many heads have S ≤ now                            none: look below
//!  by_start   [ S of other heads, or less | ... ]  smallest later than now: shift   O(log flows)
//!  fair       [ background heads   | ... ]    fair.rs
//!  lending    who has room to lend them       spare.rs
//!
//!  stored tag = actual tag + shift          ──┬─────────┬───────────────────> stored
//!  synchronize: shift += min S − now         now     min S     all tags, those of idle flows
//!                                             └─────────┘      too, move back by this much
//! ```
//!
//! A head with S ≤ now is *started* and stays so: it is counted, and by_start need not know it. A head
//! that is not has an entry of at most its S: requests of a flow start in order, so the entry of one
//! that has gone serves for the next. An entry is made true, or dropped, when it comes up as the
//! smallest, hence at most once for each dispatch.
//!
//! **Tags** are nanoseconds on one stored axis, `u128`: a synchronization adds to `shift` instead of
//! subtracting from every tag. 64 bits would overflow: a flow of 0.001 IOPS alone on a device that
//! serves 10⁶ IOPS shifts by 1000 s per request, 10⁹ times as fast as real time. `shift` starts at
//! 2⁹⁶ so that tags before the epoch are positive too, and everything saturates at the top: that
//! takes 10¹⁰ requests of the largest cost at the smallest rate.
//!
//! **Start tags** S come from the arrival bound: stamp.rs. F = S + δ.
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
//! 7. Parameters changed while requests wait: tokens keep their debt, start tags stay, and so does the δ of a
//!    request that was promised one when it came: a shorter δ would hurry what waits past other flows, which
//!    have room for it only where it was. To what is promised nothing the new δ applies. A later request never
//!    starts before an earlier one of its flow; where new parameters would have it so, its S is that of the
//!    request before it. A flow that turns from background to guaranteed has its waiting requests stamped as if
//!    they arrived at that moment.
//! 8. Several background flows share by weight (fair.rs); batches: see spare.rs.

use alloc::vec::Vec;

use super::fair::FairShare;
use super::spare::Lending;
use super::stamp::{EPOCH, Stamper};
use super::{Arrival, ConfigureError, Decision, Scheduler, SpareCapacity};
use crate::heap::{FlowHeap, Key};
use crate::packed::Packed;
use crate::queue::{Fifo, Slab, Waiting};
use crate::request::{Completion, FlowId, Request};
use crate::slo::{Envelope, Slo};
use crate::table;
use crate::units::{Cost, Span, Time, Weight};

/// The pClock scheduler.
#[derive(Clone, Debug)]
pub struct PClock {
    flows: Vec<Flow>,
    slab: Slab,
    by_finish: FlowHeap,
    by_start: FlowHeap,
    started: usize,
    /// Whether the smallest S was found to be due, and nothing has been served since.
    is_synchronized: bool,
    fair: FairShare,
    lending: Lending,
    spare: SpareCapacity,
    shift: u128,
    sequence: u64,
    now: Time,
}

#[derive(Clone, Copy, Debug)]
enum Role {
    Absent,
    Guaranteed(Promise),
    Background(Share),
}

/// As a guaranteed flow.
#[derive(Clone, Copy, Debug)]
struct Promise {
    stamper: Stamper<Notes>,
    /// δ.
    latency: Span,
}

/// What fits into the last bytes of a stamper.
#[derive(Clone, Copy, Debug, Default)]
#[repr(Rust, packed)]
struct Notes {
    /// The largest cost that has arrived, in thousandths. What is above 2³² is held there: beside such
    /// a request nothing of a σ that ordinary requests fit into is worth lending.
    largest: u32,
    /// Whether the head is counted in [`PClock::started`].
    started: bool,
    /// Whether it had a whole request to lend when it became busy.
    lends: bool,
}

/// As a background flow.
#[derive(Clone, Copy, Debug)]
struct Share {
    weight: Weight,
    /// The virtual finish tag of the last request served.
    virtual_finish: Packed<u128>,
}

/// One flow.
#[derive(Clone, Copy, Debug)]
struct Flow {
    role: Role,
    queue: Fifo,
}

const _: () = assert!(size_of::<Flow>() <= 104, "an idle flow stays small: 256 bytes with heaps and engine");

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
            started: 0,
            is_synchronized: false,
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

    fn known(&self, flow: FlowId) -> Result<&Flow, ConfigureError> {
        let known = self.flows.get(flow.index()).filter(|known| !matches!(known.role, Role::Absent));
        known.ok_or(ConfigureError::UnknownFlow(flow))
    }

    /// CheckAndAdjustTags: if every waiting guaranteed request starts later than now, all tags move
    /// back until the first starts now.
    #[inline]
    fn synchronize(&mut self) {
        if self.started == 0 && !self.is_synchronized {
            self.look_for_first();
        }
    }

    fn look_for_first(&mut self) {
        let stored_now = self.stored_now();
        let Some(first) = self.first_start() else { return };
        self.is_synchronized = true;
        if first <= stored_now {
            return;
        }
        self.shift = self.shift.saturating_add(first - stored_now);
        if self.lends() && self.fair.next().is_some() {
            let flows = &self.flows;
            self.lending.open(self.now, |flow| flows[flow.index()].latency());
        } else {
            self.lending.close();
        }
    }

    /// The smallest S of the heads that are not counted as started.
    fn first_start(&mut self) -> Option<u128> {
        loop {
            let (entry, id) = self.by_start.peek()?;
            let flow = &self.flows[id.index()];
            match flow.queue.front(&self.slab) {
                Some(head) if matches!(&flow.role, Role::Guaranteed(promise) if !promise.stamper.rest.started) =>
                {
                    if head.tag == entry.tag {
                        return Some(entry.tag);
                    }
                    self.by_start.set(id, Key { tag: head.tag, sequence: head.sequence });
                }
                _ => _ = self.by_start.remove(id),
            }
        }
    }

    /// Whether the background gets part of the spare capacity.
    fn lends(&self) -> bool {
        self.spare.background_share().as_u16() > 0
    }

    /// Queues a request of a guaranteed flow and computes its tags.
    fn enqueue_guaranteed(&mut self, arrival: Arrival) {
        let (id, stored_now) = (arrival.request.flow, self.stored_now());
        let flow = &mut self.flows[id.index()];
        let behind = flow.queue.back(&self.slab).map_or(0, |last| last.tag);
        let start = flow.stamp(self.now, stored_now, arrival.request.cost, behind);
        let waiting = Waiting::new(arrival, self.sequence, start);
        flow.queue.push(&mut self.slab, waiting);
        if flow.queue.len() == 1 {
            self.by_finish.set(id, Key { tag: flow.finish_of(&waiting), sequence: self.sequence });
            self.note_start(id, Key { tag: start, sequence: self.sequence }, start <= stored_now, false);
            self.enter_lending(id);
        }
        self.sequence += 1;
    }

    /// The guaranteed `flow` has become busy, or lends another sum than before.
    #[inline]
    fn enter_lending(&mut self, flow: FlowId) {
        let known = &mut self.flows[flow.index()];
        let lends = known.surplus() >= Cost::ONE.as_millis();
        if let Role::Guaranteed(promise) = &mut known.role {
            promise.stamper.rest.lends = lends;
        }
        if lends && self.lends() {
            self.lending.enter(flow);
        }
    }

    #[inline]
    fn withdraw_lending(&mut self, flow: FlowId) {
        if self.lends() {
            self.lending.withdraw(flow);
        }
    }

    /// The guaranteed `id` has a head with this start, which is not later than now if `started`. `follows` if
    /// there is an entry in `by_start` of a request of the flow before it.
    #[inline(always)]
    fn note_start(&mut self, id: FlowId, start: Key, started: bool, follows: bool) {
        if let Role::Guaranteed(promise) = &mut self.flows[id.index()].role {
            promise.stamper.rest.started = started;
        }
        self.started += usize::from(started);
        if !started && !follows {
            self.by_start.set(id, start);
        }
    }

    /// The guaranteed `flow` has no head for the moment; says whether the one that it had was started.
    fn forget_start(&mut self, id: FlowId) -> bool {
        self.is_synchronized = false;
        let Role::Guaranteed(promise) = &mut self.flows[id.index()].role else { return false };
        let started = core::mem::take(&mut promise.stamper.rest.started);
        self.started -= usize::from(started);
        started
    }

    fn enqueue_background(&mut self, arrival: Arrival) {
        let id = arrival.request.flow;
        let flow = &mut self.flows[id.index()];
        flow.queue.push(&mut self.slab, Waiting::new(arrival, self.sequence, 0));
        if let Role::Background(share) = &flow.role
            && flow.queue.len() == 1
        {
            self.fair.enter(id, share.virtual_finish.0, self.sequence);
        }
        self.sequence += 1;
    }

    /// If the next background request goes before a head with this finish tag: when it is due.
    fn background_due(&mut self, finish: u128) -> Option<Time> {
        if !self.lends() {
            return None;
        }
        let next = self.fair.next()?;
        let cost = self.flows[next.index()].queue.front(&self.slab)?.cost;
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

    #[inline(never)]
    fn serve_background(&mut self, due: Option<Time>) -> Decision {
        let Some(id) = self.fair.next() else { return Decision::Idle };
        let flow = &mut self.flows[id.index()];
        let Some(waiting) = flow.queue.pop(&mut self.slab) else { return Decision::Idle };
        let successor = flow.queue.front(&self.slab).map(|next| next.sequence);
        if let Role::Background(share) = &mut flow.role {
            share.virtual_finish.0 = self.fair.serve(waiting.cost, share.weight, successor);
        }
        if self.fair.next().is_none() {
            self.lending.close();
        }
        Decision::Dispatch(waiting.dispatch(due))
    }

    #[inline(always)]
    fn serve_guaranteed(&mut self, id: FlowId) -> Decision {
        let flow = &mut self.flows[id.index()];
        let Some(waiting) = flow.queue.pop(&mut self.slab) else { return Decision::Idle };
        let finish = flow.finish_of(&waiting);
        let successor = flow.queue.front(&self.slab);
        let successor =
            successor.map(|head| (Key { tag: head.tag, sequence: head.sequence }, flow.finish_of(head)));
        let was_started = self.forget_start(id);
        if let Some((start, finish)) = successor {
            self.by_finish.set(id, Key { tag: finish, ..start });
            self.note_start(id, start, start.tag <= self.stored_now(), !was_started);
        } else {
            self.by_finish.remove(id);
            if !was_started {
                self.by_start.remove(id);
            }
            self.withdraw_lending(id);
        }
        Decision::Dispatch(waiting.dispatch(Some(self.instant(finish))))
    }

    /// Makes room for `flow`.
    fn cover(&mut self, flow: FlowId) {
        let flows = flow.index() + 1;
        if flows > self.flows.len() {
            table::cover(&mut self.flows, flows, Flow::ABSENT);
            if self.lends() {
                self.lending.cover(flows);
            }
        }
    }

    fn configure_guaranteed(&mut self, id: FlowId, envelope: &Envelope) {
        let (now, stored_now) = (self.now, self.stored_now());
        let flow = &mut self.flows[id.index()];
        if let Role::Guaranteed(promise) = &mut flow.role {
            if promise.stamper.bounds(envelope) && promise.latency == envelope.latency() {
                return;
            }
            promise.stamper.reconfigure(now, envelope);
            promise.latency = envelope.latency();
            self.withdraw_lending(id);
        } else {
            self.by_finish.cover(id.index() + 1);
            self.by_start.cover(id.index() + 1);
            self.fair.withdraw(id);
            *flow = Flow { queue: flow.queue, ..Flow::guaranteed(now, envelope) };
            let mut behind = 0;
            let queue = flow.queue;
            queue.for_each_mut(&mut self.slab, |waiting| {
                behind = flow.stamp(now, stored_now, waiting.cost, behind);
                waiting.tag = behind;
            });
        }
        let flow = &self.flows[id.index()];
        if let Some(head) = flow.queue.front(&self.slab) {
            let start = Key { tag: head.tag, sequence: head.sequence };
            self.by_finish.set(id, Key { tag: flow.finish_of(head), ..start });
            self.forget_start(id);
            self.note_start(id, start, start.tag <= stored_now, false);
            self.enter_lending(id);
        }
    }

    fn configure_background(&mut self, id: FlowId, weight: Weight) {
        if let Role::Background(share) = &mut self.flows[id.index()].role {
            share.weight = weight;
            return;
        }
        self.forget_start(id);
        self.fair.cover(id.index() + 1);
        let flow = &mut self.flows[id.index()];
        flow.role = Role::Background(Share { weight, virtual_finish: Packed(0) });
        if let Some(head) = flow.queue.front(&self.slab) {
            self.fair.enter(id, 0, head.sequence);
        }
        self.by_start.remove(id);
        self.by_finish.remove(id);
        self.withdraw_lending(id);
    }

    /// Begins to lend, or ends it: the flows that are busy now lend from the next synchronization on.
    fn reset_lending(&mut self) {
        self.lending = Lending::new();
        if self.lends() {
            self.lending.cover(self.flows.len());
            for (id, flow) in (0..).map(FlowId).zip(&self.flows) {
                if matches!(flow.role, Role::Guaranteed(promise) if promise.stamper.rest.lends)
                    && !flow.queue.is_empty()
                {
                    self.lending.enter(id);
                }
            }
        }
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
        if !self.known(flow)?.queue.is_empty() {
            return Err(ConfigureError::Busy(flow));
        }
        self.advance(now);
        self.flows[flow.index()] = Flow::ABSENT;
        Ok(())
    }

    fn on_arrival(&mut self, now: Time, arrival: Arrival) -> Result<(), ConfigureError> {
        let in_background = matches!(self.known(arrival.request.flow)?.role, Role::Background(_));
        if self.slab.is_full() {
            return Err(ConfigureError::TooManyWaiting);
        }
        self.advance(now);
        if in_background {
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
        if let Some(due) = self.background_due(head.tag) {
            return self.serve_background(Some(due));
        }
        self.serve_guaranteed(flow)
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
        self.reset_lending();
        Ok(())
    }
}

impl Flow {
    const ABSENT: Self = Self { role: Role::Absent, queue: Fifo::EMPTY };

    fn guaranteed(now: Time, envelope: &Envelope) -> Self {
        let (stamper, latency) = (Stamper::new(now, envelope), envelope.latency());
        let promise = Promise { stamper, latency };
        Self { role: Role::Guaranteed(promise), ..Self::ABSENT }
    }

    /// δ; none for a flow without a promise.
    const fn latency(&self) -> Span {
        if let Role::Guaranteed(promise) = &self.role { promise.latency } else { Span::ZERO }
    }

    /// The start tag of a request of `cost` that arrives now, not before `behind`.
    #[inline(always)]
    fn stamp(&mut self, now: Time, stored_now: u128, cost: Cost, behind: u128) -> u128 {
        let Role::Guaranteed(promise) = &mut self.role else { return behind };
        let largest = u32::try_from(cost.as_millis()).unwrap_or(u32::MAX);
        promise.stamper.rest.largest = largest.max(promise.stamper.rest.largest);
        promise.stamper.stamp(now, stored_now, cost, behind)
    }

    fn finish_of(&self, waiting: &Waiting) -> u128 {
        { waiting.tag }.saturating_add(u128::from(waiting.innermost_latency(self.latency()).as_nanos()))
    }

    /// σ less what its own largest request needs: what it can lend.
    fn surplus(&self) -> u64 {
        let Role::Guaranteed(promise) = &self.role else { return 0 };
        let largest = promise.stamper.rest.largest;
        let needed = if largest == u32::MAX { u64::MAX } else { u64::from(largest) };
        promise.stamper.burst().as_millis().saturating_sub(needed)
    }

    /// What it lends to the background at one synchronization, if that gets `permille` of it.
    fn loan(&self, permille: u16) -> Cost {
        let share = u128::from(self.surplus()) * u128::from(permille) / 1_000;
        Cost::from_millis(share as u64)
    }
}
