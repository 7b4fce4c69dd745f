//! `[device] kind = "hybrid"`: flash in front of a disk.
//!
//! ```text
//!  kind = "hybrid"
//!  fast = "flashsim-2009"         any model, by name or in place; give it initial = "steady" (flash) or
//!  slow = "ibm36z15approx"        saturated = true (linear-flash) to begin with flash that is worn in
//!  fast_size = "256 MiB"          how much of the fast device is used; all of it by default
//!  cluster = "64 KiB"             what is placed as a whole
//!  block = "4 KiB"                what is located: writes of less stay where the block is
//!  policy = "online"              or "none", "offline", "lru", "arc"
//!  overlap = true                 false: the two devices never work at the same time
//!  copies = "inside"              or "scheduled": clusters move as requests of a background flow
//! ```

use std::num::NonZeroU32;

use evenkeel_core::{Operation, Span, Time};
use evenkeel_device::{Device, Io, Spec};
use evenkeel_strict::{Report, Table};
use evenkeel_tiering::policy::{Arc, DiskOnly, Lru, Offline, Online, OnlineParameters};
use evenkeel_tiering::{AccessTimes, Cluster, Geometry, Policy};

use crate::hybrid::{Background, HybridDevice, HybridParts};
use crate::random::Random;

/// Of a cluster's requests, the share in percent from which on the offline scheme calls it sequential.
const SEQUENTIAL_PERCENT_MAX: u32 = 50;
/// Accesses by which a model's times are measured for the gain equation.
const PROBES: u64 = 256;
/// Bytes of one scheduled copy at most, as in the gateway.
const COPY_BYTES_MAX: u32 = 128 << 10;
/// Slots of a device with scheduled copies are set free in batches of at most so many, likewise.
const RELEASE_BATCH_MAX: u32 = 64;

/// A hybrid device of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HybridConfig {
    /// The fast model.
    pub fast: Spec,
    /// The slow model.
    pub slow: Spec,
    /// Bytes of the fast device that are used.
    pub fast_bytes: u64,
    /// Cluster and block size.
    pub geometry: Geometry,
    /// What belongs on the fast device.
    pub policy: PolicyConfig,
    /// Whether the two models work at the same time.
    pub overlap: bool,
    /// Whether copies are requests of a background flow, as in the gateway, and not the device's own affair.
    pub schedules_copies: bool,
}

/// Which policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyConfig {
    /// Everything stays on the slow device.
    None,
    /// Two passes: a run without flash chooses, the next one uses the choice.
    Offline,
    /// As it goes along.
    Online(OnlineParameters),
    /// The clusters used most recently.
    Lru,
    /// Recency and frequency in balance.
    Arc,
}

/// Reads the table of a hybrid device; problems go to `report`.
pub(super) fn read(report: &mut Report, mut table: Table<'_>) -> Option<HybridConfig> {
    let _ = table.take("kind");
    let _ = table.take("description").and_then(|item| item.text(report));
    let mut model = |name: &'static str, example: &str| {
        let remedy = format!("write {name} = \"{example}\", or a table with a kind");
        table.require(report, name, remedy).and_then(|item| {
            let spec = Spec::read_value(report, &item)?;
            if spec.capacity().is_none() {
                item.refuse(report, "it has no size", "give the model a capacity");
                return None;
            }
            Some(spec)
        })
    };
    let (fast, slow) = (model("fast", "flashsim-2009"), model("slow", "ibm36z15approx"));
    let room = fast.as_ref().and_then(Spec::capacity);
    let fast_bytes = match table.take("fast_size") {
        None => room,
        Some(item) => item.bytes(report).filter(|bytes| {
            let fits = room.is_none_or(|room| *bytes <= room);
            if !fits {
                item.refuse(report, "the fast device is smaller", "write a smaller size, or leave it out");
            }
            fits
        }),
    };
    let geometry = geometry(report, &mut table);
    let policies = [
        ("none", PolicyConfig::None),
        ("offline", PolicyConfig::Offline),
        ("online", PolicyConfig::Online(OnlineParameters::default())),
        ("lru", PolicyConfig::Lru),
        ("arc", PolicyConfig::Arc),
    ];
    let remedy = "write policy = \"online\", or \"none\", \"offline\", \"lru\" or \"arc\"";
    let policy = table.require(report, "policy", remedy).and_then(|item| item.choice(report, &policies));
    let overlap = table.take("overlap").map_or(Some(true), |item| item.flag(report));
    let copies = [("inside", false), ("scheduled", true)];
    let copies = table.take("copies").map_or(Some(false), |item| item.choice(report, &copies));
    table.finish(report);
    Some(HybridConfig {
        fast: fast?,
        slow: slow?,
        fast_bytes: fast_bytes?,
        geometry: geometry?,
        policy: policy?,
        overlap: overlap?,
        schedules_copies: copies?,
    })
}

