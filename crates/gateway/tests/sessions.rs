//! Sessions over real sockets: fragments, pipelines, pressure, refusals, disconnections.

mod common;

use std::io::{Read, Write};
use std::time::Duration;

use common::{Client, DISCONNECT, FLUSH, Gateway, READ, TRIM, WRITE, WRITE_ZEROES, pattern};

const ONE_VOLUME: &str = "[store.s]\npath = \"store.img\"\n[volume.v]\noffset = \"0 B\"\nsize = \"4 MiB\"\n";
const MIB: usize = 1 << 20;

fn two_volumes(options: &str) -> String {
    format!(
        "[store.s]\npath = \"store.img\"\n\
         [volume.a]\noffset = \"0 B\"\nsize = \"4 MiB\"\n{options}\n\
         [volume.b]\noffset = \"4 MiB\"\nsize = \"4 MiB\"\n"
    )
}

#[test]
fn what_is_written_is_read_within_its_own_slice() {
    let gateway = Gateway::start(8 << 20, &two_volumes(""));
    let (mut a, mut b) = (gateway.connect("a"), gateway.connect("b"));
    let (data_a, data_b) = (pattern(1, 3 * MIB), pattern(2, 3 * MIB));
    a.write(0, 512, &data_a);
    b.write(1, 512, &data_b);
    assert_eq!(a.command(FLUSH, 0, 0, 0), 0);
    assert!(a.read(512, 3 << 20) == data_a);
    assert!(b.read(512, 3 << 20) == data_b);
    drop((a, b));
    let file = std::fs::read(gateway.folder.path().join("store.img")).unwrap();
    assert!(file[512..512 + 3 * MIB] == data_a[..]);
    assert!(file[4 * MIB + 512..7 * MIB + 512] == data_b[..]);
    gateway.end();
}

#[test]
fn requests_arrive_in_any_fragmentation() {
    let gateway = Gateway::start(4 << 20, ONE_VOLUME);
    let mut client = gateway.connect("v");
    let data = pattern(3, 1000);
    let mut write = Client::request(WRITE, 0, 7, 4096, 1000).to_vec();
    write.extend(&data);
    for byte in write {
        client.socket.write_all(&[byte]).unwrap();
    }
    assert_eq!(client.reply().cookie, 7);
    for byte in Client::request(READ, 0, 8, 4096, 1000) {
        client.socket.write_all(&[byte]).unwrap();
    }
    assert_eq!(client.reply().cookie, 8);
    let mut back = vec![0; 1000];
    client.socket.read_exact(&mut back).unwrap();
    assert_eq!(back, data);
    gateway.end();
}

#[test]
fn a_pipeline_of_writes_and_reads_is_answered_whole() {
    let gateway = Gateway::start(4 << 20, ONE_VOLUME);
    let mut client = gateway.connect("v");
    let mut writer = client.socket.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        for index in 0..64_u64 {
            // Sizes from a part of the receive buffer to several of it.
            let length = 1 + (index as usize * 7919) % (200 << 10);
            let offset = index * 4096 % (2 << 20);
            let mut bytes = Client::request(WRITE, 0, index, offset, length as u32).to_vec();
            bytes.extend(pattern(index, length));
            writer.write_all(&bytes).unwrap();
        }
    });
    let mut answered = [false; 64];
    for _ in 0..64 {
        let reply = client.reply();
        assert_eq!(reply.error, 0);
        assert!(!std::mem::replace(&mut answered[reply.cookie as usize], true));
    }
    sender.join().unwrap();
    gateway.end();
}

