//! `evenkeel plan consolidate`.

use std::path::PathBuf;

use clap::Args;
use evenkeel_core::{CostModel, Rate};
use evenkeel_plan::{
    Consolidation, Contender, FileSource, Flow, PlanError, Priced, Tenant, consolidate, fit,
};
use serde_json::{Value, json};

use super::{Classes, DOES_NOT_FIT, DONE, EXIT_CODES, classes, failed, iops, prices, progress};
use crate::report::print;
use crate::text_table::{Align, text_table};

/// Options of `evenkeel plan consolidate`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct ConsolidateArgs {
    /// The traces, one for each volume
    #[arg(required = true)]
    traces: Vec<PathBuf>,
    /// What each of them wants, the innermost class first
    #[arg(long, value_name = "CLASSES", default_value = "90% 5 ms, 95% 50 ms, 100% 500 ms", value_parser = classes)]
    classes: Classes,
    /// How many of them, in this order, fit this capacity?
    #[arg(long, value_name = "IOPS", value_parser = iops)]
    capacity: Option<Rate>,
    /// What requests cost, as `cost` in a store: `{ write = 2, read = { "4 KiB" = 1, "1 MiB" = 150 } }`; one each if
    /// left out
    #[arg(long, value_name = "TOML", value_parser = prices, default_value = "{}")]
    cost: CostModel,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &ConsolidateArgs) -> u8 {
    let planned = match plan(args) {
        Ok(planned) => planned,
        Err(error) => return failed(&error.to_string(), args.json),
    };
    let all = args.traces.len();
    let fits = planned.iter().any(|it| it.fit.is_none_or(|fit| fit == all));
    if args.json {
        let rows: Vec<Value> = planned.iter().map(as_json).collect();
        print(&format!("{}\n", json!({ "ok": fits, "traces": all, "schedulers": rows })));
    } else {
        let heads = [
            ("scheduler", Align::Left),
            ("each alone, sum", Align::Right),
            ("together", Align::Right),
            ("saving", Align::Right),
            ("fit the capacity", Align::Right),
        ];
        let row = |it: &Consolidation| {
            let fit = it.fit.map_or("-".to_owned(), |fit| format!("{fit} of {all}"));
            let saving = it.saving_permille() as f64 / 10.0;
            let name = it.contender.name().to_owned();
            [name, it.sum().to_string(), it.together.to_string(), format!("{saving:.1} %"), fit]
        };
        let rows: Vec<[String; 5]> = planned.iter().map(row).collect();
        print(&text_table(heads, &rows));
    }
    if fits { DONE } else { DOES_NOT_FIT }
}

fn plan(args: &ConsolidateArgs) -> Result<Vec<Consolidation>, PlanError> {
    let sources: Vec<FileSource> = args.traces.iter().map(|path| FileSource::new(path, None)).collect();
    let sources: Vec<Priced<'_>> =
        sources.iter().map(|source| Priced { source, cost: args.cost.clone() }).collect();
    let bar = progress(None, "fitting and replaying");
    let mut tenants = Vec::new();
    for (source, path) in sources.iter().zip(&args.traces) {
        let classes = fit(source, &args.classes.0, &mut |_| bar.inc(1))?.classes;
        let flow = Flow { name: path.display().to_string(), source, classes };
        tenants.push(Tenant { flow, targets: args.classes.0.clone() });
    }
    let of = |contender| consolidate(&tenants, contender, args.capacity, &mut || bar.inc(1));
    let planned = Contender::ALL.into_iter().map(of).collect();
    bar.finish_and_clear();
    planned
}

fn as_json(it: &Consolidation) -> Value {
    json!({
        "scheduler": it.contender.name(),
        "alone_iops": it.alone.iter().map(|rate| rate.as_f64()).collect::<Vec<_>>(),
        "sum_iops": it.sum().as_f64(),
        "together_iops": it.together.as_f64(),
        "saving_percent": it.saving_permille() as f64 / 10.0,
        "fit": it.fit,
    })
}
