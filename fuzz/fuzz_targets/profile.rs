//! Device profiles: any text is read or refused with a place inside it; what was read is written and read
//! back the same, and gives a store a capacity.
#![no_main]

use std::path::Path;

use evenkeel_calibrate::parse;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match parse(text, Path::new("fuzz.toml")) {
        Ok(profile) => {
            assert!(profile.derived().is_some_and(|derived| derived.capacity.as_millis() > 0));
            assert_eq!(parse(&profile.to_string(), Path::new("fuzz.toml")).as_ref(), Ok(&profile));
        }
        Err(error) => {
            assert!(!error.problems.is_empty());
            assert!(error.problems.iter().all(|problem| problem.span.end <= text.len()));
            assert!(!error.to_string().is_empty());
        }
    }
});
