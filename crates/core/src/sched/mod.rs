//! The scheduler trait; one file per algorithm below it.

use core::fmt;

use crate::envelope::TokenBucket;
use crate::request::{Completion, FlowId, Request};
use crate::slo::Slo;
use crate::units::{Span, Time};

pub mod avatar;
pub mod cello;
pub mod edf;
pub mod fairio;
pub mod fcfs;
pub mod mclock;
pub mod nested;
pub mod pclock;
pub mod rbfq;
pub mod sced;
pub mod sfq;
pub mod virtual_clock;
pub mod wf2q;

mod cello_config;
mod disk_time;
mod due;
pub(crate) mod fair;
mod fairio_config;
mod fairio_history;
mod fairio_member;
mod fairio_turn;
mod line;
mod pace;
mod proportion;
mod rate_tag;
mod spare;
mod stamp;
mod tagged;

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

    /// Learns how full the buckets of `flow` are, one for each class, when it takes over from another
    /// scheduler: called after the flow was configured and before its waiting requests come. Only a
    /// scheduler that classifies makes a difference ([`nested::Nested`]); the default does nothing.
    fn adopt(&mut self, now: Time, flow: FlowId, buckets: &[TokenBucket]) {
        let _ = (now, flow, buckets);
    }

    /// Takes in a request at `now`. It is tagged as of `now`; `arrival.arrived` and
    /// `arrival.promise` are handed back untouched at its dispatch, and so is `arrival.class`.
    ///
    /// # Errors
    /// If its flow was never configured, or no more requests can wait; nothing has changed then.
    fn on_arrival(&mut self, now: Time, arrival: Arrival) -> Result<(), ConfigureError>;

    /// Takes in a request of a flow that other servers serve as well, with what they have served of it.
    /// Only a scheduler that counts it makes a difference ([`mclock::MClock`]); the default forgets it.
    ///
    /// # Errors
    /// Those of [`Scheduler::on_arrival`].
    fn on_arrival_counted(
        &mut self,
        now: Time,
        arrival: Arrival,
        elsewhere: Elsewhere,
    ) -> Result<(), ConfigureError> {
        let _ = elsewhere;
        self.on_arrival(now, arrival)
    }

    /// Chooses what to dispatch now. The caller respects the dispatch depth.
    fn poll_dispatch(&mut self, now: Time) -> Decision;

    /// Learns that a dispatched request has finished. `request` is the one that was dispatched.
    fn on_completion(&mut self, now: Time, request: &Request, completion: &Completion);

    /// Whether it goes by what requests cost. One that shares the store's time as it passes does not
    /// ([`fairio::Fairio`]); the members of a group then share dispatches one by one, whatever they cost.
    fn counts_cost(&self) -> bool {
        true
    }

    /// The number of requests of `flow` that wait; 0 for an unknown flow.
    fn backlog(&self, flow: FlowId) -> usize;

    /// Changes at run time who gets the capacity that the promises leave over.
    ///
    /// # Errors
    /// [`ConfigureError::Unsupported`] if the scheduler knows no such choice (the default).
    fn set_spare(&mut self, now: Time, spare: SpareCapacity) -> Result<(), ConfigureError> {
        let _ = (now, spare);
        Err(ConfigureError::Unsupported)
    }

    /// Gives up one waiting request, in the order of dispatch, to a scheduler that takes over; `None`
    /// once nothing waits. The default asks [`Scheduler::poll_dispatch`], at the instants that it
    /// wants to wait for; a scheduler that can answer [`Decision::Blocked`] must bring its own.
    fn evict(&mut self, now: Time) -> Option<Dispatch> {
        let mut at = now;
        loop {
            match self.poll_dispatch(at) {
                Decision::Dispatch(dispatch) => return Some(dispatch),
                Decision::WaitUntil(later) if later > at => at = later,
                Decision::WaitUntil(_) | Decision::Blocked | Decision::Idle => return None,
            }
        }
    }
}

/// A request on its way into a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The request.
    pub request: Request,
    /// When it arrived; before the `now` of the call if it has waited in another scheduler.
    pub arrived: Time,
    /// What it was promised at its arrival; see [`crate::Record::promise`]. All schedulers carry it; those that
    /// go by deadlines keep to it if the flow's δ changes before its dispatch. At most 2⁵⁵ − 1 ns, more than a
    /// year; a longer one counts as that.
    pub promise: Option<Span>,
    /// The class that it was judged to belong to; see [`crate::Record::class`]. Carried likewise.
    pub class: Option<u8>,
}

