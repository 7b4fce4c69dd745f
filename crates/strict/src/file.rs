//! Reading a text before it is parsed: what is no text of a sensible size is refused like anything else.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::{ConfigError, ShownBytes};

/// The largest file that is read, in bytes.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// The text of the file at `path`. `otherwise` says what to do if it is not the kind of file that is meant, as
/// "name a configuration file".
///
/// # Errors
/// If it cannot be read, is above [`FILE_BYTES_MAX`] or not UTF-8.
pub fn read(path: &Path, otherwise: &str) -> Result<String, ConfigError> {
    read_up_to(path, FILE_BYTES_MAX, otherwise)
}

/// The same for a kind of file that may have up to `bytes_max` bytes.
///
/// # Errors
/// If it cannot be read, is above `bytes_max` or not UTF-8.
pub fn read_up_to(path: &Path, bytes_max: u64, otherwise: &str) -> Result<String, ConfigError> {
    let refused = |message: String, remedy: &str| ConfigError::whole_file(path, message, remedy);
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(bytes_max + 1).read_to_end(&mut bytes));
    if let Err(error) = read {
        return Err(refused(format!("cannot read the file: {error}"), "check its name and permissions"));
    }
    if bytes.len() as u64 > bytes_max {
        return Err(refused(format!("the file is larger than {}", ShownBytes(bytes_max)), otherwise));
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.split(|byte| *byte == b'\n').count();
        refused(format!("line {line} is not UTF-8"), "save the file as UTF-8")
    })
}
