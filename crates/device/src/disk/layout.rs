//! Where a sector lies: zones, spares, slipped sectors, skews.
//!
//! ```text
//!  lbn ──zone table──> zone ──┬─ reserved + spare ranges + slips ──> place in the zone
//!                             └─ place = (cylinder · heads + head) · sectors per track + sector
//!  angle of a sector = offset + switches · track skew + cylinders · cylinder skew + sector
//! ```
//!
//! Angles are counted in thousandths of a sector of the zone, so they are exact.

use super::parameters::{HeadOrder, ParameterError, Parameters, Zone};

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
    head_order: HeadOrder,
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
    /// Lays out the zones of a drive whose single values are in range.
    ///
    /// # Errors
    /// If zones overlap, leave the drive or cannot hold what they are said to, or if all of them hold
    /// less than the capacity.
    pub(super) fn new(parameters: &Parameters) -> Result<Self, ParameterError> {
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
        let (heads, sectors) = (parameters.heads.into(), parameters.capacity_sectors);
        Ok(Self { zones, heads, head_order: parameters.head_order, sectors })
    }

    /// Sectors that can be addressed.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Sectors that the zones hold, which may be more.
    pub(super) fn zone_sectors(&self) -> u64 {
        self.zones.last().map_or(0, |zone| zone.first_lbn + zone.lbn_count)
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
        let turns_back = match self.head_order {
            HeadOrder::Forward => false,
            HeadOrder::Serpentine => (zone.first_cylinder + cylinder) % 2 == 1,
            HeadOrder::ZoneSerpentine => cylinder % 2 == 1,
        };
        let skews = (head + (self.heads - 1) * cylinder) * zone.track_skew + cylinder * zone.cylinder_skew;
        let revolution = zone.sectors_per_track * SECTOR_PARTS;
        Extent {
            cylinder: (zone.first_cylinder + cylinder) as u32,
            head: (if turns_back { self.heads - 1 - head } else { head }) as u32,
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
        let range_sectors = match parameters.spare_range_tracks {
            Some(tracks) => (u64::from(tracks) * u64::from(zone.sectors_per_track)).min(all),
            None => range_cylinders * cylinder_sectors,
        };
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
        // Without spares anywhere the zone itself gets shorter; otherwise a range makes up for its own.
        let ranges = parameters.spare_range_cylinders.or(parameters.spare_range_tracks);
        let shortens = zone.spare_sectors == 0 && ranges.is_none();
        if let Some(slip) = slips.iter().find(|slip| !shortens && slip.shift > zone.spare_sectors) {
            let problem =
                format!("spare range {} has more than its {} spares", slip.range, zone.spare_sectors);
            return Err(ParameterError::value(key("slipped"), problem, "correct it or `spare_sectors`"));
        }
        let lost = if shortens { slips.last().map_or(0, |slip| slip.shift) } else { 0 };
        Ok(Self {
            first_lbn,
            lbn_count: (lbns - zone.reserved_sectors).saturating_sub(lost),
            first_cylinder: zone.cylinders.0.into(),
            sectors_per_track: zone.sectors_per_track.into(),
            cylinder_sectors,
            track_skew: zone.track_skew_sectors.0,
            cylinder_skew: zone.cylinder_skew_sectors.0,
            offset: zone.offset_sectors.0,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::parameters::Sectors;
    use crate::disk::parameters::tests::small;
    use proptest::prelude::*;

    fn zone(cylinders: (u32, u32), sectors_per_track: u32) -> Zone {
        Zone {
            cylinders,
            sectors_per_track,
            track_skew_sectors: Sectors(2_000),
            cylinder_skew_sectors: Sectors(3_500),
            offset_sectors: Sectors(0),
            reserved_sectors: 0,
            spare_sectors: 0,
            slipped: Vec::new(),
        }
    }

    /// Every block's place, by walking over all places and skipping what holds no data.
    fn naive(parameters: &Parameters) -> Vec<(u32, u32, u32)> {
        let mut places = Vec::new();
        for zone in &parameters.zone {
            let spt = u64::from(zone.sectors_per_track);
            let per_cylinder = spt * u64::from(parameters.heads);
            let cylinders = u64::from(zone.cylinders.1 - zone.cylinders.0 + 1);
            let range = u64::from(parameters.spare_range_cylinders.unwrap_or(u32::MAX)).min(cylinders);
            let range = parameters.spare_range_tracks.map_or(range * per_cylinder, |tracks| {
                (u64::from(tracks) * spt).min(cylinders * per_cylinder)
            });
            let mut reserved = zone.reserved_sectors;
            let mut start = 0;
            while start < cylinders * per_cylinder {
                let end = (start + range).min(cylinders * per_cylinder);
                let mut room = (end - start).saturating_sub(zone.spare_sectors);
                for place in (start..end).filter(|place| !zone.slipped.contains(place)) {
                    if room == 0 {
                        break;
                    }
                    room -= 1;
                    if reserved > 0 {
                        reserved -= 1;
                        continue;
                    }
                    let within = (place / per_cylinder) as u32;
                    let head = (place % per_cylinder / spt) as u32;
                    let cylinder = zone.cylinders.0 + within;
                    let back = match parameters.head_order {
                        HeadOrder::Forward => false,
                        HeadOrder::Serpentine => !cylinder.is_multiple_of(2),
                        HeadOrder::ZoneSerpentine => !within.is_multiple_of(2),
                    };
                    let head = if back { parameters.heads - 1 - head } else { head };
                    places.push((cylinder, head, (place % spt) as u32));
                }
                start = end;
            }
        }
        places
    }

    fn check(parameters: &Parameters) {
        let layout = Layout::new(parameters).expect("a valid layout");
        let places = naive(parameters);
        assert!(places.len() as u64 >= parameters.capacity_sectors);
        for (lbn, place) in places.iter().enumerate() {
            let lbn = lbn as u64;
            // As many as follow on the same track, and the sectors that pass from the first to the last.
            let same_track =
                places[lbn as usize..].iter().take_while(|other| other.0 == place.0 && other.1 == place.1);
            let on_track: Vec<_> = same_track.collect();
            for ask in [1, 3, 1_000] {
                let extent = layout.extent(lbn, ask.min(places.len() as u64 - lbn));
                assert_eq!((extent.cylinder, extent.head, extent.sector), *place, "block {lbn}");
                let count = on_track.len().min(ask as usize);
                assert_eq!(extent.sectors as usize, count, "block {lbn}, {ask} asked");
                assert_eq!(extent.span, on_track[count - 1].2 - place.2 + 1, "block {lbn}, {ask} asked");
            }
            assert_eq!(layout.cylinder(lbn), place.0);
            let (begin, end) = layout.track(lbn);
            assert_eq!(end, lbn + on_track.len() as u64);
            let same =
                |other: u64| (places[other as usize].0, places[other as usize].1) == (place.0, place.1);
            assert!(same(begin) && (begin == 0 || !same(begin - 1)));
        }
    }

    #[test]
    fn blocks_fill_track_after_track() {
        let mut drive = small();
        drive.zone = vec![zone((0, 1), 4), zone((3, 3), 2)];
        drive.capacity_sectors = 20;
        check(&drive);
        let layout = Layout::new(&drive).unwrap();
        let places: Vec<_> = [0, 3, 4, 8, 15, 16, 19]
            .map(|lbn| layout.extent(lbn, 1))
            .map(|e| (e.cylinder, e.head, e.sector))
            .into();
        assert_eq!(places, [(0, 0, 0), (0, 0, 3), (0, 1, 0), (1, 0, 0), (1, 1, 3), (3, 0, 0), (3, 1, 1)]);
    }

    #[test]
    fn skews_add_up_to_the_angle() {
        let mut drive = small();
        drive.zone = vec![zone((0, 9), 8)];
        drive.capacity_sectors = 160;
        let layout = Layout::new(&drive).unwrap();
        // Cylinder 2, head 1, sector 5: 3 track skews of 2, 2 cylinder skews of 3.5, 5 sectors: 18 of 8.
        let extent = layout.extent(2 * 16 + 8 + 5, 1);
        assert_eq!((extent.cylinder, extent.head, extent.sector), (2, 1, 5));
        assert_eq!(extent.angle, 2_000);
    }

    #[test]
    fn a_slipped_sector_moves_all_that_follow() {
        let mut drive = small();
        drive.zone = vec![Zone { slipped: vec![1, 2, 9], ..zone((0, 0), 8) }];
        drive.capacity_sectors = 13;
        check(&drive);
        let layout = Layout::new(&drive).unwrap();
        assert_eq!(layout.extent(0, 8).sectors, 6);
        assert_eq!(layout.extent(0, 8).span, 8);
        assert_eq!(layout.extent(1, 1).sector, 3);
    }

    #[test]
    fn what_does_not_fit_is_refused_by_its_key() {
        let refused = |change: &dyn Fn(&mut Parameters)| {
            let mut drive = small();
            drive.zone = vec![zone((0, 4), 8), zone((5, 9), 6)];
            drive.capacity_sectors = 100;
            change(&mut drive);
            Layout::new(&drive).expect_err("it does not fit").to_string()
        };
        assert!(refused(&|d| d.zone[1].cylinders = (4, 9)).starts_with("zone[1].cylinders: "));
        assert!(refused(&|d| d.zone[1].cylinders = (5, 10)).starts_with("zone[1].cylinders: "));
        assert!(refused(&|d| d.capacity_sectors = 1_000).starts_with("capacity_sectors: "));
        assert!(refused(&|d| d.zone[0].spare_sectors = 80).starts_with("zone[0].spare_sectors: "));
        assert!(refused(&|d| d.zone[0].reserved_sectors = 80).starts_with("zone[0].reserved_sectors: "));
        assert!(refused(&|d| d.zone[0].slipped = vec![3, 3]).starts_with("zone[0].slipped: "));
        assert!(refused(&|d| d.zone[0].slipped = vec![80]).starts_with("zone[0].slipped: "));
        let too_many = |d: &mut Parameters| {
            d.zone[0].spare_sectors = 1;
            d.zone[0].slipped = vec![3, 5];
        };
        assert!(refused(&too_many).starts_with("zone[0].slipped: spare range 0 has more than its 1 spares"));
    }

    proptest! {
        #[test]
        fn it_agrees_with_walking_over_every_place(
            heads in 1_u32..4,
            tracks in prop::collection::vec((1_u32..5, 1_u32..12, 0_u64..4, 0_u64..6), 1..4),
            range in prop::option::of(1_u32..4),
            by_track: bool,
            order in prop::sample::select(vec![HeadOrder::Forward, HeadOrder::Serpentine, HeadOrder::ZoneSerpentine]),
            slips in prop::collection::btree_set(0_u64..60, 0..4),
        ) {
            let mut drive = small();
            (drive.heads, drive.head_order) = (heads, order);
            let kind = if by_track { &mut drive.spare_range_tracks } else { &mut drive.spare_range_cylinders };
            *kind = range;
            drive.zone.clear();
            let mut cylinder = 0;
            for (count, spt, reserved, spares) in tracks {
                let all = u64::from(count * heads * spt);
                let ranges = match range.filter(|_| by_track) {
                    Some(tracks) => u64::from(tracks.min(count * heads) * spt),
                    None => u64::from(range.unwrap_or(count).min(count)) * u64::from(heads * spt),
                };
                let slipped: Vec<u64> = slips.iter().copied().filter(|slip| *slip < all).collect();
                drive.zone.push(Zone {
                    reserved_sectors: reserved.min(all / 3),
                    spare_sectors: spares.min(ranges / 2),
                    slipped,
                    ..zone((cylinder, cylinder + count - 1), spt)
                });
                cylinder += count + 1;
            }
            drive.cylinders = cylinder;
            drive.capacity_sectors = 1;
            // Ranges without enough spares are refused, and so are not what is compared here.
            prop_assume!(Layout::new(&drive).is_ok());
            check(&drive);
        }
    }
}
