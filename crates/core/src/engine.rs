//! The engine: a scheduler with a dispatch depth, an envelope meter per flow, groups of flows, and a table
//! of what is outstanding.

use core::fmt;
use core::num::NonZeroU32;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::envelope::{Cascade, Level, TokenBucket};
use crate::group::{Admitted, Groups, Membership};
use crate::request::{Completion, FlowId, Outcome, Request, Ticket};
use crate::sched::{Arrival, ConfigureError, Decision, Dispatch, Elsewhere, Scheduler, SpareCapacity};
use crate::slo::Slo;
use crate::table;
use crate::units::{Cost, Rate, Span, Time};

/// What a driver tells the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A request has arrived.
    Arrival(Request),
    /// A request has arrived whose flow other servers serve as well, with what they have served of it
    /// (dmClock). Of a member of a group: what they have served of the group.
    CountedArrival(Request, Elsewhere),
    /// The store has answered a submission.
    Completion(Completion),
    /// The instant that [`Engine::poll_timeout`] named has come.
    Timeout,
    /// Adds a flow.
    Add(FlowId, Slo),
    /// Adds a flow or changes its promise, also while its requests wait.
    Configure(FlowId, Slo),
    /// Makes a new flow a member of a group, or changes its membership, also while its requests wait. The
    /// group is a flow that has been added and has nothing waiting of its own.
    Join(FlowId, Membership),
    /// Forgets a flow that has nothing waiting, or a member; not a group that has members.
    Remove(FlowId),
}

/// What the engine tells its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this request to the store.
    Submit(Submission),
    /// A request is over: answer its client, tell the ledger.
    Reply(Record),
}

/// A request on its way to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submission {
    /// To be given back with the completion.
    pub ticket: Ticket,
    /// The request.
    pub request: Request,
}

/// The whole life of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The request.
    pub request: Request,
    /// When it arrived.
    pub arrival: Time,
    /// When it was sent to the store.
    pub dispatch: Time,
    /// When the store answered.
    pub completion: Time,
    /// The latency that it was promised: δ if it arrived inside its flow's envelope, `None` if it
    /// did not or its flow is a background flow. Judged at arrival, the same under every scheduler.
    /// A flow with several classes is promised the δ of the class that the request reached.
    pub promise: Option<Span>,
    /// The class of the promise, an index into [`Slo::classes`] (as they were at its arrival): 0 is the
    /// innermost. `None` where nothing was promised.
    pub class: Option<u8>,
    /// How it ended.
    pub outcome: Outcome,
}

impl Record {
    /// From arrival to completion.
    #[must_use]
    pub fn latency(&self) -> Span {
        self.completion.since(self.arrival)
    }

    /// Whether a promise was made and not kept.
    #[must_use]
    pub fn missed(&self) -> bool {
        self.promise.is_some_and(|promise| self.latency() > promise)
    }
}

/// Why an input was refused; the engine's state is as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InputError {
    /// The scheduler refused it.
    Configure(ConfigureError),
    /// No outstanding request has this ticket.
    UnknownTicket(Ticket),
}

/// The engine. Feed it with [`Engine::handle_input`], then drain [`Engine::poll_output`] until it
/// gives `None`.
///
/// ```text
///  Arrival ──> groups [ members ]            of a member: its group's flow is what counts (group.rs)
///                 v
///              flows [ promise, meter ]      by flow number: was it inside its envelope?
///                 │ request + promise
///                 v
///             scheduler ──> slots [ generation, request in flight ]   `depth` of them
///                              │  free: [ slot, slot, ... ]            a ticket = slot, generation
///  Completion(ticket) ─────────┘
///                 └──> replies [ record, ... ] ──> Reply              at most `depth` of them
/// ```
///
/// The meter is the engine's own and not the scheduler's, so that the same arrivals are promised the
/// same under every scheduler. Time never goes back: an instant before one already seen counts as
/// that one. A refused input changes nothing, not even the clock.
pub struct Engine {
    scheduler: Box<dyn Scheduler + Send>,
    flows: Vec<Option<Flow>>,
    /// Judge flows of several classes, by flow number; as long as the last one of these needs.
    cascades: Vec<Option<Box<Cascade>>>,
    groups: Groups,
    /// Of flows that have ever come with counts: those of their waiting requests, in order of arrival.
    counts: BTreeMap<FlowId, VecDeque<Elsewhere>>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    depth: u32,
    outstanding: u32,
    /// Requests in the scheduler, and places of groups.
    waiting: usize,
    replies: VecDeque<Record>,
    timeout: Option<Time>,
    now: Time,
}

