//! `workload = { trace = "FILE" }`: which trace a part of a workload replays, and how it is opened.

use std::path::PathBuf;
use std::str::FromStr;

use evenkeel_trace::{Format, Options, open};

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
}

impl TraceSpec {
    /// The requests of the trace, as they are read: memory does not depend on its length.
    ///
    /// # Errors
    /// If there is no such file or format.
    pub fn open(&self) -> Result<TraceRequests, TraceFault> {
        let format = self.format.as_deref().map(Format::from_str).transpose();
        let format = format.map_err(|error| TraceFault(error.to_string()))?;
        let options = Options { format, ..Options::default() };
        let told = |error: evenkeel_trace::TraceError| TraceFault(format!("{error}; {}", error.remedy()));
        let reader = open(&self.path, &options).map_err(told)?;
        let volume = self.volume;
        let wanted = reader.filter(move |request| match (request, volume) {
            (Ok(request), Some(volume)) => request.volume == volume,
            _ => true,
        });
        Ok(Box::new(wanted.map(move |request| request.map_err(told))))
    }
}
