//! AVATAR under SARC: a rate controller releases each flow's requests, deadlines order what is released.
//!
//! Source: Zhang, Sivasubramaniam, Wang, Riska, Riedel, "An Interposed 2-Level I/O Scheduling Framework for
//! Performance Virtualization", SIGMETRICS 2005, and "Storage Performance Virtualization via Throughput and
//! Latency Control", ACM Transactions on Storage 2(3), 2006. This was written from published descriptions
//! of them (their abstracts; Jain, Penn State 2008, section 2.4; pClock, section 2.4), not from the papers'
//! own pseudocode. Taken from there: the two levels, their division of labour, earliest deadline first
//! below, black-box store, work conservation by a word from below that there is room (*spareness*).
//!
//! ```text
//!  SARC     flow ──> [ queue ] ── head released when its tokens ⟨σ, ρ⟩ suffice ──┐
//!           held   [ release | ... ]  by instant of release                      │
//!           spare  [ S flow  | ... ]  the same heads, by weight (fair.rs)        │   nothing released:
//!                      └──────────────── one at a time, no tokens taken ─────┐   │   spareness
//!  ─────────────────────────────────────────────────────────────────────────│───│──────────────
//!  AVATAR   released [ release + δ | ... ]  smallest: dispatched next <──────│───┘
//!                         └──────────> store, at most D outstanding <────────┘      O(log flows)
//! ```
//!
//! **Laws.** On a server of the capacity of the System Capacity Constraint ([`crate::admission`]) every request
//! of a flow that keeps to its envelope is done within δ plus one service time, whatever the others
//! send: what is released of each flow keeps to its envelope, and such a set EDF serves in time. (The
//! pClock paper says that AVATAR gives no guarantees. With an admission test it does.) While all flows
//! have requests waiting, a store that serves T per second gives `x_i = ρ_i + (T − Σρ)·w_i/Σw` if Σρ ≤ T.
//! Work conserving, each flow in the order of arrival. Spare capacity is never paid for later.
//!
//! What differs from pClock: a request over the envelope waits for its release, and until then nothing but
//! room for it counts; there a tag is given to it at once, and all tags move closer together.
//!
//! Settled here, because the descriptions do not say:
//! 1. The regulator is a token bucket that starts full. A request costlier than σ is released when the
//!    bucket is full, and leaves it in debt.
//! 2. The deadline counts from the release. For a request inside the envelope that is its arrival.
//! 3. Spareness is: the store has room (the engine asks) and nothing released waits. Spare capacity is
//!    shared by weight, by start-time fair queueing, a request at a time, and takes no tokens.
//! 4. AVATAR's Monitor and Controller choose how many requests may be at the store (its L₀). Here that is
//!    the dispatch depth, which belongs to the engine and can be chosen by [`crate::depth`].
//! 5. New parameters count from the flow's last release on; what waits is released under them. A head
//!    that had been released is held again if they do not release it. What was promised a δ when it came
//!    ([`crate::Arrival::promise`]) keeps that one.
//! 6. Background flows are served only when no other waits. Of several classes the innermost counts.

use alloc::vec::Vec;

use super::fair::{FairShare, virtual_length};
use super::tagged::{Discipline, Head, Tagged};
use crate::envelope::{Level, grains_of};
use crate::heap::{FlowHeap, Key};
use crate::packed::Packed;
use crate::request::FlowId;
use crate::slo::{Envelope, Slo};
use crate::table;
use crate::units::{Cost, Span, Time, Weight};

/// The AVATAR scheduler. [`Dispatch::finish_tag`](super::Dispatch::finish_tag) is the deadline of a request
/// that SARC has released, and `None` for one that went on spare capacity.
pub type Avatar = Tagged<RateControlled>;

/// SARC and AVATAR.
#[derive(Clone, Debug, Default)]
pub struct RateControlled {
    flows: Vec<Regulated>,
    /// Heads that SARC has released, by deadline.
    released: FlowHeap,
    /// Heads that it holds back, by instant of release; they are in `spare` too, and stay there
    /// when they are released.
    held: FlowHeap,
    spare: FairShare,
    now: Time,
}

/// The regulator of one flow.
#[derive(Clone, Copy, Debug)]
struct Regulated {
    /// ⟨σ, ρ, δ⟩.
    envelope: Envelope,
    /// As of the last release.
    tokens: Level,
    /// When the head is released.
    release: Time,
    /// When it is due: δ later, which is that of its flow or the one that it was promised.
    deadline: Time,
    weight: Weight,
    /// F of the last request that went on spare capacity.
    finish: Packed<u128>,
}

const _: () = assert!(size_of::<Regulated>() <= 80, "an idle flow stays small");

impl Regulated {
    /// At rest until a flow is admitted.
    const NONE: Self = Self {
        envelope: Envelope::SMALLEST,
        tokens: Level::full(Time::ZERO, Cost::ZERO),
        release: Time::ZERO,
        deadline: Time::ZERO,
        weight: Weight::ONE,
        finish: Packed(0),
    };

