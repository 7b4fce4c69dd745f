//! FAIRIO's window of observation: what each active class was charged, and what there was to share.
//!
//! ```text
//!              seat  0   1   2   ...            one column: cycles that add up to a full one
//!  column 0       [  c   c   c   ...  ]         charges in ns of disk time, side by side
//!  column 1       [  c   c   c   ...  ]  <──    current: the next one is the oldest, and what is in it leaves
//!   ...                                         the window when this one is full
//!  column r−1     [  c   c   c   ...  ]
//!  offered by column: cycle length × disks
//! ```
//!
//! A charge takes 5 bytes, which hold 18 minutes of disk time. The bits beyond are in a table of their own. It is there
//! if a full cycle offers so much, or as soon as a charge needs it because cycles are much longer than they should be.
//!
//! The number of seats is that of the last [`History::clear`]: until the next one there is nothing to record of a set that
//! has changed. What a column holds from before is never looked at, so clearing costs nothing for each seat.

use alloc::vec::Vec;

use super::fairio_config::FairioConfig;
use crate::table;

/// Bits of a charge in a cell.
const CELL_BITS: u32 = 40;

/// The lower bits of a charge: 32, and 8 above them.
#[derive(Clone, Copy, Debug)]
#[repr(Rust, packed)]
struct Cell(u32, u8);

const _: () = assert!(size_of::<Cell>() == 5);

/// Charges by column and seat.
#[derive(Clone, Debug)]
pub(super) struct History {
    cycle: u64,
    disks: u64,
    cells: Vec<Cell>,
    /// The other bits of each charge, or nothing as long as they are all 0.
    high: Vec<u32>,
    /// Whether charges with such bits are to be expected.
    is_high: bool,
    seats: usize,
    offered: Vec<u64>,
    offered_sum: u128,
    column: usize,
    /// Length of the current column.
    elapsed: u64,
    /// Columns that something has been written to, with the current one.
    written: usize,
    /// Full columns, at most all.
    filled: usize,
}

/// What is done to the cells of the current column at the end of a cycle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Whether the column is full now.
    pub(super) full: bool,
    /// Index of the first seat's cell.
    first: usize,
    /// Whether the charge is added to what is there, and whether what is there leaves the window.
    adds: bool,
    forgets: bool,
}

impl History {
    pub(super) fn new(config: &FairioConfig) -> Self {
        Self {
            cycle: config.cycle.as_nanos(),
            disks: config.disks.into(),
            cells: Vec::new(),
            high: Vec::new(),
            is_high: config.service() >> CELL_BITS > 0,
            seats: 0,
            offered: alloc::vec![0; config.window_cycles as usize],
            offered_sum: 0,
            column: 0,
            elapsed: 0,
            written: 0,
            filled: 0,
        }
    }

    /// Service_window: what the cycles of the window offered.
    pub(super) const fn offered(&self) -> u128 {
        self.offered_sum
    }

    /// Whether the window has ever been full: until then it is a hypothetical one.
    pub(super) const fn is_whole(&self) -> bool {
        self.filled == self.offered.len()
    }

    /// Makes room for so many seats.
    pub(super) fn seat(&mut self, seats: usize) {
        let cells = seats * self.offered.len();
        table::cover(&mut self.cells, cells, Cell(0, 0));
        if self.is_high {
            table::cover(&mut self.high, cells, 0);
        }
    }

    /// Forgets everything; `seats` are taken.
    pub(super) fn clear(&mut self, seats: usize) {
        self.seats = seats;
        self.offered.fill(0);
        self.offered_sum = 0;
        (self.column, self.elapsed, self.written, self.filled) = (0, 0, 0, 0);
    }

    /// A cycle of length `elapsed` has ended. If the column is full it goes into the next one, and what was there
    /// leaves the window.
    pub(super) fn advance(&mut self, elapsed: u64) -> Entry {
        let columns = self.offered.len();
        let (mut adds, mut forgets) = (self.written > 0, false);
        if self.elapsed >= self.cycle {
            self.column = (self.column + 1) % columns;
            self.elapsed = 0;
            self.offered_sum -= u128::from(core::mem::take(&mut self.offered[self.column]));
            (adds, forgets) = (false, self.written == columns);
        }
        if !adds {
            self.written = (self.written + 1).min(columns);
        }
        self.elapsed = self.elapsed.saturating_add(elapsed);
        let offered = &mut self.offered[self.column];
        let more = elapsed.saturating_mul(self.disks).min(u64::MAX - *offered);
        *offered += more;
        self.offered_sum += u128::from(more);
        let full = self.elapsed >= self.cycle;
        if full {
            self.filled = (self.filled + 1).min(columns);
        }
        Entry { full, first: self.column * self.seats, adds, forgets }
    }

    /// Records a charge in the current column. `window` is the sum of the seat's charges and becomes the new one; says
    /// how much of the charge there was room for below 2⁶⁴.
    #[inline(always)]
    pub(super) fn charge(&mut self, entry: Entry, seat: usize, charge: u64, window: &mut u64) -> u64 {
        let cell = entry.first + seat;
        let there = self.read(cell);
        let kept = if entry.adds { there } else { 0 };
        *window -= if entry.forgets { there } else { 0 };
        let charge = charge.min(u64::MAX - *window);
        *window += charge;
        self.write(cell, kept + charge);
        charge
    }

