//! A hybrid store driven without a gateway: one thread, one request at a time.
//!
//! ```text
//!  check   label and map agree · every entry possible · every block on the fast device readable
//!  drain   all blocks back home, map empty; the label is erased last
//!  resize  a larger fast device: as is · a smaller one: what lies beyond goes home first
//! ```

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use evenkeel_core::{FlowId, Operation};
use evenkeel_tiering::policy::{DiskOnly, Policy};
use evenkeel_tiering::store::{Background, HybridRequest, Output, TierAccess};
use evenkeel_tiering::{Change, Cluster, Entry, Geometry, GeometryError, Hybrid, Map, MapError, Tier};

use crate::{About, Label, LabelError, MapFile, MapFileError, new_identity, slots_at};

/// The three parts of a hybrid store.
#[derive(Clone, Debug)]
pub struct Paths {
    /// The slow device or file.
    pub slow: PathBuf,
    /// The fast device or file.
    pub fast: PathBuf,
    /// The location map.
    pub map: PathBuf,
}

/// A hybrid store, opened and locked.
pub struct Offline {
    paths: Paths,
    slow: File,
    fast: File,
    map: MapFile,
    geometry: Geometry,
    hybrid: Hybrid,
    done: Option<Result<(), evenkeel_tiering::Fault>>,
    read: Vec<u8>,
    last_error: Option<io::Error>,
}

/// How far a long operation is: clusters done and clusters in all.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// Something that `check` found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The cluster that it concerns; `None` for the store as a whole.
    pub cluster: Option<Cluster>,
    /// What is wrong, in words.
    pub problem: String,
}

/// Why a hybrid store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// A device or file cannot be opened or used.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody else has it.
    #[error("{0}: is in use by another process; stop the gateway (or the other command) first")]
    Locked(PathBuf),
    /// The map is unusable.
    #[error(transparent)]
    MapFile(#[from] MapFileError),
    /// The map contradicts itself or the devices.
    #[error("{path}: {source}")]
    Map {
        /// The map.
        path: PathBuf,
        /// What contradicts what.
        source: MapError,
    },
    /// The fast device is not the one.
    #[error("{path}: {source}")]
    Label {
        /// The fast device.
        path: PathBuf,
        /// What is wrong with its label.
        source: LabelError,
    },
    /// Map and fast device do not belong together.
    #[error("{fast} is not the fast device that {map} describes; give the paths of one store")]
    Strangers {
        /// The fast device.
        fast: PathBuf,
        /// The map.
        map: PathBuf,
    },
    /// A device is smaller than the map says.
    #[error("{path} has {have} bytes, fewer than the {need} that the map counts on")]
    Shrunk {
        /// The device.
        path: PathBuf,
        /// Its bytes.
        have: u64,
        /// What is needed.
        need: u64,
    },
    /// The fast device is there, so there is no need to give up what it has.
    #[error("{0} is there; bring home what it has: evenkeel hybrid drain, without --without-fast")]
    NotGone(PathBuf),
    /// The sizes in the map or the request are impossible.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// Not everything could be brought home.
    #[error("{left} clusters could not be copied back from {fast}: {source}")]
    NotDrained {
        /// The fast device.
        fast: PathBuf,
        /// How many are left there.
        left: u64,
        /// The last error.
        source: io::Error,
    },
}

impl Offline {
    /// Makes a hybrid store: labels the fast device, which must be empty at its beginning, and creates the
    /// map. The slow device keeps its content.
    ///
    /// # Errors
    /// [`OfflineError`]; nothing has then been created.
    pub fn create(paths: &Paths, geometry: Geometry) -> Result<(), OfflineError> {
        let (slow, store_bytes) = open(&paths.slow)?;
        let (fast, fast_total) = open(&paths.fast)?;
        match Label::read(&fast) {
            Err(LabelError::Missing) => {}
            Ok(_) => {
                let source = LabelError::Taken;
                return Err(OfflineError::Label { path: paths.fast.clone(), source });
            }
            Err(source) => return Err(OfflineError::Label { path: paths.fast.clone(), source }),
        }
        let cluster_bytes = geometry.cluster_bytes();
        let need = slots_at(cluster_bytes) + u64::from(cluster_bytes);
        if fast_total < need {
            return Err(OfflineError::Shrunk { path: paths.fast.clone(), have: fast_total, need });
        }
        let identity = new_identity().map_err(|source| io_error(&paths.fast, source))?;
        let about = About {
            identity,
            cluster_bytes,
            block_bytes: geometry.block_bytes(),
            store_bytes,
            fast_bytes: fast_total - slots_at(cluster_bytes),
        };
        drop(slow);
        let map = MapFile::create(&paths.map, &about)?;
        drop(map);
        Label { identity, cluster_bytes }.write(&fast).map_err(|source| {
            // A map without its device would only stand in the way of the next attempt.
            let _ = std::fs::remove_file(&paths.map);
            io_error(&paths.fast, source)
        })
    }

