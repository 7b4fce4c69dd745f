//! The depth controller against simulated devices whose throughput saturates at a known depth.

mod common;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::num::NonZeroU32;
use std::ops::Range;

use common::schedulers::{KINDS, scheduler};
use common::{request, slo};
use evenkeel_core::sched::fairio::FairioConfig;
use evenkeel_core::*;

/// How a device serves: `servers` at once, and how long a service takes with `n` requests at the device.
struct Device {
    servers: usize,
    service: fn(usize, u64) -> u64,
}

const MS: u64 = 1_000_000;

fn control(least: u32, most: u32, window_ms: u64) -> DepthControl {
    let [least, most] = [least, most].map(|depth| NonZeroU32::new(depth).unwrap());
    DepthControl::new(least, most, Span::from_millis(window_ms)).unwrap()
}

/// Keeps the device at the controller's depth through `seconds`; every 20th request is promised `promise`. Returns
/// the depths after each change, and the one that was held longest in the second half.
fn drive(control: &mut DepthControl, device: &Device, promise: Span, seconds: Range<u64>) -> (Vec<u32>, u32) {
    let (mut now, mut id, mut seed) = (seconds.start * 1_000 * MS, 0_u64, 1_u64);
    let mut queue = VecDeque::new();
    let mut serving: BinaryHeap<Reverse<(u64, u64, u64)>> = BinaryHeap::new();
    let (mut depths, mut held) = (vec![], BTreeMap::new());
    let half = u64::midpoint(seconds.start, seconds.end) * 1_000 * MS;
    while now < seconds.end * 1_000 * MS {
        let depth = control.depth().get() as usize;
        while queue.len() + serving.len() < depth {
            queue.push_back((id, now));
            id += 1;
        }
        while serving.len() < device.servers
            && let Some((id, dispatched)) = queue.pop_front()
        {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let service = (device.service)(queue.len() + serving.len() + 1, seed >> 33);
            serving.push(Reverse((now + service, id, dispatched)));
        }
        let Reverse((done, id, dispatched)) = serving.pop().unwrap();
        if done > half {
            *held.entry(depth as u32).or_insert(0) += done - now;
        }
        now = done;
        let record = Record {
            class: None,
            request: request(id, 0, 1_000),
            arrival: Time::from_nanos(dispatched),
            dispatch: Time::from_nanos(dispatched),
            completion: Time::from_nanos(done),
            promise: id.is_multiple_of(20).then_some(promise),
            outcome: Outcome::Done,
        };
        if let Some(depth) = control.handle_record(Time::from_nanos(now), &record) {
            assert_eq!(depth, control.depth());
            depths.push(depth.get());
        }
    }
    (depths, held.into_iter().max_by_key(|(_, nanos)| *nanos).unwrap().0)
}

/// 1 ms give or take a half.
fn steady(_: usize, random: u64) -> u64 {
    MS / 2 + random % MS
}

/// Gains from a queue: 1 ms alone, less and less with more to choose from.
fn gaining(n: usize, _: u64) -> u64 {
    6 * MS / (5 + n.min(40) as u64)
}

const NEVER_MISSED: Span = Span::from_millis(10_000);

#[test]
fn it_finds_the_depth_at_which_throughput_saturates() {
    for servers in [1_u32, 2, 4, 9, 16] {
        let mut control = control(1, 128, 1_000);
        let device = Device { servers: servers as usize, service: steady };
        let (_, depth) = drive(&mut control, &device, NEVER_MISSED, 0..40);
        let range = (servers - servers / 4)..=(servers + servers / 4 + 1);
        assert!(range.contains(&depth), "{servers} servers: {depth}");
        let (trials, _) = drive(&mut control, &device, NEVER_MISSED, 40..80);
        assert!(trials.len() <= 20, "it rests between trials: {trials:?}");
        assert!(trials.iter().all(|trial| trial.abs_diff(depth) <= depth / 2 + 1), "{depth}: {trials:?}");
    }
}

#[test]
fn it_follows_a_device_that_changes() {
    let mut control = control(1, 64, 500);
    for (era, servers, range) in [(0, 24, 18..=31), (1, 4, 3..=6), (2, 24, 18..=31)] {
        let device = Device { servers, service: steady };
        let (_, depth) = drive(&mut control, &device, NEVER_MISSED, 80 * era..80 * (era + 1));
        assert!(range.contains(&depth), "{servers} servers: {depth}");
    }
}

/// With n at the device a request takes n · 6 / (5 + n) ms: 4 ms at a depth of 10.
#[test]
fn it_goes_no_deeper_than_the_latency_bound_bears() {
    let device = Device { servers: 1, service: gaining };
    let mut control = control(1, 64, 500);
    let (_, unbound) = drive(&mut control, &device, NEVER_MISSED, 0..60);
    assert!((30..=45).contains(&unbound), "throughput alone: {unbound}");
    let (_, bound) = drive(&mut control, &device, Span::from_millis(4), 60..160);
    assert!((6..=10).contains(&bound), "a bound of 4 ms: {bound}");
}

