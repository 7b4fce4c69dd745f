//! `evenkeel calibrate`: what a device gives, measured and written down as a profile.
//!
//! ```text
//!  TARGET, NBD address or --model ──> long run ──> grid of cells ──> Profile ──> --out FILE ──> show, [store] profile
//! ```

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use evenkeel_calibrate::{Cell, Goal, Grid, Profile};
use evenkeel_core::Span;
use evenkeel_strict::values;
use serde_json::json;

use crate::report::print;

mod facts;
mod figure;
mod nbd;
mod run;
mod show;

/// Measured, or shown.
const DONE: u8 = 0;
/// Measured and written, but something is to be looked at.
const FINDING: u8 = 1;
/// The target, a profile or the command line is wrong.
const BAD_INPUT: u8 = 2;

const EXIT_CODES: &str = "Exit codes:
  0  measured and written; steady, and every interval is as narrow as asked for
  1  measured and written, but throughput drifts, a burst credit was used up, or intervals stay wide
  2  the target or the command line is wrong, or an access failed; nothing was written

Nothing is written to the target unless --writes says so, and then only inside --range. While it measures,
nothing else should use the device.";

/// Options of `evenkeel calibrate`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES, args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(crate) struct CalibrateArgs {
    #[command(subcommand)]
    command: Option<CalibrateCommand>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, Subcommand)]
enum CalibrateCommand {
    /// Print a profile, and draw it
    Show(show::ShowArgs),
}

/// What to measure, and how well.
#[derive(Debug, Args)]
struct RunArgs {
    /// The file or block device, or the address of an export: nbd://HOST:PORT/EXPORT or
    /// nbd+unix:///EXPORT?socket=PATH
    #[arg(required_unless_present = "model")]
    target: Option<PathBuf>,
    /// A device model in virtual time instead: the name of a drive, or the file of a description
    #[arg(long, value_name = "DRIVE|FILE", conflicts_with_all = ["target", "scratch", "range", "allow_holes"])]
    model: Option<String>,
    /// Where to write the profile; an existing file is not overwritten
    #[arg(long, short, visible_alias = "output", value_name = "FILE", required = true)]
    out: Option<PathBuf>,
    /// Overwrite the profile
    #[arg(long)]
    force: bool,
    /// Measure writes too; needs --range and --destroy-data, or --scratch
    #[arg(long)]
    writes: bool,
    /// Stay inside these bytes: "0 B..1 GiB"
    #[arg(long, value_name = "FROM..TO", value_parser = range)]
    range: Option<(u64, u64)>,
    /// Consent to losing what is inside --range
    #[arg(long, requires = "range")]
    destroy_data: bool,
    /// Make TARGET, a file that does not exist, with so many bytes, and remove it at the end
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with_all = ["range", "destroy_data"])]
    scratch: Option<u64>,
    /// Measure a file with holes all the same: where there are some, reads measure memory
    #[arg(long)]
    allow_holes: bool,
    /// Sizes of accesses, multiples of 4 KiB
    #[arg(long, value_delimiter = ',', value_parser = access_size, default_value = "4 KiB,16 KiB,64 KiB,256 KiB,1 MiB")]
    sizes: Vec<u32>,
    /// Depths: how many accesses are outstanding
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1024), default_value = "1,2,4,8,16,32,64")]
    depths: Vec<u32>,
    /// How far the 95 % confidence interval may reach to either side, in percent of the mean
    #[arg(long, value_parser = percent, default_value = "5%")]
    precision: f64,
    /// The most time for each size, depth and pattern
    #[arg(long, value_parser = span, default_value = "4 s")]
    time_limit: Span,
    /// How long to read at the largest depth first, to see credits and drift; "0 s" for not at all
    #[arg(long, value_parser = span, default_value = "20 s")]
    sustain: Span,
    /// Seed of the offsets
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Calibrates or shows; the process's exit code.
pub(crate) fn run(args: &CalibrateArgs) -> u8 {
    match &args.command {
        Some(CalibrateCommand::Show(args)) => show::run(args),
        None => run::run(&args.run),
    }
}

