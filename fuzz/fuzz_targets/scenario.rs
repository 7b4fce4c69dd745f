//! Scenario files: any text is read or refused with a place inside it; what is read is run for a while
//! without a panic, and again with the same result.
#![no_main]

use std::path::Path;

use evenkeel_device::Spec;
use evenkeel_device::spec::Model;
use evenkeel_sim::scenario::{DeviceConfig, Scenario, parse};
use evenkeel_sim::{EventLog, SimError, Simulation};
use libfuzzer_sys::fuzz_target;

/// Requests after which a run is long enough.
const REQUESTS: u64 = 2_000;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // Traces and descriptions of devices are other targets'; here they would only be files that are not there.
    if text.contains("trace") || text.contains("file") {
        return;
    }
    match parse(text, Path::new("fuzz.toml")) {
        Ok(scenario) => {
            if is_small(&scenario) {
                assert_eq!(events(&scenario), events(&scenario), "the same seed, another course");
            }
        }
        Err(error) => {
            assert!(!error.problems.is_empty());
            assert!(error.problems.iter().all(|problem| problem.span.end <= text.len()));
            assert!(!error.to_string().is_empty());
        }
    }
});

/// Whether its device and its bursts fit the memory that the target has.
fn is_small(scenario: &Scenario) -> bool {
    let device = match &scenario.device {
        DeviceConfig::Model(spec) => tables(spec) <= 100_000,
        DeviceConfig::Hybrid(_) => false,
        DeviceConfig::Exponential { .. } => true,
    };
    device && scenario.flows.len() <= 100
}

/// Entries of the tables that the device would take.
fn tables(spec: &Spec) -> u128 {
    match spec.model() {
        Model::Flash(it) => it.raw_bytes() / u128::from(it.page),
        Model::Disk(it) => u128::from(it.cylinders) + u128::from(it.cache.segments),
        Model::Raid { members, .. } => members.iter().map(|member| tables(member) + 1).sum(),
        Model::Bus { device, .. } => tables(device),
        _ => 1,
    }
}

/// The event log of the first requests, and what ended the run early.
fn events(scenario: &Scenario) -> (Vec<u8>, Option<SimError>) {
    let begun = scenario.setup(1).and_then(|setup| Simulation::new(setup, EventLog::new(Vec::new())));
    let mut simulation = match begun {
        Ok(simulation) => simulation,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let end = scenario.end();
    let mut failed = None;
    while let Some(at) = simulation.next_instant().filter(|at| *at < end) {
        // To the present instant and no further, so that the run can be left at any.
        if let Err(error) = simulation.run_until(at) {
            failed = Some(error);
            break;
        }
        if simulation.arrived() > REQUESTS {
            break;
        }
    }
    assert_eq!(simulation.arrived(), simulation.completed() + simulation.open(), "a request is lost");
    (simulation.into_observer().finish().expect("memory takes it"), failed)
}
