//! Why nothing can be planned.

use std::path::PathBuf;

use evenkeel_core::Time;
use thiserror::Error;

/// Why a plan could not be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A trace without requests.
    #[error("{trace}: the trace holds no request; name another, or another volume of it")]
    Empty {
        /// Its name.
        trace: String,
    },
    /// A trace whose times go back.
    #[error("{trace}: request {number} arrives at {} ns, before the one in front of it ({} ns); sort the trace by time", at.as_nanos(), before.as_nanos())]
    Unsorted {
        /// Its name.
        trace: String,
        /// The number of the request, from 1.
        number: u64,
        /// Its time.
        at: Time,
        /// The time of the one before.
        before: Time,
    },
    /// The trace cannot be read.
    #[error("{}: {message}", path.display())]
    Trace {
        /// Which file.
        path: PathBuf,
        /// Where in it and why, with the remedy.
        message: String,
    },
    /// Classes that make no sense.
    #[error("classes {text:?}: {message}")]
    Targets {
        /// As they were written.
        text: String,
        /// Why, with the remedy.
        message: String,
    },
    /// What the trace needs is beyond what can be promised.
    #[error(
        "{trace}: no promise within the limits ({limit}) covers {wanted} of the requests; ask for less or for a longer latency"
    )]
    OutOfRange {
        /// Its name.
        trace: String,
        /// The limit that is in the way.
        limit: &'static str,
        /// The fraction.
        wanted: String,
    },
    /// The scheduler refuses a promise.
    #[error("the promise to {flow}: {message}")]
    Refused {
        /// To whom.
        flow: String,
        /// Why.
        message: String,
    },
    /// No capacity does.
    #[error("no capacity up to a billion IOPS meets the percentages under {scheduler}")]
    NoCapacity {
        /// Which scheduler.
        scheduler: &'static str,
    },
}
