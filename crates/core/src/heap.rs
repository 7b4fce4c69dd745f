//! A priority queue of flows: a tournament among them, four to a match.
//!
//! ```text
//!  winner                            w               = min of the finalists
//!  finalists                     [ a | b ]            winners of the top level, which has two matches at most
//!  levels[2]                  [ a  b  c  d ]         a slot holds the winner of the match below it
//!                               │
//!  levels[1]          [ a  b  c  d ] [ a  b  c  d ] ...
//!                       │
//!  levels[0]  [ 0  1  2  3 ] [ 4  5  6  7 ] [ 8  9 .. ]   one slot per flow, by flow number
//!
//!  slot  [ tag − base: 60 bits | sequence − first: 48 | flow: 20 ]   16 bytes, so a match is one cache
//!                                                                    line; all ones: nothing there
//! ```
//!
//! Where a flow's slot is and which matches it takes part in follow from its number. So no table says
//! where an entry is, nothing moves, and the lines of a path are fetched side by side instead of one
//! after another, which is what a heap of pointers or positions spends its time on. A new key ends its way
//! up at the first match that it neither wins nor used to win: for a key behind most others, soon.
//!
//! The winner that is taken out leaves its slot as it is, *vacant*, until the heap is asked for its smallest key
//! and that is still the winner. A client that sends its next request when it has
//! been served puts it into the vacant slot: one way up for both, instead of two.
//!
//! **Exactness.** The order is that of (tag, sequence), to the last bit. Tags have 128 bits; a slot has the
//! lower 60 of what they are above `base`. While nothing waits, base moves freely. When a tag does not
//! fit and the smallest has moved on by half the range, all slots are written anew with a base close
//! below it: an entry lives through two of these at most, so that is an amortised O(1) writes per key. If
//! keys are further apart than that, all of them move to a heap with whole keys (exact_heap.rs) until
//! it has run empty. At a nanosecond per unit the range is 36 years.
//!
//! Memory: 21 bytes for each flow number below the last [`FlowHeap::cover`]. Schedulers cover the flows that
//! can come into a heap, so that one that is never used takes none.

use alloc::vec::Vec;

use crate::exact_heap::ExactHeap;
use crate::request::FlowId;
use crate::{table, work};

/// Slots of a match, as a shift.
const ARITY_BITS: u32 = 2;
const ARITY: usize = 1 << ARITY_BITS;

/// A final between two costs a quarter of a match of four, and half of all numbers of flows can do with one.
const FINALISTS: usize = 2;

const FLOW_BITS: u32 = 20;
const SEQUENCE_BITS: u32 = 48;
const TAG_BITS: u32 = u128::BITS - SEQUENCE_BITS - FLOW_BITS;

const _: () = assert!(FlowId::MAX.0 >> FLOW_BITS == 0, "every flow number fits into a slot");

/// A slot without a flow. Above every slot with one, because tags stay below the largest that fits.
const EMPTY: u128 = u128::MAX;

/// No flow's number.
const NOBODY: u32 = u32::MAX;

/// Room below the first tag and the first sequence, for those that come later and are smaller.
const TAG_MARGIN: u128 = 1 << (TAG_BITS - 3);
const SEQUENCE_MARGIN: u64 = 1 << (SEQUENCE_BITS - 3);

/// What a heap orders by: the tag, and among equal tags the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) tag: u128,
    pub(crate) sequence: u64,
}

impl Key {
    /// `<`, without branches: the derived operator goes through a three-way comparison.
    pub(crate) fn is_before(self, other: Self) -> bool {
        (self.tag < other.tag) | ((self.tag == other.tag) & (self.sequence < other.sequence))
    }
}

/// `min`: that of the library compares three ways. Whether it becomes moves or branches is left to the compiler:
/// processors predict the branches well, and a chain of moves is longer.
#[inline(always)]
fn lesser(one: u128, other: u128) -> u128 {
    if one < other { one } else { other }
}

