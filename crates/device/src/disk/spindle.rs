//! Rotation: where the platters are at an instant, exactly.
//!
//! ```text
//!  instant, ns ──mod 60 s──> · rpm ──mod 60 s──> phase: a fraction with denominator 60 000 000 000
//!  one minute is a whole number of revolutions, so nothing is lost and nothing drifts
//! ```

use super::layout::{Extent, SECTOR_PARTS};

const MINUTE_NS: u64 = 60_000_000_000;

/// A spindle that turned by a whole number of revolutions at instant 0, and has turned evenly since.
#[derive(Clone, Copy, Debug)]
pub struct Spindle {
    rpm: u64,
}

impl Spindle {
    /// A spindle of `rpm` revolutions per minute, at least one and at most 100 000.
    #[must_use]
    pub fn new(rpm: u32) -> Self {
        Self { rpm: rpm.into() }
    }

    /// When the first sector of `extent` begins to pass under the head at or after `now`, and when the
    /// last one has passed; nanoseconds, rounded down from the exact instants.
    #[must_use]
    pub fn pass(self, now: u64, extent: &Extent) -> Pass {
        let parts = u64::from(extent.sectors_per_track) * SECTOR_PARTS;
        // Below 10^7 parts of a revolution and 6·10^10 parts of a minute: at most 6·10^17.
        let revolution = MINUTE_NS * parts;
        let phase = now % MINUTE_NS * self.rpm % MINUTE_NS * parts;
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

    /// The same sectors one revolution later.
    #[must_use]
    pub fn next_turn(mut self, sectors_per_track: u32) -> Self {
        self.turn += u64::from(sectors_per_track) * SECTOR_PARTS * MINUTE_NS;
        self
    }
}
