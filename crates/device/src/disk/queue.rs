//! The drive's queue: which of the waiting commands comes next.
//!
//! ```text
//!  FCFS                  a line
//!  SSTF, C-LOOK, SPTF    a tree ordered by place (cylinder, block, arrival):
//!                        neighbours of the heads are found in O(log n); SPTF looks outwards from there
//!                        until the seek alone takes longer than the best it has found
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use evenkeel_core::Operation;

use super::layout::Extent;
use super::mechanism::Mechanism;
use super::parameters::Policy;

/// A command that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Command {
    pub(super) token: u64,
    pub(super) operation: Operation,
    pub(super) lbn: u64,
    pub(super) sectors: u64,
}

/// When the heads can set out for a read or for a write, once the controller is through with the command;
/// nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    pub(super) read: u64,
    pub(super) write: u64,
}

/// Where a command wants the heads, and which came first there.
type Place = (u32, u64, u64);

/// Commands that wait, with the rule that chooses among them.
#[derive(Clone, Debug)]
pub(super) struct CommandQueue {
    policy: Policy,
    line: VecDeque<Command>,
    by_place: BTreeMap<Place, (Command, Extent)>,
    arrivals: u64,
    /// The place of the command that was taken last: where a sweep goes on.
    last: Place,
}

impl CommandQueue {
    pub(super) fn new(policy: Policy) -> Self {
        Self { policy, line: VecDeque::new(), by_place: BTreeMap::new(), arrivals: 0, last: (0, 0, 0) }
    }

    pub(super) fn len(&self) -> usize {
        self.line.len() + self.by_place.len()
    }

    pub(super) fn push(&mut self, command: Command, mechanism: &Mechanism) {
        if self.policy == Policy::Fcfs {
            self.line.push_back(command);
            return;
        }
        let extent = mechanism.layout.extent(command.lbn, 1);
        self.arrivals += 1;
        self.by_place.insert((extent.cylinder, command.lbn, self.arrivals), (command, extent));
    }

    /// Takes the command that the policy serves next. The heads can set out at `start`.
    pub(super) fn take(&mut self, start: Start, mechanism: &Mechanism) -> Option<Command> {
        let place = match self.policy {
            Policy::Fcfs => return self.line.pop_front(),
            Policy::Sstf => self.nearest(mechanism),
            Policy::CLook => self.next_in_sweep(),
            Policy::Sptf => self.soonest(start, mechanism),
        }?;
        self.last = place;
        self.by_place.remove(&place).map(|(command, _)| command)
    }

    /// The fewest cylinders away; of two, the one that came first.
    fn nearest(&self, mechanism: &Mechanism) -> Option<Place> {
        let here = mechanism.track.cylinder;
        let first_of = |cylinder: u32| {
            let all = self.by_place.range((cylinder, 0, 0)..=(cylinder, u64::MAX, u64::MAX));
            all.map(|(place, _)| *place).min_by_key(|place| place.2)
        };
        let inward = self.by_place.range((here, 0, 0)..).next().map(|(place, _)| place.0);
        let outward = self.by_place.range(..(here, 0, 0)).next_back().map(|(place, _)| place.0);
        let candidates = [inward, outward].into_iter().flatten().filter_map(first_of);
        candidates.min_by_key(|place| (place.0.abs_diff(here), place.2))
    }

    /// The next one inwards, or the outermost.
    fn next_in_sweep(&self) -> Option<Place> {
        let after = (Bound::Excluded(self.last), Bound::Unbounded);
        self.by_place.range(after).next().or_else(|| self.by_place.iter().next()).map(|(place, _)| *place)
    }

