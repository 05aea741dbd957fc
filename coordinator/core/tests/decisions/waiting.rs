//! Who is judged again when what changes, and who is left alone.

use ledger::RunState;
use ledger::command::Command;
use protocol::RunId;
use protocol::attempt::AttemptOutcome;
use protocol::message::CoordinatorBody;

use crate::bench::{Bench, cancel, rerun};

/// Runs that were judged again, oldest judgement first.
fn judged(bench: &Bench) -> Vec<i64> {
    bench.logged(|command| match command {
        Command::Admit(admit) => Some(admit.run_id.0),
        _ => None,
    })
}

fn state(bench: &Bench, run: i64) -> Option<RunState> {
    let run = bench.core.working_set().runs.get(&RunId(run));
    run.map(|run| run.state)
}

const HOURLY: &str = "schedule: { cron: \"0 * * * *\", timezone: Etc/UTC }";

#[test]
fn the_end_of_one_wakes_the_next_in_line_and_nobody_else() {
    let mut bench = Bench::new();
    bench.job("t/a", "");
    for _ in 0..50 {
        bench.run("t/a");
    }
    assert_eq!(
        judged(&bench),
        [] as [i64; 0],
        "nothing has changed for anybody"
    );
    bench.asked(cancel(RunId(1))).unwrap();
    assert_eq!(
        (judged(&bench), state(&bench, 2)),
        (vec![2], Some(RunState::Ready))
    );
    // One leaves the middle of the line: the one behind it closes up.
    bench.asked(cancel(RunId(25))).unwrap();
    assert_eq!(judged(&bench), [2, 26]);
    bench.pass(1_000);
    assert_eq!(judged(&bench), [2, 26]);
    // Whoever leads next finds each behind one that stands where it stood.
    bench.succeed();
    bench.pass(1_000);
    assert_eq!(judged(&bench), [2, 26]);
    bench.asked(cancel(RunId(2))).unwrap();
    assert_eq!(judged(&bench), [2, 26, 3]);
}

#[test]
fn whoever_leads_next_judges_whom_the_last_one_has_not_come_to() {
    let mut bench = Bench::new();
    bench.job("t/a", "");
    for _ in 0..5 {
        bench.run("t/a");
    }
    bench.commits = false;
    for run in [1, 3] {
        bench.ask(cancel(RunId(run)));
    }
    bench.settle();
    bench.commit();
    assert_eq!(judged(&bench), [] as [i64; 0], "it dies before it does so");
    bench.commits = true;
    bench.succeed();
    bench.pass(1_000);
    assert_eq!(judged(&bench), [2, 4]);
    assert_eq!(state(&bench, 2), Some(RunState::Ready));
    for (cancelled, next) in [(2, 4), (4, 5)] {
        bench.asked(cancel(RunId(cancelled))).unwrap();
        assert_eq!(state(&bench, next), Some(RunState::Ready));
    }
}

/// As many as may catch up at once, whoever leads meanwhile.
#[test]
fn whoever_leads_next_gives_the_turns_that_are_free() {
    let mut bench = Bench::new();
    bench.job(
        "t/a",
        "schedule: { cron: \"* * * * *\", timezone: Etc/UTC }\noverlap: allow\n\
         misfire: { policy: run_now, after: 1s }\n\
         catch_up: { at_most: 6, window: 1d, concurrency: 2 }",
    );
    bench.stand_still(6 * 60_000);
    let by_state = |bench: &Bench, wanted: RunState| -> Vec<i64> {
        let runs = bench.core.working_set().runs.values();
        let found = runs.filter(|run| run.state == wanted);
        found.map(|run| run.run_id.0).collect()
    };
    let ready = by_state(&bench, RunState::Ready);
    let waiting = by_state(&bench, RunState::Waiting);
    assert_eq!((ready.len(), waiting.len()), (3, 3), "one is in time");
    bench.commits = false;
    bench.ask(cancel(RunId(ready[0])));
    bench.settle();
    bench.commit();
    bench.commits = true;
    let before = judged(&bench).len();
    bench.succeed();
    assert_eq!(judged(&bench)[before..], [waiting[0], waiting[1]]);
    assert_eq!(state(&bench, waiting[0]), Some(RunState::Ready));
    assert_eq!(by_state(&bench, RunState::Waiting), waiting[1..]);
}

