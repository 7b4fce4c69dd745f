//! Writing a trace.
//!
//! ```text
//!  TraceRequest + names ──> can the format say it? ──no──> error, or dropped and counted
//!                               │ yes
//!                               └──> a line, or a row of Parquet ──> sink (gzip on request)
//! ```
//!
//! Times finer than a format's resolution are rounded down and counted: [`Written::rounded`].

use std::io::{self, Write};

use evenkeel_core::Operation;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::format::Format;
use crate::{TraceRequest, csv, operation_name};

/// Formats that can be written.
pub const WRITABLE: [Format; 8] = [
    Format::Parquet,
    Format::Csv,
    Format::Spc,
    Format::Msr,
    Format::DiskSim,
    Format::FioV3,
    Format::MqSim,
    Format::Blkparse,
];

/// 1 January 2000 as a Windows FILETIME, in units of 100 ns: where MSR traces begin that we write.
const FILETIME_2000: u64 = 125_911_584_000_000_000;

/// Why a trace cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The format is for reading only.
    #[error("format {0} can be read, but not written")]
    ReadOnly(Format),
    /// The operating system refuses.
    #[error("cannot be written: {0}")]
    Io(#[from] io::Error),
    /// The format has no way to say that.
    #[error("request {number}: format {format} cannot express {what}")]
    CannotExpress {
        /// The format.
        format: Format,
        /// Which request of the trace, from 1.
        number: u64,
        /// What it cannot say.
        what: &'static str,
    },
    /// The Parquet library refuses.
    #[error("cannot be written: {0}")]
    Parquet(String),
}

impl WriteError {
    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::ReadOnly(_) => {
                let names = WRITABLE.map(Format::name).join(", ");
                format!("write one of {names}")
            }
            Self::Io(_) | Self::Parquet(_) => "check the path and the space left there".to_owned(),
            Self::CannotExpress { .. } => {
                "write csv or parquet, which can say everything, or leave such requests out with --drop"
                    .to_owned()
            }
        }
    }
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Requests written.
    pub requests: u64,
    /// Requests left out because the format cannot express them.
    pub dropped: u64,
    /// Requests whose time was finer than the format can say.
    pub rounded: u64,
}

/// Writes requests in one format.
pub struct Writer {
    format: Format,
    drop: bool,
    sink: Sink,
    written: Written,
    /// Volumes that a log of fio has introduced.
    introduced: Vec<bool>,
    line: Vec<u8>,
}

enum Sink {
    Plain(Box<dyn Write + Send>),
    Gzip(Box<GzEncoder<Box<dyn Write + Send>>>),
    #[cfg(feature = "parquet")]
    Columns(Box<crate::columns::ColumnsWriter<Box<dyn Write + Send>>>),
}

impl Writer {
    /// Begins a trace of `format` in `sink`, compressed if `gzip`. With `drop`, what the format cannot
    /// express is left out and counted; otherwise it is an error.
    ///
    /// # Errors
    /// If the format cannot be written, or the sink refuses.
    pub fn new(
        sink: Box<dyn Write + Send>,
        format: Format,
        gzip: bool,
        drop: bool,
    ) -> Result<Self, WriteError> {
        if !WRITABLE.contains(&format) {
            return Err(WriteError::ReadOnly(format));
        }
        let sink = match format {
            #[cfg(feature = "parquet")]
            Format::Parquet => Sink::Columns(Box::new(
                crate::columns::ColumnsWriter::new(sink)
                    .map_err(|error| WriteError::Parquet(error.to_string()))?,
            )),
            #[cfg(not(feature = "parquet"))]
            Format::Parquet => return Err(WriteError::ReadOnly(format)),
            _ if gzip => Sink::Gzip(Box::new(GzEncoder::new(sink, Compression::default()))),
            _ => Sink::Plain(sink),
        };
        let (written, introduced, line) = (Written::default(), Vec::new(), Vec::new());
        let mut writer = Self { format, drop, sink, written, introduced, line };
        match format {
            Format::Csv => writer.put(format!("{}\n", csv::HEADING).as_bytes())?,
            Format::FioV3 => writer.put(b"fio version 3 iolog\n")?,
            _ => {}
        }
        Ok(writer)
    }

    /// Writes `request`; `volumes` are the names of the volumes so far.
    ///
    /// # Errors
    /// If the format cannot express it, or the sink refuses.
    pub fn write(&mut self, request: &TraceRequest, volumes: &[String]) -> Result<(), WriteError> {
        if let Err(what) = self.expressible(request, volumes) {
            if self.drop {
                self.written.dropped += 1;
                return Ok(());
            }
            let number = self.written.requests + self.written.dropped + 1;
            return Err(WriteError::CannotExpress { format: self.format, number, what });
        }
        self.written.requests += 1;
        #[cfg(feature = "parquet")]
        if let Sink::Columns(columns) = &mut self.sink {
            return columns.write(request, volumes).map_err(|error| WriteError::Parquet(error.to_string()));
        }
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        self.format_line(&mut line, request, volumes)?;
        self.put(&line)?;
        self.line = line;
        Ok(())
    }

    /// What was written so far.
    #[must_use]
    pub fn written(&self) -> Written {
        self.written
    }

    /// Ends the trace and flushes it.
    ///
    /// # Errors
    /// If the sink refuses.
    pub fn finish(self) -> Result<Written, WriteError> {
        let mut sink = match self.sink {
            Sink::Plain(sink) => sink,
            Sink::Gzip(gzip) => gzip.finish()?,
            #[cfg(feature = "parquet")]
            Sink::Columns(columns) => {
                columns.finish().map_err(|error| WriteError::Parquet(error.to_string()))?
            }
        };
        sink.flush()?;
        Ok(self.written)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.sink {
            Sink::Plain(sink) => sink.write_all(bytes),
            Sink::Gzip(sink) => sink.write_all(bytes),
            #[cfg(feature = "parquet")]
            Sink::Columns(_) => Ok(()),
        }
    }

