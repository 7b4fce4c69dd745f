//! From the engine's submissions to accesses of the backing, and back to its completions.
//!
//! ```text
//!  Submit ─┬─> page cache, if the data is there ────────> access_over ─┐
//!          ├─> ring: read | write | fsync | fallocate ──> access_over ─┤
//!          └─> emulated device, if there is one ────────> device_over ─┴─ both ──> Completion
//! ```
//!
//! A hybrid store goes its own way from Submit to Completion: `hybrid.rs`.
//!
//! The emulated device is the model's own clock made real: a completion counts as of the instant at
//! which the model finished, however late this thread woke up, and what is dispatched then is
//! submitted to the model as of that instant. So the device runs at its stated speed on any machine,
//! and only replies leave late, by the wake-up's delay. The backing has to keep up: an access that
//! takes it longer than the model says delays the model's completion by as much.

use std::io;
use std::os::fd::AsRawFd;

use evenkeel_core::{
    Completion, Cost, FlowId, Input, Outcome, Output, Record, Request, Span, Submission, Ticket, Time,
};
use evenkeel_device::Io;
use evenkeel_nbd::{Command, ErrorCode, simple_reply};

use super::Store;
use super::connection::Reply;
use super::steps::{Place, Steps};
use crate::buffers::Buffer;
use crate::ring::Tag;

/// One request, from its header to its reply.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) connection: u32,
    pub(super) volume: u32,
    pub(super) cookie: u64,
    /// First byte within the volume.
    pub(super) offset: u64,
    pub(super) steps: Steps,
    pub(super) room: u64,
    pub(super) buffer: Option<Buffer>,
    pub(super) ticket: Option<Ticket>,
    /// What it costs.
    pub(super) cost: Cost,
    /// When it arrived, and when its access started: on the model's clock, and on ours.
    pub(super) arrived: Time,
    pub(super) started: Time,
    pub(super) pushed: Time,
    /// When the backing and the device model were done with it, on the model's clock.
    pub(super) access_over: Option<Time>,
    pub(super) device_over: Option<Time>,
    /// The disk time that the device model tells.
    pub(super) disk_time: Option<Span>,
    /// What it syncs, if it does: first byte of the file and bytes, zeros for the whole file.
    pub(super) sync: (u64, u32),
}

impl Store {
    /// Carries out what the engine has decided; new accesses start at `now`.
    pub(super) fn dispatch(&mut self, now: Time) -> io::Result<()> {
        while let Some(output) = self.next_output(now) {
            match output {
                Output::Submit(submission) => self.start_access(now, submission)?,
                Output::Reply(record) => {
                    if let Some(connection) = self.finish(now, &record) {
                        self.send_early(connection)?;
                    }
                }
            }
        }
        self.capacity.on_dispatched(self.engine.outstanding() >= self.engine.depth());
        Ok(())
    }

    /// What the engine has decided. Of a hybrid store whose devices are busy, only replies.
    fn next_output(&mut self, now: Time) -> Option<Output> {
        if self.tiers.as_ref().is_some_and(|tiers| !tiers.wants_more()) {
            return self.engine.poll_reply().map(Output::Reply);
        }
        self.engine.poll_output(now)
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
        let outcome = if slot.steps.error.is_some() { Outcome::Failed } else { Outcome::Done };
        self.complete(at, index, outcome);
        self.dispatch(at)
    }

