//! Manifests as people write them, right and wrong.

#![allow(clippy::unwrap_used)] // a test fails by panic

use jobs::{FireContext, Manifest, MisfirePolicy, Overlap, parse_manifests};
use proptest::prelude::*;
use protocol::attempt::Limits;
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
fn one_field_wrong() {
    const EXEC: &str = "write `run: { exec: [\"/opt/jobs/report\", \"--date\", \"{fire_date}\"] }`: the program and its arguments, never through a shell";
    const KNOWN: &str = "known are {job}, {fire_time}, {fire_date}, {fire_date-1d}, {fire_date+1d}, {nominal_time}, {shard}, {shards}, {timezone}; write `{{` and `}}` for braces";
    for (line, expected) in [
        (
            "name: reconcile",
            "10:7: name: `reconcile` has no namespace; write it as `namespace/name`, for example `finance/reconcile`",
        ),
        (
            "name: a/b/c",
            "10:7: name: `a/b/c` has more than one `/`; write it as `namespace/name`",
        ),
        (
            "name: A/b",
            "10:7: name: `A` is not a valid part of a name; use 1 to 63 of a-z, 0-9, `-`, `_`, `.`, beginning and ending with a letter or digit",
        ),
        (
            "name: demo/a\nname: demo/b",
            "11:1: name: is written twice, first in line 10; leave one of the two out",
        ),
        (
            "renamed_from: demo/least",
            "11:15: renamed_from: is the job's own name; write the name it had before, or leave the field out",
        ),
        (
            "purpose: ' '",
            "10:10: purpose: is empty; write something that helps its reader",
        ),
        (
            "purpose: \"a\\e[31m\"",
            "10:10: purpose: `a\\u{1b}[31m` has a control character; leave it out",
        ),
        (
            "owner:",
            "10:6: owner: has no value; write one, or `\"\"` for an empty text",
        ),
        (
            "owner: yes",
            "10:8: owner: `yes` is not text to every reader of YAML; put it in quotes, \"yes\"",
        ),
        (
            "owner: 1:30",
            "10:8: owner: `1:30` is not text to every reader of YAML; put it in quotes, \"1:30\"",
        ),
        (
            "owner: [a]",
            "10:8: owner: is a list, not a text; write a single value, in quotes where it has braces or brackets",
        ),
        (
            "repeatable: { safe: yes }",
            "10:21: repeatable.safe: `yes` is neither true nor false; write `true` or `false`, without quotes",
        ),
        (
            "repeatable: { safe: \"true\" }",
            "10:21: repeatable.safe: \"true\" is text, neither true nor false; write `true` or `false`, without quotes",
        ),
        (
            "repeatable: { safe: true }",
            "10:13: repeatable.how: is missing; write why a second run does no harm, for example `how: \"full recompute, replaces the day\"`",
        ),
        (
            "repeatable: true",
            "10:13: repeatable: is a single value, not a mapping of fields; write the fields safe, how",
        ),
        (
            "schedule: { cron: \"30 25 * * *\", timezone: Etc/UTC }",
            "10:19: schedule.cron: hour `25` is outside 0-23; write a number from 0 to 23",
        ),
        (
            "schedule: { cron: \"@daily\", timezone: Asia/Shanghia }",
            "10:39: schedule.timezone: `Asia/Shanghia` is not a known time zone; did you mean `Asia/Shanghai`?",
        ),
        (
            "schedule: { cron: \"@daily\" }",
            "10:11: schedule.timezone: is missing; write for example `timezone: Asia/Shanghai`: the same hour is another instant in another zone, and machines' own zones differ",
        ),
        (
            "misfire: { policy: runnow }",
            "10:20: misfire.policy: `runnow` is not known; did you mean `run_now`?",
        ),
        (
            "misfire: { policy: within }",
            "10:10: misfire.within: is missing; write how late is not too late, for example `within: 2h`",
        ),
        (
            "misfire: { within: 30s }",
            "10:20: misfire.within: is shorter than `after`, 1m, below which every fire runs; write a longer `within` or a shorter `after`",
        ),
        (
            "misfire: { policy: skip, within: 2h }",
            "10:34: misfire.within: does not go with `policy: skip`; leave it out, or write `policy: within`",
        ),
        (
            "overlap: allow",
            "10:10: overlap: `allow` is not supported yet; write `forbid` or `queue`",
        ),
        (
            "overlap: replace",
            "10:10: overlap: `replace` is not supported yet; write `forbid` or `queue`",
        ),
        (
            "overlap: none",
            "10:10: overlap: `none` is not known; write one of forbid, queue, allow, replace",
        ),
        (
            "timeout: 90",
            "10:10: timeout: `90` has no unit; write for example 90s",
        ),
        (
            "timeout: 99d",
            "10:10: timeout: 99d is outside 1s to 31d; write a duration from 1s to 31d",
        ),
        (
            "timeout: [5m]",
            "10:10: timeout: is a list, not a duration; write a duration from 1s to 31d",
        ),
        (
            "start_deadline: soon",
            "11:17: start_deadline: `soon` is not a duration; write for example 90s, 1h30m, 2d or 500ms",
        ),
        (
            "shards: 012",
            "11:9: shards: `012` begins with 0, octal to some readers; leave the 0 out",
        ),
        (
            "shards: 0",
            "11:9: shards: 0 is outside 1 to 1024; write a whole number from 1 to 1024",
        ),
        (
            "shards: 1025",
            "11:9: shards: 1025 is outside 1 to 1024; write a whole number from 1 to 1024",
        ),
        (
            "shards: 0x10",
            "11:9: shards: `0x10` is not a whole number; write a whole number from 1 to 1024",
        ),
        (
            "shards: \"12\"",
            "11:9: shards: \"12\" is text, not a number; leave the quotes out",
        ),
        (
            "retry: { at_most: 6 }",
            "11:19: retry.at_most: 6 is outside 0 to 5; write a whole number from 0 to 5",
        ),
        (
            "retry: { backoff: [] }",
            "11:19: retry.backoff: is not a list of 1 to 16 durations; write for example `backoff: [1m, 5m, 30m]`; the last is repeated",
        ),
        (
            "retry: { backoff: [1m, 3d] }",
            "11:24: retry.backoff[1]: 3d is outside 100ms to 1d; write a duration from 100ms to 1d",
        ),
        (
            "takeover_after: 5s",
            "11:17: takeover_after: 5s is outside 15s to 15m; write a duration from 15s to 15m",
        ),
        (
            "priority: 50",
            "11:1: priority: is not a field that anything acts on; leave it out; known here are name, renamed_from, purpose, owner, repeatable, schedule, misfire, overlap, expected_duration, timeout, start_deadline, shards, retry, takeover_after, limits, run",
        ),
        (
            "takeover-after: 15s",
            "11:1: takeover-after: is not a field that anything acts on; did you mean `takeover_after`?",
        ),
        (
            "run: { exec: [\"a\"], uid: 7 }",
            "10:21: run.uid: is not a field that anything acts on; leave it out; known here are exec, user",
        ),
        (
            "run: { exec: [\"a\"], user: 1000 }",
            "10:27: run.user: `1000` is not text to every reader of YAML; put it in quotes, \"1000\"",
        ),
        (
            "run: { exec: [\"a\"], user: \"1000\" }",
            "10:27: run.user: `1000` is not the name of a user; write the name, not the number, of a user of the hosts: a-z, 0-9, `_` and `-`, beginning with a letter or `_`",
        ),
        (
            "limits: { memory: 2GB }",
            "11:19: limits.memory: `2GB` has the unit `GB`, which programs read differently; write 2GiB; units are KiB, MiB, GiB and TiB, 1024 of each in the next",
        ),
        (
            "limits: { memory: 1MiB }",
            "11:19: limits.memory: 1MiB is outside 4MiB to 16TiB; write a size from 4MiB to 16TiB",
        ),
        (
            "limits: { pids: 0 }",
            "11:17: limits.pids: 0 is outside 1 to 1000000; write a whole number from 1 to 1000000",
        ),
        (
            "limits: { cpu_weight: 10001 }",
            "11:23: limits.cpu_weight: 10001 is outside 1 to 10000; write a whole number from 1 to 10000",
        ),
        (
            "run: { exec: [] }",
            &format!("10:14: run.exec: is not a list of texts with the program first; {EXEC}"),
        ),
        (
            "run: { exec: /bin/true }",
            &format!("10:14: run.exec: is not a list of texts with the program first; {EXEC}"),
        ),
        (
            "run: { exec: [\"\"] }",
            "10:15: run.exec[0]: the program is empty; write its path",
        ),
        (
            "run: { exec: [sleep, 30] }",
            "10:22: run.exec[1]: `30` is not text to every reader of YAML; put it in quotes, \"30\"",
        ),
        (
            "run: { exec: [a, \"\\0\"] }",
            "10:18: run.exec[1]: `\\u{0}` has a control character; leave it out: a terminal or a log may obey it, and NUL ends an argument",
        ),
        (
            "run: { exec: [a, {job}] }",
            "10:18: run.exec[1]: is a mapping, not a text; write a single value, in quotes where it has braces or brackets",
        ),
        (
            "run: { exec: [\"{date}\"] }",
            &format!(
                "10:15: run.exec[0]: `{{date}}` has the unknown placeholder `{{date}}`; {KNOWN}"
            ),
        ),
        (
            "run: { exec: [\"x{\"] }",
            "10:15: run.exec[0]: `x{` has a `{` without its `}`; write `{{` for a brace",
        ),
        (
            "run: { exec: [\"x}\"] }",
            "10:15: run.exec[0]: `x}` has a `}` without its `{`; write `}}` for a brace",
        ),
        (
            "run: { exec: [\"{fire_date-1w}\"] }",
            "10:15: run.exec[0]: `{fire_date-1w}` has the unknown placeholder `{fire_date-1w}`; write whole days, at most 3660, for example {fire_date-1d}",
        ),
        (
            "run: { exec: [\"{fire_date-3661d}\"] }",
            "10:15: run.exec[0]: `{fire_date-3661d}` has the unknown placeholder `{fire_date-3661d}`; write whole days, at most 3660, for example {fire_date-1d}",
        ),
        (
            "run: { exec: [a, &b c] }",
            "10:18: an anchor (`&name`) is not read; write values out; a value that begins with `&` goes in quotes",
        ),
        (
            "owner: !!str 012",
            "10:8: a tag (`!name`) is not read; leave it out; a value that begins with `!` goes in quotes",
        ),
        (
            "run: { exec: [a, !!str b] }",
            "10:18: a tag (`!name`) is not read; leave it out; a value that begins with `!` goes in quotes",
        ),
    ] {
        let field = line.split(':').next().unwrap();
        assert_eq!(
            refused(&with(field, line)),
            [format!("job.yaml:{expected}")],
            "{line}"
        );
    }
}

