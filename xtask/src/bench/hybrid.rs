//! `cargo xtask bench hybrid`: what the location map costs on the data path, beside the plain file backend.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use serde_json::{Value, json};

use super::fio::{self, Run};
use super::nbd::fill;
use super::server::Server;
use super::{median, parse_size};
use crate::{Outcome, workspace};

/// Choices of `cargo xtask bench hybrid`.
#[derive(Args)]
pub(crate) struct Options {
    /// Seconds for each measurement.
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Rounds; each measures every backend once, in turns, and the medians are printed.
    #[arg(long, default_value_t = 9, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Size of the volume. All of it lies on the fast device, which is half as large again.
    #[arg(long, default_value = "512M", value_name = "SIZE", value_parser = parse_size)]
    size: u64,
    /// Only these jobs: parts of their names, with commas between (1x16,4x16).
    #[arg(long, value_name = "JOBS", value_delimiter = ',')]
    only: Vec<String>,
    /// The folder for the files; it decides the file system. Default: the build's target folder.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

const JOBS: [(&str, &str); 3] = [
    ("rand-read-1x16", "--rw=randread --bs=4k --iodepth=16"),
    ("rand-read-1x1", "--rw=randread --bs=4k --iodepth=1"),
    ("rand-read-4x16", "--rw=randread --bs=4k --iodepth=16 --numjobs=4"),
];
/// The plain backend, and hybrid stores by their policy.
const BACKENDS: [&str; 4] = ["file", "none", "online", "lru"];
/// The policy, and the share of the plain backend's requests per second that it must reach in every job.
const BAR: (&str, f64) = ("online", 0.95);

struct Sample {
    job: &'static str,
    backend: &'static str,
    iops: f64,
    p99_us: f64,
    cpu_us: f64,
}

struct Bench<'a> {
    options: &'a Options,
    folder: &'a Path,
    evenkeel: PathBuf,
}

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Outcome<()> {
    fio::check()?;
    let evenkeel = workspace::build_release()?;
    let parent = options.folder.clone().unwrap_or_else(workspace::target_dir);
    let describe = |error: std::io::Error| format!("{}: {error}", parent.display());
    fs::create_dir_all(&parent).map_err(describe)?;
    let folder = tempfile::Builder::new().prefix("bench-").tempdir_in(&parent).map_err(describe)?;
    if fio::cores().is_none() {
        eprintln!("not pinned: this needs two cores and taskset; expect wide spreads");
    }
    let bench = Bench { options, folder: folder.path(), evenkeel };
    bench.prepare()?;
    let mut samples = Vec::new();
    for (job, words) in chosen(options) {
        for round in 1..=options.rounds {
            // In turns, and in the other direction every second time.
            let mut backends = BACKENDS;
            if round % 2 == 0 {
                backends.reverse();
            }
            for backend in backends {
                let sample = bench.measure(job, words, backend)?;
                eprintln!(
                    "{job} {backend} round {round}: {:.0} IOPS, p99 {:.0} us, {:.2} us of CPU per request",
                    sample.iops, sample.p99_us, sample.cpu_us
                );
                samples.push(sample);
            }
        }
    }
    let facts = workspace::facts();
    if options.json {
        println!("{:#}", as_json(&facts, options, &samples));
    } else {
        print_table(&facts, options, &samples);
    }
    Ok(())
}

fn chosen(options: &Options) -> impl Iterator<Item = (&'static str, &'static str)> {
    let wanted = |job: &str| options.only.is_empty() || options.only.iter().any(|part| job.contains(part));
    JOBS.into_iter().filter(move |(job, _)| wanted(job))
}

impl Bench<'_> {
    /// Makes the files, and brings all of the volume to the fast device: under `lru`, by writing it.
    fn prepare(&self) -> Outcome<()> {
        let size = self.options.size;
        let describe = |error: std::io::Error| format!("{}: {error}", self.folder.display());
        fill(&self.folder.join("file.img"), size).map_err(describe)?;
        for (name, bytes) in [("slow.img", size), ("fast.img", size + size / 2 + (1 << 20))] {
            File::create(self.folder.join(name)).and_then(|file| file.set_len(bytes)).map_err(describe)?;
        }
        let socket = self.folder.join("nbd.sock");
        self.configure(&socket, "lru")?;
        let mut create = Command::new(&self.evenkeel);
        create.current_dir(self.folder).args(["hybrid", "create", "evenkeel.toml", "pool"]);
        succeed(&mut create)?;
        let server = self.serve(&socket, "lru")?;
        let mut fio = Command::new("fio");
        fio.current_dir(self.folder)
            .args(["--name=fill", "--ioengine=nbd", "--thread", "--rw=write", "--bs=1m", "--end_fsync=1"])
            .arg(format!("--size={size}"))
            .arg(format!("--uri={}", fio::uri("bench", &socket)));
        succeed(&mut fio)?;
        drop(server);
        let mut show = Command::new(&self.evenkeel);
        show.current_dir(self.folder).args(["hybrid", "show", "evenkeel.toml", "pool", "--json"]);
        let shown: Value = serde_json::from_str(&succeed(&mut show)?).map_err(|error| error.to_string())?;
        match shown["on_fast_bytes"].as_u64() {
            Some(bytes) if bytes == size => Ok(()),
            bytes => {
                Err(format!("{bytes:?} of {size} bytes are on the fast device: this would measure nothing"))
            }
        }
    }

    fn configure(&self, socket: &Path, backend: &str) -> Outcome<()> {
        let store = if backend == "file" {
            "path = \"file.img\"\ndepth = 64\n".to_owned()
        } else {
            format!(
                "path = \"slow.img\"\nbackend = \"hybrid\"\n\
                 hybrid = {{ fast = \"fast.img\", map = \"pool.map\", policy = \"{backend}\" }}\n"
            )
        };
        let text = format!(
            "[gateway]\nlisten = [\"unix://{}\"]\n[store.pool]\ncapacity = \"10000000 IOPS\"\n{store}\
             [volume.bench]\noffset = \"0 B\"\nsize = \"{} B\"\n",
            socket.display(),
            self.options.size
        );
        let path = self.folder.join("evenkeel.toml");
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn serve(&self, socket: &Path, backend: &str) -> Outcome<Server> {
        self.configure(socket, backend)?;
        let words = [self.evenkeel.display().to_string(), "serve".into(), "evenkeel.toml".into()];
        Server::start(&words, self.folder, socket, fio::cores().map(|(server, _)| server))
    }

    fn measure(&self, job: &'static str, words: &str, backend: &'static str) -> Outcome<Sample> {
        let socket = self.folder.join("nbd.sock");
        let server = self.serve(&socket, backend)?;
        let mut options = fio::words(words);
        options.push(format!("--size={}", self.options.size));
        let run = Run {
            global: vec![
                format!("--uri={}", fio::uri("bench", &socket)),
                format!("--runtime={}", self.options.seconds),
                "--ramp_time=500ms".to_owned(),
            ],
            jobs: vec![(job.to_owned(), options)],
            core: fio::cores().map(|(_, client)| client),
            folder: self.folder,
        };
        let before = server.cpu_s();
        let measured = run.run().map_err(|problem| format!("{backend}: {problem}"))?;
        let cpu_s = server.cpu_s() - before;
        let row = measured.first().ok_or("fio reported no job")?;
        let requests = row.requests * (1.0 + 0.5 / f64::from(self.options.seconds));
        Ok(Sample {
            job,
            backend,
            iops: row.iops,
            p99_us: row.p99_us,
            cpu_us: cpu_s * 1e6 / requests.max(1.0),
        })
    }
}

