//! Virtual Clock: rates metered in real time, each flow by a clock of its own.
//!
//! Source: Zhang, "Virtual Clock: A New Traffic Control Algorithm for Packet Switching Networks",
//! SIGCOMM 1990 (the algorithm with auxVC).
//!
//! ```text
//!  flows [ auxVC, ρ ]             on arrival: auxVC = max(now, auxVC) + cost/ρ, and that is the tag
//!             │
//!             v head
//!           [ tag ]─>[ tag ]      heap by the tag of the head: smallest goes next   O(log flows)
//!
//!  now ──┬──────────────────────────────────────────────> real time
//!        │   |─1/ρ─|─1/ρ─|─1/ρ─|─1/ρ─|   a flow that sends too much: its clock runs ahead of now,
//!        ^                           ^   and stays there also if nobody else wanted the capacity
//! ```
//!
//! **Law.** A flow that keeps to its rate is served at its rate on a store of rate C ≥ Σρ, whatever
//! others send: a request finishes by its tag + c_max/C. An idle flow earns nothing (the maximum with now).
//! Work conserving. **No fairness**: spare capacity that a flow has used is held against it. It is the
//! yardstick of case 2 in the pClock paper, where a flow is starved for a second for it.
//!
//! **Tags** are nanoseconds, `u128`, with the remainder of cost/ρ carried (pace.rs): rates do not drift. A
//! flow of 0.001 IOPS served at 10⁶ IOPS for a century has a clock of 3·10²⁷; it saturates at 3·10³⁸.
//!
//! Deviations: costs other than one take cost/ρ instead of one Vtick; the periodic check of a flow's VC
//! against real time, with its report to the sender, is left out, because it changes no
//! order. A flow without an envelope has no clock: it is background (fair.rs). New parameters apply to what
//! arrives after them; the tags of what waits stay, and so does the clock.

use alloc::vec::Vec;

use super::pace::{NANOS, Pace};
use super::tagged::{Discipline, Head, Tagged};
use crate::heap::FlowHeap;
use crate::request::FlowId;
use crate::slo::{Envelope, Slo};
use crate::table;
use crate::units::{Cost, Time};

/// The Virtual Clock scheduler.
pub type VirtualClock = Tagged<OwnClocks>;

/// Smallest reading of a flow's own clock first.
#[derive(Clone, Debug, Default)]
pub struct OwnClocks {
    clocks: Vec<Clock>,
    heads: FlowHeap,
}

#[derive(Clone, Copy, Debug)]
struct Clock {
    pace: Pace<NANOS>,
    /// auxVC.
    reading: u128,
}

impl Discipline for OwnClocks {
    const NAME: &'static str = "virtual-clock";

    fn cover(&mut self, flows: usize) {
        table::cover(&mut self.clocks, flows, Clock { pace: Pace::new(1), reading: 0 });
        self.heads.cover(flows);
    }

    fn admit(&mut self, now: Time, flow: FlowId, envelope: &Envelope, _slo: &Slo) {
        self.clocks[flow.index()] = Clock { pace: pace_of(envelope), reading: now.as_nanos().into() };
    }

    fn change(&mut self, flow: FlowId, envelope: &Envelope, _slo: &Slo, _head: Option<Head>) {
        self.clocks[flow.index()].pace.change(envelope.rate().as_millis());
    }

    fn dismiss(&mut self, flow: FlowId) {
        self.heads.remove(flow);
    }

    fn stamp(&mut self, now: Time, flow: FlowId, cost: Cost) -> u128 {
        let clock = &mut self.clocks[flow.index()];
        clock.reading = clock.reading.max(now.as_nanos().into()).saturating_add(clock.pace.charge(cost));
        clock.reading
    }

    fn enter(&mut self, flow: FlowId, head: Head) {
        self.heads.set(flow, head.key(head.tag));
    }

    fn next(&mut self) -> Option<FlowId> {
        self.heads.peek().map(|(_, flow)| flow)
    }

    fn serve(&mut self, flow: FlowId, served: Head, successor: Option<Head>) -> Option<Time> {
        match successor {
            Some(head) => self.heads.set(flow, head.key(head.tag)),
            None => _ = self.heads.remove(flow),
        }
        Some(Time::from_nanos(u64::try_from(served.tag).unwrap_or(u64::MAX)))
    }
}

fn pace_of(envelope: &Envelope) -> Pace<NANOS> {
    Pace::new(envelope.rate().as_millis())
}
