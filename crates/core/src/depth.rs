//! The dispatch depth, chosen by the program: as deep as throughput gains from it, and no deeper than
//! the latency bounds bear.
//!
//! A request at the device cannot be overtaken, so every place of depth costs the promises something; and a
//! device with too few requests does not reach its throughput. Jin, Chase, Kaur (SFQ(D), SIGMETRICS 2004)
//! leave the choice of D to the administrator; the rule here is our own.
//!
//! ```text
//!  records ──> window: cost done, misses, occupancy ──> judged at its end, at the present depth
//!
//!  throughput            ╭───────────        compare the depths a < b of two windows: b is worth it
//!       │            ╭───╯                   if throughput grew at least an eighth as much
//!       │        ╭───╯                       as the depth: W_b / W_a ≥ 1 + (b/a − 1) / 8
//!       │    ╭───╯
//!       └────┴───┴───┴───┴───┴─── depth      try ─ worth it ─> try further ─ not ─> back, rest, try again
//! ```
//!
//! Rules, one for each window:
//! 1. A window in which the device was not kept busy (mean occupancy below 7/8 of the depth) says nothing.
//! 2. If more than one in a hundred of the promises judged in it were missed, the depth falls by a step, and
//!    is not tried again for two rests. If promises are then not less late by half as much as the depth
//!    fell, and throughput was worth the old depth, the depth was not to blame: back, and a rest, and rule
//!    3 until a window without such misses.
//!    The smallest depth is never to blame.
//! 3. Otherwise it climbs as drawn. A step is a quarter of the depth, at least 1. After a step that was not
//!    worth it the depth rests for [`REST`] windows before the next trial, up and down in turn: that is the
//!    hysteresis.
//!
//! Requests that were dispatched at another depth are not counted. All arithmetic is exact: sums of a
//! window are below 2⁹⁶ (costs below 2⁶⁴, 2³² records), lengths are u64 nanoseconds, and comparisons
//! that could wrap saturate.

use core::fmt;
use core::num::NonZeroU32;

use crate::engine::Record;
use crate::units::{Span, Time};

/// Windows without a trial after one that was not worth it.
pub const REST: u32 = 8;

/// A window has at least this many records for each place of depth, however long that takes.
const RECORDS_PER_PLACE: u64 = 8;

/// Chooses the dispatch depth from what became of requests.
#[derive(Clone, Debug)]
pub struct DepthControl {
    least: u32,
    most: u32,
    window: Span,
    depth: u32,
    /// When the depth was last changed.
    changed: Time,
    current: Option<Window>,
    /// Depth and window before the last step, until that is judged.
    before: Option<(u32, Window)>,
    rest: u32,
    try_up: bool,
    /// Not above this depth for so many windows, because promises were missed there.
    ceiling: u32,
    ceiling_windows: u32,
    /// Whether promises are missed and a smaller depth has not helped.
    blameless: bool,
    now: Time,
}

/// Why a controller cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DepthError {
    /// The smallest depth is above the largest.
    EmptyRange,
    /// The window has no length.
    ZeroWindow,
    /// The depth to start at is outside the range.
    StartOutside,
}

/// Sums over the records of one window.
#[derive(Clone, Copy, Debug)]
struct Window {
    opened: Time,
    length: u64,
    records: u64,
    cost: u128,
    /// Nanoseconds at the device, over all records.
    occupied: u128,
    promised: u64,
    missed: u64,
    /// Nanoseconds by which promises were missed, over all records.
    late: u128,
}

impl DepthControl {
    /// A controller that starts at `least` and stays within `least` and `most`. It judges every `window`;
    /// a second or so for disks, less for flash.
    ///
    /// # Errors
    /// If the range is empty or `window` is zero.
    pub const fn new(least: NonZeroU32, most: NonZeroU32, window: Span) -> Result<Self, DepthError> {
        if least.get() > most.get() {
            return Err(DepthError::EmptyRange);
        }
        if window.as_nanos() == 0 {
            return Err(DepthError::ZeroWindow);
        }
        Ok(Self {
            least: least.get(),
            most: most.get(),
            window,
            depth: least.get(),
            changed: Time::ZERO,
            current: None,
            before: None,
            rest: 0,
            try_up: true,
            ceiling: most.get(),
            ceiling_windows: 0,
            blameless: false,
            now: Time::ZERO,
        })
    }

    /// The same controller, starting at another depth than the smallest.
    ///
    /// # Errors
    /// If `depth` is outside the range.
    pub const fn starting_at(self, depth: NonZeroU32) -> Result<Self, DepthError> {
        if depth.get() < self.least || depth.get() > self.most {
            return Err(DepthError::StartOutside);
        }
        Ok(Self { depth: depth.get(), ..self })
    }

    /// The depth that it holds to be right.
    #[must_use]
    pub fn depth(&self) -> NonZeroU32 {
        NonZeroU32::new(self.depth).unwrap_or(NonZeroU32::MIN)
    }

