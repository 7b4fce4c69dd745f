//! Why an audit log cannot be read, or written.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why bytes are no content of an audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Malformed {
    /// It ends in the middle.
    #[error("it ends in the middle")]
    Short,
    /// A number is not written as numbers are.
    #[error("a number is not written as numbers are")]
    Varint,
    /// A number is out of its range.
    #[error("a number is out of its range")]
    Range,
    /// A text is too long or not UTF-8.
    #[error("a text is too long or not UTF-8")]
    Text,
    /// A kind of block, event, operation or change that this version does not know.
    #[error("it holds something of an unknown kind ({0})")]
    Kind(u8),
    /// Parameters that are no promise.
    #[error("its parameters are no promise")]
    Promise,
    /// Something follows where nothing should.
    #[error("something follows where nothing should")]
    Trailing,
}

/// Why an audit log could not be read or written. Nothing has been overwritten.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LogError {
    /// The system said no.
    #[error("{}: {error}; check the name, the permissions and the room on the disk", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// What it said.
        error: io::Error,
    },
    /// Not an audit log.
    #[error("{}: this is no audit log (it does not begin with \"EVENKEEL\"); name the folder or a file that the gateway wrote", path.display())]
    NotALog {
        /// Which file.
        path: PathBuf,
    },
    /// An audit log of another version.
    #[error("{}: this audit log has version {found}, and this program reads version {}; read it with the program that wrote it, and give new logs a folder of their own", path.display(), crate::VERSION)]
    Version {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: u16,
    },
    /// Altered, truncated or damaged.
    #[error("{}: {finding}; the log cannot be trusted from there on, `evenkeel audit verify` tells more", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Where and how.
        finding: Box<crate::Finding>,
    },
    /// There is nothing in the folder.
    #[error("{}: there is no audit log in this folder (files named 00000001.audit and so on)", path.display())]
    Empty {
        /// Which folder.
        path: PathBuf,
    },
    /// Another writer has it open.
    #[error("{}: another gateway writes to this audit log; give each store a folder of its own", path.display())]
    Busy {
        /// Which folder.
        path: PathBuf,
    },
    /// The key file is none.
    #[error("{}: this is no signing key (64 hexadecimal digits); move it away, and a new one is made", path.display())]
    BadKey {
        /// Which file.
        path: PathBuf,
    },
    /// A limit that cannot be kept.
    #[error("audit log limits: {0}")]
    Limits(&'static str),
}