    /// Opens a store whose requests follow `policy`.
    ///
    /// # Errors
    /// [`OfflineError`] if a part is missing, in use, or does not belong to the others.
    pub fn open(paths: &Paths, policy: Box<dyn Policy>) -> Result<Self, OfflineError> {
        let (slow, fast, map) = open_parts(paths)?;
        let about = *map.about();
        let geometry = Geometry::new(about.cluster_bytes, about.block_bytes)?;
        let stored = map.load()?;
        let hybrid =
            Hybrid::new(geometry, about.store_bytes, about.fast_bytes, policy, Background::default(), stored)
                .map_err(|source| OfflineError::Map { path: paths.map.clone(), source })?;
        Ok(Self {
            paths: paths.clone(),
            slow,
            fast,
            map,
            geometry,
            hybrid,
            done: None,
            read: Vec::new(),
            last_error: None,
        })
    }

    /// Looks for everything that may be wrong, reading every block on the fast device. With `repair`,
    /// entries that are impossible or unreadable are given up: their blocks are again what the slow
    /// device holds, which is older.
    ///
    /// # Errors
    /// [`OfflineError`] if a part is missing, in use, or does not belong to the others.
    pub fn check(paths: &Paths, repair: bool, progress: Progress<'_>) -> Result<Vec<Finding>, OfflineError> {
        let (_slow, fast, map) = open_parts(paths)?;
        let about = *map.about();
        let geometry = Geometry::new(about.cluster_bytes, about.block_bytes)?;
        let slots = geometry.slots(about.fast_bytes);
        let stored = map.load()?;
        let total = stored.len() as u64;
        let mut sound: Vec<(Cluster, Entry)> = Vec::new();
        let mut owners = std::collections::BTreeMap::new();
        let mut findings = Vec::new();
        for (index, (cluster, entry)) in stored.into_iter().enumerate() {
            progress(index as u64, total);
            let possible = Map::load(geometry, slots, about.store_bytes, [(cluster, entry)]).map(|_| ());
            let possible = possible.and_then(|()| match owners.insert(entry.slot, cluster) {
                Some(first) => Err(MapError::SlotTwice { slot: entry.slot, first, second: cluster }),
                None => Ok(()),
            });
            let problem = match possible {
                Err(error) => Some(error.to_string()),
                Ok(()) => unreadable(geometry, &fast, entry).err().map(|error| {
                    format!("cluster {cluster}: its blocks in slot {} cannot be read: {error}", entry.slot)
                }),
            };
            match problem {
                Some(problem) => findings.push(Finding { cluster: Some(cluster), problem }),
                None => sound.push((cluster, entry)),
            }
        }
        progress(total, total);
        if repair && !findings.is_empty() {
            let changes: Vec<Change> = findings
                .iter()
                .filter_map(|finding| finding.cluster)
                .map(|cluster| Change { cluster, entry: None })
                .collect();
            map.commit(&changes)?;
        }
        Ok(findings)
    }

    /// Brings every block home and empties the map; the fast device can then be removed.
    ///
    /// # Errors
    /// [`OfflineError::NotDrained`] if blocks could not be copied; those that could be are home.
    pub fn drain(&mut self, progress: Progress<'_>) -> Result<(), OfflineError> {
        self.hybrid.set_policy(Box::new(DiskOnly));
        let total = u64::from(self.hybrid.slots().0);
        self.hybrid.drain();
        self.work(|used| progress(total - u64::from(used).min(total), total));
        let left = u64::from(self.hybrid.slots().0);
        if left > 0 {
            let source = self.last_error.take().unwrap_or_else(|| io::Error::other("unknown error"));
            return Err(OfflineError::NotDrained { fast: self.paths.fast.clone(), left, source });
        }
        Ok(())
    }

    /// Drains the store and dissolves it: erases the label and removes the map. The slow device is then
    /// complete by itself.
    ///
    /// # Errors
    /// As [`Offline::drain`], or if label or map cannot be removed.
    pub fn dissolve(mut self, progress: Progress<'_>) -> Result<(), OfflineError> {
        self.drain(progress)?;
        Label::erase(&self.fast).map_err(|source| io_error(&self.paths.fast, source))?;
        let path = self.paths.map.clone();
        drop(self);
        std::fs::remove_file(&path).map_err(|source| io_error(&path, source))
    }

