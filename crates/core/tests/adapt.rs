//! Online parameters over workloads that change: limits, hysteresis, and what conformed stays in.

use evenkeel_core::{
    AdaptError, AdaptLimits, Cost, Envelope, ParameterControl, Rate, Span, Time, TokenBucket, admission,
};
use proptest::prelude::*;

const WINDOW: Span = Span::from_millis(1_000);

fn envelope(burst: u64, rate: u64, millis: u64) -> Envelope {
    Envelope::new(Cost::requests(burst), Rate::per_second(rate), Span::from_millis(millis)).unwrap()
}

fn limits(rate: (u64, u64), burst: (u64, u64)) -> AdaptLimits {
    let rate = (Rate::per_second(rate.0), Rate::per_second(rate.1));
    AdaptLimits::new(rate, (Cost::requests(burst.0), Cost::requests(burst.1))).unwrap()
}

/// Evenly spaced requests at `rate` from `start` for `millis`; every change with its time.
fn drive(control: &mut ParameterControl, start: u64, millis: u64, rate: u64) -> Vec<(u64, Envelope)> {
    let mut changes = Vec::new();
    for request in 0..rate * millis / 1_000 {
        let now = Time::from_nanos(start * 1_000_000 + request * 1_000_000_000 / rate);
        if let Some(proposal) = control.judge(now) {
            changes.push((now.as_nanos() / 1_000_000, proposal));
            control.applied(proposal);
        }
        control.on_arrival(now, Cost::ONE);
    }
    changes
}

#[test]
fn a_rate_that_doubles_is_followed_up_at_once_and_down_after_a_while() {
    let first = envelope(10, 110, 100);
    let limits = limits((50, 400), (2, 40));
    let mut control = ParameterControl::new(Time::ZERO, limits, first, WINDOW).unwrap();
    let steady = drive(&mut control, 0, 20_000, 100);
    assert!(steady.len() <= 1, "a load that stays the same: {steady:?}");
    let up = drive(&mut control, 20_000, 20_000, 200);
    let (when, raised) = up[0];
    assert!(when <= 22_000 && raised.rate() >= Rate::per_second(190), "{up:?}");
    assert!(up.len() <= 2, "it settles: {up:?}");
    assert!(control.present().rate() <= Rate::per_second(260), "{:?}", control.present());
    let down = drive(&mut control, 40_000, 60_000, 100);
    assert!(!down.is_empty() && down[0].0 >= 48_000, "eight windows first: {down:?}");
    assert!(down.len() <= 2 && control.present().rate() <= Rate::per_second(140), "{down:?}");
    assert_eq!(control.present().latency(), first.latency());
}

#[test]
fn more_than_the_limits_is_promised_the_limits() {
    let limits = limits((50, 400), (2, 40));
    let mut control = ParameterControl::new(Time::ZERO, limits, envelope(10, 100, 100), WINDOW).unwrap();
    let changes = drive(&mut control, 0, 10_000, 2_000);
    assert_eq!(changes.last().unwrap().1, envelope(40, 400, 100));
    assert_eq!(changes.len(), 1, "and that is that");
}

#[test]
fn limits_that_cannot_be_are_refused() {
    let rate = |low, high| (Rate::per_second(low), Rate::per_second(high));
    let burst = |low, high| (Cost::requests(low), Cost::requests(high));
    assert_eq!(AdaptLimits::new(rate(2, 1), burst(1, 2)), Err(AdaptError::Rates));
    assert_eq!(AdaptLimits::new(rate(0, 1), burst(1, 2)), Err(AdaptError::Rates));
    assert_eq!(AdaptLimits::new(rate(1, 2), burst(0, 2)), Err(AdaptError::Bursts));
    assert_eq!(AdaptLimits::new(rate(1, 2), burst(3, 2)), Err(AdaptError::Bursts));
    let fine = AdaptLimits::new(rate(1, 1), burst(1, 1)).unwrap();
    let zero = ParameterControl::new(Time::ZERO, fine, envelope(1, 1, 1), Span::ZERO);
    assert_eq!(zero.err(), Some(AdaptError::ZeroWindow));
}

proptest! {
    /// Whatever is sent: proposals stay inside the limits and keep δ, and unless they are the limits
    /// themselves they hold every request of the eight windows looked back on.
    #[test]
    fn proposals_stay_inside_and_hold_what_was_sent(
        arrivals in prop::collection::vec((0_u64..400_000_000, 1_u64..4_000), 50..400),
        rates in (1_u64..50, 1_u64..40), bursts in (1_u64..5, 1_u64..20), present in (1_u64..60, 1_u64..60),
    ) {
        let limits = limits((rates.0, rates.0 * rates.1), (bursts.0, bursts.0 * bursts.1));
        let present = envelope(present.0, present.1, 50);
        let mut control = ParameterControl::new(Time::ZERO, limits, present, WINDOW).unwrap();
        let (mut now, mut sent) = (Time::ZERO, Vec::new());
        let mut judged = vec![Time::ZERO];
        for (gap, cost) in arrivals {
            now += Span::from_nanos(gap);
            if now >= control.next_judgement() {
                let proposal = control.judge(now);
                judged.push(now);
                if let Some(proposal) = proposal {
                    prop_assert!(limits.hold(&proposal) && proposal.latency() == present.latency());
                    let largest = envelope(bursts.0 * bursts.1, rates.0 * rates.1, 50);
                    if proposal != largest {
                        let since = judged[judged.len().saturating_sub(9)];
                        let mut bucket = TokenBucket::new(since, proposal.burst(), proposal.rate());
                        for (at, cost) in sent.iter().filter(|(at, _)| *at >= since) {
                            prop_assert!(bucket.arrive(*at, *cost), "{proposal} does not hold {at:?}");
                        }
                    }
                    control.applied(proposal);
                }
            }
            let cost = Cost::from_millis(cost);
            control.on_arrival(now, cost);
            sent.push((now, cost));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Several flows on one server, each change applied only if all of them fit together: they always do.
    #[test]
    fn admission_holds_after_every_change(
        loads in prop::collection::vec((10_u64..400, 10_u64..400), 2..5), capacity in 300_u64..1_500,
    ) {
        let capacity = Rate::per_second(capacity);
        let limits = limits((10, 500), (2, 50));
        let mut promises = vec![envelope(4, 20, 100); loads.len()];
        let mut controls: Vec<_> = promises
            .iter()
            .map(|promise| ParameterControl::new(Time::ZERO, limits, *promise, WINDOW).unwrap())
            .collect();
        prop_assume!(admission::admits(capacity, &promises));
        for step in 0..4_000_u64 {
            let now = Time::from_millis(step * 5);
            for (flow, control) in controls.iter_mut().enumerate() {
                let rate = if step < 2_000 { loads[flow].0 } else { loads[flow].1 };
                if (step * 5 * rate / 1_000) != ((step + 1) * 5 * rate / 1_000) {
                    control.on_arrival(now, Cost::ONE);
                }
                if let Some(proposal) = control.judge(now) {
                    let before = std::mem::replace(&mut promises[flow], proposal);
                    if admission::admits(capacity, &promises) {
                        control.applied(proposal);
                    } else {
                        promises[flow] = before;
                    }
                }
                prop_assert!(admission::admits(capacity, &promises));
                prop_assert_eq!(control.present(), &promises[flow]);
            }
        }
    }
}
