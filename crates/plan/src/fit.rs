//! Promises that cover wanted fractions of a trace as cheaply as possible.
//!
//! Source: Wang, "Nested QoS" (MS thesis, Rice 2012), section 3.2.3; Lu, Varman, Doshi, "Graduated QoS by
//! decomposing bursts", ICDCS 2009 (RTT decomposition).
//!
//! ```text
//!  pass ──> request ──> [ bucket κ_1 | bucket κ_2 | ... | bucket κ_24 ]     24 candidates at a time: each
//!                          counts what it admits                             pass narrows the interval 25-fold
//! ```
//!
//! **Innermost class.** At capacity κ a request joins class 1 while fewer than κ·δ_1 are in it; that is the
//! token bucket (σ, ρ) = (κ·δ_1, κ). The smallest κ whose bucket admits the fraction f_1 is searched for; a
//! larger one never admits fewer. It is tried besides with the κ that covers all that is wanted, and with the
//! middle of the two: where bursts are short, graduating them does not pay. **Outer classes.** For rates from ρ of the class inside it upward, the
//! smallest σ that admits the fraction; of these pairs, the one that needs the least capacity by lemma 1.
//! **At last** the whole cascade is counted: a bucket further out may refuse what an inner one would have
//! admitted. Where a fraction falls short, the σ outside it grow until it does not.
//!
//! **Of the three** the classes that need the least by lemma 1 are chosen. The trace is read some 20 times for
//! each class, by a thread of its own. Memory: the buckets, and what lies between the two threads.
//!
//! **Costs.** A request takes what its [`Source`] says that it costs; fractions are of requests. No σ is below the
//! largest cost, which a store would refuse. Where costs differ, a larger bucket may admit one large request
//! instead of two small ones, so the κ and σ that are found cover what is wanted, but need not be the least.

use std::sync::mpsc;
use std::thread;

use evenkeel_core::admission::{nested_capacity_of_costs, required_capacity};
use evenkeel_core::{Cascade, Cost, Envelope, Rate, Span, Time};

use crate::bank::Bank;
use crate::error::PlanError;
use crate::source::Source;
use crate::target::{Fraction, Target};

/// Candidates of a pass.
const CANDIDATES: u64 = 24;
/// Requests that go from the thread that reads a trace to the one that counts, at a time.
const CHUNK: usize = 8192;
/// Chunks that may wait between the two.
const CHUNKS_AHEAD: usize = 4;
/// Below so many requests a second thread does not pay.
const ALONE_BELOW: u64 = 100_000;
/// Points of the curve.
const CURVE_POINTS: u64 = 48;
/// ρ of an outer class in per cent of that of the class inside it.
const RATES_PERCENT: [u64; 7] = [100, 112, 125, 150, 200, 300, 400];
/// Candidates for σ beside each of those.
const BURSTS: u64 = 6;

/// A promise fitted to a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Requests in the trace.
    pub requests: u64,
    /// From its first to its last request.
    pub duration: Span,
    /// What its largest request costs.
    pub largest: Cost,
    /// The classes, the innermost first.
    pub classes: Vec<Envelope>,
    /// How many requests each class covers, those of inner classes included.
    pub covered: Vec<u64>,
    /// The capacity that the classes need, by lemma 1.
    pub capacity: Rate,
    /// One triple that covers as many within the innermost latency.
    pub single: Envelope,
    /// The capacity that it needs.
    pub single_capacity: Rate,
    /// What fraction fits the innermost latency at which capacity, by increasing capacity.
    pub curve: Vec<CurvePoint>,
    /// The index of the curve's knee: from there on, capacity buys ever less.
    pub knee: usize,
}

/// A point of the capacity-versus-fraction curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurvePoint {
    /// κ.
    pub capacity: Rate,
    /// Requests that are done within δ_1 at that capacity, if the others are put off.
    pub within: u64,
}

