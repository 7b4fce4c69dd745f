//! Plays block traces against an NBD server: each request at its instant, whatever has been answered.
//!
//! ```text
//!  requests ──> sender: sleeps until the instant, sends ──> socket ──> server
//!                  │ slot[cookie] = sent at, bytes to read back             │
//!                  v                                                        v
//!               slots  <──────────── receiver: latency of each reply <── socket
//! ```
//! Latency counts from the moment a request is sent; by how much it was sent late is told besides.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use evenkeel_core::{Operation, Time};
use evenkeel_nbd::{CommandFlags, RequestHeader};
use evenkeel_trace::TraceRequest;

use super::rig::Measured;
use crate::client::{Client, Sender};

/// Requests under way at most; a sender with more waits.
const SLOTS: usize = 1 << 16;
/// How long to wait for the last replies.
const LAST_REPLIES: Duration = Duration::from_secs(30);
/// The longest request that every server must take (NBD protocol, "block size constraints").
const LENGTH_MAX: u32 = 32 << 20;
/// Requests lie on multiples of that many bytes.
const ALIGN: u64 = 512;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// Host and port.
    Tcp(String, u16),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => path.display().fmt(f),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Played {
    /// Requests sent.
    pub(crate) sent: u64,
    /// Requests that the server answered with an error.
    pub(crate) refused: u64,
    /// Latencies of those that were done, in order of size.
    pub(crate) latencies_us: Vec<u64>,
    /// By how much the latest request was sent after its instant.
    pub(crate) late_us_max: u64,
    /// When each request was really sent, in us from the start.
    pub(crate) sent_us: Vec<u64>,
    /// From the first request to the last reply.
    pub(crate) lasted: Duration,
}

/// One request under way.
#[derive(Default)]
struct Slot {
    busy: AtomicBool,
    sent_at_us: AtomicU64,
    reply_bytes: AtomicU64,
}

impl Played {
    /// For the comparison with a twin of `duration`.
    pub(super) fn measured(self, duration: Duration) -> Measured {
        let done = self.latencies_us.len() as u64;
        let mean_ms = self.mean_us() / 1e3;
        // What came within the duration; a backlog is answered after it.
        let lasted = self.lasted.max(duration).as_secs_f64();
        let late_ms = self.late_us_max as f64 / 1e3;
        Measured {
            iops: done as f64 / lasted,
            mean_ms,
            late_ms,
            latencies_us: self.latencies_us,
            sent_us: self.sent_us,
        }
    }

    /// The mean latency; 0 if nothing was done.
    pub(crate) fn mean_us(&self) -> f64 {
        self.latencies_us.iter().sum::<u64>() as f64 / self.latencies_us.len().max(1) as f64
    }

    /// So many thousandths took no longer, in us.
    pub(crate) fn latency_us(&self, thousandths: usize) -> u64 {
        let index = (self.latencies_us.len() * thousandths).div_ceil(1000).saturating_sub(1);
        self.latencies_us.get(index).copied().unwrap_or(0)
    }
}

/// Plays `requests` to `export`. Their instants count from `start`, which players share that belong together.
/// Addresses are taken modulo the export's size.
pub(crate) fn play(
    to: &Address,
    export: &str,
    start: Instant,
    requests: impl Iterator<Item = io::Result<TraceRequest>>,
) -> io::Result<Played> {
    let mut client = Client::connect_to(to, export)?;
    let size = client.export.size;
    if size < u64::from(LENGTH_MAX).min(ALIGN) {
        return Err(io::Error::other(format!("the export {export:?} has only {size} B")));
    }
    let mut sender = client.sender()?;
    let closer = client.sender()?;
    let slots: Vec<Slot> = std::iter::repeat_with(Slot::default).take(SLOTS).collect();
    let answered = AtomicU64::new(0);
    thread::scope(|scope| {
        let (shared, count) = (&slots, &answered);
        let receiver = scope.spawn(move || receive_all(&mut client, shared, count, start));
        let sent = send_all(&mut sender, requests, size, &slots, start);
        if let Ok((sent_us, _)) = &sent {
            let last = Instant::now();
            while answered.load(Ordering::Acquire) < sent_us.len() as u64
                && last.elapsed() < LAST_REPLIES
                && !receiver.is_finished()
            {
                thread::sleep(Duration::from_millis(5));
            }
        }
        let lasted = start.elapsed();
        closer.close();
        let received = receiver.join().map_err(|_| io::Error::other("the receiver panicked"))?;
        let ((sent_us, late_us_max), (mut latencies_us, refused)) = (sent?, received?);
        let sent = sent_us.len() as u64;
        let open = sent - refused - latencies_us.len() as u64;
        if open > 0 {
            return Err(io::Error::other(format!(
                "{open} of {sent} requests were not answered within {LAST_REPLIES:?}"
            )));
        }
        latencies_us.sort_unstable();
        Ok(Played { sent, refused, latencies_us, late_us_max, sent_us, lasted })
    })
}

