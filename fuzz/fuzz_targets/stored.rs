#![no_main]

use jobs::Manifest;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    fuzz::within_limit(input, |json| match Manifest::from_json(json) {
        Ok(manifest) => {
            let canonical = manifest.to_json();
            assert_eq!(Manifest::from_json(&canonical).expect("it was read"), manifest);
            fuzz::fill(&manifest);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    });
});
