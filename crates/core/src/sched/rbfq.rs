//! RBFQ, reservation-based fair queueing: a minimum rate for each flow first, what is left by weight.
//!
//! Source: Jain, "QoS Benefits of Flash in a Storage System", MS thesis, Penn State 2008, sections 1.3 and
//! 2.9, tables 1 to 3, which use it as given.
//!
//! **Law** (additive). While all flows have requests waiting, a store that serves T per second gives
//! `x_i = r_i + (T − Σr)·w_i/Σw` if Σr ≤ T, and in proportion to the r_i otherwise. T may change at any
//! time and is never needed. Work-conserving.
//!
//! ```text
//!  flows [ reservation: RateTag, weight tag, queue ]          by flow number, heads carry the tags
//!               │             │
//!  by_reservation [ R of each head | ... ]   smallest R ≤ now: *local* phase     R += cost / r
//!  shares         [ W of each head | ... ]   otherwise smallest W: *global*      W += cost / w
//!  background     [ W of each head | ... ]   only if no other flow waits         O(log flows) each
//!
//!  A request moves one of its flow's two tags, never both: what comes by weight is on top of r.
//! ```
//!
//! New flows, and those that return later than R + min(c/r, 10 ms), c the cost of their last request and 1 at
//! least: R = now − lag. All that return: W = max(W, V), V being the smallest W at the last dispatch. Nobody claims the past: at most the one request whose R
//! passed while the flow waited for a reply. Scales: rate_tag.rs for R, fair.rs for W.
//!
//! Deviations and decisions:
//! 1. The thesis says in prose that the split is by weight whenever each share covers its minimum (the max
//!    law, which is that of mclock.rs). Its tables say otherwise, and they decide: the additive law.
//! 2. A flow with an envelope and no reservation has ρ reserved, so that the rate it is promised survives
//!    a change of scheduler. A flow with neither is a background flow; to share by weight among the
//!    others without a reservation to speak of, reserve the smallest rate, 0.001 IOPS.
//! 3. V is the smallest weight tag of flows that are active, and one whose request has just been
//!    dispatched counts as active. Otherwise a client that waits for each reply before it sends the next
//!    request would return to the tag of the slowest flow each time, and its weight would do nothing.
//! 4. The lag is by how much the smallest R was behind at the last call of `poll_dispatch`; it is a
//!    few services at most while the store keeps up with the reservations. A flow that waits keeps its
//!    claim, so in an overload all R fall behind together; one that came with R = now would be shut out until the
//!    others have caught up, so it comes with the same lag as they have. The lag never exceeds a
//!    second (rate_tag.rs), so that is the most that a stalled store has to catch up.
//! 5. Limits are not part of RBFQ and are ignored; see mclock.rs.
//! 6. Parameters changed while requests wait: the last request's cost is spread at the new reservation;
//!    the new weight counts from the next dispatch on.

use alloc::vec::Vec;

use super::fair::{FairShare, virtual_length};
use super::rate_tag::{RateTag, ReservationClock, reserved};
use super::{Arrival, ConfigureError, Decision, Scheduler};
use crate::heap::{FlowHeap, Key};
use crate::packed::Packed;
use crate::queue::{Fifo, Slab, Waiting};
use crate::request::{Completion, FlowId, Request};
use crate::slo::Slo;
use crate::table;
use crate::units::{Time, Weight};

/// The RBFQ scheduler. [`Dispatch::finish_tag`](super::Dispatch::finish_tag) is the reservation tag of a request that was dispatched in
/// the local phase, and `None` in the global phase.
#[derive(Clone, Debug, Default)]
pub struct Rbfq {
    flows: Vec<Flow>,
    slab: Slab,
    by_reservation: FlowHeap,
    shares: FairShare,
    background: FairShare,
    clock: ReservationClock,
    sequence: u64,
    now: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Absent,
    Reserved,
    Background,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    role: Role,
    queue: Fifo,
    reservation: RateTag,
    weight: Weight,
    /// W of the head, or the earliest W of the next request of an idle flow.
    weight_tag: Packed<u128>,
}

const _: () = assert!(size_of::<Flow>() <= 72, "an idle flow stays small");

