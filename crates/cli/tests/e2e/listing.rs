//! What clients see before they read: names, sizes, flags, block sizes.

use std::net::TcpListener;

use serde_json::Value;

use crate::common::{MIB, Server, have, store, succeed, tool, volume};

fn config() -> String {
    store().to_owned() + &volume("db", 0, 16) + &volume("log", 16, 8) + &volume("scratch", 24, 8)
}

#[test]
fn nbdinfo_lists_every_export() {
    if !have(&["nbdinfo"]) {
        return;
    }
    let server = Server::start(32 * MIB, &config());
    let text = succeed(tool("nbdinfo").arg("--list").arg(server.uri("")));
    for name in ["db", "log", "scratch"] {
        assert!(text.contains(&format!("export=\"{name}\"")), "{text}");
    }
    server.stop();
}

#[test]
fn nbdinfo_shows_sizes_flags_and_block_sizes() {
    if !have(&["nbdinfo"]) {
        return;
    }
    let server = Server::start(32 * MIB, &config());
    let text = succeed(tool("nbdinfo").args(["--list", "--json"]).arg(server.uri("")));
    let json: Value = serde_json::from_str(&text).expect("nbdinfo prints JSON");
    let exports = json["exports"].as_array().expect("a list of exports");
    assert_eq!(exports.len(), 3, "{text}");
    for (export, (name, size)) in exports.iter().zip([("db", 16), ("log", 8), ("scratch", 8)]) {
        assert_eq!(export["export-name"], name, "{text}");
        assert_eq!(export["export-size"], size * MIB, "{text}");
        for flag in ["can_flush", "can_fua", "can_multi_conn", "can_trim", "can_zero"] {
            assert_eq!(export[flag], true, "{flag} of {name}: {text}");
        }
        assert_eq!(export["is_read_only"], false, "{text}");
        let block = |key: &str| export[key].as_u64().unwrap_or_else(|| panic!("{key}: {text}"));
        let (least, best) = (block("block_size_minimum"), block("block_size_preferred"));
        let most = block("block_size_maximum");
        assert!(least.is_power_of_two() && least <= best && best <= most, "{text}");
        assert!(most >= 1 << 20, "payloads of a mebibyte are ordinary: {text}");
    }
    server.stop();
}

#[test]
fn a_read_only_volume_says_so_and_refuses_writes() {
    if !have(&["nbdinfo", "qemu-io"]) {
        return;
    }
    let config = store().to_owned() + &volume("db", 0, 8) + "read_only = true\n";
    let server = Server::start(8 * MIB, &config);
    let text = succeed(tool("nbdinfo").arg("--json").arg(server.uri("db")));
    let json: Value = serde_json::from_str(&text).expect("nbdinfo prints JSON");
    assert_eq!(json["exports"][0]["is_read_only"], true, "{text}");
    let write = ["-f", "raw", "-c", "write -P 1 0 4k"];
    let output = tool("qemu-io").args(write).arg(server.uri("db")).output().expect("qemu-io runs");
    assert!(!output.status.success(), "a write to a read-only volume was accepted");
    server.stop();
}

#[test]
fn an_unknown_export_is_refused() {
    if !have(&["nbdinfo"]) {
        return;
    }
    let server = Server::start(32 * MIB, &config());
    let output = tool("nbdinfo").arg(server.uri("nothing")).output().expect("nbdinfo runs");
    assert!(!output.status.success(), "an export that does not exist was opened");
    succeed(tool("nbdinfo").arg(server.uri("db")));
    server.stop();
}

#[test]
fn tcp_serves_as_well() {
    if !have(&["nbdinfo"]) {
        return;
    }
    // A port that was free a moment ago.
    let port =
        TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
    let server = Server::start_on_tcp(port, 32 * MIB, &config());
    let size = succeed(tool("nbdinfo").args(["--size", &format!("nbd://127.0.0.1:{port}/log")]));
    assert_eq!(size.trim(), (8 * MIB).to_string());
    server.stop();
}
