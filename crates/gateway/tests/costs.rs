//! Cost models on the live gateway: dear requests use up the promise faster.

mod common;

use common::{Client, FLUSH, Gateway, pattern};

const SECTIONS: &str = "[store.s]\npath = \"store.img\"\n\
    cost = { read = { \"4 KiB\" = 1, \"64 KiB\" = 4 }, flush = 3 }\n\
    [volume.v]\noffset = \"0 B\"\nsize = \"1 MiB\"\nrequest_max = \"64 KiB\"\n\
    sla = { burst = 10, rate = \"0.001 IOPS\", latency = \"30 s\" }\n";

/// How many of these requests came inside a promise of ten that is hardly ever renewed.
fn promised(requests: impl Fn(&mut Client)) -> u64 {
    let gateway = Gateway::start(1 << 20, SECTIONS);
    let mut client = gateway.connect("v");
    requests(&mut client);
    drop(client);
    let accounts = gateway.end();
    accounts[0].account.promised
}

#[test]
fn a_promise_is_used_up_by_cost() {
    assert_eq!(promised(|client| (0..20).for_each(|_| drop(client.read(0, 4096)))), 10);
    assert_eq!(promised(|client| (0..20).for_each(|_| drop(client.read(0, 64 << 10)))), 2);
    assert_eq!(promised(|client| (0..20).for_each(|_| drop(client.read(0, 34 << 10)))), 4, "2.5 each");
    assert_eq!(promised(|client| (0..20).for_each(|_| client.write(0, 0, &pattern(1, 64 << 10)))), 10);
    assert_eq!(promised(|client| (0..20).for_each(|_| assert_eq!(client.command(FLUSH, 0, 0, 0), 0))), 3);
}

#[test]
fn a_larger_request_than_the_largest_is_refused() {
    let gateway = Gateway::start(1 << 20, SECTIONS);
    let mut client = gateway.connect("v");
    client.send(common::READ, 0, 5, 0, (64 << 10) + 4096);
    let reply = client.reply();
    assert_eq!((reply.error, reply.cookie), (22, 5), "EINVAL, as the protocol has it");
    assert_eq!(client.read(0, 64 << 10).len(), 64 << 10);
    drop(client);
    gateway.end();
}
