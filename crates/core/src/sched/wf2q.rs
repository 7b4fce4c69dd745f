//! WF²Q+: worst-case fair weighted fair queueing, at the cost of a heap operation or two.
//!
//! Source: Bennett, Zhang, "Hierarchical Packet Fair Queueing Algorithms", IEEE/ACM Transactions on
//! Networking 5(5), 1997, the section on WF²Q+ (V, start and finish tags; the theorem on its B-WFI).
//!
//! ```text
//!  by_start   not eligible, S > V:   [ S flow | S flow | ... ]
//!                  │ V has reached S: moves over, once for each request, but for one that goes at once
//!                  v
//!  by_finish  eligible, S ≤ V:       [ F flow | F flow | ... ]   smallest: dispatched next
//!
//!  flow of share 1   |S────────── a1 ──────────F|
//!  flow of share 1   |S────────── b1 ──────────F|S────────── b2 ──────────F|
//!                         ^ V: b2 must not go yet, however little else there is ahead of it
//! ```
//!
//! S = max(V, F of the previous request) for a request that finds its queue empty, F of the request in
//! front of it for any other; F = S + cost / share. Shares are as in SFQ(D): ρ times the weight.
//!
//! **Virtual time** is V(t + τ) = max(V(t) + W(t, t + τ), min S over the flows that wait), where W is the
//! service of the whole server in the interval, over the sum of the r_i *configured*, busy or
//! not. The paper has Σ r_i ≤ r and a fluid server; here service comes in requests and the rate of
//! the store is not known, so
//! - W grows by cost / Σ share at each dispatch, Σ being over the guaranteed flows that are configured.
//!   A flow that arrives while a request is being served sees V as it will be at the end of that
//!   request: its own tags are later by at most c_max/Σ, and its service by c_max of the store's work;
//! - the maximum is taken before each dispatch, and only if no head is eligible: if one is, its S ≤ V
//!   and the second term is not the larger one;
//! - W does not grow while the store is idle or serves the background. So that no time of idleness leaves
//!   a flow ahead of V, V goes to the largest F dispatched when a request arrives and no other
//!   guaranteed one waits: everybody starts anew, as at the end of a busy period in SFQ.
//!
//! **Cost.** Each request passes through each heap at most once: O(log flows) amortised for a request.
//! One dispatch may move many heads over, if V jumps past all of them.
//!
//! **Law.** The worst-case fair index: from any instant at which flow i waits to the completion of one of its
//! requests, its service is W_i ≥ (w_i/Σ)·W − α_i with α_i = c_i + (c_max − c_i)·w_i/Σ (to an instant
//! between its completions, up to (1 − w_i/Σ)·c_i less). While the same flows wait, none is ahead of its fluid
//! share by more than (1 − w_i/Σ)·c_i, and while all do, none is behind by more than c_max. A flow that
//! keeps to σ + ρ·t on a store of rate C ≥ Σρ waits at most σ/ρ + c_max/C, and one c_max/C more for the
//! step of V above. Work conserving. The latency bound cannot be chosen apart from the rate.
//!
//! Deviations: costs in place of packet lengths, and the step of V. A flow is idle once its last request is
//! dispatched; in the paper it is busy until that one has been served, which cannot be told at a
//! depth above 1. New parameters
//! apply to all that waits; the head keeps its S and its F is computed again.
//!
//! Range: see pace.rs. V gains at most the virtual length of a request for each dispatch.

use alloc::vec::Vec;

use super::pace::{Pace, TotalPace, VIRTUAL, share_of};
use super::tagged::{Discipline, Head, Tagged};
use crate::heap::{FlowHeap, Key};
use crate::packed::Packed;
use crate::request::FlowId;
use crate::slo::{Envelope, Slo};
use crate::table;
use crate::units::{Cost, Time};

/// The WF²Q+ scheduler.
pub type Wf2qPlus = Tagged<EligibleFirst>;

/// Smallest finish tag among those that have started.
#[derive(Clone, Debug)]
pub struct EligibleFirst {
    tags: Vec<Tags>,
    by_start: FlowHeap,
    by_finish: FlowHeap,
    virtual_now: u128,
    /// The largest F dispatched.
    latest_finish: u128,
    /// Σ of the shares of the flows configured.
    total: u128,
    virtual_pace: TotalPace<VIRTUAL>,
}

