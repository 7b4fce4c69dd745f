//! Reading a trace: one request after the other, checked.
//!
//! ```text
//!  Source::Lines ─────┐
//!  Source::Records ───┼─> Raw ─> window of `reorder` requests ─> time, capacity ─> TraceRequest
//!  Source::Columns ───┘    │     (a heap, smallest time first)
//!                          └─> malformed: counted, the first kept, refused beyond the limit
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use evenkeel_core::{Span, Time};

use crate::TraceRequest;
use crate::binary::{RecordFormat, Stop};
use crate::csv::CsvMapping;
use crate::error::{ErrorKind, Place, TraceError};
use crate::format::{Confidence, Format};
use crate::input::Input;
use crate::recognise::recognise;
use crate::text::{Context, Fault, LineFormat, Parsed, Raw};
use crate::volumes::Volumes;

/// Malformed lines that a report names.
const MALFORMED_KEPT: usize = 20;
/// The largest reorder window, in requests.
const REORDER_MAX: usize = 1 << 20;

/// How a trace is to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The format; `None` to recognise it.
    pub format: Option<Format>,
    /// Malformed lines that are left out before the trace is refused; 100 unless set.
    pub malformed_max: u64,
    /// Size of the device in bytes: a request that ends beyond it is an error. `None` for no bound.
    pub capacity: Option<u64>,
    /// The volume that `capacity` bounds; `None` for all of them.
    pub capacity_of: Option<u32>,
    /// What time the first request gets.
    pub clock: Clock,
    /// Requests within which the order may be wrong: they are sorted by time. 0, as it is unless set, is
    /// for a trace in order; at most 1 048 576.
    pub reorder: usize,
    /// Which event counts as arrival in blktrace and blkparse traces.
    pub event: Event,
    /// The time between requests for formats that hold no times.
    pub interval: Option<Span>,
    /// The columns of a CSV trace; Evenkeel's own need none.
    pub csv: Option<CsvMapping>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            format: None,
            malformed_max: 100,
            capacity: None,
            capacity_of: None,
            clock: Clock::FromFirst,
            reorder: 0,
            event: Event::Queued,
            interval: None,
            csv: None,
        }
    }
}

/// What time the first request gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// Zero.
    #[default]
    FromFirst,
    /// What the trace says, counted from whatever it counts from.
    AsWritten,
}

/// An event in the life of a request that Linux traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Event {
    /// `Q`: it came to the block layer.
    #[default]
    Queued,
    /// `D`: it went to the driver.
    Issued,
    /// `C`: it was completed.
    Completed,
}

impl Event {
    pub(crate) const fn letter(self) -> &'static [u8] {
        match self {
            Self::Queued => b"Q",
            Self::Issued => b"D",
            Self::Completed => b"C",
        }
    }
}

/// How the file was compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstd,
}

/// A line that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MalformedLine {
    /// Where.
    pub place: Place,
    /// What is wrong with it.
    pub fault: &'static str,
    /// The front of it, for people; empty for binary records.
    pub text: String,
}

impl fmt::Display for MalformedLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.fault)?;
        if self.text.is_empty() { Ok(()) } else { write!(f, " ({})", self.text) }
    }
}

/// What became of a trace so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What it was read as.
    pub format: Format,
    /// How sure that is.
    pub confidence: Confidence,
    /// How it was compressed.
    pub compression: Compression,
    /// Lines or records read.
    pub lines: u64,
    /// Requests returned.
    pub requests: u64,
    /// Lines or records that are no requests: comments, headings, other events.
    pub skipped: u64,
    /// Lines or records that were malformed and left out.
    pub malformed: u64,
    /// The first of them.
    pub malformed_lines: Vec<MalformedLine>,
    /// Times that were finer than a nanosecond and rounded to the nearest.
    pub rounded: u64,
    /// Whether the last line lacks its newline: the file may have been cut there.
    pub unterminated: bool,
}

/// A trace that is being read.
pub struct Reader {
    file: PathBuf,
    file_bytes: u64,
    source: Source,
    options: Options,
    volumes: Volumes,
    report: Report,
    window: BinaryHeap<Reverse<Waiting>>,
    source_over: bool,
    /// Time of the first request and of the last, in the trace's clock.
    first: Option<u64>,
    last: u64,
    over: bool,
}

enum Source {
    Lines(Box<Input>, Box<LineFormat>),
    Records(Box<Input>, RecordFormat),
    #[cfg(feature = "parquet")]
    Columns(Box<crate::columns::ColumnsReader>),
}

/// A request in the reorder window: by time, then in the order of the file.
struct Waiting {
    raw: Raw,
    place: Place,
}

