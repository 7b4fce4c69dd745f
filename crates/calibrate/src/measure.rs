//! One cell of the grid: keep so many accesses outstanding until the rate is known well enough.
//!
//! ```text
//!  time ──> │ warm-up │ slice │ slice │ slice │ …            completions are counted per slice
//!  outstanding: always `depth`; each completion starts the next access
//!  after every few slices: is the interval narrow, and the least time over? ── yes, or time out ──> drain
//! ```

use evenkeel_core::{Operation, Span, Time};

use crate::course::{Course, course};
use crate::random::Random;
use crate::statistics::{Estimate, estimate};
use crate::target::{Access, Target};

/// Slices between two looks at the interval.
const SLICES_PER_LOOK: usize = 8;
/// Completions without which nothing is known.
const COMPLETIONS_MIN: u64 = 10;
/// Requests in a slice, or bursts of them, below which it is too short to judge a course by.
const COUNT_MIN: f64 = 8.0;
/// The longest wait for those, and for what is outstanding at the end.
const PATIENCE: Span = Span::from_millis(60_000);

/// In which order a cell goes over its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pattern {
    /// Anywhere, uniformly, in steps of the size.
    Random,
    /// One after the other, from the beginning again at the end.
    Sequential,
}

/// What is measured at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell {
    /// Reads or writes.
    pub writes: bool,
    /// In which order.
    pub pattern: Pattern,
    /// Bytes of each access, a multiple of 4096.
    pub bytes: u32,
    /// Accesses outstanding.
    pub depth: u32,
}

/// Which cells there are, and where they may read and write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Sizes in bytes.
    pub sizes: Vec<u32>,
    /// Depths.
    pub depths: Vec<u32>,
    /// Whether to write as well.
    pub writes: bool,
}

/// When a measurement is good enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// The interval reaches at most this fraction of the mean to either side.
    pub precision: f64,
    /// Not before so much has been measured.
    pub least: Span,
    /// Not beyond this, narrow or not.
    pub most: Span,
    /// Not counted, at the beginning of every cell.
    pub warm_up: Span,
    /// Seed of the offsets.
    pub seed: u64,
}

/// The rate of one cell in accesses per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rated {
    /// With its interval.
    pub rate: Estimate,
    /// For how long.
    pub time: Span,
    /// Whether the interval is as narrow as wanted.
    pub is_narrow: bool,
    /// What the rate did meanwhile.
    pub course: Course,
}

/// Why a cell could not be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MeasureError<E> {
    /// An access failed.
    #[error("{0}")]
    Access(E),
    /// The range does not hold a single access.
    #[error("the range of {range} bytes does not hold an access of {bytes}; give it at least that much")]
    Range {
        /// Bytes of the range.
        range: u64,
        /// Bytes of an access.
        bytes: u32,
    },
    /// Hardly anything completes.
    #[error(
        "{completed} accesses completed in {waited}; the device does not answer, check it before measuring again"
    )]
    Stalled {
        /// Accesses that did.
        completed: u64,
        /// For how long it was waited.
        waited: Span,
    },
}

impl Default for Goal {
    /// ±5 %, half a second to four seconds per cell.
    fn default() -> Self {
        Self {
            precision: 0.05,
            least: Span::from_millis(500),
            most: Span::from_millis(4_000),
            warm_up: Span::from_millis(100),
            seed: 1,
        }
    }
}

impl Default for Grid {
    /// Reads of 4 KiB to 1 MiB at depths of 1 to 64.
    fn default() -> Self {
        Self {
            sizes: [4, 16, 64, 256, 1_024].map(|kib| kib << 10).to_vec(),
            depths: vec![1, 2, 4, 8, 16, 32, 64],
            writes: false,
        }
    }
}

impl Grid {
    /// The cells, reads before writes.
    #[must_use]
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for writes in if self.writes { &[false, true][..] } else { &[false] } {
            for pattern in [Pattern::Random, Pattern::Sequential] {
                for bytes in &self.sizes {
                    let cell = |depth: &u32| Cell { writes: *writes, pattern, bytes: *bytes, depth: *depth };
                    cells.extend(self.depths.iter().map(cell));
                }
            }
        }
        cells
    }
}