impl Flow {
    const ABSENT: Self = Self {
        role: Role::Absent,
        queue: Fifo::EMPTY,
        reservation: RateTag::NONE,
        weight: Weight::ONE,
        weight_tag: Packed(0),
    };
}

impl Rbfq {
    /// A scheduler without flows.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock; it never goes back.
    fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    fn known(&self, flow: FlowId) -> Result<&Flow, ConfigureError> {
        let known = self.flows.get(flow.index()).filter(|known| known.role != Role::Absent);
        known.ok_or(ConfigureError::UnknownFlow(flow))
    }

    /// Makes room for `flow`.
    fn cover(&mut self, flow: FlowId) {
        let flows = flow.index() + 1;
        if flows > self.flows.len() {
            table::cover(&mut self.flows, flows, Flow::ABSENT);
        }
    }

    /// Puts the head of `id` into the heaps of its role. `returns` if the flow was in none of them.
    fn enter(&mut self, id: FlowId, returns: bool) {
        let flow = &mut self.flows[id.index()];
        let Some(sequence) = flow.queue.front(&self.slab).map(|head| head.sequence) else { return };
        let shares = if flow.role == Role::Reserved {
            self.by_reservation.set(id, Key { tag: flow.reservation.due(), sequence });
            &mut self.shares
        } else {
            &mut self.background
        };
        if returns {
            flow.weight_tag.0 = shares.join(id, flow.weight_tag.0, sequence);
        } else {
            shares.place(id, flow.weight_tag.0, sequence);
        }
    }

    /// Takes `id` out of the heaps of `role`.
    fn leave(&mut self, id: FlowId, role: Role) {
        if role == Role::Reserved {
            self.by_reservation.remove(id);
            self.shares.withdraw(id);
        } else {
            self.background.withdraw(id);
        }
    }

    /// Dispatches the head of `id`: in the local phase if it has a reservation tag, else in the global one.
    fn serve(&mut self, id: FlowId, local: Option<u128>) -> Decision {
        let flow = &mut self.flows[id.index()];
        let shares = if flow.role == Role::Reserved { &mut self.shares } else { &mut self.background };
        shares.mark();
        let Some(waiting) = flow.queue.pop(&mut self.slab) else { return Decision::Idle };
        let cost = waiting.cost;
        match local {
            Some(_) => flow.reservation.charge(cost),
            None => {
                flow.weight_tag.0 = { flow.weight_tag.0 }.saturating_add(virtual_length(cost, flow.weight))
            }
        }
        if flow.queue.is_empty() {
            let role = flow.role;
            self.leave(id, role);
        } else {
            self.enter(id, false);
        }
        Decision::Dispatch(waiting.dispatch(local.map(|due| self.clock.instant_of(due))))
    }
}

