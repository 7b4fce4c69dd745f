//! What is wanted of a promise: "90% 5 ms, 95% 50 ms, 100% 500 ms".

use std::fmt;

use evenkeel_core::{Envelope, Slo, Span};

use crate::error::PlanError;

/// A fraction of requests in millionths, above 0 and up to all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fraction(u32);

impl Fraction {
    /// All.
    pub const ALL: Self = Self(1_000_000);

    /// `millionths` of all; `None` for 0 and above 1 000 000.
    #[must_use]
    pub const fn from_millionths(millionths: u32) -> Option<Self> {
        if millionths == 0 || millionths > Self::ALL.0 { None } else { Some(Self(millionths)) }
    }

    /// The least number of `total` requests that is this fraction of them.
    #[must_use]
    pub const fn of(self, total: u64) -> u64 {
        (total as u128 * self.0 as u128).div_ceil(Self::ALL.0 as u128) as u64
    }

    /// As a float from 0 to 1, for display only.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(Self::ALL.0)
    }
}

impl fmt::Display for Fraction {
    /// A percentage, exactly: `99.9 %`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 10_000, self.0 % 10_000);
        if part == 0 {
            return write!(f, "{whole} %");
        }
        let part = format!("{part:04}");
        write!(f, "{whole}.{} %", part.trim_end_matches('0'))
    }
}

/// A class that is wanted: this fraction of all requests within this latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Of all requests, those of inner classes included.
    pub fraction: Fraction,
    /// δ.
    pub latency: Span,
}

/// Reads targets, the innermost first: `90% 5 ms, 95% 50 ms, 100% 500 ms`.
///
/// # Errors
/// If one cannot be read, is impossible (0 %, above 100 %, no latency), or fraction and latency do not both
/// grow from each to the next.
pub fn parse_targets(text: &str) -> Result<Vec<Target>, PlanError> {
    let refuse = |message: String| PlanError::Targets { text: text.to_owned(), message };
    let mut targets: Vec<Target> = Vec::new();
    for part in text.split(',').map(str::trim) {
        let (fraction, latency) = part.split_once('%').ok_or_else(|| {
            refuse(format!("{part:?} is not a percentage and a latency, as in \"90% 5 ms\""))
        })?;
        let fraction = parse_fraction(fraction.trim()).ok_or_else(|| {
            refuse(format!(
                "{:?} is no percentage above 0 and up to 100 with at most four decimals",
                fraction.trim()
            ))
        })?;
        let latency = parse_latency(latency.trim()).ok_or_else(|| {
            refuse(format!(
                "{:?} is no latency up to a day, such as \"500 us\", \"5 ms\" or \"1 s\"",
                latency.trim()
            ))
        })?;
        if let Some(inner) = targets.last()
            && (fraction <= inner.fraction || latency <= inner.latency)
        {
            let message = format!(
                "{fraction} within {latency} does not go beyond {} within {}: list the innermost class first, \
                     both values must grow",
                inner.fraction, inner.latency
            );
            return Err(refuse(message));
        }
        targets.push(Target { fraction, latency });
    }
    if targets.len() > Slo::CLASSES_MAX {
        return Err(refuse(format!("at most {} classes", Slo::CLASSES_MAX)));
    }
    Ok(targets)
}

fn parse_fraction(text: &str) -> Option<Fraction> {
    Fraction::from_millionths(u32::try_from(decimal(text, 10_000)?).ok()?)
}

fn parse_latency(text: &str) -> Option<Span> {
    let (number, unit) = text.split_at(text.find(|letter: char| letter.is_ascii_alphabetic())?);
    let unit = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    };
    let latency = Span::from_nanos(decimal(number.trim(), unit)?);
    (latency > Span::ZERO && latency <= Envelope::LATENCY_MAX).then_some(latency)
}

/// A decimal number times `unit`, a power of ten; `None` if that is not a whole number.
fn decimal(text: &str, unit: u64) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) || part.len() > 9 || text.ends_with('.') {
        return None;
    }
    let scale = 10_u64.pow(part.len() as u32);
    let part = if part.is_empty() { 0 } else { part.parse::<u64>().ok()? };
    let scaled = part.checked_mul(unit)?;
    if scaled % scale != 0 {
        return None;
    }
    whole.parse::<u64>().ok()?.checked_mul(unit)?.checked_add(scaled / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_and_bad_ones_refused() {
        let targets = parse_targets("90% 5 ms, 99.9% 50ms,100 % 1.5 s").expect("good");
        let shown: Vec<String> = targets.iter().map(|it| format!("{} {}", it.fraction, it.latency)).collect();
        assert_eq!(shown, ["90 % 5 ms", "99.9 % 50 ms", "100 % 1500 ms"]);
        for bad in [
            "",
            "90%",
            "5 ms",
            "0% 5 ms",
            "101% 5 ms",
            "90% 0 ms",
            "90% 5",
            "90% 5 ms, 80% 50 ms",
            "90% 5 ms, 95% 5 ms",
            "90.00001% 5 ms",
            "90% 0.5 ns",
            "90% 2000000 s",
            "90% 5 ms,",
        ] {
            let error = parse_targets(bad).expect_err(bad).to_string();
            assert!(error.contains("classes"), "{error}");
        }
    }

    #[test]
    fn a_fraction_of_a_number_is_rounded_up() {
        let fraction = Fraction::from_millionths(900_001).expect("in range");
        assert_eq!((fraction.of(10), fraction.of(0), Fraction::ALL.of(7)), (10, 0, 7));
    }
}
