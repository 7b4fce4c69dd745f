//! What the disk model is held against, and how to run the same loads on it.
//!
//! ```text
//!  data/disksim.toml ──> Run ── seed ──> requests ──> our disks ──> responses ──> rms, demerit, mean
//!  data/measured/*.csv.gz ──> Measured: requests, think times, the drive's responses, DiskSim's
//! ```
//!
//! Both are excerpts (`data/README.md`). `EVENKEEL_ORACLES` names a folder with the whole of it.
#![allow(dead_code, reason = "the test and the report use different parts")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use evenkeel_core::{Operation, Span, Time};
use evenkeel_device::disk::parameters::{Angle, Bus, Cache, Overheads, Policy};
use evenkeel_device::disk::{Disk, Parameters};
use evenkeel_device::raid::{self, ParityUpdate, Raid, WriteAfter};
use evenkeel_device::{Device, Io};
use flate2::read::MultiGzDecoder;
use serde::Deserialize;

/// The drives that were measured, with the names of their files in the whole data.
pub(crate) const MEASURED: [(&str, &str); 5] = [
    ("cheetah9lp", "cheetah9LP"),
    ("ibm18es", "ibm18es"),
    ("atlas-iii", "atlas_III"),
    ("barracuda", "barracuda"),
    ("cheetah4lp", "cheetah4LP"),
];

/// Drives of which no parameter and no mechanism was measured here: with DiskSim's published distance from the
/// drive (`runvalid`, which comes with it) and the largest that ours may have, in microseconds.
pub(crate) const UNSEEN: [(&str, u32, u32); 5] = [
    ("atlas-10k", 268, 268),
    ("dec-rz26", 340, 340),
    // DiskSim is closer to these two; the bar is that ours stays where it is.
    ("hp-c2247a", 90, 150),
    ("hp-c2490a", 254, 330),
    ("hp-c3323a", 306, 306),
];

/// A request; times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) issued: u64,
    pub(crate) device: usize,
    pub(crate) lbn: u64,
    pub(crate) sectors: u64,
    pub(crate) write: bool,
}

/// A run of DiskSim, in short.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    pub(crate) name: String,
    pub(crate) drive: String,
    requests: usize,
    capacity_sectors: u64,
    sectors: u64,
    seed: u64,
    /// Requests kept outstanding; 0 if they arrive on their own.
    pub(crate) depth: usize,
    disks: usize,
    level: Level,
    reads_percent: u64,
    sequential: bool,
    arrivals_per_second: u64,
    pub(crate) mean_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) quantiles_ns: Vec<u64>,
    pub(crate) first_ns: Vec<u64>,
    /// The last responses of a run in which requests arrive on their own.
    #[serde(default)]
    pub(crate) last_ns: Vec<u64>,
}

/// How the disks of a run stand together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Level {
    /// Each for itself.
    None,
    Raid0,
    Raid5,
}

/// What our disks make of a run.
pub(crate) struct Outcome {
    pub(crate) responses: Vec<u64>,
    pub(crate) end: u64,
}

type BoxedDevice = Box<dyn Device + Send>;

#[derive(Deserialize)]
struct Runs {
    run: Vec<Run>,
}

/// All runs of the excerpt.
pub(crate) fn runs() -> Vec<Run> {
    let runs: Runs = toml::from_str(include_str!("../data/disksim.toml")).expect("the excerpt is TOML");
    runs.run
}

