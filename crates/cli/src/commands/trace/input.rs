//! Opening a trace as the command line says, with live progress.

use std::path::Path;

use clap::{Args, ValueEnum};
use evenkeel_core::Span;
use evenkeel_trace::{CsvMapping, Event, Format, Options, Reader, TraceRequest, open};
use indicatif::{ProgressBar, ProgressStyle};

use super::{Problem, units};

/// How traces are read.
#[derive(Debug, Args)]
pub(super) struct InputArgs {
    /// The format (see `evenkeel trace formats`), instead of recognising it
    #[arg(long, value_name = "NAME")]
    format: Option<Format>,
    /// Malformed lines to leave out before the trace is refused
    #[arg(long, value_name = "N", default_value_t = 100)]
    malformed_max: u64,
    /// Size of the device, like 1.5TiB: a request beyond it is an error
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    capacity: Option<u64>,
    /// Sort by time within a window of so many requests
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = reorder)]
    reorder: usize,
    /// Which event of blktrace and blkparse traces is the arrival
    #[arg(long, value_enum, default_value_t = EventName::Queued)]
    event: EventName,
    /// Time between requests, like 1ms, for formats that hold no times
    #[arg(long, value_name = "TIME", value_parser = units::span)]
    interval: Option<Span>,
    /// Columns of a CSV trace, like time=1*us,operation=2,offset=3*512,length=4,volume=5,read=0,write=1
    #[arg(long, value_name = "MAPPING")]
    columns: Option<CsvMapping>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum EventName {
    /// It came to the block layer (Q)
    Queued,
    /// It went to the driver (D)
    Issued,
    /// It was completed (C)
    Completed,
}

fn reorder(text: &str) -> Result<usize, String> {
    let window = text.parse().ok().filter(|window| *window <= 1 << 20);
    window.ok_or_else(|| "not a number from 0 to 1048576".to_owned())
}

impl InputArgs {
    /// Opens `file`.
    pub(super) fn open(&self, file: &Path) -> Result<Reader, Problem> {
        let options = Options {
            // A mapping says that it is CSV.
            format: self.format.or(self.columns.as_ref().map(|_| Format::Csv)),
            malformed_max: self.malformed_max,
            capacity: self.capacity,
            reorder: self.reorder,
            event: match self.event {
                EventName::Queued => Event::Queued,
                EventName::Issued => Event::Issued,
                EventName::Completed => Event::Completed,
            },
            interval: self.interval,
            csv: self.columns.clone(),
            ..Options::default()
        };
        Ok(open(file, &options)?)
    }
}

/// Shows on a terminal how much of a file was read.
pub(super) struct Progress {
    bar: ProgressBar,
    until_update: u32,
}

/// Requests between updates of the bar.
const UPDATE_EVERY: u32 = 1 << 16;

impl Progress {
    pub(super) fn new(quiet: bool) -> Self {
        let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new(0) };
        let style = ProgressStyle::with_template("{bar:30} {bytes} of {total_bytes}, {eta} left  {wide_msg}")
            .expect("a constant template");
        bar.set_style(style);
        Self { bar, until_update: UPDATE_EVERY }
    }

    /// Takes note of a request from `reader`.
    pub(super) fn step(&mut self, reader: &Reader) {
        let (read, size) = reader.progress();
        self.step_to(|| (read, size));
    }

    /// Takes note of a step; `place` is asked only now and then.
    pub(super) fn step_to(&mut self, place: impl FnOnce() -> (u64, u64)) {
        self.until_update -= 1;
        if self.until_update == 0 {
            self.until_update = UPDATE_EVERY;
            let (done, all) = place();
            self.bar.set_length(all);
            self.bar.set_position(done);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Gives every request of `reader` to `each`, with the names of the volumes so far.
pub(super) fn for_each(
    reader: &mut Reader,
    quiet: bool,
    mut each: impl FnMut(&TraceRequest, &[String]) -> Result<bool, Problem>,
) -> Result<(), Problem> {
    let mut progress = Progress::new(quiet);
    while let Some(request) = reader.next() {
        progress.step(reader);
        if !each(&request?, reader.volumes())? {
            break;
        }
    }
    Ok(())
}
