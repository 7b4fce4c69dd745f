//! `evenkeel device`: the drives that come with Evenkeel, and what a description of a device says.
//!
//! ```text
//!  NAME ──> drive by name ─┐
//!  FILE ──> text ──────────┴─> Spec ──┬─ people    figures, zones, seek times
//!                                     ├─ --json    the same as one object
//!                                     └─ --svg     seek curve and zones, drawn (device/figure.rs)
//!  FILE.diskspecs ──> disk::disksim ──> description, as TOML
//! ```

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use evenkeel_device::Spec;
use evenkeel_device::disk::seek::Arm;
use evenkeel_device::disk::{ParameterError, Parameters, disksim};
use evenkeel_device::spec::Model;
use serde_json::{Value, json};

use crate::report::{config_error, print, print_error};
use crate::text_table::{Align, text_table};

mod figure;

const EXIT_CODES: &str = "Exit codes:
  0  shown, listed or imported
  2  no such drive, or the description is wrong, or the figure cannot be written";

const SHOWN: u8 = 0;
const BAD_INPUT: u8 = 2;

/// Distances whose seek times are printed, in cylinders, as far as the drive has them.
const DISTANCES: [u32; 12] = [1, 2, 5, 10, 50, 100, 500, 1_000, 2_000, 5_000, 10_000, 20_000];

/// Options of `evenkeel device`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES, arg_required_else_help = true)]
pub(crate) struct DeviceArgs {
    #[command(subcommand)]
    command: DeviceCommand,
}

