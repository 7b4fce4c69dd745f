//! The machines of pClock's section 5: one disk, and sixteen. What they do under random requests is measured
//! before anything is said about shares of it.

use evenkeel_device::disk::parameters::Policy;
use evenkeel_device::spec::Model;
use evenkeel_device::{ParameterError, Spec};
use evenkeel_report::figure::{Lines, Series};
use evenkeel_sim::Summary;
use evenkeel_sim::scenario::{DeviceConfig, Scenario};

use crate::study::{Figure, number};
use crate::{Check, Context, ExperimentError, Study};

const ONE_DISK: &str = include_str!("../../../../experiments/pclock-one-disk.toml");
pub(super) const ARRAY: &str = include_str!("../../../../experiments/pclock-array.toml");

/// A machine of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Machine {
    /// One Seagate ST39102LW, about 95 IOPS.
    OneDisk,
    /// Sixteen of them, about 1500 IOPS.
    Array,
}

impl Machine {
    /// Requests per second of the random load `text`.
    pub(super) fn capacity(self, context: &Context, text: &str) -> Result<f64, ExperimentError> {
        let name = match self {
            Self::OneDisk => "pclock-one-disk.toml",
            Self::Array => "pclock-array.toml",
        };
        let scenario = scenario(context, name, text)?;
        Ok(context.run(&scenario, "fcfs", scenario.seed)?.served_iops)
    }

    /// Measures its capacity, and says in `study` what it is and how near the paper's it comes.
    pub(super) fn describe(self, context: &Context, study: &mut Study) -> Result<f64, ExperimentError> {
        let (text, paper) = match self {
            Self::OneDisk => (ONE_DISK, 95.0),
            Self::Array => (ARRAY, 1500.0),
        };
        let capacity = self.capacity(context, text)?;
        study.check(Check::within_percent(
            "The machine does what the paper's does under random requests",
            capacity,
            paper,
            10.0,
            "IOPS",
        ));
        study.note(match self {
            Self::OneDisk => format!(
                "One ST39102LW by Evenkeel's disk model, with the paper's queue of 4 and its cyclic SSTF; random requests, 70 % reads: \
                 {} IOPS (paper: about 95). The paper does not give the size of its requests; 15 KiB makes it 95.",
                number(capacity)
            ),
            Self::Array => format!(
                "Sixteen ST39102LW by Evenkeel's disk model, one after the other as the paper's JBOD, 64 requests \
                 outstanding (a queue of 4 for each disk, but not held apart by disk), cyclic SSTF in each; no shared buses; \
                 random requests, 70 % reads: {} IOPS (paper: about 1500). The paper does not give the size of its requests; \
                 11.5 KiB makes it 1500.",
                number(capacity)
            ),
        });
        Ok(capacity)
    }
}

/// A scenario of section 5: its drives serve their queues by cyclic SSTF, which is C-LOOK.
pub(crate) fn scenario(context: &Context, name: &str, text: &str) -> Result<Scenario, ExperimentError> {
    let mut scenario = context.scenario(name, text)?;
    if let DeviceConfig::Model(spec) = &scenario.device {
        let cyclic = cyclic(spec).map_err(|error| ExperimentError::Other(error.to_string()))?;
        scenario.device = DeviceConfig::Model(cyclic);
    }
    Ok(scenario)
}

fn cyclic(spec: &Spec) -> Result<Spec, ParameterError> {
    match spec.model() {
        Model::Disk(parameters) => {
            let mut parameters = parameters.clone();
            parameters.queue.policy = Policy::CLook;
            Spec::new(Model::Disk(parameters))
        }
        Model::Raid { parameters, members } => {
            let members = members.iter().map(cyclic).collect::<Result<_, _>>()?;
            Spec::new(Model::Raid { parameters: *parameters, members })
        }
        _ => Ok(spec.clone()),
    }
}

/// The mean latency of `values` windows of a flow, in ms; windows in which nothing was served are `NaN`.
pub(super) fn latencies(summary: &Summary, name: &str) -> Result<Vec<f64>, ExperimentError> {
    let windows = &super::examples::flow(summary, name)?.windows;
    let one = |(served, us): (&u64, &f64)| if *served == 0 { f64::NAN } else { us / 1e3 };
    Ok(windows.served.iter().zip(&windows.latency_mean_us).map(one).collect())
}

/// The mean latency of requests that were over from `from` to `until`, in s, in ms; 0 if there were none.
pub(super) fn mean_latency(
    summary: &Summary,
    name: &str,
    from: f64,
    until: f64,
) -> Result<f64, ExperimentError> {
    let windows = &super::examples::flow(summary, name)?.windows;
    let (mut count, mut sum) = (0.0, 0.0);
    for (index, (served, mean)) in windows.served.iter().zip(&windows.latency_mean_us).enumerate() {
        let at = index as f64 * summary.window_s;
        if at >= from && at + summary.window_s <= until + 1e-9 {
            count += *served as f64;
            sum += *served as f64 * mean / 1e3;
        }
    }
    Ok(if count > 0.0 { sum / count } else { 0.0 })
}

/// Mean latency of each window over time, a line for each flow, with the bounds of the first class.
pub(super) fn latency_figure(summary: &Summary, title: &str) -> Result<Figure, ExperimentError> {
    let mut lines = evenkeel_report::simulation::latency(summary);
    title.clone_into(&mut lines.title);
    lines.y = "mean latency, ms".to_owned();
    lines.series = summary
        .flows
        .iter()
        .map(|flow| {
            let values = latencies(summary, &flow.name)?;
            let at = |index: usize| (index as f64 + 0.5) * summary.window_s;
            let points = values.into_iter().enumerate().map(|(index, value)| (at(index), value)).collect();
            Ok(Series { name: flow.name.clone(), points })
        })
        .collect::<Result<_, ExperimentError>>()?;
    Ok(Figure { title: title.to_owned(), svg: lines.svg()? })
}

/// Throughput over time.
pub(super) fn throughput_figure(summary: &Summary, title: &str) -> Result<Figure, ExperimentError> {
    let mut lines: Lines = evenkeel_report::simulation::throughput(summary);
    title.clone_into(&mut lines.title);
    Ok(Figure { title: title.to_owned(), svg: lines.svg()? })
}
