//! Who is attached, and what becomes of a second one under the same name.

use coordinator_core::dispatch::Standing;
use coordinator_core::{ConnId, Request};
use ledger::command::Command;
use ledger::{Bar, Done};
use protocol::message::{AgentMessage, Attach, CoordinatorBody, Heartbeat, KeptProfile, Nonce};

use crate::bench::{Bench, Host, LONG, agent_name, attach};

/// A host that is attached and another connection of its identity that attaches.
fn challenged() -> (Bench, Host, ConnId) {
    let mut bench = Bench::new();
    let old = bench.attach("h1");
    let new = challenge(&mut bench, "h1");
    (bench, old, new)
}

fn challenge(bench: &mut Bench, name: &str) -> ConnId {
    let conn = bench.connect(name);
    bench.attaches(conn, attach(&[]));
    conn
}

fn standings(bench: &Bench) -> Vec<Standing> {
    let hosts = bench.core.hosts(bench.now);
    hosts.map(|host| host.standing).collect()
}

fn is_refusal(body: &CoordinatorBody) -> bool {
    matches!(body, CoordinatorBody::AttachRefused { .. })
}

#[test]
fn who_connected_before_the_reign_is_invited_when_it_begins() {
    let mut bench = Bench::beginning();
    let conn = bench.connect("h1");
    bench.settle();
    assert!(bench.invitations.is_empty());
    bench.commits = true;
    bench.attaches(conn, attach(&[]));
    let host = bench.attached(conn).unwrap();
    assert_eq!(standings(&bench), [Standing::Ready(host.session)]);
}

#[test]
fn what_was_said_for_an_earlier_reign_is_passed_over_and_the_connection_attaches_anew() {
    let mut bench = Bench::new();
    let old = bench.attach("h1");
    let nonce = bench.invitations[&old.conn];
    let late = Attach {
        epoch: bench.core.epoch().unwrap(),
        nonce,
        ..attach(&[])
    };
    bench.succeed();
    // The next core is given the connection that is open.
    let name = agent_name("h1");
    bench
        .core
        .handle_connected(old.conn, name, LONG, nonce, bench.now);
    bench.says(old.conn, AgentMessage::Attach(late));
    bench.beat(old, 7, &[]);
    let answer = AgentMessage::NonceAnswer {
        nonce: Nonce(old.conn.0),
        mine: false,
    };
    bench.says(old.conn, answer);
    assert_eq!(bench.heard(old.conn), []);
    bench.attaches(old.conn, attach(&[]));
    let host = bench.attached(old.conn).unwrap();
    assert!(host.session > old.session);
    assert_eq!(standings(&bench), [Standing::Ready(host.session)]);
}

#[test]
fn two_of_one_identity_are_told_apart_by_the_next_leader_too() {
    let mut bench = Bench::new();
    bench.succeed();
    let one = bench.connect("h1");
    let other = bench.connect("h1");
    bench.attaches(one, attach(&[]));
    bench.attaches(other, attach(&[]));
    bench.answer_nonce(one, other, false);
    assert_eq!(standings(&bench), [Standing::Barred(Bar::Quarantined)]);
}

#[test]
fn what_cannot_be_served_is_refused_with_the_reason() {
    let mut bench = Bench::new();
    for (bad, why) in [
        (
            Attach {
                slots: 0,
                ..attach(&[])
            },
            "0 slots",
        ),
        (
            Attach {
                slots: 5000,
                ..attach(&[])
            },
            "5000 slots",
        ),
    ] {
        let conn = bench.connect("h1");
        bench.attaches(conn, bad);
        match &bench.heard(conn)[..] {
            [CoordinatorBody::AttachRefused { reason }] => {
                assert!(reason.contains(why), "{reason}");
            }
            other => panic!("{other:?}"),
        }
        assert!(bench.closed.contains(&conn));
    }
    assert!(bench.core.working_set().agents.is_empty());
}

#[test]
fn a_connection_attaches_once() {
    let mut bench = Bench::new();
    let host = bench.attach("h1");
    bench.attaches(host.conn, attach(&[]));
    assert!(is_refusal(&bench.heard(host.conn)[0]));
    assert_eq!(bench.closed, [host.conn]);
}

#[test]
fn the_same_process_moves_to_its_new_connection() {
    let (mut bench, old, new) = challenged();
    let nonce = bench.invitations[&new];
    assert_eq!(
        bench.heard(old.conn),
        [CoordinatorBody::NonceQuery { nonce }]
    );
    bench.answer_nonce(old.conn, new, true);
    let host = bench.attached(new).unwrap();
    assert!(host.session > old.session);
    assert_eq!(bench.closed, [old.conn]);
    assert_eq!(standings(&bench), [Standing::Ready(host.session)]);
}

