//! How much is copied under scans, which tempt a cache to copy without end.

use evenkeel_core::{FlowId, Operation};
use evenkeel_tiering::policy::{Arc, Lru, Online, OnlineParameters, Policy};
use evenkeel_tiering::store::{Background, HybridRequest, Output};
use evenkeel_tiering::{Cluster, Geometry, Hybrid};

const CLUSTER: u64 = 65_536;
const BLOCK: u32 = 4096;
const SLOTS: u64 = 100;
const CLUSTERS: u64 = 2_000;

/// A store whose devices take no time.
struct Store(Hybrid);

impl Store {
    fn new(policy: Box<dyn Policy>) -> Self {
        let geometry = Geometry::new(CLUSTER as u32, BLOCK).expect("valid");
        let background = Background::default();
        let hybrid = Hybrid::new(geometry, CLUSTERS * CLUSTER, SLOTS * CLUSTER, policy, background, [])
            .expect("empty");
        Self(hybrid)
    }

    fn request(&mut self, flow: u32, operation: Operation, offset: u64) {
        let flow = FlowId(flow);
        self.0.submit(&HybridRequest { token: 0, flow, operation, fua: false, offset, length: BLOCK });
        while let Some(output) = self.0.poll_output() {
            match output {
                Output::Access(access) => self.0.on_access_done(access.id, true),
                Output::Copy(copy) => self.0.on_copy_done(copy.id, true),
                Output::Sync(tier) => self.0.on_sync_done(tier, true),
                Output::Commit(_) => self.0.on_commit_done(true),
                Output::Done { outcome, .. } => assert_eq!(outcome, Ok(())),
            }
        }
    }

    fn read(&mut self, flow: u32, cluster: Cluster) {
        self.request(flow, Operation::Read, cluster * CLUSTER);
    }

    /// Clusters copied in either direction.
    fn copied(&self) -> u64 {
        let counts = self.0.counts();
        counts.promoted + counts.demoted
    }
}

fn policies() -> [(&'static str, Box<dyn Policy>); 3] {
    let online = Online::new(OnlineParameters::default()).expect("valid");
    [("lru", Box::<Lru>::default()), ("arc", Box::<Arc>::default()), ("online", Box::new(online))]
}

/// Reads every block of clusters 500 to 1999, in order, as flow 1.
fn scan(store: &mut Store) {
    for block in 500 * 16..CLUSTERS * 16 {
        store.request(1, Operation::Read, block * u64::from(BLOCK));
    }
}

#[test]
fn a_scan_moves_next_to_nothing_and_leaves_what_is_hot() {
    for (name, policy) in policies() {
        let mut store = Store::new(policy);
        // Ninety hot clusters, read in an order that jumps.
        for round in 0..10 {
            (0..90).for_each(|index| store.read(0, index * 37 % 90 * 2));
            assert!(round == 0 || store.copied() >= 60, "{name}: {:?}", store.0.counts());
        }
        let before = store.0.counts();
        scan(&mut store);
        scan(&mut store);
        let after = store.0.counts();
        let moved = after.promoted + after.demoted - before.promoted - before.demoted;
        assert!(moved <= 4, "{name}: a scan of 48000 reads moved {moved} clusters");
        let fast = after.fast;
        (0..90).for_each(|index| store.read(0, index * 37 % 90 * 2));
        assert!(store.0.counts().fast - fast >= 60, "{name}: what was hot has left");
    }
}
