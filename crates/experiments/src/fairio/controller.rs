//! The RAID controller of FAIRIO's evaluation (section III-B): a queue without end, first come, first served, in front of
//! disks that take so many commands each.
//!
//! ```text
//!  driver ──> queue, FCFS ──> RAID-0 ──> disk: up to 16 commands, shortest seek first
//!                  └ the head waits until all its disks have room, and all behind it wait with it
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use evenkeel_core::{FlowId, Time};
use evenkeel_device::{Device, Finished, Io};

/// Disk time of the classes, in s.
pub(super) type DiskTime = Arc<Mutex<[f64; 4]>>;

/// The controller; it also adds up the disk time of each class.
pub(super) struct Controller {
    inner: Box<dyn Device + Send>,
    stripe_unit: u64,
    room: u32,
    /// Commands at each disk.
    commands: Vec<u32>,
    waiting: VecDeque<(FlowId, Io)>,
    working: BTreeMap<u64, (FlowId, Io)>,
    meter: Option<(Time, DiskTime)>,
}

impl Controller {
    /// In front of `inner`, RAID-0 on `disks` disks that take `room` commands each.
    pub(super) fn new(inner: Box<dyn Device + Send>, disks: u32, stripe_unit: u32, room: u32) -> Self {
        Self {
            inner,
            stripe_unit: u64::from(stripe_unit),
            room,
            commands: vec![0; disks as usize],
            waiting: VecDeque::new(),
            working: BTreeMap::new(),
            meter: None,
        }
    }

    /// Adds the disk time of what is over from `begin` on to `busy`.
    pub(super) fn metered(self, begin: Time, busy: DiskTime) -> Self {
        Self { meter: Some((begin, busy)), ..self }
    }

    /// The disks that an access has a command for: units that follow each other on a disk are one.
    fn disks(&self, io: &Io) -> impl Iterator<Item = usize> + use<> {
        let disks = self.commands.len() as u64;
        let first = io.offset / self.stripe_unit;
        let last = (io.offset + u64::from(io.length.max(1)) - 1) / self.stripe_unit;
        (first..=last).take(disks as usize).map(move |unit| (unit % disks) as usize)
    }

    fn pass_on(&mut self, now: Time) {
        while let Some((flow, io)) = self.waiting.front().copied() {
            if self.disks(&io).any(|disk| self.commands[disk] >= self.room) {
                return;
            }
            self.waiting.pop_front();
            self.disks(&io).for_each(|disk| self.commands[disk] += 1);
            self.working.insert(io.token, (flow, io));
            self.inner.submit_for(now, flow, io);
        }
    }
}

impl Device for Controller {
    fn submit(&mut self, now: Time, io: Io) {
        self.submit_for(now, FlowId(0), io);
    }

    fn submit_for(&mut self, now: Time, flow: FlowId, io: Io) {
        self.waiting.push_back((flow, io));
        self.pass_on(now);
    }

    fn next_event(&self) -> Option<Time> {
        self.inner.next_event()
    }

    fn poll_completion(&mut self, now: Time) -> Option<Finished> {
        let finished = self.inner.poll_completion(now)?;
        let (flow, io) = self.working.remove(&finished.token)?;
        self.disks(&io).for_each(|disk| self.commands[disk] -= 1);
        self.pass_on(finished.at);
        if let Some((begin, busy)) = &self.meter
            && finished.at >= *begin
            && let Ok(mut busy) = busy.lock()
            && let Some(busy) = busy.get_mut(flow.0 as usize)
        {
            *busy += finished.busy.as_secs_f64();
        }
        Some(finished)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use evenkeel_core::{Operation, Rate};
    use evenkeel_device::ConstantRate;

    use super::*;

    /// One command per disk; the array answers in the order of submission.
    #[test]
    fn the_head_waits_for_all_its_disks_and_the_rest_for_the_head() {
        let inner = Box::new(ConstantRate::new(Rate::per_second(1_000), NonZeroU32::new(8).unwrap()));
        let mut controller = Controller::new(inner, 8, 8 << 10, 1);
        let io = |token, unit: u64, length| Io {
            token,
            operation: Operation::Read,
            offset: unit * (8 << 10),
            length,
        };
        controller.submit(Time::ZERO, io(1, 0, 4096));
        controller.submit(Time::ZERO, io(2, 0, 64 << 10));
        controller.submit(Time::ZERO, io(3, 5, 4096));
        assert_eq!(controller.working.keys().copied().collect::<Vec<_>>(), [1], "2 needs the disk of 1");
        let mut order = Vec::new();
        while let Some(at) = controller.next_event() {
            while let Some(finished) = controller.poll_completion(at) {
                order.push(finished.token);
            }
        }
        assert_eq!(order, [1, 2, 3]);
        assert!(controller.commands.iter().all(|count| *count == 0));
    }

    #[test]
    fn an_access_has_one_command_for_each_disk_that_it_touches() {
        let inner = Box::new(ConstantRate::new(Rate::per_second(1_000), NonZeroU32::new(8).unwrap()));
        let controller = Controller::new(inner, 8, 8 << 10, 16);
        let disks = |offset, length| {
            let io = Io { token: 0, operation: Operation::Write, offset, length };
            controller.disks(&io).collect::<Vec<_>>()
        };
        assert_eq!(disks(7 * (8 << 10), 8 << 10), [7]);
        assert_eq!(disks(7 * (8 << 10) + 4096, 8 << 10), [7, 0]);
        assert_eq!(disks(4096, 64 << 10).len(), 8, "nine units on eight disks");
    }
}
