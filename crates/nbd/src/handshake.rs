//! The server's side of the fixed newstyle handshake.
//!
//! Source: protocol document, sections "Newstyle negotiation", "Fixed newstyle negotiation", "Termination
//! of the session during option haggling", "Option types" and "Option reply types".
//!
//! ```text
//!      greeting is sent
//!            │
//!            v  4 bytes
//!       ClientFlags ──────── unknown flag ───────────────────────────────────────┐
//!            │                                                                   │
//!            v  16 bytes                                                         v
//!  ┌──> OptionHeader ─────── bad magic, too long, too many ──────────────> Err, Over: close
//!  │         │                                                                   ^
//!  │         ├─ EXPORT_NAME, INFO, GO ──> Data (gathered, at most 64 KiB) ─┬─────┘ EXPORT_NAME of no export
//!  │         │                                                             ├──> Transmission, Over
//!  ├─────────│────────── answered ─────────────────────────────────────────┘       EXPORT_NAME, GO
//!  │         │
//!  │         └─ others, GO too long ────> Skip (nothing gathered) ─────────┬──> Aborted, Over
//!  └──────────────────── answered ─────────────────────────────────────────┘       ABORT
//! ```
//!
//! Where the document leaves a choice:
//!
//! * Only NOTLS mode and simple replies are spoken: STARTTLS, STRUCTURED_REPLY, the two META_CONTEXT options,
//!   EXTENDED_HEADERS and every unknown option are answered with `NBD_REP_ERR_UNSUP`, with or without data.
//! * A client that has not set `NBD_FLAG_C_FIXED_NEWSTYLE` may only send EXPORT_NAME.
//! * INFO and GO always report the block sizes, asked or not. A client that enters transmission without having
//!   asked is let in, even if the minimum is more than 1 (`NBD_REP_ERR_BLOCK_SIZE_REQD` is never sent): each
//!   request is checked anyway, and one that is not aligned is answered with an error.
//! * Information asked for twice is sent once; unknown information is ignored.
//! * A client that sends its next option before the answer to the last, which the document forbids, is answered
//!   in order.

use crate::export::{Export, Exports};
use crate::wire::{
    CLIENT_FLAGS_LEN, EXPORT_NAME_ZEROES, GREETING_LEN, Gather, NBD_FLAG_C_FIXED_NEWSTYLE,
    NBD_FLAG_C_NO_ZEROES, NBD_FLAG_FIXED_NEWSTYLE, NBD_FLAG_NO_ZEROES, NBD_INFO_BLOCK_SIZE,
    NBD_INFO_DESCRIPTION, NBD_INFO_EXPORT, NBD_INFO_NAME, NBD_INIT_MAGIC, NBD_MAX_STRING, NBD_OPT_ABORT,
    NBD_OPT_EXPORT_NAME, NBD_OPT_GO, NBD_OPT_INFO, NBD_OPT_LIST, NBD_OPTS_MAGIC, NBD_REP_ACK,
    NBD_REP_ERR_INVALID, NBD_REP_ERR_TOO_BIG, NBD_REP_ERR_UNKNOWN, NBD_REP_ERR_UNSUP, NBD_REP_INFO,
    NBD_REP_MAGIC, NBD_REP_SERVER, OPTION_HEADER_LEN, OPTION_REPLY_HEADER_LEN, Reader, clip, option_name,
    protocol_string,
};

/// The longest data of INFO or GO that is gathered, in bytes; what is longer is answered with
/// `NBD_REP_ERR_TOO_BIG`. Also the most that a handshake ever holds back.
pub const MAX_OPTION_DATA: usize = 64 << 10;
/// The longest option that is skipped, in bytes; one that is longer ends the handshake.
pub const MAX_SKIPPED_OPTION: u32 = 32 << 20;
/// The most bytes of data of all options of one handshake together; more end it.
pub const MAX_HANDSHAKE_DATA: u64 = 64 << 20;
/// The most options of one handshake; one more ends it.
pub const MAX_OPTIONS: u32 = 1024;
/// The most bytes of all answers to LIST in one handshake; beyond it LIST ends with `NBD_REP_ERR_TOO_BIG`.
pub const MAX_LISTING: usize = 16 << 20;

