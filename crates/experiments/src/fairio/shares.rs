//! Figures 3 and 4: shares of throughput and disk time, and what they cost.

use evenkeel_report::Bars;

use super::run::{BENCHMARKS, Outcome, SEED, largest, run};
use crate::study::{Figure, number};
use crate::{Check, Context, ExperimentError, Study};

const WEIGHTS: [u32; 4] = [3, 4, 5, 6];
const WIDE: [u32; 4] = [1, 4, 8, 16];
/// The largest error of throughput in points, by benchmark: figure 3 and section IV.
const PAPER_ERRORS: [&str; 6] = ["< 0.5", "< 2", "6.93", "< 1.5", "< 4.5", "9.95"];
/// What must hold of it.
const BOUNDS: [f64; 6] = [0.5, 10.0, 10.0, 1.5, 4.5, 10.0];
/// What FAIRIO changes about aggregate throughput, in percent: figure 4 and section IV.
const PAPER_GAINS: [&str; 6] = ["+0.6", "above −3.3", "−3.3", "+2.98", "+0.82", "+14.49"];
/// IOR3 and MADbench2 in [`BENCHMARKS`].
const MIXED: usize = 5;
const MADBENCH: usize = 2;
const MIB: f64 = 1e6;

/// Why MADbench2's classes miss their shares.
const MODEST: &str = "the classes do not ask for their shares (condition 1 of section III-E): each gets all that it asks for, see below";
/// What is known where a share is missed otherwise.
const DEPTH: &str = "not explained so far; varmail at a dispatch depth of 128 is within 0.07 points";
/// Why throughput falls, if it does.
const SHORTER_QUEUE: &str = "once the credits of a cycle are used up FAIRIO keeps about the load threshold of 16 requests at the array \
     until the next cycle; without it more are there, and SSTF has more to choose from (see the mean numbers of requests at the array)";

/// Why it falls where the queue is no shorter.
const UNEXPLAINED: &str = "not explained so far: as many requests are at the array with FAIRIO as without it; the shares of disk time are kept";

pub(super) fn figure_3(context: &Context) -> Result<Study, ExperimentError> {
    let mut study = new_study();
    let mut outcomes = Vec::new();
    for (number, benchmark) in BENCHMARKS.iter().enumerate() {
        let outcome = run(context, benchmark, WEIGHTS, true)?;
        let error = largest(outcome.errors(WEIGHTS));
        let law = format!("{}: each class within {} points of its share", benchmark.name, BOUNDS[number]);
        let why = if number == MADBENCH { MODEST } else { DEPTH };
        study.check(Check::at_most(law, error, BOUNDS[number], "points").because(why));
        outcomes.push(outcome);
    }
    let disk = largest(outcomes[MIXED].disk_errors(WEIGHTS));
    study.check(Check::at_most(
        "IOR3: disk time of each class within 1.5 points of its share",
        disk,
        1.5,
        "points",
    ));
    explain_madbench(&mut study, &outcomes[MADBENCH]);
    let rows = BENCHMARKS.iter().zip(&outcomes).zip(PAPER_ERRORS).map(|((benchmark, outcome), paper)| {
        let errors = outcome.errors(WEIGHTS);
        let mut row = vec![benchmark.name.to_owned(), paper.to_owned(), number(largest(errors))];
        row.extend(errors.map(number));
        row.push(number(largest(outcome.disk_errors(WEIGHTS))));
        row
    });
    study.table(
        "Error of throughput shares, points",
        &[
            "benchmark",
            "largest, paper",
            "largest, ours",
            "class 1",
            "class 2",
            "class 3",
            "class 4",
            "largest of disk time, ours",
        ],
        rows.collect(),
    );
    let bars = Bars {
        title: "Size of the error of each class, points".to_owned(),
        y: "|error|, points".to_owned(),
        groups: BENCHMARKS.iter().map(|benchmark| benchmark.name.to_owned()).collect(),
        series: (0..4)
            .map(|class| {
                let sizes = outcomes.iter().map(|outcome| outcome.errors(WEIGHTS)[class].abs());
                (format!("class {}", class + 1), sizes.collect())
            })
            .collect(),
    };
    study.figures.push(Figure { title: bars.title.clone(), svg: bars.svg()? });
    Ok(study)
}

/// Classes that ask for less than their share cannot get it: condition 1 of section III-E.
fn explain_madbench(study: &mut Study, outcome: &Outcome) {
    let total = outcome.total();
    let rows = (0..4).map(|class| {
        let share = f64::from(WEIGHTS[class]) / 18.0 * total;
        vec![
            format!("class {}", class + 1),
            number(outcome.demand[class] / MIB),
            number(share / MIB),
            number(outcome.throughput[class] / MIB),
        ]
    });
    study.table("MADbench2, MB/s", &["", "asked for", "share by weight", "got"], rows.collect());
    // Whoever asks for less than its share gets what it asks for, and leaves the rest to the others.
    let modest = (0..4).filter(|class| outcome.demand[*class] < f64::from(WEIGHTS[*class]) / 18.0 * total);
    let (mut worst, mut count) = (1.0_f64, 0);
    for class in modest {
        worst = worst.min(outcome.throughput[class] / outcome.demand[class]);
        count += 1;
    }
    study.check(Check::at_least(
        "MADbench2: classes that ask for less than their share",
        f64::from(count),
        1.0,
        "",
    ));
    study.check(Check::at_least("MADbench2: what those get of what they ask for", 100.0 * worst, 90.0, "%"));
}

