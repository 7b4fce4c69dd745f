//! The System Capacity Constraint: how fast a server must be to keep a set of promises.
//!
//! Source: pClock, definition 4. With the flows in order of δ,
//!
//! ```text
//!  (1)  Σ ρ_i ≤ C            (2)  for each k:  Σ_{i≤k} ( σ_i + ρ_i·(δ_k − δ_i) ) ≤ C·δ_k
//!
//!  requests                         ╱ C·t must stay above the staircase of what can be due
//!     │                    ╱  ┌───╱
//!     │              ╱   ┌─╱──┘      at δ_k the burst of flow k comes due; between, flow i
//!     │        ╱    ┌──╱─┘           adds ρ_i per second from δ_i on
//!     └────╱────────┴─────────> t
//! ```
//!
//! Both sides are kept as integers (10⁻¹² request), so the answer is exactly minimal among multiples
//! of 1/1000 IOPS. Range: 10¹² flows of the largest burst, rate and latency fit into 128 bits.
//!
//! Deviation: σ below one request counts as one request. As printed such a flow needs no room for a
//! burst at all, yet its first request is due after δ like any other (example 1 has σ = 0 and the
//! first finish tag δ); a hundred such flows of equal δ would make a well-behaved one late.

use alloc::vec::Vec;

use crate::envelope::grains_of;
use crate::slo::Envelope;
use crate::units::{Cost, NANOS_PER_SECOND, Rate, Span};

/// What a set of promises needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The smallest sufficient capacity, rounded up to the next 1/1000 IOPS. At the top of the range
    /// (`u64::MAX`) it means "at least that".
    pub capacity: Rate,
    /// Which condition asks for that much.
    pub binding: Binding,
}

/// The condition that asks for the most capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// There are no envelopes.
    None,
    /// The sum of the rates, equation (1); also if a deadline asks for exactly as much.
    Rates,
    /// Equation (2) at the deadline of the flow with this index in the input (of one of its classes,
    /// for [`nested_capacity`]). Of several deadlines that ask for the same it is the earliest, of
    /// several flows with that deadline the first.
    Deadline(usize),
}

/// What one deadline asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadlineDemand {
    /// The flow whose deadline it is, as an index into the input.
    pub flow: usize,
    /// δ_k.
    pub latency: Span,
    /// The capacity that equation (2) asks for at δ_k, with the bursts of all flows of that δ.
    pub capacity: Rate,
}

/// The least capacity with which pClock keeps all of `envelopes`.
#[must_use]
pub fn required_capacity(envelopes: &[Envelope]) -> Need {
    if envelopes.is_empty() {
        return Need { capacity: Rate::from_millis(0), binding: Binding::None };
    }
    let rates: u128 = envelopes.iter().map(|envelope| u128::from(envelope.rate().as_millis())).sum();
    let mut most = (Quotient::new(rates, 1), Binding::Rates);
    for_each_deadline(envelopes, |flow, _, needed| {
        if needed > most.0 {
            most = (needed, Binding::Deadline(flow));
        }
    });
    Need { capacity: most.0.ceiling(), binding: most.1 }
}

/// Whether a server of `capacity` keeps all of `envelopes`; exact, also where
/// [`required_capacity`] is at the top of its range.
#[must_use]
pub fn admits(capacity: Rate, envelopes: &[Envelope]) -> bool {
    let capacity = Quotient::new(u128::from(capacity.as_millis()), 1);
    let rates: u128 = envelopes.iter().map(|envelope| u128::from(envelope.rate().as_millis())).sum();
    let mut fits = Quotient::new(rates, 1) <= capacity;
    for_each_deadline(envelopes, |_, _, needed| fits &= needed <= capacity);
    fits
}

/// What each deadline asks for, in order of δ; equal ones in the order of the input.
#[must_use]
pub fn demand(envelopes: &[Envelope]) -> Vec<DeadlineDemand> {
    let mut table = Vec::with_capacity(envelopes.len());
    for_each_deadline(envelopes, |flow, latency, needed| {
        table.push(DeadlineDemand { flow, latency, capacity: needed.ceiling() });
    });
    table
}

