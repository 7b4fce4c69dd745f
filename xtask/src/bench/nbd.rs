//! `cargo xtask bench nbd`: the data path beside qemu-nbd and nbdkit.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use serde_json::{Value, json};

use super::fio::{self, Run};
use super::server::Server;
use super::{median, parse_size};
use crate::{Outcome, workspace};

/// Choices of `cargo xtask bench nbd`.
#[derive(Args)]
pub(crate) struct Options {
    /// Seconds for each measurement.
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Rounds; each measures every server once, and the medians are printed.
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Size of the file that all servers export.
    #[arg(long, default_value = "1G", value_name = "SIZE", value_parser = parse_size)]
    size: u64,
    /// Only these jobs: parts of their names, with commas between (rand-read-1x16,seq-read).
    #[arg(long, value_name = "JOBS", value_delimiter = ',')]
    only: Vec<String>,
    /// Only these servers, with commas between: evenkeel, evenkeel-sla, qemu-nbd, nbdkit.
    #[arg(long, value_name = "SERVERS", value_delimiter = ',')]
    servers: Vec<String>,
    /// The folder for the file; it decides the file system. Default: the build's target folder.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

struct Job {
    name: &'static str,
    what: &'static str,
    options: &'static str,
}

const JOBS: &[Job] = &[
    Job {
        name: "rand-read-1x16",
        what: "random read 4 KiB, 1 connection x 16",
        options: "--rw=randread --bs=4k --iodepth=16",
    },
    Job {
        name: "rand-read-1x1",
        what: "random read 4 KiB, 1 x 1",
        options: "--rw=randread --bs=4k --iodepth=1",
    },
    Job {
        name: "rand-read-1x64",
        what: "random read 4 KiB, 1 x 64",
        options: "--rw=randread --bs=4k --iodepth=64",
    },
    Job {
        name: "rand-read-4x16",
        what: "random read 4 KiB, 4 x 16",
        options: "--rw=randread --bs=4k --iodepth=16 --numjobs=4",
    },
    Job {
        name: "seq-read-1x16",
        what: "sequential read 128 KiB, 1 x 16",
        options: "--rw=read --bs=128k --iodepth=16",
    },
    Job {
        name: "rand-write-1x16",
        what: "random write 4 KiB, 1 x 16",
        options: "--rw=randwrite --bs=4k --iodepth=16",
    },
];

/// The job, and the ratio to qemu-nbd's requests per second, that must be reached.
const BAR: (&str, f64) = ("rand-read-1x16", 1.5);

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Evenkeel; with an SLA on the volume, or the volume in the background.
    Evenkeel {
        sla: bool,
    },
    QemuNbd,
    Nbdkit,
}

const SERVERS: [(&str, Kind); 4] = [
    ("evenkeel", Kind::Evenkeel { sla: false }),
    ("evenkeel-sla", Kind::Evenkeel { sla: true }),
    ("qemu-nbd", Kind::QemuNbd),
    ("nbdkit", Kind::Nbdkit),
];

/// One measurement.
#[derive(Clone)]
struct Sample {
    job: &'static str,
    server: &'static str,
    iops: f64,
    bytes_per_s: f64,
    p50_us: f64,
    p99_us: f64,
    cpu_us: f64,
}

/// Medians of one job on one server.
struct Row {
    sample: Sample,
    /// (max - min) / median of the requests per second.
    spread: f64,
}

/// Where things lie during the benchmark.
struct Bench<'a> {
    options: &'a Options,
    folder: &'a Path,
    evenkeel: Option<PathBuf>,
}

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Outcome<()> {
    fio::check()?;
    let (jobs, servers) = (chosen_jobs(options)?, chosen_servers(options)?);
    let ours = servers.iter().any(|(_, kind)| matches!(kind, Kind::Evenkeel { .. }));
    let evenkeel = if ours { Some(workspace::build_release()?) } else { None };
    let parent = options.folder.clone().unwrap_or_else(workspace::target_dir);
    let describe = |error: io::Error| format!("{}: {error}", parent.display());
    fs::create_dir_all(&parent).map_err(describe)?;
    let folder = tempfile::Builder::new().prefix("bench-").tempdir_in(&parent).map_err(describe)?;
    fill(&folder.path().join("data.img"), options.size).map_err(describe)?;
    let bench = Bench { options, folder: folder.path(), evenkeel };
    if fio::cores().is_none() {
        eprintln!("not pinned: this needs two cores and taskset; expect wide spreads");
    }
    let mut samples = Vec::new();
    for job in &jobs {
        for round in 1..=options.rounds {
            for (name, kind) in &servers {
                let sample = bench.measure(job, name, *kind)?;
                eprintln!(
                    "{} {name} round {round}: {:.0} IOPS, p99 {:.0} us, {:.2} us of CPU per request",
                    job.name, sample.iops, sample.p99_us, sample.cpu_us
                );
                samples.push(sample);
            }
        }
    }
    let facts = workspace::facts();
    if options.json {
        println!("{:#}", as_json(&facts, options, &jobs, &samples));
    } else {
        print_tables(&facts, options, &jobs, &samples);
    }
    Ok(())
}

