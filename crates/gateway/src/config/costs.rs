//! What requests cost, and whether promises cover it. `cost` itself is read as in scenarios, by the catalogue.

use evenkeel_catalogue::{Objection, burst_objection};
use evenkeel_core::{Cost, Operation, Slo};

use super::VolumeConfig;

pub(super) use evenkeel_catalogue::read_cost;

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
