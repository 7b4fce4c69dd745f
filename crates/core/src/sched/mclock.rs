//! mClock: a reservation, a limit and a weight for each flow; with counts from other servers, dmClock.
//!
//! Source: Gulati, Merchant, Varman, "mClock: Handling Throughput Variability for Hypervisor IO
//! Scheduling", OSDI 2010: tag assignment, tag adjustment, request scheduling, and dmClock's counts. Its text
//! was not at hand; the rules are as published work quotes them, `R = max(R' + 1/r, t)`, `L = max(L' + 1/l, t)`,
//! `P = max(P' + 1/w, t)`, with dmClock's ρ/r, δ/l, δ/w in place of 1/r, 1/l, 1/w.
//!
//! **Law** (max). While all flows have requests waiting, a store that serves T per second gives
//! `x_i = min(l_i, max(r_i, λ·w_i))`, λ such that Σx = T, if Σr ≤ T: a reservation counts *within* the
//! share (in rbfq.rs it comes on top). If Σr > T, x is in proportion to the r_i. T is never needed.
//! Limit: from when a flow becomes busy, at most l·t + 1 request in time t; in any interval at most l·t + 2.
//! Work-conserving but for the limits.
//!
//! ```text
//!  flows [ reservation: RateTag, limit: RateTag, weight tag P, queue ]     by flow number
//!               │ R               │ L            │                    tags of the head only
//!               │       L > now   v              │
//!               │        limited [ L | ... ]     │   not ready; smallest L: WaitUntil
//!               v             │ L ≤ now          v
//!  by_reservation [ R | .. ] <┴──────> shares [ P | .. ]  background [ P | .. ]     ready
//!        │                               │                  │
//!   1. smallest R ≤ now             2. smallest P       3. only if no other flow is ready
//!   R += cost/r                     R stays
//!   L += cost/l, P += cost/w        L += cost/l, P += cost/w             O(log flows) each
//! ```
//!
//! The paper gives every request its tags at arrival, R₀, R₀ + 1/r, R₀ + 2/r …, and moves those behind a
//! request that is served by weight back by 1/r: then the next has the R of the one that has gone. Here a
//! request gets its tags when it becomes the head, so the R of the flow just stays, in O(1). A new flow has
//! R = now − lag and L = now, and so does one that returns from idle later than R + min(c/r, 10 ms), likewise
//! L, c being the cost of its last request and 1 at least; one that returns earlier has only waited for a
//! reply, and keeps its place.
//!
//! Likewise the paper adjusts the P of *all* flows when one returns from idle, in O(flows). P is virtual
//! time here: a flow returns at max(P, V), V the smallest P at the last dispatch, and the others stay.
//! Scales: rate_tag.rs for R and L, fair.rs for P.
//!
//! **dmClock.** With a request comes what other servers have served of its flow since the previous one
//! ([`Elsewhere`]): R moves by reserved/r, L by served/l and P by served/w before the maximum with now, in
//! units of ordinary requests. [`Dispatch::finish_tag`](super::Dispatch::finish_tag) tells in which phase a request went, which is what
//! its client has to count. The counts use the word of a waiting request that tags made at arrival would
//! need: nothing has grown, and requests that have no counts do not mention them.
//!
//! Deviations and decisions:
//! 1. The paper's δ and ρ include the previous request to this server. This server knows better than the
//!    client in which phase that one went (the tags have been moved accordingly), so it is left out.
//! 2. Limits hold in the constraint phase too; the paper checks them in the weight phase only, so that a
//!    flow that catches up after an overload would break its limit. As l ≥ r, no reservation suffers.
//! 3. A flow that is dispatched later than its limit allows may catch up by one request. Without that, a
//!    limit would be undershot by the time that the store is busy with others; if it could catch up by
//!    all that it has waited for, as in the paper, an overload would buy bursts above the limit. A
//!    limit whose step is only a few service times long may be undershot by a few per cent.
//! 4. A flow that comes back from its limit more than one request behind V starts at V, as one that
//!    comes back from idle: its P would fall behind for ever, and a flow that returns at the smallest
//!    P, with the paper, would shut out all others until they catch up.
//! 5. V counts a flow whose request has just been dispatched as active, and the lag is by how much the
//!    reservations are behind in an overload, a second at most: for both see rbfq.rs.
//! 6. A flow with an envelope and no reservation has ρ reserved, so that the rate it is promised survives
//!    a change of scheduler. A flow with neither is a background flow: it has a limit if given one, and is
//!    served when no other flow is ready. To share by weight among the others without a reservation to
//!    speak of, reserve the smallest rate, 0.001 IOPS.
//! 7. Costs other than one: 1/r is cost/r, and so on, of the request before.
//! 8. Parameters changed while requests wait: the last request's cost is spread at the new rates; the new
//!    weight counts from the next dispatch on.
//! 9. The paper's credit for bursts after idleness and its large requests as several are left out:
//!    a burst is pClock's business, and a cost model gives the cost.

