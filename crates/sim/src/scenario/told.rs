//! Keys whose values the catalogue reads, in scenarios as in the gateway's configuration: `fairio`, `cello`,
//! `cost` and `depth`. The parser only checks that they are where they may be; the schema describes their form.

use evenkeel_catalogue::{Depth, Tuning, TuningItems, read_cost};
use evenkeel_core::CostModel;
use evenkeel_core::sched::fairio::Accounting;
use evenkeel_strict::{Item, Report, Table};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use toml::de::DeTable;

macro_rules! told {
    ($(#[$doc:meta])* $name:ident as $shown:literal, $schema:tt) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                IgnoredAny::deserialize(deserializer).map(|_| Self)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                $shown.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

told! {
    /// FAIRIO's parameters.
    FairioText as "Fairio", {
        "type": "object",
        "properties": {
            "cycle": { "type": "string", "examples": ["1 s"] },
            "disks": { "type": "integer", "minimum": 1, "maximum": 4096 },
            "window": { "type": "integer", "minimum": 1, "maximum": 256 },
            "class_threshold": { "type": "integer", "minimum": 1, "maximum": 1_048_576 },
            "load_threshold": { "type": "integer", "minimum": 1, "maximum": 65_536 },
            "accounting": { "enum": ["shared", "queued"] },
            "first_request": { "type": "string", "examples": ["5 ms"] }
        },
        "additionalProperties": false
    }
}
told! {
    /// Cello's parameters.
    CelloText as "Cello", {
        "type": "object",
        "properties": {
            "real_time": { "type": "integer", "minimum": 1, "maximum": 1_000_000 },
            "interactive": { "type": "integer", "minimum": 1, "maximum": 1_000_000 },
            "throughput": { "type": "integer", "minimum": 1, "maximum": 1_000_000 },
            "quantum": { "type": "number", "exclusiveMinimum": 0 }
        },
        "additionalProperties": false
    }
}
told! {
    /// What requests cost, by kind and size.
    CostText as "Cost", {
        "type": "object",
        "examples": [{ "write": 2, "read": { "4 KiB": 1, "1 MiB": 150 } }],
        "propertyNames": { "enum": ["read", "write", "flush", "trim", "write_zeroes"] },
        "additionalProperties": { "anyOf": [
            { "type": "number", "exclusiveMinimum": 0 },
            { "type": "object", "additionalProperties": { "type": "number", "exclusiveMinimum": 0 } }
        ] }
    }
}
told! {
    /// The dispatch depth, or the bounds within which it is adapted.
    DepthText as "Depth", {
        "anyOf": [
            { "type": "integer", "minimum": 1, "maximum": 65_536 },
            { "description": "From 1 to 64.", "const": "auto" },
            {
                "type": "object",
                "properties": {
                    "min": { "type": "integer", "minimum": 1, "maximum": 65_536 },
                    "max": { "type": "integer", "minimum": 1, "maximum": 65_536 },
                    "start": { "type": "integer", "minimum": 1, "maximum": 65_536 },
                    "window": { "type": "string", "examples": ["1 s"] }
                },
                "required": ["min", "max"],
                "additionalProperties": false
            }
        ]
    }
}

const DEPTH_MAX: u32 = 65_536;

/// What the keys say.
pub(super) struct Told {
    pub(super) tuning: Tuning,
    /// By name of the flow.
    pub(super) costs: BTreeMap<String, CostModel>,
    /// The depth at the beginning, if it is said.
    pub(super) depth: Option<Depth>,
    /// By number of the change.
    pub(super) changed_depths: Vec<Option<Depth>>,
}

/// Reads the keys of `document`, for a device of so many disks; problems go to `report`. What the parser
/// judges is left to it.
pub(super) fn read(report: &mut Report, document: &DeTable<'_>, disks: u32) -> Told {
    let mut root = Table::new(String::new(), 0..0, document);
    let depth = root.take("depth").and_then(|item| Depth::read(report, &item, DEPTH_MAX));
    let most = depth.map_or(disks, |depth| depth.most.get());
    // The simulator knows what each request took.
    let tuning = TuningItems::take(&mut root).read_all(report, most, disks, Accounting::Reported);
    let base = root
        .take("cost")
        .map_or_else(CostModel::default, |item| read_cost(report, &item, &CostModel::default()));
    let changes = root.take("change").and_then(|item| item.list(&mut Report::default(), ""));
    let mut changed = |item: &Item<'_>| Depth::read(report, &quiet_table(item)?.take("depth")?, DEPTH_MAX);
    let changed_depths = changes.unwrap_or_default().iter().map(&mut changed).collect();
    let mut told = Told { tuning, costs: BTreeMap::new(), depth, changed_depths };
    for (name, item) in tables(root.take("flow")) {
        let Some(mut table) = quiet_table(&item) else { continue };
        let cost = table.take("cost").map_or_else(|| base.clone(), |item| read_cost(report, &item, &base));
        told.costs.insert(name.to_owned(), cost);
    }
    told
}

fn tables<'t>(item: Option<Item<'t>>) -> Vec<(&'t str, Item<'t>)> {
    item.as_ref().and_then(quiet_table).map(|mut table| table.take_all()).unwrap_or_default()
}

/// The table, if it is one; if not, the parser says so.
fn quiet_table<'t>(item: &Item<'t>) -> Option<Table<'t>> {
    item.table(&mut Report::default(), "")
}
