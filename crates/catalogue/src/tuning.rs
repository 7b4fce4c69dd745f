//! What some schedulers want to know beyond the promises: a table of their own beside `scheduler`.

use evenkeel_core::sched::cello::CelloConfig;
use evenkeel_core::sched::fairio::{Accounting, FairioConfig, FairioConfigError};
use evenkeel_core::{Span, Weight};
use evenkeel_strict::{Item, Report, Table};

use crate::SchedulerKind;

const FAIRIO_FORM: &str = "write fairio = { cycle = \"1 s\", disks = 8 }";
const CELLO_FORM: &str = "write cello = { real_time = 3, interactive = 2, throughput = 1 }";

/// The parameters of the schedulers that have some, whichever is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// FAIRIO's. Disk time is estimated, unless the owner of a device that tells it says otherwise.
    pub fairio: FairioConfig,
    /// Cello's.
    pub cello: CelloConfig,
}

impl Tuning {
    /// The defaults for a store with `depth` requests outstanding at `disks` disks: cycles of 1 s, and an
    /// under-loaded store at half of the depth, 16 at most. (At the depth itself it would never be loaded.)
    #[must_use]
    pub fn for_store(depth: u32, disks: u32) -> Self {
        let disks = disks.clamp(1, 4_096);
        let load_threshold = (depth / 2).clamp(1, 16);
        let fairio = FairioConfig { load_threshold, ..FairioConfig::new(Span::from_millis(1_000), disks) };
        Self { fairio, cello: CelloConfig::default() }
    }
}

/// The tables of the store as they stand in the file; to be read when depth and device are known.
pub struct TuningItems<'t> {
    fairio: Option<Item<'t>>,
    cello: Option<Item<'t>>,
}

impl<'t> TuningItems<'t> {
    /// Reads all tables, for a file that is run under several schedulers. FAIRIO goes by `accounting` unless its
    /// table says otherwise.
    pub fn read_all(&self, report: &mut Report, depth: u32, disks: u32, accounting: Accounting) -> Tuning {
        let mut tuning = Tuning::for_store(depth, disks);
        tuning.fairio.accounting = accounting;
        if let Some(item) = &self.fairio {
            read_fairio(report, item, depth, &mut tuning.fairio);
        }
        if let Some(item) = &self.cello {
            read_cello(report, item, &mut tuning.cello);
        }
        tuning
    }

    /// Takes the tables of all schedulers out of `table`.
    pub fn take(table: &mut Table<'t>) -> Self {
        Self { fairio: table.take("fairio"), cello: table.take("cello") }
    }

    /// Reads the table of `scheduler`; one of another scheduler is refused.
    pub fn read(&self, report: &mut Report, scheduler: SchedulerKind, depth: u32, disks: u32) -> Tuning {
        let mut tuning = Tuning::for_store(depth, disks);
        let tables = [(&self.fairio, SchedulerKind::Fairio), (&self.cello, SchedulerKind::Cello)];
        for (item, owner) in tables {
            let Some(item) = item else { continue };
            if scheduler != owner {
                let message = format!("{scheduler} does not use it");
                item.refuse(report, message, format!("remove this line, or write scheduler = \"{owner}\""));
            } else if owner == SchedulerKind::Fairio {
                read_fairio(report, item, depth, &mut tuning.fairio);
            } else {
                read_cello(report, item, &mut tuning.cello);
            }
        }
        tuning
    }
}

fn read_fairio(report: &mut Report, item: &Item<'_>, depth: u32, fairio: &mut FairioConfig) {
    let Some(mut table) = item.table(report, FAIRIO_FORM) else { return };
    let numbers = [
        ("disks", 1..=4_096, &mut fairio.disks),
        ("window", 1..=256, &mut fairio.window_cycles),
        ("class_threshold", 1..=1 << 20, &mut fairio.class_threshold),
        ("load_threshold", 1..=65_536, &mut fairio.load_threshold),
    ];
    for (name, range, value) in numbers {
        let Some(item) = table.take(name) else { continue };
        let Some(number) = item.whole(report, range) else { continue };
        if name == "load_threshold" && number >= depth.max(2) {
            let message = format!("a store with at most {depth} outstanding would always be under-loaded");
            let remedy = format!("write at most {}, or raise depth", (depth - 1).max(1));
            item.refuse(report, message, remedy);
        }
        *value = number;
    }
    if let Some(item) = table.take("accounting") {
        let choices = [("shared", Accounting::Estimated), ("queued", Accounting::Queued)];
        fairio.accounting = item.choice(report, &choices).unwrap_or(fairio.accounting);
    }
    let times = [
        ("cycle", FairioConfigError::Cycle, &mut fairio.cycle),
        ("first_request", FairioConfigError::FirstRequest, &mut fairio.first_request),
    ];
    for (name, error, value) in times {
        let Some(item) = table.take(name) else { continue };
        let Some(span) = item.time(report) else { continue };
        let mut trial = FairioConfig::new(Span::from_millis(1_000), 1);
        match error {
            FairioConfigError::Cycle => trial.cycle = span,
            _ => trial.first_request = span,
        }
        match trial.check() {
            Ok(()) => *value = span,
            Err(error) => item.refuse(report, error.to_string(), "write a time such as \"1 s\" or \"5 ms\""),
        }
    }
    table.finish(report);
}

fn read_cello(report: &mut Report, item: &Item<'_>, cello: &mut CelloConfig) {
    let Some(mut table) = item.table(report, CELLO_FORM) else { return };
    let weights = [
        ("real_time", &mut cello.real_time),
        ("interactive", &mut cello.interactive),
        ("throughput", &mut cello.throughput),
    ];
    for (name, value) in weights {
        let weight = table.take(name).and_then(|item| item.whole(report, 1..=Weight::MAX.as_u32()));
        *value = weight.and_then(Weight::new).unwrap_or(*value);
    }
    if let Some(item) = table.take("quantum")
        && let Some(quantum) = item.requests(report)
    {
        match (CelloConfig { quantum, ..*cello }).check() {
            Ok(()) => cello.quantum = quantum,
            Err(error) => item.refuse(report, error.to_string(), "write a number of requests, as 4"),
        }
    }
    table.finish(report);
}
