//! Counts what an operation does to the tables, heaps and queues, in tests only: so that one can hold the
//! changes of a flow to O(log flows) without a clock.

#[cfg(test)]
std::thread_local! {
    static STEPS: core::cell::Cell<u64> = const { core::cell::Cell::new(0) };
}

/// So many entries are looked at, written or moved.
#[inline(always)]
pub(crate) fn steps(entries: usize) {
    #[cfg(test)]
    STEPS.set(STEPS.get() + entries as u64);
    #[cfg(not(test))]
    let _ = entries;
}

#[cfg(test)]
mod tests {
    use super::STEPS;
    use crate::sched::avatar::Avatar;
    use crate::sched::cello::{Cello, CelloConfig};
    use crate::sched::edf::Edf;
    use crate::sched::fairio::{Fairio, FairioConfig};
    use crate::sched::fcfs::Fcfs;
    use crate::sched::mclock::MClock;
    use crate::sched::nested::Nested;
    use crate::sched::pclock::PClock;
    use crate::sched::rbfq::Rbfq;
    use crate::sched::sced::Sced;
    use crate::sched::sfq::SfqD;
    use crate::sched::virtual_clock::VirtualClock;
    use crate::sched::wf2q::Wf2qPlus;
    use crate::*;
    use core::num::NonZeroU32;
    use std::boxed::Box;
    use std::vec::Vec;

    fn schedulers() -> Vec<Box<dyn Scheduler + Send>> {
        let fairio = Fairio::new(FairioConfig::new(Span::from_millis(10), 4)).unwrap();
        std::vec![
            Box::new(PClock::new()),
            Box::new(PClock::with_spare(SpareCapacity::Background)),
            Box::new(Nested::new()),
            Box::new(Sced::new()),
            Box::new(Edf::new()),
            Box::new(VirtualClock::new()),
            Box::new(SfqD::new()),
            Box::new(Wf2qPlus::new()),
            Box::new(MClock::new()),
            Box::new(Rbfq::new()),
            Box::new(Avatar::new()),
            Box::new(Cello::new(CelloConfig::default()).unwrap()),
            Box::new(fairio),
            Box::new(Fcfs::new()),
        ]
    }

    #[derive(Clone, Copy, Debug)]
    enum Change {
        Return,
        AppearAndLeave,
        Parameters,
        /// From a promise to none, or back.
        Role,
    }

    const CHANGES: [Change; 4] = [Change::Return, Change::AppearAndLeave, Change::Parameters, Change::Role];

    /// Flows in a group, or each by itself; of them the even ones have a request waiting.
    struct Load {
        engine: Engine,
        flows: u32,
        grouped: bool,
        now: Time,
        id: u64,
    }

    impl Load {
        fn new(scheduler: Box<dyn Scheduler + Send>, flows: u32, grouped: bool) -> Self {
            let engine = Engine::new(scheduler, NonZeroU32::MIN);
            let mut load = Self { engine, flows, grouped, now: Time::ZERO, id: 0 };
            // The group's promise; or a background flow, which some schedulers lend capacity to.
            load.input(Input::Add(FlowId(flows), if grouped { slo(0, 7) } else { Slo::background() }));
            for flow in 0..flows {
                load.appear(flow, 0);
            }
            (0..flows).step_by(2).for_each(|flow| load.arrive(flow));
            if !grouped {
                (0..4).for_each(|_| load.arrive(flows));
            }
            load
        }

        fn input(&mut self, input: Input) {
            self.engine.handle_input(self.now, input).unwrap();
        }

        /// Adds or changes the flow.
        fn appear(&mut self, flow: u32, turn: u32) {
            self.input(if self.grouped {
                let weight = Weight::new(1 + turn % 9).unwrap();
                let limit = Limit::new(Cost::requests(4), Rate::per_second(1_000 + u64::from(turn % 7)));
                let limit = flow.is_multiple_of(3).then(|| limit.unwrap());
                Input::Join(FlowId(flow), Membership { group: FlowId(self.flows), weight, limit })
            } else {
                Input::Configure(FlowId(flow), slo(flow, turn))
            });
        }

        fn arrive(&mut self, flow: u32) {
            let (id, operation) = (RequestId(self.id), Operation::Read);
            self.id += 1;
            let flow = FlowId(flow);
            self.input(Input::Arrival(Request {
                id,
                flow,
                operation,
                offset: 0,
                length: 4096,
                cost: Cost::ONE,
            }));
        }

