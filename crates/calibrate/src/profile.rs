//! What was measured, and what a configuration takes from it.
//!
//! ```text
//!  Profile ─┬─ version, date, host, device                        who was measured, where and when
//!           ├─ sustained: the long run ── steady, drift, credit
//!           └─ measurements: [ cell, rate, low, high, … ] ──> Derived: capacity, depth, costs
//!
//!  depth     the smallest at which random reads of 4 KiB reach nine tenths of their best rate
//!  capacity  the lower end of their interval there; of the long run, if that is lower
//!  cost      (rate of random 4 KiB reads) / (rate of this kind and size), both at that depth
//! ```

use std::num::NonZeroU32;

use evenkeel_core::{Cost, CostModel, Operation, Point, Price, Rate, Span};

use crate::course::Course;
use crate::measure::{Cell, Pattern, Rated};

/// The version of the format that is written, and the only one that is read.
pub const VERSION: u32 = 1;

/// The size whose random reads are the unit: a request of cost 1.
pub(crate) const UNIT_BYTES: u32 = 4096;

/// A device profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// When it was measured, as the caller writes dates.
    pub measured_at: String,
    /// The program that measured.
    pub tool: String,
    /// Where it was measured.
    pub host: HostFacts,
    /// What was measured.
    pub device: DeviceFacts,
    /// The long run, if there was one.
    pub sustained: Option<Sustained>,
    /// All cells, in the order in which they were measured.
    pub measurements: Vec<Measurement>,
}

/// Where it was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFacts {
    /// Its name.
    pub name: String,
    /// Kernel and its release.
    pub kernel: String,
    /// The processor's name.
    pub processor: String,
    /// How many processors the program could use.
    pub processors: u32,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// The path, or the name of a model.
    pub path: String,
    /// What it is.
    pub kind: DeviceKind,
    /// Bytes of the range that was measured.
    pub size: u64,
    /// Whether the page cache was bypassed.
    pub direct: bool,
    /// What the system says of the hardware; may be empty.
    pub identity: String,
}

/// Kinds of what can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A regular file.
    File,
    /// A block device.
    BlockDevice,
    /// A device model, in virtual time.
    Model,
    /// An export of an NBD server, as a client sees it.
    Nbd,
}

/// The rate of one cell, in accesses per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measurement {
    /// Which.
    pub cell: Cell,
    /// The mean.
    pub rate: Rate,
    /// The lower end of its 95 % confidence interval.
    pub low: Rate,
    /// The upper end.
    pub high: Rate,
    /// For how long it was measured.
    pub time: Span,
    /// Whether the interval is as narrow as was asked for.
    pub is_narrow: bool,
}

/// The long run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sustained {
    /// The rate; after the fall, if there was one.
    pub measurement: Measurement,
    /// What it did over time.
    pub course: SustainedCourse,
}

/// As [`Course`], in the units of the profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SustainedCourse {
    /// It stayed where it was.
    Steady,
    /// A credit was used up.
    BurstCredit {
        /// The rate before the fall.
        before: Rate,
        /// How long it lasted from the beginning.
        lasted: Span,
    },
    /// It changed slowly, by so many parts in a thousand of the mean from beginning to end.
    Drift {
        /// Negative if it fell.
        permille: i32,
    },
}

/// What a configuration takes from a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Derived {
    /// Requests of cost 1 per second that promises may count on.
    pub capacity: Rate,
    /// Requests outstanding at the device.
    pub depth: NonZeroU32,
    /// What requests cost.
    pub cost: CostModel,
}

impl Measurement {
    /// From what was measured. Rounded to 0.001 IOPS, the interval outward.
    #[must_use]
    pub fn new(cell: Cell, rated: &Rated) -> Self {
        let millis = |value: f64| Rate::from_millis((value * 1_000.0) as u64);
        Self {
            cell,
            rate: Rate::from_millis((rated.rate.mean * 1_000.0).round() as u64),
            low: millis(rated.rate.low()),
            high: millis(rated.rate.high() + 0.001),
            time: rated.time,
            is_narrow: rated.is_narrow,
        }
    }

    /// The mean time of one access: by Little's law, depth / rate.
    #[must_use]
    pub fn latency(&self) -> Option<Span> {
        let nanos = u128::from(self.cell.depth) * 1_000_000_000_000;
        let nanos = nanos.checked_div(u128::from(self.rate.as_millis()))?;
        u64::try_from(nanos).ok().map(Span::from_nanos)
    }
}

