//! The examples of the Nested QoS thesis (section 1.2, examples I to III, and section 3.1.2) with the numbers
//! of its pages.

mod common;

use common::{dispatch, request};
use evenkeel_core::admission::nested_capacity;
use evenkeel_core::sched::fcfs::Fcfs;
use evenkeel_core::sched::nested::Nested;
use evenkeel_core::*;

const MS: u64 = 1_000_000;

fn envelope(burst: u64, rate: u64, millis: u64) -> Envelope {
    Envelope::new(Cost::requests(burst), Rate::per_second(rate), Span::from_millis(millis)).unwrap()
}

/// Serves `arrivals`, (ns, flow), in `service` ns each. Of each request, in the order of `arrivals`: how long it
/// waited for its dispatch.
fn waits(scheduler: &mut dyn Scheduler, slos: &[Slo], arrivals: &[(u64, usize)], service: u64) -> Vec<u64> {
    for (flow, slo) in slos.iter().enumerate() {
        scheduler.configure(Time::ZERO, FlowId(flow as u32), slo).unwrap();
    }
    let (mut now, mut next, mut waits) = (0, 0, vec![0; arrivals.len()]);
    loop {
        while let Some((at, flow)) = arrivals.get(next).filter(|(at, _)| *at <= now) {
            let at = Time::from_nanos(*at);
            scheduler.on_arrival(at, Arrival::new(at, request(next as u64, *flow, 1_000))).unwrap();
            next += 1;
        }
        if let Some(chosen) = dispatch(scheduler, Time::from_nanos(now)) {
            waits[chosen.request.id.0 as usize] = now - chosen.arrival.as_nanos();
            now += service;
        } else if let Some((at, _)) = arrivals.get(next) {
            now = *at;
        } else {
            return waits;
        }
    }
}

/// Example I: C_A sends every 10 ms, C_B 50 requests every 500 ms; 200 IOPS.
#[test]
fn example_1_a_burst_delays_the_steady_client_by_250_ms_under_fcfs() {
    let mut arrivals: Vec<(u64, usize)> = (0..100).map(|i| (i * 10 * MS, 0)).collect();
    arrivals.extend((0..100).map(|i| (i / 50 * 500 * MS, 1)));
    arrivals.sort_by_key(|(at, flow)| (*at, 1 - *flow));
    let steady = Slo::guaranteed(envelope(1, 100, 100));
    let bursty = Slo::nested(&[envelope(10, 100, 100), envelope(50, 100, 500)]).unwrap();
    let slos = [steady, bursty];
    let of = |flow: usize, waits: &[u64]| -> Vec<u64> {
        waits.iter().zip(&arrivals).filter(|(_, sent)| sent.1 == flow).map(|(wait, _)| *wait).collect()
    };
    let fcfs = waits(&mut Fcfs::new(), &slos, &arrivals, 5 * MS);
    assert_eq!(of(0, &fcfs).into_iter().max(), Some(250 * MS));

    let nested = waits(&mut Nested::new(), &slos, &arrivals, 5 * MS);
    assert!(of(0, &nested).into_iter().all(|wait| wait + 5 * MS <= 100 * MS), "C_A keeps its 100 ms");
    for (i, wait) in of(1, &nested).into_iter().enumerate() {
        let bound = if i % 50 < 10 { 100 } else { 500 };
        assert!(wait + 5 * MS <= bound * MS, "request {} of the burst", i % 50);
    }
}

/// Examples II and III: every 10 ms, but in the first 100 ms six at once, then four 20 ms apart. Of the six
/// the first is good. Which requests are good, and when they come.
fn overburst() -> Vec<(u64, bool)> {
    let early = (0..6).map(|i| (0, i == 0)).chain((1..5).map(|i| (20 * i, true)));
    let steady = (10..100).map(|i| (10 * i, true));
    early.chain(steady).map(|(millis, good)| (millis * MS, good)).collect()
}

/// How many miss 10 ms, (good ones, bad ones), in `service` ns each.
fn misses(scheduler: &mut dyn Scheduler, service: u64) -> (usize, usize) {
    let sent = overburst();
    let arrivals: Vec<(u64, usize)> = sent.iter().map(|(at, _)| (*at, 0)).collect();
    let waits = waits(scheduler, &[Slo::guaranteed(envelope(1, 100, 10))], &arrivals, service);
    let missed = |which: bool| {
        let of = sent.iter().zip(&waits).filter(|((_, good), _)| *good == which);
        of.filter(|(_, wait)| *wait + service > 10 * MS).count()
    };
    (missed(true), missed(false))
}

