//! From the core's records to what people ask: how much was offered and served, how long it took,
//! and who kept the agreement.
#![forbid(unsafe_code)]

use evenkeel_core::{FlowId, Record, Slo, Time};

/// Keeps the account of every flow of one engine. (Sketch.)
#[derive(Debug, Default)]
pub struct Ledger {}

/// The account of one flow at one instant. (Sketch.)
#[derive(Clone, Debug)]
pub struct Account {}

impl Ledger {
    /// An empty ledger.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens the account of `flow`, or notes its new promise.
    pub fn configure(&mut self, now: Time, flow: FlowId, slo: &Slo) {
        let _ = (now, flow, slo);
    }

    /// Notes a finished request; does not allocate.
    pub fn record(&mut self, record: &Record) {
        let _ = record;
    }

    /// The account of `flow` as of `now`; `None` if it was never opened.
    #[must_use]
    pub fn account(&self, now: Time, flow: FlowId) -> Option<Account> {
        let _ = (now, flow);
        None
    }
}
