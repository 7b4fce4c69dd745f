//! The program as a user runs it: arguments in, exit code and text out.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use super::server::binary;

/// What came of a run.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// The JSON object on standard output.
    pub(crate) fn json(&self) -> Value {
        let Self { stdout, stderr, .. } = self;
        serde_json::from_str(stdout).unwrap_or_else(|error| panic!("{error}: {stdout}{stderr}"))
    }

    /// Everything that was said.
    pub(crate) fn text(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

/// Runs the program in `folder`.
pub(crate) fn run_in<A: AsRef<OsStr>>(folder: &Path, arguments: &[A]) -> Run {
    let output = Command::new(binary()).current_dir(folder).args(arguments).output().expect("it starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Run {
        code: output.status.code().expect("it ends by itself"),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// The repository's folder.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn evenkeel(arguments: &[&str]) -> Output {
    Command::new(binary()).args(arguments).output().expect("runs")
}

/// Exit code and the JSON object on standard output.
pub(crate) fn json(arguments: &[&str]) -> (Option<i32>, Value) {
    let run = run_in(Path::new("."), arguments);
    (Some(run.code), run.json())
}

/// Exit code and everything that was said.
pub(crate) fn text(arguments: &[&str]) -> (Option<i32>, String) {
    let run = run_in(Path::new("."), arguments);
    (Some(run.code), run.text())
}

pub(crate) fn name(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}
