//! The gateway as a whole: opens everything, starts the threads, and ends them in order.
//!
//! ```text
//!  front thread ──(sessions)──> store threads (one per store: ring, engine, sessions)
//!       ▲                            ▲
//!       └──────── Server ────────────┘   start, accounts, shutdown
//! ```

use std::io;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use evenkeel_core::{Engine, Rate, Span};
use evenkeel_device::Spec;
use evenkeel_ledger::Account;

use crate::backing::{self, BackingError, Slice};
use crate::catalogue::{Catalogue, Entry, export};
use crate::config::{
    Admission, Config, GroupConfig, Listen, MemberConfig, SchedulerKind, SpareTo, StoreConfig, Tuning,
};
use crate::front::{Front, Stop};
use crate::listener::{ListenError, Listener};
use crate::mailbox::Mailbox;
use crate::store::{
    AdaptAccount, AuditParts, CapacityAccount, Clock, Command, Parts, RecordParts, RecordTo, Store, StoreEnd,
    VolumeParts,
};

/// How long to wait for a store's accounts before giving up on its thread.
const ACCOUNTS_TIMEOUT: Duration = Duration::from_secs(5);

/// Requests at the device of a store that only observes: as many as a ring holds.
const OBSERVED_DEPTH: NonZeroU32 = NonZeroU32::new(32_768).expect("above 0");

/// A running gateway.
#[derive(Debug)]
pub struct Server {
    addresses: Vec<Listen>,
    front: JoinHandle<()>,
    front_mailbox: Mailbox<Stop>,
    stores: Vec<RunningStore>,
    drain_timeout: Duration,
}

#[derive(Debug)]
struct RunningStore {
    name: String,
    tuning: Tuning,
    mailbox: Mailbox<Command>,
    thread: JoinHandle<StoreEnd>,
}

/// The account of one volume.
#[derive(Clone, Debug, serde::Serialize)]
pub struct VolumeAccount {
    /// The volume's name.
    pub volume: String,
    /// The name of its store.
    pub store: String,
    /// The name of its group, if it belongs to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// What became of its promise, if it may be adapted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapt: Option<AdaptAccount>,
    /// Its account.
    #[serde(flatten)]
    pub account: Account,
}

/// How the devices of a hybrid store are used.
#[derive(Clone, Debug, serde::Serialize)]
pub struct HybridStatus {
    /// Slots of the fast device that have a cluster, or wait for the map to forget one.
    pub slots_used: u32,
    /// Slots that there are.
    pub slots: u32,
    /// Bytes of a cluster, and so of a slot.
    pub cluster_bytes: u32,
    /// Accesses of requests to the fast device since the start.
    pub fast_accesses: u64,
    /// Accesses of requests to the slow device.
    pub slow_accesses: u64,
    /// Clusters copied to the fast device.
    pub promoted: u64,
    /// Clusters copied back.
    pub demoted: u64,
    /// Transactions of the location map.
    pub commits: u64,
    /// Whether the fast device was lost.
    pub fast_lost: bool,
    /// Whether the slow device was lost.
    pub slow_lost: bool,
    /// Accesses to the fast device that failed, those of copies included.
    pub fast_errors: u64,
    /// Accesses to the slow device that failed.
    pub slow_errors: u64,
}

/// The account of one group: all that its volumes did, held against the promise that they share.
#[derive(Clone, Debug, serde::Serialize)]
pub struct GroupAccount {
    /// The group's name.
    pub group: String,
    /// The name of its store.
    pub store: String,
    /// Its account.
    #[serde(flatten)]
    pub account: Account,
}

/// How one store works.
#[derive(Clone, Debug, serde::Serialize)]
pub struct StoreAccount {
    /// The store's name.
    pub store: String,
    /// Its scheduler.
    pub scheduler: &'static str,
    /// How many requests may be at the device.
    pub depth: u32,
    /// How often that has been changed, where it is adapted.
    pub depth_changes: u64,
    /// How its devices are used, if it is a hybrid store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hybrid: Option<HybridStatus>,
    /// What its device gives, and whether the promises fit.
    pub capacity: CapacityAccount,
}

