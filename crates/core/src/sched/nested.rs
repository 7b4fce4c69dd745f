//! Nested QoS: each flow's requests in graduated classes, each class with its own latency bound.
//!
//! Source: Wang, "Nested QoS: Providing Flexible SLAs in Shared Storage Systems", MS thesis, Rice
//! University 2012, section 3.2 (figures 3.5 and 3.6, algorithms 1 and 2).
//!
//! ```text
//!  flow 0                                        flow 1              background flows
//!  ──> B_3 ──> B_2 ──> B_1                       ──> B_1             by weight
//!       │ │     │ └──────┼──> Q_2 [ t ]─>[ t ]    │   └──> Q_1 [ t ]    │
//!       │ └─────┼────────┼──> Q_3 (empty)         │                     │
//!       │       │        └──> Q_1 [ t ]           │                     │
//!       └ excess                                  └ excess              │
//!              └───────────────┬──────────────────┘                     │
//!                              v                                        v
//!  1. by_deadline             2. excess                              3. fair
//!     [ least t + δ_k of        [ r ]─>[ r ]─>[ r ]                     fair.rs
//!       each flow | ... ]       one queue, first come first served
//! ```
//!
//! A request is classified once, at its arrival, by the cascade (envelope.rs): a bucket that refuses
//! it loses nothing. Its deadline is arrival + δ of its class, and the earliest deadline of all
//! classes of all flows goes first, ties in the order of arrival. What the outermost bucket refuses
//! is *excess*: it goes when nothing classified waits, and is never dropped.
//!
//! **Law.** On a server of the capacity of lemma 3, whatever anybody sends as excess, a request of
//! class k is done within its δ_k plus one service time, that of the request in service when it
//! arrives. Excess delays a classified request, of its own flow or of another, by no more than that
//! (P1, P2). Work conserving.
//!
//! **Order.** Requests of one class of a flow leave in the order of arrival, and so does excess.
//! Across the classes of a flow the order is by deadline: a good request passes bad ones that came
//! before it. That is P2.
//!
//! **Tags** are nanoseconds, those of the clock: `u128` only because the heap's are, and deadlines end
//! at 2⁶⁴ + 8.64·10¹³. A waiting request carries its arrival t, which is all that its class's δ is added to.
//!
//! Cost of an operation: O(log flows + classes of the flow), without the second term for one class.
//!
//! Deviations from the paper:
//! 1. The printed condition "tokens(k+1) ≥ 1 and tokens(k) < 1" can hold at several k. The text
//!    decides: the walk starts at the outermost bucket and ends at the first that refuses.
//! 2. The paper does not say what becomes of a request that B_n refuses. Here: excess, above.
//! 3. Costs other than one: a bucket admits if it holds the whole cost. A request that costs more than
//!    σ_n is always excess, and so is everything of a flow with σ_n = 0.
//! 4. Parameters changed while requests wait: they stay in their class, with the δ that they were promised when
//!    they came ([`crate::Arrival::promise`]), or the new one if nobody told what that was.
//!    Buckets keep their levels, by index (see [`crate::Cascade::reconfigure`]); all start full
//!    if one class becomes several or the reverse, as the engine's meter does. A class that is dropped
//!    keeps its δ until what waits in it has gone; excess stays excess. A flow that turns from
//!    background to guaranteed has its waiting requests classified as if they arrived at that moment.
//! 5. Background flows: served when neither a classified request nor excess waits.
//!
//! The cascade here is the scheduler's own, so that it works without an engine. Under an engine both
//! come to the same classes, with one exception. A flow of one class: the engine promises what pClock
//! would, this scheduler keeps at least that. When it takes over from another scheduler it is told the
//! levels of the engine's buckets, and requests that have waited there keep the class that they had.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::fair::FairShare;
use super::{Arrival, ConfigureError, Decision, Scheduler};
use crate::envelope::{TokenBucket, class_of};
use crate::heap::{FlowHeap, Key};
use crate::packed::Packed;
use crate::queue::{Fifo, Slab, Waiting};
use crate::request::{Completion, FlowId, Request};
use crate::slo::{Envelope, Slo};
use crate::table;
use crate::units::{Span, Time, Weight};

/// The Nested QoS scheduler.
#[derive(Clone, Debug)]
pub struct Nested {
    flows: Vec<Flow>,
    slab: Slab,
    by_deadline: FlowHeap,
    excess: Fifo,
    fair: FairShare,
    sequence: u64,
    now: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Absent,
    Guaranteed,
    Background,
}

/// One flow.
#[derive(Clone, Debug)]
struct Flow {
    role: Role,
    /// How many of `levels` are classes; behind them are dropped ones in which requests still wait.
    classes: u8,
    levels: Box<[Level]>,
    /// All that waits: in its classes, as excess and in the background.
    waiting: u32,
    /// As a background flow: what waits, its weight, the virtual finish tag of the last one served.
    background: Fifo,
    weight: Weight,
    virtual_finish: Packed<u128>,
}

