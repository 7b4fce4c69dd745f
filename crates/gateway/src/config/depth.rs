//! `depth`: a number, or bounds between which the gateway chooses.
//!
//! ```text
//!  depth = 32                                     as many, always
//!  depth = "auto"                                 1 to 64, judged every second
//!  depth = { min = 2, max = 32, window = "1 s" }  the same with other bounds
//! ```

use std::num::NonZeroU32;

use evenkeel_core::Span;

use super::AdaptiveDepth;
use super::sections::DEPTH_MAX;
use super::table::{Item, Report};

const FORM: &str = "write a number, \"auto\", or { min = 1, max = 64 }";
const AUTO_MAX: u32 = 64;
const WINDOW: Span = Span::from_millis(1_000);
const WINDOW_MIN: Span = Span::from_millis(10);

/// The depth, or the most of it and how it is adapted.
pub(super) fn read_depth(
    report: &mut Report,
    item: &Item<'_>,
) -> Option<(NonZeroU32, Option<AdaptiveDepth>)> {
    if item.is_table() {
        return read_bounds(report, item);
    }
    if item.is_text() {
        item.choice(report, &[("auto", ())])?;
        let (least, most) = (NonZeroU32::MIN, NonZeroU32::new(AUTO_MAX)?);
        return Some((most, Some(AdaptiveDepth { least, start: least, window: WINDOW })));
    }
    let depth = item.whole(report, 1..=DEPTH_MAX).and_then(NonZeroU32::new)?;
    Some((depth, None))
}

fn read_bounds(report: &mut Report, item: &Item<'_>) -> Option<(NonZeroU32, Option<AdaptiveDepth>)> {
    let mut table = item.table(report, FORM)?;
    let least = table.require(report, "min", FORM);
    let most = table.require(report, "max", FORM);
    let start = table.take("start");
    let window = table.take("window").map(|item| read_window(report, &item));
    table.finish(report);
    let mut number = |item: &Item<'_>| item.whole(report, 1..=DEPTH_MAX).and_then(NonZeroU32::new);
    let (low, high) = (least.as_ref().and_then(&mut number), most.as_ref().and_then(&mut number));
    let begin = match &start {
        Some(start) => number(start),
        None => low,
    };
    let (low, high, begin) = (low?, high?, begin?);
    if low > high {
        let message = format!("{low} is above the largest depth, {high}");
        least?.refuse(report, message, format!("write at most {high}"));
        return None;
    }
    if begin < low || begin > high {
        let message = format!("{begin} is not between the smallest and the largest depth");
        start?.refuse(report, message, format!("write a number from {low} to {high}"));
        return None;
    }
    Some((high, Some(AdaptiveDepth { least: low, start: begin, window: window.unwrap_or(Some(WINDOW))? })))
}

fn read_window(report: &mut Report, item: &Item<'_>) -> Option<Span> {
    let window = item.time(report)?;
    if window < WINDOW_MIN {
        item.refuse(report, format!("{window} is too short to measure anything"), "write at least \"10 ms\"");
        return None;
    }
    Some(window)
}
