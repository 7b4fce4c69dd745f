//! The account of one flow at one instant, as values and as JSON.

use evenkeel_core::units::NANOS_PER_SECOND;
use evenkeel_core::{FlowId, Slo, Span, Time};
use serde::ser::{SerializeMap, SerializeStruct};
use serde::{Serialize, Serializer};

use crate::verdict::{Miss, Verdict};
use crate::window::Window;

/// The account of one flow at one instant.
///
/// It serialises with the unit at the end of each key: `latency_p99_us` in microseconds (with up to
/// three decimals, so that the nanoseconds are exact), `since_ns` in nanoseconds after the driver's
/// epoch, `served_iops` in requests per second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Whose account it is.
    pub flow: FlowId,
    /// What the flow is promised now.
    pub slo: Slo,
    /// When the account was opened.
    pub since: Time,
    /// The instant that the account describes.
    pub now: Time,
    /// Requests that arrived.
    pub offered: u64,
    /// Bytes that those asked to read or write.
    pub offered_bytes: u64,
    /// Requests that the store has done.
    pub served: u64,
    /// Requests that the store has failed.
    pub failed: u64,
    /// Requests whose client had gone before they were dispatched.
    pub cancelled: u64,
    /// Bytes read by the requests that were done.
    pub bytes_read: u64,
    /// Bytes written by the requests that were done.
    pub bytes_written: u64,
    /// Answered (done or failed) requests that had come inside the envelope.
    pub promised: u64,
    /// Those among them that took longer than promised.
    pub missed: u64,
    /// Answered requests that had come outside the envelope, or to a background flow.
    pub outside: u64,
    /// The latency of all answered requests.
    pub latency: Latency,
    /// The latency of the answered requests that had come inside the envelope.
    pub latency_promised: Latency,
    /// The promise that was missed by most; the first of them, if several were.
    pub worst_miss: Option<Miss>,
    /// The last seconds up to `now`, the oldest first, without gaps; at most [`WINDOWS_MAX`](crate::WINDOWS_MAX).
    pub windows: Vec<Window>,
    /// Whether the agreement was kept.
    pub verdict: Verdict,
    /// The verdict in one sentence.
    pub explanation: String,
}

/// How long requests took from arrival to completion; all zero if there were none. Percentiles are
/// exact to 64 ns or 0.1 %, whichever is coarser, never too low, and never above the maximum, which
/// is exact. Above one hour percentiles only say "an hour or more".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// Half of the requests took no longer.
    pub p50: Span,
    /// 99 % took no longer.
    pub p99: Span,
    /// 99.9 % took no longer.
    pub p999: Span,
    /// The longest.
    pub max: Span,
}

impl Account {
    /// Requests that have arrived and are not over: they wait or are at the store.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.offered.saturating_sub(self.served + self.failed + self.cancelled)
    }

    /// How long the account has been open.
    #[must_use]
    pub fn life(&self) -> Span {
        self.now.since(self.since)
    }

    /// Requests served per second over the account's life, for display; 0 in its first instant.
    #[must_use]
    pub fn served_iops(&self) -> f64 {
        self.per_second(self.served)
    }

    /// Requests offered per second over the account's life, for display; 0 in its first instant.
    #[must_use]
    pub fn offered_iops(&self) -> f64 {
        self.per_second(self.offered)
    }

    /// Bytes read and written per second over the account's life, for display; 0 in its first instant.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        self.per_second(self.bytes_read.saturating_add(self.bytes_written))
    }

    fn per_second(&self, count: u64) -> f64 {
        let life = self.life();
        if life == Span::ZERO { 0.0 } else { count as f64 / life.as_secs_f64() }
    }
}

impl Serialize for Account {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("flow", &self.flow.0)?;
        map.serialize_entry("verdict", self.verdict.name())?;
        map.serialize_entry("explanation", &self.explanation)?;
        map.serialize_entry("slo", &SloAsJson(&self.slo))?;
        map.serialize_entry("since_ns", &self.since.as_nanos())?;
        map.serialize_entry("now_ns", &self.now.as_nanos())?;
        map.serialize_entry("offered", &self.offered)?;
        map.serialize_entry("offered_bytes", &self.offered_bytes)?;
        map.serialize_entry("offered_iops", &self.offered_iops())?;
        map.serialize_entry("served", &self.served)?;
        map.serialize_entry("served_iops", &self.served_iops())?;
        map.serialize_entry("failed", &self.failed)?;
        map.serialize_entry("cancelled", &self.cancelled)?;
        map.serialize_entry("open", &self.open())?;
        map.serialize_entry("read_bytes", &self.bytes_read)?;
        map.serialize_entry("written_bytes", &self.bytes_written)?;
        map.serialize_entry("promised", &self.promised)?;
        map.serialize_entry("missed", &self.missed)?;
        map.serialize_entry("outside", &self.outside)?;
        for (prefix, latency) in [("", &self.latency), ("promised_", &self.latency_promised)] {
            map.serialize_entry(&format!("{prefix}latency_p50_us"), &micros(latency.p50))?;
            map.serialize_entry(&format!("{prefix}latency_p99_us"), &micros(latency.p99))?;
            map.serialize_entry(&format!("{prefix}latency_p999_us"), &micros(latency.p999))?;
            map.serialize_entry(&format!("{prefix}latency_max_us"), &micros(latency.max))?;
        }
        map.serialize_entry("worst_miss", &self.worst_miss)?;
        map.serialize_entry("windows", &self.windows)?;
        map.end()
    }
}

impl Serialize for Miss {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut state = serializer.serialize_struct("Miss", 3)?;
        state.serialize_field("by_us", &micros(self.by))?;
        state.serialize_field("promise_us", &micros(self.promise))?;
        state.serialize_field("at_ns", &self.at.as_nanos())?;
        state.end()
    }
}

impl Serialize for Window {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut state = serializer.serialize_struct("Window", 6)?;
        state.serialize_field("start_ns", &self.second.saturating_mul(NANOS_PER_SECOND))?;
        state.serialize_field("arrivals", &self.arrivals)?;
        state.serialize_field("served", &self.served)?;
        state.serialize_field("moved_bytes", &self.bytes)?;
        state.serialize_field("latency_max_us", &micros(self.latency_max))?;
        state.serialize_field("missed", &self.missed)?;
        state.end()
    }
}

struct SloAsJson<'a>(&'a Slo);

impl Serialize for SloAsJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("background", &self.0.is_background())?;
        map.serialize_entry("weight", &self.0.weight().as_u32())?;
        if let Some(envelope) = self.0.envelope() {
            map.serialize_entry("burst_requests", &envelope.burst().as_f64())?;
            map.serialize_entry("rate_iops", &envelope.rate().as_f64())?;
            map.serialize_entry("latency_us", &micros(envelope.latency()))?;
        }
        map.end()
    }
}

/// Microseconds as a float whose three decimals are the nanoseconds.
fn micros(span: Span) -> f64 {
    span.as_nanos() as f64 / 1_000.0
}