/// All accounts of a gateway.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Accounts {
    /// By store, in the order of the file.
    pub volumes: Vec<VolumeAccount>,
    /// Likewise.
    pub groups: Vec<GroupAccount>,
    /// Likewise.
    pub stores: Vec<StoreAccount>,
}

/// How a gateway ended.
#[derive(Debug)]
pub struct Ended {
    /// The accounts of all volumes, as of the end.
    pub accounts: Vec<VolumeAccount>,
    /// The accounts of all groups, as of the end.
    pub groups: Vec<GroupAccount>,
    /// How all stores worked, as of the end.
    pub stores: Vec<StoreAccount>,
    /// Requests that were not answered within `gateway.drain_timeout`.
    pub abandoned: usize,
    /// What went wrong, by store.
    pub failures: Vec<(String, io::Error)>,
}

/// Why a gateway does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A file or device cannot be used.
    #[error(transparent)]
    Backing(#[from] BackingError),
    /// An address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The promises do not fit the stated capacity.
    #[error(
        "store.{store}: its volumes' SLAs need {need}, but its capacity is {capacity}; lower a burst or rate, raise a latency, or set store.{store}.admission = \"best-effort\" or \"warn\" to start all the same"
    )]
    DoesNotFit {
        /// The store.
        store: String,
        /// The least capacity that would do.
        need: Rate,
        /// The stated one.
        capacity: Rate,
    },
    /// The audit log cannot be written.
    #[error("store.{store}.audit: {source}")]
    Audit {
        /// The store.
        store: String,
        /// Why.
        source: evenkeel_audit::LogError,
    },
    /// The recording cannot be made.
    #[error("cannot record: {0}; name a file that does not exist yet, in a folder that does")]
    Record(io::Error),
    /// The volumes do not fit on the emulated device.
    #[error(
        "store.{store}: its volumes take {need} bytes, but the emulated device has {capacity}; make volumes smaller, or emulate a larger device"
    )]
    DeviceTooSmall {
        /// The store.
        store: String,
        /// Bytes up to the end of the last volume.
        need: u64,
        /// Bytes of the device.
        capacity: u64,
    },
    /// The kernel gives no ring, thread or event descriptor.
    #[error(
        "store.{store}: cannot set up io_uring: {source} (it needs Linux 5.11 or later, kernel.io_uring_disabled = 0, and a sandbox that allows it)"
    )]
    Ring {
        /// The store.
        store: String,
        /// What the system said.
        source: io::Error,
    },
    /// A thread or event descriptor could not be made.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

impl Server {
    /// Opens the backings, binds the addresses and starts serving. If anything fails, nothing is
    /// left running.
    ///
    /// # Errors
    /// See [`StartError`]; every message names the key, path or address and the remedy.
    pub fn start(config: &Config) -> Result<Self, StartError> {
        Self::start_recording(config, None)
    }

