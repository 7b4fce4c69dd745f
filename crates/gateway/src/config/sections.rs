//! The sections of the file, key by key. A value that is refused is reported and replaced by its
//! default so that the rest can be checked too; such a configuration is never handed out.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::ops::Range;
use std::path::{Path, PathBuf};

use evenkeel_core::{CostModel, Rate, Span};

use super::adapt::read_adapt;
use super::costs::read_cost;
use super::groups::{self, GroupDraft, read_group, read_group_name, read_member};
use super::hybrid::{HybridDraft, read_backend, refuse_in_hybrid};
use super::profile::read_profile;
use super::promises::Agreement;
use super::rules;
use super::suggest::closest;
use super::table::{Item, Report, Table};
use super::{
    Admission, AuditConfig, Config, EmulateConfig, GatewayConfig, Listen, Problem, SchedulerKind, SpareTo,
    StoreConfig, VolumeConfig,
};
use evenkeel_catalogue::{Depth, TuningItems};

/// A path of a Unix socket has at most this many bytes (`sun_path` less its final zero).
const SOCKET_PATH_BYTES_MAX: usize = 107;
/// The NBD protocol's limit for strings.
const DESCRIPTION_BYTES_MAX: usize = 4096;
/// The longest name of a store or volume.
const NAME_BYTES_MAX: usize = 255;
/// The largest dispatch depth: what one io_uring can hold.
pub(super) const DEPTH_MAX: u32 = 32_768;
/// The range of the largest request, and what it is a multiple of.
const REQUEST_MAX: std::ops::RangeInclusive<u64> = 64 << 10..=crate::catalogue::PAYLOAD_MAX as u64;
const REQUEST_STEP: u64 = 4096;
const IN_FLIGHT_MIN: u64 = 64 << 10;
const IN_FLIGHT_DEFAULT: u64 = 64 << 20;

const ADMISSIONS: [(&str, Admission); 3] =
    [("refuse", Admission::Refuse), ("warn", Admission::Warn), ("best-effort", Admission::BestEffort)];

/// A store with the places that rules point at.
pub(super) struct StoreDraft {
    pub(super) config: StoreConfig,
    pub(super) path_span: Range<usize>,
    pub(super) hybrid: Option<HybridDraft>,
}

/// A volume with the places that rules point at.
pub(super) struct VolumeDraft {
    pub(super) config: VolumeConfig,
    pub(super) key: String,
    pub(super) header: Range<usize>,
    /// Whether the store is known; if not, `config.store` means nothing.
    pub(super) store_known: bool,
    pub(super) path_span: Range<usize>,
    /// `None` if the offset is missing or was refused.
    pub(super) offset: Option<(u64, Range<usize>)>,
    /// `None` if the size was left out or was refused.
    pub(super) size: Option<(u64, Range<usize>)>,
    /// Whether the size was given but refused.
    pub(super) size_refused: bool,
}

/// Reads a whole file; `folder` is where relative paths start.
pub(super) fn read(text: &str, folder: &Path) -> Result<Config, Vec<Problem>> {
    let root = evenkeel_strict::document(text)?;
    let mut report = Report::default();
    let mut root = Table::new(String::new(), 0..0, root.get_ref());
    let gateway =
        root.require(&mut report, "gateway", "add [gateway] with listen = [\"tcp://127.0.0.1:10809\"]");
    let stores = root.take("store");
    let groups = root.take("group");
    let volumes = root.take("volume");
    root.finish(&mut report);

    let gateway = gateway.and_then(|item| read_gateway(&mut report, &item, folder));
    let stores: Vec<_> = named_tables(&mut report, stores, "write a section [store.NAME]")
        .into_iter()
        .map(|(name, table)| read_store(&mut report, name, table, folder))
        .collect();
    let groups: Vec<_> = named_tables(&mut report, groups, "write a section [group.NAME]")
        .into_iter()
        .map(|(name, table)| read_group(&mut report, name, table, &stores))
        .collect();
    let volumes: Vec<_> = named_tables(&mut report, volumes, "write a section [volume.NAME]")
        .into_iter()
        .map(|(name, table)| read_volume(&mut report, name, table, folder, (&stores, &groups)))
        .collect();
    rules::check(&mut report, &stores, &groups, &volumes);
    groups::check(&mut report, &groups, &volumes);

    match gateway {
        Some(gateway) if report.problems.is_empty() => Ok(Config {
            gateway,
            stores: stores.into_iter().map(|draft| draft.config).collect(),
            groups: groups.into_iter().map(|draft| draft.config).collect(),
            volumes: volumes.into_iter().map(|draft| draft.config).collect(),
        }),
        _ => Err(report.problems),
    }
}

