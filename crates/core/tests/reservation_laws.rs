//! What mClock and RBFQ promise, on a simulated store of constant rate that serves one request at a time.

mod common;

use common::request;
use evenkeel_core::sched::mclock::MClock;
use evenkeel_core::sched::rbfq::Rbfq;
use evenkeel_core::*;
use proptest::prelude::*;

/// Rates in requests per second; zero for none.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    reservation: u64,
    limit: u64,
    weight: u32,
    /// Of each of its requests, in thousandths.
    cost: u64,
}

fn flow(reservation: u64, limit: u64, weight: u32) -> Flow {
    Flow { reservation, limit, weight, cost: 1_000 }
}

fn slo(flow: Flow) -> Slo {
    // Every flow takes part in the sharing: the smallest reservation is next to none.
    let reservation = Rate::from_millis((flow.reservation * 1_000).max(1));
    let slo = Slo::background().with_reservation(reservation).unwrap();
    let slo = slo.with_weight(Weight::new(flow.weight).unwrap());
    match flow.limit {
        0 => slo,
        limit => slo.with_limit(Rate::per_second(limit)).unwrap(),
    }
}

const SECOND: u64 = 1_000_000_000;

/// A store with its scheduler, and who was served when.
struct Store {
    scheduler: Box<dyn Scheduler>,
    flows: usize,
    /// By flow; those beyond cost 1000.
    costs: Vec<u64>,
    now: u64,
    next_id: u64,
    served: Vec<(usize, u64)>,
    by_reservation: Vec<bool>,
}

impl Store {
    fn new(mut scheduler: Box<dyn Scheduler>, flows: &[Flow]) -> Self {
        for (id, flow) in flows.iter().enumerate() {
            scheduler.configure(Time::ZERO, FlowId(id as u32), &slo(*flow)).unwrap();
        }
        let (served, by_reservation) = (Vec::new(), Vec::new());
        let costs = flows.iter().map(|flow| flow.cost).collect();
        Self { scheduler, flows: flows.len(), costs, now: 0, next_id: 0, served, by_reservation }
    }

    fn arrive(&mut self, flow: usize, elsewhere: Elsewhere) {
        let now = Time::from_nanos(self.now);
        let arrival = Arrival::new(now, request(self.next_id, flow, self.cost(flow)));
        self.scheduler.on_arrival_counted(now, arrival, elsewhere).unwrap();
        self.next_id += 1;
    }

    fn cost(&self, flow: usize) -> u64 {
        self.costs.get(flow).copied().unwrap_or(1_000)
    }

    /// Keeps `waiting` requests of each flow in `busy` waiting.
    fn fill(&mut self, busy: impl Fn(usize) -> bool, waiting: usize) {
        for flow in (0..self.flows).filter(|flow| busy(*flow)) {
            while self.scheduler.backlog(FlowId(flow as u32)) < waiting {
                self.arrive(flow, Elsewhere::NOTHING);
            }
        }
    }

    /// Serves one request in `length` times its cost, or waits. Says which flow was served.
    fn serve(&mut self, length: u64) -> Option<usize> {
        match self.scheduler.poll_dispatch(Time::from_nanos(self.now)) {
            Decision::Dispatch(dispatch) => {
                let flow = dispatch.request.flow.0 as usize;
                self.served.push((flow, self.now));
                self.by_reservation.push(dispatch.finish_tag.is_some());
                self.now += length * self.cost(flow) / 1_000;
                Some(flow)
            }
            Decision::WaitUntil(time) => {
                assert!(time.as_nanos() > self.now, "waits for the future");
                self.now = time.as_nanos();
                None
            }
            other => panic!("{other:?}"),
        }
    }

    /// Keeps the flows in `busy` backlogged until the instant `end`, each request taking `length`.
    fn run(&mut self, busy: impl Fn(usize) -> bool, waiting: usize, length: u64, end: u64) {
        while self.now < end {
            self.fill(&busy, waiting);
            self.serve(length);
        }
    }

    /// What each flow was served from `from` on, in requests of cost 1.
    fn counts(&self, from: u64) -> Vec<f64> {
        let count = |flow| self.served.iter().filter(|&&(of, at)| of == flow && at >= from).count() as f64;
        (0..self.flows).map(|flow| count(flow) * self.cost(flow) as f64 / 1_000.0).collect()
    }
}

