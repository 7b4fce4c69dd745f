//! The hybrid store: requests in, accesses to two devices out, in an order that survives power loss.
//!
//! ```text
//!  submit ─> cut at clusters ─> policy ─> Output::Access (fast | slow) ─> on_access_done ─┐
//!                                                                                         v
//!                         reads: where the map says             map in memory: blocks that moved
//!                                                                         │ (unless it failed)
//!  FLUSH, FUA ──> round:  Sync slow, Sync fast ──> Commit changes ──> Done, released slots are free
//!                         data first                map second         and only then their reuse
//!
//!  policy's advice ──> migrations (background): Output::Copy, block run by block run ──> map in memory
//! ```
//! The laws that make it safe, each tested against crashes at every step:
//!
//! 1. *Data before map.* A change is committed only after a sync, begun after its data was written, of
//!    both devices.
//! 2. *Map before reuse.* A slot that lost its cluster is used again only after a commit without it.
//! 3. *Homes are private.* Block b of the slow device holds block b of the store and nothing else, so a
//!    map that is older than the data leads to the content that was flushed, or to something newer.
//! 4. *One destination.* While a write that moves blocks is under way, other writes to them go to the
//!    same place; while a cluster migrates, its writes stay where their blocks are, and those blocks
//!    are left out of the migration's switch.
//! 5. *Parts stay.* A write that covers a block only in part goes where the block is.
//!
//! A failed sync makes its device *lost* (what the system had accepted may be gone, and asking again
//! would hide it). Without the slow device nothing can be flushed any more. Without the fast device,
//! accesses to blocks that were there fail, flows that had unsynced writes there or changed the map
//! since fail their flushes, and all others go on: also a write that was on its way to a new place there,
//! which goes home instead. A store that begins without its fast device ([`Hybrid::without_fast`]) has nothing
//! there that is not durable, so its map goes on being committed and blocks come back as they are overwritten.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use evenkeel_core::{FlowId, Operation};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::geometry::{Blocks, Cluster, Geometry, Slot};
use crate::history::Heads;
use crate::map::{Change, Entry, Map, MapError};
use crate::policy::{Policy, Tier};

mod migrate;
mod price;
mod round;
mod route;
mod table;

use migrate::Migrations;
pub use price::{copy_cost, longest_copy};
use round::Round;
use table::Table;

/// A request for the store, as the driver hands it in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HybridRequest {
    /// The driver's name for it.
    pub token: u64,
    /// Whose.
    pub flow: FlowId,
    /// What it asks.
    pub operation: Operation,
    /// Whether it must be durable before it is done.
    pub fua: bool,
    /// First byte, within the store.
    pub offset: u64,
    /// Number of bytes.
    pub length: u32,
}

/// What the driver shall do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Access a device; report to [`Hybrid::on_access_done`].
    Access(TierAccess),
    /// Copy between the devices, in the background; report to [`Hybrid::on_copy_done`].
    Copy(Copy),
    /// Make everything durable that the device has accepted; report to [`Hybrid::on_sync_done`].
    Sync(Tier),
    /// Make the changes durable in one transaction; report to [`Hybrid::on_commit_done`].
    Commit(Vec<Change>),
    /// A request is over.
    Done {
        /// The driver's name for it.
        token: u64,
        /// Whether it succeeded.
        outcome: Result<(), Fault>,
    },
}

/// One access to one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierAccess {
    /// To be handed back.
    pub id: u32,
    /// The request that it is part of.
    pub token: u64,
    /// Which device.
    pub tier: Tier,
    /// What to do there; never a flush.
    pub operation: Operation,
    /// Whether it must be durable before it is done.
    pub fua: bool,
    /// First byte on the device.
    pub offset: u64,
    /// Number of bytes.
    pub length: u32,
    /// Where it begins within the request's data.
    pub within: u32,
}

/// One run of blocks to copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// To be handed back.
    pub id: u32,
    /// The device to read from; the other one is written.
    pub from: Tier,
    /// First byte on the device to read from.
    pub from_offset: u64,
    /// First byte on the device to write to.
    pub to_offset: u64,
    /// Number of bytes.
    pub length: u32,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// An access to a device failed.
    #[error("an access to the {0:?} device failed")]
    Device(Tier),
    /// The device had failed before.
    #[error("the {0:?} device is lost")]
    Lost(Tier),
    /// The location map could not be made durable.
    #[error("the location map could not be written")]
    Map,
}

