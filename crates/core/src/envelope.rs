//! The token bucket that meters a flow against its arrival upper bound.
//!
//! Source: pClock, section 3.1 (definition 3, the arrival upper bound) and UpdateNumtokens of
//! algorithm 2. The level of the bucket is *arrival upper bound minus arrivals so far*.
//!
//! ```text
//!   σ ──┬───────╮          ╭── full: refill stops here
//!       │       │ arrive  ╱
//!       │       ╰──╮     ╱  slope ρ
//!   0 ──┼──────────│────╱──────────
//!       │          ╰──╮╱            below zero: the flow has sent more than σ + ρ·t
//! ```
//!
//! One *grain* is 10⁻¹² of a request. A rate of 1/1000 request per second earns exactly one grain
//! per nanosecond and a cost of 1/1000 request is exactly 10⁹ grains, so no operation rounds and no
//! remainder is ever lost. Range: σ up to `u64::MAX` thousandths is 1.9·10²⁸ grains, and a debt is
//! held at 2¹²⁶ ≈ 8.5·10³⁷ grains, which is 4.6·10⁹ requests of the largest cost.
//!
//! Deviation: the printed algorithm takes a token only in the branch of requests inside the bound.
//! Here *every* arrival takes its cost: if overrunning requests took nothing, a backlogged flow would
//! earn tokens while it overruns and would overtake its own queue.

use alloc::boxed::Box;

use crate::packed::Packed;
use crate::slo::Envelope;
use crate::units::{Cost, Rate, Span, Time};

/// Grains in one thousandth of a request.
pub const GRAINS_PER_MILLI: i128 = 1_000_000_000;

/// The deepest debt; a bucket never goes below it.
const DEBT_MAX: i128 = 1 << 126;

/// A bucket of σ tokens that fills at ρ tokens per second and may go below zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    level: Level,
    burst: Cost,
    rate: Rate,
}

/// What is in a bucket whose σ and ρ its owner has already, so that it need not store them again. They
/// must be the same at every call, until [`Level::cut`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    grains: Packed<i128>,
    refilled: Time,
}

impl Level {
    /// That of a bucket of σ which is full at `now`.
    pub(crate) const fn full(now: Time, burst: Cost) -> Self {
        Self { grains: Packed(grains_of(burst)), refilled: now }
    }

    /// [`TokenBucket::arrive`].
    pub(crate) fn arrive(&mut self, now: Time, cost: Cost, burst: Cost, rate: Rate) -> bool {
        self.refill(now, burst, rate);
        let cost = grains_of(cost);
        let inside = self.grains.0 >= cost;
        self.grains.0 = (self.grains.0 - cost).max(-DEBT_MAX);
        inside
    }

    /// [`TokenBucket::refill`].
    pub(crate) fn refill(&mut self, now: Time, burst: Cost, rate: Rate) {
        let earned = u128::from(now.since(self.refilled).as_nanos()) * u128::from(rate.as_millis());
        let full = grains_of(burst);
        let room = (full - self.grains.0).unsigned_abs();
        self.grains.0 = if earned >= room { full } else { self.grains.0 + earned as i128 };
        self.refilled = self.refilled.max(now);
    }

    /// σ has changed to `burst`: what is above it is lost.
    pub(crate) fn cut(&mut self, burst: Cost) {
        self.grains.0 = self.grains.0.min(grains_of(burst));
    }

    /// [`TokenBucket::grains`].
    pub(crate) const fn grains(&self) -> i128 {
        self.grains.0
    }

    /// When it was last refilled.
    pub(crate) const fn refilled(&self) -> Time {
        self.refilled
    }

    /// The bucket with these σ and ρ and this level.
    pub(crate) const fn bucket(self, burst: Cost, rate: Rate) -> TokenBucket {
        TokenBucket { level: self, burst, rate }
    }
}

impl TokenBucket {
    /// A bucket that is full at `now`.
    #[must_use]
    pub const fn new(now: Time, burst: Cost, rate: Rate) -> Self {
        Self { level: Level::full(now, burst), burst, rate }
    }

    /// Takes `cost` at `now`, whether or not that much is there, and says whether it was: that is,
    /// whether the arrival was inside the envelope. A `now` before an earlier one counts as that one.
    pub fn arrive(&mut self, now: Time, cost: Cost) -> bool {
        self.level.arrive(now, cost, self.burst, self.rate)
    }

    /// Takes `cost` at `now` if that much is there, otherwise nothing, and says which. This is the
    /// bucket of a [`Cascade`]: what it refuses is somebody else's, and costs it nothing.
    pub fn take(&mut self, now: Time, cost: Cost) -> bool {
        self.refill(now);
        let cost = grains_of(cost);
        let inside = self.level.grains.0 >= cost;
        if inside {
            self.level.grains.0 -= cost;
        }
        inside
    }

