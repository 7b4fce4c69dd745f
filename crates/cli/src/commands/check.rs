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
use evenkeel_core::{Cost, Envelope, Rate, Span};
use evenkeel_gateway::config::{self, Admission, Config, ShownBytes, StoreConfig, VolumeConfig};
use serde_json::{Value, json};

use crate::report::{config_error, print};
use crate::text_table::{Align, text_table};

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
    need: Need,
    /// The volume whose deadline is the binding one.
    binding: Option<&'c VolumeConfig>,
    /// `None` if no capacity is stated.
    fits: Option<bool>,
}

struct CheckedVolume<'c> {
    volume: &'c VolumeConfig,
    /// The capacity that must have been there by the volume's deadline; `None` without a promise.
    demand: Option<Rate>,
}

impl<'c> Checked<'c> {
    fn new(config: &'c Config, store: usize) -> Self {
        let mut volumes: Vec<_> =
            config.volumes_of(store).map(|volume| CheckedVolume { volume, demand: None }).collect();
        let promised: Vec<usize> =
            (0..volumes.len()).filter(|index| !volumes[*index].volume.slo.is_background()).collect();
        let graduated = volumes.iter().any(|checked| checked.volume.slo.classes().len() > 1);
        let envelopes: Vec<Envelope> =
            volumes.iter().filter_map(|checked| checked.volume.slo.envelope().copied()).collect();
        for row in demand(&envelopes).iter().filter(|_| !graduated) {
            volumes[promised[row.flow]].demand = Some(row.capacity);
        }
        let need = config.need_of(store);
        let binding = match need.binding {
            Binding::Deadline(flow) => Some(volumes[promised[flow]].volume),
            Binding::None | Binding::Rates => None,
        };
        let store = &config.stores[store];
        let fits = store.capacity.map(|capacity| capacity >= need.capacity);
        Self { store, volumes, need, binding, fits }
    }

    fn to_text(&self) -> String {
        let store = self.store;
        let mut text = format!("store {}: {}, depth {}", store.name, store.scheduler, store.depth);
        if let Some(emulate) = &store.emulate {
            let _ = match emulate.rate() {
                Some(rate) => {
                    write!(
                        text,
                        ", emulating {rate} with {}",
                        counted(emulate.depth().get() as usize, "server")
                    )
                }
                None if emulate.device.description().is_empty() => {
                    write!(text, ", emulating a device of kind {:?}", emulate.device.model().kind())
                }
                None => write!(text, ", emulating {}", emulate.device.description()),
            };
        }
        text.push('\n');
        let rows: Vec<_> = self.volumes.iter().map(CheckedVolume::to_row).collect();
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
        if !store.scheduler.isolates_latency() && self.need.binding != Binding::None {
            let name = store.scheduler;
            let _ = writeln!(
                text,
                "  note: scheduler \"{name}\" holds nobody to these promises; \"pclock\" does"
            );
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
            (_, Some(volume)) => {
                let deadlines: Vec<String> =
                    volume.slo.classes().iter().map(|class| class.latency().to_string()).collect();
                let which = if deadlines.len() > 1 { "a deadline among" } else { "the" };
                let deadlines = deadlines.join(", ");
                let noun = if volume.slo.classes().len() > 1 { "" } else { " deadline" };
                format!("needs {needed} (binding: {which} {deadlines}{noun} of {})", volume.name)
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
            Admission::Refuse => "the gateway would refuse to start",
            Admission::Warn => "the gateway would start with a warning",
        };
        format!("{need}; stated capacity {capacity}: does not fit, {lacking} are lacking ({then})")
    }

    fn to_json(&self) -> Value {
        let binding = match (self.need.binding, self.binding) {
            (Binding::None, _) => Value::Null,
            (_, Some(volume)) => json!({ "kind": "deadline", "volume": volume.name }),
            _ => json!({ "kind": "rates" }),
        };
        json!({
            "name": self.store.name,
            "scheduler": self.store.scheduler.to_string(),
            "depth": self.store.depth,
            "capacity_iops": self.store.capacity.map(Rate::as_f64),
            "blocking_us": self.blocking().map(|span| span.as_nanos() as f64 / 1_000.0),
            "needed_iops": self.need.capacity.as_f64(),
            "binding": binding,
            "fits": self.fits,
            "verdict": self.verdict(),
            "volumes": self.volumes.iter().map(CheckedVolume::to_json).collect::<Vec<_>>(),
        })
    }
}

impl CheckedVolume<'_> {
    fn to_row(&self) -> [String; 5] {
        let volume = self.volume;
        [
            volume.name.clone(),
            promise(volume),
            volume.slo.weight().as_u32().to_string(),
            self.demand.map_or("-".to_owned(), |demand| demand.to_string()),
            place(volume),
        ]
    }

    fn to_json(&self) -> Value {
        let volume = self.volume;
        let class = |envelope: &Envelope| {
            json!({
                "burst_requests": envelope.burst().as_f64(),
                "rate_iops": envelope.rate().as_f64(),
                "latency_us": envelope.latency().as_nanos() as f64 / 1_000.0,
            })
        };
        let outer: Vec<Value> = volume.slo.classes().iter().skip(1).map(class).collect();
        let sla = volume.slo.envelope().map(class);
        json!({
            "name": volume.name,
            "sla": sla,
            "sla_outer_classes": outer,
            "reservation_iops": volume.slo.reservation().map(Rate::as_f64),
            "limit_iops": volume.slo.limit().map(Rate::as_f64),
            "weight": volume.slo.weight().as_u32(),
            "demand_at_deadline_iops": self.demand.map(Rate::as_f64),
            "path": volume.path.as_ref().map(|path| path.to_string_lossy()),
            "offset_bytes": volume.offset,
            "size_bytes": volume.size,
            "read_only": volume.read_only,
        })
    }
}

fn summary(config: &Config, args: &CheckArgs, checked: &[Checked<'_>]) -> String {
    let mut text = format!(
        "{}: {}, {}\n",
        args.file.display(),
        counted(config.stores.len(), "store"),
        counted(config.volumes.len(), "volume")
    );
    for store in checked {
        text.push('\n');
        text += &store.to_text();
    }
    text
}

/// What a volume is promised: "⟨20, 200 IOPS, 100 ms⟩", "background, at least 100 IOPS, at most 300 IOPS".
fn promise(volume: &VolumeConfig) -> String {
    let classes: Vec<String> = volume.slo.classes().iter().map(ToString::to_string).collect();
    let mut text = if classes.is_empty() { "background".to_owned() } else { classes.join(" in ") };
    for (words, rate) in [("at least", volume.slo.reservation()), ("at most", volume.slo.limit())] {
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

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
