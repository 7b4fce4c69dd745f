//! A profile as text.

use std::fmt::{self, Write as _};

use evenkeel_strict::ShownBytes;

use crate::profile::{Measurement, Profile, SustainedCourse, VERSION};

impl fmt::Display for Profile {
    /// As a TOML file, which [`crate::parse`] reads back as the same profile.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { measured_at, tool, host, device, sustained, measurements } = self;
        writeln!(f, "# A device profile: `profile = \"THIS FILE\"` in [store.NAME] uses it.")?;
        writeln!(f, "version = {VERSION}\nmeasured_at = {}\ntool = {}", quoted(measured_at), quoted(tool))?;
        writeln!(f, "\n[host]\nname = {}\nkernel = {}", quoted(&host.name), quoted(&host.kernel))?;
        writeln!(f, "processor = {}\nprocessors = {}", quoted(&host.processor), host.processors)?;
        writeln!(f, "\n[device]\npath = {}\nkind = \"{}\"", quoted(&device.path), device.kind.name())?;
        writeln!(f, "size = \"{}\"\ndirect = {}", ShownBytes(device.size), device.direct)?;
        writeln!(f, "identity = {}", quoted(&device.identity))?;
        if let Some(sustained) = sustained {
            writeln!(f, "\n[sustained]\nmeasurement = {}", row(&sustained.measurement))?;
            match sustained.course {
                SustainedCourse::Steady => writeln!(f, "course = \"steady\"")?,
                SustainedCourse::BurstCredit { before, lasted } => {
                    writeln!(f, "course = \"burst credit\"\nbefore = \"{before}\"\nlasted = \"{lasted}\"")?;
                }
                SustainedCourse::Drift { permille } => {
                    writeln!(f, "course = \"drift\"\nchange_permille = {permille}")?;
                }
            }
        }
        writeln!(f, "\n# rate: accesses per second; low, high: its 95 % confidence interval.")?;
        writeln!(f, "[grid]\nmeasurements = [")?;
        for measurement in measurements {
            writeln!(f, "    {},", row(measurement))?;
        }
        writeln!(f, "]")
    }
}

/// One measurement as an inline table.
fn row(measurement: &Measurement) -> String {
    let Measurement { cell, rate, low, high, time, is_narrow } = measurement;
    format!(
        "{{ operation = \"{}\", pattern = \"{}\", size = \"{}\", depth = {}, rate = \"{rate}\", low = \"{low}\", \
         high = \"{high}\", time = \"{time}\", narrow = {is_narrow} }}",
        if cell.writes { "write" } else { "read" },
        cell.pattern.name(),
        ShownBytes(u64::from(cell.bytes)),
        cell.depth,
    )
}

/// `text` as a TOML string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(character);
            }
            control if control.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", control as u32);
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
