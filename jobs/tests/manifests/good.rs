//! What is read, and to what.

use jobs::{
    After, Begins, CatchUp, FireContext, Manifest, MisfirePolicy, Needs, Overlap, Params, Previous,
    Serial, Shards, Which, parse_manifests,
};
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
    assert_eq!(manifest.shards, Shards::Fixed(1));
    assert_eq!(
        manifest.catch_up,
        CatchUp {
            at_most: 1,
            window: DurationMs(31 * 86_400_000),
            concurrency: 1
        }
    );
    assert_eq!(manifest.serial, Serial::Relaxed);
    assert_eq!(manifest.previous, None);
    assert_eq!(manifest.after, []);
    assert_eq!(manifest.needs, Needs::default());
    assert_eq!(manifest.priority, 50);
    assert_eq!(manifest.params, Params::new());
    assert_eq!(manifest.begins, Begins::Active);
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
catch_up: { at_most: 5, window: 3d, concurrency: 2 }
overlap: queue
serial: strict
previous: succeeded
after:
  - { job: settlement/import, match: same_date }
  - { job: bank/files, match: same_fire }
  - job: bank/rates
    latest_within: 6h
expected_duration: 1d2h
timeout: 1h30m
start_deadline: 45m
shards: { of: 90m, target: 3m }
needs: { class: io, labels: [jdk17, disk=ssd], cpu: 2.250, memory: 1536MiB, uses: { ledger-db: 4, license: 1 } }
priority: 80
params: { region: east, day: "1", empty: "" }
begins: paused
retry: { at_most: 0, backoff: [5s, 500ms] }
takeover_after: 15m
limits: { memory: 1536MiB, pids: 500, cpu_weight: 10000, io_weight: 1 }
run:
  user: batch
  exec:
    - /opt/jobs/reconcile
    - --date
    - "{fire_date-1d}"
    - "{shard}/{shards}"
    - "--region={params.region}"
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
    assert_eq!(
        manifest.catch_up,
        CatchUp {
            at_most: 5,
            window: DurationMs(259_200_000),
            concurrency: 2
        }
    );
    assert_eq!(manifest.overlap, Overlap::Queue);
    assert_eq!(manifest.serial, Serial::Strict);
    assert_eq!(manifest.previous, Some(Previous::Succeeded));
    let after = |job: &str, which| After {
        job: job.parse().unwrap(),
        which,
    };
    assert_eq!(
        manifest.after,
        [
            after("settlement/import", Which::SameDate),
            after("bank/files", Which::SameFire),
            after("bank/rates", Which::LatestWithin(DurationMs(21_600_000))),
        ]
    );
    assert_eq!(manifest.expected_duration, DurationMs(93_600_000));
    assert_eq!(manifest.timeout, DurationMs(5_400_000));
    assert_eq!(manifest.start_deadline, Some(DurationMs(2_700_000)));
    assert_eq!(
        manifest.shards,
        Shards::Sized {
            of: DurationMs(5_400_000),
            target: DurationMs(180_000)
        }
    );
    let labels: Vec<&str> = manifest
        .needs
        .labels
        .iter()
        .map(protocol::Label::as_str)
        .collect();
    assert_eq!(labels, ["disk=ssd", "jdk17"]);
    let class = manifest.needs.class.as_ref();
    assert_eq!(class.map(protocol::ClassName::as_str), Some("io"));
    assert_eq!(manifest.needs.cpu_milli, Some(2250));
    assert_eq!(manifest.needs.memory_bytes, Some(1536 << 20));
    let uses = manifest.needs.uses.iter();
    let uses: Vec<(&str, u32)> = uses.map(|(name, &units)| (name.as_str(), units)).collect();
    assert_eq!(uses, [("ledger-db", 4), ("license", 1)]);
    assert_eq!(manifest.priority, 80);
    assert_eq!(
        manifest.params.iter().collect::<Vec<_>>(),
        [
            (&"day".to_owned(), &"1".to_owned()),
            (&"empty".to_owned(), &String::new()),
            (&"region".to_owned(), &"east".to_owned()),
        ]
    );
    assert_eq!(manifest.begins, Begins::Paused);
    assert_eq!(manifest.retry_at_most, 0);
    assert_eq!(manifest.backoff, [DurationMs(5000), DurationMs(500)]);
    assert_eq!(manifest.takeover_after, DurationMs(900_000));
    assert_eq!(
        manifest.limits,
        Limits {
            memory_bytes: Some(1536 << 20),
            pids: Some(500),
            cpu_weight: Some(10_000),
            io_weight: Some(1),
        }
    );
    assert_eq!(manifest.user.as_deref(), Some("batch"));
    assert_eq!(Manifest::from_json(&manifest.to_json()).unwrap(), manifest);
    assert_eq!(manifest.exec().count(), 6);
}

