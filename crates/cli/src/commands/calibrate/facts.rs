//! What the system says of the host; what it does not say is left empty.

use std::fs;
use std::path::Path;

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

fn line(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}
