//! Fitting a trace holds none of it: a trace twice as long takes no more memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_core::{Operation, Time};
use evenkeel_plan::{PlanError, Requests, Source, fit, parse_targets};
use evenkeel_trace::TraceRequest;

/// Counts the bytes of all threads that are in use, and the most there ever were; the work is the system
/// allocator's.
struct Counting;

static IN_USE: AtomicU64 = AtomicU64::new(0);
static MOST: AtomicU64 = AtomicU64::new(0);

// SAFETY: both calls are passed on unchanged; the counters never allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = IN_USE.fetch_add(layout.size() as u64, Ordering::Relaxed) + layout.size() as u64;
        MOST.fetch_max(now, Ordering::Relaxed);
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

/// So many requests in bursts of eight, made anew in each pass.
struct Generated(u64);

impl Source for Generated {
    fn name(&self) -> String {
        "generated".to_owned()
    }

    fn open(&self) -> Result<Requests<'_>, PlanError> {
        Ok(Box::new((0..self.0).map(|number| {
            let at = Time::from_nanos(number / 8 * 2_000_000 + number % 8 * 1_000);
            Ok(TraceRequest { at, volume: 0, operation: Operation::Read, offset: 0, length: 4096 })
        })))
    }
}

/// The most bytes that were in use beyond those before.
fn most_bytes(requests: u64) -> u64 {
    let targets = parse_targets("95% 2 ms, 100% 20 ms").expect("good");
    let before = IN_USE.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let fitted = fit(&Generated(requests), &targets, &mut |_| ()).expect("fits");
    assert_eq!(fitted.requests, requests);
    MOST.load(Ordering::Relaxed) - before
}

#[test]
fn memory_does_not_grow_with_the_trace() {
    // Both are read by a thread of its own, which is ahead by a few chunks: the longer trace alone would take twice
    // the bound.
    let bound = 1_200_000;
    for requests in [100_000, 150_000] {
        let most = most_bytes(requests);
        assert!(most < bound, "{most} bytes for {requests} requests");
    }
    assert!(150_000 * size_of::<TraceRequest>() as u64 > 2 * bound);
}
