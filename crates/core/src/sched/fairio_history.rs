//! FAIRIO's window of observation: what each active class was charged, and what there was to share.
//!
//! ```text
//!            column 0   1   2  ...  r−1        one column: cycles that add up to a full one
//!  seat 0  [   c      c   c   ...   c  ]       charges in ns of disk time
//!  seat 1  [   c      c   c   ...   c  ]
//!  offered [   s      s   s   ...   s  ]       cycle length × disks
//!                     ^ current: the next one is the oldest, and is cleared when this one is full
//! ```

use alloc::vec::Vec;

use super::fairio_config::FairioConfig;
use crate::{table, work};

/// Charges by seat and column.
#[derive(Clone, Debug)]
pub(crate) struct History {
    cycle: u64,
    disks: u64,
    charges: Vec<u64>,
    offered: Vec<u64>,
    offered_sum: u128,
    column: usize,
    /// Length of the current column.
    elapsed: u64,
    /// Full columns, at most all.
    filled: usize,
}

impl History {
    pub(crate) fn new(config: &FairioConfig) -> Self {
        Self {
            cycle: config.cycle.as_nanos(),
            disks: config.disks.into(),
            charges: Vec::new(),
            offered: alloc::vec![0; config.window_cycles as usize],
            offered_sum: 0,
            column: 0,
            elapsed: 0,
            filled: 0,
        }
    }

    /// Service_window: what the cycles of the window offered.
    pub(crate) const fn offered(&self) -> u128 {
        self.offered_sum
    }

    /// Whether the window has ever been full: until then it is a hypothetical one.
    pub(crate) const fn is_whole(&self) -> bool {
        self.filled == self.offered.len()
    }

    /// Makes room for so many seats.
    pub(crate) fn seat(&mut self, seats: usize) {
        let cells = seats * self.offered.len();
        table::cover(&mut self.charges, cells, 0);
    }

    /// Forgets everything; `seats` are taken.
    pub(crate) fn clear(&mut self, seats: usize) {
        work::steps(seats);
        self.charges[..seats * self.offered.len()].fill(0);
        self.offered.fill(0);
        (self.offered_sum, self.column, self.elapsed, self.filled) = (0, 0, 0, 0);
    }

    /// A cycle of length `elapsed` has ended. If the column is full it goes into the next one; what was
    /// there leaves the window, and `forget` hears it for each seat. Says whether the column of this
    /// cycle is full now.
    pub(crate) fn advance(&mut self, elapsed: u64, seats: usize, mut forget: impl FnMut(usize, u64)) -> bool {
        if self.elapsed >= self.cycle {
            self.column = (self.column + 1) % self.offered.len();
            self.elapsed = 0;
            self.offered_sum -= u128::from(core::mem::take(&mut self.offered[self.column]));
            work::steps(seats);
            for seat in 0..seats {
                let cell = seat * self.offered.len() + self.column;
                forget(seat, core::mem::take(&mut self.charges[cell]));
            }
        }
        self.elapsed = self.elapsed.saturating_add(elapsed);
        let offered = &mut self.offered[self.column];
        let more = elapsed.saturating_mul(self.disks).min(u64::MAX - *offered);
        *offered += more;
        self.offered_sum += u128::from(more);
        let full = self.elapsed >= self.cycle;
        if full {
            self.filled = (self.filled + 1).min(self.offered.len());
        }
        full
    }

    /// Adds a charge to the current column; says how much of it there was room for.
    pub(crate) fn add(&mut self, seat: usize, charge: u64) -> u64 {
        let cell = &mut self.charges[seat * self.offered.len() + self.column];
        let charge = charge.min(u64::MAX - *cell);
        *cell += charge;
        charge
    }
}