#[test]
fn a_predecessor_wakes_its_waiters_when_it_appears_and_when_it_ends() {
    let mut bench = Bench::new();
    bench.job("t/import", "");
    bench.job(
        "t/b",
        &format!("{HOURLY}\nafter: [{{ job: t/import, latest_within: 2h }}]\nstart_deadline: 2h"),
    );
    // The first whole hour of the bench's world.
    let hour = 3_600_000;
    bench.pass(hour - bench.now.wall.0.rem_euclid(hour));
    assert_eq!(
        (judged(&bench), state(&bench, 1)),
        (vec![], Some(RunState::Waiting))
    );
    let import = bench.run("t/import");
    assert_eq!(
        (judged(&bench), state(&bench, 1)),
        (vec![1], Some(RunState::Waiting))
    );
    bench.pass(10_000);
    assert_eq!(judged(&bench), [1]);
    bench.asked(cancel(import)).unwrap();
    assert_eq!((judged(&bench), state(&bench, 1)), (vec![1, 1], None));
    let run = bench.detail(RunId(1)).run;
    assert_eq!(
        run.reason.as_deref(),
        Some("after: run-2 of t/import is cancelled")
    );
}

#[test]
fn who_waits_in_vain_is_skipped_at_the_start_deadline_by_whoever_leads() {
    let mut bench = Bench::new();
    bench.job("t/import", "");
    bench.job(
        "t/b",
        &format!("{HOURLY}\nafter: [{{ job: t/import, match: same_fire }}]\nstart_deadline: 10m"),
    );
    let hour = 3_600_000;
    bench.pass(hour - bench.now.wall.0.rem_euclid(hour));
    bench.pass(9 * 60_000);
    bench.succeed();
    bench.pass(59_000);
    assert_eq!(state(&bench, 1), Some(RunState::Waiting));
    bench.pass(2_000);
    let run = bench.detail(RunId(1)).run;
    assert_eq!(
        (run.state.as_str(), run.reason.as_deref()),
        (
            "skipped",
            Some("its start deadline passed; after: t/import has no run for this fire yet")
        )
    );
}

#[test]
fn who_replaces_waits_for_the_host_that_is_told_to_stop() {
    let mut bench = Bench::new();
    bench.job("t/a", "overlap: replace");
    let host = bench.attach("h1");
    bench.run("t/a");
    let token = bench.start(host);
    bench.run("t/a");
    assert_eq!(state(&bench, 2), Some(RunState::Waiting));
    let session = host.session;
    assert_eq!(
        bench.heard(host.conn),
        [CoordinatorBody::Cancel { session, token }]
    );
    bench.finish(host, token, AttemptOutcome::Cancelled);
    assert_eq!(state(&bench, 2), Some(RunState::Running));
}

/// Under `strict` a run that asks a person holds up those after it; carried out again, it comes last.
#[test]
fn who_waits_behind_a_run_that_is_carried_out_again_goes_first() {
    let mut bench = Bench::new();
    bench.job(
        "t/a",
        "overlap: queue\nserial: strict\nretry: { at_most: 0, backoff: [1s] }",
    );
    let host = bench.attach("h1");
    let [first, second] = [bench.run("t/a"), bench.run("t/a")];
    let token = bench.start(host);
    bench.finish(host, token, AttemptOutcome::Failed);
    assert_eq!(bench.state(first), RunState::NeedsConfirmation);
    assert_eq!(bench.state(second), RunState::Waiting);
    assert_eq!(judged(&bench), [second.0], "it may go where it is relaxed");
    bench.asked(rerun(first)).unwrap();
    assert_eq!(judged(&bench), [second.0, second.0]);
    let token = bench.start(host);
    assert_eq!(bench.state(second), RunState::Running);
    bench.finish(host, token, AttemptOutcome::Succeeded);
    bench.start(host);
    assert_eq!(bench.state(first), RunState::Running);
}
