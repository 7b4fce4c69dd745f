//! What is written is read again, and is the same.

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

use evenkeel_core::{Operation, Time};
use evenkeel_trace::write::Writer;
use evenkeel_trace::{Clock, Format, Options, Reader, TraceRequest, open};
use proptest::prelude::*;

/// A sink that can be looked at afterwards.
#[derive(Clone, Default)]
struct Bytes(Arc<Mutex<Vec<u8>>>);

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn written(requests: &[TraceRequest], volumes: &[String], format: Format, gzip: bool) -> Vec<u8> {
    let sink = Bytes::default();
    let mut writer = Writer::new(Box::new(sink.clone()), format, gzip, false).unwrap();
    for request in requests {
        writer.write(request, volumes).unwrap();
    }
    assert_eq!(writer.finish().unwrap().requests, requests.len() as u64);
    std::mem::take(&mut *sink.0.lock().unwrap())
}

/// Requests in order of time, on volumes that appear in order, with `resolution` nanoseconds.
fn trace(resolution: u64, operations: &'static [Operation]) -> impl Strategy<Value = Vec<TraceRequest>> {
    let step = (0_u64..5_000_000, 0_u32..4, prop::sample::select(operations), 0_u64..1 << 40, 1_u32..4096);
    prop::collection::vec(step, 1..60).prop_map(move |steps| {
        let (mut now, mut volumes) = (0, 0);
        let request = |(gap, volume, operation, sector, sectors)| {
            now += gap / resolution * resolution;
            let volume: u32 = u32::min(volume, volumes);
            volumes = volumes.max(volume + 1);
            let flush = operation == Operation::Flush;
            let (offset, length) = if flush { (0, 0) } else { (sector * 512, sectors * 512) };
            TraceRequest { at: Time::from_nanos(now), volume, operation, offset, length }
        };
        steps.into_iter().map(request).collect()
    })
}

fn check(requests: &[TraceRequest], volumes: [&str; 4], format: Format) -> Result<(), TestCaseError> {
    let volumes = volumes.map(str::to_owned);
    let clock = if format == Format::Msr { Clock::FromFirst } else { Clock::AsWritten };
    let options = Options { format: Some(format), clock, ..Options::default() };
    let base = if format == Format::Msr { requests[0].at.as_nanos() } else { 0 };
    for gzip in [false, true] {
        let bytes = written(requests, &volumes, format, gzip);
        let mut reader = Reader::from_bytes(Path::new("x"), std::io::Cursor::new(bytes), &options).unwrap();
        let again: Result<Vec<_>, _> = reader.by_ref().collect();
        let again = again.map_err(|error| TestCaseError::fail(error.to_string()))?;
        let shifted = |request: &TraceRequest| TraceRequest {
            at: Time::from_nanos(request.at.as_nanos() - base),
            ..*request
        };
        prop_assert_eq!(&again, &requests.iter().map(shifted).collect::<Vec<_>>());
        let used = requests.iter().map(|request| request.volume).max().unwrap() as usize + 1;
        prop_assert_eq!(reader.volumes(), &volumes[..used]);
    }
    Ok(())
}

const DATA: &[Operation] = &[Operation::Read, Operation::Write];
const LINUX: &[Operation] = &[Operation::Read, Operation::Write, Operation::Flush, Operation::Trim];
const ALL: &[Operation] =
    &[Operation::Read, Operation::Write, Operation::Flush, Operation::Trim, Operation::WriteZeroes];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn csv(requests in trace(1, ALL)) {
        check(&requests, ["a b", "ü", "3", "x/y"], Format::Csv)?;
    }

    #[test]
    fn spc(requests in trace(1, DATA)) {
        check(&requests, ["7", "3", "0", "12"], Format::Spc)?;
    }

    #[test]
    fn msr(requests in trace(100, DATA)) {
        check(&requests, ["hm.0", "hm.1", "web.dev.0", "src.2"], Format::Msr)?;
    }

    #[test]
    fn disksim(requests in trace(1, DATA)) {
        check(&requests, ["0", "5", "2", "9"], Format::DiskSim)?;
    }

    #[test]
    fn mqsim(requests in trace(1, DATA)) {
        check(&requests, ["0", "5", "2", "9"], Format::MqSim)?;
    }

    #[test]
    fn fio(requests in trace(1_000, LINUX)) {
        check(&requests, ["/dev/sda", "/dev/sdb", "f", "g"], Format::FioV3)?;
    }

    #[test]
    fn blkparse(requests in trace(1, LINUX)) {
        check(&requests, ["8,0", "8,16", "259,3", "253,0"], Format::Blkparse)?;
    }

    #[test]
    #[cfg(feature = "parquet")]
    fn parquet(requests in trace(1, ALL)) {
        let volumes = ["a,b", "ü", "", "x y"].map(str::to_owned);
        let bytes = written(&requests, &volumes, Format::Parquet, false);
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&bytes).unwrap();
        let options = Options { clock: Clock::AsWritten, ..Options::default() };
        let again: Result<Vec<_>, _> = open(file.path(), &options).unwrap().collect();
        prop_assert_eq!(again.unwrap(), requests);
    }
}

#[test]
#[cfg(feature = "parquet")]
fn parquet_of_several_row_groups_is_read_whole() {
    let request = |number: u64| TraceRequest {
        at: Time::from_nanos(number * 7),
        volume: (number % 3) as u32,
        operation: ALL[(number % 5) as usize],
        offset: if number % 5 == 2 { 0 } else { number * 512 },
        length: if number % 5 == 2 { 0 } else { 512 },
    };
    let requests: Vec<TraceRequest> = (0..150_001).map(request).collect();
    let volumes = ["a", "b", "c"].map(str::to_owned);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&written(&requests, &volumes, Format::Parquet, false)).unwrap();
    let again: Result<Vec<_>, _> = open(file.path(), &Options::default()).unwrap().collect();
    assert_eq!(again.unwrap(), requests);
}
