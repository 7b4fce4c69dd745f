//! `evenkeel plan`, `audit` and `explain` as a user runs them.

mod common;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use common::cli::{evenkeel, json, name, text};
use evenkeel_audit::{AuditWriter, Change, Limits, SigningKey};
use evenkeel_core::{
    Cost, Envelope, FlowId, Operation, Outcome, Rate, Record, Request, RequestId, Slo, Span, Time,
};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Row, RowAccessor};
use serde_json::Value;

/// A trace with bursts of 8 every 40 ms, and of 20 every second.
fn trace(folder: &Path, file: &str, phase_ms: u64, volume: u32) -> PathBuf {
    let mut text = String::new();
    for burst in 0..100 {
        let size = if burst % 25 == 24 { 20 } else { 8 };
        for request in 0..size {
            let ms = phase_ms + burst * 40;
            let _ = writeln!(
                text,
                "{}.{:03}{:06},R,{},4096,{volume}",
                ms / 1_000,
                ms % 1_000,
                request,
                request * 4096
            );
        }
    }
    let path = folder.join(file);
    fs::write(&path, text).expect("written");
    path
}

fn config(folder: &Path, scheduler: &str, capacity: u64, slas: &[&str]) -> PathBuf {
    let mut text = format!(
        "[gateway]\nlisten = [\"unix:s.sock\"]\n[store.pool]\npath = \"pool.img\"\ncapacity = \"{capacity} IOPS\"\n\
         scheduler = \"{scheduler}\"\n"
    );
    for (index, sla) in slas.iter().enumerate() {
        let _ = writeln!(text, "[volume.v{index}]\noffset = \"{index} MiB\"\nsize = \"1 MiB\"\n{sla}");
    }
    let path = folder.join(format!("{scheduler}-{capacity}.toml"));
    fs::write(&path, text).expect("written");
    path
}

const PAPER: [&str; 2] = [
    "sla = { burst = 50, rate = \"50 IOPS\", latency = \"200 ms\" }",
    "sla = { burst = 110, rate = \"100 IOPS\", latency = \"600 ms\" }",
];

#[test]
fn a_fitted_fragment_is_accepted_and_its_capacity_suffices() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = trace(folder.path(), "t.csv", 0, 0);
    let svg = folder.path().join("curve.svg");
    let classes = "90% 10 ms, 100% 200 ms";
    let (code, fitted) =
        json(&["plan", "fit", name(&trace), "--classes", classes, "--svg", name(&svg), "--json"]);
    assert_eq!((code, &fitted["requests"]), (Some(0), &Value::from(848)));
    assert!(fs::read_to_string(&svg).expect("drawn").contains("knee"));
    let capacity = fitted["capacity_iops"].as_f64().expect("a number");
    assert!(fitted["single_capacity_iops"].as_f64().expect("a number") > capacity);
    let fragment = fitted["toml"].as_str().expect("a text");
    let file = config(folder.path(), "nested", capacity.ceil() as u64, &[fragment]);
    let (code, audit) = json(&["audit", name(&trace), "--sla", name(&file), "--json"]);
    let volume = &audit["volumes"][0];
    assert_eq!(volume["inside"], 848, "{audit}");
    // The server is not interrupted: a request may be late by one service time, and by no more.
    let service_us = 1e6 / capacity;
    let worst = volume["worst_misses"].as_array().expect("a list").iter();
    assert!(worst.clone().all(|miss| miss["blame"]["excess_us"].as_f64() <= Some(service_us)), "{audit}");
    assert!(matches!(code, Some(0 | 1)));
    let (code, shown) = text(&["plan", "fit", name(&trace)]);
    assert_eq!(code, Some(0));
    assert!(shown.contains("848 requests") && shown.contains("knee"), "{shown}");
}

