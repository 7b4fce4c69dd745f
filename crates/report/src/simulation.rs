//! The figures of a simulation, and of several schedulers beside each other.

use evenkeel_sim::summary::{FlowSummary, Summary};

use crate::figure::{Bars, FigureError, Lines, Series};

/// A drawn figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// The name of its file, without ending.
    pub name: String,
    /// The SVG document.
    pub svg: String,
}

/// Series in a figure, at most: beyond that nobody can tell them apart.
pub const SERIES_MAX: usize = 14;

/// All figures of one run: throughput and latency over time, the distribution of latency, per class, and the
/// dispatch depth over time where it is adapted.
///
/// # Errors
/// If the drawing library refuses one.
pub fn figures(summary: &Summary) -> Result<Vec<Drawn>, FigureError> {
    let mut drawn = vec![
        named("throughput", throughput(summary).svg()?),
        named("latency", latency(summary).svg()?),
        named("latency-cdf", latency_cdf(summary).svg()?),
    ];
    if summary.flows.iter().any(|flow| flow.classes.len() > 1) {
        drawn.push(named("classes", classes(summary).svg()?));
    }
    if let Some(depth) = &summary.device.depth {
        drawn.push(named("depth", depth_over_time(summary, &depth.windows).svg()?));
    }
    Ok(drawn)
}

/// The figures of a comparison; the summaries are of one scenario under several schedulers.
///
/// # Errors
/// If the drawing library refuses one.
pub fn comparison(summaries: &[Summary]) -> Result<Vec<Drawn>, FigureError> {
    let by = |title: &str, y: &str, value: &dyn Fn(&FlowSummary) -> f64| Bars {
        title: title.to_owned(),
        y: y.to_owned(),
        groups: summaries.first().map_or_else(Vec::new, |first| {
            first.flows.iter().take(SERIES_MAX).map(|flow| flow.name.clone()).collect()
        }),
        series: summaries
            .iter()
            .map(|summary| {
                let values = summary.flows.iter().take(SERIES_MAX).map(value).collect();
                (summary.scheduler.clone(), values)
            })
            .collect(),
    };
    let missed = |flow: &FlowSummary| match flow.promised {
        0 => f64::NAN,
        promised => 100.0 * flow.missed as f64 / promised as f64,
    };
    let mut drawn = vec![
        named("compare-iops", by("Throughput per flow", "served, IOPS", &|flow| flow.served_iops).svg()?),
        named(
            "compare-p99",
            by("99th percentile of latency per flow", "latency, ms", &|flow| {
                flow.latency.latency_p99_us / 1e3
            })
            .svg()?,
        ),
        named(
            "compare-missed",
            by("Requests inside the envelope that missed their promise", "missed, %", &missed).svg()?,
        ),
    ];
    for summary in summaries {
        let name = format!("latency-{}", summary.scheduler.replace('+', "plus"));
        drawn.push(named(&name, latency(summary).svg()?));
    }
    Ok(drawn)
}

fn named(name: &str, svg: String) -> Drawn {
    Drawn { name: name.to_owned(), svg }
}

fn with_scheduler(what: &str, summary: &Summary) -> String {
    let more = summary.flows.len().saturating_sub(SERIES_MAX);
    let note = if more > 0 { format!(" (the first {SERIES_MAX} flows)") } else { String::new() };
    format!("{what} under {}{note}", summary.scheduler)
}

/// Served requests per second over time, a line for each flow.
#[must_use]
pub fn throughput(summary: &Summary) -> Lines {
    let per_second = 1.0 / summary.window_s;
    let series = |flow: &FlowSummary| {
        let values = flow.windows.served.iter().map(|served| *served as f64 * per_second);
        Series { name: flow.name.clone(), points: over_time(summary, values) }
    };
    Lines {
        title: with_scheduler("Throughput", summary),
        x: "time, s".to_owned(),
        y: "served, IOPS".to_owned(),
        series: summary.flows.iter().take(SERIES_MAX).map(series).collect(),
        marks: Vec::new(),
        log_x: false,
        log_y: false,
    }
}

