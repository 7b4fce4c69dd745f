//! The buffer on the drive: segments that each hold one run of sectors, the least recently used first.
//!
//! ```text
//!  least recent                                   most recent
//!  [ start ······ end ) [ empty ) ... [ start ·········· end )
//!                                         a segment holds at most its size:
//!                                         as the end moves on, the start follows
//! ```

/// A run of sectors in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    id: u32,
    pub(super) start: u64,
    pub(super) end: u64,
    /// Whether the host wrote it.
    pub(super) written: bool,
}

/// What the buffer holds of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hit {
    /// All of it.
    Whole(u32),
    /// The first so many sectors; none if the next one is just coming in.
    Part(u32, u64),
    /// Nothing that would help.
    Miss,
}

/// All segments.
#[derive(Clone, Debug)]
pub(super) struct Segments {
    /// The least recently used first.
    list: Vec<Segment>,
    size: u64,
}

impl Segments {
    pub(super) fn new(count: u32, size: u32) -> Self {
        let empty = |id| Segment { id, start: 0, end: 0, written: false };
        Self { list: (0..count).map(empty).collect(), size: size.into() }
    }

    /// What the segments hold of `sectors` from `lbn`. `incoming` is the segment into which the drive is
    /// reading, if a read may wait for the very next sector there.
    pub(super) fn find(&self, lbn: u64, sectors: u64, written_too: bool, incoming: Option<u32>) -> Hit {
        let mut best = Hit::Miss;
        for segment in self.list.iter().filter(|segment| written_too || !segment.written) {
            if (segment.start..segment.end).contains(&lbn) {
                if lbn + sectors <= segment.end {
                    return Hit::Whole(segment.id);
                }
                best = Hit::Part(segment.id, segment.end - lbn);
            } else if best == Hit::Miss && incoming == Some(segment.id) && lbn == segment.end {
                best = Hit::Part(segment.id, 0);
            }
        }
        best
    }

    /// Takes an empty segment, or the least recently used, for a run that begins at `lbn`; `None` if
    /// there are none.
    pub(super) fn take(&mut self, lbn: u64, written: bool) -> Option<u32> {
        let empty = self.list.iter().position(|segment| segment.start == segment.end);
        let segment = self.list.get_mut(empty.unwrap_or(0))?;
        *segment = Segment { start: lbn, end: lbn, written, ..*segment };
        let id = segment.id;
        self.touch(id);
        Some(id)
    }

    /// The segment whose run of sectors that were read ends right before `lbn`.
    pub(super) fn ending_at(&self, lbn: u64) -> Option<u32> {
        let held = |segment: &&Segment| segment.end == lbn && segment.start < lbn && !segment.written;
        self.list.iter().rev().find(held).map(|segment| segment.id)
    }

    /// Makes a segment the most recently used one.
    pub(super) fn touch(&mut self, id: u32) {
        if let Some(place) = self.list.iter().position(|segment| segment.id == id) {
            self.list[place..].rotate_left(1);
        }
    }

    pub(super) fn segment(&self, id: u32) -> Option<&Segment> {
        self.list.iter().rev().find(|segment| segment.id == id)
    }

    /// The end of a segment's run moves to `end`; its start follows at the distance of its size.
    pub(super) fn extend(&mut self, id: u32, end: u64) {
        let size = self.size;
        if let Some(segment) = self.list.iter_mut().rev().find(|segment| segment.id == id) {
            segment.end = segment.end.max(end);
            segment.start = segment.start.max(segment.end.saturating_sub(size));
        }
    }

    /// A segment's run begins at `start` already, as far as it fits.
    pub(super) fn extend_back(&mut self, id: u32, start: u64) {
        let size = self.size;
        if let Some(segment) = self.list.iter_mut().rev().find(|segment| segment.id == id) {
            segment.start = segment.start.min(start).max(segment.end.saturating_sub(size));
        }
    }

    /// Forgets what `sectors` from `lbn` overlap, but for the segment `keep`.
    pub(super) fn forget(&mut self, lbn: u64, sectors: u64, keep: Option<u32>) {
        for segment in &mut self.list {
            if Some(segment.id) != keep && segment.start < lbn + sectors && lbn < segment.end {
                segment.end = segment.start;
            }
        }
    }

    /// Forgets a segment.
    pub(super) fn clear(&mut self, id: u32) {
        if let Some(segment) = self.list.iter_mut().find(|segment| segment.id == id) {
            segment.end = segment.start;
        }
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }
}
