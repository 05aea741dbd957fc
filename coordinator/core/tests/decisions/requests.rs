//! What people ask, each answered once.

use std::sync::Arc;

use coordinator_core::clock::Doubt;
use coordinator_core::{Request, RequestError};
use ledger::command::{Command, Verdict};
use ledger::{Done, PutKind, Refusal, RunState};
use protocol::attempt::AttemptOutcome;
use protocol::message::CoordinatorBody;
use protocol::{DurationMs, JobId, RunId, WallMs};

use crate::bench::{Bench, cancel, job_name, manifest, rerun, run_now};

const EVERY_10S: &str = "schedule: { cron: \"@every 10s\", timezone: Etc/UTC }";

fn put(name: &str, yaml: &str) -> Request {
    Request::PutJob {
        manifest: Arc::new(manifest(name, yaml)),
        expected: None,
        by: "ada".to_owned(),
    }
}

fn delete(name: &str) -> Request {
    Request::DeleteJob {
        job: job_name(name),
        by: "ada".to_owned(),
    }
}

fn run_at(name: &str, instant: WallMs) -> Request {
    Request::Run {
        job: job_name(name),
        instant: Some(instant),
        params: std::collections::BTreeMap::new(),
        by: "ada".to_owned(),
        reason: "to see".to_owned(),
    }
}

#[test]
fn before_the_reign_everybody_is_told_to_come_again() {
    let mut bench = Bench::beginning();
    assert_eq!(bench.asked(run_now("t/a")), Err(RequestError::NotLeading));
}

#[test]
fn a_job_is_created_changed_renamed_deleted_and_revived() {
    let mut bench = Bench::new();
    let mut kind = |request| match bench.asked(request) {
        Ok(Done::JobPut {
            job_id: JobId(1),
            version,
            kind,
        }) => (version, kind),
        other => panic!("{other:?}"),
    };
    assert_eq!(kind(put("t/a", "")), (1, PutKind::Created));
    assert_eq!(kind(put("t/a", "")), (1, PutKind::Unchanged));
    assert_eq!(kind(put("t/a", EVERY_10S)), (2, PutKind::Changed));
    let renamed = "renamed_from: t/a";
    assert_eq!(kind(put("t/b", renamed)), (3, PutKind::Renamed));
    assert_eq!(
        bench.asked(delete("t/a")),
        Err(RequestError::NoSuchJob(job_name("t/a")))
    );
    assert_eq!(bench.asked(delete("t/b")), Ok(Done::JobDeleted));
    assert_eq!(
        bench.asked(run_now("t/b")),
        Err(RequestError::NoSuchJob(job_name("t/b")))
    );
    assert!(matches!(
        bench.asked(put("t/b", "")),
        Ok(Done::JobPut {
            job_id: JobId(1),
            kind: PutKind::Revived,
            ..
        })
    ));
}

#[test]
fn what_sets_a_watermark_waits_while_the_clock_is_held() {
    let mut bench = Bench::new();
    bench.job("t/a", "");
    bench.now.wall = bench.now.wall + DurationMs(5_000);
    let held = |ms| {
        Err(RequestError::ClockHeld(Doubt::Stepped {
            remaining: DurationMs(ms),
        }))
    };
    assert_eq!(bench.asked(put("t/b", "")), held(60_000));
    bench.pass(20_000);
    assert_eq!(bench.asked(delete("t/a")), held(40_000));
    // A run of no instant sets none.
    assert!(matches!(
        bench.asked(run_now("t/a")),
        Ok(Done::RunStarted { .. })
    ));
    bench.pass(40_000);
    assert!(bench.asked(put("t/b", "")).is_ok());
}

#[test]
fn a_schedule_that_is_over_is_put_in_force_no_more_but_may_stay() {
    let mut bench = Bench::new();
    let years = |years: &str| {
        format!("schedule: {{ cron: \"0 0 0 1 1 ? {years}\", timezone: Etc/UTC, dialect: quartz }}")
    };
    let last = WallMs::parse_rfc3339("1998-01-01T00:00:00Z").unwrap();
    assert_eq!(
        bench.asked(put("t/a", &years("1997-1998"))),
        Err(RequestError::Over {
            job: job_name("t/a"),
            last,
        })
    );
    let now = bench.now.wall.to_rfc3339();
    let year: u32 = now[..4].parse().unwrap();
    let this_and_next = years(&format!("{year}-{}", year + 1));
    assert!(bench.asked(put("t/a", &this_and_next)).is_ok());
    bench.stand_still(2 * 366 * 86_400_000);
    assert!(matches!(
        bench.asked(put("t/a", &this_and_next)),
        Ok(Done::JobPut {
            kind: PutKind::Unchanged,
            ..
        })
    ));
    assert!(matches!(
        bench.asked(put("t/b", &this_and_next)),
        Err(RequestError::Over { .. })
    ));
}

