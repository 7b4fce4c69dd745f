//! fio as a client of the gateway.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::rig::Measured;

/// Runs the job file `job` against `export` for `seconds`; what its requests were like, flushes and all.
pub(super) fn run(
    folder: &Path,
    socket: &Path,
    export: &str,
    job: &str,
    seconds: u64,
) -> io::Result<Measured> {
    let target = format!("ioengine=nbd\nuri=nbd+unix:///{export}?socket={}\nsize=32m\n", socket.display());
    start(folder, export, &target, job, seconds)
}

/// Runs the job file `job` on the files in `data` for `seconds`; what its operations were like. Past the page cache, as in
/// the paper the files are more than fit memory.
pub(super) fn run_on_files(
    folder: &Path,
    data: &Path,
    name: &str,
    job: &str,
    seconds: u64,
) -> io::Result<Measured> {
    let target =
        format!("ioengine=psync\ndirectory={}\nfilename_format=$jobnum.$filenum\ndirect=1\n", data.display());
    start(folder, name, &target, job, seconds)
}

fn start(folder: &Path, name: &str, target: &str, job: &str, seconds: u64) -> io::Result<Measured> {
    let file = folder.join(format!("{name}.fio"));
    let global = format!(
        "[global]\n{target}thread=1\ntime_based=1\nruntime={seconds}\ngroup_reporting=1\nrandseed=7\n\n{job}"
    );
    std::fs::write(&file, global)?;
    let started = Command::new("fio")
        .args(["--output-format=json"])
        .arg(&file)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output();
    let output = started.map_err(|error| {
        io::Error::new(error.kind(), format!("fio: {error}; install it with `apt-get install fio`"))
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("fio ended with {}: {}", output.status, said.trim())));
    }
    parse(&output.stdout).ok_or_else(|| io::Error::other("fio's output has no job"))
}

/// Reads, writes and flushes of all jobs together.
fn parse(output: &[u8]) -> Option<Measured> {
    // fio may print lines of its own before the object.
    let begin = output.iter().position(|byte| *byte == b'{')?;
    let value: Value = serde_json::from_slice(&output[begin..]).ok()?;
    let job = value["jobs"].get(0)?;
    let seconds = job["job_runtime"].as_f64()? / 1e3 / thread_count(job);
    let mut requests = 0.0;
    let mut sum_ms = 0.0;
    for kind in ["read", "write", "sync"] {
        let count = job[kind]["total_ios"].as_f64().unwrap_or(0.0);
        // Completion latency of reads and writes, as flushes have no other.
        let latency = ["clat_ns", "lat_ns"].iter().find_map(|key| job[kind][key]["mean"].as_f64());
        requests += count;
        sum_ms += count * latency.unwrap_or(0.0) / 1e6;
    }
    let mean_ms = if requests > 0.0 { sum_ms / requests } else { f64::NAN };
    Some(Measured {
        iops: requests / seconds,
        mean_ms,
        late_ms: 0.0,
        latencies_us: Vec::new(),
        sent_us: Vec::new(),
    })
}

/// `job_runtime` is the sum over threads where they are reported as a group.
fn thread_count(job: &Value) -> f64 {
    job["job options"]["numjobs"].as_str().and_then(|text| text.parse().ok()).unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_writes_and_flushes_count() {
        let text = br#"note
            {"jobs":[{"job_runtime":8000,"job options":{"numjobs":"4"},
            "read":{"total_ios":60,"clat_ns":{"mean":10e6}},
            "write":{"total_ios":20,"clat_ns":{"mean":20e6}},
            "sync":{"total_ios":20,"lat_ns":{"mean":30e6}}}]}"#;
        let measured = parse(text).expect("it has a job");
        assert!((measured.iops - 50.0).abs() < 1e-9 && (measured.mean_ms - 16.0).abs() < 1e-9);
        assert!(parse(b"fio: error").is_none());
    }
}
