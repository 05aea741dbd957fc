//! Which shard goes where, in what order, and what becomes of one that goes nowhere.

use std::sync::Arc;

use coordinator_core::Request;
use ledger::RunState;
use ledger::command::{AlertKind, Command};
use protocol::attempt::{AttemptOutcome, Trigger};
use protocol::message::{Attach, CoordinatorBody};
use protocol::{AgentId, RunId};

use crate::bench::{Bench, attach, cancel};

/// Grants in the order in which they were committed: run, shard.
fn grants(bench: &Bench) -> Vec<(RunId, u32)> {
    bench.logged(|command| match command {
        Command::Grant(grant) => Some((grant.run_id, grant.shard)),
        _ => None,
    })
}

fn one_slot() -> Attach {
    Attach {
        slots: 1,
        ..attach(&[])
    }
}

#[test]
fn nobody_hears_of_a_grant_before_it_is_committed() {
    let mut bench = Bench::new();
    let host = bench.attach("h1");
    bench.job("t/b", "");
    bench.commits = false;
    bench.ask(crate::bench::run_now("t/b"));
    bench.commit();
    assert_eq!(
        bench.starts(host),
        [],
        "the run is there, its grant is on its way"
    );
    bench.commits = true;
    bench.settle();
    assert_eq!(bench.starts(host).len(), 1);
}

#[test]
fn the_oldest_admission_is_served_first() {
    let mut bench = Bench::new();
    for job in ["t/a", "t/b", "t/c"] {
        bench.job(job, "shards: 2");
    }
    let mut runs = Vec::new();
    for job in ["t/c", "t/a", "t/b"] {
        bench.pass(1_000);
        runs.push(bench.run(job));
    }
    let host = bench.attach_as("h1", one_slot());
    for _ in 0..5 {
        let token = bench.start(host);
        bench.finish(host, token, AttemptOutcome::Succeeded);
    }
    let served: Vec<_> = runs
        .into_iter()
        .flat_map(|run| [(run, 0), (run, 1)])
        .collect();
    assert_eq!(grants(&bench), served);
}

#[test]
fn shards_of_a_run_spread_and_no_slot_and_no_shard_is_given_twice() {
    let mut bench = Bench::new();
    bench.job("t/a", "shards: 5");
    let hosts = [("h1", 1), ("h2", 1), ("h3", 4)].map(|(name, slots)| {
        bench.attach_as(
            name,
            Attach {
                slots,
                ..attach(&[])
            },
        )
    });
    bench.commits = false;
    bench.ask(crate::bench::run_now("t/a"));
    bench.commit();
    // A slot stays free, and ticks while the grants are on their way must not fill it.
    bench.pass(300);
    bench.commits = true;
    bench.settle();
    assert_eq!(hosts.map(|host| bench.starts(host).len()), [1, 1, 3]);
    assert_eq!(grants(&bench).len(), 5);
}

#[test]
fn the_slot_of_a_grant_that_is_refused_goes_to_the_next() {
    let mut bench = Bench::new();
    bench.job("t/a", "");
    bench.job("t/b", "");
    let host = bench.attach_as("h1", one_slot());
    bench.pass(15_000);
    let (cancelled, next) = (bench.run("t/a"), bench.run("t/b"));
    bench.commits = false;
    bench.ask(cancel(cancelled));
    // Only now can it be given work, and what it is given is cancelled already.
    bench.beat(host, 1, &[]);
    bench.commit_first(1);
    bench.settle();
    assert_eq!(bench.holder(next, 0), None);
    bench.commits = true;
    bench.settle();
    assert!(bench.holder(next, 0).is_some());
}

#[test]
fn a_host_that_was_not_heard_for_three_beats_gets_nothing_until_it_is() {
    let mut bench = Bench::new();
    bench.job("t/a", "");
    bench.job("t/b", "");
    let host = bench.attach("h1");
    bench.pass(14_999);
    bench.run("t/a");
    assert_eq!(bench.starts(host).len(), 1);
    bench.pass(1);
    bench.run("t/b");
    assert_eq!(bench.starts(host), []);
    bench.beat(host, 1, &[]);
    assert_eq!(bench.starts(host).len(), 1);
}

