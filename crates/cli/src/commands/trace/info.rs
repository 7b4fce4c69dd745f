//! `evenkeel trace info` and `formats`: what a trace is like, and which formats there are.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use evenkeel_trace::statistics::{Counts, Spread, Statistics};
use evenkeel_trace::write::WRITABLE;
use evenkeel_trace::{Compression, Confidence, Format, Reader};
use serde_json::{Value, json};

use super::input::{InputArgs, for_each};
use super::units::{shown_bytes, shown_nanos};
use super::{EXIT_CODES, Problem, figure, finish, warn_malformed};
use crate::report::print;
use crate::text_table::{Align, text_table};

/// Volumes that the text shows; the busiest.
const VOLUMES_SHOWN: usize = 16;

/// Options of `evenkeel trace info`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct InfoArgs {
    /// The trace
    file: PathBuf,
    /// Draw arrivals over time, sizes and addresses into this SVG file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    input: InputArgs,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Options of `evenkeel trace formats`.
#[derive(Debug, Args)]
pub(super) struct FormatsArgs {
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Says what the trace is like; the process's exit code.
pub(super) fn run(args: &InfoArgs) -> u8 {
    finish(info(args), args.json)
}

fn info(args: &InfoArgs) -> Result<(String, Value, u64), Problem> {
    let mut reader = args.input.open(&args.file)?;
    let mut statistics = Statistics::new();
    for_each(&mut reader, args.json, |request, _| {
        statistics.add(request);
        Ok(true)
    })?;
    if let Some(svg) = &args.svg {
        figure::draw(svg, &args.file, &statistics)
            .map_err(|error| Problem::new(Some(svg.clone()), error, "check the path and its permissions"))?;
    }
    let malformed = warn_malformed(&reader, args.json);
    Ok((text(&reader, &statistics), object(&reader, &statistics), malformed))
}

fn text(reader: &Reader, statistics: &Statistics) -> String {
    let report = reader.report();
    let all = statistics.all();
    let compression = match report.compression {
        Compression::None => "",
        Compression::Gzip => ", gzip",
        Compression::Zstd => ", zstd",
    };
    let mut text = format!("{}\n", reader.file().display());
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:<14}{value}");
    };
    line("format", format!("{}{compression} ({})", report.format, report.confidence));
    let lines = format!("{} requests from {} lines or records", report.requests, report.lines);
    line("requests", format!("{lines}, {} skipped, {} malformed", report.skipped, report.malformed));
    line("span", shown_nanos(statistics.span().as_nanos() as f64));
    let others =
        if all.others() > 0 { format!(", {} flushes and trims", all.others()) } else { String::new() };
    line("reads", format!("{:.1} % of requests{others}", all.read_share() * 100.0));
    let (read, written) = (shown_bytes(all.read_bytes as f64), shown_bytes(all.written_bytes as f64));
    line("moved", format!("{read} read, {written} written"));
    line("rate", format!("{:.1} IOPS in the mean", statistics.mean_iops()));
    let peak = |window: &evenkeel_trace::statistics::Window| {
        format!("{} in {} ({:.0} IOPS)", window.peak(), window.length(), window.peak_iops())
    };
    line("peaks", statistics.windows().iter().map(peak).collect::<Vec<_>>().join(", "));
    let dispersion = statistics.windows().last().map_or(0.0, |window| window.dispersion());
    let burst = format!("gaps' variation² {:.2}", statistics.gaps().variation_squared());
    line("burstiness", format!("{burst}, dispersion at 1 s {dispersion:.2} (1 and 1: Poisson)"));
    line("gaps", quantiles(statistics.gaps(), shown_nanos));
    line("sizes", quantiles(statistics.sizes(), shown_bytes));
    let data = (all.reads + all.writes).max(1) as f64;
    let near = all.near_sequential as f64 / data * 100.0;
    line("sequential", format!("{:.1} %, nearly {near:.1} %", all.sequential_share() * 100.0));
    let (footprint, extent) = (statistics.footprint_bytes() as f64, all.extent as f64);
    line("footprint", format!("about {}, up to address {}", shown_bytes(footprint), shown_bytes(extent)));
    if report.rounded > 0 {
        line("rounded", format!("{} times were finer than a nanosecond", report.rounded));
    }
    if report.unterminated {
        line("note", "the last line lacks its newline: it may have been cut off".to_owned());
    }
    text.push('\n');
    text + &volumes(reader, statistics)
}

fn quantiles(spread: &Spread, shown: impl Fn(f64) -> String) -> String {
    let at = |share| shown(spread.quantile(share) as f64);
    format!(
        "mean {}, least {}, p50 {}, p95 {}, p99 {}, most {}",
        shown(spread.mean()),
        shown(spread.least() as f64),
        at(0.5),
        at(0.95),
        at(0.99),
        shown(spread.most() as f64)
    )
}

