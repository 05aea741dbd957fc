//! When jobs fire, and when they do not.

use std::sync::Arc;

use ledger::RunState;
use ledger::command::{AlertKind, Command, Decision, On};
use protocol::{DurationMs, JobId, WallMs};

use crate::bench::Bench;

const EVERY_10S: &str = "schedule: { cron: \"@every 10s\", timezone: Etc/UTC }\n\
                         start_deadline: 30s";

/// Runs of the job, oldest first: state.
fn states(bench: &Bench) -> Vec<&'static str> {
    let runs = bench.core.working_set().runs.values();
    runs.map(|run| run.state.as_str()).collect()
}

fn fires(bench: &Bench) -> usize {
    let fires = bench.logged(|command| match command {
        Command::Fire(fire) => Some(fire.decisions.len()),
        _ => None,
    });
    fires.iter().sum()
}

#[test]
fn a_job_fires_when_its_instant_has_come_and_once() {
    let mut bench = Bench::new();
    bench.job("t/a", EVERY_10S);
    bench.pass(9_999);
    assert_eq!(fires(&bench), 0);
    assert_eq!(
        bench.core.poll_timeout(bench.now),
        bench.now.boot + DurationMs(1)
    );
    bench.pass(1);
    assert_eq!(fires(&bench), 1);
    bench.pass(9_900);
    assert_eq!(fires(&bench), 1);
    assert_eq!(states(&bench), ["ready"]);
}

#[test]
fn while_a_fire_is_on_its_way_it_is_not_decided_again() {
    let mut bench = Bench::new();
    bench.job("t/a", EVERY_10S);
    bench.commits = false;
    bench.pass(12_000);
    bench.commits = true;
    bench.settle();
    assert_eq!(fires(&bench), 1);
}

#[test]
fn after_a_step_of_the_clock_nothing_fires_for_a_minute_and_nothing_is_lost() {
    for step in [3_600_000, -3_600_000] {
        let mut bench = Bench::new();
        bench.job("t/a", EVERY_10S);
        bench.now.wall = bench.now.wall + DurationMs(step);
        bench.stand_still(100);
        bench.pass(59_900);
        assert_eq!(fires(&bench), 0, "{step}");
        bench.pass(100);
        assert_eq!(fires(&bench) > 0, step > 0, "{step}");
        bench.now.wall = bench.now.wall - DurationMs(step);
        bench.stand_still(100);
        bench.pass(70_000);
        let row = &bench.core.working_set().jobs[&JobId(1)];
        assert!(
            row.fired_through >= bench.now.wall - DurationMs(20_000),
            "{step}"
        );
    }
}

#[test]
fn a_run_that_waits_for_its_turn_is_skipped_at_its_start_deadline() {
    let mut bench = Bench::new();
    bench.job("t/a", EVERY_10S);
    let host = bench.attach("h1");
    bench.pass(20_000);
    // The first is held by its host, and the others wait.
    let first = bench.start(host);
    bench.beat(host, 1, &[first]);
    assert_eq!(states(&bench), ["running", "waiting"]);
    let (&second, _) = bench.core.working_set().runs.iter().last().unwrap();
    bench.pass(29_900);
    let before = bench.detail(second).run.state;
    bench.pass(200);
    assert_eq!(
        (before.as_str(), bench.detail(second).run.state.as_str()),
        ("waiting", "skipped")
    );
}

#[test]
fn a_job_that_cannot_be_read_stands_still_loudly_and_alone() {
    let mut bench = Bench::new();
    bench.job("t/a", EVERY_10S);
    bench.job("t/b", EVERY_10S);
    bench.succeed_over(|set| {
        let row = set.versions.values_mut().next().unwrap();
        row.manifest = Arc::from("{ not json");
    });
    bench.pass(10_000);
    assert_eq!(fires(&bench), 1);
    assert_eq!(bench.core.next_fire(JobId(1)), None);
    let alerts = bench.logged(|command| match command {
        Command::RaiseAlert(alert) => Some((alert.on, alert.text.clone())),
        _ => None,
    });
    let [(On::Job(JobId(1)), text)] = &alerts[..] else {
        panic!("{alerts:?}")
    };
    assert!(text.starts_with("t/a does not fire: "), "{text}");
    // A person puts it anew, and it fires.
    bench.job("t/a", &format!("{EVERY_10S}\nshards: 2"));
    bench.pass(10_000);
    let open = bench.core.working_set().runs.values();
    let of_a: Vec<_> = open
        .filter(|run| run.job_id == JobId(1))
        .map(|run| run.state)
        .collect();
    assert_eq!(of_a, [RunState::Ready]);
}

