//! Start-time fair queueing among background flows (Goyal, Vin, Cheng 1996; in the pClock paper
//! background work is one flow, so sharing among several is an addition), and in the weight phases of RBFQ
//! and mClock, whose flows also have requests served that do not come from here.
//!
//! ```text
//!  heap by virtual start tag of the head:   [ S flow | S flow | ... ]
//!  S = max(V, F of the flow's previous request)    F = S + cost / weight    V = S last dispatched
//! ```
//!
//! Only heads carry a tag. A request behind another starts where that one finishes, because V cannot
//! have passed a waiting flow's tags; so its tag is known when it becomes the head and not before.
//!
//! Scale: virtual time is a `u128` in units of 2⁻⁴⁰ of a thousandth of a request at weight 1. The
//! division by the weight is rounded down once per request: at the largest weight, 10⁶, that is one
//! part in 10⁹ for a request of cost 1. It saturates after 2²⁴ requests of the largest cost, or
//! 2⁷⁸ ordinary ones.

use crate::heap::{FlowHeap, Key};
use crate::request::FlowId;
use crate::units::{Cost, Weight};

/// Bits behind the binary point of virtual time.
const SCALE_BITS: u32 = 40;

/// The flows that have something waiting and share by weight.
#[derive(Clone, Debug, Default)]
pub(crate) struct FairShare {
    heads: FlowHeap,
    virtual_now: u128,
}

impl FairShare {
    pub(crate) fn cover(&mut self, flows: usize) {
        self.heads.cover(flows);
    }

    /// The flow whose head goes next.
    pub(crate) fn next(&mut self) -> Option<FlowId> {
        self.heads.peek().map(|(_, flow)| flow)
    }

    /// A request has arrived at an empty queue; `finish` is the flow's last virtual finish tag.
    pub(crate) fn enter(&mut self, flow: FlowId, finish: u128, sequence: u64) {
        self.heads.set(flow, Key { tag: self.virtual_now.max(finish), sequence });
    }

    /// The flow that [`FairShare::next`] named is served `cost`. Returns its virtual finish tag;
    /// `successor` is the sequence number of its new head, if it has one.
    pub(crate) fn serve(&mut self, cost: Cost, weight: Weight, successor: Option<u64>) -> u128 {
        self.serve_length(virtual_length(cost, weight), successor)
    }

    /// The same for a caller that has its own scale of virtual time and divides by the share itself.
    pub(crate) fn serve_length(&mut self, length: u128, successor: Option<u64>) -> u128 {
        let Some((head, flow)) = self.heads.peek() else { return self.virtual_now };
        self.virtual_now = head.tag;
        let finish = head.tag.saturating_add(length);
        match successor {
            Some(sequence) => self.heads.set(flow, Key { tag: finish, sequence }),
            None => _ = self.heads.remove(flow),
        }
        finish
    }

    /// Like [`FairShare::enter`], for schedulers that keep a head's tag themselves; returns the tag.
    pub(crate) fn join(&mut self, flow: FlowId, tag: u128, sequence: u64) -> u128 {
        let tag = self.virtual_now.max(tag);
        self.heads.set(flow, Key { tag, sequence });
        tag
    }

    /// Like [`FairShare::join`], for a flow that had something waiting all the time: it keeps its place
    /// unless V has left it behind by more than one request of its own.
    pub(crate) fn rejoin(&mut self, flow: FlowId, tag: u128, weight: Weight, sequence: u64) -> u128 {
        let close = tag.saturating_add(virtual_length(Cost::ONE, weight)) > self.virtual_now;
        let tag = if close { tag } else { self.virtual_now };
        self.heads.set(flow, Key { tag, sequence });
        tag
    }

    /// A flow that stays gets the head `sequence` with this tag, which is none before its last one.
    pub(crate) fn place(&mut self, flow: FlowId, tag: u128, sequence: u64) {
        self.heads.set(flow, Key { tag, sequence });
    }

    /// A request is about to be served, of whichever flow: V moves up to the smallest tag.
    pub(crate) fn mark(&mut self) {
        if let Some((head, _)) = self.heads.peek() {
            self.virtual_now = self.virtual_now.max(head.tag);
        }
    }

    /// The flow leaves with all that it has waiting.
    pub(crate) fn withdraw(&mut self, flow: FlowId) {
        self.heads.remove(flow);
    }
}

/// cost / weight in virtual time, rounded down.
pub(crate) fn virtual_length(cost: Cost, weight: Weight) -> u128 {
    let weight = weight.as_u32();
    let millis = cost.as_millis();
    if weight == 1 {
        u128::from(millis) << SCALE_BITS
    } else if millis >> (u64::BITS - SCALE_BITS) == 0 {
        u128::from((millis << SCALE_BITS) / u64::from(weight))
    } else {
        (u128::from(millis) << SCALE_BITS) / u128::from(weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn always_busy_flows_share_by_weight() {
        let weights = [1, 2, 5].map(|weight| Weight::new(weight).unwrap());
        let mut share = FairShare::default();
        share.cover(3);
        for flow in 0..3 {
            share.enter(FlowId(flow), 0, u64::from(flow));
        }
        let mut served = [0; 3];
        for sequence in 3..803 {
            let flow = share.next().unwrap();
            served[flow.index()] += 1;
            share.serve(Cost::ONE, weights[flow.index()], Some(sequence));
        }
        assert_eq!(served, [100, 200, 500]);
    }

    #[test]
    fn a_flow_that_was_away_claims_nothing_for_the_past() {
        let mut share = FairShare::default();
        share.cover(2);
        share.enter(FlowId(0), 0, 0);
        for sequence in 1..100 {
            share.serve(Cost::ONE, Weight::ONE, Some(sequence));
        }
        share.enter(FlowId(1), 0, 100);
        let mut turns = [0; 2];
        for sequence in 101..111 {
            turns[share.next().unwrap().index()] += 1;
            share.serve(Cost::ONE, Weight::ONE, Some(sequence));
        }
        assert_eq!(turns, [5, 5]);
    }

    #[test]
    fn the_largest_cost_saturates() {
        let mut share = FairShare::default();
        share.cover(1);
        share.enter(FlowId(0), u128::MAX - 1, 0);
        assert_eq!(share.serve(Cost::from_millis(u64::MAX), Weight::ONE, Some(1)), u128::MAX);
    }
}
