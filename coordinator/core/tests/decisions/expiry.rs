//! When a lease ends of which its host says nothing any more.

use protocol::attempt::AttemptOutcome;
use protocol::message::CoordinatorBody;
use protocol::{RunId, Token};

use crate::bench::{Bench, Host, attach};

/// Restated from the design: 15 s, 1 % of it, and half a second.
const FULL: i64 = 15_000 + 150 + 500;

/// A lease on a host that was attached this moment.
fn leased() -> (Bench, Host, RunId, Token) {
    let mut bench = Bench::new();
    bench.job(
        "t/a",
        "takeover_after: 15s\nretry: { at_most: 2, backoff: [1h] }",
    );
    let host = bench.attach("h1");
    let run = bench.run("t/a");
    let token = bench.start(host);
    (bench, host, run, token)
}

fn is_lost(bench: &Bench, run: RunId) -> bool {
    let outcome = bench.detail(run).shard_list[0].attempts[0].outcome;
    assert!(outcome.is_none_or(|outcome| outcome == AttemptOutcome::Lost));
    outcome.is_some()
}

/// Lets `full` pass, and sees the lease end in its last millisecond but not before.
#[track_caller]
fn ends_after(bench: &mut Bench, run: RunId, full: i64) {
    bench.pass(full - 1);
    assert!(!is_lost(bench, run), "too early");
    bench.pass(1);
    assert!(is_lost(bench, run), "too late");
}

#[test]
fn an_attempt_that_its_host_does_not_end_is_given_up_after_its_time_out() {
    let mut bench = Bench::new();
    bench.job("t/a", "timeout: 1m\ntakeover_after: 15s");
    let host = bench.attach("h1");
    let run = bench.run("t/a");
    let token = bench.start(host);
    // Its whole time is 15 s + 1 min 0.6 s + 1 min.
    bench.keep(host, &[token], 130_000);
    assert!(bench.acks(host).last().unwrap().1.contains(&token));
    bench.keep(host, &[token], 15_000);
    assert!(!bench.acks(host).last().unwrap().1.contains(&token));
    assert_eq!(bench.holder(run, 0).map(|(_, token)| token), Some(token));
    bench.keep(host, &[token], 10_000);
    assert_ne!(bench.holder(run, 0).map(|(_, token)| token), Some(token));
    let attempts = &bench.detail(run).shard_list[0].attempts;
    let reason = attempts[0].reason.as_deref().unwrap();
    assert!(
        reason.starts_with("h1 has not ended it within 1m after its time-out"),
        "{reason}"
    );
}

#[test]
fn a_silent_hosts_lease_ends_after_its_full_time_and_is_tried_again() {
    let (mut bench, _, run, _) = leased();
    ends_after(&mut bench, run, FULL);
    let detail = bench.detail(run);
    let attempt = &detail.shard_list[0].attempts[0];
    assert_eq!(
        attempt.reason.as_deref(),
        Some("h1 was not heard of for 15s")
    );
    assert_eq!(detail.run.pending, 1);
}

#[test]
fn the_time_counts_from_the_last_acknowledged_beat_that_listed_it() {
    let (mut bench, host, run, token) = leased();
    bench.pass(10_000);
    bench.beat(host, 1, &[token]);
    // A beat that is not acknowledged promises nothing.
    bench.quorum = false;
    bench.pass(5_000);
    bench.beat(host, 2, &[token]);
    bench.disconnect(host.conn);
    bench.quorum = true;
    bench.settle();
    ends_after(&mut bench, run, FULL - 5_000);
}

#[test]
fn a_lease_that_its_host_no_longer_lists_ends_alone() {
    let mut bench = Bench::new();
    bench.job(
        "t/a",
        "shards: 2\ntakeover_after: 15s\nretry: { at_most: 1, backoff: [1h] }",
    );
    let host = bench.attach("h1");
    let run = bench.run("t/a");
    let [(kept, _), (left_out, _)] = bench.starts(host)[..] else {
        panic!()
    };
    bench.keep(host, &[kept], 30_000);
    let held = [0, 1].map(|shard| bench.holder(run, shard).map(|(_, token)| token));
    assert_eq!(held, [Some(kept), None]);
    assert_ne!(kept, left_out);
}

#[test]
fn another_host_that_lists_it_does_not_keep_it() {
    let (mut bench, _, run, token) = leased();
    let other = bench.attach("h2");
    bench.keep(other, &[token], 15_000);
    bench.pass(FULL - 15_000);
    assert!(is_lost(&bench, run));
}

#[test]
fn an_attach_that_holds_it_counts_as_a_beat() {
    let (mut bench, host, run, token) = leased();
    bench.pass(10_000);
    bench.disconnect(host.conn);
    let conn = bench.connect("h1");
    bench.attaches(conn, attach(&[token]));
    ends_after(&mut bench, run, FULL);
}

#[test]
fn a_new_leader_gives_every_lease_its_full_time_again() {
    let (mut bench, _, run, _) = leased();
    bench.pass(FULL - 1);
    bench.succeed();
    ends_after(&mut bench, run, FULL + 600);
}

#[test]
fn a_leader_that_stood_still_gives_every_lease_its_full_time_again() {
    let (mut bench, _, run, _) = leased();
    bench.pass(FULL - 1);
    bench.stand_still(601);
    ends_after(&mut bench, run, FULL);
    // So late a timer may be without that.
    let (mut bench, _, run, _) = leased();
    bench.pass(FULL - 1);
    bench.stand_still(600);
    assert!(is_lost(&bench, run));
}

#[test]
fn a_leader_without_its_quorum_takes_nothing_away() {
    let (mut bench, _, run, _) = leased();
    bench.quorum = false;
    bench.pass(60_000);
    assert!(!is_lost(&bench, run));
    assert_eq!(
        bench.rounds.len(),
        1,
        "one round is asked for, and not again every tick"
    );
    bench.quorum = true;
    bench.settle();
    assert!(is_lost(&bench, run));
}

#[test]
fn a_beat_acknowledged_meanwhile_saves_the_lease() {
    let (mut bench, host, run, token) = leased();
    bench.pass(FULL - 1);
    bench.quorum = false;
    bench.beat(host, 1, &[token]);
    bench.pass(1);
    // Due by now, and it rides on the round after the one that acknowledges the beat.
    bench.quorum = true;
    bench.settle();
    assert!(!is_lost(&bench, run));
    assert_eq!(bench.acks(host), [(1, vec![token])]);
}

#[test]
fn who_attaches_while_the_expiry_is_on_its_way_is_told_to_kill() {
    let (mut bench, host, _, token) = leased();
    bench.pass(FULL - 1);
    bench.disconnect(host.conn);
    bench.commits = false;
    let conn = bench.connect("h1");
    bench.attaches(conn, attach(&[token]));
    bench.pass(1);
    bench.commit_first(1);
    match &bench.heard(conn)[..] {
        [CoordinatorBody::Attached { kill, .. }] => assert_eq!(kill[..], [token]),
        other => panic!("{other:?}"),
    }
}
