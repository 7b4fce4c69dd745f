//! The worked examples of the pClock paper (section 2, cases 1 and 2; section 3.2, examples I and II),
//! with the numbers of its pages.

mod common;

use common::{arrive, dispatch, request, slo};
use evenkeel_core::sched::pclock::PClock;
use evenkeel_core::*;

/// The service time of the examples' server of 100 IOPS.
const SERVICE: u64 = 10;

/// (completion in ms, flow, arrival in ms, finish tag in ms) of every request, on that server.
fn serve(scheduler: &mut PClock, arrivals: &[(u64, usize)], until: u64) -> Vec<(u64, usize, u64, u64)> {
    let mut served = vec![];
    let (mut next, mut now) = (0, 0);
    while now < until {
        while let Some((at, flow)) = arrivals.get(next).filter(|(at, _)| *at <= now) {
            arrive(scheduler, Time::from_millis(*at), next as u64, *flow);
            next += 1;
        }
        if let Some(dispatch) = dispatch(scheduler, Time::from_millis(now)) {
            let tag = dispatch.finish_tag.unwrap().as_nanos() / 1_000_000;
            let arrival = dispatch.arrival.as_nanos() / 1_000_000;
            served.push((now + SERVICE, dispatch.request.flow.0 as usize, arrival, tag));
            now += SERVICE;
        } else {
            now += 1;
        }
    }
    served
}

fn sorted(mut arrivals: Vec<(u64, usize)>) -> Vec<(u64, usize)> {
    arrivals.sort_by_key(|(at, _)| *at);
    arrivals
}

const A: usize = 0;
const B: usize = 1;

#[test]
fn case_1_and_example_1_bursts_meet_their_deadlines() {
    let mut pclock = PClock::new();
    pclock.configure(Time::ZERO, FlowId(0), &slo(0, 50, 500)).unwrap();
    pclock.configure(Time::ZERO, FlowId(1), &slo(25, 50, 250)).unwrap();
    let steady = (0..100).map(|i| (20 * i, A));
    let bursts = (0..4).flat_map(|i| std::iter::repeat_n((500 * i, B), 25));
    let served = serve(&mut pclock, &sorted(steady.chain(bursts).collect()), 2_500);
    assert_eq!(served.len(), 200);

    let tags = |flow| served.iter().filter(move |s| s.1 == flow).map(|s| s.3).collect::<Vec<_>>();
    let expected: Vec<u64> = (0..100).map(|i| 500 + 20 * i).collect();
    assert_eq!(tags(A), expected, "500, 520, 540, ...");
    let expected: Vec<u64> = (0..100).map(|i| 250 + 500 * (i / 25)).collect();
    assert_eq!(tags(B), expected, "25 times 250, then 25 times 750, ...");
    for (completion, flow, arrival, _) in &served {
        let bound = if *flow == A { 500 } else { 250 };
        assert!(completion - arrival <= bound, "flow {flow} at {arrival}: {}", completion - arrival);
    }
    // The timeline in docs/schedulers/pclock.md.
    let flows: Vec<usize> = served.iter().map(|s| s.1).collect();
    for (at, flow) in [(0, B), (25, A), (50, B), (75, A)] {
        assert_eq!(flows[at..at + 25], [flow; 25], "from {} ms on", at as u64 * SERVICE);
    }
    let first_of_a = served.iter().position(|s| s.1 == A).unwrap();
    assert_eq!(first_of_a, 25, "the whole first burst goes before any request of f_A");
    let second_burst = served.iter().filter(|s| s.1 == B).nth(25).unwrap().0 - SERVICE;
    assert_eq!(second_burst, 500, "and the second as soon as it is there");
}

#[test]
fn example_2_tags_are_spaced_from_500_to_2500() {
    let mut pclock = PClock::new();
    pclock.configure(Time::ZERO, FlowId(0), &slo(0, 50, 500)).unwrap();
    pclock.configure(Time::ZERO, FlowId(1), &slo(25, 50, 250)).unwrap();
    for id in 0..100 {
        arrive(&mut pclock, Time::ZERO, id, A);
    }
    let mut tags = vec![];
    for step in 0..100 {
        // At its own rate nothing is ahead of time, so nothing shifts.
        let tag = dispatch(&mut pclock, Time::from_millis(20 * step)).unwrap().finish_tag.unwrap();
        tags.push(tag.as_nanos() / 1_000_000);
    }
    let expected: Vec<u64> = (0..100).map(|i| 500 + 20 * i).collect();
    assert_eq!(tags, expected, "500 to 2500 in steps of 20");
}