#[test]
fn misses_that_no_depth_mends_do_not_cost_throughput() {
    let device = Device { servers: 16, service: steady };
    let (_, depth) = drive(&mut control(1, 64, 500), &device, Span::from_micros(100), 0..100);
    assert!((12..=21).contains(&depth), "{depth}");
}

#[test]
fn it_stays_within_its_bounds_and_says_what_is_wrong_with_them() {
    let device = Device { servers: 16, service: steady };
    for (least, most, expected) in [(2, 4, 4), (20, 40, 20), (5, 5, 5)] {
        let (depths, depth) = drive(&mut control(least, most, 500), &device, NEVER_MISSED, 0..20);
        assert!(depths.iter().all(|depth| (least..=most).contains(depth)), "{depths:?}");
        assert_eq!(depth, expected);
    }
    let [one, two] = [1, 2].map(|depth| NonZeroU32::new(depth).unwrap());
    assert_eq!(DepthControl::new(two, one, Span::from_millis(1)).err(), Some(DepthError::EmptyRange));
    assert_eq!(DepthControl::new(one, two, Span::ZERO).err(), Some(DepthError::ZeroWindow));
}

/// An engine whose depth is chosen, four flows that always have sixteen requests outstanding, one of them in the
/// background, and four servers of 1 ms give or take a half: the depth held longest in the second half of
/// eight seconds, and requests served in it.
fn drive_engine(kind: usize) -> (u32, usize) {
    let fairio = FairioConfig { load_threshold: 1, ..FairioConfig::new(Span::from_millis(20), 4) };
    let mut control = control(1, 64, 100);
    let mut engine = Engine::new(scheduler(kind, fairio), control.depth());
    let promises = [slo(4, 500, 500), slo(4, 1_000, 500), slo(4, 100, 500), Slo::background()];
    for (flow, slo) in (0..).zip(promises) {
        engine.handle_input(Time::ZERO, Input::Add(FlowId(flow), slo)).unwrap();
    }
    let (mut now, mut seed, mut served) = (0, 1_u64, 0);
    let mut free_at = [0_u64; 4];
    let mut store: BinaryHeap<Reverse<(u64, u64, usize)>> = BinaryHeap::new();
    let mut held: BTreeMap<u32, u64> = BTreeMap::new();
    for id in 0..64 {
        engine.handle_input(Time::ZERO, Input::Arrival(request(id, id as usize % 4, 1_000))).unwrap();
    }
    while now < 8_000 * MS {
        let at = Time::from_nanos(now);
        while let Some(output) = engine.poll_output(at) {
            match output {
                Output::Submit(Submission { ticket, request }) => {
                    seed =
                        seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let server = (0..4).min_by_key(|server| free_at[*server]).unwrap();
                    free_at[server] = free_at[server].max(now) + steady(0, seed >> 33);
                    store.push(Reverse((free_at[server], ticket.to_bits(), request.flow.0 as usize)));
                }
                Output::Reply(record) => {
                    served += usize::from(now > 4_000 * MS);
                    if let Some(depth) = control.handle_record(at, &record) {
                        engine.set_depth(depth);
                    }
                }
            }
        }
        let wake = engine.poll_timeout().map_or(u64::MAX, Time::as_nanos);
        let next = store.peek().map_or(u64::MAX, |Reverse((done, ..))| *done).min(wake);
        if now > 4_000 * MS {
            *held.entry(engine.depth()).or_default() += next - now;
        }
        let done = store.peek().is_some_and(|Reverse((done, ..))| *done == next);
        now = next;
        if !done {
            engine.handle_input(Time::from_nanos(now), Input::Timeout).unwrap();
        } else if let Some(Reverse((_, ticket, flow))) = store.pop() {
            let completion = Completion::new(Ticket::from_bits(ticket), Outcome::Done);
            engine.handle_input(Time::from_nanos(now), Input::Completion(completion)).unwrap();
            engine.handle_input(Time::from_nanos(now), Input::Arrival(request(now, flow, 1_000))).unwrap();
        }
    }
    (held.into_iter().max_by_key(|(_, nanos)| *nanos).unwrap().0, served)
}

#[test]
fn it_finds_the_depth_under_every_scheduler() {
    for kind in 0..KINDS {
        let (depth, served) = drive_engine(kind);
        assert!((3..=6).contains(&depth), "scheduler {kind}: {depth}");
        assert!(served > 4 * 4_000 * 85 / 100, "scheduler {kind}: {served} of 16000");
    }
}