#[test]
fn a_client_that_does_not_read_its_replies_hurts_nobody_else() {
    // 512 KiB of room: two replies of 256 KiB fill it, and far more are asked for.
    let gateway = Gateway::start(8 << 20, &two_volumes("in_flight_max = \"512 KiB\""));
    let data = pattern(4, 4 * MIB);
    gateway.connect("a").write(0, 0, &data);
    let mut greedy = gateway.connect("a");
    let mut requests = greedy.socket.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        for index in 0..4096_u64 {
            requests.write_all(&Client::request(READ, 0, index, (index % 16) << 18, 1 << 18)).unwrap();
        }
    });
    std::thread::sleep(Duration::from_millis(200));
    let mut neighbour = gateway.connect("b");
    for _ in 0..100 {
        neighbour.read(0, 4096);
    }
    // Another connection of the same volume shares its room, but waits its turn and gets it.
    let mut sibling = gateway.connect("a");
    sibling.send(READ, 0, 99, 0, 4096);
    let mut back = vec![0; 1 << 18];
    for _ in 0..4096 {
        let reply = greedy.reply();
        assert_eq!(reply.error, 0);
        greedy.socket.read_exact(&mut back).unwrap();
        let offset = (reply.cookie % 16) as usize * back.len();
        assert!(back == data[offset..offset + back.len()]);
    }
    sender.join().unwrap();
    assert_eq!(sibling.reply().cookie, 99);
    gateway.end();
}

#[test]
fn a_request_larger_than_the_room_is_served_alone() {
    let gateway = Gateway::start(8 << 20, &two_volumes("in_flight_max = \"64 KiB\""));
    let mut client = gateway.connect("a");
    let data = pattern(5, 2 * MIB);
    client.write(0, 0, &data);
    client.send(READ, 0, 1, 0, 4096);
    client.send(READ, 0, 2, 0, 2 << 20);
    client.send(READ, 0, 3, 0, 4096);
    let mut back = vec![0; 2 * MIB];
    for length in [4096, 2 * MIB, 4096] {
        assert_eq!(client.reply().error, 0);
        client.socket.read_exact(&mut back[..length]).unwrap();
        assert!(back[..length] == data[..length]);
    }
    gateway.end();
}

#[test]
fn refusals_are_answered_and_the_stream_goes_on() {
    let gateway = Gateway::start(4 << 20, ONE_VOLUME);
    let mut client = gateway.connect("v");
    client.send(READ, 0, 1, 4 << 20, 4096);
    assert_ne!(client.reply().error, 0);
    client.send(WRITE, 0, 2, (4 << 20) - 512, 4096);
    client.socket.write_all(&pattern(6, 4096)).unwrap();
    assert_ne!(client.reply().error, 0);
    client.send(99, 0, 3, 0, 0);
    assert_ne!(client.reply().error, 0);
    // A refused write whose payload is far larger than the receive buffer.
    client.send(WRITE, 0, 4, 3 << 20, 2 << 20);
    client.socket.write_all(&pattern(7, 2 * MIB)).unwrap();
    assert_ne!(client.reply().error, 0);
    assert_eq!(client.read(0, 4096), vec![0; 4096]);
    gateway.end();
}

#[test]
fn a_flood_of_refused_requests_with_unread_answers_is_held_back() {
    let gateway = Gateway::start(4 << 20, &format!("{ONE_VOLUME}in_flight_max = \"1 MiB\"\n"));
    let mut client = gateway.connect("v");
    client.socket.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    let flood: Vec<u8> = (0..1000).flat_map(|cookie| Client::request(99, 0, cookie, 0, 0)).collect();
    // 1 MiB of room at 256 bytes a request: the server stops reading long before this ends.
    let mut stopped = false;
    for _ in 0..200 {
        if client.socket.write_all(&flood).is_err() {
            stopped = true;
            break;
        }
    }
    assert!(stopped, "the server went on reading");
    // The flood has used up its own volume's room, which comes back when the client goes.
    drop(client);
    gateway.connect("v").read(0, 4096);
    gateway.end();
}

