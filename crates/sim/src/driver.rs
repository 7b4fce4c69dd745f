//! The engine under observation: every call to it, in a simulation and in a replay, goes through here.
//!
//! ```text
//!  simulation: events, device ─┐              ┌─> Engine ──> outputs
//!                              ├─> input, poll┤
//!  replay: recorded calls ─────┘              └─> Observer: arrivals, submissions, replies, promises
//! ```

use evenkeel_core::{Engine, FlowId, Input, InputError, Membership, Output, Request, Time};

use crate::simulation::{Change, Observer};

/// An engine with somebody who sees what becomes of requests and promises.
pub(crate) struct Driver<O> {
    pub(crate) engine: Engine,
    pub(crate) observer: O,
}

/// What the observer is told once the engine has accepted an input.
enum Told {
    Arrival(Request),
    Flow(FlowId),
    Member(FlowId, Membership),
    Nothing,
}

impl<O: Observer> Driver<O> {
    /// Hands `input` to the engine.
    ///
    /// # Errors
    /// If the engine refuses it; then the observer does not see it.
    pub(crate) fn input(&mut self, now: Time, input: Input) -> Result<(), InputError> {
        let told = match &input {
            Input::Arrival(request) | Input::CountedArrival(request, _) => Told::Arrival(*request),
            Input::Add(flow, _) | Input::Configure(flow, _) => Told::Flow(*flow),
            Input::Join(flow, membership) => Told::Member(*flow, *membership),
            _ => Told::Nothing,
        };
        self.engine.handle_input(now, input)?;
        match told {
            Told::Arrival(request) => self.observer.on_arrival(now, &request),
            Told::Flow(flow) => self.configured(now, flow),
            Told::Member(flow, membership) => {
                self.observer.on_change(now, &Change::Join(flow, membership));
                self.configured(now, flow);
            }
            Told::Nothing => {}
        }
        Ok(())
    }

    /// Tells the observer what is agreed with `flow` now.
    pub(crate) fn configured(&mut self, now: Time, flow: FlowId) {
        if let Some(slo) = self.engine.slo(flow) {
            self.observer.on_configure(now, flow, slo);
        }
    }

    /// Asks the engine once.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Output> {
        let output = self.engine.poll_output(now)?;
        match &output {
            Output::Submit(submission) => {
                self.observer.on_submit(now, submission, self.engine.outstanding());
            }
            Output::Reply(record) => self.observer.on_reply(record, self.engine.outstanding()),
        }
        Some(output)
    }
}
