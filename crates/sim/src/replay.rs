//! A run whose events were recorded: in place of sources and a device, the calls that an engine was given
//! elsewhere, at their instants and in their order. The same engine answers them the same.

use std::num::NonZeroU32;

use evenkeel_core::{Engine, Input, Output, Scheduler, Time};

use crate::driver::Driver;
use crate::simulation::Observer;

/// An engine that has not answered so often at one instant will not: a damaged recording may ask for ever.
const IDLE_POLLS_MAX: u32 = 100_000;

/// A call that an engine was given.
pub enum Call {
    /// An input.
    Input(Time, Input),
    /// Asked so many times in a row for an output, whether there was one or not.
    Poll(Time, u64),
    /// Another dispatch depth.
    Depth(NonZeroU32),
    /// Another scheduler, without flows.
    Scheduler(Time, Box<dyn Scheduler + Send>),
}

/// A replay at some call.
pub struct Replay<O> {
    driver: Driver<O>,
    calls: u64,
}

impl<O: Observer> Replay<O> {
    /// A replay before its first call, of an engine as it was before it.
    pub const fn new(engine: Engine, observer: O) -> Self {
        Self { driver: Driver { engine, observer }, calls: 0 }
    }

    /// Makes a call; `answered` gets every output with the instant and the requests outstanding then. What the
    /// engine refused when it was recorded it refuses now.
    ///
    /// # Errors
    /// What `answered` fails with.
    pub fn call<E>(
        &mut self,
        call: Call,
        answered: &mut impl FnMut(Time, &Output, u32) -> Result<(), E>,
    ) -> Result<(), E> {
        self.calls += 1;
        match call {
            Call::Input(now, input) => {
                let _ = self.driver.input(now, input);
            }
            Call::Poll(now, count) => return self.poll(now, count, answered),
            Call::Depth(depth) => self.driver.engine.set_depth(depth),
            Call::Scheduler(now, scheduler) => {
                let _ = self.driver.engine.replace_scheduler(now, scheduler);
            }
        }
        Ok(())
    }

    fn poll<E>(
        &mut self,
        now: Time,
        count: u64,
        answered: &mut impl FnMut(Time, &Output, u32) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut idle = 0;
        for _ in 0..count {
            match self.driver.poll(now) {
                Some(output) => {
                    idle = 0;
                    answered(now, &output, self.driver.engine.outstanding())?;
                }
                None => idle += 1,
            }
            if idle > IDLE_POLLS_MAX {
                break;
            }
        }
        Ok(())
    }

    /// Calls made.
    #[must_use]
    pub const fn calls(&self) -> u64 {
        self.calls
    }

    /// The observer, once the replay is over.
    #[must_use]
    pub fn into_observer(self) -> O {
        self.driver.observer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::{Setup, Simulation};
    use crate::{Access, Change, EventLog, Load, Pace, SourceConfig};
    use evenkeel_core::sched::pclock::PClock;
    use evenkeel_core::{Completion, Cost, Envelope, FlowId, Outcome, Rate, Request, Slo, Span, Submission};
    use evenkeel_device::ConstantRate;

    fn engine() -> Engine {
        Engine::new(Box::new(PClock::new()), NonZeroU32::MIN)
    }

    fn slo() -> Slo {
        let envelope = Envelope::new(Cost::requests(2), Rate::per_second(50), Span::from_millis(40));
        Slo::guaranteed(envelope.expect("such an envelope can be"))
    }

    /// What a simulation did, as calls and as lines of the event log.
    #[derive(Default)]
    struct Recorder {
        calls: Vec<Call>,
        done: Option<(Time, Submission)>,
    }

    impl Observer for Recorder {
        fn on_configure(&mut self, now: Time, flow: FlowId, slo: &Slo) {
            self.calls.push(Call::Input(now, Input::Configure(flow, slo.clone())));
        }
        fn on_arrival(&mut self, now: Time, request: &Request) {
            self.calls.push(Call::Input(now, Input::Arrival(*request)));
        }
        fn on_submit(&mut self, now: Time, submission: &Submission, _: u32) {
            self.calls.push(Call::Poll(now, 1));
            self.done = Some((now, *submission));
        }
        fn on_reply(&mut self, record: &evenkeel_core::Record, _: u32) {
            let (_, submission) = self.done.take().expect("it was submitted");
            let completion = Completion::new(submission.ticket, Outcome::Done);
            self.calls.push(Call::Input(record.completion, Input::Completion(completion)));
            self.calls.push(Call::Poll(record.completion, 1));
        }
    }

    #[test]
    fn the_calls_of_a_simulation_give_its_event_log_again() {
        let setup = || Setup {
            seed: 3,
            engine: engine(),
            device: Box::new(ConstantRate::new(Rate::per_second(60), NonZeroU32::MIN)),
            changes: vec![(Time::ZERO, Change::Configure(FlowId(0), slo()))],
            sources: vec![SourceConfig {
                flow: FlowId(0),
                stream: [0, 0],
                from: Time::ZERO,
                until: None,
                requests_max: Some(200),
                load: Load::Generated(Pace::Poisson(Rate::per_second(55)), Access::default()),
            }],
        };
        let mut logged = Simulation::new(setup(), EventLog::new(Vec::new())).expect("it begins");
        logged.run_until(Time::from_millis(10_000)).expect("it runs");
        let live = logged.into_observer().finish().expect("memory takes it");
        let mut recorded = Simulation::new(setup(), Recorder::default()).expect("it begins");
        recorded.run_until(Time::from_millis(10_000)).expect("it runs");
        let mut replay = Replay::new(engine(), EventLog::new(Vec::new()));
        let mut answers = 0;
        for call in recorded.into_observer().calls {
            let answered = &mut |_: Time, _: &Output, _: u32| -> Result<(), ()> {
                answers += 1;
                Ok(())
            };
            replay.call(call, answered).expect("nothing fails");
        }
        assert_eq!((answers, replay.calls()), (400, 1 + 4 * 200));
        let again = replay.into_observer().finish().expect("memory takes it");
        assert_eq!(String::from_utf8(again), String::from_utf8(live));
    }
}