#[test]
fn a_process_that_was_not_given_the_nonce_quarantines_both_for_good() {
    let (mut bench, old, new) = challenged();
    bench.heard(old.conn);
    bench.answer_nonce(old.conn, new, false);
    for conn in [old.conn, new] {
        assert!(is_refusal(&bench.heard(conn)[0]));
        assert!(bench.closed.contains(&conn));
    }
    assert_eq!(standings(&bench), [Standing::Barred(Bar::Quarantined)]);
    bench.beat(old, 1, &[]);
    assert_eq!(bench.heard(old.conn), []);
    let again = challenge(&mut bench, "h1");
    assert!(is_refusal(&bench.heard(again)[0]));
    let reasons = bench.logged(|c| match c {
        Command::Quarantine(quarantine) => Some(quarantine.reason.clone()),
        _ => None,
    });
    assert_eq!(reasons.len(), 1);
    // A new certificate of the same name would be refused like the old one.
    assert!(reasons[0].contains("a name not used before"), "{reasons:?}");
}

#[test]
fn two_that_never_attached_before_are_quarantined_and_told_of_too() {
    let mut bench = Bench::new();
    bench.commits = false;
    let one = challenge(&mut bench, "h1");
    let other = challenge(&mut bench, "h1");
    bench.answer_nonce(one, other, false);
    bench.commits = true;
    bench.settle();
    for conn in [one, other] {
        assert!(bench.closed.contains(&conn));
        assert!(bench.attached(conn).is_none());
    }
    assert_eq!(standings(&bench), [Standing::Barred(Bar::Quarantined)]);
    let again = challenge(&mut bench, "h1");
    assert!(is_refusal(&bench.heard(again)[0]));
    let quarantined = bench.logged(|c| matches!(c, Command::Quarantine(_)).then_some(()));
    assert_eq!(quarantined, [()]);
}

fn revoke(name: &str) -> Request {
    Request::RevokeAgent {
        agent: agent_name(name),
        by: "ada".to_owned(),
        reason: "its key was copied".to_owned(),
    }
}

#[test]
fn a_revoked_agent_is_shut_out_at_once_and_its_leases_end_by_their_time() {
    let mut bench = Bench::new();
    bench.job("t/a", "");
    let host = bench.attach("h1");
    let run = bench.run("t/a");
    let token = bench.start(host);
    let done = bench.asked(revoke("h1"));
    assert_eq!(done, Ok(Done::Revoked { known: true }));
    assert_eq!(bench.closed, [host.conn]);
    let refusal = bench.heard(host.conn);
    assert!(matches!(
        &refusal[..],
        [CoordinatorBody::AttachRefused { reason }] if reason.contains("a name not used before")
    ));
    assert_eq!(standings(&bench), [Standing::Barred(Bar::Revoked)]);
    // Nothing it says counts, on this connection or another.
    bench.beat(host, 1, &[token]);
    let again = bench.connect("h1");
    bench.attaches(again, attach(&[]));
    assert!(is_refusal(&bench.heard(again)[0]));
    bench.pass(60_000);
    assert!(bench.holder(run, 0).is_some());
    bench.pass(2_000);
    assert!(bench.holder(run, 0).is_none());
}

#[test]
fn an_attach_under_way_when_its_agent_is_revoked_is_shut_out_too() {
    for attach_first in [true, false] {
        let mut bench = Bench::new();
        bench.commits = false;
        let conn = if attach_first {
            let conn = challenge(&mut bench, "h1");
            bench.ask(revoke("h1"));
            conn
        } else {
            bench.ask(revoke("h1"));
            challenge(&mut bench, "h1")
        };
        bench.commits = true;
        bench.settle();
        assert_eq!(bench.closed, [conn]);
        assert_eq!(standings(&bench), [Standing::Barred(Bar::Revoked)]);
    }
}

#[test]
fn an_old_connection_that_says_nothing_for_two_seconds_is_gone() {
    let (mut bench, old, new) = challenged();
    bench.pass(1_999);
    assert!(bench.closed.is_empty() && bench.attached(new).is_none());
    bench.pass(1);
    assert_eq!(bench.closed, [old.conn]);
    assert!(bench.attached(new).is_some());
}

#[test]
fn an_old_connection_that_ends_instead_of_answering_is_gone_at_once() {
    let (mut bench, old, new) = challenged();
    bench.disconnect(old.conn);
    assert!(bench.attached(new).is_some());
}