impl Sustained {
    /// From what was measured in slices of this length.
    #[must_use]
    pub fn new(cell: Cell, rated: &Rated, slice: Span) -> Self {
        let course = match rated.course {
            Course::Steady => SustainedCourse::Steady,
            Course::BurstCredit { before, at, .. } => SustainedCourse::BurstCredit {
                before: Rate::from_millis((before * 1_000.0).round() as u64),
                lasted: Span::from_nanos(slice.as_nanos().saturating_mul(at as u64)),
            },
            Course::Drift { mean, change } => {
                SustainedCourse::Drift { permille: (change / mean * 1_000.0).round() as i32 }
            }
        };
        Self { measurement: Measurement::new(cell, rated), course }
    }

    /// The size of a credit: what it gave above the rate after it.
    #[must_use]
    pub fn credit(&self) -> Option<Cost> {
        let SustainedCourse::BurstCredit { before, lasted } = self.course else { return None };
        let above = before.as_millis().saturating_sub(self.measurement.rate.as_millis());
        let millis = u128::from(above) * u128::from(lasted.as_nanos()) / 1_000_000_000;
        u64::try_from(millis).ok().map(Cost::from_millis)
    }
}

impl Profile {
    /// What a configuration takes from it. `None` if random reads of 4 KiB have not been measured, or
    /// nothing of theirs completed.
    #[must_use]
    pub fn derived(&self) -> Option<Derived> {
        let depth = self.depth()?;
        let unit = self.at(false, UNIT_BYTES, depth)?;
        let sustained = self.sustained.map(|sustained| sustained.measurement);
        let sustained = sustained.filter(|long| long.cell.bytes == UNIT_BYTES && !long.cell.writes);
        let capacity = sustained.map_or(unit.low, |long| unit.low.min(long.low));
        let mut cost = CostModel::PER_REQUEST;
        for (writes, operation) in [(false, Operation::Read), (true, Operation::Write)] {
            if let Some(price) = self.price(writes, depth, unit.rate) {
                cost = cost.with(operation, price);
            }
        }
        (capacity.as_millis() > 0).then_some(Derived { capacity, depth: NonZeroU32::new(depth)?, cost })
    }

    /// The smallest depth at which random reads of 4 KiB reach nine tenths of their best rate.
    fn depth(&self) -> Option<u32> {
        let is_unit =
            |cell: &Cell| !cell.writes && cell.pattern == Pattern::Random && cell.bytes == UNIT_BYTES;
        let units = || self.measurements.iter().filter(|measurement| is_unit(&measurement.cell));
        let best = units().map(|measurement| measurement.rate.as_millis()).max()?;
        let enough = |measurement: &&Measurement| {
            u128::from(measurement.rate.as_millis()) * 10 >= u128::from(best) * 9
        };
        units().filter(enough).map(|measurement| measurement.cell.depth).min()
    }

    fn at(&self, writes: bool, bytes: u32, depth: u32) -> Option<&Measurement> {
        let wanted = Cell { writes, pattern: Pattern::Random, bytes, depth };
        self.measurements.iter().find(|measurement| measurement.cell == wanted)
    }

    /// Costs by size, rounded up to 0.001; a larger request never costs less than a smaller one.
    fn price(&self, writes: bool, depth: u32, unit: Rate) -> Option<Price> {
        let of_kind = |measurement: &&Measurement| {
            let Cell { writes: kind, pattern, depth: at, .. } = measurement.cell;
            kind == writes && pattern == Pattern::Random && at == depth && measurement.rate.as_millis() > 0
        };
        let mut points: Vec<Point> = Vec::new();
        let mut measured: Vec<&Measurement> = self.measurements.iter().filter(of_kind).collect();
        measured.sort_by_key(|measurement| measurement.cell.bytes);
        measured.dedup_by_key(|measurement| measurement.cell.bytes);
        for measurement in measured {
            let millis =
                (u128::from(unit.as_millis()) * 1_000).div_ceil(u128::from(measurement.rate.as_millis()));
            let cost = Cost::from_millis(u64::try_from(millis).ok()?.max(1));
            let cost = points.last().map_or(cost, |before| before.cost.max(cost));
            points.push(Point { bytes: measurement.cell.bytes, cost });
        }
        Price::by_size(&points).ok()
    }
}

impl DeviceKind {
    /// As it stands in a profile.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::BlockDevice => "block device",
            Self::Model => "model",
            Self::Nbd => "nbd",
        }
    }
}

impl Pattern {
    /// As it stands in a profile.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Sequential => "sequential",
        }
    }
}
