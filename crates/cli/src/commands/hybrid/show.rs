//! `evenkeel hybrid show`: what lies on the fast device.
//!
//! ```text
//!  entries (cluster ─> slot, blocks) ──┬─ by volume: bytes and clusters on the fast device
//!                                      └─ over the store: 64 cells, the share of each that is there
//! ```

use std::fmt::Write as _;

use evenkeel_gateway::config::ShownBytes;
use evenkeel_hybrid::{MapFile, Offline, OfflineError, Paths};
use evenkeel_tiering::policy::DiskOnly;
use evenkeel_tiering::{Cluster, Entry, Geometry};
use serde_json::{Value, json};

use super::{FINE, Said, Store, shown};
use crate::text_table::{Align, text_table};

const CELLS: usize = 64;
/// A cell without anything, and cells filled by eighths.
const LEVELS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// What a volume has on the fast device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OnFast {
    pub(super) bytes: u64,
    pub(super) clusters: u64,
}

/// Bytes of a cluster and of a block, by the map.
pub(super) fn cluster_bytes(paths: &Paths) -> Result<(u32, u32), OfflineError> {
    let map = MapFile::open(&paths.map)?;
    Ok((map.about().cluster_bytes, map.about().block_bytes))
}

pub(super) fn show(store: &Store<'_>) -> Result<Said, OfflineError> {
    let offline = Offline::open(&store.paths, Box::new(DiskOnly))?;
    let (about, entries) = (*offline.about(), offline.entries());
    let geometry = Geometry::new(about.cluster_bytes, about.block_bytes)?;
    let slots = geometry.slots(about.fast_bytes);
    let volumes = by_volume(store, about.cluster_bytes, about.block_bytes, &entries);
    let cells = fill(&entries, about.block_bytes, about.cluster_bytes, about.store_bytes);
    let bytes: u64 = entries.iter().map(|(_, entry)| on_fast_bytes(entry, about.block_bytes)).sum();
    let used = entries.len();
    let percent = 100.0 * used as f64 / f64::from(slots.max(1));
    let mut text = format!(
        "store {}: {used} of {slots} slots in use ({percent:.1} %), {} on the fast device\n\
         \x20 clusters of {}, blocks of {}\n\
         \x20 slow {} ({})\n\x20 fast {} ({})\n\x20 map  {}\n",
        store.store.name,
        shown(bytes),
        ShownBytes(u64::from(about.cluster_bytes)),
        ShownBytes(u64::from(about.block_bytes)),
        store.paths.slow.display(),
        shown(about.store_bytes),
        store.paths.fast.display(),
        shown(about.fast_bytes),
        store.paths.map.display(),
    );
    let sizes: Vec<u64> = store.config.volumes_of(store.index).map(|v| v.size.unwrap_or(0)).collect();
    let row = |((name, on_fast), size): (&(String, OnFast), &u64)| {
        let percent = 100.0 * on_fast.bytes as f64 / (*size).max(1) as f64;
        [
            name.clone(),
            shown(*size),
            shown(on_fast.bytes),
            format!("{percent:.1} %"),
            on_fast.clusters.to_string(),
        ]
    };
    let rows: Vec<_> = volumes.iter().zip(&sizes).map(row).collect();
    if !rows.is_empty() {
        let heads = [
            ("volume", Align::Left),
            ("size", Align::Right),
            ("on fast", Align::Right),
            ("share", Align::Right),
            ("clusters", Align::Right),
        ];
        text += &text_table(heads, &rows);
    }
    let picture: String = cells.iter().map(|&share| level(share)).collect();
    let _ = writeln!(
        text,
        "  the store from its first byte to its last, by what is on the fast device:\n  {picture}"
    );
    let listed: Vec<Value> = volumes
        .iter()
        .zip(&sizes)
        .map(|((name, it), size)| {
            json!({ "name": name, "size_bytes": size, "fast_bytes": it.bytes, "clusters": it.clusters })
        })
        .collect();
    let json = json!({
        "ok": true, "store": store.store.name, "slots_used": used, "slots": slots, "on_fast_bytes": bytes,
        "cluster_bytes": about.cluster_bytes, "block_bytes": about.block_bytes,
        "store_bytes": about.store_bytes, "fast_bytes": about.fast_bytes,
        "volumes": listed, "fill": cells,
    });
    Ok(Said { text, json, code: FINE })
}

