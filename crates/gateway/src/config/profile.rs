//! `profile`: what `evenkeel calibrate` measured, as the default of capacity, depth and costs.
//!
//! ```text
//!  profile = "vdb.profile.toml"    ──> capacity, depth, cost    each where the store does not state its own
//! ```

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use evenkeel_calibrate::{Derived, Profile};
use evenkeel_strict::{ConfigError, Item, Problem, Report};

use super::sections::read_path;
use super::{FILE_BYTES_MAX, ShownBytes};

/// A profile that a store goes by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileConfig {
    /// Its file.
    pub path: PathBuf,
    /// What it says.
    pub derived: Derived,
}

/// Reads the device profile at `path`.
///
/// # Errors
/// If it cannot be read, is too large, or has problems; each names its place and remedy.
pub fn load_profile(path: &Path) -> Result<Profile, ConfigError> {
    let refused = |message: String, remedy: &str| {
        let problem = Problem { span: 0..0, key: String::new(), message, remedy: remedy.to_owned() };
        ConfigError { file: path.to_owned(), text: String::new(), problems: vec![problem] }
    };
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
    if let Err(error) = read {
        let message = format!("cannot read the profile: {error}");
        return Err(refused(message, "name a file that `evenkeel calibrate` has written"));
    }
    if text.len() as u64 > FILE_BYTES_MAX {
        let message = format!("the file is larger than {}", ShownBytes(FILE_BYTES_MAX));
        return Err(refused(message, "name a file that `evenkeel calibrate` has written"));
    }
    evenkeel_calibrate::parse(&text, path)
}

/// The profile that `item` names; its problems are told at the item, with their place in the other file.
pub(super) fn read_profile(report: &mut Report, item: &Item<'_>, folder: &Path) -> Option<ProfileConfig> {
    let path = read_path(report, item, folder)?;
    match load_profile(&path) {
        Ok(profile) => profile.derived().map(|derived| ProfileConfig { path, derived }),
        Err(error) => {
            for problem in &error.problems {
                let (line, column) = error.line_column(problem);
                let key = if problem.key.is_empty() { String::new() } else { format!("{}: ", problem.key) };
                let message = format!("{}:{line}:{column}: {key}{}", path.display(), problem.message);
                item.refuse(report, message, problem.remedy.clone());
            }
            None
        }
    }
}
