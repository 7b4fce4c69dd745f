//! What the guaranteed flows lend to the background (pClock, section 3.3 and lemma 5).
//!
//! At a synchronization instant u a busy flow j has nothing left of its burst, so of the σ_j requests
//! that the capacity constraint keeps room for until u + δ_j only its head's is needed. The rest,
//! σ_j − 1 requests, is lent to the background with deadline u + δ_j.
//!
//! ```text
//!  flow becomes busy, σ ≥ c + 1             draw: the lender with the smallest δ
//!          │                                   │ is emptied into the bank
//!          v         open (synchronization)    v
//!   resting list ───────────────────────> lenders heap ──> bank (cost, deadline u + δ)
//!   (intrusive, u32 links) <───────────────────┘              │ spend, per background dispatch
//!          │                                                  v
//!          └── flow becomes idle: withdrawn            gone at the next synchronization
//! ```
//!
//! A batch opens at a synchronization instant at which background requests wait, and ends when none
//! waits any more, when no guaranteed request waits any more, or at the next synchronization, which
//! opens another. Each flow enters the heap once per time that it becomes busy or is drawn, and it is
//! drawn at most once per batch and only when the bank is too small, so the work is an amortised
//! O(log flows) per arrival or background dispatch, however many flows are busy.
//!
//! Deviations:
//! 1. With costs other than one, the room that the flow itself needs is its largest request c, so it
//!    lends σ_j − c.
//! 2. The end of a batch. The paper gives none. If loans outlived it, they would come on top of a
//!    burst for which their lender has earned its tokens again in the meantime, and a well-behaved
//!    flow could miss its deadline. A synchronization renews every loan instead of waiting until the
//!    old ones are used up: its shift pulls the waiting tags closer, which uses the room that old
//!    loans stood for. The renewal cannot starve the background: a loan of j comes due no later than
//!    j's own head, and wins ties. `tests/guarantee.rs` has a counterexample to each of the two.
//! 3. Loans are counted in cost and pooled in order of deadline, so one background request may use
//!    the ends of several loans; it is then due with the last of them.

use alloc::vec::Vec;

use crate::heap::{FlowHeap, Key};
use crate::request::FlowId;
use crate::units::{Cost, Span, Time};
use crate::work;

/// "No flow" in a link.
const NONE: u32 = u32::MAX;

/// Links of the resting list; both are the flow itself while it is not in the list.
#[derive(Clone, Copy, Debug)]
struct Link {
    previous: u32,
    next: u32,
}

/// Who lends, and what has been lent. Flow numbers must be below the number given to `cover`.
#[derive(Clone, Debug)]
pub(crate) struct Lending {
    resting: Vec<Link>,
    first: u32,
    lenders: FlowHeap,
    /// u of the open batch.
    opened: Option<Time>,
    bank: Cost,
    bank_latency: Span,
}

impl Lending {
    pub(crate) fn new() -> Self {
        Self {
            resting: Vec::new(),
            first: NONE,
            lenders: FlowHeap::default(),
            opened: None,
            bank: Cost::ZERO,
            bank_latency: Span::ZERO,
        }
    }

    pub(crate) fn cover(&mut self, flows: usize) {
        self.lenders.cover(flows);
        for flow in self.resting.len()..flows {
            work::steps(1);
            self.resting.push(Link { previous: flow as u32, next: flow as u32 });
        }
    }

    /// `flow` has become busy: it lends from the next synchronization on.
    #[inline(always)]
    pub(crate) fn enter(&mut self, flow: FlowId) {
        let flow = flow.0;
        if self.first != NONE {
            self.resting[self.first as usize].previous = flow;
        }
        self.resting[flow as usize] = Link { previous: NONE, next: self.first };
        self.first = flow;
    }

    /// `flow` has become idle, or must not lend before the next synchronization.
    #[inline(always)]
    pub(crate) fn withdraw(&mut self, flow: FlowId) {
        if !self.lenders.remove(flow) {
            self.unlink(flow.0);
        }
    }

