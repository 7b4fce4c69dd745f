//! Hybrid stores on files and block devices.
//!
//! ```text
//!  slow   │ the store's bytes, each at its home                                     │
//!  fast   │ label │ slot 0 │ slot 1 │ …                                             │
//!  map    │ redb: about (identity, sizes) · clusters (cluster ─> slot, blocks)      │
//! ```
//! The label on the fast device and the map carry the same identity, so that a map is never used with
//! another device. [`MapFile`] makes the map durable for [`evenkeel_tiering::Hybrid`], [`Offline`] drives
//! that state machine without a gateway: for `check`, `drain` and `resize`.
#![forbid(unsafe_code)]

mod label;
mod map_file;
mod offline;

pub use label::{LABEL_BYTES, Label, LabelError, slots_at};
pub use map_file::{About, ENTRY_BYTES, MapFile, MapFileError, entry_from_bytes, entry_to_bytes};
pub use offline::{Finding, Offline, OfflineError, Paths, Progress, belong_together};

/// Names one pair of fast device and map: 16 random bytes.
pub type Identity = [u8; 16];

/// A new identity, from the system's random numbers.
///
/// # Errors
/// When the system has none to give.
pub fn new_identity() -> std::io::Result<Identity> {
    let mut identity = [0; 16];
    getrandom::fill(&mut identity).map_err(std::io::Error::other)?;
    Ok(identity)
}
