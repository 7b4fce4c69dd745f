//! What to promise, and whether it fits: from traces of what volumes really send.
//!
//! ```text
//!  trace ──> Source ──┬─ fit ─────────> nested (σ, ρ, δ), the curve and its knee, one triple beside it
//!  (streamed, as      ├─ need ────────> bounds on paper, and the exact need by bisection over EDF
//!   often as need be) ├─ consolidate ─> how few IOPS do for all of them, under each scheduler
//!  promises ──────────┴─ what_if ─────> the smallest relaxation of one parameter that makes them fit
//! ```
//!
//! Traces are read in passes, never held: memory does not grow with their length, only with what waits in
//! a simulated queue.
#![forbid(unsafe_code)]

mod bank;
mod consolidate;
mod error;
mod fit;
mod need;
mod replay;
mod source;
mod target;
mod what_if;

pub use consolidate::{Consolidation, Tenant, consolidate};
pub use error::PlanError;
pub use fit::{CurvePoint, Fit, fit};
pub use need::{
    Bounds, Deadline, Geometric, bounds, bounds_of_costs, deadlines, deadlines_of_costs, exact_need,
};
pub use replay::{Agreements, Contender, Served, replay, replay_under};
pub use source::{FileSource, Flow, MemorySource, Priced, Requests, Source, Together};
pub use target::{Fraction, Target, parse_targets};
pub use what_if::{Parameter, Relaxation, what_if, what_if_of_costs};
