//! From the file to a scenario that makes sense: names, ranges, promises.

use std::num::NonZeroU32;
use std::path::Path;

use evenkeel_catalogue::SchedulerKind;
use evenkeel_core::{Envelope, FlowId, Membership, Rate, Slo, SloError, Span, SpareCapacity, Time, Weight};
use evenkeel_strict::ShownBytes;
use evenkeel_strict::suggest::closest;

use super::check::Checker;
use super::file::{ChangeSection, FlowSection, ScenarioFile, SlaSection};
use super::schedulers::scheduler_names;
use super::told::Told;
use super::words::{OneOrMany, RateText, parts};
use super::{DeviceConfig, Scenario, ScenarioChange, ScenarioFlow, What, groups, workload};
use crate::dilated::SPEED_ONE;

/// Windows of a run, at most: they are kept for every flow.
const WINDOWS_MAX: u64 = 100_000;
const DEPTH_MAX: u32 = 65_536;
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
    let depth = check_depth(checker, &["depth"], file.depth);
    if names.is_empty() || names.len() > FLOWS_MAX {
        let remedy = format!("write from 1 to {FLOWS_MAX} sections [flow.NAME]");
        checker.refuse(&["flow"], format!("there are {} flows", names.len()), remedy);
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let groups = groups::read(checker, file);
    let flows: Vec<ScenarioFlow> = names
        .iter()
        .filter_map(|name| Some((name, file.flow.get(*name)?)))
        .map(|(name, section)| {
            let membership = groups::membership(checker, name, section, &groups, names.len());
            flow(checker, name, section, file, told, folder, membership)
        })
        .collect();
    groups::check_members(checker, &groups, file);
    check_regions(checker, &flows, device.and_then(DeviceConfig::capacity));
    let changes = changes(checker, file, names, &flows);
    let device = device?;
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
        depth: depth.unwrap_or(device.parallelism()),
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

fn check_depth(checker: &mut Checker<'_>, path: &[&str], depth: Option<u32>) -> Option<NonZeroU32> {
    let depth = depth?;
    if depth == 0 || depth > DEPTH_MAX {
        let remedy = format!("write a number from 1 to {DEPTH_MAX}");
        checker.refuse(path, format!("{depth} is no dispatch depth"), remedy);
    }
    NonZeroU32::new(depth)
}

fn flow(
    checker: &mut Checker<'_>,
    name: &str,
    section: &FlowSection,
    file: &ScenarioFile,
    told: &Told,
    folder: &Path,
    membership: Option<(Membership, Slo)>,
) -> ScenarioFlow {
    let at = ["flow", name];
    let start = section.start.map_or(Time::ZERO, |start| Time::ZERO + start.0);
    let stop = section.stop.map(|stop| Time::ZERO + stop.0);
    if stop.is_some_and(|stop| stop <= start) {
        checker.refuse(&[at[0], name, "stop"], "the flow ends before it begins", "write a later time");
    }
    let terms = Terms {
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
    let mut rate = |slo: Slo, name, given: Option<RateText>, with: fn(Slo, Rate) -> Result<Slo, SloError>| {
        let Some(given) = given else { return slo };
        with(slo.clone(), given.0).unwrap_or_else(|error| {
            checker.refuse(&key(name), error.to_string(), "choose another value");
            slo
        })
    };
    slo = rate(slo, "reservation", terms.reservation, Slo::with_reservation);
    slo = rate(slo, "limit", terms.limit, Slo::with_limit);
    let least = slo.reservation().or_else(|| slo.envelope().map(Envelope::rate));
    if let (Some(limit), Some(least)) = (slo.limit(), least)
        && limit < least
    {
        let message = format!("{limit} are less than the {least} that are reserved");
        checker.refuse(&key("limit"), message, "raise the limit, or lower the reservation or promised rate");
    }
    slo
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
    names: &[&str],
    flows: &[ScenarioFlow],
) -> Vec<(Time, ScenarioChange)> {
    let mut changes = Vec::new();
    let mut slos: Vec<Slo> = flows.iter().map(|flow| flow.slo.clone()).collect();
    let mut order: Vec<(usize, &ChangeSection)> = file.change.iter().enumerate().collect();
    order.sort_by_key(|(_, change)| change.at.0);
    let mut scheduler_name = file.scheduler.as_deref().unwrap_or("pclock");
    for (index, change) in order {
        let index = index.to_string();
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
        if let Some(depth) = check_depth(checker, &key("depth"), change.depth) {
            changes.push((time, ScenarioChange::Depth(depth)));
        }
        if let Some(slo) = new_terms(checker, &at, change, names, flows, &mut slos) {
            changes.push((time, slo));
        }
        if changes.len() == before && checker.problems.is_empty() {
            checker.refuse(&at, "nothing changes", "say what, as capacity = 0.7, or remove it");
        }
    }
    changes
}

/// A change of what is agreed with a flow: terms that are not named stay.
fn new_terms(
    checker: &mut Checker<'_>,
    at: &[&str],
    change: &ChangeSection,
    names: &[&str],
    flows: &[ScenarioFlow],
    slos: &mut [Slo],
) -> Option<ScenarioChange> {
    let terms = Terms {
        sla: change.sla.as_ref(),
        weight: change.weight,
        reservation: change.reservation,
        limit: change.limit,
    };
    let any =
        terms.sla.is_some() || terms.weight.is_some() || terms.reservation.is_some() || terms.limit.is_some();
    let Some(name) = &change.flow else {
        if any {
            checker.refuse(at, "whose terms change is not said", "add flow = \"NAME\"");
        }
        return None;
    };
    let Some(index) = names.iter().position(|known| known == name) else {
        let remedy = match closest(name, names) {
            Some(close) => format!("did you mean \"{close}\"?"),
            None => format!("write one of {}", names.join(", ")),
        };
        checker.refuse(&[at, &["flow"]].concat(), format!("there is no flow {name:?}"), remedy);
        return None;
    };
    if !any {
        let remedy = "add sla, weight, reservation or limit, or remove flow";
        checker.refuse(&[at, &["flow"]].concat(), format!("nothing changes for {name:?}"), remedy);
        return None;
    }
    if flows[index].membership.is_some() {
        let message = format!("{name:?} is a member of a group, whose terms hold for it");
        checker.refuse(&[at, &["flow"]].concat(), message, "name a flow that is in no group");
        return None;
    }
    let old = &slos[index];
    let mut new = slo(checker, at, &terms);
    if terms.sla.is_none() {
        new = with_rates(Slo::nested(old.classes()).unwrap_or_else(|_| Slo::background()), &new)
            .with_weight(new.weight());
    }
    if old.is_interactive() {
        new = new.with_interactive();
    }
    if terms.weight.is_none() {
        new = new.with_weight(old.weight());
    }
    if terms.reservation.is_none()
        && let Some(rate) = old.reservation()
    {
        new = new.clone().with_reservation(rate).unwrap_or(new);
    }
    if terms.limit.is_none()
        && let Some(rate) = old.limit()
    {
        new = new.clone().with_limit(rate).unwrap_or(new);
    }
    slos[index] = new.clone();
    Some(ScenarioChange::Slo(FlowId(index as u32), new))
}

/// `slo` with the reservation and limit of `other`.
fn with_rates(slo: Slo, other: &Slo) -> Slo {
    let slo = match other.reservation() {
        Some(rate) => slo.clone().with_reservation(rate).unwrap_or(slo),
        None => slo,
    };
    match other.limit() {
        Some(rate) => slo.clone().with_limit(rate).unwrap_or(slo),
        None => slo,
    }
}
