//! Rounds: what makes data and map durable, in that order, for all flushes that wait.
//!
//! ```text
//!  flushes and FUA writes that wait, changed clusters, released slots
//!     └─> Sync slow, Sync fast ──both done──> Commit(changes) ──> flushes Done, slots free
//! ```
//! One round at a time: whoever comes later waits for the next one, which is therefore shared.

use std::collections::BTreeMap;

use evenkeel_core::FlowId;
use rustc_hash::FxHashSet;

use super::{Fault, Hybrid, Output, tier_index};
use crate::geometry::{Cluster, Slot};
use crate::map::Change;
use crate::policy::Tier;

#[derive(Debug)]
pub(super) struct Round {
    /// Requests that end with it.
    flushes: Vec<u32>,
    /// Clusters whose changes it commits, and the flows that depend on them.
    pub(super) clusters: BTreeMap<Cluster, Vec<FlowId>>,
    changes: Vec<Change>,
    released: Vec<Slot>,
    syncs_left: u8,
    /// Flows whose writes the syncs cover, by `tier_index`.
    covered: [FxHashSet<FlowId>; 2],
    is_committing: bool,
}

impl Hybrid {
    /// A sync of `tier` is over.
    ///
    /// # Panics
    /// If no round is under way.
    pub fn on_sync_done(&mut self, tier: Tier, succeeded: bool) {
        let round = self.round.as_mut().expect("a sync belongs to a round");
        round.syncs_left -= 1;
        if !succeeded {
            let flows = std::mem::take(&mut round.covered[tier_index(tier)]);
            self.bereaved.extend(flows);
            self.lose(tier);
        }
        self.go_on();
        self.pump();
    }

    /// A commit is over.
    ///
    /// # Panics
    /// If no round is under way.
    pub fn on_commit_done(&mut self, succeeded: bool) {
        let round = self.round.take().expect("a commit belongs to a round");
        self.counts.commits += u64::from(succeeded);
        self.map_failed = !succeeded;
        if succeeded {
            self.map.free_released(round.released);
            self.keep_sets(round.covered);
            self.end_round(round.flushes, None);
        } else {
            // Whether the transaction took place is not known: the slots stay out of use, and only a
            // flush tries again.
            self.take_back(round.clusters, round.released);
            self.keep_sets(round.covered);
            self.end_round(round.flushes, Some(Fault::Map));
        }
        self.pump();
    }

    /// Starts a round if one is due and none is under way.
    pub(super) fn start_round(&mut self) {
        let has_changes = !self.dirty.is_empty() && !self.is_broken();
        let is_wanted = self.round_wanted
            || self.dirty.len() >= self.background.changes_max
            || (self.is_draining && self.migrations.is_idle());
        let is_due = !self.next_round.is_empty() || (has_changes && is_wanted && !self.map_failed);
        if self.round.is_some() || !is_due {
            return;
        }
        self.round_wanted = false;
        self.slots_lacked = 0;
        let mut round = Round {
            flushes: std::mem::replace(&mut self.next_round, std::mem::take(&mut self.spare_flushes)),
            clusters: BTreeMap::new(),
            changes: Vec::new(),
            released: Vec::new(),
            syncs_left: 0,
            covered: std::mem::take(&mut self.spare_flows),
            is_committing: false,
        };
        if has_changes {
            round.clusters = std::mem::take(&mut self.dirty);
            round.released = self.map.take_released();
            round.changes = round.clusters.keys().map(|&cluster| self.change(cluster)).collect();
        }
        for tier in [Tier::Slow, Tier::Fast] {
            let index = tier_index(tier);
            let has_copies = std::mem::take(&mut self.migrations.unsynced[index]);
            std::mem::swap(&mut round.covered[index], &mut self.unsynced[index]);
            if !self.lost[index] && (has_copies || !round.covered[index].is_empty()) {
                round.syncs_left += 1;
                self.outputs.push_back(Output::Sync(tier));
            }
        }
        self.round = Some(round);
        self.go_on();
    }

    /// Commits once the syncs are over, and ends the round if there is nothing to commit.
    fn go_on(&mut self) {
        let is_broken = self.is_broken();
        let Some(round) = self.round.as_mut() else { return };
        if round.syncs_left > 0 || round.is_committing {
            return;
        }
        if !round.changes.is_empty() && !is_broken {
            round.is_committing = true;
            self.outputs.push_back(Output::Commit(std::mem::take(&mut round.changes)));
            return;
        }
        let Some(round) = self.round.take() else { return };
        self.take_back(round.clusters, round.released);
        self.keep_sets(round.covered);
        self.end_round(round.flushes, None);
    }

    /// Changes that did not become durable wait for the next round.
    fn take_back(&mut self, clusters: BTreeMap<Cluster, Vec<FlowId>>, released: Vec<Slot>) {
        for (cluster, flows) in clusters {
            let dependents = self.dirty.entry(cluster).or_default();
            for flow in flows {
                if !dependents.contains(&flow) {
                    dependents.push(flow);
                }
            }
        }
        self.map.give_back_released(released);
    }

    /// Keeps the memory of a round's sets for the next one.
    fn keep_sets(&mut self, mut sets: [FxHashSet<FlowId>; 2]) {
        sets.iter_mut().for_each(FxHashSet::clear);
        self.spare_flows = sets;
    }

    fn end_round(&mut self, mut flushes: Vec<u32>, fault: Option<Fault>) {
        for request in flushes.drain(..) {
            let flow = self.requests.row(request).flow;
            let outcome = self.durability(flow, fault);
            self.finish(request, outcome);
        }
        self.spare_flushes = flushes;
    }

    /// Whether what `flow` has written is durable, now that a round is over.
    fn durability(&self, flow: FlowId, fault: Option<Fault>) -> Result<(), Fault> {
        if self.lost[tier_index(Tier::Slow)] {
            return Err(Fault::Lost(Tier::Slow));
        }
        if self.bereaved.contains(&flow) {
            return Err(Fault::Lost(Tier::Fast));
        }
        if (self.is_broken() || fault.is_some())
            && self.dirty.values().any(|dependents| dependents.contains(&flow))
        {
            return Err(fault.unwrap_or(Fault::Lost(Tier::Fast)));
        }
        Ok(())
    }

    fn change(&self, cluster: Cluster) -> Change {
        Change { cluster, entry: self.map.entry(cluster).filter(|entry| !entry.on_fast.is_empty()) }
    }
}
