//! The demonstration's tenants: what they send, and what they measure.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::client::{Client, Sender};

/// Every request reads one block of this size.
const BLOCK: u32 = 4096;
/// Cookies are reused after so many requests; far more than are ever outstanding.
const COOKIES: u64 = 1 << 16;
/// How long to wait for the last replies.
const LAST_REPLIES: Duration = Duration::from_secs(3);

/// One tenant.
#[derive(Clone, Debug)]
pub(super) struct Tenant {
    pub(super) name: &'static str,
    /// Its SLA as written in the configuration.
    pub(super) sla: Option<&'static str>,
    pub(super) deadline: Option<Duration>,
    pub(super) pattern: Pattern,
}

/// How a tenant sends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pattern {
    /// `size` requests at once, `every` so often, whatever has been answered.
    Bursts { size: u64, every: Duration },
    /// Always `each` requests outstanding on each of so many connections.
    Outstanding { connections: u64, each: u64 },
}

/// What a tenant measured, at its own end of the connection.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Measured {
    pub(super) offered: u64,
    pub(super) received: u64,
    pub(super) offered_iops: f64,
    pub(super) received_iops: f64,
    pub(super) latency_p50_us: u64,
    pub(super) latency_p99_us: u64,
    pub(super) latency_max_us: u64,
    /// Replies later than the promised latency, and requests never answered.
    pub(super) missed: u64,
    /// Every reply, for the figure.
    #[serde(skip)]
    pub(super) replies: Vec<Reply>,
}

/// What all connections of one tenant note together.
#[derive(Debug, Default)]
struct Notes {
    offered: AtomicU64,
    replies: Mutex<Vec<Reply>>,
}

/// One reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reply {
    /// When it came, in microseconds since the phase began.
    pub(super) at_us: u64,
    pub(super) latency_us: u64,
}

impl Tenant {
    /// The promise, for people.
    pub(super) fn promised(&self) -> String {
        self.sla.map_or_else(
            || "nothing".to_owned(),
            |sla| {
                let values: Vec<&str> = sla
                    .split(['{', '}', ','])
                    .filter_map(|pair| pair.split_once('='))
                    .map(|(_, it)| it)
                    .collect();
                format!("⟨{}⟩", values.join(",").replace('"', "").trim())
            },
        )
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bursts { size: 1, every } => write!(f, "1 every {every:?}"),
            Self::Bursts { size, every } => write!(f, "{size} at once every {every:?}"),
            Self::Outstanding { connections, each } => write!(f, "{} outstanding", connections * each),
        }
    }
}