/// What the bytes so far have led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More bytes are needed.
    Incomplete,
    /// Negotiation is over; bytes from `consumed` on belong to the transmission phase.
    Transmission {
        /// The name that the client asked for.
        name: String,
        /// The export as negotiated: its flags are those that the client was told.
        export: Export,
    },
    /// The client has said goodbye (ABORT). Send the output, then close.
    Aborted,
}

/// Why a handshake must end at once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The client set flags that it was not offered; it may not be an NBD client at all.
    #[error("unknown client flags {0:#x}")]
    UnknownClientFlags(u32),
    /// An option does not begin with the magic number.
    #[error("an option begins with {0:#018x} instead of IHAVEOPT")]
    BadOptionMagic(u64),
    /// Another option than EXPORT_NAME from a client without `NBD_FLAG_C_FIXED_NEWSTYLE`.
    #[error("option {option} from a client that has not agreed to the fixed newstyle")]
    NotFixedNewstyle {
        /// Its number.
        option: u32,
    },
    /// An option is too long even to be skipped.
    #[error("option {option} has {length} bytes of data; at most {MAX_SKIPPED_OPTION} are read")]
    OptionTooLong {
        /// Its number.
        option: u32,
        /// Bytes.
        length: u32,
    },
    /// The client haggles for ever.
    #[error("more than {MAX_OPTIONS} options")]
    TooManyOptions,
    /// The options have more data together than a client could have reason to send.
    #[error("more than {MAX_HANDSHAKE_DATA} bytes of options")]
    TooMuchData,
    /// The name in EXPORT_NAME, which cannot be answered with an error, is too long, not UTF-8, or has a NUL.
    #[error("the export name is not UTF-8 without NUL of at most {NBD_MAX_STRING} bytes")]
    InvalidExportName,
    /// EXPORT_NAME of an export that does not exist. EXPORT_NAME cannot be answered with an error.
    #[error("{}", unknown_export(name))]
    UnknownExport {
        /// The name that the client asked for.
        name: String,
    },
    /// The handshake was over before these bytes.
    #[error("the handshake is over")]
    Over,
}

/// The state machine; one per connection. It buffers no more than one option (bounded).
#[derive(Debug, Default)]
pub struct Handshake {
    state: State,
    gather: Gather,
    client_flags: u32,
    options: u32,
    /// Bytes of the options' data, as their headers announce them.
    announced: u64,
    /// Bytes of the answers to LIST so far.
    listed: usize,
}

impl Handshake {
    /// A fresh handshake. Its greeting must be sent first.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The 18 bytes that the server sends before anything else.
    #[must_use]
    pub fn greeting(&self) -> [u8; GREETING_LEN] {
        let mut greeting = [0; GREETING_LEN];
        greeting[..8].copy_from_slice(&NBD_INIT_MAGIC.to_be_bytes());
        greeting[8..16].copy_from_slice(&NBD_OPTS_MAGIC.to_be_bytes());
        greeting[16..].copy_from_slice(&(NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES).to_be_bytes());
        greeting
    }

    /// Consumes what it can of `input`, appends answers to `output`, and returns how many bytes it
    /// consumed. Unconsumed bytes must be offered again, with more behind them.
    ///
    /// How `input` is cut makes no difference to the output. While the progress is
    /// [`Progress::Incomplete`], all of `input` has been consumed.
    ///
    /// # Errors
    /// If the client breaks the protocol beyond repair; send `output`, then close the connection. After an
    /// error, and after any progress but [`Progress::Incomplete`], every call is [`HandshakeError::Over`].
    pub fn receive(
        &mut self,
        input: &[u8],
        exports: &dyn Exports,
        output: &mut Vec<u8>,
    ) -> Result<(usize, Progress), HandshakeError> {
        let mut rest = input;
        loop {
            match self.step(&mut rest, exports, output) {
                Ok(Step::Again) => {}
                Ok(Step::Starved) => return Ok((input.len() - rest.len(), Progress::Incomplete)),
                Ok(Step::Over(progress)) => {
                    self.end();
                    return Ok((input.len() - rest.len(), progress));
                }
                Err(error) => {
                    self.end();
                    return Err(error);
                }
            }
        }
    }

