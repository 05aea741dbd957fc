//! When a host's profile is sent, and when it is not.

use super::*;

const OLD: ProfileDigest = ProfileDigest([1; 16]);
const NEW: ProfileDigest = ProfileDigest([2; 16]);

impl Host {
    /// Attached on a new connection, whose leader has this profile.
    fn attaches(&mut self, connection: ConnectionId, kept: KeptProfile) {
        self.connects(connection);
        let body = CoordinatorBody::Attached {
            session: SessionId(500 + i64::try_from(connection.0).unwrap()),
            kill: Vec::new(),
            profile: kept,
        };
        self.says_in(5, connection, body);
    }

    fn found(&mut self, digest: ProfileDigest, occasion: Occasion) {
        self.agent.handle_profile(digest, occasion, self.now());
    }

    fn ends(&mut self, connection: ConnectionId, digest: ProfileDigest, end: Registered) {
        let now = self.now();
        self.agent.handle_registered(connection, digest, end, now);
    }

    fn sends(&mut self) -> Vec<(ConnectionId, ProfileDigest)> {
        let registers = |action| match action {
            Action::Register { connection, digest } => Some((connection, digest)),
            _ => None,
        };
        self.actions().into_iter().filter_map(registers).collect()
    }
}

fn host() -> Host {
    let mut host = Host::new(Rules::all());
    host.agent
        .handle_supervisor_up(table(1, vec![]), host.now());
    host
}

#[test]
fn only_what_the_leader_does_not_have_is_sent() {
    for (kept, sends) in [
        (KeptProfile::Missing, true),
        (KeptProfile::Is(NEW), true),
        (KeptProfile::Is(OLD), false),
        (KeptProfile::NotKept, false),
    ] {
        for found_first in [true, false] {
            let mut host = host();
            if found_first {
                host.found(OLD, Occasion::Look);
                assert_eq!(host.sends(), []);
            }
            host.attaches(FIRST, kept);
            if !found_first {
                assert_eq!(host.sends(), []);
                host.found(OLD, Occasion::Look);
            }
            let expected: &[_] = if sends { &[(FIRST, OLD)] } else { &[] };
            assert_eq!(host.sends(), expected, "{kept:?} {found_first}");
            host.found(OLD, Occasion::Look);
            assert_eq!(host.sends(), [], "one at a time");
        }
    }
}

#[test]
fn a_profile_that_changes_is_sent_and_once_a_day_any_is() {
    let mut host = host();
    host.found(OLD, Occasion::Look);
    host.attaches(FIRST, KeptProfile::Is(OLD));
    assert_eq!(host.sends(), []);
    host.found(NEW, Occasion::Look);
    assert_eq!(host.sends(), [(FIRST, NEW)]);
    host.ends(FIRST, NEW, Registered::Taken);
    host.found(NEW, Occasion::Look);
    assert_eq!(host.sends(), []);
    host.found(NEW, Occasion::Daily);
    assert_eq!(host.sends(), [(FIRST, NEW)]);
    host.ends(FIRST, NEW, Registered::Taken);
    assert_eq!(host.sends(), []);
}

#[test]
fn what_changed_on_the_way_follows() {
    let mut host = host();
    host.found(OLD, Occasion::Look);
    host.attaches(FIRST, KeptProfile::Missing);
    assert_eq!(host.sends(), [(FIRST, OLD)]);
    host.found(NEW, Occasion::Look);
    assert_eq!(host.sends(), []);
    host.ends(FIRST, OLD, Registered::Taken);
    assert_eq!(host.sends(), [(FIRST, NEW)]);
}

#[test]
fn what_is_refused_waits_for_another_profile_and_what_failed_for_a_while() {
    let mut host = host();
    host.found(OLD, Occasion::Look);
    host.attaches(FIRST, KeptProfile::Missing);
    host.sends();
    host.ends(FIRST, OLD, Registered::Failed);
    assert_eq!(host.sends(), []);
    let again = host.boot + 30_000;
    while host.boot < again {
        assert_eq!(host.sends(), []);
        let next = host.agent.poll_timeout().unwrap();
        assert!(next <= BootMs(again));
        host.boot = next.0;
        host.agent.handle_tick(host.now());
        let beat = host.boot;
        host.says(ack(
            u64::try_from((beat - again + 30_000) / 5000).unwrap(),
            &[],
        ));
    }
    assert_eq!(host.sends(), [(FIRST, OLD)]);
    host.ends(FIRST, OLD, Registered::Refused);
    host.pass(60_000);
    host.found(OLD, Occasion::Look);
    assert_eq!(host.sends(), []);
    host.found(NEW, Occasion::Look);
    assert_eq!(host.sends(), [(FIRST, NEW)]);
}

#[test]
fn a_new_session_asks_anew_and_the_end_of_the_old_one_says_nothing() {
    let mut host = host();
    host.found(OLD, Occasion::Look);
    host.attaches(FIRST, KeptProfile::Missing);
    assert_eq!(host.sends(), [(FIRST, OLD)]);
    host.agent.handle_disconnected(FIRST, host.now());
    host.attaches(SECOND, KeptProfile::Missing);
    assert_eq!(host.sends(), [(SECOND, OLD)]);
    host.ends(FIRST, OLD, Registered::Taken);
    host.ends(SECOND, OLD, Registered::Failed);
    host.agent.handle_disconnected(SECOND, host.now());
    host.attaches(THIRD, KeptProfile::Is(OLD));
    assert_eq!(host.sends(), []);
}

#[test]
fn a_stopping_agent_registers_nothing() {
    let mut host = host();
    host.attaches(FIRST, KeptProfile::Missing);
    host.agent.handle_stop(host.now());
    host.found(OLD, Occasion::Look);
    assert_eq!(host.sends(), []);
}