#[test]
fn zeroes_and_trims_read_as_zeroes() {
    let gateway = Gateway::start(4 << 20, ONE_VOLUME);
    let mut client = gateway.connect("v");
    client.write(0, 0, &pattern(8, 4 * MIB));
    const FUA: u16 = 1;
    const NO_HOLE: u16 = 2;
    for (flags, offset) in [(0, 0_u64), (FUA, 100), (NO_HOLE, 1 << 20), (NO_HOLE | FUA, (1 << 20) + 77)] {
        assert_eq!(client.command(WRITE_ZEROES, flags, offset, 5000), 0);
        assert!(client.read(offset, 5000).iter().all(|&byte| byte == 0));
    }
    assert_eq!(client.command(WRITE_ZEROES, 0, 0, 4 << 20), 0);
    assert!(client.read(0, 4 << 20).iter().all(|&byte| byte == 0));
    assert_eq!(client.command(TRIM, FUA, 0, 4 << 20), 0);
    gateway.end();
}

#[test]
fn a_client_that_vanishes_in_a_write_leaves_others_undisturbed() {
    let gateway = Gateway::start(8 << 20, &two_volumes(""));
    for filled in [0, 1, 4096, 100_000] {
        let mut client = gateway.connect("a");
        client.send(WRITE, 0, 1, 0, 1 << 20);
        client.socket.write_all(&vec![1; filled]).unwrap();
        drop(client);
    }
    let mut half_header = gateway.connect("a");
    half_header.socket.write_all(&Client::request(READ, 0, 1, 0, 4096)[..13]).unwrap();
    drop(half_header);
    let mut garbage = gateway.connect("a");
    garbage.socket.write_all(&[0xff; 64]).unwrap();
    assert!(garbage.is_closed());
    assert_eq!(gateway.connect("a").read(0, 8192), vec![0; 8192]);
    assert_eq!(gateway.connect("b").read(0, 8192), vec![0; 8192]);
    gateway.end();
}

#[test]
fn disconnect_after_requests_answers_them_first() {
    let gateway = Gateway::start(4 << 20, ONE_VOLUME);
    let mut client = gateway.connect("v");
    let mut bytes = Vec::new();
    for cookie in 0..10 {
        bytes.extend(Client::request(READ, 0, cookie, cookie * 4096, 4096));
    }
    bytes.extend(Client::request(DISCONNECT, 0, 0, 0, 0));
    client.socket.write_all(&bytes).unwrap();
    let mut data = [0; 4096];
    for _ in 0..10 {
        assert_eq!(client.reply().error, 0);
        client.socket.read_exact(&mut data).unwrap();
    }
    assert!(client.is_closed());
    gateway.end();
}

#[test]
fn shutdown_answers_what_is_in_flight() {
    let sections = "[store.s]\npath = \"store.img\"\nemulate = { rate = \"100 IOPS\" }\n\
                    [volume.v]\noffset = \"0 B\"\nsize = \"4 MiB\"\n";
    let gateway = Gateway::start(4 << 20, sections);
    let mut client = gateway.connect("v");
    let requests: Vec<u8> = (0..30).flat_map(|cookie| Client::request(READ, 0, cookie, 0, 4096)).collect();
    client.socket.write_all(&requests).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let reader = std::thread::spawn(move || {
        let mut data = [0; 4096];
        for _ in 0..30 {
            assert_eq!(client.reply().error, 0);
            client.socket.read_exact(&mut data).unwrap();
        }
        assert!(client.is_closed());
    });
    let accounts = gateway.end();
    reader.join().unwrap();
    assert_eq!(accounts[0].account.served, 30);
}

#[test]
fn shutdown_gives_up_on_a_client_that_does_not_read() {
    let mut gateway = Gateway::start(4 << 20, &format!("drain_timeout = \"300 ms\"\n{ONE_VOLUME}"));
    let mut client = gateway.connect("v");
    for cookie in 0..8 {
        client.send(READ, 0, cookie, 0, 1 << 20);
    }
    std::thread::sleep(Duration::from_millis(100));
    let ended = gateway.server.take().unwrap().shutdown();
    assert!(ended.failures.is_empty());
    assert!(ended.abandoned > 0, "eight MiB do not fit into the socket");
    assert_eq!(ended.accounts[0].account.served, 8);
}