impl Waiting {
    fn key(&self) -> (u64, u64) {
        (self.raw.at, self.place.number())
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// Opens a trace: decompresses by content and recognises the format unless it is named.
///
/// # Errors
/// If the file cannot be read, is empty, or its format is unknown or ambiguous.
pub fn open(path: &Path, options: &Options) -> Result<Reader, TraceError> {
    let error = |kind| TraceError::new(path, None, kind);
    let file = File::open(path).map_err(|cause| error(ErrorKind::Io(cause)))?;
    let metadata = file.metadata().map_err(|cause| error(ErrorKind::Io(cause)))?;
    if metadata.is_dir() {
        return Err(error(ErrorKind::Io(io::ErrorKind::IsADirectory.into())));
    }
    #[cfg(feature = "parquet")]
    if matches!(options.format, None | Some(Format::Parquet)) && crate::columns::is_parquet(&file) {
        let columns = crate::columns::ColumnsReader::open(file).map_err(error)?;
        let confidence = options.format.map_or(Confidence::Certain, |_| Confidence::Named);
        let mut reader = Reader::new(
            path,
            Source::Columns(Box::new(columns)),
            options,
            (Format::Parquet, confidence),
            Compression::None,
        );
        reader.file_bytes = metadata.len();
        return Ok(reader);
    }
    let mut reader = Reader::from_bytes(path, file, options)?;
    reader.file_bytes = metadata.len();
    Ok(reader)
}

impl Reader {
    /// Reads a trace from `bytes` instead of a file; errors call it `name`. Parquet cannot be read so.
    ///
    /// # Errors
    /// As [`open`].
    pub fn from_bytes(
        name: &Path,
        bytes: impl Read + Send + 'static,
        options: &Options,
    ) -> Result<Self, TraceError> {
        let error = |kind| TraceError::new(name, None, kind);
        let mut input = Input::new(bytes).map_err(|cause| error(of_io(cause)))?;
        input.head().map_err(|cause| error(of_io(cause)))?;
        let whole = input.head_is_all();
        let head = input.head().map_err(|cause| error(of_io(cause)))?;
        let (format, confidence) = match options.format {
            Some(format) => (format, Confidence::Named),
            None => recognise(head, whole).map_err(error)?,
        };
        let mut options = options.clone();
        let own = head.starts_with(crate::csv::HEADING.as_bytes());
        if format == Format::Csv && options.csv.is_none() && own {
            options.csv = Some(CsvMapping::own());
        }
        options.reorder = options.reorder.min(REORDER_MAX);
        let compression = input.compression;
        let source = if let Some(parser) = LineFormat::new(format, &options) {
            Source::Lines(Box::new(input), Box::new(parser))
        } else if let Some(parser) = RecordFormat::new(format, &options) {
            Source::Records(Box::new(input), parser)
        } else if format == Format::Csv {
            return Err(error(ErrorKind::NoMapping));
        } else {
            let why = "it must be a plain file that begins and ends with PAR1".to_owned();
            return Err(error(ErrorKind::Parquet(why)));
        };
        Ok(Self::new(name, source, &options, (format, confidence), compression))
    }

    fn new(
        file: &Path,
        source: Source,
        options: &Options,
        (format, confidence): (Format, Confidence),
        compression: Compression,
    ) -> Self {
        let report = Report {
            format,
            confidence,
            compression,
            lines: 0,
            requests: 0,
            skipped: 0,
            malformed: 0,
            malformed_lines: Vec::new(),
            rounded: 0,
            unterminated: false,
        };
        Self {
            file: file.to_owned(),
            file_bytes: 0,
            source,
            options: options.clone(),
            volumes: Volumes::default(),
            report,
            window: BinaryHeap::new(),
            source_over: false,
            first: None,
            last: 0,
            over: false,
        }
    }

    /// What became of the trace so far.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The names of the volumes so far; the index is the number in [`TraceRequest::volume`].
    #[must_use]
    pub fn volumes(&self) -> &[String] {
        self.volumes.names()
    }

    /// The file that is being read.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Bytes of the file that were read so far, and its size (0 if unknown).
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        let taken = match &self.source {
            Source::Lines(input, _) | Source::Records(input, _) => input.taken(),
            #[cfg(feature = "parquet")]
            Source::Columns(columns) => (columns.share_read() * self.file_bytes as f64) as u64,
        };
        (taken, self.file_bytes)
    }

    fn error(&self, place: Option<Place>, kind: ErrorKind) -> TraceError {
        TraceError::new(&self.file, place, kind)
    }

    /// The next request of the source as it stands there.
    fn next_raw(&mut self) -> Result<Option<Waiting>, TraceError> {
        loop {
            let lines = self.report.lines + 1;
            let mut context = Context { volumes: &mut self.volumes, rounded: &mut self.report.rounded };
            let step = match &mut self.source {
                Source::Lines(input, parser) => match input.line() {
                    Ok(None) => return Ok(None),
                    Ok(Some(line)) => {
                        let found = if line.too_long {
                            Ok(Err("the line is longer than 64 KiB"))
                        } else {
                            parser.parse(line.text, &mut context)
                        };
                        self.report.unterminated = !line.ended;
                        match found {
                            Ok(found) => Ok((Place::Line(lines), found, line.text)),
                            Err(mapping) => Err(ErrorKind::Mapping(mapping)),
                        }
                    }
                    Err(cause) => Err(of_io(cause)),
                },
                Source::Records(input, parser) => match parser.next(input, &mut context) {
                    Ok(None) => return Ok(None),
                    Ok(Some(found)) => Ok((Place::Record(lines), found, &b""[..])),
                    Err(stop) => Err(of_stop(stop, self.report.format)),
                },
                #[cfg(feature = "parquet")]
                Source::Columns(columns) => match columns.next(&mut context) {
                    Ok(None) => return Ok(None),
                    Ok(Some(found)) => Ok((Place::Record(lines), found, &b""[..])),
                    Err(kind) => Err(kind),
                },
            };
            self.report.lines = lines;
            match step {
                Ok((place, Ok(Parsed::Request(raw)), _)) => return Ok(Some(Waiting { raw, place })),
                Ok((_, Ok(Parsed::Nothing), _)) => self.report.skipped += 1,
                Ok((place, Err(fault), text)) => {
                    let text = shown(text);
                    // Only the last line can lack its end: it was cut off.
                    if self.report.unterminated {
                        return Err(self.error(Some(place), ErrorKind::Truncated));
                    }
                    self.malformed(place, fault, text)?;
                }
                Err(kind) => {
                    let place = if matches!(self.source, Source::Lines(..)) {
                        Place::Line(lines)
                    } else {
                        Place::Record(lines)
                    };
                    return Err(self.error(Some(place), kind));
                }
            }
        }
    }

    /// Takes note of a malformed line; refuses the trace if there are too many.
    fn malformed(&mut self, place: Place, fault: Fault, text: String) -> Result<(), TraceError> {
        self.report.malformed += 1;
        if self.report.malformed_lines.len() < MALFORMED_KEPT {
            self.report.malformed_lines.push(MalformedLine { place, fault, text });
        }
        if self.report.malformed <= self.options.malformed_max {
            return Ok(());
        }
        let kind = ErrorKind::Malformed {
            format: self.report.format,
            limit: self.options.malformed_max,
            first: self.report.malformed_lines.clone(),
        };
        Err(self.error(Some(place), kind))
    }

    /// The next request by time, as far as the window reaches.
    fn next_in_order(&mut self) -> Result<Option<Waiting>, TraceError> {
        if self.options.reorder == 0 {
            return self.next_raw();
        }
        while !self.source_over && self.window.len() <= self.options.reorder {
            match self.next_raw()? {
                Some(waiting) => self.window.push(Reverse(waiting)),
                None => self.source_over = true,
            }
        }
        Ok(self.window.pop().map(|Reverse(waiting)| waiting))
    }

    fn next_checked(&mut self) -> Result<Option<TraceRequest>, TraceError> {
        let Some(Waiting { raw, place }) = self.next_in_order()? else {
            if self.report.requests > 0 {
                return Ok(None);
            }
            return Err(self.error(None, ErrorKind::Empty { malformed: self.report.malformed }));
        };
        let first = *self.first.get_or_insert(raw.at);
        if raw.at < self.last {
            let by_ns = self.last - raw.at;
            return Err(self.error(Some(place), ErrorKind::Backwards { by_ns }));
        }
        self.last = raw.at;
        let bounded = self.options.capacity_of.is_none_or(|volume| volume == raw.volume);
        if let Some(capacity) = self.options.capacity.filter(|_| bounded) {
            let end = raw.offset + u64::from(raw.length);
            if end > capacity {
                return Err(self.error(Some(place), ErrorKind::BeyondDevice { end, capacity }));
            }
        }
        self.report.requests += 1;
        let base = if self.options.clock == Clock::FromFirst { first } else { 0 };
        Ok(Some(TraceRequest {
            at: Time::from_nanos(raw.at - base),
            volume: raw.volume,
            operation: raw.operation,
            offset: raw.offset,
            length: raw.length,
        }))
    }
}

impl Iterator for Reader {
    type Item = Result<TraceRequest, TraceError>;

    /// The next request; nothing more after an error.
    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let next = self.next_checked().transpose();
        self.over = !matches!(next, Some(Ok(_)));
        next
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("file", &self.file)
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}

fn of_io(cause: io::Error) -> ErrorKind {
    match cause.kind() {
        io::ErrorKind::UnexpectedEof => ErrorKind::Truncated,
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => ErrorKind::Damaged(cause.to_string()),
        _ => ErrorKind::Io(cause),
    }
}

fn of_stop(stop: Stop, format: Format) -> ErrorKind {
    match stop {
        Stop::Io(cause) => of_io(cause),
        Stop::Truncated => ErrorKind::Truncated,
        Stop::Lost(why) => ErrorKind::Lost(why),
        Stop::NoTimes => ErrorKind::NoTimes(format),
    }
}

/// The front of a line, for people.
fn shown(text: &[u8]) -> String {
    let front = String::from_utf8_lossy(&text[..text.len().min(60)]);
    front.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}
