//! What a trace is like, in one pass and constant memory.
//!
//! ```text
//!  request ─┬─ counts, bytes, extent            of all, of each volume
//!           ├─ Spread: size, interarrival       log-linear histogram, mean, variance
//!           ├─ Windows: peak of each length     counts in aligned windows; a series that halves itself
//!           ├─ Streams: sequential, near        ends of the last requests of each volume
//!           └─ Distinct: footprint              HyperLogLog over (volume, 4 KiB block)
//! ```

use evenkeel_core::{Operation, Span, Time};

use crate::TraceRequest;

mod distinct;
mod map;
mod spread;
mod windows;

pub use distinct::Distinct;
pub use map::AddressMap;
pub use spread::Spread;
pub use windows::{Series, Window};

/// Block size of the footprint, in bytes.
pub const FOOTPRINT_BLOCK: u64 = 4096;
/// A request that begins at most that far behind an end is near-sequential, in bytes.
const NEAR: u64 = 64 << 10;
/// Ends that are remembered for each volume: as many interleaved streams are seen as sequential.
const STREAMS: usize = 8;
/// Lengths of the windows whose peaks are kept, in nanoseconds.
const WINDOWS: [u64; 4] = [1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

/// Counts of one volume, or of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All requests.
    pub requests: u64,
    /// Of which read.
    pub reads: u64,
    /// Of which write.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Reads and writes that begin exactly where one of the last eight of their volume ended.
    pub sequential: u64,
    /// Reads and writes that begin at most 64 KiB after such an end; the sequential ones among them.
    pub near_sequential: u64,
    /// The first byte that nobody reaches.
    pub extent: u64,
}

impl Counts {
    /// Requests that neither read nor write: flushes, trims.
    #[must_use]
    pub fn others(&self) -> u64 {
        self.requests - self.reads - self.writes
    }

    /// Reads among all requests, from 0 to 1.
    #[must_use]
    pub fn read_share(&self) -> f64 {
        share(self.reads, self.requests)
    }

    /// Sequential ones among reads and writes, from 0 to 1.
    #[must_use]
    pub fn sequential_share(&self) -> f64 {
        share(self.sequential, self.reads + self.writes)
    }

    fn count(&mut self, request: &TraceRequest) {
        self.requests += 1;
        let bytes = u64::from(request.length);
        match request.operation {
            Operation::Read => {
                self.reads += 1;
                self.read_bytes = self.read_bytes.saturating_add(bytes);
            }
            Operation::Write => {
                self.writes += 1;
                self.written_bytes = self.written_bytes.saturating_add(bytes);
            }
            Operation::Flush | Operation::Trim | Operation::WriteZeroes => {}
        }
        self.extent = self.extent.max(request.offset.saturating_add(bytes));
    }
}

/// The ends of the last requests of a volume, in a ring.
#[derive(Clone, Debug, Default)]
struct Streams {
    ends: [u64; STREAMS],
    known: usize,
    oldest: usize,
}

impl Streams {
    /// Whether `request` follows an end exactly, and whether at least nearly; it takes that end's place.
    fn follow(&mut self, request: &TraceRequest) -> (bool, bool) {
        let end = request.offset.saturating_add(u64::from(request.length));
        let exact = self.ends[..self.known].iter().position(|end| *end == request.offset);
        let near = |end: &u64| request.offset >= *end && request.offset - end <= NEAR;
        let place = exact.or_else(|| self.ends[..self.known].iter().position(near));
        match place {
            Some(place) => self.ends[place] = end,
            None if self.known < STREAMS => {
                self.ends[self.known] = end;
                self.known += 1;
            }
            None => {
                self.ends[self.oldest] = end;
                self.oldest = (self.oldest + 1) % STREAMS;
            }
        }
        (exact.is_some(), place.is_some())
    }
}

/// Statistics of a trace, request by request. Memory: about 100 KiB, and 150 bytes for each volume.
#[derive(Clone, Debug)]
pub struct Statistics {
    all: Counts,
    volumes: Vec<(Counts, Streams)>,
    first: Option<Time>,
    last: Time,
    sizes: Spread,
    gaps: Spread,
    windows: [Window; WINDOWS.len()],
    series: Series,
    map: AddressMap,
    distinct: Distinct,
}

impl Default for Statistics {
    fn default() -> Self {
        Self::new()
    }
}

