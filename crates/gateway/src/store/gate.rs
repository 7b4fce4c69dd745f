//! The dispatch depth of one device of a hybrid store.
//!
//! ```text
//!  accesses, in the order of dispatch ──> waiting [ 3rd, 4th, … ] ──> inside: at most `depth`
//! ```
//! The scheduler decides which request goes next, before it is known which device that needs. A request
//! for a busy device waits here, and the engine is asked for the next one while the other device has room
//! and few enough wait ([`Gates::want_more`]). See docs/adr/0040.

use std::collections::VecDeque;

use evenkeel_tiering::Tier;

/// Who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// An access for a request.
    Piece(u32),
    /// A copy, which reads or writes.
    Copy(u32),
}

#[derive(Debug)]
struct Gate {
    depth: u32,
    inside: u32,
    waiting: VecDeque<Waiting>,
}

/// The gates of both devices.
#[derive(Debug)]
pub(super) struct Gates {
    fast: Gate,
    slow: Gate,
    /// Accesses that may wait at both gates while the engine is still asked for more.
    look_ahead: usize,
}

impl Gates {
    pub(super) fn new(fast_depth: u32, slow_depth: u32) -> Self {
        let gate = |depth| Gate { depth, inside: 0, waiting: VecDeque::with_capacity(64) };
        let look_ahead = (fast_depth + slow_depth) as usize;
        Self { fast: gate(fast_depth), slow: gate(slow_depth), look_ahead }
    }

    /// Accesses that may be at both devices.
    pub(super) const fn depth(&self) -> u32 {
        self.fast.depth + self.slow.depth
    }

    /// Whether `waiting` may go now; otherwise it will be told by [`Gates::leave`].
    pub(super) fn enter(&mut self, tier: Tier, waiting: Waiting) -> bool {
        let gate = self.gate(tier);
        let may_go = gate.inside < gate.depth;
        if may_go {
            gate.inside += 1;
        } else {
            gate.waiting.push_back(waiting);
        }
        may_go
    }

    /// One that was inside is over; who goes next.
    pub(super) fn leave(&mut self, tier: Tier) -> Option<Waiting> {
        let gate = self.gate(tier);
        let next = gate.waiting.pop_front();
        gate.inside -= u32::from(next.is_none());
        next
    }

    /// Whether the engine should dispatch more: not while both devices are busy, as whoever comes next
    /// would only lose its place to nobody, and not while too many wait for one of them.
    pub(super) fn want_more(&self) -> bool {
        let has_room = |gate: &Gate| gate.inside < gate.depth;
        (has_room(&self.fast) || has_room(&self.slow))
            && self.fast.waiting.len() + self.slow.waiting.len() < self.look_ahead
    }

    fn gate(&mut self, tier: Tier) -> &mut Gate {
        match tier {
            Tier::Fast => &mut self.fast,
            Tier::Slow => &mut self.slow,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_device_has_its_depth_and_who_waits_goes_in_order() {
        let mut gates = Gates::new(2, 1);
        assert!(gates.enter(Tier::Slow, Waiting::Piece(0)));
        assert!(!gates.enter(Tier::Slow, Waiting::Piece(1)));
        assert!(!gates.enter(Tier::Slow, Waiting::Copy(2)));
        assert!(gates.enter(Tier::Fast, Waiting::Piece(3)), "the other device is free");
        assert_eq!(gates.leave(Tier::Slow), Some(Waiting::Piece(1)));
        assert_eq!(gates.leave(Tier::Slow), Some(Waiting::Copy(2)));
        assert_eq!(gates.leave(Tier::Slow), None);
        assert!(gates.enter(Tier::Slow, Waiting::Piece(4)));
    }

    #[test]
    fn the_engine_is_asked_while_a_device_has_room_and_few_wait() {
        let mut gates = Gates::new(1, 1);
        assert!(gates.want_more());
        gates.enter(Tier::Slow, Waiting::Piece(0));
        gates.enter(Tier::Slow, Waiting::Piece(1));
        assert!(gates.want_more(), "the fast device is idle, one waits of two that may");
        gates.enter(Tier::Slow, Waiting::Piece(2));
        assert!(!gates.want_more(), "two wait");
        gates.leave(Tier::Slow);
        assert!(gates.want_more());
        gates.enter(Tier::Fast, Waiting::Piece(3));
        assert!(!gates.want_more(), "both are busy");
    }
}
