//! What people do with a job or a run that stands: pause, resume, parameters, redo, and being asked.

use std::collections::BTreeMap;

use coordinator_core::{Request, RequestError};
use ledger::command::{Command, Decision, GapReason};
use ledger::{Done, Refusal, RunState};
use protocol::attempt::{AttemptOutcome, Trigger, Work};
use protocol::message::CoordinatorBody;
use protocol::{DurationMs, JobId, RunId};

use crate::bench::{Bench, Host, job_name, run_now};

const EVERY_10S: &str = "schedule: { cron: \"@every 10s\", timezone: Etc/UTC }";
const HOUR: i64 = 3_600_000;

fn pause(job: &str) -> Request {
    Request::Pause {
        job: job_name(job),
        by: "ada".to_owned(),
        reason: "the bank is shut".to_owned(),
    }
}

fn resume(job: &str) -> Request {
    Request::Resume {
        job: job_name(job),
        by: "ada".to_owned(),
    }
}

fn redo(run_id: RunId, force: bool) -> Request {
    Request::Redo {
        run_id,
        by: "ada".to_owned(),
        reason: "the rates were wrong".to_owned(),
        force,
    }
}

/// What the host was told to run first, since it was last asked.
fn work_told(bench: &mut Bench, host: Host) -> Box<Work> {
    let mut said = bench.heard(host.conn).into_iter();
    let work = said.find_map(|said| match said {
        CoordinatorBody::Start { work, .. } => Some(work),
        _ => None,
    });
    work.expect("something to run")
}

#[test]
fn a_paused_job_fires_no_more_and_a_resumed_one_from_then_on() {
    let mut bench = Bench::new();
    bench.job("t/a", EVERY_10S);
    assert_eq!(
        bench.asked(pause("t/a")),
        Ok(Done::Paused { changed: true })
    );
    assert_eq!(
        bench.asked(pause("t/a")),
        Ok(Done::Paused { changed: false })
    );
    assert_eq!(bench.core.next_fire(JobId(1)), None);
    bench.pass(35_000);
    // Whoever leads next finds it paused.
    bench.succeed();
    bench.pass(35_000);
    assert!(bench.core.working_set().runs.is_empty());
    let resumed = |changed, skipped| Ok(Done::Resumed { changed, skipped });
    assert_eq!(bench.asked(resume("t/a")), resumed(true, 7));
    assert_eq!(bench.asked(resume("t/a")), resumed(false, 0));
    bench.pass(10_000);
    assert_eq!(bench.core.working_set().runs.len(), 1);
    assert_eq!(
        bench.asked(pause("t/none")),
        Err(RequestError::NoSuchJob(job_name("t/none")))
    );
}

#[test]
fn a_pause_waits_for_no_clock_but_a_resume_does() {
    let mut bench = Bench::new();
    bench.job("t/a", EVERY_10S);
    bench.now.wall = bench.now.wall + DurationMs(5_000);
    assert_eq!(
        bench.asked(pause("t/a")),
        Ok(Done::Paused { changed: true })
    );
    assert!(matches!(
        bench.asked(resume("t/a")),
        Err(RequestError::ClockHeld { .. })
    ));
}

#[test]
fn what_was_decided_before_the_pause_is_decided_anew() {
    let mut bench = Bench::new();
    bench.job("t/a", EVERY_10S);
    bench.commits = false;
    bench.pass(10_000);
    // The fire is on its way; the pause is committed after it, the deletion settles the rest.
    let paused = bench.ask(pause("t/a"));
    bench.commit();
    assert_eq!(
        bench.answer(paused),
        Some(Ok(Done::Paused { changed: true }))
    );
    bench.commits = true;
    bench.settle();
    assert_eq!(bench.core.working_set().runs.len(), 1);
    bench.pass(20_000);
    let delete = Request::DeleteJob {
        job: job_name("t/a"),
        by: "ada".to_owned(),
    };
    assert_eq!(bench.asked(delete), Ok(Done::JobDeleted));
    let gaps = bench.logged(|command| match command {
        Command::DeleteJob(delete) => Some(delete.settle.decisions.clone()),
        _ => None,
    });
    let [decisions] = &gaps[..] else {
        panic!("{gaps:?}")
    };
    assert!(
        matches!(
            decisions[..],
            [Decision::Gap {
                count: 2,
                reason: GapReason::Paused,
                ..
            }]
        ),
        "{decisions:?}"
    );
}

#[test]
fn a_run_by_hand_takes_the_parameters_that_its_manifest_names() {
    const WITH_PARAMS: &str = "params: { region: east, day: today }\n\
         run: { exec: [\"/bin/echo\", \"{params.region}\", \"{params.day}\"] }";
    let mut bench = Bench::new();
    bench.job("t/a", WITH_PARAMS);
    let host = bench.attach("h1");
    let with = |name: &str| {
        let Request::Run {
            job,
            instant,
            by,
            reason,
            ..
        } = run_now("t/a")
        else {
            unreachable!("a run is asked for")
        };
        Request::Run {
            params: BTreeMap::from([(name.to_owned(), "west".to_owned())]),
            job,
            instant,
            by,
            reason,
        }
    };
    let refused = bench.asked(with("regoin"));
    assert!(
        matches!(refused, Err(RequestError::Params { .. })),
        "{refused:?}"
    );
    assert!(bench.asked(with("region")).is_ok());
    let work = work_told(&mut bench, host);
    assert_eq!(work.exec, ["/bin/echo", "west", "today"]);
    assert_eq!(bench.detail(RunId(1)).run.params["region"], "west");
}

#[test]
fn a_redo_does_all_of_it_again_and_says_so_to_its_host() {
    let mut bench = Bench::new();
    bench.job("t/a", "repeatable: { safe: false }");
    let host = bench.attach("h1");
    let run = bench.run("t/a");
    let token = bench.start(host);
    assert!(matches!(
        bench.asked(redo(run, true)),
        Err(RequestError::Refused(Refusal::WrongRunState { .. }))
    ));
    bench.finish(host, token, AttemptOutcome::Succeeded);
    assert!(matches!(
        bench.asked(redo(run, false)),
        Err(RequestError::Refused(Refusal::NotHarmless { .. }))
    ));
    bench.heard(host.conn);
    assert!(bench.asked(redo(run, true)).is_ok());
    let work = work_told(&mut bench, host);
    assert_eq!((work.trigger, work.attempt), (Trigger::Redo, 1));
    assert!(work.redo > Some(token.0) && work.fence > work.redo);
}

#[test]
fn who_is_asked_is_reminded_every_four_hours_whoever_leads() {
    let mut bench = Bench::new();
    bench.job("t/a", "retry: { at_most: 0, backoff: [1s] }");
    let host = bench.attach("h1");
    let run = bench.run("t/a");
    let token = bench.start(host);
    bench.finish(host, token, AttemptOutcome::Failed);
    assert_eq!(bench.state(run), RunState::NeedsConfirmation);
    let reminded = |bench: &Bench| {
        let remind = |command: &Command| matches!(command, Command::Remind(_)).then_some(());
        bench.logged(remind).len()
    };
    bench.stand_still(3 * HOUR);
    assert_eq!(reminded(&bench), 0);
    bench.succeed();
    bench.stand_still(HOUR + 1_000);
    assert_eq!(reminded(&bench), 1);
    bench.stand_still(4 * HOUR + 1_000);
    assert_eq!(reminded(&bench), 2);
    bench.asked(redo(run, false)).unwrap();
    bench.stand_still(5 * HOUR);
    assert_eq!(reminded(&bench), 2);
}
