//! `cargo xtask bench isolation`: two victims beside an aggressor on a slow serial device.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::fio::{self, Measured, Run};
use super::median;
use super::peers::{PEERS, SOURCE};
use super::server::Server;
use crate::{Outcome, workspace};

/// Choices of `cargo xtask bench isolation`.
#[derive(Args)]
pub(crate) struct Options {
    /// Seconds for each measurement.
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(4..))]
    seconds: u32,
    /// Rounds; the medians are printed.
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Over how many connections the aggressor spreads its 64 requests. Servers that take turns among
    /// connections look better with few; 64 reproduces what was measured for nbdkit earlier.
    #[arg(long, default_value = "64", value_name = "N", value_parser = ["1", "2", "4", "8", "16", "32", "64"])]
    aggressor_connections: String,
    /// Only these servers, with commas between: pclock, fcfs, nbdkit.
    #[arg(long, value_name = "SERVERS", value_delimiter = ',')]
    servers: Vec<String>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// The device, and the SLAs of the victims. They fit it: what may arrive at once with deadlines up to
/// t must not exceed what the device serves by then,
///
/// ```text
///  t =  6 ms:  2                                   =  2.0 <=  2.85
///  t = 82 ms:  2 + 60 x (0.082 - 0.006)  +  32     = 38.6 <= 38.95
///  rates:      60 + 64                             =  124 <= 475
/// ```
///
/// The aggressor has no SLA: it runs in the background, on whatever the victims leave.
const CONFIG: &str = r#"
[store.pool]
path = "pool.img"
capacity = "475 IOPS"
scheduler = "SCHEDULER"
depth = 1
emulate = { rate = "475 IOPS", servers = 1 }

[volume.paced]
store = "pool"
offset = "0 B"
size = "256 MiB"
sla = { burst = 2, rate = "60 IOPS", latency = "6 ms" }

[volume.burst]
store = "pool"
offset = "256 MiB"
size = "256 MiB"
sla = { burst = 32, rate = "64 IOPS", latency = "82 ms" }

[volume.aggressor]
store = "pool"
offset = "512 MiB"
size = "512 MiB"
"#;

/// The file behind the device; it stays a hole.
const POOL_BYTES: u64 = 1 << 30;

/// The bars: milliseconds, milliseconds, requests per second.
const PACED_P99_MS: f64 = 6.1;
const BURST_P99_MS: f64 = 83.0;
const TOTAL_IOPS: f64 = 465.0;

/// A client: the export that it opens and how it behaves.
struct Client {
    name: &'static str,
    options: &'static str,
}

/// One request every 20 ms, one at a time.
const PACED: Client = Client { name: "paced", options: "--iodepth=1 --rate_iops=50 --rate_process=linear" };

/// 32 requests written at once, then the answers, then a second's rest (seen so in a server's log).
/// Without `type=issue` fio would wait for completions before it thinks, and lose each one's latency.
const BURST: Client = Client {
    name: "burst",
    options: "--iodepth=32 --iodepth_batch_submit=32 --iodepth_batch_complete_min=1 \
              --iodepth_batch_complete_max=32 --thinktime=1s --thinktime_blocks=32 --thinktime_blocks_type=issue",
};

/// As much as it gets with 64 outstanding; the number of its connections is an option.
const AGGRESSOR: Client = Client { name: "aggressor", options: "" };

/// Who runs at one time.
struct Scenario {
    name: &'static str,
    clients: &'static [&'static Client],
}

const SCENARIOS: [Scenario; 5] = [
    Scenario { name: "paced alone", clients: &[&PACED] },
    Scenario { name: "burst alone", clients: &[&BURST] },
    Scenario { name: "paced + aggressor", clients: &[&PACED, &AGGRESSOR] },
    Scenario { name: "burst + aggressor", clients: &[&BURST, &AGGRESSOR] },
    Scenario { name: "paced + burst + aggressor", clients: &[&PACED, &BURST, &AGGRESSOR] },
];

/// The scenario that the bars are judged on: everybody at once.
const JUDGED: &str = SCENARIOS[4].name;

const SERVERS: [(&str, &str); 3] = [
    ("pclock", "evenkeel, pclock"),
    ("fcfs", "evenkeel, fcfs (no isolation, for contrast)"),
    ("nbdkit", "nbdkit on a device of the same speed (no QoS)"),
];

/// Medians of one scenario on one server, a row for each client and the device's total.
struct Row {
    server: &'static str,
    scenario: &'static str,
    clients: Vec<Measured>,
    total_iops: f64,
}

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Outcome<()> {
    fio::check()?;
    let servers = chosen_servers(options)?;
    let ours = servers.iter().any(|(key, _)| *key != "nbdkit");
    let evenkeel = if ours { Some(workspace::build_release()?) } else { None };
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    let pool = folder.path().join("pool.img");
    File::create(&pool)
        .and_then(|file| file.set_len(POOL_BYTES))
        .map_err(|error| format!("{}: {error}", pool.display()))?;
    let mut rows = Vec::new();
    for scenario in &SCENARIOS {
        let mut rounds: Vec<Vec<Vec<Measured>>> = servers.iter().map(|_| Vec::new()).collect();
        for round in 1..=options.rounds {
            for ((key, _), rounds) in servers.iter().zip(&mut rounds) {
                eprintln!("{}: {key}, round {round} of {}", scenario.name, options.rounds);
                rounds.push(measure(key, scenario, options, folder.path(), evenkeel.as_ref())?);
            }
        }
        rows.extend(servers.iter().zip(&rounds).map(|((key, _), rounds)| summary(key, scenario, rounds)));
    }
    let facts = workspace::facts();
    if options.json {
        println!("{:#}", as_json(&facts, options, &rows));
    } else {
        print_tables(&facts, options, &rows);
    }
    Ok(())
}

