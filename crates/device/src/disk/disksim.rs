//! Drives from DiskSim's parameter files: `.diskspecs` with the `.model` and the seek curve that it names.
//!
//! ```text
//!  NAME.diskspecs ── Model = source NAME.model ──> layout, mechanics ── Full seek curve = NAME.seek
//!        └───────────── text ──> entries (key = value, lists, blocks) ──> Parameters
//! ```
//!
//! The format is libparam's: `key = value` with commas between, values being numbers, words, `[lists]` and
//! `name { blocks }`; `#` begins a comment. Keys and their meaning: Bucy, Schindler, Schlosser, Ganger et
//! al., "The DiskSim Simulation Environment Version 4.0 Reference Manual", CMU-PDL-08-101, 2008.

use super::layout::Layout;
use super::parameters::{
    Angle, Bus, COUNT_MAX, Cache, HeadOrder, Kind, Overheads, ParameterError, Parameters, Queue, ReadAhead,
    Sectors, Zone,
};

/// Blocks within blocks are read this deep.
const NESTING_MAX: u32 = 16;

/// What DiskSim can have and is left out here, unless it has these values.
const LEFT_OUT: [(&str, f64); 16] = [
    ("Per-request overhead time", 0.0),
    ("Time scale for overheads", 1.0),
    ("Hold bus entire read xfer", 0.0),
    ("Hold bus entire write xfer", 0.0),
    ("Allow sneaky full read hits", 0.0),
    ("Allow sneaky partial read hits", 0.0),
    ("Allow sneaky intermediate read hits", 0.0),
    ("Allow write prebuffering", 0.0),
    ("Preseeking level", 0.0),
    ("Data preparation overhead", 0.0),
    ("Read disconnect afterread", 0.0),
    ("Read disconnect afterwrite", 0.0),
    ("Write disconnect overhead", 0.0),
    ("Minimum seek delay", 0.0),
    // A request is read or written from its first sector on, not from whichever comes first.
    ("Immediate buffer read", 0.0),
    ("Immediate buffer write", 0.0),
];

const READ_MARK: &str = "High (read) water mark";

/// Below zero on a few drives, whose writes are ready before their reads; that is left out.
const WRITE_SETTLE: &str = "Add. write settling delay";

/// Slipped sectors of a zone, at most.
const SLIPPED_MAX: u64 = 1 << 20;

/// Older files do without it.
const LEAST_AHEAD: &str = "Minimum read-ahead (blks)";

/// A drive that was read, and what of it could not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The drive.
    pub parameters: Parameters,
    /// `key = value` of what DiskSim would simulate and this model leaves out.
    pub left_out: Vec<String>,
}

