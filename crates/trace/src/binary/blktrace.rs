//! Binary events of Linux blktrace: `struct blk_io_trace` of `include/uapi/linux/blktrace_api.h`.
//!
//! ```text
//!  magic u32 | sequence u32 | time u64 ns | sector u64 | bytes u32 | action u32 |
//!  pid u32 | device u32 | cpu u32 | error u16 | pdu_len u16      48 bytes, then pdu_len bytes
//!
//!  action: lower half what happened (1 queued, 7 issued, 8 completed), upper half a set of kinds
//! ```
//! blktrace writes one file for each CPU; `blkparse -d FILE` puts them into one, in order of time.

use evenkeel_core::Operation;

use super::{Order, Stop, record};
use crate::input::Input;
use crate::reader::Event;
use crate::text::{Context, Found, Parsed, Raw};

const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;
const HEADER: usize = 48;

const READ: u32 = 1;
const WRITE: u32 = 1 << 1;
const FLUSH: u32 = 1 << 2;
const NOTIFY: u32 = 1 << 10;
const DISCARD: u32 = 1 << 13;

pub(crate) struct Blktrace {
    action: u32,
    order: Option<Order>,
}

impl Blktrace {
    pub(super) fn new(event: Event) -> Self {
        let action = match event {
            Event::Queued => 1,
            Event::Issued => 7,
            Event::Completed => 8,
        };
        Self { action, order: None }
    }

    pub(super) fn next(
        &mut self,
        input: &mut Input,
        context: &mut Context<'_>,
    ) -> Result<Option<Found>, Stop> {
        let Some(event) = record::<HEADER>(input)? else { return Ok(None) };
        let order = match self.order {
            Some(order) if order.u32(&event, 0) == MAGIC | VERSION => order,
            Some(_) => return Err(Stop::Lost("an event does not begin with the magic number")),
            None => order_of(&event).ok_or(Stop::Lost("the first event has no known magic number"))?,
        };
        self.order = Some(order);
        let payload = u64::from(order.u16(&event, 46));
        if input.skip(payload)? < payload {
            return Err(Stop::Truncated);
        }
        Ok(Some(self.request(&event, order, context)))
    }

    fn request(&self, event: &[u8; HEADER], order: Order, context: &mut Context<'_>) -> Found {
        let action = order.u32(event, 28);
        let (what, kinds) = (action & 0xffff, action >> 16);
        if kinds & NOTIFY != 0 || what != self.action {
            return Ok(Parsed::Nothing);
        }
        let length = u64::from(order.u32(event, 24));
        let operation = if kinds & DISCARD != 0 {
            Operation::Trim
        } else if kinds & FLUSH != 0 && length == 0 {
            Operation::Flush
        } else if kinds & WRITE != 0 {
            Operation::Write
        } else if kinds & READ != 0 {
            Operation::Read
        } else {
            return Ok(Parsed::Nothing);
        };
        let offset = order.u64(event, 16).checked_mul(512).ok_or("the sector is too large")?;
        let offset = if operation == Operation::Flush { 0 } else { offset };
        let device = order.u32(event, 36);
        let name = format!("{},{}", device >> 20, device & 0xf_ffff);
        let raw = Raw::new(order.u64(event, 8), 0, operation, offset, length)?;
        Ok(Parsed::Request(Raw { volume: context.volumes.number(name.as_bytes())?, ..raw }))
    }
}

/// Whether `head` begins with an event.
pub(crate) fn begins(head: &[u8]) -> bool {
    head.len() >= HEADER && order_of(head).is_some()
}

fn order_of(event: &[u8]) -> Option<Order> {
    [Order::Little, Order::Big].into_iter().find(|order| order.u32(event, 0) == MAGIC | VERSION)
}
