//! Where a sector lies: zones, spares, slipped sectors, skews.
//!
//! ```text
//!  lbn ──zone table──> zone ──┬─ reserved + spare ranges + slips ──> place in the zone
//!                             └─ place = (cylinder · heads + head) · sectors per track + sector
//!  angle of a sector = offset + switches · track skew + cylinders · cylinder skew + sector
//! ```
//!
//! Angles are counted in thousandths of a sector of the zone, so they are exact.

use super::parameters::{ParameterError, Parameters, Zone};

/// Parts of a sector in which angles are counted.
pub const SECTOR_PARTS: u64 = 1_000;

/// A run of sectors on one track, with nothing but slipped sectors between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The cylinder.
    pub cylinder: u32,
    /// The head.
    pub head: u32,
    /// The first one's place on the track, from 0.
    pub sector: u32,
    /// Sectors of the track.
    pub sectors_per_track: u32,
    /// The angle at which the first one begins, in thousandths of a sector, below a revolution.
    pub angle: u64,
    /// Sectors of the run that hold data.
    pub sectors: u32,
    /// Sectors that pass under the head from the first to the last one: more if some are slipped.
    pub span: u32,
}

/// The map from logical block numbers to places.
#[derive(Clone, Debug)]
pub struct Layout {
    zones: Vec<ZoneMap>,
    heads: u64,
    sectors: u64,
}

/// A zone, ready for the arithmetic.
#[derive(Clone, Debug)]
struct ZoneMap {
    first_lbn: u64,
    lbn_count: u64,
    first_cylinder: u64,
    sectors_per_track: u64,
    /// Sectors of a cylinder.
    cylinder_sectors: u64,
    /// In thousandths of a sector, as is `cylinder_skew` and `offset`.
    track_skew: u64,
    cylinder_skew: u64,
    offset: u64,
    reserved: u64,
    /// Sectors of a spare range with and without its spares; the zone is one range if there are none.
    range_sectors: u64,
    range_lbns: u64,
    /// From which logical place on sectors have moved on by how many, within which range.
    slips: Vec<Slip>,
}

#[derive(Clone, Copy, Debug)]
struct Slip {
    from: u64,
    range: u64,
    shift: u64,
}

impl Layout {
    /// Lays out the zones of a drive.
    ///
    /// # Errors
    /// If zones overlap, leave the drive or cannot hold what they are said to, or if all of them hold
    /// less than the capacity.
    pub fn new(parameters: &Parameters) -> Result<Self, ParameterError> {
        let mut zones: Vec<ZoneMap> = Vec::with_capacity(parameters.zone.len());
        let (mut next_cylinder, mut next_lbn) = (0, 0);
        for (index, zone) in parameters.zone.iter().enumerate() {
            let (first, last) = zone.cylinders;
            if first < next_cylinder || last < first || last >= parameters.cylinders {
                let problem = format!("[{first}, {last}] does not follow the zone before it on the drive");
                let remedy = format!("give cylinders from {next_cylinder} to {}", parameters.cylinders - 1);
                return Err(ParameterError::value(format!("zone[{index}].cylinders"), problem, &remedy));
            }
            let map = ZoneMap::new(parameters, zone, index, next_lbn)?;
            next_cylinder = last + 1;
            next_lbn += map.lbn_count;
            zones.push(map);
        }
        if next_lbn < parameters.capacity_sectors {
            let problem = format!("the zones hold {next_lbn} sectors, which is less");
            let remedy = "correct it or the zones";
            return Err(ParameterError::value("capacity_sectors", problem, remedy));
        }
        Ok(Self { zones, heads: parameters.heads.into(), sectors: parameters.capacity_sectors })
    }

    /// Sectors that can be addressed.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// The cylinder of a sector.
    #[must_use]
    pub fn cylinder(&self, lbn: u64) -> u32 {
        let zone = self.zone(lbn);
        (zone.first_cylinder + zone.place(lbn) / zone.cylinder_sectors) as u32
    }