    fn new(now: Time, envelope: &Envelope, weight: Weight) -> Self {
        let tokens = Level::full(now, envelope.burst());
        Self { envelope: *envelope, tokens, release: now, deadline: now, weight, finish: Packed(0) }
    }

    /// The first instant, not before `arrived` and the last release, at which the tokens suffice.
    #[inline(always)]
    fn release_of(&self, arrived: Time, cost: Cost) -> Time {
        let needed = grains_of(cost.min(self.envelope.burst())) - self.tokens.grains();
        let rate = self.envelope.rate().as_millis();
        let wait = match u64::try_from(needed) {
            Ok(needed) => needed.div_ceil(rate),
            Err(_) if needed <= 0 => 0,
            Err(_) => u64::try_from(needed.unsigned_abs().div_ceil(rate.into())).unwrap_or(u64::MAX),
        };
        arrived.max(self.tokens.refilled() + Span::from_nanos(wait))
    }

    /// δ of the head.
    fn latency_of(&self, head: &Head) -> Span {
        head.promise.unwrap_or(self.envelope.latency())
    }

    /// The head goes, as released.
    fn charge(&mut self, cost: Cost) {
        self.tokens.arrive(self.release, cost, self.envelope.burst(), self.envelope.rate());
    }
}

impl RateControlled {
    /// Takes the head of `flow` out of wherever it is.
    fn leave(&mut self, flow: FlowId) {
        self.released.remove(flow);
        self.held.remove(flow);
        self.spare.withdraw(flow);
    }

    /// SARC's release of what is due; names the released head with the earliest deadline. Each head is held at
    /// most once per arrival, dispatch or change of parameters, so this is an amortised O(log flows) per call.
    /// The last one to be released stays where it is if it goes at once.
    fn release(&mut self) -> Option<FlowId> {
        let flows = &self.flows;
        self.held.release_up_to(self.now.as_nanos().into(), &mut self.released, |flow, release| Key {
            tag: flows[flow.index()].deadline.as_nanos().into(),
            ..release
        })
    }

    /// The flow that gets spare capacity next. What has been released since it was entered is found and dropped
    /// here, if ever; mostly its flow has another head before.
    fn next_spare(&mut self) -> Option<FlowId> {
        loop {
            let flow = self.spare.next()?;
            if self.flows[flow.index()].release > self.now {
                return Some(flow);
            }
            self.spare.withdraw(flow);
        }
    }
}

impl Discipline for RateControlled {
    const NAME: &'static str = "avatar";

    fn cover(&mut self, flows: usize) {
        table::cover(&mut self.flows, flows, Regulated::NONE);
        self.released.cover(flows);
        self.held.cover(flows);
        self.spare.cover(flows);
    }

    fn advance(&mut self, now: Time) {
        self.now = now;
    }

    fn admit(&mut self, now: Time, flow: FlowId, envelope: &Envelope, slo: &Slo) {
        self.flows[flow.index()] = Regulated::new(now, envelope, slo.weight());
    }

    fn change(&mut self, flow: FlowId, envelope: &Envelope, slo: &Slo, head: Option<Head>) {
        let regulated = &mut self.flows[flow.index()];
        if regulated.envelope == *envelope && regulated.weight == slo.weight() {
            return;
        }
        regulated.tokens.cut(envelope.burst());
        regulated.envelope = *envelope;
        regulated.weight = slo.weight();
        self.leave(flow);
        if let Some(head) = head {
            self.enter(flow, head);
        }
    }

    fn dismiss(&mut self, flow: FlowId) {
        self.leave(flow);
    }

    /// When it arrived.
    fn stamp(&mut self, now: Time, _flow: FlowId, _cost: Cost) -> u128 {
        now.as_nanos().into()
    }

    #[inline(always)]
    fn enter(&mut self, flow: FlowId, head: Head) {
        let regulated = &mut self.flows[flow.index()];
        regulated.release = regulated.release_of(Time::from_nanos(head.tag as u64), head.cost);
        regulated.deadline = regulated.release + regulated.latency_of(&head);
        if regulated.release <= self.now {
            self.released.set(flow, head.key(regulated.deadline.as_nanos().into()));
        } else {
            self.held.set(flow, head.key(regulated.release.as_nanos().into()));
            self.spare.enter(flow, regulated.finish.0, head.sequence);
        }
    }

    #[inline(always)]
    fn next(&mut self) -> Option<FlowId> {
        self.release().or_else(|| self.next_spare())
    }

    #[inline(always)]
    fn serve(&mut self, flow: FlowId, served: Head, successor: Option<Head>) -> Option<Time> {
        let regulated = &mut self.flows[flow.index()];
        let finish = if regulated.release <= self.now {
            if !self.released.remove(flow) {
                self.held.remove(flow);
            }
            regulated.charge(served.cost);
            Some(regulated.deadline)
        } else {
            let length = virtual_length(served.cost, regulated.weight);
            self.held.remove(flow);
            regulated.finish.0 = self.spare.serve_length(length, None);
            None
        };
        if let Some(head) = successor {
            self.enter(flow, head);
        }
        finish
    }
}
