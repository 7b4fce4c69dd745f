//! The three examples of chapter 1, on a server of constant rate.

use evenkeel_core::{Record, Span, Time};
use evenkeel_plan::{Flow, MemorySource, exact_need};
use evenkeel_report::figure::Bars;
use evenkeel_sim::run;
use evenkeel_sim::simulation::Observer;

use super::loads::{envelope, planned};
use crate::pclock::flow;
use crate::study::{Figure, number};
use crate::{Check, Context, ExperimentError, Study};

const EX_1: &str = include_str!("../../../../experiments/nested-ex1.toml");
const EX_2: &str = include_str!("../../../../experiments/nested-ex2.toml");
const SCHEDULERS: [&str; 4] = ["fcfs", "wf2q+", "pclock", "nested"];
/// The bad requests of example II: those of the burst beyond its first, by their numbers from 0.
const BAD: std::ops::RangeInclusive<u64> = 1..=5;
const BOUND: Span = Span::from_millis(10);

pub(super) fn example_1(context: &Context) -> Result<Study, ExperimentError> {
    let scenario = context.scenario("nested-ex1.toml", EX_1)?;
    let mut study = Study { seeds: vec![scenario.seed], ..Study::default() };
    let mut longest = Vec::new();
    for name in SCHEDULERS {
        let summary = context.run(&scenario, name, scenario.seed)?;
        let worst = |name| Ok::<_, ExperimentError>(flow(&summary, name)?.latency.latency_max_us / 1e3);
        longest.push((name, worst("c_a")?, worst("c_b")?));
    }
    // One request takes 5 ms; the thesis counts none of it.
    study.check(Check::near("fcfs: requests of C_A take up to", longest[0].1, 250.0, 5.0, "ms"));
    for (name, c_a, _) in &longest[1..] {
        study.check(Check::at_most(
            format!("{name}: C_A within 100 ms and a service time"),
            *c_a,
            105.0,
            "ms",
        ));
    }
    let rows = longest.iter().map(|(name, a, b)| {
        let paper = if *name == "fcfs" { "up to 250" } else { "–" };
        vec![(*name).to_owned(), paper.to_owned(), number(*a), number(*b)]
    });
    study.table(
        "Longest latency, ms",
        &["scheduler", "C_A, paper", "C_A, ours", "C_B, ours"],
        rows.collect(),
    );
    let bars = Bars {
        title: "Example I: longest latency".to_owned(),
        y: "ms".to_owned(),
        groups: longest.iter().map(|(name, ..)| (*name).to_owned()).collect(),
        series: vec![
            ("C_A".to_owned(), longest.iter().map(|it| it.1).collect()),
            ("C_B".to_owned(), longest.iter().map(|it| it.2).collect()),
        ],
    };
    study.figures.push(Figure { title: bars.title.clone(), svg: bars.svg()? });
    Ok(study)
}

pub(super) fn example_2(context: &Context) -> Result<Study, ExperimentError> {
    let mut study = Study::default();
    let mut rows = Vec::new();
    for name in SCHEDULERS {
        let late = late(context, name, 100_000)?;
        let (expected, paper) = if name == "nested" { (0, "0") } else { (4, "4") };
        let exactly = |law: String, found: u64, expected: u64| {
            Check::that(law, found == expected, format!("{found} of {expected} expected"))
        };
        study.check(exactly(format!("{name}: good requests that are late"), late.good, expected));
        study.check(exactly(format!("{name}: bad requests that are late"), late.bad, 5));
        rows.push(vec![
            name.to_owned(),
            "5".to_owned(),
            late.bad.to_string(),
            paper.to_owned(),
            late.good.to_string(),
        ]);
    }
    study.table(
        "Late requests in a second",
        &["scheduler", "bad ones, paper", "bad ones, ours", "good ones, paper", "good ones, ours"],
        rows,
    );
    study.note(
        "Classes under Nested QoS: ⟨1, 100/s, 10 ms⟩ and ⟨6, 100/s, 100 ms⟩; pClock and WF2Q+ have the first.",
    );
    Ok(study)
}