/// Fits classes to the trace in `source`. `on_pass` is called after each pass, with their number so far.
///
/// # Errors
/// If the trace is empty, unsorted or cannot be read, or a parameter would exceed what can be promised.
///
/// # Panics
/// If `targets` is empty; [`crate::parse_targets`] gives at least one.
pub fn fit(source: &dyn Source, targets: &[Target], on_pass: &mut dyn FnMut(u32)) -> Result<Fit, PlanError> {
    let (Some(innermost), Some(outermost)) = (targets.first(), targets.last()) else {
        panic!("there is no target to fit to");
    };
    let mut passes = Passes { source, count: 0, requests: 0, largest: Cost::ONE, on_pass };
    let (requests, duration) = passes.size()?;
    let least = passes.least_rate(innermost, requests)?;
    let single_target = Target { fraction: outermost.fraction, latency: innermost.latency };
    let single = if targets.len() == 1 { least } else { passes.least_rate(&single_target, requests)? };
    let (classes, covered) =
        passes.cheapest(&inner_options(least, single, passes.largest), targets, requests)?;
    let all = Target { fraction: Fraction::ALL, latency: innermost.latency };
    let most =
        if outermost.fraction == Fraction::ALL { single } else { passes.least_rate(&all, requests)? };
    let curve = passes.curve(innermost.latency, most.rate())?;
    Ok(Fit {
        requests,
        duration,
        capacity: nested_capacity_of_costs(&[(&classes, passes.largest)]).capacity,
        largest: passes.largest,
        classes,
        covered,
        single,
        single_capacity: required_capacity(&[single]).capacity,
        knee: knee(&curve),
        curve,
    })
}

/// ⟨κ·δ, κ, δ⟩, with σ rounded up to 1/1000 request and at least the largest one.
fn decomposed(rate: Rate, latency: Span, largest: Cost) -> Option<Envelope> {
    let burst = u128::from(rate.as_millis()) * u128::from(latency.as_nanos());
    let burst = u64::try_from(burst.div_ceil(1_000_000_000)).ok()?;
    Envelope::new(Cost::from_millis(burst).max(largest), rate, latency).ok()
}

/// `classes` with the bursts from class `from` on larger by `steps` 32nds, at least by that many requests;
/// `None` if that is too large.
fn with_larger_bursts(classes: &[Envelope], from: usize, steps: u64) -> Option<Vec<Envelope>> {
    let grow = |(index, class): (usize, &Envelope)| {
        if index < from {
            return Some(*class);
        }
        let burst = class.burst().as_millis();
        let more = (burst / 32).max(1_000).checked_mul(steps)?;
        Envelope::new(Cost::from_millis(burst.checked_add(more)?), class.rate(), class.latency()).ok()
    };
    classes.iter().enumerate().map(grow).collect()
}

/// What the innermost class may be: the least that covers its fraction, what covers everything, and the middle.
/// A larger inner class leaves less to the outer ones, which pays where bursts are short.
fn inner_options(least: Envelope, single: Envelope, largest: Cost) -> Vec<Envelope> {
    let middle = least.rate().as_millis().midpoint(single.rate().as_millis());
    let middle = decomposed(Rate::from_millis(middle), least.latency(), largest);
    let mut options: Vec<Envelope> = [Some(least), middle, Some(single)].into_iter().flatten().collect();
    options.dedup();
    options
}

struct Passes<'s> {
    source: &'s dyn Source,
    count: u32,
    /// Requests in the trace; 0 until they have been counted.
    requests: u64,
    /// The largest cost of one of them.
    largest: Cost,
    on_pass: &'s mut dyn FnMut(u32),
}

