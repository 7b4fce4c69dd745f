//! Both sides of the agreement, from the events of a log.
//!
//! ```text
//!  Log ──> Event ──> Auditor ──┬─> Ledger       the accounts and verdicts, as they were live
//!                              ├─> counts       arrivals inside each class, and how many met it
//!                              └─> Attribution  whose doing each miss was
//! ```

use std::collections::BTreeMap;

use evenkeel_core::{FlowId, Outcome, Record, Slo, Span, Time};
use evenkeel_ledger::{Account, Ledger};
use serde_json::{Value, json};

use crate::blame::{Attribution, Blame, Cause, Turns};
use crate::event::{Change, Event, Terms};

/// Misses that are shown of each flow: those with the largest excess.
const SHOWN_MISSES: usize = 5;

/// Follows the events of a log.
#[derive(Debug, Default)]
pub struct Auditor {
    ledger: Ledger,
    flows: BTreeMap<FlowId, Following>,
    removed: Vec<FlowAudit>,
    attribution: Attribution,
    changes: Vec<(Time, String)>,
    known: [Option<Change>; 3],
    /// The flow whose promise is about to be adapted.
    adapted: Option<FlowId>,
    latest: Time,
    gaps: Vec<(Time, u64)>,
    /// Only records that ended within are counted below; the accounts cover all.
    window: Option<(Time, Time)>,
}

#[derive(Debug)]
struct Following {
    audit: FlowAudit,
    open: (u64, u64),
}

/// What became of one flow's requests.
#[derive(Clone, Debug)]
pub struct FlowAudit {
    /// The volume's name.
    pub name: String,
    /// The group that it belongs to.
    pub group: Option<FlowId>,
    /// Whether it is a group itself: what its members did, held against what is promised to them together.
    pub is_group: bool,
    /// Its account, as the live ledger would have given it.
    pub account: Account,
    /// Arrivals inside each class of the promise, the innermost first.
    pub classes: Vec<ClassCounts>,
    /// Arrivals that were outside the envelope, or of a background volume, and are over.
    pub outside: u64,
    /// The excess of all misses, split by cause.
    pub blame: Blame,
    /// How many misses each cause was the principal one of.
    pub misses_by_cause: BTreeMap<Cause, u64>,
    /// The misses with the largest excess.
    pub worst: Vec<BlamedMiss>,
    /// Requests that were answered: number, sum of the times that they waited before dispatch, and of
    /// the times that the store took for them.
    pub answered: (u64, Span, Span),
    /// The sum of the times that those waited that came outside the envelope.
    pub waited_outside: Span,
    /// Requests that the store failed.
    pub failed: u64,
}

/// Arrivals inside one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounts {
    /// Arrivals that are over.
    pub arrivals: u64,
    /// Those that were answered within δ.
    pub met: u64,
    /// Those that were answered later.
    pub missed: u64,
}

/// A miss and whose doing it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlamedMiss {
    /// The request that missed.
    pub record: Record,
    /// The split.
    pub blame: Blame,
}

/// The audit of a whole log, or of a window of it.
#[derive(Clone, Debug)]
pub struct Audit {
    /// The flows, by number.
    pub flows: BTreeMap<FlowId, FlowAudit>,
    /// Flows that were removed, in order.
    pub removed: Vec<FlowAudit>,
    /// What the operator changed, in order: when, and in words.
    pub changes: Vec<(Time, String)>,
    /// The scheduler at the end, if it was stated.
    pub scheduler: Option<String>,
    /// The capacity at the end, if it was stated.
    pub capacity: Option<evenkeel_core::Rate>,
    /// The last instant of which the log tells.
    pub until: Time,
    /// What is missing in the log: when it was noticed, and how many requests' ends are not there.
    pub gaps: Vec<(Time, u64)>,
}

impl Auditor {
    /// An auditor of everything.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An auditor that counts what ended within a window, both ends included. Accounts cover everything all
    /// the same.
    #[must_use]
    pub fn within(from: Time, to: Time) -> Self {
        Self { window: Some((from, to)), ..Self::default() }
    }

