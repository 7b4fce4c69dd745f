//! Hybrid stores over real files, by real sessions.

mod common;

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::time::{Duration, Instant};

use common::{Client, FLUSH, Gateway, READ, TRIM, WRITE_ZEROES, pattern};
use evenkeel_gateway::{HybridStatus, Server, StartError, config};
use evenkeel_hybrid::{Offline, Paths};
use evenkeel_tiering::Geometry;
use evenkeel_tiering::policy::DiskOnly;

const MIB: usize = 1 << 20;
const CLUSTER: u32 = 64 << 10;
const BLOCK: u32 = 4096;
const FUA: u16 = 1;
const EIO: u32 = 5;

/// Two volumes of 4 MiB on a hybrid store with `slots` slots.
fn folder(slots: u64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    File::create(folder.path().join("store.img")).unwrap().set_len(8 << 20).unwrap();
    let fast = File::create(folder.path().join("fast.img")).unwrap();
    fast.set_len((slots + 1) * u64::from(CLUSTER)).unwrap();
    Offline::create(&paths(folder.path()), Geometry::new(CLUSTER, BLOCK).unwrap()).unwrap();
    folder
}

fn paths(folder: &Path) -> Paths {
    let at = |name: &str| folder.join(name);
    Paths { slow: at("store.img"), fast: at("fast.img"), map: at("store.map") }
}

fn sections(options: &str) -> String {
    format!(
        "[store.s]\npath = \"store.img\"\ncapacity = \"100000 IOPS\"\nbackend = \"hybrid\"\n\
         hybrid = {{ fast = \"fast.img\", map = \"store.map\", {options} }}\n\
         [volume.a]\noffset = \"0 B\"\nsize = \"4 MiB\"\n\
         sla = {{ burst = 64, rate = \"1000 IOPS\", latency = \"100 ms\" }}\n\
         [volume.b]\noffset = \"4 MiB\"\nsize = \"4 MiB\"\n"
    )
}

fn start(folder: tempfile::TempDir, options: &str) -> Gateway {
    let server = try_start(folder.path(), &sections(options)).unwrap();
    Gateway { server: Some(server), folder }
}

fn try_start(folder: &Path, sections: &str) -> Result<Server, StartError> {
    let text = format!("[gateway]\nlisten = [\"unix:nbd.sock\"]\n{sections}");
    Server::start(&config::parse(&text, &folder.join("test.toml")).unwrap())
}

/// Ends the gateway; its folder.
fn end(mut gateway: Gateway) -> tempfile::TempDir {
    let ended = gateway.server.take().unwrap().shutdown();
    assert!(ended.failures.is_empty(), "{:?}", ended.failures);
    assert_eq!(ended.abandoned, 0);
    gateway.folder
}

fn status(gateway: &Gateway) -> HybridStatus {
    gateway.server().all_accounts().stores.remove(0).hybrid.unwrap()
}

