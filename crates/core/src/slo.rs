//! What a flow is promised.

use alloc::boxed::Box;
use core::fmt;
use core::slice;

use crate::packed::Packed;
use crate::units::{Cost, Rate, Span, Weight};

/// An arrival curve with a latency bound, ⟨σ, ρ, δ⟩ (pClock, section 3.1): of a flow that sends at
/// most σ + ρ·t requests in any interval of length t, every request finishes within δ.
///
/// ```text
///  bit 0 ── σ, 40 bits ── ρ, 40 bits ── δ, 47 bits ──   their maxima fit: 16 bytes instead of 24
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Envelope {
    bits: Packed<u128>,
}

/// Bits of σ and of ρ, each in thousandths.
const AMOUNT_BITS: u32 = 40;

const _: () = assert!(Envelope::RATE_MAX.as_millis() >> AMOUNT_BITS == 0);
const _: () = assert!(Envelope::BURST_MAX.as_millis() >> AMOUNT_BITS == 0);
const _: () = assert!(Envelope::LATENCY_MAX.as_nanos() >> (u128::BITS - 2 * AMOUNT_BITS) == 0);
const _: () = assert!(size_of::<Slo>() <= 40, "every flow has one");

/// A service level objective: what one flow is promised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slo {
    promise: Promise,
    terms: Terms,
}

/// What is agreed besides the promise.
///
/// ```text
///  bit 0 ── reservation, 40 bits ── limit, 40 bits ── weight, 20 bits ── interactive, 1 bit ──
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
struct Terms(Packed<u128>);

/// Where in the terms something is: the first bit, and how many.
type Field = (u32, u32);
const RESERVATION: Field = (0, AMOUNT_BITS);
const LIMIT: Field = (AMOUNT_BITS, AMOUNT_BITS);
const WEIGHT: Field = (2 * AMOUNT_BITS, 20);
const INTERACTIVE: Field = (2 * AMOUNT_BITS + WEIGHT.1, 1);

const _: () = assert!(Weight::MAX.as_u32() >> WEIGHT.1 == 0);

impl Terms {
    /// A weight of 1 and nothing else.
    const NONE: Self = Self(Packed(0)).with(WEIGHT, Weight::ONE.as_u32() as u64);

    const fn get(self, (shift, bits): Field) -> u64 {
        (self.0.0 >> shift) as u64 & ((1 << bits) - 1)
    }

    const fn with(self, (shift, bits): Field, value: u64) -> Self {
        let mask = ((1_u128 << bits) - 1) << shift;
        Self(Packed(self.0.0 & !mask | (value as u128) << shift & mask))
    }

    /// A rate, of which zero is none.
    const fn rate(self, field: Field) -> Option<Rate> {
        let millis = self.get(field);
        if millis == 0 { None } else { Some(Rate::from_millis(millis)) }
    }
}

/// One class takes no memory of its own, several take one box.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Promise {
    Background,
    Single(Envelope),
    Nested(Box<[Envelope]>),
}

/// A parameter of an [`Envelope`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// σ.
    Burst,
    /// ρ.
    Rate,
    /// δ.
    Latency,
}

/// Why a set of parameters is no promise that can be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SloError {
    /// ρ is zero.
    ZeroRate,
    /// δ is zero.
    ZeroLatency,
    /// σ of a limit is zero.
    ZeroBurst,
    /// ρ above [`Envelope::RATE_MAX`].
    RateTooLarge,
    /// σ above [`Envelope::BURST_MAX`].
    BurstTooLarge,
    /// δ above [`Envelope::LATENCY_MAX`].
    LatencyTooLarge,
    /// A promise in classes without a class.
    NoClasses,
    /// More than [`Slo::CLASSES_MAX`] classes.
    TooManyClasses,
    /// A request may cost more than the largest σ: it would be outside the promise whenever it comes.
    BurstBelowRequest {
        /// The largest σ.
        burst: Cost,
        /// What the request costs.
        request: Cost,
    },
    /// The first pair of neighbours that is not nested: `parameter` of class `inner` (an index, 0 is
    /// the innermost) is larger than that of class `inner` + 1.
    NotNested {
        /// The inner class of the pair.
        inner: usize,
        /// What is larger there; the first in the order σ, ρ, δ.
        parameter: Parameter,
    },
}

impl Envelope {
    /// The largest ρ: a billion requests per second.
    pub const RATE_MAX: Rate = Rate::per_second(1_000_000_000);
    /// The largest σ: a billion requests.
    pub const BURST_MAX: Cost = Cost::requests(1_000_000_000);
    /// The largest δ: a day.
    pub const LATENCY_MAX: Span = Span::from_millis(86_400_000);

