//! The hybrid store: random, read-mostly clusters on flash, the rest on disk, without I/O.
//!
//! ```text
//!  trace ──> Profile ──> Offline ─┐ policy
//!            Online, LRU, ARC ────┤
//!                                 v
//!  requests ──────────────> Hybrid ──> accesses, copies, syncs, commits      (simulator, gateway)
//!                             │ Map: cluster ─> slot, blocks on fast
//! ```
//! Source: Jain, "QoS benefits of flash in a storage system", 2008, chapters 3 to 5, with the settlements
//! written at each place. The same [`Hybrid`] drives simulated devices and real ones.
#![forbid(unsafe_code)]

pub mod gain;
pub mod geometry;
pub mod history;
pub mod map;
pub mod policy;
pub mod quantile;
pub mod store;

pub use gain::{AccessTimes, Gain};
pub use geometry::{BLOCKS_PER_CLUSTER_MAX, Blocks, Cluster, Geometry, GeometryError, Slot};
pub use map::{Change, Entry, Map, MapError};
pub use policy::{Access, Advice, Policy, Residence, Tier};
pub use store::{Background, Copy, Counts, Fault, Hybrid, HybridRequest, Output, TierAccess};
