//! The audit log: every request of a store on disk, compactly, so that neither side of an agreement can
//! alter it unseen; and what it proves: who kept the agreement, and whose doing each miss was.
//!
//! ```text
//!  gateway ── arrival, record, configure, change ──> AuditWriter ──> 00000001.audit, 00000002.audit, ...
//!                                                                        │
//!       verify: the chain holds, the signatures fit <────────────────────┤
//!       audit: accounts as the live ledger gave them, blame per miss <───┘ Log (streaming)
//! ```
//!
//! Each block carries the BLAKE3 hash of itself and of the block before it, each record a tag by which an
//! alteration is named to the record, and checkpoints are signed with Ed25519. Who verifies with a pinned key and a statement from before needs to trust nobody.
#![forbid(unsafe_code)]

mod altered;
#[cfg(test)]
mod altered_tests;
mod blame;
mod block;
mod codec;
mod encoder;
mod error;
mod event;
mod explain;
mod log;
mod recording;
mod report;
mod segment;
mod tags;
mod verify;
mod wire;
mod writer;

pub use blame::{Attribution, Blame, Cause};
pub use block::{Before, Checkpoint, End, Header};
pub use ed25519_dalek::SigningKey;
pub use encoder::Encoder;
pub use error::{LogError, Malformed};
pub use event::{Change, Event, Terms};
pub use explain::{Explanation, explain};
pub use log::Log;
pub use recording::{
    Answers, Call, EndReason, RECORDING_VERSION, Recorder, Recording, RecordingEnd, RecordingError,
};
pub use report::{Audit, Auditor, BlamedMiss, ClassCounts, FlowAudit};
pub use segment::{Finding, Part, What, read_segment};
#[doc(hidden)]
pub use segment::{events_of_payload, payload_of_events};
pub use verify::{Expected, Statement, Verification, from_hex, hex, verify};
pub use writer::{AuditWriter, Limits, Note, signing_key};

/// The version of the log's format that this program writes, and the only one that it reads.
pub const VERSION: u16 = 3;
