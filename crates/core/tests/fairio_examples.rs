//! FAIRIO's steps one by one, with numbers that can be worked out by hand.
//!
//! One disk, cycles of 100 ms, a window of two; requests of 10 ms unless it says otherwise.

mod common;

use common::{request, slo};
use evenkeel_core::sched::fairio::{Accounting, Fairio, FairioClass, FairioConfig, FairioConfigError};
use evenkeel_core::*;

const MS: u64 = 1_000_000;

fn config() -> FairioConfig {
    FairioConfig {
        window_cycles: 2,
        load_threshold: 1,
        first_request: Span::from_millis(10),
        accounting: Accounting::Reported,
        ..FairioConfig::new(Span::from_millis(100), 1)
    }
}

/// A scheduler with classes of these weights, each with 1000 requests waiting.
fn backlogged(config: FairioConfig, weights: &[u32]) -> Fairio {
    let mut fairio = Fairio::new(config).unwrap();
    for (flow, weight) in weights.iter().enumerate() {
        let promise = slo(1, 1, 1).with_weight(Weight::new(*weight).unwrap());
        fairio.configure(Time::ZERO, FlowId(flow as u32), &promise).unwrap();
    }
    (0..weights.len()).for_each(|flow| arrive(&mut fairio, 0, flow, 1_000));
    fairio
}

fn arrive(fairio: &mut Fairio, at: u64, flow: usize, count: u64) {
    (0..count).for_each(|id| common::arrive(fairio, Time::from_millis(at), id, flow));
}

/// Dispatches all that may go at `at`; how many of each flow.
fn drain(fairio: &mut Fairio, at: u64) -> [u64; 4] {
    let mut sent = [0; 4];
    while let Decision::Dispatch(dispatch) = fairio.poll_dispatch(Time::from_millis(at)) {
        sent[dispatch.request.flow.0 as usize] += 1;
    }
    sent
}

/// `count` requests of `flow` complete at `at` after `service` ms of disk time each.
fn complete(fairio: &mut Fairio, at: u64, flow: usize, count: u64, service: u64) {
    for id in 0..count {
        let done = Completion::new(Ticket::from_bits(id), Outcome::Done);
        let done = done.with_service(Span::from_millis(service));
        fairio.on_completion(Time::from_millis(at), &request(id, flow, 1_000), &done);
    }
}

fn class(fairio: &Fairio, flow: u32) -> FairioClass {
    fairio.class(FlowId(flow)).unwrap()
}

fn shares<const N: usize>(fairio: &Fairio) -> [u64; N] {
    std::array::from_fn(|flow| class(fairio, flow as u32).share)
}

#[test]
fn shares_become_credits_by_the_disk_time_per_request() {
    let mut fairio = backlogged(config(), &[3, 1]);
    assert_eq!(drain(&mut fairio, 0), [8, 3, 0, 0], "75 ms and 25 ms at 10 ms each, rounded up");
    assert_eq!(shares(&fairio), [75 * MS, 25 * MS]);
    assert_eq!(fairio.poll_dispatch(Time::from_millis(1)), Decision::WaitUntil(Time::from_millis(100)));
    complete(&mut fairio, 90, 0, 5, 15);
    complete(&mut fairio, 90, 1, 2, 5);
    assert!(matches!(fairio.poll_dispatch(Time::from_millis(100)), Decision::Dispatch(_)));
    let credits = [0, 1].map(|flow| class(&fairio, flow).credit);
    assert_eq!(credits, [4, 5], "the same shares at 15 ms and 5 ms, and one has gone");
    assert_eq!((class(&fairio, 0).time_per_request, class(&fairio, 1).time_per_request), (15 * MS, 5 * MS));
}

#[test]
fn credits_are_revoked_when_the_share_is_used_up() {
    let mut fairio = backlogged(config(), &[1, 1]);
    for _ in 0..3 {
        assert!(matches!(fairio.poll_dispatch(Time::ZERO), Decision::Dispatch(_)));
    }
    assert_eq!(class(&fairio, 0).credit, 2);
    complete(&mut fairio, 40, 0, 1, 49);
    assert_eq!(class(&fairio, 0).credit, 2, "49 of 50 ms");
    complete(&mut fairio, 41, 0, 1, 1);
    assert_eq!(class(&fairio, 0).credit, 0, "50 of 50 ms");
    assert_eq!(drain(&mut fairio, 42), [0, 5, 0, 0], "a class without credit is no barrier");
}

