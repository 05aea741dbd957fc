//! Connections, and who is attached on which.
//!
//! An agent is silent on a connection until it is invited there, which is done when both the
//! connection and the reign are there. It attaches in the name of that invitation; the committed
//! attach is its session. So connections may outlive reigns: what an agent says for an earlier one
//! names another epoch, or another session. What happens when its identity already has another connection
//! stands in `challenge`.

mod challenge;

use std::collections::BTreeMap;

use ledger::command::{AttachAgent, Command, EndSession, Finish, MarkStarted};
use ledger::{AgentRow, Cordon, Done, Owed, Refusal, WorkingSet};
use protocol::lease::{QUIET_HOST, SESSION_END};
use protocol::message::{
    AgentMessage, Attach, CoordinatorBody, KeptProfile, LABELS_MAX, Nonce, SLOTS_MAX,
};
use protocol::{AgentId, AgentName, BootMs, HostNow, Lifetime, Now, Rule, SessionId, Token};

use crate::core::{ConnId, Core, Effect, Flight};
use crate::fleet::Contact as Contacted;

#[derive(Debug, Default)]
pub(crate) struct Sessions {
    conns: BTreeMap<ConnId, Conn>,
    agents: BTreeMap<AgentName, Contact>,
    /// Agents whose session's end is in flight.
    pub(crate) ending: Vec<AgentId>,
    /// No challenge and no session runs out before this.
    due: BootMs,
}

#[derive(Debug)]
struct Conn {
    name: AgentName,
    nonce: Nonce,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// Connected, and invited as far as the reign has begun.
    Fresh,
    /// Another connection of this identity is being asked for the nonce.
    Challenging {
        arrived: Arrived,
        asked: ConnId,
        until: BootMs,
    },
    /// The attach is in the ledger's hands.
    Attaching,
    Live {
        agent_id: AgentId,
        session: SessionId,
    },
}

/// An attach and when it arrived.
#[derive(Clone, Debug)]
struct Arrived {
    attach: Attach,
    at: BootMs,
}

#[derive(Clone, Debug)]
pub(crate) struct AttachInFlight {
    conn: ConnId,
    arrived: BootMs,
    holds: Vec<Token>,
}

/// What is known of an agent beyond its row.
#[derive(Debug)]
struct Contact {
    /// Known once an attach has landed.
    agent_id: Option<AgentId>,
    /// The connection that is attaching or live.
    conn: Option<ConnId>,
    last_heard: BootMs,
    /// Last acknowledged beat of the live session, and when it arrived.
    acked_beat: u64,
    acked_arrival: Option<BootMs>,
    /// How its host fared at the newest beat that told.
    host: Option<HostNow>,
}

impl Sessions {
    pub(crate) fn acked_arrival(&self, name: &AgentName) -> Option<BootMs> {
        self.agents
            .get(name)
            .and_then(|contact| contact.acked_arrival)
    }

    pub(crate) fn is_connected(&self, name: &AgentName) -> bool {
        let contact = self.agents.get(name);
        contact.is_some_and(|contact| contact.conn.is_some())
    }

    /// Connections there are.
    pub(crate) fn connected(&self) -> usize {
        self.conns.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.conns.len() + self.agents.len() + self.ending.len()
    }

    /// The line to an agent that is attached, if its session is the live one.
    pub(crate) fn line_to(&self, agent: &AgentRow) -> Option<Contacted> {
        let contact = self.agents.get(&agent.name)?;
        let session = self.session_on(contact.conn?)?;
        (agent.session == Some(session)).then_some(Contacted {
            session,
            fresh_until: contact.last_heard + QUIET_HOST,
        })
    }

    /// Connection, session and last acknowledged beat of an agent that is attached.
    pub(crate) fn live_of(
        &self,
        set: &WorkingSet,
        agent_id: AgentId,
    ) -> Option<(ConnId, SessionId, u64)> {
        let agent = set.agents.get(&agent_id)?;
        let contact = self.agents.get(&agent.name)?;
        let conn = contact.conn?;
        let session = self.session_on(conn)?;
        (agent.session == Some(session)).then_some((conn, session, contact.acked_beat))
    }

    /// Notes that the agent on a connection was heard.
    pub(crate) fn hear(&mut self, conn: ConnId, now: BootMs) {
        if let Some(contact) = self.contact_of(conn) {
            contact.last_heard = now;
        }
    }

    /// Notes how the host of the agent on a connection fares.
    pub(crate) fn note_fares(&mut self, conn: ConnId, host: Option<HostNow>) {
        if let Some(contact) = self.contact_of(conn) {
            contact.host = host;
        }
    }

    /// How the host of an agent that is attached fared at its newest beat, if it told.
    pub(crate) fn host_now(&self, name: &AgentName) -> Option<&HostNow> {
        let contact = self.agents.get(name)?;
        self.session_on(contact.conn?)?;
        contact.host.as_ref()
    }

