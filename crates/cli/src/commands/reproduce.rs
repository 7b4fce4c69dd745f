//! `evenkeel reproduce`: the papers' experiments, run again.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;

use clap::Args;
use evenkeel_experiments::{Context, Experiment, ExperimentError, Study, all, find, run_all, write};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::live;
use crate::report::print;
use crate::text_table::{Align, text_table};

const EXIT_CODES: &str = "Exit codes:
  0  every check holds
  1  some check does not; each is named, with by how much
  2  an experiment could not be run, or the command line is wrong

docs/results/papers/reproduction.md is the book of the results. Two runs give the same JSON, live ones aside.";

/// Options of `evenkeel reproduce`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct ReproduceArgs {
    /// Which experiments: names as `--list` shows them, the beginning of names (`pclock`), `all`, or `live`
    #[arg(required_unless_present_any = ["list", "quick"], value_name = "ID")]
    ids: Vec<String>,
    /// List the experiments, and run nothing
    #[arg(long)]
    list: bool,
    /// The live ones too: through the gateway, over NBD, with fio; in real time
    #[arg(long, conflicts_with = "quick")]
    live: bool,
    /// Only the quick ones: all of them in less than a minute
    #[arg(long)]
    quick: bool,
    /// Write pages, figures and JSON into this folder, and the book if all were run
    #[arg(short, long, visible_alias = "output", value_name = "DIR")]
    out: Option<PathBuf>,
    /// A folder with real traces; without it, generated ones stand in
    #[arg(long, value_name = "DIR", env = "EVENKEEL_TRACES")]
    traces: Option<PathBuf>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    /// Experiments at the same time; as many as there are processors unless given
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
}

/// Runs experiments; the process's exit code.
pub(crate) fn run(args: &ReproduceArgs) -> u8 {
    let chosen = match choose(args) {
        Ok(chosen) => chosen,
        Err(unknown) => {
            eprintln!(
                "error: there is no experiment {unknown:?}; `evenkeel reproduce --list` shows them all"
            );
            return 2;
        }
    };
    if args.list {
        list(&chosen, args.json);
        return 0;
    }
    let context =
        Context { traces: args.traces.clone(), commit: option_env!("EVENKEEL_COMMIT").map(str::to_owned) };
    let threads = args.threads.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    let bar = ProgressBar::new(chosen.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    let told = |experiment: &'static Experiment| {
        bar.set_message(experiment.id);
        bar.inc(1);
    };
    // Live ones keep real time, so they come last, and need little of a processor, so they go side by side.
    let (live, simulated): (Vec<_>, Vec<_>) = chosen.into_iter().partition(|it| live::is_live(it));
    let mut results = run_all(&simulated, &context, threads, &told);
    results.extend(run_all(&live, &context, NonZeroUsize::new(live.len()).unwrap_or(threads), &told));
    bar.finish_and_clear();
    if let Some(problem) = save(args, &results, &context) {
        eprintln!("error: {problem}");
        return 2;
    }
    if args.json {
        let all: Vec<Value> =
            results.iter().map(|(experiment, result)| as_json(experiment, result)).collect();
        print(&format!("{:#}\n", json!({ "experiments": all })));
    } else {
        print(&to_text(&results));
    }
    exit_code(&results)
}

type Results = [(&'static Experiment, Result<Study, ExperimentError>)];

/// Every experiment, live ones last.
fn known() -> impl Iterator<Item = &'static Experiment> {
    all().chain(live::EXPERIMENTS)
}

/// The experiments that are asked for, in the order of the request. Live ones only if they are named, or with
/// `--live`; the beginning of a name, as `pclock`, does not name them.
fn choose(args: &ReproduceArgs) -> Result<Vec<&'static Experiment>, String> {
    let everything: &[String] = &["all".to_owned()];
    let wanted = if args.ids.is_empty() { everything } else { &args.ids };
    let mut chosen: Vec<&'static Experiment> = Vec::new();
    for id in wanted {
        let is_meant = |experiment: &&'static Experiment| {
            let is_live = live::is_live(experiment);
            match id.as_str() {
                "live" => is_live,
                _ if experiment.id == id => true,
                _ if is_live && !(args.live || args.list) => false,
                "all" => true,
                beginning => find(beginning).is_none() && experiment.id.starts_with(beginning),
            }
        };
        let found: Vec<_> = known().filter(is_meant).collect();
        if found.is_empty() {
            return Err(id.clone());
        }
        for experiment in found {
            if !chosen.iter().any(|known| known.id == experiment.id) {
                chosen.push(experiment);
            }
        }
    }
    chosen.retain(|experiment| !args.quick || experiment.quick);
    Ok(chosen)
}

