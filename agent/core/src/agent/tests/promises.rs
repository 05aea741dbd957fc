//! Random inputs against the promise restated: an attempt's deadline never lies later than what
//! an acknowledged listing beat allows, and one that passed is never moved again.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Input {
    Pass(i64),
    Connect,
    Disconnect,
    Attached {
        kill: Vec<i64>,
    },
    /// Acks the beat this many before the last, with these tokens alive.
    Ack {
        back: u64,
        live: Vec<i64>,
    },
    Start {
        token: i64,
        back: u64,
    },
    Cancel(i64),
    Launched(i64),
    Ended(i64),
    ReceiptAck(i64),
    SupervisorBlip,
}

fn input() -> impl Strategy<Value = Input> {
    let token = || 1..8i64;
    let tokens = || prop::collection::vec(1..8i64, 0..8);
    prop_oneof![
        4 => (0..70_000i64).prop_map(Input::Pass),
        8 => (0..6_000i64).prop_map(Input::Pass),
        2 => Just(Input::Connect),
        1 => Just(Input::Disconnect),
        3 => tokens().prop_map(|kill| Input::Attached { kill: kill.into_iter().take(2).collect() }),
        8 => (0..4u64, tokens()).prop_map(|(back, live)| Input::Ack { back, live }),
        6 => (token(), 0..3u64).prop_map(|(token, back)| Input::Start { token, back }),
        1 => token().prop_map(Input::Cancel),
        2 => token().prop_map(Input::Launched),
        1 => token().prop_map(Input::Ended),
        1 => token().prop_map(Input::ReceiptAck),
        1 => Just(Input::SupervisorBlip),
    ]
}

/// What a bystander who reads every message and every order knows.
#[derive(Default)]
struct Bystander {
    connections: u64,
    sessions: i64,
    /// Beats of the session: when each was sent, and what it listed.
    beats: BTreeMap<u64, (i64, BTreeSet<i64>)>,
    attached: bool,
    /// Latest deadline that the promises given so far allow.
    allowed: BTreeMap<i64, i64>,
    /// Deadline the supervisor was last told.
    told: BTreeMap<i64, i64>,
    killed: BTreeSet<i64>,
}

