//! Requests to accesses: cutting, asking the policy, and what follows from an access that is over.

use evenkeel_core::Operation;

use super::{Busy, Fault, Hybrid, HybridRequest, Output, Pending, Piece, TierAccess, tier_index};
use crate::geometry::{Blocks, Cluster, Geometry, Slot, Stretch};
use crate::map::Entry;
use crate::policy::{Access, Residence, Tier};

impl Hybrid {
    /// Takes in a request. A flush covers every write that was done before it was handed in.
    pub fn submit(&mut self, request: &HybridRequest) {
        if self.must_wait(request) {
            self.parked.push_back(*request);
        } else {
            self.admit(request);
            self.pump();
        }
    }

    /// Cuts the request and emits its accesses.
    fn admit(&mut self, request: &HybridRequest) {
        let pending = Pending {
            token: request.token,
            flow: request.flow,
            left: 1,
            fault: None,
            needs_round: request.operation == Operation::Flush,
        };
        let index = self.requests.insert(pending);
        if request.operation != Operation::Flush {
            let geometry = self.geometry;
            let mut within = 0;
            for stretch in geometry.stretches(request.offset, request.length) {
                self.submit_stretch(request, index, &stretch, within);
                within += stretch.length;
            }
        }
        // The one that was counted for the cutting itself.
        self.end_part(index);
    }

    /// Whether `request` writes a part of a block that another write is moving: should that one fail, the
    /// part would be left where nobody looks for it. Once one waits, later writes to its clusters wait
    /// behind it, so that it has its turn.
    fn must_wait(&self, request: &HybridRequest) -> bool {
        if matches!(request.operation, Operation::Read | Operation::Flush) {
            return false;
        }
        let geometry = self.geometry;
        geometry.stretches(request.offset, request.length).any(|stretch| {
            let parts = geometry.touched(&stretch).without(geometry.covered(&stretch));
            let is_moving = self
                .busy
                .get(&stretch.cluster)
                .is_some_and(|busy| !busy.moving[0].with(busy.moving[1]).and(parts).is_empty());
            is_moving || self.parked.iter().any(|parked| touches(geometry, parked, stretch.cluster))
        })
    }

    /// Admits requests that waited for writes which are over now, in their order.
    fn unpark(&mut self) {
        if self.parked.is_empty() {
            return;
        }
        for request in std::mem::take(&mut self.parked) {
            if self.must_wait(&request) {
                self.parked.push_back(request);
            } else {
                self.admit(&request);
            }
        }
    }

    /// An access is over.
    ///
    /// # Panics
    /// If no such access is under way.
    pub fn on_access_done(&mut self, id: u32, succeeded: bool) {
        let piece = self.accesses.remove(id);
        if !succeeded && self.can_go_home(&piece) {
            self.send_home(piece);
            return;
        }
        self.unbusy(&piece);
        if succeeded {
            let (to_fast, to_slow) = match piece.tier {
                Tier::Fast => (piece.moves, Blocks::NONE),
                Tier::Slow => (Blocks::NONE, piece.moves),
            };
            let flow = self.requests.row(piece.request).flow;
            if piece.is_write && self.lost[tier_index(piece.tier)] {
                // Accepted by a device that will not be synced any more.
                self.bereaved.insert(flow);
            } else if piece.is_write {
                self.unsynced[tier_index(piece.tier)].insert(flow);
            }
            if !piece.moves.is_empty() {
                self.relocate(piece.cluster, to_fast, to_slow);
            }
            if piece.is_write {
                self.note_dependent(piece.cluster, flow);
            }
        } else {
            self.requests.row(piece.request).fault.get_or_insert(Fault::Device(piece.tier));
        }
        self.release_if_unused(piece.cluster);
        self.end_part(piece.request);
        self.unpark();
        self.pump();
    }

