use protocol::api::{Expectation, Gap, Paused, Status, VersionInForce};
use serde_json::{Value, json};

use super::*;

pub(in super::super) const SAMPLE_RUN: &str = include_str!("../../describe/sample_run.json");

fn time(text: &str) -> WallMs {
    WallMs::parse_rfc3339(text).unwrap()
}

/// `settlement/reconcile@2026-11-29T02:10:00Z`, an instant of version 3 without a run.
pub(in super::super) fn facts() -> Facts {
    let manifest = json!({
        "name": "settlement/reconcile",
        "repeatable": {"safe": false, "how": "charges twice"},
        "schedule": {"cron": "10 10 * * *", "timezone": "Asia/Shanghai"},
        "expected_duration": "40m",
        "timeout": "15m",
    });
    let spec = serde_json::from_value(manifest["schedule"].clone()).unwrap();
    let schedule = jobs::Schedule::parse(&spec).unwrap();
    let at = time("2026-11-29T02:10:00Z");
    let starts = time("2026-11-20T00:00:00Z");
    Facts {
        job: "settlement/reconcile".parse().unwrap(),
        at,
        now: time("2026-11-29T02:12:00Z"),
        instant: schedule.instant_at(starts, at),
        schedule: Some(schedule),
        run: None,
        expectation: Expectation {
            job: "settlement/reconcile".parse().unwrap(),
            at,
            fired_through: time("2026-11-29T02:11:00Z"),
            deleted: false,
            paused: None,
            version: Some(VersionInForce {
                version: 3,
                starts,
                ends: None,
                put_at: starts,
                put_by: "alice".to_owned(),
                manifest,
            }),
            run: None,
            gap: None,
        },
        status: status(),
    }
}

fn status() -> Status {
    serde_json::from_value(json!({
        "node": "n", "version": "0", "epoch": null, "clock": "trusted",
        "clock_held_ms": null, "tzdata": "2025b", "agents_address": "",
        "jobs": 1, "open_runs": 1, "needs_confirmation": 0, "leases": 0,
        "agents": 1, "agents_ready": 1,
    }))
    .unwrap()
}

/// The same with the sample's run, changed by `change`.
pub(in super::super) fn with_run(change: impl FnOnce(&mut Value)) -> Facts {
    let mut run: Value = serde_json::from_str(SAMPLE_RUN).unwrap();
    change(&mut run);
    Facts {
        run: Some(serde_json::from_value(run).unwrap()),
        ..facts()
    }
}

#[track_caller]
fn check(facts: &Facts, verdict: Verdict, because: &str, command: &str) {
    let found = judge(facts);
    assert_eq!(found.verdict, verdict, "{found:?}");
    assert!(found.because.contains(because), "{found:?}");
    let mut commands = found.advice.iter().map(|advice| &advice.command);
    assert!(
        command.is_empty() || commands.any(|known| known.contains(command)),
        "{found:?}"
    );
}

