//! Arrays of devices: RAID-0, RAID-1, RAID-5, RAID-10 and concatenation.
//!
//! ```text
//!  access ──> jobs ──> member accesses (extents)        job 0: read u0, P ─> write u0, P   (row 0)
//!               │                                       job 1: write u1, u2, u3, P         (row 1)
//!               └─ a job: reads, and when all of them are over, writes
//!  the access is over when all of its jobs are; writes may also wait for less (WriteAfter)
//!
//!  members   [ device | next event | outstanding | end of last access | disk time ]
//! ```
//!
//! Stripe units that follow each other on a member are one access to it. The rows of a RAID-5 write go
//! on independently of each other. Accesses to the same bytes are not ordered among each other, as in
//! DiskSim; md holds a stripe while it updates it. A trim goes to the data only, without parity.

use evenkeel_core::{Operation, Span, Time};
use slab::Slab;

use crate::finishes::Finishes;
use crate::{Device, Finished, Io, ParameterError};

mod layout;
mod parity;

pub use layout::ParityLayout;
use layout::{Extent, Piece, append, pieces};
pub use parity::{ParityUpdate, WriteAfter};
use parity::{Row, Update};

/// How an array spreads its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// One member after the other.
    Jbod,
    /// Stripes over all members.
    Raid0,
    /// The same on all members.
    Raid1,
    /// Stripes with parity that moves from row to row.
    Raid5,
    /// Stripes over pairs of members (0 and 1, 2 and 3, ...), each pair a mirror.
    Raid10,
}

/// Which copy a mirror reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFrom {
    /// The first that works.
    First,
    /// Each in its turn.
    InTurn,
    /// The one with the fewest accesses outstanding; among equals, the one whose last access ended
    /// nearest (DiskSim's copy choice 6).
    Shortest,
}

/// Parameters of [`Raid`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// How bytes are spread.
    pub level: Level,
    /// Bytes of a stripe unit (RAID-0, RAID-5, RAID-10).
    pub stripe_unit: u32,
    /// Where parity is (RAID-5).
    pub parity_layout: ParityLayout,
    /// How parity is brought up to date (RAID-5).
    pub parity_update: ParityUpdate,
    /// What the writes of a row wait for (RAID-5).
    pub write_after: WriteAfter,
    /// Which copy is read (RAID-1, RAID-10).
    pub read_from: ReadFrom,
    /// A member that does not work (RAID-1, RAID-5, RAID-10).
    pub failed: Option<usize>,
}

impl Parameters {
    /// An array of that level with the values that suit most: units of 64 KiB, left-symmetric parity,
    /// fewest reads, writes after all reads, the shortest queue, nothing failed.
    #[must_use]
    pub const fn new(level: Level) -> Self {
        Self {
            level,
            stripe_unit: 64 << 10,
            parity_layout: ParityLayout::LeftSymmetric,
            parity_update: ParityUpdate::FewestReads,
            write_after: WriteAfter::AllReads,
            read_from: ReadFrom::Shortest,
            failed: None,
        }
    }

    /// Bytes of such an array of members with these capacities. Striped levels use whole stripe units
    /// of the smallest member.
    ///
    /// # Errors
    /// Names the parameter that cannot be.
    pub fn capacity(&self, members: &[u64]) -> Result<u64, ParameterError> {
        let refuse = |key, message: String, remedy: &str| Err(ParameterError::new(key, message, remedy));
        let (least, even) = match self.level {
            Level::Jbod | Level::Raid0 => (1, false),
            Level::Raid1 => (2, false),
            Level::Raid5 => (3, false),
            Level::Raid10 => (2, true),
        };
        if members.len() < least || (even && !members.len().is_multiple_of(2)) {
            let message = format!("{} members make no such array", members.len());
            let remedy = format!("use at least {least}{}", if even { ", and an even number" } else { "" });
            return Err(ParameterError::new("members", message, remedy));
        }
        if self.stripe_unit == 0 {
            return refuse("stripe_unit", "a stripe unit holds something".into(), "write a size above 0");
        }
        if let Some(failed) = self.failed {
            if matches!(self.level, Level::Jbod | Level::Raid0) {
                let message = "without a copy or parity, the array would be lost".into();
                return refuse("failed", message, "remove this line, or choose another level");
            }
            if failed >= members.len() {
                let message = format!("there is no member {failed}");
                return refuse("failed", message, "members are counted from 0");
            }
        }
        let smallest = members.iter().copied().min().unwrap_or(0);
        let units = smallest - smallest % u64::from(self.stripe_unit);
        let sum = |bytes: u64, count: usize| bytes.checked_mul(count as u64);
        let total = match self.level {
            Level::Jbod => members.iter().try_fold(0_u64, |sum, bytes| sum.checked_add(*bytes)),
            Level::Raid0 => sum(units, members.len()),
            Level::Raid1 => Some(smallest),
            Level::Raid5 => sum(units, members.len() - 1),
            Level::Raid10 => sum(units, members.len() / 2),
        };
        match total {
            Some(0) => refuse("members", "the array holds nothing".into(), "use larger members"),
            Some(total) => Ok(total),
            None => refuse("members", "the array holds more than 16 EiB".into(), "use fewer members"),
        }
    }
}

