//! How fast the flash model is, in page operations per second of one processor:
//! `cargo run --release -p evenkeel-device --example flash_speed`.

use std::time::Instant;

use evenkeel_core::{Operation, Span, Time};
use evenkeel_device::flash::{Collection, Flash, Initial, Mapping, Parameters};
use evenkeel_device::{Device, Io};

fn main() {
    let page_map = Parameters {
        capacity: 7_130_316 * 4096,
        page: 4096,
        pages_per_block: 64,
        blocks_per_die: 16_384,
        dies_per_channel: 1,
        channels: 8,
        read: Span::from_micros(25),
        program: Span::from_micros(200),
        erase: Span::from_micros(1_500),
        transfer: Span::from_micros(100),
        copyback: true,
        read_overhead: Span::ZERO,
        write_overhead: Span::ZERO,
        write_buffer: 0,
        collection: Collection::Greedy,
        collect_below: 2,
        wear_gap: None,
        mapping: Mapping::Page,
        initial: Initial::Steady,
    };
    run("page map, greedy", page_map);
    run("page map, cost-benefit", Parameters { collection: Collection::CostBenefit, ..page_map });
    run("DFTL", Parameters { mapping: Mapping::Cached { protected: 8192, probation: 2048 }, ..page_map });
}

#[expect(clippy::disallowed_methods, reason = "this measures the model from outside")]
fn run(name: &str, parameters: Parameters) {
    let began = Instant::now();
    let mut drive = Flash::new(parameters).expect("the parameters are fine");
    let prepared = began.elapsed();
    let pages = parameters.capacity / 4096;
    let (mut state, mut now, count) = (1_u64, Time::ZERO, 2_000_000_u64);
    let began = Instant::now();
    for token in 0..count {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let operation = if token % 2 == 0 { Operation::Read } else { Operation::Write };
        drive.submit(now, Io { token, operation, offset: (state >> 20) % pages * 4096, length: 4096 });
        if token >= 32 {
            now = drive.next_event().unwrap_or(now);
            drive.poll_completion(now);
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let counters = drive.counters();
    let pages = counters.host_reads
        + counters.host_writes
        + counters.copies
        + counters.map_reads
        + counters.map_writes;
    println!(
        "{name}: prepared in {:.2} s; {:.2} M accesses/s, {:.2} M page operations/s; write amplification {:.2}",
        prepared.as_secs_f64(),
        count as f64 / seconds / 1e6,
        pages as f64 / seconds / 1e6,
        counters.write_amplification()
    );
}
