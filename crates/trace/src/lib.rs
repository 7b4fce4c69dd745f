//! Block traces: one type for the requests of all of them.
#![forbid(unsafe_code)]

use evenkeel_core::{Operation, Time};

/// One request of a trace, whatever format it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRequest {
    /// When it arrived, counted from the first request of the trace unless the reader was told
    /// otherwise.
    pub at: Time,
    /// Which volume (device, ASU, disk, LUN) of the trace it went to: numbered from 0 in order of
    /// appearance.
    pub volume: u32,
    /// What it asked.
    pub operation: Operation,
    /// First byte on the volume.
    pub offset: u64,
    /// Number of bytes.
    pub length: u32,
}
