//! What is said of failing devices of a hybrid store: which, where, whose, and how often.
//!
//! ```text
//!  access failed ──> counted by device; told the 1st, 2nd, 4th, 8th … time, with volume and place
//!  fast device lost, or missing from the start ──> told once for each volume: how much of it is out of reach
//! ```

use std::io;

use evenkeel_tiering::{Tier, TierAccess};

use super::Store;

/// Failed accesses of both devices.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TierErrors {
    pub(super) fast: u64,
    pub(super) slow: u64,
}

impl TierErrors {
    /// Counts one; how many there were on that device.
    pub(super) const fn count(&mut self, tier: Tier) -> u64 {
        let errors = match tier {
            Tier::Fast => &mut self.fast,
            Tier::Slow => &mut self.slow,
        };
        *errors += 1;
        *errors
    }
}

impl Store {
    /// An access for a request has failed with `errno`; `count` have on that device.
    pub(super) fn tell_failed_access(&self, access: &TierAccess, errno: i32, count: u64) {
        if !count.is_power_of_two() {
            return;
        }
        let slot = &self.slots[access.token as usize];
        let volume = &self.volumes[slot.volume as usize].name;
        let offset = slot.offset + u64::from(access.within);
        tracing::error!(store = %self.name, tier = ?access.tier, %volume, offset, length = access.length,
            error = %io::Error::from_raw_os_error(errno), failed_so_far = count,
            operation = ?access.operation, "an access failed; its request is answered with an error");
    }

    /// Names the volumes whose newest content is on the fast device, which is not there, and how much it is.
    pub(super) fn tell_unreachable(&self) {
        let Some(tiers) = &self.tiers else { return };
        for volume in &self.volumes {
            let range = volume.slice.offset..volume.slice.offset + volume.slice.size;
            let bytes = tiers.fast_bytes(range);
            if bytes > 0 {
                tracing::error!(store = %self.name, volume = %volume.name, unreachable_bytes = bytes,
                    "blocks of this volume are on the fast device and fail until it is back, or they are overwritten");
            }
        }
    }
}