    /// Gives up what only the fast device has, which must be gone: every block is again what the slow device
    /// holds, which is older. The map is kept aside, under its name with `.abandoned`. The entries given up.
    ///
    /// # Errors
    /// [`OfflineError::NotGone`] if the fast device is there; nothing has happened then.
    pub fn abandon(paths: &Paths) -> Result<Vec<(Cluster, Entry)>, OfflineError> {
        let map = MapFile::open(&paths.map)?;
        let (_slow, _) = open(&paths.slow)?;
        if let Ok((fast, _)) = open(&paths.fast)
            && Label::read(&fast).is_ok_and(|label| label.identity == map.about().identity)
        {
            return Err(OfflineError::NotGone(paths.fast.clone()));
        }
        let entries = map.load()?;
        drop(map);
        let mut aside = paths.map.clone().into_os_string();
        aside.push(".abandoned");
        std::fs::rename(&paths.map, aside).map_err(|source| io_error(&paths.map, source))?;
        Ok(entries)
    }

    /// Takes note of other sizes: of the fast device, in bytes with its label (`None` for all of it), and of
    /// a slow device that has grown. What lies beyond a smaller fast device goes home first.
    ///
    /// # Errors
    /// [`OfflineError`] if a device is smaller than that, or blocks could not be copied home.
    pub fn resize(mut self, fast_total: Option<u64>, progress: Progress<'_>) -> Result<About, OfflineError> {
        let store_bytes = length(&self.slow).map_err(|source| io_error(&self.paths.slow, source))?;
        let have = length(&self.fast).map_err(|source| io_error(&self.paths.fast, source))?;
        let fast_total = fast_total.unwrap_or(have);
        let base = slots_at(self.geometry.cluster_bytes());
        let need = base + u64::from(self.geometry.cluster_bytes());
        if have < fast_total || fast_total < need {
            let need = fast_total.max(need);
            return Err(OfflineError::Shrunk { path: self.paths.fast.clone(), have, need });
        }
        let fast_bytes = fast_total - base;
        let slots = self.geometry.slots(fast_bytes);
        if self.hybrid.entries().iter().any(|(_, entry)| entry.slot >= slots) {
            // Slots are not moved one by one: policies fill the device again with what is worth it.
            self.drain(progress)?;
        }
        self.map.set_sizes(store_bytes, fast_bytes)?;
        Ok(*self.map.about())
    }

    /// What the map belongs to.
    #[must_use]
    pub fn about(&self) -> &About {
        self.map.about()
    }

    /// All entries, by cluster.
    #[must_use]
    pub fn entries(&self) -> Vec<(Cluster, Entry)> {
        self.hybrid.entries()
    }

    /// Reads from the store.
    ///
    /// # Errors
    /// If a device fails.
    pub fn read(&mut self, offset: u64, length: u32) -> io::Result<Vec<u8>> {
        self.read = vec![0; length as usize];
        self.request(Operation::Read, offset, length, &[])?;
        Ok(std::mem::take(&mut self.read))
    }

