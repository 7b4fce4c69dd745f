//! The configuration: one TOML file, strict keys, units in values.
//!
//! ```text
//!  text ──> toml (spans) ──> sections: keys, values, units ──> rules: names, ranges, paths ──> Config
//!              │                 │                               │
//!              └─────────────────┴── Problem { span, key, message, remedy } ──> ConfigError (all at once)
//! ```
//!
//! Nothing is guessed and nothing is rounded: an unknown key, a value without its unit or one that is
//! finer than the resolution is a problem. If there is a problem there is no [`Config`]. What needs
//! the system (whether a file exists, how large it is) is checked when the gateway opens it.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use evenkeel_core::admission::Need;
use evenkeel_core::{Cost, CostModel, DepthControl, Envelope, Limit, Rate, Slo, Span, SpareCapacity, Weight};

mod adapt;
mod admission;
mod audit;
mod costs;
mod emulate;
mod groups;
mod hybrid;
mod placement;
mod profile;
mod promises;
mod rules;
mod sections;

pub use adapt::AdaptConfig;
pub use audit::AuditConfig;
pub use costs::{largest_cost, parse_cost};
pub use emulate::EmulateConfig;
use evenkeel_catalogue::Depth;
pub use evenkeel_catalogue::{AdaptiveDepth, SchedulerKind, Tuning};
pub use evenkeel_strict::ShownBytes;
pub use evenkeel_strict::file::FILE_BYTES_MAX;
pub use evenkeel_strict::{ConfigError, PROBLEMS_MAX, Problem};
use evenkeel_strict::{suggest, table, values};
pub use hybrid::{HybridConfig, PolicyConfig};
pub use placement::Placement;
pub use profile::{ProfileConfig, load_profile};

/// A commented file that shows every key. [`parse`] accepts it.
pub const EXAMPLE: &str = include_str!("example.toml");

/// Reads and checks the file at `path`. Relative paths inside it start at its folder.
///
/// # Errors
/// If the file cannot be read, is not UTF-8, is above [`FILE_BYTES_MAX`], or [`parse`] refuses it.
pub fn load(path: &Path) -> Result<Config, ConfigError> {
    let text = evenkeel_strict::file::read(path, "name a configuration file")?;
    parse(&text, path)
}

/// Checks `text` as the content of `file`, which gives errors their name and relative paths their
/// folder; it need not exist.
///
/// # Errors
/// Every problem of the text, in its order, up to [`PROBLEMS_MAX`] of them.
pub fn parse(text: &str, file: &Path) -> Result<Config, ConfigError> {
    sections::read(text, file.parent().unwrap_or(Path::new("")))
        .map_err(|problems| ConfigError::new(file.to_owned(), text.to_owned(), problems))
}

/// A whole configuration, checked as far as that goes without touching the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// `[gateway]`.
    pub gateway: GatewayConfig,
    /// `[store.NAME]`, in the order of the file.
    pub stores: Vec<StoreConfig>,
    /// `[group.NAME]`, in the order of the file.
    pub groups: Vec<GroupConfig>,
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
    /// `tcp://ADDRESS:PORT`; port 0 lets the system choose.
    Tcp(SocketAddr),
    /// `unix:///ABSOLUTE/PATH`, or `unix:PATH` from the file's folder.
    Unix(PathBuf),
}

/// A store: what one engine schedules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// Its name.
    pub name: String,
    /// The file or block device that its volumes are slices of; `None` if each has its own.
    pub path: Option<PathBuf>,
    /// Requests per second that promises may count on; `None` if not stated. With an emulated
    /// device of constant rate and nothing stated, the device's rate.
    pub capacity: Option<Rate>,
    /// What to do with promises that do not fit the capacity.
    pub admission: Admission,
    /// The scheduler.
    pub scheduler: SchedulerKind,
    /// Where spare capacity goes (pClock).
    pub spare: SpareTo,
    /// Parameters of the schedulers that have some (FAIRIO, Cello).
    pub tuning: Tuning,
    /// Requests outstanding at the device. 32 unless stated; with an emulated device, as many as it
    /// works on at the same time: its servers, dies or members; in a hybrid store, the sum of both devices'.
    /// If it is adapted, the most.
    pub depth: NonZeroU32,
    /// How the depth is adapted while the store runs; `None` if it stays as it is.
    pub adaptive: Option<AdaptiveDepth>,
    /// What requests cost, where a volume does not say otherwise.
    pub cost: CostModel,
    /// Bypass the page cache (`O_DIRECT`).
    pub direct: bool,
    /// The processor that its thread is bound to.
    pub cpu: Option<u32>,
    /// What was measured of the device: the default of capacity, depth and cost.
    pub profile: Option<ProfileConfig>,
    /// The device to imitate in front of the backing.
    pub emulate: Option<EmulateConfig>,
    /// The fast device in front of `path`, if this is a hybrid store.
    pub hybrid: Option<HybridConfig>,
    /// Where every request is written down.
    pub audit: Option<AuditConfig>,
    /// Judge and account for everything, and hold nothing back.
    pub observe: bool,
}

