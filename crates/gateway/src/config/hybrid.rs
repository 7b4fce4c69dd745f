//! `hybrid`: a fast device in front of a store's own, and what goes there.
//!
//! ```text
//!  backend = "hybrid"
//!  hybrid = { fast = "/dev/nvme0n1", map = "pool.map", policy = "online" }
//!               │                      │                └─ what goes to the fast device
//!               │                      └─ where which block is; made by `evenkeel hybrid create`
//!               └─ the fast device; `path` of the store is the slow one
//! ```

use std::num::NonZeroU32;
use std::ops::Range;
use std::path::{Path, PathBuf};

use evenkeel_tiering::policy::{self, DiskOnly, Offline, Online, OnlineParameters, Policy};

use super::placement::{Placement, read_placement};
use super::sections::{DEPTH_MAX, read_path};
use super::table::{Item, Report, Table};

pub(super) const FORM: &str = "write hybrid = { fast = \"/dev/nvme0n1\", map = \"pool.map\" }";
const DEPTH_DEFAULT: NonZeroU32 = NonZeroU32::MIN.saturating_add(31);
const CLUSTERS_MAX: u32 = 1 << 28;
const MIGRATIONS_MAX: u32 = 16;

/// The fast device of a hybrid store, its map, and how both are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HybridConfig {
    /// The fast device or file.
    pub fast: PathBuf,
    /// The location map.
    pub map: PathBuf,
    /// What goes to the fast device.
    pub policy: PolicyConfig,
    /// Accesses outstanding at the fast device.
    pub fast_depth: NonZeroU32,
    /// Accesses outstanding at the slow device.
    pub slow_depth: NonZeroU32,
    /// Clusters that migrate at once; 0 for none.
    pub migrations: u32,
    /// Serve although the fast device is missing: what is there fails, everything else goes on.
    pub without_fast: bool,
}

/// A policy with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyConfig {
    /// Clusters chosen beforehand (Jain 2008, sections 3.3.1 and 4.2).
    Offline(Placement),
    /// Random, read-mostly clusters (Jain 2008, section 5.2 to 5.4).
    Online(OnlineParameters),
    /// The clusters used last.
    Lru,
    /// Adaptive replacement.
    Arc,
    /// Nothing more goes there; what is overwritten goes home.
    None,
}

/// The section with the places that rules point at.
pub(super) struct HybridDraft {
    pub(super) config: HybridConfig,
    pub(super) fast_span: Range<usize>,
    pub(super) map_span: Range<usize>,
}

impl PolicyConfig {
    /// The policy, knowing nothing yet.
    #[must_use]
    pub fn build(&self) -> Box<dyn Policy> {
        match self {
            Self::Online(parameters) => match Online::new(*parameters) {
                Ok(online) => Box::new(online),
                Err(error) => unreachable!("the configuration was checked: {error}"),
            },
            Self::Offline(placement) => Box::new(Offline::new(placement.clusters.iter().copied())),
            Self::Lru => Box::new(policy::Lru::default()),
            Self::Arc => Box::new(policy::Arc::default()),
            Self::None => Box::new(DiskOnly),
        }
    }

    /// As it is written in the file.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Offline(_) => "offline",
            Self::Online(_) => "online",
            Self::Lru => "lru",
            Self::Arc => "arc",
            Self::None => "none",
        }
    }
}

impl HybridConfig {
    /// Accesses outstanding at both devices.
    #[must_use]
    pub fn depth(&self) -> NonZeroU32 {
        self.fast_depth.saturating_add(self.slow_depth.get())
    }
}

/// Reads `backend` and `hybrid`, and refuses what a hybrid store has no use for.
pub(super) fn read_backend(report: &mut Report, table: &mut Table<'_>, folder: &Path) -> Option<HybridDraft> {
    let backend = table.take("backend");
    let chosen = backend.as_ref().map(|item| item.choice(report, &[("file", false), ("hybrid", true)]));
    let section = table.take("hybrid");
    match (chosen, section) {
        (Some(Some(true)), Some(section)) => read_section(report, &section, folder),
        (Some(Some(true)), None) => {
            report.add(table.header.clone(), format!("{}.hybrid", table.key), "the key is missing", FORM);
            None
        }
        (Some(None), _) | (_, None) => None,
        (None | Some(Some(false)), Some(section)) => {
            let remedy = "write backend = \"hybrid\" too, or remove this line";
            section.refuse(report, "only a hybrid store has a fast device", remedy);
            None
        }
    }
}

