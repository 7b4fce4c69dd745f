//! The store's audit log: what the store thread notes, and the thread that writes it.
//!
//! ```text
//!  store thread: arrive, finish, change ──> pipe ──> audit-NAME: AuditWriter, a checkpoint a second
//!                                            │ full          │ refused by the system
//!                                            └─> a gap <─────┴─> a new writer, in a new file
//! ```
//!
//! The data path never waits for the log (ADR 0046): what finds no room is a gap, which stands in the log,
//! signed, with how much is missing, and is said loudly.

use std::collections::BTreeMap;
use std::io;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use evenkeel_audit::{AuditWriter, Change, LogError, Note, SigningKey, Terms};
use evenkeel_core::{FlowId, Rate, Record, Request, Time};

use super::{Clock, Store};
use crate::config::AuditConfig;
use crate::pipe::{self, Kind, Lost, Receiver, Sender, pipe};

/// How long a note may lie unwritten where there are few.
const LOOK: Duration = Duration::from_millis(100);
/// How often the log is signed.
const CHECKPOINT: Duration = Duration::from_secs(1);
/// How long to leave a system alone that has refused a write.
const RETRY: Duration = Duration::from_secs(1);

/// What a store needs to write its log: the writer is open already, so that what is wrong is known at start.
pub(crate) struct AuditParts {
    config: AuditConfig,
    store: String,
    epoch_unix_ns: u64,
    key: SigningKey,
    writer: AuditWriter,
    /// What promises count on.
    capacity: Option<Rate>,
}

/// The store thread's end.
pub(super) struct Audit {
    notes: Sender<Note>,
    close: std::sync::mpsc::SyncSender<Time>,
    thread: JoinHandle<io::Result<()>>,
}

impl AuditParts {
    /// Opens the log and reads or makes its key.
    pub(crate) fn open(
        config: &AuditConfig,
        store: &str,
        clock: Clock,
        capacity: Option<Rate>,
    ) -> Result<Self, LogError> {
        let key = evenkeel_audit::signing_key(&config.key)?;
        let epoch_unix_ns = clock.epoch_unix_ns();
        let writer = AuditWriter::open(&config.folder, store, epoch_unix_ns, config.limits, key.clone())?;
        Ok(Self { config: config.clone(), store: store.to_owned(), epoch_unix_ns, key, writer, capacity })
    }
}

impl Audit {
    /// Starts the writer's thread.
    pub(super) fn start(parts: AuditParts, clock: Clock) -> io::Result<Self> {
        let (notes, receiver) = pipe();
        let (close, closed_at) = std::sync::mpsc::sync_channel(1);
        let name = format!("audit-{}", parts.store);
        let mut writing = Writing {
            notes: receiver,
            clock,
            terms: BTreeMap::new(),
            changes: [const { None }; 3],
            written: 0,
            writer: Some(parts.writer),
            reopen: Reopen {
                config: parts.config,
                store: parts.store,
                epoch_unix_ns: parts.epoch_unix_ns,
                key: parts.key,
            },
            missing: Lost::default(),
            retry_at: Instant::now(),
        };
        let thread = thread::Builder::new().name(name).spawn(move || {
            writing.run();
            writing.end(closed_at.recv().unwrap_or_else(|_| clock.now()))
        })?;
        Ok(Self { notes, close, thread })
    }

    pub(super) fn configure(&mut self, terms: Terms) {
        self.notes.send(Note::Configure(terms));
    }

    pub(super) fn change(&mut self, now: Time, change: Change) {
        self.notes.send(Note::Change(now, change));
    }

    pub(super) fn on_arrival(&mut self, request: &Request) {
        self.notes.send(Note::Arrival(*request));
    }

    pub(super) fn record(&mut self, record: &Record) {
        self.notes.send(Note::Record(*record));
    }

    /// To be called at the end of each turn.
    pub(super) fn flush(&mut self) {
        self.notes.flush();
    }

    pub(super) fn is_pending(&self) -> bool {
        self.notes.is_pending()
    }

    /// Ends the log in order, as of `now`; waits until it is durable.
    pub(super) fn close(self, now: Time) -> io::Result<()> {
        // The receiver lives until its thread ends, and that is below.
        let _ = self.close.send(now);
        self.notes.close();
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the audit log's thread panicked")))
    }
}

impl Store {
    /// Starts the audit log with how the store is run.
    pub(super) fn start_audit(&mut self, parts: Option<AuditParts>) -> io::Result<()> {
        let Some(parts) = parts else { return Ok(()) };
        let capacity = parts.capacity;
        let mut audit = Audit::start(parts, self.clock)?;
        let now = self.clock.now();
        audit.change(now, Change::Scheduler(self.engine.scheduler_name().into()));
        audit.change(now, Change::Depth(self.engine.depth()));
        audit.change(now, Change::Capacity(capacity));
        self.audit = Some(audit);
        Ok(())
    }
}

