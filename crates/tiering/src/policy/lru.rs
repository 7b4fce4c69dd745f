//! Yardstick: flash as a cache of the clusters used last.
//!
//! ```text
//!  oldest <── clusters on flash or on their way ──> newest        a miss brings its cluster in,
//!    └─ goes out when room is needed                              unless it is read in sequence
//! ```
//! A read that goes on where its flow's previous request was passes by what is not on flash yet, as caches of
//! blocks do by default: a scan would bring everything in, and nothing of it would be used again.

use hashlink::LinkedHashMap;
use rustc_hash::FxBuildHasher;

use super::{Access, Advice, Policy, Residence, Tier};
use crate::geometry::Cluster;

/// Least recently used goes first.
#[derive(Clone, Debug, Default)]
pub struct Lru {
    order: LinkedHashMap<Cluster, (), FxBuildHasher>,
}

impl Policy for Lru {
    fn on_access(&mut self, access: &Access, residence: Residence) -> Advice {
        if access.passes_by(residence) {
            return Advice::default();
        }
        self.order.insert(access.cluster, ());
        let is_over = self.order.len() > residence.slots as usize;
        let demote = if is_over { self.order.pop_front().map(|(cluster, ())| cluster) } else { None };
        Advice {
            write_to: Some(Tier::Fast),
            promote: !access.is_write && !residence.is_resident && residence.slots > 0,
            demote: demote.filter(|&cluster| cluster != access.cluster),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{access, residence};

    #[test]
    fn the_one_used_longest_ago_goes() {
        let mut lru = Lru::default();
        let mut demoted = Vec::new();
        for cluster in [1, 2, 3, 1, 4, 5] {
            demoted.push(lru.on_access(&access(cluster, false), residence(false, 3, 3)).demote);
        }
        assert_eq!(demoted, [None, None, None, None, Some(2), Some(3)]);
    }
}
