//! Devices as text: any model, by a TOML file, an inline table or the name of a drive.
//!
//! ```text
//!  "flashsim-2009" ──> named ─┐
//!  kind = "raid", ... ────────┴─> Spec { description, sources, model } ──> capacity(), build() ──> Device
//!                                          members: further Specs
//!
//!  a problem names its key, line and remedy; all problems of a text are told at once
//! ```
//!
//! A [`Spec`] that exists can be built: every rule of its model has been checked.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};

use evenkeel_core::{Envelope, Rate, Span};
use evenkeel_strict::{ConfigError, Item, Report, Table};

use crate::flash::linear;
use crate::{Bus, ConstantRate, Device, Disk, Flash, LinearFlash, ParameterError, Raid, Servers};
use crate::{disk, flash, raid, servers};

mod named;
mod read;

/// A text that describes no device: every problem with its line, key and remedy.
pub use evenkeel_strict::ConfigError as SpecError;

/// The most members of an array, those of its members included.
pub const MEMBERS_MAX: usize = 4096;

/// A device that can be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    description: String,
    sources: Vec<String>,
    model: Model,
}

/// The models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Model {
    /// [`ConstantRate`].
    ConstantRate {
        /// Accesses per second, all servers together.
        rate: Rate,
        /// Servers that work at the same time.
        servers: NonZeroU32,
        /// Bytes, where that matters.
        capacity: Option<u64>,
    },
    /// [`Servers`].
    Servers {
        /// Its parameters.
        parameters: servers::Parameters,
        /// Bytes, where that matters.
        capacity: Option<u64>,
    },
    /// [`Disk`].
    Disk(Box<disk::Parameters>),
    /// [`Flash`].
    Flash(flash::Parameters),
    /// [`LinearFlash`].
    LinearFlash(linear::Parameters),
    /// [`Raid`].
    Raid {
        /// Its parameters.
        parameters: raid::Parameters,
        /// Its members, each with a capacity.
        members: Vec<Spec>,
    },
    /// [`Bus`].
    Bus {
        /// What is behind it.
        device: Box<Spec>,
        /// What it transfers.
        bytes_per_second: NonZeroU64,
        /// What each transfer costs besides.
        overhead: Span,
    },
}

impl Spec {
    /// A device of this model, if it can be.
    ///
    /// # Errors
    /// Names the parameter that cannot be.
    pub fn new(model: Model) -> Result<Self, ParameterError> {
        model.check()?;
        Ok(Self { description: String::new(), sources: Vec::new(), model })
    }

    /// Reads a description; `origin` is what errors call it, as the name of the file.
    ///
    /// # Errors
    /// Every problem of the text.
    pub fn parse(text: &str, origin: &str) -> Result<Self, SpecError> {
        let refused = |problems| ConfigError::new(PathBuf::from(origin), text.to_owned(), problems);
        let root = evenkeel_strict::document(text).map_err(refused)?;
        let mut report = Report::default();
        let spec = Self::read(&mut report, Table::new(String::new(), 0..0, root.get_ref()));
        match spec {
            Some(spec) if report.problems.is_empty() => Ok(spec),
            _ => Err(refused(report.problems)),
        }
    }

    /// Reads a table of a larger text: what a file of its own would have at its top level.
    pub fn read(report: &mut Report, table: Table<'_>) -> Option<Self> {
        read::spec(report, table, 0)
    }

    /// Reads a value of a larger text: the name of a drive in quotes, or a table.
    pub fn read_value(report: &mut Report, item: &Item<'_>) -> Option<Self> {
        read::value(report, item, 0)
    }

    /// Reads the description in the file at `path`, which `item` of a larger text names. What is wrong with it is
    /// told at the item, with its place in the file.
    pub fn read_file(report: &mut Report, item: &Item<'_>, path: &Path) -> Option<Self> {
        let text = evenkeel_strict::file::read(path, "name the description of a device");
        let spec = text.and_then(|text| Self::parse(&text, &path.to_string_lossy()));
        spec.map_err(|error| item.refuse_other(report, &error)).ok()
    }

    /// Takes `rate` and `servers`, at most `servers_max` of them, out of a table: the short form of a device of
    /// constant rate. `form` is the remedy if the rate is missing.
    pub fn take_rate(
        report: &mut Report,
        table: &mut Table<'_>,
        form: &str,
        servers_max: u32,
    ) -> Option<(Rate, NonZeroU32)> {
        let rate = table.require(report, "rate", form);
        let servers = table.take("servers").map(|item| item.whole(report, 1..=servers_max));
        let rate = rate.and_then(|item| {
            let rate = item.rate(report)?;
            if rate.as_millis() == 0 || rate > Envelope::RATE_MAX {
                let remedy = format!("write a rate above 0 and up to {}", Envelope::RATE_MAX);
                item.refuse(report, format!("{rate} is no rate that a device can have"), remedy);
            }
            Some(rate)
        });
        Some((rate?, servers.unwrap_or(Some(1)).and_then(NonZeroU32::new)?))
    }

