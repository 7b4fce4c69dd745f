//! The laws that SFQ(D), WF²Q+ and Virtual Clock promise, and the examples of the papers.
//!
//! Fairness is checked exactly: shares and costs are integers and every bound is multiplied out.

mod common;

use std::collections::VecDeque;

use common::{arrive, dispatch, request, slo};
use evenkeel_core::sched::sfq::SfqD;
use evenkeel_core::sched::virtual_clock::VirtualClock;
use evenkeel_core::sched::wf2q::Wf2qPlus;
use evenkeel_core::*;
use proptest::prelude::*;

const FLOWS: usize = 4;

/// What a run of requests looks like to an observer at the dispatcher. Time is the number of the decision.
struct Run {
    shares: [i128; FLOWS],
    /// Before each decision: which flows have something waiting.
    waiting: Vec<[bool; FLOWS]>,
    /// By each decision, what was served: (flow, cost).
    served: Vec<(usize, i128)>,
    /// Whether the flow then had nothing left.
    emptied: Vec<bool>,
}

/// Some requests arrive, then some are dispatched.
type Round = (Vec<(usize, u64)>, u8);

fn rounds() -> impl Strategy<Value = Vec<Round>> {
    let arrivals = prop::collection::vec((0..FLOWS, prop_oneof![Just(1_000_u64), 1_u64..6_000]), 0..12);
    prop::collection::vec((arrivals, 0_u8..12), 1..25)
}

fn shares() -> impl Strategy<Value = [u32; FLOWS]> {
    prop_oneof![prop::array::uniform4(1_u32..10), prop::array::uniform4(1_u32..1_000)]
}

fn configure(scheduler: &mut dyn Scheduler, shares: [u32; FLOWS]) {
    for (flow, share) in shares.into_iter().enumerate() {
        // Half by the rate, half by the weight: the share is the product.
        let slo = if flow % 2 == 0 { slo(1, share.into(), 100) } else { slo(1, 1, 100) };
        let weight = if flow % 2 == 0 { 1 } else { share };
        let slo = slo.with_weight(Weight::new(weight).unwrap());
        scheduler.configure(Time::ZERO, FlowId(flow as u32), &slo).unwrap();
    }
}

fn run(scheduler: &mut dyn Scheduler, shares: [u32; FLOWS], rounds: &[Round]) -> Run {
    configure(scheduler, shares);
    let mut run = Run { shares: shares.map(i128::from), waiting: vec![], served: vec![], emptied: vec![] };
    let mut queues = [const { VecDeque::new() }; FLOWS];
    let mut id = 0;
    let drain = (vec![], u8::MAX);
    for (arrivals, dispatches) in rounds.iter().chain(std::iter::repeat_n(&drain, 2)) {
        for (flow, cost) in arrivals {
            scheduler.on_arrival(Time::ZERO, Arrival::new(Time::ZERO, request(id, *flow, *cost))).unwrap();
            queues[*flow].push_back(id);
            id += 1;
        }
        for _ in 0..*dispatches {
            let waiting = queues.each_ref().map(|queue| !queue.is_empty());
            let Some(dispatch) = dispatch(scheduler, Time::ZERO) else {
                assert_eq!(waiting, [false; FLOWS], "work conserving");
                break;
            };
            let flow = dispatch.request.flow.0 as usize;
            assert_eq!(
                queues[flow].pop_front(),
                Some(dispatch.request.id.0),
                "in order, none lost, none twice"
            );
            run.waiting.push(waiting);
            run.served.push((flow, dispatch.request.cost.as_millis().into()));
            run.emptied.push(queues[flow].is_empty());
        }
    }
    assert!(queues.iter().all(VecDeque::is_empty));
    run
}

impl Run {
    fn largest(&self, flow: usize) -> i128 {
        self.served.iter().filter(|served| served.0 == flow).map(|served| served.1).max().unwrap_or(0)
    }
}

/// The most that the sum of `gains` grows over any interval within which `during` holds.
fn most_gained(gains: impl Iterator<Item = i128>, during: impl Iterator<Item = bool>) -> i128 {
    let (mut best, mut gained) = (0, 0);
    for (gain, during) in gains.zip(during) {
        gained = if during { (gained + gain).max(0) } else { 0 };
        best = best.max(gained);
    }
    best
}