/// Whether nobody is in the slot. Its upper half tells: tags stay below the largest that fits.
#[inline(always)]
const fn is_empty(slot: u128) -> bool {
    (slot >> u64::BITS) as u64 == u64::MAX
}

/// Four slots on a cache line of their own, each as its lower and its upper half: so its address takes no
/// shift, and no bound is checked.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Match([u64; 2 * ARITY]);

impl Match {
    const EMPTY: Self = Self([u64::MAX; 2 * ARITY]);

    #[inline(always)]
    const fn half(slot: usize) -> usize {
        2 * (slot % ARITY)
    }

    #[inline(always)]
    fn slot(&self, slot: usize) -> u128 {
        let half = Self::half(slot);
        u128::from(self.0[half | 1]) << u64::BITS | u128::from(self.0[half])
    }

    #[inline(always)]
    fn put(&mut self, slot: usize, value: u128) {
        let half = Self::half(slot);
        self.0[half] = value as u64;
        self.0[half | 1] = (value >> u64::BITS) as u64;
    }

    fn winner(&self) -> u128 {
        lesser(lesser(self.slot(0), self.slot(1)), lesser(self.slot(2), self.slot(3)))
    }

    /// Who wins, now that `new` has been put into `slot`, the place of `flow` or of a winner that it was; `None` if
    /// that is `winner` as before. Only if the winner itself has changed are the others looked at.
    #[inline(always)]
    fn winner_after(&self, slot: usize, new: u128, flow: FlowId, winner: u128) -> Option<u128> {
        work::steps(1);
        if flow_of(winner) == flow {
            Some(lesser(new, self.least_besides(slot)))
        } else {
            (new < winner).then_some(new)
        }
    }

    /// The least of all slots but `slot`: it does not wait for what is about to be written there.
    #[inline(always)]
    fn least_besides(&self, slot: usize) -> u128 {
        lesser(lesser(self.slot(slot ^ 1), self.slot(slot ^ 2)), self.slot(slot ^ 3))
    }
}

/// What slots are relative to.
#[derive(Clone, Copy, Debug, Default)]
struct Origin {
    tag: u128,
    sequence: u64,
}

impl Origin {
    /// Close below `key`.
    fn below(key: Key) -> Self {
        Self {
            tag: key.tag.saturating_sub(TAG_MARGIN),
            sequence: key.sequence.saturating_sub(SEQUENCE_MARGIN),
        }
    }

    /// The slot of `flow` with `key`, if it fits.
    fn slot(&self, flow: FlowId, key: Key) -> Option<u128> {
        let tag = key.tag.wrapping_sub(self.tag);
        let sequence = key.sequence.wrapping_sub(self.sequence);
        let fits = (tag < (1 << TAG_BITS) - 1) & (sequence >> SEQUENCE_BITS == 0);
        fits.then(|| {
            tag << (SEQUENCE_BITS + FLOW_BITS) | u128::from(sequence) << FLOW_BITS | u128::from(flow.0)
        })
    }

    /// The largest slot with a tag of at most `tag`, which is not below the origin, that is not empty.
    fn last_slot(&self, tag: u128) -> u128 {
        let offset = (tag - self.tag).min((1 << TAG_BITS) - 2);
        offset << (SEQUENCE_BITS + FLOW_BITS) | ((1 << (SEQUENCE_BITS + FLOW_BITS)) - 1)
    }

    fn key(&self, slot: u128) -> Key {
        let sequence = (slot >> FLOW_BITS) as u64 & ((1 << SEQUENCE_BITS) - 1);
        Key { tag: self.tag + (slot >> (SEQUENCE_BITS + FLOW_BITS)), sequence: self.sequence + sequence }
    }
}

/// The queue.
#[derive(Clone, Debug)]
pub(crate) struct FlowHeap {
    winner: u128,
    finalists: [u128; FINALISTS],
    origin: Origin,
    levels: Vec<Vec<Match>>,
    covered: usize,
    /// Flow numbers that have a slot; none while `exact` holds anything.
    room: usize,
    /// A flow that is not there any more although its slot still is; `NOBODY` if there is none.
    vacant: u32,
    /// Holds everything while it holds anything.
    exact: ExactHeap,
}

