//! What the integration tests share.
#![allow(dead_code, unreachable_pub)]

pub mod curve;
pub mod one_by_one;
pub mod schedulers;
pub mod side_by_side;

use evenkeel_core::*;

pub fn request(id: u64, flow: usize, cost: u64) -> Request {
    Request {
        id: RequestId(id),
        flow: FlowId(flow as u32),
        operation: Operation::Read,
        offset: id * 4096,
        length: 4096,
        cost: Cost::from_millis(cost),
    }
}

pub fn arrive(scheduler: &mut dyn Scheduler, now: Time, id: u64, flow: usize) {
    scheduler.on_arrival(now, Arrival::new(now, request(id, flow, 1_000))).expect("a configured flow");
}

/// What `scheduler` dispatches at `now`.
pub fn dispatch(scheduler: &mut dyn Scheduler, now: Time) -> Option<Dispatch> {
    match scheduler.poll_dispatch(now) {
        Decision::Dispatch(dispatch) => Some(dispatch),
        Decision::Idle => None,
        other => panic!("neither a dispatch nor idle: {other:?}"),
    }
}

pub fn slo(burst: u64, rate: u64, millis: u64) -> Slo {
    Slo::guaranteed(
        Envelope::new(Cost::requests(burst), Rate::per_second(rate), Span::from_millis(millis))
            .expect("valid"),
    )
}
