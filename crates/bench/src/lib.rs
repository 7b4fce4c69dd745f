//! The load under which the core is measured: one request of every flow waits at an engine of depth 1.
//!
//! ```text
//!        ┌──────────────────────── the same flow's next request ────────────────────────┐
//!        v                                                                              │
//!  handle_input(Arrival) ─> poll_output: Submit ─> handle_input(Completion) ─> poll_output: Reply
//!                                     └── now += service ──┘
//! ```
//!
//! It is the load of a pull queue: each step is an arrival, a dispatch, a completion and a reply.

pub mod counting;
pub mod growth;

use std::num::NonZeroU32;

use evenkeel_core::sched::avatar::Avatar;
use evenkeel_core::sched::cello::{Cello, CelloConfig};
use evenkeel_core::sched::edf::Edf;
use evenkeel_core::sched::fairio::{Fairio, FairioConfig};
use evenkeel_core::sched::fcfs::Fcfs;
use evenkeel_core::sched::mclock::MClock;
use evenkeel_core::sched::nested::Nested;
use evenkeel_core::sched::pclock::PClock;
use evenkeel_core::sched::rbfq::Rbfq;
use evenkeel_core::sched::sced::Sced;
use evenkeel_core::sched::sfq::SfqD;
use evenkeel_core::sched::virtual_clock::VirtualClock;
use evenkeel_core::sched::wf2q::Wf2qPlus;
use evenkeel_core::sched::{Arrival, Decision};
use evenkeel_core::{
    Completion, Cost, Engine, Envelope, FlowId, Input, Operation, Outcome, Output, Rate, Request, RequestId,
    Scheduler, Slo, Span, SpareCapacity, Ticket, Time, Weight,
};

/// A scheduler on the heap, as the engine takes it.
pub type Boxed = Box<dyn Scheduler + Send>;