/// Measures one cell within the bytes of `range`.
///
/// # Errors
/// If an access fails, none completes, or the range is too small.
pub fn measure<T: Target>(
    target: &mut T,
    cell: Cell,
    range: (u64, u64),
    goal: &Goal,
) -> Result<Rated, MeasureError<T::Error>> {
    let slice = Span::from_nanos((goal.least.as_nanos() / 40).max(1));
    let mut run = Run::start(target, cell, range, goal)?;
    loop {
        run.slices(target, slice, SLICES_PER_LOOK)?;
        let time = run.time(slice);
        let found = run.estimate(slice).filter(|_| run.completed >= COMPLETIONS_MIN);
        let is_narrow = found.is_some_and(|found| found.is_within(goal.precision));
        if let Some(rate) = found
            && time >= goal.least
            && (is_narrow || time >= goal.most)
        {
            let course = course(&run.countable());
            run.drain(target)?;
            return Ok(Rated { rate, time, is_narrow, course });
        }
        run.check_alive(time)?;
    }
}

/// Measures one cell for all of `time`, in slices, and how the rate goes; the rate is that of the end,
/// where a credit has been used up. Slices have a length of `slice`.
///
/// # Errors
/// As [`measure`].
pub fn sustain<T: Target>(
    target: &mut T,
    cell: Cell,
    range: (u64, u64),
    goal: &Goal,
    (time, slice): (Span, Span),
) -> Result<Rated, MeasureError<T::Error>> {
    let mut run = Run::start(target, cell, range, goal)?;
    loop {
        run.slices(target, slice, 1)?;
        let measured = run.time(slice);
        if measured >= time && run.completed >= COMPLETIONS_MIN && run.rates.len() >= 20 {
            let course = course(&run.rates);
            if let Course::BurstCredit { at, .. } = course {
                // The slice of the fall belongs to neither side.
                let after = (at + 1).min(run.rates.len() - 1);
                if run.rates.len() - after >= 10 {
                    run.rates.drain(..after);
                }
            }
            let rate = run.estimate(slice);
            run.drain(target)?;
            let Some(rate) = rate else { continue };
            let is_narrow = rate.is_within(goal.precision);
            return Ok(Rated { rate, time: measured, is_narrow, course });
        }
        run.check_alive(measured)?;
    }
}

/// A cell while it is measured.
struct Run {
    cell: Cell,
    range: (u64, u64),
    random: Random,
    /// The place of the next sequential access.
    place: u64,
    places: u64,
    /// The end of the present slice.
    boundary: Time,
    completed: u64,
    outstanding: u32,
    /// The most completions that came at once.
    together: u32,
    rates: Vec<f64>,
    done: Vec<u32>,
}

impl Run {
    fn start<T: Target>(
        target: &mut T,
        cell: Cell,
        range: (u64, u64),
        goal: &Goal,
    ) -> Result<Self, MeasureError<T::Error>> {
        let places = range.1.saturating_sub(range.0) / u64::from(cell.bytes.max(1));
        if places == 0 {
            return Err(MeasureError::Range { range: range.1.saturating_sub(range.0), bytes: cell.bytes });
        }
        let mut run = Self {
            cell,
            range,
            random: Random::new(goal.seed),
            place: 0,
            places,
            boundary: target.now() + goal.warm_up,
            completed: 0,
            outstanding: 0,
            together: 1,
            rates: Vec::new(),
            done: Vec::with_capacity(cell.depth as usize),
        };
        for slot in 0..cell.depth {
            run.submit(target, slot)?;
        }
        // Warm-up: some time, and until everything of the beginning is over.
        let (begin, mut warm) = (target.now(), 0);
        while target.now() < run.boundary || warm < cell.depth {
            warm = warm.saturating_add(run.turn(target, target.now() + goal.warm_up)?);
            if target.now().since(begin) > PATIENCE {
                let waited = target.now().since(begin);
                return Err(MeasureError::Stalled { completed: u64::from(warm), waited });
            }
        }
        run.boundary = target.now();
        Ok(run)
    }