#[test]
fn a_place_that_opens_in_any_way_is_taken_at_once() {
    let full = || {
        let mut bench = Bench::new();
        for job in ["t/a", "t/b"] {
            bench.job(
                job,
                "takeover_after: 15s\nretry: { at_most: 0, backoff: [1s] }",
            );
        }
        let host = bench.attach_as("h1", one_slot());
        let first = bench.run("t/a");
        let token = bench.start(host);
        bench.run("t/b");
        assert_eq!(bench.starts(host), []);
        (bench, host, first, token)
    };
    let (mut bench, host, _, token) = full();
    bench.finish(host, token, AttemptOutcome::Failed);
    assert_eq!(bench.starts(host).len(), 1, "a receipt");

    let (mut bench, host, _, token) = full();
    bench.disconnect(host.conn);
    let host = bench.attach_as(
        "h1",
        Attach {
            slots: 2,
            ..attach(&[token])
        },
    );
    assert_eq!(
        bench.starts(host).len(),
        1,
        "a host that attaches with more slots"
    );

    let (mut bench, _, _, _) = full();
    let other = bench.attach_as("h2", one_slot());
    assert_eq!(bench.starts(other).len(), 1, "another host");

    let (mut bench, host, _, _) = full();
    for beat in 1..=4 {
        bench.pass(5_000);
        bench.beat(host, beat, &[]);
    }
    assert_eq!(bench.starts(host).len(), 1, "an expiry");
}

#[test]
fn a_shard_is_tried_elsewhere_before_it_is_tried_again_where_it_failed() {
    let mut bench = Bench::new();
    bench.job("t/a", "");
    let first = bench.attach("h1");
    let run = bench.run("t/a");
    let token = bench.start(first);
    bench.attach_as("h2", one_slot());
    bench.finish(first, token, AttemptOutcome::Failed);
    bench.pass(999);
    assert_eq!(bench.holder(run, 0), None, "it rests");
    bench.pass(1);
    assert_eq!(
        bench.holder(run, 0).map(|(agent, _)| agent),
        Some(AgentId(2))
    );
}

#[test]
fn a_shard_that_nobody_takes_goes_to_a_person_with_the_reason() {
    let mut bench = Bench::new();
    bench.job("t/b", "timeout: 1h");
    let busy = bench.attach_as("h1", one_slot());
    bench.run("t/b");
    let token = bench.start(busy);
    bench.job(
        "t/a",
        "schedule: { cron: \"@every 10m\", timezone: Etc/UTC }",
    );
    bench.keep(busy, &[token], 600_000);
    let (&run, _) = bench.core.working_set().runs.iter().last().unwrap();
    // It may wait until the next fire would come, counted from when it could be placed.
    bench.keep(busy, &[token], 595_000);
    bench.pass(4_900);
    assert_eq!(bench.state(run), RunState::Ready);
    bench.pass(100);
    assert_eq!(bench.state(run), RunState::NeedsConfirmation);
    let reason = bench.detail(run).shard_list[0].reason.clone().unwrap();
    assert_eq!(
        reason,
        "no host could take it: 1 host considered: 1 without a free slot"
    );
}

#[test]
fn a_run_at_a_persons_wish_that_finds_no_host_does_not_stand_in_the_way_for_ever() {
    let mut bench = Bench::new();
    bench.job("t/a", "start_deadline: 4s");
    let run = bench.run("t/a");
    bench.pass(3_900);
    assert_eq!(bench.state(run), RunState::Ready);
    bench.pass(200);
    assert_eq!(bench.state(run), RunState::NeedsConfirmation);
}

#[test]
fn a_run_whose_manifest_cannot_be_read_is_given_to_nobody() {
    let mut bench = Bench::new();
    bench.job("t/a", "");
    bench.job("t/b", "");
    let (broken, sound) = (bench.run("t/a"), bench.run("t/b"));
    bench.succeed_over(|set| {
        let row = set.versions.values_mut().next().unwrap();
        row.manifest = Arc::from("{ not json");
    });
    let host = bench.attach("h1");
    assert_eq!(bench.starts(host).len(), 1);
    assert!(bench.holder(sound, 0).is_some());
    assert_eq!(bench.holder(broken, 0), None);
    // After a day, the longest that anything may wait to be placed.
    bench.stand_still(24 * 3_600_000);
    assert_eq!(bench.state(broken), RunState::NeedsConfirmation);
    let reason = bench.detail(broken).shard_list[0].reason.clone().unwrap();
    assert!(reason.contains("its manifest cannot be read"), "{reason}");
}

#[test]
fn a_person_hears_of_what_is_ready_for_an_hour_be_it_late_or_not() {
    const MINUTE: i64 = 60_000;
    for catches_up in [false, true] {
        let mut bench = Bench::new();
        bench.job(
            "t/a",
            "schedule: { cron: \"0 */6 * * *\", timezone: Etc/UTC }",
        );
        let run = if catches_up {
            let to_the_next = 6 * 60 * MINUTE - bench.now.wall.0.rem_euclid(6 * 60 * MINUTE);
            bench.stand_still(to_the_next + 5 * MINUTE);
            RunId(1)
        } else {
            bench.run("t/a")
        };
        let trigger = bench.core.working_set().runs[&run].trigger;
        assert_eq!(trigger == Trigger::CatchUp, catches_up);
        let told = |bench: &Bench| {
            let kinds = bench.logged(|command| match command {
                Command::RaiseAlert(alert) => Some(alert.kind),
                _ => None,
            });
            kinds.contains(&AlertKind::BacklogOld)
        };
        bench.stand_still(59 * MINUTE);
        assert!(!told(&bench));
        bench.stand_still(2 * MINUTE);
        assert!(told(&bench), "catches up: {catches_up}");
    }
}

