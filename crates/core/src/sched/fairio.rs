//! FAIRIO: disk time shared by weight, cycle by cycle, whatever a request costs the disks.
//!
//! Source: Arunagiri, Kwok, Teller, Portillo, Seelam, "FAIRIO: An Algorithm for Differentiated I/O
//! Performance", section II (steps 1 to 5 and the three optimizations); numbers in section III-D.
//!
//! ```text
//!  flows    [ role, weight, queue, at the store ]        by flow number
//!               │ seat                └──> lists through one slab (queue.rs)
//!  members  [ share, credit, used, window sum | ... ]    the active classes only
//!               │ credit > 0 and something waits
//!  eligible [ oldest request of each | ... ]   heap.rs   smallest: dispatched next    O(log flows)
//!
//!  history    one row per member, r columns; a column is one cycle, or short ones that add up to it
//!             [ charged | charged | ... | now ]     the window sum is kept, not summed up
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
//! An event costs O(log flows); the turn of a cycle costs O(active classes), as in the paper, and comes no
//! more often than that many requests are completed, or an eighth of that sent (deviations 14 and 15): an amortised
//! O(log flows) for a request. A
//! class is active from a request's arrival until it has had none for a whole window, r cycles.
//!
//! Deviations and choices, each where the paper is silent or its words do not work:
//! 1. *Short cycles.* A cycle that was cut short (or noticed late) is judged against the part of
//!    ServiceShare that its length bears to a full cycle; Service_window is what the window's cycles
//!    really offered. Short cycles share a column until they add up to a full cycle, so that the window
//!    takes bounded room and spans more than r − 1 and at most about r full cycles.
//! 2. *Step 1, "no pending requests in the driver or RAID".* A class is owed at most what 8 times its
//!    pending requests would have taken (a closed loop renews them in a cycle); the rest of its unused share it is charged, as if it were idle. The
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
//!     for a whole window, what the window holds is no measure of those after it. New classes wait for the next cycle, or
//!     for the store to be under-loaded.
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
//! shares stay below 2¹⁰⁸, and those with 1/deviation below 2¹²⁷. Charges saturate at 2⁶⁴ per column.

use alloc::vec::Vec;

use super::disk_time::{DiskClock, DiskTime};
use super::fair::FairShare;
pub use super::fairio_config::{Accounting, FairioClass, FairioConfig, FairioConfigError};
use super::fairio_history::History;
use super::fairio_member::{Member, divide, magnitude};
use super::line::Line;
use super::{Arrival, ConfigureError, Decision, Dispatch, Scheduler};
use crate::heap::{FlowHeap, Key};
use crate::queue::{Fifo, Slab, Waiting};
use crate::request::{Completion, FlowId, Outcome, Request};
use crate::slo::Slo;
use crate::units::{Span, Time, Weight};
use crate::{table, work};

/// "Not active".
const NO_SEAT: u32 = u32::MAX;

/// Numerator of 1/deviation.
const INVERSE: u128 = 1 << 72;

/// Deviations within this part of the window, as a shift, are rounding.
const TOLERANCE_BITS: u32 = 20;

/// How far Service_window is above what was charged in it, as a shift (deviation 4).
const SLACK_BITS: u32 = 4;

/// Active classes that a request pays for when the cycle in which it went is cut short (deviation 15).
const CLASSES_PAID: usize = 8;

/// Times that a class can renew its pending requests within a cycle (deviation 2).
const TURNS: u64 = 8;

/// The FAIRIO scheduler.
#[derive(Clone, Debug)]
pub struct Fairio {
    config: FairioConfig,
    flows: Vec<Flow>,
    slab: Slab,
    eligible: FlowHeap,
    /// Classes with requests waiting and no credit, by their oldest request.
    parched: FlowHeap,
    fair: FairShare,
    clock: DiskClock,
    /// Who is served, for [`Accounting::Queued`].
    line: Line,
    members: Vec<Member>,
    history: History,
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
    now: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Absent,
    Class,
    Background,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    role: Role,
    seat: u32,
    /// Requests at the store; it outlives a removal until they are completed.
    outstanding: u32,
    queue: Fifo,
    weight: Weight,
    virtual_finish: u128,
    /// TimePerRequest, in ns.
    time_per_request: u64,
}

