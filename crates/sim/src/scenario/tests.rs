//! Tests of scenario files.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::run::{Options, run};
use crate::summary::Summary;

const SMALL: &str = r#"
description = "two flows"
duration = "2 s"
warmup = "500 ms"
depth = 2

[device]
rate = "100 IOPS"
servers = 2

[flow.web]
sla = { burst = 5, rate = "40 IOPS", latency = "100 ms" }
weight = 3
workload = { arrivals = "constant", rate = "40 IOPS" }
access = { pattern = "mixed", sequential = 0.8, size = ["4 KiB", "64 KiB"], read = 0.7 }

[flow.batch]
workload = [
  { arrivals = "closed", outstanding = 4, until = "1 s" },
  { arrivals = "poisson", rate = "10 IOPS", from = "1 s" },
]

[[change]]
at = "1 s"
capacity = 0.7

[[change]]
at = "1500 ms"
scheduler = "sced"
flow = "web"
weight = 5
"#;

fn parsed(text: &str) -> Scenario {
    parse(text, Path::new("some/small.toml")).expect("a good scenario")
}

#[track_caller]
fn refused(text: &str) -> Vec<String> {
    let error = parse(text, Path::new("s.toml")).expect_err("this scenario must be refused");
    error.to_string().lines().map(str::to_owned).collect()
}

fn summary(scenario: &Scenario, seed: u64) -> Summary {
    let options = Options { seed, commit: None };
    run(scenario, &options, None, &mut |_| {}).expect("it runs")
}

#[test]
fn a_scenario_is_what_its_file_says() {
    let scenario = parsed(SMALL);
    assert_eq!((scenario.name.as_str(), scenario.description.as_str()), ("small", "two flows"));
    assert_eq!(scenario.flow_names(), ["web", "batch"], "in the order of the file");
    assert_eq!((scenario.seed, scenario.depth.get(), scenario.scheduler.as_str()), (1, 2, "pclock"));
    assert_eq!(scenario.flows[0].slo.weight().as_u32(), 3);
    assert_eq!(scenario.flows[1].parts.len(), 2);
    assert!(scenario.flows[1].slo.is_background());
    assert_eq!(scenario.changes.len(), 3);
    let after = scenario.changes.iter().find_map(|(_, change)| match change {
        ScenarioChange::Slo(_, slo) => Some(slo.clone()),
        _ => None,
    });
    let after = after.expect("web changes its weight");
    assert_eq!(after.weight().as_u32(), 5);
    assert_eq!(after.envelope(), scenario.flows[0].slo.envelope(), "what is not named stays");
    let result = summary(&scenario, 1);
    assert_eq!(result.flows[0].offered, 60, "40 IOPS from 0.5 to 2 s");
    assert!(result.flows[1].served > 20);
}

#[test]
fn unknown_keys_are_refused_with_their_place_and_the_nearest_known_one() {
    assert_eq!(
        refused(&SMALL.replace("weight = 3", "wieght = 3")),
        ["s.toml:13:1: flow.web.wieght: unknown key; did you mean `weight`?"]
    );
    assert_eq!(
        refused(&SMALL.replace("from = \"1 s\"", "form = \"1 s\"")),
        ["s.toml:20:45: flow.batch.workload.form: unknown key; did you mean `from`?"]
    );
    assert_eq!(
        refused(&SMALL.replace("\"closed\"", "\"close\"")),
        ["s.toml:19:16: flow.batch.workload.arrivals: \"close\" is not known here; did you mean \"closed\"?"]
    );
}

#[test]
fn values_are_read_with_their_units_or_refused() {
    assert_eq!(
        refused(&SMALL.replace("latency = \"100 ms\"", "latency = 100")),
        [
            "s.toml:12:48: flow.web.sla.latency: 100 has no unit; write a time with its unit and in quotes, as \
             \"100 ms\": ns, us, ms, s or min"
        ]
    );
    assert_eq!(
        refused(&SMALL.replace("burst = 5", "burst = 0.0005")),
        ["s.toml:12:17: flow.web.sla.burst: 0.0005 is finer than 0.001 requests; write a multiple of 0.001 \
             requests; values are never rounded"]
    );
    assert_eq!(
        refused("duration = \"1 s\"\n"),
        ["s.toml:1:1: device: the key is missing; add a section [device] with a rate"]
    );
    assert_eq!(
        refused("duration = \"1 s\"\n[device]\nrate = \"1 IOPS\"\n[flow.a]\nweight = 2\n"),
        ["s.toml:4:1: flow.a.workload: the key is missing; add a line workload = .."]
    );
}

