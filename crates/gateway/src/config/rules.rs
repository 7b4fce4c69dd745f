//! Rules that concern several keys: alignment, ranges that overlap, paths used twice.
//!
//! ```text
//!  pool.img  |■■■ db ■■■|■■ web ■■|  |■ log ■|       by start; each is compared with the one that
//!                    |■■ tmp ■■|                     reaches furthest so far: tmp overlaps db
//! ```

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use evenkeel_core::units::NANOS_PER_SECOND;
use evenkeel_core::{Slo, Span};

use super::groups::GroupDraft;
use super::sections::{StoreDraft, VolumeDraft};
use super::table::Report;
use super::values::ShownBytes;
use super::{Admission, StoreConfig};

/// Offsets and sizes are multiples of a sector.
const SECTOR: u64 = 512;
/// With `direct`, they are multiples of the largest sector in use.
const DIRECT_SECTOR: u64 = 4096;

/// Reports every violation.
pub(super) fn check(
    report: &mut Report,
    stores: &[StoreDraft],
    groups: &[GroupDraft<'_>],
    volumes: &[VolumeDraft],
) {
    check_store_paths(report, stores, volumes);
    check_hybrid_paths(report, stores, volumes);
    for volume in volumes {
        let direct = volume.store_known && stores[volume.config.store].config.direct;
        check_numbers(report, volume, if direct { DIRECT_SECTOR } else { SECTOR });
        if volume.store_known {
            check_device_size(report, volume, &stores[volume.config.store].config);
        }
        if volume.store_known && volume.config.member.is_none() {
            let (store, slo) = (&stores[volume.config.store].config, &volume.config.slo);
            check_access_time(report, (&volume.key, &volume.header), slo, store);
        }
    }
    for group in groups.iter().filter(|group| group.store_known) {
        let (store, slo) = (&stores[group.config.store].config, &group.config.slo);
        check_access_time(report, (&group.key, &group.header), slo, store);
    }
    check_overlaps(report, stores, volumes);
}

/// `path` without `.`, `..` and doubled separators, by its letters alone: links are not followed.
pub(super) fn normalised(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => match normal.components().next_back() {
                Some(Component::Normal(_)) => {
                    normal.pop();
                }
                Some(Component::RootDir) => {}
                _ => normal.push(".."),
            },
            other => normal.push(other),
        }
    }
    normal
}

fn check_store_paths(report: &mut Report, stores: &[StoreDraft], volumes: &[VolumeDraft]) {
    let mut owners: BTreeMap<PathBuf, &str> = BTreeMap::new();
    for store in stores {
        let Some(path) = &store.config.path else { continue };
        let name = store.config.name.as_str();
        if let Some(other) = owners.get(&normalised(path)) {
            let message = format!("{} is the path of store {other:?} too", path.display());
            let key = super::table::child_key("store", name);
            let remedy = "make the volumes slices of one store: two schedulers on one device keep no promise";
            report.add(store.path_span.clone(), format!("{key}.path"), message, remedy);
        }
        owners.entry(normalised(path)).or_insert(name);
    }
    for volume in volumes {
        let Some(path) = &volume.config.path else { continue };
        if let Some(store) = owners.get(&normalised(path)) {
            let message = format!("{} is the path of store {store:?}", path.display());
            let remedy = "leave path out to make the volume a slice of the store, or name another file";
            report.add(volume.path_span.clone(), format!("{}.path", volume.key), message, remedy);
        }
    }
}

/// Fast devices and maps belong to one store and to nothing else.
fn check_hybrid_paths(report: &mut Report, stores: &[StoreDraft], volumes: &[VolumeDraft]) {
    let mut owners: BTreeMap<PathBuf, String> = BTreeMap::new();
    let own = |path: &Option<PathBuf>, owner: String| path.as_ref().map(|path| (normalised(path), owner));
    let of_stores =
        stores.iter().filter_map(|store| own(&store.config.path, format!("store {:?}", store.config.name)));
    owners.extend(of_stores);
    let of_volumes = volumes
        .iter()
        .filter_map(|volume| own(&volume.config.path, format!("volume {:?}", volume.config.name)));
    owners.extend(of_volumes);
    for store in stores {
        let Some(draft) = &store.hybrid else { continue };
        let key = super::table::child_key("store", &store.config.name);
        let (fast, map) = (&draft.config.fast, &draft.config.map);
        for (name, path, span) in [("fast", fast, &draft.fast_span), ("map", map, &draft.map_span)] {
            if let Some(other) = owners.get(&normalised(path)) {
                let message = format!("{} is used by {other} too", path.display());
                let remedy = "name a file or device that nothing else uses";
                report.add(span.clone(), format!("{key}.hybrid.{name}"), message, remedy);
            }
            owners.entry(normalised(path)).or_insert_with(|| format!("store {:?}", store.config.name));
        }
    }
    for volume in volumes.iter().filter(|volume| volume.store_known && volume.config.path.is_some()) {
        let store = &stores[volume.config.store].config;
        if store.hybrid.is_some() {
            let message =
                format!("store {:?} is hybrid, and all of its volumes are slices of it", store.name);
            let remedy = "remove this line and give offset and size, or name another store";
            report.add(volume.path_span.clone(), format!("{}.path", volume.key), message, remedy);
        }
    }
}

