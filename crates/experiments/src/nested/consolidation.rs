//! Section 4.4: several workloads on one server, at growing capacity (figure 4.9).

use evenkeel_core::{Envelope, Rate, Record, Span};
use evenkeel_plan::{Flow, Fraction, MemorySource, SchedulerKind, Served, Target, fit};
use evenkeel_report::figure::{Lines, Series};
use evenkeel_trace::generate::Personality;

use super::loads::{CASCADE, STAND_INS, generated, planned, run};
use crate::study::{Figure, number};
use crate::{Check, Context, ExperimentError, Study};

const SECONDS: u64 = 65;
const CAPACITIES: [u64; 9] = [2_000, 2_500, 3_000, 3_500, 4_000, 4_500, 5_000, 5_500, 6_000];
const CONTENDERS: [SchedulerKind; 3] =
    [SchedulerKind::Nested, SchedulerKind::PClock, SchedulerKind::Wf2qPlus];
/// The capacity at which the thesis has 90 % in time, for [`CONTENDERS`].
const PAPER_90: [f64; 3] = [2_500.0, 3_500.0, 4_000.0];
/// Personality, mean rate, bound in ms, seed.
type Load = (Personality, f64, u64, u64);
const SIMILAR: &[Load] = &[(Personality::Exchange, 910.0, 50, 1), (Personality::Exchange, 910.0, 100, 2)];
const DISSIMILAR: &[Load] = &[
    (Personality::Exchange, 910.0, 50, 1),
    (Personality::Exchange, 910.0, 50, 2),
    (Personality::WebSearch, 330.0, 100, 3),
    (Personality::WebSearch, 330.0, 100, 4),
    (Personality::Financial, 100.0, 200, 5),
];

pub(super) fn fig_4_9(_context: &Context) -> Result<Study, ExperimentError> {
    let mut study = Study { seeds: vec![1, 2, 3, 4, 5], ..Study::default() };
    for (what, loads) in [("similar", SIMILAR), ("dissimilar", DISSIMILAR)] {
        let sources = loads
            .iter()
            .map(|(personality, iops, _, seed)| generated(*personality, *iops, *seed, SECONDS))
            .collect::<Result<Vec<_>, _>>()?;
        let flows = flows(loads, &sources)?;
        let mut curves: [Vec<f64>; 3] = Default::default();
        let mut reasons = Vec::new();
        for capacity in CAPACITIES {
            let mut cells = vec![capacity.to_string()];
            for (curve, contender) in curves.iter_mut().zip(CONTENDERS) {
                let mut late = Late::default();
                let served = run(&flows, contender, Rate::per_second(capacity), &mut |record| {
                    late.count(record, &flows, capacity);
                })?;
                let all: u64 = served.iter().map(|it| it.requests).sum();
                let within: u64 = served.iter().map(|it| it.within[0]).sum();
                curve.push(100.0 * within as f64 / all.max(1) as f64);
                cells.push(match contender {
                    SchedulerKind::Nested => number(late.outer_percent()),
                    _ => by_flow(&served),
                });
            }
            reasons.push(cells);
        }
        study.table(
            &format!("Who is late, {what} workloads"),
            &[
                "capacity, IOPS",
                "Nested QoS: of what is late, beyond the innermost class, %",
                "pClock: in time of each workload, %",
                "WF2Q+: in time of each workload, %",
            ],
            reasons,
        );
        judge(&mut study, what, &curves);
        let rows = CAPACITIES.iter().enumerate().map(|(index, capacity)| {
            [vec![capacity.to_string()], curves.iter().map(|curve| number(curve[index])).collect()].concat()
        });
        study.table(
            &format!("In time, % of all requests, {what} workloads"),
            &["capacity, IOPS", "Nested QoS", "pClock", "WF2Q+"],
            rows.collect(),
        );
        let series = CONTENDERS.iter().zip(&curves).map(|(contender, curve)| Series {
            name: contender.name().to_owned(),
            points: CAPACITIES.iter().map(|it| *it as f64).zip(curve.iter().copied()).collect(),
        });
        let lines = Lines {
            title: format!("In time, {what} workloads"),
            x: "capacity, IOPS".to_owned(),
            y: "in time, %".to_owned(),
            series: series.collect(),
            marks: Vec::new(),
            log_x: false,
            log_y: false,
        };
        study.figures.push(Figure { title: lines.title.clone(), svg: lines.svg()? });
    }
    notes(&mut study);
    Ok(study)
}

fn notes(study: &mut Study) {
    study.note(
        "Classes are fitted to each workload: 90 % within δ, 95 % within 10 δ, 100 % within 100 δ; pClock and WF2Q+ have \
         the innermost. In time means within δ, whatever the class, and one service time.",
    );
    study.note(
        "At 2000 IOPS the thesis has 80, 40 and 22 % in time for similar workloads; of dissimilar ones it gives no numbers but \
         \"similar performance\".",
    );
    study.note(STAND_INS);
    study.note(CASCADE);
}

