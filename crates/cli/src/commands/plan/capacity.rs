//! `evenkeel plan capacity`: bounds and exact need, side by side.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use evenkeel_core::admission::Binding;
use evenkeel_core::{Envelope, Rate};
use evenkeel_gateway::config::{self, Config, VolumeConfig};
use evenkeel_plan::{Bounds, Deadline, FileSource, Flow, bounds, deadlines, exact_need};
use serde_json::{Value, json};

use super::{DOES_NOT_FIT, DONE, EXIT_CODES, failed, progress};
use crate::report::{config_error, print};
use crate::text_table::{Align, text_table};

/// Options of `evenkeel plan capacity`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct CapacityArgs {
    /// The configuration file
    config: PathBuf,
    /// The store; the only one if left out
    #[arg(long, value_name = "NAME")]
    store: Option<String>,
    /// What a volume sends: VOLUME=TRACE; may be repeated
    #[arg(long = "trace", value_name = "VOLUME=TRACE", value_parser = volume_and_trace)]
    traces: Vec<(String, PathBuf)>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

fn volume_and_trace(text: &str) -> Result<(String, PathBuf), String> {
    let (volume, trace) = text.split_once('=').ok_or("write VOLUME=TRACE")?;
    Ok((volume.to_owned(), PathBuf::from(trace)))
}

/// What is known of a store's need.
struct Planned<'c> {
    volumes: Vec<&'c VolumeConfig>,
    bounds: Bounds,
    deadlines: Vec<Deadline>,
    /// The exact need of each volume with a trace, and of all of those together.
    exact: Vec<Option<Rate>>,
    exact_together: Option<Rate>,
    capacity: Option<Rate>,
    /// By the bound that admission goes by.
    needed: Rate,
}

pub(super) fn run(args: &CapacityArgs) -> u8 {
    let config = match config::load(&args.config) {
        Ok(config) => config,
        Err(error) => {
            config_error(&error, args.json);
            return super::BAD_INPUT;
        }
    };
    let planned = match plan(&config, args) {
        Ok(planned) => planned,
        Err(message) => return failed(&message, args.json),
    };
    let fits = planned.capacity.is_none_or(|capacity| capacity >= planned.needed);
    if args.json {
        print(&format!("{}\n", as_json(&planned, fits)));
    } else {
        print(&text(&planned, fits));
    }
    if fits { DONE } else { DOES_NOT_FIT }
}

fn plan<'c>(config: &'c Config, args: &CapacityArgs) -> Result<Planned<'c>, String> {
    let store = super::store_index(config, args.store.as_deref())?;
    let volumes: Vec<&VolumeConfig> = config.volumes_of(store).collect();
    let classes: Vec<&[Envelope]> = volumes.iter().map(|volume| volume.slo.classes()).collect();
    for (name, _) in &args.traces {
        if !volumes.iter().any(|volume| volume.name == *name) {
            return Err(format!("--trace {name}: the store has no volume {name:?}"));
        }
    }
    let trace_of = |volume: &VolumeConfig| {
        args.traces.iter().find(|(name, _)| *name == volume.name).map(|(_, path)| FileSource::new(path, None))
    };
    let sources: Vec<Option<FileSource>> = volumes.iter().map(|volume| trace_of(volume)).collect();
    let flow = |index: usize| -> Option<Flow<'_>> {
        let source = sources[index].as_ref()?;
        Some(Flow { name: volumes[index].name.clone(), source, classes: classes[index].to_vec() })
    };
    let bar = progress(None, "replaying traces");
    let need = |flows: &[Flow<'_>]| exact_need(flows).map_err(|error| error.to_string());
    let mut exact = Vec::new();
    for index in 0..volumes.len() {
        exact.push(flow(index).map(|flow| need(&[flow])).transpose()?);
    }
    let together: Vec<Flow<'_>> = (0..volumes.len()).filter_map(flow).collect();
    let exact_together = if together.is_empty() { None } else { Some(need(&together)?) };
    bar.finish_and_clear();
    Ok(Planned {
        bounds: bounds(&classes),
        deadlines: deadlines(&classes),
        exact,
        exact_together,
        capacity: config.stores[store].capacity,
        needed: config.need_of(store).capacity,
        volumes,
    })
}