impl Passes<'_> {
    fn each(&mut self, mut visit: impl FnMut(Time, Cost)) -> Result<(), PlanError> {
        if self.requests < ALONE_BELOW && self.count > 0 {
            read(self.source, &mut |at, cost| {
                visit(at, cost);
                true
            })?;
        } else {
            read_ahead(self.source, &mut visit)?;
        }
        self.count += 1;
        (self.on_pass)(self.count);
        Ok(())
    }

    fn size(&mut self) -> Result<(u64, Span), PlanError> {
        let (mut requests, mut first, mut last, mut largest) = (0, None, Time::ZERO, Cost::ONE);
        self.each(|at, cost| {
            requests += 1;
            largest = largest.max(cost);
            first.get_or_insert(at);
            last = at;
        })?;
        let first = first.ok_or_else(|| PlanError::Empty { trace: self.source.name() })?;
        (self.requests, self.largest) = (requests, largest);
        Ok((requests, last.since(first)))
    }

    /// How many requests a bucket of each envelope admits.
    fn admitted(&mut self, envelopes: &[Envelope]) -> Result<Vec<u64>, PlanError> {
        let mut bank = Bank::new(envelopes.iter().map(|it| (it.burst(), it.rate())));
        self.each(|at, cost| bank.take(at, cost))?;
        Ok(bank.admitted())
    }

    /// The smallest κ that covers the target.
    fn least_rate(&mut self, target: &Target, requests: u64) -> Result<Envelope, PlanError> {
        let wanted = target.fraction.of(requests);
        let out_of_range = |source: &dyn Source| PlanError::OutOfRange {
            trace: source.name(),
            limit: "a billion IOPS and a burst of a billion",
            wanted: target.fraction.to_string(),
        };
        // κ in 1/1000 IOPS: `low` covers too little, `high` enough.
        let (mut low, mut high) = (0, None);
        while high.is_none_or(|high| high - low > 1) {
            let grid: Vec<u64> = match high {
                None => (0..CANDIDATES).map(|power| (low.max(500) * 2) << power).collect(),
                Some(high) => inner_grid(low, high, CANDIDATES),
            };
            let grid: Vec<(u64, Envelope)> = grid
                .into_iter()
                .map_while(|rate| {
                    Some((rate, decomposed(Rate::from_millis(rate), target.latency, self.largest)?))
                })
                .collect();
            if grid.is_empty() {
                return Err(out_of_range(self.source));
            }
            let envelopes: Vec<Envelope> = grid.iter().map(|(_, envelope)| *envelope).collect();
            let admitted = self.admitted(&envelopes)?;
            for ((rate, _), admitted) in grid.iter().zip(admitted) {
                if admitted >= wanted {
                    high = Some(*rate);
                    break;
                }
                low = *rate;
            }
        }
        high.and_then(|rate| decomposed(Rate::from_millis(rate), target.latency, self.largest))
            .ok_or_else(|| out_of_range(self.source))
    }

    /// Of the classes around each of `options`, those that need the least capacity; and what they cover.
    fn cheapest(
        &mut self,
        options: &[Envelope],
        targets: &[Target],
        requests: u64,
    ) -> Result<(Vec<Envelope>, Vec<u64>), PlanError> {
        let mut found: Vec<(Vec<Envelope>, Vec<u64>)> = Vec::new();
        for option in options {
            let mut classes = vec![*option];
            for target in &targets[1..] {
                let class = self.outer_class(&classes, target, requests)?;
                classes.push(class);
            }
            let covered = self.settle(&mut classes, targets, requests)?;
            found.push((classes, covered));
        }
        let largest = self.largest;
        let capacity = |(classes, _): &(Vec<Envelope>, Vec<u64>)| {
            nested_capacity_of_costs(&[(classes, largest)]).capacity
        };
        let cheapest = found.into_iter().min_by_key(capacity);
        Ok(cheapest.unwrap_or_default())
    }

    /// The cheapest class around `inner` that covers the target by itself.
    fn outer_class(
        &mut self,
        inner: &[Envelope],
        target: &Target,
        requests: u64,
    ) -> Result<Envelope, PlanError> {
        let wanted = target.fraction.of(requests);
        let inside = inner[inner.len() - 1];
        let everything = requests.saturating_mul(self.largest.as_millis().div_ceil(1_000));
        let least = inside.burst().as_millis().div_ceil(1_000);
        // For each rate the σ that is too little (or none is) and the one that is enough, in requests.
        let mut searches: Vec<(Rate, u64, Option<u64>)> = RATES_PERCENT
            .iter()
            .map(|percent| {
                (inside.rate().as_millis().saturating_mul(*percent).div_ceil(100), least - 1, None)
            })
            .map(|(rate, low, high)| (Rate::from_millis(rate).min(Envelope::RATE_MAX), low, high))
            .collect();
        let open = |(_, low, high): &(Rate, u64, Option<u64>)| high.is_none_or(|high| high - low > 1);
        while searches.iter().any(open) {
            let mut grid: Vec<(usize, u64, Envelope)> = Vec::new();
            for (index, (rate, low, high)) in searches.iter().enumerate().filter(|(_, search)| open(search)) {
                let bursts: Vec<u64> = match high {
                    None => (0..BURSTS).map(|power| (low + 1) << power).collect(),
                    Some(high) => inner_grid(*low, *high, BURSTS),
                };
                // A burst of all requests admits all of them, so nothing larger is ever asked for.
                for burst in bursts.into_iter().map(|burst| burst.min(everything.max(least))) {
                    let envelope = Envelope::new(Cost::requests(burst), *rate, target.latency);
                    let envelope = envelope.map_err(|_| PlanError::OutOfRange {
                        trace: self.source.name(),
                        limit: "a burst of a billion",
                        wanted: target.fraction.to_string(),
                    })?;
                    grid.push((index, burst, envelope));
                }
            }
            let envelopes: Vec<Envelope> = grid.iter().map(|(.., envelope)| *envelope).collect();
            let admitted = self.admitted(&envelopes)?;
            for ((index, burst, _), admitted) in grid.iter().zip(admitted) {
                let (_, low, high) = &mut searches[*index];
                if admitted >= wanted {
                    *high = Some(high.map_or(*burst, |high| high.min(*burst)));
                } else {
                    *low = (*low).max(*burst);
                }
            }
        }
        let cost = |(rate, _, burst): &(Rate, u64, Option<u64>)| {
            let class = Envelope::new(Cost::requests((*burst)?), *rate, target.latency).ok()?;
            let classes: Vec<Envelope> = inner.iter().copied().chain([class]).collect();
            Some((nested_capacity_of_costs(&[(&classes, self.largest)]).capacity, *rate, class))
        };
        let cheapest = searches.iter().filter_map(cost).min_by_key(|(capacity, rate, _)| (*capacity, *rate));
        cheapest.map(|(.., class)| class).ok_or_else(|| PlanError::OutOfRange {
            trace: self.source.name(),
            limit: "a burst of a billion",
            wanted: target.fraction.to_string(),
        })
    }

    /// Lets outer bursts grow until the cascade covers every target; what each class then covers.
    fn settle(
        &mut self,
        classes: &mut Vec<Envelope>,
        targets: &[Target],
        requests: u64,
    ) -> Result<Vec<u64>, PlanError> {
        let wanted: Vec<u64> = targets.iter().map(|target| target.fraction.of(requests)).collect();
        let mut covered = self.covered(std::slice::from_ref(classes))?.swap_remove(0);
        while let Some(short) = (0..wanted.len()).find(|class| covered[*class] < wanted[*class]) {
            let grown: Option<Vec<Vec<Envelope>>> =
                (1..=CANDIDATES).map(|step| with_larger_bursts(classes, short + 1, step)).collect();
            let mut grown = grown.ok_or_else(|| PlanError::OutOfRange {
                trace: self.source.name(),
                limit: "a burst of a billion",
                wanted: targets[short].fraction.to_string(),
            })?;
            let mut counts = self.covered(&grown)?;
            // The first that does, or the largest to go on from.
            let enough = counts.iter().position(|it| it[short] >= wanted[short]);
            let chosen = enough.unwrap_or(counts.len() - 1);
            (*classes, covered) = (grown.swap_remove(chosen), counts.swap_remove(chosen));
        }
        Ok(covered)
    }

    /// How many requests each class of each cascade covers, those of inner classes included.
    fn covered(&mut self, cascades: &[Vec<Envelope>]) -> Result<Vec<Vec<u64>>, PlanError> {
        let counter = |classes: &Vec<Envelope>| (Cascade::new(Time::ZERO, classes), vec![0; classes.len()]);
        let mut counters: Vec<(Cascade, Vec<u64>)> = cascades.iter().map(counter).collect();
        self.each(|at, cost| {
            for (cascade, counts) in &mut counters {
                if let Some(class) = cascade.classify(at, cost) {
                    counts[usize::from(class)] += 1;
                }
            }
        })?;
        let sums = |(_, counts): (Cascade, Vec<u64>)| {
            let mut sum = 0;
            let add = |count: u64| {
                sum += count;
                sum
            };
            counts.into_iter().map(add).collect()
        };
        Ok(counters.into_iter().map(sums).collect())
    }

    /// The curve up to the capacity at which everything fits.
    fn curve(&mut self, latency: Span, most: Rate) -> Result<Vec<CurvePoint>, PlanError> {
        let most = most.as_millis();
        let mut rates: Vec<u64> =
            (1..=CURVE_POINTS).map(|point| (most / CURVE_POINTS * point).max(1)).collect();
        rates.push(most);
        rates.dedup();
        let rates: Vec<Rate> = rates.into_iter().map(Rate::from_millis).collect();
        // Without the rounding up to one request: below that, nothing is ever in time.
        let mut buckets: Vec<(Cost, Rate)> = Vec::new();
        for rate in &rates {
            let burst = u128::from(rate.as_millis()) * u128::from(latency.as_nanos());
            let burst = burst.div_ceil(1_000_000_000);
            let burst = Cost::from_millis(u64::try_from(burst).unwrap_or(u64::MAX));
            let burst = if *rate == Rate::from_millis(most) { burst.max(self.largest) } else { burst };
            buckets.push((burst, *rate));
        }
        let mut bank = Bank::new(buckets.into_iter());
        self.each(|at, cost| bank.take(at, cost))?;
        let points = rates.into_iter().zip(bank.admitted());
        Ok(points.map(|(capacity, within)| CurvePoint { capacity, within }).collect())
    }
}

