//! The scheduler trait; one file per algorithm below it.

use core::fmt;

use crate::request::{Completion, FlowId, Request};
use crate::slo::Slo;
use crate::units::Time;

pub mod fcfs;
pub mod pclock;

/// Decides which waiting request is dispatched next.
///
/// Calls carry the current time; a time earlier than one already seen counts as that one. No call
/// allocates once tables have grown to the load's high-water mark.
pub trait Scheduler {
    /// The name by which configuration and reports know it.
    fn name(&self) -> &'static str;

    /// Adds `flow`, or changes what it is promised, also while it has requests waiting.
    ///
    /// # Errors
    /// If the scheduler cannot give that promise; nothing has changed then.
    fn configure(&mut self, now: Time, flow: FlowId, slo: &Slo) -> Result<(), ConfigureError>;

    /// Forgets `flow`.
    ///
    /// # Errors
    /// If it is not known or has requests waiting; nothing has changed then.
    fn remove(&mut self, now: Time, flow: FlowId) -> Result<(), ConfigureError>;

    /// Takes in a request that arrived at `now`.
    ///
    /// # Errors
    /// If its flow was never configured; nothing has changed then.
    fn on_arrival(&mut self, now: Time, request: Request) -> Result<(), ConfigureError>;

    /// Chooses what to dispatch now. The caller respects the dispatch depth.
    fn poll_dispatch(&mut self, now: Time) -> Decision;

    /// Learns that a dispatched request has finished. `request` is the one that was dispatched.
    fn on_completion(&mut self, now: Time, request: &Request, completion: &Completion);

    /// The number of requests of `flow` that wait; 0 for an unknown flow.
    fn backlog(&self, flow: FlowId) -> usize;
}

/// A request chosen for dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// The request.
    pub request: Request,
    /// When it arrived.
    pub arrival: Time,
    /// The finish tag by which it was chosen, where the scheduler's tags are instants.
    pub finish_tag: Option<Time>,
}

/// The answer of [`Scheduler::poll_dispatch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Send this request now.
    Dispatch(Dispatch),
    /// Requests wait, but none may go before this instant.
    WaitUntil(Time),
    /// Requests wait, but none may go before a completion.
    Blocked,
    /// Nothing waits.
    Idle,
}

/// Why a call to the scheduler was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigureError {
    /// The flow was never configured, or has been removed.
    UnknownFlow(FlowId),
    /// The flow still has requests waiting.
    Busy(FlowId),
    /// The flow's number is above the largest that the tables may grow to.
    FlowOutOfRange(FlowId),
}

impl fmt::Display for ConfigureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownFlow(flow) => write!(f, "flow {} is not configured", flow.0),
            Self::Busy(flow) => write!(f, "flow {} has requests waiting", flow.0),
            Self::FlowOutOfRange(flow) => write!(f, "flow {} is above the largest flow number", flow.0),
        }
    }
}

impl core::error::Error for ConfigureError {}
