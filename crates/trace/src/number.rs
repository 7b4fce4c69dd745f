//! Numbers in text, exactly: no floats on the way from digits to nanoseconds.

use crate::text::Fault;

/// A whole number; `None` if empty, signed, too large or anything else.
pub(crate) fn whole(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let mut value: u64 = 0;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// A hexadecimal number, with or without `0x`.
pub(crate) fn hexadecimal(text: &[u8]) -> Option<u64> {
    let digits = text.strip_prefix(b"0x").unwrap_or(text);
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, byte| Some(value << 4 | u64::from(char::from(*byte).to_digit(16)?)))
}

/// A decimal fraction of a unit of `unit_ns` nanoseconds (a power of ten), in nanoseconds; and whether
/// it was finer than that and rounded to the nearest.
pub(crate) fn nanos(text: &[u8], unit_ns: u64) -> Option<(u64, bool)> {
    let Some(point) = text.iter().position(|byte| *byte == b'.') else {
        return Some((whole(text)?.checked_mul(unit_ns)?, false));
    };
    let (integer, fraction) = (&text[..point], &text[point + 1..]);
    if integer.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value = if integer.is_empty() { 0 } else { whole(integer)?.checked_mul(unit_ns)? };
    let mut place = unit_ns;
    let (mut rest, mut up) = (false, false);
    for byte in fraction {
        let digit = u64::from(byte.wrapping_sub(b'0'));
        if digit > 9 {
            return None;
        }
        if place > 1 {
            place /= 10;
            value = value.checked_add(digit * place)?;
        } else {
            up |= place == 1 && digit >= 5;
            place = 0;
            rest |= digit != 0;
        }
    }
    Some((value.checked_add(u64::from(up))?, rest))
}

/// Sectors of 512 bytes as bytes.
pub(crate) fn sectors(text: &[u8], fault: Fault) -> Result<u64, Fault> {
    whole(text).and_then(|sectors| sectors.checked_mul(512)).ok_or(fault)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fractions_are_exact() {
        assert_eq!(nanos(b"0.026214", 1_000_000_000), Some((26_214_000, false)));
        assert_eq!(nanos(b"13.191135", 1_000_000), Some((13_191_135, false)));
        assert_eq!(nanos(b"7", 1_000), Some((7_000, false)));
        assert_eq!(nanos(b".5", 10), Some((5, false)));
        assert_eq!(nanos(b"5.", 10), Some((50, false)));
        assert_eq!(nanos(b"0.0000000004", 1_000_000_000), Some((0, true)));
        assert_eq!(nanos(b"0.00000000050", 1_000_000_000), Some((1, true)));
        assert_eq!(nanos(b"0.0000000000", 1_000_000_000), Some((0, false)));
        for wrong in
            [&b"."[..], b"", b"1e3", b"-1", b"1.2.3", b"18446744073709551616", b"99999999999999999999.0"]
        {
            assert_eq!(nanos(wrong, 1_000_000_000), None, "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn nanoseconds_survive_printing(at in 0_u64..u64::MAX / 2) {
            let text = format!("{}.{:09}", at / 1_000_000_000, at % 1_000_000_000);
            prop_assert_eq!(nanos(text.as_bytes(), 1_000_000_000), Some((at, false)));
            let text = format!("{}.{:06}", at / 1_000_000, at % 1_000_000);
            prop_assert_eq!(nanos(text.as_bytes(), 1_000_000), Some((at, false)));
            prop_assert_eq!(hexadecimal(format!("{at:x}").as_bytes()), Some(at));
        }
    }
}
