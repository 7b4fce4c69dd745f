//! What can be wrong with a trace, in every command that reads one: named file, line and remedy, exit code 2,
//! and nothing written.

mod common;

use std::fs;
use std::io::Write;
use std::path::Path;

use common::cli::{Run, run_in};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

/// A device of 1 MiB has 2048 sectors.
const CAPACITY: &str = "1 MiB";

/// A trace with something wrong.
struct Bad {
    name: &'static str,
    bytes: Vec<u8>,
    /// The line that is told, if it is about one.
    line: Option<u64>,
    message: &'static str,
    /// In the remedy of `evenkeel trace`, and in that of `evenkeel simulate`.
    remedy: &'static str,
    in_scenarios: &'static str,
}

fn bad_traces() -> Vec<Bad> {
    let good: String = (0..3_000).map(|number| format!("0,{},512,R,{number}.5\n", number % 2048)).collect();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(good.as_bytes()).expect("written");
    let gzip = gzip.finish().expect("written");
    // Enough to be recognised by, then nothing but faults.
    let good_front: String = good.split_inclusive('\n').take(300).collect();
    let malformed = good_front + &good.replace(",512,R,", ",half,R,");
    let bad = |name, bytes: &[u8], line, message, remedy, in_scenarios| Bad {
        name,
        bytes: bytes.to_vec(),
        line,
        message,
        remedy,
        in_scenarios,
    };
    vec![
        bad(
            "backwards.spc",
            b"0,8,512,R,2.0\n0,8,512,R,1.5\n",
            Some(2),
            "time goes backwards by 500000000 ns",
            "--reorder N",
            "reorder = N",
        ),
        bad(
            "beyond.spc",
            b"0,8,512,R,1.0\n0,0,512,R,1.5\n0,2048,512,W,2.0\n",
            Some(3),
            "the request ends at byte 1049088, beyond the device of 1048576 bytes",
            "trace scale --fit",
            "trace scale --fit",
        ),
        bad(
            "cut.spc",
            b"0,8,512,R,1.0\n0,8,512,R,1.5\n0,8,5",
            Some(3),
            "the file is truncated",
            "fetch the file again",
            "fetch the file again",
        ),
        bad("cut.spc.gz", &gzip[..gzip.len() / 2], None, "", "fetch", "fetch"),
        bad("empty.spc", b"", None, "holds no request", "the right file", "the right file"),
        bad(
            "malformed.spc",
            malformed.as_bytes(),
            Some(401),
            "more than 100 malformed lines for format spc: line 301: the size is no whole number",
            "--malformed-max",
            "malformed_max = N",
        ),
        bad(
            "ambiguous.txt",
            b"100 0 8 16 1\n200 1 8 64 0\n",
            None,
            "fits more than one format: disksim, mqsim, ssdsim, ssdsim-0-reads",
            "--format mqsim",
            "format = \"mqsim\"",
        ),
        bad(
            "strange.txt",
            b"hello\nworld\n",
            None,
            "fits none of the formats",
            "--format csv --columns",
            "columns = \"MAPPING\"",
        ),
    ]
}

/// Checks the report of one command; `text` is what the same command says to people.
fn check(bad: &Bad, command: &str, remedy: &str, report: &Run, text: &Run) {
    let place = format!("{command} {}: {}{}", bad.name, report.stdout, text.stderr);
    assert_eq!((report.code, text.code), (2, 2), "{place}");
    let object = report.json();
    assert_eq!(object["ok"], false, "{place}");
    let problem = &object["problems"][0];
    let word = |key: &str| problem[key].as_str().unwrap_or_else(|| panic!("no {key}: {place}")).to_owned();
    assert!(Path::new(&word("file")).ends_with(bad.name), "{place}");
    assert_eq!(problem["line"], bad.line.map_or(Value::Null, Value::from), "{place}");
    assert!(word("message").contains(bad.message) && word("remedy").contains(remedy), "{place}");
    let line = bad.line.map_or(String::new(), |line| format!("line {line}: "));
    for part in [bad.name, &line, bad.message, remedy] {
        assert!(text.stderr.contains(part), "{part} is missing: {place}");
    }
}

