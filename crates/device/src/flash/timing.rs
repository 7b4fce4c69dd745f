//! Where the time goes: dies work side by side, the dies of a channel share its wires.
//!
//! ```text
//!  channel 0  ──[xfer]────[xfer][xfer]──────>   free intervals are used: first fit
//!  die 0      ──[ read  ]→xfer ─────────────>   the page register is held until the transfer is over
//!  die 2      ───────xfer→[   program    ]──>   one operation at a time, in the order of submission
//! ```
//!
//! A die's operations are reserved in the order in which they are asked for. A channel can be
//! reserved ahead (a read's transfer begins when the cells have been read), so it keeps its busy
//! intervals from now on and fits a transfer into the first gap that is long enough.

use std::collections::VecDeque;

use evenkeel_core::{Span, Time};

/// What the translation layer asks of the flash. Times are instants after which an operation may
/// begin and, as the result, at which it is over. Dies are numbered channel by channel: neighbours
/// are on different channels.
pub(super) trait Medium {
    /// One page, from the cells to the controller.
    fn read(&mut self, die: u32, after: Time) -> Time;
    /// One page, from the controller into the cells.
    fn program(&mut self, die: u32, after: Time) -> Time;
    /// One page, from one block of the die to another.
    fn copy(&mut self, die: u32, after: Time);
    /// One block.
    fn erase(&mut self, die: u32, after: Time);
}

/// No time at all: to bring a drive into a state without living through it.
pub(super) struct Timeless;

impl Medium for Timeless {
    fn read(&mut self, _: u32, after: Time) -> Time {
        after
    }

    fn program(&mut self, _: u32, after: Time) -> Time {
        after
    }

    fn copy(&mut self, _: u32, _: Time) {}

    fn erase(&mut self, _: u32, _: Time) {}
}

/// How long operations take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Durations {
    pub(super) read: Span,
    pub(super) program: Span,
    pub(super) erase: Span,
    pub(super) transfer: Span,
    /// Whether copies stay within the die.
    pub(super) copyback: bool,
}

/// Dies and channels in time.
#[derive(Debug)]
pub(super) struct Timeline {
    durations: Durations,
    /// When each die is free again.
    dies: Vec<Time>,
    channels: Vec<Channel>,
    /// The arrival of the access at hand: nothing begins before it.
    now: Time,
    /// Die and channel time since the last [`Timeline::begin`].
    busy: Span,
}

impl Timeline {
    pub(super) fn new(durations: Durations, channels: u32, dies: u32) -> Self {
        Self {
            durations,
            dies: vec![Time::ZERO; dies as usize],
            channels: vec![Channel::default(); channels as usize],
            now: Time::ZERO,
            busy: Span::ZERO,
        }
    }

    /// An access arrives.
    pub(super) fn begin(&mut self, now: Time) {
        self.now = now;
        self.busy = Span::ZERO;
    }

    /// The time for which the access at hand keeps dies busy.
    pub(super) fn busy(&self) -> Span {
        self.busy
    }

    fn transfer(&mut self, die: u32, after: Time) -> Time {
        let channel = die as usize % self.channels.len();
        self.busy = self.busy + self.durations.transfer;
        self.channels[channel].reserve(self.now, after, self.durations.transfer)
    }

    fn cells(&mut self, die: u32, after: Time, span: Span) -> Time {
        self.busy = self.busy + span;
        let over = self.dies[die as usize].max(after) + span;
        self.dies[die as usize] = over;
        over
    }
}

impl Medium for Timeline {
    fn read(&mut self, die: u32, after: Time) -> Time {
        let sensed = self.cells(die, after, self.durations.read);
        let over = self.transfer(die, sensed);
        self.dies[die as usize] = over;
        over
    }

    fn program(&mut self, die: u32, after: Time) -> Time {
        let loaded = self.transfer(die, self.dies[die as usize].max(after));
        self.cells(die, loaded, self.durations.program)
    }

    fn copy(&mut self, die: u32, after: Time) {
        if self.durations.copyback {
            self.cells(die, after, self.durations.read + self.durations.program);
        } else {
            let read = self.read(die, after);
            self.program(die, read);
        }
    }

    fn erase(&mut self, die: u32, after: Time) {
        self.cells(die, after, self.durations.erase);
    }
}