impl Statistics {
    /// Statistics of nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            all: Counts::default(),
            volumes: Vec::new(),
            first: None,
            last: Time::ZERO,
            sizes: Spread::new(),
            gaps: Spread::new(),
            windows: WINDOWS.map(|nanos| Window::new(Span::from_nanos(nanos))),
            series: Series::new(),
            map: AddressMap::new(),
            distinct: Distinct::new(),
        }
    }

    /// Takes the next request; times must not go backwards.
    pub fn add(&mut self, request: &TraceRequest) {
        let volume = request.volume as usize;
        if self.volumes.len() <= volume {
            self.volumes.resize_with(volume + 1, Default::default);
        }
        let first = *self.first.get_or_insert(request.at);
        if self.all.requests > 0 {
            self.gaps.add(request.at.since(self.last).as_nanos());
        }
        self.last = request.at;
        let since = request.at.since(first);
        self.all.count(request);
        let (counts, streams) = &mut self.volumes[volume];
        counts.count(request);
        for window in &mut self.windows {
            window.add(since);
        }
        let read = request.operation == Operation::Read;
        self.series.add(since, read);
        if !matches!(request.operation, Operation::Read | Operation::Write) {
            return;
        }
        let (exact, near) = streams.follow(request);
        for counts in [&mut self.all, counts] {
            counts.sequential += u64::from(exact);
            counts.near_sequential += u64::from(near);
        }
        self.sizes.add(u64::from(request.length));
        self.map.add(since, request.offset, read);
        let blocks = request.offset / FOOTPRINT_BLOCK
            ..(request.offset + u64::from(request.length)).div_ceil(FOOTPRINT_BLOCK);
        for block in blocks {
            self.distinct.add(request.volume, block);
        }
    }

    /// Counts of all volumes together.
    #[must_use]
    pub fn all(&self) -> &Counts {
        &self.all
    }

    /// Counts of each volume.
    pub fn volumes(&self) -> impl ExactSizeIterator<Item = &Counts> {
        self.volumes.iter().map(|(counts, _)| counts)
    }

    /// From the first request to the last.
    #[must_use]
    pub fn span(&self) -> Span {
        self.first.map_or(Span::ZERO, |first| self.last.since(first))
    }

    /// Requests per second over the whole span; 0 if it is empty.
    #[must_use]
    pub fn mean_iops(&self) -> f64 {
        let seconds = self.span().as_secs_f64();
        if seconds > 0.0 { self.all.requests as f64 / seconds } else { 0.0 }
    }

    /// Sizes of reads and writes, in bytes.
    #[must_use]
    pub fn sizes(&self) -> &Spread {
        &self.sizes
    }

    /// Times between one request and the next, in nanoseconds.
    #[must_use]
    pub fn gaps(&self) -> &Spread {
        &self.gaps
    }

    /// Counts in aligned windows of 1 ms, 10 ms, 100 ms and 1 s.
    #[must_use]
    pub fn windows(&self) -> &[Window] {
        &self.windows
    }

    /// Arrivals over time.
    #[must_use]
    pub fn series(&self) -> &Series {
        &self.series
    }

    /// Where and when there were requests.
    #[must_use]
    pub fn map(&self) -> &AddressMap {
        &self.map
    }

    /// Estimate of the bytes that reads and writes touched at least once, in blocks of 4 KiB; its
    /// standard error is 0.8 %.
    #[must_use]
    pub fn footprint_bytes(&self) -> u64 {
        let extents = self.volumes.iter().map(|(counts, _)| counts.extent.div_ceil(FOOTPRINT_BLOCK));
        let most = extents.fold(0, u64::saturating_add);
        self.distinct.estimate().min(most).saturating_mul(FOOTPRINT_BLOCK)
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{HashMap, HashSet};

    fn request(at: u64, volume: u32, read: bool, block: u64, blocks: u32) -> TraceRequest {
        let operation = if read { Operation::Read } else { Operation::Write };
        let at = Time::from_nanos(at);
        TraceRequest { at, volume, operation, offset: block * 4096, length: blocks * 4096 }
    }

    proptest! {
        /// One pass says what keeping everything says.
        #[test]
        fn agrees_with_a_naive_model(
            steps in prop::collection::vec((0_u64..3_000_000, 0_u32..3, any::<bool>(), 0_u64..50, 1_u32..5), 1..300),
        ) {
            let mut statistics = Statistics::new();
            let mut now = 0;
            let requests: Vec<TraceRequest> = steps.iter().map(|(gap, volume, read, block, blocks)| {
                now += gap;
                request(now, *volume, *read, *block, *blocks)
            }).collect();
            requests.iter().for_each(|request| statistics.add(request));
            let reads = requests.iter().filter(|request| request.operation == Operation::Read).count();
            prop_assert_eq!(statistics.all().requests, requests.len() as u64);
            prop_assert_eq!(statistics.all().reads, reads as u64);
            let touched: HashSet<(u32, u64)> = requests.iter().flat_map(|request| {
                let first = request.offset / 4096;
                (first..first + u64::from(request.length) / 4096).map(|block| (request.volume, block))
            }).collect();
            let estimate = statistics.footprint_bytes() as f64 / 4096.0;
            prop_assert!((estimate / touched.len() as f64 - 1.0).abs() < 0.1, "{estimate} {}", touched.len());
            for window in statistics.windows() {
                let mut counts: HashMap<u64, u64> = HashMap::new();
                for request in &requests {
                    let since = request.at.since(requests[0].at).as_nanos();
                    *counts.entry(since / window.length().as_nanos()).or_default() += 1;
                }
                prop_assert_eq!(Some(&window.peak()), counts.values().max());
            }
            let total: u64 = statistics.series().bins().iter().map(|(reads, others)| reads + others).sum();
            prop_assert_eq!(total, requests.len() as u64);
            let of_volumes: u64 = statistics.volumes().map(|counts| counts.requests).sum();
            prop_assert_eq!(of_volumes, requests.len() as u64);
        }
    }

    #[test]
    fn interleaved_streams_are_sequential() {
        let mut statistics = Statistics::new();
        for step in 0..100 {
            for stream in 0..4 {
                statistics.add(&request(step * 4 + stream, 0, true, stream * 100_000 + step * 2, 2));
            }
        }
        assert_eq!(statistics.all().sequential, 4 * 99);
        assert_eq!(statistics.all().near_sequential, 4 * 99);
    }
}
