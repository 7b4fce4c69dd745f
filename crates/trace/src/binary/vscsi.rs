//! CloudPhysics vscsi traces: Waldspurger et al., "Efficient MRC construction with SHARDS", FAST 2015;
//! layout as published with their readers. Little-endian; the upper byte of `ver` is the version.
//!
//! ```text
//!  v1, 32 bytes:  sn u32 | len u32 | nSG u32 | cmd u16 | ver u16 | lbn u64 | ts u64
//!  v2, 40 bytes:  cmd u16 | ver u16 | sn u32 | len u32 | nSG u32 | lbn u64 | ts u64 | rt u64
//! ```
//! `len` is in bytes, `lbn` in sectors of 512 bytes, `ts` in microseconds, `cmd` a SCSI operation code.

use evenkeel_core::Operation;

use super::{Order, Stop, record};
use crate::input::Input;
use crate::text::{Context, Found, Parsed, Raw};

const LE: Order = Order::Little;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    One,
    Two,
}

/// Where the fields are.
struct Places {
    command: usize,
    version: usize,
    length: usize,
    block: usize,
    micros: usize,
}

impl Version {
    /// Bytes of a record.
    pub(crate) const fn size(self) -> usize {
        match self {
            Self::One => 32,
            Self::Two => 40,
        }
    }

    const fn places(self) -> Places {
        match self {
            Self::One => Places { command: 12, version: 14, length: 4, block: 16, micros: 24 },
            Self::Two => Places { command: 0, version: 2, length: 8, block: 16, micros: 24 },
        }
    }

    /// Whether `bytes` look like a record of this version.
    pub(crate) fn fits(self, bytes: &[u8]) -> bool {
        let places = self.places();
        let stated = LE.u16(bytes, places.version) >> 8;
        stated == self as u16 + 1 && LE.u16(bytes, places.command) <= 0xff
    }

    pub(super) fn next(self, input: &mut Input, context: &mut Context<'_>) -> Result<Option<Found>, Stop> {
        let found = match self {
            Self::One => record::<32>(input)?.map(|bytes| self.request(&bytes, context)),
            Self::Two => record::<40>(input)?.map(|bytes| self.request(&bytes, context)),
        };
        Ok(found)
    }

    fn request(self, bytes: &[u8], context: &mut Context<'_>) -> Found {
        if !self.fits(bytes) {
            return Err("the record states another version");
        }
        let places = self.places();
        let Some(operation) = operation(LE.u16(bytes, places.command)) else { return Ok(Parsed::Nothing) };
        let fault = "the address or time is too large";
        let offset = LE.u64(bytes, places.block).checked_mul(512).ok_or(fault)?;
        let at = LE.u64(bytes, places.micros).checked_mul(1_000).ok_or(fault)?;
        let length = u64::from(LE.u32(bytes, places.length));
        let (offset, length) = if operation == Operation::Flush { (0, 0) } else { (offset, length) };
        let raw = Raw::new(at, 0, operation, offset, length)?;
        Ok(Parsed::Request(Raw { volume: context.volumes.number(b"0")?, ..raw }))
    }
}

/// SCSI Block Commands 4, table of operation codes.
fn operation(command: u16) -> Option<Operation> {
    Some(match command {
        0x08 | 0x28 | 0xa8 | 0x88 => Operation::Read,
        0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e => Operation::Write,
        0x35 | 0x91 => Operation::Flush,
        0x41 | 0x93 => Operation::WriteZeroes,
        0x42 => Operation::Trim,
        _ => return None,
    })
}