/// The longest latency of each window, with each flow's innermost bound.
#[must_use]
pub fn latency(summary: &Summary) -> Lines {
    let series = |flow: &FlowSummary| {
        let values = flow.windows.latency_max_us.iter().map(|max| max / 1e3);
        Series { name: flow.name.clone(), points: over_time(summary, values) }
    };
    Lines {
        title: with_scheduler("Longest latency in each window", summary),
        x: "time, s".to_owned(),
        y: format!("latency in {} s, ms", summary.window_s),
        series: summary.flows.iter().take(SERIES_MAX).map(series).collect(),
        marks: bounds(summary),
        log_x: false,
        log_y: true,
    }
}

/// The dispatch depth at the end of each window.
#[must_use]
pub fn depth_over_time(summary: &Summary, windows: &[u32]) -> Lines {
    let values = windows.iter().map(|depth| f64::from(*depth));
    Lines {
        title: with_scheduler("Dispatch depth", summary),
        x: "time, s".to_owned(),
        y: "requests at the device at most".to_owned(),
        series: vec![Series { name: "depth".to_owned(), points: over_time(summary, values) }],
        marks: Vec::new(),
        log_x: false,
        log_y: false,
    }
}

/// The distribution of latency.
#[must_use]
pub fn latency_cdf(summary: &Summary) -> Lines {
    let series = |flow: &FlowSummary| Series {
        name: flow.name.clone(),
        points: flow.latency_cdf_us.iter().map(|(percent, us)| (us / 1e3, *percent)).collect(),
    };
    Lines {
        title: with_scheduler("Distribution of latency", summary),
        x: "latency, ms".to_owned(),
        y: "requests that took no longer, %".to_owned(),
        series: summary.flows.iter().take(SERIES_MAX).map(series).collect(),
        marks: Vec::new(),
        log_x: true,
        log_y: false,
    }
}

/// How the served requests of each flow divide into classes, and how many of each kept its bound.
#[must_use]
pub fn classes(summary: &Summary) -> Bars {
    let flows: Vec<&FlowSummary> =
        summary.flows.iter().filter(|flow| flow.classes.len() > 1).take(SERIES_MAX).collect();
    let most = flows.iter().map(|flow| flow.classes.len() - 1).max().unwrap_or(0);
    let share = |flow: &FlowSummary, count: u64| match flow.served {
        0 => f64::NAN,
        served => 100.0 * count as f64 / served as f64,
    };
    let mut series = Vec::new();
    for class in 0..most {
        let of = |flow: &&FlowSummary| (class + 1 < flow.classes.len()).then(|| flow.classes[class].clone());
        let kept =
            |flow: &&FlowSummary| of(flow).map_or(f64::NAN, |class| share(flow, class.served - class.missed));
        series.push((format!("class {} in time", class + 1), flows.iter().map(kept).collect()));
    }
    series.push(("missed".to_owned(), flows.iter().map(|flow| share(flow, flow.missed)).collect()));
    series.push(("outside".to_owned(), flows.iter().map(|flow| share(flow, flow.outside)).collect()));
    Bars {
        title: with_scheduler("Requests per class", summary),
        y: "of the served requests, %".to_owned(),
        groups: flows.iter().map(|flow| flow.name.clone()).collect(),
        series,
    }
}

/// Values of windows, at the middle of each.
fn over_time(summary: &Summary, values: impl Iterator<Item = f64>) -> Vec<(f64, f64)> {
    let at = |index: usize| (index as f64 + 0.5) * summary.window_s;
    values.enumerate().map(|(index, value)| (at(index), value)).collect()
}

/// The innermost bounds; flows with the same one share a mark.
fn bounds(summary: &Summary) -> Vec<(String, f64, usize)> {
    let mut marks: Vec<(String, f64, usize)> = Vec::new();
    for (index, flow) in summary.flows.iter().take(SERIES_MAX).enumerate() {
        let Some(bound) = flow.classes.first().and_then(|class| class.bound_us) else { continue };
        match marks.iter_mut().find(|(_, known, _)| *known == bound / 1e3) {
            Some((name, ..)) => {
                name.push_str(", ");
                name.push_str(&flow.name);
            }
            None => marks.push((format!("bound of {}", flow.name), bound / 1e3, index)),
        }
    }
    marks
}
