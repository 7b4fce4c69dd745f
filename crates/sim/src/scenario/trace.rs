//! `workload = { trace = "FILE" }`: which trace a part of a workload replays. Reading it is the caller's:
//! the formats are the trace crate's.

use std::path::PathBuf;

use crate::source::{TraceFault, TraceRequests};

/// A trace that a scenario names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSpec {
    /// The file; relative paths have been joined to the scenario's folder.
    pub path: PathBuf,
    /// The format, if the scenario says.
    pub format: Option<String>,
    /// Only the requests to this volume.
    pub volume: Option<u32>,
}

/// Opens a trace. Called once for each use of it in each run.
pub type OpenTrace<'a> = &'a (dyn Fn(&TraceSpec) -> Result<TraceRequests, TraceFault> + Sync);
