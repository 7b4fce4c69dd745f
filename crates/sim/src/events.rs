//! What is to come: a binary heap of instants with ties that do not depend on history.
//!
//! ```text
//!  key   ( time | rank | index | sequence )      smallest first
//!                 0 change   position in the list of changes
//!                 1 arrival  number of the source: flows in the order of the scenario
//! ```
//!
//! **Order within one instant.** First the device's completions, in the order in which the device gives
//! them; then changes (a promise, a scheduler, a capacity), in the order in which they were given; then
//! arrivals, by the number of their source and, of one source, in the order of generation; then the
//! scheduler's own timeout; and only when nothing is left of the instant, dispatch. So a server that becomes
//! free at t chooses among all that has come by t, as the worked examples of pClock and Nested QoS have it.
//! A request that a closed loop sends at the instant of a completion counts as an arrival of that instant.
//!
//! Pushing and popping cost O(log n) and allocate only while the heap grows to its high-water mark: a
//! source has one event in it, a closed loop one per request that it may have outstanding.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use evenkeel_core::Time;

/// Something that will happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The change with this index takes effect.
    Change(u32),
    /// The source with this number sends a request.
    Arrival(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    at: Time,
    rank: u8,
    index: u32,
    sequence: u64,
}

/// All future events.
#[derive(Debug, Default)]
pub(crate) struct Events {
    heap: BinaryHeap<Reverse<Key>>,
    pushed: u64,
}

impl Events {
    pub(crate) fn push(&mut self, at: Time, event: Event) {
        let (rank, index) = match event {
            Event::Change(index) => (0, index),
            Event::Arrival(source) => (1, source),
        };
        self.heap.push(Reverse(Key { at, rank, index, sequence: self.pushed }));
        self.pushed += 1;
    }

    /// When the next one is due.
    pub(crate) fn next_time(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse(key)| key.at)
    }

    /// The next one that is due by `now`.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<Event> {
        if self.next_time()? > now {
            return None;
        }
        let Reverse(key) = self.heap.pop()?;
        Some(if key.rank == 0 { Event::Change(key.index) } else { Event::Arrival(key.index) })
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn within_an_instant_changes_go_before_arrivals_and_sources_by_number() {
        let mut events = Events::default();
        let at = Time::from_millis(5);
        for source in [3, 1, 1, 2] {
            events.push(at, Event::Arrival(source));
        }
        events.push(at, Event::Change(9));
        events.push(Time::from_millis(4), Event::Arrival(7));
        assert_eq!(events.pop_due(Time::from_millis(3)), None);
        let order: Vec<Event> = std::iter::from_fn(|| events.pop_due(at)).collect();
        let expected = [
            Event::Arrival(7),
            Event::Change(9),
            Event::Arrival(1),
            Event::Arrival(1),
            Event::Arrival(2),
            Event::Arrival(3),
        ];
        assert_eq!(order, expected);
        assert_eq!(events.len(), 0);
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_sorted_list(pushes in prop::collection::vec((0_u64..20, 0_u32..4, any::<bool>()), 0..100)) {
            let mut events = Events::default();
            let mut list = Vec::new();
            for (order, (at, index, change)) in pushes.iter().enumerate() {
                let event = if *change { Event::Change(*index) } else { Event::Arrival(*index) };
                events.push(Time::from_nanos(*at), event);
                list.push((*at, !*change, *index, order));
            }
            list.sort_unstable();
            for (at, arrival, index, _) in list {
                let expected = if arrival { Event::Arrival(index) } else { Event::Change(index) };
                prop_assert_eq!(events.next_time(), Some(Time::from_nanos(at)));
                prop_assert_eq!(events.pop_due(Time::from_nanos(at)), Some(expected));
            }
            prop_assert_eq!(events.next_time(), None);
        }
    }
}