    /// Bytes of an unfinished message that are held back; at most [`MAX_OPTION_DATA`].
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.gather.bytes().len()
    }

    fn end(&mut self) {
        self.state = State::Over;
        self.gather = Gather::default();
    }

    fn step(
        &mut self,
        input: &mut &[u8],
        exports: &dyn Exports,
        output: &mut Vec<u8>,
    ) -> Result<Step, HandshakeError> {
        match self.state {
            State::ClientFlags => self.on_client_flags(input),
            State::OptionHeader => self.on_option_header(input),
            State::Data { option, length } => {
                if !self.gather.fill(input, length) {
                    return Ok(Step::Starved);
                }
                self.state = State::OptionHeader;
                let data = self.gather.take();
                if option == NBD_OPT_EXPORT_NAME {
                    self.on_export_name(&data, exports, output)
                } else {
                    Ok(on_info(option, &data, exports, output))
                }
            }
            State::Skip { option, remaining, then } => {
                let skipped = input.len().min(remaining);
                *input = &input[skipped..];
                if skipped < remaining {
                    self.state = State::Skip { option, remaining: remaining - skipped, then };
                    return Ok(Step::Starved);
                }
                self.state = State::OptionHeader;
                Ok(self.on_skipped(option, then, exports, output))
            }
            State::Over => Err(HandshakeError::Over),
        }
    }

    fn on_client_flags(&mut self, input: &mut &[u8]) -> Result<Step, HandshakeError> {
        if !self.gather.fill(input, CLIENT_FLAGS_LEN) {
            return Ok(Step::Starved);
        }
        if let Some(flags) = Reader::new(self.gather.bytes()).u32() {
            self.client_flags = flags;
        }
        self.gather.clear();
        let unknown = self.client_flags & !(NBD_FLAG_C_FIXED_NEWSTYLE | NBD_FLAG_C_NO_ZEROES);
        if unknown != 0 {
            return Err(HandshakeError::UnknownClientFlags(unknown));
        }
        self.state = State::OptionHeader;
        Ok(Step::Again)
    }

    fn on_option_header(&mut self, input: &mut &[u8]) -> Result<Step, HandshakeError> {
        if !self.gather.fill(input, OPTION_HEADER_LEN) {
            return Ok(Step::Starved);
        }
        let mut reader = Reader::new(self.gather.bytes());
        let (Some(magic), Some(option), Some(length)) = (reader.u64(), reader.u32(), reader.u32()) else {
            return Ok(Step::Starved);
        };
        self.gather.clear();
        if magic != NBD_OPTS_MAGIC {
            return Err(HandshakeError::BadOptionMagic(magic));
        }
        self.options += 1;
        if self.options > MAX_OPTIONS {
            return Err(HandshakeError::TooManyOptions);
        }
        if option != NBD_OPT_EXPORT_NAME && self.client_flags & NBD_FLAG_C_FIXED_NEWSTYLE == 0 {
            return Err(HandshakeError::NotFixedNewstyle { option });
        }
        if length > MAX_SKIPPED_OPTION {
            return Err(HandshakeError::OptionTooLong { option, length });
        }
        self.announced += u64::from(length);
        if self.announced > MAX_HANDSHAKE_DATA {
            return Err(HandshakeError::TooMuchData);
        }
        let length = length as usize;
        let then = match option {
            NBD_OPT_EXPORT_NAME if length > NBD_MAX_STRING => return Err(HandshakeError::InvalidExportName),
            NBD_OPT_INFO | NBD_OPT_GO if length > MAX_OPTION_DATA => Then::TooBig,
            NBD_OPT_EXPORT_NAME | NBD_OPT_INFO | NBD_OPT_GO => {
                self.state = State::Data { option, length };
                return Ok(Step::Again);
            }
            NBD_OPT_ABORT => Then::Abort,
            NBD_OPT_LIST if length == 0 => Then::List,
            NBD_OPT_LIST => Then::ListWithData,
            _ => Then::Unsupported,
        };
        self.state = State::Skip { option, remaining: length, then };
        Ok(Step::Again)
    }

    fn on_export_name(
        &self,
        data: &[u8],
        exports: &dyn Exports,
        output: &mut Vec<u8>,
    ) -> Result<Step, HandshakeError> {
        let name = protocol_string(data).ok_or(HandshakeError::InvalidExportName)?;
        let Some(mut export) = exports.find(name) else {
            return Err(HandshakeError::UnknownExport { name: name.to_owned() });
        };
        export.flags = export.flags.offered();
        output.extend_from_slice(&export.size.to_be_bytes());
        output.extend_from_slice(&export.flags.0.to_be_bytes());
        if self.client_flags & NBD_FLAG_C_NO_ZEROES == 0 {
            output.extend_from_slice(&[0; EXPORT_NAME_ZEROES]);
        }
        Ok(Step::Over(Progress::Transmission { name: name.to_owned(), export }))
    }

    fn on_skipped(&mut self, option: u32, then: Then, exports: &dyn Exports, output: &mut Vec<u8>) -> Step {
        match then {
            Then::Abort => {
                put_reply(output, option, NBD_REP_ACK, &[]);
                return Step::Over(Progress::Aborted);
            }
            Then::List => self.on_list(exports, output),
            Then::ListWithData => {
                put_error(output, option, NBD_REP_ERR_INVALID, "NBD_OPT_LIST takes no data")
            }
            Then::TooBig => {
                let message = format!("more than {MAX_OPTION_DATA} bytes of data");
                put_error(output, option, NBD_REP_ERR_TOO_BIG, &message);
            }
            Then::Unsupported => {
                let message = match option_name(option) {
                    Some(name) => format!("{name} is not supported"),
                    None => format!("option {option} is unknown"),
                };
                put_error(output, option, NBD_REP_ERR_UNSUP, &message);
            }
        }
        Step::Again
    }

    fn on_list(&mut self, exports: &dyn Exports, output: &mut Vec<u8>) {
        for name in exports.names() {
            // A name that no client could ask for is not shown.
            if protocol_string(name.as_bytes()).is_none() {
                continue;
            }
            let Some(export) = exports.find(&name) else { continue };
            let description = clip(&export.description);
            self.listed += OPTION_REPLY_HEADER_LEN + 4 + name.len() + description.len();
            if self.listed > MAX_LISTING {
                put_error(
                    output,
                    NBD_OPT_LIST,
                    NBD_REP_ERR_TOO_BIG,
                    "there are more exports than fit a listing",
                );
                return;
            }
            let parts = [&length(name.len()).to_be_bytes(), name.as_bytes(), description.as_bytes()];
            put_reply(output, NBD_OPT_LIST, NBD_REP_SERVER, &parts);
        }
        put_reply(output, NBD_OPT_LIST, NBD_REP_ACK, &[]);
    }
}