fn list(chosen: &[&'static Experiment], as_json: bool) {
    if as_json {
        let rows: Vec<Value> = chosen
            .iter()
            .map(|experiment| {
                json!({
                    "id": experiment.id,
                    "title": experiment.title,
                    "source": experiment.source,
                    "quick": experiment.quick,
                    "live": live::is_live(experiment),
                })
            })
            .collect();
        print(&format!("{:#}\n", json!({ "experiments": rows })));
        return;
    }
    let rows: Vec<[String; 3]> = chosen
        .iter()
        .map(|experiment| {
            [experiment.id.to_owned(), experiment.source.to_owned(), experiment.title.to_owned()]
        })
        .collect();
    print(&text_table([("id", Align::Left), ("source", Align::Left), ("what it shows", Align::Left)], &rows));
}

/// Writes the results; what went wrong, if anything did.
fn save(args: &ReproduceArgs, results: &Results, context: &Context) -> Option<String> {
    let folder = args.out.as_ref()?;
    let done: Vec<_> = results
        .iter()
        .filter_map(|(experiment, result)| Some((*experiment, result.as_ref().ok()?)))
        .collect();
    for (experiment, study) in &done {
        if let Err(error) = write::study(folder, experiment, study, context) {
            return Some(format!("{}: {error}", folder.display()));
        }
    }
    let simulated = done.iter().filter(|(experiment, _)| !live::is_live(experiment)).count();
    if simulated == all().count() {
        return write::book(folder, &done, context)
            .err()
            .map(|error| format!("{}: {error}", folder.display()));
    }
    None
}

fn as_json(experiment: &Experiment, result: &Result<Study, ExperimentError>) -> Value {
    match result {
        Ok(study) => json!({
            "id": experiment.id,
            "title": experiment.title,
            "source": experiment.source,
            "holds": study.holds(),
            "study": study,
        }),
        Err(error) => json!({ "id": experiment.id, "error": error.to_string() }),
    }
}

fn to_text(results: &Results) -> String {
    let mut text = String::new();
    for (experiment, result) in results {
        text.push_str(&format!("{}: {} ({})\n", experiment.id, experiment.title, experiment.source));
        match result {
            Ok(study) => {
                for check in &study.checks {
                    let mark = if check.holds { "holds " } else { "FAILS " };
                    text.push_str(&format!("  {mark} {}: {}\n", check.law, check.found));
                    if let Some(reason) = &check.reason {
                        text.push_str(&format!("         {reason}\n"));
                    }
                }
            }
            Err(error) => text.push_str(&format!("  could not be run: {error}\n")),
        }
    }
    let studies = || results.iter().filter_map(|(_, result)| result.as_ref().ok());
    let checks: usize = studies().map(|study| study.checks.len()).sum();
    let held: usize = studies().flat_map(|study| &study.checks).filter(|check| check.holds).count();
    text.push_str(&format!("{} experiments, {held} of {checks} checks hold\n", results.len()));
    text
}

fn exit_code(results: &Results) -> u8 {
    if results.iter().any(|(_, result)| result.is_err()) {
        2
    } else {
        u8::from(results.iter().any(|(_, result)| result.as_ref().is_ok_and(|study| !study.holds())))
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_experiments::Check;

    use super::*;

    #[test]
    fn what_fails_is_named_with_by_how_much_and_ends_in_1() {
        let experiment = find("pclock-case1").expect("it is there");
        let studied = |value: f64| {
            let mut study = Study::default();
            study.check(Check::at_most("It is fast", value, 10.0, "ms").because("the disk is slow"));
            vec![(experiment, Ok(study))]
        };
        assert_eq!((exit_code(&studied(9.0)), exit_code(&studied(12.0))), (0, 1));
        let text = to_text(&studied(12.0));
        for wanted in [
            "pclock-case1",
            "FAILS  It is fast: 12 ms, at most 10 ms",
            "the disk is slow",
            "0 of 1 checks hold",
        ] {
            assert!(text.contains(wanted), "{wanted} is not in {text}");
        }
        assert_eq!(exit_code(&[(experiment, Err(ExperimentError::Other("no disk".to_owned())))]), 2);
    }
}
