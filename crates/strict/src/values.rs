//! Values with units: read exactly or refused, never rounded.
//!
//! ```text
//!  "1.5 ms" ──> 1.5 = 15 / 10¹ ──> 15 × 1 000 000 / 10¹ ns ──> divides evenly? ──> 1 500 000 ns
//!                                                                 └─ no: finer than the resolution
//! ```

use std::fmt;

use evenkeel_core::{Cost, Rate, Span};

/// What is wrong with a value, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong, in one line without a full stop.
    pub message: String,
    /// What to do about it.
    pub remedy: String,
}

impl Fault {
    /// Both texts.
    pub fn new(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { message: message.into(), remedy: remedy.into() }
    }
}

/// A time: `100 ms`.
///
/// # Errors
/// If it is not exactly a multiple of the smallest step, or has no unit.
pub fn span(text: &str) -> Result<Span, Fault> {
    TIME.read(text).map(Span::from_nanos)
}

/// A number of bytes: `1 GiB`.
pub fn bytes(text: &str) -> Result<u64, Fault> {
    BYTES.read(text)
}

/// A bandwidth: `160 MB/s`, in bytes per second.
///
/// # Errors
/// See [`span`].
pub fn bandwidth(text: &str) -> Result<u64, Fault> {
    BANDWIDTH.read(text)
}

/// A rate: `200 IOPS`.
pub fn rate(text: &str) -> Result<Rate, Fault> {
    RATE.read(text).map(Rate::from_millis)
}

/// A number of requests without a unit: `20`, `2.5`.
pub fn requests(text: &str) -> Result<Cost, Fault> {
    REQUESTS.read(text).map(Cost::from_millis)
}

/// A kind of quantity and how it is written.
pub struct Quantity {
    /// With its article: "a time".
    pub noun: &'static str,
    /// The value as it is written in an example.
    pub example: &'static str,
    /// The units for people.
    pub units_text: &'static str,
    /// Units and how many of the smallest step each is worth.
    units: &'static [(&'static str, u64)],
    /// What people write by mistake (in lower case), and what they may have meant.
    mistakes: &'static [(&'static str, &'static str)],
    /// The smallest step.
    step: &'static str,
}

