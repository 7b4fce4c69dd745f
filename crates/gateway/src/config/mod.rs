//! The configuration: one TOML file, strict keys, units in values.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;

use evenkeel_core::{Rate, Slo, Span};

/// A whole configuration, checked as far as that goes without touching the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// `[gateway]`.
    pub gateway: GatewayConfig,
    /// `[store.NAME]`, in the order of the file.
    pub stores: Vec<StoreConfig>,
    /// `[volume.NAME]`, in the order of the file.
    pub volumes: Vec<VolumeConfig>,
}

/// Where and how clients connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayConfig {
    /// Addresses to listen on; at least one.
    pub listen: Vec<Listen>,
    /// Connections at one time, handshakes included.
    pub connections_max: u32,
    /// How long a client may take to negotiate.
    pub handshake_timeout: Span,
    /// How long a shutdown waits for what is in flight.
    pub drain_timeout: Span,
}

/// One address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// `tcp://HOST:PORT`.
    Tcp(SocketAddr),
    /// `unix://PATH`.
    Unix(PathBuf),
}

/// A store: what one engine schedules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// Its name.
    pub name: String,
    /// The file or block device that its volumes are slices of; `None` if each has its own.
    pub path: Option<PathBuf>,
    /// Requests per second that promises may count on; `None` if not stated.
    pub capacity: Option<Rate>,
    /// What to do with promises that do not fit the capacity.
    pub admission: Admission,
    /// The scheduler.
    pub scheduler: SchedulerKind,
    /// Where spare capacity goes (pClock).
    pub spare: SpareTo,
    /// Requests outstanding at the device.
    pub depth: NonZeroU32,
    /// Bypass the page cache (`O_DIRECT`).
    pub direct: bool,
    /// The processor that its thread is bound to.
    pub cpu: Option<u32>,
    /// The device to imitate in front of the backing.
    pub emulate: Option<EmulateConfig>,
}

/// What to do with promises that do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Do not start.
    Refuse,
    /// Start, and say so.
    Warn,
}

/// The schedulers that a store can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedulerKind {
    /// pClock.
    PClock,
    /// First come, first served.
    Fcfs,
}

/// Where pClock's spare capacity goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpareTo {
    /// To the guaranteed flows; background runs only when nothing else waits.
    Flows,
    /// To background flows, in batches.
    Background,
}

/// An emulated device of constant rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmulateConfig {
    /// Accesses per second, all servers together.
    pub rate: Rate,
    /// Servers that work at the same time.
    pub servers: NonZeroU32,
}

/// A volume: one export, one flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeConfig {
    /// The export's name.
    pub name: String,
    /// Index into [`Config::stores`].
    pub store: usize,
    /// Its own file or block device; `None` for a slice of the store's.
    pub path: Option<PathBuf>,
    /// First byte within the backing.
    pub offset: u64,
    /// Bytes; `None` (only with `path`) for the whole file.
    pub size: Option<u64>,
    /// The promise and weight.
    pub slo: Slo,
    /// Refuse writes.
    pub read_only: bool,
    /// Bytes in flight above which the volume's sockets are not read.
    pub in_flight_max: u64,
    /// Free text shown to clients.
    pub description: String,
}
