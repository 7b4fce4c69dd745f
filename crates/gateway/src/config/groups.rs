//! `[group.NAME]`: volumes under one agreement.
//!
//! ```text
//!  [group.acme]   sla, weight, ...   <── the agreement, one flow of the scheduler
//!  [volume.db]    group = "acme"     <── a member: `weight` and `limit` are those within the group
//! ```

use std::ops::Range;

use evenkeel_core::{Cost, Limit, SloError, Weight};

use super::promises::{Agreement, sla_remedy};
use super::sections::{StoreDraft, VolumeDraft, find, read_store_name};
use super::table::{Item, Report, Table};
use super::{GroupConfig, MemberConfig};

const LIMIT_FORM: &str = "write limit = \"100 IOPS\", or limit = { burst = 10, rate = \"100 IOPS\" }";

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

/// A rate, with one request at once, or a burst and a rate.
fn read_limit(report: &mut Report, item: &Item<'_>) -> Option<Limit> {
    let (burst_item, rate_item) = if item.is_table() {
        let mut table = item.table(report, LIMIT_FORM)?;
        let items = (table.require(report, "burst", LIMIT_FORM), table.require(report, "rate", LIMIT_FORM));
        table.finish(report);
        items
    } else {
        let limit = Limit::new(Cost::ONE, item.rate(report)?);
        return limit.map_err(|error| item.refuse(report, error.to_string(), remedy(error))).ok();
    };
    let burst = burst_item.as_ref().and_then(|item| item.requests(report));
    let rate = rate_item.as_ref().and_then(|item| item.rate(report));
    let limit = Limit::new(burst?, rate?);
    let blamed = match limit {
        Err(SloError::ZeroBurst | SloError::BurstTooLarge) => burst_item,
        _ => rate_item,
    };
    limit.map_err(|error| blamed.map(|item| item.refuse(report, error.to_string(), remedy(error)))).ok()
}

fn remedy(error: SloError) -> String {
    match error {
        SloError::ZeroBurst | SloError::ZeroRate => {
            "write a value above 0; without a limit, leave it out".to_owned()
        }
        error => sla_remedy(error),
    }
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
