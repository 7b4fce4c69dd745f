//! Tests of the hybrid device.

use evenkeel_core::Rate;
use evenkeel_device::ConstantRate;
use evenkeel_tiering::policy::{Arc, DiskOnly, Lru, Offline, Online, OnlineParameters};
use proptest::prelude::*;
use std::num::NonZeroU32;

use super::*;

const CLUSTER: u64 = 65_536;

/// Flash of 0.1 ms and a disk of 10 ms per access.
fn device(policy: Box<dyn Policy>, slots: u64, preloaded: Vec<Cluster>, overlap: bool) -> HybridDevice {
    let model = |rate| Box::new(ConstantRate::new(Rate::per_second(rate), NonZeroU32::MIN));
    HybridDevice::new(HybridParts {
        fast: model(10_000),
        slow: model(100),
        geometry: Geometry::new(65_536, 4_096).expect("valid"),
        bytes: 1_000 * CLUSTER,
        fast_bytes: slots * CLUSTER,
        policy,
        background: Background::default(),
        preloaded,
        overlap,
    })
    .expect("valid")
}

fn io(token: u64, operation: Operation, offset: u64, length: u32) -> Io {
    Io { token, operation, offset, length }
}

/// Everything that finishes, until nothing is left to do.
fn run(device: &mut HybridDevice) -> Vec<Finished> {
    let mut all = Vec::new();
    while let Some(at) = device.next_event() {
        all.extend(std::iter::from_fn(|| device.poll_completion(at)));
    }
    all
}

fn micros(time: Time) -> u64 {
    time.as_nanos() / 1_000
}

#[test]
fn a_request_over_a_border_is_split_and_is_over_with_its_last_part() {
    for (overlap, end) in [(true, 10_000), (false, 10_100)] {
        let mut device = device(Box::new(Offline::new([1])), 4, vec![1], overlap);
        device.submit(Time::ZERO, io(7, Operation::Read, CLUSTER - 4_096, 8_192));
        let finished = run(&mut device);
        assert_eq!(finished.len(), 1);
        assert_eq!((finished[0].token, micros(finished[0].at)), (7, end));
        assert_eq!(finished[0].busy, Span::from_micros(10_100), "of both devices");
        let counts = device.tier_counts().expect("two tiers");
        assert_eq!((counts.fast, counts.slow), (1, 1));
    }
}

#[test]
fn each_device_has_its_depth_and_who_waits_goes_in_order() {
    // Disks of four servers, of which the depth lets one work; flash of one server beside them.
    let ends = |depths: Option<[u32; 2]>| {
        let model = |rate, servers| {
            Box::new(ConstantRate::new(Rate::per_second(rate), NonZeroU32::new(servers).unwrap()))
        };
        let mut device = HybridDevice::new(HybridParts {
            fast: model(10_000, 1),
            slow: model(400, 4),
            geometry: Geometry::new(65_536, 4_096).expect("valid"),
            bytes: 1_000 * CLUSTER,
            fast_bytes: 4 * CLUSTER,
            policy: Box::new(Offline::new([1])),
            background: Background::default(),
            preloaded: vec![1],
            overlap: true,
        })
        .expect("valid");
        if let Some(depths) = depths {
            let [fast, slow] = depths.map(|depth| NonZeroU32::new(depth).expect("above 0"));
            device.set_depths(fast, slow);
        }
        (0..4).for_each(|token| {
            device.submit(Time::ZERO, io(token, Operation::Read, (10 + token) * CLUSTER, 4_096))
        });
        device.submit(Time::ZERO, io(9, Operation::Read, CLUSTER, 4_096));
        run(&mut device).into_iter().map(|finished| (finished.token, micros(finished.at))).collect::<Vec<_>>()
    };
    let together = [(9, 100), (0, 10_000), (1, 10_000), (2, 10_000), (3, 10_000)];
    assert_eq!(ends(None), together);
    assert_eq!(ends(Some([1, 4])), together);
    assert_eq!(ends(Some([1, 1])), [(9, 100), (0, 10_000), (1, 20_000), (2, 30_000), (3, 40_000)]);
}

#[test]
fn policies_place_as_they_say() {
    let accesses = |policy: Box<dyn Policy>| {
        let mut device = device(policy, 4, Vec::new(), false);
        let mut now = Time::ZERO;
        // Clusters far apart, read five times each, one after the other, with idle time between.
        for token in 0..15_u64 {
            device.submit_for(now, FlowId(3), io(token, Operation::Read, token % 3 * 10 * CLUSTER, 4_096));
            run(&mut device);
            now += Span::from_millis(1_000);
        }
        device.tier_counts().expect("two tiers").fast
    };
    assert_eq!(accesses(Box::new(DiskOnly)), 0);
    assert_eq!(accesses(Box::<Lru>::default()), 12, "all but the first reads");
    assert_eq!(accesses(Box::new(Offline::new([10]))), 4, "the chosen one, but for its first read");
    let online = Online::new(OnlineParameters::default()).expect("valid");
    assert!((9..=12).contains(&accesses(Box::new(online))), "random reads only");
}

#[test]
fn what_lies_beyond_the_store_is_cut_off() {
    let mut device = device(Box::new(DiskOnly), 4, Vec::new(), true);
    device.submit(Time::ZERO, io(1, Operation::Read, 1_000 * CLUSTER, 4_096));
    assert_eq!(device.next_event(), Some(Time::ZERO));
    assert_eq!(run(&mut device).len(), 1);
    assert_eq!(device.tier_counts(), Some(TierCounts::default()));
}

fn policy(number: u8) -> Box<dyn Policy> {
    match number {
        0 => Box::new(DiskOnly),
        1 => Box::new(Offline::new(0..8)),
        2 => Box::new(Online::new(OnlineParameters::default()).expect("valid")),
        3 => Box::new(Lru::default()),
        _ => Box::new(Arc::default()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_request_is_over_once_and_the_same_again(
        number in 0_u8..5,
        overlap: bool,
        requests in prop::collection::vec((0_u64..3_000, 0_u8..8, 0_u64..32 * CLUSTER, 1_u32..200_000), 1..80),
    ) {
        let once = || {
            let mut device = device(policy(number), 6, Vec::new(), overlap);
            let (mut all, mut now) = (Vec::new(), Time::ZERO);
            for (token, (gap, kind, offset, length)) in requests.iter().enumerate() {
                let until = now + Span::from_micros(*gap);
                while let Some(at) = device.next_event().filter(|at| *at <= until) {
                    all.extend(std::iter::from_fn(|| device.poll_completion(at)));
                }
                now = until;
                let operation = match kind {
                    0..=3 => Operation::Read,
                    4..=6 => Operation::Write,
                    _ => Operation::Flush,
                };
                device.submit_for(now, FlowId(token as u32 % 3), io(token as u64, operation, *offset, *length));
            }
            all.extend(run(&mut device));
            prop_assert!(device.store().is_idle(), "nothing is left behind");
            prop_assert!(all.windows(2).all(|pair| pair[0].at <= pair[1].at), "in the order of finishing");
            Ok(all)
        };
        let all = once()?;
        let mut tokens: Vec<u64> = all.iter().map(|finished| finished.token).collect();
        tokens.sort_unstable();
        prop_assert_eq!(tokens, (0..requests.len() as u64).collect::<Vec<_>>());
        prop_assert_eq!(all, once()?);
    }
}
