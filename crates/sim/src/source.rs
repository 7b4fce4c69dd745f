//! A source: one component of a flow's workload, which sends requests.
//!
//! ```text
//!  pace (when) ─┐
//!               ├─> source ──> Request { id = source number, sequence }
//!  access (what)┘      ^
//!  trace (both) ───────┘
//! ```

use std::fmt;

use evenkeel_core::{Cost, FlowId, Request, RequestId, Time};
use evenkeel_trace::TraceRequest;

use crate::access::{Access, Accesses};
use crate::pace::{Clock, Pace};
use crate::random::Random;

/// The requests of a trace, as they are read. Constant memory is the reader's duty: the simulator holds
/// one request of it at a time.
pub type TraceRequests = Box<dyn Iterator<Item = Result<TraceRequest, TraceFault>> + Send>;

/// Why a trace cannot be read on: what the reader says, with file, line and remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TraceFault(pub String);

/// Requests that a source has sent, in the low bits of their identity.
const SEQUENCE_BITS: u32 = 40;

/// One component of a flow's workload.
pub struct SourceConfig {
    /// Whose requests these are.
    pub flow: FlowId,
    /// Names the stream of random numbers, together with the simulation's seed.
    pub stream: [u64; 2],
    /// When the source begins.
    pub from: Time,
    /// When it ends: nothing arrives at this instant or later. `None` for never.
    pub until: Option<Time>,
    /// At most this many requests.
    pub requests_max: Option<u64>,
    /// What it sends.
    pub load: Load,
}

/// What a source sends.
pub enum Load {
    /// Generated requests.
    Generated(Pace, Access),
    /// The requests of a trace; their instants count from the beginning of the source. They must not go
    /// back in time.
    Trace(TraceRequests),
}

impl fmt::Debug for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Generated(pace, access) => f.debug_tuple("Generated").field(pace).field(access).finish(),
            Self::Trace(_) => f.write_str("Trace"),
        }
    }
}

/// A source at work.
pub(crate) struct Source {
    pub(crate) flow: FlowId,
    number: u64,
    until: Time,
    left: u64,
    sent: u64,
    from: Time,
    random: Random,
    generator: Generator,
}

enum Generator {
    Open(Clock, Accesses),
    Closed { outstanding: u32, think: crate::random::Law, accesses: Accesses },
    Trace { requests: TraceRequests, next: Option<TraceRequest>, latest: Time },
}

impl Source {
    pub(crate) fn new(number: u32, seed: u64, config: SourceConfig) -> Self {
        let generator = match config.load {
            Load::Generated(Pace::Closed { outstanding, think }, access) => {
                Generator::Closed { outstanding, think, accesses: Accesses::new(access) }
            }
            Load::Generated(pace, access) => {
                Generator::Open(Clock::new(pace, config.from), Accesses::new(access))
            }
            Load::Trace(requests) => Generator::Trace { requests, next: None, latest: Time::ZERO },
        };
        Self {
            flow: config.flow,
            number: u64::from(number),
            until: config.until.unwrap_or(Time::from_nanos(u64::MAX)),
            left: config.requests_max.unwrap_or(u64::MAX),
            sent: 0,
            from: config.from,
            random: Random::new(seed, &config.stream),
            generator,
        }
    }

    /// The source that sent `request`.
    pub(crate) const fn of(id: RequestId) -> usize {
        (id.0 >> SEQUENCE_BITS) as usize
    }

    /// How many arrivals to expect at once when the source begins, and when it begins.
    pub(crate) fn first(&mut self) -> Result<(Time, u32), TraceFault> {
        match self.generator {
            Generator::Closed { outstanding, .. } => {
                let count = u64::from(outstanding).min(self.left);
                Ok((self.from, u32::try_from(count).unwrap_or(u32::MAX)))
            }
            Generator::Open(..) | Generator::Trace { .. } => Ok((self.following()?, 1)),
        }
    }

    /// The instant of the arrival after the latest one, in an open loop or a trace; the end of time if there
    /// is none.
    pub(crate) fn following(&mut self) -> Result<Time, TraceFault> {
        let never = Time::from_nanos(u64::MAX);
        if self.left == 0 {
            return Ok(never);
        }
        let at = match &mut self.generator {
            Generator::Open(clock, _) => clock.next(&mut self.random),
            Generator::Closed { .. } => never,
            Generator::Trace { requests, next, latest } => {
                *next = requests.next().transpose()?;
                match next {
                    None => never,
                    Some(request) if request.at < *latest => {
                        return Err(TraceFault(format!(
                            "request {} of the trace goes back in time, from {} ns to {} ns: sort the trace by time",
                            self.sent + 1,
                            latest.as_nanos(),
                            request.at.as_nanos()
                        )));
                    }
                    Some(request) => {
                        *latest = request.at;
                        self.from + request.at.since(Time::ZERO)
                    }
                }
            }
        };
        Ok(if at < self.until { at } else { never })
    }

    /// When a closed loop sends again after a reply at `now`; `None` for an open loop, or if it has ended.
    pub(crate) fn after_reply(&mut self, now: Time) -> Option<Time> {
        let Generator::Closed { think, .. } = &self.generator else { return None };
        if self.left == 0 {
            return None;
        }
        let at = now + self.random.span(*think);
        (at < self.until).then_some(at)
    }

    /// The request that arrives now; `None` if the source has sent all.
    pub(crate) fn send(&mut self) -> Option<Request> {
        self.left = self.left.checked_sub(1)?;
        let (operation, offset, length) = match &mut self.generator {
            Generator::Open(_, accesses) | Generator::Closed { accesses, .. } => {
                accesses.draw(&mut self.random)
            }
            Generator::Trace { next, .. } => {
                let request = next.take()?;
                (request.operation, request.offset, request.length)
            }
        };
        let id = RequestId(self.number << SEQUENCE_BITS | (self.sent & ((1 << SEQUENCE_BITS) - 1)));
        self.sent += 1;
        Some(Request { id, flow: self.flow, operation, offset, length, cost: Cost::ONE })
    }

    /// Sends nothing from now on.
    pub(crate) fn stop(&mut self) {
        self.left = 0;
    }

    /// Requests sent so far.
    pub(crate) const fn sent(&self) -> u64 {
        self.sent
    }
}
