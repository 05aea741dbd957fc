//! The state machine itself: inputs, outputs, and what becomes of an outcome.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use ledger::command::{Admit, AlertKind, BecomeActive, Command, Over, Proposal, SkipWaiting};
use ledger::{
    AgentRow, Change, Done, JobRow, Outcome, Refusal, SeenClock, ShardRow, ShardState, VersionRow,
    WorkingSet,
};
use profiles::classes::Classes;
use protocol::lease::STALLED_LEADER;
use protocol::message::{CoordinatorBody, CoordinatorMessage, Incarnation};
use protocol::{
    AgentId, BootMs, DurationMs, Epoch, JobId, JobName, Now, Rule, Rules, RunId, Token,
};

use crate::acks::Acks;
use crate::backups::Backups;
use crate::catalogue::Catalogue;
use crate::certificates::Certificates;
use crate::clock::hosts::AGENTS_MIN;
use crate::clock::members::MemberClock;
use crate::clock::service::ServiceWord;
use crate::clock::{self, Before, ClockGate, ServiceTold, Told, Verdict};
use crate::expiry::Expiry;
use crate::firing::Firing;
use crate::fleet::Fleet;
use crate::fuse::{Fired, Fuses};
use crate::grants::Grants;
use crate::group::Watched;
use crate::health::Healths;
use crate::queue::{Key, Queue};
use crate::receipts::Receipts;
use crate::reminders::Reminders;
use crate::requests::{PendingRequest, RequestError};
use crate::restored::Hold;
use crate::sessions::{AttachInFlight, Sessions};
use crate::setbacks::{Matter, Setbacks};
use crate::waiting::Waiting;
use crate::yielding::Yielding;

/// How often a shell must call [`Core::handle_tick`] at the least, so that clock steps are seen
/// and a stalled leader can be told from a quiet one.
pub(crate) const TICK: DurationMs = DurationMs(100);

/// One connection of an agent, numbered by the shell in the order in which they were made; a
/// number is never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnId(pub u64);

/// One request of a person, numbered by the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// One proposal on its way through the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProposalId(pub u64);

#[derive(Clone, Debug)]
pub struct Config {
    pub node: String,
    pub incarnation: Incarnation,
    /// The kernel's id of this start of the machine.
    pub boot_id: String,
    /// How many commands the ledger had applied when the working set was read.
    pub looked_at: i64,
    /// How the clocks stood when this node last began a reign.
    pub last_clock: Option<SeenClock>,
    /// How far from the others' clocks this one may be.
    pub clock: clock::Thresholds,
    /// Which hosts are of which class.
    pub classes: Arc<Classes>,
    /// How the clocks of all other members of the group were read last.
    pub members: Vec<MemberClock>,
    /// What this machine's own time service said last.
    pub time_service: Option<ServiceWord>,
    /// When this process last gave the lead away for its clock.
    pub yielded: Option<BootMs>,
}

/// What the shell is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Send {
        conn: ConnId,
        message: CoordinatorMessage,
    },
    /// After what was sent on it before.
    Close { conn: ConnId, reason: String },
    Reply {
        request: RequestId,
        answer: Result<Done, RequestError>,
    },
    /// Begin a quorum round, and call [`Core::handle_quorum`] when it has succeeded.
    ConfirmQuorum { round: u64 },
    /// Give the lead to this node, whose clock is better than this one's, if it can have it. If it
    /// cannot, this core goes on.
    HandOver { to: u64 },
    /// Another leader's epoch was met, or its traces in the ledger: this core is silent from now
    /// on, to whom it owes an answer too.
    StepDown,
}

