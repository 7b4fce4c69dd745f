//! `evenkeel plan`: what to promise, whether it fits, and what to relax.
//!
//! ```text
//!  traces ──┬─ fit ─────────> promises, the curve and its knee, a fragment for the configuration
//!           ├─ fleet ───────> the same for a folder of traces, in parallel, as a table
//!           └─ consolidate ─> what sharing one store saves, under each scheduler
//!  file ────┬─ capacity ────> bounds, and with --trace the exact need, side by side
//!           └─ what-if ─────> the smallest relaxation of any one parameter that makes it fit
//! ```

use std::io::IsTerminal;
use std::time::Duration;

use clap::{Args, Subcommand};
use evenkeel_core::{CostModel, Rate};
use evenkeel_gateway::config::{Config, parse_cost};
use evenkeel_plan::{Target, parse_targets};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::report::print;

mod capacity;
mod consolidate;
mod figure;
mod fit;
mod fleet;
mod what_if;

const DONE: u8 = 0;
const DOES_NOT_FIT: u8 = 1;
const BAD_INPUT: u8 = 2;

const EXIT_CODES: &str = "Exit codes:
  0  planned; everything that was asked about fits
  1  planned; something does not fit the capacity that is stated
  2  a trace, the configuration or the command line is wrong";

/// Options of `evenkeel plan`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct PlanArgs {
    #[command(subcommand)]
    command: PlanCommand,
}

#[derive(Debug, Subcommand)]
enum PlanCommand {
    /// Find the promise that covers wanted fractions of a trace most cheaply
    Fit(fit::FitArgs),
    /// What the promises of a configuration need: bounds, and the exact need of given traces
    Capacity(capacity::CapacityArgs),
    /// What it saves to put several traces on one store, under each scheduler
    Consolidate(consolidate::ConsolidateArgs),
    /// The smallest relaxation of any one parameter that makes a configuration fit
    WhatIf(what_if::WhatIfArgs),
    /// Fit every trace of a folder
    Fleet(fleet::FleetArgs),
}

/// Plans; the process's exit code.
pub(crate) fn run(args: &PlanArgs) -> u8 {
    match &args.command {
        PlanCommand::Fit(args) => fit::run(args),
        PlanCommand::Capacity(args) => capacity::run(args),
        PlanCommand::Consolidate(args) => consolidate::run(args),
        PlanCommand::WhatIf(args) => what_if::run(args),
        PlanCommand::Fleet(args) => fleet::run(args),
    }
}

/// Says what is wrong; the exit code of bad input.
fn failed(message: &str, json: bool) -> u8 {
    if json {
        print(&format!("{}\n", json!({ "ok": false, "message": message })));
    }
    eprintln!("evenkeel: {message}");
    BAD_INPUT
}

/// Classes as the command line has them.
fn classes(text: &str) -> Result<Classes, String> {
    parse_targets(text).map(Classes).map_err(|error| error.to_string())
}

/// Wanted classes. A type of its own, so that the command line does not take it for a repeated option.
#[derive(Clone, Debug)]
struct Classes(Vec<Target>);

/// Prices as a store of a configuration has them.
fn prices(text: &str) -> Result<CostModel, String> {
    parse_cost(text).map_err(|error| error.to_string())
}

/// `2500 IOPS`, or only the number.
fn iops(text: &str) -> Result<Rate, String> {
    const FORM: &str = "write requests per second with at most three decimals, such as \"2500 IOPS\" or 2500";
    let number = text.trim().trim_end_matches("IOPS").trim();
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 3 {
        return Err(FORM.to_owned());
    }
    let millis = format!("{part:0<3}").parse::<u64>().map_err(|_| FORM)?;
    let whole = whole.parse::<u64>().ok().and_then(|whole| whole.checked_mul(1_000));
    whole.and_then(|whole| whole.checked_add(millis)).map(Rate::from_millis).ok_or_else(|| FORM.to_owned())
}

/// The store with this name, or the only one.
fn store_index(config: &Config, name: Option<&str>) -> Result<usize, String> {
    let names: Vec<&str> = config.stores.iter().map(|store| store.name.as_str()).collect();
    match (name, names.len()) {
        (None, 1) => Ok(0),
        (None, _) => Err(format!("there are several stores; choose one with --store: {}", names.join(", "))),
        (Some(name), _) => names
            .iter()
            .position(|it| *it == name)
            .ok_or_else(|| format!("there is no store {name:?}; there are {}", names.join(", "))),
    }
}

/// A bar or a spinner on standard error, only on a terminal.
pub(super) fn progress(length: Option<u64>, message: &'static str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match length {
        Some(length) => (ProgressBar::new(length), "{msg} [{bar:40}] {pos}/{len} {eta}"),
        None => (ProgressBar::new_spinner(), "{spinner} {msg} {pos} {elapsed}"),
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(message);
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