#[derive(Debug, Subcommand)]
enum DeviceCommand {
    /// List the drives that are known by name
    List {
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Print what a drive or a description of a device is: capacity, speed, zones, seek curve
    #[command(after_help = EXIT_CODES)]
    Show {
        /// A drive's name (`evenkeel device list`), or a file with a description (docs/devices.md)
        #[arg(value_name = "NAME|FILE")]
        device: String,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
        /// Draw a disk's seek curve and zones into this file
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
    },
    /// Print the description of a drive that DiskSim's parameter files describe
    ///
    /// Reads FILE.diskspecs with the .model and the seek curve that it names, from the same folder. What
    /// DiskSim simulates and this model leaves out is told in comments.
    #[command(after_help = EXIT_CODES)]
    Import {
        /// The .diskspecs file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// Does what is asked; the process's exit code.
pub(crate) fn run(args: &DeviceArgs) -> u8 {
    match &args.command {
        DeviceCommand::List { json } => list(*json),
        DeviceCommand::Show { device, json, svg } => exit_code(show(device, *json, svg.as_deref()), *json),
        DeviceCommand::Import { file } => exit_code(import(file), false),
    }
}

fn exit_code(outcome: Result<(), String>, as_json: bool) -> u8 {
    match outcome {
        Ok(()) => SHOWN,
        Err(message) => {
            if !message.is_empty() {
                complain(&message, as_json);
            }
            BAD_INPUT
        }
    }
}

fn import(file: &Path) -> Result<(), String> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| format!("{shown}: {error}"))?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let beside = |name: &str| {
        let path = folder.join(name);
        std::fs::read_to_string(&path)
            .map_err(|error| ParameterError::Syntax(format!("{}: {error}", path.display())))
    };
    let imported = disksim::import(&text, beside).map_err(|error| format!("{shown}: {error}"))?;
    let drive = toml::to_string(&imported.parameters).map_err(|error| format!("{shown}: {error}"))?;
    let left_out: String = imported.left_out.iter().map(|what| format!("# Left out: {what}\n")).collect();
    print(&format!("# From {shown}.\n{left_out}{drive}"));
    Ok(())
}

fn list(as_json: bool) -> u8 {
    let known: Vec<(&str, Spec)> =
        Spec::names().filter_map(|name| Some((name, Spec::named(name)?))).collect();
    if as_json {
        let drive = |(name, spec): &(&str, Spec)| {
            json!({
                "name": name,
                "kind": spec.model().kind(),
                "description": spec.description(),
                "capacity_bytes": spec.capacity(),
            })
        };
        print(&format!("{}\n", json!({ "devices": known.iter().map(drive).collect::<Vec<_>>() })));
        return SHOWN;
    }
    let row = |(name, spec): &(&str, Spec)| {
        let capacity = spec.capacity().map_or_else(String::new, bytes);
        [(*name).to_owned(), spec.model().kind().to_owned(), capacity, spec.description().to_owned()]
    };
    let heads = [
        ("name", Align::Left),
        ("kind", Align::Left),
        ("capacity", Align::Right),
        ("what it is", Align::Left),
    ];
    print(&text_table(heads, &known.iter().map(row).collect::<Vec<_>>()));
    SHOWN
}

/// An error is a sentence that has not been shown yet, or empty if it has.
fn show(device: &str, as_json: bool, svg: Option<&Path>) -> Result<(), String> {
    let spec = read(device, as_json)?;
    if let Some(file) = svg {
        let Model::Disk(disk) = spec.model() else {
            return Err(format!("--svg draws disks, and {device} is of kind {}", spec.model().kind()));
        };
        figure::draw(file, spec.description(), disk).map_err(|error| error.to_string())?;
    }
    print(&if as_json { format!("{}\n", shown_as_json(device, &spec)) } else { shown(device, &spec) });
    Ok(())
}

fn read(device: &str, as_json: bool) -> Result<Spec, String> {
    let text = match Spec::text_of(device) {
        Some(text) => text.to_owned(),
        None => std::fs::read_to_string(device).map_err(|error| {
            let names: Vec<&str> = Spec::names().collect();
            format!("{device}: neither a drive's name nor a file: {error}; known are {}", names.join(", "))
        })?,
    };
    Spec::parse(&text, device).map_err(|error| {
        config_error(&error, as_json);
        String::new()
    })
}

fn complain(message: &str, as_json: bool) {
    if as_json {
        print(&format!("{}\n", json!({ "ok": false, "message": message })));
    } else {
        print_error(&format!("error: {message}\n"));
    }
}

fn shown(device: &str, spec: &Spec) -> String {
    let mut lines = vec![("kind", spec.model().kind().to_owned())];
    lines.extend(spec.capacity().map(|capacity| ("capacity", bytes(capacity))));
    lines.extend(spec.sources().iter().map(|source| ("source", source.clone())));
    let mut text = match spec.description() {
        "" => format!("{device}\n"),
        description => format!("{device}: {description}\n"),
    };
    if let Model::Disk(disk) = spec.model() {
        lines.extend(figures(disk));
    }
    for (name, value) in lines {
        text.push_str(&format!("  {name:<12} {value}\n"));
    }
    if let Model::Disk(disk) = spec.model() {
        text.push_str("\nSeek times for reads:\n");
        text.push_str(&seek_table(disk));
        text.push_str("\nZones, from the outer edge:\n");
        text.push_str(&zone_table(disk));
    }
    text
}

/// The figures of a disk that are one line each.
fn figures(disk: &Parameters) -> Vec<(&'static str, String)> {
    let cache = &disk.cache;
    let buffer = match cache.segments {
        0 => "none".to_owned(),
        count => {
            let each = bytes(u64::from(cache.segment_sectors) * u64::from(disk.sector_bytes));
            let writes = if cache.write_buffering { ", also for writes" } else { "" };
            format!("{count} segments of {each}{writes}")
        }
    };
    vec![
        ("rotation", format!("{} rpm, {} ms a turn", disk.rpm, ms(60_000_000_000 / u64::from(disk.rpm)))),
        ("heads", format!("{} on {} cylinders", disk.heads, disk.cylinders)),
        ("head switch", format!("{} ms", ms(disk.head_switch_ns))),
        ("for a write", format!("{} ms more to settle", ms(disk.write_settle_ns))),
        ("mean seek", format!("{} ms between random cylinders", ms(mean_seek_ns(disk)))),
        ("bus", format!("{} ms a sector", ms(disk.bus.sector_ns))),
        ("buffer", buffer),
    ]
}

fn seek_table(disk: &Parameters) -> String {
    let arm = Arm::new(disk);
    let longest = disk.cylinders - 1;
    let distances = DISTANCES.into_iter().filter(|distance| *distance < longest).chain([longest]);
    let rows: Vec<_> = distances.map(|distance| [distance.to_string(), ms(arm.seek_ns(distance))]).collect();
    text_table([("cylinders", Align::Right), ("ms", Align::Right)], &rows)
}

fn zone_table(disk: &Parameters) -> String {
    let rows: Vec<_> = disk
        .zone
        .iter()
        .map(|zone| {
            let (first, last) = zone.cylinders;
            let tracks = u64::from(last - first + 1) * u64::from(disk.heads);
            let track = u64::from(zone.sectors_per_track) * u64::from(disk.sector_bytes);
            [
                format!("{first}–{last}"),
                zone.sectors_per_track.to_string(),
                bytes(tracks * track),
                format!("{:.1} MB/s", track as f64 * f64::from(disk.rpm) / 60e6),
                zone.slipped.len().to_string(),
            ]
        })
        .collect();
    let heads = [
        ("cylinders", Align::Left),
        ("sectors on a track", Align::Right),
        ("holds", Align::Right),
        ("passes at", Align::Right),
        ("slipped", Align::Right),
    ];
    text_table(heads, &rows)
}

fn shown_as_json(device: &str, spec: &Spec) -> Value {
    let mut shown = json!({
        "name": device,
        "kind": spec.model().kind(),
        "description": spec.description(),
        "sources": spec.sources(),
        "capacity_bytes": spec.capacity(),
    });
    if let Model::Disk(disk) = spec.model() {
        shown["mean_seek_ns"] = json!(mean_seek_ns(disk));
        shown["revolution_ns"] = json!(60_000_000_000 / u64::from(disk.rpm));
        // Numbers, texts and lists of them: there is nothing that JSON cannot hold.
        shown["parameters"] = serde_json::to_value(disk.as_ref()).unwrap_or(Value::Null);
    }
    shown
}

/// The mean over all pairs of different cylinders.
fn mean_seek_ns(disk: &Parameters) -> u64 {
    let arm = Arm::new(disk);
    let cylinders = u128::from(disk.cylinders);
    let sum: u128 = (1..disk.cylinders)
        .map(|distance| (cylinders - u128::from(distance)) * u128::from(arm.seek_ns(distance)))
        .sum();
    let pairs = cylinders * (cylinders - 1) / 2;
    (sum / pairs.max(1)) as u64
}

/// Nanoseconds as milliseconds, all of their digits that are not zeros at the end, but three.
fn ms(nanos: u64) -> String {
    let text = format!("{}.{:06}", nanos / 1_000_000, nanos % 1_000_000);
    let digits = text.trim_end_matches('0').len().max(text.len() - 3);
    text[..digits].to_owned()
}

fn bytes(bytes: u64) -> String {
    match bytes {
        0..10_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        10_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_keep_every_digit() {
        assert_eq!(ms(831_000), "0.831");
        assert_eq!(ms(283_620), "0.28362");
        assert_eq!(ms(4_000_000), "4.000");
        assert_eq!(ms(1), "0.000001");
    }

    #[test]
    fn the_mean_seek_is_that_of_all_pairs() {
        let Some(Model::Disk(mut disk)) = Spec::named("ibm18es").map(|spec| spec.model().clone()) else {
            panic!("it is a disk")
        };
        disk.cylinders = 3;
        disk.seek_ns = vec![(1, 100), (2, 400)];
        // Two pairs are one apart, one pair is two apart.
        assert_eq!(mean_seek_ns(&disk), 200);
    }
}
