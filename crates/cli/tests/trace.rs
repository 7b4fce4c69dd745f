//! `evenkeel trace` as its users run it: files in, files out, exit codes.

mod common;

use std::path::Path;

use common::cli::{Run, run_in};
use serde_json::Value;

fn trace(folder: &Path, arguments: &str) -> Run {
    run_in(folder, &format!("trace {arguments}").split(' ').collect::<Vec<_>>())
}

fn ok(folder: &Path, arguments: &str) -> String {
    let run = trace(folder, arguments);
    assert_eq!(run.code, 0, "{arguments}: {}", run.stderr);
    run.stdout
}

fn json(folder: &Path, arguments: &str, code: i32) -> Value {
    let run = trace(folder, &format!("{arguments} --json"));
    assert_eq!((run.code, run.stderr.as_str()), (code, ""), "{arguments}");
    run.json()
}

#[test]
fn a_generated_trace_survives_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate oltp --duration 20s --seed 3 -o a.parquet");
    let first = json(at, "info a.parquet", 0);
    assert_eq!(first["confidence"]["level"], "certain");
    let mut last = "a.parquet".to_owned();
    for (name, options) in [
        ("b.csv.gz", ""),
        ("c.spc", ""),
        ("d.disksim", ""),
        ("e.mqsim", ""),
        ("f.blkparse", " --format mqsim"),
    ] {
        ok(at, &format!("convert {last} -o {name}{options}"));
        last = name.to_owned();
    }
    let again = json(at, "info f.blkparse", 0);
    for key in ["all", "windows", "gaps_ns", "sizes_bytes", "span_us", "footprint_bytes"] {
        assert_eq!(first[key], again[key], "{key}");
    }
    let report = json(at, "convert a.parquet -o g.fio3", 0);
    assert!(report["rounded"].as_u64().unwrap() > 9_000, "{report}");
}

#[test]
fn the_same_seed_writes_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for (name, seed) in [("a.csv", 1), ("b.csv", 1), ("c.csv", 2)] {
        ok(at, &format!("generate financial --requests 3000 --seed {seed} -o {name}"));
    }
    let bytes = |name: &str| std::fs::read(at.join(name)).unwrap();
    assert_eq!(bytes("a.csv"), bytes("b.csv"));
    assert_ne!(bytes("a.csv"), bytes("c.csv"));
}

#[test]
fn nothing_is_overwritten_or_half_written() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("in.spc"), "0,8,512,R,1.0\n0,16,512,W,0.5\n").unwrap();
    std::fs::write(at.join("out.csv"), "precious").unwrap();
    let report = json(at, "convert in.spc -o out.csv", 2);
    assert_eq!(report["problems"][0]["message"], "exists already");
    // With --force, a trace that turns out wrong leaves the old file as well.
    let report = json(at, "convert in.spc -o out.csv --force", 2);
    assert_eq!((&report["ok"], &report["problems"][0]["line"]), (&false.into(), &2.into()));
    assert!(report["problems"][0]["remedy"].as_str().unwrap().contains("--reorder"), "{report}");
    assert_eq!(std::fs::read(at.join("out.csv")).unwrap(), b"precious");
    assert_eq!(at.read_dir().unwrap().count(), 2, "a temporary file was left");
    ok(at, "convert in.spc -o out.csv --force --reorder 8");
    let written = std::fs::read_to_string(at.join("out.csv")).unwrap();
    assert_eq!(written.lines().nth(1), Some("0,0,write,8192,512"));
}

#[test]
fn malformed_lines_are_named_and_change_the_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let mut text = "0,8,512,R,1.0\n".repeat(30);
    text += "0,8,oops,R,1.0\n0,8,512,R,2.0\n";
    std::fs::write(at.join("in.spc"), text).unwrap();
    let run = trace(at, "info in.spc");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("line 31: the size is no whole number"), "{}", run.stderr);
    let report = json(at, "info in.spc", 1);
    assert_eq!((&report["ok"], &report["malformed_lines"][0]["line"]), (&false.into(), &31.into()));
    json(at, "info in.spc --malformed-max 0", 2);
    let report = json(at, "info in.spc --capacity 4KiB", 2);
    assert!(report["problems"][0]["message"].as_str().unwrap().contains("beyond the device"), "{report}");
}

