//! Traces through the real engine, on a server that does one request at a time.

use std::num::NonZeroU32;

use evenkeel_core::sched::fcfs::Fcfs;
use evenkeel_core::sched::nested::Nested;
use evenkeel_core::sched::pclock::PClock;
use evenkeel_core::sched::wf2q::Wf2qPlus;
use evenkeel_core::units::NANOS_PER_SECOND;
use evenkeel_core::{
    Completion, Cost, Engine, FlowId, Input, InputError, Membership, Outcome, Output, Rate, Record, Request,
    RequestId, Scheduler, Slo, Span, Ticket, Time,
};
use evenkeel_trace::TraceRequest;

use crate::error::PlanError;
use crate::source::{Flow, Merged};

/// A scheduler to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// First come, first served.
    Fcfs,
    /// WF²Q+: shares by rate.
    Wf2q,
    /// pClock, held to the innermost envelope of each flow.
    PClock,
    /// Nested QoS.
    Nested,
}

impl Contender {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Fcfs, Self::Wf2q, Self::PClock, Self::Nested];

    /// As in a configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fcfs => "fcfs",
            Self::Wf2q => "wf2q+",
            Self::PClock => "pclock",
            Self::Nested => "nested",
        }
    }

    /// A fresh one.
    #[must_use]
    pub fn scheduler(self) -> Box<dyn Scheduler + Send> {
        match self {
            Self::Fcfs => Box::new(Fcfs::new()),
            Self::Wf2q => Box::new(Wf2qPlus::new()),
            Self::PClock => Box::new(PClock::new()),
            Self::Nested => Box::new(Nested::new()),
        }
    }
}

/// What became of one flow's requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Requests.
    pub requests: u64,
    /// How many took no longer than the δ of each class, and one service time.
    pub within: Vec<u64>,
}

