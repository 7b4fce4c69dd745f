//! `evenkeel plan fleet`: every trace of a folder, in parallel.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use clap::Args;
use evenkeel_plan::{FileSource, Fit, PlanError, fit};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::{Classes, DOES_NOT_FIT, DONE, EXIT_CODES, classes, failed, progress};
use crate::report::print;

/// Options of `evenkeel plan fleet`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct FleetArgs {
    /// The folder; every file in it is a trace
    folder: PathBuf,
    /// What each of them wants, the innermost class first
    #[arg(long, value_name = "CLASSES", default_value = "90% 5 ms, 95% 50 ms, 100% 500 ms", value_parser = classes)]
    classes: Classes,
    /// Write the table to this CSV file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Threads; as many as there are processors if left out
    #[arg(long, value_name = "COUNT")]
    threads: Option<usize>,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

type Fitted = (PathBuf, Result<Fit, PlanError>);

pub(super) fn run(args: &FleetArgs) -> u8 {
    let traces = match traces_in(&args.folder) {
        Ok(traces) => traces,
        Err(message) => return failed(&message, args.json),
    };
    let bar = progress(Some(traces.len() as u64), "fitting");
    let mut fitted = fit_all(&traces, args, &bar);
    bar.finish_and_clear();
    fitted.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (_, result) in &fitted {
        if let Err(error) = result {
            eprintln!("evenkeel: {error}");
        }
    }
    let bad = fitted.iter().filter(|(_, result)| result.is_err()).count();
    let table = csv(&fitted, args);
    if let Some(path) = &args.out
        && let Err(error) = std::fs::write(path, &table)
    {
        return failed(&format!("--out {}: {error}", path.display()), args.json);
    }
    if args.json {
        let rows: Vec<Value> = fitted.iter().map(|(path, result)| as_json(path, result, args)).collect();
        print(&format!("{}\n", json!({ "ok": bad == 0, "traces": rows })));
    } else if args.out.is_some() {
        print(&format!("{} traces fitted, {bad} could not be\n", fitted.len() - bad));
    } else {
        print(&table);
    }
    if bad == 0 { DONE } else { DOES_NOT_FIT }
}

fn traces_in(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}; name a folder of traces", folder.display());
    let mut traces = Vec::new();
    for entry in folder.read_dir().map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_file() {
            traces.push(path);
        }
    }
    if traces.is_empty() {
        return Err(format!("{}: there is no file in this folder", folder.display()));
    }
    traces.sort();
    Ok(traces)
}

fn fit_all(traces: &[PathBuf], args: &FleetArgs, bar: &ProgressBar) -> Vec<Fitted> {
    let threads = args.threads.or_else(|| thread::available_parallelism().ok().map(usize::from)).unwrap_or(1);
    let (next, (sender, receiver)) = (AtomicUsize::new(0), mpsc::channel());
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, traces.len()) {
            let (next, sender) = (&next, sender.clone());
            scope.spawn(move || {
                while let Some(path) = traces.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = fit(&FileSource::new(path, None), &args.classes.0, &mut |_| ());
                    bar.inc(1);
                    if sender.send((path.clone(), result)).is_err() {
                        return;
                    }
                }
            });
        }
    });
    drop(sender);
    receiver.into_iter().collect()
}

/// One row a trace that could be fitted.
fn csv(fitted: &[Fitted], args: &FleetArgs) -> String {
    let mut table = "trace,requests,duration_s,capacity_iops,single_capacity_iops,knee_iops".to_owned();
    for class in 1..=args.classes.0.len() {
        let _ = write!(
            table,
            ",burst_{class}_requests,rate_{class}_iops,latency_{class}_us,covered_{class}_requests"
        );
    }
    table.push('\n');
    for (path, result) in fitted {
        let Ok(fit) = result else { continue };
        let name = path.display().to_string().replace('"', "\"\"");
        let knee = fit.curve.get(fit.knee).map_or(0.0, |point| point.capacity.as_f64());
        let _ = write!(
            table,
            "\"{name}\",{},{},{},{},{knee}",
            fit.requests,
            fit.duration.as_secs_f64(),
            fit.capacity.as_f64(),
            fit.single_capacity.as_f64()
        );
        for (class, covered) in fit.classes.iter().zip(&fit.covered) {
            let latency_us = class.latency().as_nanos() as f64 / 1_000.0;
            let _ = write!(table, ",{},{},{latency_us},{covered}", class.burst(), class.rate().as_f64());
        }
        table.push('\n');
    }
    table
}

fn as_json(path: &Path, result: &Result<Fit, PlanError>, args: &FleetArgs) -> Value {
    let mut object = match result {
        Ok(fit) => super::fit::as_json(fit, &args.classes.0),
        Err(error) => json!({ "ok": false, "message": error.to_string() }),
    };
    object["trace"] = json!(path.to_string_lossy());
    object
}