pub struct Core {
    pub(crate) rules: Rules,
    pub(crate) set: WorkingSet,
    pub(crate) catalogue: Catalogue,
    pub(crate) queue: Queue,
    pub(crate) fleet: Fleet,
    waiting: Waiting,
    pub(crate) names: BTreeMap<JobName, JobId>,
    pub(crate) gate: ClockGate,
    /// What of the clock a person has been told.
    pub(crate) clock_told: Told,
    pub(crate) service_told: ServiceTold,
    pub(crate) sessions: Sessions,
    pub(crate) acks: Acks,
    pub(crate) expiry: Expiry,
    pub(crate) firing: Firing,
    pub(crate) fuses: Fuses,
    pub(crate) grants: Grants,
    pub(crate) receipts: Receipts,
    pub(crate) reminders: Reminders,
    pub(crate) certificates: Certificates,
    pub(crate) setbacks: Setbacks,
    pub(crate) hold: Hold,
    pub(crate) backups: Backups,
    pub(crate) yielding: Yielding,
    pub(crate) watched: Watched,
    pub(crate) classes: Arc<Classes>,
    pub(crate) healths: Healths,
    pub(crate) node: String,
    reign: Reign,
    last_seen: BootMs,
    /// When the newest input came that nothing has been concluded from yet.
    stirred: Option<Now>,
    flights: BTreeMap<ProposalId, Flight>,
    /// Runs with a command of this core in flight.
    busy_runs: BTreeSet<RunId>,
    next_proposal: u64,
    proposals: VecDeque<(ProposalId, Proposal)>,
    effects: VecDeque<Effect>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reign {
    Beginning,
    Leading(Epoch),
    Deposed,
}

/// What a proposal in flight was for.
#[derive(Clone, Debug)]
pub(crate) enum Flight {
    BecomeActive,
    Fire(Fired),
    Run(RunId),
    Shard(Key),
    Grant(Key, AgentId),
    Attach(AttachInFlight),
    Receipt {
        conn: ConnId,
        token: Token,
    },
    Expire(Key, Token),
    EndSession(AgentId),
    Health(AgentId),
    /// Nothing hangs on its outcome but what it changes.
    Note,
    Request(PendingRequest),
}

impl Core {
    /// Begins a reign over the state as loaded; `now` is when it was loaded.
    pub fn new(config: Config, mut set: WorkingSet, now: Now, rules: Rules) -> Core {
        let mut core = Core {
            rules,
            catalogue: Catalogue::of(std::mem::take(&mut set.versions)),
            queue: Queue::default(),
            fleet: Fleet::default(),
            waiting: Waiting::build(&set, now, rules),
            names: BTreeMap::new(),
            gate: ClockGate::new(config.clock, rules),
            clock_told: Told::default(),
            service_told: ServiceTold::default(),
            sessions: Sessions::default(),
            acks: Acks::default(),
            expiry: Expiry::new(now.boot),
            firing: Firing::default(),
            fuses: Fuses::default(),
            grants: Grants::default(),
            receipts: Receipts::default(),
            reminders: Reminders::default(),
            certificates: Certificates::new(now.boot),
            setbacks: Setbacks::default(),
            hold: Hold::default(),
            backups: Backups::default(),
            yielding: Yielding::new(config.yielded),
            watched: Watched::new(now.boot),
            classes: Arc::clone(&config.classes),
            healths: Healths::default(),
            node: config.node.clone(),
            reign: Reign::Beginning,
            last_seen: now.boot,
            stirred: None,
            flights: BTreeMap::new(),
            busy_runs: BTreeSet::new(),
            next_proposal: 0,
            proposals: VecDeque::new(),
            effects: VecDeque::new(),
            set,
        };
        core.gate.begin(core.clock_before(&config), now);
        core.gate.hear_members(&config.members, now);
        if let Some(word) = config.time_service.clone() {
            core.gate.hear_service(word, now);
        }
        core.queue = Queue::build(&core.set, &core.catalogue, now, rules);
        core.note_touched();
        let agents: Vec<AgentId> = core.set.agents.keys().copied().collect();
        for agent_id in agents {
            core.note_host(agent_id);
        }
        for run in core.set.runs.values() {
            core.reminders.note(run, now);
        }
        let shards = core.set.shards.values();
        let leased = shards.filter(|shard| shard.state.lease().is_some());
        let leased: Vec<ShardRow> = leased.cloned().collect();
        for shard in &leased {
            core.note_lease(shard, now);
        }
        let jobs: Vec<JobRow> = core.set.jobs.values().cloned().collect();
        for job in &jobs {
            core.note_job(job);
        }
        let begin = BecomeActive {
            node: config.node,
            incarnation: config.incarnation,
            boot_id: config.boot_id,
            boot: now.boot,
            tzdata: jobs::tzdata_version().to_owned(),
            looked_at: Some(config.looked_at),
        };
        core.begin_or_yield(Command::BecomeActive(begin), now);
        core
    }

    /// What is known of the wall clock from before this reign.
    fn clock_before(&self, config: &Config) -> Before {
        let last = config.last_clock.as_ref();
        match last.filter(|seen| seen.boot_id == config.boot_id) {
            Some(seen) => Before::Seen(seen.at),
            None if !self.rules.on(Rule::ClockComparedAfterBoot) => Before::Nobody,
            None => {
                let asked = |agent: &&AgentRow| agent.barred.is_none();
                match self.set.agents.values().filter(asked).count() {
                    0..AGENTS_MIN => Before::Nobody,
                    _ => Before::Hosts,
                }
            }
        }
    }

