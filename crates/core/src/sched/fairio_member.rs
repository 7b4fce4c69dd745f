//! An active class of FAIRIO, and how an amount is divided among such classes.

use super::disk_time::{DiskTime, Mark};
use crate::request::FlowId;
use crate::units::Time;

/// An active class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) flow: FlowId,
    pub(super) share: u64,
    pub(super) granted: u64,
    pub(super) credit: u64,
    pub(super) used: DiskTime,
    pub(super) completed: u64,
    pub(super) mark: Mark,
    pub(super) charged: u64,
    pub(super) window: u128,
    pub(super) deviation: i128,
    pub(super) sample: Sample,
    pub(super) earlier: Sample,
    pub(super) idle_since: Time,
    /// Whether it has requests waiting and no credit.
    pub(super) is_parched: bool,
}

/// What TimePerRequest is the mean of.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    pub(super) nanos: u64,
    pub(super) requests: u64,
}

impl Member {
    pub(super) fn new(flow: FlowId, mark: Mark, now: Time) -> Self {
        Self {
            flow,
            share: 0,
            granted: 0,
            credit: 0,
            used: DiskTime::ZERO,
            completed: 0,
            mark,
            charged: 0,
            window: 0,
            deviation: 0,
            sample: Sample::default(),
            earlier: Sample::default(),
            idle_since: now,
            is_parched: false,
        }
    }

    /// Takes the cycle's requests into TimePerRequest. `full` ends a full cycle's worth of short ones.
    pub(super) fn observe(&mut self, full: bool, time_per_request: &mut u64) {
        self.sample.nanos = self.sample.nanos.saturating_add(self.used.as_nanos());
        self.sample.requests += self.completed;
        if self.sample.requests == 0 {
            return;
        }
        let Sample { mut nanos, mut requests } = self.sample;
        if full {
            (self.earlier, self.sample) = (self.sample, Sample::default());
        } else {
            nanos = nanos.saturating_add(self.earlier.nanos);
            requests += self.earlier.requests;
        }
        *time_per_request = (nanos / requests).max(1);
    }
}

/// |deviation|, at most 2⁶⁴ − 1.
pub(super) fn magnitude(deviation: i128) -> u128 {
    deviation.unsigned_abs().min(u128::from(u64::MAX))
}

/// Divides `total` in proportion to `part`, each rounded down; nobody gets anything if all parts are 0.
pub(super) fn divide(
    total: u64,
    members: &mut [Member],
    part: impl Fn(&Member) -> u128,
    put: impl Fn(&mut Member, u64),
) {
    let whole: u128 = members.iter().map(&part).sum::<u128>().max(1);
    for member in members {
        put(member, (u128::from(total) * part(member) / whole) as u64);
    }
}
