//! The device of a scenario; for the offline scheme, after a first pass.
//!
//! ```text
//!  pass 1   the same scenario and seed, everything on the slow device ──> Profile ──> chosen clusters
//!  pass 2   the chosen ones are on the fast device from the start      (what the caller runs)
//! ```
//! Requests that depend on replies (closed loops) may differ between the passes: give them `requests`, so
//! that both passes have the same ones.

use evenkeel_core::{FlowId, Operation, Submission, Time};
use evenkeel_device::Device;
use evenkeel_tiering::Cluster;
use evenkeel_tiering::policy::Profile;

use super::{DeviceConfig, HybridConfig, PolicyConfig, Scenario};
use crate::simulation::{Observer, SimError, Simulation};

/// The size of an access where there was none.
const REQUEST_DEFAULT: u64 = 4_096;

/// Shows every request to a profile.
struct Profiling {
    profile: Profile,
    requests: u64,
    bytes: u64,
}

impl Observer for Profiling {
    fn on_submit(&mut self, _now: Time, submission: &Submission, _outstanding: u32) {
        let request = &submission.request;
        if request.operation != Operation::Flush && request.length > 0 {
            let is_write = request.operation != Operation::Read;
            self.profile.observe(request.flow, is_write, request.offset, request.length);
            self.requests += 1;
            self.bytes += u64::from(request.length);
        }
    }
}

impl Scenario {
    /// The device with nothing on its way; runs the first pass if its policy needs one.
    pub(super) fn build_device(&self, seed: u64) -> Result<Box<dyn Device + Send>, SimError> {
        let DeviceConfig::Hybrid(config) = &self.device else { return Ok(self.device.build(seed)) };
        let chosen = match config.policy {
            PolicyConfig::Offline => self.first_pass(config, seed)?,
            _ => Vec::new(),
        };
        let mut device = config.seeded(seed).build(&chosen);
        if let Some(flow) = self.migration_flow() {
            device.schedule_copies(flow);
        }
        Ok(Box::new(device))
    }

    /// The flow of copies between tiers, behind those of flows and groups, if they are scheduled.
    pub(super) fn migration_flow(&self) -> Option<FlowId> {
        let is_scheduled = matches!(&self.device, DeviceConfig::Hybrid(config) if config.schedules_copies);
        is_scheduled.then(|| FlowId((self.flows.len() + self.groups.len()) as u32))
    }

    fn first_pass(&self, config: &HybridConfig, seed: u64) -> Result<Vec<Cluster>, SimError> {
        let plain = HybridConfig { policy: PolicyConfig::None, ..config.clone() };
        let scenario = Self { device: DeviceConfig::Hybrid(Box::new(plain)), ..self.clone() };
        let profiling = Profiling { profile: Profile::new(config.geometry), requests: 0, bytes: 0 };
        let mut simulation = Simulation::new(scenario.setup(seed)?, profiling)?;
        simulation.run_until(Time::from_nanos(self.end().as_nanos().saturating_sub(1)))?;
        if self.drain {
            simulation.drain()?;
        }
        let seen = simulation.observer();
        let mean = seen.bytes.checked_div(seen.requests).unwrap_or(REQUEST_DEFAULT);
        Ok(config.choose(&seen.profile, u32::try_from(mean).unwrap_or(u32::MAX)))
    }
}
