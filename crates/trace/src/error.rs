//! What can be wrong with a trace: each error names file and line, and says the remedy.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::csv::MappingError;
use crate::format::Format;
use crate::reader::MalformedLine;

/// Where in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The nth line of a text, from 1.
    Line(u64),
    /// The nth record of a binary trace, from 1.
    Record(u64),
}

impl Place {
    /// The number alone.
    #[must_use]
    pub const fn number(self) -> u64 {
        match self {
            Self::Line(number) | Self::Record(number) => number,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(number) => write!(f, "line {number}"),
            Self::Record(number) => write!(f, "record {number}"),
        }
    }
}

/// A trace that cannot be read on.
#[derive(Debug)]
pub struct TraceError(Box<Inner>);

#[derive(Debug)]
struct Inner {
    file: PathBuf,
    place: Option<Place>,
    kind: ErrorKind,
}

/// What is wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refuses.
    #[error("cannot be read: {0}")]
    Io(std::io::Error),
    /// The compressed stream is not whole or not sound.
    #[error("its compressed data are damaged: {0}")]
    Damaged(String),
    /// The trace ends within a request.
    #[error("ends in the middle of a request: the file is truncated")]
    Truncated,
    /// There is no request in it.
    #[error("holds no request{}", malformed_note(*.malformed))]
    Empty {
        /// Malformed lines that were left out.
        malformed: u64,
    },
    /// No format fits.
    #[error("fits none of the formats that can be recognised")]
    Unrecognised,
    /// More than one format fits.
    #[error("fits more than one format: {}", listed(.0))]
    Ambiguous(Vec<Format>),
    /// More malformed lines than allowed.
    #[error("more than {limit} malformed lines for format {format}: {}", shown(.first))]
    Malformed {
        /// What it was read as.
        format: Format,
        /// How many were allowed.
        limit: u64,
        /// The first of them.
        first: Vec<MalformedLine>,
    },
    /// What follows is no record, and there is no telling where the next one begins.
    #[error("cannot be read on: {0}")]
    Lost(&'static str),
    /// A request lies before the one that went before it.
    #[error("time goes backwards by {by_ns} ns")]
    Backwards {
        /// By how much.
        by_ns: u64,
    },
    /// A request ends past the device.
    #[error("the request ends at byte {end}, beyond the device of {capacity} bytes")]
    BeyondDevice {
        /// First byte after the request.
        end: u64,
        /// Size of the device.
        capacity: u64,
    },
    /// The format has no times, and no interval was given.
    #[error("format {0} holds no times")]
    NoTimes(Format),
    /// Format CSV without a mapping.
    #[error("a CSV trace needs a mapping of its columns")]
    NoMapping,
    /// The mapping does not fit the file.
    #[error("the column mapping does not fit: {0}")]
    Mapping(MappingError),
    /// Not a Parquet file of ours.
    #[error("is no Parquet trace of Evenkeel's: {0}")]
    Parquet(String),
}

impl TraceError {
    pub(crate) fn new(file: &Path, place: Option<Place>, kind: ErrorKind) -> Self {
        Self(Box::new(Inner { file: file.to_owned(), place, kind }))
    }

    /// The trace.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.0.file
    }

    /// Where in it, if anywhere in particular.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        self.0.place
    }

    /// What is wrong.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self.kind() {
            ErrorKind::Io(_) => "check the path and its permissions".to_owned(),
            ErrorKind::Damaged(_) => {
                "fetch or compress the file again; decompress by hand what can be saved".to_owned()
            }
            ErrorKind::Lost(_) => "check that the format is right, and fetch the file again".to_owned(),
            ErrorKind::Truncated => "fetch the file again, or cut it after the last whole request".to_owned(),
            ErrorKind::Empty { .. } => {
                "check that this is the right file, and that its format is the one named".to_owned()
            }
            ErrorKind::Unrecognised => format!(
                "name the format with --format ({}); for other layouts, --format csv --columns MAPPING",
                Format::ALL.map(Format::name).join(", ")
            ),
            ErrorKind::Ambiguous(formats) => {
                let choices: Vec<String> =
                    formats.iter().map(|format| format!("--format {format} ({})", format.layout())).collect();
                format!("name one: {}", choices.join("; "))
            }
            ErrorKind::Malformed { .. } => {
                "correct the lines, name another --format, or allow more with --malformed-max".to_owned()
            }
            ErrorKind::Backwards { .. } => {
                "sort the trace by time, or let it be sorted within a window of requests with --reorder N"
                    .to_owned()
            }
            ErrorKind::BeyondDevice { .. } => {
                "state a larger capacity, or fit the trace to it with `evenkeel trace scale --fit`".to_owned()
            }
            ErrorKind::NoTimes(_) => "state the time between requests with --interval, e.g. 1ms".to_owned(),
            ErrorKind::NoMapping => format!("give one with --columns, e.g. {}", crate::csv::EXAMPLE),
            ErrorKind::Mapping(error) => error.remedy(),
            ErrorKind::Parquet(_) => {
                "name another --format, or write the file with `evenkeel trace convert`".to_owned()
            }
        }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.0.file.display())?;
        if let Some(place) = self.0.place {
            write!(f, "{place}: ")?;
        }
        write!(f, "{}", self.0.kind)
    }
}

impl std::error::Error for TraceError {}

fn malformed_note(malformed: u64) -> String {
    if malformed == 0 { String::new() } else { format!(" ({malformed} malformed lines were left out)") }
}

fn listed(formats: &[Format]) -> String {
    formats.iter().map(|format| format.name()).collect::<Vec<_>>().join(", ")
}

fn shown(first: &[MalformedLine]) -> String {
    let few: Vec<String> = first.iter().take(3).map(ToString::to_string).collect();
    few.join("; ")
}
