//! Sections 5.2 and 5.3: isolation and bursts on sixteen disks (figures 9 to 11).

use std::num::{NonZeroU32, NonZeroUsize};

use evenkeel_core::{Cost, Envelope, Rate, Record, Slo, Span};
use evenkeel_report::figure::{Lines, Series};
use evenkeel_sim::scenario::Scenario;
use evenkeel_sim::{Observer, Summary, run};

use super::examples::flow;
use super::machine::{ARRAY, Machine, latencies, latency_figure, scenario, throughput_figure};
use crate::study::{Figure, number};
use crate::work::in_parallel;
use crate::{Check, Context, ExperimentError, Study};

const FIG_9: &str = include_str!("../../../../experiments/pclock-fig9.toml");
const FIG_10: &str = include_str!("../../../../experiments/pclock-fig10.toml");
const FIG_11: &str = include_str!("../../../../experiments/pclock-fig11.toml");

pub(super) fn fig_9(context: &Context) -> Result<Study, ExperimentError> {
    let scenario = scenario(context, "pclock-fig9.toml", FIG_9)?;
    let mut study = Study { seeds: vec![scenario.seed], ..Study::default() };
    Machine::Array.describe(context, &mut study)?;
    let summary = context.run(&scenario, "pclock", scenario.seed)?;
    let longest = |name: &str| -> Result<f64, ExperimentError> {
        Ok(latencies(&summary, name)?.into_iter().filter(|it| it.is_finite()).fold(0.0, f64::max))
    };
    let first_late = |name: &str, bound: f64| -> Result<f64, ExperimentError> {
        let late = latencies(&summary, name)?.into_iter().position(|it| it > bound);
        Ok(late.map_or(f64::INFINITY, |index| index as f64 * summary.window_s))
    };
    let two = flow(&summary, "flow2")?;
    let late = 100.0 * two.missed as f64 / two.promised.max(1) as f64;
    let (late1, late3) = (first_late("flow1", 500.0)?, first_late("flow3", 200.0)?);
    study
        .check(Check::at_most(
            "Flow 2 misses no deadline on average: longest mean of a second",
            longest("flow2")?,
            300.0,
            "ms",
        ))
        .check(Check::at_most("Flow 2: late, of its requests within the envelope", late, 0.1, "%"))
        .check(Check::at_least(
            "Flow 1, which sends too much, is late: longest mean",
            longest("flow1")?,
            500.0,
            "ms",
        ))
        .check(Check::at_least(
            "Flow 3, which sends too much, is late: longest mean",
            longest("flow3")?,
            200.0,
            "ms",
        ))
        .check(Check::that(
            "Flow 3 is late before flow 1: it exceeds its rate by more",
            late3 < late1,
            format!("flow 3 from {} s on, flow 1 from {} s on", number(late3), number(late1)),
        ));
    summary_table(&mut study, &summary, &[("flow1", 500.0), ("flow2", 300.0), ("flow3", 200.0)])?;
    study.figures.push(latency_figure(&summary, "Mean latency")?);
    study.figures.push(throughput_figure(&summary, "Throughput")?);
    Ok(study)
}

