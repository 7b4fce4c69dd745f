//! Yardstick: adaptive replacement, which balances recency against frequency by itself.
//!
//! ```text
//!        seen once                    seen again
//!  B1 (ghosts) <── T1 │ T2 ──> B2 (ghosts)          |T1| + |T2| ≤ c: on flash
//!                   <─ p                            a hit in B1 raises the target p of T1, one in B2 lowers it
//! ```
//! Source: Megiddo and Modha, "ARC: a self-tuning, low overhead replacement cache", FAST 2003, figure 4,
//! with clusters for pages. Reads in sequence pass by what is not on flash yet, as under [`super::Lru`].

use hashlink::LinkedHashMap;
use rustc_hash::FxBuildHasher;

use super::{Access, Advice, Policy, Residence, Tier};
use crate::geometry::Cluster;

type List = LinkedHashMap<Cluster, (), FxBuildHasher>;

/// Adaptive replacement cache.
#[derive(Clone, Debug, Default)]
pub struct Arc {
    once: List,
    again: List,
    once_ghosts: List,
    again_ghosts: List,
    /// How many of the slots `once` should have.
    target: usize,
}

impl Arc {
    /// REPLACE of figure 4: the cluster that leaves the cache.
    fn replace(&mut self, is_again_ghost: bool) -> Option<Cluster> {
        let once = self.once.len();
        let from_once = once > 0 && (once > self.target || (is_again_ghost && once == self.target));
        let (list, ghosts) = if from_once || self.again.is_empty() {
            (&mut self.once, &mut self.once_ghosts)
        } else {
            (&mut self.again, &mut self.again_ghosts)
        };
        let (cluster, ()) = list.pop_front()?;
        ghosts.insert(cluster, ());
        Some(cluster)
    }

    /// Takes `cluster` in and says who leaves.
    fn request(&mut self, cluster: Cluster, capacity: usize) -> Option<Cluster> {
        if self.once.remove(&cluster).is_some() || self.again.remove(&cluster).is_some() {
            self.again.insert(cluster, ());
            return None;
        }
        let (b1, b2) = (self.once_ghosts.len(), self.again_ghosts.len());
        let is_full = self.once.len() + self.again.len() >= capacity;
        if self.once_ghosts.remove(&cluster).is_some() {
            self.target = (self.target + (b2 / b1).max(1)).min(capacity);
            let out = if is_full { self.replace(false) } else { None };
            self.again.insert(cluster, ());
            return out;
        }
        if self.again_ghosts.remove(&cluster).is_some() {
            self.target = self.target.saturating_sub((b1 / b2).max(1));
            let out = if is_full { self.replace(true) } else { None };
            self.again.insert(cluster, ());
            return out;
        }
        let out = self.make_room(capacity);
        self.once.insert(cluster, ());
        out
    }

    /// Case IV of figure 4: a cluster that no list knows.
    fn make_room(&mut self, capacity: usize) -> Option<Cluster> {
        let first = self.once.len() + self.once_ghosts.len();
        let all = first + self.again.len() + self.again_ghosts.len();
        if first >= capacity {
            if self.once.len() < capacity {
                self.once_ghosts.pop_front();
                return if self.once.len() + self.again.len() >= capacity {
                    self.replace(false)
                } else {
                    None
                };
            }
            return self.once.pop_front().map(|(cluster, ())| cluster);
        }
        if all >= capacity {
            if all >= 2 * capacity {
                self.again_ghosts.pop_front();
            }
            if self.once.len() + self.again.len() >= capacity {
                return self.replace(false);
            }
        }
        None
    }
}

impl Policy for Arc {
    fn on_access(&mut self, access: &Access, residence: Residence) -> Advice {
        let capacity = residence.slots as usize;
        if capacity == 0 {
            return Advice { write_to: Some(Tier::Slow), ..Advice::default() };
        }
        if access.passes_by(residence) {
            return Advice::default();
        }
        let demote = self.request(access.cluster, capacity);
        Advice { write_to: Some(Tier::Fast), promote: !access.is_write && !residence.is_resident, demote }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The invariants of the paper, section III.A.
        #[test]
        fn lists_keep_their_bounds(clusters in prop::collection::vec(0u64..40, 1..600), capacity in 1usize..12) {
            let mut arc = Arc::default();
            let mut inside = std::collections::BTreeSet::new();
            for cluster in clusters {
                let out = arc.request(cluster, capacity);
                inside.insert(cluster);
                if let Some(out) = out {
                    prop_assert!(inside.remove(&out), "only what is inside can leave");
                }
                let (t1, t2) = (arc.once.len(), arc.again.len());
                let (b1, b2) = (arc.once_ghosts.len(), arc.again_ghosts.len());
                prop_assert!(t1 + t2 <= capacity);
                prop_assert!(t1 + b1 <= capacity);
                prop_assert!(t1 + t2 + b1 + b2 <= 2 * capacity);
                prop_assert!(arc.target <= capacity);
                prop_assert_eq!(inside.len(), t1 + t2);
            }
        }
    }

    #[test]
    fn a_scan_does_not_wash_out_what_is_used_again() {
        let mut arc = Arc::default();
        for cluster in [1, 2, 1, 2] {
            arc.request(cluster, 4);
        }
        for cluster in 100..200 {
            arc.request(cluster, 4);
        }
        assert!(arc.again.contains_key(&1) && arc.again.contains_key(&2));
    }
}
