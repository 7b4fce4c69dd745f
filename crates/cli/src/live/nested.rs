//! Nested QoS in the Linux kernel, section 4.5: prxy alone, and prxy with proj, through the gateway.

use evenkeel_core::{Operation, Time};
use evenkeel_experiments::study::number;
use evenkeel_experiments::{Check, Context, ExperimentError, Figure, Study};
use evenkeel_report::figure::{Lines, Series};
use evenkeel_sim::Summary;
use evenkeel_sim::summary::FlowSummary;
use evenkeel_trace::TraceRequest;
use evenkeel_trace::generate::{Arrivals, Generator, Parameters, Placement, Program, Stream};

use super::rig::{self, Client, Pair};

const PRXY: &str = include_str!("../../../../experiments/live/nested-prxy.toml");
const BOTH: &str = include_str!("../../../../experiments/live/nested-prxy-proj.toml");
/// Name, scenario, and what Nested QoS has within 20 ms in the thesis, in %.
const PARTS: [(&str, &str, &str, f64); 2] =
    [("prxy", "nested-prxy.toml", PRXY, 76.0), ("prxy and proj", "nested-prxy-proj.toml", BOTH, 80.0)];
/// Length of the runs, as the scenarios say.
const SECONDS: f64 = 40.0;
/// The bound of the innermost class.
const INNERMOST_US: u64 = 20_000;

pub(super) fn run(context: &Context) -> Result<Study, ExperimentError> {
    let mut study = Study { seeds: vec![1, 2], ..Study::default() };
    let mut table = Vec::new();
    let swept = sweep(context, &mut study)?;
    for (part, file, text, bound) in PARTS {
        let mut lines = Vec::new();
        for scheduler in ["nested", "pclock"] {
            let clients = clients(part)?;
            let pairs = rig::run(context, file, text, scheduler, &clients)?;
            for pair in &pairs {
                let (live, twin) = (within(pair), 100.0 * pair.twin.within_latency.unwrap_or(f64::NAN));
                let (paper, check) = held(part, scheduler, pair, live, bound, &swept);
                study.check(check);
                study.check(
                    Check::near(
                        format!(
                            "{part}, {}, {scheduler}: live within 10 % of its twin, share within 20 ms",
                            pair.name
                        ),
                        live,
                        twin,
                        twin / 10.0,
                        "%",
                    )
                    .because(&format!("{} {}", rig::disturbance(&pairs), as_sent(pair))),
                );
                table.push(vec![
                    part.to_owned(),
                    pair.name.clone(),
                    scheduler.to_owned(),
                    paper,
                    number(live),
                    number(twin),
                    number(pair.live.mean_ms),
                    number(pair.twin.latency.latency_mean_us / 1e3),
                ]);
                lines.push(cdf(format!("{}, {scheduler}", pair.name), pair));
            }
        }
        let title = format!("{part}: distribution of live latency");
        let figure = Lines {
            title: title.clone(),
            x: "latency, ms".to_owned(),
            y: "requests that took no longer, %".to_owned(),
            series: lines,
            marks: Vec::new(),
            log_x: true,
            log_y: false,
        };
        study.figures.push(Figure { title, svg: figure.svg()? });
    }
    let heads = [
        "run",
        "flow",
        "scheduler",
        "paper, % in 20 ms",
        "live, %",
        "twin, %",
        "live, mean ms",
        "twin, mean ms",
    ];
    study.table("Share of requests answered within 20 ms", &heads, table);
    notes(&mut study);
    Ok(study)
}

fn clients(part: &str) -> Result<Vec<(&'static str, Client)>, ExperimentError> {
    Ok(if part == PARTS[0].0 {
        vec![("prxy", Client::Trace(prxy(3.0)?))]
    } else {
        vec![("prxy", Client::Trace(prxy(4.0)?)), ("proj", Client::Trace(proj()?))]
    })
}

/// The twins on faster disks: a table, and in words how fast one would have to be.
fn sweep(context: &Context, study: &mut Study) -> Result<String, ExperimentError> {
    const RATES: [u32; 7] = [100, 110, 120, 130, 140, 160, 200];
    let mut rows = Vec::new();
    let mut enough = Vec::new();
    for (part, file, text, bound) in PARTS {
        let mut first = None;
        for rate in RATES {
            let mut cells = Vec::new();
            let mut least = f64::INFINITY;
            for scheduler in ["nested", "pclock"] {
                let clients = clients(part)?;
                let summary =
                    rig::twin_at(context, file, text, scheduler, &clients, &format!("{rate} IOPS"))?;
                let shares: Vec<f64> = summary
                    .flows
                    .iter()
                    .map(|flow| 100.0 * flow.within_latency.unwrap_or(f64::NAN))
                    .collect();
                if scheduler == "nested" {
                    cells.push(innermost(&summary));
                    least = shares.iter().copied().fold(least, f64::min);
                }
                cells.push(shares.iter().map(|share| number(*share)).collect::<Vec<_>>().join(", "));
            }
            if least >= bound {
                first = first.or(Some(rate));
            }
            rows.push([vec![part.to_owned(), rate.to_string()], cells].concat());
        }
        enough.push(match first {
            Some(rate) => format!("{rate} IOPS for {part}"),
            None => format!("more than {} IOPS for {part}", RATES[RATES.len() - 1]),
        });
    }
    let heads = [
        "run",
        "disk, IOPS",
        "admitted by the innermost class, %",
        "nested, % in 20 ms",
        "pclock, % in 20 ms",
    ];
    study.table("The twins on faster disks (prxy; proj)", &heads, rows);
    Ok(enough.join(", "))
}

