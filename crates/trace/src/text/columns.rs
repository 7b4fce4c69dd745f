//! Formats of the disk and flash simulators: five columns between white space.

use evenkeel_core::Operation;

use super::{Context, Fault, Found, Parsed, Raw, words};
use crate::number::{hexadecimal, sectors, whole};

/// `ms device block sectors flags`: DiskSim 4.0 reference manual, section on input traces; flags are
/// hexadecimal, bit 0 is `READ`.
pub(super) fn disksim(line: &[u8], context: &mut Context<'_>) -> Found {
    let [time, device, block, count, flags] = five(line)?;
    let at = context.nanos(time, 1_000_000)?;
    let flags = hexadecimal(flags).ok_or("the flags are no hexadecimal number")?;
    let operation = if flags & 1 == 1 { Operation::Read } else { Operation::Write };
    request(at, device, block, count, operation, context)
}

/// `ns device LBA sectors operation`: MQSim, traces/README; SSDsim's layout is the same, and files with
/// the operations swapped are about.
pub(super) fn nanoseconds(line: &[u8], read: &[u8], write: &[u8], context: &mut Context<'_>) -> Found {
    let [time, device, block, count, operation] = five(line)?;
    let at = whole(time).ok_or("the time is no whole number of nanoseconds")?;
    let operation = if operation == read {
        Operation::Read
    } else if operation == write {
        Operation::Write
    } else {
        return Err("the operation is neither 0 nor 1");
    };
    request(at, device, block, count, operation, context)
}

fn request(
    at: u64,
    device: &[u8],
    block: &[u8],
    count: &[u8],
    operation: Operation,
    context: &mut Context<'_>,
) -> Found {
    whole(device).ok_or("the device is no whole number")?;
    let offset = sectors(block, "the block is no whole number")?;
    let length = sectors(count, "the number of sectors is no whole number")?;
    let raw = Raw::new(at, 0, operation, offset, length)?;
    Ok(Parsed::Request(Raw { volume: context.volumes.number(device)?, ..raw }))
}

fn five(line: &[u8]) -> Result<[&[u8]; 5], Fault> {
    let mut found: [&[u8]; 5] = [b""; 5];
    let mut words = words(line);
    for slot in &mut found {
        *slot = words.next().ok_or("the line has fewer than five columns")?;
    }
    if words.next().is_some() { Err("the line has more than five columns") } else { Ok(found) }
}