/// Goyal's bound, times w_f·w_m and `factor`, for every ordered pair of flows.
fn check_pairs(shares: [i128; FLOWS], served: &[(usize, i128)], waiting: &[[bool; FLOWS]], factor: i128) {
    let largest = |flow| served.iter().filter(|s| s.0 == flow).map(|s| s.1).max().unwrap_or(0);
    for f in 0..FLOWS {
        for m in (0..FLOWS).filter(|m| *m != f) {
            let gains = served.iter().map(|(flow, cost)| match *flow {
                flow if flow == f => cost * shares[m],
                flow if flow == m => -cost * shares[f],
                _ => 0,
            });
            let ahead = most_gained(gains, waiting.iter().map(|waiting| waiting[f] && waiting[m]));
            let bound = factor * (largest(f) * shares[m] + largest(m) * shares[f]);
            assert!(ahead <= bound, "{f} ahead of {m} by {ahead} > {bound}");
        }
    }
}

/// SFQ behind a store with `depth` outstanding that finishes them in any order: what it completes.
fn run_deep(shares: [u32; FLOWS], rounds: &[Round], depth: usize, picks: &[usize]) -> Run {
    let mut sfq = SfqD::new();
    configure(&mut sfq, shares);
    let mut run = Run { shares: shares.map(i128::from), waiting: vec![], served: vec![], emptied: vec![] };
    let mut outstanding: Vec<(usize, i128)> = vec![];
    let mut picks = picks.iter().cycle();
    let mut id = 0;
    let drain = (vec![], u8::MAX);
    for (arrivals, completions) in rounds.iter().chain(std::iter::repeat_n(&drain, 2)) {
        for (flow, cost) in arrivals {
            sfq.on_arrival(Time::ZERO, Arrival::new(Time::ZERO, request(id, *flow, *cost))).unwrap();
            id += 1;
        }
        for _ in 0..*completions {
            while outstanding.len() < depth
                && let Some(dispatch) = dispatch(&mut sfq, Time::ZERO)
            {
                let cost = dispatch.request.cost.as_millis();
                outstanding.push((dispatch.request.flow.0 as usize, cost.into()));
            }
            if outstanding.is_empty() {
                break;
            }
            run.waiting.push(std::array::from_fn(|flow| sfq.backlog(FlowId(flow as u32)) > 0));
            let pick = picks.next().unwrap() % outstanding.len();
            run.served.push(outstanding.swap_remove(pick));
        }
    }
    run
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    /// Goyal, Vin, Cheng: |W_f/w_f − W_m/w_m| ≤ c_f/w_f + c_m/w_m.
    #[test]
    fn sfq_keeps_flows_that_wait_together(shares in shares(), rounds in rounds()) {
        let run = run(&mut SfqD::new(), shares, &rounds);
        check_pairs(run.shares, &run.served, &run.waiting, 1);
    }

    /// Jin, Chase, Kaur: the same of what completes, times D + 1.
    #[test]
    fn sfq_d_keeps_completions_together(
        shares in shares(), rounds in rounds(), depth in 1_usize..9, picks in prop::collection::vec(0_usize..64, 40),
    ) {
        let run = run_deep(shares, &rounds, depth, &picks);
        check_pairs(run.shares, &run.served, &run.waiting, depth as i128 + 1);
    }

    /// Bennett and Zhang's worst-case fair index: W_i ≥ (w_i/Σ)·W − α_i from any instant at which i waits to
    /// the completion of one of its requests; to any other instant, one request less its share.
    #[test]
    fn wf2q_plus_is_worst_case_fair(shares in shares(), rounds in rounds()) {
        let run = run(&mut Wf2qPlus::new(), shares, &rounds);
        let total: i128 = run.shares.iter().sum();
        let largest_of_all = (0..FLOWS).map(|flow| run.largest(flow)).max().unwrap_or(0);
        for i in 0..FLOWS {
            let (share, largest, mut behind) = (run.shares[i], run.largest(i), 0);
            let alpha = largest * total + (largest_of_all - largest) * share;
            for (decision, (flow, cost)) in run.served.iter().enumerate() {
                behind = if run.waiting[decision][i] { behind.max(0) + share * cost } else { 0 };
                if *flow == i {
                    behind -= total * cost;
                    prop_assert!(behind <= alpha, "{} behind by {} > {}", i, behind, alpha);
                    behind = if run.emptied[decision] { 0 } else { behind };
                }
                prop_assert!(behind <= alpha + (total - share) * largest);
            }
        }
    }

    /// The fluid reference while the same flows wait all the time, others being idle: flow i has
    /// w_i/Σ_busy of all that was served. WF²Q+ is never ahead of it by more than (1 − w_i/Σ_busy)·c_i,
    /// and, if all are busy, never behind it by more than c_max.
    #[test]
    fn wf2q_plus_stays_beside_the_fluid_server(
        shares in shares(), busy in 1..=FLOWS, costs in prop::collection::vec(1_u64..6_000, 200),
    ) {
        let arrivals: Vec<_> = costs.iter().enumerate().map(|(i, cost)| (i % busy, *cost)).collect();
        let run = run(&mut Wf2qPlus::new(), shares, &[(arrivals, 0)]);
        let total: i128 = run.shares[..busy].iter().sum();
        let largest_of_all = (0..busy).map(|flow| run.largest(flow)).max().unwrap();
        let (mut own, mut all) = ([0; FLOWS], 0);
        for ((flow, cost), waiting) in run.served.iter().zip(&run.waiting) {
            if waiting[..busy].iter().any(|waiting| !waiting) {
                break;
            }
            own[*flow] += cost;
            all += cost;
            for (i, own) in own.iter().enumerate().take(busy) {
                let ahead = own * total - run.shares[i] * all;
                prop_assert!(ahead <= (total - run.shares[i]) * run.largest(i));
                prop_assert!(busy < FLOWS || -ahead <= largest_of_all * total);
            }
        }
    }
}

