//! Statistics per cluster in bounded memory: however many clusters a store has, policies remember as many as
//! they were told, and once they do, an access allocates nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use evenkeel_core::FlowId;
use evenkeel_tiering::policy::{Arc, Lru, Online, OnlineParameters};
use evenkeel_tiering::{Access, Cluster, Policy, Residence};

/// Counts what each thread has allocated, and how often.
struct Counting;

thread_local! {
    static BYTES: Cell<i64> = const { Cell::new(0) };
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: both calls are passed on unchanged; the counters are plain cells that never allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.with(|bytes| bytes.set(bytes.get() + layout.size() as i64));
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's obligations are handed on as they are.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.with(|bytes| bytes.set(bytes.get() - layout.size() as i64));
        // SAFETY: the pointer came from `System.alloc` above, with the same layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Clusters that are remembered, and slots of the fast device.
const KNOWN: usize = 4096;
/// What one of them may take, with its place in the hash table. A tree of ranks is 16 KiB, and there are two.
const BYTES_EACH: i64 = 128;
const TREES: i64 = 2 * 4 * 4097;

/// Accesses to clusters that never come back, each read twice and written once.
fn touch(policy: &mut dyn Policy, clusters: std::ops::Range<Cluster>) {
    let residence = Residence { is_resident: false, slots_used: 1, slots: KNOWN as u32 };
    for cluster in clusters {
        for is_write in [false, false, true] {
            let access = Access { flow: FlowId(0), cluster: cluster * 3, is_write, is_sequential: false };
            policy.on_access(&access, residence);
        }
    }
}

#[test]
fn what_is_remembered_is_bounded_however_many_clusters_there_are() {
    let parameters = OnlineParameters { clusters_max: KNOWN, ..OnlineParameters::default() };
    // ARC: those on flash, and as many ghosts.
    for (name, remembered) in [("online", KNOWN), ("lru", KNOWN), ("arc", 2 * KNOWN)] {
        let remembered = remembered as i64;
        let before = BYTES.with(Cell::get);
        let mut policy: Box<dyn Policy> = match name {
            "online" => Box::new(Online::new(parameters).expect("valid")),
            "lru" => Box::<Lru>::default(),
            _ => Box::<Arc>::default(),
        };
        touch(&mut *policy, 0..4 * KNOWN as u64);
        let settled = BYTES.with(Cell::get) - before;
        assert!(settled <= remembered * BYTES_EACH + TREES, "{name}: {settled} bytes for {remembered}");
        let allocations = ALLOCATIONS.with(Cell::get);
        touch(&mut *policy, 4 * KNOWN as u64..40 * KNOWN as u64);
        assert_eq!(
            BYTES.with(Cell::get) - before,
            settled,
            "{name}: ten times as many clusters take no more"
        );
        assert_eq!(ALLOCATIONS.with(Cell::get), allocations, "{name}: and nothing is allocated");
    }
}
