//! `profile`: what `evenkeel calibrate` measured, as the default of capacity, depth and costs.
//!
//! ```text
//!  profile = "vdb.profile.toml"    ──> capacity, depth, cost    each where the store does not state its own
//! ```

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use evenkeel_calibrate::{Derived, DeviceFacts, DeviceKind, Profile};
use evenkeel_strict::{ConfigError, Item, Report};

use super::StoreConfig;
use super::sections::read_path;
use crate::calibrate::device_identity;

/// A profile that a store goes by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileConfig {
    /// Its file.
    pub path: PathBuf,
    /// What it says.
    pub derived: Derived,
    /// What was measured.
    pub device: DeviceFacts,
}

impl StoreConfig {
    /// Why the profile may not speak of the device under this store, in words; `None` if there is no profile, it is of
    /// this device, or the system does not tell. A profile of a file counts for the disk that the file lies on, and
    /// stores with an emulated device may go by any.
    #[must_use]
    pub fn foreign_profile(&self) -> Option<String> {
        let ProfileConfig { path, device, .. } = self.profile.as_ref()?;
        let own = self.path.as_ref().filter(|_| self.emulate.is_none())?;
        // Where the system says nothing of the hardware, the file system must be the same.
        let same_device = || {
            let measured = Path::new(&device.path);
            let measured =
                fs::metadata(measured).or_else(|_| fs::metadata(measured.parent().unwrap_or(measured)));
            measured.is_ok_and(|measured| fs::metadata(own).is_ok_and(|own| own.dev() == measured.dev()))
        };
        let measured = match device.kind {
            DeviceKind::Model => format!("of a model ({})", device.path),
            DeviceKind::Nbd => format!("measured over NBD ({}), network and server included", device.path),
            DeviceKind::File | DeviceKind::BlockDevice => {
                let present = device_identity(own);
                let is_same = match (device.identity.as_str(), present.as_str()) {
                    ("", "") => same_device() || !own.exists(),
                    (measured, present) => measured == present,
                };
                if is_same {
                    return None;
                }
                let words = |identity: &str| {
                    if identity.is_empty() { String::new() } else { format!(" ({identity})") }
                };
                format!(
                    "of {}{}; this store lies on {}{}",
                    device.path,
                    words(&device.identity),
                    own.display(),
                    words(&present)
                )
            }
        };
        Some(format!(
            "profile {} is {measured}; measure this store's own device with `evenkeel calibrate`",
            path.display()
        ))
    }
}

/// Reads the device profile at `path`.
///
/// # Errors
/// If it cannot be read, is too large, or has problems; each names its place and remedy.
pub fn load_profile(path: &Path) -> Result<Profile, ConfigError> {
    let text = evenkeel_strict::file::read(path, "name a file that `evenkeel calibrate` has written")?;
    evenkeel_calibrate::parse(&text, path)
}

/// The profile that `item` names; its problems are told at the item, with their place in the other file.
pub(super) fn read_profile(report: &mut Report, item: &Item<'_>, folder: &Path) -> Option<ProfileConfig> {
    let path = read_path(report, item, folder)?;
    match load_profile(&path) {
        Ok(profile) => {
            profile.derived().map(|derived| ProfileConfig { path, derived, device: profile.device })
        }
        Err(error) => {
            item.refuse_other(report, &error);
            None
        }
    }
}
