//! From results to what people look at: figures, self-contained HTML, Parquet for their own tools.
//!
//! ```text
//!  Summary ──> simulation ──> Lines, Bars ──> SVG ──┬─> files
//!                   └──────── tables ───────────────┴─> html: one page, no scripts, nothing to fetch
//!  Record  ──> records ──> Parquet, a row per request
//!  results ──> table ────> Parquet or CSV, a row per result
//! ```
#![forbid(unsafe_code)]

pub mod figure;
pub mod html;
pub mod records;
pub mod simulation;
pub mod table;

pub use figure::{Bars, FigureError, Lines, Series};
pub use records::RecordFile;
pub use table::{Column, Table};
