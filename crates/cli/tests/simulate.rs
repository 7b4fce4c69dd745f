//! `evenkeel simulate` and `evenkeel compare` as users run them, on the scenarios of the repository.

mod common;

use std::path::Path;

use common::cli::{Run, repository as root, run_in};
use serde_json::Value;
use tempfile::TempDir;

fn run(arguments: &[&str]) -> Run {
    run_in(&root(), arguments)
}

fn flow<'v>(summary: &'v Value, name: &str) -> &'v Value {
    let flows = summary["flows"].as_array().expect("a list of flows");
    flows.iter().find(|flow| flow["name"] == name).expect("the flow is there")
}

#[test]
fn every_scenario_of_the_repository_runs_and_keeps_its_promises() {
    let mut count = 0;
    for entry in root().join("scenarios").read_dir().expect("there are scenarios") {
        let path = entry.expect("readable").path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let ran = run(&["simulate", path.to_str().expect("UTF-8"), "--json"]);
            assert_eq!(ran.code, 0, "{}: {}{}", path.display(), ran.stdout, ran.stderr);
            let served = ran.json()["served_iops"].as_f64().expect("a number");
            assert!(served > 1.0, "{}", path.display());
            assert!(!ran.json()["commit"].is_number());
            count += 1;
        }
    }
    assert!(count >= 9, "{count} scenarios");
}

#[test]
fn the_same_seed_gives_the_same_bytes_in_every_file() {
    let folder = TempDir::new().expect("a folder");
    let files = ["events.log", "requests.parquet", "summary.json", "latency.svg", "report.html"];
    let written = ["a", "b"].map(|name| {
        let out = folder.path().join(name);
        let out = out.to_str().expect("UTF-8");
        let arguments = [
            "simulate",
            "scenarios/pclock-case-1.toml",
            "--seed",
            "7",
            "--events",
            "--requests",
            "--out",
            out,
        ];
        assert_eq!(run(&arguments).code, 0);
        files.map(|file| std::fs::read(Path::new(out).join(file)).expect("it was written"))
    });
    assert!(written[0] == written[1]);
    let log = String::from_utf8(written[0][0].clone()).expect("text");
    assert!(log.starts_with("0 configure flow=0 weight=1 ⟨0, 50 IOPS, 500 ms⟩\n"), "{}", &log[..200]);
    assert_eq!(log.lines().filter(|line| line.contains(" arrival ")).count(), 1_000);
    let report = String::from_utf8(written[0][4].clone()).expect("text");
    assert!(report.contains("<svg") && !report.contains("<script"));
}

/// The folder has exactly these files, every figure is in the report, and the report needs nothing else.
fn check_folder(folder: &Path, files: &[&str]) {
    let entries = folder.read_dir().expect("a folder").map(|entry| entry.expect("readable").file_name());
    let mut there: Vec<String> = entries.map(|name| name.into_string().expect("UTF-8")).collect();
    there.sort_unstable();
    assert_eq!(there, files);
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("written");
    let report = read("report.html");
    for figure in files.iter().filter(|name| name.ends_with(".svg")) {
        let svg = read(figure);
        assert!(svg.starts_with("<svg") && report.contains(svg.trim()), "{figure}");
    }
    for fetching in ["<script", "<link", "src=", "href=", "@import", "url(http"] {
        assert!(!report.contains(fetching), "{fetching}");
    }
}

