//! Online parameters: the promise (σ, ρ) of one flow, fitted to what it has sent lately, within limits.
//!
//! ```text
//!  arrivals ──> a level for each of 17 rates ρ between the limits     level ← max(0, level − ρ·Δt) + cost
//!                   │ its peak is the smallest σ that would have held everything
//!                   v
//!  peaks: [ window ] [ window ] … 8 of them, the oldest is forgotten
//!                   │
//!  judge, once per window: σ(ρ) for each ρ ──> the pair that needs the least capacity, max(ρ, σ/δ)
//!         │
//!         ├─ the present promise did not hold the last window  ──> up at once
//!         └─ it held all eight, and a fifth less would do      ──> down, then eight windows of rest
//! ```
//!
//! Source: the question is future work in Wang, "Nested QoS" (MS thesis, Rice 2012), chapter 6; the smallest
//! σ for a ρ is the peak of a queue served at ρ (Cruz, "A calculus for network delay", part I, 1991). Levels
//! are exact (10⁻¹² request) and cut off just above the largest burst, beyond which a rate does not do: so
//! a load that has ended is forgotten within the time that a burst takes at that rate, plus eight windows.
//! Nothing allocates; an arrival costs 18 steps.

use core::fmt;

use crate::envelope::grains_of;
use crate::slo::Envelope;
use crate::units::{Cost, NANOS_PER_SECOND, Rate, Span, Time};

/// Rates between the limits that are tried, both ends among them, each the same factor above the last.
const RATES: usize = 17;
/// Windows that are looked back on.
const WINDOWS: usize = 8;

/// What the operator lets a promise become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptLimits {
    rate: (Rate, Rate),
    burst: (Cost, Cost),
}

/// Why limits cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdaptError {
    /// The smallest rate is zero, above the largest, or that is above [`Envelope::RATE_MAX`].
    Rates,
    /// The smallest burst is below one request, above the largest, or that is above [`Envelope::BURST_MAX`].
    Bursts,
    /// The window has no length.
    ZeroWindow,
}

/// Watches the arrivals of one flow.
#[derive(Clone, Debug)]
pub struct ParameterControl {
    limits: AdaptLimits,
    window: Span,
    rates: [Rate; RATES],
    /// One for each rate; the last one is for the rate of the present promise.
    levels: [i128; RATES + 1],
    peaks: [[i128; RATES + 1]; WINDOWS],
    present: Envelope,
    /// The window that is being filled, and how many are over since the last change.
    index: usize,
    over: usize,
    opened: Time,
    /// What has arrived in it, in 10⁻¹² request.
    sent: i128,
    now: Time,
}

impl AdaptLimits {
    /// Limits of the rate and of the burst, each from the smallest to the largest.
    ///
    /// # Errors
    /// If one of them is empty or beyond what an [`Envelope`] can have.
    pub fn new(rate: (Rate, Rate), burst: (Cost, Cost)) -> Result<Self, AdaptError> {
        if rate.0.as_millis() == 0 || rate.0 > rate.1 || rate.1 > Envelope::RATE_MAX {
            return Err(AdaptError::Rates);
        }
        if burst.0 < Cost::ONE || burst.0 > burst.1 || burst.1 > Envelope::BURST_MAX {
            return Err(AdaptError::Bursts);
        }
        Ok(Self { rate, burst })
    }

    /// Whether a promise is within them.
    #[must_use]
    pub fn hold(&self, promise: &Envelope) -> bool {
        (self.rate.0..=self.rate.1).contains(&promise.rate())
            && (self.burst.0..=self.burst.1).contains(&promise.burst())
    }
}

impl ParameterControl {
    /// Watches a flow that is promised `present`, judging once per `window`.
    ///
    /// # Errors
    /// If the window has no length.
    pub fn new(now: Time, limits: AdaptLimits, present: Envelope, window: Span) -> Result<Self, AdaptError> {
        if window.as_nanos() == 0 {
            return Err(AdaptError::ZeroWindow);
        }
        Ok(Self {
            limits,
            window,
            rates: spread(limits.rate),
            levels: [0; RATES + 1],
            peaks: [[0; RATES + 1]; WINDOWS],
            present,
            index: 0,
            over: 0,
            opened: now,
            sent: 0,
            now,
        })
    }

    /// The promise that it holds to be in force.
    #[must_use]
    pub const fn present(&self) -> &Envelope {
        &self.present
    }

    /// When [`ParameterControl::judge`] has something to say.
    #[must_use]
    pub fn next_judgement(&self) -> Time {
        self.opened + self.window
    }

