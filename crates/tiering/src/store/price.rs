//! What copies cost, and how long they may be beside promises.
//!
//! ```text
//!  cluster  │ piece │ piece │ piece │ …      piece: neither its read nor its write costs more than the
//!              └ cost: its read + its write         dearest request of a volume, so none waits for more
//! ```

use evenkeel_core::{Cost, CostModel, Operation};

/// What copying `length` bytes costs under `model`: the read of one device and the write of the other.
#[must_use]
pub fn copy_cost(model: &CostModel, length: u32) -> Cost {
    let [read, write] = both(model, length);
    Cost::from_millis(read.as_millis().saturating_add(write.as_millis()))
}

/// The most bytes of one copy, up to `max`, of which neither the read nor the write costs more than
/// `dearest`, what the dearest request of a volume costs: no request then waits behind a copy for longer than
/// it might behind another request. Whole blocks of `block_bytes`, and one of them even if that costs more.
#[must_use]
pub fn longest_copy(model: &CostModel, block_bytes: u32, max: u32, dearest: Cost) -> u32 {
    // Costs never fall with the size, so the longest one is found by halving.
    let (mut fits, mut least_unfit) = (1, u64::from(max / block_bytes.max(1)) + 1);
    while fits + 1 < least_unfit {
        let middle = fits.midpoint(least_unfit);
        let length = (middle * u64::from(block_bytes)) as u32;
        if both(model, length).into_iter().all(|cost| cost <= dearest) {
            fits = middle;
        } else {
            least_unfit = middle;
        }
    }
    (fits * u64::from(block_bytes)) as u32
}

fn both(model: &CostModel, length: u32) -> [Cost; 2] {
    [Operation::Read, Operation::Write].map(|operation| model.cost(operation, length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::{Point, Price};
    use proptest::prelude::*;

    const KIB: u32 = 1 << 10;

    /// Reads cost 1 at 4 KiB and 1 more per 32 KiB beyond; writes twice as much.
    fn by_size() -> CostModel {
        let price = |factor: u64| {
            let point = |kib: u32, cost| Point { bytes: kib * KIB, cost: Cost::requests(factor * cost) };
            Price::by_size(&[point(4, 1), point(36, 2), point(68, 3)]).expect("a price")
        };
        CostModel::PER_REQUEST.with(Operation::Read, price(1)).with(Operation::Write, price(2))
    }

    #[test]
    fn a_copy_costs_its_read_and_its_write() {
        assert_eq!(copy_cost(&CostModel::PER_REQUEST, 128 * KIB), Cost::requests(2));
        assert_eq!(copy_cost(&by_size(), 4 * KIB), Cost::requests(3));
        assert_eq!(copy_cost(&by_size(), 68 * KIB), Cost::requests(9));
        // A cluster of 1 MiB in pieces of 36 KiB: 28 whole ones and one of 16 KiB.
        let pieces = [vec![36; 28], vec![16]].concat();
        let all: u64 = pieces.iter().map(|kib| copy_cost(&by_size(), kib * KIB).as_millis()).sum();
        assert_eq!(all, 28 * 6_000 + 4_125);
    }

    #[test]
    fn a_copy_is_no_dearer_than_the_dearest_request() {
        let longest = |dearest| longest_copy(&by_size(), 4 * KIB, 128 * KIB, Cost::requests(dearest));
        assert_eq!(longest(4), 36 * KIB, "the write decides");
        assert_eq!(longest(6), 68 * KIB);
        assert_eq!(longest(1_000), 128 * KIB);
        assert_eq!(longest(1), 4 * KIB, "less than a block cannot be copied");
        let flat = longest_copy(&CostModel::PER_REQUEST, 4 * KIB, 128 * KIB, Cost::ONE);
        assert_eq!(flat, 128 * KIB);
    }

    proptest! {
        /// Beside a search from the top.
        #[test]
        fn halving_finds_the_longest(blocks in 1u32..80, block_kib in 1u32..16, dearest in 1u64..40) {
            let (block, dearest) = (block_kib * KIB, Cost::requests(dearest));
            let fits = |blocks: &u32| both(&by_size(), blocks * block).into_iter().all(|cost| cost <= dearest);
            let naive = (1..=blocks).rev().find(fits).unwrap_or(1);
            prop_assert_eq!(longest_copy(&by_size(), block, blocks * block, dearest), naive * block);
        }
    }
}
