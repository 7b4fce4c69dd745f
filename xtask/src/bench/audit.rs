//! `cargo xtask bench audit`: what the audit log costs, with and without it by turns.

use std::fs::{self, File};
use std::path::Path;

use clap::Args;
use serde_json::json;

use super::fio::{self, Measured, Run};
use super::median;
use super::server::Server;
use crate::{Outcome, workspace};

/// Choices of `cargo xtask bench audit`.
#[derive(Args)]
pub(crate) struct Options {
    /// Seconds for each measurement.
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Pairs of measurements; the medians are printed.
    #[arg(long, default_value_t = 7, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

const CONFIG: &str = r#"
[gateway]
listen = ["unix:nbd.sock"]

[store.pool]
path = "pool.img"
capacity = "1000000 IOPS"
AUDIT

[volume.v]
offset = "0 B"
size = "256 MiB"
sla = { burst = 64, rate = "100000 IOPS", latency = "10 ms" }
"#;

const AUDIT: &str = "audit = { folder = \"log\", key = \"key\" }";
const POOL_BYTES: u64 = 256 << 20;
/// The bar: the log takes less than this share of the requests per second.
const SHARE_MAX: f64 = 0.05;

/// Measures and prints; whether the bar is met.
pub(crate) fn run(options: &Options) -> Outcome<bool> {
    fio::check()?;
    let evenkeel = workspace::build_release()?;
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    let pool = folder.path().join("pool.img");
    File::create(&pool)
        .and_then(|file| file.set_len(POOL_BYTES))
        .map_err(|error| format!("{}: {error}", pool.display()))?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for pair in 1..=options.pairs {
        // Who goes first changes, so that a drift of the machine falls on both alike.
        let order = if pair % 2 == 0 { [true, false] } else { [false, true] };
        for audit in order {
            eprintln!("pair {pair} of {}: {} the log", options.pairs, if audit { "with" } else { "without" });
            let measured = measure(&evenkeel, folder.path(), audit, options.seconds)?;
            if audit { &mut with } else { &mut without }.push(measured);
        }
    }
    let iops = |all: &[(Measured, f64)]| median(all.iter().map(|(measured, _)| measured.iops));
    let cpu = |all: &[(Measured, f64)]| {
        median(all.iter().map(|(measured, cpu_s)| cpu_s * 1e6 / measured.requests.max(1.0)))
    };
    let ratio = median(with.iter().zip(&without).map(|(with, without)| with.0.iops / without.0.iops));
    let (iops, cpu) = ([iops(&without), iops(&with)], [cpu(&without), cpu(&with)]);
    let facts = workspace::facts();
    let good = 1.0 - ratio < SHARE_MAX;
    if options.json {
        let object = json!({
            "facts": facts, "seconds": options.seconds, "pairs": options.pairs,
            "iops_without": iops[0], "iops_with": iops[1], "overhead": 1.0 - ratio, "ok": good,
            "cpu_us_per_request_without": cpu[0], "cpu_us_per_request_with": cpu[1],
        });
        println!("{object:#}");
    } else {
        println!(
            "4 KiB random reads, depth 32, one connection; {} pairs of {} s",
            options.pairs, options.seconds
        );
        println!("without the log  {:>9.0} IOPS  {:>6.2} us of processor time a request", iops[0], cpu[0]);
        println!("with the log     {:>9.0} IOPS  {:>6.2} us of processor time a request", iops[1], cpu[1]);
        println!(
            "overhead         {:>8.1} %     (median of the pairs; the bar is 5 %)",
            (1.0 - ratio) * 100.0
        );
    }
    Ok(good)
}

fn measure(evenkeel: &Path, folder: &Path, audit: bool, seconds: u32) -> Outcome<(Measured, f64)> {
    let config = CONFIG.replace("AUDIT", if audit { AUDIT } else { "" });
    let file = folder.join("evenkeel.toml");
    fs::write(&file, config).map_err(|error| format!("{}: {error}", file.display()))?;
    let socket = folder.join("nbd.sock");
    let cores = fio::cores();
    let words = [evenkeel.to_string_lossy().into_owned(), "serve".into(), "evenkeel.toml".into()];
    // Not pinned: the log is written on a second thread, and the gateway is not confined to one core in use.
    let server = Server::start(&words, folder, &socket, None)?;
    let options = ["--rw=randread", "--bs=4k", "--size=256M", "--iodepth=32"].map(str::to_owned);
    let global = vec![format!("--runtime={seconds}"), "--ramp_time=1".to_owned()];
    let job =
        ("v".to_owned(), options.into_iter().chain([format!("--uri={}", fio::uri("v", &socket))]).collect());
    let before = server.cpu_s();
    let run = Run { global, jobs: vec![job], core: cores.map(|(_, client)| client), folder };
    let measured = run.run()?.pop().ok_or("fio reported no job")?;
    Ok((measured, server.cpu_s() - before))
}
