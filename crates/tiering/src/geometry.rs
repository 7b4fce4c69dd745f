//! How the store's address space is cut: clusters, of which each consists of blocks.
//!
//! ```text
//!  store   |   cluster 0   |   cluster 1   |   cluster 2   | ...       placement is decided per cluster
//!          | b0 b1 b2 … bn | b0 b1 b2 … bn | ...                       location is kept per block
//!  fast    |    slot 0     |    slot 1     | ...                       a slot has room for one cluster
//! ```

use std::fmt;

/// A fixed run of [`Geometry::cluster_bytes`] bytes of the store, numbered from 0.
pub type Cluster = u64;

/// Room for one cluster on the fast device, numbered from 0.
pub type Slot = u32;

/// The most blocks that a cluster may have: a set of them is four machine words.
pub const BLOCKS_PER_CLUSTER_MAX: u32 = 256;

/// Cluster and block size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    cluster_bytes: u32,
    block_bytes: u32,
}

/// Why a geometry was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// The block is not a power of two of at least 512 bytes.
    #[error("block size {0}: must be a power of two of at least 512 bytes")]
    Block(u32),
    /// The cluster is not a power of two from one block to 256 blocks.
    #[error(
        "cluster size {cluster}: must be a power of two from {block} (one block) to {max} bytes (256 blocks)"
    )]
    Cluster {
        /// Bytes of the cluster that was asked for.
        cluster: u32,
        /// Bytes of a block.
        block: u32,
        /// The largest cluster for this block.
        max: u64,
    },
}

/// The part of a request that lies in one cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Which cluster.
    pub cluster: Cluster,
    /// First byte, within the cluster.
    pub start: u32,
    /// Number of bytes, at least 1.
    pub length: u32,
}

impl Geometry {
    /// Clusters of `cluster_bytes`, located in blocks of `block_bytes`.
    ///
    /// # Errors
    /// [`GeometryError`] if either is not a power of two, a block has less than 512 bytes, or a
    /// cluster is not 1 to 256 blocks.
    pub fn new(cluster_bytes: u32, block_bytes: u32) -> Result<Self, GeometryError> {
        if block_bytes < 512 || !block_bytes.is_power_of_two() {
            return Err(GeometryError::Block(block_bytes));
        }
        let max = u64::from(block_bytes) * u64::from(BLOCKS_PER_CLUSTER_MAX);
        if !cluster_bytes.is_power_of_two() || cluster_bytes < block_bytes || u64::from(cluster_bytes) > max {
            return Err(GeometryError::Cluster { cluster: cluster_bytes, block: block_bytes, max });
        }
        Ok(Self { cluster_bytes, block_bytes })
    }

    /// Bytes of a cluster.
    #[must_use]
    pub const fn cluster_bytes(self) -> u32 {
        self.cluster_bytes
    }

    /// Bytes of a block.
    #[must_use]
    pub const fn block_bytes(self) -> u32 {
        self.block_bytes
    }

    /// Blocks of a cluster.
    #[must_use]
    pub const fn blocks(self) -> u32 {
        self.cluster_bytes / self.block_bytes
    }

    /// How many whole clusters fit on a fast device of `bytes`.
    #[must_use]
    pub fn slots(self, bytes: u64) -> Slot {
        u32::try_from(bytes / u64::from(self.cluster_bytes)).unwrap_or(u32::MAX - 1).min(u32::MAX - 1)
    }

    /// The cluster of the byte at `offset`.
    #[must_use]
    pub const fn cluster_of(self, offset: u64) -> Cluster {
        offset >> self.cluster_bytes.trailing_zeros()
    }

    /// First byte of `cluster` on the slow device.
    #[must_use]
    pub const fn offset_of(self, cluster: Cluster) -> u64 {
        cluster << self.cluster_bytes.trailing_zeros()
    }

    /// First byte of `slot` on the fast device.
    #[must_use]
    pub const fn slot_offset(self, slot: Slot) -> u64 {
        (slot as u64) << self.cluster_bytes.trailing_zeros()
    }

    /// Cuts `length` bytes from `offset` at the borders of clusters, in order; nothing for length 0.
    pub fn stretches(self, offset: u64, length: u32) -> impl Iterator<Item = Stretch> {
        let end = offset + u64::from(length);
        let mut at = offset;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let cluster = self.cluster_of(at);
            let stop = end.min(self.offset_of(cluster + 1));
            let start = (at - self.offset_of(cluster)) as u32;
            let length = (stop - at) as u32;
            at = stop;
            Some(Stretch { cluster, start, length })
        })
    }

    /// Blocks that `stretch` touches, wholly or in part.
    #[must_use]
    pub fn touched(self, stretch: &Stretch) -> Blocks {
        let first = stretch.start / self.block_bytes;
        let last = (stretch.start + stretch.length - 1) / self.block_bytes;
        Blocks::range(first, last + 1)
    }

    /// Blocks that `stretch` covers from their first byte to their last.
    #[must_use]
    pub fn covered(self, stretch: &Stretch) -> Blocks {
        let first = stretch.start.div_ceil(self.block_bytes);
        let end = (stretch.start + stretch.length) / self.block_bytes;
        Blocks::range(first, end.max(first))
    }

    /// Blocks of `cluster` that lie wholly within a store of `store_bytes`.
    #[must_use]
    pub fn inside(self, cluster: Cluster, store_bytes: u64) -> Blocks {
        let left = store_bytes.saturating_sub(self.offset_of(cluster));
        let blocks = (left / u64::from(self.block_bytes)).min(u64::from(self.blocks()));
        Blocks::range(0, blocks as u32)
    }

    /// Every block of a cluster.
    #[must_use]
    pub fn whole(self) -> Blocks {
        Blocks::range(0, self.blocks())
    }
}

