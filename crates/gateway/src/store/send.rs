//! Replies, sent together.
//!
//! ```text
//!  pending: replies of this turn ──swap──> flight: [header, data, header, header, data …]
//!                                             one sendmsg; what the socket does not take at once
//!                                             goes through the ring, and `pending` fills meanwhile
//! ```

use std::io;
use std::os::fd::AsRawFd;

use io_uring::{opcode, types};

use super::Store;
use super::connection::{Connection, REPLIES_PER_SEND, Reply};
use crate::ring::Tag;

/// Bytes of replies that are not held back for the end of the turn.
const EARLY: usize = 128 << 10;

impl Store {
    /// Leaves `reply` for the next send of its connection.
    pub(super) fn queue_reply(&mut self, index: u32, reply: Reply) {
        let connection = &mut self.connections[index as usize];
        if connection.dead {
            let volume = connection.volume as usize;
            self.drop_reply(volume, reply);
        } else {
            connection.pending_bytes += reply.length();
            connection.pending.push(reply);
        }
        let connection = &mut self.connections[index as usize];
        if !connection.in_ready {
            connection.in_ready = true;
            self.ready.push(index);
        }
    }

    /// Sends before the end of the turn if much has come together: the client can take that in while
    /// we read on.
    pub(super) fn send_early(&mut self, index: u32) -> io::Result<()> {
        if self.connections[index as usize].pending_bytes < EARLY {
            return Ok(());
        }
        self.send(index)
    }

    /// Gives back what a reply holds.
    pub(super) fn drop_reply(&mut self, volume: usize, reply: Reply) {
        self.volumes[volume].in_flight -= reply.room;
        if let Some((buffer, _)) = reply.data {
            self.pool.give(buffer);
        }
    }

    /// Sends what has been queued in this turn.
    pub(super) fn send_ready(&mut self) -> io::Result<()> {
        while let Some(index) = self.ready.pop() {
            self.connections[index as usize].in_ready = false;
            self.send(index)?;
            self.close_if_over(index);
        }
        Ok(())
    }

    /// A send through the ring has ended.
    pub(super) fn on_sent(&mut self, index: u32, result: i32) -> io::Result<()> {
        let connection = &mut self.connections[index as usize];
        connection.sending = false;
        match result {
            0.. => connection.sent += result as usize,
            _ if result == -libc::EINTR || result == -libc::EAGAIN => {}
            _ => {
                self.on_send_failed(index, result);
                self.close_if_over(index);
                return Ok(());
            }
        }
        self.send(index)?;
        self.close_if_over(index);
        Ok(())
    }

    /// Sends until everything is gone or the socket is full; then the ring goes on.
    fn send(&mut self, index: u32) -> io::Result<()> {
        loop {
            let connection = &mut *self.connections[index as usize];
            if connection.sending {
                return Ok(());
            }
            if connection.dead {
                self.drop_flight(index);
                return Ok(());
            }
            if connection.sent == connection.flight_length() {
                self.drop_flight(index);
                let connection = &mut *self.connections[index as usize];
                if connection.pending.is_empty() {
                    return Ok(());
                }
                connection.load_flight();
            }
            let connection = &mut *self.connections[index as usize];
            connection.lay_out_rest();
            // Most replies fit into the socket's buffer at once: a direct call saves the ring's
            // completion and the turn that would take it in.
            // SAFETY: the message and all it points to live in the boxed connection.
            let sent = unsafe {
                libc::sendmsg(
                    connection.socket.as_raw_fd(),
                    &raw const connection.send_message,
                    libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
                )
            };
            if sent >= 0 {
                connection.sent += sent as usize;
                continue;
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN | libc::ENOBUFS) => return self.send_through_ring(index),
                errno => {
                    self.on_send_failed(index, -errno.unwrap_or(libc::EIO));
                    return Ok(());
                }
            }
        }
    }

    fn send_through_ring(&mut self, index: u32) -> io::Result<()> {
        let connection = &mut *self.connections[index as usize];
        connection.sending = true;
        let socket = types::Fd(connection.socket.as_raw_fd());
        let flags = (libc::MSG_NOSIGNAL | libc::MSG_WAITALL) as u32;
        let entry = opcode::SendMsg::new(socket, &raw const connection.send_message).flags(flags).build();
        // SAFETY: message, vectors, headers and data stay as they are, in the boxed connection,
        // until `sending` is false again.
        unsafe { self.ring.push(entry, Tag::Send(index)) }
    }

    fn on_send_failed(&mut self, index: u32, result: i32) {
        let connection = &self.connections[index as usize];
        if !connection.dead {
            let error = io::Error::from_raw_os_error(-result);
            let volume = &self.volumes[connection.volume as usize].name;
            tracing::warn!(peer = %connection.peer, %volume, %error, unanswered = connection.outstanding,
                "the client vanished with requests unanswered");
        }
        self.kill_connection(index);
        self.drop_flight(index);
    }

    fn drop_flight(&mut self, index: u32) {
        let connection = &mut *self.connections[index as usize];
        let volume = connection.volume as usize;
        connection.sent = 0;
        let mut flight = std::mem::take(&mut connection.flight);
        for reply in flight.drain(..) {
            self.drop_reply(volume, reply);
        }
        // The vector itself is kept for the next flight.
        self.connections[index as usize].flight = flight;
    }
}

impl Reply {
    fn length(&self) -> usize {
        self.header.len() + self.data.as_ref().map_or(0, |(_, length)| *length as usize)
    }
}

impl Connection {
    fn flight_length(&self) -> usize {
        self.flight.iter().map(Reply::length).sum()
    }

    /// Makes the oldest pending replies the next flight.
    fn load_flight(&mut self) {
        debug_assert!(self.flight.is_empty() && self.sent == 0);
        if self.pending.len() <= REPLIES_PER_SEND {
            std::mem::swap(&mut self.pending, &mut self.flight);
        } else {
            self.flight.extend(self.pending.drain(..REPLIES_PER_SEND));
        }
        self.pending_bytes = self.pending.iter().map(Reply::length).sum();
    }

    /// Points the message at what is left of the flight.
    fn lay_out_rest(&mut self) {
        self.send_vectors.clear();
        let mut skip = self.sent;
        for reply in &self.flight {
            let data = reply.data.as_ref().map(|(buffer, length)| buffer.bytes(*length as usize));
            for piece in [Some(reply.header.as_slice()), data].into_iter().flatten() {
                let skipped = skip.min(piece.len());
                skip -= skipped;
                if skipped < piece.len() {
                    let rest = &piece[skipped..];
                    self.send_vectors
                        .push(libc::iovec { iov_base: rest.as_ptr().cast_mut().cast(), iov_len: rest.len() });
                }
            }
        }
        self.send_message.msg_iov = self.send_vectors.as_mut_ptr();
        self.send_message.msg_iovlen = self.send_vectors.len();
    }
}
