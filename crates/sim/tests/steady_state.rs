//! No event allocates once tables have grown to the load's high-water mark.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use common::{configured, constant, ms, one, slo, source};
use evenkeel_core::sched::pclock::PClock;
use evenkeel_core::*;
use evenkeel_sim::*;
use evenkeel_trace::TraceRequest;

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as for the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as for the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A trace without end: memory must not depend on its length.
fn trace() -> SourceConfig {
    let request = |number: u64| TraceRequest {
        at: Time::from_millis(25 * number),
        volume: 0,
        operation: Operation::Read,
        offset: 4096 * number,
        length: 4096,
    };
    let load = Load::Trace(Box::new((0..).map(move |number| Ok(request(number)))));
    SourceConfig { load, ..source(4, 0, Pace::Constant(Rate::default())) }
}

#[test]
fn the_steady_state_does_not_allocate() {
    let rate = Rate::per_second(50);
    let paces = [
        Pace::Constant(rate),
        Pace::Poisson(rate),
        Pace::Bursts { size: 5, every: Span::from_millis(100) },
        Pace::Closed { outstanding: 4, think: Law::Exponential(Span::from_millis(50)) },
    ];
    let setup = Setup {
        seed: 1,
        engine: Engine::new(Box::new(PClock::new()), one()),
        device: constant(450),
        changes: configured(vec![slo(5, 50, 100); paces.len() + 1]),
        sources: (0..).zip(paces).map(|(flow, pace)| source(flow, 0, pace)).chain([trace()]).collect(),
    };
    let mut simulation = Simulation::new(setup, ()).expect("good");
    simulation.run_until(ms(20_000)).expect("good");
    let (before, arrived) = (ALLOCATIONS.load(Ordering::Relaxed), simulation.arrived());
    simulation.run_until(ms(60_000)).expect("good");
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
    assert!(simulation.arrived() - arrived > 8_000);
    assert_eq!(allocations, 0);
}