impl Arrival {
    /// A request that arrives at `now` and is promised nothing.
    #[must_use]
    pub const fn new(now: Time, request: Request) -> Self {
        Self { request, arrived: now, promise: None, class: None }
    }
}

/// What other servers have served of a flow since it sent its previous request here, in ordinary requests
/// (dmClock: δ and ρ of mClock, section 3.3, without what this server has served itself).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    served: u32,
    reserved: u32,
}

impl Elsewhere {
    /// Nothing: the flow is served here only.
    pub const NOTHING: Self = Self { served: 0, reserved: 0 };

    /// `served` requests, `reserved` of them by their reservation; `None` if that is more than all.
    #[must_use]
    pub const fn new(served: u32, reserved: u32) -> Option<Self> {
        if reserved > served { None } else { Some(Self { served, reserved }) }
    }

    /// All requests served elsewhere.
    #[must_use]
    pub const fn served(self) -> u32 {
        self.served
    }

    /// Those of them that were served by reservation.
    #[must_use]
    pub const fn reserved(self) -> u32 {
        self.reserved
    }
}

/// Who gets the capacity that the promises leave over (pClock, section 3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpareCapacity {
    /// The guaranteed flows: background requests go only when no guaranteed request waits.
    #[default]
    Flows,
    /// The background flows, in batches of what the promises are known to leave over.
    Background,
    /// The background flows, with only this share of each batch.
    Share(Permille),
}

/// A share in thousandths, from 0 to 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Permille(u16);

impl Permille {
    /// Everything.
    pub const ALL: Self = Self(1_000);

    /// A share of `permille` thousandths; `None` above 1000.
    #[must_use]
    pub const fn new(permille: u16) -> Option<Self> {
        if permille > Self::ALL.0 { None } else { Some(Self(permille)) }
    }

    /// The number itself.
    #[must_use]
    pub const fn as_u16(self) -> u16 {
        self.0
    }
}

impl SpareCapacity {
    /// The share of each batch that goes to the background.
    pub(crate) const fn background_share(self) -> Permille {
        match self {
            Self::Flows => Permille(0),
            Self::Background => Permille::ALL,
            Self::Share(share) => share,
        }
    }
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
    /// The promise that came in with its [`Arrival`].
    pub promise: Option<Span>,
    /// The class that came in with its [`Arrival`].
    pub class: Option<u8>,
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
    /// The flow's number is above [`FlowId::MAX`].
    FlowOutOfRange(FlowId),
    /// As many requests wait as the tables can hold (2³² − 1).
    TooManyWaiting,
    /// The scheduler has no such setting.
    Unsupported,
    /// A flow of this number is there already.
    FlowExists(FlowId),
    /// The flow is a member of a group and has no agreement of its own.
    IsMember(FlowId),
    /// The flow is a group: its requests come from its members.
    IsGroup(FlowId),
    /// The flow's limit is below its reservation, or below ρ where that is reserved.
    LimitBelowReservation(FlowId),
}

impl fmt::Display for ConfigureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownFlow(flow) => write!(f, "flow {} is not configured", flow.0),
            Self::Busy(flow) => write!(f, "flow {} has requests waiting", flow.0),
            Self::FlowOutOfRange(flow) => {
                write!(f, "flow {} is above the largest flow number, {}", flow.0, FlowId::MAX.0)
            }
            Self::TooManyWaiting => f.write_str("as many requests wait as the tables can hold"),
            Self::Unsupported => f.write_str("the scheduler has no such setting"),
            Self::FlowExists(flow) => {
                write!(f, "flow {} is there already: change it, or remove it first", flow.0)
            }
            Self::IsMember(flow) => write!(f, "flow {} is a member of a group: change the group", flow.0),
            Self::IsGroup(flow) => write!(f, "flow {} is a group: use one of its members", flow.0),
            Self::LimitBelowReservation(flow) => {
                write!(f, "the limit of flow {} is below what is reserved for it: raise it", flow.0)
            }
        }
    }
}

impl core::error::Error for ConfigureError {}
