//! Models of storage devices, without I/O and without a clock: they say when a request would
//! finish, the driver (simulator or gateway) makes it so.
//!
//! ```text
//!  driver ── submit(now, Io) ──> Device ── next_event() ──> driver waits until then
//!                                   └──── poll_completion(now) ──> Finished { token, at }
//! ```
#![forbid(unsafe_code)]

use evenkeel_core::{Operation, Time};

pub mod constant_rate;
pub mod disk;

pub use constant_rate::ConstantRate;
pub use disk::Disk;

/// One access to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// The driver's name for it.
    pub token: u64,
    /// What is asked.
    pub operation: Operation,
    /// First byte on the device.
    pub offset: u64,
    /// Number of bytes.
    pub length: u32,
}

/// An access that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The driver's name for it.
    pub token: u64,
    /// When the device was done with it.
    pub at: Time,
}

/// A device model.
pub trait Device {
    /// Takes in an access at `now`; it queues inside the device if need be.
    fn submit(&mut self, now: Time, io: Io);

    /// When to poll next: an access finishes then, or the device has work of its own to do (a seek
    /// ends, a block is erased), after which there may be nothing to poll. `None` if it is idle.
    fn next_event(&self) -> Option<Time>;

    /// The next access that has finished by `now`, in the order of finishing. A driver that comes
    /// late may go on from there: the device's own time is that of the completion, not `now`.
    fn poll_completion(&mut self, now: Time) -> Option<Finished>;
}
