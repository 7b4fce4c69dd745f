//! What the gateway learns of its device, and promises that follow the load, seen live.

mod common;

use std::io::Read;
use std::time::{Duration, Instant};

use common::{Gateway, READ};
use evenkeel_audit::{Auditor, Log};
use evenkeel_gateway::{Accounts, CapacityVerdict};

/// Keeps `outstanding` reads of 4 KiB going until `good` or half a minute is over; the accounts then.
fn watched(sections: &str, outstanding: u64, good: impl Fn(&Accounts) -> bool) -> Accounts {
    let gateway = Gateway::start(128 << 10, sections);
    let mut client = gateway.connect("v");
    let place = |cookie: u64| cookie % 32 * 4096;
    (0..outstanding).for_each(|cookie| client.send(READ, 0, cookie, place(cookie), 4096));
    let (begin, mut next) = (Instant::now(), outstanding);
    let accounts = loop {
        client.reply();
        client.socket.read_exact(&mut [0; 4096]).expect("data");
        client.send(READ, 0, next, place(next), 4096);
        next += 1;
        if next.is_multiple_of(50) {
            let accounts = gateway.server().all_accounts();
            if good(&accounts) || begin.elapsed() > Duration::from_secs(30) {
                break accounts;
            }
        }
    };
    for _ in 0..outstanding {
        client.reply();
        client.socket.read_exact(&mut [0; 4096]).expect("data");
    }
    drop(client);
    gateway.end();
    accounts
}

#[test]
fn a_device_slower_than_stated_raises_the_alarm() {
    // Two dies of 5 ms: 400 IOPS at best, and the file says 1000.
    let sections = "[store.s]\npath = \"store.img\"\ncapacity = \"1000 IOPS\"\n[store.s.emulate]\n\
        kind = \"flash\"\ncapacity = \"128 KiB\"\npage = \"4 KiB\"\npages_per_block = 4\nblocks_per_die = 16\n\
        dies_per_channel = 2\nread = \"5 ms\"\nprogram = \"20 ms\"\nerase = \"1 ms\"\ncollect_below = 2\n\
        [volume.v]\noffset = \"0 B\"\nsize = \"128 KiB\"\n\
        sla = { burst = 10, rate = \"800 IOPS\", latency = \"50 ms\" }\n";
    let is_short = |accounts: &Accounts| accounts.stores[0].capacity.verdict == CapacityVerdict::Short;
    let capacity = watched(sections, 16, is_short).stores[0].capacity;
    assert_eq!((capacity.verdict, capacity.alarms), (CapacityVerdict::Short, 1), "{capacity:?}");
    assert_eq!((capacity.stated_iops, capacity.needed_iops), (Some(1000.0), 800.0));
    assert!(capacity.seen_low_iops.is_some_and(|low| low <= 400.0), "{capacity:?}");
    assert!(capacity.seen_high_iops.is_some_and(|high| high < 800.0), "{capacity:?}");
}

#[test]
fn a_device_of_known_rate_is_found_and_an_idle_one_is_not_judged() {
    let sections = "[store.s]\npath = \"store.img\"\nemulate = { rate = \"500 IOPS\" }\n\
        [volume.v]\noffset = \"0 B\"\nsize = \"128 KiB\"\n\
        sla = { burst = 2, rate = \"100 IOPS\", latency = \"50 ms\" }\n";
    let known = |accounts: &Accounts| accounts.stores[0].capacity.seen_iops.is_some();
    let capacity = watched(sections, 8, known).stores[0].capacity;
    let (low, high) = (capacity.seen_low_iops.expect("seen"), capacity.seen_high_iops.expect("seen"));
    // Never faster than its model; how much slower is the machine's affair.
    assert!(low <= 500.0 && high >= 100.0 && low < high, "{capacity:?}");
    assert_ne!(capacity.verdict, CapacityVerdict::Short, "{capacity:?}");
    let gateway = Gateway::start(128 << 10, sections);
    assert_eq!(gateway.server().all_accounts().stores[0].capacity.verdict, CapacityVerdict::Unknown);
    gateway.end();
}

fn adapted(capacity: u32, apply: bool) -> String {
    format!(
        "[store.s]\npath = \"store.img\"\ncapacity = \"{capacity} IOPS\"\n\
         emulate = {{ rate = \"1000 IOPS\", servers = 2 }}\n\
         [volume.v]\noffset = \"0 B\"\nsize = \"128 KiB\"\n\
         sla = {{ burst = 5, rate = \"40 IOPS\", latency = \"100 ms\" }}\n\
         adapt = {{ rate = [\"20 IOPS\", \"300 IOPS\"], burst = [2, 30], apply = {apply}, window = \"200 ms\" }}\n"
    )
}

#[test]
fn a_promise_follows_what_is_sent_up_to_its_limits() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("ledger");
    let audit = format!("audit = {{ folder = {log:?}, key = {:?} }}\n[volume.v]", folder.path().join("key"));
    let accounts = watched(&adapted(900, true).replace("[volume.v]", &audit), 16, |accounts| {
        accounts.volumes[0].adapt.as_ref().is_some_and(|adapt| adapt.changes > 0)
    });
    let adapt = accounts.volumes[0].adapt.as_ref().expect("watched");
    assert!(adapt.changes > 0 && adapt.rate_iops > 40.0 && adapt.rate_iops <= 300.0, "{adapt:?}");
    assert!(adapt.burst_requests <= 30.0, "{adapt:?}");
    assert!(accounts.stores[0].capacity.needed_iops <= 900.0, "{accounts:?}");
    // The log tells of it by itself, as a change that the operator allowed.
    let mut auditor = Auditor::new();
    for event in Log::open(&log).expect("a log") {
        auditor.on_event(&event.expect("whole"));
    }
    let told = auditor.finish(None).changes;
    let adapted = told.iter().filter(|(_, words)| words.starts_with("promise to v adapted to what it sends"));
    assert!(adapted.count() as u64 >= adapt.changes, "{told:?}");
}

#[test]
fn what_does_not_fit_or_may_not_be_changed_is_only_proposed() {
    for (capacity, apply) in [(60, true), (900, false)] {
        let accounts = watched(&adapted(capacity, apply), 16, |accounts| {
            accounts.volumes[0].adapt.as_ref().is_some_and(|adapt| adapt.proposed.is_some())
        });
        let adapt = accounts.volumes[0].adapt.as_ref().expect("watched");
        assert!(adapt.proposed.is_some() && adapt.changes == 0, "{adapt:?}");
        assert_eq!((adapt.burst_requests, adapt.rate_iops), (5.0, 40.0));
    }
}
