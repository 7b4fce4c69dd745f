//! The laws of Nested QoS on a server of constant rate, of exactly the capacity that lemma 3 asks for.

mod common;

use std::collections::{BTreeMap, VecDeque};

use common::{dispatch, request};
use evenkeel_core::admission::nested_capacity;
use evenkeel_core::sched::nested::Nested;
use evenkeel_core::*;
use proptest::prelude::*;

/// One request more in `flow` at `at` ns, of so many thousandths.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: u64,
    flow: usize,
    cost: u64,
}

#[derive(Clone, Copy, Debug)]
struct Served {
    /// In nanoseconds times the capacity in 1/1000 IOPS, so that nothing rounds.
    completion: u128,
    /// The deadline, of a classified request.
    due: Option<Time>,
    /// What it took.
    work: u128,
}

/// A service of an ordinary request in the time of [`Served::completion`].
const SERVICE: u128 = 1_000_000_000_000;

/// A thousandth of it.
const THOUSANDTH: u128 = SERVICE / 1_000;

/// Serves what `sent` says, in the order of time; a request's identifier is its index.
fn serve(slos: &[Slo], capacity: u64, sent: &[(u64, Sent)]) -> BTreeMap<u64, Served> {
    let mut nested = Nested::new();
    for (flow, slo) in slos.iter().enumerate() {
        nested.configure(Time::ZERO, FlowId(flow as u32), slo).unwrap();
    }
    let mut arrivals: VecDeque<(u64, Sent)> = sent.iter().copied().collect();
    let (mut free_at, mut waiting, mut served) = (0_u128, 0, BTreeMap::new());
    let mut last: BTreeMap<(usize, Option<u64>), u64> = BTreeMap::new();
    loop {
        let now = free_at.div_ceil(u128::from(capacity)) as u64;
        if let Some((id, next)) = arrivals.front().copied().filter(|(_, next)| next.at <= now || waiting == 0)
        {
            let at = Time::from_nanos(next.at);
            nested.on_arrival(at, Arrival::new(at, request(id, next.flow, next.cost))).unwrap();
            free_at =
                if waiting == 0 { free_at.max(u128::from(next.at) * u128::from(capacity)) } else { free_at };
            waiting += 1;
            arrivals.pop_front();
            continue;
        }
        if waiting == 0 {
            assert_eq!(dispatch(&mut nested, Time::from_nanos(now)), None);
            return served;
        }
        let chosen = dispatch(&mut nested, Time::from_nanos(now)).expect("work conservation");
        waiting -= 1;
        let work = u128::from(chosen.request.cost.as_millis()) * THOUSANDTH;
        free_at += work;
        let (id, due) = (chosen.request.id.0, chosen.finish_tag);
        let latency = due.map(|due| due.since(chosen.arrival).as_nanos());
        if let Some(before) = last.insert((chosen.request.flow.0 as usize, latency), id) {
            assert!(before < id, "order within a class");
        }
        assert!(served.insert(id, Served { completion: free_at, due, work }).is_none(), "served once");
    }
}

/// Numbers are round, so that refills, deadlines and completions often coincide.
fn classes() -> impl Strategy<Value = Slo> {
    let step = (0_u64..8, 0_u64..4, 0_u64..5);
    prop::collection::vec(step, 1..4).prop_map(|steps| {
        let outward = |sum: &mut (u64, u64, u64), (burst, rate, latency): (u64, u64, u64)| {
            *sum = (sum.0 + burst, sum.1 + 25 * rate, sum.2 + 20 * latency);
            Some(*sum)
        };
        let envelope = |(burst, rate, millis)| {
            Envelope::new(Cost::requests(burst), Rate::per_second(rate), Span::from_millis(millis)).unwrap()
        };
        let sums = steps.into_iter().scan((1, 25, 20), outward);
        Slo::nested(&sums.map(envelope).collect::<Vec<_>>()).unwrap()
    })
}

/// Bursts at random, and at the moments of a refill; costs up to `dearest`.
fn sent(flows: usize, dearest: u64) -> impl Strategy<Value = Vec<(u64, Sent)>> {
    let gap =
        prop_oneof![2 => Just(0_u64), 3 => (1_u64..8).prop_map(|n| n * 10_000_000), 2 => 1_u64..60_000_000];
    let cost = prop_oneof![Just(1_000), 1_000..=dearest, 1..=dearest];
    let cost = if dearest > 1_000 { cost.boxed() } else { Just(1_000).boxed() };
    let burst = (gap, 0..flows, prop_oneof![3 => 1_usize..4, 1 => 4_usize..30], cost);
    prop::collection::vec(burst, 1..60).prop_map(|bursts| {
        let mut now = 0;
        let mut all = vec![];
        for (gap, flow, count, cost) in bursts {
            now += gap;
            all.extend(std::iter::repeat_n(Sent { at: now, flow, cost }, count));
        }
        (0..).zip(all).collect()
    })
}

