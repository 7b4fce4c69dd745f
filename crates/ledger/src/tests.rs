//! The ledger against worked examples and against a recomputation from the list of records.

use super::*;
use evenkeel_core::{Cost, Envelope, Operation, Outcome, Rate, RequestId, Span};
use proptest::prelude::*;

const FLOW: FlowId = FlowId(3);

fn slo() -> Slo {
    let envelope = Envelope::new(Cost::requests(20), Rate::per_second(200), Span::from_millis(100));
    Slo::guaranteed(envelope.expect("a valid envelope"))
}

fn request(operation: Operation, length: u32) -> Request {
    Request { id: RequestId(0), flow: FLOW, operation, offset: 0, length, cost: Cost::ONE }
}

/// A 4 KiB read that arrives at `at_ms` and takes `latency_ms`.
fn record(at_ms: u64, latency_ms: u64, promised: bool) -> Record {
    Record {
        request: request(Operation::Read, 4096),
        arrival: Time::from_millis(at_ms),
        dispatch: Time::from_millis(at_ms),
        completion: Time::from_millis(at_ms + latency_ms),
        promise: promised.then_some(Span::from_millis(100)),
        class: None,
        outcome: Outcome::Done,
    }
}

fn ledger_with(slo: &Slo, records: &[Record]) -> Ledger {
    let mut ledger = Ledger::new();
    ledger.configure(Time::ZERO, FLOW, slo);
    for record in records {
        ledger.on_arrival(record.arrival, &record.request);
        ledger.record(record);
    }
    ledger
}

fn account_of(slo: &Slo, records: &[Record]) -> Account {
    let now = Time::from_millis(10_000);
    ledger_with(slo, records).account(now, FLOW).expect("the account is open")
}

#[test]
fn a_kept_promise_says_so() {
    let account = account_of(&slo(), &[record(0, 90, true), record(5, 100, true), record(9, 400, false)]);
    assert_eq!(account.verdict, Verdict::Kept);
    assert_eq!(
        account.explanation,
        "kept: 2 of 2 requests inside ⟨20, 200 IOPS, 100 ms⟩ met it; \
         1 came outside and was served without a promise"
    );
    assert_eq!((account.promised, account.missed, account.outside), (2, 0, 1));
    assert_eq!((account.served_iops(), account.bytes_read, account.open()), (0.3, 3 * 4096, 0));
    assert_eq!(account.latency.max, Span::from_millis(400));
    assert_eq!(account.latency_promised.max, Span::from_millis(100));
}

#[test]
fn a_broken_promise_names_the_worst_miss() {
    let account = account_of(&slo(), &[record(0, 101, true), record(500, 112, true), record(900, 10, true)]);
    let worst =
        Miss { by: Span::from_millis(12), promise: Span::from_millis(100), at: Time::from_millis(612) };
    assert_eq!(account.verdict, Verdict::Broken { missed: 2, worst });
    assert_eq!(
        account.explanation,
        "broken: 2 of 3 requests inside ⟨20, 200 IOPS, 100 ms⟩ missed it, the worst by 12 ms \
         (112 ms instead of 100 ms) 612 ms after the account was opened"
    );
}

#[test]
fn the_other_verdicts() {
    let verdict = |slo: &Slo, records: &[Record]| {
        let account = account_of(slo, records);
        (account.verdict, account.explanation)
    };
    assert_eq!(
        verdict(&slo(), &[]),
        (Verdict::Idle, "idle: no request has come yet to be held to ⟨20, 200 IOPS, 100 ms⟩".to_owned())
    );
    assert_eq!(
        verdict(&slo(), &[record(0, 900, false)]),
        (
            Verdict::OutsideOnly,
            "nothing to judge: 1 request came outside ⟨20, 200 IOPS, 100 ms⟩, served without a promise"
                .to_owned()
        )
    );
    assert_eq!(
        verdict(&Slo::background(), &[record(0, 900, false)]),
        (Verdict::NoPromise, "no promise: background, 1 request served".to_owned())
    );
    let cancelled = Record { outcome: Outcome::Cancelled, ..record(0, 900, true) };
    assert_eq!(
        verdict(&slo(), &[cancelled]),
        (
            Verdict::Unanswered,
            "nothing to judge: 1 request came and none has been answered yet; 1 cancelled before dispatch"
                .to_owned()
        )
    );
}

#[test]
fn a_failure_is_judged_by_its_time_and_named() {
    let failed = Record { outcome: Outcome::Failed, ..record(0, 50, true) };
    let account = account_of(&slo(), &[failed]);
    assert_eq!((account.served, account.failed, account.promised, account.bytes_read), (0, 1, 1, 0));
    assert!(account.explanation.ends_with("met it; 1 failed at the store"), "{}", account.explanation);
}

