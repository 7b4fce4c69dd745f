//! `evenkeel serve`: runs the gateway until it is told to stop.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use evenkeel_core::admission::Binding;
use evenkeel_gateway::{CapacityVerdict, Ended, RecordTo, Server, StartError, config};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::admission;
use crate::text_table::counted;

/// Everything in flight was answered and synced.
const CLEAN: u8 = 0;
/// The gateway could not start, or could not end cleanly.
const FAILED: u8 = 1;
/// The configuration is wrong.
const BAD_CONFIGURATION: u8 = 2;
/// A second signal cut the shutdown short.
const CUT_SHORT: u8 = 130;

/// How often to look whether a store's thread has ended by itself.
const WATCH: Duration = Duration::from_millis(500);

/// Signals that come within so long are one.
const SAME_SIGNAL: Duration = Duration::from_secs(1);

const EXIT_CODES: &str = "Exit codes:
  0    ended on SIGTERM or SIGINT; everything in flight was answered and synced
  1    could not start, or not end cleanly; the message says why
  2    the configuration is wrong, or the command line
  130  a second signal, a second or more after the first, cut the shutdown short";

/// Options of `evenkeel serve`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct ServeArgs {
    /// The configuration file.
    file: PathBuf,
    /// Print one JSON object per line: when ready, and at the end.
    #[arg(long)]
    json: bool,
    /// Keep everything that a store's engine is told in this file, for `evenkeel replay`; it must not exist.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// The store to record, if there are several.
    #[arg(long, value_name = "STORE", requires = "record")]
    record_store: Option<String>,
    /// End the recording at this size.
    #[arg(long, value_name = "SIZE", default_value = "1 GiB", value_parser = size, requires = "record")]
    record_max: u64,
    /// Write what that engine answers to this file, a line each; it must not exist.
    #[arg(long, value_name = "FILE", requires = "record")]
    events: Option<PathBuf>,
    /// Log refused requests too.
    #[arg(long, short)]
    verbose: bool,
}

/// Runs the gateway; the process's exit code.
pub(crate) fn run(args: &ServeArgs) -> u8 {
    let config = match config::load(&args.file) {
        Ok(config) => config,
        Err(error) => {
            crate::report::config_error(&error, args.json);
            return BAD_CONFIGURATION;
        }
    };
    let record = match record_to(args, &config) {
        Ok(record) => record,
        Err(message) => {
            failed(&message, args.json);
            return BAD_CONFIGURATION;
        }
    };
    log_to_stderr(args.verbose);
    // Before the gateway's threads, so that none of them is interrupted instead of us.
    let signals = match signals() {
        Ok(signals) => signals,
        Err(error) => return failed(&format!("cannot wait for signals: {error}"), args.json),
    };
    let server = match Server::start_recording(&config, record.as_ref()) {
        Ok(server) => server,
        Err(error) => return refused(&error, &config, args.json),
    };
    for store in &config.stores {
        if let Some(words) = store.foreign_profile() {
            tracing::warn!(store = %store.name, "{words}");
        }
    }
    announce(&server, &config, args.json);
    wait_for_stop(&server, &signals);
    cut_short_by(signals);
    finish(&server.shutdown(), args.json)
}

/// What is to be recorded, if anything is.
fn record_to(args: &ServeArgs, config: &config::Config) -> Result<Option<RecordTo>, String> {
    let Some(file) = &args.record else { return Ok(None) };
    let names: Vec<&str> = config.stores.iter().map(|store| store.name.as_str()).collect();
    let store = match (&args.record_store, names.as_slice()) {
        (None, [only]) => (*only).to_owned(),
        (Some(name), _) if names.contains(&name.as_str()) => name.clone(),
        (Some(name), _) => return Err(format!("there is no store {name:?}; there are {}", names.join(", "))),
        (None, _) => {
            return Err(format!("choose the store to record with --record-store: {}", names.join(", ")));
        }
    };
    let configuration = std::fs::read_to_string(&args.file)
        .map_err(|error| format!("{}: {error}; check its name and permissions", args.file.display()))?;
    let (file, events, bytes_max) = (file.clone(), args.events.clone(), args.record_max);
    Ok(Some(RecordTo { store, file, events, bytes_max, configuration }))
}

fn size(text: &str) -> Result<u64, String> {
    evenkeel_strict::values::bytes(text).map_err(|fault| format!("{}; {}", fault.message, fault.remedy))
}

fn signals() -> io::Result<mpsc::Receiver<i32>> {
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in &mut signals {
            if sender.send(signal).is_err() {
                return;
            }
        }
    })?;
    Ok(receiver)
}

/// A second signal ends the process at once, unless it comes right behind the first: `timeout`, for one, sends to its
/// child and then to its group, and means one.
fn cut_short_by(signals: mpsc::Receiver<i32>) {
    let first = Instant::now();
    thread::spawn(move || {
        while signals.recv().is_ok() {
            if first.elapsed() >= SAME_SIGNAL {
                std::process::exit(i32::from(CUT_SHORT));
            }
        }
    });
}

fn wait_for_stop(server: &Server, signals: &mpsc::Receiver<i32>) {
    loop {
        match signals.recv_timeout(WATCH) {
            Err(RecvTimeoutError::Timeout) if !server.has_failed() => {}
            _ => return,
        }
    }
}

