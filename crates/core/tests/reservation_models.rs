//! mClock and RBFQ against one quadratic model: all waiting requests in one vector, no heaps, every tag
//! computed anew from the last request's when it is asked for.

mod common;

use common::request;
use evenkeel_core::sched::mclock::MClock;
use evenkeel_core::sched::rbfq::Rbfq;
use evenkeel_core::*;
use proptest::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Law {
    /// RBFQ: a request counts in its own phase only.
    Additive,
    /// mClock: every request counts for weight and limit.
    Max,
}

/// In thousandths per second; zero for none.
#[derive(Clone, Copy, Debug)]
struct Parameters {
    reservation: u64,
    limit: u64,
    weight: u32,
}

/// The tag of the last request that counted, and its cost.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    tag: u128,
    cost: u64,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    parameters: Parameters,
    reservation: Last,
    limit: Last,
    weight_tag: u128,
    /// Waits, and was not held back by its limit when last looked at.
    ready: bool,
    /// Waits, and was held back.
    limited: bool,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: u64,
    flow: usize,
    cost: u64,
    elsewhere: Elsewhere,
}

/// Requests are in the order of their arrival, so "the first" is "the oldest" throughout.
struct Model {
    law: Law,
    flows: Vec<Option<Flow>>,
    waiting: Vec<Waiting>,
    now: u128,
    /// How far the reservations are behind, at most a second; what was over that is lost.
    lag: u128,
    lost: u128,
    /// V of the flows with a reservation, and of the others.
    virtual_now: [u128; 2],
}

#[derive(Debug, PartialEq)]
enum Answer {
    Dispatch { id: u64, by_reservation: bool },
    WaitUntil(u64),
    Idle,
}

fn spacing(cost: u64, rate: u64) -> u128 {
    ((u128::from(cost) * 1_000_000_000) << 24) / u128::from(rate)
}

impl Last {
    fn due(self, rate: u64) -> u128 {
        self.tag + spacing(self.cost, rate)
    }

    fn not_before(&mut self, earliest: u128, rate: u64) {
        if self.due(rate) < earliest {
            *self = Self { tag: earliest, cost: 0 };
        }
    }

    fn resume(&mut self, now: u128, rate: u64) {
        if self.due(rate) + spacing(self.cost.max(1_000), rate).min(10_000_000 << 24) <= now {
            *self = Self { tag: now, cost: 0 };
        }
    }
}

impl Flow {
    fn due_by_reservation(&self) -> u128 {
        self.reservation.due(self.parameters.reservation)
    }

    fn due_by_limit(&self) -> u128 {
        if self.parameters.limit == 0 { 0 } else { self.limit.due(self.parameters.limit) }
    }

    fn side(&self) -> usize {
        usize::from(self.parameters.reservation == 0)
    }

    fn charge_weight(&mut self, cost: u64) {
        self.weight_tag += (u128::from(cost) << 40) / u128::from(self.parameters.weight);
    }
}

impl Model {
    fn flow(&mut self, flow: usize) -> &mut Flow {
        self.flows[flow].as_mut().unwrap()
    }

    fn reservation_now(&self) -> u128 {
        self.now - self.lost
    }

    fn head(&self, flow: usize) -> Option<Waiting> {
        self.waiting.iter().find(|waiting| waiting.flow == flow).copied()
    }

    fn heads(&self) -> Vec<(Flow, Waiting)> {
        let is_head = |waiting: &&Waiting| self.head(waiting.flow).is_some_and(|head| head.id == waiting.id);
        self.waiting.iter().filter(is_head).map(|head| (self.flows[head.flow].unwrap(), *head)).collect()
    }

    fn look_at(&mut self, flow: usize) {
        let (now, virtual_now) = (self.now, self.virtual_now);
        if !self.waiting.iter().any(|waiting| waiting.flow == flow) {
            let flow = self.flow(flow);
            (flow.ready, flow.limited) = (false, false);
            return;
        }
        let flow = self.flow(flow);
        let ready = flow.due_by_limit() <= now;
        if ready && !flow.ready {
            let allowed =
                if flow.limited { (1_000_u128 << 40) / u128::from(flow.parameters.weight) } else { 0 };
            if flow.weight_tag + allowed <= virtual_now[flow.side()] {
                flow.weight_tag = virtual_now[flow.side()];
            }
        }
        (flow.ready, flow.limited) = (ready, !ready);
    }

