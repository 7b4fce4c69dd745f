//! Measures what a device gives, and writes it down.
//!
//! ```text
//!  Grid ──> cells (operation, pattern, size, depth)                    Target: a file behind io_uring,
//!             │                                                                a model in virtual time
//!             v            submit, wait                                          ▲
//!          measure ──────────────────────────────────────────────────────────────┘
//!             │ completions per slice of time
//!             v
//!          statistics: mean and its 95 % interval ── narrow? ─ no, and time left ─> go on
//!             │                     course: steady, drift, or a burst credit that ran out
//!             v
//!          Profile ──> text (TOML) ──> capacity, dispatch depth and costs of a configuration
//! ```
//!
//! The time comes from the [`Target`], the date of a profile from the caller, and offsets from a seed.
#![forbid(unsafe_code)]

mod course;
mod measure;
mod profile;
mod random;
mod read;
mod statistics;
mod target;
mod write;

pub use course::{Course, course};
pub use measure::{Cell, Goal, Grid, MeasureError, Pattern, Rated, measure, sustain};
pub use profile::{
    Derived, DeviceFacts, DeviceKind, HostFacts, Measurement, Profile, Sustained, SustainedCourse, VERSION,
};
pub use read::parse;
pub use statistics::{Estimate, estimate};
pub use target::{Access, ModelTarget, Target};