/// Reads a trace to its end, or until `visit` wants no more.
fn read(source: &dyn Source, visit: &mut dyn FnMut(Time, Cost) -> bool) -> Result<(), PlanError> {
    for request in source.sorted()? {
        let request = request?;
        if !visit(request.at, source.cost(&request)) {
            break;
        }
    }
    Ok(())
}

/// [`read`] by another thread, a few chunks ahead.
fn read_ahead(source: &dyn Source, visit: &mut dyn FnMut(Time, Cost)) -> Result<(), PlanError> {
    let (sender, receiver) = mpsc::sync_channel::<Vec<(Time, Cost)>>(CHUNKS_AHEAD);
    thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut chunk = Vec::with_capacity(CHUNK);
            let ended = read(source, &mut |at, cost| {
                chunk.push((at, cost));
                chunk.len() < CHUNK
                    || sender.send(std::mem::replace(&mut chunk, Vec::with_capacity(CHUNK))).is_ok()
            });
            // If nobody listens any more, nobody misses it.
            let _ = sender.send(chunk);
            ended
        });
        for chunk in receiver {
            chunk.into_iter().for_each(|(at, cost)| visit(at, cost));
        }
        reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Up to `count` values strictly between `low` and `high`, evenly apart.
fn inner_grid(low: u64, high: u64, count: u64) -> Vec<u64> {
    let apart = u128::from(high - low);
    let mut grid: Vec<u64> = (1..=count)
        .map(|step| low + (apart * u128::from(step) / u128::from(count + 1)) as u64)
        .filter(|value| *value > low && *value < high)
        .collect();
    grid.dedup();
    grid
}

/// The point that is farthest above the line from the first to the last one.
fn knee(curve: &[CurvePoint]) -> usize {
    let (Some(first), Some(last)) = (curve.first(), curve.last()) else { return 0 };
    let wide = i128::from(last.capacity.as_millis()) - i128::from(first.capacity.as_millis());
    let high = i128::from(last.within) - i128::from(first.within);
    let above = |point: &CurvePoint| {
        let right = i128::from(point.capacity.as_millis()) - i128::from(first.capacity.as_millis());
        (i128::from(point.within) - i128::from(first.within)) * wide - right * high
    };
    // The first of equal ones.
    (0..curve.len()).max_by_key(|index| (above(&curve[*index]), std::cmp::Reverse(*index))).unwrap_or(0)
}
