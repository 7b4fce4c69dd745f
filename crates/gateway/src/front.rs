//! The front thread: accepts clients, carries out handshakes, hands sessions to their stores.
//!
//! ```text
//!  poll: [mailbox | listeners … | clients in negotiation …]
//!  client: greeting ──> bytes in, bytes out ──> Transmission ──> store's mailbox
//!                          └── too slow, too many, broken: closed with a message
//! ```

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use evenkeel_nbd::{Handshake, Progress};

use crate::catalogue::Catalogue;
use crate::listener::Listener;
use crate::mailbox::Mailbox;
use crate::store::{Command, Permit, Session, set_blocking};

/// Bytes received from a client in one go while it negotiates.
const PIECE: usize = 16 << 10;
/// Bytes of answers that a negotiating client may leave unread.
const UNREAD_MAX: usize = 1 << 20;
/// Clients accepted in one go, so that a flood of them does not hold up those in negotiation.
const ACCEPTS_PER_TURN: usize = 64;
/// How long to leave a listener alone that cannot accept (no descriptors left, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The front thread's only message: end.
#[derive(Debug)]
pub(crate) struct Stop;

pub(crate) struct Front {
    pub(crate) listeners: Vec<Listener>,
    pub(crate) mailbox: Mailbox<Stop>,
    pub(crate) catalogue: Catalogue,
    pub(crate) stores: Vec<Mailbox<Command>>,
    pub(crate) connections: Arc<AtomicU32>,
    pub(crate) connections_max: u32,
    pub(crate) handshake_timeout: Duration,
}

struct Client {
    socket: OwnedFd,
    peer: Arc<str>,
    permit: Permit,
    handshake: Handshake,
    received: Vec<u8>,
    unsent: Vec<u8>,
    /// Sends what is unsent, then ends.
    leaving: bool,
    /// Where the session goes once all answers are sent.
    destination: Option<(usize, u32)>,
    deadline: Instant,
}

/// What becomes of a client after a step.
enum Fate {
    Stays,
    Ends,
    Serves(usize, u32),
}

impl Front {
    /// Runs until told to stop. Clients in negotiation are disconnected then.
    pub(crate) fn run(self) {
        let mut clients: Vec<Client> = Vec::new();
        let mut paused_until: Option<Instant> = None;
        loop {
            paused_until = paused_until.filter(|&until| until > Instant::now());
            let polled = self.poll(&clients, paused_until);
            if polled[0] != 0 {
                self.mailbox.reset_event();
                if !self.mailbox.take().is_empty() {
                    return;
                }
            }
            let (listening, negotiating) = polled[1..].split_at(self.listeners.len());
            clients = self.step_clients(clients, negotiating);
            for (listener, _) in self.listeners.iter().zip(listening).filter(|(_, ready)| **ready != 0) {
                if let Err(error) = self.accept(listener, &mut clients) {
                    tracing::error!(address = %listener.address(), %error, "cannot accept clients; trying again");
                    paused_until = Some(Instant::now() + ACCEPT_PAUSE);
                }
            }
        }
    }

