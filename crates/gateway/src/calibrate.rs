//! Measuring a file or block device through io_uring, as stores use it.
//!
//! ```text
//!  FileTarget ──> slots [ buffer, buffer, … ]      one access each, memory its own until it is over
//!      │ submit           │
//!      v                  v
//!    ring ──> kernel ──> completion (slot, result) ──> whole? ── no ─> CalibrateError
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel_calibrate::{Access, DeviceKind, Target};
use evenkeel_core::{Operation, Time};
use io_uring::{opcode, types};

use crate::backing;
use crate::buffers::Buffer;
use crate::ring::{Completed, Ring, Tag};
use crate::store::Clock;

/// Why a file or block device cannot be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrateError {
    /// It cannot be opened.
    #[error("{path}: cannot open it for {access}: {source}; check its name and permissions")]
    Open {
        /// The path.
        path: PathBuf,
        /// For what.
        access: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// It is neither a regular file nor a block device.
    #[error("{path} is neither a regular file nor a block device; name one of those")]
    Kind {
        /// The path.
        path: PathBuf,
    },
    /// Somebody uses it.
    #[error(
        "{path} is in use by another process; stop that one first: its load and the measurement's would spoil each other"
    )]
    Locked {
        /// The path.
        path: PathBuf,
    },
    /// No ring.
    #[error(
        "cannot set up io_uring: {0} (it needs Linux 5.11 or later, kernel.io_uring_disabled = 0, and a sandbox that allows it)"
    )]
    Ring(io::Error),
    /// An access failed.
    #[error("{path}: {operation} of {length} bytes at byte {offset} failed: {source}; check the device")]
    Access {
        /// The path.
        path: PathBuf,
        /// "reading" or "writing".
        operation: &'static str,
        /// Bytes.
        length: u32,
        /// First byte.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
    /// No memory for buffers.
    #[error("there is no memory for {0} bytes of buffers; measure smaller sizes or depths")]
    Memory(u64),
}

/// A file or block device to measure.
pub struct FileTarget {
    path: PathBuf,
    kind: DeviceKind,
    size: u64,
    allocated: u64,
    direct: bool,
    clock: Clock,
    ring: Ring,
    slots: Vec<Slot>,
    completed: Vec<Completed>,
    outstanding: u32,
    file: File,
}

struct Slot {
    buffer: Buffer,
    access: Option<Access>,
    /// Whether the buffer holds what is to be written, and not what was read last.
    is_filled: bool,
}

impl FileTarget {
    /// Opens `path` for reading, and for writing if `writes`; locks it as the gateway does. Bypasses the
    /// page cache where the file system can (see [`FileTarget::is_direct`]). Accesses may have up to
    /// `largest` bytes, and up to `depth` of them may be outstanding.
    ///
    /// # Errors
    /// If it cannot be opened, is in use or no file or block device, or there is no ring or memory.
    pub fn open(path: &Path, writes: bool, depth: u32, largest: u32) -> Result<Self, CalibrateError> {
        let access = if writes { "reading and writing" } else { "reading" };
        let failed = |source| CalibrateError::Open { path: path.to_owned(), access, source };
        let open = |flags| OpenOptions::new().read(true).write(writes).custom_flags(flags).open(path);
        let (mut file, direct) = match open(libc::O_DIRECT) {
            Ok(file) => (file, true),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => (open(0).map_err(failed)?, false),
            Err(error) => return Err(failed(error)),
        };
        let facts = file.metadata().map_err(failed)?;
        let kind = match facts.file_type() {
            kind if kind.is_file() => DeviceKind::File,
            kind if kind.is_block_device() => DeviceKind::BlockDevice,
            _ => return Err(CalibrateError::Kind { path: path.to_owned() }),
        };
        backing::lock(&file, writes).map_err(|error| match error.raw_os_error() {
            Some(libc::EWOULDBLOCK) => CalibrateError::Locked { path: path.to_owned() },
            _ => failed(error),
        })?;
        let size = file.seek(SeekFrom::End(0)).map_err(failed)?;
        let allocated =
            if kind == DeviceKind::File { facts.blocks().saturating_mul(512).min(size) } else { size };
        let buffer = || {
            Buffer::allocate(largest as usize).map(|buffer| Slot { buffer, access: None, is_filled: false })
        };
        let slots: Option<Vec<Slot>> = (0..depth).map(|_| buffer()).collect();
        let slots = slots.ok_or(CalibrateError::Memory(u64::from(depth) * u64::from(largest)))?;
        let mut ring = Ring::new().map_err(CalibrateError::Ring)?;
        ring.register_files(&[file.as_raw_fd()]).map_err(CalibrateError::Ring)?;
        let (path, clock) = (path.to_owned(), Clock::start());
        let completed = Vec::with_capacity(depth as usize);
        Ok(Self { path, kind, size, allocated, direct, clock, ring, slots, completed, outstanding: 0, file })
    }

    /// What it is.
    #[must_use]
    pub const fn kind(&self) -> DeviceKind {
        self.kind
    }

    /// Its bytes.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// How many of them the file system has allocated; reading the others measures memory.
    #[must_use]
    pub const fn allocated(&self) -> u64 {
        self.allocated
    }

