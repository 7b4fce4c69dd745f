//! One store, its devices, its clients and its bad luck.

use std::collections::BTreeMap;

use evenkeel_core::{FlowId, Operation};
use evenkeel_tiering::policy::{Access, Advice, DiskOnly, Online, OnlineParameters, Policy, Residence};
use evenkeel_tiering::store::{Background, Copy, HybridRequest, Output, TierAccess};
use evenkeel_tiering::{Change, Entry, Geometry, Hybrid, Tier};

use crate::device::Device;
use crate::history::History;
use crate::{Faults, Random};

const SECTOR: u64 = 512;
/// Two sectors a block, four blocks a cluster, ten and a half clusters, four of which fit on fast.
const BLOCK: u32 = 1024;
const CLUSTER: u32 = 4096;
const STORE: u64 = 10 * 4096 + 2560;
const FAST: u64 = 4 * 4096 + 100;
const FLOWS: usize = 3;

/// Something under way.
enum Job {
    /// Not carried out yet, or carried out and not reported yet: both may take time.
    Access(TierAccess),
    Copy(Copy, Option<Vec<u64>>),
    Sync(Tier, u64),
    Commit(Vec<Change>),
}

/// A client's request.
struct Client {
    request: HybridRequest,
    submitted: u64,
    number: u64,
    /// What a read found, sector by sector.
    found: Vec<(usize, u64)>,
}

pub(crate) struct World {
    pub(crate) random: Random,
    pub(crate) faults: Faults,
    pub(crate) devices_lie: bool,
    step: u64,
    hybrid: Hybrid,
    fast: Device,
    slow: Device,
    map: BTreeMap<u64, Entry>,
    jobs: Vec<Job>,
    clients: BTreeMap<u64, Client>,
    history: History,
    next_token: u64,
}

/// Advises at random: whatever a policy may say, nothing may be lost.
struct Chaos(Random);

impl Policy for Chaos {
    fn on_access(&mut self, access: &Access, _residence: Residence) -> Advice {
        Advice {
            write_to: [None, Some(Tier::Fast), Some(Tier::Slow), Some(Tier::Fast)][self.0.below(4)],
            promote: self.0.percent(20),
            demote: match self.0.below(4) {
                0 => Some(access.cluster),
                1 => Some(self.0.below(11) as u64),
                _ => None,
            },
        }
    }
}

fn policy(random: &mut Random) -> Box<dyn Policy> {
    match random.below(4) {
        0 => Box::new(Online::new(OnlineParameters::default()).expect("valid")),
        _ => Box::new(Chaos(Random(random.next()))),
    }
}

fn hybrid(random: &mut Random, map: &BTreeMap<u64, Entry>) -> Hybrid {
    let geometry = Geometry::new(CLUSTER, BLOCK).expect("valid");
    let background = Background {
        migrations_max: 1 + random.below(3),
        waiting_max: 8,
        changes_max: 1 + random.below(10),
        release_batch_max: 1 + random.below(3) as u32,
        copy_bytes_max: BLOCK * (1 + random.below(5) as u32),
    };
    let stored = map.iter().map(|(&cluster, &entry)| (cluster, entry));
    Hybrid::new(geometry, STORE, FAST, policy(random), background, stored).expect("the map is sound")
}

impl World {
    pub(crate) fn new(seed: u64, faults: Faults) -> Self {
        let mut random = Random(seed);
        let map = BTreeMap::new();
        Self {
            hybrid: hybrid(&mut random, &map),
            random,
            faults,
            devices_lie: false,
            step: 1,
            fast: Device::new((FAST / SECTOR) as usize),
            slow: Device::new((STORE / SECTOR) as usize),
            map,
            jobs: Vec::new(),
            clients: BTreeMap::new(),
            history: History::new((STORE / SECTOR) as usize),
            next_token: 0,
        }
    }

    pub(crate) fn slots_used(&self) -> u32 {
        self.hybrid.slots().0
    }

    /// Random requests and random completions.
    pub(crate) fn operate(&mut self, steps: usize) {
        for _ in 0..steps {
            if self.clients.len() < 12 && self.random.percent(50) {
                self.submit_random();
            } else {
                self.complete_random();
            }
        }
    }

    /// Completes all that is under way.
    pub(crate) fn settle(&mut self) {
        for _ in 0..100_000 {
            if self.jobs.is_empty() && self.hybrid.is_idle() {
                break;
            }
            assert!(!self.jobs.is_empty(), "the store waits for something that nobody will report");
            self.complete_random();
        }
        assert!(self.clients.is_empty(), "requests without an answer");
    }