    /// Earns what is due at `now`.
    pub fn refill(&mut self, now: Time) {
        self.level.refill(now, self.burst, self.rate);
    }

    /// When the level reaches `cost`, or σ if that is less, as long as nothing is taken. The last refill
    /// if it has done so; the end of time if ρ is zero.
    #[must_use]
    pub fn ready_at(&self, cost: Cost) -> Time {
        let lacking = grains_of(cost).min(grains_of(self.burst)) - self.level.grains.0;
        if lacking <= 0 {
            return self.level.refilled;
        }
        let rate = u128::from(self.rate.as_millis());
        let nanos = if rate == 0 { u128::MAX } else { lacking.unsigned_abs().div_ceil(rate) };
        self.level.refilled + Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Changes σ and ρ at `now`. What was earned so far was earned at the old rate; a debt stays, and
    /// a level above the new σ is cut to it. A larger σ gives no tokens by itself: they are earned.
    pub fn reconfigure(&mut self, now: Time, burst: Cost, rate: Rate) {
        self.refill(now);
        self.burst = burst;
        self.rate = rate;
        self.level.cut(burst);
    }

    /// The same bucket, empty if it is in debt.
    #[must_use]
    pub fn without_debt(self) -> Self {
        let grains = Packed(self.level.grains.0.max(0));
        Self { level: Level { grains, ..self.level }, ..self }
    }

    /// The level at the last refill in grains of 10⁻¹² request; negative when in debt.
    #[must_use]
    pub const fn grains(&self) -> i128 {
        self.level.grains.0
    }

    /// σ.
    #[must_use]
    pub const fn burst(&self) -> Cost {
        self.burst
    }

    /// ρ.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }
}

/// The classifier of one flow: a bucket per class, passed from the outermost inward (Nested QoS,
/// section 3.2, figure 3.6).
///
/// ```text
///  request ──> B_n ──> ... ──> B_2 ──> B_1 ──> class 0       each takes the cost, if it has it;
///               │               │       └────> class 1       the first that has not takes nothing
///               └── excess      └────────────> class 2       and ends the walk
/// ```
///
/// So the class is the smallest k such that all buckets from k outward have the cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cascade {
    buckets: Box<[TokenBucket]>,
}

impl Cascade {
    /// A cascade for `classes`, the innermost first, whose buckets are full at `now`.
    #[must_use]
    pub fn new(now: Time, classes: &[Envelope]) -> Self {
        let full = |class: &Envelope| TokenBucket::new(now, class.burst(), class.rate());
        Self { buckets: classes.iter().map(full).collect() }
    }

    /// Its buckets, the innermost first.
    #[must_use]
    pub fn buckets(&self) -> &[TokenBucket] {
        &self.buckets
    }

    /// The class of a request of `cost` that arrives at `now`, an index, 0 being the innermost, and
    /// takes its cost from that bucket and all outside it. `None` for excess, which takes nothing.
    pub fn classify(&mut self, now: Time, cost: Cost) -> Option<u8> {
        class_of(self.buckets.iter_mut(), now, cost)
    }

    /// What [`Cascade::classify`] would say, taking nothing.
    #[must_use]
    pub fn class_at(&self, now: Time, cost: Cost) -> Option<u8> {
        let copies = self.buckets.iter().rev().copied();
        reached(copies.map(|mut bucket| bucket.take(now, cost)), self.buckets.len())
    }

    /// Changes the classes at `now`. Buckets are matched by index and keep their level as in
    /// [`TokenBucket::reconfigure`]; a class that is new starts full.
    pub fn reconfigure(&mut self, now: Time, classes: &[Envelope]) {
        let mut successor = Self::new(now, classes);
        for ((new, old), class) in successor.buckets.iter_mut().zip(&self.buckets).zip(classes) {
            *new = *old;
            new.reconfigure(now, class.burst(), class.rate());
        }
        *self = successor;
    }
}

/// The walk through a cascade; `buckets` are innermost first.
pub(crate) fn class_of<'a, I>(buckets: I, now: Time, cost: Cost) -> Option<u8>
where
    I: DoubleEndedIterator<Item = &'a mut TokenBucket> + ExactSizeIterator,
{
    let classes = buckets.len();
    reached(buckets.rev().map(|bucket| bucket.take(now, cost)), classes)
}

/// Of `classes`, the innermost up to which every bucket, outermost first, admits.
fn reached(admits: impl Iterator<Item = bool>, classes: usize) -> Option<u8> {
    let passed = admits.take_while(|admitted| *admitted).count();
    if passed == 0 { None } else { Some((classes - passed) as u8) }
}

