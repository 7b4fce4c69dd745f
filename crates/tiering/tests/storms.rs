//! How much is copied under scans, which tempt a cache to copy without end, and how often both devices are
//! synced while clusters come and go.

use evenkeel_core::{FlowId, Operation};
use evenkeel_tiering::policy::{Arc, Lru, Online, OnlineParameters, Policy};
use evenkeel_tiering::store::{Background, HybridRequest, Output};
use evenkeel_tiering::{Access, Advice, Cluster, Geometry, Hybrid, Residence};

const CLUSTER: u64 = 65_536;
const BLOCK: u32 = 4096;
const SLOTS: u64 = 100;
const CLUSTERS: u64 = 2_000;

/// A store whose devices take no time.
struct Store(Hybrid);

impl Store {
    fn new(policy: Box<dyn Policy>, slots: u64) -> Self {
        let geometry = Geometry::new(CLUSTER as u32, BLOCK).expect("valid");
        let background = Background { release_batch_max: 64, ..Background::default() };
        let hybrid = Hybrid::new(geometry, CLUSTERS * CLUSTER, slots * CLUSTER, policy, background, [])
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
        let mut store = Store::new(policy, SLOTS);
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

#[test]
fn slots_are_set_free_in_batches_so_that_copies_do_not_sync_one_by_one() {
    for (name, policy) in policies().into_iter().take(2) {
        // The 1024 slots are set free 32 at a time.
        let mut store = Store::new(policy, 1024);
        (0..20_000_u64).for_each(|number| store.read(0, number * 7919 % CLUSTERS));
        let counts = store.0.counts();
        assert!(counts.demoted > 300, "{name}: {counts:?}");
        assert!(counts.commits <= counts.demoted / 16, "{name}: {counts:?}");
        assert!(store.0.slots().0 > 900, "{name}: and the slots are in use: {:?}", store.0.slots());
    }
    // Few slots, and nobody who gives up any: the one that is released is still had, after some patience.
    let mut store = Store::new(Box::new(Stubborn), 64);
    (0..65).for_each(|cluster| store.read(0, cluster * 2));
    assert_eq!(store.0.slots().0, 64);
    (0..1_000).for_each(|_| store.read(0, 128));
    assert!(store.0.entries().iter().any(|(cluster, _)| *cluster == 128), "it has got the slot");
}

/// Wants everything there, and cluster 0 out.
struct Stubborn;

impl Policy for Stubborn {
    fn on_access(&mut self, access: &Access, residence: Residence) -> Advice {
        let demote = (access.cluster == 128).then_some(0);
        Advice { write_to: None, promote: !residence.is_resident, demote }
    }
}
