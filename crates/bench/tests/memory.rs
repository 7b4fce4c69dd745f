//! What a flow and a request take up, pinned.

use evenkeel_bench::{SCHEDULERS, counting, growth, limited_slo, slo};
use evenkeel_core::Slo;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// Bytes of an idle flow, whatever the scheduler.
const IDLE_FLOW_MAX: f64 = 256.0;
/// Bytes of a waiting request.
const WAITING_REQUEST_MAX: f64 = 96.0;
/// Bytes of FAIRIO's seat for an active class, with a history of 20 cycles.
const SEAT_MAX: f64 = 360.0;

/// One test alone in its program: the allocator counts for all threads.
#[test]
fn idle_flows_and_waiting_requests_stay_small() {
    let promises: [fn(u32) -> Slo; 2] = [slo, limited_slo];
    for (name, make) in SCHEDULERS {
        let busy_most = if name == "fairio" { SEAT_MAX } else { 1.0 };
        // A request alone on the device begins a cycle of FAIRIO, which looks at all active classes.
        for flows in [2_000, 7_777] {
            for promise in promises {
                let memory = growth::memory(make(), flows, promise);
                assert!(memory.per_idle_flow <= IDLE_FLOW_MAX, "{name} at {flows} flows: {memory:?}");
                assert!(memory.per_busy_flow <= busy_most, "{name} at {flows} flows: {memory:?}");
                assert!(
                    memory.per_waiting_request <= WAITING_REQUEST_MAX,
                    "{name} at {flows} flows: {memory:?}"
                );
            }
        }
    }
}
