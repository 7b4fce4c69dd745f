//! Earliest deadline first among the heads of the flows' queues, with a rule for the start tags: what
//! sced.rs and edf.rs share.
//!
//! ```text
//!  flows [ rule, δ, queue ]                                   by flow number
//!                     │
//!             ┌───────┴────────────┐  one list per flow through one slab (queue.rs);
//!             v head               v   each waiting request carries its start tag S
//!           [ S ]─>[ S ]─>[ S ]  [ S ]─>[ S ]
//!             │                    │
//!  by_finish  [ S + δ of each head | ... ]    smallest: dispatched next        O(log flows)
//!  fair       [ background heads   | ... ]    fair.rs: only when nothing else waits
//! ```
//!
//! Tags are nanoseconds on the stored axis of stamp.rs (`u128`, the epoch at 2⁹⁶), and saturate.
//!
//! Parameters changed while requests wait: start tags stay, and so does the δ of what was promised one when it
//! came ([`crate::Arrival::promise`]); to the others the new one applies. Within a flow no request starts
//! before the one in front of it. A flow that turns from background to guaranteed has its waiting requests
//! tagged as if they arrived at that moment.

use alloc::vec::Vec;

use super::fair::FairShare;
use super::stamp::{EPOCH, Stamper};
use super::{Arrival, ConfigureError, Decision};
use crate::heap::{FlowHeap, Key};
use crate::packed::Packed;
use crate::queue::{Fifo, Slab, Waiting};
use crate::request::FlowId;
use crate::slo::{Envelope, Slo};
use crate::table;
use crate::units::{Cost, Span, Time, Weight};

/// How the requests of a guaranteed flow get their start tags.
pub(crate) trait StartRule: Copy {
    /// The rule for a new flow.
    fn new(now: Time, envelope: &Envelope) -> Self;

    /// The flow's parameters have changed.
    fn reconfigure(&mut self, now: Time, envelope: &Envelope);

    /// The stored start tag of a request of `cost` that arrives now, not before `behind`.
    fn stamp(&mut self, now: Time, stored_now: u128, cost: Cost, behind: u128) -> u128;
}

impl StartRule for Stamper {
    fn new(now: Time, envelope: &Envelope) -> Self {
        Self::new(now, envelope)
    }

    fn reconfigure(&mut self, now: Time, envelope: &Envelope) {
        self.reconfigure(now, envelope);
    }

    fn stamp(&mut self, now: Time, stored_now: u128, cost: Cost, behind: u128) -> u128 {
        self.stamp(now, stored_now, cost, behind)
    }
}

/// The scheduler with the rule `R`.
#[derive(Clone, Debug)]
pub(crate) struct EarliestDue<R> {
    flows: Vec<Flow<R>>,
    slab: Slab,
    by_finish: FlowHeap,
    fair: FairShare,
    sequence: u64,
    now: Time,
}

#[derive(Clone, Copy, Debug)]
enum Role<R> {
    Absent,
    Guaranteed(R),
    Background,
}

/// One flow. The fields of the other role are at rest.
#[derive(Clone, Copy, Debug)]
struct Flow<R> {
    role: Role<R>,
    queue: Fifo,
    /// Guaranteed: δ.
    latency: Span,
    /// Background: weight and virtual finish tag of the last request served.
    weight: Weight,
    virtual_finish: Packed<u128>,
}

const _: () =
    assert!(size_of::<Flow<Stamper>>() <= 144, "an idle flow stays small: 256 bytes with the engine's share");

impl<R: StartRule> EarliestDue<R> {
    pub(crate) fn new() -> Self {
        Self {
            flows: Vec::new(),
            slab: Slab::new(),
            by_finish: FlowHeap::default(),
            fair: FairShare::default(),
            sequence: 0,
            now: Time::ZERO,
        }
    }

    /// Moves the clock; it never goes back.
    pub(crate) fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    pub(crate) fn configure(&mut self, now: Time, id: FlowId, slo: &Slo) -> Result<(), ConfigureError> {
        if id > FlowId::MAX {
            return Err(ConfigureError::FlowOutOfRange(id));
        }
        self.advance(now);
        self.cover(id);
        match slo.envelope() {
            Some(envelope) => self.configure_guaranteed(id, envelope),
            None => self.configure_background(id, slo.weight()),
        }
        Ok(())
    }

    pub(crate) fn remove(&mut self, now: Time, id: FlowId) -> Result<(), ConfigureError> {
        if !self.known(id)?.queue.is_empty() {
            return Err(ConfigureError::Busy(id));
        }
        self.advance(now);
        self.flows[id.index()] = Flow::ABSENT;
        Ok(())
    }

    pub(crate) fn on_arrival(&mut self, now: Time, arrival: Arrival) -> Result<(), ConfigureError> {
        let id = arrival.request.flow;
        self.known(id)?;
        if self.slab.is_full() {
            return Err(ConfigureError::TooManyWaiting);
        }
        self.advance(now);
        let stored_now = stored(self.now);
        let flow = &mut self.flows[id.index()];
        let behind = flow.queue.back(&self.slab).map_or(0, |last| last.tag);
        let start = flow.stamp(self.now, stored_now, arrival.request.cost, behind);
        flow.queue.push(&mut self.slab, Waiting::new(arrival, self.sequence, start));
        if flow.queue.len() == 1 {
            match flow.role {
                Role::Background => self.fair.enter(id, flow.virtual_finish.0, self.sequence),
                _ => self.rekey(id),
            }
        }
        self.sequence += 1;
        Ok(())
    }