    pub(crate) fn note_acked(&mut self, conn: ConnId, beat: u64, arrived: BootMs) {
        if let Some(contact) = self.contact_of(conn) {
            contact.acked_beat = contact.acked_beat.max(beat);
            contact.acked_arrival = contact.acked_arrival.max(Some(arrived));
        }
    }

    fn contact_of(&mut self, conn: ConnId) -> Option<&mut Contact> {
        let name = &self.conns.get(&conn)?.name;
        self.agents.get_mut(name)
    }

    fn session_on(&self, conn: ConnId) -> Option<SessionId> {
        match self.conns.get(&conn)?.phase {
            Phase::Live { session, .. } => Some(session),
            _ => None,
        }
    }
}

impl Core {
    /// How the host of an agent fared at its newest beat, where it is attached and told.
    pub fn host_now(&self, name: &AgentName) -> Option<&HostNow> {
        self.sessions.host_now(name)
    }

    /// A connection, whose certificate names this agent: a new one, or one that was open when this
    /// core was made. `nonce` was drawn for this connection.
    pub fn handle_connected(
        &mut self,
        conn: ConnId,
        name: AgentName,
        certificate: Lifetime,
        nonce: Nonce,
        now: Now,
    ) {
        self.observe(now);
        self.certificates.note(&name, certificate);
        self.sessions.conns.insert(
            conn,
            Conn {
                name,
                nonce,
                phase: Phase::Fresh,
            },
        );
        if self.epoch().is_some() {
            self.send(conn, CoordinatorBody::NonceGiven { nonce });
        }
    }

    /// The reign has begun: whoever is there may attach.
    pub(crate) fn invite_all(&mut self) {
        let conns = self.sessions.conns.iter();
        let all: Vec<(ConnId, Nonce)> = conns.map(|(&id, conn)| (id, conn.nonce)).collect();
        for (conn, nonce) in all {
            self.send(conn, CoordinatorBody::NonceGiven { nonce });
        }
    }

    pub fn handle_disconnected(&mut self, conn: ConnId, now: Now) {
        self.observe(now);
        self.forget_conn(conn);
        // Whoever waited for an answer from this connection waits no longer.
        let waiting: Vec<ConnId> = self
            .sessions
            .conns
            .iter()
            .filter(|(_, c)| matches!(c.phase, Phase::Challenging { asked, .. } if asked == conn))
            .map(|(&id, _)| id)
            .collect();
        for challenger in waiting {
            self.accept_challenger(challenger, now);
        }
        self.stir(now);
    }

    pub fn handle_message(&mut self, conn: ConnId, message: AgentMessage, now: Now) {
        self.observe(now);
        if self.sessions.conns.contains_key(&conn) {
            match message {
                AgentMessage::Attach(attach) => self.handle_attach(conn, attach, now),
                AgentMessage::NonceAnswer { nonce, mine } => {
                    self.handle_nonce(conn, nonce, mine, now);
                }
                AgentMessage::Heartbeat(beat) => self.handle_heartbeat(conn, beat, now),
                AgentMessage::Started(started) => {
                    if let Some(agent_id) = self.speaker(conn) {
                        let (token, at) = (started.token, started.at);
                        let mark = MarkStarted {
                            agent_id,
                            token,
                            at,
                        };
                        self.propose_in_no_epoch(Flight::Note, Command::MarkStarted(mark), now);
                    }
                }
                AgentMessage::Receipt(receipt) => {
                    if let Some(agent_id) = self.speaker(conn) {
                        let (token, end) = (receipt.token, receipt.end);
                        let finish = Command::Finish(Finish {
                            agent_id,
                            token,
                            end,
                        });
                        let flight = Flight::Receipt { conn, token };
                        self.propose_in_no_epoch(flight, finish, now);
                    }
                }
            }
        }
        self.stir(now);
    }

    /// Challenges nobody answered, and sessions nobody has heard of.
    pub(crate) fn advance_sessions(&mut self, now: Now) {
        if now.boot < self.sessions.due {
            return;
        }
        let mut due = BootMs(i64::MAX);
        let mut is_over = |end: BootMs| {
            if end > now.boot {
                due = due.min(end);
            }
            end <= now.boot
        };
        let unanswered: Vec<ConnId> = self
            .sessions
            .conns
            .iter()
            .filter(|(_, c)| matches!(c.phase, Phase::Challenging { until, .. } if is_over(until)))
            .map(|(&id, _)| id)
            .collect();
        let silent: Vec<AgentId> = self
            .set
            .agents
            .values()
            .filter(|agent| agent.session.is_some())
            .filter(|agent| !self.sessions.ending.contains(&agent.agent_id))
            .filter(|agent| is_over(self.session_ends(agent)))
            .map(|agent| agent.agent_id)
            .collect();
        self.sessions.due = due;
        for challenger in unanswered {
            self.accept_challenger(challenger, now);
        }
        for agent_id in silent {
            self.end_session(agent_id, now);
        }
    }