/// A drive as DiskSim describes it. `text` is the `.diskspecs` file; `file` gives the content of the files
/// that it names.
///
/// # Errors
/// If a text is not in the format, a key is missing, or the drive has something that is not modelled here
/// (an unusual mapping or sparing scheme, a seek curve by three points); the key is named.
pub fn import(
    text: &str,
    mut file: impl FnMut(&str) -> Result<String, ParameterError>,
) -> Result<Imported, ParameterError> {
    let (name, spec) = first_block(text)?;
    let model_text = match spec.find("Model")? {
        Value::Word(word) => Some(file(source(word, "Model")?)?),
        _ => None,
    };
    let model = match (&model_text, spec.find("Model")?) {
        (Some(text), _) => first_block(text)?.1,
        (None, Value::Block(_, block)) => block.clone(),
        (None, _) => return Err(refuse("Model", "it is neither a file nor a block", "correct the file")),
    };
    let mechanics = model.block("Mechanical Model", "dm_mech_g1")?;
    let cylinders = model.whole("Number of cylinders")?;
    let seek_ns = match mechanics.word("Seek type")? {
        "extracted" | "5" => seek_points(&file(mechanics.word("Full seek curve")?)?)?,
        "hpl" => seek_formula(mechanics, &[], cylinders)?,
        "hplplus10" => seek_formula(mechanics, &mechanics.list("First ten seek times")?, cylinders)?,
        other => {
            let problem = format!("a seek curve of type {other} is not modelled");
            return Err(refuse("Seek type", &problem, "give measured points, `Seek type = extracted`"));
        }
    };
    let blocks = model.block("Layout Model", "dm_layout_g1")?;
    let (ranges, zone) = layout(blocks)?;
    let mut parameters = Parameters {
        kind: Kind::Disk,
        description: name,
        sources: vec!["DiskSim parameter files".to_owned()],
        sector_bytes: 512,
        heads: model.whole("Number of data surfaces")?,
        cylinders,
        capacity_sectors: model.whole("Block count")?,
        rpm: mechanics.whole("Rotation speed (in rpms)")?,
        angle: Angle::Exact,
        spare_range_cylinders: ranges.filter(|ranges| !ranges.of_tracks).map(|ranges| ranges.length),
        spare_range_tracks: ranges.filter(|ranges| ranges.of_tracks).map(|ranges| ranges.length),
        head_order: head_order(blocks)?,
        head_switch_ns: mechanics.nanos("Head switch time")?,
        write_settle_ns: if mechanics.settles_sooner()? { 0 } else { mechanics.nanos(WRITE_SETTLE)? },
        resettle_ns: None,
        seek_ns,
        bus: Bus {
            sector_ns: spec.nanos("Bulk sector transfer time")?,
            read_mark_permille: read_mark(&spec)?,
        },
        overhead_ns: overheads(&spec)?,
        cache: cache(&spec)?,
        queue: Queue::default(),
        zone,
    };
    let mut left_out = left_out(&spec);
    count_cylinders(&mut parameters, &mut left_out);
    parameters.validate()?;
    tell_blocks(&parameters, &mut left_out);
    if mechanics.settles_sooner()? {
        left_out.push(format!("{WRITE_SETTLE} = {}", mechanics.word(WRITE_SETTLE)?));
    }
    Ok(Imported { parameters, left_out })
}

fn left_out(spec: &Block<'_>) -> Vec<String> {
    let differs = |(key, default): &(&str, f64)| {
        let word = spec.word(key).ok()?;
        (word.parse() != Ok(*default)).then(|| format!("{key} = {word}"))
    };
    LEFT_OUT.iter().filter_map(differs).collect()
}

/// Cylinders are as many as the zones have; a file that says one fewer counts from 0.
fn count_cylinders(drive: &mut Parameters, left_out: &mut Vec<String>) {
    let last = drive.zone.iter().map(|zone| zone.cylinders.1).max().unwrap_or(0);
    if drive.cylinders == last {
        left_out.push(format!("Number of cylinders = {last}, though cylinder {last} has a zone"));
        drive.cylinders = last.saturating_add(1);
    }
}

/// Tells of a capacity that is far below what the zones hold, which is what DiskSim goes by. A few more are usual.
fn tell_blocks(drive: &Parameters, left_out: &mut Vec<String>) {
    let held = Layout::new(drive).map_or(0, |layout| layout.zone_sectors());
    if held / 8 * 7 > drive.capacity_sectors {
        left_out.push(format!("blocks beyond {}, of {held} in the zones", drive.capacity_sectors));
    }
}

/// How much of a request is read before its transfer begins. As a share of a segment instead of the request, it
/// says little of requests that are smaller, and is left out.
fn read_mark(spec: &Block<'_>) -> Result<u32, ParameterError> {
    if spec.find(READ_MARK).is_err() || spec.number("Set watermark by reqsize")? == 0.0 {
        return Ok(0);
    }
    let permille = (spec.number(READ_MARK)? * 1e3).round();
    if !(0.0..=1_000.0).contains(&permille) {
        return Err(refuse(READ_MARK, "it is no share", "give 0 to 1"));
    }
    Ok(permille as u32)
}

fn overheads(spec: &Block<'_>) -> Result<Overheads, ParameterError> {
    Ok(Overheads {
        read_hit_after_read: spec.nanos("Read hit over. after read")?,
        read_hit_after_write: spec.nanos("Read hit over. after write")?,
        read_miss_after_read: spec.nanos("Read miss over. after read")?,
        read_miss_after_write: spec.nanos("Read miss over. after write")?,
        write_hit_after_read: spec.nanos("Write hit over. after read")?,
        write_hit_after_write: spec.nanos("Write hit over. after write")?,
        write_miss_after_read: spec.nanos("Write miss over. after read")?,
        write_miss_after_write: spec.nanos("Write miss over. after write")?,
        read_completion: spec.nanos_if_there("Read completion overhead")?,
        write_completion: spec.nanos_if_there("Write completion overhead")?,
    })
}

