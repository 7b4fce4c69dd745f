//! Write-back errors: what the kernel tells once is told to everybody whom it may concern.
//!
//! The kernel reports that dirty pages could not be written to the next sync of the file that the gateway
//! holds open, and only to that. Which pages they were it does not say, and a file may hold the slices of many
//! volumes. So each volume of that file has its next FLUSH fail.
//!
//! ```text
//!  file 0   faults 2 ─┬─ volume a  told 2
//!                     ├─ volume b  told 1   its next FLUSH fails
//!                     └─ volume c  told 2
//! ```

use evenkeel_nbd::Command;

use super::Store;
use super::access::Slot;
use super::steps::Stage;

/// Failed syncs of one file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    count: u64,
    /// The error number of the last one.
    errno: i32,
}

impl Slot {
    /// Whether its present step makes data durable that others may have written.
    fn syncs_file(&self) -> bool {
        self.steps.stage == Stage::Sync || self.steps.command == Command::Flush
    }
}

impl Store {
    /// Takes in the result of a step of an access; what it counts as.
    pub(super) fn judge_result(&mut self, index: u32, result: i32) -> i32 {
        let slot = &self.slots[index as usize];
        let syncs = slot.syncs_file();
        // A durable write through the page cache syncs the file behind itself.
        let durable_write = slot.steps.command == Command::Write && slot.steps.fua && !self.direct;
        let tells = slot.steps.command == Command::Flush;
        if !(syncs || durable_write) || matches!(-result, libc::EINTR | libc::EAGAIN) {
            return result;
        }
        let result = if syncs && self.syncs_to_fail > 0 {
            self.syncs_to_fail -= 1;
            -libc::EIO
        } else {
            result
        };
        let volume = &mut self.volumes[slot.volume as usize];
        let faults = &mut self.faults[volume.slice.file as usize];
        if result < 0 {
            faults.count += 1;
            faults.errno = -result;
            tracing::error!(store = %self.name, volume = %volume.name,
                error = %std::io::Error::from_raw_os_error(-result),
                "data could not be made durable; the next FLUSH of each volume in this file will fail");
        }
        // The error of a write says nothing about what was written before: that is for a FLUSH to say.
        if tells && volume.faults_told < faults.count {
            volume.faults_told = faults.count;
            return -faults.errno;
        }
        result
    }

    /// Names volumes that have not been told of a fault of their file.
    pub(super) fn report_untold_faults(&self) {
        for volume in &self.volumes {
            if volume.faults_told < self.faults[volume.slice.file as usize].count {
                tracing::error!(store = %self.name, volume = %volume.name,
                    "data could not be made durable, and no FLUSH has come since to be told so");
            }
        }
    }
}
