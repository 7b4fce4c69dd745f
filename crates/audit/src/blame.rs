//! Whose doing a miss was: the life of a request, split among those who had the store meanwhile.
//!
//! ```text
//!  arrival a                                                        completion c
//!  |──────┬───────────┬─ ─ ─ ─┬───────┬──────────────────┬─────────────|   the request that missed
//!      X1 │    X2     │ idle  │  X3   │        X4        │     its own     completions of the store
//!     other  own flow,  held    other   other: cost/C, the
//!            outside    back            rest: slow device
//! ```
//!
//! Each completion accounts for the time since the one before it, from its own dispatch on: up to one
//! service time of the profile (its cost / C, C the store's stated capacity) it was that request which had the store,
//! what is beyond is the device being slower than its profile. Time in which the store had nothing although
//! the request waited is time in which it was held back. The parts add up to c − a exactly.
//!
//! Requests of the own flow inside its envelope are nobody's fault; all other parts are *undue*. The excess
//! (c − a − δ) is shared among the undue parts in proportion, in whole nanoseconds; what rounding leaves
//! goes to the largest. Where even all of them together do not explain the excess, the promise is one that
//! the stated capacity does not keep: that is put down to the operator, as are the turns that others got
//! after a change of the scheduler, the depth or a promise within the life of the request.
//!
//! Without a stated capacity the device has no profile to be slower than: its part is 0, and time in which
//! the store worked on what had not ended is *unseen*.
//!
//! **Cost.** O(1) amortised a record; a miss costs O(flows · log window). The last 2²⁰ completions are
//! remembered; of a request that is older than those, that part of the life is told as *unseen*.

use std::collections::VecDeque;

use evenkeel_core::units::NANOS_PER_SECOND;
use evenkeel_core::{Cost, FlowId, Outcome, Rate, Record, Span, Time};

/// Completions that are remembered.
const WINDOW: usize = 1 << 20;

/// Who caused the larger part of a miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The client itself, by what it sent outside its envelope.
    Client,
    /// Other tenants.
    Others,
    /// The device, slower than its profile.
    Device,
    /// The operator: a change, a limit, or a promise beyond the capacity.
    Operator,
    /// Not known: it lies further back than is remembered.
    Unseen,
}

impl Cause {
    /// In words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Client => "client outside its envelope",
            Self::Others => "other tenants",
            Self::Device => "device slower than its profile",
            Self::Operator => "operator",
            Self::Unseen => "not known",
        }
    }
}

/// The excess of one miss, or of many, split by cause. The parts add up to `excess` exactly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blame {
    /// Beyond δ.
    pub excess: Span,
    /// By what the client sent outside its envelope.
    pub client: Span,
    /// By other tenants, by flow number; only those with a part.
    pub others: Vec<(FlowId, Turns)>,
    /// By the device.
    pub device: Span,
    /// By turns that others got after a change of the operator's.
    pub changed: Span,
    /// By the scheduler, which held the request back while the store had nothing.
    pub held: Span,
    /// By a promise that the stated capacity does not keep.
    pub infeasible: Span,
    /// Further back than is remembered.
    pub unseen: Span,
}

/// What another tenant's requests took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    /// All of them.
    pub all: Span,
    /// Those that had come outside that tenant's envelope, or of a background tenant.
    pub outside: Span,
}

impl Blame {
    /// What is put down to the other tenants together.
    #[must_use]
    pub fn others_total(&self) -> Span {
        self.others.iter().fold(Span::ZERO, |sum, (_, turns)| sum + turns.all)
    }

    /// What is put down to the operator.
    #[must_use]
    pub fn operator(&self) -> Span {
        self.changed + self.held + self.infeasible
    }

    /// The largest part; of equal ones the first in the order of [`Cause`]. `None` if there is no excess.
    #[must_use]
    pub fn principal(&self) -> Option<Cause> {
        let parts = [
            (self.client, Cause::Client),
            (self.others_total(), Cause::Others),
            (self.device, Cause::Device),
            (self.operator(), Cause::Operator),
            (self.unseen, Cause::Unseen),
        ];
        let (most, cause) =
            parts.into_iter().max_by_key(|(part, cause)| (*part, std::cmp::Reverse(*cause)))?;
        (most > Span::ZERO).then_some(cause)
    }