/// What is not within the innermost class's bound and a service time.
#[derive(Default)]
struct Late {
    all: u64,
    /// Requests that the innermost class did not admit.
    outer: u64,
}

impl Late {
    fn count(&mut self, record: &Record, flows: &[Flow<'_>], capacity: u64) {
        let Some(bound) = flows[record.request.flow.0 as usize].classes.first().map(Envelope::latency) else {
            return;
        };
        if record.latency().as_nanos() > bound.as_nanos() + 1_000_000_000 / capacity {
            self.all += 1;
            self.outer += u64::from(record.class != Some(0));
        }
    }

    /// `NaN` if nothing is late.
    fn outer_percent(&self) -> f64 {
        100.0 * self.outer as f64 / self.all as f64
    }
}

/// The share in time of each workload.
fn by_flow(served: &[Served]) -> String {
    let share = |it: &Served| number(100.0 * it.within[0] as f64 / it.requests.max(1) as f64);
    served.iter().map(share).collect::<Vec<_>>().join(", ")
}

/// The order of the three, and where 90 % are in time.
fn judge(study: &mut Study, what: &str, curves: &[Vec<f64>; 3]) {
    let needs = [0, 1, 2].map(|index: usize| reaches(&curves[index], 90.0));
    for (better, worse, names) in [(0, 1, "pClock than Nested QoS"), (1, 2, "WF2Q+ than pClock")] {
        let law = format!("{what}: for 90 % in time, {names} needs more, by");
        study.check(Check::at_least(law, needs[worse] - needs[better], 0.0, "IOPS"));
    }
    for (better, worse) in [(0, 1), (1, 2)] {
        let names = [CONTENDERS[better].name(), CONTENDERS[worse].name()];
        let behind = (0..CAPACITIES.len()).filter(|at| curves[better][*at] < curves[worse][*at]);
        let behind: Vec<String> = behind
            .map(|at| {
                let points = curves[worse][at] - curves[better][at];
                format!("{} points at {} IOPS", number(points), CAPACITIES[at])
            })
            .collect();
        let found = if behind.is_empty() {
            "at all of them".to_owned()
        } else {
            format!("behind by {}", behind.join(", "))
        };
        let law =
            format!("{what}: {} has at least as much in time as {} at each capacity", names[0], names[1]);
        study.check(Check::that(law, behind.is_empty(), found).because(ORDER));
    }
    let mut row = Vec::new();
    for ((curve, paper), contender) in curves.iter().zip(PAPER_90).zip(CONTENDERS) {
        let found = reaches(curve, 90.0);
        let is_similar = what == "similar";
        let printed = if is_similar { number(paper) } else { "similar".to_owned() };
        row.push(vec![contender.name().to_owned(), printed, number(found)]);
        if is_similar {
            let law = format!("{what}: {} has 90 % in time at", contender.name());
            study.check(Check::within_percent(law, found, paper, 20.0, "IOPS").because(TRACES));
        }
    }
    study.table(
        &format!("Capacity at which 90 % are in time, IOPS, {what} workloads"),
        &["scheduler", "paper", "ours"],
        row,
    );
}

/// Where the order is another one.
const ORDER: &str = "Where the envelopes do not fit, earliest deadline first works off what is late before what could still be in time, so all \
     workloads are late together, and WF2Q+, which keeps the small ones apart, may have more in time. Where nearly everything is in \
     time, Nested QoS is a point behind: all that is late is what it put into an outer class, which may take ten times as long and \
     does. The table \"Who is late\" shows both";
const TRACES: &str = "The capacity is a property of the trace; the stand-in has the mean rate of the thesis's Exchange trace, not its bursts";

/// Where the curve reaches `percent`, by straight lines between its points; the last capacity if it does not.
fn reaches(curve: &[f64], percent: f64) -> f64 {
    let points: Vec<(f64, f64)> = CAPACITIES.iter().map(|it| *it as f64).zip(curve.iter().copied()).collect();
    if points[0].1 >= percent {
        return points[0].0;
    }
    let step = points.windows(2).find(|pair| pair[1].1 >= percent);
    step.map_or(f64::INFINITY, |pair| {
        pair[0].0 + (percent - pair[0].1) / (pair[1].1 - pair[0].1) * (pair[1].0 - pair[0].0)
    })
}

fn flows<'s>(loads: &[Load], sources: &'s [MemorySource]) -> Result<Vec<Flow<'s>>, ExperimentError> {
    let mut flows = Vec::new();
    for ((personality, _, bound, _), source) in loads.iter().zip(sources) {
        let targets = [(900_000, 1), (950_000, 10), (1_000_000, 100)].map(|(part, times)| Target {
            fraction: Fraction::from_millionths(part).unwrap_or(Fraction::ALL),
            latency: Span::from_millis(times * bound),
        });
        let fitted = fit(source, &targets, &mut |_| {}).map_err(planned)?;
        flows.push(Flow { name: personality.name().to_owned(), source, classes: fitted.classes });
    }
    Ok(flows)
}
