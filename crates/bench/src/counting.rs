//! The system's allocator, with its calls and bytes counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static CALLS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

/// To be made the `#[global_allocator]` of a program.
pub struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; counting touches two atomics only.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Relaxed);
        BYTES.fetch_add(layout.size() as u64, Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size() as u64, Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Allocations so far.
#[must_use]
pub fn calls() -> u64 {
    CALLS.load(Relaxed)
}

/// Bytes that are allocated now, as they were asked for.
#[must_use]
pub fn bytes() -> u64 {
    BYTES.load(Relaxed)
}
