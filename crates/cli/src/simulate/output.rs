//! What `--out` writes: a folder with results for programs, figures, and a report for people.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use evenkeel_core::{FlowId, Record, Request, Slo, Submission, Time};
use evenkeel_report::html::Page;
use evenkeel_report::simulation::{self, Drawn};
use evenkeel_report::{FigureError, RecordFile};
use evenkeel_sim::scenario::Scenario;
use evenkeel_sim::statistics::Replicated;
use evenkeel_sim::{Change, EventLog, Observer, Summary};
use serde::Serialize;
use serde_json::json;

use super::tables;

/// A folder for results.
pub(super) struct Folder(PathBuf);

/// Why results could not be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum OutputError {
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{0}")]
    Figure(#[from] FigureError),
}

impl Folder {
    /// The folder at `path`, made if need be.
    pub(super) fn create(path: &Path) -> Result<Self, OutputError> {
        std::fs::create_dir_all(path)
            .map_err(|source| OutputError::Write { path: path.to_owned(), source })?;
        Ok(Self(path.to_owned()))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    fn failed(&self, name: &str, source: io::Error) -> OutputError {
        OutputError::Write { path: self.0.join(name), source }
    }

    fn open(&self, name: &str) -> Result<BufWriter<File>, OutputError> {
        let file = File::create(self.0.join(name)).map_err(|source| self.failed(name, source))?;
        Ok(BufWriter::with_capacity(1 << 18, file))
    }

    fn write(&self, name: &str, text: &str) -> Result<(), OutputError> {
        std::fs::write(self.0.join(name), text).map_err(|source| self.failed(name, source))
    }

    fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), OutputError> {
        self.write(name, &format!("{:#}\n", json!(value)))
    }

    fn write_figures(&self, drawn: &[Drawn]) -> Result<(), OutputError> {
        drawn.iter().try_for_each(|figure| self.write(&format!("{}.svg", figure.name), &figure.svg))
    }
}

/// The event log and the file of requests, as far as they are asked for.
pub(super) struct Taps {
    log: Option<EventLog<BufWriter<File>>>,
    requests: Option<RecordFile<BufWriter<File>>>,
}

const LOG: &str = "events.log";
const REQUESTS: &str = "requests.parquet";

impl Taps {
    pub(super) fn open(
        folder: &Folder,
        scenario: &Scenario,
        log: bool,
        requests: bool,
    ) -> Result<Self, OutputError> {
        let log = if log { Some(EventLog::new(folder.open(LOG)?)) } else { None };
        let requests = if requests {
            let file = RecordFile::new(folder.open(REQUESTS)?, &scenario.flow_names());
            Some(file.map_err(|error| folder.failed(REQUESTS, io::Error::other(error)))?)
        } else {
            None
        };
        Ok(Self { log, requests })
    }

    pub(super) fn finish(self, folder: &Folder) -> Result<(), OutputError> {
        if let Some(log) = self.log {
            log.finish().map_err(|error| folder.failed(LOG, error))?;
        }
        if let Some(requests) = self.requests {
            requests.finish().map_err(|error| folder.failed(REQUESTS, io::Error::other(error)))?;
        }
        Ok(())
    }
}

impl Observer for Taps {
    fn on_arrival(&mut self, now: Time, request: &Request) {
        if let Some(log) = &mut self.log {
            log.on_arrival(now, request);
        }
    }

    fn on_submit(&mut self, now: Time, submission: &Submission, outstanding: u32) {
        if let Some(log) = &mut self.log {
            log.on_submit(now, submission, outstanding);
        }
    }

    fn on_reply(&mut self, record: &Record, outstanding: u32) {
        if let Some(log) = &mut self.log {
            log.on_reply(record, outstanding);
        }
        if let Some(requests) = &mut self.requests {
            requests.push(record);
        }
    }

    fn on_configure(&mut self, now: Time, flow: FlowId, slo: &Slo) {
        if let Some(log) = &mut self.log {
            log.on_configure(now, flow, slo);
        }
    }

    fn on_change(&mut self, now: Time, change: &Change) {
        if let Some(log) = &mut self.log {
            log.on_change(now, change);
        }
    }
}

