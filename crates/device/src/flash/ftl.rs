//! The flash translation layer: a page map, garbage collection, wear levelling, and (with DFTL) the
//! traffic of the map itself.
//!
//! ```text
//!  logical page ──page_of──> physical page          physical = block · pages_per_block + page
//!               <──owner_of──                       NONE: unmapped, or free, or out of date
//!
//!  writes go to the dies in turn; each die has an open block per stream:
//!    host        what the host writes
//!    collected   what is copied out of blocks to be erased
//!    map         DFTL's translation pages: logical pages beyond those of the host, kept apart
//! ```
//!
//! A die is collected, before it takes a page, until `collect_below` of its blocks are free. Copies stay within
//! their die. **Why there is always a block worth emptying:** a die takes pages of the host only while
//! its valid pages are fewer than those of `blocks - RESERVE - collect_below` blocks. With fewer than
//! `collect_below` free and at most three open, the closed blocks have room for more than that, so one
//! of them has a page out of date; and since the logical pages fit into all dies' limits together, some
//! die can always take one more.

use evenkeel_core::Time;

use super::blocks::{Blocks, Collection, NONE};
use super::cached_map::{CachedMap, Lookup};
use super::timing::Medium;

/// Blocks of a die that never count as room: one open for each stream.
pub(super) const RESERVE: u32 = STREAMS as u32;
const STREAMS: usize = 3;

/// What a page is written for.
#[derive(Clone, Copy)]
enum Stream {
    Host = 0,
    Collected = 1,
    Map = 2,
}

/// What the layer is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) dies: u32,
    pub(super) blocks_per_die: u32,
    pub(super) pages_per_block: u32,
    /// Pages of the host.
    pub(super) logical_pages: u32,
    pub(super) collection: Collection,
    pub(super) collect_below: u32,
    pub(super) wear_gap: Option<u32>,
    pub(super) cached: Option<Cached>,
}

/// DFTL's table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cached {
    pub(super) protected: u32,
    pub(super) probation: u32,
    /// Map entries in one translation page.
    pub(super) entries_per_page: u32,
}

/// What has been done so far, in pages and blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pages that the host read from flash.
    pub host_reads: u64,
    /// Pages that the host wrote.
    pub host_writes: u64,
    /// Pages copied out of blocks that were then erased.
    pub copies: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Translation pages read (DFTL).
    pub map_reads: u64,
    /// Translation pages written (DFTL).
    pub map_writes: u64,
    /// Blocks moved because they were worn less than others.
    pub levelled: u64,
}

impl Counters {
    /// Pages programmed per page written by the host; 1 if it has written none.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        if self.host_writes == 0 {
            return 1.0;
        }
        (self.host_writes + self.copies + self.map_writes) as f64 / self.host_writes as f64
    }
}

/// The layer.
#[derive(Debug)]
pub(super) struct Ftl {
    layout: Layout,
    page_of: Vec<u32>,
    owner_of: Vec<u32>,
    blocks: Blocks,
    /// The open block and its next page, by die and stream.
    open: Vec<(u32, u32)>,
    next_die: u32,
    map: Option<CachedMap>,
    /// Translation pages that collection has made out of date, each once.
    stale: Vec<u32>,
    is_stale: Vec<bool>,
    pub(super) counters: Counters,
}

impl Ftl {
    pub(super) fn new(layout: Layout) -> Self {
        let translation = layout.translation_pages();
        let physical = layout.dies * layout.blocks_per_die * layout.pages_per_block;
        Self {
            layout,
            page_of: vec![NONE; (layout.logical_pages + translation) as usize],
            owner_of: vec![NONE; physical as usize],
            blocks: Blocks::new(layout.dies, layout.blocks_per_die, layout.pages_per_block),
            open: vec![(NONE, 0); layout.dies as usize * STREAMS],
            next_die: 0,
            map: layout
                .cached
                .map(|cached| CachedMap::new(layout.logical_pages, cached.protected, cached.probation)),
            stale: Vec::new(),
            is_stale: vec![false; translation as usize],
            counters: Counters::default(),
        }
    }

    pub(super) fn is_mapped(&self, page: u32) -> bool {
        self.page_of[page as usize] != NONE
    }

    /// How often each block has been erased.
    pub(super) fn erases(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.blocks.erases()
    }

    /// Reads a page of the host; when it is at the controller. What was never written takes no time,
    /// but for looking it up.
    pub(super) fn read(&mut self, medium: &mut impl Medium, page: u32, after: Time) -> Time {
        let known = self.look_up(medium, page, after);
        match self.page_of[page as usize] {
            NONE => known,
            physical => {
                self.counters.host_reads += 1;
                medium.read(self.die_of(physical), known)
            }
        }
    }

