//! In steady state an arrival, its dispatch and its completion allocate nothing.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::num::NonZeroU32;

use common::schedulers::{Boxed, KINDS, scheduler};
use common::{request, slo};
use evenkeel_core::sched::fairio::{Accounting, Fairio, FairioConfig};
use evenkeel_core::*;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting for each thread.
struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; counting touches a thread-local cell that
// needs no allocation and no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Every third flow's requests cost twice as much.
fn cost_of(flow: usize) -> u64 {
    if flow.is_multiple_of(3) { 2_000 } else { 1_000 }
}

/// Rounds of arrivals for every flow, each followed by as many dispatches and completions.
fn rounds(engine: &mut Engine, now: &mut u64, flows: usize, rounds: usize) {
    for round in 0..rounds {
        for flow in 0..flows {
            let request = request(round as u64, flow, cost_of(flow));
            engine.handle_input(Time::from_nanos(*now), Input::Arrival(request)).unwrap();
            *now += 1_000;
        }
        while let Some(output) = engine.poll_output(Time::from_nanos(*now)) {
            *now += 500;
            if let Output::Submit(Submission { ticket, .. }) = output {
                let completion = Completion::new(ticket, Outcome::Done);
                engine.handle_input(Time::from_nanos(*now), Input::Completion(completion)).unwrap();
            }
        }
    }
}

fn allocations_in_steady_state(scheduler: Boxed, flows: usize) -> u64 {
    let mut engine = Engine::new(scheduler, NonZeroU32::new(8).unwrap());
    for flow in 0..flows {
        let single = slo(3 + flow as u64 % 4, 1_000, 20);
        let slo = match flow % 5 {
            4 => Slo::background(),
            3 => Slo::nested(&[single.classes(), slo(9, 2_000, 40).classes()].concat()).unwrap(),
            _ => single,
        };
        engine.handle_input(Time::ZERO, Input::Configure(FlowId(flow as u32), slo)).unwrap();
    }
    let mut now = 0;
    rounds(&mut engine, &mut now, flows, 2);
    let before = ALLOCATIONS.get();
    rounds(&mut engine, &mut now, flows, 5);
    ALLOCATIONS.get() - before
}

/// Groups of four, every other member limited, and every flow with counts; members' requests differ in cost, so
/// that some go without a place.
fn allocations_with_groups(scheduler: Boxed, groups: u32) -> u64 {
    let mut engine = Engine::new(scheduler, NonZeroU32::new(8).unwrap());
    let first = 4 * groups;
    for group in first..first + groups {
        engine.handle_input(Time::ZERO, Input::Add(FlowId(group), slo(4, 1_000, 20))).unwrap();
    }
    for flow in 0..first {
        let limit = Limit::new(Cost::ONE, Rate::per_second(1_000_000)).unwrap();
        let limit = (flow % 2 == 0).then_some(limit);
        let membership = Membership { group: FlowId(first + flow / 4), weight: Weight::ONE, limit };
        engine.handle_input(Time::ZERO, Input::Join(FlowId(flow), membership)).unwrap();
        let counted = Input::CountedArrival(request(0, flow as usize, 1_000), Elsewhere::new(1, 0).unwrap());
        engine.handle_input(Time::ZERO, counted).unwrap();
    }
    let mut now = 0;
    rounds(&mut engine, &mut now, first as usize, 3);
    let before = ALLOCATIONS.get();
    rounds(&mut engine, &mut now, first as usize, 5);
    ALLOCATIONS.get() - before
}

#[test]
fn the_hot_path_allocates_nothing() {
    for flows in [10, 10_000] {
        for kind in 0..KINDS {
            let scheduler = scheduler(kind, FairioConfig::new(Span::from_millis(1), 4));
            let name = scheduler.name();
            assert_eq!(allocations_in_steady_state(scheduler, flows), 0, "{name}, {flows} flows");
        }
        let queued =
            FairioConfig { accounting: Accounting::Queued, ..FairioConfig::new(Span::from_millis(1), 4) };
        let fairio = Fairio::new(queued).unwrap();
        assert_eq!(allocations_in_steady_state(Box::new(fairio), flows), 0, "in a queue, {flows} flows");
    }
    for groups in [3, 1_000] {
        for kind in 0..KINDS {
            let scheduler = scheduler(kind, FairioConfig::new(Span::from_millis(1), 4));
            let name = scheduler.name();
            assert_eq!(allocations_with_groups(scheduler, groups), 0, "{name}, {groups} groups");
        }
    }
    assert!(ALLOCATIONS.get() > 0, "the counter counts");
}