    pub(crate) fn drain(&mut self) {
        self.hybrid.set_policy(Box::new(DiskOnly));
        self.hybrid.drain();
        self.collect();
        self.settle();
    }

    pub(crate) fn crash_and_recover(&mut self) {
        for job in std::mem::take(&mut self.jobs) {
            match job {
                // What was under way may have been carried out in part.
                Job::Access(access) => self.apply_some(&access),
                Job::Commit(changes) if self.random.percent(50) => self.apply_commit(&changes),
                Job::Copy(copy, Some(content)) => self.write_copy(&copy, &content, true),
                Job::Copy(_, None) | Job::Sync(..) | Job::Commit(_) => {}
            }
        }
        self.fast.crash(&mut self.random);
        self.slow.crash(&mut self.random);
        self.clients.clear();
        self.step += 1;
        self.history.crash(self.step);
        self.step += 1;
        self.hybrid = hybrid(&mut self.random, &self.map);
        if self.faults.absent_percent > 0 && self.random.percent(self.faults.absent_percent) {
            self.hybrid.without_fast();
        }
        // Quietly, before any migration: what is there now must stay.
        for sector in 0..(STORE / SECTOR) as usize {
            let value = self.look(sector);
            if let Err(problem) = self.history.check_recovered(sector, value) {
                panic!("after the crash: {problem}");
            }
            self.history.settle(sector, value);
        }
    }

    /// Reads the whole store through the state machine's own map.
    pub(crate) fn check_everything(&self, when: &str) {
        for sector in 0..(STORE / SECTOR) as usize {
            let value = self.look(sector);
            if let Err(problem) = self.history.check_read(sector, value, self.step) {
                panic!("{when}: {problem}");
            }
        }
    }

    fn look(&self, sector: usize) -> u64 {
        let geometry = self.hybrid.geometry();
        let offset = sector as u64 * SECTOR;
        let cluster = geometry.cluster_of(offset);
        let within = offset - geometry.offset_of(cluster);
        let entry = self.hybrid.entries().into_iter().find(|&(other, _)| other == cluster).map(|(_, e)| e);
        match entry {
            Some(entry) if entry.on_fast.contains((within / u64::from(BLOCK)) as u32) => {
                self.fast.read(((geometry.slot_offset(entry.slot) + within) / SECTOR) as usize)
            }
            _ => self.slow.read(sector),
        }
    }

    fn submit_random(&mut self) {
        self.step += 1;
        let sectors = (STORE / SECTOR) as usize;
        let operation = match self.random.below(20) {
            0..=5 => Operation::Read,
            6..=7 => Operation::Flush,
            _ => Operation::Write,
        };
        let length = 1 + self.random.below(12);
        let first = self.random.below(sectors - length);
        let length = if operation == Operation::Flush { 0 } else { length };
        let flow = self.random.below(FLOWS) as u32;
        let request = HybridRequest {
            token: self.next_token,
            flow: FlowId(flow),
            operation,
            fua: operation == Operation::Write && self.random.percent(10),
            offset: first as u64 * SECTOR,
            length: (length as u64 * SECTOR) as u32,
        };
        self.next_token += 1;
        let number = match operation {
            Operation::Write => self.history.submit(self.step, flow, first..first + length),
            _ => 0,
        };
        let client = Client { request, submitted: self.step, number, found: Vec::new() };
        self.clients.insert(request.token, client);
        self.hybrid.submit(&request);
        self.collect();
    }

    /// Takes over what the store wants done.
    fn collect(&mut self) {
        while let Some(output) = self.hybrid.poll_output() {
            match output {
                Output::Access(access) => {
                    let is_here = access.tier == Tier::Slow || !self.hybrid.is_lost(Tier::Fast);
                    assert!(is_here, "an access to a device that is not there");
                    self.jobs.push(Job::Access(access));
                }
                Output::Copy(copy) => self.jobs.push(Job::Copy(copy, None)),
                Output::Sync(tier) => {
                    let mark = self.device(tier).mark();
                    self.jobs.push(Job::Sync(tier, mark));
                }
                Output::Commit(changes) => self.jobs.push(Job::Commit(changes)),
                Output::Done { token, outcome } => self.answer(token, outcome.is_ok()),
            }
        }
    }

