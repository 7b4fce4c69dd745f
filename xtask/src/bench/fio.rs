//! fio as the client: its command line, and what its JSON says.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::{Outcome, workspace};

/// What fio measured for one job (the sum of its connections).
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    /// The job's name.
    pub(crate) name: String,
    /// Requests per second.
    pub(crate) iops: f64,
    /// Requests in all.
    pub(crate) requests: f64,
    /// Bytes per second.
    pub(crate) bytes_per_s: f64,
    /// Median of the total latency.
    pub(crate) p50_us: f64,
    /// 99th percentile of the total latency.
    pub(crate) p99_us: f64,
}

/// One fio process against one server.
pub(crate) struct Run<'a> {
    /// Options for all jobs.
    pub(crate) global: Vec<String>,
    /// Each job's name and its options.
    pub(crate) jobs: Vec<(String, Vec<String>)>,
    /// The core to run on, if pinned.
    pub(crate) core: Option<usize>,
    /// The folder that it runs in.
    pub(crate) folder: &'a Path,
}

/// The address of an export behind a Unix socket.
pub(crate) fn uri(export: &str, socket: &Path) -> String {
    format!("nbd+unix:///{export}?socket={}", socket.display())
}

/// Splits options written as one text.
pub(crate) fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Fails with advice if fio or its `nbd` engine is not there.
pub(crate) fn check() -> Outcome<()> {
    let advice = "install it with `apt-get install fio`, or run `cargo xtask test` as root";
    let output =
        Command::new("fio").arg("--enghelp").output().map_err(|error| format!("fio: {error}; {advice}"))?;
    let engines = String::from_utf8_lossy(&output.stdout);
    if engines.lines().any(|line| line.trim() == "nbd") {
        Ok(())
    } else {
        Err("this fio was built without its nbd engine (needs libnbd); Debian's has it".into())
    }
}

impl Run<'_> {
    /// Runs fio and reads what it measured, one row for each job.
    pub(crate) fn run(&self) -> Outcome<Vec<Measured>> {
        let mut command = match self.core {
            Some(core) => {
                let mut command = Command::new("taskset");
                command.args(["-c", &core.to_string(), "fio"]);
                command
            }
            None => Command::new("fio"),
        };
        command.current_dir(self.folder).args(["--output-format=json", "--thread", "--group_reporting"]);
        command.args(["--ioengine=nbd", "--time_based", "--lat_percentiles=1", "--clat_percentiles=0"]);
        command.args(&self.global);
        for (name, options) in &self.jobs {
            // A new name begins a new job; new_group keeps its figures apart from the others'.
            command.arg(format!("--name={name}")).arg("--new_group").args(options);
        }
        let output = command.output().map_err(|error| format!("fio did not start: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let problem = |what: &str| {
            format!(
                "fio {what}: {}\n{}",
                String::from_utf8_lossy(&output.stderr).trim(),
                command_line(&command)
            )
        };
        if !output.status.success() {
            return Err(problem("failed"));
        }
        // fio prints notes before the JSON.
        let start = text.find('{').ok_or_else(|| problem("printed no JSON"))?;
        let json: Value =
            serde_json::from_str(&text[start..]).map_err(|error| problem(&error.to_string()))?;
        let jobs = json["jobs"].as_array().ok_or_else(|| problem("reported no jobs"))?;
        if let Some(job) = jobs.iter().find(|job| job["error"] != 0) {
            return Err(problem(&format!("job {} ended with error {}", job["jobname"], job["error"])));
        }
        Ok(jobs.iter().map(measured).collect())
    }
}

/// Reads the direction that carried requests; the jobs here are pure reads or pure writes.
fn measured(job: &Value) -> Measured {
    let read = &job["read"];
    let side = if read["total_ios"].as_f64().unwrap_or(0.0) > 0.0 { read } else { &job["write"] };
    let number = |key: &str| side[key].as_f64().unwrap_or(0.0);
    let percentile = |key: &str| side["lat_ns"]["percentile"][key].as_f64().unwrap_or(0.0) / 1e3;
    Measured {
        name: job["jobname"].as_str().unwrap_or("?").to_owned(),
        iops: number("iops"),
        requests: number("total_ios"),
        bytes_per_s: number("bw_bytes"),
        p50_us: percentile("50.000000"),
        p99_us: percentile("99.000000"),
    }
}

fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// The cores to pin to: the server's, the client's. `None` on a machine with one core.
pub(crate) fn cores() -> Option<(usize, usize)> {
    let enough = std::thread::available_parallelism().is_ok_and(|cores| cores.get() >= 2);
    (enough && workspace::find_program("taskset").is_some()).then_some((0, 1))
}
