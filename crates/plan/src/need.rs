//! What a set of promises needs: bounds on paper, and the exact need of given traces.
//!
//! ```text
//!  promises ──┬─ System Capacity Constraint (pClock)    innermost envelopes only
//!             ├─ lemma 1, for each flow                  its classes, alone
//!             └─ lemma 3 (Nested QoS)                     all classes of all flows
//!  traces ────── bisection on C: does EDF at C meet every deadline of what the buckets admit?
//! ```
//!
//! The bounds hold for whatever the envelopes admit; a trace is one such load and needs no more. The
//! simulated server may be interrupted, as in the lemmas; one that may not needs up to one service time
//! of slack in each deadline besides.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use evenkeel_core::admission::{Need, nested_capacity_of_costs, required_capacity};
use evenkeel_core::envelope::grains_of;
use evenkeel_core::{Cascade, Cost, Envelope, Rate, Span, Time};

use crate::error::PlanError;
use crate::source::{Flow, Merged};

/// Bounds of a set of flows.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds {
    /// By the System Capacity Constraint, for the innermost envelope of each flow.
    pub single: Need,
    /// Lemma 1: each flow alone; 0 for a background flow.
    pub alone: Vec<Rate>,
    /// Lemma 2: the same where all ρ of the flow are equal (it then agrees with lemma 1).
    pub alone_equal_rates: Vec<Option<Rate>>,
    /// Lemma 2.1: the same where besides δ and σ grow by a constant factor each from class to class.
    pub alone_geometric: Vec<Option<Geometric>>,
    /// Lemma 3: all of them.
    pub together: Need,
}

/// What lemma 2.1 says of classes of equal ρ whose δ grow by α and whose σ grow by β = α·λ from each to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Geometric {
    /// λ: below 1, the outer classes ask for less than the innermost.
    pub lambda: f64,
    /// The capacity that suffices, in IOPS.
    pub capacity_iops: f64,
    /// Where λ < 1: σ_1/δ_1 + ρ, which the thesis says is never exceeded. That leaves out the (j − 1) requests
    /// that straddle classes, so it may be too little where σ_1 is small.
    pub short_iops: Option<f64>,
}

/// What one deadline of one flow asks for, with all that is due by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// Δ.
    pub latency: Span,
    /// The flow whose deadline it is, an index.
    pub flow: usize,
    /// The class of that flow, 0 being the innermost.
    pub class: usize,
    /// Σ N_i(Δ)/Δ, rounded up to 1/1000 IOPS.
    pub capacity: Rate,
}

/// The bounds of flows with these classes, all of whose requests cost one.
#[must_use]
pub fn bounds(flows: &[&[Envelope]]) -> Bounds {
    bounds_of_costs(&flows.iter().map(|classes| (*classes, Cost::ONE)).collect::<Vec<_>>())
}

/// [`bounds`] of flows with the cost of the largest request of each.
#[must_use]
pub fn bounds_of_costs(flows: &[(&[Envelope], Cost)]) -> Bounds {
    let innermost: Vec<Envelope> = flows.iter().filter_map(|(classes, _)| classes.first().copied()).collect();
    Bounds {
        single: required_capacity(&innermost),
        alone: flows.iter().map(|flow| nested_capacity_of_costs(&[*flow]).capacity).collect(),
        alone_equal_rates: flows
            .iter()
            .map(|(classes, largest)| equal_rates_bound(classes, *largest))
            .collect(),
        alone_geometric: flows.iter().map(|(classes, largest)| geometric_bound(classes, *largest)).collect(),
        together: nested_capacity_of_costs(flows),
    }
}

