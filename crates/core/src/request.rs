//! Requests, and what becomes of them.

use crate::units::{Cost, Span};

/// One client's stream of requests (in the gateway: a volume). Small dense numbers: the core keeps
/// its flows in a table indexed by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

impl FlowId {
    /// The largest flow number, 1 048 575. Tables are as long as the largest number in use and take
    /// about 250 bytes per flow, under some schedulers 300, so one wrong number costs at most 300 MiB.
    pub const MAX: Self = Self((1 << 20) - 1);

    /// The number as an index into a table.
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The driver's own name for a request; the core hands it back untouched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// What a request asks of the store. Every one of them takes the store's time, so every one of
/// them is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Read `length` bytes.
    Read,
    /// Write `length` bytes.
    Write,
    /// Make every completed write durable.
    Flush,
    /// The content of the range no longer matters.
    Trim,
    /// The range reads as zeros from now on.
    WriteZeroes,
}

/// A request as it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The driver's name for it.
    pub id: RequestId,
    /// The flow that it belongs to.
    pub flow: FlowId,
    /// What it asks.
    pub operation: Operation,
    /// First byte, within the store.
    pub offset: u64,
    /// Number of bytes; 0 for a flush.
    pub length: u32,
    /// What it costs in tokens; [`Cost::ONE`] unless a cost model says otherwise.
    pub cost: Cost,
}

/// Names one dispatched request until its completion. A ticket is used once: a second completion
/// with the same ticket is an error, even after its slot has been given to another request (until
/// that slot has been used 2³² times).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl Ticket {
    /// The index of the request in the table of outstanding ones, below the dispatch depth at the
    /// time of submission: a driver may keep its own per-request data in an array of that size.
    #[must_use]
    pub const fn slot(self) -> usize {
        self.slot as usize
    }

    /// The ticket as one number, for a device's or ring's user data.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        (self.generation as u64) << 32 | self.slot as u64
    }

    /// The inverse of [`Ticket::to_bits`].
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self { slot: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// How the store answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It did what was asked.
    Done,
    /// It failed; the driver knows how.
    Failed,
    /// It was never asked: the client had gone by the time of dispatch.
    Cancelled,
}

/// The store's answer to a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The ticket of the submission.
    pub ticket: Ticket,
    /// How it ended.
    pub outcome: Outcome,
    /// The disk time that it took, summed over the disks that it used, where the driver knows it (an
    /// emulated or a simulated device does). Schedulers that share disk time go by it.
    pub service: Option<Span>,
}

impl Completion {
    /// A completion whose disk time is not known.
    #[must_use]
    pub const fn new(ticket: Ticket, outcome: Outcome) -> Self {
        Self { ticket, outcome, service: None }
    }

    /// The same completion, after `service` of disk time.
    #[must_use]
    pub const fn with_service(self, service: Span) -> Self {
        Self { service: Some(service), ..self }
    }
}
