//! A profile from text: strict, with every problem at once.

use std::path::{Path, PathBuf};

use evenkeel_core::{Rate, Span};
use evenkeel_strict::{ConfigError, Item, Problem, Report, Table, document};

use crate::measure::{Cell, Pattern};
use crate::profile::{
    DeviceFacts, DeviceKind, HostFacts, Measurement, Profile, Sustained, SustainedCourse, UNIT_BYTES, VERSION,
};

const REMEDY: &str = "write the profile anew with `evenkeel calibrate`";
/// The most measurements of a profile.
const MEASUREMENTS_MAX: usize = 10_000;

/// Reads `text` as the content of `file`, which need not exist.
///
/// # Errors
/// Every problem of the text, each with its place and remedy; also if nothing can be derived from it
/// (see [`Profile::derived`]).
pub fn parse(text: &str, file: &Path) -> Result<Profile, ConfigError> {
    read(text).map_err(|problems| ConfigError::new(PathBuf::from(file), text.to_owned(), problems))
}

fn read(text: &str) -> Result<Profile, Vec<Problem>> {
    let root = document(text)?;
    let mut report = Report::default();
    let mut root = Table::new(String::new(), 0..0, root.get_ref());
    if !check_version(&mut report, &mut root) {
        // Another version has other keys; complaints about them would lead astray.
        return Err(report.problems);
    }
    let profile = read_root(&mut report, &mut root);
    root.finish(&mut report);
    let Some(profile) = profile.filter(|_| report.problems.is_empty()) else { return Err(report.problems) };
    if profile.derived().is_none() {
        let message = "random reads of 4 KiB have not been measured, or none completed";
        report.add(0..0, "grid.measurements", message, REMEDY);
        return Err(report.problems);
    }
    Ok(profile)
}

fn check_version(report: &mut Report, root: &mut Table<'_>) -> bool {
    let Some(item) = root.require(report, "version", "name a profile that `evenkeel calibrate` has written")
    else {
        return false;
    };
    let Some(version) = item.whole(report, 1..=u32::MAX) else { return false };
    if version != VERSION {
        let message = format!("this is version {version} of the format, and only {VERSION} is known here");
        item.refuse(report, message, REMEDY);
    }
    version == VERSION
}

fn read_root(report: &mut Report, root: &mut Table<'_>) -> Option<Profile> {
    let measured_at = text(report, root, "measured_at");
    let tool = text(report, root, "tool");
    let host = section(report, root, "host").and_then(|table| read_host(report, table));
    let device = section(report, root, "device").and_then(|table| read_device(report, table));
    let sustained = root.take("sustained");
    let has_sustained = sustained.is_some();
    let sustained = sustained.and_then(|item| item.table(report, REMEDY));
    let sustained = sustained.and_then(|table| read_sustained(report, table));
    let measurements = section(report, root, "grid").and_then(|table| read_grid(report, table));
    if has_sustained && sustained.is_none() {
        return None;
    }
    Some(Profile {
        measured_at: measured_at?,
        tool: tool?,
        host: host?,
        device: device?,
        sustained,
        measurements: measurements?,
    })
}

fn read_host(report: &mut Report, mut table: Table<'_>) -> Option<HostFacts> {
    let name = text(report, &mut table, "name");
    let kernel = text(report, &mut table, "kernel");
    let processor = text(report, &mut table, "processor");
    let processors = table.require(report, "processors", REMEDY);
    let processors = processors.and_then(|item| item.whole(report, 1..=1_000_000));
    table.finish(report);
    Some(HostFacts { name: name?, kernel: kernel?, processor: processor?, processors: processors? })
}

fn read_device(report: &mut Report, mut table: Table<'_>) -> Option<DeviceFacts> {
    let kinds = [DeviceKind::File, DeviceKind::BlockDevice, DeviceKind::Model, DeviceKind::Nbd]
        .map(|kind| (kind.name(), kind));
    let path = text(report, &mut table, "path");
    let kind = table.require(report, "kind", REMEDY).and_then(|item| item.choice(report, &kinds));
    let size = table.require(report, "size", REMEDY).and_then(|item| item.bytes(report));
    let direct = table.require(report, "direct", REMEDY).and_then(|item| item.flag(report));
    let identity = text(report, &mut table, "identity");
    table.finish(report);
    Some(DeviceFacts { path: path?, kind: kind?, size: size?, direct: direct?, identity: identity? })
}

