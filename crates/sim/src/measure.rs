//! What a simulation measures: per flow and class, over time, and at the device.
//!
//! ```text
//!            warm-up          measured                      drained
//!  ├──────────────────┼──────────────────────────────┼ ─ ─ ─ ─ ─ ─ ─ ─>
//!  windows: all of it       counted: requests that arrive here, whenever they are over
//!                           IOPS, bytes/s, device: what happens here
//!
//!  flow ─> class 0, 1, ..., outside   histogram, sum, maximum, missed     all: their union
//!       └> windows [ arrivals, served, bytes, latency sum and maximum, missed ]
//! ```
//!
//! Memory does not grow with the number of requests: 230 KiB per class of a flow, 56 B per window.

use evenkeel_core::{FlowId, Operation, Outcome, Record, Request, Slo, Span, Submission, Time};
use evenkeel_ledger::Ledger;
use hdrhistogram::Histogram;

use crate::simulation::{Change, Observer};

/// Measures a simulation as it runs.
pub struct Measure {
    pub(crate) warmup: Time,
    pub(crate) end: Time,
    pub(crate) window: Span,
    pub(crate) ledger: Ledger,
    pub(crate) flows: Vec<Option<FlowMeasure>>,
    pub(crate) device: DeviceMeasure,
    /// The dispatch depth, from when it was first adapted.
    pub(crate) depth: Option<DepthMeasure>,
}

/// The running measures of one flow.
pub(crate) struct FlowMeasure {
    pub(crate) slo: Slo,
    pub(crate) offered: u64,
    pub(crate) offered_bytes: u64,
    /// Requests and bytes that were done within the measured time, whenever they arrived.
    pub(crate) done: u64,
    pub(crate) done_bytes: u64,
    /// Counted requests that took no longer than the innermost latency bound, whatever their class.
    pub(crate) within: u64,
    /// By class; the last one is for requests outside all classes.
    pub(crate) classes: Vec<ClassMeasure>,
    pub(crate) windows: Vec<WindowMeasure>,
}

/// The counted requests of one class.
pub(crate) struct ClassMeasure {
    pub(crate) latencies: Histogram<u64>,
    pub(crate) sum_ns: u128,
    pub(crate) max: Span,
    pub(crate) missed: u64,
}

/// What happened in one window of time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowMeasure {
    pub(crate) arrivals: u64,
    pub(crate) served: u64,
    pub(crate) bytes: u64,
    pub(crate) latency_sum_ns: u64,
    pub(crate) latency_max: Span,
    pub(crate) missed: u64,
}

/// Requests at the device, integrated over the measured time.
#[derive(Default)]
pub(crate) struct DeviceMeasure {
    since: Time,
    outstanding: u32,
    pub(crate) busy_ns: u64,
    pub(crate) area_ns: u128,
}

/// The dispatch depth while a controller chooses it.
pub(crate) struct DepthMeasure {
    since: Time,
    pub(crate) present: u32,
    pub(crate) least: u32,
    pub(crate) most: u32,
    pub(crate) changes: u64,
    /// Over the measured time.
    pub(crate) area_ns: u128,
    pub(crate) measured_ns: u64,
    /// At the end of each window; 0 before it was adapted.
    pub(crate) windows: Vec<u32>,
}

impl DepthMeasure {
    fn new(now: Time, depth: u32, window: Span) -> Self {
        let windows = vec![0; (now.as_nanos() / window.as_nanos().max(1)) as usize];
        let (present, least, most) = (depth, depth, depth);
        Self { since: now, present, least, most, changes: 0, area_ns: 0, measured_ns: 0, windows }
    }

    /// Up to `now` the depth was the present one; `measured` is the time that counts.
    fn advance(&mut self, now: Time, measured: &std::ops::Range<Time>, window: Span) {
        let elapsed = now.min(measured.end).since(self.since.max(measured.start)).as_nanos();
        self.area_ns += u128::from(elapsed) * u128::from(self.present);
        self.measured_ns += elapsed;
        let over = (now.min(measured.end).as_nanos() / window.as_nanos().max(1)) as usize;
        if self.windows.len() < over {
            self.windows.resize(over, self.present);
        }
        self.since = now;
    }
}

impl ClassMeasure {
    /// 64 ns or 0.1 %, whichever is coarser, up to an hour; the maximum is exact.
    pub(crate) fn new() -> Self {
        let latencies = Histogram::new_with_bounds(64, 3_600_000_000_000, 3)
            .expect("the constants are within the histogram's documented bounds");
        Self { latencies, sum_ns: 0, max: Span::ZERO, missed: 0 }
    }

    fn record(&mut self, latency: Span, missed: bool) {
        self.latencies.saturating_record(latency.as_nanos());
        self.sum_ns += u128::from(latency.as_nanos());
        self.max = self.max.max(latency);
        self.missed += u64::from(missed);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        // Both have the same bounds, so nothing is out of range.
        let _ = self.latencies.add(&other.latencies);
        self.sum_ns += other.sum_ns;
        self.max = self.max.max(other.max);
        self.missed += other.missed;
    }
}

impl Measure {
    /// Measures requests that arrive from `warmup` to just before `end`, in windows of `window`.
    #[must_use]
    pub fn new(warmup: Time, end: Time, window: Span) -> Self {
        let (flows, device) = (Vec::new(), DeviceMeasure::default());
        Self { warmup, end, window, ledger: Ledger::new(), flows, device, depth: None }
    }