/// A capacity with which Nested QoS keeps all classes of all `flows` (their classes innermost first, see
/// [`crate::Slo::classes`]), if every request costs one.
///
/// Source: Wang, "Nested QoS" (MS thesis, Rice 2012), lemma 1 for one flow and lemma 3 for many. What can
/// be due of flow i within t, with j its last class of δ_j ≤ t, is at most
///
/// ```text
///  N_i(t) = σ_j + Σ_{k<j} ( 1 + ρ_k·(δ_{k+1} − δ_k) ) + ρ_j·(t − δ_j)        (11)
///  C = max( max over all deadlines Δ of Σ_i N_i(Δ)/Δ ,  Σ_i ρ_{i,n} )        (17)
/// ```
///
/// This is what suffices (the paper prints "C ≤"); a given trace may need less. Rounded up to the
/// next 1/1000 IOPS, and otherwise exact. A flow without classes needs nothing. The classes must be
/// nested, as [`crate::Slo::nested`] makes sure.
#[must_use]
pub fn nested_capacity(flows: &[&[Envelope]]) -> Need {
    nested_capacity_of_costs(&flows.iter().map(|classes| (*classes, Cost::ONE)).collect::<Vec<_>>())
}

/// [`nested_capacity`] where requests do not all cost one: each flow comes with the cost of its largest request,
/// L. A class refuses a request while it holds less than that, so L takes the place of 1 in (11).
#[must_use]
pub fn nested_capacity_of_costs(flows: &[(&[Envelope], Cost)]) -> Need {
    let largest: Vec<Cost> = flows.iter().map(|(_, largest)| *largest).collect();
    let flows: Vec<&[Envelope]> = flows.iter().map(|(classes, _)| *classes).collect();
    let rates = flows.iter().filter_map(|classes| classes.last());
    let rates: u128 = rates.map(|outermost| u128::from(outermost.rate().as_millis())).sum();
    let binding = if rates == 0 { Binding::None } else { Binding::Rates };
    let mut most = (Quotient::new(rates, 1), binding);
    let mut lines: Vec<(Envelope, usize, Line)> = Vec::new();
    for (flow, classes) in flows.iter().enumerate() {
        let mut before = Line::default();
        for (class, line) in classes.iter().zip(demand_lines(classes, largest[flow])) {
            lines.push((
                *class,
                flow,
                Line { fixed: line.fixed - before.fixed, slope: line.slope - before.slope },
            ));
            before = line;
        }
    }
    lines.sort_by_key(|(class, flow, _)| (class.latency(), *flow));
    let mut sum = Line::default();
    for group in lines.chunk_by(|(a, ..), (b, ..)| a.latency() == b.latency()) {
        for (.., step) in group {
            sum = Line { fixed: sum.fixed + step.fixed, slope: sum.slope + step.slope };
        }
        let (class, flow, _) = group[0];
        let nanos = class.latency().as_nanos();
        let due = (sum.fixed + sum.slope * i128::from(nanos)).unsigned_abs();
        let needed = Quotient::new(due, nanos);
        if needed > most.0 {
            most = (needed, Binding::Deadline(flow));
        }
    }
    Need { capacity: most.0.ceiling(), binding: most.1 }
}

/// What can be due within t, fixed + slope·t, in 10⁻¹² request.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    fixed: i128,
    slope: i128,
}

/// Equation (11) of one flow, from the δ of each class on.
fn demand_lines(classes: &[Envelope], largest: Cost) -> impl Iterator<Item = Line> + '_ {
    let mut inner = 0;
    classes.iter().enumerate().map(move |(j, class)| {
        if let Some(inside) = j.checked_sub(1).map(|k| &classes[k]) {
            let apart = class.latency().as_nanos() - inside.latency().as_nanos();
            inner += grains_of(largest) + i128::from(inside.rate().as_millis()) * i128::from(apart);
        }
        let slope = i128::from(class.rate().as_millis());
        let fixed = grains_of(class.burst()) + inner - slope * i128::from(class.latency().as_nanos());
        Line { fixed, slope }
    })
}

