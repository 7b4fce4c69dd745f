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

use super::layout::Extent;
use super::mechanism::Mechanism;
use super::parameters::Policy;

/// A command that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Command {
    pub(super) token: u64,
    pub(super) write: bool,
    pub(super) lbn: u64,
    pub(super) sectors: u64,
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

    /// Takes the command that the policy serves next at `now`.
    pub(super) fn take(&mut self, now: u64, mechanism: &Mechanism) -> Option<Command> {
        let place = match self.policy {
            Policy::Fcfs => return self.line.pop_front(),
            Policy::Sstf => self.nearest(mechanism),
            Policy::CLook => self.next_in_sweep(),
            Policy::Sptf => self.soonest(now, mechanism),
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
    fn soonest(&self, now: u64, mechanism: &Mechanism) -> Option<Place> {
        let here = mechanism.track.cylinder;
        let mut inward = self.by_place.range((here, 0, 0)..).peekable();
        let mut outward = self.by_place.range(..(here, 0, 0)).rev().peekable();
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
            let positioning = mechanism.positioning(now, extent, command.write);
            let candidate = (positioning.seek_ns + positioning.rotation_ns, place.2, *place);
            if best.is_none_or(|best| candidate < best) {
                best = Some(candidate);
            }
        }
        best.map(|(_, _, place)| place)
    }
}
