//! A scheduler and its naive reference, told the same and asked the same.
//!
//! ```text
//!  random steps ──┬──> Model      all waiting requests in one vector, everything searched for
//!                 └──> Scheduler  must dispatch the same request with the same finish tag, refuse the same,
//!                                 and hold as many of each flow
//! ```

use std::fmt::Debug;

use evenkeel_core::*;
use proptest::prelude::*;
use proptest::strategy::Union;

use super::request;

/// A naive reference. Its time is in ns and never goes back.
pub trait Model {
    /// What a flow is promised, in the model's own terms.
    type Promise: Clone + Debug;

    fn slo_of(promise: &Self::Promise) -> Slo;

    fn now(&self) -> u64;

    fn wait(&mut self, nanos: u64);

    /// Adds or changes `flow`.
    fn configure(&mut self, flow: usize, promise: &Self::Promise);

    /// Whether it could be removed.
    fn remove(&mut self, flow: usize) -> bool;

    /// Whether it was taken in.
    fn arrive(&mut self, id: u64, flow: usize, cost: u64) -> bool;

    /// The identifier and the finish tag of what goes next.
    fn dispatch(&mut self) -> Option<(u64, Option<i128>)>;

    fn backlog(&self, flow: usize) -> usize;

    /// The request at the store is done that was dispatched `index` requests after the oldest there.
    fn complete(&mut self, index: usize, cancelled: bool) {
        let _ = (index, cancelled);
    }

    fn set_spare(&mut self, spare: SpareCapacity) {
        panic!("no step sets {spare:?} here");
    }
}

#[derive(Clone, Debug)]
pub enum Step<P> {
    Wait(u64),
    /// From here to the next wait the scheduler is told a time that is so much earlier.
    Back(u64),
    Arrive {
        flow: usize,
        count: u8,
        cost: u64,
    },
    Dispatch(u8),
    Complete {
        which: usize,
        cancelled: bool,
    },
    Configure(usize, P),
    Remove(usize),
    Spare(SpareCapacity),
}

/// Steps with flows 0 .. `flows`, costs mostly of one request and otherwise up to `dearest` thousandths, and
/// `more` with their weights.
pub fn steps<P: Clone + Debug + 'static>(
    flows: usize,
    dearest: u64,
    promises: impl Strategy<Value = P> + 'static,
    more: Vec<(u32, BoxedStrategy<Step<P>>)>,
) -> impl Strategy<Value = Vec<Step<P>>> {
    let waits = prop_oneof![Just(10_000_000_u64), 0_u64..30_000_000, 0_u64..1_000];
    let costs = prop_oneof![4 => Just(1_000_u64), 1 => 0..dearest];
    let arrivals = (0..flows, 1_u8..6, costs);
    let mut all = vec![
        (8, waits.prop_map(Step::Wait).boxed()),
        (1, (0_u64..50_000_000).prop_map(Step::Back).boxed()),
        (12, arrivals.prop_map(|(flow, count, cost)| Step::Arrive { flow, count, cost }).boxed()),
        (12, (1_u8..5).prop_map(Step::Dispatch).boxed()),
        (2, (0..flows, promises).prop_map(|(flow, promise)| Step::Configure(flow, promise)).boxed()),
        (1, (0..flows).prop_map(Step::Remove).boxed()),
    ];
    all.extend(more);
    prop::collection::vec(Union::new_weighted(all), 1..150)
}

/// Both side by side.
pub struct Pair<M> {
    pub model: M,
    pub real: Box<dyn Scheduler>,
    flows: usize,
    store: Vec<Request>,
    next_id: u64,
    /// By how much the time that the scheduler is told is behind.
    behind: u64,
}

impl<M: Model> Pair<M> {
    /// Flows 0 .. `flows`; the first of them begin with `promises`.
    pub fn new(model: M, real: impl Scheduler + 'static, flows: usize, promises: &[M::Promise]) -> Self {
        let mut pair = Self { model, real: Box::new(real), flows, store: vec![], next_id: 0, behind: 0 };
        for (flow, promise) in promises.iter().enumerate() {
            pair.step(&Step::Configure(flow, promise.clone()));
        }
        pair
    }

