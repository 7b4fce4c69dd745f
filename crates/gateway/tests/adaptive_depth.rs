//! The dispatch depth that the gateway chooses by itself, on emulated devices in real time.

mod common;

use std::io::Read;
use std::time::{Duration, Instant};

use common::{Client, Gateway, READ};
use evenkeel_gateway::StoreAccount;

/// Keeps 96 reads outstanding until the depth has settled or half a minute is over; the depth at the end.
fn settled(sections: &str, good: impl Fn(&StoreAccount) -> bool) -> StoreAccount {
    let gateway = Gateway::start(1 << 20, sections);
    let mut client = gateway.connect("v");
    (0..96).for_each(|cookie| client.send(READ, 0, cookie, 0, 512));
    let (begin, mut answered, mut seen) = (Instant::now(), 0_u64, 0);
    let store = loop {
        let cookie = client.reply().cookie;
        client.socket.read_exact(&mut [0; 512]).unwrap();
        client.send(READ, 0, cookie, 0, 512);
        answered += 1;
        if answered.is_multiple_of(500) {
            let store = gateway.server().all_accounts().stores.remove(0);
            // Not only passing by: a second long, twenty windows.
            seen = if good(&store) { seen + 1 } else { 0 };
            if seen == 8 || begin.elapsed() > Duration::from_secs(30) {
                break store;
            }
        }
    };
    drain(client);
    gateway.end();
    store
}

fn drain(mut client: Client) {
    for _ in 0..96 {
        client.reply();
        client.socket.read_exact(&mut [0; 512]).unwrap();
    }
}

#[test]
fn it_goes_as_deep_as_the_device_has_servers() {
    let sections = "[store.s]\npath = \"store.img\"\ndepth = { min = 1, max = 64, window = \"50 ms\" }\n\
        emulate = { rate = \"4000 IOPS\", servers = 12 }\n\
        [volume.v]\noffset = \"0 B\"\nsize = \"1 MiB\"\n";
    let store = settled(sections, |store| (9..=20).contains(&store.depth));
    assert!((9..=20).contains(&store.depth), "{store:?}");
    assert!(store.depth_changes >= 8, "{store:?}");
}

#[test]
fn it_does_not_queue_at_a_device_that_does_one_thing_at_a_time() {
    let sections = "[store.s]\npath = \"store.img\"\n\
        depth = { min = 1, max = 32, start = 32, window = \"50 ms\" }\n\
        emulate = { rate = \"4000 IOPS\" }\n\
        [volume.v]\noffset = \"0 B\"\nsize = \"1 MiB\"\n\
        sla = { burst = 2, rate = \"1000 IOPS\", latency = \"2 ms\" }\n";
    let store = settled(sections, |store| store.depth <= 3);
    assert!(store.depth <= 3, "{store:?}");
}
