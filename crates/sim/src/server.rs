//! Servers with random service times: the device of queueing theory (M/M/1, M/M/c).
//!
//! ```text
//!  submit ──> one queue, first come first served ──> server 1 ┐  each access takes a time drawn
//!                                                    server 2 ┘  from the law, whoever serves it
//!
//!  servers   heap of instants at which each becomes free      an access goes to the first one
//!  finished  heap of (finish, order of submission, token, service time)
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU32;

use evenkeel_core::{Span, Time};
use evenkeel_device::{Device, Finished, Io};

use crate::random::{Law, Random};

/// Equal servers with one queue, whose service times are independent of each other.
#[derive(Debug)]
pub struct RandomServers {
    law: Law,
    random: Random,
    free: BinaryHeap<Reverse<Time>>,
    finished: BinaryHeap<Reverse<(Time, u64, u64, Span)>>,
    submitted: u64,
}

impl RandomServers {
    /// `servers` servers, each of which takes a time from `law` for an access.
    #[must_use]
    pub fn new(servers: NonZeroU32, law: Law, random: Random) -> Self {
        let free = (0..servers.get()).map(|_| Reverse(Time::ZERO)).collect();
        Self { law, random, free, finished: BinaryHeap::new(), submitted: 0 }
    }
}

impl Device for RandomServers {
    fn submit(&mut self, now: Time, io: Io) {
        let service = self.random.span(self.law);
        // Never empty: there is at least one server, and what is popped is pushed again.
        let begin = self.free.pop().map_or(now, |Reverse(free)| free.max(now));
        let finish = begin + service;
        self.free.push(Reverse(finish));
        self.finished.push(Reverse((finish, self.submitted, io.token, service)));
        self.submitted += 1;
    }

    fn next_event(&self) -> Option<Time> {
        self.finished.peek().map(|Reverse((at, ..))| *at)
    }

    fn poll_completion(&mut self, now: Time) -> Option<Finished> {
        if self.next_event()? > now {
            return None;
        }
        let Reverse((at, _, token, busy)) = self.finished.pop()?;
        Some(Finished { token, at, busy })
    }
}
