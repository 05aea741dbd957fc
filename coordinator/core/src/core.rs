//! The state machine itself: inputs, outputs, and what becomes of an outcome.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ledger::command::{
    Admit, AlertKind, BecomeActive, Command, EndSession, Fire, Grant, Proposal, RaiseAlert,
    SkipWaiting, Unplaceable,
};
use ledger::{Change, Done, JobRow, Outcome, Refusal, ShardRow, ShardState, WorkingSet};
use protocol::attempt::Work;
use protocol::lease::STALLED_LEADER;
use protocol::message::{CoordinatorBody, CoordinatorMessage, Incarnation};
use protocol::{
    AgentId, BootMs, DurationMs, Epoch, JobId, JobName, Now, Rule, Rules, RunId, Token, WallMs,
};

use crate::catalogue::Catalogue;
use crate::clock::{ClockGate, Verdict};
use crate::dispatch::{Host, Standing, place};
use crate::expiry::Expiry;
use crate::queue::{Key, Queue};
use crate::requests::{PendingRequest, RequestError};
use crate::sessions::{AttachInFlight, Sessions};
use crate::trigger::{self, Owed};

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
    /// Another leader's epoch was met: this core is silent from now on, to whom it owes an answer
    /// too.
    StepDown,
}

pub struct Core {
    pub(crate) rules: Rules,
    pub(crate) set: WorkingSet,
    pub(crate) catalogue: Catalogue,
    pub(crate) queue: Queue,
    pub(crate) names: BTreeMap<JobName, JobId>,
    pub(crate) gate: ClockGate,
    pub(crate) sessions: Sessions,
    pub(crate) expiry: Expiry,
    reign: Reign,
    last_seen: BootMs,
    /// Next fire of every job that has one and can be read.
    due: BTreeSet<(WallMs, JobId)>,
    due_of: BTreeMap<JobId, WallMs>,
    flights: BTreeMap<ProposalId, Flight>,
    /// Jobs with a command in flight that moves their watermark.
    moving: BTreeSet<JobId>,
    /// Runs and shards with a command of this core in flight.
    busy_runs: BTreeSet<RunId>,
    busy_shards: BTreeMap<Key, Option<AgentId>>,
    granting: BTreeMap<AgentId, u32>,
    /// No host had a free slot, and nothing has happened since that could have opened one.
    full: bool,
    /// Where a shard of an open run last ended without success.
    failed_on: BTreeMap<Key, AgentId>,
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
    Fire(JobId),
    Run(RunId),
    Shard(Key),
    Grant(Key, AgentId),
    Attach(AttachInFlight),
    Receipt {
        conn: ConnId,
        token: Token,
    },
    Expire(Token),
    EndSession(AgentId),
    /// Nothing hangs on its outcome but what it changes.
    Note,
    Request(PendingRequest),
}

impl Core {
    /// Begins a reign over the state as loaded; `now` is when it was loaded.
    pub fn new(config: Config, set: WorkingSet, now: Now, rules: Rules) -> Core {
        let mut core = Core {
            rules,
            catalogue: Catalogue::default(),
            queue: Queue::build(&set, now, rules),
            names: BTreeMap::new(),
            gate: ClockGate::default(),
            sessions: Sessions::default(),
            expiry: Expiry::new(now.boot),
            reign: Reign::Beginning,
            last_seen: now.boot,
            due: BTreeSet::new(),
            due_of: BTreeMap::new(),
            flights: BTreeMap::new(),
            moving: BTreeSet::new(),
            busy_runs: BTreeSet::new(),
            busy_shards: BTreeMap::new(),
            granting: BTreeMap::new(),
            full: false,
            failed_on: BTreeMap::new(),
            next_proposal: 0,
            proposals: VecDeque::new(),
            effects: VecDeque::new(),
            set,
        };
        core.gate.observe(now);
        let held: Vec<ShardRow> = core.set.shards.values().cloned().collect();
        for shard in &held {
            core.note_lease(shard);
        }
        for version in core.set.versions.values() {
            core.catalogue.learn(version);
        }
        let jobs: Vec<JobRow> = core.set.jobs.values().cloned().collect();
        for job in &jobs {
            core.note_job(job);
        }
        let begin = BecomeActive {
            node: config.node,
            incarnation: config.incarnation,
            tzdata: jobs::tzdata_version().to_owned(),
        };
        core.propose_in_no_epoch(Flight::BecomeActive, Command::BecomeActive(begin), now);
        core
    }

