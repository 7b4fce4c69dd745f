//! Waiting requests: one slab for all of them, and first-in-first-out lists threaded through it.
//!
//! ```text
//!  nodes  [ 0: r a ─┐ | 1: free ─┐ | 2: r b ┄ | 3: r c ┄ | 4: free ┄ ]   one Vec, u32 links
//!                   └──> 3       └──> 4
//!  Fifo of flow 7: head 0, tail 3, length 2        free list: 1 -> 4
//! ```
//!
//! The slab grows to the load's high-water mark and then no operation allocates. A node is at most
//! 80 bytes (asserted below), and the slab has room for a 64th more of them; a queue is 12.

use alloc::vec::Vec;

use crate::request::{FlowId, Operation, Request, RequestId};
use crate::sched::{Arrival, Dispatch};
use crate::table;
use crate::units::{Cost, Span, Time};
use crate::work;

/// "No node" in a link.
const NONE: u32 = u32::MAX;

/// The most requests that can wait at once: links are 32 bits wide.
pub(crate) const WAITING_MAX: usize = NONE as usize;

/// A request that waits.
///
/// Field by field, and no two of them in the order in which [`Request`] and [`Arrival`] have them: a request that has
/// just been written would otherwise be copied in wider words than it was written in, and wait until all of it
/// has left the store buffer. Packed, because the tag would otherwise align it to 16 bytes and cost it 8.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
pub(crate) struct Waiting {
    /// The scheduler's tag, whatever it means to it.
    pub(crate) tag: u128,
    /// Its place in the order of all arrivals.
    pub(crate) sequence: u64,
    pub(crate) cost: Cost,
    id: RequestId,
    /// What was promised and the class, packed: see [`Waiting::new`].
    promise: u64,
    offset: u64,
    pub(crate) arrived: Time,
    length: u32,
    pub(crate) flow: FlowId,
    operation: Operation,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    waiting: Waiting,
    next: u32,
}

const _: () =
    assert!(size_of::<Node>() <= 80, "a waiting request takes at most 96 bytes, with room for growing");

/// A queue within a [`Slab`]. Every method takes the slab: they must belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fifo {
    head: u32,
    tail: u32,
    length: u32,
}

/// The nodes of all queues.
#[derive(Clone, Debug)]
pub(crate) struct Slab {
    nodes: Vec<Node>,
    free: u32,
}

/// Bits of the promised nanoseconds in the packed promise: more than a year, and δ is at most a day.
const PROMISE_BITS: u32 = 55;

/// The longest promise that is kept as it is.
const PROMISE_MAX: u64 = (1 << PROMISE_BITS) - 1;

impl Waiting {
    /// Packs promise and class into one word, a quarter of what two `Option`s take: the low bits are δ,
    /// or 0 where nothing was promised (δ is never 0); the high bits the class + 1, or 0 for none.
    ///
    /// Inlined, like all that a request passes through on its way into the slab, so that it is written to its
    /// place there and nowhere else.
    #[inline(always)]
    pub(crate) fn new(arrival: Arrival, sequence: u64, tag: u128) -> Self {
        let nanos = arrival.promise.map_or(0, Span::as_nanos).min(PROMISE_MAX);
        let class = arrival.class.map_or(0, |class| u64::from(class) + 1);
        let promise = class << PROMISE_BITS | nanos;
        let Request { id, flow, operation, offset, length, cost } = arrival.request;
        Self { tag, sequence, cost, id, promise, offset, arrived: arrival.arrived, length, flow, operation }
    }

    #[inline(always)]
    pub(crate) const fn request(&self) -> Request {
        let Self { id, flow, operation, offset, length, cost, .. } = *self;
        Request { id, flow, operation, offset, length, cost }
    }

    pub(crate) fn promise(&self) -> Option<Span> {
        let nanos = self.promise & PROMISE_MAX;
        if nanos == 0 { None } else { Some(Span::from_nanos(nanos)) }
    }

    /// δ of this request: what it was promised when it came, or else `otherwise`.
    #[inline(always)]
    pub(crate) fn latency(&self, otherwise: Span) -> Span {
        self.promise().unwrap_or(otherwise)
    }

    /// The same for a scheduler to which of several classes the innermost counts.
    #[inline(always)]
    pub(crate) fn innermost_latency(&self, otherwise: Span) -> Span {
        self.innermost_promise().unwrap_or(otherwise)
    }

    /// What it was promised when it came, unless that was by another class than the innermost.
    #[inline(always)]
    pub(crate) fn innermost_promise(&self) -> Option<Span> {
        if self.promise >> PROMISE_BITS > 1 { None } else { self.promise() }
    }

    pub(crate) fn class(&self) -> Option<u8> {
        (self.promise >> PROMISE_BITS).checked_sub(1).map(|class| class as u8)
    }

