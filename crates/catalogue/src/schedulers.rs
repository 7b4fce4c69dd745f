//! The schedulers by name: what a file may say, and what each of them makes of it.

use std::fmt;

use evenkeel_core::Scheduler;
use evenkeel_core::sched::SpareCapacity;
use evenkeel_core::sched::avatar::Avatar;
use evenkeel_core::sched::cello::Cello;
use evenkeel_core::sched::edf::Edf;
use evenkeel_core::sched::fairio::Fairio;
use evenkeel_core::sched::fcfs::Fcfs;
use evenkeel_core::sched::mclock::MClock;
use evenkeel_core::sched::nested::Nested;
use evenkeel_core::sched::pclock::PClock;
use evenkeel_core::sched::rbfq::Rbfq;
use evenkeel_core::sched::sced::Sced;
use evenkeel_core::sched::sfq::SfqD;
use evenkeel_core::sched::virtual_clock::VirtualClock;
use evenkeel_core::sched::wf2q::Wf2qPlus;

use crate::Tuning;

/// The schedulers that a store or a scenario can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedulerKind {
    /// pClock.
    PClock,
    /// Nested QoS.
    Nested,
    /// AVATAR with SARC.
    Avatar,
    /// mClock.
    MClock,
    /// RBFQ.
    Rbfq,
    /// SFQ(D).
    SfqD,
    /// WF2Q+.
    Wf2qPlus,
    /// FAIRIO.
    Fairio,
    /// Cello.
    Cello,
    /// Virtual Clock.
    VirtualClock,
    /// SCED.
    Sced,
    /// Earliest deadline first.
    Edf,
    /// First come, first served.
    Fcfs,
}

impl SchedulerKind {
    /// All of them; those to choose from first, then the yardsticks.
    pub const ALL: [Self; 13] = [
        Self::PClock,
        Self::Nested,
        Self::Avatar,
        Self::MClock,
        Self::Rbfq,
        Self::SfqD,
        Self::Wf2qPlus,
        Self::Fairio,
        Self::Cello,
        Self::VirtualClock,
        Self::Sced,
        Self::Edf,
        Self::Fcfs,
    ];

