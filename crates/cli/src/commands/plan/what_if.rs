//! `evenkeel plan what-if`.

use std::path::PathBuf;

use clap::Args;
use evenkeel_core::{Envelope, Rate};
use evenkeel_gateway::config::{self, Config};
use evenkeel_plan::Parameter;
use serde_json::{Value, json};

use super::{BAD_INPUT, DOES_NOT_FIT, DONE, EXIT_CODES, failed, iops};
use crate::admission::{self, Change};
use crate::report::{config_error, print};
use crate::text_table::{Align, text_table};

/// Options of `evenkeel plan what-if`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct WhatIfArgs {
    /// The configuration file
    config: PathBuf,
    /// The store; the only one if left out
    #[arg(long, value_name = "NAME")]
    store: Option<String>,
    /// The capacity to fit; the store's stated one if left out
    #[arg(long, value_name = "IOPS", value_parser = iops)]
    capacity: Option<Rate>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &WhatIfArgs) -> u8 {
    let config = match config::load(&args.config) {
        Ok(config) => config,
        Err(error) => {
            config_error(&error, args.json);
            return BAD_INPUT;
        }
    };
    match answer(&config, args) {
        Ok(code) => code,
        Err(message) => failed(&message, args.json),
    }
}

fn answer(config: &Config, args: &WhatIfArgs) -> Result<u8, String> {
    let index = super::store_index(config, args.store.as_deref())?;
    let store = &config.stores[index];
    let capacity = args.capacity.or(store.capacity);
    let capacity = capacity
        .ok_or_else(|| format!("store {} states no capacity; give one with --capacity", store.name))?;
    let needed = config.need_of(index).capacity;
    let fits = needed <= capacity;
    let found = if fits { Vec::new() } else { admission::changes_for(config, index, capacity) };
    if args.json {
        let rows: Vec<Value> = found.iter().map(|it| as_json(it, config)).collect();
        print(&format!(
            "{}\n",
            json!({
                "ok": fits, "needed_iops": needed.as_f64(), "capacity_iops": capacity.as_f64(), "any_one_of": rows,
            })
        ));
    } else if fits {
        print(&format!("{needed} needed of {capacity}: fits as it is\n"));
    } else {
        print(&text(&found, needed, capacity));
    }
    Ok(if fits { DONE } else { DOES_NOT_FIT })
}

fn text(found: &[Change], needed: Rate, capacity: Rate) -> String {
    let mut text = format!("{needed} needed of {capacity}: does not fit");
    if found.is_empty() {
        text += ". No change of one parameter alone makes it fit: add capacity, or relax several.\n";
        return text;
    }
    text += ". Any one of these makes it fit:\n";
    let heads = [
        ("volume or group", Align::Left),
        ("class", Align::Right),
        ("change", Align::Left),
        ("promise then", Align::Left),
    ];
    let row = |it: &Change| {
        let promise: Vec<String> = it.relaxation.classes.iter().map(ToString::to_string).collect();
        [it.name.clone(), (it.relaxation.class + 1).to_string(), words(it), promise.join(" in ")]
    };
    let rows: Vec<[String; 4]> = found.iter().map(row).collect();
    text + &text_table(heads, &rows)
}

fn words(change: &Change) -> String {
    let class = change.relaxation.class;
    let (old, new) = (change.old[class], change.relaxation.classes[class]);
    match change.relaxation.parameter {
        Parameter::Burst => format!("burst {} to {}", old.burst(), new.burst()),
        Parameter::Rate => format!("rate {} to {}", old.rate(), new.rate()),
        Parameter::Latency => format!("latency {} to {}", old.latency(), new.latency()),
    }
}

fn as_json(it: &Change, config: &Config) -> Value {
    let class = |envelope: &Envelope| {
        json!({
            "burst_requests": envelope.burst().as_f64(),
            "rate_iops": envelope.rate().as_f64(),
            "latency_us": envelope.latency().as_nanos() as f64 / 1_000.0,
        })
    };
    let kind = if config.groups.iter().any(|group| group.name == it.name) { "group" } else { "volume" };
    let mut object = json!({
        "class": it.relaxation.class,
        "change": words(it),
        "classes": it.relaxation.classes.iter().map(class).collect::<Vec<_>>(),
    });
    object[kind] = json!(it.name);
    object
}
