//! The steps of one access to one file, until it is over.
//!
//! ```text
//!  Data ──────────────────────────────> over
//!  Punch ─> ZeroRange ─> ZeroWrite ───> over   (each if the one before is not supported)
//!  TRIM, zeroes with FUA: … ─> Sync ──> over
//! ```

use evenkeel_nbd::{Command, ErrorCode};
use io_uring::{opcode, squeue, types};

/// Zeros are written in pieces of this size where the file system offers nothing better.
pub(super) const ZERO_CHUNK: u32 = 1 << 20;

/// Where an access stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Data,
    ZeroRange,
    ZeroWrite,
    Sync,
}

/// One access.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    pub(super) command: Command,
    pub(super) fua: bool,
    pub(super) length: u32,
    /// Bytes that the kernel has done.
    pub(super) done: u32,
    pub(super) stage: Stage,
    pub(super) error: Option<ErrorCode>,
}

/// Where an access goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Number of the file.
    pub(super) file: u32,
    /// First byte there.
    pub(super) start: u64,
    /// The range to sync, as first byte and bytes; zeros for the whole file.
    pub(super) sync: (u64, u32),
}

impl Steps {
    pub(super) const fn new(command: Command, fua: bool, length: u32, stage: Stage) -> Self {
        Self { command, fua, length, done: 0, stage, error: None }
    }

    /// The submission of the next step. `rest` is where the rest of the data is, `zeroes` where
    /// [`ZERO_CHUNK`] zeros are.
    pub(super) fn entry(&self, place: Place, rest: *mut u8, zeroes: *mut u8) -> squeue::Entry {
        let file = types::Fixed(place.file);
        let (offset, left) = (place.start + u64::from(self.done), self.length - self.done);
        let allocate = |mode: i32| {
            let mode = mode | libc::FALLOC_FL_KEEP_SIZE;
            opcode::Fallocate::new(file, u64::from(self.length)).offset(place.start).mode(mode).build()
        };
        match (self.stage, self.command) {
            (Stage::Sync, _) | (_, Command::Flush | Command::Disconnect) => {
                let flags = types::FsyncFlags::DATASYNC;
                opcode::Fsync::new(file).flags(flags).offset(place.sync.0).len(place.sync.1).build()
            }
            (Stage::ZeroRange, _) => allocate(libc::FALLOC_FL_ZERO_RANGE),
            (Stage::ZeroWrite, _) => {
                opcode::Write::new(file, zeroes, left.min(ZERO_CHUNK)).offset(offset).build()
            }
            (Stage::Data, Command::Trim | Command::WriteZeroes) => allocate(libc::FALLOC_FL_PUNCH_HOLE),
            (Stage::Data, Command::Read) => opcode::Read::new(file, rest, left).offset(offset).build(),
            (Stage::Data, Command::Write) => {
                let flags = if self.fua { libc::RWF_DSYNC } else { 0 };
                opcode::Write::new(file, rest, left).offset(offset).rw_flags(flags).build()
            }
        }
    }

    /// Takes in the result of a step; whether another step follows.
    pub(super) fn take_in(&mut self, result: i32) -> bool {
        match result {
            _ if result == -libc::EINTR || result == -libc::EAGAIN => true,
            ..0 => self.fall_back(-result),
            _ => self.advance(result as u32),
        }
    }

    /// A step has succeeded; whether another is needed.
    fn advance(&mut self, result: u32) -> bool {
        match (self.stage, self.command) {
            (Stage::Data, Command::Read | Command::Write) | (Stage::ZeroWrite, _) => {
                if result == 0 {
                    // The backing has become shorter than it was when it was opened.
                    self.error = Some(ErrorCode::Io);
                    return false;
                }
                self.done += result;
                self.done < self.length || self.needs_sync()
            }
            (Stage::Sync, _) => false,
            _ => self.needs_sync(),
        }
    }

    /// Trimmed or zeroed under FUA: made durable by a sync, since there is no flag for it.
    fn needs_sync(&mut self) -> bool {
        let needed = self.fua && matches!(self.command, Command::Trim | Command::WriteZeroes);
        if needed {
            self.stage = Stage::Sync;
        }
        needed
    }

    /// A step has failed with `errno`; whether there is another way.
    fn fall_back(&mut self, errno: i32) -> bool {
        let unsupported = matches!(errno, libc::EOPNOTSUPP | libc::ENOSYS | libc::ENODEV | libc::EINVAL);
        match (self.command, self.stage) {
            // TRIM is only advice.
            (Command::Trim, Stage::Data) if unsupported => return false,
            (Command::WriteZeroes, Stage::Data) if unsupported => self.stage = Stage::ZeroRange,
            (Command::WriteZeroes, Stage::ZeroRange) if unsupported => self.stage = Stage::ZeroWrite,
            _ => {
                self.error = Some(error_code(errno));
                return false;
            }
        }
        true
    }
}

fn error_code(errno: i32) -> ErrorCode {
    match errno {
        libc::ENOSPC | libc::EDQUOT | libc::EFBIG => ErrorCode::NoSpace,
        libc::EPERM | libc::EROFS | libc::EACCES => ErrorCode::Permission,
        libc::ENOMEM => ErrorCode::NoMemory,
        _ => ErrorCode::Io,
    }
}

/// The first stage of a command's access: zeroes that must stay allocated are not punched.
pub(super) fn first_stage(command: Command, no_hole: bool) -> Stage {
    if command == Command::WriteZeroes && no_hole { Stage::ZeroRange } else { Stage::Data }
}