fn cache(spec: &Block<'_>) -> Result<Cache, ParameterError> {
    let flag = |key: &str| spec.number(key).map(|number| number != 0.0);
    let read_ahead = match spec.word("Buffer continuous read")? {
        "0" => ReadAhead::None,
        "1" => ReadAhead::Track,
        "2" => ReadAhead::Cylinder,
        "3" => ReadAhead::Segment,
        "4" => ReadAhead::NextTrack,
        other => {
            let problem = format!("{other} is no way of reading ahead");
            return Err(refuse("Buffer continuous read", &problem, "give 0 to 4"));
        }
    };
    Ok(Cache {
        read: flag("Enable caching in buffer")?,
        segments: spec.whole("Number of buffer segments")?,
        segment_sectors: spec.whole("Segment size (in blks)")?,
        read_ahead,
        read_ahead_sectors_max: spec.whole("Maximum read-ahead (blks)")?,
        read_ahead_sectors_min: match spec.find(LEAST_AHEAD) {
            Ok(value) => value.whole(LEAST_AHEAD)?,
            Err(_) => 0,
        },
        read_ahead_on_hit: flag("Read-ahead on idle hit")?,
        almost_read_hits: flag("Allow almost read hits")?,
        free_reads: flag("Read any free blocks")?,
        read_hits_on_write_data: flag("Allow read hits on write data")?,
        write_buffering: flag("Fast write level")?,
        ..Cache::default()
    })
}

fn head_order(layout: &Block<'_>) -> Result<HeadOrder, ParameterError> {
    const KEY: &str = "LBN-to-PBN mapping scheme";
    match layout.word(KEY)? {
        "0" => Ok(HeadOrder::Forward),
        "1" => Ok(HeadOrder::ZoneSerpentine),
        "2" => Ok(HeadOrder::Serpentine),
        other => {
            let problem = format!("mapping scheme {other} is not modelled");
            Err(refuse(
                KEY,
                &problem,
                "schemes 0 to 2 are, tracks that follow each other cylinder by cylinder",
            ))
        }
    }
}

/// Each with spares at its end.
#[derive(Clone, Copy)]
struct Ranges {
    length: u32,
    /// Tracks, not cylinders.
    of_tracks: bool,
}

/// The spare ranges if there are any, and the zones.
fn layout(layout: &Block<'_>) -> Result<(Option<Ranges>, Vec<Zone>), ParameterError> {
    let cylinders = |length| Some(Ranges { length, of_tracks: false });
    let (ranges, spares) = match layout.word("Sparing scheme used")? {
        "0" | "7" => (None, Spares::None),
        "1" => (None, Spares::Tracks),
        "2" => (cylinders(1), Spares::Sectors),
        "3" => (Some(Ranges { length: 1, of_tracks: true }), Spares::Sectors),
        "8" => (cylinders(layout.whole("Rangesize for sparing")?), Spares::Sectors),
        "9" => (None, Spares::Sectors),
        other => {
            let problem = format!("sparing scheme {other} is not modelled");
            return Err(refuse("Sparing scheme used", &problem, "schemes 0 to 3 and 7 to 9 are"));
        }
    };
    let mut read = Vec::new();
    for zone in layout.list("Zones")? {
        let Value::Block(_, zone) = zone else {
            return Err(refuse("Zones", "an element is no block", "correct the file"));
        };
        let sectors_per_track = zone.whole("Blocks per track")?;
        let slips = zone.list("slips")?;
        let mut slipped = slips.iter().map(|slip| slip.whole("slips")).collect::<Result<Vec<u64>, _>>()?;
        slipped.sort_unstable();
        slipped.dedup();
        let mut spare_sectors = zone.whole("Number of spares")?;
        match spares {
            Spares::None => spare_sectors = 0,
            Spares::Sectors => {}
            Spares::Tracks => {
                let track = u64::from(sectors_per_track);
                spare_sectors = track.saturating_mul(spare_sectors);
                slipped = whole_tracks(&slipped, track)?;
            }
        }
        read.push(Zone {
            cylinders: (zone.whole("First cylinder number")?, zone.whole("Last cylinder number")?),
            sectors_per_track,
            track_skew_sectors: zone.sectors("Skew for track switch")?,
            cylinder_skew_sectors: zone.sectors("Skew for cylinder switch")?,
            offset_sectors: zone.sectors("Offset of first block")?,
            reserved_sectors: zone.whole("Empty space at zone front")?,
            spare_sectors,
            slipped,
        });
    }
    Ok((ranges, read))
}

