//! `[device]`: which model a scenario runs on.
//!
//! ```text
//!  [device] rate = "475 IOPS"             a device of constant rate; service = "exponential" for M/M/c
//!  device = "microsoft-ssd"               a drive by its name
//!  [device] kind = "raid", level = 5, ...  any model, described in place as in docs/devices.md
//!  [device] file = "array.toml"           the same in a file of its own
//!  [device] kind = "hybrid", ...           flash in front of a disk: hybrid.rs
//! ```

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::path::Path;

use evenkeel_core::{Rate, Span};
use evenkeel_device::spec::Model;
use evenkeel_device::{Device, Spec};
use evenkeel_strict::{Report, Table};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use toml::de::DeTable;

use super::hybrid::{self, HybridConfig};
use super::words::RateText;
use crate::random::{Law, Random};
use crate::server::RandomServers;

/// The device of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceConfig {
    /// A model of the device crate.
    Model(Spec),
    /// Flash in front of a disk.
    Hybrid(Box<HybridConfig>),
    /// Servers with exponential service times, whose random numbers follow the run's seed.
    Exponential {
        /// Accesses per second, all servers together, when all are busy.
        rate: Rate,
        /// Servers that work at the same time.
        servers: NonZeroU32,
    },
}

/// The device as it is written: its name, `rate`, or a description with a `kind`. It is read from the
/// document, by the device crate's own reader.
#[derive(Clone, Copy, Debug)]
pub struct DeviceText;

/// A device of constant rate, in short.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "the schema is generated from it")]
struct ShortSection {
    /// Accesses per second, all servers together.
    rate: RateText,
    /// Servers that work at the same time; each access takes servers / rate. 1 by default.
    servers: Option<u32>,
    /// How service times are distributed. "constant" by default.
    service: Option<ServiceKind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "kebab-case")]
enum ServiceKind {
    /// Every access takes the same time.
    Constant,
    /// Exponential: the servers of queueing theory.
    Exponential,
}

const SERVERS_MAX: u32 = 65_536;
const FORM: &str = "write rate = \"1000 IOPS\", kind = \"flash\" or another kind, or file = \"drive.toml\"; for a drive by its name, \
                    write device = \"cheetah9lp\" at the top of the file in place of this section";

impl<'de> Deserialize<'de> for DeviceText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

impl JsonSchema for DeviceText {
    fn schema_name() -> Cow<'static, str> {
        "Device".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = Spec::names().collect();
        let short = generator.subschema_for::<ShortSection>();
        json_schema!({ "anyOf": [
            { "description": "A drive by its name.", "enum": names },
            short,
            {
                "description": "Any model, described in a file of its own.",
                "type": "object",
                "properties": { "file": { "type": "string" } },
                "required": ["file"],
                "additionalProperties": false
            },
            {
                "description": "Any model, described in place, or a hybrid device; see docs/devices.md and docs/simulator.md.",
                "type": "object",
                "properties": { "kind": { "type": "string" } },
                "required": ["kind"]
            }
        ] })
    }
}

/// Reads the device of `document`, whose relative paths start at `folder`; problems go to `report`.
pub(super) fn read(report: &mut Report, document: &DeTable<'_>, folder: &Path) -> Option<DeviceConfig> {
    let item = Table::new(String::new(), 0..0, document).take("device")?;
    if item.is_text() {
        return Spec::read_value(report, &item).map(DeviceConfig::Model);
    }
    let mut table = item.table(report, FORM)?;
    if !table.has("kind") {
        if let Some(file) = table.take("file") {
            table.finish(report);
            let path = folder.join(file.text(report)?);
            return Spec::read_file(report, &file, &path).map(DeviceConfig::Model);
        }
        return short(report, table);
    }
    let is_hybrid = document.get("device").and_then(|device| device.get_ref().get("kind"));
    if is_hybrid.and_then(|kind| kind.get_ref().as_str()) == Some("hybrid") {
        return hybrid::read(report, table).map(|config| DeviceConfig::Hybrid(Box::new(config)));
    }
    Spec::read(report, table).map(DeviceConfig::Model)
}

fn short(report: &mut Report, mut table: Table<'_>) -> Option<DeviceConfig> {
    let read = Spec::take_rate(report, &mut table, FORM, SERVERS_MAX);
    let kinds = [("constant", ServiceKind::Constant), ("exponential", ServiceKind::Exponential)];
    let service = table.take("service").map(|item| item.choice(report, &kinds));
    table.finish(report);
    let (rate, servers) = read?;
    match service.unwrap_or(Some(ServiceKind::Constant))? {
        ServiceKind::Constant => {
            Spec::new(Model::ConstantRate { rate, servers, capacity: None }).ok().map(DeviceConfig::Model)
        }
        ServiceKind::Exponential => Some(DeviceConfig::Exponential { rate, servers }),
    }
}

impl DeviceConfig {
    /// Requests that it can work on at the same time.
    #[must_use]
    pub fn parallelism(&self) -> NonZeroU32 {
        match self {
            Self::Model(spec) => spec.parallelism(),
            Self::Hybrid(config) => config.parallelism(),
            Self::Exponential { servers, .. } => *servers,
        }
    }

    /// Its size in bytes, if it has one.
    #[must_use]
    pub fn capacity(&self) -> Option<u64> {
        match self {
            Self::Model(spec) => spec.capacity(),
            Self::Hybrid(config) => Some(config.bytes()),
            Self::Exponential { .. } => None,
        }
    }

    pub(super) fn build(&self, seed: u64) -> Box<dyn Device + Send> {
        match self {
            Self::Model(spec) => spec.seeded(seed).build(),
            Self::Hybrid(config) => Box::new(config.seeded(seed).build(&[])),
            Self::Exponential { rate, servers } => {
                let nanos = u64::from(servers.get()) * 1_000_000_000_000 / rate.as_millis().max(1);
                let law = Law::Exponential(Span::from_nanos(nanos));
                Box::new(RandomServers::new(*servers, law, Random::new(seed, &[u64::MAX])))
            }
        }
    }
}
