//! Arrivals by time: peaks of windows, and a series that fits any length.

use evenkeel_core::Span;

/// Counts in aligned windows of one length: `[0, w)`, `[w, 2w)`, … from the first request.
#[derive(Clone, Debug)]
pub struct Window {
    length: Span,
    current: u64,
    in_current: u64,
    peak: u64,
    squares: f64,
    total: u64,
}

impl Window {
    pub(super) fn new(length: Span) -> Self {
        Self { length, current: 0, in_current: 0, peak: 0, squares: 0.0, total: 0 }
    }

    pub(super) fn add(&mut self, since: Span) {
        let window = since.as_nanos() / self.length.as_nanos();
        if window != self.current {
            self.squares += (self.in_current as f64) * (self.in_current as f64);
            self.current = window;
            self.in_current = 0;
        }
        self.in_current += 1;
        self.total += 1;
        self.peak = self.peak.max(self.in_current);
    }

    /// How long the windows are.
    #[must_use]
    pub fn length(&self) -> Span {
        self.length
    }

    /// Requests in the fullest window.
    #[must_use]
    pub fn peak(&self) -> u64 {
        self.peak
    }

    /// Requests per second in the fullest window.
    #[must_use]
    pub fn peak_iops(&self) -> f64 {
        self.peak as f64 / self.length.as_secs_f64()
    }

    /// Variance of the counts over their mean, empty windows counted, the last one, which may not be
    /// over, not: 1 of a Poisson process, more of bursts (index of dispersion for counts). 0 if no window
    /// is over.
    #[must_use]
    pub fn dispersion(&self) -> f64 {
        let (windows, total) = (self.current as f64, (self.total - self.in_current) as f64);
        if total == 0.0 {
            return 0.0;
        }
        let mean = total / windows;
        (self.squares / windows - mean * mean) / mean
    }
}

const BINS: usize = 1024;
/// The narrowest bins, in nanoseconds.
const NARROWEST: u64 = 1_000;

/// Arrivals over time in at most 1024 bins: where the trace outgrows them, pairs of bins become one.
///
/// ```text
///  [a b c d] full ──> [a+b c+d . .] and every bin is twice as long
/// ```
#[derive(Clone, Debug)]
pub struct Series {
    width: u64,
    /// Reads and other requests.
    bins: Vec<(u64, u64)>,
}

impl Series {
    pub(super) fn new() -> Self {
        Self { width: NARROWEST, bins: Vec::new() }
    }

    pub(super) fn add(&mut self, since: Span, read: bool) {
        while since.as_nanos() / self.width >= BINS as u64 {
            self.halve();
        }
        let bin = (since.as_nanos() / self.width) as usize;
        if self.bins.len() <= bin {
            self.bins.resize(bin + 1, (0, 0));
        }
        if read {
            self.bins[bin].0 += 1;
        } else {
            self.bins[bin].1 += 1;
        }
    }

    /// How long a bin is.
    #[must_use]
    pub fn width(&self) -> Span {
        Span::from_nanos(self.width)
    }

    /// Reads and other requests of each bin, from the first request on.
    #[must_use]
    pub fn bins(&self) -> &[(u64, u64)] {
        &self.bins
    }

    fn halve(&mut self) {
        self.width *= 2;
        let pair = |pair: &[(u64, u64)]| pair.iter().fold((0, 0), |sum, bin| (sum.0 + bin.0, sum.1 + bin.1));
        self.bins = self.bins.chunks(2).map(pair).collect();
    }
}
