//! From the file to a scenario that makes sense: names, ranges, promises.

use std::path::Path;

use evenkeel_catalogue::{
    Depth, Objection, PromiseKey, SchedulerKind, burst_objection, limit_objection, rate_remedy, with_rates,
};
use evenkeel_core::{
    Cost, Envelope, FlowId, Membership, Rate, Slo, SloError, Span, SpareCapacity, Time, Weight,
};
use evenkeel_strict::ShownBytes;
use evenkeel_strict::suggest::closest;

use super::check::Checker;
use super::file::{ChangeSection, FlowSection, ScenarioFile, SlaSection};
use super::schedulers::scheduler_names;
use super::told::Told;
use super::words::{OneOrMany, RateText, parts};
use super::{DeviceConfig, Scenario, ScenarioChange, ScenarioFlow, ScenarioGroup, What, groups, workload};
use crate::dilated::SPEED_ONE;

/// Windows of a run, at most: they are kept for every flow.
const WINDOWS_MAX: u64 = 100_000;
const FLOWS_MAX: usize = 10_000;

/// Resolves `file`, whose flows stand in the order of `names`; problems go to `checker`. `None` without a
/// device.
pub(super) fn scenario(
    checker: &mut Checker<'_>,
    file: &ScenarioFile,
    device: Option<&DeviceConfig>,
    told: &Told,
    names: &[&str],
    path: &Path,
) -> Option<Scenario> {
    let scheduler_name = file.scheduler.clone().unwrap_or_else(|| "pclock".to_owned());
    check_scheduler(checker, &["scheduler"], &scheduler_name);
    check_times(checker, file);
    check_spare(checker, &["spare"], file.spare.is_some(), &scheduler_name);
    if names.is_empty() || names.len() > FLOWS_MAX {
        let remedy = format!("write from 1 to {FLOWS_MAX} sections [flow.NAME]");
        checker.refuse(&["flow"], format!("there are {} flows", names.len()), remedy);
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let schedulers = schedulers(file, &scheduler_name);
    let groups = groups::read(checker, file, &schedulers);
    let flows: Vec<ScenarioFlow> = names
        .iter()
        .filter_map(|name| Some((name, file.flow.get(*name)?)))
        .map(|(name, section)| {
            let membership = groups::membership(checker, name, section, &groups, names.len());
            flow(checker, name, section, &Whole { file, told, folder, schedulers: &schedulers }, membership)
        })
        .collect();
    groups::check_members(checker, &groups, file);
    check_bursts(checker, &flows, file);
    check_regions(checker, &flows, device.and_then(DeviceConfig::capacity));
    let changes = changes(checker, file, told, names, &flows, &groups, &schedulers);
    let device = device?;
    let Depth { most, adaptive } = told.depth.unwrap_or(Depth::fixed(device.parallelism()));
    Some(Scenario {
        name: path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default(),
        description: file.description.clone().unwrap_or_default(),
        hash: String::new(),
        duration: file.duration.0,
        warmup: file.warmup.map_or(Span::ZERO, |warmup| warmup.0),
        window: file.window.map_or(Span::from_millis(1_000), |window| window.0),
        seed: file.seed.unwrap_or(1),
        drain: file.drain.unwrap_or(false),
        scheduler: scheduler_name,
        spare: file.spare.map_or(SpareCapacity::Flows, |spare| spare.0),
        tuning: told.tuning,
        depth: most,
        adaptive,
        device: device.clone(),
        flows,
        groups,
        changes,
    })
}

/// Regions must lie on the device, where it has a size.
fn check_regions(checker: &mut Checker<'_>, flows: &[ScenarioFlow], capacity: Option<u64>) {
    let Some(capacity) = capacity else { return };
    for flow in flows {
        let beyond = flow.parts.iter().any(|part| match &part.what {
            What::Generated(_, access) => access.offset.saturating_add(access.extent) > capacity,
            What::Trace(_) => false,
        });
        if beyond {
            let message = format!("its region ends beyond the device of {}", ShownBytes(capacity));
            let remedy = "give access an offset and an extent that fit (\"1 GiB\" unless written)";
            checker.refuse(&["flow", &flow.name, "access"], message, remedy);
        }
    }
}

fn check_times(checker: &mut Checker<'_>, file: &ScenarioFile) {
    let duration = file.duration.0;
    if duration == Span::ZERO {
        checker.refuse(&["duration"], "nothing happens in no time", "write a time above 0");
    }
    if let Some(warmup) = file.warmup.filter(|warmup| warmup.0 >= duration) {
        let message = format!("the warm-up of {} leaves nothing of the {duration} of the run", warmup.0);
        checker.refuse(&["warmup"], message, "write a shorter warm-up or a longer duration");
    }
    let window = file.window.map_or(Span::from_millis(1_000), |window| window.0);
    if window == Span::ZERO || duration.as_nanos() / window.as_nanos() >= WINDOWS_MAX {
        let least = Span::from_nanos(duration.as_nanos() / WINDOWS_MAX + 1);
        let message = format!("{duration} in windows of {window} are more than {WINDOWS_MAX} windows");
        checker.refuse(&["window"], message, format!("write window = \"{least}\" or longer"));
    }
}

fn check_scheduler(checker: &mut Checker<'_>, path: &[&str], name: &str) {
    if SchedulerKind::by_name(name).is_some() {
        return;
    }
    let remedy = match closest(name, &scheduler_names()) {
        Some(close) => format!("did you mean \"{close}\"?"),
        None => format!("write one of {}", scheduler_names().join(", ")),
    };
    checker.refuse(path, format!("there is no scheduler {name:?}"), remedy);
}

fn check_spare(checker: &mut Checker<'_>, path: &[&str], given: bool, name: &str) {
    if given && SchedulerKind::by_name(name).is_some_and(|kind| !kind.knows_spare()) {
        let message = format!("{name} knows no spare capacity to give to somebody");
        checker.refuse(path, message, "remove this line, or write scheduler = \"pclock\"");
    }
}

/// The schedulers that a run has, one after the other.
fn schedulers(file: &ScenarioFile, first: &str) -> Vec<SchedulerKind> {
    let later = file.change.iter().filter_map(|change| change.scheduler.as_deref());
    std::iter::once(first).chain(later).filter_map(SchedulerKind::by_name).collect()
}

/// What all flows are read with.
struct Whole<'f> {
    file: &'f ScenarioFile,
    told: &'f Told,
    folder: &'f Path,
    schedulers: &'f [SchedulerKind],
}

