//! The blocks of all dies: what they hold, which one to empty next, how worn they are.
//!
//! ```text
//!  free ──take (least worn)──> open ──full──> closed ──emptied, erased──> free
//!
//!  valid[block]      pages that hold the latest version of a logical page
//!  bucket of a die   closed blocks by their number of valid pages, each a list
//!    0: ─
//!    1: b7 ⇄ b3      head: the one that has not changed for longest
//!    2: b4           greedy: the head of the lowest bucket that is not empty
//!    ...             cost-benefit: the best of the heads
//! ```
//!
//! A block that loses a page moves to the tail of the bucket below, so each list is in the order of
//! the last change. That makes both choices exact with one look per bucket: within a bucket the ratio
//! of space is the same, so the oldest is the best. Blocks are numbered across dies; all tables are
//! flat and 32 bits wide.

use std::collections::BTreeSet;

/// No block, no page.
pub(super) const NONE: u32 = u32::MAX;

/// How the next block to be emptied is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collection {
    /// The fewest valid pages.
    Greedy,
    /// The largest age · (1 − u) / 2u, where u is the share of valid pages and the age is counted in
    /// page writes since the block last changed (Kawaguchi, Nishioka, Motoda: "A flash-memory based
    /// file system", USENIX 1995, section 3.4; after Rosenblum and Ousterhout's cleaner).
    CostBenefit,
}

/// The blocks of all dies.
#[derive(Debug)]
pub(super) struct Blocks {
    pages_per_block: u32,
    blocks_per_die: u32,
    all: Vec<Block>,
    /// First and last block of each bucket, `pages_per_block + 1` buckets per die.
    heads: Vec<u32>,
    tails: Vec<u32>,
    dies: Vec<Die>,
    /// Page writes so far: the clock of ages.
    writes: u64,
}

/// One block: half a cache line, since losing a page changes most of it.
#[derive(Clone, Debug)]
struct Block {
    valid: u32,
    erases: u32,
    /// Neighbours within a bucket.
    next: u32,
    previous: u32,
    /// When it last changed, in page writes.
    changed: u64,
    /// Whether it is in a bucket.
    closed: bool,
}

#[derive(Debug, Default)]
struct Die {
    valid: u32,
    /// By wear, then by number.
    free: BTreeSet<(u32, u32)>,
    closed: BTreeSet<(u32, u32)>,
}

impl Blocks {
    pub(super) fn new(dies: u32, blocks_per_die: u32, pages_per_block: u32) -> Self {
        let count = (dies * blocks_per_die) as usize;
        let buckets = dies as usize * (pages_per_block as usize + 1);
        let block = Block { valid: 0, erases: 0, next: NONE, previous: NONE, changed: 0, closed: false };
        let die = |die: u32| Die {
            free: (die * blocks_per_die..(die + 1) * blocks_per_die).map(|block| (0, block)).collect(),
            ..Die::default()
        };
        Self {
            pages_per_block,
            blocks_per_die,
            all: vec![block; count],
            heads: vec![NONE; buckets],
            tails: vec![NONE; buckets],
            dies: (0..dies).map(die).collect(),
            writes: 0,
        }
    }

    pub(super) fn erases(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.all.iter().map(|block| block.erases)
    }

    /// How often the block has been erased.
    pub(super) fn erased(&self, block: u32) -> u32 {
        self.all[block as usize].erases
    }

    pub(super) fn valid_in_block(&self, block: u32) -> u32 {
        self.all[block as usize].valid
    }

    pub(super) fn valid_in_die(&self, die: u32) -> u32 {
        self.dies[die as usize].valid
    }

    pub(super) fn free_in_die(&self, die: u32) -> usize {
        self.dies[die as usize].free.len()
    }

    /// The least worn free block of the die, to be written.
    pub(super) fn open(&mut self, die: u32) -> u32 {
        let free = self.dies[die as usize].free.pop_first();
        free.expect("blocks are emptied before the last free one is taken").1
    }

    /// The most worn free block of the die, for data that seldom change.
    pub(super) fn open_worn(&mut self, die: u32) -> Option<u32> {
        self.dies[die as usize].free.pop_last().map(|(_, block)| block)
    }

    /// The block takes no more pages.
    pub(super) fn close(&mut self, block: u32) {
        self.all[block as usize].closed = true;
        self.all[block as usize].changed = self.writes;
        let die = self.die_of(block);
        self.dies[die as usize].closed.insert((self.all[block as usize].erases, block));
        self.link(block);
    }

    /// A page of the block now holds data.
    pub(super) fn add(&mut self, block: u32) {
        self.writes += 1;
        self.all[block as usize].valid += 1;
        let die = self.die_of(block);
        self.dies[die as usize].valid += 1;
    }

    /// A page of the block holds data no more.
    pub(super) fn remove(&mut self, block: u32) {
        let die = self.die_of(block);
        self.dies[die as usize].valid -= 1;
        if self.all[block as usize].closed {
            self.unlink(block);
            self.all[block as usize].valid -= 1;
            self.all[block as usize].changed = self.writes;
            self.link(block);
        } else {
            self.all[block as usize].valid -= 1;
        }
    }