#[test]
fn a_changed_promise_keeps_the_counts() {
    let mut ledger = ledger_with(&slo(), &[record(0, 101, true)]);
    let envelope = Envelope::new(Cost::requests(5), Rate::per_second(10), Span::from_millis(200));
    ledger.configure(Time::from_millis(1_000), FLOW, &slo());
    ledger.configure(Time::from_millis(1_000), FLOW, &Slo::guaranteed(envelope.expect("valid")));
    let account = ledger.account(Time::from_millis(2_000), FLOW).expect("open");
    assert_eq!((account.missed, account.since), (1, Time::ZERO));
    assert!(
        account
            .explanation
            .contains("inside the envelope of its time (now ⟨5, 10 IOPS, 200 ms⟩, changed 1 time) missed it"),
        "{}",
        account.explanation
    );
    ledger.configure(Time::from_millis(3_000), FLOW, &Slo::background());
    assert!(ledger.account(Time::from_millis(3_000), FLOW).expect("open").verdict.is_broken());
}

#[test]
fn a_background_flow_that_becomes_promised_is_judged_from_then_on() {
    let mut ledger = ledger_with(&Slo::background(), &[record(0, 500, false)]);
    ledger.configure(Time::from_millis(600), FLOW, &slo());
    ledger.record(&record(700, 50, true));
    let account = ledger.account(Time::from_millis(800), FLOW).expect("open");
    assert_eq!((account.verdict, account.promised, account.outside), (Verdict::Kept, 1, 1));
}

#[test]
fn unknown_flows_are_strays_and_open_no_account() {
    let mut ledger = Ledger::new();
    ledger.record(&record(0, 1, true));
    ledger.on_arrival(Time::ZERO, &request(Operation::Write, 512));
    assert_eq!(ledger.strays(), 2);
    assert_eq!(ledger.account(Time::ZERO, FLOW), None);
    ledger.configure(Time::ZERO, FlowId(u32::MAX), &slo());
    assert_eq!(ledger.accounts(Time::ZERO).count(), 1);
    assert!(ledger.close(Time::ZERO, FlowId(u32::MAX)).is_some());
    assert_eq!(ledger.accounts(Time::ZERO).count(), 0);
}

#[test]
fn windows_are_the_last_seconds_without_gaps() {
    let ledger = ledger_with(&slo(), &[record(500, 10, true), record(2_500, 700, true)]);
    let windows = ledger.account(Time::from_millis(3_999), FLOW).expect("open").windows;
    let seen: Vec<_> = windows.iter().map(|w| (w.second, w.arrivals, w.served, w.missed)).collect();
    assert_eq!(seen, [(0, 1, 1, 0), (1, 0, 0, 0), (2, 1, 0, 0), (3, 0, 1, 1)]);
    assert_eq!(windows[3].latency_max, Span::from_millis(700));

    let windows = ledger.account(Time::from_millis(65_500), FLOW).expect("open").windows;
    assert_eq!((windows.len(), windows[0].second, windows[63].second), (WINDOWS_MAX, 2, 65));
    assert_eq!(windows[0].arrivals, 1, "second 2 is the oldest that is left");
}

#[test]
fn a_late_note_about_a_second_that_is_gone_leaves_the_windows_alone() {
    let mut ledger = ledger_with(&slo(), &[record(64_500, 10, true)]);
    ledger.record(&record(500, 10, true));
    let account = ledger.account(Time::from_millis(64_600), FLOW).expect("open");
    assert_eq!((account.served, account.windows.iter().map(|w| w.served).sum::<u64>()), (2, 1));
}

