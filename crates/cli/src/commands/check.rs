//! `evenkeel check`: does the file make sense, and do the promises fit what the stores can do?
//!
//! ```text
//!  file ──> Config ──> per store: envelopes ──> System Capacity Constraint ──> needs N IOPS
//!    │ problems                                                                   │
//!    v                                                                            v
//!  exit 2                                        stated capacity: fits (exit 0), does not (exit 1)
//! ```

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use evenkeel_core::admission::{Binding, Need, demand};
use evenkeel_core::units::NANOS_PER_SECOND;
use evenkeel_core::{Cost, Envelope, Operation, Rate, Slo, Span};
use evenkeel_gateway::config::{self, Admission, Config, GroupConfig, ShownBytes, StoreConfig, VolumeConfig};
use serde_json::{Value, json};

use crate::admission;
use crate::report::{config_error, print};
use crate::text_table::{Align, counted, text_table};

const FITS: u8 = 0;
const DOES_NOT_FIT: u8 = 1;
const BAD_CONFIGURATION: u8 = 2;

const EXIT_CODES: &str = "Exit codes:
  0  the file is right, and the promises fit every capacity that it states
  1  the file is right, but some store cannot keep all of its promises
  2  the file is wrong (every problem is listed), or the command line is

With --json, one object is printed on standard output in every case but a wrong command line:
`ok` is true for exit code 0 only, and `problems` lists {file, line, column, key, message, remedy}.";

/// Options of `evenkeel check`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct CheckArgs {
    /// The configuration file
    file: PathBuf,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Checks the file; the process's exit code.
pub(crate) fn run(args: &CheckArgs) -> u8 {
    let config = match config::load(&args.file) {
        Ok(config) => config,
        Err(error) => {
            config_error(&error, args.json);
            return BAD_CONFIGURATION;
        }
    };
    let checked: Vec<Checked<'_>> =
        (0..config.stores.len()).map(|store| Checked::new(&config, store)).collect();
    let fits = checked.iter().all(|store| store.fits != Some(false));
    if args.json {
        let stores: Vec<Value> = checked.iter().map(Checked::to_json).collect();
        let file = args.file.to_string_lossy();
        print(&format!("{}\n", json!({ "ok": fits, "problems": [], "file": file, "stores": stores })));
    } else {
        print(&summary(&config, args, &checked));
    }
    if fits { FITS } else { DOES_NOT_FIT }
}

/// One store with its volumes and what their promises need.
struct Checked<'c> {
    store: &'c StoreConfig,
    volumes: Vec<CheckedVolume<'c>>,
    groups: Vec<CheckedGroup<'c>>,
    need: Need,
    /// The volume or group whose deadline is the binding one.
    binding: Option<(&'c str, &'c Slo)>,
    /// `None` if no capacity is stated.
    fits: Option<bool>,
    /// What would make it fit.
    changes: Vec<admission::Change>,
    /// Who would be served without a promise.
    best_effort: Vec<&'c str>,
}

struct CheckedVolume<'c> {
    volume: &'c VolumeConfig,
    /// The group that it belongs to.
    group: Option<&'c GroupConfig>,
    /// The capacity that must have been there by the volume's deadline; `None` without a promise of its own.
    demand: Option<Rate>,
}

struct CheckedGroup<'c> {
    group: &'c GroupConfig,
    /// As for a volume.
    demand: Option<Rate>,
}

