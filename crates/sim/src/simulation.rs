//! The simulation: the engine, a device model and sources of requests on virtual time.
//!
//! ```text
//!             ┌────────────── instant t: the smallest of ──────────────┐
//!  events.next_time()      device.next_event()      engine.poll_timeout()
//!        │                         │                         │
//!   2 changes, 3 arrivals     1 completions              4 timeout
//!        └──────────┬──────────────┴─────────────────────────┘
//!                   v          again until nothing is left at t
//!            Engine::handle_input ──> 5 poll_output ──> Submit ──> device.submit
//!                   ^                                                  │ 6 work of the device's own,
//!                   └──────────────── arrivals <───────────────────────┘   such as copies between tiers
//! ```
//!
//! The numbers are the order within an instant (see `events.rs`). The engine is the one that the gateway
//! runs; nothing in it knows that time is virtual. In the steady state no event allocates.

use evenkeel_core::{
    Completion, ConfigureError, CostModel, DepthControl, Engine, FlowId, Input, InputError, Membership,
    Outcome, Output, Record, Request, RequestId, Scheduler, Slo, Span, SpareCapacity, Submission, Ticket,
    Time,
};
use evenkeel_device::{Device, Io, TierCounts};
use evenkeel_tiering::store::copy_cost;

use crate::dilated::Dilated;
use crate::driver::Driver;
use crate::events::{Event, Events};
use crate::source::{Source, SourceConfig, TraceAccount, TraceFault};

/// Marks the numbers of requests that no source has sent.
const OWN: u64 = 1 << 63;

/// Sees everything that happens, in order. Every method does nothing unless it is implemented.
pub trait Observer {
    /// A request has arrived and the engine has accepted it.
    fn on_arrival(&mut self, now: Time, request: &Request) {
        let _ = (now, request);
    }

    /// A request went to the device; `outstanding` are there now.
    fn on_submit(&mut self, now: Time, submission: &Submission, outstanding: u32) {
        let _ = (now, submission, outstanding);
    }

    /// A request is over; `outstanding` are left at the device.
    fn on_reply(&mut self, record: &Record, outstanding: u32) {
        let _ = (record, outstanding);
    }

    /// A flow was configured, or its promise changed.
    fn on_configure(&mut self, now: Time, flow: FlowId, slo: &Slo) {
        let _ = (now, flow, slo);
    }

    /// Another change took effect.
    fn on_change(&mut self, now: Time, change: &Change) {
        let _ = (now, change);
    }
}

impl Observer for () {}

/// Something that changes in the course of a simulation.
pub enum Change {
    /// Adds a flow or changes its promise.
    Configure(FlowId, Slo),
    /// Adds a group or changes what its members are promised together.
    Group(FlowId, Slo),
    /// Makes a flow a member of a group, or changes its membership.
    Join(FlowId, Membership),
    /// What the requests of a flow cost that arrive from now on; each costs 1 before.
    Cost(FlowId, CostModel),
    /// A flow's sources send no more, and it is forgotten once nothing of it waits.
    Stop(FlowId),
    /// Another scheduler, without flows; waiting requests move over.
    Scheduler(Box<dyn Scheduler + Send>),
    /// Another policy for spare capacity.
    Spare(SpareCapacity),
    /// The device runs at so many millionths of its speed.
    Speed(u64),
    /// Another dispatch depth: one that stays, or the next one of a controller.
    Depth(std::num::NonZeroU32),
    /// From now on this controller chooses the dispatch depth, until another change sets it.
    Adapt(Box<DepthControl>),
}

/// Why a simulation cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// The engine refused a change.
    #[error("at {} ns: {what}: {source}", at.as_nanos())]
    Refused {
        /// When.
        at: Time,
        /// What was to change.
        what: String,
        /// Why not.
        source: ConfigureError,
    },
    /// A trace cannot be read on.
    #[error("the trace of flow {}: {source}", flow.0)]
    Trace {
        /// Whose trace.
        flow: FlowId,
        /// What is wrong with it.
        source: TraceFault,
    },
    /// The device finished a request that was never given to it.
    #[error("the device model finished request {0:#x}, which it was not given")]
    Stray(u64),
}