const _: () = assert!(size_of::<Flow>() <= 144, "an idle flow stays small");

impl Fairio {
    /// A scheduler without flows.
    ///
    /// # Errors
    /// If a parameter is outside its range.
    pub fn new(config: FairioConfig) -> Result<Self, FairioConfigError> {
        config.check()?;
        Ok(Self {
            config,
            flows: Vec::new(),
            slab: Slab::new(),
            eligible: FlowHeap::default(),
            parched: FlowHeap::default(),
            fair: FairShare::default(),
            clock: DiskClock::new(config.disks, config.accounting == Accounting::Queued),
            line: Line::new(config.disks),
            members: Vec::new(),
            history: History::new(&config),
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
            now: Time::ZERO,
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
        let member = self.members.get(known.seat as usize)?;
        Some(FairioClass {
            share: member.share,
            granted: member.granted,
            credit: member.credit,
            used: member.used.as_nanos(),
            charged: member.charged,
            deviation: member.deviation,
            time_per_request: known.time_per_request,
        })
    }

    fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
        self.clock.advance(self.now);
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
            table::reserve(&mut self.members, 1);
            self.members.push(Member::new(id, self.clock.mark(), self.now));
            self.history.seat(self.members.len());
            self.changed = true;
        }
    }

    /// Takes `flow` out of the active set. Rows of the history are mixed up then: they are cleared before
    /// anybody looks at them, because the set has changed.
    fn leave(&mut self, id: FlowId) {
        let seat = core::mem::replace(&mut self.flows[id.index()].seat, NO_SEAT);
        if seat != NO_SEAT {
            self.members.swap_remove(seat as usize);
            if let Some(moved) = self.members.get(seat as usize) {
                self.flows[moved.flow.index()].seat = seat;
            }
            self.eligible.remove(id);
            self.parched.remove(id);
            self.changed = true;
        }
    }

    /// Charges the class in `seat` up to now.
    fn settle(&mut self, seat: u32) {
        if let Some(member) = self.members.get_mut(seat as usize) {
            let charged = match self.config.accounting {
                Accounting::Queued => self.line.served(member.flow),
                _ => self.flows[member.flow.index()].outstanding,
            };
            let taken = self.clock.settle(&mut member.mark, charged);
            if self.config.accounting != Accounting::Reported {
                member.used.add(taken);
            }
        }
    }

    /// Puts the oldest request of a class where it belongs: to those that may go, to those that wait for
    /// credit, or nowhere.
    fn rekey(&mut self, id: FlowId) {
        let flow = &self.flows[id.index()];
        let Some(member) = self.members.get_mut(flow.seat as usize) else { return };
        let head = flow.queue.front(&self.slab).map(|head| Key { tag: 0, sequence: head.sequence });
        let is_parched = head.is_some() && member.credit == 0;
        match head {
            Some(head) if is_parched => self.parched.set(id, head),
            _ if member.is_parched => _ = self.parched.remove(id),
            _ => {}
        }
        member.is_parched = is_parched;
        match head {
            Some(head) if !is_parched => self.eligible.set(id, head),
            _ => _ = self.eligible.remove(id),
        }
    }

    /// Step 5: whether the class has used up its share; its credits are revoked then.
    fn revoke(&mut self, id: FlowId) -> bool {
        let seat = self.flows[id.index()].seat;
        let Some(member) = self.members.get_mut(seat as usize) else { return false };
        let spent = member.used >= DiskTime::from_span(Span::from_nanos(member.granted));
        if spent && member.credit > 0 {
            member.credit = 0;
            self.rekey(id);
        }
        spent
    }

    /// The class whose request goes next.
    fn candidate(&mut self) -> Option<FlowId> {
        loop {
            let (_, flow) = self.eligible.peek()?;
            self.settle(self.flows[flow.index()].seat);
            if !self.revoke(flow) {
                return Some(flow);
            }
        }
    }

