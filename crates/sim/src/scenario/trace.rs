//! `workload = { trace = "FILE" }`: which trace a part of a workload replays, and how it is opened.

use std::path::PathBuf;

use evenkeel_core::Span;
use evenkeel_trace::{CsvMapping, ErrorKind, Event, Format, Options, Reader, TraceError, TraceRequest, open};

use crate::source::{TraceAccount, TraceFault, TraceRequests, TraceStream};

/// A trace that a scenario names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSpec {
    /// The file; relative paths have been joined to the scenario's folder.
    pub path: PathBuf,
    /// The format, if the scenario says; otherwise it is recognised.
    pub format: Option<Format>,
    /// Only the requests to this volume.
    pub volume: Option<u32>,
    /// Malformed lines that are left out before the trace is refused.
    pub malformed_max: u64,
    /// Requests within which the order may be wrong.
    pub reorder: usize,
    /// Which event of a request counts as its arrival (blktrace, blkparse).
    pub event: Event,
    /// The time between requests, for formats that hold no times.
    pub interval: Option<Span>,
    /// What the columns of a CSV trace mean.
    pub columns: Option<CsvMapping>,
}

impl TraceSpec {
    /// The requests of the trace, as they are read: memory does not depend on its length. One that ends
    /// beyond a device of `capacity` bytes is refused with its place.
    ///
    /// # Errors
    /// If the file cannot be opened or its format not be recognised.
    pub fn open(&self, capacity: Option<u64>) -> Result<TraceRequests, TraceFault> {
        let options = Options {
            // A mapping says that it is CSV.
            format: self.format.or(self.columns.as_ref().map(|_| Format::Csv)),
            malformed_max: self.malformed_max,
            reorder: self.reorder,
            event: self.event,
            interval: self.interval,
            csv: self.columns.clone(),
            capacity,
            capacity_of: self.volume,
            ..Options::default()
        };
        let reader = open(&self.path, &options).map_err(|error| told(&error))?;
        Ok(Box::new(Wanted { reader, volume: self.volume }))
    }
}

/// The requests to one volume of a file, or to all.
struct Wanted {
    reader: Reader,
    volume: Option<u32>,
}

impl TraceStream for Wanted {
    fn next_request(&mut self) -> Option<Result<TraceRequest, TraceFault>> {
        let volume = self.volume;
        let is_wanted = |request: &TraceRequest| volume.is_none_or(|volume| request.volume == volume);
        let next = self.reader.find(|request| request.as_ref().map_or(true, is_wanted))?;
        Some(next.map_err(|error| told(&error)))
    }

    fn account(&self) -> Option<TraceAccount> {
        Some(TraceAccount { file: self.reader.file().to_owned(), report: self.reader.report().clone() })
    }
}

/// The error, with a remedy in the words of scenarios where the reader's is an option of `evenkeel trace`.
fn told(error: &TraceError) -> TraceFault {
    let named = |formats: &[Format]| {
        let choices: Vec<String> =
            formats.iter().map(|format| format!("format = \"{format}\" ({})", format.layout())).collect();
        format!("write one beside trace: {}", choices.join("; "))
    };
    let remedy = match error.kind() {
        ErrorKind::Backwards { .. } => {
            "sort the trace by time, or write reorder = N beside trace, the number of requests within which to sort"
                .to_owned()
        }
        ErrorKind::Malformed { .. } => {
            "correct the lines, write another format, or malformed_max = N to leave out more".to_owned()
        }
        ErrorKind::BeyondDevice { .. } => {
            "use a larger device, or fit the trace to this one with `evenkeel trace scale --fit`".to_owned()
        }
        ErrorKind::Unrecognised => format!(
            "write format = \"NAME\" beside trace ({}); for other layouts, columns = \"MAPPING\"",
            Format::ALL.map(Format::name).join(", ")
        ),
        ErrorKind::Ambiguous(formats) => named(formats),
        ErrorKind::NoTimes(_) => "write interval = \"1 ms\" or the like beside trace".to_owned(),
        ErrorKind::NoMapping => {
            format!("write one beside trace, as columns = \"{}\"", evenkeel_trace::csv::EXAMPLE)
        }
        ErrorKind::Parquet(_) => {
            "write another format beside trace, or the file anew with `evenkeel trace convert`".to_owned()
        }
        _ => error.remedy(),
    };
    let place = error.place();
    let message = match place {
        Some(place) => format!("{place}: {}", error.kind()),
        None => error.kind().to_string(),
    };
    let line = place.map(evenkeel_trace::Place::number);
    TraceFault { file: Some(error.file().to_owned()), line, message, remedy }
}
