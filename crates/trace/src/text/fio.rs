//! fio's I/O logs: fio documentation, section "Trace file format".

use evenkeel_core::Operation;

use super::{Context, Found, Parsed, Raw, words};
use crate::number::whole;

/// ```text
///  version 2:       file action [offset length]     time passes only by `wait` lines, in microseconds
///  version 3:  time file action [offset length]     time in microseconds
/// ```
pub(crate) struct Fio {
    version: u8,
    /// Time so far, in nanoseconds: the sum of all waits.
    now: u64,
}

impl Fio {
    pub(super) fn new(version: u8) -> Self {
        Self { version, now: 0 }
    }

    pub(super) fn parse(&mut self, line: &[u8], context: &mut Context<'_>) -> Found {
        if line.starts_with(b"fio version ") {
            let stated = line.strip_prefix(b"fio version ").and_then(|rest| rest.first());
            let same = stated.is_some_and(|digit| digit.wrapping_sub(b'0') == self.version);
            return if same { Ok(Parsed::Nothing) } else { Err("the heading names another version") };
        }
        let mut words = words(line);
        if self.version == 3 {
            let time = words.next().ok_or("the line is empty")?;
            self.now = context.nanos(time, 1_000)?;
        }
        let file = words.next().ok_or("the file is missing")?;
        let action = words.next().ok_or("the action is missing")?;
        let numbers = [words.next(), words.next()];
        let number = |which: usize| numbers[which].and_then(whole);
        let operation = match action {
            b"add" | b"open" | b"close" if numbers[0].is_none() => return Ok(Parsed::Nothing),
            b"wait" if self.version == 2 => {
                let micros = number(0).ok_or("the wait is no whole number")?;
                let nanos = micros.checked_mul(1_000).and_then(|nanos| self.now.checked_add(nanos));
                self.now = nanos.ok_or("the waits add up to more than 584 years")?;
                return Ok(Parsed::Nothing);
            }
            b"read" => Operation::Read,
            b"write" => Operation::Write,
            b"sync" | b"datasync" | b"sync_file_range" => Operation::Flush,
            b"trim" => Operation::Trim,
            _ => return Err("the action is unknown"),
        };
        let raw = if operation == Operation::Flush {
            Raw::new(self.now, 0, operation, 0, 0)?
        } else {
            let offset = number(0).ok_or("the offset is no whole number")?;
            let length = number(1).ok_or("the length is no whole number")?;
            Raw::new(self.now, 0, operation, offset, length)?
        };
        Ok(Parsed::Request(Raw { volume: context.volumes.number(file)?, ..raw }))
    }
}
