//! What a request costs: a price per kind of request, the same for every size or by a table of sizes.
//!
//! ```text
//!  cost                                    price of a size between two points: on the line between
//!    │                        ╱            them, rounded up to a thousandth of a request
//!    │                    ●──╱  last line  below the first point: the cost of the first
//!    │              ╱───●╱      goes on    above the last point: the last line goes on
//!    │  ───────●───╱
//!    └─────────┴────────┴───┴──── bytes    one point: that cost, whatever the size
//! ```
//!
//! Schedulers, envelopes and admission count in cost: σ and ρ are numbers of requests of cost 1. A model
//! that does not fit the device makes promises wrong by as much, so it can be given per store and volume.
//!
//! The form is that of the curve of NetApp Element's QoS object (size in bytes → cost relative to 4 KiB).
//!
//! Integers only: bytes are 32 bits wide, costs at most [`CostModel::COST_MAX`], so that the product in the
//! line's equation is below 2⁷² and exact. A lookup is a binary search: O(log points), no allocation.

use alloc::boxed::Box;
use core::fmt;

use crate::request::Operation;
use crate::units::Cost;

/// What each kind of request costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostModel {
    prices: [Price; OPERATIONS.len()],
}

/// What one kind of request costs, by its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Price(Curve);

/// The usual price takes no memory of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Curve {
    Flat(Cost),
    /// Two points or more, by size.
    BySize(Box<[Point]>),
}

/// A point of a price: what a request of `bytes` costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// The size of the request in bytes.
    pub bytes: u32,
    /// What it costs.
    pub cost: Cost,
}

/// Why points are no price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CostError {
    /// There is no point.
    NoPoints,
    /// More than [`CostModel::POINTS_MAX`] points.
    TooManyPoints,
    /// The cost of the point at this index is zero.
    Zero(usize),
    /// The point at this index is not larger than the one before it.
    NotAscending(usize),
    /// The point at this index costs less than the one before it.
    Falling(usize),
    /// A request of the largest size, 4 GiB, would cost more than [`CostModel::COST_MAX`].
    TooLarge,
}

/// In the order of [`CostModel::prices`].
const OPERATIONS: [Operation; 5] =
    [Operation::Read, Operation::Write, Operation::Flush, Operation::Trim, Operation::WriteZeroes];

impl CostModel {
    /// Every request costs one, whatever it is: the model of all four papers.
    pub const PER_REQUEST: Self = Self { prices: [const { Price::ONE }; OPERATIONS.len()] };

    /// The largest cost of a request: a billion ordinary ones.
    pub const COST_MAX: Cost = Cost::requests(1_000_000_000);

    /// The most points of a price.
    pub const POINTS_MAX: usize = 64;

    /// The same model with another price for `operation`.
    #[must_use]
    pub fn with(mut self, operation: Operation, price: Price) -> Self {
        self.prices[index(operation)] = price;
        self
    }

    /// What requests of this kind cost.
    #[must_use]
    pub const fn price(&self, operation: Operation) -> &Price {
        &self.prices[index(operation)]
    }

    /// What a request of `length` bytes costs; a flush has a length of 0.
    #[must_use]
    pub fn cost(&self, operation: Operation, length: u32) -> Cost {
        self.price(operation).of(length)
    }

    /// Whether every request costs one.
    #[must_use]
    pub fn is_per_request(&self) -> bool {
        *self == Self::PER_REQUEST
    }
}

impl Default for CostModel {
    fn default() -> Self {
        Self::PER_REQUEST
    }
}

impl Price {
    /// One request, whatever the size.
    pub const ONE: Self = Self(Curve::Flat(Cost::ONE));

    /// The same cost for every size.
    ///
    /// # Errors
    /// If `cost` is zero or above [`CostModel::COST_MAX`].
    pub const fn flat(cost: Cost) -> Result<Self, CostError> {
        if cost.as_millis() == 0 {
            Err(CostError::Zero(0))
        } else if cost.as_millis() > CostModel::COST_MAX.as_millis() {
            Err(CostError::TooLarge)
        } else {
            Ok(Self(Curve::Flat(cost)))
        }
    }

