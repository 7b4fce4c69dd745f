//! A hybrid store on its two devices: carries out what [`Hybrid`] asks for.
//!
//! ```text
//!  Submit ─> Hybrid ─┬─ Access ─> page cache, if the data is there ─────────────┐
//!            ▲       │            gate of its device ─> ring ───────────────────┼─> on_access_done
//!            │       ├─ Copy ───> engine: a request of the migration flow ─> gate, read, gate, write
//!            │       ├─ Sync ───> ring: fsync of the whole device ──────────────┼─> on_sync_done
//!            │       ├─ Commit ─> map thread ─> mailbox ────────────────────────┴─> on_commit_done
//!            │       └─ Done ───> Completion
//!            └─ all of these call back, and `follow` carries out what comes of it
//! ```
//! A copy is a request of a background flow that no client has, so the scheduler fits it in where no promise
//! needs the capacity; its number has [`COPY`] set.

use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

use evenkeel_core::{
    Completion, CostModel, FlowId, Input, Operation, Outcome, Request, RequestId, Submission, Ticket, Time,
};
use evenkeel_nbd::{Command, ErrorCode};
use evenkeel_tiering::store::copy_cost;
use evenkeel_tiering::{Copy, Fault, Hybrid, HybridRequest, Output, Tier, TierAccess};
use io_uring::{opcode, types};
use slab::Slab;

use super::Store;
use super::gate::{Gates, Waiting};
use super::map_thread::MapThread;
use super::steps::{Place, Stage, Steps};
use super::tier_faults::TierErrors;
use crate::backing::HybridParts;
use crate::buffers::Buffer;
use crate::mailbox::Mailbox;
use crate::ring::Tag;
use crate::server::HybridStatus;

/// Marks the numbers of copies among those of requests.
const COPY: u64 = 1 << 32;
/// The name of the migration flow among the accounts.
pub(super) const MIGRATION_NAME: &str = "(migration)";
/// The flush that ends the store.
const LAST_FLUSH: u64 = u64::MAX;

/// The two devices of a hybrid store.
pub(super) struct Tiers {
    hybrid: Hybrid,
    /// By number of the access; those that are over are stale.
    pieces: Vec<Piece>,
    copies: Slab<CopyJob>,
    gates: Gates,
    fast_base: u64,
    map: MapThread,
    migration: FlowId,
    /// What copies cost.
    cost: CostModel,
    end: End,
    errors: TierErrors,
    /// Whether the fast device is missing from the start, as configured.
    without_fast: bool,
}

/// An access of a request to one device.
#[derive(Clone, Copy, Debug)]
struct Piece {
    access: TierAccess,
    steps: Steps,
}

/// A copy between the devices.
#[derive(Debug)]
struct CopyJob {
    copy: Copy,
    ticket: Option<Ticket>,
    buffer: Option<Buffer>,
    writes: bool,
    done: u32,
}

/// How far the end of the store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    NotYet,
    Flushing,
    Over(Result<(), Fault>),
}

/// Files of a hybrid store, as [`crate::backing`] opens them.
const fn file_of(tier: Tier) -> u32 {
    match tier {
        Tier::Slow => 0,
        Tier::Fast => 1,
    }
}

const fn other(tier: Tier) -> Tier {
    match tier {
        Tier::Slow => Tier::Fast,
        Tier::Fast => Tier::Slow,
    }
}

/// Whether `errno` says that a device has gone, rather than that one place of it is bad.
fn is_gone(tier: Tier, is_write: bool, errno: i32) -> bool {
    let is_absent = matches!(errno, libc::ENODEV | libc::ENXIO | libc::ESHUTDOWN);
    // A device that does not take writes any more would fail every write that the policy sends there.
    let is_refusing = is_write && matches!(errno, libc::EIO | libc::EROFS);
    tier == Tier::Fast && (is_absent || is_refusing)
}

