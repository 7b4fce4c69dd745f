//! The online scheme: random, read-mostly clusters get their writes on flash, on what is known so far.
//!
//! ```text
//!  access ─> History of its cluster ─> Step of its read/write ratio
//!                │                        │ all clusters: Ranks     ≥ quantile (50 %)?   ┐
//!                │ random − sequential    │ fit clusters: Ranks     lowest 10 %: victim  │
//!                └── reads > threshold? ──┴─────────────────────────────────────────────>├─> fit
//!                                           flash under 70 %: victims may write as well  ┘
//! ```
//! Source: Jain 2008, sections 5.2 to 5.4. Where the text leaves a choice:
//! - "a higher ratio than 50 % of the clusters" counts equals as lower, or in a workload of reads only,
//!   where all ratios are equal, nothing would ever be fit (Table 7 has 90.63 % on flash there).
//! - Whether a cluster is fit, and whether it is a victim, is settled at its own accesses only: O(log).
//! - The thesis sends writes only; data that was there before would stay on disk for ever. A fit cluster
//!   is therefore copied to flash while there is room ([`OnlineParameters::promote_fit`]).
//! - Where victims are copied back from 70 % on, they are copied there only up to 60 %: at one border for both,
//!   each read of a victim would move it the other way.

use super::{Access, Advice, Policy, Residence, Tier};
use crate::history::{Histories, History};
use crate::quantile::{Ranks, Step};

/// By how many percent of the slots the border for copying victims there is below the one for copying them back.
const HYSTERESIS_PERCENT: u32 = 10;

/// The numbers of the scheme; the default are the thesis's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnlineParameters {
    /// By how many reads random ones must exceed sequential ones. The thesis: 1.
    pub random_excess_min: u32,
    /// Share of clusters, in percent, whose read/write ratio a fit cluster must reach. The thesis: 50.
    pub ratio_percent_min: u32,
    /// Share of fit clusters, in percent, that are victims. The thesis: 10.
    pub victims_percent: u32,
    /// Fill of the flash, in percent, below which victims are spared. The thesis: 70.
    pub victims_from_full_percent: u32,
    /// Copy a fit cluster to flash while fewer slots are in use than that share of them.
    pub promote_fit: bool,
    /// Copy victims back to disk. The thesis: "maybe".
    pub migrate_victims: bool,
    /// How many clusters are remembered; 40 to 80 bytes each.
    pub clusters_max: usize,
}

/// Why parameters were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OnlineParametersError {
    /// A share above 100 %.
    #[error("{name} = {value}: a share in percent, from 0 to 100")]
    Percent {
        /// Which parameter.
        name: &'static str,
        /// Its value.
        value: u32,
    },
    /// No cluster could be remembered.
    #[error("clusters_max = 0: at least one cluster must be remembered")]
    NoClusters,
}

impl Default for OnlineParameters {
    fn default() -> Self {
        Self {
            random_excess_min: 1,
            ratio_percent_min: 50,
            victims_percent: 10,
            victims_from_full_percent: 70,
            promote_fit: true,
            migrate_victims: true,
            clusters_max: 1 << 20,
        }
    }
}

/// The online policy.
#[derive(Clone, Debug)]
pub struct Online {
    parameters: OnlineParameters,
    clusters: Histories<Known>,
    /// Ratios of all clusters that are remembered.
    all: Ranks,
    /// Ratios of those that were fit at their last access.
    fit: Ranks,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    history: History,
    /// Where it stands in `all`, and in `fit` if it is fit.
    step: Step,
    is_counted: bool,
    is_fit: bool,
    is_victim: bool,
}

impl Online {
    /// A policy that knows nothing yet.
    ///
    /// # Errors
    /// [`OnlineParametersError`] if a share is above 100 % or nothing could be remembered.
    pub fn new(parameters: OnlineParameters) -> Result<Self, OnlineParametersError> {
        let shares = [
            ("ratio_percent_min", parameters.ratio_percent_min),
            ("victims_percent", parameters.victims_percent),
            ("victims_from_full_percent", parameters.victims_from_full_percent),
        ];
        if let Some(&(name, value)) = shares.iter().find(|(_, value)| *value > 100) {
            return Err(OnlineParametersError::Percent { name, value });
        }
        if parameters.clusters_max == 0 {
            return Err(OnlineParametersError::NoClusters);
        }
        let clusters = Histories::new(parameters.clusters_max);
        Ok(Self { parameters, clusters, all: Ranks::default(), fit: Ranks::default() })
    }

    /// What is known of `cluster`: its history, whether it was fit at its last access, and whether it
    /// was a victim then.
    #[must_use]
    pub fn known(&self, cluster: crate::Cluster) -> Option<(History, bool, bool)> {
        self.clusters.peek(cluster).map(|known| (known.history, known.is_fit, known.is_victim))
    }

