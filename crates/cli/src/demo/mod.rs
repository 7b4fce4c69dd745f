//! `evenkeel demo`: three tenants on one store, first without and then with a scheduler.
//!
//! ```text
//!  steady ─┐                                    ┌ FCFS for N seconds
//!  bursty ─┼─ NBD over a Unix socket ─> Server ─┤                     emulated 1000 IOPS device
//!  bully  ─┘  (real connections)                └ pClock for N seconds
//! ```

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use evenkeel_gateway::{Server, config};
use serde::Serialize;

mod figure;
mod table;
mod tenant;

use tenant::{Measured, Pattern, Tenant};

/// Exit codes of the demonstration.
const KEPT: u8 = 0;
const BROKEN: u8 = 1;
const FAILED: u8 = 2;

/// The emulated device's rate, in requests per second.
const DEVICE_IOPS: u32 = 1000;

const EXIT_CODES: &str = "Exit codes:
  0  every promise was kept under pClock
  1  a tenant that kept to its envelope missed a deadline under pClock
  2  the demonstration could not run";

/// Options of `evenkeel demo`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct DemoArgs {
    /// Seconds under each scheduler.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Print one JSON object instead of tables; no live progress.
    #[arg(long)]
    json: bool,
    /// Draw every tenant's latency under both schedulers into this SVG file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print the configuration that the demonstration runs with, and do nothing else.
    #[arg(long)]
    print_config: bool,
}

/// What one tenant got under one scheduler.
#[derive(Debug, Serialize)]
struct Outcome {
    tenant: &'static str,
    pattern: String,
    promised: String,
    #[serde(flatten)]
    measured: Measured,
    verdict: Verdict,
    /// For the figure.
    #[serde(skip)]
    deadline: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Kept,
    Broken,
    NothingPromised,
}

#[derive(Debug, Serialize)]
struct Phase {
    scheduler: &'static str,
    device_iops: f64,
    tenants: Vec<Outcome>,
}

/// The tenants. Both victims stay a little inside their envelopes, so that a sender's own jitter
/// does not put them outside.
fn tenants() -> [Tenant; 3] {
    [
        Tenant {
            name: "steady",
            sla: Some("{ burst = 4, rate = \"200 IOPS\", latency = \"50 ms\" }"),
            deadline: Some(Duration::from_millis(50)),
            pattern: Pattern::Bursts { size: 1, every: Duration::from_micros(5_500) },
        },
        Tenant {
            name: "bursty",
            sla: Some("{ burst = 40, rate = \"200 IOPS\", latency = \"100 ms\" }"),
            deadline: Some(Duration::from_millis(100)),
            pattern: Pattern::Bursts { size: 36, every: Duration::from_millis(200) },
        },
        Tenant {
            name: "bully",
            sla: None,
            deadline: None,
            pattern: Pattern::Outstanding { connections: 2, each: 64 },
        },
    ]
}

/// Runs the demonstration; the process's exit code.
pub(crate) fn run(args: &DemoArgs) -> u8 {
    match demonstrate(args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("evenkeel demo: {error}");
            FAILED
        }
    }
}

fn demonstrate(args: &DemoArgs) -> io::Result<u8> {
    if args.print_config {
        print!("{}", configuration("pclock"));
        return Ok(KEPT);
    }
    let folder = tempfile::Builder::new().prefix("evenkeel-demo").tempdir()?;
    std::fs::File::create(folder.path().join("store.img"))?.set_len(96 << 20)?;
    if !args.json {
        println!(
            "One emulated device of {DEVICE_IOPS} IOPS, three tenants over NBD, {} s under each scheduler.\n",
            args.seconds
        );
    }
    let mut phases = Vec::new();
    for scheduler in ["fcfs", "pclock"] {
        phases.push(phase(folder.path(), scheduler, args)?);
    }
    if let Some(file) = &args.svg {
        figure::draw(file, &phases, args.seconds)?;
    }
    let broken = phases.iter().any(|phase| {
        phase.scheduler == "pclock" && phase.tenants.iter().any(|it| it.verdict == Verdict::Broken)
    });
    if args.json {
        println!("{}", serde_json::json!({ "seconds": args.seconds, "ok": !broken, "phases": phases }));
    } else {
        for phase in &phases {
            table::print(phase);
        }
        println!("{}", conclusion(&phases, broken));
    }
    Ok(if broken { BROKEN } else { KEPT })
}