    /// The shortest seek and rotation together; of two, the one that came first.
    fn soonest(&self, start: Start, mechanism: &Mechanism) -> Option<Place> {
        let here = mechanism.track.cylinder;
        let mut inward = self.by_place.range((here, 0, 0)..).peekable();
        let mut outward = self.by_place.range(..(here, 0, 0)).rev().peekable();
        let earliest = start.read.min(start.write);
        let mut best: Option<(u64, u64, Place)> = None;
        loop {
            let distance = |entry: Option<&(&Place, &(Command, Extent))>| {
                entry.map_or(u32::MAX, |(place, _)| place.0.abs_diff(here))
            };
            let (near, far) = (distance(inward.peek()), distance(outward.peek()));
            let next = if near <= far { inward.next() } else { outward.next() };
            let Some((place, (command, extent))) = next else { break };
            if best.is_some_and(|(time, ..)| mechanism.arm.floor_ns(near.min(far)) > time) {
                break;
            }
            let write = command.operation == Operation::Write;
            let from = if write { start.write } else { start.read };
            let positioning = mechanism.positioning(from, extent, write);
            let time = from - earliest + positioning.seek_ns + positioning.rotation_ns;
            let candidate = (time, place.2, *place);
            if best.is_none_or(|best| candidate < best) {
                best = Some(candidate);
            }
        }
        best.map(|(_, _, place)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::layout::Layout;
    use crate::disk::parameters::tests::small;
    use crate::disk::seek::Track;
    use proptest::prelude::*;

    fn mechanism() -> Mechanism {
        let drive = small();
        Mechanism::new(&drive, Layout::new(&drive).expect("a valid layout"))
    }

    fn from_now(now: u64) -> Start {
        Start { read: now, write: now }
    }

    fn command(token: usize, lbn: u64) -> Command {
        Command { token: token as u64, operation: Operation::Read, lbn, sectors: 1 }
    }

    /// The order in which `policy` takes commands for `lbns` that have come in at once, with the heads
    /// going where it sends them.
    fn order(policy: Policy, lbns: &[u64], from: u32) -> Vec<u64> {
        let mut mechanism = mechanism();
        mechanism.track = Track { cylinder: from, head: 0 };
        let mut queue = CommandQueue::new(policy);
        queue.last = (from, 0, 0);
        lbns.iter().enumerate().for_each(|(token, lbn)| queue.push(command(token, *lbn), &mechanism));
        let (mut now, mut taken) = (0, Vec::new());
        while let Some(command) = queue.take(from_now(now), &mechanism) {
            now = mechanism.read(now, command.lbn, 1, 0, now).medium;
            taken.push(command.lbn);
        }
        taken
    }

    #[test]
    fn each_policy_has_its_order() {
        // Cylinders 1, 9, 4, 6, 4, at the heads' cylinder 5; blocks 20 to a cylinder.
        let lbns = [20, 180, 80, 120, 81];
        assert_eq!(order(Policy::Fcfs, &lbns, 5), lbns);
        assert_eq!(order(Policy::Sstf, &lbns, 5), [80, 81, 120, 180, 20]);
        assert_eq!(order(Policy::CLook, &lbns, 5), [120, 180, 20, 80, 81]);
    }

    #[test]
    fn the_shortest_positioning_may_be_the_longer_seek() {
        // From cylinder 5 at angle 0: one cylinder away takes 3 ms and just misses sector 2 until 12 ms;
        // two away take 4 ms and meet sector 5.
        assert_eq!(order(Policy::Sptf, &[6 * 20 + 2, 3 * 20 + 5], 5)[0], 3 * 20 + 5);
        assert_eq!(order(Policy::Sstf, &[6 * 20 + 2, 3 * 20 + 5], 5)[0], 6 * 20 + 2);
    }

    #[test]
    fn the_overhead_of_the_command_counts_before_the_rotation() {
        // Both are on the heads' track; with 2 ms of overhead, sector 1 has gone when they can set out.
        let mechanism = mechanism();
        let mut queue = CommandQueue::new(Policy::Sptf);
        queue.push(command(0, 1), &mechanism);
        queue.push(command(1, 4), &mechanism);
        let start = Start { read: 2_000_000, write: 0 };
        assert_eq!(queue.take(start, &mechanism).map(|taken| taken.lbn), Some(4));
    }

    /// The obvious rule: look at all that wait.
    fn naive(
        policy: Policy,
        waiting: &[(usize, u64)],
        now: u64,
        mechanism: &Mechanism,
        last: Place,
    ) -> usize {
        let extent = |lbn| mechanism.layout.extent(lbn, 1);
        let best = waiting.iter().min_by_key(|(token, lbn)| {
            let cylinder = extent(*lbn).cylinder;
            match policy {
                Policy::Fcfs => (0, 0, 0, *token),
                Policy::Sstf => (0, u64::from(cylinder.abs_diff(mechanism.track.cylinder)), 0, *token),
                Policy::CLook => {
                    let place = (cylinder, *lbn, *token as u64 + 1);
                    (u64::from(place <= last), u64::from(cylinder), *lbn, *token)
                }
                Policy::Sptf => {
                    let positioning = mechanism.positioning(now, &extent(*lbn), false);
                    (0, positioning.seek_ns + positioning.rotation_ns, 0, *token)
                }
            }
        });
        best.expect("something waits").0
    }

    proptest! {
        #[test]
        fn it_agrees_with_looking_at_all_that_wait(
            policy in prop::sample::select(vec![Policy::Fcfs, Policy::Sstf, Policy::CLook, Policy::Sptf]),
            lbns in prop::collection::vec(0_u64..200, 1..60),
            at_once in 1_usize..20,
        ) {
            let mut mechanism = mechanism();
            let mut queue = CommandQueue::new(policy);
            let (mut waiting, mut now, mut last) = (Vec::new(), 0, (0, 0, 0));
            let mut arrivals = lbns.iter().copied().enumerate();
            loop {
                while waiting.len() < at_once && let Some((token, lbn)) = arrivals.next() {
                    queue.push(command(token, lbn), &mechanism);
                    waiting.push((token, lbn));
                }
                if waiting.is_empty() {
                    break;
                }
                let expected = naive(policy, &waiting, now, &mechanism, last);
                let taken = queue.take(from_now(now), &mechanism).expect("something waits");
                prop_assert_eq!(taken.token as usize, expected);
                waiting.retain(|(token, _)| *token != expected);
                last = (mechanism.layout.cylinder(taken.lbn), taken.lbn, taken.token + 1);
                now = mechanism.read(now, taken.lbn, 1, 0, now).medium;
            }
            prop_assert_eq!(queue.len(), 0);
        }
    }
}
