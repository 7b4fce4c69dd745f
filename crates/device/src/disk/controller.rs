//! One command after another: overheads, the buffer, reading ahead and writing back.
//!
//! ```text
//!  command ──overhead──┬─ in the buffer ───────────────────────────bus──> host
//!                      ├─ read:  mechanism ──────────── beside it, bus──> host, then read ahead
//!                      └─ write: bus beside mechanism ──────────────────> host
//!                                bus into the buffer ───> host, then write back
//! ```
//!
//! Reading ahead and writing back cost nothing until the next command asks how far they have come.

use super::cache::{Hit, Segments};
use super::layout::Extent;
use super::mechanism::Mechanism;
use super::parameters::{Cache, Overheads, Parameters, ReadAhead};
use super::queue::Start;
use super::spindle::Pass;

/// What the heads do between commands.
#[derive(Clone, Debug)]
enum Background {
    Idle,
    Reading(Reading),
    /// Writing a segment back until an instant.
    Writing {
        segment: Option<u32>,
        end_lbn: u64,
        until: u64,
    },
}

/// Reading ahead.
#[derive(Clone, Debug)]
struct Reading {
    segment: u32,
    /// The first sector that has not come in.
    next: u64,
    /// Where to stop.
    limit: u64,
    /// What is read before another command gets the heads.
    least: u64,
    /// The run under way, which begins with the sector `run_lbn`.
    run: Option<(Extent, Pass)>,
    run_lbn: u64,
    /// When the run before it was over.
    since: u64,
}

/// The controller with all that it controls.
#[derive(Clone, Debug)]
pub(super) struct Controller {
    pub(super) mechanism: Mechanism,
    overheads: Overheads,
    cache: Cache,
    segments: Segments,
    background: Background,
    after_write: bool,
    /// One past the last sector of the command before.
    last_end: Option<u64>,
    /// Reads that have each followed on from the one before.
    reads_in_sequence: u32,
}

impl Controller {
    pub(super) fn new(parameters: &Parameters, mechanism: Mechanism) -> Self {
        let cache = parameters.cache;
        Self {
            mechanism,
            overheads: parameters.overhead_ns,
            cache,
            segments: Segments::new(cache.segments, cache.segment_sectors),
            background: Background::Idle,
            after_write: false,
            last_end: None,
            reads_in_sequence: 0,
        }
    }

    /// When the heads can set out for a command that is taken up at `now`, if the buffer does not help.
    pub(super) fn start(&self, now: u64) -> Start {
        let overheads = &self.overheads;
        let (read, write) = match (self.after_write, self.cache.write_buffering) {
            (false, false) => (overheads.read_miss_after_read, overheads.write_miss_after_read),
            (false, true) => (overheads.read_miss_after_read, overheads.write_hit_after_read),
            (true, false) => (overheads.read_miss_after_write, overheads.write_miss_after_write),
            (true, true) => (overheads.read_miss_after_write, overheads.write_hit_after_write),
        };
        let free = match self.background {
            Background::Writing { until, .. } => until,
            Background::Idle | Background::Reading(_) => now,
        };
        Start { read: free.max(now + read), write: free.max(now + write) }
    }

    /// Serves a read of `sectors` from `lbn` that the drive takes up at `now`; when it is reported.
    pub(super) fn read(&mut self, now: u64, lbn: u64, sectors: u64) -> u64 {
        self.read_to_host(now, lbn, sectors) + self.overheads.read_completion
    }

    fn read_to_host(&mut self, now: u64, lbn: u64, sectors: u64) -> u64 {
        let overheads = self.overheads;
        let follows = self.last_end.replace(lbn + sectors) == Some(lbn);
        self.reads_in_sequence =
            if follows && !self.after_write { self.reads_in_sequence.saturating_add(1) } else { 0 };
        let search_ns = if follows { 0 } else { self.cache.search_ns };
        let (hit_ns, miss_ns) = match std::mem::replace(&mut self.after_write, false) {
            false => (overheads.read_hit_after_read, overheads.read_miss_after_read),
            true => (overheads.read_hit_after_write, overheads.read_miss_after_write),
        };
        self.catch_up(now);
        // The heads are not given up while they write back, and hits wait with them.
        let (mut hit_at, mut miss_at) = (now + hit_ns + search_ns, now + miss_ns);
        if let Background::Writing { until, .. } = self.background {
            hit_at = hit_at.max(until).max(miss_at);
            miss_at = miss_at.max(until);
            self.finish_writing();
        }
        let incoming = match &self.background {
            Background::Reading(reading) if self.cache.almost_read_hits => Some(reading.segment),
            _ => None,
        };
        let hit = if self.cache.read {
            self.segments.find(lbn, sectors, self.cache.read_hits_on_write_data, incoming)
        } else {
            Hit::Miss
        };
        match hit {
            Hit::Whole(segment) => {
                self.segments.touch(segment);
                self.go_on_or_stop(segment, lbn, sectors, now);
                hit_at + self.mechanism.bus_ns(sectors)
            }
            Hit::Part(segment, held) => {
                let start = if self.reads_into(segment) { miss_at } else { self.stop(now, miss_at) };
                self.read_rest(segment, lbn, sectors, held, hit_at, start)
            }
            Hit::Miss => {
                let start = self.stop(now, miss_at);
                self.read_medium(lbn, sectors, start)
            }
        }
    }

