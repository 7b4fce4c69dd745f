//! An indexed 4-ary min-heap over flow numbers, for keys of any spread: what heap.rs falls back to.
//!
//! ```text
//!  entries   [ key flow | key flow | key flow | ... ]   children of i: 4i+1 .. 4i+4
//!                ^                                       keys inline: a comparison follows no pointer
//!  positions [ 0 | - | 2 | 1 | ... ]  by flow number: where its entry is, so that a key can be
//!                                     changed or removed in O(log n) without a search
//! ```
//!
//! Four children to a node: half the levels of a binary heap, and one level's keys lie side by side.

use alloc::vec::Vec;

use crate::heap::Key;
use crate::request::FlowId;
use crate::work;

/// "Not in the heap", in the table of positions.
const NOWHERE: u32 = u32::MAX;

/// Children of a node.
const ARITY: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: Key,
    flow: u32,
}

/// The heap. Flow numbers must be below the number last given to [`ExactHeap::cover`].
#[derive(Clone, Debug, Default)]
pub(crate) struct ExactHeap {
    entries: Vec<Entry>,
    positions: Vec<u32>,
}

impl ExactHeap {
    /// Admits the flows 0 .. `flows`.
    pub(crate) fn cover(&mut self, flows: usize) {
        if flows > self.positions.len() {
            work::steps(flows - self.positions.len());
            self.positions.resize(flows, NOWHERE);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The flow with the smallest key.
    pub(crate) fn peek(&self) -> Option<(Key, FlowId)> {
        self.entries.first().map(|entry| (entry.key, FlowId(entry.flow)))
    }

    /// Inserts `flow`, or gives it a new key.
    pub(crate) fn set(&mut self, flow: FlowId, key: Key) {
        let entry = Entry { key, flow: flow.0 };
        let position = self.positions[flow.0 as usize];
        if position == NOWHERE {
            self.entries.push(entry);
            self.sift_up(self.entries.len() - 1, entry);
        } else if key.is_before(self.entries[position as usize].key) {
            self.sift_up(position as usize, entry);
        } else {
            self.sift_down(position as usize, entry);
        }
    }

    /// Removes `flow`; says whether it was there.
    pub(crate) fn remove(&mut self, flow: FlowId) -> bool {
        let position = self.positions.get(flow.index()).copied().unwrap_or(NOWHERE);
        if position == NOWHERE {
            return false;
        }
        self.positions[flow.0 as usize] = NOWHERE;
        if let Some(last) = self.entries.pop()
            && last.flow != flow.0
        {
            let position = position as usize;
            if position > 0 && last.key.is_before(self.entries[(position - 1) / ARITY].key) {
                self.sift_up(position, last);
            } else {
                self.sift_down(position, last);
            }
        }
        true
    }

    /// Moves the hole at `position` up to where `entry` belongs.
    fn sift_up(&mut self, mut position: usize, entry: Entry) {
        while position > 0 {
            let parent = (position - 1) / ARITY;
            if !entry.key.is_before(self.entries[parent].key) {
                break;
            }
            self.place(position, self.entries[parent]);
            position = parent;
        }
        self.place(position, entry);
    }

    /// Moves the hole at `position` down to where `entry` belongs.
    fn sift_down(&mut self, mut position: usize, entry: Entry) {
        while let Some(least) = self.least_child(position) {
            if !self.entries[least].key.is_before(entry.key) {
                break;
            }
            self.place(position, self.entries[least]);
            position = least;
        }
        self.place(position, entry);
    }

    /// The child with the smallest key. Which one it is cannot be predicted, so a full node is settled
    /// by arithmetic instead of branches.
    fn least_child(&self, parent: usize) -> Option<usize> {
        let first = parent * ARITY + 1;
        let before = |a: &Entry, b: &Entry| usize::from(a.key.is_before(b.key));
        if let Some([a, b, c, d]) = self.entries.get(first..first + ARITY) {
            let (left, right) = (before(b, a), 2 + before(d, c));
            let right_wins = before(&self.entries[first + right], &self.entries[first + left]);
            return Some(first + left + (right - left) * right_wins);
        }
        let last_node = self.entries.get(first..)?;
        let least = last_node.iter().enumerate().min_by_key(|(_, entry)| entry.key)?;
        Some(first + least.0)
    }

    fn place(&mut self, position: usize, entry: Entry) {
        work::steps(1);
        self.entries[position] = entry;
        self.positions[entry.flow as usize] = position as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// The heap agrees with an ordered map through any mixture of operations.
        #[test]
        fn it_is_a_priority_queue(steps in prop::collection::vec((0_u32..40, 0_u8..4, 0_u128..20), 0..400)) {
            let mut heap = ExactHeap::default();
            heap.cover(40);
            let mut model = BTreeMap::new();
            for (sequence, (flow, what, tag)) in steps.into_iter().enumerate() {
                if what == 0 {
                    prop_assert_eq!(heap.remove(FlowId(flow)), model.remove(&flow).is_some());
                } else {
                    let key = Key { tag, sequence: sequence as u64 };
                    heap.set(FlowId(flow), key);
                    model.insert(flow, key);
                }
                let least = model.iter().map(|(flow, key)| (*key, FlowId(*flow))).min();
                prop_assert_eq!(heap.peek(), least);
            }
        }
    }
}
