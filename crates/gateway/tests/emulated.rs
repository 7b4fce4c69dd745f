//! Emulated devices in real time, seen by an NBD client. Only lower bounds are asserted: a device is
//! never faster than its model.

mod common;

use std::fs::File;
use std::time::{Duration, Instant};

use common::{Client, FLUSH, Gateway, READ, TRIM, pattern};
use evenkeel_core::{Operation, Time};
use evenkeel_device::{Io, Spec};
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

const MEMBER: &str = "{ kind = \"constant-rate\", rate = \"400 IOPS\", capacity = \"1 MiB\" }";

/// Every kind of model, and drives by their names.
fn models() -> Vec<String> {
    let array = |kind: &str| format!("{{ {kind}, members = {{ device = {MEMBER}, count = 4 }} }}");
    let mut models: Vec<String> = [
        "{ rate = \"500 IOPS\", servers = 2 }",
        "{ kind = \"constant-rate\", rate = \"500 IOPS\", capacity = \"1 MiB\" }",
        "{ kind = \"servers\", read = \"2 ms\", write = \"3 ms\", servers = 2 }",
        "{ kind = \"flash\", capacity = \"1 MiB\", page = \"4 KiB\", pages_per_block = 4, blocks_per_die = 96, \
         read = \"1 ms\", program = \"2 ms\", erase = \"3 ms\" }",
        "{ kind = \"linear-flash\", capacity = \"1 MiB\", page = \"4 KiB\", read = \"1 ms\", write = \"1 ms\", \
         growth = \"1 us\", saturation = 1000 }",
        "\"cheetah9lp\"",
        "\"ibm18es\"",
        "\"flashsim-2009\"",
        "\"flashsim-2009-dftl\"",
    ]
    .map(str::to_owned)
    .to_vec();
    models.extend(["level = 0", "level = 1", "level = 5", "level = 10"].map(|level| {
        let raid = array(&format!("kind = \"raid\", {level}"));
        // Two disks are a mirror.
        if level == "level = 1" { raid.replace("count = 4", "count = 2") } else { raid }
    }));
    models.push(array("kind = \"jbod\""));
    models.push(format!(
        "{{ kind = \"bus\", bandwidth = \"1 MB/s\", device = {} }}",
        array("kind = \"raid\", level = 0")
    ));
    models
}

/// The least time that a read of 4 KiB takes on the model, at any angle and after any pause.
fn least(spec: &Spec) -> Duration {
    let mut least = u64::MAX;
    for (pause_us, starts) in [(0, 1), (20_000, 1), (137, 60)] {
        let (mut device, mut now) = (spec.build(), Time::ZERO);
        for token in 0..starts * 8 {
            let io = Io { token, operation: Operation::Read, offset: token % 8 * 4096, length: 4096 };
            device.submit(now, io);
            // Some have events of their own in between.
            let finish = loop {
                let event = device.next_event().unwrap();
                if let Some(finished) = device.poll_completion(event) {
                    assert_eq!(finished.token, token);
                    break event;
                }
            };
            least = least.min(finish.since(now).as_nanos());
            now = Time::from_nanos(finish.as_nanos() + pause_us * 1_000);
        }
    }
    Duration::from_nanos(least)
}

#[test]
fn every_model_serves_in_real_time_and_never_faster_than_itself() {
    for model in models() {
        let sections = format!("[store.s]\npath = \"store.img\"\nemulate = {model}\n{VOLUME}");
        let text = format!("[gateway]\nlisten = [\"unix:nbd.sock\"]\n{sections}");
        let config = config::parse(&text, std::path::Path::new("test.toml"))
            .unwrap_or_else(|error| panic!("{model}: {error}"));
        let least = least(&config.stores[0].emulate.as_ref().unwrap().device);
        assert!(least > Duration::from_micros(20), "{model}: {least:?}");
        let gateway = Gateway::start(128 << 10, &sections);
        let mut client = gateway.connect("v");
        let data = pattern(3, 32 << 10);
        client.write(0, 0, &data);
        let (read, took) =
            timed(|| (0..8).flat_map(|index| client.read(index * 4096, 4096)).collect::<Vec<u8>>());
        assert!(read == data, "{model}: other data");
        assert!(took >= least * 8, "{model}: {took:?} for 8 reads of at least {least:?}");
        let ended = gateway.end();
        assert_eq!(ended[0].account.served, 9, "{model}");
    }
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
