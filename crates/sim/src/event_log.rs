//! The event log: everything that happens, a line each, in a form that stays.
//!
//! ```text
//!  10000000 arrival flow=1 id=1099511627776 read offset=40960 length=4096
//!  10000000 submit flow=1 id=1099511627776 outstanding=1
//!  20000000 reply flow=1 id=1099511627776 latency_ns=10000000 class=1 promise_ns=250000000
//! ```
//!
//! The first word is the instant in nanoseconds. The same seed gives the same bytes.

use std::io::{self, Write};

use evenkeel_core::{FlowId, Operation, Record, Request, Slo, Submission, Time};

use crate::simulation::{Change, Observer};

/// Writes the event log.
pub struct EventLog<W> {
    out: W,
    /// The first failure; nothing is written after it.
    failure: Option<io::Error>,
}

impl<W: Write> EventLog<W> {
    /// A log that is written to `out`, which should be buffered.
    pub const fn new(out: W) -> Self {
        Self { out, failure: None }
    }

    /// Flushes.
    ///
    /// # Errors
    /// The first failure to write, if there was one.
    pub fn finish(mut self) -> io::Result<W> {
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => self.out.flush().map(|()| self.out),
        }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        if self.failure.is_none()
            && let Err(failure) = self.out.write_fmt(line)
        {
            self.failure = Some(failure);
        }
    }
}

impl<W: Write> Observer for EventLog<W> {
    fn on_arrival(&mut self, now: Time, request: &Request) {
        let Request { id, flow, operation, offset, length, .. } = request;
        let operation = operation_name(*operation);
        let (at, flow, id) = (now.as_nanos(), flow.0, id.0);
        self.line(format_args!(
            "{at} arrival flow={flow} id={id} {operation} offset={offset} length={length}\n"
        ));
    }

    fn on_submit(&mut self, now: Time, submission: &Submission, outstanding: u32) {
        let (at, flow, id) = (now.as_nanos(), submission.request.flow.0, submission.request.id.0);
        self.line(format_args!("{at} submit flow={flow} id={id} outstanding={outstanding}\n"));
    }

    fn on_reply(&mut self, record: &Record, _: u32) {
        let (at, flow, id) = (record.completion.as_nanos(), record.request.flow.0, record.request.id.0);
        let latency = record.latency().as_nanos();
        match (record.class, record.promise) {
            (Some(class), Some(promise)) => self.line(format_args!(
                "{at} reply flow={flow} id={id} latency_ns={latency} class={} promise_ns={}\n",
                class + 1,
                promise.as_nanos()
            )),
            _ => self.line(format_args!("{at} reply flow={flow} id={id} latency_ns={latency} outside\n")),
        }
    }

    fn on_configure(&mut self, now: Time, flow: FlowId, slo: &Slo) {
        let classes: Vec<String> = slo.classes().iter().map(ToString::to_string).collect();
        let promise = if classes.is_empty() { "background".to_owned() } else { classes.join(" ") };
        let weight = slo.weight().as_u32();
        self.line(format_args!("{} configure flow={} weight={weight} {promise}\n", now.as_nanos(), flow.0));
    }

    fn on_change(&mut self, now: Time, change: &Change) {
        let at = now.as_nanos();
        match change {
            Change::Configure(..) => {}
            Change::Group(group, _) => self.line(format_args!("{at} group flow={}\n", group.0)),
            Change::Join(flow, membership) => {
                self.line(format_args!("{at} join flow={} group={}\n", flow.0, membership.group.0));
            }
            Change::Cost(flow, _) => self.line(format_args!("{at} cost flow={}\n", flow.0)),
            Change::Stop(flow) => self.line(format_args!("{at} stop flow={}\n", flow.0)),
            Change::Scheduler(scheduler) => self.line(format_args!("{at} scheduler {}\n", scheduler.name())),
            Change::Spare(spare) => self.line(format_args!("{at} spare {spare:?}\n")),
            Change::Speed(speed) => self.line(format_args!("{at} capacity millionths={speed}\n")),
            Change::Depth(depth) => self.line(format_args!("{at} depth {depth}\n")),
            Change::Adapt(control) => self.line(format_args!("{at} depth {} adapted\n", control.depth())),
        }
    }
}

/// As traces and logs call it.
#[must_use]
pub const fn operation_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Read => "read",
        Operation::Write => "write",
        Operation::Flush => "flush",
        Operation::Trim => "trim",
        Operation::WriteZeroes => "write_zeroes",
    }
}
