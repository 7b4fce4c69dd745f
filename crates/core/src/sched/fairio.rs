//! FAIRIO: disk time shared by weight, cycle by cycle, whatever a request costs the disks.
//!
//! Source: Arunagiri, Kwok, Teller, Portillo, Seelam, "FAIRIO: An Algorithm for Differentiated I/O
//! Performance", section II (steps 1 to 5 and the three optimizations); numbers in section III-D.
//!
//! ```text
//!  flows    [ role, weight, queue, at the store ]        by flow number
//!               │ seat                └──> lists through one slab (queue.rs)
//!  members  [ share, credit, used, window sum | ... ]    the active classes only (fairio_member.rs)
//!               │ something waits
//!  heads    [ with credit | without ]   heap.rs          by the oldest request of each; smallest: dispatched next
//!                                                                                      O(log flows)
//!  history    r columns of a charge per member; a column is one cycle, or short ones that add up to it
//!             [ charged | charged | ... | now ]     the window sum is kept, not summed up (fairio_history.rs)
//!
//!  ──┬───────────── cycle ─────────────┬────── short ──────┬───────> time
//!    share -> credit -> used ... used  │ under-loaded and  │
//!    step 3    step 4    step 5        │ nobody may go     │
//!                                      └ charge (step 1), deviate (step 2), share again
//! ```
//!
//! **Law.** Over many cycles each class that always has requests waiting gets disk time in proportion
//! to its weight. What a class leaves unused goes to the others and is owed to nobody. A store with
//! fewer than `load_threshold` requests is never kept waiting while a request waits.
//!
//! An event costs O(log flows); the turn of a cycle (fairio_turn.rs) costs O(active classes), as in the paper, and
//! comes no more often than that many requests are completed, or an eighth of that sent (deviations 14 and 15): an
//! amortised O(log flows) for a request. A class is active from a request's arrival until it has had none for a whole
//! window, r cycles.
//!
//! Deviations and choices, each where the paper is silent or its words do not work:
//! 1. *Short cycles.* A cycle that was cut short (or noticed late) is judged against the part of
//!    ServiceShare that its length bears to a full cycle; Service_window is what the window's cycles
//!    really offered. Short cycles share a column until they add up to a full cycle, so that the window
//!    takes bounded room and spans more than r − 1 and at most about r full cycles.
//! 2. *Step 1, "no pending requests in the driver or RAID".* A class that has had requests waiting in all of the cycle
//!    is owed its whole unused share. Another is owed at most what 8 times its pending requests would have taken (a
//!    closed loop renews them in a cycle); the rest of its unused share it is charged, as if it were idle. The
//!    paper's two cases are the ends of that. Otherwise one request that waits by chance at the end of a
//!    cycle would earn a whole share, and a light class claim seconds of the array when it grows.
//!    Requests at the store are pending only if the class is out of credit: with credit, nothing
//!    keeps it from sending more.
//! 3. *Step 1, spare time.* The paper forgives a class all that it used above its share if no class
//!    with requests pending fell short. In short cycles one request decides that by chance, and the
//!    forgiven time would be charged to nobody. Here exactly the time that idle classes were charged for
//!    and did not use, less what pending classes fell short, is forgiven, in proportion to the excess:
//!    the paper's two cases are the ends of that scale.
//! 4. *Service_window* is 17/16 of what was charged in the window's cycles, and not what they offered.
//!    On an array that is 80 % busy the rest was nobody's: were it counted, all would seem under-serviced, and
//!    cycles of two equal classes would settle at 52:48. On one that is always busy deviations would add
//!    up to 0, so that whoever is behind by a little gets the whole cycle: two equal classes beside a
//!    light one swing to 53:44 over minutes. Only if more than 17/16 of what was offered has been
//!    charged, that is, if there are more disks than was said, all may be above their share, and
//!    what was offered counts (proportional mode).
//!    *Estimated* time is charged as if no disk were idle beside as many requests, so an array that has had
//!    more of them within the window is always busy by it; there Service_window
//!    is at most what was offered, and classes do swing. That is the lesser evil: the estimate charges
//!    requests for the time that they wait in the store behind others, and only while a class has a cycle to
//!    itself it charges the right one. With the margin, shares of equally slow classes keep within 0.2
//!    points instead of 4.6 over 30 cycles, but those of classes of different speed are off by 5.1
//!    points instead of 2.4 over 100 cycles, the mean of 40 random arrays.
//! 5. *Proportional mode near 0.* Deviations within 2⁻²⁰ of Service_window (or r ns) count as 0: they
//!    are rounding. Above that 1/deviation is in units of 2⁻⁷².
//! 6. *Credits are rounded up*: a share of less than one request is one request, paid for later.
//! 7. *Class threshold.* A class that cannot send the threshold lends its share, and so does a class
//!    without requests; "more than" is "at least" (with the default 1 it would shut out depth 1). If
//!    nobody reaches it, it is waived, and if all who have requests have a share of 0 they share by
//!    weight. A lender without requests keeps its credits for the case that it comes back.
//! 8. *Fast-forwarding* when the store is under-loaded **and** nothing can be dispatched **and** requests
//!    wait; with "or", every cycle would end at once. What idle classes do not use is then lent to those
//!    who wait. No cycle is of length 0.
//! 9. *Failed attempts.* Each arrival and each completion is one attempt; a poll without an eligible
//!    request fails all that are left. The driver's dispatch depth is respected besides.
//! 10. *TimePerRequest* is over the last full cycle; short ones are added to the one before them.
//! 11. Estimated accounting charges as time passes (whom: disk_time.rs, line.rs), reported at completion (step 5).
//! 12. A changed weight counts as a change of the active set, and so does a stall: if the store has completed nothing
//!     for a whole window, what the window holds is no measure of those after it. New classes wait for the next
//!     cycle, or for the store to be under-loaded.
//! 13. Background flows (not in the paper) go, by weight, when no class has a request waiting; their
//!     disk time is charged to nobody. Costs mean nothing to classes: the metric is disk time.
//! 14. *A cycle lasts* until as many requests have been completed in it as there are active classes, if that
//!     takes longer than its time. With fewer than one for each class there is nothing to share: every class
//!     has a credit at least (choice 6). Such a cycle is a long one (choice 1). It keeps nobody waiting
//!     whom fast-forwarding would let go.
//! 15. *A cycle is cut short* only if a request has gone in it for every 8 active classes. Before that, what
//!     fast-forwarding would let go in a new cycle goes in this one, the oldest request first, without credit;
//!     it is charged like any other. Where a few classes of many are busy they have used up the service of
//!     a cycle after few requests.
//!
//! Scale: disk time in ns; a cycle offers at most 2⁵⁴ ns (an hour, 4096 disks), so products of two
//! shares stay below 2¹⁰⁸, and those with 1/deviation below 2¹²⁷. Charges saturate at 2⁶⁴ ns, 584 years,
//! per window, and the requests that TimePerRequest is the mean of at 2³² of a class in a cycle.

