//! Requests and replies after the handshake.
//!
//! Source: protocol document, sections "Transmission", "Size constraints", "Command flags", "Request
//! types" and "Error values". Only simple replies are spoken.
//!
//! ```text
//!          28 bytes
//!  stream ────────> decode ──> check ──┬─ Ok(Disconnect) ──> answer what is outstanding, close
//!    ^                │                ├─ Ok(command) ──> take a write's payload ──> serve ─┐
//!    │                │ None           ├─ Answer ──> skip the payload ──────────────────────┤
//!    │                v                │                                                    │
//!    │              close <────────────┴─ Close                                             v
//!    └──────────────────────────────────────────────────────── simple_reply, data of a read ┘
//! ```
//!
//! Where the document leaves a choice:
//!
//! | request | answer |
//! |---|---|
//! | length 0, but for FLUSH and DISC | `Invalid`, as nbdkit does; the document leaves it open |
//! | FLUSH with an offset or a length | `Invalid`: both are reserved |
//! | DISC with anything set | disconnects all the same: there is no answer to carry an error |
//! | a read-only export, any command that writes | `Permission`, whatever else is wrong |
//! | a read or a write longer than the maximum payload | `Invalid`; a write's payload is skipped |
//! | TRIM or WRITE_ZEROES longer than the maximum payload | served: they carry no payload |
//! | a write longer than [`MAX_SKIPPED_PAYLOAD`] and the maximum payload | the connection is closed |

use crate::export::{Export, TransmissionFlags};
use crate::wire::{
    NBD_CMD_DISC, NBD_CMD_FLUSH, NBD_CMD_READ, NBD_CMD_TRIM, NBD_CMD_WRITE, NBD_CMD_WRITE_ZEROES,
    NBD_REQUEST_MAGIC, NBD_SIMPLE_REPLY_MAGIC, Reader,
};

/// The longest payload, in bytes, that a refused write may have; one that is longer ends the connection,
/// unless the export's own maximum allows it. The document asks for at least 32 MiB ("Size constraints").
pub const MAX_SKIPPED_PAYLOAD: u32 = 64 << 20;

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

/// Errors that a reply can carry ("Error values").
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

impl Command {
    /// The command of that number; `None` if it is not served.
    #[must_use]
    pub const fn from_wire(kind: u16) -> Option<Self> {
        Some(match kind {
            NBD_CMD_READ => Self::Read,
            NBD_CMD_WRITE => Self::Write,
            NBD_CMD_DISC => Self::Disconnect,
            NBD_CMD_FLUSH => Self::Flush,
            NBD_CMD_TRIM => Self::Trim,
            NBD_CMD_WRITE_ZEROES => Self::WriteZeroes,
            _ => return None,
        })
    }

    /// Its number on the wire.
    #[must_use]
    pub const fn to_wire(self) -> u16 {
        match self {
            Self::Read => NBD_CMD_READ,
            Self::Write => NBD_CMD_WRITE,
            Self::Disconnect => NBD_CMD_DISC,
            Self::Flush => NBD_CMD_FLUSH,
            Self::Trim => NBD_CMD_TRIM,
            Self::WriteZeroes => NBD_CMD_WRITE_ZEROES,
        }
    }

    /// Whether it changes what reads return.
    #[must_use]
    pub const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Trim | Self::WriteZeroes)
    }

    /// Whether an export with these flags has the command ("Transmission flags").
    const fn is_offered(self, flags: TransmissionFlags) -> bool {
        match self {
            Self::Read | Self::Write | Self::Disconnect => true,
            Self::Flush => flags.has(TransmissionFlags::SEND_FLUSH),
            Self::Trim => flags.has(TransmissionFlags::SEND_TRIM),
            Self::WriteZeroes => flags.has(TransmissionFlags::SEND_WRITE_ZEROES),
        }
    }

    /// The command flags that it may have on an export with these flags ("Command flags").
    const fn allowed_flags(self, flags: TransmissionFlags) -> u16 {
        let mut allowed = 0;
        if flags.has(TransmissionFlags::SEND_FUA) {
            // On every command: clients are known to set it on reads, too.
            allowed |= CommandFlags::FUA;
        }
        if matches!(self, Self::WriteZeroes) {
            allowed |= CommandFlags::NO_HOLE;
            if flags.has(TransmissionFlags::SEND_FAST_ZERO) {
                allowed |= CommandFlags::FAST_ZERO;
            }
        }
        allowed
    }
}