    /// Waits for something to do; the events of the mailbox, the listeners and the clients, in order.
    fn poll(&self, clients: &[Client], paused_until: Option<Instant>) -> Vec<i16> {
        let entry = |fd, events| libc::pollfd { fd, events, revents: 0 };
        let mut entries = vec![entry(self.mailbox.event(), libc::POLLIN)];
        let listening = if paused_until.is_some() { 0 } else { libc::POLLIN };
        entries.extend(self.listeners.iter().map(|listener| entry(listener.descriptor(), listening)));
        entries.extend(clients.iter().map(|client| {
            let events = if client.unsent.is_empty() { libc::POLLIN } else { libc::POLLOUT };
            entry(client.socket.as_raw_fd(), events)
        }));
        let next = clients.iter().map(|client| client.deadline).chain(paused_until).min();
        let timeout = next.map_or(-1, |at| {
            let left = at.saturating_duration_since(Instant::now()).as_millis() + 1;
            i32::try_from(left).unwrap_or(i32::MAX)
        });
        // SAFETY: a valid array of that length.
        let ready = unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, timeout) };
        if ready < 0 {
            entries.iter_mut().for_each(|entry| entry.revents = 0);
        }
        entries.iter().map(|entry| entry.revents).collect()
    }

    fn step_clients(&self, clients: Vec<Client>, events: &[i16]) -> Vec<Client> {
        let now = Instant::now();
        let mut staying = Vec::with_capacity(clients.len());
        for (mut client, &events) in clients.into_iter().zip(events) {
            let fate = if events != 0 { self.step(&mut client) } else { Fate::Stays };
            match fate {
                Fate::Stays if now >= client.deadline => {
                    tracing::warn!(peer = %client.peer, "took too long to negotiate; disconnected");
                }
                Fate::Stays => staying.push(client),
                Fate::Ends => {}
                Fate::Serves(store, volume) => self.hand_over(client, store, volume),
            }
        }
        staying
    }

    fn accept(&self, listener: &Listener, clients: &mut Vec<Client>) -> io::Result<()> {
        for _ in 0..ACCEPTS_PER_TURN {
            let Some((socket, peer)) = listener.accept()? else {
                return Ok(());
            };
            let Some(permit) = Permit::acquire(&self.connections, self.connections_max) else {
                tracing::warn!(%peer, max = self.connections_max,
                    "refused: gateway.connections_max is reached");
                continue;
            };
            let handshake = Handshake::new();
            let mut client = Client {
                socket,
                peer,
                permit,
                unsent: handshake.greeting().to_vec(),
                handshake,
                received: Vec::new(),
                leaving: false,
                destination: None,
                deadline: Instant::now() + self.handshake_timeout,
            };
            if client.flush().is_ok() {
                clients.push(client);
            }
        }
        Ok(())
    }

    /// Goes on with one client's negotiation.
    fn step(&self, client: &mut Client) -> Fate {
        if client.flush().is_err() {
            return Fate::Ends;
        }
        if client.unsent.is_empty() && !client.leaving && client.destination.is_none() {
            match client.receive() {
                Ok(0) => return Fate::Ends,
                Ok(_) => self.negotiate(client),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return Fate::Ends,
            }
            if client.flush().is_err() || client.unsent.len() > UNREAD_MAX {
                return Fate::Ends;
            }
        }
        match client.destination {
            _ if !client.unsent.is_empty() => Fate::Stays,
            Some((store, volume)) => Fate::Serves(store, volume),
            None if client.leaving => Fate::Ends,
            None => Fate::Stays,
        }
    }

    fn negotiate(&self, client: &mut Client) {
        match client.handshake.receive(&client.received, &self.catalogue, &mut client.unsent) {
            Ok((consumed, progress)) => {
                client.received.drain(..consumed);
                match progress {
                    Progress::Incomplete => {}
                    Progress::Aborted => client.leaving = true,
                    Progress::Transmission { name, .. } => {
                        client.destination =
                            self.catalogue.lookup(&name).map(|entry| (entry.store, entry.volume));
                        client.leaving = client.destination.is_none();
                    }
                }
            }
            Err(error) => {
                tracing::warn!(peer = %client.peer, %error, "negotiation failed; disconnected");
                client.leaving = true;
            }
        }
    }

    fn hand_over(&self, client: Client, store: usize, volume: u32) {
        if let Err(error) = set_blocking(&client.socket) {
            tracing::warn!(peer = %client.peer, %error, "cannot prepare the connection; disconnected");
            return;
        }
        self.stores[store].send(Command::Serve(Session {
            socket: client.socket,
            peer: client.peer,
            volume,
            early: client.received,
            permit: client.permit,
        }));
    }
}

impl Client {
    fn receive(&mut self) -> io::Result<usize> {
        let mut piece = [0; PIECE];
        let room = (PIECE * 2).saturating_sub(self.received.len()).min(PIECE);
        let count = Descriptor(&self.socket).read(&mut piece[..room])?;
        self.received.extend_from_slice(&piece[..count]);
        Ok(count)
    }

    /// Sends what the socket takes; fails if the client is gone.
    fn flush(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            match Descriptor(&self.socket).write(&self.unsent) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Reads from and writes to a socket without caring of which kind it is.
struct Descriptor<'a>(&'a OwnedFd);

impl Read for Descriptor<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        // SAFETY: a writable slice of that length.
        let count = unsafe { libc::recv(self.0.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), 0) };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }
}

impl Write for Descriptor<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let flags = libc::MSG_NOSIGNAL;
        // SAFETY: a readable slice of that length.
        let count = unsafe { libc::send(self.0.as_raw_fd(), from.as_ptr().cast(), from.len(), flags) };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
