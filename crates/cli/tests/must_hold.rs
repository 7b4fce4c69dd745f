//! The promise itself: on an emulated device of 1000 IOPS, a tenant at ⟨20, 200/s, 100 ms⟩ that keeps to
//! its envelope misses no deadline beside a bully, who receives what is left. Under fcfs it is missed.
//!
//! This file runs by itself and in one thread, because it measures time. What it asserts leaves room for
//! a busy machine (the tenant needs about 25 of its 100 ms); even so each case may try a second time.

mod common;

use std::io::{self, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::client::{Client, READ, Request};
use common::{MIB, Server, volume};

const DEVICE_IOPS: f64 = 1000.0;
const DEADLINE: Duration = Duration::from_millis(100);
const OUTSTANDING: u64 = 64;

/// What one run showed.
struct Outcome {
    /// The tenant's latencies as it saw them, sorted.
    latencies: Vec<Duration>,
    /// Requests of the bully that were answered meanwhile.
    bully: u64,
    /// How long "meanwhile" was.
    elapsed: Duration,
}

impl Outcome {
    fn missed(&self) -> usize {
        self.latencies.iter().filter(|latency| **latency > DEADLINE).count()
    }

    fn p99(&self) -> Duration {
        self.latencies[self.latencies.len() * 99 / 100]
    }

    /// The bully's requests over what the device had left for it.
    fn bully_share(&self) -> f64 {
        let left = DEVICE_IOPS * self.elapsed.as_secs_f64() - self.latencies.len() as f64;
        self.bully as f64 / left
    }

    fn describe(&self) -> String {
        format!(
            "tenant: {} requests, {} missed, p99 {:.1} ms, longest {:.1} ms; bully: {} in {:.2} s, {:.1} % of the rest",
            self.latencies.len(),
            self.missed(),
            self.p99().as_secs_f64() * 1e3,
            self.latencies.last().map_or(0.0, |latency| latency.as_secs_f64() * 1e3),
            self.bully,
            self.elapsed.as_secs_f64(),
            self.bully_share() * 100.0,
        )
    }
}

/// Bursts and gaps within the envelope, with a margin of a tenth for a sender that wakes up late:
/// a burst of n is followed by a gap of at least n / 200 s.
fn schedule() -> Vec<(u64, Duration)> {
    let full = std::iter::repeat_n((20, Duration::from_millis(110)), 14);
    let half = std::iter::repeat_n((10, Duration::from_millis(55)), 20);
    let single = std::iter::repeat_n((1, Duration::from_micros(5500)), 200);
    full.chain(half).chain(single).collect()
}

/// Keeps 64 requests outstanding on one connection until told to stop, then takes the last answers.
fn bully_on(mut client: Client, stop: &AtomicBool, answered: &AtomicU64) {
    let mut sent = 0;
    let mut pending = 0;
    loop {
        while pending < OUTSTANDING && !stop.load(Ordering::Relaxed) {
            client.send(Request::new(READ, sent * 4096 % (16 * MIB), 4096), &[]).expect("sent");
            sent += 1;
            pending += 1;
        }
        if pending == 0 {
            return;
        }
        let (error, _) = client.reply().expect("a reply");
        assert_eq!(error, 0);
        client.read_data(4096).expect("the data");
        pending -= 1;
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sends the schedule; each request's latency runs from before its burst is sent to its answer.
fn tenant_latencies(mut client: Client) -> io::Result<Vec<Duration>> {
    let schedule = schedule();
    let count: u64 = schedule.iter().map(|(burst, _)| burst).sum();
    let starts = Mutex::new(Vec::new());
    let mut latencies = Vec::new();
    let mut writer = client.stream.try_clone()?;
    thread::scope(|scope| {
        let starts = &starts;
        scope.spawn(move || {
            let mut cookie = 0;
            for (burst, gap) in schedule {
                let requests = (0..burst).flat_map(|place| {
                    let request = Request::new(READ, (cookie + place) * 4096 % (16 * MIB), 4096);
                    Request { cookie: cookie + place, ..request }.encode()
                });
                let bytes: Vec<u8> = requests.collect();
                let start = Instant::now();
                starts.lock().expect("no panic").extend(std::iter::repeat_n(start, burst as usize));
                writer.write_all(&bytes).expect("sent");
                cookie += burst;
                // From the end of this burst, not from a plan: a late burst must not crowd the next one.
                thread::sleep(gap);
            }
        });
        for _ in 0..count {
            let (error, cookie) = client.reply()?;
            assert_eq!(error, 0);
            client.read_data(4096)?;
            latencies.push(starts.lock().expect("no panic")[cookie as usize].elapsed());
        }
        Ok::<(), io::Error>(())
    })?;
    latencies.sort_unstable();
    Ok(latencies)
}

/// The tenant beside a bully with 64 outstanding on each of `connections`.
fn contend(scheduler: &str, connections: usize) -> Outcome {
    let store = format!(
        "[store.pool]\npath = \"pool.img\"\ncapacity = \"1000 IOPS\"\nscheduler = \"{scheduler}\"\ndepth = 1\n\
         emulate = {{ rate = \"1000 IOPS\", servers = 1 }}\n"
    );
    let sla = "sla = { burst = 20, rate = \"200 IOPS\", latency = \"100 ms\" }\n";
    let config = store + &volume("tenant", 0, 16) + sla + &volume("bully", 16, 16);
    let server = Server::start(32 * MIB, &config);
    let open = |export| Client::open(&server.socket(), export).expect("open");
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let bullies: Vec<_> = (0..connections).map(|_| open("bully")).collect();
    let tenant = open("tenant");
    let outcome = thread::scope(|scope| {
        for bully in bullies {
            scope.spawn(|| bully_on(bully, &stop, &answered));
        }
        // Until the bully's queue is full.
        thread::sleep(Duration::from_millis(300));
        let (start, before) = (Instant::now(), answered.load(Ordering::Relaxed));
        let latencies = tenant_latencies(tenant).expect("the tenant is served");
        let (elapsed, after) = (start.elapsed(), answered.load(Ordering::Relaxed));
        stop.store(true, Ordering::Relaxed);
        Outcome { latencies, bully: after - before, elapsed }
    });
    server.stop();
    outcome
}

/// Judges a run; on failure says so and judges a second one, for good.
fn hold(name: &str, run: impl Fn() -> Outcome, judge: impl Fn(&Outcome) -> bool) {
    let first = run();
    println!("{name}: {}", first.describe());
    if judge(&first) {
        return;
    }
    // Past the runner's capture: a test that needed a second try says so.
    let _ = writeln!(io::stderr(), "trying once more, the machine may be busy: {name}: {}", first.describe());
    let second = run();
    assert!(judge(&second), "{name}, at the second try: {}", second.describe());
}

#[test]
fn a_conforming_tenant_misses_no_deadline_and_the_bully_receives_the_rest() {
    let kept = |outcome: &Outcome| outcome.missed() == 0 && (outcome.bully_share() - 1.0).abs() <= 0.05;
    let mostly_missed = |outcome: &Outcome| outcome.missed() * 2 > outcome.latencies.len();
    // fcfs with 64 outstanding in all: at most 84 requests wait, 84 ms. It harms, within the deadline.
    let slow = |outcome: &Outcome| outcome.p99() > Duration::from_millis(50);
    hold("pclock, bully with 64 on each of two connections", || contend("pclock", 2), kept);
    hold("fcfs, bully with 64 on each of two connections", || contend("fcfs", 2), mostly_missed);
    hold("pclock, bully with 64", || contend("pclock", 1), kept);
    hold("fcfs, bully with 64", || contend("fcfs", 1), slow);
}
