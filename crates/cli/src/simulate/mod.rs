//! `evenkeel simulate` and `evenkeel compare`: what would happen?
//!
//! ```text
//!  scenario file ──> Scenario ──> runs (a seed, many seeds, many schedulers) on all processors
//!                        │ problems            │
//!                        v                     ├──> tables on the terminal, or JSON
//!                     exit 2                   └──> --out: JSON, SVG, HTML, event log, Parquet
//! ```

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;

use clap::Args;
use evenkeel_sim::run::{Job, Options, run, run_all};
use evenkeel_sim::scenario::{self, Scenario};
use evenkeel_sim::statistics::Replicated;
use evenkeel_sim::{SimError, Summary, TraceFault, scenario::scheduler_names};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use crate::report::{config_error, print};

mod output;
mod tables;

use output::{Folder, Taps};

const KEPT: u8 = 0;
const BROKEN: u8 = 1;
const FAILED: u8 = 2;

/// Slices of a run in which progress is told.
const THOUSANDTHS: u64 = 1_000;

/// The commit that the program was built from.
const COMMIT: Option<&str> = option_env!("EVENKEEL_COMMIT");

const SIMULATE_CODES: &str = "Exit codes:
  0  the scenario ran, and every request inside its envelope met its promise
  1  the scenario ran, and some did not
  2  the scenario is wrong (every problem is listed), or it could not run

The same scenario, seed and version give the same bytes. docs/simulator.md explains scenario files.";

const COMPARE_CODES: &str = "Exit codes:
  0  the scenario ran under every scheduler, whatever came out
  2  the scenario is wrong (every problem is listed), or it could not run

Every scheduler gets the very same arrivals.";

/// Options of `evenkeel simulate`.
#[derive(Debug, Args)]
#[command(after_help = SIMULATE_CODES)]
pub(crate) struct SimulateArgs {
    /// The scenario file
    #[arg(required_unless_present = "schema")]
    scenario: Option<PathBuf>,
    /// Print the JSON Schema of scenario files, and do nothing else
    #[arg(long, exclusive = true)]
    schema: bool,
    /// The scheduler, in place of the scenario's
    #[arg(long, value_name = "NAME")]
    scheduler: Option<String>,
    #[command(flatten)]
    common: Common,
    /// Write every event to events.log in the folder
    #[arg(long, requires = "out", conflicts_with = "seeds")]
    events: bool,
    /// Write every request to requests.parquet in the folder
    #[arg(long, requires = "out", conflicts_with = "seeds")]
    requests: bool,
}

/// Options of `evenkeel compare`.
#[derive(Debug, Args)]
#[command(after_help = COMPARE_CODES)]
pub(crate) struct CompareArgs {
    /// The scenario file
    scenario: PathBuf,
    /// The schedulers, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', required = true)]
    schedulers: Vec<String>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct Common {
    /// The seed of all random numbers, in place of the scenario's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Run with so many seeds, from the first on, and give means with 95 % confidence intervals
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: Option<u64>,
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
    /// Write results, figures and a report into this folder
    #[arg(short, long, visible_alias = "output", value_name = "DIR")]
    out: Option<PathBuf>,
    /// Runs at the same time; as many as there are processors unless given
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
}

/// Why nothing came out.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Run(SimError),
    #[error("the trace of flow {flow:?}: {fault}")]
    Trace { flow: String, fault: TraceFault },
    #[error("there is no scheduler {0:?}; write one of {names}", names = scheduler_names().join(", "))]
    Scheduler(String),
    #[error("{0}")]
    Output(#[from] output::OutputError),
}

impl Failure {
    /// What kept `scenario` from running.
    fn of(scenario: &Scenario, error: SimError) -> Self {
        match error {
            SimError::Trace { flow, source } => Self::Trace {
                flow: scenario.flow_names().get(flow.0 as usize).cloned().unwrap_or_default(),
                fault: source,
            },
            other => Self::Run(other),
        }
    }

