//! Nested QoS in the Linux kernel, section 4.5: prxy alone, and prxy with proj, through the gateway.

use evenkeel_core::{Operation, Time};
use evenkeel_experiments::study::number;
use evenkeel_experiments::{Check, Context, ExperimentError, Figure, Study};
use evenkeel_report::figure::{Lines, Series};
use evenkeel_trace::TraceRequest;
use evenkeel_trace::generate::{Arrivals, Generator, Parameters, Placement, Program, Stream};

use super::rig::{self, Client, Pair};

const PRXY: &str = include_str!("../../../../experiments/live/nested-prxy.toml");
const BOTH: &str = include_str!("../../../../experiments/live/nested-prxy-proj.toml");
/// Length of the runs, as the scenarios say.
const SECONDS: f64 = 40.0;
/// The bound of the innermost class.
const INNERMOST_US: u64 = 20_000;

pub(super) fn run(context: &Context) -> Result<Study, ExperimentError> {
    let mut study = Study { seeds: vec![1, 2], ..Study::default() };
    let mut table = Vec::new();
    for (part, file, text, bound) in
        [("prxy", "nested-prxy.toml", PRXY, 76.0), ("prxy and proj", "nested-prxy-proj.toml", BOTH, 80.0)]
    {
        let mut lines = Vec::new();
        for scheduler in ["nested", "pclock"] {
            let clients = if part == "prxy" {
                vec![("prxy", Client::Trace(prxy(3.0)?))]
            } else {
                vec![("prxy", Client::Trace(prxy(4.0)?)), ("proj", Client::Trace(proj()?))]
            };
            let pairs = rig::run(context, file, text, scheduler, &clients)?;
            for pair in &pairs {
                let (live, twin) = (within(pair), 100.0 * pair.twin.within_latency.unwrap_or(f64::NAN));
                let (paper, check) = held(part, scheduler, pair, live, bound);
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
                    .because(&rig::disturbance(&pairs)),
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

fn notes(study: &mut Study) {
    study.note(
        "The traces of Microsoft's servers may not be passed on. Generated ones stand in: prxy 300 IOPS in bursts, eight \
         ON/OFF sources, slowed down to a third (a quarter); proj 25 IOPS from one ON/OFF source that is on a tenth of the \
         time, with bursts of 250 IOPS. Rates are those of figures 4.10 and 4.12, over the run; lengths of bursts are chosen.",
    );
    study.note("The disk is emulated: 100 requests a second, one at a time, none answered from a cache.");
}

/// What the paper has, and whether ours does.
fn held(part: &str, scheduler: &str, pair: &Pair, live: f64, bound: f64) -> (String, Check) {
    let why = "Not met with these stand-ins; where the twin says the same, the load is the reason and not the gateway. The \
               load is the whole disk (100 IOPS), the outer classes admit 110 and 120 IOPS, and under EDF an outer \
               request that has waited nearly its second goes before a new one of the innermost class. The paper's \
               disk did more than its 100 random IOPS where requests lay near each other.";
    match scheduler {
        "nested" => (
            format!("{bound}"),
            Check::at_least(
                format!("{part}, {}: nested answers {bound} % within 20 ms", pair.name),
                live,
                bound,
                "%",
            )
            .because(why),
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
