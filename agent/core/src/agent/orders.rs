//! The coordinator's words: promises that extend a life, orders to begin or end one.

use std::collections::BTreeSet;

use protocol::attempt::Work;
use protocol::lease::agent_deadline;
use protocol::message::{CoordinatorBody, CoordinatorMessage, KeptProfile};
use protocol::supervisor::{KillCause, Launch, Request};
use protocol::{BootMs, DurationMs, Now, Rule, SessionId, Token, WallMs};

use super::session::Beats;
use super::{
    Agent, Attempt, Connection, ConnectionId, DisconnectReason, Ended, HELD_MAX, Link,
    StartRefusal, environment, output_directory,
};

impl Agent {
    pub fn handle_message(
        &mut self,
        connection: ConnectionId,
        message: CoordinatorMessage,
        now: Now,
    ) {
        self.enforce_deadlines(now.boot);
        if self.rules.on(Rule::EpochChecked) && self.epoch.is_some_and(|e| message.epoch < e) {
            return;
        }
        self.note_epoch(message.epoch);
        let is_current = match &mut self.current {
            Some(current) if current.id == connection => {
                current.heard = now.boot;
                true
            }
            _ => false,
        };
        let is_start = matches!(message.body, CoordinatorBody::Start { .. });
        let obeyed_anyway = is_start && !self.rules.on(Rule::LateStartRefused);
        if !self.lines.contains_key(&connection) && !obeyed_anyway {
            return;
        }
        match message.body {
            CoordinatorBody::NonceGiven { nonce } => {
                self.handle_invitation(connection, message.epoch, nonce, now);
            }
            CoordinatorBody::NonceQuery { nonce } => self.answer_for(nonce, connection),
            CoordinatorBody::ReceiptAck { token } => self.handle_receipt_ack(token),
            body if is_current || obeyed_anyway => self.handle_command(body, now),
            // Commands and promises of a session that the attach under way puts an end to.
            _ => {}
        }
    }

    pub(super) fn handle_command(&mut self, body: CoordinatorBody, now: Now) {
        match body {
            CoordinatorBody::Attached {
                session,
                kill,
                profile,
            } => self.handle_attached(session, &kill, profile, now),
            CoordinatorBody::AttachRefused { reason } => {
                if let Some(id) = self.current.as_ref().map(|c| c.id) {
                    self.disconnect(id, DisconnectReason::Refused(reason));
                }
            }
            CoordinatorBody::HeartbeatAck {
                session,
                beat,
                live,
            } => self.handle_ack(session, beat, &live, now),
            CoordinatorBody::Start {
                session,
                token,
                rests_on,
                work,
            } => self.handle_start(session, token, rests_on, *work, now),
            CoordinatorBody::Cancel { session, token } => {
                if self.session() == Some(session) {
                    self.kill(token, KillCause::Cancelled);
                }
            }
            CoordinatorBody::Interrupt { session } => {
                if self.session() == Some(session) {
                    let living: Vec<Token> = self.attempts.keys().copied().collect();
                    for token in living {
                        self.kill(token, KillCause::Drained);
                    }
                }
            }
            CoordinatorBody::NonceGiven { .. }
            | CoordinatorBody::NonceQuery { .. }
            | CoordinatorBody::ReceiptAck { .. } => {}
        }
    }

    pub(super) fn handle_attached(
        &mut self,
        session: SessionId,
        kill: &[Token],
        profile: KeptProfile,
        now: Now,
    ) {
        let Some(current) = &mut self.current else {
            return;
        };
        let Link::Attaching { sent } = current.link else {
            return;
        };
        current.link = Link::Attached {
            session,
            beats: Beats::after_attach(sent, now.boot),
        };
        for &token in kill {
            self.kill(token, KillCause::LeaseLost);
        }
        let listed: Vec<(Token, Option<WallMs>)> = self
            .attempts
            .iter()
            .filter(|(_, a)| a.listed_from == 0)
            .map(|(&token, a)| (token, a.started_at))
            .collect();
        for (token, started_at) in listed {
            self.extend(token, sent);
            if let Some(at) = started_at {
                // The word of it may have been lost with the last connection.
                self.tell_started(token, at);
            }
        }
        let held: Vec<Token> = self.ended.keys().copied().collect();
        for token in held {
            self.send_receipt(token);
        }
        self.leave_older_lines();
        self.registration.note_attached(profile);
        self.register(now.boot);
    }

