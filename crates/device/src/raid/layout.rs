//! Where the bytes of an array are.
//!
//! ```text
//!  RAID-5, four disks, left-symmetric          left-asymmetric        right-symmetric
//!   row 0    0   1   2   P                      0   1   2   P          P   0   1   2
//!   row 1    4   5   P   3                      3   4   P   5          5   P   3   4
//!   row 2    8   P   6   7                      6   P   7   8          7   8   P   6
//!   row 3    P   9  10  11                      P   9  10  11          9  10  11   P
//! ```
//!
//! Left-symmetric is md's default and DiskSim's parity rotation type 1: each row's data begin behind
//! its parity, so that consecutive units are on consecutive disks throughout.

/// How parity moves from row to row, and where the data of a row begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParityLayout {
    /// Parity moves from the last disk to the first; data begin behind it.
    LeftSymmetric,
    /// Parity moves from the last disk to the first; data begin at the first disk.
    LeftAsymmetric,
    /// Parity moves from the first disk to the last; data begin behind it.
    RightSymmetric,
    /// Parity moves from the first disk to the last; data begin at the first disk.
    RightAsymmetric,
}

impl ParityLayout {
    /// The disk of the parity of `row`, among `disks`.
    #[must_use]
    pub fn parity(self, row: u64, disks: usize) -> usize {
        let turn = (row % disks as u64) as usize;
        match self {
            Self::LeftSymmetric | Self::LeftAsymmetric => disks - 1 - turn,
            Self::RightSymmetric | Self::RightAsymmetric => turn,
        }
    }

    /// The disk of data unit number `unit` (from 0) of `row`.
    #[must_use]
    pub fn data(self, row: u64, unit: usize, disks: usize) -> usize {
        let parity = self.parity(row, disks);
        match self {
            Self::LeftSymmetric | Self::RightSymmetric => (parity + 1 + unit) % disks,
            Self::LeftAsymmetric | Self::RightAsymmetric => unit + usize::from(unit >= parity),
        }
    }
}

/// A range of bytes on one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) member: usize,
    pub(super) offset: u64,
    pub(super) length: u32,
}

/// Appends a range; one that continues a range of the same member extends it.
pub(super) fn append(extents: &mut Vec<Extent>, next: Extent) {
    let last = extents.iter_mut().rev().find(|extent| extent.member == next.member);
    match last {
        Some(last) if last.offset + u64::from(last.length) == next.offset => last.length += next.length,
        _ => extents.push(next),
    }
}

/// One piece of an access that lies within one stripe unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Number of the unit, over the whole array.
    pub(super) unit: u64,
    /// First byte within the unit.
    pub(super) from: u32,
    pub(super) length: u32,
}

/// `start..end` cut at the borders of units of `unit` bytes.
pub(super) fn pieces(start: u64, end: u64, unit: u32) -> impl Iterator<Item = Piece> {
    let mut at = start;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let from = (at % u64::from(unit)) as u32;
        let length = u64::from(unit - from).min(end - at) as u32;
        let piece = Piece { unit: at / u64::from(unit), from, length };
        at += u64::from(length);
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drawing_above() {
        let rows = |layout: ParityLayout| -> Vec<Vec<String>> {
            (0..4_u64)
                .map(|row| {
                    let mut disks = vec![String::new(); 4];
                    disks[layout.parity(row, 4)] = "P".into();
                    for unit in 0..3 {
                        disks[layout.data(row, unit, 4)] = (row * 3 + unit as u64).to_string();
                    }
                    disks
                })
                .collect()
        };
        let shown = |layout| rows(layout).iter().map(|row| row.join(" ")).collect::<Vec<_>>();
        assert_eq!(shown(ParityLayout::LeftSymmetric), ["0 1 2 P", "4 5 P 3", "8 P 6 7", "P 9 10 11"]);
        assert_eq!(shown(ParityLayout::LeftAsymmetric), ["0 1 2 P", "3 4 P 5", "6 P 7 8", "P 9 10 11"]);
        assert_eq!(shown(ParityLayout::RightSymmetric), ["P 0 1 2", "5 P 3 4", "7 8 P 6", "9 10 11 P"]);
        assert_eq!(shown(ParityLayout::RightAsymmetric), ["P 0 1 2", "3 P 4 5", "6 7 P 8", "9 10 11 P"]);
    }

    #[test]
    fn pieces_end_at_units() {
        let cut: Vec<_> =
            pieces(1_000, 3_000, 1_024).map(|piece| (piece.unit, piece.from, piece.length)).collect();
        assert_eq!(cut, [(0, 1_000, 24), (1, 0, 1_024), (2, 0, 952)]);
        assert_eq!(pieces(5, 5, 1_024).count(), 0);
    }
}