fn flow(
    checker: &mut Checker<'_>,
    name: &str,
    section: &FlowSection,
    whole: &Whole<'_>,
    membership: Option<(Membership, Slo)>,
) -> ScenarioFlow {
    let Whole { file, told, folder, schedulers } = *whole;
    let at = ["flow", name];
    let start = section.start.map_or(Time::ZERO, |start| Time::ZERO + start.0);
    let stop = section.stop.map(|stop| Time::ZERO + stop.0);
    if stop.is_some_and(|stop| stop <= start) {
        checker.refuse(&[at[0], name, "stop"], "the flow ends before it begins", "write a later time");
    }
    let terms = Terms {
        schedulers,
        sla: section.sla.as_ref(),
        weight: section.weight,
        reservation: section.reservation,
        limit: section.limit,
    };
    let (membership, mut slo) = match membership {
        Some((membership, slo)) => (Some(membership), slo),
        None => (None, slo(checker, &at, &terms)),
    };
    if section.interactive == Some(true) {
        if section.sla.is_some() {
            let message = "a flow with an sla is in the real-time class already";
            checker.refuse(&[at[0], name, "interactive"], message, "remove this line, or the sla");
        }
        slo = slo.with_interactive();
    }
    let cost = told.costs.get(name).cloned().unwrap_or_default();
    let parts = (0..)
        .zip(&section.workload.0)
        .map(|(index, part)| workload::part(checker, name, index, part, section, file, folder))
        .collect();
    if section.workload.0.is_empty() {
        checker.refuse(&[at[0], name, "workload"], "the list is empty", "write at least one part");
    }
    ScenarioFlow { name: name.to_owned(), slo, membership, cost, start, stop, parts }
}

/// What is agreed with a flow, as written.
pub(super) struct Terms<'f> {
    /// The schedulers of the run: what none of them uses is refused.
    pub(super) schedulers: &'f [SchedulerKind],
    pub(super) sla: Option<&'f OneOrMany<SlaSection>>,
    pub(super) weight: Option<u32>,
    pub(super) reservation: Option<RateText>,
    pub(super) limit: Option<RateText>,
}

pub(super) fn slo(checker: &mut Checker<'_>, at: &[&str], terms: &Terms<'_>) -> Slo {
    let key = |name: &'static str| [at, &[name]].concat();
    let mut slo = match terms.sla {
        Some(classes) => promise(checker, &key("sla"), classes).unwrap_or_else(Slo::background),
        None => Slo::background(),
    };
    if let Some(weight) = terms.weight {
        match Weight::new(weight) {
            Some(weight) => slo = slo.with_weight(weight),
            None => checker.refuse(
                &key("weight"),
                format!("{weight} is no weight"),
                format!("write a number from 1 to {}", Weight::MAX.as_u32()),
            ),
        }
    }
    let mut rate =
        |key: &[&str], word, given: Option<RateText>, with: fn(Slo, Rate) -> Result<Slo, SloError>| {
            let rate = given?.0;
            refuse_unknown(checker, key, word, terms.schedulers);
            if let Err(error) = with(Slo::background(), rate) {
                checker.refuse(key, error.to_string(), rate_remedy(error));
                return None;
            }
            Some(rate)
        };
    let reservation =
        rate(&key("reservation"), PromiseKey::Reservation, terms.reservation, Slo::with_reservation);
    let limit = rate(&key("limit"), PromiseKey::Limit, terms.limit, Slo::with_limit);
    let promised = slo.envelope().map(Envelope::rate);
    if let Some(objection) = limit.and_then(|limit| limit_objection(limit, reservation, promised)) {
        checker.refuse(&key("limit"), objection.message, objection.remedy);
    }
    with_rates(slo, reservation, limit)
}

