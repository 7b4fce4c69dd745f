//! Flash drives: dies and channels in time, a translation layer in pages.
//!
//! ```text
//!  access ──> pages ──> Ftl: where is it, where does it go, what must be emptied first
//!                        │ read, program, copy, erase on a die
//!                        v
//!                       Timeline: dies one operation at a time, channels shared ──> finish
//!
//!  writes with a buffer:  [ p p p . ]  a page enters as soon as there is room and the access is over
//!                                      when the last of its pages has entered; each leaves when it is on flash
//! ```
//!
//! An access is laid out in time when it is submitted: reads, programs, and whatever garbage collection
//! they set off, queue on their dies in the order of submission. Parameters follow Agrawal et al.
//! ("Design tradeoffs for SSD performance", USENIX ATC 2008) and FlashSim (Kim et al., SIMUL 2009).
//! What is left out: planes within a die, reads that overtake programs, suspended erasures, collection
//! while the drive is idle.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use evenkeel_core::{Operation, Span, Time};

use crate::finishes::Finishes;
use crate::{Device, Finished, Io, ParameterError};

mod blocks;
mod cached_map;
mod ftl;
pub mod linear;
mod steady;
mod timing;

pub use blocks::Collection;
pub use ftl::Counters;
use ftl::{Cached, Ftl, Layout, RESERVE};
use timing::{Durations, Timeless, Timeline};

/// Bytes of one entry of DFTL's map on flash.
const MAP_ENTRY_BYTES: u32 = 4;

/// Where the page map is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// All of it in memory.
    Page,
    /// DFTL: on flash, with a cache in memory that is replaced by segmented LRU.
    Cached {
        /// Entries that have been asked for again since they came in.
        protected: u32,
        /// Entries that have been asked for once.
        probation: u32,
    },
}

/// What the drive has lived through before the first access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initial {
    /// Nothing was ever written: reads find nothing and take no flash time.
    Empty,
    /// Every page was written once, in order.
    Filled,
    /// Every page was overwritten at random for a long time, so that write amplification is steady.
    Steady,
}

/// Parameters of [`Flash`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Bytes that the host sees; a multiple of the page.
    pub capacity: u64,
    /// Bytes of a page: the unit of reading, programming and mapping.
    pub page: u32,
    /// Pages of a block: the unit of erasing.
    pub pages_per_block: u32,
    /// Blocks of a die.
    pub blocks_per_die: u32,
    /// Dies on one channel.
    pub dies_per_channel: u32,
    /// Channels.
    pub channels: u32,
    /// Reading a page from the cells.
    pub read: Span,
    /// Programming a page into the cells.
    pub program: Span,
    /// Erasing a block.
    pub erase: Span,
    /// Moving a page over the channel.
    pub transfer: Span,
    /// Whether garbage collection copies within the die, without the channel.
    pub copyback: bool,
    /// What the controller adds to each read. It delays the answer and keeps nothing busy.
    pub read_overhead: Span,
    /// The same for each write, trim and flush.
    pub write_overhead: Span,
    /// Pages of writes that the controller answers before they are on flash; 0 for none.
    pub write_buffer: u32,
    /// How the block to be emptied is chosen.
    pub collection: Collection,
    /// Free blocks of a die below which it is collected; at least 2.
    pub collect_below: u32,
    /// How many erasures a block with data may be behind before its content is moved; `None`: never.
    pub wear_gap: Option<u32>,
    /// Where the page map is.
    pub mapping: Mapping,
    /// What the drive has lived through.
    pub initial: Initial,
}

impl Parameters {
    /// Bytes of flash, spare included.
    #[must_use]
    pub fn raw_bytes(&self) -> u128 {
        self.pages() * u128::from(self.page)
    }

    /// The share of the flash that the host does not see, in percent: for display.
    #[must_use]
    pub fn spare_percent(&self) -> f64 {
        100.0 * (1.0 - self.capacity as f64 / self.raw_bytes() as f64)
    }

