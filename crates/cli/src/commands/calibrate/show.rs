//! `evenkeel calibrate show`: a profile for people, as JSON, and as a figure.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use evenkeel_calibrate::{Measurement, Profile, SustainedCourse};
use evenkeel_core::{Operation, Rate};
use evenkeel_strict::ShownBytes;
use serde_json::{Value, json};

use super::{BAD_INPUT, DONE, failed, figure, load};
use crate::report::{config_error, print};
use crate::text_table::{Align, text_table};

/// Options of `evenkeel calibrate show`.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes:\n  0  shown\n  2  the profile cannot be read or is wrong")]
pub(super) struct ShowArgs {
    /// The profile
    profile: PathBuf,
    /// Draw IOPS against depth and against size into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &ShowArgs) -> u8 {
    let profile = match load(&args.profile) {
        Ok(profile) => profile,
        Err(error) => {
            config_error(&error, args.json);
            return BAD_INPUT;
        }
    };
    if let Some(svg) = &args.svg
        && let Err(error) = figure::draw(svg, &profile)
    {
        return failed(&format!("--svg {}: {error}", svg.display()), args.json);
    }
    if args.json {
        print(&format!("{}\n", as_json(&profile, &args.profile)));
    } else {
        print(&text(&profile));
    }
    DONE
}

/// The profile for people.
pub(super) fn text(profile: &Profile) -> String {
    let device = &profile.device;
    let mut text = format!("{}, {} of {}", device.path, device.kind.name(), ShownBytes(device.size));
    for words in [device.identity.as_str(), if device.direct { "" } else { "through the page cache" }] {
        if !words.is_empty() {
            let _ = write!(text, ", {words}");
        }
    }
    let host = &profile.host;
    let _ = writeln!(text, "\nmeasured {} on {}, {}", profile.measured_at, host.name, host.kernel);
    let _ = writeln!(text, "{}\n", course(profile));
    let rows: Vec<[String; 7]> = profile.measurements.iter().map(row).collect();
    let heads = [
        ("access", Align::Left),
        ("size", Align::Right),
        ("depth", Align::Right),
        ("IOPS", Align::Right),
        ("95 % interval", Align::Right),
        ("MB/s", Align::Right),
        ("mean time", Align::Right),
    ];
    text += &text_table(heads, &rows);
    if profile.measurements.iter().any(|measurement| !measurement.is_narrow) {
        text += "  * wider than was asked for: give it more time, or look for other load\n";
    }
    if let Some(derived) = profile.derived() {
        let _ =
            writeln!(text, "\na store takes from it: capacity {}, depth {}", derived.capacity, derived.depth);
        for (name, operation) in [("read", Operation::Read), ("write", Operation::Write)] {
            let price = derived.cost.price(operation);
            let points: Vec<String> = price
                .points()
                .iter()
                .map(|point| format!("\"{}\" = {}", ShownBytes(u64::from(point.bytes)), point.cost))
                .collect();
            let _ = match points.is_empty() {
                true => writeln!(text, "  cost of a {name}: {}", price.of(0)),
                false => writeln!(text, "  cost of a {name}: {{ {} }}", points.join(", ")),
            };
        }
    }
    text
}

/// The long run in a sentence.
fn course(profile: &Profile) -> String {
    let Some(long) = &profile.sustained else {
        return "no long run: credits and drift are not known".to_owned();
    };
    let (rate, time) = (long.measurement.rate, seconds(long.measurement.time.as_secs_f64()));
    match long.course {
        SustainedCourse::Steady => format!("steady at {rate} over {time}"),
        SustainedCourse::BurstCredit { before, lasted } => {
            let credit = long.credit().map_or(0.0, |credit| credit.as_f64());
            format!(
                "burst credit: {before} for {}, then {rate} (a credit of about {credit:.0} accesses)",
                seconds(lasted.as_secs_f64())
            )
        }
        SustainedCourse::Drift { permille } => {
            format!("drift: {:+.1} % within {time}, mean {rate}", f64::from(permille) / 10.0)
        }
    }
}

fn seconds(seconds: f64) -> String {
    format!("{seconds:.1} s")
}

fn row(measurement: &Measurement) -> [String; 7] {
    let Measurement { cell, rate, low, high, is_narrow, .. } = measurement;
    let mark = if *is_narrow { "" } else { " *" };
    [
        format!("{} {}", cell.pattern.name(), if cell.writes { "write" } else { "read" }),
        ShownBytes(u64::from(cell.bytes)).to_string(),
        cell.depth.to_string(),
        format!("{:.1}", rate.as_f64()),
        format!("{:.1} to {:.1}{mark}", low.as_f64(), high.as_f64()),
        format!("{:.1}", rate.as_f64() * f64::from(cell.bytes) / 1e6),
        measurement.latency().map_or("-".to_owned(), |span| format!("{:.3} ms", span.as_secs_f64() * 1e3)),
    ]
}

/// The profile as an object.
pub(super) fn as_json(profile: &Profile, file: &Path) -> Value {
    let measurement = |it: &Measurement| {
        json!({
            "operation": if it.cell.writes { "write" } else { "read" },
            "pattern": it.cell.pattern.name(),
            "bytes": it.cell.bytes,
            "depth": it.cell.depth,
            "rate_iops": it.rate.as_f64(),
            "low_iops": it.low.as_f64(),
            "high_iops": it.high.as_f64(),
            "time_s": it.time.as_secs_f64(),
            "narrow": it.is_narrow,
        })
    };
    let sustained = profile.sustained.as_ref().map(|long| {
        let (course, before, lasted, permille) = match long.course {
            SustainedCourse::Steady => ("steady", None, None, None),
            SustainedCourse::BurstCredit { before, lasted } => {
                ("burst credit", Some(before.as_f64()), Some(lasted.as_secs_f64()), None)
            }
            SustainedCourse::Drift { permille } => ("drift", None, None, Some(permille)),
        };
        json!({
            "measurement": measurement(&long.measurement),
            "course": course,
            "before_iops": before,
            "lasted_s": lasted,
            "credit_requests": long.credit().map(|credit| credit.as_f64()),
            "change_permille": permille,
        })
    });
    let derived = profile.derived();
    json!({
        "ok": true,
        "profile": file.to_string_lossy(),
        "measured_at": profile.measured_at,
        "tool": profile.tool,
        "host": { "name": profile.host.name, "kernel": profile.host.kernel,
            "processor": profile.host.processor, "processors": profile.host.processors },
        "device": { "path": profile.device.path, "kind": profile.device.kind.name(),
            "bytes": profile.device.size, "direct": profile.device.direct, "identity": profile.device.identity },
        "sustained": sustained,
        "measurements": profile.measurements.iter().map(measurement).collect::<Vec<_>>(),
        "capacity_iops": derived.as_ref().map(|derived| Rate::as_f64(derived.capacity)),
        "depth": derived.as_ref().map(|derived| derived.depth),
    })
}