/// An array.
pub struct Raid {
    parameters: Parameters,
    capacity: u64,
    members: Vec<Member>,
    requests: Slab<Request>,
    jobs: Slab<Job>,
    turn: usize,
    finishes: Finishes,
}

struct Member {
    device: Box<dyn Device + Send>,
    capacity: u64,
    next_event: Option<Time>,
    outstanding: u32,
    last_end: u64,
    disk_time: Span,
}

struct Request {
    token: u64,
    jobs: u32,
    busy: Span,
}

struct Job {
    request: usize,
    /// Member accesses under way.
    left: u32,
    /// The members of reads under way that writes wait for.
    reading: Vec<usize>,
    /// What has still to be written.
    then: Vec<Extent>,
    /// The member that is written after all reads in any case.
    parity: usize,
}

impl Raid {
    /// An array of idle devices, each with its capacity in bytes.
    ///
    /// # Errors
    /// See [`Parameters::capacity`].
    pub fn new(
        parameters: Parameters,
        members: Vec<(Box<dyn Device + Send>, u64)>,
    ) -> Result<Self, ParameterError> {
        let capacities: Vec<u64> = members.iter().map(|(_, capacity)| *capacity).collect();
        let capacity = parameters.capacity(&capacities)?;
        let member = |(device, capacity): (Box<dyn Device + Send>, u64)| Member {
            next_event: device.next_event(),
            device,
            capacity,
            outstanding: 0,
            last_end: 0,
            disk_time: Span::ZERO,
        };
        Ok(Self {
            parameters,
            capacity,
            members: members.into_iter().map(member).collect(),
            requests: Slab::new(),
            jobs: Slab::new(),
            turn: 0,
            finishes: Finishes::default(),
        })
    }

