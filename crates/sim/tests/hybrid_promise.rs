//! A promise on a simulated hybrid device, in virtual time: kept beside a storm of migrations where copies are
//! requests of a background flow, and missed where the device makes them by itself.

use std::path::Path;

use evenkeel_core::{FlowId, Record, Submission, Time};
use evenkeel_sim::run::{Options, run};
use evenkeel_sim::scenario::{Scenario, parse};
use evenkeel_sim::{Observer, Summary};

/// A disk of 200 accesses per second behind flash of 10 000. The tenant's four need 20 ms of the disk; before
/// them may be the longest request in service, a copy of 5.1 ms, and the syncs of both devices that make its
/// change of the map durable, 5.1 ms.
const SCENARIO: &str = r#"
duration = "30 s"
depth = DEPTH

[device]
kind = "hybrid"
fast = { kind = "constant-rate", rate = "10000 IOPS", capacity = "4 MiB" }
slow = { kind = "constant-rate", rate = "200 IOPS", capacity = "1 GiB" }
policy = "POLICY"
overlap = OVERLAP
copies = "COPIES"

[flow.tenant]
sla = { burst = 4, rate = "20 IOPS", latency = "LATENCY" }
workload = { arrivals = "bursts", burst = 4, every = "210 ms" }
access = { pattern = "random", size = "4 KiB", extent = "256 MiB" }

[flow.storm]
workload = { arrivals = "closed", outstanding = 32 }
access = { pattern = "zipf", size = "4 KiB", offset = "256 MiB", extent = "256 MiB" }
"#;

struct Case {
    policy: &'static str,
    overlap: bool,
    copies: &'static str,
    scheduler: &'static str,
}

/// Copies that were requests of the scheduler.
#[derive(Default)]
struct Copies {
    submitted: u64,
    done: u64,
}

const MIGRATION: FlowId = FlowId(2);

impl Observer for Copies {
    fn on_submit(&mut self, _: Time, submission: &Submission, _: u32) {
        if submission.request.flow == MIGRATION {
            assert_eq!(submission.request.cost.as_millis(), 2_000, "a read and a write");
            self.submitted += 1;
        }
    }

    fn on_reply(&mut self, record: &Record, _: u32) {
        self.done += u64::from(record.request.flow == MIGRATION);
    }
}

fn scenario(case: &Case) -> Scenario {
    // Where the devices overlap, one more request may be at the disk.
    let (depth, latency) = if case.overlap { ("2", "36 ms") } else { ("1", "31 ms") };
    let text = SCENARIO
        .replace("DEPTH", depth)
        .replace("POLICY", case.policy)
        .replace("OVERLAP", if case.overlap { "true" } else { "false" })
        .replace("COPIES", case.copies)
        .replace("LATENCY", latency);
    let scenario = parse(&text, Path::new("promise.toml")).unwrap();
    scenario.with_scheduler(case.scheduler).unwrap()
}

fn outcome(case: &Case) -> (Summary, Copies) {
    let mut copies = Copies::default();
    let options = Options { seed: 1, commit: None };
    let summary = run(&scenario(case), &options, Some(&mut copies), &mut |_| ()).unwrap();
    (summary, copies)
}

#[test]
fn scheduled_copies_break_no_promise() {
    for policy in ["lru", "arc", "online"] {
        for overlap in [false, true] {
            let case = Case { policy, overlap, copies: "scheduled", scheduler: "pclock" };
            let (summary, copies) = outcome(&case);
            let tenant = &summary.flows[0];
            assert_eq!(tenant.verdict, "kept", "{policy}, overlap {overlap}: {}", tenant.explanation);
            assert_eq!((tenant.missed, tenant.outside), (0, 0));
            assert!(tenant.promised > 500);
            let tiers = summary.device.tiers.as_ref().unwrap();
            assert!(tiers.promoted_clusters >= 64, "{policy}: {tiers:?}");
            assert!(
                copies.submitted >= tiers.promoted_clusters + tiers.demoted_clusters,
                "each is a request"
            );
            assert!(copies.done + 1 >= copies.submitted);
            assert_eq!(summary.flows.len(), 2, "it is no flow of the scenario");
        }
    }
}

#[test]
fn copies_that_nobody_schedules_do_and_so_does_fcfs() {
    let inside = Case { policy: "lru", overlap: false, copies: "inside", scheduler: "pclock" };
    let (summary, copies) = outcome(&inside);
    assert_eq!(copies.submitted, 0);
    assert!(summary.device.tiers.unwrap().promoted_clusters >= 64);
    assert_eq!(summary.flows[0].verdict, "broken", "{}", summary.flows[0].explanation);
    let fcfs = Case { copies: "scheduled", scheduler: "fcfs", ..inside };
    assert_eq!(outcome(&fcfs).0.flows[0].verdict, "broken");
}

#[test]
fn a_run_with_scheduled_copies_is_repeatable() {
    let case = Case { policy: "arc", overlap: true, copies: "scheduled", scheduler: "pclock" };
    let text = || serde_json::to_string(&outcome(&case).0).unwrap();
    assert_eq!(text(), text());
}
