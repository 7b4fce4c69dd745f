//! The NBD protocol without I/O: bytes in, bytes and decisions out.
//!
//! ```text
//!  server: Handshake::receive ──> Transmission ──> RequestHeader::decode ──> check ──> simple_reply
//!  client: client::Negotiation::receive ──> ExportInfo ──> client::encode_request / SimpleReply::decode
//! ```
#![forbid(unsafe_code)]

pub mod client;
pub mod export;
pub mod handshake;
pub mod transmission;
pub mod wire;

pub use export::{BlockSizes, Export, Exports, TransmissionFlags};
pub use handshake::{Handshake, HandshakeError, Progress};
pub use transmission::{Command, CommandFlags, ErrorCode, Refusal, RequestHeader, simple_reply};