impl CommandFlags {
    /// Answer only once the data is durable.
    pub const FUA: u16 = 1 << 0;
    /// WRITE_ZEROES must not punch a hole.
    pub const NO_HOLE: u16 = 1 << 1;
    /// WRITE_ZEROES must fail with `NotSupported` unless it is faster than a write.
    pub const FAST_ZERO: u16 = 1 << 4;

    /// Whether `flag` is set.
    #[must_use]
    pub const fn has(self, flag: u16) -> bool {
        self.0 & flag != 0
    }
}

impl ErrorCode {
    /// The meaning of a reply's error number; `None` for 0, success. Unknown numbers are taken for
    /// [`ErrorCode::Invalid`], as the document asks of clients.
    #[must_use]
    pub const fn from_wire(number: u32) -> Option<Self> {
        Some(match number {
            0 => return None,
            1 => Self::Permission,
            5 => Self::Io,
            12 => Self::NoMemory,
            28 => Self::NoSpace,
            75 => Self::Overflow,
            95 => Self::NotSupported,
            108 => Self::ShuttingDown,
            _ => Self::Invalid,
        })
    }
}

impl RequestHeader {
    /// Bytes on the wire.
    pub const LEN: usize = 28;

    /// Reads a header; `None` if the magic is wrong, and the connection must be closed.
    #[must_use]
    pub fn decode(bytes: &[u8; Self::LEN]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        if reader.u32()? != NBD_REQUEST_MAGIC {
            return None;
        }
        Some(Self {
            flags: CommandFlags(reader.u16()?),
            kind: reader.u16()?,
            cookie: reader.u64()?,
            offset: reader.u64()?,
            length: reader.u32()?,
        })
    }

    /// Checks the request against the export, which must be as the handshake returned it. The head of this
    /// module lists the choices.
    ///
    /// A command that is accepted and has a range lies wholly inside the export, is not empty, and both its
    /// ends are multiples of the minimum block size; reads and writes are no longer than the maximum payload.
    ///
    /// # Errors
    /// With what to do instead of serving it.
    pub fn check(&self, export: &Export) -> Result<Command, Refusal> {
        let command = Command::from_wire(self.kind);
        // Only a write has a payload; of an unknown command it cannot be known, and none is assumed.
        let payload = if command == Some(Command::Write) { self.length } else { 0 };
        if payload > MAX_SKIPPED_PAYLOAD.max(export.block_sizes.maximum) {
            return Err(Refusal::Close);
        }
        command
            .ok_or(ErrorCode::Invalid)
            .and_then(|command| self.check_command(command, export).map(|()| command))
            .map_err(|error| Refusal::Answer { error, payload })
    }

    fn check_command(&self, command: Command, export: &Export) -> Result<(), ErrorCode> {
        if command == Command::Disconnect {
            return Ok(());
        }
        if command.writes() && export.flags.has(TransmissionFlags::READ_ONLY) {
            return Err(ErrorCode::Permission);
        }
        if !command.is_offered(export.flags) || self.flags.0 & !command.allowed_flags(export.flags) != 0 {
            return Err(ErrorCode::Invalid);
        }
        if command == Command::Flush {
            let reserved = self.offset != 0 || self.length != 0;
            return if reserved { Err(ErrorCode::Invalid) } else { Ok(()) };
        }
        self.check_range(command, export)
    }