    /// Its dispatch, chosen by `finish_tag`.
    #[inline(always)]
    pub(crate) fn dispatch(&self, finish_tag: Option<Time>) -> Dispatch {
        Dispatch {
            request: self.request(),
            arrival: self.arrived,
            finish_tag,
            promise: self.promise(),
            class: self.class(),
        }
    }
}

impl Default for Slab {
    fn default() -> Self {
        Self::new()
    }
}

impl Slab {
    pub(crate) const fn new() -> Self {
        Self { nodes: Vec::new(), free: NONE }
    }

    /// Whether no further request fits.
    pub(crate) fn is_full(&self) -> bool {
        self.free == NONE && self.nodes.len() >= WAITING_MAX
    }

    #[inline(always)]
    fn insert(&mut self, waiting: Waiting) -> u32 {
        if self.free == NONE {
            self.grow();
        }
        let index = self.free;
        let node = &mut self.nodes[index as usize];
        self.free = node.next;
        *node = Node { waiting, next: NONE };
        index
    }

    /// Makes one free node.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        table::reserve(&mut self.nodes, 1);
        self.free = self.nodes.len() as u32;
        self.nodes.push(Node::VACANT);
    }
}

impl Node {
    const VACANT: Self = Self {
        waiting: Waiting {
            tag: 0,
            sequence: 0,
            cost: Cost::ZERO,
            id: RequestId(0),
            promise: 0,
            offset: 0,
            arrived: Time::ZERO,
            length: 0,
            flow: FlowId(0),
            operation: Operation::Read,
        },
        next: NONE,
    };
}

impl Fifo {
    pub(crate) const EMPTY: Self = Self { head: NONE, tail: NONE, length: 0 };

    pub(crate) const fn len(&self) -> usize {
        self.length as usize
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Appends; the slab must not be full.
    #[inline(always)]
    pub(crate) fn push(&mut self, slab: &mut Slab, waiting: Waiting) {
        work::steps(1);
        let index = slab.insert(waiting);
        if self.tail == NONE {
            self.head = index;
        } else {
            slab.nodes[self.tail as usize].next = index;
        }
        self.tail = index;
        self.length += 1;
    }

    /// Takes the oldest.
    #[inline(always)]
    pub(crate) fn pop(&mut self, slab: &mut Slab) -> Option<Waiting> {
        let index = self.head;
        let node = slab.nodes.get_mut(index as usize)?;
        self.head = node.next;
        if self.head == NONE {
            self.tail = NONE;
        }
        self.length -= 1;
        node.next = slab.free;
        slab.free = index;
        Some(node.waiting)
    }

    /// The oldest.
    pub(crate) fn front<'slab>(&self, slab: &'slab Slab) -> Option<&'slab Waiting> {
        slab.nodes.get(self.head as usize).map(|node| &node.waiting)
    }

    /// The youngest.
    pub(crate) fn back<'slab>(&self, slab: &'slab Slab) -> Option<&'slab Waiting> {
        slab.nodes.get(self.tail as usize).map(|node| &node.waiting)
    }

    /// Calls `visit` on each, oldest first.
    pub(crate) fn for_each_mut(&self, slab: &mut Slab, mut visit: impl FnMut(&mut Waiting)) {
        let mut index = self.head;
        while let Some(node) = slab.nodes.get_mut(index as usize) {
            work::steps(1);
            visit(&mut node.waiting);
            index = node.next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn waiting(id: u64) -> Waiting {
        let request = Request {
            id: RequestId(id),
            flow: FlowId(0),
            operation: Operation::Read,
            offset: 0,
            length: 0,
            cost: Cost::ONE,
        };
        Waiting::new(Arrival::new(Time::ZERO, request), id, 0)
    }

    proptest! {
        /// Queues that share a slab agree with queues of their own, and freed nodes are used again.
        #[test]
        fn queues_share_a_slab(steps in prop::collection::vec((0_usize..5, any::<bool>()), 0..500)) {
            let mut slab = Slab::new();
            let mut queues = [Fifo::EMPTY; 5];
            let mut model = [const { VecDeque::new() }; 5];
            let mut most = 0;
            for (id, (which, push)) in steps.into_iter().enumerate() {
                let id = id as u64;
                if push {
                    queues[which].push(&mut slab, waiting(id));
                    model[which].push_back(id);
                } else {
                    let taken = queues[which].pop(&mut slab).map(|w| w.request().id.0);
                    prop_assert_eq!(taken, model[which].pop_front());
                }
                most = most.max(model.iter().map(VecDeque::len).sum::<usize>());
                prop_assert_eq!(queues[which].len(), model[which].len());
                prop_assert_eq!(queues[which].front(&slab).map(|w| w.sequence), model[which].front().copied());
                prop_assert_eq!(queues[which].back(&slab).map(|w| w.sequence), model[which].back().copied());
            }
            prop_assert_eq!(slab.nodes.len(), most);
        }
    }
}
