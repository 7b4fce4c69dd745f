//! Requests and replies after the handshake.

use crate::export::Export;

/// Commands that the server carries out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// `NBD_CMD_READ`.
    Read,
    /// `NBD_CMD_WRITE`.
    Write,
    /// `NBD_CMD_DISC`.
    Disconnect,
    /// `NBD_CMD_FLUSH`.
    Flush,
    /// `NBD_CMD_TRIM`.
    Trim,
    /// `NBD_CMD_WRITE_ZEROES`.
    WriteZeroes,
}

/// Flags of one command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandFlags(pub u16);

impl CommandFlags {
    /// Answer only once the data is durable.
    pub const FUA: u16 = 1 << 0;
    /// WRITE_ZEROES must not punch a hole.
    pub const NO_HOLE: u16 = 1 << 1;

    /// Whether `flag` is set.
    #[must_use]
    pub const fn has(self, flag: u16) -> bool {
        self.0 & flag != 0
    }
}

/// Errors that a reply can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ErrorCode {
    /// Not permitted.
    Permission = 1,
    /// Input/output error.
    Io = 5,
    /// Out of memory.
    NoMemory = 12,
    /// Invalid argument.
    Invalid = 22,
    /// No space left.
    NoSpace = 28,
    /// Value too large.
    Overflow = 75,
    /// Not supported.
    NotSupported = 95,
    /// The server is shutting down.
    ShuttingDown = 108,
}

/// A request header as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// Command flags.
    pub flags: CommandFlags,
    /// The command's number, possibly unknown.
    pub kind: u16,
    /// The client's name for the request.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u32,
}

/// What to do with a request that cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Skip this many bytes of payload, then answer with the error.
    Answer {
        /// The error.
        error: ErrorCode,
        /// Payload that follows the header (a refused write).
        payload: u32,
    },
    /// Close the connection: the stream can no longer be understood.
    Close,
}

impl RequestHeader {
    /// Bytes on the wire.
    pub const LEN: usize = 28;

    /// Reads a header; `None` if the magic is wrong, and the connection must be closed.
    #[must_use]
    pub fn decode(bytes: &[u8; Self::LEN]) -> Option<Self> {
        let _ = bytes;
        None
    }

    /// Checks the request against the export.
    ///
    /// # Errors
    /// With what to do instead of serving it.
    pub fn check(&self, export: &Export) -> Result<Command, Refusal> {
        let _ = export;
        Err(Refusal::Close)
    }
}

/// The 16 bytes of a simple reply. The data of a read follows it if there is no error.
#[must_use]
pub fn simple_reply(error: Option<ErrorCode>, cookie: u64) -> [u8; 16] {
    let _ = (error, cookie);
    [0; 16]
}