    /// Whether such a drive can be.
    ///
    /// # Errors
    /// Names the parameter that cannot be.
    pub fn check(&self) -> Result<(), ParameterError> {
        let refuse = |key, message: String, remedy: &str| Err(ParameterError::new(key, message, remedy));
        let sizes = [
            ("page", self.page),
            ("pages_per_block", self.pages_per_block),
            ("blocks_per_die", self.blocks_per_die),
            ("dies_per_channel", self.dies_per_channel),
            ("channels", self.channels),
        ];
        for (key, size) in sizes {
            if size == 0 {
                return refuse(key, "there is none".into(), "write at least 1");
            }
        }
        if self.pages() >= u128::from(u32::MAX) {
            let message = format!("the drive has {} pages, more than {}", self.pages(), u32::MAX - 1);
            return refuse("blocks_per_die", message, "choose fewer blocks or larger pages");
        }
        if self.collect_below < 2 {
            let message = "emptying a block needs a free one".into();
            return refuse("collect_below", message, "write at least 2");
        }
        if let Mapping::Cached { protected, probation } = self.mapping
            && (protected == 0 || probation == 0)
        {
            let message = "both parts of the cache hold at least one entry".into();
            return refuse("map_cache", message, "write at least 1 for each");
        }
        if matches!(self.mapping, Mapping::Cached { .. }) && self.page < MAP_ENTRY_BYTES {
            return refuse("page", "no map entry of 4 B fits".into(), "write a larger page");
        }
        if self.capacity == 0 || !self.capacity.is_multiple_of(u64::from(self.page)) {
            let message =
                format!("{} B are no positive multiple of the page, {} B", self.capacity, self.page);
            return refuse("capacity", message, "write a multiple of the page");
        }
        self.check_spare()
    }

    /// Whether the logical pages fit, with room to collect in every die.
    fn check_spare(&self) -> Result<(), ParameterError> {
        let room = u128::from(self.blocks_per_die.saturating_sub(RESERVE + self.collect_below))
            * u128::from(self.pages_per_block)
            * u128::from(self.channels)
            * u128::from(self.dies_per_channel);
        let pages = u128::from(self.capacity / u64::from(self.page));
        let map = match self.mapping {
            Mapping::Page => 0,
            Mapping::Cached { .. } => pages.div_ceil(u128::from(self.page / MAP_ENTRY_BYTES)),
        };
        if pages + map > room {
            let most = room.saturating_sub(map) * u128::from(self.page);
            let message = format!(
                "{} B do not leave {} blocks of every die to collect into",
                self.capacity,
                RESERVE + self.collect_below
            );
            let remedy = format!("write at most \"{most} B\", or more blocks_per_die");
            return Err(ParameterError::new("capacity", message, remedy));
        }
        Ok(())
    }

    fn pages(&self) -> u128 {
        [self.pages_per_block, self.blocks_per_die, self.dies_per_channel, self.channels]
            .iter()
            .map(|size| u128::from(*size))
            .product()
    }

    fn layout(&self) -> Layout {
        Layout {
            dies: self.dies_per_channel * self.channels,
            blocks_per_die: self.blocks_per_die,
            pages_per_block: self.pages_per_block,
            logical_pages: (self.capacity / u64::from(self.page)) as u32,
            collection: self.collection,
            collect_below: self.collect_below,
            wear_gap: self.wear_gap,
            cached: match self.mapping {
                Mapping::Page => None,
                Mapping::Cached { protected, probation } => {
                    Some(Cached { protected, probation, entries_per_page: self.page / MAP_ENTRY_BYTES })
                }
            },
        }
    }
}

/// A flash drive.
#[derive(Debug)]
pub struct Flash {
    parameters: Parameters,
    ftl: Ftl,
    timeline: Timeline,
    /// When each page in the write buffer will be on flash.
    buffered: BinaryHeap<Reverse<Time>>,
    finishes: Finishes,
}