    /// Counts the access and settles anew whether its cluster is fit and whether it is a victim.
    fn learn(&mut self, access: &Access) -> Known {
        let (known, gone) = self.clusters.touch(access.cluster);
        if let Some((_, gone)) = gone {
            self.all.remove(gone.step);
            if gone.is_fit {
                self.fit.remove(gone.step);
            }
        }
        known.history.count(access.is_write, access.is_sequential);
        let step = Step::of(known.history.reads(), known.history.writes);
        let was_fit = known.is_fit;
        // Most accesses leave a cluster's step as it is, and then the trees too.
        if !known.is_counted || step != known.step {
            if known.is_counted {
                self.all.remove(known.step);
            }
            if was_fit {
                self.fit.remove(known.step);
                self.fit.insert(step);
            }
            self.all.insert(step);
            (known.step, known.is_counted) = (step, true);
        }
        let History { random_reads, sequential_reads, .. } = known.history;
        let enough = u64::from(sequential_reads) + u64::from(self.parameters.random_excess_min);
        known.is_fit = u64::from(random_reads) >= enough
            && self.all.reaches(known.step, self.parameters.ratio_percent_min);
        match (was_fit, known.is_fit) {
            (false, true) => self.fit.insert(step),
            (true, false) => self.fit.remove(step),
            _ => {}
        }
        // "Victim clusters are updated on read requests" (section 5.4).
        if !access.is_write {
            known.is_victim = if known.is_fit {
                self.fit.is_among_lowest(known.step, self.parameters.victims_percent)
            } else {
                was_fit || known.is_victim
            };
        }
        *known
    }
}

