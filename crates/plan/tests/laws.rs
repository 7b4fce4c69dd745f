//! What planning promises, held against random traces and promises.

use evenkeel_core::admission::{Binding, nested_capacity, required_capacity};
use evenkeel_core::{
    Cascade, Cost, CostModel, Envelope, Operation, Point, Price, Rate, Span, Time, TokenBucket,
};
use evenkeel_plan::{
    Contender, Flow, Fraction, MemorySource, Parameter, PlanError, Priced, Source, Target, Tenant, Together,
    bounds, bounds_of_costs, consolidate, deadlines, deadlines_of_costs, exact_need, fit, parse_targets,
    replay, what_if, what_if_of_costs,
};
use evenkeel_trace::TraceRequest;
use proptest::prelude::*;

fn envelope(burst: u64, rate: u64, millis: u64) -> Envelope {
    Envelope::new(Cost::requests(burst), Rate::per_second(rate), Span::from_millis(millis)).expect("valid")
}

/// Bursts of random size at random gaps: instants of arrivals.
fn bursts() -> impl Strategy<Value = MemorySource> {
    prop::collection::vec((0_u64..60, 1_usize..12), 1..40).prop_map(|bursts| {
        let (mut now, mut instants) = (0, Vec::new());
        for (gap, size) in bursts {
            now += gap;
            instants.extend((0..size as u64).map(|n| Time::from_nanos(now * 1_000_000 + n * 1_000)));
        }
        instants.sort();
        MemorySource::at(&instants)
    })
}

/// Classes whose parameters grow outward.
fn classes() -> impl Strategy<Value = Vec<Envelope>> {
    prop::collection::vec((0_u64..6, 0_u64..60, 1_u64..80), 1..4).prop_map(|steps| {
        let (mut burst, mut rate, mut latency) = (1, 10, 4);
        let grow = |(b, r, l): (u64, u64, u64)| {
            (burst, rate, latency) = (burst + b, rate + r, latency + l);
            envelope(burst, rate, latency)
        };
        steps.into_iter().map(grow).collect()
    })
}

/// Writes cost three reads; a read of 16 KiB costs two of 4 KiB.
fn prices() -> CostModel {
    let three = Price::flat(Cost::requests(3)).expect("in range");
    let point = |kib: u32, cost: u64| Point { bytes: kib << 10, cost: Cost::requests(cost) };
    let reads = Price::by_size(&[point(4, 1), point(16, 2)]).expect("ascending");
    CostModel::PER_REQUEST.with(Operation::Write, three).with(Operation::Read, reads)
}

/// [`bursts`] of reads of 4 and 16 KiB and of writes, by `kinds`.
fn mixed() -> impl Strategy<Value = MemorySource> {
    (bursts(), prop::collection::vec(0_u8..3, 1..20)).prop_map(|(mut source, kinds)| {
        for (request, kind) in source.requests.iter_mut().zip(kinds.iter().cycle()) {
            (request.operation, request.length) = match kind {
                0 => (Operation::Read, 4 << 10),
                1 => (Operation::Read, 16 << 10),
                _ => (Operation::Write, 4 << 10),
            };
        }
        source
    })
}

/// The classes with bursts that hold a request of cost 3.
fn roomy(classes: &[Envelope]) -> Vec<Envelope> {
    let with = |it: &Envelope| {
        let burst = Cost::from_millis(it.burst().as_millis() + 2_000);
        Envelope::new(burst, it.rate(), it.latency())
    };
    classes.iter().map(|it| with(it).expect("valid")).collect()
}

fn flow<'s>(source: &'s dyn Source, classes: &[Envelope]) -> Flow<'s> {
    Flow { name: "flow".to_owned(), source, classes: classes.to_vec() }
}

/// σ at once and then ρ, for `seconds`.
fn greedy(burst: u64, rate: u64, seconds: u64) -> MemorySource {
    let mut instants = vec![Time::ZERO; burst as usize];
    instants.extend((1..=rate * seconds).map(|n| Time::from_nanos(n * 1_000_000_000 / rate)));
    MemorySource::at(&instants)
}

