//! Block traces: one type for the requests of all formats, readers, writers, statistics, and
//! generators of the workloads of the papers.
//!
//! ```text
//!  file ──> Input: gzip, zstd or plain ──> format: named, or recognised with a confidence
//!                                             │
//!        ┌── lines ── text::LineFormat <──────┼──────> binary::RecordFormat ── records ──┐
//!        │                                    └──────> columns (Parquet)                 │
//!        └────────────> Raw ──> reorder window ──> checks: time, capacity ──> TraceRequest
//!                                                                                 │
//!   generate::Generator ──────────────────────────> TraceRequest ─┬─ Statistics <─┤
//!                                                                 └─ write::Writer <┘
//! ```
//!
//! Everything streams: memory depends on the number of volumes and on the reorder window, never on
//! the length of the trace.
#![forbid(unsafe_code)]

use evenkeel_core::{Operation, Time};

pub mod csv;
pub mod error;
pub mod format;
pub mod generate;
pub mod reader;
pub mod statistics;
pub mod transform;
pub mod write;

mod binary;
#[cfg(feature = "parquet")]
mod columns;
mod input;
mod number;
mod recognise;
mod text;
mod volumes;

pub use csv::{CsvMapping, MappingError};
pub use error::{ErrorKind, Place, TraceError};
pub use format::{Confidence, Format};
pub use reader::{Clock, Compression, Event, MalformedLine, Options, Reader, Report, open};

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

/// The name of an operation, in our own formats and in reports: `read`, `write`, `flush`, `trim`,
/// `write-zeroes`.
#[must_use]
pub const fn operation_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Read => "read",
        Operation::Write => "write",
        Operation::Flush => "flush",
        Operation::Trim => "trim",
        Operation::WriteZeroes => "write-zeroes",
    }
}
