//! QEMU's tools: images converted, patterns written, zeroed, discarded, flushed.

use std::fs;

use crate::common::{MIB, Server, have, noise, run, store, succeed, tool, volume};

fn server(mebibytes: u64) -> Server {
    Server::start(mebibytes * MIB, &(store().to_owned() + &volume("db", 0, mebibytes)))
}

#[test]
fn qemu_img_converts_to_the_export_and_back() {
    if !have(&["qemu-img"]) {
        return;
    }
    let server = server(32);
    let (source, back) = (server.folder().join("source.img"), server.folder().join("back.qcow2"));
    let mut data = noise(2, 32 << 20);
    // Runs of zeroes, which qemu-img writes with WRITE_ZEROES.
    data[1 << 20..9 << 20].fill(0);
    fs::write(&source, &data).expect("the source");
    let uri = server.uri("db");
    succeed(
        tool("qemu-img")
            .args(["convert", "-n", "-f", "raw", "-O", "raw", "-W", "-m", "8"])
            .arg(&source)
            .arg(&uri),
    );
    succeed(tool("qemu-img").args(["compare", "-f", "raw", "-F", "raw"]).arg(&source).arg(&uri));
    succeed(tool("qemu-img").args(["convert", "-f", "raw", "-O", "qcow2"]).arg(&uri).arg(&back));
    succeed(tool("qemu-img").args(["compare", "-f", "raw", "-F", "qcow2"]).arg(&uri).arg(&back));
    server.stop();
}

#[test]
fn qemu_io_patterns_zeroes_discards_and_flushes() {
    if !have(&["qemu-io"]) {
        return;
    }
    let server = server(16);
    let commands = [
        "write -P 0xab 0 1M",
        "read -P 0xab 0 1M",
        "write -z 64k 64k",
        "read -P 0 64k 64k",
        "read -P 0xab 128k 64k",
        "write -z -u 256k 64k",
        "read -P 0 256k 64k",
        "write -f -P 0xcd 512k 4k",
        "read -P 0xcd 512k 4k",
        "write -z -f 516k 4k",
        "read -P 0 516k 4k",
        "discard 768k 64k",
        "read -P 0xab 832k 64k",
        "write -P 0xef 15M 1M",
        "read -P 0xef 15M 1M",
        "aio_write -P 0x11 2M 64k",
        "aio_write -P 0x22 3M 64k",
        "aio_flush",
        "read -P 0x11 2M 64k",
        "read -P 0x22 3M 64k",
        "flush",
    ];
    let mut command = tool("qemu-io");
    command.args(["-f", "raw", "-d", "unmap"]);
    for line in commands {
        command.args(["-c", line]);
    }
    let text = succeed(command.arg(server.uri("db")));
    for word in ["failed", "error", "Pattern"] {
        assert!(!text.contains(word), "{text}");
    }
    server.stop();
}

#[test]
fn qemu_io_sees_the_end_of_the_volume() {
    if !have(&["qemu-io"]) {
        return;
    }
    let server = server(16);
    let past = ["-f", "raw", "-c", "write -P 1 16M 4k"];
    let output = run(tool("qemu-io").args(past).arg(server.uri("db")));
    assert!(!output.status.success(), "a write behind the end was accepted");
    server.stop();
}
