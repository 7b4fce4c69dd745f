//! Changing traces: slices, other speeds, other address ranges, several into one.
//!
//! ```text
//!  requests ──> Slice: time, volume, number ──> Scale: time × factor, addresses into a capacity ──> requests
//!
//!  trace 0 ──┐
//!  trace 1 ──┼─ Merge: smallest time first (a tie: the lower trace) ──> requests, volumes renumbered
//!  trace 2 ──┘
//! ```

use std::str::FromStr;

use evenkeel_core::{Span, Time};

use crate::TraceRequest;

/// Which requests of a trace stay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// The first instant that stays.
    pub from: Option<Span>,
    /// The first instant that does not.
    pub to: Option<Span>,
    /// The volumes that stay, by name; all if empty.
    pub volumes: Vec<String>,
    /// How many requests stay at most.
    pub count: Option<u64>,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stays.
    Keep,
    /// It goes.
    Drop,
    /// It goes, and so do all that follow.
    End,
}

impl Slice {
    /// What becomes of `request`, which goes to the volume called `volume`, after `kept` were kept.
    #[must_use]
    pub fn verdict(&self, request: &TraceRequest, volume: &str, kept: u64) -> Verdict {
        let since = request.at.since(Time::ZERO);
        if self.to.is_some_and(|to| since >= to) || self.count.is_some_and(|count| kept >= count) {
            return Verdict::End;
        }
        let early = self.from.is_some_and(|from| since < from);
        let foreign = !self.volumes.is_empty() && !self.volumes.iter().any(|name| name == volume);
        if early || foreign { Verdict::Drop } else { Verdict::Keep }
    }
}

/// A positive factor, kept exactly as it was written: `2`, `0.125`, `1/3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factor {
    numerator: u64,
    denominator: u64,
}

impl Factor {
    /// The factor that changes nothing.
    pub const ONE: Self = Self { numerator: 1, denominator: 1 };

    /// `numerator / denominator`; `None` if either is 0.
    #[must_use]
    pub const fn new(numerator: u64, denominator: u64) -> Option<Self> {
        if numerator == 0 || denominator == 0 { None } else { Some(Self { numerator, denominator }) }
    }

    /// `value / factor`, rounded down; `None` if it does not fit.
    fn divide(self, value: u64) -> Option<u64> {
        u64::try_from(u128::from(value) * u128::from(self.denominator) / u128::from(self.numerator)).ok()
    }
}

/// A factor that is no positive number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is no positive factor like 2, 0.125 or 1/3")]
pub struct FactorError {
    text: String,
}

impl FromStr for Factor {
    type Err = FactorError;

    fn from_str(text: &str) -> Result<Self, FactorError> {
        let parsed = match text.split_once('/') {
            Some((above, below)) => above.parse().ok().zip(below.parse().ok()),
            None => {
                let (whole, part) = text.split_once('.').unwrap_or((text, ""));
                let digits = u32::try_from(part.len()).ok().and_then(|length| 10_u64.checked_pow(length));
                format!("{whole}{part}").parse().ok().zip(digits)
            }
        };
        let factor = parsed.and_then(|(above, below)| Self::new(above, below));
        factor.ok_or_else(|| FactorError { text: text.to_owned() })
    }
}

/// How addresses come to lie within a capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Addresses are taken modulo the capacity: sequences stay sequences.
    Wrap,
    /// Addresses shrink in proportion: neighbourhoods stay, sequences within a block may overlap.
    Shrink {
        /// First byte that no request of the trace reaches.
        extent: u64,
    },
}

/// Another speed, and another size of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// How many times as fast: 2 halves all times.
    pub speed: Factor,
    /// The capacity in bytes that all requests are to lie within, and how.
    pub fit: Option<(u64, Fit)>,
}

/// Addresses move by whole blocks of that many bytes.
const ALIGN: u64 = 4096;

/// Why a request cannot be scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScaleError {
    /// It is longer than the device.
    #[error("a request of {length} bytes is longer than the device of {capacity} bytes")]
    TooLong {
        /// Its length.
        length: u32,
        /// The capacity.
        capacity: u64,
    },
    /// Its time is beyond what can be said.
    #[error("slowed down, the trace takes longer than 584 years")]
    TooSlow,
}

impl Scale {
    /// The request at its new time and place. Within a block of 4 KiB, addresses stay.
    ///
    /// # Errors
    /// If it is longer than the capacity, or its time cannot be said.
    pub fn apply(&self, request: &TraceRequest) -> Result<TraceRequest, ScaleError> {
        let nanos = self.speed.divide(request.at.as_nanos()).ok_or(ScaleError::TooSlow)?;
        let mut scaled = TraceRequest { at: Time::from_nanos(nanos), ..*request };
        let Some((capacity, fit)) = self.fit else { return Ok(scaled) };
        let length = u64::from(request.length);
        if length > capacity {
            return Err(ScaleError::TooLong { length: request.length, capacity });
        }
        let (block, within) = (request.offset / ALIGN, request.offset % ALIGN);
        let offset = match fit {
            Fit::Wrap => block % (capacity / ALIGN).max(1) * ALIGN + within,
            Fit::Shrink { extent } if extent <= capacity => request.offset,
            Fit::Shrink { extent } => {
                let moved = u128::from(block) * u128::from(capacity) / u128::from(extent);
                moved as u64 * ALIGN + within
            }
        };
        // What would hang over the end moves back by whole blocks, as far as there are any.
        let over = (offset + length).saturating_sub(capacity);
        let back = over.next_multiple_of(ALIGN);
        scaled.offset = if back <= offset { offset - back } else { capacity - length };
        Ok(scaled)
    }
}