#[test]
fn an_idle_class_is_charged_its_share_and_spare_time_costs_nothing() {
    let mut fairio = backlogged(config(), &[1, 1]);
    arrive(&mut fairio, 0, 0, 0);
    let mut quiet = Fairio::new(config()).unwrap();
    for flow in 0..2 {
        quiet.configure(Time::ZERO, FlowId(flow), &slo(1, 1, 1)).unwrap();
    }
    arrive(&mut quiet, 0, 0, 1);
    arrive(&mut quiet, 0, 1, 1_000);
    for fairio in [&mut fairio, &mut quiet] {
        drain(fairio, 0);
        complete(fairio, 50, 0, 1, 10);
        complete(fairio, 90, 1, 4, 20);
        complete(fairio, 100, 1, 0, 0);
        drain(fairio, 100);
    }
    assert_eq!([0, 1].map(|flow| class(&quiet, flow).charged), [50 * MS, 50 * MS], "10 ms and 80 ms used");
    assert_eq!([0, 1].map(|flow| class(&fairio, flow).charged), [10 * MS, 80 * MS], "both were waiting");
}

/// Uses `used` ms of each class in the cycle that ends at `end`.
fn cycle(fairio: &mut Fairio, end: u64, used: &[u64]) {
    drain(fairio, end - 100);
    for (flow, used) in used.iter().enumerate() {
        complete(fairio, end - 1, flow, 1, *used);
    }
    drain(fairio, end);
}

#[test]
fn the_window_is_hypothetical_for_r_cycles_after_a_change() {
    let mut fairio = backlogged(config(), &[1, 1]);
    cycle(&mut fairio, 100, &[60, 40]);
    assert_eq!(shares(&fairio), [50 * MS; 2]);
    cycle(&mut fairio, 200, &[60, 40]);
    assert_eq!(shares(&fairio), [0, 100 * MS], "two cycles: 120 and 80 of 200 ms");
    let heavier = slo(1, 1, 1).with_weight(Weight::new(3).unwrap());
    fairio.configure(Time::from_millis(250), FlowId(0), &heavier).unwrap();
    for end in [300, 400] {
        cycle(&mut fairio, end, &[60, 40]);
        assert_eq!(shares(&fairio), [75 * MS, 25 * MS], "until {end}");
    }
    cycle(&mut fairio, 500, &[60, 40]);
    assert_eq!(shares(&fairio), [100 * MS, 0], "120 of 200 ms is less than three quarters");
}

#[test]
fn compensation_is_by_degree_of_under_service() {
    let mut fairio = backlogged(config(), &[1, 1, 2]);
    for end in [100, 200] {
        cycle(&mut fairio, end, &[15, 20, 65]);
    }
    // 17/16 of 200 ms were rightful: 53.125, 53.125 and 106.25 ms, of which they got 30, 40 and 130 ms.
    let deviations = [0, 1, 2].map(|flow| class(&fairio, flow).deviation);
    assert_eq!(deviations, [-23_125_000, -13_125_000, 23_750_000]);
    let behind = 23_125 + 13_125;
    assert_eq!(shares(&fairio), [100 * MS * 23_125 / behind, 100 * MS * 13_125 / behind, 0]);
}

#[test]
fn proportional_mode_divides_by_the_deviation() {
    // More than the disks are said to have, so that all are above their share.
    let mut fairio = backlogged(config(), &[1, 1]);
    for end in [100, 200] {
        cycle(&mut fairio, end, &[60, 80]);
    }
    assert_eq!([0, 1].map(|flow| class(&fairio, flow).deviation), [20 * MS as i128, 60 * MS as i128]);
    let [first, second] = shares(&fairio);
    assert!(first.abs_diff(75 * MS) <= 1 && second.abs_diff(25 * MS) <= 1, "3 : 1, not {first} : {second}");
}

/// Two cycles in which each class takes so many ns; the shares of the third.
fn after_two_cycles<const N: usize>(weights: [u32; N], used: [u64; N]) -> [u64; N] {
    let mut fairio = backlogged(config(), &weights);
    for end in [100, 200] {
        drain(&mut fairio, end - 100);
        for (flow, used) in used.iter().enumerate() {
            let done = Completion::new(Ticket::from_bits(0), Outcome::Done);
            let done = done.with_service(Span::from_nanos(*used));
            fairio.on_completion(Time::from_millis(end - 1), &request(0, flow, 1_000), &done);
        }
        drain(&mut fairio, end);
    }
    shares(&fairio)
}

