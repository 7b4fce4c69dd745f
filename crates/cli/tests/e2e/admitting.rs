//! Admission in the live gateway: who does not fit is refused, with the reason and what would help, or served as
//! best effort.

use std::process::Command;

use serde_json::Value;

use crate::common::server::{binary, prepare};
use crate::common::{MIB, Server, have, run, succeed, tool, volume};

/// `web` alone fits 900 IOPS, `log` does not fit beside it, `etl` does again.
fn sections(admission: &str) -> String {
    let promised = |name: &str, place: u64, burst: u64| {
        volume(name, place, 4)
            + &format!("sla = {{ burst = {burst}, rate = \"10 IOPS\", latency = \"100 ms\" }}\n")
    };
    format!("[store.pool]\npath = \"pool.img\"\ncapacity = \"900 IOPS\"\nadmission = \"{admission}\"\n")
        + &promised("web", 0, 60)
        + &promised("log", 4, 50)
        + &promised("etl", 8, 20)
}

#[test]
fn promises_that_do_not_fit_are_refused_with_reason_and_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    prepare(folder.path(), "", "", 16 * MIB, &sections("refuse"));
    let serve = |options: &[&str]| {
        let mut command = Command::new("timeout");
        command.args(["20"]).arg(binary()).args(["serve", "evenkeel.toml"]).args(options);
        run(command.current_dir(folder.path()))
    };
    let output = serve(&["--json"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let refused: Value = serde_json::from_str(said.lines().last().expect("a line")).expect("JSON");
    assert_eq!(
        (&refused["event"], &refused["ok"], &refused["store"]),
        (&"failed".into(), &false.into(), &"pool".into())
    );
    // 130 requests within 100 ms.
    assert_eq!((&refused["needed_iops"], &refused["capacity_iops"]), (&1300.0.into(), &900.0.into()));
    assert_eq!(refused["binding"], "web", "of equal deadlines the first");
    let changes = refused["any_one_of"].as_array().expect("a list");
    let of = |name: &str, word: &str| {
        let mut changes = changes.iter();
        changes.any(|it| {
            it["name"] == name && it["change"].as_str().is_some_and(|words| words.starts_with(word))
        })
    };
    assert!(of("web", "burst 20 instead of 60") && of("log", "burst 10 instead of 50"), "{refused}");
    assert!(of("log", "latency ") && !of("etl", "burst"), "40 fewer are needed, and etl has 20: {refused}");

    let output = serve(&[]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    for word in [
        "need 1300 IOPS",
        "capacity is 900 IOPS",
        "the deadline of web binds",
        "they fit with",
        "best-effort",
    ] {
        assert!(stderr.contains(word), "{word}: {stderr}");
    }
    assert!(!folder.path().join("nbd.sock").exists(), "nobody was let in");
}

#[test]
fn who_does_not_fit_is_served_as_best_effort() {
    let server = Server::start(16 * MIB, &sections("best-effort"));
    assert!(server.greeting.contains("log does not fit and is served as best effort"), "{}", server.greeting);
    assert!(!server.greeting.contains("web does not") && !server.greeting.contains("etl does not"));
    if have(&["qemu-io"]) {
        let commands =
            ["write -P 0x5a 0 1M", "read -P 0x5a 0 1M", "aio_write -P 7 2M 64k", "flush", "read -P 7 2M 64k"];
        let mut command = tool("qemu-io");
        command.args(["-f", "raw"]);
        commands.iter().for_each(|line| {
            command.args(["-c", line]);
        });
        let said = succeed(command.arg(server.uri("log")));
        for word in ["failed", "error", "Pattern"] {
            assert!(!said.contains(word), "{said}");
        }
    }
    server.stop();
}

#[test]
fn programs_are_told_who_is_best_effort() {
    let folder = tempfile::tempdir().expect("a folder");
    prepare(folder.path(), "", "", 16 * MIB, &sections("best-effort"));
    // Ended by SIGTERM after a while, in order.
    let mut command = Command::new("timeout");
    command.arg("4").arg(binary()).args(["serve", "evenkeel.toml", "--json"]).current_dir(folder.path());
    let output = run(&mut command);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines[0]["best_effort"], serde_json::json!(["log"]), "{said}");
    let ended = lines.last().expect("a line");
    let volumes = ended["volumes"].as_array().expect("a list");
    let sla = |name: &str| volumes.iter().find(|it| it["volume"] == name).expect("served")["slo"].clone();
    assert_ne!(sla("web"), sla("log"), "{said}");
}
