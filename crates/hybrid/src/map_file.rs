//! The location map on disk: an embedded database, one transaction per round of flushes.
//!
//! ```text
//!  table about      name ─> number        version, sizes, identity in two halves
//!  table clusters   cluster ─> 36 bytes   slot (4), blocks on fast (4 × 8), little-endian
//! ```

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use evenkeel_tiering::{Blocks, Change, Cluster, Entry};
use redb::backends::FileBackend;
use redb::{Database, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};

use crate::Identity;

const ABOUT: TableDefinition<&str, u64> = TableDefinition::new("about");
const CLUSTERS: TableDefinition<u64, [u8; ENTRY_BYTES]> = TableDefinition::new("clusters");
/// Bytes of a stored entry.
pub const ENTRY_BYTES: usize = 36;
const VERSION: u64 = 1;
/// Memory for the database's pages.
const CACHE_BYTES: usize = 16 << 20;

/// What a map belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// The same as on the fast device's label.
    pub identity: Identity,
    /// Bytes of a cluster.
    pub cluster_bytes: u32,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Bytes of the slow device that belong to the store.
    pub store_bytes: u64,
    /// Bytes of the fast device behind its label.
    pub fast_bytes: u64,
}

/// A location map.
#[derive(Debug)]
pub struct MapFile {
    path: PathBuf,
    database: Database,
    about: About,
}

/// Why a map cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MapFileError {
    /// There is a file where a new map was to be made.
    #[error(
        "{0}: exists already; it is the only record of what lies on the fast device, so it is not replaced"
    )]
    Exists(PathBuf),
    /// There is no such file.
    #[error("{0}: there is no such map; `evenkeel hybrid create` makes the map of a new store")]
    Missing(PathBuf),
    /// The database refuses.
    #[error("{path}: {source}")]
    Database {
        /// The file.
        path: PathBuf,
        /// What the database says.
        source: Box<redb::Error>,
    },
    /// Another process has it.
    #[error("{0}: is in use by another process; stop the gateway (or the other command) first")]
    InUse(PathBuf),
    /// It was damaged in a way that the database did not expect.
    #[error(
        "{path}: the location map is damaged ({problem}); put back a copy of it, or, without one, move it aside, erase the first 4 KiB of the fast device and create the store anew: what only the fast device has is then lost"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What the database stumbled over.
        problem: String,
    },
    /// It is no map, or one that another version made.
    #[error("{path}: {problem}")]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

impl MapFileError {
    /// Whether another process has the map.
    #[must_use]
    pub const fn is_in_use(&self) -> bool {
        matches!(self, Self::InUse(_))
    }
}

