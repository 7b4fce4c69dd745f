//! DiskSim's parameter files: any text, as any of the three files, is read or refused; a drive that is
//! read is one that can be written as a description and read again.
#![no_main]

use evenkeel_device::Spec;
use evenkeel_device::disk::disksim::import;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // One input holds all three files; what a drive names as a file is the part of that number.
    let parts: Vec<&str> = text.split("\n%%%%\n").collect();
    let mut asked = 0;
    let next = |_: &str| {
        asked += 1;
        Ok(parts.get(asked).copied().unwrap_or_default().to_owned())
    };
    match import(parts[0], next) {
        Ok(imported) => {
            imported.parameters.validate().expect("only valid drives are handed out");
            let written = toml::to_string(&imported.parameters).expect("a drive can be written");
            let read = Spec::parse(&written, "fuzz.toml").expect("what was written can be read");
            assert_eq!(read.capacity(), Some(imported.parameters.capacity_bytes()));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
