//! The audit of a recorded run says exactly what the live ledger said.

mod common;

use common::{Load, run, slos, small_files};
use evenkeel_audit::{Auditor, Event, Expected, Log, Terms, explain, verify};
use evenkeel_core::{FlowId, Outcome, Record, RequestId, Time};
use proptest::prelude::*;

fn loads() -> impl Strategy<Value = Load> {
    prop::collection::vec((0_u64..12, 0_u32..3, any::<u8>()), 1..400).prop_map(|gaps| {
        let mut now = 0;
        gaps.into_iter()
            .map(|(gap, flow, kind)| {
                now += gap / 3;
                (now, flow, kind)
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn audit_and_ledger_agree(load in loads(), service in 1_u64..20, change in 0_u64..1_500, drain: bool) {
        let folder = tempfile::tempdir().expect("a folder");
        let live = run(folder.path(), &load, service, change, small_files(), drain);
        let mut auditor = Auditor::new();
        let mut records = Vec::new();
        for event in Log::open(folder.path()).expect("opens") {
            let event = event.expect("whole");
            if let Event::Record(record) = &event {
                records.push(*record);
            }
            auditor.on_event(&event);
        }
        let kept = |record: &Record| {
            let mut record = *record;
            record.request.id = RequestId(0);
            record.request.offset = 0;
            record
        };
        prop_assert_eq!(&records, &live.records.iter().map(kept).collect::<Vec<_>>());
        let audit = auditor.finish(Some(live.end));
        for account in &live.accounts {
            let mut audited = audit.flows[&account.flow].account.clone();
            if !drain {
                // When those arrived that are still open is not in the log.
                audited.windows.clone_from(&account.windows);
            }
            prop_assert_eq!(&audited, account);
        }
        for flow in audit.flows.values() {
            let answered = |counts: &evenkeel_audit::ClassCounts| counts.met + counts.missed;
            prop_assert_eq!(flow.classes.iter().map(answered).sum::<u64>(), flow.account.promised);
            prop_assert_eq!(flow.missed(), flow.account.missed);
            prop_assert_eq!(flow.misses_by_cause.values().sum::<u64>(), flow.account.missed);
        }
        let whole = verify(folder.path(), &Expected::default()).expect("readable");
        prop_assert_eq!(whole.finding, None);
        prop_assert_eq!(whole.records, live.records.len() as u64);
    }
}

#[test]
fn a_crowded_volume_is_told_so() {
    let folder = tempfile::tempdir().expect("a folder");
    // Volume 2 is a bully without a promise, and the store is four times slower than stated.
    let mut load: Load = (0..300).map(|n| (n * 5, 2, 0)).collect();
    load.extend((0..40).map(|n| (n * 30, 0, 1)));
    load.sort();
    let live = run(folder.path(), &load, 40, u64::MAX, small_files(), true);
    assert!(live.records.iter().any(|record| record.missed() && record.outcome == Outcome::Done));
    let mut auditor = Auditor::new();
    Log::open(folder.path()).expect("opens").for_each(|event| auditor.on_event(&event.expect("whole")));
    let audit = auditor.finish(None);
    let told = explain(&audit, "volume-0", None).expect("known");
    assert_eq!(told.answer, "slow", "{told:?}");
    let text = told.sentences.join(" ");
    assert!(text.contains("volume-2"), "{text}");
    assert!(text.contains("slower than its stated capacity"), "{text}");
    assert_eq!(explain(&audit, "nobody", None), None);
    let idle = Auditor::within(Time::from_millis(1 << 30), Time::from_millis(1 << 31));
    let mut idle = idle;
    Log::open(folder.path()).expect("opens").for_each(|event| idle.on_event(&event.expect("whole")));
    assert_eq!(explain(&idle.finish(None), "volume-0", None).expect("known").answer, "idle");
}

#[test]
fn a_removed_volume_keeps_its_account_when_its_number_is_given_away() {
    let folder = tempfile::tempdir().expect("a folder");
    let load: Load = (0..20).map(|n| (n * 20, 0, 0)).collect();
    let live = run(folder.path(), &load, 5, u64::MAX, small_files(), true);
    let mut auditor = Auditor::new();
    Log::open(folder.path()).expect("opens").for_each(|event| auditor.on_event(&event.expect("whole")));
    auditor.on_event(&Event::Remove { at: live.end, flow: FlowId(0) });
    let terms = Terms {
        flow: FlowId(0),
        at: live.end,
        name: "other".into(),
        slo: slos().swap_remove(2),
        member: None,
    };
    auditor.on_event(&Event::Configure(terms));
    let audit = auditor.finish(Some(live.end));
    assert_eq!(audit.removed[0].name, "volume-0");
    assert_eq!(audit.removed[0].account, live.accounts[0]);
    assert_eq!(audit.flows[&FlowId(0)].account.offered, 0);
    assert_eq!(audit.name_of(FlowId(0)), "other");
}