    /// A request of this cost has arrived. A time before an earlier one counts as that.
    pub fn on_arrival(&mut self, now: Time, cost: Cost) {
        let passed = i128::from(now.since(self.now).as_nanos());
        self.now = self.now.max(now);
        let cost = grains_of(cost);
        self.sent = self.sent.saturating_add(cost);
        let top = grains_of(self.limits.burst.1).max(grains_of(self.present.burst())) + 1;
        let peaks = &mut self.peaks[self.index];
        let rates = self.rates.iter().copied().chain([self.present.rate()]);
        for ((level, peak), rate) in self.levels.iter_mut().zip(peaks).zip(rates) {
            let served = i128::from(rate.as_millis()).saturating_mul(passed);
            *level = (level.saturating_sub(served).max(0) + cost).min(top);
            *peak = (*peak).max(*level);
        }
    }

    /// Judges if a window is over at `now`: the promise that should be in force, if that is another one. It
    /// counts as in force only after [`ParameterControl::applied`].
    pub fn judge(&mut self, now: Time) -> Option<Envelope> {
        if now < self.next_judgement() {
            return None;
        }
        let length = i128::from(now.since(self.opened).as_nanos());
        let last = self.index;
        // A rate below what came in the last window would only need a new judgement soon.
        let least = u64::try_from(self.sent / length.max(1)).unwrap_or(u64::MAX);
        let proposal = self.proposal(Rate::from_millis(least));
        (self.opened, self.sent) = (now, 0);
        self.over += 1;
        let need = |promise: &Envelope| need(promise.burst(), promise.rate(), promise.latency());
        let holds = |window: &[i128; RATES + 1]| window[RATES] <= grains_of(self.present.burst());
        let is_outgrown = !holds(&self.peaks[last]);
        let is_too_large = self.over >= WINDOWS
            && self.peaks.iter().all(holds)
            && need(&proposal).saturating_mul(5) <= need(&self.present).saturating_mul(4);
        self.index = (self.index + 1) % WINDOWS;
        self.peaks[self.index] = [0; RATES + 1];
        (proposal != self.present && (is_outgrown || is_too_large)).then_some(proposal)
    }

    /// The operator, or the driver on a judgement, has made `promise` the one in force.
    pub fn applied(&mut self, promise: Envelope) {
        self.present = promise;
        self.over = 0;
        self.levels[RATES] = 0;
        for window in &mut self.peaks {
            window[RATES] = 0;
        }
    }

    /// The cheapest promise of at least this rate that would have held everything of all windows; the limits'
    /// largest if none does.
    fn proposal(&self, least: Rate) -> Envelope {
        let latency = self.present.latency();
        let mut best: Option<(u128, Cost, Rate)> = None;
        for (index, rate) in self.rates.iter().enumerate() {
            let peak = self.peaks.iter().map(|window| window[index]).max().unwrap_or(0);
            let burst = cost_of(peak).max(self.limits.burst.0);
            if burst > self.limits.burst.1 || *rate < least {
                continue;
            }
            let need = need(burst, *rate, latency);
            if best.is_none_or(|(least, ..)| need < least) {
                best = Some((need, burst, *rate));
            }
        }
        let (burst, rate) =
            best.map_or((self.limits.burst.1, self.limits.rate.1), |(_, burst, rate)| (burst, rate));
        // Limits were checked against what an envelope can have, and the latency is one's already.
        Envelope::new(burst, rate, latency).unwrap_or(self.present)
    }
}

/// The capacity that one flow needs alone, max(ρ, σ/δ), in 10⁻⁶ IOPS, rounded up.
fn need(burst: Cost, rate: Rate, latency: Span) -> u128 {
    let at_deadline = u128::from(burst.as_millis()) * u128::from(NANOS_PER_SECOND) * 1_000;
    let at_deadline = at_deadline.div_ceil(u128::from(latency.as_nanos().max(1)));
    at_deadline.max(u128::from(rate.as_millis()) * 1_000)
}

/// Grains as a cost, rounded up.
fn cost_of(grains: i128) -> Cost {
    let millis = grains.unsigned_abs().div_ceil(u128::from(NANOS_PER_SECOND));
    Cost::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}

/// Rates from the first to the last: between two that are there, their geometric mean, four times over.
fn spread((first, last): (Rate, Rate)) -> [Rate; RATES] {
    let mut rates = [first; RATES];
    rates[RATES - 1] = last;
    let mut step = RATES - 1;
    while step > 1 {
        for start in (0..RATES - 1).step_by(step) {
            let (low, high) = (rates[start].as_millis(), rates[start + step].as_millis());
            let middle = (u128::from(low) * u128::from(high)).isqrt();
            rates[start + step / 2] = Rate::from_millis(u64::try_from(middle).unwrap_or(high));
        }
        step /= 2;
    }
    rates
}

impl fmt::Display for AdaptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rates => "the smallest rate is zero or above the largest one, or that is too large",
            Self::Bursts => "the smallest burst is below 1 or above the largest one, or that is too large",
            Self::ZeroWindow => "the window has no length",
        })
    }
}

impl core::error::Error for AdaptError {}
