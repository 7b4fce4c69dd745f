//! Recorded runs, and how to run the same load on our model.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use evenkeel_core::{Operation, Span, Time};
use evenkeel_device::disk::{Disk, Parameters};
use evenkeel_device::{Device, Io};
use flate2::read::MultiGzDecoder;

/// A request of a recorded run.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Issued, nanoseconds from the start of the run.
    pub issued: u64,
    /// Nanoseconds from issue to completion.
    pub response: u64,
    pub device: usize,
    pub lbn: u64,
    pub sectors: u64,
    pub write: bool,
}

/// A recorded run: of the simulator (`outputs/*.csv.gz`).
pub fn simulated(path: &Path) -> Vec<Request> {
    rows(path, |cells| {
        let (issued, completed) = (nanos(cells[1]), nanos(cells[2]));
        Request {
            issued,
            response: completed - issued,
            device: cells[3].parse().expect("a device"),
            lbn: cells[4].parse().expect("a block"),
            sectors: cells[5].parse().expect("sectors"),
            write: cells[6] == "W",
        }
    })
}

/// A request to a real drive.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    pub request: Request,
    /// Nanoseconds from its completion to the next issue.
    pub think: u64,
}

/// A run on a real drive (`real-drive/*.validate.trace.gz`).
pub fn measured(path: &Path) -> Vec<Measured> {
    let micros = |text: &str| (text.parse::<f64>().expect("microseconds") * 1e3).round() as u64;
    lines(path)
        .map(|line| {
            let cells: Vec<&str> = line.split_whitespace().collect();
            let request = Request {
                issued: 0,
                response: micros(cells[4]),
                device: 0,
                lbn: cells[2].parse().expect("a block"),
                sectors: cells[3].parse().expect("sectors"),
                write: cells[0] == "W",
            };
            Measured { request, think: micros(cells[5]) }
        })
        .collect()
}

/// Responses when each request is issued a think time after the one before it has finished.
pub fn thinking(parameters: &Parameters, requests: &[Measured]) -> Vec<u64> {
    let mut disk = Disk::new(parameters).expect("valid parameters");
    let mut now = Time::ZERO;
    let mut responses = Vec::with_capacity(requests.len());
    for (index, Measured { request, think }) in requests.iter().enumerate() {
        disk.submit(now, io(index, request));
        let finish = disk.next_event().expect("it is in service");
        assert!(disk.poll_completion(finish).is_some());
        responses.push(finish.since(now).as_nanos());
        now = finish + Span::from_nanos(*think);
    }
    responses
}

/// The simulator's predictions for the same run (`real-drive/*.measured_vs_disksim.csv.gz`).
pub fn predicted(path: &Path) -> Vec<u64> {
    rows(path, |cells| nanos(cells[6]))
}

fn rows<T>(path: &Path, row: impl Fn(&[&str]) -> T) -> Vec<T> {
    lines(path).skip(1).map(|line| row(&line.split(',').collect::<Vec<_>>())).collect()
}

fn lines(path: &Path) -> impl Iterator<Item = String> {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    BufReader::new(MultiGzDecoder::new(file)).lines().map(|line| line.expect("a line of text"))
}

/// Milliseconds with up to six decimals, as nanoseconds.
fn nanos(text: &str) -> u64 {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let part = format!("{part:0<6}");
    whole.parse::<u64>().expect("milliseconds") * 1_000_000 + part[..6].parse::<u64>().expect("decimals")
}

fn io(token: usize, request: &Request) -> Io {
    Io {
        token: token as u64,
        operation: if request.write { Operation::Write } else { Operation::Read },
        offset: request.lbn * 512,
        length: (request.sectors * 512) as u32,
    }
}

/// Responses when each request is issued at the instant recorded.
pub fn open(parameters: &Parameters, requests: &[Request]) -> Vec<u64> {
    let mut disk = Disk::new(parameters).expect("valid parameters");
    let mut responses = vec![0; requests.len()];
    let mut next = 0;
    loop {
        let arrival = requests.get(next).map(|request| Time::from_nanos(request.issued));
        match (arrival, disk.next_event()) {
            (None, None) => return responses,
            (Some(at), event) if event.is_none_or(|event| at < event) => {
                disk.submit(at, io(next, &requests[next]));
                next += 1;
            }
            (_, event) => {
                let event = event.expect("there is one");
                while let Some(finished) = disk.poll_completion(event) {
                    let index = finished.token as usize;
                    responses[index] = finished.at.as_nanos() - requests[index].issued;
                }
            }
        }
    }
}

/// Issue instants and responses when `depth` requests are kept outstanding on the disks together.
pub fn closed(disks: &mut [Disk], requests: &[Request], depth: usize) -> Vec<(u64, u64)> {
    let mut results = vec![(0, 0); requests.len()];
    let mut next = 0;
    let mut issue = |disks: &mut [Disk], results: &mut [(u64, u64)], now: Time| {
        if let Some(request) = requests.get(next) {
            results[next].0 = now.as_nanos();
            disks[request.device].submit(now, io(next, request));
            next += 1;
        }
    };
    (0..depth).for_each(|_| issue(disks, &mut results, Time::ZERO));
    while let Some((at, index)) =
        disks.iter().enumerate().filter_map(|(i, disk)| disk.next_event().map(|at| (at, i))).min()
    {
        while let Some(finished) = disks[index].poll_completion(at) {
            let done = &mut results[finished.token as usize];
            done.1 = finished.at.as_nanos() - done.0;
            issue(disks, &mut results, at);
        }
    }
    results
}

/// Responses in a closed loop of one.
pub fn one_by_one(parameters: &Parameters, requests: &[Request]) -> Vec<u64> {
    let mut disks = [Disk::new(parameters).expect("valid parameters")];
    closed(&mut disks, requests, 1).into_iter().map(|(_, response)| response).collect()
}

pub fn mean_ms(values: &[u64]) -> f64 {
    values.iter().map(|value| *value as f64).sum::<f64>() / values.len() as f64 / 1e6
}

/// Root mean square of the differences, pair by pair, in milliseconds.
pub fn rms_ms(a: &[u64], b: &[u64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let squares = a.iter().zip(b).map(|(a, b)| (*a as f64 - *b as f64).powi(2));
    (squares.sum::<f64>() / a.len() as f64).sqrt() / 1e6
}

/// The demerit figure of Ruemmler and Wilkes: the RMS horizontal distance between two distributions.
pub fn demerit_ms(a: &[u64], b: &[u64]) -> f64 {
    let sorted = |values: &[u64]| {
        let mut values = values.to_vec();
        values.sort_unstable();
        values
    };
    rms_ms(&sorted(a), &sorted(b))
}

/// Everything off: no cache, no reading ahead, no buffered writes.
pub fn without_cache(parameters: &Parameters) -> Parameters {
    let mut parameters = parameters.clone();
    parameters.cache = evenkeel_device::disk::parameters::Cache::default();
    parameters
}

pub fn span_ms(nanos: u64) -> f64 {
    Span::from_nanos(nanos).as_secs_f64() * 1e3
}