impl<'c> Checked<'c> {
    fn new(config: &'c Config, store: usize) -> Self {
        let agreements: Vec<(&str, &Slo)> = config.agreements_of(store).collect();
        let promised: Vec<usize> =
            (0..agreements.len()).filter(|index| !agreements[*index].1.is_background()).collect();
        let graduated = agreements.iter().any(|(_, slo)| slo.classes().len() > 1);
        let envelopes: Vec<Envelope> =
            agreements.iter().filter_map(|(_, slo)| slo.envelope().copied()).collect();
        let mut demands = vec![None; agreements.len()];
        for row in demand(&envelopes).iter().filter(|_| !graduated) {
            demands[promised[row.flow]] = Some(row.capacity);
        }
        let need = config.need_of(store);
        let binding = match need.binding {
            Binding::Deadline(flow) => Some(agreements[promised[flow]]),
            Binding::None | Binding::Rates => None,
        };
        // The order of agreements: volumes of their own, then groups.
        let mut demands = demands.into_iter();
        let mut checked = |volume: &'c VolumeConfig| {
            let group = volume.member.map(|member| &config.groups[member.group]);
            let demand = if group.is_none() { demands.next().flatten() } else { None };
            CheckedVolume { volume, group, demand }
        };
        let volumes = config.volumes_of(store).map(&mut checked).collect();
        let groups = config.groups.iter().filter(|group| group.store == store);
        let groups = groups.map(|group| CheckedGroup { group, demand: demands.next().flatten() }).collect();
        let changes = admission::changes(config, store);
        let best_effort = config.best_effort_of(store);
        let store = &config.stores[store];
        let fits = store.capacity.map(|capacity| capacity >= need.capacity);
        Self { store, volumes, groups, need, binding, fits, changes, best_effort }
    }

    fn to_text(&self) -> String {
        let store = self.store;
        let mut text = format!("store {}: {}, depth {}", store.name, store.scheduler, store.shown_depth());
        if let Some(emulate) = &store.emulate {
            let _ = match emulate.rate() {
                Some(rate) => {
                    write!(
                        text,
                        ", emulating {rate} with {}",
                        counted(u64::from(emulate.depth().get()), "server")
                    )
                }
                None if emulate.device.description().is_empty() => {
                    write!(text, ", emulating a device of kind {:?}", emulate.device.model().kind())
                }
                None => write!(text, ", emulating {}", emulate.device.description()),
            };
        }
        text.push('\n');
        let groups = self.groups.iter().map(CheckedGroup::to_row);
        let rows: Vec<_> = self.volumes.iter().map(CheckedVolume::to_row).chain(groups).collect();
        if !rows.is_empty() {
            let heads = [
                ("volume", Align::Left),
                ("promise ⟨burst, rate, latency⟩", Align::Left),
                ("weight", Align::Right),
                ("needs by its deadline", Align::Right),
                ("place", Align::Left),
            ];
            text += &text_table(heads, &rows);
        }
        let _ = writeln!(text, "  {}", self.verdict());
        if self.fits == Some(false) {
            let _ = writeln!(text, "  {}", admission::in_words(&self.changes));
        }
        if !store.scheduler.isolates_latency() && self.need.binding != Binding::None {
            let name = store.scheduler;
            let _ = writeln!(
                text,
                "  note: scheduler \"{name}\" holds nobody to these promises; \"pclock\" does"
            );
        }
        if let Some(words) = store.foreign_profile() {
            let _ = writeln!(text, "  warning: {words}");
        }
        if let Some(blocking) = self.blocking() {
            let depth = store.depth;
            let _ = writeln!(
                text,
                "  note: requests already at the device are not interrupted; with depth {depth} that can add {} to a deadline",
                shown_ms(blocking)
            );
        }
        text
    }

    /// How long a request may have to wait for those that are at the device already, at the stated
    /// capacity (pClock's theorem counts on a server that can be interrupted). `None` where no promise
    /// is kept anyway.
    fn blocking(&self) -> Option<Span> {
        let keeps = self.store.scheduler.isolates_latency() && self.need.binding != Binding::None;
        let capacity = self.store.capacity.filter(|_| keeps && self.fits == Some(true))?;
        let outstanding = Cost::requests(u64::from(self.store.depth.get())).as_millis();
        let nanos = u128::from(outstanding) * u128::from(NANOS_PER_SECOND);
        let nanos = nanos.div_ceil(u128::from(capacity.as_millis().max(1)));
        u64::try_from(nanos).ok().map(Span::from_nanos)
    }

    /// "needs 300 IOPS (binding: the 600 ms deadline of web); stated capacity 350 IOPS: fits, ..."
    fn verdict(&self) -> String {
        let needed = self.need.capacity;
        let need = match (self.need.binding, self.binding) {
            (Binding::None, _) => "promises nothing and needs nothing".to_owned(),
            (_, Some((name, slo))) => {
                let deadlines: Vec<String> =
                    slo.classes().iter().map(|class| class.latency().to_string()).collect();
                let which = if deadlines.len() > 1 { "a deadline among" } else { "the" };
                let deadlines = deadlines.join(", ");
                let noun = if slo.classes().len() > 1 { "" } else { " deadline" };
                format!("needs {needed} (binding: {which} {deadlines}{noun} of {name})")
            }
            _ => format!("needs {needed} (binding: the sum of the rates)"),
        };
        let (Some(capacity), Some(fits)) = (self.store.capacity, self.fits) else {
            return match self.need.binding {
                Binding::None => need,
                _ => format!("{need}; no capacity stated, so nothing to hold it against"),
            };
        };
        let (have, want) = (capacity.as_millis(), needed.as_millis());
        if fits {
            let spare = Rate::from_millis(have.saturating_sub(want));
            return format!("{need}; stated capacity {capacity}: fits, {spare} to spare");
        }
        let lacking = Rate::from_millis(want.saturating_sub(have));
        let then = match self.store.admission {
            Admission::Refuse => "the gateway would refuse to start".to_owned(),
            Admission::Warn => "the gateway would start with a warning".to_owned(),
            Admission::BestEffort => {
                format!("the gateway would promise nothing to {}", self.best_effort.join(", "))
            }
        };
        format!("{need}; stated capacity {capacity}: does not fit, {lacking} are lacking ({then})")
    }

    fn to_json(&self) -> Value {
        let binding = match (self.need.binding, self.binding) {
            (Binding::None, _) => Value::Null,
            (_, Some((name, _))) if self.groups.iter().any(|checked| checked.group.name == name) => {
                json!({ "kind": "deadline", "group": name })
            }
            (_, Some((name, _))) => json!({ "kind": "deadline", "volume": name }),
            _ => json!({ "kind": "rates" }),
        };
        json!({
            "name": self.store.name,
            "scheduler": self.store.scheduler.to_string(),
            "depth": self.store.depth,
            "depth_least": self.store.adaptive.map(|adaptive| adaptive.least),
            "capacity_iops": self.store.capacity.map(Rate::as_f64),
            "blocking_us": self.blocking().map(|span| span.as_nanos() as f64 / 1_000.0),
            "needed_iops": self.need.capacity.as_f64(),
            "binding": binding,
            "fits": self.fits,
            "verdict": self.verdict(),
            "foreign_profile": self.store.foreign_profile(),
            "any_one_of": admission::as_json(&self.changes),
            "best_effort": self.best_effort,
            "volumes": self.volumes.iter().map(CheckedVolume::to_json).collect::<Vec<_>>(),
            "groups": self.groups.iter().map(CheckedGroup::to_json).collect::<Vec<_>>(),
        })
    }
}