fn chosen_servers(options: &Options) -> Outcome<Vec<(&'static str, &'static str)>> {
    if let Some(unknown) = options.servers.iter().find(|name| SERVERS.iter().all(|(key, _)| key != name)) {
        return Err(format!("--servers: `{unknown}` is unknown; there are pclock, fcfs, nbdkit"));
    }
    let wanted = |key: &str| options.servers.is_empty() || options.servers.iter().any(|name| name == key);
    let present = |(key, _): &(&str, &str)| {
        let here = *key != "nbdkit" || workspace::find_program("nbdkit").is_some();
        if !here {
            eprintln!("nbdkit is not installed: left out");
        }
        here
    };
    Ok(SERVERS.into_iter().filter(|(key, _)| wanted(key)).filter(present).collect())
}

fn measure(
    server: &str,
    scenario: &Scenario,
    choices: &Options,
    folder: &Path,
    evenkeel: Option<&PathBuf>,
) -> Outcome<Vec<Measured>> {
    let socket = folder.join("nbd.sock");
    let words = command(server, folder, &socket, evenkeel)?;
    let cores = fio::cores();
    let _server = Server::start(&words, folder, &socket, cores.map(|(server, _)| server))?;
    let job = |client: &&Client| {
        let mut options = fio::words(client.options);
        if client.name == AGGRESSOR.name {
            options.extend(aggressor_shape(choices));
        }
        options.push(format!("--uri={}", fio::uri(client.name, &socket)));
        (client.name.to_owned(), options)
    };
    let run = Run {
        global: fio::words(&format!("--rw=randread --bs=4k --size=256M --runtime={}", choices.seconds)),
        jobs: scenario.clients.iter().map(job).collect(),
        core: cores.map(|(_, client)| client),
        folder,
    };
    run.run().map_err(|problem| format!("{server}, {}: {problem}", scenario.name))
}

/// 64 requests outstanding, over as many connections as asked for.
fn aggressor_shape(choices: &Options) -> Vec<String> {
    let connections: u32 = choices.aggressor_connections.parse().unwrap_or(1);
    fio::words(&format!("--numjobs={connections} --iodepth={}", 64 / connections))
}

fn command(server: &str, folder: &Path, socket: &Path, evenkeel: Option<&PathBuf>) -> Outcome<Vec<String>> {
    let socket = socket.display();
    if server == "nbdkit" {
        return Ok(fio::words(&format!(
            "nbdkit -f -U {socket} --filter=noparallel --filter=delay pattern 1G delay-read=2ms \
             serialize=all-requests"
        )));
    }
    let config = folder.join("evenkeel.toml");
    let listen = format!("[gateway]\nlisten = [\"unix://{socket}\"]\n");
    fs::write(&config, listen + &CONFIG.replace("SCHEDULER", server))
        .map_err(|error| format!("{}: {error}", config.display()))?;
    let program = evenkeel.ok_or("evenkeel was not built")?;
    Ok(vec![program.display().to_string(), "serve".into(), "evenkeel.toml".into()])
}

fn summary(server: &'static str, scenario: &Scenario, rounds: &[Vec<Measured>]) -> Row {
    let column = |at: usize, field: fn(&Measured) -> f64| {
        median(rounds.iter().filter_map(|clients| clients.get(at)).map(field))
    };
    let client = |(at, client): (usize, &&Client)| Measured {
        name: client.name.into(),
        iops: column(at, |client| client.iops),
        requests: column(at, |client| client.requests),
        bytes_per_s: column(at, |client| client.bytes_per_s),
        p50_us: column(at, |client| client.p50_us),
        p99_us: column(at, |client| client.p99_us),
    };
    Row {
        server,
        scenario: scenario.name,
        clients: scenario.clients.iter().enumerate().map(client).collect(),
        total_iops: median(rounds.iter().map(|clients| clients.iter().map(|client| client.iops).sum())),
    }
}

impl Row {
    fn client(&self, name: &str) -> Option<&Measured> {
        self.clients.iter().find(|client| client.name == name)
    }
}

