//! Numbers of the protocol document under the names that it gives them, and reading them from bytes.
//!
//! Source: `doc/proto.md` of the NBD project, sections "Handshake", "Transmission" and "Values".
//! Every number travels in network byte order (big-endian).

/// What both styles of handshake begin with (`INIT_PASSWD`, the ASCII text `NBDMAGIC`).
pub const NBD_INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Second magic of the newstyle greeting, and head of every option (the ASCII text `IHAVEOPT`).
pub const NBD_OPTS_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Second magic of the oldstyle greeting (`cliserv_magic`), which is not spoken here.
pub const NBD_CLISERV_MAGIC: u64 = 0x0000_4202_8186_1253;
/// Head of every reply to an option.
pub const NBD_REP_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Head of every request.
pub const NBD_REQUEST_MAGIC: u32 = 0x2560_9513;
/// Head of every simple reply.
pub const NBD_SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Head of a chunk of a structured reply, which is never negotiated here.
pub const NBD_STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Handshake flag, server: fixed newstyle is spoken.
pub const NBD_FLAG_FIXED_NEWSTYLE: u16 = 1 << 0;
/// Handshake flag, server: the 124 zeroes after EXPORT_NAME can be left out.
pub const NBD_FLAG_NO_ZEROES: u16 = 1 << 1;
/// Client flag: fixed newstyle is spoken.
pub const NBD_FLAG_C_FIXED_NEWSTYLE: u32 = 1 << 0;
/// Client flag: leave out the 124 zeroes after EXPORT_NAME.
pub const NBD_FLAG_C_NO_ZEROES: u32 = 1 << 1;

/// Choose an export and begin transmission; cannot be answered with an error.
pub const NBD_OPT_EXPORT_NAME: u32 = 1;
/// Give up.
pub const NBD_OPT_ABORT: u32 = 2;
/// List the exports.
pub const NBD_OPT_LIST: u32 = 3;
/// Withdrawn; a number that must stay unused.
pub const NBD_OPT_PEEK_EXPORT: u32 = 4;
/// Go on under TLS.
pub const NBD_OPT_STARTTLS: u32 = 5;
/// Describe an export.
pub const NBD_OPT_INFO: u32 = 6;
/// Describe an export and begin transmission.
pub const NBD_OPT_GO: u32 = 7;
/// Use structured replies.
pub const NBD_OPT_STRUCTURED_REPLY: u32 = 8;
/// List contexts of metadata.
pub const NBD_OPT_LIST_META_CONTEXT: u32 = 9;
/// Select contexts of metadata.
pub const NBD_OPT_SET_META_CONTEXT: u32 = 10;
/// Use extended headers (experimental).
pub const NBD_OPT_EXTENDED_HEADERS: u32 = 11;

/// Done; no data.
pub const NBD_REP_ACK: u32 = 1;
/// One export of a listing.
pub const NBD_REP_SERVER: u32 = 2;
/// One piece of information on an export.
pub const NBD_REP_INFO: u32 = 3;
/// One context of metadata.
pub const NBD_REP_META_CONTEXT: u32 = 4;
/// The bit that marks a reply as an error.
pub const NBD_REP_FLAG_ERROR: u32 = 1 << 31;
/// The server does not know the option.
pub const NBD_REP_ERR_UNSUP: u32 = NBD_REP_FLAG_ERROR + 1;
/// The server's policy forbids it.
pub const NBD_REP_ERR_POLICY: u32 = NBD_REP_FLAG_ERROR + 2;
/// The option is malformed.
pub const NBD_REP_ERR_INVALID: u32 = NBD_REP_FLAG_ERROR + 3;
/// The server's platform does not support it.
pub const NBD_REP_ERR_PLATFORM: u32 = NBD_REP_FLAG_ERROR + 4;
/// Only under TLS.
pub const NBD_REP_ERR_TLS_REQD: u32 = NBD_REP_FLAG_ERROR + 5;
/// There is no such export.
pub const NBD_REP_ERR_UNKNOWN: u32 = NBD_REP_FLAG_ERROR + 6;
/// The server is shutting down.
pub const NBD_REP_ERR_SHUTDOWN: u32 = NBD_REP_FLAG_ERROR + 7;
/// The client must ask for the block sizes.
pub const NBD_REP_ERR_BLOCK_SIZE_REQD: u32 = NBD_REP_FLAG_ERROR + 8;
/// The request, or its reply, is too large.
pub const NBD_REP_ERR_TOO_BIG: u32 = NBD_REP_FLAG_ERROR + 9;
/// Extended headers must be negotiated first.
pub const NBD_REP_ERR_EXT_HEADER_REQD: u32 = NBD_REP_FLAG_ERROR + 10;

