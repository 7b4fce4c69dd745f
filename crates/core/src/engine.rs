//! The engine: a scheduler with a dispatch depth, an envelope meter per flow, and a table of what
//! is outstanding.

use core::fmt;

use alloc::boxed::Box;

use crate::request::{Completion, FlowId, Outcome, Request, Ticket};
use crate::sched::{ConfigureError, Scheduler};
use crate::slo::Slo;
use crate::units::{Span, Time};

/// What a driver tells the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// A request has arrived.
    Arrival(Request),
    /// The store has answered a submission.
    Completion(Completion),
    /// The instant that [`Engine::poll_timeout`] named has come.
    Timeout,
    /// Adds a flow or changes its promise, also while its requests wait.
    Configure(FlowId, Slo),
    /// Forgets a flow that has nothing waiting.
    Remove(FlowId),
}

/// What the engine tells its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this request to the store.
    Submit(Submission),
    /// A request is over: answer its client, tell the ledger.
    Reply(Record),
}

/// A request on its way to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submission {
    /// To be given back with the completion.
    pub ticket: Ticket,
    /// The request.
    pub request: Request,
}

/// The whole life of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The request.
    pub request: Request,
    /// When it arrived.
    pub arrival: Time,
    /// When it was sent to the store.
    pub dispatch: Time,
    /// When the store answered.
    pub completion: Time,
    /// The latency that it was promised: δ if it arrived inside its flow's envelope, `None` if it
    /// did not or its flow is a background flow. Judged at arrival, the same under every scheduler.
    pub promise: Option<Span>,
    /// How it ended.
    pub outcome: Outcome,
}

impl Record {
    /// From arrival to completion.
    #[must_use]
    pub fn latency(&self) -> Span {
        self.completion.since(self.arrival)
    }

    /// Whether a promise was made and not kept.
    #[must_use]
    pub fn missed(&self) -> bool {
        self.promise.is_some_and(|promise| self.latency() > promise)
    }
}

/// Why an input was refused; the engine's state is as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InputError {
    /// The scheduler refused it.
    Configure(ConfigureError),
    /// No outstanding request has this ticket.
    UnknownTicket(Ticket),
}

/// The engine. Feed it with [`Engine::handle_input`], then drain [`Engine::poll_output`] until it
/// gives `None`. (Sketch: the signatures are fixed, the inside is to be written.)
pub struct Engine {
    scheduler: Box<dyn Scheduler + Send>,
}

impl Engine {
    /// An engine that keeps at most `depth` requests outstanding at the store.
    #[must_use]
    pub fn new(scheduler: Box<dyn Scheduler + Send>, depth: core::num::NonZeroU32) -> Self {
        let _ = depth;
        Self { scheduler }
    }

    /// Takes in one event at `now`.
    ///
    /// # Errors
    /// If the flow or ticket is unknown or the scheduler refuses a promise; nothing has changed then.
    pub fn handle_input(&mut self, now: Time, input: Input) -> Result<(), InputError> {
        let _ = (now, input);
        Ok(())
    }

    /// The next thing to do at `now`: replies first, then submissions while fewer than the
    /// dispatch depth are outstanding.
    pub fn poll_output(&mut self, now: Time) -> Option<Output> {
        let _ = now;
        None
    }

    /// When to call [`Engine::handle_input`] with [`Input::Timeout`], if the scheduler waits for an instant.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        None
    }

    /// Requests at the store now.
    #[must_use]
    pub fn outstanding(&self) -> u32 {
        0
    }

    /// Requests of `flow` that wait in the scheduler.
    #[must_use]
    pub fn backlog(&self, flow: FlowId) -> usize {
        self.scheduler.backlog(flow)
    }

    /// Requests of all flows that wait in the scheduler.
    #[must_use]
    pub fn waiting(&self) -> usize {
        0
    }

    /// The name of the scheduler inside.
    pub fn scheduler_name(&self) -> &'static str {
        self.scheduler.name()
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configure(error) => error.fmt(f),
            Self::UnknownTicket(ticket) => {
                write!(f, "no outstanding request has ticket {}/{}", ticket.slot, ticket.generation)
            }
        }
    }
}

impl core::error::Error for InputError {}
