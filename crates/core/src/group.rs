//! Groups: several flows under one agreement.
//!
//! To the scheduler a group is one flow. Every request of a member puts a *place* into that flow, with the
//! tags, the promise and the class of an ordinary request; when the scheduler dispatches the place, the
//! group chooses whose request takes it. So every scheduler serves groups without knowing of them.
//!
//! ```text
//!  member 4 ─[ d ]─[ b ]──┐  held back          places, in the scheduler's flow of the group
//!    limit ⟨σ, ρ⟩         │  by its limit       [ 1: a ]─[ 2: c ]─[ 3: e ]      (of whom it came)
//!                         v  until then            │ dispatched
//!  member 4 ─[ a ]        ├─ released ─────────────┤
//!  member 7 ─[ c ]─[ e ]  │                        v    who goes
//!                         │           1. a place with a promise: the request that it came from
//!   promised: c ── e      │           2. else whoever holds the oldest promise (its first request)
//!   fair: [ S 4 | S 7 ]   │           3. else the member with the smallest start tag (fair.rs)
//! ```
//!
//! **Law.** If the scheduler dispatches each place of a promise by its deadline, and the places of the flow
//! in order, then each promised request goes by its own deadline, and each member's requests go in order:
//! behind a promised request i there are as many places before its own as requests waited when it came,
//! and rule 2 spends them on older promises, on what stands before those in their members, and on i and
//! what stands before it; all of that waited then. So rule 1 finds i first in its member, or gone.
//!
//! As long as the group keeps within its envelope everything is promised and goes in order of arrival.
//! Beyond it nothing is, and members share by weight: start-time fair queueing, charged for promised requests
//! as well. Under a scheduler that reorders within a flow (Nested QoS, across classes) so does the group.
//!
//! **Limits.** A member may have a token bucket of its own. What finds it empty is held back, with nothing
//! promised, and becomes a place when the bucket has its cost, or is full: a request dearer than σ goes
//! then and leaves a debt, so that none waits for ever.
//!
//! **Costs.** A place has the cost of the request from which it came; the request that takes it may cost more,
//! or less. Places are therefore money: one that is dispatched adds its cost to the group's *credit*, and
//! requests go as long as the credit covers the next: none, one, or several.
//!
//! ```text
//!  places, in order    1   1   1   1   5       a a a a b: four small ones of a, one of b that costs 5
//!  credit              1   2   3   4   9 4 3 2 1 0
//!  goes, b's turn      -   -   -   -   b a a a a
//! ```
//!
//! Without that a member of large requests would use the places of one of small ones, and the group more of
//! the store than its tags stand for: others would miss what they are promised. With it what the group has
//! sent is what its places cost, or less by a part of one request. The law holds in costs: when the place
//! of i goes, the credit has covered all that waited when i came. Where all requests cost the same, each
//! place has its request. A scheduler that shares time instead (FAIRIO) sees what each request takes: there
//! every place has its request, whatever that costs.
//!
//! Cost of an operation: O(log members of the group + log members with something held back).

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::envelope::TokenBucket;
use crate::heap::{FlowHeap, Key};
use crate::request::{FlowId, RequestId};
use crate::sched::fair::{FairShare, virtual_length};
use crate::sched::{Arrival, ConfigureError, Dispatch, Elsewhere};
use crate::slo::{Envelope, SloError};
use crate::units::{Cost, Rate, Time, Weight};

/// How a flow belongs to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The flow whose agreement its members share.
    pub group: FlowId,
    /// The share among members, once the group has left its envelope.
    pub weight: Weight,
    /// What the member may send at most.
    pub limit: Option<Limit>,
}

/// A ceiling of a member: σ + ρ·t in any interval of length t.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    burst: Cost,
    rate: Rate,
}

impl Limit {
    /// At most `burst` at once and `rate` in the long run.
    ///
    /// # Errors
    /// If one of them is zero or above its maximum ([`Envelope::BURST_MAX`], [`Envelope::RATE_MAX`]).
    pub fn new(burst: Cost, rate: Rate) -> Result<Self, SloError> {
        if burst == Cost::ZERO {
            Err(SloError::ZeroBurst)
        } else if burst > Envelope::BURST_MAX {
            Err(SloError::BurstTooLarge)
        } else if rate.as_millis() == 0 {
            Err(SloError::ZeroRate)
        } else if rate > Envelope::RATE_MAX {
            Err(SloError::RateTooLarge)
        } else {
            Ok(Self { burst, rate })
        }
    }