    fn check_range(&self, command: Command, export: &Export) -> Result<(), ErrorCode> {
        let sizes = &export.block_sizes;
        let carries_data = matches!(command, Command::Read | Command::Write);
        if self.length == 0 || (carries_data && self.length > sizes.maximum) {
            return Err(ErrorCode::Invalid);
        }
        // A minimum of 0 is against the rules, but must not divide anything.
        let minimum = u64::from(sizes.minimum.max(1));
        if !self.offset.is_multiple_of(minimum) || !u64::from(self.length).is_multiple_of(minimum) {
            return Err(ErrorCode::Invalid);
        }
        match self.offset.checked_add(self.length.into()) {
            Some(end) if end <= export.size => Ok(()),
            // "Error values": no space for writes past the end, invalid for reads and trims.
            _ if matches!(command, Command::Write | Command::WriteZeroes) => Err(ErrorCode::NoSpace),
            _ => Err(ErrorCode::Invalid),
        }
    }
}

/// The 16 bytes of a simple reply. The data of a read follows it if there is no error.
#[must_use]
pub fn simple_reply(error: Option<ErrorCode>, cookie: u64) -> [u8; 16] {
    let mut reply = [0; 16];
    reply[..4].copy_from_slice(&NBD_SIMPLE_REPLY_MAGIC.to_be_bytes());
    reply[4..8].copy_from_slice(&error.map_or(0, |error| error as u32).to_be_bytes());
    reply[8..].copy_from_slice(&cookie.to_be_bytes());
    reply
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::BlockSizes;

    const READ: u16 = NBD_CMD_READ;
    const WRITE: u16 = NBD_CMD_WRITE;
    const TRIM: u16 = NBD_CMD_TRIM;
    const ZEROES: u16 = NBD_CMD_WRITE_ZEROES;
    const MIB: u64 = 1 << 20;

    fn export() -> Export {
        Export {
            size: 256 * MIB,
            flags: TransmissionFlags::writable(),
            block_sizes: BlockSizes { minimum: 512, preferred: 4096, maximum: 1 << 20 },
            description: String::new(),
        }
    }

    fn request(kind: u16, flags: u16, offset: u64, length: u32) -> RequestHeader {
        RequestHeader { flags: CommandFlags(flags), kind, cookie: 7, offset, length }
    }

    fn check(kind: u16, flags: u16, offset: u64, length: u32) -> Result<Command, Refusal> {
        request(kind, flags, offset, length).check(&export())
    }

    fn refused(error: ErrorCode) -> Result<Command, Refusal> {
        Err(Refusal::Answer { error, payload: 0 })
    }

    fn refused_write(error: ErrorCode, payload: u32) -> Result<Command, Refusal> {
        Err(Refusal::Answer { error, payload })
    }

    #[test]
    fn every_command_is_served_within_the_export() {
        let end = 256 * MIB;
        assert_eq!(check(READ, 0, 0, 512), Ok(Command::Read));
        assert_eq!(check(READ, 0, end - 512, 512), Ok(Command::Read));
        assert_eq!(check(WRITE, 0, end - MIB, 1 << 20), Ok(Command::Write));
        assert_eq!(check(NBD_CMD_FLUSH, 0, 0, 0), Ok(Command::Flush));
        assert_eq!(check(TRIM, 0, 0, 256 << 20), Ok(Command::Trim));
        assert_eq!(check(ZEROES, 0, 0, 256 << 20), Ok(Command::WriteZeroes));
        assert_eq!(check(NBD_CMD_DISC, 0, 0, 0), Ok(Command::Disconnect));
    }

    #[test]
    fn ranges_past_the_end_are_refused() {
        let end = 256 * MIB;
        assert_eq!(check(READ, 0, end, 512), refused(ErrorCode::Invalid));
        assert_eq!(check(TRIM, 0, end - 512, 1024), refused(ErrorCode::Invalid));
        assert_eq!(check(ZEROES, 0, end - 512, 1024), refused(ErrorCode::NoSpace));
        assert_eq!(check(WRITE, 0, end - 512, 1024), refused_write(ErrorCode::NoSpace, 1024));
        let last = u64::MAX - 511;
        assert_eq!(check(READ, 0, last, 512), refused(ErrorCode::Invalid));
        assert_eq!(check(WRITE, 0, last, 1024), refused_write(ErrorCode::NoSpace, 1024));
        let huge = Export { size: u64::MAX, ..export() };
        assert_eq!(request(READ, 0, last, 1024).check(&huge), refused(ErrorCode::Invalid));
    }

    #[test]
    fn empty_unaligned_and_long_requests_are_invalid() {
        for kind in [READ, TRIM, ZEROES, WRITE] {
            assert_eq!(check(kind, 0, 0, 0), refused(ErrorCode::Invalid));
        }
        assert_eq!(check(READ, 0, 1, 512), refused(ErrorCode::Invalid));
        assert_eq!(check(READ, 0, 512, 513), refused(ErrorCode::Invalid));
        assert_eq!(check(TRIM, 0, 256, 512), refused(ErrorCode::Invalid));
        assert_eq!(check(WRITE, 0, 256, 512), refused_write(ErrorCode::Invalid, 512));
        assert_eq!(check(READ, 0, 0, (1 << 20) + 512), refused(ErrorCode::Invalid));
        let long = (1 << 20) + 512;
        assert_eq!(check(WRITE, 0, 0, long), refused_write(ErrorCode::Invalid, long));
    }

    #[test]
    fn limits_are_exact_to_the_byte() {
        let mut export = export();
        export.block_sizes.minimum = 1;
        export.size = 5000;
        let read = |offset, length| request(READ, 0, offset, length).check(&export);
        assert_eq!(read(4999, 1), Ok(Command::Read));
        assert_eq!(read(4999, 2), refused(ErrorCode::Invalid));
        assert_eq!(read(5000, 1), refused(ErrorCode::Invalid));
        let export = Export { size: u64::MAX, ..export };
        let longest = export.block_sizes.maximum;
        for kind in [READ, WRITE] {
            assert!(request(kind, 0, 0, longest).check(&export).is_ok());
            assert!(request(kind, 0, 0, longest + 1).check(&export).is_err());
        }
        assert!(request(ZEROES, 0, 0, longest + 1).check(&export).is_ok());
        assert!(request(TRIM, 0, 0, longest + 1).check(&export).is_ok());
    }

    #[test]
    fn an_absurd_payload_closes_the_connection() {
        assert_eq!(check(WRITE, 0, 0, 64 << 20), refused_write(ErrorCode::Invalid, 64 << 20));
        assert_eq!(check(WRITE, 0, 0, (64 << 20) + 1), Err(Refusal::Close));
        let mut large = export();
        large.block_sizes.maximum = 128 << 20;
        assert_eq!(request(WRITE, 0, 0, 128 << 20).check(&large), Ok(Command::Write));
        assert_eq!(request(WRITE, 0, 0, (128 << 20) + 1).check(&large), Err(Refusal::Close));
        // No payload follows the others.
        assert_eq!(check(READ, 0, 0, u32::MAX), refused(ErrorCode::Invalid));
        assert_eq!(check(99, 0, 0, u32::MAX), refused(ErrorCode::Invalid));
    }

    #[test]
    fn flags_are_refused_unless_offered_for_that_command() {
        for kind in [READ, WRITE, TRIM, ZEROES] {
            assert!(check(kind, CommandFlags::FUA, 0, 512).is_ok());
        }
        assert!(check(NBD_CMD_FLUSH, CommandFlags::FUA, 0, 0).is_ok());
        assert!(check(ZEROES, CommandFlags::NO_HOLE | CommandFlags::FUA, 0, 512).is_ok());
        assert_eq!(check(READ, CommandFlags::NO_HOLE, 0, 512), refused(ErrorCode::Invalid));
        assert_eq!(check(ZEROES, CommandFlags::FAST_ZERO, 0, 512), refused(ErrorCode::Invalid));
        for unknown in [1 << 2, 1 << 3, 1 << 5, 1 << 15] {
            assert_eq!(check(READ, unknown, 0, 512), refused(ErrorCode::Invalid));
            assert_eq!(check(WRITE, unknown, 0, 512), refused_write(ErrorCode::Invalid, 512));
        }
        let fast = export().flags.with(TransmissionFlags::SEND_FAST_ZERO);
        let fast = Export { flags: fast, ..export() };
        assert!(request(ZEROES, CommandFlags::FAST_ZERO, 0, 512).check(&fast).is_ok());
        assert!(request(WRITE, CommandFlags::FAST_ZERO, 0, 512).check(&fast).is_err());
        let plain = Export { flags: TransmissionFlags(TransmissionFlags::HAS_FLAGS), ..export() };
        assert_eq!(request(READ, CommandFlags::FUA, 0, 512).check(&plain), refused(ErrorCode::Invalid));
    }

    #[test]
    fn commands_that_are_not_offered_are_invalid() {
        let plain = Export { flags: TransmissionFlags(TransmissionFlags::HAS_FLAGS), ..export() };
        assert_eq!(request(NBD_CMD_FLUSH, 0, 0, 0).check(&plain), refused(ErrorCode::Invalid));
        assert_eq!(request(TRIM, 0, 0, 512).check(&plain), refused(ErrorCode::Invalid));
        assert_eq!(request(ZEROES, 0, 0, 512).check(&plain), refused(ErrorCode::Invalid));
        assert_eq!(request(WRITE, 0, 0, 512).check(&plain), Ok(Command::Write));
        for kind in [crate::wire::NBD_CMD_CACHE, crate::wire::NBD_CMD_BLOCK_STATUS, 8, u16::MAX] {
            assert_eq!(check(kind, 0, 0, 512), refused(ErrorCode::Invalid));
        }
    }

    #[test]
    fn a_read_only_export_permits_no_writes() {
        let export = Export { flags: TransmissionFlags::read_only(), ..export() };
        let check = |kind, offset, length| request(kind, 0, offset, length).check(&export);
        assert_eq!(check(WRITE, 0, 512), refused_write(ErrorCode::Permission, 512));
        assert_eq!(check(WRITE, u64::MAX, 3), refused_write(ErrorCode::Permission, 3));
        assert_eq!(check(TRIM, 0, 512), refused(ErrorCode::Permission));
        assert_eq!(check(ZEROES, 0, 512), refused(ErrorCode::Permission));
        assert_eq!(check(READ, 0, 512), Ok(Command::Read));
        assert_eq!(check(NBD_CMD_FLUSH, 0, 0), Ok(Command::Flush));
    }

    #[test]
    fn reserved_fields() {
        assert_eq!(check(NBD_CMD_FLUSH, 0, 512, 0), refused(ErrorCode::Invalid));
        assert_eq!(check(NBD_CMD_FLUSH, 0, 0, 512), refused(ErrorCode::Invalid));
        assert_eq!(check(NBD_CMD_DISC, u16::MAX, u64::MAX, u32::MAX), Ok(Command::Disconnect));
    }

    #[test]
    fn the_bytes_of_a_request_and_of_a_reply() {
        let bytes = [
            0x25, 0x60, 0x95, 0x13, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 1, 0, 0, 2, 0, 0, 0, 0x10, 0,
        ];
        let header = RequestHeader {
            flags: CommandFlags(CommandFlags::FUA),
            kind: ZEROES,
            cookie: 0x0102_0304_0506_0708,
            offset: 0x1_0000_0200,
            length: 4096,
        };
        assert_eq!(RequestHeader::decode(&bytes), Some(header));
        let mut wrong = bytes;
        wrong[3] = 0x14;
        assert_eq!(RequestHeader::decode(&wrong), None);
        assert_eq!(
            simple_reply(Some(ErrorCode::NoSpace), header.cookie),
            [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 28, 1, 2, 3, 4, 5, 6, 7, 8]
        );
        assert_eq!(simple_reply(None, 1)[4..], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn numbers_go_there_and_back() {
        for kind in 0..=u16::MAX {
            assert!(Command::from_wire(kind).is_none_or(|command| command.to_wire() == kind));
        }
        for number in 1..200 {
            let code = ErrorCode::from_wire(number).unwrap();
            assert!(code as u32 == number || code == ErrorCode::Invalid);
        }
        assert_eq!(ErrorCode::from_wire(0), None);
        assert_eq!(ErrorCode::from_wire(22), Some(ErrorCode::Invalid));
    }
}