    /// Whether the page cache is bypassed.
    #[must_use]
    pub const fn is_direct(&self) -> bool {
        self.direct
    }

    /// Judges the result of an access; whether it is over.
    fn judge(&mut self, index: u32, result: i32) -> Result<bool, CalibrateError> {
        let slot = &mut self.slots[index as usize];
        let Some(access) = slot.access.take() else { return Ok(false) };
        let source = match result {
            _ if result == -libc::EINTR || result == -libc::EAGAIN => {
                self.outstanding -= 1;
                self.submit(access)?;
                return Ok(false);
            }
            ..0 => io::Error::from_raw_os_error(-result),
            short if (short as u32) < access.length => {
                io::Error::new(io::ErrorKind::UnexpectedEof, format!("only {short} bytes were transferred"))
            }
            _ => return Ok(true),
        };
        let operation = if access.operation == Operation::Write { "writing" } else { "reading" };
        let Access { length, offset, .. } = access;
        Err(CalibrateError::Access { path: self.path.clone(), operation, length, offset, source })
    }
}

impl Target for FileTarget {
    type Error = CalibrateError;

    fn now(&self) -> Time {
        self.clock.now()
    }

    fn submit(&mut self, access: Access) -> Result<(), CalibrateError> {
        let slot = &mut self.slots[access.slot as usize];
        assert!(slot.access.is_none() && access.length as usize <= slot.buffer.capacity());
        slot.access = Some(access);
        if access.operation == Operation::Write && !slot.is_filled {
            // Neither zeros, which some devices do not store, nor what was read, which is there already.
            fill(slot.buffer.bytes_mut_from(0));
        }
        slot.is_filled = access.operation == Operation::Write;
        let (file, memory) = (types::Fixed(0), slot.buffer.as_mut_ptr());
        let entry = match access.operation {
            Operation::Write => opcode::Write::new(file, memory, access.length).offset(access.offset).build(),
            _ => opcode::Read::new(file, memory, access.length).offset(access.offset).build(),
        };
        // SAFETY: the slot's buffer is its own until the completion has been taken out.
        unsafe { self.ring.push(entry, Tag::Access(access.slot)) }.map_err(CalibrateError::Ring)?;
        self.outstanding += 1;
        Ok(())
    }

    fn wait(&mut self, until: Time, done: &mut Vec<u32>) -> Result<(), CalibrateError> {
        let left = Duration::from_nanos(until.since(self.clock.now()).as_nanos());
        self.ring.wait(Some(left)).map_err(CalibrateError::Ring)?;
        let mut completed = std::mem::take(&mut self.completed);
        self.ring.drain(&mut completed);
        let mut result = Ok(());
        for Completed { tag, result: count } in completed.drain(..) {
            let Tag::Access(index) = tag else { continue };
            match self.judge(index, count) {
                Ok(true) => {
                    self.outstanding -= 1;
                    done.push(index);
                }
                Ok(false) => {}
                Err(error) => {
                    self.outstanding -= 1;
                    result = result.and(Err(error));
                }
            }
        }
        self.completed = completed;
        result
    }
}

impl Drop for FileTarget {
    /// The kernel may still be filling buffers: they are given back only when it is done with all of them.
    fn drop(&mut self) {
        let patience = self.clock.now().as_nanos().saturating_add(10_000_000_000);
        while self.outstanding > 0 && self.clock.now().as_nanos() < patience {
            if self.ring.wait(Some(Duration::from_secs(1))).is_err() {
                break;
            }
            self.ring.drain(&mut self.completed);
            self.outstanding = self.outstanding.saturating_sub(self.completed.drain(..).count() as u32);
        }
        if self.outstanding > 0 {
            std::mem::forget(std::mem::take(&mut self.slots));
        }
        backing::unlock(&self.file);
    }
}

/// What the system says of the block device at `path`, or of the one that the file at `path` lies on; empty if it
/// says nothing.
#[must_use]
pub fn device_identity(path: &Path) -> String {
    fs::metadata(path).map_or_else(|_| String::new(), |facts| identity(device_number(&facts)))
}

fn device_number(facts: &fs::Metadata) -> (u32, u32) {
    let number = if facts.file_type().is_block_device() { facts.rdev() } else { facts.dev() };
    (libc::major(number), libc::minor(number))
}

/// Name, vendor, model, serial number and kind of the block device with this number; what the system does not say
/// is left out.
fn identity((major, minor): (u32, u32)) -> String {
    let Ok(device) = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")) else {
        return String::new();
    };
    let name = device.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    // A partition's facts are those of its disk.
    let disk = if device.join("partition").exists() { device.parent().map(Path::to_path_buf) } else { None };
    let disk: PathBuf = disk.unwrap_or(device);
    let fact = |name: &str| fs::read_to_string(disk.join(name)).unwrap_or_default().trim().to_owned();
    let kind = match fact("queue/rotational").as_str() {
        "0" => "not rotational",
        "1" => "rotational",
        _ => "",
    };
    let words = [name, fact("device/vendor"), fact("device/model"), fact("device/serial"), kind.to_owned()];
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(", ")
}

/// Fills `bytes` with what does not compress.
pub fn fill(bytes: &mut [u8]) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for chunk in bytes.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
    }
}
