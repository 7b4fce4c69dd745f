//! SCED: deadlines from service curves, never taken back.
//!
//! Source: Sariowan, Cruz, Polyzos, "Scheduling for Quality of Service Guarantees via Service Curves",
//! ICCCN 1995, for curves ⟨σ, ρ, δ⟩ as the pClock paper takes it (Gulati, Merchant, Varman, SIGMETRICS
//! 2007, sections 2, 2.3 and 5.1): pClock's tags without CheckAndAdjustTags. Its yardstick.
//!
//! ```text
//!  arrival ──> stamp.rs: S = now inside the bound, frontier + cost/ρ over it
//!          ──> due.rs:   smallest S + δ first
//!
//!  f_A used spare capacity until 2 s, so its next tags are those of 4 s; f_B starts at 2 s:
//!      ├── f_B f_B f_B f_B f_B f_B f_B ──┤ f_A ...
//!      2 s              f_A starves      3 s
//! ```
//!
//! **Law.** On a server of the capacity of the System Capacity Constraint ([`crate::admission`]) a flow
//! that has been inside its envelope from the start has every request done within δ plus one service
//! time, whatever the others send. No more than that: a flow that has ever used spare capacity can
//! be starved for it later. Work conserving, each flow in the order of arrival.
//!
//! Deviations: those of pclock.rs numbered 1, 2, 3, 6 and 7, which concern the tags; background flows are
//! served only when no other waits. Of several classes the innermost counts.

use super::due::EarliestDue;
use super::stamp::Stamper;
use super::{Arrival, ConfigureError, Decision, Scheduler};
use crate::request::{Completion, FlowId, Request};
use crate::slo::Slo;
use crate::units::Time;

/// The SCED scheduler.
#[derive(Clone, Debug)]
pub struct Sced {
    due: EarliestDue<Stamper>,
}

impl Sced {
    /// A scheduler without flows.
    #[must_use]
    pub fn new() -> Self {
        Self { due: EarliestDue::new() }
    }
}

impl Default for Sced {
    fn default() -> Self {
        Self::new()
    }
}

impl Scheduler for Sced {
    fn name(&self) -> &'static str {
        "sced"
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
