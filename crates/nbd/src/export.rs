//! What a server offers.

/// Block sizes that an export asks its clients to respect (`NBD_INFO_BLOCK_SIZE`). Powers of two
/// but for `maximum`, `minimum <= preferred <= maximum`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// Offsets and lengths must be multiples of it.
    pub minimum: u32,
    /// Requests of multiples of it are served best.
    pub preferred: u32,
    /// The longest payload of one request; longer reads and writes are refused.
    pub maximum: u32,
}

/// Transmission flags of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransmissionFlags(pub u16);

/// One export, as negotiated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Bytes.
    pub size: u64,
    /// What the server does for it.
    pub flags: TransmissionFlags,
    /// The block sizes.
    pub block_sizes: BlockSizes,
    /// Free text for people (`NBD_INFO_DESCRIPTION`, LIST); empty for none.
    pub description: String,
}

/// The catalogue that a handshake asks.
pub trait Exports {
    /// The names to answer LIST with, in order.
    fn names(&self) -> Vec<String>;
    /// The export of that name. The empty name asks for the default export.
    fn find(&self, name: &str) -> Option<Export>;
}

impl TransmissionFlags {
    /// Flags are sent at all (always set).
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// Writes are refused.
    pub const READ_ONLY: u16 = 1 << 1;
    /// FLUSH is understood.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// FUA is understood.
    pub const SEND_FUA: u16 = 1 << 3;
    /// The store rotates.
    pub const ROTATIONAL: u16 = 1 << 4;
    /// TRIM is understood.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// WRITE_ZEROES is understood.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// FLUSH and FUA hold across all connections of the export.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;

    /// Whether `flag` is set.
    #[must_use]
    pub const fn has(self, flag: u16) -> bool {
        self.0 & flag != 0
    }
}
