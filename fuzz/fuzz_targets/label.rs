//! Labels of fast devices: any bytes are read or refused; what was read is written and read back the same.
#![no_main]

use evenkeel_hybrid::{LABEL_BYTES, Label, LabelError};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut bytes = [0; LABEL_BYTES];
    let length = data.len().min(LABEL_BYTES);
    bytes[..length].copy_from_slice(&data[..length]);
    match Label::parse(&bytes) {
        Ok(label) => {
            let written = label.to_bytes();
            assert_eq!(written[..40], bytes[..40]);
            assert!(matches!(Label::parse(&written), Ok(again) if again == label));
        }
        Err(LabelError::Missing) => assert!(bytes.iter().all(|byte| *byte == 0)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
