//! Formats of comma-separated values.

use evenkeel_core::Operation;

use super::{Context, Fault, Found, Parsed, Raw, cells};
use crate::number::{sectors, whole};

const SECOND: u64 = 1_000_000_000;

/// `ASU,LBA,bytes,R|W,seconds`: "Trace File Format Specification", Storage Performance Council, 1.0.1.
/// Further columns are allowed there and ignored here.
pub(super) fn spc(line: &[u8], context: &mut Context<'_>) -> Found {
    let [asu, lba, bytes, operation, seconds] = cells(line)?;
    let operation = letter(operation)?;
    whole(asu).ok_or("the ASU is no whole number")?;
    let offset = sectors(lba, "the LBA is no whole number")?;
    let length = whole(bytes).ok_or("the size is no whole number")?;
    let at = context.nanos(seconds, SECOND)?;
    request(at, asu, operation, offset, length, context)
}

/// `FILETIME,host,disk,Read|Write,offset,bytes,response`: Narayanan et al., "Write Off-Loading", FAST 2008,
/// README of the traces: times in units of 100 ns.
pub(super) fn msr(line: &[u8], context: &mut Context<'_>) -> Found {
    let [time, host, disk, operation, offset, bytes] = cells(line)?;
    let operation = match operation {
        b"Read" => Operation::Read,
        b"Write" => Operation::Write,
        _ => return Err("the operation is neither Read nor Write"),
    };
    let at = context.nanos(time, 100)?;
    let offset = whole(offset).ok_or("the offset is no whole number")?;
    let length = whole(bytes).ok_or("the size is no whole number")?;
    // The name is `host.disk`, on the stack if it is of a usual length.
    let mut name = [0_u8; 64];
    let size = host.len() + 1 + disk.len();
    if size > name.len() {
        return Err("the host's name is longer than 60 letters");
    }
    name[..host.len()].copy_from_slice(host);
    name[host.len()] = b'.';
    name[host.len() + 1..size].copy_from_slice(disk);
    request(at, &name[..size], operation, offset, length, context)
}

/// `Timestamp,Response,IOType,LUN,Offset,Size`: Lee et al., "Understanding storage traffic characteristics
/// on enterprise virtual desktop infrastructure", SYSTOR 2017. Lines without a type are other commands.
pub(super) fn systor17(line: &[u8], context: &mut Context<'_>) -> Found {
    let [seconds, response, kind, lun, offset, bytes] = cells(line)?;
    if line == b"Timestamp,Response,IOType,LUN,Offset,Size" {
        return Ok(Parsed::Nothing);
    }
    let at = context.nanos(seconds, SECOND)?;
    if !response.is_empty() {
        context.nanos(response, SECOND).map_err(|_| "the response time is no number")?;
    }
    if kind.is_empty() {
        return Ok(Parsed::Nothing);
    }
    let operation = letter(kind)?;
    let offset = whole(offset).ok_or("the offset is no whole number")?;
    let length = whole(bytes).ok_or("the size is no whole number")?;
    request(at, lun, operation, offset, length, context)
}

/// `device_id,opcode,offset,length,timestamp`: Li et al., "An in-depth analysis of cloud block storage
/// workloads", IISWC 2020, README of the traces: times in microseconds.
pub(super) fn alibaba(line: &[u8], context: &mut Context<'_>) -> Found {
    let [device, operation, offset, length, micros] = cells(line)?;
    if line == b"device_id,opcode,offset,length,timestamp" {
        return Ok(Parsed::Nothing);
    }
    let operation = letter(operation)?;
    let offset = whole(offset).ok_or("the offset is no whole number")?;
    let length = whole(length).ok_or("the length is no whole number")?;
    let at = context.nanos(micros, 1_000)?;
    request(at, device, operation, offset, length, context)
}

/// `Timestamp,Offset,Size,IOType,VolumeID`: Zhang et al., "OSCA", USENIX ATC 2020, README of the traces:
/// seconds, sectors of 512 bytes, 0 = read, 1 = write.
pub(super) fn tencent(line: &[u8], context: &mut Context<'_>) -> Found {
    let [seconds, offset, size, kind, volume] = cells(line)?;
    if line == b"Timestamp,Offset,Size,IOType,VolumeID" {
        return Ok(Parsed::Nothing);
    }
    let operation = match kind {
        b"0" => Operation::Read,
        b"1" => Operation::Write,
        _ => return Err("the type is neither 0 (read) nor 1 (write)"),
    };
    let offset = sectors(offset, "the offset is no whole number")?;
    let length = sectors(size, "the size is no whole number")?;
    whole(volume).ok_or("the volume is no whole number")?;
    let at = context.nanos(seconds, SECOND)?;
    request(at, volume, operation, offset, length, context)
}

fn letter(text: &[u8]) -> Result<Operation, Fault> {
    match text {
        b"R" | b"r" | b"Read" => Ok(Operation::Read),
        b"W" | b"w" | b"Write" => Ok(Operation::Write),
        _ => Err("the operation is neither R nor W"),
    }
}

fn request(
    at: u64,
    volume: &[u8],
    operation: Operation,
    offset: u64,
    length: u64,
    context: &mut Context<'_>,
) -> Found {
    let raw = Raw::new(at, 0, operation, offset, length)?;
    Ok(Parsed::Request(Raw { volume: context.volumes.number(volume)?, ..raw }))
}
