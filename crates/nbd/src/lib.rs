//! The NBD protocol without I/O: bytes in, bytes and decisions out.
//!
//! ```text
//!  server: Handshake::receive ──> Transmission ──> RequestHeader::decode ──> check ──> simple_reply
//!  client: client::Negotiation::receive ──> ExportInfo ──> client::encode_request / SimpleReply::decode
//! ```
//!
//! Source: `doc/proto.md` of the NBD project (<https://github.com/NetworkBlockDevice/nbd>), called "the protocol
//! document" here. Spoken is its baseline without TLS: the fixed newstyle handshake, simple replies, and READ,
//! WRITE, FLUSH, TRIM, WRITE_ZEROES and DISC. Nothing allocates after the handshake, and nothing is unbounded
//! before.
//!
//! ```
//! use evenkeel_nbd::client::{Negotiation, encode_request};
//! use evenkeel_nbd::*;
//!
//! struct OneDisk;
//! impl Exports for OneDisk {
//!     fn names(&self) -> Vec<String> {
//!         vec!["disk".to_owned()]
//!     }
//!     fn find(&self, name: &str) -> Option<Export> {
//!         (name == "disk").then(|| Export {
//!             size: 1 << 30,
//!             flags: TransmissionFlags::writable(),
//!             block_sizes: BlockSizes::default(),
//!             description: String::new(),
//!         })
//!     }
//! }
//!
//! // What each side puts in its `Vec` goes to the other over the network.
//! let (mut server, mut client) = (Handshake::new(), Negotiation::new("disk"));
//! let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
//! client.receive(&server.greeting(), &mut to_server)?;
//! let (_, progress) = server.receive(&to_server, &OneDisk, &mut to_client)?;
//! let (_, info) = client.receive(&to_client, &mut to_server)?;
//! let Progress::Transmission { export, .. } = progress else { panic!("the server goes on") };
//! assert_eq!(info.map(|info| info.size), Some(1 << 30));
//!
//! let read = RequestHeader { flags: CommandFlags(0), kind: 0, cookie: 7, offset: 1 << 30, length: 512 };
//! let read = RequestHeader::decode(&encode_request(&read)).expect("the magic is right");
//! let past_the_end = Refusal::Answer { error: ErrorCode::Invalid, payload: 0 };
//! assert_eq!(read.check(&export), Err(past_the_end));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod client;
pub mod export;
pub mod handshake;
pub mod transmission;
pub mod wire;

pub use export::{BlockSizes, Export, Exports, InvalidExport, TransmissionFlags};
pub use handshake::{Handshake, HandshakeError, Progress};
pub use transmission::{Command, CommandFlags, ErrorCode, Refusal, RequestHeader, simple_reply};