    pub(super) fn handle_ack(&mut self, session: SessionId, beat: u64, live: &[Token], now: Now) {
        let Some(Connection {
            link:
                Link::Attached {
                    session: ours,
                    beats,
                },
            ..
        }) = &mut self.current
        else {
            return;
        };
        // An ack of a beat that is not remembered says nothing that could be relied upon.
        let (true, Some(sent)) = (*ours == session, beats.sent(beat)) else {
            return;
        };
        beats.note_answer(sent, now.boot);
        let live: BTreeSet<Token> = live.iter().copied().collect();
        let tokens: Vec<(Token, bool)> = self
            .attempts
            .iter()
            .map(|(&token, a)| (token, a.listed_from <= beat))
            .collect();
        for (token, reported) in tokens {
            if live.contains(&token) {
                if reported {
                    self.extend(token, sent);
                }
            } else if reported || !self.rules.on(Rule::AckSparesNewborn) {
                self.kill(token, KillCause::LeaseLost);
            }
        }
    }

    pub(super) fn handle_start(
        &mut self,
        session: SessionId,
        token: Token,
        rests_on: u64,
        work: Work,
        now: Now,
    ) {
        if self.attempts.contains_key(&token)
            || self.ended.contains_key(&token)
            || self.finished.contains(token)
        {
            return;
        }
        let judged = self.judge_start(session, rests_on, work.takeover, now.boot);
        let late_allowed = !self.rules.on(Rule::LateStartRefused);
        let (deadline, listed_from) = match judged {
            Some(Ok(judged)) => judged,
            _ if late_allowed => (agent_deadline(now.boot, work.takeover), 1),
            Some(Err(refusal)) => return self.refuse(token, refusal, now),
            // An attach is in flight that did not list this token: it settles the matter.
            None => return,
        };
        if let Err(forbidden) = self.config.policy.judge(&work) {
            return self.refuse(token, StartRefusal::Forbidden(forbidden), now);
        }
        if let Err(refusal) = self.room_for(token) {
            return self.refuse(token, refusal, now);
        }
        let output = output_directory(&self.config.output_directory, token);
        self.insert(
            token,
            Attempt {
                takeover: work.takeover,
                deadline,
                killed: None,
                output: output.clone(),
                started_at: None,
                listed_from,
            },
        );
        self.supervise(Request::Launch(Launch {
            token,
            env: environment::environment(&work, token, &self.config.path),
            exec: work.exec,
            user: work.user,
            limits: work.limits,
            output,
            output_bytes_max: self.config.output_bytes_max,
            deadline,
            takeover: work.takeover,
            timeout: work.timeout,
        }));
    }

    /// Rule 6.4: the first deadline, and the first beat that will list the attempt. `None` where
    /// no session is live.
    pub(super) fn judge_start(
        &self,
        session: SessionId,
        rests_on: u64,
        takeover: DurationMs,
        now: BootMs,
    ) -> Option<Result<(BootMs, u64), StartRefusal>> {
        let Link::Attached {
            session: ours,
            beats,
        } = &self.current.as_ref()?.link
        else {
            return None;
        };
        if *ours != session {
            return Some(Err(StartRefusal::OtherSession));
        }
        let Some(sent) = beats.sent(rests_on) else {
            return Some(Err(StartRefusal::UnknownBeat(rests_on)));
        };
        let deadline = agent_deadline(sent, takeover);
        if deadline <= now {
            let late = now - deadline;
            return Some(Err(StartRefusal::DeadlinePassed { late }));
        }
        Some(Ok((deadline, beats.next_number())))
    }

    pub(super) fn room_for(&self, token: Token) -> Result<(), StartRefusal> {
        if self.stopping {
            return Err(StartRefusal::Stopping);
        }
        if self.supervisor.is_none() {
            return Err(StartRefusal::SupervisorAway);
        }
        if self.finished.may_have_held(token) {
            return Err(StartRefusal::Replayed);
        }
        if let Some(full) = &self.disk_full {
            return Err(StartRefusal::DiskFull(full.clone()));
        }
        let slots = self.config.slots;
        if self.attempts.len() >= slots as usize {
            return Err(StartRefusal::NoSlot { slots });
        }
        let held = self.ended.len();
        if self.attempts.len() + held >= HELD_MAX {
            return Err(StartRefusal::ReceiptsPileUp { held });
        }
        Ok(())
    }

    pub(super) fn refuse(&mut self, token: Token, refusal: StartRefusal, now: Now) {
        let ended = Ended {
            end: refusal.into_end(now.wall),
            tail_pending: false,
        };
        self.ended.insert(token, ended);
        self.send_receipt(token);
    }
}
