//! What a disk drive is made of, as its file in `devices/` says it: every key has a physical
//! meaning, its unit is the end of its name, and nothing is rounded.

use serde::{Deserialize, Serialize};

use super::layout::Layout;

/// The largest number of cylinders, tracks in a cylinder or sectors on a track: above any drive, and
/// small enough that no product of the model overflows.
pub(super) const COUNT_MAX: u64 = 1 << 20;
/// The longest time that a single movement, overhead or sector may take, in nanoseconds.
const NANOS_MAX: u64 = 4_000_000_000;

/// The parameters of a disk drive; [`Parameters::validate`] says whether they describe one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// What the file describes.
    #[serde(default)]
    pub kind: Kind,
    /// What it is, in a line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Where the figures come from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// Bytes of a sector; 512 unless given.
    #[serde(default = "default_sector_bytes")]
    pub sector_bytes: u32,
    /// Recording surfaces, each with its head.
    pub heads: u32,
    /// Cylinders, counted from the outer edge.
    pub cylinders: u32,
    /// Sectors that the host can address. The zones may hold more.
    pub capacity_sectors: u64,
    /// Revolutions per minute.
    pub rpm: u32,
    /// How the angle of the platters is kept.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub angle: Angle,
    /// If given, spares lie at the end of every so many cylinders instead of at the end of the zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spare_range_cylinders: Option<u32>,
    /// If given, spares lie at the end of every so many tracks; not beside `spare_range_cylinders`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spare_range_tracks: Option<u32>,
    /// In which order blocks fill the tracks of a cylinder.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub head_order: HeadOrder,
    /// Time to switch from one head to another on the same cylinder.
    pub head_switch_ns: u64,
    /// Added to every movement of the heads before a write: writing asks for a steadier head.
    pub write_settle_ns: u64,
    /// The least time in which the heads are ready for an access that does not go on with the one before
    /// it, even on the same track: another element takes over (readers and writers do not sit over the
    /// same track) and the servo settles anew. Most of a single-cylinder seek is settling: unless given,
    /// two thirds of that seek are taken, the middle of what five measured drives show (0.6 to 0.9).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resettle_ns: Option<u64>,
    /// The seek curve for reads: `[cylinders, nanoseconds]`, from 1 cylinder upwards, with straight
    /// lines between the points and beyond the last one. It need not be monotone: measured ones are not.
    pub seek_ns: Vec<(u32, u64)>,
    /// The way to the host.
    pub bus: Bus,
    /// What the controller needs before it can act on a command.
    pub overhead_ns: Overheads,
    /// The buffer on the drive; none of it is used unless given.
    #[serde(default)]
    pub cache: Cache,
    /// The order in which waiting commands are served.
    #[serde(default)]
    pub queue: Queue,
    /// The zones, from the outer edge inwards.
    pub zone: Vec<Zone>,
}

/// The one kind of device that these parameters describe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A disk drive.
    #[default]
    Disk,
}

/// How the angle of the platters is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Angle {
    /// By the clock: nothing drifts.
    #[default]
    Exact,
    /// As DiskSim 4.0 keeps it, which adds up the turns of single steps, each cut to 2⁻²⁴: per access
    /// the platters fall behind by as many cuts as it has sectors, and one and a half. For comparing
    /// single requests of long runs with DiskSim's; no drive does so.
    Disksim,
}

/// In which order blocks fill the tracks of a cylinder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeadOrder {
    /// From the first head to the last, on every cylinder.
    #[default]
    Forward,
    /// From the last to the first on odd cylinders, so that the next cylinder begins on the same surface.
    Serpentine,
    /// The same, counting the cylinders of each zone from 0.
    ZoneSerpentine,
}

/// The transfer between the drive's buffer and the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bus {
    /// Time per sector.
    pub sector_ns: u64,
    /// How much of a read, in thousandths of its sectors, is in the buffer before its transfer begins: its first
    /// sector unless given, 1000 for all of it. Drives wait so that they need not give up the bus in between.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub read_mark_permille: u32,
}

