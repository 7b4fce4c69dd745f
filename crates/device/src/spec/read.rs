//! From a table to a model, kind by kind.

use std::borrow::Cow;
use std::num::{NonZeroU32, NonZeroU64};

use evenkeel_core::{Envelope, Span};
use evenkeel_strict::suggest::closest;
use evenkeel_strict::{Item, Report, Table};
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::{MEMBERS_MAX, Model, Spec};
use crate::ParameterError;
use crate::disk;
use crate::flash::{self, Collection, Initial, Mapping, linear};
use crate::raid::{self, Level, ParityLayout, ParityUpdate, ReadFrom, WriteAfter};
use crate::servers::{self, Service};

/// How deep devices may stand within devices.
const NESTING_MAX: u32 = 8;

const FORM: &str = "write kind = \"flash\" or another kind; docs/devices.md lists them";

type Reader = fn(&mut Report, &mut Table<'_>, u32) -> Option<Model>;

/// Every kind and its reader.
const KINDS: [(&str, Reader); 8] = [
    ("constant-rate", constant_rate),
    ("servers", servers),
    ("disk", disk),
    ("flash", flash),
    ("linear-flash", linear_flash),
    ("raid", raid),
    ("jbod", jbod),
    ("bus", bus),
];

pub(super) fn spec(report: &mut Report, mut table: Table<'_>, depth: u32) -> Option<Spec> {
    if depth > NESTING_MAX {
        let message = format!("devices stand within devices more than {NESTING_MAX} deep");
        report.add(table.header.clone(), table.key.clone(), message, "put fewer arrays into arrays");
        return None;
    }
    let kind = table.require(report, "kind", FORM).and_then(|item| item.choice(report, &KINDS));
    let description = table.take("description").and_then(|item| item.text(report));
    let sources = table.take("sources").and_then(|item| texts(report, &item));
    let Some(reader) = kind else {
        // Without a kind, nothing is known about the other keys.
        return None;
    };
    let model = reader(report, &mut table, depth);
    let checked = model.and_then(|model| match model.check() {
        Ok(()) => Some(model),
        Err(ParameterError { key, message, remedy }) => {
            table.refuse(report, key, message, remedy);
            None
        }
    });
    table.finish(report);
    let description = description.unwrap_or_default().to_owned();
    Some(Spec { description, sources: sources.unwrap_or_default(), model: checked? })
}

pub(super) fn value(report: &mut Report, item: &Item<'_>, depth: u32) -> Option<Spec> {
    if !item.is_text() {
        let table = item.table(report, "name a drive, as \"flashsim-2009\", or write a table with a kind")?;
        return spec(report, table, depth);
    }
    let name = item.text(report)?;
    let found = Spec::named(name);
    if found.is_none() {
        let names: Vec<&str> = Spec::names().collect();
        let remedy = match closest(name, &names) {
            Some(close) => format!("did you mean {close:?}?"),
            None => format!("the drives known by name are {}", names.join(", ")),
        };
        item.refuse(report, format!("no drive is called {name:?}"), remedy);
    }
    found
}

fn texts(report: &mut Report, item: &Item<'_>) -> Option<Vec<String>> {
    let elements = item.list(report, "write a list of texts: sources = [\"...\"]")?;
    elements.iter().map(|element| element.text(report).map(str::to_owned)).collect()
}

/// A time that must be there.
fn time(report: &mut Report, table: &mut Table<'_>, name: &'static str) -> Option<Span> {
    let remedy = format!("write {name} = \"25 us\" or another time");
    table.require(report, name, remedy).and_then(|item| item.time(report))
}

/// A time that may be left out. `None` if it was refused.
fn time_or_zero(report: &mut Report, table: &mut Table<'_>, name: &'static str) -> Option<Span> {
    table.take(name).map_or(Some(Span::ZERO), |item| item.time(report))
}

fn whole(report: &mut Report, table: &mut Table<'_>, name: &'static str) -> Option<u32> {
    let remedy = format!("write {name} = 64 or another whole number");
    table.require(report, name, remedy).and_then(|item| item.whole(report, 1..=u32::MAX))
}

/// A whole number of at least `least` that may be left out. `None` if it was refused.
fn whole_or(
    report: &mut Report,
    table: &mut Table<'_>,
    name: &'static str,
    least: u32,
    default: u32,
) -> Option<u32> {
    table.take(name).map_or(Some(default), |item| item.whole(report, least..=u32::MAX))
}

/// One of a few words that may be left out. `None` if it was refused.
fn choice_or<T: Copy>(
    report: &mut Report,
    table: &mut Table<'_>,
    name: &'static str,
    choices: &[(&'static str, T)],
) -> Option<T> {
    table.take(name).map_or(Some(choices[0].1), |item| item.choice(report, choices))
}

fn flag_or_not(report: &mut Report, table: &mut Table<'_>, name: &'static str) -> Option<bool> {
    table.take(name).map_or(Some(false), |item| item.flag(report))
}

fn capacity(report: &mut Report, table: &mut Table<'_>) -> Option<u64> {
    let item = table.require(report, "capacity", "write capacity = \"1 GiB\" or another size")?;
    item.bytes(report)
}

/// A size of a page or a stripe unit.
fn size(report: &mut Report, item: &Item<'_>) -> Option<u32> {
    let bytes = item.bytes(report)?;
    let size = u32::try_from(bytes).ok().filter(|size| *size > 0);
    if size.is_none() {
        item.refuse(report, format!("{bytes} B cannot be"), "write a size from 1 B to below 4 GiB");
    }
    size
}

fn page(report: &mut Report, table: &mut Table<'_>) -> Option<u32> {
    let item = table.require(report, "page", "write page = \"4 KiB\" or another size")?;
    size(report, &item)
}

fn servers_of(report: &mut Report, table: &mut Table<'_>) -> Option<NonZeroU32> {
    whole_or(report, table, "servers", 1, 1).and_then(NonZeroU32::new)
}

fn constant_rate(report: &mut Report, table: &mut Table<'_>, _: u32) -> Option<Model> {
    let rate = table.require(report, "rate", "write rate = \"1000 IOPS\" or another rate").and_then(|item| {
        let rate = item.rate(report)?;
        if rate.as_millis() == 0 || rate > Envelope::RATE_MAX {
            let remedy = format!("write a rate above 0 and up to {}", Envelope::RATE_MAX);
            item.refuse(report, format!("{rate} is no rate that a device can have"), remedy);
            return None;
        }
        Some(rate)
    });
    let servers = servers_of(report, table);
    let capacity = table.take("capacity").map(|item| item.bytes(report));
    Some(Model::ConstantRate { rate: rate?, servers: servers?, capacity: capacity.flatten() })
}

fn servers(report: &mut Report, table: &mut Table<'_>, _: u32) -> Option<Model> {
    let servers = servers_of(report, table);
    let read = time(report, table, "read");
    let write = table.take("write").map_or(read, |item| item.time(report));
    type Distribution = fn(Span) -> Service;
    let times = [("fixed", Service::Fixed as Distribution), ("exponential", Service::Exponential)];
    let service = choice_or(report, table, "distribution", &times);
    let seed = whole_or(report, table, "seed", 0, 0);
    let capacity = table.take("capacity").map(|item| item.bytes(report));
    let service = service?;
    let parameters = servers::Parameters {
        servers: servers?,
        read: service(read?),
        write: service(write?),
        seed: u64::from(seed?),
    };
    Some(Model::Servers { parameters, capacity: capacity.flatten() })
}

/// A disk has tables of measured figures; its keys are those of [`disk::Parameters`].
fn disk(report: &mut Report, table: &mut Table<'_>, _: u32) -> Option<Model> {
    // What every description has was taken before, and is no key of the drive's own.
    let common = |name: &str| matches!(name, "kind" | "description" | "sources");
    let mut keys = DeTable::new();
    let mut end = table.header.end;
    for (name, item) in table.take_all().into_iter().filter(|(name, _)| !common(name)) {
        end = end.max(item.span.end);
        let name = Spanned::new(item.key_span, Cow::Borrowed(name));
        keys.insert(name, Spanned::new(item.span, item.value.clone()));
    }
    let whole = Spanned::new(table.header.start..end, DeValue::Table(keys));
    match disk::Parameters::deserialize(ValueDeserializer::from(whole)) {
        Ok(parameters) => Some(Model::Disk(Box::new(parameters))),
        Err(error) => {
            let span = error.span().unwrap_or(table.header.clone());
            report.add(
                span,
                table.key.clone(),
                one_line(error.message()),
                "docs/devices.md lists the keys of a disk",
            );
            None
        }
    }
}

fn one_line(text: &str) -> String {
    text.trim().replace('\n', ", ")
}

fn flash(report: &mut Report, table: &mut Table<'_>, _: u32) -> Option<Model> {
    let capacity = capacity(report, table);
    let page = page(report, table);
    let pages_per_block = whole(report, table, "pages_per_block");
    let blocks_per_die = whole(report, table, "blocks_per_die");
    let dies_per_channel = whole_or(report, table, "dies_per_channel", 1, 1);
    let channels = whole_or(report, table, "channels", 1, 1);
    let (read, program) = (time(report, table, "read"), time(report, table, "program"));
    let erase = time(report, table, "erase");
    let transfer = time_or_zero(report, table, "transfer");
    let copyback = flag_or_not(report, table, "copyback");
    let read_overhead = time_or_zero(report, table, "read_overhead");
    let write_overhead = time_or_zero(report, table, "write_overhead");
    let write_buffer = whole_or(report, table, "write_buffer", 0, 0);
    let policies = [("greedy", Collection::Greedy), ("cost-benefit", Collection::CostBenefit)];
    let collection = choice_or(report, table, "collection", &policies);
    let collect_below = whole_or(report, table, "collect_below", 2, 2);
    let wear_gap = table.take("wear_gap").map(|item| item.whole(report, 1..=u32::MAX));
    let mapping = table.take("map_cache").map_or(Some(Mapping::Page), |item| map_cache(report, &item));
    let states = [("filled", Initial::Filled), ("steady", Initial::Steady), ("empty", Initial::Empty)];
    let initial = choice_or(report, table, "initial", &states);
    Some(Model::Flash(flash::Parameters {
        capacity: capacity?,
        page: page?,
        pages_per_block: pages_per_block?,
        blocks_per_die: blocks_per_die?,
        dies_per_channel: dies_per_channel?,
        channels: channels?,
        read: read?,
        program: program?,
        erase: erase?,
        transfer: transfer?,
        copyback: copyback?,
        read_overhead: read_overhead?,
        write_overhead: write_overhead?,
        write_buffer: write_buffer?,
        collection: collection?,
        collect_below: collect_below?,
        wear_gap: wear_gap.flatten(),
        mapping: mapping?,
        initial: initial?,
    }))
}

fn map_cache(report: &mut Report, item: &Item<'_>) -> Option<Mapping> {
    let mut table = item.table(report, "write map_cache = { protected = 6552, probation = 1640 }")?;
    let protected = whole(report, &mut table, "protected");
    let probation = whole(report, &mut table, "probation");
    table.finish(report);
    Some(Mapping::Cached { protected: protected?, probation: probation? })
}

fn linear_flash(report: &mut Report, table: &mut Table<'_>, _: u32) -> Option<Model> {
    let capacity = capacity(report, table);
    let page = page(report, table);
    let (read, write) = (time(report, table, "read"), time(report, table, "write"));
    let growth = time(report, table, "growth");
    let saturation = whole(report, table, "saturation");
    let saturated = table.take("saturated").map_or(Some(true), |item| item.flag(report));
    Some(Model::LinearFlash(linear::Parameters {
        capacity: capacity?,
        page: page?,
        read: read?,
        write: write?,
        growth: growth?,
        saturation: saturation?,
        saturated: saturated?,
    }))
}

fn raid(report: &mut Report, table: &mut Table<'_>, depth: u32) -> Option<Model> {
    let level = table.require(report, "level", "write level = 0, 1, 5 or 10").and_then(|item| {
        let levels = [(0, Level::Raid0), (1, Level::Raid1), (5, Level::Raid5), (10, Level::Raid10)];
        let number = item.whole(report, 0..=10)?;
        let level = levels.iter().find(|(known, _)| *known == number).map(|(_, level)| *level);
        if level.is_none() {
            item.refuse(report, format!("there is no RAID-{number} here"), "write 0, 1, 5 or 10");
        }
        level
    });
    let standard = raid::Parameters::new(level.unwrap_or(Level::Raid0));
    let stripe_unit =
        table.take("stripe_unit").map_or(Some(standard.stripe_unit), |item| size(report, &item));
    let layouts = [
        ("left-symmetric", ParityLayout::LeftSymmetric),
        ("left-asymmetric", ParityLayout::LeftAsymmetric),
        ("right-symmetric", ParityLayout::RightSymmetric),
        ("right-asymmetric", ParityLayout::RightAsymmetric),
    ];
    let parity_layout = choice_or(report, table, "parity_layout", &layouts);
    let updates = [
        ("fewest-reads", ParityUpdate::FewestReads),
        ("read-modify-write", ParityUpdate::ReadModifyWrite),
        ("reconstruct", ParityUpdate::Reconstruct),
    ];
    let parity_update = choice_or(report, table, "parity_update", &updates);
    let orders = [("all-reads", WriteAfter::AllReads), ("own-read", WriteAfter::OwnRead)];
    let write_after = choice_or(report, table, "write_after", &orders);
    let copies =
        [("shortest-queue", ReadFrom::Shortest), ("in-turn", ReadFrom::InTurn), ("first", ReadFrom::First)];
    let read_from = choice_or(report, table, "read_from", &copies);
    let failed = table.take("failed").map(|item| item.whole(report, 0..=MEMBERS_MAX as u32));
    let members = members(report, table, depth);
    let parameters = raid::Parameters {
        level: level?,
        stripe_unit: stripe_unit?,
        parity_layout: parity_layout?,
        parity_update: parity_update?,
        write_after: write_after?,
        read_from: read_from?,
        failed: failed.flatten().map(|member| member as usize),
    };
    Some(Model::Raid { parameters, members: members? })
}

fn jbod(report: &mut Report, table: &mut Table<'_>, depth: u32) -> Option<Model> {
    let parameters = raid::Parameters::new(Level::Jbod);
    Some(Model::Raid { parameters, members: members(report, table, depth)? })
}

/// `members = { device = "NAME", count = 8 }`, or a list of such.
fn members(report: &mut Report, table: &mut Table<'_>, depth: u32) -> Option<Vec<Spec>> {
    const FORM: &str = "write members = { device = \"NAME\", count = 8 }, or a list of such";
    let item = table.require(report, "members", FORM)?;
    let groups = if item.is_list() { item.list(report, FORM)? } else { vec![item] };
    let mut members = Vec::new();
    for group in groups {
        let mut table = group.table(report, FORM)?;
        let device = table.require(report, "device", FORM);
        let count = table.take("count").map_or(Some(1), |item| item.whole(report, 1..=MEMBERS_MAX as u32));
        table.finish(report);
        let device = device.and_then(|item| value(report, &item, depth + 1));
        let (device, count) = (device?, count? as usize);
        if (members.len() + count) * device.devices() > MEMBERS_MAX {
            group.refuse(report, format!("the array has more than {MEMBERS_MAX} devices"), "use fewer");
            return None;
        }
        members.extend(std::iter::repeat_n(device, count));
    }
    Some(members)
}

fn bus(report: &mut Report, table: &mut Table<'_>, depth: u32) -> Option<Model> {
    let device = table
        .require(report, "device", "write device = \"NAME\", or a table with a kind")
        .and_then(|item| value(report, &item, depth + 1));
    let bandwidth = table.require(report, "bandwidth", "write bandwidth = \"160 MB/s\"").and_then(|item| {
        let bandwidth = NonZeroU64::new(item.bandwidth(report)?);
        if bandwidth.is_none() {
            item.refuse(report, "nothing would ever be transferred", "write a bandwidth above 0");
        }
        bandwidth
    });
    let overhead = time_or_zero(report, table, "overhead");
    Some(Model::Bus { device: Box::new(device?), bytes_per_second: bandwidth?, overhead: overhead? })
}
