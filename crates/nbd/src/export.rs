//! What a server offers.
//!
//! Source: protocol document, sections "Size constraints", "Transmission flags" and "Option types".

use crate::wire::NBD_MAX_STRING;

/// Block sizes that an export asks its clients to respect (`NBD_INFO_BLOCK_SIZE`), in bytes. Powers
/// of two but for `maximum`, `minimum <= preferred <= maximum`. See [`BlockSizes::validate`].
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
    /// Bytes. A multiple of the minimum block size, or clients cannot reach the tail.
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
    /// The name under which LIST shows the export that `name` finds (`NBD_INFO_NAME`). `None` if it
    /// is the same, as it is for most but the default export.
    fn canonical_name(&self, name: &str) -> Option<String> {
        let _ = name;
        None
    }
}

/// Why an export cannot be offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidExport {
    /// The minimum block size is not a power of two of at most 65 536.
    #[error("the minimum block size {0} is not a power of two from 1 to 65536")]
    Minimum(u32),
    /// The preferred block size is not a power of two, or below the minimum or below 512.
    #[error("the preferred block size {0} is not a power of two of at least the minimum and 512")]
    Preferred(u32),
    /// The maximum payload is below the preferred block size.
    #[error("the maximum payload {0} is below the preferred block size")]
    Maximum(u32),
    /// The size is not a multiple of the minimum block size.
    #[error("the size {size} is not a multiple of the minimum block size {minimum}")]
    Tail {
        /// Bytes.
        size: u64,
        /// The minimum block size.
        minimum: u32,
    },
    /// The description is longer than the protocol's strings, or has a NUL.
    #[error("the description is longer than 4096 bytes or has a NUL")]
    Description,
}

impl BlockSizes {
    /// What a client must assume if it is told nothing: 1, 4 KiB, 32 MiB ("Size constraints").
    pub const DEFAULT: Self = Self { minimum: 1, preferred: 4096, maximum: 32 << 20 };

    /// Checks the rules of the protocol document, "Size constraints".
    ///
    /// # Errors
    /// With the first rule that is broken.
    pub fn validate(&self) -> Result<(), InvalidExport> {
        if !self.minimum.is_power_of_two() || self.minimum > 65_536 {
            return Err(InvalidExport::Minimum(self.minimum));
        }
        if !self.preferred.is_power_of_two() || self.preferred < self.minimum.max(512) {
            return Err(InvalidExport::Preferred(self.preferred));
        }
        if self.maximum < self.preferred {
            return Err(InvalidExport::Maximum(self.maximum));
        }
        Ok(())
    }
}

impl Default for BlockSizes {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Export {
    /// Checks what the protocol document asks of an export; for the reader of a configuration. The
    /// handshake and the checks of requests are safe with any export.
    ///
    /// # Errors
    /// With the first rule that is broken.
    pub fn validate(&self) -> Result<(), InvalidExport> {
        self.block_sizes.validate()?;
        let minimum = self.block_sizes.minimum;
        if !self.size.is_multiple_of(minimum.into()) {
            return Err(InvalidExport::Tail { size: self.size, minimum });
        }
        if self.description.len() > NBD_MAX_STRING || self.description.contains('\0') {
            return Err(InvalidExport::Description);
        }
        Ok(())
    }
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
    /// The flag DF of a read is understood. Never offered: it needs structured replies.
    pub const SEND_DF: u16 = 1 << 7;
    /// FLUSH and FUA hold across all connections of the export.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// RESIZE (experimental). Never offered.
    pub const SEND_RESIZE: u16 = 1 << 9;
    /// CACHE is understood. Never offered.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// The flag FAST_ZERO of WRITE_ZEROES is understood.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;

    /// An export that can only be read, over any number of connections.
    #[must_use]
    pub const fn read_only() -> Self {
        Self(Self::HAS_FLAGS | Self::READ_ONLY | Self::SEND_FLUSH | Self::CAN_MULTI_CONN)
    }

