//! Which of several connections is attached on.

use super::*;

/// The connections that are attached on, each with the epoch and the nonce of its invitation.
fn moves_to(actions: Vec<Action>) -> Vec<(ConnectionId, Epoch, Nonce)> {
    messages(actions)
        .into_iter()
        .filter_map(|(connection, message)| match message {
            AgentMessage::Attach(attach) => Some((connection, attach.epoch, attach.nonce)),
            _ => None,
        })
        .collect()
}

fn superseded(connection: ConnectionId) -> Action {
    Action::Disconnect {
        connection,
        reason: DisconnectReason::Superseded,
    }
}

#[test]
fn nothing_is_said_before_the_invitation() {
    let mut host = Host::new(Rules::all());
    host.agent
        .handle_supervisor_up(table(1, vec![]), host.now());
    for (line, coordinator) in [(FIRST, CONTROL), (SECOND, STANDBY)] {
        host.agent.handle_connected(line, coordinator, host.now());
        assert!(host.agent.has_line_to(coordinator));
    }
    // However long nobody leads, a connection is not given up for that.
    assert_eq!(host.agent.poll_timeout(), None);
    host.pass(10 * QUIET_HOST.0);
    host.agent.handle_tick(host.now());
    assert_eq!(host.actions(), []);
    host.says_in(5, SECOND, invitation(9));
    assert_eq!(moves_to(host.actions()), [(SECOND, Epoch(5), Nonce(9))]);
}

/// The session of [`Host::running`], beside it a connection to the standby.
fn with_standby(rules: Rules) -> Host {
    let mut host = Host::running(rules);
    host.agent.handle_connected(SECOND, STANDBY, host.now());
    assert_eq!(host.actions(), []);
    host
}

#[test]
fn a_higher_epoch_moves_the_session_and_kills_nothing() {
    let mut host = with_standby(Rules::all());
    let deadline = host.deadline(10);
    host.pass(7_000);
    host.says_in(8, SECOND, invitation(9));
    let sent = host.boot;
    assert_eq!(moves_to(host.actions()), [(SECOND, Epoch(8), Nonce(9))]);
    assert_eq!(host.deadline(10), deadline);
    // The old leader does not know yet that it is none any more.
    host.says(ack(0, &[]));
    host.says(CoordinatorBody::Cancel {
        session: SESSION,
        token: Token(10),
    });
    assert_eq!(host.actions(), []);
    host.pass(30);
    host.says_in(
        8,
        SECOND,
        CoordinatorBody::Attached {
            session: SessionId(900),
            kill: vec![],
            profile: KeptProfile::NotKept,
        },
    );
    let actions = host.actions();
    assert_eq!(extends(&actions), [(10, sent + LIFE)]);
    assert!(kills(&actions).is_empty() && !actions.contains(&superseded(FIRST)));
    // Both stay: the next change of leader needs no handshake.
    assert!(host.agent.has_line_to(CONTROL) && host.agent.has_line_to(STANDBY));
    host.says_in(11, FIRST, invitation(12));
    assert_eq!(moves_to(host.actions()), [(FIRST, Epoch(11), Nonce(12))]);
}

#[test]
fn an_invitation_of_a_lower_epoch_is_passed_over() {
    for (rules, moved) in [
        (Rules::all(), vec![]),
        (
            Rules::without(Rule::EpochChecked),
            vec![(SECOND, Epoch(4), Nonce(9))],
        ),
    ] {
        let mut host = with_standby(rules);
        host.says_in(4, SECOND, invitation(9));
        assert_eq!(moves_to(host.actions()), moved);
    }
}

#[test]
fn a_receipt_that_the_old_leader_did_not_acknowledge_goes_to_the_new_one() {
    let mut host = with_standby(Rules::all());
    let end = ended_end(None, Exit::Code(0));
    host.agent.handle_supervisor(ended(10, end), host.now());
    assert_eq!(receipts(host.actions()), [(10, Succeeded)]);
    host.says_in(8, SECOND, invitation(9));
    assert_eq!(attaches(host.actions()), [vec![10]]);
    // It was not the old one's to take any more.
    host.says(receipt_ack(10));
    assert_eq!(host.actions(), []);
    host.says_in(8, SECOND, attached(&[]));
    let told = messages(host.actions());
    assert!(
        matches!(&told[..], [(SECOND, AgentMessage::Receipt(r))] if r.token == Token(10)),
        "{told:?}"
    );
}

#[test]
fn the_newest_connection_to_a_leader_counts_and_the_older_answers_until_it_is_attached() {
    let mut host = Host::attached(Rules::all());
    host.connects(SECOND);
    assert_eq!(moves_to(host.actions()), [(SECOND, Epoch(5), Nonce(2))]);
    host.says(nonce_query(2));
    let answer = |connection, nonce, mine| Action::Send {
        connection,
        message: AgentMessage::NonceAnswer {
            nonce: Nonce(nonce),
            mine,
        },
    };
    assert_eq!(host.actions(), [answer(FIRST, 2, true)]);
    host.says_in(5, SECOND, attached(&[]));
    assert_eq!(host.actions(), [superseded(FIRST)]);
    // A third is made, and a question about the second has been long on its way.
    host.connects(THIRD);
    host.actions();
    host.says_in(5, SECOND, nonce_query(2));
    // Another process attaches as this one.
    host.says_in(5, SECOND, nonce_query(77));
    let answers = [answer(SECOND, 2, true), answer(SECOND, 77, false)];
    assert_eq!(host.actions(), answers);
}

#[test]
fn a_connection_that_was_given_up_is_not_counted_on() {
    let mut host = Host::attached(Rules::all());
    host.connects(SECOND);
    host.agent.handle_disconnected(SECOND, host.now());
    host.actions();
    assert!(!host.agent.has_line_to(CONTROL), "it attaches once");
    host.connects(THIRD);
    assert_eq!(moves_to(host.actions()), [(THIRD, Epoch(5), Nonce(3))]);
    // In the next reign every connection counts anew.
    host.agent.handle_disconnected(THIRD, host.now());
    host.says_in(8, FIRST, invitation(20));
    assert_eq!(moves_to(host.actions()), [(FIRST, Epoch(8), Nonce(20))]);
}

#[test]
fn one_coordinator_under_two_addresses_is_attached_to_once_and_the_other_way_is_kept() {
    let mut host = Host::attached(Rules::all());
    host.agent.handle_connected(SECOND, STANDBY, host.now());
    host.says_in(5, SECOND, invitation(2));
    assert_eq!(host.actions(), []);
    host.agent.handle_disconnected(FIRST, host.now());
    assert_eq!(moves_to(host.actions()), [(SECOND, Epoch(5), Nonce(2))]);
    assert!(!host.agent.has_line_to(CONTROL) && host.agent.has_line_to(STANDBY));
}
