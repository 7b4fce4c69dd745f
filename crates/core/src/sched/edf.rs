//! Earliest deadline first, plain: deadline = arrival + δ for every request, inside its envelope or not.
//!
//! Source: Liu, Layland, "Scheduling Algorithms for Multiprogramming in a Hard-Real-Time Environment",
//! Journal of the ACM 1973. It is the yardstick of the Nested QoS thesis (Wang, Rice 2012, section
//! 3.1.3), which shows why it is not enough: nothing holds a flow to its σ and ρ, so one that sends
//! too much with a short δ makes all others late.
//!
//! ```text
//!  arrival ──> S = now
//!          ──> due.rs: smallest S + δ first, ties in the order of arrival
//! ```
//!
//! **Law.** On a server of the capacity of the System Capacity Constraint ([`crate::admission`]), *if all
//! flows stay inside their envelopes*, every request is done within δ plus one service time. Work
//! conserving, each flow in the order of arrival.
//!
//! Additions: background flows are served only when no other waits. Of several classes the innermost
//! counts. For parameters changed while requests wait see due.rs.

use super::due::{EarliestDue, StartRule};
use super::{Arrival, ConfigureError, Decision, Scheduler};
use crate::request::{Completion, FlowId, Request};
use crate::slo::{Envelope, Slo};
use crate::units::{Cost, Time};

/// The scheduler by plain deadlines.
#[derive(Clone, Debug)]
pub struct Edf {
    due: EarliestDue<AtArrival>,
}

/// A request starts when it arrives.
#[derive(Clone, Copy, Debug)]
struct AtArrival;

impl StartRule for AtArrival {
    fn new(_now: Time, _envelope: &Envelope) -> Self {
        Self
    }

    fn reconfigure(&mut self, _now: Time, _envelope: &Envelope) {}

    fn stamp(&mut self, _now: Time, stored_now: u128, _cost: Cost, behind: u128) -> u128 {
        stored_now.max(behind)
    }
}

impl Edf {
    /// A scheduler without flows.
    #[must_use]
    pub fn new() -> Self {
        Self { due: EarliestDue::new() }
    }
}

impl Default for Edf {
    fn default() -> Self {
        Self::new()
    }
}

impl Scheduler for Edf {
    fn name(&self) -> &'static str {
        "edf"
    }

    fn configure(&mut self, now: Time, flow: FlowId, slo: &Slo) -> Result<(), ConfigureError> {
        self.due.configure(now, flow, slo)
    }

    fn remove(&mut self, now: Time, flow: FlowId) -> Result<(), ConfigureError> {
        self.due.remove(now, flow)
    }

    fn on_arrival(&mut self, now: Time, arrival: Arrival) -> Result<(), ConfigureError> {
        self.due.on_arrival(now, arrival)
    }

    fn poll_dispatch(&mut self, now: Time) -> Decision {
        self.due.poll_dispatch(now)
    }

    fn on_completion(&mut self, now: Time, _request: &Request, _completion: &Completion) {
        self.due.advance(now);
    }

    fn backlog(&self, flow: FlowId) -> usize {
        self.due.backlog(flow)
    }
}