#[test]
fn example_2_the_tag_2500_shifts_to_1500() {
    let mut pclock = PClock::new();
    pclock.configure(Time::ZERO, FlowId(0), &slo(0, 50, 500)).unwrap();
    pclock.configure(Time::ZERO, FlowId(1), &slo(25, 50, 250)).unwrap();
    let early = (0..100).map(|_| (0, A));
    let steady = (0..50).map(|i| (1_000 + 20 * i, A));
    let burst = (0..25).map(|_| (1_000, B));
    let later = (1..50).map(|i| (1_000 + 20 * i, B));
    let served = serve(&mut pclock, &sorted(early.chain(steady).chain(burst).chain(later).collect()), 2_300);
    let at_1000 = served.iter().find(|s| s.1 == A && s.2 == 1_000).unwrap();
    assert_eq!(at_1000.3, 1_500, "the finish tag that would be 2500 without synchronization");
    let bursts: Vec<u64> = served.iter().filter(|s| s.1 == B).map(|s| s.3).take(27).collect();
    assert_eq!(bursts[..25], [1_250; 25]);
    assert_eq!(bursts[25..], [1_270, 1_290]);
    let second_of_a = served.iter().filter(|s| s.1 == A && s.2 >= 1_000).nth(1).unwrap();
    assert_eq!(second_of_a.3, 1_520);
}

#[test]
fn case_2_spare_capacity_used_before_is_not_held_against_a_flow() {
    let mut pclock = PClock::new();
    for flow in 0..2 {
        pclock.configure(Time::ZERO, FlowId(flow), &slo(0, 50, 500)).unwrap();
    }
    let burst_of_a = (0..200).map(|_| (0, A));
    let steady_a = (0..100).map(|i| (2_000 + 20 * i, A));
    let burst_of_b = (0..100).map(|_| (2_000, B));
    let steady_b = (0..50).map(|i| (3_000 + 20 * i, B));
    let arrivals = sorted(burst_of_a.chain(steady_a).chain(burst_of_b).chain(steady_b).collect());
    let served = serve(&mut pclock, &arrivals, 4_000);
    let count = |flow, from, to| served.iter().filter(|s| s.1 == flow && s.0 > from && s.0 <= to).count();
    assert_eq!(count(A, 0, 2_000), 200, "alone: 100 IOPS");
    assert_eq!((count(A, 2_000, 3_000), count(B, 2_000, 3_000)), (50, 50), "not starved in [2, 3] s");
    assert_eq!((count(A, 3_000, 4_000), count(B, 3_000, 4_000)), (50, 50));
}

/// Deviation 2 in the header of pclock.rs: with the tags as printed, the last flow's request is done after
/// 5/3 s instead of at most 1 s + 1/3 s.
#[test]
fn the_first_request_over_the_bound_waits_for_the_bound() {
    let mut pclock = PClock::new();
    for flow in 0..3 {
        pclock.configure(Time::ZERO, FlowId(flow), &slo(1, 1, 1_000)).unwrap();
    }
    for (id, flow) in [0, 0, 1, 1, 2].into_iter().enumerate() {
        arrive(&mut pclock, Time::ZERO, id as u64, flow);
    }
    let order: Vec<usize> = (0..5)
        .map(|i| dispatch(&mut pclock, Time::from_millis(333 * i)).unwrap().request.flow.0 as usize)
        .collect();
    assert_eq!(order, [0, 1, 2, 0, 1]);
}

/// Synchronization before dispatch: a client with one request outstanding is never busy when its next
/// request arrives, and still does not run ahead.
#[test]
fn a_closed_loop_client_is_synchronized() {
    let mut pclock = PClock::new();
    for flow in 0..2 {
        pclock.configure(Time::ZERO, FlowId(flow), &slo(1, 10, 100)).unwrap();
    }
    for id in 0..1_000 {
        let now = Time::from_millis(id);
        arrive(&mut pclock, now, id, A);
        assert!(dispatch(&mut pclock, now).is_some());
    }
    let now = Time::from_millis(1_000);
    for id in 1_000..1_100 {
        arrive(&mut pclock, now, id, B);
    }
    arrive(&mut pclock, now, 2_000, A);
    let ahead = (0..101).position(|_| dispatch(&mut pclock, now).unwrap().request.flow.0 as usize == A);
    assert!(ahead.unwrap() <= 2, "A waits behind {ahead:?} requests of B");
}

#[test]
fn tags_at_the_end_of_the_range_saturate() {
    let slowest = Envelope::new(Cost::ZERO, Rate::from_millis(1), Envelope::LATENCY_MAX).unwrap();
    let mut pclock = PClock::new();
    pclock.configure(Time::ZERO, FlowId(0), &Slo::guaranteed(slowest)).unwrap();
    for id in 0..1_000 {
        let now = Time::from_nanos(if id < 500 { 0 } else { u64::MAX });
        pclock.on_arrival(now, Arrival::new(now, request(id, 0, u64::MAX))).unwrap();
    }
    for id in 0..1_000 {
        assert_eq!(dispatch(&mut pclock, Time::ZERO).unwrap().request.id, RequestId(id));
    }
}
