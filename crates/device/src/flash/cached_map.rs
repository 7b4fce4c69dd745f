//! DFTL's cached mapping table: the part of the page table that is in memory.
//!
//! Gupta, Kim, Urgaonkar: "DFTL: a flash translation layer employing demand-based selective caching of
//! page-level address mappings", ASPLOS 2009, section 3. The whole page table is kept in translation
//! pages on flash; where these are is known in memory. Entries are replaced by segmented LRU.
//!
//! ```text
//!  miss ──> probation (most recent ... least recent) ──> out; written back if it was changed
//!               │ hit             ▲ least recent
//!               v                 │
//!            protected (most recent ... least recent)
//!
//!  slot_of[logical page] -> slot     slots: { page, list, changed, neighbours }
//! ```

use super::blocks::NONE;

/// What asking for an entry costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lookup {
    /// It is in memory.
    Hit,
    /// It has to be read; this entry has to make room.
    Miss {
        /// The logical page whose changed entry has to be written back first.
        write_back: Option<u32>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    Probation,
    Protected,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    page: u32,
    list: List,
    changed: bool,
    newer: u32,
    older: u32,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    newest: u32,
    oldest: u32,
    length: u32,
    capacity: u32,
}

/// The cached mapping table.
#[derive(Debug)]
pub(super) struct CachedMap {
    slot_of: Vec<u32>,
    slots: Vec<Slot>,
    probation: Ends,
    protected: Ends,
}

impl CachedMap {
    /// Both capacities are at least one entry.
    pub(super) fn new(pages: u32, protected: u32, probation: u32) -> Self {
        let ends = |capacity| Ends { newest: NONE, oldest: NONE, length: 0, capacity };
        Self {
            slot_of: vec![NONE; pages as usize],
            slots: Vec::new(),
            probation: ends(probation),
            protected: ends(protected),
        }
    }

    pub(super) fn holds(&self, page: u32) -> bool {
        self.slot_of[page as usize] != NONE
    }

    /// The entry of `page` is asked for, and is in memory afterwards.
    pub(super) fn look_up(&mut self, page: u32) -> Lookup {
        let slot = self.slot_of[page as usize];
        if slot != NONE {
            self.promote(slot);
            return Lookup::Hit;
        }
        let mut write_back = None;
        let slot = if self.probation.length < self.probation.capacity {
            self.slots.push(Slot { page, list: List::Probation, changed: false, newer: NONE, older: NONE });
            self.slots.len() as u32 - 1
        } else {
            let slot = self.probation.oldest;
            self.unlink(slot);
            let old = self.slots[slot as usize];
            write_back = old.changed.then_some(old.page);
            self.slot_of[old.page as usize] = NONE;
            self.slots[slot as usize].page = page;
            self.slots[slot as usize].changed = false;
            slot
        };
        self.slot_of[page as usize] = slot;
        self.link(slot, List::Probation);
        Lookup::Miss { write_back }
    }

    /// The entry of `page`, which must be in memory, now differs from the one on flash.
    pub(super) fn change(&mut self, page: u32) {
        let slot = self.slot_of[page as usize];
        self.slots[slot as usize].changed = true;
    }

    fn promote(&mut self, slot: u32) {
        self.unlink(slot);
        if self.protected.length == self.protected.capacity {
            let demoted = self.protected.oldest;
            // From the protected list there is always one to go: the entry itself, or another.
            self.unlink(demoted);
            self.link(demoted, List::Probation);
        }
        self.link(slot, List::Protected);
    }

    fn ends(&mut self, list: List) -> &mut Ends {
        match list {
            List::Probation => &mut self.probation,
            List::Protected => &mut self.protected,
        }
    }

    fn link(&mut self, slot: u32, list: List) {
        let ends = self.ends(list);
        let older = std::mem::replace(&mut ends.newest, slot);
        ends.length += 1;
        if older == NONE {
            ends.oldest = slot;
        } else {
            self.slots[older as usize].newer = slot;
        }
        let entry = &mut self.slots[slot as usize];
        (entry.list, entry.newer, entry.older) = (list, NONE, older);
    }

    fn unlink(&mut self, slot: u32) {
        let Slot { list, newer, older, .. } = self.slots[slot as usize];
        match newer {
            NONE => self.ends(list).newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.ends(list).oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
        self.ends(list).length -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The obvious model: two lists, the newest in front.
    #[derive(Default)]
    struct Naive {
        probation: Vec<(u32, bool)>,
        protected: Vec<(u32, bool)>,
    }

    impl Naive {
        fn look_up(&mut self, page: u32, protected: usize, probation: usize) -> Lookup {
            let found = |list: &mut Vec<(u32, bool)>| {
                list.iter().position(|entry| entry.0 == page).map(|index| list.remove(index))
            };
            if let Some(entry) = found(&mut self.probation).or_else(|| found(&mut self.protected)) {
                self.protected.insert(0, entry);
                if self.protected.len() > protected {
                    let demoted = self.protected.pop().expect("more than fit");
                    self.probation.insert(0, demoted);
                }
                return Lookup::Hit;
            }
            self.probation.insert(0, (page, false));
            let out = if self.probation.len() > probation { self.probation.pop() } else { None };
            Lookup::Miss { write_back: out.filter(|entry| entry.1).map(|entry| entry.0) }
        }

        fn change(&mut self, page: u32) {
            let all = self.probation.iter_mut().chain(&mut self.protected);
            all.filter(|entry| entry.0 == page).for_each(|entry| entry.1 = true);
        }
    }

    proptest! {
        #[test]
        fn it_agrees_with_the_naive_model(
            protected in 1_u32..6, probation in 1_u32..6,
            asks in prop::collection::vec((0_u32..16, any::<bool>()), 1..300),
        ) {
            let (mut map, mut naive) = (CachedMap::new(16, protected, probation), Naive::default());
            for (page, changes) in asks {
                let expected = naive.look_up(page, protected as usize, probation as usize);
                prop_assert_eq!(map.look_up(page), expected);
                if changes {
                    map.change(page);
                    naive.change(page);
                }
                for page in 0..16 {
                    let held = naive.probation.iter().chain(&naive.protected).any(|entry| entry.0 == page);
                    prop_assert_eq!(map.holds(page), held);
                }
            }
        }
    }
}