/// What a simulation consists of.
pub struct Setup {
    /// Names every stream of random numbers.
    pub seed: u64,
    /// An engine without flows.
    pub engine: Engine,
    /// The device.
    pub device: Box<dyn Device + Send>,
    /// Changes with their instants; those of one instant in the order in which they take effect. Flows that are
    /// there from the start are configured at time 0.
    pub changes: Vec<(Time, Change)>,
    /// The sources.
    pub sources: Vec<SourceConfig>,
}

/// A simulation at some instant.
pub struct Simulation<O> {
    driver: Driver<O>,
    device: Dilated,
    events: Events,
    sources: Vec<Source>,
    changes: Vec<Option<Change>>,
    /// Members with their groups.
    members: Vec<(FlowId, FlowId)>,
    /// Flows that go once nothing of them waits.
    leaving: Vec<FlowId>,
    /// By flow number, of those that have one.
    costs: Vec<Option<CostModel>>,
    /// Chooses the dispatch depth, if it is adapted.
    depth_control: Option<DepthControl>,
    now: Time,
    arrived: u64,
    completed: u64,
    /// Requests that the device itself has asked for.
    own: u64,
}

impl<O: Observer> Simulation<O> {
    /// A simulation that stands just before its first instant.
    ///
    /// # Errors
    /// If the first request of a trace cannot be read.
    pub fn new(setup: Setup, observer: O) -> Result<Self, SimError> {
        let mut simulation = Self {
            driver: Driver { engine: setup.engine, observer },
            device: Dilated::new(setup.device),
            events: Events::default(),
            sources: Vec::new(),
            changes: Vec::new(),
            members: Vec::new(),
            leaving: Vec::new(),
            costs: Vec::new(),
            depth_control: None,
            now: Time::ZERO,
            arrived: 0,
            completed: 0,
            own: 0,
        };
        for (at, change) in setup.changes {
            simulation.events.push(at, Event::Change(simulation.changes.len() as u32));
            simulation.changes.push(Some(change));
        }
        for (number, config) in (0_u32..).zip(setup.sources) {
            let mut source = Source::new(number, setup.seed, config);
            let (at, count) =
                source.first().map_err(|fault| SimError::Trace { flow: source.flow, source: fault })?;
            for _ in 0..count {
                simulation.schedule(at, number);
            }
            simulation.sources.push(source);
        }
        Ok(simulation)
    }

