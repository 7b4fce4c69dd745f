//! The log on disk: files that rotate, within a bound in bytes.
//!
//! ```text
//!  store thread ──(channel, the gateway's affair)──> AuditWriter ── 64 KiB writes ──> 00000009.audit
//!                                                        │ full: end it, begin the next
//!                                                        └ over the bound: the oldest files make room
//! ```
//!
//! Nothing that exists is ever written to: a writer begins a new file, which says how it found the one
//! before. Calls only fill a buffer until 64 KiB are together, then write them; [`AuditWriter::sync`] makes
//! them durable. After an error the writer is to be dropped and a new one opened: it goes on in a new file.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ed25519_dalek::SigningKey;
use evenkeel_core::{FlowId, Record, Request, Slo, Time};

use crate::block::{Before, End, Header, first_chain};
use crate::encoder::Encoder;
use crate::error::LogError;
use crate::event::{Change, Terms};
use crate::log::{file_name, files_in, io};
use crate::segment::{Fault, Segment, What};
use crate::verify::{from_hex, hex};

/// Bytes that collect before they are written.
const WRITE_BYTES: usize = 64 * 1024;

/// How large a log may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A file is ended once it has this many bytes.
    pub file_bytes: u64,
    /// The oldest files make room so that all together stay within this. A block and a checkpoint, up to
    /// 300 KiB, may come on top.
    pub total_bytes: u64,
}

impl Limits {
    /// The smallest file that makes sense, in bytes.
    pub const FILE_BYTES_MIN: u64 = 64 * 1024;
}

impl Default for Limits {
    /// Files of 64 MiB, 1 GiB together: some seventy million requests.
    fn default() -> Self {
        Self { file_bytes: 64 << 20, total_bytes: 1 << 30 }
    }
}

/// What a writer can be told, for a channel between the thread of a store and that of its writer.
#[derive(Clone, Debug)]
pub enum Note {
    /// See [`AuditWriter::configure`].
    Configure(Terms),
    /// See [`AuditWriter::remove`].
    Remove(Time, FlowId),
    /// See [`AuditWriter::change`].
    Change(Time, Change),
    /// See [`AuditWriter::on_arrival`].
    Arrival(Request),
    /// See [`AuditWriter::record`].
    Record(Record),
    /// See [`AuditWriter::gap`].
    Gap {
        /// When it was noticed.
        at: Time,
        /// How much is missing.
        notes: u64,
        /// How many of them were requests that were over.
        records: u64,
    },
    /// See [`AuditWriter::checkpoint`].
    Checkpoint(Time),
}

/// Writes the log of one store into a folder of its own.
pub struct AuditWriter {
    folder: PathBuf,
    limits: Limits,
    encoder: Encoder,
    file: File,
    path: PathBuf,
    /// Ended files, the oldest first: number and bytes.
    kept: VecDeque<(u64, u64)>,
    /// Held as long as the writer lives.
    _lock: File,
}

impl AuditWriter {
    /// Opens the log in `folder`, which is made if need be, and begins a new file. `epoch_unix_ns` is the
    /// wall time of the driver's epoch, in nanoseconds after 1970-01-01 UTC.
    ///
    /// # Errors
    /// If another writer has the folder, it holds a log of another version or files that are no log, the
    /// limits make no sense (a total below two files, files below [`Limits::FILE_BYTES_MIN`]), or the
    /// system refuses. Nothing has been overwritten then.
    pub fn open(
        folder: &Path,
        store: &str,
        epoch_unix_ns: u64,
        limits: Limits,
        key: SigningKey,
    ) -> Result<Self, LogError> {
        if limits.file_bytes < Limits::FILE_BYTES_MIN {
            return Err(LogError::Limits("a file needs at least 64 KiB; raise its size"));
        }
        if limits.total_bytes < 2 * limits.file_bytes {
            return Err(LogError::Limits("the total must hold two files; raise it, or make files smaller"));
        }
        fs::create_dir_all(folder).map_err(|error| io(folder, error))?;
        let lock = lock(folder)?;
        let files = files_in(folder)?;
        let mut kept = VecDeque::new();
        for (number, path) in &files {
            kept.push_back((*number, fs::metadata(path).map_err(|error| io(path, error))?.len()));
        }
        let found = Found::last_of(&files)?;
        let segment = files.last().map_or(1, |(number, _)| number + 1);
        let oldest = make_room(&mut kept.clone(), limits).unwrap_or(segment);
        let header = Header {
            log: found.log.map_or_else(random, Ok)?,
            segment,
            oldest,
            before: found.before,
            first_record: found.next_record,
            key: [0; 32],
            epoch_unix_ns,
            store: store.into(),
        };
        let (path, file) = create(folder, segment)?;
        let encoder = Encoder::new(header, key);
        let folder = folder.to_owned();
        let mut writer = Self { folder, limits, encoder, file, path, kept, _lock: lock };
        writer.write()?;
        writer.prune()?;
        Ok(writer)
    }

