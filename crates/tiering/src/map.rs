//! Where each block is: on the slow device unless a cluster's entry says otherwise.
//!
//! ```text
//!  cluster ─> Entry { slot, blocks on fast }        no entry: all blocks on slow, at home
//!
//!  slot:   free ──take──> in use ──release──> released ──(map durable)──> free
//!                                             not to be used again before the durable map has forgotten it
//! ```

use rustc_hash::FxHashMap;

use crate::geometry::{Blocks, Cluster, Geometry, Slot};

/// Where a cluster's blocks are, if some of them are on the fast device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its room on the fast device.
    pub slot: Slot,
    /// The blocks whose newest content is there.
    pub on_fast: Blocks,
}

/// What the durable map must be told about a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which cluster.
    pub cluster: Cluster,
    /// Its entry from now on; `None` removes it.
    pub entry: Option<Entry>,
}

/// Why a stored map was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// Two clusters in one slot.
    #[error("clusters {first} and {second} both claim slot {slot} of the fast device")]
    SlotTwice {
        /// The slot.
        slot: Slot,
        /// The cluster that was read first.
        first: Cluster,
        /// The other one.
        second: Cluster,
    },
    /// A slot beyond the end of the fast device.
    #[error(
        "cluster {cluster} lies in slot {slot}, but the fast device has {slots} slots; give it back its size, or drain it before making it smaller"
    )]
    SlotBeyond {
        /// The cluster.
        cluster: Cluster,
        /// Its slot.
        slot: Slot,
        /// How many there are.
        slots: Slot,
    },
    /// A cluster beyond the end of the store.
    #[error("the map names cluster {cluster}, but the store ends before cluster {clusters}")]
    ClusterBeyond {
        /// The cluster.
        cluster: Cluster,
        /// How many there are.
        clusters: u64,
    },
    /// A block that a cluster of this size, or the last one of the store, does not have.
    #[error("the entry of cluster {cluster} names a block beyond its {blocks}")]
    BlockBeyond {
        /// The cluster.
        cluster: Cluster,
        /// How many blocks it has.
        blocks: u32,
    },
}

/// The map in memory.
#[derive(Clone, Debug)]
pub struct Map {
    entries: FxHashMap<Cluster, Entry>,
    slots: Slot,
    /// Slots never used so far start here; those below are in use, released or in `free`.
    fresh_from: Slot,
    free: Vec<Slot>,
    released: Vec<Slot>,
    used: Slot,
}

impl Map {
    /// The map that was stored.
    ///
    /// # Errors
    /// [`MapError`] if it cannot be true of a fast device with `slots` slots and a store of `store_bytes`.
    pub fn load(
        geometry: Geometry,
        slots: Slot,
        store_bytes: u64,
        stored: impl IntoIterator<Item = (Cluster, Entry)>,
    ) -> Result<Self, MapError> {
        let clusters = store_bytes.div_ceil(u64::from(geometry.cluster_bytes()));
        let mut entries = FxHashMap::default();
        let mut owners: FxHashMap<Slot, Cluster> = FxHashMap::default();
        for (cluster, entry) in stored {
            let slot = entry.slot;
            if slot >= slots {
                return Err(MapError::SlotBeyond { cluster, slot, slots });
            }
            if cluster >= clusters {
                return Err(MapError::ClusterBeyond { cluster, clusters });
            }
            let inside = geometry.inside(cluster, store_bytes);
            if !entry.on_fast.without(inside).is_empty() {
                return Err(MapError::BlockBeyond { cluster, blocks: inside.count() });
            }
            if let Some(first) = owners.insert(slot, cluster) {
                return Err(MapError::SlotTwice { slot, first, second: cluster });
            }
            entries.insert(cluster, entry);
        }
        let fresh_from = owners.keys().max().map_or(0, |&slot| slot + 1);
        let mut free: Vec<Slot> = (0..fresh_from).filter(|slot| !owners.contains_key(slot)).collect();
        // Taken from the end: low slots first.
        free.reverse();
        let used = entries.len() as Slot;
        Ok(Self { entries, slots, fresh_from, free, released: Vec::new(), used })
    }

    /// The entry of `cluster`.
    #[must_use]
    pub fn entry(&self, cluster: Cluster) -> Option<Entry> {
        self.entries.get(&cluster).copied()
    }

    /// Gives `cluster` a slot, if it has none yet and one is free; its entry then names no block.
    pub fn take(&mut self, cluster: Cluster) -> Option<Slot> {
        if let Some(entry) = self.entries.get(&cluster) {
            return Some(entry.slot);
        }
        let slot = self.free.pop().or_else(|| {
            (self.fresh_from < self.slots).then(|| {
                self.fresh_from += 1;
                self.fresh_from - 1
            })
        })?;
        self.used += 1;
        self.entries.insert(cluster, Entry { slot, on_fast: Blocks::NONE });
        Some(slot)
    }

    /// Notes where `blocks` of `cluster`, which must have a slot, are from now on.
    pub fn relocate(&mut self, cluster: Cluster, to_fast: Blocks, to_slow: Blocks) {
        if let Some(entry) = self.entries.get_mut(&cluster) {
            entry.on_fast = entry.on_fast.with(to_fast).without(to_slow);
        }
    }

    /// Takes the slot of `cluster` away; it stays unused until [`Map::free_released`].
    pub fn release(&mut self, cluster: Cluster) {
        if let Some(entry) = self.entries.remove(&cluster) {
            self.released.push(entry.slot);
        }
    }

    /// The released slots, for a commit that makes the durable map forget them.
    pub fn take_released(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.released)
    }

    /// The commit failed: `slots` are still named by the durable map.
    pub fn give_back_released(&mut self, slots: Vec<Slot>) {
        self.released.extend(slots);
    }

    /// The durable map no longer names `slots`: they may be used again.
    pub fn free_released(&mut self, slots: Vec<Slot>) {
        self.used -= slots.len() as Slot;
        self.free.extend(slots);
    }

    /// Whether a slot can be had now.
    #[must_use]
    pub fn has_room(&self) -> bool {
        !self.free.is_empty() || self.fresh_from < self.slots
    }

    /// Slots that wait for the durable map to forget them.
    #[must_use]
    pub fn released(&self) -> Slot {
        self.released.len() as Slot
    }

    /// Slots in use, released ones included.
    #[must_use]
    pub const fn used(&self) -> Slot {
        self.used
    }

    /// Slots of the fast device.
    #[must_use]
    pub const fn slots(&self) -> Slot {
        self.slots
    }

    /// All entries, by cluster.
    #[must_use]
    pub fn sorted(&self) -> Vec<(Cluster, Entry)> {
        let mut all: Vec<_> = self.entries.iter().map(|(&cluster, &entry)| (cluster, entry)).collect();
        all.sort_unstable_by_key(|&(cluster, _)| cluster);
        all
    }
}
