//! What the map and a policy cost per request: 4 KiB random reads, all from the fast device, 16 at a time.
//!
//! `cargo run --release -p evenkeel-tiering --example path_cost`. Prints the fastest of many rounds: the one
//! that other programs disturbed least.
#![allow(clippy::disallowed_methods, reason = "an example that measures reads the clock")]

use std::time::Instant;

use evenkeel_core::{FlowId, Operation};
use evenkeel_tiering::policy::{self, DiskOnly, Online, OnlineParameters, Policy};
use evenkeel_tiering::store::{Background, HybridRequest, Output};
use evenkeel_tiering::{Geometry, Hybrid};

const CLUSTER: u32 = 1 << 20;
const CLUSTERS: u64 = 512;
const AT_ONCE: u64 = 16;
const REQUESTS: u64 = 100_000;
const ROUNDS: u32 = 60;

fn main() {
    let policies: [(&str, Box<dyn Policy>); 4] = [
        ("none", Box::new(DiskOnly)),
        ("online", Box::new(Online::new(OnlineParameters::default()).expect("valid"))),
        ("lru", Box::<policy::Lru>::default()),
        ("arc", Box::<policy::Arc>::default()),
    ];
    for (name, policy) in policies {
        let geometry = Geometry::new(CLUSTER, 4096).expect("valid");
        let bytes = CLUSTERS * u64::from(CLUSTER);
        let mut hybrid =
            Hybrid::new(geometry, bytes, bytes * 3 / 2, policy, Background::default(), []).expect("empty");
        for cluster in 0..CLUSTERS {
            assert!(hybrid.preload(cluster), "there is room");
        }
        let mut state = 1_u64;
        let fastest = (0..ROUNDS).map(|_| round(&mut hybrid, &mut state)).min_by(f64::total_cmp);
        println!("{name:<8}{:>8.1} ns per request", fastest.unwrap_or_default());
    }
}

/// Nanoseconds per request.
fn round(hybrid: &mut Hybrid, state: &mut u64) -> f64 {
    let mut accesses = Vec::with_capacity(AT_ONCE as usize);
    let start = Instant::now();
    for _ in 0..REQUESTS / AT_ONCE {
        for token in 0..AT_ONCE {
            *state ^= *state << 13;
            *state ^= *state >> 7;
            *state ^= *state << 17;
            let offset = *state % (CLUSTERS * u64::from(CLUSTER) / 4096) * 4096;
            let operation = Operation::Read;
            let flow = FlowId(0);
            hybrid.submit(&HybridRequest { token, flow, operation, fua: false, offset, length: 4096 });
            while let Some(output) = hybrid.poll_output() {
                match output {
                    Output::Access(access) => accesses.push(access.id),
                    other => unreachable!("{other:?}"),
                }
            }
        }
        for id in accesses.drain(..) {
            hybrid.on_access_done(id, true);
            assert!(matches!(hybrid.poll_output(), Some(Output::Done { .. })));
        }
    }
    start.elapsed().as_nanos() as f64 / REQUESTS as f64
}