fn volumes(reader: &Reader, statistics: &Statistics) -> String {
    let mut all: Vec<(&String, &Counts)> = reader.volumes().iter().zip(statistics.volumes()).collect();
    all.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.requests));
    let row = |(name, counts): &(&String, &Counts)| {
        let data = counts.reads + counts.writes;
        [
            (*name).clone(),
            counts.requests.to_string(),
            format!("{:.1} %", counts.read_share() * 100.0),
            shown_bytes((counts.read_bytes + counts.written_bytes) as f64 / data.max(1) as f64),
            format!("{:.1} %", counts.sequential_share() * 100.0),
            shown_bytes(counts.extent as f64),
        ]
    };
    let rows: Vec<[String; 6]> = all.iter().take(VOLUMES_SHOWN).map(row).collect();
    let heads = [
        ("volume", Align::Left),
        ("requests", Align::Right),
        ("reads", Align::Right),
        ("mean size", Align::Right),
        ("sequential", Align::Right),
        ("extent", Align::Right),
    ];
    let mut text = text_table(heads, &rows);
    if all.len() > rows.len() {
        let _ = writeln!(text, "  and {} more", all.len() - rows.len());
    }
    text
}

fn object(reader: &Reader, statistics: &Statistics) -> Value {
    let report = reader.report();
    let confidence = match report.confidence {
        Confidence::Named => json!({ "level": "named" }),
        Confidence::Certain => json!({ "level": "certain" }),
        Confidence::Likely { fitting, examined } => {
            json!({ "level": "likely", "fitting": fitting, "examined": examined })
        }
    };
    let compression = match report.compression {
        Compression::None => "none",
        Compression::Gzip => "gzip",
        Compression::Zstd => "zstd",
    };
    let malformed: Vec<Value> = report
        .malformed_lines
        .iter()
        .map(|line| json!({ "line": line.place.number(), "message": line.fault }))
        .collect();
    let windows: Vec<Value> = statistics
        .windows()
        .iter()
        .map(|window| {
            json!({
                "length_us": window.length().as_nanos() / 1_000,
                "peak_requests": window.peak(),
                "peak_iops": window.peak_iops(),
                "dispersion": window.dispersion(),
            })
        })
        .collect();
    let volumes: Vec<Value> = reader
        .volumes()
        .iter()
        .zip(statistics.volumes())
        .map(|(name, counts)| {
            let mut object = counts_object(counts);
            object["name"] = json!(name);
            object
        })
        .collect();
    let sizes: Vec<Value> = statistics
        .sizes()
        .powers()
        .into_iter()
        .map(|(from, count)| json!({ "from_bytes": from, "requests": count }))
        .collect();
    json!({
        "file": reader.file().to_string_lossy(),
        "format": report.format.name(),
        "confidence": confidence,
        "compression": compression,
        "lines": report.lines,
        "skipped": report.skipped,
        "malformed": report.malformed,
        "malformed_lines": malformed,
        "rounded_times": report.rounded,
        "unterminated": report.unterminated,
        "span_us": statistics.span().as_nanos() as f64 / 1e3,
        "mean_iops": statistics.mean_iops(),
        "windows": windows,
        "gaps_ns": spread_object(statistics.gaps()),
        "sizes_bytes": spread_object(statistics.sizes()),
        "size_histogram": sizes,
        "footprint_bytes": statistics.footprint_bytes(),
        "all": counts_object(statistics.all()),
        "volumes": volumes,
    })
}

fn counts_object(counts: &Counts) -> Value {
    json!({
        "requests": counts.requests,
        "reads": counts.reads,
        "writes": counts.writes,
        "read_bytes": counts.read_bytes,
        "written_bytes": counts.written_bytes,
        "sequential": counts.sequential,
        "near_sequential": counts.near_sequential,
        "extent_bytes": counts.extent,
    })
}

fn spread_object(spread: &Spread) -> Value {
    json!({
        "mean": spread.mean(),
        "variation_squared": spread.variation_squared(),
        "least": spread.least(),
        "p50": spread.quantile(0.5),
        "p95": spread.quantile(0.95),
        "p99": spread.quantile(0.99),
        "most": spread.most(),
    })
}

/// Lists the formats; the process's exit code.
pub(super) fn formats(args: &FormatsArgs) -> u8 {
    let writable = |format: Format| WRITABLE.contains(&format);
    if args.json {
        let row = |format: Format| json!({ "name": format.name(), "layout": format.layout(), "writable": writable(format) });
        print(&format!("{}\n", json!({ "formats": Format::ALL.map(row) })));
    } else {
        let row = |format: Format| {
            let use_ = if writable(format) { "read, write" } else { "read" };
            [format.name().to_owned(), use_.to_owned(), format.layout().to_owned()]
        };
        let heads = [("format", Align::Left), ("", Align::Left), ("layout", Align::Left)];
        print(&text_table(heads, &Format::ALL.map(row)));
    }
    super::WHOLE
}