impl Flash {
    /// A drive that has lived through `parameters.initial` and is idle. Takes about
    /// 8 bytes per page of flash, and the time of writing every page once or (steady) twice.
    ///
    /// # Errors
    /// See [`Parameters::check`].
    pub fn new(parameters: Parameters) -> Result<Self, ParameterError> {
        parameters.check()?;
        let layout = parameters.layout();
        let durations = Durations {
            read: parameters.read,
            program: parameters.program,
            erase: parameters.erase,
            transfer: parameters.transfer,
            copyback: parameters.copyback,
        };
        let mut ftl = Ftl::new(layout);
        match parameters.initial {
            Initial::Empty => {}
            Initial::Filled => {
                (0..layout.logical_pages)
                    .for_each(|page| _ = ftl.write(&mut Timeless, page, false, Time::ZERO));
            }
            Initial::Steady => steady::prepare(&mut ftl),
        }
        ftl.counters = Counters::default();
        let timeline = Timeline::new(durations, parameters.channels, layout.dies);
        Ok(Self { parameters, ftl, timeline, buffered: BinaryHeap::new(), finishes: Finishes::default() })
    }

    /// What it is made of.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// What has been done since it was made.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.ftl.counters
    }

    /// How often each block has been erased, in the order of the dies; preparing the drive included.
    #[must_use]
    pub fn erase_counts(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.ftl.erases()
    }

    fn read(&mut self, now: Time, range: Pages) -> Time {
        range.pages().map(|page| self.ftl.read(&mut self.timeline, page, now)).max().unwrap_or(now)
    }

    /// When the last page is on flash or, with a write buffer, has found room in it.
    fn write(&mut self, now: Time, range: Pages) -> Time {
        let mut over = now;
        for page in range.pages() {
            let merge = range.is_partial(page);
            let enters = self.enter_buffer(now);
            let on_flash = self.ftl.write(&mut self.timeline, page, merge, enters);
            if self.parameters.write_buffer == 0 {
                over = over.max(on_flash);
            } else {
                self.buffered.push(Reverse(on_flash));
                over = over.max(enters);
            }
        }
        over
    }

    /// When a page that arrives at `now` finds room in the write buffer.
    fn enter_buffer(&mut self, now: Time) -> Time {
        while self.buffered.peek().is_some_and(|Reverse(at)| *at <= now) {
            self.buffered.pop();
        }
        if self.buffered.len() < self.parameters.write_buffer as usize || self.parameters.write_buffer == 0 {
            return now;
        }
        self.buffered.pop().map_or(now, |Reverse(at)| at)
    }

    fn trim(&mut self, now: Time, range: Pages) -> Time {
        let whole = range.pages().filter(|page| !range.is_partial(*page));
        whole.map(|page| self.ftl.trim(&mut self.timeline, page, now)).max().unwrap_or(now)
    }
}

impl Device for Flash {
    fn submit(&mut self, now: Time, io: Io) {
        let now = self.finishes.advance(now);
        self.timeline.begin(now);
        let range = Pages::new(&io, &self.parameters);
        let (over, overhead) = match io.operation {
            Operation::Read => (self.read(now, range), self.parameters.read_overhead),
            Operation::Write | Operation::WriteZeroes => {
                (self.write(now, range), self.parameters.write_overhead)
            }
            Operation::Trim => (self.trim(now, range), self.parameters.write_overhead),
            Operation::Flush => {
                let last = self.buffered.iter().map(|Reverse(at)| *at).max();
                (last.unwrap_or(now).max(now), self.parameters.write_overhead)
            }
        };
        self.finishes.push(over + overhead, io.token, self.timeline.busy());
    }

    fn next_event(&self) -> Option<Time> {
        self.finishes.next()
    }

    fn poll_completion(&mut self, now: Time) -> Option<Finished> {
        self.finishes.poll(now)
    }
}

/// The pages that an access touches.
#[derive(Clone, Copy)]
struct Pages {
    start: u64,
    end: u64,
    page: u64,
}

impl Pages {
    fn new(io: &Io, parameters: &Parameters) -> Self {
        let end = io.offset.saturating_add(u64::from(io.length)).min(parameters.capacity);
        Self { start: io.offset.min(end), end, page: u64::from(parameters.page) }
    }

    fn pages(self) -> std::ops::Range<u32> {
        if self.start == self.end {
            return 0..0;
        }
        // The capacity has fewer than 2³² pages.
        (self.start / self.page) as u32..self.end.div_ceil(self.page) as u32
    }

    /// Whether the access covers only a part of the page.
    fn is_partial(self, page: u32) -> bool {
        let first = u64::from(page) * self.page;
        first < self.start || first + self.page > self.end
    }
}
