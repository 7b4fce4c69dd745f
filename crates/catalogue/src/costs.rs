//! `cost`: what requests cost, by kind and size.
//!
//! ```text
//!  cost = { write = 2, read = { "4 KiB" = 1, "1 MiB" = 150 } }
//!           │           └─ by size: a line through these points
//!           └─ the same for every size; kinds that are not named keep the price they had, or 1
//! ```

use evenkeel_core::{CostError, CostModel, Operation, Point, Price};
use evenkeel_strict::{Item, Report, values};

const COST_FORM: &str = "write cost = { write = 2, read = { \"4 KiB\" = 1, \"1 MiB\" = 150 } }";
const SIZES_FORM: &str =
    "write a number of requests, as 1.5, or sizes with their costs, as { \"4 KiB\" = 1 }";

const KINDS: [(&str, Operation); 5] = [
    ("read", Operation::Read),
    ("write", Operation::Write),
    ("flush", Operation::Flush),
    ("trim", Operation::Trim),
    ("write_zeroes", Operation::WriteZeroes),
];

/// `base` with the prices that `item` names; what is wrong with them goes to `report`.
#[must_use]
pub fn read_cost(report: &mut Report, item: &Item<'_>, base: &CostModel) -> CostModel {
    let mut model = base.clone();
    let Some(mut table) = item.table(report, COST_FORM) else { return model };
    for (name, operation) in KINDS {
        if let Some(item) = table.take(name)
            && let Some(price) = read_price(report, &item, operation)
        {
            model = model.with(operation, price);
        }
    }
    table.finish(report);
    model
}

fn read_price(report: &mut Report, item: &Item<'_>, operation: Operation) -> Option<Price> {
    if !item.is_table() {
        let price = Price::flat(item.requests(report)?);
        return price.map_err(|error| item.refuse(report, error.to_string(), remedy(error))).ok();
    }
    if operation == Operation::Flush {
        item.refuse(report, "a flush has no size", "write a number of requests, as flush = 1");
        return None;
    }
    let entries = item.table(report, SIZES_FORM)?.take_all();
    let mut points: Vec<(Point, Item<'_>)> = Vec::new();
    let mut whole = true;
    for (name, entry) in entries {
        match (read_size(report, name, &entry), entry.requests(report)) {
            (Some(bytes), Some(cost)) => points.push((Point { bytes, cost }, entry)),
            _ => whole = false,
        }
    }
    if !whole {
        return None;
    }
    points.sort_by_key(|(point, entry)| (point.bytes, entry.key_span.start));
    let plain: Vec<Point> = points.iter().map(|(point, _)| *point).collect();
    Price::by_size(&plain).map_err(|error| refuse_points(report, item, &points, error)).ok()
}

fn read_size(report: &mut Report, name: &str, entry: &Item<'_>) -> Option<u32> {
    let fault = match values::bytes(name).map(u32::try_from) {
        Ok(Ok(bytes)) => return Some(bytes),
        Ok(Err(_)) => values::Fault::new(
            format!("{name:?} is more than a request can have"),
            "write sizes below 4 GiB; beyond the largest one the last line goes on",
        ),
        Err(fault) => fault,
    };
    report.add(entry.key_span.clone(), entry.key.clone(), fault.message, fault.remedy);
    None
}

/// Reports why points are no price, at the point that is to blame.
fn refuse_points(report: &mut Report, item: &Item<'_>, points: &[(Point, Item<'_>)], error: CostError) {
    let blamed = match error {
        CostError::Zero(index) | CostError::NotAscending(index) | CostError::Falling(index) => {
            points.get(index).map(|(_, entry)| entry)
        }
        _ => None,
    };
    let message = match error {
        CostError::NotAscending(_) => "this size is there twice".to_owned(),
        error => error.to_string(),
    };
    blamed.unwrap_or(item).refuse(report, message, remedy(error));
}

fn remedy(error: CostError) -> String {
    match error {
        CostError::NoPoints => SIZES_FORM.to_owned(),
        CostError::TooManyPoints => {
            format!("keep at most {}; between them costs follow a straight line", CostModel::POINTS_MAX)
        }
        CostError::Zero(_) => "write a cost of at least 0.001".to_owned(),
        CostError::NotAscending(_) => "keep one of them".to_owned(),
        CostError::Falling(_) => "write a cost at least as large as that of the smaller size".to_owned(),
        _ => "write smaller costs, or a flatter end".to_owned(),
    }
}