impl Default for FlowHeap {
    fn default() -> Self {
        Self {
            winner: EMPTY,
            finalists: [EMPTY; FINALISTS],
            origin: Origin::default(),
            levels: Vec::new(),
            covered: 0,
            room: 0,
            vacant: NOBODY,
            exact: ExactHeap::default(),
        }
    }
}

fn flow_of(slot: u128) -> FlowId {
    FlowId(slot as u32 & FlowId::MAX.0)
}

impl FlowHeap {
    /// Makes room for the flows 0 .. `flows`, so that no later call allocates while keys fit into slots.
    pub(crate) fn cover(&mut self, flows: usize) {
        if flows > self.covered {
            self.covered = flows;
            self.grow();
            self.make_room();
        }
    }

    /// The flow with the smallest key.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<(Key, FlowId)> {
        if self.vacant == flow_of(self.winner).0 {
            self.vacate();
        }
        if is_empty(self.winner) {
            return self.exact.peek();
        }
        Some((self.origin.key(self.winner), flow_of(self.winner)))
    }

    /// Moves every flow with a tag of at most `tag` into `other`, with the key that `key_of` gives it there, and names
    /// the first one in `other` then. One that moves alone and would be first stays, and is named: who serves it
    /// at once looks for it in both.
    #[inline]
    pub(crate) fn release_up_to(
        &mut self,
        tag: u128,
        other: &mut Self,
        key_of: impl Fn(FlowId, Key) -> Key,
    ) -> Option<FlowId> {
        let best = other.peek();
        if let Some((key, flow)) = self.peek()
            && key.tag <= tag
        {
            if !self.is_alone_up_to(tag) {
                self.take_up_to(tag, |flow, key| other.set(flow, key_of(flow, key)));
                return other.peek().map(|(_, flow)| flow);
            }
            let key = key_of(flow, key);
            if best.is_none_or(|(best, _)| key.is_before(best)) {
                return Some(flow);
            }
            self.remove(flow);
            other.set(flow, key);
        }
        best.map(|(_, flow)| flow)
    }

    /// Whether nothing but what [`FlowHeap::peek`] has just named has a tag of at most `tag`. Only looks, for less than
    /// it costs to take the first one out; may deny it without need where keys are whole ones.
    fn is_alone_up_to(&self, tag: u128) -> bool {
        let mut others = EMPTY;
        let mut index = flow_of(self.winner).index();
        for level in &self.levels {
            let Some(contest) = level.get(index / ARITY) else { return false };
            work::steps(1);
            others = lesser(others, contest.least_besides(index));
            index /= ARITY;
        }
        others = lesser(others, self.finalists[(index + 1) % FINALISTS]);
        self.exact.is_empty() & (is_empty(others) | (self.origin.key(others).tag > tag))
    }

    /// Takes out every flow with a tag of at most `tag`, by number. Those that are side by side share the way up.
    fn take_up_to(&mut self, tag: u128, mut each: impl FnMut(FlowId, Key)) {
        while let Some((key, flow)) = self.exact.peek()
            && key.tag <= tag
        {
            self.exact.remove(flow);
            each(flow, key);
        }
        self.make_room();
        self.vacate();
        let (origin, winner) = (self.origin, self.winner);
        if !is_empty(winner) && origin.key(winner).tag <= tag {
            let last = origin.last_slot(tag);
            for (index, finalist) in self.finalists.iter_mut().enumerate() {
                if *finalist <= last {
                    *finalist = take(&mut self.levels, index, last, &mut |slot| {
                        each(flow_of(slot), origin.key(slot))
                    });
                }
            }
            self.winner = lesser(self.finalists[0], self.finalists[1]);
        }
    }

    /// Inserts `flow`, or gives it a new key.
    #[inline]
    pub(crate) fn set(&mut self, flow: FlowId, key: Key) {
        if is_empty(self.winner) && self.exact.is_empty() {
            self.origin = Origin::below(key);
        }
        match self.origin.slot(flow, key) {
            Some(slot) if flow.index() < self.room => {
                if self.vacant == flow.0 {
                    self.vacant = NOBODY;
                }
                self.write(flow, slot);
            }
            _ => self.set_slowly(flow, key),
        }
    }

    /// Removes `flow`; says whether it was there.
    #[inline]
    pub(crate) fn remove(&mut self, flow: FlowId) -> bool {
        if flow_of(self.winner) == flow && self.vacant == NOBODY && !is_empty(self.winner) {
            self.vacant = flow.0;
            return true;
        }
        self.remove_any(flow)
    }

    fn remove_any(&mut self, flow: FlowId) -> bool {
        if self.vacant == flow.0 {
            return false;
        }
        let leaf = self.levels.first().and_then(|leaves| leaves.get(flow.index() / ARITY));
        match leaf {
            Some(leaf) if !is_empty(leaf.slot(flow.index())) => {
                self.write(flow, EMPTY);
                true
            }
            _ if self.exact.is_empty() => false,
            _ => {
                let removed = self.exact.remove(flow);
                self.make_room();
                removed
            }
        }
    }

    /// Empties the vacant slot, if there is one.
    #[inline]
    fn vacate(&mut self) {
        if self.vacant != NOBODY {
            let flow = FlowId(core::mem::replace(&mut self.vacant, NOBODY));
            self.write(flow, EMPTY);
        }
    }

    /// Puts `new` into the slot of `flow`, and the winners into those above it.
    #[inline]
    fn write(&mut self, flow: FlowId, mut new: u128) {
        if flow_of(self.winner) == flow {
            return self.write_winner(flow, new);
        }
        let Some((leaves, levels)) = self.levels.split_first_mut() else { return };
        let mut index = flow.index();
        let Some(mut contest) = leaves.get_mut(index / ARITY) else { return };
        contest.put(index, new);
        for level in levels {
            let Some(above) = level.get_mut(index / ARITY / ARITY) else { return };
            let Some(winner) = contest.winner_after(index, new, flow, above.slot(index / ARITY)) else {
                return;
            };
            new = winner;
            index /= ARITY;
            above.put(index, new);
            contest = above;
        }
        let finalist = self.finalists[index / ARITY % FINALISTS];
        if let Some(winner) = contest.winner_after(index, new, flow, finalist) {
            self.play_final(index / ARITY, winner);
        }
    }

    /// The same for the flow that has won all its matches: each of them is decided anew.
    #[inline]
    fn write_winner(&mut self, flow: FlowId, mut new: u128) {
        let mut index = flow.index();
        for level in &mut self.levels {
            let Some(contest) = level.get_mut(index / ARITY) else { return };
            work::steps(1);
            let others = contest.least_besides(index);
            contest.put(index, new);
            new = lesser(new, others);
            index /= ARITY;
        }
        self.play_final(index, new);
    }

    /// The winner of the match `index` of the top level is `new`.
    #[inline(always)]
    fn play_final(&mut self, index: usize, new: u128) {
        self.finalists[index % FINALISTS] = new;
        self.winner = lesser(new, self.finalists[(index + 1) % FINALISTS]);
    }

    /// The rest of [`FlowHeap::set`]: tables grow, the origin moves, or the key does not fit.
    #[cold]
    fn set_slowly(&mut self, flow: FlowId, key: Key) {
        self.vacate();
        self.cover(flow.index() + 1);
        if self.exact.is_empty() {
            if is_empty(self.winner) {
                self.origin = Origin::below(key);
            }
            if self.origin.slot(flow, key).is_none() {
                self.rebase();
            }
            if let Some(slot) = self.origin.slot(flow, key) {
                return self.write(flow, slot);
            }
            let (origin, exact) = (self.origin, &mut self.exact);
            exact.cover(self.covered);
            rewrite_all(&mut self.levels, |slot| {
                exact.set(flow_of(slot), origin.key(slot));
                EMPTY
            });
            (self.finalists, self.winner) = ([EMPTY; FINALISTS], EMPTY);
        }
        self.exact.cover(self.covered);
        self.exact.set(flow, key);
        self.make_room();
    }

    fn make_room(&mut self) {
        let slots = self.levels.first().map_or(0, Vec::len) * ARITY;
        self.room = if self.exact.is_empty() { slots } else { 0 };
    }

    /// Moves the origin close below the smallest tag, or the smallest sequence, if that has moved on far
    /// enough. Every slot fits then as before: it is nearer to the new origin than to the old one.
    fn rebase(&mut self) {
        if is_empty(self.winner) {
            return;
        }
        let old = self.origin;
        let mut least = Key { tag: old.key(self.winner).tag, sequence: u64::MAX };
        rewrite_all(&mut self.levels, |slot| {
            least.sequence = least.sequence.min(old.key(slot).sequence);
            slot
        });
        let below = Origin::below(least);
        let new = Origin { tag: below.tag.max(old.tag), sequence: below.sequence.max(old.sequence) };
        let far = |moved: u128, bits: u32| moved >> (bits - 1) > 0;
        if far(new.tag - old.tag, TAG_BITS) || far((new.sequence - old.sequence).into(), SEQUENCE_BITS) {
            self.origin = new;
            let moved = |slot| new.slot(flow_of(slot), old.key(slot)).unwrap_or(slot);
            self.finalists = rewrite_all(&mut self.levels, moved);
            self.winner = lesser(self.finalists[0], self.finalists[1]);
        }
    }

    /// Takes memory for the flows that are covered.
    fn grow(&mut self) {
        let mut slots = self.covered;
        for depth in 0.. {
            let length = slots.div_ceil(ARITY);
            if depth == self.levels.len() {
                let mut first = Match::EMPTY;
                if let Some(below) = depth.checked_sub(1).and_then(|below| self.levels.get(below)) {
                    // Those that there were are among the first; the others are empty.
                    (0..ARITY).zip(below).for_each(|(slot, contest)| first.put(slot, contest.winner()));
                }
                self.levels.push(alloc::vec![first]);
            }
            let level = &mut self.levels[depth];
            table::cover(level, length, Match::EMPTY);
            slots = level.len();
            if slots <= FINALISTS {
                self.finalists = [EMPTY; FINALISTS];
                self.finalists.iter_mut().zip(level).for_each(|(slot, contest)| *slot = contest.winner());
                return;
            }
        }
    }
}

