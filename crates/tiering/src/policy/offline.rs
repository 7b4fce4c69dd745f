//! The offline scheme: a first pass over the trace chooses the clusters, a second one uses them.
//!
//! ```text
//!  pass 1   requests ──> Profile: per cluster sequential and random requests, reads, writes
//!                           │ sequentiality below the threshold, gain above zero
//!                           v
//!           by gain per write, then by accesses ──> the first `slots` of them
//!  pass 2   Offline: the chosen clusters, and only they, are on flash
//! ```
//! Source: Jain 2008, section 3.3.1 (reads: by accesses) and 4.2 (writes: by read/write ratio, through
//! the gain). The profile is exact and takes memory per cluster of the trace.

use std::collections::BTreeMap;

use evenkeel_core::FlowId;
use rustc_hash::FxHashSet;

use super::{Access, Advice, Policy, Residence, Tier};
use crate::gain::AccessTimes;
use crate::geometry::{Cluster, Geometry, Slot};
use crate::history::Heads;

/// The first pass: what the trace does to each cluster.
#[derive(Clone, Debug)]
pub struct Profile {
    geometry: Geometry,
    heads: Heads,
    clusters: BTreeMap<Cluster, Counts>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    sequential: u64,
    reads: u64,
    writes: u64,
}

/// The second pass: clusters chosen beforehand.
#[derive(Clone, Debug, Default)]
pub struct Offline {
    chosen: FxHashSet<Cluster>,
}

impl Profile {
    /// A profile without requests.
    #[must_use]
    pub fn new(geometry: Geometry) -> Self {
        Self { geometry, heads: Heads::default(), clusters: BTreeMap::new() }
    }

    /// Takes in one request of the trace.
    pub fn observe(&mut self, flow: FlowId, is_write: bool, offset: u64, length: u32) {
        for stretch in self.geometry.stretches(offset, length) {
            let is_sequential = self.heads.is_sequential(flow, stretch.cluster);
            let counts = self.clusters.entry(stretch.cluster).or_default();
            counts.sequential += u64::from(is_sequential);
            if is_write {
                counts.writes += 1;
            } else {
                counts.reads += 1;
            }
        }
    }

    /// Chooses at most `slots` clusters: those whose share of sequential requests is below
    /// `sequential_percent_max` and whose gain is positive, by gain per write, then by accesses, then
    /// by address. `flash_writes` is the age of the flash in writes.
    #[must_use]
    pub fn choose(
        &self,
        slots: Slot,
        sequential_percent_max: u32,
        times: &AccessTimes,
        flash_writes: u64,
    ) -> Vec<Cluster> {
        let mut fit: Vec<_> = self
            .clusters
            .iter()
            .filter(|(_, counts)| {
                counts.sequential * 100 < counts.accesses() * u64::from(sequential_percent_max)
            })
            .map(|(&cluster, counts)| {
                (times.gain(counts.reads, counts.writes, flash_writes), counts.accesses(), cluster)
            })
            .filter(|(gain, _, _)| gain.is_positive())
            .collect();
        fit.sort_by(|a, b| b.0.cmp(&a.0).then(b.1.cmp(&a.1)).then(a.2.cmp(&b.2)));
        fit.truncate(slots as usize);
        fit.into_iter().map(|(_, _, cluster)| cluster).collect()
    }

    /// Reads and writes of these clusters; a request counts once in each cluster that it touches.
    #[must_use]
    pub fn accesses_of(&self, clusters: impl IntoIterator<Item = Cluster>) -> (u64, u64) {
        let counts = clusters.into_iter().filter_map(|cluster| self.clusters.get(&cluster));
        counts.fold((0, 0), |(reads, writes), counts| (reads + counts.reads, writes + counts.writes))
    }

    /// Reads and writes of all clusters.
    #[must_use]
    pub fn accesses(&self) -> (u64, u64) {
        self.accesses_of(self.clusters.keys().copied())
    }

    /// How many clusters the trace touches.
    #[must_use]
    pub fn clusters(&self) -> usize {
        self.clusters.len()
    }
}

impl Counts {
    fn accesses(&self) -> u64 {
        self.reads + self.writes
    }
}

impl Offline {
    /// The policy that keeps exactly `chosen` on flash.
    #[must_use]
    pub fn new(chosen: impl IntoIterator<Item = Cluster>) -> Self {
        Self { chosen: chosen.into_iter().collect() }
    }
}

impl Policy for Offline {
    fn on_access(&mut self, access: &Access, residence: Residence) -> Advice {
        let is_chosen = self.chosen.contains(&access.cluster);
        Advice {
            write_to: Some(if is_chosen { Tier::Fast } else { Tier::Slow }),
            promote: is_chosen && !residence.is_resident,
            demote: (!is_chosen && residence.is_resident).then_some(access.cluster),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gain::tests_times as times;
    use crate::policy::{access, residence};

    const CLUSTER: u64 = 65536;
    const WORN: u64 = 1 << 40;

    fn profile(requests: &[(u32, bool, u64)]) -> Profile {
        let mut profile = Profile::new(Geometry::new(65536, 4096).expect("valid"));
        for &(flow, is_write, cluster) in requests {
            profile.observe(FlowId(flow), is_write, cluster * CLUSTER, 512);
        }
        profile
    }

    #[test]
    fn random_clusters_with_more_accesses_come_first() {
        // Flow 0 reads clusters 100 to 105 in a row, flow 1 jumps: cluster 10 three times, 20 twice, 30 once.
        let jumps = [10, 20, 10, 30, 10, 20].map(|cluster| (1, false, cluster));
        let run = [100, 101, 102, 103, 104, 105].map(|cluster| (0, false, cluster));
        let profile = profile(&[&jumps[..], &run[..]].concat());
        assert_eq!(profile.clusters(), 9);
        assert_eq!(profile.choose(2, 50, &times(), WORN), [10, 20]);
        // The first request of the run came from nowhere, so its cluster counts as random too.
        assert_eq!(profile.choose(9, 50, &times(), WORN), [10, 20, 30, 100]);
    }

    #[test]
    fn read_mostly_clusters_come_first_and_written_ones_stay_on_disk() {
        let mut requests = Vec::new();
        for round in 0..10 {
            requests.extend([(1, false, 10), (1, round % 2 == 0, 20), (1, true, 30)]);
        }
        let profile = profile(&requests);
        assert_eq!(profile.choose(9, 50, &times(), WORN), [10, 20]);
        assert_eq!((profile.accesses_of([10, 20]), profile.accesses()), ((15, 5), (15, 15)));
    }

    #[test]
    fn the_second_pass_moves_what_was_chosen_and_nothing_else() {
        let mut policy = Offline::new([1]);
        let advice = policy.on_access(&access(1, false), residence(false, 0, 4));
        assert_eq!(advice, Advice { write_to: Some(Tier::Fast), promote: true, demote: None });
        let advice = policy.on_access(&access(2, true), residence(true, 1, 4));
        assert_eq!(advice, Advice { write_to: Some(Tier::Slow), promote: false, demote: Some(2) });
    }
}