    /// Takes back part of a charge.
    pub(super) fn forgive(&mut self, entry: Entry, seat: usize, part: u64, window: &mut u64) {
        let cell = entry.first + seat;
        *window -= part;
        self.write(cell, self.read(cell) - part);
    }

    #[inline(always)]
    fn read(&self, cell: usize) -> u64 {
        let Cell(low, above) = self.cells[cell];
        let charge = u64::from(low) | u64::from(above) << u32::BITS;
        if self.is_high { charge | u64::from(self.high[cell]) << CELL_BITS } else { charge }
    }

    #[inline(always)]
    fn write(&mut self, cell: usize, charge: u64) {
        self.cells[cell] = Cell(charge as u32, (charge >> u32::BITS) as u8);
        if self.is_high || charge >> CELL_BITS > 0 {
            self.write_high(cell, (charge >> CELL_BITS) as u32);
        }
    }

    fn write_high(&mut self, cell: usize, bits: u32) {
        if !self.is_high {
            self.is_high = true;
            table::cover(&mut self.high, self.cells.len(), 0);
        }
        self.high[cell] = bits;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Span;
    use proptest::prelude::*;

    const SEATS: usize = 3;

    /// The length of a cycle and the charges of the seats; or the set changes, to so many seats.
    #[derive(Clone, Debug)]
    enum Step {
        Cycle(u64, [u64; SEATS]),
        Clear(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let charge = || (any::<u64>(), 2_u32..63).prop_map(|(charge, shift)| charge >> shift);
        let cycle = (300_u64..1_500, [charge(), charge(), charge()]);
        prop_oneof![
            30 => cycle.prop_map(|(elapsed, charges)| Step::Cycle(elapsed, charges)),
            1 => (1..=SEATS).prop_map(Step::Clear),
        ]
    }

    proptest! {
        /// The window is the sum of the last r columns, whatever the size of the charges.
        #[test]
        fn it_sums_what_plain_columns_sum(
            columns in 1_usize..5, steps in prop::collection::vec(step(), 0..80), forgiven in 0_u64..5,
        ) {
            let cycle = Span::from_micros(1);
            let config = FairioConfig { window_cycles: columns as u32, ..FairioConfig::new(cycle, 2) };
            let mut history = History::new(&config);
            let mut model: Vec<(u64, [u128; SEATS])> = Vec::new();
            let (mut seats, mut windows) = (1, [0_u64; SEATS]);
            history.seat(seats);
            history.clear(seats);
            for step in steps {
                match step {
                    Step::Clear(taken) => {
                        (seats, windows) = (taken, [0; SEATS]);
                        history.seat(seats);
                        history.clear(seats);
                        model.clear();
                    }
                    Step::Cycle(elapsed, charges) => {
                        if model.last().is_none_or(|column| column.0 >= cycle.as_nanos()) {
                            model.push((0, [0; SEATS]));
                        }
                        let last = model.len() - 1;
                        model[last].0 += elapsed;
                        let entry = history.advance(elapsed);
                        prop_assert_eq!(entry.full, model[last].0 >= cycle.as_nanos());
                        for seat in 0..seats {
                            let window = &mut windows[seat];
                            let charged = history.charge(entry, seat, charges[seat], window);
                            let part = forgiven.min(charged);
                            history.forgive(entry, seat, part, window);
                            model[last].1[seat] += u128::from(charged - part);
                        }
                        let window = &model[model.len().saturating_sub(columns)..];
                        for (seat, kept) in windows.iter().enumerate().take(seats) {
                            let sum = window.iter().map(|column| column.1[seat]).sum::<u128>();
                            prop_assert_eq!(u128::from(*kept), sum);
                        }
                        let offered = window.iter().map(|column| 2 * u128::from(column.0)).sum::<u128>();
                        prop_assert_eq!(history.offered(), offered);
                        let full = model.iter().filter(|column| column.0 >= cycle.as_nanos()).count();
                        prop_assert_eq!(history.is_whole(), full >= columns);
                    }
                }
            }
        }
    }

    #[test]
    fn long_charges_take_room_when_there_is_one() {
        let mut history = History::new(&FairioConfig::new(Span::from_millis(1), 1));
        history.seat(10);
        history.clear(10);
        let entry = history.advance(1);
        for (bits, high) in [(31, 0), (32, 0), (39, 0), (40, 200), (63, 200)] {
            let mut window = 0;
            assert_eq!(history.charge(entry, bits % 10, 1 << bits, &mut window), 1 << bits);
            assert_eq!(history.high.len(), high, "2^{bits} ns");
        }
        history.seat(11);
        assert_eq!((history.cells.len(), history.high.len()), (220, 220));
        let mut window = u64::MAX - 5;
        assert_eq!(history.charge(entry, 5, 9, &mut window), 5, "a window stays below 2^64");
        for (millis, high) in [(1_000_000, 0), (1_200_000, 20)] {
            let mut history = History::new(&FairioConfig::new(Span::from_millis(millis), 1));
            history.seat(1);
            assert_eq!(history.high.len(), high, "cycles of {millis} ms");
        }
    }
}