impl RunArgs {
    fn grid(&self) -> Grid {
        let mut grid = Grid { sizes: self.sizes.clone(), depths: self.depths.clone(), writes: self.writes };
        grid.sizes.sort_unstable();
        grid.sizes.dedup();
        grid.depths.sort_unstable();
        grid.depths.dedup();
        grid
    }

    fn goal(&self) -> Goal {
        let least = Goal::default().least.min(self.time_limit);
        Goal { precision: self.precision, least, most: self.time_limit, seed: self.seed, ..Goal::default() }
    }
}

/// The long run: reads of the smallest size at the largest depth.
fn long_cell(grid: &Grid) -> Option<Cell> {
    let (bytes, depth) = (*grid.sizes.first()?, *grid.depths.last()?);
    Some(Cell { writes: false, pattern: evenkeel_calibrate::Pattern::Random, bytes, depth })
}

/// Reads the profile at `path`.
fn load(path: &Path) -> Result<Profile, evenkeel_strict::ConfigError> {
    evenkeel_gateway::config::load_profile(path)
}

/// Says what is wrong; the exit code of bad input.
fn failed(message: &str, json: bool) -> u8 {
    if json {
        print(&format!("{}\n", json!({ "ok": false, "message": message })));
    }
    eprintln!("evenkeel: {message}");
    BAD_INPUT
}

fn size(text: &str) -> Result<u64, String> {
    values::bytes(text).map_err(|fault| format!("{}; {}", fault.message, fault.remedy))
}

fn access_size(text: &str) -> Result<u32, String> {
    let bytes = size(text.trim())?;
    let fits = bytes > 0 && bytes.is_multiple_of(4096) && bytes <= 32 << 20;
    u32::try_from(bytes)
        .ok()
        .filter(|_| fits)
        .ok_or_else(|| "write a multiple of 4 KiB up to 32 MiB".to_owned())
}

fn span(text: &str) -> Result<Span, String> {
    values::span(text).map_err(|fault| format!("{}; {}", fault.message, fault.remedy))
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let (from, to) = text.split_once("..").ok_or("write FROM..TO, as \"0 B..1 GiB\"")?;
    let (from, to) = (size(from.trim())?, size(to.trim())?);
    match from < to && from.is_multiple_of(4096) && to.is_multiple_of(4096) {
        true => Ok((from, to)),
        false => Err("write FROM below TO, both multiples of 4 KiB".to_owned()),
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end().parse::<f64>().ok();
    let number = number.filter(|number| (0.01..=50.0).contains(number));
    number.map(|number| number / 100.0).ok_or_else(|| "write 0.01 to 50, as \"5%\"".to_owned())
}

/// The present as `2026-01-31T12:34:56Z`.
fn date() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    date_of(since)
}

/// The date so many seconds after 1970 (the civil calendar in whole-number steps: years from 1970, then
/// months).
fn date_of(seconds: u64) -> String {
    let (mut days, second) = (seconds / 86_400, seconds % 86_400);
    let mut year = 1970_u64;
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, rest) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{rest:02}Z", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(date_of(seconds), date);
        }
    }

    #[test]
    fn values_of_the_command_line_are_read_or_refused() {
        assert_eq!(range("4 KiB..1 MiB"), Ok((4096, 1 << 20)));
        assert!(range("1 MiB..4 KiB").is_err() && range("1 B..4 KiB").is_err() && range("4 KiB").is_err());
        assert_eq!(access_size("4 KiB"), Ok(4096));
        assert!(access_size("5 KiB").is_err() && access_size("64 MiB").is_err());
        assert!(percent("5%").is_ok_and(|it| (it - 0.05).abs() < 1e-12) && percent("0").is_err());
    }
}