    /// Serves a write of `sectors` to `lbn` that the drive takes up at `now`; when it is reported.
    pub(super) fn write(&mut self, now: u64, lbn: u64, sectors: u64) -> u64 {
        self.write_from_host(now, lbn, sectors) + self.overheads.write_completion
    }

    fn write_from_host(&mut self, now: u64, lbn: u64, sectors: u64) -> u64 {
        let overheads = self.overheads;
        let follows = self.last_end.replace(lbn + sectors) == Some(lbn);
        let search_ns = if follows || !self.cache.write_buffering { 0 } else { self.cache.search_ns };
        let overhead = match (self.cache.write_buffering, std::mem::replace(&mut self.after_write, true)) {
            (false, false) => overheads.write_miss_after_read,
            (false, true) => overheads.write_miss_after_write,
            (true, false) => overheads.write_hit_after_read,
            (true, true) => overheads.write_hit_after_write,
        };
        self.catch_up(now);
        let mut at = now + overhead + search_ns;
        let mut heads_from = at;
        let mut appended = None;
        match self.background {
            // What follows on what is being written joins it; anything else waits for the heads.
            Background::Writing { segment, end_lbn, until } if end_lbn == lbn && segment.is_some() => {
                heads_from = until;
                appended = segment;
            }
            Background::Writing { until, .. } => {
                at = at.max(until);
                heads_from = at;
            }
            Background::Idle => {}
            Background::Reading(_) => heads_from = self.stop(now, heads_from),
        }
        if appended.is_none() {
            self.finish_writing();
        }
        let on_medium = self.mechanism.write(heads_from, lbn, sectors, at, appended.is_some());
        let keeps = self.cache.read && self.cache.read_hits_on_write_data;
        let segment = match appended {
            None if keeps || self.cache.write_buffering => self.segments.take(lbn, true),
            segment => segment,
        };
        if let Some(segment) = segment {
            self.segments.touch(segment);
            self.segments.extend(segment, lbn + sectors);
        }
        self.segments.forget(lbn, sectors, segment);
        if self.cache.write_buffering {
            self.background = Background::Writing { segment, end_lbn: lbn + sectors, until: on_medium };
            // What does not fit the buffer is there only when it is on the medium.
            let buffered = segment.is_some() && sectors <= self.segments.size();
            return if buffered { at + self.mechanism.bus_ns(sectors) } else { on_medium };
        }
        self.background = Background::Idle;
        on_medium
    }

    /// When everything that was reported as written is on the medium.
    pub(super) fn flush(&mut self, now: u64) -> u64 {
        match self.background {
            Background::Writing { until, .. } => until.max(now),
            Background::Idle | Background::Reading(_) => now,
        }
    }

    /// A miss: `sectors` from `lbn` come off the medium.
    fn read_medium(&mut self, lbn: u64, sectors: u64, start: u64) -> u64 {
        if !self.cache.read && self.cache.read_ahead == ReadAhead::None {
            return self.mechanism.read(start, lbn, sectors, 0, start).host;
        }
        // A drive that looks for streams keeps a stream in one segment.
        let streams = self.cache.read_ahead_after > 0 && self.reads_in_sequence > 0;
        let continued = if streams { self.segments.ending_at(lbn) } else { None };
        let Some(segment) = continued.or_else(|| self.segments.take(lbn, false)) else {
            return self.mechanism.read(start, lbn, sectors, 0, start).host;
        };
        self.segments.touch(segment);
        let free = if self.cache.free_reads { self.passing_before(start, lbn) } else { 0 };
        let times = self.mechanism.read(start, lbn, sectors, 0, start);
        self.segments.extend(segment, lbn + sectors);
        self.segments.extend_back(segment, lbn - free);
        self.read_ahead(segment, lbn, sectors, times.medium);
        times.host
    }