    /// Adds another miss.
    pub fn add(&mut self, other: &Self) {
        self.excess = self.excess + other.excess;
        self.client = self.client + other.client;
        self.device = self.device + other.device;
        self.changed = self.changed + other.changed;
        self.held = self.held + other.held;
        self.infeasible = self.infeasible + other.infeasible;
        self.unseen = self.unseen + other.unseen;
        for (flow, turns) in &other.others {
            let at = self.others.binary_search_by_key(flow, |(flow, _)| *flow);
            let at = at.unwrap_or_else(|at| {
                self.others.insert(at, (*flow, Turns::default()));
                at
            });
            let sum = &mut self.others[at].1;
            *sum = Turns { all: sum.all + turns.all, outside: sum.outside + turns.outside };
        }
    }

    /// Shares `excess` among the undue parts that `self` holds.
    fn shared(mut self, excess: Span) -> Self {
        self.excess = excess;
        let undue = {
            let fixed = [self.client, self.device, self.changed, self.held, self.unseen];
            fixed.iter().fold(self.others_total(), |sum, part| sum + *part).as_nanos()
        };
        if undue <= excess.as_nanos() {
            self.infeasible = excess - Span::from_nanos(undue);
            return self;
        }
        let share = |part: Span| {
            let part = u128::from(part.as_nanos()) * u128::from(excess.as_nanos()) / u128::from(undue);
            Span::from_nanos(part as u64)
        };
        for (_, turns) in &mut self.others {
            // The part outside is a share of its own, and so never more than the whole.
            *turns = Turns { all: share(turns.all), outside: share(turns.outside) };
        }
        for part in [&mut self.client, &mut self.device, &mut self.changed, &mut self.held, &mut self.unseen]
        {
            *part = share(*part);
        }
        let given = [self.client, self.device, self.changed, self.held, self.unseen];
        let given = given.iter().fold(self.others_total(), |sum, part| sum + *part);
        self.give_rest(excess - given);
        self.others.retain(|(_, turns)| turns.all > Span::ZERO);
        self
    }

    fn give_rest(&mut self, rest: Span) {
        let fixed = [&mut self.client, &mut self.device, &mut self.changed, &mut self.held, &mut self.unseen];
        let others = self.others.iter_mut().map(|(_, turns)| &mut turns.all);
        if let Some(most) = fixed.into_iter().chain(others).max_by_key(|part| **part) {
            *most = *most + rest;
        }
    }
}

/// Follows the records of a log, in their order, and splits misses.
#[derive(Debug, Default)]
pub struct Attribution {
    /// C.
    capacity: Option<Rate>,
    window: VecDeque<Turn>,
    /// Completion of the latest turn that is no longer remembered.
    forgotten: Time,
    flows: Vec<History>,
    /// Times in which the store had nothing, as far as is known: start and end.
    idle: VecDeque<(Time, Time)>,
    changes: VecDeque<Time>,
    latest: Time,
}

/// One completion: its flow had the store from `begin` for `charge`.
#[derive(Clone, Copy, Debug)]
struct Turn {
    completion: Time,
    begin: Time,
    charge: Span,
    flow: u32,
    inside: bool,
}

/// Running sums of one flow's charges.
#[derive(Debug, Default)]
struct History {
    turns: VecDeque<(Time, Sums)>,
    forgotten: Sums,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    inside: Span,
    outside: Span,
}

impl Attribution {
    /// Attribution without a profile; [`Attribution::set_capacity`] gives one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The device's profile from now on: it serves `capacity` requests of cost 1 per second.
    pub fn set_capacity(&mut self, capacity: Option<Rate>) {
        self.capacity = capacity.filter(|rate| rate.as_millis() > 0);
    }

    /// What the profile grants a request of this cost, rounded up to a nanosecond.
    fn service(&self, cost: Cost) -> Option<Span> {
        let rate = u128::from(self.capacity?.as_millis());
        let nanos = u128::from(cost.as_millis()) * u128::from(NANOS_PER_SECOND);
        Some(Span::from_nanos(u64::try_from(nanos.div_ceil(rate)).unwrap_or(u64::MAX)))
    }