/// Changes every slot that is not empty; returns the finalists.
fn rewrite_all(levels: &mut [Vec<Match>], mut change: impl FnMut(u128) -> u128) -> [u128; FINALISTS] {
    let top = levels.last().map_or(0, Vec::len);
    let mut finalists = [EMPTY; FINALISTS];
    for (index, finalist) in finalists.iter_mut().enumerate().take(top) {
        *finalist = rewrite(levels, index, &mut change);
    }
    finalists
}

/// Changes every slot that is not empty, below and in the match `index` of the last of `levels`, and
/// returns the winner of that match. Looks at no match in which nobody takes part.
fn rewrite(levels: &mut [Vec<Match>], index: usize, change: &mut impl FnMut(u128) -> u128) -> u128 {
    let Some((level, below)) = levels.split_last_mut() else { return EMPTY };
    work::steps(1);
    for slot in 0..ARITY {
        let old = level[index].slot(slot);
        if !is_empty(old) {
            let new =
                if below.is_empty() { change(old) } else { rewrite(below, index * ARITY + slot, change) };
            level[index].put(slot, new);
        }
    }
    level[index].winner()
}

/// Empties every slot up to `last`, below and in the match `index` of the last of `levels`, hands what was in those of the
/// lowest level to `each`, and returns who wins the match now. Looks only at matches in which there is such a slot.
fn take(levels: &mut [Vec<Match>], index: usize, last: u128, each: &mut impl FnMut(u128)) -> u128 {
    let Some((level, below)) = levels.split_last_mut() else { return EMPTY };
    work::steps(1);
    for slot in 0..ARITY {
        let old = level[index].slot(slot);
        if old <= last {
            let new = if below.is_empty() {
                each(old);
                EMPTY
            } else {
                take(below, index * ARITY + slot, last, each)
            };
            level[index].put(slot, new);
        }
    }
    level[index].winner()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    type Model = BTreeMap<u32, Key>;

    fn least(model: &Model) -> Option<(Key, FlowId)> {
        model.iter().map(|(flow, key)| (*key, FlowId(*flow))).min()
    }

    /// Gives `flow` the key in both, or takes it out of both; they must agree.
    fn step(heap: &mut FlowHeap, model: &mut Model, flow: u32, key: Option<Key>) {
        match key {
            None => assert_eq!(heap.remove(FlowId(flow)), model.remove(&flow).is_some()),
            Some(key) => {
                heap.set(FlowId(flow), key);
                model.insert(flow, key);
            }
        }
        assert_eq!(heap.peek(), least(model));
    }

    proptest! {
        /// The heap agrees with an ordered map through any mixture of operations, while flows come.
        #[test]
        fn it_is_a_priority_queue(steps in prop::collection::vec((0_u32..600, 0_u8..4, 0_u128..20), 0..400)) {
            let (mut heap, mut model) = (FlowHeap::default(), Model::new());
            for (sequence, (flow, what, tag)) in steps.into_iter().enumerate() {
                let flow = flow.min(sequence as u32 * 2);
                heap.cover(flow as usize + 1);
                let key = Key { tag, sequence: sequence as u64 };
                step(&mut heap, &mut model, flow, (what > 0).then_some(key));
            }
        }

        /// So it does when it is not asked for the smallest at every step, and entries are vacant.
        #[test]
        fn it_need_not_be_asked(
            steps in prop::collection::vec((0_u32..40, 0_u8..4, 0_u128..20, 0_u32..80, any::<bool>()), 0..400),
        ) {
            let (mut heap, mut model) = (FlowHeap::default(), Model::new());
            heap.cover(40);
            for (sequence, (flow, what, tag, shift, asked)) in steps.into_iter().enumerate() {
                let first = FlowId(least(&model).map_or(flow, |(_, first)| first.0));
                // Half of the time the flow is the first one, as when it has been served.
                let flow = if what % 2 == 0 { first } else { FlowId(flow) };
                let key = Key { tag: tag << shift, sequence: sequence as u64 };
                if what < 2 {
                    prop_assert_eq!(heap.remove(flow), model.remove(&flow.0).is_some());
                    prop_assert!(!heap.remove(flow));
                } else {
                    heap.set(flow, key);
                    model.insert(flow.0, key);
                }
                if asked {
                    prop_assert_eq!(heap.peek(), least(&model));
                }
            }
            prop_assert_eq!(heap.peek(), least(&model));
        }

        /// What is due goes over to another heap with another key, all of it but one that would be first there and
        /// goes alone; the first one of both is named. With keys of any size, and entries that are vacant.
        #[test]
        fn what_is_due_goes_over(
            steps in prop::collection::vec((0_u32..40, 0_u8..5, 0_u128..64, 0_u32..122, 0_u128..64), 0..300),
        ) {
            let (mut heaps, mut models) = ([FlowHeap::default(), FlowHeap::default()], [Model::new(), Model::new()]);
            heaps.iter_mut().for_each(|heap| heap.cover(40));
            for (sequence, (flow, what, tag, shift, other_tag)) in steps.into_iter().enumerate() {
                let ([due, other], [due_model, other_model]) = (&mut heaps, &mut models);
                let key = Key { tag: tag << shift, sequence: sequence as u64 };
                let key_of = |flow: FlowId, key: Key| Key { tag: other_tag ^ u128::from(flow.0), ..key };
                match what {
                    0 | 1 if !other_model.contains_key(&flow) => step(due, due_model, flow, Some(key)),
                    2 => {
                        let (heap, model) = if sequence % 2 == 0 { (due, due_model) } else { (other, other_model) };
                        let first = least(model).map_or(flow, |(_, first)| first.0);
                        prop_assert_eq!(heap.remove(FlowId(first)), model.remove(&first).is_some());
                    }
                    3 | 4 => {
                        let moving: Vec<_> = due_model.iter().filter(|(_, due)| due.tag <= key.tag).collect();
                        let goes = moving.into_iter().map(|(flow, due)| (*flow, key_of(FlowId(*flow), *due)));
                        let mut after = other_model.clone();
                        after.extend(goes);
                        let first = least(&after).map(|(_, first)| first);
                        prop_assert_eq!(due.release_up_to(key.tag, other, key_of), first);
                        let stayed = first.filter(|first| due_model.contains_key(&first.0) && due.remove(*first));
                        if let Some(flow) = stayed {
                            other.set(flow, after[&flow.0]);
                        }
                        due_model.retain(|flow, _| !after.contains_key(flow));
                        *other_model = after;
                        prop_assert_eq!(other.peek(), least(other_model));
                        prop_assert_eq!(due.peek(), least(due_model));
                    }
                    _ => {}
                }
            }
        }

        /// So it does with keys of any size: in slots, with a base that moves, and in the exact heap.
        #[test]
        fn keys_may_be_anywhere(
            steps in prop::collection::vec((0_u32..9, 0_u8..3, 0_u128..64, 0_u32..122, 0_u64..64, 0_u32..58), 0..400),
        ) {
            let (mut heap, mut model) = (FlowHeap::default(), Model::new());
            heap.cover(9);
            for (flow, what, tag, tag_shift, sequence, sequence_shift) in steps {
                let key = Key { tag: tag << tag_shift, sequence: sequence << sequence_shift };
                let key = Key { sequence: key.sequence | u64::from(flow), ..key };
                step(&mut heap, &mut model, flow, (what > 0).then_some(key));
            }
        }

        /// Tags and sequences that move on for longer than a slot is wide stay in slots all the time.
        #[test]
        fn the_origin_follows(
            start in any::<u64>(),
            steps in prop::collection::vec((0_u32..30, 0_u128..1 << (TAG_BITS - 5), 0_u64..1 << 40), 1..300),
        ) {
            let (mut heap, mut model) = (FlowHeap::default(), Model::new());
            heap.cover(30);
            let mut key = Key { tag: u128::from(start) << 50, sequence: 0 };
            for (flow, tag, sequence) in steps {
                key = Key { tag: key.tag + tag, sequence: key.sequence + sequence + 1 };
                step(&mut heap, &mut model, flow, Some(key));
                if model.len() > 3 {
                    let (_, first) = least(&model).unwrap();
                    step(&mut heap, &mut model, first.0, None);
                }
                prop_assert!(heap.exact.is_empty());
            }
        }
    }

    #[test]
    fn one_flow_alone_may_go_anywhere() {
        let mut heap = FlowHeap::default();
        for step in 1..100 {
            let key = Key { tag: step << 100, sequence: step as u64 };
            heap.set(FlowId(0), key);
            assert_eq!(heap.peek(), Some((key, FlowId(0))));
            assert!(heap.remove(FlowId(0)));
            assert!(heap.exact.is_empty(), "nothing waits, so the base moves freely");
        }
    }

    #[test]
    fn a_flow_takes_21_bytes() {
        let mut heap = FlowHeap::default();
        assert!(!heap.remove(FlowId(7)));
        (1..=100_000).for_each(|flows| heap.cover(flows));
        let bytes: usize = heap.levels.iter().map(|level| level.capacity() * size_of::<Match>()).sum();
        assert!(bytes <= 22 * 100_000, "{bytes} bytes");
    }
}