impl Tiers {
    pub(super) fn new(
        store: &str,
        parts: HybridParts,
        mailbox: Mailbox<super::Command>,
        migration: FlowId,
    ) -> io::Result<Self> {
        let HybridParts { hybrid, map, fast_base, config, cost } = parts;
        Ok(Self {
            hybrid,
            pieces: Vec::with_capacity(256),
            copies: Slab::with_capacity(16),
            gates: Gates::new(config.fast_depth.get(), config.slow_depth.get()),
            fast_base,
            map: MapThread::start(store, map, mailbox)?,
            migration,
            cost,
            end: End::NotYet,
            errors: TierErrors::default(),
            without_fast: config.without_fast,
        })
    }

    /// The flow of the copies.
    pub(super) const fn migration(&self) -> FlowId {
        self.migration
    }

    /// Accesses that may be at both devices.
    pub(super) const fn depth(&self) -> u32 {
        self.gates.depth()
    }

    pub(super) const fn is_without_fast(&self) -> bool {
        self.without_fast
    }

    /// Bytes of the store within `range` that are on the fast device.
    pub(super) fn fast_bytes(&self, range: Range<u64>) -> u64 {
        self.hybrid.fast_bytes_within(&range)
    }

    pub(super) fn wants_more(&self) -> bool {
        self.gates.want_more()
    }

    pub(super) fn stop_migrating(&mut self) {
        self.hybrid.stop_migrating();
    }

    /// Closes the map, and says whether all that clients wrote is durable.
    pub(super) fn close(&mut self) -> io::Result<()> {
        self.map.close();
        match self.end {
            End::Over(Ok(())) => Ok(()),
            End::Over(Err(fault)) => Err(io::Error::other(fault)),
            End::NotYet | End::Flushing => Err(io::Error::other(
                "data and location map could not be made durable within gateway.drain_timeout",
            )),
        }
    }

    /// Whether nothing of it is with the kernel.
    pub(super) const fn is_over(&self) -> bool {
        matches!(self.end, End::Over(_))
    }

    pub(super) fn status(&self) -> HybridStatus {
        let (slots_used, slots) = self.hybrid.slots();
        let counts = self.hybrid.counts();
        HybridStatus {
            slots_used,
            slots,
            cluster_bytes: self.hybrid.geometry().cluster_bytes(),
            fast_accesses: counts.fast,
            slow_accesses: counts.slow,
            promoted: counts.promoted,
            demoted: counts.demoted,
            commits: counts.commits,
            fast_lost: self.hybrid.is_lost(Tier::Fast),
            slow_lost: self.hybrid.is_lost(Tier::Slow),
            fast_errors: self.errors.fast,
            slow_errors: self.errors.slow,
        }
    }

    const fn base(&self, tier: Tier) -> u64 {
        match tier {
            Tier::Fast => self.fast_base,
            Tier::Slow => 0,
        }
    }
}

impl Store {
    fn tiers(&mut self) -> &mut Tiers {
        self.tiers.as_mut().expect("only a hybrid store gets here")
    }

    /// Starts a request that the engine has dispatched, or a copy.
    pub(super) fn start_tiered(&mut self, now: Time, submission: Submission) -> io::Result<()> {
        if submission.request.id.0 >= COPY {
            return self.start_copy(now, submission);
        }
        let index = submission.request.id.0 as u32;
        self.slots[index as usize].cost = submission.request.cost;
        if !self.has_buffer(now, index, submission.ticket) {
            return Ok(());
        }
        let slot = &mut self.slots[index as usize];
        (slot.started, slot.pushed) = (now, now);
        let Request { flow, operation, length, .. } = submission.request;
        let offset = self.volumes[slot.volume as usize].slice.offset + slot.offset;
        let request =
            HybridRequest { token: u64::from(index), flow, operation, fua: slot.steps.fua, offset, length };
        self.tiers().hybrid.submit(&request);
        self.follow(now)
    }

