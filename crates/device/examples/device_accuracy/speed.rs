//! Requests per CPU second.

use std::error::Error;
use std::fmt::Write as _;
use std::process::Command;

use evenkeel_core::{Operation, Time};
use evenkeel_device::disk::parameters::{Cache, Policy};
use evenkeel_device::disk::{Disk, Parameters};
use evenkeel_device::{Device, Io};

use crate::oracle::{self, SplitMix64};

const REQUESTS: usize = 2_000_000;

/// Rounds in which the two take turns.
const ROUNDS: usize = 3;
/// Requests of a peer's run: enough for seconds of it.
const PEER_REQUESTS: usize = 100_000;

/// What is run, and what DiskSim 4.0 does of it (compiled with -O2, on a machine of the same kind).
struct Load {
    /// What a peer is told.
    key: &'static str,
    name: &'static str,
    cached: bool,
    policy: Policy,
    sectors: u64,
    depth: usize,
    disks: usize,
    disksim_per_second: Option<u32>,
}

const ONE: Load = Load {
    key: "random-4k",
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
    Load {
        key: "random-4k-stock",
        name: "random 4 KiB, stock cache",
        cached: true,
        disksim_per_second: Some(100_000),
        ..ONE
    },
    Load {
        key: "sptf-32",
        name: "SPTF, 32 outstanding",
        policy: Policy::Sptf,
        depth: 32,
        disksim_per_second: Some(41_000),
        ..ONE
    },
    Load {
        key: "sstf-32",
        name: "SSTF, 32 outstanding",
        policy: Policy::Sstf,
        depth: 32,
        disksim_per_second: None,
        ..ONE
    },
    Load {
        key: "sptf-1000",
        name: "SPTF, 1000 outstanding",
        policy: Policy::Sptf,
        depth: 1000,
        disksim_per_second: None,
        ..ONE
    },
    Load {
        key: "random-64k",
        name: "random 64 KiB, cache off",
        sectors: 128,
        disksim_per_second: Some(23_000),
        ..ONE
    },
    Load {
        key: "disks-16",
        name: "16 disks, 64 outstanding",
        depth: 64,
        disks: 16,
        disksim_per_second: Some(200_000),
        ..ONE
    },
];

/// A line for each load. `EVENKEEL_DISKSIM` names a program that takes turns with ours: given a load's key
/// and a number of requests, it prints requests per CPU second.
pub(crate) fn table(text: &mut String) -> Result<(), Box<dyn Error>> {
    let drive = oracle::drive("cheetah9lp");
    let program = std::env::var_os("EVENKEEL_DISKSIM");
    text.push_str("One cheetah9lp, random reads of 4 KiB, cache off, one outstanding, unless it says otherwise; CPU time of the thread; AMD EPYC, 2 cores, Linux 6.18, rustc 1.95. ");
    text.push_str(match program {
        Some(_) => include_str!("peer.md"),
        None => "DiskSim 4.0: compiled with -O2, on a machine of the same kind, not in the same run.\n\n",
    });
    text.push_str("| load | DiskSim, requests per CPU second | Evenkeel | ratio |\n|---|---:|---:|---:|\n");
    for load in &LOADS {
        let mut rate = 0.0_f64;
        let mut measured = None;
        for _ in 0..ROUNDS {
            let before = cpu_nanos()?;
            run(&drive, load)?;
            rate = rate.max(REQUESTS as f64 / ((cpu_nanos()? - before) as f64 / 1e9));
            if let (Some(program), Some(_)) = (&program, load.disksim_per_second) {
                let run = Command::new(program).arg(load.key).arg(PEER_REQUESTS.to_string()).output()?;
                let printed: f64 = String::from_utf8(run.stdout)?.trim().parse()?;
                measured = Some(printed.max(measured.unwrap_or(0.0)));
            }
        }
        let (peer, ratio) = match measured.or(load.disksim_per_second.map(f64::from)) {
            Some(peer) => (format!("{peer:.0}"), format!("{:.0}", rate / peer)),
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