/// Of each flow's requests, in %, those that its innermost class admits: of them it promises 20 ms.
fn innermost(summary: &Summary) -> String {
    let share = |flow: &FlowSummary| {
        let all: u64 = flow.classes.iter().map(|class| class.served).sum();
        number(100.0 * flow.classes.first().map_or(0, |class| class.served) as f64 / all.max(1) as f64)
    };
    summary.flows.iter().map(share).collect::<Vec<_>>().join(", ")
}

fn notes(study: &mut Study) {
    study.note(
        "The traces of Microsoft's servers may not be passed on. Generated ones stand in: prxy 300 IOPS in bursts, eight \
         ON/OFF sources, slowed down to a third (a quarter); proj 25 IOPS from one ON/OFF source that is on a tenth of the \
         time, with bursts of 250 IOPS. Rates are those of figures 4.10 and 4.12, over the run; lengths of bursts are chosen.",
    );
    study.note("The disk is emulated: 100 requests a second, one at a time, none answered from a cache.");
}

/// What the paper has, and whether ours does.
fn held(part: &str, scheduler: &str, pair: &Pair, live: f64, bound: f64, swept: &str) -> (String, Check) {
    let why = format!(
        "The load is the whole disk, 100 of 100 IOPS, and the classes admit 120 (145 for both): what they promise does not fit, and \
         under EDF an outer request that has waited nearly its second goes before a new one of the innermost class. The twin says \
         the same. On a disk without seeks it takes {swept}; at 120 IOPS, what prxy's classes admit, the twin has about what the thesis \
         has under pClock, 27 %, and the most part of its 76 % (table). The thesis's 100 IOPS are of random requests of 4 KiB; its \
         traces have locality and writes, which a drive with a buffer answers faster, and it does not say how much. proj: its \
         class ⟨2, 20/s⟩ admits 20 of 25 IOPS, the thesis's 80 %, only of requests that come evenly; the stand-in comes in bursts of 250 \
         IOPS, and the class admits the part of it that the table names"
    );
    match scheduler {
        "nested" => (
            format!("{bound}"),
            Check::at_least(
                format!("{part}, {}: nested answers {bound} % within 20 ms", pair.name),
                live,
                bound,
                "%",
            )
            .because(&why),
        ),
        _ => (
            "< 30".to_owned(),
            Check::at_most(
                format!("{part}, {}: pClock answers less than 30 % within 20 ms", pair.name),
                live,
                30.0,
                "%",
            )
            .because(
                "Not met with these stand-ins: their bursts leave pClock time to catch up between them.",
            ),
        ),
    }
}

/// What a twin of what was really sent says, and how much of the live distribution lies at the bound.
fn as_sent(pair: &Pair) -> String {
    let latencies = &pair.live.latencies_us;
    let up_to = |us: u64| latencies.partition_point(|it| *it <= us);
    let late_us = (pair.live.late_ms * 1e3) as u64;
    let near = up_to(INNERMOST_US + late_us) - up_to(INNERMOST_US.saturating_sub(late_us));
    let resent = pair.resent.as_ref().and_then(|it| it.within_latency).unwrap_or(f64::NAN);
    format!(
        "A twin of what was sent, at the instants at which it was, has {} %. Of the {} live latencies {} are within that time of 20 ms",
        number(100.0 * resent),
        latencies.len(),
        near
    )
}

fn within(pair: &Pair) -> f64 {
    let all = pair.live.latencies_us.len() as f64;
    100.0 * pair.live.latencies_us.partition_point(|us| *us <= INNERMOST_US) as f64 / all
}

fn cdf(name: String, pair: &Pair) -> Series {
    let latencies = &pair.live.latencies_us;
    let at = |percent: usize| {
        let index = (latencies.len() * percent).div_ceil(100).saturating_sub(1);
        (latencies.get(index).map_or(f64::NAN, |us| *us as f64 / 1e3), percent as f64)
    };
    Series { name, points: (1..=100).map(at).collect() }
}

fn prxy(slower: f64) -> Result<Vec<TraceRequest>, ExperimentError> {
    let arrivals = Arrivals::OnOff { iops: 300.0, sources: 8, on: 1.0, off: 1.0, shape: 1.5 };
    generated(arrivals, slower, 1)
}

fn proj() -> Result<Vec<TraceRequest>, ExperimentError> {
    generated(Arrivals::OnOff { iops: 25.0, sources: 1, on: 0.2, off: 1.8, shape: 1.5 }, 1.0, 2)
}

/// Random reads of 4 KiB for the length of the run, after they have been slowed down.
fn generated(arrivals: Arrivals, slower: f64, seed: u64) -> Result<Vec<TraceRequest>, ExperimentError> {
    let parameters = Parameters {
        arrivals,
        volumes: 1,
        volume_bytes: 32 << 20,
        program: Program::Mix(vec![(1, Stream::new(Operation::Read, 4096, Placement::Uniform))]),
    };
    let generator = Generator::new(&parameters, seed)
        .map_err(|error| ExperimentError::Other(format!("the stand-in for a trace: {error}")))?;
    // A mean is one of the long run; the papers' means are those of the traces as they were played. So the run is
    // stretched to hold exactly as many requests as its mean rate says.
    let wanted = (arrivals.iops() / slower * SECONDS) as usize;
    let requests: Vec<TraceRequest> = generator.take(wanted + 1).collect();
    let last = requests.last().map_or(1, |request| request.at.as_nanos()).max(1);
    let factor = SECONDS * 1e9 / last as f64;
    let stretched = requests.iter().take(wanted).map(|request| {
        let at = (request.at.as_nanos() as f64 * factor) as u64;
        TraceRequest { at: Time::from_nanos(at), ..*request }
    });
    Ok(stretched.collect())
}