    /// Carries out what the state machine asks for, until it asks for nothing more.
    fn follow(&mut self, now: Time) -> io::Result<()> {
        while let Some(output) = self.tiers().hybrid.poll_output() {
            match output {
                Output::Access(access) => self.start_piece(access)?,
                Output::Copy(copy) => self.ask_for_copy(now, copy),
                Output::Sync(tier) => self.push_sync(tier)?,
                Output::Commit(changes) => {
                    let tiers = self.tiers();
                    if !tiers.map.commit(changes) {
                        tiers.hybrid.on_commit_done(false);
                    }
                }
                Output::Done { token: LAST_FLUSH, outcome } => self.tiers().end = End::Over(outcome),
                Output::Done { token, outcome } => self.end_request(now, token as u32, outcome),
            }
        }
        Ok(())
    }

    fn end_request(&mut self, now: Time, index: u32, outcome: Result<(), Fault>) {
        let steps = &mut self.slots[index as usize].steps;
        steps.error = outcome.err().map(|_| steps.error.unwrap_or(ErrorCode::Io));
        self.complete(now, index, if outcome.is_ok() { Outcome::Done } else { Outcome::Failed });
    }

    fn start_piece(&mut self, access: TierAccess) -> io::Result<()> {
        let slot = &self.slots[access.token as usize];
        let mut steps = Steps::new(slot.steps.command, access.fua, access.length, slot.steps.stage);
        if access.operation == Operation::Read && !self.direct {
            steps.done = self.read_piece_from_cache(&access);
            if steps.done == access.length {
                self.tiers().hybrid.on_access_done(access.id, true);
                return Ok(());
            }
        }
        let tiers = self.tiers();
        let piece = Piece { access, steps };
        let id = access.id as usize;
        if tiers.pieces.len() <= id {
            tiers.pieces.resize(id + 1, piece);
        }
        tiers.pieces[id] = piece;
        if tiers.gates.enter(access.tier, Waiting::Piece(access.id)) {
            self.push_piece(access.id)?;
        }
        Ok(())
    }

    /// Reads what the page cache holds, without waiting for the device; how many bytes.
    fn read_piece_from_cache(&mut self, access: &TierAccess) -> u32 {
        let start = self.tiers().base(access.tier) + access.offset;
        let slot = &self.slots[access.token as usize];
        let vector =
            libc::iovec { iov_base: slot.data_at(access.within).cast(), iov_len: access.length as usize };
        // SAFETY: the buffer has room for the whole request, and this part of it is touched by nobody else.
        let count = unsafe {
            libc::preadv2(
                self.files[file_of(access.tier) as usize].as_raw_fd(),
                &raw const vector,
                1,
                start as libc::off_t,
                libc::RWF_NOWAIT,
            )
        };
        // Whatever is not there, and whatever went wrong, is the ring's to find out.
        u32::try_from(count).unwrap_or(0)
    }

    fn push_piece(&mut self, id: u32) -> io::Result<()> {
        let tiers = self.tiers();
        let Piece { access, steps } = tiers.pieces[id as usize];
        let start = tiers.base(access.tier) + access.offset;
        let place = Place { file: file_of(access.tier), start, sync: (0, 0) };
        let slot = &self.slots[access.token as usize];
        let has_data = matches!(steps.command, Command::Read | Command::Write);
        let rest = if has_data { slot.data_at(access.within + steps.done) } else { std::ptr::null_mut() };
        let entry = steps.entry(place, rest, self.zeroes.as_mut_ptr());
        // SAFETY: the slot and its buffer stay until all accesses of its request are over; the zeros live
        // as long as the store and are only read.
        unsafe { self.ring.push(entry, Tag::Piece(id)) }
    }

