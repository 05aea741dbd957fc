//! The coordinators' processes, over the one ledger that survives everything here.
//!
//! The shell around a core is modelled with its two threads: one that feeds the core, one that
//! commits. While a batch is on its way to the disk, further proposals gather for the next; a
//! crash in that window loses the batch, or keeps it without anybody having heard.

use std::collections::VecDeque;

use coordinator_core::clock::members::MemberClock;
use coordinator_core::clock::service::ServiceWord;
use coordinator_core::{ConnId, Core, Effect, ProposalId, Request, RequestError, RequestId};
use ledger::{Command, Done, Outcome, Proposal};
use protocol::message::{AgentMessage, Nonce};
use protocol::{AgentName, BootMs, Epoch, Lifetime, Now, Rule, WallMs};

use super::network::{Direction, Frame, IDLE_TIMEOUT_MS};
use super::{Event, World};
use crate::invariants;

/// How long after a stall's end the network's threads take to hand on what lay in the sockets,
/// while the timers have run already.
const READERS_LAG_MS: i64 = 20;

/// The gate sees a step of a second, measured from where the clock stood while it was believed.
/// That may be up to a second from where it was just before, so a larger step is seen for sure.
const STEP_MS: i64 = 2_000;

/// Certificates do not end here; the machines under test are told when they do.
pub(super) const CERTIFICATE: Lifetime = Lifetime {
    from: WallMs(0),
    until: WallMs(i64::MAX),
};

/// One coordinator process.
#[derive(Default)]
pub struct Coordinator {
    pub machine: usize,
    /// While it leads, or believes so; otherwise it stands by.
    pub core: Option<Core>,
    /// What answers a core names its reign: an answer to an earlier one is nobody's.
    pub(super) reign: u64,
    /// How far its wall clock was ahead of its boot clock when it last looked.
    offset: i64,
    /// When it could last see that its clock had been set.
    pub stepped_at: Option<i64>,
    /// Proposals that the next batch will take, and those that are kept back.
    queue: Vec<(ProposalId, Proposal)>,
    withheld: Vec<(ProposalId, Proposal)>,
    /// On its way to the disk.
    pub batch: Vec<(ProposalId, Proposal)>,
    pub stopped: bool,
    /// Inputs of a stopped process, and of one whose readers lag.
    inbox: VecDeque<Input>,
    readers_lag: bool,
    tick_at: i64,
    /// Whether rounds and batches get through to the voters: not on the wrong side of a cut.
    pub has_quorum: bool,
    rounds_waiting: Vec<u64>,
    /// What others committed while it was cut off.
    pub(super) missed: Vec<Vec<(ProposalId, Outcome)>>,
    /// It begins nothing more: another one is to lead.
    pub(super) hands_over: bool,
    /// It was replaced, and nobody tells it.
    pub unaware: bool,
    /// How the clocks of the other members were read last.
    pub(super) clocks: Vec<MemberClock>,
    pub(super) yielded: Option<BootMs>,
    /// For so many looks in a row its clock has been contradicted.
    pub contradicted: u32,
}

impl Coordinator {
    pub(super) fn new(machine: usize) -> Coordinator {
        Coordinator {
            machine,
            tick_at: i64::MAX,
            has_quorum: true,
            ..Coordinator::default()
        }
    }

    pub fn epoch(&self) -> Option<Epoch> {
        self.core.as_ref()?.epoch()
    }

    /// Whether the other voters hear it and it hears them.
    pub fn reaches_voters(&self) -> bool {
        self.has_quorum && !self.stopped
    }

    /// Whether it is on speaking terms with the other members.
    pub fn hears_members(&self) -> bool {
        self.reaches_voters() && !self.unaware
    }

    /// A reign begins: what a core has seen of the clock begins with it.
    pub(super) fn begin_reign(&mut self, core: Core, reign: u64, now: Now) {
        self.core = Some(core);
        self.reign = reign;
        self.offset = offset(now);
        self.stepped_at = None;
    }

    /// Forgets everything that was of a reign; answers what has come in and was not read.
    pub(super) fn end_reign(&mut self) -> VecDeque<Input> {
        self.queue.clear();
        self.withheld.clear();
        self.batch.clear();
        self.rounds_waiting.clear();
        self.missed.clear();
        self.hands_over = false;
        self.unaware = false;
        self.take_inbox()
    }

