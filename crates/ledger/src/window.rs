//! One-second windows for live progress: a ring, so that an old second makes room for a new one.
//!
//! ```text
//!  second  ... 63 | 64 65 66 ...        slot = second mod 64; a slot whose number is not
//!  slot    ... 63 |  0  1  2 ...        the one looked for holds nothing of that second
//! ```

use evenkeel_core::units::NANOS_PER_SECOND;
use evenkeel_core::{Span, Time};

/// How many windows an account shows, the one in progress included.
pub const WINDOWS_MAX: usize = 64;

/// What happened in one second. Seconds are counted from the driver's epoch, so the windows of
/// different flows line up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// The second after the epoch that the window covers: from `second` to just before `second + 1`.
    pub second: u64,
    /// Requests that arrived.
    pub arrivals: u64,
    /// Requests that finished as asked.
    pub served: u64,
    /// Bytes read and written by those.
    pub bytes: u64,
    /// The longest latency among requests that were answered; zero if none was.
    pub latency_max: Span,
    /// Answered requests whose promise was not kept.
    pub missed: u64,
}

/// The latest [`WINDOWS_MAX`] windows of a flow.
#[derive(Debug)]
pub(crate) struct Ring {
    first: u64,
    slots: [Window; WINDOWS_MAX],
}

impl Ring {
    pub(crate) fn new(now: Time) -> Self {
        Self { first: second_of(now), slots: [Window::default(); WINDOWS_MAX] }
    }

    /// The window that `at` falls into; `None` if that second has already made room for a later one.
    pub(crate) fn at(&mut self, at: Time) -> Option<&mut Window> {
        let second = second_of(at);
        let slot = &mut self.slots[slot_of(second)];
        if slot.second < second {
            *slot = Window { second, ..Window::default() };
        }
        (slot.second == second).then_some(slot)
    }

    /// The windows up to `now`, the oldest first, without gaps: a second in which nothing happened
    /// is a window of zeros.
    pub(crate) fn until(&self, now: Time) -> Vec<Window> {
        let last = second_of(now);
        let first = self.first.max(last.saturating_sub(WINDOWS_MAX as u64 - 1));
        (first..=last)
            .map(|second| {
                let slot = self.slots[slot_of(second)];
                if slot.second == second { slot } else { Window { second, ..Window::default() } }
            })
            .collect()
    }
}

fn second_of(at: Time) -> u64 {
    at.as_nanos() / NANOS_PER_SECOND
}

fn slot_of(second: u64) -> usize {
    (second % WINDOWS_MAX as u64) as usize
}