    /// Opens a batch at the synchronization instant `now`; `latency_of` gives δ of a flow.
    pub(crate) fn open(&mut self, now: Time, latency_of: impl Fn(FlowId) -> Span) {
        self.close();
        self.opened = Some(now);
        while self.first != NONE {
            work::steps(1);
            let flow = FlowId(self.first);
            self.unlink(flow.0);
            // Equal δ: by flow number, so that runs repeat.
            let tag = u128::from(latency_of(flow).as_nanos());
            self.lenders.set(flow, Key { tag, sequence: u64::from(flow.0) });
        }
    }

    /// Ends the batch.
    pub(crate) fn close(&mut self) {
        self.opened = None;
        self.bank = Cost::ZERO;
        self.bank_latency = Span::ZERO;
    }

    /// When a background request of `cost` is due on what is lent, drawing on lenders until it is
    /// covered; `None` if too little is lent. `loan_of` gives what a flow lends.
    pub(crate) fn draw(&mut self, cost: Cost, loan_of: impl Fn(FlowId) -> Cost) -> Option<Time> {
        let opened = self.opened?;
        while self.bank < cost {
            let (key, flow) = self.lenders.peek()?;
            self.lenders.remove(flow);
            self.enter(flow);
            let total = self.bank.as_millis().saturating_add(loan_of(flow).as_millis());
            self.bank = Cost::from_millis(total);
            self.bank_latency = Span::from_nanos(key.tag as u64);
        }
        Some(opened + self.bank_latency)
    }

    /// Uses `cost` of what [`Lending::draw`] has covered.
    pub(crate) fn spend(&mut self, cost: Cost) {
        self.bank = Cost::from_millis(self.bank.as_millis().saturating_sub(cost.as_millis()));
    }

    #[inline(always)]
    fn unlink(&mut self, flow: u32) {
        let Link { previous, next } = self.resting[flow as usize];
        if next == flow {
            return;
        }
        if previous == NONE {
            self.first = next;
        } else {
            self.resting[previous as usize].next = next;
        }
        if next != NONE {
            self.resting[next as usize].previous = previous;
        }
        self.resting[flow as usize] = Link { previous: flow, next: flow };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_millis(5);

    fn latency(flow: FlowId) -> Span {
        Span::from_millis(10 * u64::from(flow.0 + 1))
    }

    fn loan(_: FlowId) -> Cost {
        Cost::requests(2)
    }

    fn lending(flows: u32) -> Lending {
        let mut lending = Lending::new();
        lending.cover(flows as usize);
        (0..flows).for_each(|flow| lending.enter(FlowId(flow)));
        lending
    }

    fn take(lending: &mut Lending, cost: Cost) -> Option<u64> {
        let due = lending.draw(cost, loan)?;
        lending.spend(cost);
        Some(due.as_nanos() / 1_000_000)
    }

    #[test]
    fn nothing_is_lent_before_a_synchronization() {
        let mut lending = lending(2);
        assert_eq!(take(&mut lending, Cost::ONE), None);
        lending.open(NOW, latency);
        assert_eq!(take(&mut lending, Cost::ONE), Some(15));
        lending.close();
        assert_eq!(take(&mut lending, Cost::ONE), None);
    }

    #[test]
    fn loans_go_out_by_deadline_and_pool() {
        let mut lending = lending(3);
        lending.open(NOW, latency);
        assert_eq!(take(&mut lending, Cost::ONE), Some(15));
        assert_eq!(
            take(&mut lending, Cost::requests(3)),
            Some(25),
            "one of the first loan, two of the second"
        );
        assert_eq!(take(&mut lending, Cost::requests(3)), None, "only two are left");
        assert_eq!(take(&mut lending, Cost::requests(2)), Some(35));
        assert_eq!(take(&mut lending, Cost::ONE), None);
        lending.open(NOW, latency);
        assert_eq!(take(&mut lending, Cost::ONE), Some(15), "renewed");
    }

    #[test]
    fn idle_flows_and_newcomers_do_not_lend() {
        let mut lending = lending(2);
        lending.open(NOW, latency);
        lending.withdraw(FlowId(0));
        lending.enter(FlowId(0));
        assert_eq!(take(&mut lending, Cost::ONE), Some(25), "flow 0 lends from the next time on");
        lending.withdraw(FlowId(0));
        lending.withdraw(FlowId(1));
        lending.withdraw(FlowId(1));
        lending.open(NOW, latency);
        assert_eq!(take(&mut lending, Cost::ONE), None);
    }
}
