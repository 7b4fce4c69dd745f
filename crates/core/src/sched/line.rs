//! Which requests a store is working on that takes them one after the other: the oldest of those that it holds,
//! as many as it has disks (FAIRIO, [`super::fairio_config::Accounting::Queued`]).
//!
//! ```text
//!  first                edge                      last
//!   [ A ] <-> [ B ] <-> [ A ] <-> [ C ] <-> [ B ]        in the order of dispatch
//!     served up to the edge, here by three disks         one goes: the edge moves on to C
//!     └──────────────────┘ of one flow: a list of its own, oldest first
//! ```
//!
//! A completion says whose request is done, and not which: it is taken for the oldest of its flow. While the store
//! keeps to the order that is as good as the right one, because two requests of a flow that are both served are
//! alike. O(1) per event.

use alloc::vec::Vec;

use crate::request::FlowId;
use crate::table;

/// "No node" in a link.
const NONE: u32 = u32::MAX;

/// The requests at the store.
#[derive(Clone, Debug)]
pub(super) struct Line {
    nodes: Vec<Node>,
    free: Vec<u32>,
    first: u32,
    last: u32,
    /// The youngest that is served.
    edge: u32,
    served: u32,
    disks: u32,
    flows: Vec<Own>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    flow: FlowId,
    next: u32,
    before: u32,
    /// The next of the same flow.
    next_own: u32,
    served: bool,
}

/// What is one flow's.
#[derive(Clone, Copy, Debug)]
struct Own {
    first: u32,
    last: u32,
    served: u32,
}

impl Line {
    pub(super) fn new(disks: u32) -> Self {
        let (nodes, free, flows) = (Vec::new(), Vec::new(), Vec::new());
        Self { nodes, free, first: NONE, last: NONE, edge: NONE, served: 0, disks, flows }
    }

    /// Makes room for the flows 0 .. `flows`.
    pub(super) fn cover(&mut self, flows: usize) {
        table::cover(&mut self.flows, flows, Own { first: NONE, last: NONE, served: 0 });
    }

    /// How many requests of `flow` are served now.
    #[inline(never)]
    pub(super) fn served(&self, flow: FlowId) -> u32 {
        self.flows.get(flow.index()).map_or(0, |own| own.served)
    }

    /// Whose request is served next, once one is done.
    pub(super) fn waits_first(&self) -> Option<FlowId> {
        self.beyond_edge().map(|index| self.nodes[index as usize].flow)
    }

    /// A request of `flow`, one of those covered, has gone to the store.
    #[inline(never)]
    pub(super) fn enter(&mut self, flow: FlowId) {
        let node = Node { flow, next: NONE, before: self.last, next_own: NONE, served: false };
        let index = match self.free.pop() {
            Some(index) => {
                self.nodes[index as usize] = node;
                index
            }
            None => {
                self.nodes.push(node);
                // So that the list of unused nodes never grows on the way out.
                self.free.reserve(self.nodes.len());
                (self.nodes.len() - 1) as u32
            }
        };
        match self.nodes.get_mut(self.last as usize) {
            Some(last) => last.next = index,
            None => self.first = index,
        }
        self.last = index;
        let own = &mut self.flows[flow.index()];
        match self.nodes.get_mut(own.last as usize) {
            Some(last) => last.next_own = index,
            None => own.first = index,
        }
        own.last = index;
        self.advance_edge();
    }

    /// A request of `flow` is done.
    pub(super) fn leave(&mut self, flow: FlowId) {
        let Some(own) = self.flows.get_mut(flow.index()) else { return };
        let index = own.first;
        let Some(&Node { next, before, next_own, served, .. }) = self.nodes.get(index as usize) else {
            return;
        };
        own.first = next_own;
        if next_own == NONE {
            own.last = NONE;
        }
        match self.nodes.get_mut(before as usize) {
            Some(node) => node.next = next,
            None => self.first = next,
        }
        match self.nodes.get_mut(next as usize) {
            Some(node) => node.before = before,
            None => self.last = before,
        }
        if served {
            own.served -= 1;
            self.served -= 1;
        }
        if self.edge == index {
            self.edge = before;
        }
        self.free.push(index);
        self.advance_edge();
    }

    /// The oldest that is not served.
    fn beyond_edge(&self) -> Option<u32> {
        let index = self.nodes.get(self.edge as usize).map_or(self.first, |edge| edge.next);
        (index != NONE).then_some(index)
    }

    /// Lets as many be served as there are disks.
    fn advance_edge(&mut self) {
        if self.served < self.disks
            && let Some(index) = self.beyond_edge()
        {
            let node = &mut self.nodes[index as usize];
            node.served = true;
            self.flows[node.flow.index()].served += 1;
            self.served += 1;
            self.edge = index;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drawing_above() {
        let mut line = Line::new(3);
        line.cover(3);
        let served = |line: &Line| [0, 1, 2].map(|flow| line.served(FlowId(flow)));
        for flow in [0, 1, 0, 2, 1] {
            line.enter(FlowId(flow));
        }
        assert_eq!((served(&line), line.waits_first()), ([2, 1, 0], Some(FlowId(2))));
        line.leave(FlowId(0));
        assert_eq!((served(&line), line.waits_first()), ([1, 1, 1], Some(FlowId(1))));
        line.leave(FlowId(1));
        assert_eq!((served(&line), line.waits_first()), ([1, 1, 1], None));
        line.leave(FlowId(2));
        line.leave(FlowId(2));
        assert_eq!(served(&line), [1, 1, 0], "there was only one of it");
        line.leave(FlowId(0));
        line.leave(FlowId(1));
        line.enter(FlowId(2));
        assert_eq!((served(&line), line.waits_first()), ([0, 0, 1], None));
    }
}
