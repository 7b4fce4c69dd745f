//! `evenkeel trace convert`, `slice` and `scale`: one trace in, one out.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use evenkeel_core::Span;
use evenkeel_trace::Reader;
use evenkeel_trace::statistics::Statistics;
use evenkeel_trace::transform::{Factor, Fit, Scale, Slice, Verdict};
use serde_json::Value;

use super::input::{InputArgs, for_each};
use super::output::OutputArgs;
use super::{EXIT_CODES, Problem, finish, units, warn_malformed};

/// Options of `evenkeel trace convert`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct ConvertArgs {
    /// The trace
    file: PathBuf,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Options of `evenkeel trace slice`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct SliceArgs {
    /// The trace
    file: PathBuf,
    /// Keep requests from this time on, like 90s, counted from the first
    #[arg(long, value_name = "TIME", value_parser = units::span)]
    from: Option<Span>,
    /// Keep requests before this time
    #[arg(long, value_name = "TIME", value_parser = units::span)]
    until: Option<Span>,
    /// Keep requests to this volume; may be given several times
    #[arg(long, value_name = "NAME")]
    volume: Vec<String>,
    /// Keep at most so many requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Options of `evenkeel trace scale`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct ScaleArgs {
    /// The trace
    file: PathBuf,
    /// How many times as fast: 2 halves all times, 0.5 and 1/3 slow down
    #[arg(long, value_name = "FACTOR", required_unless_present_any = ["iops", "fit"])]
    speed: Option<Factor>,
    /// The mean rate to reach, in requests per second; reads the trace twice
    #[arg(long, value_name = "N", conflicts_with = "speed", value_parser = clap::value_parser!(u64).range(1..))]
    iops: Option<u64>,
    /// Bring all addresses within this size
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    fit: Option<u64>,
    /// How addresses are brought within it
    #[arg(long, value_enum, default_value_t = FitName::Wrap, requires = "fit")]
    fit_by: FitName,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FitName {
    /// Modulo the size: sequences stay sequences
    Wrap,
    /// In proportion: distances stay in proportion; reads the trace twice
    Shrink,
}

type Done = Result<(String, Value, u64), Problem>;

/// Writes the trace in another format; the process's exit code.
pub(super) fn convert(args: &ConvertArgs) -> u8 {
    let converted = || {
        let mut output = args.output.begin()?;
        let mut reader = args.input.open(&args.file)?;
        for_each(&mut reader, args.json, |request, volumes| output.write(request, volumes).map(|()| true))?;
        done(output.finish()?, &reader, args.json)
    };
    finish(converted(), args.json)
}

/// Writes a part of the trace; the process's exit code.
pub(super) fn slice(args: &SliceArgs) -> u8 {
    let slice = Slice { from: args.from, to: args.until, volumes: args.volume.clone(), count: args.count };
    let sliced = || {
        let mut output = args.output.begin()?;
        let mut reader = args.input.open(&args.file)?;
        let mut kept = 0;
        for_each(&mut reader, args.json, |request, volumes| {
            match slice.verdict(request, &volumes[request.volume as usize], kept) {
                Verdict::Keep => {
                    kept += 1;
                    output.write(request, volumes)?;
                }
                Verdict::Drop => {}
                Verdict::End => return Ok(false),
            }
            Ok(true)
        })?;
        done(output.finish()?, &reader, args.json)
    };
    finish(sliced(), args.json)
}

/// Writes the trace at another speed or for another size; the process's exit code.
pub(super) fn scale(args: &ScaleArgs) -> u8 {
    let scaled = || {
        let mut output = args.output.begin()?;
        let scale = args.scale()?;
        let mut reader = args.input.open(&args.file)?;
        for_each(&mut reader, args.json, |request, volumes| {
            let scaled = scale.apply(request).map_err(|error| {
                Problem::new(Some(args.file.clone()), error, "choose a larger size, or a larger factor")
            })?;
            output.write(&scaled, volumes).map(|()| true)
        })?;
        done(output.finish()?, &reader, args.json)
    };
    finish(scaled(), args.json)
}

impl ScaleArgs {
    /// What to do with each request; reads the trace first if that depends on all of it.
    fn scale(&self) -> Result<Scale, Problem> {
        let shrink = matches!(self.fit_by, FitName::Shrink) && self.fit.is_some();
        let mut statistics = Statistics::new();
        if shrink || self.iops.is_some() {
            let mut reader = self.input.open(&self.file)?;
            for_each(&mut reader, self.json, |request, _| {
                statistics.add(request);
                Ok(true)
            })?;
        }
        let speed = match self.iops {
            None => self.speed.unwrap_or(Factor::ONE),
            Some(iops) => rate(iops, &statistics).ok_or_else(|| {
                let remedy = "scale a trace that lasts longer, or give --speed";
                Problem::new(
                    Some(self.file.clone()),
                    "has no mean rate: all its requests come at once",
                    remedy,
                )
            })?,
        };
        let fit = match self.fit_by {
            FitName::Wrap => Fit::Wrap,
            FitName::Shrink => Fit::Shrink { extent: statistics.all().extent },
        };
        Ok(Scale { speed, fit: self.fit.map(|capacity| (capacity, fit)) })
    }
}

/// The factor that brings a trace to `iops`: wanted over found, `iops × span / requests`.
fn rate(iops: u64, statistics: &Statistics) -> Option<Factor> {
    let mut above = u128::from(iops) * u128::from(statistics.span().as_nanos());
    let mut below = u128::from(statistics.all().requests) * 1_000_000_000;
    // To 64 bits each; what is lost is below 2^-60 of the factor.
    while above > u128::from(u64::MAX) || below > u128::from(u64::MAX) {
        above >>= 1;
        below >>= 1;
    }
    Factor::new(above as u64, below as u64)
}

fn done((text, object): (String, Value), reader: &Reader, json: bool) -> Done {
    Ok((text, object, warn_malformed(reader, json)))
}
