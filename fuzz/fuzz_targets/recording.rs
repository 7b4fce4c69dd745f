//! Any bytes as a recording: what can be read is written again and read the same.
#![no_main]

use evenkeel_audit::{Call, Recorder, Recording};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let calls: Vec<Call> = read(data).into_iter().filter(|call| !matches!(call, Call::End(_))).collect();
    let mut recorder = Recorder::new(Vec::new(), "fuzz", "").expect("into memory");
    let mut expected: Vec<Call> = Vec::new();
    for call in &calls {
        match (expected.last_mut(), call) {
            // Polls at one instant, one after the other, are one.
            (Some(Call::Poll(at, sum)), Call::Poll(now, count)) if at == now => {
                *sum = sum.saturating_add(*count)
            }
            _ => expected.push(call.clone()),
        }
        recorder.call(call).expect("into memory");
    }
    let end = evenkeel_audit::Answers::default().end(evenkeel_audit::EndReason::Ended);
    let bytes = recorder.end(end.clone()).expect("into memory");
    expected.push(Call::End(end));
    assert_eq!(read(&bytes), expected);
});

/// The calls, as far as they can be read.
fn read(bytes: &[u8]) -> Vec<Call> {
    let mut calls = Vec::new();
    if let Ok(mut recording) = Recording::open(bytes) {
        while let Ok(Some(call)) = recording.next_call() {
            calls.push(call);
        }
    }
    calls
}