/// A class: B_k, δ_k and Q_k.
#[derive(Clone, Copy, Debug)]
struct Level {
    bucket: TokenBucket,
    latency: Span,
    queue: Fifo,
}

const _: () = assert!(
    size_of::<Flow>() + size_of::<Level>() <= 144,
    "an idle flow of one class stays small: 256 bytes with the engine's share"
);

impl Nested {
    /// A scheduler without flows.
    #[must_use]
    pub fn new() -> Self {
        Self {
            flows: Vec::new(),
            slab: Slab::new(),
            by_deadline: FlowHeap::default(),
            excess: Fifo::EMPTY,
            fair: FairShare::default(),
            sequence: 0,
            now: Time::ZERO,
        }
    }

    /// Moves the clock; it never goes back.
    fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    fn known(&self, flow: FlowId) -> Result<&Flow, ConfigureError> {
        let known = self.flows.get(flow.index()).filter(|known| known.role != Role::Absent);
        known.ok_or(ConfigureError::UnknownFlow(flow))
    }

    /// Puts `flow` into the heap by the earliest deadline of its classes, or takes it out.
    fn rekey(&mut self, id: FlowId) {
        match self.flows[id.index()].earliest(&self.slab) {
            Some((key, _)) => self.by_deadline.set(id, key),
            None => _ = self.by_deadline.remove(id),
        }
    }

    /// Classifies and queues a request of a guaranteed flow: `waiting.tag` is when it counts as arrived.
    fn enqueue_guaranteed(&mut self, waiting: Waiting, known: Option<u8>) {
        let id = waiting.flow;
        let flow = &mut self.flows[id.index()];
        let known = known.filter(|class| *class < flow.classes);
        let level = match known {
            Some(class) => flow.levels.get_mut(usize::from(class)),
            None => flow.classify(self.now, &waiting),
        };
        match level {
            Some(level) => {
                level.queue.push(&mut self.slab, waiting);
                if level.queue.len() == 1 {
                    self.rekey(id);
                }
            }
            None => self.excess.push(&mut self.slab, waiting),
        }
    }

    fn enqueue_background(&mut self, waiting: Waiting) {
        let id = waiting.flow;
        let flow = &mut self.flows[id.index()];
        flow.background.push(&mut self.slab, waiting);
        if flow.background.len() == 1 {
            self.fair.enter(id, flow.virtual_finish.0, waiting.sequence);
        }
    }

    fn serve_classified(&mut self, id: FlowId) -> Option<Decision> {
        let flow = &mut self.flows[id.index()];
        let (_, level) = flow.earliest(&self.slab)?;
        let level = &mut flow.levels[level];
        let waiting = level.queue.pop(&mut self.slab)?;
        let deadline = u64::try_from(level.deadline(&waiting)).unwrap_or(u64::MAX);
        flow.waiting -= 1;
        self.rekey(id);
        Some(Decision::Dispatch(waiting.dispatch(Some(Time::from_nanos(deadline)))))
    }

    fn serve_excess(&mut self) -> Option<Decision> {
        let waiting = self.excess.pop(&mut self.slab)?;
        self.flows[waiting.flow.index()].waiting -= 1;
        Some(Decision::Dispatch(waiting.dispatch(None)))
    }

    fn serve_background(&mut self) -> Option<Decision> {
        let flow = &mut self.flows[self.fair.next()?.index()];
        let waiting = flow.background.pop(&mut self.slab)?;
        let successor = flow.background.front(&self.slab).map(|next| next.sequence);
        flow.virtual_finish.0 = self.fair.serve(waiting.cost, flow.weight, successor);
        flow.waiting -= 1;
        Some(Decision::Dispatch(waiting.dispatch(None)))
    }

    /// Makes room for `flow`.
    fn cover(&mut self, flow: FlowId) {
        let flows = flow.index() + 1;
        if flows > self.flows.len() {
            table::cover(&mut self.flows, flows, Flow::absent());
        }
    }
}

impl Default for Nested {
    fn default() -> Self {
        Self::new()
    }
}