#[test]
fn the_papers_example_is_planned_and_relaxed() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = config(folder.path(), "pclock", 300, &PAPER);
    let first = trace(folder.path(), "t.csv", 0, 0);
    let given = format!("v0={}", name(&first));
    let (code, planned) = json(&["plan", "capacity", name(&file), "--trace", &given, "--json"]);
    assert_eq!(code, Some(0));
    assert_eq!(planned["system_capacity_constraint_iops"], 300.0);
    assert_eq!(
        (&planned["lemma3_iops"], &planned["volumes"][0]["lemma2_1_iops"]),
        (&300.0.into(), &250.0.into())
    );
    assert_eq!(planned["binding"]["volume"], "v1");
    assert_eq!(planned["binding"]["latency_us"], 600_000.0);
    assert!(
        planned["exact_iops"].as_f64().expect("a number")
            <= planned["volumes"][0]["lemma1_iops"].as_f64().expect("a number")
    );
    let (code, shown) = text(&["plan", "capacity", name(&file)]);
    assert!(code == Some(0) && shown.contains("300 IOPS") && shown.contains("fits"), "{shown}");

    let (code, relaxed) = json(&["plan", "what-if", name(&file), "--capacity", "280", "--json"]);
    assert_eq!(code, Some(1));
    let changes: Vec<&str> = relaxed["any_one_of"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|it| it["change"].as_str())
        .collect();
    assert!(
        changes.contains(&"burst 110 to 98") && changes.contains(&"latency 200 ms to 440 ms"),
        "{changes:?}"
    );
    assert_eq!(json(&["plan", "what-if", name(&file), "--json"]).0, Some(0));
    let (code, shown) = text(&["plan", "capacity", name(&file), "--trace", "nobody=x"]);
    assert!(code == Some(2) && shown.contains("no volume \"nobody\""), "{shown}");
}

#[test]
fn a_fleet_is_fitted_and_consolidated() {
    let folder = tempfile::tempdir().expect("a folder");
    let traces = folder.path().join("traces");
    fs::create_dir(&traces).expect("made");
    let paths: Vec<PathBuf> = (0..2).map(|n| trace(&traces, &format!("{n}.csv"), n * 13, 0)).collect();
    let out = folder.path().join("fleet.csv");
    let classes = ["--classes", "90% 10 ms, 100% 200 ms"];
    let (code, shown) = text(&["plan", "fleet", name(&traces), classes[0], classes[1], "--out", name(&out)]);
    assert!(code == Some(0) && shown.contains("2 traces fitted"), "{shown}");
    let table = fs::read_to_string(&out).expect("written");
    assert_eq!(table.lines().count(), 3);
    assert!(table.lines().skip(1).all(|row| row.split(',').count() == 15), "{table}");
    let mut arguments = vec!["plan", "consolidate", classes[0], classes[1], "--capacity", "3000", "--json"];
    arguments.extend(paths.iter().map(|path| name(path)));
    let (code, planned) = json(&arguments);
    assert_eq!(code, Some(0), "{planned}");
    let rows = planned["schedulers"].as_array().expect("a list");
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| row["saving_percent"].as_f64() > Some(10.0)), "{planned}");

    let bad = traces.join("bad.csv");
    fs::write(&bad, "2,R,0,512\n1,R,0,512\n").expect("written");
    let (code, fleet) = json(&["plan", "fleet", name(&traces), "--json"]);
    assert_eq!((code, &fleet["ok"]), (Some(1), &Value::from(false)));

    let out = folder.path().join("fleet.parquet");
    let (code, shown) = text(&["plan", "fleet", name(&traces), "--threads", "3", "--out", name(&out)]);
    assert!(code == Some(1) && shown.contains("2 traces fitted, 1 could not be"), "{shown}");
    let reader = SerializedFileReader::try_from(out.as_path()).expect("Parquet");
    let rows: Vec<Row> = reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row")).collect();
    assert_eq!(rows.len(), 3);
    let columns: Vec<&String> = rows[0].get_column_iter().map(|(name, _)| name).collect();
    assert_eq!(
        (columns[0], columns[3], columns[18]),
        (&"trace".into(), &"capacity_iops".into(), &"error".into())
    );
    for (row, path) in rows.iter().zip([&paths[0], &paths[1], &bad]) {
        assert_eq!(row.get_string(0).expect("a name"), name(path));
        let listed = fleet["traces"].as_array().expect("a list").iter();
        let listed = listed.clone().find(|it| it["trace"] == name(path)).expect("listed");
        assert_eq!(row.get_double(3).ok(), listed["capacity_iops"].as_f64());
        assert_eq!(row.get_string(18).is_ok(), path == &bad, "only what could not be fitted has a reason");
    }
    let (code, shown) = text(&["plan", "fleet", name(&traces), "--out", "fleet.xls"]);
    assert!(code == Some(2) && shown.contains(".csv or .parquet"), "{shown}");
}

