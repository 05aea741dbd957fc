//! Manifests as people write them, right and wrong.

#![allow(clippy::unwrap_used, clippy::print_stderr)] // a test says what it skips, and fails by panic

use jobs::{FireContext, Manifest, MisfirePolicy, Overlap, parse_manifests};
use protocol::{DurationMs, WallMs};

/// A manifest with the fewest fields, one a line.
const LEAST: &str = r#"name: demo/least
purpose: Show the least.
owner: demo
repeatable: { safe: false }
schedule: { cron: "30 23 * * *", timezone: Asia/Shanghai }
misfire: { policy: skip }
overlap: queue
expected_duration: 40m
timeout: 15m
run: { exec: ["/bin/true"] }
"#;

fn one(yaml: &str) -> Manifest {
    let mut manifests = parse_manifests("job.yaml", yaml)
        .unwrap_or_else(|problems| panic!("{}", lines(&problems).join("\n")));
    assert_eq!(manifests.len(), 1);
    manifests.remove(0)
}

fn lines(problems: &[jobs::Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

fn refused(yaml: &str) -> Vec<String> {
    lines(&parse_manifests("job.yaml", yaml).expect_err(yaml))
}

/// [`LEAST`] with the line of one field replaced (or added, where it has none).
fn with(field: &str, line: &str) -> String {
    let mut kept: Vec<&str> = LEAST
        .lines()
        .filter(|kept| !kept.starts_with(&format!("{field}:")))
        .collect();
    kept.push(line);
    kept.join("\n")
}

#[test]
fn the_least_manifest_has_the_documented_defaults() {
    let manifest = one(LEAST);
    assert_eq!(manifest.name.as_str(), "demo/least");
    assert_eq!(manifest.renamed_from, None);
    assert!(!manifest.safe);
    assert_eq!(manifest.how, None);
    assert_eq!(manifest.schedule().timezone(), "Asia/Shanghai");
    assert_eq!(manifest.misfire.policy, MisfirePolicy::Skip);
    assert_eq!(manifest.misfire.after, DurationMs(60_000));
    assert_eq!(manifest.overlap, Overlap::Queue);
    assert_eq!(manifest.expected_duration, DurationMs(2_400_000));
    assert_eq!(manifest.timeout, DurationMs(900_000));
    assert_eq!(manifest.start_deadline, None);
    assert_eq!(manifest.shards, 1);
    assert_eq!(manifest.retry_at_most, 3);
    assert_eq!(
        manifest.backoff,
        [
            DurationMs(60_000),
            DurationMs(300_000),
            DurationMs(1_800_000)
        ]
    );
    assert_eq!(manifest.takeover_after, DurationMs(60_000));
    assert_eq!(manifest.exec().collect::<Vec<_>>(), ["/bin/true"]);
}