pub(super) fn example_3(context: &Context) -> Result<Study, ExperimentError> {
    let single = least(context, "pclock")?;
    let nested = least(context, "nested")?;
    let at_100 = late(context, "nested", 100_000)?.good;
    let mut study = Study::default();
    let law = "One bound for all: capacity at which every good request takes 10 ms";
    study
        .check(Check::near(law, single, 700.0 / 3.0, 0.5, "IOPS"))
        .check(Check::at_most(
            "Graded, on a server that can be interrupted, as the thesis counts: half of that",
            graded()?,
            single / 2.0,
            "IOPS",
        ))
        .check(Check::at_most(
            "Graded, not interrupted, at any capacity from here on: less",
            nested,
            single - 1.0,
            "IOPS",
        ))
        .check(Check::that(
            "Graded, on 100 IOPS no good request is late",
            at_100 == 0,
            format!("{at_100} are late"),
        ));
    let rows = vec![
        vec!["one bound for all (7 requests in 30 ms)".to_owned(), "233".to_owned(), number(single)],
        vec!["graded, on a server that can be interrupted".to_owned(), "half".to_owned(), number(graded()?)],
        vec![
            "graded, not interrupted, at any capacity from here on".to_owned(),
            "–".to_owned(),
            number(nested),
        ],
    ];
    study.table("Capacity for the good requests, IOPS", &["", "paper", "ours"], rows);
    study.note(
        "The thesis says that the bad requests have doubled what is needed, so half of it is asked of the grades. It counts \
         requests and bounds only. Where a request in service is not interrupted, services end just when the good requests come on \
         exactly 100 IOPS, and none is late; at some capacities above that a bad one is in service then, and what it has left comes on top.",
    );
    Ok(study)
}

/// What example II needs under the grades of its scenario, on a server that can be interrupted; in IOPS.
fn graded() -> Result<f64, ExperimentError> {
    let bad = std::iter::repeat_n(0, 6);
    let at = bad.chain((20..90).step_by(20)).chain((100..1_000).step_by(10));
    let at: Vec<Time> = at.map(|ms| Time::from_nanos(ms * 1_000_000)).collect();
    let source = MemorySource::at(&at);
    let classes = vec![envelope(1, 100, 10)?, envelope(6, 100, 100)?];
    let flow = Flow { name: "c_a".to_owned(), source: &source, classes };
    Ok(exact_need(&[flow]).map_err(planned)?.as_f64())
}

/// Counts requests that take longer than [`BOUND`].
#[derive(Default)]
struct Late {
    good: u64,
    bad: u64,
}

impl Observer for Late {
    fn on_reply(&mut self, record: &Record, _outstanding: u32) {
        if record.latency() > BOUND {
            *(if BAD.contains(&record.request.id.0) { &mut self.bad } else { &mut self.good }) += 1;
        }
    }
}

/// Example II on a server of `millis` thousandths of an IOPS.
fn late(context: &Context, scheduler: &str, millis: u64) -> Result<Late, ExperimentError> {
    let rate = format!("rate = \"{}.{:03} IOPS\"", millis / 1_000, millis % 1_000);
    let text = EX_2.replacen("rate = \"100 IOPS\"", &rate, 1);
    let scenario = context.scenario("nested-ex2.toml", &text)?;
    let scenario = scenario
        .with_scheduler(scheduler)
        .ok_or_else(|| ExperimentError::Other(format!("there is no scheduler {scheduler}")))?;
    let mut late = Late::default();
    let options = run::Options { seed: scenario.seed, commit: None };
    run::run(&scenario, &options, Some(&mut late), &mut |_| {})?;
    Ok(late)
}

/// The capacity, to 1/1000 IOPS, from which on no good request is late, as far as steps of 5 IOPS show; in IOPS.
fn least(context: &Context, scheduler: &str) -> Result<f64, ExperimentError> {
    let is_kept = |millis: u64| Ok::<_, ExperimentError>(late(context, scheduler, millis)?.good == 0);
    let mut low = 500_000;
    while is_kept(low)? {
        low -= 5_000;
    }
    let mut high = low + 5_000;
    while low + 1 < high {
        let middle = low.midpoint(high);
        *(if is_kept(middle)? { &mut high } else { &mut low }) = middle;
    }
    Ok(high as f64 / 1e3)
}
