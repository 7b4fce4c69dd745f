//! `evenkeel hybrid`: hybrid stores while no gateway has them.
//!
//! ```text
//!  create ─> label on the fast device, empty map        check   ─> findings, repaired on request
//!  show   ─> what lies on the fast device               drain   ─> everything home; --dissolve: an end of it
//!  resize ─> other sizes of the devices             choose  ─> a trace's clusters for policy = "offline"
//! ```

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use evenkeel_gateway::config::{self, Config, ShownBytes, StoreConfig};
use evenkeel_hybrid::{Offline, OfflineError, Paths};
use evenkeel_tiering::Geometry;
use evenkeel_tiering::policy::DiskOnly;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use crate::report::{config_error, print};

mod choose;
mod show;

const FINE: u8 = 0;
const FOUND: u8 = 1;
const REFUSED: u8 = 2;

const EXIT_CODES: &str = "Exit codes:
  0  done, and nothing is wrong
  1  something is wrong: check found damage, or not everything could be brought home
  2  nothing was done: the command line or the configuration is wrong, or the store cannot be used

The gateway must not be running: a store has one user at a time.";

/// Options of `evenkeel hybrid`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct HybridArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a hybrid store: label the fast device, and create an empty location map
    ///
    /// The slow device keeps its content. The fast device must be empty at its beginning.
    #[command(after_help = EXIT_CODES)]
    Create(CreateArgs),
    /// Verify label, map, and that every block on the fast device can be read
    #[command(after_help = EXIT_CODES)]
    Check(CheckArgs),
    /// Bring everything home to the slow device, so that the fast one can be removed
    #[command(after_help = EXIT_CODES)]
    Drain(DrainArgs),
    /// Take note of other sizes of the devices
    ///
    /// A device that has grown is taken in whole. Before a fast device is made smaller, name its coming size
    /// with --fast: what lies beyond goes home first.
    #[command(after_help = EXIT_CODES)]
    Resize(ResizeArgs),
    /// Show what lies on the fast device, by volume and over the store
    #[command(after_help = EXIT_CODES)]
    Show(ShowArgs),
    /// Choose from a trace what policy = "offline" keeps on the fast device
    ///
    /// Volume 0 of the trace is the first volume of the store in the configuration, and so on. Clusters that are read
    /// at random and gain by it are chosen, those that gain most per write first, until the fast device is full
    /// (Jain 2008, sections 3.3.1 and 4.2). `evenkeel calibrate` measures the access times.
    #[command(after_help = EXIT_CODES)]
    Choose(choose::ChooseArgs),
}

/// Which store.
#[derive(Debug, Args)]
struct Which {
    /// The configuration file
    file: PathBuf,
    /// The name of a store with backend = "hybrid"
    store: String,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct CreateArgs {
    #[command(flatten)]
    which: Which,
    /// What is placed as a whole: a power of two, at most 256 blocks
    #[arg(long, default_value = "1MiB", value_name = "SIZE", value_parser = size)]
    cluster: u32,
    /// What is located by itself, and moved by a write that covers it: a power of two of at least 512 B
    #[arg(long, default_value = "4KiB", value_name = "SIZE", value_parser = size)]
    block: u32,
}

#[derive(Debug, Args)]
struct CheckArgs {
    #[command(flatten)]
    which: Which,
    /// Give up entries that are impossible or unreadable: their blocks are again what the slow device holds
    #[arg(long)]
    repair: bool,
}

#[derive(Debug, Args)]
struct DrainArgs {
    #[command(flatten)]
    which: Which,
    /// Erase the label and remove the map as well: the slow device is then a plain store
    #[arg(long)]
    dissolve: bool,
    /// The fast device is gone for good: give up what only it has, and say what that is
    #[arg(long, conflicts_with = "dissolve")]
    without_fast: bool,
}

#[derive(Debug, Args)]
struct ResizeArgs {
    #[command(flatten)]
    which: Which,
    /// Bytes of the fast device to use, its label included; without it, all of it
    #[arg(long, value_name = "SIZE", value_parser = large_size)]
    fast: Option<u64>,
}

#[derive(Debug, Args)]
struct ShowArgs {
    #[command(flatten)]
    which: Which,
}

/// Does what the command line asks; the process's exit code.
pub(crate) fn run(args: &HybridArgs) -> u8 {
    match &args.action {
        Action::Create(args) => on_store(&args.which, |store| create(args, store)),
        Action::Check(args) => on_store(&args.which, |store| check(args, store)),
        Action::Drain(args) => on_store(&args.which, |store| drain(args, store)),
        Action::Resize(args) => on_store(&args.which, |store| resize(args, store)),
        Action::Show(args) => on_store(&args.which, show::show),
        Action::Choose(args) => on_store(&args.which, |store| choose::choose(args, store)),
    }
}

/// The store that a command is about.
struct Store<'c> {
    config: &'c Config,
    index: usize,
    store: &'c StoreConfig,
    paths: Paths,
    json: bool,
}