/// A configured flow, on a cache line of its own.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Flow {
    slo: Slo,
    /// Judges a flow of one class by its σ and ρ: every arrival takes its cost, as pClock has it. At rest for a flow
    /// of several classes: [`Engine::cascades`].
    meter: Level,
}

const _: () = assert!(size_of::<Option<Flow>>() <= 64, "an idle flow stays small");

/// A place at the store.
#[derive(Clone, Copy, Debug)]
struct Slot {
    generation: u32,
    in_flight: Option<InFlight>,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    request: Request,
    /// As which the scheduler knows its flow: of a member, the group; [`NOBODY`] if it went without a place.
    scheduled: FlowId,
    arrival: Time,
    dispatch: Time,
    promise: Option<Span>,
    class: Option<u8>,
}

/// The flow of a request of which the scheduler has not been told that it went: no flow has this number.
const NOBODY: FlowId = FlowId(u32::MAX);
const _: () = assert!(NOBODY.0 > FlowId::MAX.0);

/// The ticket of a place that nothing took.
const NO_TICKET: Ticket = Ticket { slot: u32::MAX, generation: 0 };

impl Engine {
    /// An engine that keeps at most `depth` requests outstanding at the store. Takes memory for
    /// `depth` of them at once.
    #[must_use]
    pub fn new(scheduler: Box<dyn Scheduler + Send>, depth: NonZeroU32) -> Self {
        let mut engine = Self {
            scheduler,
            flows: Vec::new(),
            cascades: Vec::new(),
            groups: Groups::default(),
            counts: BTreeMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            depth: 0,
            outstanding: 0,
            waiting: 0,
            replies: VecDeque::new(),
            timeout: None,
            now: Time::ZERO,
        };
        engine.set_depth(depth);
        engine
    }

    /// Takes in one event at `now`.
    ///
    /// # Errors
    /// If the flow or ticket is unknown or the scheduler refuses a promise; nothing has changed then.
    pub fn handle_input(&mut self, now: Time, input: Input) -> Result<(), InputError> {
        let now = self.now.max(now);
        match input {
            Input::Arrival(request) => self.on_arrival(now, request, None)?,
            Input::CountedArrival(request, elsewhere) => self.on_arrival(now, request, Some(elsewhere))?,
            Input::Completion(completion) => self.on_completion(now, &completion)?,
            Input::Timeout => {}
            Input::Add(flow, _) if self.slo(flow).is_some() => {
                return Err(ConfigureError::FlowExists(flow).into());
            }
            Input::Add(flow, slo) | Input::Configure(flow, slo) => self.configure(now, flow, slo)?,
            Input::Join(flow, membership) => self.join(now, flow, membership)?,
            Input::Remove(flow) => self.remove(now, flow)?,
        }
        self.now = now;
        self.timeout = None;
        Ok(())
    }

    /// The next thing to do at `now`: replies first, then submissions while fewer than the
    /// dispatch depth are outstanding.
    pub fn poll_output(&mut self, now: Time) -> Option<Output> {
        self.now = self.now.max(now);
        self.timeout = None;
        if let Some(record) = self.replies.pop_front() {
            return Some(Output::Reply(record));
        }
        if !self.groups.is_empty() {
            return self.poll_among_groups().map(Output::Submit);
        }
        if self.outstanding >= self.depth || self.waiting == 0 {
            return None;
        }
        match self.scheduler.poll_dispatch(self.now) {
            Decision::Dispatch(dispatch) => self.submit(dispatch.request.flow, &dispatch).map(Output::Submit),
            Decision::WaitUntil(instant) => {
                self.timeout = Some(self.timeout.map_or(instant, |due| due.min(instant)));
                None
            }
            Decision::Blocked | Decision::Idle => None,
        }
    }

    /// The next reply, without submitting anything: for a driver whose store has no room just now although
    /// fewer than the dispatch depth are outstanding. Once it has, [`Engine::poll_output`] goes on.
    pub fn poll_reply(&mut self) -> Option<Record> {
        self.replies.pop_front()
    }