    /// The closed block of the die to empty next; `None` if nothing would be gained by any.
    pub(super) fn victim(&self, die: u32, collection: Collection) -> Option<u32> {
        let first = self.bucket(die, 0);
        let heads = &self.heads[first..first + self.pages_per_block as usize];
        let mut filled = heads.iter().copied().enumerate().filter(|(_, head)| *head != NONE);
        match collection {
            Collection::Greedy => filled.next().map(|(_, head)| head),
            Collection::CostBenefit => {
                let all = u64::from(self.pages_per_block);
                // age (1 − u) / 2u as a fraction; compared by cross-multiplication, exactly.
                let merit = |valid: usize, block: u32| {
                    let age = u128::from(self.writes - self.all[block as usize].changed + 1);
                    (age * u128::from(all - valid as u64), u128::from(2 * valid as u64))
                };
                filled
                    .map(|(valid, block)| (merit(valid, block), block))
                    .reduce(|best, next| if next.0.0 * best.0.1 > best.0.0 * next.0.1 { next } else { best })
                    .map(|(_, block)| block)
            }
        }
    }

    /// The closed block that has been erased least, if that is more than `gap` erasures behind
    /// `erases`: what it holds seldom changes.
    pub(super) fn left_behind(&self, die: u32, erases: u32, gap: u32) -> Option<u32> {
        let (least, block) = *self.dies[die as usize].closed.first()?;
        (erases > least.saturating_add(gap)).then_some(block)
    }

    /// Erases a block that has been emptied.
    pub(super) fn erase(&mut self, block: u32) {
        let die = self.die_of(block) as usize;
        debug_assert_eq!(self.all[block as usize].valid, 0, "only what is empty is erased");
        self.unlink(block);
        self.all[block as usize].closed = false;
        self.dies[die].closed.remove(&(self.all[block as usize].erases, block));
        self.all[block as usize].erases += 1;
        self.dies[die].free.insert((self.all[block as usize].erases, block));
    }

    const fn die_of(&self, block: u32) -> u32 {
        block / self.blocks_per_die
    }

    const fn bucket(&self, die: u32, valid: u32) -> usize {
        die as usize * (self.pages_per_block as usize + 1) + valid as usize
    }

    /// To the tail of the bucket of its number of valid pages.
    fn link(&mut self, block: u32) {
        let bucket = self.bucket(self.die_of(block), self.all[block as usize].valid);
        let last = std::mem::replace(&mut self.tails[bucket], block);
        self.all[block as usize].previous = last;
        self.all[block as usize].next = NONE;
        match last {
            NONE => self.heads[bucket] = block,
            last => self.all[last as usize].next = block,
        }
    }

    fn unlink(&mut self, block: u32) {
        let bucket = self.bucket(self.die_of(block), self.all[block as usize].valid);
        let (previous, next) = (self.all[block as usize].previous, self.all[block as usize].next);
        match previous {
            NONE => self.heads[bucket] = next,
            previous => self.all[previous as usize].next = next,
        }
        match next {
            NONE => self.tails[bucket] = previous,
            next => self.all[next as usize].previous = previous,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(blocks: &mut Blocks, valid: u32) -> u32 {
        let block = blocks.open(0);
        (0..valid).for_each(|_| blocks.add(block));
        blocks.close(block);
        block
    }

    #[test]
    fn greedy_takes_the_emptiest_and_cost_benefit_may_take_the_oldest() {
        let mut blocks = Blocks::new(1, 8, 64);
        let old = filled(&mut blocks, 33);
        (0..10_000).for_each(|_| blocks.writes += 1);
        let young = filled(&mut blocks, 32);
        let full = filled(&mut blocks, 64);
        assert_eq!(blocks.victim(0, Collection::Greedy), Some(young));
        assert_eq!(blocks.victim(0, Collection::CostBenefit), Some(old));
        (0..2).for_each(|_| blocks.remove(old));
        assert_eq!(blocks.victim(0, Collection::Greedy), Some(old));
        blocks.remove(full);
        assert_eq!((blocks.valid_in_block(full), blocks.valid_in_die(0)), (63, 126));
    }

    #[test]
    fn a_full_block_is_no_victim() {
        let mut blocks = Blocks::new(1, 4, 2);
        let full = filled(&mut blocks, 2);
        assert_eq!(blocks.victim(0, Collection::Greedy), None);
        (0..2).for_each(|_| blocks.remove(full));
        for collection in [Collection::Greedy, Collection::CostBenefit] {
            assert_eq!(blocks.victim(0, collection), Some(full));
        }
        blocks.erase(full);
        assert_eq!((blocks.all[full as usize].erases, blocks.free_in_die(0)), (1, 4));
        assert_eq!((blocks.open(0), blocks.open_worn(0)), (1, Some(full)));
    }
}
