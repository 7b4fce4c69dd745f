//! Emulated devices in real time, seen by an NBD client. Only lower bounds are asserted: a device is
//! never faster than its model.

mod common;

use std::fs::File;
use std::time::{Duration, Instant};

use common::{Client, FLUSH, Gateway, READ, TRIM, pattern};
use evenkeel_gateway::{Server, config};
use std::io::{Read, Write};

const VOLUME: &str = "[volume.v]\noffset = \"0 B\"\nsize = \"128 KiB\"\n";

/// Two dies: a page of 4 KiB takes 5 ms to read and 20 ms to write.
const FLASH: &str = "[store.s]\npath = \"store.img\"\n[store.s.emulate]\nkind = \"flash\"\n\
    capacity = \"128 KiB\"\npage = \"4 KiB\"\npages_per_block = 4\nblocks_per_die = 16\ndies_per_channel = 2\n\
    read = \"5 ms\"\nprogram = \"20 ms\"\nerase = \"1 ms\"\ncollect_below = 2\n";

fn timed<T>(action: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = action();
    (result, start.elapsed())
}

#[test]
fn flash_reads_and_writes_at_its_own_speed() {
    let gateway = Gateway::start(128 << 10, &format!("{FLASH}{VOLUME}"));
    let mut client = gateway.connect("v");
    let data = pattern(1, 16 << 10);
    // Four pages on two dies: two programs one after the other.
    let ((), took) = timed(|| client.write(0, 0, &data));
    assert!(took >= Duration::from_millis(40), "{took:?}");
    let (read, took) = timed(|| client.read(0, 16 << 10));
    assert!(read == data && took >= Duration::from_millis(10), "{took:?}");
    // Half a page: the old one is read first.
    let ((), took) = timed(|| client.write(0, 2048, &data[..2048]));
    assert!(took >= Duration::from_millis(25), "{took:?}");
    assert_eq!(client.command(TRIM, 0, 0, 4096), 0);
    assert_eq!(client.command(FLUSH, 0, 0, 0), 0);
    gateway.end();
}

#[test]
fn dies_work_side_by_side_up_to_the_depth() {
    let gateway = Gateway::start(128 << 10, &format!("{FLASH}{VOLUME}"));
    let mut client = gateway.connect("v");
    let requests: Vec<u8> =
        (0..20).flat_map(|cookie| Client::request(READ, 0, cookie, cookie * 4096, 4096)).collect();
    let ((), took) = timed(|| {
        client.socket.write_all(&requests).unwrap();
        for _ in 0..20 {
            assert_eq!(client.reply().error, 0);
            client.socket.read_exact(&mut [0; 4096]).unwrap();
        }
    });
    assert!(took >= Duration::from_millis(20 * 5 / 2), "{took:?}");
    assert_eq!(gateway.end()[0].account.served, 20);
}

#[test]
fn a_small_write_to_raid_5_takes_two_rounds() {
    let member = "{ kind = \"constant-rate\", rate = \"50 IOPS\", capacity = \"1 MiB\" }";
    let sections = format!(
        "[store.s]\npath = \"store.img\"\n[store.s.emulate]\nkind = \"raid\"\nlevel = 5\n\
         members = {{ device = {member}, count = 4 }}\n{VOLUME}"
    );
    let gateway = Gateway::start(128 << 10, &sections);
    let mut client = gateway.connect("v");
    let data = pattern(2, 4096);
    let ((), took) = timed(|| client.write(0, 4096, &data));
    assert!(took >= Duration::from_millis(40), "{took:?}");
    let (read, took) = timed(|| client.read(4096, 4096));
    assert!(read == data && took >= Duration::from_millis(20), "{took:?}");
    // A batch over one data disk cannot be faster than that disk.
    let requests: Vec<u8> = (0..6).flat_map(|cookie| Client::request(READ, 0, cookie, 0, 512)).collect();
    let ((), took) = timed(|| {
        client.socket.write_all(&requests).unwrap();
        for _ in 0..6 {
            assert_eq!(client.reply().error, 0);
            client.socket.read_exact(&mut [0; 512]).unwrap();
        }
    });
    assert!(took >= Duration::from_millis(120), "{took:?}");
    gateway.end();
}

#[test]
fn volumes_with_files_of_their_own_lie_one_after_the_other_on_the_device() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.img", "b.img"] {
        File::create(folder.path().join(name)).unwrap().set_len(96 << 10).unwrap();
    }
    let start = |volumes: &str| {
        let flash = FLASH.replace("path = \"store.img\"\n", "");
        let text = format!("[gateway]\nlisten = [\"unix:nbd.sock\"]\n{flash}{volumes}");
        Server::start(&config::parse(&text, &folder.path().join("test.toml")).unwrap())
    };
    let error = start("[volume.a]\npath = \"a.img\"\n[volume.b]\npath = \"b.img\"\n").unwrap_err();
    assert_eq!(
        error.to_string(),
        "store.s: its volumes take 196608 bytes, but the emulated device has 131072; make volumes smaller, \
         or emulate a larger device"
    );
    let fits =
        start("[volume.a]\npath = \"a.img\"\n[volume.b]\npath = \"b.img\"\nsize = \"32 KiB\"\n").unwrap();
    assert!(fits.shutdown().failures.is_empty());
}
