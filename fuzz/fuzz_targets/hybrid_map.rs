//! Location maps: whatever was stored is refused, or every block in it can be brought home. Copies stay within
//! both devices, and nothing is left on the fast one.
//!
//! ```text
//!  cluster │ block │ store │ fast │ entries: cluster (8), entry (36) …        sizes as u32, u32, u64, u64
//! ```
#![no_main]

use std::collections::BTreeMap;

use evenkeel_hybrid::{ENTRY_BYTES, entry_from_bytes, entry_to_bytes};
use evenkeel_tiering::policy::DiskOnly;
use evenkeel_tiering::store::{Background, Output};
use evenkeel_tiering::{Entry, Geometry, Hybrid, Tier};
use libfuzzer_sys::fuzz_target;

struct Input<'d>(&'d [u8]);

impl Input<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}

/// Two sizes near each other make a geometry more often than two numbers.
fn geometry(input: &mut Input<'_>) -> Option<Geometry> {
    let [cluster, block] = input.take()?;
    Geometry::new(1 << (cluster % 32), 1 << (block % 32)).ok()
}

fn drain(hybrid: &mut Hybrid, store_bytes: u64, fast_bytes: u64) {
    hybrid.set_policy(Box::new(DiskOnly));
    hybrid.drain();
    while let Some(output) = hybrid.poll_output() {
        match output {
            Output::Copy(copy) => {
                assert_eq!(copy.from, Tier::Fast);
                let within = |offset: u64, bytes: u64| {
                    offset.checked_add(u64::from(copy.length)).is_some_and(|end| end <= bytes)
                };
                assert!(within(copy.from_offset, fast_bytes));
                assert!(within(copy.to_offset, store_bytes));
                hybrid.on_copy_done(copy.id, true);
            }
            Output::Sync(tier) => hybrid.on_sync_done(tier, true),
            Output::Commit(_) => hybrid.on_commit_done(true),
            Output::Access(_) | Output::Done { .. } => panic!("nobody asked for anything"),
        }
    }
    assert!(hybrid.is_idle());
    assert_eq!(hybrid.slots().0, 0);
    assert!(hybrid.entries().is_empty());
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let (Some(geometry), Some(store), Some(fast)) = (geometry(&mut input), input.number(), input.number())
    else {
        return;
    };
    // What files can be: their sizes are below 2^63. A free slot takes four bytes of memory.
    let (store_bytes, fast_bytes) = (store >> 2, fast >> 2);
    if geometry.slots(fast_bytes) > 1 << 20 {
        return;
    }
    let mut stored: BTreeMap<u64, Entry> = BTreeMap::new();
    while let (Some(cluster), Some(bytes)) = (input.number(), input.take::<ENTRY_BYTES>()) {
        let entry = entry_from_bytes(bytes);
        assert_eq!(entry_to_bytes(entry), bytes);
        stored.insert(cluster, entry);
    }
    let entries = stored.iter().map(|(&cluster, &entry)| (cluster, entry));
    let background = Background::default();
    let policy = Box::new(DiskOnly);
    match Hybrid::new(geometry, store_bytes, fast_bytes, policy, background, entries) {
        Ok(mut hybrid) => {
            assert_eq!(hybrid.entries(), stored.into_iter().collect::<Vec<_>>());
            let bytes = hybrid.fast_bytes_within(&(0..u64::MAX));
            assert!(bytes <= fast_bytes);
            drain(&mut hybrid, store_bytes, fast_bytes);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