    /// Bytes of the array.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// How long each member has been busy so far, in their order, for accesses that are over.
    pub fn disk_times(&self) -> impl Iterator<Item = Span> + '_ {
        self.members.iter().map(|member| member.disk_time)
    }

    fn next_inside(&self) -> Option<(Time, usize)> {
        let events = self.members.iter().enumerate();
        events.filter_map(|(index, member)| Some((member.next_event?, index))).min()
    }

    /// Carries out what a member does at `now`, the instant of its next event.
    fn step(&mut self, now: Time, index: usize) {
        // Once only: a member may have just become free, and what it takes up next depends on what is
        // submitted at this very instant.
        if let Some(over) = self.members[index].device.poll_completion(now) {
            let member = &mut self.members[index];
            member.outstanding -= 1;
            member.disk_time = member.disk_time + over.busy;
            self.on_over(index, over);
        }
        let member = &mut self.members[index];
        member.next_event = member.device.next_event();
    }

    fn on_over(&mut self, member: usize, over: Finished) {
        let index = over.token as usize;
        let job = &mut self.jobs[index];
        let request = &mut self.requests[job.request];
        request.busy = request.busy + over.busy;
        job.left -= 1;
        // A member is written only after its reads are over, so this is a read if one is under way.
        if let Some(read) = job.reading.iter().position(|reading| *reading == member) {
            job.reading.swap_remove(read);
            let own = self.parameters.write_after == WriteAfter::OwnRead;
            let (reading, parity) = (&job.reading, job.parity);
            let may_go = |extent: &mut Extent| {
                reading.is_empty() || (own && extent.member != parity && !reading.contains(&extent.member))
            };
            let ready: Vec<Extent> = job.then.extract_if(.., may_go).collect();
            job.left += ready.len() as u32;
            self.issue(over.at, index, Operation::Write, &ready);
        }
        let job = &self.jobs[index];
        if job.left > 0 {
            return;
        }
        debug_assert!(job.then.is_empty(), "writes go when the last read is over");
        let number = job.request;
        self.jobs.remove(index);
        self.requests[number].jobs -= 1;
        if self.requests[number].jobs == 0 {
            let request = self.requests.remove(number);
            self.finishes.push(over.at, request.token, request.busy);
        }
    }

    fn issue(&mut self, now: Time, job: usize, operation: Operation, extents: &[Extent]) {
        for extent in extents {
            let member = &mut self.members[extent.member];
            let Extent { offset, length, .. } = *extent;
            member.device.submit(now, Io { token: job as u64, operation, offset, length });
            member.next_event = member.device.next_event();
            member.outstanding += 1;
            member.last_end = offset + u64::from(length);
        }
    }

    /// Starts a job of accesses that wait for nothing.
    fn start(&mut self, now: Time, request: usize, operation: Operation, extents: &[Extent]) {
        let left = extents.len() as u32;
        let job = self.jobs.insert(Job { request, left, reading: Vec::new(), then: Vec::new(), parity: 0 });
        self.requests[request].jobs += 1;
        self.issue(now, job, operation, extents);
    }

    /// Starts a job that reads before it writes. What it does not have to read for, it writes at once.
    fn start_update(&mut self, now: Time, request: usize, update: Update) {
        let Update { reads, writes, parity } = update;
        let reading: Vec<usize> = reads.iter().map(|extent| extent.member).collect();
        let at_once = self.parameters.write_after == WriteAfter::OwnRead;
        let (first, then): (Vec<Extent>, Vec<Extent>) = writes
            .into_iter()
            .partition(|extent| at_once && extent.member != parity && !reading.contains(&extent.member));
        let left = (reads.len() + first.len()) as u32;
        let job = self.jobs.insert(Job { request, left, reading, then, parity });
        self.requests[request].jobs += 1;
        self.issue(now, job, Operation::Read, &reads);
        self.issue(now, job, Operation::Write, &first);
    }

    fn works(&self, member: usize) -> bool {
        self.parameters.failed != Some(member)
    }

    /// The copy to read among `copies` for an access at `offset`.
    fn copy(&mut self, copies: std::ops::Range<usize>, offset: u64) -> usize {
        let first = copies.start;
        let mut working = copies.filter(|member| self.works(*member));
        let chosen = match self.parameters.read_from {
            ReadFrom::First => working.next(),
            ReadFrom::InTurn => {
                let working: Vec<usize> = working.collect();
                self.turn = self.turn.wrapping_add(1);
                working.get(self.turn % working.len().max(1)).copied()
            }
            ReadFrom::Shortest => working.min_by_key(|member| {
                let member = &self.members[*member];
                (member.outstanding, member.last_end.abs_diff(offset))
            }),
        };
        // At most one member of an array has failed, so a mirror has a copy that works.
        chosen.unwrap_or(first)
    }

    /// What to access for a read, a write without parity, or a trim.
    fn extents(&mut self, operation: Operation, start: u64, end: u64) -> Vec<Extent> {
        let mut extents = Vec::new();
        if operation == Operation::Flush {
            let working = (0..self.members.len()).filter(|member| self.works(*member));
            return working.map(|member| Extent { member, offset: 0, length: 0 }).collect();
        }
        match self.parameters.level {
            Level::Jbod => self.concatenated(start, end, &mut extents),
            Level::Raid1 => {
                let extent = Extent { member: 0, offset: start, length: (end - start) as u32 };
                if extent.length > 0 {
                    self.mirrored(operation, 0..self.members.len(), extent, &mut extents);
                }
            }
            Level::Raid0 | Level::Raid10 | Level::Raid5 => self.striped(operation, start, end, &mut extents),
        }
        extents
    }

    fn concatenated(&self, start: u64, end: u64, extents: &mut Vec<Extent>) {
        let mut first = 0;
        for (index, member) in self.members.iter().enumerate() {
            let (from, to) = (start.max(first), end.min(first + member.capacity));
            if from < to {
                extents.push(Extent { member: index, offset: from - first, length: (to - from) as u32 });
            }
            first += member.capacity;
        }
    }

    fn striped(&mut self, operation: Operation, start: u64, end: u64, extents: &mut Vec<Extent>) {
        let disks = self.members.len();
        let unit = u64::from(self.parameters.stripe_unit);
        for piece in pieces(start, end, self.parameters.stripe_unit) {
            let columns = match self.parameters.level {
                Level::Raid5 => disks - 1,
                Level::Raid10 => disks / 2,
                _ => disks,
            } as u64;
            let (row, column) = (piece.unit / columns, (piece.unit % columns) as usize);
            let offset = row * unit + u64::from(piece.from);
            let mut extent = Extent { member: column, offset, length: piece.length };
            match self.parameters.level {
                Level::Raid10 => {
                    self.mirrored(operation, 2 * column..2 * column + 2, extent, extents);
                    continue;
                }
                Level::Raid5 => extent.member = self.parameters.parity_layout.data(row, column, disks),
                _ => {}
            }
            if self.works(extent.member) {
                append(extents, extent);
            } else if operation == Operation::Read {
                // What the failed member held follows from all the others.
                let others = (0..disks).filter(|member| *member != extent.member);
                others.for_each(|member| append(extents, Extent { member, ..extent }));
            }
        }
    }

    fn mirrored(
        &mut self,
        operation: Operation,
        copies: std::ops::Range<usize>,
        extent: Extent,
        extents: &mut Vec<Extent>,
    ) {
        if operation == Operation::Read {
            let member = self.copy(copies, extent.offset);
            append(extents, Extent { member, ..extent });
            return;
        }
        for member in copies.filter(|member| self.works(*member)) {
            append(extents, Extent { member, ..extent });
        }
    }

    /// Starts the jobs of a write with parity, one per row or, where they share none of it, per unit.
    fn write_rows(&mut self, now: Time, request: usize, start: u64, end: u64) {
        let disks = self.members.len();
        let Parameters { stripe_unit: unit, parity_layout: layout, parity_update, failed, .. } =
            self.parameters;
        let all: Vec<_> = pieces(start, end, unit).collect();
        let row_of = |piece: &Piece| piece.unit / (disks as u64 - 1);
        for row in all.chunk_by(|a, b| row_of(a) == row_of(b)) {
            // The end of one unit and the beginning of the next have no parity in common: two updates.
            let apart = matches!(row, [a, b] if b.from + b.length < a.from);
            for pieces in row.chunks(if apart { 1 } else { row.len() }) {
                let number = row_of(&pieces[0]);
                let update = Row { number, disks, unit, layout, failed }.update(pieces, parity_update);
                if update.reads.is_empty() {
                    self.start(now, request, Operation::Write, &update.writes);
                } else {
                    self.start_update(now, request, update);
                }
            }
        }
    }
}