    /// Goes through `steps`, and then serves all that waits.
    pub fn run(&mut self, steps: &[Step<M::Promise>]) {
        steps.iter().for_each(|step| self.step(step));
        self.step(&Step::Wait(0));
        while self.dispatch() {
            self.step(&Step::Wait(1_000_000));
            self.complete(0, false);
        }
        assert_eq!(self.waiting(), 0);
        self.compare_backlogs();
    }

    fn now(&self) -> Time {
        Time::from_nanos(self.model.now().saturating_sub(self.behind))
    }

    fn waiting(&self) -> usize {
        (0..self.flows).map(|flow| self.model.backlog(flow)).sum()
    }

    fn compare_backlogs(&self) {
        for flow in 0..self.flows {
            assert_eq!(self.real.backlog(FlowId(flow as u32)), self.model.backlog(flow), "flow {flow}");
        }
    }

    fn dispatch(&mut self) -> bool {
        let (waiting, now) = (self.waiting(), self.now());
        let expected = self.model.dispatch();
        let dispatched = super::dispatch(self.real.as_mut(), now);
        assert_eq!(dispatched.is_some(), waiting > 0, "work conserving");
        let tag = |tag: i128| Time::from_nanos(tag.max(0) as u64);
        assert_eq!(
            dispatched.map(|dispatch| (dispatch.request.id.0, dispatch.finish_tag)),
            expected.map(|(id, finish)| (id, finish.map(tag)))
        );
        self.store.extend(dispatched.map(|dispatch| dispatch.request));
        expected.is_some()
    }

    fn complete(&mut self, which: usize, cancelled: bool) {
        if self.store.is_empty() {
            return;
        }
        let (index, now) = (which % self.store.len(), self.now());
        let done = self.store.remove(index);
        self.model.complete(index, cancelled);
        let outcome = if cancelled { Outcome::Cancelled } else { Outcome::Done };
        let completion = Completion::new(Ticket::from_bits(done.id.0), outcome);
        self.real.on_completion(now, &done, &completion);
    }

    fn arrive(&mut self, flow: usize, cost: u64) {
        let (id, now) = (self.next_id, self.now());
        self.next_id += 1;
        let taken = self.real.on_arrival(now, Arrival::new(now, request(id, flow, cost)));
        let unknown = Err(ConfigureError::UnknownFlow(FlowId(flow as u32)));
        assert_eq!(taken, if self.model.arrive(id, flow, cost) { Ok(()) } else { unknown });
    }

    /// The scheduler must have seen the latest time before it is told an earlier one.
    fn show_the_time(&mut self) {
        let (now, spare) = (Time::from_nanos(self.model.now()), FlowId(self.flows as u32));
        self.real.configure(now, spare, &Slo::background()).unwrap();
        self.real.remove(now, spare).unwrap();
    }

    fn step(&mut self, step: &Step<M::Promise>) {
        let now = self.now();
        match step {
            Step::Wait(nanos) => {
                self.model.wait(*nanos);
                self.behind = 0;
            }
            Step::Back(nanos) => {
                self.show_the_time();
                self.behind = *nanos;
            }
            Step::Arrive { flow, count, cost } => (0..*count).for_each(|_| self.arrive(*flow, *cost)),
            Step::Dispatch(count) => (0..*count).for_each(|_| _ = self.dispatch()),
            Step::Complete { which, cancelled } => self.complete(*which, *cancelled),
            Step::Configure(flow, promise) => {
                self.model.configure(*flow, promise);
                self.real.configure(now, FlowId(*flow as u32), &M::slo_of(promise)).unwrap();
            }
            Step::Remove(flow) => {
                let removed = self.real.remove(now, FlowId(*flow as u32)).is_ok();
                assert_eq!(removed, self.model.remove(*flow));
            }
            Step::Spare(spare) => {
                self.model.set_spare(*spare);
                self.real.set_spare(now, *spare).unwrap();
            }
        }
        self.compare_backlogs();
    }
}
