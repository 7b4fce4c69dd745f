//! `evenkeel calibrate` on a real block device and over NBD, and profiles that are of another device.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::common::cli::{json, name, text};
use crate::common::{MIB, Server, have, may_mount, noise, volume, wait_until};
use crate::mounting::Loop;

const QUICK: [&str; 10] = [
    "--sizes",
    "4 KiB",
    "--depths",
    "1,4",
    "--sustain",
    "500 ms",
    "--time-limit",
    "300 ms",
    "--precision",
    "50%",
];

/// Calibrates into `profile`; what it says. Whether a shared machine is steady is not ours to say.
#[track_caller]
fn calibrate(target: &str, profile: &Path, more: &[&str]) -> Value {
    let (code, measured) =
        json(&[&["calibrate", target, "--out", name(profile), "--json"], &QUICK[..], more].concat());
    assert!(matches!(code, Some(0 | 1)), "{measured}");
    measured
}

/// What `check` says of a profile for a store at `path`.
#[track_caller]
fn foreign(folder: &Path, path: &str, profile: &Path) -> Value {
    let config = folder.join("checked.toml");
    let text = format!(
        "[gateway]\nlisten = [\"unix:s.sock\"]\n[store.pool]\npath = {path:?}\nprofile = {profile:?}\n\
         [volume.v]\noffset = \"0 B\"\nsize = \"1 MiB\"\n"
    );
    fs::write(&config, text).expect("written");
    let (code, checked) = json(&["check", name(&config), "--json"]);
    assert_eq!(code, Some(0), "a warning is no refusal: {checked}");
    checked["stores"][0]["foreign_profile"].clone()
}

#[test]
fn a_loop_device_is_measured_and_its_profile_is_its_own() {
    if !have(&["losetup"]) || !may_mount() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (image, profile) = (folder.path().join("disk.img"), folder.path().join("loop.profile.toml"));
    fs::write(&image, noise(3, 16 << 20)).expect("written");
    let disk = Loop::new(&image, &[]);
    let measured =
        calibrate(&disk.device, &profile, &["--writes", "--range", "8 MiB..16 MiB", "--destroy-data"]);
    let rows = measured["measurements"].as_array().expect("a list");
    assert_eq!(rows.len(), 8, "reads and writes, random and sequential, two depths: {measured}");
    assert!(rows.iter().all(|row| row["rate_iops"].as_f64() > Some(0.0)), "{measured}");
    let written = fs::read_to_string(&profile).expect("a profile");
    let device = disk.device.trim_start_matches("/dev/");
    assert!(written.contains("kind = \"block device\"") && written.contains(device), "{written}");
    let after = fs::read(&image).expect("there");
    assert!(after[..8 << 20] == noise(3, 16 << 20)[..8 << 20], "only inside the range");

    assert_eq!(foreign(folder.path(), &disk.device, &profile), Value::Null);
    let said = foreign(folder.path(), name(&image), &profile);
    let said = said.as_str().expect("the image lies on another device");
    assert!(said.contains(&disk.device) && said.contains("disk.img"), "{said}");
    let (_, shown) = text(&["check", name(&folder.path().join("checked.toml"))]);
    assert!(shown.contains("warning: profile") && shown.contains("evenkeel calibrate"), "{shown}");
}

#[test]
fn a_store_is_measured_through_its_gateway() {
    let store = "[store.pool]\npath = \"pool.img\"\nemulate = { rate = \"400 IOPS\" }\n";
    let server = Server::start(16 * MIB, &(store.to_owned() + &volume("db", 0, 16)));
    let profile = server.folder().join("nbd.profile.toml");
    let measured = calibrate(&server.uri("db"), &profile, &[]);
    for row in measured["measurements"].as_array().expect("a list") {
        let (low, high) = (row["low_iops"].as_f64().expect("low"), row["high_iops"].as_f64().expect("high"));
        // Never faster than the device behind it; how much slower is the machine's affair.
        assert!(low <= 400.0 && high >= 100.0, "{row}");
    }
    assert!(fs::read_to_string(&profile).expect("a profile").contains("kind = \"nbd\""));
    let said = foreign(server.folder(), name(&server.folder().join("pool.img")), &profile);
    assert!(said.as_str().is_some_and(|said| said.contains("measured over NBD")), "{said}");

    // What cannot be measured is told, and nothing is written.
    let none = server.folder().join("none.toml");
    let refused = |target: &str, more: &[&str], word: &str| {
        let (code, said) = text(&[&["calibrate", target, "--out", name(&none)], &QUICK[..], more].concat());
        assert!(code == Some(2) && said.contains(word), "{target}: {said}");
    };
    refused(&server.uri("nobody"), &[], "name of the export");
    refused(&server.uri("db"), &["--range", "0 B..1 GiB"], "has 16777216 bytes");
    refused(&server.uri("db"), &["--writes"], "--destroy-data");
    refused("nbd://", &[], "nbd://HOST");
    assert!(!none.exists());
    server.stop();
}

/// A server that we did not write; ended when dropped.
struct Nbdkit(Child);

impl Drop for Nbdkit {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn somebody_elses_server_is_measured_with_writes() {
    if !have(&["nbdkit"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("nbdkit.sock");
    let mut command = Command::new("nbdkit");
    command.arg("--foreground").arg("--unix").arg(&socket).args(["memory", "16M"]).stdin(Stdio::null());
    let _server = Nbdkit(command.spawn().expect("nbdkit starts"));
    assert!(wait_until(Duration::from_secs(10), || socket.exists()), "nbdkit listens");
    let uri = format!("nbd+unix:///?socket={}", socket.display());
    let profile = folder.path().join("profile.toml");
    let measured = calibrate(&uri, &profile, &["--writes", "--range", "4 MiB..8 MiB", "--destroy-data"]);
    let rows = measured["measurements"].as_array().expect("a list");
    assert_eq!(rows.iter().filter(|row| row["operation"] == "write").count(), 4);
    assert!(rows.iter().all(|row| row["rate_iops"].as_f64() > Some(0.0)), "{measured}");
}
