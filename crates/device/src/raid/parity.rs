//! What a write to one row of a RAID-5 array reads first, and what it writes then.
//!
//! ```text
//!  row           | u0 | u1 | u2 | P |        hull: the bytes from the first to the last one written,
//!  write           ..xx xx..                 seen within a unit; parity changes throughout it
//!
//!  whole row     all units written in full:  nothing to read
//!  read-modify   old u0, u1 where written, old P in the hull
//!  reconstruct   all that is in the hull and is not written
//! ```

use super::layout::{Extent, ParityLayout, Piece};

/// Which of the two to use where a row is not written as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParityUpdate {
    /// Whatever reads from fewer places; read-modify-write if both read from as many.
    FewestReads,
    /// The old data and the old parity.
    ReadModifyWrite,
    /// The data that stay.
    Reconstruct,
}

/// What the writes of a row wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteAfter {
    /// All reads of the row, as md and as DiskSim with `Synch writes for safety`.
    AllReads,
    /// Data: the reads of the same disk. Parity: all reads of the row. DiskSim's way otherwise.
    OwnRead,
}

/// One row of an array.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) number: u64,
    pub(super) disks: usize,
    pub(super) unit: u32,
    pub(super) layout: ParityLayout,
    pub(super) failed: Option<usize>,
}

/// The reads and the writes that follow when all of them are over.
#[derive(Debug, Default)]
pub(super) struct Update {
    pub(super) reads: Vec<Extent>,
    pub(super) writes: Vec<Extent>,
    /// The member among the writes that waits for all reads in any case.
    pub(super) parity: usize,
}

impl Row {
    /// The update for `pieces`, all of this row, in order.
    pub(super) fn update(&self, pieces: &[Piece], policy: ParityUpdate) -> Update {
        let data = self.disks - 1;
        let parity = self.layout.parity(self.number, self.disks);
        let hull = (
            pieces.iter().map(|piece| piece.from).min().unwrap_or(0),
            pieces.iter().map(|piece| piece.from + piece.length).max().unwrap_or(0),
        );
        let written = |unit: usize| {
            let piece = pieces.iter().find(|piece| self.place(piece) == unit);
            piece.map(|piece| (piece.from, piece.from + piece.length))
        };
        let mut writes: Vec<Extent> = (0..data)
            .filter_map(|unit| written(unit).map(|range| self.extent(self.disk(unit), range)))
            .collect();
        if self.failed == Some(parity) {
            return Update { reads: Vec::new(), writes, parity };
        }
        // Where the pieces leave a gap, read-modify-write need not touch the parity of the gap.
        let old_parity: Vec<Extent> =
            ranges(pieces).iter().map(|range| self.extent(parity, *range)).collect();
        let modify: Vec<Extent> = writes.iter().chain(&old_parity).copied().collect();
        let mut stays = Vec::new();
        for unit in 0..data {
            let (from, to) = written(unit).unwrap_or((hull.1, hull.1));
            for range in [(hull.0, from), (to, hull.1)] {
                if range.0 < range.1 {
                    stays.push(self.extent(self.disk(unit), range));
                }
            }
        }
        let reads = self.choose(policy, modify.clone(), stays, hull, parity);
        if reads == modify {
            writes.extend(old_parity);
        } else {
            writes.push(self.extent(parity, hull));
        }
        writes.retain(|extent| Some(extent.member) != self.failed);
        Update { reads, writes, parity }
    }

    /// Picks the reads; a failed disk may leave no choice.
    fn choose(
        &self,
        policy: ParityUpdate,
        modify: Vec<Extent>,
        stays: Vec<Extent>,
        hull: (u32, u32),
        parity: usize,
    ) -> Vec<Extent> {
        let needs = |reads: &[Extent]| reads.iter().any(|extent| Some(extent.member) == self.failed);
        match (needs(&modify), needs(&stays)) {
            (true, false) => stays,
            (false, true) => modify,
            // The failed disk is written in part: its old content comes from all the others.
            (true, true) => {
                let others = (0..self.disks).filter(|disk| Some(*disk) != self.failed && *disk != parity);
                others.chain([parity]).map(|disk| self.extent(disk, hull)).collect()
            }
            (false, false) => match policy {
                // Nothing stays: the whole row is written.
                _ if stays.is_empty() => stays,
                ParityUpdate::ReadModifyWrite => modify,
                ParityUpdate::Reconstruct => stays,
                ParityUpdate::FewestReads if stays.len() < modify.len() => stays,
                ParityUpdate::FewestReads => modify,
            },
        }
    }

    /// The number of a piece's unit within its row.
    const fn place(&self, piece: &Piece) -> usize {
        (piece.unit % (self.disks as u64 - 1)) as usize
    }

    fn disk(&self, unit: usize) -> usize {
        self.layout.data(self.number, unit, self.disks)
    }

