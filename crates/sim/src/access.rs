//! Where requests go: addresses, sizes and directions.
//!
//! ```text
//!  region   offset ├──────────────── extent ────────────────┤
//!  random          │      ■        ■   ■             ■      │   any block, multiples of the smallest size
//!  sequential      │■■■■■■─>                                │   from the start, again when the end is reached
//!  mixed           │   ■■■─>           ■■■■─>               │   goes on with probability p, else jumps
//!  zipf            │  ■   ■■    ■      ■■■■■     ■          │   few blocks get most of it, spread out
//! ```

use evenkeel_core::{Cost, CostModel, Operation};

use crate::random::Random;

/// What the requests of a source ask for.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// First byte of the region.
    pub offset: u64,
    /// Bytes of the region; at least the largest size.
    pub extent: u64,
    /// Sizes in bytes with their weights; at least one, and no weight or size is 0.
    pub sizes: Vec<(u32, u32)>,
    /// The share of reads, 0 to 1; the rest are writes.
    pub read: f64,
    /// How addresses follow each other.
    pub pattern: Pattern,
}

/// How addresses follow each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// Uniformly over the region.
    Random,
    /// Each where the last one ended.
    Sequential,
    /// Where the last one ended with this probability, otherwise at random.
    Mixed(f64),
    /// The k-th most popular block with a probability in proportion to k^−θ; θ above 0, 0.99 in YCSB.
    Zipf(f64),
}

impl Default for Access {
    /// Random reads of 4 KiB over the first GiB.
    fn default() -> Self {
        Self { offset: 0, extent: 1 << 30, sizes: vec![(4096, 1)], read: 1.0, pattern: Pattern::Random }
    }
}

impl Access {
    /// What the dearest of its requests costs.
    pub(crate) fn dearest(&self, model: &CostModel) -> Cost {
        let operations = [(Operation::Read, self.read > 0.0), (Operation::Write, self.read < 1.0)];
        let costs = operations
            .into_iter()
            .filter(|(_, occurs)| *occurs)
            .flat_map(|(operation, _)| self.sizes.iter().map(move |(size, _)| model.cost(operation, *size)));
        costs.max().unwrap_or(Cost::ZERO)
    }
}

/// Draws what an [`Access`] describes.
#[derive(Debug)]
pub(crate) struct Accesses {
    access: Access,
    weights: u64,
    /// The block that addresses are multiples of.
    block: u64,
    /// Where the next sequential request begins, within the region.
    cursor: u64,
    zipf: Option<Zipf>,
}

impl Accesses {
    pub(crate) fn new(access: Access) -> Self {
        let weights = access.sizes.iter().map(|(_, weight)| u64::from(*weight)).sum();
        let block = access.sizes.iter().map(|(size, _)| u64::from(*size)).min().unwrap_or(1).max(1);
        let blocks = (access.extent / block).max(1);
        let zipf = match access.pattern {
            Pattern::Zipf(theta) => Some(Zipf::new(blocks, theta)),
            _ => None,
        };
        Self { access, weights, block, cursor: 0, zipf }
    }

    /// Operation, first byte and length of the next request.
    pub(crate) fn draw(&mut self, random: &mut Random) -> (Operation, u64, u32) {
        let read = self.access.read;
        let is_read = read >= 1.0 || (read > 0.0 && random.happens(read));
        let size = self.size(random);
        let length = u64::from(size);
        let start = match self.access.pattern {
            Pattern::Sequential => self.cursor,
            Pattern::Mixed(probability) if random.happens(probability) => self.cursor,
            Pattern::Random | Pattern::Mixed(_) => self.anywhere(length, random),
            Pattern::Zipf(_) => {
                let block = self.zipf.as_ref().map_or(0, |zipf| zipf.draw(random));
                block * self.block
            }
        };
        let start = if start + length > self.access.extent { 0 } else { start };
        self.cursor = start + length;
        (if is_read { Operation::Read } else { Operation::Write }, self.access.offset + start, size)
    }

    fn size(&self, random: &mut Random) -> u32 {
        let mut left = if self.access.sizes.len() > 1 { random.below(self.weights) } else { 0 };
        for (size, weight) in &self.access.sizes {
            match left.checked_sub(u64::from(*weight)) {
                Some(less) => left = less,
                None => return *size,
            }
        }
        0
    }

    fn anywhere(&self, length: u64, random: &mut Random) -> u64 {
        let places = self.access.extent.saturating_sub(length) / self.block + 1;
        random.below(places) * self.block
    }
}

/// Zipf's law over 1..=n by rejection-inversion, without a table (Hörmann, Derflinger: "Rejection-inversion
/// to generate variates from monotone discrete distributions", TOMACS 1996), for any exponent above 0.
#[derive(Debug)]
struct Zipf {
    count: u64,
    theta: f64,
    /// H(1.5) − 1, H(n + 0.5) and the bound below which the first try is always good.
    low: f64,
    high: f64,
    sure: f64,
    /// Ranks are spread over the blocks by multiplication with this, which shares no factor with n.
    stride: u64,
}

impl Zipf {
    fn new(count: u64, theta: f64) -> Self {
        let mut zipf = Self { count, theta, low: 0.0, high: 0.0, sure: 0.0, stride: coprime_to(count) };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(count as f64 + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.mass(2.0));
        zipf
    }