    fn serve_class(&mut self, id: FlowId) -> Decision {
        let flow = &mut self.flows[id.index()];
        let Some(waiting) = flow.queue.pop(&mut self.slab) else { return Decision::Idle };
        flow.outstanding += 1;
        let member = &mut self.members[flow.seat as usize];
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

    #[inline(always)]
    fn enter_store(&mut self, flow: FlowId) {
        self.clock.enter();
        if self.config.accounting == Accounting::Queued {
            self.line.enter(flow);
        }
    }

    /// [`Accounting::Queued`]: the flow has been charged up to now, and so is the one that is served next.
    #[inline(never)]
    fn leave_line(&mut self, flow: FlowId) {
        if let Some(next) = self.line.waits_first() {
            self.settle(self.flows[next.index()].seat);
        }
        self.line.leave(flow);
    }

    fn pop_background(&mut self) -> Option<Waiting> {
        let id = self.fair.next()?;
        let flow = &mut self.flows[id.index()];
        let waiting = flow.queue.pop(&mut self.slab)?;
        let successor = flow.queue.front(&self.slab).map(|next| next.sequence);
        flow.virtual_finish = self.fair.serve(waiting.request.cost, flow.weight, successor);
        Some(waiting)
    }

    fn serve_background(&mut self) -> Decision {
        let Some(waiting) = self.pop_background() else { return Decision::Idle };
        self.flows[waiting.request.flow.index()].outstanding += 1;
        self.enter_store(waiting.request.flow);
        Decision::Dispatch(waiting.dispatch(None))
    }

    /// Begins a new cycle if this one is over. Time in which nothing waited and nothing was at the store
    /// belongs to no cycle.
    fn catch_up(&mut self) {
        if !self.running || self.now < self.cycle_end() {
            return;
        }
        let idle = self.waiting == 0 && self.clock.outstanding() == 0;
        if self.completed >= self.members.len() {
            let until = if idle { self.cycle_end() } else { self.now };
            self.turn(until.since(self.cycle_start).as_nanos(), false);
        } else if idle {
            let cycle = self.config.cycle.as_nanos();
            self.cycle_start = Time::from_nanos(self.now.as_nanos().saturating_sub(cycle));
        }
    }

    /// Ends the cycle, of length `elapsed`, and begins the next. `forward` if it was cut short.
    fn turn(&mut self, elapsed: u64, forward: bool) {
        self.charge(elapsed);
        self.retire();
        (self.cycle_start, self.sent, self.completed) = (self.now, 0, 0);
        self.running = !self.members.is_empty();
        if self.running {
            self.begin(forward);
        }
    }

    /// Steps 2 to 4, and the batch on failed attempts.
    fn begin(&mut self, forward: bool) {
        if self.changed {
            self.changed = false;
            self.history.clear(self.members.len());
            self.members.iter_mut().for_each(|member| member.window = 0);
        }
        self.deviate();
        self.share();
        self.grant(forward);
        let room = self.config.load_threshold.saturating_sub(self.clock.outstanding());
        let batch = self.failed.min(u64::from(room));
        self.failed -= batch;
        self.attempts += batch;
    }

    /// Step 1: what each class is charged for the cycle, and what it took per request.
    fn charge(&mut self, elapsed: u64) {
        work::steps(2 * self.members.len());
        let (mut spare, mut short, mut excess) = (0_u128, 0_u128, 0_u128);
        for seat in 0..self.members.len() {
            self.settle(seat as u32);
            let member = &self.members[seat];
            let (used, entitled) = (member.used.as_nanos(), self.entitled(member, elapsed));
            let owed = self.owed(member, entitled);
            short += u128::from(owed);
            spare += u128::from(entitled.saturating_sub(used) - owed);
            excess += u128::from(used.saturating_sub(entitled));
        }
        let forgiven = spare.saturating_sub(short).min(excess);
        let full = self.history.advance(elapsed, self.members.len(), |seat, gone| {
            let window = &mut self.members[seat].window;
            *window = window.saturating_sub(u128::from(gone));
        });
        for seat in 0..self.members.len() {
            let mut member = self.members[seat];
            let (used, entitled) = (member.used.as_nanos(), self.entitled(&member, elapsed));
            let over = used.saturating_sub(entitled);
            let charge = if over > 0 {
                used - (u128::from(over) * forgiven / excess) as u64
            } else {
                entitled - self.owed(&member, entitled)
            };
            member.charged = self.history.add(seat, charge);
            member.window += u128::from(member.charged);
            let time_per_request = &mut self.flows[member.flow.index()].time_per_request;
            member.observe(full, time_per_request);
            self.members[seat] = member;
        }
    }

    /// The part of its share that a cycle of this length is judged by.
    fn entitled(&self, member: &Member, elapsed: u64) -> u64 {
        if elapsed == self.config.cycle.as_nanos() {
            return member.share;
        }
        let part = u128::from(member.share) * u128::from(elapsed) / u128::from(self.config.cycle.as_nanos());
        u64::try_from(part).unwrap_or(u64::MAX)
    }

    /// What the class fell short of `entitled` because it was held back: no more than its pending
    /// requests stand for.
    fn owed(&self, member: &Member, entitled: u64) -> u64 {
        let flow = &self.flows[member.flow.index()];
        let at_store = if member.credit == 0 { u64::from(flow.outstanding) } else { 0 };
        let pending = flow.queue.len() as u64 + at_store;
        let behind = entitled.saturating_sub(member.used.as_nanos());
        behind.min(pending.saturating_mul(flow.time_per_request).saturating_mul(TURNS))
    }

    /// Classes without a request for a whole window leave the active set.
    fn retire(&mut self) {
        let window = self.window();
        work::steps(self.members.len());
        for seat in (0..self.members.len()).rev() {
            let Member { flow: id, idle_since, .. } = self.members[seat];
            let flow = &self.flows[id.index()];
            let idle = flow.queue.is_empty() && flow.outstanding == 0;
            if idle && self.now.since(idle_since) >= window {
                self.leave(id);
            }
        }
    }

    /// Step 2. Under a hypothetical window nobody deviates.
    fn deviate(&mut self) {
        work::steps(3 * self.members.len());
        let charged: u128 = self.members.iter().map(|member| member.window).sum();
        let (flows, offered) = (&self.flows, self.history.offered());
        let more = charged + (charged >> SLACK_BITS);
        let overrun = charged > offered + (offered >> SLACK_BITS);
        let known = self.config.accounting != Accounting::Estimated;
        let offered = match known || !self.clock.was_crowded(self.window()) {
            false => offered.min(more),
            true if overrun => offered,
            true => more,
        };
        let weight_of = |member: &Member| u128::from(flows[member.flow.index()].weight.as_u32());
        let weights: u128 = self.members.iter().map(weight_of).sum();
        let whole = self.history.is_whole();
        let tolerance = (offered >> TOLERANCE_BITS).max(u128::from(self.config.window_cycles));
        for member in &mut self.members {
            let rightful = offered * weight_of(member) / weights;
            let deviation = member.window as i128 - rightful as i128;
            let counts = whole && deviation.unsigned_abs() > tolerance;
            member.deviation = if counts { deviation } else { 0 };
        }
    }

    /// Step 3: ServiceShare.
    fn share(&mut self) {
        work::steps(2 * self.members.len());
        let (flows, service) = (&self.flows, self.config.service());
        let weight_of = |member: &Member| u128::from(flows[member.flow.index()].weight.as_u32());
        let put = |member: &mut Member, share: u64| member.share = share;
        if self.members.iter().any(|member| member.deviation < 0) {
            divide(service, &mut self.members, |member| magnitude(member.deviation.min(0)), put);
        } else if self.members.iter().any(|member| member.deviation == 0) {
            let even = |member: &Member| if member.deviation == 0 { weight_of(member) } else { 0 };
            divide(service, &mut self.members, even, put);
        } else {
            divide(service, &mut self.members, |member| INVERSE / magnitude(member.deviation), put);
        }
    }

    /// Step 4, and the class threshold: who lends, who gets it, and how many requests that makes.
    fn grant(&mut self, forward: bool) {
        work::steps(4 * self.members.len());
        let (flows, threshold) = (&self.flows, u64::from(self.config.class_threshold));
        let flow_of = |member: &Member| &flows[member.flow.index()];
        let wants = |member: &Member| {
            let flow = flow_of(member);
            !flow.queue.is_empty() || (flow.outstanding > 0 && !forward)
        };
        let credit_of = |member: &Member, share: u64| share.div_ceil(flow_of(member).time_per_request);
        let able = |member: &Member| wants(member) && credit_of(member, member.share) >= threshold;
        let enough = self.members.iter().any(able);
        let some = self.members.iter().any(|member| wants(member) && member.share > 0);
        let part = |member: &Member| match if enough { able(member) } else { wants(member) } {
            false => 0,
            true if enough || some => u128::from(member.share),
            true => u128::from(flow_of(member).weight.as_u32()),
        };
        let total: u64 = self.members.iter().map(|member| member.share).sum();
        divide(total, &mut self.members, part, |member, granted| member.granted = granted);
        for seat in 0..self.members.len() {
            let mut member = self.members[seat];
            if member.granted == 0 && !wants(&member) {
                member.granted = member.share;
            }
            member.credit = credit_of(&member, member.granted);
            member.used = DiskTime::ZERO;
            member.completed = 0;
            self.members[seat] = member;
        }
        for seat in 0..self.members.len() {
            self.rekey(self.members[seat].flow);
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
        self.eligible.cover(id.index() + 1);
        self.parched.cover(id.index() + 1);
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
        self.advance(now);
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
        self.advance(now);
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
        self.advance(now);
        self.catch_up();
        let flow = &mut self.flows[id.index()];
        flow.queue.push(&mut self.slab, Waiting::new(arrival, self.sequence, 0));
        let (first, virtual_finish) = (flow.queue.len() == 1, flow.virtual_finish);
        if role == Role::Class {
            self.waiting += 1;
            self.attempts += 1;
            self.join(id);
            if first {
                self.rekey(id);
            }
        } else if first {
            self.fair.enter(id, virtual_finish, self.sequence);
        }
        self.sequence += 1;
        Ok(())
    }

    fn poll_dispatch(&mut self, now: Time) -> Decision {
        self.advance(now);
        self.catch_up();
        if self.waiting == 0 {
            return self.serve_background();
        }
        if !self.running {
            (self.running, self.cycle_start, self.sent, self.completed) = (true, self.now, 0, 0);
            // What was at the store before belongs to no cycle.
            (0..self.members.len()).for_each(|seat| self.settle(seat as u32));
            self.begin(false);
        }
        loop {
            let candidate = self.candidate();
            match candidate {
                Some(flow) if self.attempts > 0 => return self.serve_class(flow),
                Some(_) => {}
                None => self.failed = self.failed.saturating_add(core::mem::take(&mut self.attempts)),
            }
            let elapsed = self.now.since(self.cycle_start).as_nanos();
            if !self.is_under_loaded() {
                // A cycle whose time is over waits for completions.
                let ends = self.cycle_end();
                return if self.now < ends { Decision::WaitUntil(ends) } else { Decision::Blocked };
            }
            if self.members.len() > CLASSES_PAID * self.sent.max(1)
                && let Some(flow) = candidate.or_else(|| self.parched.peek().map(|(_, flow)| flow))
            {
                self.settle(self.flows[flow.index()].seat);
                return self.serve_class(flow);
            }
            if elapsed == 0 {
                return Decision::WaitUntil(self.now + Span::from_nanos(1));
            }
            self.turn(elapsed, true);
        }
    }

    fn on_completion(&mut self, now: Time, request: &Request, completion: &Completion) {
        self.advance(now);
        if let Some(&Flow { seat, .. }) = self.flows.get(request.flow.index()) {
            self.settle(seat);
            let flow = &mut self.flows[request.flow.index()];
            flow.outstanding = flow.outstanding.saturating_sub(1);
            let cancelled = completion.outcome == Outcome::Cancelled;
            if let Some(member) = self.members.get_mut(seat as usize) {
                if self.config.accounting == Accounting::Reported {
                    let unknown = if cancelled { 0 } else { flow.time_per_request };
                    let service = completion.service.unwrap_or(Span::from_nanos(unknown));
                    member.used.add(DiskTime::from_span(service));
                }
                member.completed += u64::from(!cancelled);
                member.idle_since = self.now;
                self.revoke(request.flow);
            }
        }
        self.changed |= self.clock.has_stalled(self.window());
        self.clock.leave();
        if self.config.accounting == Accounting::Queued {
            self.leave_line(request.flow);
        }
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
                self.members[seat].credit = u64::MAX;
                self.rekey(self.members[seat].flow);
            }
        }
        if let Some((_, id)) = self.eligible.peek() {
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
        virtual_finish: 0,
        time_per_request: 1,
    };

    /// Nothing but the requests that wait and that are at the store.
    const fn emptied(&self) -> Self {
        Self { outstanding: self.outstanding, queue: self.queue, ..Self::ABSENT }
    }
}
