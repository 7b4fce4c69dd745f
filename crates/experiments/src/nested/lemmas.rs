//! Lemmas 1 to 3: what suffices by the bounds, against the least capacity that the worst traffic found needs.

use evenkeel_core::{Cascade, Cost, Envelope, Rate, Span, Time};
use evenkeel_plan::{Flow, MemorySource, bounds, exact_need};
use evenkeel_report::figure::{Lines, Series};
use rand_core::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64;

use super::loads::planned;
use crate::study::{Figure, number};
use crate::{Check, Context, ExperimentError, Study};

const SEED: u64 = 1;
/// Random sets of parameters for each lemma.
const SETS: usize = 30;
/// Each set is tried with traffic that uses its buckets up at once and with that many random ones.
const RANDOM_TRACES: usize = 2;
const RUN_MS: u64 = 600;

/// The bound and the need of one set of parameters, in IOPS.
struct Pair {
    bound: f64,
    need: f64,
}

pub(super) fn lemmas(_context: &Context) -> Result<Study, ExperimentError> {
    let mut random = Pcg64::seed_from_u64(SEED);
    let mut study = Study { seeds: vec![SEED], ..Study::default() };
    let (mut rows, mut series) = (Vec::new(), Vec::new());
    for (name, flows, equal) in [("lemma 1", 1, false), ("lemma 2", 1, true), ("lemma 3", 3, false)] {
        let mut pairs = Vec::new();
        for _ in 0..SETS {
            let flows: Vec<Vec<Envelope>> =
                (0..flows).map(|_| classes(&mut random, equal)).collect::<Result<_, _>>()?;
            pairs.push(compare(&mut random, &flows, equal)?);
        }
        let ratios: Vec<f64> = pairs.iter().map(|pair| pair.bound / pair.need).collect();
        let least = pairs.iter().map(|pair| pair.bound - pair.need).fold(f64::INFINITY, f64::min);
        let law = format!("{name}: bound less need, the least of {SETS} sets");
        study.check(Check::at_least(law, least, 0.0, "IOPS"));
        let (low, high) =
            ratios.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), it| (low.min(*it), high.max(*it)));
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        rows.push(vec![name.to_owned(), SETS.to_string(), number(low), number(mean), number(high)]);
        let mut points: Vec<(f64, f64)> = pairs.iter().map(|pair| (pair.need, pair.bound)).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        series.push(Series { name: name.to_owned(), points });
    }
    study.table("Bound over need", &["", "sets", "least", "mean", "largest"], rows);
    let lines = Lines {
        title: "Bound against need".to_owned(),
        x: "least capacity that meets every deadline, IOPS".to_owned(),
        y: "bound, IOPS".to_owned(),
        series,
        marks: Vec::new(),
        log_x: true,
        log_y: true,
    };
    study.figures.push(Figure { title: lines.title.clone(), svg: lines.svg()? });
    study.note(
        "The need is found by bisection over earliest deadline first on a server that can be interrupted, as in the \
         lemmas. Traffic: every token is used as soon as it is there, all flows at once; and random bursts. Lemma 2 \
         is lemma 1 with equal rates.",
    );
    Ok(study)
}

/// One to four classes, each no stricter than the one before.
fn classes(random: &mut Pcg64, equal_rates: bool) -> Result<Vec<Envelope>, ExperimentError> {
    let mut classes = Vec::new();
    let count = 1 + below(random, 4);
    let (mut burst, mut rate, mut latency) =
        (1 + below(random, 30), 20 + below(random, 400), 5 + below(random, 60));
    for _ in 0..count {
        let made = Envelope::new(Cost::requests(burst), Rate::per_second(rate), Span::from_millis(latency));
        classes.push(made.map_err(|error| ExperimentError::Other(error.to_string()))?);
        burst += below(random, 60);
        rate += if equal_rates { 0 } else { below(random, 100) };
        latency += 1 + below(random, 200);
    }
    Ok(classes)
}

/// The bound of these flows, and the largest need of any traffic tried.
fn compare(random: &mut Pcg64, flows: &[Vec<Envelope>], equal: bool) -> Result<Pair, ExperimentError> {
    let slices: Vec<&[Envelope]> = flows.iter().map(Vec::as_slice).collect();
    let found = bounds(&slices);
    let bound = match found.alone_equal_rates.first() {
        Some(Some(rate)) if equal => *rate,
        _ if flows.len() == 1 => found.alone[0],
        _ => found.together.capacity,
    };
    let mut need = 0.0_f64;
    for trace in 0..=RANDOM_TRACES {
        let sources: Vec<MemorySource> = flows
            .iter()
            .map(|classes| {
                MemorySource::at(&if trace == 0 { greedy(classes) } else { bursty(random, classes) })
            })
            .collect();
        let flows: Vec<Flow<'_>> = flows
            .iter()
            .zip(&sources)
            .map(|(classes, source)| Flow { name: "f".to_owned(), source, classes: classes.clone() })
            .collect();
        need = need.max(exact_need(&flows).map_err(planned)?.as_f64());
    }
    Ok(Pair { bound: bound.as_f64(), need })
}

/// Every token as soon as it is there: at each millisecond as many requests as the outermost bucket takes.
fn greedy(classes: &[Envelope]) -> Vec<Time> {
    let mut cascade = Cascade::new(Time::ZERO, classes);
    let mut at = Vec::new();
    for now in (0..RUN_MS).map(|ms| Time::from_nanos(ms * 1_000_000)) {
        while cascade.classify(now, Cost::ONE).is_some() {
            at.push(now);
        }
    }
    at
}

/// Bursts of random sizes at random instants, above and below the envelope.
fn bursty(random: &mut Pcg64, classes: &[Envelope]) -> Vec<Time> {
    let largest = classes.last().map_or(1, |class| class.burst().as_millis() / 1_000);
    let (mut now, mut at) = (0, Vec::new());
    while now < RUN_MS * 1_000_000 {
        let size = 1 + below(random, largest + 1);
        at.extend((0..size).map(|_| Time::from_nanos(now)));
        now += 1 + below(random, 100_000_000);
    }
    at
}

/// From 0 to below `bound`, which is above 0.
fn below(random: &mut Pcg64, bound: u64) -> u64 {
    ((u128::from(random.next_u64()) * u128::from(bound)) >> 64) as u64
}
