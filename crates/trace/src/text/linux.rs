//! The text that blkparse prints by default: blkparse(1), "DEFAULT OUTPUT".

use evenkeel_core::Operation;

use super::{Context, Found, Parsed, Raw, words};
use crate::number::{nanos, sectors, whole};
use crate::reader::Event;

/// ```text
///  8,16  5  2  0.000001850 18615  Q   R 1444645666 + 256 [java]
///   │    │  │       │        │    │   │      │        │
///  dev  cpu seq  seconds    pid action RWBS sector  sectors
/// ```
pub(crate) struct Blkparse {
    /// The event that counts as arrival.
    arrival: Event,
    /// The summary at the end has begun.
    summary: bool,
}

impl Blkparse {
    pub(super) fn new(event: Event) -> Self {
        Self { arrival: event, summary: false }
    }

    pub(super) fn parse(&mut self, line: &[u8], context: &mut Context<'_>) -> Found {
        if self.summary || line.starts_with(b"CPU") || line.starts_with(b"Total (") {
            self.summary = true;
            return Ok(Parsed::Nothing);
        }
        // What blkparse says of the files that it was given.
        if line.starts_with(b"Input file ") {
            return Ok(Parsed::Nothing);
        }
        let mut words = words(line);
        let Some(device) = words.next() else { return Ok(Parsed::Nothing) };
        let numbers = device.iter().position(|byte| *byte == b',').map(|at| device.split_at(at));
        let is_device =
            numbers.is_some_and(|(major, minor)| whole(major).is_some() && whole(&minor[1..]).is_some());
        if !is_device {
            return Err("the device is not major,minor");
        }
        let mut number = |fault| words.next().and_then(whole).ok_or(fault);
        number("the CPU is no whole number")?;
        number("the sequence number is no whole number")?;
        let time = words.next().ok_or("the time is missing")?;
        nanos(time, 1_000_000_000).ok_or("the time is no number")?;
        words.next().and_then(whole).ok_or("the process is no whole number")?;
        let action = words.next().ok_or("the action is missing")?;
        if action != self.arrival.letter() {
            let letters = action.len() <= 2 && action.iter().all(u8::is_ascii_alphabetic);
            return if letters { Ok(Parsed::Nothing) } else { Err("the action is unknown") };
        }
        let letters = words.next().ok_or("the kind of request (RWBS) is missing")?;
        let Some(operation) = operation_of_letters(letters) else { return Ok(Parsed::Nothing) };
        let sector = words.next();
        let plus = words.next();
        let (offset, length) = match (sector, plus) {
            (Some(sector), Some(b"+")) => {
                let count = words.next().ok_or("the number of sectors is missing")?;
                let offset = sectors(sector, "the sector is no whole number")?;
                (offset, sectors(count, "the number of sectors is no whole number")?)
            }
            // Some kernels print a flush without a place, and commands of the driver with bytes only.
            _ if operation == Operation::Flush => (0, 0),
            _ => return Ok(Parsed::Nothing),
        };
        // A flush that carries data is a write.
        let operation =
            if operation == Operation::Flush && length > 0 { Operation::Write } else { operation };
        let at = context.nanos(time, 1_000_000_000)?;
        let offset = if operation == Operation::Flush { 0 } else { offset };
        let raw = Raw::new(at, 0, operation, offset, length)?;
        Ok(Parsed::Request(Raw { volume: context.volumes.number(device)?, ..raw }))
    }
}

/// The operation of an RWBS field: `R`, `WS`, `RA`, `D`, `FF`, `FWS`; `None` for `N` and others that move
/// nothing.
fn operation_of_letters(letters: &[u8]) -> Option<Operation> {
    let (flush, rest) = match letters.strip_prefix(b"F") {
        Some(rest) => (true, rest),
        None => (false, letters),
    };
    match rest.first() {
        Some(b'D') => Some(Operation::Trim),
        Some(b'R') => Some(Operation::Read),
        // `FW…` may be either; its size tells.
        Some(b'W') => Some(if flush { Operation::Flush } else { Operation::Write }),
        _ if flush => Some(Operation::Flush),
        _ => None,
    }
}
