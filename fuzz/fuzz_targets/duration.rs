#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    fuzz::within_limit(input, |text| {
        if let Ok(duration) = jobs::parse_duration(text) {
            assert_eq!(jobs::parse_duration(&duration.to_string()), Ok(duration));
        }
    });
});