/// Command overheads, by what the command is and what the one before it was. DIXtrac measures them so
/// because firmware has more to tidy up after some commands than after others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overheads {
    /// A read from the buffer, after a read.
    pub read_hit_after_read: u64,
    /// A read from the buffer, after a write.
    pub read_hit_after_write: u64,
    /// A read from the medium, after a read.
    pub read_miss_after_read: u64,
    /// A read from the medium, after a write.
    pub read_miss_after_write: u64,
    /// A write into the buffer, after a read.
    pub write_hit_after_read: u64,
    /// A write into the buffer, after a write.
    pub write_hit_after_write: u64,
    /// A write to the medium, after a read.
    pub write_miss_after_read: u64,
    /// A write to the medium, after a write.
    pub write_miss_after_write: u64,
    /// From the last sector of a read at the host to its report.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub read_completion: u64,
    /// From the last sector of a write to its report.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub write_completion: u64,
}

/// How far the drive goes on reading after a read is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadAhead {
    /// Not at all.
    #[default]
    None,
    /// To the end of the track.
    Track,
    /// To the end of the cylinder.
    Cylinder,
    /// Until the segment is full.
    Segment,
    /// To the end of the track, and of the next one if the segment began on an earlier track: what a
    /// stream asks for.
    NextTrack,
}

/// The buffer on the drive: segments, each holding one run of sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cache {
    /// Whether reads are served from what the buffer holds.
    pub read: bool,
    /// Number of segments.
    pub segments: u32,
    /// Sectors in a segment.
    pub segment_sectors: u32,
    /// How far the drive reads ahead.
    pub read_ahead: ReadAhead,
    /// The most that it reads ahead of a request, in sectors; 0 stands for a whole segment.
    pub read_ahead_sectors_max: u32,
    /// The least that it reads ahead of a request, in sectors, before another command gets the heads: 0 if
    /// another command stops it at once. Never beyond where reading ahead ends anyway.
    pub read_ahead_sectors_min: u32,
    /// How many reads in sequence it takes until the drive reads ahead; 0 if it always does.
    pub read_ahead_after: u32,
    /// Whether the drive goes on reading ahead after a read from the buffer.
    pub read_ahead_on_hit: bool,
    /// Whether reading ahead leaves what was asked for in the segment; if not, it may push it out.
    pub keep_requested: bool,
    /// Added to the overhead of a command that the buffer serves and that does not follow on from the
    /// one before it: the firmware recognises a stream and otherwise searches.
    pub search_ns: u64,
    /// Whether a read of the very sector that is coming in from the medium waits for it instead of
    /// starting anew.
    pub almost_read_hits: bool,
    /// Whether sectors that pass under the head before the wanted one are kept too.
    pub free_reads: bool,
    /// Whether sectors that were written are served to later reads from the buffer.
    pub read_hits_on_write_data: bool,
    /// Whether a write is reported as finished once it is in the buffer.
    pub write_buffering: bool,
}

/// In which order commands that wait on the drive are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// First come, first served.
    #[default]
    Fcfs,
    /// Shortest seek first, in cylinders.
    Sstf,
    /// One sweep inwards after another.
    CLook,
    /// Shortest positioning (seek and rotation) first.
    Sptf,
}

/// The drive's queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Queue {
    /// The order.
    pub policy: Policy,
}

/// Cylinders whose tracks have the same number of sectors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// First and last cylinder.
    pub cylinders: (u32, u32),
    /// Sectors on each track.
    pub sectors_per_track: u32,
    /// How far the first sector of a track lies behind that of the track before it.
    pub track_skew_sectors: Sectors,
    /// The same from the last track of a cylinder to the first of the next.
    pub cylinder_skew_sectors: Sectors,
    /// How far the zone's first sector lies behind the index mark.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub offset_sectors: Sectors,
    /// Sectors at the start of the zone that the drive keeps for itself.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reserved_sectors: u64,
    /// Spare sectors at the end of the zone or of each spare range.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub spare_sectors: u64,
    /// Bad sectors, counted from the start of the zone: everything after one moves on by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slipped: Vec<u64>,
}

/// A length along a track: sectors, with at most three decimals, kept as thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sectors(pub u64);

