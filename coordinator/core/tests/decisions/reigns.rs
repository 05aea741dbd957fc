//! The beginning of a reign, and its end.

use ledger::RunState;
use ledger::command::Command;
use protocol::message::CoordinatorBody;

use crate::bench::{Bench, attach, run_now};

#[test]
fn nothing_is_decided_before_the_reign_is_committed() {
    let mut bench = Bench::beginning();
    bench.pass(5_000);
    assert_eq!(bench.core.epoch(), None);
    bench.commit();
    assert!(matches!(bench.log[..], [Command::BecomeActive(_)]));
    assert_eq!(bench.core.epoch(), bench.core.working_set().epoch);
}

#[test]
fn who_meets_another_reign_says_nothing_any_more() {
    let mut bench = Bench::new();
    bench.job("t/a", "");
    let host = bench.attach("h1");
    // A host on its way to another connection, whose old one ends when all is over.
    let moved = bench.attach("h2");
    let conn = bench.connect("h2");
    bench.attaches(conn, attach(&[]));
    bench.usurp();
    bench.commits = false;
    let id = bench.ask(run_now("t/a"));
    bench.commit();
    assert!(!bench.deposed, "a person's wish is true in any reign");
    assert!(bench.answer(id).is_some());
    bench.settle();
    bench.commit();
    assert!(bench.deposed, "its grant is not");
    assert_eq!(bench.core.epoch(), None);
    assert_eq!(bench.starts(host), []);
    bench.beat(host, 1, &[]);
    bench.ask(run_now("t/a"));
    bench.disconnect(moved.conn);
    bench.pass(60_000);
    assert_eq!(bench.heard(host.conn), Vec::<CoordinatorBody>::new());
    assert!(bench.core.poll_proposal().is_none());
}

#[test]
fn leases_and_attached_hosts_go_on_under_the_next_reign() {
    let mut bench = Bench::new();
    bench.job("t/a", "");
    let host = bench.attach("h1");
    let run = bench.run("t/a");
    let token = bench.start(host);
    bench.succeed();
    let host = bench.attach_as("h1", attach(&[token]));
    bench.beat(host, 1, &[token]);
    assert_eq!(bench.acks(host), [(1, vec![token])]);
    bench.finish(host, token, protocol::attempt::AttemptOutcome::Succeeded);
    assert_eq!(bench.detail(run).run.state, RunState::Succeeded);
}