    pub fn handle_tick(&mut self, now: Now) {
        self.observe(now);
        self.advance(now);
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
        self.catalogue.keep_only(&self.set.versions);
        self.advance(now);
    }

    pub fn poll_proposal(&mut self) -> Option<(ProposalId, Proposal)> {
        self.proposals.pop_front()
    }

    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When [`Core::handle_tick`] must be called next, at the latest.
    pub fn poll_timeout(&self, now: Now) -> BootMs {
        let due = self
            .due
            .first()
            .filter(|_| self.clock_verdict(now) == Verdict::Trusted);
        let fire = due.map(|&(at, _)| now.boot + (at - now.wall).clamp_to(TICK));
        [fire, self.queue.next_wake(), Some(now.boot + TICK)]
            .into_iter()
            .flatten()
            .min()
            .map_or(now.boot, |at| at.max(now.boot))
    }

    pub fn working_set(&self) -> &WorkingSet {
        &self.set
    }

    pub fn epoch(&self) -> Option<Epoch> {
        match self.reign {
            Reign::Leading(epoch) => Some(epoch),
            Reign::Beginning | Reign::Deposed => None,
        }
    }

    pub fn clock_verdict(&self, now: Now) -> Verdict {
        if self.rules.on(Rule::ClockGate) {
            self.gate.verdict(now)
        } else {
            Verdict::Trusted
        }
    }

    /// Next fire of a job; `None` where it has none or its manifest cannot be read.
    pub fn next_fire(&self, job_id: JobId) -> Option<WallMs> {
        self.due_of.get(&job_id).copied()
    }

    /// Whether the indexes kept up step by step equal those built afresh from the working set.
    pub fn check_indexes(&self, now: Now) -> Result<(), String> {
        let kept = self.queue.shape();
        let built = Queue::build(&self.set, now, self.rules).shape();
        if kept == built {
            Ok(())
        } else {
            Err(format!(
                "queue kept up: {kept:?}\nqueue built afresh: {built:?}"
            ))
        }
    }

    /// Called at the start of every input: notes both clocks, and whether this leader stalled.
    pub(crate) fn observe(&mut self, now: Now) {
        self.gate.observe(now);
        let silence = now.boot - self.last_seen;
        self.last_seen = now.boot;
        // Timers that fire late were set by somebody who was not there to hear the heartbeats.
        if silence > STALLED_LEADER && self.rules.on(Rule::StalledLeaderGivesFullTime) {
            self.expiry.give_full_time(now.boot);
        }
    }

    /// Everything this leader decides by itself. Cheap when nothing is due.
    pub(crate) fn advance(&mut self, now: Now) {
        if self.epoch().is_none() {
            return;
        }
        self.fire_due(now);
        self.queue.wake(&self.set, now);
        self.skip_overdue(now);
        self.admit_waiting(now);
        self.dispatch(now);
        self.give_up_unplaceable(now);
        self.advance_sessions(now);
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

    fn enqueue(&mut self, flight: Flight, proposal: Proposal) {
        if self.reign == Reign::Deposed {
            return;
        }
        let id = ProposalId(self.next_proposal);
        self.next_proposal += 1;
        self.flights.insert(id, flight);
        self.proposals.push_back((id, proposal));
    }

    fn absorb(&mut self, change: &Change, now: Now) {
        if let Change::Version(version) = change {
            self.catalogue.learn(version);
        }
        if let Change::Job(job) = change {
            self.forget_name_of(job.job_id);
        }
        let held_by = match change {
            Change::Shard(shard) => self.queue.lease_of((shard.run_id, shard.shard)),
            _ => None,
        };
        self.set.absorb(change);
        self.queue.follow(&self.set, change, now);
        if matches!(change, Change::Shard(_) | Change::Agent(_)) {
            self.note_place();
        }
        match change {
            Change::Shard(shard) => {
                self.note_lease(shard);
                self.note_failure(shard, held_by.map(|(agent_id, _)| agent_id));
            }
            Change::Run(run) if run.state.is_final() => self.forget_failures(run.run_id),
            _ => {}
        }
        if let Change::Job(job) = change {
            self.note_job(job);
        }
    }

    /// A lease counts from the beat on which it rests until a beat has listed it.
    fn note_lease(&mut self, shard: &ShardRow) {
        let key = (shard.run_id, shard.shard);
        if let Some((agent_id, token)) = self.queue.lease_of(key) {
            let agent = self.set.agents.get(&agent_id);
            let at = agent.and_then(|agent| self.sessions.acked_arrival(&agent.name));
            self.expiry.begin_lease(agent_id, token, key, at);
        }
    }

    /// A shard that is pending again after a lease failed on the host that held it.
    fn note_failure(&mut self, shard: &ShardRow, held_by: Option<AgentId>) {
        if let (ShardState::Pending { .. }, Some(agent_id)) = (shard.state, held_by) {
            self.failed_on.insert((shard.run_id, shard.shard), agent_id);
        }
    }

    fn forget_failures(&mut self, run_id: RunId) {
        let of_run = self.failed_on.range((run_id, 0)..=(run_id, u32::MAX));
        let keys: Vec<Key> = of_run.map(|(&key, _)| key).collect();
        for key in keys {
            self.failed_on.remove(&key);
        }
    }

    fn forget_name_of(&mut self, job_id: JobId) {
        if let Some(before) = self.set.jobs.get(&job_id) {
            self.names.remove(&before.name);
        }
    }

    fn note_job(&mut self, job: &JobRow) {
        self.forget_due(job.job_id);
        if job.deleted {
            return;
        }
        self.names.insert(job.name.clone(), job.job_id);
        let next = self.owed(job).and_then(trigger::next_fire);
        if let Some(next) = next {
            self.due.insert((next.at, job.job_id));
            self.due_of.insert(job.job_id, next.at);
        }
    }

    fn forget_due(&mut self, job_id: JobId) {
        if let Some(at) = self.due_of.remove(&job_id) {
            self.due.remove(&(at, job_id));
        }
    }

    /// `None` where the manifest in force cannot be read.
    pub(crate) fn owed(&self, job: &JobRow) -> Option<Owed<'_>> {
        let entry = self.catalogue.get(job.job_id, job.version)?;
        let manifest = entry.manifest.as_deref().ok()?;
        Some(Owed {
            manifest,
            anchor: entry.starts,
            from: job.fired_through,
        })
    }

