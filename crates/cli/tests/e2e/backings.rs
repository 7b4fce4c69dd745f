//! Other backings than a plain file through the page cache: a block device, and `O_DIRECT`.

use std::fs::File;
use std::path::Path;

use crate::common::{MIB, Server, have, may_mount, store, succeed, tool, volume};
use crate::mounting::Loop;

/// fio writes and verifies, and zeroes and discards read as they should.
fn exercise(server: &Server, export: &str) {
    succeed(
        tool("fio")
            .current_dir(server.folder())
            .args(["--name=verify", "--ioengine=nbd", "--thread", "--rw=randwrite", "--bsrange=4k-64k"])
            .args(["--bs_unaligned=0", "--size=16M", "--iodepth=16", "--fsync=100"])
            .args(["--verify=crc32c", "--do_verify=1", "--verify_fatal=1"])
            .arg(format!("--uri={}", server.uri(export))),
    );
    let text = succeed(
        tool("qemu-io")
            .args(["-f", "raw", &server.uri(export)])
            .args(["-c", "write -P 7 0 1M", "-c", "write -z 64k 64k", "-c", "write -z -u 128k 64k"])
            .args(["-c", "discard 512k 64k", "-c", "flush"])
            .args(["-c", "read -P 0 64k 128k", "-c", "read -P 7 192k 64k"]),
    );
    assert!(!text.contains("failed"), "{text}");
}

#[test]
fn slices_of_a_block_device() {
    if !have(&["fio", "qemu-io", "losetup"]) || !may_mount() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let image = folder.path().join("disk.img");
    File::create(&image).and_then(|file| file.set_len(64 * MIB)).expect("an image");
    let disk = Loop::new(&image, &[]);
    let sections = format!(
        "[store.disk]\npath = \"{}\"\n\
         [volume.first]\noffset = \"0 B\"\nsize = \"32 MiB\"\n\
         [volume.second]\noffset = \"32 MiB\"\nsize = \"32 MiB\"\n",
        disk.device
    );
    let server = Server::start(MIB, &sections);
    exercise(&server, "first");
    exercise(&server, "second");
    server.stop();
}

#[test]
fn around_the_page_cache() {
    if !have(&["fio", "qemu-io", "nbdinfo"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    if !takes_direct(folder.path()) {
        return crate::common::skipped("the temporary folder's file system has no O_DIRECT");
    }
    let sections = store().to_owned() + "direct = true\n" + &volume("other", 0, 32) + &volume("db", 32, 32);
    let server = Server::start(64 * MIB, &sections);
    exercise(&server, "db");
    let info = succeed(tool("nbdinfo").arg(server.uri("db")));
    assert!(info.contains("block_size_minimum: 4096"), "{info}");
    server.stop();
}

fn takes_direct(folder: &Path) -> bool {
    let file = folder.join("probe");
    std::fs::write(&file, [0; 4096]).is_ok()
        && tool("dd")
            .args(["if=/dev/zero", "bs=4096", "count=1", "oflag=direct", "conv=notrunc", "status=none"])
            .arg(format!("of={}", file.display()))
            .status()
            .is_ok_and(|status| status.success())
}
