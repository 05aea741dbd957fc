//! Connections to the coordinators: which of them is attached on, the beats, silence, and the
//! nonce that tells a reconnect from a cloned host.
//!
//! Who leads says so, by an invitation with its epoch on every connection that it has; so the agent
//! needs no list of who may lead, and asks nobody. Three rules decide where it attaches:
//!
//! 1. The highest epoch wins. A leader that was cut off and does not know that it was replaced
//!    goes on inviting whoever reaches it, and is passed over.
//! 2. Of several connections to the same coordinator the newest wins: the path has changed, the new
//!    one attaches, and the old one still answers for the nonce until the attach is through.
//! 3. An invitation that is not followed is kept: one coordinator may have been given under two
//!    addresses, and when the connection in use is lost the other serves at once.
//!
//! A connection that is not in use says nothing and need not hear anything. That it is alive is the
//! transport's to find out; silence counts against the one that is attached on.

use std::collections::BTreeSet;

use protocol::lease;
use protocol::message::{AgentMessage, Attach, Heartbeat, Nonce};
use protocol::{Epoch, Now, Token};

use super::{
    Action, Agent, Connection, ConnectionId, CoordinatorId, DisconnectReason, Line, Link, Word,
};

/// Nonces kept for questions that come late: as many as a coordinator takes connections of one
/// agent.
const NONCES_KEPT: usize = 8;

impl Agent {
    /// A new connection to this coordinator is open. It is silent until it is invited.
    pub fn handle_connected(
        &mut self,
        connection: ConnectionId,
        coordinator: CoordinatorId,
        now: Now,
    ) {
        self.enforce_deadlines(now.boot);
        self.leave_unused_lines(coordinator);
        let word = Word::Awaited;
        self.lines.insert(connection, Line { coordinator, word });
    }

    /// A connection that was made anew takes the place of one that nobody is attached on. The one that is
    /// attached on stays until the new one is: it answers for the nonce meanwhile.
    fn leave_unused_lines(&mut self, coordinator: CoordinatorId) {
        let lines = self.lines.iter();
        let unused =
            lines.filter(|(_, line)| line.coordinator == coordinator && line.word != Word::Used);
        let unused: Vec<ConnectionId> = unused.map(|(&id, _)| id).collect();
        for id in unused {
            self.disconnect(id, DisconnectReason::Superseded);
        }
    }

    pub fn handle_disconnected(&mut self, connection: ConnectionId, now: Now) {
        self.enforce_deadlines(now.boot);
        self.drop_connection(connection);
        self.follow_kept_invitation(now);
    }

    pub fn handle_tick(&mut self, now: Now) {
        self.kill_overdue(now.boot);
        let supervisor_given_up = self.supervisor_given_up_at() <= now.boot;
        if supervisor_given_up {
            self.handle_supervisor_down(now);
        }
        let Some(current) = &mut self.current else {
            return;
        };
        let silent = current.heard + lease::QUIET_HOST <= now.boot;
        match &mut current.link {
            Link::AwaitsTable => {}
            _ if supervisor_given_up => {
                let id = current.id;
                self.disconnect(id, DisconnectReason::SupervisorAway);
            }
            _ if silent => {
                let id = current.id;
                self.disconnect(id, DisconnectReason::Silent);
                self.follow_kept_invitation(now);
            }
            Link::Attaching { .. } => {}
            Link::Attached { session, beats } => {
                if let Some(beat) = beats.take_due(now.boot) {
                    let heartbeat = Heartbeat {
                        round_trip: Some(beats.round_trip()),
                        session: *session,
                        beat,
                        wall: now.wall,
                        attempts: self.attempts.keys().copied().collect(),
                        host: self.host.clone(),
                    };
                    self.send(AgentMessage::Heartbeat(heartbeat));
                    self.ask_supervisor(now.boot);
                }
                self.register(now.boot);
            }
        }
    }

    /// What was said in an earlier reign invites nobody any more.
    pub(super) fn note_epoch(&mut self, epoch: Epoch) {
        if self.epoch < Some(epoch) {
            self.epoch = Some(epoch);
            for line in self.lines.values_mut() {
                line.word = Word::Awaited;
            }
        }
    }

