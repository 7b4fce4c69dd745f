//! Migrations: clusters copied between the devices in the background.
//!
//! ```text
//!  advice ─> wanted (bounded queue) ─> active: run of blocks after run of blocks, one Output::Copy each
//!                                        │ writes meanwhile: `touched`
//!                                        v
//!                                      switch: blocks copied and not touched
//! ```

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Copy, Hybrid, Output, Table, tier_index};
use crate::geometry::{Blocks, Cluster};
use crate::policy::Tier;

#[derive(Debug)]
pub(super) struct Migrations {
    store_bytes: u64,
    wanted: VecDeque<(Cluster, Tier)>,
    queued: FxHashSet<Cluster>,
    active: Table<Migration>,
    by_cluster: FxHashMap<Cluster, u32>,
    /// Whether copies were written since the last sync of a device began, by `tier_index`.
    pub(super) unsynced: [bool; 2],
}

#[derive(Debug)]
struct Migration {
    cluster: Cluster,
    to: Tier,
    blocks: Blocks,
    /// Blocks written since it began: they stay where they are.
    touched: Blocks,
    /// Runs not copied yet, the next one last.
    runs: Vec<(u32, u32)>,
}

impl Migrations {
    pub(super) fn new(store_bytes: u64) -> Self {
        Self {
            store_bytes,
            wanted: VecDeque::new(),
            queued: FxHashSet::default(),
            active: Table::default(),
            by_cluster: FxHashMap::default(),
            unsynced: [false; 2],
        }
    }

    pub(super) fn is_migrating(&self, cluster: Cluster) -> bool {
        self.by_cluster.contains_key(&cluster)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.by_cluster.is_empty() && self.wanted.is_empty()
    }

    /// Notes that a write to `blocks` of `cluster` was handed in.
    pub(super) fn touch(&mut self, cluster: Cluster, blocks: Blocks) {
        if let Some(&index) = self.by_cluster.get(&cluster) {
            let migration = self.active.row(index);
            migration.touched = migration.touched.with(blocks);
        }
    }

    fn want(&mut self, cluster: Cluster, to: Tier, waiting_max: usize) {
        if self.wanted.len() < waiting_max && !self.is_migrating(cluster) && self.queued.insert(cluster) {
            self.wanted.push_back((cluster, to));
        }
    }
}

impl Hybrid {
    /// Asks for every cluster to be copied back to the slow device, for example before the fast one is
    /// removed. The caller sets a policy that sends nothing there ([`crate::policy::DiskOnly`]) first,
    /// and is done when [`Hybrid::is_idle`] and no slot is in use; clusters that were written meanwhile
    /// need another call.
    pub fn drain(&mut self) {
        for (cluster, _) in self.map.sorted() {
            self.migrations.want(cluster, Tier::Slow, usize::MAX);
        }
        self.is_draining = true;
        self.pump();
    }

    /// Starts no more migrations, and ends those under way with the copy that they are at.
    pub fn stop_migrating(&mut self) {
        self.background.migrations_max = 0;
        self.migrations.wanted.clear();
        self.migrations.queued.clear();
        for &index in self.migrations.by_cluster.values() {
            let migration = self.migrations.active.row(index);
            for (first, end) in migration.runs.drain(..) {
                migration.blocks = migration.blocks.without(Blocks::range(first, end));
            }
        }
    }

    /// A copy is over.
    ///
    /// # Panics
    /// If no such copy is under way.
    pub fn on_copy_done(&mut self, id: u32, succeeded: bool) {
        let migration = self.migrations.active.row(id);
        if succeeded {
            self.migrations.unsynced[tier_index(migration.to)] = true;
        } else {
            // What was copied so far is left unused where it is.
            migration.blocks = Blocks::NONE;
            migration.runs.clear();
        }
        if self.migrations.active.row(id).runs.is_empty() {
            self.finish_migration(id);
        } else {
            self.copy_next(id);
        }
        self.pump();
    }

    pub(super) fn want_promotion(&mut self, cluster: Cluster) {
        if self.background.migrations_max > 0 {
            self.migrations.want(cluster, Tier::Fast, self.background.waiting_max);
        }
    }