#[test]
fn the_example_of_the_paper_needs_300_iops_on_paper_and_in_fact() {
    let (one, two) = ([envelope(50, 50, 200)], [envelope(110, 100, 600)]);
    let set = [&one[..], &two[..]];
    let bounds = bounds(&set);
    assert_eq!(bounds.single.capacity, Rate::per_second(300));
    assert_eq!(bounds.single.binding, Binding::Deadline(1));
    assert_eq!(bounds.together.capacity, Rate::per_second(300));
    assert_eq!(bounds.alone, [Rate::per_second(250), Rate::from_millis(183_334)]);
    // Lemma 2.1 for one class is σ/δ: the paper's "lower bound of 250 IOPS", and 110 in 600 ms.
    let geometric: Vec<f64> = bounds.alone_geometric.iter().flatten().map(|it| it.capacity_iops).collect();
    assert!(
        (geometric[0] - 250.0).abs() < 1e-9 && (geometric[1] - 550.0 / 3.0).abs() < 1e-9,
        "{geometric:?}"
    );
    let deadlines = deadlines(&set);
    let binding = deadlines.iter().max_by_key(|it| it.capacity).expect("two");
    assert_eq!(
        (binding.flow, binding.latency, binding.capacity),
        (1, Span::from_millis(600), Rate::per_second(300))
    );
    let (first, second) = (greedy(50, 50, 2), greedy(110, 100, 2));
    let need = exact_need(&[flow(&first, &one), flow(&second, &two)]).expect("planned");
    assert_eq!(need, Rate::per_second(300));
    // A trace that sends less needs less.
    let (first, second) = (greedy(20, 50, 2), greedy(40, 100, 2));
    assert!(exact_need(&[flow(&first, &one), flow(&second, &two)]).expect("planned") < need);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn bounds_are_never_below_the_measured_need(
        sets in prop::collection::vec((classes(), bursts()), 1..4),
    ) {
        let flows: Vec<Flow<'_>> = sets.iter().map(|(classes, trace)| flow(trace, classes)).collect();
        let all: Vec<&[Envelope]> = sets.iter().map(|(classes, _)| classes.as_slice()).collect();
        let need = exact_need(&flows).expect("planned");
        let bounds = bounds(&all);
        prop_assert!(need <= bounds.together.capacity, "{} > {}", need, bounds.together.capacity);
        let innermost: Vec<Flow<'_>> = sets.iter().map(|(classes, trace)| flow(trace, &classes[..1])).collect();
        let need = exact_need(&innermost).expect("planned");
        prop_assert!(need <= bounds.single.capacity, "{} > {}", need, bounds.single.capacity);
    }

    #[test]
    fn bounds_with_costs_are_never_below_the_measured_need(
        sets in prop::collection::vec((classes(), mixed()), 1..4),
    ) {
        let largest = Cost::requests(3);
        let sets: Vec<(Vec<Envelope>, MemorySource)> =
            sets.into_iter().map(|(classes, trace)| (roomy(&classes), trace)).collect();
        let priced: Vec<Priced<'_>> =
            sets.iter().map(|(_, trace)| Priced { source: trace, cost: prices() }).collect();
        let all: Vec<(&[Envelope], Cost)> = sets.iter().map(|(classes, _)| (&classes[..], largest)).collect();
        let flows: Vec<Flow<'_>> = sets.iter().zip(&priced).map(|((it, _), trace)| flow(trace, it)).collect();
        let need = exact_need(&flows).expect("planned");
        let bounds = bounds_of_costs(&all);
        prop_assert!(need <= bounds.together.capacity, "{} > {}", need, bounds.together.capacity);
        let innermost: Vec<Flow<'_>> =
            sets.iter().zip(&priced).map(|((it, _), trace)| flow(trace, &it[..1])).collect();
        let need = exact_need(&innermost).expect("planned");
        prop_assert!(need <= bounds.single.capacity, "{} > {}", need, bounds.single.capacity);
        let most = deadlines_of_costs(&all).iter().map(|it| it.capacity).max();
        prop_assert!(most <= Some(bounds.together.capacity));
        // And all of them under the agreement of the first: a group needs what the agreement promises, once.
        let members = priced.iter().map(|it| it as &dyn Source).collect();
        let group = Together { name: "group".to_owned(), members };
        let need = exact_need(&[flow(&group, &sets[0].0)]).expect("planned");
        let bound = bounds_of_costs(&all[..1]).together.capacity;
        prop_assert!(need <= bound, "{} > {}", need, bound);
    }

    #[test]
    fn a_promise_fitted_to_costs_meets_its_percentages(trace in mixed()) {
        let targets = parse_targets("80% 20 ms, 100% 300 ms").expect("good");
        let priced = Priced { source: &trace, cost: prices() };
        let fitted = fit(&priced, &targets, &mut |_| ()).expect("fits");
        let cost = |request: &TraceRequest| priced.cost(request);
        prop_assert_eq!(Some(fitted.largest), trace.requests.iter().map(cost).max());
        prop_assert!(fitted.classes.iter().all(|class| class.burst() >= fitted.largest));
        for (covered, target) in fitted.covered.iter().zip(&targets) {
            prop_assert!(*covered >= target.fraction.of(fitted.requests));
        }
        let flows = [flow(&priced, &fitted.classes)];
        prop_assert!(exact_need(&flows).expect("planned") <= fitted.capacity);
        let served = replay(&flows, Contender::Nested.scheduler(), fitted.capacity, &mut |_| ()).expect("replayed");
        for (within, target) in served[0].within.iter().zip(&targets) {
            prop_assert!(*within >= target.fraction.of(fitted.requests), "{:?} of {:?}", served, fitted);
        }
    }

    #[test]
    fn the_table_of_deadlines_agrees_with_lemma_3(sets in prop::collection::vec(classes(), 1..5)) {
        let all: Vec<&[Envelope]> = sets.iter().map(Vec::as_slice).collect();
        let rates: u64 = sets.iter().filter_map(|it| it.last()).map(|it| it.rate().as_millis()).sum();
        let most = deadlines(&all).iter().map(|it| it.capacity.as_millis()).max().unwrap_or(0).max(rates);
        prop_assert_eq!(nested_capacity(&all).capacity.as_millis(), most);
    }

    #[test]
    fn lemma_2_is_lemma_1_with_equal_rates(classes in classes(), rate in 1_u64..200) {
        let equal: Vec<Envelope> = classes
            .iter()
            .map(|it| Envelope::new(it.burst(), Rate::per_second(rate), it.latency()).expect("valid"))
            .collect();
        let bounds = bounds(&[&equal]);
        prop_assert_eq!(bounds.alone_equal_rates[0], Some(bounds.alone[0]));
    }

    #[test]
    fn lemma_2_1_is_lemma_2_with_constant_growth(
        burst in 1_u64..20, millis in 1_u64..20, rate in 1_u64..300, beta in 1_u64..4, alpha in 2_u64..5, classes in 1_u32..4,
    ) {
        let class = |n: u32| envelope(burst * beta.pow(n), rate, millis * alpha.pow(n));
        let classes: Vec<Envelope> = (0..classes).map(class).collect();
        let bounds = bounds(&[&classes]);
        let geometric = bounds.alone_geometric[0].expect("it grows by constant factors");
        let second = bounds.alone_equal_rates[0].expect("equal rates").as_f64();
        prop_assert!((geometric.capacity_iops - second).abs() <= 0.001 + 1e-9 * second, "{:?} {}", geometric, second);
        if let Some(short) = geometric.short_iops.filter(|_| classes.len() > 1) {
            prop_assert!(geometric.lambda < 1.0);
            // What the thesis leaves out: the requests that straddle classes.
            let straddling = 1e3 * (classes.len() - 1) as f64 / (alpha * millis) as f64;
            prop_assert!(geometric.capacity_iops <= short + straddling, "{:?}", geometric);
        }
        // Another growth, and it says nothing.
        let mut uneven = classes.clone();
        uneven.push(envelope(burst * beta.pow(3) + 1, rate, millis * alpha.pow(4)));
        prop_assert_eq!(evenkeel_plan::bounds(&[&uneven]).alone_geometric[0].is_none(), uneven.len() > 2);
    }

    #[test]
    fn a_fitted_promise_replayed_at_its_capacity_meets_its_percentages(trace in bursts(), inner in 300_000_u32..900_000) {
        let fraction = |millionths| Fraction::from_millionths(millionths).expect("in range");
        let targets = [
            Target { fraction: fraction(inner), latency: Span::from_millis(10) },
            Target { fraction: fraction(950_000), latency: Span::from_millis(60) },
            Target { fraction: Fraction::ALL, latency: Span::from_millis(400) },
        ];
        let fitted = fit(&trace, &targets, &mut |_| ()).expect("fits");
        for (covered, target) in fitted.covered.iter().zip(&targets) {
            prop_assert!(*covered >= target.fraction.of(fitted.requests));
        }
        let flows = [flow(&trace, &fitted.classes)];
        let need = exact_need(&flows).expect("planned");
        prop_assert!(need <= fitted.capacity);
        let served = replay(&flows, Contender::Nested.scheduler(), fitted.capacity, &mut |_| ()).expect("replayed");
        for (within, target) in served[0].within.iter().zip(&targets) {
            prop_assert!(*within >= target.fraction.of(fitted.requests), "{:?} of {:?}", served, fitted);
        }
        // The single triple does it too, at its price.
        let single = [fitted.single];
        let flows = [flow(&trace, &single)];
        let served =
            replay(&flows, Contender::PClock.scheduler(), fitted.single_capacity, &mut |_| ()).expect("replayed");
        prop_assert_eq!(served[0].within[0], fitted.requests);
    }

    #[test]
    fn the_innermost_rate_is_the_least(trace in bursts(), millionths in 1_u32..=1_000_000) {
        let fraction = Fraction::from_millionths(millionths).expect("in range");
        let latency = Span::from_millis(10);
        let fitted = fit(&trace, &[Target { fraction, latency }], &mut |_| ()).expect("fits");
        prop_assert_eq!((fitted.classes[0], fitted.capacity), (fitted.single, fitted.single_capacity));
        let admitted = |rate: u64| {
            let burst = Cost::from_millis((rate * latency.as_nanos()).div_ceil(1_000_000_000)).max(Cost::ONE);
            let mut bucket = TokenBucket::new(Time::ZERO, burst, Rate::from_millis(rate));
            trace.requests.iter().filter(|request| bucket.take(request.at, Cost::ONE)).count() as u64
        };
        let (rate, wanted) = (fitted.classes[0].rate().as_millis(), fraction.of(fitted.requests));
        prop_assert!(admitted(rate) >= wanted);
        prop_assert!(rate == 1 || admitted(rate - 1) < wanted);
        // More capacity never admits fewer, and the curve shows that.
        let rises = fitted.curve.windows(2).all(|pair| pair[0].capacity < pair[1].capacity && pair[0].within <= pair[1].within);
        prop_assert!(rises);
        prop_assert_eq!(fitted.curve.last().map(|point| point.within), Some(fitted.requests));
        prop_assert_eq!(Cascade::new(Time::ZERO, &fitted.classes).class_at(Time::ZERO, Cost::ONE), Some(0));
    }

    #[test]
    fn relaxations_are_minimal(sets in prop::collection::vec(classes(), 1..4), permille in 300_u64..1_000) {
        let flows: Vec<Vec<Envelope>> = sets;
        let all: Vec<&[Envelope]> = flows.iter().map(Vec::as_slice).collect();
        let capacity = Rate::from_millis(nested_capacity(&all).capacity.as_millis() * permille / 1_000);
        let fits = |flow: usize, classes: &[Envelope]| {
            let all: Vec<&[Envelope]> =
                (0..).zip(&flows).map(|(index, it)| if index == flow { classes } else { &it[..] }).collect();
            nested_capacity(&all).capacity <= capacity
        };
        for found in what_if(&flows, capacity, true) {
            prop_assert!(fits(found.flow, &found.classes));
            let old = flows[found.flow][found.class];
            let new = found.classes[found.class];
            // Every smaller relaxation of that parameter, to a coarse resolution and down to the last step.
            let (from, to, step) = match found.parameter {
                Parameter::Latency => (old.latency().as_nanos(), new.latency().as_nanos(), 1_000),
                Parameter::Burst => (old.burst().as_millis(), new.burst().as_millis(), 1_000),
                Parameter::Rate => (old.rate().as_millis(), new.rate().as_millis(), 1),
            };
            let apart = from.abs_diff(to);
            let smaller = (0..20).map(|part| apart * part / 20 / step * step).chain([apart - step.min(apart)]);
            for less in smaller.filter(|less| *less < apart) {
                let value = if to > from { from + less } else { from - less };
                let with = |index: usize, it: &Envelope| {
                    let (mut b, mut r, mut l) = (it.burst(), it.rate(), it.latency());
                    match found.parameter {
                        Parameter::Latency if index >= found.class => l = l.max(Span::from_nanos(value)),
                        Parameter::Burst if index <= found.class => b = b.min(Cost::from_millis(value)),
                        Parameter::Rate if index <= found.class => r = r.min(Rate::from_millis(value)),
                        _ => {}
                    }
                    Envelope::new(b, r, l).expect("valid")
                };
                let classes: Vec<Envelope> =
                    flows[found.flow].iter().enumerate().map(|(index, it)| with(index, it)).collect();
                prop_assert!(!fits(found.flow, &classes), "{:?} by {} of {} does as well", found, less, apart);
            }
        }
    }
}