use alloc::vec::Vec;

use super::disk_time::{Charges, DiskClock};
use super::fair::FairShare;
pub use super::fairio_config::{Accounting, FairioClass, FairioConfig, FairioConfigError};
use super::fairio_history::History;
use super::fairio_member::Members;
use super::fairio_turn::{Ended, Moves, Yardstick};
use super::line::Line;
use super::{Arrival, ConfigureError, Decision, Dispatch, Scheduler};
use crate::heap::{FlowHeap, Key};
use crate::packed::Packed;
use crate::queue::{Fifo, Slab, Waiting};
use crate::request::{Completion, FlowId, Outcome, Request};
use crate::slo::Slo;
use crate::units::{Span, Time, Weight};
use crate::{table, work};

/// "Not active".
const NO_SEAT: u32 = u32::MAX;

/// Active classes that a request pays for when the cycle in which it went is cut short (deviation 15).
const CLASSES_PAID: usize = 8;

/// The FAIRIO scheduler.
#[derive(Clone, Debug)]
pub struct Fairio {
    config: FairioConfig,
    flows: Vec<Flow>,
    slab: Slab,
    /// Classes with requests waiting, by their oldest one: those with credit under `tag`, those without under the next
    /// one.
    heads: FlowHeap,
    tag: u64,
    fair: FairShare,
    clock: DiskClock,
    /// Who is served, for [`Accounting::Queued`].
    line: Line,
    members: Members,
    history: History,
    /// What deviations were measured by when the cycle began.
    yardstick: Option<Yardstick>,
    /// Whether the active set has changed in this cycle.
    changed: bool,
    running: bool,
    cycle_start: Time,
    /// Requests of classes sent in this cycle, and requests completed.
    sent: usize,
    completed: usize,
    /// Requests of classes that wait.
    waiting: usize,
    attempts: u64,
    failed: u64,
    evicting: bool,
    sequence: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Absent,
    Class,
    Background,
}

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Flow {
    role: Role,
    seat: u32,
    /// Requests at the store; it outlives a removal until they are completed.
    pub(super) outstanding: u32,
    pub(super) queue: Fifo,
    weight: Weight,
    virtual_finish: Packed<u128>,
    /// TimePerRequest, in ns, of a class that is not active.
    pub(super) time_per_request: u64,
}