    /// The first and one past the last sector of the track on which `lbn` lies, as block numbers.
    #[must_use]
    pub fn track(&self, lbn: u64) -> (u64, u64) {
        let zone = self.zone(lbn);
        let place = zone.place(lbn);
        let begin = place - place % zone.sectors_per_track;
        (zone.lbn_from(begin), zone.lbn_from(begin + zone.sectors_per_track))
    }

    /// One past the last sector of the cylinder on which `lbn` lies.
    #[must_use]
    pub fn cylinder_end(&self, lbn: u64) -> u64 {
        let zone = self.zone(lbn);
        let place = zone.place(lbn);
        zone.lbn_from(place - place % zone.cylinder_sectors + zone.cylinder_sectors)
    }

    /// As many of the `sectors` (at least one) from `lbn` as lie on one track.
    ///
    /// `lbn` must be below the capacity of the zones.
    #[must_use]
    pub fn extent(&self, lbn: u64, sectors: u64) -> Extent {
        let zone = self.zone(lbn);
        let place = zone.place(lbn);
        let sector = place % zone.sectors_per_track;
        let left = zone.sectors_per_track - sector;
        let (mut count, mut span) = (sectors.min(left), sectors.min(left));
        if !zone.is_plain() {
            let track_end = zone.lbn_from(place + left);
            count = sectors.min(track_end - lbn);
            span = zone.place(lbn + count - 1) - place + 1;
        }
        let track = place / zone.sectors_per_track;
        let (cylinder, head) = (track / self.heads, track % self.heads);
        let skews = (head + (self.heads - 1) * cylinder) * zone.track_skew + cylinder * zone.cylinder_skew;
        let revolution = zone.sectors_per_track * SECTOR_PARTS;
        Extent {
            cylinder: (zone.first_cylinder + cylinder) as u32,
            head: head as u32,
            sector: sector as u32,
            sectors_per_track: zone.sectors_per_track as u32,
            angle: (zone.offset + skews + sector * SECTOR_PARTS) % revolution,
            sectors: count as u32,
            span: span as u32,
        }
    }

    fn zone(&self, lbn: u64) -> &ZoneMap {
        let after = self.zones.partition_point(|zone| zone.first_lbn <= lbn);
        &self.zones[after.saturating_sub(1)]
    }
}

impl ZoneMap {
    fn new(
        parameters: &Parameters,
        zone: &Zone,
        index: usize,
        first_lbn: u64,
    ) -> Result<Self, ParameterError> {
        let key = |name: &str| format!("zone[{index}].{name}");
        let cylinders = u64::from(zone.cylinders.1 - zone.cylinders.0 + 1);
        let cylinder_sectors = u64::from(zone.sectors_per_track) * u64::from(parameters.heads);
        let all = cylinders * cylinder_sectors;
        let range_cylinders = u64::from(parameters.spare_range_cylinders.unwrap_or(u32::MAX)).min(cylinders);
        let range_sectors = range_cylinders * cylinder_sectors;
        if zone.spare_sectors >= range_sectors {
            let problem = format!("{} spares leave no room for data", zone.spare_sectors);
            let remedy = format!("give fewer than {range_sectors}");
            return Err(ParameterError::value(key("spare_sectors"), problem, &remedy));
        }
        let range_lbns = range_sectors - zone.spare_sectors;
        // A zone's last range may be cut short by the zone's end.
        let tail = (all % range_sectors).saturating_sub(zone.spare_sectors);
        let lbns = all / range_sectors * range_lbns + tail;
        if zone.reserved_sectors >= lbns {
            let problem = format!("{} sectors leave no room for data", zone.reserved_sectors);
            let remedy = format!("give fewer than {lbns}");
            return Err(ParameterError::value(key("reserved_sectors"), problem, &remedy));
        }
        let slips = slips(zone, all, range_sectors, range_lbns).ok_or_else(|| {
            let problem = "places are not in ascending order or leave the zone".to_owned();
            ParameterError::value(key("slipped"), problem, "sort them and name each once, counted from 0")
        })?;
        let skew = |name: &str, sectors: f64| {
            let parts = sectors * SECTOR_PARTS as f64;
            if (0.0..=1e9).contains(&parts) && parts.fract() == 0.0 {
                return Ok(parts as u64);
            }
            let problem = format!("{sectors} is no angle in thousandths of a sector");
            Err(ParameterError::value(key(name), problem, "give sectors with at most three decimals"))
        };
        let lost = if zone.spare_sectors == 0 { slips.last().map_or(0, |slip| slip.shift) } else { 0 };
        Ok(Self {
            first_lbn,
            lbn_count: (lbns - zone.reserved_sectors).saturating_sub(lost),
            first_cylinder: zone.cylinders.0.into(),
            sectors_per_track: zone.sectors_per_track.into(),
            cylinder_sectors,
            track_skew: skew("track_skew_sectors", zone.track_skew_sectors)?,
            cylinder_skew: skew("cylinder_skew_sectors", zone.cylinder_skew_sectors)?,
            offset: skew("offset_sectors", zone.offset_sectors)?,
            reserved: zone.reserved_sectors,
            range_sectors,
            range_lbns,
            slips,
        })
    }