    /// A partial hit: the first `held` of `sectors` from `lbn` are in `segment`, the rest follows.
    fn read_rest(&mut self, segment: u32, lbn: u64, sectors: u64, held: u64, bus: u64, start: u64) -> u64 {
        self.segments.touch(segment);
        let end = lbn + sectors;
        let mut next = lbn + held;
        match &self.background {
            Background::Reading(reading) if reading.segment == segment => {
                // The stream goes on; each of its sectors goes to the host as it comes in.
                let mut reading = reading.clone();
                reading.limit = reading.limit.max(end);
                let all = self.mechanism.bus_ns(sectors);
                let mut host = bus + all;
                let mark = lbn + self.mechanism.read_mark(sectors);
                next = reading.next;
                while next < end {
                    let left = end - next;
                    let (pass, run) = reading.under_way(&mut self.mechanism);
                    let done = next - reading.run_lbn;
                    let count = (u64::from(run.sectors) - done).min(left);
                    let gap = u64::from(run.span) - u64::from(run.sectors);
                    let medium = pass.after((done + count + gap) as u32);
                    let behind_first = pass.after((done + 1) as u32) + self.mechanism.bus_ns(left);
                    let behind_last = medium + self.mechanism.bus_ns(left - count + 1);
                    host = host.max(behind_first).max(behind_last);
                    if next < mark && mark <= next + count {
                        let awaited = (done + mark - next) as u32;
                        host =
                            host.max(if mark == next + count { medium } else { pass.after(awaited) } + all);
                    }
                    next += count;
                    reading.advance_to(next, medium);
                }
                self.segments.extend(segment, end);
                reading.limit = reading.limit.max(self.limit(segment, lbn, sectors));
                reading.least = reading.least.max(self.least(end));
                self.background = Background::Reading(reading);
                host
            }
            _ => {
                let times = self.mechanism.read(start, next, end - next, held, bus);
                self.segments.extend(segment, end);
                self.read_ahead(segment, lbn, sectors, times.medium);
                times.host
            }
        }
    }

    /// Sectors of the track that pass under the head right before `lbn` once it is there.
    fn passing_before(&self, start: u64, lbn: u64) -> u64 {
        let extent = self.mechanism.layout.extent(lbn, 1);
        let wait = self.mechanism.positioning(start, &extent, false).rotation_ns;
        let sector = self.mechanism.spindle.sectors_ns(1, extent.sectors_per_track).max(1);
        let (track_start, _) = self.mechanism.layout.track(lbn);
        (wait / sector).min(lbn - track_start).min(self.segments.size())
    }

    /// Goes on reading into `segment` after the request for `sectors` from `lbn`, from `since` on.
    fn read_ahead(&mut self, segment: u32, lbn: u64, sectors: u64, since: u64) {
        let next = lbn + sectors;
        let limit = self.limit(segment, lbn, sectors);
        self.background = if limit > next {
            let least = self.least(next);
            Background::Reading(Reading { segment, next, limit, least, run: None, run_lbn: next, since })
        } else {
            Background::Idle
        };
    }

    /// How far the drive reads ahead of a request that ends at `end` before it lets another command stop it.
    fn least(&self, end: u64) -> u64 {
        end + u64::from(self.cache.read_ahead_sectors_min)
    }

    /// Where reading ahead stops after a request.
    fn limit(&self, segment: u32, lbn: u64, sectors: u64) -> u64 {
        let layout = &self.mechanism.layout;
        let end = lbn + sectors;
        let last = layout.sectors();
        if end >= last {
            return last;
        }
        let most = match self.cache.read_ahead_sectors_max {
            0 => self.segments.size(),
            most => most.into(),
        };
        if self.reads_in_sequence < self.cache.read_ahead_after {
            return end;
        }
        let limit = match self.cache.read_ahead {
            ReadAhead::None => end,
            ReadAhead::Track => layout.track(end - 1).1.min(end + most),
            ReadAhead::Cylinder => layout.cylinder_end(end - 1).min(end + most),
            ReadAhead::Segment => end + most,
            ReadAhead::NextTrack => {
                let (begin, track_end) = layout.track(end);
                let streams = self.segments.segment(segment).is_some_and(|held| held.start < begin);
                if streams && track_end < last { layout.track(track_end).1 } else { track_end }
            }
        };
        let kept = if self.cache.keep_requested { lbn + self.segments.size() } else { u64::MAX };
        limit.min(last).min(kept.max(end))
    }

