//! The files and block devices behind volumes.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use evenkeel_core::{Cost, CostModel, Operation};
use evenkeel_hybrid::{About, MapFile, OfflineError, Paths, belong_together, slots_at};
use evenkeel_tiering::store::longest_copy;
use evenkeel_tiering::{Background, Geometry, Hybrid};

use crate::config::{Config, HybridConfig, Placement, PolicyConfig, ShownBytes, StoreConfig, VolumeConfig};

/// How long to wait for a file that is locked, and how long between two attempts.
const LOCK_PATIENCE: Duration = Duration::from_secs(3);
const LOCK_RETRY: Duration = Duration::from_millis(20);
/// Clusters migrate in copies of at most this size: what a disk reads in about a millisecond. Where requests
/// are priced by size, see [`longest_copy`].
const COPY_BYTES_MAX: u32 = 128 << 10;
/// Slots are set free in batches of at most so many.
const RELEASE_BATCH_MAX: u32 = 64;

/// The opened files of one store.
pub(crate) struct Backings {
    /// Each file once.
    pub(crate) files: Vec<File>,
    /// For each of the store's volumes, in order: index into `files`, first byte, bytes.
    pub(crate) slices: Vec<Slice>,
    /// What makes a hybrid store of the first two files, the slow one and the fast one.
    pub(crate) hybrid: Option<HybridParts>,
}

/// The state of a hybrid store, and its durable map.
pub(crate) struct HybridParts {
    pub(crate) hybrid: Hybrid,
    pub(crate) map: MapFile,
    /// Where slot 0 begins on the fast device.
    pub(crate) fast_base: u64,
    pub(crate) config: HybridConfig,
    /// What copies cost: a read and a write each.
    pub(crate) cost: CostModel,
}

/// Where a volume's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) file: u32,
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

/// Why a backing cannot be used. Every message names the key, the path and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackingError {
    /// It is not there.
    #[error(
        "{key}: {path} does not exist; create it (for a file: truncate -s {need} {path}) or correct the path"
    )]
    Missing {
        /// The configuration key.
        key: String,
        /// The path.
        path: PathBuf,
        /// Bytes that the volumes need.
        need: u64,
    },
    /// It cannot be opened.
    #[error("{key}: cannot open {path} for {access}: {source}")]
    Open {
        /// The configuration key.
        key: String,
        /// The path.
        path: PathBuf,
        /// Reading, or reading and writing.
        access: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// It is neither a regular file nor a block device.
    #[error("{key}: {path} is neither a regular file nor a block device")]
    Kind {
        /// The configuration key.
        key: String,
        /// The path.
        path: PathBuf,
    },
    /// Another process has it.
    #[error(
        "{key}: {path} is locked by another process; stop that one first, two writers would corrupt the data"
    )]
    Locked {
        /// The configuration key.
        key: String,
        /// The path.
        path: PathBuf,
    },
    /// It ends before the volume does.
    #[error(
        "{key}: {path} has {have} bytes, but the volume ends at byte {need}; enlarge it (for a file: truncate -s {need} {path}) or make the volume smaller"
    )]
    TooSmall {
        /// The configuration key.
        key: String,
        /// The path.
        path: PathBuf,
        /// Bytes that it has.
        have: u64,
        /// Bytes that the volume needs.
        need: u64,
    },
    /// The fast device of a hybrid store is not there.
    #[error(
        "{key}: {path} does not exist; attach the fast device again, or serve what is not there with without_fast = true, or give up what only it has: evenkeel hybrid drain CONFIG STORE --without-fast"
    )]
    FastMissing {
        /// The configuration key.
        key: String,
        /// The path.
        path: PathBuf,
    },
    /// A store is to do without a fast device that is there.
    #[error("{key}: {path} is there; remove this key, the store needs it no more")]
    FastThere {
        /// The configuration key.
        key: String,
        /// The path.
        path: PathBuf,
    },
    /// The placement of the offline policy is of another store.
    #[error("{key}: {path} is for {what}; write it anew for this store with `evenkeel hybrid choose`")]
    ForeignPlacement {
        /// The configuration key.
        key: String,
        /// The placement's file.
        path: PathBuf,
        /// What it is for, and what the store has.
        what: String,
    },
    /// The parts of a hybrid store cannot be used together.
    #[error("{key}: {source}")]
    Hybrid {
        /// The configuration key.
        key: String,
        /// What is wrong.
        source: Box<OfflineError>,
    },
    /// A volume reaches beyond what the map of its hybrid store covers.
    #[error(
        "{key}: the volume ends at byte {need}, but the map covers {have}; take in the rest of the slow device: evenkeel hybrid resize CONFIG STORE"
    )]
    BeyondMap {
        /// The configuration key.
        key: String,
        /// Bytes that the map covers.
        have: u64,
        /// Bytes that the volume needs.
        need: u64,
    },
    /// Direct access needs larger blocks than the map has.
    #[error(
        "{key}: direct = true needs blocks of at least 4096 bytes, and this hybrid store was created with blocks of {block}; remove direct, or create it anew with --block 4KiB"
    )]
    SmallBlocks {
        /// The configuration key.
        key: String,
        /// Bytes of a block.
        block: u32,
    },
    /// A whole-file volume whose size is not a multiple of the block size.
    #[error("{key}: {path} has {have} bytes, which is no multiple of {block}; set the volume's size to one")]
    Unaligned {
        /// The configuration key.
        key: String,
        /// The path.
        path: PathBuf,
        /// Bytes that it has.
        have: u64,
        /// The block size.
        block: u32,
    },
}

