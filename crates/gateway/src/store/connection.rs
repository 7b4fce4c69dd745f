//! One client's socket.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use evenkeel_core::Time;

use super::{Command, Store};
use crate::buffers::Buffer;

/// Size of the buffer that headers and small payloads are received into.
pub(super) const RECEIVE_BUFFER: usize = 64 << 10;
/// Replies that are sent with one system call.
pub(super) const REPLIES_PER_SEND: usize = 256;

/// A negotiated connection on its way from the front to its store.
pub(crate) struct Session {
    pub(crate) socket: OwnedFd,
    pub(crate) peer: Arc<str>,
    pub(crate) volume: u32,
    /// Bytes that came right behind the negotiation.
    pub(crate) early: Vec<u8>,
    pub(crate) permit: Permit,
}

/// Counts a connection against the gateway's bound while it lives.
pub(crate) struct Permit(Arc<AtomicU32>);

/// What the next bytes from the client are.
pub(super) enum Receiving {
    /// A request header.
    Header,
    /// The payload of the write in `slot`, of which `filled` bytes are here.
    Payload { slot: u32, filled: u32 },
    /// The payload of a refused write, to be thrown away.
    Discard { left: u32 },
}

/// A reply that waits to be sent.
pub(super) struct Reply {
    pub(super) header: [u8; 16],
    /// Data behind the header: the buffer and how much of it.
    pub(super) data: Option<(Buffer, u32)>,
    /// Room that it gives back to its volume once it has been sent.
    pub(super) room: u64,
}

pub(super) struct Connection {
    pub(super) socket: OwnedFd,
    pub(super) peer: Arc<str>,
    pub(super) volume: u32,
    pub(super) receive: Receiving,
    /// `received.bytes[start..end]` has not been parsed yet.
    pub(super) received: Buffer,
    pub(super) start: usize,
    pub(super) end: usize,
    /// A receive is with the kernel.
    pub(super) receiving: bool,
    /// The vectors and header of the receive under way, where it has two targets.
    pub(super) receive_vectors: [libc::iovec; 2],
    pub(super) receive_message: libc::msghdr,
    /// Replies for the next send, and those of the send under way.
    pub(super) pending: Vec<Reply>,
    pub(super) pending_bytes: usize,
    pub(super) flight: Vec<Reply>,
    /// Bytes of `flight` that have been sent.
    pub(super) sent: usize,
    /// A send is with the kernel.
    pub(super) sending: bool,
    pub(super) send_vectors: Vec<libc::iovec>,
    pub(super) send_message: libc::msghdr,
    /// Requests between header and reply.
    pub(super) outstanding: u32,
    /// Whether it is in the store's list of connections with replies to send.
    pub(super) in_ready: bool,
    /// Takes no more requests; is closed when the last reply has been sent.
    pub(super) closing: bool,
    /// The client is gone; nothing more is sent.
    pub(super) dead: bool,
    _permit: Permit,
}

impl Permit {
    /// One more connection; `None` at the bound.
    pub(crate) fn acquire(count: &Arc<AtomicU32>, max: u32) -> Option<Self> {
        let below = |current| (current < max).then_some(current + 1);
        count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, below).ok()?;
        Some(Self(Arc::clone(count)))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connection {
    pub(super) fn shut_down(&self, how: libc::c_int) {
        // A socket that is not connected any more needs no shutting down.
        // SAFETY: plain system call on an open descriptor.
        unsafe { libc::shutdown(self.socket.as_raw_fd(), how) };
    }

    /// Whether the peer has closed both directions, not only said that it sends no more.
    pub(super) fn hung_up(&self) -> bool {
        let mut poll = libc::pollfd { fd: self.socket.as_raw_fd(), events: 0, revents: 0 };
        // SAFETY: one valid entry; a timeout of zero does not block.
        let ready = unsafe { libc::poll(&raw mut poll, 1, 0) };
        ready > 0 && poll.revents & (libc::POLLHUP | libc::POLLERR) != 0
    }

    /// Replies that have not been sent, or not wholly.
    pub(super) fn unsent(&self) -> usize {
        self.pending.len() + self.flight.len()
    }

    fn over(&self) -> bool {
        (self.closing || self.dead)
            && !self.in_ready
            && !self.receiving
            && !self.sending
            && self.outstanding == 0
            && self.pending.is_empty()
            && self.flight.is_empty()
    }
}

impl Store {
    pub(super) fn open_connection(&mut self, now: Time, session: Session) -> io::Result<()> {
        let Some(mut received) = self.pool.take(RECEIVE_BUFFER) else {
            tracing::warn!(peer = %session.peer, "no memory for another connection; closed");
            return Ok(());
        };
        let early = session.early.len();
        assert!(early <= RECEIVE_BUFFER, "the front receives in smaller pieces");
        received.bytes_mut_from(0)[..early].copy_from_slice(&session.early);
        // SAFETY: plain C structures for which all zeros is a valid value.
        let (vectors, message) = unsafe { (std::mem::zeroed(), std::mem::zeroed::<libc::msghdr>()) };
        let connection = Connection {
            socket: session.socket,
            peer: session.peer,
            volume: session.volume,
            receive: Receiving::Header,
            received,
            start: 0,
            end: early,
            receiving: false,
            receive_vectors: vectors,
            receive_message: message,
            pending: Vec::with_capacity(REPLIES_PER_SEND),
            pending_bytes: 0,
            flight: Vec::with_capacity(REPLIES_PER_SEND),
            sent: 0,
            sending: false,
            send_vectors: Vec::with_capacity(2 * REPLIES_PER_SEND),
            send_message: message,
            outstanding: 0,
            in_ready: false,
            closing: false,
            dead: false,
            _permit: session.permit,
        };
        let volume = &self.volumes[connection.volume as usize];
        tracing::info!(peer = %connection.peer, volume = %volume.name, "connected");
        let index = self.connections.insert(Box::new(connection)) as u32;
        if self.drain_deadline.is_some() {
            self.connections[index as usize].shut_down(libc::SHUT_RD);
        }
        self.parse(now, index)?;
        self.close_if_over(index);
        Ok(())
    }

    /// The client is gone or has broken the protocol: nothing more is received or sent.
    pub(super) fn kill_connection(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        if connection.dead {
            return;
        }
        connection.dead = true;
        // Ends the receive and the send under way, whose buffers must stay until then.
        connection.shut_down(libc::SHUT_RDWR);
        let volume = connection.volume as usize;
        connection.pending_bytes = 0;
        let unsent: Vec<Reply> = std::mem::take(&mut connection.pending);
        for reply in unsent {
            self.drop_reply(volume, reply);
        }
        self.volumes[volume].waiting.retain(|&(waiting, _)| waiting != index);
    }

    /// Forgets the connection if nothing of it is left to do.
    pub(super) fn close_if_over(&mut self, index: u32) {
        if !self.connections.get(index as usize).is_some_and(|connection| connection.over()) {
            return;
        }
        let connection = self.connections.remove(index as usize);
        let volume = &self.volumes[connection.volume as usize];
        tracing::info!(peer = %connection.peer, volume = %volume.name, "disconnected");
        self.pool.give(connection.received);
    }
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Serve(_) => "Serve",
            Self::Accounts(_) => "Accounts",
            Self::MapCommitted(_) => "MapCommitted",
            Self::Reschedule(..) => "Reschedule",
            Self::FailSyncs(_) => "FailSyncs",
            Self::Drain(_) => "Drain",
        })
    }
}