impl Scheduler for Nested {
    fn name(&self) -> &'static str {
        "nested"
    }

    fn configure(&mut self, now: Time, flow: FlowId, slo: &Slo) -> Result<(), ConfigureError> {
        if flow > FlowId::MAX {
            return Err(ConfigureError::FlowOutOfRange(flow));
        }
        self.advance(now);
        self.cover(flow);
        if slo.is_background() {
            self.fair.cover(flow.index() + 1);
        } else {
            self.by_deadline.cover(flow.index() + 1);
        }
        let known = &mut self.flows[flow.index()];
        known.reclass(self.now, slo.classes());
        known.weight = slo.weight();
        known.role = if slo.is_background() { Role::Background } else { Role::Guaranteed };
        if known.role == Role::Guaranteed {
            known.virtual_finish.0 = 0;
            self.fair.withdraw(flow);
            while let Some(mut waiting) = self.flows[flow.index()].background.pop(&mut self.slab) {
                waiting.tag = self.now.as_nanos().into();
                self.enqueue_guaranteed(waiting, None);
            }
        }
        self.rekey(flow);
        Ok(())
    }

    fn remove(&mut self, now: Time, flow: FlowId) -> Result<(), ConfigureError> {
        if self.known(flow)?.waiting > 0 {
            return Err(ConfigureError::Busy(flow));
        }
        self.advance(now);
        self.flows[flow.index()] = Flow::absent();
        Ok(())
    }

    fn adopt(&mut self, _now: Time, flow: FlowId, buckets: &[TokenBucket]) {
        let levels = self.flows.get_mut(flow.index()).map(|flow| flow.levels.iter_mut());
        for (level, bucket) in levels.into_iter().flatten().zip(buckets) {
            level.bucket = bucket.without_debt();
        }
    }

    fn on_arrival(&mut self, now: Time, arrival: Arrival) -> Result<(), ConfigureError> {
        let id = arrival.request.flow;
        let role = self.known(id)?.role;
        if self.slab.is_full() {
            return Err(ConfigureError::TooManyWaiting);
        }
        self.advance(now);
        let waiting = Waiting::new(arrival, self.sequence, self.now.as_nanos().into());
        self.sequence += 1;
        self.flows[id.index()].waiting += 1;
        match role {
            Role::Background => self.enqueue_background(waiting),
            _ => {
                let judged_before = arrival.arrived < self.now;
                self.enqueue_guaranteed(waiting, arrival.class.filter(|_| judged_before));
            }
        }
        Ok(())
    }

    fn poll_dispatch(&mut self, now: Time) -> Decision {
        self.advance(now);
        let classified = self.by_deadline.peek().and_then(|(_, flow)| self.serve_classified(flow));
        let decision = classified.or_else(|| self.serve_excess()).or_else(|| self.serve_background());
        decision.unwrap_or(Decision::Idle)
    }

    fn on_completion(&mut self, now: Time, _request: &Request, _completion: &Completion) {
        self.advance(now);
    }

    fn backlog(&self, flow: FlowId) -> usize {
        self.flows.get(flow.index()).map_or(0, |flow| flow.waiting as usize)
    }
}

impl Flow {
    fn absent() -> Self {
        Self {
            role: Role::Absent,
            classes: 0,
            levels: Box::default(),
            waiting: 0,
            background: Fifo::EMPTY,
            weight: Weight::ONE,
            virtual_finish: Packed(0),
        }
    }

    /// The class that the request reaches at `now`; its cost is taken.
    fn classify(&mut self, now: Time, waiting: &Waiting) -> Option<&mut Level> {
        let classes = &mut self.levels[..usize::from(self.classes)];
        let class = class_of(classes.iter_mut().map(|level| &mut level.bucket), now, waiting.cost)?;
        classes.get_mut(usize::from(class))
    }

    /// The earliest deadline of all classes, and the level where it waits.
    fn earliest(&self, slab: &Slab) -> Option<(Key, usize)> {
        let heads = self.levels.iter().enumerate().filter_map(|(index, level)| {
            let head = level.queue.front(slab)?;
            Some((Key { tag: level.deadline(head), sequence: head.sequence }, index))
        });
        heads.min()
    }

    /// Changes the classes at `now`; dropped ones in which requests wait stay behind the others.
    fn reclass(&mut self, now: Time, classes: &[Envelope]) {
        let old_classes = usize::from(self.classes);
        let anew = (old_classes > 1) != (classes.len() > 1);
        let busy = self.levels.iter().rposition(|level| !level.queue.is_empty()).map_or(0, |last| last + 1);
        let level = |index: usize| {
            let old = self.levels.get(index);
            let Some(class) = classes.get(index) else { return old.copied() };
            let mut bucket = TokenBucket::new(now, class.burst(), class.rate());
            if let Some(old) = old.filter(|_| index < old_classes && !anew) {
                bucket = old.bucket;
                bucket.reconfigure(now, class.burst(), class.rate());
            }
            let queue = old.map_or(Fifo::EMPTY, |old| old.queue);
            Some(Level { bucket, latency: class.latency(), queue })
        };
        self.levels = (0..busy.max(classes.len())).filter_map(level).collect();
        self.classes = classes.len() as u8;
    }
}

impl Level {
    /// When a request of this class is due.
    fn deadline(&self, waiting: &Waiting) -> u128 {
        { waiting.tag }.saturating_add(u128::from(waiting.latency(self.latency).as_nanos()))
    }
}
