//! From the engine's submissions to accesses of the backing, and back to its completions.
//!
//! ```text
//!  Submit ─┬─> page cache, if the data is there ────────> access_over ─┐
//!          ├─> ring: read | write | fsync | fallocate ──> access_over ─┤
//!          └─> emulated device, if there is one ────────> device_over ─┴─ both ──> Completion
//!
//!  stages of one access:  Data ──────────────────────────────> over
//!                         Punch ─> ZeroRange ─> ZeroWrite ───> over   (each if the one before
//!                         TRIM, zeroes with FUA: … ─> Sync ──> over    is not supported)
//! ```
//!
//! The emulated device is the model's own clock made real: a completion counts as of the instant at
//! which the model finished, however late this thread woke up, and what is dispatched then is
//! submitted to the model as of that instant. So the device runs at its stated speed on any machine,
//! and only replies leave late, by the wake-up's delay. The backing has to keep up: an access that
//! takes it longer than the model says delays the model's completion by as much.

use std::io;
use std::os::fd::AsRawFd;

use evenkeel_core::{
    Completion, FlowId, Input, Outcome, Output, Record, Request, Span, Submission, Ticket, Time,
};
use evenkeel_device::Io;
use evenkeel_nbd::{Command, ErrorCode, simple_reply};
use io_uring::{opcode, squeue, types};

use super::Store;
use super::connection::Reply;
use crate::buffers::Buffer;
use crate::ring::Tag;

/// Zeros are written in pieces of this size where the file system offers nothing better.
pub(super) const ZERO_CHUNK: u32 = 1 << 20;

/// Where a request's access stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Data,
    ZeroRange,
    ZeroWrite,
    Sync,
}

/// One request, from its header to its reply.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) connection: u32,
    pub(super) volume: u32,
    pub(super) cookie: u64,
    pub(super) command: Command,
    pub(super) fua: bool,
    /// First byte within the volume.
    pub(super) offset: u64,
    pub(super) length: u32,
    pub(super) room: u64,
    pub(super) buffer: Option<Buffer>,
    pub(super) ticket: Option<Ticket>,
    /// Bytes that the kernel has done.
    pub(super) done: u32,
    pub(super) stage: Stage,
    /// When it arrived, and when its access started: on the model's clock, and on ours.
    pub(super) arrived: Time,
    pub(super) started: Time,
    pub(super) pushed: Time,
    /// When the backing and the device model were done with it, on the model's clock.
    pub(super) access_over: Option<Time>,
    pub(super) device_over: Option<Time>,
    /// The disk time that the device model tells.
    pub(super) disk_time: Option<Span>,
    pub(super) error: Option<ErrorCode>,
}

impl Store {
    /// Carries out what the engine has decided; new accesses start at `now`.
    pub(super) fn dispatch(&mut self, now: Time) -> io::Result<()> {
        while let Some(output) = self.engine.poll_output(now) {
            match output {
                Output::Submit(submission) => self.start_access(now, submission)?,
                Output::Reply(record) => {
                    let connection = self.finish(now, &record);
                    self.send_early(connection)?;
                }
            }
        }
        Ok(())
    }

    /// Takes in what the emulated device has finished by `now`.
    pub(super) fn advance_device(&mut self, now: Time) -> io::Result<()> {
        while let Some(finished) = self.device.as_mut().and_then(|device| device.poll_completion(now)) {
            let index = finished.token as u32;
            let slot = &mut self.slots[index as usize];
            slot.device_over = Some(finished.at);
            slot.disk_time = Some(finished.busy);
            self.complete_if_over(index)?;
        }
        Ok(())
    }

    pub(super) fn on_access_done(&mut self, now: Time, index: u32, result: i32) -> io::Result<()> {
        if self.continue_access(index, result)? {
            return Ok(());
        }
        let slot = &mut self.slots[index as usize];
        slot.access_over = Some(slot.started + now.since(slot.pushed));
        self.complete_if_over(index)
    }

