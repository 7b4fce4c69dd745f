//! Any bytes as a file of an audit log, and as the payload of a block, past the chain: what can be read
//! is written again and read the same.
#![no_main]

use evenkeel_audit::{Auditor, events_of_payload, payload_of_events, read_segment};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&mode, rest)) = data.split_first() else { return };
    if mode % 2 == 0 {
        let mut auditor = Auditor::new();
        let _ = read_segment(rest, |event| auditor.on_event(&event));
        let _ = auditor.finish(None).to_json();
    } else if let Ok(events) = events_of_payload(rest) {
        let again = events_of_payload(&payload_of_events(&events));
        assert_eq!(again.as_ref(), Ok(&events), "written and read again");
    }
});
