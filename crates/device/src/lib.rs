//! Models of storage devices, without I/O and without a clock: they say when a request would
//! finish, the driver (simulator or gateway) makes it so.
//!
//! ```text
//!  driver ── submit(now, Io) ──> Device ── next_event() ──> driver waits until then
//!                                   └──── poll_completion(now) ──> Finished { token, at, busy }
//!
//!  ConstantRate, Servers      stations of queueing theory
//!  Disk                       zones, seek curve, rotation, buffer, command queue
//!  Flash, LinearFlash         flash with its translation layer; flash as one line of a paper
//!  Raid, Bus                  around other devices: striping, mirrors, parity, concatenation; a shared bus
//!  Spec                       any of them from a TOML text, or by the name of a drive
//! ```
#![forbid(unsafe_code)]

use evenkeel_core::{FlowId, Operation, Span, Time};

pub mod bus;
pub mod constant_rate;
pub mod disk;
mod finishes;
pub mod flash;
pub mod raid;
pub mod servers;
pub mod spec;

pub use bus::Bus;
pub use constant_rate::ConstantRate;
pub use disk::Disk;
pub use flash::Flash;
pub use flash::linear::LinearFlash;
pub use raid::Raid;
pub use servers::Servers;
pub use spec::{Spec, SpecError};

/// One access to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// The driver's name for it.
    pub token: u64,
    /// What is asked.
    pub operation: Operation,
    /// First byte on the device.
    pub offset: u64,
    /// Number of bytes. Models that have a capacity cut off what lies beyond it.
    pub length: u32,
}

/// An access that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The driver's name for it.
    pub token: u64,
    /// When the device was done with it.
    pub at: Time,
    /// The time for which it kept disks (servers, flash dies) busy, summed over all of them: what
    /// schedulers that share disk time go by. It contains no waiting.
    pub busy: Span,
}

/// A device model.
pub trait Device {
    /// Takes in an access at `now`; it queues inside the device if need be.
    fn submit(&mut self, now: Time, io: Io);

    /// The same, and says whose access it is: to models that tell flows apart.
    fn submit_for(&mut self, now: Time, flow: FlowId, io: Io) {
        let _ = flow;
        self.submit(now, io);
    }

    /// When to poll next: an access finishes then, or the device has work of its own to do (a seek
    /// ends, a block is erased), after which there may be nothing to poll. `None` if it is idle.
    fn next_event(&self) -> Option<Time>;

    /// The next access that has finished by `now`, in the order of finishing. A driver that comes
    /// late may go on from there: the device's own time is that of the completion, not `now`.
    fn poll_completion(&mut self, now: Time) -> Option<Finished>;

    /// What went where so far; `None` if it is one device and not two.
    fn tier_counts(&self) -> Option<TierCounts> {
        None
    }

    /// Work of the device's own that a scheduler shall fit in, and the flow that it belongs to. The device
    /// knows the access again, by its operation, offset and length, when it is submitted for that flow; the
    /// token is without meaning.
    fn poll_own_work(&mut self) -> Option<(FlowId, Io)> {
        None
    }
}

/// What a device of two tiers has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierCounts {
    /// Accesses to the fast device for requests.
    pub fast: u64,
    /// Accesses to the slow device for requests.
    pub slow: u64,
    /// Clusters copied to the fast device.
    pub promoted: u64,
    /// Clusters copied back.
    pub demoted: u64,
}

impl<D: Device + ?Sized> Device for Box<D> {
    fn submit(&mut self, now: Time, io: Io) {
        (**self).submit(now, io);
    }

    fn submit_for(&mut self, now: Time, flow: FlowId, io: Io) {
        (**self).submit_for(now, flow, io);
    }

    fn next_event(&self) -> Option<Time> {
        (**self).next_event()
    }

    fn poll_completion(&mut self, now: Time) -> Option<Finished> {
        (**self).poll_completion(now)
    }

    fn tier_counts(&self) -> Option<TierCounts> {
        (**self).tier_counts()
    }

    fn poll_own_work(&mut self) -> Option<(FlowId, Io)> {
        (**self).poll_own_work()
    }
}

/// A parameter of a model that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterError {
    /// The parameter, as it is called in a [`Spec`].
    pub key: &'static str,
    /// What is wrong with it.
    pub message: String,
    /// What to do about it.
    pub remedy: String,
}

impl ParameterError {
    pub(crate) fn new(key: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { key, message: message.into(), remedy: remedy.into() }
    }
}

impl std::fmt::Display for ParameterError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}; {}", self.key, self.message, self.remedy)
    }
}

impl std::error::Error for ParameterError {}
