//! `depth`: a number, or bounds between which the program chooses.
//!
//! ```text
//!  depth = 32                                     as many, always
//!  depth = "auto"                                 1 to 64, judged every second
//!  depth = { min = 2, max = 32, window = "1 s" }  the same with other bounds
//! ```

use std::fmt;
use std::num::NonZeroU32;

use evenkeel_core::{DepthControl, Span};
use evenkeel_strict::{Item, Report};

const FORM: &str = "write a number, \"auto\", or { min = 1, max = 64 }";
const AUTO_MAX: u32 = 64;
const WINDOW: Span = Span::from_millis(1_000);
const WINDOW_MIN: Span = Span::from_millis(10);

/// A dispatch depth as a file writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depth {
    /// The depth, or the most of it.
    pub most: NonZeroU32,
    /// How it is adapted; `None` if it stays as it is.
    pub adaptive: Option<AdaptiveDepth>,
}

/// A dispatch depth that is chosen from what becomes of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveDepth {
    /// The smallest depth.
    pub least: NonZeroU32,
    /// The depth to start at.
    pub start: NonZeroU32,
    /// How long is measured before it is judged.
    pub window: Span,
}

impl Depth {
    /// One that stays.
    #[must_use]
    pub const fn fixed(depth: NonZeroU32) -> Self {
        Self { most: depth, adaptive: None }
    }

    /// The depth at the beginning.
    #[must_use]
    pub fn start(&self) -> NonZeroU32 {
        self.adaptive.map_or(self.most, |adaptive| adaptive.start)
    }

    /// The controller that adapts it, if it is adapted.
    #[must_use]
    pub fn control(&self) -> Option<DepthControl> {
        let AdaptiveDepth { least, start, window } = self.adaptive?;
        DepthControl::new(least, self.most, window).ok()?.starting_at(start).ok()
    }

    /// Reads `item`, a depth of 1 to `limit`; problems go to `report`.
    pub fn read(report: &mut Report, item: &Item<'_>, limit: u32) -> Option<Self> {
        if item.is_table() {
            return read_bounds(report, item, limit);
        }
        if item.is_text() {
            item.choice(report, &[("auto", ())])?;
            let (least, most) = (NonZeroU32::MIN, NonZeroU32::new(AUTO_MAX)?);
            let adaptive = AdaptiveDepth { least, start: least, window: WINDOW };
            return Some(Self { most, adaptive: Some(adaptive) });
        }
        item.whole(report, 1..=limit).and_then(NonZeroU32::new).map(Self::fixed)
    }
}

/// "32", "1 to 32, adapted".
impl fmt::Display for Depth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.adaptive {
            Some(adaptive) => write!(f, "{} to {}, adapted", adaptive.least, self.most),
            None => self.most.fmt(f),
        }
    }
}

fn read_bounds(report: &mut Report, item: &Item<'_>, limit: u32) -> Option<Depth> {
    let mut table = item.table(report, FORM)?;
    let least = table.require(report, "min", FORM);
    let most = table.require(report, "max", FORM);
    let start = table.take("start");
    let window = table.take("window").map(|item| read_window(report, &item));
    table.finish(report);
    let mut number = |item: &Item<'_>| item.whole(report, 1..=limit).and_then(NonZeroU32::new);
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
    let adaptive = AdaptiveDepth { least: low, start: begin, window: window.unwrap_or(Some(WINDOW))? };
    Some(Depth { most: high, adaptive: Some(adaptive) })
}

fn read_window(report: &mut Report, item: &Item<'_>) -> Option<Span> {
    let window = item.time(report)?;
    if window < WINDOW_MIN {
        item.refuse(report, format!("{window} is too short to measure anything"), "write at least \"10 ms\"");
        return None;
    }
    Some(window)
}
