//! The order of clusters by read/write ratio, kept while it changes.
//!
//! ```text
//!  ratio r : w ── share of reads r/(r+w) ──> step 0 … 4095     (monotone in the ratio)
//!
//!  Fenwick tree over the steps:   counts below a step, and the step at a rank, in 12 additions
//! ```
//! The thesis asks for "a higher ratio than 50 % of the clusters" (section 5.3) and for the "10 % with
//! the lowest ratio" (section 5.4) at each request: neither may cost O(clusters). Ratios are told
//! apart to 1/4096 in the share of reads; within a step clusters count as equal.

/// How finely ratios are told apart.
const STEPS: usize = 4096;

/// A multiset of ratios that answers ranks in O(log steps).
#[derive(Clone, Debug)]
pub struct Ranks {
    tree: Vec<u32>,
    total: u32,
}

/// The place of a ratio among all ratios: steps of equal width in reads / (reads + writes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Step(u16);

impl Step {
    /// The step of `reads` to `writes`; no access at all counts as no reads.
    #[must_use]
    pub fn of(reads: u32, writes: u32) -> Self {
        let all = u64::from(reads) + u64::from(writes);
        if all == 0 {
            return Self(0);
        }
        // Only pure readers reach the last step: their ratio is infinite, above all others.
        Self((u64::from(reads) * (STEPS as u64 - 1) / all) as u16)
    }
}

impl Default for Ranks {
    fn default() -> Self {
        Self { tree: vec![0; STEPS + 1], total: 0 }
    }
}

impl Ranks {
    /// Adds a member at `step`.
    pub fn insert(&mut self, step: Step) {
        self.total += 1;
        let mut at = usize::from(step.0) + 1;
        while at <= STEPS {
            self.tree[at] += 1;
            visit();
            at += at & at.wrapping_neg();
        }
    }

    /// Takes away a member at `step`, which must be there.
    pub fn remove(&mut self, step: Step) {
        self.total -= 1;
        let mut at = usize::from(step.0) + 1;
        while at <= STEPS {
            self.tree[at] -= 1;
            visit();
            at += at & at.wrapping_neg();
        }
    }

    /// How many members there are.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.total
    }

    /// Whether there is no member.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// How many members lie strictly below `step`.
    #[must_use]
    pub fn below(&self, step: Step) -> u32 {
        let mut at = usize::from(step.0);
        let mut sum = 0;
        while at > 0 {
            sum += self.tree[at];
            visit();
            at -= at & at.wrapping_neg();
        }
        sum
    }

    /// How many members lie at `step` or below it.
    #[must_use]
    pub fn up_to(&self, step: Step) -> u32 {
        self.below(Step(step.0 + 1))
    }

    /// Whether a member at `step` has at least `percent` of all members below or beside it: it is then
    /// at or above that quantile. In a set of equals everyone is.
    #[must_use]
    pub fn reaches(&self, step: Step, percent: u32) -> bool {
        u64::from(self.up_to(step)) * 100 >= u64::from(self.total) * u64::from(percent)
    }

    /// Whether a member at `step` is among the lowest `percent` of all members: fewer than that lie
    /// below it, and not all members are its equals (there is then no lowest).
    #[must_use]
    pub fn is_among_lowest(&self, step: Step, percent: u32) -> bool {
        let below = self.below(step);
        let beside = self.up_to(step) - below;
        beside < self.total && u64::from(below) * 100 < u64::from(self.total) * u64::from(percent)
    }
}

/// Counts a visit to a node of a tree, in tests.
#[inline]
fn visit() {
    #[cfg(test)]
    VISITS.with(|visits| visits.set(visits.get() + 1));
}

#[cfg(test)]
thread_local! {
    pub(crate) static VISITS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranks_are_those_of_a_sorted_list(
            ops in prop::collection::vec((any::<bool>(), 0u32..50, 0u32..50), 1..300),
            (reads, writes) in (0u32..50, 0u32..50),
        ) {
            let mut ranks = Ranks::default();
            let mut list: Vec<Step> = Vec::new();
            for (add, r, w) in ops {
                if add || list.is_empty() {
                    ranks.insert(Step::of(r, w));
                    list.push(Step::of(r, w));
                } else {
                    let gone = list.swap_remove(r as usize % list.len());
                    ranks.remove(gone);
                }
            }
            let step = Step::of(reads, writes);
            prop_assert_eq!(ranks.len() as usize, list.len());
            prop_assert_eq!(ranks.below(step) as usize, list.iter().filter(|&&other| other < step).count());
            prop_assert_eq!(ranks.up_to(step) as usize, list.iter().filter(|&&other| other <= step).count());
        }

        #[test]
        fn steps_keep_the_order_of_ratios(a in 0u32..1 << 20, b in 0u32..1 << 20, c in 0u32..1 << 20, d in 0u32..1 << 20) {
            // a/b <= c/d, as fractions of the whole
            if u64::from(a) * u64::from(c + d) <= u64::from(c) * u64::from(a + b) && a + b > 0 && c + d > 0 {
                prop_assert!(Step::of(a, b) <= Step::of(c, d));
            }
        }
    }

    #[test]
    fn among_equals_everyone_reaches_the_median_and_nobody_is_lowest() {
        let mut ranks = Ranks::default();
        for _ in 0..10 {
            ranks.insert(Step::of(1, 0));
        }
        assert!(ranks.reaches(Step::of(1, 0), 50));
        assert!(!ranks.is_among_lowest(Step::of(1, 0), 10));
        ranks.insert(Step::of(0, 1));
        assert!(!ranks.reaches(Step::of(0, 1), 50));
        assert!(ranks.is_among_lowest(Step::of(0, 1), 10));
    }
}
