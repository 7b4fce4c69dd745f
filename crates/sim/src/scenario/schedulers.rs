//! The schedulers that a scenario can name.

use evenkeel_core::sched::edf::Edf;
use evenkeel_core::sched::fcfs::Fcfs;
use evenkeel_core::sched::mclock::MClock;
use evenkeel_core::sched::nested::Nested;
use evenkeel_core::sched::pclock::PClock;
use evenkeel_core::sched::rbfq::Rbfq;
use evenkeel_core::sched::sced::Sced;
use evenkeel_core::sched::sfq::SfqD;
use evenkeel_core::sched::virtual_clock::VirtualClock;
use evenkeel_core::sched::wf2q::Wf2qPlus;
use evenkeel_core::{Scheduler, SpareCapacity};

/// What makes a scheduler without flows.
type Make = fn(SpareCapacity) -> Box<dyn Scheduler + Send>;

/// Every scheduler by the name that it gives itself.
const ALL: [(&str, Make); 10] = [
    ("pclock", |spare| Box::new(PClock::with_spare(spare))),
    ("nested", |_| Box::new(Nested::new())),
    ("mclock", |_| Box::new(MClock::new())),
    ("rbfq", |_| Box::new(Rbfq::new())),
    ("sfqd", |_| Box::new(SfqD::new())),
    ("wf2q+", |_| Box::new(Wf2qPlus::new())),
    ("virtual-clock", |_| Box::new(VirtualClock::new())),
    ("sced", |_| Box::new(Sced::new())),
    ("edf", |_| Box::new(Edf::new())),
    ("fcfs", |_| Box::new(Fcfs::new())),
];

/// The names, those to choose from first, then the yardsticks.
#[must_use]
pub fn scheduler_names() -> Vec<&'static str> {
    ALL.iter().map(|(name, _)| *name).collect()
}

/// The scheduler called `name`, without flows; `None` if there is none.
#[must_use]
pub fn scheduler(name: &str, spare: SpareCapacity) -> Option<Box<dyn Scheduler + Send>> {
    ALL.iter().find(|(known, _)| *known == name).map(|(_, make)| make(spare))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_the_schedulers_give_themselves() {
        for name in scheduler_names() {
            let made = scheduler(name, SpareCapacity::Flows).expect("it is in the list");
            assert_eq!(made.name(), name);
        }
        assert!(scheduler("fifo", SpareCapacity::Flows).is_none());
    }
}
