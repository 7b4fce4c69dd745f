//! The gateway's configuration, and the placement of a hybrid store: any text is read or refused with a place inside
//! it; of what is read, every scheduler, device and policy can be made.
#![no_main]

use std::path::Path;

use evenkeel_gateway::config::{ConfigError, Placement, parse};
use evenkeel_gateway::engine_of;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Placement::parse(text, Path::new("fuzz.toml")) {
        Ok(placement) => {
            assert_eq!(Placement::parse(&placement.to_toml(), Path::new("fuzz.toml")).as_ref(), Ok(&placement));
        }
        Err(error) => check(&error, text),
    }
    // Other files that a configuration names are read; here there are none.
    if ["profile", "placement", "device"].iter().any(|key| text.contains(key)) {
        return;
    }
    match parse(text, Path::new("fuzz.toml")) {
        Ok(config) => {
            for store in &config.stores {
                let _ = engine_of(store);
                if let Some(hybrid) = &store.hybrid {
                    let _ = hybrid.policy.build();
                }
            }
        }
        Err(error) => check(&error, text),
    }
});

fn check(error: &ConfigError, text: &str) {
    assert!(!error.problems.is_empty());
    assert!(error.problems.iter().all(|problem| problem.span.end <= text.len()));
    assert!(!error.to_string().is_empty());
}
