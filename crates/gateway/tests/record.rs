//! What a live engine was told is told to another one, which answers the same, byte for byte; and a store
//! that only observes.

mod common;

use std::fs::{self, File};
use std::io::BufReader;
use std::num::NonZeroU32;
use std::path::Path;

use common::Client;
use evenkeel_audit::{Answers, Call, EndReason, Recording};
use evenkeel_gateway::{RecordTo, Server, config, engine_of};

const SECTIONS: &str = "[store.s]\npath = \"store.img\"\nemulate = { rate = \"1500 IOPS\" }\nadmission = \"warn\"\n\
    depth = { min = 1, max = 8, window = \"50 ms\" }\n\
    [group.g]\nsla = { burst = 4, rate = \"100 IOPS\", latency = \"20 ms\" }\n\
    [volume.v]\noffset = \"0 B\"\nsize = \"4 MiB\"\n\
    sla = { burst = 8, rate = \"500 IOPS\", latency = \"4 ms\" }\n\
    [volume.w]\noffset = \"4 MiB\"\nsize = \"4 MiB\"\n\
    [volume.a]\ngroup = \"g\"\noffset = \"8 MiB\"\nsize = \"4 MiB\"\nlimit = \"200 IOPS\"\n";

/// Serves these sections in `folder` while three clients send bursts.
fn serve(folder: &Path, sections: &str, bytes_max: u64) -> (evenkeel_gateway::Ended, RecordTo) {
    File::create(folder.join("store.img")).unwrap().set_len(16 << 20).unwrap();
    let text = format!("[gateway]\nlisten = [\"unix:nbd.sock\"]\n{sections}");
    let config = config::parse(&text, &folder.join("test.toml")).unwrap();
    let record = RecordTo {
        store: "s".into(),
        file: folder.join("run.rec"),
        events: Some(folder.join("live.txt")),
        bytes_max,
        configuration: text,
    };
    let server = Server::start_recording(&config, Some(&record)).unwrap();
    std::thread::scope(|scope| {
        for (number, volume) in ["v", "w", "a"].into_iter().enumerate() {
            scope.spawn(move || {
                let mut client = Client::connect(folder.join("nbd.sock"), volume);
                (0..16).for_each(|round| client.burst(round, 3 + 4 * number as u64));
            });
        }
    });
    let ended = server.shutdown();
    assert!(ended.failures.is_empty(), "{:?}", ended.failures);
    (ended, record)
}

/// Tells an engine again what is in the recording: its events, why it ended, and whether the hashes agree.
fn replay(record: &RecordTo) -> (Vec<u8>, EndReason, bool) {
    let mut recording = Recording::open(BufReader::new(File::open(&record.file).unwrap())).unwrap();
    assert_eq!(recording.store(), "s");
    let config = config::parse(recording.configuration(), &record.file).unwrap();
    let mut engine = engine_of(&config.stores[0]);
    let (mut answers, mut events) = (Answers::default(), Vec::new());
    while let Some(call) = recording.next_call().unwrap() {
        match call {
            Call::Input(now, input) => engine.handle_input(now, input).unwrap(),
            Call::Poll(now, count) => (0..count).for_each(|_| {
                if let Some(output) = engine.poll_output(now) {
                    events.extend_from_slice(answers.take(now, &output, engine.outstanding()));
                }
            }),
            Call::Depth(depth) => engine.set_depth(NonZeroU32::new(depth).unwrap()),
            Call::Scheduler(..) => panic!("nobody changed it"),
            Call::End(end) => return (events, end.reason, end == answers.end(end.reason)),
        }
    }
    panic!("the recording has no end");
}

#[test]
fn a_live_run_is_replayed_byte_for_byte() {
    for scheduler in ["pclock", "nested", "wf2q+", "fcfs"] {
        let folder = tempfile::tempdir().unwrap();
        let sections = SECTIONS.replace("emulate", &format!("scheduler = \"{scheduler}\"\nemulate"));
        let (ended, record) = serve(folder.path(), &sections, 1 << 30);
        let (events, reason, same) = replay(&record);
        assert_eq!((reason, same), (EndReason::Ended, true), "{scheduler}");
        assert_eq!(fs::read(folder.path().join("live.txt")).unwrap(), events, "{scheduler}");
        let served: u64 = ended.accounts.iter().map(|live| live.account.served).sum();
        assert_eq!(events.iter().filter(|byte| **byte == b'\n').count() as u64, 2 * served);
    }
}

#[test]
fn a_recording_ends_at_its_largest_size_and_is_good_up_to_there() {
    let folder = tempfile::tempdir().unwrap();
    let (_, record) = serve(folder.path(), SECTIONS, 4096);
    let (events, reason, same) = replay(&record);
    assert_eq!((reason, same), (EndReason::Full, true));
    assert_eq!(fs::read(folder.path().join("live.txt")).unwrap(), events);
    let text = record.configuration.clone();
    let config = config::parse(&text, &folder.path().join("test.toml")).unwrap();
    let error = Server::start_recording(&config, Some(&record)).expect_err("the files are there").to_string();
    assert!(error.contains("live.txt") && error.contains("does not exist yet"), "{error}");
}

#[test]
fn a_store_that_observes_holds_nothing_back_and_still_judges() {
    let folder = tempfile::tempdir().unwrap();
    let sections = SECTIONS.replace("emulate", "observe = true\nemulate");
    let (ended, record) = serve(folder.path(), &sections, 1 << 30);
    assert_eq!((ended.stores[0].scheduler, ended.stores[0].depth_changes), ("fcfs", 0));
    let missed: u64 = ended.accounts.iter().map(|live| live.account.missed).sum();
    assert!(missed > 0, "nobody was held off the others");
    // Whatever has arrived is submitted at that very instant.
    let (events, _, same) = replay(&record);
    assert!(same);
    let events = String::from_utf8(events).unwrap();
    let word = |line: &str, key: &str| {
        let value = line.split(' ').find_map(|word| word.strip_prefix(key));
        value.unwrap_or_else(|| panic!("{key} in {line}")).to_owned()
    };
    for reply in events.lines().filter(|line| line.contains(" reply ")) {
        assert_eq!(word(reply, "arrival="), word(reply, "dispatch="), "{reply}");
    }
}