/// What to do with promises that do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Do not start.
    Refuse,
    /// Start, and say so.
    Warn,
    /// Start, with those in the background who do not fit any more, in the order of the file.
    BestEffort,
}

/// Where pClock's spare capacity goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpareTo {
    /// To the guaranteed flows; background runs only when nothing else waits.
    Flows,
    /// To background flows, in batches.
    Background,
}

impl From<SpareTo> for SpareCapacity {
    fn from(spare: SpareTo) -> Self {
        match spare {
            SpareTo::Flows => Self::Flows,
            SpareTo::Background => Self::Background,
        }
    }
}

/// A group: volumes under one agreement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// Its name.
    pub name: String,
    /// Index into [`Config::stores`].
    pub store: usize,
    /// What its volumes are promised together, and the weight of the whole.
    pub slo: Slo,
}

/// How a volume belongs to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberConfig {
    /// Index into [`Config::groups`].
    pub group: usize,
    /// Its share within the group.
    pub weight: Weight,
    /// What it may send at most.
    pub limit: Option<Limit>,
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
    /// The promise and weight; of a member of a group, the group's.
    pub slo: Slo,
    /// The group that it belongs to.
    pub member: Option<MemberConfig>,
    /// How its promise may follow what it sends.
    pub adapt: Option<AdaptConfig>,
    /// What its requests cost.
    pub cost: CostModel,
    /// The largest READ or WRITE in bytes; clients are told, larger ones are refused.
    pub request_max: u32,
    /// Refuse writes.
    pub read_only: bool,
    /// Bytes in flight above which the volume's sockets are not read. A single request larger than
    /// this is still served, alone.
    pub in_flight_max: u64,
    /// Free text shown to clients.
    pub description: String,
}

impl Config {
    /// The volumes of the store with this index into [`Config::stores`], in the order of the file.
    pub fn volumes_of(&self, store: usize) -> impl Iterator<Item = &VolumeConfig> {
        self.volumes.iter().filter(move |volume| volume.store == store)
    }

    /// Who is promised something by a store, or served in its background: volumes that belong to no group,
    /// and groups, by name.
    pub fn agreements_of(&self, store: usize) -> impl Iterator<Item = (&str, &Slo)> {
        let alone = self.volumes_of(store).filter(|volume| volume.member.is_none());
        let groups = self.groups.iter().filter(move |group| group.store == store);
        let alone = alone.map(|volume| (volume.name.as_str(), &volume.slo));
        alone.chain(groups.map(|group| (group.name.as_str(), &group.slo)))
    }

    /// The capacity that the promises of a store need: by the System Capacity Constraint of pClock, or
    /// by lemma 3 of Nested QoS where classes are graduated. A binding deadline names its agreement by its
    /// place among those of [`Config::agreements_of`] that promise something.
    #[must_use]
    pub fn need_of(&self, store: usize) -> Need {
        let agreements = self.agreements_of(store).zip(self.largest_costs_of(store));
        let promised = agreements.map(|((_, slo), largest)| (slo.classes(), largest));
        let promised: Vec<(&[Envelope], Cost)> =
            promised.filter(|(classes, _)| !classes.is_empty()).collect();
        self.need_of_classes(store, &promised)
    }
}

impl StoreConfig {
    /// The controller of the dispatch depth, if it is adapted.
    #[must_use]
    pub fn depth_control(&self) -> Option<DepthControl> {
        self.whole_depth().control()
    }

    fn whole_depth(&self) -> Depth {
        Depth { most: self.depth, adaptive: self.adaptive }
    }

    /// The depth as people read it: "32", "1 to 32, adapted".
    #[must_use]
    pub fn shown_depth(&self) -> String {
        self.whole_depth().to_string()
    }
}

impl std::fmt::Display for Listen {
    /// As it is written in the file.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "tcp://{address}"),
            Self::Unix(path) if path.is_absolute() => write!(f, "unix://{}", path.display()),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod adapt_tests;
#[cfg(test)]
mod cost_tests;
#[cfg(test)]
mod group_tests;
#[cfg(test)]
mod hybrid_tests;
#[cfg(test)]
mod tests;