    fn start_access(&mut self, now: Time, submission: Submission) -> io::Result<()> {
        if self.tiers.is_some() {
            return self.start_tiered(now, submission);
        }
        let index = submission.request.id.0 as u32;
        self.slots[index as usize].cost = submission.request.cost;
        if !self.has_buffer(now, index, submission.ticket) {
            return Ok(());
        }
        self.note_unsynced(index);
        let slot = &mut self.slots[index as usize];
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

    /// Notes the ticket of a request that was dispatched, and gives a read its buffer; whether it has
    /// what it needs. Otherwise it is over.
    pub(super) fn has_buffer(&mut self, now: Time, index: u32, ticket: Ticket) -> bool {
        let slot = &mut self.slots[index as usize];
        slot.ticket = Some(ticket);
        if slot.steps.command != Command::Read {
            return true;
        }
        // Nobody waits for the data of a client that is gone; its writes are carried out.
        let gone = self.connections[slot.connection as usize].dead;
        slot.buffer = if gone { None } else { self.pool.take(slot.steps.length as usize) };
        let has = slot.buffer.is_some();
        if !has {
            slot.steps.error = Some(ErrorCode::NoMemory);
            self.complete(now, index, if gone { Outcome::Cancelled } else { Outcome::Failed });
        }
        has
    }

    /// Reads what the page cache holds, without waiting for the device; whether that was all. A
    /// cached read costs less as a call of its own than as a submission, a completion and a turn.
    fn read_from_cache(&mut self, index: u32) -> bool {
        let slot = &mut self.slots[index as usize];
        if self.direct || slot.steps.command != Command::Read {
            return false;
        }
        let slice = &self.volumes[slot.volume as usize].slice;
        let vector = libc::iovec { iov_base: slot.rest().cast(), iov_len: slot.steps.length as usize };
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
        slot.steps.done = u32::try_from(count).unwrap_or(0);
        slot.steps.done == slot.steps.length
    }

    /// Queues the next step of a request's access.
    fn push_access(&mut self, index: u32) -> io::Result<()> {
        let slot = &self.slots[index as usize];
        let slice = &self.volumes[slot.volume as usize].slice;
        let place = Place { file: slice.file, start: slice.offset + slot.offset, sync: slot.sync };
        let has_data = matches!(slot.steps.command, Command::Read | Command::Write);
        let rest = if has_data { slot.rest() } else { std::ptr::null_mut() };
        let entry = slot.steps.entry(place, rest, self.zeroes.as_mut_ptr());
        // SAFETY: the slot's buffer stays in the slot until its access is over; the zeros live as
        // long as the store and are only read.
        unsafe { self.ring.push(entry, Tag::Access(index)) }
    }

    /// Settles what an access syncs, if it does. A neighbour's unwritten data in the same file is not its business.
    fn note_unsynced(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        let volume = &mut self.volumes[slot.volume as usize];
        let (slice, start) = (&volume.slice, volume.slice.offset + slot.offset);
        let all = u32::try_from(slice.size).map_or((0, 0), |length| (slice.offset, length));
        slot.sync = match (slot.steps.command, &mut volume.unsynced) {
            (Command::Read, _) => return,
            (Command::Flush, Some(unsynced)) => unsynced.begin(),
            (Command::Flush | Command::Disconnect, _) => all,
            (Command::Write | Command::Trim | Command::WriteZeroes, unsynced) => {
                if let Some(unsynced) = unsynced {
                    unsynced.on_write(start, slot.steps.length);
                }
                // What it has trimmed or zeroed, under FUA.
                (start, slot.steps.length)
            }
        };
    }

    /// Takes in the result of a step; whether another step follows.
    fn continue_access(&mut self, index: u32, result: i32) -> io::Result<bool> {
        let result = self.judge_result(index, result);
        let slot = &mut self.slots[index as usize];
        let again = slot.steps.take_in(result);
        if again {
            self.push_access(index)?;
        } else if slot.steps.command == Command::Flush
            && let Some(unsynced) = &mut self.volumes[slot.volume as usize].unsynced
        {
            unsynced.end(slot.steps.error.is_none());
        }
        Ok(again)
    }

    pub(super) fn complete(&mut self, at: Time, index: u32, outcome: Outcome) {
        let slot = &self.slots[index as usize];
        let completion = Completion::new(slot.ticket.expect("only a dispatched request completes"), outcome);
        let completion = slot.disk_time.map_or(completion, |disk_time| completion.with_service(disk_time));
        if outcome == Outcome::Done {
            let was_full = self.engine.outstanding() >= self.engine.depth();
            self.capacity.on_completion(&self.name, at, slot.cost, was_full);
        }
        self.complete_ticket(at, completion);
    }

    pub(super) fn complete_ticket(&mut self, at: Time, completion: Completion) {
        let known = self.engine.handle_input(at, Input::Completion(completion));
        assert!(known.is_ok(), "each ticket is completed once");
    }

    /// The request is over: into the ledger, and its answer to the client, whose connection is returned. A
    /// copy of a hybrid store has none.
    fn finish(&mut self, at: Time, record: &Record) -> Option<u32> {
        self.ledger.record(record);
        if let Some(audit) = &mut self.audit {
            audit.record(record);
        }
        if let Some(depth) = self.depth_control.as_mut().and_then(|control| control.handle_record(at, record))
        {
            self.engine.set_depth(depth);
            self.depth_changes += 1;
        }
        if self.tiers.is_some() && self.forget_copy(record.request.id) {
            return None;
        }
        let slot = self.slots.remove(record.request.id.0 as usize);
        debug_assert_eq!(FlowId(slot.volume), record.request.flow);
        if let Some(group) = self.volumes[slot.volume as usize].group {
            let request = Request { flow: group, ..record.request };
            self.ledger.record(&Record { request, ..*record });
        }
        let header = simple_reply(slot.steps.error, slot.cookie);
        let mut data = None;
        match slot.buffer {
            Some(buffer) if slot.steps.command == Command::Read && slot.steps.error.is_none() => {
                data = Some((buffer, slot.steps.length));
            }
            Some(buffer) => self.pool.give(buffer),
            None => {}
        }
        self.connections[slot.connection as usize].outstanding -= 1;
        self.queue_reply(slot.connection, Reply { header, data, room: slot.room });
        Some(slot.connection)
    }
}

impl Slot {
    /// Where the rest of the payload is.
    fn rest(&self) -> *mut u8 {
        self.data_at(self.steps.done)
    }

    /// Where the payload from byte `at` on is.
    pub(super) fn data_at(&self, at: u32) -> *mut u8 {
        let buffer = self.buffer.as_ref().expect("reads and writes have a buffer while at the store");
        assert!(at as usize <= buffer.capacity());
        buffer.as_mut_ptr().wrapping_add(at as usize)
    }
}
