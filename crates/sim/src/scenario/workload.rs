//! Parts of a workload: which keys belong to which kind of arrivals, and what they mean together.
//!
//! ```text
//!  arrivals     needs                 may have
//!  constant     rate
//!  poisson      rate
//!  pareto       rate                  shape
//!  on-off       rate, on, off         off_rate, lengths, gaps, shape
//!  bursts       burst                 every
//!  closed       outstanding           think, thinking, shape
//!  (a trace)    trace                 format, volume, malformed_max, reorder, event, interval, columns
//!  any                                from, until, requests; access but for a trace
//! ```

use std::path::{Path, PathBuf};
use std::str::FromStr;

use evenkeel_core::{Rate, Span, Time};
use evenkeel_trace::{CsvMapping, Event, Format};

use super::check::Checker;
use super::file::{
    AccessSection, ArrivalKind, EventKind, FlowSection, LawKind, PatternKind, ScenarioFile, WorkloadSection,
};
use super::trace::TraceSpec;
use super::{Part, What};
use crate::access::{Access, Pattern};
use crate::pace::Pace;
use crate::random::Law;

const SHAPE_DEFAULT: f64 = 1.5;
const THETA_DEFAULT: f64 = 0.99;
/// Requests that a closed loop has under way, at most: each takes a place in the event heap.
const OUTSTANDING_MAX: u32 = 1 << 20;
const TRACE_KEYS: [&str; 7] =
    ["format", "volume", "malformed_max", "reorder", "event", "interval", "columns"];
/// As for `evenkeel trace`.
const MALFORMED_DEFAULT: u64 = 100;
/// The largest window that the reader of traces has.
const REORDER_MAX: u32 = 1 << 20;

/// Where a part stands.
struct Place<'p> {
    flow: &'p str,
    index: String,
}

impl Place<'_> {
    fn refuse(
        &self,
        checker: &mut Checker<'_>,
        key: &str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        // A list has the element's number in its path, a single table does not.
        let path = ["flow", self.flow, "workload", &self.index, key];
        checker.refuse(&path, message, remedy);
    }
}

/// Resolves part `index` of the workload of `flow`.
pub(super) fn part(
    checker: &mut Checker<'_>,
    flow: &str,
    index: usize,
    section: &WorkloadSection,
    owner: &FlowSection,
    file: &ScenarioFile,
    folder: &Path,
) -> Part {
    let index = if owner.workload.0.len() > 1 { index.to_string() } else { String::new() };
    let place = Place { flow, index };
    let start = owner.start.map_or(Span::ZERO, |start| start.0);
    let from = section.from.map_or(start, |from| from.0);
    if from < start {
        let message = format!("{from} is before the flow's start at {start}");
        place.refuse(checker, "from", message, "write a later time, or start the flow earlier");
    }
    if from >= file.duration.0 {
        let message = format!("it begins at {from}, when the run is over");
        place.refuse(checker, "from", message, "write an earlier time or a longer duration");
    }
    let until = [section.until.map(|until| until.0), owner.stop.map(|stop| stop.0)];
    let until = until.into_iter().flatten().min();
    if until.is_some_and(|until| until <= from) {
        let message = format!("it ends before it begins at {from}");
        place.refuse(checker, "until", message, "write a later time");
    }
    let what = match (&section.trace, section.arrivals) {
        (Some(trace), None) => {
            refuse_strangers(checker, &place, section, &TRACE_KEYS, "a trace");
            What::Trace(trace_spec(checker, &place, section, folder.join(trace)))
        }
        (None, Some(kind)) => {
            let access = section.access.as_ref().or(owner.access.as_ref());
            let pace = pace(checker, &place, section, kind);
            What::Generated(pace, self::access(checker, &place, access, section.access.is_some()))
        }
        (Some(_), Some(_)) => {
            place.refuse(checker, "trace", "a trace has arrivals of its own", "keep trace or arrivals");
            What::Generated(Pace::Constant(Rate::default()), Access::default())
        }
        (None, None) => {
            let remedy = "add arrivals = \"constant\" (or poisson, pareto, on-off, bursts, closed) or trace = \"FILE\"";
            place.refuse(checker, "arrivals", "how requests arrive is not said", remedy);
            What::Generated(Pace::Constant(Rate::default()), Access::default())
        }
    };
    // A burst without a period happens once.
    let once = match (section.arrivals, section.every) {
        (Some(ArrivalKind::Bursts), None) => section.burst.map(u64::from),
        _ => None,
    };
    let requests_max = [once, section.requests].into_iter().flatten().min();
    Part { from: Time::ZERO + from, until: until.map(|until| Time::ZERO + until), requests_max, what }
}