fn read_sustained(report: &mut Report, mut table: Table<'_>) -> Option<Sustained> {
    let measurement = table.require(report, "measurement", REMEDY);
    let measurement = measurement.and_then(|item| read_measurement(report, &item));
    let words = [("steady", 0), ("burst credit", 1), ("drift", 2)];
    let course = table.require(report, "course", REMEDY).and_then(|item| item.choice(report, &words));
    let course = course.and_then(|course| match course {
        1 => {
            let before = table.require(report, "before", REMEDY).and_then(|item| item.rate(report));
            let lasted = table.require(report, "lasted", REMEDY).and_then(|item| item.time(report));
            Some(SustainedCourse::BurstCredit { before: before?, lasted: lasted? })
        }
        2 => {
            let item = table.require(report, "change_permille", REMEDY)?;
            let permille = item
                .value
                .as_integer()
                .and_then(|number| i32::from_str_radix(number.as_str(), number.radix()).ok());
            if permille.is_none() {
                item.refuse(report, "a whole number is needed", REMEDY);
            }
            Some(SustainedCourse::Drift { permille: permille? })
        }
        _ => Some(SustainedCourse::Steady),
    });
    table.finish(report);
    Some(Sustained { measurement: measurement?, course: course? })
}

fn read_grid(report: &mut Report, mut table: Table<'_>) -> Option<Vec<Measurement>> {
    let item = table.require(report, "measurements", REMEDY);
    table.finish(report);
    let item = item?;
    let rows = item.list(report, REMEDY)?;
    if rows.len() > MEASUREMENTS_MAX {
        item.refuse(report, format!("there are more than {MEASUREMENTS_MAX} measurements"), REMEDY);
        return None;
    }
    let mut measurements: Vec<Measurement> = Vec::new();
    let mut whole = true;
    for row in rows {
        match read_measurement(report, &row) {
            Some(measurement) => measurements.push(measurement),
            None => whole = false,
        }
    }
    let mut cells: Vec<Cell> = measurements.iter().map(|measurement| measurement.cell).collect();
    cells.sort_unstable();
    if cells.windows(2).any(|pair| pair[0] == pair[1]) {
        item.refuse(report, "the same cell is there twice", "keep one of them");
        whole = false;
    }
    whole.then_some(measurements)
}

fn read_measurement(report: &mut Report, item: &Item<'_>) -> Option<Measurement> {
    let mut table = item.table(report, REMEDY)?;
    let patterns = [Pattern::Random, Pattern::Sequential].map(|pattern| (pattern.name(), pattern));
    let kinds = [("read", false), ("write", true)];
    let writes = table.require(report, "operation", REMEDY).and_then(|item| item.choice(report, &kinds));
    let pattern = table.require(report, "pattern", REMEDY).and_then(|item| item.choice(report, &patterns));
    let bytes = table.require(report, "size", REMEDY).and_then(|item| read_size(report, &item));
    let depth = table.require(report, "depth", REMEDY).and_then(|item| item.whole(report, 1..=32_768));
    let low = rate(report, &mut table, "low");
    let mean = rate(report, &mut table, "rate");
    let high = rate(report, &mut table, "high");
    let time = table.require(report, "time", REMEDY).and_then(|item| item.time(report));
    let is_narrow = table.require(report, "narrow", REMEDY).and_then(|item| item.flag(report));
    table.finish(report);
    let (low, rate, high) = (low?, mean?, high?);
    if low > rate || rate > high {
        let message = format!("{rate} is not between its bounds, {low} and {high}");
        item.refuse(report, message, REMEDY);
        return None;
    }
    let cell = Cell { writes: writes?, pattern: pattern?, bytes: bytes?, depth: depth? };
    let time: Span = time?;
    Some(Measurement { cell, rate, low, high, time, is_narrow: is_narrow? })
}

fn read_size(report: &mut Report, item: &Item<'_>) -> Option<u32> {
    let bytes = item.bytes(report)?;
    let found = u32::try_from(bytes).ok().filter(|bytes| *bytes > 0 && bytes.is_multiple_of(UNIT_BYTES));
    if found.is_none() {
        item.refuse(
            report,
            format!("{bytes} B is no size of an access"),
            "write a multiple of 4 KiB below 4 GiB",
        );
    }
    found
}

fn rate(report: &mut Report, table: &mut Table<'_>, name: &'static str) -> Option<Rate> {
    table.require(report, name, REMEDY)?.rate(report)
}

fn text(report: &mut Report, table: &mut Table<'_>, name: &'static str) -> Option<String> {
    table.require(report, name, REMEDY)?.text(report).map(str::to_owned)
}

fn section<'t>(report: &mut Report, table: &mut Table<'t>, name: &'static str) -> Option<Table<'t>> {
    table.require(report, name, REMEDY)?.table(report, REMEDY)
}
