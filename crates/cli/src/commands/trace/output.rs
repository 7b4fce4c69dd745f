//! Writing a trace so that a file is there whole or not at all, and none is lost.
//!
//! ```text
//!  --output FILE ──exists, no --force──> refused before anything is read
//!       │
//!       └──> temporary file beside it ──> synced ──> renamed
//! ```

use std::io::BufWriter;
use std::path::{Path, PathBuf};

use clap::Args;
use evenkeel_trace::write::{WRITABLE, Writer, Written};
use evenkeel_trace::{Format, TraceRequest};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::Problem;

/// Where a trace is written, and how.
#[derive(Debug, Args)]
pub(super) struct OutputArgs {
    /// The file to write
    #[arg(short, long, visible_alias = "out", value_name = "FILE")]
    pub(super) output: PathBuf,
    /// The format to write; otherwise the file's name tells: .parquet, .csv, .spc, .msr, .disksim,
    /// .fio3, .mqsim or .blkparse, then perhaps .gz
    #[arg(long, value_name = "NAME")]
    to: Option<Format>,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// Leave out requests that the format cannot express, and say how many
    #[arg(long)]
    drop: bool,
}

/// A trace that is being written.
pub(super) struct Output<'a> {
    args: &'a OutputArgs,
    format: Format,
    file: NamedTempFile,
    writer: Writer,
}

impl OutputArgs {
    fn problem(&self, message: impl std::fmt::Display, remedy: &str) -> Problem {
        Problem::new(Some(self.output.clone()), message, remedy)
    }

    /// Whether the name asks for gzip, and the extension before that.
    fn extension(&self) -> (bool, Option<String>) {
        let lower = |path: &Path| path.extension().map(|name| name.to_string_lossy().to_lowercase());
        match lower(&self.output) {
            Some(name) if name == "gz" => {
                (true, self.output.file_stem().and_then(|stem| lower(Path::new(stem))))
            }
            name => (false, name),
        }
    }

    /// Begins the trace.
    pub(super) fn begin(&self) -> Result<Output<'_>, Problem> {
        let (gzip, extension) = self.extension();
        let named = || {
            let found = extension.as_deref().and_then(|name| name.parse::<Format>().ok());
            found.filter(|format| WRITABLE.contains(format))
        };
        let Some(format) = self.to.or_else(named) else {
            let names = WRITABLE.map(Format::name).join(", ");
            return Err(self.problem("the name does not tell the format", &format!("give --to: {names}")));
        };
        if extension.as_deref() == Some("zst") || (gzip && format == Format::Parquet) {
            let remedy = "leave the last extension away; Parquet compresses by itself, others may end in .gz";
            return Err(self.problem("cannot be compressed that way", remedy));
        }
        if !self.force && self.output.symlink_metadata().is_ok() {
            return Err(self.problem("exists already", "name another file, or replace it with --force"));
        }
        let folder = match self.output.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let refused = |error: std::io::Error| self.problem(error, "check the folder and its permissions");
        let mut builder = tempfile::Builder::new();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // As any other new file: the umask takes away from it.
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let file = builder.prefix(".evenkeel-trace-").tempfile_in(folder).map_err(refused)?;
        let sink = BufWriter::with_capacity(1 << 18, file.reopen().map_err(refused)?);
        let writer = Writer::new(Box::new(sink), format, gzip, self.drop)
            .map_err(|error| Problem::of_writing(&self.output, &error))?;
        Ok(Output { args: self, format, file, writer })
    }
}

impl Output<'_> {
    pub(super) fn write(&mut self, request: &TraceRequest, volumes: &[String]) -> Result<(), Problem> {
        self.writer.write(request, volumes).map_err(|error| Problem::of_writing(&self.args.output, &error))
    }

    /// Puts the file in its place; what to say about it, for people and for programs.
    pub(super) fn finish(self) -> Result<(String, Value), Problem> {
        let Self { args, format, file, writer } = self;
        let written = writer.finish().map_err(|error| Problem::of_writing(&args.output, &error))?;
        if written.requests == 0 {
            return Err(args.problem("no request would be left", "change what is kept; nothing was written"));
        }
        let refused =
            |error: std::io::Error| args.problem(error, "check the space and the permissions there");
        file.as_file().sync_all().map_err(refused)?;
        let placed =
            if args.force { file.persist(&args.output) } else { file.persist_noclobber(&args.output) };
        placed.map_err(|error| refused(error.error))?;
        let Written { requests, dropped, rounded } = written;
        let mut text = format!("{}: {requests} requests as {format}", args.output.display());
        if dropped > 0 {
            text += &format!("; {dropped} left out that it cannot express");
        }
        if rounded > 0 {
            text += &format!("; {rounded} times rounded down to what it can express");
        }
        text.push('\n');
        let object = json!({
            "output": args.output.to_string_lossy(),
            "format": format.name(),
            "requests": requests,
            "dropped": dropped,
            "rounded": rounded,
        });
        Ok((text, object))
    }
}
