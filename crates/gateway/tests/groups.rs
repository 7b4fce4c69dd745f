//! Groups on the live gateway: what two volumes share, and what each of them gets.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use common::{Client, Gateway, READ};
use evenkeel_gateway::Accounts;

/// An emulated device of 800 accesses per second, a group of two volumes, and one beside it.
fn gateway(first: &str, second: &str) -> Gateway {
    let sections = format!(
        "[store.s]\npath = \"store.img\"\nemulate = {{ rate = \"800 IOPS\" }}\n\
         [group.g]\nsla = {{ burst = 4, rate = \"300 IOPS\", latency = \"100 ms\" }}\n\
         [volume.alone]\noffset = \"0 B\"\nsize = \"1 MiB\"\nsla = {{ burst = 4, rate = \"300 IOPS\", latency = \"100 ms\" }}\n\
         [volume.a]\ngroup = \"g\"\noffset = \"1 MiB\"\nsize = \"1 MiB\"\n{first}\n\
         [volume.b]\ngroup = \"g\"\noffset = \"2 MiB\"\nsize = \"1 MiB\"\n{second}\n"
    );
    Gateway::start(3 << 20, &sections)
}

/// Keeps so many reads outstanding until told to stop; how many were answered.
fn keep_busy(mut client: Client, outstanding: u64, stop: &AtomicBool) -> u64 {
    (0..outstanding).for_each(|cookie| client.send(READ, 0, cookie, cookie * 512, 512));
    let (mut answered, mut left, mut data) = (0, outstanding, [0; 512]);
    while left > 0 {
        let reply = client.reply();
        assert_eq!(reply.error, 0);
        std::io::Read::read_exact(&mut client.socket, &mut data).unwrap();
        left -= 1;
        if !stop.load(Ordering::Relaxed) {
            answered += 1;
            left += 1;
            client.send(READ, 0, reply.cookie, reply.cookie * 512, 512);
        }
    }
    answered
}

/// What these volumes, each with so many outstanding, get done meanwhile.
fn shares(gateway: &Gateway, loads: &[(&str, u64)]) -> Vec<u64> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let start = |(volume, outstanding): &(&str, u64)| {
            let (client, outstanding, stop) = (gateway.connect(volume), *outstanding, &stop);
            scope.spawn(move || keep_busy(client, outstanding, stop))
        };
        let running: Vec<_> = loads.iter().map(start).collect();
        thread::sleep(Duration::from_millis(1_000));
        stop.store(true, Ordering::Relaxed);
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn ended(gateway: Gateway) -> Accounts {
    let accounts = gateway.server().all_accounts();
    gateway.end();
    accounts
}

#[track_caller]
fn assert_ratio(a: u64, b: u64, expected: f64) {
    let ratio = a as f64 / b as f64;
    assert!((ratio / expected - 1.0).abs() < 0.2, "{a} to {b}, expected {expected} to 1");
}

#[test]
fn two_volumes_share_the_promise_by_weight_and_not_by_how_much_they_ask() {
    let gateway = gateway("weight = 2", "");
    let done = shares(&gateway, &[("alone", 32), ("a", 8), ("b", 32)]);
    assert_ratio(done[0], done[1] + done[2], 1.0);
    assert_ratio(done[1], done[2], 2.0);
    let accounts = ended(gateway);
    let group = &accounts.groups[0];
    let of = |name: &str| accounts.volumes.iter().find(|volume| volume.volume == name).unwrap();
    assert_eq!((group.group.as_str(), of("a").group.as_deref()), ("g", Some("g")));
    assert_eq!(group.account.served, of("a").account.served + of("b").account.served);
    assert_eq!(group.account.promised, of("a").account.promised + of("b").account.promised);
    assert_eq!(group.account.missed, of("a").account.missed + of("b").account.missed);
}

#[test]
fn the_share_of_an_idle_member_goes_to_the_other() {
    let gateway = gateway("", "");
    let done = shares(&gateway, &[("alone", 32), ("a", 16)]);
    assert_ratio(done[0], done[1], 1.0);
    assert_eq!(ended(gateway).volumes.iter().find(|volume| volume.volume == "b").unwrap().account.served, 0);
}

#[test]
fn a_limit_holds_whatever_is_free() {
    let gateway = gateway("limit = { burst = 5, rate = \"50 IOPS\" }", "");
    let done = shares(&gateway, &[("a", 32), ("b", 4)]);
    // 50 a second, 5 at once; what the machine is late by counts too.
    assert!((40..=75).contains(&done[0]), "{done:?}");
    assert!(done[1] > 400, "and the rest is the other's: {done:?}");
    ended(gateway);
}
