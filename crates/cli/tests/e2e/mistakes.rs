//! Bad situations: each ends with a message that names the key, path or peer, never with a panic.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::server::{binary, prepare};
use crate::common::{MIB, Server, store, volume};

/// Runs `evenkeel WORD evenkeel.toml` in the folder; it must end by itself.
fn evenkeel(word: &str, folder: &Path) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "20"]).arg(binary()).args([word, "evenkeel.toml"]).current_dir(folder);
    command.output().expect("evenkeel runs")
}

/// The configuration must be refused by `serve` with one of the codes; the message holds each of `words`.
#[track_caller]
fn refused(folder: &Path, codes: &[i32], words: &[&str]) {
    let output = evenkeel("serve", folder);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code().unwrap_or(-1);
    assert!(codes.contains(&code), "exit code {code}, expected one of {codes:?}:\n{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
    // A message may be wrapped and framed for the terminal; compare without line breaks and bars.
    let flat: String = stderr.replace(['│', '\n'], " ").split_whitespace().collect::<Vec<_>>().join(" ");
    let squeezed: String = flat.split(' ').collect();
    for word in words {
        let found = flat.contains(word) || squeezed.contains(&word.replace(' ', ""));
        assert!(found, "the message does not name `{word}`:\n{stderr}");
    }
}

/// A folder with this configuration over a pool of 32 MiB.
fn folder_with(stores_and_volumes: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    prepare(folder.path(), "", "", 32 * MIB, stores_and_volumes);
    folder
}

fn good() -> String {
    store().to_owned() + &volume("db", 0, 16)
}

#[test]
fn a_missing_configuration_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    refused(folder.path(), &[2], &["evenkeel.toml"]);
}

#[test]
fn a_port_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("its address").port();
    let folder = tempfile::tempdir().expect("a temporary folder");
    prepare(folder.path(), &format!(", \"tcp://127.0.0.1:{port}\""), "", 32 * MIB, &good());
    refused(folder.path(), &[1, 2], &[&port.to_string(), "in use"]);
}

#[test]
fn a_socket_of_a_live_server_is_not_taken_over() {
    let server = Server::start(32 * MIB, &good());
    // Another server, with a backing of its own, that is told to listen at the same socket.
    let folder = folder_with(&good());
    let text = fs::read_to_string(server.folder().join("evenkeel.toml")).expect("evenkeel.toml");
    fs::write(folder.path().join("evenkeel.toml"), text).expect("evenkeel.toml");
    refused(folder.path(), &[1, 2], &["nbd.sock"]);
    // The first server still answers there.
    crate::common::client::Client::open(&server.socket(), "db").expect("the first server still serves");
    server.stop();
}

#[test]
fn a_backing_in_use_by_another_server_is_named() {
    let server = Server::start(32 * MIB, &good());
    refused(server.folder(), &[1, 2], &["pool.img", "locked"]);
    server.stop();
}

#[test]
fn a_socket_that_a_killed_server_left_is_reused() {
    let folder = folder_with(&good());
    Server::start_in(folder.path()).kill();
    assert!(folder.path().join("nbd.sock").exists(), "this test expects the socket to stay behind");
    Server::start_in(folder.path()).stop();
}

#[test]
fn a_missing_backing_is_named() {
    let folder = folder_with(&good());
    fs::remove_file(folder.path().join("pool.img")).expect("pool.img was there");
    refused(folder.path(), &[1, 2], &["pool.img"]);
}

#[test]
fn a_backing_too_small_is_named_with_the_volume() {
    let folder = folder_with(&(store().to_owned() + &volume("db", 16, 17)));
    refused(folder.path(), &[1, 2], &["db", "pool.img"]);
}

#[test]
fn overlapping_slices_are_both_named() {
    let folder = folder_with(&(store().to_owned() + &volume("db", 0, 16) + &volume("log", 15, 4)));
    refused(folder.path(), &[2], &["db", "log", "overlap"]);
}

#[test]
fn a_backing_that_is_no_file_is_named() {
    let folder = folder_with(&good().replace("pool.img", "subfolder"));
    fs::create_dir(folder.path().join("subfolder")).expect("a folder");
    refused(folder.path(), &[1, 2], &["subfolder"]);
}

#[test]
fn an_unwritable_backing_is_named() {
    // Root may write to any file by its mode; nobody may write to this one.
    let folder = folder_with(&good().replace("\"pool.img\"", "\"/proc/version\""));
    refused(folder.path(), &[1, 2], &["/proc/version"]);
}

#[test]
fn a_misspelt_key_is_named() {
    let sla = "sla = { burst = 20, rate = \"200 IOPS\", latncy = \"100 ms\" }\n";
    refused(folder_with(&(good() + sla)).path(), &[2], &["latncy"]);
}

#[test]
fn a_misspelt_section_is_named() {
    refused(folder_with(&good().replace("[volume.", "[volumes.")).path(), &[2], &["volumes"]);
}

#[test]
fn a_value_without_unit_is_named() {
    refused(folder_with(&good().replace("\"16 MiB\"", "\"16\"")).path(), &[2], &["16"]);
    let sla = "sla = { burst = 20, rate = \"200 IOPS\", latency = \"100\" }\n";
    refused(folder_with(&(good() + sla)).path(), &[2], &["latency"]);
}

#[test]
fn an_unknown_store_is_named() {
    refused(folder_with(&good().replace("store = \"pool\"", "store = \"poool\"")).path(), &[2], &["poool"]);
}

#[test]
fn broken_toml_is_shown_with_its_line() {
    refused(folder_with("[store.pool\n").path(), &[2], &["[store.pool"]);
}

#[test]
fn an_empty_configuration_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("evenkeel.toml"), "").expect("an empty file");
    refused(folder.path(), &[2], &["gateway"]);
}

#[test]
fn check_tells_fitting_from_not_fitting_from_wrong() {
    let sla =
        |burst: u32| format!("sla = {{ burst = {burst}, rate = \"200 IOPS\", latency = \"100 ms\" }}\n");
    let slow = |burst| good().replace("100000 IOPS", "475 IOPS") + &sla(burst);
    let code = |text: &str| {
        let output = evenkeel("check", folder_with(text).path());
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!stderr.contains("panicked"), "{stderr}");
        output.status.code()
    };
    assert_eq!(code(&slow(20)), Some(0), "20 within 100 ms fit 475 IOPS");
    assert_eq!(code(&slow(60)), Some(1), "60 within 100 ms do not fit 475 IOPS");
    assert_eq!(code("[store.pool\n"), Some(2));
}