#[test]
fn a_device_is_a_rate_a_name_or_a_description() {
    let flows = "[flow.a]\nworkload = { arrivals = \"closed\", outstanding = 4 }\n";
    let named = parsed(&format!(
        "duration = \"1 s\"\ndevice = \"flashsim-2009\"\n{flows}access = {{ extent = \"512 MiB\" }}\n"
    ));
    assert!(named.device.capacity().is_some());
    assert!(summary(&named, 1).flows[0].served > 1_000);
    let text = format!("duration = \"1 s\"\n[device]\nkind = \"constant-rate\"\nrate = \"50 IOPS\"\n{flows}");
    assert_eq!(summary(&parsed(&text), 1).flows[0].served, 49, "the 50th ends with the run");
    assert_eq!(
        refused(&text.replace("constant-rate", "constant-rat"))[0].split("; ").next(),
        Some("s.toml:3:8: device.kind: \"constant-rat\" is not known here")
    );
    let named = format!("duration = \"1 s\"\ndevice = \"flashsim-2008\"\n{flows}");
    assert_eq!(
        refused(&named),
        ["s.toml:2:10: device: no drive is called \"flashsim-2008\"; did you mean \"flashsim-2009\"?"]
    );
    let beyond = format!("{}access = {{ extent = \"100 TiB\" }}\n", named.replace("2008", "2009"));
    assert!(refused(&beyond)[0].contains("its region ends beyond the device of"));
}

#[test]
fn every_problem_of_sense_is_told_at_once() {
    let text = SMALL
        .replace("warmup = \"500 ms\"", "warmup = \"5 s\"\nscheduler = \"pclok\"")
        .replace("arrivals = \"closed\", outstanding = 4", "arrivals = \"closed\", rate = \"4 IOPS\"")
        .replace("read = 0.7", "read = 7")
        .replace("flow = \"web\"", "flow = \"wbe\"");
    assert_eq!(
        refused(&text),
        [
            "s.toml:4:10: warmup: the warm-up of 5 s leaves nothing of the 2 s of the run; write a shorter warm-up \
             or a longer duration",
            "s.toml:5:13: scheduler: there is no scheduler \"pclok\"; did you mean \"pclock\"?",
            "s.toml:16:84: flow.web.access.read: 7 is no share; write a number from 0 to 1",
            "s.toml:20:3: flow.batch.workload.outstanding: outstanding is missing or out of range; write \
             outstanding = 8 or another number from 1 to 1048576",
            "s.toml:20:33: flow.batch.workload.rate: rate means nothing with arrivals = \"closed\"; remove it; \
             arrivals = \"closed\" goes with outstanding, think, thinking, shape",
            "s.toml:31:8: change.flow: there is no flow \"wbe\"; did you mean \"web\"?",
        ]
    );
}