    /// When to call [`Engine::handle_input`] with [`Input::Timeout`], if the scheduler or the limit of a
    /// member waits for an instant. Known once [`Engine::poll_output`] has given `None`.
    #[must_use]
    pub const fn poll_timeout(&self) -> Option<Time> {
        self.timeout
    }

    /// Requests at the store now.
    #[must_use]
    pub const fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Requests of `flow` that wait; of a group, those of all its members.
    #[must_use]
    pub fn backlog(&self, flow: FlowId) -> usize {
        let member = self.groups.backlog(flow);
        member.unwrap_or_else(|| self.groups.waiting_in(flow, self.scheduler.backlog(flow)))
    }

    /// Requests of all flows that wait.
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.groups.waiting(self.waiting)
    }

    /// The name of the scheduler inside.
    pub fn scheduler_name(&self) -> &'static str {
        self.scheduler.name()
    }

    /// What `flow` is promised, a member what its group is; `None` for an unknown flow.
    #[must_use]
    pub fn slo(&self, flow: FlowId) -> Option<&Slo> {
        let flow = self.groups.group_of(flow).unwrap_or(flow);
        self.flows.get(flow.index())?.as_ref().map(|known| &known.slo)
    }

    /// How `flow` belongs to a group; `None` if it does not.
    #[must_use]
    pub fn membership(&self, flow: FlowId) -> Option<Membership> {
        self.groups.membership(flow)
    }

    /// All flows that have a promise of their own, groups among them, by number.
    pub fn flows(&self) -> impl Iterator<Item = (FlowId, &Slo)> {
        let numbered = (0..).map(FlowId).zip(&self.flows);
        numbered.filter_map(|(flow, known)| Some((flow, &known.as_ref()?.slo)))
    }

    /// How many requests may be outstanding at the store.
    #[must_use]
    pub const fn depth(&self) -> u32 {
        self.depth
    }

    /// Changes how many requests may be outstanding. If more are now, nothing is submitted until
    /// enough of them are completed; their tickets stay good, with slots at or above the new depth.
    pub fn set_depth(&mut self, depth: NonZeroU32) {
        self.depth = depth.get();
        let length = self.slots.len().max(self.depth as usize);
        self.slots.resize(length, Slot { generation: 0, in_flight: None });
        self.free.clear();
        self.free.reserve(length);
        let vacant = |&slot: &u32| self.slots[slot as usize].in_flight.is_none();
        self.free.extend((0..self.depth).rev().filter(vacant));
        self.replies.reserve(length.saturating_sub(self.replies.len()));
    }

    /// Changes who gets the capacity that the promises leave over.
    ///
    /// # Errors
    /// [`ConfigureError::Unsupported`] if the scheduler inside knows no such choice.
    pub fn set_spare(&mut self, now: Time, spare: SpareCapacity) -> Result<(), ConfigureError> {
        let now = self.now.max(now);
        self.scheduler.set_spare(now, spare)?;
        self.now = now;
        Ok(())
    }

    /// Changes the scheduler. `successor` must be without flows; it gets every flow and every waiting
    /// request, in the order in which the old one would have dispatched them. They are tagged as if
    /// they arrived now; their records keep the arrival, and the promise, that they came with.
    ///
    /// # Errors
    /// If `successor` refuses a flow; the old scheduler stays in place, nothing has changed then.
    ///
    /// # Panics
    /// If a scheduler breaks its contract: the old one keeps requests back, or the new one refuses a
    /// request of a flow that it has accepted.
    pub fn replace_scheduler(
        &mut self,
        now: Time,
        mut successor: Box<dyn Scheduler + Send>,
    ) -> Result<(), ConfigureError> {
        let now = self.now.max(now);
        for (flow, slo) in self.flows() {
            successor.configure(now, flow, slo)?;
        }
        for (flow, known) in (0..).map(FlowId).zip(&self.flows) {
            match (self.cascades.get(flow.index()), known) {
                (Some(Some(cascade)), _) => successor.adopt(now, flow, cascade.buckets()),
                (_, Some(known)) => successor.adopt(now, flow, &[known.bucket()]),
                _ => {}
            }
        }
        let mut moved = 0;
        while let Some(dispatch) = self.scheduler.evict(now) {
            let Dispatch { request, arrival: arrived, promise, class, finish_tag: _ } = dispatch;
            let arrival = Arrival { request, arrived, promise, class };
            let accepted = match self.counts.get_mut(&request.flow).and_then(VecDeque::pop_front) {
                Some(elsewhere) => {
                    self.counts.entry(request.flow).or_default().push_back(elsewhere);
                    successor.on_arrival_counted(now, arrival, elsewhere)
                }
                None => successor.on_arrival(now, arrival),
            };
            assert!(accepted.is_ok(), "{} refused a flow that it had accepted", successor.name());
            moved += 1;
        }
        assert_eq!(moved, self.waiting, "{} kept requests back", self.scheduler.name());
        self.scheduler = successor;
        self.now = now;
        self.timeout = None;
        Ok(())
    }

    fn on_arrival(
        &mut self,
        now: Time,
        request: Request,
        elsewhere: Option<Elsewhere>,
    ) -> Result<(), InputError> {
        if self.groups.is_empty() {
            self.schedule(now, now, request, elsewhere)?;
            return Ok(());
        }
        self.on_arrival_among_groups(now, request, elsewhere)
    }

    #[inline(never)]
    fn on_arrival_among_groups(
        &mut self,
        now: Time,
        request: Request,
        elsewhere: Option<Elsewhere>,
    ) -> Result<(), InputError> {
        let admitted = self.groups.admit(now, request.flow, request.cost);
        if matches!(admitted, Admitted::Ordinary) {
            if self.groups.is_group(request.flow) {
                return Err(ConfigureError::IsGroup(request.flow).into());
            }
            self.schedule(now, now, request, elsewhere)?;
            return Ok(());
        }
        if self.groups.is_full() {
            return Err(ConfigureError::TooManyWaiting.into());
        }
        match admitted {
            Admitted::Released(group) => {
                let place = Request { id: self.groups.next_name(), flow: group, ..request };
                let (promise, class) = self.schedule(now, now, place, elsewhere)?;
                let arrival = Arrival { request, arrived: now, promise, class };
                self.groups.place(now, arrival, elsewhere);
            }
            _ => self.groups.hold(now, Arrival::new(now, request), elsewhere),
        }
        Ok(())
    }

    /// Gives the scheduler what members' limits no longer hold back.
    fn release_due(&mut self) {
        while let Some((group, name, arrival, elsewhere)) = self.groups.due(self.now) {
            let place = Request { id: name, flow: group, ..arrival.request };
            if self.schedule(self.now, arrival.arrived, place, elsewhere).is_err() {
                // As many wait as the scheduler can hold: the next poll tries again.
                return;
            }
            self.groups.release_due(self.now);
        }
    }

    /// Hands a request to the scheduler, metered, and with its promise and class if it arrives now: what has
    /// been held back is promised nothing. Returns the two.
    #[inline(always)]
    fn schedule(
        &mut self,
        now: Time,
        arrived: Time,
        request: Request,
        elsewhere: Option<Elsewhere>,
    ) -> Result<(Option<Span>, Option<u8>), ConfigureError> {
        let flow = request.flow;
        let known = self.flows.get_mut(flow.index()).and_then(Option::as_mut);
        let known = known.ok_or(ConfigureError::UnknownFlow(flow))?;
        let mut meter = known.meter;
        let mut cascade = self.cascades.get_mut(flow.index()).and_then(Option::as_mut);
        let class = match &cascade {
            Some(cascade) => cascade.class_at(now, request.cost),
            None => known.judge(&mut meter, now, request.cost),
        };
        let class = class.filter(|_| arrived == now);
        let promise = class.and_then(|class| known.slo.classes().get(usize::from(class)));
        let promise = promise.map(|envelope| envelope.latency());
        let arrival = Arrival { request, arrived, promise, class };
        match elsewhere {
            Some(elsewhere) => self.scheduler.on_arrival_counted(now, arrival, elsewhere)?,
            None => self.scheduler.on_arrival(now, arrival)?,
        }
        known.meter = meter;
        if let Some(cascade) = &mut cascade {
            cascade.classify(now, request.cost);
        }
        if elsewhere.is_some() || !self.counts.is_empty() {
            self.count(flow, elsewhere);
        }
        self.waiting += 1;
        Ok((promise, class))
    }

    /// Keeps the counts of a request that has been taken in, for a scheduler that may take over.
    fn count(&mut self, flow: FlowId, elsewhere: Option<Elsewhere>) {
        if elsewhere.is_some() && !self.counts.contains_key(&flow) {
            let earlier = self.scheduler.backlog(flow).saturating_sub(1);
            self.counts.insert(flow, core::iter::repeat_n(Elsewhere::NOTHING, earlier).collect());
        }
        if let Some(counts) = self.counts.get_mut(&flow) {
            counts.push_back(elsewhere.unwrap_or_default());
        }
    }

    fn on_completion(&mut self, now: Time, completion: &Completion) -> Result<(), InputError> {
        let Ticket { slot, generation } = completion.ticket;
        let unknown = InputError::UnknownTicket(completion.ticket);
        let entry = self.slots.get_mut(slot as usize).filter(|entry| entry.generation == generation);
        let entry = entry.ok_or(unknown)?;
        let InFlight { request, scheduled, arrival, dispatch, promise, class } =
            entry.in_flight.take().ok_or(unknown)?;
        entry.generation = generation.wrapping_add(1);
        if slot < self.depth {
            self.free.push(slot);
        }
        self.outstanding -= 1;
        let outcome = completion.outcome;
        let record = Record { request, arrival, dispatch, completion: now, promise, class, outcome };
        self.replies.push_back(record);
        if scheduled == request.flow {
            self.scheduler.on_completion(now, &request, completion);
        } else if scheduled != NOBODY {
            self.scheduler.on_completion(now, &Request { flow: scheduled, ..request }, completion);
        }
        Ok(())
    }

    fn configure(&mut self, now: Time, flow: FlowId, slo: Slo) -> Result<(), InputError> {
        if flow > FlowId::MAX {
            return Err(ConfigureError::FlowOutOfRange(flow).into());
        }
        if self.groups.group_of(flow).is_some() {
            return Err(ConfigureError::IsMember(flow).into());
        }
        self.scheduler.configure(now, flow, &slo)?;
        table::cover(&mut self.flows, flow.index() + 1, None);
        self.configure_cascade(now, flow, &slo);
        let entry = &mut self.flows[flow.index()];
        *entry = Some(Flow::configured(entry.take(), now, slo));
        Ok(())
    }

    /// Gives `flow` the buckets of its classes if it has several, those that it had where they are the same.
    fn configure_cascade(&mut self, now: Time, flow: FlowId, slo: &Slo) {
        if slo.classes().len() > 1 {
            table::cover(&mut self.cascades, flow.index() + 1, None);
            let cascade = &mut self.cascades[flow.index()];
            let cascade = cascade.get_or_insert_with(|| Box::new(Cascade::new(now, slo.classes())));
            cascade.reconfigure(now, slo.classes());
        } else if let Some(cascade) = self.cascades.get_mut(flow.index()) {
            *cascade = None;
        }
    }

    fn join(&mut self, now: Time, flow: FlowId, membership: Membership) -> Result<(), InputError> {
        let group = membership.group;
        let own = |flow: FlowId| self.flows.get(flow.index()).is_some_and(Option::is_some);
        if flow > FlowId::MAX {
            return Err(ConfigureError::FlowOutOfRange(flow).into());
        } else if own(flow) {
            return Err(ConfigureError::FlowExists(flow).into());
        } else if !own(group) {
            return Err(ConfigureError::UnknownFlow(group).into());
        } else if !self.groups.is_group(group) && self.scheduler.backlog(group) > 0 {
            return Err(ConfigureError::Busy(group).into());
        }
        Ok(self.groups.join(now, flow, membership)?)
    }

    fn remove(&mut self, now: Time, flow: FlowId) -> Result<(), InputError> {
        if self.groups.group_of(flow).is_some() {
            return Ok(self.groups.leave(flow)?);
        }
        if self.groups.is_group(flow) {
            return Err(ConfigureError::IsGroup(flow).into());
        }
        if self.slo(flow).is_none() {
            return Err(ConfigureError::UnknownFlow(flow).into());
        }
        self.scheduler.remove(now, flow)?;
        self.flows[flow.index()] = None;
        if let Some(cascade) = self.cascades.get_mut(flow.index()) {
            *cascade = None;
        }
        self.counts.remove(&flow);
        Ok(())
    }

    /// [`Engine::poll_output`] where there are groups: of a group, whoever takes the place goes.
    #[inline(never)]
    fn poll_among_groups(&mut self) -> Option<Submission> {
        self.release_due();
        self.timeout = self.groups.next_due();
        if self.outstanding >= self.depth {
            return None;
        }
        let by_cost = self.scheduler.counts_cost();
        if let Some(dispatch) = self.groups.take_on_credit(by_cost) {
            return self.occupy(NOBODY, &dispatch);
        }
        while self.waiting > 0 {
            let place = match self.scheduler.poll_dispatch(self.now) {
                Decision::Dispatch(place) => place,
                Decision::WaitUntil(instant) => {
                    self.timeout = Some(self.timeout.map_or(instant, |due| due.min(instant)));
                    return None;
                }
                Decision::Blocked | Decision::Idle => return None,
            };
            let scheduled = place.request.flow;
            if !self.groups.is_group(scheduled) {
                return self.submit(scheduled, &place);
            }
            if let Some(chosen) = self.groups.take(&place, by_cost) {
                return self.submit(scheduled, &chosen);
            }
            // Nothing goes to the store in this place, so for the scheduler it is over.
            self.leave_queue(scheduled);
            let nothing = Completion::new(NO_TICKET, Outcome::Cancelled);
            self.scheduler.on_completion(self.now, &place.request, &nothing);
        }
        None
    }

    /// A request or place of `scheduled` has left the scheduler.
    fn leave_queue(&mut self, scheduled: FlowId) {
        if !self.counts.is_empty() {
            self.counts.get_mut(&scheduled).map(VecDeque::pop_front);
        }
        self.waiting -= 1;
    }

    fn submit(&mut self, scheduled: FlowId, dispatch: &Dispatch) -> Option<Submission> {
        self.leave_queue(scheduled);
        self.occupy(scheduled, dispatch)
    }

    /// Gives a dispatched request its slot. There is one, because fewer than `depth` are outstanding.
    fn occupy(&mut self, scheduled: FlowId, dispatch: &Dispatch) -> Option<Submission> {
        let slot = self.free.pop()?;
        let Dispatch { request, arrival, promise, class, finish_tag: _ } = *dispatch;
        let entry = &mut self.slots[slot as usize];
        entry.in_flight = Some(InFlight { request, scheduled, arrival, dispatch: self.now, promise, class });
        let ticket = Ticket { slot, generation: entry.generation };
        self.outstanding += 1;
        Some(Submission { ticket, request })
    }
}