    fn extent(&self, member: usize, (from, to): (u32, u32)) -> Extent {
        let offset = self.number * u64::from(self.unit) + u64::from(from);
        Extent { member, offset, length: to - from }
    }
}

/// What the pieces cover of their units, joined where they meet, in ascending order.
fn ranges(pieces: &[Piece]) -> Vec<(u32, u32)> {
    let mut ranges: Vec<_> = pieces.iter().map(|piece| (piece.from, piece.from + piece.length)).collect();
    ranges.sort_unstable();
    ranges.dedup_by(|next, last| {
        let meet = next.0 <= last.1;
        if meet {
            last.1 = last.1.max(next.1);
        }
        meet
    });
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Row 0 of five disks with units of 64: data on disks 0 to 3, parity on disk 4.
    fn update(pieces: &[(u64, u32, u32)], policy: ParityUpdate, failed: Option<usize>) -> (Shown, Shown) {
        let row = Row { number: 0, disks: 5, unit: 64, layout: ParityLayout::LeftSymmetric, failed };
        let pieces: Vec<_> =
            pieces.iter().map(|&(unit, from, length)| Piece { unit, from, length }).collect();
        let update = row.update(&pieces, policy);
        let shown = |extents: &[Extent]| extents.iter().map(|e| (e.member, e.offset, e.length)).collect();
        (shown(&update.reads), shown(&update.writes))
    }

    type Shown = Vec<(usize, u64, u32)>;

    #[test]
    fn a_small_write_reads_and_writes_data_and_parity() {
        let both = vec![(1, 8, 16), (4, 8, 16)];
        assert_eq!(update(&[(1, 8, 16)], ParityUpdate::FewestReads, None), (both.clone(), both));
        let others = vec![(0, 8, 16), (2, 8, 16), (3, 8, 16)];
        assert_eq!(update(&[(1, 8, 16)], ParityUpdate::Reconstruct, None).0, others);
    }

    #[test]
    fn the_whole_row_reads_nothing_and_most_of_it_reads_the_rest() {
        let all: Vec<_> = (0..4).map(|unit| (unit, 0, 64)).collect();
        for policy in [ParityUpdate::FewestReads, ParityUpdate::ReadModifyWrite, ParityUpdate::Reconstruct] {
            let (reads, writes) = update(&all, policy, None);
            assert!(reads.is_empty() && writes.len() == 5);
        }
        assert_eq!(update(&all[..3], ParityUpdate::FewestReads, None).0, [(3, 0, 64)]);
        assert_eq!(update(&all[..3], ParityUpdate::ReadModifyWrite, None).0.len(), 4);
        // Two units that are written in part: the hull is the whole unit, the gaps stay.
        let (reads, writes) = update(&[(0, 32, 32), (1, 0, 8)], ParityUpdate::Reconstruct, None);
        assert_eq!(reads, [(0, 0, 32), (1, 8, 56), (2, 0, 64), (3, 0, 64)]);
        assert_eq!(writes, [(0, 32, 32), (1, 0, 8), (4, 0, 64)]);
    }

    #[test]
    fn the_parity_of_a_gap_between_two_pieces_is_left_alone() {
        let old = vec![(0, 60, 4), (1, 0, 8), (4, 0, 8), (4, 60, 4)];
        let pieces = [(0, 60, 4), (1, 0, 8)];
        assert_eq!(update(&pieces, ParityUpdate::ReadModifyWrite, None), (old.clone(), old));
        let one = vec![(0, 4, 60), (1, 0, 8), (4, 0, 64)];
        assert_eq!(update(&[(0, 4, 60), (1, 0, 8)], ParityUpdate::ReadModifyWrite, None), (one.clone(), one));
    }

    #[test]
    fn a_failed_disk_leaves_no_choice() {
        // Parity: the data are written, that is all.
        assert_eq!(update(&[(1, 0, 64)], ParityUpdate::FewestReads, Some(4)), (vec![], vec![(1, 0, 64)]));
        // The disk that is written: its content is in the parity from now on.
        let (reads, writes) = update(&[(1, 0, 64)], ParityUpdate::ReadModifyWrite, Some(1));
        assert_eq!((reads.len(), writes), (3, vec![(4, 0, 64)]));
        // Another data disk: only the old parity knows it.
        assert_eq!(update(&[(1, 0, 64)], ParityUpdate::Reconstruct, Some(2)).0, [(1, 0, 64), (4, 0, 64)]);
        // The disk that is written, in part of the hull: everything else is read.
        let (reads, _) = update(&[(0, 32, 32), (1, 0, 8)], ParityUpdate::FewestReads, Some(0));
        assert_eq!(reads, [(1, 0, 64), (2, 0, 64), (3, 0, 64), (4, 0, 64)]);
    }
}