    fn became_head(&mut self, id: usize, returns: bool) {
        let (law, now) = (self.law, self.now);
        let begin = self.reservation_now() - self.lag;
        if let Some(head) = self.head(id) {
            let flow = self.flow(id);
            let Parameters { reservation, limit, .. } = flow.parameters;
            if law == Law::Max {
                flow.charge_weight(1_000 * u64::from(head.elsewhere.served()));
            }
            if law == Law::Max && reservation > 0 {
                flow.reservation.tag += u128::from(head.elsewhere.reserved()) * spacing(1_000, reservation);
            }
            if limit > 0 {
                flow.limit.tag += u128::from(head.elsewhere.served()) * spacing(1_000, limit);
            }
            if returns && reservation > 0 {
                flow.reservation.resume(begin, reservation);
            }
            if returns && limit > 0 {
                flow.limit.resume(now, limit);
            }
        }
        self.look_at(id);
    }

    fn configure(&mut self, id: usize, mut parameters: Parameters) -> bool {
        if self.law == Law::Additive {
            parameters.limit = 0;
        }
        if parameters.limit > 0 && parameters.limit < parameters.reservation {
            return false;
        }
        self.release();
        let begins = Last { tag: self.now, cost: 0 };
        let begins_late = Last { tag: self.reservation_now() - self.lag, cost: 0 };
        let fresh = Flow {
            parameters,
            reservation: begins_late,
            limit: begins,
            weight_tag: 0,
            ready: false,
            limited: false,
        };
        let Some(old) = self.flows[id] else {
            self.flows[id] = Some(fresh);
            return true;
        };
        let mut flow = Flow { parameters, ..old };
        if old.parameters.reservation == 0 {
            flow.reservation = begins_late;
        }
        if old.parameters.limit == 0 {
            flow.limit = begins;
        }
        flow.limited &= flow.parameters.limit > 0;
        if old.side() != flow.side() {
            (flow.weight_tag, flow.ready, flow.limited) = (0, false, false);
        }
        self.flows[id] = Some(flow);
        self.look_at(id);
        true
    }

    /// Looks at all whose limits let them go by now.
    fn release(&mut self) {
        for (flow, head) in self.heads() {
            if !flow.ready && flow.due_by_limit() <= self.now {
                self.look_at(head.flow);
            }
        }
    }

    fn dispatch(&mut self) -> Answer {
        self.release();
        let ready: Vec<_> = self.heads().into_iter().filter(|(flow, _)| flow.ready).collect();
        let reserved = ready.iter().filter(|(flow, _)| flow.side() == 0);
        let first = reserved.min_by_key(|(flow, _)| flow.due_by_reservation());
        let now = self.reservation_now();
        let behind = first.map_or(0, |(flow, _)| now.saturating_sub(flow.due_by_reservation()));
        self.lag = behind.min(1_000_000_000 << 24);
        self.lost += behind - self.lag;
        if let Some((flow, head)) = first
            && flow.due_by_reservation() <= self.reservation_now()
        {
            return self.serve(head, &ready, true);
        }
        if let Some((_, head)) = ready.iter().min_by_key(|(flow, _)| (flow.side(), flow.weight_tag)) {
            return self.serve(head, &ready, false);
        }
        let limited = self.heads().into_iter().map(|(flow, _)| flow.due_by_limit()).min();
        limited.map_or(Answer::Idle, |due| Answer::WaitUntil(due.div_ceil(1 << 24) as u64))
    }

