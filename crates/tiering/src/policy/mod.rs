//! Which clusters should be on flash: one trait, five policies.
//!
//! ```text
//!  each access ──> on_access ──> Advice { whole blocks of a write go to: fast | slow | where they are,
//!                                         bring the cluster in?  take which cluster out? }
//! ```
//! A policy only advises. [`crate::store::Hybrid`] follows as far as room, order and safety allow, so a
//! policy cannot lose data, and what is really on flash is asked of [`Residence`].

use evenkeel_core::FlowId;

use crate::geometry::{Cluster, Slot};

mod arc;
mod lru;
mod offline;
mod online;

pub use arc::Arc;
pub use lru::Lru;
pub use offline::{Offline, Profile};
pub use online::{Online, OnlineParameters, OnlineParametersError};

/// One of the two devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tier {
    /// Flash.
    Fast,
    /// Disk: every cluster has its home there.
    Slow,
}

/// One access to one cluster, as a policy sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Whose.
    pub flow: FlowId,
    /// Which cluster.
    pub cluster: Cluster,
    /// Whether it writes.
    pub is_write: bool,
    /// Whether the flow's previous request was to the same cluster or one beside it.
    pub is_sequential: bool,
}

impl Access {
    /// Whether it is a part of a scan over what is not on flash: nothing that a cache should take in.
    const fn passes_by(&self, residence: Residence) -> bool {
        !self.is_write && self.is_sequential && !residence.is_resident
    }
}

/// What is on flash at the moment of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Residence {
    /// Whether the accessed cluster has a slot.
    pub is_resident: bool,
    /// Slots in use, those on their way out included.
    pub slots_used: Slot,
    /// Slots there are.
    pub slots: Slot,
}

/// What to do about an access. The default is to leave everything where it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Advice {
    /// Where whole blocks of this write should go; `None` leaves them where they are.
    pub write_to: Option<Tier>,
    /// Copy the cluster to flash in the background.
    pub promote: bool,
    /// Copy this cluster back to disk in the background and free its slot.
    pub demote: Option<Cluster>,
}

/// Decides what belongs on flash.
pub trait Policy: Send {
    /// Learns of an access and says what should follow from it. O(log clusters) or less.
    fn on_access(&mut self, access: &Access, residence: Residence) -> Advice;

    /// Learns that `cluster` has got a slot, or has lost it.
    fn on_residence(&mut self, cluster: Cluster, is_resident: bool) {
        let _ = (cluster, is_resident);
    }
}

/// Nothing goes to flash; what is there stays until it is overwritten.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskOnly;

impl Policy for DiskOnly {
    fn on_access(&mut self, _access: &Access, _residence: Residence) -> Advice {
        Advice { write_to: Some(Tier::Slow), ..Advice::default() }
    }
}

#[cfg(test)]
pub(crate) fn access(cluster: Cluster, is_write: bool) -> Access {
    Access { flow: FlowId(0), cluster, is_write, is_sequential: false }
}

#[cfg(test)]
pub(crate) fn residence(is_resident: bool, slots_used: Slot, slots: Slot) -> Residence {
    Residence { is_resident, slots_used, slots }
}
