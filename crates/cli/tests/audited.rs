//! A served store under load, and what is left of it: verdicts, audit, proof, explanation and replay.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::cli::run_in;
use common::client::{Client, READ, Request};
use common::server::{binary, prepare};
use common::{MIB, volume, wait_until};
use serde_json::Value;

const STORE: &str = "[store.pool]\npath = \"pool.img\"\nemulate = { rate = \"800 IOPS\" }\nadmission = \"warn\"\n\
    audit = { folder = \"ledger\", key = \"ledger.key\" }\n";

fn sections() -> String {
    let gold = volume("gold", 0, 4) + "sla = { burst = 4, rate = \"300 IOPS\", latency = \"4 ms\" }\n";
    let group = "[group.office]\nsla = { burst = 2, rate = \"100 IOPS\", latency = \"50 ms\" }\n";
    let member =
        |name: &str, place: u64| volume(name, place, 4).replace("store = \"pool\"\n", "group = \"office\"\n");
    let limited = member("mail", 8) + "limit = \"150 IOPS\"\n";
    STORE.to_owned() + group + &gold + &volume("bulk", 4, 4) + &limited + &member("files", 12)
}

fn evenkeel(folder: &Path, args: &[&str]) -> (i32, String) {
    let run = run_in(folder, args);
    (run.code, run.text())
}

/// Serves in `folder` with these options while four clients send bursts; the last line of `serve --json`.
fn serve(folder: &Path, options: &[&str]) -> Value {
    let out = fs::File::create(folder.join("serve.json")).expect("a file");
    let mut command = Command::new(binary());
    command.current_dir(folder).args(["serve", "evenkeel.toml", "--json"]).args(options).stdout(out);
    let mut child = command.spawn().expect("the server starts");
    let socket = folder.join("nbd.sock");
    let said = || fs::read_to_string(folder.join("serve.json")).expect("readable");
    assert!(wait_until(std::time::Duration::from_secs(10), || said().contains("ready")), "{}", said());
    std::thread::scope(|scope| {
        for (number, name) in ["gold", "bulk", "mail", "files"].into_iter().enumerate() {
            let socket = &socket;
            scope.spawn(move || {
                let mut client = Client::open(socket, name).expect("connects");
                (0..30).for_each(|round| burst(&mut client, round, 3 + 3 * number as u64));
            });
        }
    });
    let id = libc::pid_t::try_from(child.id()).expect("an id");
    // SAFETY: kill has no memory effects; the child has not been waited for.
    assert_eq!(unsafe { libc::kill(id, libc::SIGTERM) }, 0);
    assert_eq!(child.wait().expect("ends").code(), Some(0));
    serde_json::from_str(said().lines().last().expect("a line")).expect("JSON")
}

fn burst(client: &mut Client, round: u64, requests: u64) {
    for index in 0..requests {
        client.send(Request::new(READ, (round * 7 + index) % 512 * 4096, 4096), &[]).expect("sent");
    }
    for _ in 0..requests {
        assert_eq!(client.reply().expect("a reply").0, 0);
        client.read_data(4096).expect("data");
    }
    assert_eq!(client.write(0, round % 512 * 4096, &[1; 512]).expect("written"), 0);
}