    /// Notes that the operator changed something at `at`.
    pub fn on_change(&mut self, at: Time) {
        self.changes.push_back(self.changes.back().map_or(at, |last| at.max(*last)));
        if self.changes.len() > 4096 {
            self.changes.pop_front();
        }
    }

    /// Takes in a record; the split of its excess if it missed its promise. Records must come in the order of
    /// completion, as a log holds them.
    pub fn on_record(&mut self, record: &Record) -> Option<Blame> {
        if record.outcome == Outcome::Cancelled {
            return None;
        }
        let (dispatch, completion) = (record.dispatch, record.completion.max(self.latest));
        self.trim_idle(dispatch);
        if dispatch > self.latest {
            self.idle.push_back((self.latest, dispatch));
        }
        let begin = self.latest.max(dispatch);
        let taken = completion.since(begin);
        let charge = self.service(record.request.cost).map_or(taken, |service| taken.min(service));
        let flow = record.request.flow.0;
        self.push(Turn { completion, begin, charge, flow, inside: record.promise.is_some() });
        self.latest = completion;
        let excess = record.promise.filter(|_| record.missed()).map(|promise| record.latency() - promise)?;
        Some(self.parts(record).shared(excess))
    }

    /// The store had something from `dispatch` on.
    fn trim_idle(&mut self, dispatch: Time) {
        while let Some((start, end)) = self.idle.back_mut() {
            if *end <= dispatch {
                break;
            }
            *end = dispatch;
            if *start < dispatch {
                break;
            }
            self.idle.pop_back();
        }
    }

    fn push(&mut self, turn: Turn) {
        let index = turn.flow as usize;
        if self.flows.len() <= index {
            self.flows.resize_with(index + 1, History::default);
        }
        let history = &mut self.flows[index];
        let mut sums = history.turns.back().map_or(history.forgotten, |(_, sums)| *sums);
        let sum = if turn.inside { &mut sums.inside } else { &mut sums.outside };
        *sum = *sum + turn.charge;
        history.turns.push_back((turn.completion, sums));
        self.window.push_back(turn);
        if self.window.len() > WINDOW
            && let Some(old) = self.window.pop_front()
        {
            self.forgotten = old.completion;
            let history = &mut self.flows[old.flow as usize];
            if let Some((_, sums)) = history.turns.pop_front() {
                history.forgotten = sums;
            }
            while self.idle.front().is_some_and(|(_, end)| *end <= old.completion) {
                self.idle.pop_front();
            }
        }
    }

    /// The undue parts of the life of `record`, which is the latest turn.
    fn parts(&self, record: &Record) -> Blame {
        let from = record.arrival.max(self.forgotten);
        let mut blame = Blame { unseen: from.since(record.arrival), ..Blame::default() };
        let mut accounted = blame.unseen;
        let later = self.changes.partition_point(|at| *at <= from);
        let changed = self.changes.get(later).filter(|at| **at < self.latest);
        let clipped = self.clipped(from);
        for (flow, history) in (0..).zip(&self.flows) {
            let mut sums = history.between(from, self.latest);
            if let Some((turn, less)) = clipped.filter(|(turn, _)| turn.flow == flow) {
                let sum = if turn.inside { &mut sums.inside } else { &mut sums.outside };
                *sum = *sum - less;
            }
            let all = sums.inside + sums.outside;
            accounted = accounted + all;
            if flow == record.request.flow.0 {
                blame.client = sums.outside;
                continue;
            }
            let after = changed.map_or(Span::ZERO, |at| {
                let after = history.between(*at, self.latest);
                all.min(after.inside + after.outside)
            });
            blame.changed = blame.changed + after;
            let before = all - after;
            if before > Span::ZERO {
                let turns = Turns { all: before, outside: sums.outside.min(before) };
                blame.others.push((FlowId(flow), turns));
            }
        }
        blame.held = self.idle_between(from, record.dispatch);
        let rest = (record.latency() - accounted) - blame.held;
        match self.capacity {
            Some(_) => blame.device = rest,
            None => blame.unseen = blame.unseen + rest,
        }
        blame
    }

