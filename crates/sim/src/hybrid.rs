//! A simulated hybrid store: flash in front of a disk, both of them models.
//!
//! ```text
//!  submit_for ──> tiering::Hybrid ──> Access, Copy, Sync ──┬─> fast model ─┐
//!                      ^                                   └─> slow model ─┤
//!                      └──── on_access_done, on_copy_done … <──────────────┘
//!                      └──> Done ──> Finished: the end of its last part, the busy time of all
//!
//!  one at a time:  Access, Copy, Sync ──> line ──> one of them at either model at any time
//!
//!  scheduled copies:  Copy ──> poll_own_work ──> scheduler ──> submit_for the migration flow ──> line
//! ```
//! It is the state machine that the gateway runs; here its accesses go to models and its map to nowhere:
//! making it durable takes no time. One at a time is how the thesis measures, "to ensure that the
//! improvements due to the hybrid store are not due to parallelism" (Jain 2008, section 3.3).

use std::collections::{BTreeMap, VecDeque};

use evenkeel_core::{FlowId, Operation, Span, Time};
use evenkeel_device::{Device, Finished, Io, TierCounts};
use evenkeel_tiering::store::{Copy, Hybrid, HybridRequest, Output, TierAccess};
use evenkeel_tiering::{Cluster, MapError, Policy, Tier};

pub use evenkeel_tiering::{Background, Geometry};

/// What a hybrid device consists of.
pub struct HybridParts {
    /// The model that keeps what the policy chooses.
    pub fast: Box<dyn Device + Send>,
    /// The model that has room for everything.
    pub slow: Box<dyn Device + Send>,
    /// Cluster and block size.
    pub geometry: Geometry,
    /// Bytes of the store.
    pub bytes: u64,
    /// Bytes of the fast device that are used.
    pub fast_bytes: u64,
    /// What belongs on the fast device.
    pub policy: Box<dyn Policy>,
    /// How it migrates.
    pub background: Background,
    /// Clusters that are on the fast device from the start, as far as there is room.
    pub preloaded: Vec<Cluster>,
    /// Whether the two models work at the same time.
    pub overlap: bool,
}

/// Two device models as one.
pub struct HybridDevice {
    store: Hybrid,
    models: [Box<dyn Device + Send>; 2],
    bytes: u64,
    overlap: bool,
    /// What is at the models, by the token that it has there.
    jobs: BTreeMap<u64, Job>,
    tokens: u64,
    /// What waits for its turn, without overlap.
    line: VecDeque<(Tier, Io, Job)>,
    /// Disk time of requests that are not over.
    busy: BTreeMap<u64, Span>,
    finished: VecDeque<Finished>,
    /// The flow as which a scheduler sees copies, if one shall.
    migration: Option<FlowId>,
    /// Copies that nobody has been told of.
    untold: VecDeque<Copy>,
    /// Copies that wait in the scheduler.
    told: Vec<Copy>,
}

#[derive(Clone, Copy, Debug)]
enum Job {
    Access {
        id: u32,
        token: u64,
    },
    /// Of a copy, with the token of the scheduled request that it is, if it is one.
    CopyRead(Copy, Option<u64>),
    CopyWrite(u32, Option<u64>),
    Sync(Tier),
}

const TIERS: [Tier; 2] = [Tier::Fast, Tier::Slow];

const fn index(tier: Tier) -> usize {
    match tier {
        Tier::Fast => 0,
        Tier::Slow => 1,
    }
}

const fn other(tier: Tier) -> Tier {
    match tier {
        Tier::Fast => Tier::Slow,
        Tier::Slow => Tier::Fast,
    }
}

impl HybridDevice {
    /// A device in which nothing has happened yet.
    ///
    /// # Errors
    /// If the fast device has more clusters than can be numbered.
    pub fn new(parts: HybridParts) -> Result<Self, MapError> {
        let HybridParts { fast, slow, geometry, bytes, fast_bytes, policy, background, .. } = parts;
        let mut store = Hybrid::new(geometry, bytes, fast_bytes, policy, background, [])?;
        for cluster in parts.preloaded {
            store.preload(cluster);
        }
        Ok(Self {
            store,
            models: [fast, slow],
            bytes,
            overlap: parts.overlap,
            jobs: BTreeMap::new(),
            tokens: 0,
            line: VecDeque::new(),
            busy: BTreeMap::new(),
            finished: VecDeque::new(),
            migration: None,
            untold: VecDeque::new(),
            told: Vec::new(),
        })
    }

    /// Leaves it to a scheduler when clusters are copied: each copy is then a request of `flow`, as in the
    /// gateway. Without this, copies take their turn inside the device.
    pub fn schedule_copies(&mut self, flow: FlowId) {
        self.migration = Some(flow);
    }

    /// The state machine.
    #[must_use]
    pub const fn store(&self) -> &Hybrid {
        &self.store
    }

