//! Memory does not depend on the length of a trace: eight times as many requests take no more of it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_sim::run::{Options, run};
use evenkeel_sim::scenario::parse;

/// Counts the bytes in use, and the most there ever were; the work is the system allocator's.
struct Counting;

static IN_USE: AtomicU64 = AtomicU64::new(0);
static MOST: AtomicU64 = AtomicU64::new(0);

// SAFETY: both calls are passed on unchanged; the counters never allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let size = layout.size() as u64;
        MOST.fetch_max(IN_USE.fetch_add(size, Ordering::Relaxed) + size, Ordering::Relaxed);
        // SAFETY: the caller's obligations are handed on as they are.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the pointer came from `System.alloc` above, with the same layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes that were in use, beyond those before, while so many requests of a trace of a hundred seconds
/// were simulated; and the size of the trace's file.
fn most_bytes(folder: &Path, requests: u64) -> (u64, u64) {
    let file = folder.join(format!("{requests}.csv"));
    let mut text = String::from("at_ns,volume,operation,offset_bytes,length_bytes\n");
    for number in 0..requests {
        let (at, offset) = (100_000_000_000 / requests * number, number % 1_000 * 4_096);
        writeln!(text, "{at},0,read,{offset},4096").expect("text");
    }
    std::fs::write(&file, &text).expect("written");
    let size = text.len() as u64;
    drop(text);
    let scenario = format!(
        "duration = \"100 s\"\n[device]\nrate = \"100000 IOPS\"\n[flow.a]\n\
         sla = {{ burst = 4, rate = \"10000 IOPS\", latency = \"10 ms\" }}\nworkload = {{ trace = {file:?} }}\n"
    );
    let scenario = parse(&scenario, &folder.join("s.toml")).expect("a good scenario");
    let before = IN_USE.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let summary = run(&scenario, &Options { seed: 1, commit: None }, None, &mut |_| {}).expect("it runs");
    assert_eq!((summary.flows[0].offered, summary.flows[0].open), (requests, 0));
    (MOST.load(Ordering::Relaxed) - before, size)
}

#[test]
fn memory_does_not_grow_with_the_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    let (short, _) = most_bytes(folder.path(), 50_000);
    let (long, size) = most_bytes(folder.path(), 400_000);
    assert!(long <= short + (64 << 10), "{short} bytes for 50 000 requests, {long} for 400 000");
    assert!(size > 4 * long, "the trace of {size} bytes would show in the {long} that were used");
}