impl Flow {
    /// The flow with `slo`, metered on from `old`. Between one class and several the meter starts
    /// anew: they are metered by different rules, and a level of the one means nothing to the other.
    fn configured(old: Option<Self>, now: Time, slo: Slo) -> Self {
        let old = old.filter(|old| old.slo.classes().len().min(2) == slo.classes().len().min(2));
        let (burst, _) = bound_of(&slo);
        let mut meter = Level::full(now, burst);
        if let Some(old) = old {
            let (old_burst, old_rate) = bound_of(&old.slo);
            meter = old.meter;
            meter.refill(now, old_burst, old_rate);
            meter.cut(burst);
        }
        Self { slo, meter }
    }

    /// What requests of one class are judged by.
    fn bucket(&self) -> TokenBucket {
        let (burst, rate) = bound_of(&self.slo);
        self.meter.bucket(burst, rate)
    }

    /// The class of a request of `cost` that arrives at `now`, if anything is promised to it. Counts
    /// it in `meter`, a copy of the flow's: the scheduler may still refuse the request.
    fn judge(&self, meter: &mut Level, now: Time, cost: Cost) -> Option<u8> {
        let envelope = self.slo.envelope()?;
        meter.arrive(now, cost, envelope.burst(), envelope.rate()).then_some(0)
    }
}

/// σ and ρ of a flow that is judged by one bucket; none of either for a background flow.
fn bound_of(slo: &Slo) -> (Cost, Rate) {
    slo.envelope().map_or((Cost::ZERO, Rate::default()), |envelope| (envelope.burst(), envelope.rate()))
}

impl From<ConfigureError> for InputError {
    fn from(error: ConfigureError) -> Self {
        Self::Configure(error)
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configure(error) => error.fmt(f),
            Self::UnknownTicket(ticket) => {
                write!(f, "no outstanding request has ticket {}/{}", ticket.slot, ticket.generation)
            }
        }
    }
}

impl core::error::Error for InputError {}
