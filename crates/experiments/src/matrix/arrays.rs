//! FAIRIO on arrays whose writes cost more disk time than they ask for.

use std::sync::Arc;

use evenkeel_core::sched::fairio::{Accounting, Fairio, FairioConfig};
use evenkeel_core::{Scheduler, Span};
use evenkeel_report::figure::Bars;

use super::trial::{Changes, Found, run as trial};
use crate::study::{Figure, number};
use crate::{Check, Context, ExperimentError, Study};

const TEXT: &str = include_str!("../../../../experiments/fairio-raid.toml");
const LEVELS: [u32; 3] = [0, 5, 10];
const DISKS: u32 = 8;

pub(super) fn run(context: &Context) -> Result<Study, ExperimentError> {
    let mut study = Study::default();
    let mut rows = Vec::new();
    let mut series = Vec::new();
    let mut totals = Vec::new();
    let mut names: Arc<[String]> = Arc::default();
    for level in LEVELS {
        let text = TEXT.replace("level = 0", &format!("level = {level}"));
        let scenario = context.scenario("fairio-raid.toml", &text)?;
        study.seeds = vec![scenario.seed];
        names = scenario.flow_names().into();
        let fairio = trial(context, &scenario, Changes { scheduler: Some(fairio()?), ..Changes::default() })?;
        let plain = scenario.with_scheduler("fcfs").map(|plain| trial(context, &plain, Changes::default()));
        let plain =
            plain.ok_or_else(|| ExperimentError::Other("there is no scheduler fcfs".to_owned()))??;
        let weights: Vec<f64> = fairio.summary.flows.iter().map(|flow| f64::from(flow.weight)).collect();
        let off = errors(&shares(&fairio), &weights);
        for ((name, (share, off)), weight) in names.iter().zip(shares(&fairio).iter().zip(&off)).zip(&weights)
        {
            study.check(Check::at_most(
                format!("RAID-{level}: {name} is within 10 % of its share of disk time"),
                off.abs(),
                10.0,
                "%",
            ));
            let fair = 100.0 * weight / weights.iter().sum::<f64>();
            rows.push(vec![
                format!("RAID-{level}"),
                name.clone(),
                number(fair),
                number(100.0 * share),
                number(*off),
            ]);
        }
        series.push((format!("RAID-{level}"), shares(&fairio).iter().map(|share| 100.0 * share).collect()));
        series.push((
            format!("RAID-{level}, FCFS"),
            shares(&plain).iter().map(|share| 100.0 * share).collect(),
        ));
        let (with, without) = (fairio.summary.served_iops, plain.summary.served_iops);
        totals.push(vec![
            format!("RAID-{level}"),
            number(without),
            number(with),
            number(100.0 * (with - without) / without),
        ]);
    }
    study.table("Disk time under FAIRIO", &["array", "class", "promised, %", "got, %", "off, %"], rows);
    study.table("Requests per second of all classes", &["array", "FCFS", "FAIRIO", "difference, %"], totals);
    study.note(
        "Requests per second are no measure of loss here: FAIRIO gives dear requests their share of disks, and FCFS gives \
         each class the same number of requests. What the disks spend is the same.",
    );
    let title = "Share of disk time".to_owned();
    let bars = Bars { title: title.clone(), y: "disk time, %".to_owned(), groups: names.to_vec(), series };
    study.figures.push(Figure { title, svg: bars.svg()? });
    Ok(study)
}

/// Cycles of one second on eight disks, which tell their disk time.
fn fairio() -> Result<Box<dyn Scheduler + Send>, ExperimentError> {
    let config = FairioConfig {
        accounting: Accounting::Reported,
        ..FairioConfig::new(Span::from_millis(1_000), DISKS)
    };
    let made = Fairio::new(config).map_err(|error| ExperimentError::Other(error.to_string()))?;
    Ok(Box::new(made))
}

fn shares(found: &Found) -> Vec<f64> {
    let busy: Vec<f64> = found.disk_time.iter().map(|span| span.as_secs_f64()).collect();
    let all: f64 = busy.iter().sum();
    busy.iter().map(|busy| busy / all).collect()
}

/// How far each share is from its weight's, in percent of the latter.
fn errors(shares: &[f64], weights: &[f64]) -> Vec<f64> {
    let all: f64 = weights.iter().sum();
    shares.iter().zip(weights).map(|(share, weight)| 100.0 * (share * all / weight - 1.0)).collect()
}
