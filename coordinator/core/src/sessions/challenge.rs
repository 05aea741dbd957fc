//! One identity, one process: telling a changed network path from a cloned host.
//!
//! When an identity that still has a connection attaches on another one, the old is asked for
//! the nonce given on the new. The same process (its network path changed) repeats it; a process
//! that answers anything else is a second one under the same certificate, a cloned disk; one that
//! does not answer within two seconds is gone.

use std::ops::Bound;

use ledger::command::{Command, Quarantine};
use protocol::lease::NONCE_ANSWER;
use protocol::message::{CoordinatorBody, Nonce};
use protocol::{AgentName, Now, Rule};

use super::{Arrived, Phase};
use crate::core::{ConnId, Core, Flight};

/// Questions of one connection whose answers may still be on the way.
const QUESTIONS_KEPT: usize = 8;

impl Core {
    /// Attaches at once, or asks the other connection of this identity first.
    pub(super) fn attach(&mut self, conn: ConnId, arrived: Arrived, now: Now) {
        let Some(entry) = self.sessions.conns.get(&conn) else {
            return;
        };
        let (name, nonce) = (entry.name.clone(), entry.nonce);
        if self.has_newer(&name, conn) {
            // An attach that was long on its way, on a connection given up since. To ask the
            // newer one about it would make a duplicate of a host that only had a bad network.
            return self.close(conn, "a newer connection of this agent attaches");
        }
        self.drop_earlier_challengers(&name, conn);
        let other = self
            .sessions
            .agents
            .get(&name)
            .and_then(|contact| contact.conn);
        match other.filter(|&other| other != conn && self.sessions.conns.contains_key(&other)) {
            None => self.propose_attach(conn, arrived, now),
            Some(_) if !self.rules.on(Rule::DuplicatesQuarantined) => {
                self.propose_attach(conn, arrived, now);
            }
            Some(_) if !self.rules.on(Rule::NonceBeforeVerdict) => self.quarantine(&name, now),
            Some(asked) => {
                let until = now.boot + NONCE_ANSWER;
                self.set_phase(
                    conn,
                    Phase::Challenging {
                        arrived,
                        asked,
                        until,
                    },
                );
                self.sessions.due = self.sessions.due.min(until);
                self.send(conn, CoordinatorBody::NonceGiven { nonce });
                self.ask_for(nonce, asked);
            }
        }
    }

    fn ask_for(&mut self, nonce: Nonce, asked: ConnId) {
        if let Some(entry) = self.sessions.conns.get_mut(&asked) {
            entry.questions.push_back(nonce);
            if entry.questions.len() > QUESTIONS_KEPT {
                entry.questions.pop_front();
            }
            self.send(asked, CoordinatorBody::NonceQuery);
        }
    }

    /// Whether a connection of this identity that was made later has begun to attach.
    fn has_newer(&self, name: &AgentName, conn: ConnId) -> bool {
        self.sessions
            .conns
            .range((Bound::Excluded(conn), Bound::Unbounded))
            .any(|(_, c)| {
                c.name == *name && !matches!(c.phase, Phase::Fresh | Phase::AwaitingReign(_))
            })
    }

    /// Of several connections that attach while one is being asked, the newest counts.
    fn drop_earlier_challengers(&mut self, name: &AgentName, newest: ConnId) {
        let earlier: Vec<ConnId> = self
            .sessions
            .conns
            .iter()
            .filter(|&(&id, c)| {
                id != newest && c.name == *name && matches!(c.phase, Phase::Challenging { .. })
            })
            .map(|(&id, _)| id)
            .collect();
        for conn in earlier {
            self.close(conn, "a newer connection of this agent attaches");
        }
    }

    pub(super) fn handle_nonce(&mut self, conn: ConnId, answer: Option<Nonce>, now: Now) {
        let challenger =
            self.sessions.conns.iter().find(
                |(_, c)| matches!(c.phase, Phase::Challenging { asked, .. } if asked == conn),
            );
        let Some((&challenger, entry)) = challenger else {
            return;
        };
        let asked_before = |nonce| {
            let asked = self.sessions.conns.get(&conn);
            asked.is_some_and(|asked| asked.questions.contains(&nonce))
        };
        match answer {
            Some(nonce) if nonce == entry.nonce => self.accept_challenger(challenger, now),
            // The process has moved on since: this is its answer to an earlier question, and that
            // to the last one is still to come.
            Some(nonce) if asked_before(nonce) => {}
            _ => {
                let name = entry.name.clone();
                self.quarantine(&name, now);
            }
        }
    }

    /// The old connection is of the same process, or gone: the new one takes its place.
    pub(super) fn accept_challenger(&mut self, challenger: ConnId, now: Now) {
        let Some(entry) = self.sessions.conns.get_mut(&challenger) else {
            return;
        };
        let phase = std::mem::replace(&mut entry.phase, Phase::Fresh);
        let Phase::Challenging { arrived, asked, .. } = phase else {
            return;
        };
        self.close(asked, "replaced by a newer connection of this agent");
        self.propose_attach(challenger, arrived, now);
    }
    pub(super) fn quarantine(&mut self, name: &AgentName, now: Now) {
        let reason = format!(
            "two processes speak as {name}: a cloned disk, or a certificate used twice; \
             issue each host a certificate of its own, under a name not used before"
        );
        let command = Quarantine {
            name: name.clone(),
            reason: reason.clone(),
        };
        self.propose(Flight::Note, Command::Quarantine(command), now);
        self.refuse_all(name, &reason);
    }
}
