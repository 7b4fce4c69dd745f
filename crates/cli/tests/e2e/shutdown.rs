//! SIGTERM: stops accepting, finishes what is in flight, syncs, exits 0.

use std::fs;
use std::time::Duration;

use crate::common::client::{Client, READ, Request, WRITE};
use crate::common::{MIB, Server, volume};

const STORE: &str = "[store.pool]\npath = \"pool.img\"\ncapacity = \"100 IOPS\"\nscheduler = \"pclock\"\n\
                     depth = 1\nemulate = { rate = \"100 IOPS\", servers = 1 }\n";

#[test]
fn what_is_in_flight_is_answered_and_kept() {
    let mut server = Server::start(16 * MIB, &(STORE.to_owned() + &volume("db", 0, 16)));
    let mut idle = Client::open(&server.socket(), "db").expect("an idle client");
    let mut client = Client::open(&server.socket(), "db").expect("a busy client");
    // 16 writes and 16 reads, 320 ms of the device's time, sent at once.
    for slot in 0..16_u64 {
        let write = Request { cookie: slot, ..Request::new(WRITE, slot * 4096, 4096) };
        client.send(write, &[u8::try_from(slot).expect("small") + 1; 4096]).expect("sent");
        let read = Request { cookie: 100 + slot, ..Request::new(READ, (64 + slot) * 4096, 4096) };
        client.send(read, &[]).expect("sent");
    }
    let mut pending = 32;
    receive(&mut client);
    pending -= 1;
    server.begin_shutdown();
    while pending > 0 {
        receive(&mut client);
        pending -= 1;
    }
    let status = server.wait();
    assert_eq!(status.code(), Some(0), "{status}\n{}", server.stderr());
    assert!(client.is_closed_by_server() && idle.is_closed_by_server(), "connections end with the server");
    assert!(Client::open(&server.socket(), "db").is_err(), "nobody listens any more");
    let pool = fs::read(server.folder().join("pool.img")).expect("the backing");
    for slot in 0..16_u8 {
        let start = usize::from(slot) * 4096;
        assert!(
            pool[start..start + 4096].iter().all(|byte| *byte == slot + 1),
            "the write to block {slot} is lost"
        );
    }
}

/// One reply, which must be a success, with its data.
fn receive(client: &mut Client) {
    let (error, cookie) = client.reply().expect("every request in flight is answered");
    assert_eq!(error, 0, "request {cookie} failed");
    if cookie >= 100 {
        client.read_data(4096).expect("the data of a read");
    }
}

/// So many writes, 10 ms of the device's time each, of which one has been answered.
fn busy(server: &Server, writes: u64) -> Client {
    let mut client = Client::open(&server.socket(), "db").expect("a client");
    for slot in 0..writes {
        let write = Request { cookie: slot, ..Request::new(WRITE, slot * 4096, 4096) };
        client.send(write, &[1; 4096]).expect("sent");
    }
    receive(&mut client);
    client
}

/// `timeout` sends its signal to the gateway and then to the gateway's group.
#[test]
fn a_signal_that_comes_twice_is_one() {
    let mut server = Server::start(16 * MIB, &(STORE.to_owned() + &volume("db", 0, 16)));
    let mut client = busy(&server, 32);
    server.begin_shutdown();
    server.begin_shutdown();
    (1..32).for_each(|_| receive(&mut client));
    let status = server.wait();
    assert_eq!(status.code(), Some(0), "{status}\n{}", server.stderr());
}

#[test]
fn a_later_signal_cuts_the_shutdown_short() {
    let mut server = Server::start(16 * MIB, &(STORE.to_owned() + &volume("db", 0, 16)));
    let _client = busy(&server, 1_000);
    server.begin_shutdown();
    std::thread::sleep(Duration::from_millis(1_500));
    server.begin_shutdown();
    assert_eq!(server.wait().code(), Some(130), "{}", server.stderr());
}

#[test]
fn an_idle_server_ends_at_once() {
    let server = Server::start(16 * MIB, &(STORE.to_owned() + &volume("db", 0, 16)));
    server.stop();
}
