//! What is measured, as the measurement sees it.

use std::convert::Infallible;

use evenkeel_core::{Operation, Time};
use evenkeel_device::{Device, Io};

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The place that it takes among those outstanding: below the depth of the cell.
    pub slot: u32,
    /// [`Operation::Read`] or [`Operation::Write`].
    pub operation: Operation,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
}

/// A device to measure, with its clock.
pub trait Target {
    /// Why an access failed.
    type Error;

    /// The present, on a clock that never goes back.
    fn now(&self) -> Time;

    /// Starts an access; its slot is free.
    ///
    /// # Errors
    /// If it cannot be started.
    fn submit(&mut self, access: Access) -> Result<(), Self::Error>;

    /// Waits for completions, at most until `until`, and adds the slots that are free again to `done`.
    ///
    /// # Errors
    /// If an access has failed.
    fn wait(&mut self, until: Time, done: &mut Vec<u32>) -> Result<(), Self::Error>;
}

/// A device model in virtual time: minutes of measuring pass in moments, and the answer is known.
pub struct ModelTarget<D> {
    device: D,
    now: Time,
}

impl<D: Device> ModelTarget<D> {
    /// A target at the beginning of its time.
    pub const fn new(device: D) -> Self {
        Self { device, now: Time::ZERO }
    }
}

impl<D: Device> Target for ModelTarget<D> {
    type Error = Infallible;

    fn now(&self) -> Time {
        self.now
    }

    fn submit(&mut self, access: Access) -> Result<(), Infallible> {
        let Access { slot, operation, offset, length } = access;
        self.device.submit(self.now, Io { token: u64::from(slot), operation, offset, length });
        Ok(())
    }

    fn wait(&mut self, until: Time, done: &mut Vec<u32>) -> Result<(), Infallible> {
        loop {
            while let Some(finished) = self.device.poll_completion(self.now) {
                done.push(finished.token as u32);
            }
            let next = self.device.next_event().filter(|at| *at <= until);
            match next {
                Some(at) if done.is_empty() => self.now = self.now.max(at),
                _ => break,
            }
        }
        if done.is_empty() {
            self.now = self.now.max(until);
        }
        Ok(())
    }
}