#[test]
fn a_change_that_no_scheduler_knows_is_refused_before_the_run() {
    let text = format!("{SMALL}\n[[change]]\nat = \"1800 ms\"\nspare = 0.5\n");
    assert_eq!(
        refused(&text),
        [
            "s.toml:35:9: change.spare: sced knows no spare capacity to give to somebody; remove this line, or \
             write scheduler = \"pclock\""
        ]
    );
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_one_others() {
    let scenario = parsed(SMALL);
    let text = |seed| serde_json::to_string(&summary(&scenario, seed)).expect("it serialises");
    assert_eq!(text(7), text(7));
    assert_ne!(text(7), text(8));
}

#[test]
fn the_summary_adds_up() {
    let mut scenario = parsed(SMALL);
    for drain in [false, true] {
        scenario.drain = drain;
        let result = summary(&scenario, 3);
        for flow in &result.flows {
            assert_eq!(flow.offered, flow.served + flow.open);
            assert_eq!(flow.served, flow.promised + flow.outside);
            assert_eq!(flow.served, flow.classes.iter().map(|class| class.served).sum::<u64>());
            assert_eq!(flow.missed, flow.classes.iter().map(|class| class.missed).sum::<u64>());
            assert!(flow.latency.latency_p50_us <= flow.latency.latency_p99_us);
            assert!(flow.latency.latency_p999_us <= flow.latency.latency_max_us);
            assert!(!drain || flow.open == 0);
        }
        assert!(result.device.utilisation > 0.3 && result.device.utilisation <= 1.0);
        assert!(result.device.outstanding_mean <= 2.0);
        assert!(result.fairness_index > 0.0 && result.fairness_index <= 1.0);
    }
}

#[test]
fn capacity_falls_when_the_scenario_says_so() {
    let text = r#"
duration = "20 s"
[device]
rate = "100 IOPS"
[flow.a]
workload = { arrivals = "closed", outstanding = 8 }
[[change]]
at = "10 s"
capacity = 0.7
"#;
    let served = summary(&parsed(text), 1).flows[0].windows.served.clone();
    assert_eq!(served[1..9], [100; 8]);
    assert_eq!(served[11..19], [70; 8]);
}

#[test]
fn results_do_not_depend_on_threads() {
    let scenario = parsed(SMALL);
    let jobs: Vec<(&Scenario, u64)> = (1..=6).map(|seed| (&scenario, seed)).collect();
    let texts = [1, 4].map(|threads| {
        let threads = std::num::NonZeroUsize::new(threads).expect("above 0");
        let runs = crate::run::run_all(&jobs, None, threads, &|_| {}).expect("they run");
        serde_json::to_string(&runs).expect("they serialise")
    });
    assert_eq!(texts[0], texts[1]);
}

#[test]
fn a_trace_that_cannot_be_opened_names_its_flow() {
    let text = SMALL.replace(
        "workload = { arrivals = \"constant\", rate = \"40 IOPS\" }",
        "workload = { trace = \"web.csv\" }",
    );
    let scenario = parsed(&text);
    let What::Trace(spec) = &scenario.flows[0].parts[0].what else { panic!("a trace") };
    assert_eq!(spec.path, Path::new("some/web.csv"), "relative to the scenario's folder");
    let options = Options { seed: 1, commit: None };
    let error = run(&scenario, &options, None, &mut |_| {}).expect_err("there is no such trace");
    let told = error.to_string();
    assert!(told.starts_with("the trace of flow 0: ") && told.contains("web.csv"), "{told}");
}

/// What comes of a scenario that replays a trace with this content on a device of 1 MiB; `keys` are those beside
/// `trace`.
fn replayed(name: &str, content: &[u8], keys: &str) -> Result<Summary, String> {
    let path = std::env::temp_dir().join(format!("evenkeel-{}-{name}", std::process::id()));
    std::fs::write(&path, content).expect("a file can be written");
    let text = format!(
        "duration = \"10 s\"\n[device]\nkind = \"constant-rate\"\nrate = \"100 IOPS\"\ncapacity = \"1 MiB\"\n\
         [flow.a]\nworkload = {{ trace = {path:?}{keys} }}\n"
    );
    let done = run(&parsed(&text), &Options { seed: 1, commit: None }, None, &mut |_| {});
    std::fs::remove_file(&path).expect("it is there");
    done.map_err(|error| error.to_string())
}

/// The same with these lines of the SPC format.
fn replaying(name: &str, lines: &[&str], keys: &str) -> Result<Summary, String> {
    replayed(
        &format!("{name}.spc"),
        (lines.join("\n") + "\n").as_bytes(),
        &format!(", format = \"spc\"{keys}"),
    )
}

#[test]
fn a_request_beyond_the_device_is_refused_with_its_line() {
    let lines = ["0,0,512,r,0.0", "0,2047,512,r,0.5", "1,2048,512,w,1.0"];
    let told = replaying("beyond", &lines, "").expect_err("the last one ends at 1 MiB + 512 B");
    assert!(
        told.contains("line 3: the request ends at byte 1049088, beyond the device of 1048576"),
        "{told}"
    );
    assert!(
        told.ends_with("use a larger device, or fit the trace to this one with `evenkeel trace scale --fit`")
    );
    let only = replaying("volume", &lines, ", volume = 0").expect("volume 1 is not asked for");
    assert_eq!(only.flows[0].served, 2);
}

#[test]
fn the_order_and_the_malformed_lines_of_a_trace_may_be_forgiven() {
    let shuffled = ["0,0,512,r,0.5", "0,8,512,r,0.0", "0,16,512,r,1.0"];
    let told = replaying("order", &shuffled, "").expect_err("time goes back");
    assert!(told.contains("line 2: time goes backwards") && told.contains("write reorder = N"), "{told}");
    assert_eq!(replaying("sorted", &shuffled, ", reorder = 2").expect("it is sorted").flows[0].served, 3);
    let damaged = ["0,0,512,r,0.0", "0,eight,512,r,0.5", "0,16,512,r,1.0"];
    assert_eq!(replaying("forgiven", &damaged, "").expect("one of three is left out").flows[0].served, 2);
    let told = replaying("damaged", &damaged, ", malformed_max = 0").expect_err("none may be left out");
    assert!(told.contains("line 2") && told.contains("malformed_max = N"), "{told}");
    let text = SMALL.replace("arrivals = \"constant\",", "arrivals = \"constant\", reorder = 4,");
    assert!(refused(&text)[0].contains("reorder means nothing with arrivals"));
}

#[test]
fn a_trace_is_recognised_with_a_stated_confidence() {
    let summary = replayed("known.spc", b"0,0,512,r,0.0\n1,8,512,r,0.5\n", "").expect("it is read");
    let trace = &summary.traces[0];
    assert_eq!((trace.flow.as_str(), trace.format.as_str(), trace.requests), ("a", "spc", 2));
    assert_eq!(trace.confidence, "likely: the only layout that fits, 2 of the first 2 do");
    let named = replayed("named.spc", b"0,0,512,r,0.0\n", ", format = \"spc\"").expect("it is read");
    assert_eq!(named.traces[0].confidence, "named by you");
    assert!(summary_of_small().traces.is_empty(), "nothing was read from a file");
}

fn summary_of_small() -> Summary {
    summary(&parsed(SMALL), 1)
}

#[test]
fn traces_with_columns_of_their_own_or_without_times_are_replayed() {
    let csv = b"when;block;count\n0.0;0;1\n250;8;2\n";
    let told = replayed("plain.csv", csv, ", format = \"csv\"").expect_err("what is what is not said");
    assert!(told.contains("write one beside trace, as columns = \"time=1*us,"), "{told}");
    let columns = "separator=semicolon,time=when*ms,offset=block*512,length=count*4096";
    let read = replayed("mapped.csv", csv, &format!(", columns = \"{columns}\"")).expect("it is mapped");
    assert_eq!((read.flows[0].offered, read.flows[0].offered_bytes), (2, 3 * 4096));

    let request = |kind: u32, offset: u64| {
        let words = [&0x2560_9513_u32.to_be_bytes()[..], &kind.to_be_bytes(), &[7; 8]].concat();
        [&words[..], &offset.to_be_bytes(), &512_u32.to_be_bytes()].concat()
    };
    let log = [request(0, 4096), request(0, 8192)].concat();
    let told = replayed("untimed", &log, ", format = \"nbdlog\"").expect_err("it has no times");
    assert!(told.contains("format nbdlog holds no times; write interval = \"1 ms\""), "{told}");
    let timed = replayed("timed", &log, ", format = \"nbdlog\", interval = \"3 s\"").expect("it is timed");
    assert_eq!(timed.flows[0].windows.arrivals[..4], [1, 0, 0, 1]);

    let events = b"  8,16   5        2     0.000000000 18615  Q   R 1024 + 8 [java]
  8,16   5        3     0.000001000 18615  Q   R 1032 + 8 [java]
  8,16   5        5     4.000000000 18615  D   R 1024 + 8 [java]
";
    assert_eq!(replayed("queued", events, "").expect("it is read").flows[0].offered, 2);
    assert_eq!(replayed("issued", events, ", event = \"issued\"").expect("it is read").flows[0].offered, 1);
    let mapped = |keys: &str| {
        let trace = format!("workload = {{ trace = \"t\"{keys} }}");
        refused(&SMALL.replace("workload = { arrivals = \"constant\", rate = \"40 IOPS\" }", &trace))
            .join("\n")
    };
    assert!(mapped(", columns = \"time=1\"").contains("flow.web.workload.columns: "));
    assert!(
        mapped(&format!(", format = \"spc\", columns = \"{columns}\"")).contains("write format = \"csv\"")
    );
    assert!(mapped(", interval = \"0 s\"").contains("all requests would come at once"));
}

#[test]
fn a_device_may_stand_in_a_file_of_its_own() {
    let folder = std::env::temp_dir().join(format!("evenkeel-{}-device", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let read = |description: &str| {
        std::fs::write(folder.join("drive.toml"), description).expect("written");
        let text = "duration = \"2 s\"\n[device]\nfile = \"drive.toml\"\n\
                    [flow.a]\nworkload = { arrivals = \"constant\", rate = \"10 IOPS\" }\n";
        parse(text, &folder.join("s.toml"))
    };
    let scenario = read("kind = \"servers\"\nread = \"5 ms\"\ncapacity = \"2 GiB\"\n").expect("it is good");
    assert_eq!(scenario.device.capacity(), Some(2 << 30));
    assert_eq!(summary(&scenario, 1).flows[0].latency.latency_mean_us, 5_000.0);
    let told = read("kind = \"servers\"\nread = \"5\"\n").expect_err("five what?").to_string();
    assert!(told.contains("s.toml:3:8: device.file: ") && told.contains("drive.toml:2:8: read: "), "{told}");
    std::fs::remove_dir_all(&folder).expect("it is there");
    let text = "duration = \"2 s\"\n[device]\nfile = \"missing.toml\"\n[flow.a]\n\
                workload = { arrivals = \"constant\", rate = \"10 IOPS\" }\n";
    let told = refused(text).join("\n");
    assert!(told.contains("missing.toml:1:1: cannot read the file: "), "{told}");
}

#[test]
fn progress_is_told_up_to_the_end() {
    let mut told = Vec::new();
    run(&parsed(SMALL), &Options { seed: 1, commit: None }, None, &mut |share| told.push(share))
        .expect("it runs");
    assert!(told.len() >= 100 && told.is_sorted(), "{} times", told.len());
    assert_eq!(told.last(), Some(&1.0));
    let sum = std::sync::atomic::AtomicU64::new(0);
    let scenario = parsed(SMALL);
    let add = |more| {
        sum.fetch_add(more, std::sync::atomic::Ordering::Relaxed);
    };
    let threads = std::num::NonZeroUsize::new(2).expect("above 0");
    crate::run::run_all(&[(&scenario, 1), (&scenario, 2)], None, threads, &add).expect("they run");
    assert_eq!(sum.into_inner(), 2_000, "thousandths of two runs");
}

#[test]
fn random_service_times_follow_the_seed() {
    let text = "duration = \"20 s\"\n[device]\nkind = \"servers\"\nread = \"5 ms\"\ndistribution = \"exponential\"\n\
                [flow.a]\nworkload = { arrivals = \"constant\", rate = \"100 IOPS\" }\n";
    let mean = |seed| summary(&parsed(text), seed).flows[0].latency.latency_mean_us;
    assert_eq!(mean(1), mean(1));
    assert!(mean(1) != mean(2), "the arrivals are the same, only the device can differ");
}

/// 64 clients on so many servers of 10 ms; `depth` stands at the top of the file.
fn crowded(servers: u32, depth: &str, more: &str) -> Summary {
    let rate = servers * 100;
    let text = format!(
        "duration = \"60 s\"\ndepth = {depth}\nscheduler = \"fcfs\"\n\
         [device]\nrate = \"{rate} IOPS\"\nservers = {servers}\n\
         [flow.a]\nworkload = {{ arrivals = \"closed\", outstanding = 64 }}\n{more}"
    );
    summary(&parsed(&text), 1)
}

#[test]
fn the_depth_adapts_to_the_servers_of_the_device() {
    for servers in [1, 4, 12] {
        let summary = crowded(servers, "\"auto\"", "");
        let depth = summary.device.depth.as_ref().expect("it is adapted");
        let range = (servers - servers / 4)..=(servers + servers / 4 + 1);
        assert!(range.contains(&depth.at_end), "{servers} servers: {depth:?}");
        assert_eq!(depth.windows.len(), 60);
        assert_eq!((depth.windows[59], depth.least), (depth.at_end, 1));
        assert!(depth.changes > 0 && depth.mean <= f64::from(depth.most));
        assert!(summary.served_iops > f64::from(servers) * 85.0, "{}", summary.served_iops);
        assert_eq!(
            serde_json::to_string(&summary).expect("JSON"),
            serde_json::to_string(&crowded(servers, "\"auto\"", "")).expect("JSON")
        );
    }
    assert!(crowded(4, "4", "").device.depth.is_none());
}

#[test]
fn a_change_ends_or_begins_adapting() {
    let fixed =
        crowded(8, "{ min = 2, max = 8, window = \"100 ms\" }", "[[change]]\nat = \"30 s\"\ndepth = 3\n");
    let depth = fixed.device.depth.expect("it was adapted");
    assert!(depth.windows[29] > 4, "{:?}", depth.windows);
    assert!(depth.windows[30..].iter().all(|depth| *depth == 3), "{:?}", depth.windows);
    let begun = crowded(8, "1", "[[change]]\nat = \"30 s\"\ndepth = \"auto\"\n");
    let depth = begun.device.depth.expect("it was adapted");
    assert_eq!((depth.windows[29], depth.windows[30]), (0, 1));
    assert!((6..=10).contains(&depth.at_end), "{:?}", depth.windows);
}

#[test]
fn depths_that_cannot_be_are_refused_with_their_place() {
    let with = |depth: &str| refused(&SMALL.replace("depth = 2", &format!("depth = {depth}"))).join("\n");
    assert!(with("0").contains("s.toml:5:9: depth: 0 is out of range"));
    assert!(with("\"deep\"").contains("depth: \"deep\" is not known here"), "{}", with("\"deep\""));
    assert!(with("{ min = 4, max = 2 }").contains("depth.min: 4 is above the largest depth, 2"));
    assert!(with("{ min = 1, max = 2, window = \"1 ms\" }").contains("too short to measure"));
    let changed = refused(&format!("{SMALL}\n[[change]]\nat = \"1 s\"\ndepth = 0\n"));
    assert_eq!(changed.len(), 1, "{changed:?}");
    assert!(changed[0].contains("depth: 0 is out of range"), "{changed:?}");
}

#[test]
fn rates_that_no_scheduler_of_the_run_keeps_are_refused() {
    let limited = SMALL.replace("weight = 3", "limit = \"50 IOPS\"");
    assert_eq!(
        refused(&limited),
        [
            "s.toml:13:9: flow.web.limit: pclock does not use it, so it would promise something that nobody keeps; \
          remove this line, or write scheduler = \"mclock\" at the top of the file"
        ]
    );
    parsed(&limited.replace("scheduler = \"sced\"", "scheduler = \"mclock\""));
    let low = limited.replace("depth = 2", "scheduler = \"mclock\"").replace("50 IOPS", "30 IOPS");
    assert!(refused(&low)[0].contains("30 IOPS are less than the reservation of 40 IOPS"));
}

#[test]
fn a_burst_holds_the_dearest_request() {
    let dear = |cost: &str| SMALL.replace("weight = 3", &format!("cost = {cost}"));
    parsed(&dear("{ write = 5 }"));
    assert_eq!(
        refused(&dear("{ write = 6 }")),
        [
            "s.toml:12:7: flow.web.sla: a burst of 5 never holds its dearest request, which costs 6; write a burst \
          of at least 6, or lower its cost or size"
        ]
    );
    parsed(&dear("{ write = 6 }").replace("read = 0.7", "read = 1"));
    assert!(refused(&dear("{ read = { \"4 KiB\" = 1, \"64 KiB\" = 8 } }"))[0].contains("which costs 8"));
}

const GROUPED: &str = r#"
duration = "20 s"
[device]
rate = "100 IOPS"
[group.pair]
weight = 1
[flow.one]
group = "pair"
workload = { arrivals = "closed", outstanding = 8 }
[flow.two]
group = "pair"
workload = { arrivals = "closed", outstanding = 8 }
[flow.other]
workload = { arrivals = "closed", outstanding = 8 }
[[change]]
at = "10 s"
group = "pair"
weight = 3
"#;

#[test]
fn what_a_group_is_promised_changes_when_the_scenario_says_so() {
    let text = GROUPED.replace("duration", "scheduler = \"sfqd\"\nduration");
    let served = summary(&parsed(&text), 1).flows;
    let of = |flow: usize, from: usize| served[flow].windows.served[from..from + 8].iter().sum::<u64>();
    assert!(of(2, 1).abs_diff(400) <= 8, "as much as both members: {}", of(2, 1));
    assert!(of(2, 11).abs_diff(200) <= 8, "a quarter: {}", of(2, 11));
    let promise = "sla = { burst = 4, rate = \"30 IOPS\", latency = \"300 ms\" }";
    let promised = summary(&parsed(&GROUPED.replace("weight = 3", promise)), 1).flows;
    assert!(
        promised[0].promised > 0 && promised[2].promised == 0,
        "its members are judged by the new promise"
    );
    let told = |from: &str, to: &str| refused(&GROUPED.replace(from, to)).join("\n");
    assert!(
        told("group = \"pair\"\nweight = 3", "group = \"pairs\"\nweight = 3")
            .contains("did you mean \"pair\"?")
    );
    assert!(
        told("group = \"pair\"\nweight = 3", "flow = \"one\"\nweight = 3").contains("write group = \"pair\"")
    );
    assert!(told("weight = 3", "flow = \"one\"").contains("write two changes"));
    assert!(told("weight = 3", "").contains("nothing changes for \"pair\""));
}

#[test]
fn the_schema_knows_every_key_and_is_strict() {
    let schema = schema();
    let keys: Vec<&String> = schema["properties"].as_object().expect("an object").keys().collect();
    assert!(keys.len() >= 12 && schema["additionalProperties"] == false);
    let workload = &schema["$defs"]["WorkloadSection"];
    assert!(workload["properties"]["off_rate"]["description"].is_string());
    assert_eq!(workload["additionalProperties"], false);
}

proptest! {
    #[test]
    fn any_text_is_refused_or_makes_sense(
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..30, ".{0,4}"), 1..5),
    ) {
        let mut text: Vec<char> = SMALL.chars().collect();
        for (at, length, insert) in cuts {
            let start = at.index(text.len());
            let end = (start + length).min(text.len());
            text.splice(start..end, insert.chars());
        }
        let text: String = text.into_iter().collect();
        if let Err(error) = parse(&text, Path::new("s.toml")) {
            prop_assert!(!error.problems.is_empty());
            for problem in &error.problems {
                prop_assert!(!problem.message.is_empty() && !problem.remedy.is_empty());
                prop_assert!(problem.span.end <= text.len());
            }
        }
    }
}

const HYBRID: &str = r#"
duration = "400 s"
scheduler = "rbfq"
[device]
kind = "hybrid"
fast = "flashsim-2009"
slow = "ibm36z15approx"
fast_size = "16 MiB"
policy = "POLICY"
overlap = false
[flow.random]
reservation = "30 IOPS"
workload = { arrivals = "closed", outstanding = 4, requests = 2000 }
access = { pattern = "zipf", size = "4 KiB", extent = "1 GiB", read = 0.9 }
[flow.sequential]
reservation = "30 IOPS"
workload = { arrivals = "closed", outstanding = 4, requests = 2000 }
access = { pattern = "sequential", size = "4 KiB", offset = "2 GiB" }
"#;

#[test]
fn a_hybrid_device_serves_random_reads_from_flash_and_repeats_itself() {
    let run = |policy: &str| summary(&parsed(&HYBRID.replace("POLICY", policy)), 1);
    let none = run("none");
    let mean = |summary: &Summary| summary.flows[0].latency.latency_mean_us;
    assert_eq!(none.device.tiers.as_ref().map(|tiers| tiers.fast_accesses), Some(0));
    for policy in ["offline", "online", "lru", "arc"] {
        let found = run(policy);
        let tiers = found.device.tiers.as_ref().expect("a hybrid device");
        assert!(tiers.fast_accesses > 100, "{policy}: {tiers:?}");
        assert_eq!(found.flows.iter().map(|flow| flow.served).sum::<u64>(), 4_000, "{policy}");
        assert_eq!(serde_json::to_string(&found).ok(), serde_json::to_string(&run(policy)).ok());
    }
    let offline = run("offline");
    assert!(mean(&offline) < 0.7 * mean(&none), "{} against {}", mean(&offline), mean(&none));
    assert_eq!(offline.device.tiers.map(|tiers| tiers.promoted_clusters), Some(0), "all were there");
}

#[test]
fn hybrid_devices_are_refused_with_remedies() {
    let with =
        |from: &str, to: &str| refused(&HYBRID.replace("POLICY", "online").replace(from, to)).join("\n");
    assert!(with("\"16 MiB\"", "\"2 GiB\"").contains("smaller"));
    assert!(with("policy = \"online\"", "policy = \"best\"").contains("\"arc\""));
    assert!(with("overlap = false", "cluster = \"60 KiB\"").contains("powers of two"));
    assert!(with("overlap = false", "overlaps = false").contains("overlap"));
    assert!(with("overlap = false", "copies = \"outside\"").contains("\"scheduled\""));
    assert!(with("overlap = false", "slow_depth = 0").contains("65536"));
    assert!(with("overlap = false", "overlap = false\nslow_depth = 1").contains("overlap"));
    assert!(with("fast = \"flashsim-2009\"\n", "").contains("fast"));
}