impl Bystander {
    fn reads(&mut self, actions: Vec<Action>, now: i64) -> Result<(), TestCaseError> {
        for action in actions {
            match action {
                Action::Send {
                    message: AgentMessage::Attach(a),
                    ..
                } => {
                    let listed = a.attempts.iter().map(|t| t.0).collect();
                    self.beats = BTreeMap::from([(0, (now, listed))]);
                    self.attached = false;
                }
                Action::Send {
                    message: AgentMessage::Heartbeat(h),
                    ..
                } => {
                    let listed = h.attempts.iter().map(|t| t.0).collect();
                    self.beats.insert(h.beat, (now, listed));
                }
                Action::Supervise(Request::Launch(l)) => {
                    let token = l.token.0;
                    prop_assert!(!self.told.contains_key(&token), "{token} launched twice");
                    self.tells(token, l.deadline.0, now)?;
                }
                Action::Supervise(Request::Extend { token, deadline }) => {
                    prop_assert!(deadline.0 > self.told[&token.0]);
                    let dead = self.killed.contains(&token.0) || self.told[&token.0] <= now;
                    prop_assert!(!dead, "{token} revived");
                    self.tells(token.0, deadline.0, now)?;
                }
                Action::Supervise(Request::Kill { token, .. }) => {
                    self.killed.insert(token.0);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn tells(&mut self, token: i64, deadline: i64, now: i64) -> Result<(), TestCaseError> {
        prop_assert!(deadline > now, "{token} given a deadline of the past");
        let allowed = self.allowed.get(&token).copied();
        prop_assert!(
            Some(deadline) <= allowed,
            "{token}: {deadline} > {allowed:?}"
        );
        self.told.insert(token, deadline);
        Ok(())
    }

    /// The coordinator promises, from the send time of this beat, for what it listed.
    fn promise(&mut self, beat: u64, tokens: impl Fn(i64) -> bool) {
        let Some((sent, listed)) = self.beats.get(&beat) else {
            return;
        };
        for &token in listed.iter().filter(|&&t| tokens(t)) {
            let allowed = self.allowed.entry(token).or_insert(i64::MIN);
            *allowed = (*allowed).max(sent + LIFE);
        }
    }
}

fn apply(host: &mut Host, seen: &mut Bystander, input: Input) {
    let connection = ConnectionId(seen.connections);
    let session = SessionId(seen.sessions);
    let last = seen.beats.keys().next_back().copied().unwrap_or(0);
    match input {
        Input::Pass(ms) => {
            host.pass(ms);
        }
        Input::Connect => {
            seen.connections += 1;
            host.connects(ConnectionId(seen.connections));
        }
        Input::Disconnect => host.agent.handle_disconnected(connection, host.now()),
        Input::Attached { kill } => {
            if seen.attached || !seen.beats.contains_key(&0) {
                return;
            }
            seen.attached = true;
            seen.sessions += 1;
            seen.promise(0, |t| !kill.contains(&t));
            let body = CoordinatorBody::Attached {
                session: SessionId(seen.sessions),
                kill: kill.into_iter().map(Token).collect(),
                profile: KeptProfile::Missing,
            };
            host.says_in(5, connection, body);
        }
        Input::Ack { back, live } => {
            let beat = last.saturating_sub(back);
            if seen.attached {
                seen.promise(beat, |t| live.contains(&t));
            }
            let body = CoordinatorBody::HeartbeatAck {
                session,
                beat,
                live: live.into_iter().map(Token).collect(),
            };
            host.says_in(5, connection, body);
        }
        Input::Start { token, back } => {
            let rests_on = last.saturating_sub(back);
            // A Start is a promise too, but only the first of a token.
            if let Some(&(sent, _)) = seen.beats.get(&rests_on)
                && seen.attached
                && !seen.told.contains_key(&token)
            {
                seen.allowed.insert(token, sent + LIFE);
            }
            host.says_in(5, connection, start_in(session, token, rests_on));
        }
        Input::Cancel(token) => {
            let token = Token(token);
            host.says_in(5, connection, CoordinatorBody::Cancel { session, token });
        }
        Input::Launched(token) => host.agent.handle_supervisor(launched(token), host.now()),
        Input::Ended(token) => {
            if seen.told.contains_key(&token) {
                let end = ended_end(None, Exit::Code(0));
                host.agent.handle_supervisor(ended(token, end), host.now());
            }
        }
        Input::ReceiptAck(token) => host.says_in(5, connection, receipt_ack(token)),
        Input::SupervisorBlip => {
            let held = host
                .agent
                .attempts()
                .map(|(t, _)| held(t.0, seen.told[&t.0]))
                .collect();
            host.agent.handle_supervisor_down(host.now());
            host.agent.handle_supervisor_up(table(1, held), host.now());
        }
    }
}

fn check(rules: Rules, inputs: Vec<Input>) -> Result<(), TestCaseError> {
    let mut host = Host::new(rules);
    host.agent.config.slots = 5;
    host.agent
        .handle_supervisor_up(table(1, vec![]), host.now());
    let mut seen = Bystander::default();
    for input in inputs {
        // Some stalls end with a message, before any timer gets its turn.
        let stalled = matches!(input, Input::Pass(ms) if ms % 3 == 0);
        apply(&mut host, &mut seen, input);
        let actions = host.actions();
        seen.reads(actions, host.boot)?;
        if stalled {
            continue;
        }
        if let Some(at) = host.agent.poll_timeout().filter(|at| at.0 <= host.boot) {
            host.agent.handle_tick(host.now());
            let actions = host.actions();
            seen.reads(actions, host.boot)?;
            prop_assert!(
                host.agent.poll_timeout().is_none_or(|next| next > at),
                "the timer spins"
            );
        }
        for (token, deadline) in host.agent.attempts() {
            prop_assert_eq!(Some(&deadline.0), seen.told.get(&token.0));
            prop_assert!(
                deadline.0 > host.boot || seen.killed.contains(&token.0),
                "{} outlives its deadline",
                token
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn deadlines_rest_on_promises(inputs in prop::collection::vec(input(), 0..120)) {
        check(Rules::all(), inputs)?;
    }
}

/// The property above is worth something only if it can fail. The cases are the same every time,
/// so that this does not depend on luck.
#[test]
fn the_property_notices_a_rule_that_is_off() {
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
    for rule in [Rule::DeadlineLatch, Rule::LateStartRefused] {
        let config = Config {
            failure_persistence: None,
            max_shrink_iters: 0,
            cases: 2_000,
            ..Config::default()
        };
        let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let noticed = TestRunner::new_with_rng(config, rng)
            .run(&prop::collection::vec(input(), 0..120), |inputs| {
                check(Rules::without(rule), inputs)
            })
            .is_err();
        assert!(noticed, "{rule:?}");
    }
}