    /// As it is written in the file, and as the scheduler names itself.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PClock => "pclock",
            Self::Nested => "nested",
            Self::Avatar => "avatar",
            Self::MClock => "mclock",
            Self::Rbfq => "rbfq",
            Self::SfqD => "sfqd",
            Self::Wf2qPlus => "wf2q+",
            Self::Fairio => "fairio",
            Self::Cello => "cello",
            Self::VirtualClock => "virtual-clock",
            Self::Sced => "sced",
            Self::Edf => "edf",
            Self::Fcfs => "fcfs",
        }
    }

    /// What it is for, in a line.
    #[must_use]
    pub const fn summary(self) -> &'static str {
        match self {
            Self::PClock => {
                "burst, rate and latency per volume, whatever the others do; spare capacity is shared"
            }
            Self::Nested => "graduated classes per volume; what exceeds the outermost is best effort",
            Self::Avatar => "rate control above, deadlines below; what is over the rate waits for room",
            Self::MClock => "reservation, limit and weight; the reservation counts within the share",
            Self::Rbfq => "reservation first, the rest by weight, without knowing the device's capacity",
            Self::SfqD => "shares by rate and weight, with several requests at the device",
            Self::Wf2qPlus => "shares by rate and weight, never more than a request from the ideal",
            Self::Fairio => "disk time by weight, whatever the requests cost the disks",
            Self::Cello => "classes share by weight: with a latency, interactive, and bulk transfers",
            Self::VirtualClock => "rates in real time; yardstick: starves who has used spare capacity",
            Self::Sced => "pClock's deadlines without resynchronization; yardstick: starves likewise",
            Self::Edf => "earliest deadline first, no isolation; yardstick",
            Self::Fcfs => "first come, first served, no isolation; yardstick",
        }
    }

    /// The one that is called `name`.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether it can be told who gets spare capacity.
    #[must_use]
    pub const fn knows_spare(self) -> bool {
        matches!(self, Self::PClock)
    }

    /// Whether it keeps a volume's promised latency whatever the others send.
    #[must_use]
    pub const fn isolates_latency(self) -> bool {
        matches!(self, Self::PClock | Self::Nested | Self::Avatar)
    }

    /// Whether it knows more than one class in a promise.
    #[must_use]
    pub const fn knows_classes(self) -> bool {
        matches!(self, Self::Nested | Self::Fcfs)
    }

    /// Whether it reserves.
    #[must_use]
    pub const fn knows_reservations(self) -> bool {
        matches!(self, Self::MClock | Self::Rbfq)
    }

    /// Whether it limits.
    #[must_use]
    pub const fn knows_limits(self) -> bool {
        matches!(self, Self::MClock)
    }

    /// Whether it tells interactive volumes from others.
    #[must_use]
    pub const fn knows_interactive(self) -> bool {
        matches!(self, Self::Cello)
    }

    /// A fresh one without flows. Where spare capacity goes matters to pClock only, and `tuning` to FAIRIO and
    /// Cello.
    ///
    /// # Panics
    /// If `tuning` is outside the ranges, which a configuration that was accepted is not.
    #[must_use]
    pub fn build(self, spare: impl Into<SpareCapacity>, tuning: &Tuning) -> Box<dyn Scheduler + Send> {
        match self {
            Self::PClock => Box::new(PClock::with_spare(spare.into())),
            Self::Nested => Box::new(Nested::new()),
            Self::Avatar => Box::new(Avatar::new()),
            Self::MClock => Box::new(MClock::new()),
            Self::Rbfq => Box::new(Rbfq::new()),
            Self::SfqD => Box::new(SfqD::new()),
            Self::Wf2qPlus => Box::new(Wf2qPlus::new()),
            Self::Fairio => match Fairio::new(tuning.fairio) {
                Ok(fairio) => Box::new(fairio),
                Err(error) => panic!("{error}"),
            },
            Self::Cello => match Cello::new(tuning.cello) {
                Ok(cello) => Box::new(cello),
                Err(error) => panic!("{error}"),
            },
            Self::VirtualClock => Box::new(VirtualClock::new()),
            Self::Sced => Box::new(Sced::new()),
            Self::Edf => Box::new(Edf::new()),
            Self::Fcfs => Box::new(Fcfs::new()),
        }
    }
}

impl fmt::Display for SchedulerKind {
    /// As it is written in the file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_the_schedulers_give_themselves() {
        for kind in SchedulerKind::ALL {
            assert_eq!(kind.build(SpareCapacity::Flows, &Tuning::for_store(1, 1)).name(), kind.name());
            assert_eq!(SchedulerKind::by_name(kind.name()), Some(kind));
        }
        assert_eq!(SchedulerKind::by_name("fifo"), None);
    }

    #[test]
    fn spare_capacity_can_be_set_where_it_is_known() {
        for kind in SchedulerKind::ALL {
            let mut scheduler = kind.build(SpareCapacity::Flows, &Tuning::for_store(1, 1));
            let set = scheduler.set_spare(evenkeel_core::Time::ZERO, SpareCapacity::Background);
            assert_eq!(set.is_ok(), kind.knows_spare(), "{kind}");
        }
    }

    #[test]
    fn each_has_its_page() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schedulers");
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect(name);
        let list = read("README.md");
        for kind in SchedulerKind::ALL {
            let page = format!("{}.md", kind.name().replace('+', "-plus"));
            assert!(list.contains(&format!("[{}]({page})", kind.name())), "{page} is not listed");
            let text = read(&page);
            let lines: Vec<&str> = text.lines().collect();
            let says = |words: &[&str]| {
                let heads = lines.iter().map(|line| line.trim_start_matches(['#', '*', '|', ' ']));
                heads.clone().any(|head| words.iter().any(|word| head.starts_with(word)))
            };
            assert!(says(&["Promise.", "What it promises"]), "{page}: no promise");
            assert!(says(&["Parameters", "parameter"]), "{page}: no parameters");
            assert!(says(&["When to choose it", "Choose it"]), "{page}: not when to choose it");
            assert!(says(&["Worked example", "Timeline"]), "{page}: no worked example");
            assert!(lines.iter().filter(|line| line.starts_with("```")).count() >= 2, "{page}: no drawing");
        }
    }
}