/// Smallest unit of access: any byte through the page cache, 4 KiB around it.
pub(crate) fn block_minimum(store: &StoreConfig) -> u32 {
    if store.direct { 4096 } else { 1 }
}

/// Opens and locks every file that the volumes of store number `store` lie in.
pub(crate) fn open(config: &Config, store: usize) -> Result<Backings, BackingError> {
    let store_config = &config.stores[store];
    let mut opened: HashMap<PathBuf, (u32, u64)> = HashMap::new();
    if let Some(hybrid) = &store_config.hybrid {
        return open_hybrid(config, store, hybrid);
    }
    let mut backings = Backings { files: Vec::new(), slices: Vec::new(), hybrid: None };
    let volumes: Vec<&VolumeConfig> = config.volumes.iter().filter(|volume| volume.store == store).collect();
    for volume in &volumes {
        let (key, path) = location(store_config, volume);
        let sharing: Vec<&&VolumeConfig> =
            volumes.iter().filter(|other| location(store_config, other).1 == path).collect();
        let (file, have) = match opened.get(path) {
            Some(&known) => known,
            None => {
                let need =
                    sharing.iter().map(|other| other.offset + other.size.unwrap_or(0)).max().unwrap_or(0);
                let writable = sharing.iter().any(|other| !other.read_only);
                let (file, have) = open_one(&key, path, writable, store_config.direct, need)?;
                backings.files.push(file);
                let entry = (backings.files.len() as u32 - 1, have);
                opened.insert(path.to_path_buf(), entry);
                entry
            }
        };
        backings.slices.push(slice(store_config, volume, file, have)?);
    }
    Ok(backings)
}