impl MapFile {
    /// Makes an empty map at `path`.
    ///
    /// # Errors
    /// If there is a file already, or none can be made.
    pub fn create(path: &Path, about: &About) -> Result<Self, MapFileError> {
        let file = std::fs::OpenOptions::new().read(true).write(true).create_new(true).open(path);
        let file = file.map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => MapFileError::Exists(path.to_owned()),
            _ => failed(path, redb::Error::from(redb::StorageError::from(error))),
        })?;
        let database = Database::builder()
            .set_cache_size(CACHE_BYTES)
            .create_with_backend(FileBackend::new(file).map_err(|error| failed(path, error.into()))?)
            .map_err(|error| failed(path, error.into()))?;
        Self::initialize(path, database, about)
    }

    /// Opens the map at `path`.
    ///
    /// # Errors
    /// If it is missing, in use, damaged, or of another version.
    pub fn open(path: &Path) -> Result<Self, MapFileError> {
        if !path.exists() {
            return Err(MapFileError::Missing(path.to_owned()));
        }
        // The database panics over some damage, before it can tell that it is damaged.
        caught(path, || {
            let database =
                Database::builder().set_cache_size(CACHE_BYTES).open(path).map_err(|error| match error {
                    redb::DatabaseError::DatabaseAlreadyOpen => MapFileError::InUse(path.to_owned()),
                    other => failed(path, other.into()),
                })?;
            Self::recognise(path, database)
        })
    }

    /// Opens the map on `backend`, or makes one there if it is empty; for tests that inject faults.
    ///
    /// # Errors
    /// As [`MapFile::create`] and [`MapFile::open`].
    pub fn on_backend(backend: impl StorageBackend, about: &About) -> Result<Self, MapFileError> {
        let path = Path::new("(memory)");
        let is_new =
            backend.len().map_err(|error| failed(path, redb::StorageError::from(error).into()))? == 0;
        let database = Database::builder()
            .set_cache_size(CACHE_BYTES)
            .create_with_backend(backend)
            .map_err(|error| failed(path, error.into()))?;
        // A crash may have left a database without our tables.
        let is_blank = || {
            let read = database.begin_read().ok()?;
            Some(read.open_table(ABOUT).is_err())
        };
        if is_new || is_blank() == Some(true) {
            return Self::initialize(path, database, about);
        }
        Self::recognise(path, database)
    }

    /// What the map belongs to.
    #[must_use]
    pub const fn about(&self) -> &About {
        &self.about
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All entries, by cluster.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn load(&self) -> Result<Vec<(Cluster, Entry)>, MapFileError> {
        caught(&self.path, || self.try_load().map_err(|error| failed(&self.path, error)))
    }

    /// Makes `changes` durable, all of them or none.
    ///
    /// # Errors
    /// If the database cannot be written. Whether the changes took place is then not known.
    pub fn commit(&self, changes: &[Change]) -> Result<(), MapFileError> {
        self.try_commit(changes).map_err(|error| failed(&self.path, error))
    }

    /// Notes other sizes of the devices.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn set_sizes(&mut self, store_bytes: u64, fast_bytes: u64) -> Result<(), MapFileError> {
        let about = About { store_bytes, fast_bytes, ..self.about };
        write_about(&self.database, &about).map_err(|error| failed(&self.path, error))?;
        self.about = about;
        Ok(())
    }

    fn initialize(path: &Path, database: Database, about: &About) -> Result<Self, MapFileError> {
        write_about(&database, about).map_err(|error| failed(path, error))?;
        Ok(Self { path: path.to_owned(), database, about: *about })
    }

    fn recognise(path: &Path, database: Database) -> Result<Self, MapFileError> {
        let about = read_about(&database).map_err(|error| failed(path, error))?;
        let about = about.map_err(|problem| MapFileError::Format { path: path.to_owned(), problem })?;
        Ok(Self { path: path.to_owned(), database, about })
    }

    fn try_load(&self) -> Result<Vec<(Cluster, Entry)>, redb::Error> {
        let read = self.database.begin_read()?;
        let table = read.open_table(CLUSTERS)?;
        let mut entries = Vec::new();
        for row in table.iter()? {
            let (cluster, bytes) = row?;
            entries.push((cluster.value(), entry_from_bytes(bytes.value())));
        }
        Ok(entries)
    }

    fn try_commit(&self, changes: &[Change]) -> Result<(), redb::Error> {
        // Durability::Immediate is the default: the commit returns after its sync.
        let write = self.database.begin_write()?;
        {
            let mut table = write.open_table(CLUSTERS)?;
            for change in changes {
                match change.entry {
                    Some(entry) => table.insert(change.cluster, entry_to_bytes(entry))?,
                    None => table.remove(change.cluster)?,
                };
            }
        }
        write.commit()?;
        Ok(())
    }
}

fn write_about(database: &Database, about: &About) -> Result<(), redb::Error> {
    let half = |from: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&about.identity[from..from + 8]);
        u64::from_le_bytes(bytes)
    };
    let write = database.begin_write()?;
    {
        let mut table = write.open_table(ABOUT)?;
        for (name, value) in [
            ("version", VERSION),
            ("identity_low", half(0)),
            ("identity_high", half(8)),
            ("cluster_bytes", u64::from(about.cluster_bytes)),
            ("block_bytes", u64::from(about.block_bytes)),
            ("store_bytes", about.store_bytes),
            ("fast_bytes", about.fast_bytes),
        ] {
            table.insert(name, value)?;
        }
        write.open_table(CLUSTERS)?;
    }
    write.commit()?;
    Ok(())
}

