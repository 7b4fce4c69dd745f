//! The smallest relaxation of one parameter that makes a set of promises fit.
//!
//! ```text
//!  for each flow, class and parameter:    does not fit ──┬──────────────┬── fits
//!                                         today's value  │  bisection   │  the loosest there is
//! ```
//!
//! A longer δ, a smaller σ or a smaller ρ never needs more capacity, so the boundary is found by bisection:
//! one step of the resolution less would not fit. Classes stay nested: relaxing a class takes along those
//! that would no longer be inside, or outside, of it.

use evenkeel_core::admission::{nested_capacity_of_costs, required_capacity};
use evenkeel_core::{Cost, Envelope, Rate, Span};

pub use evenkeel_core::Parameter;

/// One change that makes everything fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relaxation {
    /// The flow, an index.
    pub flow: usize,
    /// Its class, 0 being the innermost.
    pub class: usize,
    /// What changes.
    pub parameter: Parameter,
    /// The classes of that flow with the change.
    pub classes: Vec<Envelope>,
}

/// For each flow, class and parameter the smallest relaxation that makes `flows` fit `capacity`, where there
/// is one. Empty also if they fit already. δ is found to 1 us, σ to one request, ρ to 1/1000 IOPS.
/// With `graduated` the need is that of lemma 3, otherwise that of the System Capacity Constraint for the
/// innermost classes.
#[must_use]
pub fn what_if(flows: &[Vec<Envelope>], capacity: Rate, graduated: bool) -> Vec<Relaxation> {
    what_if_of_costs(flows, &vec![Cost::ONE; flows.len()], capacity, graduated)
}

/// [`what_if`] where the largest request of each flow costs so much: no burst is made smaller than that.
#[must_use]
pub fn what_if_of_costs(
    flows: &[Vec<Envelope>],
    largest: &[Cost],
    capacity: Rate,
    graduated: bool,
) -> Vec<Relaxation> {
    let fits = |flow: usize, classes: &[Envelope]| {
        let all = (0..).zip(flows).map(|(index, it)| if index == flow { classes } else { it });
        let all: Vec<(&[Envelope], Cost)> = all.zip(largest.iter().copied()).collect();
        need(&all, graduated) <= capacity
    };
    let mut relaxations = Vec::new();
    for ((flow, classes), largest) in flows.iter().enumerate().zip(largest) {
        if fits(flow, classes) {
            return Vec::new();
        }
        let known = if graduated { classes.len() } else { classes.len().min(1) };
        for class in 0..known {
            for parameter in [Parameter::Latency, Parameter::Burst, Parameter::Rate] {
                let relaxed = |steps: u64| relaxed(classes, class, parameter, steps, *largest);
                let most = steps_max(&classes[class], parameter, *largest);
                let found = least_step(most, |steps| relaxed(steps).is_some_and(|it| fits(flow, &it)));
                if let Some(classes) = found.and_then(relaxed) {
                    relaxations.push(Relaxation { flow, class, parameter, classes });
                }
            }
        }
    }
    relaxations
}

fn need(flows: &[(&[Envelope], Cost)], graduated: bool) -> Rate {
    if graduated {
        return nested_capacity_of_costs(flows).capacity;
    }
    let innermost: Vec<Envelope> = flows.iter().filter_map(|(classes, _)| classes.first().copied()).collect();
    required_capacity(&innermost).capacity
}

/// A step of δ, in nanoseconds.
const LATENCY_STEP: u64 = 1_000;

/// How far a parameter can be relaxed, in steps.
fn steps_max(class: &Envelope, parameter: Parameter, largest: Cost) -> u64 {
    match parameter {
        Parameter::Latency => (Envelope::LATENCY_MAX - class.latency()).as_nanos() / LATENCY_STEP,
        // A burst below the largest request never covers it.
        Parameter::Burst => {
            let least = largest.max(Cost::from_millis(1)).as_millis();
            class.burst().as_millis().saturating_sub(least).div_ceil(1_000)
        }
        Parameter::Rate => class.rate().as_millis() - 1,
    }
}

/// The classes with a parameter of one of them relaxed by `steps`; `None` if that is no promise.
fn relaxed(
    classes: &[Envelope],
    class: usize,
    parameter: Parameter,
    steps: u64,
    largest: Cost,
) -> Option<Vec<Envelope>> {
    let it = classes.get(class)?;
    let (mut burst, mut rate, mut latency) = (it.burst(), it.rate(), it.latency());
    match parameter {
        Parameter::Latency => latency = latency + Span::from_nanos(steps.checked_mul(LATENCY_STEP)?),
        Parameter::Burst => {
            let less = burst.as_millis().saturating_sub(steps.checked_mul(1_000)?);
            // A burst that is below it already stays as it is.
            burst = Cost::from_millis(less).max(largest.max(Cost::ONE).min(burst));
        }
        Parameter::Rate => rate = Rate::from_millis(rate.as_millis().checked_sub(steps)?),
    }
    let changed = |(index, other): (usize, &Envelope)| {
        let (mut b, mut r, mut l) = (other.burst(), other.rate(), other.latency());
        if index <= class {
            (b, r) = (b.min(burst), r.min(rate));
        }
        if index >= class {
            l = l.max(latency);
        }
        Envelope::new(b, r, l).ok()
    };
    classes.iter().enumerate().map(changed).collect()
}

/// The least of 1 to `most` for which `fits` holds, if it holds for `most`; once it holds it must go on.
fn least_step(most: u64, fits: impl Fn(u64) -> bool) -> Option<u64> {
    if most == 0 || !fits(most) {
        return None;
    }
    let (mut low, mut high) = (0, most);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}
