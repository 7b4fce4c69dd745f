//! When requests arrive.

use super::Random;

/// The longest that a gap may be, in nanoseconds: time saturates, it never wraps.
const GAP_MAX: f64 = 9e18;
const SECOND: f64 = 1e9;

/// A process of arrivals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// One every `1/iops` seconds.
    Paced {
        /// Requests per second.
        iops: f64,
    },
    /// Gaps are exponentially distributed.
    Poisson {
        /// Requests per second.
        iops: f64,
    },
    /// Independent sources, each Poisson while it is on; times on and off are Pareto distributed.
    /// Together they are self-similar with Hurst parameter `(3 - shape) / 2` (Willinger et al.,
    /// "Self-similarity through high-variability", SIGCOMM 1995).
    OnOff {
        /// Requests per second of all sources together, times off counted.
        iops: f64,
        /// How many sources.
        sources: u32,
        /// Mean time on, in seconds.
        on: f64,
        /// Mean time off, in seconds.
        off: f64,
        /// The Pareto shape, above 1 and at most 2 for self-similarity.
        shape: f64,
    },
    /// The b-model: each interval gives `bias` of its requests to one half and the rest to the other,
    /// down to slots of a millisecond (Wang et al., "Data mining meets performance evaluation: fast
    /// algorithms for modeling bursty traffic", ICDE 2002).
    BModel {
        /// Requests per second.
        iops: f64,
        /// The share of the fuller half, from 0.5, smooth, to below 1.
        bias: f64,
        /// An interval has 2^levels slots; at most 30.
        levels: u32,
    },
}

impl Arrivals {
    /// The mean rate in requests per second.
    #[must_use]
    pub fn iops(&self) -> f64 {
        match self {
            Self::Paced { iops }
            | Self::Poisson { iops }
            | Self::OnOff { iops, .. }
            | Self::BModel { iops, .. } => *iops,
        }
    }

    pub(super) fn with_iops(mut self, rate: f64) -> Self {
        match &mut self {
            Self::Paced { iops }
            | Self::Poisson { iops }
            | Self::OnOff { iops, .. }
            | Self::BModel { iops, .. } => *iops = rate,
        }
        self
    }

    pub(super) fn check(&self) -> Result<(), &'static str> {
        if !(1e-6..=1e9).contains(&self.iops()) {
            return Err("the rate must be from 0.000001 to 1 000 000 000 requests per second");
        }
        let time = 1e-6..=1e9;
        match self {
            Self::OnOff { sources, .. } if !(1..=1024).contains(sources) => {
                Err("there must be 1 to 1024 sources")
            }
            Self::OnOff { on, off, .. } if !time.contains(on) || !time.contains(off) => {
                Err("times on and off must be from a microsecond to 1 000 000 000 seconds")
            }
            Self::OnOff { shape, .. } if !(1.01..=10.0).contains(shape) => {
                Err("the shape must be from 1.01 to 10")
            }
            Self::BModel { bias, .. } if !(0.5..=0.99).contains(bias) => {
                Err("the bias must be from 0.5 to 0.99")
            }
            Self::BModel { levels, .. } if !(1..=30).contains(levels) => Err("there must be 1 to 30 levels"),
            _ => Ok(()),
        }
    }

    /// The sources that together make these arrivals.
    pub(super) fn clockworks(&self, random: &mut Random) -> Vec<Clockwork> {
        match *self {
            Self::Paced { iops } => vec![Clockwork::Paced { gap: SECOND / iops, part: 0.0 }],
            Self::Poisson { iops } => vec![Clockwork::Poisson { gap: SECOND / iops }],
            Self::OnOff { iops, sources, on, off, shape } => {
                let gap = SECOND * f64::from(sources) * on / (on + off) / iops;
                let (on, off) = (on * SECOND, off * SECOND);
                let mut source = |_| {
                    // Start somewhere within a cycle, on or off as often as later.
                    let is_on = random.unit() < on / (on + off);
                    let left = random.unit() * random.pareto(if is_on { on } else { off }, shape);
                    Clockwork::OnOff { gap, on, off, shape, is_on, left }
                };
                (0..sources).map(&mut source).collect()
            }
            Self::BModel { iops, bias, levels } => {
                let slots = (1_u64 << levels) as f64;
                let total = (iops * slots * SLOT / SECOND).round().max(1.0) as u64;
                vec![Clockwork::BModel(Cascade {
                    total,
                    bias,
                    levels,
                    stack: Vec::new(),
                    slot: None,
                    start: 0,
                })]
            }
        }
    }
}

