//! The harness of the end-to-end tests: a server in a folder of its own, tools, and a bare client.
//!
//! The client here shares no code with the server: a mistake in our codec must not cancel out.
#![allow(dead_code, unused_imports, reason = "each program of tests uses its own part")]

pub(crate) mod cli;
pub(crate) mod client;
pub(crate) mod fuse;
pub(crate) mod server;

use std::env;
use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

pub(crate) use server::{Server, store, volume};

/// A mebibyte.
pub(crate) const MIB: u64 = 1 << 20;

/// Says on the terminal, past the test runner's capture, what is not tested and why.
pub(crate) fn skipped(reason: impl Display) {
    let test = std::thread::current().name().unwrap_or("?").to_owned();
    // Not eprintln: that would be captured, and a skipped test would look like a passed one.
    let _ = writeln!(std::io::stderr(), "skipped: {reason} ({test})");
}

/// Whether all the programs are there; says which is not. With CI=true a missing one is a failure.
pub(crate) fn have(programs: &[&str]) -> bool {
    let Some(missing) = programs.iter().find(|program| find(program).is_none()) else { return true };
    absent(&format!("{missing} not found"))
}

/// The system's Python if it has libnbd's module; otherwise as [`have`].
pub(crate) fn python_with_nbd() -> Option<&'static str> {
    let imports = |python: &&str| {
        Command::new(python).args(["-c", "import nbd"]).output().is_ok_and(|output| output.status.success())
    };
    let python = ["/usr/bin/python3", "python3"].into_iter().find(imports);
    if python.is_none() {
        absent("python3-libnbd not found");
    }
    python
}

fn absent(reason: &str) -> bool {
    assert!(env::var("CI").as_deref() != Ok("true"), "{reason}, and CI=true allows no skipping");
    skipped(reason);
    false
}

fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Whether this machine lets the test mount file systems on loop devices.
pub(crate) fn may_mount() -> bool {
    // SAFETY: geteuid has no preconditions.
    let root = unsafe { libc::geteuid() } == 0;
    let reason = if !root {
        "mounting needs root"
    } else if !Path::new("/dev/loop-control").exists() {
        "no loop devices here"
    } else {
        return true;
    };
    skipped(reason);
    false
}

/// A tool, by name, that is killed if it takes longer than a minute.
pub(crate) fn tool(program: &str) -> Command {
    let file = find(program).unwrap_or_else(|| program.into());
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "60"]).arg(file);
    command
}

/// Runs the command; its standard output. Panics, showing everything, unless it succeeds.
pub(crate) fn succeed(command: &mut Command) -> String {
    let output = run(command);
    assert!(output.status.success(), "{}", describe(command, &output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs the command, whatever comes of it.
pub(crate) fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// The command and all that it said.
pub(crate) fn describe(command: &Command, output: &Output) -> String {
    format!(
        "{command:?}: {}\n--- stdout\n{}\n--- stderr\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    )
}

/// Waits until `condition` holds; false if it does not within `limit`.
pub(crate) fn wait_until(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < limit {
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    condition()
}

/// Bytes without a pattern, the same for the same seed.
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