impl Sectors {
    /// The largest: 10⁶ sectors.
    pub(crate) const MAX: Self = Self(1_000_000_000);
}

impl Serialize for Sectors {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 % 1_000 {
            0 => serializer.serialize_u64(self.0 / 1_000),
            _ => serializer.serialize_f64(self.0 as f64 / 1e3),
        }
    }
}

impl<'de> Deserialize<'de> for Sectors {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let sectors = f64::deserialize(deserializer)?;
        // A decimal with three places is the float nearest to it: only that one is taken.
        let thousandths = (sectors * 1e3).round();
        if (0.0..=Self::MAX.0 as f64).contains(&thousandths) && thousandths / 1e3 == sectors {
            return Ok(Self(thousandths as u64));
        }
        let problem =
            format!("{sectors} sectors are no angle; give 0 to 1000000 with at most three decimals");
        Err(serde::de::Error::custom(problem))
    }
}

fn default_sector_bytes() -> u32 {
    512
}

fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Parameters that no drive can have, or a text that does not hold parameters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// The text is not TOML, or a key is missing, unknown or of the wrong type; the message of the TOML
    /// reader names the line and the key.
    #[error("{0}")]
    Syntax(String),
    /// A value is out of its range or does not fit the others.
    #[error("{key}: {problem}; {remedy}")]
    Value {
        /// The key with its path, `zone[3].sectors_per_track`.
        key: String,
        /// What is wrong.
        problem: String,
        /// What to do about it.
        remedy: String,
    },
}

impl ParameterError {
    pub(crate) fn value(key: impl Into<String>, problem: impl Into<String>, remedy: &str) -> Self {
        Self::Value { key: key.into(), problem: problem.into(), remedy: remedy.to_owned() }
    }
}

impl From<ParameterError> for crate::ParameterError {
    fn from(error: ParameterError) -> Self {
        match error {
            ParameterError::Syntax(message) => Self::new("disk", message, "correct the text"),
            ParameterError::Value { key, problem, remedy } => {
                Self::new("disk", format!("{key}: {problem}"), remedy)
            }
        }
    }
}

impl Parameters {
    /// Reads a device file of `kind = "disk"` and validates it.
    ///
    /// # Errors
    /// If the text is no such file or [`Parameters::validate`] refuses what it says.
    pub fn parse(text: &str) -> Result<Self, ParameterError> {
        let parameters: Self = toml::from_str(text)
            .map_err(|error| ParameterError::Syntax(error.to_string().trim_end().to_owned()))?;
        parameters.validate()?;
        Ok(parameters)
    }