fn geometry(report: &mut Report, table: &mut Table<'_>) -> Option<Geometry> {
    let mut size = |name, default: u32| match table.take(name) {
        None => Some(default),
        Some(item) => {
            let bytes = item.bytes(report)?;
            let size = u32::try_from(bytes).ok();
            if size.is_none() {
                item.refuse(report, format!("{bytes} B is too large"), "write a size below 4 GiB");
            }
            size
        }
    };
    let (cluster, block) = (size("cluster", 65_536)?, size("block", 4_096)?);
    match Geometry::new(cluster, block) {
        Ok(geometry) => Some(geometry),
        Err(error) => {
            let remedy = "write cluster = \"64 KiB\" and block = \"4 KiB\", or other powers of two";
            table.refuse(report, "cluster", error.to_string(), remedy);
            None
        }
    }
}

impl HybridConfig {
    /// Accesses that the two devices can work on at the same time.
    #[must_use]
    pub fn parallelism(&self) -> NonZeroU32 {
        if !self.overlap {
            return NonZeroU32::MIN;
        }
        self.fast.parallelism().saturating_add(self.slow.parallelism().get())
    }

    /// Bytes of the store: those of the slow device.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.slow.capacity().unwrap_or(0)
    }

    /// Access times of the two models, measured on fresh ones: what the gain equation goes by. `request` is the size
    /// of an access in bytes.
    #[must_use]
    pub fn access_times(&self, request: u32) -> AccessTimes {
        let flash_write = mean_time(&self.fast, Operation::Write, request);
        AccessTimes {
            disk_random_read: mean_time(&self.slow, Operation::Read, request),
            disk_random_write: mean_time(&self.slow, Operation::Write, request),
            flash_read: mean_time(&self.fast, Operation::Read, request),
            flash_write,
            flash_write_slope: Span::ZERO,
            flash_write_max: flash_write,
        }
    }

    /// The same with other random service times, where its devices have some.
    #[must_use]
    pub fn seeded(&self, seed: u64) -> Self {
        Self { fast: self.fast.seeded(seed), slow: self.slow.seeded(!seed), ..self.clone() }
    }

    /// The device; `chosen` are the clusters of the offline scheme.
    #[must_use]
    pub fn build(&self, chosen: &[Cluster]) -> HybridDevice {
        let policy: Box<dyn Policy> = match self.policy {
            PolicyConfig::None => Box::new(DiskOnly),
            PolicyConfig::Offline => Box::new(Offline::new(chosen.iter().copied())),
            PolicyConfig::Online(parameters) => match Online::new(parameters) {
                Ok(online) => Box::new(online),
                // Parameters that cannot be place nothing.
                Err(_) => Box::new(DiskOnly),
            },
            PolicyConfig::Lru => Box::new(Lru::default()),
            PolicyConfig::Arc => Box::new(Arc::default()),
        };
        let parts = HybridParts {
            fast: self.fast.build(),
            slow: self.slow.build(),
            geometry: self.geometry,
            bytes: self.bytes(),
            fast_bytes: self.fast_bytes,
            policy,
            background: Background {
                copy_bytes_max: if self.schedules_copies { COPY_BYTES_MAX } else { u32::MAX },
                release_batch_max: if self.schedules_copies { RELEASE_BATCH_MAX } else { 1 },
                ..Background::default()
            },
            preloaded: chosen.to_vec(),
            overlap: self.overlap,
        };
        HybridDevice::new(parts).expect("a map without entries is true of any devices")
    }

    /// How many clusters the fast device has room for.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.geometry.slots(self.fast_bytes)
    }

    /// What the offline scheme chooses of `profile`, if an access has `request` bytes.
    #[must_use]
    pub fn choose(&self, profile: &evenkeel_tiering::policy::Profile, request: u32) -> Vec<Cluster> {
        profile.choose(self.slots(), SEQUENTIAL_PERCENT_MAX, &self.access_times(request), 0)
    }
}

/// The mean time of random accesses, one at a time.
fn mean_time(spec: &Spec, operation: Operation, length: u32) -> Span {
    let mut device = spec.build();
    let mut random = Random::new(0, &[u64::from(length)]);
    let places = (spec.capacity().unwrap_or(0) / u64::from(length.max(1))).max(1);
    let mut now = Time::ZERO;
    for token in 0..PROBES {
        let offset = random.below(places) * u64::from(length);
        device.submit(now, Io { token, operation, offset, length });
        while let Some(at) = device.next_event() {
            if let Some(finished) = device.poll_completion(at) {
                now = finished.at;
                break;
            }
        }
    }
    Span::from_nanos(now.as_nanos() / PROBES)
}
