//! One store: a thread that owns a ring, an engine, the store's files and all sessions of its
//! volumes. Nothing on the data path is shared with another thread, so nothing is locked.
//!
//! ```text
//!                    ┌────────────────────────── turn ──────────────────────────┐
//!  ring.wait ──> completions ──> receive: parse ──> engine: arrival              │
//!       ▲            │                                  │ poll_output            │
//!       │            └──> access: done ──> engine: completion                    │
//!       │                                               │                       │
//!       └── submissions <── access: start <── Submit ───┤                       │
//!           sends <──────── replies together <── Reply ─┘                       │
//!                    └───────────────────────────────────────────────────────────┘
//!  connections: Slab<Box<Connection>>   one socket each: receive state, replies to send
//!  slots:       Slab<Slot>              one request each, from its header to its reply
//!  volumes:     Vec<Volume>             export, slice, bytes in flight, who waits for room
//! ```
//!
//! Bounded memory: a request takes up room in its volume (`in_flight`) from its header to the end
//! of its reply's transmission; when the room is used up, the volume's sockets are not read.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant, SystemTime};

use evenkeel_audit::{Change, Terms};
use evenkeel_core::{CostModel, DepthControl, Engine, FlowId, Input, Membership, Rate, Slo, Time};
use evenkeel_device::Device;
use evenkeel_ledger::Ledger;
use evenkeel_nbd::Export;
use slab::Slab;

use crate::backing::{HybridParts, Slice};
use crate::buffers::Pool;
use crate::config::{AdaptConfig, MemberConfig};
use crate::mailbox::Mailbox;
use crate::ring::{Completed, Ring, Tag};
use crate::server::{Accounts, GroupAccount, StoreAccount, VolumeAccount};

mod access;
mod adapt;
mod audit;
mod capacity;
mod connection;
mod faults;
mod gate;
mod hybrid;
mod map_thread;
mod receive;
mod record;
mod send;
mod steps;
mod tier_faults;
mod unsynced;

use access::Slot;
pub use adapt::AdaptAccount;
pub(crate) use audit::AuditParts;
use capacity::CapacityWatch;
pub use capacity::{CapacityAccount, CapacityVerdict};
use connection::Connection;
pub(crate) use connection::{Permit, Session};
pub(crate) use record::RecordParts;
pub use record::RecordTo;

/// Memory that the pool keeps for reuse.
const POOL_RETAINED: usize = 256 << 20;

/// The clock of the whole gateway: nanoseconds since it started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

/// What the store's thread is told.
pub(crate) enum Command {
    /// Serve this negotiated connection.
    Serve(Session),
    /// Send the accounts of all volumes.
    Accounts(SyncSender<Accounts>),
    /// The map thread has made changes durable, or could not.
    MapCommitted(bool),
    /// Use this scheduler from now on; waiting requests move over.
    /// Where its spare capacity goes to background flows, the flag says so.
    Reschedule(Box<dyn evenkeel_core::Scheduler + Send>, bool),
    /// Let so many syncs fail.
    FailSyncs(u32),
    /// Take no more requests, finish what is in flight by the deadline, sync, end.
    Drain(Instant),
}

/// How a store's thread ended.
#[derive(Debug)]
pub(crate) struct StoreEnd {
    pub(crate) accounts: Accounts,
    /// Requests that were not answered within the drain timeout.
    pub(crate) abandoned: usize,
    pub(crate) result: io::Result<()>,
}

/// What a store is made of.
pub(crate) struct Parts {
    pub(crate) name: String,
    pub(crate) clock: Clock,
    pub(crate) engine: Engine,
    pub(crate) device: Option<Box<dyn Device + Send>>,
    pub(crate) files: Vec<File>,
    /// Whether the files bypass the page cache.
    pub(crate) direct: bool,
    /// What makes the files the devices of a hybrid store.
    pub(crate) hybrid: Option<HybridParts>,
    pub(crate) depth_control: Option<DepthControl>,
    /// The stated capacity, and what the promises need.
    pub(crate) capacity: Option<Rate>,
    pub(crate) needed: Rate,
    /// Groups by name, with what they are promised.
    pub(crate) groups: Vec<(String, Slo)>,
    pub(crate) volumes: Vec<VolumeParts>,
    pub(crate) cpu: Option<u32>,
    pub(crate) audit: Option<AuditParts>,
    pub(crate) record: Option<RecordParts>,
}