fn read_about(database: &Database) -> Result<Result<About, String>, redb::Error> {
    let read = database.begin_read()?;
    let table = match read.open_table(ABOUT) {
        Err(redb::TableError::TableDoesNotExist(_)) => {
            return Ok(Err("this database is no location map of a hybrid store".to_owned()));
        }
        other => other?,
    };
    let number = |name: &str| -> Result<Option<u64>, redb::Error> { Ok(table.get(name)?.map(|v| v.value())) };
    let version = number("version")?;
    if version != Some(VERSION) {
        let found = version.map_or("none".to_owned(), |version| version.to_string());
        return Ok(Err(format!("its version is {found}, and this program knows version {VERSION}")));
    }
    let (Some(low), Some(high)) = (number("identity_low")?, number("identity_high")?) else {
        return Ok(Err("it names no identity".to_owned()));
    };
    let mut identity = [0; 16];
    identity[..8].copy_from_slice(&low.to_le_bytes());
    identity[8..].copy_from_slice(&high.to_le_bytes());
    let size = |name: &str| number(name).map(|value| value.and_then(|value| u32::try_from(value).ok()));
    let (Some(cluster_bytes), Some(block_bytes)) = (size("cluster_bytes")?, size("block_bytes")?) else {
        return Ok(Err("it names no sizes of clusters and blocks".to_owned()));
    };
    let (Some(store_bytes), Some(fast_bytes)) = (number("store_bytes")?, number("fast_bytes")?) else {
        return Ok(Err("it names no sizes of its devices".to_owned()));
    };
    Ok(Ok(About { identity, cluster_bytes, block_bytes, store_bytes, fast_bytes }))
}

/// An entry as it is stored.
#[must_use]
pub fn entry_to_bytes(entry: Entry) -> [u8; ENTRY_BYTES] {
    let mut bytes = [0; ENTRY_BYTES];
    bytes[..4].copy_from_slice(&entry.slot.to_le_bytes());
    for (word, chunk) in entry.on_fast.words().iter().zip(bytes[4..].chunks_exact_mut(8)) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// A stored entry. Any bytes are one: whether it is possible is for [`evenkeel_tiering::Map::load`] to say.
#[must_use]
pub fn entry_from_bytes(bytes: [u8; ENTRY_BYTES]) -> Entry {
    let word = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(word)
    };
    let slot = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    Entry { slot, on_fast: Blocks::from_words([word(4), word(12), word(20), word(28)]) }
}

/// What `action` gives; a panic of the database as an error.
fn caught<T>(path: &Path, action: impl FnOnce() -> Result<T, MapFileError>) -> Result<T, MapFileError> {
    catch_unwind(AssertUnwindSafe(action)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("unknown");
        Err(MapFileError::Damaged { path: path.to_owned(), problem: text.to_owned() })
    })
}

fn failed(path: &Path, source: redb::Error) -> MapFileError {
    MapFileError::Database { path: path.to_owned(), source: Box::new(source) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about() -> About {
        About {
            identity: *b"0123456789abcdef",
            cluster_bytes: 65536,
            block_bytes: 4096,
            store_bytes: 1 << 30,
            fast_bytes: 1 << 24,
        }
    }

    #[test]
    fn a_map_is_read_as_committed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("map");
        let entry = |slot, first| Entry { slot, on_fast: Blocks::range(first, 16) };
        let map = MapFile::create(&path, &about()).expect("created");
        let change = |cluster, entry| Change { cluster, entry };
        map.commit(&[change(7, Some(entry(0, 3))), change(u64::MAX, Some(entry(1, 0)))]).expect("committed");
        map.commit(&[change(7, Some(entry(2, 1))), change(9, None)]).expect("committed");
        drop(map);
        let map = MapFile::open(&path).expect("opened");
        assert_eq!(*map.about(), about());
        assert_eq!(map.load().expect("read"), [(7, entry(2, 1)), (u64::MAX, entry(1, 0))]);
    }

    #[test]
    fn what_is_no_map_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("map");
        assert!(matches!(MapFile::open(&path), Err(MapFileError::Missing(_))));
        std::fs::write(&path, b"a letter").expect("written");
        assert!(MapFile::open(&path).is_err());
        assert!(matches!(MapFile::create(&path, &about()), Err(MapFileError::Exists(_))));
        assert_eq!(std::fs::read(&path).expect("still there"), b"a letter");
        let other = folder.path().join("other");
        drop(Database::create(&other).expect("a database"));
        assert!(matches!(MapFile::open(&other), Err(MapFileError::Format { .. })));
    }
}