impl Policy for Online {
    fn on_access(&mut self, access: &Access, residence: Residence) -> Advice {
        let known = self.learn(access);
        let border = self.parameters.victims_from_full_percent;
        let is_below = |percent: u32| {
            u64::from(residence.slots_used) * 100 < u64::from(residence.slots) * u64::from(percent)
        };
        let is_roomy = is_below(border);
        let may_write = known.is_fit && (!known.is_victim || is_roomy);
        let victims_return = self.parameters.migrate_victims;
        let has_slack = !victims_return || is_below(border.saturating_sub(HYSTERESIS_PERCENT));
        let demote = victims_return && residence.is_resident && known.is_victim && !is_roomy;
        Advice {
            write_to: Some(if may_write { Tier::Fast } else { Tier::Slow }),
            promote: self.parameters.promote_fit
                && may_write
                && (!known.is_victim || has_slack)
                && !access.is_write
                && !residence.is_resident
                && residence.slots_used < residence.slots,
            demote: demote.then_some(access.cluster),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{access, residence};

    fn online() -> Online {
        Online::new(OnlineParameters::default()).expect("valid")
    }

    fn reads(policy: &mut Online, cluster: u64, count: u32) -> Advice {
        (0..count)
            .map(|_| policy.on_access(&access(cluster, false), residence(false, 0, 100)))
            .last()
            .unwrap_or_default()
    }

    /// A hundred clusters, each read ten times its number.
    fn with_a_hundred_settled() -> Online {
        let mut policy = online();
        for cluster in 1..=100u32 {
            writes(&mut policy, u64::from(cluster), 10, 0);
            reads(&mut policy, u64::from(cluster), 10 * cluster);
        }
        // Each is settled at its own accesses: once more, now that all the others are known.
        for cluster in 1..=100 {
            reads(&mut policy, cluster, 1);
        }
        policy
    }

    fn writes(policy: &mut Online, cluster: u64, count: u32, used: u32) -> Advice {
        (0..count)
            .map(|_| policy.on_access(&access(cluster, true), residence(true, used, 100)))
            .last()
            .unwrap_or_default()
    }

    #[test]
    fn without_reads_nothing_goes_to_flash() {
        let mut policy = online();
        for cluster in 0..100 {
            assert_eq!(writes(&mut policy, cluster, 3, 0).write_to, Some(Tier::Slow));
        }
    }

    #[test]
    fn with_reads_only_everything_random_is_fit() {
        let mut policy = online();
        for cluster in 0..100 {
            assert!(reads(&mut policy, cluster, 1).promote);
        }
    }

    #[test]
    fn sequential_clusters_stay_on_disk() {
        let mut policy = online();
        let sequential = Access { is_sequential: true, ..access(5, false) };
        for _ in 0..10 {
            assert!(!policy.on_access(&sequential, residence(false, 0, 100)).promote);
        }
        assert_eq!(writes(&mut policy, 5, 1, 0).write_to, Some(Tier::Slow));
        // Random reads must exceed the ten sequential ones by one.
        reads(&mut policy, 5, 10);
        assert_eq!(policy.known(5).map(|(_, fit, _)| fit), Some(false));
        assert!(reads(&mut policy, 5, 1).promote);
    }

    #[test]
    fn the_read_mostly_half_is_fit() {
        let mut policy = online();
        // Cluster c gets c reads and 100 writes, then one more write each in the same order.
        for cluster in 1..=100u32 {
            reads(&mut policy, u64::from(cluster), cluster);
            writes(&mut policy, u64::from(cluster), 100, 0);
        }
        let fit: Vec<u64> = (1..=100)
            .filter(|&cluster| writes(&mut policy, cluster, 1, 0).write_to == Some(Tier::Fast))
            .collect();
        assert_eq!(fit, (50..=100).collect::<Vec<_>>());
    }

    #[test]
    fn the_lowest_tenth_of_the_fit_are_victims_once_the_flash_is_full() {
        let mut policy = with_a_hundred_settled();
        let state = |policy: &Online, cluster| policy.known(cluster).map(|(_, fit, victim)| (fit, victim));
        let victims: Vec<u64> = (1..=100).filter(|&c| state(&policy, c) == Some((true, true))).collect();
        assert!(!victims.is_empty() && victims.iter().all(|&victim| victim < 60), "{victims:?}");
        let victim = *victims.last().expect("some are victims");
        let advice = policy.on_access(&access(victim, false), residence(true, 70, 100));
        assert_eq!(advice.demote, Some(victim));
        assert_eq!(policy.on_access(&access(100, false), residence(true, 70, 100)).demote, None);
        let write =
            |policy: &mut Online, used| policy.on_access(&access(victim, true), residence(true, used, 100));
        assert_eq!(write(&mut policy, 10).write_to, Some(Tier::Fast), "roomy: the rule is waived");
        assert_eq!(write(&mut policy, 70).write_to, Some(Tier::Slow));
    }

    /// Sixty-six others are there to stay; with the six victims 72 of 100 slots are used.
    #[test]
    fn at_the_border_of_seventy_percent_victims_do_not_go_to_and_fro() {
        let mut policy = with_a_hundred_settled();
        let is_victim = |policy: &Online, cluster| matches!(policy.known(cluster), Some((_, true, true)));
        let victims: Vec<u64> = (1..=100).filter(|&cluster| is_victim(&policy, cluster)).collect();
        assert_eq!(victims.len(), 6);
        let (mut resident, mut moved) = ([true; 6], 0);
        for _ in 0..100 {
            for (cluster, is_resident) in victims.iter().zip(0..) {
                let used = 66 + resident.iter().filter(|is_there| **is_there).count() as u32;
                let now = resident[is_resident];
                let advice = policy.on_access(&access(*cluster, false), residence(now, used, 100));
                assert!(!(advice.promote && now), "it is there");
                let moves = advice.promote || advice.demote.is_some();
                resident[is_resident] = now != moves;
                moved += u32::from(moves);
            }
        }
        // With one border for both ways it is more than a hundred.
        assert!((3..=6).contains(&moved), "down to below the border, once: {moved}");
        // With ample room they are copied there as well.
        let advice = policy.on_access(&access(victims[0], false), residence(false, 59, 100));
        assert!(advice.promote);
    }

    /// The most nodes of the trees of ranks that an access visits once `clusters` are known.
    fn visits(clusters: u64) -> u64 {
        use crate::quantile::VISITS;
        let mut policy = online();
        let mut most = 0;
        for number in 0..3 * clusters {
            // Every ratio there is, and changes of it.
            let cluster = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % clusters;
            let before = VISITS.with(std::cell::Cell::get);
            policy.on_access(&access(cluster, number % 7 < cluster % 8), residence(false, 10, 100));
            if number > clusters {
                most = most.max(VISITS.with(std::cell::Cell::get) - before);
            }
        }
        most
    }

    #[test]
    fn what_an_access_costs_does_not_grow_with_the_clusters() {
        // Two trees of 4096 steps, 13 nodes from leaf to root: at most four changes and five sums.
        let (few, many) = (visits(100), visits(100_000));
        assert!(
            few > 0 && few.max(many) <= 9 * 13,
            "{few} nodes with a hundred, {many} with a hundred thousand"
        );
    }

    #[test]
    fn memory_is_bounded_and_forgetting_keeps_the_ranks_right() {
        let parameters = OnlineParameters { clusters_max: 10, ..OnlineParameters::default() };
        let mut policy = Online::new(parameters).expect("valid");
        for round in 0..1000u64 {
            policy.on_access(&access(round * 7 % 31, round % 3 == 0), residence(false, 0, 8));
            assert!(policy.clusters.len() <= 10);
            assert_eq!(policy.all.len() as usize, policy.clusters.len());
            let fit = policy.clusters.iter().filter(|(_, known)| known.is_fit).count();
            assert_eq!(policy.fit.len() as usize, fit);
        }
    }

    #[test]
    fn impossible_shares_are_refused() {
        let parameters = OnlineParameters { victims_percent: 101, ..OnlineParameters::default() };
        assert_eq!(
            Online::new(parameters).map(|_| ()),
            Err(OnlineParametersError::Percent { name: "victims_percent", value: 101 })
        );
    }
}
