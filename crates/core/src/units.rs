//! Units: every quantity of the core is an integer newtype with its resolution in its name's doc.
//!
//! ```text
//!  Time, Span   1 ns           u64: 584 years
//!  Cost         1/1000 request u64: one ordinary request is Cost::ONE = 1000
//!  Rate         1/1000 request per second
//!  cost / rate  -> Span        exact as quotient and remainder, never as a float
//! ```

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// Nanoseconds in a second.
pub const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// An instant, in nanoseconds since an epoch that the driver chooses (monotonic, never wall time).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

/// A length of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

/// A number of requests per second, in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

/// What a request costs, or how many may come at once (σ), in thousandths of an ordinary request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(u64);

/// A relative share; only ratios between weights mean anything. From 1 to 1 000 000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u32);

impl Time {
    /// The driver's epoch.
    pub const ZERO: Self = Self(0);

    /// The instant `nanos` nanoseconds after the epoch.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The instant `millis` milliseconds after the epoch.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// Nanoseconds since the epoch.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this instant is; zero if it is not after it.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// `nanos` nanoseconds.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// `micros` microseconds.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros * 1_000)
    }

    /// `millis` milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// Whole nanoseconds.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds as a float, for display and statistics only.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SECOND as f64
    }
}

impl Rate {
    /// `per_second` whole requests per second.
    #[must_use]
    pub const fn per_second(per_second: u64) -> Self {
        Self(per_second * 1_000)
    }

    /// `millis` thousandths of a request per second.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Thousandths of a request per second.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Requests per second as a float, for display and statistics only.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / 1_000.0
    }
}

impl Cost {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// One ordinary request: the unit of all four papers.
    pub const ONE: Self = Self(1_000);

    /// `requests` ordinary requests.
    #[must_use]
    pub const fn requests(requests: u64) -> Self {
        Self(requests * 1_000)
    }

    /// `millis` thousandths of a request.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Thousandths of a request.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Requests as a float, for display and statistics only.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / 1_000.0
    }
}

impl Weight {
    /// The weight of a flow that names none.
    pub const ONE: Self = Self(1);
    /// The largest weight.
    pub const MAX: Self = Self(1_000_000);

    /// A weight from 1 to 1 000 000; `None` outside that range.
    #[must_use]
    pub const fn new(weight: u32) -> Option<Self> {
        if weight == 0 || weight > Self::MAX.0 { None } else { Some(Self(weight)) }
    }

    /// The number itself.
    #[must_use]
    pub const fn as_u32(self) -> u32 {
        self.0
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self::ONE
    }
}

impl Add<Span> for Time {
    type Output = Self;

    /// Saturates at the end of time, 584 years after the epoch.
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Add for Span {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Span {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Span {
    /// The largest unit that shows the value exactly: `50 ms`, `1500 us`, `17 ns`, `2 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0;
        for (unit, size) in [("s", NANOS_PER_SECOND), ("ms", 1_000_000), ("us", 1_000)] {
            if nanos != 0 && nanos.is_multiple_of(size) {
                return write!(f, "{} {unit}", nanos / size);
            }
        }
        write!(f, "{nanos} ns")
    }
}

/// Writes `thousandths` as a decimal number without trailing zeros.
fn fmt_thousandths(thousandths: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (whole, part) = (thousandths / 1_000, thousandths % 1_000);
    match part {
        0 => write!(f, "{whole}"),
        p if p % 100 == 0 => write!(f, "{whole}.{}", p / 100),
        p if p % 10 == 0 => write!(f, "{whole}.{:02}", p / 10),
        p => write!(f, "{whole}.{p:03}"),
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_thousandths(self.0, f)?;
        f.write_str(" IOPS")
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_thousandths(self.0, f)
    }
}
