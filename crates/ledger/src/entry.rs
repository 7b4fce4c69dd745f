//! What the ledger keeps of one flow.
//!
//! ```text
//!  answered (done or failed) ─┬─> latency: all        64 ns or 0.1 %, whichever is coarser, to 1 h
//!                             └─> latency: promised   the same, only requests inside the envelope
//!  every arrival and answer  ───> ring of one-second windows
//! ```
//!
//! A failed request is judged like one that succeeded, because the promise is about time; failures
//! are counted apart and named in the verdict. A cancelled request was never asked of the store and
//! is not judged.

use evenkeel_core::{FlowId, Operation, Outcome, Record, Request, Slo, Span, Time};
use hdrhistogram::Histogram;

use crate::account::{Account, Latency};
use crate::verdict::{Judged, Miss, judge};
use crate::window::Ring;

/// Latencies that differ by less than this are not told apart.
const RESOLUTION_NS: u64 = 64;
/// Latencies above this, an hour, are counted as this one in percentiles; the maximum is exact.
const LATENCY_MAX_NS: u64 = 3_600_000_000_000;
/// Significant decimal digits of percentiles.
const DIGITS: u8 = 3;

/// The running account of one flow.
#[derive(Debug)]
pub(crate) struct Entry {
    slo: Slo,
    since: Time,
    /// How often the envelope has been changed since the account was opened.
    changes: u64,
    offered: u64,
    offered_bytes: u64,
    served: u64,
    failed: u64,
    cancelled: u64,
    bytes_read: u64,
    bytes_written: u64,
    missed: u64,
    worst: Option<Miss>,
    all: Latencies,
    /// `None` as long as the flow has been promised nothing.
    promised: Option<Latencies>,
    windows: Ring,
}

impl Entry {
    pub(crate) fn new(now: Time, slo: &Slo) -> Self {
        Self {
            slo: slo.clone(),
            since: now,
            changes: 0,
            offered: 0,
            offered_bytes: 0,
            served: 0,
            failed: 0,
            cancelled: 0,
            bytes_read: 0,
            bytes_written: 0,
            missed: 0,
            worst: None,
            all: Latencies::new(),
            promised: slo.envelope().map(|_| Latencies::new()),
            windows: Ring::new(now),
        }
    }

    pub(crate) fn change(&mut self, slo: &Slo) {
        if self.slo.envelope() != slo.envelope() {
            self.changes += 1;
        }
        if self.promised.is_none() && !slo.is_background() {
            self.promised = Some(Latencies::new());
        }
        self.slo = slo.clone();
    }

    pub(crate) fn on_arrival(&mut self, now: Time, request: &Request) {
        self.offered += 1;
        self.offered_bytes = self.offered_bytes.saturating_add(moved_bytes(request));
        if let Some(window) = self.windows.at(now) {
            window.arrivals += 1;
        }
    }

    pub(crate) fn on_open(&mut self, now: Time, requests: u64, bytes: u64) {
        self.offered = self.offered.saturating_add(requests);
        self.offered_bytes = self.offered_bytes.saturating_add(bytes);
        if let Some(window) = self.windows.at(now).filter(|_| requests > 0) {
            window.arrivals = window.arrivals.saturating_add(requests);
        }
    }

    pub(crate) fn record(&mut self, record: &Record) {
        match record.outcome {
            Outcome::Cancelled => {
                self.cancelled += 1;
                return;
            }
            Outcome::Failed => self.failed += 1,
            Outcome::Done => self.count_served(record),
        }
        let latency = record.latency();
        self.all.record(latency);
        // A promise to a flow that was never promised anything can only be a fault of the driver;
        // leaving it out keeps `missed` from exceeding `promised`.
        let promise = record.promise.filter(|_| self.promised.is_some());
        let missed = promise.filter(|promise| latency > *promise);
        if let (Some(_), Some(promised)) = (promise, &mut self.promised) {
            promised.record(latency);
        }
        if let Some(window) = self.windows.at(record.completion) {
            window.latency_max = window.latency_max.max(latency);
            window.missed += u64::from(missed.is_some());
        }
        if let Some(promise) = missed {
            self.missed += 1;
            let by = latency - promise;
            if self.worst.is_none_or(|worst| by > worst.by) {
                self.worst = Some(Miss { by, promise, at: record.completion });
            }
        }
    }

    fn count_served(&mut self, record: &Record) {
        let bytes = moved_bytes(&record.request);
        self.served += 1;
        match record.request.operation {
            Operation::Read => self.bytes_read = self.bytes_read.saturating_add(bytes),
            Operation::Write => self.bytes_written = self.bytes_written.saturating_add(bytes),
            Operation::Flush | Operation::Trim | Operation::WriteZeroes => {}
        }
        if let Some(window) = self.windows.at(record.completion) {
            window.served += 1;
            window.bytes = window.bytes.saturating_add(bytes);
        }
    }

    pub(crate) fn account(&self, now: Time, flow: FlowId) -> Account {
        let promised = self.promised.as_ref().map_or(0, Latencies::count);
        let answered = self.served + self.failed;
        let judged = Judged {
            envelope: self.slo.envelope().copied(),
            changes: self.changes,
            since: self.since,
            offered: self.offered,
            served: self.served,
            failed: self.failed,
            cancelled: self.cancelled,
            promised,
            missed: self.missed,
            worst: self.worst,
        };
        let (verdict, explanation) = judge(&judged);
        Account {
            flow,
            slo: self.slo.clone(),
            since: self.since,
            now,
            offered: self.offered,
            offered_bytes: self.offered_bytes,
            served: self.served,
            failed: self.failed,
            cancelled: self.cancelled,
            bytes_read: self.bytes_read,
            bytes_written: self.bytes_written,
            promised,
            missed: self.missed,
            outside: answered - promised,
            latency: self.all.summary(),
            latency_promised: self.promised.as_ref().map_or_else(Latency::default, Latencies::summary),
            worst_miss: self.worst,
            windows: self.windows.until(now),
            verdict,
            explanation,
        }
    }
}

/// Bytes that cross between client and store: trims and zeroing name a range but carry no data.
fn moved_bytes(request: &Request) -> u64 {
    match request.operation {
        Operation::Read | Operation::Write => u64::from(request.length),
        Operation::Flush | Operation::Trim | Operation::WriteZeroes => 0,
    }
}

/// The latencies of a kind of request.
#[derive(Debug)]
struct Latencies {
    histogram: Histogram<u64>,
    max: Span,
}

impl Latencies {
    fn new() -> Self {
        let histogram = Histogram::new_with_bounds(RESOLUTION_NS, LATENCY_MAX_NS, DIGITS)
            .expect("the constants above are within the histogram's documented bounds");
        Self { histogram, max: Span::ZERO }
    }

    fn record(&mut self, latency: Span) {
        self.histogram.saturating_record(latency.as_nanos());
        self.max = self.max.max(latency);
    }

    fn count(&self) -> u64 {
        self.histogram.len()
    }

    fn summary(&self) -> Latency {
        // A percentile is the upper end of its bucket, which may lie above the exact maximum.
        let at = |quantile| Span::from_nanos(self.histogram.value_at_quantile(quantile)).min(self.max);
        Latency { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: self.max }
    }
}