#[test]
fn every_kind_of_run_leaves_its_figures_and_a_report_that_opens_by_itself() {
    let folder = TempDir::new().expect("a folder");
    let write = |name: &str, arguments: &[&str]| {
        let out = folder.path().join(name);
        let ran = run(&[arguments, &["--out", out.to_str().expect("UTF-8")]].concat());
        assert!(ran.code <= 1, "{}", ran.stderr);
        out
    };
    let scenario = "scenarios/graduated-classes.toml";
    let figures = ["classes.svg", "latency-cdf.svg", "latency.svg"];
    let one = write("one", &["simulate", scenario]);
    check_folder(&one, &[&figures[..], &["report.html", "summary.json", "throughput.svg"]].concat());
    let many = write("many", &["simulate", scenario, "--seeds", "2"]);
    let results = ["replicated.json", "report.html", "runs.json", "throughput.svg"];
    check_folder(&many, &[&figures[..], &results].concat());
    let compared = write("compared", &["compare", scenario, "--schedulers", "nested,wf2q+"]);
    let files = [
        "compare-iops.svg",
        "compare-missed.svg",
        "compare-p99.svg",
        "comparison.json",
        "latency-nested.svg",
        "latency-wf2qplus.svg",
        "report.html",
        "runs.json",
    ];
    check_folder(&compared, &files);
}

#[test]
fn case_1_of_pclock_is_kept_by_pclock_only() {
    let arguments =
        ["compare", "scenarios/pclock-case-1.toml", "--schedulers", "pclock,wf2q+,fcfs", "--json"];
    let ran = run(&arguments);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let result = ran.json();
    let longest_ms = |scheduler: usize| {
        flow(&result["schedulers"][scheduler], "f_b")["latency_max_us"].as_f64().expect("a number") / 1e3
    };
    assert_eq!(longest_ms(0), 250.0);
    assert!((480.0..=510.0).contains(&longest_ms(1)), "WF2Q+: {} ms", longest_ms(1));
    assert_eq!(flow(&result["schedulers"][0], "f_b")["missed"], 0);
    assert!(flow(&result["schedulers"][1], "f_b")["missed"].as_u64().expect("a number") > 100);
}

#[test]
fn background_batches_are_done_sooner_when_they_get_the_spare_capacity() {
    let summary = run(&["simulate", "scenarios/spikes-and-batches.toml", "--json"]).json();
    let served = flow(&summary, "scan")["windows"]["served"].as_array().expect("a list").clone();
    let done = |from: usize, to: usize| -> u64 {
        served[from..to].iter().map(|window| window.as_u64().expect("a number")).sum()
    };
    let (flows, background) = (done(0, 60), done(180, 190));
    assert_eq!(background, 1_000, "the whole batch within ten seconds");
    assert!(flows < 1_000, "{flows} within a minute");
}

#[test]
fn many_seeds_give_means_with_intervals_that_hold_the_theory() {
    let ran = run(&["simulate", "scenarios/mm1.toml", "--seed", "1000", "--seeds", "20", "--json"]);
    let result = ran.json();
    let latency = &flow(&result, "customers")["latency_mean_us"];
    let (mean, half) =
        (latency["mean"].as_f64().expect("mean"), latency["half_width"].as_f64().expect("half"));
    assert!((mean - 2_000.0).abs() <= half, "{mean} ± {half} us");
    assert!(half < 60.0, "{half} us");
    assert_eq!(result["seeds"].as_array().map(Vec::len), Some(20));
}

#[test]
fn a_trace_is_replayed_as_it_is() {
    let summary = run(&["simulate", "scenarios/trace-replay.toml", "--json"]).json();
    let replayed = flow(&summary, "replayed");
    assert_eq!((&replayed["offered"], &replayed["open"]), (&Value::from(120), &Value::from(0)));
    let missing = TempDir::new().expect("a folder");
    let file = missing.path().join("s.toml");
    let text = std::fs::read_to_string(root().join("scenarios/trace-replay.toml")).expect("it is there");
    std::fs::write(&file, text).expect("writable");
    let ran = run(&["simulate", file.to_str().expect("UTF-8")]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("small-trace.spc"), "{}", ran.stderr);
}