    /// When the session of an agent ends that is not heard of again. Its silence counts while
    /// somebody was there to hear it.
    fn session_ends(&self, agent: &AgentRow) -> BootMs {
        let here_since = self.expiry.counts_from();
        let contact = self.sessions.agents.get(&agent.name);
        let heard = contact.map_or(here_since, |contact| contact.last_heard);
        heard.max(here_since) + SESSION_END
    }

    fn end_session(&mut self, agent_id: AgentId, now: Now) {
        let Some(session) = self
            .set
            .agents
            .get(&agent_id)
            .and_then(|agent| agent.session)
        else {
            return;
        };
        self.sessions.ending.push(agent_id);
        let end = Command::EndSession(EndSession { session });
        self.propose(Flight::EndSession(agent_id), end, now);
    }

    pub(crate) fn land_attach(
        &mut self,
        flight: AttachInFlight,
        result: Result<Done, Refusal>,
        now: Now,
    ) {
        let conn = flight.conn;
        let attached = match result {
            Ok(Done::Attached {
                agent_id,
                session,
                kill,
                owed,
                ..
            }) => (agent_id, session, kill, owed),
            Ok(_) => return,
            Err(refusal) => return self.refuse(conn, &refusal.to_string()),
        };
        let (agent_id, session, mut kill, mut owed) = attached;
        let Some(entry) = self.sessions.conns.get_mut(&conn) else {
            return;
        };
        if !matches!(entry.phase, Phase::Attaching) {
            return;
        }
        entry.phase = Phase::Live { agent_id, session };
        // The commit of the attach was a quorum round that began after it arrived: it counts as
        // an acknowledged beat 0.
        if let Some(contact) = self.sessions.agents.get_mut(&entry.name) {
            contact.agent_id = Some(agent_id);
            contact.acked_beat = 0;
            contact.acked_arrival = Some(flight.arrived);
        }
        for &token in &flight.holds {
            self.expiry.list(agent_id, token, flight.arrived);
        }
        let leases: Vec<_> = self.queue.leases_of(agent_id).collect();
        for &(token, (run_id, shard)) in &leases {
            if self.expiry.is_proposed(token) {
                kill.push(token);
                // What expires a moment after the attach is no different from what did before.
                if flight.holds.contains(&token) {
                    owed.push(Owed {
                        token,
                        run_id,
                        shard,
                    });
                }
            }
        }
        self.note_host(agent_id);
        if self.rules.on(Rule::ReceiptBeforeRegrant) {
            for key in self.receipts.expect(conn, owed, now.boot) {
                self.queue.step_back(key);
            }
        }
        let agent = self.set.agents.get(&agent_id);
        let profile = agent.and_then(|agent| agent.profile);
        let profile = profile.map_or(KeptProfile::Missing, |row| KeptProfile::Is(row.digest));
        let attached = CoordinatorBody::Attached {
            session,
            kill,
            profile,
        };
        self.send(conn, attached);
        if self.rules.on(Rule::DrainIsToldAgain) {
            self.interrupt_if_drained(agent_id);
        }
        for (token, key) in leases {
            if self.is_cancelling(key) {
                self.send(conn, CoordinatorBody::Cancel { session, token });
            }
        }
    }

    /// A receipt has been answered, one way or another: the agent may forget it.
    pub(crate) fn land_receipt(&mut self, conn: ConnId, token: Token) {
        if let Some(key) = self.receipts.answered(conn, token) {
            self.queue.step_back(key);
        }
        if self.sessions.conns.contains_key(&conn) {
            self.send(conn, CoordinatorBody::ReceiptAck { token });
        }
    }

    pub(crate) fn cancel_lease(&mut self, agent_id: AgentId, token: Token) {
        if let Some((conn, session, _)) = self.sessions.live_of(&self.set, agent_id) {
            self.send(conn, CoordinatorBody::Cancel { session, token });
        }
    }

    /// Tells the agent of a host that is drained at once to interrupt what it runs.
    pub(crate) fn interrupt_if_drained(&mut self, agent_id: AgentId) {
        let agent = self.set.agents.get(&agent_id);
        if agent.is_none_or(|agent| agent.cordon != Some(Cordon::DrainingNow)) {
            return;
        }
        if let Some((conn, session, _)) = self.sessions.live_of(&self.set, agent_id) {
            self.send(conn, CoordinatorBody::Interrupt { session });
        }
    }