    /// Whether places are block numbers, but for a constant.
    fn is_plain(&self) -> bool {
        self.slips.is_empty() && self.range_lbns == self.range_sectors
    }

    /// The place of a block in the zone, counted in sectors from its first cylinder and head.
    fn place(&self, lbn: u64) -> u64 {
        let logical = lbn - self.first_lbn + self.reserved;
        if self.is_plain() {
            return logical;
        }
        let range = logical / self.range_lbns;
        let after = self.slips.partition_point(|slip| slip.from <= logical);
        let shift = match after.checked_sub(1).map(|last| self.slips[last]) {
            Some(slip) if slip.range == range => slip.shift,
            _ => 0,
        };
        range * self.range_sectors + logical % self.range_lbns + shift
    }

    /// The first block of the zone at `place` or after it; one past the zone's last if there is none.
    fn lbn_from(&self, place: u64) -> u64 {
        let logical = if self.is_plain() {
            place
        } else {
            let range = place / self.range_sectors;
            let within = place % self.range_sectors;
            let base = range * self.range_lbns;
            // Sectors that hold data before `place`: all but the slipped ones, and no spares.
            let begin = self.slips.partition_point(|slip| slip.range < range);
            let slipped = self.slips[begin..]
                .iter()
                .take_while(|slip| slip.range == range && slip.from - base + slip.shift - 1 < within)
                .count() as u64;
            base + (within - slipped).min(self.range_lbns)
        };
        self.first_lbn + logical.saturating_sub(self.reserved).min(self.lbn_count)
    }
}

/// From the places of the bad sectors to the blocks from which on others have moved. `None` if they are
/// not in order.
fn slips(zone: &Zone, all: u64, range_sectors: u64, range_lbns: u64) -> Option<Vec<Slip>> {
    let ascending = zone.slipped.windows(2).all(|pair| pair[0] < pair[1]);
    if !ascending || zone.slipped.last().is_some_and(|last| *last >= all) {
        return None;
    }
    let mut slips: Vec<Slip> = Vec::with_capacity(zone.slipped.len());
    for place in &zone.slipped {
        let (range, within) = (place / range_sectors, place % range_sectors);
        let before = slips.last().filter(|slip| slip.range == range).map_or(0, |slip| slip.shift);
        // A bad sector among the spares moves nothing.
        if within - before < range_lbns {
            slips.push(Slip { from: range * range_lbns + within - before, range, shift: before + 1 });
        }
    }
    Some(slips)
}
