//! Heartbeats and their acknowledgements.
//!
//! An acknowledgement is a promise that an agent's leases live on, so it is given only after a
//! quorum round that began after the heartbeat arrived: a leader that was replaced while its
//! machine stood still cannot give one. One round serves every heartbeat that waits.

use protocol::message::{CoordinatorBody, Heartbeat};
use protocol::{BootMs, Now, Rule, SessionId, Token};

use crate::core::{ConnId, Core, Effect};

#[derive(Debug, Default)]
pub(crate) struct Acks {
    /// Number of the newest quorum round.
    last: u64,
    in_flight: bool,
    /// Heartbeats that arrived after the round in flight began.
    waiting: Vec<Beat>,
    riding: Vec<Beat>,
}

#[derive(Clone, Debug)]
struct Beat {
    conn: ConnId,
    session: SessionId,
    beat: u64,
    arrived: BootMs,
    lists: Vec<Token>,
}

impl Core {
    /// The quorum round that [`Effect::ConfirmQuorum`] asked for has succeeded.
    pub fn handle_quorum(&mut self, round: u64, now: Now) {
        self.observe(now);
        if self.acks.in_flight && round == self.acks.last {
            self.acks.in_flight = false;
            // Expiries first: an acknowledgement must leave out what is being taken away.
            self.expire_riding(now);
            for beat in std::mem::take(&mut self.acks.riding) {
                self.acknowledge(beat);
            }
            if !self.acks.waiting.is_empty() || self.expiry.waits_for_round() {
                self.begin_round();
            }
        }
        self.stir(now);
    }

    pub(crate) fn begin_round(&mut self) {
        if self.acks.in_flight || self.epoch().is_none() {
            return;
        }
        let acks = &mut self.acks;
        acks.in_flight = true;
        acks.last += 1;
        acks.riding = std::mem::take(&mut acks.waiting);
        let round = acks.last;
        self.expiry.board();
        self.effect(Effect::ConfirmQuorum { round });
    }

    pub(crate) fn handle_heartbeat(&mut self, conn: ConnId, beat: Heartbeat, now: Now) {
        let Some(agent_id) = self.speaker_in(conn, beat.session) else {
            return;
        };
        self.sessions.hear(conn, now.boot);
        self.note_host(agent_id);
        self.note_host_now(agent_id, beat.host.as_ref());
        self.gate.hear(agent_id, beat.wall, beat.round_trip, now);
        if let Some(health) = beat.host.as_ref().and_then(|host| host.health.as_ref()) {
            self.hear_health(agent_id, health);
        }
        if let Some(told) = beat.host.as_ref().and_then(|host| host.clock.as_ref()) {
            self.gate.note_told(agent_id, told, now);
        }
        self.sessions.note_fares(conn, beat.host);
        let beat = Beat {
            conn,
            session: beat.session,
            beat: beat.beat,
            arrived: now.boot,
            lists: beat.attempts,
        };
        if self.rules.on(Rule::AckAfterQuorum) {
            self.acks.waiting.push(beat);
            self.begin_round();
        } else {
            self.acknowledge(beat);
        }
    }

    fn acknowledge(&mut self, beat: Beat) {
        let Some(agent_id) = self.speaker_in(beat.conn, beat.session) else {
            return;
        };
        self.sessions.note_acked(beat.conn, beat.beat, beat.arrived);
        for &token in &beat.lists {
            self.expiry.list(agent_id, token, beat.arrived);
        }
        let leaves_out = self.rules.on(Rule::AckLeavesOutExpiring);
        let live = self
            .queue
            .leases_of(agent_id)
            .map(|(token, _)| token)
            .filter(|&token| !(leaves_out && self.expiry.is_proposed(token)))
            .filter(|&token| !self.expiry.is_overlong(token, beat.arrived))
            .collect();
        let (session, number) = (beat.session, beat.beat);
        self.send(
            beat.conn,
            CoordinatorBody::HeartbeatAck {
                session,
                beat: number,
                live,
            },
        );
    }
}
