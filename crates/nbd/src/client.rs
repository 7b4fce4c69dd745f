//! The client's side, for tests, the demonstration and players of traces.
//!
//! Source: protocol document, sections "Fixed newstyle negotiation", "Option types", "Option reply types",
//! "Request message" and "Simple reply message".
//!
//! ```text
//!            18 bytes                       20 bytes            its length
//!  Greeting ──────────> flags, option ──> ReplyHeader ──> ReplyData
//!     │                 are sent           ^   │             ├─ INFO, SERVER: noted ──┐
//!     │ not NBD, oldstyle, not fixed       │   │ wrong       ├─ ACK ──> Some, Over    │
//!     │                                    │   │             ├─ error ──> Err(Refused), an ABORT is sent
//!     v                                    └───│─────────────│────────────────────────┘
//!  Err, Over <─────────────────────────────────┴─────────────┘ malformed, too many
//! ```

use crate::export::{BlockSizes, TransmissionFlags};
use crate::transmission::RequestHeader;
use crate::wire::{
    GREETING_LEN, Gather, NBD_CLISERV_MAGIC, NBD_FLAG_C_FIXED_NEWSTYLE, NBD_FLAG_C_NO_ZEROES,
    NBD_FLAG_FIXED_NEWSTYLE, NBD_FLAG_NO_ZEROES, NBD_INFO_BLOCK_SIZE, NBD_INFO_EXPORT, NBD_INIT_MAGIC,
    NBD_MAX_STRING, NBD_OPT_ABORT, NBD_OPT_GO, NBD_OPT_LIST, NBD_OPTS_MAGIC, NBD_REP_ACK, NBD_REP_FLAG_ERROR,
    NBD_REP_INFO, NBD_REP_MAGIC, NBD_REP_SERVER, NBD_REQUEST_MAGIC, NBD_SIMPLE_REPLY_MAGIC,
    OPTION_REPLY_HEADER_LEN, Reader, protocol_string, reply_error_name,
};

/// The longest reply that is gathered, in bytes; a longer one ends the negotiation.
pub const MAX_REPLY_DATA: usize = 64 << 10;
/// The most pieces of information of one export; one more ends the negotiation.
pub const MAX_INFOS: usize = 1024;
/// The most exports of one listing; one more ends it.
pub const MAX_LISTED: usize = 1 << 16;
/// The most bytes of names and descriptions of one listing; one more ends it.
pub const MAX_LISTED_BYTES: usize = 32 << 20;

/// What the server said of the export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportInfo {
    /// Bytes.
    pub size: u64,
    /// Transmission flags.
    pub flags: TransmissionFlags,
    /// Block sizes, if the server gave them.
    pub block_sizes: Option<BlockSizes>,
}

/// One export of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedExport {
    /// The name to ask for.
    pub name: String,
    /// A text for people; empty for none.
    pub description: String,
}

/// Why a negotiation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NegotiationError {
    /// The first 16 bytes are not those of an NBD server.
    #[error("the server does not speak NBD")]
    NotNbd,
    /// The server speaks the oldstyle handshake, which has no names.
    #[error("the server speaks only the oldstyle handshake of NBD")]
    Oldstyle,
    /// The server does not speak the fixed newstyle.
    #[error("the server does not speak the fixed newstyle handshake of NBD")]
    NotFixedNewstyle,
    /// The name cannot be asked for.
    #[error("an export name is at most {NBD_MAX_STRING} bytes, without NUL")]
    InvalidExportName,
    /// The server answered with an error. An ABORT has been appended to the output, as the document asks.
    #[error("the server refuses: {}", refusal(*.error, .message))]
    Refused {
        /// Its number, such as [`NBD_REP_ERR_UNKNOWN`](crate::wire::NBD_REP_ERR_UNKNOWN).
        error: u32,
        /// The server's own words, possibly none. At most 4096 bytes.
        message: String,
    },
    /// A reply does not begin with the magic number.
    #[error("a reply begins with {0:#018x}")]
    BadReplyMagic(u64),
    /// A reply to an option that was not sent.
    #[error("a reply to option {0}, which was not sent")]
    WrongOption(u32),
    /// A reply that this option cannot have.
    #[error("a reply of the unexpected type {0}")]
    UnexpectedReply(u32),
    /// A reply, or all of them together, are longer than is read.
    #[error("the server's replies are too long")]
    TooLong,
    /// The inside of a reply is malformed.
    #[error("the server sent a malformed {0}")]
    Malformed(&'static str),
    /// The server agreed without giving the size.
    #[error("the server agreed without giving the size of the export")]
    NoExportInfo,
    /// The negotiation was over before these bytes.
    #[error("the negotiation is over")]
    Over,
}