const _: () = assert!(size_of::<Flow>() == 64, "one cache line");

impl Fairio {
    /// A scheduler without flows.
    ///
    /// # Errors
    /// If a parameter is outside its range.
    pub fn new(config: FairioConfig) -> Result<Self, FairioConfigError> {
        config.check()?;
        let charges = match config.accounting {
            Accounting::Reported => Charges::Reported,
            Accounting::Estimated => Charges::All,
            Accounting::Queued => Charges::Served,
        };
        Ok(Self {
            config,
            flows: Vec::new(),
            slab: Slab::new(),
            heads: FlowHeap::default(),
            tag: 0,
            fair: FairShare::default(),
            clock: DiskClock::new(config.disks, charges),
            line: Line::new(config.disks),
            members: Members::default(),
            history: History::new(&config),
            yardstick: None,
            changed: false,
            running: false,
            cycle_start: Time::ZERO,
            sent: 0,
            completed: 0,
            waiting: 0,
            attempts: 0,
            failed: 0,
            evicting: false,
            sequence: 0,
        })
    }

    /// Its parameters.
    #[must_use]
    pub const fn config(&self) -> &FairioConfig {
        &self.config
    }

    /// When the current cycle began.
    #[must_use]
    pub const fn cycle_start(&self) -> Time {
        self.cycle_start
    }

    /// Where an active class stands; `None` for any other flow.
    #[must_use]
    pub fn class(&self, flow: FlowId) -> Option<FairioClass> {
        let known = self.flows.get(flow.index())?;
        let member = self.members.get(known.seat)?;
        let (standing, past) =
            (&self.members.standings[known.seat as usize], &self.members.pasts[known.seat as usize]);
        Some(FairioClass {
            share: standing.share,
            granted: member.granted,
            credit: member.credit,
            used: member.used(&self.clock),
            charged: past.charged,
            deviation: self.yardstick.map_or(0, |yardstick| yardstick.deviation(standing)),
            time_per_request: member.time_per_request,
        })
    }

    fn known(&self, flow: FlowId) -> Result<Role, ConfigureError> {
        match self.flows.get(flow.index()) {
            Some(known) if known.role != Role::Absent => Ok(known.role),
            _ => Err(ConfigureError::UnknownFlow(flow)),
        }
    }

    fn is_under_loaded(&self) -> bool {
        self.clock.outstanding() < self.config.load_threshold
    }

    /// r full cycles.
    const fn window(&self) -> Span {
        Span::from_nanos(self.config.cycle.as_nanos().saturating_mul(self.config.window_cycles as u64))
    }

    fn cycle_end(&self) -> Time {
        self.cycle_start + self.config.cycle
    }

