//! The measures against a naive model: every record kept, sorted, counted by hand.

mod common;

use common::{Witness, configured, constant, ms, slo, source};
use evenkeel_core::sched::nested::Nested;
use evenkeel_core::*;
use evenkeel_sim::summary::Heading;
use evenkeel_sim::*;
use proptest::prelude::*;

/// Measures and remembers.
struct Both(Measure, Witness);

impl Observer for Both {
    fn on_arrival(&mut self, now: Time, request: &Request) {
        self.0.on_arrival(now, request);
        self.1.on_arrival(now, request);
    }

    fn on_submit(&mut self, now: Time, submission: &Submission, outstanding: u32) {
        self.0.on_submit(now, submission, outstanding);
    }

    fn on_reply(&mut self, record: &Record, outstanding: u32) {
        self.0.on_reply(record, outstanding);
        self.1.on_reply(record, outstanding);
    }

    fn on_configure(&mut self, now: Time, flow: FlowId, slo: &Slo) {
        self.0.on_configure(now, flow, slo);
    }
}

fn graduated() -> Slo {
    let class = |burst, rate, millis| {
        Envelope::new(Cost::requests(burst), Rate::per_second(rate), Span::from_millis(millis)).expect("good")
    };
    Slo::nested(&[class(2, 40, 15), class(6, 60, 60)]).expect("nested")
}

/// The smallest value that at least this share of `sorted` does not exceed.
fn percentile(sorted: &[u64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted[rank - 1] as f64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_summary_says_what_the_records_say(
        seed: u64, rate in 20_u64..120, depth in 1_u32..4, warmup in 0_u64..1_000
    ) {
        let (warmup, end) = (ms(warmup), ms(4_000));
        let setup = Setup {
            seed,
            engine: Engine::new(Box::new(Nested::new()), std::num::NonZeroU32::new(depth).expect("above 0")),
            device: constant(150),
            changes: configured(vec![graduated(), slo(3, 50, 40)]),
            sources: vec![
                source(0, 0, Pace::Poisson(Rate::per_second(rate))),
                source(1, 0, Pace::Bursts { size: 5, every: Span::from_millis(100) }),
            ],
        };
        let both = Both(Measure::new(warmup, end, Span::from_millis(500)), Witness::default());
        let mut simulation = Simulation::new(setup, both).expect("good");
        simulation.run_until(Time::from_nanos(end.as_nanos() - 1)).expect("good");
        simulation.drain().expect("good");
        let Both(measure, seen) = simulation.into_observer();
        let names = ["a".to_owned(), "b".to_owned()];
        let heading = Heading {
            scenario: "s", scenario_hash: "h", commit: None, seed, scheduler: "nested", flows: &names,
        };
        let summary = measure.summary(&heading);
        let seconds = end.since(warmup).as_secs_f64();
        for (number, flow) in summary.flows.iter().enumerate() {
            let of_flow: Vec<&Record> =
                seen.records.iter().filter(|record| record.request.flow.0 as usize == number).collect();
            let counted: Vec<&Record> =
                of_flow.iter().copied().filter(|it| it.arrival >= warmup && it.arrival < end).collect();
            let mut latencies: Vec<u64> = counted.iter().map(|it| it.latency().as_nanos()).collect();
            latencies.sort_unstable();
            prop_assert_eq!(flow.served, counted.len() as u64);
            prop_assert_eq!(flow.offered, counted.len() as u64, "all were drained");
            prop_assert_eq!(flow.missed, counted.iter().filter(|it| it.missed()).count() as u64);
            prop_assert_eq!(flow.outside, counted.iter().filter(|it| it.class.is_none()).count() as u64);
            for (index, class) in flow.classes.iter().enumerate().take(flow.classes.len() - 1) {
                let of_class = counted.iter().filter(|it| it.class == Some(index as u8)).count();
                prop_assert_eq!(class.served, of_class as u64);
            }
            let done = of_flow.iter().filter(|it| it.completion >= warmup && it.completion < end).count();
            prop_assert!((flow.served_iops - done as f64 / seconds).abs() < 1e-9);
            let mean = latencies.iter().sum::<u64>() as f64 / latencies.len() as f64 / 1e3;
            prop_assert!((flow.latency.latency_mean_us - mean).abs() < 1e-6);
            prop_assert_eq!(flow.latency.latency_max_us, *latencies.last().expect("some") as f64 / 1e3);
            for (said, share) in [
                (flow.latency.latency_p50_us, 0.5),
                (flow.latency.latency_p95_us, 0.95),
                (flow.latency.latency_p99_us, 0.99),
            ] {
                let exact = percentile(&latencies, share) / 1e3;
                prop_assert!(said >= exact && said <= exact * 1.001 + 0.064, "{} for {}", said, exact);
            }
            let windows = &flow.windows;
            prop_assert_eq!(windows.served.iter().sum::<u64>(), of_flow.len() as u64);
            let first = of_flow.iter().filter(|it| it.completion < ms(500)).count();
            prop_assert_eq!(windows.served[0], first as u64);
        }
        let busy = busy_ns(&seen.records, warmup, end) as f64 / end.since(warmup).as_nanos() as f64;
        prop_assert!((summary.device.utilisation - busy).abs() < 1e-9);
    }
}

/// Nanoseconds from `from` to `to` in which some request was at the device.
fn busy_ns(records: &[Record], from: Time, to: Time) -> u64 {
    let mut spans: Vec<(Time, Time)> = records.iter().map(|it| (it.dispatch, it.completion)).collect();
    spans.sort_unstable();
    let (mut busy, mut reached) = (0, from);
    for (begin, end) in spans {
        let (begin, end) = (begin.max(reached), end.min(to));
        busy += end.since(begin).as_nanos();
        reached = reached.max(end);
    }
    busy
}
