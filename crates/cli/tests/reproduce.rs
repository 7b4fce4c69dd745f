//! `evenkeel reproduce` and `evenkeel play` as users run them.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use assert_cmd::Command;

fn evenkeel(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::cargo_bin("evenkeel")
        .expect("the binary is built")
        .current_dir(root())
        .args(arguments)
        .output()
        .expect("it starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code().expect("it exits"), text(output.stdout), text(output.stderr))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn quick_experiments_give_the_same_bytes_twice() {
    let begun = Instant::now();
    let (code, first, error) = evenkeel(&["reproduce", "--quick", "--json"]);
    assert!(begun.elapsed() < Duration::from_secs(60), "took {:?}", begun.elapsed());
    assert!(code == 0 || code == 1, "{error}");
    let (_, second, _) = evenkeel(&["reproduce", "--quick", "--json", "--threads", "1"]);
    assert!(first == second, "two runs differ");
    let value: serde_json::Value = serde_json::from_str(&first).expect("JSON");
    let experiments = value["experiments"].as_array().expect("a list");
    assert!(experiments.len() >= 3);
    // What fails says why: a law that does not hold is a finding, not a secret.
    for experiment in experiments {
        for check in experiment["study"]["checks"].as_array().expect("checks") {
            let explained = check["holds"] == true || check["reason"].is_string();
            assert!(explained, "{}: {} has no reason", experiment["id"], check["law"]);
        }
    }
    assert_eq!(code == 0, experiments.iter().all(|experiment| experiment["holds"] == true));
}

#[test]
fn live_experiments_run_only_when_asked_for() {
    let (code, listed, _) = evenkeel(&["reproduce", "--list", "--json"]);
    assert_eq!(code, 0);
    let value: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
    let experiments = value["experiments"].as_array().expect("a list").clone();
    let live = |row: &&serde_json::Value| row["live"] == true;
    assert_eq!(experiments.iter().filter(live).count(), 3);
    let (code, quick, _) = evenkeel(&["reproduce", "live", "--quick", "--list"]);
    assert_eq!((code, quick.contains("pclock-fig13")), (0, false), "no live one is quick");
}

#[test]
fn a_server_that_cannot_be_reached_or_named_is_told() {
    let uri = "nbd+unix:///v?socket=/nonexistent/socket";
    let (code, _, error) = evenkeel(&["play", "scenarios/small-trace.spc", "--to", uri]);
    assert_eq!(code, 2, "{error}");
    let (code, _, error) = evenkeel(&["play", "scenarios/small-trace.spc", "--to", "http://host"]);
    assert_eq!(code, 2);
    assert!(error.contains("nbd://HOST"), "{error}");
}