    /// A cost by size, through `points`, as drawn above.
    ///
    /// # Errors
    /// If there is no point or too many, sizes do not ascend, costs fall or are zero, or the largest size
    /// would cost too much.
    pub fn by_size(points: &[Point]) -> Result<Self, CostError> {
        let flat = match points {
            [] => return Err(CostError::NoPoints),
            [only] => return Self::flat(only.cost),
            [first, ..] => points.iter().all(|point| point.cost == first.cost),
        };
        if points.len() > CostModel::POINTS_MAX {
            return Err(CostError::TooManyPoints);
        }
        if let Some(zero) = points.iter().position(|point| point.cost == Cost::ZERO) {
            return Err(CostError::Zero(zero));
        }
        for (before, pair) in points.windows(2).enumerate() {
            if pair[0].bytes >= pair[1].bytes {
                return Err(CostError::NotAscending(before + 1));
            }
            if pair[0].cost > pair[1].cost {
                return Err(CostError::Falling(before + 1));
            }
        }
        let most = points.last().map_or(Cost::ZERO, |last| last.cost);
        let price = if flat { Self::flat(most)? } else { Self(Curve::BySize(points.into())) };
        if most > CostModel::COST_MAX || price.of(u32::MAX) > CostModel::COST_MAX {
            return Err(CostError::TooLarge);
        }
        Ok(price)
    }

    /// The cost of a request of `length` bytes.
    #[must_use]
    pub fn of(&self, length: u32) -> Cost {
        let points = match &self.0 {
            Curve::Flat(cost) => return *cost,
            Curve::BySize(points) => points,
        };
        let above = points.partition_point(|point| point.bytes <= length);
        if above == 0 {
            return points[0].cost;
        }
        // Beyond the last point, the line through the last two goes on.
        let right = above.min(points.len() - 1);
        let (left, right) = (points[right - 1], points[right]);
        let run = u128::from(right.bytes - left.bytes);
        let rise = u128::from(right.cost.as_millis() - left.cost.as_millis());
        let climbed = (u128::from(length - left.bytes) * rise).div_ceil(run);
        let cost = u128::from(left.cost.as_millis()) + climbed;
        Cost::from_millis(u64::try_from(cost).unwrap_or(u64::MAX))
    }

    /// The points that it goes through; none if every size costs the same.
    #[must_use]
    pub const fn points(&self) -> &[Point] {
        match &self.0 {
            Curve::Flat(_) => &[],
            Curve::BySize(points) => points,
        }
    }
}

const fn index(operation: Operation) -> usize {
    match operation {
        Operation::Read => 0,
        Operation::Write => 1,
        Operation::Flush => 2,
        Operation::Trim => 3,
        Operation::WriteZeroes => 4,
    }
}

impl fmt::Display for CostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPoints => f.write_str("there is no size with its cost"),
            Self::TooManyPoints => write!(f, "there are more than {} sizes", CostModel::POINTS_MAX),
            Self::Zero(_) => f.write_str("the cost is zero: a request that costs nothing is held to nothing"),
            Self::NotAscending(_) => f.write_str("the size is not larger than the one before it"),
            Self::Falling(_) => f.write_str("the larger request costs less than the smaller one before it"),
            Self::TooLarge => {
                write!(f, "a request of 4 GiB would cost more than {} requests", CostModel::COST_MAX)
            }
        }
    }
}

impl core::error::Error for CostError {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn point(bytes: u32, millis: u64) -> Point {
        Point { bytes, cost: Cost::from_millis(millis) }
    }

    /// 4 KiB costs 1, 8 KiB 1.6, 16 KiB 2.7: doubling the size costs less than double.
    fn curve() -> Price {
        Price::by_size(&[point(4096, 1_000), point(8192, 1_600), point(16_384, 2_700)]).unwrap()
    }