#[test]
fn a_change_whose_watermark_moved_is_computed_anew_and_loses_nothing() {
    let mut bench = Bench::new();
    bench.job("t/a", EVERY_10S);
    bench.commits = false;
    bench.pass(10_000);
    // The fire is on its way, and the change was computed without it.
    let id = bench.ask(put("t/a", "shards: 2"));
    bench.commit();
    assert_eq!(bench.answer(id), None);
    bench.commits = true;
    bench.settle();
    assert!(matches!(
        bench.answer(id),
        Some(Ok(Done::JobPut { version: 2, .. }))
    ));
    let puts =
        bench.logged(|c| matches!(c, Command::PutJob(put) if put.settle.is_some()).then_some(()));
    assert_eq!(puts.len(), 2);
    assert_eq!(bench.core.working_set().runs.len(), 1);
}

#[test]
fn what_moves_on_for_ever_is_refused_in_the_end() {
    let mut bench = Bench::new();
    bench.job("t/a", EVERY_10S);
    bench.commits = false;
    let id = bench.ask(put("t/a", "shards: 2"));
    let mut tries = 0;
    let answer = loop {
        // Somebody else's change is in the ledger before, each time.
        bench.move_watermark(JobId(1));
        bench.commit();
        tries += 1;
        assert!(tries < 20);
        if let Some(answer) = bench.answer(id) {
            break answer;
        }
        bench.settle();
    };
    assert!(matches!(
        answer,
        Err(RequestError::Refused(Refusal::WatermarkMoved { .. }))
    ));
    assert_eq!(tries, 6, "once, and five times anew");
}

#[test]
fn only_an_instant_of_the_schedule_can_be_run() {
    let mut bench = Bench::new();
    bench.job("t/a", EVERY_10S);
    let start = bench.now.wall;
    bench.pass(10_000);
    let beside = start + DurationMs(5_000);
    assert_eq!(
        bench.asked(run_at("t/a", beside)),
        Err(RequestError::NotAnInstant {
            job: job_name("t/a"),
            instant: beside
        })
    );
    let refused = |answer| match answer {
        Err(RequestError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    };
    let done = start + DurationMs(10_000);
    assert_eq!(
        refused(bench.asked(run_at("t/a", done))),
        Refusal::AlreadyHasRun {
            fire_time: done,
            run: RunId(1)
        }
    );
    let tonight = start + DurationMs(20_000);
    assert!(matches!(
        refused(bench.asked(run_at("t/a", tonight))),
        Refusal::InFuture { .. }
    ));
}

#[test]
fn of_an_unreadable_job_no_run_is_made_but_it_can_be_put_anew() {
    let mut bench = Bench::new();
    bench.job("t/a", EVERY_10S);
    bench.succeed_over(|set| {
        set.versions.values_mut().next().unwrap().manifest = Arc::from("{ not json");
    });
    bench.pass(30_000);
    assert_eq!(
        bench.asked(run_now("t/a")),
        Err(RequestError::Unreadable(job_name("t/a")))
    );
    assert!(bench.asked(put("t/a", "")).is_ok());
    let gaps = bench.store.job(&job_name("t/a")).unwrap().unwrap().gaps;
    assert_eq!(gaps.len(), 1);
    assert_eq!((gaps[0].count, gaps[0].through), (0, bench.now.wall));
}

#[test]
fn a_cancelled_lease_is_told_to_its_host_and_ends_by_its_receipt() {
    let mut bench = Bench::new();
    bench.job("t/a", "");
    let host = bench.attach("h1");
    let run = bench.run("t/a");
    let token = bench.start(host);
    bench.asked(cancel(run)).unwrap();
    let session = host.session;
    assert_eq!(
        bench.heard(host.conn),
        [CoordinatorBody::Cancel { session, token }]
    );
    assert_eq!(bench.state(run), RunState::Running);
    assert!(matches!(
        bench.asked(rerun(run)),
        Ok(Done::Rerun { execution: 2, .. })
    ));
    assert_eq!(bench.starts(host), []);
    bench.finish(host, token, AttemptOutcome::Cancelled);
    assert!(bench.start(host) > token);
}

#[test]
fn a_person_answers_for_what_failed() {
    let mut bench = Bench::new();
    bench.job("t/a", "retry: { at_most: 0, backoff: [1s] }");
    let host = bench.attach("h1");
    let run = bench.run("t/a");
    let token = bench.start(host);
    bench.finish(host, token, AttemptOutcome::Failed);
    assert_eq!(bench.state(run), RunState::NeedsConfirmation);
    let confirm = |verdict| Request::Confirm {
        run_id: run,
        shard: None,
        verdict,
        by: "ada".to_owned(),
        reason: "looked".to_owned(),
    };
    let state = RunState::Ready;
    assert_eq!(
        bench.asked(confirm(Verdict::Retry)),
        Ok(Done::Confirmed { state })
    );
    let token = bench.start(host);
    bench.finish(host, token, AttemptOutcome::Failed);
    let state = RunState::Failed;
    assert_eq!(
        bench.asked(confirm(Verdict::Failed)),
        Ok(Done::Confirmed { state })
    );
}