        fn serve(&mut self) -> u32 {
            loop {
                match self.engine.poll_output(self.now) {
                    Some(Output::Submit(submission)) => {
                        self.now += Span::from_micros(1);
                        self.input(Input::Completion(Completion::new(submission.ticket, Outcome::Done)));
                        return submission.request.flow.0;
                    }
                    Some(Output::Reply(_)) => {}
                    None => self.now = self.engine.poll_timeout().expect("requests wait"),
                }
            }
        }

        fn happen(&mut self, change: Change, turn: u32) {
            let flow = (u64::from(turn) * 7_919 % u64::from(self.flows)) as u32;
            match change {
                Change::Return => {
                    let gone = self.serve();
                    self.arrive(if gone == self.flows { gone } else { gone ^ 1 });
                }
                Change::AppearAndLeave => {
                    let newcomer = self.flows + 1 + turn % 64;
                    self.appear(newcomer, turn);
                    self.input(Input::Remove(FlowId(newcomer)));
                }
                Change::Parameters => self.appear(flow, turn),
                // A group's members have no role of their own.
                Change::Role if self.grouped => self.appear(flow, turn),
                Change::Role => {
                    self.input(Input::Configure(FlowId(flow), Slo::background()));
                    self.appear(flow, turn);
                }
            }
        }

        /// Steps of one change, the mean of so many that every flow has its turn.
        fn cost(&mut self, change: Change) -> f64 {
            let turns = 2_000.max(2 * self.flows);
            // The first time tables grow.
            (0..turns).for_each(|turn| self.happen(change, turn));
            let before = STEPS.get();
            (0..turns).for_each(|turn| self.happen(change, turn));
            (STEPS.get() - before) as f64 / f64::from(turns)
        }
    }

    /// One class or two, with a limit or without.
    fn slo(flow: u32, turn: u32) -> Slo {
        let (burst, rate) = (u64::from(1 + flow % 32), u64::from(10 + (flow + turn) % 91));
        let latency = Span::from_millis(u64::from(1 + flow % 50));
        let class = |burst, latency| Envelope::new(burst, Rate::per_second(rate), latency).unwrap();
        let inner = class(Cost::requests(burst), latency);
        let slo = match flow % 5 {
            1 => Slo::nested(&[inner, class(Cost::requests(2 * burst), latency + latency)]).unwrap(),
            _ => Slo::guaranteed(inner),
        };
        if flow % 7 == 2 {
            slo.with_limit(Rate::per_second(1_000 + u64::from(turn % 3))).unwrap()
        } else {
            slo
        }
    }

    /// Under every scheduler, and within a group: a change costs a few steps for each doubling of the flows.
    #[test]
    fn a_change_of_a_flow_costs_the_logarithm_of_their_number() {
        for kind in 0..schedulers().len() {
            for grouped in [false, true] {
                for flows in [64_u32, 1_024, 8_192] {
                    let mut load = Load::new(schedulers().swap_remove(kind), flows, grouped);
                    let name = load.engine.scheduler_name();
                    for change in CHANGES {
                        let cost = load.cost(change);
                        let most = 4.0 * f64::from(flows.ilog2());
                        assert!(
                            cost <= most,
                            "{name}, {flows} flows, grouped: {grouped}, {change:?}: {cost}"
                        );
                    }
                }
            }
        }
    }

    /// FAIRIO, a store without load: a few classes send one request after the other, beside others that have
    /// sent something within the window. The store is under-loaded all the time, and yet cycles are not cut short
    /// so often that each request would cost a look at all classes.
    #[test]
    fn a_few_senders_beside_many_active_classes_cost_no_turn_each() {
        for senders in [1, 3] {
            for flows in [64_u32, 1_024, 8_192] {
                let fairio = FairioConfig::new(Span::from_millis(1_000), 1);
                let scheduler = Box::new(Fairio::new(fairio).unwrap());
                let mut load = Load::new(scheduler, flows, false);
                (0..flows).for_each(|flow| load.arrive(flow));
                while load.engine.waiting() > 0 {
                    load.serve();
                }
                let turns = 2 * flows.max(1_000);
                let before = STEPS.get();
                for turn in 0..turns {
                    load.arrive(turn % senders);
                    load.serve();
                    load.now += Span::from_micros(200);
                }
                let cost = (STEPS.get() - before) as f64 / f64::from(turns);
                // Of a turn a request pays for eight classes, each of which is looked at 7 times at most.
                let most = 8.0 * 7.0 + 4.0 * f64::from(flows.ilog2());
                assert!(cost <= most, "{senders} of {flows}: {cost}");
            }
        }
    }
}