#[test]
fn every_policy_word_is_read() {
    for (word, overlap) in [
        ("allow", Overlap::Allow),
        ("forbid", Overlap::Forbid),
        ("queue", Overlap::Queue),
        ("replace", Overlap::Replace),
    ] {
        let manifest = one(&with("overlap", &format!("overlap: {word}")));
        assert_eq!(manifest.overlap, overlap);
        assert!(
            manifest
                .to_json()
                .contains(&format!("\"overlap\":\"{word}\""))
        );
    }
    let ended = one(&with("previous", "previous: ended"));
    assert_eq!(ended.previous, Some(Previous::Ended));
    // Empty ones are as though they were not there.
    let empty = "after: []\nneeds: { labels: [], uses: {} }\nparams: {}\ncatch_up: {}";
    let misfire = "misfire: { policy: run_now }";
    let written = one(&format!("{}\n{empty}", with("misfire", misfire)));
    assert_eq!(written.to_json(), one(&with("misfire", misfire)).to_json());
}

#[test]
fn processors_are_kept_to_the_thousandth() {
    for (written, milli, kept) in [
        ("1", 1000, "1"),
        ("0.5", 500, "0.5"),
        ("2.250", 2250, "2.25"),
        ("0.001", 1, "0.001"),
        ("0.1", 100, "0.1"),
        ("1023.999", 1_023_999, "1023.999"),
        ("1024", 1_024_000, "1024"),
    ] {
        let manifest = one(&with("needs", &format!("needs: {{ cpu: {written} }}")));
        assert_eq!(manifest.needs.cpu_milli, Some(milli), "{written}");
        let json = manifest.to_json();
        assert!(json.contains(&format!("\"cpu\":{kept}}}")), "{json}");
        assert_eq!(Manifest::from_json(&json).unwrap(), manifest, "{written}");
    }
}

#[test]
fn a_run_may_be_given_other_values() {
    let manifest = one(&with(
        "run",
        r#"run: { exec: ["/bin/x", "{params.region}", "{params.day}{params.region}"] }
params: { region: east, day: "1" }"#,
    ));
    let argv = |given: &Params| {
        manifest.argv(&FireContext {
            fire_time: WallMs(0),
            nominal: &[],
            shard: 0,
            shards: 1,
            params: given,
        })
    };
    let given = |pairs: &[(&str, &str)]| -> Params {
        let owned = pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        owned.collect()
    };
    assert_eq!(argv(&Params::new()), ["/bin/x", "east", "1east"]);
    assert_eq!(
        argv(&given(&[("region", "{job} $HOME")])),
        ["/bin/x", "{job} $HOME", "1{job} $HOME"]
    );
    assert_eq!(
        manifest.judge_params(&given(&[("day", ""), ("region", "a\nb")])),
        Ok(())
    );
    let long = "x".repeat(1001);
    for (name, value, expected) in [
        (
            "regoin",
            "x",
            "there is no parameter `regoin`; did you mean `region`? known are day, region",
        ),
        (
            "zone",
            "x",
            "there is no parameter `zone`; known are day, region",
        ),
        (
            "region",
            "a\0b",
            "the parameter `region` has a control character; leave it out: a terminal or a log may obey it, and NUL ends an argument",
        ),
        (
            "region",
            &long,
            "the parameter `region` has 1001 bytes; write at most 1000; put long input into a file and name the file",
        ),
    ] {
        let refused = manifest.judge_params(&given(&[(name, value)]));
        assert_eq!(refused.unwrap_err().to_string(), expected);
    }
    let none = one(LEAST).judge_params(&given(&[("region", "x")]));
    assert_eq!(
        none.unwrap_err().to_string(),
        "there is no parameter `region`; the job's manifest has none"
    );
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
        shards: 4,
        params: &Params::new(),
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
            shards: 1,
            params: &Params::new(),
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
    assert_eq!(manifest.shards, Shards::Fixed(12));
    assert_eq!(Manifest::from_json(&manifest.to_json()).unwrap(), manifest);
}