/// Where the state machine stands; the head of this module draws it.
#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    ClientFlags,
    OptionHeader,
    /// Gathering the data of an option that is looked into.
    Data {
        option: u32,
        length: usize,
    },
    /// Dropping the data of an option that is not.
    Skip {
        option: u32,
        remaining: usize,
        then: Then,
    },
    Over,
}

/// What follows the data of an option that is skipped.
#[derive(Clone, Copy, Debug)]
enum Then {
    Abort,
    List,
    ListWithData,
    TooBig,
    Unsupported,
}

/// What a step has come to.
enum Step {
    Again,
    /// All input is consumed.
    Starved,
    Over(Progress),
}

/// INFO and GO: the same but for what follows.
fn on_info(option: u32, data: &[u8], exports: &dyn Exports, output: &mut Vec<u8>) -> Step {
    let query = match Query::parse(data) {
        Ok(query) => query,
        Err((error, message)) => {
            put_error(output, option, error, message);
            return Step::Again;
        }
    };
    let Some(mut export) = exports.find(query.name) else {
        put_error(output, option, NBD_REP_ERR_UNKNOWN, &unknown_export(query.name));
        return Step::Again;
    };
    export.flags = export.flags.offered();
    query.answer(option, &export, exports, output);
    if option == NBD_OPT_GO {
        Step::Over(Progress::Transmission { name: query.name.to_owned(), export })
    } else {
        Step::Again
    }
}