/// Nanoseconds of a slot of the b-model.
const SLOT: f64 = 1e6;

/// One source of arrivals.
#[derive(Clone, Debug)]
pub(super) enum Clockwork {
    Paced { gap: f64, part: f64 },
    Poisson { gap: f64 },
    OnOff { gap: f64, on: f64, off: f64, shape: f64, is_on: bool, left: f64 },
    BModel(Cascade),
}

impl Clockwork {
    /// The next arrival after `now`, in nanoseconds.
    pub(super) fn next(&mut self, now: u64, random: &mut Random) -> u64 {
        let gap = match self {
            Self::Paced { gap, part } => {
                // What a nanosecond cannot say is carried on.
                let exact = *gap + *part;
                let whole = exact as u64;
                *part = exact - whole as f64;
                return now.saturating_add(whole);
            }
            Self::Poisson { gap } => random.exponential(*gap),
            Self::OnOff { gap, on, off, shape, is_on, left } => {
                let mut passed = 0.0;
                loop {
                    if *is_on {
                        let next = random.exponential(*gap);
                        if next <= *left {
                            *left -= next;
                            break passed + next;
                        }
                    }
                    passed += *left;
                    *is_on = !*is_on;
                    *left = random.pareto(if *is_on { *on } else { *off }, *shape);
                    if passed > GAP_MAX {
                        break passed;
                    }
                }
            }
            Self::BModel(cascade) => return cascade.next(random).max(now),
        };
        now.saturating_add(gap.min(GAP_MAX) as u64)
    }
}

/// The b-model without the whole interval in memory: halves that wait are on a stack.
///
/// ```text
///  total ─┬─ bias ──┬─ …          stack: (requests, level), leftmost on top
///         └─ rest ──┴─ …  slots of a millisecond, evenly filled
/// ```
#[derive(Clone, Debug)]
pub(super) struct Cascade {
    total: u64,
    bias: f64,
    levels: u32,
    stack: Vec<(u64, u32)>,
    /// Requests of the current slot, and how many of them were made.
    slot: Option<(u64, u64)>,
    /// Number of the first slot that has not begun.
    start: u64,
}

impl Cascade {
    fn next(&mut self, random: &mut Random) -> u64 {
        loop {
            if let Some((count, made)) = &mut self.slot
                && made < count
            {
                let within = (*made as f64 + random.unit()) / *count as f64;
                *made += 1;
                return ((self.start - 1) as f64).mul_add(SLOT, within * SLOT) as u64;
            }
            let Some((count, level)) = self.stack.pop() else {
                if self.start > u64::MAX / 4_000_000 {
                    return u64::MAX;
                }
                self.stack.push((self.total, self.levels));
                continue;
            };
            if count == 0 {
                self.start += 1 << level;
            } else if level == 0 {
                self.start += 1;
                self.slot = Some((count, 0));
            } else {
                let exact = count as f64 * self.bias;
                // Rounded at random, so that small counts keep the bias on average.
                let fuller = (exact as u64 + u64::from(random.unit() < exact.fract())).min(count);
                let (left, right) =
                    if random.below(2) == 0 { (fuller, count - fuller) } else { (count - fuller, fuller) };
                self.stack.push((right, level - 1));
                self.stack.push((left, level - 1));
            }
        }
    }
}