/// Lemma 2: C = max( ρ, max_j (σ_j + (j − 1)·L + ρ·(δ_j − δ_1)) / δ_j ), where all ρ are equal; L is what the
/// largest request costs, 1 in the thesis.
fn equal_rates_bound(classes: &[Envelope], largest: Cost) -> Option<Rate> {
    let first = classes.first()?;
    if classes.iter().any(|class| class.rate() != first.rate()) {
        return None;
    }
    let rate = first.rate().as_millis();
    let due = (0_u64..).zip(classes).map(|(inside, class)| {
        let apart = class.latency().as_nanos() - first.latency().as_nanos();
        let grains = grains_of(class.burst()) + i128::from(inside) * grains_of(largest);
        let grains = grains.unsigned_abs() + u128::from(rate) * u128::from(apart);
        grains.div_ceil(u128::from(class.latency().as_nanos()))
    });
    let most = due.max()?.max(u128::from(rate));
    Some(Rate::from_millis(u64::try_from(most).unwrap_or(u64::MAX)))
}

/// Lemma 2.1: max over j of { ρ, λ^(j−1)·σ_1/δ_1 + (j − 1)·L/(α^(j−1)·δ_1) + ρ·(1 − 1/α^(j−1)) }. The thesis prints
/// j for j − 1 in the exponents, and λ for α in the last term; this is what follows from lemma 2.
fn geometric_bound(classes: &[Envelope], largest: Cost) -> Option<Geometric> {
    let first = classes.first()?;
    let is_geometric = |of: fn(&Envelope) -> u64| {
        let product = |a: &Envelope, b: &Envelope| u128::from(of(a)) * u128::from(of(b));
        classes.windows(3).all(|it| product(&it[1], &it[1]) == product(&it[0], &it[2]))
    };
    let burst = |it: &Envelope| it.burst().as_millis();
    let latency = |it: &Envelope| it.latency().as_nanos();
    let equal_rates = classes.iter().all(|class| class.rate() == first.rate());
    if !equal_rates || !is_geometric(burst) || !is_geometric(latency) {
        return None;
    }
    let growth = |of: fn(&Envelope) -> u64| classes.get(1).map_or(1.0, |it| of(it) as f64 / of(first) as f64);
    let (alpha, beta) = (growth(latency), growth(burst));
    let lambda = beta / alpha;
    let (sigma, delta, rho) = (first.burst().as_f64(), first.latency().as_secs_f64(), first.rate().as_f64());
    let asks = |inside: i32| {
        let apart = alpha.powi(inside);
        lambda.powi(inside) * sigma / delta
            + f64::from(inside) * largest.as_f64() / (apart * delta)
            + rho * (1.0 - 1.0 / apart)
    };
    let capacity_iops = (0..classes.len() as i32).map(asks).fold(rho, f64::max);
    Some(Geometric { lambda, capacity_iops, short_iops: (lambda < 1.0).then_some(sigma / delta + rho) })
}

/// What each deadline asks for (lemma 3, equations 11 and 17) if every request costs one, in the order of Δ, then of
/// the flows.
#[must_use]
pub fn deadlines(flows: &[&[Envelope]]) -> Vec<Deadline> {
    deadlines_of_costs(&flows.iter().map(|classes| (*classes, Cost::ONE)).collect::<Vec<_>>())
}

/// [`deadlines`] of flows with the cost of the largest request of each.
#[must_use]
pub fn deadlines_of_costs(flows: &[(&[Envelope], Cost)]) -> Vec<Deadline> {
    let mut all: Vec<(Span, usize, usize)> = Vec::new();
    for (flow, (classes, _)) in flows.iter().enumerate() {
        all.extend(classes.iter().enumerate().map(|(class, envelope)| (envelope.latency(), flow, class)));
    }
    all.sort_unstable();
    let asks = |(latency, flow, class): (Span, usize, usize)| {
        let due: u128 = flows.iter().map(|(classes, largest)| due_by(classes, *largest, latency)).sum();
        let millis = due.div_ceil(u128::from(latency.as_nanos()));
        let capacity = Rate::from_millis(u64::try_from(millis).unwrap_or(u64::MAX));
        Deadline { latency, flow, class, capacity }
    };
    all.into_iter().map(asks).collect()
}