#[test]
fn proportional_mode_at_zero_and_near_it() {
    // 190 ns is 2⁻²⁰ of the window: a deviation of 100 ns counts as 0.
    for beyond in [0, 50] {
        let shares = after_two_cycles([1, 2, 1], [25 * MS + beyond, 50 * MS, 45 * MS]);
        assert_eq!(shares, [33_333_333, 66_666_666, 0], "two at 0: by weight, and nothing else");
    }
    let shares = after_two_cycles([1, 2, 1], [25 * MS + MS / 2, 50 * MS, 45 * MS]);
    assert_eq!(shares, [0, 100 * MS, 0], "one at 0");
    assert_eq!(
        after_two_cycles([1, 1], [50 * MS + MS / 2, 75 * MS]),
        [98_039_215, 1_960_784],
        "1 ms and 50 ms"
    );
}

#[test]
fn a_class_below_the_threshold_lends_its_share() {
    let mut fairio = backlogged(FairioConfig { class_threshold: 3, ..config() }, &[1, 4]);
    assert_eq!(drain(&mut fairio, 0), [0, 10, 0, 0], "two requests are fewer than three");
    assert_eq!((class(&fairio, 0).share, class(&fairio, 0).granted), (20 * MS, 0));
}

#[test]
fn an_under_loaded_store_ends_the_cycle_and_gets_a_batch() {
    let config = FairioConfig { load_threshold: 4, ..config() };
    let mut fairio = backlogged(config, &[1]);
    assert_eq!(drain(&mut fairio, 0), [10, 0, 0, 0]);
    complete(&mut fairio, 30, 0, 6, 1);
    assert_eq!(drain(&mut fairio, 30), [0; 4], "no credit, and four at the store are enough");
    complete(&mut fairio, 40, 0, 2, 1);
    assert_eq!(drain(&mut fairio, 40), [2, 0, 0, 0], "two at the store: a batch of two");
    assert_eq!(fairio.cycle_start(), Time::from_millis(40));
}

#[test]
fn background_flows_go_when_no_class_waits() {
    let mut fairio = backlogged(config(), &[1]);
    fairio.configure(Time::ZERO, FlowId(1), &Slo::background()).unwrap();
    arrive(&mut fairio, 0, 1, 5);
    assert_eq!(drain(&mut fairio, 0), [10, 0, 0, 0]);
    let mut at = 0;
    while fairio.backlog(FlowId(0)) > 0 {
        assert_eq!(fairio.backlog(FlowId(1)), 5);
        at += 100;
        complete(&mut fairio, at, 0, 10, 10);
        drain(&mut fairio, at);
    }
    assert_eq!(fairio.backlog(FlowId(1)), 0);
}

#[test]
fn bad_parameters_are_named() {
    let good = config();
    let bad = [
        (FairioConfig { cycle: Span::ZERO, ..good }, FairioConfigError::Cycle),
        (FairioConfig { disks: 0, ..good }, FairioConfigError::Disks),
        (FairioConfig { window_cycles: 0, ..good }, FairioConfigError::WindowCycles),
        (FairioConfig { class_threshold: 0, ..good }, FairioConfigError::ClassThreshold),
        (FairioConfig { load_threshold: 0, ..good }, FairioConfigError::LoadThreshold),
        (FairioConfig { first_request: Span::ZERO, ..good }, FairioConfigError::FirstRequest),
    ];
    for (config, error) in bad {
        assert_eq!(Fairio::new(config).err(), Some(error));
    }
}

#[test]
fn time_that_goes_back_or_stands_still_is_the_latest_time() {
    let mut fairio = backlogged(config(), &[1, 1]);
    assert_eq!(drain(&mut fairio, 50), [5, 5, 0, 0]);
    assert_eq!(fairio.poll_dispatch(Time::ZERO), Decision::WaitUntil(Time::from_millis(150)));
    complete(&mut fairio, 10, 0, 5, 10);
    complete(&mut fairio, 10, 1, 5, 10);
    assert_eq!(fairio.poll_dispatch(Time::ZERO), Decision::WaitUntil(Time::from_nanos(50 * MS + 1)));
    assert_eq!(drain(&mut fairio, 51), [1, 0, 0, 0], "under-loaded: cut short, a batch of one");
}
