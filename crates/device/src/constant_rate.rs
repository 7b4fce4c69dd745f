//! A device that serves every access in the same time.

use evenkeel_core::{Rate, Time};

use crate::{Device, Finished, Io};

/// `servers` equal servers with one queue; together they finish `rate` accesses per second.
#[derive(Debug)]
pub struct ConstantRate {}

impl ConstantRate {
    /// A device of that rate and number of servers.
    #[must_use]
    pub fn new(rate: Rate, servers: core::num::NonZeroU32) -> Self {
        let _ = (rate, servers);
        Self {}
    }
}

impl Device for ConstantRate {
    fn submit(&mut self, now: Time, io: Io) {
        let _ = (now, io);
    }

    fn next_event(&self) -> Option<Time> {
        None
    }

    fn poll_completion(&mut self, now: Time) -> Option<Finished> {
        let _ = now;
        None
    }
}