    fn is_counted(&self, arrival: Time) -> bool {
        arrival >= self.warmup && arrival < self.end
    }

    fn outstanding(&mut self, now: Time, outstanding: u32) {
        let (from, to) = (self.device.since.max(self.warmup), now.min(self.end));
        let elapsed = to.since(from).as_nanos();
        if self.device.outstanding > 0 {
            self.device.busy_ns += elapsed;
            self.device.area_ns += u128::from(elapsed) * u128::from(self.device.outstanding);
        }
        self.device.since = now;
        self.device.outstanding = outstanding;
    }

    /// Brings integrals and windows up to the end of the measured time.
    pub(crate) fn finish(&mut self) {
        self.outstanding(self.end.max(self.device.since), self.device.outstanding);
        // Silent windows at the end are windows too.
        let windows = self.end.as_nanos().div_ceil(self.window.as_nanos().max(1)) as usize;
        if let Some(depth) = &mut self.depth {
            depth.advance(self.end.max(depth.since), &(self.warmup..self.end), self.window);
            depth.windows.resize(windows, depth.present);
        }
        for flow in self.flows.iter_mut().flatten().filter(|flow| flow.windows.len() < windows) {
            flow.windows.resize(windows, WindowMeasure::default());
        }
    }
}

impl FlowMeasure {
    fn window(&mut self, at: Time, length: Span) -> &mut WindowMeasure {
        let index = (at.as_nanos() / length.as_nanos().max(1)) as usize;
        if self.windows.len() <= index {
            self.windows.resize(index + 1, WindowMeasure::default());
        }
        &mut self.windows[index]
    }
}

impl Observer for Measure {
    fn on_arrival(&mut self, now: Time, request: &Request) {
        let (counted, length) = (self.is_counted(now), self.window);
        if counted {
            self.ledger.on_arrival(now, request);
        }
        let Some(Some(flow)) = self.flows.get_mut(request.flow.0 as usize) else { return };
        if counted {
            flow.offered += 1;
            flow.offered_bytes += moved_bytes(request);
        }
        flow.window(now, length).arrivals += 1;
    }

    fn on_submit(&mut self, now: Time, _: &Submission, outstanding: u32) {
        self.outstanding(now, outstanding);
    }

    fn on_reply(&mut self, record: &Record, outstanding: u32) {
        let now = record.completion;
        self.outstanding(now, outstanding);
        let (counted, length) = (self.is_counted(record.arrival), self.window);
        let measured = now >= self.warmup && now < self.end;
        if counted {
            self.ledger.record(record);
        }
        let Some(Some(flow)) = self.flows.get_mut(record.request.flow.0 as usize) else { return };
        if record.outcome != Outcome::Done {
            return;
        }
        let (latency, missed, bytes) = (record.latency(), record.missed(), moved_bytes(&record.request));
        if measured {
            flow.done += 1;
            flow.done_bytes += bytes;
        }
        if counted {
            flow.within +=
                u64::from(flow.slo.envelope().is_some_and(|envelope| latency <= envelope.latency()));
            let outside = flow.classes.len() - 1;
            let class = record.class.map_or(outside, |class| usize::from(class).min(outside));
            flow.classes[class].record(latency, missed);
        }
        let window = flow.window(now, length);
        window.served += 1;
        window.bytes += bytes;
        window.latency_sum_ns = window.latency_sum_ns.saturating_add(latency.as_nanos());
        window.latency_max = window.latency_max.max(latency);
        window.missed += u64::from(missed);
    }

    fn on_change(&mut self, now: Time, change: &Change) {
        let next = match (change, &self.depth) {
            (Change::Adapt(control), _) => control.depth().get(),
            (Change::Depth(depth), Some(_)) => depth.get(),
            _ => return,
        };
        let Some(depth) = &mut self.depth else {
            self.depth = Some(DepthMeasure::new(now, next, self.window));
            return;
        };
        depth.advance(now, &(self.warmup..self.end), self.window);
        depth.changes += u64::from(next != depth.present);
        depth.present = next;
        (depth.least, depth.most) = (depth.least.min(next), depth.most.max(next));
    }

    fn on_configure(&mut self, now: Time, flow: FlowId, slo: &Slo) {
        self.ledger.configure(now, flow, slo);
        let index = flow.0 as usize;
        if self.flows.len() <= index {
            self.flows.resize_with(index + 1, || None);
        }
        let windows = (self.end.as_nanos() / self.window.as_nanos().max(1)) as usize + 1;
        let entry = self.flows[index].get_or_insert_with(|| FlowMeasure {
            slo: slo.clone(),
            offered: 0,
            offered_bytes: 0,
            done: 0,
            done_bytes: 0,
            within: 0,
            classes: vec![ClassMeasure::new()],
            windows: Vec::with_capacity(windows),
        });
        entry.slo = slo.clone();
        // The last one stays that of requests outside.
        while entry.classes.len() <= slo.classes().len() {
            entry.classes.insert(entry.classes.len() - 1, ClassMeasure::new());
        }
    }
}

/// Bytes that cross between client and store.
fn moved_bytes(request: &Request) -> u64 {
    match request.operation {
        Operation::Read | Operation::Write => u64::from(request.length),
        Operation::Flush | Operation::Trim | Operation::WriteZeroes => 0,
    }
}
