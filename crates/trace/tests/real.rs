//! The readers on real traces: runs where `EVENKEEL_TRACES` names a folder that holds them.

use std::path::{Path, PathBuf};

use evenkeel_trace::statistics::Statistics;
use evenkeel_trace::{ErrorKind, Format, Options, Reader, open};

/// A file, its format, whether it must be named, and what is known of it: requests, seconds, reads per
/// thousand, volumes.
type Known = (&'static str, Format, bool, u64, f64, f64, usize);

const KNOWN: [Known; 8] = [
    ("spc-Financial1-ASU9_flashsim-test.file.disksim.gz", Format::DiskSim, false, 322_875, 43_102.0, 95.0, 1),
    (
        "spc-Financial1-first10000_huaicheng-example.ascii.ssdsim.gz",
        Format::SsdSim,
        true,
        10_000,
        260.0,
        410.0,
        22,
    ),
    ("spc-WebSearch1-first24783_mqsim-wsrch-small.trace.gz", Format::MqSim, true, 24_783, 60.0, 1000.0, 6),
    ("mqsim_tpcc-small.trace.gz", Format::MqSim, true, 6_999, 0.14, 630.0, 16),
    ("msr-ssdext_iozone-aligned2-100K.trace.gz", Format::DiskSim, false, 100_000, 936.0, 0.0, 1),
    ("msr-ssdext_postmark-aligned2.trace.gz", Format::DiskSim, false, 62_257, 490.0, 830.0, 1),
    ("disksim_ascii.trace.gz", Format::DiskSim, false, 100_000, 1533.0, 800.0, 14),
    ("apress_mbpa_blktrace.txt.gz", Format::Blkparse, false, 0, 9.4, 5.0, 1),
];

fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("EVENKEEL_TRACES").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("EVENKEEL_TRACES is not set: no real traces to read");
    }
    folder
}

fn read(path: &Path, options: &Options) -> (Statistics, Reader) {
    let mut reader = open(path, options).unwrap_or_else(|error| panic!("{error}; {}", error.remedy()));
    let mut statistics = Statistics::new();
    for request in reader.by_ref() {
        statistics.add(&request.unwrap_or_else(|error| panic!("{error}; {}", error.remedy())));
    }
    (statistics, reader)
}

#[test]
fn real_traces_are_recognised_and_read() {
    let Some(folder) = folder() else { return };
    for (name, format, named, requests, seconds, reads, volumes) in KNOWN {
        let path = folder.join(name);
        let mut options = Options::default();
        if named {
            let error = open(&path, &options).expect_err("an ambiguous layout");
            let ErrorKind::Ambiguous(candidates) = error.kind() else { panic!("{error}") };
            assert!(candidates.contains(&format), "{error}");
            options.format = Some(format);
        }
        let (statistics, reader) = read(&path, &options);
        let report = reader.report();
        assert_eq!((report.format, report.malformed), (format, 0), "{name}");
        let all = statistics.all();
        eprintln!(
            "{name}: {} requests, {:.3} s, {:.1} % reads, {:.1}/s, peak {}, {} volumes, mean {:.0} B, \
             sequential {:.1} %, gaps' cv² {:.1}, dispersion at 1 s {:.1}, footprint {} MiB, extent {} MiB",
            all.requests,
            statistics.span().as_secs_f64(),
            all.read_share() * 100.0,
            statistics.mean_iops(),
            statistics.windows()[3].peak(),
            reader.volumes().len(),
            statistics.sizes().mean(),
            all.sequential_share() * 100.0,
            statistics.gaps().variation_squared(),
            statistics.windows()[3].dispersion(),
            statistics.footprint_bytes() >> 20,
            all.extent >> 20,
        );
        if requests > 0 {
            assert_eq!(all.requests, requests, "{name}");
        }
        let found = statistics.span().as_secs_f64();
        assert!((found - seconds).abs() <= 0.02 * seconds + 0.05, "{name}: {found} s");
        assert!((all.read_share() * 1000.0 - reads).abs() <= 10.0, "{name}: {}", all.read_share());
        assert_eq!(reader.volumes().len(), volumes, "{name}");
    }
}
