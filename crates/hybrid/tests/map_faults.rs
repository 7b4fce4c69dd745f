//! The map on a medium that loses, tears and reorders what was not synced, and that fails.

use std::io;
use std::sync::{Arc, Mutex};

use evenkeel_hybrid::{About, MapFile};
use evenkeel_tiering::{Blocks, Change, Cluster, Entry};
use redb::StorageBackend;

/// How finely writes are torn.
const SECTOR: usize = 512;

#[derive(Debug, Default)]
struct Medium {
    durable: Vec<u8>,
    current: Vec<u8>,
    unsynced: Vec<(u64, Vec<u8>)>,
    /// Operations left before everything fails, as if the power were gone.
    left: u64,
}

#[derive(Clone, Debug)]
struct Faulty(Arc<Mutex<Medium>>);

impl Faulty {
    fn with<T>(&self, change: impl FnOnce(&mut Medium) -> T) -> io::Result<T> {
        let mut medium = self.0.lock().expect("not poisoned");
        if medium.left == 0 {
            return Err(io::Error::other("the power is gone"));
        }
        medium.left -= 1;
        Ok(change(&mut medium))
    }

    /// Power comes back after `left` operations: of what was not synced each sector may have been written.
    fn crash(&self, mut random: impl FnMut() -> u64) -> Self {
        let mut medium = self.0.lock().expect("not poisoned");
        let mut durable = medium.durable.clone();
        for (offset, data) in std::mem::take(&mut medium.unsynced) {
            for (index, sector) in data.chunks(SECTOR).enumerate() {
                let at = offset as usize + index * SECTOR;
                if random().is_multiple_of(2) && at + sector.len() <= durable.len() {
                    durable[at..at + sector.len()].copy_from_slice(sector);
                }
            }
        }
        let fresh = Medium { current: durable.clone(), durable, unsynced: Vec::new(), left: u64::MAX };
        Self(Arc::new(Mutex::new(fresh)))
    }
}

impl StorageBackend for Faulty {
    fn len(&self) -> io::Result<u64> {
        self.with(|medium| medium.current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.with(|medium| out.copy_from_slice(&medium.current[offset as usize..offset as usize + out.len()]))
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.with(|medium| {
            // Sizes are journalled by file systems: taken as durable at once.
            medium.current.resize(length as usize, 0);
            medium.durable.resize(length as usize, 0);
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.with(|medium| {
            medium.durable.clone_from(&medium.current);
            medium.unsynced.clear();
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.with(|medium| {
            medium.current[offset as usize..offset as usize + data.len()].copy_from_slice(data);
            medium.unsynced.push((offset, data.to_vec()));
        })
    }
}

fn about() -> About {
    About {
        identity: [7; 16],
        cluster_bytes: 65536,
        block_bytes: 4096,
        store_bytes: 1 << 30,
        fast_bytes: 1 << 24,
    }
}

/// The entries after transaction number `step`, which rewrites some of 40 clusters.
fn changes(step: u64) -> Vec<Change> {
    (0..5)
        .map(|index| {
            let cluster = (step * 7 + index * 11) % 40;
            let on_fast = Blocks::from_words([step + 1, 0, 0, 0]);
            let entry = !(step + index).is_multiple_of(4);
            Change { cluster, entry: entry.then_some(Entry { slot: cluster as u32, on_fast }) }
        })
        .collect()
}

fn state_after(steps: u64) -> Vec<(Cluster, Entry)> {
    let mut entries = std::collections::BTreeMap::new();
    for change in (0..steps).flat_map(changes) {
        match change.entry {
            Some(entry) => entries.insert(change.cluster, entry),
            None => entries.remove(&change.cluster),
        };
    }
    entries.into_iter().collect()
}

#[test]
fn after_a_crash_the_map_is_that_of_the_last_commit_or_of_the_one_under_way() {
    for seed in 0..100u64 {
        let mut state = seed;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        let medium = Faulty(Arc::new(Mutex::new(Medium { left: u64::MAX, ..Medium::default() })));
        let map = MapFile::on_backend(medium.clone(), &about()).expect("created");
        let made = medium.0.lock().expect("not poisoned").unsynced.len();
        assert_eq!(made, 0, "a new map is durable");
        medium.0.lock().expect("not poisoned").left = random() % 400;
        let committed = (0..60).take_while(|&step| map.commit(&changes(step)).is_ok()).count() as u64;
        // Nothing may be written while the database is dropped: the power is gone.
        medium.0.lock().expect("not poisoned").left = 0;
        drop(map);
        let map = MapFile::on_backend(medium.crash(&mut random), &about()).expect("recovered");
        let found = map.load().expect("read");
        let allowed = [state_after(committed), state_after(committed + 1)];
        assert!(allowed.contains(&found), "seed {seed}: after {committed} commits");
        map.commit(&changes(committed)).expect("and it goes on");
    }
}