/// Sends each request at its instant; when each was sent and how late the latest was, in us.
fn send_all(
    sender: &mut Sender,
    requests: impl Iterator<Item = io::Result<TraceRequest>>,
    size: u64,
    slots: &[Slot],
    start: Instant,
) -> io::Result<(Vec<u64>, u64)> {
    let (mut sent_us, mut late_us_max) = (Vec::new(), 0);
    for request in requests {
        let request = request?;
        let due = Duration::from_nanos(request.at.since(Time::ZERO).as_nanos());
        thread::sleep((start + due).saturating_duration_since(Instant::now()));
        let cookie = (sent_us.len() % slots.len()) as u64;
        let slot = &slots[cookie as usize];
        while slot.busy.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(1));
        }
        let header = header(&request, cookie, size);
        let (read, payload) = match request.operation {
            Operation::Read => (header.length, 0),
            Operation::Write => (0, header.length),
            _ => (0, 0),
        };
        let now = microseconds(start.elapsed());
        slot.reply_bytes.store(u64::from(read), Ordering::Relaxed);
        slot.sent_at_us.store(now, Ordering::Relaxed);
        slot.busy.store(true, Ordering::Release);
        sender.send(&header, payload)?;
        late_us_max = late_us_max.max(now.saturating_sub(microseconds(due)));
        sent_us.push(now);
    }
    Ok((sent_us, late_us_max))
}

fn header(request: &TraceRequest, cookie: u64, size: u64) -> RequestHeader {
    let kind = match request.operation {
        Operation::Read => 0,
        Operation::Write => 1,
        Operation::Flush => 3,
        Operation::Trim => 4,
        Operation::WriteZeroes => 6,
    };
    let flags = CommandFlags::default();
    if request.operation == Operation::Flush {
        return RequestHeader { flags, kind, cookie, offset: 0, length: 0 };
    }
    let room = u64::from(LENGTH_MAX).min(size) / ALIGN * ALIGN;
    let length = (u64::from(request.length).div_ceil(ALIGN) * ALIGN).clamp(ALIGN, room);
    let offset = (request.offset % size / ALIGN * ALIGN).min(size / ALIGN * ALIGN - length);
    RequestHeader { flags, kind, cookie, offset, length: length as u32 }
}

/// Notes each reply until the connection ends: latencies, and how many were errors.
fn receive_all(
    client: &mut Client,
    slots: &[Slot],
    answered: &AtomicU64,
    start: Instant,
) -> io::Result<(Vec<u64>, u64)> {
    let (mut latencies_us, mut refused) = (Vec::new(), 0);
    let mut data = Vec::new();
    loop {
        let bytes = |cookie: u64| {
            let slot = slots.get(cookie as usize).filter(|slot| slot.busy.load(Ordering::Acquire));
            slot.map(|slot| slot.reply_bytes.load(Ordering::Relaxed) as usize)
        };
        match client.receive(bytes, &mut data) {
            Ok((cookie, error)) => {
                let slot = &slots[cookie as usize];
                let latency = microseconds(start.elapsed()) - slot.sent_at_us.load(Ordering::Relaxed);
                slot.busy.store(false, Ordering::Release);
                if error == 0 {
                    latencies_us.push(latency)
                } else {
                    refused += 1
                }
                answered.fetch_add(1, Ordering::Release);
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok((latencies_us, refused)),
            Err(error) => return Err(error),
        }
    }
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_lie_within_the_export() {
        for (offset, length, size) in
            [(0, 1, 512), (1 << 40, 4096, 10_000), (9_999, 1 << 30, 10_000), (5_000, 512, 1 << 40)]
        {
            let request =
                TraceRequest { at: Time::ZERO, volume: 0, operation: Operation::Read, offset, length };
            let header = header(&request, 7, size);
            assert!(header.length > 0 && header.length <= LENGTH_MAX);
            assert!(header.offset + u64::from(header.length) <= size, "{header:?}");
            assert!(header.offset.is_multiple_of(ALIGN) && u64::from(header.length).is_multiple_of(ALIGN));
        }
    }
}