#[test]
fn costs_and_groups_count_as_in_the_gateway() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (trace(folder.path(), "a.csv", 0, 0), trace(folder.path(), "b.csv", 3, 0));
    // A request of twice the cost is twice the work.
    let classes = "90% 10 ms, 100% 200 ms";
    let capacity = |more: &[&str]| {
        let (code, fitted) =
            json(&[&["plan", "fit", name(&first), "--classes", classes, "--json"], more].concat());
        assert_eq!(code, Some(0), "{fitted}");
        fitted["capacity_iops"].as_f64().expect("a number")
    };
    let ratio = capacity(&["--cost", "{ read = { \"4 KiB\" = 2, \"8 KiB\" = 9 } }"]) / capacity(&[]);
    assert!((1.98..2.02).contains(&ratio), "{ratio}");
    let (code, shown) = text(&["plan", "fit", name(&first), "--cost", "{ reed = 2 }"]);
    assert!(code == Some(2) && shown.contains("reed"), "{shown}");

    // Two volumes under one agreement need it once.
    let sla = "sla = { burst = 40, rate = \"1000 IOPS\", latency = \"50 ms\" }\n";
    let member = "group = \"office\"\n";
    let file = config(folder.path(), "pclock", 1000, &[member, member]);
    let grouped = fs::read_to_string(&file).expect("text") + "[group.office]\n" + sla;
    fs::write(&file, &grouped).expect("written");
    let given = [format!("v0={}", name(&first)), format!("v1={}", name(&second))];
    let with_traces = ["plan", "capacity", name(&file), "--trace", &given[0], "--trace", &given[1], "--json"];
    let (code, planned) = json(&with_traces);
    assert_eq!(code, Some(0), "{planned}");
    assert_eq!(
        (&planned["needed_iops"], &planned["volumes"][0]["group"]),
        (&1000.0.into(), &"office".into())
    );
    let exact = planned["exact_iops"].as_f64().expect("a number");
    assert!(exact > 0.0 && exact <= 1000.0, "{planned}");
    let (code, relaxed) = json(&["plan", "what-if", name(&file), "--capacity", "900", "--json"]);
    assert_eq!(code, Some(1));
    let changes = relaxed["any_one_of"].as_array().expect("a list");
    assert!(!changes.is_empty() && changes.iter().all(|it| it["group"] == "office"), "{relaxed}");
    // The envelope is the group's: of what two send, no more is inside than σ + ρ·t.
    let both = folder.path().join("both.csv");
    let mut lines: Vec<String> = Vec::new();
    for (path, volume) in [(&first, "0"), (&second, "1")] {
        let text = fs::read_to_string(path).expect("text");
        lines.extend(text.lines().map(|line| line[..line.len() - 1].to_owned() + volume));
    }
    let at = |line: &String| line.split(',').next().and_then(|at| at.parse::<f64>().ok()).expect("seconds");
    lines.sort_by(|a, b| at(a).total_cmp(&at(b)));
    fs::write(&both, lines.join("\n")).expect("written");
    let tight = grouped.replace("burst = 40, rate = \"1000 IOPS\"", "burst = 8, rate = \"100 IOPS\"");
    fs::write(&file, tight).expect("written");
    let (_, audit) = json(&["audit", name(&both), "--sla", name(&file), "--json"]);
    let inside = |key: &str| -> u64 {
        let flows = audit[key].as_array().expect("a list").iter();
        flows.map(|flow| flow["inside"].as_u64().expect("a number")).sum()
    };
    assert!(inside("groups") > 0 && inside("groups") <= 8 + 410, "{audit}");

    // And the same reads at twice the price are twice the need.
    fs::write(&file, grouped.replace("capacity = ", "cost = { read = 2 }\ncapacity = ")).expect("written");
    let (_, dear) = json(&["plan", "capacity", name(&file), "--trace", &given[0], "--json"]);
    fs::write(&file, &grouped).expect("written");
    let (_, cheap) = json(&["plan", "capacity", name(&file), "--trace", &given[0], "--json"]);
    let exact = |planned: &Value| planned["exact_iops"].as_f64().expect("a number");
    assert!((exact(&dear) - 2.0 * exact(&cheap)).abs() <= 0.01, "{dear} {cheap}");
}