fn succeed(command: &mut Command) -> Outcome<String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr).trim()))
}

fn middle(samples: &[Sample], job: &str, backend: &str, field: fn(&Sample) -> f64) -> f64 {
    median(samples.iter().filter(|sample| sample.job == job && sample.backend == backend).map(field))
}

/// The backend's figure over that of the plain one, round by round; the median.
fn ratio(samples: &[Sample], job: &str, backend: &str, field: fn(&Sample) -> f64) -> f64 {
    let of = |backend: &str| -> Vec<f64> {
        let chosen = samples.iter().filter(|sample| sample.job == job && sample.backend == backend);
        chosen.map(field).collect()
    };
    let pairs = of(backend).into_iter().zip(of("file"));
    median(pairs.map(|(own, plain)| own / plain.max(1e-9)))
}

/// The job in which the policy of the bar reached the least, and how much.
fn worst(options: &Options, samples: &[Sample]) -> Option<(&'static str, f64)> {
    let reached = chosen(options).map(|(job, _)| (job, ratio(samples, job, BAR.0, |sample| sample.iops)));
    reached.min_by(|a, b| a.1.total_cmp(&b.1))
}

fn print_table(facts: &Value, options: &Options, samples: &[Sample]) {
    println!("{}", workspace::facts_line(facts));
    println!(
        "medians of {} rounds of {} s, backends in alternation; ratios are medians of the rounds' ratios",
        options.rounds, options.seconds
    );
    for (job, _) in chosen(options) {
        println!("\n{job}, all from the fast device");
        println!(
            "  {:<14}{:>10}{:>9}{:>9}{:>16}{:>9}",
            "backend", "IOPS", "x file", "p99 us", "CPU us/request", "x file"
        );
        for backend in BACKENDS {
            let name = if backend == "file" { "file".to_owned() } else { format!("hybrid {backend}") };
            println!(
                "  {name:<14}{:>10.0}{:>9.3}{:>9.0}{:>16.2}{:>9.3}",
                middle(samples, job, backend, |sample| sample.iops),
                ratio(samples, job, backend, |sample| sample.iops),
                middle(samples, job, backend, |sample| sample.p99_us),
                middle(samples, job, backend, |sample| sample.cpu_us),
                ratio(samples, job, backend, |sample| sample.cpu_us),
            );
        }
    }
    let (policy, bar) = BAR;
    let Some((job, reached)) = worst(options, samples) else { return };
    let word = if reached >= bar { "met" } else { "NOT met" };
    println!(
        "\nbar {word}: hybrid {policy} at {reached:.3} x file on {job} (asked: at least {bar} on every job)"
    );
}

fn as_json(facts: &Value, options: &Options, samples: &[Sample]) -> Value {
    let mut results = Vec::new();
    for (job, _) in chosen(options) {
        for backend in BACKENDS {
            results.push(json!({
                "job": job, "backend": backend, "ratio_to_file": ratio(samples, job, backend, |sample| sample.iops),
                "cpu_ratio_to_file": ratio(samples, job, backend, |sample| sample.cpu_us),
                "iops": middle(samples, job, backend, |sample| sample.iops),
                "p99_us": middle(samples, job, backend, |sample| sample.p99_us),
                "cpu_us_per_request": middle(samples, job, backend, |sample| sample.cpu_us),
            }));
        }
    }
    let (policy, least) = BAR;
    let (job, reached) = worst(options, samples).unwrap_or(("none", 0.0));
    json!({
        "bench": "hybrid", "host": facts, "seconds": options.seconds, "rounds": options.rounds,
        "size_bytes": options.size, "results": results,
        "bar": { "job": job, "policy": policy, "ratio_to_file_min": least, "reached": reached, "met": reached >= least },
    })
}
