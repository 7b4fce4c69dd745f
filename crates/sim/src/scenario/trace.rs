//! `workload = { trace = "FILE" }`: which trace a part of a workload replays, and how it is opened.

use std::path::PathBuf;
use std::str::FromStr;

use evenkeel_trace::{ErrorKind, Format, Options, TraceError, open};

use crate::source::{TraceFault, TraceRequests};

/// A trace that a scenario names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSpec {
    /// The file; relative paths have been joined to the scenario's folder.
    pub path: PathBuf,
    /// The format, if the scenario says; otherwise it is recognised.
    pub format: Option<String>,
    /// Only the requests to this volume.
    pub volume: Option<u32>,
    /// Malformed lines that are left out before the trace is refused.
    pub malformed_max: u64,
    /// Requests within which the order may be wrong.
    pub reorder: usize,
}

impl TraceSpec {
    /// The requests of the trace, as they are read: memory does not depend on its length. One that ends
    /// beyond a device of `capacity` bytes is refused with its place.
    ///
    /// # Errors
    /// If there is no such file or format.
    pub fn open(&self, capacity: Option<u64>) -> Result<TraceRequests, TraceFault> {
        let format = self.format.as_deref().map(Format::from_str).transpose();
        let options = Options {
            format: format.map_err(|error| TraceFault(error.to_string()))?,
            malformed_max: self.malformed_max,
            reorder: self.reorder,
            capacity,
            capacity_of: self.volume,
            ..Options::default()
        };
        let reader = open(&self.path, &options).map_err(told)?;
        let volume = self.volume;
        let wanted = reader.filter(move |request| match (request, volume) {
            (Ok(request), Some(volume)) => request.volume == volume,
            _ => true,
        });
        Ok(Box::new(wanted.map(|request| request.map_err(told))))
    }
}

/// The error, with a remedy in the words of scenarios where the reader's is an option of `evenkeel trace`.
fn told(error: TraceError) -> TraceFault {
    let remedy = match error.kind() {
        ErrorKind::Backwards { .. } => {
            "sort the trace by time, or write reorder = N beside trace, the number of requests within which to sort"
                .to_owned()
        }
        ErrorKind::Malformed { .. } => {
            "correct the lines, write another format, or malformed_max = N to leave out more".to_owned()
        }
        ErrorKind::BeyondDevice { .. } => {
            "use a larger device, or fit the trace to this one with `evenkeel trace scale --fit`".to_owned()
        }
        _ => error.remedy(),
    };
    TraceFault(format!("{error}; {remedy}"))
}