    /// Makes `flow` an active class.
    fn join(&mut self, id: FlowId) {
        let flow = &mut self.flows[id.index()];
        if flow.seat == NO_SEAT {
            flow.seat = self.members.len() as u32;
            self.members.push(id, flow, self.line.served(id), &self.clock);
            self.history.seat(self.members.len());
            self.changed = true;
        }
    }

    /// Takes `flow` out of the active set. Columns of the history are mixed up then: they are cleared before
    /// anybody looks at them, because the set has changed.
    fn leave(&mut self, id: FlowId) {
        let flow = &mut self.flows[id.index()];
        let seat = core::mem::replace(&mut flow.seat, NO_SEAT);
        if let Some(member) = self.members.get(seat) {
            flow.time_per_request = member.time_per_request;
            if let Some(moved) = self.members.swap_remove(seat) {
                self.flows[moved.index()].seat = seat;
            }
            self.heads.remove(id);
            self.changed = true;
        }
    }

    /// Puts the oldest request of a class where it belongs: to those that may go, to those that wait for
    /// credit, or nowhere.
    #[inline(always)]
    fn rekey(&mut self, id: FlowId) {
        let flow = &self.flows[id.index()];
        let Some(member) = self.members.get_mut(flow.seat) else { return };
        member.waiting = flow.queue.len() as u32;
        member.kept_waiting &= member.waiting > 0;
        match flow.queue.front(&self.slab) {
            Some(head) => {
                let tag = self.tag + u64::from(member.credit == 0);
                member.tag = tag as u8;
                self.heads.set(id, Key { tag: tag.into(), sequence: head.sequence });
            }
            None => _ = self.heads.remove(id),
        }
    }

    /// Step 5: whether the class has used up its share; its credits are revoked then.
    #[inline(always)]
    fn revoke(&mut self, id: FlowId) -> bool {
        let seat = self.flows[id.index()].seat;
        let Some(member) = self.members.get_mut(seat) else { return false };
        let spent = member.used(&self.clock) >= member.granted;
        if spent && member.credit > 0 {
            member.credit = 0;
            if member.waiting > 0 {
                self.rekey(id);
            }
        }
        spent
    }

    /// The class whose request goes next.
    #[inline(always)]
    fn candidate(&mut self) -> Option<FlowId> {
        loop {
            let (key, flow) = self.heads.peek()?;
            if key.tag > self.tag.into() {
                return None;
            }
            if !self.revoke(flow) {
                return Some(flow);
            }
        }
    }

    fn serve_class(&mut self, id: FlowId) -> Decision {
        let flow = &mut self.flows[id.index()];
        let Some(waiting) = flow.queue.pop(&mut self.slab) else { return Decision::Idle };
        let member = &mut self.members.members[flow.seat as usize];
        member.credit = member.credit.saturating_sub(1);
        self.enter_store(id);
        self.waiting -= 1;
        self.sent += 1;
        match self.attempts.checked_sub(1) {
            Some(left) => self.attempts = left,
            None => self.failed = self.failed.saturating_sub(1),
        }
        self.rekey(id);
        Decision::Dispatch(waiting.dispatch(None))
    }

    /// A request of the flow goes to the store.
    #[inline(always)]
    fn enter_store(&mut self, id: FlowId) {
        self.clock.enter();
        let flow = &mut self.flows[id.index()];
        flow.outstanding += 1;
        if let Some(member) = self.members.get_mut(flow.seat) {
            member.outstanding = flow.outstanding;
            if self.clock.charges() != Charges::Served {
                member.used.enter(&self.clock);
            }
        }
        if self.clock.charges() == Charges::Served {
            let served = self.line.enter(id);
            self.begin_service(served);
        }
    }

    /// One of them is done, which its class has been charged for up to now.
    #[inline(always)]
    fn leave_store(&mut self, id: FlowId) {
        self.clock.leave();
        if self.clock.charges() == Charges::Served {
            let (was_served, next) = self.line.leave(id);
            let seat = self.flows.get(id.index()).map_or(NO_SEAT, |flow| flow.seat);
            if was_served && let Some(member) = self.members.get_mut(seat) {
                member.served -= 1;
                member.used.leave(&self.clock);
            }
            self.begin_service(next);
        }
    }

