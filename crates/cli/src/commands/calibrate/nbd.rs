//! Measuring an export of an NBD server: what a client gets, network and server included.
//!
//! ```text
//!  NbdTarget ── submit ──> socket ──> server
//!      │ wait                           │
//!      └──── channel <── thread that receives replies: cookie = slot, and how many bytes come with it
//! ```

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use evenkeel_calibrate::{Access, Target};
use evenkeel_core::{Operation, Time};
use evenkeel_gateway::calibrate::fill;
use evenkeel_nbd::{CommandFlags, RequestHeader, TransmissionFlags};

use crate::client::{Client, Sender};
use crate::live::player::Address;

const READ: u16 = 0;
const WRITE: u16 = 1;

/// An export to measure.
pub(super) struct NbdTarget {
    sender: Sender,
    replies: Receiver<io::Result<(u64, u32)>>,
    thread: Option<JoinHandle<()>>,
    start: Instant,
    size: u64,
    is_read_only: bool,
    payload: Vec<u8>,
}

impl NbdTarget {
    /// Connects to `export`; accesses may have up to `largest` bytes.
    pub(super) fn connect(address: &Address, export: &str, largest: u32) -> io::Result<Self> {
        let mut client = Client::connect_to(address, export)?;
        let sender = client.sender()?;
        let (size, is_read_only) =
            (client.export.size, client.export.flags.0 & TransmissionFlags::READ_ONLY != 0);
        let (results, replies) = mpsc::channel();
        let thread = thread::Builder::new().name("replies".into()).spawn(move || {
            let mut data = Vec::new();
            loop {
                // The upper half of a cookie is how many bytes of data come with its reply.
                let reply = client.receive(|cookie| usize::try_from(cookie >> 32).ok(), &mut data);
                let is_over = reply.is_err();
                if results.send(reply).is_err() || is_over {
                    return;
                }
            }
        })?;
        let mut payload = vec![0; largest as usize];
        // What does not compress: some servers do not store zeros.
        fill(&mut payload);
        let start = Instant::now();
        Ok(Self { sender, replies, thread: Some(thread), start, size, is_read_only, payload })
    }

    /// Its bytes.
    pub(super) const fn size(&self) -> u64 {
        self.size
    }

    /// Whether the server takes no writes.
    pub(super) const fn is_read_only(&self) -> bool {
        self.is_read_only
    }
}

/// A reply as a slot that is free again.
fn freed(reply: io::Result<(u64, u32)>) -> io::Result<u32> {
    match reply? {
        (cookie, 0) => Ok(cookie as u32),
        (_, error) => Err(io::Error::other(format!("the server answered with error {error}"))),
    }
}

impl Target for NbdTarget {
    type Error = io::Error;

    fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn submit(&mut self, access: Access) -> io::Result<()> {
        let Access { slot, operation, offset, length } = access;
        let is_write = operation == Operation::Write;
        let expected = if is_write { 0 } else { u64::from(length) };
        let (kind, cookie) = (if is_write { WRITE } else { READ }, expected << 32 | u64::from(slot));
        let header = RequestHeader { flags: CommandFlags::default(), kind, cookie, offset, length };
        let payload = if is_write { &self.payload[..length as usize] } else { &[] };
        self.sender.send_with(&header, payload)
    }

    fn wait(&mut self, until: Time, done: &mut Vec<u32>) -> io::Result<()> {
        let left = Duration::from_nanos(until.since(self.now()).as_nanos());
        match self.replies.recv_timeout(left) {
            Ok(reply) => done.push(freed(reply)?),
            Err(RecvTimeoutError::Timeout) => return Ok(()),
            Err(RecvTimeoutError::Disconnected) => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        while let Ok(reply) = self.replies.try_recv() {
            done.push(freed(reply)?);
        }
        Ok(())
    }
}

impl Drop for NbdTarget {
    fn drop(&mut self) {
        self.sender.close();
        if let Some(thread) = self.thread.take() {
            // It ends with the connection; what it had to say has been said.
            let _ = thread.join();
        }
    }
}