    /// Goes on until nothing is left to do at or before `end`.
    ///
    /// # Errors
    /// If a change is refused or a trace cannot be read on.
    pub fn run_until(&mut self, end: Time) -> Result<(), SimError> {
        while let Some(at) = self.next_instant().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.step()?;
        }
        self.now = self.now.max(end);
        Ok(())
    }

    /// From now on no source sends, and changes that were still to come are forgotten; goes on until every
    /// request is over or nothing can happen any more.
    ///
    /// # Errors
    /// As [`Simulation::run_until`].
    pub fn drain(&mut self) -> Result<(), SimError> {
        self.sources.iter_mut().for_each(Source::stop);
        self.events = Events::default();
        let never = Time::from_nanos(u64::MAX);
        while let Some(at) = self.next_instant().filter(|at| *at < never) {
            if self.open() == 0 {
                break;
            }
            self.now = self.now.max(at);
            self.step()?;
        }
        Ok(())
    }

    /// The present instant.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Requests that have arrived.
    #[must_use]
    pub const fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Requests that are over.
    #[must_use]
    pub const fn completed(&self) -> u64 {
        self.completed
    }

    /// Requests that wait in the scheduler or are at the device.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.driver.engine.waiting() as u64 + u64::from(self.driver.engine.outstanding())
    }

    /// Requests that source number `source` has sent.
    #[must_use]
    pub fn sent(&self, source: usize) -> u64 {
        self.sources.get(source).map_or(0, Source::sent)
    }

    /// How the traces have been read so far, each with the flow that sends it.
    pub fn traces(&self) -> impl Iterator<Item = (FlowId, TraceAccount)> + '_ {
        self.sources.iter().filter_map(|source| Some((source.flow, source.trace_account()?)))
    }

    /// The engine.
    #[must_use]
    pub const fn engine(&self) -> &Engine {
        &self.driver.engine
    }

    /// What the device has done, if it is made of two tiers.
    #[must_use]
    pub fn tier_counts(&self) -> Option<TierCounts> {
        self.device.tier_counts()
    }

    /// The observer.
    #[must_use]
    pub const fn observer(&self) -> &O {
        &self.driver.observer
    }

    /// The observer, once the simulation is over.
    #[must_use]
    pub fn into_observer(self) -> O {
        self.driver.observer
    }

    /// When something happens next.
    #[must_use]
    pub fn next_instant(&self) -> Option<Time> {
        let events = [self.events.next_time(), self.device.next_event(), self.driver.engine.poll_timeout()];
        events.into_iter().flatten().min()
    }

    /// Everything that happens at `self.now`.
    fn step(&mut self) -> Result<(), SimError> {
        let now = self.now;
        while let Some(finished) = self.device.poll_completion(now) {
            self.complete(finished.token, finished.busy)?;
        }
        while let Some(event) = self.events.pop_due(now) {
            match event {
                Event::Change(index) => self.change(index as usize)?,
                Event::Arrival(source) => self.arrive(source)?,
            }
        }
        if self.driver.engine.poll_timeout().is_some_and(|at| at <= now) {
            let handled = self.driver.engine.handle_input(now, Input::Timeout);
            debug_assert!(handled.is_ok(), "a timeout is never refused");
        }
        self.take_own_work()?;
        self.dispatch();
        while self.take_own_work()? {
            self.dispatch();
        }
        if !self.leaving.is_empty() {
            self.let_go();
        }
        Ok(())
    }

    fn dispatch(&mut self) {
        while let Some(output) = self.driver.poll(self.now) {
            match output {
                Output::Submit(submission) => self.submit(&submission),
                Output::Reply(record) => self.reply(&record),
            }
        }
    }

    /// Hands what the device wants done to the engine; whether there was anything. It pays for a read and a
    /// write, as a copy between tiers has both.
    fn take_own_work(&mut self) -> Result<bool, SimError> {
        let (now, before) = (self.now, self.own);
        while let Some((flow, Io { operation, offset, length, .. })) = self.device.poll_own_work() {
            let model = self.costs.get(flow.0 as usize).and_then(Option::as_ref);
            let cost = copy_cost(model.unwrap_or(&CostModel::PER_REQUEST), length);
            let request = Request { id: RequestId(OWN | self.own), flow, operation, offset, length, cost };
            self.driver
                .input(now, Input::Arrival(request))
                .map_err(|error| refused(now, &format!("a request of flow {}", flow.0), error))?;
            self.own += 1;
            self.arrived += 1;
        }
        Ok(self.own > before)
    }

    fn submit(&mut self, submission: &Submission) {
        let Request { flow, operation, offset, length, .. } = submission.request;
        let io = Io { token: submission.ticket.to_bits(), operation, offset, length };
        self.device.submit_for(self.now, flow, io);
    }

    fn complete(&mut self, token: u64, busy: Span) -> Result<(), SimError> {
        let completion = Completion::new(Ticket::from_bits(token), Outcome::Done).with_service(busy);
        self.driver.input(self.now, Input::Completion(completion)).map_err(|_| SimError::Stray(token))?;
        // The engine hands out replies before it dispatches: exactly one is there.
        if let Some(Output::Reply(record)) = self.driver.poll(self.now) {
            self.reply(&record);
        }
        Ok(())
    }

    fn reply(&mut self, record: &Record) {
        self.completed += 1;
        let control = self.depth_control.as_mut();
        if let Some(depth) = control.and_then(|control| control.handle_record(self.now, record)) {
            self.driver.observer.on_change(self.now, &Change::Depth(depth));
            self.driver.engine.set_depth(depth);
        }
        let number = Source::of(record.request.id);
        if let Some(at) = self.sources.get_mut(number).and_then(|source| source.after_reply(self.now)) {
            self.schedule(at, number as u32);
        }
    }

    fn arrive(&mut self, number: u32) -> Result<(), SimError> {
        let now = self.now;
        let source = &mut self.sources[number as usize];
        let Some(mut request) = source.send() else { return Ok(()) };
        let flow = source.flow;
        if let Some(Some(model)) = self.costs.get(flow.0 as usize) {
            request.cost = model.cost(request.operation, request.length);
        }
        self.driver
            .input(now, Input::Arrival(request))
            .map_err(|error| refused(now, &format!("a request of flow {}", flow.0), error))?;
        self.arrived += 1;
        let following = self.sources[number as usize].following();
        let at = following.map_err(|fault| SimError::Trace { flow, source: fault })?;
        self.schedule(at, number);
        Ok(())
    }

    fn schedule(&mut self, at: Time, source: u32) {
        if at < Time::from_nanos(u64::MAX) {
            self.events.push(at.max(self.now), Event::Arrival(source));
        }
    }

    fn change(&mut self, index: usize) -> Result<(), SimError> {
        let now = self.now;
        let Some(change) = self.changes.get_mut(index).and_then(Option::take) else { return Ok(()) };
        // Of promises and memberships the driver tells once they hold.
        if !matches!(change, Change::Configure(..) | Change::Join(..)) {
            self.driver.observer.on_change(now, &change);
        }
        match change {
            Change::Configure(flow, slo) => {
                let input = Input::Configure(flow, slo);
                self.driver
                    .input(now, input)
                    .map_err(|error| refused(now, &format!("the promise of flow {}", flow.0), error))?;
            }
            Change::Group(group, slo) => {
                // To the observer a group is no flow; it is told of the members.
                let handled = self.driver.engine.handle_input(now, Input::Configure(group, slo));
                handled.map_err(|error| refused(now, &format!("the group {}", group.0), error))?;
                for (flow, _) in self.members.iter().filter(|(_, of)| *of == group) {
                    self.driver.configured(now, *flow);
                }
            }
            Change::Join(flow, membership) => {
                self.members.retain(|(member, _)| *member != flow);
                self.members.push((flow, membership.group));
                let handled = self.driver.input(now, Input::Join(flow, membership));
                handled
                    .map_err(|error| refused(now, &format!("the membership of flow {}", flow.0), error))?;
            }
            Change::Cost(flow, model) => {
                let index = flow.0 as usize;
                self.costs.resize(self.costs.len().max(index + 1), None);
                self.costs[index] = Some(model);
            }
            Change::Stop(flow) => {
                let stopped = self.sources.iter_mut().filter(|source| source.flow == flow);
                stopped.for_each(Source::stop);
                self.leaving.push(flow);
            }
            Change::Scheduler(scheduler) => {
                let what = format!("scheduler {}", scheduler.name());
                let replaced = self.driver.engine.replace_scheduler(now, scheduler);
                replaced.map_err(|error| refused(now, &what, error.into()))?;
            }
            Change::Spare(spare) => {
                let set = self.driver.engine.set_spare(now, spare);
                set.map_err(|error| refused(now, "spare capacity", error.into()))?;
            }
            Change::Speed(speed) => self.device.set_speed(now, speed),
            Change::Depth(depth) => {
                self.depth_control = None;
                self.driver.engine.set_depth(depth);
            }
            Change::Adapt(control) => {
                self.driver.engine.set_depth(control.depth());
                self.depth_control = Some(*control);
            }
        }
        Ok(())
    }

    /// Forgets the flows that are done. The engine still knows their requests at the device.
    fn let_go(&mut self) {
        let (engine, now) = (&mut self.driver.engine, self.now);
        self.leaving.retain(|flow| {
            engine.backlog(*flow) > 0 || engine.handle_input(now, Input::Remove(*flow)).is_err()
        });
    }
}

fn refused(at: Time, what: &str, error: InputError) -> SimError {
    let source = match error {
        InputError::Configure(source) => source,
        _ => ConfigureError::Unsupported,
    };
    SimError::Refused { at, what: what.to_owned(), source }
}