/// Arrivals (ns, flow, cost) at a store of `capacity` thousandths per second that serves one request at a
/// time: (completion, flow, arrival) of each.
fn serve(
    scheduler: &mut dyn Scheduler,
    arrivals: &[(u64, usize, u64)],
    capacity: u64,
) -> Vec<(u64, usize, u64)> {
    let (mut next, mut now, mut served) = (0, 0, vec![]);
    while served.len() < arrivals.len() {
        while let Some((at, flow, cost)) = arrivals.get(next).filter(|arrival| arrival.0 <= now) {
            let at = Time::from_nanos(*at);
            scheduler.on_arrival(at, Arrival::new(at, request(next as u64, *flow, *cost))).unwrap();
            next += 1;
        }
        match dispatch(scheduler, Time::from_nanos(now)) {
            Some(dispatch) => {
                now += (dispatch.request.cost.as_millis() * 1_000_000_000).div_ceil(capacity);
                served.push((now, dispatch.request.flow.0 as usize, dispatch.arrival.as_nanos()));
            }
            None => now = arrivals[next].0,
        }
    }
    served
}

/// Flow 0 sends what its bucket lets pass, at random instants; the others what they like.
fn with_one_conforming(gaps: &[(u64, usize, u64)], burst: u64, rate: u64) -> Vec<(u64, usize, u64)> {
    let mut bucket = TokenBucket::new(Time::ZERO, Cost::requests(burst), Rate::per_second(rate));
    let (mut at, mut arrivals) = (0, vec![]);
    for (gap, flow, cost) in gaps {
        at += gap;
        if *flow == 0 {
            let cost = (*cost).min(burst * 1_000);
            let mut tried = bucket;
            if tried.arrive(Time::from_nanos(at), Cost::from_millis(cost)) {
                bucket = tried;
                arrivals.push((at, 0, cost));
            }
        } else {
            arrivals.push((at, *flow, *cost));
        }
    }
    arrivals
}