impl CheckedVolume<'_> {
    fn to_row(&self) -> [String; 5] {
        let volume = self.volume;
        [
            volume.name.clone(),
            self.group.map_or_else(|| promise(&volume.slo), |group| membership(volume, group)),
            volume.member.map_or(volume.slo.weight(), |member| member.weight).as_u32().to_string(),
            self.demand.map_or("-".to_owned(), |demand| demand.to_string()),
            place(volume),
        ]
    }

    fn to_json(&self) -> Value {
        let volume = self.volume;
        let limit = volume.member.and_then(|member| member.limit);
        json!({
            "name": volume.name,
            "sla": sla(&volume.slo),
            "sla_outer_classes": outer_classes(&volume.slo),
            "reservation_iops": volume.slo.reservation().map(Rate::as_f64),
            "limit_iops": limit.map_or(volume.slo.limit(), |limit| Some(limit.rate())).map(Rate::as_f64),
            "limit_burst_requests": limit.map(|limit| limit.burst().as_f64()),
            "group": self.group.map(|group| &group.name),
            "weight": volume.member.map_or(volume.slo.weight(), |member| member.weight).as_u32(),
            "demand_at_deadline_iops": self.demand.map(Rate::as_f64),
            "cost": cost(volume),
            "request_max_bytes": volume.request_max,
            "path": volume.path.as_ref().map(|path| path.to_string_lossy()),
            "offset_bytes": volume.offset,
            "size_bytes": volume.size,
            "read_only": volume.read_only,
        })
    }
}

