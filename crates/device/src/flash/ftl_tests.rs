//! The layer against its invariants, a naive model, and the published theory.

use super::*;
use crate::flash::timing::Timeless;
use crate::servers::SplitMix;
use proptest::prelude::*;

fn layout(dies: u32, blocks_per_die: u32, pages_per_block: u32, logical_pages: u32) -> Layout {
    Layout {
        dies,
        blocks_per_die,
        pages_per_block,
        logical_pages,
        collection: Collection::Greedy,
        collect_below: 2,
        wear_gap: None,
        cached: None,
    }
}

fn write(ftl: &mut Ftl, page: u32) {
    ftl.write(&mut Timeless, page, false, Time::ZERO);
}

/// Every mapped page is where it is said to be, nothing else is valid, and everything is counted.
fn assert_sound(ftl: &Ftl, mapped: impl Fn(u32) -> bool) {
    let layout = &ftl.layout;
    let mut valid = vec![0; (layout.dies * layout.blocks_per_die) as usize];
    for (page, physical) in ftl.page_of.iter().enumerate() {
        if page < layout.logical_pages as usize {
            assert_eq!(*physical != NONE, mapped(page as u32), "page {page}");
        }
        if *physical != NONE {
            assert_eq!(ftl.owner_of[*physical as usize], page as u32);
            valid[(*physical / layout.pages_per_block) as usize] += 1;
        }
    }
    let owned = ftl.owner_of.iter().filter(|owner| **owner != NONE).count();
    assert_eq!(owned, valid.iter().sum::<u32>() as usize, "one physical page per logical page");
    for die in 0..layout.dies {
        let blocks = (die * layout.blocks_per_die)..((die + 1) * layout.blocks_per_die);
        let in_die: u32 = blocks.clone().map(|block| valid[block as usize]).sum();
        assert_eq!(ftl.blocks.valid_in_die(die), in_die);
        blocks.for_each(|block| assert_eq!(ftl.blocks.valid_in_block(block), valid[block as usize]));
        assert!(ftl.blocks.free_in_die(die) >= 1);
    }
    let erased: u64 = ftl.erases().map(u64::from).sum();
    assert_eq!(erased, ftl.counters.erases, "erasures are conserved");
}

/// The obvious layer: blocks are lists of logical pages, everything is searched for.
struct Naive {
    layout: Layout,
    blocks: Vec<Block>,
    open: Vec<[Option<usize>; 2]>,
    next_die: usize,
    changes: u64,
    copies: u64,
    erases: u64,
}

#[derive(Clone, Default)]
struct Block {
    pages: Vec<Option<u32>>,
    closed: bool,
    erases: u32,
    changed: u64,
}

impl Block {
    fn valid(&self) -> usize {
        self.pages.iter().flatten().count()
    }
}

impl Naive {
    fn new(layout: Layout) -> Self {
        let blocks = vec![Block::default(); (layout.dies * layout.blocks_per_die) as usize];
        let open = vec![[None; 2]; layout.dies as usize];
        Self { layout, blocks, open, next_die: 0, changes: 0, copies: 0, erases: 0 }
    }

    fn of_die(&self, die: usize) -> std::ops::Range<usize> {
        let blocks = self.layout.blocks_per_die as usize;
        die * blocks..(die + 1) * blocks
    }

    fn is_free(&self, block: usize) -> bool {
        self.blocks[block].pages.is_empty() && !self.open.iter().flatten().any(|open| *open == Some(block))
    }

    fn trim(&mut self, page: u32) {
        for block in &mut self.blocks {
            if let Some(entry) = block.pages.iter_mut().find(|entry| **entry == Some(page)) {
                *entry = None;
                self.changes += 1;
                block.changed = self.changes;
            }
        }
    }

    fn place(&mut self, die: usize, stream: usize, page: u32) {
        let block = self.open[die][stream].unwrap_or_else(|| {
            let free = self.of_die(die).filter(|block| self.is_free(*block));
            free.min_by_key(|block| (self.blocks[*block].erases, *block)).expect("one is free")
        });
        self.open[die][stream] = Some(block);
        self.blocks[block].pages.push(Some(page));
        if self.blocks[block].pages.len() == self.layout.pages_per_block as usize {
            self.open[die][stream] = None;
            self.changes += 1;
            self.blocks[block].changed = self.changes;
            self.blocks[block].closed = true;
        }
    }

