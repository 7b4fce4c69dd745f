//! Ceilings of the members of a group, and what helps against parameters out of range.

use evenkeel_core::{Cost, Envelope, Limit, SloError};
use evenkeel_strict::{Item, Report};

const LIMIT_FORM: &str = "write limit = \"100 IOPS\", or limit = { burst = 10, rate = \"100 IOPS\" }";

/// `limit` of a member: a rate, with one request at once, or a burst and a rate. What is wrong goes to
/// `report`.
#[must_use]
pub fn read_limit(report: &mut Report, item: &Item<'_>) -> Option<Limit> {
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
        error => envelope_remedy(error),
    }
}

/// What to write instead of a reservation or a limit that is out of range.
#[must_use]
pub fn rate_remedy(error: SloError) -> String {
    match error {
        SloError::ZeroRate => "write a value above 0, or leave it out".to_owned(),
        error => envelope_remedy(error),
    }
}

/// What to write instead of an envelope's parameter that is out of range.
#[must_use]
pub fn envelope_remedy(error: SloError) -> String {
    match error {
        SloError::ZeroRate | SloError::ZeroLatency => {
            "write a value above 0; without a promise, leave sla out".to_owned()
        }
        SloError::RateTooLarge => format!("write at most \"{}\"", Envelope::RATE_MAX),
        SloError::BurstTooLarge => format!("write at most {}", Envelope::BURST_MAX),
        SloError::LatencyTooLarge => format!("write at most \"{}\"", Envelope::LATENCY_MAX),
        _ => "choose another value".to_owned(),
    }
}