#[test]
fn every_trace_command_names_file_line_and_remedy_and_writes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    fs::write(at.join("good.spc"), "0,8,512,R,0.0\n0,8,512,R,1.0\n").expect("written");
    for bad in bad_traces() {
        fs::write(at.join(bad.name), &bad.bytes).expect("written");
        let before = at.read_dir().expect("a folder").count();
        for (command, options) in [
            ("info", vec!["--svg", "figure.svg"]),
            ("convert", vec!["-o", "out.csv"]),
            ("slice", vec!["--until", "1h", "-o", "out.csv"]),
            ("scale", vec!["--speed", "2", "-o", "out.csv"]),
            ("scale", vec!["--iops", "100", "-o", "out.csv"]),
            ("merge", vec!["good.spc", "-o", "out.csv"]),
        ] {
            let mut arguments = vec!["trace", command, bad.name];
            arguments.extend(options);
            arguments.extend(["--capacity", CAPACITY]);
            let text = run_in(at, &arguments);
            arguments.push("--json");
            check(&bad, command, bad.remedy, &run_in(at, &arguments), &text);
        }
        assert_eq!(at.read_dir().expect("a folder").count(), before, "{}: something was written", bad.name);
    }
}

#[test]
fn simulate_and_compare_name_file_line_and_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    for bad in bad_traces() {
        fs::write(at.join(bad.name), &bad.bytes).expect("written");
        let scenario = format!(
            "duration = \"60 min\"\n[device]\nkind = \"constant-rate\"\nrate = \"1000 IOPS\"\n\
             capacity = \"{CAPACITY}\"\n[flow.web]\nworkload = {{ trace = \"{}\" }}\n",
            bad.name
        );
        fs::write(at.join("s.toml"), scenario).expect("written");
        for options in [
            vec!["simulate", "s.toml"],
            vec!["simulate", "s.toml", "--seeds", "2"],
            vec!["compare", "s.toml", "--schedulers", "fcfs,pclock"],
        ] {
            let text = run_in(at, &options);
            let report = run_in(at, &[&options[..], &["--json"]].concat());
            check(&bad, options[0], bad.in_scenarios, &report, &text);
            assert_eq!(report.json()["problems"][0]["flow"], "web");
            assert!(text.stderr.contains("the trace of flow \"web\""), "{}", text.stderr);
        }
    }
}

#[test]
fn simulate_tells_how_a_trace_was_read_and_what_was_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let lines: String = (0..40).map(|number| format!("0,{},512,R,{number}.0\n", number * 8)).collect();
    fs::write(at.join("t.spc"), lines.replace("0,24,512", "0,24,oops")).expect("written");
    let scenario = "duration = \"1 min\"\n[device]\nrate = \"100 IOPS\"\n\
                    [flow.web]\nworkload = { trace = \"t.spc\" }\n";
    fs::write(at.join("s.toml"), scenario).expect("written");
    let told = "trace of web: t.spc, spc (likely: the only layout that fits, 39 of the first 40 do), 39 requests \
                read; 1 malformed left out: line 4: the size is no whole number";
    for options in [
        vec!["simulate", "s.toml"],
        vec!["simulate", "s.toml", "--seeds", "2"],
        vec!["compare", "s.toml", "--schedulers", "fcfs"],
    ] {
        let run = run_in(at, &options);
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(run.stdout.contains(told), "{}", run.stdout);
    }
    let run = run_in(at, &["simulate", "s.toml", "--json", "--out", "out"]);
    let trace = &run.json()["traces"][0];
    assert_eq!((&trace["format"], &trace["malformed"]), (&"spc".into(), &1.into()), "{trace}");
    assert_eq!(trace["malformed_lines"][0]["line"], 4);
    assert!(
        fs::read_to_string(at.join("out/report.html")).expect("written").contains("1 malformed left out")
    );
}