/// What a command has to say: for people, for programs, and the exit code.
struct Said {
    text: String,
    json: Value,
    code: u8,
}

fn on_store(which: &Which, act: impl FnOnce(&Store<'_>) -> Result<Said, OfflineError>) -> u8 {
    let config = match config::load(&which.file) {
        Ok(config) => config,
        Err(error) => {
            config_error(&error, which.json);
            return REFUSED;
        }
    };
    let said = match find(&config, which) {
        Ok(store) => act(&store).unwrap_or_else(|error| {
            let code = if matches!(error, OfflineError::NotDrained { .. }) { FOUND } else { REFUSED };
            failure(&format!("store {}: {error}", which.store), code)
        }),
        Err(message) => failure(&message, REFUSED),
    };
    if which.json {
        print(&format!("{}\n", said.json));
    } else if said.json["message"].is_string() {
        eprint!("{}", said.text);
    } else {
        print(&said.text);
    }
    said.code
}

fn failure(message: &str, code: u8) -> Said {
    Said { text: format!("evenkeel: {message}\n"), json: json!({ "ok": false, "message": message }), code }
}

fn find<'c>(config: &'c Config, which: &Which) -> Result<Store<'c>, String> {
    let file = which.file.display();
    let index = config.stores.iter().position(|store| store.name == which.store).ok_or_else(|| {
        let names: Vec<&str> = config.stores.iter().map(|store| store.name.as_str()).collect();
        format!("{file}: there is no store {:?}; it has {}", which.store, names.join(", "))
    })?;
    let store = &config.stores[index];
    let (Some(hybrid), Some(slow)) = (&store.hybrid, &store.path) else {
        return Err(format!(
            "{file}: store {:?} is not hybrid; write backend = \"hybrid\" and hybrid = {{ fast = …, map = … }} first",
            which.store
        ));
    };
    let paths = Paths { slow: slow.clone(), fast: hybrid.fast.clone(), map: hybrid.map.clone() };
    Ok(Store { config, index, store, paths, json: which.json })
}

fn create(args: &CreateArgs, store: &Store<'_>) -> Result<Said, OfflineError> {
    let geometry = Geometry::new(args.cluster, args.block)?;
    Offline::create(&store.paths, geometry)?;
    let offline = Offline::open(&store.paths, Box::new(DiskOnly))?;
    let about = *offline.about();
    let slots = geometry.slots(about.fast_bytes);
    let text = format!(
        "store {}: hybrid now, {} in front of {}; {slots} clusters of {} fit on the fast device\n",
        store.store.name,
        shown(about.fast_bytes),
        shown(about.store_bytes),
        ShownBytes(u64::from(about.cluster_bytes)),
    );
    let json = json!({
        "ok": true, "store": store.store.name, "cluster_bytes": about.cluster_bytes,
        "block_bytes": about.block_bytes, "store_bytes": about.store_bytes, "fast_bytes": about.fast_bytes,
        "slots": slots,
    });
    Ok(Said { text, json, code: FINE })
}

fn check(args: &CheckArgs, store: &Store<'_>) -> Result<Said, OfflineError> {
    let bar = bar("checking", store.json);
    let findings = Offline::check(&store.paths, args.repair, &mut |done, all| advance(&bar, done, all))?;
    bar.finish_and_clear();
    let name = &store.store.name;
    let mut text = String::new();
    for finding in &findings {
        let _ = writeln!(text, "  {}", finding.problem);
    }
    let count = findings.len();
    let verdict = match (count, args.repair) {
        (0, _) => "label and map agree, every entry is possible, every block on the fast device is readable",
        (_, true) => "damaged entries were given up; their blocks are again what the slow device holds",
        (_, false) => {
            "damage was found; --repair gives those entries up, their blocks are then what the slow device holds"
        }
    };
    let _ = writeln!(text, "store {name}: {count} findings: {verdict}");
    let listed: Vec<Value> = findings
        .iter()
        .map(|finding| json!({ "cluster": finding.cluster, "problem": finding.problem }))
        .collect();
    let repaired = args.repair && count > 0;
    let json = json!({ "ok": count == 0, "store": name, "findings": listed, "repaired": repaired });
    Ok(Said { text, json, code: if count == 0 { FINE } else { FOUND } })
}

