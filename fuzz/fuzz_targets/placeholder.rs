#![no_main]

use jobs::Manifest;
use serde_json::json;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    fuzz::within_limit(input, |argument| {
        let manifest = json!({
            "name": "demo/fuzz",
            "purpose": "Take any argument.",
            "owner": "demo",
            "repeatable": {"safe": false},
            "schedule": {"cron": "30 23 * * *", "timezone": "Europe/Berlin"},
            "misfire": {"policy": "skip"},
            "overlap": "queue",
            "expected_duration": "40m",
            "timeout": "15m",
            "shards": 12,
            "run": {"exec": ["/bin/true", argument]},
        });
        if let Ok(manifest) = Manifest::from_json(&manifest.to_string()) {
            assert_eq!(manifest.exec().last(), Some(argument));
            fuzz::fill(&manifest);
        }
    });
});
