//! An acknowledgement is a promise, and is given only when it can be kept.

use protocol::attempt::AttemptOutcome;
use protocol::message::{AgentMessage, CoordinatorBody, Receipt, Started};
use protocol::{RunState, Token};

use crate::bench::{Bench, attach};

#[test]
fn a_beat_is_acknowledged_by_a_round_that_began_after_it_arrived() {
    let mut bench = Bench::new();
    let (h1, h2) = (bench.attach("h1"), bench.attach("h2"));
    bench.quorum = false;
    bench.beat(h1, 1, &[]);
    let [first] = bench.rounds[..] else {
        panic!("{:?}", bench.rounds)
    };
    // These arrive when the round is under way, which says nothing of the time after.
    bench.beat(h2, 1, &[]);
    bench.beat(h1, 2, &[]);
    assert_eq!(bench.rounds, [first]);
    assert_eq!(bench.acks(h1), []);
    // A round that nobody waits for says nothing either.
    bench.core.handle_quorum(first + 7, bench.now);
    bench.settle();
    assert_eq!(bench.acks(h1), []);
    bench.core.handle_quorum(first, bench.now);
    bench.settle();
    assert_eq!(bench.acks(h1), [(1, Vec::new())]);
    assert_eq!(bench.acks(h2), []);
    // One round serves both.
    assert_eq!(bench.rounds, [first, first + 1]);
    bench.core.handle_quorum(first + 1, bench.now);
    bench.settle();
    assert_eq!(bench.acks(h1), [(2, Vec::new())]);
    assert_eq!(bench.acks(h2), [(1, Vec::new())]);
    assert_eq!(bench.rounds.len(), 2, "nothing waits any more");
}

#[test]
fn the_leases_that_live_are_named_and_only_the_hosts_own() {
    let mut bench = Bench::new();
    bench.job("t/a", "shards: 2");
    let (h1, h2) = (bench.attach("h1"), bench.attach("h2"));
    bench.run("t/a");
    let (first, second) = (bench.start(h1), bench.start(h2));
    bench.beat(h1, 1, &[first]);
    bench.beat(h2, 1, &[]);
    assert_eq!(bench.acks(h1), [(1, vec![first])]);
    assert_eq!(bench.acks(h2), [(1, vec![second])]);
    bench.finish(h1, first, AttemptOutcome::Succeeded);
    bench.beat(h1, 2, &[]);
    assert_eq!(bench.acks(h1), [(2, Vec::new())]);
}

#[test]
fn a_lease_whose_expiry_is_on_its_way_is_left_out() {
    let mut bench = Bench::new();
    bench.job("t/a", "takeover_after: 15s");
    let host = bench.attach("h1");
    bench.run("t/a");
    let token = bench.start(host);
    // Another lease would be kept alive by the beats; this one is not listed.
    bench.pass(15_600);
    bench.commits = false;
    bench.pass(100);
    bench.beat(host, 1, &[token]);
    assert_eq!(bench.acks(host), [(1, Vec::new())]);
    bench.commit();
    bench.beat(host, 2, &[token]);
    assert_eq!(bench.acks(host), [(2, Vec::new())]);
}

#[test]
fn a_beat_of_a_connection_that_has_gone_is_nobodys() {
    let mut bench = Bench::new();
    let host = bench.attach("h1");
    bench.quorum = false;
    bench.beat(host, 1, &[]);
    bench.disconnect(host.conn);
    bench.quorum = true;
    bench.settle();
    assert_eq!(bench.heard(host.conn), []);
}

#[test]
fn a_receipt_is_acknowledged_when_it_is_committed_whatever_it_is_worth() {
    let mut bench = Bench::new();
    bench.job("t/a", "");
    let host = bench.attach("h1");
    let run = bench.run("t/a");
    let token = bench.start(host);
    bench.commits = false;
    bench.finish(host, token, AttemptOutcome::Succeeded);
    assert_eq!(bench.heard(host.conn), []);
    bench.commits = true;
    bench.settle();
    assert_eq!(
        bench.heard(host.conn),
        [CoordinatorBody::ReceiptAck { token }]
    );
    assert_eq!(bench.detail(run).run.state, RunState::Succeeded);
    for again in [token, Token(12_345)] {
        bench.finish(host, again, AttemptOutcome::Failed);
        assert_eq!(
            bench.heard(host.conn),
            [CoordinatorBody::ReceiptAck { token: again }]
        );
    }
    assert_eq!(bench.detail(run).run.state, RunState::Succeeded);
}

#[test]
fn who_is_not_attached_may_report_nothing() {
    let mut bench = Bench::new();
    bench.job("t/a", "");
    let host = bench.attach("h1");
    let run = bench.run("t/a");
    let token = bench.start(host);
    let before = bench.log.len();
    let conn = bench.connect("h1");
    let at = bench.now.wall;
    bench.says(conn, AgentMessage::Started(Started { token, at }));
    let end = protocol::attempt::AttemptEnd {
        outcome: AttemptOutcome::Succeeded,
        exit: None,
        started_at: None,
        ended_at: at,
        cpu: protocol::DurationMs::ZERO,
        memory_bytes_peak: 0,
        out_of_memory: false,
        usage: None,
        not_enforced: Vec::new(),
        reason: None,
        tail: String::new(),
    };
    bench.says(conn, AgentMessage::Receipt(Receipt { token, end }));
    assert_eq!(bench.log.len(), before);
    // On the attached connection the start is noted.
    bench.says(host.conn, AgentMessage::Started(Started { token, at }));
    assert_eq!(
        bench.detail(run).shard_list[0].attempts[0].started_at,
        Some(at)
    );
}

#[test]
fn work_rests_on_the_last_acknowledged_beat_of_the_session() {
    let mut bench = Bench::new();
    bench.job("t/a", "");
    let host = bench.attach("h1");
    bench.run("t/a");
    assert_eq!(bench.starts(host)[0].1, 0, "the attach is beat 0");
    bench.beat(host, 1, &[]);
    bench.beat(host, 2, &[]);
    bench.quorum = false;
    bench.beat(host, 3, &[]);
    bench.job("t/b", "");
    bench.run("t/b");
    assert_eq!(bench.starts(host)[0].1, 2);
    bench.quorum = true;
    bench.settle();
    let conn = bench.connect("h1");
    bench.disconnect(host.conn);
    bench.attaches(conn, attach(&[]));
    let host = bench.attached(conn).unwrap();
    bench.job("t/c", "");
    bench.run("t/c");
    assert!(
        bench
            .starts(host)
            .iter()
            .all(|(_, rests_on)| *rests_on == 0)
    );
}
