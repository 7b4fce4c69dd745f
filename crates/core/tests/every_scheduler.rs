//! What holds of every scheduler: nothing is lost, order within a flow, no idling, time that stands still or
//! goes back, parameters that change under a backlog, and a century of work without a tag that wraps.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use common::request;
use common::schedulers::{Boxed, CELLO, FCFS, KINDS, PCLOCK_LENDING};
use evenkeel_core::sched::fairio::FairioConfig;
use evenkeel_core::*;
use proptest::prelude::*;

const FLOWS: usize = 4;

fn scheduler(kind: usize) -> Boxed {
    let fairio = FairioConfig { load_threshold: 1, ..FairioConfig::new(Span::from_millis(20), 2) };
    common::schedulers::scheduler(kind, fairio)
}

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Arrive { flow: usize, count: u8, cost: u64 },
    Dispatch(u8),
    Complete,
    Configure(usize, Slo),
    Remove(usize),
}

fn slos() -> impl Strategy<Value = Slo> {
    let envelope = (0_u64..6, 1_u64..400, 1_u64..100);
    let weight = |slo: Slo, weight| slo.with_weight(Weight::new(weight).unwrap());
    prop_oneof![
        3 => (envelope.clone(), 1_u32..9)
            .prop_map(move |((burst, rate, millis), w)| weight(common::slo(burst, rate, millis), w)),
        1 => (envelope, 0_u64..3).prop_map(|((burst, rate, millis), more)| {
            let outer = common::slo(burst + more, rate + 10, millis + 20 * more);
            Slo::nested(&[common::slo(burst, rate, millis).classes(), outer.classes()].concat()).unwrap()
        }),
        1 => (1_u32..9).prop_map(move |w| weight(Slo::background(), w)),
        1 => (1_u32..9).prop_map(move |w| weight(Slo::background().with_interactive(), w)),
        1 => (1_u64..200, 1_u32..9).prop_map(move |(rate, w)| {
            weight(Slo::background().with_reservation(Rate::per_second(rate)).unwrap(), w)
        }),
        1 => (1_u64..200, 0_u64..100).prop_map(move |(rate, more)| {
            let reserved = Slo::background().with_reservation(Rate::per_second(rate)).unwrap();
            reserved.with_limit(Rate::per_second(rate + more)).unwrap()
        }),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let waits = prop_oneof![Just(10_000_000_u64), 0_u64..30_000_000, 0_u64..1_000, Just(0)];
    let costs = prop_oneof![4 => Just(1_000_u64), 1 => 0_u64..5_000];
    let step = prop_oneof![
        8 => waits.prop_map(Step::Wait),
        12 => (0..FLOWS, 1_u8..6, costs).prop_map(|(flow, count, cost)| Step::Arrive { flow, count, cost }),
        12 => (1_u8..5).prop_map(Step::Dispatch),
        12 => Just(Step::Complete),
        2 => (0..FLOWS, slos()).prop_map(|(flow, slo)| Step::Configure(flow, slo)),
        1 => (0..FLOWS).prop_map(Step::Remove),
    ];
    prop::collection::vec(step, 1..100)
}

/// A scheduler, and what is known of it from outside.
struct Watched {
    scheduler: Boxed,
    waiting: Vec<Vec<u64>>,
    store: Vec<Request>,
    known: BTreeSet<usize>,
    latest: Time,
    next_id: u64,
    /// Dispatched identifiers and deadlines, and answers to dispatches that found nothing.
    log: Vec<Result<(u64, Option<Time>), Decision>>,
    /// Nested QoS keeps the order within each class of a flow only.
    any_order: bool,
}

impl Watched {
    fn new(kind: usize, slos: &[Slo]) -> Self {
        let mut watched = Self {
            scheduler: scheduler(kind),
            waiting: vec![vec![]; FLOWS],
            store: vec![],
            known: BTreeSet::new(),
            latest: Time::ZERO,
            next_id: 0,
            log: vec![],
            any_order: kind == 3,
        };
        for (flow, slo) in slos.iter().enumerate() {
            watched.step(Time::ZERO, &Step::Configure(flow, slo.clone()));
        }
        watched
    }

    fn dispatch(&mut self, now: Time) -> bool {
        let decision = self.scheduler.poll_dispatch(now);
        let Decision::Dispatch(dispatch) = decision else {
            let waits = self.waiting.iter().any(|queue| !queue.is_empty());
            match decision {
                Decision::Idle => assert!(!waits, "idle with a backlog"),
                Decision::WaitUntil(later) => assert!(waits && later > self.latest, "{later:?}"),
                _ => assert!(waits),
            }
            self.log.push(Err(decision));
            return false;
        };
        let (flow, id) = (dispatch.request.flow.0 as usize, dispatch.request.id.0);
        let place = self.waiting[flow].iter().position(|waiting| *waiting == id).expect("it waited");
        assert!(place == 0 || self.any_order, "order within flow {flow}");
        self.waiting[flow].remove(place);
        self.store.push(dispatch.request);
        self.log.push(Ok((id, dispatch.finish_tag)));
        true
    }

    fn complete(&mut self, now: Time) {
        if self.store.is_empty() {
            return;
        }
        let done = self.store.remove(0);
        let completion = Completion::new(Ticket::from_bits(done.id.0), Outcome::Done);
        self.scheduler.on_completion(now, &done, &completion);
    }

    fn step(&mut self, now: Time, step: &Step) {
        self.latest = self.latest.max(now);
        match step {
            Step::Wait(_) => {}
            Step::Arrive { flow, count, cost } => {
                for _ in 0..*count {
                    let arrival = Arrival::new(now, request(self.next_id, *flow, *cost));
                    let taken = self.scheduler.on_arrival(now, arrival).is_ok();
                    assert_eq!(taken, self.known.contains(flow));
                    if taken {
                        self.waiting[*flow].push(self.next_id);
                    }
                    self.next_id += 1;
                }
            }
            Step::Dispatch(count) => {
                let _ = (0..*count).all(|_| self.dispatch(now));
            }
            Step::Complete => self.complete(now),
            Step::Configure(flow, slo) => {
                self.scheduler.configure(now, FlowId(*flow as u32), slo).unwrap();
                self.known.insert(*flow);
            }
            Step::Remove(flow) => {
                let removable = self.known.contains(flow) && self.waiting[*flow].is_empty();
                assert_eq!(self.scheduler.remove(now, FlowId(*flow as u32)).is_ok(), removable);
                if removable {
                    self.known.remove(flow);
                }
            }
        }
        for flow in 0..FLOWS {
            assert_eq!(self.scheduler.backlog(FlowId(flow as u32)), self.waiting[flow].len());
        }
    }

    /// Serves all that waits.
    fn drain(&mut self) {
        let mut turns = 0;
        while self.waiting.iter().any(|queue| !queue.is_empty()) {
            if !self.dispatch(self.latest) {
                let Some(Err(decision)) = self.log.last() else { unreachable!() };
                let wake = if let Decision::WaitUntil(later) = *decision { later } else { self.latest };
                self.latest = wake;
            }
            self.complete(self.latest);
            turns += 1;
            assert!(turns < 100_000, "no end");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// Nothing is lost or served twice, flows keep their order, no request waits beside an idle store, and
    /// all that holds while flows come, go and change, with requests waiting.
    #[test]
    fn everything_is_served_in_order_while_flows_change(
        slos in prop::collection::vec(slos(), FLOWS), steps in steps(),
    ) {
        for kind in 0..KINDS {
            let mut watched = Watched::new(kind, &slos);
            let mut now = 0;
            for step in &steps {
                if let Step::Wait(nanos) = step {
                    now += nanos;
                }
                watched.step(Time::from_nanos(now), step);
            }
            watched.drain();
            prop_assert_eq!(watched.scheduler.poll_dispatch(watched.latest), Decision::Idle);
        }
    }

    /// A time before one already seen counts as that one. Both see each new instant with a dispatch; after
    /// that the clock of one stands still and that of the other goes back.
    #[test]
    fn time_that_goes_back_stands_still(
        slos in prop::collection::vec(slos(), FLOWS), steps in steps(), back in 1_u64..60_000_000,
    ) {
        for kind in 0..KINDS {
            let [mut steady, mut shaken] = [Watched::new(kind, &slos), Watched::new(kind, &slos)];
            let mut now = 0_u64;
            for (turn, mut step) in (0..).zip(&steps) {
                let mut earlier = now.saturating_sub(back * (turn % 4));
                if let Step::Wait(nanos) = step {
                    now += nanos;
                    (earlier, step) = (now, &Step::Dispatch(1));
                }
                steady.step(Time::from_nanos(now), step);
                shaken.step(Time::from_nanos(earlier), step);
            }
            prop_assert_eq!(&steady.log, &shaken.log, "{}", steady.scheduler.name());
            steady.drain();
            shaken.drain();
            prop_assert_eq!(steady.log, shaken.log, "{}", steady.scheduler.name());
        }
    }

    /// To be told again what is already so changes nothing.
    #[test]
    fn the_same_promise_again_changes_nothing(
        slos in prop::collection::vec(slos(), FLOWS), steps in steps(), which in any::<u64>(),
    ) {
        for kind in 0..KINDS {
            let [mut once, mut again] = [Watched::new(kind, &slos), Watched::new(kind, &slos)];
            let mut current: BTreeMap<usize, Slo> = slos.iter().cloned().enumerate().collect();
            let mut now = 0;
            for (turn, step) in steps.iter().enumerate() {
                match step {
                    Step::Wait(nanos) => now += nanos,
                    Step::Configure(flow, slo) => _ = current.insert(*flow, slo.clone()),
                    _ => {}
                }
                let now = Time::from_nanos(now);
                once.step(now, step);
                again.step(now, step);
                let flow = (which >> (turn % 60)) as usize % FLOWS;
                if again.known.contains(&flow) {
                    again.step(now, &Step::Configure(flow, current[&flow].clone()));
                }
            }
            once.drain();
            again.drain();
            prop_assert_eq!(once.log, again.log, "{}", once.scheduler.name());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    /// Any scheduler hands all that waits over to any other, in the middle of work and while the dispatch depth
    /// changes, and each request is answered once, with the arrival and promise that it came with.
    #[test]
    fn every_scheduler_hands_over_to_every_other(
        kinds in prop::collection::vec(0..KINDS, 2..6),
        slos in prop::collection::vec(slos(), FLOWS),
        arrivals in prop::collection::vec((0..FLOWS, 0_u64..20_000_000, 1_u64..3_000), 1..60),
        depth in 1_u32..5,
    ) {
        let mut engine = Engine::new(scheduler(kinds[0]), NonZeroU32::new(depth).unwrap());
        for (flow, slo) in (0..).zip(&slos) {
            engine.handle_input(Time::ZERO, Input::Configure(FlowId(flow), slo.clone())).unwrap();
        }
        let (mut now, mut arrived, mut answered) = (Time::ZERO, BTreeMap::new(), BTreeSet::new());
        let every = arrivals.len().div_ceil(kinds.len());
        for (id, (flow, gap, cost)) in (0_u64..).zip(&arrivals) {
            now += Span::from_nanos(*gap);
            engine.handle_input(now, Input::Arrival(request(id, *flow, *cost))).unwrap();
            arrived.insert(id, now);
            if id % 2 == 0 {
                work(&mut engine, now, &arrived, &mut answered);
            }
            if id % 7 == 6 {
                let depth = 1 + (id / 7 + u64::from(depth)) as u32 % 5;
                engine.set_depth(NonZeroU32::new(depth).unwrap());
            }
            if id as usize % every == every - 1 {
                let next = kinds[(id as usize / every + 1) % kinds.len()];
                engine.replace_scheduler(now, scheduler(next)).unwrap();
            }
        }
        for _ in 0..100_000 {
            if !work(&mut engine, now, &arrived, &mut answered) {
                if engine.waiting() == 0 {
                    break;
                }
                now = engine.poll_timeout().expect("nothing is at the store").max(now);
                engine.handle_input(now, Input::Timeout).unwrap();
            }
        }
        prop_assert_eq!(answered.len(), arrivals.len());
    }
}

/// Does the next thing that the engine wants, if there is one; the store answers at once.
fn work(engine: &mut Engine, now: Time, arrived: &BTreeMap<u64, Time>, answered: &mut BTreeSet<u64>) -> bool {
    let output = engine.poll_output(now);
    match output {
        Some(Output::Reply(record)) => {
            assert_eq!(Some(&record.arrival), arrived.get(&record.request.id.0));
            assert!(answered.insert(record.request.id.0), "answered once");
        }
        Some(Output::Submit(Submission { ticket, .. })) => {
            let completion = Completion::new(ticket, Outcome::Done);
            engine.handle_input(now, Input::Completion(completion)).unwrap();
        }
        None => {}
    }
    output.is_some()
}

/// The work of a century at the extreme rates: costs as large as a flow of a billion requests per second may
/// run up, beside one request in a thousand seconds. Tests run with overflow checks, so a tag that wraps is
/// a panic; a tag that is stuck at its end would no longer divide anything, which is what is checked.
#[test]
fn a_century_of_work_wraps_no_tag() {
    const CENTURY: u64 = 3_155_760_000 * 1_000_000_000;
    const ROUNDS: u64 = 1_000;
    let envelope =
        |rate, millis| Envelope::new(Envelope::BURST_MAX, rate, Span::from_millis(millis)).unwrap();
    let promises = [
        Slo::guaranteed(envelope(Rate::from_millis(1), 86_400_000)),
        Slo::guaranteed(envelope(Envelope::RATE_MAX, 1)).with_weight(Weight::MAX),
        Slo::background(),
        Slo::background().with_weight(Weight::MAX).with_interactive(),
    ];
    for kind in 0..KINDS {
        let mut watched = Watched::new(kind, &promises);
        for round in 1..=ROUNDS {
            let now = Time::from_nanos(CENTURY / ROUNDS * round);
            for flow in 0..FLOWS {
                // What a billion a second makes in this time, in thousandths: 3·10²¹ in all.
                let cost = if round % 2 == 0 { CENTURY / ROUNDS } else { 1_000 };
                watched.step(now, &Step::Arrive { flow, count: 2, cost });
            }
            watched.step(now, &Step::Dispatch(8));
            (0..8).for_each(|_| watched.step(now, &Step::Complete));
        }
        watched.drain();
        watched.latest = watched.latest.max(Time::from_nanos(CENTURY + 1));
        let name = watched.scheduler.name();
        let now = watched.latest;
        assert!(now >= Time::from_nanos(CENTURY), "{name}");
        // Two newcomers alike, the second behind the whole backlog of the first: they share.
        let alike = match name {
            "cello" | "nested" | "fairio" => Slo::background(),
            _ => common::slo(1, 100, 20),
        };
        let left = first_of_newcomers(&mut watched, [alike.clone(), alike]);
        assert!(["fcfs", "edf"].contains(&name) || left.abs_diff(50) <= 1, "{name}: {left} of 100 left");
        // And where deadlines count, the earlier one goes first.
        let left = first_of_newcomers(&mut watched, [common::slo(200, 100, 20), common::slo(200, 100, 10)]);
        let by_deadline = ["pclock", "nested", "sced", "edf", "avatar", "cello"];
        assert!(!by_deadline.contains(&name) || left == 100, "{name}: {left} of 100 left");
    }
}

/// Flows 0 and 1 begin anew with `slos` and send 100 requests each, one flow after the other: what is left of
/// the first flow's when half of all is dispatched.
fn first_of_newcomers(watched: &mut Watched, slos: [Slo; 2]) -> usize {
    let now = watched.latest;
    for (flow, slo) in slos.into_iter().enumerate() {
        watched.step(now, &Step::Remove(flow));
        watched.step(now, &Step::Configure(flow, slo));
    }
    (0..2).for_each(|flow| watched.step(now, &Step::Arrive { flow, count: 100, cost: 1_000 }));
    watched.step(now, &Step::Dispatch(100));
    let left = watched.waiting[0].len();
    watched.drain();
    while !watched.store.is_empty() {
        watched.complete(watched.latest);
    }
    left
}

/// Background flows go when no other may, by weight. FCFS knows none, pClock can lend them capacity
/// (guarantee.rs), and Cello gives them their class's share (two_level_laws.rs).
#[test]
fn background_flows_share_by_weight_what_no_other_wants() {
    let weighed = |weight| Slo::background().with_weight(Weight::new(weight).unwrap());
    let promises = [common::slo(1, 100, 20), common::slo(5, 50, 40), weighed(1), weighed(3)];
    for kind in (0..KINDS).filter(|kind| ![FCFS, PCLOCK_LENDING, CELLO].contains(kind)) {
        let mut watched = Watched::new(kind, &promises);
        let name = watched.scheduler.name();
        // The background comes first, and is served last.
        let order = [2, 3, 0, 1];
        for flow in order {
            watched.step(Time::ZERO, &Step::Arrive { flow, count: 40, cost: 1_000 });
        }
        watched.drain();
        let served: Vec<usize> =
            watched.log.iter().flatten().map(|(id, _)| order[*id as usize / 40]).collect();
        assert!(served[..80].iter().all(|flow| *flow < 2), "{name}: {served:?}");
        let of_lighter = served[80..120].iter().filter(|flow| **flow == 2).count();
        assert!(of_lighter.abs_diff(10) <= 1, "{name}: {of_lighter} of 40");
    }
}
