//! Graduated classes on a drive that stops to collect garbage.

use evenkeel_core::{Operation, Record, Span};
use evenkeel_sim::summary::FlowSummary;
use evenkeel_sim::{Observer, Summary, run as sim};

use crate::study::{Figure, number};
use crate::{Check, Context, ExperimentError, Study};

const TEXT: &str = include_str!("../../../../experiments/nested-flash-gc.toml");
const SCHEDULERS: [&str; 4] = ["nested", "pclock", "wf2q+", "fcfs"];

pub(super) fn run(context: &Context) -> Result<Study, ExperimentError> {
    let scenario = context.scenario("nested-flash-gc.toml", TEXT)?;
    let mut study = Study { seeds: vec![scenario.seed], ..Study::default() };
    let mut rows = Vec::new();
    let mut within = Vec::new();
    for scheduler in SCHEDULERS {
        let summary = context.run(&scenario, scheduler, scenario.seed)?;
        let reader = reader(&summary)?;
        let kept = 100.0 * reader.within_latency.unwrap_or(f64::NAN);
        within.push(kept);
        let mut row = vec![scheduler.to_owned(), number(summary.served_iops), number(kept)];
        row.extend(reader.classes.iter().map(|class| match class.bound_us {
            Some(_) => format!("{} of {}", class.missed, class.served),
            None => format!("{}", class.served),
        }));
        row.push(number(reader.latency.latency_p99_us / 1e3));
        rows.push(row);
        if scheduler == "nested" {
            for (class, name, bound) in [(0, "innermost", "50 ms"), (1, "second", "200 ms")] {
                let law = format!("nested: requests of the {name} class that miss {bound}");
                study.check(Check::at_most(law, percent(reader, class), 1.0, "%"));
            }
        }
        if scheduler != "wf2q+" {
            for (title, svg) in [
                (
                    format!("Requests per class under {scheduler}"),
                    evenkeel_report::simulation::classes(&summary).svg()?,
                ),
                (
                    format!("Latency under {scheduler}"),
                    evenkeel_report::simulation::latency_cdf(&summary).svg()?,
                ),
            ] {
                study.figures.push(Figure { title, svg });
            }
        }
    }
    for (index, other) in [(1, "pClock"), (2, "WF2Q+"), (3, "FCFS")] {
        study.check(Check::at_least(
            format!("nested answers at least as large a share within 50 ms as {other}"),
            within[0],
            within[index],
            "%",
        ));
    }
    study.table(
        "The reader",
        &[
            "scheduler",
            "all flows, IOPS",
            "within 50 ms, %",
            "class 1: missed",
            "class 2: missed",
            "class 3: missed",
            "outside",
            "p99, ms",
        ],
        rows,
    );
    smaller_drive(context, &mut study)?;
    study.note(
        "The drive works on one access at a time and has no spare time: writers keep it collecting. A collection copies the \
         valid pages of a block and erases it within the write that needs the room, and that write is not interrupted.",
    );
    Ok(study)
}

/// The same promises, tighter, on a drive with less to spare whose copies pass the channel.
fn smaller_drive(context: &Context, study: &mut Study) -> Result<(), ExperimentError> {
    let text = TEXT
        .replace("blocks_per_die = 2730", "blocks_per_die = 2280")
        .replace("copyback = true\n", "")
        .replace("latency = \"50 ms\"", "latency = \"20 ms\"")
        .replace("latency = \"200 ms\"", "latency = \"100 ms\"");
    let scenario = context.scenario("nested-flash-gc.toml", &text)?;
    let mut writes = Writes::default();
    let options = sim::Options { seed: scenario.seed, commit: context.commit.as_deref() };
    let summary = sim::run(&scenario, &options, Some(&mut writes), &mut |_| {})?;
    let reader = reader(&summary)?;
    for (class, name, bound) in [(0, "innermost", "20 ms"), (1, "second", "100 ms")] {
        let law =
            format!("nested, drive with a tenth to spare: requests of the {name} class that miss {bound}");
        study.check(Check::at_most(law, percent(reader, class), 1.0, "%").because(&writes.reason()));
    }
    Ok(())
}

/// How long writes keep the drive, which works on one access at a time.
#[derive(Default)]
struct Writes {
    count: u64,
    long: u64,
    total: Span,
    longest: Span,
}

impl Writes {
    fn reason(&self) -> String {
        format!(
            "no scheduler can keep that: a write that has to collect a block keeps this drive for up to {} ms ({} ms on average, and {} % of \
             writes take more than 20 ms), and is not interrupted when a read comes",
            number(self.longest.as_secs_f64() * 1e3),
            number(self.total.as_secs_f64() * 1e3 / self.count.max(1) as f64),
            number(100.0 * self.long as f64 / self.count.max(1) as f64)
        )
    }
}

impl Observer for Writes {
    fn on_reply(&mut self, record: &Record, _outstanding: u32) {
        if record.request.operation == Operation::Write {
            let taken = record.completion.since(record.dispatch);
            self.count += 1;
            self.long += u64::from(taken > Span::from_millis(20));
            self.total = Span::from_nanos(self.total.as_nanos() + taken.as_nanos());
            self.longest = self.longest.max(taken);
        }
    }
}

fn reader(summary: &Summary) -> Result<&FlowSummary, ExperimentError> {
    let found = summary.flows.iter().find(|flow| flow.name == "reader");
    found.ok_or_else(|| ExperimentError::Other("the scenario has no flow reader".to_owned()))
}

fn percent(flow: &FlowSummary, class: usize) -> f64 {
    flow.classes.get(class).map_or(f64::NAN, |it| 100.0 * it.missed as f64 / it.served.max(1) as f64)
}
