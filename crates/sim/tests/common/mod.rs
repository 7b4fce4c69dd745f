//! What the tests have in common.
#![allow(dead_code, reason = "every test uses its own part")]

use std::num::NonZeroU32;

use evenkeel_core::*;
use evenkeel_device::{ConstantRate, Device};
use evenkeel_sim::*;

/// Keeps every record and the order of everything.
#[derive(Default)]
pub(crate) struct Witness {
    pub(crate) records: Vec<Record>,
    pub(crate) arrivals: u64,
    pub(crate) submitted: u64,
    pub(crate) log: Vec<String>,
}

impl Observer for Witness {
    fn on_arrival(&mut self, now: Time, request: &Request) {
        self.arrivals += 1;
        self.log.push(format!("{} arrival {}", now.as_nanos(), request.id.0));
    }

    fn on_submit(&mut self, now: Time, submission: &Submission, outstanding: u32) {
        self.submitted += 1;
        self.log.push(format!("{} submit {} {outstanding}", now.as_nanos(), submission.request.id.0));
    }

    fn on_reply(&mut self, record: &Record, outstanding: u32) {
        self.records.push(*record);
        self.log.push(format!(
            "{} reply {} {outstanding}",
            record.completion.as_nanos(),
            record.request.id.0
        ));
    }
}

/// ⟨burst, rate, milliseconds⟩.
pub(crate) fn slo(burst: u64, rate: u64, millis: u64) -> Slo {
    let envelope = Envelope::new(Cost::requests(burst), Rate::per_second(rate), Span::from_millis(millis));
    Slo::guaranteed(envelope.expect("tests use good envelopes"))
}

pub(crate) fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

/// A device of one server and constant rate.
pub(crate) fn constant(rate: u64) -> Box<dyn Device + Send> {
    Box::new(ConstantRate::new(Rate::per_second(rate), one()))
}

/// A source of `flow` in an open or closed loop.
pub(crate) fn source(flow: u32, component: u64, pace: Pace) -> SourceConfig {
    SourceConfig {
        flow: FlowId(flow),
        stream: [u64::from(flow), component],
        from: Time::ZERO,
        until: None,
        requests_max: None,
        load: Load::Generated(pace, Access::default()),
    }
}

/// Flows from the start.
pub(crate) fn configured(slos: Vec<Slo>) -> Vec<(Time, Change)> {
    let numbered = (0..).map(FlowId).zip(slos);
    numbered.map(|(flow, slo)| (Time::ZERO, Change::Configure(flow, slo))).collect()
}

pub(crate) fn ms(millis: u64) -> Time {
    Time::from_millis(millis)
}
