//! Once its accounts are open, the ledger takes in arrivals and records without allocating.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use evenkeel_core::{
    Cost, Envelope, FlowId, Operation, Outcome, Rate, Record, Request, RequestId, Slo, Span, Time,
};
use evenkeel_ledger::Ledger;

/// Counts the allocations of each thread, and leaves the work to the system's allocator.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: both calls are passed on unchanged; the counter is a plain cell that never allocates.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's obligations are handed on as they are.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `System.alloc` above, with the same layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn recording_does_not_allocate() {
    let envelope = Envelope::new(Cost::requests(20), Rate::per_second(200), Span::from_millis(100));
    let mut ledger = Ledger::new();
    for flow in 0..100 {
        let slo = Slo::guaranteed(envelope.expect("a valid envelope"));
        ledger.configure(Time::ZERO, FlowId(flow), &slo);
    }
    let before = ALLOCATIONS.with(Cell::get);
    for index in 0..200_000_u64 {
        // Latencies from nothing to ages, so that every part of a histogram is touched.
        let (arrival, latency) = (Time::from_millis(index), Span::from_nanos(1 << (index % 63)));
        let request = Request {
            id: RequestId(index),
            flow: FlowId((index % 101) as u32),
            operation: Operation::Write,
            offset: 0,
            length: 4096,
            cost: Cost::ONE,
        };
        ledger.on_arrival(arrival, &request);
        ledger.record(&Record {
            request,
            arrival,
            dispatch: arrival,
            completion: arrival + latency,
            promise: index.is_multiple_of(2).then_some(Span::from_millis(100)),
            class: None,
            outcome: Outcome::Done,
        });
    }
    assert_eq!(ALLOCATIONS.with(Cell::get) - before, 0);
    assert!(ledger.strays() > 0, "flow 100 has no account");
}