    /// Completes a request of which both the backing and the device model are done, at the later of
    /// the two instants, and dispatches what may go then.
    fn complete_if_over(&mut self, index: u32) -> io::Result<()> {
        let slot = &self.slots[index as usize];
        let (Some(access), Some(device)) = (slot.access_over, slot.device_over) else {
            return Ok(());
        };
        let at = access.max(device);
        let outcome = if slot.error.is_some() { Outcome::Failed } else { Outcome::Done };
        self.complete(at, index, outcome);
        self.dispatch(at)
    }

    fn start_access(&mut self, now: Time, submission: Submission) -> io::Result<()> {
        let index = submission.request.id.0 as u32;
        let slot = &mut self.slots[index as usize];
        slot.ticket = Some(submission.ticket);
        let gone = self.connections[slot.connection as usize].dead;
        if slot.command == Command::Read {
            // Nobody waits for the data of a client that is gone; its writes are carried out.
            slot.buffer = if gone { None } else { self.pool.take(slot.length as usize) };
            if slot.buffer.is_none() {
                slot.error = Some(ErrorCode::NoMemory);
                let outcome = if gone { Outcome::Cancelled } else { Outcome::Failed };
                self.complete(now, index, outcome);
                return Ok(());
            }
        }
        slot.started = now;
        slot.pushed = now;
        if let Some(device) = &mut self.device {
            // The model may be behind the clock, but nothing starts before it has arrived.
            slot.started = now.max(slot.arrived);
            slot.pushed = self.clock.now();
            let request = &submission.request;
            device.submit(
                slot.started,
                Io {
                    token: u64::from(index),
                    operation: request.operation,
                    offset: request.offset,
                    length: request.length,
                },
            );
        } else {
            slot.device_over = Some(now);
        }
        if !self.read_from_cache(index) {
            return self.push_access(index);
        }
        let slot = &mut self.slots[index as usize];
        slot.access_over = Some(slot.started);
        if slot.device_over.is_some() {
            self.complete(now, index, Outcome::Done);
        }
        Ok(())
    }

    /// Reads what the page cache holds, without waiting for the device; whether that was all. A
    /// cached read costs less as a call of its own than as a submission, a completion and a turn.
    fn read_from_cache(&mut self, index: u32) -> bool {
        let slot = &mut self.slots[index as usize];
        if self.direct || slot.command != Command::Read {
            return false;
        }
        let slice = &self.volumes[slot.volume as usize].slice;
        let vector = libc::iovec { iov_base: slot.rest().cast(), iov_len: slot.length as usize };
        // SAFETY: the buffer has room for the whole request and is touched by nobody else.
        let count = unsafe {
            libc::preadv2(
                self.files[slice.file as usize].as_raw_fd(),
                &raw const vector,
                1,
                (slice.offset + slot.offset) as libc::off_t,
                libc::RWF_NOWAIT,
            )
        };
        // Whatever is not there, and whatever went wrong, is the ring's to find out.
        slot.done = u32::try_from(count).unwrap_or(0);
        slot.done == slot.length
    }