/// The trace at `path`, and how it is read.
fn trace_spec(
    checker: &mut Checker<'_>,
    place: &Place<'_>,
    section: &WorkloadSection,
    path: PathBuf,
) -> TraceSpec {
    let format = section.format.as_deref().and_then(|name| {
        let format = Format::from_str(name);
        if let Err(error) = &format {
            let names = Format::ALL.map(Format::name).join(", ");
            place.refuse(checker, "format", error.to_string(), format!("write one of {names}"));
        }
        format.ok()
    });
    let columns = section.columns.as_deref().and_then(|text| {
        let mapping = CsvMapping::from_str(text);
        if let Err(error) = &mapping {
            place.refuse(checker, "columns", error.to_string(), error.remedy());
        }
        mapping.ok()
    });
    if columns.is_some() && format.is_some_and(|format| format != Format::Csv) {
        let remedy = "write format = \"csv\", or remove one of the two";
        place.refuse(checker, "columns", "only CSV traces have columns that need a meaning", remedy);
    }
    let interval = section.interval.map(|interval| interval.0);
    if interval == Some(Span::ZERO) {
        let remedy = "write a time above 0, as \"1 ms\"";
        place.refuse(checker, "interval", "all requests would come at once", remedy);
    }
    let reorder = section.reorder.unwrap_or(0);
    if reorder > REORDER_MAX {
        let remedy = format!("write at most {REORDER_MAX}, or sort the trace by time");
        place.refuse(checker, "reorder", format!("{reorder} requests are not kept"), remedy);
    }
    TraceSpec {
        path,
        format,
        volume: section.volume,
        malformed_max: section.malformed_max.unwrap_or(MALFORMED_DEFAULT),
        reorder: reorder as usize,
        event: match section.event.unwrap_or(EventKind::Queued) {
            EventKind::Queued => Event::Queued,
            EventKind::Issued => Event::Issued,
            EventKind::Completed => Event::Completed,
        },
        interval,
        columns,
    }
}

fn pace(checker: &mut Checker<'_>, place: &Place<'_>, section: &WorkloadSection, kind: ArrivalKind) -> Pace {
    let (name, known): (&str, &[&str]) = match kind {
        ArrivalKind::Constant => ("\"constant\"", &["rate"]),
        ArrivalKind::Poisson => ("\"poisson\"", &["rate"]),
        ArrivalKind::Pareto => ("\"pareto\"", &["rate", "shape"]),
        ArrivalKind::OnOff => ("\"on-off\"", &["rate", "off_rate", "on", "off", "lengths", "gaps", "shape"]),
        ArrivalKind::Bursts => ("\"bursts\"", &["burst", "every"]),
        ArrivalKind::Closed => ("\"closed\"", &["outstanding", "think", "thinking", "shape"]),
    };
    refuse_strangers(checker, place, section, known, &format!("arrivals = {name}"));
    let shape = section.shape.unwrap_or(SHAPE_DEFAULT);
    if shape.is_nan() || shape <= 1.0 || shape > 1_000.0 {
        let remedy = "write a number above 1 and up to 1000, as 1.5";
        place.refuse(checker, "shape", format!("{shape} is no tail index with a mean"), remedy);
    }
    let rate = section.rate.map_or(Rate::default(), |rate| rate.0);
    if known.contains(&"rate") && rate.as_millis() == 0 {
        let (message, remedy) = match section.rate {
            Some(_) => ("the rate is 0", "write a rate above 0"),
            None => ("the rate is missing", "add rate = \"100 IOPS\""),
        };
        place.refuse(checker, "rate", message, remedy);
    }
    let mut needed = |key: &str, span: Option<super::TimeText>| match span {
        Some(span) if span.0 > Span::ZERO => span.0,
        _ => {
            let message = format!("{key} is missing or zero");
            place.refuse(checker, key, message, format!("write {key} = \"1 s\" or the like"));
            Span::from_millis(1)
        }
    };
    match kind {
        ArrivalKind::Constant => Pace::Constant(rate),
        ArrivalKind::Poisson => Pace::Poisson(rate),
        ArrivalKind::Pareto => Pace::Pareto { rate, shape },
        ArrivalKind::OnOff => {
            let (on, off) = (needed("on", section.on), needed("off", section.off));
            if section.gaps == Some(LawKind::Pareto) {
                let remedy = "write \"constant\" or \"exponential\"";
                place.refuse(checker, "gaps", "gaps within a phase are not Pareto", remedy);
            }
            Pace::OnOff {
                rate,
                off_rate: section.off_rate.map_or(Rate::default(), |rate| rate.0),
                on: law(section.lengths, on, shape),
                off: law(section.lengths, off, shape),
                poisson: section.gaps == Some(LawKind::Exponential),
            }
        }
        ArrivalKind::Bursts => {
            let every = match section.every {
                Some(_) => needed("every", section.every),
                None => Span::from_nanos(u64::MAX),
            };
            let size = counted(checker, place, "burst", section.burst, u32::MAX);
            Pace::Bursts { size, every }
        }
        ArrivalKind::Closed => {
            let outstanding = counted(checker, place, "outstanding", section.outstanding, OUTSTANDING_MAX);
            let think = section.think.map_or(Span::ZERO, |think| think.0);
            Pace::Closed { outstanding, think: law(section.thinking, think, shape) }
        }
    }
}