fn chosen_jobs(options: &Options) -> Outcome<Vec<&'static Job>> {
    let wanted = |job: &&Job| {
        options.only.is_empty() || options.only.iter().any(|part| job.name.contains(part.as_str()))
    };
    let jobs: Vec<_> = JOBS.iter().filter(wanted).collect();
    let names: Vec<_> = JOBS.iter().map(|job| job.name).collect();
    if jobs.is_empty() {
        Err(format!("--only: no such job; there are {}", names.join(", ")))
    } else {
        Ok(jobs)
    }
}

/// The servers asked for; those not installed are left out, with a word.
fn chosen_servers(options: &Options) -> Outcome<Vec<(&'static str, Kind)>> {
    if let Some(unknown) = options.servers.iter().find(|name| SERVERS.iter().all(|(known, _)| known != name))
    {
        let names = SERVERS.map(|(name, _)| name).join(", ");
        return Err(format!("--servers: `{unknown}` is unknown; there are {names}"));
    }
    let wanted =
        |name: &str| options.servers.is_empty() || options.servers.iter().any(|wanted| wanted == name);
    let present = |(name, kind): &(&str, Kind)| {
        let here = matches!(kind, Kind::Evenkeel { .. }) || workspace::find_program(name).is_some();
        if !here {
            eprintln!("{name} is not installed: left out");
        }
        here
    };
    Ok(SERVERS.into_iter().filter(|(name, _)| wanted(name)).filter(present).collect())
}

/// Writes a file without holes, so that every server reads real pages, and leaves it in the page cache.
pub(super) fn fill(path: &Path, size: u64) -> io::Result<()> {
    let mut file = File::create(path)?;
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut block = vec![0_u8; 1 << 20];
    let mut left = size;
    while left > 0 {
        for word in block.chunks_exact_mut(8) {
            // xorshift64: cheap and without runs that anything could compress.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        let count = left.min(block.len() as u64);
        file.write_all(&block[..usize::try_from(count).unwrap_or(block.len())])?;
        left -= count;
    }
    file.sync_all()
}

impl Bench<'_> {
    fn measure(&self, job: &'static Job, name: &'static str, kind: Kind) -> Outcome<Sample> {
        // Writes of the round before must not be written back during this one.
        let _ = Command::new("sync").status();
        let socket = self.folder.join("nbd.sock");
        let cores = fio::cores();
        let words = self.command(kind, &socket)?;
        let server = Server::start(&words, self.folder, &socket, cores.map(|(server, _)| server))?;
        let mut options = fio::words(job.options);
        options.push(format!("--size={}", self.options.size));
        let run = Run {
            global: vec![
                format!("--uri={}", fio::uri("bench", &socket)),
                format!("--runtime={}", self.options.seconds),
            ],
            jobs: vec![(job.name.to_owned(), options)],
            core: cores.map(|(_, client)| client),
            folder: self.folder,
        };
        let before = server.cpu_s();
        let measured = run.run().map_err(|problem| format!("{name}: {problem}"))?;
        let cpu_s = server.cpu_s() - before;
        let row = measured.first().ok_or("fio reported no job")?;
        Ok(Sample {
            job: job.name,
            server: name,
            iops: row.iops,
            bytes_per_s: row.bytes_per_s,
            p50_us: row.p50_us,
            p99_us: row.p99_us,
            cpu_us: cpu_s * 1e6 / row.requests.max(1.0),
        })
    }

    fn command(&self, kind: Kind, socket: &Path) -> Outcome<Vec<String>> {
        let socket_text = socket.display();
        match kind {
            Kind::QemuNbd => {
                Ok(fio::words(&format!("qemu-nbd -t -e 8 -x bench -k {socket_text} -f raw data.img")))
            }
            Kind::Nbdkit => Ok(fio::words(&format!("nbdkit -f -U {socket_text} file data.img"))),
            Kind::Evenkeel { sla } => {
                let config = self.folder.join("evenkeel.toml");
                let text = evenkeel_config(socket, self.options.size, sla);
                fs::write(&config, text).map_err(|error| format!("{}: {error}", config.display()))?;
                let program = self.evenkeel.as_ref().ok_or("evenkeel was not built")?;
                Ok(vec![program.display().to_string(), "serve".into(), "evenkeel.toml".into()])
            }
        }
    }
}

/// The raw backing with promises that never bind: the cost of the data path alone.
fn evenkeel_config(socket: &Path, size: u64, sla: bool) -> String {
    let promise =
        if sla { "sla = { burst = 1000, rate = \"1000000 IOPS\", latency = \"1 s\" }\n" } else { "" };
    format!(
        "[gateway]\nlisten = [\"unix://{}\"]\n\
         [store.pool]\npath = \"data.img\"\ncapacity = \"10000000 IOPS\"\nscheduler = \"pclock\"\ndepth = 64\n\
         [volume.bench]\nstore = \"pool\"\noffset = \"0 B\"\nsize = \"{size} B\"\n{promise}",
        socket.display()
    )
}

