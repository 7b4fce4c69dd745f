//! What AVATAR and Cello promise: worked examples, the division of the store, and what they never do.

mod common;

use std::collections::VecDeque;

use common::{arrive, dispatch, request, slo};
use evenkeel_core::sched::avatar::Avatar;
use evenkeel_core::sched::cello::{Cello, CelloConfig, CelloConfigError};
use evenkeel_core::*;
use proptest::prelude::*;

/// Serves (ms, flow) in `service` ms each, one at a time: start in ms, flow, finish tag in ms.
fn serve(
    scheduler: &mut dyn Scheduler,
    arrivals: &[(u64, usize)],
    service: u64,
) -> Vec<(u64, usize, Option<u64>)> {
    let mut arrivals: VecDeque<_> = arrivals.iter().copied().zip(0..).collect();
    let (mut now, mut served, mut at_store) = (0, vec![], None);
    loop {
        while let Some(((at, flow), id)) = arrivals.pop_front_if(|((at, _), _)| *at <= now) {
            arrive(scheduler, Time::from_millis(at), id, flow);
        }
        if let Some(request) = at_store.take() {
            let done = Completion::new(Ticket::from_bits(0), Outcome::Done);
            scheduler.on_completion(Time::from_millis(now), &request, &done);
        }
        match (dispatch(scheduler, Time::from_millis(now)), arrivals.front()) {
            (Some(chosen), _) => {
                let tag = chosen.finish_tag.map(|tag| tag.as_nanos() / 1_000_000);
                served.push((now, chosen.request.flow.0 as usize, tag));
                (now, at_store) = (now + service, Some(chosen.request));
            }
            (None, Some(((at, _), _))) => now = *at,
            (None, None) => return served,
        }
    }
}

/// The timeline in `docs/schedulers/avatar.md`: A sends six requests at once, of which its bucket releases
/// two; the others are released every 40 ms, and go before that where nothing else wants the store.
#[test]
fn what_is_over_the_rate_goes_when_there_is_room() {
    let mut avatar = Avatar::new();
    for flow in 0..2 {
        let latency = if flow == 0 { 40 } else { 30 };
        avatar.configure(Time::ZERO, FlowId(flow), &slo(2, 25, latency)).unwrap();
    }
    let arrivals = [(0, 0), (0, 0), (0, 0), (0, 0), (0, 0), (0, 0), (25, 1), (25, 1)];
    let timeline = [
        (0, 0, Some(40)),
        (10, 0, Some(40)),
        (20, 0, None),
        (30, 1, Some(55)),
        (40, 1, Some(55)),
        (50, 0, Some(80)),
        (60, 0, None),
        (70, 0, None),
    ];
    assert_eq!(serve(&mut avatar, &arrivals, 10), timeline);
}

/// The timeline in `docs/schedulers/cello.md`: the interactive request overtakes a real-time request with slack,
/// and not one without; the transfer gets its share of the round.
#[test]
fn interactive_requests_use_the_slack() {
    let config = CelloConfig { quantum: Cost::requests(2), ..CelloConfig::default() };
    let mut cello = Cello::new(config).unwrap();
    cello.configure(Time::ZERO, FlowId(0), &slo(1, 10, 60)).unwrap();
    cello.configure(Time::ZERO, FlowId(1), &Slo::background().with_interactive()).unwrap();
    cello.configure(Time::ZERO, FlowId(2), &Slo::background()).unwrap();
    // The pace becomes known: 10 ms a request.
    let arrivals = [(0, 2), (0, 2), (0, 2), (0, 2), (5, 0), (5, 0), (7, 1), (15, 1), (45, 1)];
    let timeline = [
        (0, 2, None),
        (10, 1, None),
        (20, 1, None),
        (30, 0, Some(65)),
        (40, 0, Some(65)),
        (50, 2, None),
        (60, 1, None),
        (70, 2, None),
        (80, 2, None),
    ];
    assert_eq!(serve(&mut cello, &arrivals, 10), timeline);
    // With a deadline that leaves no room the real-time request goes first.
    cello.configure(Time::from_millis(100), FlowId(0), &slo(1, 10, 15)).unwrap();
    let order = [(100, 1), (100, 0)];
    assert_eq!(serve(&mut cello, &order, 10), [(100, 0, Some(115)), (110, 1, None)]);
}

#[test]
fn a_quantum_below_one_request_is_refused() {
    let config = CelloConfig { quantum: Cost::from_millis(999), ..CelloConfig::default() };
    assert_eq!(Cello::new(config).err(), Some(CelloConfigError::Quantum));
    let config = CelloConfig { quantum: Cost::requests(1_000_001), ..config };
    assert_eq!(Cello::new(config).err(), Some(CelloConfigError::Quantum));
}

