//! A store in virtual time that is written down: engine, ledger and audit log side by side.
#![allow(dead_code, reason = "each program of tests uses its own part")]

use std::num::NonZeroU32;
use std::path::Path;

use evenkeel_audit::{AuditWriter, Change, Limits, Note, SigningKey, Terms};
use evenkeel_core::sched::pclock::PClock;
use evenkeel_core::{
    Completion, Cost, Engine, Envelope, FlowId, Input, Operation, Outcome, Output, Rate, Record, Request,
    RequestId, Slo, Span, Time,
};
use evenkeel_ledger::{Account, Ledger};

pub(crate) fn key() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

pub(crate) fn envelope(burst: u64, rate: u64, millis: u64) -> Envelope {
    Envelope::new(Cost::requests(burst), Rate::per_second(rate), Span::from_millis(millis)).expect("valid")
}

pub(crate) fn small_files() -> Limits {
    Limits { file_bytes: Limits::FILE_BYTES_MIN, total_bytes: 1 << 30 }
}

/// An arrival: milliseconds, flow, a number that everything else is made of.
pub(crate) type Load = Vec<(u64, u32, u8)>;

pub(crate) fn request(id: u64, flow: u32, kind: u8) -> Request {
    let operation = match kind % 5 {
        0 | 1 => Operation::Read,
        2 | 3 => Operation::Write,
        _ => Operation::Flush,
    };
    let length = if operation == Operation::Flush { 0 } else { u32::from(kind % 3 + 1) * 4096 };
    Request { id: RequestId(id), flow: FlowId(flow), operation, offset: id * 512, length, cost: Cost::ONE }
}

/// What a run leaves behind.
pub(crate) struct Run {
    pub(crate) accounts: Vec<Account>,
    pub(crate) records: Vec<Record>,
    pub(crate) end: Time,
}

pub(crate) fn slos() -> Vec<Slo> {
    let nested = Slo::nested(&[envelope(2, 40, 30), envelope(4, 40, 200)]).expect("nested");
    vec![Slo::guaranteed(envelope(4, 50, 60)), nested, Slo::background()]
}

/// Runs `load` (sorted by time) through an engine on a store that takes `service_ms` a request, two at a time;
/// the promise of flow 0 changes at `change_ms`. With `drain` everything is answered at the end.
pub(crate) fn run(
    folder: &Path,
    load: &Load,
    service_ms: u64,
    change_ms: u64,
    limits: Limits,
    drain: bool,
) -> Run {
    let mut store = Store::new(folder, limits);
    for (flow, slo) in (0..).zip(slos()) {
        store.configure(Time::ZERO, flow, slo);
    }
    let mut changed = false;
    for (id, (at, flow, kind)) in (0_u64..).zip(load) {
        let now = Time::from_millis(*at);
        store.complete_until(now, service_ms);
        if !changed && *at >= change_ms {
            changed = true;
            store.configure(now, 0, Slo::guaranteed(envelope(8, 80, 40)));
        }
        store.arrive(now, request(id, *flow, *kind), service_ms);
    }
    let mut end = load.last().map_or(Time::ZERO, |(at, ..)| Time::from_millis(*at));
    if drain {
        end = store.complete_until(Time::from_millis(u64::MAX / 2_000_000), service_ms).max(end);
    }
    store.finish(end)
}

struct Store {
    engine: Engine,
    ledger: Ledger,
    writer: AuditWriter,
    at_device: Vec<(Time, evenkeel_core::Ticket, u8)>,
    records: Vec<Record>,
    now: Time,
}

impl Store {
    fn new(folder: &Path, limits: Limits) -> Self {
        let depth = NonZeroU32::new(2).expect("not zero");
        let mut writer = AuditWriter::open(folder, "pool", 1_000, limits, key()).expect("opens");
        for change in [
            Change::Scheduler("pclock".into()),
            Change::Depth(2),
            Change::Capacity(Some(Rate::per_second(200))),
        ] {
            writer.note(&Note::Change(Time::ZERO, change)).expect("written");
        }
        Self {
            engine: Engine::new(Box::new(PClock::new()), depth),
            ledger: Ledger::new(),
            writer,
            at_device: Vec::new(),
            records: Vec::new(),
            now: Time::ZERO,
        }
    }

    fn configure(&mut self, now: Time, flow: u32, slo: Slo) {
        self.ledger.configure(now, FlowId(flow), &slo);
        let name = format!("volume-{flow}").into();
        let terms = Terms { flow: FlowId(flow), at: now, name, slo: slo.clone(), member: None };
        self.writer.note(&Note::Configure(terms)).expect("written");
        self.engine.handle_input(now, Input::Configure(FlowId(flow), slo)).expect("configured");
    }

    fn arrive(&mut self, now: Time, request: Request, service_ms: u64) {
        self.now = self.now.max(now);
        self.engine.handle_input(now, Input::Arrival(request)).expect("known");
        self.ledger.on_arrival(now, &request);
        self.writer.note(&Note::Arrival(request)).expect("written");
        self.drain(now, service_ms);
    }

    fn drain(&mut self, now: Time, service_ms: u64) {
        while let Some(output) = self.engine.poll_output(now) {
            match output {
                Output::Submit(submission) => {
                    let kind = submission.request.length as u8 ^ submission.request.id.0 as u8;
                    let done = now + Span::from_millis(service_ms + u64::from(kind % 3));
                    self.at_device.push((done, submission.ticket, kind));
                }
                Output::Reply(record) => {
                    self.ledger.record(&record);
                    self.writer.note(&Note::Record(record)).expect("written");
                    if self.records.len().is_multiple_of(100) {
                        self.writer.note(&Note::Checkpoint(now)).expect("written");
                    }
                    self.records.push(record);
                }
            }
        }
    }

    /// Completes what is due by `until`; the last instant at which something was.
    fn complete_until(&mut self, until: Time, service_ms: u64) -> Time {
        while let Some(index) = (0..self.at_device.len()).min_by_key(|index| self.at_device[*index].0) {
            if self.at_device[index].0 > until {
                break;
            }
            let (now, ticket, kind) = self.at_device.remove(index);
            self.now = self.now.max(now);
            let outcome = match kind {
                17 => Outcome::Failed,
                18 => Outcome::Cancelled,
                _ => Outcome::Done,
            };
            self.engine
                .handle_input(now, Input::Completion(Completion::new(ticket, outcome)))
                .expect("known");
            self.drain(now, service_ms);
        }
        self.now
    }

    fn finish(self, end: Time) -> Run {
        let accounts = self.ledger.accounts(end).collect();
        self.writer.close(end).expect("closed");
        Run { accounts, records: self.records, end }
    }
}