use alloc::vec::Vec;

use super::fair::{FairShare, virtual_length};
use super::rate_tag::{RateTag, ReservationClock, instant_of, reserved, tag_of};
use super::{Arrival, ConfigureError, Decision, Elsewhere, Scheduler};
use crate::heap::{FlowHeap, Key};
use crate::packed::Packed;
use crate::queue::{Fifo, Slab, Waiting};
use crate::request::{Completion, FlowId, Request};
use crate::slo::Slo;
use crate::table;
use crate::units::{Cost, Time, Weight};

/// The mClock scheduler. [`Dispatch::finish_tag`](super::Dispatch::finish_tag) is the reservation tag of a request that was dispatched
/// in the constraint-based phase, and `None` in the weight-based phase.
#[derive(Clone, Debug, Default)]
pub struct MClock {
    flows: Vec<Flow>,
    slab: Slab,
    limited: FlowHeap,
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
    /// Whether it is in the heaps of what may go now.
    ready: bool,
    queue: Fifo,
    weight: Weight,
    reservation: RateTag,
    limit: RateTag,
    /// P of the head, or the earliest P of the next request of an idle flow.
    weight_tag: Packed<u128>,
}

const _: () = assert!(size_of::<Flow>() <= 112, "an idle flow stays small");

impl Flow {
    const ABSENT: Self = Self {
        role: Role::Absent,
        ready: false,
        queue: Fifo::EMPTY,
        weight: Weight::ONE,
        reservation: RateTag::NONE,
        limit: RateTag::NONE,
        weight_tag: Packed(0),
    };

    /// Moves P by what `cost` is at the flow's weight.
    fn charge_weight(&mut self, cost: Cost) {
        self.weight_tag.0 = { self.weight_tag.0 }.saturating_add(virtual_length(cost, self.weight));
    }
}

/// The counts of a waiting request, in the word of its tag.
fn pack(elsewhere: Elsewhere) -> u128 {
    u128::from(elsewhere.served()) << 32 | u128::from(elsewhere.reserved())
}

fn unpack(waiting: &Waiting) -> Elsewhere {
    Elsewhere { served: (waiting.tag >> 32) as u32, reserved: waiting.tag as u32 }
}

impl MClock {
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

    /// A request of `id` has become the head: tags move by what was served elsewhere before it.
    fn promote(&mut self, id: FlowId) {
        let flow = &mut self.flows[id.index()];
        let Some(head) = flow.queue.front(&self.slab) else { return };
        let elsewhere = unpack(head);
        if elsewhere.served() > 0 {
            flow.reservation.count_elsewhere(elsewhere.reserved());
            flow.limit.count_elsewhere(elsewhere.served());
            flow.charge_weight(Cost::requests(elsewhere.served().into()));
        }
    }