/// What a zone keeps for bad sectors, at its end or at that of each range.
#[derive(Clone, Copy)]
enum Spares {
    None,
    Sectors,
    /// Whole tracks; `slips` counts tracks, too.
    Tracks,
}

/// The sectors of these tracks of a zone.
fn whole_tracks(tracks: &[u64], sectors_per_track: u64) -> Result<Vec<u64>, ParameterError> {
    let sectors = tracks.len() as u64 * sectors_per_track;
    if sectors > SLIPPED_MAX || tracks.last().is_some_and(|last| *last > u64::from(u32::MAX)) {
        return Err(refuse("slips", "there are more than can be", "correct the file"));
    }
    Ok(tracks
        .iter()
        .flat_map(|track| (0..sectors_per_track).map(move |at| track * sectors_per_track + at))
        .collect())
}

/// The seek curve of Ruemmler and Wilkes (IEEE Computer 27(3), 1994) in points: V2 + V3·√d below V1 cylinders,
/// V4 + V5·d from there on; `first` has the times of the shortest seeks, where they were measured one by one.
fn seek_formula(
    mechanics: &Block<'_>,
    first: &[Value<'_>],
    cylinders: u32,
) -> Result<Vec<(u32, u64)>, ParameterError> {
    const KEY: &str = "HPL seek equation values";
    let values = mechanics.list(KEY)?;
    let [division, root_base, root, line_base, line, one] = values.as_slice() else {
        return Err(refuse(KEY, "six values are needed", "correct the file"));
    };
    let division: u32 = division.whole(KEY)?;
    let time = |value: &Value<'_>| value.millis(KEY);
    let (root_base, root, line_base, line) = (time(root_base)?, time(root)?, time(line_base)?, time(line)?);
    let ns = |millis: f64| (millis * 1e6).round() as u64;
    // More cylinders than that are refused afterwards.
    let farthest = cylinders.saturating_sub(1).clamp(1, COUNT_MAX as u32);
    let mut points: Vec<(u32, u64)> = Vec::new();
    for (distance, value) in (1..).zip(first).take_while(|(distance, _)| *distance <= farthest) {
        points.push((distance, ns(value.millis("First ten seek times")?)));
    }
    // -1: there is none.
    if first.is_empty() && one.number(KEY)? >= 0.0 {
        points.push((1, ns(time(one)?)));
    }
    let curved = points.len() as u32 + 1..division.min(farthest + 1);
    points.extend(curved.map(|distance| (distance, ns(root_base + root * f64::from(distance).sqrt()))));
    // Two points make a line.
    let straight = [division.max(points.len() as u32 + 1), farthest];
    for distance in straight.into_iter().filter(|distance| *distance <= farthest) {
        if points.last().is_none_or(|(last, _)| *last < distance) {
            points.push((distance, ns(line_base + line * f64::from(distance))));
        }
    }
    Ok(points)
}

/// `distance, milliseconds` on each line; lines of text before them are passed over.
fn seek_points(text: &str) -> Result<Vec<(u32, u64)>, ParameterError> {
    let mut points = Vec::new();
    for line in text.lines() {
        let Some((distance, time)) = line.split_once(',') else { continue };
        let distance = Value::Word(distance.trim()).whole("Full seek curve")?;
        points.push((distance, rounded_nanos(time.trim(), "Full seek curve")?));
    }
    Ok(points)
}

/// A block of entries, in the order of the file.
#[derive(Clone, Debug)]
struct Block<'t> {
    entries: Vec<(&'t str, Value<'t>)>,
}