    fn land(&mut self, flight: Flight, result: Result<Done, Refusal>, now: Now) {
        if matches!(result, Err(Refusal::StaleEpoch { .. })) {
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
            Flight::Fire(job_id) => self.land_fire(job_id, result, now),
            Flight::Run(run_id) => {
                self.busy_runs.remove(&run_id);
            }
            Flight::Shard(key) => {
                self.busy_shards.remove(&key);
            }
            Flight::Grant(key, agent_id) => self.land_grant(key, agent_id, result),
            Flight::Attach(attach) => self.land_attach(attach, result),
            Flight::Receipt { conn, token } => self.land_receipt(conn, token),
            Flight::Expire(token) => self.expiry.landed(token),
            Flight::EndSession(agent_id) => self.sessions.ending.retain(|&a| a != agent_id),
            Flight::Note => {}
            Flight::Request(request) => self.land_request(request, result, now),
        }
    }

    fn land_fire(&mut self, job_id: JobId, result: Result<Done, Refusal>, now: Now) {
        self.moving.remove(&job_id);
        match result {
            // Computed from a state that has moved: `advance` computes it anew.
            Ok(_) | Err(Refusal::WatermarkMoved { .. } | Refusal::NoSuchJob { .. }) => {}
            // It would be refused again and again: the job stands still, loudly, until its row
            // changes or another reign begins.
            Err(refusal) => {
                self.forget_due(job_id);
                let name = self.set.jobs.get(&job_id).map(|job| job.name.to_string());
                let text = format!(
                    "{} does not fire: {refusal}",
                    name.unwrap_or_else(|| job_id.to_string())
                );
                let (kind, job_id) = (AlertKind::FireRefused, Some(job_id));
                self.alert(RaiseAlert { kind, job_id, text }, now);
            }
        }
    }

    fn begin_reign(&mut self, epoch: Epoch, now: Now) {
        self.reign = Reign::Leading(epoch);
        self.expiry.begin_reign(now.boot);
        self.tell_of_unreadable_jobs(now);
        self.attach_those_who_wait(now);
    }

    fn tell_of_unreadable_jobs(&mut self, now: Now) {
        let unreadable: Vec<_> = self
            .set
            .jobs
            .values()
            .filter_map(|job| {
                let entry = self.catalogue.get(job.job_id, job.version)?;
                let error = entry.manifest.as_ref().err()?;
                Some((job.job_id, format!("{} does not fire: {error}", job.name)))
            })
            .collect();
        for (job_id, text) in unreadable {
            let kind = AlertKind::UnreadableJob;
            self.alert(
                RaiseAlert {
                    kind,
                    job_id: Some(job_id),
                    text,
                },
                now,
            );
        }
    }

