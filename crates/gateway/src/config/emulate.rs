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

use std::num::NonZeroU32;
use std::path::Path;

use evenkeel_core::Rate;
use evenkeel_device::Spec;
use evenkeel_device::spec::Model;
use evenkeel_strict::{Item, Report, Table};

use super::sections::{DEPTH_MAX, read_path};

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
            Spec::read_file(report, &file, &path)
        } else {
            read_rate(report, table)
        };
        device.map(|device| Self { device })
    }
}

/// The short form of a device of constant rate.
fn read_rate(report: &mut Report, mut table: Table<'_>) -> Option<Spec> {
    let read = Spec::take_rate(report, &mut table, FORM, DEPTH_MAX);
    table.finish(report);
    let (rate, servers) = read?;
    Spec::new(Model::ConstantRate { rate, servers, capacity: None }).ok()
}