    /// The drive of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let text = Self::text_of(name)?;
        // A test reads every one of them.
        Self::parse(text, name).ok()
    }

    /// The description of the drive of that name, as it is written.
    #[must_use]
    pub fn text_of(name: &str) -> Option<&'static str> {
        named::ALL.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
    }

    /// The names of all drives that come with this crate.
    pub fn names() -> impl Iterator<Item = &'static str> {
        named::ALL.iter().map(|(name, _)| *name)
    }

    /// What it is, in a line; may be empty.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Where its parameters are from.
    #[must_use]
    pub fn sources(&self) -> &[String] {
        &self.sources
    }

    /// What it is made of.
    #[must_use]
    pub const fn model(&self) -> &Model {
        &self.model
    }

    /// Its size in bytes; `None` if it has none, as a server of queueing theory.
    #[must_use]
    pub fn capacity(&self) -> Option<u64> {
        match &self.model {
            Model::ConstantRate { capacity, .. } | Model::Servers { capacity, .. } => *capacity,
            Model::Disk(parameters) => Some(parameters.capacity_bytes()),
            Model::Flash(parameters) => Some(parameters.capacity),
            Model::LinearFlash(parameters) => Some(parameters.capacity),
            Model::Raid { parameters, members } => parameters.capacity(&capacities(members)).ok(),
            Model::Bus { device, .. } => device.capacity(),
        }
    }

    /// How many accesses it works on at the same time, as far as that can be told: its servers, dies or
    /// members. A dispatch depth below it leaves part of the device idle.
    #[must_use]
    pub fn parallelism(&self) -> NonZeroU32 {
        let count = match &self.model {
            Model::ConstantRate { servers, .. } => servers.get(),
            Model::Servers { parameters, .. } => parameters.servers.get(),
            Model::Flash(parameters) => parameters.channels.saturating_mul(parameters.dies_per_channel),
            Model::Disk(_) | Model::LinearFlash(_) => 1,
            Model::Raid { members, .. } => {
                members.iter().fold(0_u32, |sum, member| sum.saturating_add(member.parallelism().get()))
            }
            Model::Bus { device, .. } => return device.parallelism(),
        };
        NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN)
    }

    /// The same device with other random service times, for another run of the same study: the seeds of all
    /// servers in it are mixed with `seed`. Devices without chance stay what they are.
    #[must_use]
    pub fn seeded(&self, seed: u64) -> Self {
        let model = match &self.model {
            Model::Servers { parameters, capacity } => Model::Servers {
                parameters: servers::Parameters {
                    seed: servers::mixed(parameters.seed, seed),
                    ..*parameters
                },
                capacity: *capacity,
            },
            Model::Raid { parameters, members } => {
                // Members that are written as one description do not draw the same times.
                let seeded = |(index, member): (u64, &Self)| member.seeded(servers::mixed(index, seed));
                let members = (0..).zip(members).map(seeded).collect();
                Model::Raid { parameters: *parameters, members }
            }
            Model::Bus { device, bytes_per_second, overhead } => Model::Bus {
                device: Box::new(device.seeded(seed)),
                bytes_per_second: *bytes_per_second,
                overhead: *overhead,
            },
            other => other.clone(),
        };
        Self { model, ..self.clone() }
    }

    /// The device, idle. A large flash drive takes 8 bytes of memory per page, and a moment.
    ///
    /// # Panics
    /// Never: what cannot be built is no [`Spec`].
    #[must_use]
    pub fn build(&self) -> Box<dyn Device + Send> {
        const CHECKED: &str = "every rule has been checked";
        match &self.model {
            Model::ConstantRate { rate, servers, .. } => Box::new(ConstantRate::new(*rate, *servers)),
            Model::Servers { parameters, .. } => Box::new(Servers::new(*parameters)),
            Model::Disk(parameters) => Box::new(Disk::new(parameters).expect(CHECKED)),
            Model::Flash(parameters) => Box::new(Flash::new(*parameters).expect(CHECKED)),
            Model::LinearFlash(parameters) => Box::new(LinearFlash::new(*parameters).expect(CHECKED)),
            Model::Raid { parameters, members } => {
                let build = |member: &Self| (member.build(), member.capacity().unwrap_or(0));
                Box::new(Raid::new(*parameters, members.iter().map(build).collect()).expect(CHECKED))
            }
            Model::Bus { device, bytes_per_second, overhead } => {
                Box::new(Bus::new(device.build(), *bytes_per_second, *overhead))
            }
        }
    }
}

impl Model {
    /// Its kind, as it is written.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::ConstantRate { .. } => "constant-rate",
            Self::Servers { .. } => "servers",
            Self::Disk(_) => "disk",
            Self::Flash(_) => "flash",
            Self::LinearFlash(_) => "linear-flash",
            Self::Raid { parameters, .. } => match parameters.level {
                raid::Level::Jbod => "jbod",
                _ => "raid",
            },
            Self::Bus { .. } => "bus",
        }
    }

    fn check(&self) -> Result<(), ParameterError> {
        match self {
            Self::ConstantRate { .. } | Self::Servers { .. } | Self::Bus { .. } => Ok(()),
            Self::Disk(parameters) => parameters.validate().map_err(ParameterError::from),
            Self::Flash(parameters) => parameters.check(),
            Self::LinearFlash(parameters) => parameters.check(),
            Self::Raid { parameters, members } => {
                if let Some(member) = members.iter().position(|member| member.capacity().is_none()) {
                    let message = format!("member {member} has no capacity");
                    return Err(ParameterError::new("members", message, "give it one: capacity = \"1 GiB\""));
                }
                if members.iter().map(Spec::devices).sum::<usize>() > MEMBERS_MAX {
                    let message = format!("the array has more than {MEMBERS_MAX} devices");
                    return Err(ParameterError::new("members", message, "use fewer"));
                }
                parameters.capacity(&capacities(members)).map(|_| ())
            }
        }
    }
}

impl Spec {
    /// Devices within it, itself if it has no members.
    fn devices(&self) -> usize {
        match &self.model {
            Model::Raid { members, .. } => members.iter().map(Self::devices).sum(),
            Model::Bus { device, .. } => device.devices(),
            _ => 1,
        }
    }
}

fn capacities(members: &[Spec]) -> Vec<u64> {
    members.iter().map(|member| member.capacity().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests;