    pub(super) fn want_demotion(&mut self, cluster: Cluster) {
        if self.background.migrations_max > 0 && self.map.entry(cluster).is_some() {
            self.migrations.want(cluster, Tier::Slow, self.background.waiting_max);
        }
    }

    pub(super) fn start_migrations(&mut self) {
        if self.lost.contains(&true) {
            self.migrations.wanted.clear();
            self.migrations.queued.clear();
            return;
        }
        let max = self.background.migrations_max.max(1);
        for _ in 0..self.migrations.wanted.len() {
            if self.migrations.by_cluster.len() >= max {
                return;
            }
            let Some((cluster, to)) = self.migrations.wanted.pop_front() else { return };
            self.migrations.queued.remove(&cluster);
            if self.is_written(cluster) {
                // It would have to leave those blocks out; it is asked for again, or tried at the next turn.
                self.migrations.want(cluster, to, usize::MAX);
                continue;
            }
            self.start_migration(cluster, to);
        }
    }

    fn start_migration(&mut self, cluster: Cluster, to: Tier) {
        let on_fast = self.map.entry(cluster).map_or(Blocks::NONE, |entry| entry.on_fast);
        let blocks = match to {
            Tier::Slow => on_fast,
            Tier::Fast => self.geometry.inside(cluster, self.migrations.store_bytes).without(on_fast),
        };
        if blocks.is_empty() {
            self.release_if_unused(cluster);
            return;
        }
        if to == Tier::Fast && !self.take_slot(cluster) {
            // Without room on its way the advice is dropped; the next access will repeat it.
            self.lack_slot();
            return;
        }
        let step = (self.background.copy_bytes_max / self.geometry.block_bytes()).max(1);
        let pieces = |(first, end): (u32, u32)| {
            (first..end).step_by(step as usize).map(move |at| (at, end.min(at.saturating_add(step))))
        };
        let mut runs: Vec<_> = blocks.runs(self.geometry.blocks()).flat_map(pieces).collect();
        runs.reverse();
        let index =
            self.migrations.active.insert(Migration { cluster, to, blocks, touched: Blocks::NONE, runs });
        self.migrations.by_cluster.insert(cluster, index);
        self.copy_next(index);
    }

    fn copy_next(&mut self, index: u32) {
        let migration = self.migrations.active.row(index);
        let Some((first, end)) = migration.runs.pop() else { return };
        let block = self.geometry.block_bytes();
        let start = u64::from(first * block);
        let slot = self.map.entry(migration.cluster).map_or(0, |entry| entry.slot);
        let slow = self.geometry.offset_of(migration.cluster) + start;
        let fast = self.geometry.slot_offset(slot) + start;
        let (from, from_offset, to_offset) = match migration.to {
            Tier::Fast => (Tier::Slow, slow, fast),
            Tier::Slow => (Tier::Fast, fast, slow),
        };
        let length = (end - first) * block;
        self.outputs.push_back(Output::Copy(Copy { id: index, from, from_offset, to_offset, length }));
    }

    fn finish_migration(&mut self, index: u32) {
        let migration = self.migrations.active.remove(index);
        self.migrations.by_cluster.remove(&migration.cluster);
        let moved = migration.blocks.without(migration.touched);
        match migration.to {
            Tier::Fast => self.relocate(migration.cluster, moved, Blocks::NONE),
            Tier::Slow => self.relocate(migration.cluster, Blocks::NONE, moved),
        }
        if !moved.is_empty() {
            match migration.to {
                Tier::Fast => self.counts.promoted += 1,
                Tier::Slow => self.counts.demoted += 1,
            }
        }
        self.release_if_unused(migration.cluster);
    }

    /// Gives `cluster` a slot if it has none; whether it has one now.
    pub(super) fn take_slot(&mut self, cluster: Cluster) -> bool {
        let had = self.map.entry(cluster).is_some();
        let has = self.map.take(cluster).is_some();
        if has && !had {
            self.policy.on_residence(cluster, true);
        }
        has
    }
}