    /// Learns of a request that is over, at `now`. Returns the new depth if it changes: the driver is to
    /// give it to the engine at once. A `now` before an earlier one counts as that one.
    pub fn handle_record(&mut self, now: Time, record: &Record) -> Option<NonZeroU32> {
        self.now = self.now.max(now);
        if record.dispatch < self.changed {
            return None;
        }
        let Some(window) = &mut self.current else {
            self.current = Some(Window::new(self.now));
            return None;
        };
        window.add(record);
        window.length = self.now.since(window.opened).as_nanos();
        let enough = window.records >= RECORDS_PER_PLACE * u64::from(self.depth);
        if !enough || window.length < self.window.as_nanos() {
            return None;
        }
        let window = *window;
        self.current = Some(Window::new(self.now));
        let depth = self.judge(window);
        (depth != self.depth).then(|| self.change(depth))
    }

    fn change(&mut self, depth: u32) -> NonZeroU32 {
        self.depth = depth;
        self.changed = self.now;
        self.current = None;
        self.depth()
    }

    /// The depth from now on.
    fn judge(&mut self, window: Window) -> u32 {
        if self.ceiling_windows > 0 {
            self.ceiling_windows -= 1;
        } else {
            self.ceiling = self.most;
        }
        let before = self.before.take();
        if !window.was_busy(self.depth) {
            return self.depth;
        }
        if let Some((old, old_window)) = before
            && !self.step_was_right(window, old, old_window)
        {
            self.rest = REST;
            self.try_up = old > self.depth;
            self.blameless = old_window.suffers();
            return old;
        }
        self.blameless = window.suffers() && (self.blameless || self.depth == self.least);
        if window.suffers() && !self.blameless {
            let lower = (self.depth - self.step()).max(self.least);
            (self.ceiling, self.ceiling_windows) = (lower, 2 * REST);
            return self.step_to(lower, window);
        }
        if self.rest > 0 {
            self.rest -= 1;
            return self.depth;
        }
        let target =
            if self.try_up { self.depth.saturating_add(self.step()) } else { self.depth - self.step() };
        let target = target.clamp(self.least, self.most.min(self.ceiling).max(self.least));
        if target == self.depth {
            self.try_up = !self.try_up;
            self.rest = REST;
        }
        self.step_to(target, window)
    }

    fn step_to(&mut self, depth: u32, window: Window) -> u32 {
        if depth != self.depth {
            self.before = Some((self.depth, window));
        }
        depth
    }

    /// Whether the step from `old` to the present depth is to stand.
    fn step_was_right(&self, new: Window, old: u32, old_window: Window) -> bool {
        if self.depth > old {
            let bearable =
                !new.suffers() || (old_window.suffers() && !old_window.relieves(old, self.depth, new));
            return bearable && new.is_worth(self.depth, old, old_window);
        }
        let relief = old_window.suffers() && new.relieves(self.depth, old, old_window);
        relief || !old_window.is_worth(old, self.depth, new)
    }

    fn step(&self) -> u32 {
        (self.depth / 4).max(1).min(self.depth)
    }
}

impl Window {
    const fn new(opened: Time) -> Self {
        Self { opened, length: 0, records: 0, cost: 0, occupied: 0, promised: 0, missed: 0, late: 0 }
    }

    fn add(&mut self, record: &Record) {
        self.records += 1;
        self.cost += u128::from(record.request.cost.as_millis());
        self.occupied += u128::from(record.completion.since(record.dispatch).as_nanos());
        self.promised += u64::from(record.promise.is_some());
        self.missed += u64::from(record.missed());
        let late = record.promise.map_or(Span::ZERO, |promise| record.latency() - promise);
        self.late += u128::from(late.as_nanos());
    }

    /// Mean occupancy of at least 7/8 of `depth`.
    fn was_busy(&self, depth: u32) -> bool {
        self.occupied.saturating_mul(8) >= u128::from(self.length).saturating_mul(7 * u128::from(depth))
    }

    /// More than one promise in a hundred missed.
    fn suffers(&self) -> bool {
        u128::from(self.missed) * 100 > u128::from(self.promised)
    }

    /// Whether this window at depth `shallow` is a relief after `other` at `deep`: how late promises are on
    /// the mean has fallen by at least half as much as the depth.
    fn relieves(&self, shallow: u32, deep: u32, other: Self) -> bool {
        let (shallow, deep) = (u128::from(shallow), u128::from(deep));
        self.mean_late() * 2 * deep <= other.mean_late() * (shallow + deep)
    }

    /// How late promises were, in nanoseconds; those that were kept count as zero.
    fn mean_late(&self) -> u128 {
        self.late / u128::from(self.promised.max(1))
    }

    /// Whether this window at depth `deep` was worth it, compared to `other` at the smaller depth `shallow`.
    fn is_worth(&self, deep: u32, shallow: u32, other: Self) -> bool {
        let (deep, shallow) = (u128::from(deep), u128::from(shallow));
        let own = per_second(self).saturating_mul(8 * shallow);
        own >= per_second(&other).saturating_mul(7 * shallow + deep)
    }
}

/// Thousandths of a request per second, with 16 bits behind the binary point.
fn per_second(window: &Window) -> u128 {
    window.cost.saturating_mul(1_000_000_000 << 16) / u128::from(window.length.max(1))
}

impl fmt::Display for DepthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyRange => f.write_str("the smallest depth is above the largest"),
            Self::StartOutside => f.write_str("the depth to start at is not between smallest and largest"),
            Self::ZeroWindow => f.write_str("the window of the depth controller has no length"),
        }
    }
}

impl core::error::Error for DepthError {}