    /// The store works on one more request of this flow.
    fn begin_service(&mut self, of: Option<FlowId>) {
        let seat = of.map_or(NO_SEAT, |flow| self.flows[flow.index()].seat);
        if let Some(member) = self.members.get_mut(seat) {
            member.served += 1;
            member.used.enter(&self.clock);
        }
    }

    fn pop_background(&mut self) -> Option<Waiting> {
        let id = self.fair.next()?;
        let flow = &mut self.flows[id.index()];
        let waiting = flow.queue.pop(&mut self.slab)?;
        let successor = flow.queue.front(&self.slab).map(|next| next.sequence);
        flow.virtual_finish = Packed(self.fair.serve(waiting.cost, flow.weight, successor));
        Some(waiting)
    }

    fn serve_background(&mut self) -> Decision {
        let Some(waiting) = self.pop_background() else { return Decision::Idle };
        self.enter_store(waiting.flow);
        Decision::Dispatch(waiting.dispatch(None))
    }

    /// Begins a new cycle if this one is over.
    #[inline(always)]
    fn catch_up(&mut self) {
        if self.running && self.clock.now() >= self.cycle_end() {
            self.catch_up_late();
        }
    }

    /// The same after its time. Time in which nothing waited and nothing was at the store belongs to no cycle.
    fn catch_up_late(&mut self) {
        let (now, idle) = (self.clock.now(), self.waiting == 0 && self.clock.outstanding() == 0);
        if self.completed >= self.members.len() {
            let until = if idle { self.cycle_end() } else { now };
            self.turn(until.since(self.cycle_start).as_nanos(), false);
        } else if idle {
            let cycle = self.config.cycle.as_nanos();
            self.cycle_start = Time::from_nanos(now.as_nanos().saturating_sub(cycle));
        }
    }

    /// Ends the cycle, of length `elapsed`, and begins the next. `forward` if it was cut short.
    fn turn(&mut self, elapsed: u64, forward: bool) {
        let (cycle, window) = (self.config.cycle.as_nanos(), self.window());
        let entry = self.history.advance(elapsed);
        let history = (!self.changed).then_some(&mut self.history);
        if self.members.charge(&Ended { clock: &self.clock, elapsed, cycle, window }, history, entry) {
            self.retire(window);
        }
        (self.cycle_start, self.sent, self.completed) = (self.clock.now(), 0, 0);
        self.running = !self.members.is_empty();
        if self.running {
            self.begin(forward);
        }
    }

    /// Steps 2 to 4, and the batch on failed attempts.
    fn begin(&mut self, forward: bool) {
        if self.changed {
            self.changed = false;
            work::steps(self.members.len());
            self.history.clear(self.members.len());
            self.members.begin_anew(|flow| self.flows[flow.index()].weight);
        }
        let busy = self.config.accounting == Accounting::Estimated && self.clock.was_crowded(self.window());
        let yardstick = self.members.yardstick(&self.config, &self.history, busy);
        let moves = self.members.share(&self.config, &self.clock, &yardstick, forward, self.tag as u8);
        self.yardstick = Some(yardstick);
        self.place(moves);
        let room = self.config.load_threshold.saturating_sub(self.clock.outstanding());
        let batch = self.failed.min(u64::from(room));
        self.failed -= batch;
        self.attempts += batch;
    }

    /// Classes without a request for a whole window leave the active set.
    fn retire(&mut self, window: Span) {
        work::steps(self.members.len());
        for seat in (0..self.members.len()).rev() {
            let member = &self.members.members[seat];
            if member.is_idle() && self.clock.now().since(member.idle_since) >= window {
                self.leave(self.members.standings[seat].flow);
            }
        }
    }

