//! A source: one component of a flow's workload, which sends requests.
//!
//! ```text
//!  pace (when) ─┐
//!               ├─> source ──> Request { id = source number, sequence }
//!  access (what)┘      ^
//!  trace (both) ───────┘
//! ```

use std::fmt;
use std::path::PathBuf;

use evenkeel_core::{Cost, FlowId, Request, RequestId, Time};
use evenkeel_trace::{Report, TraceRequest};

use crate::access::{Access, Accesses};
use crate::pace::{Clock, Pace};
use crate::random::Random;

/// The requests of a trace, as they are read. Constant memory is the reader's duty: the simulator holds
/// one request of it at a time.
pub type TraceRequests = Box<dyn TraceStream>;

/// Something that hands out the requests of a trace one after the other: any iterator, or the reader of a file.
pub trait TraceStream: Send {
    /// The next request; `None` once there are no more.
    ///
    /// # Errors
    /// If the trace cannot be read on.
    fn next_request(&mut self) -> Option<Result<TraceRequest, TraceFault>>;

    /// How the file has been read so far; `None` if it is not read from one.
    fn account(&self) -> Option<TraceAccount> {
        None
    }
}

impl<I: Iterator<Item = Result<TraceRequest, TraceFault>> + Send> TraceStream for I {
    fn next_request(&mut self) -> Option<Result<TraceRequest, TraceFault>> {
        self.next()
    }
}

/// How the file of a trace has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceAccount {
    /// The file.
    pub file: PathBuf,
    /// What it was read as, how sure that is, and what was left out of it.
    pub report: Report,
}

/// Why a trace cannot be read on: what the reader says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceFault {
    /// The file, if it is one.
    pub file: Option<PathBuf>,
    /// The line or record, from 1, if it is about one.
    pub line: Option<u64>,
    /// What is wrong, with the line or record.
    pub message: String,
    /// What to do about it.
    pub remedy: String,
}

impl fmt::Display for TraceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}: ", file.display())?;
        }
        write!(f, "{}; {}", self.message, self.remedy)
    }
}

impl std::error::Error for TraceFault {}

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
                *next = requests.next_request().transpose()?;
                match next {
                    None => never,
                    Some(request) if request.at < *latest => {
                        let message = format!(
                            "request {} of the trace goes back in time, from {} ns to {} ns",
                            self.sent + 1,
                            latest.as_nanos(),
                            request.at.as_nanos()
                        );
                        let remedy = "sort the trace by time".to_owned();
                        return Err(TraceFault { message, remedy, ..TraceFault::default() });
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

    /// How its trace has been read so far, if it sends one from a file.
    pub(crate) fn trace_account(&self) -> Option<TraceAccount> {
        match &self.generator {
            Generator::Trace { requests, .. } => requests.account(),
            Generator::Open(..) | Generator::Closed { .. } => None,
        }
    }

    /// Requests sent so far.
    pub(crate) const fn sent(&self) -> u64 {
        self.sent
    }
}