fn set(resource: &str, capacity: u32) -> Request {
    Request::PutResource {
        resource: resource.parse().unwrap(),
        capacity,
        by: "ada".to_owned(),
    }
}

/// However it came to want more than there is: whether its line was empty or taken, and whichever
/// of what it needs was made less.
#[test]
fn who_wants_more_than_there_is_keeps_nobody_from_the_rest() {
    for (held, reduced) in [(false, "lock"), (true, "lock"), (true, "db")] {
        let mut bench = Bench::new();
        for resource in ["db", "lock"] {
            bench.asked(set(resource, 2)).unwrap();
        }
        bench.job("t/first", "needs: { uses: { lock: 1 } }");
        bench.job(
            "t/hi",
            "priority: 90\nneeds: { uses: { db: 2, lock: 2 }, labels: [ssd] }",
        );
        bench.job("t/lo", "needs: { uses: { lock: 1 } }");
        let h1 = bench.attach_as(
            "h1",
            Attach {
                labels: vec!["ssd".parse().unwrap()],
                ..attach(&[])
            },
        );
        let holder = held.then(|| bench.run("t/first"));
        if held {
            bench.run("t/hi");
            let lo = bench.run("t/lo");
            assert_eq!(bench.holder(lo, 0), None, "what is left is kept for hi");
            bench.asked(set(reduced, 1)).unwrap();
            if reduced == "lock" {
                bench.finish(
                    h1,
                    bench.holder(holder.unwrap(), 0).unwrap().1,
                    AttemptOutcome::Succeeded,
                );
            }
            assert!(bench.holder(lo, 0).is_some(), "{reduced}");
        } else {
            bench.asked(set(reduced, 1)).unwrap();
            let hi = bench.run("t/hi");
            let lo = bench.run("t/lo");
            assert!(bench.holder(lo, 0).is_some());
            let waits = bench.core.waits_of(hi, bench.now);
            assert_eq!(
                waits[&0].to_string(),
                "no host can take it now: 1 host considered: 1 with a free slot; resource `lock`: \
                 it needs 2, and the capacity is 1: `matins resource set lock 2`, or let the job \
                 ask for less"
            );
        }
        // As soon as there is as much again, it has its turn.
        for resource in ["db", "lock"] {
            bench.asked(set(resource, 9)).unwrap();
        }
        assert_eq!(
            bench.starts(h1).len(),
            2 + usize::from(held),
            "{held} {reduced}"
        );
    }
}

#[test]
fn waiting_runs_take_their_turns() {
    let mut bench = Bench::new();
    bench.job("t/a", "overlap: queue");
    let host = bench.attach("h1");
    let runs = [(); 3].map(|()| bench.run("t/a"));
    for (i, run) in runs.into_iter().enumerate() {
        let states: Vec<_> = runs[i..].iter().map(|run| bench.state(*run)).collect();
        assert_eq!(states[0], RunState::Running);
        assert!(states[1..].iter().all(|state| *state == RunState::Waiting));
        if i == 1 {
            // Turns come by cancelling too.
            bench.asked(cancel(run)).unwrap();
        }
        let token = bench.start(host);
        bench.finish(host, token, AttemptOutcome::Succeeded);
    }
    assert!(bench.core.working_set().runs.is_empty());
}

#[test]
fn the_number_of_a_runs_shards_is_that_of_its_version() {
    let mut bench = Bench::new();
    bench.job("t/a", "shards: 3\noverlap: queue");
    let host = bench.attach_as("h1", one_slot());
    let shards_told = |bench: &mut Bench| -> Vec<(u32, u32)> {
        let heard = bench.heard(host.conn).into_iter();
        let starts = heard.filter_map(|body| match body {
            CoordinatorBody::Start { token, work, .. } => Some((token, work)),
            _ => None,
        });
        let starts: Vec<_> = starts.collect();
        for (token, _) in &starts {
            bench.finish(host, *token, AttemptOutcome::Succeeded);
        }
        starts
            .iter()
            .map(|(_, work)| (work.shard, work.shards))
            .collect()
    };
    bench.run("t/a");
    let mut told = shards_told(&mut bench);
    // While the first run is on its way, another version comes, and a second run of it.
    bench.job("t/a", "shards: 2\noverlap: queue");
    bench.run("t/a");
    for _ in 0..6 {
        told.extend(shards_told(&mut bench));
        bench.settle();
    }
    assert_eq!(told, [(0, 3), (1, 3), (2, 3), (0, 2), (1, 2)]);
}