/// How the store works in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Background {
    /// Clusters that migrate at once; 0 for none.
    pub migrations_max: usize,
    /// Clusters that wait for it at most; further advice is dropped, as the next access repeats it.
    pub waiting_max: usize,
    /// Map changes that are collected at most before a round starts without a FLUSH.
    pub changes_max: usize,
    /// Bytes of one copy at most, rounded down to whole blocks but never below one: a cluster is copied in
    /// pieces of this size, so that requests for the same device get in between.
    pub copy_bytes_max: u32,
    /// Slots that were given up are set free for others in batches of a thirty-second of all slots, but of no
    /// more than this: setting them free syncs both devices. 1 to set each free as soon as it is wanted.
    pub release_batch_max: u32,
}

impl Default for Background {
    fn default() -> Self {
        Self {
            migrations_max: 1,
            waiting_max: 256,
            changes_max: 4096,
            copy_bytes_max: u32::MAX,
            release_batch_max: 1,
        }
    }
}

/// What went where so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Accesses to the fast device for requests.
    pub fast: u64,
    /// Accesses to the slow device for requests.
    pub slow: u64,
    /// Clusters copied to the fast device.
    pub promoted: u64,
    /// Clusters copied back.
    pub demoted: u64,
    /// Map transactions.
    pub commits: u64,
}

/// The state machine. The driver drains [`Hybrid::poll_output`] after each call of the others.
pub struct Hybrid {
    geometry: Geometry,
    map: Map,
    policy: Box<dyn Policy>,
    heads: Heads,
    requests: Table<Pending>,
    accesses: Table<Piece>,
    /// Clusters with accesses under way.
    busy: FxHashMap<Cluster, Busy>,
    /// Clusters whose entry differs from the durable one, and the flows that depend on the difference:
    /// those that have written there since.
    dirty: BTreeMap<Cluster, Vec<FlowId>>,
    /// Flows with writes since the last sync of a device began, by [`tier_index`].
    unsynced: [FxHashSet<FlowId>; 2],
    lost: [bool; 2],
    /// Whether the fast device was not there from the start: nothing that the map waits for is on it then.
    is_absent: bool,
    /// Flows whose accepted writes may be gone with a device.
    bereaved: FxHashSet<FlowId>,
    round: Option<Round>,
    /// Requests that wait for a round which begins after now.
    next_round: Vec<u32>,
    /// What the last round leaves behind, so that the next one need not allocate: flushes, flows covered.
    spare_flushes: Vec<u32>,
    spare_flows: [FxHashSet<FlowId>; 2],
    round_wanted: bool,
    /// How often a slot was wanted since the last round when none was free but some were released.
    slots_lacked: u32,
    /// Whether the last commit failed: only a flush tries again then.
    map_failed: bool,
    /// Whether the fast device is being emptied: its slots are then given up as soon as they can be.
    is_draining: bool,
    migrations: Migrations,
    background: Background,
    counts: Counts,
    /// Writes to parts of blocks that are being moved.
    parked: VecDeque<HybridRequest>,
    outputs: VecDeque<Output>,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    token: u64,
    flow: FlowId,
    /// Accesses not over yet.
    left: u32,
    fault: Option<Fault>,
    /// Whether it must wait for a round once its accesses are over.
    needs_round: bool,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    request: u32,
    tier: Tier,
    cluster: Cluster,
    is_write: bool,
    /// What it takes to send a write elsewhere: whether it has data, and must be durable.
    has_data: bool,
    fua: bool,
    /// First byte and bytes within the cluster, and where it begins within the request's data.
    start: u32,
    length: u32,
    within: u32,
    /// Blocks whose location becomes `tier` if it succeeds.
    moves: Blocks,
}

#[derive(Clone, Copy, Debug, Default)]
struct Busy {
    accesses: u32,
    writes: u32,
    /// Blocks that writes under way touch without moving them.
    staying: Blocks,
    /// Blocks on their way to a device, by [`tier_index`].
    moving: [Blocks; 2],
}

