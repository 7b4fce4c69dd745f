//! `evenkeel trace`: block traces of many formats.
//!
//! ```text
//!  file ──> Reader ──┬─ info      statistics, a figure
//!                    ├─ convert   ┐
//!                    ├─ slice     │
//!                    ├─ scale     ├─> Output: temporary file, renamed when it is whole
//!                    └─ merge     │
//!  personality ─────── generate   ┘
//! ```

use std::fmt;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use evenkeel_trace::write::WriteError;
use evenkeel_trace::{Reader, TraceError};
use serde_json::{Value, json};

use crate::report::print;

mod edit;
mod figure;
mod generate;
mod info;
mod input;
mod merge;
mod output;
mod units;

const WHOLE: u8 = 0;
const LINES_LEFT_OUT: u8 = 1;
const FAILED: u8 = 2;

const EXIT_CODES: &str = "Exit codes:
  0  done
  1  done, but malformed lines were left out (they are named)
  2  the trace, the output or the command line is wrong; nothing was written

Formats, gzip and zstd are recognised by content. Where more than one format fits, name it with --format.";

/// Options of `evenkeel trace`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    command: TraceCommand,
}

#[derive(Debug, Subcommand)]
enum TraceCommand {
    /// Say what a trace is like: rate, bursts, sizes, sequences, footprint
    Info(info::InfoArgs),
    /// Write a trace in another format
    Convert(edit::ConvertArgs),
    /// Keep a part of a trace: a time, some volumes, a number of requests
    Slice(edit::SliceArgs),
    /// Make a trace faster or slower, or fit it to a device
    Scale(edit::ScaleArgs),
    /// Put several traces into one, in order of time
    Merge(merge::MergeArgs),
    /// Make a trace of a workload of the papers
    Generate(generate::GenerateArgs),
    /// List the formats
    Formats(info::FormatsArgs),
}

/// Does what the command line asks; the process's exit code.
pub(crate) fn run(args: &TraceArgs) -> u8 {
    match &args.command {
        TraceCommand::Info(args) => info::run(args),
        TraceCommand::Convert(args) => edit::convert(args),
        TraceCommand::Slice(args) => edit::slice(args),
        TraceCommand::Scale(args) => edit::scale(args),
        TraceCommand::Merge(args) => merge::run(args),
        TraceCommand::Generate(args) => generate::run(args),
        TraceCommand::Formats(args) => info::formats(args),
    }
}

/// What went wrong, and what to do.
#[derive(Debug)]
struct Problem {
    file: Option<PathBuf>,
    line: Option<u64>,
    message: String,
    remedy: String,
}

impl Problem {
    fn new(file: Option<PathBuf>, message: impl fmt::Display, remedy: &str) -> Self {
        Self { file, line: None, message: message.to_string(), remedy: remedy.to_owned() }
    }

    fn of_writing(file: &std::path::Path, error: &WriteError) -> Self {
        Self::new(Some(file.to_owned()), error, &error.remedy())
    }
}

impl From<TraceError> for Problem {
    fn from(error: TraceError) -> Self {
        Self {
            file: Some(error.file().to_owned()),
            line: error.place().map(|place| place.number()),
            message: match error.place() {
                Some(place) => format!("{place}: {}", error.kind()),
                None => error.kind().to_string(),
            },
            remedy: error.remedy(),
        }
    }
}

/// Shows the result of a command: `Ok` holds the text for people, the object for programs, and how many
/// malformed lines were left out.
fn finish(result: Result<(String, Value, u64), Problem>, json: bool) -> u8 {
    match result {
        Ok((text, mut object, malformed)) => {
            if json {
                object["ok"] = json!(malformed == 0);
                print(&format!("{object}\n"));
            } else {
                print(&text);
            }
            if malformed == 0 { WHOLE } else { LINES_LEFT_OUT }
        }
        Err(problem) => {
            if json {
                let Problem { file, line, message, remedy } = &problem;
                let file = file.as_ref().map(|file| file.to_string_lossy());
                let problem = json!({ "file": file, "line": line, "message": message, "remedy": remedy });
                print(&format!("{}\n", json!({ "ok": false, "problems": [problem] })));
            } else {
                let place = problem.file.map(|file| format!("{}: ", file.display())).unwrap_or_default();
                eprintln!("{place}{}\n  remedy: {}", problem.message, problem.remedy);
            }
            FAILED
        }
    }
}

/// Names on standard error what was left out of a trace; how many lines that is.
fn warn_malformed(reader: &Reader, json: bool) -> u64 {
    let report = reader.report();
    if report.malformed > 0 && !json {
        eprintln!("{}: {} malformed lines were left out:", reader.file().display(), report.malformed);
        for line in &report.malformed_lines {
            eprintln!("  {line}");
        }
        if report.malformed > report.malformed_lines.len() as u64 {
            eprintln!("  and {} more", report.malformed - report.malformed_lines.len() as u64);
        }
    }
    report.malformed
}
