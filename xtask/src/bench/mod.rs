//! `cargo xtask bench`: measurements against other servers, with fio as the client, and of the core.

pub(crate) mod audit;
pub(crate) mod core;
mod fio;
pub(crate) mod hybrid;
pub(crate) mod isolation;
pub(crate) mod nbd;
mod peers;
mod server;

/// The middle value; the mean of the two in the middle if their number is even, 0 if there is none.
fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

/// Bytes from "1G", "256M", "64K" or a plain number.
fn parse_size(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.char_indices().next_back() {
        Some((at, 'K' | 'k')) => (&text[..at], 1 << 10),
        Some((at, 'M' | 'm')) => (&text[..at], 1 << 20),
        Some((at, 'G' | 'g')) => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    let number: u64 = digits.parse().map_err(|_| format!("`{text}` is not a size such as 1G or 256M"))?;
    let bytes = number.checked_mul(unit).filter(|bytes| bytes % 4096 == 0 && *bytes >= 1 << 20);
    bytes.ok_or_else(|| format!("`{text}` is not a multiple of 4 KiB of at least 1M"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median([]), 0.0);
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("1G"), Ok(1 << 30));
        assert_eq!(parse_size("256M"), Ok(256 << 20));
        assert!(parse_size("1X").is_err());
        assert!(parse_size("4097K").is_err());
    }
}
