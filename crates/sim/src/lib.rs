//! The simulator: the engine that the gateway runs, on virtual time, over device models.
//!
//! ```text
//!  scenario ──> sources ──> Input::Arrival ──> core::Engine ──> Submit ──> device model
//!  (changes, phases)                               │  ^                        │
//!                                                  │  └── Input::Completion <──┘
//!                                                  v
//!                              Observer: accounts, windows, histograms, event log
//!  recorded calls of another engine ([`replay`]) take the place of sources and device
//! ```
//!
//! The same seed gives the same bytes: instants are whole nanoseconds, ties have a stated order
//! ([`simulation`]), random numbers come from a pinned generator and from functions that are compiled in.
#![forbid(unsafe_code)]

pub mod access;
pub mod dilated;
pub mod event_log;
pub mod hybrid;
pub mod measure;
pub mod pace;
pub mod random;
pub mod replay;
pub mod run;
pub mod scenario;
pub mod server;
pub mod simulation;
pub mod source;
pub mod statistics;
pub mod summary;

mod driver;
mod events;

pub use access::{Access, Pattern};
pub use dilated::{Dilated, SPEED_ONE};
pub use event_log::EventLog;
pub use hybrid::{HybridDevice, HybridParts};
pub use measure::Measure;
pub use pace::Pace;
pub use random::{Law, Random};
pub use replay::Replay;
pub use scenario::Scenario;
pub use simulation::{Change, Observer, Setup, SimError, Simulation};
pub use source::{Load, SourceConfig, TraceAccount, TraceFault, TraceRequests, TraceStream};
pub use summary::Summary;