    fn write(&mut self, page: u32) {
        self.trim(page);
        let limit = self.layout.valid_in_die_max() as usize;
        let die = loop {
            let die = self.next_die;
            self.next_die = (die + 1) % self.layout.dies as usize;
            if self.of_die(die).map(|block| self.blocks[block].valid()).sum::<usize>() < limit {
                break die;
            }
        };
        while self.of_die(die).filter(|block| self.is_free(*block)).count()
            < self.layout.collect_below as usize
        {
            let closed = self.of_die(die).filter(|block| self.blocks[*block].closed);
            let victim =
                closed.min_by_key(|block| (self.blocks[*block].valid(), self.blocks[*block].changed));
            let victim = victim.expect("one is closed");
            for page in self.blocks[victim].pages.clone().into_iter().flatten() {
                self.trim(page);
                self.place(die, 1, page);
                self.copies += 1;
            }
            let erases = self.blocks[victim].erases + 1;
            self.blocks[victim] = Block { erases, ..Block::default() };
            self.erases += 1;
        }
        self.place(die, 0, page);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn it_agrees_with_the_naive_model(
        dies in 1_u32..4, blocks in 7_u32..14, pages_per_block in 2_u32..6, fill in 1_u32..=100,
        steps in prop::collection::vec((any::<u32>(), 0_u8..8), 100..600),
    ) {
        let mut layout = layout(dies, blocks, pages_per_block, 1);
        layout.logical_pages = (dies * layout.valid_in_die_max() * fill).div_ceil(100);
        let (mut ftl, mut naive) = (Ftl::new(layout), Naive::new(layout));
        let mut mapped = vec![false; layout.logical_pages as usize];
        for (page, choice) in steps {
            let page = page % layout.logical_pages;
            if choice == 0 {
                ftl.trim(&mut Timeless, page, Time::ZERO);
                naive.trim(page);
            } else {
                write(&mut ftl, page);
                naive.write(page);
            }
            mapped[page as usize] = choice != 0;
            prop_assert_eq!((ftl.counters.copies, ftl.counters.erases), (naive.copies, naive.erases));
        }
        assert_sound(&ftl, |page| mapped[page as usize]);
        let worn: Vec<u32> = naive.blocks.iter().map(|block| block.erases).collect();
        prop_assert_eq!(ftl.erases().collect::<Vec<_>>(), worn);
    }

    #[test]
    fn no_page_is_ever_lost_however_full_or_small_the_drive(
        dies in 1_u32..5, collect_below in 2_u32..4, pages_per_block in 1_u32..9,
        cost_benefit: bool, wear_gap in prop::option::of(1_u32..4), cached: bool,
        steps in prop::collection::vec((any::<u32>(), 0_u8..8), 100..800),
    ) {
        let mut layout = layout(dies, 16, pages_per_block, 1);
        layout.collect_below = collect_below;
        layout.wear_gap = wear_gap;
        if cost_benefit {
            layout.collection = Collection::CostBenefit;
        }
        layout.logical_pages = dies * layout.valid_in_die_max();
        if cached {
            layout.logical_pages = layout.logical_pages * 4 / 5;
            layout.cached = Some(Cached { protected: 3, probation: 2, entries_per_page: 4 });
        }
        let mut ftl = Ftl::new(layout);
        let mut mapped = vec![false; layout.logical_pages as usize];
        for page in 0..layout.logical_pages {
            write(&mut ftl, page);
            mapped[page as usize] = true;
        }
        for (page, choice) in steps {
            // Half of the writes go to a tenth of the pages.
            let bound = if choice % 2 == 0 { layout.logical_pages } else { layout.logical_pages.div_ceil(10) };
            let page = page % bound;
            match choice {
                0 => _ = ftl.trim(&mut Timeless, page, Time::ZERO),
                1 => _ = ftl.read(&mut Timeless, page, Time::ZERO),
                _ => write(&mut ftl, page),
            }
            if choice != 1 {
                mapped[page as usize] = choice != 0;
            }
        }
        assert_sound(&ftl, |page| mapped[page as usize]);
    }
}

/// Pages programmed per page written, for uniformly random writes under greedy collection, in the limit
/// of many blocks: the share `used` of each block's `pages` is valid on average.
///
/// Van Houdt, "A mean field model for a class of garbage collection algorithms in flash-based solid
/// state drives", SIGMETRICS 2013, with greedy as the limit of his d-choices. A block sinks from all
/// pages valid; it is emptied at m + 1 valid pages with probability 1 - p, and at m otherwise. A block
/// at i pages loses the next after a time in proportion to 1 / i; the mean number of valid pages over
/// a block's life is `used · pages`, which fixes m and p.
fn greedy_amplification(used: f64, pages: u32) -> f64 {
    let b = f64::from(pages);
    let mut harmonic = 1.0 / b;
    for m in (0..pages - 1).rev() {
        let level = f64::from(m + 1);
        let p = (b * used * harmonic - (b - level)) / (1.0 - b * used / level);
        if (0.0..=1.0).contains(&p) {
            return b / (b - (level - p));
        }
        harmonic += 1.0 / level;
    }
    1.0
}

/// The same for blocks of very many pages: α / (α + W(-α e^-α)), where α is the flash per valid page
/// (Desnoyers, "Analytic modeling of SSD write performance", SYSTOR 2012; Xiang and Kurkoski, 2012).
fn large_block_amplification(used: f64) -> f64 {
    let alpha = 1.0 / used;
    // x = -W(-α e^-α) solves x e^-x = α e^-α below 1.
    let mut x = 0.5;
    for _ in 0..200 {
        x = alpha * f64::exp(x - alpha);
    }
    alpha / (alpha - x)
}

#[test]
fn both_published_formulas_agree_for_large_blocks() {
    for used in [0.7, 0.8, 0.9] {
        let (exact, limit) = (greedy_amplification(used, 100_000), large_block_amplification(used));
        assert!((exact / limit - 1.0).abs() < 0.001, "{exact} {limit}");
    }
}

#[test]
fn uniform_random_writes_are_amplified_as_published() {
    for (used, pages) in [(0.75, 32), (0.85, 64), (0.9, 128)] {
        let blocks = 65_536 / pages;
        let mut layout = layout(1, blocks, pages, 1);
        // Two blocks are open, and on average one is free: they are no part of what is collected from.
        layout.logical_pages = (f64::from((blocks - 3) * pages) * used) as u32;
        let mut ftl = Ftl::new(layout);
        (0..layout.logical_pages).for_each(|page| write(&mut ftl, page));
        let mut random = SplitMix(1);
        for round in 0..5 {
            if round == 3 {
                ftl.counters = Counters::default();
            }
            (0..layout.logical_pages).for_each(|_| write(&mut ftl, random.below(layout.logical_pages)));
        }
        let (seen, theory) = (ftl.counters.write_amplification(), greedy_amplification(used, pages));
        assert!((seen / theory - 1.0).abs() < 0.02, "used {used}, {pages} pages: {seen} against {theory}");
    }
}

#[test]
fn a_drive_that_is_prepared_is_steady_at_once() {
    let (blocks, pages, used) = (1_024, 64, 0.85);
    let mut layout = layout(2, blocks, pages, 1);
    layout.logical_pages = (2.0 * f64::from((blocks - 3) * pages) * used) as u32;
    let mut ftl = Ftl::new(layout);
    crate::flash::steady::prepare(&mut ftl);
    assert_sound(&ftl, |_| true);
    let mut random = SplitMix(9);
    let theory = greedy_amplification(used, pages);
    for _ in 0..3 {
        ftl.counters = Counters::default();
        (0..layout.logical_pages / 4).for_each(|_| write(&mut ftl, random.below(layout.logical_pages)));
        let seen = ftl.counters.write_amplification();
        assert!((seen / theory - 1.0).abs() < 0.04, "{seen} against {theory}");
    }
}

/// A drive under writes of which nine in ten go to a tenth of the pages.
fn skewed(collection: Collection, wear_gap: Option<u32>, rounds: u32) -> Ftl {
    let layout = Layout { collection, wear_gap, ..layout(2, 256, 32, 13_000) };
    let mut ftl = Ftl::new(layout);
    (0..layout.logical_pages).for_each(|page| write(&mut ftl, page));
    let mut random = SplitMix(3);
    for _ in 0..rounds * layout.logical_pages {
        let hot = random.below(10) > 0;
        let page = random.below(if hot { layout.logical_pages / 10 } else { layout.logical_pages });
        write(&mut ftl, page);
    }
    ftl
}

#[test]
fn cost_benefit_amplifies_skewed_writes_less_than_greedy() {
    let greedy = skewed(Collection::Greedy, None, 8).counters.write_amplification();
    let benefit = skewed(Collection::CostBenefit, None, 8).counters.write_amplification();
    assert!(benefit < greedy * 0.95, "{benefit} against {greedy}");
}

#[test]
fn wear_levelling_bounds_how_far_apart_blocks_are() {
    let spread = |ftl: &Ftl| {
        let (least, most) = (ftl.erases().min().unwrap(), ftl.erases().max().unwrap());
        most - least
    };
    let levelled = skewed(Collection::Greedy, Some(4), 8);
    assert!(levelled.counters.levelled > 0);
    assert!(spread(&levelled) <= 4 + 4, "{}", spread(&levelled));
    let plain = skewed(Collection::Greedy, None, 8);
    assert!(spread(&plain) > 2 * spread(&levelled), "{}", spread(&plain));
    assert!(plain.counters.levelled == 0);
}

#[test]
fn the_cached_map_costs_what_dftl_says() {
    let mut layout = layout(1, 64, 16, 512);
    layout.cached = Some(Cached { protected: 2, probation: 1, entries_per_page: 8 });
    let mut ftl = Ftl::new(layout);
    // The first write finds no translation page; the second makes room: a changed entry is written
    // back to a translation page that does not exist yet.
    write(&mut ftl, 0);
    assert_eq!((ftl.counters.map_reads, ftl.counters.map_writes), (0, 0));
    write(&mut ftl, 100);
    assert_eq!((ftl.counters.map_reads, ftl.counters.map_writes), (0, 1));
    // Reading it again: 100's entry goes out, changed; 0's comes in from its translation page.
    ftl.read(&mut Timeless, 0, Time::ZERO);
    assert_eq!((ftl.counters.map_reads, ftl.counters.map_writes), (1, 2));
    // A hit costs nothing, and protects the entry.
    ftl.read(&mut Timeless, 0, Time::ZERO);
    ftl.read(&mut Timeless, 100, Time::ZERO);
    ftl.read(&mut Timeless, 200, Time::ZERO);
    ftl.read(&mut Timeless, 0, Time::ZERO);
    assert_eq!((ftl.counters.map_reads, ftl.counters.map_writes), (2, 2));
    assert_eq!(ftl.counters.host_reads, 4, "page 200 was never written");
}
