//! Integers and strings on the wire: LEB128 varints, zigzag for what may be negative.
//!
//! ```text
//!  300 = 0b10_0101100  ──>  1|0101100  0|0000010      seven bits a byte, the lowest first;
//!                                                     the high bit says that more follow
//! ```

use crate::error::Malformed;

/// Longest name or text on the wire, in bytes.
pub(crate) const TEXT_BYTES_MAX: usize = 4096;

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    // Room for the longest at once: the loop then needs no further check of the capacity.
    let mut bytes = [0; 10];
    let mut length = 0;
    while value >= 0x80 {
        bytes[length] = value as u8 | 0x80;
        value >>= 7;
        length += 1;
    }
    bytes[length] = value as u8;
    out.extend_from_slice(&bytes[..=length]);
}

/// A difference that may be negative: 0, −1, 1, −2, 2 become 0, 1, 2, 3, 4. Every `u64` is some
/// difference modulo 2⁶⁴, so nothing is lost.
pub(crate) const fn zigzag(value: u64) -> u64 {
    (value << 1) ^ ((value as i64 >> 63) as u64)
}

pub(crate) const fn unzigzag(value: u64) -> u64 {
    (value >> 1) ^ (value & 1).wrapping_neg()
}

pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    let cut = text.floor_char_boundary(TEXT_BYTES_MAX);
    put_varint(out, cut as u64);
    out.extend_from_slice(&text.as_bytes()[..cut]);
}

/// Reads forward through a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'b> {
    rest: &'b [u8],
}

impl<'b> Cursor<'b> {
    pub(crate) const fn new(bytes: &'b [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) const fn left(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'b [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Malformed::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.bytes(N)?.try_into().map_err(|_| Malformed::Short)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    pub(crate) fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(Malformed::Varint);
            }
            value |= bits << shift;
            if byte < 0x80 {
                // One encoding for each value: a padded one would be a second way to write a record.
                return if byte == 0 && shift > 0 { Err(Malformed::Varint) } else { Ok(value) };
            }
        }
        Err(Malformed::Varint)
    }

    pub(crate) fn small(&mut self) -> Result<u32, Malformed> {
        u32::try_from(self.varint()?).map_err(|_| Malformed::Range)
    }

    pub(crate) fn text(&mut self) -> Result<&'b str, Malformed> {
        let length = usize::try_from(self.varint()?).map_err(|_| Malformed::Text)?;
        if length > TEXT_BYTES_MAX {
            return Err(Malformed::Text);
        }
        std::str::from_utf8(self.bytes(length)?).map_err(|_| Malformed::Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_put_is_read(values: Vec<u64>, text in ".{0,40}") {
            let mut bytes = Vec::new();
            put_text(&mut bytes, &text);
            for value in &values {
                put_varint(&mut bytes, *value);
                put_varint(&mut bytes, zigzag(*value));
            }
            let mut cursor = Cursor::new(&bytes);
            prop_assert_eq!(cursor.text(), Ok(text.as_str()));
            for value in &values {
                prop_assert_eq!(cursor.varint(), Ok(*value));
                prop_assert_eq!(cursor.varint().map(unzigzag), Ok(*value));
            }
            prop_assert!(cursor.is_empty());
        }
    }

    #[test]
    fn small_differences_are_short_either_way() {
        assert_eq!((zigzag(1), zigzag(1_u64.wrapping_neg()), zigzag(0)), (2, 1, 0));
    }

    #[test]
    fn what_is_no_varint_is_refused() {
        for bytes in [&[0x80, 0x00][..], &[0xff; 11], &[0x80; 3], &[]] {
            assert!(Cursor::new(bytes).varint().is_err(), "{bytes:?}");
        }
    }
}
