//! Connections to the coordinator: the attach on each, the beats, silence, and the nonce that
//! tells a reconnect from a cloned host.

use std::collections::BTreeSet;

use protocol::lease;
use protocol::message::{AgentMessage, Attach, Heartbeat, Nonce, PROTOCOL_VERSION};
use protocol::{Now, Token};

use super::{Action, Agent, Connection, ConnectionId, DisconnectReason, Link};

impl Agent {
    /// A new connection to the coordinator is open. It becomes the current one; an earlier one
    /// that is still open goes on answering for the nonce.
    pub fn handle_connected(&mut self, connection: ConnectionId, now: Now) {
        self.enforce_deadlines(now.boot);
        let fresh = Connection {
            id: connection,
            heard: now.boot,
            nonce_given: false,
            link: Link::AwaitsTable,
        };
        if let Some(old) = self.current.replace(fresh) {
            self.older.insert(old.id);
        }
        if self.supervisor.is_some() {
            self.attach(now);
        }
    }

    pub fn handle_disconnected(&mut self, connection: ConnectionId, now: Now) {
        self.enforce_deadlines(now.boot);
        self.drop_connection(connection);
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
                    };
                    self.send(AgentMessage::Heartbeat(heartbeat));
                    self.ask_supervisor(now.boot);
                }
            }
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
            protocol_version: PROTOCOL_VERSION,
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

    pub(super) fn drop_connection(&mut self, connection: ConnectionId) {
        self.older.remove(&connection);
        if self.nonce_asked_by == Some(connection) {
            self.nonce_asked_by = None;
        }
        if self.current.as_ref().is_some_and(|c| c.id == connection) {
            self.current = None;
            // Whoever asked for its nonce is not answered: an older one would read as a clone's,
            // and silence only means that this connection is gone.
            self.nonce_asked_by = None;
        }
    }

    pub(super) fn handle_nonce(&mut self, connection: ConnectionId, nonce: Nonce) {
        self.nonce = Some(nonce);
        if let Some(current) = self.current.as_mut().filter(|c| c.id == connection) {
            current.nonce_given = true;
            self.answer_deferred_nonce();
        }
    }

    /// The question comes on the old connection and may overtake the nonce on the new one, of
    /// which it speaks: then the answer waits for it.
    pub(super) fn handle_nonce_query(&mut self, connection: ConnectionId) {
        self.nonce_asked_by = Some(connection);
        let comes_still = self
            .current
            .as_ref()
            .is_some_and(|c| c.id != connection && !c.nonce_given);
        if !comes_still {
            self.answer_deferred_nonce();
        }
    }

    pub(super) fn answer_deferred_nonce(&mut self) {
        if let Some(connection) = self.nonce_asked_by.take() {
            let nonce = self.nonce;
            self.actions.push_back(Action::Send {
                connection,
                message: AgentMessage::NonceAnswer { nonce },
            });
        }
    }
}