    /// Takes in the next event.
    pub fn on_event(&mut self, event: &Event) {
        match event {
            Event::Configure(terms) => self.on_terms(terms),
            Event::Standing(terms) if !self.flows.contains_key(&terms.flow) => self.on_terms(terms),
            Event::Standing(_) => {}
            Event::Remove { at, flow } => {
                self.latest = self.latest.max(*at);
                self.on_remove(*at, *flow);
            }
            Event::Change { at, change } => self.on_change(*at, change),
            Event::Open { at, flow, requests, bytes } => {
                self.latest = self.latest.max(*at);
                if let Some(following) = self.flows.get_mut(flow) {
                    following.open = (*requests, *bytes);
                }
            }
            Event::Gap { at, records, .. } => {
                self.latest = self.latest.max(*at);
                self.gaps.push((*at, *records));
            }
            Event::Record(record) => self.on_record(record),
        }
    }

    /// The audit as of `now`; `None` for the last instant of which the events tell.
    #[must_use]
    pub fn finish(mut self, now: Option<Time>) -> Audit {
        let now = now.map_or(self.latest, |now| now.max(self.latest));
        for following in self.flows.values() {
            if let Some(group) = following.audit.group {
                self.ledger.on_open(now, group, following.open.0, following.open.1);
            }
        }
        let mut flows = BTreeMap::new();
        for (flow, following) in self.flows {
            let (requests, bytes) = following.open;
            self.ledger.on_open(now, flow, requests, bytes);
            let mut audit = following.audit;
            if let Some(account) = self.ledger.account(now, flow) {
                audit.account = account;
            }
            audit.sort();
            flows.insert(flow, audit);
        }
        let [scheduler, _, capacity] = self.known;
        let scheduler = match scheduler {
            Some(Change::Scheduler(name)) => Some(name.into()),
            _ => None,
        };
        let capacity = match capacity {
            Some(Change::Capacity(rate)) => rate,
            _ => None,
        };
        let Self { removed, changes, gaps, .. } = self;
        Audit { flows, removed, changes, scheduler, capacity, until: now, gaps }
    }

    /// Closes the flow's account: its number may be given to another volume.
    fn on_remove(&mut self, at: Time, flow: FlowId) {
        let Some(Following { mut audit, open: (requests, bytes) }) = self.flows.remove(&flow) else { return };
        self.ledger.on_open(at, flow, requests, bytes);
        if let Some(account) = self.ledger.close(at, flow) {
            audit.account = account;
        }
        self.changes.push((at, format!("volume {} removed", audit.name)));
        audit.sort();
        self.removed.push(audit);
    }

    fn on_terms(&mut self, terms: &Terms) {
        self.configured(terms);
        self.adapted = None;
    }

    fn configured(&mut self, terms: &Terms) {
        let Terms { flow, at, name, slo, member } = terms;
        self.latest = self.latest.max(*at);
        let group = member.map(|member| member.group);
        if let Some(following) = group.and_then(|group| self.flows.get_mut(&group)) {
            following.audit.is_group = true;
        }
        self.ledger.configure(*at, *flow, slo);
        match self.flows.get_mut(flow) {
            Some(following) => {
                let audit = &mut following.audit;
                let old = std::mem::replace(&mut audit.account.slo, slo.clone());
                if audit.classes.len() < slo.classes().len() {
                    audit.classes.resize(slo.classes().len(), ClassCounts::default());
                }
                audit.name = name.to_string();
                audit.group = group;
                if old != *slo {
                    let how =
                        if self.adapted == Some(*flow) { "adapted to what it sends:" } else { "changed to" };
                    self.changes.push((*at, format!("promise to {name} {how} {}", promise(slo))));
                    self.attribution.on_change(*at);
                }
            }
            None => {
                let Some(account) = self.ledger.account(*at, *flow) else { return };
                let audit = FlowAudit { group, ..FlowAudit::new(name, account, slo.classes().len()) };
                self.flows.insert(*flow, Following { audit, open: (0, 0) });
            }
        }
    }