const _: () = assert!(size_of::<Tags>() <= 72, "an idle flow stays small");

/// Of the head; of the last request dispatched if there is none.
#[derive(Clone, Copy, Debug)]
struct Tags {
    pace: Pace<VIRTUAL>,
    start: Packed<u128>,
    finish: Packed<u128>,
}

impl Tags {
    const NONE: Self = Self { pace: Pace::new(1), start: Packed(0), finish: Packed(0) };
}

impl EligibleFirst {
    /// Σ has changed; V goes on from where it is.
    fn set_total(&mut self, total: u128) {
        self.total = total;
        self.virtual_pace = TotalPace::new(total);
    }

    /// Gives the head of `flow` its finish tag and puts it into the heap where it belongs.
    fn place(&mut self, flow: FlowId, head: Head) {
        let tags = &mut self.tags[flow.index()];
        let Packed(start) = tags.start;
        tags.finish.0 = start.saturating_add(tags.pace.charge(head.cost));
        if start <= self.virtual_now {
            self.by_finish.set(flow, head.key(tags.finish.0));
        } else {
            self.by_start.set(flow, head.key(start));
        }
    }
}

impl Default for EligibleFirst {
    fn default() -> Self {
        Self {
            tags: Vec::new(),
            by_start: FlowHeap::default(),
            by_finish: FlowHeap::default(),
            virtual_now: 0,
            latest_finish: 0,
            total: 0,
            virtual_pace: TotalPace::new(0),
        }
    }
}

impl Discipline for EligibleFirst {
    const NAME: &'static str = "wf2q+";

    fn cover(&mut self, flows: usize) {
        table::cover(&mut self.tags, flows, Tags::NONE);
        self.by_start.cover(flows);
        self.by_finish.cover(flows);
    }

    fn admit(&mut self, _now: Time, flow: FlowId, envelope: &Envelope, slo: &Slo) {
        let share = share_of(envelope, slo);
        self.tags[flow.index()] = Tags { pace: Pace::new(share), ..Tags::NONE };
        self.set_total(self.total + u128::from(share));
    }

    fn change(&mut self, flow: FlowId, envelope: &Envelope, slo: &Slo, head: Option<Head>) {
        let (old, new) = (self.tags[flow.index()].pace.share(), share_of(envelope, slo));
        if new == old {
            return;
        }
        self.tags[flow.index()].pace.change(new);
        self.set_total(self.total - u128::from(old) + u128::from(new));
        if let Some(head) = head {
            self.by_start.remove(flow);
            self.place(flow, head);
        }
    }

    fn dismiss(&mut self, flow: FlowId) {
        self.by_start.remove(flow);
        self.by_finish.remove(flow);
        self.set_total(self.total - u128::from(self.tags[flow.index()].pace.share()));
    }

    fn stamp(&mut self, _now: Time, _flow: FlowId, _cost: Cost) -> u128 {
        0
    }

    fn enter(&mut self, flow: FlowId, head: Head) {
        if self.by_start.peek().is_none() && self.by_finish.peek().is_none() {
            self.virtual_now = self.virtual_now.max(self.latest_finish);
        }
        let tags = &mut self.tags[flow.index()];
        tags.start.0 = { tags.finish.0 }.max(self.virtual_now);
        self.place(flow, head);
    }

    fn next(&mut self) -> Option<FlowId> {
        if self.by_finish.peek().is_none() {
            let (first, _) = self.by_start.peek()?;
            self.virtual_now = self.virtual_now.max(first.tag);
        }
        let tags = &self.tags;
        self.by_start.release_up_to(self.virtual_now, &mut self.by_finish, |flow, start| Key {
            tag: tags[flow.index()].finish.0,
            ..start
        })
    }

    fn serve(&mut self, flow: FlowId, served: Head, successor: Option<Head>) -> Option<Time> {
        if !self.by_finish.remove(flow) {
            self.by_start.remove(flow);
        }
        self.latest_finish = self.latest_finish.max(self.tags[flow.index()].finish.0);
        self.virtual_now = self.virtual_now.saturating_add(self.virtual_pace.charge(served.cost));
        if let Some(head) = successor {
            let tags = &mut self.tags[flow.index()];
            tags.start = tags.finish;
            self.place(flow, head);
        }
        None
    }
}
