//! Hosts that do not fare well: two looks must agree, a cordon stays, and an operator's word wins.

use coordinator_core::Request;
use ledger::Cordon;
use ledger::command::Command;
use protocol::host::HostHealth;
use protocol::message::{AgentMessage, Heartbeat};
use protocol::{Health, HostNow, Token};

use crate::bench::{Bench, Host, agent_name};

/// Two hosts, of which the first is looked at.
struct Watched {
    bench: Bench,
    a: Host,
    b: Host,
    beats: u64,
    looks: u64,
}

impl Watched {
    fn new() -> Watched {
        let mut bench = Bench::new();
        let (a, b) = (bench.attach("a"), bench.attach("b"));
        let (beats, looks) = (0, 0);
        Watched {
            bench,
            a,
            b,
            beats,
            looks,
        }
    }

    /// A look at host a finds this, and two beats tell of it.
    fn finds(&mut self, health: Health, holds: &[Token]) {
        self.looks += 1;
        for _ in 0..2 {
            self.beats += 1;
            let found = HostHealth {
                look: self.looks,
                health: health.as_str().to_owned(),
                reasons: vec!["array md0 has lost a member".to_owned()],
                rebuilding: false,
            };
            let heartbeat = Heartbeat {
                round_trip: None,
                host: Some(HostNow {
                    health: Some(found),
                    ..HostNow::default()
                }),
                session: self.a.session,
                beat: self.beats,
                wall: self.bench.now.wall,
                attempts: holds.to_vec(),
            };
            self.bench
                .says(self.a.conn, AgentMessage::Heartbeat(heartbeat));
            self.bench.beat(self.b, self.beats, &[]);
            self.bench.pass(5_000);
        }
    }

    /// Its agent attaches anew, be it that its connection broke.
    fn attaches_again(&mut self) {
        self.bench.disconnect(self.a.conn);
        self.bench.pass(1_000);
        self.a = self.bench.attach("a");
        self.beats = 0;
    }

    /// After each of these looks, how host a is cordoned.
    fn check(&mut self, looks: &[(Health, Option<Cordon>)]) {
        for (place, &(health, expected)) in looks.iter().enumerate() {
            self.finds(health, &[]);
            assert_eq!(self.cordon(), expected, "look {place} of {looks:?}");
        }
    }

    fn cordon(&self) -> Option<Cordon> {
        let mut agents = self.bench.core.working_set().agents.values();
        let a = agents.find(|agent| agent.name == agent_name("a"));
        a.expect("it has attached").cordon
    }

    /// Health and word of every note that was committed.
    fn notes(&self) -> Vec<(Health, bool)> {
        self.bench.logged(|command| match command {
            Command::NoteHealth(note) => Some((note.health, note.act)),
            _ => None,
        })
    }

    fn uncordon(&mut self) {
        let agent = agent_name("a");
        let by = "ada".to_owned();
        self.bench.asked(Request::Uncordon { agent, by }).unwrap();
    }

    /// Another leader, to which both attach.
    fn succeed(&mut self) {
        self.bench.succeed();
        self.bench.pass(1_000);
        (self.a, self.b) = (self.bench.attach("a"), self.bench.attach("b"));
    }
}

const OK: Health = Health::Ok;
const FAILED: Health = Health::Failed;
const UNWELL: Option<Cordon> = Some(Cordon::Unwell);

#[test]
fn a_host_is_cordoned_when_two_looks_agree_and_stays_so() {
    let mut watched = Watched::new();
    watched.check(&[
        (FAILED, None),
        (OK, None),
        (FAILED, None),
        (FAILED, UNWELL),
        (FAILED, UNWELL),
        (OK, UNWELL),
        (OK, UNWELL),
        (OK, UNWELL),
    ]);
    // It is said once that it has recovered.
    assert_eq!(watched.notes(), [(FAILED, true), (OK, false)]);
    watched.succeed();
    watched.check(&[(OK, UNWELL), (OK, UNWELL)]);
    watched.uncordon();
    watched.check(&[(OK, None), (FAILED, None), (FAILED, UNWELL)]);
}

/// One bad look does not become two because the connection broke after it.
#[test]
fn a_look_that_is_told_again_after_an_attach_counts_once() {
    let mut watched = Watched::new();
    watched.check(&[(OK, None), (OK, None), (FAILED, None)]);
    for _ in 0..3 {
        watched.attaches_again();
        watched.looks -= 1;
        watched.check(&[(FAILED, None)]);
    }
    watched.check(&[(FAILED, UNWELL)]);
}

/// How a host fared an hour ago is not how it fares.
#[test]
fn of_a_host_that_is_not_attached_nothing_is_said() {
    let mut watched = Watched::new();
    let said = |watched: &Watched| watched.bench.core.host_now(&agent_name("a")).is_some();
    assert!(!said(&watched), "it has told nothing yet");
    watched.finds(OK, &[]);
    assert!(said(&watched));
    watched.bench.disconnect(watched.a.conn);
    watched.bench.pass(1_000);
    assert!(!said(&watched));
}

#[test]
fn what_ran_there_goes_on_and_nothing_follows() {
    let mut watched = Watched::new();
    watched.bench.job("t/j", "shards: 2");
    let run = watched.bench.run("t/j");
    let held = |watched: &Watched, run| {
        [0, 1].map(|shard| watched.bench.holder(run, shard).map(|(_, token)| token))
    };
    let before = held(&watched, run);
    let token = watched.bench.start(watched.a);
    let elsewhere = watched.bench.start(watched.b);
    for _ in 0..3 {
        watched.finds(FAILED, &[token]);
        let beat = watched.beats;
        watched.bench.beat(watched.b, beat + 1, &[elsewhere]);
        watched.beats += 1;
    }
    assert_eq!(watched.cordon(), UNWELL);
    assert_eq!(held(&watched, run), before);
    watched.bench.job("t/next", "shards: 3");
    watched.bench.run("t/next");
    assert_eq!(watched.bench.starts(watched.a), []);
    assert_eq!(watched.bench.starts(watched.b).len(), 3);
}

#[test]
fn an_operator_s_word_wins() {
    let mut watched = Watched::new();
    watched.check(&[(FAILED, None), (FAILED, UNWELL)]);
    watched.uncordon();
    watched.check(&[(FAILED, None), (FAILED, None)]);
    watched.succeed();
    watched.check(&[(FAILED, None), (FAILED, None), (FAILED, None)]);
    // It was well in between: that it fails anew is news.
    watched.check(&[(OK, None), (OK, None), (FAILED, None), (FAILED, UNWELL)]);
    watched.uncordon();
    for _ in 0..2 {
        watched.finds(OK, &[]);
    }
    let cordon = Request::Cordon {
        agent: agent_name("a"),
        cordon: Cordon::Draining,
        by: "ada".to_owned(),
        reason: "a new disk".to_owned(),
    };
    watched.bench.asked(cordon).unwrap();
    let draining = Some(Cordon::Draining);
    watched.check(&[(FAILED, draining), (FAILED, draining), (OK, draining)]);
}