    /// Does what `note` says.
    ///
    /// # Errors
    /// See [`AuditWriter::configure`].
    pub fn note(&mut self, note: &Note) -> Result<(), LogError> {
        match note {
            Note::Configure(terms) => self.terms(terms.clone()),
            Note::Remove(at, flow) => self.remove(*at, *flow),
            Note::Change(at, change) => self.change(*at, change.clone()),
            Note::Arrival(request) => {
                self.on_arrival(request);
                Ok(())
            }
            Note::Record(record) => self.record(record),
            Note::Gap { at, notes, records } => self.gap(*at, *notes, *records),
            Note::Checkpoint(at) => self.checkpoint(*at),
        }
    }

    /// Notes a new flow, or a new promise to it.
    ///
    /// # Errors
    /// If the system refuses a write; likewise for the other methods.
    pub fn configure(&mut self, now: Time, flow: FlowId, name: &str, slo: &Slo) -> Result<(), LogError> {
        self.encoder.configure(now, flow, name, slo);
        self.write_if_due(now)
    }

    /// Notes a new flow, which may belong to a group, or a new promise to it.
    ///
    /// # Errors
    /// See [`AuditWriter::configure`].
    pub fn terms(&mut self, terms: Terms) -> Result<(), LogError> {
        let at = terms.at;
        self.encoder.terms(terms);
        self.write_if_due(at)
    }

    /// Notes that `notes` notes are missing, `records` of them about requests that were over.
    ///
    /// # Errors
    /// See [`AuditWriter::configure`].
    pub fn gap(&mut self, now: Time, notes: u64, records: u64) -> Result<(), LogError> {
        self.encoder.gap(now, notes, records);
        self.write_if_due(now)
    }

    /// Notes that a flow is no more.
    ///
    /// # Errors
    /// See [`AuditWriter::configure`].
    pub fn remove(&mut self, now: Time, flow: FlowId) -> Result<(), LogError> {
        self.encoder.remove(now, flow);
        self.write_if_due(now)
    }

    /// Notes how the store is run: at the start, and at every change.
    ///
    /// # Errors
    /// See [`AuditWriter::configure`].
    pub fn change(&mut self, now: Time, change: Change) -> Result<(), LogError> {
        self.encoder.change(now, change);
        self.write_if_due(now)
    }

    /// Notes an arrival; writes nothing.
    pub fn on_arrival(&mut self, request: &Request) {
        self.encoder.on_arrival(request);
    }

    /// Notes a request that is over.
    ///
    /// # Errors
    /// See [`AuditWriter::configure`].
    pub fn record(&mut self, record: &Record) -> Result<(), LogError> {
        self.encoder.record(record);
        self.write_if_due(record.completion)
    }

    /// Signs all that has been noted and hands it to the system. Once a second is plenty.
    ///
    /// # Errors
    /// See [`AuditWriter::configure`].
    pub fn checkpoint(&mut self, now: Time) -> Result<(), LogError> {
        self.encoder.checkpoint(now);
        self.write()?;
        self.rotate_if_full(now)
    }

    /// Makes what has been written durable; blocks until it is.
    ///
    /// # Errors
    /// See [`AuditWriter::configure`].
    pub fn sync(&mut self) -> Result<(), LogError> {
        self.file.sync_data().map_err(|error| io(&self.path, error))
    }

    /// Ends the log in order.
    ///
    /// # Errors
    /// See [`AuditWriter::configure`].
    pub fn close(mut self, now: Time) -> Result<(), LogError> {
        self.encoder.close(now);
        self.write()?;
        self.sync()
    }

    /// Records in the log so far, those of earlier files included.
    #[must_use]
    pub const fn records(&self) -> u64 {
        self.encoder.records()
    }

    fn write_if_due(&mut self, now: Time) -> Result<(), LogError> {
        if self.encoder.output().len() < WRITE_BYTES {
            return Ok(());
        }
        self.write()?;
        self.rotate_if_full(now)
    }

    fn write(&mut self) -> Result<(), LogError> {
        let written = self.file.write_all(self.encoder.output());
        written.map_err(|error| io(&self.path, error))?;
        self.encoder.output().clear();
        Ok(())
    }

    fn rotate_if_full(&mut self, now: Time) -> Result<(), LogError> {
        if self.encoder.segment_bytes() < self.limits.file_bytes {
            return Ok(());
        }
        self.encoder.end_segment(now);
        self.write()?;
        self.sync()?;
        self.kept.push_back((self.encoder.segment(), self.encoder.segment_bytes()));
        let next = self.encoder.segment() + 1;
        let oldest = make_room(&mut self.kept.clone(), self.limits).unwrap_or(next);
        (self.path, self.file) = create(&self.folder, next)?;
        self.encoder.begin_segment(oldest);
        self.write()?;
        self.prune()
    }

