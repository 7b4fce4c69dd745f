//! From bytes on a socket to arrivals at the engine.
//!
//! ```text
//!  received: [ …parsed… | start ‥ unparsed ‥ end | free …   ]   one receive brings many requests
//!  a write whose payload is not all here: the next receive has two targets, the rest of the
//!  payload straight into the request's own buffer, and what follows it into `received`
//! ```

use std::io;
use std::os::fd::AsRawFd;

use evenkeel_core::{FlowId, Input, Operation, Request, RequestId, Time};
use evenkeel_nbd::{Command, CommandFlags, ErrorCode, Refusal, RequestHeader, simple_reply};
use io_uring::{opcode, types};

use super::Store;
use super::access::Slot;
use super::connection::{Connection, Receiving, Reply};
use super::steps::{Steps, first_stage};
use crate::ring::Tag;

/// What a request takes up in its volume besides its payload: its slot and its place in queues.
const ROOM_PER_REQUEST: u64 = 256;

/// What became of an attempt to parse.
enum Step {
    /// Something was consumed; there may be more.
    Again,
    /// More bytes are needed.
    NeedMore,
    /// The volume has no room for the next request.
    NoRoom,
    /// No more requests are taken on this connection.
    Closed,
}

impl Store {
    pub(super) fn on_received(&mut self, now: Time, index: u32, result: i32) -> io::Result<()> {
        let connection = &mut self.connections[index as usize];
        connection.receiving = false;
        match result {
            1.. => {
                connection.take_in(result as usize);
                self.parse(now, index)?;
            }
            _ if result == -libc::EINTR || result == -libc::EAGAIN => self.parse(now, index)?,
            _ => self.on_receive_ended(index, result),
        }
        self.close_if_over(index);
        Ok(())
    }

    /// Takes in all requests that are here, then asks for more bytes.
    pub(super) fn parse(&mut self, now: Time, index: u32) -> io::Result<()> {
        loop {
            if self.connections[index as usize].dead {
                return Ok(());
            }
            let step = match self.connections[index as usize].receive {
                Receiving::Header => self.parse_header(now, index)?,
                Receiving::Payload { slot, filled } => self.parse_payload(now, index, slot, filled)?,
                Receiving::Discard { left } => self.connections[index as usize].discard(left),
            };
            match step {
                Step::Again => {}
                Step::NeedMore => return self.receive_more(index),
                Step::NoRoom | Step::Closed => return Ok(()),
            }
        }
    }

    /// Lets in requests of connections that waited for room; whether any came in.
    pub(super) fn resume_waiting(&mut self, now: Time) -> io::Result<bool> {
        let mut resumed = false;
        for volume in 0..self.volumes.len() {
            while let Some(&(index, bytes)) = self.volumes[volume].waiting.front() {
                if !self.volumes[volume].has_room(bytes) {
                    break;
                }
                // It takes in what there is room for, then queues up again behind the others.
                self.volumes[volume].waiting.pop_front();
                self.volumes[volume].letting_in = true;
                let parsed = self.parse(now, index);
                self.volumes[volume].letting_in = false;
                parsed?;
                self.close_if_over(index);
                resumed = true;
            }
        }
        Ok(resumed)
    }

    fn parse_header(&mut self, now: Time, index: u32) -> io::Result<Step> {
        let connection = &mut self.connections[index as usize];
        if connection.closing {
            return Ok(Step::Closed);
        }
        let Some(bytes) = connection.unparsed().first_chunk::<{ RequestHeader::LEN }>() else {
            return Ok(Step::NeedMore);
        };
        let volume = connection.volume as usize;
        let Some(header) = RequestHeader::decode(bytes) else {
            tracing::warn!(peer = %connection.peer, volume = %self.volumes[volume].name,
                "sent something that is no NBD request; disconnected");
            self.kill_connection(index);
            return Ok(Step::Closed);
        };
        let command = match header.check(&self.volumes[volume].export) {
            Ok(Command::Disconnect) => return Ok(self.stop_receiving(index)),
            Ok(_) if self.drain_deadline.is_some() => {
                let payload = if header.kind == 1 { header.length } else { 0 };
                return Ok(self.refuse(index, &header, ErrorCode::ShuttingDown, payload));
            }
            Ok(command) => command,
            Err(Refusal::Answer { error, payload }) => {
                return Ok(self.refuse(index, &header, error, payload));
            }
            Err(Refusal::Close) => {
                tracing::warn!(peer = %connection.peer, volume = %self.volumes[volume].name, ?header,
                    "sent a request that cannot be skipped; disconnected");
                self.kill_connection(index);
                return Ok(Step::Closed);
            }
        };
        self.admit(now, index, &header, command)
    }