/// Lets all tenants run at the same time and calls `progress` every second with the replies so far.
pub(super) fn run_all(
    tenants: &[Tenant],
    socket: &Path,
    duration: Duration,
    progress: impl Fn(u64, &[(&'static str, u64)]),
) -> io::Result<Vec<Measured>> {
    let notes: Vec<Notes> = tenants.iter().map(|_| Notes::default()).collect();
    let stop = AtomicBool::new(false);
    let start = Instant::now();
    let in_time = thread::scope(|scope| {
        let mut threads = Vec::new();
        for (tenant, notes) in tenants.iter().zip(&notes) {
            let connections = match tenant.pattern {
                Pattern::Bursts { .. } => 1,
                Pattern::Outstanding { connections, .. } => connections,
            };
            for _ in 0..connections {
                let stop = &stop;
                threads.push(scope.spawn(move || run_connection(tenant, socket, start, notes, stop)));
            }
        }
        while start.elapsed() < duration {
            thread::sleep(Duration::from_secs(1).min(duration.saturating_sub(start.elapsed())));
            let so_far: Vec<_> =
                tenants.iter().zip(&notes).map(|(it, notes)| (it.name, notes.received())).collect();
            progress(start.elapsed().as_secs(), &so_far);
        }
        // Rates are of this time; replies that come after it count as replies only.
        let in_time: Vec<u64> = notes.iter().map(Notes::received).collect();
        stop.store(true, Ordering::Relaxed);
        let ended: io::Result<()> = threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a tenant's thread panicked")))
        });
        ended.map(|()| in_time)
    })?;
    let measure =
        |((tenant, notes), in_time): ((&Tenant, &Notes), u64)| notes.measure(tenant, duration, in_time);
    Ok(tenants.iter().zip(&notes).zip(in_time).map(measure).collect())
}

fn run_connection(
    tenant: &Tenant,
    socket: &Path,
    start: Instant,
    notes: &Notes,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut client = Client::connect(socket, tenant.name)?;
    let mut sender = client.sender()?;
    let blocks = client.export.size / u64::from(BLOCK);
    match tenant.pattern {
        Pattern::Outstanding { each, .. } => {
            keep_outstanding(&mut client, &mut sender, each, blocks, start, notes, stop)
        }
        Pattern::Bursts { size, every } => {
            let sent_at: Vec<AtomicU64> = (0..COOKIES).map(|_| AtomicU64::new(0)).collect();
            thread::scope(|scope| {
                let (receiver_sent_at, closer) = (&sent_at, client.sender()?);
                let receiver = scope.spawn(move || receive_all(&mut client, start, receiver_sent_at, notes));
                let sent = send_bursts(&mut sender, size, every, start, blocks, &sent_at, notes, stop);
                let last = Instant::now();
                while notes.received() < notes.offered.load(Ordering::Relaxed)
                    && last.elapsed() < LAST_REPLIES
                {
                    thread::sleep(Duration::from_millis(5));
                }
                closer.close();
                receiver.join().map_err(|_| io::Error::other("a receiver panicked"))??;
                sent
            })
        }
    }
}

/// Open loop: sends on schedule, whatever the server does.
#[expect(clippy::too_many_arguments, reason = "one loop's state; a struct would only rename it")]
fn send_bursts(
    sender: &mut Sender,
    size: u64,
    every: Duration,
    start: Instant,
    blocks: u64,
    sent_at: &[AtomicU64],
    notes: &Notes,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut next = Instant::now();
    let mut cookie = 0;
    while !stop.load(Ordering::Relaxed) {
        let now = microseconds(start.elapsed());
        let burst = (cookie..cookie + size).map(|cookie| {
            sent_at[(cookie % COOKIES) as usize].store(now, Ordering::Release);
            (cookie % COOKIES, scatter(cookie, blocks))
        });
        notes.offered.fetch_add(size, Ordering::Relaxed);
        sender.send_reads(BLOCK, burst)?;
        cookie += size;
        // A sender that was held up goes on from now: catching up would leave the envelope.
        next = (next + every).max(Instant::now());
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    Ok(())
}

fn receive_all(client: &mut Client, start: Instant, sent_at: &[AtomicU64], notes: &Notes) -> io::Result<()> {
    let mut data = vec![0; BLOCK as usize];
    loop {
        match client.receive_read(&mut data) {
            Ok(cookie) => {
                let now = microseconds(start.elapsed());
                let sent = sent_at[(cookie % COOKIES) as usize].load(Ordering::Acquire);
                notes.note(start, now.saturating_sub(sent));
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// Closed loop: a new request for every reply.
fn keep_outstanding(
    client: &mut Client,
    sender: &mut Sender,
    outstanding: u64,
    blocks: u64,
    start: Instant,
    notes: &Notes,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut data = vec![0; BLOCK as usize];
    let mut sent_at = vec![Instant::now(); outstanding as usize];
    let mut sequence = outstanding;
    sender.send_reads(BLOCK, (0..outstanding).map(|cookie| (cookie, scatter(cookie, blocks))))?;
    notes.offered.fetch_add(outstanding, Ordering::Relaxed);
    while !stop.load(Ordering::Relaxed) {
        let cookie = client.receive_read(&mut data)?;
        let sent = &mut sent_at[cookie as usize];
        notes.note(start, microseconds(sent.elapsed()));
        *sent = Instant::now();
        sequence += 1;
        sender.send_reads(BLOCK, std::iter::once((cookie, scatter(sequence, blocks))))?;
        notes.offered.fetch_add(1, Ordering::Relaxed);
    }
    sender.close();
    Ok(())
}

/// The byte offset of the request with this number: blocks in a scattered order.
fn scatter(number: u64, blocks: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % blocks * u64::from(BLOCK)
}

impl Notes {
    fn note(&self, start: Instant, latency_us: u64) {
        let reply = Reply { at_us: microseconds(start.elapsed()), latency_us };
        self.replies.lock().unwrap_or_else(PoisonError::into_inner).push(reply);
    }

    fn received(&self) -> u64 {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner).len() as u64
    }

    fn measure(&self, tenant: &Tenant, duration: Duration, in_time: u64) -> Measured {
        let replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut latencies: Vec<u64> = replies.iter().map(|reply| reply.latency_us).collect();
        latencies.sort_unstable();
        let (offered, received) = (self.offered.load(Ordering::Relaxed), latencies.len() as u64);
        let at = |thousandths: usize| {
            let index = (latencies.len() * thousandths).div_ceil(1000).saturating_sub(1);
            latencies.get(index).copied().unwrap_or(0)
        };
        let missed = tenant.deadline.map_or(0, |deadline| {
            let deadline_us = microseconds(deadline);
            let late = latencies.iter().filter(|&&latency| latency > deadline_us).count() as u64;
            late + offered.saturating_sub(received)
        });
        let per_second = |count: u64| count as f64 / duration.as_secs_f64();
        Measured {
            offered,
            received,
            offered_iops: per_second(offered),
            received_iops: per_second(in_time),
            latency_p50_us: at(500),
            latency_p99_us: at(990),
            latency_max_us: at(1000),
            missed,
            replies,
        }
    }
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