fn wait_until(gateway: &Gateway, what: &str, condition: impl Fn(&HybridStatus) -> bool) {
    let give_up = Instant::now() + Duration::from_secs(20);
    while !condition(&status(gateway)) {
        assert!(Instant::now() < give_up, "{what}: {:?}", status(gateway));
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn read_error(client: &mut Client, offset: u64) -> u32 {
    client.send(READ, 0, 9, offset, BLOCK);
    client.reply().error
}

#[test]
fn clusters_that_are_read_move_to_the_fast_device_and_come_home_again() {
    let gateway = start(folder(128), "policy = \"lru\", migrations = 2");
    let data = pattern(1, 4 * MIB);
    let (mut a, mut b) = (gateway.connect("a"), gateway.connect("b"));
    b.write(0, 0, &data);
    assert_eq!(b.command(FLUSH, 0, 0, 0), 0);
    let slots = status(&gateway).slots_used;
    assert_eq!(slots, 64, "written whole, they went there at once");
    a.write(0, 0, &data[..CLUSTER as usize]);
    // In an order that jumps: reads in sequence would pass by.
    for index in 0..64_u64 {
        assert!(a.read(index * 37 % 64 * u64::from(CLUSTER) + 512, 512).len() == 512);
    }
    wait_until(&gateway, "clusters of a are copied", |status| status.slots_used == 128);
    wait_until(&gateway, "all are there", |status| status.promoted >= 63);
    let before = status(&gateway);
    assert!(b.read(0, 4 << 20) == data);
    assert!(a.read(0, CLUSTER) == data[..CLUSTER as usize]);
    let after = status(&gateway);
    assert_eq!(after.slow_accesses, before.slow_accesses, "read from the fast device alone");
    assert_eq!(after.fast_accesses, before.fast_accesses + 65);
    let accounts = gateway.server().accounts();
    assert!(accounts.iter().any(|account| account.volume == "(migration)"));
    drop((a, b));
    let folder = end(gateway);
    assert_eq!(Offline::check(&paths(folder.path()), false, &mut |_, _| {}).unwrap(), []);

    // Another life: what is on the fast device is found again.
    let gateway = start(folder, "policy = \"none\"");
    assert_eq!(status(&gateway).slots_used, 128);
    assert!(gateway.connect("b").read(0, 4 << 20) == data);
    assert_eq!(status(&gateway).slow_accesses, 0);
    let folder = end(gateway);

    // Without the fast device: everything is at home.
    let offline = Offline::open(&paths(folder.path()), Box::new(DiskOnly)).unwrap();
    offline.dissolve(&mut |_, _| {}).unwrap();
    let slow = std::fs::read(folder.path().join("store.img")).unwrap();
    assert!(slow[4 * MIB..] == data[..]);
    assert!(!folder.path().join("store.map").exists());
}

/// Random requests of two volumes with small fast device, compared with plain memory.
fn random_requests(options: &str, seed: u64) {
    random_requests_to(start(folder(5), options), seed, 512);
}

/// The same in multiples of `unit`; the gateway has ended then.
fn random_requests_to(gateway: Gateway, seed: u64, unit: u64) {
    let mut clients = [gateway.connect("a"), gateway.connect("b")];
    let mut model = vec![vec![0_u8; 4 * MIB]; 2];
    let mut state = seed;
    let mut next = |end: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % end
    };
    for round in 0..1200 {
        let volume = next(2) as usize;
        let (client, model) = (&mut clients[volume], &mut model[volume]);
        // Few clusters, so that they meet again.
        let offset = next((1 << 20) / unit) * unit;
        let length = (unit * (1 + next((150 << 10) / unit))).min((1 << 20) - offset);
        let bytes = offset as usize..(offset + length) as usize;
        let fua = if next(8) == 0 { FUA } else { 0 };
        match next(12) {
            0..=4 => assert!(client.read(offset, length as u32) == model[bytes], "round {round}"),
            5..=8 => {
                let data = pattern(round, length as usize);
                client.write(fua, offset, &data);
                model[bytes].copy_from_slice(&data);
            }
            9 => {
                assert_eq!(client.command(WRITE_ZEROES, fua, offset, length as u32), 0);
                model[bytes].fill(0);
            }
            10 => {
                // Punched out of a file, trimmed bytes read as zeros.
                assert_eq!(client.command(TRIM, fua, offset, length as u32), 0);
                model[bytes].fill(0);
            }
            _ => assert_eq!(client.command(FLUSH, 0, 0, 0), 0),
        }
    }
    for (client, model) in clients.iter_mut().zip(&model) {
        assert!(client.read(0, 4 << 20) == model[..]);
    }
    assert!(status(&gateway).fast_accesses > 0);
    drop(clients);
    let folder = end(gateway);
    let mut offline = Offline::open(&paths(folder.path()), Box::new(DiskOnly)).unwrap();
    offline.drain(&mut |_, _| {}).unwrap();
    drop(offline);
    let slow = std::fs::read(folder.path().join("store.img")).unwrap();
    assert!(slow[..4 * MIB] == model[0][..] && slow[4 * MIB..] == model[1][..]);
}

#[test]
fn random_requests_read_what_was_written_under_lru() {
    random_requests("policy = \"lru\", migrations = 3, fast_depth = 2, slow_depth = 1", 1);
}

#[test]
fn random_requests_read_what_was_written_under_arc() {
    random_requests("policy = \"arc\"", 2);
}

#[test]
fn random_requests_read_what_was_written_under_online() {
    random_requests("policy = \"online\", ratio_percent_min = 0, victims_from_full_percent = 10", 3);
}

#[test]
fn random_requests_read_what_was_written_past_the_page_cache() {
    let folder = folder(5);
    let all = sections("policy = \"lru\", migrations = 2, fast_depth = 2, slow_depth = 1");
    match try_start(folder.path(), &all.replace("backend", "direct = true\nbackend")) {
        Ok(server) => random_requests_to(Gateway { server: Some(server), folder }, 4, 4096),
        Err(error) => assert!(error.to_string().contains("cannot open"), "{error}"),
    }
}

#[test]
fn without_the_fast_device_only_what_was_there_fails() {
    let gateway = start(folder(64), "policy = \"lru\"");
    let data = pattern(4, 4 * MIB);
    let mut a = gateway.connect("a");
    a.write(0, 0, &data);
    assert_eq!(a.command(FLUSH, 0, 0, 0), 0);
    let mut b = gateway.connect("b");
    assert_eq!(status(&gateway).slots_used, 64);
    // The device shrinks to nothing under the gateway.
    OpenOptions::new().write(true).open(gateway.folder.path().join("fast.img")).unwrap().set_len(0).unwrap();
    assert_eq!(read_error(&mut a, 0), EIO);
    assert_eq!(read_error(&mut a, 3 << 20), EIO);
    assert!(b.read(0, 1 << 20).iter().all(|&byte| byte == 0));
    drop((a, b));
    drop(gateway);
}

#[test]
fn parts_that_do_not_belong_together_are_refused() {
    let folder = folder(8);
    let error =
        |sections: &str| try_start(folder.path(), sections).err().map(|e| e.to_string()).unwrap_or_default();
    let all = sections("policy = \"none\"");
    let said = error(&all.replace("store.map", "other.map"));
    assert!(said.contains("store.s.hybrid.map") && said.contains("evenkeel hybrid create"), "{said}");
    let said = error(&all.replace("fast.img", "other.img"));
    assert!(said.contains("store.s.hybrid.fast") && said.contains("--without-fast"), "{said}");
    File::create(folder.path().join("other.img")).unwrap().set_len(1 << 20).unwrap();
    let said = error(&all.replace("fast.img", "other.img"));
    assert!(said.contains("no label"), "{said}");
    let gateway = try_start(folder.path(), &all).unwrap();
    assert!(Offline::open(&paths(folder.path()), Box::new(DiskOnly)).is_err(), "in use");
    let _ = gateway.shutdown();
    // A slow device that has grown: the map does not cover the rest yet.
    OpenOptions::new().write(true).open(folder.path().join("store.img")).unwrap().set_len(9 << 20).unwrap();
    let said = error(&all.replace("offset = \"4 MiB\"", "offset = \"5 MiB\""));
    assert!(said.contains("volume.b") && said.contains("evenkeel hybrid resize"), "{said}");
}
