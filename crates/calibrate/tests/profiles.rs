//! Profiles as text: what is written is read back, what is wrong is told, and what is derived.

use std::path::Path;

use evenkeel_calibrate::{
    Cell, DeviceFacts, DeviceKind, HostFacts, Measurement, Pattern, Profile, Sustained, SustainedCourse,
    parse,
};
use evenkeel_core::{Cost, Operation, Rate, Span};
use proptest::prelude::*;

fn row(writes: bool, bytes: u32, depth: u32, iops: u64) -> Measurement {
    Measurement {
        cell: Cell { writes, pattern: Pattern::Random, bytes, depth },
        rate: Rate::per_second(iops),
        low: Rate::per_second(iops - 10),
        high: Rate::per_second(iops + 10),
        time: Span::from_millis(500),
        is_narrow: true,
    }
}

fn profile() -> Profile {
    Profile {
        measured_at: "2026-01-02T03:04:05Z".into(),
        tool: "evenkeel 0.1.0".into(),
        host: HostFacts {
            name: "a \"host\"".into(),
            kernel: "Linux 6.1\n".into(),
            processor: "back\\slash".into(),
            processors: 4,
        },
        device: DeviceFacts {
            path: "/dev/vdb".into(),
            kind: DeviceKind::BlockDevice,
            size: 10 << 30,
            direct: true,
            identity: String::new(),
        },
        sustained: Some(Sustained {
            measurement: row(false, 4096, 8, 3_900),
            course: SustainedCourse::BurstCredit {
                before: Rate::per_second(9_000),
                lasted: Span::from_millis(12_300),
            },
        }),
        measurements: vec![
            row(false, 4096, 1, 1_000),
            row(false, 4096, 4, 3_800),
            row(false, 4096, 8, 4_000),
            row(false, 65_536, 4, 950),
            row(false, 16_384, 4, 3_900),
            row(true, 4096, 4, 1_900),
            row(true, 65_536, 4, 475),
            row(false, 65_536, 8, 999),
        ],
    }
}

#[test]
fn capacity_depth_and_costs_follow_from_the_measurements() {
    let derived = profile().derived().unwrap();
    assert_eq!(derived.depth.get(), 4, "3800 are nine tenths of 4000 and more");
    assert_eq!(derived.capacity, Rate::per_second(3_790), "the lower end, below that of the long run");
    let cost = |operation, bytes| derived.cost.cost(operation, bytes).as_millis();
    assert_eq!(cost(Operation::Read, 4096), 1_000);
    assert_eq!(cost(Operation::Read, 16_384), 1_000, "not less than the smaller one");
    assert_eq!(cost(Operation::Read, 65_536), 4_000);
    assert_eq!((cost(Operation::Write, 4096), cost(Operation::Write, 65_536)), (2_000, 8_000));
    assert_eq!(derived.cost.cost(Operation::Flush, 0), Cost::ONE);
}

#[test]
fn the_long_run_bounds_the_capacity() {
    let mut low = profile();
    low.sustained.as_mut().unwrap().measurement = row(false, 4096, 8, 1_000);
    assert_eq!(low.derived().unwrap().capacity, Rate::per_second(990));
    assert_eq!(low.sustained.unwrap().credit(), Some(Cost::from_millis(98_400_000)));
}

#[test]
fn what_is_written_is_read_back() {
    let whole = profile();
    assert_eq!(parse(&whole.to_string(), Path::new("p.toml")).unwrap(), whole);
    for course in [SustainedCourse::Steady, SustainedCourse::Drift { permille: -120 }] {
        let mut other = profile();
        other.sustained.as_mut().unwrap().course = course;
        assert_eq!(parse(&other.to_string(), Path::new("p.toml")).unwrap(), other);
    }
    let short = Profile { sustained: None, ..whole };
    assert_eq!(parse(&short.to_string(), Path::new("p.toml")).unwrap(), short);
}

#[test]
fn mistakes_are_told_with_file_line_key_and_remedy() {
    let text = profile().to_string();
    let refused = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        parse(&text.replacen(from, to, 1), Path::new("p.toml")).unwrap_err().to_string()
    };
    let version = refused("version = 1", "version = 7");
    assert!(version.starts_with("p.toml:2:11: version: this is version 7"), "{version}");
    assert!(version.ends_with("write the profile anew with `evenkeel calibrate`"), "{version}");
    assert!(refused("direct = true", "direct = true\nspeed = 3").contains("device.speed"));
    assert!(refused("low = \"990 IOPS\"", "low = \"1990 IOPS\"").contains("not between its bounds"));
    assert!(refused("depth = 8, rate = \"4000", "depth = 4, rate = \"4000").contains("twice"));
    assert!(refused("size = \"4 KiB\"", "size = \"5 KiB\"").contains("no size of an access"));
    let without = Profile { measurements: vec![row(true, 4096, 4, 1_900)], ..profile() }.to_string();
    let error = parse(&without, Path::new("p.toml")).unwrap_err().to_string();
    assert!(error.contains("random reads of 4 KiB have not been measured"), "{error}");
}

proptest! {
    /// Whatever the text, it is a profile or a list of problems.
    #[test]
    fn any_text_is_read_or_refused(at in 0_usize..2_000, length in 0_usize..60, insert in ".{0,12}") {
        let mut text: Vec<char> = profile().to_string().chars().collect();
        let start = at.min(text.len());
        let end = (start + length).min(text.len());
        text.splice(start..end, insert.chars());
        let text: String = text.into_iter().collect();
        match parse(&text, Path::new("p.toml")) {
            Ok(read) => prop_assert_eq!(parse(&read.to_string(), Path::new("p.toml")).unwrap(), read),
            Err(error) => prop_assert!(!error.problems.is_empty()),
        }
    }
}