    fn on_change(&mut self, at: Time, change: &Change) {
        self.latest = self.latest.max(at);
        let Some(slot) = change.slot() else {
            if let Change::Adapted(flow) = change {
                self.adapted = Some(*flow);
            }
            return;
        };
        if let Change::Capacity(capacity) = change {
            self.attribution.set_capacity(*capacity);
        }
        let old = self.known[slot].replace(change.clone());
        if old.is_some_and(|old| old != *change) {
            self.changes.push((at, change.words()));
            if slot != 2 {
                self.attribution.on_change(at);
            }
        }
    }

    fn on_record(&mut self, record: &Record) {
        self.latest = self.latest.max(record.completion);
        self.ledger.on_arrival(record.arrival, &record.request);
        self.ledger.record(record);
        let blame = self.attribution.on_record(record);
        let within =
            self.window.is_none_or(|(from, to)| record.completion >= from && record.completion <= to);
        let Some(following) = self.flows.get_mut(&record.request.flow) else { return };
        let group = following.audit.group;
        if within {
            following.audit.count(record, blame.clone());
        }
        let Some(group) = group else { return };
        let request = evenkeel_core::Request { flow: group, ..record.request };
        let record = Record { request, ..*record };
        self.ledger.on_arrival(record.arrival, &record.request);
        self.ledger.record(&record);
        if let Some(following) = self.flows.get_mut(&group).filter(|_| within) {
            following.audit.count(&record, blame);
        }
    }
}

impl FlowAudit {
    fn new(name: &str, account: Account, classes: usize) -> Self {
        Self {
            name: name.to_owned(),
            group: None,
            is_group: false,
            account,
            classes: vec![ClassCounts::default(); classes],
            outside: 0,
            blame: Blame::default(),
            misses_by_cause: BTreeMap::new(),
            worst: Vec::new(),
            answered: (0, Span::ZERO, Span::ZERO),
            waited_outside: Span::ZERO,
            failed: 0,
        }
    }

    fn count(&mut self, record: &Record, blame: Option<Blame>) {
        let answered = record.outcome != Outcome::Cancelled;
        let waited = record.dispatch.since(record.arrival);
        if answered {
            let (count, wait, service) = &mut self.answered;
            *count += 1;
            *wait = *wait + waited;
            *service = *service + record.completion.since(record.dispatch);
            self.failed += u64::from(record.outcome == Outcome::Failed);
        }
        let Some(_) = record.promise else {
            self.outside += 1;
            self.waited_outside = self.waited_outside + waited;
            return;
        };
        let class = usize::from(record.class.unwrap_or(0));
        if self.classes.len() <= class {
            self.classes.resize(class + 1, ClassCounts::default());
        }
        let counts = &mut self.classes[class];
        counts.arrivals += 1;
        counts.missed += u64::from(answered && record.missed());
        counts.met += u64::from(answered && !record.missed());
        if let Some(blame) = blame {
            self.blame.add(&blame);
            if let Some(cause) = blame.principal() {
                *self.misses_by_cause.entry(cause).or_default() += 1;
            }
            self.keep_if_bad(record, blame);
        }
    }

    fn keep_if_bad(&mut self, record: &Record, blame: Blame) {
        let miss = BlamedMiss { record: *record, blame };
        if self.worst.len() < SHOWN_MISSES {
            self.worst.push(miss);
        } else if let Some(least) = self.worst.iter_mut().min_by_key(|it| it.blame.excess)
            && least.blame.excess < miss.blame.excess
        {
            *least = miss;
        }
    }

    /// The worst misses first.
    fn sort(&mut self) {
        self.worst.sort_by_key(|miss| (std::cmp::Reverse(miss.blame.excess), miss.record.completion));
    }

    /// Arrivals inside the promise, of all classes.
    #[must_use]
    pub fn inside(&self) -> u64 {
        self.classes.iter().map(|class| class.arrivals).sum()
    }

    /// Misses of all classes.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.classes.iter().map(|class| class.missed).sum()
    }
}

/// A promise in words.
pub(crate) fn promise(slo: &Slo) -> String {
    let classes: Vec<String> = slo.classes().iter().map(ToString::to_string).collect();
    if classes.is_empty() { "nothing (background)".to_owned() } else { classes.join(" in ") }
}