#[test]
fn it_serialises_with_units_in_its_keys() {
    let account = account_of(&slo(), &[record(0, 112, true)]);
    let json = serde_json::to_value(&account).expect("an account is plain data");
    assert_eq!(json["verdict"], "broken");
    assert_eq!(json["latency_max_us"], 112_000.0);
    assert_eq!(json["promised_latency_p99_us"], 112_000.0);
    assert_eq!(json["worst_miss"]["by_us"], 12_000.0);
    assert_eq!(json["slo"]["rate_iops"], 200.0);
    assert_eq!(json["slo"]["burst_requests"], 20.0);
    assert_eq!(json["windows"][0]["moved_bytes"], 4096);
    assert_eq!(json["read_bytes"], 4096);
    let keys: Vec<_> = json.as_object().expect("a map").keys().collect();
    assert!(keys.iter().all(|k| k.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')));
}

#[test]
fn extreme_latencies_are_kept() {
    let ages = Record { completion: Time::from_nanos(u64::MAX), ..record(0, 0, true) };
    let account = account_of(&slo(), &[ages, record(0, 0, true)]);
    assert_eq!(account.latency.max.as_nanos(), u64::MAX);
    assert!(account.latency.p50 < Span::from_nanos(64));
    assert!(account.latency.p99.as_nanos() >= 3_600_000_000_000, "{:?}", account.latency);
}

fn any_record() -> impl Strategy<Value = Record> {
    let operation = prop_oneof![
        3 => Just(Operation::Read), 3 => Just(Operation::Write), 1 => Just(Operation::Flush),
        1 => Just(Operation::Trim), 1 => Just(Operation::WriteZeroes),
    ];
    let outcome = prop_oneof![
        8 => Just(Outcome::Done), 1 => Just(Outcome::Failed), 1 => Just(Outcome::Cancelled),
    ];
    let latency = prop_oneof![0_u64..5_000, 0_u64..300_000_000, 0_u64..20_000_000_000];
    (operation, outcome, 0_u64..90_000_000_000, latency, any::<Option<bool>>(), 0_u32..1_000_000).prop_map(
        |(operation, outcome, at, latency, promise, length)| Record {
            request: request(operation, length),
            arrival: Time::from_nanos(at),
            dispatch: Time::from_nanos(at + latency / 2),
            completion: Time::from_nanos(at + latency),
            promise: promise.map(|long| Span::from_millis(if long { 100 } else { 10 })),
            class: None,
            outcome,
        },
    )
}

/// The smallest latency that at least a fraction `numerator / 1000` of them do not exceed.
fn exact_percentile(sorted: &[u64], numerator: usize) -> u64 {
    let rank = (sorted.len() * numerator).div_ceil(1_000).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

fn check_latency(latency: Latency, mut exact: Vec<u64>) -> Result<(), TestCaseError> {
    exact.sort_unstable();
    prop_assert_eq!(latency.max.as_nanos(), exact.last().copied().unwrap_or(0));
    for (shown, numerator) in [(latency.p50, 500), (latency.p99, 990), (latency.p999, 999)] {
        let (shown, exact) = (shown.as_nanos(), exact_percentile(&exact, numerator));
        prop_assert!(shown >= exact, "{shown} is below the exact {exact}");
        prop_assert!(shown - exact <= 64.max(exact / 1_000), "{shown} is far from the exact {exact}");
    }
    Ok(())
}

proptest! {
    #[test]
    fn it_agrees_with_a_recomputation(records in prop::collection::vec(any_record(), 0..300)) {
        let mut ledger = Ledger::new();
        ledger.configure(Time::ZERO, FLOW, &slo());
        // The order of a run: arrivals and completions by time.
        let mut events: Vec<(Time, bool, &Record)> = Vec::new();
        for record in &records {
            events.push((record.arrival, false, record));
            events.push((record.completion, true, record));
        }
        events.sort_by_key(|(at, finished, _)| (*at, *finished));
        for (at, finished, record) in events {
            if finished { ledger.record(record) } else { ledger.on_arrival(at, &record.request) }
        }
        let now = Time::from_millis(120_000);
        let account = ledger.account(now, FLOW).expect("open");

        let count = |test: &dyn Fn(&Record) -> bool| records.iter().filter(|r| test(r)).count() as u64;
        let bytes = |operation| records.iter()
            .filter(|r| r.outcome == Outcome::Done && r.request.operation == operation)
            .map(|r| u64::from(r.request.length)).sum::<u64>();
        let answered = |r: &Record| r.outcome != Outcome::Cancelled;
        prop_assert_eq!(account.offered, records.len() as u64);
        prop_assert_eq!(account.open(), 0);
        prop_assert_eq!(account.served, count(&|r| r.outcome == Outcome::Done));
        prop_assert_eq!(account.failed, count(&|r| r.outcome == Outcome::Failed));
        prop_assert_eq!(account.cancelled, count(&|r| r.outcome == Outcome::Cancelled));
        prop_assert_eq!(account.bytes_read, bytes(Operation::Read));
        prop_assert_eq!(account.bytes_written, bytes(Operation::Write));
        prop_assert_eq!(account.promised, count(&|r| answered(r) && r.promise.is_some()));
        prop_assert_eq!(account.outside, count(&|r| answered(r) && r.promise.is_none()));
        prop_assert_eq!(account.missed, count(&|r| answered(r) && r.missed()));
        let worst = records.iter().filter(|r| answered(r) && r.missed())
            .map(|r| r.latency() - r.promise.unwrap_or_default()).max();
        prop_assert_eq!(account.worst_miss.map(|miss| miss.by), worst);
        prop_assert_eq!(account.verdict.is_broken(), worst.is_some());

        let of = |test: &dyn Fn(&Record) -> bool| records.iter().filter(|r| answered(r) && test(r))
            .map(|r| r.latency().as_nanos()).collect::<Vec<_>>();
        check_latency(account.latency, of(&|_| true))?;
        check_latency(account.latency_promised, of(&|r| r.promise.is_some()))?;

        prop_assert_eq!(account.windows.len(), WINDOWS_MAX);
        for window in &account.windows {
            let second = |at: Time| at.as_nanos() / 1_000_000_000 == window.second;
            let here = |r: &Record| answered(r) && second(r.completion);
            prop_assert_eq!(window.arrivals, count(&|r| second(r.arrival)));
            prop_assert_eq!(window.served, count(&|r| here(r) && r.outcome == Outcome::Done));
            prop_assert_eq!(window.missed, count(&|r| here(r) && r.missed()));
            let longest = records.iter().filter(|r| here(r)).map(Record::latency).max();
            prop_assert_eq!(window.latency_max, longest.unwrap_or_default());
        }
    }
}
