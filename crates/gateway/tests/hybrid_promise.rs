//! A promise beside a storm of migrations, on real files: who keeps to its envelope is served in time, and
//! copies are charged what they cost. What it asserts of time is the promise itself, of two seconds on files
//! that take microseconds.

mod common;

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{Client, READ};
use evenkeel_audit::{Auditor, Event, Log};
use evenkeel_core::{Cost, FlowId, Operation, Record};
use evenkeel_gateway::{HybridStatus, Server, config};
use evenkeel_hybrid::{Offline, Paths};
use evenkeel_ledger::Verdict;
use evenkeel_tiering::Geometry;

const CLUSTER: u32 = 256 << 10;
/// Of 32 clusters that are read at random, 4 have room on the fast device: most reads want to move two.
const SLOTS: u64 = 4;
const HOT_BYTES: u64 = 8 << 20;

/// A READ of 64 KiB costs 4, a WRITE 6.
const SECTIONS: &str = "[store.s]\npath = \"store.img\"\ncapacity = \"100000 IOPS\"\nbackend = \"hybrid\"\n\
    hybrid = { fast = \"fast.img\", map = \"s.map\", policy = \"lru\", migrations = 2, fast_depth = 4, slow_depth = 1 }\n\
    cost = { read = { \"4 KiB\" = 1, \"64 KiB\" = 4 }, write = { \"4 KiB\" = 1, \"64 KiB\" = 6 } }\n\
    audit = { folder = \"log\", key = \"key\" }\n\
    [volume.tenant]\noffset = \"0 B\"\nsize = \"4 MiB\"\nrequest_max = \"64 KiB\"\n\
    sla = { burst = 20, rate = \"200 IOPS\", latency = \"2 s\" }\n\
    [volume.hot]\noffset = \"4 MiB\"\nsize = \"8 MiB\"\n";
const MIGRATION: FlowId = FlowId(2);

fn start(folder: &Path) -> Server {
    let at = |name: &str| folder.join(name);
    File::create(at("store.img")).unwrap().set_len(12 << 20).unwrap();
    File::create(at("fast.img")).unwrap().set_len((SLOTS + 1) * u64::from(CLUSTER)).unwrap();
    let paths = Paths { slow: at("store.img"), fast: at("fast.img"), map: at("s.map") };
    Offline::create(&paths, Geometry::new(CLUSTER, 4096).unwrap()).unwrap();
    let text = format!("[gateway]\nlisten = [\"unix:nbd.sock\"]\n{SECTIONS}");
    let config = config::parse(&text, &at("test.toml")).unwrap();
    Server::start(&config).unwrap()
}

fn status(server: &Server) -> HybridStatus {
    server.all_accounts().stores.remove(0).hybrid.unwrap()
}

/// Reads at random places, eight at a time, until told to stop.
fn storm(mut client: Client, stop: &AtomicBool) {
    let mut state = 1_u64;
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..8 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            client.send(READ, 0, 1, state % (HOT_BYTES / 4096) * 4096, 4096);
        }
        for _ in 0..8 {
            assert_eq!(client.reply().error, 0);
            client.socket.read_exact(&mut [0; 4096]).unwrap();
        }
    }
}

/// Ten requests, and then what restores as much of the burst: 167 per second of 200.
fn conforming_burst(client: &mut Client) {
    for place in 0..10 {
        client.send(READ, 0, 1, place * 75 * 4096, 4096);
    }
    for _ in 0..10 {
        assert_eq!(client.reply().error, 0);
        client.socket.read_exact(&mut [0; 4096]).unwrap();
    }
    std::thread::sleep(Duration::from_millis(60));
}

#[test]
fn a_conforming_client_misses_nothing_while_clusters_migrate_and_copies_pay_by_size() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path());
    let connect = |volume: &str| Client::connect(folder.path().join("nbd.sock"), volume);
    let (stop, give_up) = (AtomicBool::new(false), Instant::now() + Duration::from_secs(60));
    let (mut tenant, hot) = (connect("tenant"), connect("hot"));
    std::thread::scope(|scope| {
        scope.spawn(|| storm(hot, &stop));
        let mut bursts = 0;
        while bursts < 15 || status(&server).demoted < 100 {
            assert!(Instant::now() < give_up, "{:?}", status(&server));
            conforming_burst(&mut tenant);
            bursts += 1;
        }
        stop.store(true, Ordering::Relaxed);
    });
    drop(tenant);
    let ended = server.shutdown();
    assert!(ended.failures.is_empty(), "{:?}", ended.failures);

    let (mut auditor, mut copies) = (Auditor::new(), Vec::new());
    let mut log = Log::open(&folder.path().join("log")).unwrap();
    for event in log.by_ref().map(Result::unwrap) {
        auditor.on_event(&event);
        if let Event::Record(record @ Record { request, .. }) = event
            && request.flow == MIGRATION
        {
            copies.push(record);
        }
    }
    let audit = auditor.finish(log.signed_until());
    let account = |name: &str| &audit.volumes().find(|flow| flow.name == name).unwrap().account;
    let tenant = account("tenant");
    assert_eq!(tenant.verdict, Verdict::Kept, "{}", tenant.explanation);
    assert_eq!((tenant.missed, tenant.outside), (0, 0), "{}", tenant.explanation);
    assert!(tenant.promised >= 150);
    assert_eq!(account("(migration)").verdict, Verdict::NoPromise);

    // The log and the live account say the same of the copies, too.
    let live = ended.accounts.iter().find(|live| live.volume == "(migration)").unwrap();
    assert_eq!(account("(migration)"), &live.account);

    // Clusters went both ways, in pieces no dearer than the tenant's dearest request: 64 KiB, its WRITE.
    for operation in [Operation::Read, Operation::Write] {
        let of_kind = copies.iter().filter(|copy| copy.request.operation == operation).count();
        assert!(of_kind >= 100, "{of_kind} copies as the slow device's {operation:?}");
    }
    let charged =
        |copy: &Record| (copy.request.length, copy.request.cost) == (64 << 10, Cost::requests(4 + 6));
    assert!(copies.iter().all(charged), "{:?}", copies.iter().find(|copy| !charged(copy)));
}
