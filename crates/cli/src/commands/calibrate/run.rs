//! The measurement itself.

use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use evenkeel_calibrate::{
    DeviceFacts, DeviceKind, Measurement, ModelTarget, Profile, Sustained, SustainedCourse,
    Target as Measured, measure, sustain,
};
use evenkeel_core::Span;
use evenkeel_device::Spec;
use evenkeel_gateway::calibrate::{FileTarget, device_identity, fill};
use indicatif::ProgressBar;

use super::nbd::NbdTarget;
use super::{BAD_INPUT, DONE, FINDING, RunArgs, date, facts, failed, long_cell, show};
use crate::commands::plan::progress;
use crate::commands::play;
use crate::report::print;

/// Slices of the long run; it is made of a thousand or so, none shorter than this.
const SLICE_MIN: Span = Span::from_millis(10);

/// A file that is removed at the end, however that comes.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            eprintln!("evenkeel: cannot remove {}: {error}; remove it by hand", self.0.display());
        }
    }
}

pub(super) fn run(args: &RunArgs) -> u8 {
    match calibrated(args) {
        Ok(profile) => finish(args, &profile),
        Err(message) => failed(&message, args.json),
    }
}

fn finish(args: &RunArgs, profile: &Profile) -> u8 {
    let Some(out) = &args.out else { return BAD_INPUT };
    if let Err(message) = write(out, args.force, profile) {
        return failed(&message, args.json);
    }
    if args.json {
        print(&format!("{}\n", show::as_json(profile, out)));
    } else {
        print(&show::text(profile));
        print(&format!("written: {}; use it with profile = \"{0}\" in [store.NAME]\n", out.display()));
    }
    let wide = profile.measurements.iter().any(|measurement| !measurement.is_narrow);
    let steady = profile.sustained.is_none_or(|long| long.course == SustainedCourse::Steady);
    if wide || !steady { FINDING } else { DONE }
}

fn calibrated(args: &RunArgs) -> Result<Profile, String> {
    let Some(out) = &args.out else { return Err("--out names no file; write --out FILE".to_owned()) };
    if out.exists() && !args.force {
        return Err(already_there(out));
    }
    match (&args.model, &args.target) {
        (Some(model), _) => {
            let (device, name) = read_model(model)?;
            let size = device.capacity().unwrap_or(1 << 40);
            let facts = DeviceFacts {
                path: name,
                kind: DeviceKind::Model,
                size,
                direct: true,
                identity: device.description().to_owned(),
            };
            measure_all(args, &mut ModelTarget::new(device.build()), (0, size), facts)
        }
        (None, Some(path)) if path.to_str().is_some_and(is_uri) => calibrate_nbd(args, path),
        (None, Some(path)) => calibrate_file(args, path),
        (None, None) => Err("there is nothing to measure; name a file or block device".to_owned()),
    }
}

/// Whether this is the address of an export, and not a path.
fn is_uri(text: &str) -> bool {
    text.starts_with("nbd://") || text.starts_with("nbd+unix://")
}

fn calibrate_nbd(args: &RunArgs, uri: &Path) -> Result<Profile, String> {
    let shown = uri.display().to_string();
    if args.scratch.is_some() {
        return Err(format!("--scratch makes a file, and {shown} is none; use --range and --destroy-data"));
    }
    check_consent(args)?;
    let play::Target { address, export } =
        play::target(&shown).map_err(|error| format!("{shown}: {error}"))?;
    let largest = args.grid().sizes.last().copied().unwrap_or(4096);
    let mut target = NbdTarget::connect(&address, &export, largest).map_err(|error| {
        format!("{shown}: {error}; check the address, the name of the export and that the server runs")
    })?;
    if args.writes && target.is_read_only() {
        return Err(format!("{shown}: the server takes no writes; leave out --writes"));
    }
    let range = range_within(args, target.size(), &shown)?;
    eprintln!(
        "evenkeel: note: over NBD, what is measured is the network, the server and its device together"
    );
    let facts = DeviceFacts {
        path: shown,
        kind: DeviceKind::Nbd,
        size: range.1 - range.0,
        direct: false,
        identity: String::new(),
    };
    measure_all(args, &mut target, range, facts)
}

/// The bytes to stay inside of.
fn range_within(args: &RunArgs, size: u64, name: &str) -> Result<(u64, u64), String> {
    let range = args.range.unwrap_or((0, size));
    if range.1 > size {
        return Err(format!("{name} has {size} bytes; choose a --range inside of them"));
    }
    Ok(range)
}

fn check_consent(args: &RunArgs) -> Result<(), String> {
    if args.writes && args.scratch.is_none() && !(args.destroy_data && args.range.is_some()) {
        return Err("--writes destroys data: say where with --range FROM..TO and that you mean it with \
                    --destroy-data, or measure a new file with --scratch SIZE"
            .to_owned());
    }
    if args.destroy_data && !args.writes {
        return Err("--destroy-data means nothing without --writes; add that, or leave both out".to_owned());
    }
    Ok(())
}

