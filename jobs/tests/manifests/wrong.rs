//! What is refused field by field, in which words.

use jobs::parse_manifests;

use crate::{LEAST, edited, one, refused, with};

#[test]
fn one_field_wrong() {
    const EXEC: &str = "write `run: { exec: [\"/opt/jobs/report\", \"--date\", \"{fire_date}\"] }`";
    const KNOWN: &str = "known are `{job}`, `{fire_time}`, `{fire_date}`, `{fire_date-1d}`, `{fire_date+1d}`, `{nominal_time}`, `{shard}`, `{shards}`, `{timezone}`, `{params.NAME}`; for a brace itself write it twice, `{{`";
    let mut different = Vec::new();
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
            "overlap: never mind",
            "10:10: overlap: `never mind` is not known; write `forbid` (a fire during a run is skipped), `queue` (a fire during a run waits for its end), `replace` (a fire during a run cancels it, and starts when nothing of it is left), `allow` (a fire during a run starts beside it)",
        ),
        (
            "overlap: DISCARD_LATER",
            "10:10: overlap: `DISCARD_LATER` is not known; here that is `forbid` (a fire during a run is skipped)",
        ),
        (
            "overlap: Replace",
            "10:10: overlap: `Replace` is not known; did you mean `replace`?",
        ),
        (
            "serial: true",
            "11:9: serial: `true` is not known; here that is `strict` (it counts as live until a person has decided)",
        ),
        (
            "serial: strict\noverlap: allow",
            "11:9: serial: `strict` does not go with `overlap: allow`, under which no run waits for another; leave it out, or write `overlap: queue` or `previous: succeeded`",
        ),
        (
            "previous: success",
            "11:11: previous: `success` is not known; here that is `succeeded` (it has succeeded)",
        ),
        (
            "previous: succeeded\noverlap: replace",
            "11:11: previous: `succeeded` does not go with `overlap: replace`, which cancels the run that would be waited for; write `previous: ended`, or `overlap: queue`",
        ),
        (
            "catch_up: { at_most: 3 }",
            "11:11: catch_up: does not go with `misfire: { policy: skip }`, under which no late fire runs; leave it out, or write `policy: run_now` or `within: 2h`",
        ),
        (
            "catch_up: 3\nmisfire: { policy: run_now }",
            "11:11: catch_up: is a single value, not a mapping of fields; write `catch_up: { at_most: 3, window: 3d }`",
        ),
        (
            "catch_up: { at_most: 101 }\nmisfire: { policy: run_now }",
            "11:22: catch_up.at_most: 101 is outside 1 to 100; write a whole number from 1 to 100",
        ),
        (
            "catch_up: { at_most: 3, concurrency: 4 }\nmisfire: { policy: run_now }",
            "11:38: catch_up.concurrency: is more than `at_most`, 3: no more than that run; write at most 3, or a larger `at_most`",
        ),
        (
            "after: settlement/import",
            "11:8: after: is not a list of at most 16 mappings; write `after: [{ job: settlement/import, match: same_date }]`, with `match: same_fire` or `latest_within: 6h` where that is meant",
        ),
        (
            "after: [settlement/import]",
            "11:9: after[0]: is a single value, not a mapping of fields; write `after: [{ job: settlement/import, match: same_date }]`, with `match: same_fire` or `latest_within: 6h` where that is meant",
        ),
        (
            "after: [{ job: a/b, match: same_fire }, { job: import, match: same_fire }]",
            "11:48: after[1].job: `import` has no namespace; write it as `namespace/name`, for example `finance/import`",
        ),
        (
            "after: [{ job: a/b }]",
            "11:9: after[0].match: is missing; write which of its runs is waited for, as in `after: [{ job: settlement/import, match: same_date }]`, with `match: same_fire` or `latest_within: 6h` where that is meant",
        ),
        (
            "after: [{ match: same_fire }]",
            "11:9: after[0].job: is missing; write `job: namespace/name`, the job whose run must have succeeded: without it there is nothing to wait for",
        ),
        (
            "after: [{ job: a/b, match: same_fire, latest_within: 2h }]",
            "11:54: after[0].latest_within: does not go with `match: same_fire`; leave one of the two out: either says which run is waited for",
        ),
        (
            "after: [{ job: demo/least, match: same_fire }]",
            "11:16: after[0].job: `demo/least` is the job itself; to wait for its own fire before, write `previous: succeeded`",
        ),
        (
            "after: [{ job: a/b, match: same_fire }, { job: a/b, match: same_date }]",
            "11:48: after[1].job: `a/b` is in the list already; leave one of the two out",
        ),
        (
            "after: [{ job: a/b, match: sameday }]",
            "11:28: after[0].match: `sameday` is not known; here that is `same_date` (the one that is due on the same day)",
        ),
        (
            "shards: { of: 90m }",
            "11:9: shards.target: is missing; write `target: 3m`, how long one shard is to take: from it and `of` comes the number",
        ),
        (
            "shards: { of: 31d, target: 1m }",
            "11:28: shards.target: makes more than 1024 shards of 31d; write a `target` of at least 43m35s625ms",
        ),
        (
            "shards: [1]",
            "11:9: shards: is a list, not a number; write a whole number from 1 to 1024",
        ),
        (
            "needs: { labels: jdk17 }",
            "11:18: needs.labels: is not a list of at most 16 labels; write `labels: [jdk17]`",
        ),
        (
            "needs: { labels: [JDK 17] }",
            "11:19: needs.labels[0]: `JDK 17` is not a label; write 1 to 63 of a-z, 0-9, `-`, `_`, `.` and `=`, beginning and ending with a letter or digit",
        ),
        (
            "needs: { labels: [a, a] }",
            "11:22: needs.labels[1]: `a` is in the list already; leave it out",
        ),
        (
            "needs: { uses: [ledger-db] }",
            "11:16: needs.uses: is a list, not a mapping of resources and the units of each; write `uses: { ledger-db: 4 }`",
        ),
        (
            "needs: { uses: { ledger-db: 0 } }",
            "11:29: needs.uses.ledger-db: 0 is outside 1 to 1000000; write a whole number from 1 to 1000000",
        ),
        (
            "needs: { uses: { Ledger DB: 1 } }",
            "11:18: needs.uses: `Ledger DB` is not the name of a resource; write 1 to 63 of a-z, 0-9, `-`, `_` and `.`, beginning with a letter or digit",
        ),
        (
            "needs: { uses: { ledger-db: } }",
            "11:27: needs.uses.ledger-db: has no value; write how many units one shard takes, for example 1",
        ),
        (
            "needs: { class: IO hosts }",
            "11:17: needs.class: `IO hosts` is not the name of a class; write for example `class: io`: 1 to 63 of a-z, 0-9, `-`, `_` and `.`, beginning and ending with a letter or digit",
        ),
        (
            "needs: { class: [io] }",
            "11:17: needs.class: is a list, not the name of a class; write one, for example `class: io`; what else a host must have are `labels`",
        ),
        (
            "needs: { cpu: 500m }",
            "11:15: needs.cpu: `500m` is in thousandths, as Kubernetes has them; write 0.5",
        ),
        (
            "needs: { cpu: two }",
            "11:15: needs.cpu: `two` is not a number of processors; write a number of processors from 0.001 to 1024, for example 0.5",
        ),
        (
            "needs: { cpu: -1 }",
            "11:15: needs.cpu: `-1` is not a number of processors; write a number of processors from 0.001 to 1024, for example 0.5",
        ),
        (
            "needs: { cpu: 0.0005 }",
            "11:15: needs.cpu: `0.0005` has more than three decimal places; write a number of processors from 0.001 to 1024, for example 0.5",
        ),
        (
            "needs: { cpu: 0 }",
            "11:15: needs.cpu: 0 is outside 0.001 to 1024; write a number of processors from 0.001 to 1024, for example 0.5",
        ),
        (
            "needs: { cpu: 99999999999 }",
            "11:15: needs.cpu: 99999999999 is outside 0.001 to 1024; write a number of processors from 0.001 to 1024, for example 0.5",
        ),
        (
            "needs: { cpu: \"2\" }",
            "11:15: needs.cpu: \"2\" is text, not a number; leave the quotes out",
        ),
        (
            "needs: { memory: 2GB }",
            "11:18: needs.memory: `2GB` has the unit `GB`, which programs read differently; write 2GiB; units are KiB (1024 bytes), MiB (1024 KiB), GiB and TiB",
        ),
        (
            "needs: { memory: 2048 }",
            "11:18: needs.memory: `2048` has no unit; write for example 512MiB or 2GiB",
        ),
        (
            "priority: high",
            "11:11: priority: `high` is not a whole number; write a whole number from 0 to 100",
        ),
        (
            "priority: 101",
            "11:11: priority: 101 is outside 0 to 100; write a whole number from 0 to 100",
        ),
        (
            "params: region=east",
            "11:9: params: `region=east` is a single value, not a mapping of names and their values; write `params: { region: east }`",
        ),
        (
            "params: { Region-Name: east }",
            "11:11: params: `Region-Name` is not the name of a parameter; write for example `region_name`",
        ),
        (
            "params: { count: 30 }",
            "11:18: params.count: `30` is not text to every reader of YAML; put it in quotes, \"30\"",
        ),
        (
            "params: { a: \"x\", a: \"y\" }",
            "11:19: params.a: is written twice; leave one of the two out",
        ),
        (
            "params: { a: }",
            "11:12: params.a: has no value; write `\"\"` for an empty value, and a value that has a comma in quotes",
        ),
        (
            "run: { exec: [\"{params.region}\"] }",
            "10:15: run.exec[0]: there is no parameter `region`; write `params: { region: ... }` beside `run`, with the value that it has in every run of the schedule",
        ),
        (
            "run: { exec: [\"{params.regoin}\"] }\nparams: { region: east, zone: a }",
            "10:15: run.exec[0]: there is no parameter `regoin`; did you mean `{params.region}`? known are `{params.region}`, `{params.zone}`",
        ),
        (
            "run: { exec: [\"{region}\"] }\nparams: { region: east }",
            "10:15: run.exec[0]: there is no placeholder `{region}`; did you mean `{params.region}`? KNOWN",
        ),
        (
            "begins: suspended",
            "11:9: begins: `suspended` is not known; here that is `paused` (nothing of it is due until `matins resume`)",
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
            "11:1: colour: there is no such field; leave it out; known here are name, renamed_from, purpose, owner, repeatable, schedule, misfire, catch_up, overlap, serial, previous, after, expected_duration, timeout, start_deadline, shards, retry, takeover_after, needs, priority, limits, params, begins, run",
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
        let expected = expected.replace("KNOWN", KNOWN);
        // What follows the first line replaces fields of its own.
        let (first, more) = line.split_once('\n').unwrap_or((line, ""));
        let yaml = match more.split_once(':') {
            Some((other, _)) if other != field => edited(&with(field, first), other, more),
            _ => with(field, line),
        };
        let actual = refused(yaml);
        if actual != [format!("job.yaml:{expected}")] {
            different.push(format!(
                "{line}\n  said     {actual:#?}\n  expected {expected}"
            ));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
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
            "overlap: maybe\nschedule: { cron: \"* * * *\", timezone: CST }",
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