#[test]
fn bad_input_is_named_and_nothing_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |content: &str| {
        let path = folder.path().join("bad.csv");
        fs::write(&path, content).expect("written");
        path
    };
    let svg = folder.path().join("x.svg");
    for (content, word) in
        [("", "no request"), ("1,R,0,512\n0.5,R,0,512\n", "request 2"), ("x\n", "--format")]
    {
        let (code, shown) = text(&["plan", "fit", name(&file(content)), "--svg", name(&svg)]);
        assert!(code == Some(2) && shown.contains(word), "{shown}");
    }
    assert!(!svg.exists());
    for classes in ["0% 5 ms", "120% 5 ms", "90% 5 ms, 80% 9 ms", "nonsense"] {
        let (code, shown) = text(&["plan", "fit", "x.csv", "--classes", classes]);
        assert!(code == Some(2) && shown.contains("classes"), "{shown}");
    }
}

/// A log in which a bully holds up a volume once, for 30 ms beyond its 20.
fn ledger(folder: &Path) {
    let key = SigningKey::from_bytes(&[5; 32]);
    let mut writer = AuditWriter::open(folder, "pool", 0, Limits::default(), key).expect("opens");
    let envelope =
        Envelope::new(Cost::requests(4), Rate::per_second(50), Span::from_millis(20)).expect("valid");
    writer.change(Time::ZERO, Change::Scheduler("fcfs".into())).expect("written");
    writer.change(Time::ZERO, Change::Capacity(Some(Rate::per_second(100)))).expect("written");
    writer.configure(Time::ZERO, FlowId(0), "orders", &Slo::guaranteed(envelope)).expect("written");
    writer.configure(Time::ZERO, FlowId(1), "bully", &Slo::background()).expect("written");
    for turn in 0..5 {
        let flow = u32::from(turn < 4);
        let request = Request {
            id: RequestId(turn),
            flow: FlowId(flow),
            operation: Operation::Read,
            offset: 0,
            length: 4096,
            cost: Cost::ONE,
        };
        writer.on_arrival(&request);
        let promise = (flow == 0).then_some(envelope.latency());
        let [arrival, dispatch, completion] = [0, turn * 10, turn * 10 + 10].map(Time::from_millis);
        let (class, outcome) = (promise.map(|_| 0), Outcome::Done);
        writer
            .record(&Record { request, arrival, dispatch, completion, promise, class, outcome })
            .expect("written");
    }
    writer.close(Time::from_millis(50)).expect("closed");
}

