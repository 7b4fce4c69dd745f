//! The schedulers that a scenario can name: those of the catalogue.

use evenkeel_catalogue::{SchedulerKind, Tuning};
use evenkeel_core::{Scheduler, SpareCapacity};

/// The names, those to choose from first, then the yardsticks.
#[must_use]
pub fn scheduler_names() -> Vec<&'static str> {
    SchedulerKind::ALL.map(SchedulerKind::name).to_vec()
}

/// The scheduler called `name`, without flows; `None` if there is none.
///
/// # Panics
/// If `tuning` is outside the ranges, which that of a scenario is not.
#[must_use]
pub fn scheduler(name: &str, spare: SpareCapacity, tuning: &Tuning) -> Option<Box<dyn Scheduler + Send>> {
    SchedulerKind::by_name(name).map(|kind| kind.build(spare, tuning))
}
