//! The coordinator's machine: one ledger that survives everything here, and the processes that
//! lead over it.
//!
//! The shell around a core is modelled with its two threads: one that feeds the core, one that
//! commits. While a batch is on its way to the disk, further proposals gather for the next; a
//! crash in that window loses the batch, or keeps it without anybody having heard.

use std::collections::VecDeque;

use coordinator_core::clock::Thresholds;
use coordinator_core::{
    Config, ConnId, Core, Effect, ProposalId, Request, RequestError, RequestId,
};
use ledger::{Command, Done, Outcome, Proposal};
use protocol::message::{AgentMessage, Incarnation, Nonce};
use protocol::{AgentName, DurationMs, Lifetime, Now, Rule, WallMs};

use super::clock::Clock;
use super::network::{Direction, Frame, IDLE_TIMEOUT_MS};
use super::{Event, World};
use crate::invariants;

/// How long after a stall's end the network's threads take to hand on what lay in the sockets,
/// while the timers have run already.
const READERS_LAG_MS: i64 = 20;

/// The gate sees a step of a second, measured from where the clock stood while it was believed.
/// That may be up to a second from where it was just before, so a larger step is seen for sure.
const STEP_MS: i64 = 2_000;

/// What every process on the coordinator's machine calls itself.
const NODE: &str = "control";

/// Certificates do not end here; the machines under test are told when they do.
const CERTIFICATE: Lifetime = Lifetime {
    from: WallMs(0),
    until: WallMs(i64::MAX),
};

/// One coordinator process.
pub struct Leader {
    pub core: Core,
    /// How far its wall clock was ahead of its boot clock when it last looked.
    offset: i64,
    /// When it could last see that its clock had been set.
    pub stepped_at: Option<i64>,
    /// By how much this process's wall clock is ahead of its machine's: as if it ran elsewhere.
    pub wall_error_ms: i64,
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
    /// Whether its batches reach the ledger: not on the wrong side of a cut.
    pub may_commit: bool,
    pub has_quorum: bool,
    rounds_waiting: Vec<u64>,
    /// What others committed while it was cut off.
    pub(super) missed: Vec<Vec<(ProposalId, Outcome)>>,
}

impl Leader {
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
    pub fn coordinator_now(&self) -> Now {
        self.coordinator_clock.read(self.now)
    }

    /// What a process reads, whose clock need not be its machine's.
    pub fn leader_now(&self, generation: u64) -> Now {
        let mut now = self.coordinator_now();
        if let Some(leader) = self.leaders.get(&generation) {
            now.wall = now.wall + DurationMs(leader.wall_error_ms);
        }
        now
    }

    /// Starts a coordinator process; agents dial it from now on.
    pub fn start_leader(&mut self) -> u64 {
        let generation = self.fresh_id();
        let set = self.store.working_set().expect("the ledger can be read");
        invariants::indexes::on_load(self, &set);
        let config = Config {
            node: NODE.to_owned(),
            incarnation: Incarnation(generation),
            boot_id: format!("boot-{}", self.coordinator_boots),
            looked_at: self.store.last_applied().expect("the ledger can be read"),
            last_clock: self.store.last_clock(NODE).expect("the ledger can be read"),
            certificate: CERTIFICATE,
            clock: Thresholds::default(),
        };
        let core = Core::new(config, set, self.coordinator_now(), self.rules);
        self.note(|_| format!("coordinator {generation} starts"));
        self.leaders.insert(
            generation,
            Leader {
                core,
                offset: offset(self.coordinator_now()),
                stepped_at: None,
                wall_error_ms: 0,
                queue: Vec::new(),
                withheld: Vec::new(),
                batch: Vec::new(),
                stopped: false,
                inbox: VecDeque::new(),
                readers_lag: false,
                tick_at: i64::MAX,
                may_commit: true,
                has_quorum: true,
                rounds_waiting: Vec::new(),
                missed: Vec::new(),
            },
        );
        self.front = generation;
        self.drain_leader(generation);
        generation
    }

    /// The machine is switched off and on again: its boot clock begins anew.
    pub fn reboot_coordinator(&mut self, keep: bool) {
        for leader in self.leaders.keys().copied().collect::<Vec<_>>() {
            self.crash_leader(leader, keep);
        }
        let error = self.coordinator_clock.wall_error(self.now);
        self.coordinator_clock = Clock::right(self.now);
        self.coordinator_clock.step(self.now, error);
        self.coordinator_boots += 1;
    }