    /// The same, with what the engine of a store is told on record.
    ///
    /// # Errors
    /// Besides those of [`Server::start`], if the files of the recording cannot be made.
    pub fn start_recording(config: &Config, record: Option<&RecordTo>) -> Result<Self, StartError> {
        for (index, store) in config.stores.iter().enumerate() {
            check_admission(config, index, store)?;
        }
        let config = &config.admitted();
        let clock = Clock::start();
        let mut catalogue = Catalogue::default();
        let mut parts = Vec::new();
        for (index, store) in config.stores.iter().enumerate() {
            let mut prepared = prepare(config, index, store, clock, &mut catalogue)?;
            let record = record.filter(|record| record.store == store.name);
            if record.is_some() && store.hybrid.is_some() {
                let reason = "a hybrid store cannot be recorded: what it does depends on its map as well";
                return Err(StartError::Record(std::io::Error::other(format!(
                    "store.{}: {reason}",
                    store.name
                ))));
            }
            prepared.record = record.map(RecordParts::create).transpose().map_err(StartError::Record)?;
            parts.push(prepared);
        }
        let mut listeners = Vec::new();
        for listen in &config.gateway.listen {
            listeners.push(Listener::bind(listen)?);
        }
        let addresses = listeners.iter().map(Listener::address).collect();
        let front_mailbox = Mailbox::new()?;
        let stores = start_stores(parts, config)?;
        let front = Front {
            listeners,
            mailbox: front_mailbox.clone(),
            catalogue,
            stores: stores.iter().map(|store| store.mailbox.clone()).collect(),
            connections: Arc::new(AtomicU32::new(0)),
            connections_max: config.gateway.connections_max,
            handshake_timeout: duration(config.gateway.handshake_timeout),
        };
        let started = thread::Builder::new().name("front".into()).spawn(move || front.run());
        let front = started.inspect_err(|_| stop(&stores))?;
        let drain_timeout = duration(config.gateway.drain_timeout);
        Ok(Self { addresses, front, front_mailbox, stores, drain_timeout })
    }

    /// The addresses that clients can connect to, ports of 0 resolved.
    #[must_use]
    pub fn addresses(&self) -> &[Listen] {
        &self.addresses
    }

    /// The accounts of all volumes, as of now. A store that does not answer is left out.
    #[must_use]
    pub fn accounts(&self) -> Vec<VolumeAccount> {
        self.all_accounts().volumes
    }

    /// The accounts of all volumes, groups and stores, as of now. A store that does not answer is left out.
    #[must_use]
    pub fn all_accounts(&self) -> Accounts {
        let ask = |store: &RunningStore| {
            let (sender, receiver) = mpsc::sync_channel(1);
            store.mailbox.send(Command::Accounts(sender));
            receiver.recv_timeout(ACCOUNTS_TIMEOUT).unwrap_or_default()
        };
        let mut all = Accounts::default();
        self.stores.iter().map(ask).for_each(|accounts| all.extend(accounts));
        all
    }

    /// Changes the scheduler of the store of that name, also while requests wait; whether there is one.
    pub fn set_scheduler(&self, store: &str, kind: SchedulerKind, spare: SpareTo) -> bool {
        let found = self.stores.iter().find(|running| running.name == store);
        if let Some(running) = found {
            let background = spare == SpareTo::Background;
            running.mailbox.send(Command::Reschedule(kind.build(spare, &running.tuning), background));
        }
        found.is_some()
    }

    /// Lets the next `count` syncs of the store of that name fail as if the device had not taken what was
    /// written, to test what clients make of it; whether there is such a store.
    pub fn fail_syncs(&self, store: &str, count: u32) -> bool {
        let found = self.stores.iter().find(|running| running.name == store);
        if let Some(running) = found {
            running.mailbox.send(Command::FailSyncs(count));
        }
        found.is_some()
    }

    /// Whether a thread has ended by itself, which it does only on a fault.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.front.is_finished() || self.stores.iter().any(|store| store.thread.is_finished())
    }

    /// Stops accepting, finishes what is in flight, syncs, and ends all threads.
    #[must_use]
    pub fn shutdown(self) -> Ended {
        self.front_mailbox.send(Stop);
        let mut accounts = Accounts::default();
        let (mut abandoned, mut failures) = (0, Vec::new());
        if self.front.join().is_err() {
            failures.push(("front".into(), io::Error::other("the thread panicked")));
        }
        let deadline = Instant::now() + self.drain_timeout;
        for store in &self.stores {
            store.mailbox.send(Command::Drain(deadline));
        }
        for store in self.stores {
            match store.thread.join() {
                Ok(end) => {
                    accounts.extend(end.accounts);
                    abandoned += end.abandoned;
                    failures.extend(end.result.err().map(|error| (store.name, error)));
                }
                Err(_) => failures.push((store.name, io::Error::other("the thread panicked"))),
            }
        }
        let Accounts { volumes: accounts, groups, stores } = accounts;
        Ended { accounts, groups, stores, abandoned, failures }
    }
}