pub(super) fn fig_10(context: &Context) -> Result<Study, ExperimentError> {
    let scenario = scenario(context, "pclock-fig10.toml", FIG_10)?;
    let mut study = Study { seeds: vec![scenario.seed], ..Study::default() };
    Machine::Array.describe(context, &mut study)?;
    let mut waits = Waits::default();
    let options = run::Options { seed: scenario.seed, commit: context.commit.as_deref() };
    let summary = run::run(&scenario, &options, Some(&mut waits), &mut |_| {})?;
    for name in ["flow2", "flow3"] {
        let longest = latencies(&summary, name)?.into_iter().filter(|it| it.is_finite()).fold(0.0, f64::max);
        let law = format!("{name} misses no deadline on average: longest mean of half a second");
        study.check(Check::at_most(law, longest, 200.0, "ms"));
    }
    let why =
        format!("{}. {}. The paper plots means", waits.reason(), with_half_the_depth(context, &scenario)?);
    for name in ["flow2", "flow3"] {
        let law = format!("{name}: late, of its requests within the envelope");
        study.check(Check::at_most(law, late_percent(&summary, name)?, 0.1, "%").because(&why));
    }
    let one = flow(&summary, "flow1")?;
    let beyond = 100.0 * (1.0 - one.within_latency.unwrap_or(1.0));
    study.check(Check::at_least(
        "flow1 pays for its spikes: later than 400 ms",
        beyond,
        10.0,
        "% of its requests",
    ));
    for (name, rate) in [("flow1", 650.0), ("flow2", 400.0), ("flow3", 330.0)] {
        study.check(Check::at_least(
            format!("{name}: throughput"),
            flow(&summary, name)?.served_iops,
            0.98 * rate,
            "IOPS",
        ));
    }
    summary_table(&mut study, &summary, &[("flow1", 400.0), ("flow2", 200.0), ("flow3", 200.0)])?;
    study.figures.push(latency_figure(&summary, "Mean latency")?);
    study.figures.push(throughput_figure(&summary, "Throughput")?);
    Ok(study)
}

/// Of the requests within the envelope of `name`, those that were late, in %.
fn late_percent(summary: &Summary, name: &str) -> Result<f64, ExperimentError> {
    let it = flow(summary, name)?;
    Ok(100.0 * it.missed as f64 / it.promised.max(1) as f64)
}

/// The same with half as many requests in the array: what that brings, and what it costs.
fn with_half_the_depth(context: &Context, full: &Scenario) -> Result<String, ExperimentError> {
    let halved = |scenario: &Scenario| {
        let depth = NonZeroU32::new(scenario.depth.get() / 2).unwrap_or(NonZeroU32::MIN);
        let mut halved = scenario.clone();
        halved.depth = depth;
        halved
    };
    let summary = context.run(&halved(full), "pclock", full.seed)?;
    let array = scenario(context, "pclock-array.toml", ARRAY)?;
    let able = context.run(&halved(&array), "fcfs", array.seed)?.served_iops;
    Ok(format!(
        "Fewer there are no way out: with {} outstanding {} and {} % of them are late, as the array then does {} IOPS and the flows send 1380",
        full.depth.get() / 2,
        number(late_percent(&summary, "flow2")?),
        number(late_percent(&summary, "flow3")?),
        number(able)
    ))
}

/// When requests of flows 2 and 3 are dispatched, and when they are over; both are promised 200 ms.
#[derive(Default)]
struct Waits {
    late: u64,
    late_when_dispatched: u64,
    /// The longest wait for dispatch, and the longest time in the array, in ms.
    longest: [f64; 2],
}

impl Waits {
    fn reason(&self) -> String {
        format!(
            "after its dispatch a request waits in its disk's queue, where no scheduler reaches it: of {} requests of flows 2 and 3 \
             that take more than 200 ms {} had waited longer than that for dispatch (the longest {} ms), and the array takes up to \
             {} ms. With 64 random requests on 16 disks some have 8 and more, and C-LOOK passes some by",
            self.late,
            self.late_when_dispatched,
            number(self.longest[0]),
            number(self.longest[1])
        )
    }
}

impl Observer for Waits {
    fn on_reply(&mut self, record: &Record, _outstanding: u32) {
        if record.request.flow.0 > 0 {
            let bound = Span::from_millis(200);
            let waited = record.dispatch.since(record.arrival);
            self.late += u64::from(record.latency() > bound);
            self.late_when_dispatched += u64::from(waited > bound);
            let there = record.completion.since(record.dispatch);
            for (longest, span) in self.longest.iter_mut().zip([waited, there]) {
                *longest = longest.max(span.as_secs_f64() * 1e3);
            }
        }
    }
}

