//! What a flow is promised, as the file says it: `sla`, `reservation`, `limit`, `weight` and `interactive`.
//!
//! ```text
//!  sla = { burst, rate, latency }        one class              ─┐
//!  sla = [ { … }, { … } ]                several, innermost first ├─> Slo   if the scheduler knows them
//!  reservation, limit, weight                                   ─┘
//! ```

use evenkeel_catalogue::{Objection, PromiseKey, envelope_remedy, limit_objection, rate_remedy, with_rates};
use evenkeel_core::{Cost, Envelope, Rate, Slo, SloError, Span, Weight};

use super::costs::check_burst;
use super::table::{Item, Report, Table};
use super::{GroupConfig, SchedulerKind, VolumeConfig};

const SLA_FORM: &str = "write sla = { burst = 20, rate = \"200 IOPS\", latency = \"100 ms\" }";

/// The promise of one flow, and where it stands.
pub(super) struct Agreement<'t> {
    pub(super) slo: Slo,
    sla: Option<Item<'t>>,
}

impl<'t> Agreement<'t> {
    /// Takes the keys of a promise out of `table`.
    pub(super) fn read(report: &mut Report, table: &mut Table<'t>, scheduler: Option<SchedulerKind>) -> Self {
        let sla = table.take("sla");
        let promise = sla.as_ref().and_then(|item| read_promise(report, item, scheduler));
        let reservation = table.take("reservation").and_then(|item| {
            read_reserved(report, &item, PromiseKey::Reservation, scheduler, Slo::with_reservation)
        });
        let limit = table.take("limit").and_then(|item| {
            let limit = read_reserved(report, &item, PromiseKey::Limit, scheduler, Slo::with_limit)?;
            let promised = promise.as_ref().and_then(Slo::envelope).map(Envelope::rate);
            if let Some(objection) = limit_objection(limit, reservation, promised) {
                item.refuse(report, objection.message, objection.remedy);
            }
            Some(limit)
        });
        let slo = with_rates(read_shares(report, table, promise, scheduler), reservation, limit);
        Self { slo, sla }
    }

    /// What a member of `group` is promised, which is checked with the group.
    pub(super) fn of_group(group: &GroupConfig) -> Self {
        Self { slo: group.slo.clone(), sla: None }
    }

    /// In place of the promise of a group that is not known: its keys are known, and not judged.
    pub(super) fn unknown(table: &mut Table<'_>) -> Self {
        for name in ["sla", "reservation", "limit", "weight", "interactive"] {
            table.take(name);
        }
        Self { slo: Slo::background(), sla: None }
    }

    /// Reports a promise that does not cover the largest request of `volume`; whether it did.
    pub(super) fn check_covers(&self, report: &mut Report, volume: &VolumeConfig) -> bool {
        let (Some(sla), Some(Objection { message, remedy })) = (&self.sla, check_burst(&self.slo, volume))
        else {
            return false;
        };
        let member = volume.member.map_or(String::new(), |_| format!(" (of volume {:?})", volume.name));
        sla.refuse(report, format!("{message}{member}"), remedy);
        true
    }
}

/// One class, or a list of them for a scheduler that knows classes.
fn read_promise(report: &mut Report, item: &Item<'_>, scheduler: Option<SchedulerKind>) -> Option<Slo> {
    if !item.is_list() {
        return read_sla(report, item).map(Slo::guaranteed);
    }
    let classes = item.list(report, SLA_FORM)?;
    if is_refused(report, item, PromiseKey::Classes(classes.len()), scheduler) {
        return None;
    }
    let read: Vec<Option<Envelope>> = classes.iter().map(|class| read_sla(report, class)).collect();
    let envelopes: Vec<Envelope> = read.into_iter().collect::<Option<_>>()?;
    let slo = Slo::nested(&envelopes);
    if let Err(error) = slo {
        let remedy = "list the innermost class first; burst, rate and latency may only grow outward";
        item.refuse(report, error.to_string(), remedy);
    }
    slo.ok()
}