    /// An export that can be written, with flush, FUA, trim and write-zeroes, over any number of
    /// connections. The server must then keep the promise of [`Self::CAN_MULTI_CONN`].
    #[must_use]
    pub const fn writable() -> Self {
        Self(
            Self::HAS_FLAGS
                | Self::SEND_FLUSH
                | Self::SEND_FUA
                | Self::SEND_TRIM
                | Self::SEND_WRITE_ZEROES
                | Self::CAN_MULTI_CONN,
        )
    }

    /// These flags and `flag`.
    #[must_use]
    pub const fn with(self, flag: u16) -> Self {
        Self(self.0 | flag)
    }

    /// These flags without `flag`.
    #[must_use]
    pub const fn without(self, flag: u16) -> Self {
        Self(self.0 & !flag)
    }

    /// Whether `flag` is set.
    #[must_use]
    pub const fn has(self, flag: u16) -> bool {
        self.0 & flag != 0
    }

    /// The flags that a server made of this crate may send: HAS_FLAGS is always set, features that
    /// are not served are taken out, and FAST_ZERO needs WRITE_ZEROES ("Transmission flags": the
    /// server must not set the flag of a feature that it does not support).
    #[must_use]
    pub const fn offered(self) -> Self {
        const SERVED: u16 = TransmissionFlags::READ_ONLY
            | TransmissionFlags::SEND_FLUSH
            | TransmissionFlags::SEND_FUA
            | TransmissionFlags::ROTATIONAL
            | TransmissionFlags::SEND_TRIM
            | TransmissionFlags::SEND_WRITE_ZEROES
            | TransmissionFlags::CAN_MULTI_CONN
            | TransmissionFlags::SEND_FAST_ZERO;
        let flags = Self((self.0 & SERVED) | Self::HAS_FLAGS);
        if flags.has(Self::SEND_WRITE_ZEROES) { flags } else { flags.without(Self::SEND_FAST_ZERO) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_served_is_offered() {
        assert_eq!(TransmissionFlags(0xffff).offered().0, 0b1001_0111_1111);
        assert_eq!(TransmissionFlags(0).offered().0, TransmissionFlags::HAS_FLAGS);
        let fast = TransmissionFlags(TransmissionFlags::SEND_FAST_ZERO);
        assert_eq!(fast.offered().0, TransmissionFlags::HAS_FLAGS);
        assert_eq!(TransmissionFlags::writable().offered(), TransmissionFlags::writable());
        assert_eq!(TransmissionFlags::read_only().offered(), TransmissionFlags::read_only());
    }

    #[test]
    fn exports_obey_the_size_constraints() {
        let sizes = |minimum, preferred, maximum| BlockSizes { minimum, preferred, maximum }.validate();
        assert_eq!(BlockSizes::default().validate(), Ok(()));
        assert_eq!(sizes(512, 512, 512), Ok(()));
        assert_eq!(sizes(0, 4096, 4096), Err(InvalidExport::Minimum(0)));
        assert_eq!(sizes(131_072, 131_072, 131_072), Err(InvalidExport::Minimum(131_072)));
        assert_eq!(sizes(1, 256, 4096), Err(InvalidExport::Preferred(256)));
        assert_eq!(sizes(4096, 512, 4096), Err(InvalidExport::Preferred(512)));
        assert_eq!(sizes(1, 4096, 4095), Err(InvalidExport::Maximum(4095)));
        let mut export = Export {
            size: 1025,
            flags: TransmissionFlags::writable(),
            block_sizes: BlockSizes::default(),
            description: String::new(),
        };
        assert_eq!(export.validate(), Ok(()));
        export.block_sizes.minimum = 512;
        assert_eq!(export.validate(), Err(InvalidExport::Tail { size: 1025, minimum: 512 }));
        export.size = 1024;
        export.description = "a".repeat(4097);
        assert_eq!(export.validate(), Err(InvalidExport::Description));
    }
}