    fn submit_stretch(&mut self, request: &HybridRequest, index: u32, stretch: &Stretch, within: u32) {
        let is_write = request.operation != Operation::Read;
        let is_sequential = self.heads.is_sequential(request.flow, stretch.cluster);
        let access = Access { flow: request.flow, cluster: stretch.cluster, is_write, is_sequential };
        let entry = self.map.entry(stretch.cluster);
        let residence =
            Residence { is_resident: entry.is_some(), slots_used: self.map.used(), slots: self.map.slots() };
        let advice = self.policy.on_access(&access, residence);
        let wanted = if request.operation == Operation::Write { advice.write_to } else { None };
        let plan = if is_write { self.plan_write(stretch, wanted) } else { self.plan_read(stretch, entry) };
        if is_write {
            self.migrations.touch(stretch.cluster, self.geometry.touched(stretch));
        }
        self.emit_runs(request, index, stretch, within, &plan);
        if let Some(cluster) = advice.demote {
            self.want_demotion(cluster);
        }
        if advice.promote {
            self.want_promotion(stretch.cluster);
        }
    }

    fn plan_read(&self, stretch: &Stretch, entry: Option<Entry>) -> Plan {
        let on_fast = entry.map_or(Blocks::NONE, |entry| entry.on_fast);
        let slot = entry.map_or(0, |entry| entry.slot);
        Plan { fast: on_fast.and(self.geometry.touched(stretch)), moves: Blocks::NONE, slot }
    }

    /// Which blocks of a write go to the fast device, and which of all blocks move by it.
    fn plan_write(&mut self, stretch: &Stretch, wanted: Option<Tier>) -> Plan {
        let cluster = stretch.cluster;
        let touched = self.geometry.touched(stretch);
        let on_fast = self.map.entry(cluster).map_or(Blocks::NONE, |entry| entry.on_fast);
        let busy = self.busy.get(&cluster).copied().unwrap_or_default();
        // Law 4: what is under way to one place takes later writes along.
        let mut pulled = [busy.moving[0].and(touched), busy.moving[1].and(touched)];
        if self.lost[tier_index(Tier::Fast)] {
            // What was under way there goes home if it can.
            pulled[0] = pulled[0].and(on_fast);
        }
        let mut movable = Blocks::NONE;
        if !self.migrations.is_migrating(cluster) {
            let bound = busy.staying.with(busy.moving[0]).with(busy.moving[1]);
            movable = self.geometry.covered(stretch).without(bound);
        }
        let target = match wanted {
            Some(Tier::Fast) if self.lost[tier_index(Tier::Fast)] => Some(Tier::Slow),
            None if self.lost[tier_index(Tier::Fast)] => Some(Tier::Slow),
            Some(Tier::Fast) if movable.is_empty() || !self.take_slot(cluster) => {
                self.lack_slot();
                None
            }
            other => other,
        };
        let mut fast = on_fast.and(touched);
        match target {
            Some(Tier::Fast) => fast = fast.with(movable),
            Some(Tier::Slow) => fast = fast.without(movable),
            None => {}
        }
        fast = fast.with(pulled[0]).without(pulled[1]);
        let differs = fast.without(on_fast).with(on_fast.and(touched).without(fast));
        let slot = self.map.entry(cluster).map_or(0, |entry| entry.slot);
        Plan { fast, moves: differs.and(self.geometry.covered(stretch)), slot }
    }

    /// Emits one access for each run of bytes on the same device.
    fn emit_runs(
        &mut self,
        request: &HybridRequest,
        index: u32,
        stretch: &Stretch,
        within: u32,
        plan: &Plan,
    ) {
        let block = self.geometry.block_bytes();
        let end = stretch.start + stretch.length;
        let mut at = stretch.start;
        while at < end {
            let first = at / block;
            let is_fast = plan.fast.contains(first);
            let mut last = first;
            while (last + 1) * block < end && plan.fast.contains(last + 1) == is_fast {
                last += 1;
            }
            let stop = end.min((last + 1) * block);
            let run = Run {
                tier: if is_fast { Tier::Fast } else { Tier::Slow },
                start: at,
                length: stop - at,
                within: within + (at - stretch.start),
                blocks: Blocks::range(first, last + 1),
            };
            self.emit(request, index, stretch.cluster, plan, &run);
            at = stop;
        }
    }