    pub fn handle_tick(&mut self, now: Now) {
        self.observe(now);
        self.stir(now);
    }

    /// How the clocks of all other members of the group stand, every second or so.
    pub fn handle_clocks(&mut self, members: &[MemberClock], now: Now) {
        self.observe(now);
        self.gate.hear_members(members, now);
        self.stir(now);
    }

    /// What this machine's own time service says of its clock, every second or so.
    pub fn handle_time_service(&mut self, word: ServiceWord, now: Now) {
        self.observe(now);
        self.gate.hear_service(word, now);
        self.stir(now);
    }

    /// The ledger's answers to what [`Core::poll_proposal`] gave out, in the order of the log.
    pub fn handle_outcomes(&mut self, outcomes: Vec<(ProposalId, Outcome)>, now: Now) {
        self.observe(now);
        for (id, outcome) in outcomes {
            for change in &outcome.changes {
                self.absorb(change, now);
            }
            if let Some(flight) = self.flights.remove(&id) {
                self.land(flight, outcome.result, now);
            }
        }
        self.stir(now);
    }

    pub fn poll_proposal(&mut self) -> Option<(ProposalId, Proposal)> {
        self.conclude();
        self.proposals.pop_front()
    }

    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.conclude();
        self.effects.pop_front()
    }

    /// When [`Core::handle_tick`] must be called next, at the latest. To be asked when everything
    /// has been polled.
    pub fn poll_timeout(&self, now: Now) -> BootMs {
        let tick = now.boot + TICK;
        self.next_due(now).map_or(tick, |due| due.min(tick))
    }

    /// When the next of what it knows of falls due, however far away that is: for who makes the time
    /// and has no need to wait for it.
    pub fn next_due(&self, now: Now) -> Option<BootMs> {
        let due = self
            .firing
            .next()
            .filter(|_| self.clock_verdict(now).may_fire());
        let fire = due.map(|at| now.boot + (at - now.wall).max(DurationMs::ZERO));
        // What is overdue is on its way through the ledger; its outcome is the next input.
        let wakes = [
            self.queue.next_wake(),
            self.waiting.next_wake(),
            self.receipts.next_wake(),
        ];
        let wakes = wakes.into_iter().flatten().filter(|&at| at > now.boot);
        wakes.chain(fire).min()
    }

    /// What is open, as far as the ledger has answered; without the versions, of which is kept what
    /// they say.
    pub fn working_set(&self) -> &WorkingSet {
        &self.set
    }

    /// Whether what is kept of the versions is what these rows of the ledger say.
    pub fn check_versions(
        &self,
        stored: &BTreeMap<(JobId, u32), VersionRow>,
    ) -> Result<(), String> {
        self.catalogue.check(stored)
    }

    /// The classes of hosts that this leader goes by.
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    pub fn epoch(&self) -> Option<Epoch> {
        match self.reign {
            Reign::Leading(epoch) => Some(epoch),
            Reign::Beginning | Reign::Deposed => None,
        }
    }

    pub fn clock_verdict(&self, now: Now) -> Verdict {
        self.gate.verdict(now)
    }

    pub fn clock_thresholds(&self) -> clock::Thresholds {
        self.gate.thresholds()
    }

    /// The clocks of all hosts that were heard lately.
    pub fn host_clocks(&self, now: Now) -> Vec<clock::HostClockSeen> {
        self.gate.host_clocks(now)
    }

    /// Whether the indexes kept up step by step equal those built afresh from the working set.
    pub fn check_indexes(&self, now: Now) -> Result<(), String> {
        let kept = (self.queue.shape(), self.waiting.shape());
        let built = (
            Queue::build(&self.set, &self.catalogue, now, self.rules).shape(),
            Waiting::build(&self.set, now, self.rules).shape(),
        );
        if kept != built {
            return Err(format!("kept up: {kept:?}\nbuilt afresh: {built:?}"));
        }
        self.check_dispatch(now)?;
        self.check_kept()
    }

    /// Proposals on their way through the ledger.
    pub(crate) fn in_flight(&self) -> usize {
        self.flights.len()
    }

    pub(crate) fn waiting_len(&self) -> usize {
        self.waiting.len()
    }