    /// Puts classes that wait with those that have credit, or have none any more. If most of those that wait have got
    /// it, as after a cycle in which all have used up theirs, the tags of both move on instead, and those that would
    /// have kept theirs are put anew.
    fn place(&mut self, moves: Moves) {
        let Moves { stay_eligible, regain, lose, stay_parched } = moves;
        let most = regain > stay_eligible + stay_parched;
        let moved = lose + if most { stay_eligible + stay_parched } else { regain };
        self.tag += u64::from(most);
        if moved == 0 {
            return;
        }
        work::steps(self.members.len());
        for seat in 0..self.members.len() {
            let member = &self.members.members[seat];
            let tag = self.tag + u64::from(member.credit == 0);
            if member.waiting > 0 && member.tag != tag as u8 {
                self.rekey(self.members.standings[seat].flow);
            }
        }
    }

    /// Makes room for `flow`.
    fn cover(&mut self, flow: FlowId) {
        let flows = flow.index() + 1;
        if flows > self.flows.len() {
            table::cover(&mut self.flows, flows, Flow::ABSENT);
            if self.config.accounting == Accounting::Queued {
                self.line.cover(flows);
            }
        }
    }

    fn configure_class(&mut self, id: FlowId, weight: Weight) {
        let flow = &mut self.flows[id.index()];
        if flow.role == Role::Class {
            self.changed |= flow.seat != NO_SEAT && flow.weight != weight;
            flow.weight = weight;
            return;
        }
        self.heads.cover(id.index() + 1);
        self.fair.withdraw(id);
        let waiting = flow.queue.len();
        let time_per_request = self.config.first_request.as_nanos();
        *flow = Flow { role: Role::Class, weight, time_per_request, ..flow.emptied() };
        self.waiting += waiting;
        self.attempts += waiting as u64;
        if waiting > 0 {
            self.join(id);
            self.rekey(id);
        }
    }

    fn configure_background(&mut self, id: FlowId, weight: Weight) {
        if self.flows[id.index()].role == Role::Background {
            self.flows[id.index()].weight = weight;
            return;
        }
        self.leave(id);
        self.fair.cover(id.index() + 1);
        let flow = &mut self.flows[id.index()];
        self.waiting -= flow.queue.len();
        *flow = Flow { role: Role::Background, weight, ..flow.emptied() };
        if let Some(head) = flow.queue.front(&self.slab) {
            self.fair.enter(id, 0, head.sequence);
        }
    }
}