/// Calls `visit` with each flow in order of δ, its δ, and what equation (2) asks for there.
fn for_each_deadline(envelopes: &[Envelope], mut visit: impl FnMut(usize, Span, Quotient)) {
    let mut order: Vec<usize> = (0..envelopes.len()).collect();
    order.sort_by_key(|&flow| (envelopes[flow].latency(), flow));
    // Σ σ_i − ρ_i·δ_i and Σ ρ_i over the flows so far: (2) is fixed + slope·δ_k.
    let (mut fixed, mut slope) = (0_i128, 0_i128);
    for group in order.chunk_by(|&a, &b| envelopes[a].latency() == envelopes[b].latency()) {
        let latency = envelopes[group[0]].latency();
        let nanos = i128::from(latency.as_nanos());
        for &flow in group {
            let (burst, rate) = (envelopes[flow].burst().max(Cost::ONE), envelopes[flow].rate());
            let rate = i128::from(rate.as_millis());
            fixed += i128::from(burst.as_millis()) * i128::from(NANOS_PER_SECOND) - rate * nanos;
            slope += rate;
        }
        let due = (fixed + slope * nanos).unsigned_abs();
        for &flow in group {
            visit(flow, latency, Quotient::new(due, latency.as_nanos()));
        }
    }
}

/// A fraction as whole part and rest, compared without rounding.
#[derive(Clone, Copy, Debug)]
struct Quotient {
    whole: u128,
    rest: u64,
    divisor: u64,
}

impl Quotient {
    fn new(dividend: u128, divisor: u64) -> Self {
        let wide = u128::from(divisor);
        Self { whole: dividend / wide, rest: (dividend % wide) as u64, divisor }
    }

    /// Rounded up to a whole number of 1/1000 IOPS; saturates.
    fn ceiling(self) -> Rate {
        let ceiling = self.whole + u128::from(self.rest > 0);
        Rate::from_millis(u64::try_from(ceiling).unwrap_or(u64::MAX))
    }
}