    /// Writes a page of the host; when it is on flash. `merge`: only part of it is new, so the old
    /// version is read first, if there is one.
    pub(super) fn write(&mut self, medium: &mut impl Medium, page: u32, merge: bool, after: Time) -> Time {
        let mut ready = self.look_up(medium, page, after);
        if merge && self.is_mapped(page) {
            self.counters.host_reads += 1;
            ready = medium.read(self.die_of(self.page_of[page as usize]), ready);
        }
        self.counters.host_writes += 1;
        let written = self.append(medium, page, Stream::Host, ready);
        if let Some(map) = &mut self.map {
            map.change(page);
        }
        self.refresh_map(medium, after);
        written
    }

    /// The host needs the page no more; when that is known.
    pub(super) fn trim(&mut self, medium: &mut impl Medium, page: u32, after: Time) -> Time {
        if !self.is_mapped(page) {
            return after;
        }
        let known = self.look_up(medium, page, after);
        self.discard(page);
        if let Some(map) = &mut self.map {
            map.change(page);
        }
        self.refresh_map(medium, after);
        known
    }

    pub(super) const fn dies(&self) -> u32 {
        self.layout.dies
    }

    pub(super) const fn logical_pages(&self) -> u32 {
        self.layout.logical_pages
    }

    pub(super) const fn pages_per_block(&self) -> u32 {
        self.layout.pages_per_block
    }

    /// Free blocks of the die that can be filled before it has to be collected.
    pub(super) fn blocks_to_fill(&self, die: u32) -> u32 {
        (self.blocks.free_in_die(die) as u32).saturating_sub(self.layout.collect_below)
    }

    /// Gives `pages`, which must be unmapped and fit, a block of their own; what is left of it stays
    /// unused until it is erased.
    pub(super) fn fill_block(&mut self, die: u32, pages: &[u32]) {
        let block = self.blocks.open(die);
        for (index, page) in pages.iter().enumerate() {
            self.put(block, index as u32, *page);
        }
        self.blocks.close(block);
    }

    /// Writes the whole map to flash (DFTL).
    pub(super) fn write_whole_map(&mut self, medium: &mut impl Medium) {
        for translation in self.layout.logical_pages..self.page_of.len() as u32 {
            self.write_map(medium, translation, Time::ZERO);
        }
    }

    /// Brings the map's entry of `page` into memory, if it is not there.
    fn look_up(&mut self, medium: &mut impl Medium, page: u32, after: Time) -> Time {
        let Some(map) = &mut self.map else { return after };
        let Lookup::Miss { write_back } = map.look_up(page) else { return after };
        let mut ready = after;
        if let Some(old) = write_back {
            let translation = self.layout.translation_page(old);
            ready = self.read_map(medium, translation, ready);
            ready = self.write_map(medium, translation, ready);
        }
        self.read_map(medium, self.layout.translation_page(page), ready)
    }

    fn read_map(&mut self, medium: &mut impl Medium, translation: u32, after: Time) -> Time {
        match self.page_of[translation as usize] {
            NONE => after,
            physical => {
                self.counters.map_reads += 1;
                medium.read(self.die_of(physical), after)
            }
        }
    }

    fn write_map(&mut self, medium: &mut impl Medium, translation: u32, after: Time) -> Time {
        self.counters.map_writes += 1;
        self.append(medium, translation, Stream::Map, after)
    }

    /// Rewrites the translation pages that collection has made out of date, each once for all its
    /// entries (DFTL's batch update). Doing so can make others out of date: those wait until next time.
    fn refresh_map(&mut self, medium: &mut impl Medium, after: Time) {
        if self.stale.is_empty() {
            return;
        }
        let stale = std::mem::take(&mut self.stale);
        for translation in &stale {
            self.is_stale[(translation - self.layout.logical_pages) as usize] = false;
        }
        for translation in stale {
            let read = self.read_map(medium, translation, after);
            self.write_map(medium, translation, read);
        }
    }

    /// Writes a logical page to the next die that can take it.
    fn append(&mut self, medium: &mut impl Medium, page: u32, stream: Stream, after: Time) -> Time {
        self.discard(page);
        let die = self.next_die();
        while self.blocks.free_in_die(die) < self.layout.collect_below as usize {
            self.collect(medium, die, after);
        }
        self.place(die, stream, page);
        medium.program(die, after)
    }

    fn discard(&mut self, page: u32) {
        let physical = std::mem::replace(&mut self.page_of[page as usize], NONE);
        if physical != NONE {
            self.owner_of[physical as usize] = NONE;
            self.blocks.remove(self.block_of(physical));
        }
    }

