//! The active classes of FAIRIO.
//!
//! ```text
//!  seat        0   1   2   3  ...
//!  members   [   |   |   |   |  ]   what events touch: a cache line for each
//!  standings [   |   |   |   |  ]   what shares are worked out from
//!  pasts     [   |   |   |   |  ]   what the turn of a cycle adds up
//! ```
//!
//! The turn of a cycle goes over all of them several times (fairio_turn.rs), and what a pass does not need it does not
//! read. The last seat takes the place of one that is left.

use alloc::vec::Vec;

use super::disk_time::{Charges, DiskClock, Taken};
use super::fairio::Flow;
use crate::request::FlowId;
use crate::table;
use crate::units::{Time, Weight};

/// What events touch.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Member {
    pub(super) used: Taken,
    pub(super) granted: u64,
    pub(super) credit: u64,
    /// TimePerRequest, in ns.
    pub(super) time_per_request: u64,
    pub(super) idle_since: Time,
    /// The flow's requests at the store.
    pub(super) outstanding: u32,
    /// The flow's requests that wait.
    pub(super) waiting: u32,
    /// Requests completed in this cycle; saturates.
    pub(super) completed: u32,
    /// The last bits of the tag by which it waits (`Fairio::tag`); anything if it does not.
    pub(super) tag: u8,
    /// Whether it has had requests waiting ever since the cycle began.
    pub(super) kept_waiting: bool,
    /// The flow's requests that the store is working on, where only these are charged: as many as it has disks at most.
    pub(super) served: u16,
}

const _: () = assert!(size_of::<Member>() == 64, "one cache line");

/// What shares are worked out from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    /// What it was charged in the window.
    pub(super) window: u64,
    /// ServiceShare.
    pub(super) share: u64,
    /// The weight that the cycle began with; 0 if the class came later.
    pub(super) weight: u32,
    pub(super) flow: FlowId,
}

/// What TimePerRequest is the mean of: the last full cycle's worth of cycles, and those since.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Past {
    sample_nanos: u64,
    earlier_nanos: u64,
    sample_requests: u32,
    earlier_requests: u32,
    /// What it was charged for the cycle before.
    pub(super) charged: u64,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    pub(super) members: Vec<Member>,
    pub(super) standings: Vec<Standing>,
    pub(super) pasts: Vec<Past>,
    /// The sums of all windows and of all weights, as of the beginning of the cycle.
    pub(super) charged: u128,
    pub(super) weights: u64,
}

impl Members {
    pub(super) const fn len(&self) -> usize {
        self.members.len()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Gives `flow` the next seat. The store is working on `served` of its requests, if that is known.
    pub(super) fn push(&mut self, id: FlowId, flow: &Flow, served: u32, clock: &DiskClock) {
        table::reserve(&mut self.members, 1);
        let mut member = Member {
            used: Taken::nothing(clock, 0),
            granted: 0,
            credit: 0,
            time_per_request: flow.time_per_request,
            idle_since: clock.now(),
            outstanding: flow.outstanding,
            waiting: flow.queue.len() as u32,
            completed: 0,
            tag: 0,
            kept_waiting: false,
            served: served as u16,
        };
        member.begin_to_use(clock);
        self.members.push(member);
        table::reserve(&mut self.standings, 1);
        self.standings.push(Standing { window: 0, share: 0, weight: 0, flow: id });
        table::reserve(&mut self.pasts, 1);
        self.pasts.push(Past::default());
    }

    /// Vacates a seat; says who sits there now.
    pub(super) fn swap_remove(&mut self, seat: u32) -> Option<FlowId> {
        let seat = seat as usize;
        self.members.swap_remove(seat);
        self.standings.swap_remove(seat);
        self.pasts.swap_remove(seat);
        self.standings.get(seat).map(|standing| standing.flow)
    }

    pub(super) fn get(&self, seat: u32) -> Option<&Member> {
        self.members.get(seat as usize)
    }

    pub(super) fn get_mut(&mut self, seat: u32) -> Option<&mut Member> {
        self.members.get_mut(seat as usize)
    }

    /// The active set has changed: a new history begins, with the weights that the flows have now.
    pub(super) fn begin_anew(&mut self, weight_of: impl Fn(FlowId) -> Weight) {
        (self.charged, self.weights) = (0, 0);
        for standing in &mut self.standings {
            standing.window = 0;
            standing.weight = weight_of(standing.flow).as_u32();
            self.weights += u64::from(standing.weight);
        }
    }
}

impl Member {
    /// How many requests are charged as time passes.
    #[inline(always)]
    fn charged(&self, clock: &DiskClock) -> u32 {
        if clock.charges() == Charges::Served { self.served.into() } else { self.outstanding }
    }

    /// Disk time used in this cycle, in whole ns.
    #[inline(always)]
    pub(super) fn used(&self, clock: &DiskClock) -> u64 {
        self.used.nanos(clock, self.charged(clock))
    }

    /// Nothing has been used by now.
    #[inline(always)]
    pub(super) fn begin_to_use(&mut self, clock: &DiskClock) {
        self.used = Taken::nothing(clock, self.charged(clock));
    }

    /// Requests that the class's share of `nanos` stands for.
    #[inline(always)]
    pub(super) const fn requests_of(&self, nanos: u64) -> u64 {
        if nanos <= self.time_per_request {
            (nanos > 0) as u64
        } else {
            nanos.div_ceil(self.time_per_request)
        }
    }
}

impl Past {
    /// Takes a cycle's requests into TimePerRequest. `full` ends a full cycle's worth of short ones.
    #[inline(always)]
    pub(super) fn observe(&mut self, used: u64, completed: u32, full: bool, time_per_request: &mut u64) {
        self.sample_nanos = self.sample_nanos.saturating_add(used);
        self.sample_requests = self.sample_requests.saturating_add(completed);
        if self.sample_requests == 0 {
            return;
        }
        let (mut nanos, mut requests) = (self.sample_nanos, u64::from(self.sample_requests));
        if full {
            (self.earlier_nanos, self.earlier_requests) = (self.sample_nanos, self.sample_requests);
            (self.sample_nanos, self.sample_requests) = (0, 0);
        } else {
            nanos = nanos.saturating_add(self.earlier_nanos);
            requests += u64::from(self.earlier_requests);
        }
        *time_per_request = (nanos / requests).max(1);
    }
}
