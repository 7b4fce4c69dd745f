//! Promises ⟨σ, ρ, δ⟩ for the naive references, and the arrival curve by which pClock and SCED give tags.

use evenkeel_core::*;
use proptest::prelude::*;

/// σ in 1/1000 request, ρ in 1/1000 per second, δ in ns.
#[derive(Clone, Copy, Debug)]
pub enum Promise {
    Guaranteed { burst: i128, rate: i128, latency: i128, weight: u32 },
    Background { weight: u32 },
}

impl Promise {
    /// ⟨σ, ρ, δ⟩.
    pub fn guaranteed(&self) -> Option<(i128, i128, i128)> {
        match *self {
            Self::Guaranteed { burst, rate, latency, .. } => Some((burst, rate, latency)),
            Self::Background { .. } => None,
        }
    }
}

pub fn promises() -> impl Strategy<Value = Promise> {
    let burst = prop_oneof![3 => (0_i128..6).prop_map(|n| n * 1_000), 1 => 0_i128..6_000];
    let rate = prop_oneof![(1_i128..20).prop_map(|n| n * 50_000), 1_i128..2_000_000];
    let latency = prop_oneof![(1_i128..20).prop_map(|n| n * 10_000_000), 1_i128..200_000_000];
    prop_oneof![
        3 => (burst, rate, latency, 1_u32..6).prop_map(|(burst, rate, latency, weight)| {
            Promise::Guaranteed { burst, rate, latency, weight }
        }),
        1 => (1_u32..8).prop_map(|weight| Promise::Background { weight }),
    ]
}

pub fn slo_of(promise: &Promise) -> Slo {
    let weigh = |slo: Slo, weight| slo.with_weight(Weight::new(weight).unwrap());
    match *promise {
        Promise::Background { weight } => weigh(Slo::background(), weight),
        Promise::Guaranteed { burst, rate, latency, weight } => {
            let (rate, latency) = (Rate::from_millis(rate as u64), Span::from_nanos(latency as u64));
            let envelope = Envelope::new(Cost::from_millis(burst as u64), rate, latency).unwrap();
            weigh(Slo::guaranteed(envelope), weight)
        }
    }
}

/// Before every tag.
pub const LONG_AGO: i128 = -(1 << 67);

/// Where a flow stands beside its arrival curve (ComputeTags of pClock).
#[derive(Clone, Copy, Debug)]
pub struct Curve {
    /// In 1e-12 request.
    tokens: i128,
    refilled: i128,
    /// The frontier times the rate: exact without remainders.
    frontier: i128,
    overrun: bool,
}

impl Curve {
    pub fn new(now: i128, promise: &Promise) -> Self {
        let burst = promise.guaranteed().map_or(0, |(burst, ..)| burst);
        Self { tokens: burst * 1_000_000_000, refilled: now, frontier: -(1 << 110), overrun: false }
    }

    fn refill(&mut self, now: i128, burst: i128, rate: i128) {
        self.tokens = (self.tokens + (now - self.refilled) * rate).min(burst * 1_000_000_000);
        self.refilled = now;
    }

    /// The start tag of a request of `cost` that arrives behind one with the tag `behind`.
    pub fn stamp(&mut self, now: i128, promise: &Promise, cost: i128, behind: i128) -> i128 {
        let (burst, rate, _) = promise.guaranteed().unwrap();
        self.refill(now, burst, rate);
        let (tokens, needed) = (self.tokens, cost * 1_000_000_000);
        self.tokens -= needed;
        if tokens >= needed {
            self.overrun = false;
            return now.max(behind);
        }
        if !self.overrun {
            let lacking = (needed - burst * 1_000_000_000).max(0);
            self.frontier = self.frontier.max(now * rate - tokens - lacking);
            self.overrun = true;
        }
        self.frontier = (self.frontier + needed).max(now * rate).max(behind * rate);
        self.frontier.div_euclid(rate)
    }

    /// Goes on under another ⟨σ, ρ, δ⟩.
    pub fn change(&mut self, now: i128, old: &Promise, new: &Promise) {
        let ((old_burst, old_rate, _), (burst, rate, _)) =
            (old.guaranteed().unwrap(), new.guaranteed().unwrap());
        self.refill(now, old_burst, old_rate);
        let whole = self.frontier.div_euclid(old_rate);
        self.frontier = whole * rate + self.frontier.rem_euclid(old_rate) * rate / old_rate;
        self.tokens = self.tokens.min(burst * 1_000_000_000);
    }

    /// Every tag has been moved back by `drift`.
    pub fn shift(&mut self, drift: i128, promise: &Promise) {
        if let Some((_, rate, _)) = promise.guaranteed() {
            self.frontier -= drift * rate;
        }
    }
}