impl CheckedGroup<'_> {
    fn to_row(&self) -> [String; 5] {
        let group = self.group;
        [
            format!("group {}", group.name),
            promise(&group.slo),
            group.slo.weight().as_u32().to_string(),
            self.demand.map_or("-".to_owned(), |demand| demand.to_string()),
            String::new(),
        ]
    }

    fn to_json(&self) -> Value {
        let slo = &self.group.slo;
        json!({
            "name": self.group.name,
            "sla": sla(slo),
            "sla_outer_classes": outer_classes(slo),
            "reservation_iops": slo.reservation().map(Rate::as_f64),
            "limit_iops": slo.limit().map(Rate::as_f64),
            "weight": slo.weight().as_u32(),
            "demand_at_deadline_iops": self.demand.map(Rate::as_f64),
        })
    }
}

fn class(envelope: &Envelope) -> Value {
    json!({
        "burst_requests": envelope.burst().as_f64(),
        "rate_iops": envelope.rate().as_f64(),
        "latency_us": envelope.latency().as_nanos() as f64 / 1_000.0,
    })
}

fn sla(slo: &Slo) -> Option<Value> {
    slo.envelope().map(class)
}

fn outer_classes(slo: &Slo) -> Vec<Value> {
    slo.classes().iter().skip(1).map(class).collect()
}

fn summary(config: &Config, args: &CheckArgs, checked: &[Checked<'_>]) -> String {
    let mut text = format!(
        "{}: {}, {}\n",
        args.file.display(),
        counted(config.stores.len() as u64, "store"),
        counted(config.volumes.len() as u64, "volume")
    );
    for store in checked {
        text.push('\n');
        text += &store.to_text();
    }
    text
}

/// What its requests cost, by kind: a number, or pairs of bytes and cost.
fn cost(volume: &VolumeConfig) -> Value {
    let kinds = [
        ("read", Operation::Read),
        ("write", Operation::Write),
        ("flush", Operation::Flush),
        ("trim", Operation::Trim),
        ("write_zeroes", Operation::WriteZeroes),
    ];
    let price = |operation| {
        let price = volume.cost.price(operation);
        match price.points() {
            [] => json!(price.of(0).as_f64()),
            points => points.iter().map(|point| json!([point.bytes, point.cost.as_f64()])).collect(),
        }
    };
    kinds.into_iter().map(|(name, operation)| (name.to_owned(), price(operation))).collect()
}

/// What a volume of a group shares: "as group acme, at most 100 IOPS".
fn membership(volume: &VolumeConfig, group: &GroupConfig) -> String {
    let limit = volume.member.and_then(|member| member.limit);
    let limit =
        limit.map_or(String::new(), |limit| format!(", at most {} and {}", limit.burst(), limit.rate()));
    format!("as group {}{limit}", group.name)
}

/// What a flow is promised: "⟨20, 200 IOPS, 100 ms⟩", "background, at least 100 IOPS, at most 300 IOPS".
fn promise(slo: &Slo) -> String {
    let classes: Vec<String> = slo.classes().iter().map(ToString::to_string).collect();
    let mut text = if classes.is_empty() { "background".to_owned() } else { classes.join(" in ") };
    for (words, rate) in [("at least", slo.reservation()), ("at most", slo.limit())] {
        if let Some(rate) = rate {
            let _ = write!(text, ", {words} {rate}");
        }
    }
    text
}

/// Where a volume's bytes are: "0 B to 1 GiB", "backup.img, all of it".
fn place(volume: &VolumeConfig) -> String {
    let range = match volume.size {
        Some(size) => format!("{} to {}", ShownBytes(volume.offset), ShownBytes(volume.offset + size)),
        None if volume.offset == 0 => "all of it".to_owned(),
        None => format!("{} to its end", ShownBytes(volume.offset)),
    };
    let place = match &volume.path {
        Some(path) => format!("{}, {range}", path.display()),
        None => range,
    };
    if volume.read_only { format!("{place}, read-only") } else { place }
}

fn shown_ms(span: Span) -> String {
    format!("{:.3} ms", span.as_nanos() as f64 / 1e6)
}
