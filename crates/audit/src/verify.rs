//! Offline proof that a log is the one that was written.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use evenkeel_core::Time;

use crate::block::Before;
use crate::error::LogError;
use crate::log::{Step, Stop, Walk};
use crate::segment::{Finding, What};

/// What to hold a log against, besides itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expected {
    /// The public key that it must be signed with. Without it a log that was rewritten as a whole and
    /// signed with another key passes.
    pub key: Option<[u8; 32]>,
    /// What an earlier verification stated. Who keeps a statement can show that the log was rewritten
    /// since, even by the owner of the key.
    pub statement: Option<Statement>,
}

/// What a log held at one point: enough to recognise everything before it. Written
/// `LOG:FILE:BLOCKS:CHAIN` in hexadecimal and decimal numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The log's id.
    pub log: [u8; 16],
    /// The number of a file.
    pub segment: u64,
    /// Blocks of that file.
    pub blocks: u64,
    /// The chain after them.
    pub chain: [u8; 32],
}

/// What a verification found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verification {
    /// Files that were read.
    pub files: u64,
    /// The number of the first of them; older ones made room.
    pub first_file: u64,
    /// Blocks.
    pub blocks: u64,
    /// The number of the first record that is still there.
    pub first_record: u64,
    /// The number after the last intact record.
    pub records: u64,
    /// Good signatures.
    pub checkpoints: u64,
    /// The key of the last file; `None` if no header could be read.
    pub key: Option<[u8; 32]>,
    /// The instant of the last good signature.
    pub signed_until: Option<Time>,
    /// Files whose writer crashed, as their successors state.
    pub torn: Vec<u64>,
    /// What the log held at its last good signature.
    pub statement: Option<Statement>,
    /// The first thing that is wrong; `None` if all is as it was written.
    pub finding: Option<Finding>,
}

/// Verifies the log in a folder, or one file of it.
///
/// # Errors
/// If there is no log, it is of another version or cannot be read. What is wrong *in* a log is no error
/// but a [`Verification::finding`].
pub fn verify(path: &Path, expected: &Expected) -> Result<Verification, LogError> {
    let mut walk = Walk::new(path, expected.key)?;
    let mut result = Verification {
        files: 0,
        first_file: 0,
        blocks: 0,
        first_record: 0,
        records: 0,
        checkpoints: 0,
        key: None,
        signed_until: None,
        torn: Vec::new(),
        statement: None,
        finding: None,
    };
    let mut wanted = expected.statement;
    let finding = loop {
        match walk.step() {
            Ok(Some(step)) => {
                if let Some(what) = take_in(&mut result, &walk, &step, &mut wanted) {
                    break walk.finding(what).map(|(_, finding)| finding);
                }
            }
            Ok(None) => break at_end(&result, &walk, path, wanted),
            Err(Stop::Error(error)) => return Err(error),
            Err(Stop::Found(_, finding)) => break Some(finding),
        }
    };
    result.torn = walk.torn;
    result.finding = finding;
    Ok(result)
}

/// Counts a step; what contradicts the statement, if something does.
fn take_in(
    result: &mut Verification,
    walk: &Walk,
    step: &Step,
    wanted: &mut Option<Statement>,
) -> Option<What> {
    let (header, position) = (walk.header()?, walk.position()?);
    if matches!(step, Step::Begin) {
        if result.files == 0 {
            (result.first_file, result.first_record) = (header.segment, header.first_record);
        }
        result.files += 1;
        result.key = Some(header.key);
        result.records = header.first_record;
    }
    result.blocks += 1;
    if let Step::Events(events) = step {
        let records = events.iter().filter(|event| matches!(event, crate::Event::Record(_))).count();
        result.records += records as u64;
    }
    if let Step::Checkpoint(checkpoint) = step {
        result.checkpoints += 1;
        result.signed_until = Some(checkpoint.at);
        let Before { blocks, chain, .. } = position;
        result.statement = Some(Statement { log: header.log, segment: header.segment, blocks, chain });
    }
    let due = wanted.filter(|it| it.segment == header.segment && it.blocks == position.blocks)?;
    *wanted = None;
    (due.log != header.log || due.chain != position.chain).then_some(What::NotAsStated)
}

/// What is wrong with a log all of whose files are in order.
fn at_end(result: &Verification, walk: &Walk, path: &Path, wanted: Option<Statement>) -> Option<Finding> {
    let header = walk.header()?;
    if path.is_dir() && result.first_file > header.oldest {
        let (segment, record) = (header.oldest, result.first_record);
        let what = What::Missing;
        return Some(Finding { segment, block: 0, offset: 0, record, after: None, what });
    }
    // A file that made room can no longer be held against anything.
    let lost = wanted.filter(|it| it.log != header.log || it.segment >= result.first_file);
    lost.and_then(|_| walk.finding(What::NotAsStated)).map(|(_, finding)| finding)
}

impl Verification {
    /// Whether the log is as it was written.
    #[must_use]
    pub const fn is_good(&self) -> bool {
        self.finding.is_none()
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}:{}", hex(&self.log), self.segment, self.blocks, hex(&self.chain))
    }
}

impl FromStr for Statement {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "a statement is LOG:FILE:BLOCKS:CHAIN as `evenkeel audit verify` prints it";
        let parts: Vec<&str> = text.split(':').collect();
        let [log, segment, blocks, chain] = parts[..] else { return Err(FORM) };
        Ok(Self {
            log: from_hex(log).ok_or(FORM)?,
            segment: segment.parse().map_err(|_| FORM)?,
            blocks: blocks.parse().map_err(|_| FORM)?,
            chain: from_hex(chain).ok_or(FORM)?,
        })
    }
}

/// Bytes as hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `N` bytes from 2·`N` hexadecimal digits.
#[must_use]
pub fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let text = text.as_bytes();
    if text.len() != 2 * N || !text.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}