    fn alert(&mut self, alert: RaiseAlert, now: Now) {
        self.propose(Flight::Note, Command::RaiseAlert(alert), now);
    }

    fn fire_due(&mut self, now: Now) {
        if self.clock_verdict(now) != Verdict::Trusted {
            return;
        }
        if !self.rules.on(Rule::PoisonStaysAlone) && self.has_unreadable_job() {
            return;
        }
        let due: Vec<JobId> = self
            .due
            .iter()
            .take_while(|(at, _)| *at <= now.wall)
            .map(|&(_, job_id)| job_id)
            .filter(|job_id| !self.moving.contains(job_id))
            .collect();
        for job_id in due {
            let Some(job) = self.set.jobs.get(&job_id) else {
                continue;
            };
            let Some(owed) = self.owed(job) else { continue };
            let fire = Fire {
                job_id,
                version: job.version,
                from: job.fired_through,
                through: trigger::settles_through(now),
                decisions: trigger::decide(owed, trigger::settles_through(now), self.rules),
            };
            self.moving.insert(job_id);
            self.propose(Flight::Fire(job_id), Command::Fire(fire), now);
        }
    }

    fn has_unreadable_job(&self) -> bool {
        self.set
            .jobs
            .values()
            .any(|job| self.catalogue.readable(job.job_id, job.version).is_none())
    }

    fn skip_overdue(&mut self, now: Now) {
        let overdue: Vec<RunId> = self
            .queue
            .overdue(now)
            .filter(|run| !self.busy_runs.contains(run))
            .collect();
        for run_id in overdue {
            let reason = "did not get its turn before its start deadline".to_owned();
            self.busy_runs.insert(run_id);
            let skip = SkipWaiting { run_id, reason };
            self.propose(Flight::Run(run_id), Command::SkipWaiting(skip), now);
        }
    }

    fn admit_waiting(&mut self, now: Now) {
        let turns: Vec<RunId> = self
            .queue
            .admissible()
            .filter(|run| !self.busy_runs.contains(run))
            .collect();
        for run_id in turns {
            self.busy_runs.insert(run_id);
            self.propose(Flight::Run(run_id), Command::Admit(Admit { run_id }), now);
        }
    }