fn counted(checker: &mut Checker<'_>, place: &Place<'_>, key: &str, value: Option<u32>, most: u32) -> u32 {
    match value {
        Some(value) if (1..=most).contains(&value) => value,
        _ => {
            let message = format!("{key} is missing or out of range");
            place.refuse(
                checker,
                key,
                message,
                format!("write {key} = 8 or another number from 1 to {most}"),
            );
            1
        }
    }
}

fn law(kind: Option<LawKind>, mean: Span, shape: f64) -> Law {
    match kind {
        None | Some(LawKind::Constant) => Law::Constant(mean),
        Some(LawKind::Exponential) => Law::Exponential(mean),
        Some(LawKind::Pareto) => Law::Pareto { mean, shape },
    }
}

/// Refuses keys that mean nothing for this kind.
fn refuse_strangers(
    checker: &mut Checker<'_>,
    place: &Place<'_>,
    section: &WorkloadSection,
    known: &[&str],
    kind: &str,
) {
    let given = [
        ("rate", section.rate.is_some()),
        ("shape", section.shape.is_some()),
        ("off_rate", section.off_rate.is_some()),
        ("on", section.on.is_some()),
        ("off", section.off.is_some()),
        ("lengths", section.lengths.is_some()),
        ("gaps", section.gaps.is_some()),
        ("burst", section.burst.is_some()),
        ("every", section.every.is_some()),
        ("outstanding", section.outstanding.is_some()),
        ("think", section.think.is_some()),
        ("thinking", section.thinking.is_some()),
        ("format", section.format.is_some()),
        ("volume", section.volume.is_some()),
        ("malformed_max", section.malformed_max.is_some()),
        ("reorder", section.reorder.is_some()),
        ("event", section.event.is_some()),
        ("interval", section.interval.is_some()),
        ("columns", section.columns.is_some()),
        ("access", section.access.is_some() && section.trace.is_some()),
    ];
    for (key, _) in given.iter().filter(|(key, given)| *given && !known.contains(key)) {
        let remedy = format!("remove it; {kind} goes with {}", known.join(", "));
        place.refuse(checker, key, format!("{key} means nothing with {kind}"), remedy);
    }
}

fn access(
    checker: &mut Checker<'_>,
    place: &Place<'_>,
    section: Option<&AccessSection>,
    own: bool,
) -> Access {
    let Some(section) = section else { return Access::default() };
    let mut refuse = |key: &str, message: String, remedy: &str| {
        let inner = ["flow", place.flow, "workload", &place.index, "access", key];
        let outer = ["flow", place.flow, "access", key];
        checker.refuse(if own { &inner } else { &outer }, message, remedy);
    };
    let share = |value: f64| (0.0..=1.0).contains(&value);
    let read = section.read.unwrap_or(1.0);
    if !share(read) {
        refuse("read", format!("{read} is no share"), "write a number from 0 to 1");
    }
    let (sequential, theta) = (section.sequential.unwrap_or(0.5), section.theta.unwrap_or(THETA_DEFAULT));
    if !share(sequential) {
        refuse("sequential", format!("{sequential} is no probability"), "write a number from 0 to 1");
    }
    if theta.is_nan() || theta <= 0.0 || theta > 10.0 {
        refuse("theta", format!("{theta} is no exponent"), "write a number above 0 and up to 10, as 0.99");
    }
    let kind = section.pattern.unwrap_or(PatternKind::Random);
    if section.sequential.is_some() && kind != PatternKind::Mixed {
        refuse(
            "sequential",
            "it belongs to pattern = \"mixed\"".to_owned(),
            "remove it or change the pattern",
        );
    }
    if section.theta.is_some() && kind != PatternKind::Zipf {
        refuse("theta", "it belongs to pattern = \"zipf\"".to_owned(), "remove it or change the pattern");
    }
    let sizes: Vec<u64> =
        section.size.as_ref().map_or(vec![4096], |sizes| sizes.0.iter().map(|size| size.0).collect());
    let largest = sizes.iter().copied().max().unwrap_or(0);
    if sizes.iter().any(|size| *size == 0 || u32::try_from(*size).is_err()) || sizes.is_empty() {
        refuse("size", "no request has that size".to_owned(), "write sizes from 1 B to below 4 GiB");
    }
    let offset = section.offset.map_or(0, |offset| offset.0);
    let extent = section.extent.map_or(1 << 30, |extent| extent.0);
    if extent < largest || offset.checked_add(extent).is_none() {
        refuse("extent", format!("a region of {extent} B does not do"), "make it hold the largest request");
    }
    let pattern = match kind {
        PatternKind::Random => Pattern::Random,
        PatternKind::Sequential => Pattern::Sequential,
        PatternKind::Mixed => Pattern::Mixed(sequential),
        PatternKind::Zipf => Pattern::Zipf(theta),
    };
    let sizes = sizes.iter().filter_map(|size| Some((u32::try_from(*size).ok()?, 1))).collect();
    Access { offset, extent, sizes, read, pattern }
}
