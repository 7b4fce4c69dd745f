//! `cargo xtask bench core`: what the scheduling core costs, in time, instructions, allocations and memory.
//!
//! ```text
//!  for each number of flows, for each round:   peer ─> scheduler ─> peer ─> scheduler ─> ...   least of each
//!  evenkeel-bench, one process per figure ─────┘
//!  valgrind evenkeel-bench: N and 2N requests, the difference is what N cost
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use serde_json::{Value, json};

use super::median;
use crate::{Outcome, workspace};

/// Choices of `cargo xtask bench core`.
#[derive(Args)]
pub(crate) struct Options {
    /// Only these schedulers, with commas between (pclock,mclock).
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// Numbers of flows, with commas between.
    #[arg(long, value_name = "N,N", value_delimiter = ',',
          default_values_t = [10, 100, 1_000, 10_000, 100_000, 1_000_000])]
    flows: Vec<u32>,
    /// Rounds; each measures every figure once, alternated with the peer.
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// A pull queue to compare with: a program that is called `PROGRAM steady CLIENTS REQUESTS`, keeps one
    /// request of each client waiting, adds and pulls so many, and prints the nanoseconds of one.
    /// `PROGRAM return CLIENTS TIMES`, if it knows that, prints those of a client that returns from idle.
    #[arg(long, value_name = "PROGRAM")]
    peer: Option<PathBuf>,
    /// What the peer is called in the tables.
    #[arg(long, default_value = "peer", value_name = "NAME")]
    peer_name: String,
    /// Count no instructions; they need valgrind.
    #[arg(long)]
    no_instructions: bool,
    /// Put the tables into docs/results/core-speed.md, in place of those there.
    #[arg(long)]
    write: bool,
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
}

const SCHEDULERS: [&str; 14] = [
    "pclock",
    "pclock-background",
    "nested",
    "sced",
    "edf",
    "virtual-clock",
    "sfqd",
    "wf2q+",
    "mclock",
    "rbfq",
    "avatar",
    "cello",
    "fairio",
    "fcfs",
];

/// At more flows than this there is one round, and of the whole engine only the time on the idle device is
/// measured: setting the load up takes seconds each time.
const ROUNDS_MAX: u32 = 100_000;

/// Numbers of flows at which changes are measured.
const CHANGE_FLOWS: [u32; 4] = [100, 1_000, 10_000, 100_000];

/// Flows at which memory is measured.
const MEMORY_FLOWS: u32 = 10_000;

const BEGIN: &str = "<!-- tables: begin -->";
const END: &str = "<!-- tables: end -->";

/// A table whose first column names its rows.
struct Table {
    title: String,
    head: Vec<String>,
    rows: Vec<(String, Vec<Option<f64>>)>,
}

/// Measures, prints, and writes the document if that is wished.
pub(crate) fn run(options: &Options) -> Outcome<()> {
    if let Some(unknown) = options.only.iter().find(|name| !SCHEDULERS.contains(&name.as_str())) {
        return Err(format!("no scheduler is called `{unknown}`; there are {}", SCHEDULERS.join(", ")));
    }
    let program = workspace::build_program("evenkeel-bench")?;
    let bench = Bench { options, program };
    let mut tables = bench.times();
    tables.push(bench.changes());
    if !options.no_instructions {
        match workspace::find_program("valgrind") {
            Some(valgrind) => {
                tables.push(bench.instructions(&valgrind, "queue", "scheduler alone, equal promises"));
                let load = "whole engine, many promises, idle device";
                tables.push(bench.instructions(&valgrind, "idle", load));
            }
            None => eprintln!("valgrind is not installed: no instructions are counted"),
        }
    }
    tables.push(bench.memory());
    let facts = workspace::facts();
    if options.json {
        let tables: Vec<Value> = tables.iter().map(Table::json).collect();
        println!("{:#}", json!({ "facts": facts, "rounds": options.rounds, "tables": tables }));
    } else {
        tables.iter().for_each(|table| println!("{}", table.markdown()));
    }
    if options.write {
        let line = format!("{}; {} rounds.", workspace::facts_line(&facts), options.rounds);
        let text: String = tables.iter().map(|table| format!("{}\n", table.markdown())).collect();
        write(&workspace::root().join("docs/results/core-speed.md"), &format!("{line}\n\n{text}"))?;
    }
    Ok(())
}

struct Bench<'a> {
    options: &'a Options,
    program: PathBuf,
}

