//! Formats of one request a line.
//!
//! ```text
//!  line ──> LineFormat::parse ──┬─ Request(Raw)
//!                               ├─ Nothing: comment, heading, another event
//!                               └─ Fault: what is wrong with the line
//! ```

use evenkeel_core::Operation;

use crate::csv::{CsvLines, MappingError};
use crate::format::Format;
use crate::number;
use crate::reader::Options;
use crate::volumes::Volumes;

mod columns;
mod comma;
mod fio;
mod linux;

/// What is wrong with a line or record, in plain words.
pub(crate) type Fault = &'static str;

/// What a line holds.
pub(crate) type Found = Result<Parsed, Fault>;

/// A line that was understood.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Parsed {
    Request(Raw),
    Nothing,
}

/// A request with the clock of its trace: nanoseconds since any epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Raw {
    pub(crate) at: u64,
    pub(crate) volume: u32,
    pub(crate) operation: Operation,
    pub(crate) offset: u64,
    pub(crate) length: u32,
}

impl Raw {
    /// A request that can exist: not empty unless a flush, below 4 GiB, within 2^64 bytes.
    pub(crate) fn new(
        at: u64,
        volume: u32,
        operation: Operation,
        offset: u64,
        length: u64,
    ) -> Result<Self, Fault> {
        let length = u32::try_from(length).map_err(|_| "the request is longer than 4 GiB")?;
        if length == 0 && operation != Operation::Flush {
            return Err("the length is 0");
        }
        if offset.checked_add(u64::from(length)).is_none() {
            return Err("the request ends past the last byte that has a number");
        }
        Ok(Self { at, volume, operation, offset, length })
    }
}

/// What all lines of a trace share.
pub(crate) struct Context<'a> {
    pub(crate) volumes: &'a mut Volumes,
    /// Times that were finer than a nanosecond.
    pub(crate) rounded: &'a mut u64,
}

impl Context<'_> {
    /// A time in units of `unit_ns`.
    pub(crate) fn nanos(&mut self, text: &[u8], unit_ns: u64) -> Result<u64, Fault> {
        let (nanos, rounded) = number::nanos(text, unit_ns).ok_or("the time is no number")?;
        *self.rounded += u64::from(rounded);
        Ok(nanos)
    }
}

/// A parser of lines, with what it must remember from one to the next.
pub(crate) enum LineFormat {
    Spc,
    Msr,
    Systor17,
    Alibaba,
    Tencent,
    Blkparse(linux::Blkparse),
    Fio(fio::Fio),
    DiskSim,
    /// Nanoseconds, device, LBA, sectors, and an operation of which this code reads.
    Nanoseconds {
        read: &'static [u8],
        write: &'static [u8],
    },
    Csv(Box<CsvLines>),
}

impl LineFormat {
    /// The parser of `format`; `None` if its requests are not lines, or the mapping is missing.
    pub(crate) fn new(format: Format, options: &Options) -> Option<Self> {
        Some(match format {
            Format::Spc => Self::Spc,
            Format::Msr => Self::Msr,
            Format::Systor17 => Self::Systor17,
            Format::Alibaba => Self::Alibaba,
            Format::Tencent => Self::Tencent,
            Format::Blkparse => Self::Blkparse(linux::Blkparse::new(options.event)),
            Format::FioV2 => Self::Fio(fio::Fio::new(2)),
            Format::FioV3 => Self::Fio(fio::Fio::new(3)),
            Format::DiskSim => Self::DiskSim,
            Format::MqSim | Format::SsdSim => Self::Nanoseconds { read: b"1", write: b"0" },
            Format::SsdSimZeroReads => Self::Nanoseconds { read: b"0", write: b"1" },
            Format::Csv => Self::Csv(Box::new(CsvLines::new(options.csv.clone()?))),
            _ => return None,
        })
    }

    /// What `line` holds; the outer error is a mapping that does not fit.
    pub(crate) fn parse(&mut self, line: &[u8], context: &mut Context<'_>) -> Result<Found, MappingError> {
        if let Self::Csv(csv) = self {
            return csv.parse(line, context);
        }
        Ok(self.parse_fixed(line, context))
    }

    fn parse_fixed(&mut self, line: &[u8], context: &mut Context<'_>) -> Found {
        match line.first() {
            None | Some(b'#') => return Ok(Parsed::Nothing),
            Some(_) => {}
        }
        match self {
            Self::Spc => comma::spc(line, context),
            Self::Msr => comma::msr(line, context),
            Self::Systor17 => comma::systor17(line, context),
            Self::Alibaba => comma::alibaba(line, context),
            Self::Tencent => comma::tencent(line, context),
            Self::Blkparse(blkparse) => blkparse.parse(line, context),
            Self::Fio(fio) => fio.parse(line, context),
            Self::DiskSim => columns::disksim(line, context),
            Self::Nanoseconds { read, write } => columns::nanoseconds(line, read, write, context),
            Self::Csv(_) => Ok(Parsed::Nothing),
        }
    }
}

/// The words of a line, between any white space.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty())
}

/// The first `N` cells of a line of comma-separated values.
pub(crate) fn cells<const N: usize>(line: &[u8]) -> Result<[&[u8]; N], Fault> {
    let mut found: [&[u8]; N] = [b""; N];
    let mut rest = Some(line);
    for cell in &mut found {
        let whole = rest.ok_or("the line has too few columns")?;
        let (this, after) = match memchr::memchr(b',', whole) {
            Some(at) => (&whole[..at], Some(&whole[at + 1..])),
            None => (whole, None),
        };
        *cell = this.trim_ascii();
        rest = after;
    }
    Ok(found)
}