#[test]
fn read_only_volumes_refuse_writes() {
    let gateway = Gateway::start(4 << 20, &format!("{ONE_VOLUME}read_only = true\n"));
    let mut client = gateway.connect("v");
    client.send(WRITE, 0, 1, 0, 512);
    client.socket.write_all(&[1; 512]).unwrap();
    assert_eq!(client.reply().error, 1);
    assert_eq!(client.read(0, 512), vec![0; 512]);
    gateway.end();
}

#[test]
fn every_scheduler_serves_promised_and_background_volumes() {
    use evenkeel_gateway::config::SchedulerKind;
    for kind in SchedulerKind::ALL {
        let sections = format!(
            "[store.s]\npath = \"store.img\"\nscheduler = \"{kind}\"\n\
             emulate = {{ rate = \"5000 IOPS\", servers = 2 }}\n\
             [volume.v]\noffset = \"0 B\"\nsize = \"4 MiB\"\n\
             sla = {{ burst = 16, rate = \"500 IOPS\", latency = \"50 ms\" }}\n\
             [volume.w]\noffset = \"4 MiB\"\nsize = \"4 MiB\"\n"
        );
        let gateway = Gateway::start(8 << 20, &sections);
        let mut clients = [gateway.connect("v"), gateway.connect("w")];
        for client in &mut clients {
            let batch: Vec<u8> =
                (0..100).flat_map(|cookie| Client::request(READ, 0, cookie, cookie * 512, 512)).collect();
            client.socket.write_all(&batch).unwrap();
        }
        for client in &mut clients {
            let mut seen = [false; 100];
            for _ in 0..100 {
                let reply = client.reply();
                assert_eq!(reply.error, 0);
                assert!(!std::mem::replace(&mut seen[reply.cookie as usize], true), "{kind}");
                client.socket.read_exact(&mut [0; 512]).unwrap();
            }
        }
        let accounts = gateway.end();
        assert!(accounts.iter().all(|volume| volume.account.served == 100), "{kind}");
    }
}

#[test]
fn a_limit_holds_requests_back_in_real_time() {
    let sections = "[store.s]\npath = \"store.img\"\nscheduler = \"mclock\"\n\
                    [volume.v]\noffset = \"0 B\"\nsize = \"4 MiB\"\nlimit = \"100 IOPS\"\n";
    let gateway = Gateway::start(4 << 20, sections);
    let mut client = gateway.connect("v");
    let start = std::time::Instant::now();
    let batch: Vec<u8> = (0..31).flat_map(|cookie| Client::request(READ, 0, cookie, 0, 512)).collect();
    client.socket.write_all(&batch).unwrap();
    for _ in 0..31 {
        assert_eq!(client.reply().error, 0);
        client.socket.read_exact(&mut [0; 512]).unwrap();
    }
    // 31 requests at 100 per second, of which mClock lets at most two go ahead.
    assert!(start.elapsed() >= Duration::from_millis(280), "{:?}", start.elapsed());
    gateway.end();
}

#[test]
fn the_scheduler_changes_while_requests_wait() {
    let sections = "[store.s]\npath = \"store.img\"\nemulate = { rate = \"500 IOPS\" }\n\
                    [volume.v]\noffset = \"0 B\"\nsize = \"4 MiB\"\n";
    let gateway = Gateway::start(4 << 20, sections);
    let mut client = gateway.connect("v");
    let requests: Vec<u8> = (0..100).flat_map(|cookie| Client::request(READ, 0, cookie, 0, 512)).collect();
    client.socket.write_all(&requests).unwrap();
    use evenkeel_gateway::config::{SchedulerKind, SpareTo};
    for kind in [SchedulerKind::Fcfs, SchedulerKind::PClock, SchedulerKind::Fcfs] {
        std::thread::sleep(Duration::from_millis(20));
        assert!(gateway.server().set_scheduler("s", kind, SpareTo::Flows));
    }
    assert!(!gateway.server().set_scheduler("nowhere", SchedulerKind::Fcfs, SpareTo::Flows));
    let mut data = [0; 512];
    for _ in 0..100 {
        assert_eq!(client.reply().error, 0);
        client.socket.read_exact(&mut data).unwrap();
    }
    gateway.end();
}