fn announce(server: &Server, config: &config::Config, json: bool) {
    let addresses: Vec<String> = server.addresses().iter().map(ToString::to_string).collect();
    if json {
        let volumes: Vec<&str> = config.volumes.iter().map(|volume| volume.name.as_str()).collect();
        let best_effort: Vec<&str> =
            (0..config.stores.len()).flat_map(|store| config.best_effort_of(store)).collect();
        let ready = serde_json::json!({
            "event": "ready", "listen": addresses, "volumes": volumes, "best_effort": best_effort,
        });
        println!("{ready}");
        return;
    }
    for (index, store) in config.stores.iter().enumerate() {
        let volumes = counted(config.volumes_of(index).count() as u64, "volume");
        for name in config.best_effort_of(index) {
            println!("store {}: {name} does not fit and is served as best effort", store.name);
        }
        println!("store {}: {volumes}, {} at depth {}", store.name, store.scheduler, store.shown_depth());
    }
    println!("ready: listening on {}", addresses.join(", "));
}

fn finish(ended: &Ended, json: bool) -> u8 {
    let clean = ended.failures.is_empty() && ended.abandoned == 0;
    if json {
        let failures: Vec<String> =
            ended.failures.iter().map(|(store, error)| format!("store {store}: {error}")).collect();
        let line = serde_json::json!({
            "event": "ended", "ok": clean, "abandoned": ended.abandoned,
            "failures": failures, "volumes": ended.accounts, "groups": ended.groups, "stores": ended.stores,
        });
        println!("{line}");
    } else {
        for volume in &ended.accounts {
            println!("{}: {}", volume.volume, volume.account.explanation);
        }
        for group in &ended.groups {
            println!("group {}: {}", group.group, group.account.explanation);
        }
        for store in ended.stores.iter().filter(|store| store.depth_changes > 0) {
            println!(
                "store {}: depth {} at the end, changed {} times",
                store.store, store.depth, store.depth_changes
            );
        }
        print_hybrid(ended);
        print_capacity(ended);
        for (store, error) in &ended.failures {
            eprintln!("evenkeel: store {store}: {error}");
        }
        if ended.abandoned > 0 {
            eprintln!(
                "evenkeel: {} requests were not answered within gateway.drain_timeout",
                ended.abandoned
            );
        }
        println!("ended");
    }
    if clean { CLEAN } else { FAILED }
}

/// What hybrid stores did with their devices, and what their devices did to them.
fn print_hybrid(ended: &Ended) {
    for store in &ended.stores {
        let Some(hybrid) = &store.hybrid else { continue };
        println!(
            "store {}: {} of {} slots of the fast device in use; accesses: {} fast, {} slow; clusters: {} copied there, {} back",
            store.store,
            hybrid.slots_used,
            hybrid.slots,
            hybrid.fast_accesses,
            hybrid.slow_accesses,
            hybrid.promoted,
            hybrid.demoted
        );
        for (device, errors, is_lost) in
            [("fast", hybrid.fast_errors, hybrid.fast_lost), ("slow", hybrid.slow_errors, hybrid.slow_lost)]
        {
            if errors > 0 || is_lost {
                let lost = if is_lost { "; the device is LOST" } else { "" };
                println!("store {}: {errors} accesses to the {device} device failed{lost}", store.store);
            }
        }
    }
}

/// Where a device gave less than was counted on, and which promises followed their load.
fn print_capacity(ended: &Ended) {
    for store in &ended.stores {
        let capacity = &store.capacity;
        let (Some(low), Some(high)) = (capacity.seen_low_iops, capacity.seen_high_iops) else { continue };
        let words = match capacity.verdict {
            CapacityVerdict::Short => "less than its promises need",
            CapacityVerdict::SlowerThanStated => "less than its stated capacity",
            CapacityVerdict::Unknown | CapacityVerdict::Fits => continue,
        };
        println!(
            "store {}: the device gave {low:.0} to {high:.0} IOPS while it was busy, {words} (needed {:.0})",
            store.store, capacity.needed_iops
        );
    }
    for volume in &ended.accounts {
        let Some(adapt) = &volume.adapt else { continue };
        let now = format!("burst {}, {} IOPS", adapt.burst_requests, adapt.rate_iops);
        let proposed = adapt.proposed.map_or(String::new(), |(burst, rate)| {
            format!("; burst {burst}, {rate} IOPS would suit what it sends")
        });
        println!("{}: promise adapted {} times, now {now}{proposed}", volume.volume, adapt.changes);
    }
}

fn failed(message: &str, json: bool) -> u8 {
    if json {
        println!("{}", serde_json::json!({ "event": "failed", "ok": false, "message": message }));
    }
    eprintln!("evenkeel: {message}");
    FAILED
}

/// Says why the gateway does not start; where promises do not fit, with what would make them fit.
fn refused(error: &StartError, config: &config::Config, json: bool) -> u8 {
    let StartError::DoesNotFit { store, need, capacity } = error else {
        return failed(&error.to_string(), json);
    };
    let index = config.stores.iter().position(|it| it.name == *store).unwrap_or(0);
    let changes = admission::changes(config, index);
    let promised = config.agreements_of(index).filter(|(_, slo)| !slo.is_background());
    let binding = match config.need_of(index).binding {
        Binding::Deadline(flow) => promised.map(|(name, _)| name).nth(flow),
        Binding::None | Binding::Rates => None,
    };
    let reason = binding
        .map_or("the sum of the rates binds".to_owned(), |name| format!("the deadline of {name} binds"));
    let message = format!("{error}; {reason}; {}", admission::in_words(&changes));
    if json {
        let object = serde_json::json!({
            "event": "failed", "ok": false, "message": message, "store": store, "binding": binding,
            "needed_iops": need.as_f64(), "capacity_iops": capacity.as_f64(),
            "any_one_of": admission::as_json(&changes),
        });
        println!("{object}");
    }
    eprintln!("evenkeel: {message}");
    FAILED
}

fn log_to_stderr(verbose: bool) {
    let level = if verbose { tracing::Level::DEBUG } else { tracing::Level::INFO };
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .with_max_level(level)
        .init();
}