    /// The capacity in bytes.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_sectors.saturating_mul(self.sector_bytes.into())
    }

    /// Whether a drive can be built from these parameters.
    ///
    /// # Errors
    /// The first key whose value is out of range or does not fit the others, and what would.
    pub fn validate(&self) -> Result<(), ParameterError> {
        let range = |key: &str, value: u64, low: u64, high: u64| {
            if (low..=high).contains(&value) {
                return Ok(());
            }
            let problem = format!("{value} is out of range");
            Err(ParameterError::value(key, problem, &format!("give {low} to {high}")))
        };
        range("heads", self.heads.into(), 1, 255)?;
        range("cylinders", self.cylinders.into(), 1, COUNT_MAX)?;
        range("rpm", self.rpm.into(), 60, 100_000)?;
        range("capacity_sectors", self.capacity_sectors, 1, 1 << 48)?;
        if !self.sector_bytes.is_power_of_two() || !(512..=65_536).contains(&self.sector_bytes) {
            let problem = format!("{} is no size of a sector", self.sector_bytes);
            return Err(ParameterError::value(
                "sector_bytes",
                problem,
                "give a power of two from 512 to 65536",
            ));
        }
        range("head_switch_ns", self.head_switch_ns, 0, NANOS_MAX)?;
        range("write_settle_ns", self.write_settle_ns, 0, NANOS_MAX)?;
        range("resettle_ns", self.resettle_ns.unwrap_or(0), 0, NANOS_MAX)?;
        range("cache.search_ns", self.cache.search_ns, 0, NANOS_MAX)?;
        range("bus.sector_ns", self.bus.sector_ns, 0, NANOS_MAX)?;
        range("bus.read_mark_permille", self.bus.read_mark_permille.into(), 0, 1_000)?;
        for (key, value) in self.overhead_ns.named() {
            range(&format!("overhead_ns.{key}"), value, 0, NANOS_MAX)?;
        }
        self.validate_seek()?;
        self.validate_cache()?;
        if let Some(cylinders) = self.spare_range_cylinders {
            range("spare_range_cylinders", cylinders.into(), 1, COUNT_MAX)?;
        }
        if let Some(tracks) = self.spare_range_tracks {
            range("spare_range_tracks", tracks.into(), 1, COUNT_MAX)?;
            if self.spare_range_cylinders.is_some() {
                let problem = "spare ranges are counted in cylinders already";
                return Err(ParameterError::value("spare_range_tracks", problem, "keep one of the two"));
            }
        }
        for (index, zone) in self.zone.iter().enumerate() {
            let key = format!("zone[{index}].sectors_per_track");
            range(&key, zone.sectors_per_track.into(), 1, 10_000)?;
        }
        Layout::new(self).map(drop)
    }

    fn validate_seek(&self) -> Result<(), ParameterError> {
        let refuse = |problem: String, remedy: &str| Err(ParameterError::value("seek_ns", problem, remedy));
        if self.seek_ns.first().map(|point| point.0) != Some(1) {
            return refuse("the first point is not at 1 cylinder".to_owned(), "begin with [1, nanoseconds]");
        }
        for pair in self.seek_ns.windows(2) {
            if pair[0].0 >= pair[1].0 {
                let problem = format!("{} comes after {} cylinders", pair[1].0, pair[0].0);
                return refuse(problem, "sort the points by distance, one for each");
            }
        }
        if let Some(point) = self.seek_ns.iter().find(|point| point.1 > NANOS_MAX) {
            return refuse(format!("{} ns is out of range", point.1), "give at most 4 seconds");
        }
        Ok(())
    }

    fn validate_cache(&self) -> Result<(), ParameterError> {
        let cache = &self.cache;
        let used = cache.read || cache.write_buffering || cache.read_ahead != ReadAhead::None;
        if !used {
            return Ok(());
        }
        if !(1..=4096).contains(&cache.segments) {
            let problem = format!("{} segments cannot buffer anything", cache.segments);
            return Err(ParameterError::value("cache.segments", problem, "give 1 to 4096 segments"));
        }
        if !(1..=COUNT_MAX).contains(&u64::from(cache.segment_sectors)) {
            let problem = format!("a segment of {} sectors is out of range", cache.segment_sectors);
            return Err(ParameterError::value("cache.segment_sectors", problem, "give 1 to 1048576 sectors"));
        }
        Ok(())
    }
}

impl Overheads {
    /// The overheads with their keys.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 10] {
        [
            ("read_hit_after_read", self.read_hit_after_read),
            ("read_hit_after_write", self.read_hit_after_write),
            ("read_miss_after_read", self.read_miss_after_read),
            ("read_miss_after_write", self.read_miss_after_write),
            ("write_hit_after_read", self.write_hit_after_read),
            ("write_hit_after_write", self.write_hit_after_write),
            ("write_miss_after_read", self.write_miss_after_read),
            ("write_miss_after_write", self.write_miss_after_write),
            ("read_completion", self.read_completion),
            ("write_completion", self.write_completion),
        ]
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A drive for sums by hand: 6000 rpm, 10 sectors of 1 ms on a track, 2 heads, 10 cylinders; a seek
    /// over d cylinders takes 2 + d ms, a head switch 1 ms; no skew, no overheads, a bus of 0.1 ms.
    pub(in crate::disk) fn small() -> Parameters {
        let text = r#"
            kind = "disk"
            description = "for sums by hand"
            heads = 2
            cylinders = 10
            capacity_sectors = 200
            rpm = 6000
            head_switch_ns = 1_000_000
            write_settle_ns = 500_000
            resettle_ns = 0
            seek_ns = [[1, 3_000_000], [9, 11_000_000]]
            [bus]
            sector_ns = 100_000
            [overhead_ns]
            read_hit_after_read = 0
            read_hit_after_write = 0
            read_miss_after_read = 0
            read_miss_after_write = 0
            write_hit_after_read = 0
            write_hit_after_write = 0
            write_miss_after_read = 0
            write_miss_after_write = 0
            [[zone]]
            cylinders = [0, 9]
            sectors_per_track = 10
            track_skew_sectors = 0
            cylinder_skew_sectors = 0
        "#;
        Parameters::parse(text).expect("the text is a drive")
    }