    /// Whoever is attached under this name is so no more on the connection of before, or may not be.
    fn note_named(&mut self, name: &AgentName) {
        let known = self.sessions.agents.get(name).and_then(|c| c.agent_id);
        if let Some(agent_id) = known {
            self.note_host(agent_id);
        }
    }

    fn handle_attach(&mut self, conn: ConnId, attach: Attach, now: Now) {
        let Some(entry) = self.sessions.conns.get(&conn) else {
            return;
        };
        if (Some(attach.epoch), attach.nonce) != (self.epoch(), entry.nonce) {
            // It follows the invitation of an earlier reign, and that of this one is on its way.
            return;
        }
        if let Some(reason) = unacceptable(&attach) {
            return self.refuse(conn, &reason);
        }
        if !matches!(entry.phase, Phase::Fresh) {
            return self.refuse(conn, "a connection attaches once");
        }
        let arrived = Arrived {
            attach,
            at: now.boot,
        };
        self.attach(conn, arrived, now);
    }

    fn propose_attach(&mut self, conn: ConnId, arrived: Arrived, now: Now) {
        let Some(entry) = self.sessions.conns.get_mut(&conn) else {
            return;
        };
        entry.phase = Phase::Attaching;
        let name = entry.name.clone();
        let contact = self.sessions.agents.entry(name.clone()).or_insert(Contact {
            agent_id: None,
            conn: None,
            last_heard: arrived.at,
            acked_beat: 0,
            acked_arrival: None,
            host: None,
        });
        contact.conn = Some(conn);
        contact.last_heard = arrived.at;
        self.sessions.due = self.sessions.due.min(arrived.at + SESSION_END);
        self.note_named(&name);
        let attach = arrived.attach;
        let flight = Flight::Attach(AttachInFlight {
            conn,
            arrived: arrived.at,
            holds: attach.attempts.clone(),
        });
        let command = Command::AttachAgent(AttachAgent {
            name,
            boot_id: attach.boot_id,
            agent: attach.agent_incarnation,
            supervisor: attach.supervisor_incarnation,
            swept: attach.swept,
            slots: attach.slots,
            labels: attach.labels,
            holds: attach.attempts,
        });
        self.propose(flight, command, now);
    }

    /// The agent that speaks on a live connection of its live session, unless barred.
    fn speaker(&self, conn: ConnId) -> Option<AgentId> {
        let Phase::Live { agent_id, session } = self.sessions.conns.get(&conn)?.phase else {
            return None;
        };
        let agent = self.set.agents.get(&agent_id)?;
        (agent.session == Some(session) && agent.barred.is_none()).then_some(agent_id)
    }

    /// The same, if this is that session.
    pub(crate) fn speaker_in(&self, conn: ConnId, session: SessionId) -> Option<AgentId> {
        self.speaker(conn)
            .filter(|_| self.sessions.session_on(conn) == Some(session))
    }

    fn set_phase(&mut self, conn: ConnId, phase: Phase) {
        if let Some(entry) = self.sessions.conns.get_mut(&conn) {
            entry.phase = phase;
        }
    }

    fn refuse(&mut self, conn: ConnId, reason: &str) {
        self.send(
            conn,
            CoordinatorBody::AttachRefused {
                reason: reason.to_owned(),
            },
        );
        self.close(conn, reason);
    }

    /// Ends every connection of an agent that is served no more.
    pub(crate) fn refuse_all(&mut self, name: &AgentName, reason: &str) {
        let conns: Vec<ConnId> = self
            .sessions
            .conns
            .iter()
            .filter(|(_, conn)| conn.name == *name)
            .map(|(&id, _)| id)
            .collect();
        for conn in conns {
            self.refuse(conn, reason);
        }
    }

    fn close(&mut self, conn: ConnId, reason: &str) {
        if self.forget_conn(conn) {
            self.effect(Effect::Close {
                conn,
                reason: reason.to_owned(),
            });
        }
    }

    fn forget_conn(&mut self, conn: ConnId) -> bool {
        let Some(entry) = self.sessions.conns.remove(&conn) else {
            return false;
        };
        for key in self.receipts.give_up_on(conn) {
            self.queue.step_back(key);
        }
        if let Some(contact) = self.sessions.agents.get_mut(&entry.name)
            && contact.conn == Some(conn)
        {
            contact.conn = None;
        }
        self.note_named(&entry.name);
        true
    }
}

fn unacceptable(attach: &Attach) -> Option<String> {
    if !(1..=SLOTS_MAX).contains(&attach.slots) {
        return Some(format!(
            "{} slots: an agent offers 1 to {SLOTS_MAX}",
            attach.slots
        ));
    }
    if attach.labels.len() > LABELS_MAX {
        let labels = attach.labels.len();
        return Some(format!("{labels} labels: a host has at most {LABELS_MAX}"));
    }
    None
}