    pub(super) fn on_piece_done(&mut self, now: Time, id: u32, result: i32) -> io::Result<()> {
        let tiers = self.tiers();
        let piece = &mut tiers.pieces[id as usize];
        if piece.steps.take_in(result) {
            return self.push_piece(id);
        }
        let Piece { access, steps } = *piece;
        if let Some(error) = steps.error {
            self.slots[access.token as usize].steps.error.get_or_insert(error);
            let count = self.tiers().errors.count(access.tier);
            self.tell_failed_access(&access, -result, count);
        }
        self.leave_gate(access.tier)?;
        let is_write = access.operation != Operation::Read;
        let is_lost = steps.error.is_some() && is_gone(access.tier, is_write, -result);
        if is_lost && !self.tiers().hybrid.is_lost(Tier::Fast) {
            tracing::error!(store = %self.name, error = %io::Error::from_raw_os_error(-result),
                "the fast device is lost; blocks whose newest content is there fail, all others go on");
            self.tell_unreachable();
        }
        let tiers = self.tiers();
        if is_lost {
            tiers.hybrid.on_tier_lost(Tier::Fast);
        }
        tiers.hybrid.on_access_done(id, steps.error.is_none());
        self.follow(now)
    }

    fn leave_gate(&mut self, tier: Tier) -> io::Result<()> {
        match self.tiers().gates.leave(tier) {
            Some(Waiting::Piece(id)) => self.push_piece(id),
            Some(Waiting::Copy(index)) => self.push_copy(index),
            None => Ok(()),
        }
    }

