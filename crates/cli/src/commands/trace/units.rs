//! Sizes and times as people write them.

use evenkeel_core::Span;

/// A size: `4096`, `4KiB`, `1.5 GiB`, `10GB`.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let units = [
        ("TiB", 1 << 40),
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
        ("TB", 1_000_000_000_000),
        ("GB", 1_000_000_000),
        ("MB", 1_000_000),
        ("KB", 1_000),
        ("kB", 1_000),
        ("B", 1),
        ("", 1),
    ];
    exactly(text, &units).ok_or_else(|| "not a size like 4096, 4KiB or 1.5GiB".to_owned())
}

/// A time: `1ms`, `0.5s`, `2min`, `1h`.
pub(super) fn span(text: &str) -> Result<Span, String> {
    let units = [
        ("min", 60_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
        ("s", 1_000_000_000),
        ("h", 3_600_000_000_000),
        ("d", 86_400_000_000_000),
    ];
    let nanos = exactly(text, &units).ok_or_else(|| "not a time like 1ms, 0.5s, 2min or 1h".to_owned())?;
    Ok(Span::from_nanos(nanos))
}

/// A decimal number of a unit, if that is a whole number of the smallest one.
fn exactly(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let (number, unit) = units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
    let (whole, part) = number.trim_end().split_once('.').unwrap_or((number.trim_end(), ""));
    let digits = format!("{whole}{part}");
    if whole.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) || part.len() > 18 {
        return None;
    }
    let value = digits.parse::<u128>().ok()? * u128::from(*unit);
    let divisor = 10_u128.pow(part.len() as u32);
    if value.is_multiple_of(divisor) { u64::try_from(value / divisor).ok() } else { None }
}

/// A size in the largest unit that leaves a number of at least 1.
pub(super) fn shown_bytes(bytes: f64) -> String {
    let units = [("TiB", 1_u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = units.into_iter().find(|(_, size)| bytes >= *size as f64);
    unit.map_or_else(|| format!("{bytes:.0} B"), |(name, size)| format!("{:.1} {name}", bytes / size as f64))
}

/// A time in the largest unit that leaves a number of at least 1.
pub(super) fn shown_nanos(nanos: f64) -> String {
    let units = [("h", 3.6e12), ("min", 6e10), ("s", 1e9), ("ms", 1e6), ("us", 1e3)];
    let unit = units.into_iter().find(|(_, size)| nanos >= *size);
    unit.map_or_else(|| format!("{nanos:.0} ns"), |(name, size)| format!("{:.2} {name}", nanos / size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_exact_or_refused() {
        assert_eq!(bytes("1.5 GiB"), Ok(3 << 29));
        assert_eq!(bytes("10GB"), Ok(10_000_000_000));
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(span("0.5ms"), Ok(Span::from_micros(500)));
        assert_eq!(span("2min"), Ok(Span::from_millis(120_000)));
        for wrong in ["", "x", "-1", "1.0000000001KiB", "1e3", "GiB", "99999999999999999999"] {
            bytes(wrong).expect_err(wrong);
        }
        for wrong in ["", "5", "0.5ns", "s", "-1s"] {
            span(wrong).expect_err(wrong);
        }
    }
}
