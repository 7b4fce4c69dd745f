//! A disk drive, after Ruemmler and Wilkes, "An introduction to disk drive modeling" (IEEE Computer
//! 27(3), 1994), and Worthington, Ganger, Patt and Wilkes, "On-line extraction of SCSI disk drive
//! parameters" (SIGMETRICS 1995).
//!
//! ```text
//!  submit ──> queue ──(FCFS, SSTF, C-LOOK, SPTF)──> controller ── overheads, buffer, read-ahead, write-back
//!                                                       │
//!                                                   mechanism ── bus beside medium
//!                                         ┌─────────────┼─────────────┐
//!                                      layout          arm         spindle
//!                                zones, slips, skews   seek curve  exact angle
//! ```
//!
//! One command is served at a time. Nothing is simulated sector by sector: a request costs a few steps for
//! each track that it touches.

use evenkeel_core::{Operation, Span, Time};

use crate::{Device, Finished, Io};

mod cache;
mod controller;
pub mod disksim;
pub mod layout;
mod mechanism;
pub mod parameters;
mod queue;
pub mod seek;
pub mod spindle;

pub use mechanism::Positioning;
pub use parameters::{ParameterError, Parameters};

use controller::Controller;
use layout::Layout;
use mechanism::Mechanism;
use queue::{Command, CommandQueue};

/// What a drive takes up after this instant, 292 years, never finishes.
const END_OF_TIME: u64 = 1 << 63;

/// A disk drive.
///
/// A flush is over when the buffer has been written back; a trim is nothing to a disk and over at once.
/// Accesses are widened to whole sectors. One that reaches beyond the capacity is served as far as the
/// drive goes; keeping clients within it is the driver's business.
#[derive(Clone, Debug)]
pub struct Disk {
    controller: Controller,
    queue: CommandQueue,
    serving: Option<Finished>,
    /// The instant at which the drive became free, if it has not chosen its next command since: what
    /// is submitted at that very instant is chosen from too.
    free_since: Option<Time>,
    sector_bytes: u64,
    now: Time,
}

impl Disk {
    /// A drive whose heads rest at the outermost cylinder, its buffer empty.
    ///
    /// # Errors
    /// If [`Parameters::validate`] refuses the parameters.
    pub fn new(parameters: &Parameters) -> Result<Self, ParameterError> {
        parameters.validate()?;
        let mechanism = Mechanism::new(parameters, Layout::new(parameters)?);
        Ok(Self {
            controller: Controller::new(parameters, mechanism),
            queue: CommandQueue::new(parameters.queue.policy),
            serving: None,
            free_since: None,
            sector_bytes: parameters.sector_bytes.into(),
            now: Time::ZERO,
        })
    }

    /// The capacity in bytes.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.controller.mechanism.layout.sectors() * self.sector_bytes
    }

    /// Accesses that have not finished.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.queue.len() + usize::from(self.serving.is_some())
    }

    /// Seek and rotation that an access to the sector `lbn` would take if the heads set out at `now` from
    /// where they are.
    #[must_use]
    pub fn positioning(&self, now: Time, lbn: u64, operation: Operation) -> Positioning {
        let mechanism = &self.controller.mechanism;
        let extent = mechanism.layout.extent(lbn.min(mechanism.layout.sectors() - 1), 1);
        mechanism.positioning(now.as_nanos(), &extent, operation == Operation::Write)
    }

    fn command(&self, io: Io) -> Command {
        let end_of_drive = self.controller.mechanism.layout.sectors();
        let lbn = (io.offset / self.sector_bytes).min(end_of_drive - 1);
        let end = io.offset.saturating_add(io.length.into()).div_ceil(self.sector_bytes);
        let sectors = end.min(end_of_drive).saturating_sub(lbn).max(1);
        Command { token: io.token, operation: io.operation, lbn, sectors }
    }

    fn serve(&mut self, at: Time, command: Command) {
        let now = at.as_nanos();
        if now >= END_OF_TIME {
            let never = Time::from_nanos(u64::MAX);
            self.serving = Some(Finished { token: command.token, at: never, busy: Span::ZERO });
            return;
        }
        let (lbn, sectors) = (command.lbn, command.sectors);
        let finish = match command.operation {
            Operation::Read => self.controller.read(now, lbn, sectors),
            Operation::Write | Operation::WriteZeroes => self.controller.write(now, lbn, sectors),
            Operation::Flush => self.controller.flush(now),
            Operation::Trim => now,
        };
        let at = Time::from_nanos(finish);
        self.serving = Some(Finished { token: command.token, at, busy: Span::from_nanos(finish - now) });
    }

    /// Chooses the next command if one is due.
    fn choose(&mut self) {
        if let Some(at) = self.free_since.take() {
            let start = self.controller.start(at.as_nanos().min(END_OF_TIME));
            if let Some(command) = self.queue.take(start, &self.controller.mechanism) {
                self.serve(at, command);
            }
        }
    }
}

impl Device for Disk {
    /// A time earlier than one already named counts as that one.
    fn submit(&mut self, now: Time, io: Io) {
        if self.free_since.is_some_and(|at| at < now) {
            self.choose();
        }
        self.now = self.now.max(now);
        let command = self.command(io);
        if self.serving.is_none() && self.free_since.is_none() {
            self.serve(self.now, command);
        } else {
            self.queue.push(command, &self.controller.mechanism);
        }
    }

    fn next_event(&self) -> Option<Time> {
        self.free_since.or(self.serving.map(|finished| finished.at))
    }

    fn poll_completion(&mut self, now: Time) -> Option<Finished> {
        self.choose();
        let finished = self.serving.filter(|finished| finished.at <= now.max(self.now))?;
        self.now = self.now.max(finished.at);
        self.serving = None;
        self.free_since = (self.queue.len() > 0).then_some(finished.at);
        Some(finished)
    }
}

#[cfg(test)]
mod tests;