/// Each bar: what it asks, what was reached, whether that is enough.
fn bars(rows: &[Row]) -> Vec<(&'static str, f64, f64, bool)> {
    let Some(row) = rows.iter().find(|row| row.server == "pclock" && row.scenario == JUDGED) else {
        return Vec::new();
    };
    let p99_ms = |name| row.client(name).map_or(f64::INFINITY, |client| client.p99_us / 1e3);
    let (paced, burst, total) = (p99_ms("paced"), p99_ms("burst"), row.total_iops);
    vec![
        ("paced victim's p99, ms, at most", PACED_P99_MS, paced, paced <= PACED_P99_MS),
        ("bursting victim's p99, ms, at most", BURST_P99_MS, burst, burst <= BURST_P99_MS),
        ("device's total, IOPS, at least", TOTAL_IOPS, total, total >= TOTAL_IOPS),
    ]
}

fn print_tables(facts: &Value, options: &Options, rows: &[Row]) {
    println!("{}", workspace::facts_line(facts));
    println!(
        "serial device of 475 IOPS; aggressor: 64 requests over {} connections; medians of {} rounds of {} s; \
         p99 of the total latency",
        options.aggressor_connections, options.rounds, options.seconds
    );
    for (key, name) in SERVERS {
        let mut rows = rows.iter().filter(|row| row.server == key).peekable();
        if rows.peek().is_none() {
            continue;
        }
        println!("\n{name}");
        println!(
            "  {:<27}{:>11}{:>14}{:>11}{:>14}{:>16}{:>12}",
            "scenario",
            "paced IOPS",
            "paced p99 ms",
            "burst IOPS",
            "burst p99 ms",
            "aggressor IOPS",
            "total IOPS"
        );
        for row in rows {
            let cell = |name: &str, field: fn(&Measured) -> f64, digits: usize| {
                row.client(name).map_or_else(|| "-".into(), |client| format!("{:.digits$}", field(client)))
            };
            println!(
                "  {:<27}{:>11}{:>14}{:>11}{:>14}{:>16}{:>12.0}",
                row.scenario,
                cell("paced", |client| client.iops, 0),
                cell("paced", |client| client.p99_us / 1e3, 1),
                cell("burst", |client| client.iops, 0),
                cell("burst", |client| client.p99_us / 1e3, 1),
                cell("aggressor", |client| client.iops, 0),
                row.total_iops,
            );
        }
    }
    print_beside_peers(rows);
    println!();
    let bars = bars(rows);
    if bars.is_empty() {
        println!("bars not judged: they need the pclock server");
    }
    for (what, asked, reached, met) in bars {
        println!("bar {}: {what} {asked}: {reached:.1}", if met { "met" } else { "NOT met" });
    }
}

/// One line for each of our servers in the form of the peers' table, then theirs.
fn print_beside_peers(rows: &[Row]) {
    println!("\neach victim beside the aggressor, ours (this run) and peers");
    println!(
        "  {:<46}{:>11}{:>14}{:>14}  device used",
        "server", "paced IOPS", "paced p99 ms", "burst p99 ms"
    );
    for (key, name) in SERVERS {
        let find = |scenario: &str| rows.iter().find(|row| row.server == key && row.scenario == scenario);
        let (Some(paced), Some(burst)) = (find(SCENARIOS[2].name), find(SCENARIOS[3].name)) else { continue };
        let (Some(one), Some(other)) = (paced.client("paced"), burst.client("burst")) else { continue };
        let used = 100.0 * paced.total_iops.min(burst.total_iops) / 475.0;
        println!(
            "* {name:<46}{:>11.0}{:>14.1}{:>14.1}  {used:.0} %",
            one.iops,
            one.p99_us / 1e3,
            other.p99_us / 1e3,
        );
    }
    for peer in PEERS {
        println!(
            "  {:<46}{:>11}{:>14}{:>14}  {}",
            peer.name, peer.paced_iops, peer.paced_p99_ms, peer.burst_p99_ms, peer.device
        );
    }
    println!("  {SOURCE}");
}

fn as_json(facts: &Value, options: &Options, rows: &[Row]) -> Value {
    let client = |client: &Measured| {
        json!({
            "client": client.name, "iops": client.iops,
            "p50_ms": client.p50_us / 1e3, "p99_ms": client.p99_us / 1e3,
        })
    };
    let row = |row: &Row| {
        json!({
            "server": row.server, "scenario": row.scenario, "total_iops": row.total_iops,
            "clients": row.clients.iter().map(client).collect::<Vec<_>>(),
        })
    };
    let peer = |peer: &super::peers::Peer| {
        json!({
            "server": peer.name, "paced_iops": peer.paced_iops, "paced_p99_ms": peer.paced_p99_ms,
            "burst_p99_ms": peer.burst_p99_ms, "device": peer.device,
        })
    };
    let bar = |(what, asked, reached, met): (&str, f64, f64, bool)| json!({ "bar": what, "asked": asked, "reached": reached, "met": met });
    json!({
        "bench": "isolation", "host": facts, "seconds": options.seconds, "rounds": options.rounds,
        "aggressor_connections": options.aggressor_connections,
        "results": rows.iter().map(row).collect::<Vec<_>>(),
        "bars": bars(rows).into_iter().map(bar).collect::<Vec<_>>(),
        "peers": { "source": SOURCE, "rows": PEERS.iter().map(peer).collect::<Vec<_>>() },
    })
}
