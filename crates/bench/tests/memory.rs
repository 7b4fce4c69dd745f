//! What a flow and a request take up, pinned.

use evenkeel_bench::{SCHEDULERS, counting, growth};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// One test alone in its program: the allocator counts for all threads.
#[test]
fn idle_flows_and_waiting_requests_stay_small() {
    for (name, make) in SCHEDULERS {
        let most_per_flow = match name {
            // With a heap of those who can lend.
            "pclock-background" => 290.0,
            // Two tags of 128 bits and their paces in each flow, and two heaps.
            "mclock" | "wf2q+" => 296.0,
            // An active class has a seat with its accounts and its history.
            "fairio" => 760.0,
            _ => 256.0,
        };
        // Every request alone on the device begins a cycle of FAIRIO, which looks at all active classes.
        let numbers: &[u32] = if name == "fairio" { &[300] } else { &[2_000, 7_777] };
        for &flows in numbers {
            let memory = growth::memory(make(), flows);
            assert!(memory.per_idle_flow <= most_per_flow, "{name} at {flows} flows: {memory:?}");
            assert!(memory.per_waiting_request <= 96.0, "{name} at {flows} flows: {memory:?}");
        }
    }
}
