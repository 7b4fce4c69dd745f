//! Rotation: where the platters are at an instant, exactly.
//!
//! ```text
//!  instant, ns ──mod 60 s──> · rpm ──mod 60 s──> phase: a fraction with denominator 60 000 000 000
//!  one minute is a whole number of revolutions, so nothing is lost and nothing drifts
//! ```

use super::layout::{Extent, SECTOR_PARTS};
use super::parameters::Angle;

const MINUTE_NS: u64 = 60_000_000_000;
/// What DiskSim cuts angles to: 2⁻²⁴ of a turn. Kept in halves of it.
const CUT_BITS: u32 = 25;

/// A spindle that turned by a whole number of revolutions at instant 0, and has turned evenly since.
#[derive(Clone, Copy, Debug)]
pub struct Spindle {
    rpm: u64,
    angle: Angle,
    /// How far the platters are behind the exact angle, in 2⁻²⁵ of a turn.
    behind: u64,
}

impl Spindle {
    /// A spindle of `rpm` revolutions per minute, at least one and at most 100 000, whose angle is kept
    /// as `angle` says.
    #[must_use]
    pub fn new(rpm: u32, angle: Angle) -> Self {
        Self { rpm: rpm.into(), angle, behind: 0 }
    }

    /// The heads pass `sectors` sectors of a track after having waited for the first. DiskSim adds up
    /// the turn of each of these steps: that of the wait and of every sector is one cut short, because its
    /// time was cut to 2⁻²⁰ of a turn before; that of the time between two accesses is half a cut short
    /// on average.
    pub fn passes(&mut self, sectors: u32) {
        if self.angle == Angle::Disksim {
            self.behind += 2 * u64::from(sectors) + 3;
        }
    }

    /// When the first sector of `extent` begins to pass under the head at or after `now`, and when the
    /// last one has passed; nanoseconds, rounded down from the exact instants.
    #[must_use]
    pub fn pass(self, now: u64, extent: &Extent) -> Pass {
        let parts = u64::from(extent.sectors_per_track) * SECTOR_PARTS;
        // Below 10^7 parts of a revolution and 6·10^10 parts of a minute: at most 6·10^17.
        let revolution = MINUTE_NS * parts;
        let mut phase = now % MINUTE_NS * self.rpm % MINUTE_NS * parts;
        if self.behind > 0 {
            let behind = (u128::from(self.behind % (1 << CUT_BITS)) * u128::from(revolution)) >> CUT_BITS;
            phase = (phase + revolution - behind as u64) % revolution;
        }
        let target = extent.angle * MINUTE_NS;
        let turn = if target >= phase { target - phase } else { target + revolution - phase };
        Pass { now, turn, rate: self.rpm * parts }
    }

    /// The time of `sectors` sectors of a track that holds `sectors_per_track`, in nanoseconds.
    #[must_use]
    pub fn sectors_ns(self, sectors: u32, sectors_per_track: u32) -> u64 {
        MINUTE_NS * u64::from(sectors) / (self.rpm * u64::from(sectors_per_track))
    }

    /// The time of a revolution, in nanoseconds, rounded down.
    #[must_use]
    pub fn revolution_ns(self) -> u64 {
        MINUTE_NS / self.rpm
    }
}

/// Sectors that pass under a head.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    now: u64,
    /// The turn from `now` to the first sector, in parts of which `rate` pass in a nanosecond.
    turn: u64,
    rate: u64,
}

impl Pass {
    /// When the first sector begins.
    #[must_use]
    pub fn begin(&self) -> u64 {
        self.after(0)
    }

    /// When `sectors` sectors have passed.
    #[must_use]
    pub fn after(&self, sectors: u32) -> u64 {
        self.now + (self.turn + u64::from(sectors) * SECTOR_PARTS * MINUTE_NS) / self.rate
    }

    /// How many whole sectors have passed by `at`.
    #[must_use]
    pub fn passed(&self, at: u64) -> u32 {
        let turned = u128::from(at.saturating_sub(self.now)) * u128::from(self.rate);
        let turned = turned.saturating_sub(u128::from(self.turn)) / u128::from(SECTOR_PARTS * MINUTE_NS);
        u32::try_from(turned).unwrap_or(u32::MAX)
    }