/// The promise, if there is one, with what says how the volume shares.
fn read_shares(
    report: &mut Report,
    table: &mut Table<'_>,
    promise: Option<Slo>,
    scheduler: Option<SchedulerKind>,
) -> Slo {
    let interactive = table.take("interactive");
    let interactive = interactive.map(|item| read_interactive(report, &item, scheduler, promise.is_some()));
    let weight = table.take("weight").and_then(|item| item.whole(report, 1..=Weight::MAX.as_u32()));
    let weight = weight.and_then(Weight::new).unwrap_or_default();
    let slo = promise.unwrap_or_else(Slo::background).with_weight(weight);
    if interactive.unwrap_or(false) { slo.with_interactive() } else { slo }
}

/// `interactive` is a class of its own for volumes without a promise, where the scheduler has such a class.
fn read_interactive(
    report: &mut Report,
    item: &Item<'_>,
    scheduler: Option<SchedulerKind>,
    promised: bool,
) -> bool {
    let interactive = item.flag(report).unwrap_or(false);
    if !is_refused(report, item, PromiseKey::Interactive, scheduler) && interactive && promised {
        let message = "a volume with an sla is in the real-time class already";
        item.refuse(report, message, "remove this line, or the sla");
    }
    interactive
}

/// A rate that only some schedulers know what to do with.
fn read_reserved(
    report: &mut Report,
    item: &Item<'_>,
    key: PromiseKey,
    scheduler: Option<SchedulerKind>,
    check: impl Fn(Slo, Rate) -> Result<Slo, SloError>,
) -> Option<Rate> {
    let rate = item.rate(report)?;
    if is_refused(report, item, key, scheduler) {
        return None;
    }
    if let Err(error) = check(Slo::background(), rate) {
        item.refuse(report, error.to_string(), rate_remedy(error));
        return None;
    }
    Some(rate)
}

/// Reports `key` if the scheduler, which may not be known, does not use it; whether it did.
fn is_refused(
    report: &mut Report,
    item: &Item<'_>,
    key: PromiseKey,
    scheduler: Option<SchedulerKind>,
) -> bool {
    let objection = scheduler.and_then(|scheduler| key.objection(scheduler, "in the store"));
    let Some(objection) = objection else { return false };
    item.refuse(report, objection.message, objection.remedy);
    true
}

fn read_sla(report: &mut Report, item: &Item<'_>) -> Option<Envelope> {
    let mut table = item.table(report, SLA_FORM)?;
    let burst_item = table.require(report, "burst", SLA_FORM);
    let rate_item = table.require(report, "rate", SLA_FORM);
    let latency_item = table.require(report, "latency", SLA_FORM);
    table.finish(report);
    let burst = burst_item.as_ref().and_then(|item| {
        let burst = item.requests(report)?;
        if burst < Cost::ONE {
            let message =
                format!("a burst of {burst} holds no whole request, so the promise would cover none");
            item.refuse(report, message, "write a burst of at least 1");
            return None;
        }
        Some(burst)
    });
    let rate = rate_item.as_ref().and_then(|item| item.rate(report));
    let latency = latency_item.as_ref().and_then(|item| item.time(report));

    // Each value is checked by itself, so that one that is refused hides nothing about the others.
    let (some_burst, some_rate, some_latency) = (Cost::ONE, Rate::per_second(1), Span::from_millis(1));
    let checks = [
        (&burst_item, burst.map(|burst| Envelope::new(burst, some_rate, some_latency))),
        (&rate_item, rate.map(|rate| Envelope::new(some_burst, rate, some_latency))),
        (&latency_item, latency.map(|latency| Envelope::new(some_burst, some_rate, latency))),
    ];
    for (item, result) in checks {
        if let (Some(item), Some(Err(error))) = (item, result) {
            item.refuse(report, error.to_string(), envelope_remedy(error));
        }
    }
    Envelope::new(burst?, rate?, latency?).ok()
}