/// x_i = r_i + (T − Σr)·w_i/Σw; in proportion to r if Σr > T.
fn additive(flows: &[Flow], total: f64) -> Vec<f64> {
    let reserved: f64 = flows.iter().map(|flow| flow.reservation as f64).sum();
    let weights: f64 = flows.iter().map(|flow| f64::from(flow.weight)).sum();
    let share = |flow: &Flow| (total - reserved) * f64::from(flow.weight) / weights;
    let overload = |flow: &Flow| total * flow.reservation as f64 / reserved;
    flows
        .iter()
        .map(|flow| if reserved > total { overload(flow) } else { flow.reservation as f64 + share(flow) })
        .collect()
}

/// x_i = min(l_i, max(r_i, λ·w_i)), Σx = T by bisection.
fn max_law(flows: &[Flow], total: f64) -> Vec<f64> {
    let at = |lambda: f64| -> Vec<f64> {
        let one = |flow: &Flow| (flow.reservation as f64).max(lambda * f64::from(flow.weight));
        let cap = |flow: &Flow| if flow.limit == 0 { f64::INFINITY } else { flow.limit as f64 };
        flows.iter().map(|flow| one(flow).min(cap(flow))).collect()
    };
    let (mut low, mut high) = (0.0, total);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if at(middle).iter().sum::<f64>() < total { low = middle } else { high = middle }
    }
    at(low)
}

/// Within 1 %, or the three requests by which a schedule of whole requests may be off.
fn assert_law(counts: &[f64], expected: &[f64], seconds: f64) {
    assert_within(counts, expected, seconds, 3.0);
}

fn assert_within(counts: &[f64], expected: &[f64], seconds: f64, requests: f64) {
    for (count, rate) in counts.iter().zip(expected) {
        let expected = rate * seconds;
        assert!(
            (count - expected).abs() <= (expected * 0.01).max(requests),
            "{counts:?} instead of {expected} at {rate}/s"
        );
    }
}

const MILLISECOND: u64 = 1_000_000;
/// What a store that takes a millisecond for each request serves per second.
const TOTAL: u64 = 1_000;

/// Some flows' reservations are up to `percent` of the capacity together.
fn flows(percent: u64, limit_max: u64) -> impl Strategy<Value = Vec<Flow>> {
    let limit = move || prop_oneof![Just(0), 0..=limit_max];
    let one = (0_u64..100, limit(), 1_u32..20);
    (prop::collection::vec(one, 2..7), 0..=percent).prop_map(|(flows, percent)| {
        let parts: u64 = flows.iter().map(|(part, ..)| part).sum::<u64>().max(1);
        let one = |(part, limit, weight): (u64, u64, u32)| {
            let reservation = TOTAL * percent / 100 * part / parts;
            flow(reservation, if limit == 0 { 0 } else { limit.max(reservation) }, weight)
        };
        flows.into_iter().map(one).collect()
    })
}

/// The same with flows whose requests cost a quarter of an ordinary one to twice as much.
fn costly(percent: u64) -> impl Strategy<Value = Vec<Flow>> {
    let cost = prop_oneof![Just(1_000_u64), 250_u64..2_000];
    (flows(percent, 0), prop::collection::vec(cost, 7)).prop_map(|(flows, costs)| {
        flows.into_iter().zip(costs).map(|(flow, cost)| Flow { cost, ..flow }).collect()
    })
}