/// A scheduler's name, and how it is made.
pub type Named = (&'static str, fn() -> Boxed);

/// Every scheduler by name. `pclock-background` is pClock lending its spare capacity.
pub const SCHEDULERS: [Named; 14] = [
    ("pclock", || Box::new(PClock::new())),
    ("pclock-background", || Box::new(PClock::with_spare(SpareCapacity::Background))),
    ("nested", || Box::new(Nested::new())),
    ("sced", || Box::new(Sced::new())),
    ("edf", || Box::new(Edf::new())),
    ("virtual-clock", || Box::new(VirtualClock::new())),
    ("sfqd", || Box::new(SfqD::new())),
    ("wf2q+", || Box::new(Wf2qPlus::new())),
    ("mclock", || Box::new(MClock::new())),
    ("rbfq", || Box::new(Rbfq::new())),
    ("avatar", || Box::new(Avatar::new())),
    ("cello", || Box::new(Cello::new(CelloConfig::default()).expect("in range"))),
    ("fairio", || Box::new(fairio())),
    ("fcfs", || Box::new(Fcfs::new())),
];

/// Numbers of flows that are measured.
pub const FLOWS: &[u32] = &[10, 100, 1_000, 10_000, 100_000, 1_000_000];

/// A device that serves faster than all flows are promised: every pClock request is synchronized.
pub const IDLE_DEVICE: Span = Span::from_nanos(100);

/// A device that is slower than the flows would like.
pub const BUSY_DEVICE: Span = Span::from_micros(1_000);

/// The scheduler `name`, without flows.
#[must_use]
pub fn scheduler(name: &str) -> Option<Boxed> {
    SCHEDULERS.iter().find(|(known, _)| *known == name).map(|(_, make)| make())
}

/// A cycle of 10 ms on a device that takes four requests at once.
fn fairio() -> Fairio {
    Fairio::new(FairioConfig::new(Span::from_millis(10), 4)).expect("in range")
}

/// What flow number `flow` is promised: 50 latency bounds, 32 bursts and 91 rates take turns.
#[must_use]
pub fn slo(flow: u32) -> Slo {
    let (burst, rate) =
        (Cost::requests(1 + u64::from(flow % 32)), Rate::per_second(10 + u64::from(flow % 91)));
    let envelope = Envelope::new(burst, rate, Span::from_millis(1 + u64::from(flow % 50)));
    Slo::guaranteed(envelope.expect("in range"))
}

/// The same with a limit, which some schedulers hold each flow to.
#[must_use]
pub fn limited_slo(flow: u32) -> Slo {
    slo(flow).with_limit(Rate::per_second(1_000)).expect("in range")
}

/// What a store of all sorts promises: of five flows one is in the background, one has three classes, one a limit,
/// and two have a single class.
///
/// # Panics
/// Never: all of it is in range.
#[must_use]
pub fn mixed_slo(flow: u32) -> Slo {
    let single = slo(flow);
    let Some(inner) = single.envelope().copied() else { return single };
    let outward = |factor: u64| {
        let latency = Span::from_nanos(inner.latency().as_nanos() * factor);
        let burst = Cost::from_millis(inner.burst().as_millis() * factor);
        Envelope::new(burst, inner.rate(), latency).expect("in range")
    };
    match flow % 5 {
        4 => Slo::background().with_weight(Weight::new(1 + flow % 7).expect("in range")),
        3 => Slo::nested(&[inner, outward(2), outward(8)]).expect("nested"),
        2 => limited_slo(flow),
        _ => single,
    }
}

/// The same reservation and the same weight for every flow, half of a device of 100 000 per second among
/// them: what the peer is measured with.
#[must_use]
pub fn equal_slo(flows: u32) -> Slo {
    let rate = Rate::from_millis((50_000_000 / u64::from(flows)).max(1));
    let envelope = Envelope::new(Cost::requests(1), rate, Span::from_millis(20)).expect("in range");
    Slo::guaranteed(envelope).with_weight(Weight::ONE)
}

/// A read of 4 KiB.
#[must_use]
pub fn request(id: u64, flow: u32) -> Request {
    let (id, flow, operation) = (RequestId(id), FlowId(flow), Operation::Read);
    Request { id, flow, operation, offset: id.0 << 12, length: 4096, cost: Cost::ONE }
}

/// An engine with one request of every flow waiting.
pub struct Load {
    engine: Engine,
    now: Time,
    service: Span,
    next_id: u64,
}

impl Load {
    /// `flows` flows with the promises `slo`, by flow number, on a device that takes `service` each.
    ///
    /// # Panics
    /// If the scheduler refuses a promise.
    #[must_use]
    pub fn new(scheduler: Boxed, flows: u32, service: Span, slo: impl Fn(u32) -> Slo) -> Self {
        let engine = Engine::new(scheduler, NonZeroU32::MIN);
        let mut load = Self { engine, now: Time::ZERO, service, next_id: 0 };
        for flow in 0..flows {
            load.input(Input::Configure(FlowId(flow), slo(flow)));
        }
        for flow in 0..flows {
            load.arrive(flow);
        }
        load
    }

    /// The engine, to look at.
    #[must_use]
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Hands `input` to the engine now.
    ///
    /// # Panics
    /// If the engine refuses it.
    pub fn input(&mut self, input: Input) {
        self.engine.handle_input(self.now, input).expect("a valid input");
    }

    /// The next request of `flow` arrives.
    pub fn arrive(&mut self, flow: u32) {
        let request = request(self.next_id, flow);
        self.next_id += 1;
        self.input(Input::Arrival(request));
    }

    /// One dispatch with its completion and reply; returns whose request it was.
    ///
    /// # Panics
    /// If nothing may be dispatched.
    pub fn serve(&mut self) -> u32 {
        let submission = loop {
            match self.engine.poll_output(self.now) {
                Some(Output::Submit(submission)) => break submission,
                Some(Output::Reply(_)) => {}
                None => self.now = self.engine.poll_timeout().expect("requests wait"),
            }
        };
        self.now += self.service;
        self.input(Input::Completion(Completion::new(submission.ticket, Outcome::Done)));
        let reply = self.engine.poll_output(self.now);
        assert!(matches!(std::hint::black_box(reply), Some(Output::Reply(_))));
        submission.request.flow.0
    }

    /// A dispatch, and the next request of the same flow.
    pub fn step(&mut self) {
        let flow = self.serve();
        self.arrive(flow);
    }
}

/// A scheduler without the engine around it, with one request of every flow waiting: what a pull queue
/// of another make can be compared with, since that has no meters, tickets, records or dispatch depth either.
pub struct Queue {
    scheduler: Boxed,
    now: Time,
    service: Span,
    next_id: u64,
}

impl Queue {
    /// As [`Load::new`].
    ///
    /// # Panics
    /// If the scheduler refuses a promise.
    #[must_use]
    pub fn new(scheduler: Boxed, flows: u32, service: Span, slo: impl Fn(u32) -> Slo) -> Self {
        let mut queue = Self { scheduler, now: Time::ZERO, service, next_id: 0 };
        for flow in 0..flows {
            queue.scheduler.configure(queue.now, FlowId(flow), &slo(flow)).expect("in range");
        }
        for flow in 0..flows {
            queue.arrive(flow);
        }
        queue
    }

    /// The next request of `flow` arrives.
    ///
    /// # Panics
    /// If the scheduler refuses it.
    pub fn arrive(&mut self, flow: u32) {
        let request = request(self.next_id, flow);
        self.next_id += 1;
        self.scheduler.on_arrival(self.now, Arrival::new(self.now, request)).expect("a known flow");
    }

    /// A dispatch, its completion, and the next request of the same flow.
    ///
    /// # Panics
    /// If nothing may be dispatched.
    pub fn step(&mut self) {
        loop {
            // Looked at in place: to copy what has just been written is a stall that the peer does not have.
            match &self.scheduler.poll_dispatch(self.now) {
                Decision::Dispatch(dispatch) => {
                    self.now += self.service;
                    let completion = Completion::new(Ticket::from_bits(self.next_id), Outcome::Done);
                    self.scheduler.on_completion(self.now, &dispatch.request, &completion);
                    return self.arrive(dispatch.request.flow.0);
                }
                Decision::WaitUntil(later) => self.now = *later,
                decision => panic!("requests wait: {decision:?}"),
            }
        }
    }
}