impl Scheduler for Fairio {
    fn name(&self) -> &'static str {
        "fairio"
    }

    fn configure(&mut self, now: Time, flow: FlowId, slo: &Slo) -> Result<(), ConfigureError> {
        if flow > FlowId::MAX {
            return Err(ConfigureError::FlowOutOfRange(flow));
        }
        self.clock.advance(now);
        self.cover(flow);
        if slo.is_background() {
            self.configure_background(flow, slo.weight());
        } else {
            self.configure_class(flow, slo.weight());
        }
        Ok(())
    }

    fn remove(&mut self, now: Time, flow: FlowId) -> Result<(), ConfigureError> {
        self.known(flow)?;
        if !self.flows[flow.index()].queue.is_empty() {
            return Err(ConfigureError::Busy(flow));
        }
        self.clock.advance(now);
        self.leave(flow);
        self.flows[flow.index()] = self.flows[flow.index()].emptied();
        Ok(())
    }

    fn on_arrival(&mut self, now: Time, arrival: Arrival) -> Result<(), ConfigureError> {
        let id = arrival.request.flow;
        let role = self.known(id)?;
        if self.slab.is_full() {
            return Err(ConfigureError::TooManyWaiting);
        }
        self.clock.advance(now);
        self.catch_up();
        let flow = &mut self.flows[id.index()];
        flow.queue.push(&mut self.slab, Waiting::new(arrival, self.sequence, 0));
        let (first, virtual_finish) = (flow.queue.len() == 1, flow.virtual_finish.0);
        if role == Role::Class {
            self.waiting += 1;
            self.attempts += 1;
            self.join(id);
            if first {
                self.rekey(id);
            } else if let Some(member) = self.members.get_mut(self.flows[id.index()].seat) {
                member.waiting += 1;
            }
        } else if first {
            self.fair.enter(id, virtual_finish, self.sequence);
        }
        self.sequence += 1;
        Ok(())
    }

    fn poll_dispatch(&mut self, now: Time) -> Decision {
        self.clock.advance(now);
        self.catch_up();
        if self.waiting == 0 {
            return self.serve_background();
        }
        if !self.running {
            // What was at the store before belongs to no cycle: nobody has used anything when one begins.
            (self.running, self.cycle_start, self.sent, self.completed) = (true, self.clock.now(), 0, 0);
            self.begin(false);
        }
        loop {
            let candidate = self.candidate();
            match candidate {
                Some(flow) if self.attempts > 0 => return self.serve_class(flow),
                Some(_) => {}
                None => self.failed = self.failed.saturating_add(core::mem::take(&mut self.attempts)),
            }
            let now = self.clock.now();
            let elapsed = now.since(self.cycle_start).as_nanos();
            if !self.is_under_loaded() {
                // A cycle whose time is over waits for completions.
                let ends = self.cycle_end();
                return if now < ends { Decision::WaitUntil(ends) } else { Decision::Blocked };
            }
            if self.members.len() > CLASSES_PAID * self.sent.max(1)
                && let Some(flow) = candidate.or_else(|| self.heads.peek().map(|(_, flow)| flow))
            {
                return self.serve_class(flow);
            }
            if elapsed == 0 {
                return Decision::WaitUntil(now + Span::from_nanos(1));
            }
            self.turn(elapsed, true);
        }
    }

    fn on_completion(&mut self, now: Time, request: &Request, completion: &Completion) {
        self.clock.advance(now);
        if let Some(flow) = self.flows.get_mut(request.flow.index()) {
            let was_out = flow.outstanding > 0;
            flow.outstanding -= u32::from(was_out);
            if let Some(member) = self.members.get_mut(flow.seat) {
                let cancelled = completion.outcome == Outcome::Cancelled;
                member.outstanding = flow.outstanding;
                if was_out && self.clock.charges() != Charges::Served {
                    member.used.leave(&self.clock);
                }
                if self.config.accounting == Accounting::Reported {
                    let unknown = if cancelled { 0 } else { member.time_per_request };
                    member.used.report(completion.service.unwrap_or(Span::from_nanos(unknown)));
                }
                member.completed = member.completed.saturating_add(u32::from(!cancelled));
                member.idle_since = self.clock.now();
                self.revoke(request.flow);
            }
        }
        self.changed |= self.clock.has_stalled(self.window());
        self.leave_store(request.flow);
        self.attempts = self.attempts.saturating_add(1);
        self.completed += 1;
        self.catch_up();
    }

    fn counts_cost(&self) -> bool {
        false
    }

    fn backlog(&self, flow: FlowId) -> usize {
        self.flows.get(flow.index()).map_or(0, |flow| flow.queue.len())
    }

    /// Oldest first, classes before background flows: credits decide about the store's time, and none of
    /// it is taken here.
    fn evict(&mut self, _now: Time) -> Option<Dispatch> {
        if !self.evicting {
            self.evicting = true;
            for seat in 0..self.members.len() {
                self.members.members[seat].credit = u64::MAX;
                self.rekey(self.members.standings[seat].flow);
            }
        }
        if let Some((_, id)) = self.heads.peek() {
            let waiting = self.flows[id.index()].queue.pop(&mut self.slab)?;
            self.waiting -= 1;
            self.rekey(id);
            return Some(waiting.dispatch(None));
        }
        let waiting = self.pop_background();
        if waiting.is_none() {
            (self.evicting, self.running, self.changed) = (false, false, true);
        }
        waiting.map(|waiting| waiting.dispatch(None))
    }
}

impl Flow {
    const ABSENT: Self = Self {
        role: Role::Absent,
        seat: NO_SEAT,
        outstanding: 0,
        queue: Fifo::EMPTY,
        weight: Weight::ONE,
        virtual_finish: Packed(0),
        time_per_request: 1,
    };

    /// Nothing but the requests that wait and that are at the store.
    const fn emptied(&self) -> Self {
        Self { outstanding: self.outstanding, queue: self.queue, ..Self::ABSENT }
    }
}