const fn tier_index(tier: Tier) -> usize {
    match tier {
        Tier::Fast => 0,
        Tier::Slow => 1,
    }
}

/// Of so many slots one is set free with others at once.
const SLOTS_PER_BATCH: u32 = 32;
/// How often a slot is lacked in vain, for each of a batch, until the batch is too small but due.
const PATIENCE: u32 = 4;
/// Requests under way that memory is taken for from the start.
const REQUESTS_USUAL: usize = 256;

impl Hybrid {
    /// A store of `bytes` with a fast device of `fast_bytes`, from the durable map `stored`.
    ///
    /// # Errors
    /// [`MapError`] if the map cannot be true of these devices.
    pub fn new(
        geometry: Geometry,
        bytes: u64,
        fast_bytes: u64,
        policy: Box<dyn Policy>,
        background: Background,
        stored: impl IntoIterator<Item = (Cluster, Entry)>,
    ) -> Result<Self, MapError> {
        let map = Map::load(geometry, geometry.slots(fast_bytes), bytes, stored)?;
        let mut hybrid = Self {
            geometry,
            map,
            policy,
            heads: Heads::default(),
            requests: Table::default(),
            accesses: Table::default(),
            busy: FxHashMap::default(),
            dirty: BTreeMap::new(),
            unsynced: Default::default(),
            lost: [false; 2],
            is_absent: false,
            bereaved: FxHashSet::default(),
            round: None,
            next_round: Vec::new(),
            spare_flushes: Vec::new(),
            spare_flows: Default::default(),
            round_wanted: false,
            slots_lacked: 0,
            map_failed: false,
            is_draining: false,
            migrations: Migrations::new(bytes),
            background,
            counts: Counts::default(),
            parked: VecDeque::new(),
            outputs: VecDeque::new(),
        };
        hybrid.reserve(REQUESTS_USUAL);
        for (cluster, _) in hybrid.map.sorted() {
            hybrid.policy.on_residence(cluster, true);
        }
        Ok(hybrid)
    }

    /// Takes memory for so many requests under way, so that fewer need none.
    fn reserve(&mut self, requests: usize) {
        self.requests.reserve(requests);
        self.accesses.reserve(requests);
        self.busy.reserve(requests);
        self.next_round.reserve(requests);
        self.spare_flushes.reserve(requests);
        self.outputs.reserve(requests);
        self.unsynced.iter_mut().chain(&mut self.spare_flows).for_each(|flows| flows.reserve(64));
    }

    /// What the driver shall do next.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Places blocks on the fast device whose content is already there, for simulations that start from
    /// a chosen placement. The cluster must be idle. Whether there was room.
    pub fn preload(&mut self, cluster: Cluster) -> bool {
        if self.map.take(cluster).is_none() {
            return false;
        }
        self.map.relocate(cluster, self.geometry.whole(), Blocks::NONE);
        self.dirty.entry(cluster).or_default();
        self.policy.on_residence(cluster, true);
        true
    }

    /// Replaces the policy; what is on flash stays until the new one advises otherwise.
    pub fn set_policy(&mut self, mut policy: Box<dyn Policy>) {
        for (cluster, _) in self.map.sorted() {
            policy.on_residence(cluster, true);
        }
        self.policy = policy;
    }

    /// The geometry.
    #[must_use]
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Slots in use and slots there are.
    #[must_use]
    pub const fn slots(&self) -> (Slot, Slot) {
        (self.map.used(), self.map.slots())
    }

    /// What went where so far.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// The map in memory, by cluster.
    #[must_use]
    pub fn entries(&self) -> Vec<(Cluster, Entry)> {
        self.map.sorted()
    }

    /// Bytes of the store within `range` whose newest content is on the fast device. O(clusters there).
    #[must_use]
    pub fn fast_bytes_within(&self, range: &Range<u64>) -> u64 {
        let block = u64::from(self.geometry.block_bytes());
        let overlap = |(cluster, entry): (Cluster, Entry)| {
            let home = self.geometry.offset_of(cluster);
            let runs = entry.on_fast.runs(self.geometry.blocks()).map(move |(first, end)| {
                let (start, end) = (home + u64::from(first) * block, home + u64::from(end) * block);
                end.min(range.end).saturating_sub(start.max(range.start))
            });
            runs.sum::<u64>()
        };
        self.map.sorted().into_iter().map(overlap).sum()
    }

