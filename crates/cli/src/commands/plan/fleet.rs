//! `evenkeel plan fleet`: every trace of a folder, in parallel.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use clap::Args;
use evenkeel_core::CostModel;
use evenkeel_plan::{FileSource, Fit, PlanError, Priced, fit};
use evenkeel_report::{Column, Table};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::{Classes, DOES_NOT_FIT, DONE, EXIT_CODES, classes, failed, prices, progress};
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
    /// Write the table to this file instead of standard output: NAME.csv or NAME.parquet
    #[arg(short, long, visible_alias = "output", value_name = "FILE")]
    out: Option<PathBuf>,
    /// Threads; as many as there are processors if left out
    #[arg(long, value_name = "COUNT")]
    threads: Option<usize>,
    /// What requests cost, as `cost` in a store: `{ write = 2, read = { "4 KiB" = 1, "1 MiB" = 150 } }`; one each if
    /// left out
    #[arg(long, value_name = "TOML", value_parser = prices, default_value = "{}")]
    cost: CostModel,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

type Fitted = (PathBuf, Result<Fit, PlanError>);

/// How the table is written.
#[derive(Clone, Copy)]
enum Form {
    Csv,
    Parquet,
}

pub(super) fn run(args: &FleetArgs) -> u8 {
    let out = match args.out.as_deref().map(|path| form(path).map(|form| (path, form))).transpose() {
        Ok(out) => out,
        Err(message) => return failed(&message, args.json),
    };
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
    let table = table(&fitted, args);
    if let Some((path, form)) = out {
        let written = match form {
            Form::Csv => fs::write(path, table.to_csv()).map_err(|error| error.to_string()),
            Form::Parquet => write_parquet(&table, path),
        };
        if let Err(error) = written {
            return failed(&format!("--out {}: {error}", path.display()), args.json);
        }
    }
    if args.json {
        let rows: Vec<Value> = fitted.iter().map(|(path, result)| as_json(path, result, args)).collect();
        print(&format!("{}\n", json!({ "ok": bad == 0, "traces": rows })));
    } else if args.out.is_some() {
        print(&format!("{} traces fitted, {bad} could not be\n", fitted.len() - bad));
    } else {
        print(&table.to_csv());
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
                    let source = Priced { source: &FileSource::new(path, None), cost: args.cost.clone() };
                    let result = fit(&source, &args.classes.0, &mut |_| ());
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

/// By the end of the name; nothing else is guessed.
fn form(path: &Path) -> Result<Form, String> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("csv") => Ok(Form::Csv),
        Some("parquet") => Ok(Form::Parquet),
        _ => Err(format!("--out {}: name a file that ends in .csv or .parquet", path.display())),
    }
}

fn write_parquet(table: &Table, path: &Path) -> Result<(), String> {
    let file = fs::File::create(path).map_err(|error| error.to_string())?;
    table.write_parquet(file).map_err(|error| error.to_string())
}

/// One row a trace; of one that could not be fitted, only why.
fn table(fitted: &[Fitted], args: &FleetArgs) -> Table {
    let text = |value: &dyn Fn(&Fitted) -> Option<String>| Column::Text(fitted.iter().map(value).collect());
    let whole = |value: &dyn Fn(&Fit) -> Option<u64>| {
        let of = |(_, result): &Fitted| i64::try_from(value(result.as_ref().ok()?)?).ok();
        Column::Whole(fitted.iter().map(of).collect())
    };
    let real = |value: &dyn Fn(&Fit) -> Option<f64>| {
        Column::Real(fitted.iter().map(|(_, result)| value(result.as_ref().ok()?)).collect())
    };
    let mut table = Table::new()
        .with("trace", text(&|(path, _)| Some(path.display().to_string())))
        .with("requests", whole(&|fit| Some(fit.requests)))
        .with("duration_s", real(&|fit| Some(fit.duration.as_secs_f64())))
        .with("capacity_iops", real(&|fit| Some(fit.capacity.as_f64())))
        .with("single_capacity_iops", real(&|fit| Some(fit.single_capacity.as_f64())))
        .with("knee_iops", real(&|fit| Some(fit.curve.get(fit.knee)?.capacity.as_f64())));
    for class in 0..args.classes.0.len() {
        let number = class + 1;
        let latency_us = |fit: &Fit| Some(fit.classes.get(class)?.latency().as_nanos() as f64 / 1_000.0);
        table = table
            .with(
                format!("burst_{number}_requests"),
                real(&|fit| Some(fit.classes.get(class)?.burst().as_f64())),
            )
            .with(format!("rate_{number}_iops"), real(&|fit| Some(fit.classes.get(class)?.rate().as_f64())))
            .with(format!("latency_{number}_us"), real(&latency_us))
            .with(format!("covered_{number}_requests"), whole(&|fit| fit.covered.get(class).copied()));
    }
    table.with("error", text(&|(_, result)| result.as_ref().err().map(ToString::to_string)))
}

fn as_json(path: &Path, result: &Result<Fit, PlanError>, args: &FleetArgs) -> Value {
    let mut object = match result {
        Ok(fit) => super::fit::as_json(fit, &args.classes.0),
        Err(error) => json!({ "ok": false, "message": error.to_string() }),
    };
    object["trace"] = json!(path.to_string_lossy());
    object
}