/// `cost` in grains, exact.
#[must_use]
pub const fn grains_of(cost: Cost) -> i128 {
    cost.as_millis() as i128 * GRAINS_PER_MILLI
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn millis(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    #[test]
    fn starts_full_is_capped_and_goes_below_zero() {
        let mut bucket = TokenBucket::new(Time::ZERO, Cost::requests(2), Rate::per_second(10));
        assert!(bucket.arrive(millis(5_000), Cost::ONE));
        assert!(bucket.arrive(millis(5_000), Cost::ONE));
        assert!(!bucket.arrive(millis(5_000), Cost::ONE));
        assert_eq!(bucket.grains(), -grains_of(Cost::ONE));
        assert!(!bucket.arrive(millis(5_199), Cost::ONE), "the debt and its own token take 200 ms");
        assert!(!bucket.arrive(millis(5_299), Cost::ONE));
        assert!(bucket.arrive(millis(5_500), Cost::ONE));
    }

    #[test]
    fn one_nanosecond_decides() {
        let third = Rate::per_second(3);
        let mut early = TokenBucket::new(Time::ZERO, Cost::ONE, third);
        assert!(early.arrive(Time::ZERO, Cost::ONE));
        let mut late = early;
        assert!(!early.arrive(Time::from_nanos(333_333_333), Cost::ONE));
        assert!(late.arrive(Time::from_nanos(333_333_334), Cost::ONE));
    }

    #[test]
    fn time_does_not_go_backwards() {
        let mut bucket = TokenBucket::new(millis(100), Cost::ONE, Rate::per_second(10));
        assert!(bucket.arrive(millis(0), Cost::ONE));
        assert!(!bucket.arrive(millis(100), Cost::ONE));
        bucket.refill(millis(50));
        assert_eq!(bucket.grains(), -grains_of(Cost::ONE));
    }

    #[test]
    fn a_reconfiguration_keeps_the_debt_and_cuts_the_surplus() {
        let mut bucket = TokenBucket::new(Time::ZERO, Cost::requests(10), Rate::per_second(10));
        bucket.reconfigure(Time::ZERO, Cost::requests(4), Rate::per_second(1));
        assert_eq!(bucket.grains(), grains_of(Cost::requests(4)));
        assert!(!bucket.arrive(Time::ZERO, Cost::requests(6)));
        bucket.reconfigure(Time::ZERO, Cost::requests(100), Rate::per_second(100));
        assert_eq!(bucket.grains(), -grains_of(Cost::requests(2)));
    }

    #[test]
    fn the_ends_of_the_range_neither_panic_nor_wrap() {
        let (most, fastest) = (Cost::from_millis(u64::MAX), Rate::from_millis(u64::MAX));
        let mut bucket = TokenBucket::new(Time::ZERO, most, fastest);
        for step in 0..8 {
            let inside = bucket.arrive(Time::from_nanos(u64::MAX / 8 * step), most);
            assert!(inside, "a full refill at every step");
        }
        let level = Level { grains: Packed(-DEBT_MAX), ..bucket.level };
        let mut poor = TokenBucket { level, ..bucket };
        assert!(!poor.arrive(Time::ZERO, most));
        assert_eq!(poor.grains(), -DEBT_MAX);
    }

    proptest! {
        /// Refilling often or once earns the same to the last grain.
        #[test]
        fn the_way_of_refilling_does_not_matter(
            rate in 1_u64..1_000_000_000_000, gaps in prop::collection::vec(0_u64..1_000_000, 1..50),
        ) {
            let mut often = TokenBucket::new(Time::ZERO, Cost::requests(1_000), Rate::from_millis(rate));
            often.arrive(Time::ZERO, Cost::requests(1_000_000));
            let mut once = often;
            let mut now = Time::ZERO;
            for gap in gaps {
                now += Span::from_nanos(gap);
                often.refill(now);
            }
            once.refill(now);
            prop_assert_eq!(often, once);
        }

        /// The bucket is the bound itself: it agrees with σ + ρ·t over every interval.
        #[test]
        fn it_is_the_arrival_curve(
            burst in 0_u64..5, rate in 1_u64..200_000,
            gaps in prop::collection::vec(0_u64..40_000_000, 1..40),
        ) {
            let mut bucket = TokenBucket::new(Time::ZERO, Cost::requests(burst), Rate::from_millis(rate));
            let mut arrivals: std::vec::Vec<u64> = std::vec![];
            let mut now = 0;
            for gap in gaps {
                now += gap;
                arrivals.push(now);
                let held = arrivals.iter().enumerate().all(|(i, from)| {
                    let sent = (arrivals.len() - i) as u128 * 1_000_000_000_000;
                    sent <= u128::from(burst) * 1_000_000_000_000 + u128::from(rate) * u128::from(now - from)
                });
                let inside = bucket.arrive(Time::from_nanos(now), Cost::ONE);
                prop_assert_eq!(inside, held);
            }
        }
    }
}
