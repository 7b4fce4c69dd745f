//! Where things are: the workspace, its target directory, programs, and facts of the host.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::Outcome;

/// The folder of the workspace's `Cargo.toml`.
pub(crate) fn root() -> PathBuf {
    let own =
        env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    own.parent().map_or_else(|| own.clone(), Path::to_path_buf)
}

/// Where cargo builds: `CARGO_TARGET_DIR`, or `target` in the workspace.
pub(crate) fn target_dir() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// The cargo that runs this task.
pub(crate) fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// The file that `name` would run, if any. Looks into the `sbin` folders too: the file-system tools
/// live there, and an ordinary user's PATH leaves them out.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    env::split_paths(&path).chain(system).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// The system's Python, if it can import libnbd's module. A Python of the user's own earlier in PATH
/// would not see the system's package.
pub(crate) fn python_with_nbd() -> Option<PathBuf> {
    ["/usr/bin/python3", "python3"].into_iter().map(PathBuf::from).find(|python| {
        Command::new(python)
            .args(["-c", "import nbd"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    })
}

/// Whether this process runs as root.
pub(crate) fn is_root() -> bool {
    fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|status| {
            let line = status.lines().find(|line| line.starts_with("Uid:"))?.to_owned();
            line.split_whitespace().nth(2).map(|effective| effective == "0")
        })
        .unwrap_or(false)
}

/// Builds the release binary and returns its path.
pub(crate) fn build_release() -> Outcome<PathBuf> {
    build_program("evenkeel")
}

/// Builds the release binary of `package`, which has its name, and returns its path.
pub(crate) fn build_program(package: &str) -> Outcome<PathBuf> {
    eprintln!("building {package} (release)");
    let status = Command::new(cargo())
        .current_dir(root())
        .args(["build", "--release", "--quiet", "--package", package])
        .status()
        .map_err(|error| format!("cargo build did not start: {error}"))?;
    if !status.success() {
        return Err(format!("cargo build --release --package {package} failed"));
    }
    Ok(target_dir().join("release").join(package))
}

/// Facts to keep with results: what was measured, and on what.
pub(crate) fn facts() -> Value {
    json!({
        "commit": first_line("git", &["rev-parse", "--short=12", "HEAD"]),
        "uncommitted_changes": first_line("git", &["status", "--porcelain"]).is_some(),
        "kernel": first_line("uname", &["-sr"]),
        "processor": processor(),
        "cores": std::thread::available_parallelism().map_or(1, usize::from),
        "fio": first_line("fio", &["--version"]),
        "qemu_nbd": first_line("qemu-nbd", &["--version"]),
        "nbdkit": first_line("nbdkit", &["--version"]),
    })
}

/// The facts as one line for people.
pub(crate) fn facts_line(facts: &Value) -> String {
    let text = |key: &str| facts[key].as_str().unwrap_or("?").to_owned();
    let edited = if facts["uncommitted_changes"] == true { " (with uncommitted changes)" } else { "" };
    format!(
        "commit {}{edited}, {} cores, {}, {}, {}",
        text("commit"),
        facts["cores"],
        text("processor"),
        text("kernel"),
        text("fio"),
    )
}

fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).current_dir(root()).args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty())
}

fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim().to_owned())
}