impl Accounts {
    fn extend(&mut self, other: Self) {
        self.volumes.extend(other.volumes);
        self.groups.extend(other.groups);
        self.stores.extend(other.stores);
    }
}

/// A fresh engine as `store` uses it at its start. One that only observes takes everything as it comes, and
/// submits it at once.
#[must_use]
pub fn engine_of(store: &StoreConfig) -> Engine {
    if store.observe {
        return Engine::new(SchedulerKind::Fcfs.build(store.spare, &store.tuning), OBSERVED_DEPTH);
    }
    let start = store.adaptive.map_or(store.depth, |adaptive| adaptive.start);
    Engine::new(store.scheduler.build(store.spare, &store.tuning), engine_depth(store, start))
}

fn check_admission(config: &Config, index: usize, store: &StoreConfig) -> Result<(), StartError> {
    let need = config.need_of(index).capacity;
    match store.capacity {
        Some(capacity) if capacity < need && store.observe => {
            tracing::warn!(store = %store.name, %need, %capacity,
                "the SLAs do not fit the stated capacity; the store only observes, and goes on");
            Ok(())
        }
        Some(capacity) if capacity < need => match store.admission {
            Admission::Refuse => Err(StartError::DoesNotFit { store: store.name.clone(), need, capacity }),
            Admission::BestEffort => {
                for name in config.best_effort_of(index) {
                    tracing::warn!(store = %store.name, %name, %need, %capacity,
                        "the SLA does not fit beside those before it: served as best effort, without a promise");
                }
                Ok(())
            }
            Admission::Warn => {
                tracing::warn!(store = %store.name, %need, %capacity, "the SLAs do not fit the stated capacity");
                Ok(())
            }
        },
        _ => Ok(()),
    }
}

fn prepare(
    config: &Config,
    index: usize,
    store: &StoreConfig,
    clock: Clock,
    catalogue: &mut Catalogue,
) -> Result<Parts, StartError> {
    let backings = backing::open(config, index)?;
    let places = places(config, index, &backings.slices);
    let end =
        places.iter().zip(&backings.slices).map(|(place, slice)| place.saturating_add(slice.size)).max();
    let emulated = store.emulate.as_ref().map(|emulate| &emulate.device);
    if let (Some(capacity), Some(need)) = (emulated.and_then(Spec::capacity), end)
        && need > capacity
    {
        return Err(StartError::DeviceTooSmall { store: store.name.clone(), need, capacity });
    }
    let mut volumes = Vec::new();
    for ((volume, slice), place) in config.volumes_of(index).zip(&backings.slices).zip(places) {
        let export = export(volume, slice, backing::block_minimum(store));
        catalogue.entries.push(Entry {
            name: volume.name.clone(),
            export: export.clone(),
            store: index,
            volume: volumes.len() as u32,
        });
        volumes.push(VolumeParts {
            name: volume.name.clone(),
            export,
            slice: *slice,
            place,
            slo: volume.slo.clone(),
            member: volume
                .member
                .map(|member| MemberConfig { group: group_place(config, index, member), ..member })
                .map(|member| MemberConfig { limit: member.limit.filter(|_| !store.observe), ..member }),
            adapt: volume.adapt,
            cost: volume.cost.clone(),
            in_flight_max: volume.in_flight_max,
        });
    }
    let depth_control = store.depth_control().filter(|_| !store.observe);
    let open = |audit| AuditParts::open(audit, &store.name, clock, store.capacity);
    let audit = store.audit.as_ref().map(open).transpose();
    let audit = audit.map_err(|source| StartError::Audit { store: store.name.clone(), source })?;
    Ok(Parts {
        name: store.name.clone(),
        clock,
        engine: engine_of(store),
        depth_control,
        capacity: store.capacity,
        needed: config.need_of(index).capacity,
        groups: groups_of(config, index).map(|(_, group)| (group.name.clone(), group.slo.clone())).collect(),
        device: emulated.map(Spec::build),
        files: backings.files,
        direct: store.direct,
        hybrid: backings.hybrid,
        volumes,
        cpu: store.cpu,
        audit,
        record: None,
    })
}

