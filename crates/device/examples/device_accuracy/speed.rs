//! Requests per CPU second.

use std::error::Error;
use std::fmt::Write as _;

use evenkeel_core::{Operation, Time};
use evenkeel_device::disk::parameters::{Cache, Policy};
use evenkeel_device::disk::{Disk, Parameters};
use evenkeel_device::{Device, Io};

use crate::oracle::{self, SplitMix64};

const REQUESTS: usize = 2_000_000;

/// What is run, and what DiskSim 4.0 does of it (compiled with -O2, on a machine of the same kind).
struct Load {
    name: &'static str,
    cached: bool,
    policy: Policy,
    sectors: u64,
    depth: usize,
    disks: usize,
    disksim_per_second: Option<u32>,
}

const ONE: Load = Load {
    name: "random 4 KiB, cache off",
    cached: false,
    policy: Policy::Fcfs,
    sectors: 8,
    depth: 1,
    disks: 1,
    disksim_per_second: Some(230_000),
};

const LOADS: [Load; 7] = [
    ONE,
    Load { name: "random 4 KiB, stock cache", cached: true, disksim_per_second: Some(100_000), ..ONE },
    Load {
        name: "SPTF, 32 outstanding",
        policy: Policy::Sptf,
        depth: 32,
        disksim_per_second: Some(41_000),
        ..ONE
    },
    Load { name: "SSTF, 32 outstanding", policy: Policy::Sstf, depth: 32, disksim_per_second: None, ..ONE },
    Load {
        name: "SPTF, 1000 outstanding",
        policy: Policy::Sptf,
        depth: 1000,
        disksim_per_second: None,
        ..ONE
    },
    Load { name: "random 64 KiB, cache off", sectors: 128, disksim_per_second: Some(23_000), ..ONE },
    Load { name: "16 disks, 64 outstanding", depth: 64, disks: 16, disksim_per_second: Some(200_000), ..ONE },
];

/// A line for each load.
pub(crate) fn table(text: &mut String) -> Result<(), Box<dyn Error>> {
    let drive = oracle::drive("cheetah9lp");
    text.push_str("One cheetah9lp, random reads of 4 KiB, cache off, one outstanding, unless it says otherwise; 2 000 000 requests each, CPU time of the thread; AMD EPYC, 2 cores, Linux 6.18, rustc 1.95. DiskSim 4.0: compiled with -O2, on a machine of the same kind, not in the same run.\n\n");
    text.push_str("| load | DiskSim, requests per CPU second | Evenkeel | ratio |\n|---|---:|---:|---:|\n");
    for load in &LOADS {
        let before = cpu_nanos()?;
        run(&drive, load)?;
        let rate = REQUESTS as f64 / ((cpu_nanos()? - before) as f64 / 1e9);
        let (peer, ratio) = match load.disksim_per_second {
            Some(peer) => (peer.to_string(), format!("{:.0}", rate / f64::from(peer))),
            None => ("–".to_owned(), "–".to_owned()),
        };
        writeln!(text, "| {} | {peer} | {:.0} | {ratio} |", load.name, rate)?;
    }
    Ok(())
}

/// A closed loop on the load's disks, each request to a disk and a block drawn by splitmix64.
fn run(drive: &Parameters, load: &Load) -> Result<(), Box<dyn Error>> {
    let mut parameters = drive.clone();
    if !load.cached {
        parameters.cache = Cache::default();
    }
    parameters.queue.policy = load.policy;
    let mut disks = vec![Disk::new(&parameters)?; load.disks];
    let blocks = parameters.capacity_sectors - load.sectors;
    let mut random = SplitMix64(1);
    let mut issued = 0;
    let mut issue = |disks: &mut Vec<Disk>, now: Time| {
        if issued == REQUESTS {
            return;
        }
        let disk = if load.disks > 1 { (random.next() % load.disks as u64) as usize } else { 0 };
        let io = Io {
            token: issued as u64,
            operation: Operation::Read,
            offset: random.next() % blocks * 512,
            length: (load.sectors * 512) as u32,
        };
        issued += 1;
        disks[disk].submit(now, io);
    };
    (0..load.depth).for_each(|_| issue(&mut disks, Time::ZERO));
    loop {
        let events = disks.iter().enumerate().filter_map(|(index, disk)| Some((disk.next_event()?, index)));
        let Some((at, index)) = events.min() else { return Ok(()) };
        while disks[index].poll_completion(at).is_some() {
            issue(&mut disks, at);
        }
    }
}

/// CPU time of this thread, from the kernel's scheduler.
fn cpu_nanos() -> Result<u64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split(' ').next().unwrap_or_default().parse()?)
}