    #[test]
    fn a_size_between_two_points_is_on_the_line_between_them() {
        let millis = |length| curve().of(length).as_millis();
        assert_eq!([512, 4096, 8192, 16_384].map(millis), [1_000, 1_000, 1_600, 2_700]);
        assert_eq!(millis(6144), 1_300, "half way");
        assert_eq!(millis(12_288), 2_150);
        assert_eq!(millis(24_576), 3_800, "the last line goes on: 1100 for each 8 KiB");
        assert_eq!(millis(1 << 20), 141_300);
        assert_eq!(millis(4097), 1_001, "0.146 of a thousandth is rounded up");
    }

    #[test]
    fn kinds_are_priced_apart() {
        let model = CostModel::PER_REQUEST.with(Operation::Write, curve());
        assert_eq!(model.cost(Operation::Write, 8192), Cost::from_millis(1_600));
        for other in [Operation::Read, Operation::Flush, Operation::Trim, Operation::WriteZeroes] {
            assert_eq!(model.cost(other, 8192), Cost::ONE);
        }
        assert!(!model.is_per_request() && CostModel::default().is_per_request());
    }

    #[test]
    fn what_is_no_price_is_refused() {
        let of = |points: &[Point]| Price::by_size(points).unwrap_err();
        assert_eq!(of(&[]), CostError::NoPoints);
        assert_eq!(of(&[point(1, 0)]), CostError::Zero(0));
        assert_eq!(of(&[point(1, 0), point(2, 5)]), CostError::Zero(0));
        assert_eq!(of(&[point(4, 5), point(4, 6)]), CostError::NotAscending(1));
        assert_eq!(of(&[point(1, 5), point(4, 5), point(2, 5)]), CostError::NotAscending(2));
        assert_eq!(of(&[point(1, 5), point(4, 4)]), CostError::Falling(1));
        assert_eq!(of(&[point(0, 1), point(1, 1_000_000)]), CostError::TooLarge);
        assert_eq!(of(&[point(0, 1), point(1, u64::MAX)]), CostError::TooLarge);
        assert_eq!(of(&[point(0, u64::MAX), point(1, u64::MAX)]), CostError::TooLarge);
        assert_eq!(of(&(0..65).map(|i| point(i, i.into())).collect::<Vec<_>>()), CostError::TooManyPoints);
        assert_eq!(Price::flat(Cost::ZERO), Err(CostError::Zero(0)));
        assert_eq!(Price::flat(Cost::from_millis(u64::MAX)), Err(CostError::TooLarge));
    }

    /// The naive reference: walk along the points, one line after the other.
    fn walked(points: &[Point], length: u32) -> u64 {
        if length <= points[0].bytes || points.len() == 1 {
            return points[0].cost.as_millis();
        }
        let lines: Vec<_> = points.windows(2).collect();
        let line = lines.iter().find(|pair| length <= pair[1].bytes).or(lines.last()).unwrap();
        let (x, y) = (u128::from(line[0].bytes), u128::from(line[0].cost.as_millis()));
        let (dx, dy) = (u128::from(line[1].bytes) - x, u128::from(line[1].cost.as_millis()) - y);
        let exact = y * dx + (u128::from(length) - x) * dy;
        u64::try_from(exact.div_ceil(dx)).unwrap()
    }

    proptest! {
        #[test]
        fn it_is_the_line_rounded_up_and_never_falls(
            steps in prop::collection::vec((1_u32..1_000_000, 0_u64..1_000_000), 1..20),
            lengths in prop::collection::vec(0_u32..40_000_000, 1..50),
        ) {
            let (mut bytes, mut cost) = (0, 1);
            let points: Vec<Point> = steps.iter().map(|(size, more)| {
                (bytes, cost) = (bytes + size, cost + more);
                point(bytes, cost)
            }).collect();
            // Steep ends are refused, and rightly.
            if let Ok(price) = Price::by_size(&points) {
                let mut lengths = lengths;
                lengths.sort_unstable();
                let costs: Vec<u64> = lengths.iter().map(|length| price.of(*length).as_millis()).collect();
                for (length, cost) in lengths.iter().zip(&costs) {
                    prop_assert_eq!(*cost, walked(&points, *length));
                }
                prop_assert!(costs.is_sorted());
                for point in &points {
                    prop_assert_eq!(price.of(point.bytes), point.cost);
                }
            }
        }
    }
}