fn traffic() -> impl Strategy<Value = Vec<(u64, usize, u64)>> {
    let gap = prop_oneof![3 => Just(0_u64), 2 => 0_u64..3_000_000, 1 => 0_u64..100_000_000];
    let flow = prop_oneof![1 => Just(0), 1 => 1..FLOWS];
    prop::collection::vec((gap, flow, prop_oneof![Just(1_000_u64), 1_u64..4_000]), 1..150)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    /// A flow inside σ + ρ·t waits at most σ/ρ + c_max/C, and c_max/C for the step of V.
    #[test]
    fn wf2q_plus_bounds_the_latency_of_a_conforming_flow(
        gaps in traffic(), rates in prop::array::uniform4(1_u64..200), burst in 1_u64..6,
    ) {
        let mut wf2q = Wf2qPlus::new();
        for (flow, rate) in rates.into_iter().enumerate() {
            wf2q.configure(Time::ZERO, FlowId(flow as u32), &slo(burst, rate, 100)).unwrap();
        }
        let capacity = rates.iter().sum::<u64>() * 1_000;
        let arrivals = with_one_conforming(&gaps, burst, rates[0]);
        let largest = arrivals.iter().map(|arrival| arrival.2).max().unwrap_or(0);
        let bound = burst * 1_000_000_000 / rates[0] + 2 * largest * 1_000_000_000 / capacity;
        for (completion, _, arrival) in serve(&mut wf2q, &arrivals, capacity).iter().filter(|s| s.1 == 0) {
            // The store rounds each service up to 1 ns.
            prop_assert!(completion - arrival <= bound + 200, "{} > {}", completion - arrival, bound);
        }
    }

    /// The same of Virtual Clock: done by its tag + c_max/C, and the tag is at most σ/ρ after the arrival.
    #[test]
    fn virtual_clock_serves_a_conforming_flow_in_time(
        gaps in traffic(), rates in prop::array::uniform4(1_u64..200), burst in 1_u64..6,
    ) {
        let mut clocks = VirtualClock::new();
        for (flow, rate) in rates.into_iter().enumerate() {
            clocks.configure(Time::ZERO, FlowId(flow as u32), &slo(burst, rate, 100)).unwrap();
        }
        let capacity = rates.iter().sum::<u64>() * 1_000;
        let arrivals = with_one_conforming(&gaps, burst, rates[0]);
        let largest = arrivals.iter().map(|arrival| arrival.2).max().unwrap_or(0);
        let bound = burst * 1_000_000_000 / rates[0] + largest * 1_000_000_000 / capacity;
        for (completion, _, arrival) in serve(&mut clocks, &arrivals, capacity).iter().filter(|s| s.1 == 0) {
            prop_assert!(completion - arrival <= bound + 200, "{} > {}", completion - arrival, bound);
        }
    }
}

const A: usize = 0;
const B: usize = 1;
const MS: u64 = 1_000_000;

fn two_flows<S: Scheduler>(mut scheduler: S) -> S {
    for flow in 0..2 {
        scheduler.configure(Time::ZERO, FlowId(flow), &slo(25 * u64::from(flow), 50, 500)).unwrap();
    }
    scheduler
}

fn sorted(arrivals: impl Iterator<Item = (u64, usize)>) -> Vec<(u64, usize, u64)> {
    let mut arrivals: Vec<_> = arrivals.map(|(at, flow)| (at * MS, flow, 1_000)).collect();
    arrivals.sort_by_key(|arrival| arrival.0);
    arrivals
}

/// pClock, section 2, case 1: both get 50 IOPS, but the burst of f_B takes up to 500 ms.
#[test]
fn case_1_wf2q_plus_meets_the_throughput_and_not_the_latency() {
    let steady = (0..100).map(|i| (20 * i, A));
    let bursts = (0..4).flat_map(|i| std::iter::repeat_n((500 * i, B), 25));
    let served = serve(&mut two_flows(Wf2qPlus::new()), &sorted(steady.chain(bursts)), 100_000);
    for half in 0..4 {
        let within = |s: &&(u64, usize, u64)| s.0 > 500 * half * MS && s.0 <= 500 * (half + 1) * MS;
        for flow in [A, B] {
            assert_eq!(served.iter().filter(within).filter(|s| s.1 == flow).count(), 25, "50 IOPS each");
        }
    }
    let worst = |flow| served.iter().filter(|s| s.1 == flow).map(|s| s.0 - s.2).max().unwrap() / MS;
    assert!((490..=500).contains(&worst(B)), "{} ms, promised 250", worst(B));
    assert!(worst(A) <= 20, "{} ms", worst(A));
}

