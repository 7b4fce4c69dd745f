//! `[group.NAME]`: flows under one agreement.
//!
//! ```text
//!  [group.acme]  sla, weight, reservation, limit   <── one flow of the scheduler, numbered after the flows
//!  [flow.db]     group = "acme"                    <── a member: `weight` and `limit` hold within the group
//! ```

use evenkeel_catalogue::SchedulerKind;
use evenkeel_core::{Cost, FlowId, Limit, Membership, Slo, Weight};
use evenkeel_strict::suggest::closest;

use super::ScenarioGroup;
use super::check::Checker;
use super::file::{FlowSection, ScenarioFile};
use super::resolve::{Terms, slo};

/// The groups of `file`, by name.
pub(super) fn read(
    checker: &mut Checker<'_>,
    file: &ScenarioFile,
    schedulers: &[SchedulerKind],
) -> Vec<ScenarioGroup> {
    let group = |(name, section): (&String, &super::GroupSection)| {
        let terms = Terms {
            schedulers,
            sla: section.sla.as_ref(),
            weight: section.weight,
            reservation: section.reservation,
            limit: section.limit,
        };
        ScenarioGroup { name: name.clone(), slo: slo(checker, &["group", name], &terms) }
    };
    file.group.iter().map(group).collect()
}

/// How the flow `name` belongs to one of `groups`, which are numbered from `first` on, and what that is
/// promised. `None` if it belongs to none, or to one that is not there.
pub(super) fn membership(
    checker: &mut Checker<'_>,
    name: &str,
    section: &FlowSection,
    groups: &[ScenarioGroup],
    first: usize,
) -> Option<(Membership, Slo)> {
    let wanted = section.group.as_ref()?;
    let at = |key: &'static str| ["flow", name, key];
    let own = [
        ("sla", section.sla.is_some()),
        ("reservation", section.reservation.is_some()),
        ("interactive", section.interactive.is_some()),
    ];
    for (key, _) in own.into_iter().filter(|(_, given)| *given) {
        let message = format!("flows of group {wanted:?} share its promise");
        checker.refuse(&at(key), message, format!("remove this line, or move it to [group.{wanted}]"));
    }
    let Some(index) = groups.iter().position(|group| group.name == *wanted) else {
        let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
        let remedy = match closest(wanted, &names) {
            Some(close) => format!("did you mean \"{close}\"?"),
            None => format!("add a section [group.{wanted}]"),
        };
        checker.refuse(&at("group"), format!("there is no group {wanted:?}"), remedy);
        return None;
    };
    let weight = section.weight.map_or(Some(Weight::ONE), Weight::new);
    if weight.is_none() {
        let remedy = format!("write a number from 1 to {}", Weight::MAX.as_u32());
        checker.refuse(&at("weight"), "this is no weight", remedy);
    }
    let limit = section.limit.and_then(|rate| match Limit::new(Cost::ONE, rate.0) {
        Ok(limit) => Some(limit),
        Err(error) => {
            checker.refuse(&at("limit"), error.to_string(), "choose another value");
            None
        }
    });
    let group = FlowId((first + index) as u32);
    Some((Membership { group, weight: weight.unwrap_or_default(), limit }, groups[index].slo.clone()))
}

/// Reports groups to which no flow belongs.
pub(super) fn check_members(checker: &mut Checker<'_>, groups: &[ScenarioGroup], file: &ScenarioFile) {
    for ScenarioGroup { name, .. } in groups {
        if file.flow.values().all(|flow| flow.group.as_ref() != Some(name)) {
            let remedy = format!("write group = {name:?} in a flow, or remove the section");
            checker.refuse(&["group", name], "no flow belongs to this group", remedy);
        }
    }
}