/// Runs with some flows away at first, and holds what they get after that against `law`.
fn check_law(
    scheduler: Box<dyn Scheduler>,
    flows: &[Flow],
    away: [bool; 7],
    waiting: usize,
    [first, then]: [u64; 2],
    law: fn(&[Flow], f64) -> Vec<f64>,
) {
    let mut store = Store::new(scheduler, flows);
    let nobody = away[..flows.len()].iter().all(|away| *away);
    store.run(|flow| !away[flow] || nobody, waiting, MILLISECOND, first * SECOND);
    let from = store.now;
    store.run(|_| true, waiting, MILLISECOND, from + then * SECOND);
    let seconds = (store.now - from) as f64 / SECOND as f64;
    // Four of the dearest requests: one for each end, and what those that return may catch up at once.
    let dearest = flows.iter().map(|flow| flow.cost).max().unwrap_or(0) as f64 / 1_000.0;
    assert_within(&store.counts(from), &law(flows, TOTAL as f64), seconds, 4.0 * dearest);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    /// The additive law, also for flows that have been away for the first two seconds: they get what the
    /// law gives them from then on, and nothing for the past.
    #[test]
    fn rbfq_reserves_first_and_shares_the_rest(
        flows in costly(100), away in any::<[bool; 7]>(), waiting in 1_usize..4,
    ) {
        check_law(Box::new(Rbfq::new()), &flows, away, waiting, [2, 4], additive);
    }

    /// The max law, likewise.
    #[test]
    fn mclock_counts_the_reservation_within_the_share(
        flows in costly(100), away in any::<[bool; 7]>(), waiting in 1_usize..4,
    ) {
        check_law(Box::new(MClock::new()), &flows, away, waiting, [2, 4], max_law);
    }

    /// And with limits whose steps are ten services long or longer. Closer to the service time a limited
    /// flow may be late by more than the one request that it can catch up, and gets a little less.
    #[test]
    fn mclock_fills_limits_up(
        flows in flows(80, 100), away in any::<[bool; 7]>(), waiting in 1_usize..4,
    ) {
        check_law(Box::new(MClock::new()), &flows, away, waiting, [2, 4], max_law);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// The three laws over a minute and a half, where 1 % is more than three requests for nearly every flow.
    #[test]
    fn the_laws_hold_in_the_long_run(
        additively in costly(100), within in costly(100), limited in flows(80, 100), away in any::<[bool; 7]>(),
    ) {
        check_law(Box::new(Rbfq::new()), &additively, away, 2, [10, 80], additive);
        check_law(Box::new(MClock::new()), &within, away, 2, [10, 80], max_law);
        check_law(Box::new(MClock::new()), &limited, away, 2, [10, 80], max_law);
    }
}

/// What the flows of a random load do: for how long each is busy and away, in requests of the store.
fn habits() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((1_u64..200, 0_u64..200), 7)
}