    /// The envelope ⟨`burst`, `rate`, `latency`⟩. A burst of zero is the papers' way of writing a
    /// flow that is paced at `rate`: none of its requests is inside the envelope, strictly
    /// speaking, but its tags are spaced by 1/ρ all the same (pClock, example 1).
    ///
    /// # Errors
    /// If `rate` or `latency` is zero, or a value is above its maximum.
    pub fn new(burst: Cost, rate: Rate, latency: Span) -> Result<Self, SloError> {
        if rate.as_millis() == 0 {
            Err(SloError::ZeroRate)
        } else if latency == Span::ZERO {
            Err(SloError::ZeroLatency)
        } else if rate > Self::RATE_MAX {
            Err(SloError::RateTooLarge)
        } else if burst > Self::BURST_MAX {
            Err(SloError::BurstTooLarge)
        } else if latency > Self::LATENCY_MAX {
            Err(SloError::LatencyTooLarge)
        } else {
            Ok(Self::packed(burst, rate, latency))
        }
    }

    /// The least that can be promised: no burst, 0.001 IOPS, a day.
    pub(crate) const SMALLEST: Self = Self::packed(Cost::ZERO, Rate::from_millis(1), Self::LATENCY_MAX);

    const fn packed(burst: Cost, rate: Rate, latency: Span) -> Self {
        let amounts = (rate.as_millis() as u128) << AMOUNT_BITS | burst.as_millis() as u128;
        Self { bits: Packed((latency.as_nanos() as u128) << (2 * AMOUNT_BITS) | amounts) }
    }

    /// σ: how much may arrive at once.
    #[must_use]
    pub const fn burst(&self) -> Cost {
        Cost::from_millis(self.bits.0 as u64 & ((1 << AMOUNT_BITS) - 1))
    }

    /// ρ: how much may arrive per second in the long run.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        Rate::from_millis((self.bits.0 >> AMOUNT_BITS) as u64 & ((1 << AMOUNT_BITS) - 1))
    }

    /// δ: how long a request inside the envelope may take from arrival to completion.
    #[must_use]
    pub const fn latency(&self) -> Span {
        Span::from_nanos((self.bits.0 >> (2 * AMOUNT_BITS)) as u64)
    }

    /// The first of σ, ρ, δ that is larger than in `outer`.
    fn exceeds(&self, outer: &Self) -> Option<Parameter> {
        if self.burst() > outer.burst() {
            Some(Parameter::Burst)
        } else if self.rate() > outer.rate() {
            Some(Parameter::Rate)
        } else if self.latency() > outer.latency() {
            Some(Parameter::Latency)
        } else {
            None
        }
    }
}

impl Slo {
    /// The most classes of a flow.
    pub const CLASSES_MAX: usize = 255;

    /// A flow that is held to `envelope`.
    #[must_use]
    pub const fn guaranteed(envelope: Envelope) -> Self {
        Self::promising(Promise::Single(envelope))
    }

    /// A flow with graduated classes (Nested QoS, section 3.1.2), the innermost first: what it sends
    /// within the innermost envelope is done within the δ of that one, what the next one admits
    /// besides within the δ of the next, and so on; what even the outermost refuses is *excess* and
    /// promised nothing. One class is the same as [`Slo::guaranteed`].
    ///
    /// # Errors
    /// If there is no class or more than [`Slo::CLASSES_MAX`], or they are not nested: σ, ρ and δ must
    /// each not decrease outward.
    pub fn nested(classes: &[Envelope]) -> Result<Self, SloError> {
        if classes.len() > Self::CLASSES_MAX {
            return Err(SloError::TooManyClasses);
        }
        for (inner, pair) in classes.windows(2).enumerate() {
            if let Some(parameter) = pair[0].exceeds(&pair[1]) {
                return Err(SloError::NotNested { inner, parameter });
            }
        }
        match classes {
            [] => Err(SloError::NoClasses),
            [only] => Ok(Self::guaranteed(*only)),
            _ => Ok(Self::promising(Promise::Nested(classes.into()))),
        }
    }

    /// A flow that is promised nothing and gets what the others leave.
    #[must_use]
    pub const fn background() -> Self {
        Self::promising(Promise::Background)
    }

    const fn promising(promise: Promise) -> Self {
        Self { promise, terms: Terms::NONE }
    }

    /// The same promise with another weight.
    #[must_use]
    pub const fn with_weight(mut self, weight: Weight) -> Self {
        self.terms = self.terms.with(WEIGHT, weight.as_u32() as u64);
        self
    }

    /// The same promise for a flow that somebody waits at: without a guarantee it is served before those
    /// that only have much to move, under schedulers that know such a class (Cello).
    #[must_use]
    pub const fn with_interactive(mut self) -> Self {
        self.terms = self.terms.with(INTERACTIVE, 1);
        self
    }

    /// Whether somebody waits for each of its requests.
    #[must_use]
    pub const fn is_interactive(&self) -> bool {
        self.terms.get(INTERACTIVE) == 1
    }