/// The parameters of a drive of ours.
pub(crate) fn drive(name: &str) -> Parameters {
    let path = repository().join("devices").join(format!("{name}.toml"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Parameters::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The parameters that DiskSim's own files have where `devices/` has newer measurements.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AsDiskSim {
    bus: Bus,
    overhead_ns: Overheads,
    cache: Cache,
}

/// A drive with all of DiskSim's parameters and none of ours.
pub(crate) fn drive_as_disksim(name: &str) -> Parameters {
    let mut all: BTreeMap<String, AsDiskSim> =
        toml::from_str(include_str!("../data/as-disksim.toml")).expect("the excerpt is TOML");
    let AsDiskSim { bus, overhead_ns, cache } = all.remove(name).expect("a drive of the excerpt");
    Parameters { bus, overhead_ns, cache, ..drive(name) }
}

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folder with the whole data, if there is one.
pub(crate) fn whole_data() -> Option<PathBuf> {
    std::env::var_os("EVENKEEL_ORACLES").map(PathBuf::from)
}

impl Run {
    /// Whether single requests can be compared: a single disk in the order of arrival, and no cache that
    /// shifts the rest of the run if one request comes out differently.
    pub(crate) fn is_request_by_request(&self) -> bool {
        (!self.is_queued() || self.arrives()) && self.name.contains("nocache")
    }

    /// Whether requests arrive on their own, so that idle times lie between them.
    pub(crate) fn arrives(&self) -> bool {
        self.depth == 0
    }

    /// The drive with its angle kept as DiskSim keeps it.
    pub(crate) fn parameters_with_disksims_angle(&self) -> Parameters {
        Parameters { angle: Angle::Disksim, ..self.parameters() }
    }

    /// Whether throughput and mean are what can be compared: requests wait, or disks work together.
    pub(crate) fn is_queued(&self) -> bool {
        self.depth != 1 || self.disks > 1
    }

    /// The load, from its seed: splitmix64, drawn per request for the device, the block, the direction
    /// and the gap to the next arrival, each only where there is a choice.
    pub(crate) fn load(&self) -> Vec<Request> {
        let mut random = SplitMix64(self.seed);
        let mut issued_ms = 0.0_f64;
        (0..self.requests)
            .map(|index| {
                let device = if self.disks > 1 && self.level == Level::None {
                    (random.next() % self.disks as u64) as usize
                } else {
                    0
                };
                let lbn = match self.sequential {
                    true => index as u64 * self.sectors,
                    false => random.next() % (self.capacity_sectors - self.sectors),
                };
                let write = match self.reads_percent {
                    0 => true,
                    100 => false,
                    percent => random.uniform() >= percent as f64 / 100.0,
                };
                let issued = (issued_ms * 1e6).round() as u64;
                if self.arrivals_per_second > 0 {
                    issued_ms -= (1.0 - random.uniform()).ln() * 1000.0 / self.arrivals_per_second as f64;
                }
                Request { issued, device, lbn, sectors: self.sectors, write }
            })
            .collect()
    }

    /// The drive as it was set up for the run.
    pub(crate) fn parameters(&self) -> Parameters {
        let mut parameters = drive(&self.drive);
        if self.name.contains("nocache") {
            parameters.cache = Cache::default();
        }
        if ["fastbus", "mix64k", "rr256k"].iter().any(|word| self.name.contains(word)) {
            parameters.bus.sector_ns = 3_200;
        }
        parameters.cache.almost_read_hits |= self.name.contains("almosthits");
        if self.name.contains("sstf") {
            parameters.queue.policy = Policy::Sstf;
        }
        if self.name.contains("clook") {
            parameters.queue.policy = Policy::CLook;
        }
        parameters
    }

    /// The run on our disks.
    pub(crate) fn outcome(&self) -> Outcome {
        self.outcome_on(&self.parameters())
    }

    /// The run on disks like this one.
    pub(crate) fn outcome_on(&self, parameters: &Parameters) -> Outcome {
        let load = self.load();
        let disk = Disk::new(parameters).expect("valid parameters");
        if self.arrives() {
            return arriving(disk, &load);
        }
        let mut devices: Vec<BoxedDevice> =
            (0..self.disks).map(|_| Box::new(disk.clone()) as BoxedDevice).collect();
        if self.level != Level::None {
            devices = vec![Box::new(self.array(devices, disk.capacity_bytes()))];
        }
        kept_outstanding(&mut devices, &load, self.depth)
    }

    /// The array as DiskSim was told to build it: units of 128 sectors, parity left symmetric, brought up
    /// to date by read-modify-write, and no waiting for the other disk's read before data are written.
    fn array(&self, disks: Vec<BoxedDevice>, capacity: u64) -> Raid {
        let level = if self.level == Level::Raid0 { raid::Level::Raid0 } else { raid::Level::Raid5 };
        let parameters = raid::Parameters {
            parity_update: ParityUpdate::ReadModifyWrite,
            write_after: WriteAfter::OwnRead,
            ..raid::Parameters::new(level)
        };
        let members = disks.into_iter().map(|disk| (disk, capacity)).collect();
        Raid::new(parameters, members).expect("such an array can be")
    }

    /// The RMS distance of the distributions over the run's mean, by the quantiles.
    pub(crate) fn distance(&self, responses: &[u64]) -> f64 {
        let ours = quantiles(responses, self.quantiles_ns.len());
        rms(&ours, &self.quantiles_ns) / self.mean_ns as f64
    }

    /// DiskSim's responses, all of them, from the whole data.
    pub(crate) fn all_responses(&self, root: &Path) -> Vec<u64> {
        let path = root.join("outputs").join(format!("{}.csv.gz", self.name));
        let response = |line: String| {
            let cells: Vec<&str> = line.split(',').collect();
            nanos(cells[2]) - nanos(cells[1])
        };
        lines(&path).skip(1).map(response).collect()
    }
}

/// A request to a real drive; times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) request: Request,
    /// From its completion to the next issue.
    pub(crate) think: u64,
    /// What the drive took.
    pub(crate) response: u64,
    /// What DiskSim says that it takes; 0 where that is not known.
    pub(crate) disksim: u64,
}

/// The excerpt of the measurements on a drive.
pub(crate) fn measured(drive: &str) -> Vec<Measured> {
    measured_in(&data().join("measured").join(format!("{drive}.csv.gz")))
}

/// A drive that nothing was taken from, and all measurements on it.
pub(crate) fn unseen(name: &str) -> (Parameters, Vec<Measured>) {
    let folder = data().join("unseen");
    let path = folder.join(format!("{name}.toml"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let drive = Parameters::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    (drive, measured_in(&folder.join(format!("{name}.csv.gz"))))
}

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

fn measured_in(path: &Path) -> Vec<Measured> {
    let row = |line: String| {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |index: usize| cells[index].parse::<u64>().expect("a number");
        Measured {
            request: request(number(1), number(2), cells[0]),
            think: number(3) * 1_000,
            response: number(4) * 1_000,
            disksim: cells.get(5).map_or(0, |_| number(5)),
        }
    };
    lines(path).skip(1).map(row).collect()
}

/// All measurements on a drive, from the whole data.
pub(crate) fn all_measured(root: &Path, name: &str) -> Vec<Measured> {
    let folder = root.join("real-drive");
    let predictions = lines(&folder.join(format!("{name}.measured_vs_disksim.csv.gz"))).skip(1);
    let trace = lines(&folder.join(format!("{name}.validate.trace.gz")));
    let row = |(line, prediction): (String, String)| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let micros = |text: &str| (text.parse::<f64>().expect("microseconds") * 1e3).round() as u64;
        let number = |index: usize| cells[index].parse::<u64>().expect("a number");
        Measured {
            request: request(number(2), number(3), cells[0]),
            think: micros(cells[5]),
            response: micros(cells[4]),
            disksim: nanos(prediction.rsplit(',').next().expect("a prediction")),
        }
    };
    trace.zip(predictions).map(row).collect()
}

/// Our responses when each request is issued a think time after the one before it has finished.
pub(crate) fn thinking(parameters: &Parameters, requests: &[Measured]) -> Vec<u64> {
    let mut disk = Disk::new(parameters).expect("valid parameters");
    let mut now = Time::ZERO;
    let mut responses = Vec::with_capacity(requests.len());
    for (index, Measured { request, think, .. }) in requests.iter().enumerate() {
        disk.submit(now, io(index, request));
        let finish = disk.next_event().expect("it is in service");
        assert!(disk.poll_completion(finish).is_some());
        responses.push(finish.since(now).as_nanos());
        now = finish + Span::from_nanos(*think);
    }
    responses
}

fn arriving(mut disk: Disk, requests: &[Request]) -> Outcome {
    let mut outcome = Outcome { responses: vec![0; requests.len()], end: 0 };
    let mut next = 0;
    loop {
        let arrival = requests.get(next).map(|request| Time::from_nanos(request.issued));
        match (arrival, disk.next_event()) {
            (None, None) => return outcome,
            (Some(at), event) if event.is_none_or(|event| at < event) => {
                disk.submit(at, io(next, &requests[next]));
                next += 1;
            }
            (_, event) => {
                let event = event.expect("there is one");
                while let Some(finished) = disk.poll_completion(event) {
                    let index = finished.token as usize;
                    outcome.responses[index] = finished.at.as_nanos() - requests[index].issued;
                    outcome.end = finished.at.as_nanos();
                }
            }
        }
    }
}

fn kept_outstanding(disks: &mut [BoxedDevice], requests: &[Request], depth: usize) -> Outcome {
    let mut issued = vec![0; requests.len()];
    let mut outcome = Outcome { responses: vec![0; requests.len()], end: 0 };
    let mut next = 0;
    let mut issue = |disks: &mut [BoxedDevice], issued: &mut [u64], now: Time| {
        if let Some(request) = requests.get(next) {
            issued[next] = now.as_nanos();
            disks[request.device].submit(now, io(next, request));
            next += 1;
        }
    };
    (0..depth).for_each(|_| issue(disks, &mut issued, Time::ZERO));
    loop {
        let events = disks.iter().enumerate().filter_map(|(index, disk)| Some((disk.next_event()?, index)));
        let Some((at, index)) = events.min() else { return outcome };
        while let Some(finished) = disks[index].poll_completion(at) {
            let token = finished.token as usize;
            outcome.responses[token] = at.as_nanos() - issued[token];
            outcome.end = at.as_nanos();
            issue(disks, &mut issued, at);
        }
    }
}

fn io(token: usize, request: &Request) -> Io {
    Io {
        token: token as u64,
        operation: if request.write { Operation::Write } else { Operation::Read },
        offset: request.lbn * 512,
        length: (request.sectors * 512) as u32,
    }
}

fn request(lbn: u64, sectors: u64, direction: &str) -> Request {
    Request { issued: 0, device: 0, lbn, sectors, write: direction == "W" }
}

fn lines(path: &Path) -> impl Iterator<Item = String> + use<> {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    BufReader::new(MultiGzDecoder::new(file)).lines().map(|line| line.expect("a line of text"))
}

/// Milliseconds with up to six decimals, as nanoseconds.
fn nanos(text: &str) -> u64 {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let part = format!("{part:0<6}");
    whole.parse::<u64>().expect("milliseconds") * 1_000_000 + part[..6].parse::<u64>().expect("decimals")
}

pub(crate) fn mean(values: &[u64]) -> f64 {
    values.iter().map(|value| *value as f64).sum::<f64>() / values.len() as f64
}

/// Root mean square of the differences, pair by pair, in nanoseconds.
pub(crate) fn rms(a: &[u64], b: &[u64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let squares = a.iter().zip(b).map(|(a, b)| (*a as f64 - *b as f64).powi(2));
    (squares.sum::<f64>() / a.len() as f64).sqrt()
}

/// The demerit figure of Ruemmler and Wilkes, in nanoseconds: the RMS horizontal distance between two
/// distributions.
pub(crate) fn demerit(a: &[u64], b: &[u64]) -> f64 {
    rms(&sorted(a), &sorted(b))
}

pub(crate) fn sorted(values: &[u64]) -> Vec<u64> {
    let mut values = values.to_vec();
    values.sort_unstable();
    values
}

/// The values at (i + 1/2) / count of the distribution.
fn quantiles(values: &[u64], count: usize) -> Vec<u64> {
    let sorted = sorted(values);
    (0..count).map(|i| sorted[(2 * i + 1) * sorted.len() / (2 * count)]).collect()
}

/// Groups what belongs to one drive, in the order of first appearance within a drive.
pub(crate) fn by_drive(runs: Vec<Run>) -> BTreeMap<String, Vec<Run>> {
    let mut groups: BTreeMap<String, Vec<Run>> = BTreeMap::new();
    for run in runs {
        groups.entry(run.drive.clone()).or_default().push(run);
    }
    groups
}

/// The generator of the loads.
pub(crate) struct SplitMix64(pub(crate) u64);

impl SplitMix64 {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