#[test]
fn promises_that_fit_need_no_relaxation_and_hopeless_ones_get_none_that_lies() {
    let fitting = vec![vec![envelope(50, 50, 200)], vec![envelope(110, 100, 600)]];
    assert!(what_if(&fitting, Rate::per_second(300), false).is_empty());
    let found = what_if(&fitting, Rate::per_second(280), false);
    let shown: Vec<String> =
        found.iter().map(|it| format!("{} {} {}", it.flow, it.parameter, it.classes[0])).collect();
    assert_eq!(
        shown,
        [
            "0 latency bound ⟨50, 50 IOPS, 440 ms⟩",
            "0 burst ⟨38, 50 IOPS, 200 ms⟩",
            "0 rate ⟨50, 20 IOPS, 200 ms⟩",
            "1 latency bound ⟨110, 100 IOPS, 652174 us⟩",
            "1 burst ⟨98, 100 IOPS, 600 ms⟩",
        ]
    );
    assert_eq!(required_capacity(&[fitting[0][0], found[3].classes[0]]).capacity, Rate::from_millis(280_000));
}

#[test]
fn no_burst_is_made_smaller_than_the_largest_request() {
    let flows = vec![vec![envelope(20, 50, 200)], vec![envelope(110, 100, 600)]];
    let largest = [Cost::requests(15), Cost::ONE];
    let found = what_if_of_costs(&flows, &largest, Rate::per_second(220), false);
    assert!(found.iter().any(|it| it.parameter == Parameter::Burst));
    assert!(found.iter().all(|it| it.classes[0].burst() >= largest[it.flow]), "{found:?}");
    let free = what_if(&flows, Rate::per_second(220), false);
    assert!(free.len() >= found.len());
}

