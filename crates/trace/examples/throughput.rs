//! Requests per second of every reader and of the statistics: `cargo run --release -p evenkeel-trace
//! --example throughput [MILLIONS]`. Writes traces of TPC-C-like requests to a temporary folder, reads each
//! back three times and prints the median, and the peak of memory so far.

#![allow(clippy::disallowed_methods, reason = "it measures")]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use evenkeel_core::{Operation, Span};
use evenkeel_trace::generate::{Generator, Personality};
use evenkeel_trace::statistics::Statistics;
use evenkeel_trace::write::Writer;
use evenkeel_trace::{Format, Options, TraceRequest, open};

fn main() {
    let millions: usize =
        std::env::args().nth(1).map_or(2, |text| text.parse().expect("a number of millions"));
    let count = millions * 1_000_000;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let parameters = Personality::TpcC.parameters();
    let names: Vec<String> = (0..parameters.volumes).map(|number| number.to_string()).collect();
    let generator = || Generator::new(&parameters, 1).expect("its own parameters").take(count);
    let start = Instant::now();
    let last = generator().last();
    report("generate tpcc", count, start.elapsed().as_secs_f64(), 0);
    assert!(last.is_some());
    let written = [
        (Format::Spc, false),
        (Format::Spc, true),
        (Format::Msr, false),
        (Format::DiskSim, false),
        (Format::MqSim, false),
        (Format::FioV3, false),
        (Format::Blkparse, false),
        (Format::Csv, false),
        (Format::Parquet, false),
    ];
    for (format, gzip) in written {
        let path = folder.path().join("trace");
        let sink = Box::new(BufWriter::with_capacity(1 << 18, File::create(&path).expect("room")));
        let start = Instant::now();
        let mut writer = Writer::new(sink, format, gzip, false).expect("writable");
        generator().for_each(|request| writer.write(&request, &names).expect("expressible"));
        writer.finish().expect("room");
        let seconds = start.elapsed().as_secs_f64();
        let name = format!("{format}{}", if gzip { ", gzip" } else { "" });
        println!("{:<28} {:>8.2} M/s", format!("generate and write {name}"), count as f64 / seconds / 1e6);
        read(&format!("read {name}"), &path, format, count);
    }
    for format in [Format::Systor17, Format::Alibaba, Format::Tencent, Format::VscsiV2, Format::Blktrace] {
        let path = folder.path().join("trace");
        let mut sink = BufWriter::new(File::create(&path).expect("room"));
        generator().for_each(|request| sink.write_all(&encoded(format, &request)).expect("room"));
        sink.flush().expect("room");
        read(&format!("read {format}"), &path, format, count);
    }
    let mut statistics = Statistics::new();
    let requests: Vec<TraceRequest> = generator().take(1_000_000).collect();
    let start = Instant::now();
    requests.iter().for_each(|request| statistics.add(request));
    report("statistics", requests.len(), start.elapsed().as_secs_f64(), 0);
}

fn read(name: &str, path: &Path, format: Format, count: usize) {
    let options = Options { format: Some(format), ..Options::default() };
    let once = || {
        let start = Instant::now();
        let reader = open(path, &options).expect("it was written just now");
        let mut read = 0;
        for request in reader {
            request.expect("it was written just now");
            read += 1;
        }
        assert_eq!(read, count);
        start.elapsed().as_secs_f64()
    };
    let mut seconds = [once(), once(), once()];
    seconds.sort_by(f64::total_cmp);
    report(name, count, seconds[1], path.metadata().map_or(0, |metadata| metadata.len()));
}

fn report(name: &str, count: usize, seconds: f64, bytes: u64) {
    let (rate, speed) = (count as f64 / seconds / 1e6, bytes as f64 / seconds / 1e6);
    println!("{name:<28} {rate:>8.2} M/s {speed:>8.0} MB/s, peak memory {} MiB", peak_memory() >> 20);
}

/// The largest resident set of this process so far, in bytes; 0 where the system does not tell.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).map_or(0, |kib| kib << 10)
}

fn encoded(format: Format, request: &TraceRequest) -> Vec<u8> {
    let (nanos, volume, offset, length) =
        (request.at.as_nanos(), request.volume, request.offset, request.length);
    let read = request.operation == Operation::Read;
    let letter = if read { 'R' } else { 'W' };
    let seconds = Span::from_nanos(nanos).as_secs_f64();
    let micros = nanos / 1_000;
    match format {
        Format::Systor17 => format!("{seconds:.9},0.001,{letter},{volume},{offset},{length}\n").into_bytes(),
        Format::Alibaba => format!("{volume},{letter},{offset},{length},{micros}\n").into_bytes(),
        Format::Tencent => {
            let kind = u8::from(!read);
            format!("{},{},{},{kind},{volume}\n", nanos / 1_000_000_000, offset / 512, length / 512)
                .into_bytes()
        }
        Format::VscsiV2 => {
            let command: u16 = if read { 0x28 } else { 0x2a };
            let mut record = [command.to_le_bytes(), 0x0200_u16.to_le_bytes()].concat();
            [1, length, 1].iter().for_each(|number: &u32| record.extend(number.to_le_bytes()));
            [offset / 512, micros, 0].iter().for_each(|number: &u64| record.extend(number.to_le_bytes()));
            record
        }
        _ => {
            let kind: u32 = if read { 1 << 16 } else { 1 << 17 };
            let mut event = [0x6561_7407_u32.to_le_bytes(), 1_u32.to_le_bytes()].concat();
            [nanos, offset / 512].iter().for_each(|number| event.extend(number.to_le_bytes()));
            [length, 1 << 20 | kind | 1, 7, 8 << 20 | volume, 0]
                .iter()
                .for_each(|number| event.extend(number.to_le_bytes()));
            event.extend([0; 4]);
            event
        }
    }
}
