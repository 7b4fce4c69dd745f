//! Every scheduler at 10 to 1 000 000 flows: `cargo bench -p evenkeel-bench [-- pclock/1000]`; `mixed` has nested
//! classes, limits and background flows among them, so that classes are chosen and spare capacity is lent.

use std::time::Duration;

use criterion::Criterion;
use evenkeel_bench::{FLOWS, IDLE_DEVICE, Load, SCHEDULERS, counting, mixed_slo, slo};
use evenkeel_core::Slo;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// What a flow is promised, by its number.
type Promise = fn(u32) -> Slo;

fn schedulers(criterion: &mut Criterion) {
    let loads: [(&str, Promise); 2] = [("", slo), (" mixed", mixed_slo)];
    for ((name, make), (load, promise)) in
        SCHEDULERS.into_iter().flat_map(|scheduler| loads.map(|load| (scheduler, load)))
    {
        let mut group = criterion.benchmark_group(format!("{name}{load}"));
        group.sample_size(20).measurement_time(Duration::from_secs(2));
        for &flows in FLOWS {
            group.bench_function(flows.to_string(), |bencher| {
                let mut load = Load::new(make(), flows, IDLE_DEVICE, promise);
                (0..2 * flows).for_each(|_| load.step());
                let before = counting::calls();
                let mut steps = 0_u64;
                bencher.iter(|| {
                    load.step();
                    steps += 1;
                });
                let calls = counting::calls() - before;
                // Criterion itself allocates a few times per sample, not per request.
                assert!(calls * 10 <= steps.max(10_000), "{calls} allocations in {steps} requests");
            });
        }
        group.finish();
    }
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    schedulers(&mut criterion);
    criterion.final_summary();
}