#[test]
fn traces_out_of_phase_share_a_store() {
    // Bursts of 20 every 200 ms, one half a period after the other.
    let at = |phase: u64| {
        let burst = |n: u64| (0..20).map(move |_| Time::from_millis(phase + n * 200));
        MemorySource::at(&(0..20).flat_map(burst).collect::<Vec<_>>())
    };
    let traces = [at(0), at(100)];
    let targets = parse_targets("90% 20 ms, 100% 90 ms").expect("good");
    let tenants: Vec<Tenant<'_>> = traces
        .iter()
        .map(|trace| {
            let classes = fit(trace, &targets, &mut |_| ()).expect("fits").classes;
            Tenant { flow: flow(trace, &classes), targets: targets.clone() }
        })
        .collect();
    for contender in Contender::ALL {
        let alone = consolidate(&tenants, contender, None, &mut || ()).expect("planned");
        assert_eq!(alone.fit, None);
        assert!(alone.together >= *alone.alone.iter().max().expect("two"), "{alone:?}");
        assert!(alone.saving_permille() > 300, "{alone:?}");
        let both = consolidate(&tenants, contender, Some(alone.together), &mut || ()).expect("planned");
        assert_eq!(both.fit, Some(2));
        let none =
            consolidate(&tenants, contender, Some(Rate::per_second(100)), &mut || ()).expect("planned");
        assert_eq!(none.fit, Some(0));
    }
}

#[test]
fn empty_and_unsorted_traces_are_refused() {
    let targets = parse_targets("100% 5 ms").expect("good");
    let fitted = |instants: &[Time]| fit(&MemorySource::at(instants), &targets, &mut |_| ()).map(|_| ());
    assert!(matches!(fitted(&[]), Err(PlanError::Empty { .. })));
    let unsorted = [Time::from_millis(2), Time::from_millis(1)];
    assert!(matches!(fitted(&unsorted), Err(PlanError::Unsorted { number: 2, .. })));
}