/// Negotiates one export with GO.
#[derive(Debug)]
pub struct Negotiation {
    export: String,
    stream: ReplyStream,
    infos: usize,
    size_and_flags: Option<(u64, TransmissionFlags)>,
    block_sizes: Option<BlockSizes>,
}

impl Negotiation {
    /// Will ask for `export`; the empty name is the default export.
    #[must_use]
    pub fn new(export: &str) -> Self {
        Self {
            export: export.to_owned(),
            stream: ReplyStream::new(NBD_OPT_GO),
            infos: 0,
            size_and_flags: None,
            block_sizes: None,
        }
    }

    /// Consumes bytes from the server, appends bytes to send; `Some` once the transmission phase has begun.
    /// Bytes that are not consumed by then belong to it. How `input` is cut makes no difference.
    ///
    /// # Errors
    /// If the server refuses the export or breaks the protocol. Send `output`, then close the connection.
    pub fn receive(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<(usize, Option<ExportInfo>), NegotiationError> {
        let mut rest = input;
        let result = self.run(&mut rest, output);
        if !matches!(result, Ok(None)) {
            self.stream.end();
        }
        result.map(|info| (input.len() - rest.len(), info))
    }

    fn run(
        &mut self,
        input: &mut &[u8],
        output: &mut Vec<u8>,
    ) -> Result<Option<ExportInfo>, NegotiationError> {
        while let Some(event) = self.stream.next(input, output)? {
            match event {
                StreamEvent::Greeted => {
                    let name = protocol_string(self.export.as_bytes())
                        .ok_or(NegotiationError::InvalidExportName)?
                        .as_bytes();
                    let mut data = Vec::with_capacity(name.len() + 8);
                    data.extend_from_slice(&(name.len() as u32).to_be_bytes());
                    data.extend_from_slice(name);
                    data.extend_from_slice(&1_u16.to_be_bytes());
                    data.extend_from_slice(&NBD_INFO_BLOCK_SIZE.to_be_bytes());
                    put_option(output, NBD_OPT_GO, &data);
                }
                StreamEvent::Reply(NBD_REP_ACK, _) => return self.agreed().map(Some),
                StreamEvent::Reply(NBD_REP_INFO, data) => self.on_info(&data)?,
                StreamEvent::Reply(reply, _) => return Err(NegotiationError::UnexpectedReply(reply)),
            }
        }
        Ok(None)
    }

    fn on_info(&mut self, data: &[u8]) -> Result<(), NegotiationError> {
        self.infos += 1;
        if self.infos > MAX_INFOS {
            return Err(NegotiationError::TooLong);
        }
        let mut reader = Reader::new(data);
        match reader.u16().ok_or(NegotiationError::Malformed("NBD_REP_INFO"))? {
            NBD_INFO_EXPORT => {
                let (Some(size), Some(flags), []) = (reader.u64(), reader.u16(), reader.rest()) else {
                    return Err(NegotiationError::Malformed("NBD_INFO_EXPORT"));
                };
                self.size_and_flags = Some((size, TransmissionFlags(flags)));
            }
            NBD_INFO_BLOCK_SIZE => {
                const MALFORMED: NegotiationError = NegotiationError::Malformed("NBD_INFO_BLOCK_SIZE");
                let (Some(minimum), Some(preferred), Some(maximum), []) =
                    (reader.u32(), reader.u32(), reader.u32(), reader.rest())
                else {
                    return Err(MALFORMED);
                };
                let sizes = BlockSizes { minimum, preferred, maximum };
                sizes.validate().map_err(|_| MALFORMED)?;
                self.block_sizes = Some(sizes);
            }
            // "The client MUST ignore information replies it does not understand."
            _ => {}
        }
        Ok(())
    }

    fn agreed(&self) -> Result<ExportInfo, NegotiationError> {
        let (size, flags) = self.size_and_flags.ok_or(NegotiationError::NoExportInfo)?;
        Ok(ExportInfo { size, flags, block_sizes: self.block_sizes })
    }
}

/// Lists the exports, then says goodbye: transmission cannot follow on the same connection.
#[derive(Debug)]
pub struct List {
    stream: ReplyStream,
    listed: Vec<ListedExport>,
    bytes: usize,
}

impl List {
    /// A fresh listing.
    #[must_use]
    pub fn new() -> Self {
        Self { stream: ReplyStream::new(NBD_OPT_LIST), listed: Vec::new(), bytes: 0 }
    }