    /// Goes on for `count` slices.
    fn slices<T: Target>(
        &mut self,
        target: &mut T,
        slice: Span,
        count: usize,
    ) -> Result<(), MeasureError<T::Error>> {
        for _ in 0..count {
            let begin = self.boundary;
            let end = begin + slice;
            let mut completed = 0_u32;
            while target.now() < end {
                completed = completed.saturating_add(self.turn(target, end)?);
            }
            // Woken late, the slice was longer by as much; what came then is counted in it.
            self.boundary = target.now();
            let length = self.boundary.since(begin).as_secs_f64();
            self.completed += u64::from(completed);
            self.rates.push(f64::from(completed) / length);
        }
        Ok(())
    }

    /// Waits once and starts the next accesses; how many completed.
    fn turn<T: Target>(&mut self, target: &mut T, until: Time) -> Result<u32, MeasureError<T::Error>> {
        let mut done = std::mem::take(&mut self.done);
        target.wait(until, &mut done).map_err(MeasureError::Access)?;
        let completed = done.len() as u32;
        self.outstanding -= completed;
        self.together = self.together.max(completed);
        for slot in done.drain(..) {
            self.submit(target, slot)?;
        }
        self.done = done;
        Ok(completed)
    }

    fn submit<T: Target>(&mut self, target: &mut T, slot: u32) -> Result<(), MeasureError<T::Error>> {
        let place = match self.cell.pattern {
            Pattern::Random => self.random.below(self.places),
            Pattern::Sequential => {
                self.place = (self.place + 1) % self.places;
                self.place
            }
        };
        let operation = if self.cell.writes { Operation::Write } else { Operation::Read };
        let length = self.cell.bytes;
        let offset = self.range.0 + place * u64::from(length);
        target.submit(Access { slot, operation, offset, length }).map_err(MeasureError::Access)?;
        self.outstanding += 1;
        Ok(())
    }

    /// The rates of slices long enough to judge a course by: where only a request or two falls into each
    /// slice, their numbers alternate by chance, so slices are put together until they hold several. What completes
    /// at once counts as one: it falls into a slice as a whole.
    fn countable(&self) -> Vec<f64> {
        let per_slice = self.completed as f64 / self.rates.len().max(1) as f64;
        let count_min = COUNT_MIN * f64::from(self.together.max(1));
        let together = (count_min / per_slice.max(f64::MIN_POSITIVE)).ceil().clamp(1.0, 1e9) as usize;
        self.rates.chunks_exact(together).map(crate::statistics::mean_of).collect()
    }

    /// The time that the slices cover, late wake-ups apart.
    fn time(&self, slice: Span) -> Span {
        Span::from_nanos(slice.as_nanos().saturating_mul(self.rates.len() as u64))
    }

    /// The rate. Where a slice ends, what completes at once falls to one side or the other: so much over the
    /// whole time is never known.
    fn estimate(&self, slice: Span) -> Option<Estimate> {
        let found = estimate(&self.rates)?;
        let resolution = f64::from(self.together) / self.time(slice).as_secs_f64();
        Some(Estimate { half_width: found.half_width + resolution, ..found })
    }

    fn check_alive<E>(&self, time: Span) -> Result<(), MeasureError<E>> {
        let stalled = time >= PATIENCE && self.completed < COMPLETIONS_MIN;
        let error = MeasureError::Stalled { completed: self.completed, waited: time };
        if stalled { Err(error) } else { Ok(()) }
    }

    /// Waits for what is outstanding: the memory it uses is needed by the next cell.
    fn drain<T: Target>(&mut self, target: &mut T) -> Result<(), MeasureError<T::Error>> {
        let end = target.now() + PATIENCE;
        while self.outstanding > 0 {
            target.wait(end, &mut self.done).map_err(MeasureError::Access)?;
            self.outstanding -= self.done.len() as u32;
            self.done.clear();
            if target.now() >= end && self.outstanding > 0 {
                return Err(MeasureError::Stalled { completed: self.completed, waited: PATIENCE });
            }
        }
        Ok(())
    }
}
