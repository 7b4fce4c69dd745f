//! What SCED and EDF promise, what they do not, and the examples of the papers that show it.

mod common;

use std::collections::VecDeque;

use common::{arrive, dispatch, slo};
use evenkeel_core::admission::required_capacity;
use evenkeel_core::sched::edf::Edf;
use evenkeel_core::sched::nested::Nested;
use evenkeel_core::sched::pclock::PClock;
use evenkeel_core::sched::sced::Sced;
use evenkeel_core::*;
use proptest::prelude::*;

/// (completion in ms, flow, arrival in ms) of every request of `arrivals`, (ms, flow), in `service` ms each.
fn serve(
    scheduler: &mut dyn Scheduler,
    slos: &[Slo],
    arrivals: &[(u64, usize)],
    service: u64,
) -> Vec<(u64, usize, u64)> {
    for (flow, slo) in slos.iter().enumerate() {
        scheduler.configure(Time::ZERO, FlowId(flow as u32), slo).unwrap();
    }
    let (mut served, mut next, mut now) = (vec![], 0, 0);
    while served.len() < arrivals.len() {
        while let Some((at, flow)) = arrivals.get(next).filter(|(at, _)| *at <= now) {
            arrive(scheduler, Time::from_millis(*at), next as u64, *flow);
            next += 1;
        }
        if let Some(chosen) = dispatch(scheduler, Time::from_millis(now)) {
            now += service;
            served.push((now, chosen.request.flow.0 as usize, chosen.arrival.as_nanos() / 1_000_000));
        } else {
            now += 1;
        }
    }
    served
}

const A: usize = 0;
const B: usize = 1;

/// Case 2 of the pClock paper: f_A uses spare capacity for two seconds, and SCED starves it for that.
#[test]
fn case_2_sced_starves_a_flow_for_its_use_of_spare_capacity() {
    let burst_of_a = (0..200).map(|_| (0, A));
    let steady_a = (0..100).map(|i| (2_000 + 20 * i, A));
    let burst_of_b = (0..100).map(|_| (2_000, B));
    let steady_b = (0..50).map(|i| (3_000 + 20 * i, B));
    let mut arrivals: Vec<(u64, usize)> =
        burst_of_a.chain(steady_a).chain(burst_of_b).chain(steady_b).collect();
    arrivals.sort_by_key(|(at, _)| *at);
    let slos = [slo(0, 50, 500), slo(0, 50, 500)];
    let counts = |scheduler: &mut dyn Scheduler| {
        let served = serve(scheduler, &slos, &arrivals, 10);
        let count = |flow, from, to| served.iter().filter(|s| s.1 == flow && s.0 > from && s.0 <= to).count();
        [(count(A, 0, 2_000), count(B, 0, 2_000)), (count(A, 2_000, 3_000), count(B, 2_000, 3_000))]
    };
    assert_eq!(counts(&mut Sced::new()), [(200, 0), (0, 100)], "f_A gets nothing in [2, 3] s");
    assert_eq!(counts(&mut PClock::new()), [(200, 0), (50, 50)]);
}

/// Case 1 of the pClock paper: bursts within the envelope meet their deadlines under SCED as well.
#[test]
fn case_1_sced_serves_bursts_in_time() {
    let steady = (0..100).map(|i| (20 * i, A));
    let bursts = (0..4).flat_map(|i| std::iter::repeat_n((500 * i, B), 25));
    let mut arrivals: Vec<(u64, usize)> = steady.chain(bursts).collect();
    arrivals.sort_by_key(|(at, _)| *at);
    let bounds = [500, 250];
    for (completion, flow, arrival) in
        serve(&mut Sced::new(), &[slo(0, 50, 500), slo(25, 50, 250)], &arrivals, 10)
    {
        assert!(completion - arrival <= bounds[flow], "flow {flow} at {arrival}");
    }
}

/// Section 3.1.3 of the Nested QoS thesis: bursts of 50 every 100 ms with bounds of 50 and 100 ms need
/// 1000 IOPS under EDF. Client 1 sends 100 instead: plain EDF makes all of client 2 late, Nested QoS none.
#[test]
fn edf_lets_one_client_spoil_the_other() {
    let slos = [slo(50, 500, 50), slo(50, 500, 100)];
    let envelopes = slos.clone().map(|slo| *slo.envelope().unwrap());
    // The thesis counts the bursts alone. As an envelope client 1 may send 25 more that are due by 100 ms.
    assert_eq!(required_capacity(&envelopes).capacity, Rate::per_second(1_250));
    let bursts = |of_first: usize| -> Vec<(u64, usize)> {
        std::iter::repeat_n((0, A), of_first).chain(std::iter::repeat_n((0, B), 50)).collect()
    };
    let late = |served: &[(u64, usize, u64)], flow: usize, bound: u64| {
        served.iter().filter(|s| s.1 == flow && s.0 - s.2 > bound).count()
    };
    let good = serve(&mut Edf::new(), &slos, &bursts(50), 1);
    assert_eq!((late(&good, A, 50), late(&good, B, 100)), (0, 0));
    let bad = serve(&mut Edf::new(), &slos, &bursts(100), 1);
    assert_eq!((late(&bad, A, 50), late(&bad, B, 100)), (50, 50));
    assert!(bad.iter().filter(|s| s.1 == A).all(|s| s.0 <= 100), "all of client 1 goes first");
    let nested = serve(&mut Nested::new(), &slos, &bursts(100), 1);
    assert_eq!((late(&nested, A, 50), late(&nested, B, 100)), (50, 0), "only the excess is late");
}