fn check_numbers(report: &mut Report, volume: &VolumeDraft, sector: u64) {
    for (name, value) in [("offset", &volume.offset), ("size", &volume.size)] {
        let Some((bytes, span)) = value else { continue };
        if !bytes.is_multiple_of(sector) {
            let below = bytes - bytes % sector;
            let above = below.checked_add(sector);
            let near = match above {
                Some(above) if below > 0 || name == "offset" => {
                    format!("write \"{}\" or \"{}\"", ShownBytes(below), ShownBytes(above))
                }
                _ => format!("write \"{}\"", ShownBytes(above.unwrap_or(below))),
            };
            let why = if sector == DIRECT_SECTOR { ", as direct = true needs" } else { "" };
            let message = format!("{} is not a multiple of {sector} B{why}", ShownBytes(*bytes));
            report.add(span.clone(), format!("{}.{name}", volume.key), message, near);
        }
    }
    if let Some((0, span)) = &volume.size {
        report.add(
            span.clone(),
            format!("{}.size", volume.key),
            "the volume is empty",
            "write a size above 0",
        );
    }
    if let (Some((offset, _)), Some((size, span))) = (&volume.offset, &volume.size)
        && offset.checked_add(*size).is_none_or(|end| end > i64::MAX as u64)
    {
        let message = "the volume ends beyond the largest file, 8 EiB";
        report.add(span.clone(), format!("{}.size", volume.key), message, "write a smaller offset or size");
    }
}

/// With several servers a device can be fast enough in the sum and yet take too long for each access;
/// the System Capacity Constraint does not see that.
fn check_access_time(
    report: &mut Report,
    (key, header): (&str, &Range<usize>),
    slo: &Slo,
    store: &StoreConfig,
) {
    let (Some(device), Some(envelope)) = (&store.emulate, slo.envelope()) else { return };
    let Some(rate) = device.rate().filter(|rate| rate.as_millis() > 0) else { return };
    if store.admission == Admission::Warn {
        return;
    }
    let nanos = u128::from(device.depth().get()) * u128::from(NANOS_PER_SECOND) * 1_000;
    let nanos = nanos.div_ceil(u128::from(rate.as_millis()));
    let access = Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
    if access > envelope.latency() {
        let message = format!(
            "the emulated device takes {access} for one access, longer than the promised {}",
            envelope.latency()
        );
        let remedy = format!("promise at least \"{access}\", or emulate fewer servers");
        report.add(header.clone(), format!("{key}.sla.latency"), message, remedy);
    }
}

/// A slice has the same place on an emulated device as in the store's file.
fn check_device_size(report: &mut Report, volume: &VolumeDraft, store: &StoreConfig) {
    let capacity = store.emulate.as_ref().and_then(|emulate| emulate.device.capacity());
    let (Some(capacity), Some((offset, _)), Some((size, span))) = (capacity, &volume.offset, &volume.size)
    else {
        return;
    };
    let offset = if volume.config.path.is_some() { 0 } else { *offset };
    if offset.saturating_add(*size) > capacity {
        let message = format!(
            "the volume ends at {} on an emulated device of {}",
            ShownBytes(offset.saturating_add(*size)),
            ShownBytes(capacity)
        );
        let remedy = "make the volume smaller, or emulate a larger device";
        report.add(span.clone(), format!("{}.size", volume.key), message, remedy);
    }
}

/// The bytes of a backing that a volume exports.
struct Extent<'v> {
    volume: &'v VolumeDraft,
    bytes: Range<u64>,
}

fn check_overlaps(report: &mut Report, stores: &[StoreDraft], volumes: &[VolumeDraft]) {
    let mut backings: BTreeMap<PathBuf, Vec<Extent<'_>>> = BTreeMap::new();
    for volume in volumes {
        let shared = || stores.get(volume.config.store).and_then(|store| store.config.path.as_ref());
        let known_shared = if volume.store_known { shared() } else { None };
        let (Some(path), Some((start, _))) = (volume.config.path.as_ref().or(known_shared), &volume.offset)
        else {
            continue;
        };
        let end = match &volume.size {
            Some((size, _)) => start.saturating_add(*size),
            // Only a volume of its own file may leave the size out: it reaches to the file's end.
            None if volume.config.path.is_some() && !volume.size_refused => u64::MAX,
            None => continue,
        };
        backings.entry(normalised(path)).or_default().push(Extent { volume, bytes: *start..end });
    }
    for extents in backings.values_mut() {
        extents.sort_by_key(|extent| (extent.bytes.start, extent.volume.header.start));
        let mut furthest: Option<&Extent<'_>> = None;
        for extent in extents.iter() {
            if let Some(other) = furthest.filter(|other| extent.bytes.start < other.bytes.end) {
                report_overlap(report, extent, other);
            }
            if furthest.is_none_or(|other| extent.bytes.end > other.bytes.end) {
                furthest = Some(extent);
            }
        }
    }
}

/// Points at the volume that stands later in the file: that is the one just added.
fn report_overlap(report: &mut Report, a: &Extent<'_>, b: &Extent<'_>) {
    let (earlier, later) = if a.volume.header.start < b.volume.header.start { (a, b) } else { (b, a) };
    let volume = later.volume;
    let span = volume.offset.as_ref().map_or(volume.header.clone(), |(_, span)| span.clone());
    let message = format!(
        "volume {:?} ({}) overlaps volume {:?} ({})",
        volume.config.name,
        shown(&later.bytes),
        earlier.volume.config.name,
        shown(&earlier.bytes)
    );
    let remedy = match earlier.bytes.end {
        u64::MAX => format!("state the size of {:?}, or use another file", earlier.volume.config.name),
        end => format!("the first byte after {:?} is \"{}\"", earlier.volume.config.name, ShownBytes(end)),
    };
    report.add(span, format!("{}.offset", volume.key), message, remedy);
}

fn shown(bytes: &Range<u64>) -> String {
    match bytes.end {
        u64::MAX => format!("{} to the end of the file", ShownBytes(bytes.start)),
        end => format!("{} to {}", ShownBytes(bytes.start), ShownBytes(end)),
    }
}