pub(super) fn fig_11a(context: &Context) -> Result<Study, ExperimentError> {
    let bursts = [350_u64, 300, 250, 200, 150, 100, 50, 0];
    let scenarios: Vec<Scenario> = bursts
        .iter()
        .map(|&burst| {
            let mut scenario = scenario(context, "pclock-fig11.toml", FIG_11)?;
            let envelope =
                Envelope::new(Cost::requests(burst), Rate::per_second(750), Span::from_millis(300));
            let envelope = envelope.map_err(|error| ExperimentError::Other(error.to_string()))?;
            scenario.flows[0].slo = Slo::guaranteed(envelope);
            Ok(scenario)
        })
        .collect::<Result<_, ExperimentError>>()?;
    let mut study = Study::default();
    Machine::Array.describe(context, &mut study)?;
    let swept = sweep(context, &mut study, &scenarios, &bursts, "σ of flow 1")?;
    // The sweep goes down: flow 1 gets slower and flow 2 faster. A step may be off by 2 % of chance.
    let rises = |values: &[f64]| values.windows(2).all(|pair| pair[1] >= 0.98 * pair[0]);
    let one: Vec<f64> = swept.iter().map(|(one, _)| *one).collect();
    let two: Vec<f64> = swept.iter().map(|(_, two)| *two).rev().collect();
    let ends =
        |values: &[f64]| format!("from {} ms to {} ms", number(values[0]), number(values[values.len() - 1]));
    study
        .check(Check::that(
            "Flow 1 gets slower, step by step, as its burst parameter shrinks",
            rises(&one),
            ends(&one),
        ))
        .check(
            Check::that(
                "Flow 2 gets slower, step by step, as flow 1's burst parameter grows",
                rises(&two),
                ends(&two),
            )
            .because(&last_step(context, &scenarios[6..])?),
        )
        .check(Check::at_least(
            "Latency moves from one flow to the other: flow 1, σ = 0 over σ = 350",
            one[7] / one[0],
            1.1,
            "times",
        ))
        .check(Check::at_most(
            "Flow 2 never misses 500 ms: its longest mean",
            two.iter().copied().fold(0.0, f64::max),
            500.0,
            "ms",
        ));
    Ok(study)
}

pub(super) fn fig_11b(context: &Context) -> Result<Study, ExperimentError> {
    let spikes = [350_u64, 400, 450, 500, 550, 600, 650, 700, 750];
    let scenarios: Vec<Scenario> = spikes
        .iter()
        .map(|&spike| {
            // A request every 0.1 ms while on; the period keeps 750 IOPS.
            let (on, period) = (spike * 100, spike * 4000 / 3);
            let text = FIG_11
                .replace("75000 us", &format!("{on} us"))
                .replace("925000 us", &format!("{} us", period - on));
            scenario(context, "pclock-fig11.toml", &text)
        })
        .collect::<Result<_, ExperimentError>>()?;
    let mut study = Study::default();
    Machine::Array.describe(context, &mut study)?;
    let swept = sweep(context, &mut study, &scenarios, &spikes, "requests in a spike of flow 1")?;
    let rises = swept.windows(2).all(|pair| pair[1].0 >= 0.98 * pair[0].0);
    study
        .check(Check::at_most("Flow 1 meets 300 ms on average up to spikes of 450", swept[2].0, 300.0, "ms"))
        .check(Check::that(
            "Flow 1's mean latency grows with its spikes",
            rises,
            format!("from {} ms to {} ms", number(swept[0].0), number(swept[8].0)),
        ))
        .check(Check::at_most(
            "Flow 2 never misses 500 ms: its longest mean",
            swept.iter().map(|(_, two)| *two).fold(0.0, f64::max),
            500.0,
            "ms",
        ));
    let law = "Flow 1's mean latency with spikes of 750 is the paper's";
    let check = Check::within_percent(law, swept[8].0, 350.0, 10.0, "ms");
    study.check(check.because(&at_other_capacities(context)?));
    Ok(study)
}

/// Flow 2's latency in the last two steps of figure 11(a), with other seeds.
fn last_step(context: &Context, scenarios: &[Scenario]) -> Result<String, ExperimentError> {
    let mut found = Vec::new();
    for seed in [1, 2, 3] {
        let mean = |scenario: &Scenario| {
            let summary = context.run(scenario, "pclock", seed)?;
            Ok::<_, ExperimentError>(number(flow(&summary, "flow2")?.latency.latency_mean_us / 1e3))
        };
        found.push(scenarios.iter().map(mean).collect::<Result<Vec<_>, _>>()?.join(" to "));
    }
    Ok(format!(
        "The two flows send 1500 requests per second to an array of about 1500, where what waits in a run of 60 s is a matter of \
         chance. With the seeds 1, 2 and 3 the last step of flow 2, σ = 50 to σ = 0, is from {} ms",
        found.join(", from ")
    ))
}

