//! Manifests as people get them wrong who come from elsewhere, or at night.
//!
//! Each is to be mended at the first try from the message alone, so the messages stand here in
//! full: whoever changes one reads it as such a person would.

use crate::{LEAST, edited, refused};

/// A field, and the lines in place of its own.
type Edit = (&'static str, &'static str);

/// What is changed in the least manifest, and everything that is said of it.
const WRONG: &[(&[Edit], &[&str])] = &[
    // A name without a namespace, capitals and blanks in it.
    (
        &[("name", "name: Count Words")],
        &[
            "1:7: name: `Count Words` has no namespace; write it as `namespace/name`, for example `finance/count-words`",
        ],
    ),
    // From a CronJob: the schedule as one text.
    (
        &[("schedule", "schedule: \"30 23 * * *\"")],
        &[
            "5:11: schedule: is a single value, not a mapping of fields; write `schedule: { cron: \"30 23 * * *\", timezone: Asia/Shanghai }`, with the zone that the hours are of",
        ],
    ),
    // An expression without quotes.
    (
        &[(
            "schedule",
            "schedule:\n  cron: */5 * * * *\n  timezone: Asia/Shanghai",
        )],
        &[
            "6:9: schedule.cron: `*/5 * * * *` begins with `*`, which YAML reads as an alias; put it in quotes: `cron: \"*/5 * * * *\"`",
        ],
    ),
    // A macro without quotes, a zone by its abbreviation.
    (
        &[("schedule", "schedule: { cron: @daily, timezone: GMT+8 }")],
        &[
            "5:19: schedule.cron: `@daily` begins with a character that YAML keeps for itself; put it in quotes: `cron: \"@daily\"`",
            "5:37: schedule.timezone: `GMT+8` is a distance from UTC, and no zone; write the zone of a place, for example Asia/Shanghai; for the bare distance write `Etc/GMT-8`, where the sign is the other way round",
        ],
    ),
    // Commas without quotes, in braces.
    (
        &[(
            "schedule",
            "schedule: { cron: 0,30 8-18 * * 1,5, timezone: Etc/UTC }",
        )],
        &[
            "5:19: schedule.cron: is cut in two by its comma, for it has no quotes; put it in quotes: `cron: \"0,30 8-18 * * 1,5\"`",
        ],
    ),
    // Fields below `schedule` that are not indented.
    (
        &[(
            "schedule",
            "schedule:\ncron: \"30 23 * * *\"\ntimezone: Asia/Shanghai",
        )],
        &[
            "5:9: schedule: has no value; write `schedule: { cron: \"30 23 * * *\", timezone: Asia/Shanghai }`: a job without an hour is never due",
            "6:1: cron: is not a field of the manifest itself; it stands in `schedule`: indent it below that, or write `schedule: { cron: ... }`",
            "7:1: timezone: is not a field of the manifest itself; it stands in `schedule`: indent it below that, or write `schedule: { timezone: ... }`",
        ],
    ),
    // An editor that indents with tabs.
    (
        &[(
            "schedule",
            "schedule:\n\tcron: \"30 23 * * *\"\n\ttimezone: Asia/Shanghai",
        )],
        &["6:1: a tab indents this line; indent with spaces: YAML does not allow tabs there"],
    ),
    // An interval, as elsewhere.
    (
        &[("schedule", "schedule: { every: 10m, tz: UTC }")],
        &[
            "5:13: schedule.every: there is no such field; write `schedule: { cron: \"30 23 * * *\", timezone: Asia/Shanghai }`, or `cron: \"@every 10m\"` for an interval",
            "5:25: schedule.tz: there is no such field; write the zone as `schedule: { timezone: Asia/Shanghai }`",
        ],
    ),
    // A command line as one text.
    (
        &[("run", "run: { exec: /opt/jobs/report --date {fire_date} }")],
        &[
            "10:14: run.exec: `/opt/jobs/report --date {fire_date}` holds a brace or bracket, which mean something to YAML within brackets; write it as a list: `exec: [\"/opt/jobs/report\", \"--date\", \"{fire_date}\"]`",
        ],
    ),
    // A command line for a shell.
    (
        &[(
            "run",
            "run:\n  exec: |\n    cd /opt/jobs\n    ./report > report.log",
        )],
        &[
            "12:5: run.exec: is a line for a shell, and there is none; write it into a script of its own, and name that: `exec: [\"/opt/jobs/script\"]`",
        ],
    ),
    // Placeholders without quotes.
    (
        &[(
            "run",
            "run: { exec: [/opt/jobs/report, {fire_date}, --shard={shard}/{shards}] }",
        )],
        &[
            "10:33: run.exec[1]: {fire_date} without quotes is a mapping to YAML; put it in quotes, \"{fire_date}\"",
            "10:46: run.exec: `--shard={shard}/{shards}` holds a brace or bracket, which mean something to YAML within brackets; put it in quotes: `\"--shard={shard}/{shards}\"`",
        ],
    ),
    // The program with its arguments in one item.
    (
        &[("run", "run: { exec: [\"/opt/jobs/report --all\"] }")],
        &[
            "10:15: run.exec[0]: `/opt/jobs/report --all` is more than the path of a program; write each argument as an item of its own: `exec: [\"/opt/jobs/report\", \"--all\"]`",
        ],
    ),
    // Words and numbers that are not text.
    (
        &[("run", "run: { exec: [/bin/x, 30, 010, yes, 22:30] }")],
        &[
            "10:23: run.exec[1]: `30` is not text to every reader of YAML; put it in quotes, \"30\"",
            "10:27: run.exec[2]: `010` is not text to every reader of YAML; put it in quotes, \"010\"",
            "10:32: run.exec[3]: `yes` is not text to every reader of YAML; put it in quotes, \"yes\"",
            "10:37: run.exec[4]: `22:30` is not text to every reader of YAML; put it in quotes, \"22:30\"",
        ],
    ),
    // A comma too few.
    (
        &[("run", "run: { exec: [\"/bin/x\" \"--all\"] }")],
        &["10:24: two texts follow each other; write a `,` between them"],
    ),
    // A quote too few.
    (
        &[("run", "run: { exec: [\"/bin/x\", \"--all] }")],
        &[
            "10:25: the quote that opens here is not closed; close it in the same line; a text of several lines is written as `purpose: >`, with its lines indented below",
        ],
    ),
    // A bracket too few.
    (
        &[("run", "run: { exec: [\"/bin/x\", \"--all\" }")],
        &[
            "10:14: this `[` is not closed, or what it holds is not separated by commas; write a `,` between two items and a `]` after the last",
        ],
    ),
    // A container's fields.
    (
        &[(
            "run",
            "run:\n  image: report:1\n  command: [\"/bin/x\"]\n  env: { REGION: east }",
        )],
        &[
            "11:3: run.image: there is no such field; leave it out: Matins starts a program that is on the host, `run: { exec: [...] }`",
            "12:3: run.command: there is no such field; write `exec: [\"/bin/x\"]`",
            "13:3: run.env: there is no such field; leave it out: an attempt's environment is the same for all; give values as arguments in `run.exec`, and what a run by hand may change as `params: { region: east }`",
        ],
    ),
    // A user by its number.
    (
        &[("run", "run: { exec: [\"/bin/x\"], user: 1000 }")],
        &[
            "10:32: run.user: `1000` is not the name of a user; write the name, not the number, of a user of the hosts: a-z, 0-9, `_` and `-`, beginning with a letter or `_`",
        ],
    ),
    // From a CronJob: its words.
    (
        &[
            ("overlap", "concurrencyPolicy: Forbid"),
            ("misfire", "startingDeadlineSeconds: 60"),
        ],
        &[
            "6:1: startingDeadlineSeconds: there is no such field; write `misfire: { within: 2h }` for a fire that still helps that late, `misfire: { policy: run_now }` or `misfire: { policy: skip }`",
            "7:1: concurrencyPolicy: there is no such field; write `overlap: forbid` (a fire during a run is skipped), `overlap: queue` (it waits), `overlap: replace` (the run is cancelled for it) or `overlap: allow` (both run)",
        ],
    ),
    // From Airflow: its words.
    (
        &[(
            "owner",
            "retries: 3\nretry_delay: 5m\ndepends_on_past: true\nowner: demo",
        )],
        &[
            "3:1: retries: there is no such field; write `retry: { at_most: 3, backoff: [1m] }`: up to 3 further attempts, a minute apart; 0 for none",
            "4:1: retry_delay: there is no such field; write `retry: { backoff: [1m, 5m, 30m] }`",
            "5:1: depends_on_past: there is no such field; write `previous: succeeded`: a fire then waits until the job's own fire before has succeeded",
        ],
    ),
    // What the design has and this version has not.
    (
        &[("owner", "owner: demo\nalert: { late_by: 5m }")],
        &[
            "4:1: alert: is not acted on by this version of Matins, which therefore refuses it; leave it out; what needs a person is in `matins get alerts`",
        ],
    ),
    // Order between jobs, hosts and values, in other programs' words.
    (
        &[
            (
                "owner",
                "owner: demo\ndepends_on: [import]\nqueue: big\npool: db\nparameters: { region: east }\ncatchup: false\npriority_weight: 5\nlabels: [jdk17]",
            ),
            ("misfire", ""),
        ],
        &[
            "4:1: depends_on: there is no such field; write `after: [{ job: settlement/import, match: same_date }]`: a fire then waits until the other job's run of the same day has succeeded",
            "5:1: queue: there is no such field; write `needs: { labels: [jdk17] }`: hosts whose agents have these labels take it, any host where there are none",
            "6:1: pool: there is no such field; write `needs: { uses: { ledger-db: 1 } }`: units of something that all jobs share, given with `matins resource set ledger-db 16`",
            "7:1: parameters: there is no such field; write `params: { region: east }`, and `{params.region}` in `run.exec`",
            "8:1: catchup: there is no such field; write `misfire: { policy: run_now }`, and `catch_up: { at_most: 3 }` where more than the newest late fire is to run; or `misfire: { policy: skip }` for none",
            "9:1: priority_weight: there is no such field; write `priority: 80`: from 0 to 100, the higher number goes first, and 50 is that of a job which says nothing",
            "10:1: labels: is not a field of the manifest itself; it stands in `needs`: indent it below that, or write `needs: { labels: ... }`",
        ],
    ),
    // A CronJob that is suspended, an xxl-job's way with a run before.
    (
        &[(
            "overlap",
            "suspend: true\nexecutorBlockStrategy: SERIAL_EXECUTION",
        )],
        &[
            "7:1: suspend: there is no such field; write `begins: paused` for a job that is to be created so; one that exists is paused and resumed with `matins pause` and `matins resume`",
            "8:1: executorBlockStrategy: there is no such field; write `overlap: forbid` (a fire during a run is skipped), `overlap: queue` (it waits), `overlap: replace` (the run is cancelled for it) or `overlap: allow` (both run)",
        ],
    ),
    // A policy as one word.
    (
        &[("misfire", "misfire: skip")],
        &[
            "6:10: misfire: is a single value, not a mapping of fields; write `misfire: { policy: skip, after: 60s }`: a fire less late than `after` runs under every policy",
        ],
    ),
    // YAML's other words for true.
    (
        &[("repeatable", "repeatable: { safe: yes }")],
        &[
            "4:21: repeatable.safe: `yes` is neither true nor false; write `true` or `false`, without quotes",
        ],
    ),
    // Safe, but why?.
    (
        &[("repeatable", "repeatable: { safe: true }")],
        &[
            "4:13: repeatable.how: is missing; write why a second run does no harm, for example `how: \"full recompute, replaces the day\"`",
        ],
    ),
    // Durations as elsewhere.
    (
        &[
            ("timeout", "timeout: 900"),
            ("expected_duration", "expected_duration: 1.5h"),
        ],
        &[
            "8:20: expected_duration: `1.5h` has a fraction; write whole numbers, for example 1h30m for 1.5h",
            "9:10: timeout: `900` has no unit; write for example 900s",
        ],
    ),
    // A slip of the finger.
    (
        &[("timeout", "timout: 15m")],
        &["9:1: timout: there is no such field; did you mean `timeout`?"],
    ),
    // A number with a zero before it, sizes as elsewhere.
    (
        &[(
            "owner",
            "owner: demo\nshards: 05\nlimits: { memory: 2GB, cpus: 2 }",
        )],
        &[
            "4:9: shards: `05` begins with 0, octal to some readers; leave the 0 out: 5",
            "5:19: limits.memory: `2GB` has the unit `GB`, which programs read differently; write 2GiB; units are KiB (1024 bytes), MiB (1024 KiB), GiB and TiB",
            "5:24: limits.cpus: there is no such field; write `needs: { cpu: 1, memory: 2GiB }` for what is set aside on a host, and `limits: { memory: 2GiB, pids: 500, cpu_weight: 100 }` for what it may not exceed, any of them",
        ],
    ),
    // A colon in a sentence.
    (
        &[("purpose", "purpose: Count words: all of them")],
        &[
            "2:10: purpose: `Count words: all of them` holds a colon before a blank, which begins a field; put it in quotes: `purpose: \"Count words: all of them\"`",
        ],
    ),
    // An apostrophe in single quotes.
    (
        &[("purpose", "purpose: 'Count the world's words'")],
        &[
            "2:10: purpose: `'Count the world's words'` goes on after its closing quote; put it in quotes: `purpose: \"Count the world's words\"`",
        ],
    ),
    // A sentence over two lines.
    (
        &[("purpose", "purpose: Count words\nof all files")],
        &[
            "3:1: this line is no `field: value`; indent it deeper if it goes on with the text above, else begin it with a field's name and a colon",
        ],
    ),
    // Copied out of a document.
    (
        &[
            ("purpose", "purpose:\u{a0}Count words"),
            ("owner", "owner: “demo”"),
        ],
        &[
            "2:9: a blank that is no space (\\u{a0}) stands here; write a plain space: this one comes from copying out of a page or a document",
            "3:8: owner: `“demo”` is in typographic quotes, which are text to YAML; write plain ones, \"demo\"",
        ],
    ),
    // A value that begins with @.
    (
        &[("owner", "owner: @finance")],
        &[
            "3:8: owner: `@finance` begins with a character that YAML keeps for itself; put it in quotes: `owner: \"@finance\"`",
        ],
    ),
    // One blank too many.
    (
        &[("owner", " owner: demo")],
        &[
            "3:2: this line is indented deeper than the one above, which has its value already; indent both alike, or delete the value above if this line is meant to be below it",
        ],
    ),
    // A tab, and what else is wrong beside it.
    (
        &[
            ("timeout", "timeout: 900"),
            ("run", "run:\n\texec: [\"/bin/x\", \"{yesterday}\"]"),
        ],
        &[
            "9:10: timeout: `900` has no unit; write for example 900s",
            "11:1: a tab indents this line; indent with spaces: YAML does not allow tabs there",
            "11:19: run.exec[1]: there is no placeholder `{yesterday}`; did you mean `{fire_date-1d}`, the day before the fire? known are `{job}`, `{fire_time}`, `{fire_date}`, `{fire_date-1d}`, `{fire_date+1d}`, `{nominal_time}`, `{shard}`, `{shards}`, `{timezone}`, `{params.NAME}`; for a brace itself write it twice, `{{`",
        ],
    ),
    // A command by its name elsewhere: the remedy is its own text.
    (
        &[("run", "command: /opt/jobs/count --day {fire_date}")],
        &[
            "10:1: command: there is no such field; write `run: { exec: [\"/opt/jobs/count\", \"--day\", \"{fire_date}\"] }`",
        ],
    ),
    // The same for a shell, where `run` stands already.
    (
        &[("run", "run:\n  script: zcat in.gz | /opt/jobs/count")],
        &[
            "11:3: run.script: there is no such field; write `exec: [\"/bin/sh\", \"-c\", \"zcat in.gz | /opt/jobs/count\"]`",
        ],
    ),
    // Nothing behind the colon.
    (
        &[("overlap", "overlap:")],
        &[
            "7:8: overlap: has no value; write `overlap: forbid` (a fire during a run is skipped), `overlap: queue` (it waits), `overlap: replace` (the run is cancelled for it) or `overlap: allow` (both run): only you know whether two runs that follow each other do the work of one, and whether two at once do harm",
        ],
    ),
];

#[test]
fn every_wrong_manifest_is_answered_in_words_that_mend_it() {
    for &(edits, expected) in WRONG {
        let mut yaml = LEAST.to_owned();
        for (field, line) in edits {
            yaml = edited(&yaml, field, line);
        }
        says(&yaml, expected);
    }
}

#[test]
fn two_jobs_without_a_separator_are_told_apart() {
    let second = LEAST.replace("demo/least", "demo/second");
    says(
        &format!("{LEAST}{second}"),
        &[
            "11:1: another job begins here, for the fields begin again; write a line `---` before it",
        ],
    );
    // What is wrong in each is said of each.
    let wrong = edited(&second, "timeout", "timeout: 900");
    says(
        &format!("{LEAST}{wrong}"),
        &[
            "11:1: another job begins here, for the fields begin again; write a line `---` before it",
            "19:10: timeout: `900` has no unit; write for example 900s",
        ],
    );
}

#[track_caller]
fn says(yaml: &str, expected: &[&str]) {
    let found = refused(yaml);
    let found: Vec<&str> = found
        .iter()
        .map(|line| line.strip_prefix("job.yaml:").unwrap())
        .collect();
    assert_eq!(found, expected, "{yaml}");
}