    fn emit(&mut self, request: &HybridRequest, index: u32, cluster: Cluster, plan: &Plan, run: &Run) {
        if self.lost[tier_index(run.tier)] {
            self.requests.row(index).fault.get_or_insert(Fault::Lost(run.tier));
            return;
        }
        let is_write = request.operation != Operation::Read;
        let moves = plan.moves.and(run.blocks);
        let needs_round = request.fua && is_write && (!moves.is_empty() || !self.is_durable(cluster));
        let offset = match run.tier {
            Tier::Slow => self.geometry.offset_of(cluster),
            Tier::Fast => self.geometry.slot_offset(plan.slot),
        } + u64::from(run.start);
        let pending = self.requests.row(index);
        pending.left += 1;
        pending.needs_round |= needs_round;
        let piece = Piece {
            request: index,
            tier: run.tier,
            cluster,
            is_write,
            has_data: request.operation == Operation::Write,
            fua: request.fua,
            start: run.start,
            length: run.length,
            within: run.within,
            moves,
        };
        match run.tier {
            Tier::Fast => self.counts.fast += 1,
            Tier::Slow => self.counts.slow += 1,
        }
        let busy = self.busy.entry(cluster).or_default();
        busy.accesses += 1;
        if is_write {
            busy.writes += 1;
            let index = tier_index(run.tier);
            busy.moving[index] = busy.moving[index].with(moves);
            busy.staying = busy.staying.with(run.blocks.without(busy.moving[index]));
        }
        self.outputs.push_back(Output::Access(TierAccess {
            id: self.accesses.insert(piece),
            token: request.token,
            tier: run.tier,
            operation: request.operation,
            fua: request.fua && is_write,
            offset,
            length: run.length,
            within: run.within,
        }));
    }

    /// Whether a write that failed on the lost fast device was to move blocks there that are at home still.
    fn can_go_home(&self, piece: &Piece) -> bool {
        let block = self.geometry.block_bytes();
        let blocks = || Blocks::range(piece.start / block, (piece.start + piece.length).div_ceil(block));
        let on_fast = || self.map.entry(piece.cluster).map_or(Blocks::NONE, |entry| entry.on_fast);
        piece.tier == Tier::Fast
            && piece.has_data
            && self.lost == [true, false]
            && piece.moves == blocks()
            && on_fast().and(piece.moves).is_empty()
    }

    /// Writes at home what was to go to the fast device.
    fn send_home(&mut self, piece: Piece) {
        let offset = self.geometry.offset_of(piece.cluster) + u64::from(piece.start);
        let token = self.requests.row(piece.request).token;
        self.counts.slow += 1;
        let (length, within, fua) = (piece.length, piece.within, piece.fua);
        let id = self.accesses.insert(Piece { tier: Tier::Slow, moves: Blocks::NONE, ..piece });
        let (tier, operation) = (Tier::Slow, Operation::Write);
        let access = TierAccess { id, token, tier, operation, fua, offset, length, within };
        self.outputs.push_back(Output::Access(access));
    }

    fn unbusy(&mut self, piece: &Piece) {
        let Some(busy) = self.busy.get_mut(&piece.cluster) else { return };
        busy.accesses -= 1;
        busy.writes -= u32::from(piece.is_write);
        if busy.writes == 0 {
            *busy = Busy { accesses: busy.accesses, ..Busy::default() };
        }
        if busy.accesses == 0 {
            self.busy.remove(&piece.cluster);
        }
    }

    /// One part of a request is over; the request itself if it was the last.
    fn end_part(&mut self, index: u32) {
        let pending = self.requests.row(index);
        pending.left -= 1;
        if pending.left > 0 {
            return;
        }
        match (pending.fault, pending.needs_round) {
            (Some(fault), _) => self.finish(index, Err(fault)),
            (None, true) => self.next_round.push(index),
            (None, false) => self.finish(index, Ok(())),
        }
    }

    /// Whether writes to `cluster` are under way.
    pub(super) fn is_written(&self, cluster: Cluster) -> bool {
        self.busy.get(&cluster).is_some_and(|busy| busy.writes > 0)
    }
}

/// Whether a part of `request` lies in `cluster`.
fn touches(geometry: Geometry, request: &HybridRequest, cluster: Cluster) -> bool {
    let last = request.offset + u64::from(request.length.max(1)) - 1;
    (geometry.cluster_of(request.offset)..=geometry.cluster_of(last)).contains(&cluster)
}

/// Where the blocks of an access go.
struct Plan {
    fast: Blocks,
    moves: Blocks,
    /// The cluster's slot, if anything goes to the fast device.
    slot: Slot,
}

/// Neighbouring bytes of one cluster on one device.
struct Run {
    tier: Tier,
    start: u32,
    length: u32,
    within: u32,
    blocks: Blocks,
}