    fn answer(&mut self, token: u64, succeeded: bool) {
        self.step += 1;
        let client = self.clients.remove(&token).expect("answered once");
        match client.request.operation {
            Operation::Write => {
                self.history.end(self.step, client.number, succeeded, client.request.fua);
            }
            Operation::Flush if succeeded => self.history.flush(client.request.flow.0, client.submitted),
            Operation::Read if succeeded => {
                let length = (u64::from(client.request.length) / SECTOR) as usize;
                assert_eq!(client.found.len(), length, "each sector is read once");
                for (sector, value) in client.found {
                    if let Err(problem) = self.history.check_read(sector, value, client.submitted) {
                        panic!("a read found something old: {problem}");
                    }
                }
            }
            _ => {}
        }
    }

    fn complete_random(&mut self) {
        if self.jobs.is_empty() {
            return;
        }
        let job = self.jobs.swap_remove(self.random.below(self.jobs.len()));
        match job {
            Job::Access(access) => {
                let fails = self.random.percent(self.faults.access_percent);
                if fails {
                    self.apply_some(&access);
                } else {
                    self.apply(&access);
                }
                let is_write = access.operation != Operation::Read;
                if fails && is_write && access.tier == Tier::Fast && self.random.percent(50) {
                    // The driver takes it for the end of the device.
                    self.hybrid.on_tier_lost(Tier::Fast);
                    self.collect();
                }
                self.hybrid.on_access_done(access.id, !fails);
            }
            Job::Copy(copy, None) => {
                let content = self.read_copy(&copy);
                self.jobs.push(Job::Copy(copy, Some(content)));
            }
            Job::Copy(copy, Some(content)) => {
                let fails = self.random.percent(self.faults.access_percent);
                self.write_copy(&copy, &content, fails);
                self.hybrid.on_copy_done(copy.id, !fails);
            }
            Job::Sync(tier, mark) => self.complete_sync(tier, mark),
            Job::Commit(changes) => {
                let fails = self.random.percent(self.faults.commit_percent);
                if !fails || self.random.percent(50) {
                    self.apply_commit(&changes);
                }
                self.hybrid.on_commit_done(!fails);
            }
        }
        self.collect();
    }

    fn complete_sync(&mut self, tier: Tier, mark: u64) {
        let fails = self.random.percent(self.faults.sync_percent);
        let mut random = Random(self.random.next());
        if fails {
            self.device(tier).fail_sync(&mut random);
        } else if !self.devices_lie {
            self.device(tier).sync(mark);
        }
        self.hybrid.on_sync_done(tier, !fails);
    }

    fn device(&mut self, tier: Tier) -> &mut Device {
        match tier {
            Tier::Fast => &mut self.fast,
            Tier::Slow => &mut self.slow,
        }
    }

    fn apply(&mut self, access: &TierAccess) {
        let client = self.clients.get_mut(&access.token).expect("its client waits");
        let first = ((client.request.offset + u64::from(access.within)) / SECTOR) as usize;
        let on_device = (access.offset / SECTOR) as usize;
        for sector in 0..(u64::from(access.length) / SECTOR) as usize {
            let device = match access.tier {
                Tier::Fast => &mut self.fast,
                Tier::Slow => &mut self.slow,
            };
            if access.operation == Operation::Read {
                client.found.push((first + sector, device.read(on_device + sector)));
                continue;
            }
            device.write(on_device + sector, client.number);
            if access.fua && !self.devices_lie {
                device.persist(on_device + sector);
            }
        }
    }

    /// Carries out a part of a write, as a fault or a crash would.
    fn apply_some(&mut self, access: &TierAccess) {
        if access.operation == Operation::Read {
            return;
        }
        let number = self.clients[&access.token].number;
        for sector in 0..(u64::from(access.length) / SECTOR) as usize {
            if self.random.percent(50) {
                self.device(access.tier).write((access.offset / SECTOR) as usize + sector, number);
            }
        }
    }

    fn read_copy(&mut self, copy: &Copy) -> Vec<u64> {
        let first = (copy.from_offset / SECTOR) as usize;
        let device = self.device(copy.from);
        (0..(u64::from(copy.length) / SECTOR) as usize).map(|sector| device.read(first + sector)).collect()
    }

    fn write_copy(&mut self, copy: &Copy, content: &[u64], in_part: bool) {
        let to = if copy.from == Tier::Fast { Tier::Slow } else { Tier::Fast };
        for (sector, &value) in content.iter().enumerate() {
            if !in_part || self.random.percent(50) {
                self.device(to).write((copy.to_offset / SECTOR) as usize + sector, value);
            }
        }
    }

    fn apply_commit(&mut self, changes: &[Change]) {
        for change in changes {
            match change.entry {
                Some(entry) => self.map.insert(change.cluster, entry),
                None => self.map.remove(&change.cluster),
            };
        }
    }
}