    /// σ.
    #[must_use]
    pub const fn burst(self) -> Cost {
        self.burst
    }

    /// ρ.
    #[must_use]
    pub const fn rate(self) -> Rate {
        self.rate
    }
}

/// "No node" in a link.
const NONE: u32 = u32::MAX;

/// All groups of an engine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    /// By flow number; one of the two at most is there.
    members: Vec<Option<Box<Member>>>,
    groups: Vec<Option<Box<Group>>>,
    nodes: Vec<Node>,
    /// Unused nodes.
    free: Vec<u32>,
    /// Members that are held back, by the instant when their next request is released.
    due: FlowHeap,
    held: usize,
    /// The sum of what the groups owe.
    owed: isize,
    /// The group whose place went last: its credit may cover more.
    paying: Option<FlowId>,
    joined: usize,
    sequence: u64,
}

#[derive(Clone, Debug)]
struct Member {
    group: FlowId,
    /// Its number within the group.
    seat: FlowId,
    weight: Weight,
    limit: Option<TokenBucket>,
    released: List,
    held: List,
    /// Virtual start tag of the first released request; without one, the least that the next can have.
    tag: u128,
}

#[derive(Clone, Debug, Default)]
struct Group {
    /// Member by seat.
    seats: Vec<FlowId>,
    vacant: Vec<FlowId>,
    held: usize,
    fair: FairShare,
    /// Released requests with a promise, oldest first.
    promised: List,
    /// What the places dispatched so far cost, less the requests that went: at least 0, unless a scheduler that
    /// does not count costs has been at work.
    credit: i128,
    /// Requests that wait, less places that wait.
    owed: isize,
}

/// A request of a member.
#[derive(Clone, Copy, Debug)]
struct Node {
    arrival: Arrival,
    elsewhere: Option<Elsewhere>,
    sequence: u64,
    /// Counts the uses of this node, so that a place knows whether its request has gone.
    generation: u32,
    links: [Link; 2],
}

#[derive(Clone, Copy, Debug)]
struct Link {
    next: u32,
    before: u32,
}

/// The two lists that a node can be in.
#[derive(Clone, Copy)]
enum Chain {
    Member = 0,
    Promised = 1,
}

#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
    length: u32,
}

/// What becomes of a request that arrives.
pub(crate) enum Admitted {
    /// Its flow is no member.
    Ordinary,
    /// It may become a place at once: to be judged, and then given to [`Groups::place`].
    Released(FlowId),
    /// Its member has to wait.
    Held,
}