impl Audit {
    /// Whether every promise was kept, as far as the log tells.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.volumes().all(|flow| !flow.account.verdict.is_broken())
    }

    /// All flows, groups among them, those that were removed last.
    pub fn volumes(&self) -> impl Iterator<Item = &FlowAudit> {
        self.flows.values().chain(&self.removed)
    }

    /// The name of a flow, the latest that had this number; the number if none had.
    #[must_use]
    pub fn name_of(&self, flow: FlowId) -> String {
        let removed = || self.removed.iter().rfind(|it| it.account.flow == flow);
        let known = self.flows.get(&flow).or_else(removed);
        known.map_or_else(|| format!("volume {}", flow.0), |it| it.name.clone())
    }

    /// As JSON; times with their unit at the end of the key.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let changes: Vec<Value> = self
            .changes
            .iter()
            .map(|(at, words)| json!({ "at_ns": at.as_nanos(), "change": words }))
            .collect();
        let flows = |groups: bool| -> Vec<Value> {
            self.volumes().filter(|it| it.is_group == groups).map(|flow| self.flow_json(flow)).collect()
        };
        let gap = |(at, records): &(Time, u64)| json!({ "at_ns": at.as_nanos(), "records": records });
        json!({
            "until_ns": self.until.as_nanos(),
            "scheduler": self.scheduler,
            "capacity_iops": self.capacity.map(evenkeel_core::Rate::as_f64),
            "changes": changes,
            "gaps": self.gaps.iter().map(gap).collect::<Vec<_>>(),
            "volumes": flows(false),
            "groups": flows(true),
        })
    }

    fn flow_json(&self, flow: &FlowAudit) -> Value {
        let slo = &flow.account.slo;
        let classes: Vec<Value> = (flow.classes.iter().enumerate())
            .map(|(index, counts)| {
                json!({
                    "latency_us": slo.classes().get(index).map(|class| micros(class.latency())),
                    "arrivals": counts.arrivals,
                    "met": counts.met,
                    "missed": counts.missed,
                })
            })
            .collect();
        let by_cause: serde_json::Map<String, Value> = (flow.misses_by_cause.iter())
            .map(|(cause, misses)| (cause.words().replace(' ', "_"), json!(misses)))
            .collect();
        let worst: Vec<Value> = flow
            .worst
            .iter()
            .map(|miss| {
                json!({
                    "arrival_ns": miss.record.arrival.as_nanos(),
                    "completion_ns": miss.record.completion.as_nanos(),
                    "promise_us": miss.record.promise.map(micros),
                    "blame": self.blame_json(&miss.blame),
                })
            })
            .collect();
        json!({
            "volume": flow.name,
            "group": flow.group.map(|group| self.name_of(group)),
            "account": flow.account,
            "classes": classes,
            "inside": flow.inside(),
            "outside": flow.outside,
            "missed": flow.missed(),
            "blame": self.blame_json(&flow.blame),
            "misses_by_cause": by_cause,
            "worst_misses": worst,
        })
    }

    fn blame_json(&self, blame: &Blame) -> Value {
        let others: Vec<Value> = blame
            .others
            .iter()
            .map(|(flow, Turns { all, outside })| {
                json!({
                    "volume": self.name_of(*flow),
                    "us": micros(*all),
                    "outside_envelope_us": micros(*outside),
                })
            })
            .collect();
        json!({
            "excess_us": micros(blame.excess),
            "client_outside_envelope_us": micros(blame.client),
            "other_tenants_us": micros(blame.others_total()),
            "other_tenants": others,
            "device_us": micros(blame.device),
            "operator_us": micros(blame.operator()),
            "operator": {
                "change_us": micros(blame.changed),
                "held_back_us": micros(blame.held),
                "promise_beyond_capacity_us": micros(blame.infeasible),
            },
            "not_known_us": micros(blame.unseen),
        })
    }
}

/// Microseconds whose three decimals are the nanoseconds.
fn micros(span: Span) -> f64 {
    span.as_nanos() as f64 / 1_000.0
}
