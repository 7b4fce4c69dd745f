//! How few IOPS do for several volumes on one store, under each scheduler.

use evenkeel_catalogue::SchedulerKind;
use evenkeel_core::{Rate, Slo};

use crate::error::PlanError;
use crate::replay::{Agreements, replay_under, scheduler};
use crate::source::Flow;
use crate::target::Target;

/// A volume: what it sends and is promised, and what fractions it wants.
pub struct Tenant<'s> {
    /// What it sends, and the classes that schedulers hold it to.
    pub flow: Flow<'s>,
    /// What fraction of its requests must be within the latency of each class.
    pub targets: Vec<Target>,
}

/// What one scheduler needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consolidation {
    /// The scheduler.
    pub scheduler: SchedulerKind,
    /// The capacity that does for each tenant alone.
    pub alone: Vec<Rate>,
    /// The capacity that does for all of them together.
    pub together: Rate,
    /// How many, in the order given, fit the capacity that was asked about.
    pub fit: Option<usize>,
}

impl Consolidation {
    /// The sum of what each needs alone.
    #[must_use]
    pub fn sum(&self) -> Rate {
        Rate::from_millis(self.alone.iter().map(|rate| rate.as_millis()).sum())
    }

    /// What sharing saves of the sum, in thousandths; negative if it costs.
    #[must_use]
    pub fn saving_permille(&self) -> i64 {
        let sum = i128::from(self.sum().as_millis()).max(1);
        let saved = sum - i128::from(self.together.as_millis());
        i64::try_from(saved * 1_000 / sum).unwrap_or(i64::MIN)
    }
}

/// What the scheduler `kind` needs for `tenants`, found by bisection over replays to 1 part in 500; and how many of
/// them fit `capacity`. A scheduler that reserves reserves the ρ of the innermost class. `on_replay` is called after
/// each replay.
///
/// # Errors
/// If a trace cannot be read, or no capacity does.
pub fn consolidate(
    tenants: &[Tenant<'_>],
    kind: SchedulerKind,
    capacity: Option<Rate>,
    on_replay: &mut dyn FnMut(),
) -> Result<Consolidation, PlanError> {
    let mut alone = Vec::new();
    for tenant in tenants {
        alone.push(least(std::slice::from_ref(tenant), kind, on_replay)?);
    }
    let together = least(tenants, kind, on_replay)?;
    let mut fit = None;
    if let Some(capacity) = capacity {
        let mut count = 0;
        while count < tenants.len() && meets(&tenants[..=count], kind, capacity, on_replay)? {
            count += 1;
        }
        fit = Some(count);
    }
    Ok(Consolidation { scheduler: kind, alone, together, fit })
}

fn least(
    tenants: &[Tenant<'_>],
    kind: SchedulerKind,
    on_replay: &mut dyn FnMut(),
) -> Result<Rate, PlanError> {
    let (mut low, mut high) = (0, 1_000);
    while !meets(tenants, kind, Rate::from_millis(high), on_replay)? {
        low = high;
        high *= 2;
        if high > 1_000_000_000_000 {
            return Err(PlanError::NoCapacity { scheduler: kind.name() });
        }
    }
    while high - low > (high / 500).max(1) {
        let middle = low + (high - low) / 2;
        if meets(tenants, kind, Rate::from_millis(middle), on_replay)? {
            high = middle;
        } else {
            low = middle;
        }
    }
    Ok(Rate::from_millis(high))
}

/// Whether every tenant gets every fraction at `capacity`.
fn meets(
    tenants: &[Tenant<'_>],
    kind: SchedulerKind,
    capacity: Rate,
    on_replay: &mut dyn FnMut(),
) -> Result<bool, PlanError> {
    let flows: Vec<Flow<'_>> = tenants
        .iter()
        .map(|tenant| {
            let Flow { name, source, classes } = &tenant.flow;
            Flow { name: name.clone(), source: *source, classes: classes.clone() }
        })
        .collect();
    let slo = |flow: &Flow<'_>| {
        let slo = flow.slo();
        let reserved = slo.envelope().filter(|_| kind.knows_reservations()).map(|it| it.rate());
        reserved.and_then(|rate| slo.clone().with_reservation(rate).ok()).unwrap_or(slo)
    };
    let slos: Vec<Slo> = flows.iter().map(slo).collect();
    let agreements = Agreements { slos, ..Agreements::default() };
    let served = replay_under(&flows, &agreements, scheduler(kind), capacity, &mut |_| ())?;
    on_replay();
    let met = tenants.iter().zip(&served).all(|(tenant, served)| {
        let enough = |(target, within): (&Target, &u64)| *within >= target.fraction.of(served.requests);
        tenant.targets.iter().zip(&served.within).all(enough)
    });
    Ok(met)
}
