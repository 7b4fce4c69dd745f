//! Scenarios know all schedulers of the catalogue with their parameters, costs, and groups.

use std::path::Path;

use evenkeel_core::Span;
use evenkeel_core::sched::fairio::Accounting;
use evenkeel_sim::run::{Options, run};
use evenkeel_sim::scenario::{Scenario, parse, scheduler_names};
use evenkeel_sim::summary::Summary;

const BASE: &str = r#"
duration = "4 s"
depth = 4
fairio = { cycle = "200 ms", disks = 4, window = 5, load_threshold = 3 }
cello = { real_time = 3, interactive = 2, throughput = 1, quantum = 2 }
cost = { write = 2 }

[device]
rate = "200 IOPS"
servers = 4

[group.pair]
sla = { burst = 4, rate = "60 IOPS", latency = "100 ms" }

[flow.one]
group = "pair"
weight = 3
workload = { arrivals = "closed", outstanding = 8 }

[flow.two]
group = "pair"
limit = "500 IOPS"
workload = { arrivals = "closed", outstanding = 8 }

[flow.writer]
sla = { burst = 4, rate = "60 IOPS", latency = "100 ms" }
workload = { arrivals = "closed", outstanding = 8 }
access = { read = 0 }

[flow.desk]
interactive = true
cost = { write = 3 }
workload = { arrivals = "constant", rate = "5 IOPS" }
"#;

fn parsed(text: &str) -> Scenario {
    parse(text, Path::new("catalogue.toml")).expect("a good scenario")
}

#[track_caller]
fn refused(line: &str, instead: &str) -> String {
    let text = BASE.replace(line, instead);
    assert_ne!(text, BASE, "the line is there");
    parse(&text, Path::new("s.toml")).expect_err("this scenario must be refused").to_string()
}

fn summary(scenario: &Scenario) -> Summary {
    run(scenario, &Options { seed: 1, commit: None }, None, &mut |_| {}).expect("it runs")
}

fn served(summary: &Summary, name: &str) -> f64 {
    summary.flows.iter().find(|flow| flow.name == name).expect("the flow").served as f64
}

#[test]
fn every_scheduler_runs_with_groups_and_costs() {
    let scenario = parsed(BASE);
    assert_eq!(scheduler_names().len(), 13);
    for name in scheduler_names() {
        let summary = summary(&scenario.with_scheduler(name).expect("it is in the list"));
        assert_eq!(summary.scheduler, name);
        let total: f64 = ["one", "two", "writer", "desk"].iter().map(|flow| served(&summary, flow)).sum();
        assert!((780.0..=804.0).contains(&total), "{name} keeps the device busy: {total} of 800");
    }
}

#[test]
fn members_share_what_their_group_gets_by_weight() {
    let summary = summary(&parsed(BASE).with_scheduler("sfqd").expect("known"));
    let (one, two, writer) = (served(&summary, "one"), served(&summary, "two"), served(&summary, "writer"));
    assert!((2.7..3.3).contains(&(one / two)), "weights 3 and 1: {one} and {two}");
    assert!((1.8..2.2).contains(&((one + two) / writer)), "a write costs 2: {} and {writer}", one + two);
}

#[test]
fn the_limit_of_a_member_holds_under_every_scheduler() {
    let text = BASE.replace("limit = \"500 IOPS\"", "limit = \"7 IOPS\"");
    for name in scheduler_names() {
        let two = served(&summary(&parsed(&text).with_scheduler(name).expect("known")), "two");
        assert!(two <= 7.0 * 4.0 + 1.0, "{name}: {two}");
    }
}

#[test]
fn parameters_are_read_as_in_the_gateway() {
    let tuning = parsed(BASE).tuning;
    assert_eq!((tuning.fairio.cycle, tuning.fairio.window_cycles), (Span::from_millis(200), 5));
    assert_eq!(tuning.fairio.accounting, Accounting::Reported, "the simulator knows what requests took");
    let queued = BASE.replace("fairio = { ", "fairio = { accounting = \"queued\", ");
    assert_eq!(parsed(&queued).tuning.fairio.accounting, Accounting::Queued, "as a gateway would estimate");
    assert_eq!(tuning.cello.real_time.as_u32(), 3);
    let costs = &parsed(BASE).flows[3].cost;
    assert_eq!(costs.cost(evenkeel_core::Operation::Write, 4096).as_millis(), 3_000);
}

#[test]
fn mistakes_are_told_with_their_place() {
    for (line, instead, told) in [
        ("window = 5", "windows = 5", "fairio.windows"),
        ("load_threshold = 3", "load_threshold = 4", "fairio.load_threshold"),
        ("real_time = 3", "real_time = 0", "cello.real_time"),
        ("cost = { write = 2 }", "cost = { write = 0 }", "cost.write"),
        ("cost = { write = 3 }", "cost = { writes = 3 }", "flow.desk.cost.writes"),
        ("limit = \"500 IOPS\"", "sla = { burst = 1, rate = \"1 IOPS\", latency = \"1 s\" }", "flow.two.sla"),
        ("group = \"pair\"\nlimit", "group = \"pairs\"\nlimit", "did you mean \"pair\"?"),
        ("[group.pair]", "[group.none]\n[group.pair]", "no flow belongs to this group"),
        ("weight = 3", "weight = 0", "flow.one.weight"),
        ("[flow.writer]", "[flow.writer]\ninteractive = true", "flow.writer.interactive"),
    ] {
        let text = refused(line, instead);
        assert!(text.contains(told), "{instead}: {text}");
    }
    let change = format!("{BASE}\n[[change]]\nat = \"1 s\"\nflow = \"one\"\nweight = 2\n");
    let error = parse(&change, Path::new("s.toml")).expect_err("a member has no terms of its own");
    assert!(error.to_string().contains("member of a group"), "{error}");
}