/// How many requests the engine may have dispatched. Those of a hybrid store that wait for one of its
/// devices are dispatched too; the gates keep them from becoming more than the devices' depths together.
fn engine_depth(store: &StoreConfig, start: NonZeroU32) -> NonZeroU32 {
    match store.hybrid {
        Some(_) => store.depth.saturating_mul(NonZeroU32::MIN.saturating_add(1)),
        None => start,
    }
}

/// The groups of a store, with their indices into [`Config::groups`].
fn groups_of(config: &Config, store: usize) -> impl Iterator<Item = (usize, &GroupConfig)> {
    config.groups.iter().enumerate().filter(move |(_, group)| group.store == store)
}

/// Where the group of `member` stands among those of its store.
fn group_place(config: &Config, store: usize, member: MemberConfig) -> usize {
    groups_of(config, store).take_while(|(index, _)| *index < member.group).count()
}

/// The first byte of each volume of a store within the store, which is where it lies on an emulated
/// device: slices lie as they do in the store's file, volumes with files of their own behind them, one
/// after the other.
fn places(config: &Config, store: usize, slices: &[Slice]) -> Vec<u64> {
    let volumes = || config.volumes_of(store).zip(slices);
    let shared = volumes().filter(|(volume, _)| volume.path.is_none());
    let mut end = shared.map(|(_, slice)| slice.offset.saturating_add(slice.size)).max().unwrap_or(0);
    volumes()
        .map(|(volume, slice)| match volume.path {
            None => slice.offset,
            Some(_) => {
                let place = end;
                end = end.saturating_add(slice.size);
                place
            }
        })
        .collect()
}

/// Starts a thread per store and waits until each has its ring.
fn start_stores(parts: Vec<Parts>, config: &Config) -> Result<Vec<RunningStore>, StartError> {
    let mut running: Vec<RunningStore> = Vec::new();
    for (parts, store) in parts.into_iter().zip(&config.stores) {
        let name = parts.name.clone();
        match start_store(parts, store.tuning) {
            Ok(store) => running.push(store),
            Err(source) => {
                stop(&running);
                return Err(StartError::Ring { store: name, source });
            }
        }
    }
    Ok(running)
}

/// Ends stores that no client has reached yet.
fn stop(stores: &[RunningStore]) {
    for store in stores {
        store.mailbox.send(Command::Drain(Instant::now()));
    }
}

fn start_store(parts: Parts, tuning: Tuning) -> io::Result<RunningStore> {
    let name = parts.name.clone();
    let mailbox = Mailbox::new()?;
    let own_mailbox = mailbox.clone();
    let (report, started) = mpsc::sync_channel::<io::Result<()>>(1);
    // The ring belongs to the thread that makes it, so the store is built on its own thread.
    let thread = thread::Builder::new().name(format!("store-{name}")).spawn(move || {
        match Store::new(parts, own_mailbox) {
            Ok(store) => {
                // The starter waits for this message and cannot have gone.
                let _ = report.send(Ok(()));
                store.run()
            }
            Err(error) => {
                let _ = report.send(Err(error));
                StoreEnd { accounts: Accounts::default(), abandoned: 0, result: Ok(()) }
            }
        }
    })?;
    started.recv().unwrap_or_else(|_| Err(io::Error::other("the store's thread panicked")))?;
    Ok(RunningStore { name, tuning, mailbox, thread })
}

fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}