    /// Whether nothing is under way and nothing is waiting.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.requests.is_empty()
            && self.parked.is_empty()
            && self.round.is_none()
            && self.migrations.is_idle()
            && self.outputs.is_empty()
    }

    /// Whether a device was lost.
    #[must_use]
    pub const fn is_lost(&self, tier: Tier) -> bool {
        self.lost[tier_index(tier)]
    }

    /// Notes that a device is gone for good: its accesses fail from now on.
    pub fn on_tier_lost(&mut self, tier: Tier) {
        self.lose(tier);
        self.pump();
    }

    /// Begins without the fast device, before any request: blocks whose newest content is there fail until
    /// they are overwritten whole, and that is as durable as any other write. Nothing migrates.
    pub fn without_fast(&mut self) {
        self.is_absent = true;
        self.lose(Tier::Fast);
    }

    /// Whether a device was lost with what changes of the map may be waiting for.
    const fn is_broken(&self) -> bool {
        self.lost[tier_index(Tier::Slow)] || (self.lost[tier_index(Tier::Fast)] && !self.is_absent)
    }

    /// Starts what can be started: migrations, and a round if one is due.
    fn pump(&mut self) {
        self.start_migrations();
        self.start_round();
    }

    /// Changes the map in memory after blocks have arrived at their new place.
    fn relocate(&mut self, cluster: Cluster, to_fast: Blocks, to_slow: Blocks) {
        let Some(before) = self.map.entry(cluster) else { return };
        self.map.relocate(cluster, to_fast, to_slow);
        if self.map.entry(cluster) != Some(before) {
            self.dirty.entry(cluster).or_default();
        }
    }

    /// Notes that `flow` has written to `cluster`: should its entry never become durable, nor does that.
    fn note_dependent(&mut self, cluster: Cluster, flow: FlowId) {
        let in_round = self.round.as_mut().and_then(|round| round.clusters.get_mut(&cluster));
        for flows in [self.dirty.get_mut(&cluster), in_round].into_iter().flatten() {
            if !flows.contains(&flow) {
                flows.push(flow);
            }
        }
    }

    /// Takes the slot of `cluster` away once no block is there and nothing uses it.
    fn release_if_unused(&mut self, cluster: Cluster) {
        let Some(entry) = self.map.entry(cluster) else { return };
        let is_used = !entry.on_fast.is_empty()
            || self.busy.contains_key(&cluster)
            || self.migrations.is_migrating(cluster);
        if !is_used {
            self.map.release(cluster);
            self.policy.on_residence(cluster, false);
            self.dirty.entry(cluster).or_default();
        }
    }

    /// Notes that a slot was wanted and none was free. Released ones need a round to be used again, and a round
    /// syncs both devices, so they are set free in batches, unless that keeps too many waiting.
    fn lack_slot(&mut self) {
        let released = self.map.released();
        if released > 0 {
            let most = self.background.release_batch_max.max(1);
            let batch = (self.map.slots() / SLOTS_PER_BATCH).clamp(1, most);
            self.slots_lacked += 1;
            self.round_wanted |= released >= batch || self.slots_lacked >= batch.saturating_mul(PATIENCE);
        }
    }

    fn lose(&mut self, tier: Tier) {
        let index = tier_index(tier);
        if !std::mem::replace(&mut self.lost[index], true) {
            let flows = std::mem::take(&mut self.unsynced[index]);
            self.bereaved.extend(flows);
        }
    }

    /// Clusters whose entry is not durable as it is.
    fn is_durable(&self, cluster: Cluster) -> bool {
        !self.dirty.contains_key(&cluster)
            && self.round.as_ref().is_none_or(|round| !round.clusters.contains_key(&cluster))
    }

    /// Ends a request.
    fn finish(&mut self, request: u32, outcome: Result<(), Fault>) {
        let pending = self.requests.remove(request);
        self.outputs.push_back(Output::Done { token: pending.token, outcome });
    }
}