    /// Puts `id` where its head belongs now: into the heaps of its role, under its limit, or nowhere.
    fn settle(&mut self, id: FlowId) {
        let flow = &mut self.flows[id.index()];
        let Some(head) = flow.queue.front(&self.slab) else { return self.leave(id) };
        let sequence = head.sequence;
        let mut was_limited = false;
        if flow.limit.is_set() {
            let tag = flow.limit.due();
            if tag > tag_of(self.now) {
                self.leave(id);
                self.limited.set(id, Key { tag, sequence });
                return;
            }
            was_limited = self.limited.remove(id);
        }
        let shares = if flow.role == Role::Reserved {
            self.by_reservation.set(id, Key { tag: flow.reservation.due(), sequence });
            &mut self.shares
        } else {
            &mut self.background
        };
        if flow.ready {
            shares.place(id, flow.weight_tag.0, sequence);
        } else if was_limited {
            flow.weight_tag.0 = shares.rejoin(id, flow.weight_tag.0, flow.weight, sequence);
        } else {
            flow.weight_tag.0 = shares.join(id, flow.weight_tag.0, sequence);
        }
        flow.ready = true;
    }

    /// Takes `id` out of all heaps.
    fn leave(&mut self, id: FlowId) {
        let flow = &mut self.flows[id.index()];
        if flow.limit.is_set() {
            self.limited.remove(id);
        }
        if core::mem::take(&mut flow.ready) {
            if flow.role == Role::Reserved {
                self.by_reservation.remove(id);
                self.shares.withdraw(id);
            } else {
                self.background.withdraw(id);
            }
        }
    }

    /// Readies the flows whose limits let them go. Each was put under its limit by one dispatch, arrival
    /// or change of parameters, so this is an amortised O(log flows) per call.
    #[inline(always)]
    fn release(&mut self) {
        while let Some((head, flow)) = self.limited.peek()
            && head.tag <= tag_of(self.now)
        {
            self.settle(flow);
        }
    }

    /// Dispatches the head of `id`, in the phase that the caller has found.
    fn serve(&mut self, id: FlowId, by_reservation: bool) -> Decision {
        let flow = &mut self.flows[id.index()];
        let shares = if flow.role == Role::Reserved { &mut self.shares } else { &mut self.background };
        shares.mark();
        let Some(waiting) = flow.queue.pop(&mut self.slab) else { return Decision::Idle };
        let (cost, due) = (waiting.cost, flow.reservation.due());
        if by_reservation {
            flow.reservation.charge(cost);
        }
        if flow.limit.is_set() {
            flow.limit.charge(cost);
            flow.limit.not_before(tag_of(self.now));
        }
        flow.charge_weight(cost);
        if flow.queue.is_empty() {
            self.leave(id);
        } else {
            self.promote(id);
            self.settle(id);
        }
        Decision::Dispatch(waiting.dispatch(by_reservation.then(|| self.clock.instant_of(due))))
    }
}