impl Groups {
    /// Whether there are none: then nothing else needs to be asked.
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.joined == 0
    }

    /// The group of a member.
    pub(crate) fn group_of(&self, flow: FlowId) -> Option<FlowId> {
        self.member(flow).map(|member| member.group)
    }

    pub(crate) fn membership(&self, flow: FlowId) -> Option<Membership> {
        let member = self.member(flow)?;
        let limit = member.limit.map(|bucket| Limit { burst: bucket.burst(), rate: bucket.rate() });
        Some(Membership { group: member.group, weight: member.weight, limit })
    }

    pub(crate) fn is_group(&self, flow: FlowId) -> bool {
        self.groups.get(flow.index()).is_some_and(Option::is_some)
    }

    /// Requests of a member that wait; `None` if it is none.
    pub(crate) fn backlog(&self, flow: FlowId) -> Option<usize> {
        self.member(flow).map(|member| (member.released.length + member.held.length) as usize)
    }

    /// Requests of a group's members that wait, of which the scheduler holds so many places.
    pub(crate) fn waiting_in(&self, group: FlowId, places: usize) -> usize {
        let group = self.groups.get(group.index()).and_then(Option::as_ref);
        group.map_or(places, |group| places.saturating_add_signed(group.owed) + group.held)
    }

    /// All requests that wait, of which the scheduler holds so many, or places for them.
    pub(crate) const fn waiting(&self, places: usize) -> usize {
        places.saturating_add_signed(self.owed) + self.held
    }

    /// When the next request is to be released.
    pub(crate) fn next_due(&mut self) -> Option<Time> {
        self.due.peek().map(|(key, _)| Time::from_nanos(u64::try_from(key.tag).unwrap_or(u64::MAX)))
    }

    /// Makes `flow` a member, or changes its membership. The caller has checked that the group is a
    /// configured flow without requests of its own, and that `flow` is none.
    pub(crate) fn join(
        &mut self,
        now: Time,
        flow: FlowId,
        membership: Membership,
    ) -> Result<(), ConfigureError> {
        let Membership { group, weight, limit } = membership;
        if self.group_of(flow).is_some_and(|old| old != group) {
            self.leave(flow)?;
        }
        self.cover(flow.max(group));
        if let Some(member) = &mut self.members[flow.index()] {
            member.weight = weight;
            member.limit = limit.map(|limit| match member.limit {
                Some(mut bucket) => {
                    bucket.reconfigure(now, limit.burst, limit.rate);
                    bucket
                }
                None => TokenBucket::new(now, limit.burst, limit.rate),
            });
            self.set_due(now, flow);
            return Ok(());
        }
        let entry = self.groups[group.index()].get_or_insert_default();
        let seat = entry.take_seat(flow);
        self.joined += 1;
        self.members[flow.index()] = Some(Box::new(Member {
            group,
            seat,
            weight,
            limit: limit.map(|limit| TokenBucket::new(now, limit.burst, limit.rate)),
            released: List::EMPTY,
            held: List::EMPTY,
            tag: 0,
        }));
        Ok(())
    }

    /// Ends the membership of `flow`; with its last member a group is an ordinary flow again.
    pub(crate) fn leave(&mut self, flow: FlowId) -> Result<(), ConfigureError> {
        let (group, seat) = match self.member(flow) {
            None => return Err(ConfigureError::UnknownFlow(flow)),
            Some(member) if member.released.length + member.held.length > 0 => {
                return Err(ConfigureError::Busy(flow));
            }
            Some(member) => (member.group, member.seat),
        };
        self.members[flow.index()] = None;
        self.joined -= 1;
        let entry = &mut self.groups[group.index()];
        if let Some(group) = entry {
            group.vacant.push(seat);
            if group.vacant.len() == group.seats.len() {
                *entry = None;
            }
        }
        Ok(())
    }

    /// Whether a request of `flow` with this cost may go to the scheduler at `now`. Changes nothing.
    pub(crate) fn admit(&self, now: Time, flow: FlowId, cost: Cost) -> Admitted {
        match self.member(flow) {
            None => Admitted::Ordinary,
            Some(member) if !member.held.is_empty() => Admitted::Held,
            Some(Member { group, limit: Some(bucket), .. }) => {
                if bucket.ready_at(cost) <= now {
                    Admitted::Released(*group)
                } else {
                    Admitted::Held
                }
            }
            Some(member) => Admitted::Released(member.group),
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty() && self.nodes.len() >= NONE as usize
    }

    /// The name of the next place: what [`Groups::place`] or [`Groups::hold`] will store it under.
    pub(crate) fn next_name(&self) -> RequestId {
        let index = self.free.last().copied().unwrap_or(self.nodes.len() as u32);
        let generation = self.nodes.get(index as usize).map_or(0, |node| node.generation);
        name(index, generation)
    }

    /// Keeps back a request of a member.
    pub(crate) fn hold(&mut self, now: Time, arrival: Arrival, elsewhere: Option<Elsewhere>) {
        let flow = arrival.request.flow;
        let index = self.store(arrival, elsewhere);
        if let Some(member) = self.members[flow.index()].as_mut() {
            member.held.push(&mut self.nodes, Chain::Member, index);
            self.held += 1;
            self.groups[member.group.index()].as_mut().into_iter().for_each(|group| group.held += 1);
        }
        self.set_due(now, flow);
    }

    /// Notes that the scheduler has taken in the place of a request that arrives now.
    pub(crate) fn place(&mut self, now: Time, arrival: Arrival, elsewhere: Option<Elsewhere>) {
        let index = self.store(arrival, elsewhere);
        self.release(now, arrival.request.flow, index);
    }

    /// The first request that is due by `now`: its place, as far as it is known, and its counts.
    pub(crate) fn due(&mut self, now: Time) -> Option<(FlowId, RequestId, Arrival, Option<Elsewhere>)> {
        let (key, flow) = self.due.peek()?;
        if key.tag > u128::from(now.as_nanos()) {
            return None;
        }
        let member = self.member(flow)?;
        let index = member.held.first;
        let node = self.nodes.get(index as usize)?;
        Some((member.group, name(index, node.generation), node.arrival, node.elsewhere))
    }

    /// Notes that the scheduler has taken in the place of the request that [`Groups::due`] named.
    pub(crate) fn release_due(&mut self, now: Time) {
        let Some((_, flow)) = self.due.peek() else { return };
        let Some(member) = self.members[flow.index()].as_mut() else { return };
        let index = member.held.first;
        member.held.remove(&mut self.nodes, Chain::Member, index);
        self.held -= 1;
        self.groups[member.group.index()].as_mut().into_iter().for_each(|group| group.held -= 1);
        self.release(now, flow, index);
        self.set_due(now, flow);
    }

    /// The request that takes the place of `place`, dispatched by the scheduler; `None` if the credit does not
    /// cover it yet. `by_cost` as [`crate::Scheduler::counts_cost`].
    pub(crate) fn take(&mut self, place: &Dispatch, by_cost: bool) -> Option<Dispatch> {
        let id = place.request.flow;
        let (index, generation) = index_of(place.request.id);
        let origin = self.nodes.get(index as usize).filter(|node| node.generation == generation);
        let own = (origin.is_some() && place.promise.is_some()).then_some(index);
        let next = own.or_else(|| self.choose(id));
        self.paying = Some(id);
        self.owed += 1;
        let group = self.groups.get_mut(id.index())?.as_mut()?;
        group.owed += 1;
        group.credit += i128::from(place.request.cost.as_millis());
        let covered = |index: &u32| !by_cost || group.covers(&self.nodes[*index as usize]);
        let index = next.filter(covered)?;
        let finish_tag = place.finish_tag;
        self.go(id, index).map(|dispatch| Dispatch { finish_tag, ..dispatch })
    }

    /// A request that goes without a place of its own, on credit that is left over.
    pub(crate) fn take_on_credit(&mut self, by_cost: bool) -> Option<Dispatch> {
        let id = self.paying?;
        let next = self.choose(id);
        let group = self.groups.get_mut(id.index())?.as_mut()?;
        // What costs nothing waits for its place, so that there is a request for each.
        let covered = |index: &u32| {
            let node = &self.nodes[*index as usize];
            group.owed > 0 && !by_cost
                || by_cost && group.covers(node) && (group.owed > 0 || node.arrival.request.cost > Cost::ZERO)
        };
        let Some(index) = next.filter(covered) else {
            self.paying = None;
            return None;
        };
        self.go(id, index)
    }

    /// Whose turn it is: the first request of the member with the oldest promise, or else by weight.
    fn choose(&mut self, group: FlowId) -> Option<u32> {
        let group = self.groups.get_mut(group.index())?.as_mut()?;
        let member = match self.nodes.get(group.promised.first as usize) {
            Some(oldest) => oldest.arrival.request.flow,
            None => *group.seats.get(group.fair.next()?.index())?,
        };
        Some(self.member(member)?.released.first)
    }

    /// The request `index` leaves its member.
    fn go(&mut self, group: FlowId, index: u32) -> Option<Dispatch> {
        let node = self.nodes[index as usize];
        let Arrival { request, arrived: arrival, promise, class } = node.arrival;
        let group = self.groups[group.index()].as_mut()?;
        let member = self.members[request.flow.index()].as_mut()?;
        group.credit -= i128::from(request.cost.as_millis());
        group.owed -= 1;
        self.owed -= 1;
        member.released.remove(&mut self.nodes, Chain::Member, index);
        if promise.is_some() {
            group.promised.remove(&mut self.nodes, Chain::Promised, index);
        }
        group.fair.mark();
        member.tag = member.tag.saturating_add(virtual_length(request.cost, member.weight));
        match self.nodes.get(member.released.first as usize) {
            Some(next) => group.fair.place(member.seat, member.tag, next.sequence),
            None => group.fair.withdraw(member.seat),
        }
        self.nodes[index as usize].generation = node.generation.wrapping_add(1);
        self.free.push(index);
        Some(Dispatch { request, arrival, finish_tag: None, promise, class })
    }

    fn release(&mut self, now: Time, flow: FlowId, index: u32) {
        let node = self.nodes[index as usize];
        let Some(member) = self.members[flow.index()].as_mut() else { return };
        let Some(group) = self.groups[member.group.index()].as_mut() else { return };
        if let Some(bucket) = &mut member.limit {
            bucket.arrive(now, node.arrival.request.cost);
        }
        member.released.push(&mut self.nodes, Chain::Member, index);
        if member.released.length == 1 {
            member.tag = group.fair.join(member.seat, member.tag, node.sequence);
        }
        if node.arrival.promise.is_some() {
            group.promised.push(&mut self.nodes, Chain::Promised, index);
        }
    }

    fn store(&mut self, arrival: Arrival, elsewhere: Option<Elsewhere>) -> u32 {
        let links = [Link { next: NONE, before: NONE }; 2];
        let node = Node { arrival, elsewhere, sequence: self.sequence, generation: 0, links };
        self.sequence += 1;
        match self.free.pop() {
            Some(index) => {
                let generation = self.nodes[index as usize].generation;
                self.nodes[index as usize] = Node { generation, ..node };
                index
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        }
    }

    /// Puts a member into the heap by when its next request is released, or takes it out.
    fn set_due(&mut self, now: Time, flow: FlowId) {
        let Some(member) = self.members[flow.index()].as_ref() else { return };
        let Some(node) = self.nodes.get(member.held.first as usize) else {
            self.due.remove(flow);
            return;
        };
        let at = member.limit.map_or(now, |bucket| bucket.ready_at(node.arrival.request.cost));
        self.due.set(flow, Key { tag: at.as_nanos().into(), sequence: node.sequence });
    }

    fn member(&self, flow: FlowId) -> Option<&Member> {
        self.members.get(flow.index())?.as_deref()
    }

    fn cover(&mut self, flow: FlowId) {
        let flows = flow.index() + 1;
        if flows > self.members.len() {
            self.members.resize(flows, None);
            self.groups.resize(flows, None);
            self.due.cover(flows);
        }
    }
}

impl Group {
    /// Whether its credit is enough for the request.
    fn covers(&self, node: &Node) -> bool {
        i128::from(node.arrival.request.cost.as_millis()) <= self.credit
    }

    fn take_seat(&mut self, flow: FlowId) -> FlowId {
        if let Some(seat) = self.vacant.pop() {
            self.seats[seat.index()] = flow;
            return seat;
        }
        self.seats.push(flow);
        self.fair.cover(self.seats.len());
        FlowId(self.seats.len() as u32 - 1)
    }
}

impl List {
    const EMPTY: Self = Self { first: NONE, last: NONE, length: 0 };

    const fn is_empty(&self) -> bool {
        self.length == 0
    }

    fn push(&mut self, nodes: &mut [Node], chain: Chain, index: u32) {
        let chain = chain as usize;
        nodes[index as usize].links[chain] = Link { next: NONE, before: self.last };
        match nodes.get_mut(self.last as usize) {
            Some(last) => last.links[chain].next = index,
            None => self.first = index,
        }
        self.last = index;
        self.length += 1;
    }

    fn remove(&mut self, nodes: &mut [Node], chain: Chain, index: u32) {
        let chain = chain as usize;
        let Link { next, before } = nodes[index as usize].links[chain];
        match nodes.get_mut(before as usize) {
            Some(node) => node.links[chain].next = next,
            None => self.first = next,
        }
        match nodes.get_mut(next as usize) {
            Some(node) => node.links[chain].before = before,
            None => self.last = before,
        }
        self.length -= 1;
    }
}

impl Default for List {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// A place's name: the node of the request that it came from, and which use of that node it is.
fn name(index: u32, generation: u32) -> RequestId {
    RequestId(u64::from(generation) << 32 | u64::from(index))
}

fn index_of(name: RequestId) -> (u32, u32) {
    (name.0 as u32, (name.0 >> 32) as u32)
}