fn drain(args: &DrainArgs, store: &Store<'_>) -> Result<Said, OfflineError> {
    let name = &store.store.name;
    if args.without_fast {
        return give_up(store);
    }
    let bar = bar("bringing home", store.json);
    let mut progress = |done, all| advance(&bar, done, all);
    let mut offline = Offline::open(&store.paths, Box::new(DiskOnly))?;
    let clusters = offline.entries().len();
    if args.dissolve {
        offline.dissolve(&mut progress)?;
    } else {
        offline.drain(&mut progress)?;
    }
    bar.finish_and_clear();
    let next = if args.dissolve {
        "label and map are gone; remove backend and hybrid from the configuration, and the fast device"
    } else {
        "the fast device is empty, and fills again when the gateway runs; --dissolve makes an end of it"
    };
    let text = format!("store {name}: {clusters} clusters brought home; {next}\n");
    let json = json!({ "ok": true, "store": name, "clusters": clusters, "dissolved": args.dissolve });
    Ok(Said { text, json, code: FINE })
}

fn give_up(store: &Store<'_>) -> Result<Said, OfflineError> {
    let cluster_bytes = show::cluster_bytes(&store.paths)?;
    let entries = Offline::abandon(&store.paths)?;
    let lost = show::by_volume(store, cluster_bytes.0, cluster_bytes.1, &entries);
    let mut text = String::new();
    for (volume, on_fast) in &lost {
        let _ = writeln!(
            text,
            "  volume {volume}: {} in {} clusters are as old as the slow device has them",
            shown(on_fast.bytes),
            on_fast.clusters
        );
    }
    let _ = writeln!(
        text,
        "store {}: {} clusters given up; the map is kept aside as {}.abandoned; remove backend and hybrid from \
         the configuration, and check what the volumes hold",
        store.store.name,
        entries.len(),
        store.paths.map.display()
    );
    let volumes: Vec<Value> = lost
        .iter()
        .map(|(name, lost)| json!({ "name": name, "lost_bytes": lost.bytes, "lost_clusters": lost.clusters }))
        .collect();
    let json = json!({
        "ok": entries.is_empty(), "store": store.store.name, "clusters": entries.len(), "volumes": volumes,
    });
    Ok(Said { text, json, code: if entries.is_empty() { FINE } else { FOUND } })
}

fn resize(args: &ResizeArgs, store: &Store<'_>) -> Result<Said, OfflineError> {
    let bar = bar("bringing home", store.json);
    let offline = Offline::open(&store.paths, Box::new(DiskOnly))?;
    let before = *offline.about();
    let after = offline.resize(args.fast, &mut |done, all| advance(&bar, done, all))?;
    bar.finish_and_clear();
    let change = |what: &str, before: u64, after: u64| match before == after {
        true => format!("{what} {}", shown(after)),
        false => format!("{what} {} instead of {}", shown(after), shown(before)),
    };
    let text = format!(
        "store {}: {}, {}\n",
        store.store.name,
        change("fast", before.fast_bytes, after.fast_bytes),
        change("slow", before.store_bytes, after.store_bytes)
    );
    let json = json!({
        "ok": true, "store": store.store.name, "fast_bytes": after.fast_bytes, "store_bytes": after.store_bytes,
        "fast_bytes_before": before.fast_bytes, "store_bytes_before": before.store_bytes,
    });
    Ok(Said { text, json, code: FINE })
}

/// A bar on standard error, and only on a terminal.
fn bar(what: &'static str, hidden: bool) -> ProgressBar {
    let target = if hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = ProgressBar::with_draw_target(None, target);
    if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos} of {len} clusters, {eta} left") {
        bar.set_style(style);
    }
    bar.set_message(what);
    bar
}

fn advance(bar: &ProgressBar, done: u64, all: u64) {
    bar.set_length(all);
    bar.set_position(done);
}

/// Bytes as people read them: exact where a unit fits, else with two decimals.
fn shown(bytes: u64) -> String {
    let exact = ShownBytes(bytes).to_string();
    if !exact.ends_with(" B") || bytes < 10_000 {
        return exact;
    }
    let (unit, name) = [(1_u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]
        .into_iter()
        .find(|(unit, _)| bytes >= *unit)
        .unwrap_or((1, "B"));
    format!("{:.2} {name}", bytes as f64 / unit as f64)
}

fn large_size(text: &str) -> Result<u64, String> {
    evenkeel_strict::values::bytes(text).map_err(|fault| format!("{}; {}", fault.message, fault.remedy))
}

fn size(text: &str) -> Result<u32, String> {
    u32::try_from(large_size(text)?).map_err(|_| "this is 4 GiB or more; write at most \"2 GiB\"".to_owned())
}