/// Flow 1's latency with spikes of 750 on an array that is a little faster or slower.
fn at_other_capacities(context: &Context) -> Result<String, ExperimentError> {
    let mut found = Vec::new();
    for size in ["11 KiB", "12 KiB"] {
        let sized = |text: &str| text.replace("11776 B", size);
        let capacity = Machine::Array.capacity(context, &sized(ARRAY))?;
        let scenario = scenario(context, "pclock-fig11.toml", &sized(FIG_11))?;
        let summary = context.run(&scenario, "pclock", scenario.seed)?;
        let mean = flow(&summary, "flow1")?.latency.latency_mean_us / 1e3;
        found.push(format!("{} ms on {} IOPS", number(mean), number(capacity)));
    }
    Ok(format!(
        "The two flows send 1500 requests per second to an array of \"around 1500\", and there the mean hangs on the last percent of \
         capacity: with requests of 11 and of 12 KiB it is {}",
        found.join(" and ")
    ))
}

/// Runs the scenarios under pClock: the mean latency of both flows in each, in ms, as a table and a figure.
fn sweep(
    context: &Context,
    study: &mut Study,
    scenarios: &[Scenario],
    values: &[u64],
    what: &str,
) -> Result<Vec<(f64, f64)>, ExperimentError> {
    study.seeds = scenarios.first().map(|scenario| vec![scenario.seed]).unwrap_or_default();
    let runs = in_parallel(scenarios, NonZeroUsize::MIN, |scenario| {
        let summary = context.run(scenario, "pclock", scenario.seed)?;
        let mean = |name| Ok::<f64, ExperimentError>(flow(&summary, name)?.latency.latency_mean_us / 1e3);
        Ok((mean("flow1")?, mean("flow2")?))
    });
    let found: Vec<(f64, f64)> = runs.into_iter().collect::<Result<_, ExperimentError>>()?;
    let rows = values.iter().zip(&found);
    let rows = rows.map(|(value, (one, two))| vec![value.to_string(), number(*one), number(*two)]).collect();
    study.table("Mean latency, ms", &[what, "flow 1 (bound 300)", "flow 2 (bound 500)"], rows);
    let series = |name: &str, pick: fn(&(f64, f64)) -> f64| Series {
        name: name.to_owned(),
        points: {
            let mut points: Vec<(f64, f64)> =
                values.iter().zip(&found).map(|(value, both)| (*value as f64, pick(both))).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            points
        },
    };
    let lines = Lines {
        title: "Mean latency".to_owned(),
        x: what.to_owned(),
        y: "mean latency, ms".to_owned(),
        series: vec![series("flow 1", |both| both.0), series("flow 2", |both| both.1)],
        marks: vec![("bound of flow 1".to_owned(), 300.0, 0), ("bound of flow 2".to_owned(), 500.0, 1)],
        log_x: false,
        log_y: false,
    };
    study.figures.push(Figure { title: lines.title.clone(), svg: lines.svg()? });
    Ok(found)
}

fn summary_table(study: &mut Study, summary: &Summary, flows: &[(&str, f64)]) -> Result<(), ExperimentError> {
    let rows: Result<Vec<Vec<String>>, ExperimentError> = flows
        .iter()
        .map(|(name, bound)| {
            let it = flow(summary, name)?;
            Ok(vec![
                (*name).to_owned(),
                number(it.served_iops),
                number(*bound),
                number(it.latency.latency_mean_us / 1e3),
                number(it.latency.latency_p99_us / 1e3),
                number(100.0 * it.missed as f64 / it.promised.max(1) as f64),
            ])
        })
        .collect();
    let heads = ["flow", "IOPS", "bound, ms", "mean, ms", "p99, ms", "late within the envelope, %"];
    study.table("Throughput and latency", &heads, rows?);
    Ok(())
}
