//! The core with a ledger behind it, and hosts before it that are nothing but their word.
//!
//! Where nothing is due, nothing happens, so the clock goes from one event to the next instead of
//! ticking. The core sees a leader that stood still, whose hosts all beat when it wakes: it gives every
//! lease its full time, as it must, and so no lease ends over a leap. A lost host is the exception,
//! for its leases are to run out: while there are any, time goes in short steps.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use coordinator_core::clock::Thresholds;
use coordinator_core::{
    Config, ConnId, Core, Effect, ProposalId, Request, RequestError, RequestId,
};
use ledger::command::{Proposal, RegisterHost};
use ledger::{Change, Done, RunState, Store};
use protocol::attempt::{AttemptEnd, AttemptOutcome, Exit, Work};
use protocol::host::ProfileDigest;
use protocol::lease::{HEARTBEAT, STALLED_LEADER};
use protocol::message::{
    AgentMessage, Attach, CoordinatorBody, Heartbeat, Incarnation, Nonce, Receipt, Started,
};
use protocol::{
    BootMs, DurationMs, Epoch, JobId, JobName, Lifetime, Now, Rules, RunId, SessionId, Token,
};

use super::SimulateError;
use super::night::{HostNight, Night, RunNight, Span};
use crate::scenario::{Arrival, Lasts, Scenario, Which};

/// The clock that no schedule is judged by; long enough after zero for the first lease's full time.
const BOOT: BootMs = BootMs(3_600_000);

/// While shards wait or run, the core is looked after so often for what it names no time for.
const LOOK: DurationMs = DurationMs(60_000);

/// No stall.
const STEP: DurationMs = DurationMs(STALLED_LEADER.0 - 100);

/// Whoever asks here.
const BY: &str = "sizing";

pub(super) struct World<'a> {
    scenario: &'a Scenario,
    store: Store,
    core: Core,
    now: Now,
    beaten: BootMs,
    hosts: Vec<LiveHost>,
    attempts: BTreeMap<Token, Attempt>,
    /// Leases that a lost host holds.
    orphans: BTreeMap<Token, usize>,
    events: BTreeMap<(BootMs, Turn, u64), Event>,
    job_of: BTreeMap<JobName, usize>,
    job_of_id: BTreeMap<JobId, usize>,
    run_at: BTreeMap<RunId, usize>,
    /// Of runs whose length is known.
    lasts: BTreeMap<RunId, Lasts>,
    asked: BTreeMap<RequestId, usize>,
    answers: VecDeque<(RequestId, Result<Done, RequestError>)>,
    ids: u64,
    open: usize,
    is_over: bool,
    deposed: bool,
    night: Night,
}

struct LiveHost {
    conn: ConnId,
    session: Option<SessionId>,
    refused: Option<String>,
    beat: u64,
    runs: Vec<Token>,
    lost: bool,
}

struct Attempt {
    host: usize,
    job: usize,
    run: RunId,
    shard: u32,
    begins: Now,
    ends: AttemptOutcome,
}

/// What of one moment comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Loss,
    End,
    Begin,
    Arrival,
    Close,
}

enum Event {
    Lose(usize),
    End(Token),
    Begin(Token),
    Arrive(usize),
    /// No more fires.
    Close,
}