    /// Queues the next step of a request's access.
    fn push_access(&mut self, index: u32) -> io::Result<()> {
        let slot = &self.slots[index as usize];
        let slice = &self.volumes[slot.volume as usize].slice;
        let file = types::Fixed(slice.file);
        let start = slice.offset + slot.offset;
        let (offset, left) = (start + u64::from(slot.done), slot.length - slot.done);
        let sync = || {
            // A volume that can be named by one range syncs that range only: a neighbour's unwritten
            // data in the same file is not its business.
            let (offset, length) = match u32::try_from(slice.size) {
                Ok(length) => (slice.offset, length),
                Err(_) => (0, 0),
            };
            opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).offset(offset).len(length).build()
        };
        let allocate = |mode: i32| {
            let mode = mode | libc::FALLOC_FL_KEEP_SIZE;
            opcode::Fallocate::new(file, u64::from(slot.length)).offset(start).mode(mode).build()
        };
        let entry: squeue::Entry = match (slot.stage, slot.command) {
            (Stage::Sync, _) | (_, Command::Flush | Command::Disconnect) => sync(),
            (Stage::ZeroRange, _) => allocate(libc::FALLOC_FL_ZERO_RANGE),
            (Stage::ZeroWrite, _) => {
                let length = left.min(ZERO_CHUNK);
                opcode::Write::new(file, self.zeroes.as_mut_ptr(), length).offset(offset).build()
            }
            (Stage::Data, Command::Trim | Command::WriteZeroes) => allocate(libc::FALLOC_FL_PUNCH_HOLE),
            (Stage::Data, Command::Read) => opcode::Read::new(file, slot.rest(), left).offset(offset).build(),
            (Stage::Data, Command::Write) => {
                let flags = if slot.fua { libc::RWF_DSYNC } else { 0 };
                opcode::Write::new(file, slot.rest(), left).offset(offset).rw_flags(flags).build()
            }
        };
        // SAFETY: the slot's buffer stays in the slot until its access is over; the zeros live as
        // long as the store and are only read.
        unsafe { self.ring.push(entry, Tag::Access(index)) }
    }

    /// Takes in the result of a step; whether another step follows.
    fn continue_access(&mut self, index: u32, result: i32) -> io::Result<bool> {
        let result = self.judge_result(index, result);
        let slot = &mut self.slots[index as usize];
        let again = match result {
            _ if result == -libc::EINTR || result == -libc::EAGAIN => true,
            ..0 => slot.fall_back(-result),
            _ => slot.advance(result as u32),
        };
        if again {
            self.push_access(index)?;
        }
        Ok(again)
    }

    fn complete(&mut self, at: Time, index: u32, outcome: Outcome) {
        let slot = &self.slots[index as usize];
        let completion = Completion::new(slot.ticket.expect("only a dispatched request completes"), outcome);
        let completion = slot.disk_time.map_or(completion, |disk_time| completion.with_service(disk_time));
        let known = self.engine.handle_input(at, Input::Completion(completion));
        assert!(known.is_ok(), "each ticket is completed once");
    }

    /// The request is over: into the ledger, and its answer to the client, whose connection is returned.
    fn finish(&mut self, at: Time, record: &Record) -> u32 {
        self.ledger.record(record);
        if let Some(audit) = &mut self.audit {
            audit.record(record);
        }
        if let Some(depth) = self.depth_control.as_mut().and_then(|control| control.handle_record(at, record))
        {
            self.engine.set_depth(depth);
            self.depth_changes += 1;
        }
        let slot = self.slots.remove(record.request.id.0 as usize);
        debug_assert_eq!(FlowId(slot.volume), record.request.flow);
        if let Some(group) = self.volumes[slot.volume as usize].group {
            let request = Request { flow: group, ..record.request };
            self.ledger.record(&Record { request, ..*record });
        }
        let header = simple_reply(slot.error, slot.cookie);
        let mut data = None;
        match slot.buffer {
            Some(buffer) if slot.command == Command::Read && slot.error.is_none() => {
                data = Some((buffer, slot.length));
            }
            Some(buffer) => self.pool.give(buffer),
            None => {}
        }
        self.connections[slot.connection as usize].outstanding -= 1;
        self.queue_reply(slot.connection, Reply { header, data, room: slot.room });
        slot.connection
    }
}

impl Slot {
    /// Where the rest of the payload is.
    fn rest(&self) -> *mut u8 {
        let buffer = self.buffer.as_ref().expect("reads and writes have a buffer while at the store");
        assert!(self.done as usize <= buffer.capacity());
        buffer.as_mut_ptr().wrapping_add(self.done as usize)
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
