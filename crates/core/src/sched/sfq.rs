//! SFQ(D): start-time fair queueing with up to D requests outstanding.
//!
//! Source: Goyal, Vin, Cheng, "Start-Time Fair Queueing: A Scheduling Algorithm for Integrated Services
//! Packet Switching Networks", IEEE/ACM Transactions on Networking 5(5), 1997 (SIGCOMM 1996), section 2;
//! Jin, Chase, Kaur, "Interposed Proportional Sharing for a Storage Service Utility",
//! SIGMETRICS 2004 (SFQ(D)).
//!
//! ```text
//!  heap by start tag of the head:   [ S flow | S flow | ... ]   smallest: dispatched next   O(log flows)
//!
//!  flow of share 1    |──────── a1 ────────|──────── a2 ────────|
//!  flow of share 2    |─── b1 ───|─── b2 ───|─── b3 ───|─── b4 ──|
//!                     ^          ^
//!                     V          V moves to the start tag of each request dispatched
//!
//!  S = max(V, F of the flow's previous request)      F = S + cost / share
//! ```
//!
//! The heap is fair.rs, with a finer scale of virtual time and without its rounding (pace.rs).
//!
//! **Share** of a guaranteed flow: its rate ρ, times its weight (1 unless set). A background flow goes
//! only when no guaranteed flow waits, and shares with its kind by weight.
//!
//! **Law.** In any interval in which the flows f and m both wait, the costs dispatched to them satisfy
//! |W_f/w_f − W_m/w_m| ≤ c_f/w_f + c_m/w_m, where c is the largest cost of a request of the flow
//! (Goyal), and the costs completed by a store with up to D outstanding (D + 1) times that
//! (Jin). The capacity of the store does not enter, and may vary. Work conserving.
//! There is no latency bound of a flow's own: it grows with the number of flows.
//!
//! Deviations:
//! 1. D belongs to the engine, which polls only while fewer than D requests are outstanding.
//! 2. A request's tag is computed when it becomes the head and not at its arrival. It is the same tag,
//!    because V cannot have passed the tags of a flow that waits. New parameters therefore apply
//!    to all that waits, except that the start of the head stays.
//! 3. V is not set to the largest finish tag when the store falls idle: the start tag of the last
//!    dispatch is kept. A flow that comes back owes what it was served beyond V, at most its last
//!    request.

use alloc::vec::Vec;

use super::fair::FairShare;
use super::pace::{Pace, VIRTUAL, share_of};
use super::tagged::{Discipline, Head, Tagged};
use crate::request::FlowId;
use crate::slo::{Envelope, Slo};
use crate::table;
use crate::units::{Cost, Time};

/// The SFQ(D) scheduler.
pub type SfqD = Tagged<StartTime>;

/// Smallest start tag first.
#[derive(Clone, Debug, Default)]
pub struct StartTime {
    tags: Vec<Tags>,
    heads: FairShare,
}

const _: () = assert!(size_of::<Tags>() <= 96, "an idle flow stays small");

#[derive(Clone, Copy, Debug)]
struct Tags {
    pace: Pace<VIRTUAL>,
    /// F of the last request dispatched.
    finish: u128,
}

impl Tags {
    const NONE: Self = Self { pace: Pace::new(1), finish: 0 };
}

impl Discipline for StartTime {
    const NAME: &'static str = "sfqd";

    fn cover(&mut self, flows: usize) {
        table::cover(&mut self.tags, flows, Tags::NONE);
        self.heads.cover(flows);
    }

    fn admit(&mut self, _now: Time, flow: FlowId, envelope: &Envelope, slo: &Slo) {
        self.tags[flow.index()] = Tags { pace: Pace::new(share_of(envelope, slo)), ..Tags::NONE };
    }

    fn change(&mut self, flow: FlowId, envelope: &Envelope, slo: &Slo, _head: Option<Head>) {
        self.tags[flow.index()].pace.change(share_of(envelope, slo));
    }

    fn dismiss(&mut self, flow: FlowId) {
        self.heads.withdraw(flow);
    }

    fn stamp(&mut self, _now: Time, _flow: FlowId, _cost: Cost) -> u128 {
        0
    }

    fn enter(&mut self, flow: FlowId, head: Head) {
        self.heads.enter(flow, self.tags[flow.index()].finish, head.sequence);
    }

    fn next(&mut self) -> Option<FlowId> {
        self.heads.next()
    }

    fn serve(&mut self, flow: FlowId, served: Head, successor: Option<Head>) -> Option<Time> {
        let tags = &mut self.tags[flow.index()];
        let length = tags.pace.charge(served.cost);
        tags.finish = self.heads.serve_length(length, successor.map(|head| head.sequence));
        None
    }
}
