//! Tables by flow number that keep little room for growing: `Vec` would keep up to as much as it holds.

use alloc::vec::Vec;

use crate::work;

/// A table grows by at least this part of itself, as a shift. Adding flows one by one copies each entry
/// 64 times at most, in memory order; large tables the allocator moves without copying.
const GROWTH_BITS: u32 = 6;

/// Makes `table` at least `length` long, filled up with `empty`.
pub(crate) fn cover<T: Clone>(table: &mut Vec<T>, length: usize, empty: T) {
    if length > table.len() {
        work::steps(length - table.len());
        reserve(table, length - table.len());
        table.resize(length, empty);
    }
}

/// Makes room for `more` entries, and some besides if it has to grow for them.
pub(crate) fn reserve<T>(table: &mut Vec<T>, more: usize) {
    if more > table.capacity() - table.len() {
        work::steps(table.len());
        table.reserve_exact(more.max((table.len() >> GROWTH_BITS) + 3));
    }
}