/// Times, in nanoseconds.
pub static TIME: Quantity = Quantity {
    noun: "a time",
    example: "100 ms",
    units_text: "ns, us, ms, s or min",
    units: &[
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("μs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("min", 60_000_000_000),
    ],
    mistakes: &[
        ("m", "min (minutes) or ms (milliseconds)"),
        ("mins", "min"),
        ("minute", "min"),
        ("minutes", "min"),
        ("sec", "s"),
        ("secs", "s"),
        ("second", "s"),
        ("seconds", "s"),
        ("msec", "ms"),
        ("msecs", "ms"),
        ("millis", "ms"),
        ("milliseconds", "ms"),
        ("usec", "us"),
        ("micros", "us"),
        ("microseconds", "us"),
        ("nanoseconds", "ns"),
        ("h", "min, with 60 min for an hour"),
        ("hour", "min, with 60 min for an hour"),
        ("hours", "min, with 60 min for an hour"),
    ],
    step: "1 ns",
};

/// Numbers of bytes.
pub static BYTES: Quantity = Quantity {
    noun: "a number of bytes",
    example: "1 GiB",
    units_text: "B, KiB, MiB, GiB or TiB (or KB, MB, GB, TB: powers of 1000)",
    units: &[
        ("B", 1),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
    ],
    mistakes: &[
        ("k", "KiB (1024 B) or KB (1000 B)"),
        ("kb", "KiB (1024 B) or KB (1000 B)"),
        ("m", "MiB (1024 KiB) or MB (1000 KB)"),
        ("mb", "MiB (1024 KiB) or MB (1000 KB)"),
        ("g", "GiB (1024 MiB) or GB (1000 MB)"),
        ("gb", "GiB (1024 MiB) or GB (1000 MB)"),
        ("t", "TiB (1024 GiB) or TB (1000 GB)"),
        ("tb", "TiB (1024 GiB) or TB (1000 GB)"),
        ("byte", "B"),
        ("bytes", "B"),
        ("sectors", "B, with 512 B for a sector"),
    ],
    step: "1 B",
};

/// Rates, in thousandths of a request per second.
pub static RATE: Quantity = Quantity {
    noun: "a rate",
    example: "200 IOPS",
    units_text: "IOPS or /s",
    units: &[("IOPS", 1_000), ("/s", 1_000)],
    mistakes: &[
        ("io/s", "IOPS"),
        ("ios/s", "IOPS"),
        ("req/s", "IOPS"),
        ("requests/s", "IOPS"),
        ("/sec", "/s"),
        ("per second", "/s"),
        ("rps", "IOPS"),
        ("iop", "IOPS"),
        ("hz", "IOPS"),
        ("k", "IOPS, with the thousands written out"),
        ("kiops", "IOPS, with the thousands written out"),
        ("k iops", "IOPS, with the thousands written out"),
    ],
    step: "0.001 IOPS",
};

/// Bandwidths, in bytes per second.
pub static BANDWIDTH: Quantity = Quantity {
    noun: "a bandwidth",
    example: "160 MB/s",
    units_text: "B/s, KB/s, MB/s or GB/s (or KiB/s, MiB/s, GiB/s: powers of 1024)",
    units: &[
        ("B/s", 1),
        ("KB/s", 1_000),
        ("MB/s", 1_000_000),
        ("GB/s", 1_000_000_000),
        ("KiB/s", 1 << 10),
        ("MiB/s", 1 << 20),
        ("GiB/s", 1 << 30),
    ],
    mistakes: &[
        ("mb", "MB/s"),
        ("gb", "GB/s"),
        ("mib", "MiB/s"),
        ("gib", "GiB/s"),
        ("mbps", "MB/s, with 8 bits to a byte"),
        ("gbps", "GB/s, with 8 bits to a byte"),
        ("mbit/s", "MB/s, with 8 bits to a byte"),
        ("gbit/s", "GB/s, with 8 bits to a byte"),
    ],
    step: "1 B/s",
};

static REQUESTS: Quantity = Quantity {
    noun: "a number of requests",
    example: "20",
    units_text: "no unit",
    units: &[("", 1_000)],
    mistakes: &[],
    step: "0.001 requests",
};

impl Quantity {
    /// Reads `text` as a multiple of the smallest step.
    fn read(&self, text: &str) -> Result<u64, Fault> {
        let text = text.trim();
        let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = (&text[..split], text[split..].trim_start());
        let decimal = Decimal::read(number).filter(|_| !unit.starts_with([',', '_']));
        let Some(decimal) = decimal else {
            return Err(self.not_a_number(text));
        };
        let Some((_, size)) = self.units.iter().find(|(name, _)| *name == unit) else {
            return Err(self.unknown_unit(number, unit));
        };
        match decimal.times(*size) {
            Ok(steps) => Ok(steps),
            Err(NotExact::TooFine) => Err(Fault::new(
                format!("{text} is finer than {}", self.step),
                format!("write a multiple of {}; values are never rounded", self.step),
            )),
            Err(NotExact::TooLarge) => {
                Err(Fault::new(format!("{text} is too large to be counted"), "write a smaller value"))
            }
        }
    }

    /// What to say about a number without a unit where one is needed.
    pub fn bare(&self, number: impl fmt::Display) -> Fault {
        Fault::new(
            format!("{number} has no unit"),
            format!(
                "write {} with its unit and in quotes, as \"{}\": {}",
                self.noun, self.example, self.units_text
            ),
        )
    }

    fn not_a_number(&self, text: &str) -> Fault {
        let remedy = format!("write {} as \"{}\": {}", self.noun, self.example, self.units_text);
        if text.is_empty() {
            Fault::new("the value is empty", remedy)
        } else if text.starts_with('-') {
            Fault::new(format!("{text:?} is negative"), remedy)
        } else if text.contains(['_', ',']) {
            Fault::new(
                format!("{text:?} is not {}", self.noun),
                "write the digits without separators, and a decimal point rather than a comma",
            )
        } else {
            Fault::new(format!("{text:?} is not {}", self.noun), remedy)
        }
    }

    fn unknown_unit(&self, number: &str, unit: &str) -> Fault {
        if unit.is_empty() {
            return Fault::new(
                format!("{number} has no unit"),
                format!("write {} as \"{}\": {}", self.noun, self.example, self.units_text),
            );
        }
        let folded = unit.to_lowercase();
        let meant = self.mistakes.iter().find(|(mistake, _)| *mistake == folded).map(|(_, meant)| *meant);
        let same = self.units.iter().find(|(name, _)| name.to_lowercase() == folded).map(|(name, _)| *name);
        let remedy = match (meant, same) {
            (Some(meant), _) => format!("did you mean {meant}?"),
            (None, Some(same)) => format!("did you mean {same}? Units are written with these very letters"),
            (None, None) => format!("write {} with one of the units {}", self.noun, self.units_text),
        };
        Fault::new(format!("unknown unit {unit:?}"), remedy)
    }
}

/// A number as it stands in the text: `digits / 10^scale`.
struct Decimal {
    digits: u128,
    scale: u32,
}

enum NotExact {
    TooFine,
    TooLarge,
}

impl Decimal {
    /// More digits than any quantity has; keeps every product below within 128 bits or detects it.
    const DIGITS_MAX: usize = 30;

    /// Reads digits with at most one point between them; `None` for anything else.
    fn read(text: &str) -> Option<Self> {
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let all_digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        if !all_digits(whole) || !all_digits(part) || whole.len() + part.len() > Self::DIGITS_MAX {
            return None;
        }
        let digits = format!("{whole}{part}").parse().ok()?;
        Some(Self { digits, scale: u32::try_from(part.len()).ok()? })
    }

    /// This number times `size`, if that is a whole number.
    fn times(&self, size: u64) -> Result<u64, NotExact> {
        let product = self.digits.checked_mul(u128::from(size)).ok_or(NotExact::TooLarge)?;
        let divisor = 10_u128.pow(self.scale);
        if !product.is_multiple_of(divisor) {
            return Err(NotExact::TooFine);
        }
        u64::try_from(product / divisor).map_err(|_| NotExact::TooLarge)
    }
}

/// Displays bytes in the largest binary unit that shows them exactly, as the file would have them:
/// `1536 MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownBytes(pub u64);

impl fmt::Display for ShownBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, shift) in [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)] {
            if self.0 != 0 && self.0.is_multiple_of(1 << shift) {
                return write!(f, "{} {unit}", self.0 >> shift);
            }
        }
        write!(f, "{} B", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn refused<T: fmt::Debug>(result: Result<T, Fault>) -> String {
        let fault = result.expect_err("this value must be refused");
        format!("{}; {}", fault.message, fault.remedy)
    }

    #[test]
    fn values_are_exact() {
        assert_eq!(span("1.5 ms"), Ok(Span::from_micros(1_500)));
        assert_eq!(span("0.5min"), Ok(Span::from_millis(30_000)));
        assert_eq!(span("7 µs"), Ok(Span::from_micros(7)));
        assert_eq!(span("0.1 us"), Ok(Span::from_nanos(100)));
        assert_eq!(bytes("1.5 KiB"), Ok(1536));
        assert_eq!(bytes("2 TB"), Ok(2_000_000_000_000));
        assert_eq!(rate("62.5 IOPS"), Ok(Rate::from_millis(62_500)));
        assert_eq!(rate("200/s"), Ok(Rate::per_second(200)));
        assert_eq!(bandwidth("0.5 MB/s"), Ok(500_000));
        assert_eq!(requests("2.5"), Ok(Cost::from_millis(2_500)));
    }

    #[test]
    fn what_is_not_exact_is_refused() {
        assert_eq!(
            refused(span("0.1 ns")),
            "0.1 ns is finer than 1 ns; write a multiple of 1 ns; values are never rounded"
        );
        assert!(refused(rate("1.0001 IOPS")).starts_with("1.0001 IOPS is finer than 0.001 IOPS"));
        assert!(refused(bytes("0.3 B")).starts_with("0.3 B is finer than 1 B"));
        assert!(refused(span("99999999999999 min")).contains("too large"));
        assert!(refused(bytes("99999999999999999999999999999 TiB")).contains("too large"));
    }

    #[test]
    fn units_are_strict_and_helpful() {
        let cases = [
            (refused(bytes("10 kb")), "unknown unit \"kb\"; did you mean KiB (1024 B) or KB (1000 B)?"),
            (refused(bytes("1G")), "unknown unit \"G\"; did you mean GiB (1024 MiB) or GB (1000 MB)?"),
            (
                refused(bytes("1 mib")),
                "unknown unit \"mib\"; did you mean MiB? Units are written with these very letters",
            ),
            (refused(span("5 m")), "unknown unit \"m\"; did you mean min (minutes) or ms (milliseconds)?"),
            (refused(span("2 h")), "unknown unit \"h\"; did you mean min, with 60 min for an hour?"),
            (
                refused(rate("200 iops")),
                "unknown unit \"iops\"; did you mean IOPS? Units are written with these very letters",
            ),
            (refused(rate("200 rps")), "unknown unit \"rps\"; did you mean IOPS?"),
            (refused(rate("200 MB")), "unknown unit \"MB\"; write a rate with one of the units IOPS or /s"),
            (refused(span("100")), "100 has no unit; write a time as \"100 ms\": ns, us, ms, s or min"),
            (refused(span("")), "the value is empty; write a time as \"100 ms\": ns, us, ms, s or min"),
            (refused(span("-1 s")), "\"-1 s\" is negative; write a time as \"100 ms\": ns, us, ms, s or min"),
            (
                refused(rate("1,000 IOPS")),
                "\"1,000 IOPS\" is not a rate; write the digits without separators, and a decimal point rather \
                 than a comma",
            ),
        ];
        for (said, expected) in cases {
            assert_eq!(said, expected);
        }
    }

    proptest! {
        #[test]
        fn times_rates_and_costs_round_trip(value: u64) {
            let as_span = Span::from_nanos(value);
            prop_assert_eq!(span(&as_span.to_string()), Ok(as_span));
            let as_rate = Rate::from_millis(value);
            prop_assert_eq!(rate(&as_rate.to_string()), Ok(as_rate));
            let as_cost = Cost::from_millis(value);
            prop_assert_eq!(requests(&as_cost.to_string()), Ok(as_cost));
            prop_assert_eq!(bytes(&ShownBytes(value).to_string()), Ok(value));
        }

        #[test]
        fn round_values_round_trip(value in 0_u64..100_000, shift in 0_u32..4) {
            let as_span = Span::from_nanos(value * 1_000_u64.pow(shift));
            prop_assert_eq!(span(&as_span.to_string()), Ok(as_span));
            let as_bytes = value << (10 * shift);
            prop_assert_eq!(bytes(&ShownBytes(as_bytes).to_string()), Ok(as_bytes));
        }

        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = (span(&text).is_ok(), bytes(&text).is_ok(), rate(&text).is_ok(), requests(&text).is_ok());
        }

        #[test]
        fn numbers_with_odd_units_are_read_or_refused(text in "[0-9]{0,40}\\.?[0-9]{0,40} ?[a-zA-Zµ/]{0,4}") {
            let _ = (span(&text).is_ok(), bytes(&text).is_ok(), rate(&text).is_ok(), requests(&text).is_ok());
        }
    }
}