#[derive(Clone, Debug)]
enum Value<'t> {
    Word(&'t str),
    List(Vec<Value<'t>>),
    /// With the name before it.
    Block(&'t str, Block<'t>),
}

impl<'t> Block<'t> {
    fn find(&self, key: &str) -> Result<&Value<'t>, ParameterError> {
        let entry = self.entries.iter().find(|(name, _)| *name == key);
        entry.map(|(_, value)| value).ok_or_else(|| refuse(key, "the key is missing", "correct the file"))
    }

    fn word(&self, key: &str) -> Result<&'t str, ParameterError> {
        match self.find(key)? {
            Value::Word(word) => Ok(word),
            _ => Err(refuse(key, "a number or a word is needed", "correct the file")),
        }
    }

    fn list(&self, key: &str) -> Result<Vec<Value<'t>>, ParameterError> {
        match self.find(key)? {
            Value::List(values) => Ok(values.clone()),
            _ => Err(refuse(key, "it is no list", "correct the file")),
        }
    }

    fn block(&self, key: &str, kind: &str) -> Result<&Self, ParameterError> {
        match self.find(key)? {
            Value::Block(name, block) if *name == kind => Ok(block),
            _ => Err(refuse(key, &format!("only {kind} is modelled"), "correct the file")),
        }
    }

    fn number(&self, key: &str) -> Result<f64, ParameterError> {
        let word = self.word(key)?;
        word.parse().map_err(|_| refuse(key, &format!("{word} is no number"), "correct the file"))
    }

    fn whole<T: TryFrom<u64>>(&self, key: &str) -> Result<T, ParameterError> {
        self.find(key)?.whole(key)
    }

    fn settles_sooner(&self) -> Result<bool, ParameterError> {
        Ok(self.number(WRITE_SETTLE)? < 0.0)
    }

    fn nanos(&self, key: &str) -> Result<u64, ParameterError> {
        nanos(self.word(key)?, key)
    }

    fn nanos_if_there(&self, key: &str) -> Result<u64, ParameterError> {
        if self.find(key).is_ok() { self.nanos(key) } else { Ok(0) }
    }

    fn sectors(&self, key: &str) -> Result<Sectors, ParameterError> {
        // Thousandths of a sector, as nanoseconds are millionths of a millisecond.
        let millionths = nanos(self.word(key)?, key)?;
        if millionths % 1_000 != 0 {
            return Err(refuse(key, "it is finer than a thousandth of a sector", "round it"));
        }
        let thousandths = millionths / 1_000;
        if thousandths > Sectors::MAX.0 {
            return Err(refuse(
                key,
                "it is more than 1000000 sectors, which is no angle",
                "correct the file",
            ));
        }
        Ok(Sectors(thousandths))
    }
}

impl Value<'_> {
    fn whole<T: TryFrom<u64>>(&self, key: &str) -> Result<T, ParameterError> {
        let number = match self {
            Value::Word(word) => word.parse::<u64>().ok().and_then(|number| T::try_from(number).ok()),
            _ => None,
        };
        number.ok_or_else(|| refuse(key, "a whole number is needed", "correct the file"))
    }

    fn number(&self, key: &str) -> Result<f64, ParameterError> {
        let number = match self {
            Value::Word(word) => word.parse::<f64>().ok().filter(|number| number.is_finite()),
            _ => None,
        };
        number.ok_or_else(|| refuse(key, "a number is needed", "correct the file"))
    }

    /// A length of time in milliseconds, up to a minute.
    fn millis(&self, key: &str) -> Result<f64, ParameterError> {
        let millis = self.number(key)?;
        if !(0.0..=60_000.0).contains(&millis) {
            return Err(refuse(key, &format!("{millis} ms is no time of a seek"), "correct the file"));
        }
        Ok(millis)
    }
}

/// Milliseconds of a measured curve; what is finer than a nanosecond is rounded.
fn rounded_nanos(text: &str, key: &str) -> Result<u64, ParameterError> {
    match text.split_once('.') {
        Some((_, part)) if part.len() > 6 && part.bytes().all(|byte| byte.is_ascii_digit()) => {
            let cut = text.len() - (part.len() - 6);
            Ok(nanos(&text[..cut], key)? + u64::from(text.as_bytes()[cut] >= b'5'))
        }
        _ => nanos(text, key),
    }
}