/// The tables below `[store]` or `[volume]`, with checked names.
fn named_tables<'t>(report: &mut Report, item: Option<Item<'t>>, remedy: &str) -> Vec<(&'t str, Table<'t>)> {
    let Some(mut parent) = item.and_then(|item| item.table(report, remedy)) else {
        return Vec::new();
    };
    let mut tables = Vec::new();
    for (name, item) in parent.take_all() {
        let problem = if name.is_empty() {
            Some("the name is empty".to_owned())
        } else if name.len() > NAME_BYTES_MAX {
            Some(format!("the name has {} bytes, more than {NAME_BYTES_MAX}", name.len()))
        } else if name.chars().any(char::is_control) {
            Some("the name contains a control character".to_owned())
        } else {
            None
        };
        if let Some(message) = problem {
            let remedy = format!("choose a name of 1 to {NAME_BYTES_MAX} bytes of printable text");
            report.add(item.key_span.clone(), item.key.clone(), message, remedy);
        }
        if let Some(table) = item.table(report, remedy) {
            tables.push((name, table));
        }
    }
    tables
}

fn read_gateway(report: &mut Report, item: &Item<'_>, folder: &Path) -> Option<GatewayConfig> {
    let mut table = item.table(report, "write a section [gateway]")?;
    let form = "write listen = [\"tcp://127.0.0.1:10809\"]";
    let listen = table.require(report, "listen", form);
    let connections_max = table.take("connections_max").and_then(|item| item.whole(report, 1..=65_536));
    let handshake_timeout = table.take("handshake_timeout").and_then(|item| {
        let timeout = item.time(report)?;
        if timeout == Span::ZERO {
            item.refuse(report, "no client can negotiate in no time", "write a time such as \"10 s\"");
        }
        Some(timeout)
    });
    let drain_timeout = table.take("drain_timeout").and_then(|item| item.time(report));
    table.finish(report);
    Some(GatewayConfig {
        listen: listen.map(|item| read_listen(report, &item, form, folder)).unwrap_or_default(),
        connections_max: connections_max.unwrap_or(1024),
        handshake_timeout: handshake_timeout.unwrap_or(Span::from_millis(10_000)),
        drain_timeout: drain_timeout.unwrap_or(Span::from_millis(30_000)),
    })
}

fn read_listen(report: &mut Report, item: &Item<'_>, form: &str, folder: &Path) -> Vec<Listen> {
    let Some(elements) = item.list(report, form) else {
        return Vec::new();
    };
    if elements.is_empty() {
        item.refuse(report, "there is no address to listen on", form);
    }
    let mut seen: Vec<Listen> = Vec::new();
    for element in elements {
        let Some(text) = element.text(report) else { continue };
        let listen = match read_address(text, folder) {
            Ok(listen) => listen,
            Err((message, remedy)) => {
                element.refuse(report, message, remedy);
                continue;
            }
        };
        // Port 0 is another port each time.
        let is_any_port = matches!(&listen, Listen::Tcp(address) if address.port() == 0);
        if !is_any_port && seen.iter().any(|other| same_address(other, &listen)) {
            element.refuse(report, format!("{text} is listed twice"), "remove one of them");
        }
        seen.push(listen);
    }
    seen
}

fn same_address(a: &Listen, b: &Listen) -> bool {
    match (a, b) {
        (Listen::Unix(a), Listen::Unix(b)) => rules::normalised(a) == rules::normalised(b),
        (a, b) => a == b,
    }
}

