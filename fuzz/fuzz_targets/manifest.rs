#![no_main]

use jobs::manifest::manifest_changes;
use jobs::{Manifest, parse_manifests};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    fuzz::bytes_within_limit(input, |yaml| match parse_manifests("job.yaml", yaml) {
        Ok(manifests) => {
            assert!(!manifests.is_empty());
            for manifest in manifests {
                let json = manifest.to_json();
                let back = Manifest::from_json(&json).expect("what was read reads again");
                assert_eq!(back, manifest);
                assert_eq!(back.to_json(), json);
                // JSON is YAML, whatever is in it.
                let again = parse_manifests("job.yaml", &json).expect("the same as YAML");
                assert_eq!(again, [manifest.clone()]);
                let value = serde_json::from_str(&json).expect("it is JSON");
                assert!(manifest_changes(&value, &value).is_empty());
                fuzz::fill(&manifest);
            }
        }
        Err(problems) => {
            assert!(!problems.is_empty());
            for problem in problems {
                assert!(problem.line >= 1 && problem.column >= 1, "{problem}");
                assert!(!problem.what.is_empty() && !problem.remedy.is_empty());
                // A remedy of ours may have several lines; what was read adds none.
                assert!(!problem.what.contains(['\n', '\r', '\u{1b}']), "{problem}");
                assert!(!problem.remedy.contains(['\r', '\u{1b}']), "{problem}");
            }
        }
    });
});