    /// Called at the start of every input: notes both clocks, and whether this leader stalled.
    pub(crate) fn observe(&mut self, now: Now) {
        // A step seen before the reign has begun is told of when it begins.
        if self.gate.observe(now).is_some() && self.epoch().is_some() {
            self.tell_of_clock_behind(now);
        }
        let silence = now.boot - self.last_seen;
        self.last_seen = now.boot;
        // Timers that fire late were set by somebody who was not there to hear the heartbeats.
        if silence > STALLED_LEADER && self.rules.on(Rule::StalledLeaderGivesFullTime) {
            self.expiry.give_full_time(now.boot);
        }
    }

    /// To be called at the end of every input. What follows from it is worked out when somebody
    /// asks, once for all the inputs that have come by then.
    pub(crate) fn stir(&mut self, now: Now) {
        self.stirred = Some(now);
    }

    fn conclude(&mut self) {
        if let Some(now) = self.stirred.take() {
            self.advance(now);
        }
    }

    /// Everything this leader decides by itself. Cheap when nothing is due.
    fn advance(&mut self, now: Now) {
        self.begin_after_all(now);
        if self.epoch().is_none() {
            return;
        }
        self.tell_of_clock(now);
        self.yield_lead(now);
        self.fire_due(now);
        self.queue.wake(&self.set, &self.catalogue, now);
        for key in self.receipts.give_up_overdue(now.boot) {
            self.queue.step_back(key);
        }
        self.skip_overdue(now);
        self.admit_waiting(now);
        self.release_grants(now);
        self.dispatch(now);
        self.give_up_unplaceable(now);
        self.remind(now);
        self.advance_sessions(now);
        self.judge_healths(now);
        self.tell_of_certificates(now);
        self.tell_of_backlog(now);
        self.tell_of_old_backups(now);
        self.advance_expiry(now);
    }

    /// A command of this reign's scheduler.
    pub(crate) fn propose(&mut self, flight: Flight, command: Command, now: Now) {
        let epoch = self.epoch();
        debug_assert!(self.reign != Reign::Beginning, "only a leader proposes");
        self.enqueue(
            flight,
            Proposal {
                epoch,
                at: now.wall,
                source: None,
                command,
            },
        );
    }

    /// What is true in any reign.
    pub(crate) fn propose_in_no_epoch(&mut self, flight: Flight, command: Command, now: Now) {
        self.enqueue(
            flight,
            Proposal {
                epoch: None,
                at: now.wall,
                source: None,
                command,
            },
        );
    }

    pub(crate) fn effect(&mut self, effect: Effect) {
        if self.reign != Reign::Deposed {
            self.effects.push_back(effect);
        }
    }

    /// Says something to an agent under this reign's epoch.
    pub(crate) fn send(&mut self, conn: ConnId, body: CoordinatorBody) {
        if let Some(epoch) = self.epoch() {
            self.effect(Effect::Send {
                conn,
                message: CoordinatorMessage { epoch, body },
            });
        }
    }

    pub(crate) fn enqueue(&mut self, flight: Flight, proposal: Proposal) {
        if self.reign == Reign::Deposed {
            return;
        }
        let id = ProposalId(self.next_proposal);
        self.next_proposal += 1;
        self.flights.insert(id, flight);
        self.proposals.push_back((id, proposal));
    }

    fn absorb(&mut self, change: &Change, now: Now) {
        if let Change::Job(job) = change {
            self.forget_name_of(job.job_id);
        }
        let held_by = match change {
            Change::Shard(shard) => self.queue.lease_of((shard.run_id, shard.shard)),
            _ => None,
        };
        if let Change::Run(run) = change {
            self.waiting
                .follow(self.set.runs.get(&run.run_id), run, now);
        }
        if let Change::Version(version) = change {
            self.catalogue.learn(version);
        } else if let Some(version) = self.set.absorb(change) {
            self.catalogue.forget(version);
        }
        self.queue.follow(&self.set, &self.catalogue, change, now);
        self.note_touched();
        match change {
            Change::Shard(shard) => {
                self.note_lease(shard, now);
                self.tell_of_cancelling(shard);
                let held_by = held_by.map(|(agent_id, _)| agent_id);
                self.grants.note_shard(shard, held_by);
            }
            Change::Run(run) => {
                self.reminders.note(run, now);
                if run.state.is_final() {
                    self.grants.forget_failures(run.run_id);
                    self.setbacks.forget_run(run.run_id);
                }
            }
            Change::Job(job) => self.note_job(job),
            Change::Agent(agent) => self.note_host(agent.agent_id),
            Change::Resource(resource) => self.note_resource(&resource.name),
            Change::Held(_) => self.note_released(now),
            _ => {}
        }
    }