    /// Carries out what the state machine wants at `now`.
    fn carry_out(&mut self, now: Time) {
        while let Some(output) = self.store.poll_output() {
            match output {
                Output::Access(access) => {
                    let TierAccess { id, token, tier, operation, offset, length, .. } = access;
                    let io = Io { token: 0, operation, offset, length };
                    self.queue(tier, io, Job::Access { id, token });
                }
                Output::Copy(copy) if self.migration.is_some() => self.untold.push_back(copy),
                Output::Copy(copy) => self.queue_copy(copy, None),
                Output::Sync(tier) => {
                    let io = Io { token: 0, operation: Operation::Flush, offset: 0, length: 0 };
                    self.queue(tier, io, Job::Sync(tier));
                }
                Output::Commit(_) => self.store.on_commit_done(true),
                Output::Done { token, .. } => {
                    let busy = self.busy.remove(&token).unwrap_or(Span::ZERO);
                    self.finished.push_back(Finished { token, at: now, busy });
                }
            }
        }
        self.start(now);
    }

    fn queue_copy(&mut self, copy: Copy, token: Option<u64>) {
        let Copy { from, from_offset: offset, length, .. } = copy;
        let io = Io { token: 0, operation: Operation::Read, offset, length };
        self.queue(from, io, Job::CopyRead(copy, token));
    }

    fn queue(&mut self, tier: Tier, io: Io, job: Job) {
        self.line.push_back((tier, io, job));
    }

    /// Hands the line to the models: all of it, or the next one if none is there.
    fn start(&mut self, now: Time) {
        while self.overlap || self.jobs.is_empty() {
            let Some((tier, io, job)) = self.line.pop_front() else { return };
            let token = self.tokens;
            self.tokens += 1;
            self.jobs.insert(token, job);
            self.models[index(tier)].submit(now, Io { token, ..io });
        }
    }

    /// A model is done with something.
    fn job_done(&mut self, finished: Finished) {
        // A model that finishes what it was not given is found out by the simulation: nothing follows.
        let Some(job) = self.jobs.remove(&finished.token) else { return };
        let token = match job {
            Job::Access { token, .. } => Some(token),
            Job::CopyRead(_, token) | Job::CopyWrite(_, token) => token,
            Job::Sync(_) => None,
        };
        if let Some(busy) = token.and_then(|token| self.busy.get_mut(&token)) {
            *busy = *busy + finished.busy;
        }
        match job {
            Job::Access { id, .. } => self.store.on_access_done(id, true),
            Job::CopyRead(copy, token) => {
                let (offset, length) = (copy.to_offset, copy.length);
                let io = Io { token: 0, operation: Operation::Write, offset, length };
                self.queue(other(copy.from), io, Job::CopyWrite(copy.id, token));
            }
            Job::CopyWrite(id, token) => {
                if let Some(token) = token {
                    let busy = self.busy.remove(&token).unwrap_or(Span::ZERO);
                    self.finished.push_back(Finished { token, at: finished.at, busy });
                }
                self.store.on_copy_done(id, true);
            }
            Job::Sync(tier) => self.store.on_sync_done(tier, true),
        }
        self.carry_out(finished.at);
    }

    /// The model whose next event comes first.
    fn next_model(&self) -> Option<(Time, usize)> {
        let events = TIERS.map(index).into_iter();
        events.filter_map(|tier| Some((self.models[tier].next_event()?, tier))).min()
    }
}

impl Device for HybridDevice {
    fn submit(&mut self, now: Time, io: Io) {
        self.submit_for(now, FlowId(0), io);
    }

    fn submit_for(&mut self, now: Time, flow: FlowId, io: Io) {
        let Io { token, operation, offset, length } = io;
        let is_this = |copy: &Copy| (operation, offset, length) == as_access(copy);
        if self.migration == Some(flow)
            && let Some(at) = self.told.iter().position(is_this)
        {
            let copy = self.told.swap_remove(at);
            self.busy.insert(token, Span::ZERO);
            self.queue_copy(copy, Some(token));
            self.start(now);
            return;
        }
        let left = self.bytes.saturating_sub(offset);
        let length = length.min(u32::try_from(left).unwrap_or(u32::MAX));
        self.busy.insert(token, Span::ZERO);
        self.store.submit(&HybridRequest { token, flow, operation, fua: false, offset, length });
        self.carry_out(now);
    }

    fn next_event(&self) -> Option<Time> {
        let models = self.next_model().map(|(at, _)| at);
        self.finished.front().map(|finished| finished.at).into_iter().chain(models).min()
    }

    fn poll_completion(&mut self, now: Time) -> Option<Finished> {
        while self.finished.is_empty() {
            let (at, tier) = self.next_model().filter(|(at, _)| *at <= now)?;
            if let Some(finished) = self.models[tier].poll_completion(at) {
                self.job_done(finished);
            }
        }
        self.finished.pop_front()
    }

    fn tier_counts(&self) -> Option<TierCounts> {
        let counts = self.store.counts();
        Some(TierCounts {
            fast: counts.fast,
            slow: counts.slow,
            promoted: counts.promoted,
            demoted: counts.demoted,
        })
    }

    fn poll_own_work(&mut self) -> Option<(FlowId, Io)> {
        let (flow, copy) = (self.migration?, self.untold.pop_front()?);
        self.told.push(copy);
        let (operation, offset, length) = as_access(&copy);
        Some((flow, Io { token: 0, operation, offset, length }))
    }
}

/// A copy as an access of the slow device, which is where it costs most.
fn as_access(copy: &Copy) -> (Operation, u64, u32) {
    match copy.from {
        Tier::Slow => (Operation::Read, copy.from_offset, copy.length),
        Tier::Fast => (Operation::Write, copy.to_offset, copy.length),
    }
}

#[cfg(test)]
mod tests;