    /// Consumes bytes from the server, appends bytes to send; `Some` once the list is complete: then send
    /// `output`, which ends with an ABORT, and close the connection.
    ///
    /// # Errors
    /// If the server refuses to list or breaks the protocol. Send `output`, then close the connection.
    pub fn receive(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<(usize, Option<Vec<ListedExport>>), NegotiationError> {
        let mut rest = input;
        let result = self.run(&mut rest, output);
        if !matches!(result, Ok(None)) {
            self.stream.end();
        }
        result.map(|list| (input.len() - rest.len(), list))
    }

    fn run(
        &mut self,
        input: &mut &[u8],
        output: &mut Vec<u8>,
    ) -> Result<Option<Vec<ListedExport>>, NegotiationError> {
        while let Some(event) = self.stream.next(input, output)? {
            match event {
                StreamEvent::Greeted => put_option(output, NBD_OPT_LIST, &[]),
                StreamEvent::Reply(NBD_REP_SERVER, data) => self.on_server(&data)?,
                StreamEvent::Reply(NBD_REP_ACK, _) => {
                    put_option(output, NBD_OPT_ABORT, &[]);
                    return Ok(Some(std::mem::take(&mut self.listed)));
                }
                StreamEvent::Reply(reply, _) => return Err(NegotiationError::UnexpectedReply(reply)),
            }
        }
        Ok(None)
    }

    fn on_server(&mut self, data: &[u8]) -> Result<(), NegotiationError> {
        const MALFORMED: NegotiationError = NegotiationError::Malformed("NBD_REP_SERVER");
        self.bytes += data.len();
        if self.listed.len() == MAX_LISTED || self.bytes > MAX_LISTED_BYTES {
            return Err(NegotiationError::TooLong);
        }
        let mut reader = Reader::new(data);
        let length = reader.u32().and_then(|length| usize::try_from(length).ok()).ok_or(MALFORMED)?;
        let name = reader.bytes(length).and_then(protocol_string).ok_or(MALFORMED)?;
        // What follows the name is "implementation-specific"; it is shown as well as it can be.
        let description = String::from_utf8_lossy(reader.rest()).into_owned();
        self.listed.push(ListedExport { name: name.to_owned(), description });
        Ok(())
    }
}

impl Default for List {
    fn default() -> Self {
        Self::new()
    }
}

/// A simple reply's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimpleReply {
    /// The error number, 0 for success. [`ErrorCode::from_wire`](crate::ErrorCode::from_wire) reads it.
    pub error: u32,
    /// The request's cookie.
    pub cookie: u64,
}

impl SimpleReply {
    /// Bytes on the wire.
    pub const LEN: usize = 16;

    /// Reads a reply header; `None` if the magic is wrong.
    #[must_use]
    pub fn decode(bytes: &[u8; Self::LEN]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        if reader.u32()? != NBD_SIMPLE_REPLY_MAGIC {
            return None;
        }
        Some(Self { error: reader.u32()?, cookie: reader.u64()? })
    }
}

/// The 28 bytes of a request; a write's payload follows them.
#[must_use]
pub fn encode_request(header: &RequestHeader) -> [u8; RequestHeader::LEN] {
    let mut bytes = [0; RequestHeader::LEN];
    bytes[..4].copy_from_slice(&NBD_REQUEST_MAGIC.to_be_bytes());
    bytes[4..6].copy_from_slice(&header.flags.0.to_be_bytes());
    bytes[6..8].copy_from_slice(&header.kind.to_be_bytes());
    bytes[8..16].copy_from_slice(&header.cookie.to_be_bytes());
    bytes[16..24].copy_from_slice(&header.offset.to_be_bytes());
    bytes[24..].copy_from_slice(&header.length.to_be_bytes());
    bytes
}

/// Reads the greeting and then the replies to one option, whatever the option.
#[derive(Debug)]
struct ReplyStream {
    option: u32,
    state: StreamState,
    gather: Gather,
}

#[derive(Clone, Copy, Debug)]
enum StreamState {
    Greeting,
    ReplyHeader,
    ReplyData { reply: u32, length: usize },
    Over,
}

enum StreamEvent {
    /// The client's flags have been appended; now the option must be.
    Greeted,
    /// A reply that is no error, and its data.
    Reply(u32, Vec<u8>),
}

impl ReplyStream {
    fn new(option: u32) -> Self {
        Self { option, state: StreamState::Greeting, gather: Gather::default() }
    }

