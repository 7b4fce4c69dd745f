//! What a group may not do to others, and what it keeps for its own members, when requests differ in cost.
//!
//! A store of the capacity that the promises need works on one request after the other. Whoever keeps to its
//! promise is done by its deadline plus one service time, as without groups (depth_and_cost_laws.rs), and one
//! more for a group: its credit may have been a part of one request short of sending that one earlier.

mod common;

use std::num::NonZeroU32;

use common::{one_by_one, request, slo};
use evenkeel_core::admission::required_capacity;
use evenkeel_core::sched::pclock::PClock;
use evenkeel_core::sched::sced::Sced;
use evenkeel_core::*;
use proptest::prelude::*;

/// Members 0 to 2 of it; flows 3 and 4 stand alone.
const GROUP: FlowId = FlowId(9);
const FLOWS: usize = 5;

/// A request to come: ns, flow, cost in thousandths.
type Sent = (u64, usize, u64);

/// Serves `sent` on a store of that capacity ([`one_by_one::serve`]).
fn serve(engine: &mut Engine, capacity: u128, sent: &[Sent]) -> Vec<(Record, u128)> {
    let arrivals = (0_u64..).zip(sent);
    let inputs = arrivals.map(|(id, (at, flow, cost))| (*at, Input::Arrival(request(id, *flow, *cost))));
    one_by_one::serve(engine, capacity, inputs)
}

fn with_members(scheduler: impl Scheduler + Send + 'static, promises: &[Slo], weights: &[u32]) -> Engine {
    let mut engine = Engine::new(Box::new(scheduler), NonZeroU32::MIN);
    let flows = [GROUP, FlowId(3), FlowId(4)];
    for (flow, slo) in flows.into_iter().zip(promises) {
        engine.handle_input(Time::ZERO, Input::Add(flow, slo.clone())).unwrap();
    }
    for (flow, weight) in (0..).zip(weights) {
        let member = Membership { group: GROUP, weight: Weight::new(*weight).unwrap(), limit: None };
        engine.handle_input(Time::ZERO, Input::Join(FlowId(flow), member)).unwrap();
    }
    engine
}

fn capacity_for(promises: &[Slo]) -> u128 {
    let envelopes: Vec<Envelope> = promises.iter().filter_map(|slo| slo.envelope().copied()).collect();
    required_capacity(&envelopes).capacity.as_millis().into()
}

/// Small requests of one member, then large ones of another that weighs much more. The places of the small ones
/// are all that the group may use before the deadline of flow 3's burst: 19 requests' worth, not 19 requests of
/// any size.
#[test]
fn large_requests_do_not_go_in_the_places_of_small_ones() {
    let promises = [slo(1, 100, 20), slo(10, 1, 200)];
    let capacity = capacity_for(&promises);
    let mut engine = with_members(PClock::new(), &promises, &[1, 1_000]);
    let small = (0..100).map(|_| (0, 0, 1_000));
    let large = (0..100).map(|_| (0, 1, 5_000));
    let burst = (0..10).map(|_| (0, 3, 1_000));
    let sent: Vec<Sent> = small.chain(large).chain(burst).collect();
    let records = serve(&mut engine, capacity, &sent);
    assert_eq!(records.len(), sent.len());
    let alone = records.iter().filter(|(record, _)| record.request.flow == FlowId(3));
    let last = alone.map(|(_, done)| *done).max().unwrap();
    let bound = capacity * 200_000_000 + 5_000 * 1_000_000_000;
    assert!(last <= bound, "done after {} ms", last / capacity / 1_000_000);
}

fn promises() -> impl Strategy<Value = Slo> {
    (3_u64..20, 1_u64..20, 2_u64..12).prop_map(|(burst, rate, tens)| slo(burst, 25 * rate, 25 * tens))
}

fn wishes() -> impl Strategy<Value = Vec<(u64, usize, usize, u64)>> {
    let gap =
        prop_oneof![2 => Just(0_u64), 3 => (1_u64..8).prop_map(|n| n * 10_000_000), 2 => 1_u64..60_000_000];
    let cost = prop_oneof![2 => Just(1_000_u64), 1 => Just(3_000), 2 => 1..=3_000_u64];
    prop::collection::vec((gap, 0..FLOWS, prop_oneof![3 => 1_usize..4, 1 => 4_usize..40], cost), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// Flow 3 keeps to its promise, and the group may; flow 4 is in the background. Everything of those that keep
    /// to it is done in time, whatever the others send and requests cost, pClock lending or not, and SCED.
    #[test]
    fn the_well_behaved_are_in_time_beside_groups_and_in_them(
        promises in prop::collection::vec(promises(), 2), weights in prop::array::uniform3(1_u32..1_000),
        wishes in wishes(), kind in 0..3, group_behaves: bool,
    ) {
        let promises = [&promises[..], &[Slo::background()]].concat();
        let mut engine = match kind {
            0 => with_members(PClock::new(), &promises, &weights),
            1 => with_members(PClock::with_spare(SpareCapacity::Background), &promises, &weights),
            _ => with_members(Sced::new(), &promises, &weights),
        };
        let promise_of = |flow: usize| if flow < 3 { promises[0].envelope() } else { promises[flow - 2].envelope() };
        let behaves = |flow: usize| flow == 3 || flow < 3 && group_behaves;
        let mut meters = [0, 3].map(|flow| {
            let envelope = promise_of(flow).unwrap();
            TokenBucket::new(Time::ZERO, envelope.burst(), envelope.rate())
        });
        let (mut at, mut sent) = (0, vec![]);
        for (gap, flow, count, cost) in wishes {
            at += gap;
            for _ in 0..count {
                let meter = &mut meters[usize::from(flow == 3)];
                if !behaves(flow) || meter.take(Time::from_nanos(at), Cost::from_millis(cost)) {
                    sent.push((at, flow, cost));
                }
            }
        }
        let capacity = capacity_for(&promises);
        let records = serve(&mut engine, capacity, &sent);
        prop_assert_eq!(records.len(), sent.len());
        let largest = sent.iter().map(|(.., cost)| *cost).max().unwrap_or(0);
        // What the clocks round: the arrival, the tag, and the instant of each dispatch.
        let allowance = 2 * u128::from(largest) * 1_000_000_000 + 4 * capacity;
        for (record, done) in records {
            let flow = record.request.flow.0 as usize;
            let Some(envelope) = promise_of(flow).filter(|_| behaves(flow)) else { continue };
            let deadline = u128::from((record.arrival + envelope.latency()).as_nanos()) * capacity;
            prop_assert!(done <= deadline + allowance, "flow {}: {} > {}", flow, done - deadline, allowance);
        }
    }
}