/// The data of INFO and GO.
struct Query<'a> {
    name: &'a str,
    wants_name: bool,
    wants_description: bool,
}

impl<'a> Query<'a> {
    fn parse(data: &'a [u8]) -> Result<Self, (u32, &'static str)> {
        const TRUNCATED: (u32, &str) = (NBD_REP_ERR_INVALID, "the lengths inside the option do not add up");
        let mut reader = Reader::new(data);
        let name_length = reader.u32().ok_or(TRUNCATED)?;
        let name =
            usize::try_from(name_length).ok().and_then(|length| reader.bytes(length)).ok_or(TRUNCATED)?;
        let count = reader.u16().ok_or(TRUNCATED)?;
        if reader.rest().len() != 2 * usize::from(count) {
            return Err(TRUNCATED);
        }
        if name.len() > NBD_MAX_STRING {
            return Err((NBD_REP_ERR_TOO_BIG, "the export name is longer than 4096 bytes"));
        }
        let name =
            protocol_string(name).ok_or((NBD_REP_ERR_INVALID, "the export name is not UTF-8 without NUL"))?;
        let mut query = Self { name, wants_name: false, wants_description: false };
        while let Some(information) = reader.u16() {
            match information {
                NBD_INFO_NAME => query.wants_name = true,
                NBD_INFO_DESCRIPTION => query.wants_description = true,
                // The export and its block sizes are sent anyway; the document has all others ignored.
                _ => {}
            }
        }
        Ok(query)
    }

    fn answer(&self, option: u32, export: &Export, exports: &dyn Exports, output: &mut Vec<u8>) {
        let mut inform = |information: u16, parts: [&[u8]; 3]| {
            let [a, b, c] = parts;
            put_reply(output, option, NBD_REP_INFO, &[&information.to_be_bytes(), a, b, c]);
        };
        inform(NBD_INFO_EXPORT, [&export.size.to_be_bytes(), &export.flags.0.to_be_bytes(), &[]]);
        if self.wants_name {
            let canonical = exports.canonical_name(self.name);
            let name = clip(canonical.as_deref().unwrap_or(self.name));
            inform(NBD_INFO_NAME, [name.as_bytes(), &[], &[]]);
        }
        if self.wants_description && !export.description.is_empty() {
            inform(NBD_INFO_DESCRIPTION, [clip(&export.description).as_bytes(), &[], &[]]);
        }
        let sizes = &export.block_sizes;
        let (minimum, preferred, maximum) = (sizes.minimum, sizes.preferred, sizes.maximum);
        inform(
            NBD_INFO_BLOCK_SIZE,
            [&minimum.to_be_bytes(), &preferred.to_be_bytes(), &maximum.to_be_bytes()],
        );
        put_reply(output, option, NBD_REP_ACK, &[]);
    }
}

/// For people, and therefore short and printable.
fn unknown_export(name: &str) -> String {
    let shown: String = name.chars().take(256).collect();
    let more = if shown.len() < name.len() { "…" } else { "" };
    if name.is_empty() {
        "there is no default export; ask for one by its name".to_owned()
    } else {
        format!("there is no export named {shown:?}{more}")
    }
}

fn put_error(output: &mut Vec<u8>, option: u32, error: u32, message: &str) {
    put_reply(output, option, error, &[clip(message).as_bytes()]);
}

fn put_reply(output: &mut Vec<u8>, option: u32, reply: u32, parts: &[&[u8]]) {
    output.extend_from_slice(&NBD_REP_MAGIC.to_be_bytes());
    output.extend_from_slice(&option.to_be_bytes());
    output.extend_from_slice(&reply.to_be_bytes());
    output.extend_from_slice(&length(parts.iter().map(|part| part.len()).sum()).to_be_bytes());
    for part in parts {
        output.extend_from_slice(part);
    }
}

/// Every string is clipped, so that no answer comes near the 32 bits of its length.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("answers are bounded")
}