/// Information: size and transmission flags. Always sent.
pub const NBD_INFO_EXPORT: u16 = 0;
/// Information: the canonical name.
pub const NBD_INFO_NAME: u16 = 1;
/// Information: a text for people.
pub const NBD_INFO_DESCRIPTION: u16 = 2;
/// Information: the block sizes.
pub const NBD_INFO_BLOCK_SIZE: u16 = 3;

/// Read.
pub const NBD_CMD_READ: u16 = 0;
/// Write; the payload follows the header.
pub const NBD_CMD_WRITE: u16 = 1;
/// Disconnect; not answered.
pub const NBD_CMD_DISC: u16 = 2;
/// Make answered writes durable.
pub const NBD_CMD_FLUSH: u16 = 3;
/// Forget a range.
pub const NBD_CMD_TRIM: u16 = 4;
/// Read ahead into the server's cache.
pub const NBD_CMD_CACHE: u16 = 5;
/// Write zeroes, without a payload.
pub const NBD_CMD_WRITE_ZEROES: u16 = 6;
/// Ask for metadata.
pub const NBD_CMD_BLOCK_STATUS: u16 = 7;

/// Longest string of the protocol in bytes ("Conventions").
pub const NBD_MAX_STRING: usize = 4096;

/// Bytes of the server's greeting.
pub const GREETING_LEN: usize = 18;
/// Bytes of the client's flags.
pub const CLIENT_FLAGS_LEN: usize = 4;
/// Bytes before an option's data: magic, option, length.
pub const OPTION_HEADER_LEN: usize = 16;
/// Bytes before a reply's data: magic, option, type, length.
pub const OPTION_REPLY_HEADER_LEN: usize = 20;
/// The reserved zeroes at the end of the answer to EXPORT_NAME.
pub const EXPORT_NAME_ZEROES: usize = 124;

/// The document's name of an option, for messages; `None` if it has none.
#[must_use]
pub const fn option_name(option: u32) -> Option<&'static str> {
    Some(match option {
        NBD_OPT_EXPORT_NAME => "NBD_OPT_EXPORT_NAME",
        NBD_OPT_ABORT => "NBD_OPT_ABORT",
        NBD_OPT_LIST => "NBD_OPT_LIST",
        NBD_OPT_PEEK_EXPORT => "NBD_OPT_PEEK_EXPORT",
        NBD_OPT_STARTTLS => "NBD_OPT_STARTTLS",
        NBD_OPT_INFO => "NBD_OPT_INFO",
        NBD_OPT_GO => "NBD_OPT_GO",
        NBD_OPT_STRUCTURED_REPLY => "NBD_OPT_STRUCTURED_REPLY",
        NBD_OPT_LIST_META_CONTEXT => "NBD_OPT_LIST_META_CONTEXT",
        NBD_OPT_SET_META_CONTEXT => "NBD_OPT_SET_META_CONTEXT",
        NBD_OPT_EXTENDED_HEADERS => "NBD_OPT_EXTENDED_HEADERS",
        _ => return None,
    })
}

