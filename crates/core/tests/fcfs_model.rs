//! FCFS against a queue: the same order, whatever is promised.

mod common;

use std::collections::VecDeque;

use common::{arrive, dispatch};
use evenkeel_core::sched::fcfs::Fcfs;
use evenkeel_core::sched::{Arrival, Decision};
use evenkeel_core::{
    Cost, Envelope, FlowId, Operation, Rate, Request, RequestId, Scheduler, Slo, Span, Time,
};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn it_is_one_queue(
        steps in prop::collection::vec((0_u32..5, any::<bool>(), 0_u64..5_000, 0_u64..9), 1..200),
    ) {
        let mut fcfs = Fcfs::new();
        for flow in 0..5 {
            let envelope = Envelope::new(Cost::ONE, Rate::per_second(1 << flow), Span::from_millis(9));
            let slo = if flow == 0 { Slo::background() } else { Slo::guaranteed(envelope.unwrap()) };
            fcfs.configure(Time::ZERO, FlowId(flow), &slo).unwrap();
        }
        let (mut model, mut now) = (VecDeque::new(), 0);
        for (id, (flow, arrives, cost, gap)) in (0..).zip(steps) {
            now += gap;
            let at = Time::from_nanos(now);
            if arrives {
                let request = Request {
                    id: RequestId(id),
                    flow: FlowId(flow),
                    operation: Operation::Read,
                    offset: 0,
                    length: 512,
                    cost: Cost::from_millis(cost),
                };
                fcfs.on_arrival(at, Arrival::new(at, request)).unwrap();
                model.push_back(request);
            } else {
                let served = match fcfs.poll_dispatch(at) {
                    Decision::Dispatch(dispatch) => Some(dispatch.request),
                    Decision::Idle => None,
                    other => panic!("fcfs never waits: {other:?}"),
                };
                prop_assert_eq!(served, model.pop_front());
            }
            let waiting = model.iter().filter(|request| request.flow == FlowId(flow)).count();
            prop_assert_eq!(fcfs.backlog(FlowId(flow)), waiting);
        }
    }
}

/// The worked example of docs/schedulers/fcfs.md: 1000 IOPS, a bully with 128 requests outstanding, a tenant
/// ⟨1, 200/s, 50 ms⟩ that sends one every 5 ms. The first takes 129 ms, and none is in time.
#[test]
fn a_bully_makes_every_request_of_the_tenant_late() {
    const BULLY: usize = 0;
    const TENANT: usize = 1;
    let mut fcfs = Fcfs::new();
    fcfs.configure(Time::ZERO, FlowId(0), &Slo::background()).unwrap();
    fcfs.configure(Time::ZERO, FlowId(1), &common::slo(1, 200, 50)).unwrap();
    (0..128).for_each(|id| arrive(&mut fcfs, Time::ZERO, id, BULLY));
    let mut took = Vec::new();
    for milli in 0..1_000 {
        let now = Time::from_millis(milli);
        if milli % 5 == 0 {
            arrive(&mut fcfs, now, 10_000 + milli, TENANT);
        }
        // What goes now is done in a millisecond, and then the bully sends its next.
        let served = dispatch(&mut fcfs, now).unwrap();
        if served.request.flow == FlowId(1) {
            took.push(milli + 1 - (served.request.id.0 - 10_000));
        } else {
            arrive(&mut fcfs, now, 20_000 + milli, BULLY);
        }
    }
    assert_eq!(took[0], 129);
    assert!(took.len() > 100 && took.iter().all(|millis| *millis > 50), "{took:?}");
}
