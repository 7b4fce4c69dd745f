//! Every scheduler, by number.

use evenkeel_core::sched::avatar::Avatar;
use evenkeel_core::sched::cello::{Cello, CelloConfig};
use evenkeel_core::sched::edf::Edf;
use evenkeel_core::sched::fairio::{Fairio, FairioConfig};
use evenkeel_core::sched::fcfs::Fcfs;
use evenkeel_core::sched::mclock::MClock;
use evenkeel_core::sched::nested::Nested;
use evenkeel_core::sched::pclock::PClock;
use evenkeel_core::sched::rbfq::Rbfq;
use evenkeel_core::sched::sced::Sced;
use evenkeel_core::sched::sfq::SfqD;
use evenkeel_core::sched::virtual_clock::VirtualClock;
use evenkeel_core::sched::wf2q::Wf2qPlus;
use evenkeel_core::*;

pub type Boxed = Box<dyn Scheduler + Send>;

/// How many there are: pClock counts twice, under each policy for spare capacity.
pub const KINDS: usize = 14;

pub const FCFS: usize = 0;
pub const PCLOCK: usize = 1;
pub const PCLOCK_LENDING: usize = 2;
pub const CELLO: usize = 13;

/// Number `kind`; FAIRIO with `fairio`.
pub fn scheduler(kind: usize, fairio: FairioConfig) -> Boxed {
    match kind {
        FCFS => Box::new(Fcfs::new()),
        PCLOCK => Box::new(PClock::with_spare(SpareCapacity::Flows)),
        PCLOCK_LENDING => Box::new(PClock::with_spare(SpareCapacity::Background)),
        3 => Box::new(Nested::new()),
        4 => Box::new(MClock::new()),
        5 => Box::new(Rbfq::new()),
        6 => Box::new(SfqD::new()),
        7 => Box::new(Wf2qPlus::new()),
        8 => Box::new(VirtualClock::new()),
        9 => Box::new(Sced::new()),
        10 => Box::new(Edf::new()),
        11 => Box::new(Fairio::new(fairio).unwrap()),
        12 => Box::new(Avatar::new()),
        CELLO => Box::new(Cello::new(CelloConfig::default()).unwrap()),
        _ => unreachable!("one of {KINDS}"),
    }
}