fn read_address(text: &str, folder: &Path) -> Result<Listen, (String, String)> {
    let refuse = |message: String, remedy: &str| Err((message, remedy.to_owned()));
    if let Some(address) = text.strip_prefix("tcp://") {
        return match address.parse::<SocketAddr>() {
            Ok(address) => Ok(Listen::Tcp(address)),
            Err(_) if !address.contains(':') || address.ends_with(']') => {
                refuse(format!("{text:?} names no port"), "add the port; NBD's own is 10809")
            }
            Err(_) => refuse(
                format!("{text:?} is not an IP address and a port"),
                "write an IP address and a port from 0 to 65535, as \"tcp://127.0.0.1:10809\" or \"tcp://[::1]:10809\"",
            ),
        };
    }
    let Some(path) = text.strip_prefix("unix:") else {
        return refuse(
            format!("{text:?} is not an address to listen on"),
            "write \"tcp://ADDRESS:PORT\", \"unix:///PATH\" or \"unix:PATH\"",
        );
    };
    let path = match path.strip_prefix("//") {
        Some(absolute) if absolute.starts_with('/') => absolute,
        Some(relative) => {
            let remedy = format!("write \"unix:{relative}\" for a path from the file's folder");
            return Err((format!("{text:?} has a host in place of an absolute path"), remedy));
        }
        None => path,
    };
    if path.is_empty() || path.ends_with('/') || path.contains('\0') {
        return refuse(format!("{text:?} names no socket"), "write \"unix:///run/evenkeel.sock\"");
    }
    let path = folder.join(path);
    let length = path.as_os_str().len();
    if length > SOCKET_PATH_BYTES_MAX {
        let message = format!("the path of the socket, {}, has {length} bytes", path.display());
        let remedy = format!("choose a path of at most {SOCKET_PATH_BYTES_MAX} bytes");
        return Err((message, remedy));
    }
    Ok(Listen::Unix(path))
}

fn read_store(report: &mut Report, name: &str, mut table: Table<'_>, folder: &Path) -> StoreDraft {
    let mut path_span = table.header.clone();
    let path = table.take("path").and_then(|item| {
        path_span = item.span.clone();
        read_path(report, &item, folder)
    });
    let capacity = table.take("capacity");
    let admission = table.take("admission").and_then(|item| item.choice(report, &ADMISSIONS));
    let scheduler = table
        .take("scheduler")
        .and_then(|item| item.choice(report, &SchedulerKind::ALL.map(|kind| (kind.name(), kind))));
    let scheduler = scheduler.unwrap_or(SchedulerKind::PClock);
    let spare = table.take("spare").and_then(|item| {
        let spare = item.choice(report, &[("flows", SpareTo::Flows), ("background", SpareTo::Background)]);
        if spare == Some(SpareTo::Background) && scheduler != SchedulerKind::PClock {
            let message = format!("{scheduler} knows no spare capacity to give to background flows");
            item.refuse(report, message, "remove this line, or write scheduler = \"pclock\"");
        }
        spare
    });
    let tuning = TuningItems::take(&mut table);
    let hybrid = read_backend(report, &mut table, folder);
    let depth_item = table.take("depth");
    let depth = depth_item.as_ref().and_then(|item| Depth::read(report, item, DEPTH_MAX));
    let profile = table.take("profile").and_then(|item| read_profile(report, &item, folder));
    let derived = profile.as_ref().map(|profile| &profile.derived);
    let measured_cost = derived.map_or(CostModel::PER_REQUEST, |derived| derived.cost.clone());
    let cost = table.take("cost").map(|item| read_cost(report, &item, &measured_cost));
    let direct = table.take("direct").and_then(|item| item.flag(report));
    let cpu = table.take("cpu").and_then(|item| item.whole(report, 0..=1023));
    let emulate_item = table.take("emulate");
    let emulate = emulate_item.as_ref().and_then(|item| EmulateConfig::read(report, item, folder));
    if hybrid.is_some() {
        refuse_in_hybrid(report, &table, path.is_some(), depth_item.as_ref(), emulate_item.as_ref());
    }
    let audit = table.take("audit").and_then(|item| AuditConfig::read(report, &item, folder));
    let observe = table.take("observe").and_then(|item| item.flag(report));
    table.finish(report);

    let usual_depth = || emulate.as_ref().map_or(NonZeroU32::MIN.saturating_add(31), EmulateConfig::depth);
    let default_depth = || derived.map_or_else(usual_depth, |derived| derived.depth);
    let Depth { most: depth, adaptive } = match &hybrid {
        Some(hybrid) => Depth::fixed(hybrid.config.depth()),
        None => depth.unwrap_or_else(|| Depth::fixed(default_depth())),
    };
    let disks = emulate.as_ref().map_or(1, |emulate| emulate.depth().get());
    let config = StoreConfig {
        name: name.to_owned(),
        path,
        capacity: read_capacity(report, capacity, derived.map(|it| it.capacity), emulate.as_ref()),
        admission: admission.unwrap_or(Admission::Refuse),
        scheduler,
        spare: spare.unwrap_or(SpareTo::Flows),
        tuning: tuning.read(report, scheduler, depth.get(), disks),
        depth,
        adaptive,
        cost: cost.unwrap_or(measured_cost),
        direct: direct.unwrap_or(false),
        cpu,
        profile,
        emulate,
        hybrid: hybrid.as_ref().map(|draft| draft.config.clone()),
        audit,
        observe: observe.unwrap_or(false),
    };
    StoreDraft { config, path_span, hybrid }
}