#[test]
fn a_time_without_a_run() {
    let gap = |f: &mut Facts| {
        f.expectation.gap = Some(Gap {
            from: time("2026-11-28T02:10:00Z"),
            through: f.at,
            count: 1,
            reason: "paused".to_owned(),
        });
    };
    let undecided = |f: &mut Facts| f.expectation.fired_through = time("2026-11-29T02:09:00Z");
    let pause = |f: &mut Facts| {
        f.expectation.paused = Some(Paused {
            at: time("2026-11-29T00:00:00Z"),
            by: "bob".to_owned(),
            reason: "the bank is closed".to_owned(),
        });
    };
    type Change<'a> = &'a dyn Fn(&mut Facts);
    let rows: &[(Change<'_>, Verdict, &str, &str)] = &[
        (
            &gap,
            Verdict::NeverRan,
            "`paused`",
            "--at 2026-11-29T02:10:00Z",
        ),
        (&|_| {}, Verdict::NeverRan, "must not happen", "matins run"),
        (
            &undecided,
            Verdict::NeverRan,
            "2m00s ago",
            "matins describe",
        ),
        (
            &|f| {
                undecided(f);
                f.now = time("2026-11-29T02:10:01Z");
            },
            Verdict::UnderWay,
            "being decided",
            "",
        ),
        (
            &|f| {
                undecided(f);
                pause(f);
            },
            Verdict::NeverRan,
            "bob",
            "matins resume settlement/reconcile",
        ),
        (
            &|f| {
                undecided(f);
                f.status.clock = "held".to_owned();
                f.status.clock_held_ms = Some(60_000);
            },
            Verdict::NeverRan,
            "not believed, for another 1m00s",
            "matins version",
        ),
        (
            &|f| {
                undecided(f);
                f.now = time("2026-11-29T02:00:00Z");
            },
            Verdict::NotYetDue,
            "in 10m00s",
            "matins next",
        ),
        (
            &|f| {
                f.at = time("2026-11-29T02:11:00Z");
                f.instant = None;
            },
            Verdict::NotAnInstant,
            "does not name it",
            "@2026-11-30T02:10:00Z",
        ),
        (
            &|f| f.expectation.version = None,
            Verdict::NotThere,
            "no version",
            "matins describe",
        ),
        (
            &|f| {
                f.expectation.version = None;
                f.expectation.deleted = true;
            },
            Verdict::NotThere,
            "deleted",
            "matins get runs",
        ),
    ];
    for (change, verdict, because, command) in rows {
        let mut facts = facts();
        change(&mut facts);
        check(&facts, *verdict, because, command);
    }
}

#[test]
fn a_time_with_a_run() {
    type Change<'a> = &'a dyn Fn(&mut Value);
    let rows: &[(Change<'_>, Verdict, &str, &str)] = &[
        (
            &|_| {},
            Verdict::CutOff,
            "2/4 shards succeeded; shard 1 was lost with its host on host-2",
            "matins confirm run-12",
        ),
        (
            &|run| {
                let attempts = &mut run["shard_list"][1]["attempts"];
                attempts.as_array_mut().unwrap().truncate(1);
            },
            Verdict::HalfDone,
            "shard 1 failed with status 3",
            "matins logs run-12 --shard 1",
        ),
        (
            &|run| {
                run["shard_list"][1]["attempts"][0]["stale_outcome"] = json!("succeeded");
            },
            Verdict::RanTwice,
            "was still at work when token-9007199254740991",
            "--token token-32",
        ),
        (
            &|run| {
                for shard in run["shard_list"].as_array_mut().unwrap() {
                    shard["attempts"] = json!([]);
                }
            },
            Verdict::NeverRan,
            "had no attempt",
            "matins rerun run-12 --failed",
        ),
        (
            &|run| run["state"] = json!("succeeded"),
            Verdict::Fine,
            "the last of 2 executions",
            "",
        ),
        (
            &|run| run["state"] = json!("running"),
            Verdict::UnderWay,
            "2/4 shards succeeded",
            "matins describe run-12 --watch",
        ),
        (
            &|run| {
                run["state"] = json!("waiting");
                run["reason"] = json!("overlap: in line behind run-9");
                run["waits_for"] = json!({
                    "kind": "overlap", "job": "settlement/reconcile", "run": "run-9",
                    "state": "running", "since": "2026-11-29T02:10:00Z",
                    "until": "2026-11-29T02:25:00Z",
                });
            },
            Verdict::UnderWay,
            "behind run-9; it is skipped unless it starts by 2026-11-29T02:25:00Z",
            "matins describe run-9",
        ),
        (
            &|run| {
                run["state"] = json!("waiting");
                run["reason"] = json!("after: team/import has no run for this fire yet");
                run["waits_for"] = json!({
                    "kind": "after", "job": "team/import", "run": null, "state": null,
                    "since": "2026-11-29T02:10:00Z", "until": null,
                });
            },
            Verdict::UnderWay,
            "it waits: after: team/import has no run for this fire yet",
            "matins describe team/import",
        ),
        (
            &|run| {
                run["state"] = json!("skipped");
                run["reason"] = json!("run-9 was still live");
            },
            Verdict::NeverRan,
            "skipped: run-9 was still live",
            "matins rerun run-12 --reason \"it was skipped\"",
        ),
        (
            &|run| run["state"] = json!("cancelled"),
            Verdict::CutOff,
            "2/4",
            "--reason \"it was cancelled\"",
        ),
    ];
    for (change, verdict, because, command) in rows {
        check(&with_run(|run| change(run)), *verdict, because, command);
    }
}

#[test]
fn a_job_that_may_run_twice_is_run_again_for_the_reason_that_it_failed() {
    let mut facts = with_run(|_| {});
    let version = facts.expectation.version.as_mut().unwrap();
    version.manifest["repeatable"]["safe"] = json!(true);
    check(
        &facts,
        Verdict::CutOff,
        "",
        "matins rerun run-12 --failed --reason \"shard 1 was lost with its host\"",
    );
}
