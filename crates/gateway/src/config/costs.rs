//! What requests cost, and whether promises cover it. `cost` itself is read as in scenarios, by the catalogue.

use std::path::PathBuf;

use evenkeel_catalogue::{Objection, burst_objection};
use evenkeel_core::{Cost, CostModel, Operation, Slo};

use super::table::{Report, Table};
use super::{Config, ConfigError, VolumeConfig};

pub(super) use evenkeel_catalogue::read_cost;

/// Reads prices as a store has them, for a command line: `{ write = 2, read = { "4 KiB" = 1, "1 MiB" = 150 } }`.
///
/// # Errors
/// Whatever is wrong with them, with the place.
pub fn parse_cost(text: &str) -> Result<CostModel, ConfigError> {
    let text = format!("cost = {text}");
    let failed = |problems| ConfigError::new(PathBuf::from("cost"), text.clone(), problems);
    let root = evenkeel_strict::document(&text).map_err(failed)?;
    let mut table = Table::new(String::new(), 0..0, root.get_ref());
    let mut report = Report::default();
    let item = table.take("cost");
    let cost = item.map(|item| read_cost(&mut report, &item, &CostModel::default()));
    table.finish(&mut report);
    if report.problems.is_empty() { Ok(cost.unwrap_or_default()) } else { Err(failed(report.problems)) }
}

impl Config {
    /// What the largest request costs that each agreement of a store takes, in the order of
    /// [`Config::agreements_of`]; of a group, that of all its members.
    #[must_use]
    pub fn largest_costs_of(&self, store: usize) -> Vec<Cost> {
        let alone = self.volumes_of(store).filter(|volume| volume.member.is_none());
        let alone = alone.map(|volume| largest(volume).0);
        let groups = (0..self.groups.len()).filter(|group| self.groups[*group].store == store);
        let of_group = |group: usize| {
            let members = self.volumes_of(store);
            let members = members.filter(|volume| volume.member.is_some_and(|member| member.group == group));
            members.map(|volume| largest(volume).0).max().unwrap_or(Cost::ONE)
        };
        alone.chain(groups.map(of_group)).collect()
    }
}

/// Reports a promise that does not cover the largest request that the volume takes: such a request is
/// outside the promise whenever it comes.
pub(super) fn check_burst(slo: &Slo, volume: &VolumeConfig) -> Option<Objection> {
    let (cost, words) = largest(volume);
    let or = match words {
        "the largest READ" | "the largest WRITE" => "or a smaller request_max, or lower its cost",
        _ => "or lower its cost",
    };
    burst_objection(slo, cost, words, or)
}

/// The dearest request that the volume takes.
fn largest(volume: &VolumeConfig) -> (Cost, &'static str) {
    let range = volume.size.map_or(u32::MAX, |size| u32::try_from(size).unwrap_or(u32::MAX));
    let payload = volume.request_max.min(range);
    let mut costs = vec![
        (volume.cost.cost(Operation::Flush, 0), "a FLUSH"),
        (volume.cost.cost(Operation::Read, payload), "the largest READ"),
    ];
    if !volume.read_only {
        costs.push((volume.cost.cost(Operation::Write, payload), "the largest WRITE"));
        costs.push((volume.cost.cost(Operation::Trim, range), "a TRIM of the whole volume"));
        costs.push((volume.cost.cost(Operation::WriteZeroes, range), "a WRITE_ZEROES of the whole volume"));
    }
    costs.into_iter().max_by_key(|(cost, _)| *cost).unwrap_or((Cost::ONE, "a FLUSH"))
}