pub(super) fn figure_4(context: &Context) -> Result<Study, ExperimentError> {
    let mut study = new_study();
    let (mut pairs, mut queues) = (Vec::new(), Vec::new());
    for benchmark in &BENCHMARKS {
        let with = run(context, benchmark, WEIGHTS, true)?;
        let without = run(context, benchmark, WEIGHTS, false)?;
        let change = 100.0 * (with.total() / without.total() - 1.0);
        let is_shorter = with.outstanding < 0.9 * without.outstanding;
        let why = if is_shorter { SHORTER_QUEUE } else { UNEXPLAINED };
        study.check(
            Check::at_least(
                format!("{}: FAIRIO changes aggregate throughput by at least −3.5 %", benchmark.name),
                change,
                -3.5,
                "%",
            )
            .because(why),
        );
        pairs.push((with.total(), without.total()));
        queues.push((with.outstanding, without.outstanding));
    }
    let (with, without) = pairs[MIXED];
    study.check(
        Check::at_least(
            "IOR3, where access patterns differ: a gain",
            100.0 * (with / without - 1.0),
            0.0,
            "%",
        )
        .because(UNEXPLAINED),
    );
    let rows = BENCHMARKS.iter().zip(&pairs).zip(&queues).zip(PAPER_GAINS).map(
        |(((benchmark, (with, without)), queue), paper)| {
            let change = 100.0 * (with / without - 1.0);
            vec![
                benchmark.name.to_owned(),
                number(without / MIB),
                number(with / MIB),
                paper.to_owned(),
                format!("{change:+.2}"),
                number(queue.1),
                number(queue.0),
            ]
        },
    );
    study.table(
        "Aggregate throughput, MB/s",
        &[
            "benchmark",
            "FCFS, ours",
            "FAIRIO, ours",
            "change in %, paper",
            "change in %, ours",
            "requests at the array, FCFS",
            "FAIRIO",
        ],
        rows.collect(),
    );
    let bars = Bars {
        title: "Aggregate throughput".to_owned(),
        y: "MB/s".to_owned(),
        groups: BENCHMARKS.iter().map(|benchmark| benchmark.name.to_owned()).collect(),
        series: vec![
            ("without FAIRIO".to_owned(), pairs.iter().map(|pair| pair.1 / MIB).collect()),
            ("with FAIRIO".to_owned(), pairs.iter().map(|pair| pair.0 / MIB).collect()),
        ],
    };
    study.figures.push(Figure { title: bars.title.clone(), svg: bars.svg()? });
    Ok(study)
}

pub(super) fn wide_weights(context: &Context) -> Result<Study, ExperimentError> {
    let mut study = new_study();
    let outcome = run(context, &BENCHMARKS[0], WIDE, true)?;
    let without = run(context, &BENCHMARKS[0], WIDE, false)?;
    let errors = outcome.errors(WIDE);
    study.check(Check::at_most("each class within 1.7 points of its share", largest(errors), 1.7, "points"));
    let change = 100.0 * (outcome.total() / without.total() - 1.0);
    study.check(Check::at_least(
        "no degradation of aggregate throughput (as in figure 4)",
        change,
        -3.5,
        "%",
    ));
    let rows = (0..4).map(|class| {
        let ideal = 100.0 * f64::from(WIDE[class]) / 29.0;
        vec![
            WIDE[class].to_string(),
            number(ideal),
            number(ideal + errors[class]),
            "within 1.7".to_owned(),
            number(errors[class]),
        ]
    });
    study.table(
        "Shares of throughput, %",
        &["weight", "ideal", "ours", "error in points, paper", "error in points, ours"],
        rows.collect(),
    );
    let bars = Bars {
        title: "varmail, weights 1:4:8:16".to_owned(),
        y: "share of throughput, %".to_owned(),
        groups: WIDE.iter().map(u32::to_string).collect(),
        series: vec![
            ("ideal".to_owned(), WIDE.iter().map(|weight| 100.0 * f64::from(*weight) / 29.0).collect()),
            ("ours".to_owned(), (0..4).map(|it| 100.0 * f64::from(WIDE[it]) / 29.0 + errors[it]).collect()),
        ],
    };
    study.figures.push(Figure { title: bars.title.clone(), svg: bars.svg()? });
    Ok(study)
}

fn new_study() -> Study {
    let mut study = Study { seeds: vec![SEED], ..Study::default() };
    study
        .note("Workloads: generators with the parameters of table II, in the place of the authors' traces; all requests are there from the start, but for MADbench2, whose classes ask for the same shares of what the array can do as in section IV-C.")
        .note("Stripe unit 8 KiB: the paper gives none; its disk time per byte (1.14 us, 75 ms for 64 KiB of random writes) says that a request occupies all eight disks.")
        .note("The drives' queues take what comes; the dispatch depth stands for the paper's queues of 16: 16 requests of 64 KiB, each a command for all eight disks, or 91 of varmail's, which are 1.4 commands. It was chosen after runs at a depth of 128, where throughput suffered more and varmail's share was closer.")
        .note("220 cycles, the first 20 of which are left out: that is one window of observation.");
    study
}
