//! First come, first served: one queue for all flows. It is also "no scheduler", and the yardstick
//! of section 5 of the pClock paper.
//!
//! ```text
//!  on_arrival ──> [ r r r r r r r ] ──> poll_dispatch
//!  flows  [ Some(backlog) | None | Some(backlog) | ... ]   by flow number
//! ```
//!
//! Promises and weights are accepted and change nothing.

use alloc::vec::Vec;

use super::{Arrival, ConfigureError, Decision, Scheduler};
use crate::queue::{Fifo, Slab, Waiting};
use crate::request::{Completion, FlowId, Request};
use crate::slo::Slo;
use crate::table;
use crate::units::Time;

/// The scheduler that does not schedule.
#[derive(Debug)]
pub struct Fcfs {
    flows: Vec<Option<usize>>,
    slab: Slab,
    queue: Fifo,
}

impl Fcfs {
    /// A scheduler without flows.
    #[must_use]
    pub const fn new() -> Self {
        Self { flows: Vec::new(), slab: Slab::new(), queue: Fifo::EMPTY }
    }

    fn backlog_mut(&mut self, flow: FlowId) -> Result<&mut usize, ConfigureError> {
        self.flows.get_mut(flow.index()).and_then(Option::as_mut).ok_or(ConfigureError::UnknownFlow(flow))
    }
}

impl Default for Fcfs {
    fn default() -> Self {
        Self::new()
    }
}

impl Scheduler for Fcfs {
    fn name(&self) -> &'static str {
        "fcfs"
    }

    fn configure(&mut self, _now: Time, flow: FlowId, _slo: &Slo) -> Result<(), ConfigureError> {
        if flow > FlowId::MAX {
            return Err(ConfigureError::FlowOutOfRange(flow));
        }
        table::cover(&mut self.flows, flow.index() + 1, None);
        self.flows[flow.index()].get_or_insert(0);
        Ok(())
    }

    fn remove(&mut self, _now: Time, flow: FlowId) -> Result<(), ConfigureError> {
        if *self.backlog_mut(flow)? > 0 {
            return Err(ConfigureError::Busy(flow));
        }
        self.flows[flow.index()] = None;
        Ok(())
    }

    fn on_arrival(&mut self, _now: Time, arrival: Arrival) -> Result<(), ConfigureError> {
        if self.slab.is_full() {
            return Err(ConfigureError::TooManyWaiting);
        }
        *self.backlog_mut(arrival.request.flow)? += 1;
        self.queue.push(&mut self.slab, Waiting::new(arrival, 0, 0));
        Ok(())
    }

    fn poll_dispatch(&mut self, _now: Time) -> Decision {
        let Some(waiting) = self.queue.pop(&mut self.slab) else { return Decision::Idle };
        if let Ok(backlog) = self.backlog_mut(waiting.flow) {
            *backlog -= 1;
        }
        Decision::Dispatch(waiting.dispatch(None))
    }

    fn on_completion(&mut self, _now: Time, _request: &Request, _completion: &Completion) {}

    fn backlog(&self, flow: FlowId) -> usize {
        self.flows.get(flow.index()).copied().flatten().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Operation, RequestId};
    use crate::units::Cost;

    fn request(id: u64, flow: u32) -> Request {
        Request {
            id: RequestId(id),
            flow: FlowId(flow),
            operation: Operation::Write,
            offset: 0,
            length: 512,
            cost: Cost::ONE,
        }
    }

    #[test]
    fn serves_in_the_order_of_arrival_and_keeps_count() {
        let mut fcfs = Fcfs::new();
        for flow in [0, 3] {
            fcfs.configure(Time::ZERO, FlowId(flow), &Slo::background()).unwrap();
        }
        for (id, flow) in [(1, 3), (2, 0), (3, 3)] {
            fcfs.on_arrival(Time::ZERO, Arrival::new(Time::ZERO, request(id, flow))).unwrap();
        }
        assert_eq!((fcfs.backlog(FlowId(3)), fcfs.backlog(FlowId(0)), fcfs.backlog(FlowId(9))), (2, 1, 0));
        assert_eq!(fcfs.remove(Time::ZERO, FlowId(3)), Err(ConfigureError::Busy(FlowId(3))));
        for id in 1..=3 {
            let Decision::Dispatch(dispatch) = fcfs.poll_dispatch(Time::ZERO) else { panic!("{id} waits") };
            assert_eq!(dispatch.request.id, RequestId(id));
        }
        assert_eq!(fcfs.poll_dispatch(Time::ZERO), Decision::Idle);
        assert_eq!(fcfs.remove(Time::ZERO, FlowId(3)), Ok(()));
        assert_eq!(fcfs.remove(Time::ZERO, FlowId(3)), Err(ConfigureError::UnknownFlow(FlowId(3))));
    }

    #[test]
    fn refuses_strangers() {
        let mut fcfs = Fcfs::new();
        let stranger = Arrival::new(Time::ZERO, request(1, 5));
        assert_eq!(fcfs.on_arrival(Time::ZERO, stranger), Err(ConfigureError::UnknownFlow(FlowId(5))));
        let beyond = FlowId(FlowId::MAX.0 + 1);
        let refused = fcfs.configure(Time::ZERO, beyond, &Slo::background());
        assert_eq!(refused, Err(ConfigureError::FlowOutOfRange(beyond)));
    }
}