    pub(super) fn take_inbox(&mut self) -> VecDeque<Input> {
        std::mem::take(&mut self.inbox)
    }

    /// Whether a command of this kind has been decided and not committed yet.
    pub fn has_on_its_way(&self, kind: impl Fn(&Command) -> bool) -> bool {
        let ways = [&self.queue, &self.batch, &self.withheld];
        ways.into_iter()
            .flatten()
            .any(|(_, proposal)| kind(&proposal.command))
    }

    /// Whether it has not yet heard of everything that was committed.
    pub fn lags(&self) -> bool {
        !self.inbox.is_empty() || !self.missed.is_empty()
    }
}

fn offset(now: Now) -> i64 {
    now.wall.0 - now.boot.0
}

pub(super) enum Input {
    Accept(ConnId, AgentName),
    Message(ConnId, AgentMessage),
    Disconnected(ConnId),
    Quorum(u64),
    Outcomes(Vec<(ProposalId, Outcome)>),
    Request(RequestId, Request),
    Clocks,
    TimeService(ServiceWord),
    Tick,
}

impl Input {
    fn is_from_network(&self) -> bool {
        matches!(
            self,
            Input::Accept(..) | Input::Message(..) | Input::Disconnected(_)
        )
    }
}

impl World {
    /// What the machine in front reads.
    pub fn coordinator_now(&self) -> Now {
        self.controls[self.front_machine].clock.read(self.now)
    }

    /// What a process reads.
    pub fn leader_now(&self, generation: u64) -> Now {
        let machine = self.coordinators.get(&generation).map(|c| c.machine);
        let machine = machine.unwrap_or(self.front_machine);
        self.controls[machine].clock.read(self.now)
    }

    /// Starts a process on the machine in front, which leads.
    pub fn start_leader(&mut self) -> u64 {
        self.lead(self.front_machine)
    }