#[test]
fn a_job_whose_fires_are_forgotten_is_stopped_and_a_person_told() {
    let mut bench = Bench::new();
    bench.job("t/a", EVERY_10S);
    bench.job("t/b", EVERY_10S);
    (bench.forgets_fires, bench.differs) = (true, true);
    bench.pass(11_000);
    let stopped = bench.logged(|command| match command {
        Command::PauseJob(pause) => Some((pause.job_id, pause.reason.clone())),
        _ => None,
    });
    let reason = "it fired 3 times within a minute in which its schedule names 1 instants";
    assert_eq!(
        stopped,
        [(JobId(1), reason.to_owned()), (JobId(2), reason.to_owned())]
    );
    let told = bench.logged(|command| match command {
        Command::RaiseAlert(alert) if alert.kind == AlertKind::FuseBlown => Some(alert.on),
        _ => None,
    });
    assert_eq!(told, [On::Job(JobId(1)), On::Job(JobId(2))]);
    let before = fires(&bench);
    bench.pass(60_000);
    assert_eq!(fires(&bench), before);
}

#[test]
fn a_clock_that_was_ahead_and_is_set_back_is_told_of() {
    let mut bench = Bench::new();
    bench.job("t/a", EVERY_10S);
    let told = |bench: &Bench| {
        bench.logged(|command| match command {
            Command::RaiseAlert(alert) if alert.kind == AlertKind::ClockBehind => Some(()),
            _ => None,
        })
    };
    let two_hours = DurationMs(2 * 3_600_000);
    bench.now.wall = bench.now.wall + two_hours;
    bench.pass(180_000);
    assert_eq!(told(&bench), [], "ahead, and believed after a minute");
    bench.now.wall = bench.now.wall - two_hours;
    bench.pass(1_000);
    assert_eq!(told(&bench), [()]);
    bench.succeed();
    assert_eq!(told(&bench), [(), ()], "and again by whoever leads next");
}

#[test]
fn a_fire_on_its_way_through_the_ledger_does_not_keep_the_shell_awake() {
    let mut bench = Bench::new();
    bench.job("t/a", EVERY_10S);
    bench.commits = false;
    bench.pass(10_000);
    assert!(bench.core.poll_timeout(bench.now) > bench.now.boot);
    bench.commits = true;
    bench.commit();
    assert_eq!(fires(&bench), 1);
}

/// Every fire time that was admitted, oldest first.
fn fire_times(bench: &Bench) -> Vec<WallMs> {
    let fired = bench.logged(|command| match command {
        Command::Fire(fire) => Some(fire.decisions.clone()),
        _ => None,
    });
    let times = fired
        .into_iter()
        .flatten()
        .filter_map(|decision| match decision {
            Decision::Run { fire_time, .. } => Some(fire_time),
            _ => None,
        });
    times.collect()
}

#[test]
fn woken_early_and_set_back_a_little_two_hundred_jobs_fire_once_each() {
    let mut bench = Bench::new();
    for job in 0..200 {
        bench.job(&format!("t/job-{job}"), EVERY_10S);
    }
    // 30 ms before the instant, the clock is slewed back by 100 ms; then it is woken every 10 ms.
    bench.pass(9_970);
    assert_eq!(fires(&bench), 0);
    bench.now.wall = bench.now.wall - DurationMs(100);
    for _ in 0..40 {
        bench.stand_still(10);
    }
    let times = fire_times(&bench);
    assert_eq!(times.len(), 200);
    assert!(times.iter().all(|&at| at <= bench.now.wall));
}

#[test]
fn a_clock_a_day_ahead_and_a_restart_run_no_instant_twice() {
    let mut bench = Bench::new();
    bench.job(
        "t/a",
        &format!("{EVERY_10S}\nmisfire: {{ policy: skip, after: 60s }}"),
    );
    bench.pass(20_000);
    let day = DurationMs(86_400_000);
    bench.now.wall = bench.now.wall + day;
    bench.succeed();
    bench.pass(30_000);
    bench.now.wall = bench.now.wall - day;
    bench.succeed();
    bench.pass(120_000);
    bench.now.wall = bench.now.wall + day;
    bench.succeed();
    bench.pass(30_000);
    let mut times = fire_times(&bench);
    let all = times.len();
    times.sort_unstable();
    times.dedup();
    assert_eq!(times.len(), all);
    assert!(all >= 4, "{times:?}");
}