fn calibrate_file(args: &RunArgs, path: &Path) -> Result<Profile, String> {
    check_consent(args)?;
    let scratch = args.scratch.map(|size| make_scratch(path, size)).transpose()?;
    let grid = args.grid();
    let depth = grid.depths.last().copied().unwrap_or(1);
    let largest = grid.sizes.last().copied().unwrap_or(4096);
    let mut target =
        FileTarget::open(path, args.writes, depth, largest).map_err(|error| error.to_string())?;
    let range = range_within(args, target.size(), &path.display().to_string())?;
    if target.allocated() < target.size() && !args.allow_holes {
        return Err(format!(
            "{} has holes: {} of its {} bytes are allocated, and reading the others measures memory; fill it, or \
             add --allow-holes to measure it as it is",
            path.display(),
            target.allocated(),
            target.size()
        ));
    }
    if !target.is_direct() {
        eprintln!(
            "evenkeel: warning: {} cannot bypass the page cache; what is measured is partly memory",
            path.display()
        );
    }
    let facts = DeviceFacts {
        path: path.display().to_string(),
        kind: target.kind(),
        size: range.1 - range.0,
        direct: target.is_direct(),
        identity: device_identity(path),
    };
    let profile = measure_all(args, &mut target, range, facts);
    drop(target);
    drop(scratch);
    profile
}

/// The long run, then the grid.
fn measure_all<T: Measured<Error: Display>>(
    args: &RunArgs,
    target: &mut T,
    range: (u64, u64),
    device: DeviceFacts,
) -> Result<Profile, String> {
    let (grid, goal) = (args.grid(), args.goal());
    let cells = grid.cells();
    let bar = progress(Some(cells.len() as u64), "measuring");
    let sustained = if args.sustain == Span::ZERO { None } else { long_cell(&grid) };
    let sustained = sustained
        .map(|cell| {
            bar.set_message("reading for long");
            let slice = Span::from_nanos(args.sustain.as_nanos() / 1_000).max(SLICE_MIN);
            sustain(target, cell, range, &goal, (args.sustain, slice))
                .map(|rated| Sustained::new(cell, &rated, slice))
                .map_err(|error| error.to_string())
        })
        .transpose()?;
    let mut measurements = Vec::with_capacity(cells.len());
    for cell in cells {
        describe(&bar, cell.writes, cell.bytes, cell.depth);
        let rated = measure(target, cell, range, &goal).map_err(|error| error.to_string())?;
        measurements.push(Measurement::new(cell, &rated));
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(Profile {
        measured_at: date(),
        tool: format!("evenkeel {}", env!("CARGO_PKG_VERSION")),
        host: facts::host(),
        device,
        sustained,
        measurements,
    })
}

fn describe(bar: &ProgressBar, writes: bool, bytes: u32, depth: u32) {
    let kind = if writes { "writing" } else { "reading" };
    bar.set_message(format!("{kind} {} KiB at depth {depth}", bytes >> 10));
}

/// A drive by its name, or a description's file; with what it is called.
fn read_model(model: &str) -> Result<(Spec, String), String> {
    if let Some(spec) = Spec::named(model) {
        return Ok((spec, model.to_owned()));
    }
    let text = fs::read_to_string(model).map_err(|error| {
        let names = Spec::names().collect::<Vec<_>>().join(", ");
        format!("{model}: cannot read it: {error}; name a description's file, or a drive: {names}")
    })?;
    Spec::parse(&text, model).map(|spec| (spec, model.to_owned())).map_err(|error| error.to_string())
}

/// A new file of `size` bytes with data that does not compress.
fn make_scratch(path: &Path, size: u64) -> Result<Scratch, String> {
    if size == 0 || !size.is_multiple_of(1 << 20) {
        return Err("--scratch: write a multiple of 1 MiB, as \"1 GiB\"".to_owned());
    }
    let failed = |error: io::Error| {
        let remedy = "name a file that does not exist, in a folder with enough room";
        format!("--scratch {}: {error}; {remedy}", path.display())
    };
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?;
    let scratch = Scratch(path.to_owned());
    let mut block = vec![0; 1 << 20];
    fill(&mut block);
    for _ in 0..size >> 20 {
        file.write_all(&block).map_err(failed)?;
    }
    file.sync_all().map_err(failed)?;
    Ok(scratch)
}

fn write(out: &Path, force: bool, profile: &Profile) -> Result<(), String> {
    let open = || -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true);
        if force {
            options.create(true).truncate(true)
        } else {
            options.create_new(true)
        };
        options.open(out)
    };
    let written = open().and_then(|mut file| file.write_all(profile.to_string().as_bytes()));
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => already_there(out),
        _ => format!("--out {}: {error}; choose a file that can be written", out.display()),
    })
}

fn already_there(out: &Path) -> String {
    format!("--out {} is there already; choose another name, or add --force", out.display())
}