impl<'a> World<'a> {
    pub(super) fn new(store: Store, scenario: &'a Scenario) -> Result<World<'a>, SimulateError> {
        let now = Now {
            wall: scenario.begins,
            boot: BOOT,
        };
        let config = Config {
            node: BY.to_owned(),
            incarnation: Incarnation(1),
            boot_id: BY.to_owned(),
            looked_at: store.last_applied()?,
            last_clock: None,
            clock: Thresholds::default(),
            members: Vec::new(),
            time_service: None,
            yielded: None,
            classes: Arc::clone(&scenario.classes),
        };
        let core = Core::new(config, store.working_set()?, now, Rules::all());
        let hosts = (0..scenario.hosts.len()).map(|at| LiveHost {
            conn: ConnId(at as u64),
            session: None,
            refused: None,
            beat: 0,
            runs: Vec::new(),
            lost: false,
        });
        let records = scenario.hosts.iter().map(|host| HostNight {
            slots: host.slots,
            busy: DurationMs::ZERO,
            peak: 0,
        });
        let jobs = scenario.jobs.iter().enumerate();
        Ok(World {
            store,
            core,
            now,
            beaten: BOOT,
            hosts: hosts.collect(),
            attempts: BTreeMap::new(),
            orphans: BTreeMap::new(),
            events: BTreeMap::new(),
            job_of: jobs
                .map(|(at, job)| (job.manifest.name.clone(), at))
                .collect(),
            job_of_id: BTreeMap::new(),
            run_at: BTreeMap::new(),
            lasts: BTreeMap::new(),
            asked: BTreeMap::new(),
            answers: VecDeque::new(),
            ids: 0,
            open: 0,
            is_over: false,
            deposed: false,
            night: Night {
                hosts: records.collect(),
                ..Night::default()
            },
            scenario,
        })
    }

    /// A reign, hosts that are attached, jobs in force, and what is to happen in their order.
    pub(super) fn set_up(&mut self) -> Result<(), SimulateError> {
        self.settle()?;
        for (at, host) in self.scenario.hosts.iter().enumerate() {
            let certificate = Lifetime {
                from: self.now.wall - DurationMs(86_400_000),
                until: protocol::WallMs(i64::MAX),
            };
            let (conn, nonce) = (ConnId(at as u64), Nonce(at as u64));
            self.core
                .handle_connected(conn, host.name.clone(), certificate, nonce, self.now);
            self.settle()?;
            if let Some(reason) = self.hosts[at].refused.take() {
                let host = host.name.as_str().to_owned();
                return Err(SimulateError::Host { host, reason });
            }
        }
        self.register_hosts()?;
        // Nothing is granted before every lease that there might be has had its full time.
        self.put_resources()?;
        self.put_jobs()?;
        self.schedule(self.scenario.ends, Turn::Close, Event::Close);
        for (at, host) in self.scenario.hosts.iter().enumerate() {
            if let Some(lost) = host.lost_at {
                self.schedule(lost, Turn::Loss, Event::Lose(at));
            }
        }
        for (at, arrival) in self.scenario.arrivals.iter().enumerate() {
            self.schedule(arrival.at, Turn::Arrival, Event::Arrive(at));
        }
        Ok(())
    }

    /// Each with the facts that its scenario gives it, and without a report for people.
    fn register_hosts(&mut self) -> Result<(), SimulateError> {
        let scenario = self.scenario;
        let known = scenario
            .hosts
            .iter()
            .filter(|host| !host.facts.0.is_empty());
        for host in known {
            let register = RegisterHost {
                name: host.name.clone(),
                against: 0,
                digest: ProfileDigest([0; 16]),
                facts: host.facts.clone(),
                report: "{}".to_owned(),
                differences: Vec::new(),
            };
            if let Err(reason) = self.ask_now(Request::RegisterHost(Box::new(register)))? {
                return Err(SimulateError::Facts {
                    host: host.name.as_str().to_owned(),
                    reason: reason.to_string(),
                });
            }
        }
        Ok(())
    }

    fn put_resources(&mut self) -> Result<(), SimulateError> {
        for (resource, &capacity) in &self.scenario.resources {
            let put = Request::PutResource {
                resource: resource.clone(),
                capacity,
                by: BY.to_owned(),
            };
            if let Err(reason) = self.ask_now(put)? {
                return Err(SimulateError::Resource {
                    resource: resource.as_str().to_owned(),
                    reason: reason.to_string(),
                });
            }
        }
        Ok(())
    }

    /// A job that comes after another is put after it: whatever is refused is tried again as long as
    /// others are taken.
    fn put_jobs(&mut self) -> Result<(), SimulateError> {
        let mut left: Vec<usize> = (0..self.scenario.jobs.len()).collect();
        while !left.is_empty() {
            let (before, mut refused) = (left.len(), Vec::new());
            let mut why = None;
            for at in left {
                let manifest = Arc::clone(&self.scenario.jobs[at].manifest);
                let put = Request::PutJob {
                    manifest,
                    expected: None,
                    by: BY.to_owned(),
                };
                match self.ask_now(put)? {
                    Ok(Done::JobPut { job_id, .. }) => {
                        self.job_of_id.insert(job_id, at);
                    }
                    Ok(_) => {}
                    Err(reason) => {
                        refused.push(at);
                        why.get_or_insert((at, reason.to_string()));
                    }
                }
            }
            if let Some((at, reason)) = why.filter(|_| refused.len() == before) {
                let job = self.scenario.jobs[at].manifest.name.clone();
                return Err(SimulateError::Job { job, reason });
            }
            left = refused;
        }
        Ok(())
    }

    fn schedule(&mut self, at: protocol::WallMs, turn: Turn, event: Event) {
        let at = BOOT + (at - self.scenario.begins).max(DurationMs::ZERO);
        self.schedule_boot(at, turn, event);
    }

    fn schedule_boot(&mut self, at: BootMs, turn: Turn, event: Event) {
        self.ids += 1;
        self.events.insert((at, turn, self.ids), event);
    }

    /// Until nothing is open and nothing is to come.
    pub(super) fn pass(&mut self) -> Result<(), SimulateError> {
        let span = self.scenario.ends - self.scenario.begins + self.scenario.patience;
        let last = BOOT + span;
        while let Some(next) = self.next_moment()
            && next <= last
        {
            let leap = next - self.now.boot;
            self.now.boot = next;
            self.now.wall = self.now.wall + leap;
            if next - self.beaten >= HEARTBEAT {
                self.beat_all();
            }
            while let Some(entry) = self.events.first_entry()
                && entry.key().0 <= next
            {
                let event = entry.remove();
                self.happen(event);
            }
            self.core.handle_tick(self.now);
            self.settle()?;
        }
        Ok(())
    }

    fn next_moment(&self) -> Option<BootMs> {
        let event = self.events.keys().next().map(|&(at, ..)| at);
        if self.is_over && event.is_none() && self.open == 0 {
            return None;
        }
        let soon = |by: DurationMs| Some(self.now.boot + by);
        let step = if self.orphans.is_empty() {
            None
        } else {
            soon(STEP)
        };
        let look = if self.open > 0 { soon(LOOK) } else { None };
        let due = self.core.next_due(self.now);
        let due = due.map(|at| at.max(self.now.boot + DurationMs(1)));
        [event, step, look, due].into_iter().flatten().min()
    }

    fn beat_all(&mut self) {
        self.beaten = self.now.boot;
        for at in 0..self.hosts.len() {
            let host = &mut self.hosts[at];
            let (false, Some(session)) = (host.lost, host.session) else {
                continue;
            };
            host.beat += 1;
            let heartbeat = Heartbeat {
                session,
                beat: host.beat,
                wall: self.now.wall,
                attempts: host.runs.clone(),
                round_trip: Some(DurationMs::ZERO),
                host: None,
            };
            let message = AgentMessage::Heartbeat(heartbeat);
            self.core.handle_message(host.conn, message, self.now);
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Lose(at) => self.lose(at),
            Event::End(token) => {
                if let Some(attempt) = self.attempts.remove(&token) {
                    self.end(token, attempt);
                }
            }
            Event::Begin(token) => self.begin(token),
            Event::Arrive(at) => self.arrive(at),
            Event::Close => self.close(),
        }
    }

    fn lose(&mut self, at: usize) {
        let host = &mut self.hosts[at];
        host.lost = true;
        for token in std::mem::take(&mut host.runs) {
            if let Some(attempt) = self.attempts.remove(&token) {
                self.night.lost += 1;
                self.record(&attempt, DurationMs::ZERO);
            }
            self.orphans.insert(token, at);
        }
        self.core.handle_disconnected(self.hosts[at].conn, self.now);
    }

    fn begin(&mut self, token: Token) {
        let Some(attempt) = self.attempts.get_mut(&token) else {
            return;
        };
        attempt.begins = self.now;
        let (run, conn) = (attempt.run, self.hosts[attempt.host].conn);
        if let Some(&at) = self.run_at.get(&run) {
            self.night.runs[at].started.get_or_insert(self.now.wall);
        }
        let started = AgentMessage::Started(Started {
            token,
            at: self.now.wall,
        });
        self.core.handle_message(conn, started, self.now);
    }

    fn end(&mut self, token: Token, attempt: Attempt) {
        let host = &mut self.hosts[attempt.host];
        host.runs.retain(|&other| other != token);
        let conn = host.conn;
        let after = match attempt.ends {
            AttemptOutcome::Cancelled => DurationMs::ZERO,
            _ => self.scenario.end_lag,
        };
        self.record(&attempt, after);
        let outcome = attempt.ends;
        self.night.timed_out += u32::from(outcome == AttemptOutcome::TimedOut);
        let end = AttemptEnd {
            outcome,
            exit: (outcome == AttemptOutcome::Succeeded).then_some(Exit::Code(0)),
            started_at: Some(attempt.begins.wall),
            ended_at: self.now.wall - after,
            cpu: DurationMs::ZERO,
            memory_bytes_peak: 0,
            usage: None,
            out_of_memory: false,
            not_enforced: Vec::new(),
            reason: None,
            tail: String::new(),
        };
        let receipt = AgentMessage::Receipt(Receipt { token, end });
        self.core.handle_message(conn, receipt, self.now);
    }

    /// An attempt that has ended so long ago.
    fn record(&mut self, attempt: &Attempt, after: DurationMs) {
        let span = Span {
            host: attempt.host,
            job: attempt.job,
            run: attempt.run,
            shard: attempt.shard,
            from: attempt.begins.wall,
            until: self.now.wall - after,
        };
        let host = &mut self.night.hosts[attempt.host];
        host.busy = host.busy + (span.until - span.from);
        self.night.spans.push(span);
    }

    fn arrive(&mut self, at: usize) {
        let Arrival { job, .. } = &self.scenario.arrivals[at];
        let request = Request::Run {
            job: job.clone(),
            instant: None,
            params: BTreeMap::new(),
            by: BY.to_owned(),
            reason: "it arrives".to_owned(),
        };
        let id = self.ask(request);
        self.asked.insert(id, at);
    }

    /// A schedule that is paused fires no more, and what is open goes on.
    fn close(&mut self) {
        self.is_over = true;
        for job in &self.scenario.jobs {
            let pause = Request::Pause {
                job: job.manifest.name.clone(),
                by: BY.to_owned(),
                reason: "the night is over".to_owned(),
            };
            self.ids += 1;
            let id = RequestId(self.ids);
            self.core.handle_request(id, pause, self.now);
        }
    }

    fn ask(&mut self, request: Request) -> RequestId {
        self.ids += 1;
        let id = RequestId(self.ids);
        self.core.handle_request(id, request, self.now);
        id
    }

    fn ask_now(&mut self, request: Request) -> Result<Result<Done, RequestError>, SimulateError> {
        let id = self.ask(request);
        self.settle()?;
        let answer = self.answers.iter().position(|(to, _)| *to == id);
        let answer = answer.and_then(|at| self.answers.remove(at));
        answer
            .map(|(_, answer)| answer)
            .ok_or(SimulateError::Deposed(
                "it left a request without an answer",
            ))
    }

    /// Takes up what the core has decided and commits it, until nothing is left to do.
    fn settle(&mut self) -> Result<(), SimulateError> {
        loop {
            let mut round = None;
            while let Some(effect) = self.core.poll_effect() {
                if let Effect::ConfirmQuorum { round: asked } = effect {
                    round = Some(asked);
                } else {
                    self.take(effect);
                }
            }
            let mut batch = Vec::new();
            while let Some(proposal) = self.core.poll_proposal() {
                batch.push(proposal);
            }
            if let Some(round) = round {
                self.core.handle_quorum(round, self.now);
            }
            if !batch.is_empty() {
                self.commit(batch)?;
            } else if round.is_none() {
                break;
            }
        }
        if self.deposed {
            return Err(SimulateError::Deposed("the ledger knows another leader"));
        }
        Ok(())
    }

    fn commit(&mut self, batch: Vec<(ProposalId, Proposal)>) -> Result<(), SimulateError> {
        let (ids, batch): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        let outcomes = self.store.propose(&batch)?;
        for outcome in &outcomes {
            for change in &outcome.changes {
                self.note(change);
            }
        }
        let outcomes = ids.into_iter().zip(outcomes).collect();
        self.core.handle_outcomes(outcomes, self.now);
        Ok(())
    }

    fn note(&mut self, change: &Change) {
        match change {
            Change::Job(row) => {
                if let Some(&at) = self.job_of.get(&row.name) {
                    self.job_of_id.insert(row.job_id, at);
                }
            }
            Change::Run(run) => {
                let Some(&job) = self.job_of_id.get(&run.job_id) else {
                    return;
                };
                let at = *self.run_at.entry(run.run_id).or_insert_with(|| {
                    self.open += 1;
                    self.night.runs.push(RunNight {
                        run_id: run.run_id,
                        job,
                        arrival: None,
                        fire_time: run.fire_time,
                        admitted: run.admitted_at,
                        started: None,
                        ended: None,
                        state: RunState::Waiting,
                        shards: run.shards,
                        reason: None,
                    });
                    self.night.runs.len() - 1
                });
                let night = &mut self.night.runs[at];
                let rests = run.state.is_final() || run.state == RunState::NeedsConfirmation;
                night.state = run.state;
                night.reason.clone_from(&run.reason);
                if rests && night.ended.is_none() {
                    night.ended = Some(self.now.wall);
                    self.open -= 1;
                }
            }
            Change::Shard(shard) if shard.state.lease().is_none() => {
                // It stands in the core's own set until the core has heard of it.
                let set = self.core.working_set();
                let held = set.shards.get(&(shard.run_id, shard.shard));
                if let Some(lease) = held.and_then(|row| row.state.lease()) {
                    self.orphans.remove(&lease.token);
                }
            }
            _ => {}
        }
    }

    fn take(&mut self, effect: Effect) {
        match effect {
            Effect::Send { conn, message } => {
                let at = conn.0 as usize;
                self.hear(at, message.epoch, message.body);
            }
            Effect::Close { conn, reason } => {
                self.hosts[conn.0 as usize].refused.get_or_insert(reason);
            }
            Effect::Reply { request, answer } => self.answered(request, answer),
            Effect::StepDown | Effect::HandOver { .. } => self.deposed = true,
            Effect::ConfirmQuorum { .. } => {}
        }
    }

    fn answered(&mut self, request: RequestId, answer: Result<Done, RequestError>) {
        let Some(arrival) = self.asked.remove(&request) else {
            return self.answers.push_back((request, answer));
        };
        let Arrival { job, lasts, .. } = &self.scenario.arrivals[arrival];
        match answer {
            Ok(Done::RunStarted { run_id, .. }) => {
                if let Some(&at) = self.run_at.get(&run_id) {
                    self.night.runs[at].arrival = Some(arrival);
                }
                if let Some(lasts) = lasts {
                    self.lasts.insert(run_id, lasts.clone());
                }
            }
            Ok(_) => {}
            Err(error) => {
                let job = job.as_str();
                self.night.refused.push(format!("a run of {job}: {error}"));
            }
        }
    }

    fn hear(&mut self, at: usize, epoch: Epoch, body: CoordinatorBody) {
        match body {
            CoordinatorBody::NonceGiven { nonce } => self.attach(at, epoch, nonce),
            CoordinatorBody::Attached { session, .. } => self.hosts[at].session = Some(session),
            CoordinatorBody::AttachRefused { reason } => self.hosts[at].refused = Some(reason),
            CoordinatorBody::Start { token, work, .. } => self.start(at, token, &work),
            CoordinatorBody::Cancel { token, .. } => {
                if let Some(mut attempt) = self.attempts.remove(&token) {
                    attempt.ends = AttemptOutcome::Cancelled;
                    self.end(token, attempt);
                }
            }
            CoordinatorBody::HeartbeatAck { .. }
            | CoordinatorBody::NonceQuery { .. }
            | CoordinatorBody::Interrupt { .. }
            | CoordinatorBody::ReceiptAck { .. } => {}
        }
    }

    fn attach(&mut self, at: usize, epoch: Epoch, nonce: Nonce) {
        let host = &self.scenario.hosts[at];
        let attach = Attach {
            epoch,
            nonce,
            boot_id: host.name.as_str().to_owned(),
            agent_incarnation: Incarnation(1),
            supervisor_incarnation: Incarnation(1),
            swept: true,
            slots: host.slots,
            labels: host.labels.clone(),
            wall: self.now.wall,
            attempts: Vec::new(),
        };
        let conn = self.hosts[at].conn;
        self.core
            .handle_message(conn, AgentMessage::Attach(attach), self.now);
    }

    fn start(&mut self, at: usize, token: Token, work: &Work) {
        if self.hosts[at].lost {
            self.orphans.insert(token, at);
            return;
        }
        let Some(&job) = self.job_of.get(&work.job) else {
            return;
        };
        let (which, seed) = (which(job, work), self.scenario.seed);
        let lasts = if let Some(known) = self.lasts.get(&work.run_id) {
            known.of(work.shard, seed, which)
        } else {
            let job = &self.scenario.jobs[job];
            let learned = job.lasts.of(work.shard, seed, which);
            DurationMs((learned.0 as f64 * job.volume).round() as i64)
        };
        let (lasts, ends) = if lasts > work.timeout {
            (work.timeout, AttemptOutcome::TimedOut)
        } else {
            (lasts, AttemptOutcome::Succeeded)
        };
        let begins = self.now.boot + self.scenario.start_lag;
        let attempt = Attempt {
            host: at,
            job,
            run: work.run_id,
            shard: work.shard,
            begins: self.now,
            ends,
        };
        self.attempts.insert(token, attempt);
        let host = &mut self.hosts[at];
        host.runs.push(token);
        let peak = &mut self.night.hosts[at].peak;
        *peak = (*peak).max(host.runs.len() as u32);
        if begins == self.now.boot {
            self.begin(token);
        } else {
            self.schedule_boot(begins, Turn::Begin, Event::Begin(token));
        }
        let told = begins + lasts + self.scenario.end_lag;
        self.schedule_boot(told, Turn::End, Event::End(token));
    }

    pub(super) fn into_night(self) -> Night {
        self.night
    }
}

/// One number for each run and each attempt, whatever else happens that night: so two nights that
/// differ in a host draw the same lengths, and their difference is the host's.
fn which(job: usize, work: &Work) -> Which {
    let mix = |mixed: u64, part: u64| (mixed ^ part).wrapping_mul(0x0000_0100_0000_01b3);
    let of_run = [job as u64, work.fire_time.0.unsigned_abs()];
    let run = of_run.into_iter().fold(0xcbf2_9ce4_8422_2325, mix);
    let of_attempt = [u64::from(work.shard), u64::from(work.attempt)];
    Which {
        run,
        attempt: of_attempt.into_iter().fold(run, mix),
    }
}