/// What each flow got of `total` per second in ten seconds, all of them flooding.
fn flood(scheduler: &mut dyn Scheduler, flows: usize, total: u64) -> Vec<u64> {
    let mut served = vec![0; flows];
    let mut now = 0;
    for flow in 0..flows {
        (0..3).for_each(|id| arrive(scheduler, Time::ZERO, id, flow));
    }
    for turn in 0..total * 10 {
        now = (turn * 1_000_000_000) / total;
        let chosen = dispatch(scheduler, Time::from_nanos(now)).unwrap();
        let flow = chosen.request.flow.0 as usize;
        served[flow] += 1;
        arrive(scheduler, Time::from_nanos(now), turn, flow);
    }
    assert!(now < 10_000_000_000);
    served
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    /// x_i = ρ_i + (T − Σρ)·w_i/Σw within 1 % of each, the burst of the start aside.
    #[test]
    fn avatar_gives_the_rate_and_a_share_of_the_rest(
        flows in prop::collection::vec((20_u64..100, 1_u32..6), 2..6), spare in 0_u64..400,
    ) {
        let rates: u64 = flows.iter().map(|flow| flow.0).sum();
        let weights: u32 = flows.iter().map(|flow| flow.1).sum();
        let mut avatar = Avatar::new();
        for (flow, (rate, weight)) in (0..).zip(&flows) {
            let promise = slo(1, *rate, 100).with_weight(Weight::new(*weight).unwrap());
            avatar.configure(Time::ZERO, FlowId(flow), &promise).unwrap();
        }
        let served = flood(&mut avatar, flows.len(), rates + spare);
        for ((rate, weight), served) in flows.iter().zip(served) {
            let law = 10.0 * (*rate as f64 + spare as f64 * f64::from(*weight) / f64::from(weights));
            prop_assert!((served as f64 - law).abs() <= 0.01 * law + 3.0, "{} and not {}", served, law);
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Round {
    arrivals: [u8; 4],
    cost: u64,
    serve: u8,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]

    /// |W_f/a_f − W_m/a_m| ≤ 2 + c_f/a_f + c_m/a_m between classes that both wait; work conservation.
    #[test]
    fn cello_keeps_classes_that_wait_together(
        weights in prop::array::uniform3(1_u32..6),
        quantum in 1_000_u64..4_000,
        rounds in prop::collection::vec(
            (prop::array::uniform4(0_u8..6), 1_u64..3_000, 0_u8..12)
                .prop_map(|(arrivals, cost, serve)| Round { arrivals, cost, serve }),
            1..60,
        ),
    ) {
        let weight = |class: usize| Weight::new(weights[class]).unwrap();
        let (real_time, interactive, throughput) = (weight(0), weight(1), weight(2));
        let quantum = Cost::from_millis(quantum);
        let mut cello = Cello::new(CelloConfig { real_time, interactive, throughput, quantum }).unwrap();
        let slos = [slo(1, 10, 30), Slo::background().with_interactive(), Slo::background(), Slo::background()];
        for (flow, slo) in (0..).zip(&slos) {
            cello.configure(Time::ZERO, FlowId(flow), slo).unwrap();
        }
        let class_of = |flow: usize| flow.min(2);
        let a = weights.map(|weight| i128::from(weight) * i128::from(quantum.as_millis()));
        // Served before each step, and who waits during it.
        let (mut total, mut largest) = ([0_i128; 3], [0_i128; 3]);
        let mut history: Vec<([i128; 3], [bool; 3])> = vec![];
        let (mut waiting, mut id, mut now) = ([0_u32; 3], 0, 0);
        for round in &rounds {
            for (flow, count) in round.arrivals.iter().enumerate() {
                for _ in 0..*count {
                    let request = request(id, flow, round.cost);
                    cello.on_arrival(Time::from_millis(now), Arrival::new(Time::from_millis(now), request)).unwrap();
                    largest[class_of(flow)] = largest[class_of(flow)].max(round.cost.into());
                    waiting[class_of(flow)] += 1;
                    id += 1;
                }
            }
            for _ in 0..round.serve {
                let chosen = dispatch(&mut cello, Time::from_millis(now));
                prop_assert_eq!(chosen.is_some(), waiting.iter().any(|waiting| *waiting > 0));
                let Some(chosen) = chosen else { break };
                history.push((total, waiting.map(|waiting| waiting > 0)));
                let class = class_of(chosen.request.flow.0 as usize);
                waiting[class] -= 1;
                total[class] += i128::from(chosen.request.cost.as_millis());
                now += 7;
                let done = Completion::new(Ticket::from_bits(0), Outcome::Done);
                cello.on_completion(Time::from_millis(now), &chosen.request, &done);
            }
        }
        for (f, m) in [(0, 1), (0, 2), (1, 2)] {
            // Multiplied by a_f · a_m. The largest gap between any two points of one common busy period.
            let bound = 2 * a[f] * a[m] + largest[f] * a[m] + largest[m] * a[f];
            let gain = |total: &[i128; 3]| total[f] * a[m] - total[m] * a[f];
            let mut extremes: Option<(i128, i128)> = None;
            for (at, (total_before, waits)) in history.iter().enumerate() {
                if !(waits[f] && waits[m]) {
                    extremes = None;
                    continue;
                }
                let after = history.get(at + 1).map_or(total, |(total, _)| *total);
                for gain in [gain(total_before), gain(&after)] {
                    let (low, high) = extremes.unwrap_or((gain, gain));
                    extremes = Some((low.min(gain), high.max(gain)));
                    let (low, high) = extremes.unwrap();
                    prop_assert!(high - low <= bound, "classes {} and {}: {} > {}", f, m, high - low, bound);
                }
            }
        }
    }
}

/// Within the throughput class flows share by weight, and a flow that changes its class takes its backlog along.
#[test]
fn best_effort_flows_share_by_weight_and_change_class() {
    let mut cello = Cello::new(CelloConfig::default()).unwrap();
    let weights = [1, 3];
    for (flow, weight) in (0..).zip(weights) {
        let slo = Slo::background().with_weight(Weight::new(weight).unwrap());
        cello.configure(Time::ZERO, FlowId(flow), &slo).unwrap();
    }
    assert_eq!(flood(&mut cello, 2, 40), [100, 300]);
    cello.configure(Time::ZERO, FlowId(0), &Slo::background().with_interactive()).unwrap();
    assert_eq!(cello.backlog(FlowId(0)), 3);
    assert_eq!(cello.remove(Time::ZERO, FlowId(0)), Err(ConfigureError::Busy(FlowId(0))));
    let served = flood(&mut cello, 2, 40);
    assert!(served[0].abs_diff(served[1]) <= 8, "equal weights of the classes: {served:?}");
}
