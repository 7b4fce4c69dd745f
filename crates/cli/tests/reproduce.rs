//! `evenkeel reproduce` and `evenkeel play` as users run them.

mod common;

use common::cli::{repository, run_in};

fn evenkeel(arguments: &[&str]) -> (i32, String, String) {
    let run = run_in(&repository(), arguments);
    (run.code, run.stdout, run.stderr)
}

#[test]
fn quick_experiments_give_the_same_bytes_twice() {
    let (code, first, error) = evenkeel(&["reproduce", "--quick", "--json"]);
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
    assert!(error.contains("cannot reach the server at /nonexistent/socket: "), "{error}");
    let (code, _, error) = evenkeel(&["play", "scenarios/small-trace.spc", "--to", "http://host"]);
    assert_eq!(code, 2);
    assert!(error.contains("nbd://HOST"), "{error}");
}