    /// A block from 0 to n − 1.
    fn draw(&self, random: &mut Random) -> u64 {
        let rank = self.rank(random);
        (u128::from(rank - 1) * u128::from(self.stride) % u128::from(self.count)) as u64
    }

    fn rank(&self, random: &mut Random) -> u64 {
        loop {
            let u = self.high + random.unit() * (self.low - self.high);
            let x = self.inverse(u);
            let rank = libm::floor(x + 0.5).clamp(1.0, self.count as f64);
            if rank - x <= self.sure || u >= self.integral(rank + 0.5) - self.mass(rank) {
                return rank as u64;
            }
        }
    }

    /// k^−θ.
    fn mass(&self, x: f64) -> f64 {
        libm::exp(-self.theta * libm::log(x))
    }

    /// ∫ t^−θ dt from 1 to x = (x^(1−θ) − 1) / (1 − θ), and its limit log x at θ = 1.
    fn integral(&self, x: f64) -> f64 {
        let (log, rest) = (libm::log(x), 1.0 - self.theta);
        if rest == 0.0 { log } else { libm::expm1(rest * log) / rest }
    }

    fn inverse(&self, u: f64) -> f64 {
        let rest = 1.0 - self.theta;
        // Rounding may take the argument just below −1, where the logarithm ends.
        if rest == 0.0 { libm::exp(u) } else { libm::exp(libm::log1p((u * rest).max(-1.0)) / rest) }
    }
}

/// A number near 0.618 n that shares no factor with n.
fn coprime_to(n: u64) -> u64 {
    let mut candidate = ((u128::from(n) * 618_033_989) / 1_000_000_000) as u64;
    candidate = candidate.max(1);
    while gcd(candidate, n) != 1 {
        candidate += 1;
    }
    candidate
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn drawn(access: Access, count: usize) -> Vec<(Operation, u64, u32)> {
        let mut accesses = Accesses::new(access);
        let mut random = Random::new(3, &[]);
        (0..count).map(|_| accesses.draw(&mut random)).collect()
    }

    #[test]
    fn sequential_requests_follow_each_other_and_start_again() {
        let access =
            Access { offset: 100, extent: 12_288, pattern: Pattern::Sequential, ..Access::default() };
        let offsets: Vec<u64> = drawn(access, 5).iter().map(|(_, offset, _)| *offset).collect();
        assert_eq!(offsets, [100, 4_196, 8_292, 100, 4_196]);
    }

    #[test]
    fn reads_and_sizes_come_in_their_shares() {
        let access = Access { read: 0.25, sizes: vec![(4096, 3), (65_536, 1)], ..Access::default() };
        let requests = drawn(access, 40_000);
        let reads = requests.iter().filter(|(operation, ..)| *operation == Operation::Read).count();
        let large = requests.iter().filter(|(.., size)| *size == 65_536).count();
        assert!((9_700..10_300).contains(&reads), "{reads}");
        assert!((9_700..10_300).contains(&large), "{large}");
    }

    #[test]
    fn mixed_goes_on_as_often_as_asked() {
        let access = Access { pattern: Pattern::Mixed(0.8), ..Access::default() };
        let requests = drawn(access, 20_000);
        let on = requests.windows(2).filter(|pair| pair[1].1 == pair[0].1 + 4096).count();
        assert!((15_700..16_300).contains(&on), "{on}");
    }

    #[test]
    fn zipf_has_the_frequencies_of_its_law() {
        for theta in [0.5, 0.99, 1.0, 1.5] {
            let zipf = Zipf::new(1_000, theta);
            let mut random = Random::new(5, &[]);
            let mut counts = vec![0_u32; 1_001];
            let draws = 400_000;
            (0..draws).for_each(|_| counts[zipf.rank(&mut random) as usize] += 1);
            let total: f64 = (1..=1_000).map(|k| f64::from(k).powf(-theta)).sum();
            for rank in [1, 2, 3, 10] {
                let expected = f64::from(rank).powf(-theta) / total;
                let seen = f64::from(counts[rank as usize]) / f64::from(draws);
                let error = 4.0 * (expected / f64::from(draws)).sqrt();
                assert!((seen - expected).abs() < error, "θ {theta}, rank {rank}: {seen} for {expected}");
            }
        }
    }

    #[test]
    fn ranks_are_spread_one_to_one() {
        for count in [1, 2, 12, 1_000, 4_096] {
            let stride = coprime_to(count);
            let mut blocks: Vec<u64> = (0..count).map(|rank| rank * stride % count).collect();
            blocks.sort_unstable();
            assert_eq!(blocks, (0..count).collect::<Vec<_>>());
        }
    }

    proptest! {
        #[test]
        fn every_request_lies_within_the_region(
            offset in 0_u64..1 << 40,
            extent in 1_u64 << 17..1 << 30,
            theta in 0.01_f64..3.0,
            pattern in 0..4,
        ) {
            let pattern = match pattern {
                0 => Pattern::Random,
                1 => Pattern::Sequential,
                2 => Pattern::Mixed(0.5),
                _ => Pattern::Zipf(theta),
            };
            let access = Access { offset, extent, pattern, sizes: vec![(512, 1), (131_072, 1)], read: 0.5 };
            for (_, start, size) in drawn(access, 200) {
                prop_assert!(start >= offset && start + u64::from(size) <= offset + extent);
            }
        }
    }
}