fn read_capacity(
    report: &mut Report,
    item: Option<Item<'_>>,
    measured: Option<Rate>,
    emulate: Option<&EmulateConfig>,
) -> Option<Rate> {
    let device = emulate.and_then(EmulateConfig::rate);
    let Some(item) = item else { return measured.or(device) };
    let capacity = item.rate(report)?;
    if capacity.as_millis() == 0 {
        item.refuse(report, "no promise can count on nothing", "write a rate above 0, or remove this line");
    }
    if let Some(device) = device.filter(|device| capacity > *device) {
        let message = format!("{capacity} are more than the emulated device's {device}");
        item.refuse(report, message, format!("write at most \"{device}\", or remove this line"));
    }
    Some(capacity)
}

pub(super) fn read_path(report: &mut Report, item: &Item<'_>, folder: &Path) -> Option<PathBuf> {
    let text = item.text(report)?;
    if text.is_empty() || text.contains('\0') {
        item.refuse(report, "the path names no file", "write the path of a file or block device");
        return None;
    }
    Some(folder.join(text))
}

fn read_volume(
    report: &mut Report,
    name: &str,
    mut table: Table<'_>,
    folder: &Path,
    (stores, groups): (&[StoreDraft], &[GroupDraft<'_>]),
) -> VolumeDraft {
    let problems = report.problems.len();
    let (key, header) = (table.key.clone(), table.header.clone());
    let group_item = table.take("group");
    let group = group_item.as_ref().map(|item| read_group_name(report, item, groups));
    let store = read_volume_store(report, &mut table, stores, group.flatten().map(|group| &groups[group]));
    let mut path_span = header.clone();
    let path_item = table.take("path");
    // A refused path still says that the volume is no slice.
    let is_slice = path_item.is_none();
    let path = path_item.and_then(|item| {
        path_span = item.span.clone();
        read_path(report, &item, folder)
    });
    let needs = "a slice needs both: offset = \"0 B\", size = \"1 GiB\"";
    let require = |report: &mut Report, table: &mut Table<'_>, name| {
        if is_slice {
            table.require(report, name, needs).map(|item| (item.bytes(report), item.span))
        } else {
            table.take(name).map(|item| (item.bytes(report), item.span))
        }
    };
    let offset = require(report, &mut table, "offset");
    let size = require(report, &mut table, "size");
    let scheduler = store.map(|store| stores[store].config.scheduler);
    let cost = read_volume_cost(report, &mut table, store.map(|store| &stores[store].config.cost));
    let request_max = table.take("request_max").and_then(|item| read_request_max(report, &item));
    // A refused group still says that the volume has no promise of its own.
    let member = group.flatten().map(|group| read_member(report, &mut table, group, &groups[group]));
    let agreement = match (group, member) {
        (None, _) => Agreement::read(report, &mut table, scheduler),
        (Some(_), Some(member)) => Agreement::of_group(&groups[member.group].config),
        (Some(_), None) => Agreement::unknown(&mut table),
    };
    let read_only = table.take("read_only").and_then(|item| item.flag(report));
    let in_flight_max = table.take("in_flight_max").and_then(|item| read_in_flight(report, &item));
    let description = table.take("description").and_then(|item| read_description(report, &item));
    let adapt = table.take("adapt");
    table.finish(report);

    let placed = |value: Option<(Option<u64>, Range<usize>)>| value.and_then(|(v, span)| Some((v?, span)));
    let size_refused = matches!(size, Some((None, _)));
    let offset = match offset {
        None if !is_slice => Some((0, header.clone())),
        other => placed(other),
    };
    let size = placed(size);
    let mut config = VolumeConfig {
        name: name.to_owned(),
        store: store.unwrap_or(0),
        path,
        offset: offset.as_ref().map_or(0, |(offset, _)| *offset),
        size: size.as_ref().map(|(size, _)| *size),
        slo: agreement.slo.clone(),
        member,
        adapt: None,
        cost,
        request_max: request_max.unwrap_or(crate::catalogue::PAYLOAD_MAX),
        read_only: read_only.unwrap_or(false),
        in_flight_max: in_flight_max.unwrap_or(IN_FLIGHT_DEFAULT),
        description: description.unwrap_or_default().to_owned(),
    };
    let covers = !agreement.check_covers(report, &config);
    // Without a promise that was read there is nothing to hold the limits against.
    if let Some(item) = adapt.filter(|_| covers && report.problems.len() == problems) {
        config.adapt = read_adapt(report, &item, &config, store.map(|store| &stores[store].config));
    }
    if let (true, Some(store)) = (is_slice, store)
        && stores[store].config.path.is_none()
    {
        let message = format!("neither the volume nor its store {:?} has a path", stores[store].config.name);
        report.add(header.clone(), format!("{key}.path"), message, "give a path to one of them");
    }
    VolumeDraft { config, key, header, store_known: store.is_some(), path_span, offset, size, size_refused }
}

fn read_volume_cost(report: &mut Report, table: &mut Table<'_>, store: Option<&CostModel>) -> CostModel {
    let base = store.cloned().unwrap_or_default();
    match table.take("cost") {
        Some(item) => read_cost(report, &item, &base),
        None => base,
    }
}

fn read_request_max(report: &mut Report, item: &Item<'_>) -> Option<u32> {
    let bytes = item.bytes(report)?;
    if !REQUEST_MAX.contains(&bytes) || !bytes.is_multiple_of(REQUEST_STEP) {
        let message = format!("{} cannot be the largest request", super::ShownBytes(bytes));
        item.refuse(report, message, "write a multiple of 4 KiB from \"64 KiB\" to \"32 MiB\"");
        return None;
    }
    u32::try_from(bytes).ok()
}

/// The store of a volume: that of its group, if it has one.
fn read_volume_store(
    report: &mut Report,
    table: &mut Table<'_>,
    stores: &[StoreDraft],
    group: Option<&GroupDraft<'_>>,
) -> Option<usize> {
    let item = table.take("store");
    let Some(group) = group.filter(|group| group.store_known) else {
        return read_store_name(report, item, table, stores);
    };
    let Some(item) = item else { return Some(group.config.store) };
    let span = item.span.clone();
    let store = read_store_name(report, Some(item), table, stores)?;
    if store != group.config.store {
        let (group_name, name) = (&group.config.name, &stores[group.config.store].config.name);
        let message = format!("its group {group_name:?} is of store {name:?}");
        let remedy = "remove this line, or choose a group of this store";
        report.add(span, format!("{}.store", table.key), message, remedy);
    }
    Some(store)
}

pub(super) fn read_store_name(
    report: &mut Report,
    item: Option<Item<'_>>,
    table: &Table<'_>,
    stores: &[StoreDraft],
) -> Option<usize> {
    let names: Vec<&str> = stores.iter().map(|store| store.config.name.as_str()).collect();
    let Some(item) = item else {
        if stores.len() == 1 {
            return Some(0);
        }
        let (message, remedy) = match stores.len() {
            0 => ("there is no store".to_owned(), "add a section [store.NAME]".to_owned()),
            count => {
                let remedy = format!("write store = \"{}\" or another of {}", names[0], names.join(", "));
                (format!("the key is missing, and there are {count} stores"), remedy)
            }
        };
        report.add(table.header.clone(), format!("{}.store", table.key), message, remedy);
        return None;
    };
    find(report, &item, &names, "store")
}

/// Which of `names`, the sections of this `kind`, the item names.
pub(super) fn find(report: &mut Report, item: &Item<'_>, names: &[&str], kind: &str) -> Option<usize> {
    let text = item.text(report)?;
    let found = names.iter().position(|name| *name == text);
    if found.is_none() {
        let remedy = match (closest(text, names), names.is_empty()) {
            (Some(close), _) => format!("did you mean {close:?}?"),
            (None, true) => format!("add a section [{kind}.{text}]"),
            (None, false) => format!("write one of {}", names.join(", ")),
        };
        item.refuse(report, format!("there is no {kind} {text:?}"), remedy);
    }
    found
}

fn read_in_flight(report: &mut Report, item: &Item<'_>) -> Option<u64> {
    let bytes = item.bytes(report)?;
    if bytes < IN_FLIGHT_MIN {
        item.refuse(report, "too little to keep a store busy", "write at least \"64 KiB\"");
    }
    Some(bytes)
}

fn read_description<'t>(report: &mut Report, item: &Item<'t>) -> Option<&'t str> {
    let text = item.text(report)?;
    if text.len() > DESCRIPTION_BYTES_MAX || text.chars().any(char::is_control) {
        let remedy = format!("write at most {DESCRIPTION_BYTES_MAX} bytes of printable text in one line");
        item.refuse(report, "this description cannot be sent to clients", remedy);
    }
    Some(text)
}