const FLOWS: usize = 4;

fn capacity_for(slos: &[Slo]) -> u64 {
    let classes: Vec<&[Envelope]> = slos.iter().map(Slo::classes).collect();
    nested_capacity(&classes).capacity.as_millis()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// No classified request of any class misses its deadline by more than the request in service, beside
    /// any excess and background work. Also: work conservation, order, nothing lost or duplicated.
    #[test]
    fn no_classified_request_is_late(
        mut slos in prop::collection::vec(classes(), FLOWS - 1), sent in sent(FLOWS, 1_000),
    ) {
        slos.push(Slo::background());
        let capacity = capacity_for(&slos);
        let served = serve(&slos, capacity, &sent);
        prop_assert_eq!(served.len(), sent.len());
        for (id, served) in served {
            let Some(due) = served.due else { continue };
            // The scheduler's clock is rounded to 1 ns.
            let bound = u128::from(due.as_nanos() + 1) * u128::from(capacity) + SERVICE;
            prop_assert!(served.completion <= bound, "request {} is late", id);
        }
    }

    /// P1 and P2: without the excess and the background, the others get the same deadlines, and the k-th of
    /// them to be done is done earlier by at most one service time. (Not each of them: a shift by
    /// one service can swap two of them whose deadlines allow it.)
    #[test]
    fn excess_delays_by_at_most_one_service(
        mut slos in prop::collection::vec(classes(), FLOWS - 1), sent in sent(FLOWS, 1_000), load in 1_u64..300,
    ) {
        slos.push(Slo::background());
        let capacity = capacity_for(&slos) * load / 100 + 1;
        let with = serve(&slos, capacity, &sent);
        let classified: Vec<_> = sent.iter().copied().filter(|(id, _)| with[id].due.is_some()).collect();
        let without = serve(&slos, capacity, &classified);
        let mut delayed: Vec<u128> = vec![];
        for (id, _) in &classified {
            prop_assert_eq!(with[id].due, without[id].due);
            delayed.push(with[id].completion);
        }
        let mut prompt: Vec<u128> = without.values().map(|served| served.completion).collect();
        delayed.sort_unstable();
        prompt.sort_unstable();
        for (delayed, prompt) in delayed.into_iter().zip(prompt) {
            // Arrivals between two ticks of 1 ns may be seen at the next.
            prop_assert!(delayed <= prompt + SERVICE + u128::from(capacity));
        }
    }

    /// The same with requests of any cost, in work instead of requests: whatever excess and background there is, at
    /// no instant is less of the classified work done than without them but for one request of theirs.
    #[test]
    fn excess_of_any_cost_delays_by_at_most_one_service(
        mut slos in prop::collection::vec(classes(), FLOWS - 1), sent in sent(FLOWS, 5_000), load in 1_u64..300,
    ) {
        slos.push(Slo::background());
        let capacity = capacity_for(&slos) * load / 100 + 1;
        let with = serve(&slos, capacity, &sent);
        let classified: Vec<_> = sent.iter().copied().filter(|(id, _)| with[id].due.is_some()).collect();
        let without = serve(&slos, capacity, &classified);
        let excess = with.values().filter(|served| served.due.is_none()).map(|served| served.work).max();
        let with: Vec<Served> = with.into_values().filter(|served| served.due.is_some()).collect();
        let without: Vec<Served> = without.into_values().collect();
        prop_assert_eq!(with.len(), without.len());
        let done = |served: &[Served], at: u128| -> u128 {
            served.iter().map(|it| it.work - it.completion.saturating_sub(at).min(it.work)).sum()
        };
        // The difference of two sums of straight lines is largest where one of them bends. Each idle period may
        // begin a tick of 1 ns later in one of the two.
        let ticks = u128::from(capacity) * (1 + classified.len() as u128);
        for at in with.iter().chain(&without).flat_map(|it| [it.completion - it.work, it.completion]) {
            let (with, without) = (done(&with, at), done(&without, at));
            prop_assert!(with + excess.unwrap_or(0) + ticks >= without, "{} < {}", with, without);
        }
    }
}
