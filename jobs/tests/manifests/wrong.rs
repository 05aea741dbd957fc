//! What is refused field by field, in which words.

use jobs::parse_manifests;

use crate::{LEAST, one, refused, with};

#[test]
fn one_field_wrong() {
    const EXEC: &str = "write `run: { exec: [\"/opt/jobs/report\", \"--date\", \"{fire_date}\"] }`";
    const KNOWN: &str = "known are `{job}`, `{fire_time}`, `{fire_date}`, `{fire_date-1d}`, `{fire_date+1d}`, `{nominal_time}`, `{shard}`, `{shards}`, `{timezone}`; for a brace itself write it twice, `{{`";
    for (line, expected) in [
        (
            "name: reconcile",
            "10:7: name: `reconcile` has no namespace; write it as `namespace/name`, for example `finance/reconcile`",
        ),
        (
            "name: a/b/c",
            "10:7: name: `a/b/c` has more than one `/`; write it as `namespace/name`, for example `a/b-c`",
        ),
        (
            "name: A/b",
            "10:7: name: `A` is not a valid part of a name; write for example `a/b`: each part has 1 to 63 of a-z, 0-9, `-`, `_`, `.`, beginning and ending with a letter or digit",
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
            "10:6: owner: has no value; write `owner: <team or person>`: somebody must answer when a run needs a person",
        ),
        (
            "owner: #finance",
            "10:6: owner: has no value, for what follows ` #` is a comment, unless it is in quotes; write `owner: <team or person>`: somebody must answer when a run needs a person",
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
            "10:13: repeatable: is a single value, not a mapping of fields; write `repeatable: { safe: true, how: \"full recompute, replaces the day\" }` or `repeatable: { safe: false }`",
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
            "10:10: overlap: `allow` is not acted on by this version of Matins; write `forbid` (a fire during a run is skipped), `queue` (a fire during a run waits for its end)",
        ),
        (
            "overlap: replace",
            "10:10: overlap: `replace` is not acted on by this version of Matins; write `forbid` (a fire during a run is skipped), `queue` (a fire during a run waits for its end)",
        ),
        (
            "overlap: none",
            "10:10: overlap: `none` is not known; write `forbid` (a fire during a run is skipped), `queue` (a fire during a run waits for its end)",
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
            "11:9: shards: `012` begins with 0, octal to some readers; leave the 0 out: 12",
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
            "colour: red",
            "11:1: colour: there is no such field; leave it out; known here are name, renamed_from, purpose, owner, repeatable, schedule, misfire, overlap, expected_duration, timeout, start_deadline, shards, retry, takeover_after, limits, run",
        ),
        (
            "takeover-after: 15s",
            "11:1: takeover-after: there is no such field; did you mean `takeover_after`?",
        ),
        (
            "run: { exec: [\"a\"], umask: 7 }",
            "10:21: run.umask: there is no such field; leave it out; known here are exec, user",
        ),
        (
            "run: { exec: [\"a\"], user: 1000 }",
            "10:27: run.user: `1000` is not the name of a user; write the name, not the number, of a user of the hosts: a-z, 0-9, `_` and `-`, beginning with a letter or `_`",
        ),
        (
            "run: { exec: [\"a\"], user: \"1000\" }",
            "10:27: run.user: `1000` is not the name of a user; write the name, not the number, of a user of the hosts: a-z, 0-9, `_` and `-`, beginning with a letter or `_`",
        ),
        (
            "limits: { memory: 2GB }",
            "11:19: limits.memory: `2GB` has the unit `GB`, which programs read differently; write 2GiB; units are KiB (1024 bytes), MiB (1024 KiB), GiB and TiB",
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
            "10:14: run.exec: `/bin/true` is one text, not a list; write `exec: [\"/bin/true\"]`",
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
            "10:18: run.exec[1]: {job} without quotes is a mapping to YAML; put it in quotes, \"{job}\"",
        ),
        (
            "run: { exec: [\"{date}\"] }",
            &format!(
                "10:15: run.exec[0]: there is no placeholder `{{date}}`; did you mean `{{fire_date}}`, the day of the fire? {KNOWN}"
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
            "10:15: run.exec[0]: there is no placeholder `{fire_date-1w}`; write whole days, at most 3660, for example {fire_date-1d}",
        ),
        (
            "run: { exec: [\"{fire_date-3661d}\"] }",
            "10:15: run.exec[0]: there is no placeholder `{fire_date-3661d}`; write whole days, at most 3660, for example {fire_date-1d}",
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
        let actual = refused(with(field, line));
        assert_eq!(actual, [format!("job.yaml:{expected}")], "{line}");
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
    assert!(refused(long(17_000))[0].contains("more than 16384"));
    let many = |entries| {
        let arguments = vec!["a"; entries].join(", ");
        with("run", &format!("run: {{ exec: [{arguments}] }}"))
    };
    one(&many(1000));
    assert_eq!(
        refused(many(1001)),
        [
            "job.yaml:10:14: run.exec: has 1001 entries, more than 1000; put long input into a file and name the file"
        ]
    );
    let filled = with(
        "run",
        &format!("run: {{ exec: [\"{}\"] }}", "{job}".repeat(200)),
    );
    assert!(refused(filled)[0].contains("with its placeholders filled"));
}
