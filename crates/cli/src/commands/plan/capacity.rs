//! `evenkeel plan capacity`: bounds and exact need, side by side.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use evenkeel_core::admission::Binding;
use evenkeel_core::{Cost, Envelope, Rate, Slo};
use evenkeel_gateway::config::{self, Config, VolumeConfig};
use evenkeel_plan::{
    Bounds, Deadline, FileSource, Flow, Priced, Source, Together, bounds_of_costs, deadlines_of_costs,
    exact_need,
};
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
    /// Volumes of their own, then groups.
    agreements: Vec<(&'c str, &'c Slo)>,
    /// How many of them are volumes.
    alone: usize,
    bounds: Bounds,
    deadlines: Vec<Deadline>,
    /// The exact need of each agreement with a trace, and of all of those together.
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
    for (name, _) in &args.traces {
        if !volumes.iter().any(|volume| volume.name == *name) {
            return Err(format!("--trace {name}: the store has no volume {name:?}"));
        }
    }
    let traces: Vec<(&VolumeConfig, FileSource)> = (volumes.iter())
        .filter_map(|volume| {
            let (_, path) = args.traces.iter().find(|(name, _)| *name == volume.name)?;
            Some((*volume, FileSource::new(path, None)))
        })
        .collect();
    let priced: Vec<(&VolumeConfig, Priced<'_>)> = (traces.iter())
        .map(|(volume, source)| (*volume, Priced { source, cost: volume.cost.clone() }))
        .collect();
    let agreements: Vec<(&str, &Slo)> = config.agreements_of(store).collect();
    let alone = volumes.iter().filter(|volume| volume.member.is_none()).count();
    // What is sent under each agreement: by the volume, or by the members of the group that have a trace.
    let together: Vec<Together<'_>> = (agreements.iter().enumerate())
        .map(|(index, (name, _))| {
            let under = |volume: &VolumeConfig| match volume.member {
                None => index < alone && volume.name == *name,
                Some(member) => index >= alone && config.groups[member.group].name == *name,
            };
            let members = priced.iter().filter(|(volume, _)| under(volume));
            Together { name: (*name).to_owned(), members: members.map(|(_, it)| it as &dyn Source).collect() }
        })
        .collect();
    let flow = |index: usize| -> Option<Flow<'_>> {
        let (name, slo) = agreements[index];
        let source = Some(&together[index]).filter(|it| !it.members.is_empty())?;
        Some(Flow { name: name.to_owned(), source, classes: slo.classes().to_vec() })
    };
    let bar = progress(None, "replaying traces");
    let need = |flows: &[Flow<'_>]| exact_need(flows).map_err(|error| error.to_string());
    let mut exact = Vec::new();
    for index in 0..agreements.len() {
        exact.push(flow(index).map(|flow| need(&[flow])).transpose()?);
    }
    let all: Vec<Flow<'_>> = (0..agreements.len()).filter_map(flow).collect();
    let exact_together = if all.is_empty() { None } else { Some(need(&all)?) };
    bar.finish_and_clear();
    let classes: Vec<(&[Envelope], Cost)> =
        agreements.iter().map(|(_, slo)| slo.classes()).zip(config.largest_costs_of(store)).collect();
    Ok(Planned {
        bounds: bounds_of_costs(&classes),
        deadlines: deadlines_of_costs(&classes),
        exact,
        exact_together,
        capacity: config.stores[store].capacity,
        needed: config.need_of(store).capacity,
        alone,
        agreements,
    })
}

impl Planned<'_> {
    /// An agreement by its name, as volume or as group.
    fn named(&self, index: usize) -> Value {
        let kind = if index < self.alone { "volume" } else { "group" };
        let mut row = json!({});
        row[kind] = json!(self.agreements[index].0);
        row
    }

    /// The deadline that lemma 3 is bound by; `None` if it is the sum of the rates, or nothing is promised.
    fn binding(&self) -> Option<&Deadline> {
        let Binding::Deadline(_) = self.bounds.together.binding else { return None };
        self.deadlines.iter().find(|it| it.capacity == self.bounds.together.capacity)
    }
}

fn text(planned: &Planned<'_>, fits: bool) -> String {
    let shown = |rate: Option<Rate>| rate.map_or("-".to_owned(), |rate| rate.to_string());
    let heads = [
        ("volume or group", Align::Left),
        ("promise", Align::Left),
        ("lemma 1", Align::Right),
        ("lemma 2", Align::Right),
        ("lemma 2.1", Align::Right),
        ("exact need of its trace", Align::Right),
    ];
    let rows: Vec<[String; 6]> = (planned.agreements.iter().enumerate())
        .map(|(index, (name, slo))| {
            let classes: Vec<String> = slo.classes().iter().map(ToString::to_string).collect();
            let promise = if classes.is_empty() { "background".to_owned() } else { classes.join(" in ") };
            let alone = Some(planned.bounds.alone[index]).filter(|_| !classes.is_empty());
            let equal = planned.bounds.alone_equal_rates[index];
            let geometric = planned.bounds.alone_geometric[index];
            let geometric = geometric.map_or("-".to_owned(), |it| format!("{:.3} IOPS", it.capacity_iops));
            [(*name).to_owned(), promise, shown(alone), shown(equal), geometric, shown(planned.exact[index])]
        })
        .collect();
    let mut text = text_table(heads, &rows);
    let bounds = &planned.bounds;
    let sum: u64 = bounds.alone.iter().map(|rate| rate.as_millis()).sum();
    let _ = writeln!(text, "sum of all alone:             {}", Rate::from_millis(sum));
    let _ = writeln!(text, "System Capacity Constraint:   {} (innermost classes)", bounds.single.capacity);
    let binding = match planned.binding() {
        Some(it) => format!("binding: the {} deadline of {}", it.latency, planned.agreements[it.flow].0),
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
    let volumes: Vec<Value> = (0..planned.agreements.len())
        .map(|index| {
            let mut row = planned.named(index);
            row["lemma1_iops"] = json!(planned.bounds.alone[index].as_f64());
            row["lemma2_iops"] = json!(iops(planned.bounds.alone_equal_rates[index]));
            let geometric = planned.bounds.alone_geometric[index];
            row["lemma2_1_iops"] = json!(geometric.map(|it| it.capacity_iops));
            row["lemma2_1_lambda"] = json!(geometric.map(|it| it.lambda));
            row["lemma2_1_short_iops"] = json!(geometric.and_then(|it| it.short_iops));
            row["exact_iops"] = json!(iops(planned.exact[index]));
            row
        })
        .collect();
    let deadlines: Vec<Value> = planned
        .deadlines
        .iter()
        .map(|it| {
            let mut row = planned.named(it.flow);
            row["latency_us"] = json!(it.latency.as_nanos() as f64 / 1_000.0);
            row["class"] = json!(it.class);
            row["capacity_iops"] = json!(it.capacity.as_f64());
            row
        })
        .collect();
    let binding = planned.binding().map(|it| {
        let mut row = planned.named(it.flow);
        row["latency_us"] = json!(it.latency.as_nanos() as f64 / 1_000.0);
        row
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