impl Planned<'_> {
    /// The deadline that lemma 3 is bound by; `None` if it is the sum of the rates, or nothing is promised.
    fn binding(&self) -> Option<&Deadline> {
        let Binding::Deadline(_) = self.bounds.together.binding else { return None };
        self.deadlines.iter().find(|it| it.capacity == self.bounds.together.capacity)
    }
}

fn text(planned: &Planned<'_>, fits: bool) -> String {
    let shown = |rate: Option<Rate>| rate.map_or("-".to_owned(), |rate| rate.to_string());
    let heads = [
        ("volume", Align::Left),
        ("promise", Align::Left),
        ("lemma 1", Align::Right),
        ("lemma 2", Align::Right),
        ("exact need of its trace", Align::Right),
    ];
    let rows: Vec<[String; 5]> = (planned.volumes.iter().enumerate())
        .map(|(index, volume)| {
            let classes: Vec<String> = volume.slo.classes().iter().map(ToString::to_string).collect();
            let promise = if classes.is_empty() { "background".to_owned() } else { classes.join(" in ") };
            let alone = Some(planned.bounds.alone[index]).filter(|_| !classes.is_empty());
            let equal = planned.bounds.alone_equal_rates[index];
            [volume.name.clone(), promise, shown(alone), shown(equal), shown(planned.exact[index])]
        })
        .collect();
    let mut text = text_table(heads, &rows);
    let bounds = &planned.bounds;
    let sum: u64 = bounds.alone.iter().map(|rate| rate.as_millis()).sum();
    let _ = writeln!(text, "sum of all alone:             {}", Rate::from_millis(sum));
    let _ = writeln!(text, "System Capacity Constraint:   {} (innermost classes)", bounds.single.capacity);
    let binding = match planned.binding() {
        Some(it) => format!("binding: the {} deadline of {}", it.latency, planned.volumes[it.flow].name),
        None => "binding: the sum of the rates".to_owned(),
    };
    let _ = writeln!(text, "lemma 3, all classes of all:  {} ({binding})", bounds.together.capacity);
    if let Some(exact) = planned.exact_together {
        let _ = writeln!(text, "exact need of the traces:     {exact}");
    }
    if let Some(capacity) = planned.capacity {
        let verdict = if fits { "fits" } else { "does NOT fit; see `evenkeel plan what-if`" };
        let _ =
            writeln!(text, "stated capacity:              {capacity}: {} needed, {verdict}", planned.needed);
    }
    text
}

fn as_json(planned: &Planned<'_>, fits: bool) -> Value {
    let iops = |rate: Option<Rate>| rate.map(Rate::as_f64);
    let volumes: Vec<Value> = (planned.volumes.iter().enumerate())
        .map(|(index, volume)| {
            json!({
                "volume": volume.name,
                "lemma1_iops": planned.bounds.alone[index].as_f64(),
                "lemma2_iops": iops(planned.bounds.alone_equal_rates[index]),
                "exact_iops": iops(planned.exact[index]),
            })
        })
        .collect();
    let deadlines: Vec<Value> = planned
        .deadlines
        .iter()
        .map(|it| {
            json!({
                "latency_us": it.latency.as_nanos() as f64 / 1_000.0,
                "volume": planned.volumes[it.flow].name,
                "class": it.class,
                "capacity_iops": it.capacity.as_f64(),
            })
        })
        .collect();
    let binding = planned.binding().map(|it| {
        let latency_us = it.latency.as_nanos() as f64 / 1_000.0;
        json!({ "volume": planned.volumes[it.flow].name, "latency_us": latency_us })
    });
    json!({
        "ok": fits,
        "system_capacity_constraint_iops": planned.bounds.single.capacity.as_f64(),
        "lemma3_iops": planned.bounds.together.capacity.as_f64(),
        "binding": binding,
        "needed_iops": planned.needed.as_f64(),
        "exact_iops": iops(planned.exact_together),
        "capacity_iops": iops(planned.capacity),
        "volumes": volumes,
        "deadlines": deadlines,
    })
}