/// What each volume of the store has on the fast device, in the order of the file.
pub(super) fn by_volume(
    store: &Store<'_>,
    cluster_bytes: u32,
    block_bytes: u32,
    entries: &[(Cluster, Entry)],
) -> Vec<(String, OnFast)> {
    let volumes = store.config.volumes_of(store.index);
    let of = |start: u64, end: u64| {
        let mut sum = OnFast::default();
        for (cluster, entry) in entries {
            let bytes: u64 = runs(*cluster, entry, cluster_bytes, block_bytes)
                .map(|(first, stop)| stop.min(end).saturating_sub(first.max(start)))
                .sum();
            sum.bytes += bytes;
            sum.clusters += u64::from(bytes > 0);
        }
        sum
    };
    volumes
        .map(|volume| {
            let end = volume.offset + volume.size.unwrap_or(0);
            (volume.name.clone(), of(volume.offset, end))
        })
        .collect()
}

/// The bytes of the store that lie on the fast device, run by run.
fn runs(
    cluster: Cluster,
    entry: &Entry,
    cluster_bytes: u32,
    block_bytes: u32,
) -> impl Iterator<Item = (u64, u64)> {
    let start = cluster * u64::from(cluster_bytes);
    let at = move |block: u32| start + u64::from(block) * u64::from(block_bytes);
    entry.on_fast.runs(cluster_bytes / block_bytes).map(move |(first, end)| (at(first), at(end)))
}

fn on_fast_bytes(entry: &Entry, block_bytes: u32) -> u64 {
    u64::from(entry.on_fast.count()) * u64::from(block_bytes)
}

/// The share of each of [`CELLS`] equal parts of the store that lies on the fast device, from 0 to 1.
fn fill(entries: &[(Cluster, Entry)], block_bytes: u32, cluster_bytes: u32, store_bytes: u64) -> Vec<f64> {
    let cell = store_bytes.div_ceil(CELLS as u64).max(1);
    let mut bytes = vec![0_u64; CELLS];
    for (cluster, entry) in entries {
        for (mut at, end) in runs(*cluster, entry, cluster_bytes, block_bytes) {
            while at < end.min(store_bytes) {
                let index = at / cell;
                let stop = end.min((index + 1) * cell);
                bytes[index as usize] += stop - at;
                at = stop;
            }
        }
    }
    bytes.iter().map(|&bytes| bytes as f64 / cell as f64).collect()
}

/// The letter for a share; anything at all is told from nothing.
fn level(share: f64) -> char {
    let eighths = (share * 8.0).round() as usize;
    LEVELS[if share > 0.0 { eighths.clamp(1, 8) } else { 0 }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_tiering::Blocks;

    #[test]
    fn the_picture_tells_full_from_empty_and_a_little_from_nothing() {
        assert_eq!([0.0, 0.001, 0.5, 1.0].map(level), ['·', '▁', '▄', '█']);
        let entry = Entry { slot: 0, on_fast: Blocks::range(0, 4) };
        // 64 clusters of 16 KiB: one cell each.
        let cells = fill(&[(3, entry)], 4096, 16 << 10, 1 << 20);
        assert_eq!(cells.iter().sum::<f64>(), 1.0);
        assert_eq!(cells[3], 1.0);
        let half = Entry { slot: 0, on_fast: Blocks::range(2, 4) };
        assert_eq!(fill(&[(63, half)], 4096, 16 << 10, 1 << 20)[63], 0.5);
    }
}
