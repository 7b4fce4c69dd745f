//! Hybrid stores: programs that we did not write on the data path, `kill -9` while clusters move, and the
//! commands that look after the devices.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::common::client::Client;
use crate::common::server::{binary, prepare};
use crate::common::{MIB, Server, describe, have, may_mount, noise, run, succeed, tool, volume};
use crate::durability::{cut_power, load, verify};
use crate::mounting::{Loop, Mount};

/// A hybrid store over `pool.img` and `fast.img`.
pub(crate) fn store(options: &str) -> String {
    format!(
        "[store.pool]\npath = \"pool.img\"\ncapacity = \"100000 IOPS\"\nbackend = \"hybrid\"\n\
         hybrid = {{ fast = \"fast.img\", map = \"pool.map\", {options} }}\n"
    )
}

/// A folder with a hybrid store whose fast device holds `slots` clusters of 16 KiB.
pub(crate) fn created(pool_bytes: u64, slots: u64, stores_and_volumes: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    prepare(folder.path(), "", "", pool_bytes, stores_and_volumes);
    let fast = File::create(folder.path().join("fast.img")).expect("fast.img");
    fast.set_len((slots + 1) * (16 << 10)).expect("room for fast.img");
    let output = hybrid(folder.path(), "create", &["--cluster=16KiB", "--block=4 KiB"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    folder
}

/// Runs `evenkeel hybrid ACTION evenkeel.toml pool …`.
pub(crate) fn hybrid(folder: &Path, action: &str, more: &[&str]) -> Output {
    let mut command = Command::new(binary());
    run(command.current_dir(folder).args(["hybrid", action, "evenkeel.toml", "pool"]).args(more))
}

/// The same with `--json`: the exit code and the object.
pub(crate) fn hybrid_json(folder: &Path, action: &str, more: &[&str]) -> (i32, Value) {
    let output = hybrid(folder, action, &[more, &["--json"]].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    let json = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output.status.code().expect("it ends by itself"), json)
}

#[test]
fn fio_verifies_what_two_connections_wrote_to_two_devices() {
    if !have(&["fio"]) {
        return;
    }
    let config =
        store("policy = \"lru\", migrations = 2, fast_depth = 4, slow_depth = 2") + &volume("db", 0, 32);
    let folder = created(32 * MIB, 300, &config);
    let server = Server::start_in(folder.path());
    let mut fio = tool("fio");
    fio.current_dir(folder.path())
        .args(["--name=verify", "--ioengine=nbd", "--thread", "--rw=randwrite", "--bsrange=4k-64k"])
        .args(["--bs_unaligned=0", "--size=16M", "--numjobs=2", "--offset_increment=16M", "--iodepth=16"])
        .args(["--verify=crc32c", "--do_verify=1", "--verify_fatal=1", "--verify_backlog=64"])
        .args(["--fsync=100", "--group_reporting"])
        .arg(format!("--uri={}", server.uri("db")));
    let text = succeed(&mut fio);
    assert!(text.contains("err= 0"), "{text}");
    server.stop();
    let (code, shown) = hybrid_json(folder.path(), "show", &[]);
    assert_eq!(code, 0);
    assert!(shown["slots_used"].as_u64() > Some(100), "{shown}");
    assert_eq!(hybrid_json(folder.path(), "check", &[]).0, 0);
}

#[test]
fn nbdcopy_brings_back_what_it_took_and_draining_leaves_it_on_the_slow_device() {
    if !have(&["nbdcopy"]) {
        return;
    }
    let config =
        store("policy = \"arc\"") + &volume("before", 0, 4) + &volume("db", 4, 24) + &volume("after", 28, 4);
    let folder = created(32 * MIB, 700, &config);
    let server = Server::start_in(folder.path());
    let (source, back) = (folder.path().join("source.img"), folder.path().join("back.img"));
    let data = noise(1, 24 << 20);
    fs::write(&source, &data).expect("the source");
    let connections = ["--connections=4", "--requests=16", "--request-size=65536"];
    succeed(tool("nbdcopy").args(connections).arg("--flush").arg(&source).arg(server.uri("db")));
    succeed(tool("nbdcopy").args(connections).arg(server.uri("db")).arg(&back));
    assert!(fs::read(&back).expect("the copy") == data, "the copy differs from the source");
    server.stop();
    let (_, shown) = hybrid_json(folder.path(), "show", &[]);
    let volumes = shown["volumes"].as_array().expect("a list");
    assert_eq!(volumes[0]["clusters"], 0, "nothing was written there: {shown}");
    assert!(volumes[1]["fast_bytes"].as_u64() > Some(1 << 20), "{shown}");
    let (code, drained) = hybrid_json(folder.path(), "drain", &["--dissolve"]);
    assert_eq!((code, &drained["dissolved"]), (0, &Value::Bool(true)), "{drained}");
    let pool = fs::read(folder.path().join("pool.img")).expect("the slow device");
    assert!(pool[4 << 20..28 << 20] == data[..], "the slow device differs from the source");
    assert!(
        pool[..4 << 20].iter().chain(&pool[28 << 20..]).all(|byte| *byte == 0),
        "a neighbour was written to"
    );
    assert!(!folder.path().join("pool.map").exists());
}

#[test]
fn kill_9_loses_nothing_that_was_promised_while_clusters_move() {
    // 48 clusters are written over and over; a third of them has room on the fast device.
    for (policy, millis) in [("lru", 200), ("arc", 350), ("online", 350), ("lru", 500)] {
        let config = store(&format!("policy = \"{policy}\", migrations = 3")) + &volume("db", 0, 8);
        let folder = created(8 * MIB, 16, &config);
        for _ in 0..2 {
            let record = load(Server::start_in(folder.path()), millis, || ());
            let server = Server::start_in(folder.path());
            verify(&server, &record);
            server.stop();
            assert_eq!(hybrid_json(folder.path(), "check", &[]).0, 0, "after kill -9 under {policy}");
            clear(folder.path());
        }
    }
}

/// Fast device, slow device and map lose their power together, in the middle of whatever they were doing.
#[test]
fn a_power_cut_under_all_three_files_loses_nothing_that_was_promised() {
    if !have(&["losetup", "mkfs.ext4"]) || !may_mount() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let image = folder.path().join("disk.img");
    File::create(&image).and_then(|file| file.set_len(96 * MIB)).expect("disk.img");
    let disk = Loop::new(&image, &[]);
    let mountpoint = folder.path().join("mount");
    for (policy, millis) in [("lru", 250), ("arc", 400), ("online", 400), ("lru", 600)] {
        succeed(tool("mkfs.ext4").args(["-q", "-F", &disk.device]));
        let home = tempfile::tempdir().expect("a folder");
        // The configuration and socket live outside; only what holds data is on the disk that loses power.
        let on_disk = |name: &str| mountpoint.join(name).display().to_string();
        let config = ["pool.img", "fast.img", "pool.map"]
            .iter()
            .fold(store(&format!("policy = \"{policy}\", migrations = 3")), |text, name| {
                text.replace(name, &on_disk(name))
            })
            + &volume("db", 0, 8);
        prepare(home.path(), "", "", 0, &config);
        let record = {
            let mount = Mount::new(&disk.device, mountpoint.clone(), "rw");
            for (name, bytes) in [("pool.img", 8 * MIB), ("fast.img", 17 * (16 << 10))] {
                let file = File::create(mount.path.join(name)).expect("a file");
                file.set_len(bytes).and_then(|()| file.sync_all()).expect("room");
            }
            let output = hybrid(home.path(), "create", &["--cluster=16KiB", "--block=4 KiB"]);
            assert_eq!(output.status.code(), Some(0), "{output:?}");
            succeed(tool("sync").arg("-f").arg(&mount.path));
            load(Server::start_in(home.path()), millis, || cut_power(&mount.path))
        };
        let _mount = Mount::new(&disk.device, mountpoint.clone(), "rw");
        let (code, found) = hybrid_json(home.path(), "check", &[]);
        assert_eq!(code, 0, "under {policy}: {found}");
        let server = Server::start_in(home.path());
        verify(&server, &record);
        server.stop();
        assert_eq!(hybrid_json(home.path(), "drain", &["--dissolve"]).0, 0);
    }
}

/// Zeros over all blocks, as the next record expects.
fn clear(folder: &Path) {
    let server = Server::start_in(folder);
    let mut client = Client::open(&server.socket(), "db").expect("open");
    assert_eq!(client.write(0, 0, &vec![0; 1 << 20]).expect("a reply"), 0);
    assert_eq!(client.flush().expect("a reply"), 0);
    drop(client);
    server.stop();
}

#[test]
fn a_store_in_use_and_a_store_made_twice_are_refused() {
    let folder = created(8 * MIB, 16, &(store("policy = \"lru\"") + &volume("db", 0, 8)));
    let (code, said) = hybrid_json(folder.path(), "create", &[]);
    assert_eq!(code, 2, "{said}");
    assert!(said["message"].as_str().expect("a sentence").contains("already"), "{said}");
    let server = Server::start_in(folder.path());
    for action in ["check", "drain", "resize", "show"] {
        let (code, said) = hybrid_json(folder.path(), action, &[]);
        assert_eq!(code, 2, "{action}: {said}");
        assert!(said["message"].as_str().expect("a sentence").contains("stop the gateway"), "{said}");
    }
    server.stop();
    let mut command = Command::new(binary());
    command.current_dir(folder.path()).args(["hybrid", "show", "evenkeel.toml", "pol"]);
    let output = run(&mut command);
    assert_eq!(output.status.code(), Some(2));
    let said = describe(&command, &output);
    assert!(said.contains("there is no store \"pol\"; it has pool"), "{said}");
}

#[test]
fn damage_is_found_named_and_repaired() {
    let folder = created(8 * MIB, 16, &(store("policy = \"lru\"") + &volume("db", 0, 8)));
    let server = Server::start_in(folder.path());
    let mut client = Client::open(&server.socket(), "db").expect("open");
    let data = noise(3, 128 << 10);
    assert_eq!(client.write(0, 0, &data).expect("a reply"), 0);
    assert_eq!(client.flush().expect("a reply"), 0);
    drop(client);
    server.stop();
    let output = hybrid(folder.path(), "show", &[]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("8 of 16 slots in use (50.0 %), 128 KiB on the fast device"), "{text}");
    assert!(text.contains("█·") && text.contains("db"), "{text}");
    // Made smaller, four slots at a time: what lies beyond goes home.
    let (code, resized) = hybrid_json(folder.path(), "resize", &["--fast=80KiB"]);
    assert_eq!((code, &resized["fast_bytes"]), (0, &Value::from(64 << 10)), "{resized}");
    let pool = File::open(folder.path().join("pool.img")).expect("pool.img");
    let mut home = vec![0; data.len()];
    pool.read_exact_at(&mut home, 0).expect("readable");
    assert!(home == data, "it is at home");
    // The fast device ends before the map says so.
    let fast = OpenOptions::new().write(true).open(folder.path().join("fast.img")).expect("fast.img");
    fast.set_len(64 << 10).expect("shorter");
    let (code, said) = hybrid_json(folder.path(), "check", &[]);
    assert_eq!(code, 2, "{said}");
    assert!(said["message"].as_str().expect("a sentence").contains("fewer than"), "{said}");
    // And then it is gone for good.
    let (code, said) = hybrid_json(folder.path(), "drain", &["--without-fast"]);
    assert_eq!(code, 2, "it is still there: {said}");
    fs::remove_file(folder.path().join("fast.img")).expect("gone");
    let (code, said) = hybrid_json(folder.path(), "drain", &["--without-fast"]);
    assert_eq!((code, &said["clusters"]), (0, &Value::from(0)), "{said}");
}