    /// Kills the process. `keep`: whether a batch on its way to the disk had reached it.
    pub fn crash_leader(&mut self, generation: u64, keep: bool) {
        let Some(leader) = self.coordinators.remove(&generation) else {
            return;
        };
        let lost = leader.batch.len();
        self.unanswered.retain(|_, by| *by != generation);
        self.note(|_| {
            format!("coordinator {generation} dies; {lost} commands on their way, kept: {keep}")
        });
        match (
            keep && leader.has_quorum,
            self.rules.on(Rule::GrantBeforeWord),
        ) {
            (true, true) => {
                let outcomes = self.apply_batch(&leader.batch);
                self.publish(generation, &outcomes);
            }
            // It is in the ledger already.
            (true, false) => self.log.extend(leader.batch.into_iter().map(|(_, p)| p)),
            (false, true) => {}
            (false, false) => self.roll_back(),
        }
        let orphaned: Vec<u64> = self
            .connections
            .iter()
            .filter(|(_, c)| c.leader == generation)
            .map(|(&id, _)| id)
            .collect();
        for id in orphaned {
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.leader_open = false;
            }
            let within = self.rng.span(200, IDLE_TIMEOUT_MS);
            self.end_vanished(id, Direction::Down, within);
        }
        if generation == self.front {
            self.call_election();
        }
    }

    pub fn stop_leader(&mut self, generation: u64) {
        self.note(|_| format!("coordinator {generation} stands still"));
        if let Some(leader) = self.coordinators.get_mut(&generation) {
            leader.stopped = true;
        }
        if generation == self.front {
            self.call_election();
        }
        // Nobody answers the agents any more, and their connections time out.
        let deaf: Vec<u64> = self
            .connections
            .iter()
            .filter(|(_, c)| c.leader == generation)
            .map(|(&id, _)| id)
            .collect();
        for id in deaf {
            self.after(IDLE_TIMEOUT_MS, Event::StallLasts(generation, id));
        }
    }

    pub(super) fn stall_lasts(&mut self, generation: u64, connection: u64) {
        if self
            .coordinators
            .get(&generation)
            .is_some_and(|l| l.stopped)
        {
            self.time_out(connection, Direction::Down);
        }
    }

    /// The process goes on: its timers first, then what its threads had queued, and what lay in
    /// the sockets a little later.
    pub fn resume_leader(&mut self, generation: u64) {
        self.note(|_| format!("coordinator {generation} goes on"));
        let Some(leader) = self.coordinators.get_mut(&generation) else {
            return;
        };
        leader.stopped = false;
        leader.readers_lag = true;
        let (network, queued): (VecDeque<Input>, VecDeque<Input>) = leader
            .take_inbox()
            .into_iter()
            .partition(Input::is_from_network);
        leader.inbox = network;
        self.feed(generation, Input::Tick);
        for input in queued {
            self.feed(generation, input);
        }
        self.after(READERS_LAG_MS, Event::ReadersCatchUp(generation));
        self.tell_deposed(generation);
    }

    pub(super) fn readers_catch_up(&mut self, generation: u64) {
        let Some(leader) = self.coordinators.get_mut(&generation) else {
            return;
        };
        if leader.stopped {
            return;
        }
        leader.readers_lag = false;
        for input in leader.take_inbox() {
            self.feed(generation, input);
        }
    }

    /// Cuts a leader off from its voters, so that neither a round nor a batch gets through, or
    /// lets it reach them again.
    pub fn set_quorum(&mut self, generation: u64, has_quorum: bool) {
        let Some(leader) = self.coordinators.get_mut(&generation) else {
            return;
        };
        leader.has_quorum = has_quorum;
        self.quorum_withheld_at = self.now;
        if !has_quorum {
            if generation == self.front {
                self.call_election();
            }
            return;
        }
        let (reign, waits) = (leader.reign, !leader.batch.is_empty());
        let missed = std::mem::take(&mut leader.missed);
        for round in std::mem::take(&mut leader.rounds_waiting) {
            self.after(2, Event::Quorum(generation, reign, round));
        }
        if waits {
            self.after(2, Event::BatchIsDurable(generation, reign));
        }
        for outcomes in missed {
            self.feed(generation, Input::Outcomes(outcomes));
        }
        self.tell_deposed(generation);
    }

    /// What others have committed while it was cut off, a process never hears.
    pub fn hears_nothing_of_others(&mut self, generation: u64) {
        if let Some(leader) = self.coordinators.get_mut(&generation) {
            leader.missed.clear();
        }
    }

    /// A person asks the coordinator in front.
    pub fn request(&mut self, request: Request) -> RequestId {
        let id = RequestId(self.fresh_id());
        self.note(|_| format!("a person asks: {}", super::people::brief(&request)));
        let generation = self.front;
        self.feed(generation, Input::Request(id, request));
        id
    }

    /// The process in front, if it lives.
    pub fn leader(&self) -> Option<&Coordinator> {
        self.coordinators.get(&self.front)
    }

    pub(super) fn hand_to_leader(&mut self, id: u64, generation: u64, host: usize, frame: Frame) {
        if !self.coordinators.contains_key(&generation) {
            return;
        }
        let conn = ConnId(id);
        let input = match frame {
            Frame::Hello => Input::Accept(conn, self.hosts[host].identity.clone()),
            Frame::FromAgent(message) => {
                self.note(|_| super::brief_up(host, &message));
                if generation == self.front {
                    self.note_arrival(host, &message);
                }
                Input::Message(conn, message)
            }
            Frame::Close => {
                self.note_end(host);
                Input::Disconnected(conn)
            }
            Frame::Accepted | Frame::FromCoordinator(_) => return,
        };
        self.feed(generation, input);
    }

    pub(super) fn tick_leader(&mut self, generation: u64) {
        let now = self.now;
        if let Some(leader) = self.coordinators.get_mut(&generation)
            && now >= leader.tick_at
        {
            leader.tick_at = i64::MAX;
            if !leader.stopped {
                self.feed(generation, Input::Tick);
            }
        }
    }

    /// The voters answer only to the leader that the log knows.
    pub(super) fn quorum_answers(&mut self, generation: u64, reign: u64, round: u64) {
        let asked = self.coordinators.get(&generation);
        let asked = asked.filter(|leader| leader.reign == reign);
        if asked.is_some_and(|leader| leader.epoch() == self.truth.set.epoch) {
            self.feed(generation, Input::Quorum(round));
        }
    }

    pub(super) fn batch_is_durable(&mut self, generation: u64, reign: u64) {
        let Some(leader) = self.coordinators.get(&generation) else {
            return;
        };
        if !leader.has_quorum || leader.batch.is_empty() || leader.reign != reign {
            return;
        }
        if !self.has_room(generation) {
            // A log that finds no room ends its process. The other voters may have the batch.
            let keep = self.is_pair() && self.rng.one_in(2);
            self.crash_leader(generation, keep);
            return;
        }
        let Some(leader) = self.coordinators.get_mut(&generation) else {
            return;
        };
        let batch = std::mem::take(&mut leader.batch);
        if self.rules.on(Rule::GrantBeforeWord) {
            let outcomes = self.apply_batch(&batch);
            self.publish(generation, &outcomes);
            self.feed(generation, Input::Outcomes(outcomes));
        } else {
            self.log
                .extend(batch.into_iter().map(|(_, proposal)| proposal));
            self.drain_leader(generation);
        }
        self.perhaps_transfer(generation);
    }

    pub(super) fn feed(&mut self, generation: u64, input: Input) {
        let now = self.leader_now(generation);
        let Some(leader) = self.coordinators.get_mut(&generation) else {
            return;
        };
        let waits = leader.hands_over && !matches!(input, Input::Outcomes(_));
        if leader.stopped || waits || (leader.readers_lag && input.is_from_network()) {
            leader.inbox.push_back(input);
            return;
        }
        let moved = offset(now) - leader.offset;
        leader.offset = offset(now);
        if moved.abs() > STEP_MS {
            leader.stepped_at = Some(self.now);
        }
        // The one that was to lead may have declined, and the one before it leads on.
        let known = leader
            .epoch()
            .is_some_and(|epoch| self.truth.set.epoch == Some(epoch));
        if generation == self.front || known {
            self.wall_reached = self.wall_reached.max(now.wall);
        }
        self.note_connection(&input);
        let nonce = match &input {
            Input::Accept(..) => Nonce(self.rng.next()),
            _ => Nonce(0),
        };
        if let Input::Request(id, _) = &input
            && self.core_of(generation).is_some()
        {
            self.unanswered.insert(*id, generation);
        }
        let Some(leader) = self.coordinators.get_mut(&generation) else {
            return;
        };
        let Some(core) = leader.core.as_mut() else {
            // Nobody here who would listen.
            return;
        };
        match input {
            Input::Tick => core.handle_tick(now),
            Input::Clocks => core.handle_clocks(&leader.clocks, now),
            Input::TimeService(word) => core.handle_time_service(word, now),
            Input::Quorum(round) => core.handle_quorum(round, now),
            Input::Outcomes(outcomes) => core.handle_outcomes(outcomes, now),
            Input::Request(id, request) => core.handle_request(id, request, now),
            Input::Message(conn, message) => core.handle_message(conn, message, now),
            Input::Disconnected(conn) => core.handle_disconnected(conn, now),
            Input::Accept(conn, name) => {
                core.handle_connected(conn, name, CERTIFICATE, nonce, now);
            }
        }
        self.drain_leader(generation);
    }

    /// Connections are held whether or not anybody leads here.
    fn note_connection(&mut self, input: &Input) {
        let (conn, is_open) = match input {
            Input::Accept(conn, _) => (conn, true),
            Input::Disconnected(conn) => (conn, false),
            _ => return,
        };
        if let Some(connection) = self.connections.get_mut(&conn.0) {
            connection.leader_open = is_open;
        }
        if is_open {
            self.send(conn.0, Direction::Down, Frame::Accepted);
        }
    }

    /// Takes out everything the core has decided, begins the next batch, and sets the timer.
    pub(super) fn drain_leader(&mut self, generation: u64) {
        loop {
            let mut idle = true;
            while let Some(leader) = self.coordinators.get_mut(&generation)
                && let Some(core) = leader.core.as_mut()
                && let Some((id, proposal)) = core.poll_proposal()
            {
                leader.queue.push((id, proposal.clone()));
                invariants::on_propose(self, generation, &proposal);
                idle = false;
            }
            while let Some(leader) = self.coordinators.get_mut(&generation)
                && let Some(core) = leader.core.as_mut()
                && let Some(effect) = core.poll_effect()
            {
                self.perform(generation, effect);
                idle = false;
            }
            idle &= !self.begin_batch(generation);
            if idle {
                break;
            }
        }
        self.schedule_tick(generation);
    }

    fn begin_batch(&mut self, generation: u64) -> bool {
        let now = self.leader_now(generation);
        let (shortest, longest) = self.commit_ms;
        let Some(leader) = self.coordinators.get_mut(&generation) else {
            return false;
        };
        if let Some(withhold) = self.withhold {
            let (kept, rest) = std::mem::take(&mut leader.queue)
                .into_iter()
                .partition(|(_, proposal)| withhold(&proposal.command));
            leader.queue = rest;
            leader.withheld.extend::<Vec<_>>(kept);
        }
        let early = !self.rules.on(Rule::GrantBeforeWord);
        if leader.hands_over || leader.queue.is_empty() || !(leader.batch.is_empty() || early) {
            return false;
        }
        let next = std::mem::take(&mut leader.queue);
        let (reign, begins) = (leader.reign, leader.batch.is_empty());
        leader.batch.extend(next.iter().cloned());
        if early {
            // The word goes out first, and the disk is hoped for.
            let outcomes = self.apply_unlogged(&next);
            if let Some(core) = self.core_of(generation) {
                core.handle_outcomes(outcomes, now);
            }
        }
        if begins {
            let after = self.rng.between(shortest, longest);
            self.after(after, Event::BatchIsDurable(generation, reign));
        }
        true
    }

    /// What was kept back goes into the next batch, whatever has overtaken it.
    pub fn release_withheld(&mut self) {
        self.withhold = None;
        let generation = self.front;
        if let Some(leader) = self.coordinators.get_mut(&generation) {
            let withheld = std::mem::take(&mut leader.withheld);
            leader.queue.extend(withheld);
        }
        self.drain_leader(generation);
    }

    fn schedule_tick(&mut self, generation: u64) {
        let now = self.leader_now(generation);
        let Some(leader) = self.coordinators.get(&generation) else {
            return;
        };
        let Some(core) = leader.core.as_ref() else {
            return;
        };
        let wanted = core.poll_timeout(now);
        let clock = &self.controls[leader.machine].clock;
        let at = clock.true_time_of(wanted, self.now) + self.tick_late_ms;
        let at = at.max(self.now + 1);
        if at < leader.tick_at {
            if let Some(leader) = self.coordinators.get_mut(&generation) {
                leader.tick_at = at;
            }
            self.at(at, Event::LeaderTick(generation));
        }
    }

    fn perform(&mut self, generation: u64, effect: Effect) {
        match effect {
            Effect::Send { conn, message } => {
                self.send(conn.0, Direction::Down, Frame::FromCoordinator(message));
            }
            Effect::Close { conn, reason } => {
                self.note(|_| format!("coordinator closes connection {}: {reason}", conn.0));
                self.close_from_leader(conn.0);
            }
            Effect::Reply { request, answer } => self.answered(request, answer),
            Effect::ConfirmQuorum { round } => {
                if let Some(leader) = self.coordinators.get_mut(&generation) {
                    if leader.has_quorum {
                        let reign = leader.reign;
                        let after = self.rng.between(1, 5);
                        self.after(after, Event::Quorum(generation, reign, round));
                    } else {
                        leader.rounds_waiting.push(round);
                    }
                }
            }
            Effect::HandOver { to } => self.yield_to(generation, to),
            Effect::StepDown => self.stand_by(generation),
        }
    }

    fn answered(&mut self, request: RequestId, answer: Result<Done, RequestError>) {
        self.note(|_| match &answer {
            Ok(done) => format!("answer: {done:?}"),
            Err(error) => format!("answer: {error}"),
        });
        self.unanswered.remove(&request);
        if self.registration_answered(request, &answer) {
            return;
        }
        let twice = self.answers.insert(request, answer).is_some();
        self.require(!twice, "P1", "one answer to a request", || {
            format!("{request:?} was answered twice")
        });
    }
}
