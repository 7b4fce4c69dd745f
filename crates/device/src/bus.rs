//! A shared bus in front of a device: one transfer at a time.
//!
//! ```text
//!  write: submit ──> wait for the bus ──> transfer ──> device ─────────────────────> finished
//!  read:  submit ──> device ──> wait for the bus ──> transfer ────────────────────> finished
//!
//!  arriving  [ (when, access) ... ]   writes on their way to the device, in the order of the bus
//!  free      when the last transfer granted will be over
//! ```
//!
//! Transfers are served in the order in which they are asked for; nothing is preempted. Around an array,
//! all its members share the bus for what the host reads and writes (what parity needs stays inside).

use std::collections::VecDeque;
use std::num::NonZeroU64;

use evenkeel_core::units::NANOS_PER_SECOND;
use evenkeel_core::{Operation, Span, Time};
use slab::Slab;

use crate::finishes::Finishes;
use crate::{Device, Finished, Io};

/// A device behind a bus.
#[derive(Debug)]
pub struct Bus<D> {
    device: D,
    bytes_per_second: NonZeroU64,
    overhead: Span,
    /// What the device holds, by the token that it knows.
    held: Slab<(u64, Operation, u32)>,
    arriving: VecDeque<(Time, Io)>,
    free: Time,
    finishes: Finishes,
}

impl<D: Device> Bus<D> {
    /// `device` behind a bus of `bytes_per_second`, which each transfer keeps for `overhead` besides
    /// (arbitration, selection, commands). A transfer's time is rounded down to whole nanoseconds.
    pub fn new(device: D, bytes_per_second: NonZeroU64, overhead: Span) -> Self {
        Self {
            device,
            bytes_per_second,
            overhead,
            held: Slab::new(),
            arriving: VecDeque::new(),
            free: Time::ZERO,
            finishes: Finishes::default(),
        }
    }

    /// The device behind it.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// Takes the bus for `length` bytes from `now` or when it is free; when the transfer is over.
    fn transfer(&mut self, now: Time, length: u32) -> Time {
        let nanos =
            u128::from(length) * u128::from(NANOS_PER_SECOND) / u128::from(self.bytes_per_second.get());
        let span = Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)) + self.overhead;
        self.free = self.free.max(now) + span;
        self.free
    }

    fn next_inside(&self) -> Option<Time> {
        let arriving = self.arriving.front().map(|(at, _)| *at);
        [arriving, self.device.next_event()].into_iter().flatten().min()
    }

    /// Carries out what happens at `now`, the instant of [`Bus::next_inside`].
    fn step(&mut self, now: Time) {
        // Once only: the device may have just become free, and what it takes up next depends on what is
        // submitted at this very instant.
        if let Some(over) = self.device.poll_completion(now) {
            let (token, operation, length) = self.held.remove(over.token as usize);
            let at = if operation == Operation::Read { self.transfer(over.at, length) } else { over.at };
            self.finishes.push(at, token, over.busy);
        }
        while self.arriving.front().is_some_and(|(at, _)| *at <= now) {
            if let Some((at, io)) = self.arriving.pop_front() {
                self.device.submit(at, io);
            }
        }
    }
}

impl<D: Device> Device for Bus<D> {
    fn submit(&mut self, now: Time, io: Io) {
        let now = self.finishes.advance(now);
        while let Some(at) = self.next_inside().filter(|at| *at < now) {
            self.step(at);
        }
        let token = self.held.insert((io.token, io.operation, io.length)) as u64;
        let inner = Io { token, ..io };
        if io.operation == Operation::Write {
            let at = self.transfer(now, io.length);
            self.arriving.push_back((at, inner));
        } else {
            self.device.submit(now, inner);
        }
    }

    fn next_event(&self) -> Option<Time> {
        [self.next_inside(), self.finishes.next()].into_iter().flatten().min()
    }

    fn poll_completion(&mut self, now: Time) -> Option<Finished> {
        loop {
            let inside = self.next_inside().filter(|at| *at <= now);
            let first = self.finishes.next();
            match inside {
                Some(at) if first.is_none_or(|first| at < first) => self.step(at),
                _ => return self.finishes.poll(now),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ConstantRate;
    use evenkeel_core::Rate;
    use std::num::NonZeroU32;

    fn run(operations: &[Operation], servers: u32) -> Vec<(u64, u64)> {
        let servers = NonZeroU32::new(servers).expect("at least one");
        let disk = ConstantRate::new(Rate::per_second(u64::from(servers.get()) * 1_000), servers);
        // 4 KiB in 100 us, and 50 us for each transfer.
        let mut bus = Bus::new(disk, NonZeroU64::new(40_960_000).expect("not zero"), Span::from_micros(50));
        for (token, operation) in operations.iter().enumerate() {
            bus.submit(
                Time::ZERO,
                Io { token: token as u64, operation: *operation, offset: 0, length: 4096 },
            );
        }
        std::iter::from_fn(|| {
            // Some events are the device's own: there may be nothing to collect.
            while let Some(at) = bus.next_event() {
                if let Some(over) = bus.poll_completion(at) {
                    assert_eq!(over.busy, Span::from_millis(1));
                    return Some((over.token, over.at.as_nanos() / 1_000));
                }
            }
            None
        })
        .collect()
    }

    #[test]
    fn transfers_queue_before_writes_and_after_reads() {
        use Operation::{Read, Write};
        assert_eq!(run(&[Read, Read], 2), [(0, 1_150), (1, 1_300)]);
        assert_eq!(run(&[Write, Write], 2), [(0, 1_150), (1, 1_300)]);
        // On one server the second transfer is hidden behind the first access.
        assert_eq!(run(&[Write, Write], 1), [(0, 1_150), (1, 2_150)]);
        assert_eq!(run(&[Read, Read], 1), [(0, 1_150), (1, 2_150)]);
        // The read has the server first, the write the bus.
        assert_eq!(run(&[Read, Write], 1), [(0, 1_150), (1, 2_000)]);
    }
}
