//! `evenkeel calibrate` and `show` as a user runs them.

mod common;

use std::fs;

use common::cli::{evenkeel, json, name, text};

const QUICK: [&str; 6] = ["--sizes", "4 KiB,64 KiB", "--depths", "1,4", "--sustain", "1 s"];

#[test]
fn a_device_of_known_rate_is_measured_shown_and_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let (drive, profile) = (folder.path().join("drive.toml"), folder.path().join("profile.toml"));
    let device = "kind = \"constant-rate\"\nrate = \"2500 IOPS\"\nservers = 4\ncapacity = \"1 GiB\"\n";
    fs::write(&drive, device).expect("written");
    let mut arguments = vec!["calibrate", "--model", name(&drive), "--out", name(&profile), "--json"];
    arguments.extend(QUICK);
    let (code, measured) = json(&arguments);
    assert_eq!(code, Some(0), "{measured}");
    for row in measured["measurements"].as_array().expect("a list") {
        let known = if row["depth"] == 1 { 625.0 } else { 2500.0 };
        let (low, high) = (row["low_iops"].as_f64().expect("low"), row["high_iops"].as_f64().expect("high"));
        assert!(low <= known && known <= high, "{row}");
    }
    assert_eq!(measured["depth"], 4);
    // Not overwritten.
    let (code, message) = text(&arguments[..5]);
    assert!(code == Some(2) && message.contains("is there already"), "{message}");

    let figure = folder.path().join("profile.svg");
    let (code, shown) = text(&["calibrate", "show", name(&profile), "--svg", name(&figure)]);
    assert!(code == Some(0) && shown.contains("steady") && shown.contains("random read"), "{shown}");
    assert!(fs::read_to_string(&figure).expect("a figure").contains("accesses outstanding"));

    let config = folder.path().join("evenkeel.toml");
    let sections = "[gateway]\nlisten = [\"unix:s.sock\"]\n[store.pool]\npath = \"pool.img\"\n\
        profile = \"profile.toml\"\n[volume.v]\noffset = \"0 B\"\nsize = \"1 MiB\"\n\
        sla = { burst = 40, rate = \"2000 IOPS\", latency = \"50 ms\" }\n";
    fs::write(&config, sections).expect("written");
    let (code, checked) = json(&["check", name(&config), "--json"]);
    let store = &checked["stores"][0];
    assert_eq!(code, Some(0), "{checked}");
    assert_eq!((&store["capacity_iops"], &store["depth"]), (&measured["capacity_iops"], &measured["depth"]));
    // More than the device gives.
    fs::write(&config, sections.replace("2000 IOPS", "2600 IOPS")).expect("written");
    assert_eq!(evenkeel(&["check", name(&config)]).status.code(), Some(1));
    // What is stated counts.
    let stated = sections.replace("profile =", "capacity = \"2100 IOPS\"\ndepth = 2\nprofile =");
    fs::write(&config, stated).expect("written");
    let (_, checked) = json(&["check", name(&config), "--json"]);
    assert_eq!(checked["stores"][0]["capacity_iops"], 2100.0);
    assert_eq!(checked["stores"][0]["depth"], 2);
}

#[test]
fn a_new_file_is_measured_with_writes_and_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (scratch, profile) = (folder.path().join("scratch.img"), folder.path().join("profile.toml"));
    let mut arguments = vec!["calibrate", name(&scratch), "--scratch", "8 MiB", "--writes", "--json"];
    arguments.extend(["--out", name(&profile), "--time-limit", "100 ms", "--precision", "50%"]);
    arguments.extend(QUICK);
    let (code, measured) = json(&arguments);
    // Whether a shared machine is steady is not ours to say.
    assert!(code == Some(0) || code == Some(1), "{measured}");
    let rows = measured["measurements"].as_array().expect("a list");
    assert_eq!(rows.len(), 16);
    assert!(rows.iter().any(|row| row["operation"] == "write"));
    assert!(!scratch.exists() && profile.exists());
}

#[test]
fn nothing_is_written_to_a_target_without_consent() {
    let folder = tempfile::tempdir().expect("a folder");
    let (target, profile) = (folder.path().join("data.img"), folder.path().join("profile.toml"));
    let data = vec![7_u8; 4 << 20];
    fs::write(&target, &data).expect("written");
    let base = ["calibrate", name(&target), "--out", name(&profile)];
    let refused = |more: &[&str], words: &str| {
        let (code, message) = text(&[&base, more].concat());
        assert!(code == Some(2) && message.contains(words), "{more:?}: {message}");
    };
    refused(&["--writes"], "--destroy-data");
    refused(&["--writes", "--range", "0 B..1 MiB"], "--destroy-data");
    refused(&["--writes", "--destroy-data"], "--range");
    refused(&["--range", "0 B..1 GiB"], "has 4194304 bytes");
    refused(&["--scratch", "8 MiB", "--writes"], "File exists");
    refused(&["--sizes", "5 KiB"], "multiple of 4 KiB");
    assert_eq!(fs::read(&target).expect("there"), data);
    assert!(!profile.exists());
    // With consent, only inside the range.
    let mut arguments = base.to_vec();
    arguments.extend(["--writes", "--range", "1 MiB..2 MiB", "--destroy-data", "--time-limit", "50 ms"]);
    arguments.extend(["--sizes", "4 KiB", "--depths", "2", "--sustain", "0 s", "--precision", "50%"]);
    let (code, message) = text(&arguments);
    assert!(code == Some(0) || code == Some(1), "{message}");
    let after = fs::read(&target).expect("there");
    assert!(after[..1 << 20] == data[..1 << 20] && after[2 << 20..] == data[2 << 20..]);
    assert!(after[1 << 20..2 << 20] != data[1 << 20..2 << 20]);
}

#[test]
fn bad_targets_and_profiles_are_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let (holes, profile) = (folder.path().join("holes.img"), folder.path().join("profile.toml"));
    fs::File::create(&holes).and_then(|file| file.set_len(1 << 20)).expect("made");
    let (code, message) = text(&["calibrate", name(&holes), "--out", name(&profile)]);
    assert!(code == Some(2) && message.contains("has holes"), "{message}");
    let (code, message) = text(&["calibrate", "/dev/null", "--out", name(&profile)]);
    assert!(code == Some(2) && message.contains("neither a regular file nor a block device"), "{message}");
    let (code, message) = text(&["calibrate", "--model", "no-such-drive", "--out", name(&profile)]);
    assert!(code == Some(2) && message.contains("microsoft-ssd"), "{message}");
    fs::write(&profile, "version = 9\n").expect("written");
    let (code, message) = text(&["calibrate", "show", name(&profile)]);
    assert!(code == Some(2) && message.contains("version 9"), "{message}");
    let config = folder.path().join("evenkeel.toml");
    let sections = "[gateway]\nlisten = [\"unix:s.sock\"]\n[store.pool]\npath = \"pool.img\"\nprofile = \"profile.toml\"\n";
    fs::write(&config, sections).expect("written");
    let (code, message) = text(&["check", name(&config)]);
    assert!(code == Some(2) && message.contains("store.pool.profile"), "{message}");
    assert!(message.contains("profile.toml:1:11: version"), "{message}");
}
