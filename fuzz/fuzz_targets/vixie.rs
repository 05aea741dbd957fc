#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    fuzz::within_limit(input, |text| fuzz::ask(jobs::Dialect::Vixie, text));
});
