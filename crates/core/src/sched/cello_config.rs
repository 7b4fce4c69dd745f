//! Cello's parameters.

use core::fmt;

use crate::units::{Cost, Weight};

/// How Cello divides the store among its three application classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CelloConfig {
    /// Weight of the flows that are promised a latency.
    pub real_time: Weight,
    /// Weight of the flows without a promise that somebody waits at ([`crate::Slo::with_interactive`]).
    pub interactive: Weight,
    /// Weight of all other flows without a promise.
    pub throughput: Weight,
    /// What a class may send in a round for each unit of its weight: 1 to 1 000 000 requests. A round is this
    /// times the sum of the weights. Long rounds let the class-specific schedulers reorder more,
    /// short ones keep the shares together.
    pub quantum: Cost,
}

/// The parameter of a [`CelloConfig`] that is outside its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CelloConfigError {
    /// [`CelloConfig::quantum`].
    Quantum,
}

impl CelloConfig {
    /// The largest quantum.
    pub const QUANTUM_MAX: Cost = Cost::requests(1_000_000);

    /// Whether every parameter is in its range.
    ///
    /// # Errors
    /// The first one that is not.
    pub fn check(&self) -> Result<(), CelloConfigError> {
        let inside = self.quantum >= Cost::ONE && self.quantum <= Self::QUANTUM_MAX;
        if inside { Ok(()) } else { Err(CelloConfigError::Quantum) }
    }

    /// What each class may send in a round, in thousandths of a request.
    pub(crate) fn allocations(&self) -> [i128; 3] {
        let allocation = |weight: Weight| i128::from(weight.as_u32()) * i128::from(self.quantum.as_millis());
        [self.real_time, self.interactive, self.throughput].map(allocation)
    }
}

impl Default for CelloConfig {
    /// Equal weights, and rounds of 4 requests of each class.
    fn default() -> Self {
        let (weight, quantum) = (Weight::ONE, Cost::requests(4));
        Self { real_time: weight, interactive: weight, throughput: weight, quantum }
    }
}

impl fmt::Display for CelloConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Quantum => "the quantum must be from 1 to 1000000 requests",
        })
    }
}

impl core::error::Error for CelloConfigError {}