    /// The turn that began before `from` and ended after it, and how much of its charge lies before.
    fn clipped(&self, from: Time) -> Option<(Turn, Span)> {
        let first = self.window.partition_point(|turn| turn.completion <= from);
        let turn = *self.window.get(first)?;
        let within = turn.completion.since(turn.begin.max(from)).min(turn.charge);
        Some((turn, turn.charge - within))
    }

    fn idle_between(&self, from: Time, to: Time) -> Span {
        let first = self.idle.partition_point(|(_, end)| *end <= from);
        let overlap = |(start, end): &(Time, Time)| (*end).min(to).since((*start).max(from));
        let later = self.idle.range(first..).take_while(|(start, _)| *start < to);
        later.map(overlap).fold(Span::ZERO, |sum, part| sum + part)
    }
}

impl History {
    /// What was charged to turns that ended after `from`, up to `to`.
    fn between(&self, from: Time, to: Time) -> Sums {
        let at = |instant: Time| {
            let after = self.turns.partition_point(|(completion, _)| *completion <= instant);
            after.checked_sub(1).map_or(self.forgotten, |last| self.turns[last].1)
        };
        let (before, after) = (at(from), at(to));
        Sums { inside: after.inside - before.inside, outside: after.outside - before.outside }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::{Operation, Request, RequestId};
    use proptest::prelude::*;

    fn record(flow: u32, [arrival, dispatch, completion]: [u64; 3], promise: Option<u64>) -> Record {
        let request = Request {
            id: RequestId(0),
            flow: FlowId(flow),
            operation: Operation::Read,
            offset: 0,
            length: 4096,
            cost: Cost::ONE,
        };
        let [arrival, dispatch, completion] = [arrival, dispatch, completion].map(Time::from_millis);
        let promise = promise.map(Span::from_millis);
        let class = promise.map(|_| 0);
        Record { request, arrival, dispatch, completion, promise, class, outcome: Outcome::Done }
    }

    /// A store of 100 IOPS: 10 ms a request.
    fn attribution() -> Attribution {
        let mut attribution = Attribution::new();
        attribution.set_capacity(Some(Rate::per_second(100)));
        attribution
    }

    const MS: fn(u64) -> Span = Span::from_millis;

    #[test]
    fn a_neighbours_turns_are_its_doing() {
        let mut it = attribution();
        for turn in 0..4 {
            assert_eq!(it.on_record(&record(1, [0, 10 * turn, 10 * turn + 10], None)), None);
        }
        // 50 ms, 30 promised; its own turn takes 10.
        let blame = it.on_record(&record(0, [0, 40, 50], Some(30))).expect("missed");
        let turns = Turns { all: MS(20), outside: MS(20) };
        assert_eq!(blame, Blame { excess: MS(20), others: vec![(FlowId(1), turns)], ..Blame::default() });
        assert_eq!(blame.principal(), Some(Cause::Others));
    }

    #[test]
    fn what_the_client_sent_outside_its_envelope_is_its_own_doing() {
        let mut it = attribution();
        for turn in 0..3 {
            it.on_record(&record(0, [0, 10 * turn, 10 * turn + 10], None));
        }
        let blame = it.on_record(&record(0, [0, 30, 40], Some(20))).expect("missed");
        assert_eq!(blame, Blame { excess: MS(20), client: MS(20), ..Blame::default() });
    }

    #[test]
    fn a_slow_device_and_a_neighbour_share_in_proportion() {
        let mut it = attribution();
        // The neighbour's turn takes 40 ms instead of 10, the request's own 20.
        it.on_record(&record(1, [0, 0, 40], Some(100)));
        let blame = it.on_record(&record(0, [0, 40, 60], Some(35))).expect("missed");
        assert_eq!(blame.device, MS(20), "40 of the 50 ms that were undue");
        assert_eq!(blame.others, vec![(FlowId(1), Turns { all: MS(5), outside: MS(0) })]);
        assert_eq!(blame.principal(), Some(Cause::Device));
    }

    #[test]
    fn a_dear_request_is_its_senders_doing_and_no_slow_device() {
        let mut it = attribution();
        // A write that costs four may take 40 ms; it takes 45.
        let mut dear = record(1, [0, 0, 45], None);
        dear.request.cost = Cost::requests(4);
        it.on_record(&dear);
        let blame = it.on_record(&record(0, [0, 45, 55], Some(10))).expect("missed");
        let turns = Turns { all: MS(40), outside: MS(40) };
        assert_eq!((blame.device, blame.others), (MS(5), vec![(FlowId(1), turns)]));
    }

    #[test]
    fn a_turn_that_began_before_the_arrival_counts_from_the_arrival() {
        let mut it = attribution();
        it.on_record(&record(1, [0, 0, 10], None));
        let blame = it.on_record(&record(0, [6, 10, 20], Some(10))).expect("missed");
        let turns = Turns { all: MS(4), outside: MS(4) };
        assert_eq!(blame.others, vec![(FlowId(1), turns)]);
    }

    #[test]
    fn time_in_which_the_store_had_nothing_is_held_back() {
        let mut it = attribution();
        let blame = it.on_record(&record(0, [0, 30, 40], Some(15))).expect("missed");
        assert_eq!((blame.held, blame.operator()), (MS(25), MS(25)));
        // But not if it turns out that another request was at the store all the while.
        let mut it = attribution();
        it.on_record(&record(2, [0, 35, 36], None));
        let blame = it.on_record(&record(0, [0, 1, 40], Some(15))).expect("missed");
        assert_eq!(blame.held, Span::from_nanos(694_444), "1 ms of 36 undue ones, of an excess of 25 ms");
    }

    #[test]
    fn a_promise_beyond_the_capacity_is_the_operators() {
        let mut it = attribution();
        it.on_record(&record(0, [0, 0, 10], Some(10)));
        let blame = it.on_record(&record(0, [0, 10, 20], Some(10))).expect("missed");
        assert_eq!(blame, Blame { excess: MS(10), infeasible: MS(10), ..Blame::default() });
    }

    #[test]
    fn turns_after_a_change_are_the_operators() {
        let mut it = attribution();
        it.on_record(&record(1, [0, 0, 10], None));
        it.on_change(Time::from_millis(10));
        it.on_record(&record(1, [0, 10, 20], None));
        let blame = it.on_record(&record(0, [0, 20, 30], Some(10))).expect("missed");
        assert_eq!((blame.changed, blame.others_total()), (MS(10), MS(10)));
    }

    /// Lives on a store of `depth`, in the order of completion.
    fn lives() -> impl Strategy<Value = Vec<Record>> {
        let life = (0_u32..4, 0_u64..40, 0_u64..40, 1_u64..40, prop::option::of(1_u64..60));
        prop::collection::vec(life, 1..60).prop_map(|lives| {
            let mut now = 0;
            let of = |(flow, gap, wait, service, promise): (u32, u64, u64, u64, Option<u64>)| {
                now += gap;
                record(flow, [now, now + wait, now + wait + service], promise)
            };
            let mut records: Vec<Record> = lives.into_iter().map(of).collect();
            records.sort_by_key(|record| record.completion);
            records
        })
    }

    proptest! {
        #[test]
        fn the_parts_add_up_exactly(records in lives(), capacity in prop::option::of(1_u64..500), change: u8) {
            let mut it = Attribution::new();
            it.set_capacity(capacity.map(Rate::per_second));
            it.on_change(Time::from_millis(u64::from(change)));
            for record in records {
                let blame = it.on_record(&record);
                prop_assert_eq!(blame.is_some(), record.missed());
                let Some(blame) = blame else { continue };
                let sum = blame.client + blame.others_total() + blame.device + blame.operator() + blame.unseen;
                prop_assert_eq!(sum, blame.excess);
                prop_assert_eq!(Some(blame.excess), record.promise.map(|promise| record.latency() - promise));
                prop_assert!(blame.others.iter().all(|(flow, _)| *flow != record.request.flow));
                prop_assert!(blame.others.iter().all(|(_, turns)| turns.outside <= turns.all));
                prop_assert!(capacity.is_some() || blame.device == Span::ZERO);
            }
        }
    }
}