    /// Whether the format can say it; what it cannot, otherwise.
    fn expressible(&self, request: &TraceRequest, volumes: &[String]) -> Result<(), &'static str> {
        let data = matches!(request.operation, Operation::Read | Operation::Write);
        let sectors = request.offset.is_multiple_of(512);
        let whole = sectors && request.length.is_multiple_of(512);
        let name = volumes.get(request.volume as usize).map_or("", String::as_str);
        match self.format {
            Format::Spc | Format::Msr | Format::DiskSim | Format::MqSim if !data => {
                Err("anything but reads and writes")
            }
            Format::Spc if !sectors => Err("an address within a sector"),
            Format::DiskSim | Format::MqSim | Format::Blkparse if !whole => {
                Err("a part of a sector of 512 bytes")
            }
            Format::Blkparse if request.operation == Operation::WriteZeroes => Err("writing zeroes"),
            Format::Blkparse if volumes.first().is_some_and(|first| is_device(first)) && !is_device(name) => {
                Err("a volume that is not major,minor, where others are")
            }
            Format::FioV3 if request.operation == Operation::WriteZeroes => Err("writing zeroes"),
            Format::FioV3 if name.contains(char::is_whitespace) => Err("white space in a volume's name"),
            Format::Csv | Format::Msr if name.contains([',', '\n', '"']) => {
                Err("a comma, quote or newline in a volume's name")
            }
            Format::Msr if request.at.as_nanos() / 100 > u64::MAX / 100 - FILETIME_2000 => {
                Err("a time that far ahead")
            }
            Format::Spc | Format::DiskSim | Format::MqSim if numbered(volumes) && !is_number(name) => {
                Err("a volume that is no number, where others are")
            }
            _ => Ok(()),
        }
    }

    fn format_line(
        &mut self,
        line: &mut Vec<u8>,
        request: &TraceRequest,
        volumes: &[String],
    ) -> io::Result<()> {
        let TraceRequest { at, volume, operation, offset, length } = *request;
        let nanos = at.as_nanos();
        let unnamed = volume.to_string();
        let name = volumes.get(volume as usize).map_or(unnamed.as_str(), String::as_str);
        // Where only numbers are allowed: the names if they are, the order of appearance if not.
        let number = if numbered(volumes) { name } else { unnamed.as_str() };
        let (sector, sectors) = (offset / 512, length / 512);
        let (seconds, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
        let read = operation == Operation::Read;
        match self.format {
            Format::Csv => {
                let operation = operation_name(operation);
                writeln!(line, "{nanos},{name},{operation},{offset},{length}")
            }
            Format::Spc => {
                let letter = if read { 'R' } else { 'W' };
                writeln!(line, "{number},{sector},{length},{letter},{seconds}.{rest:09}")
            }
            Format::Msr => {
                self.written.rounded += u64::from(!nanos.is_multiple_of(100));
                let (host, disk) = name.rsplit_once('.').unwrap_or((name, "0"));
                let word = if read { "Read" } else { "Write" };
                writeln!(line, "{},{host},{disk},{word},{offset},{length},0", FILETIME_2000 + nanos / 100)
            }
            Format::DiskSim => {
                let (ms, rest) = (nanos / 1_000_000, nanos % 1_000_000);
                writeln!(line, "{ms}.{rest:06} {number} {sector} {sectors} {}", u8::from(read))
            }
            Format::MqSim => writeln!(line, "{nanos} {number} {sector} {sectors} {}", u8::from(read)),
            Format::FioV3 => {
                self.written.rounded += u64::from(!nanos.is_multiple_of(1_000));
                let micros = nanos / 1_000;
                if self.introduced.len() <= volume as usize {
                    self.introduced.resize(volume as usize + 1, false);
                }
                if !std::mem::replace(&mut self.introduced[volume as usize], true) {
                    write!(line, "{micros} {name} add\n{micros} {name} open\n")?;
                }
                match operation {
                    Operation::Flush => writeln!(line, "{micros} {name} sync 0 0"),
                    Operation::Trim => writeln!(line, "{micros} {name} trim {offset} {length}"),
                    _ => writeln!(line, "{micros} {name} {} {offset} {length}", operation_name(operation)),
                }
            }
            _ => {
                let devices = volumes.first().is_some_and(|first| is_device(first));
                let device = if devices { name.to_owned() } else { format!("0,{volume}") };
                let letters = match operation {
                    Operation::Read => "R",
                    Operation::Trim => "D",
                    Operation::Flush => "FN",
                    _ => "W",
                };
                let sequence = self.written.requests;
                write!(line, "{device:>6} 0 {sequence:>8} {seconds:>5}.{rest:09} 0  Q {letters:>3} ")?;
                writeln!(line, "{sector} + {sectors} [evenkeel]")
            }
        }
    }
}

/// Whether the volumes are called by numbers; the first one tells.
fn numbered(volumes: &[String]) -> bool {
    volumes.first().is_some_and(|name| is_number(name))
}

fn is_number(name: &str) -> bool {
    name.parse::<u32>().is_ok()
}

/// Whether a name is `major,minor`.
fn is_device(name: &str) -> bool {
    let numbers = name.split_once(',');
    numbers.is_some_and(|(major, minor)| major.parse::<u32>().is_ok() && minor.parse::<u32>().is_ok())
}