/// Opens the slow and the fast device of a hybrid store, and its map.
fn open_hybrid(config: &Config, store: usize, hybrid: &HybridConfig) -> Result<Backings, BackingError> {
    let store_config = &config.stores[store];
    let name = &store_config.name;
    let key = |rest: &str| format!("store.{name}.{rest}");
    let fault = |rest: &'static str| {
        let key = key(rest);
        move |source: OfflineError| BackingError::Hybrid { key, source: Box::new(source) }
    };
    let slow = store_config.path.clone().unwrap_or_default();
    let paths = Paths { slow: slow.clone(), fast: hybrid.fast.clone(), map: hybrid.map.clone() };
    let map = open_map(&hybrid.map).map_err(fault("hybrid.map"))?;
    let about = *map.about();
    if hybrid.without_fast && hybrid.fast.exists() {
        return Err(BackingError::FastThere { key: key("hybrid.without_fast"), path: hybrid.fast.clone() });
    }
    if !hybrid.without_fast && !hybrid.fast.exists() {
        return Err(BackingError::FastMissing { key: key("hybrid.fast"), path: hybrid.fast.clone() });
    }
    let (slow_file, slow_bytes) =
        open_one(&key("path"), &slow, true, store_config.direct, about.store_bytes)?;
    let open_through_cache = |path: &Path| {
        let io = |source| OfflineError::Io { path: path.to_owned(), source };
        File::open(path).map_err(io).map_err(fault("hybrid.fast"))
    };
    let fast_file = if hybrid.without_fast {
        if slow_bytes < about.store_bytes {
            let (have, need) = (slow_bytes, about.store_bytes);
            return Err(fault("path")(OfflineError::Shrunk { path: slow, have, need }));
        }
        // It holds the place of the second file, and nothing accesses it.
        open_through_cache(Path::new("/dev/null"))?
    } else {
        let (file, bytes) =
            open_one(&key("hybrid.fast"), &hybrid.fast, true, store_config.direct, about.fast_bytes)?;
        // The label is smaller than what direct access can read.
        let label = open_through_cache(&hybrid.fast)?;
        belong_together(&paths, &about, &label, bytes, slow_bytes).map_err(fault("hybrid"))?;
        file
    };
    let mut slices = Vec::new();
    for volume in config.volumes_of(store) {
        let slice = slice(store_config, volume, 0, slow_bytes)?;
        let (have, need) = (about.store_bytes, slice.offset + slice.size);
        if need > have {
            return Err(BackingError::BeyondMap { key: format!("volume.{}", volume.name), have, need });
        }
        slices.push(slice);
    }
    if store_config.direct && about.block_bytes < block_minimum(store_config) {
        return Err(BackingError::SmallBlocks { key: key("direct"), block: about.block_bytes });
    }
    if let PolicyConfig::Offline(placement) = &hybrid.policy
        && let Some(what) = foreign(placement, &about)
    {
        let (key, path) = (key("hybrid.placement"), placement.path.clone());
        return Err(BackingError::ForeignPlacement { key, path, what });
    }
    let dearest = dearest_promised(config.volumes_of(store));
    let parts = hybrid_parts(hybrid, map, &store_config.cost, dearest).map_err(fault("hybrid.map"))?;
    Ok(Backings { files: vec![slow_file, fast_file], slices, hybrid: Some(parts) })
}

/// Why a placement is not of the store with this map, in words.
fn foreign(placement: &Placement, about: &About) -> Option<String> {
    let (planned, present) = (placement.cluster_bytes, about.cluster_bytes);
    if planned != present {
        let (planned, present) = (ShownBytes(planned.into()), ShownBytes(present.into()));
        return Some(format!("clusters of {planned}, and the store has clusters of {present}"));
    }
    let clusters = about.store_bytes.div_ceil(present.into());
    let last = placement.clusters.last().filter(|last| **last >= clusters)?;
    Some(format!("a store with a cluster {last}, and this one has {clusters}, from 0"))
}

/// What the dearest READ or WRITE of a volume that is promised something costs.
fn dearest_promised<'v>(volumes: impl Iterator<Item = &'v VolumeConfig>) -> Option<Cost> {
    let promised = volumes.filter(|volume| volume.slo.envelope().is_some());
    let costs = promised.flat_map(|volume| {
        let longest =
            volume.request_max.min(volume.size.map_or(u32::MAX, |size| size.min(u32::MAX.into()) as u32));
        [Operation::Read, Operation::Write].map(|operation| volume.cost.cost(operation, longest))
    });
    costs.max()
}

fn hybrid_parts(
    config: &HybridConfig,
    map: MapFile,
    cost: &CostModel,
    dearest: Option<Cost>,
) -> Result<HybridParts, OfflineError> {
    let about = *map.about();
    let geometry = Geometry::new(about.cluster_bytes, about.block_bytes)?;
    let background = Background {
        migrations_max: config.migrations as usize,
        release_batch_max: RELEASE_BATCH_MAX,
        copy_bytes_max: dearest
            .map_or(COPY_BYTES_MAX, |dearest| longest_copy(cost, about.block_bytes, COPY_BYTES_MAX, dearest)),
        ..Background::default()
    };
    let policy = config.policy.build();
    let mut hybrid =
        Hybrid::new(geometry, about.store_bytes, about.fast_bytes, policy, background, map.load()?)
            .map_err(|source| OfflineError::Map { path: config.map.clone(), source })?;
    if config.without_fast {
        hybrid.without_fast();
    }
    let (fast_base, config) = (slots_at(about.cluster_bytes), config.clone());
    Ok(HybridParts { hybrid, map, fast_base, config, cost: cost.clone() })
}

