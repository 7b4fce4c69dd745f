//! In steady state the whole gateway allocates nothing, whatever thread it runs on.
//!
//! The counter counts the process, so the client below allocates nothing either. Only the thread that writes
//! the audit log is left out: it opens files and signs.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use common::{Client, FLUSH, Gateway, READ, TRIM, WRITE};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// The thread of the audit log.
static NOT_COUNTED: AtomicI32 = AtomicI32::new(0);

// SAFETY: hands everything to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: a system call without preconditions.
        if unsafe { libc::gettid() } != NOT_COUNTED.load(Ordering::Relaxed) {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn requests_allocate_nothing() {
    let sections = "[store.s]\npath = \"store.img\"\ncapacity = \"100000 IOPS\"\n\
                    audit = { folder = \"log\", key = \"key\" }\n\
                    [volume.v]\noffset = \"0 B\"\nsize = \"4 MiB\"\n\
                    sla = { burst = 64, rate = \"1000 IOPS\", latency = \"10 ms\" }\n\
                    [volume.w]\noffset = \"4 MiB\"\nsize = \"4 MiB\"\n";
    let gateway = Gateway::start(8 << 20, sections);
    assert_eq!(allocations(&gateway, 300), 0, "allocations in 2000 rounds");
    gateway.end();
    // The same on a hybrid store, whose clusters have found their place by then: each change of place costs
    // some memory until it is durable.
    for policy in ["online", "lru", "arc", "none"] {
        let hybrid = format!(
            "backend = \"hybrid\"\nhybrid = {{ fast = \"fast.img\", map = \"s.map\", policy = \"{policy}\" }}\n[volume.v]"
        );
        let sections = sections.replacen("[volume.v]", &hybrid, 1);
        let gateway = Gateway::start_hybrid(8 << 20, 16 << 20, &sections);
        assert_eq!(allocations(&gateway, 1_200), 0, "allocations in 2000 rounds under {policy}");
        let status = gateway.server().all_accounts().stores.remove(0).hybrid.unwrap();
        assert_eq!(status.fast_accesses > 0, policy != "none", "{status:?}");
        gateway.end();
    }
}

/// Allocations in 2000 rounds of requests, after some to get going.
fn allocations(gateway: &Gateway, rounds_before: u64) -> u64 {
    NOT_COUNTED.store(thread_named("audit-s"), Ordering::Relaxed);
    let (mut promised, mut background) = (gateway.connect("v"), gateway.connect("w"));
    let mut batch = Vec::with_capacity(64 << 10);
    let mut back = vec![0; 64 << 10];
    let mut rounds = |count: u64| {
        for round in 0..count {
            exchange(&mut promised, round, &mut batch, &mut back);
            exchange(&mut background, round, &mut batch, &mut back);
        }
    };
    rounds(rounds_before);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    rounds(2_000);
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

/// Sends eight reads, a write, a flush and a trim at once, and takes in all the answers.
fn exchange(client: &mut Client, round: u64, batch: &mut Vec<u8>, back: &mut [u8]) {
    batch.clear();
    for index in 0..8 {
        batch.extend_from_slice(&Client::request(READ, 0, index, (round + index) % 512 * 4096, 4096));
    }
    batch.extend_from_slice(&Client::request(WRITE, 0, 8, round % 512 * 4096, 4096));
    batch.extend_from_slice(&back[..4096]);
    if round.is_multiple_of(100) {
        batch.extend_from_slice(&Client::request(FLUSH, 0, 9, 0, 0));
    } else {
        batch.extend_from_slice(&Client::request(READ, 0, 9, 0, 16));
    }
    batch.extend_from_slice(&Client::request(TRIM, 0, 10, round % 512 * 4096, 4096));
    client.socket.write_all(batch).unwrap();
    let short = if round.is_multiple_of(100) { 0 } else { 16 };
    client.socket.read_exact(&mut back[..11 * 16 + 8 * 4096 + short]).unwrap();
}

/// The number of this process's thread of that name.
fn thread_named(name: &str) -> i32 {
    let named = |task: &std::fs::DirEntry| {
        std::fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim() == name)
    };
    // A thread names itself, some time after it was started.
    for _ in 0..2_000 {
        let mut tasks = std::fs::read_dir("/proc/self/task").unwrap().filter_map(Result::ok);
        if let Some(task) = tasks.find(named) {
            return task.file_name().to_str().unwrap().parse().unwrap();
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("no thread is called {name}")
}