#[test]
fn of_several_that_attach_the_newest_counts() {
    let (mut bench, old, second) = challenged();
    let third = challenge(&mut bench, "h1");
    assert_eq!(bench.closed, [second]);
    bench.answer_nonce(old.conn, third, true);
    assert!(bench.attached(third).is_some());
    assert_eq!(bench.closed, [second, old.conn]);
}

#[test]
fn an_attach_on_a_connection_older_than_the_one_in_use_is_let_go() {
    let mut bench = Bench::new();
    let slow = bench.connect("h1");
    let host = bench.attach("h1");
    bench.attaches(slow, attach(&[]));
    assert_eq!(bench.closed, [slow]);
    assert_eq!(standings(&bench), [Standing::Ready(host.session)]);
}

#[test]
fn the_answer_to_an_earlier_question_is_no_verdict_on_a_later_one() {
    // The host moved twice, and its first answer was long on the way.
    for (gone_first, mine) in [(false, true), (true, true), (false, false), (true, false)] {
        let (mut bench, old, second) = challenged();
        if gone_first {
            bench.disconnect(second);
        }
        let third = challenge(&mut bench, "h1");
        bench.answer_nonce(old.conn, second, mine);
        assert_ne!(standings(&bench), [Standing::Barred(Bar::Quarantined)]);
        assert!(bench.attached(third).is_none());
        bench.answer_nonce(old.conn, third, true);
        assert!(bench.attached(third).is_some());
    }
}

#[test]
fn only_the_live_session_is_listened_to() {
    let mut bench = Bench::new();
    let old = bench.attach("h1");
    let other = bench.attach("h2");
    let (wall, attempts) = (bench.now.wall, Vec::new());
    let session = other.session;
    let beat = Heartbeat {
        round_trip: None,
        host: None,
        session,
        beat: 1,
        wall,
        attempts,
    };
    bench.says(old.conn, AgentMessage::Heartbeat(beat));
    assert_eq!(bench.heard(old.conn), []);
    // Nor is who has not attached, or is not there.
    let fresh = bench.connect("h3");
    let host = Host {
        conn: fresh,
        session: old.session,
    };
    bench.beat(host, 1, &[]);
    assert_eq!(bench.heard(fresh), []);
    bench.beat(
        Host {
            conn: ConnId(999),
            ..host
        },
        1,
        &[],
    );
}

#[test]
fn a_session_ends_after_a_quarter_of_an_hour_without_contact() {
    let mut bench = Bench::new();
    let host = bench.attach("h1");
    bench.pass(60_000);
    bench.beat(host, 1, &[]);
    bench.disconnect(host.conn);
    bench.pass(15 * 60_000 - 200);
    assert_eq!(
        bench.logged(|c| matches!(c, Command::EndSession(_)).then_some(())),
        []
    );
    bench.pass(400);
    assert_eq!(
        bench.logged(|c| matches!(c, Command::EndSession(_)).then_some(())),
        [()]
    );
    bench.pass(1_000);
    let set = bench.core.working_set();
    assert!(set.agents.values().all(|agent| agent.session.is_none()));
}

#[test]
fn a_leader_that_was_away_itself_does_not_call_the_others_silent() {
    let mut bench = Bench::new();
    let host = bench.attach("h1");
    bench.stand_still(20 * 60_000);
    assert_eq!(
        bench.logged(|c| matches!(c, Command::EndSession(_)).then_some(())),
        []
    );
    bench.beat(host, 1, &[]);
    assert_eq!(bench.acks(host), [(1, Vec::new())]);
}

#[test]
fn an_attach_is_told_what_to_kill_and_what_to_cancel() {
    let mut bench = Bench::new();
    bench.job("t/a", "");
    let host = bench.attach("h1");
    let run = bench.run("t/a");
    let token = bench.start(host);
    bench.disconnect(host.conn);
    bench.asked(crate::bench::cancel(run)).unwrap();
    let foreign = protocol::Token(77_777);
    let conn = bench.connect("h1");
    bench.attaches(conn, attach(&[token, foreign]));
    let session = bench
        .core
        .working_set()
        .agents
        .values()
        .next()
        .unwrap()
        .session
        .unwrap();
    assert_eq!(
        bench.heard(conn),
        [
            CoordinatorBody::Attached {
                session,
                kill: vec![foreign],
                profile: KeptProfile::Missing,
            },
            CoordinatorBody::Cancel { session, token }
        ]
    );
}
