//! Formats of binary records.
//!
//! ```text
//!  Input ── bytes ──> RecordFormat::next ──┬─ Request(Raw) | Nothing | Fault   one record
//!                                          ├─ None                             the end
//!                                          └─ Stop                             no way to read on
//! ```

use std::io;

use crate::format::Format;
use crate::input::Input;
use crate::reader::Options;
use crate::text::{Context, Found};

pub(crate) mod blktrace;
pub(crate) mod nbdlog;
pub(crate) mod vscsi;

/// Why a binary trace cannot be read on.
pub(crate) enum Stop {
    Io(io::Error),
    /// It ends within a record.
    Truncated,
    /// What follows is no record, and there is no telling where the next begins.
    Lost(&'static str),
    /// The format has no times, and no interval was given.
    NoTimes,
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A parser of records, with what it must remember from one to the next.
pub(crate) enum RecordFormat {
    Vscsi(vscsi::Version),
    Blktrace(blktrace::Blktrace),
    NbdLog(nbdlog::NbdLog),
}

impl RecordFormat {
    /// The parser of `format`; `None` if it has no records.
    pub(crate) fn new(format: Format, options: &Options) -> Option<Self> {
        Some(match format {
            Format::VscsiV1 => Self::Vscsi(vscsi::Version::One),
            Format::VscsiV2 => Self::Vscsi(vscsi::Version::Two),
            Format::Blktrace => Self::Blktrace(blktrace::Blktrace::new(options.event)),
            Format::NbdLog => Self::NbdLog(nbdlog::NbdLog::new(options.interval)),
            _ => return None,
        })
    }

    pub(crate) fn next(
        &mut self,
        input: &mut Input,
        context: &mut Context<'_>,
    ) -> Result<Option<Found>, Stop> {
        match self {
            Self::Vscsi(version) => version.next(input, context),
            Self::Blktrace(blktrace) => blktrace.next(input, context),
            Self::NbdLog(log) => log.next(input, context),
        }
    }
}

/// The next `N` bytes; `None` at the end, [`Stop::Truncated`] in between.
fn record<const N: usize>(input: &mut Input) -> Result<Option<[u8; N]>, Stop> {
    let bytes = input.bytes(N)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    bytes.try_into().map(Some).map_err(|_| Stop::Truncated)
}

/// Little-endian or big-endian numbers of a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

impl Order {
    fn u16(self, record: &[u8], at: usize) -> u16 {
        let bytes = [record[at], record[at + 1]];
        if self == Self::Little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) }
    }

    fn u32(self, record: &[u8], at: usize) -> u32 {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&record[at..at + 4]);
        if self == Self::Little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) }
    }

    fn u64(self, record: &[u8], at: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&record[at..at + 8]);
        if self == Self::Little { u64::from_le_bytes(bytes) } else { u64::from_be_bytes(bytes) }
    }
}