    /// The same promise with a reservation: at least this much per second while requests wait, under
    /// schedulers that reserve.
    ///
    /// # Errors
    /// If `reservation` is zero or above [`Envelope::RATE_MAX`].
    pub fn with_reservation(self, reservation: Rate) -> Result<Self, SloError> {
        Ok(Self { terms: self.terms.with(RESERVATION, checked(reservation)?.as_millis()), ..self })
    }

    /// The same promise with a limit: at most this much per second, under schedulers that limit.
    ///
    /// # Errors
    /// If `limit` is zero or above [`Envelope::RATE_MAX`].
    pub fn with_limit(self, limit: Rate) -> Result<Self, SloError> {
        Ok(Self { terms: self.terms.with(LIMIT, checked(limit)?.as_millis()), ..self })
    }

    /// Checks that the promise covers requests that cost up to `largest`: that the outermost σ holds one.
    /// A background flow promises nothing and covers everything.
    ///
    /// # Errors
    /// If it does not. Such a request would still be served, but never as promised.
    pub fn covers(&self, largest: Cost) -> Result<(), SloError> {
        match self.classes().last().map(Envelope::burst) {
            Some(burst) if burst < largest => Err(SloError::BurstBelowRequest { burst, request: largest }),
            _ => Ok(()),
        }
    }

    /// What it gets at least, if anything is reserved.
    #[must_use]
    pub const fn reservation(&self) -> Option<Rate> {
        self.terms.rate(RESERVATION)
    }

    /// What it gets at most, if it is limited.
    #[must_use]
    pub const fn limit(&self) -> Option<Rate> {
        self.terms.rate(LIMIT)
    }

    /// ⟨σ, ρ, δ⟩, of several classes that of the innermost; `None` for a background flow. A scheduler
    /// without classes holds the flow to this one.
    #[must_use]
    pub fn envelope(&self) -> Option<&Envelope> {
        self.classes().first()
    }

    /// Its classes, the innermost first; none for a background flow.
    #[must_use]
    pub fn classes(&self) -> &[Envelope] {
        match &self.promise {
            Promise::Background => &[],
            Promise::Single(envelope) => slice::from_ref(envelope),
            Promise::Nested(classes) => classes,
        }
    }

    /// Whether the flow gets only what others leave.
    #[must_use]
    pub const fn is_background(&self) -> bool {
        matches!(self.promise, Promise::Background)
    }

    /// The share among flows of its kind, where the scheduler shares by weight.
    #[must_use]
    pub const fn weight(&self) -> Weight {
        match Weight::new(self.terms.get(WEIGHT) as u32) {
            Some(weight) => weight,
            None => Weight::ONE,
        }
    }
}

fn checked(rate: Rate) -> Result<Rate, SloError> {
    if rate.as_millis() == 0 {
        Err(SloError::ZeroRate)
    } else if rate > Envelope::RATE_MAX {
        Err(SloError::RateTooLarge)
    } else {
        Ok(rate)
    }
}

impl fmt::Debug for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terms")
            .field("reservation", &self.rate(RESERVATION))
            .field("limit", &self.rate(LIMIT))
            .field("weight", &self.get(WEIGHT))
            .field("interactive", &(self.get(INTERACTIVE) == 1))
            .finish()
    }
}

impl fmt::Display for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "⟨{}, {}, {}⟩", self.burst(), self.rate(), self.latency())
    }
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Burst => "burst",
            Self::Rate => "rate",
            Self::Latency => "latency bound",
        })
    }
}

impl fmt::Display for SloError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroRate => f.write_str("the rate is zero: a promise needs at least 0.001 IOPS"),
            Self::ZeroLatency => f.write_str("the latency bound is zero: no store answers in no time"),
            Self::ZeroBurst => f.write_str("the burst is zero: a limit needs at least 0.001 requests"),
            Self::RateTooLarge => write!(f, "the rate is above {}", Envelope::RATE_MAX),
            Self::BurstTooLarge => write!(f, "the burst is above {} requests", Envelope::BURST_MAX),
            Self::LatencyTooLarge => write!(f, "the latency bound is above {}", Envelope::LATENCY_MAX),
            Self::NoClasses => f.write_str("there is no class: a promise needs at least one"),
            Self::TooManyClasses => write!(f, "there are more than {} classes", Slo::CLASSES_MAX),
            Self::BurstBelowRequest { burst, request } => {
                write!(f, "a burst of {burst} never holds a request that costs {request}")
            }
            Self::NotNested { inner, parameter } => {
                let (inner, outer) = (inner + 1, inner + 2);
                write!(
                    f,
                    "the {parameter} of class {inner} is above that of class {outer}, which is outside it"
                )
            }
        }
    }
}

impl core::error::Error for SloError {}