    /// A lease counts from the beat on which it rests until a beat has listed it.
    fn note_lease(&mut self, shard: &ShardRow, now: Now) {
        let ShardState::Leased(lease) = shard.state else {
            return;
        };
        let key = (shard.run_id, shard.shard);
        let (agent_id, token) = (lease.agent_id, lease.token);
        let agent = self.set.agents.get(&agent_id);
        let at = agent.and_then(|agent| self.sessions.acked_arrival(&agent.name));
        let until = self.lease_until(shard.run_id, now);
        self.expiry.begin_lease(agent_id, token, key, at, until);
    }

    /// Whoever holds a lease that is to end is told, whatever has ended it: a person, or a run that
    /// replaces its run.
    fn tell_of_cancelling(&mut self, shard: &ShardRow) {
        if let ShardState::Leased(lease) = shard.state
            && lease.cancelling
        {
            self.cancel_lease(lease.agent_id, lease.token);
        }
    }

    fn forget_name_of(&mut self, job_id: JobId) {
        if let Some(before) = self.set.jobs.get(&job_id) {
            self.names.remove(&before.name);
        }
    }

    fn land(&mut self, flight: Flight, result: Result<Done, Refusal>, now: Now) {
        // A reign that the ledger does not let begin is none.
        let refused_reign = matches!(flight, Flight::BecomeActive) && result.is_err();
        if refused_reign || matches!(result, Err(Refusal::StaleEpoch { .. })) {
            self.effect(Effect::StepDown);
            self.reign = Reign::Deposed;
            self.proposals.clear();
            return;
        }
        match flight {
            Flight::BecomeActive => {
                if let Ok(Done::Active { epoch }) = result {
                    self.begin_reign(epoch, now);
                }
            }
            Flight::Fire(fired) => self.land_fire(fired, result, now),
            Flight::Run(run_id) => {
                self.busy_runs.remove(&run_id);
                if result.is_err() {
                    self.waiting.not_judged(run_id);
                }
                self.note_setback(Matter::run(run_id), &result, now);
            }
            Flight::Shard(key) => {
                self.land_unplaceable(key);
                self.note_setback(Matter::shard(key), &result, now);
            }
            Flight::Grant(key, agent_id) => {
                self.note_setback(Matter::shard(key), &result, now);
                self.land_grant(key, agent_id, result);
            }
            Flight::Attach(attach) => self.land_attach(attach, result, now),
            Flight::Receipt { conn, token } => self.land_receipt(conn, token),
            Flight::Expire(key, token) => {
                self.expiry.landed(token);
                self.note_setback(Matter::shard(key), &result, now);
            }
            Flight::EndSession(agent_id) => self.sessions.ending.retain(|&a| a != agent_id),
            Flight::Health(agent_id) => self.healths.landed(agent_id),
            Flight::Note => {}
            Flight::Request(request) => self.land_request(request, result, now),
        }
    }

    fn begin_reign(&mut self, epoch: Epoch, now: Now) {
        self.reign = Reign::Leading(epoch);
        self.expiry.begin_reign(now.boot);
        self.hold.begin_reign(now.boot);
        self.tell_of_unreadable_jobs(now);
        self.tell_of_clock_behind(now);
        // What the ledger did not take from the leader before, it may take from this one.
        self.settle_alerts(AlertKind::CommandRefused, Over::AllBut(Vec::new()), now);
        self.invite_all();
    }

    fn skip_overdue(&mut self, now: Now) {
        for run_id in self.not_in_hand(self.waiting.overdue(now), now) {
            self.propose_for_run(run_id, Command::SkipWaiting(SkipWaiting { run_id }), now);
        }
    }

    fn admit_waiting(&mut self, now: Now) {
        for run_id in self.not_in_hand(self.waiting.woken(), now) {
            self.waiting.asked(run_id);
            self.propose_for_run(run_id, Command::Admit(Admit { run_id }), now);
        }
    }

    /// Those of these runs about which no command is on its way, nor left alone after a refusal.
    pub(crate) fn not_in_hand(&self, runs: impl Iterator<Item = RunId>, now: Now) -> Vec<RunId> {
        runs.filter(|run| !self.busy_runs.contains(run))
            .filter(|&run| !self.setbacks.rests(Matter::run(run), now))
            .collect()
    }

    /// A command about a run that is not in hand.
    pub(crate) fn propose_for_run(&mut self, run_id: RunId, command: Command, now: Now) {
        self.busy_runs.insert(run_id);
        self.propose(Flight::Run(run_id), command, now);
    }
}
