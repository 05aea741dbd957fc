//! A receipt that an attach announces, and the shard that waits for it.

use ledger::RunState;
use ledger::command::Command;
use protocol::attempt::AttemptOutcome;
use protocol::{AgentId, DurationMs, RunId, Token};

use crate::bench::{Bench, Host, attach};

/// Restated from the core: how long a receipt is waited for.
const BOUND: i64 = 5_000;

/// A shard whose lease has expired, whose backoff has passed, and which nobody could take.
fn expired(yaml: &str) -> (Bench, RunId, Token) {
    let mut bench = Bench::new();
    let retry = "takeover_after: 15s\nretry: { at_most: 5, backoff: [1s] }";
    bench.job("t/a", &format!("{retry}\n{yaml}"));
    let host = bench.attach("h1");
    let run = bench.run("t/a");
    let (token, _) = bench.starts(host)[0];
    bench.disconnect(host.conn);
    bench.pass(20_000);
    assert_eq!(bench.holder(run, 0), None);
    (bench, run, token)
}

/// The same, where its host is back this moment, and another with free slots stands by.
fn announced() -> (Bench, Host, Host, RunId, Token) {
    let (mut bench, run, token) = expired("");
    let back = bench.attach_as("h1", attach(&[token]));
    let other = bench.attach("h2");
    assert_eq!(bench.holder(run, 0), None, "to nobody");
    (bench, back, other, run, token)
}

fn attempts(bench: &Bench, run: RunId) -> usize {
    bench.detail(run).shard_list[0].attempts.len()
}

#[test]
fn a_success_that_is_announced_is_not_computed_again() {
    let (mut bench, back, _, run, token) = announced();
    bench.pass(BOUND - 1);
    bench.finish(back, token, AttemptOutcome::Succeeded);
    assert_eq!(bench.detail(run).run.state, RunState::Succeeded);
    bench.pass(10_000);
    assert_eq!(attempts(&bench, run), 1);
}

#[test]
fn a_shard_whose_receipt_says_no_success_is_granted_at_once() {
    for outcome in [AttemptOutcome::Failed, AttemptOutcome::Lost] {
        let (mut bench, back, _, run, token) = announced();
        bench.finish(back, token, outcome);
        assert!(bench.holder(run, 0).is_some(), "{outcome:?}");
    }
}

#[test]
fn a_connection_that_ends_announces_nothing_any_more() {
    let (mut bench, back, _, run, _) = announced();
    bench.disconnect(back.conn);
    let holder = bench.holder(run, 0).map(|(agent, _)| agent);
    assert_eq!(holder, Some(AgentId(2)));
}

#[test]
fn a_receipt_that_does_not_come_is_waited_for_within_a_bound() {
    let (mut bench, _, _, run, _) = announced();
    let until = bench.now.boot + DurationMs(BOUND);
    bench.pass(BOUND - 1);
    assert_eq!(bench.core.poll_timeout(bench.now), until);
    assert_eq!(bench.holder(run, 0), None);
    bench.pass(1);
    assert!(bench.holder(run, 0).is_some());
    assert!(bench.core.poll_timeout(bench.now) > until);
}

#[test]
fn a_receipt_of_another_shard_or_from_another_host_is_not_the_one_that_is_awaited() {
    let (mut bench, run, token) = expired("shards: 2");
    let second = bench.detail(run).shard_list[1].attempts[0].token;
    let back = bench.attach_as("h1", attach(&[token, second]));
    let other = bench.attach("h2");
    bench.finish(other, token, AttemptOutcome::Succeeded);
    assert_eq!(bench.holder(run, 0), None);
    bench.finish(back, second, AttemptOutcome::Failed);
    assert_eq!(bench.holder(run, 0), None);
    assert!(bench.holder(run, 1).is_some());
    bench.finish(back, token, AttemptOutcome::Succeeded);
    assert_eq!(attempts(&bench, run), 1);
}

#[test]
fn an_attach_anew_announces_anew() {
    let (mut bench, run, token) = expired("");
    let back = bench.attach_as("h1", attach(&[token]));
    bench.pass(3_000);
    // The same process moves to another connection.
    let again = bench.connect("h1");
    bench.attaches(again, attach(&[token]));
    bench.answer_nonce(back.conn, again, true);
    assert!(bench.attached(again).is_some());
    bench.pass(BOUND - 1);
    assert_eq!(bench.holder(run, 0), None);
    bench.pass(1);
    assert!(bench.holder(run, 0).is_some());
}

#[test]
fn a_lease_that_expires_while_its_host_attaches_is_waited_for_too() {
    let mut bench = Bench::new();
    bench.job(
        "t/a",
        "takeover_after: 15s\nretry: { at_most: 2, backoff: [1s] }",
    );
    let host = bench.attach("h1");
    let run = bench.run("t/a");
    let token = bench.start(host);
    bench.attach("h2");
    bench.disconnect(host.conn);
    bench.pass(15_000);
    let back = bench.connect("h1");
    bench.commits = false;
    bench.attaches(back, attach(&[token]));
    bench.pass(1_000);
    bench.commit();
    let back = bench.attached(back).expect("it is attached");
    bench.commits = true;
    bench.settle();
    let expiries = bench.logged(|c| matches!(c, Command::Expire(_)).then_some(()));
    assert_eq!(expiries, [()]);
    bench.pass(BOUND - 1_100);
    assert_eq!(bench.holder(run, 0), None);
    bench.finish(back, token, AttemptOutcome::Succeeded);
    assert_eq!(attempts(&bench, run), 1);
}

#[test]
fn a_shard_that_waits_for_its_receipt_does_not_go_to_a_person_meanwhile() {
    let (mut bench, run, token) = expired("start_deadline: 20s");
    // 16 s of lease, 1 s of backoff: the deadline is 37 s after the grant.
    bench.pass(16_000);
    bench.attach_as("h1", attach(&[token]));
    bench.pass(BOUND - 100);
    assert_eq!(bench.state(run), RunState::Running);
    bench.pass(100);
    assert!(bench.holder(run, 0).is_some());
}

#[test]
fn nothing_is_awaited_from_an_attach_that_announces_nothing() {
    let (mut bench, run, _) = expired("");
    bench.attach("h1");
    assert!(bench.holder(run, 0).is_some());
}