    fn push_sync(&mut self, tier: Tier) -> io::Result<()> {
        let file = types::Fixed(file_of(tier));
        let entry = opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).build();
        // SAFETY: it names no memory.
        unsafe { self.ring.push(entry, Tag::Sync(file_of(tier))) }
    }

    pub(super) fn on_sync_done(&mut self, now: Time, file: u32, result: i32) -> io::Result<()> {
        let tier = if file == file_of(Tier::Fast) { Tier::Fast } else { Tier::Slow };
        if matches!(-result, libc::EINTR | libc::EAGAIN) {
            return self.push_sync(tier);
        }
        let result = if self.syncs_to_fail > 0 { -libc::EIO } else { result };
        self.syncs_to_fail = self.syncs_to_fail.saturating_sub(1);
        if result < 0 {
            let error = io::Error::from_raw_os_error(-result);
            tracing::error!(store = %self.name, ?tier, %error,
                "a device could not make its data durable; volumes that wrote there fail their flushes");
        }
        self.tiers().hybrid.on_sync_done(tier, result >= 0);
        self.follow(now)
    }

    pub(super) fn on_map_committed(&mut self, now: Time, succeeded: bool) -> io::Result<()> {
        self.tiers().hybrid.on_commit_done(succeeded);
        self.follow(now)
    }

    /// Makes a copy a request of the migration flow.
    fn ask_for_copy(&mut self, now: Time, copy: Copy) {
        let tiers = self.tiers();
        let job = CopyJob { copy, ticket: None, buffer: None, writes: false, done: 0 };
        let id = RequestId(COPY | tiers.copies.insert(job) as u64);
        // As the slow device sees it, which is where it costs most.
        let (operation, offset) = match copy.from {
            Tier::Slow => (Operation::Read, copy.from_offset),
            Tier::Fast => (Operation::Write, copy.to_offset),
        };
        let flow = tiers.migration;
        let cost = copy_cost(&tiers.cost, copy.length);
        let request = Request { id, flow, operation, offset, length: copy.length, cost };
        self.ledger.on_arrival(now, &request);
        if let Some(audit) = &mut self.audit {
            audit.on_arrival(&request);
        }
        let taken = self.engine.handle_input(now, Input::Arrival(request));
        assert!(taken.is_ok(), "the migration flow is configured from the start");
    }

    fn start_copy(&mut self, now: Time, submission: Submission) -> io::Result<()> {
        let index = (submission.request.id.0 & !COPY) as u32;
        let buffer = self.pool.take(submission.request.length as usize);
        let has_memory = buffer.is_some();
        let tiers = self.tiers();
        let job = &mut tiers.copies[index as usize];
        job.ticket = Some(submission.ticket);
        job.buffer = buffer;
        if !has_memory {
            return self.end_copy(now, index, false);
        }
        if tiers.gates.enter(job.copy.from, Waiting::Copy(index)) {
            self.push_copy(index)?;
        }
        Ok(())
    }

    /// Queues the next read or write of a copy.
    fn push_copy(&mut self, index: u32) -> io::Result<()> {
        let tiers = self.tiers();
        let CopyJob { copy, writes, done, buffer, .. } = &tiers.copies[index as usize];
        let (tier, offset) =
            if *writes { (other(copy.from), copy.to_offset) } else { (copy.from, copy.from_offset) };
        let start = tiers.base(tier) + offset;
        let command = if *writes { Command::Write } else { Command::Read };
        let steps = Steps { done: *done, ..Steps::new(command, false, copy.length, Stage::Data) };
        let buffer = buffer.as_ref().expect("a copy that was started has a buffer");
        assert!(copy.length as usize <= buffer.capacity());
        let rest = buffer.as_mut_ptr().wrapping_add(*done as usize);
        let place = Place { file: file_of(tier), start, sync: (0, 0) };
        let entry = steps.entry(place, rest, std::ptr::null_mut());
        // SAFETY: the copy keeps its buffer until it is over.
        unsafe { self.ring.push(entry, Tag::Copy(index)) }
    }

    pub(super) fn on_copy_step(&mut self, now: Time, index: u32, result: i32) -> io::Result<()> {
        let job = &mut self.tiers().copies[index as usize];
        let copy = job.copy;
        let tier = if job.writes { other(copy.from) } else { copy.from };
        match result {
            _ if result == -libc::EINTR || result == -libc::EAGAIN => return self.push_copy(index),
            1.. => job.done += result as u32,
            _ => {
                let error = if result == 0 {
                    io::ErrorKind::UnexpectedEof.into()
                } else {
                    io::Error::from_raw_os_error(-result)
                };
                if self.tiers().errors.count(tier).is_power_of_two() {
                    tracing::warn!(store = %self.name, ?tier, %error, "a cluster could not be migrated");
                }
                self.leave_gate(tier)?;
                return self.end_copy(now, index, false);
            }
        }
        if job.done < copy.length {
            return self.push_copy(index);
        }
        let is_over = std::mem::replace(&mut job.writes, true);
        job.done = 0;
        self.leave_gate(tier)?;
        if is_over {
            return self.end_copy(now, index, true);
        }
        if self.tiers().gates.enter(other(tier), Waiting::Copy(index)) {
            self.push_copy(index)?;
        }
        Ok(())
    }

    fn end_copy(&mut self, now: Time, index: u32, succeeded: bool) -> io::Result<()> {
        let tiers = self.tiers();
        let CopyJob { copy, ticket, .. } = tiers.copies[index as usize];
        let ticket = ticket.expect("only a dispatched copy ends");
        tiers.hybrid.on_copy_done(copy.id, succeeded);
        let outcome = if succeeded { Outcome::Done } else { Outcome::Failed };
        self.complete_ticket(now, Completion::new(ticket, outcome));
        self.follow(now)
    }

    /// Forgets a copy whose record is written; whether the record was one of a copy.
    pub(super) fn forget_copy(&mut self, id: RequestId) -> bool {
        if id.0 < COPY {
            return false;
        }
        let job = self.tiers().copies.remove((id.0 & !COPY) as usize);
        if let Some(buffer) = job.buffer {
            self.pool.give(buffer);
        }
        true
    }

    /// Makes everything durable once all requests are over; whether that is done.
    pub(super) fn end_tiers(&mut self, now: Time) -> io::Result<bool> {
        let Some(tiers) = self.tiers.as_mut() else { return Ok(true) };
        if tiers.end == End::NotYet && tiers.hybrid.is_idle() && tiers.copies.is_empty() {
            tiers.end = End::Flushing;
            let (flow, operation) = (tiers.migration, Operation::Flush);
            tiers.hybrid.submit(&HybridRequest {
                token: LAST_FLUSH,
                flow,
                operation,
                fua: false,
                offset: 0,
                length: 0,
            });
            self.follow(now)?;
        }
        Ok(self.tiers().is_over())
    }
}
