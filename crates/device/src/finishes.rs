//! What has been decided to finish, in the order of finishing.
//!
//! ```text
//!  push(at, token) ──> heap by (at, order of pushing) ──> poll(now) ──> Finished, if at ≤ now
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use evenkeel_core::{Span, Time};

use crate::Finished;

/// For models that know at submission when an access will be over.
#[derive(Debug, Default)]
pub(crate) struct Finishes {
    heap: BinaryHeap<Reverse<(Time, u64, u64, Span)>>,
    pushed: u64,
    now: Time,
}

impl Finishes {
    /// The latest instant named; a time earlier than one already named counts as that one.
    pub(crate) fn advance(&mut self, now: Time) -> Time {
        self.now = self.now.max(now);
        self.now
    }

    pub(crate) fn push(&mut self, at: Time, token: u64, busy: Span) {
        self.heap.push(Reverse((at, self.pushed, token, busy)));
        self.pushed += 1;
    }

    pub(crate) fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    pub(crate) fn poll(&mut self, now: Time) -> Option<Finished> {
        let at = self.next().filter(|at| *at <= now.max(self.now))?;
        // Not `now`: a driver that comes late may go on from the instant of the completion.
        self.now = self.now.max(at);
        self.heap.pop().map(|Reverse((at, _, token, busy))| Finished { token, at, busy })
    }
}
