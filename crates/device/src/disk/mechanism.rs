//! Heads over platters beside a bus: when a run of sectors is off the medium or on it, and at the host.
//!
//! ```text
//!  medium  ──seek──rotate──[s s s s]──switch──rotate──[s s s]
//!  bus                      └──[ s  s  s  s  s  s  s ]          a sector goes on as soon as it is read
//!
//!  bus     [s s s s s s s]
//!  medium  ──seek──rotate──[s s s s]──switch──rotate──[s s s]   a sector must be there before its turn
//! ```
//!
//! Both flows are even within a track, so only the first and the last sector on each track can be the one
//! that waits longest: the work grows with the tracks of a request, not with its sectors.

use super::layout::{Extent, Layout};
use super::parameters::Parameters;
use super::seek::{Arm, Track};
use super::spindle::{Pass, Spindle};

/// The moving parts and the bus of a drive.
#[derive(Clone, Debug)]
pub(super) struct Mechanism {
    pub(super) layout: Layout,
    pub(super) spindle: Spindle,
    pub(super) arm: Arm,
    /// Where the heads are, or to which track they are moving.
    pub(super) track: Track,
    bus_sector_ns: u64,
}

/// When a read is over, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadTimes {
    /// The last sector has come off the medium.
    pub(super) medium: u64,
    /// The last sector is at the host.
    pub(super) host: u64,
}

/// What a positioning consists of, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Positioning {
    /// Seek, head switch and settling.
    pub seek_ns: u64,
    /// Waiting for the first sector.
    pub rotation_ns: u64,
}

impl Mechanism {
    pub(super) fn new(parameters: &Parameters, layout: Layout) -> Self {
        Self {
            layout,
            spindle: Spindle::new(parameters.rpm),
            arm: Arm::new(parameters),
            track: Track::default(),
            bus_sector_ns: parameters.bus.sector_ns,
        }
    }

    /// The time that `sectors` take on the bus.
    pub(super) fn bus_ns(&self, sectors: u64) -> u64 {
        sectors * self.bus_sector_ns
    }

    /// Goes on to `extent` from `start` on; when its sectors pass.
    pub(super) fn go_on(&mut self, start: u64, extent: &Extent, write: bool) -> Pass {
        let to = Track { cylinder: extent.cylinder, head: extent.head };
        let arrival = start + self.arm.move_ns(self.track, to, write);
        self.track = to;
        self.spindle.pass(arrival, extent)
    }

    /// Approaches `extent` from `start` on for an access of its own; when its sectors pass.
    pub(super) fn approach(&mut self, start: u64, extent: &Extent, write: bool) -> Pass {
        let to = Track { cylinder: extent.cylinder, head: extent.head };
        let arrival = start + self.arm.approach_ns(self.track, to, write);
        self.track = to;
        self.spindle.pass(arrival, extent)
    }

    /// What it would take to approach `extent` from `start` on.
    pub(super) fn positioning(&self, start: u64, extent: &Extent, write: bool) -> Positioning {
        let to = Track { cylinder: extent.cylinder, head: extent.head };
        let seek_ns = self.arm.approach_ns(self.track, to, write);
        let arrival = start + seek_ns;
        Positioning { seek_ns, rotation_ns: self.spindle.pass(arrival, extent).begin() - arrival }
    }

    /// Reads `sectors` from `lbn`, moving the heads from `start` on, and sends them to the host over a
    /// bus that is free from `bus` on.
    pub(super) fn read(&mut self, start: u64, lbn: u64, sectors: u64, bus: u64) -> ReadTimes {
        let mut times = ReadTimes { medium: start, host: bus + self.bus_ns(sectors) };
        let (mut lbn, mut left) = (lbn, sectors);
        while left > 0 {
            let extent = self.layout.extent(lbn, left);
            let pass = match left == sectors {
                true => self.approach(times.medium, &extent, false),
                false => self.go_on(times.medium, &extent, false),
            };
            times.medium = pass.after(extent.span);
            let count = u64::from(extent.sectors);
            let behind_first = pass.after(1) + self.bus_ns(left);
            let behind_last = times.medium + self.bus_ns(left - count + 1);
            times.host = times.host.max(behind_first).max(behind_last);
            lbn += count;
            left -= count;
        }
        times
    }

    /// Writes `sectors` to `lbn`, moving the heads from `start` on, while they come from the host over
    /// the bus from `bus` on; when the last one is on the medium. `goes_on` says that the heads have just
    /// written the sector before.
    pub(super) fn write(&mut self, start: u64, lbn: u64, sectors: u64, bus: u64, goes_on: bool) -> u64 {
        let mut medium = start;
        let mut done = 0;
        while done < sectors {
            let extent = self.layout.extent(lbn + done, sectors - done);
            let mut pass = match done == 0 && !goes_on {
                true => self.approach(medium, &extent, true),
                false => self.go_on(medium, &extent, true),
            };
            let count = u64::from(extent.sectors);
            let first_there = bus + self.bus_ns(done + 1);
            let last_there = bus + self.bus_ns(done + count);
            while pass.begin() < first_there || pass.after(extent.span - 1) < last_there {
                pass = pass.next_turn(extent.sectors_per_track);
            }
            medium = pass.after(extent.span);
            done += count;
        }
        medium
    }
}
