//! What a FLUSH of a large volume has to sync. The kernel takes a range of less than 4 GiB, or the whole file
//! with all neighbours in it; so for volumes that one range cannot name, the range that was written is kept.
//!
//! ```text
//!  write ───> unsynced: from the first byte written to the last
//!  FLUSH ───> covers unsynced and whatever other FLUSHes under way cover; unsynced is empty then
//!    done ──> once none is under way, what they covered is durable
//!    failed > what it covered is unsynced again
//! ```

/// First byte within the file, and the byte behind the last.
type Bytes = (u64, u64);

/// The written range of one volume.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unsynced {
    /// First byte of the volume.
    offset: u64,
    unsynced: Option<Bytes>,
    covered: Option<Bytes>,
    under_way: u32,
}

fn union(a: Option<Bytes>, b: Option<Bytes>) -> Option<Bytes> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, b) => a.or(b),
    }
}

impl Unsynced {
    /// A volume of `size` bytes from `offset` on: all of it may have been written by an earlier process.
    pub(super) const fn new(offset: u64, size: u64) -> Self {
        Self { offset, unsynced: Some((offset, offset + size)), covered: None, under_way: 0 }
    }

    /// A write of `length` bytes at `start` begins.
    pub(super) fn on_write(&mut self, start: u64, length: u32) {
        self.unsynced = union(self.unsynced, Some((start, start + u64::from(length))));
    }

    /// A FLUSH begins; what it has to sync, as first byte and bytes, zeros for the whole file.
    pub(super) fn begin(&mut self) -> (u64, u32) {
        self.covered = union(self.covered, self.unsynced.take());
        self.under_way += 1;
        match self.covered {
            Some((start, end)) => u32::try_from(end - start).map_or((0, 0), |length| (start, length)),
            // Nothing was written, but the device may hold in its cache what an earlier sync has sent there.
            None => (self.offset, 1),
        }
    }

    /// A FLUSH is over.
    pub(super) fn end(&mut self, succeeded: bool) {
        self.under_way -= 1;
        if !succeeded {
            self.unsynced = union(self.unsynced, self.covered);
        }
        if self.under_way == 0 {
            self.covered = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLOCK: u64 = 1 << 30;
    const OFFSET: u64 = 3 << 30;

    #[test]
    fn only_what_was_written_is_synced_where_a_range_can_name_it() {
        let mut unsynced = Unsynced::new(OFFSET, 10 << 30);
        assert_eq!(unsynced.begin(), (0, 0), "an earlier process may have written all of it");
        unsynced.end(true);
        assert_eq!(unsynced.begin(), (OFFSET, 1));
        unsynced.end(true);
        unsynced.on_write(OFFSET + 4096, 8192);
        unsynced.on_write(OFFSET + 100, 1);
        assert_eq!(unsynced.begin(), (OFFSET + 100, 4096 + 8192 - 100));
        unsynced.on_write(OFFSET + (5 << 30), 512);
        assert_eq!(unsynced.begin(), (0, 0), "too far apart, and the other one may fail");
        unsynced.end(false);
        unsynced.end(true);
        assert_eq!(unsynced.begin(), (0, 0));
        unsynced.end(true);
        assert_eq!(unsynced.begin(), (OFFSET, 1));
    }

    proptest! {
        /// Beside a list of blocks: whatever was written before a FLUSH began is durable when it succeeds.
        #[test]
        fn a_flush_that_succeeds_covers_every_write_before_it(
            steps in prop::collection::vec((0_u8..4, 0_u64..8, any::<bool>()), 1..60),
        ) {
            let mut unsynced = Unsynced::new(OFFSET, 8 * BLOCK);
            // By block: number of the last write, and of the last that is durable.
            let (mut written, mut durable) = ([1_u64; 8], [0_u64; 8]);
            let mut flushes: Vec<((u64, u32), [u64; 8])> = Vec::new();
            for (number, (kind, place, succeeds)) in (2..).zip(steps) {
                match kind {
                    0 | 1 => {
                        unsynced.on_write(OFFSET + place * BLOCK, 512);
                        written[place as usize] = number;
                    }
                    2 => flushes.push((unsynced.begin(), written)),
                    _ if flushes.is_empty() => {}
                    _ => {
                        let (range, seen) = flushes.swap_remove(place as usize % flushes.len());
                        unsynced.end(succeeds);
                        if !succeeds {
                            continue;
                        }
                        for block in 0..8 {
                            let start = OFFSET + block as u64 * BLOCK;
                            let is_inside = start >= range.0 && start + 512 <= range.0 + u64::from(range.1);
                            if range == (0, 0) || is_inside {
                                durable[block] = durable[block].max(seen[block]);
                            }
                        }
                        for block in 0..8 {
                            prop_assert!(durable[block] >= seen[block], "block {block} of {range:?}");
                        }
                    }
                }
            }
        }
    }
}
