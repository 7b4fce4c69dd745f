//! `evenkeel schedulers`: which schedulers there are, and what each is for.

use clap::Args;
use evenkeel_gateway::config::SchedulerKind;
use serde_json::{Value, json};

use crate::report::print;
use crate::text_table::{Align, text_table};

const EXIT_CODES: &str = "Exit codes:
  0  always";

/// Options of `evenkeel schedulers`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct SchedulersArgs {
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Lists the schedulers; the process's exit code.
pub(crate) fn run(args: &SchedulersArgs) -> u8 {
    if args.json {
        let all: Vec<Value> = SchedulerKind::ALL.iter().map(|kind| as_json(*kind)).collect();
        print(&format!("{}\n", json!({ "schedulers": all })));
    } else {
        let rows = SchedulerKind::ALL.map(|kind| [kind.name().to_owned(), kind.summary().to_owned()]);
        print(&text_table([("scheduler", Align::Left), ("what it is for", Align::Left)], &rows));
    }
    0
}

fn as_json(kind: SchedulerKind) -> Value {
    json!({
        "name": kind.name(),
        "summary": kind.summary(),
        "isolates_latency": kind.isolates_latency(),
        "knows_classes": kind.knows_classes(),
        "knows_reservations": kind.knows_reservations(),
        "knows_limits": kind.knows_limits(),
    })
}
