//! What the system says of host and device; what it does not say is left empty.

use std::fs;
use std::path::{Path, PathBuf};

use evenkeel_calibrate::HostFacts;

/// Name, kernel and processors of this host.
pub(super) fn host() -> HostFacts {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    HostFacts {
        name: line("/proc/sys/kernel/hostname"),
        kernel: format!("{} {}", line("/proc/sys/kernel/ostype"), line("/proc/sys/kernel/osrelease")),
        processor: processor().unwrap_or_default(),
        processors: u32::try_from(processors).unwrap_or(u32::MAX),
    }
}

fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let (_, name) = text.lines().find(|line| line.starts_with("model name"))?.split_once(':')?;
    Some(name.trim().to_owned())
}

/// Name, vendor, model, serial number and kind of the block device with this number.
pub(super) fn identity((major, minor): (u32, u32)) -> String {
    let Ok(device) = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")) else {
        return String::new();
    };
    let name = device.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    // A partition's facts are those of its disk.
    let disk = if device.join("partition").exists() { device.parent().map(Path::to_path_buf) } else { None };
    let disk: PathBuf = disk.unwrap_or(device);
    let fact = |name: &str| line(disk.join(name));
    let kind = match fact("queue/rotational").as_str() {
        "0" => "not rotational",
        "1" => "rotational",
        _ => "",
    };
    let words = [name, fact("device/vendor"), fact("device/model"), fact("device/serial"), kind.to_owned()];
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(", ")
}

fn line(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}