    fn refused(change: impl Fn(&mut Parameters)) -> String {
        let mut drive = small();
        change(&mut drive);
        drive.validate().expect_err("no drive is like this").to_string()
    }

    #[test]
    fn a_file_comes_back_as_it_was_written() {
        let mut drive = small();
        drive.zone[0].slipped = vec![3, 17];
        drive.zone[0].track_skew_sectors = Sectors(1_537);
        drive.cache.read_ahead = ReadAhead::NextTrack;
        drive.queue.policy = Policy::CLook;
        let text = toml::to_string(&drive).expect("parameters are TOML");
        assert_eq!(toml::from_str::<Parameters>(&text), Ok(drive));
    }

    #[test]
    fn every_value_out_of_range_is_named() {
        assert!(refused(|d| d.heads = 0).starts_with("heads: 0 is out of range; give 1 to 255"));
        assert!(refused(|d| d.rpm = 0).starts_with("rpm: "));
        assert!(refused(|d| d.rpm = u32::MAX).starts_with("rpm: "));
        assert!(refused(|d| d.cylinders = 0).starts_with("cylinders: "));
        assert!(refused(|d| d.sector_bytes = 520).starts_with("sector_bytes: "));
        assert!(refused(|d| d.capacity_sectors = 0).starts_with("capacity_sectors: "));
        assert!(refused(|d| d.head_switch_ns = u64::MAX).starts_with("head_switch_ns: "));
        assert!(refused(|d| d.bus.sector_ns = u64::MAX).starts_with("bus.sector_ns: "));
        assert!(
            refused(|d| d.overhead_ns.write_hit_after_read = u64::MAX)
                .starts_with("overhead_ns.write_hit_after_read: ")
        );
        assert!(refused(|d| d.seek_ns.clear()).starts_with("seek_ns: "));
        assert!(refused(|d| d.seek_ns[1].0 = 1).starts_with("seek_ns: 1 comes after 1 cylinders"));
        assert!(refused(|d| d.cache.read = true).starts_with("cache.segments: "));
        assert!(refused(|d| d.zone[0].sectors_per_track = 0).starts_with("zone[0].sectors_per_track: "));
        assert!(refused(|d| d.zone.clear()).starts_with("capacity_sectors: "));
        assert!(refused(|d| d.bus.read_mark_permille = 1_001).starts_with("bus.read_mark_permille: "));
        assert!(refused(|d| d.spare_range_tracks = Some(0)).starts_with("spare_range_tracks: "));
        let both = refused(|d| (d.spare_range_tracks, d.spare_range_cylinders) = (Some(1), Some(1)));
        assert!(both.starts_with("spare_range_tracks: spare ranges are counted in cylinders"), "{both}");
        assert!(refused(|d| d.spare_range_cylinders = Some(0)).starts_with("spare_range_cylinders: "));
    }

    #[test]
    fn unknown_and_missing_keys_are_named_with_their_line() {
        let good = toml::to_string(&small()).unwrap();
        let unknown = Parameters::parse(&format!("spindles = 2\n{good}")).unwrap_err().to_string();
        assert!(unknown.contains("line 1") && unknown.contains("spindles"), "{unknown}");
        let missing = Parameters::parse(&good.replace("rpm = 6000\n", "")).unwrap_err().to_string();
        assert!(missing.contains("rpm"), "{missing}");
        let other =
            Parameters::parse(&good.replace("kind = \"disk\"", "kind = \"flash\"")).unwrap_err().to_string();
        assert!(other.contains("flash"), "{other}");
    }
}
