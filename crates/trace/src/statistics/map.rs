//! Where and when there were requests, on a grid that fits any trace.

use evenkeel_core::Span;

const COLUMNS: usize = 160;
const ROWS: usize = 80;

/// A grid of time and address; when the trace outgrows it, neighbours become one. All volumes lie over
/// each other.
///
/// ```text
///  address ^  . . # .        a cell: (reads, writes)
///          |  # . . #
///          +─────────> time
/// ```
#[derive(Clone, Debug)]
pub struct AddressMap {
    cells: Vec<(u32, u32)>,
    column_ns: u64,
    row_bytes: u64,
}

impl AddressMap {
    /// Cells beside each other, over time.
    pub const COLUMNS: usize = COLUMNS;
    /// Cells above each other, over addresses.
    pub const ROWS: usize = ROWS;

    pub(super) fn new() -> Self {
        Self { cells: vec![(0, 0); COLUMNS * ROWS], column_ns: 1_000, row_bytes: 4096 }
    }

    pub(super) fn add(&mut self, since: Span, offset: u64, read: bool) {
        while since.as_nanos() / self.column_ns >= COLUMNS as u64 {
            self.shrink(2, 1);
        }
        while offset / self.row_bytes >= ROWS as u64 {
            self.shrink(1, 2);
        }
        let column = (since.as_nanos() / self.column_ns) as usize;
        let cell = &mut self.cells[(offset / self.row_bytes) as usize * COLUMNS + column];
        let count = if read { &mut cell.0 } else { &mut cell.1 };
        *count = count.saturating_add(1);
    }

    /// How long a column is.
    #[must_use]
    pub fn column(&self) -> Span {
        Span::from_nanos(self.column_ns)
    }

    /// How many bytes a row covers.
    #[must_use]
    pub fn row_bytes(&self) -> u64 {
        self.row_bytes
    }

    /// Cells with requests: column, row, reads, writes.
    pub fn cells(&self) -> impl Iterator<Item = (usize, usize, u32, u32)> {
        let used = self.cells.iter().enumerate().filter(|(_, cell)| **cell != (0, 0));
        used.map(|(at, (reads, writes))| (at % COLUMNS, at / COLUMNS, *reads, *writes))
    }

    fn shrink(&mut self, by_columns: usize, by_rows: usize) {
        let old = std::mem::replace(&mut self.cells, vec![(0, 0); COLUMNS * ROWS]);
        for (at, (reads, writes)) in old.into_iter().enumerate() {
            let (column, row) = (at % COLUMNS / by_columns, at / COLUMNS / by_rows);
            let cell = &mut self.cells[row * COLUMNS + column];
            *cell = (cell.0.saturating_add(reads), cell.1.saturating_add(writes));
        }
        self.column_ns = self.column_ns.saturating_mul(by_columns as u64);
        self.row_bytes = self.row_bytes.saturating_mul(by_rows as u64);
    }
}