    /// The first instant at or after `at` at which the heads, on the track of `extent`, are between two
    /// sectors; before they are there, the instant at which they arrive.
    #[must_use]
    pub fn boundary(&self, at: u64, extent: &Extent) -> u64 {
        if at <= self.now {
            return self.now;
        }
        let sector = SECTOR_PARTS * MINUTE_NS;
        let turned = (at - self.now).saturating_mul(self.rate);
        let revolution = sector * u64::from(extent.sectors_per_track);
        let ahead = (self.turn % revolution + sector - turned % sector) % sector;
        at + ahead / self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extent(sector: u32, sectors_per_track: u32, sectors: u32) -> Extent {
        let angle = u64::from(sector) * SECTOR_PARTS;
        Extent { cylinder: 0, head: 0, sector, sectors_per_track, angle, sectors, span: sectors }
    }

    #[test]
    fn sectors_pass_when_the_angle_says_so() {
        // 6000 rpm: 10 ms per turn, 1 ms per sector.
        let spindle = Spindle::new(6_000, Angle::Exact);
        let pass = spindle.pass(23_400_000, &extent(2, 10, 3));
        assert_eq!(pass.begin(), 32_000_000);
        assert_eq!(pass.after(3), 35_000_000);
        assert_eq!(pass.passed(34_999_999), 2);
        assert_eq!(spindle.pass(32_000_000, &extent(2, 10, 1)).begin(), 32_000_000, "just in time");
        assert_eq!(spindle.revolution_ns(), 10_000_000);
    }

    #[test]
    fn what_ends_where_the_next_begins_costs_no_turn() {
        // 10045 rpm and 254 sectors: no sector begins at a whole nanosecond, but the next one is there.
        let spindle = Spindle::new(10_045, Angle::Exact);
        let mut now = 0;
        for sector in (0..254).cycle().take(254 * 1_000) {
            now = spindle.pass(now, &extent(sector, 254, 1)).after(1);
        }
        assert_eq!(now, 60_000_000_000_u64 * 1_000 / 10_045);
    }

    #[test]
    fn disksims_angle_falls_behind_with_every_sector() {
        let mut spindle = Spindle::new(6_000, Angle::Disksim);
        let wanted = extent(5, 10, 1);
        assert_eq!(spindle.pass(0, &wanted).begin(), 5_000_000);
        // 8 sectors and a wait and a half: 9.5 cuts of 10 ms / 2^24 each.
        (0..1_000).for_each(|_| spindle.passes(8));
        assert_eq!(spindle.pass(0, &wanted).begin(), 5_000_000 + 9_500 * 10_000_000 / (1 << 24));
        let mut exact = Spindle::new(6_000, Angle::Exact);
        (0..1_000).for_each(|_| exact.passes(8));
        assert_eq!(exact.pass(0, &wanted).begin(), 5_000_000);
    }

    #[test]
    fn a_boundary_is_the_next_gap_between_sectors() {
        let (spindle, wanted) = (Spindle::new(6_000, Angle::Exact), extent(2, 10, 1));
        let boundary = |at| spindle.pass(5_300_000, &wanted).boundary(at, &wanted);
        assert_eq!(boundary(1_000_000), 5_300_000, "the heads arrive");
        assert_eq!(boundary(5_400_000), 6_000_000);
        assert_eq!(boundary(6_000_000), 6_000_000);
        assert_eq!(boundary(12_000_001), 13_000_000);
    }

    proptest! {
        #[test]
        fn the_first_pass_is_neither_early_nor_late(
            rpm in 60_u32..100_000, now in 0..u64::MAX / 2, spt in 1_u32..2_000, pick: u32, count in 1_u32..50
        ) {
            let wanted = extent(pick % spt, spt, count);
            let pass = Spindle::new(rpm, Angle::Exact).pass(now, &wanted);
            // The exact angle at t, in parts of 60e9 * spt: it is the sector's, up to a nanosecond.
            let unit = u128::from(MINUTE_NS) * u128::from(spt);
            let angle = |at: u64| u128::from(at) * u128::from(rpm) * u128::from(spt) % unit;
            let target = u128::from(wanted.sector) * u128::from(MINUTE_NS);
            let short = (target + unit - angle(pass.begin())) % unit;
            prop_assert!(short < u128::from(rpm) * u128::from(spt), "within the nanosecond before");
            prop_assert!(pass.begin() - now <= MINUTE_NS / u64::from(rpm), "within a revolution");
            let exact = u128::from(MINUTE_NS) * u128::from(count) / (u128::from(rpm) * u128::from(spt));
            prop_assert!((u128::from(pass.after(count) - pass.begin())).abs_diff(exact) <= 1);
            prop_assert_eq!(pass.passed(pass.after(count) + 1), count);
        }
    }
}