    fn end(&mut self) {
        self.state = StreamState::Over;
        self.gather = Gather::default();
    }

    /// The next event; `None` once all input is consumed.
    fn next(
        &mut self,
        input: &mut &[u8],
        output: &mut Vec<u8>,
    ) -> Result<Option<StreamEvent>, NegotiationError> {
        loop {
            match self.state {
                StreamState::Greeting => {
                    if !self.gather.fill(input, GREETING_LEN) {
                        return Ok(None);
                    }
                    self.on_greeting(output)?;
                    return Ok(Some(StreamEvent::Greeted));
                }
                StreamState::ReplyHeader => {
                    if !self.gather.fill(input, OPTION_REPLY_HEADER_LEN) {
                        return Ok(None);
                    }
                    self.on_reply_header()?;
                }
                StreamState::ReplyData { reply, length } => {
                    if !self.gather.fill(input, length) {
                        return Ok(None);
                    }
                    self.state = StreamState::ReplyHeader;
                    let data = self.gather.take();
                    if reply & NBD_REP_FLAG_ERROR == 0 {
                        return Ok(Some(StreamEvent::Reply(reply, data)));
                    }
                    // Refused, a client may only say goodbye ("Termination of the session").
                    put_option(output, NBD_OPT_ABORT, &[]);
                    let shown = &data[..data.len().min(NBD_MAX_STRING)];
                    let message = String::from_utf8_lossy(shown).into_owned();
                    return Err(NegotiationError::Refused { error: reply, message });
                }
                StreamState::Over => return Err(NegotiationError::Over),
            }
        }
    }

    fn on_greeting(&mut self, output: &mut Vec<u8>) -> Result<(), NegotiationError> {
        let mut reader = Reader::new(self.gather.bytes());
        let (magic, style, flags) = (reader.u64(), reader.u64(), reader.u16().unwrap_or_default());
        if magic != Some(NBD_INIT_MAGIC) {
            return Err(NegotiationError::NotNbd);
        }
        match style {
            Some(NBD_OPTS_MAGIC) => {}
            Some(NBD_CLISERV_MAGIC) => return Err(NegotiationError::Oldstyle),
            _ => return Err(NegotiationError::NotNbd),
        }
        if flags & NBD_FLAG_FIXED_NEWSTYLE == 0 {
            return Err(NegotiationError::NotFixedNewstyle);
        }
        let no_zeroes = if flags & NBD_FLAG_NO_ZEROES != 0 { NBD_FLAG_C_NO_ZEROES } else { 0 };
        output.extend_from_slice(&(NBD_FLAG_C_FIXED_NEWSTYLE | no_zeroes).to_be_bytes());
        self.gather.clear();
        self.state = StreamState::ReplyHeader;
        Ok(())
    }

    fn on_reply_header(&mut self) -> Result<(), NegotiationError> {
        let mut reader = Reader::new(self.gather.bytes());
        let magic = reader.u64().unwrap_or_default();
        if magic != NBD_REP_MAGIC {
            return Err(NegotiationError::BadReplyMagic(magic));
        }
        let [option, reply, length] = [(); 3].map(|()| reader.u32().unwrap_or_default());
        if option != self.option {
            return Err(NegotiationError::WrongOption(option));
        }
        let length = length as usize;
        if length > MAX_REPLY_DATA {
            return Err(NegotiationError::TooLong);
        }
        self.gather.clear();
        self.state = StreamState::ReplyData { reply, length };
        Ok(())
    }
}

fn put_option(output: &mut Vec<u8>, option: u32, data: &[u8]) {
    output.extend_from_slice(&NBD_OPTS_MAGIC.to_be_bytes());
    output.extend_from_slice(&option.to_be_bytes());
    output.extend_from_slice(&(data.len() as u32).to_be_bytes());
    output.extend_from_slice(data);
}

fn refusal(error: u32, message: &str) -> String {
    let number;
    let name = match reply_error_name(error) {
        Some(name) => name,
        None => {
            number = format!("error {error:#x}");
            &number
        }
    };
    if message.is_empty() { name.to_owned() } else { format!("{message} ({name})") }
}