impl Bench<'_> {
    fn schedulers(&self) -> impl Iterator<Item = &'static str> {
        let only = &self.options.only;
        SCHEDULERS.into_iter().filter(move |name| only.is_empty() || only.iter().any(|one| one == name))
    }

    /// The scheduler alone with its ratio to the peer, and the engine on both devices.
    fn times(&self) -> Vec<Table> {
        let mut queue = self.table("Nanoseconds per request, scheduler alone, equal promises");
        let mut ratio = self.table(&format!("Time relative to {}", self.options.peer_name));
        let mut peer_row = Vec::new();
        let mut columns = Vec::new();
        for &flows in &self.options.flows {
            eprintln!("{flows} flows");
            let (peer, column) = self.column(flows);
            peer_row.push(peer);
            columns.push(column);
        }
        for (index, name) in self.schedulers().enumerate() {
            let row: Vec<Option<f64>> = columns.iter().map(|column| column[index]).collect();
            let relative = row.iter().zip(&peer_row).map(|(own, peer)| Some((*own)? / (*peer)?));
            ratio.rows.push((name.into(), relative.collect()));
            queue.rows.push((name.into(), row));
        }
        queue.rows.push((self.options.peer_name.clone(), peer_row));
        let mut tables = vec![queue];
        if self.options.peer.is_some() {
            tables.push(ratio);
        }
        for (load, device) in [("idle", "idle"), ("busy", "busy")] {
            let title = format!("Nanoseconds per request, whole engine, many promises, {device} device");
            let mut table = self.table(&title);
            for name in self.schedulers() {
                let row = self.options.flows.iter().map(|&flows| {
                    if load == "busy" && flows > ROUNDS_MAX {
                        return None;
                    }
                    let rounds = (0..self.rounds(flows)).filter_map(|_| self.time(name, flows, load));
                    rounds.reduce(f64::min)
                });
                table.rows.push((name.into(), row.collect()));
            }
            tables.push(table);
        }
        tables
    }

    /// One number of flows: the peer and every scheduler in turn, round after round, the least of each.
    fn column(&self, flows: u32) -> (Option<f64>, Vec<Option<f64>>) {
        let mut least = vec![None; self.schedulers().count()];
        let mut peer = None;
        for _ in 0..self.rounds(flows) {
            for (name, least) in self.schedulers().zip(&mut least) {
                if name == "pclock" || name == "mclock" {
                    peer = smaller(peer, self.peer(&["steady", &flows.to_string(), "300000"]));
                }
                *least = smaller(*least, self.time(name, flows, "queue"));
            }
        }
        (peer, least)
    }

    fn rounds(&self, flows: u32) -> u32 {
        if flows > ROUNDS_MAX { 1 } else { self.options.rounds }
    }

    /// The fastest of twenty slices.
    fn time(&self, name: &str, flows: u32, load: &str) -> Option<f64> {
        let line = self.own(&["time", name, &flows.to_string(), load, "--slices", "20"])?;
        if line["allocations"] != 0 {
            eprintln!("{name} allocated in steady state at {flows} flows: {line}");
        }
        line["least_ns"].as_f64()
    }

    fn changes(&self) -> Table {
        let mut table = Table::new("Nanoseconds of a change, among so many flows", &CHANGE_FLOWS);
        for name in self.schedulers() {
            let columns = CHANGE_FLOWS.map(|flows| self.own(&["changes", name, &flows.to_string()]));
            for change in ["returns from idle", "appears and leaves", "changes its rate"] {
                let row = columns.iter().map(|cell| cell.as_ref()?[change].as_f64()).collect();
                table.rows.push((format!("{name}: {change}"), row));
            }
        }
        let returns = CHANGE_FLOWS.iter().map(|flows| self.peer(&["return", &flows.to_string(), "20"]));
        let name = format!("{}: returns from idle", self.options.peer_name);
        table.rows.push((name, returns.collect()));
        table
    }

    /// Several schedulers at once: to count them takes as long as it takes, and the counts stay the same.
    fn instructions(&self, valgrind: &Path, load: &str, title: &str) -> Table {
        let mut table = self.table(&format!("Instructions per request, {title}"));
        let names: Vec<&'static str> = self.schedulers().collect();
        let at_once = std::thread::available_parallelism().map_or(1, usize::from);
        let row = &|name: &'static str| {
            let cells =
                self.options.flows.iter().map(|&flows| self.counted_per_request(valgrind, name, flows, load));
            (name.to_owned(), cells.collect())
        };
        for group in names.chunks(at_once) {
            eprintln!("instructions, {load}: {}", group.join(", "));
            let rows = std::thread::scope(|scope| {
                let threads: Vec<_> = group.iter().map(|&name| scope.spawn(move || row(name))).collect();
                threads.into_iter().filter_map(|thread| thread.join().ok()).collect::<Vec<_>>()
            });
            table.rows.extend(rows);
        }
        table
    }

    /// What as many requests again cost, three turns of each flow at least.
    fn counted_per_request(&self, valgrind: &Path, name: &str, flows: u32, load: &str) -> Option<f64> {
        if load != "queue" && flows > ROUNDS_MAX {
            return None;
        }
        let few = 10_000 + 3 * u64::from(flows);
        let count =
            |steps: u64| self.counted(valgrind, &[name, &flows.to_string(), load, &steps.to_string()]);
        Some((count(2 * few)? - count(few)?) / few as f64)
    }

    /// Instructions of the whole program: scheduler, flows, load and requests are as its `steps` has them.
    fn counted(&self, valgrind: &Path, steps: &[&str]) -> Option<f64> {
        let output = Command::new(valgrind)
            .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
            .arg(&self.program)
            .arg("steps")
            .args(steps)
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let line = text.lines().find(|line| line.contains("I") && line.contains("refs:"))?;
        let digits: String = line.rsplit(':').next()?.chars().filter(char::is_ascii_digit).collect();
        digits.parse().ok()
    }

    fn memory(&self) -> Table {
        let head = ["per idle flow", "a busy one besides", "per waiting request"].map(str::to_owned).to_vec();
        let title = format!("Bytes, engine and scheduler, all tables with their room, {MEMORY_FLOWS} flows");
        let mut table = Table { title, head, rows: Vec::new() };
        for name in self.schedulers() {
            let line = self.own(&["memory", name, &MEMORY_FLOWS.to_string()]);
            let cell = |key: &str| line.as_ref()?[key].as_f64();
            let cells = ["idle_flow_bytes", "busy_flow_bytes", "waiting_request_bytes"].map(cell);
            table.rows.push((name.into(), cells.to_vec()));
        }
        table
    }

    fn table(&self, title: &str) -> Table {
        Table::new(title, &self.options.flows)
    }

    /// A line of JSON from our own program.
    fn own(&self, arguments: &[&str]) -> Option<Value> {
        let output = Command::new(&self.program).args(arguments).output().ok()?;
        serde_json::from_slice(&output.stdout).ok()
    }

    /// The median of three numbers from the peer.
    fn peer(&self, arguments: &[&str]) -> Option<f64> {
        let peer = self.options.peer.as_ref()?;
        let one = || {
            let output = Command::new(peer).args(arguments).output().ok()?;
            String::from_utf8_lossy(&output.stdout).trim().parse::<f64>().ok()
        };
        let numbers: Option<Vec<f64>> = (0..3).map(|_| one()).collect();
        if numbers.is_none() {
            eprintln!("{} {}: no number", peer.display(), arguments.join(" "));
        }
        Some(if arguments[0] == "steady" { least(&numbers?) } else { median(numbers?) })
    }
}