    /// Makes a slot for a checked request, if its volume has room.
    fn admit(&mut self, now: Time, index: u32, header: &RequestHeader, command: Command) -> io::Result<Step> {
        let buffer = if command == Command::Write { self.pool.take(header.length as usize) } else { None };
        if command == Command::Write && buffer.is_none() {
            return Ok(self.refuse(index, header, ErrorCode::NoMemory, header.length));
        }
        let payload = if matches!(command, Command::Read | Command::Write) { header.length } else { 0 };
        let room = ROOM_PER_REQUEST + u64::from(payload);
        if !self.claim_room(index, room) {
            buffer.into_iter().for_each(|buffer| self.pool.give(buffer));
            return Ok(Step::NoRoom);
        }
        let connection = &mut self.connections[index as usize];
        connection.start += RequestHeader::LEN;
        connection.outstanding += 1;
        let slot = self.slots.insert(Slot {
            connection: index,
            volume: connection.volume,
            cookie: header.cookie,
            offset: header.offset,
            steps: Steps::new(
                command,
                header.flags.has(CommandFlags::FUA),
                header.length,
                first_stage(command, header.flags.has(CommandFlags::NO_HOLE)),
            ),
            room,
            buffer,
            ticket: None,
            cost: evenkeel_core::Cost::ZERO,
            arrived: now,
            started: now,
            pushed: now,
            access_over: None,
            device_over: None,
            disk_time: None,
            sync: (0, 0),
        }) as u32;
        if command == Command::Write {
            connection.receive = Receiving::Payload { slot, filled: 0 };
        } else {
            self.arrive(now, slot);
        }
        Ok(Step::Again)
    }

    fn parse_payload(&mut self, now: Time, index: u32, slot: u32, filled: u32) -> io::Result<Step> {
        let connection = &mut self.connections[index as usize];
        let request = &mut self.slots[slot as usize];
        let buffer = request.buffer.as_mut().expect("a write has a buffer from its header on");
        let take = connection.unparsed().len().min((request.steps.length - filled) as usize);
        buffer.bytes_mut_from(filled as usize)[..take].copy_from_slice(&connection.unparsed()[..take]);
        connection.start += take;
        let filled = filled + take as u32;
        if filled < request.steps.length {
            connection.receive = Receiving::Payload { slot, filled };
            return Ok(Step::NeedMore);
        }
        connection.receive = Receiving::Header;
        self.arrive(now, slot);
        Ok(Step::Again)
    }

    /// Hands a complete request to the engine.
    fn arrive(&mut self, now: Time, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.arrived = now;
        let operation = match slot.steps.command {
            Command::Read => Operation::Read,
            Command::Write => Operation::Write,
            Command::Trim => Operation::Trim,
            Command::WriteZeroes => Operation::WriteZeroes,
            Command::Flush | Command::Disconnect => Operation::Flush,
        };
        let request = Request {
            id: RequestId(u64::from(index)),
            flow: FlowId(slot.volume),
            operation,
            offset: self.volumes[slot.volume as usize].place + slot.offset,
            length: slot.steps.length,
            cost: self.volumes[slot.volume as usize].cost.cost(operation, slot.steps.length),
        };
        self.ledger.on_arrival(now, &request);
        if let Some(audit) = &mut self.audit {
            audit.on_arrival(&request);
        }
        if let Some(group) = self.volumes[slot.volume as usize].group {
            self.ledger.on_arrival(now, &Request { flow: group, ..request });
        }
        self.watch_arrival(now, request.flow.0, request.cost);
        let taken = self.engine.handle_input(now, Input::Arrival(request));
        assert!(taken.is_ok(), "every volume's flow is configured before its first connection");
    }

    /// Answers a request with an error. The answer takes up room like any other, so that a client
    /// that sends nonsense and never reads its answers cannot fill our memory.
    fn refuse(&mut self, index: u32, header: &RequestHeader, error: ErrorCode, payload: u32) -> Step {
        if !self.claim_room(index, ROOM_PER_REQUEST) {
            return Step::NoRoom;
        }
        let connection = &mut self.connections[index as usize];
        tracing::debug!(peer = %connection.peer, ?header, ?error, "refused");
        connection.start += RequestHeader::LEN;
        if payload > 0 {
            connection.receive = Receiving::Discard { left: payload };
        }
        let header = simple_reply(Some(error), header.cookie);
        self.queue_reply(index, Reply { header, data: None, room: ROOM_PER_REQUEST });
        Step::Again
    }