fn phase(folder: &Path, scheduler: &'static str, args: &DemoArgs) -> io::Result<Phase> {
    let text = configuration(scheduler);
    let config = config::parse(&text, &folder.join("demo.toml")).map_err(io::Error::other)?;
    let server = Server::start(&config).map_err(io::Error::other)?;
    let socket: PathBuf = folder.join("nbd.sock");
    let duration = Duration::from_secs(args.seconds);
    let progress = (!args.json).then(|| table::Progress::new(scheduler, args.seconds));
    let measured = tenant::run_all(&tenants(), &socket, duration, |seconds, so_far| {
        if let Some(progress) = &progress {
            progress.show(seconds, so_far);
        }
    });
    if let Some(progress) = progress {
        progress.finish();
    }
    let ended = server.shutdown();
    if let Some((store, error)) = ended.failures.into_iter().next() {
        return Err(io::Error::other(format!("store {store}: {error}")));
    }
    let measured = measured?;
    let device_iops = measured.iter().map(|tenant| tenant.received_iops).sum();
    let outcome = |(tenant, measured): (Tenant, Measured)| Outcome {
        tenant: tenant.name,
        pattern: tenant.pattern.to_string(),
        promised: tenant.promised(),
        verdict: match (tenant.deadline, measured.missed) {
            (None, _) => Verdict::NothingPromised,
            (Some(_), 0) => Verdict::Kept,
            (Some(_), _) => Verdict::Broken,
        },
        deadline: tenant.deadline,
        measured,
    };
    Ok(Phase { scheduler, device_iops, tenants: tenants().into_iter().zip(measured).map(outcome).collect() })
}

/// The demonstration's configuration, as one could write it by hand next to a `store.img` of 96 MiB.
fn configuration(scheduler: &str) -> String {
    let mut text = format!(
        "[gateway]\nlisten = [\"unix:nbd.sock\"]\n\n\
         [store.shared]\npath = \"store.img\"\nscheduler = \"{scheduler}\"\n\
         emulate = {{ rate = \"{DEVICE_IOPS} IOPS\", servers = 1 }}\n",
    );
    for (index, tenant) in tenants().iter().enumerate() {
        let offset = index * 32;
        let sla = tenant.sla.map_or(String::new(), |sla| format!("sla = {sla}\n"));
        write!(text, "\n[volume.{}]\noffset = \"{offset} MiB\"\nsize = \"32 MiB\"\n{sla}", tenant.name)
            .expect("writing to a string does not fail");
    }
    text
}

fn conclusion(phases: &[Phase], broken: bool) -> String {
    let misses = |scheduler: &str| -> (u64, u64) {
        let promised = phases.iter().filter(|phase| phase.scheduler == scheduler);
        let promised =
            promised.flat_map(|phase| &phase.tenants).filter(|it| it.verdict != Verdict::NothingPromised);
        promised.fold((0, 0), |(missed, all), it| (missed + it.measured.missed, all + it.measured.received))
    };
    let ((fcfs, fcfs_all), (pclock, pclock_all)) = (misses("fcfs"), misses("pclock"));
    let verdict =
        if broken { "A promise was broken under pClock." } else { "Every promise was kept under pClock." };
    format!(
        "Deadlines missed by the tenants that keep to their envelopes: {fcfs} of {fcfs_all} under FCFS, {pclock} of {pclock_all} under pClock.\n{verdict}"
    )
}