impl Scheduler for MClock {
    fn name(&self) -> &'static str {
        "mclock"
    }

    fn configure(&mut self, now: Time, flow: FlowId, slo: &Slo) -> Result<(), ConfigureError> {
        let (rate, limit) = (reserved(slo), slo.limit());
        if flow > FlowId::MAX {
            return Err(ConfigureError::FlowOutOfRange(flow));
        }
        if limit.is_some_and(|limit| rate.is_some_and(|rate| limit < rate)) {
            return Err(ConfigureError::LimitBelowReservation(flow));
        }
        self.advance(now);
        // What its old limit has let go by now has gone by the old weight.
        self.release();
        self.cover(flow);
        let role = if rate.is_some() { Role::Reserved } else { Role::Background };
        if role == Role::Reserved {
            self.by_reservation.cover(flow.index() + 1);
            self.shares.cover(flow.index() + 1);
        } else {
            self.background.cover(flow.index() + 1);
        }
        if limit.is_some() {
            self.limited.cover(flow.index() + 1);
        }
        if self.flows[flow.index()].role != role {
            self.leave(flow);
            self.flows[flow.index()].role = role;
            self.flows[flow.index()].weight_tag = Packed(0);
        }
        let earliest = self.clock.earliest(self.now);
        let known = &mut self.flows[flow.index()];
        known.weight = slo.weight();
        known.reservation.reconfigure(earliest, rate);
        known.limit.reconfigure(tag_of(self.now), limit);
        if !known.limit.is_set() {
            self.limited.remove(flow);
        }
        self.settle(flow);
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
        self.on_arrival_counted(now, arrival, Elsewhere::NOTHING)
    }

    fn on_arrival_counted(
        &mut self,
        now: Time,
        arrival: Arrival,
        elsewhere: Elsewhere,
    ) -> Result<(), ConfigureError> {
        let id = arrival.request.flow;
        self.known(id)?;
        if self.slab.is_full() {
            return Err(ConfigureError::TooManyWaiting);
        }
        self.advance(now);
        let waiting = Waiting::new(arrival, self.sequence, pack(elsewhere));
        let earliest = self.clock.earliest(self.now);
        let flow = &mut self.flows[id.index()];
        flow.queue.push(&mut self.slab, waiting);
        self.sequence += 1;
        if flow.queue.len() == 1 {
            self.promote(id);
            let flow = &mut self.flows[id.index()];
            flow.reservation.resume(earliest);
            flow.limit.resume(tag_of(self.now));
            self.settle(id);
        }
        Ok(())
    }

    fn poll_dispatch(&mut self, now: Time) -> Decision {
        self.advance(now);
        self.release();
        match self.by_reservation.peek() {
            Some((head, flow)) if self.clock.observe(self.now, head.tag) => return self.serve(flow, true),
            Some(_) => {}
            None => self.clock.observe_nothing(),
        }
        if let Some(flow) = self.shares.next().or(self.background.next()) {
            return self.serve(flow, false);
        }
        match self.limited.peek() {
            Some((head, _)) => Decision::WaitUntil(instant_of(head.tag)),
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
    use crate::units::Rate;

    fn arrive(mclock: &mut MClock, millis: u64, id: u64, flow: u32) {
        let (operation, now) = (Operation::Read, Time::from_millis(millis));
        let (id, flow) = (RequestId(id), FlowId(flow));
        let request = Request { id, flow, operation, offset: 0, length: 512, cost: Cost::ONE };
        mclock.on_arrival(now, Arrival::new(now, request)).unwrap();
    }

    /// The identifier, and the reservation tag in milliseconds if it was served by that.
    fn next(mclock: &mut MClock, millis: u64) -> Result<(u64, Option<u64>), Decision> {
        match mclock.poll_dispatch(Time::from_millis(millis)) {
            Decision::Dispatch(dispatch) => {
                Ok((dispatch.request.id.0, dispatch.finish_tag.map(|tag| tag.as_nanos() / 1_000_000)))
            }
            other => Err(other),
        }
    }

    fn slo(reservation: u64, limit: u64, weight: u32) -> Slo {
        let slo = Slo::background().with_weight(Weight::new(weight).unwrap());
        let slo = slo.with_reservation(Rate::per_second(reservation)).unwrap();
        slo.with_limit(Rate::per_second(limit)).unwrap()
    }

    /// The timeline that docs/schedulers/mclock.md draws.
    #[test]
    fn the_worked_example() {
        let mut mclock = MClock::new();
        mclock.configure(Time::ZERO, FlowId(0), &slo(20, 1_000, 1)).unwrap();
        mclock.configure(Time::ZERO, FlowId(1), &slo(1, 50, 9)).unwrap();
        for id in 0..4 {
            arrive(&mut mclock, 0, id, 0);
            arrive(&mut mclock, 0, 10 + id, 1);
        }
        assert_eq!(next(&mut mclock, 0), Ok((0, Some(0))), "both are due, the first came first");
        assert_eq!(next(&mut mclock, 10), Ok((10, Some(0))));
        assert_eq!(next(&mut mclock, 20), Ok((11, None)), "P 1/9 is before P 1, and L is 20 ms");
        assert_eq!(next(&mut mclock, 30), Ok((1, None)), "flow 1 has reached its limit");
        assert_eq!(next(&mut mclock, 40), Ok((12, None)));
        assert_eq!(next(&mut mclock, 50), Ok((2, Some(50))), "the request at 30 ms left R where it was");
        assert_eq!(next(&mut mclock, 60), Ok((13, None)));
        assert_eq!(next(&mut mclock, 70), Ok((3, None)));
        assert_eq!(next(&mut mclock, 80), Err(Decision::Idle));
    }

    #[test]
    fn limits_say_when_to_come_back() {
        let mut mclock = MClock::new();
        mclock.configure(Time::ZERO, FlowId(0), &slo(1, 100, 1)).unwrap();
        (0..3).for_each(|id| arrive(&mut mclock, 0, id, 0));
        assert_eq!(next(&mut mclock, 0), Ok((0, Some(0))));
        assert_eq!(next(&mut mclock, 3), Err(Decision::WaitUntil(Time::from_millis(10))));
        mclock.configure(Time::from_millis(4), FlowId(0), &slo(1, 200, 1)).unwrap();
        assert_eq!(next(&mut mclock, 4), Err(Decision::WaitUntil(Time::from_millis(5))), "a new limit holds");
        assert_eq!(next(&mut mclock, 5), Ok((1, None)));
        let evicted = mclock.evict(Time::from_millis(5)).map(|dispatch| dispatch.request.id);
        assert_eq!(evicted, Some(RequestId(2)), "another scheduler gets it without waiting");
    }

    /// A flow that its limit let go before its promise changed has gone by the old one, whether or not anybody
    /// asked meanwhile.
    #[test]
    fn a_limit_that_is_over_is_over_before_the_promise_changes() {
        let orders = [false, true].map(|told_again| {
            let mut mclock = MClock::new();
            let limited = slo(1, 10, 1);
            let free = Slo::background().with_reservation(Rate::per_second(1)).unwrap();
            mclock.configure(Time::ZERO, FlowId(0), &limited).unwrap();
            mclock.configure(Time::ZERO, FlowId(1), &slo(1, 1_000_000, 2)).unwrap();
            (0..4).for_each(|id| arrive(&mut mclock, 0, id, 0));
            (10..18).for_each(|id| arrive(&mut mclock, 0, id, 1));
            // Flow 0 goes once, flow 1 until V has passed the other's P of 1 by less than one request.
            let first: std::vec::Vec<_> = (0..5).map(|at| next(&mut mclock, at).unwrap().0).collect();
            assert_eq!(first, [0, 10, 11, 12, 13]);
            let now = Time::from_millis(100);
            if told_again {
                mclock.configure(now, FlowId(0), &limited).unwrap();
            }
            mclock.configure(now, FlowId(0), &free).unwrap();
            [100, 101, 102, 103].map(|at| next(&mut mclock, at).unwrap().0)
        });
        assert_eq!(orders[0], orders[1]);
    }

    #[test]
    fn refuses_a_limit_below_the_reservation() {
        let mut mclock = MClock::new();
        let refused = Err(ConfigureError::LimitBelowReservation(FlowId(0)));
        assert_eq!(mclock.configure(Time::ZERO, FlowId(0), &slo(20, 19, 1)), refused);
        assert_eq!(mclock.remove(Time::ZERO, FlowId(0)), Err(ConfigureError::UnknownFlow(FlowId(0))));
        mclock.configure(Time::ZERO, FlowId(0), &slo(20, 20, 1)).unwrap();
        let beyond = FlowId(FlowId::MAX.0 + 1);
        let refused = mclock.configure(Time::ZERO, beyond, &slo(1, 1, 1));
        assert_eq!(refused, Err(ConfigureError::FlowOutOfRange(beyond)));
        arrive(&mut mclock, 0, 0, 0);
        assert_eq!(mclock.remove(Time::ZERO, FlowId(0)), Err(ConfigureError::Busy(FlowId(0))));
    }
}
