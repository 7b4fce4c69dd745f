//! A bare NBD client that can also misbehave. Numbers are those of the protocol document.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Commands.
pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
pub(crate) const DISC: u16 = 2;
pub(crate) const FLUSH: u16 = 3;
pub(crate) const TRIM: u16 = 4;
pub(crate) const WRITE_ZEROES: u16 = 6;

/// Command flag: answer when durable.
pub(crate) const FUA: u16 = 1;

/// Errors.
pub(crate) const EINVAL: u32 = 22;

/// Options and replies of the handshake.
pub(crate) const OPT_GO: u32 = 7;
pub(crate) const REP_ACK: u32 = 1;
pub(crate) const REP_ERR_UNSUP: u32 = 0x8000_0001;

/// A connection, before or after the handshake.
pub(crate) struct Client {
    /// The socket itself, for those who break rules.
    pub(crate) stream: UnixStream,
    /// Bytes of the export, once negotiated.
    pub(crate) size: u64,
}

impl Client {
    /// Connects and reads the greeting, sending nothing.
    pub(crate) fn greet(socket: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        stream.set_write_timeout(Some(Duration::from_secs(20)))?;
        let mut client = Self { stream, size: 0 };
        let greeting: [u8; 18] = client.take()?;
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        assert_eq!(greeting[17] & 1, 1, "fixed newstyle is offered");
        Ok(client)
    }

    /// Negotiates the export.
    pub(crate) fn open(socket: &Path, export: &str) -> io::Result<Self> {
        let mut client = Self::greet(socket)?;
        client.send_client_flags(3)?;
        client.go(export)?;
        Ok(client)
    }

    /// Answers the greeting; 3 is fixed newstyle without zeroes.
    pub(crate) fn send_client_flags(&mut self, flags: u32) -> io::Result<()> {
        self.stream.write_all(&flags.to_be_bytes())
    }

    /// Sends one option.
    pub(crate) fn send_option(&mut self, option: u32, data: &[u8]) -> io::Result<()> {
        let length = u32::try_from(data.len()).expect("short option");
        let mut bytes = option_header(option, length);
        bytes.extend_from_slice(data);
        self.stream.write_all(&bytes)
    }

    /// Reads one reply to an option: its type and data.
    pub(crate) fn option_reply(&mut self) -> io::Result<(u32, Vec<u8>)> {
        let header: [u8; 20] = self.take()?;
        assert_eq!(header[..8], 0x0003_e889_0455_65a9_u64.to_be_bytes(), "magic of an option's reply");
        let word = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().expect("four bytes"));
        let mut data = vec![0; word(16) as usize];
        self.stream.read_exact(&mut data)?;
        Ok((word(12), data))
    }

    /// GO, to the transmission phase.
    pub(crate) fn go(&mut self, export: &str) -> io::Result<()> {
        let length = u32::try_from(export.len()).expect("short name");
        let mut data = length.to_be_bytes().to_vec();
        data.extend_from_slice(export.as_bytes());
        data.extend_from_slice(&0_u16.to_be_bytes());
        self.send_option(OPT_GO, &data)?;
        loop {
            match self.option_reply()? {
                (REP_ACK, _) => return Ok(()),
                (3, info) if info[..2] == [0, 0] => {
                    self.size = u64::from_be_bytes(info[2..10].try_into().expect("eight bytes"));
                }
                (3, _) => {}
                (other, text) => {
                    let text = String::from_utf8_lossy(&text).into_owned();
                    return Err(io::Error::other(format!("GO is answered {other:#x} {text}")));
                }
            }
        }
    }

    /// Sends a request; `payload` follows a write.
    pub(crate) fn send(&mut self, request: Request, payload: &[u8]) -> io::Result<()> {
        let mut bytes = request.encode().to_vec();
        bytes.extend_from_slice(payload);
        self.stream.write_all(&bytes)
    }

    /// Reads a reply's header: error and cookie.
    pub(crate) fn reply(&mut self) -> io::Result<(u32, u64)> {
        let header: [u8; 16] = self.take()?;
        assert_eq!(header[..4], 0x6744_6698_u32.to_be_bytes(), "magic of a simple reply");
        let error = u32::from_be_bytes(header[4..8].try_into().expect("four bytes"));
        Ok((error, u64::from_be_bytes(header[8..].try_into().expect("eight bytes"))))
    }

    /// One request, its reply awaited; the error number, 0 for success. Not for reads.
    pub(crate) fn call(&mut self, request: Request, payload: &[u8]) -> io::Result<u32> {
        self.send(request, payload)?;
        let (error, cookie) = self.reply()?;
        assert_eq!(cookie, request.cookie);
        Ok(error)
    }

    /// Reads; the error number if refused.
    pub(crate) fn read(&mut self, offset: u64, length: u32) -> io::Result<Result<Vec<u8>, u32>> {
        let error = self.call(Request::new(READ, offset, length), &[])?;
        if error != 0 {
            return Ok(Err(error));
        }
        self.read_data(length).map(Ok)
    }

    /// The data behind a successful reply to a read.
    pub(crate) fn read_data(&mut self, length: u32) -> io::Result<Vec<u8>> {
        let mut data = vec![0; length as usize];
        self.stream.read_exact(&mut data)?;
        Ok(data)
    }

    /// Writes, with flags; the error number.
    pub(crate) fn write(&mut self, flags: u16, offset: u64, data: &[u8]) -> io::Result<u32> {
        let length = u32::try_from(data.len()).expect("a short write");
        self.call(Request { flags, ..Request::new(WRITE, offset, length) }, data)
    }

    /// FLUSH; the error number.
    pub(crate) fn flush(&mut self) -> io::Result<u32> {
        self.call(Request::new(FLUSH, 0, 0), &[])
    }

    /// Whether the server closes the connection (in order or by reset) within the read timeout.
    pub(crate) fn is_closed_by_server(&mut self) -> bool {
        let mut sink = [0; 4096];
        loop {
            match self.stream.read(&mut sink) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return matches!(
                        error.kind(),
                        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
                    );
                }
            }
        }
    }

    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

/// The 16 bytes before an option's data; the length may lie.
pub(crate) fn option_header(option: u32, length: u32) -> Vec<u8> {
    [b"IHAVEOPT".as_slice(), &option.to_be_bytes(), &length.to_be_bytes()].concat()
}

/// A request's header.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    /// Command flags.
    pub(crate) flags: u16,
    /// The command, possibly unknown.
    pub(crate) kind: u16,
    /// The client's name for it.
    pub(crate) cookie: u64,
    /// First byte.
    pub(crate) offset: u64,
    /// Bytes.
    pub(crate) length: u32,
}

impl Request {
    /// Without flags; the cookie is derived from the rest.
    pub(crate) fn new(kind: u16, offset: u64, length: u32) -> Self {
        Self { flags: 0, kind, cookie: offset ^ (u64::from(length) << 32) ^ 0x5a, offset, length }
    }

    /// As on the wire.
    pub(crate) fn encode(&self) -> [u8; 28] {
        let mut bytes = [0; 28];
        bytes[..4].copy_from_slice(&0x2560_9513_u32.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.kind.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }
}