impl Scheduler for Rbfq {
    fn name(&self) -> &'static str {
        "rbfq"
    }

    fn configure(&mut self, now: Time, flow: FlowId, slo: &Slo) -> Result<(), ConfigureError> {
        if flow > FlowId::MAX {
            return Err(ConfigureError::FlowOutOfRange(flow));
        }
        self.advance(now);
        self.cover(flow);
        let rate = reserved(slo);
        let role = if rate.is_some() { Role::Reserved } else { Role::Background };
        if role == Role::Reserved {
            self.by_reservation.cover(flow.index() + 1);
            self.shares.cover(flow.index() + 1);
        } else {
            self.background.cover(flow.index() + 1);
        }
        let earliest = self.clock.earliest(self.now);
        let known = &mut self.flows[flow.index()];
        let (old, changes_side) = (known.role, known.role != role);
        if changes_side {
            (known.role, known.weight_tag) = (role, Packed(0));
        }
        known.weight = slo.weight();
        known.reservation.reconfigure(earliest, rate);
        if changes_side {
            self.leave(flow, old);
        }
        self.enter(flow, changes_side);
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
        let id = arrival.request.flow;
        self.known(id)?;
        if self.slab.is_full() {
            return Err(ConfigureError::TooManyWaiting);
        }
        self.advance(now);
        let earliest = self.clock.earliest(self.now);
        let flow = &mut self.flows[id.index()];
        flow.queue.push(&mut self.slab, Waiting::new(arrival, self.sequence, 0));
        self.sequence += 1;
        if flow.queue.len() == 1 {
            flow.reservation.resume(earliest);
            self.enter(id, true);
        }
        Ok(())
    }

    fn poll_dispatch(&mut self, now: Time) -> Decision {
        self.advance(now);
        match self.by_reservation.peek() {
            Some((head, flow)) if self.clock.observe(self.now, head.tag) => {
                return self.serve(flow, Some(head.tag));
            }
            Some(_) => {}
            None => self.clock.observe_nothing(),
        }
        match self.shares.next().or(self.background.next()) {
            Some(flow) => self.serve(flow, None),
            None => Decision::Idle,
        }
    }

    fn on_completion(&mut self, now: Time, _request: &Request, _completion: &Completion) {
        self.advance(now);
    }

    fn backlog(&self, flow: FlowId) -> usize {
        self.flows.get(flow.index()).map_or(0, |flow| flow.queue.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Operation, RequestId};
    use crate::slo::Envelope;
    use crate::units::{Cost, Rate, Span};

    fn arrive(rbfq: &mut Rbfq, id: u64, flow: u32) -> Result<(), ConfigureError> {
        let (id, flow, operation) = (RequestId(id), FlowId(flow), Operation::Read);
        let request = Request { id, flow, operation, offset: 0, length: 512, cost: Cost::ONE };
        rbfq.on_arrival(Time::ZERO, Arrival::new(Time::ZERO, request))
    }

    fn next(rbfq: &mut Rbfq, millis: u64) -> Option<(u64, bool)> {
        match rbfq.poll_dispatch(Time::from_millis(millis)) {
            Decision::Dispatch(dispatch) => Some((dispatch.request.id.0, dispatch.finish_tag.is_some())),
            _ => None,
        }
    }

    /// The timeline that docs/schedulers/rbfq.md draws.
    #[test]
    fn the_worked_example() {
        let mut rbfq = Rbfq::new();
        let weighs = |weight| Slo::background().with_weight(Weight::new(weight).unwrap());
        let half = Envelope::new(Cost::ONE, Rate::per_second(50), Span::from_millis(9)).unwrap();
        rbfq.configure(Time::ZERO, FlowId(0), &Slo::guaranteed(half)).unwrap();
        let slo = weighs(3).with_reservation(Rate::from_millis(1)).unwrap();
        rbfq.configure(Time::ZERO, FlowId(1), &slo).unwrap();
        for id in 0..10 {
            arrive(&mut rbfq, id, 0).unwrap();
            arrive(&mut rbfq, 10 + id, 1).unwrap();
        }
        let served: std::vec::Vec<_> = (0..10).map(|turn| next(&mut rbfq, 10 * turn).unwrap()).collect();
        let (local, global) = (true, false);
        let expected = [
            (0, local),
            (10, local),
            (1, local),
            (11, global),
            (2, local),
            (3, global),
            (4, local),
            (12, global),
            (5, local),
            (13, global),
        ];
        assert_eq!(served, expected);
    }

    #[test]
    fn refuses_strangers() {
        let mut rbfq = Rbfq::new();
        assert_eq!(arrive(&mut rbfq, 0, 0), Err(ConfigureError::UnknownFlow(FlowId(0))));
        let beyond = FlowId(FlowId::MAX.0 + 1);
        let refused = rbfq.configure(Time::ZERO, beyond, &Slo::background());
        assert_eq!(refused, Err(ConfigureError::FlowOutOfRange(beyond)));
        rbfq.configure(Time::ZERO, FlowId(0), &Slo::background()).unwrap();
        arrive(&mut rbfq, 0, 0).unwrap();
        assert_eq!(rbfq.remove(Time::ZERO, FlowId(0)), Err(ConfigureError::Busy(FlowId(0))));
        assert_eq!(next(&mut rbfq, 0), Some((0, false)));
        assert_eq!(next(&mut rbfq, 0), None);
        rbfq.remove(Time::ZERO, FlowId(0)).unwrap();
    }
}