    pub(crate) fn poll_dispatch(&mut self, now: Time) -> Decision {
        self.advance(now);
        let decision = match self.by_finish.peek() {
            Some((_, flow)) => self.serve_guaranteed(flow),
            None => self.serve_background(),
        };
        decision.unwrap_or(Decision::Idle)
    }

    pub(crate) fn backlog(&self, flow: FlowId) -> usize {
        self.flows.get(flow.index()).map_or(0, |flow| flow.queue.len())
    }

    fn known(&self, flow: FlowId) -> Result<&Flow<R>, ConfigureError> {
        let known = self.flows.get(flow.index()).filter(|known| !matches!(known.role, Role::Absent));
        known.ok_or(ConfigureError::UnknownFlow(flow))
    }

    fn serve_guaranteed(&mut self, id: FlowId) -> Option<Decision> {
        let flow = &mut self.flows[id.index()];
        let waiting = flow.queue.pop(&mut self.slab)?;
        let finish = flow.finish_of(&waiting);
        self.rekey(id);
        Some(Decision::Dispatch(waiting.dispatch(Some(instant(finish)))))
    }

    fn serve_background(&mut self) -> Option<Decision> {
        let flow = &mut self.flows[self.fair.next()?.index()];
        let waiting = flow.queue.pop(&mut self.slab)?;
        let successor = flow.queue.front(&self.slab).map(|next| next.sequence);
        flow.virtual_finish.0 = self.fair.serve(waiting.cost, flow.weight, successor);
        Some(Decision::Dispatch(waiting.dispatch(None)))
    }

    /// Puts the head of the guaranteed `flow` into the heap, or takes the flow out if it is idle.
    fn rekey(&mut self, id: FlowId) {
        let flow = &self.flows[id.index()];
        match flow.queue.front(&self.slab) {
            Some(head) => {
                self.by_finish.set(id, Key { tag: flow.finish_of(head), sequence: head.sequence });
            }
            None => _ = self.by_finish.remove(id),
        }
    }

    /// Makes room for `flow`.
    fn cover(&mut self, flow: FlowId) {
        let flows = flow.index() + 1;
        if flows > self.flows.len() {
            table::cover(&mut self.flows, flows, Flow::ABSENT);
        }
    }

    fn configure_guaranteed(&mut self, id: FlowId, envelope: &Envelope) {
        let (now, stored_now) = (self.now, stored(self.now));
        let flow = &mut self.flows[id.index()];
        if let Role::Guaranteed(rule) = &mut flow.role {
            rule.reconfigure(now, envelope);
        } else {
            self.by_finish.cover(id.index() + 1);
            self.fair.withdraw(id);
            let role = Role::Guaranteed(R::new(now, envelope));
            *flow = Flow { role, queue: flow.queue, ..Flow::ABSENT };
            let (queue, mut behind) = (flow.queue, 0);
            queue.for_each_mut(&mut self.slab, |waiting| {
                behind = flow.stamp(now, stored_now, waiting.cost, behind);
                waiting.tag = behind;
            });
        }
        flow.latency = envelope.latency();
        self.rekey(id);
    }

    fn configure_background(&mut self, id: FlowId, weight: Weight) {
        let flow = &mut self.flows[id.index()];
        if matches!(flow.role, Role::Background) {
            flow.weight = weight;
            return;
        }
        self.fair.cover(id.index() + 1);
        *flow = Flow { role: Role::Background, weight, queue: flow.queue, ..Flow::ABSENT };
        if let Some(head) = flow.queue.front(&self.slab) {
            self.fair.enter(id, 0, head.sequence);
        }
        self.by_finish.remove(id);
    }
}

impl<R: StartRule> Flow<R> {
    const ABSENT: Self = Self {
        role: Role::Absent,
        queue: Fifo::EMPTY,
        latency: Span::ZERO,
        weight: Weight::ONE,
        virtual_finish: Packed(0),
    };

    /// The start tag of a request that arrives now; background requests have none.
    fn stamp(&mut self, now: Time, stored_now: u128, cost: Cost, behind: u128) -> u128 {
        let Role::Guaranteed(rule) = &mut self.role else { return 0 };
        rule.stamp(now, stored_now, cost, behind)
    }

    fn finish_of(&self, waiting: &Waiting) -> u128 {
        { waiting.tag }.saturating_add(u128::from(waiting.innermost_latency(self.latency).as_nanos()))
    }
}

/// An instant on the stored axis.
fn stored(now: Time) -> u128 {
    EPOCH + u128::from(now.as_nanos())
}

/// A stored tag as an instant; one beyond the end of time is at the end of time.
fn instant(stored: u128) -> Time {
    Time::from_nanos(u64::try_from(stored.saturating_sub(EPOCH)).unwrap_or(u64::MAX))
}
