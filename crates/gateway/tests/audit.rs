//! The audit log of a live gateway says exactly what its accounts said, holds groups, survives what the
//! system refuses, and shows what was altered.

mod common;

use std::fs;
use std::path::Path;

use common::{Client, Gateway};
use evenkeel_audit::{Audit, Auditor, Expected, Log, verify};
use evenkeel_ledger::Account;

const SECTIONS: &str = "[store.s]\npath = \"store.img\"\nemulate = { rate = \"2000 IOPS\" }\nadmission = \"warn\"\n\
    audit = { folder = \"log\", key = \"key\", bytes_max = \"1 MiB\" }\n\
    [group.g]\nsla = { burst = 4, rate = \"100 IOPS\", latency = \"20 ms\" }\n\
    [volume.v]\noffset = \"0 B\"\nsize = \"4 MiB\"\n\
    sla = { burst = 8, rate = \"500 IOPS\", latency = \"2 ms\" }\n\
    [volume.w]\noffset = \"4 MiB\"\nsize = \"4 MiB\"\n\
    [volume.a]\ngroup = \"g\"\noffset = \"8 MiB\"\nsize = \"4 MiB\"\n\
    [volume.b]\ngroup = \"g\"\noffset = \"12 MiB\"\nsize = \"4 MiB\"\nlimit = \"200 IOPS\"\n";

/// Bursts of reads and writes on all volumes, from a client each.
fn load(gateway: &Gateway, rounds: u64) {
    std::thread::scope(|scope| {
        for (number, volume) in ["v", "w", "a", "b"].into_iter().enumerate() {
            scope.spawn(move || {
                let mut client = gateway.connect(volume);
                for round in 0..rounds {
                    client.burst(round, 4 + number as u64 * 3);
                }
            });
        }
    });
}

fn audited(folder: &Path) -> Audit {
    let mut auditor = Auditor::new();
    let mut log = Log::open(folder).unwrap();
    log.by_ref().for_each(|event| auditor.on_event(&event.unwrap()));
    assert!(log.is_closed());
    auditor.finish(log.signed_until())
}

fn account<'a>(audit: &'a Audit, name: &str, is_group: bool) -> &'a Account {
    let found = audit.volumes().find(|flow| flow.name == name && flow.is_group == is_group);
    &found.unwrap_or_else(|| panic!("{name} is not in the log")).account
}

#[test]
fn the_audit_says_what_the_live_accounts_said() {
    let mut gateway = Gateway::start(16 << 20, SECTIONS);
    load(&gateway, 25);
    let ended = gateway.server.take().unwrap().shutdown();
    assert!(ended.failures.is_empty(), "{:?}", ended.failures);
    let log = gateway.folder.path().join("log");
    let audit = audited(&log);
    assert_eq!(ended.accounts.len(), 4);
    for live in &ended.accounts {
        assert_eq!(account(&audit, &live.volume, false), &live.account, "{}", live.volume);
    }
    for live in &ended.groups {
        assert_eq!(account(&audit, &live.group, true), &live.account, "{}", live.group);
    }
    let missed: u64 = ended.accounts.iter().map(|live| live.account.missed).sum();
    assert!(missed > 0, "the load was made to be too much");
    assert!(audit.gaps.is_empty());
    assert_eq!(audit.scheduler.as_deref(), Some("pclock"));

    assert_eq!(verify(&log, &Expected::default()).unwrap().finding, None);
    let file = log.join("00000001.audit");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(&file, bytes).unwrap();
    let finding = verify(&log, &Expected::default()).unwrap().finding.expect("found");
    assert_eq!(finding.segment, 1);
}

#[test]
fn a_second_run_goes_on_in_a_new_file_and_a_second_store_is_refused() {
    let mut gateway = Gateway::start(16 << 20, SECTIONS);
    load(&gateway, 1);
    let text = format!("[gateway]\nlisten = [\"unix:other.sock\"]\n{SECTIONS}");
    let other = text.replace("store.img", "other.img");
    fs::File::create(gateway.folder.path().join("other.img")).unwrap().set_len(16 << 20).unwrap();
    let config =
        |text: &str| evenkeel_gateway::config::parse(text, &gateway.folder.path().join("test.toml")).unwrap();
    let error = evenkeel_gateway::Server::start(&config(&other)).expect_err("the log is in use").to_string();
    assert!(error.contains("store.s.audit") && error.contains("folder of its own"), "{error}");
    let again = config(&text);
    let ended = gateway.server.take().unwrap().shutdown();
    assert!(ended.failures.is_empty());
    gateway.server = Some(evenkeel_gateway::Server::start(&again).unwrap());
    let mut client = Client::connect(gateway.folder.path().join("other.sock"), "v");
    client.burst(1, 4);
    drop(client);
    let log = gateway.folder.path().join("log");
    let first: u64 = ended.accounts.iter().map(|live| live.account.offered).sum();
    let ended = gateway.server.take().unwrap().shutdown();
    assert!(ended.failures.is_empty(), "{:?}", ended.failures);
    let all: u64 =
        audited(&log).volumes().filter(|flow| !flow.is_group).map(|flow| flow.account.offered).sum();
    assert_eq!(all, first + 5);
    assert_eq!(verify(&log, &Expected::default()).unwrap().finding, None);
}

/// Waits until no file in the folder has grown for a second.
fn until_it_rests(folder: &Path) {
    let bytes = || -> u64 {
        let files = folder.read_dir().unwrap().map(|file| file.unwrap().metadata().unwrap().len());
        files.sum()
    };
    let mut before = None;
    while before.replace(bytes()) != Some(bytes()) {
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
}

#[test]
fn what_the_system_refuses_to_write_is_a_gap_that_counts_what_is_missing() {
    let sections = SECTIONS.replace("emulate = { rate = \"2000 IOPS\" }\n", "");
    let sections = sections.replace("bytes_max = ", "file_bytes_max = \"64 KiB\", bytes_max = ");
    let mut gateway = Gateway::start(16 << 20, &sections);
    let (log, away) = (gateway.folder.path().join("log"), gateway.folder.path().join("away"));
    let mut client = gateway.connect("w");
    (0..20).for_each(|round| client.burst(round, 100));
    // A file where the folder was: the log cannot begin its next file.
    fs::rename(&log, &away).unwrap();
    fs::write(&log, b"").unwrap();
    (0..150).for_each(|round| client.burst(round, 100));
    // The log's thread may be behind: it must have come to where it was refused.
    until_it_rests(&away);
    fs::remove_file(&log).unwrap();
    fs::rename(&away, &log).unwrap();
    client.burst(0, 100);
    drop(client);
    let ended = gateway.server.take().unwrap().shutdown();
    assert!(ended.failures.is_empty(), "{:?}", ended.failures);
    let served: u64 = ended.accounts.iter().map(|live| live.account.served).sum();
    let audit = audited(&log);
    let missing: u64 = audit.gaps.iter().map(|(_, records)| records).sum();
    assert!(missing > 0, "the load was made to fill more than a file");
    assert_eq!(account(&audit, "w", false).served + missing, served);
    assert_eq!(verify(&log, &Expected::default()).unwrap().finding, None);
}
