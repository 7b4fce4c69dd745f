//! The offline scheme on a pair of database volumes: tables 5 and 6. Online: table 8.

use evenkeel_core::Time;
use evenkeel_report::Lines;
use evenkeel_report::Series;
use evenkeel_sim::scenario::PolicyConfig;
use evenkeel_tiering::policy::OnlineParameters;
use evenkeel_trace::TraceRequest;
use evenkeel_trace::generate::{Generator, Personality};

use super::fairness::{DISK_NOTE, PaperRow, Sweep, label};
use super::run::{Outcome, Plan, SEED, Store, ratio, unfairness, written};
use crate::study::{Figure, number};
use crate::{Check, Context, ExperimentError, Study};

const RATIOS: [[u32; 2]; 5] = [[1, 1], [5, 1], [10, 1], [1, 5], [1, 10]];
const DISK_5: [(f64, f64); 5] =
    [(235.26, 1.0), (241.68, 3.3), (250.68, 4.6), (254.52, 1.0 / 3.6), (259.70, 1.0 / 4.8)];
/// Throughput, share on flash in percent, ratio.
type Row = (f64, f64, f64);
const HYBRID_5: [Row; 5] = [
    (934.37, 84.96, 1.0),
    (927.79, 83.73, 4.5),
    (932.39, 84.11, 8.0),
    (962.15, 84.41, 1.0 / 4.6),
    (989.92, 84.89, 1.0 / 8.1),
];
const HYBRID_8: [Row; 5] = [
    (790.34, 75.56, 1.0),
    (689.57, 71.79, 4.3),
    (646.08, 70.16, 7.3),
    (644.34, 69.93, 1.0 / 4.5),
    (647.13, 69.58, 1.0 / 7.3),
];
/// MiB of flash: throughput and share on flash.
const TABLE_6: [(u64, f64, f64); 4] =
    [(0, 235.26, 0.0), (128, 352.02, 28.61), (256, 934.37, 84.96), (1024, 1584.20, 97.58)];
/// What each volume touches, in bytes.
const FOOTPRINT: u64 = 160 << 20;
const LOAD_NOTE: &str = "Load: the generator `tpcc` (8 KiB pages, 84 % reads, a log) for each of two volumes, every request there from the start. A volume touches 160 MiB: \
     the thesis's first 10 000 requests of each fit 256 MB to 85 %.";
const WRITE_NOTE: &str = "Flash: reads of 2 KiB take 171 us, as table 2 implies, worn-in writes 4.6 ms (nine tenths of the disk's), as table 7 implies; larger requests take \
     that once per page of 8 KiB here, so that a database page is one access, as in table 4.";

/// The online scheme with the thesis's numbers. Victims stay on flash until they are overwritten: the thesis says
/// that data of victims "maybe" migrates, and where ratios change places, it would for ever.
pub(super) fn online() -> PolicyConfig {
    PolicyConfig::Online(OnlineParameters { migrate_victims: false, ..OnlineParameters::default() })
}

/// Two volumes of a database.
pub(super) fn plan(context: &Context) -> Result<Plan, ExperimentError> {
    let requests = || -> Result<[Vec<TraceRequest>; 2], ExperimentError> {
        let mut volumes = generated(Personality::TpcC, 2, FOOTPRINT, 60_000)?.into_iter();
        Ok([volumes.next().unwrap_or_default(), volumes.next().unwrap_or_default()])
    };
    Ok(Plan {
        requests_of: Some(requests()?),
        skip: 10_000,
        requests: 10_000,
        request_bytes: 8 << 10,
        ..Plan::varied(context, &[("page = \"2 KiB\"", "page = \"8 KiB\"")])?
    })
}

/// `count` requests for each of `volumes` volumes, 8 GiB apart, all at time 0.
pub(super) fn generated(
    what: Personality,
    volumes: u32,
    bytes: u64,
    count: usize,
) -> Result<Vec<Vec<TraceRequest>>, ExperimentError> {
    let mut parameters = what.parameters();
    (parameters.volumes, parameters.volume_bytes) = (volumes, bytes);
    let mut generator =
        Generator::new(&parameters, SEED).map_err(|error| ExperimentError::Other(error.to_string()))?;
    let mut all = vec![Vec::with_capacity(count); volumes as usize];
    while all.iter().any(|requests| requests.len() < count) {
        let Some(request) = generator.next() else { break };
        let offset = request.offset + (u64::from(request.volume) << 33);
        all[request.volume as usize].push(TraceRequest { at: Time::ZERO, offset, ..request });
    }
    Ok(all)
}

pub(super) fn table_5(context: &Context) -> Result<Study, ExperimentError> {
    fairness(context, PolicyConfig::Offline, HYBRID_5, "offline")
}