#[derive(Clone, Debug)]
struct Client {
    envelope: Envelope,
    /// Sends only what its envelope admits.
    behaves: bool,
}

fn clients() -> impl Strategy<Value = Vec<Client>> {
    let client = (1_u64..12, 1_u64..8, 1_u64..6, any::<bool>());
    prop::collection::vec(
        client.prop_map(|(burst, rate, latency, behaves)| Client {
            envelope: Envelope::new(
                Cost::requests(burst),
                Rate::per_second(25 * rate),
                Span::from_millis(40 * latency),
            )
            .unwrap(),
            behaves,
        }),
        1..6,
    )
}

fn wishes() -> impl Strategy<Value = Vec<(u64, usize, usize)>> {
    let gap =
        prop_oneof![2 => Just(0_u64), 3 => (1_u64..8).prop_map(|n| n * 10_000_000), 2 => 1_u64..60_000_000];
    prop::collection::vec((gap, 0_usize..6, prop_oneof![3 => 1_usize..4, 1 => 4_usize..30]), 1..60)
}

/// Runs on the capacity that admission asks for; the well-behaved must be in time. Also: work
/// conservation, order within a flow, nothing lost. The last flow is a background flow.
fn keeps_its_promise(scheduler: &mut dyn Scheduler, clients: &[Client], wishes: &[(u64, usize, usize)]) {
    const SERVICE: u128 = 1_000_000_000_000;
    let envelopes: Vec<Envelope> = clients.iter().map(|client| client.envelope).collect();
    let capacity = u128::from(required_capacity(&envelopes).capacity.as_millis());
    let mut meters = vec![];
    for (flow, client) in clients.iter().enumerate() {
        let slo = Slo::guaranteed(client.envelope);
        scheduler.configure(Time::ZERO, FlowId(flow as u32), &slo).unwrap();
        meters.push(TokenBucket::new(Time::ZERO, client.envelope.burst(), client.envelope.rate()));
    }
    scheduler.configure(Time::ZERO, FlowId(clients.len() as u32), &Slo::background()).unwrap();
    let mut arrivals = VecDeque::new();
    let mut at = 0;
    for (gap, flow, count) in wishes {
        let (flow, now) = (flow % (clients.len() + 1), at + gap);
        at = now;
        for _ in 0..*count {
            let behaves = clients.get(flow).is_some_and(|client| client.behaves);
            if !behaves || meters[flow].take(Time::from_nanos(now), Cost::ONE) {
                arrivals.push_back((now, flow));
            }
        }
    }
    let mut expected: Vec<VecDeque<u64>> = vec![VecDeque::new(); clients.len() + 1];
    let (mut free_at, mut waiting, mut id) = (0_u128, 0, 0);
    loop {
        let now = free_at.div_ceil(capacity) as u64;
        if let Some((at, flow)) = arrivals.front().copied().filter(|(at, _)| *at <= now || waiting == 0) {
            arrive(scheduler, Time::from_nanos(at), id, flow);
            expected[flow].push_back(id);
            arrivals.pop_front();
            if waiting == 0 {
                free_at = free_at.max(u128::from(at) * capacity);
            }
            (id, waiting) = (id + 1, waiting + 1);
            continue;
        }
        let chosen = dispatch(scheduler, Time::from_nanos(now));
        assert_eq!(chosen.is_some(), waiting > 0, "work conservation");
        let Some(chosen) = chosen else { break };
        let flow = chosen.request.flow.0 as usize;
        assert_eq!(expected[flow].pop_front(), Some(chosen.request.id.0), "order within flow {flow}");
        waiting -= 1;
        free_at += SERVICE;
        if let Some(client) = clients.get(flow).filter(|client| client.behaves) {
            // Tags are rounded to 1 ns, and the clock that the scheduler sees is, too.
            let due = u128::from((chosen.arrival + client.envelope.latency()).as_nanos()) + 3;
            assert!(free_at <= due * capacity + SERVICE, "request {} of flow {flow}", chosen.request.id.0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]

    #[test]
    fn sced_shields_the_well_behaved(clients in clients(), wishes in wishes()) {
        keeps_its_promise(&mut Sced::new(), &clients, &wishes);
    }

    #[test]
    fn edf_is_in_time_if_all_behave(mut clients in clients(), wishes in wishes()) {
        for client in &mut clients {
            client.behaves = true;
        }
        keeps_its_promise(&mut Edf::new(), &clients, &wishes);
    }
}