impl PartialEq for Quotient {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Quotient {}

impl PartialOrd for Quotient {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quotient {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        let rest = u128::from(self.rest) * u128::from(other.divisor);
        let other_rest = u128::from(other.rest) * u128::from(self.divisor);
        self.whole.cmp(&other.whole).then(rest.cmp(&other_rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;

    fn envelope(burst: u64, rate: u64, millis: u64) -> Envelope {
        Envelope::new(Cost::requests(burst), Rate::per_second(rate), Span::from_millis(millis)).unwrap()
    }

    #[test]
    fn the_example_of_the_paper_needs_300_iops() {
        let flows = [envelope(50, 50, 200), envelope(110, 100, 600)];
        let need = Need { capacity: Rate::per_second(300), binding: Binding::Deadline(1) };
        assert_eq!(required_capacity(&flows), need);
        assert!(admits(Rate::per_second(300), &flows));
        assert!(!admits(Rate::from_millis(299_999), &flows));
        let table = demand(&flows);
        assert_eq!(table[0].capacity, Rate::per_second(250), "the burst of f_A by 200 ms");
        assert_eq!(table[1].capacity, Rate::per_second(300), "180 requests by 600 ms");
        assert_eq!(required_capacity(&[flows[1], flows[0]]).binding, Binding::Deadline(0));
    }

    #[test]
    fn case_1_of_the_paper_needs_its_100_iops() {
        let flows = [envelope(0, 50, 500), envelope(25, 50, 250)];
        let need = Need { capacity: Rate::per_second(100), binding: Binding::Rates };
        assert_eq!(required_capacity(&flows), need);
    }

    #[test]
    fn no_promises_need_nothing() {
        assert_eq!(required_capacity(&[]).binding, Binding::None);
        assert!(admits(Rate::from_millis(0), &[]));
        assert_eq!(demand(&[]), vec![]);
    }

    #[test]
    fn equal_deadlines_are_one_deadline() {
        let flows = [envelope(10, 1, 100), envelope(20, 1, 100)];
        let table = demand(&flows);
        assert_eq!((table[0].flow, table[1].flow), (0, 1));
        assert!(table.iter().all(|row| row.capacity == Rate::per_second(300)));
        assert_eq!(required_capacity(&flows).binding, Binding::Deadline(0));
    }

    #[test]
    fn the_largest_promises_do_not_overflow() {
        let widest = Envelope::new(Envelope::BURST_MAX, Envelope::RATE_MAX, Envelope::LATENCY_MAX).unwrap();
        let tightest = Envelope::new(Envelope::BURST_MAX, Envelope::RATE_MAX, Span::from_nanos(1)).unwrap();
        let flows: Vec<Envelope> = (0..1_000).flat_map(|_| [widest, tightest]).collect();
        assert_eq!(required_capacity(&flows).capacity, Rate::from_millis(u64::MAX));
        assert!(!admits(Rate::from_millis(u64::MAX), &flows));
    }

    #[test]
    fn lemma_1_by_hand() {
        // The three classes of section 3.1.2. By 5 ms: 10 requests. By 50 ms: 20 + 1 + 100·0.045 = 25.5.
        // By 500 ms: 30 + (1 + 4.5) + (1 + 110·0.45) = 86.
        let classes = [envelope(10, 100, 5), envelope(20, 110, 50), envelope(30, 120, 500)];
        let need = Need { capacity: Rate::per_second(2_000), binding: Binding::Deadline(0) };
        assert_eq!(nested_capacity(&[&classes]), need);
        let outer = [envelope(1, 100, 5), envelope(20, 110, 50), envelope(30, 120, 500)];
        assert_eq!(nested_capacity(&[&outer]).capacity, Rate::per_second(510));
        let outermost = [envelope(0, 100, 5), envelope(0, 110, 50), envelope(80, 120, 500)];
        assert_eq!(nested_capacity(&[&outermost]).capacity, Rate::per_second(272), "80 + 5.5 + 50.5 = 136");
    }

    #[test]
    fn lemma_3_by_hand() {
        // By 100 ms: 10 of the first. By 200 ms: 20 + 1 + 10 of the first and 9 of the second.
        let first = [envelope(10, 100, 100), envelope(20, 100, 200)];
        let second = [envelope(9, 50, 200)];
        let need = Need { capacity: Rate::per_second(200), binding: Binding::Deadline(0) };
        assert_eq!(nested_capacity(&[&first, &second, &[]]), need);
        assert_eq!(nested_capacity(&[]).binding, Binding::None);
    }

    fn envelopes() -> impl Strategy<Value = Vec<Envelope>> {
        let one = (0_u64..200_000, 1_u64..500_000, 1_u64..2_000_000_000);
        prop::collection::vec(one, 1..8).prop_map(|flows| {
            let envelope = |(burst, rate, nanos)| {
                Envelope::new(Cost::from_millis(burst), Rate::from_millis(rate), Span::from_nanos(nanos))
            };
            flows.into_iter().map(|flow| envelope(flow).unwrap()).collect()
        })
    }

    proptest! {
        /// The result is the definition's smallest capacity, computed term by term.
        #[test]
        fn the_capacity_is_exactly_minimal(flows in envelopes()) {
            let fits = |capacity: u128| {
                let rates: u128 = flows.iter().map(|f| u128::from(f.rate().as_millis())).sum();
                rates <= capacity && flows.iter().all(|k| {
                    let due: u128 = flows.iter().filter(|i| i.latency() <= k.latency()).map(|i| {
                        let apart = k.latency() - i.latency();
                        u128::from(i.burst().max(Cost::ONE).as_millis()) * 1_000_000_000
                            + u128::from(i.rate().as_millis()) * u128::from(apart.as_nanos())
                    }).sum();
                    due <= capacity * u128::from(k.latency().as_nanos())
                })
            };
            let capacity = required_capacity(&flows).capacity;
            let millis = u128::from(capacity.as_millis());
            prop_assert!(fits(millis) && !fits(millis - 1));
            prop_assert!(admits(capacity, &flows));
            prop_assert!(!admits(Rate::from_millis(capacity.as_millis() - 1), &flows));
        }

        /// Flows of one class need what pClock asks for.
        #[test]
        fn one_class_is_pclock(flows in envelopes()) {
            let whole = |e: &Envelope| Envelope::new(e.burst().max(Cost::ONE), e.rate(), e.latency()).unwrap();
            let flows: Vec<Envelope> = flows.iter().map(whole).collect();
            let classes: Vec<&[Envelope]> = flows.iter().map(core::slice::from_ref).collect();
            prop_assert_eq!(nested_capacity(&classes), required_capacity(&flows));
        }
    }
}
