//! A device that keeps what was synced and may lose, tear and reorder the rest.

use crate::Random;

/// Sectors hold the number of the write that put it there; 0 is the beginning.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    durable: Vec<u64>,
    current: Vec<u64>,
    /// Writes that are not known to be durable, in order: when, where, what.
    unsynced: Vec<(u64, usize, u64)>,
    writes: u64,
}

impl Device {
    pub(crate) fn new(sectors: usize) -> Self {
        Self { durable: vec![0; sectors], current: vec![0; sectors], unsynced: Vec::new(), writes: 0 }
    }

    pub(crate) fn read(&self, sector: usize) -> u64 {
        self.current[sector]
    }

    pub(crate) fn write(&mut self, sector: usize, value: u64) {
        self.current[sector] = value;
        self.unsynced.push((self.writes, sector, value));
        self.writes += 1;
    }

    /// How far a sync that begins now will reach.
    pub(crate) fn mark(&self) -> u64 {
        self.writes
    }

    /// A sync that began at `mark` is over.
    pub(crate) fn sync(&mut self, mark: u64) {
        for (_, sector, value) in self.unsynced.extract_if(.., |&mut (when, _, _)| when < mark) {
            self.durable[sector] = value;
        }
    }

    /// Writes through: what `sector` holds now is durable.
    pub(crate) fn persist(&mut self, sector: usize) {
        self.durable[sector] = self.current[sector];
        self.unsynced.retain(|&(_, other, _)| other != sector);
    }

    /// A sync failed: what was not durable may be lost while the system believes it written.
    pub(crate) fn fail_sync(&mut self, random: &mut Random) {
        let lost: Vec<_> = self.unsynced.drain(..).collect();
        for (_, sector, value) in lost {
            if random.percent(50) {
                self.durable[sector] = value;
            }
        }
    }

    /// Power fails: of the unsynced writes any may have reached the medium, in any order.
    pub(crate) fn crash(&mut self, random: &mut Random) {
        let mut writes: Vec<_> = self.unsynced.drain(..).collect();
        while !writes.is_empty() {
            let (_, sector, value) = writes.swap_remove(random.below(writes.len()));
            if random.percent(50) {
                self.durable[sector] = value;
            }
        }
        self.current.clone_from(&self.durable);
    }
}
