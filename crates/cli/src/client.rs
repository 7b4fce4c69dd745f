//! A blocking NBD client for the demonstration: real connections, real protocol.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use evenkeel_nbd::client::{ExportInfo, Negotiation, SimpleReply, encode_request};
use evenkeel_nbd::{CommandFlags, RequestHeader};

/// `NBD_CMD_READ`.
const READ: u16 = 0;

/// One negotiated connection. A clone of the socket may send while the original receives.
#[derive(Debug)]
pub(crate) struct Client {
    socket: UnixStream,
    pub(crate) export: ExportInfo,
}

/// The sending side of a connection.
#[derive(Debug)]
pub(crate) struct Sender(UnixStream);

impl Client {
    /// Connects to the gateway's socket and negotiates `export`.
    pub(crate) fn connect(path: &Path, export: &str) -> io::Result<Self> {
        let mut socket = UnixStream::connect(path)?;
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

impl Sender {
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
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }
}