    fn serve(&mut self, head: &Waiting, ready: &[(Flow, Waiting)], by_reservation: bool) -> Answer {
        let (law, now) = (self.law, self.now);
        let side = self.flow(head.flow).side();
        let smallest = ready.iter().filter(|(flow, _)| flow.side() == side).map(|(flow, _)| flow.weight_tag);
        self.virtual_now[side] = smallest.min().unwrap().max(self.virtual_now[side]);
        let flow = self.flow(head.flow);
        if by_reservation {
            flow.reservation = Last { tag: flow.due_by_reservation(), cost: head.cost };
        }
        if flow.parameters.limit > 0 {
            flow.limit = Last { tag: flow.due_by_limit(), cost: head.cost };
            flow.limit.not_before(now, flow.parameters.limit);
        }
        if law == Law::Max || !by_reservation {
            flow.charge_weight(head.cost);
        }
        self.waiting.retain(|waiting| waiting.id != head.id);
        self.became_head(head.flow, false);
        Answer::Dispatch { id: head.id, by_reservation }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    GoBack(u64),
    Arrive { flow: usize, count: u8, cost: u64, elsewhere: Elsewhere },
    Dispatch(u8),
    Configure(usize, Parameters),
    Remove(usize),
}

const FLOWS: usize = 6;

fn parameters() -> impl Strategy<Value = Parameters> {
    let rate = || prop_oneof![Just(0_u64), (1_u64..20).prop_map(|n| n * 10_000), 1_u64..400_000];
    (rate(), rate(), prop_oneof![1_u32..5, 1_u32..1_000]).prop_map(|(reservation, limit, weight)| {
        // One set in a few keeps a limit below its reservation, to be refused.
        let limit = if limit > 0 && limit % 7 > 0 { limit.max(reservation) } else { limit };
        Parameters { reservation, limit, weight }
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let waits = prop_oneof![Just(10_000_000_u64), 0_u64..50_000_000, 0_u64..1_000];
    let costs = prop_oneof![4 => Just(1_000_u64), 1 => 0_u64..5_000];
    let elsewhere = prop_oneof![
        5 => Just(Elsewhere::NOTHING),
        1 => (0_u32..4, 0_u32..4).prop_map(|(more, reserved)| Elsewhere::new(reserved + more, reserved).unwrap()),
    ];
    let arrivals = (0..FLOWS, 1_u8..6, costs, elsewhere);
    let step = prop_oneof![
        8 => waits.prop_map(Step::Wait),
        1 => (0_u64..5_000_000_000).prop_map(Step::Wait),
        1 => (0_u64..20_000_000).prop_map(Step::GoBack),
        12 => arrivals.prop_map(|(flow, count, cost, elsewhere)| Step::Arrive { flow, count, cost, elsewhere }),
        12 => (1_u8..5).prop_map(Step::Dispatch),
        2 => (0..FLOWS, parameters()).prop_map(|(flow, parameters)| Step::Configure(flow, parameters)),
        1 => (0..FLOWS).prop_map(Step::Remove),
    ];
    prop::collection::vec(step, 1..120)
}

fn slo_of(parameters: Parameters, by_envelope: bool) -> Slo {
    let rate = Rate::from_millis(parameters.reservation);
    let slo = match (parameters.reservation, by_envelope) {
        (0, _) => Slo::background(),
        (_, false) => Slo::background().with_reservation(rate).unwrap(),
        (_, true) => Slo::guaranteed(Envelope::new(Cost::ONE, rate, Span::from_millis(1)).unwrap()),
    };
    let slo = slo.with_weight(Weight::new(parameters.weight).unwrap());
    match parameters.limit {
        0 => slo,
        limit => slo.with_limit(Rate::from_millis(limit)).unwrap(),
    }
}

/// Both side by side.
struct Pair {
    model: Model,
    real: Box<dyn Scheduler>,
    clock: u64,
    next_id: u64,
}

impl Pair {
    fn new(law: Law, parameters: &[Parameters]) -> Self {
        let flows = vec![None; FLOWS];
        let model = Model { law, flows, waiting: Vec::new(), now: 0, lag: 0, lost: 0, virtual_now: [0; 2] };
        let real: Box<dyn Scheduler> =
            if law == Law::Max { Box::new(MClock::new()) } else { Box::new(Rbfq::new()) };
        let mut pair = Self { model, real, clock: 1_000_000_000, next_id: 0 };
        for (flow, parameters) in parameters.iter().enumerate() {
            pair.step(&Step::Configure(flow, *parameters));
        }
        pair
    }

    fn dispatch(&mut self) -> Answer {
        self.model.now = self.model.now.max(u128::from(self.clock) << 24);
        let expected = self.model.dispatch();
        let answer = match self.real.poll_dispatch(Time::from_nanos(self.clock)) {
            Decision::Dispatch(dispatch) => {
                let by_reservation = dispatch.finish_tag.is_some();
                Answer::Dispatch { id: dispatch.request.id.0, by_reservation }
            }
            Decision::WaitUntil(time) => Answer::WaitUntil(time.as_nanos()),
            Decision::Idle => Answer::Idle,
            Decision::Blocked => panic!("never blocked"),
        };
        assert_eq!(answer, expected);
        answer
    }

    fn step(&mut self, step: &Step) {
        let now = Time::from_nanos(self.clock);
        let later = self.model.now.max(u128::from(self.clock) << 24);
        match *step {
            Step::Wait(nanos) => self.clock += nanos,
            Step::GoBack(nanos) => self.clock -= nanos.min(self.clock),
            Step::Arrive { flow, count, cost, elsewhere } => {
                for _ in 0..count {
                    let id = self.next_id;
                    let arrival = Arrival::new(now, request(id, flow, cost));
                    let taken = self.real.on_arrival_counted(now, arrival, elsewhere).is_ok();
                    assert_eq!(taken, self.model.flows[flow].is_some());
                    if taken {
                        self.model.now = later;
                        let idle = self.model.head(flow).is_none();
                        let counts = self.model.law == Law::Max;
                        let elsewhere = if counts { elsewhere } else { Elsewhere::NOTHING };
                        self.model.waiting.push(Waiting { id, flow, cost, elsewhere });
                        if idle {
                            self.model.became_head(flow, true);
                        }
                    }
                    self.next_id += 1;
                }
            }
            Step::Dispatch(count) => (0..count).for_each(|_| _ = self.dispatch()),
            Step::Configure(flow, parameters) => {
                let slo = slo_of(parameters, self.next_id.is_multiple_of(2));
                let before = self.model.now;
                self.model.now = later;
                let accepted = self.model.configure(flow, parameters);
                if !accepted {
                    self.model.now = before;
                }
                let flow = FlowId(flow as u32);
                let expected =
                    if accepted { Ok(()) } else { Err(ConfigureError::LimitBelowReservation(flow)) };
                assert_eq!(self.real.configure(now, flow, &slo), expected);
            }
            Step::Remove(flow) => {
                let may = self.model.flows[flow].is_some() && self.model.head(flow).is_none();
                assert_eq!(self.real.remove(now, FlowId(flow as u32)).is_ok(), may);
                if may {
                    self.model.now = later;
                    self.model.flows[flow] = None;
                }
            }
        }
    }
}

/// Runs both and then drains them: nothing is lost, nothing comes twice, each flow's order is kept (the
/// model serves heads only).
fn compare(law: Law, parameters: &[Parameters], steps: &[Step]) {
    let mut pair = Pair::new(law, parameters);
    for step in steps {
        pair.step(step);
    }
    loop {
        match pair.dispatch() {
            Answer::Dispatch { .. } => pair.step(&Step::Wait(1_000_000)),
            Answer::WaitUntil(time) => pair.clock = time,
            Answer::Idle => break,
        }
    }
    for flow in 0..FLOWS {
        assert_eq!(pair.real.backlog(FlowId(flow as u32)), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn mclock_dispatches_what_the_model_dispatches(
        parameters in prop::collection::vec(parameters(), FLOWS), steps in steps(),
    ) {
        compare(Law::Max, &parameters, &steps);
    }

    #[test]
    fn rbfq_dispatches_what_the_model_dispatches(
        parameters in prop::collection::vec(parameters(), FLOWS), steps in steps(),
    ) {
        compare(Law::Additive, &parameters, &steps);
    }
}