    /// Removes files so that there is room for a full one. Their removal stands in the header already.
    fn prune(&mut self) -> Result<(), LogError> {
        let before = self.kept.clone();
        make_room(&mut self.kept, self.limits);
        for (number, _) in before.iter().take(before.len() - self.kept.len()) {
            let path = file_name(&self.folder, *number);
            fs::remove_file(&path).map_err(|error| io(&path, error))?;
        }
        Ok(())
    }
}

/// Drops the oldest of `kept` until a full file fits beside the rest; the oldest that stays.
fn make_room(kept: &mut VecDeque<(u64, u64)>, limits: Limits) -> Option<u64> {
    let room = limits.total_bytes - limits.file_bytes;
    let mut total: u64 = kept.iter().map(|(_, bytes)| bytes).sum();
    while total > room
        && let Some((_, bytes)) = kept.pop_front()
    {
        total -= bytes;
    }
    kept.front().map(|(number, _)| *number)
}

/// What earlier runs have left in the folder.
#[derive(Default)]
struct Found {
    log: Option<[u8; 16]>,
    before: Option<Before>,
    next_record: u64,
}

impl Found {
    fn last_of(files: &[(u64, PathBuf)]) -> Result<Self, LogError> {
        let mut found = Self::default();
        for (number, path) in files.iter().rev() {
            let file = File::open(path).map_err(|error| io(path, error))?;
            let mut segment = match Segment::open(BufReader::new(file), *number) {
                Ok(segment) => segment,
                Err(Fault::Found(finding)) if matches!(finding.what, What::Truncated { .. }) => {
                    // A crash before the header was whole: what came before it counts.
                    let nothing = Before { blocks: 0, chain: first_chain(), clean: false };
                    found.before.get_or_insert(nothing);
                    continue;
                }
                Err(fault) => return Err(refused(fault, path)),
            };
            read_to_end(&mut segment).map_err(|fault| refused(fault, path))?;
            let (blocks, chain, clean) = (segment.blocks, segment.chain, segment.end != End::No);
            found.before.get_or_insert(Before { blocks, chain, clean });
            found.log = Some(segment.header.log);
            found.next_record = segment.next_record;
            break;
        }
        Ok(found)
    }
}

/// Reads as far as the blocks are whole.
fn read_to_end(segment: &mut Segment<impl Read>) -> Result<(), Fault> {
    loop {
        match segment.next_block() {
            Ok(Some(_)) => {}
            Ok(None) | Err(Fault::Found(_)) => return Ok(()),
            Err(fault) => return Err(fault),
        }
    }
}

fn refused(fault: Fault, path: &Path) -> LogError {
    match crate::log::Stop::from_fault(fault, path) {
        crate::log::Stop::Error(error) => error,
        crate::log::Stop::Found(path, finding) => LogError::Damaged { path, finding: Box::new(finding) },
    }
}

fn lock(folder: &Path) -> Result<File, LogError> {
    let path = folder.join("lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(|error| io(&path, error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(LogError::Busy { path: folder.to_owned() }),
        Err(fs::TryLockError::Error(error)) => Err(io(&path, error)),
    }
}

fn create(folder: &Path, number: u64) -> Result<(PathBuf, File), LogError> {
    let path = file_name(folder, number);
    match OpenOptions::new().write(true).create_new(true).open(&path) {
        Ok(file) => Ok((path, file)),
        Err(error) => Err(io(&path, error)),
    }
}

/// The signing key in the file at `path`, 64 hexadecimal digits; makes one if there is no such file,
/// readable to its owner only. The public half is in every file of the log.
///
/// # Errors
/// If the file holds something else, or the system refuses.
pub fn signing_key(path: &Path) -> Result<SigningKey, LogError> {
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match created {
        Ok(mut file) => {
            let seed: [u8; 32] = random()?;
            let written = file.write_all(format!("{}\n", hex(&seed)).as_bytes());
            written.and_then(|()| file.sync_all()).map_err(|error| io(path, error))?;
            Ok(SigningKey::from_bytes(&seed))
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let text = fs::read(path).map_err(|error| io(path, error))?;
            let seed = std::str::from_utf8(&text).ok().and_then(|text| from_hex(text.trim()));
            let seed = seed.ok_or_else(|| LogError::BadKey { path: path.to_owned() })?;
            Ok(SigningKey::from_bytes(&seed))
        }
        Err(error) => Err(io(path, error)),
    }
}

fn random<const N: usize>() -> Result<[u8; N], LogError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| io(Path::new("/dev/urandom"), std::io::Error::other(error.to_string())))?;
    Ok(bytes)
}
