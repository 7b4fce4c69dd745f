//! `[group.NAME]`: volumes under one agreement.
//!
//! ```text
//!  [group.acme]   sla, weight, ...   <── the agreement, one flow of the scheduler
//!  [volume.db]    group = "acme"     <── a member: `weight` and `limit` are those within the group
//! ```

use std::ops::Range;

use evenkeel_catalogue::read_limit;
use evenkeel_core::Weight;

use super::promises::Agreement;
use super::sections::{StoreDraft, VolumeDraft, find, read_store_name};
use super::table::{Item, Report, Table};
use super::{GroupConfig, MemberConfig};

/// A group with the places that rules point at.
pub(super) struct GroupDraft<'t> {
    pub(super) config: GroupConfig,
    pub(super) key: String,
    pub(super) header: Range<usize>,
    pub(super) store_known: bool,
    agreement: Agreement<'t>,
}

pub(super) fn read_group<'t>(
    report: &mut Report,
    name: &str,
    mut table: Table<'t>,
    stores: &[StoreDraft],
) -> GroupDraft<'t> {
    let (key, header) = (table.key.clone(), table.header.clone());
    let store_item = table.take("store");
    let store = read_store_name(report, store_item, &table, stores);
    let scheduler = store.map(|store| stores[store].config.scheduler);
    let agreement = Agreement::read(report, &mut table, scheduler);
    table.finish(report);
    let config = GroupConfig { name: name.to_owned(), store: store.unwrap_or(0), slo: agreement.slo.clone() };
    GroupDraft { config, key, header, store_known: store.is_some(), agreement }
}

/// The group that a volume names; `None` if there is no such group, which is then reported.
pub(super) fn read_group_name(
    report: &mut Report,
    item: &Item<'_>,
    groups: &[GroupDraft<'_>],
) -> Option<usize> {
    let names: Vec<&str> = groups.iter().map(|group| group.config.name.as_str()).collect();
    find(report, item, &names, "group")
}

/// The keys of a volume that belongs to `group`.
pub(super) fn read_member(
    report: &mut Report,
    table: &mut Table<'_>,
    group: usize,
    draft: &GroupDraft<'_>,
) -> MemberConfig {
    for name in ["sla", "reservation"] {
        if let Some(item) = table.take(name) {
            let message = format!("volumes of group {:?} share its promise", draft.config.name);
            let remedy = format!("remove this line, or move it to [{}]", draft.key);
            report.add(item.key_span.clone(), item.key.clone(), message, remedy);
        }
    }
    let limit = table.take("limit").and_then(|item| read_limit(report, &item));
    let weight = table.take("weight").and_then(|item| item.whole(report, 1..=Weight::MAX.as_u32()));
    MemberConfig { group, weight: weight.and_then(Weight::new).unwrap_or_default(), limit }
}

/// Reports groups without volumes, and promises that do not cover the largest request of a member.
pub(super) fn check(report: &mut Report, groups: &[GroupDraft<'_>], volumes: &[VolumeDraft]) {
    for (index, group) in groups.iter().enumerate() {
        let mut members =
            volumes.iter().filter(|volume| volume.config.member.is_some_and(|member| member.group == index));
        if members.clone().next().is_none() {
            let remedy = format!("write group = {:?} in a volume, or remove the section", group.config.name);
            report.add(group.header.clone(), group.key.clone(), "no volume belongs to this group", remedy);
        }
        // One of them is enough: what helps the first may help all.
        let _ = members.any(|volume| group.agreement.check_covers(report, &volume.config));
    }
}
