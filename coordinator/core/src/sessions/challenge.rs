//! One identity, one process: telling a changed network path from a cloned host.
//!
//! When an identity that still has a connection attaches on another one, the old is asked whether it
//! was given the nonce of the new. The same process (its network path changed) was, and knows it before it
//! attaches; a process that was not is a second one under the same certificate, a cloned disk; one that
//! does not answer within two seconds is gone. Question and answer name the nonce, so an answer that
//! was long on its way is never taken for that to another question.

use std::ops::Bound;

use ledger::command::{Command, Quarantine};
use protocol::lease::NONCE_ANSWER;
use protocol::message::{CoordinatorBody, Nonce};
use protocol::{AgentName, Now, Rule};

use super::{Arrived, Phase};
use crate::core::{ConnId, Core, Flight};

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
                self.send(asked, CoordinatorBody::NonceQuery { nonce });
            }
        }
    }

    /// Whether a connection of this identity that was made later has begun to attach.
    fn has_newer(&self, name: &AgentName, conn: ConnId) -> bool {
        self.sessions
            .conns
            .range((Bound::Excluded(conn), Bound::Unbounded))
            .any(|(_, c)| c.name == *name && !matches!(c.phase, Phase::Fresh))
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

    pub(super) fn handle_nonce(&mut self, conn: ConnId, nonce: Nonce, mine: bool, now: Now) {
        let challenger = self.sessions.conns.iter().find(|(_, c)| {
            let is_asked = matches!(c.phase, Phase::Challenging { asked, .. } if asked == conn);
            is_asked && c.nonce == nonce
        });
        let Some((&challenger, entry)) = challenger else {
            // Whom it was about has gone, or given way to a newer connection.
            return;
        };
        if mine {
            self.accept_challenger(challenger, now);
        } else {
            let name = entry.name.clone();
            self.quarantine(&name, now);
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

    /// Both are shut out until a person has looked.
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