pub(crate) struct VolumeParts {
    pub(crate) name: String,
    pub(crate) export: Export,
    pub(crate) slice: Slice,
    /// Its first byte within the store, and on an emulated device.
    pub(crate) place: u64,
    pub(crate) slo: Slo,
    /// With the index into [`Parts::groups`].
    pub(crate) member: Option<MemberConfig>,
    pub(crate) adapt: Option<AdaptConfig>,
    pub(crate) cost: CostModel,
    pub(crate) in_flight_max: u64,
}

struct Volume {
    name: Arc<str>,
    /// The flow of its group.
    group: Option<FlowId>,
    export: Export,
    slice: Slice,
    cost: CostModel,
    adaptation: Option<Box<adapt::Adaptation>>,
    /// Its first byte within the store, and on an emulated device.
    place: u64,
    in_flight: u64,
    in_flight_max: u64,
    /// How many faults of its file a FLUSH has told.
    faults_told: u64,
    /// What a FLUSH has to sync, if one range cannot name the whole volume.
    unsynced: Option<unsynced::Unsynced>,
    /// Connections that wait for room, with what their next request takes; first come, first served.
    waiting: std::collections::VecDeque<(u32, u64)>,
    /// The connection that was first in `waiting` is being let in.
    letting_in: bool,
}