#[test]
fn ambiguous_traces_must_be_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("t"), "100 0 8 16 1\n200 1 8 64 0\n").unwrap();
    let report = json(at, "info t", 2);
    assert!(report["problems"][0]["remedy"].as_str().unwrap().contains("--format ssdsim"), "{report}");
    assert_eq!(json(at, "info t --format mqsim", 0)["all"]["reads"], 1);
}

#[test]
fn parts_other_speeds_and_merges() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate websearch --duration 30s -o a.csv");
    ok(at, "slice a.csv --from 10s --until 20s --volume 1 -o s.csv");
    let slice = json(at, "info s.csv", 0);
    assert!(slice["span_us"].as_f64().unwrap() < 10e6);
    assert_eq!(slice["volumes"].as_array().unwrap().len(), 1);
    ok(at, "scale a.csv --iops 5000 --fit 64MiB --fit-by shrink -o f.csv");
    let fast = json(at, "info f.csv --capacity 64MiB", 0);
    assert!((fast["mean_iops"].as_f64().unwrap() / 5000.0 - 1.0).abs() < 0.001, "{}", fast["mean_iops"]);
    ok(at, "merge a.csv f.csv -o m.csv");
    let merged = json(at, "info m.csv", 0);
    let count = |report: &Value| report["all"]["requests"].as_u64().unwrap();
    assert_eq!(count(&merged), count(&fast) * 2);
    assert_eq!(merged["volumes"].as_array().unwrap().len(), 6);
    ok(at, "merge a.csv f.csv --same-volumes -o n.csv");
    assert_eq!(json(at, "info n.csv", 0)["volumes"].as_array().unwrap().len(), 3);
}

#[test]
fn every_command_answers_programs_too() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let written = |arguments: &str, file: &str| {
        let report = json(at, arguments, 0);
        assert_eq!((&report["ok"], &report["output"]), (&true.into(), &file.into()), "{arguments}");
        let requests = report["requests"].as_u64().unwrap();
        assert_eq!(json(at, &format!("info {file}"), 0)["all"]["requests"], requests, "{arguments}");
        requests
    };
    let all = written("generate varmail --requests 2000 --volumes 1 -o a.csv", "a.csv");
    assert_eq!(written("convert a.csv -o b.csv.gz", "b.csv.gz"), all);
    assert_eq!(written("slice a.csv --count 500 -o c.csv", "c.csv"), 500);
    assert_eq!(written("scale a.csv --speed 1/3 -o d.csv", "d.csv"), all);
    assert_eq!(written("merge a.csv d.csv -o e.csv", "e.csv"), 2 * all);
    let formats = json(at, "formats", 0)["formats"].as_array().unwrap().len();
    assert_eq!(formats, 18);
    let workloads = json(at, "generate --list", 0);
    let names: Vec<&str> =
        workloads["workloads"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    for name in
        ["tpcc", "tpch", "varmail", "webserver", "oltp", "btio", "madbench2", "websearch", "financial"]
    {
        assert!(names.contains(&name), "{name}");
    }
    assert!(names.contains(&"exchange") && names.iter().filter(|name| name.starts_with("ior-")).count() == 3);
}

#[test]
fn a_trace_is_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate btio --duration 20s -o b.parquet");
    let text = ok(at, "info b.parquet --svg b.svg");
    assert!(text.contains("certain: the file says so itself"), "{text}");
    let svg = std::fs::read_to_string(at.join("b.svg")).unwrap();
    for part in ["<svg", "Arrivals", "Sizes", "Addresses over time"] {
        assert!(svg.contains(part), "{part}");
    }
    assert!(ok(at, "formats").contains("nbdlog"));
    assert!(ok(at, "generate --list").contains("madbench2"));
}