impl Device for Raid {
    fn submit(&mut self, now: Time, io: Io) {
        let now = self.finishes.advance(now);
        // Not what happens at `now` itself: members may choose among this access too.
        while let Some((at, member)) = self.next_inside().filter(|(at, _)| *at < now) {
            self.step(at, member);
        }
        let end = io.offset.saturating_add(u64::from(io.length)).min(self.capacity);
        let start = io.offset.min(end);
        let request = self.requests.insert(Request { token: io.token, jobs: 0, busy: Span::ZERO });
        let writes = matches!(io.operation, Operation::Write | Operation::WriteZeroes);
        if writes && self.parameters.level == Level::Raid5 {
            self.write_rows(now, request, start, end);
        } else {
            let extents = self.extents(io.operation, start, end);
            if !extents.is_empty() {
                self.start(now, request, io.operation, &extents);
            }
        }
        if self.requests[request].jobs == 0 {
            self.requests.remove(request);
            self.finishes.push(now, io.token, Span::ZERO);
        }
    }

    fn next_event(&self) -> Option<Time> {
        let inside = self.next_inside().map(|(at, _)| at);
        [inside, self.finishes.next()].into_iter().flatten().min()
    }

    fn poll_completion(&mut self, now: Time) -> Option<Finished> {
        loop {
            let inside = self.next_inside().filter(|(at, _)| *at <= now);
            let first = self.finishes.next();
            match inside {
                Some((at, member)) if first.is_none_or(|first| at < first) => self.step(at, member),
                _ => return self.finishes.poll(now),
            }
        }
    }
}

impl std::fmt::Debug for Raid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let members = self.members.len();
        f.debug_struct("Raid").field("parameters", &self.parameters).field("members", &members).finish()
    }
}

#[cfg(test)]
mod tests;
