//! A gateway on a temporary folder, and a blocking client that can misbehave.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test file uses its part")]

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use evenkeel_gateway::{Server, config};
use evenkeel_hybrid::{Offline, Paths};
use evenkeel_nbd::client::{Negotiation, SimpleReply, encode_request};
use evenkeel_nbd::{CommandFlags, RequestHeader};
use evenkeel_tiering::Geometry;

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const DISCONNECT: u16 = 2;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;
pub const WRITE_ZEROES: u16 = 6;

/// A running gateway and its folder.
pub struct Gateway {
    pub server: Option<Server>,
    pub folder: tempfile::TempDir,
}

impl Gateway {
    /// Starts a gateway with a backing of `size` bytes, `store.img`, and these sections for its
    /// store and volumes.
    pub fn start(size: u64, sections: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        File::create(folder.path().join("store.img")).unwrap().set_len(size).unwrap();
        let text = format!("[gateway]\nlisten = [\"unix:nbd.sock\"]\n{sections}");
        let config = config::parse(&text, &folder.path().join("test.toml")).unwrap();
        let server = Server::start(&config).unwrap();
        Self { server: Some(server), folder }
    }

    /// The same with a hybrid store of `fast` bytes of fast device, `fast.img`, whose map is `s.map`.
    pub fn start_hybrid(size: u64, fast: u64, sections: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        File::create(at("store.img")).unwrap().set_len(size).unwrap();
        File::create(at("fast.img")).unwrap().set_len(fast).unwrap();
        let paths = Paths { slow: at("store.img"), fast: at("fast.img"), map: at("s.map") };
        Offline::create(&paths, Geometry::new(64 << 10, 4096).unwrap()).unwrap();
        let text = format!("[gateway]\nlisten = [\"unix:nbd.sock\"]\n{sections}");
        let config = config::parse(&text, &folder.path().join("test.toml")).unwrap();
        let server = Server::start(&config).unwrap();
        Self { server: Some(server), folder }
    }

    pub fn connect(&self, volume: &str) -> Client {
        Client::connect(self.folder.path().join("nbd.sock"), volume)
    }

    pub fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    /// Ends the gateway and checks that it ended cleanly.
    pub fn end(mut self) -> Vec<evenkeel_gateway::VolumeAccount> {
        let ended = self.server.take().unwrap().shutdown();
        assert!(ended.failures.is_empty(), "{:?}", ended.failures);
        assert_eq!(ended.abandoned, 0);
        ended.accounts
    }
}

/// One connection.
pub struct Client {
    pub socket: UnixStream,
}

impl Client {
    pub fn connect(path: PathBuf, volume: &str) -> Self {
        let mut socket = UnixStream::connect(path).unwrap();
        let mut negotiation = Negotiation::new(volume);
        let (mut received, mut answer) = (Vec::new(), Vec::new());
        loop {
            let mut piece = [0; 4096];
            let count = socket.read(&mut piece).unwrap();
            assert!(count > 0, "the server hung up");
            received.extend_from_slice(&piece[..count]);
            let (consumed, done) = negotiation.receive(&received, &mut answer).unwrap();
            received.drain(..consumed);
            socket.write_all(&answer).unwrap();
            answer.clear();
            if done.is_some() {
                return Self { socket };
            }
        }
    }

    pub fn request(kind: u16, flags: u16, cookie: u64, offset: u64, length: u32) -> [u8; 28] {
        encode_request(&RequestHeader { flags: CommandFlags(flags), kind, cookie, offset, length })
    }

    pub fn send(&mut self, kind: u16, flags: u16, cookie: u64, offset: u64, length: u32) {
        self.socket.write_all(&Self::request(kind, flags, cookie, offset, length)).unwrap();
    }

    /// The next reply's error and cookie.
    pub fn reply(&mut self) -> SimpleReply {
        let mut header = [0; SimpleReply::LEN];
        self.socket.read_exact(&mut header).unwrap();
        SimpleReply::decode(&header).unwrap()
    }

    pub fn read(&mut self, offset: u64, length: u32) -> Vec<u8> {
        self.send(READ, 0, 1, offset, length);
        assert_eq!(self.reply(), SimpleReply { error: 0, cookie: 1 });
        let mut data = vec![0; length as usize];
        self.socket.read_exact(&mut data).unwrap();
        data
    }

    pub fn write(&mut self, flags: u16, offset: u64, data: &[u8]) {
        self.send(WRITE, flags, 2, offset, data.len() as u32);
        self.socket.write_all(data).unwrap();
        assert_eq!(self.reply(), SimpleReply { error: 0, cookie: 2 });
    }

    pub fn command(&mut self, kind: u16, flags: u16, offset: u64, length: u32) -> u32 {
        self.send(kind, flags, 3, offset, length);
        let reply = self.reply();
        assert_eq!(reply.cookie, 3);
        reply.error
    }

    /// So many reads at once, all answered, then a write.
    pub fn burst(&mut self, round: u64, reads: u64) {
        for index in 0..reads {
            self.send(READ, 0, 1, (round + index) % 512 * 4096, 512);
        }
        for _ in 0..reads {
            assert_eq!(self.reply().error, 0);
            self.socket.read_exact(&mut [0; 512]).unwrap();
        }
        self.write(0, round % 512 * 4096, &[7; 512]);
    }

    /// Whether the server has closed the connection.
    pub fn is_closed(&mut self) -> bool {
        matches!(self.socket.read(&mut [0; 1]), Ok(0) | Err(_))
    }
}

/// Bytes that differ from place to place.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    })
    .take(length)
    .collect()
}