#[test]
fn a_trace_is_replayed_alike_from_every_format() {
    let folder = TempDir::new().expect("a folder");
    let at = folder.path();
    let write = |arguments: &str| {
        let ran = run_in(at, &format!("trace {arguments}").split(' ').collect::<Vec<_>>());
        assert_eq!(ran.code, 0, "{arguments}: {}", ran.stderr);
    };
    write("generate tpcc --duration 10s --volumes 2 --volume-size 1GiB -o a.parquet");
    let mut results = Vec::new();
    for (name, keys) in [
        ("a.parquet", ""),
        ("b.csv.gz", ""),
        ("c.spc", ""),
        ("d.disksim", ""),
        ("e.mqsim", ", format = \"mqsim\""),
        ("f.blkparse", ""),
    ] {
        if name != "a.parquet" {
            write(&format!("convert a.parquet -o {name}"));
        }
        let scenario = format!(
            "duration = \"10 s\"\n[device]\nrate = \"300 IOPS\"\n\
             [flow.a]\nsla = {{ burst = 8, rate = \"150 IOPS\", latency = \"50 ms\" }}\n\
             workload = {{ trace = \"{name}\", volume = 0{keys} }}\n\
             [flow.b]\nworkload = {{ trace = \"{name}\", volume = 1{keys} }}\n"
        );
        std::fs::write(at.join("s.toml"), scenario).expect("written");
        let ran = run_in(at, &["simulate", "s.toml", "--json"]);
        assert!(ran.code <= 1, "{name}: {}", ran.stderr);
        let summary = ran.json();
        assert_eq!(summary["traces"].as_array().map(Vec::len), Some(2), "{name}");
        assert!(flow(&summary, "b")["offered"].as_u64() > Some(500), "{name}");
        results.push((name, summary["flows"].clone()));
    }
    for (name, flows) in &results {
        assert!(*flows == results[0].1, "{name} gives another result than {}", results[0].0);
    }
}

#[test]
fn broken_promises_are_exit_code_1() {
    let ran = run(&["simulate", "scenarios/pclock-case-1.toml", "--scheduler", "wf2q+"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("f_b: broken: "), "{}", ran.stdout);
}

#[test]
fn mistakes_are_exit_code_2_and_say_where() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("bad.toml");
    std::fs::write(&file, "duration = \"1 s\"\n[device]\nrat = \"1 IOPS\"\n[flow.a]\n").expect("writable");
    let name = file.to_str().expect("UTF-8");
    let ran = run(&["simulate", name]);
    assert_eq!(ran.code, 2);
    for part in [
        "bad.toml:3:1",
        "device.rat: unknown key",
        "did you mean `rate`?",
        "flow.a.workload: the key is missing",
    ] {
        assert!(ran.stderr.contains(part), "{part} is missing in {}", ran.stderr);
    }
    let ran = run(&["compare", name, "--schedulers", "fcfs", "--json"]);
    assert_eq!((ran.code, &ran.json()["problems"][1]["line"]), (2, &Value::from(3)));
    let ran = run(&["simulate", "scenarios/mm1.toml", "--scheduler", "fifo"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("there is no scheduler \"fifo\"; write one of pclock"), "{}", ran.stderr);
    assert_eq!(run(&["simulate"]).code, 2);
}

#[test]
fn the_schema_is_printed() {
    let ran = run(&["simulate", "--schema"]);
    assert_eq!(ran.code, 0);
    assert!(ran.json()["properties"]["flow"].is_object());
}

#[test]
fn every_key_of_scenarios_is_in_the_reference() {
    let schema = run(&["simulate", "--schema"]).json();
    let text = std::fs::read_to_string(root().join("docs/simulator.md")).expect("it is there");
    let mut tables = vec![&schema];
    tables.extend(schema["$defs"].as_object().expect("definitions").values());
    let keys = tables.iter().filter_map(|table| table["properties"].as_object()).flat_map(|keys| keys.keys());
    let is_explained = |key: &&String| {
        let forms = [format!("`{key}`"), format!("[{key}]"), format!("[{key}."), format!("{key} = ")];
        forms.iter().any(|form| text.contains(form))
    };
    let missing: Vec<&String> = keys.filter(|key| !is_explained(key)).collect();
    assert!(missing.is_empty(), "docs/simulator.md does not explain {missing:?}");
}