/// Waits a little for a map that is in use, as [`lock`] does for files.
fn open_map(path: &Path) -> Result<MapFile, OfflineError> {
    let give_up = Instant::now() + LOCK_PATIENCE;
    loop {
        match MapFile::open(path) {
            Err(error) if error.is_in_use() && Instant::now() < give_up => thread::sleep(LOCK_RETRY),
            other => return Ok(other?),
        }
    }
}

/// The key that names a volume's backing, and the path.
fn location<'a>(store: &'a StoreConfig, volume: &'a VolumeConfig) -> (String, &'a Path) {
    match (&volume.path, &store.path) {
        (Some(path), _) => (format!("volume.{}.path", volume.name), path),
        (None, Some(path)) => (format!("store.{}.path", store.name), path),
        (None, None) => unreachable!("the configuration gives every volume a path"),
    }
}

fn slice(store: &StoreConfig, volume: &VolumeConfig, file: u32, have: u64) -> Result<Slice, BackingError> {
    let (_, path) = location(store, volume);
    let path = path.to_path_buf();
    let size = volume.size.unwrap_or_else(|| have.saturating_sub(volume.offset));
    let need = volume.offset + size;
    let key = format!("volume.{}", volume.name);
    if need > have || size == 0 {
        return Err(BackingError::TooSmall { key, path, have, need: need.max(volume.offset + 512) });
    }
    let block = block_minimum(store);
    if !size.is_multiple_of(u64::from(block)) {
        return Err(BackingError::Unaligned { key, path, have, block });
    }
    Ok(Slice { file, offset: volume.offset, size })
}

fn open_one(
    key: &str,
    path: &Path,
    writable: bool,
    direct: bool,
    need: u64,
) -> Result<(File, u64), BackingError> {
    let (key, owned) = (key.to_owned(), path.to_path_buf());
    let access = if writable { "reading and writing" } else { "reading" };
    let mut options = OpenOptions::new();
    options.read(true).write(writable);
    if direct {
        options.custom_flags(libc::O_DIRECT);
    }
    let mut file = match options.open(path) {
        Ok(file) => file,
        Err(source) if source.kind() == io::ErrorKind::NotFound => {
            return Err(BackingError::Missing { key, path: owned, need });
        }
        Err(source) => return Err(BackingError::Open { key, path: owned, access, source }),
    };
    let open_error = |source| BackingError::Open { key: key.clone(), path: owned.clone(), access, source };
    let kind = file.metadata().map_err(open_error)?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(BackingError::Kind { key, path: owned });
    }
    lock(&file, writable).map_err(|error| match error.raw_os_error() {
        Some(libc::EWOULDBLOCK) => BackingError::Locked { key: key.clone(), path: owned.clone() },
        _ => open_error(error),
    })?;
    // Seeking to the end gives the size of files and of block devices alike.
    let have = file.seek(SeekFrom::End(0)).map_err(open_error)?;
    Ok((file, have))
}

/// Lets other processes have `file`, also while something still holds its description open.
pub(crate) fn unlock(file: &File) {
    // There is nothing to be done about a failure; the lock goes with the description.
    // SAFETY: plain system call on an open descriptor.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) };
}

/// Waits a little for a lock: the kernel takes the ring of a process that was killed apart in its
/// own time, and until then the files in it keep their locks.
pub(crate) fn lock(file: &File, writable: bool) -> io::Result<()> {
    let operation = if writable { libc::LOCK_EX } else { libc::LOCK_SH };
    let give_up = Instant::now() + LOCK_PATIENCE;
    loop {
        // SAFETY: plain system call on an open descriptor.
        if unsafe { libc::flock(file.as_raw_fd(), operation | libc::LOCK_NB) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EWOULDBLOCK) || Instant::now() >= give_up {
            return Err(error);
        }
        thread::sleep(LOCK_RETRY);
    }
}