    /// Writes to the store.
    ///
    /// # Errors
    /// If a device fails.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.request(Operation::Write, offset, data.len() as u32, data)
    }

    /// Makes everything written durable.
    ///
    /// # Errors
    /// If a device or the map fails.
    pub fn flush(&mut self) -> io::Result<()> {
        self.request(Operation::Flush, 0, 0, &[])
    }

    fn request(&mut self, operation: Operation, offset: u64, length: u32, data: &[u8]) -> io::Result<()> {
        self.done = None;
        let request = HybridRequest { token: 0, flow: FlowId(0), operation, fua: false, offset, length };
        self.hybrid.submit(&request);
        self.work_with(data, |_| {});
        match self.done.take() {
            Some(Ok(())) => Ok(()),
            Some(Err(fault)) => Err(self.last_error.take().unwrap_or_else(|| io::Error::other(fault))),
            None => Err(io::Error::other("the request was not answered")),
        }
    }

    fn work(&mut self, progress: impl FnMut(u32)) {
        self.work_with(&[], progress);
    }

    /// Carries out what the state machine asks for until it asks for nothing more.
    fn work_with(&mut self, data: &[u8], mut progress: impl FnMut(u32)) {
        while let Some(output) = self.hybrid.poll_output() {
            match output {
                Output::Access(access) => {
                    let result = self.access(&access, data);
                    let succeeded = self.note(result);
                    self.hybrid.on_access_done(access.id, succeeded);
                }
                Output::Copy(copy) => {
                    let result = self.copy(&copy);
                    let succeeded = self.note(result);
                    self.hybrid.on_copy_done(copy.id, succeeded);
                }
                Output::Sync(tier) => {
                    let result = self.device(tier).0.sync_data();
                    let succeeded = self.note(result);
                    self.hybrid.on_sync_done(tier, succeeded);
                }
                Output::Commit(changes) => {
                    let result = self.map.commit(&changes).map_err(io::Error::other);
                    let succeeded = self.note(result);
                    self.hybrid.on_commit_done(succeeded);
                }
                Output::Done { outcome, .. } => self.done = Some(outcome),
            }
            progress(self.hybrid.slots().0);
        }
    }

    fn note(&mut self, result: io::Result<()>) -> bool {
        result.map_err(|error| self.last_error = Some(error)).is_ok()
    }

    fn device(&self, tier: Tier) -> (&File, u64) {
        match tier {
            Tier::Fast => (&self.fast, slots_at(self.geometry.cluster_bytes())),
            Tier::Slow => (&self.slow, 0),
        }
    }

    fn access(&mut self, access: &TierAccess, data: &[u8]) -> io::Result<()> {
        let within = access.within as usize..(access.within + access.length) as usize;
        if access.operation == Operation::Read {
            let mut bytes = std::mem::take(&mut self.read);
            let (file, base) = self.device(access.tier);
            let result = file.read_exact_at(&mut bytes[within], base + access.offset);
            self.read = bytes;
            return result;
        }
        let (file, base) = self.device(access.tier);
        file.write_all_at(&data[within], base + access.offset)
    }

    fn copy(&self, copy: &evenkeel_tiering::Copy) -> io::Result<()> {
        let to = if copy.from == Tier::Fast { Tier::Slow } else { Tier::Fast };
        let mut bytes = vec![0; copy.length as usize];
        let (file, base) = self.device(copy.from);
        file.read_exact_at(&mut bytes, base + copy.from_offset)?;
        let (file, base) = self.device(to);
        file.write_all_at(&bytes, base + copy.to_offset)
    }
}

/// Reads all blocks of an entry.
fn unreadable(geometry: Geometry, fast: &File, entry: Entry) -> io::Result<()> {
    let block = geometry.block_bytes();
    let base = slots_at(geometry.cluster_bytes()) + geometry.slot_offset(entry.slot);
    for (first, end) in entry.on_fast.runs(geometry.blocks()) {
        let mut bytes = vec![0; ((end - first) * block) as usize];
        fast.read_exact_at(&mut bytes, base + u64::from(first * block))?;
    }
    Ok(())
}

fn open_parts(paths: &Paths) -> Result<(File, File, MapFile), OfflineError> {
    let map = MapFile::open(&paths.map)?;
    let (slow, slow_bytes) = open(&paths.slow)?;
    let (fast, fast_total) = open(&paths.fast)?;
    belong_together(paths, map.about(), &fast, fast_total, slow_bytes)?;
    Ok((slow, fast, map))
}

/// Whether these devices are the ones that the map is about, and still large enough. `fast` is read
/// through the page cache.
///
/// # Errors
/// [`OfflineError`] naming the part that does not fit.
pub fn belong_together(
    paths: &Paths,
    about: &About,
    fast: &File,
    fast_total: u64,
    slow_bytes: u64,
) -> Result<(), OfflineError> {
    let label =
        Label::read(fast).map_err(|source| OfflineError::Label { path: paths.fast.clone(), source })?;
    if label.identity != about.identity || label.cluster_bytes != about.cluster_bytes {
        return Err(OfflineError::Strangers { fast: paths.fast.clone(), map: paths.map.clone() });
    }
    let fast_need = about.fast_bytes + slots_at(about.cluster_bytes);
    for (path, have, need) in
        [(&paths.slow, slow_bytes, about.store_bytes), (&paths.fast, fast_total, fast_need)]
    {
        if have < need {
            return Err(OfflineError::Shrunk { path: path.clone(), have, need });
        }
    }
    Ok(())
}

fn open(path: &Path) -> Result<(File, u64), OfflineError> {
    let file = OpenOptions::new().read(true).write(true).open(path);
    let file = file.map_err(|source| io_error(path, source))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(OfflineError::Locked(path.to_owned())),
        Err(TryLockError::Error(source)) => return Err(io_error(path, source)),
    }
    let bytes = length(&file).map_err(|source| io_error(path, source))?;
    Ok((file, bytes))
}

/// Bytes of a file or block device.
fn length(file: &File) -> io::Result<u64> {
    let mut file = file;
    file.seek(SeekFrom::End(0))
}

fn io_error(path: &Path, source: io::Error) -> OfflineError {
    OfflineError::Io { path: path.to_owned(), source }
}