/// The busy intervals of one channel that are not yet over, in order, none touching the next.
#[derive(Clone, Debug, Default)]
struct Channel {
    busy: VecDeque<(Time, Time)>,
}

impl Channel {
    /// Reserves `span` in the first gap at or after `after`; the end of it. Nothing will ever be asked
    /// for before `now`.
    fn reserve(&mut self, now: Time, after: Time, span: Span) -> Time {
        if span == Span::ZERO {
            return after;
        }
        while self.busy.front().is_some_and(|(_, end)| *end <= now) {
            self.busy.pop_front();
        }
        let mut index = self.busy.partition_point(|(_, end)| *end <= after);
        let mut start = after;
        while let Some((busy_from, busy_until)) = self.busy.get(index) {
            if start + span <= *busy_from {
                break;
            }
            start = start.max(*busy_until);
            index += 1;
        }
        self.insert(index, start, start + span);
        start + span
    }

    /// Adds an interval before the one at `index`, joined with those that it touches.
    fn insert(&mut self, index: usize, start: Time, end: Time) {
        let joins_next = self.busy.get(index).is_some_and(|next| next.0 == end);
        let joins_last = index > 0 && self.busy[index - 1].1 == start;
        match (joins_last, joins_next) {
            (true, true) => {
                self.busy[index - 1].1 = self.busy[index].1;
                self.busy.remove(index);
            }
            (true, false) => self.busy[index - 1].1 = end,
            (false, true) => self.busy[index].0 = start,
            (false, false) => self.busy.insert(index, (start, end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    fn timeline(copyback: bool, channels: u32, dies: u32) -> Timeline {
        let span = Span::from_nanos;
        let durations = Durations {
            read: span(25),
            program: span(200),
            erase: span(1_500),
            transfer: span(100),
            copyback,
        };
        Timeline::new(durations, channels, dies)
    }

    #[test]
    fn dies_work_side_by_side_and_channels_take_turns() {
        // Two dies on one channel: both sense at once, the transfers queue.
        let mut one = timeline(true, 1, 2);
        assert_eq!((one.read(0, at(0)), one.read(1, at(0))), (at(125), at(225)));
        let mut two = timeline(true, 2, 2);
        assert_eq!((two.read(0, at(0)), two.read(1, at(0))), (at(125), at(125)));
        // A program's transfer comes first; the second die's follows while the first programs.
        let mut one = timeline(true, 1, 2);
        assert_eq!((one.program(0, at(0)), one.program(1, at(0))), (at(300), at(400)));
        assert_eq!(one.busy().as_nanos(), 600);
    }

    #[test]
    fn a_gap_before_a_reserved_transfer_is_used() {
        let mut channel = Channel::default();
        assert_eq!(channel.reserve(at(0), at(500), Span::from_nanos(100)), at(600));
        assert_eq!(channel.reserve(at(0), at(0), Span::from_nanos(400)), at(400));
        assert_eq!(channel.reserve(at(0), at(0), Span::from_nanos(200)), at(800));
        assert_eq!(channel.reserve(at(0), at(0), Span::from_nanos(100)), at(500), "fits exactly, joins all");
        assert_eq!(channel.busy, [(at(0), at(800))]);
    }

    #[test]
    fn copies_use_the_channel_unless_they_stay_within_the_die() {
        let (mut inside, mut outside) = (timeline(true, 1, 2), timeline(false, 1, 2));
        inside.copy(0, at(0));
        outside.copy(0, at(0));
        assert_eq!((inside.dies[0], outside.dies[0]), (at(225), at(425)));
        assert_eq!((inside.read(1, at(0)), outside.read(1, at(0))), (at(125), at(325)));
    }

    proptest! {
        #[test]
        fn transfers_never_overlap_and_never_wait_without_need(
            asks in prop::collection::vec((0_u64..300, 1_u64..40, 0_u64..20), 1..60)
        ) {
            // The naive model: every nanosecond is taken or not.
            let (mut channel, mut taken, mut now) = (Channel::default(), vec![false; 10_000], 0);
            for (ahead, span, gap) in asks {
                now += gap;
                let after = (now + ahead) as usize;
                let mut start = after;
                while taken[start..start + span as usize].contains(&true) {
                    start += 1;
                }
                taken[start..start + span as usize].fill(true);
                let end = channel.reserve(at(now), at(after as u64), Span::from_nanos(span));
                prop_assert_eq!(end, at(start as u64 + span));
            }
        }
    }
}
