//! From the core's records to what people ask: how much was offered and served, how long it took,
//! and who kept the agreement.
//!
//! ```text
//!  driver ── configure(now, flow, slo) ──> ┌ Ledger ───────────────────────────────┐
//!         ── on_arrival(now, request) ───> │ flow ─> Entry: counts, 2 histograms,  │ ── account(now, flow)
//!         ── record(record) ─────────────> │         ring of one-second windows    │      └─> Account
//!                                          └───────────────────────────────────────┘          + Verdict
//! ```
//!
//! Offered load is counted at arrival and everything else at completion, so a request that still
//! waits is visible as the difference. Memory is bounded: about 450 KiB per flow with a promise,
//! half of that for a background flow, all of it allocated by [`Ledger::configure`].
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use evenkeel_core::{FlowId, Record, Request, Slo, Time};

mod account;
mod entry;
mod verdict;
mod window;

pub use account::{Account, Latency};
pub use verdict::{Miss, Verdict};
pub use window::{WINDOWS_MAX, Window};

use entry::Entry;

/// Keeps the account of every flow of one engine.
#[derive(Debug, Default)]
pub struct Ledger {
    flows: BTreeMap<FlowId, Box<Entry>>,
    strays: u64,
}

impl Ledger {
    /// An empty ledger.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens the account of `flow`, or notes its new promise. Counts go on over a change: every
    /// record carries the promise that held when its request arrived, and is judged by that one.
    pub fn configure(&mut self, now: Time, flow: FlowId, slo: &Slo) {
        match self.flows.get_mut(&flow) {
            Some(entry) => entry.change(slo),
            None => {
                self.flows.insert(flow, Box::new(Entry::new(now, slo)));
            }
        }
    }

    /// Notes that `request` has arrived, which makes it part of the offered load; does not allocate.
    /// To be called once for each request that the engine accepts.
    pub fn on_arrival(&mut self, now: Time, request: &Request) {
        match self.flows.get_mut(&request.flow) {
            Some(entry) => entry.on_arrival(now, request),
            None => self.strays = self.strays.saturating_add(1),
        }
    }

    /// Notes `requests` that have arrived by `now` and are not over, asking to move `bytes` in all. For a
    /// ledger that is made afterwards, of records, which exist of finished requests only.
    pub fn on_open(&mut self, now: Time, flow: FlowId, requests: u64, bytes: u64) {
        match self.flows.get_mut(&flow) {
            Some(entry) => entry.on_open(now, requests, bytes),
            None => self.strays = self.strays.saturating_add(requests),
        }
    }

    /// Notes a finished request; does not allocate.
    pub fn record(&mut self, record: &Record) {
        match self.flows.get_mut(&record.request.flow) {
            Some(entry) => entry.record(record),
            None => self.strays = self.strays.saturating_add(1),
        }
    }

    /// The account of `flow` as of `now`; `None` if it was never opened.
    #[must_use]
    pub fn account(&self, now: Time, flow: FlowId) -> Option<Account> {
        self.flows.get(&flow).map(|entry| entry.account(now, flow))
    }

    /// The accounts of all flows as of `now`, by flow number.
    pub fn accounts(&self, now: Time) -> impl Iterator<Item = Account> + '_ {
        self.flows.iter().map(move |(flow, entry)| entry.account(now, *flow))
    }

    /// Closes the account of `flow` and hands out its last state; `None` if it was never opened.
    pub fn close(&mut self, now: Time, flow: FlowId) -> Option<Account> {
        self.flows.remove(&flow).map(|entry| entry.account(now, flow))
    }

    /// Arrivals and records of flows without an account. Anything but zero is a fault of the driver.
    #[must_use]
    pub fn strays(&self) -> u64 {
        self.strays
    }
}

#[cfg(test)]
mod tests;