    pub(super) fn handle_invitation(
        &mut self,
        connection: ConnectionId,
        epoch: Epoch,
        nonce: Nonce,
        now: Now,
    ) {
        self.nonces.push_back(nonce);
        if self.nonces.len() > NONCES_KEPT {
            self.nonces.pop_front();
        }
        let Some(line) = self.lines.get_mut(&connection) else {
            return;
        };
        line.word = Word::Invited(nonce);
        let coordinator = line.coordinator;
        let moves = self.current.as_ref().is_none_or(|current| {
            let older = self.lines.get(&current.id);
            let same_way = older.is_some_and(|line| line.coordinator == coordinator);
            current.epoch != epoch || same_way && current.id < connection
        });
        if moves {
            self.use_connection(connection, epoch, nonce, now);
        }
    }

    /// The connection that was attached on is gone. Another one to the same leader serves, where
    /// there is one.
    fn follow_kept_invitation(&mut self, now: Now) {
        let Some(epoch) = self.epoch.filter(|_| self.current.is_none()) else {
            return;
        };
        let kept = self
            .lines
            .iter()
            .rev()
            .find_map(|(&id, line)| match line.word {
                Word::Invited(nonce) => Some((id, nonce)),
                Word::Awaited | Word::Used => None,
            });
        if let Some((connection, nonce)) = kept {
            self.use_connection(connection, epoch, nonce, now);
        }
    }

    fn use_connection(&mut self, id: ConnectionId, epoch: Epoch, nonce: Nonce, now: Now) {
        if let Some(line) = self.lines.get_mut(&id) {
            line.word = Word::Used;
        }
        self.current = Some(Connection {
            id,
            epoch,
            nonce,
            heard: now.boot,
            link: Link::AwaitsTable,
        });
        if self.supervisor.is_some() {
            self.attach(now);
        }
    }

    pub(super) fn attach(&mut self, now: Now) {
        let (Some(supervisor), Some(current)) = (&self.supervisor, &mut self.current) else {
            return;
        };
        current.link = Link::Attaching { sent: now.boot };
        current.heard = now.boot;
        for attempt in self.attempts.values_mut() {
            attempt.listed_from = 0;
        }
        let held: BTreeSet<Token> = self
            .attempts
            .keys()
            .chain(self.ended.keys())
            .copied()
            .collect();
        let attach = Attach {
            epoch: current.epoch,
            nonce: current.nonce,
            boot_id: supervisor.boot_id.clone(),
            agent_incarnation: self.config.incarnation,
            supervisor_incarnation: supervisor.incarnation,
            swept: supervisor.swept,
            slots: self.config.slots,
            labels: self.config.labels.clone(),
            wall: now.wall,
            attempts: held.into_iter().collect(),
        };
        self.send(AgentMessage::Attach(attach));
    }

    pub(super) fn send(&mut self, message: AgentMessage) {
        if let Some(current) = &self.current {
            let connection = current.id;
            self.actions.push_back(Action::Send {
                connection,
                message,
            });
        }
    }

    pub(super) fn disconnect(&mut self, connection: ConnectionId, reason: DisconnectReason) {
        self.drop_connection(connection);
        self.actions
            .push_back(Action::Disconnect { connection, reason });
    }

    fn drop_connection(&mut self, connection: ConnectionId) {
        self.lines.remove(&connection);
        if self.current.as_ref().is_some_and(|c| c.id == connection) {
            self.current = None;
        }
    }

    /// The attach is through: older connections to the same coordinator are needed for nothing.
    pub(super) fn leave_older_lines(&mut self) {
        let Some(id) = self.current.as_ref().map(|current| current.id) else {
            return;
        };
        let coordinator = self.lines.get(&id).map(|line| line.coordinator);
        let older = self.lines.range(..id);
        let older = older.filter(|(_, line)| Some(line.coordinator) == coordinator);
        let older: Vec<ConnectionId> = older.map(|(&id, _)| id).collect();
        for old in older {
            self.disconnect(old, DisconnectReason::Superseded);
        }
    }

    /// Says whether it is this process that was given the nonce. Its attach names it, so where it
    /// was, that is known before anybody can ask.
    pub(super) fn answer_for(&mut self, nonce: Nonce, connection: ConnectionId) {
        let mine = self.nonces.contains(&nonce);
        self.actions.push_back(Action::Send {
            connection,
            message: AgentMessage::NonceAnswer { nonce, mine },
        });
    }
}
