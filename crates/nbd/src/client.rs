//! The client's side, for tests, the demonstration and players of traces.

use crate::export::{BlockSizes, TransmissionFlags};
use crate::transmission::RequestHeader;

/// What the server said of the export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportInfo {
    /// Bytes.
    pub size: u64,
    /// Transmission flags.
    pub flags: TransmissionFlags,
    /// Block sizes, if the server gave them.
    pub block_sizes: Option<BlockSizes>,
}

/// Why a negotiation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NegotiationError {
    /// To be completed.
    #[error("the server does not speak NBD")]
    NotNbd,
}

/// Negotiates one export with GO.
#[derive(Debug)]
pub struct Negotiation {}

impl Negotiation {
    /// Will ask for `export`.
    #[must_use]
    pub fn new(export: &str) -> Self {
        let _ = export;
        Self {}
    }

    /// Consumes bytes from the server, appends bytes to send; `Some` once the transmission phase has begun.
    ///
    /// # Errors
    /// If the server refuses the export or breaks the protocol.
    pub fn receive(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<(usize, Option<ExportInfo>), NegotiationError> {
        let _ = (input, output);
        Err(NegotiationError::NotNbd)
    }
}

/// A simple reply's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimpleReply {
    /// The error number, 0 for success.
    pub error: u32,
    /// The request's cookie.
    pub cookie: u64,
}

impl SimpleReply {
    /// Bytes on the wire.
    pub const LEN: usize = 16;

    /// Reads a reply header; `None` if the magic is wrong.
    #[must_use]
    pub fn decode(bytes: &[u8; Self::LEN]) -> Option<Self> {
        let _ = bytes;
        None
    }
}

/// The 28 bytes of a request; a write's payload follows them.
#[must_use]
pub fn encode_request(header: &RequestHeader) -> [u8; RequestHeader::LEN] {
    let _ = header;
    [0; RequestHeader::LEN]
}