/// The document's name of an error reply, for messages; `None` if it has none.
#[must_use]
pub const fn reply_error_name(reply: u32) -> Option<&'static str> {
    Some(match reply {
        NBD_REP_ERR_UNSUP => "NBD_REP_ERR_UNSUP",
        NBD_REP_ERR_POLICY => "NBD_REP_ERR_POLICY",
        NBD_REP_ERR_INVALID => "NBD_REP_ERR_INVALID",
        NBD_REP_ERR_PLATFORM => "NBD_REP_ERR_PLATFORM",
        NBD_REP_ERR_TLS_REQD => "NBD_REP_ERR_TLS_REQD",
        NBD_REP_ERR_UNKNOWN => "NBD_REP_ERR_UNKNOWN",
        NBD_REP_ERR_SHUTDOWN => "NBD_REP_ERR_SHUTDOWN",
        NBD_REP_ERR_BLOCK_SIZE_REQD => "NBD_REP_ERR_BLOCK_SIZE_REQD",
        NBD_REP_ERR_TOO_BIG => "NBD_REP_ERR_TOO_BIG",
        NBD_REP_ERR_EXT_HEADER_REQD => "NBD_REP_ERR_EXT_HEADER_REQD",
        _ => return None,
    })
}

/// Reads numbers and strings from the front of a slice. A read past the end yields `None` and
/// takes nothing.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What has not been read.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(head)
    }

    /// A number of 16 bits.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// A number of 32 bits.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// A number of 64 bits.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*head)
    }
}

/// Collects one message of known length from fragments.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    bytes: Vec<u8>,
}

impl Gather {
    /// Takes from the front of `input` until `want` bytes are together; whether they are.
    pub(crate) fn fill(&mut self, input: &mut &[u8], want: usize) -> bool {
        let missing = want.saturating_sub(self.bytes.len());
        let (head, rest) = input.split_at(missing.min(input.len()));
        self.bytes.extend_from_slice(head);
        *input = rest;
        self.bytes.len() >= want
    }

    /// What is together so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes the message out, leaving room for the next.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Forgets the message.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }
}

/// A string of the protocol: UTF-8 without NUL, at most [`NBD_MAX_STRING`] bytes.
pub(crate) fn protocol_string(bytes: &[u8]) -> Option<&str> {
    if bytes.len() > NBD_MAX_STRING || bytes.contains(&0) {
        return None;
    }
    std::str::from_utf8(bytes).ok()
}

/// The longest head of `text` that is a string of the protocol.
pub(crate) fn clip(text: &str) -> &str {
    let text = text.split('\0').next().unwrap_or_default();
    &text[..text.floor_char_boundary(NBD_MAX_STRING)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_magics_spell_what_the_document_says() {
        assert_eq!(&NBD_INIT_MAGIC.to_be_bytes(), b"NBDMAGIC");
        assert_eq!(&NBD_OPTS_MAGIC.to_be_bytes(), b"IHAVEOPT");
        assert_eq!(NBD_REP_MAGIC.to_be_bytes()[1..], [0x03, 0xe8, 0x89, 0x04, 0x55, 0x65, 0xa9]);
        assert_eq!(NBD_REP_ERR_TOO_BIG, (1 << 31) + 9);
    }

    #[test]
    fn a_read_past_the_end_takes_nothing() {
        let mut reader = Reader::new(&[1, 2, 3]);
        assert_eq!(reader.u32(), None);
        assert_eq!(reader.u16(), Some(0x0102));
        assert_eq!(reader.bytes(2), None);
        assert_eq!(reader.bytes(usize::MAX), None);
        assert_eq!(reader.rest(), [3]);
    }

    #[test]
    fn clipping_keeps_whole_characters() {
        assert_eq!(clip("a\0b"), "a");
        let long = "é".repeat(3000);
        assert_eq!(clip(&long).len(), 4096);
        let odd = format!("a{long}");
        assert_eq!(clip(&odd).len(), 4095);
    }

    #[test]
    fn strings_obey_the_conventions() {
        assert_eq!(protocol_string(b""), Some(""));
        assert_eq!(protocol_string(&[b'a'; 4096]).map(str::len), Some(4096));
        assert_eq!(protocol_string(&[b'a'; 4097]), None);
        assert_eq!(protocol_string(b"a\0"), None);
        assert_eq!(protocol_string(&[0xff]), None);
    }
}