#[test]
fn a_log_is_audited_explained_and_verified() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("audit");
    ledger(&path);
    let (code, audit) = json(&["audit", name(&path), "--json"]);
    assert_eq!(code, Some(1));
    let orders = &audit["volumes"][0];
    assert_eq!((&orders["inside"], &orders["missed"]), (&Value::from(1), &Value::from(1)));
    assert_eq!(orders["blame"]["excess_us"], 30_000.0);
    assert_eq!(orders["blame"]["other_tenants"][0]["volume"], "bully");
    assert_eq!(orders["blame"]["other_tenants"][0]["us"], 30_000.0);
    assert_eq!(orders["account"]["verdict"], "broken");
    let (_, shown) = text(&["audit", name(&path)]);
    assert!(shown.contains("bully") && shown.contains("30.000000 ms"), "{shown}");

    let (code, shown) = text(&["explain", "orders", "--ledger", name(&path)]);
    assert!(code == Some(0) && shown.contains("crowded out, mostly by bully"), "{shown}");
    assert!(shown.contains("\"fcfs\" holds nobody off"), "{shown}");
    let (code, told) = json(&["explain", "orders", "--ledger", name(&path), "--at", "100.5", "--json"]);
    assert_eq!((code, &told["answer"]), (Some(0), &Value::from("idle")));
    let (code, shown) = text(&["explain", "nobody", "--ledger", name(&path)]);
    assert!(code == Some(2) && shown.contains("orders, bully"), "{shown}");

    let (code, verified) = json(&["audit", "verify", name(&path), "--json"]);
    assert_eq!((code, &verified["records"]), (Some(0), &Value::from(5)));
    let statement = verified["statement"].as_str().expect("a text");
    let key = verified["key"].as_str().expect("a text");
    assert_eq!(
        evenkeel(&["audit", "verify", name(&path), "--key", key, "--expect", statement]).status.code(),
        Some(0)
    );
    let other = "00".repeat(32);
    assert_eq!(evenkeel(&["audit", "verify", name(&path), "--key", &other]).status.code(), Some(1));
    let file = path.join("00000001.audit");
    let mut bytes = fs::read(&file).expect("readable");
    let place = bytes.len() / 2;
    bytes[place] ^= 1;
    fs::write(&file, &bytes).expect("written");
    let (code, verified) = json(&["audit", "verify", name(&path), "--json"]);
    assert_eq!((code, &verified["ok"]), (Some(1), &Value::from(false)));
    let finding = &verified["finding"];
    let message = finding["message"].as_str().expect("a text");
    assert!(message.contains("is not the one that was written there"), "{verified}");
    assert_eq!(finding["record"], finding["record_last"], "the very one: {verified}");
    assert_eq!(
        evenkeel(&["audit", name(&path)]).status.code(),
        Some(2),
        "an audit of it would be worth nothing"
    );
}

#[test]
fn a_trace_is_audited_as_its_store_would_have_served_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut lines: Vec<String> = Vec::new();
    for (file, volume) in [("a.csv", 0), ("b.csv", 1)] {
        let one = fs::read_to_string(trace(folder.path(), file, u64::from(volume), volume)).expect("written");
        lines.extend(one.lines().map(str::to_owned));
    }
    lines.sort();
    let both = folder.path().join("both.csv");
    fs::write(&both, lines.join("\n")).expect("written");
    let slas = ["sla = { burst = 20, rate = \"250 IOPS\", latency = \"60 ms\" }", ""];
    let (code, audit) =
        json(&["audit", name(&both), "--sla", name(&config(folder.path(), "pclock", 500, &slas)), "--json"]);
    assert_eq!((code, &audit["ok"]), (Some(0), &Value::from(true)), "{audit}");
    let (code, audit) =
        json(&["audit", name(&both), "--sla", name(&config(folder.path(), "fcfs", 350, &slas)), "--json"]);
    assert_eq!(code, Some(1), "{audit}");
    let blame = &audit["volumes"][0]["blame"];
    assert!(blame["other_tenants_us"].as_f64() > Some(0.0), "{audit}");
    assert_eq!(blame["device_us"], 0.0, "the replayed store is as fast as stated");
    let (code, shown) =
        text(&["audit", name(&both), "--sla", name(&config(folder.path(), "pclock", 99, &slas[..1]))]);
    assert!(code == Some(2) && shown.contains("volume 1"), "{shown}");
    let (code, shown) = text(&["audit", name(&both)]);
    assert!(code == Some(2) && shown.contains("--sla"), "{shown}");
}