/// A set of blocks of one cluster.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Blocks(pub(crate) [u64; 4]);

impl Blocks {
    /// No block.
    pub const NONE: Self = Self([0; 4]);

    /// Blocks `first` to `end - 1`.
    ///
    /// # Panics
    /// If `end` is above [`BLOCKS_PER_CLUSTER_MAX`].
    #[must_use]
    pub fn range(first: u32, end: u32) -> Self {
        assert!(end <= BLOCKS_PER_CLUSTER_MAX, "a cluster has at most 256 blocks");
        let below = |n: u32| {
            std::array::from_fn::<u64, 4, _>(|word| {
                let bits = n.saturating_sub(word as u32 * 64).min(64);
                if bits == 64 { u64::MAX } else { (1 << bits) - 1 }
            })
        };
        Self(below(end)).without(Self(below(first)))
    }

    /// The set from its four words, lowest blocks first.
    #[must_use]
    pub const fn from_words(words: [u64; 4]) -> Self {
        Self(words)
    }

    /// The set as four words, lowest blocks first.
    #[must_use]
    pub const fn words(self) -> [u64; 4] {
        self.0
    }

    /// Whether `block` is in the set.
    #[must_use]
    pub const fn contains(self, block: u32) -> bool {
        self.0[(block / 64) as usize] >> (block % 64) & 1 == 1
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == [0; 4]
    }

    /// How many blocks it holds.
    #[must_use]
    pub fn count(self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Blocks of either.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    /// Blocks of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    /// Blocks of this one that are not in `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & !other.0[i]))
    }

    /// Runs of neighbouring blocks as `(first, end)`, in order.
    pub fn runs(self, blocks: u32) -> impl Iterator<Item = (u32, u32)> {
        let mut at = 0;
        std::iter::from_fn(move || {
            while at < blocks && !self.contains(at) {
                at += 1;
            }
            if at >= blocks {
                return None;
            }
            let first = at;
            while at < blocks && self.contains(at) {
                at += 1;
            }
            Some((first, at))
        })
    }
}

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.runs(BLOCKS_PER_CLUSTER_MAX).map(|(first, end)| format!("{first}..{end}")))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn geometry() -> Geometry {
        Geometry::new(16 * 4096, 4096).expect("valid")
    }

    #[test]
    fn sizes_that_do_not_fit_each_other_are_refused() {
        assert_eq!(Geometry::new(65536, 1000), Err(GeometryError::Block(1000)));
        assert_eq!(Geometry::new(65536, 256), Err(GeometryError::Block(256)));
        assert!(matches!(Geometry::new(65536 + 4096, 4096), Err(GeometryError::Cluster { .. })));
        assert!(matches!(Geometry::new(2048, 4096), Err(GeometryError::Cluster { .. })));
        assert!(matches!(Geometry::new(512 * 512, 512), Err(GeometryError::Cluster { max: 131_072, .. })));
        assert!(Geometry::new(4096, 4096).is_ok());
    }

    #[test]
    fn a_request_over_a_border_is_cut_there() {
        let cuts: Vec<_> = geometry().stretches(65536 - 512, 1024).collect();
        assert_eq!(
            cuts,
            [
                Stretch { cluster: 0, start: 65536 - 512, length: 512 },
                Stretch { cluster: 1, start: 0, length: 512 }
            ]
        );
        assert_eq!(geometry().stretches(5, 0).count(), 0);
        assert!(geometry().covered(&cuts[0]).is_empty());
        assert_eq!(geometry().touched(&cuts[0]), Blocks::range(15, 16));
    }

    proptest! {
        #[test]
        fn stretches_are_the_request(offset in 0u64..1 << 40, length in 0u32..1 << 25) {
            let geometry = geometry();
            let mut at = offset;
            for stretch in geometry.stretches(offset, length) {
                prop_assert_eq!(geometry.offset_of(stretch.cluster) + u64::from(stretch.start), at);
                prop_assert!(stretch.length > 0 && stretch.start + stretch.length <= 65536);
                at += u64::from(stretch.length);
            }
            prop_assert_eq!(at, offset + u64::from(length));
        }

        #[test]
        fn sets_are_as_their_members_say(a in any::<[u64; 4]>(), b in any::<[u64; 4]>(), first in 0u32..=256, length in 0u32..=256) {
            let (x, y) = (Blocks(a), Blocks(b));
            let range = Blocks::range(first, (first + length).min(256));
            for block in 0..256 {
                prop_assert_eq!(x.with(y).contains(block), x.contains(block) || y.contains(block));
                prop_assert_eq!(x.and(y).contains(block), x.contains(block) && y.contains(block));
                prop_assert_eq!(x.without(y).contains(block), x.contains(block) && !y.contains(block));
                prop_assert_eq!(range.contains(block), block >= first && block < first + length);
            }
            let runs: u32 = x.runs(256).map(|(first, end)| end - first).sum();
            prop_assert_eq!(runs, x.count());
            prop_assert_eq!(x.count(), (0..256).filter(|&block| x.contains(block)).count() as u32);
        }
    }
}
