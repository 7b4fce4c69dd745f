//! The scheduling core of Evenkeel.
//!
//! It decides which waiting request goes to the store next; drivers (the live gateway, the
//! simulator, the planner) carry the decision out. It performs no I/O, reads no clock and, once its
//! tables have grown to the load's high-water mark, allocates nothing.
//!
//! ```text
//!  driver ── Input::Arrival ──> Engine ── stamp tags, queue ──> Scheduler
//!                                 │ poll_output                     │
//!  driver <── Output::Submit ─────┤ <──────── smallest finish tag ──┘
//!  driver ── Input::Completion ──>│
//!  driver <── Output::Reply ──────┘  (a Record: arrival, dispatch, completion, promise)
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod adapt;
pub mod admission;
pub mod capacity_estimate;
pub mod cost;
pub mod depth;
pub mod engine;
pub mod envelope;
pub mod group;
pub mod request;
pub mod sched;
pub mod slo;
mod table;
pub mod units;

mod exact_heap;
mod heap;
mod packed;
mod queue;
mod work;

pub use adapt::{AdaptError, AdaptLimits, ParameterControl};
pub use capacity_estimate::{CapacityEstimate, CapacityInterval};
pub use cost::{CostError, CostModel, Point, Price};
pub use depth::{DepthControl, DepthError};
pub use engine::{Engine, Input, InputError, Output, Record, Submission};
pub use envelope::{Cascade, TokenBucket};
pub use group::{Limit, Membership};
pub use request::{Completion, FlowId, Operation, Outcome, Request, RequestId, Ticket};
pub use sched::{Arrival, ConfigureError, Decision, Dispatch, Elsewhere, Permille, Scheduler, SpareCapacity};
pub use slo::{Envelope, Parameter, Slo, SloError};
pub use units::{Cost, Rate, Span, Time, Weight};