/// Refuses a rate that none of the run's schedulers keeps. Classes and interactive flows may stand under any
/// scheduler, so that one scenario serves to compare them.
fn refuse_unknown(checker: &mut Checker<'_>, path: &[&str], key: PromiseKey, schedulers: &[SchedulerKind]) {
    let objections: Vec<Objection> =
        schedulers.iter().filter_map(|kind| key.objection(*kind, "at the top of the file")).collect();
    if objections.len() == schedulers.len()
        && let Some(first) = objections.into_iter().next()
    {
        checker.refuse(path, first.message, first.remedy);
    }
}

/// Promises must hold the dearest request that their flows generate. Traces are not read for that, and a burst
/// of 0, the papers' way of writing a flow that is paced, counts as one request.
fn check_bursts(checker: &mut Checker<'_>, flows: &[ScenarioFlow], file: &ScenarioFile) {
    for flow in flows {
        let dearest = flow.parts.iter().filter_map(|part| match &part.what {
            What::Generated(_, access) => Some(access.dearest(&flow.cost)),
            What::Trace(_) => None,
        });
        let Some(dearest) = dearest.max() else { continue };
        let paced = flow.slo.classes().last().is_some_and(|class| class.burst() == Cost::ZERO);
        if paced && dearest <= Cost::ONE {
            continue;
        }
        let or = "or lower its cost or size";
        if let Some(objection) = burst_objection(&flow.slo, dearest, "its dearest request", or) {
            let group = file.flow.get(&flow.name).and_then(|section| section.group.as_deref());
            let (table, name, of) = match group {
                Some(group) => ("group", group, format!(" (of flow {:?})", flow.name)),
                None => ("flow", flow.name.as_str(), String::new()),
            };
            checker.refuse(&[table, name, "sla"], objection.message + &of, objection.remedy);
        }
    }
}

fn promise(checker: &mut Checker<'_>, at: &[&str], classes: &OneOrMany<SlaSection>) -> Option<Slo> {
    let mut envelopes = Vec::new();
    for (index, class) in classes.0.iter().enumerate() {
        match Envelope::new(class.burst.0, class.rate.0, class.latency.0) {
            Ok(envelope) => envelopes.push(envelope),
            Err(error) => {
                let index = index.to_string();
                let place = [at, &[index.as_str()]].concat();
                checker.refuse(&place, error.to_string(), "choose another value");
            }
        }
    }
    if envelopes.len() < classes.0.len() {
        return None;
    }
    match Slo::nested(&envelopes) {
        Ok(slo) => Some(slo),
        Err(error) => {
            let remedy = "list the innermost class first; burst, rate and latency may only grow outward";
            checker.refuse(at, error.to_string(), remedy);
            None
        }
    }
}

fn changes(
    checker: &mut Checker<'_>,
    file: &ScenarioFile,
    told: &Told,
    names: &[&str],
    flows: &[ScenarioFlow],
    groups: &[ScenarioGroup],
    schedulers: &[SchedulerKind],
) -> Vec<(Time, ScenarioChange)> {
    let mut changes = Vec::new();
    let slos = flows.iter().map(|flow| flow.slo.clone()).chain(groups.iter().map(|group| group.slo.clone()));
    let mut agreements = Agreements { names, flows, groups, schedulers, slos: slos.collect() };
    let mut order: Vec<(usize, &ChangeSection)> = file.change.iter().enumerate().collect();
    order.sort_by_key(|(_, change)| change.at.0);
    let mut scheduler_name = file.scheduler.as_deref().unwrap_or("pclock");
    for (number, change) in order {
        let index = number.to_string();
        let at = ["change", index.as_str()];
        let key = |name: &'static str| [at[0], at[1], name];
        let before = changes.len();
        let time = Time::ZERO + change.at.0;
        if let Some(speed) = change.capacity {
            match parts(speed, SPEED_ONE as u32) {
                Some(speed) => changes.push((time, ScenarioChange::Speed(speed))),
                None => checker.refuse(
                    &key("capacity"),
                    format!("{speed} is no share in millionths"),
                    "write the share of the device's speed that is left, as 0.7",
                ),
            }
        }
        if let Some(name) = &change.scheduler {
            check_scheduler(checker, &key("scheduler"), name);
            scheduler_name = name;
            changes.push((time, ScenarioChange::Scheduler(name.clone())));
        }
        if let Some(spare) = change.spare {
            check_spare(checker, &key("spare"), true, scheduler_name);
            changes.push((time, ScenarioChange::Spare(spare.0)));
        }
        if let Some(depth) = told.changed_depths.get(number).copied().flatten() {
            changes.push((time, ScenarioChange::Depth(depth)));
        }
        if let Some(slo) = agreements.change(checker, &at, change) {
            changes.push((time, slo));
        }
        // A depth that is no depth is told where it is read.
        if changes.len() == before && change.depth.is_none() && checker.problems.is_empty() {
            checker.refuse(&at, "nothing changes", "say what, as capacity = 0.7, or remove it");
        }
    }
    changes
}