/// Completions of each flow in ]from, to] seconds of case 2.
fn case_2(scheduler: &mut dyn Scheduler) -> impl Fn(u64, u64) -> (usize, usize) + use<> {
    let burst_of_a = (0..200).map(|_| (0, A));
    let steady_a = (0..150).map(|i| (2_000 + 20 * i, A));
    let burst_of_b = (0..100).map(|_| (2_000, B));
    let steady_b = (0..100).map(|i| (3_000 + 20 * i, B));
    let arrivals = sorted(burst_of_a.chain(steady_a).chain(burst_of_b).chain(steady_b));
    let served = serve(scheduler, &arrivals, 100_000);
    move |from, to| {
        let within = |s: &&(u64, usize, u64)| s.0 > from * 1_000 * MS && s.0 <= to * 1_000 * MS;
        let count = |flow| served.iter().filter(within).filter(|s| s.1 == flow).count();
        (count(A), count(B))
    }
}

/// pClock, section 2, case 2: f_A used the spare capacity of [0, 2] s and is starved in [2, 3] s.
#[test]
fn case_2_virtual_clock_starves_the_flow_that_used_spare_capacity() {
    let count = case_2(&mut two_flows(VirtualClock::new()));
    assert_eq!(count(0, 2), (200, 0));
    assert_eq!(count(2, 3), (0, 100), "all the service goes to f_B");
}

#[test]
fn case_2_wf2q_plus_and_sfq_do_not() {
    let fair: [&mut dyn Scheduler; 2] = [&mut two_flows(Wf2qPlus::new()), &mut two_flows(SfqD::new())];
    for scheduler in fair {
        let count = case_2(scheduler);
        assert_eq!(count(0, 2), (200, 0));
        // f_A's last request in [0, 2] s is still held against it, and that is all.
        assert!(count(2, 3).0 >= 49 && count(3, 4).0 >= 49, "{:?}", count(2, 3));
        assert_eq!(count(2, 4).0 + count(2, 4).1, 200);
    }
}

fn order(scheduler: &mut dyn Scheduler, count: usize) -> Vec<usize> {
    (0..count).map(|_| dispatch(scheduler, Time::ZERO).unwrap().request.flow.0 as usize).collect()
}

/// Bennett and Zhang's example: session 0 has half of the link and 11 packets, ten others have a twentieth
/// and a packet each. WFQ would send ten of session 0 in a row, WF²Q+ sends every other.
#[test]
fn wf2q_plus_does_not_run_ahead_of_the_fluid_server() {
    let mut wf2q = Wf2qPlus::new();
    for flow in 0..11 {
        wf2q.configure(Time::ZERO, FlowId(flow), &slo(1, if flow == 0 { 10 } else { 1 }, 100)).unwrap();
    }
    for id in 0..21 {
        arrive(&mut wf2q, Time::ZERO, id, (id as usize).saturating_sub(10));
    }
    let expected: Vec<usize> = (0..21).map(|i| if i % 2 == 0 { 0 } else { i / 2 + 1 }).collect();
    assert_eq!(order(&mut wf2q, 21), expected);
}

/// The timeline in docs/schedulers/sfqd.md.
#[test]
fn sfq_serves_by_start_tag() {
    let mut sfq = SfqD::new();
    for flow in 0..2 {
        sfq.configure(Time::ZERO, FlowId(flow), &slo(1, 1 + u64::from(flow), 100)).unwrap();
    }
    for id in 0..9 {
        arrive(&mut sfq, Time::ZERO, id, usize::from(id >= 3));
    }
    assert_eq!(order(&mut sfq, 9), [A, B, B, A, B, B, A, B, B]);
}