    /// Takes up `room` in the connection's volume, or queues the connection up for it.
    fn claim_room(&mut self, index: u32, room: u64) -> bool {
        let volume = &mut self.volumes[self.connections[index as usize].volume as usize];
        let first = volume.letting_in || volume.waiting.is_empty();
        let free = first && volume.has_room(room);
        if free {
            volume.in_flight += room;
        } else {
            volume.waiting.push_back((index, room));
        }
        free
    }

    fn stop_receiving(&mut self, index: u32) -> Step {
        self.connections[index as usize].closing = true;
        Step::Closed
    }

    fn on_receive_ended(&mut self, index: u32, result: i32) {
        let draining = self.drain_deadline.is_some();
        let connection = &mut self.connections[index as usize];
        let volume = connection.volume as usize;
        let unfinished = match connection.receive {
            Receiving::Payload { slot, filled } => Some((slot, filled)),
            _ => None,
        };
        connection.receive = Receiving::Header;
        let (peer, name) = (connection.peer.clone(), self.volumes[volume].name.clone());
        if let Some((slot, filled)) = unfinished {
            let slot = self.slots.remove(slot as usize);
            connection.outstanding -= 1;
            self.volumes[volume].in_flight -= slot.room;
            if let Some(buffer) = slot.buffer {
                self.pool.give(buffer);
            }
            tracing::warn!(%peer, volume = %name, received = filled, of = slot.steps.length,
                "the client vanished in the middle of a write; nothing of it was stored");
        }
        let connection = &mut self.connections[index as usize];
        let quiet = connection.closing || connection.dead || draining;
        connection.closing = true;
        if result < 0 || (!draining && connection.hung_up()) {
            if !quiet && connection.outstanding > 0 {
                tracing::warn!(%peer, volume = %name, unanswered = connection.outstanding,
                    "the client vanished with requests unanswered");
            }
            self.kill_connection(index);
        }
    }

    /// Asks the kernel for more bytes, unless it is asked already.
    fn receive_more(&mut self, index: u32) -> io::Result<()> {
        let connection = &mut *self.connections[index as usize];
        if connection.receiving || connection.closing || connection.dead {
            return Ok(());
        }
        connection.make_space();
        let socket = types::Fd(connection.socket.as_raw_fd());
        let space = connection.received.bytes_mut_from(connection.end);
        let entry = match connection.receive {
            Receiving::Payload { slot, filled } => {
                let request = &mut self.slots[slot as usize];
                let left = (request.steps.length - filled) as usize;
                let buffer = request.buffer.as_mut().expect("a write has a buffer from its header on");
                let rest = &mut buffer.bytes_mut_from(filled as usize)[..left];
                connection.receive_vectors = [vector(rest), vector(space)];
                connection.receive_message.msg_iov = connection.receive_vectors.as_mut_ptr();
                connection.receive_message.msg_iovlen = 2;
                opcode::RecvMsg::new(socket, &raw mut connection.receive_message).build()
            }
            _ => opcode::Recv::new(socket, space.as_mut_ptr(), space.len() as u32).build(),
        };
        connection.receiving = true;
        // SAFETY: the connection is boxed and stays, with its buffer and the slot's, until
        // `receiving` is false again; neither buffer is touched before.
        unsafe { self.ring.push(entry, Tag::Receive(index)) }
    }
}

impl Connection {
    fn unparsed(&self) -> &[u8] {
        &self.received.bytes(self.end)[self.start..]
    }

    /// Notes `count` received bytes.
    fn take_in(&mut self, count: usize) {
        if let Receiving::Payload { filled, .. } = &mut self.receive {
            let into_payload = count.min(self.receive_vectors[0].iov_len);
            *filled += into_payload as u32;
            self.end += count - into_payload;
        } else {
            self.end += count;
        }
    }

    /// Moves the unparsed bytes, at most a part of a header, to the front.
    fn make_space(&mut self) {
        let (start, end) = (self.start, self.end);
        if start > 0 {
            self.received.bytes_mut_from(0).copy_within(start..end, 0);
            self.start = 0;
            self.end = end - start;
        }
    }

    fn discard(&mut self, left: u32) -> Step {
        let take = self.unparsed().len().min(left as usize);
        self.start += take;
        let left = left - take as u32;
        self.receive = if left == 0 { Receiving::Header } else { Receiving::Discard { left } };
        if left == 0 { Step::Again } else { Step::NeedMore }
    }
}

fn vector(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
}