/// Serves 5000 requests of random length while flows come and go.
fn random_load(store: &mut Store, habits: &[(u64, u64)], lengths: &[u64], first_always: bool) {
    for turn in 0..5_000_u64 {
        let busy = |flow: usize| {
            let (on, off) = habits[flow];
            (first_always && flow == 0) || turn % (on + off) < on
        };
        store.fill(busy, 2);
        let waiting: usize = (0..store.flows).map(|flow| store.scheduler.backlog(FlowId(flow as u32))).sum();
        if waiting > 0 {
            store.serve(lengths[turn as usize % lengths.len()]);
        } else {
            assert_eq!(store.scheduler.poll_dispatch(Time::from_nanos(store.now)), Decision::Idle);
            store.now += MILLISECOND;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    /// No interval of length t has more than l·t + 2 dispatches of a flow, and none from the moment that it
    /// becomes busy for good more than l·t + 1, however fast or slow the store is meanwhile.
    #[test]
    fn limits_hold_in_every_interval(
        flows in flows(300, 600), habits in habits(), lengths in prop::collection::vec(1_000_u64..20_000_000, 1..20),
    ) {
        let mut store = Store::new(Box::new(MClock::new()), &flows);
        random_load(&mut store, &habits, &lengths, true);
        for (id, flow) in flows.iter().enumerate().filter(|(_, flow)| flow.limit > 0) {
            // k requests until t, of which l·t were due: the excess over its least value so far counts.
            let mut least = i128::MAX;
            let times = store.served.iter().filter(|(of, _)| *of == id).map(|(_, at)| i128::from(*at));
            for (k, at) in times.enumerate() {
                let ahead = k as i128 * i128::from(SECOND) - at * i128::from(flow.limit);
                least = least.min(ahead);
                prop_assert!(ahead - least <= i128::from(SECOND) + 1, "at {} ns", at);
                if id == 0 {
                    prop_assert!(ahead <= 0, "busy since the start, at {} ns", at);
                }
            }
        }
    }

    /// Whatever the others do, a flow that always has something waiting is never behind its reservation
    /// by more than one request of each flow, if the reservations fit the capacity; without limits the
    /// store never rests (`Store::serve` waits for limits only, which advances the clock between requests).
    #[test]
    fn reservations_are_met(flows in flows(100, 0), habits in habits(), additive in any::<bool>()) {
        let scheduler: Box<dyn Scheduler> =
            if additive { Box::new(Rbfq::new()) } else { Box::new(MClock::new()) };
        let mut store = Store::new(scheduler, &flows);
        random_load(&mut store, &habits, &[MILLISECOND], true);
        prop_assert!(store.served.windows(2).all(|pair| pair[1].1 == pair[0].1 + MILLISECOND));
        let mut count = 0;
        for (of, at) in &store.served {
            count += u64::from(*of == 0);
            let due = at * flows[0].reservation / SECOND;
            prop_assert!(count + flows.len() as u64 + 2 >= due, "{} of {} at {} ns", count, due, at);
        }
    }
}

#[test]
fn overload_is_shared_by_reservation() {
    let flows = [flow(1_500, 0, 1), flow(500, 0, 9)];
    for scheduler in [Box::new(MClock::new()) as Box<dyn Scheduler>, Box::new(Rbfq::new())] {
        let mut store = Store::new(scheduler, &flows);
        store.run(|_| true, 2, MILLISECOND, 20 * SECOND);
        assert_law(&store.counts(0), &additive(&flows, 1_000.0), 20.0);
    }
}

fn both() -> [Box<dyn Scheduler>; 2] {
    [Box::new(MClock::new()), Box::new(Rbfq::new())]
}

/// An hour away earns nothing, from the first request on.
#[test]
fn a_flow_that_returns_gets_what_it_would_have_got_anyway() {
    let flows = [flow(500, 0, 1), flow(0, 0, 4)];
    for (scheduler, rate) in both().into_iter().zip([500, 600]) {
        let mut store = Store::new(scheduler, &flows);
        store.run(|_| true, 2, MILLISECOND, SECOND);
        // Long services stand for the hour; the flow's last two requests go at its beginning.
        store.run(|flow| flow == 1, 2, 100 * SECOND, 3_600 * SECOND);
        for window in [20, 100, 1_000] {
            let from = store.now;
            store.run(|_| true, 2, MILLISECOND, from + window * MILLISECOND);
            let served = store.counts(from)[0];
            assert!((served - (rate * window) as f64 / 1_000.0).abs() <= 3.0, "{served} of {window}");
            store.run(|flow| flow == 1, 2, 100 * SECOND, store.now + 3_600 * SECOND);
        }
    }
}

/// A flow that comes in the midst of an overload is not shut out until the others have caught up.
#[test]
fn an_overload_does_not_shut_newcomers_out() {
    let flows = [flow(1_000, 0, 1), flow(1_000, 0, 1), flow(500, 0, 1)];
    for scheduler in both() {
        let mut store = Store::new(scheduler, &flows);
        store.run(|flow| flow < 2, 2, MILLISECOND, 60 * SECOND);
        let from = store.now;
        store.run(|_| true, 2, MILLISECOND, from + 5 * SECOND);
        assert_law(&store.counts(from), &[400.0, 400.0, 200.0], 5.0);
    }
}

#[test]
fn the_laws_hold_again_after_a_century_of_stalling() {
    let flows = [flow(300, 0, 1), flow(0, 100, 5), flow(0, 0, 2)];
    let expected = [[300.0, 100.0, 600.0], [387.5, 437.5, 175.0]];
    for (scheduler, expected) in both().into_iter().zip(expected) {
        let mut store = Store::new(scheduler, &flows);
        store.run(|_| true, 2, MILLISECOND, SECOND);
        store.now += 100 * 31_557_600 * SECOND;
        // What waited is late by a century: it catches up by a second's reservations, and not by more.
        let from = store.now;
        store.run(|_| true, 2, MILLISECOND, from + SECOND);
        let from = store.now;
        store.run(|_| true, 2, MILLISECOND, from + 5 * SECOND);
        assert_law(&store.counts(from), &expected, 5.0);
    }
}

#[test]
fn a_client_that_waits_for_each_reply_keeps_its_share() {
    let flows = [flow(0, 0, 3), flow(0, 0, 1)];
    for scheduler in [Box::new(MClock::new()) as Box<dyn Scheduler>, Box::new(Rbfq::new())] {
        let mut store = Store::new(scheduler, &flows);
        store.fill(|_| true, 1);
        while store.now < 10 * SECOND {
            // The reply of flow 0 has come, and its next request with it: it was idle meanwhile.
            store.serve(MILLISECOND);
            store.fill(|_| true, 1);
        }
        assert_law(&store.counts(0), &[750.0, 250.0], 10.0);
    }
}

#[test]
fn background_flows_go_when_no_other_can() {
    let mut store = Store::new(Box::new(MClock::new()), &[flow(10, 100, 1)]);
    let weights = [1, 3].map(|weight| Slo::background().with_weight(Weight::new(weight).unwrap()));
    for (id, slo) in [(1, &weights[0]), (2, &weights[1])] {
        store.scheduler.configure(Time::ZERO, FlowId(id), slo).unwrap();
    }
    let limited = Slo::background().with_limit(Rate::per_second(50)).unwrap();
    store.scheduler.configure(Time::ZERO, FlowId(3), &limited).unwrap();
    store.flows = 4;
    store.run(|_| true, 2, MILLISECOND, 20 * SECOND);
    assert_law(&store.counts(0), &[100.0, 212.5, 637.5, 50.0], 20.0);

    let mut store = Store::new(Box::new(Rbfq::new()), &[flow(10, 0, 1)]);
    store.scheduler.configure(Time::ZERO, FlowId(1), &Slo::background()).unwrap();
    store.flows = 2;
    store.run(|_| true, 2, MILLISECOND, SECOND);
    assert_eq!(store.counts(0), [1_000.0, 0.0]);
}

/// After the paper's example: remote desktop (250 reserved, weight 100), OLTP (250, 200) and data
/// migration (limit 1000, 300), on stores of different speed.
#[test]
fn remote_desktop_oltp_and_data_migration() {
    let flows = [flow(250, 0, 100), flow(250, 0, 200), flow(0, 1_000, 300)];
    for (total, expected) in [
        (700, [250.0, 250.0, 200.0]),
        (1_200, [250.0, 380.0, 570.0]),
        (1_800, [300.0, 600.0, 900.0]),
        (2_400, [466.7, 933.3, 1_000.0]),
    ] {
        let mut store = Store::new(Box::new(MClock::new()), &flows);
        store.run(|_| true, 2, SECOND / total, 10 * SECOND);
        assert_law(&store.counts(0), &expected, 10.0);
    }
}

/// The worked example that VMware publishes for its scheduler of that name ("SIOC: I/O Distribution with
/// Reservations & Limits", part 1, 2015): 8000 IOPS, shares 1000, 2500, 500 and 1000. With the third idle but for
/// 10 IOPS, one store (part 2 has two hosts, each with shares of its own) divides the rest by shares too.
#[test]
fn four_machines_on_8000_iops() {
    let flows = [flow(0, 0, 1_000), flow(0, 0, 2_500), flow(0, 0, 500), flow(0, 2_000, 1_000)];
    let mut store = Store::new(Box::new(MClock::new()), &flows);
    store.run(|_| true, 4, SECOND / 8_000, SECOND);
    assert_law(&store.counts(0), &[1_600.0, 4_000.0, 800.0, 1_600.0], 1.0);
    let mut store = Store::new(Box::new(MClock::new()), &flows);
    for tenth in 1..=10 {
        store.arrive(2, Elsewhere::NOTHING);
        store.run(|flow| flow != 2, 4, SECOND / 8_000, tenth * SECOND / 10);
    }
    assert_law(&store.counts(0), &[1_775.6, 4_438.9, 10.0, 1_775.6], 1.0);
}

/// Table 1 of the thesis, with Table 2's flash: weights, throughput and the ratio that was achieved, as
/// printed, at 30 requests per second reserved for each of the two.
const TABLES: [(u32, u32, f64, f64); 17] = [
    (1, 1, 448.31, 1.0),
    (2, 1, 635.90, 1.9),
    (5, 1, 847.18, 4.3),
    (10, 1, 1_461.91, 8.3),
    (25, 1, 2_379.10, 18.9),
    (100, 1, 3_698.37, 54.5),
    (1, 2, 360.70, 1.8),
    (1, 5, 313.12, 3.3),
    (1, 10, 280.04, 4.6),
    (1, 25, 263.92, 6.0),
    (1, 100, 258.99, 7.1),
    (1, 1, 5_841.12, 1.0),
    (2, 1, 5_841.12, 2.0),
    (5, 1, 5_841.12, 4.9),
    (10, 1, 5_841.12, 9.5),
    (25, 1, 5_841.12, 22.0),
    (1, 100, 5_841.12, 64.9),
];

#[test]
fn the_tables_of_the_thesis() {
    for (sequential, random, total, printed) in TABLES {
        let flows = [flow(30, 0, sequential), flow(30, 0, random)];
        let law = additive(&flows, total);
        let mut store = Store::new(Box::new(Rbfq::new()), &flows);
        store.run(|_| true, 2, (1e9 / total) as u64, 20 * SECOND);
        let served = store.counts(0);
        let ratio = |pair: &[f64]| if sequential >= random { pair[0] / pair[1] } else { pair[1] / pair[0] };
        let allowed = (printed * 0.02_f64).max(0.1);
        assert!((ratio(&law) - printed).abs() <= allowed, "{law:?} for {printed}");
        assert!((ratio(&served) - ratio(&law)).abs() <= 0.01 * ratio(&law), "{served:?} for {law:?}");
    }
}

/// The row that tells the two laws apart: disk, 1:100.
#[test]
fn the_additive_law_and_the_max_law_differ() {
    let flows = [flow(30, 0, 1), flow(30, 0, 100)];
    let law = additive(&flows, 258.99);
    assert_eq!(format!("{:.2} {:.2}", law[0], law[1] / law[0]), "31.97 7.10");
    let max = max_law(&flows, 258.99);
    assert_eq!(format!("{:.2} {:.2}", max[0], max[1] / max[0]), "30.00 7.63");
    for (scheduler, expected) in
        [(Box::new(Rbfq::new()) as Box<dyn Scheduler>, law), (Box::new(MClock::new()), max)]
    {
        let mut store = Store::new(scheduler, &flows);
        store.run(|_| true, 2, (1e9_f64 / 258.99) as u64, 100 * SECOND);
        assert_law(&store.counts(0), &expected, 100.0);
    }
}

/// Two servers of 1000 per second; flow 0 is a client of both, flow 1 of each server one of its own.
/// Flow 0 tells each server what the other one has served of it, or does not.
fn two_servers(shared: Flow, own: Flow, counted: bool) -> [f64; 3] {
    let mut servers = [0, 1].map(|_| Store::new(Box::new(MClock::new()), &[shared, own]));
    // Served and served by reservation of flow 0, at each server; and what each has been told so far.
    let (mut done, mut told) = ([[0_u32; 2]; 2], [[0_u32; 2]; 2]);
    while servers[0].now.min(servers[1].now) < 20 * SECOND {
        let here = usize::from(servers[1].now < servers[0].now);
        let (server, away) = (&mut servers[here], done[1 - here]);
        server.fill(|flow| flow == 1, 2);
        while server.scheduler.backlog(FlowId(0)) < 2 {
            let [served, reserved] = [0, 1].map(|i| away[i] - told[here][i]);
            told[here] = away;
            let elsewhere = Elsewhere::new(served, reserved).unwrap();
            server.arrive(0, if counted { elsewhere } else { Elsewhere::NOTHING });
        }
        if server.serve(MILLISECOND) == Some(0) {
            done[here][0] += 1;
            done[here][1] += u32::from(*server.by_reservation.last().unwrap());
        }
    }
    let [one, other] = servers.map(|server| server.counts(0));
    [one[0] + other[0], one[1], other[1]].map(|count| count / 20.0)
}

fn assert_near(rates: [f64; 3], expected: [f64; 3]) {
    for (rate, expected) in rates.into_iter().zip(expected) {
        assert!((rate - expected).abs() <= 0.03 * expected, "{rates:?} instead of {expected}");
    }
}

#[test]
fn two_servers_share_by_weight_as_one() {
    let equal = flow(0, 0, 1);
    assert_near(two_servers(equal, equal, true), [2_000.0 / 3.0; 3]);
    assert_near(two_servers(equal, equal, false), [1_000.0, 500.0, 500.0]);
    assert_near(two_servers(flow(0, 0, 2), equal, true), [1_000.0, 500.0, 500.0]);
}

#[test]
fn two_servers_reserve_and_limit_as_one() {
    assert_near(two_servers(flow(800, 0, 1), flow(0, 0, 1_000), true), [800.0, 600.0, 600.0]);
    assert_near(two_servers(flow(800, 0, 1), flow(0, 0, 1_000), false), [1_600.0, 200.0, 200.0]);
    assert_near(two_servers(flow(0, 300, 1_000), flow(0, 0, 1), true), [300.0, 850.0, 850.0]);
    assert_near(two_servers(flow(0, 300, 1_000), flow(0, 0, 1), false), [600.0, 700.0, 700.0]);
}