/// B has been idle, A has run ahead for as long: from B's return they take turns at once.
#[test]
fn a_flow_that_comes_back_claims_nothing_and_owes_nothing() {
    let fair: [&mut dyn Scheduler; 2] = [&mut two_flows(Wf2qPlus::new()), &mut two_flows(SfqD::new())];
    for scheduler in fair {
        for id in 0..1_000 {
            arrive(scheduler, Time::ZERO, id, A);
        }
        assert_eq!(order(scheduler, 500), [A; 500]);
        for id in 1_000..1_100 {
            arrive(scheduler, Time::ZERO, id, B);
        }
        let turns = order(scheduler, 20);
        assert_eq!(turns.iter().filter(|flow| **flow == B).count(), 10, "{turns:?}");
        assert!(turns.windows(3).all(|three| three.contains(&A) && three.contains(&B)), "{turns:?}");
    }
}

/// A is served a request ahead of its share, and then nobody sends for ten seconds. V does not grow
/// meanwhile, and still the next burst of A takes σ/ρ = 200 ms + 2·c_max/C = 20 ms at most, not 290.
#[test]
fn wf2q_plus_does_not_hold_a_request_against_a_flow_for_ever() {
    let mut wf2q = Wf2qPlus::new();
    for (flow, rate) in [(A, 10), (B, 90)] {
        wf2q.configure(Time::ZERO, FlowId(flow as u32), &slo(2, rate, 100)).unwrap();
    }
    let others = std::iter::repeat_n((10_000, B), 200);
    let arrivals = sorted([(0, A), (10_000, A), (10_000, A)].into_iter().chain(others));
    let served = serve(&mut wf2q, &arrivals, 100_000);
    let worst = served.iter().filter(|s| s.1 == A).map(|s| s.0 - s.2).max().unwrap();
    assert!(worst <= 220 * MS, "{worst}");
}

#[test]
fn virtual_clock_gives_an_idle_flow_no_credit() {
    let mut clocks = two_flows(VirtualClock::new());
    let now = Time::from_millis(10_000);
    for id in 0..20 {
        arrive(&mut clocks, now, id, (id % 2) as usize);
    }
    let tags: Vec<_> = (0..20).map(|_| dispatch(&mut clocks, now).unwrap().finish_tag.unwrap()).collect();
    let expected: Vec<_> = (0..20).map(|i| Time::from_millis(10_000 + 20 * (1 + i / 2))).collect();
    assert_eq!(tags, expected);
}

#[test]
fn refusals_change_nothing_and_the_extremes_keep_their_order() {
    let schedulers: [&mut dyn Scheduler; 3] =
        [&mut SfqD::new(), &mut Wf2qPlus::new(), &mut VirtualClock::new()];
    for scheduler in schedulers {
        let (flow, stranger) = (FlowId(0), FlowId(5));
        let beyond = FlowId(FlowId::MAX.0 + 1);
        let slowest = Envelope::new(Cost::ZERO, Rate::from_millis(1), Envelope::LATENCY_MAX).unwrap();
        scheduler.configure(Time::ZERO, flow, &Slo::guaranteed(slowest)).unwrap();
        let refused = scheduler.configure(Time::ZERO, beyond, &Slo::background());
        assert_eq!(refused, Err(ConfigureError::FlowOutOfRange(beyond)));
        let unknown = Err(ConfigureError::UnknownFlow(stranger));
        assert_eq!(scheduler.remove(Time::ZERO, stranger), unknown);
        assert_eq!(scheduler.on_arrival(Time::ZERO, Arrival::new(Time::ZERO, request(0, 5, 1))), unknown);
        assert_eq!(scheduler.poll_dispatch(Time::ZERO), Decision::Idle);
        for id in 0..1_000 {
            let now = Time::from_nanos(if id < 500 { 0 } else { u64::MAX });
            scheduler.on_arrival(now, Arrival::new(now, request(id, 0, u64::MAX))).unwrap();
        }
        assert_eq!(scheduler.remove(Time::ZERO, flow), Err(ConfigureError::Busy(flow)));
        for id in 0..1_000 {
            assert_eq!(dispatch(scheduler, Time::ZERO).unwrap().request.id, RequestId(id));
        }
        scheduler.remove(Time::ZERO, flow).unwrap();
        assert_eq!(scheduler.backlog(flow), 0);
    }
}