/// What is agreed with flows and groups at some instant.
struct Agreements<'s> {
    names: &'s [&'s str],
    flows: &'s [ScenarioFlow],
    groups: &'s [ScenarioGroup],
    schedulers: &'s [SchedulerKind],
    /// By number: flows, then groups.
    slos: Vec<Slo>,
}

impl Agreements<'_> {
    /// A change of what is agreed with a flow or a group: terms that are not named stay.
    fn change(
        &mut self,
        checker: &mut Checker<'_>,
        at: &[&str],
        change: &ChangeSection,
    ) -> Option<ScenarioChange> {
        let terms = Terms {
            schedulers: self.schedulers,
            sla: change.sla.as_ref(),
            weight: change.weight,
            reservation: change.reservation,
            limit: change.limit,
        };
        let any = terms.sla.is_some()
            || terms.weight.is_some()
            || terms.reservation.is_some()
            || terms.limit.is_some();
        let (key, name) = match (&change.flow, &change.group) {
            (Some(name), None) => ("flow", name),
            (None, Some(name)) => ("group", name),
            (Some(_), Some(_)) => {
                let path = [at, &["group"]].concat();
                checker.refuse(&path, "a change is for a flow or for a group", "write two changes");
                return None;
            }
            (None, None) if any => {
                checker.refuse(
                    at,
                    "whose terms change is not said",
                    "add flow = \"NAME\" or group = \"NAME\"",
                );
                return None;
            }
            (None, None) => return None,
        };
        let path = [at, &[key]].concat();
        let index = self.number(checker, &path, key, name)?;
        if !any {
            let remedy = format!("add sla, weight, reservation or limit, or remove {key}");
            checker.refuse(&path, format!("nothing changes for {name:?}"), remedy);
            return None;
        }
        let new = changed(&self.slos[index], slo(checker, at, &terms), &terms);
        self.slos[index] = new.clone();
        let number = FlowId(index as u32);
        Some(if key == "group" {
            ScenarioChange::Group(number, new)
        } else {
            ScenarioChange::Slo(number, new)
        })
    }

    /// The number of a flow that has an agreement of its own, or of a group.
    fn number(&self, checker: &mut Checker<'_>, path: &[&str], key: &str, name: &str) -> Option<usize> {
        let groups: Vec<&str> = self.groups.iter().map(|group| group.name.as_str()).collect();
        let (known, first) =
            if key == "group" { (groups.as_slice(), self.flows.len()) } else { (self.names, 0) };
        let Some(index) = known.iter().position(|known| *known == name) else {
            let remedy = match closest(name, known) {
                Some(close) => format!("did you mean \"{close}\"?"),
                None if known.is_empty() => format!("add a section [{key}.{name}]"),
                None => format!("write one of {}", known.join(", ")),
            };
            checker.refuse(path, format!("there is no {key} {name:?}"), remedy);
            return None;
        };
        if key == "flow"
            && let Some(membership) = self.flows[index].membership
        {
            let message = format!("{name:?} is a member of a group, whose terms hold for it");
            let group =
                groups.get(membership.group.0 as usize - self.flows.len()).copied().unwrap_or_default();
            let remedy = format!("write group = {group:?} instead, or name a flow that is in no group");
            checker.refuse(path, message, remedy);
            return None;
        }
        Some(first + index)
    }
}

/// `old` with what `terms` names from `new`.
fn changed(old: &Slo, new: Slo, terms: &Terms<'_>) -> Slo {
    let (reservation, limit) = (new.reservation().or(old.reservation()), new.limit().or(old.limit()));
    let weight = if terms.weight.is_some() { new.weight() } else { old.weight() };
    let promise = match terms.sla {
        Some(_) => new,
        None => Slo::nested(old.classes()).unwrap_or_else(|_| Slo::background()),
    };
    let slo = with_rates(promise.with_weight(weight), reservation, limit);
    if old.is_interactive() { slo.with_interactive() } else { slo }
}
