//! The device that a store imitates: by rate, by name, by file, or in place.
//!
//! ```text
//!  emulate = { rate = "475 IOPS" }            a device of constant rate
//!  emulate = "microsoft-ssd"                  a drive by its name
//!  emulate = { file = "array.toml" }          a description in a file of its own
//!  emulate = { kind = "raid", level = 5, ... } the same in place
//! ```
//!
//! A description's file belongs to the configuration, so it is read with it.

use std::fs::File;
use std::io::Read;
use std::num::NonZeroU32;
use std::path::Path;

use evenkeel_core::Rate;
use evenkeel_device::Spec;
use evenkeel_device::spec::Model;
use evenkeel_strict::{Item, Report, Table};

use super::sections::{DEPTH_MAX, read_path};
use super::{FILE_BYTES_MAX, ShownBytes};

const FORM: &str = "write emulate = { rate = \"1000 IOPS\", servers = 1 }, { file = \"drive.toml\" }, or the name of a drive";

/// The device to imitate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmulateConfig {
    /// What it is.
    pub device: Spec,
}

impl EmulateConfig {
    /// Its rate, if it is one of constant rate.
    #[must_use]
    pub fn rate(&self) -> Option<Rate> {
        match self.device.model() {
            Model::ConstantRate { rate, .. } => Some(*rate),
            _ => None,
        }
    }

    /// The dispatch depth that keeps all of it at work.
    #[must_use]
    pub fn depth(&self) -> NonZeroU32 {
        let most = NonZeroU32::MIN.saturating_add(DEPTH_MAX - 1);
        self.device.parallelism().min(most)
    }

    pub(super) fn read(report: &mut Report, item: &Item<'_>, folder: &Path) -> Option<Self> {
        if item.is_text() {
            return Spec::read_value(report, item).map(|device| Self { device });
        }
        let mut table = item.table(report, FORM)?;
        let device = if table.has("kind") {
            Spec::read(report, table)
        } else if let Some(file) = table.take("file") {
            table.finish(report);
            let path = read_path(report, &file, folder)?;
            read_file(report, &file, &path)
        } else {
            read_rate(report, table)
        };
        device.map(|device| Self { device })
    }
}

/// The short form of a device of constant rate.
fn read_rate(report: &mut Report, mut table: Table<'_>) -> Option<Spec> {
    let rate = table.require(report, "rate", FORM);
    let servers = table.take("servers").map(|item| item.whole(report, 1..=DEPTH_MAX));
    table.finish(report);
    let rate = rate.and_then(|item| {
        let rate = item.rate(report)?;
        if rate.as_millis() == 0 || rate > evenkeel_core::Envelope::RATE_MAX {
            let remedy = format!("write a rate above 0 and up to {}", evenkeel_core::Envelope::RATE_MAX);
            item.refuse(report, format!("{rate} is no rate that a device can have"), remedy);
        }
        Some(rate)
    });
    let servers = servers.map_or(Some(1), |servers| servers).and_then(NonZeroU32::new);
    Spec::new(Model::ConstantRate { rate: rate?, servers: servers?, capacity: None }).ok()
}

fn read_file(report: &mut Report, item: &Item<'_>, path: &Path) -> Option<Spec> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
    if let Err(error) = read {
        let message = format!("cannot read {}: {error}", path.display());
        item.refuse(report, message, "check its name, its permissions, and that it is UTF-8");
        return None;
    }
    if text.len() as u64 > FILE_BYTES_MAX {
        let message = format!("{} is larger than {}", path.display(), ShownBytes(FILE_BYTES_MAX));
        item.refuse(report, message, "name the description of a device");
        return None;
    }
    match Spec::parse(&text, &path.to_string_lossy()) {
        Ok(spec) => Some(spec),
        Err(error) => {
            // Each with its place in the other file.
            for problem in &error.problems {
                let (line, column) = error.line_column(problem);
                let key = if problem.key.is_empty() { String::new() } else { format!("{}: ", problem.key) };
                let message = format!("{}:{line}:{column}: {key}{}", path.display(), problem.message);
                item.refuse(report, message, problem.remedy.clone());
            }
            None
        }
    }
}