/// Replays the traces of `flows`, all at once, through `scheduler` on a server of `capacity`, one request at
/// a time. A request counts as within δ if it took up to δ + L/C, L being the largest cost so far and at least 1:
/// the server is not interrupted (pClock, theorem 1). Every record goes to `visit`, in the order of completion.
///
/// # Errors
/// If a trace cannot be read or is unsorted.
pub fn replay(
    flows: &[Flow<'_>],
    scheduler: Box<dyn Scheduler + Send>,
    capacity: Rate,
    visit: &mut dyn FnMut(&Record),
) -> Result<Vec<Served>, PlanError> {
    let slos: Vec<Slo> = flows.iter().map(Flow::slo).collect();
    replay_under(flows, &Agreements { slos, ..Agreements::default() }, scheduler, capacity, visit)
}

/// What the flows of a replay are promised beyond their classes: weights, reservations, limits, groups.
#[derive(Clone, Debug, Default)]
pub struct Agreements {
    /// The promise of each flow, and behind them those of the groups.
    pub slos: Vec<Slo>,
    /// Which flows belong to a group, and how; the group is the index of its promise.
    pub members: Vec<(usize, Membership)>,
}

/// [`replay`] under agreements that hold more than classes.
///
/// # Errors
/// Those of [`replay`], and if the scheduler refuses a promise.
pub fn replay_under(
    flows: &[Flow<'_>],
    agreements: &Agreements,
    scheduler: Box<dyn Scheduler + Send>,
    capacity: Rate,
    visit: &mut dyn FnMut(&Record),
) -> Result<Vec<Served>, PlanError> {
    let mut engine = Engine::new(scheduler, NonZeroU32::MIN);
    let refused = |flow: usize, error: InputError| {
        let name =
            flows.get(flow).map_or_else(|| format!("group {}", flow - flows.len()), |it| it.name.clone());
        PlanError::Refused { flow: name, message: error.to_string() }
    };
    for (number, slo) in agreements.slos.iter().enumerate() {
        if agreements.members.iter().all(|(member, _)| *member != number) {
            let input = Input::Configure(FlowId(number as u32), slo.clone());
            engine.handle_input(Time::ZERO, input).map_err(|error| refused(number, error))?;
        }
    }
    for (member, membership) in &agreements.members {
        let input = Input::Join(FlowId(*member as u32), *membership);
        engine.handle_input(Time::ZERO, input).map_err(|error| refused(*member, error))?;
    }
    let mut served: Vec<Served> =
        flows.iter().map(|flow| Served { requests: 0, within: vec![0; flow.classes.len()] }).collect();
    let mut server = Server::new(capacity);
    let mut largest = Cost::ONE;
    let mut arrivals = Merged::open(flows)?;
    let mut number = 0;
    while let Some(event) = next_event(&server, &arrivals, &engine) {
        let (now, input) = match event {
            Event::Completion(due) => {
                (due, Input::Completion(Completion::new(server.finish(), Outcome::Done)))
            }
            Event::Timeout(at) => (at, Input::Timeout),
            Event::Arrival => {
                let Some((flow, request)) = arrivals.pop()? else { break };
                number += 1;
                (
                    request.at,
                    Input::Arrival(arrival(number, flow, flows[flow].source.cost(&request), &request)),
                )
            }
        };
        let known = engine.handle_input(now, input);
        known.unwrap_or_else(|error| unreachable!("configured flows and the engine's own tickets: {error}"));
        while let Some(output) = engine.poll_output(now) {
            match output {
                Output::Submit(submission) => {
                    server.begin(now, submission.ticket, submission.request.cost);
                }
                Output::Reply(record) => {
                    let flow = record.request.flow.0 as usize;
                    largest = largest.max(record.request.cost);
                    served[flow].count(&record, &flows[flow], server.service(largest));
                    visit(&record);
                }
            }
        }
    }
    Ok(served)
}

/// What comes next in virtual time.
enum Event {
    Completion(Time),
    Timeout(Time),
    Arrival,
}

/// Of equal times, completions come first and arrivals last.
fn next_event(server: &Server, arrivals: &Merged<'_>, engine: &Engine) -> Option<Event> {
    let due = server.due().map(|at| (at, 0, Event::Completion(at)));
    let timeout = engine.poll_timeout().map(|at| (at, 1, Event::Timeout(at)));
    let arrival = arrivals.next_at().map(|at| (at, 2, Event::Arrival));
    let events = [due, timeout, arrival].into_iter().flatten();
    events.min_by_key(|(at, order, _)| (*at, *order)).map(|(.., event)| event)
}

impl Served {
    fn count(&mut self, record: &Record, flow: &Flow<'_>, slack: Span) {
        self.requests += 1;
        for (within, class) in self.within.iter_mut().zip(&flow.classes) {
            *within += u64::from(record.latency() <= class.latency() + slack);
        }
    }
}

fn arrival(number: u64, flow: usize, cost: Cost, request: &TraceRequest) -> Request {
    let TraceRequest { operation, offset, length, .. } = *request;
    Request { id: RequestId(number), flow: FlowId(flow as u32), operation, offset, length, cost }
}

/// A server that takes cost/C for each request, exactly: what is below a nanosecond is carried over while it
/// does not pause.
struct Server {
    rate: u64,
    busy: Option<(Time, Ticket)>,
    free: Time,
    /// Of a nanosecond, in `rate`-ths.
    part: u64,
}

/// Nanoseconds of a request at 1/1000 IOPS.
const NANOS_AT_ONE_MILLI: u128 = NANOS_PER_SECOND as u128 * 1_000;

/// The work of a request of this cost, in nanoseconds at 1/1000 IOPS.
fn parts(cost: Cost) -> u128 {
    NANOS_AT_ONE_MILLI * u128::from(cost.as_millis()) / 1_000
}

impl Server {
    fn new(capacity: Rate) -> Self {
        Self { rate: capacity.as_millis().max(1), busy: None, free: Time::ZERO, part: 0 }
    }

    /// cost/C, rounded up to a nanosecond.
    fn service(&self, cost: Cost) -> Span {
        Span::from_nanos(u64::try_from(parts(cost).div_ceil(u128::from(self.rate))).unwrap_or(u64::MAX))
    }

    fn due(&self) -> Option<Time> {
        self.busy.map(|(due, _)| due)
    }

    fn begin(&mut self, now: Time, ticket: Ticket, cost: Cost) {
        if now > self.free {
            (self.free, self.part) = (now, 0);
        }
        let (parts, rate) = (parts(cost) + u128::from(self.part), u128::from(self.rate));
        self.free += Span::from_nanos(u64::try_from(parts / rate).unwrap_or(u64::MAX));
        self.part = (parts % rate) as u64;
        self.busy = Some((self.free, ticket));
    }

    fn finish(&mut self) -> Ticket {
        let Some((_, ticket)) = self.busy.take() else { unreachable!("only called when something is due") };
        ticket
    }
}
