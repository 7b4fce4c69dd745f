//! The server's side of the fixed newstyle handshake.

use crate::export::{Export, Exports};

/// What the bytes so far have led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More bytes are needed.
    Incomplete,
    /// Negotiation is over; bytes from `consumed` on belong to the transmission phase.
    Transmission {
        /// The name that the client asked for.
        name: String,
        /// The export as negotiated.
        export: Export,
    },
    /// The client has said goodbye (ABORT). Send the output, then close.
    Aborted,
}

/// Why a handshake must end at once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// To be completed.
    #[error("unknown client flags {0:#x}")]
    UnknownClientFlags(u32),
}

/// The state machine; one per connection. It buffers no more than one option (bounded).
#[derive(Debug, Default)]
pub struct Handshake {}

impl Handshake {
    /// A fresh handshake. Its greeting must be sent first.
    #[must_use]
    pub fn new() -> Self {
        Self {}
    }

    /// The 18 bytes that the server sends before anything else.
    #[must_use]
    pub fn greeting(&self) -> [u8; 18] {
        [0; 18]
    }

    /// Consumes what it can of `input`, appends answers to `output`, and returns how many bytes it
    /// consumed. Unconsumed bytes must be offered again, with more behind them.
    ///
    /// # Errors
    /// If the client breaks the protocol beyond repair; send `output`, then close the connection.
    pub fn receive(
        &mut self,
        input: &[u8],
        exports: &dyn Exports,
        output: &mut Vec<u8>,
    ) -> Result<(usize, Progress), HandshakeError> {
        let _ = (input, exports, output);
        Ok((0, Progress::Incomplete))
    }
}
