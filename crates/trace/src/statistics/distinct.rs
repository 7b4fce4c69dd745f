//! How many different blocks there are, without keeping them.

const BITS: u32 = 14;
const REGISTERS: usize = 1 << BITS;

/// HyperLogLog (Flajolet et al., AofA 2007) with 2^14 registers of a byte and linear counting for small
/// numbers; standard error 1.04 / √2^14 = 0.8 %.
///
/// ```text
///  hash: [ 14 bits: register | 50 bits: position of the first 1 ]
/// ```
#[derive(Clone, Debug)]
pub struct Distinct {
    registers: Box<[u8]>,
}

impl Distinct {
    pub(super) fn new() -> Self {
        Self { registers: vec![0; REGISTERS].into_boxed_slice() }
    }

    pub(super) fn add(&mut self, volume: u32, block: u64) {
        let hash = mixed(block ^ u64::from(volume).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17));
        let register = (hash >> (64 - BITS)) as usize;
        let rest = hash << BITS | 1 << (BITS - 1);
        let rank = rest.leading_zeros() as u8 + 1;
        self.registers[register] = self.registers[register].max(rank);
    }

    /// The number of different blocks, estimated.
    #[must_use]
    pub fn estimate(&self) -> u64 {
        let count = REGISTERS as f64;
        let sum: f64 = self.registers.iter().map(|rank| 1.0 / (1_u64 << rank) as f64).sum();
        let raw = 0.7213 / (1.0 + 1.079 / count) * count * count / sum;
        let empty = self.registers.iter().filter(|rank| **rank == 0).count();
        let small = raw <= 2.5 * count && empty > 0;
        let estimate = if small { count * (count / empty as f64).ln() } else { raw };
        estimate.round() as u64
    }
}

/// The finaliser of splitmix64 (Steele et al., OOPSLA 2014).
fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_stay_close() {
        let mut distinct = Distinct::new();
        let mut next = 10_u64;
        for block in 0..3_000_000_u64 {
            distinct.add((block % 3) as u32, block * 8);
            if block + 1 == next {
                let error = distinct.estimate() as f64 / next as f64 - 1.0;
                assert!(error.abs() < 0.03, "{next}: {error}");
                next *= 4;
            }
        }
    }
}
