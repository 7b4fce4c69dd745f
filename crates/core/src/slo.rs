//! What a flow is promised.

use core::fmt;

use crate::units::{Cost, Rate, Span, Weight};

/// An arrival curve with a latency bound, ⟨σ, ρ, δ⟩ (pClock, section 3.1): of a flow that sends at
/// most σ + ρ·t requests in any interval of length t, every request finishes within δ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    burst: Cost,
    rate: Rate,
    latency: Span,
}

/// A service level objective: what one flow is promised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slo {
    envelope: Option<Envelope>,
    weight: Weight,
    /// Zero for none, which halves what the two take up.
    reservation: Rate,
    limit: Rate,
}

/// Why a set of parameters is no promise that can be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SloError {
    /// ρ is zero.
    ZeroRate,
    /// δ is zero.
    ZeroLatency,
    /// ρ above [`Envelope::RATE_MAX`].
    RateTooLarge,
    /// σ above [`Envelope::BURST_MAX`].
    BurstTooLarge,
    /// δ above [`Envelope::LATENCY_MAX`].
    LatencyTooLarge,
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
            Ok(Self { burst, rate, latency })
        }
    }

    /// σ: how much may arrive at once.
    #[must_use]
    pub const fn burst(&self) -> Cost {
        self.burst
    }

    /// ρ: how much may arrive per second in the long run.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// δ: how long a request inside the envelope may take from arrival to completion.
    #[must_use]
    pub const fn latency(&self) -> Span {
        self.latency
    }
}

impl Slo {
    /// A flow that is held to `envelope`.
    #[must_use]
    pub const fn guaranteed(envelope: Envelope) -> Self {
        Self { envelope: Some(envelope), ..Self::background() }
    }

    /// A flow that is promised nothing and gets what the others leave.
    #[must_use]
    pub const fn background() -> Self {
        let none = Rate::from_millis(0);
        Self { envelope: None, weight: Weight::ONE, reservation: none, limit: none }
    }

    /// The same promise with another weight.
    #[must_use]
    pub const fn with_weight(self, weight: Weight) -> Self {
        Self { weight, ..self }
    }

    /// The same promise with a reservation: at least this much per second while requests wait, under
    /// schedulers that reserve.
    ///
    /// # Errors
    /// If `reservation` is zero or above [`Envelope::RATE_MAX`].
    pub fn with_reservation(self, reservation: Rate) -> Result<Self, SloError> {
        Ok(Self { reservation: checked(reservation)?, ..self })
    }

    /// The same promise with a limit: at most this much per second, under schedulers that limit.
    ///
    /// # Errors
    /// If `limit` is zero or above [`Envelope::RATE_MAX`].
    pub fn with_limit(self, limit: Rate) -> Result<Self, SloError> {
        Ok(Self { limit: checked(limit)?, ..self })
    }

    /// What it gets at least, if anything is reserved.
    #[must_use]
    pub const fn reservation(&self) -> Option<Rate> {
        if self.reservation.as_millis() == 0 { None } else { Some(self.reservation) }
    }

    /// What it gets at most, if it is limited.
    #[must_use]
    pub const fn limit(&self) -> Option<Rate> {
        if self.limit.as_millis() == 0 { None } else { Some(self.limit) }
    }

    /// ⟨σ, ρ, δ⟩; `None` for a background flow.
    #[must_use]
    pub const fn envelope(&self) -> Option<&Envelope> {
        self.envelope.as_ref()
    }

    /// Whether the flow gets only what others leave.
    #[must_use]
    pub const fn is_background(&self) -> bool {
        self.envelope.is_none()
    }

    /// The share among flows of its kind, where the scheduler shares by weight.
    #[must_use]
    pub const fn weight(&self) -> Weight {
        self.weight
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

impl fmt::Display for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "⟨{}, {}, {}⟩", self.burst, self.rate, self.latency)
    }
}

impl fmt::Display for SloError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroRate => f.write_str("the rate is zero: a promise needs at least 0.001 IOPS"),
            Self::ZeroLatency => f.write_str("the latency bound is zero: no store answers in no time"),
            Self::RateTooLarge => write!(f, "the rate is above {}", Envelope::RATE_MAX),
            Self::BurstTooLarge => write!(f, "the burst is above {} requests", Envelope::BURST_MAX),
            Self::LatencyTooLarge => write!(f, "the latency bound is above {}", Envelope::LATENCY_MAX),
        }
    }
}

impl core::error::Error for SloError {}