    /// Ready shards that are not in the ledger's hands, and whose manifest says what to start.
    fn grantable(&self) -> impl Iterator<Item = Key> + '_ {
        self.queue
            .ready()
            .filter(|key| !self.busy_shards.contains_key(key))
            .filter(|key| self.unreadable(key.0).is_none())
    }

    /// Why nobody can tell what a run is to do.
    fn unreadable(&self, run_id: RunId) -> Option<&str> {
        let run = self.set.runs.get(&run_id)?;
        match self.catalogue.get(run.job_id, run.version) {
            None => Some("its version is not there"),
            Some(entry) => entry.manifest.as_ref().err().map(String::as_str),
        }
    }

    /// A host may have a free slot again.
    pub(crate) fn note_place(&mut self) {
        self.full = false;
    }

    fn dispatch(&mut self, now: Now) {
        if self.full || self.grantable().next().is_none() {
            return;
        }
        let mut hosts = self.hosts(now);
        let mut free: u32 = hosts.iter().map(free_slots).sum();
        let ready: Vec<Key> = self.grantable().take(free as usize).collect();
        let mut run_counted = None;
        for key in ready {
            if run_counted != Some(key.0) {
                self.count_shards_of(key.0, &mut hosts);
                run_counted = Some(key.0);
            }
            let failed_on = self
                .failed_on
                .get(&key)
                .filter(|_| self.rules.on(Rule::RetriedElsewhere));
            for host in &mut hosts {
                host.failed_there = failed_on == Some(&host.agent_id);
            }
            let Ok((agent_id, session)) = place(hosts.iter().copied()) else {
                break;
            };
            for host in hosts.iter_mut().filter(|host| host.agent_id == agent_id) {
                host.used += 1;
                host.of_this_run += 1;
            }
            free -= 1;
            self.busy_shards.insert(key, Some(agent_id));
            *self.granting.entry(agent_id).or_default() += 1;
            let grant = Grant {
                run_id: key.0,
                shard: key.1,
                session,
            };
            self.propose(Flight::Grant(key, agent_id), Command::Grant(grant), now);
        }
        self.full = free == 0;
    }

    /// Every agent ever attached, as dispatch sees it now.
    pub fn hosts(&self, now: Now) -> Vec<Host> {
        self.set
            .agents
            .values()
            .map(|agent| Host {
                agent_id: agent.agent_id,
                standing: match agent.session {
                    _ if agent.quarantined => Standing::Quarantined,
                    Some(session) if self.sessions.is_fresh(agent, now.boot) => {
                        Standing::Ready(session)
                    }
                    _ => Standing::Offline,
                },
                slots: agent.slots,
                used: self.queue.lease_count(agent.agent_id)
                    + self.granting.get(&agent.agent_id).copied().unwrap_or(0),
                of_this_run: 0,
                failed_there: false,
            })
            .collect()
    }

    fn count_shards_of(&self, run_id: RunId, hosts: &mut [Host]) {
        let leased = self.set.shards_of(run_id).filter_map(|shard| {
            self.queue
                .lease_of((run_id, shard.shard))
                .map(|(agent, _)| agent)
        });
        let granting = self
            .busy_shards
            .range((run_id, 0)..=(run_id, u32::MAX))
            .filter_map(|(_, agent)| *agent);
        let mut counts: BTreeMap<AgentId, u32> = BTreeMap::new();
        for agent in leased.chain(granting) {
            *counts.entry(agent).or_default() += 1;
        }
        for host in hosts {
            host.of_this_run = counts.get(&host.agent_id).copied().unwrap_or(0);
        }
    }

    fn give_up_unplaceable(&mut self, now: Now) {
        if !self.rules.on(Rule::UnplaceableGoesToPerson) {
            return;
        }
        let stuck: Vec<Key> = self
            .queue
            .unplaceable(now)
            .filter(|key| !self.busy_shards.contains_key(key))
            .collect();
        if stuck.is_empty() {
            return;
        }
        let no_place = match place(self.hosts(now)) {
            Err(report) => report.to_string(),
            Ok(_) => "every host was busy until the start deadline".to_owned(),
        };
        for key in stuck {
            let report = match self.unreadable(key.0) {
                Some(error) => format!("its manifest cannot be read: {error}"),
                None => no_place.clone(),
            };
            self.busy_shards.insert(key, None);
            let give_up = Unplaceable {
                run_id: key.0,
                shard: key.1,
                report,
            };
            self.propose(Flight::Shard(key), Command::Unplaceable(give_up), now);
        }
    }

    pub(crate) fn end_session(&mut self, agent_id: AgentId, now: Now) {
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

    fn land_grant(&mut self, key: Key, agent_id: AgentId, result: Result<Done, Refusal>) {
        self.busy_shards.remove(&key);
        if let Some(count) = self.granting.get_mut(&agent_id) {
            *count -= 1;
        }
        let Ok(Done::Granted { token, attempt, .. }) = result else {
            return self.note_place();
        };
        // Grant before word: it is committed, and only now does anybody hear of it. Where the
        // connection has gone meanwhile, the next attach finds that it was never started.
        let Some((conn, session, rests_on)) = self.sessions.live_of(&self.set, agent_id) else {
            return;
        };
        if let Some(work) = self.work(key, attempt) {
            let work = Box::new(work);
            self.send(
                conn,
                CoordinatorBody::Start {
                    session,
                    token,
                    rests_on,
                    work,
                },
            );
        }
    }

    /// What the agent is told to run. `None` where the manifest cannot be read.
    fn work(&self, key: Key, attempt: u32) -> Option<Work> {
        let run = self.set.runs.get(&key.0)?;
        let manifest = self.catalogue.readable(run.job_id, run.version)?;
        let fire = jobs::FireContext {
            fire_time: run.fire_time,
            nominal: &run.nominal,
            shard: key.1,
        };
        Some(Work {
            job: manifest.name.clone(),
            run_id: run.run_id,
            execution_id: run.execution_id,
            fire_time: run.fire_time,
            nominal: run.nominal.clone(),
            timezone: manifest.schedule().timezone().to_owned(),
            shard: key.1,
            shards: run.shards,
            attempt,
            trigger: run.trigger,
            fence: run.fence,
            exec: manifest.argv(&fire),
            timeout: manifest.timeout,
            takeover: manifest.takeover_after,
        })
    }

    pub(crate) fn job_moving(&mut self, job_id: JobId, moving: bool) {
        if moving {
            self.moving.insert(job_id);
        } else {
            self.moving.remove(&job_id);
        }
    }
}

fn free_slots(host: &Host) -> u32 {
    match host.standing {
        Standing::Ready(_) => host.slots.saturating_sub(host.used),
        Standing::Offline | Standing::Quarantined => 0,
    }
}
