//! `adapt`: limits within which a volume's promise may follow what it sends.
//!
//! ```text
//!  adapt = { rate = ["100 IOPS", "400 IOPS"], burst = [5, 40] }            proposals, in the log
//!  adapt = { rate = [...], burst = [...], apply = true, window = "10 s" }  changes, where they fit
//! ```

use evenkeel_catalogue::Objection;
use evenkeel_core::{AdaptLimits, Cost, Envelope, Slo, Span};

use super::costs::check_burst;
use super::table::{Item, Report};
use super::{StoreConfig, VolumeConfig};

const FORM: &str = "write adapt = { rate = [\"100 IOPS\", \"400 IOPS\"], burst = [5, 40], apply = false }";
const WINDOW: Span = Span::from_millis(10_000);
const WINDOW_MIN: Span = Span::from_millis(100);

/// How a volume's promise may change while the store runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptConfig {
    /// Between what.
    pub limits: AdaptLimits,
    /// Whether to change it, or only say what would suit.
    pub apply: bool,
    /// How long it measures before it judges.
    pub window: Span,
}

/// Reads the table, and holds it against its volume and store.
pub(super) fn read_adapt(
    report: &mut Report,
    item: &Item<'_>,
    volume: &VolumeConfig,
    store: Option<&StoreConfig>,
) -> Option<AdaptConfig> {
    let mut table = item.table(report, FORM)?;
    let rate = table.require(report, "rate", FORM);
    let burst = table.require(report, "burst", FORM);
    let apply = table.take("apply").map(|item| item.flag(report));
    let window = table.take("window").map(|item| read_window(report, &item));
    table.finish(report);
    let rate = rate.and_then(|item| pair(report, &item, |report, it| it.rate(report)));
    let burst = burst.and_then(|item| pair(report, &item, |report, it| it.requests(report)));
    let (rate, burst) = (rate?, burst?);
    let apply = apply.unwrap_or(Some(false))?;
    let window = window.unwrap_or(Some(WINDOW))?;
    let limits = AdaptLimits::new(rate, burst);
    let limits = limits.map_err(|error| item.refuse(report, error.to_string(), FORM)).ok()?;
    check_promise(report, item, volume, &limits)?;
    check_smallest(report, item, volume, burst.0)?;
    if let Some(store) = store.filter(|store| apply && store.capacity.is_none()) {
        let message = format!("store {:?} states no capacity to hold changes against", store.name);
        item.refuse(report, message, "write its capacity or profile, or apply = false");
        return None;
    }
    Some(AdaptConfig { limits, apply, window })
}

fn pair<T: Copy>(
    report: &mut Report,
    item: &Item<'_>,
    mut read: impl FnMut(&mut Report, &Item<'_>) -> Option<T>,
) -> Option<(T, T)> {
    let elements = item.list(report, FORM)?;
    let [least, most] = &elements[..] else {
        item.refuse(report, "two values are needed, the smallest and the largest", FORM);
        return None;
    };
    let (least, most) = (read(report, least), read(report, most));
    Some((least?, most?))
}

fn read_window(report: &mut Report, item: &Item<'_>) -> Option<Span> {
    let window = item.time(report)?;
    if window < WINDOW_MIN {
        item.refuse(report, format!("{window} is too short to judge by"), "write at least \"100 ms\"");
        return None;
    }
    Some(window)
}

/// One class of its own, inside the limits.
fn check_promise(
    report: &mut Report,
    item: &Item<'_>,
    volume: &VolumeConfig,
    limits: &AdaptLimits,
) -> Option<()> {
    if volume.member.is_some() {
        item.refuse(report, "a volume of a group has no promise of its own", "remove this line");
        return None;
    }
    let [only] = volume.slo.classes() else {
        let remedy = "give it an sla of one class, or remove this line";
        item.refuse(report, "only a promise of one class can be adapted", remedy);
        return None;
    };
    if !limits.hold(only) {
        let message = format!("the present promise, {only}, is outside of these limits");
        item.refuse(report, message, "choose limits around it");
        return None;
    }
    Some(())
}

/// The smallest burst has to hold the largest request too.
fn check_smallest(report: &mut Report, item: &Item<'_>, volume: &VolumeConfig, burst: Cost) -> Option<()> {
    let only = volume.slo.envelope()?;
    let smallest = Slo::guaranteed(Envelope::new(burst, only.rate(), only.latency()).ok()?);
    if let Some(Objection { message, remedy }) = check_burst(&smallest, volume) {
        item.refuse(report, message, remedy);
        return None;
    }
    Some(())
}
