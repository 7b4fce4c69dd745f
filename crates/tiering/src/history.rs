//! What is known of each cluster: how it was read and written so far, in bounded memory.
//!
//! ```text
//!  cluster ─> History { random reads, sequential reads, writes }     at most `clusters_max` of them,
//!             oldest access first <───────────────> newest           the one not used for longest goes
//!
//!  flow ─> cluster of its previous request                           tells sequential from random
//! ```
//! Source: Jain 2008, sections 3.3.1.1 and 5.2. A request is *sequential* if its cluster is the same as,
//! or next to, that of the flow's previous request. Counts are halved together when one would leave
//! its range, so that ratios stay and old times fade.

use evenkeel_core::FlowId;
use hashlink::LinkedHashMap;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::geometry::Cluster;

/// Counts of one cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Reads that came from elsewhere.
    pub random_reads: u32,
    /// Reads that came from the same cluster or one beside it.
    pub sequential_reads: u32,
    /// Writes.
    pub writes: u32,
}

impl History {
    /// Reads of both kinds.
    #[must_use]
    pub const fn reads(&self) -> u32 {
        self.random_reads + self.sequential_reads
    }

    /// Counts one access.
    pub fn count(&mut self, is_write: bool, is_sequential: bool) {
        if self.reads().max(self.writes) >= u32::MAX / 2 {
            self.random_reads /= 2;
            self.sequential_reads /= 2;
            self.writes /= 2;
        }
        match (is_write, is_sequential) {
            (true, _) => self.writes += 1,
            (false, true) => self.sequential_reads += 1,
            (false, false) => self.random_reads += 1,
        }
    }
}

/// Tells sequential requests from random ones: one number per flow.
#[derive(Clone, Debug, Default)]
pub struct Heads {
    last: FxHashMap<FlowId, Cluster>,
}

impl Heads {
    /// Whether a request of `flow` to `cluster` is sequential; it becomes the flow's previous request.
    /// The first request of a flow is random.
    pub fn is_sequential(&mut self, flow: FlowId, cluster: Cluster) -> bool {
        let last = self.last.insert(flow, cluster);
        last.is_some_and(|last| last.abs_diff(cluster) <= 1)
    }

    /// Forgets a flow that has gone.
    pub fn remove(&mut self, flow: FlowId) {
        self.last.remove(&flow);
    }
}

/// Histories of the clusters used most recently.
#[derive(Clone, Debug)]
pub struct Histories<T> {
    clusters: LinkedHashMap<Cluster, T, FxBuildHasher>,
    max: usize,
}

impl<T: Default> Histories<T> {
    /// Room for `clusters_max` clusters, at least one.
    #[must_use]
    pub fn new(clusters_max: usize) -> Self {
        Self { clusters: LinkedHashMap::with_hasher(FxBuildHasher), max: clusters_max.max(1) }
    }

    /// What is kept of `cluster`, which becomes the newest; and the cluster that had to go for it.
    pub fn touch(&mut self, cluster: Cluster) -> (&mut T, Option<(Cluster, T)>) {
        let mut gone = None;
        if self.clusters.to_back(&cluster).is_none() {
            if self.clusters.len() >= self.max {
                gone = self.clusters.pop_front();
            }
            self.clusters.insert(cluster, T::default());
        }
        // Without another look-up: it is the last one now.
        let (_, entry) = self.clusters.iter_mut().next_back().expect("it was moved or put there");
        (entry, gone)
    }

    /// What is kept of `cluster`, without making it newer.
    #[must_use]
    pub fn peek(&self, cluster: Cluster) -> Option<&T> {
        self.clusters.get(&cluster)
    }

    /// How many clusters are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.clusters.len()
    }

    /// Whether none is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.clusters.is_empty()
    }

    /// All known clusters, the one not used for longest first.
    pub fn iter(&self) -> impl Iterator<Item = (Cluster, &T)> {
        self.clusters.iter().map(|(&cluster, entry)| (cluster, entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequential_is_the_same_cluster_or_a_neighbour_of_the_same_flow() {
        let mut heads = Heads::default();
        let (a, b) = (FlowId(1), FlowId(2));
        assert!(!heads.is_sequential(a, 10), "the first one came from nowhere");
        assert!(heads.is_sequential(a, 10) && heads.is_sequential(a, 11) && heads.is_sequential(a, 10));
        assert!(!heads.is_sequential(b, 11), "another flow's head is elsewhere");
        assert!(!heads.is_sequential(a, 12));
    }

    #[test]
    fn counts_fade_together() {
        let mut history = History { random_reads: u32::MAX / 2, sequential_reads: 0, writes: 100 };
        history.count(true, false);
        assert_eq!(history, History { random_reads: u32::MAX / 4, sequential_reads: 0, writes: 51 });
    }

    #[test]
    fn the_cluster_unused_for_longest_makes_room() {
        let mut histories: Histories<u32> = Histories::new(2);
        for cluster in [1, 2] {
            assert!(histories.touch(cluster).1.is_none());
        }
        *histories.touch(1).0 = 5;
        assert_eq!(histories.touch(3).1, Some((2, 0)));
        assert_eq!((histories.len(), histories.peek(1)), (2, Some(&5)));
    }
}