impl pipe::Note for Note {
    fn kind(&self) -> Kind {
        match self {
            Self::Record(_) => Kind::DroppedEnd,
            Self::Arrival(_) => Kind::Dropped,
            _ => Kind::Kept,
        }
    }
}

/// The writer's thread.
struct Writing {
    notes: Receiver<Note>,
    clock: Clock,
    /// What holds, for a new writer.
    terms: BTreeMap<FlowId, Terms>,
    changes: [Option<(Time, Change)>; 3],
    /// Records in the log as far as the last writer knew.
    written: u64,
    writer: Option<AuditWriter>,
    reopen: Reopen,
    /// What has been lost without a writer.
    missing: Lost,
    retry_at: Instant,
}

struct Reopen {
    config: AuditConfig,
    store: String,
    epoch_unix_ns: u64,
    key: SigningKey,
}

impl Reopen {
    fn open(&self) -> Result<AuditWriter, LogError> {
        let Self { config, store, epoch_unix_ns, key } = self;
        AuditWriter::open(&config.folder, store, *epoch_unix_ns, config.limits, key.clone())
    }
}

impl Writing {
    fn run(&mut self) {
        let mut signed_at = Instant::now();
        loop {
            let found = self.notes.wait(LOOK);
            while let Some(chunk) = self.notes.next_chunk() {
                for note in &chunk {
                    self.write(note);
                }
                self.notes.give_back(chunk);
            }
            if found.lost.notes > 0 {
                let store = &self.reopen.store;
                tracing::error!(%store, requests = found.lost.ends,
                    "the audit log cannot keep up: these requests are missing in it; give it a faster disk");
                let Lost { notes, ends: records } = found.lost;
                self.write(&Note::Gap { at: self.clock.now(), notes, records });
            }
            if found.closed {
                return;
            }
            if signed_at.elapsed() >= CHECKPOINT {
                signed_at = Instant::now();
                self.write(&Note::Checkpoint(self.clock.now()));
            }
        }
    }

    fn end(mut self, now: Time) -> io::Result<()> {
        self.retry_at = Instant::now();
        self.reopen_if_due();
        let writer = self.writer.take();
        let store = &self.reopen.store;
        match writer.map(|writer| writer.close(now)) {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(io::Error::other(format!("the audit log was not ended: {error}"))),
            None => {
                Err(io::Error::other(format!("store.{store}.audit: the log could not be written to the end")))
            }
        }
    }

    fn write(&mut self, note: &Note) {
        self.remember(note);
        self.reopen_if_due();
        let Some(writer) = &mut self.writer else {
            self.count_missing(note);
            return;
        };
        if let Err(error) = writer.note(note) {
            // Records that did not reach the disk show when the log is opened again.
            self.written = writer.records();
            tracing::error!(store = %self.reopen.store, %error,
                "the audit log cannot be written; what happens until it can is missing in it");
            self.writer = None;
            if !matches!(note, Note::Record(_)) {
                self.count_missing(note);
            }
            self.retry_at = Instant::now() + RETRY;
        }
    }

    fn remember(&mut self, note: &Note) {
        match note {
            Note::Configure(terms) => {
                self.terms.insert(terms.flow, terms.clone());
            }
            Note::Remove(_, flow) => {
                self.terms.remove(flow);
            }
            Note::Change(at, change) => {
                if let Some(slot) = change.slot() {
                    self.changes[slot] = Some((*at, change.clone()));
                }
            }
            _ => {}
        }
    }

    fn count_missing(&mut self, note: &Note) {
        match note {
            Note::Gap { notes, records, .. } => {
                self.missing.notes += notes;
                self.missing.ends += records;
            }
            Note::Arrival(_) => self.missing.notes += 1,
            Note::Record(_) => {
                self.missing.notes += 1;
                self.missing.ends += 1;
            }
            _ => {}
        }
    }

    /// Goes on in a new file after a fault, with what holds and how much is missing.
    fn reopen_if_due(&mut self) {
        if self.writer.is_some() || Instant::now() < self.retry_at {
            return;
        }
        self.retry_at = Instant::now() + RETRY;
        let Ok(mut writer) = self.reopen.open() else { return };
        // What the old writer held in its buffer never reached the disk.
        let unwritten = self.written.saturating_sub(writer.records());
        let missing = Lost { notes: self.missing.notes + unwritten, ends: self.missing.ends + unwritten };
        let at = self.clock.now();
        let terms = self.terms.values().cloned().map(Note::Configure);
        let changes = self.changes.iter().flatten().map(|(at, change)| Note::Change(*at, change.clone()));
        let gap = Note::Gap { at, notes: missing.notes, records: missing.ends };
        if terms.chain(changes).chain([gap]).all(|note| writer.note(&note).is_ok()) {
            tracing::warn!(store = %self.reopen.store, requests = missing.ends,
                "the audit log goes on in a new file; these requests are missing in it");
            self.missing = Lost::default();
            self.writer = Some(writer);
        }
    }
}
