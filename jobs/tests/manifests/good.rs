//! What is read, and to what.

use jobs::{FireContext, Manifest, MisfirePolicy, Overlap, parse_manifests};
use protocol::attempt::Limits;
use protocol::{DurationMs, WallMs};

use crate::{LEAST, one, with};

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
    assert_eq!(manifest.limits, Limits::default());
    assert_eq!(manifest.user, None);
    assert_eq!(manifest.exec().collect::<Vec<_>>(), ["/bin/true"]);
}

#[test]
fn a_full_manifest_is_read_to_the_letter() {
    let manifest = one(r#"
# comments and blank lines are nothing

name: settlement/reconcile
renamed_from: settlement/match
purpose: >
  Match yesterday's ledger with the bank files
  and write the settlement table.
owner: finance-oncall
repeatable: { safe: true, how: "full recompute, replaces the day" }
schedule:
  cron: '@every 1h30m'
  timezone: "Europe/Berlin"
misfire: { within: 2h, after: 90s }
overlap: forbid
expected_duration: 1d2h
timeout: 1h30m
start_deadline: 45m
shards: 32
retry: { at_most: 0, backoff: [5s, 500ms] }
takeover_after: 15m
limits: { memory: 1536MiB, pids: 500, cpu_weight: 10000 }
run:
  user: batch
  exec:
    - /opt/jobs/reconcile
    - --date
    - "{fire_date-1d}"
    - "{shard}/{shards}"
    - ""
"#);
    assert_eq!(
        manifest.renamed_from.as_ref().unwrap().as_str(),
        "settlement/match"
    );
    assert_eq!(
        manifest.purpose,
        "Match yesterday's ledger with the bank files and write the settlement table."
    );
    assert!(manifest.safe);
    assert_eq!(
        manifest.how.as_deref(),
        Some("full recompute, replaces the day")
    );
    assert_eq!(manifest.schedule().spec().cron, "@every 1h30m");
    assert_eq!(
        manifest.misfire.policy,
        MisfirePolicy::Within(DurationMs(7_200_000))
    );
    assert_eq!(manifest.misfire.after, DurationMs(90_000));
    assert_eq!(manifest.overlap, Overlap::Forbid);
    assert_eq!(manifest.expected_duration, DurationMs(93_600_000));
    assert_eq!(manifest.timeout, DurationMs(5_400_000));
    assert_eq!(manifest.start_deadline, Some(DurationMs(2_700_000)));
    assert_eq!(manifest.shards, 32);
    assert_eq!(manifest.retry_at_most, 0);
    assert_eq!(manifest.backoff, [DurationMs(5000), DurationMs(500)]);
    assert_eq!(manifest.takeover_after, DurationMs(900_000));
    assert_eq!(
        manifest.limits,
        Limits {
            memory_bytes: Some(1536 << 20),
            pids: Some(500),
            cpu_weight: Some(10_000),
        }
    );
    assert_eq!(manifest.user.as_deref(), Some("batch"));
    assert_eq!(Manifest::from_json(&manifest.to_json()).unwrap(), manifest);
    assert_eq!(manifest.exec().count(), 5);
}

#[test]
fn the_two_forms_of_within_are_one() {
    let short = one(&with("misfire", "misfire: { within: 2h }"));
    let long = one(&with(
        "misfire",
        "misfire: { policy: within, within: 120m, after: 1m }",
    ));
    assert_eq!(short, long);
    assert_eq!(short.to_json(), long.to_json());
}

#[test]
fn several_documents_are_several_manifests() {
    let yaml = format!(
        "---\n{LEAST}---\n{}\n---\n",
        with("name", "name: demo/second")
    );
    let names: Vec<String> = parse_manifests("jobs.yaml", &yaml)
        .unwrap()
        .iter()
        .map(|manifest| manifest.name.to_string())
        .collect();
    assert_eq!(names, ["demo/least", "demo/second"]);
}

#[test]
fn placeholders_are_filled_from_the_nominal_time() {
    let manifest = one(&with(
        "run",
        r#"run: { exec: ["{job}", "{fire_time}", "{fire_date}", "{fire_date-1d}", "{fire_date+30d}", "{nominal_time}", "{shard}/{shards}", "{timezone}", "{{job}} {{{shard}}}", "plain {job}{job}"] }
shards: 4"#,
    ));
    let fire_time = WallMs::parse_rfc3339("2026-03-01T16:10:00Z").unwrap();
    let nominal = [
        "2026-03-01T23:30:00".to_owned(),
        "2026-03-01T23:45:00".to_owned(),
    ];
    let scheduled = FireContext {
        fire_time,
        nominal: &nominal,
        shard: 3,
    };
    assert_eq!(
        manifest.argv(&scheduled),
        [
            "demo/least",
            "2026-03-01T16:10:00Z",
            "2026-03-01",
            "2026-02-28",
            "2026-03-31",
            "2026-03-01T23:30:00",
            "3/4",
            "Asia/Shanghai",
            "{job} {3}",
            "plain demo/leastdemo/least"
        ]
    );
    // In Shanghai it is after midnight: without a nominal time that is the date.
    let manual = manifest.argv(&FireContext {
        nominal: &[],
        ..scheduled
    });
    assert_eq!(
        manual[2..6],
        [
            "2026-03-02",
            "2026-03-01",
            "2026-04-01",
            "2026-03-02T00:10:00"
        ]
    );
}

#[test]
fn any_fire_time_gives_a_command_line() {
    let manifest = one(&with(
        "run",
        r#"run: { exec: ["{fire_date-3660d}", "{fire_date+3660d}"] }"#,
    ));
    for ms in [i64::MIN, -1, 0, i64::MAX] {
        let fire = FireContext {
            fire_time: WallMs(ms),
            nominal: &["soon".to_owned()],
            shard: 0,
        };
        assert_eq!(manifest.argv(&fire).len(), 2);
    }
}

#[test]
fn the_example_is_a_manifest() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../examples/baseline/baseline.yaml"
    );
    let manifest = one(&std::fs::read_to_string(path).unwrap());
    assert_eq!(manifest.name.as_str(), "demo/baseline");
    assert_eq!(manifest.shards, 12);
    assert_eq!(Manifest::from_json(&manifest.to_json()).unwrap(), manifest);
}