pub(super) fn table_8(context: &Context) -> Result<Study, ExperimentError> {
    fairness(context, online(), HYBRID_8, "online")
}

fn fairness(
    context: &Context,
    policy: PolicyConfig,
    paper: [Row; 5],
    name: &str,
) -> Result<Study, ExperimentError> {
    let plan = plan(context)?;
    let sweep = |store| -> Result<Vec<Outcome>, ExperimentError> {
        RATIOS.iter().map(|weights| plan.weights(*weights).on(store).run()).collect()
    };
    let (disk, hybrid) = (sweep(Store::Disk)?, sweep(Store::Hybrid(256, policy))?);
    let mut study = Study { seeds: vec![SEED], ..Study::default() };
    for row in 0..5 {
        let name = label(RATIOS[row]);
        let faster = hybrid[row].iops / disk[row].iops;
        study.check(Check::at_least(format!("{name}: hybrid faster than the disk"), faster, 1.0, "times"));
        if row > 0 {
            let [before, after] = [&disk, &hybrid].map(|it| unfairness(RATIOS[row], ratio(&it[row])));
            let law = format!("{name}: hybrid fairer (distance from the wanted ratio, in factors of two)");
            study.check(Check::at_most(law, after, before, ""));
        }
    }
    study.note(DISK_NOTE).note(LOAD_NOTE).note(WRITE_NOTE);
    let sweep = Sweep { ratios: &RATIOS, paper: &paper_rows(&paper), disk: &disk, hybrid: &hybrid };
    let figure = format!("Fairness of two TPC-C volumes, {name}");
    sweep.show(&mut study, "tpcc1 to tpcc2, 256 MB of flash", &figure)?;
    Ok(study)
}

fn paper_rows(hybrid: &[Row; 5]) -> Vec<PaperRow> {
    let row = |(disk, (iops, share, ratio)): (&(f64, f64), &Row)| (*disk, (*iops, *ratio), *share);
    DISK_5.iter().zip(hybrid).map(row).collect()
}

pub(super) fn table_6(context: &Context) -> Result<Study, ExperimentError> {
    let plan = plan(context)?;
    let outcomes: Vec<Outcome> = TABLE_6
        .iter()
        .map(|(mebibytes, _, _)| match mebibytes {
            0 => plan.on(Store::Disk).run(),
            size => plan.on(Store::Hybrid(*size, PolicyConfig::Offline)).run(),
        })
        .collect::<Result<_, _>>()?;
    let mut study = Study { seeds: vec![SEED], ..Study::default() };
    let grows = outcomes.windows(2).all(|pair| pair[1].iops >= pair[0].iops);
    let all: Vec<String> = outcomes.iter().map(|it| number(it.iops)).collect();
    study.check(Check::that("throughput grows with the size of the flash", grows, all.join(", ")));
    // The share of requests on flash that each further 100 MiB brings.
    let slope = |from: usize, to: usize| {
        let bytes = (TABLE_6[to].0 - TABLE_6[from].0) as f64 / 100.0;
        (outcomes[to].flash_percent - outcomes[from].flash_percent) / bytes
    };
    study.check(Check::at_least(
        "a knee at 256 MB: up to it, 100 MiB bring at least four times as many requests to flash as beyond",
        slope(0, 2) / slope(2, 3).max(1e-9),
        4.0,
        "times",
    ));
    let fair = outcomes.iter().map(|outcome| (ratio(outcome) - 1.0).abs()).fold(0.0, f64::max);
    study.check(Check::at_most("1:1 is kept at every size", fair, 0.02, ""));
    let rows = TABLE_6.iter().zip(&outcomes).map(|((size, iops, share), outcome)| {
        vec![
            size.to_string(),
            number(*iops),
            number(outcome.iops),
            number(*share),
            number(outcome.flash_percent),
            written(ratio(outcome)),
        ]
    });
    study.table(
        "Flash sizes at 1:1",
        &["MB of flash", "req/s, paper", "ours", "% on flash, paper", "ours", "ratio, ours"],
        rows.collect(),
    );
    study.note(DISK_NOTE).note(LOAD_NOTE).note(WRITE_NOTE);
    let points = |values: Vec<f64>| TABLE_6.iter().map(|it| it.0 as f64).zip(values).collect();
    let lines = Lines {
        title: "Throughput by flash size, offline".to_owned(),
        x: "MB of flash".to_owned(),
        y: "requests per second".to_owned(),
        series: vec![
            Series { name: "ours".to_owned(), points: points(outcomes.iter().map(|it| it.iops).collect()) },
            Series { name: "paper".to_owned(), points: points(TABLE_6.map(|it| it.1).to_vec()) },
        ],
        marks: Vec::new(),
        log_x: false,
        log_y: false,
    };
    study.figures.push(Figure { title: lines.title.clone(), svg: lines.svg()? });
    Ok(study)
}