    fn reads_into(&self, segment: u32) -> bool {
        matches!(&self.background, Background::Reading(reading) if reading.segment == segment)
    }

    /// A whole hit leaves the heads where they read ahead for it; anywhere else it stops them, or has them
    /// take up reading ahead where that ended.
    fn go_on_or_stop(&mut self, segment: u32, lbn: u64, sectors: u64, now: u64) {
        let limit = self.limit(segment, lbn, sectors);
        let least = self.least(lbn + sectors);
        if let Background::Reading(reading) = &mut self.background
            && reading.segment == segment
        {
            reading.limit = reading.limit.max(limit);
            reading.least = reading.least.max(least);
            return;
        }
        let since = self.stop(now, now);
        let next = self.segments.segment(segment).map_or(u64::MAX, |held| held.end);
        if self.cache.read_ahead_on_hit && next < limit {
            self.background =
                Background::Reading(Reading { segment, next, limit, least, run: None, run_lbn: next, since });
        }
    }

    /// Brings the buffer to what has come in or gone out by `now`.
    fn catch_up(&mut self, now: u64) {
        match &mut self.background {
            Background::Idle => {}
            Background::Reading(reading) => {
                let going_on = reading.catch_up(&mut self.mechanism, now);
                self.segments.extend(reading.segment, reading.next);
                if !going_on {
                    self.background = Background::Idle;
                }
            }
            Background::Writing { until, .. } if *until <= now => self.finish_writing(),
            Background::Writing { .. } => {}
        }
    }

    /// Ends reading ahead at `now` for a command that could have the heads at `ready`; when it can: the
    /// least that is read ahead comes in first, and a movement or a sector under way is completed.
    fn stop(&mut self, now: u64, ready: u64) -> u64 {
        let Background::Reading(mut reading) = std::mem::replace(&mut self.background, Background::Idle)
        else {
            return ready;
        };
        let least = reading.least.min(reading.limit);
        if reading.next < least {
            let at = reading.read_to(&mut self.mechanism, least);
            self.segments.extend(reading.segment, least);
            return ready.max(at);
        }
        match reading.run {
            Some((extent, pass)) => ready + pass.boundary(now, &extent).saturating_sub(now),
            None => ready,
        }
    }

    /// What was written back stays in the buffer only if reads may be served from it.
    fn finish_writing(&mut self) {
        if let Background::Writing { segment, .. } = self.background {
            if let Some(segment) = segment
                && !(self.cache.read && self.cache.read_hits_on_write_data)
            {
                self.segments.clear(segment);
            }
            self.background = Background::Idle;
        }
    }
}

impl Reading {
    /// The run under way, begun if it was not.
    fn under_way(&mut self, mechanism: &mut Mechanism) -> (Pass, Extent) {
        if let Some((extent, pass)) = self.run {
            return (pass, extent);
        }
        let extent = mechanism.layout.extent(self.next, self.limit - self.next);
        let pass = mechanism.go_on(self.since, &extent, false);
        self.run = Some((extent, pass));
        self.run_lbn = self.next;
        (pass, extent)
    }

    /// Reads on to the sector `end`, beyond `next` and at most the limit; when it has all come in.
    fn read_to(&mut self, mechanism: &mut Mechanism, end: u64) -> u64 {
        let mut at = self.since;
        while self.next < end {
            let (pass, run) = self.under_way(mechanism);
            let come_in = (end - self.run_lbn).min(run.sectors.into());
            let gap = u64::from(run.span - run.sectors);
            at = pass.after((come_in + gap) as u32);
            self.advance_to(self.run_lbn + come_in, at);
        }
        at
    }

    /// The sectors below `next` had come in at `at`.
    fn advance_to(&mut self, next: u64, at: u64) {
        self.next = next;
        if self.run.is_some_and(|(extent, _)| next >= self.run_lbn + u64::from(extent.sectors)) {
            self.run = None;
            self.since = at;
        }
    }

    /// Reads on until `now`; whether there is more to read.
    fn catch_up(&mut self, mechanism: &mut Mechanism, now: u64) -> bool {
        while self.next < self.limit && self.since <= now {
            let (pass, extent) = self.under_way(mechanism);
            let passed = pass.passed(now).min(extent.span);
            if passed < extent.span {
                let come_in = u64::from(passed.min(extent.sectors));
                self.next = self.next.max(self.run_lbn + come_in);
                return true;
            }
            self.advance_to(self.run_lbn + u64::from(extent.sectors), pass.after(extent.span));
        }
        self.next < self.limit
    }
}