/// Results, figures and report of one run.
pub(super) fn write_run(folder: &Folder, scenario: &Scenario, summary: &Summary) -> Result<(), OutputError> {
    folder.write_json("summary.json", summary)?;
    let drawn = simulation::figures(summary)?;
    folder.write_figures(&drawn)?;
    let mut page = page(scenario);
    page.paragraph(&provenance(scenario, &summary.scheduler, &format!("seed {}", summary.seed)));
    run_section(&mut page, summary, &drawn);
    folder.write("report.html", &page.finish())
}

/// Results, figures and report of many runs; figures are of the first seed.
pub(super) fn write_many(
    folder: &Folder,
    scenario: &Scenario,
    replicated: &Replicated,
    runs: &[Summary],
) -> Result<(), OutputError> {
    folder.write_json("replicated.json", replicated)?;
    folder.write_json("runs.json", &runs)?;
    let mut page = page(scenario);
    let seeds = format!("{} seeds from {}", replicated.seeds.len(), replicated.seeds[0]);
    page.paragraph(&provenance(scenario, &replicated.scheduler, &seeds));
    page.heading("Means with 95 % confidence intervals");
    page.table(&tables::MANY_HEADS, &rows(&tables::many_rows(replicated)));
    if let Some(first) = runs.first() {
        let drawn = simulation::figures(first)?;
        folder.write_figures(&drawn)?;
        page.heading(&format!("The run with seed {}", first.seed));
        run_section(&mut page, first, &drawn);
    }
    folder.write("report.html", &page.finish())
}

/// Results, figures and report of a comparison; figures are of the first seed.
pub(super) fn write_comparison(
    folder: &Folder,
    scenario: &Scenario,
    firsts: &[Summary],
    replicated: &[Replicated],
) -> Result<(), OutputError> {
    folder.write_json("comparison.json", &replicated)?;
    folder.write_json("runs.json", &firsts)?;
    let drawn = simulation::comparison(firsts)?;
    folder.write_figures(&drawn)?;
    let mut page = page(scenario);
    let names: Vec<&str> = firsts.iter().map(|summary| summary.scheduler.as_str()).collect();
    let seeds = replicated.first().map_or(0, |first| first.seeds.len());
    page.paragraph(&provenance(scenario, &names.join(", "), &format!("seeds: {seeds}")));
    page.heading("Flow by flow");
    page.table(&tables::COMPARE_HEADS, &rows(&tables::comparison_rows(firsts, replicated)));
    for line in firsts.first().map(tables::trace_lines).unwrap_or_default() {
        page.paragraph(&line);
    }
    drawn.iter().for_each(|figure| {
        page.figure(&figure.svg);
    });
    folder.write("report.html", &page.finish())
}

fn run_section(page: &mut Page, summary: &Summary, drawn: &[Drawn]) {
    page.table(&tables::FLOW_HEADS, &rows(&summary.flows.iter().map(tables::flow_row).collect::<Vec<_>>()));
    for flow in summary.flows.iter().filter(|flow| flow.verdict != "no_promise") {
        page.paragraph(&format!("{}: {}", flow.name, flow.explanation));
    }
    for line in tables::whole_lines(summary) {
        page.paragraph(&line);
    }
    let classes = tables::class_rows(summary);
    if !classes.is_empty() {
        page.heading("Classes");
        let heads = ["flow", "class", "bound ms", "served", "missed", "p99 ms", "max ms"];
        page.table(&heads, &rows(&classes));
    }
    drawn.iter().for_each(|figure| {
        page.figure(&figure.svg);
    });
}

fn page(scenario: &Scenario) -> Page {
    let title = if scenario.description.is_empty() { &scenario.name } else { &scenario.description };
    Page::new(title)
}

/// What it takes to get these results again.
fn provenance(scenario: &Scenario, scheduler: &str, seeds: &str) -> String {
    let commit = super::COMMIT.map_or(String::new(), |commit| format!(", commit {commit}"));
    format!(
        "Scenario {} ({}…), {} under {scheduler}, {seeds}; evenkeel {}{commit}",
        scenario.name,
        &scenario.hash[..12],
        scenario.duration,
        env!("CARGO_PKG_VERSION")
    )
}

fn rows<const N: usize>(rows: &[[String; N]]) -> Vec<Vec<String>> {
    rows.iter().map(|row| row.to_vec()).collect()
}
