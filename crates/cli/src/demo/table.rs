//! What a person sees of the demonstration.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::{Phase, Verdict};

/// Live progress of one phase.
pub(super) struct Progress {
    bar: ProgressBar,
    last: std::cell::RefCell<Vec<u64>>,
}

impl Progress {
    pub(super) fn new(scheduler: &str, seconds: u64) -> Self {
        let bar = ProgressBar::new(seconds);
        let style = ProgressStyle::with_template("{prefix:>6} {bar:20} {pos:>2}/{len} s  {wide_msg}")
            .expect("a constant template");
        bar.set_style(style);
        bar.set_prefix(scheduler.to_owned());
        bar.enable_steady_tick(Duration::from_millis(500));
        Self { bar, last: std::cell::RefCell::new(Vec::new()) }
    }

    /// Shows how many replies each tenant got in the last second.
    pub(super) fn show(&self, seconds: u64, so_far: &[(&'static str, u64)]) {
        let mut last = self.last.borrow_mut();
        last.resize(so_far.len(), 0);
        let rates: Vec<String> = so_far
            .iter()
            .zip(last.iter())
            .map(|((name, count), before)| format!("{name} {}/s", count - before))
            .collect();
        *last = so_far.iter().map(|(_, count)| *count).collect();
        self.bar.set_position(seconds);
        self.bar.set_message(rates.join("  "));
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Prints one phase as a table.
pub(super) fn print(phase: &Phase) {
    let head = ["tenant", "sends", "promised", "offered", "received", "p50", "p99", "missed", "verdict"];
    let rows: Vec<[String; 9]> = phase
        .tenants
        .iter()
        .map(|it| {
            let missed = match it.verdict {
                Verdict::NothingPromised => "-".to_owned(),
                _ => format!("{} of {}", it.measured.missed, it.measured.offered),
            };
            [
                it.tenant.to_owned(),
                it.pattern.clone(),
                it.promised.clone(),
                format!("{:.0}/s", it.measured.offered_iops),
                format!("{:.0}/s", it.measured.received_iops),
                milliseconds(it.measured.latency_p50_us),
                milliseconds(it.measured.latency_p99_us),
                missed,
                match it.verdict {
                    Verdict::Kept => "kept",
                    Verdict::Broken => "BROKEN",
                    Verdict::NothingPromised => "nothing promised",
                }
                .to_owned(),
            ]
        })
        .collect();
    println!("Under {}: the device served {:.0} requests per second", phase.scheduler, phase.device_iops);
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].len()]).max().unwrap_or(0)
    };
    let line = |cells: [&str; 9]| {
        let padded: Vec<String> = cells
            .iter()
            .enumerate()
            .map(|(column, cell)| format!("{cell}{}", " ".repeat(width(column) - cell.chars().count())))
            .collect();
        println!("  {}", padded.join("  ").trim_end());
    };
    line(head);
    for row in &rows {
        line(row.each_ref().map(String::as_str));
    }
    println!();
}

fn milliseconds(micros: u64) -> String {
    format!("{}.{} ms", micros / 1000, micros % 1000 / 100)
}
