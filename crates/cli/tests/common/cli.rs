//! The program as a user runs it: arguments in, exit code and text out.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use super::server::binary;

pub(crate) fn evenkeel(arguments: &[&str]) -> Output {
    Command::new(binary()).args(arguments).output().expect("runs")
}

/// Exit code and the JSON object on standard output.
pub(crate) fn json(arguments: &[&str]) -> (Option<i32>, Value) {
    let output = evenkeel(arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let value = serde_json::from_str(&text);
    (output.status.code(), value.unwrap_or_else(|error| panic!("{error}: {text}{output:?}")))
}

/// Exit code and everything that was said.
pub(crate) fn text(arguments: &[&str]) -> (Option<i32>, String) {
    let output = evenkeel(arguments);
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

pub(crate) fn name(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}
