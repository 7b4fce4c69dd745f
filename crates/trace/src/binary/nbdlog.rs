//! The transaction log of nbd-server (`transactionlog` in nbd-server(5)): the packets as they went over
//! the wire, big-endian, without times. The NBD protocol document gives the packets; `nbd.h` and
//! `nbd-trdump` of nbd 3.24 give the option record, after which writes are followed by their data.
//!
//! ```text
//!  request  25609513 | flags u16 type u16 | cookie u64 | offset u64 | length u32      28 bytes
//!  option   25609514 | 1 = data follow writes | … | 4A93BA39A54F31B6 | on u32         28 bytes
//!  reply    67446698 | error u32 | cookie u64                                          16 bytes
//!  chunk    668E33EF | flags u16 type u16 | cookie u64 | length u32                    20 bytes
//! ```

use evenkeel_core::{Operation, Span};

use super::{Order, Stop, record};
use crate::input::Input;
use crate::text::{Context, Found, Parsed, Raw};

const BE: Order = Order::Big;
const REQUEST: u32 = 0x2560_9513;
const OPTION: u32 = 0x2560_9514;
const REPLY: u32 = 0x6744_6698;
const CHUNK: u32 = 0x668e_33ef;
const OPTION_MARK: u64 = 0x4a93_ba39_a54f_31b6;

pub(crate) struct NbdLog {
    interval: Option<Span>,
    requests: u64,
    data_follow: bool,
}

impl NbdLog {
    pub(super) fn new(interval: Option<Span>) -> Self {
        Self { interval, requests: 0, data_follow: false }
    }

    pub(super) fn next(
        &mut self,
        input: &mut Input,
        context: &mut Context<'_>,
    ) -> Result<Option<Found>, Stop> {
        let interval = self.interval.ok_or(Stop::NoTimes)?;
        let Some(magic) = record::<4>(input)? else { return Ok(None) };
        let rest = match BE.u32(&magic, 0) {
            REQUEST | OPTION => 24,
            REPLY => 12,
            CHUNK => 16,
            _ => return Err(Stop::Lost("a packet has no known magic number")),
        };
        let bytes = input.bytes(rest)?;
        if bytes.len() < rest {
            return Err(Stop::Truncated);
        }
        if rest < 24 {
            return Ok(Some(Ok(Parsed::Nothing)));
        }
        let (kind, offset, length) = (BE.u16(bytes, 2), BE.u64(bytes, 12), BE.u32(bytes, 20));
        if BE.u32(&magic, 0) == OPTION {
            if offset != OPTION_MARK || BE.u32(bytes, 0) != 1 {
                return Err(Stop::Lost("an option of the log is unknown"));
            }
            self.data_follow = length != 0;
            return Ok(Some(Ok(Parsed::Nothing)));
        }
        if self.data_follow && kind == 1 {
            let data = u64::from(length);
            if input.skip(data)? < data {
                return Err(Stop::Truncated);
            }
        }
        let Some(operation) = operation(kind) else { return Ok(Some(Ok(Parsed::Nothing))) };
        Ok(Some(self.request(interval, operation, offset, length, context)))
    }

    fn request(
        &mut self,
        interval: Span,
        operation: Operation,
        offset: u64,
        length: u32,
        context: &mut Context<'_>,
    ) -> Found {
        let at = self.requests.checked_mul(interval.as_nanos()).ok_or("the interval is too long")?;
        self.requests += 1;
        let raw = Raw::new(at, 0, operation, offset, u64::from(length))?;
        Ok(Parsed::Request(Raw { volume: context.volumes.number(b"0")?, ..raw }))
    }
}

/// Whether `head` begins with a packet.
pub(crate) fn begins(head: &[u8]) -> bool {
    head.len() >= 16 && [REQUEST, OPTION, REPLY, CHUNK].contains(&BE.u32(head, 0))
}

fn operation(kind: u16) -> Option<Operation> {
    Some(match kind {
        0 => Operation::Read,
        1 => Operation::Write,
        3 => Operation::Flush,
        4 => Operation::Trim,
        6 => Operation::WriteZeroes,
        _ => return None,
    })
}
