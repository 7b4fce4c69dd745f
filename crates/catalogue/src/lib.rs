//! The schedulers by name, and how a file writes what they are told: for the gateway's configuration and for
//! scenarios, so that a line means the same in both.
//!
//! ```text
//!  scheduler = "fairio"                    SchedulerKind ── name, summary, what it knows
//!  fairio = { cycle = "1 s", disks = 8 }   Tuning        ──┴── build ──> Box<dyn Scheduler>
//!  cost   = { write = 2 }                  CostModel     ──> Request::cost
//!  depth  = "auto"                         Depth         ──> DepthControl, where it is adapted
//!  limit  = "100 IOPS"                     Limit         ──> Membership of a group
//!  sla, reservation, limit, interactive    PromiseKey    ──> Objection, where the scheduler does not use them
//! ```

mod costs;
mod depth;
mod limits;
mod promises;
mod schedulers;
mod tuning;

pub use costs::read_cost;
pub use depth::{AdaptiveDepth, Depth};
pub use limits::{envelope_remedy, rate_remedy, read_limit};
pub use promises::{Objection, PromiseKey, burst_objection, limit_objection, with_rates};
pub use schedulers::SchedulerKind;
pub use tuning::{Tuning, TuningItems};