    fn next_die(&mut self) -> u32 {
        let limit = self.layout.valid_in_die_max();
        loop {
            let die = self.next_die;
            self.next_die = if die + 1 == self.layout.dies { 0 } else { die + 1 };
            if self.blocks.valid_in_die(die) < limit {
                return die;
            }
        }
    }

    /// Gives `page` the next page of the die's open block of that stream.
    fn place(&mut self, die: u32, stream: Stream, page: u32) {
        let frontier = die as usize * STREAMS + stream as usize;
        if self.open[frontier].0 == NONE {
            self.open[frontier] = (self.blocks.open(die), 0);
        }
        let (block, next) = self.open[frontier];
        self.put(block, next, page);
        if next + 1 == self.layout.pages_per_block {
            self.blocks.close(block);
            self.open[frontier] = (NONE, 0);
        } else {
            self.open[frontier].1 = next + 1;
        }
    }

    fn put(&mut self, block: u32, index: u32, page: u32) {
        let physical = block * self.layout.pages_per_block + index;
        self.page_of[page as usize] = physical;
        self.owner_of[physical as usize] = page;
        self.blocks.add(block);
    }

    /// Empties and erases one block of the die.
    fn collect(&mut self, medium: &mut impl Medium, die: u32, after: Time) {
        let victim = self.blocks.victim(die, self.layout.collection);
        let victim = victim.expect("a die with few free blocks has pages that are out of date");
        self.empty(medium, die, victim, after, |ftl, page| ftl.place(die, Stream::Collected, page));
        self.level_wear(medium, die, victim, after);
    }

    /// If `erased` is far more worn than the least worn block that holds data, moves what that one
    /// holds into the most worn free block, so that it takes part in the wear again.
    fn level_wear(&mut self, medium: &mut impl Medium, die: u32, erased: u32, after: Time) {
        let Some(gap) = self.layout.wear_gap else { return };
        let worn = self.blocks.erased(erased);
        let Some(cold) = self.blocks.left_behind(die, worn, gap) else { return };
        let Some(target) = self.blocks.open_worn(die) else { return };
        let mut index = 0;
        self.empty(medium, die, cold, after, |ftl, page| {
            ftl.put(target, index, page);
            index += 1;
        });
        self.blocks.close(target);
        self.counters.levelled += 1;
    }

    fn empty<M: Medium>(
        &mut self,
        medium: &mut M,
        die: u32,
        block: u32,
        after: Time,
        mut place: impl FnMut(&mut Self, u32),
    ) {
        let first = block * self.layout.pages_per_block;
        for physical in first..first + self.layout.pages_per_block {
            if self.blocks.valid_in_block(block) == 0 {
                break;
            }
            let page = self.owner_of[physical as usize];
            if page == NONE {
                continue;
            }
            self.discard(page);
            place(self, page);
            self.counters.copies += 1;
            medium.copy(die, after);
            self.note_move(page);
        }
        self.blocks.erase(block);
        self.counters.erases += 1;
        medium.erase(die, after);
    }

    /// DFTL: a page has moved. Its entry is changed in memory if it is there, else on flash later.
    fn note_move(&mut self, page: u32) {
        let Some(map) = &mut self.map else { return };
        if page >= self.layout.logical_pages {
            return;
        }
        if map.holds(page) {
            map.change(page);
            return;
        }
        let translation = self.layout.translation_page(page);
        let flag = &mut self.is_stale[(translation - self.layout.logical_pages) as usize];
        if !std::mem::replace(flag, true) {
            self.stale.push(translation);
        }
    }

    const fn block_of(&self, physical: u32) -> u32 {
        physical / self.layout.pages_per_block
    }

    const fn die_of(&self, physical: u32) -> u32 {
        self.block_of(physical) / self.layout.blocks_per_die
    }
}

impl Layout {
    /// Valid pages up to which a die takes more.
    pub(super) const fn valid_in_die_max(&self) -> u32 {
        let usable = self.blocks_per_die.saturating_sub(RESERVE + self.collect_below);
        usable * self.pages_per_block
    }

    /// Translation pages of the whole map.
    pub(super) const fn translation_pages(&self) -> u32 {
        match self.cached {
            Some(cached) => self.logical_pages.div_ceil(cached.entries_per_page),
            None => 0,
        }
    }

    /// The translation page that holds the entry of `page`.
    const fn translation_page(&self, page: u32) -> u32 {
        match self.cached {
            Some(cached) => self.logical_pages + page / cached.entries_per_page,
            None => NONE,
        }
    }
}

#[cfg(test)]
#[path = "ftl_tests.rs"]
mod tests;