/// N_i(Δ) in 10⁻¹² request.
fn due_by(classes: &[Envelope], largest: Cost, latency: Span) -> u128 {
    let due = classes.iter().take_while(|class| class.latency() <= latency).count();
    let Some(last) = due.checked_sub(1) else { return 0 };
    let grains = |rate: Rate, span: Span| u128::from(rate.as_millis()) * u128::from(span.as_nanos());
    let mut sum = grains_of(classes[last].burst()).unsigned_abs();
    for pair in classes[..due].windows(2) {
        sum +=
            grains_of(largest).unsigned_abs() + grains(pair[0].rate(), pair[1].latency() - pair[0].latency());
    }
    sum + grains(classes[last].rate(), latency - classes[last].latency())
}

/// The least capacity, to 1/1000 IOPS, at which EDF meets the deadline of every request of these traces
/// that is inside its flow's classes. At most the bound of lemma 3, for flows of one class that of the
/// System Capacity Constraint. Requests are work of what their source says they cost.
///
/// # Errors
/// If a trace cannot be read or is unsorted.
pub fn exact_need(flows: &[Flow<'_>]) -> Result<Rate, PlanError> {
    let classes: Vec<&[Envelope]> = flows.iter().map(|flow| flow.classes.as_slice()).collect();
    let costs: Vec<(&[Envelope], Cost)> = classes.iter().map(|classes| (*classes, Cost::ONE)).collect();
    let mut high = nested_capacity_of_costs(&costs).capacity.as_millis().max(1);
    let mut low = 0;
    while !meets(flows, Rate::from_millis(high))? {
        low = high;
        high = high.saturating_mul(2);
        if low == high {
            break;
        }
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if meets(flows, Rate::from_millis(middle))? {
            high = middle;
        } else {
            low = middle;
        }
    }
    // At the least rate there is, nothing may be due at all.
    if high == 1 && classes.iter().all(|classes| classes.is_empty()) {
        return Ok(Rate::from_millis(0));
    }
    Ok(Rate::from_millis(high))
}

/// Whether EDF at `capacity` meets every deadline.
fn meets(flows: &[Flow<'_>], capacity: Rate) -> Result<bool, PlanError> {
    let mut cascades: Vec<Cascade> =
        flows.iter().map(|flow| Cascade::new(Time::ZERO, &flow.classes)).collect();
    let mut arrivals = Merged::open(flows)?;
    let mut server = EdfServer { capacity, now: Time::ZERO, waiting: BinaryHeap::new() };
    while let Some((flow, request)) = arrivals.pop()? {
        if !server.advance(request.at) {
            return Ok(false);
        }
        let cost = flows[flow].source.cost(&request);
        if let Some(class) = cascades[flow].classify(request.at, cost) {
            let deadline = request.at + flows[flow].classes[usize::from(class)].latency();
            server.waiting.push(Reverse((deadline, grains_of(cost).unsigned_abs())));
        }
    }
    Ok(server.advance(Time::from_nanos(u64::MAX)))
}

/// A server that always works on the earliest deadline. Work is in grains, 10⁻¹² request: a rate of 1/1000
/// IOPS does one a nanosecond, so nothing is rounded.
struct EdfServer {
    capacity: Rate,
    now: Time,
    waiting: BinaryHeap<Reverse<(Time, u128)>>,
}

impl EdfServer {
    /// Works until `until`; whether all that was done by then was done in time.
    fn advance(&mut self, until: Time) -> bool {
        let rate = u128::from(self.capacity.as_millis());
        let budget = rate * u128::from(until.since(self.now).as_nanos());
        let mut spent = 0;
        while spent < budget
            && let Some(Reverse((deadline, work))) = self.waiting.pop()
        {
            let done = spent + work;
            if done > rate * u128::from(deadline.since(self.now).as_nanos()) {
                return false;
            }
            if done > budget {
                self.waiting.push(Reverse((deadline, done - budget)));
                break;
            }
            spent = done;
        }
        self.now = until;
        true
    }
}