/// What a hybrid store needs besides its section, and what it has no use for.
pub(super) fn refuse_in_hybrid(
    report: &mut Report,
    table: &Table<'_>,
    has_path: bool,
    depth: Option<&Item<'_>>,
    emulate: Option<&Item<'_>>,
) {
    if !has_path {
        let message = "the key is missing: a hybrid store has one slow device";
        report.add(table.header.clone(), format!("{}.path", table.key), message, "write path = \"/dev/sdb\"");
    }
    if let Some(item) = depth {
        let message = "a hybrid store has a depth for each of its devices";
        item.refuse(report, message, "write fast_depth and slow_depth in hybrid = { … } instead");
    }
    if let Some(item) = emulate {
        item.refuse(
            report,
            "a hybrid store works on real devices",
            "remove this line, or backend = \"hybrid\"",
        );
    }
}

fn read_section(report: &mut Report, section: &Item<'_>, folder: &Path) -> Option<HybridDraft> {
    let mut table = section.table(report, FORM)?;
    let fast = table.require(report, "fast", FORM);
    let map = table.require(report, "map", FORM);
    let policy = table.take("policy").map_or(Some("online"), |item| {
        let names = ["online", "offline", "lru", "arc", "none"].map(|name| (name, name));
        item.choice(report, &names)
    });
    let parameters = read_online(report, &mut table, policy);
    let placement = read_offline(report, &mut table, policy, folder);
    let mut depth = |name| {
        let depth = table.take(name).map(|item| item.whole(report, 1..=DEPTH_MAX / 4));
        depth.map_or(Some(DEPTH_DEFAULT), |depth| depth.and_then(NonZeroU32::new))
    };
    let (fast_depth, slow_depth) = (depth("fast_depth"), depth("slow_depth"));
    let migrations = table.take("migrations").map_or(Some(1), |item| item.whole(report, 0..=MIGRATIONS_MAX));
    let without_fast = table.take("without_fast").map_or(Some(false), |item| item.flag(report));
    table.finish(report);
    let mut path = |item: &Option<Item<'_>>| read_path(report, item.as_ref()?, folder);
    let (fast_path, map_path) = (path(&fast), path(&map));
    let policy = match policy? {
        "offline" => PolicyConfig::Offline(placement?),
        "lru" => PolicyConfig::Lru,
        "arc" => PolicyConfig::Arc,
        "none" => PolicyConfig::None,
        _ => PolicyConfig::Online(parameters),
    };
    let config = HybridConfig {
        fast: fast_path?,
        map: map_path?,
        policy,
        fast_depth: fast_depth?,
        slow_depth: slow_depth?,
        migrations: migrations?,
        without_fast: without_fast?,
    };
    Some(HybridDraft { config, fast_span: fast?.span, map_span: map?.span })
}

/// The clusters of the offline scheme, which no other policy has.
fn read_offline(
    report: &mut Report,
    table: &mut Table<'_>,
    policy: Option<&str>,
    folder: &Path,
) -> Option<Placement> {
    if policy == Some("offline") {
        let item = table.require(
            report,
            "placement",
            "write placement = \"pool.placement\", made by `evenkeel hybrid choose`",
        )?;
        return read_placement(report, &item, folder);
    }
    if let (Some(item), Some(policy)) = (table.take("placement"), policy) {
        let message = format!("{policy} chooses by itself");
        item.refuse(report, message, "remove it, or write policy = \"offline\"");
    }
    None
}

/// The numbers of the online scheme, which no other policy has.
fn read_online(report: &mut Report, table: &mut Table<'_>, policy: Option<&str>) -> OnlineParameters {
    let mut parameters = OnlineParameters::default();
    let is_online = policy.is_none_or(|policy| policy == "online");
    let known = |report: &mut Report, item: &Item<'_>| {
        if let Some(policy) = policy.filter(|_| !is_online) {
            let message = format!("{policy} has no such parameter");
            item.refuse(report, message, "remove it, or write policy = \"online\"");
        }
        is_online
    };
    let mut number = |report: &mut Report, name, range, value: &mut u32| {
        let Some(item) = table.take(name) else { return };
        if known(report, &item) {
            *value = item.whole(report, range).unwrap_or(*value);
        }
    };
    number(report, "random_excess_min", 0..=1_000_000, &mut parameters.random_excess_min);
    number(report, "ratio_percent_min", 0..=100, &mut parameters.ratio_percent_min);
    number(report, "victims_percent", 0..=100, &mut parameters.victims_percent);
    number(report, "victims_from_full_percent", 0..=100, &mut parameters.victims_from_full_percent);
    let mut clusters_max = u32::try_from(parameters.clusters_max).unwrap_or(CLUSTERS_MAX);
    number(report, "clusters_max", 1..=CLUSTERS_MAX, &mut clusters_max);
    parameters.clusters_max = clusters_max as usize;
    let mut flag = |report: &mut Report, name, value: &mut bool| {
        let Some(item) = table.take(name) else { return };
        if known(report, &item) {
            *value = item.flag(report).unwrap_or(*value);
        }
    };
    flag(report, "promote_fit", &mut parameters.promote_fit);
    flag(report, "migrate_victims", &mut parameters.migrate_victims);
    parameters
}