    /// As `evenkeel trace` tells it to programs.
    fn problems(&self) -> Vec<Value> {
        match self {
            Self::Trace { flow, fault } => {
                let TraceFault { file, line, message, remedy } = fault;
                let file = file.as_ref().map(|file| file.to_string_lossy());
                vec![
                    json!({ "flow": flow, "file": file, "line": line, "message": message, "remedy": remedy }),
                ]
            }
            _ => Vec::new(),
        }
    }
}

/// Runs `evenkeel simulate`; the process's exit code.
pub(crate) fn simulate(args: &SimulateArgs) -> u8 {
    let Some(file) = args.scenario.as_ref().filter(|_| !args.schema) else {
        print(&format!("{:#}\n", scenario::schema()));
        return KEPT;
    };
    let scenario = match scenario::load(file) {
        Ok(scenario) => scenario,
        Err(error) => {
            config_error(&error, args.common.json);
            return FAILED;
        }
    };
    let done = under(&scenario, args.scheduler.as_deref()).and_then(|scenario| match args.common.seeds {
        Some(seeds) => many(&scenario, seeds, &args.common),
        None => once(&scenario, args),
    });
    done.unwrap_or_else(|failure| failed("simulate", &failure, args.common.json))
}

/// Runs `evenkeel compare`; the process's exit code.
pub(crate) fn compare(args: &CompareArgs) -> u8 {
    let scenario = match scenario::load(&args.scenario) {
        Ok(scenario) => scenario,
        Err(error) => {
            config_error(&error, args.common.json);
            return FAILED;
        }
    };
    let done = compared(&scenario, args);
    done.map_or_else(|failure| failed("compare", &failure, args.common.json), |()| KEPT)
}

fn failed(command: &str, failure: &Failure, as_json: bool) -> u8 {
    if as_json {
        let mut object = json!({ "ok": false, "error": failure.to_string() });
        let problems = failure.problems();
        if !problems.is_empty() {
            object["problems"] = json!(problems);
        }
        print(&format!("{object}\n"));
    } else {
        eprintln!("evenkeel {command}: {failure}");
    }
    FAILED
}

/// The scenario under the scheduler called `name`, if one was asked for.
fn under(scenario: &Scenario, name: Option<&str>) -> Result<Scenario, Failure> {
    match name {
        None => Ok(scenario.clone()),
        Some(name) => scenario.with_scheduler(name).ok_or_else(|| Failure::Scheduler(name.to_owned())),
    }
}

fn once(scenario: &Scenario, args: &SimulateArgs) -> Result<u8, Failure> {
    let common = &args.common;
    let folder = common.out.as_deref().map(Folder::create).transpose()?;
    let options = Options { seed: common.seed.unwrap_or(scenario.seed), commit: COMMIT };
    let bar = progress_bar(THOUSANDTHS, common.json);
    let failed = |error| Failure::of(scenario, error);
    let mut tell = |share: f64| bar.set_position((share * THOUSANDTHS as f64) as u64);
    let summary = match folder.as_ref().filter(|_| args.events || args.requests) {
        None => run(scenario, &options, None, &mut tell).map_err(failed)?,
        Some(folder) => {
            let mut taps = Taps::open(folder, scenario, args.events, args.requests)?;
            let summary = run(scenario, &options, Some(&mut taps), &mut tell).map_err(failed)?;
            taps.finish(folder)?;
            summary
        }
    };
    bar.finish_and_clear();
    if let Some(folder) = &folder {
        output::write_run(folder, scenario, &summary)?;
    }
    if common.json {
        print(&format!("{}\n", json!(summary)));
    } else {
        print(&tables::run(scenario, &summary));
        tell_folder(folder.as_ref());
    }
    Ok(if summary.missed > 0 { BROKEN } else { KEPT })
}

fn many(scenario: &Scenario, seeds: u64, common: &Common) -> Result<u8, Failure> {
    let folder = common.out.as_deref().map(Folder::create).transpose()?;
    let first = common.seed.unwrap_or(scenario.seed);
    let jobs: Vec<Job<'_>> = (0..seeds).map(|step| (scenario, first.wrapping_add(step))).collect();
    let runs = run_jobs(&jobs, common)?;
    // There is at least one seed.
    let Some(replicated) = Replicated::of(&runs) else { return Ok(KEPT) };
    if let Some(folder) = &folder {
        output::write_many(folder, scenario, &replicated, &runs)?;
    }
    if common.json {
        print(&format!("{}\n", json!(replicated)));
    } else {
        print(&tables::many(scenario, &replicated, &runs));
        tell_folder(folder.as_ref());
    }
    Ok(if runs.iter().any(|run| run.missed > 0) { BROKEN } else { KEPT })
}

fn compared(scenario: &Scenario, args: &CompareArgs) -> Result<(), Failure> {
    let common = &args.common;
    let scenarios: Vec<Scenario> =
        args.schedulers.iter().map(|name| under(scenario, Some(name.trim()))).collect::<Result<_, _>>()?;
    let folder = common.out.as_deref().map(Folder::create).transpose()?;
    let (first, seeds) = (common.seed.unwrap_or(scenario.seed), common.seeds.unwrap_or(1));
    let jobs: Vec<Job<'_>> = scenarios
        .iter()
        .flat_map(|scenario| (0..seeds).map(move |step| (scenario, first.wrapping_add(step))))
        .collect();
    let runs = run_jobs(&jobs, common)?;
    let by_scheduler: Vec<&[Summary]> = runs.chunks(seeds as usize).collect();
    let firsts: Vec<Summary> = by_scheduler.iter().filter_map(|runs| runs.first().cloned()).collect();
    let replicated: Vec<Replicated> = by_scheduler.iter().filter_map(|runs| Replicated::of(runs)).collect();
    if let Some(folder) = &folder {
        output::write_comparison(folder, scenario, &firsts, &replicated)?;
    }
    if common.json {
        let results = if seeds == 1 { json!(firsts) } else { json!(replicated) };
        print(&format!("{}\n", json!({ "scenario": scenario.name, "schedulers": results })));
    } else {
        print(&tables::comparison(scenario, &firsts, &replicated));
        tell_folder(folder.as_ref());
    }
    Ok(())
}

fn run_jobs(jobs: &[Job<'_>], common: &Common) -> Result<Vec<Summary>, Failure> {
    let processors = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let bar = progress_bar(jobs.len() as u64 * THOUSANDTHS, common.json);
    let threads = common.threads.unwrap_or(processors);
    // All jobs have the same flows.
    let failed = |error| match jobs.first() {
        Some((scenario, _)) => Failure::of(scenario, error),
        None => Failure::Run(error),
    };
    let runs = run_all(jobs, COMMIT, threads, &|more| bar.inc(more)).map_err(failed)?;
    bar.finish_and_clear();
    Ok(runs)
}

/// On standard error, and only on a terminal.
fn progress_bar(length: u64, hidden: bool) -> ProgressBar {
    let target = if hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = ProgressBar::with_draw_target(Some(length), target);
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {percent:>3} %, {eta} left") {
        bar.set_style(style);
    }
    bar
}

fn tell_folder(folder: Option<&Folder>) {
    if let Some(folder) = folder {
        print(&format!("\nwritten to {}: open report.html\n", folder.path().display()));
    }
}
