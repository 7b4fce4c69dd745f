//! A blocking NBD client for the demonstration and for playing traces: real connections, real protocol.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;

use evenkeel_nbd::client::{ExportInfo, Negotiation, SimpleReply, encode_request};
use evenkeel_nbd::{CommandFlags, RequestHeader};

use crate::live::player::Address;

/// `NBD_CMD_READ`.
const READ: u16 = 0;

/// One negotiated connection. A clone of the socket may send while the original receives.
#[derive(Debug)]
pub(crate) struct Client {
    socket: Socket,
    pub(crate) export: ExportInfo,
}

/// The sending side of a connection.
#[derive(Debug)]
pub(crate) struct Sender(Socket);

/// Either kind of connection.
#[derive(Debug)]
enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Client {
    /// Connects to the gateway's socket and negotiates `export`.
    pub(crate) fn connect(path: &Path, export: &str) -> io::Result<Self> {
        Self::negotiate(Socket::Unix(UnixStream::connect(path)?), export)
    }

    /// Connects to `address` and negotiates `export`.
    pub(crate) fn connect_to(address: &Address, export: &str) -> io::Result<Self> {
        let told = |error: io::Error| {
            let message =
                format!("cannot reach the server at {address}: {error}; check the address, and that it runs");
            io::Error::new(error.kind(), message)
        };
        let socket = match address {
            Address::Unix(path) => Socket::Unix(UnixStream::connect(path).map_err(told)?),
            Address::Tcp(host, port) => {
                let socket = TcpStream::connect((host.as_str(), *port)).map_err(told)?;
                socket.set_nodelay(true)?;
                Socket::Tcp(socket)
            }
        };
        Self::negotiate(socket, export)
    }

    fn negotiate(mut socket: Socket, export: &str) -> io::Result<Self> {
        let mut negotiation = Negotiation::new(export);
        let (mut received, mut answer) = (Vec::new(), Vec::new());
        let mut piece = [0; 4096];
        loop {
            let count = socket.read(&mut piece)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            received.extend_from_slice(&piece[..count]);
            let (consumed, done) = negotiation.receive(&received, &mut answer).map_err(io::Error::other)?;
            received.drain(..consumed);
            socket.write_all(&answer)?;
            answer.clear();
            if let Some(export) = done {
                return Ok(Self { socket, export });
            }
        }
    }

    /// The sending side.
    pub(crate) fn sender(&self) -> io::Result<Sender> {
        self.socket.try_clone().map(Sender)
    }

    /// Waits for the next reply to a read of `length` bytes, takes its data, and returns its cookie.
    pub(crate) fn receive_read(&mut self, data: &mut [u8]) -> io::Result<u64> {
        let mut header = [0; SimpleReply::LEN];
        self.socket.read_exact(&mut header)?;
        let reply = SimpleReply::decode(&header)
            .ok_or_else(|| io::Error::other("the server sent something that is no reply"))?;
        if reply.error != 0 {
            return Err(io::Error::other(format!("the server answered a read with error {}", reply.error)));
        }
        self.socket.read_exact(data)?;
        Ok(reply.cookie)
    }
}

impl Client {
    /// Waits for the next reply, takes as many bytes of data as `bytes` says for its cookie, and returns cookie and
    /// error. A cookie for which it says `None` ends in an error.
    pub(crate) fn receive(
        &mut self,
        bytes: impl Fn(u64) -> Option<usize>,
        data: &mut Vec<u8>,
    ) -> io::Result<(u64, u32)> {
        let mut header = [0; SimpleReply::LEN];
        self.socket.read_exact(&mut header)?;
        let reply = SimpleReply::decode(&header)
            .ok_or_else(|| io::Error::other("the server sent something that is no reply"))?;
        let length = bytes(reply.cookie)
            .ok_or_else(|| io::Error::other("the server answered a request that was not sent"))?;
        if reply.error == 0 {
            data.resize(length, 0);
            self.socket.read_exact(data)?;
        }
        Ok((reply.cookie, reply.error))
    }
}

impl Sender {
    /// Sends one request, and zeros as its payload.
    pub(crate) fn send(&mut self, header: &RequestHeader, payload: u32) -> io::Result<()> {
        let mut bytes = encode_request(header).to_vec();
        bytes.resize(bytes.len() + payload as usize, 0);
        self.0.write_all(&bytes)
    }

    /// Sends one request with this payload.
    pub(crate) fn send_with(&mut self, header: &RequestHeader, payload: &[u8]) -> io::Result<()> {
        let header = encode_request(header);
        if payload.is_empty() {
            return self.0.write_all(&header);
        }
        self.0.write_all(&[&header[..], payload].concat())
    }

    /// Sends reads of `length` bytes with these cookies and offsets, all in one go.
    pub(crate) fn send_reads(
        &mut self,
        length: u32,
        requests: impl Iterator<Item = (u64, u64)>,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        for (cookie, offset) in requests {
            let flags = CommandFlags::default();
            bytes.extend(encode_request(&RequestHeader { flags, kind: READ, cookie, offset, length }));
        }
        self.0.write_all(&bytes)
    }

    /// Ends the connection in both directions.
    pub(crate) fn close(&self) {
        // It may be closed already.
        let _ = self.0.shutdown();
    }
}

impl Socket {
    fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Unix(socket) => socket.try_clone().map(Self::Unix),
            Self::Tcp(socket) => socket.try_clone().map(Self::Tcp),
        }
    }

    fn shutdown(&self) -> io::Result<()> {
        match self {
            Self::Unix(socket) => socket.shutdown(Shutdown::Both),
            Self::Tcp(socket) => socket.shutdown(Shutdown::Both),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(socket) => socket.read(bytes),
            Self::Tcp(socket) => socket.read(bytes),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(socket) => socket.write(bytes),
            Self::Tcp(socket) => socket.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
