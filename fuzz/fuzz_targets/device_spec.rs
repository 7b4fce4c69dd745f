//! Descriptions of devices: any text is read or refused with a place inside it; a device that can be
//! described works: every access finishes once, in order.
#![no_main]

use evenkeel_core::{Operation, Time};
use evenkeel_device::spec::Model;
use evenkeel_device::{Device, Io, Spec};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Spec::parse(text, "fuzz.toml") {
        Ok(spec) => {
            assert!(spec.capacity() != Some(0) || !matches!(spec.model(), Model::Flash(_)));
            if tables(&spec) <= 100_000 {
                use_it(spec.build());
            }
        }
        Err(error) => {
            assert!(!error.problems.is_empty());
            assert!(error.problems.iter().all(|problem| problem.span.end <= text.len()));
            assert!(!error.to_string().is_empty());
        }
    }
});

/// Entries of the tables that the device would take.
fn tables(spec: &Spec) -> u128 {
    match spec.model() {
        Model::Flash(it) => {
            let dies = u128::from(it.channels) * u128::from(it.dies_per_channel);
            let blocks = dies * (u128::from(it.blocks_per_die) + u128::from(it.pages_per_block));
            it.raw_bytes() / u128::from(it.page) + blocks + u128::from(it.channels)
        }
        Model::Disk(it) => u128::from(it.cylinders) + u128::from(it.cache.segments),
        Model::Raid { members, .. } => members.iter().map(|member| tables(member) + 1).sum(),
        Model::Bus { device, .. } => tables(device),
        _ => 1,
    }
}

fn use_it(mut device: Box<dyn Device + Send>) {
    let operations =
        [Operation::Write, Operation::Read, Operation::Trim, Operation::WriteZeroes, Operation::Flush];
    let mut finished = [0; 20];
    for token in 0..20_u64 {
        let operation = operations[token as usize % operations.len()];
        let io = Io { token, operation, offset: token * 5_000, length: 9_000 };
        device.submit(Time::from_nanos(token * 1_000), io);
    }
    let mut last = Time::ZERO;
    while let Some(at) = device.next_event() {
        if let Some(over) = device.poll_completion(at) {
            assert!(over.at >= last && over.at <= at);
            last = over.at;
            finished[over.token as usize] += 1;
        }
    }
    assert_eq!(finished, [1; 20]);
}