    /// Kills the process. `keep`: whether a batch on its way to the disk had reached it.
    pub fn crash_leader(&mut self, generation: u64, keep: bool) {
        let Some(leader) = self.leaders.remove(&generation) else {
            return;
        };
        let lost = leader.batch.len();
        self.unanswered.retain(|_, by| *by != generation);
        self.note(|_| {
            format!("coordinator {generation} dies; {lost} commands on their way, kept: {keep}")
        });
        if self.rules.on(Rule::GrantBeforeWord) {
            if keep && leader.may_commit {
                let outcomes = self.apply_batch(&leader.batch);
                self.publish(generation, &outcomes);
            }
        } else if !keep {
            self.roll_back();
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
    }

    pub fn stop_leader(&mut self, generation: u64) {
        self.note(|_| format!("coordinator {generation} stands still"));
        if let Some(leader) = self.leaders.get_mut(&generation) {
            leader.stopped = true;
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
        if self.leaders.get(&generation).is_some_and(|l| l.stopped) {
            self.time_out(connection, Direction::Down);
        }
    }

    /// The process goes on: its timers first, then what its threads had queued, and what lay in
    /// the sockets a little later.
    pub fn resume_leader(&mut self, generation: u64) {
        self.note(|_| format!("coordinator {generation} goes on"));
        let Some(leader) = self.leaders.get_mut(&generation) else {
            return;
        };
        leader.stopped = false;
        leader.readers_lag = true;
        let (network, queued): (VecDeque<Input>, VecDeque<Input>) =
            std::mem::take(&mut leader.inbox)
                .into_iter()
                .partition(Input::is_from_network);
        leader.inbox = network;
        self.feed(generation, Input::Tick);
        for input in queued {
            self.feed(generation, input);
        }
        self.after(READERS_LAG_MS, Event::ReadersCatchUp(generation));
    }

    pub(super) fn readers_catch_up(&mut self, generation: u64) {
        let Some(leader) = self.leaders.get_mut(&generation) else {
            return;
        };
        if leader.stopped {
            return;
        }
        leader.readers_lag = false;
        for input in std::mem::take(&mut leader.inbox) {
            self.feed(generation, input);
        }
    }

    /// Cuts a leader off from its voters, so that neither a round nor a batch gets through, or
    /// lets it reach them again.
    pub fn set_quorum(&mut self, generation: u64, has_quorum: bool) {
        let Some(leader) = self.leaders.get_mut(&generation) else {
            return;
        };
        leader.has_quorum = has_quorum;
        leader.may_commit = has_quorum;
        self.quorum_withheld_at = self.now;
        if !has_quorum {
            return;
        }
        let waits = !leader.batch.is_empty();
        let missed = std::mem::take(&mut leader.missed);
        for round in std::mem::take(&mut leader.rounds_waiting) {
            self.after(2, Event::Quorum(generation, round));
        }
        if waits {
            self.after(2, Event::BatchIsDurable(generation));
        }
        for outcomes in missed {
            self.feed(generation, Input::Outcomes(outcomes));
        }
    }

    /// What others have committed while it was cut off, a process never hears.
    pub fn hears_nothing_of_others(&mut self, generation: u64) {
        if let Some(leader) = self.leaders.get_mut(&generation) {
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

    pub fn leader(&self) -> Option<&Leader> {
        self.leaders.get(&self.front)
    }

    pub(super) fn hand_to_leader(&mut self, id: u64, generation: u64, host: usize, frame: Frame) {
        if !self.leaders.contains_key(&generation) {
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
        if let Some(leader) = self.leaders.get_mut(&generation)
            && now >= leader.tick_at
        {
            leader.tick_at = i64::MAX;
            if !leader.stopped {
                self.feed(generation, Input::Tick);
            }
        }
    }

    /// The voters answer only to the leader that the log knows.
    pub(super) fn quorum_answers(&mut self, generation: u64, round: u64) {
        let reigns = self
            .leaders
            .get(&generation)
            .and_then(|leader| leader.core.epoch());
        if reigns == self.truth.set.epoch {
            self.feed(generation, Input::Quorum(round));
        }
    }

    pub(super) fn batch_is_durable(&mut self, generation: u64) {
        let Some(leader) = self.leaders.get_mut(&generation) else {
            return;
        };
        if !leader.may_commit || leader.batch.is_empty() {
            return;
        }
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
    }

    pub(super) fn feed(&mut self, generation: u64, input: Input) {
        let now = self.leader_now(generation);
        let Some(leader) = self.leaders.get_mut(&generation) else {
            return;
        };
        if leader.stopped || (leader.readers_lag && input.is_from_network()) {
            leader.inbox.push_back(input);
            return;
        }
        if generation == self.front {
            self.wall_reached = self.wall_reached.max(now.wall);
        }
        let moved = offset(now) - leader.offset;
        leader.offset = offset(now);
        if moved.abs() > STEP_MS {
            leader.stepped_at = Some(self.now);
        }
        match input {
            Input::Tick => leader.core.handle_tick(now),
            Input::Quorum(round) => leader.core.handle_quorum(round, now),
            Input::Outcomes(outcomes) => leader.core.handle_outcomes(outcomes, now),
            Input::Request(id, request) => {
                leader.core.handle_request(id, request, now);
                self.unanswered.insert(id, generation);
            }
            Input::Message(conn, message) => leader.core.handle_message(conn, message, now),
            Input::Disconnected(conn) => {
                leader.core.handle_disconnected(conn, now);
                if let Some(connection) = self.connections.get_mut(&conn.0) {
                    connection.leader_open = false;
                }
            }
            Input::Accept(conn, name) => {
                if let Some(connection) = self.connections.get_mut(&conn.0) {
                    connection.leader_open = true;
                }
                let nonce = Nonce(self.rng.next());
                leader
                    .core
                    .handle_connected(conn, name, CERTIFICATE, nonce, now);
                self.send(conn.0, Direction::Down, Frame::Accepted);
            }
        }
        self.drain_leader(generation);
    }

    /// Takes out everything the core has decided, begins the next batch, and sets the timer.
    fn drain_leader(&mut self, generation: u64) {
        loop {
            let mut idle = true;
            while let Some(leader) = self.leaders.get_mut(&generation)
                && let Some((id, proposal)) = leader.core.poll_proposal()
            {
                leader.queue.push((id, proposal.clone()));
                invariants::on_propose(self, generation, &proposal);
                idle = false;
            }
            while let Some(leader) = self.leaders.get_mut(&generation)
                && let Some(effect) = leader.core.poll_effect()
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
        let Some(leader) = self.leaders.get_mut(&generation) else {
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
        if leader.queue.is_empty() || !(leader.batch.is_empty() || early) {
            return false;
        }
        let next = std::mem::take(&mut leader.queue);
        let begins = leader.batch.is_empty();
        leader.batch.extend(next.iter().cloned());
        if early {
            // The word goes out first, and the disk is hoped for.
            let outcomes = self.apply_unlogged(&next);
            if let Some(leader) = self.leaders.get_mut(&generation) {
                leader.core.handle_outcomes(outcomes, now);
            }
        }
        if begins {
            let after = self.rng.between(shortest, longest);
            self.after(after, Event::BatchIsDurable(generation));
        }
        true
    }

    /// What was kept back goes into the next batch, whatever has overtaken it.
    pub fn release_withheld(&mut self) {
        self.withhold = None;
        let generation = self.front;
        if let Some(leader) = self.leaders.get_mut(&generation) {
            let withheld = std::mem::take(&mut leader.withheld);
            leader.queue.extend(withheld);
        }
        self.drain_leader(generation);
    }

    fn schedule_tick(&mut self, generation: u64) {
        let now = self.leader_now(generation);
        let Some(leader) = self.leaders.get(&generation) else {
            return;
        };
        let wanted = leader.core.poll_timeout(now);
        let at = self.coordinator_clock.true_time_of(wanted, self.now) + self.tick_late_ms;
        let at = at.max(self.now + 1);
        if at < leader.tick_at {
            if let Some(leader) = self.leaders.get_mut(&generation) {
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
                if let Some(leader) = self.leaders.get_mut(&generation) {
                    if leader.has_quorum {
                        let after = self.rng.between(1, 5);
                        self.after(after, Event::Quorum(generation, round));
                    } else {
                        leader.rounds_waiting.push(round);
                    }
                }
            }
            Effect::StepDown => {
                self.crash_leader(generation, false);
                if self.front == generation {
                    self.after(1_000, Event::StartLeader);
                }
            }
        }
    }

    fn answered(&mut self, request: RequestId, answer: Result<Done, RequestError>) {
        self.note(|_| match &answer {
            Ok(done) => format!("answer: {done:?}"),
            Err(error) => format!("answer: {error}"),
        });
        self.unanswered.remove(&request);
        let twice = self.answers.insert(request, answer).is_some();
        self.require(!twice, "P1", "one answer to a request", || {
            format!("{request:?} was answered twice")
        });
    }
}