#[test]
fn what_is_demanded_says_why() {
    let problems = refused("shards: 2");
    let demanded: Vec<&str> = problems
        .iter()
        .map(|line| {
            let (field, remedy) = line
                .strip_prefix("job.yaml:1:1: ")
                .and_then(|rest| rest.split_once(": is missing; write "))
                .unwrap_or_else(|| panic!("{line}"));
            assert!(remedy.len() > 30, "{line}");
            field
        })
        .collect();
    assert_eq!(
        demanded,
        [
            "name",
            "purpose",
            "owner",
            "repeatable",
            "schedule",
            "misfire",
            "overlap",
            "expected_duration",
            "timeout",
            "run"
        ]
    );
}

#[test]
fn all_problems_of_all_documents_come_at_once_in_the_order_of_the_file() {
    let yaml = [
        with("timeout", "timeout: 90"),
        with(
            "overlap",
            "overlap: allow\nschedule: { cron: \"* * * *\", timezone: CST }",
        ),
        LEAST.to_owned(),
        LEAST.to_owned(),
    ]
    .join("\n---\n");
    let places: Vec<String> = parse_manifests("job.yaml", &yaml)
        .unwrap_err()
        .iter()
        .map(|problem| format!("{}:{} {}", problem.line, problem.column, problem.field))
        .collect();
    assert_eq!(
        places,
        [
            "10:10 timeout",
            "21:10 overlap",
            "22:1 schedule",
            "36:1 name"
        ]
    );
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
fn what_is_not_a_manifest_at_all() {
    let nothing = "job.yaml:1:1: there is no manifest in this file; write one, beginning with `name: namespace/name`";
    let quotes = "put the value in quotes, for example `cron: \"* * * * *\"`";
    for (yaml, expected) in [
        ("", nothing.to_owned()),
        ("# nothing\n---\n---\n", nothing.to_owned()),
        ("\u{feff}", nothing.to_owned()),
        (
            "cron: * * * * *",
            format!("job.yaml:1:7: this is not YAML: while scanning an anchor or alias, did not find expected alphabetic or numeric character; {quotes}"),
        ),
        (
            "a: { cron: */5 * * * * }",
            format!("job.yaml:1:12: this is not YAML: while parsing node, found unknown anchor; {quotes}"),
        ),
        (
            "cron: @daily",
            format!("job.yaml:1:7: this is not YAML: unexpected character: `@'; {quotes}"),
        ),
        (
            "schedule:\n\tcron: a",
            "job.yaml:2:2: this is not YAML: tabs disallowed within this context (block indentation); indent with spaces: YAML does not allow tabs there".to_owned(),
        ),
        (
            "exec: [a",
            "job.yaml:2:1: this is not YAML: while parsing a flow sequence, expected ',' or ']'; look at the indentation, quotes and brackets here and in the line before".to_owned(),
        ),
    ] {
        assert_eq!(refused(yaml).first(), Some(&expected), "{yaml:?}");
    }
}

#[test]
fn a_byte_order_mark_and_other_line_ends_are_nothing() {
    let other = format!("\u{feff}{}", LEAST.replace('\n', "\r\n"));
    assert_eq!(one(&other), one(LEAST));
}

#[test]
fn input_without_end_is_refused_and_not_followed() {
    let deep = format!("a: {}", "[".repeat(100));
    assert!(
        refused(&deep)[0].contains("deeper than 8 levels"),
        "{}",
        refused(&deep)[0]
    );
    // The parser itself stops at 255 brackets, looking for the end of what may be a key.
    let deepest = "[".repeat(500_000);
    assert!(
        refused(&deepest)[0].contains("this is not YAML"),
        "{}",
        refused(&deepest)[0]
    );
    let blocks: Vec<String> = (0..500)
        .map(|depth| format!("{}a:\n", " ".repeat(depth)))
        .collect();
    let blocks = blocks.concat();
    assert!(refused(&blocks)[0].contains("deeper than 8 levels"));
    let long = format!("purpose: {}", "x".repeat(1 << 20));
    assert!(refused(&long)[0].contains("more than a manifest can need"));
    let laughs = "a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]\n";
    assert!(
        refused(laughs)
            .iter()
            .any(|line| line.contains("an alias (`*name`) is not read"))
    );
    let many: Vec<String> = (0..5000).map(|i| format!("f{i}: 1\n")).collect();
    let problems = refused(&many.concat());
    assert_eq!(problems.len(), 101);
    assert!(
        problems[100].ends_with("4910 more problems are not listed; correct these first"),
        "{}",
        problems[100]
    );
}

#[test]
fn a_command_line_too_long_to_send_is_refused() {
    let long = |bytes| {
        with(
            "run",
            &format!(
                "run: {{ exec: [\"/bin/true\", \"{}\"] }}",
                "x".repeat(bytes)
            ),
        )
    };
    one(&long(16_000));
    assert!(refused(&long(17_000))[0].contains("more than 16384"));
    let filled = with(
        "run",
        &format!("run: {{ exec: [\"{}\"] }}", "{job}".repeat(200)),
    );
    assert!(refused(&filled)[0].contains("with its placeholders filled"));
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
fn canonical_json_comes_back_and_is_judged_again() {
    let manifest = one(LEAST);
    let json = manifest.to_json();
    assert_eq!(
        json,
        r#"{"name":"demo/least","purpose":"Show the least.","owner":"demo","repeatable":{"safe":false},"schedule":{"cron":"30 23 * * *","timezone":"Asia/Shanghai"},"misfire":{"policy":"skip","after":"1m"},"overlap":"queue","expected_duration":"40m","timeout":"15m","shards":1,"retry":{"at_most":3,"backoff":["1m","5m","30m"]},"takeover_after":"1m","run":{"exec":["/bin/true"]}}"#
    );
    assert_eq!(Manifest::from_json(&json).unwrap(), manifest);
    assert_eq!(serde_json::from_str::<Manifest>(&json).unwrap(), manifest);
    // JSON is YAML.
    assert_eq!(one(&json), manifest);
    for (from, to, expected) in [
        (
            "\"15m\"",
            "\"0s\"",
            "judging a stored manifest: timeout: 0s is outside 1s to 31d; write a duration from 1s to 31d",
        ),
        (
            "\"shards\":1",
            "\"shards\":null",
            "judging a stored manifest: shards: `null` is not a whole number; write a whole number from 1 to 1024",
        ),
        (
            "\"queue\"",
            "\"queue\",\"x\":1",
            "judging a stored manifest: x: is not a field that anything acts on; leave it out; known here are name, renamed_from, purpose, owner, repeatable, schedule, misfire, overlap, expected_duration, timeout, start_deadline, shards, retry, takeover_after, limits, run",
        ),
        ("}}", "}", "reading a manifest's JSON"),
    ] {
        let stored = json.replacen(from, to, 1);
        assert_eq!(
            Manifest::from_json(&stored).unwrap_err().to_string(),
            expected
        );
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

/// Pieces of manifests, to be strung together in any order.
const PIECES: [&str; 40] = [
    "\n",
    "\n",
    "\n  ",
    "\n- ",
    " ",
    "\t",
    ": ",
    ", ",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "'",
    "|",
    ">",
    "- ",
    "---\n",
    "...\n",
    "# ",
    "&a ",
    "*a",
    "!!str ",
    "? ",
    "%YAML 1.2\n",
    "\\x",
    "\u{feff}",
    "\r",
    "\u{85}",
    "é",
    "name: demo/x",
    "schedule: ",
    "cron: ",
    "retry:",
    "exec: ",
    "~",
    "012",
    "1e9",
    "yes",
    "{fire_date-1d}",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_is_answered(text in ".{0,200}") {
        if let Err(problems) = parse_manifests("job.yaml", &text) {
            prop_assert!(!problems.is_empty());
        }
        let _ = Manifest::from_json(&text);
    }

    #[test]
    fn any_pieces_are_answered(pieces in proptest::collection::vec(0..PIECES.len(), 0..60)) {
        let text: String = pieces.iter().map(|&i| PIECES[i]).collect();
        if let Err(problems) = parse_manifests("job.yaml", &text) {
            prop_assert!(!problems.is_empty());
            for problem in problems {
                prop_assert!(problem.line >= 1 && problem.column >= 1 && !problem.what.is_empty() && !problem.remedy.is_empty());
            }
        }
    }

    /// One character of a good manifest replaced, taken out or put in.
    #[test]
    fn a_slip_of_the_finger_is_answered(at in 0..LEAST.len(), take in 0..3usize, put in "[-:{}\\[\\]\"'&*!|>%@#,? \t\na0]{0,2}") {
        let end = (at + take).min(LEAST.len());
        let text = format!("{}{put}{}", &LEAST[..at], &LEAST[end..]);
        if let Ok(manifests) = parse_manifests("job.yaml", &text) {
            for manifest in manifests {
                let back = Manifest::from_json(&manifest.to_json());
                prop_assert_eq!(back.unwrap(), manifest);
            }
        }
    }
}
