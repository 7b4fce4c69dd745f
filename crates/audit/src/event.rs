//! What an audit log holds, as values.

use evenkeel_core::{FlowId, Membership, Rate, Record, Slo, Time};

/// One entry of an audit log.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A flow was added, or its promise changed.
    Configure(Terms),
    /// What holds of a flow where a file of the log begins; nothing has changed.
    Standing(Terms),
    /// A flow was removed.
    Remove {
        /// When.
        at: Time,
        /// Which.
        flow: FlowId,
    },
    /// The operator changed how the store is run; the first of each kind says how it was at the start.
    Change {
        /// When.
        at: Time,
        /// What.
        change: Change,
    },
    /// Requests of a flow that had arrived and were not over when this was written. Written at
    /// checkpoints, for flows where it is not what was last said (0 at first).
    Open {
        /// When.
        at: Time,
        /// Which flow.
        flow: FlowId,
        /// How many.
        requests: u64,
        /// The bytes that they ask to read or write.
        bytes: u64,
    },
    /// What could not be written down, because the writer could not keep up or was refused by the system;
    /// so much is missing in front of this.
    Gap {
        /// When it was noticed.
        at: Time,
        /// Arrivals, ends of requests and other notes that are missing.
        notes: u64,
        /// How many of them were ends of requests.
        records: u64,
    },
    /// A request that is over. Its id and its offset are not kept and read as 0.
    Record(Record),
}

/// The promise to one flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The flow.
    pub flow: FlowId,
    /// When this promise began.
    pub at: Time,
    /// The volume's name.
    pub name: Box<str>,
    /// The promise; of a member of a group, the group's.
    pub slo: Slo,
    /// How it belongs to a group, if it does. The group is a flow that came before.
    pub member: Option<Membership>,
}

/// A change that the operator made to a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The scheduler, by name.
    Scheduler(Box<str>),
    /// Requests outstanding at the device.
    Depth(u32),
    /// The device's profile: requests per second that promises count on. `None`: not stated.
    Capacity(Option<Rate>),
    /// The gateway is about to adapt the promise to this flow to what it sends, as the operator allows it to; the new
    /// promise follows.
    Adapted(FlowId),
}

impl Change {
    /// Its place among what holds until it is changed again: scheduler, depth, capacity. `None` for what is only an
    /// event.
    #[must_use]
    pub const fn slot(&self) -> Option<usize> {
        match self {
            Self::Scheduler(_) => Some(0),
            Self::Depth(_) => Some(1),
            Self::Capacity(_) => Some(2),
            Self::Adapted(_) => None,
        }
    }

    /// In words, for sentences: `scheduler fcfs`, `depth 8`, `capacity 475 IOPS`.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Scheduler(name) => format!("scheduler {name}"),
            Self::Depth(depth) => format!("depth {depth}"),
            Self::Capacity(Some(rate)) => format!("capacity {rate}"),
            Self::Capacity(None) => "no stated capacity".to_owned(),
            Self::Adapted(flow) => format!("promise to flow {} adapted", flow.0),
        }
    }
}
