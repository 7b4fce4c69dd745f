//! FAIRIO's parameters, and what a report can ask about a class.

use core::fmt;

use crate::units::Span;

/// How the disk time of a request becomes known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accounting {
    /// The driver tells it with each completion ([`crate::Completion::service`]). A completion without
    /// it counts as the mean of its class; a cancelled one as nothing.
    Reported,
    /// It is estimated: of each slice of time with n requests at the store, every one of them is
    /// charged min(n, disks)/n.
    #[default]
    Estimated,
    /// It is estimated for a store that works on one request after the other: all time is charged to those
    /// that it is working on, the oldest `disks` of those that it holds.
    Queued,
}

/// FAIRIO's parameters. [`FairioConfig::new`] takes the evaluation's choices (section III-D).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FairioConfig {
    /// Length of a full scheduling cycle: 1 us to one hour. The evaluation uses 1 s to 3.6 s.
    pub cycle: Span,
    /// Disks that work in parallel: 1 to 4096.
    pub disks: u32,
    /// r, full cycles in the window of observation: 1 to 256.
    pub window_cycles: u32,
    /// Requests below which a class is not served in a cycle: 1 to 2²⁰.
    pub class_threshold: u32,
    /// Requests at the store below which it is under-loaded: 1 to 65 536.
    pub load_threshold: u32,
    /// Disk time per request of a class that has completed none yet: 1 ns to one hour.
    pub first_request: Span,
    /// Where disk time comes from.
    pub accounting: Accounting,
}

/// The parameter of a [`FairioConfig`] that is outside its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FairioConfigError {
    /// [`FairioConfig::cycle`].
    Cycle,
    /// [`FairioConfig::disks`].
    Disks,
    /// [`FairioConfig::window_cycles`].
    WindowCycles,
    /// [`FairioConfig::class_threshold`].
    ClassThreshold,
    /// [`FairioConfig::load_threshold`].
    LoadThreshold,
    /// [`FairioConfig::first_request`].
    FirstRequest,
}

/// Where a class stands in the current cycle. All amounts are disk time, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FairioClass {
    /// ServiceShare: its share of the current cycle.
    pub share: u64,
    /// The same with what other classes lend it.
    pub granted: u64,
    /// Requests that it may still send in this cycle.
    pub credit: u64,
    /// What it has used of this cycle, up to the last call that told the time.
    pub used: u64,
    /// What it was charged for the cycle before (step 1).
    pub charged: u64,
    /// ServiceDeviation when the cycle began; negative if it got too little.
    pub deviation: i128,
    /// TimePerRequest, by which shares become credits.
    pub time_per_request: u64,
}

impl FairioConfig {
    const HOUR: Span = Span::from_millis(3_600_000);

    /// Cycles of `cycle` on `disks` disks; r = 20, class threshold 1, load threshold 16, 5 ms for a
    /// request of a class not seen before, disk time estimated.
    #[must_use]
    pub const fn new(cycle: Span, disks: u32) -> Self {
        Self {
            cycle,
            disks,
            window_cycles: 20,
            class_threshold: 1,
            load_threshold: 16,
            first_request: Span::from_millis(5),
            accounting: Accounting::Estimated,
        }
    }

    /// The disk time in a full cycle.
    pub(crate) const fn service(&self) -> u64 {
        self.cycle.as_nanos() * self.disks as u64
    }

    /// Whether every parameter is in its range.
    ///
    /// # Errors
    /// The first one that is not.
    pub fn check(&self) -> Result<(), FairioConfigError> {
        let ranges = [
            (self.cycle >= Span::from_micros(1) && self.cycle <= Self::HOUR, FairioConfigError::Cycle),
            ((1..=4_096).contains(&self.disks), FairioConfigError::Disks),
            ((1..=256).contains(&self.window_cycles), FairioConfigError::WindowCycles),
            ((1..=1 << 20).contains(&self.class_threshold), FairioConfigError::ClassThreshold),
            ((1..=65_536).contains(&self.load_threshold), FairioConfigError::LoadThreshold),
            (
                self.first_request > Span::ZERO && self.first_request <= Self::HOUR,
                FairioConfigError::FirstRequest,
            ),
        ];
        ranges.into_iter().find(|(inside, _)| !inside).map_or(Ok(()), |(_, error)| Err(error))
    }
}

impl fmt::Display for FairioConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cycle => "the cycle must last from 1 us to one hour",
            Self::Disks => "the number of disks must be from 1 to 4096",
            Self::WindowCycles => "the window must hold from 1 to 256 cycles",
            Self::ClassThreshold => "the class threshold must be from 1 to 1048576 requests",
            Self::LoadThreshold => "the load threshold must be from 1 to 65536 requests",
            Self::FirstRequest => "the first disk time per request must be from 1 ns to one hour",
        })
    }
}

impl core::error::Error for FairioConfigError {}