/// The timeline in docs/schedulers/nested.md: what went when, in ms, and how long it took.
#[test]
fn example_2_as_it_is_drawn() {
    let arrivals: Vec<(u64, usize)> = overburst().iter().map(|(at, _)| (*at, 0)).collect();
    let promise = [Slo::guaranteed(envelope(1, 100, 10))];
    let drawn = |scheduler: &mut dyn Scheduler| -> Vec<(u64, u64)> {
        let waits = waits(scheduler, &promise, &arrivals, 10 * MS);
        let mut drawn: Vec<(u64, u64)> =
            waits.iter().zip(&arrivals).map(|(wait, (at, _))| ((at + wait) / MS, wait / MS + 10)).collect();
        drawn.sort_unstable();
        drawn.truncate(12);
        drawn
    };
    let line = |took: [u64; 12]| -> Vec<(u64, u64)> { (0..).step_by(10).zip(took).collect() };
    assert_eq!(drawn(&mut Fcfs::new()), line([10, 20, 30, 40, 50, 60, 50, 40, 30, 20, 10, 10]));
    assert_eq!(drawn(&mut Nested::new()), line([10, 20, 10, 40, 10, 60, 10, 80, 10, 100, 10, 10]));
}

#[test]
fn example_2_five_bad_requests_spoil_four_good_ones() {
    assert_eq!(misses(&mut Fcfs::new(), 10 * MS), (4, 5), "in the order of arrival");
    assert_eq!(misses(&mut Nested::new(), 10 * MS), (0, 5), "the violation stays local");
}

#[test]
fn example_3_fcfs_needs_233_iops_and_nested_qos_100() {
    let seventh_of_30_ms = 30 * MS / 7;
    assert_eq!(1_000_000_000 / seventh_of_30_ms, 233, "7 requests in 30 ms");
    assert_eq!(misses(&mut Fcfs::new(), seventh_of_30_ms).0, 0);
    assert_eq!(misses(&mut Fcfs::new(), seventh_of_30_ms + 1).0, 1, "and not one IOPS less");
    assert_eq!(nested_capacity(&[&[envelope(1, 100, 10)]]).capacity, Rate::per_second(100));
}

/// Section 3.1.2: (30, 120 IOPS, 500 ms), (20, 110 IOPS, 50 ms), (10, 100 IOPS, 5 ms).
#[test]
fn three_classes_of_a_burst_of_31() {
    let slo = Slo::nested(&[envelope(10, 100, 5), envelope(20, 110, 50), envelope(30, 120, 500)]).unwrap();
    let mut nested = Nested::new();
    nested.configure(Time::ZERO, FlowId(0), &slo).unwrap();
    let mut cascade = Cascade::new(Time::ZERO, slo.classes());
    let mut classes = vec![];
    for id in 0..31 {
        common::arrive(&mut nested, Time::ZERO, id, 0);
        classes.push(cascade.classify(Time::ZERO, Cost::ONE));
    }
    let expected = [5; 10].into_iter().chain([50; 10]).chain([500; 10]).map(Some).chain([None]);
    let deadlines: Vec<Option<u64>> = (0..31)
        .map(|_| dispatch(&mut nested, Time::ZERO).unwrap().finish_tag.map(|tag| tag.as_nanos() / MS))
        .collect();
    assert_eq!(deadlines, expected.collect::<Vec<_>>());
    let expected = [0_u8; 10].into_iter().chain([1; 10]).chain([2; 10]).map(Some).chain([None]);
    assert_eq!(classes, expected.collect::<Vec<_>>());
    // 10 ms later B_1 has one token, B_2 and B_3 have 1.1 and 1.2.
    let later = Time::from_millis(10);
    assert_eq!(cascade.class_at(later, Cost::ONE), Some(0));
    assert_eq!(cascade.classify(later, Cost::ONE), Some(0));
    assert_eq!(cascade.classify(later, Cost::ONE), None, "0.2 tokens are left outermost");
}

#[test]
fn classes_must_be_nested() {
    let inner = envelope(10, 100, 50);
    let refused = |outer| Slo::nested(&[inner, inner, outer]).unwrap_err();
    let pair = |parameter| SloError::NotNested { inner: 1, parameter };
    assert_eq!(refused(envelope(9, 100, 50)), pair(Parameter::Burst));
    assert_eq!(refused(envelope(10, 99, 50)), pair(Parameter::Rate));
    assert_eq!(refused(envelope(10, 100, 49)), pair(Parameter::Latency));
    assert_eq!(Slo::nested(&[]), Err(SloError::NoClasses));
    assert_eq!(Slo::nested(&[inner; 256]), Err(SloError::TooManyClasses));
    assert_eq!(Slo::nested(&[inner; 255]).unwrap().classes().len(), 255);
    assert_eq!(Slo::nested(&[inner]), Ok(Slo::guaranteed(inner)));
    assert_eq!(Slo::guaranteed(inner).classes(), [inner]);
    assert!(Slo::background().classes().is_empty());
    let shown = pair(Parameter::Rate).to_string();
    assert_eq!(shown, "the rate of class 2 is above that of class 3, which is outside it");
}