/// Several traces as one, in order of time.
pub struct Merge<I: Iterator<Item = Result<TraceRequest, E>>, E> {
    sources: Vec<I>,
    heads: Vec<Option<TraceRequest>>,
    failed: Option<E>,
}

impl<I: Iterator<Item = Result<TraceRequest, E>>, E> Merge<I, E> {
    /// Merges `sources`; each must be in order of time.
    pub fn new(sources: Vec<I>) -> Self {
        let heads = sources.iter().map(|_| None).collect();
        let mut merge = Self { sources, heads, failed: None };
        for source in 0..merge.sources.len() {
            merge.advance(source);
        }
        merge
    }

    /// The sources, for what they know besides their requests.
    #[must_use]
    pub fn sources(&self) -> &[I] {
        &self.sources
    }

    fn advance(&mut self, source: usize) {
        match self.sources[source].next().transpose() {
            Ok(head) => self.heads[source] = head,
            Err(error) => {
                self.heads[source] = None;
                self.failed.get_or_insert(error);
            }
        }
    }
}

impl<I: Iterator<Item = Result<TraceRequest, E>>, E> Iterator for Merge<I, E> {
    type Item = Result<(usize, TraceRequest), E>;

    /// The next request and the source that it is from; its volume is still that source's.
    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.failed.take() {
            self.heads.fill(None);
            return Some(Err(error));
        }
        let waiting = self.heads.iter().enumerate().filter_map(|(source, head)| Some((source, (*head)?)));
        let (source, request) = waiting.min_by_key(|(source, request)| (request.at, *source))?;
        self.advance(source);
        Some(Ok((source, request)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::Operation;
    use proptest::prelude::*;

    fn request(at: u64, offset: u64, length: u32) -> TraceRequest {
        TraceRequest { at: Time::from_nanos(at), volume: 0, operation: Operation::Read, offset, length }
    }

    #[test]
    fn factors_are_exact() {
        let scaled = |speed: &str, at| {
            let scale = Scale { speed: speed.parse().unwrap(), fit: None };
            scale.apply(&request(at, 0, 1)).unwrap().at.as_nanos()
        };
        assert_eq!(
            [scaled("2", 10), scaled("0.5", 10), scaled("1/3", 10), scaled("0.3", 3)],
            [5, 20, 30, 10]
        );
        for wrong in ["0", "-1", "", ".", "1/0", "x", "1e3", "0.0000000000000000000001"] {
            wrong.parse::<Factor>().expect_err(wrong);
        }
    }

    #[test]
    fn slices_keep_what_they_should() {
        let slice = Slice {
            from: Some(Span::from_nanos(10)),
            to: Some(Span::from_nanos(20)),
            volumes: vec!["a".to_owned()],
            count: Some(2),
        };
        let verdict = |at, volume, kept| slice.verdict(&request(at, 0, 1), volume, kept);
        assert_eq!(verdict(9, "a", 0), Verdict::Drop);
        assert_eq!(verdict(10, "a", 0), Verdict::Keep);
        assert_eq!(verdict(10, "b", 0), Verdict::Drop);
        assert_eq!(verdict(19, "a", 2), Verdict::End);
        assert_eq!(verdict(20, "a", 0), Verdict::End);
    }

    proptest! {
        #[test]
        fn what_is_fitted_lies_within(
            offset in 0_u64..1 << 50, length in 1_u32..1 << 20, capacity in 1_u64 << 20..1 << 45, wrap: bool,
        ) {
            let extent = (1 << 50) + (1 << 20);
            let fit = if wrap { Fit::Wrap } else { Fit::Shrink { extent } };
            let scale = Scale { speed: Factor::ONE, fit: Some((capacity, fit)) };
            let scaled = scale.apply(&request(1, offset, length)).unwrap();
            prop_assert!(scaled.offset + u64::from(length) <= capacity);
            prop_assert_eq!((scaled.length, scaled.at), (length, Time::from_nanos(1)));
        }

        #[test]
        fn merging_is_sorting(traces in prop::collection::vec(prop::collection::vec(0_u64..50, 0..20), 0..5)) {
            let sorted = |times: &Vec<u64>| {
                let mut times = times.clone();
                times.sort_unstable();
                times.into_iter().map(|at| Ok::<_, ()>(request(at, 0, 1)))
            };
            let mut all: Vec<(u64, usize)> = traces.iter().enumerate()
                .flat_map(|(source, times)| times.iter().map(move |at| (*at, source))).collect();
            all.sort_unstable();
            let sources: Vec<_> = traces.iter().map(|times| sorted(times).collect::<Vec<_>>().into_iter()).collect();
            let merged: Vec<(u64, usize)> = Merge::new(sources)
                .map(|next| next.map(|(source, request)| (request.at.as_nanos(), source)).unwrap()).collect();
            prop_assert_eq!(merged, all);
        }
    }
}
