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
    pub(super) fn served(&self, flow: FlowId) -> u32 {
        self.flows.get(flow.index()).map_or(0, |own| own.served)
    }

    /// A request of `flow`, one of those covered, has gone to the store. Says of which flow one is served now that was
    /// not before.
    #[inline(never)]
    pub(super) fn enter(&mut self, flow: FlowId) -> Option<FlowId> {
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
        self.advance_edge()
    }

    /// A request of `flow` is done. Says whether it was served, and of which flow another one is now.
    pub(super) fn leave(&mut self, flow: FlowId) -> (bool, Option<FlowId>) {
        let Some(own) = self.flows.get_mut(flow.index()) else { return (false, None) };
        let index = own.first;
        let Some(&Node { next, before, next_own, served, .. }) = self.nodes.get(index as usize) else {
            return (false, None);
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
        (served, self.advance_edge())
    }

    /// The oldest that is not served.
    fn beyond_edge(&self) -> Option<u32> {
        let index = self.nodes.get(self.edge as usize).map_or(self.first, |edge| edge.next);
        (index != NONE).then_some(index)
    }

    /// Lets as many be served as there are disks.
    fn advance_edge(&mut self) -> Option<FlowId> {
        if self.served >= self.disks {
            return None;
        }
        let index = self.beyond_edge()?;
        let node = &mut self.nodes[index as usize];
        node.served = true;
        self.flows[node.flow.index()].served += 1;
        self.served += 1;
        self.edge = index;
        Some(node.flow)
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
        let entered = [0, 1, 0, 2, 1].map(|flow| line.enter(FlowId(flow)));
        assert_eq!(entered, [Some(FlowId(0)), Some(FlowId(1)), Some(FlowId(0)), None, None]);
        assert_eq!(served(&line), [2, 1, 0]);
        assert_eq!(line.leave(FlowId(0)), (true, Some(FlowId(2))));
        assert_eq!(served(&line), [1, 1, 1]);
        assert_eq!(line.leave(FlowId(1)), (true, Some(FlowId(1))));
        assert_eq!(served(&line), [1, 1, 1]);
        assert_eq!(line.leave(FlowId(2)), (true, None));
        assert_eq!(line.leave(FlowId(2)), (false, None), "there was only one of it");
        assert_eq!(served(&line), [1, 1, 0]);
        line.leave(FlowId(0));
        line.leave(FlowId(1));
        assert_eq!(line.enter(FlowId(2)), Some(FlowId(2)));
        assert_eq!(served(&line), [0, 0, 1]);
    }
}
