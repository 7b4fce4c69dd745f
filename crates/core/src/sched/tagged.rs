//! What the schedulers share that keep one queue per flow and choose among the heads of the queues.
//!
//! ```text
//!  flows      [ role, queue, background weight ]   by flow number
//!                    │ head                        one list per flow through one slab (queue.rs)
//!                    v
//!  discipline   chooses among the guaranteed flows that have a head   sfq.rs, wf2q.rs, virtual_clock.rs
//!  background   background flows, only when the discipline has none   fair.rs
//! ```
//!
//! The discipline sees heads and keeps its own tags by flow number. Everything else is here: roles,
//! queues, the order of arrival, time that does not go backwards. A flow that turns from background to
//! guaranteed has its waiting requests treated as if they arrived at that moment.

use alloc::vec::Vec;

use super::fair::FairShare;
use super::{Arrival, ConfigureError, Decision, Scheduler};
use crate::heap::Key;
use crate::packed::Packed;
use crate::queue::{Fifo, Slab, Waiting};
use crate::request::{Completion, FlowId, Request};
use crate::slo::{Envelope, Slo};
use crate::table;
use crate::units::{Cost, Span, Time, Weight};

/// The request at the head of a queue.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    pub(super) cost: Cost,
    /// What [`Discipline::stamp`] gave it.
    pub(super) tag: u128,
    /// Its place in the order of all arrivals.
    pub(super) sequence: u64,
    /// What it was promised when it came, if that was the innermost class's δ.
    pub(super) promise: Option<Span>,
}

/// How to choose among guaranteed flows. Flow numbers are below the last [`Discipline::cover`].
pub trait Discipline: Default {
    /// The scheduler's name.
    const NAME: &'static str;

    /// Makes room for the flows 0 .. `flows`, so that no later call allocates.
    fn cover(&mut self, flows: usize);

    /// The time is `now`, which never goes back. Called before every other call that depends on it.
    fn advance(&mut self, now: Time) {
        let _ = now;
    }

    /// A new guaranteed flow, without a head.
    fn admit(&mut self, now: Time, flow: FlowId, envelope: &Envelope, slo: &Slo);

    /// New parameters of a guaranteed flow; `head` is its head if it has one.
    fn change(&mut self, flow: FlowId, envelope: &Envelope, slo: &Slo, head: Option<Head>);

    /// The guaranteed flow ceases to be one, with its head if it has one.
    fn dismiss(&mut self, flow: FlowId);

    /// The tag of a request of the guaranteed flow that arrives now.
    fn stamp(&mut self, now: Time, flow: FlowId, cost: Cost) -> u128;

    /// The guaranteed flow has become busy.
    fn enter(&mut self, flow: FlowId, head: Head);

    /// The flow whose head goes next.
    fn next(&mut self) -> Option<FlowId>;

    /// The flow that `next` has just named gives up its head, and `successor` takes its place. Returns
    /// the finish tag of what is served if it is an instant.
    fn serve(&mut self, flow: FlowId, served: Head, successor: Option<Head>) -> Option<Time>;
}

/// A scheduler made of a [`Discipline`]. It is named by the aliases that fix the discipline.
#[derive(Clone, Debug)]
pub struct Tagged<D> {
    flows: Vec<Flow>,
    slab: Slab,
    discipline: D,
    background: FairShare,
    sequence: u64,
    now: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Absent,
    Guaranteed,
    Background,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    role: Role,
    queue: Fifo,
    /// Background: weight and virtual finish tag of the last request served.
    weight: Weight,
    virtual_finish: Packed<u128>,
}

const _: () = assert!(size_of::<Flow>() <= 48, "room for a discipline's tags within 144 bytes");

impl Head {
    fn of(waiting: &Waiting) -> Self {
        let promise = waiting.innermost_promise();
        Self { cost: waiting.cost, tag: waiting.tag, sequence: waiting.sequence, promise }
    }

    /// Ordered by `tag`, then by arrival.
    pub(super) const fn key(&self, tag: u128) -> Key {
        Key { tag, sequence: self.sequence }
    }
}

impl Flow {
    const ABSENT: Self =
        Self { role: Role::Absent, queue: Fifo::EMPTY, weight: Weight::ONE, virtual_finish: Packed(0) };
}

impl<D: Discipline> Tagged<D> {
    /// A scheduler without flows.
    #[must_use]
    pub fn new() -> Self {
        Self {
            flows: Vec::new(),
            slab: Slab::new(),
            discipline: D::default(),
            background: FairShare::default(),
            sequence: 0,
            now: Time::ZERO,
        }
    }

    fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
        self.discipline.advance(self.now);
    }

    fn known(&self, flow: FlowId) -> Result<Role, ConfigureError> {
        match self.flows.get(flow.index()) {
            Some(known) if known.role != Role::Absent => Ok(known.role),
            _ => Err(ConfigureError::UnknownFlow(flow)),
        }
    }

    fn head(&self, flow: FlowId) -> Option<Head> {
        self.flows[flow.index()].queue.front(&self.slab).map(Head::of)
    }

    fn cover(&mut self, flow: FlowId) {
        let flows = flow.index() + 1;
        if flows > self.flows.len() {
            table::cover(&mut self.flows, flows, Flow::ABSENT);
        }
    }

    fn configure_guaranteed(&mut self, id: FlowId, envelope: &Envelope, slo: &Slo) {
        let head = self.head(id);
        let flow = &mut self.flows[id.index()];
        if flow.role == Role::Guaranteed {
            self.discipline.change(id, envelope, slo, head);
            return;
        }
        self.background.withdraw(id);
        self.discipline.cover(id.index() + 1);
        *flow = Flow { role: Role::Guaranteed, queue: flow.queue, ..Flow::ABSENT };
        self.discipline.admit(self.now, id, envelope, slo);
        let (queue, now, discipline) = (flow.queue, self.now, &mut self.discipline);
        queue.for_each_mut(&mut self.slab, |waiting| {
            waiting.tag = discipline.stamp(now, id, waiting.cost);
        });
        if let Some(head) = self.head(id) {
            self.discipline.enter(id, head);
        }
    }

    fn configure_background(&mut self, id: FlowId, weight: Weight) {
        let flow = &mut self.flows[id.index()];
        if flow.role == Role::Background {
            flow.weight = weight;
            return;
        }
        if flow.role == Role::Guaranteed {
            self.discipline.dismiss(id);
        }
        self.background.cover(id.index() + 1);
        *flow = Flow { role: Role::Background, weight, queue: flow.queue, ..Flow::ABSENT };
        if let Some(head) = self.head(id) {
            self.background.enter(id, 0, head.sequence);
        }
    }

    fn serve_guaranteed(&mut self, id: FlowId) -> Decision {
        let flow = &mut self.flows[id.index()];
        let Some(waiting) = flow.queue.pop(&mut self.slab) else { return Decision::Idle };
        let successor = self.head(id);
        let finish = self.discipline.serve(id, Head::of(&waiting), successor);
        Decision::Dispatch(waiting.dispatch(finish))
    }

    fn serve_background(&mut self) -> Decision {
        let Some(id) = self.background.next() else { return Decision::Idle };
        let flow = &mut self.flows[id.index()];
        let Some(waiting) = flow.queue.pop(&mut self.slab) else { return Decision::Idle };
        let successor = flow.queue.front(&self.slab).map(|next| next.sequence);
        flow.virtual_finish.0 = self.background.serve(waiting.cost, flow.weight, successor);
        Decision::Dispatch(waiting.dispatch(None))
    }
}

impl<D: Discipline> Default for Tagged<D> {
    fn default() -> Self {
        Self::new()
    }
}

impl<D: Discipline> Scheduler for Tagged<D> {
    fn name(&self) -> &'static str {
        D::NAME
    }

    fn configure(&mut self, now: Time, flow: FlowId, slo: &Slo) -> Result<(), ConfigureError> {
        if flow > FlowId::MAX {
            return Err(ConfigureError::FlowOutOfRange(flow));
        }
        self.advance(now);
        self.cover(flow);
        match slo.envelope() {
            Some(envelope) => self.configure_guaranteed(flow, envelope, slo),
            None => self.configure_background(flow, slo.weight()),
        }
        Ok(())
    }

    fn remove(&mut self, now: Time, flow: FlowId) -> Result<(), ConfigureError> {
        let role = self.known(flow)?;
        if !self.flows[flow.index()].queue.is_empty() {
            return Err(ConfigureError::Busy(flow));
        }
        self.advance(now);
        if role == Role::Guaranteed {
            self.discipline.dismiss(flow);
        }
        self.flows[flow.index()] = Flow::ABSENT;
        Ok(())
    }

    fn on_arrival(&mut self, now: Time, arrival: Arrival) -> Result<(), ConfigureError> {
        let id = arrival.request.flow;
        let role = self.known(id)?;
        if self.slab.is_full() {
            return Err(ConfigureError::TooManyWaiting);
        }
        self.advance(now);
        let guaranteed = role == Role::Guaranteed;
        let tag = if guaranteed { self.discipline.stamp(self.now, id, arrival.request.cost) } else { 0 };
        let waiting = Waiting::new(arrival, self.sequence, tag);
        self.sequence += 1;
        let flow = &mut self.flows[id.index()];
        flow.queue.push(&mut self.slab, waiting);
        if flow.queue.len() == 1 {
            if guaranteed {
                self.discipline.enter(id, Head::of(&waiting));
            } else {
                self.background.enter(id, flow.virtual_finish.0, waiting.sequence);
            }
        }
        Ok(())
    }

    fn poll_dispatch(&mut self, now: Time) -> Decision {
        self.advance(now);
        match self.discipline.next() {
            Some(flow) => self.serve_guaranteed(flow),
            None => self.serve_background(),
        }
    }

    fn on_completion(&mut self, now: Time, _request: &Request, _completion: &Completion) {
        self.advance(now);
    }

    fn backlog(&self, flow: FlowId) -> usize {
        self.flows.get(flow.index()).map_or(0, |flow| flow.queue.len())
    }
}
