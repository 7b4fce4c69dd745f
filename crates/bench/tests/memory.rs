//! What a flow and a request take up, pinned.

use evenkeel_bench::{SCHEDULERS, counting, growth, limited_slo, slo};
use evenkeel_core::Slo;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// What a flow is promised, by its number.
type Promise = fn(u32) -> Slo;

/// Bytes of an idle flow, whatever the scheduler.
const IDLE_FLOW_MAX: f64 = 256.0;
/// Bytes of a waiting request.
const WAITING_REQUEST_MAX: f64 = 96.0;
/// Bytes of FAIRIO's seat for an active class, with a history of 20 cycles.
const SEAT_MAX: f64 = 240.0;

/// One test alone in its program: the allocator counts for all threads.
#[test]
fn idle_flows_and_waiting_requests_stay_small() {
    let cases: [(u32, Promise); 3] = [(2_000, slo), (2_000, limited_slo), (7_777, slo)];
    for (name, make) in SCHEDULERS {
        let busy_most = if name == "fairio" { SEAT_MAX } else { 1.0 };
        for (flows, promise) in cases {
            let memory = growth::memory(make(), flows, promise);
            assert!(memory.per_idle_flow <= IDLE_FLOW_MAX, "{name} at {flows} flows: {memory:?}");
            assert!(memory.per_busy_flow <= busy_most, "{name} at {flows} flows: {memory:?}");
            assert!(memory.per_waiting_request <= WAITING_REQUEST_MAX, "{name} at {flows} flows: {memory:?}");
        }
    }
}