pub(crate) struct Store {
    name: String,
    clock: Clock,
    ring: Ring,
    mailbox: Mailbox<Command>,
    /// Leaked, since a read into it is with the kernel until the ring is gone.
    wake_count: &'static mut u64,
    engine: record::Told,
    ledger: Ledger,
    device: Option<Box<dyn Device + Send>>,
    files: Vec<File>,
    /// By file.
    faults: Vec<faults::Faults>,
    syncs_to_fail: u32,
    direct: bool,
    tiers: Option<Box<hybrid::Tiers>>,
    depth_control: Option<DepthControl>,
    depth_changes: u64,
    capacity: CapacityWatch,
    audit: Option<audit::Audit>,
    /// Names of groups; their flows are numbered behind those of the volumes.
    groups: Vec<String>,
    volumes: Vec<Volume>,
    slots: Slab<Slot>,
    connections: Slab<Box<Connection>>,
    pool: Pool,
    zeroes: crate::buffers::Buffer,
    /// Connections that have got replies in this turn.
    ready: Vec<u32>,
    completed: Vec<Completed>,
    drain_deadline: Option<Instant>,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> Time {
        Time::from_nanos(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// The wall time of its start, in nanoseconds after 1970-01-01 UTC.
    pub(crate) fn epoch_unix_ns(self) -> u64 {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(now.saturating_sub(self.0.elapsed()).as_nanos()).unwrap_or(u64::MAX)
    }
}

impl Volume {
    /// Whether a request that takes `bytes` may come in. A request larger than the whole room is
    /// let in when it is alone, so none waits for ever.
    fn has_room(&self, bytes: u64) -> bool {
        self.in_flight == 0 || self.in_flight + bytes <= self.in_flight_max
    }
}

impl Store {
    /// Builds the store; to be called on the thread that will run it.
    pub(crate) fn new(parts: Parts, mailbox: Mailbox<Command>) -> io::Result<Self> {
        if let Some(cpu) = parts.cpu {
            bind_to(cpu)?;
        }
        wake_on_time();
        let mut ring = Ring::new()?;
        ring.register_files(&parts.files.iter().map(AsRawFd::as_raw_fd).collect::<Vec<_>>())?;
        let mut store = Self {
            name: parts.name,
            clock: parts.clock,
            ring,
            mailbox,
            wake_count: Box::leak(Box::new(0)),
            engine: record::Told::new(parts.engine, parts.record)?,
            ledger: Ledger::new(),
            device: parts.device,
            faults: vec![faults::Faults::default(); parts.files.len()],
            syncs_to_fail: 0,
            files: parts.files,
            direct: parts.direct,
            tiers: None,
            depth_control: parts.depth_control,
            depth_changes: 0,
            capacity: CapacityWatch::new(parts.capacity, parts.needed),
            audit: None,
            groups: Vec::with_capacity(parts.groups.len()),
            volumes: Vec::with_capacity(parts.volumes.len()),
            slots: Slab::with_capacity(256),
            connections: Slab::with_capacity(16),
            pool: Pool::new(POOL_RETAINED),
            zeroes: crate::buffers::Buffer::allocate(steps::ZERO_CHUNK as usize)
                .ok_or(io::ErrorKind::OutOfMemory)?,
            ready: Vec::with_capacity(64),
            completed: Vec::with_capacity(1024),
            drain_deadline: None,
        };
        store.start_audit(parts.audit)?;
        let first_group = u32::try_from(parts.volumes.len()).map_err(io::Error::other)?;
        for (number, (name, slo)) in (first_group..).zip(parts.groups) {
            let now = store.clock.now();
            store.open_account(now, FlowId(number), &name, &slo, None);
            store.engine.handle_input(now, Input::Add(FlowId(number), slo)).map_err(io::Error::other)?;
            store.groups.push(name);
        }
        for volume in parts.volumes {
            store.add_volume(volume, first_group)?;
        }
        if let Some(parts) = parts.hybrid {
            store.add_tiers(parts)?;
        }
        Ok(store)
    }

    /// Serves until told to drain.
    pub(crate) fn run(mut self) -> StoreEnd {
        let mut result = self.serve().and_then(|()| self.sync());
        let mut in_flight = false;
        if let Some(tiers) = &mut self.tiers {
            result = result.and(tiers.close());
            in_flight = !tiers.is_over();
        }
        self.report_untold_faults();
        let now = self.clock.now();
        let accounts = self.accounts(now);
        let audited = self.audit.take().map_or(Ok(()), |audit| audit.close(now));
        let result = result.and(audited).and(self.engine.close());
        let unsent: usize = self.connections.iter().map(|(_, connection)| connection.unsent()).sum();
        let abandoned = self.slots.len() + unsent;
        if abandoned > 0 || in_flight || !self.connections.is_empty() {
            // The kernel may still be reading from or writing to their buffers.
            std::mem::forget(self);
        } else {
            // The kernel takes a ring apart in its own time; the files must be free at once.
            self.files.iter().for_each(crate::backing::unlock);
        }
        StoreEnd { accounts, abandoned, result }
    }

    fn serve(&mut self) -> io::Result<()> {
        self.arm_wake()?;
        loop {
            let timeout = self.time_to_next_event();
            self.ring.wait(timeout)?;
            let now = self.clock.now();
            self.advance_device(now)?;
            let mut completed = std::mem::take(&mut self.completed);
            self.ring.drain(&mut completed);
            for completion in completed.drain(..) {
                self.on_completed(now, completion)?;
            }
            self.completed = completed;
            self.handle_engine_timeout(now);
            loop {
                self.dispatch(now)?;
                self.send_ready()?;
                if !self.resume_waiting(now)? {
                    break;
                }
            }
            if let Some(audit) = &mut self.audit {
                audit.flush();
            }
            self.engine.flush();
            if self.drained(now)? {
                return Ok(());
            }
        }
    }

    fn on_completed(&mut self, now: Time, completed: Completed) -> io::Result<()> {
        match completed.tag {
            Tag::Wake => {
                self.arm_wake()?;
                for command in self.mailbox.take() {
                    self.on_command(now, command)?;
                }
                Ok(())
            }
            Tag::Receive(connection) => self.on_received(now, connection, completed.result),
            Tag::Send(connection) => self.on_sent(connection, completed.result),
            Tag::Access(slot) => self.on_access_done(now, slot, completed.result),
            Tag::Piece(id) => self.on_piece_done(now, id, completed.result),
            Tag::Copy(copy) => self.on_copy_step(now, copy, completed.result),
            Tag::Sync(file) => self.on_sync_done(now, file, completed.result),
        }
    }

    fn on_command(&mut self, now: Time, command: Command) -> io::Result<()> {
        match command {
            Command::Serve(session) => self.open_connection(now, session),
            Command::Accounts(answer) => {
                // The asker may have given up waiting.
                let _ = answer.try_send(self.accounts(now));
                Ok(())
            }
            Command::MapCommitted(succeeded) => self.on_map_committed(now, succeeded),
            Command::Reschedule(scheduler, background) => {
                let name = scheduler.name();
                let replaced = self.engine.replace_scheduler(now, scheduler, background);
                if let (Ok(()), Some(audit)) = (&replaced, &mut self.audit) {
                    audit.change(now, Change::Scheduler(name.into()));
                }
                if let Err(error) = replaced {
                    tracing::error!(store = %self.name, scheduler = name, %error,
                        "cannot keep the promises of this store; the scheduler stays as it was");
                }
                Ok(())
            }
            Command::FailSyncs(count) => {
                self.syncs_to_fail += count;
                Ok(())
            }
            Command::Drain(deadline) => self.start_draining(now, deadline),
        }
    }

    fn add_volume(&mut self, parts: VolumeParts, first_group: u32) -> io::Result<()> {
        let flow = FlowId(u32::try_from(self.volumes.len()).map_err(io::Error::other)?);
        let now = self.clock.now();
        let membership = |MemberConfig { group, weight, limit }: MemberConfig| Membership {
            group: FlowId(first_group + group as u32),
            weight,
            limit,
        };
        let member = parts.member.map(membership);
        self.open_account(now, flow, &parts.name, &parts.slo, member);
        let input = member.map_or(Input::Add(flow, parts.slo), |member| Input::Join(flow, member));
        self.engine.handle_input(now, input).map_err(io::Error::other)?;
        let adaptation = parts
            .adapt
            .and_then(|adapt| adapt::Adaptation::new(now, &adapt, self.engine.slo(flow)?))
            .map(Box::new);
        self.volumes.push(Volume {
            adaptation,
            name: parts.name.into(),
            group: member.map(|member| member.group),
            export: parts.export,
            slice: parts.slice,
            cost: parts.cost,
            place: parts.place,
            in_flight: 0,
            in_flight_max: parts.in_flight_max,
            faults_told: 0,
            unsynced: u32::try_from(parts.slice.size)
                .is_err()
                .then(|| unsynced::Unsynced::new(parts.slice.offset, parts.slice.size)),
            waiting: std::collections::VecDeque::new(),
            letting_in: false,
        });
        Ok(())
    }

    /// Makes it a hybrid store; its copies are a flow behind those of volumes and groups.
    fn add_tiers(&mut self, parts: HybridParts) -> io::Result<()> {
        let flows = self.volumes.len() + self.groups.len();
        let migration = FlowId(u32::try_from(flows).map_err(io::Error::other)?);
        let (now, slo) = (self.clock.now(), Slo::background());
        self.open_account(now, migration, hybrid::MIGRATION_NAME, &slo, None);
        self.engine.handle_input(now, Input::Add(migration, slo)).map_err(io::Error::other)?;
        let tiers = hybrid::Tiers::new(&self.name, parts, self.mailbox.clone(), migration)?;
        self.tiers = Some(Box::new(tiers));
        if self.tiers.as_ref().is_some_and(|tiers| tiers.is_without_fast()) {
            tracing::error!(store = %self.name, "serving without the fast device, as configured");
            self.tell_unreachable();
        }
        Ok(())
    }

    /// Notes in ledger and audit log what a flow is promised.
    fn open_account(&mut self, at: Time, flow: FlowId, name: &str, slo: &Slo, member: Option<Membership>) {
        self.ledger.configure(at, flow, slo);
        if let Some(audit) = &mut self.audit {
            audit.configure(Terms { flow, at, name: name.into(), slo: slo.clone(), member });
        }
    }

    fn arm_wake(&mut self) -> io::Result<()> {
        let event = io_uring::types::Fd(self.mailbox.event());
        let counter: *mut u64 = &raw mut *self.wake_count;
        let entry = io_uring::opcode::Read::new(event, counter.cast(), 8).build();
        // SAFETY: the counter lives for ever, and nothing else touches it.
        unsafe { self.ring.push(entry, Tag::Wake) }
    }

    fn time_to_next_event(&self) -> Option<Duration> {
        let device = self.device.as_ref().and_then(|device| device.next_event());
        let next = [device, self.engine.poll_timeout()].into_iter().flatten().min();
        let event = next.map(|at| Duration::from_nanos(at.since(self.clock.now()).as_nanos()));
        let deadline = self.drain_deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let pending = self.engine.is_pending() || self.audit.as_ref().is_some_and(audit::Audit::is_pending);
        let notes = pending.then_some(Duration::from_millis(1));
        [event, deadline, notes].into_iter().flatten().min()
    }

    fn handle_engine_timeout(&mut self, now: Time) {
        if self.engine.poll_timeout().is_some_and(|at| at <= now) {
            let handled = self.engine.handle_input(now, evenkeel_core::Input::Timeout);
            debug_assert!(handled.is_ok());
        }
    }

    fn accounts(&self, now: Time) -> Accounts {
        let first_group = self.volumes.len();
        let volume = |(index, volume): (usize, &Volume)| {
            let account = self.ledger.account(now, FlowId(index as u32))?;
            let group = volume.group.and_then(|flow| self.groups.get(flow.0 as usize - first_group)).cloned();
            let adapt = volume.adaptation.as_ref().map(|adaptation| adaptation.account());
            let (name, store) = (volume.name.to_string(), self.name.clone());
            Some(VolumeAccount { volume: name, store, group, adapt, account })
        };
        let group = |(index, group): (usize, &String)| {
            let account = self.ledger.account(now, FlowId((first_group + index) as u32))?;
            Some(GroupAccount { group: group.clone(), store: self.name.clone(), account })
        };
        let migration = |tiers: &hybrid::Tiers| {
            let account = self.ledger.account(now, tiers.migration())?;
            let volume = hybrid::MIGRATION_NAME.to_owned();
            Some(VolumeAccount { volume, store: self.name.clone(), group: None, adapt: None, account })
        };
        let tiers = self.tiers.as_deref();
        let volumes = self.volumes.iter().enumerate().filter_map(volume);
        Accounts {
            volumes: volumes.chain(tiers.and_then(migration)).collect(),
            groups: self.groups.iter().enumerate().filter_map(group).collect(),
            stores: vec![StoreAccount {
                store: self.name.clone(),
                scheduler: self.engine.scheduler_name(),
                depth: tiers.map_or(self.engine.depth(), hybrid::Tiers::depth),
                depth_changes: self.depth_changes,
                hybrid: tiers.map(hybrid::Tiers::status),
                capacity: self.capacity.account(),
            }],
        }
    }

    fn start_draining(&mut self, now: Time, deadline: Instant) -> io::Result<()> {
        self.drain_deadline = Some(deadline);
        if let Some(tiers) = &mut self.tiers {
            tiers.stop_migrating();
        }
        let indices: Vec<u32> = self.connections.iter().map(|(index, _)| index as u32).collect();
        for volume in &mut self.volumes {
            volume.waiting.clear();
        }
        for index in indices {
            // Ends the receive that is under way; replies can still be sent.
            self.connections[index as usize].shut_down(libc::SHUT_RD);
            // Those that waited for room have no receive under way: they learn of the end here.
            self.parse(now, index)?;
            self.close_if_over(index);
        }
        Ok(())
    }

    fn drained(&mut self, now: Time) -> io::Result<bool> {
        let Some(deadline) = self.drain_deadline else { return Ok(false) };
        Ok((self.connections.is_empty() && self.end_tiers(now)?) || Instant::now() >= deadline)
    }

    fn sync(&self) -> io::Result<()> {
        // Where the fast device is missing, something else holds its place.
        let is_missing = self.tiers.as_ref().is_some_and(|tiers| tiers.is_without_fast());
        self.files.iter().take(if is_missing { 1 } else { usize::MAX }).try_for_each(File::sync_data)
    }
}

/// Runs the calling thread on one processor only.
fn bind_to(cpu: u32) -> io::Result<()> {
    // SAFETY: an all-zero set is a valid empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    if cpu as usize >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("cpu {cpu} is out of range")));
    }
    // SAFETY: the index was checked; the set outlives the call.
    let result = unsafe {
        libc::CPU_SET(cpu as usize, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Asks for timers without the 50 µs of slack that the kernel grants itself by default: an
/// emulated device's answer should leave when it is due.
fn wake_on_time() {
    // SAFETY: plain system call; a refusal only leaves the default.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_000_u64) };
}

/// Gives a descriptor back its blocking mode: the ring waits by itself, but answers "try again" on
/// a descriptor that is marked non-blocking.
pub(crate) fn set_blocking(descriptor: &OwnedFd) -> io::Result<()> {
    let mut off: libc::c_int = 0;
    // SAFETY: an open descriptor and a readable int.
    match unsafe { libc::ioctl(descriptor.as_raw_fd(), libc::FIONBIO, &raw mut off) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