#[test]
fn a_served_run_is_audited_proven_and_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    prepare(folder, "", "", 16 * MIB, &sections());
    let ended = serve(folder, &[]);
    let (code, text) = evenkeel(folder, &["audit", "ledger", "--json"]);
    let audit: Value = serde_json::from_str(&text).expect("JSON");
    let mut missed = 0;
    for (key, name) in [("volumes", "volume"), ("groups", "group")] {
        for live in ended[key].as_array().expect("a list") {
            let mut flows = audit[key].as_array().expect("a list").iter();
            let flow = flows.find(|flow| flow["volume"] == live[name]).expect("in the log");
            let account = flow["account"].as_object().expect("an account");
            assert!(account.len() > 10, "{account:?}");
            for (field, value) in account {
                assert_eq!(value, &live[field], "{}: {field}", live[name]);
            }
            missed += live["missed"].as_u64().expect("a number");
        }
    }
    assert_eq!(code, i32::from(missed > 0), "{text}");
    let (code, text) = evenkeel(folder, &["audit", "verify", "ledger"]);
    assert_eq!(code, 0, "{text}");
    for (volume, word) in [("gold", "gold is promised"), ("bulk", "promised nothing"), ("mail", "outside")] {
        let (code, text) = evenkeel(folder, &["explain", volume, "--ledger", "ledger"]);
        assert!(code == 0 && text.contains(word), "{text}");
    }
    let (code, text) = evenkeel(folder, &["explain", "gold", "--ledger", "ledger", "--at", "3600"]);
    assert!(code == 0 && text.contains("No request of gold"), "{text}");

    let file = folder.join("ledger/00000001.audit");
    let mut bytes = fs::read(&file).expect("readable");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).expect("written");
    let (code, text) = evenkeel(folder, &["audit", "verify", "ledger"]);
    assert!(code == 1 && text.contains("NOT as written") && text.contains("record"), "{text}");
}

#[test]
fn a_store_that_observes_holds_nothing_back_and_still_judges() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    prepare(folder, "", "", 16 * MIB, &sections().replace("emulate", "observe = true\nemulate"));
    let ended = serve(folder, &[]);
    assert_eq!(ended["stores"][0]["scheduler"], "fcfs", "{ended}");
    let (_, text) = evenkeel(folder, &["audit", "ledger", "--json"]);
    let audit: Value = serde_json::from_str(&text).expect("JSON");
    let flow = |name: &str| {
        let flows = audit["volumes"].as_array().expect("a list").iter();
        flows.clone().find(|flow| flow["volume"] == name).expect("in the log").clone()
    };
    assert!(flow("gold")["missed"].as_u64() > Some(0), "the others are not held off: {text}");
    assert!(flow("gold")["blame"]["other_tenants_us"].as_f64() > Some(0.0), "{text}");
    for name in ["gold", "bulk", "mail", "files"] {
        assert_eq!(flow(name)["blame"]["operator"]["held_back_us"].as_f64(), Some(0.0), "{name}: {text}");
    }
}

#[test]
fn a_recording_is_replayed_byte_for_byte() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    prepare(folder, "", "", 16 * MIB, &sections());
    let ended = serve(folder, &["--record", "run.rec", "--events", "live.txt"]);
    let (code, text) = evenkeel(folder, &["replay", "run.rec", "--events", "again.txt", "--json"]);
    assert_eq!(code, 0, "{text}");
    let live = fs::read(folder.join("live.txt")).expect("events");
    assert!(live.len() > 10_000);
    assert_eq!(live, fs::read(folder.join("again.txt")).expect("events"), "byte for byte");
    let replayed: Value = serde_json::from_str(&text).expect("JSON");
    for live in ended["volumes"].as_array().expect("a list") {
        let mut flows = replayed["volumes"].as_array().expect("a list").iter();
        let account = &flows.find(|flow| flow["volume"] == live["volume"]).expect("replayed")["account"];
        for field in ["offered", "served", "promised", "missed", "outside", "latency", "worst_miss"] {
            assert_eq!(account[field], live[field], "{}: {field}", live["volume"]);
        }
    }

    let file = folder.join("run.rec");
    let bytes = fs::read(&file).expect("readable");
    fs::write(&file, &bytes[..bytes.len() / 2]).expect("written");
    let (code, text) = evenkeel(folder, &["replay", "run.rec"]);
    assert!(code == 1 && text.contains("was cut"), "{text}");
    let (code, text) = evenkeel(folder, &["replay", "live.txt"]);
    assert!(code == 2 && text.contains("no recording"), "{text}");
    let (code, text) = evenkeel(folder, &["serve", "evenkeel.toml", "--record", "run.rec"]);
    assert!(code == 1 && text.contains("run.rec"), "{text}");
}