fn row(samples: &[Sample], job: &str, server: &str) -> Option<Row> {
    let of: Vec<&Sample> = samples.iter().filter(|s| s.job == job && s.server == server).collect();
    let first = *of.first()?;
    let middle = |field: fn(&Sample) -> f64| median(of.iter().map(|sample| field(sample)));
    let iops = middle(|sample| sample.iops);
    let highest = of.iter().map(|sample| sample.iops).fold(0.0, f64::max);
    let lowest = of.iter().map(|sample| sample.iops).fold(f64::INFINITY, f64::min);
    let sample = Sample {
        iops,
        bytes_per_s: middle(|sample| sample.bytes_per_s),
        p50_us: middle(|sample| sample.p50_us),
        p99_us: middle(|sample| sample.p99_us),
        cpu_us: middle(|sample| sample.cpu_us),
        ..first.clone()
    };
    Some(Row { sample, spread: (highest - lowest) / iops.max(1.0) })
}

/// Requests per second of `server` over those of `peer`, from the medians of this run.
fn ratio(samples: &[Sample], job: &str, server: &str, peer: &str) -> Option<f64> {
    let (own, other) = (row(samples, job, server)?, row(samples, job, peer)?);
    (other.sample.iops > 0.0).then(|| own.sample.iops / other.sample.iops)
}

fn print_tables(facts: &Value, options: &Options, jobs: &[&Job], samples: &[Sample]) {
    println!("{}", workspace::facts_line(facts));
    println!("medians of {} rounds of {} s, servers in alternation", options.rounds, options.seconds);
    for job in jobs {
        println!("\n{} ({})", job.name, job.what);
        println!(
            "  {:<14}{:>10}{:>8}{:>9}{:>9}{:>9}{:>15}{:>12}{:>12}",
            "server",
            "IOPS",
            "spread",
            "MB/s",
            "p50 us",
            "p99 us",
            "CPU us/request",
            "x qemu-nbd",
            "x nbdkit"
        );
        for (server, _) in SERVERS {
            let Some(Row { sample, spread }) = row(samples, job.name, server) else { continue };
            let times = |peer| {
                ratio(samples, job.name, server, peer)
                    .map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}"))
            };
            println!(
                "  {server:<14}{:>10.0}{:>7.0}%{:>9.0}{:>9.0}{:>9.0}{:>15.2}{:>12}{:>12}",
                sample.iops,
                spread * 100.0,
                sample.bytes_per_s / 1e6,
                sample.p50_us,
                sample.p99_us,
                sample.cpu_us,
                times("qemu-nbd"),
                times("nbdkit"),
            );
        }
    }
    println!("\n{}", verdict(samples));
}

fn verdict(samples: &[Sample]) -> String {
    let (job, bar) = BAR;
    let verdicts: Vec<String> = ["evenkeel", "evenkeel-sla"]
        .iter()
        .filter_map(|server| {
            let ratio = ratio(samples, job, server, "qemu-nbd")?;
            let word = if ratio >= bar { "met" } else { "NOT met" };
            Some(format!("bar {word}: {server} at {ratio:.2} x qemu-nbd on {job} (asked: at least {bar})"))
        })
        .collect();
    if verdicts.is_empty() {
        format!("bar not judged: it needs {job} on evenkeel and qemu-nbd")
    } else {
        verdicts.join("\n")
    }
}

fn as_json(facts: &Value, options: &Options, jobs: &[&Job], samples: &[Sample]) -> Value {
    let mut results = Vec::new();
    for job in jobs {
        for (server, _) in SERVERS {
            let Some(Row { sample, spread }) = row(samples, job.name, server) else { continue };
            let rounds: Vec<f64> =
                samples.iter().filter(|s| s.job == job.name && s.server == server).map(|s| s.iops).collect();
            results.push(json!({
                "job": job.name, "server": server, "iops": sample.iops, "iops_rounds": rounds,
                "iops_spread": spread, "bytes_per_s": sample.bytes_per_s, "p50_us": sample.p50_us,
                "p99_us": sample.p99_us, "cpu_us_per_request": sample.cpu_us,
                "ratio_to_qemu_nbd": ratio(samples, job.name, server, "qemu-nbd"),
                "ratio_to_nbdkit": ratio(samples, job.name, server, "nbdkit"),
            }));
        }
    }
    let (job, least) = BAR;
    let reached = ratio(samples, job, "evenkeel", "qemu-nbd");
    json!({
        "bench": "nbd", "host": facts, "seconds": options.seconds, "rounds": options.rounds,
        "size_bytes": options.size, "results": results,
        "bar": {
            "job": job, "ratio_to_qemu_nbd_min": least, "reached": reached,
            "met": reached.map(|ratio| ratio >= least),
        },
    })
}
