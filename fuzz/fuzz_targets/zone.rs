#![no_main]

use jobs::{Dialect, Schedule, ScheduleSpec};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    fuzz::within_limit(input, |text| {
        let _ = Schedule::parse(&ScheduleSpec {
            cron: "30 2 * * *".to_owned(),
            timezone: text.to_owned(),
            dialect: Dialect::Vixie,
        });
    });
});