fn least(numbers: &[f64]) -> f64 {
    numbers.iter().copied().fold(f64::INFINITY, f64::min)
}

fn smaller(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    one.into_iter().chain(other).reduce(f64::min)
}

impl Table {
    fn new(title: &str, flows: &[u32]) -> Self {
        Self { title: title.into(), head: flows.iter().map(u32::to_string).collect(), rows: Vec::new() }
    }

    fn markdown(&self) -> String {
        let mut text = format!("### {}\n\n| | {} |\n|---|", self.title, self.head.join(" | "));
        text += &"--:|".repeat(self.head.len());
        text.push('\n');
        for (name, cells) in self.rows.iter().filter(|(_, cells)| cells.iter().any(Option::is_some)) {
            let cells: Vec<String> = cells.iter().map(|cell| cell.map_or("-".into(), number)).collect();
            text += &format!("| {name} | {} |\n", cells.join(" | "));
        }
        text
    }

    fn json(&self) -> Value {
        let rows: Vec<Value> =
            self.rows.iter().map(|(name, cells)| json!({ "name": name, "cells": cells })).collect();
        json!({ "title": self.title, "columns": self.head, "rows": rows })
    }
}

/// Two digits behind the point for ratios, none for large numbers.
fn number(value: f64) -> String {
    if value < 10.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

/// Puts `tables` between the marks of the document.
fn write(path: &Path, tables: &str) -> Outcome<()> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let new = replaced(&text, tables)
        .ok_or_else(|| format!("{}: the lines `{BEGIN}` and `{END}` are missing", path.display()))?;
    fs::write(path, new).map_err(|error| format!("{}: {error}", path.display()))
}

fn replaced(text: &str, tables: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{tables}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let text = format!("head\n{BEGIN}\nold\n{END}\ntail\n");
        let new = replaced(&text, "new\n").unwrap();
        assert_eq!(new, format!("head\n{BEGIN}\n\nnew\n{END}\ntail\n"));
        assert_eq!(replaced("no marks", "new"), None);
    }

    #[test]
    fn tables_leave_out_what_was_not_measured() {
        let mut table = Table::new("t", &[10, 100]);
        table.rows.push(("a".into(), vec![Some(0.251), Some(123.4)]));
        table.rows.push(("b".into(), vec![None, Some(1.0)]));
        table.rows.push(("c".into(), vec![None, None]));
        assert_eq!(
            table.markdown(),
            "### t\n\n| | 10 | 100 |\n|---|--:|--:|\n| a | 0.25 | 123 |\n| b | - | 1.00 |\n"
        );
    }
}