/// Milliseconds with at most six decimals that are not zero.
fn nanos(text: &str, key: &str) -> Result<u64, ParameterError> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let part = part.trim_end_matches('0');
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let exact = part.len() <= 6 && whole.len() <= 9 && digits(whole) && digits(part);
    let parsed = exact.then(|| format!("{whole}{part:0<6}").parse().ok()).flatten();
    parsed.ok_or_else(|| refuse(key, &format!("{text} is no number of at most six decimals"), "correct it"))
}

fn source<'t>(word: &'t str, key: &str) -> Result<&'t str, ParameterError> {
    let name = word.strip_prefix("source").map(str::trim).filter(|name| !name.is_empty());
    name.ok_or_else(|| refuse(key, "no file is named", "write `source FILE`"))
}

fn refuse(key: &str, problem: &str, remedy: &str) -> ParameterError {
    ParameterError::value(key, problem, remedy)
}

/// The first block of a file, with the name that it is given.
fn first_block(text: &str) -> Result<(String, Block<'_>), ParameterError> {
    let mut reader = Reader { text, at: 0 };
    let head = reader.until("{");
    let name = head.split_whitespace().last().unwrap_or_default().to_owned();
    reader.expect('{')?;
    Ok((name, reader.block(0)?))
}

/// Reads libparam's format.
struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    /// Entries up to and with the closing brace.
    fn block(&mut self, depth: u32) -> Result<Block<'t>, ParameterError> {
        let mut entries = Vec::new();
        loop {
            self.skip_space();
            if self.take('}') {
                return Ok(Block { entries });
            }
            let key = self.until("={}");
            self.expect('=')?;
            entries.push((key, self.value(depth)?));
        }
    }

    /// A value, and the comma after it if there is one.
    fn value(&mut self, depth: u32) -> Result<Value<'t>, ParameterError> {
        if depth > NESTING_MAX {
            return Err(self.syntax("blocks stand in blocks too deep"));
        }
        self.skip_space();
        let value = if self.take('[') {
            let mut values = Vec::new();
            loop {
                self.skip_space();
                if self.take(']') {
                    break Value::List(values);
                }
                values.push(self.value(depth + 1)?);
            }
        } else {
            let word = self.until(",{}[]");
            match self.take('{') {
                true => Value::Block(word, self.block(depth + 1)?),
                false if word.is_empty() => return Err(self.syntax("a value is missing")),
                false => Value::Word(word),
            }
        };
        self.skip_space();
        self.take(',');
        Ok(value)
    }

    /// The text before the next of `ends` or the next comment, without space around it.
    fn until(&mut self, ends: &str) -> &'t str {
        self.skip_space();
        let rest = &self.text[self.at..];
        let length = rest.find(|c| c == '#' || ends.contains(c)).unwrap_or(rest.len());
        self.at += length;
        self.skip_space();
        rest[..length].trim()
    }

    fn skip_space(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if !trimmed.starts_with('#') {
                return;
            }
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.text[self.at..].starts_with(wanted);
        self.at += if found { wanted.len_utf8() } else { 0 };
        found
    }

    fn expect(&mut self, wanted: char) -> Result<(), ParameterError> {
        if self.take(wanted) { Ok(()) } else { Err(self.syntax(&format!("`{wanted}` is missing"))) }
    }

    fn syntax(&self, problem: &str) -> ParameterError {
        let line = self.text[..self.at].matches('\n').count() + 1;
        ParameterError::Syntax(format!("line {line}: {problem}; correct the file, or name a .diskspecs file"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SPEC: &str = include_str!("../../tests/data/import/small.diskspecs");
    const MODEL: &str = include_str!("../../tests/data/import/small.model");
    const SEEK: &str = include_str!("../../tests/data/import/small.seek");

    fn files(name: &str) -> Result<String, ParameterError> {
        match name {
            "small.model" => Ok(MODEL.to_owned()),
            "small.seek" => Ok(SEEK.to_owned()),
            other => Err(refuse("Model", &format!("{other} is not there"), "name another")),
        }
    }

    #[test]
    fn a_drive_is_read_with_the_files_that_it_names() {
        let Imported { parameters: drive, left_out } = import(SPEC, files).expect("it is a drive");
        assert!(left_out.is_empty());
        assert_eq!(drive.description, "SMALL_drive");
        assert_eq!((drive.heads, drive.cylinders, drive.capacity_sectors, drive.rpm), (2, 100, 1_900, 7_200));
        assert_eq!(drive.seek_ns, [(1, 1_062_000), (10, 2_000_500), (99, 12_742_000)]);
        assert_eq!(drive.bus.sector_ns, 101_000);
        assert_eq!(drive.overhead_ns.write_miss_after_read, 493_860);
        assert_eq!(drive.spare_range_cylinders, Some(5));
        assert_eq!(drive.cache.read_ahead, ReadAhead::Segment);
        assert_eq!((drive.cache.read_ahead_sectors_min, drive.cache.read_ahead_sectors_max), (16, 511));
        let older = SPEC.replace("   Minimum read-ahead (blks) = 16,\n", "");
        let older = import(&older, files).expect("the key may be missing").parameters;
        assert_eq!(older.cache.read_ahead_sectors_min, 0);
        assert!(drive.cache.write_buffering && drive.cache.free_reads && !drive.cache.almost_read_hits);
        let zone = &drive.zone[1];
        assert_eq!((zone.cylinders, zone.spare_sectors), ((50, 99), 4));
        assert_eq!((zone.track_skew_sectors, zone.slipped.as_slice()), (Sectors(2_500), [7, 12].as_slice()));
    }

    /// What is written of a drive can be read again, so what could not be is refused at once.
    #[test]
    fn a_skew_that_is_no_angle_is_refused() {
        let skew = |sectors: &str| {
            import(SPEC, |name: &str| {
                let text = files(name)?;
                Ok(text.replace(
                    "Skew for track switch = 2.500000",
                    &format!("Skew for track switch = {sectors}"),
                ))
            })
        };
        let most = skew("1000000").expect("it is the most").parameters;
        assert_eq!(most.zone[1].track_skew_sectors, Sectors::MAX);
        let error = skew("28500000").unwrap_err().to_string();
        assert!(error.contains("Skew for track switch") && error.contains("1000000 sectors"), "{error}");
    }

    #[test]
    fn what_is_not_modelled_is_refused_by_its_key() {
        let spec = |from: &str, to: &str| import(&SPEC.replace(from, to), files).unwrap_err().to_string();
        let model = |from: &str, to: &str| {
            let changed = MODEL.replace(from, to);
            let file = |name: &str| if name == "small.model" { Ok(changed.clone()) } else { files(name) };
            import(SPEC, file).unwrap_err().to_string()
        };
        assert!(
            spec("Segment size (in blks)", "Segment size")
                .starts_with("Segment size (in blks): the key is missing")
        );
        assert!(
            spec("transfer time = 0.101", "transfer time = 0.1010001")
                .starts_with("Bulk sector transfer time: ")
        );
        assert!(spec("small.model", "other.model").contains("other.model is not there"));
        assert!(spec("{", "").starts_with("line "));
        assert!(model("scheme used = 8", "scheme used = 5").starts_with("Sparing scheme used: "));
        assert!(model("mapping scheme = 0", "mapping scheme = 3").starts_with("LBN-to-PBN mapping scheme: "));
        assert!(model("Seek type = extracted", "Seek type = linear").starts_with("Seek type: "));
        let formula = "HPL seek equation values";
        assert!(model("Seek type = extracted", "Seek type = hpl").starts_with(formula));
        assert!(model("dm_layout_g1 {", "dm_layout_g4 {").starts_with("Layout Model: "));
        assert!(model("data surfaces = 2", "data surfaces = 0").starts_with("heads: "));
    }

    #[test]
    fn what_is_left_out_is_told() {
        let spec = SPEC.replace("Fast write", "Preseeking level = 1,\n Fast write");
        let imported = import(&spec, files).expect("it is a drive");
        assert_eq!(imported.left_out, ["Preseeking level = 1"]);
        let spec = SPEC.replace("Immediate buffer read = 0", "Immediate buffer read = 1");
        assert_eq!(import(&spec, files).expect("it is a drive").left_out, ["Immediate buffer read = 1"]);
    }

    /// The small drive with this change, and a capacity that any sparing leaves.
    fn changed(from: &str, to: &str) -> Imported {
        let model = MODEL.replace(from, to);
        assert!(model != MODEL, "{from} is not in the model");
        let model = model.replace("Block count = 1900", "Block count = 1300");
        import(SPEC, |name| if name == "small.model" { Ok(model.clone()) } else { files(name) })
            .unwrap_or_else(|error| panic!("{to}: {error}"))
    }

    #[test]
    fn other_layouts_are_read() {
        let drive = changed("mapping scheme = 0", "mapping scheme = 1").parameters;
        assert_eq!(drive.head_order, HeadOrder::ZoneSerpentine);
        let drive = changed("scheme used = 8", "scheme used = 3").parameters;
        assert_eq!((drive.spare_range_tracks, drive.spare_range_cylinders), (Some(1), None));
        let drive = changed("scheme used = 8", "scheme used = 1").parameters;
        let (zone, spt) = (&drive.zone[1], u64::from(drive.zone[1].sectors_per_track));
        assert_eq!((drive.spare_range_cylinders, zone.spare_sectors), (None, 4 * spt));
        // Tracks 7 and 12 are slipped, not sectors.
        let tracks: Vec<u64> = (7 * spt..8 * spt).chain(12 * spt..13 * spt).collect();
        assert_eq!(zone.slipped, tracks);
        let imported = changed("Number of cylinders = 100", "Number of cylinders = 99");
        assert_eq!(imported.parameters.cylinders, 100);
        let told = [
            "Number of cylinders = 99, though cylinder 99 has a zone",
            "blocks beyond 1300, of 2110 in the zones",
        ];
        assert_eq!(imported.left_out, told);
    }

    #[test]
    fn a_seek_curve_may_be_a_formula() {
        let values = "HPL seek equation values = [ 20, 3.0, 0.5, 4.0, 0.1, 2.5 ],\n";
        let first = "First ten seek times = [ 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9 ],\n";
        let seek = |kind: &str| {
            changed("Seek type = extracted,", &format!("Seek type = {kind},\n{values}{first}"))
                .parameters
                .seek_ns
        };
        let curve = seek("hpl");
        assert_eq!(curve[..2], [(1, 2_500_000), (2, 3_707_107)]);
        assert_eq!(
            curve[15..],
            [
                (16, 5_000_000),
                (17, 5_061_553),
                (18, 5_121_320),
                (19, 5_179_449),
                (20, 6_000_000),
                (99, 13_900_000)
            ]
        );
        let curve = seek("hplplus10");
        assert_eq!((curve[0], curve[9], curve[15]), ((1, 1_000_000), (10, 1_900_000), (16, 5_000_000)));
        let model = MODEL.to_owned();
        let finer = SEEK.replace("2.00050", "2.0005006");
        assert!(finer != SEEK, "{SEEK}");
        let file = |name: &str| Ok(if name == "small.seek" { finer.clone() } else { model.clone() });
        assert_eq!(import(SPEC, file).expect("a drive").parameters.seek_ns[1], (10, 2_000_501));
    }

    #[test]
    fn marks_and_completions_are_read() {
        let spec = SPEC.replace(
            "   Fast write",
            "   High (read) water mark = 0.75,\n   Set watermark by reqsize = 1,\n   Read completion overhead = 0.2,\n   Fast write",
        );
        let drive = import(&spec, files).expect("a drive").parameters;
        assert_eq!((drive.bus.read_mark_permille, drive.overhead_ns.read_completion), (750, 200_000));
        let spec = spec.replace("by reqsize = 1", "by reqsize = 0");
        assert_eq!(import(&spec, files).expect("a drive").parameters.bus.read_mark_permille, 0);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(
            text in "[a-z={}\\[\\],# \n0-9.]{0,200}", cut in any::<prop::sample::Index>(), junk in ".{0,6}"
        ) {
            let _ = import(&text, |_| Ok(text.clone()));
            let mut changed = MODEL.to_owned();
            changed.insert_str(cut.index(MODEL.len()), &junk);
            let _ = import(SPEC, |name| if name == "small.model" { Ok(changed.clone()) } else { files(name) });
        }
    }
}
