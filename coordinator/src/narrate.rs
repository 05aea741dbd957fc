//! What an operator reads in the log: each committed command, in words.
//!
//! Runs are told of by what became of them, whichever command did it: when they appear and when
//! they come to rest. The rest is told by command.

use std::collections::BTreeMap;

use ledger::command::{Command, Decision, Finish, On};
use ledger::{Change, Done, Namespace, Outcome, PutKind, RunRow, RunState, ShardState, WorkingSet};
use protocol::attempt::AttemptOutcome;
use protocol::{AgentId, JobId, RunId};

use crate::committer::Committed;

/// Tells of a batch. `before` is the working set without it.
pub(crate) fn tell(before: &WorkingSet, batch: &[Committed]) {
    let mut narrator = Narrator {
        before,
        states: BTreeMap::new(),
        names: BTreeMap::new(),
        agents: BTreeMap::new(),
    };
    for committed in batch {
        narrator.learn(&committed.outcome);
        narrator.tell_of_command(&committed.proposal.command, &committed.outcome);
        narrator.tell_of_runs(&committed.outcome);
    }
}

/// Whose business a command about one shard was, as far as its rows say.
#[derive(Default)]
struct Spot<'a> {
    job: Option<&'a str>,
    fire_time: Option<String>,
    shard: Option<u32>,
    agent: Option<&'a str>,
}

/// Whether it is worth while to look up what only the debug log shows.
fn debugging() -> bool {
    tracing::enabled!(tracing::Level::DEBUG)
}

/// The working set, and over it what the batch has changed so far.
struct Narrator<'a> {
    before: &'a WorkingSet,
    states: BTreeMap<RunId, RunState>,
    names: BTreeMap<JobId, &'a str>,
    agents: BTreeMap<AgentId, &'a str>,
}

impl<'a> Narrator<'a> {
    fn learn(&mut self, outcome: &'a Outcome) {
        for change in &outcome.changes {
            match change {
                Change::Job(job) => {
                    self.names.insert(job.job_id, job.name.as_str());
                }
                Change::Agent(agent) => {
                    self.agents.insert(agent.agent_id, agent.name.as_str());
                }
                _ => {}
            }
        }
    }

    fn tell_of_command(&self, command: &Command, outcome: &Outcome) {
        match &outcome.result {
            Ok(done) => self.tell_of_done(command, done, outcome),
            Err(refusal) => match command {
                Command::AttachAgent(attach) => {
                    tracing::warn!(agent = attach.name.as_str(), %refusal, "an attach was refused");
                }
                _ => {
                    tracing::debug!(command = name_of(command), %refusal, "a command was refused");
                }
            },
        }
    }

    fn tell_of_done(&self, command: &Command, done: &Done, outcome: &'a Outcome) {
        match (command, done) {
            (Command::BecomeActive(begin), Done::Active { epoch }) => {
                tracing::info!(%epoch, node = begin.node, "this coordinator leads");
            }
            (Command::PutJob(put), Done::JobPut { version, kind, .. }) => {
                let job = put.manifest.name.as_str();
                if *kind == PutKind::Unchanged {
                    tracing::debug!(job, version, by = put.by, "a job was put as it is");
                } else {
                    tracing::info!(
                        job,
                        version,
                        kind = kind_word(*kind),
                        by = put.by,
                        "job changed"
                    );
                }
            }
            (Command::DeleteJob(delete), Done::JobDeleted) => {
                tracing::info!(job = self.job(delete.job_id), by = delete.by, "job deleted");
            }
            (Command::PauseJob(pause), Done::Paused { changed: true }) => {
                let (by, reason) = (pause.by.as_str(), pause.reason.as_str());
                tracing::info!(job = self.job(pause.job_id), by, reason, "job paused");
            }
            (
                Command::ResumeJob(resume),
                Done::Resumed {
                    changed: true,
                    skipped,
                },
            ) => {
                let job = self.job(resume.job_id);
                tracing::info!(job, by = resume.by, skipped, "job resumed");
            }
            (Command::Fire(fire), Done::Fired { .. }) => {
                self.tell_of_gaps(fire.job_id, &fire.decisions);
            }
            (Command::Unplaceable(stuck), Done::GivenToPerson) => {
                let Spot {
                    job,
                    fire_time,
                    shard,
                    ..
                } = self.spot(outcome);
                let report = stuck.report.as_str();
                tracing::warn!(job, fire_time, shard, report, "a shard found no place");
            }
            (Command::Quarantine(quarantine), Done::Quarantined) => {
                tracing::warn!(
                    agent = %quarantine.name,
                    reason = quarantine.reason,
                    "an agent is quarantined"
                );
            }
            (Command::RevokeAgent(revoke), Done::Revoked { .. }) => {
                tracing::warn!(
                    agent = %revoke.name,
                    by = revoke.by,
                    reason = revoke.reason,
                    "an agent is revoked"
                );
            }
            (Command::CordonAgent(cordon), Done::AgentCordoned { changed: true, .. }) => {
                tracing::info!(
                    agent = %cordon.name,
                    cordon = cordon.cordon.as_str(),
                    by = cordon.by,
                    reason = cordon.reason,
                    "an agent is taken out of service"
                );
            }
            (Command::UncordonAgent(uncordon), Done::AgentUncordoned { changed: true }) => {
                tracing::info!(
                    agent = %uncordon.name,
                    by = uncordon.by,
                    "an agent is put back into service"
                );
            }
            (Command::PutResource(put), Done::ResourcePut { in_use }) => {
                let (resource, by) = (put.name.as_str(), &put.by);
                tracing::info!(
                    resource,
                    capacity = put.capacity,
                    in_use,
                    by,
                    "a resource is set"
                );
            }
            (Command::DeleteResource(delete), Done::ResourceDeleted) => {
                let (resource, by) = (delete.name.as_str(), &delete.by);
                tracing::info!(resource, by, "a resource is deleted");
            }
            (Command::RaiseAlert(alert), Done::AlertRaised) => {
                let job = match alert.on {
                    On::Job(job_id) | On::Run(job_id, _) => Some(self.job(job_id)),
                    On::All | On::Agent(_) => None,
                };
                tracing::warn!(job, text = alert.text, "alert");
            }
            (Command::ClearAlert(clear), Done::AlertCleared { changed: true }) => {
                tracing::info!(alert = %clear.alert_id, by = clear.by, "alert cleared");
            }
            (
                Command::ManualRun(_)
                | Command::Rerun(_)
                | Command::Redo(_)
                | Command::CancelRun(_)
                | Command::Confirm(_),
                _,
            ) => self.tell_of_wish(command),
            _ => self.tell_of_leases(command, done, outcome),
        }
    }

    /// Who asked for what becomes of a run; the run itself is told of beside this.
    fn tell_of_wish(&self, command: &Command) {
        let (run, by, reason) = match command {
            Command::ManualRun(wish) => {
                let (by, reason) = (wish.by.as_str(), wish.reason.as_str());
                tracing::info!(job = self.job(wish.job_id), by, reason, "run asked for");
                return;
            }
            Command::Rerun(wish) => (wish.run_id, &wish.by, &wish.reason),
            Command::Redo(wish) => (wish.run_id, &wish.by, &wish.reason),
            Command::CancelRun(wish) => (wish.run_id, &wish.by, &wish.reason),
            Command::Confirm(wish) => (wish.run_id, &wish.by, &wish.reason),
            _ => return,
        };
        let wish = name_of(command);
        tracing::info!(run = %run, wish, by, reason, "asked of a run");
    }

    fn tell_of_gaps(&self, job_id: JobId, decisions: &[Decision]) {
        for decision in decisions {
            if let Decision::Gap {
                from,
                through,
                count,
                reason,
            } = decision
            {
                tracing::warn!(
                    job = self.job(job_id),
                    %from,
                    %through,
                    count,
                    ?reason,
                    "fires were given up"
                );
            }
        }
    }

    fn tell_of_leases(&self, command: &Command, done: &Done, outcome: &'a Outcome) {
        match (command, done) {
            (
                Command::AttachAgent(attach),
                Done::Attached {
                    session,
                    kill,
                    released,
                    owed,
                    ..
                },
            ) => {
                let agent = attach.name.as_str();
                tracing::info!(
                    agent,
                    %session,
                    slots = attach.slots,
                    holds = attach.holds.len(),
                    kill = kill.len(),
                    released = released.len(),
                    owed = owed.len(),
                    "agent attached"
                );
                for (token, outcome) in released {
                    let outcome = outcome.as_str();
                    tracing::info!(agent, %token, outcome, "lease released by an attach");
                }
            }
            (Command::EndSession(end), Done::SessionEnded) => {
                tracing::info!(session = %end.session, "a session ended for want of contact");
            }
            (Command::Finish(finish), Done::Finished { counted }) => {
                self.tell_of_finish(finish, *counted, outcome);
            }
            (Command::Expire(expire), Done::Expired) => {
                let Spot {
                    job,
                    fire_time,
                    shard,
                    agent,
                } = self.spot(outcome);
                let (token, reason) = (expire.token, expire.reason.as_str());
                tracing::info!(job, fire_time, shard, %token, agent, reason, "lease expired");
            }
            (Command::Grant(_), Done::Granted { token, attempt, .. }) if debugging() => {
                let Spot {
                    job,
                    fire_time,
                    shard,
                    agent,
                } = self.spot(outcome);
                tracing::debug!(job, fire_time, shard, %token, agent, attempt, "shard granted");
            }
            (Command::MarkStarted(mark), Done::Started) => {
                tracing::debug!(token = %mark.token, "attempt started");
            }
            _ => {}
        }
    }

    fn tell_of_finish(&self, finish: &Finish, counted: bool, outcome: &'a Outcome) {
        let (token, end) = (finish.token, finish.end.outcome);
        let ordinary = end == AttemptOutcome::Succeeded && counted;
        if ordinary && !debugging() {
            return;
        }
        let Spot {
            job,
            fire_time,
            shard,
            ..
        } = self.spot(outcome);
        let agent = self.agent(finish.agent_id);
        if ordinary {
            tracing::debug!(job, fire_time, shard, %token, agent, "attempt succeeded");
        } else {
            let (outcome, reason) = (end.as_str(), finish.end.reason.as_deref());
            tracing::info!(
                job, fire_time, shard, %token, agent, outcome, counted, reason, "attempt ended"
            );
        }
    }

    /// Where a command about one shard took place, by the rows that it changed.
    fn spot(&self, outcome: &'a Outcome) -> Spot<'_> {
        let mut spot = Spot::default();
        for change in &outcome.changes {
            match change {
                Change::Run(run) => self.put_run(&mut spot, run),
                Change::Shard(shard) => {
                    if let Some(run) = self.before.runs.get(&shard.run_id) {
                        self.put_run(&mut spot, run);
                    }
                    spot.shard = Some(shard.shard);
                    let before = self.before.shards.get(&(shard.run_id, shard.shard));
                    spot.agent = [Some(shard), before]
                        .into_iter()
                        .flatten()
                        .find_map(|shard| match shard.state {
                            ShardState::Leased(lease) => Some(self.agent(lease.agent_id)),
                            _ => None,
                        });
                }
                _ => {}
            }
        }
        spot
    }

    fn put_run<'s>(&'s self, spot: &mut Spot<'s>, run: &RunRow) {
        spot.job = Some(self.job(run.job_id));
        spot.fire_time = Some(run.fire_time.to_rfc3339());
    }

    fn tell_of_runs(&mut self, outcome: &Outcome) {
        for change in &outcome.changes {
            if let Change::Run(run) = change {
                let before = self
                    .states
                    .insert(run.run_id, run.state)
                    .or_else(|| self.before.runs.get(&run.run_id).map(|run| run.state));
                if before != Some(run.state) {
                    self.tell_of_run(before, run);
                }
            }
        }
    }

    fn tell_of_run(&self, before: Option<RunState>, run: &RunRow) {
        let (job, fire_time) = (self.job(run.job_id), run.fire_time);
        let (id, state) = (run.run_id, run.state.as_str());
        let reason = run.reason.as_deref();
        let execution = run.execution;
        match (before, run.state) {
            (_, RunState::Skipped | RunState::Missed | RunState::NeedsConfirmation) => {
                tracing::warn!(job, %fire_time, run = %id, execution, state, reason, "run needs a look");
            }
            (Some(_), state) if state.is_final() => {
                let state = state.as_str();
                tracing::info!(job, %fire_time, run = %id, execution, state, reason, "run finished");
            }
            (None, _) => {
                tracing::info!(
                    job,
                    %fire_time,
                    run = %id,
                    execution,
                    trigger = run.trigger.as_str(),
                    manual = run.namespace == Namespace::Manual,
                    shards = run.shards,
                    state,
                    reason,
                    "run fired"
                );
            }
            (Some(_), _) => {
                tracing::debug!(job, %fire_time, run = %id, execution, state, reason, "run goes on");
            }
        }
    }

    fn job(&self, job_id: JobId) -> &str {
        let known = self.before.jobs.get(&job_id).map(|job| job.name.as_str());
        let changed = self.names.get(&job_id).copied();
        changed.or(known).unwrap_or("(deleted)")
    }

    fn agent(&self, agent_id: AgentId) -> &str {
        let known = self.before.agents.get(&agent_id);
        let known = known.map(|agent| agent.name.as_str());
        let changed = self.agents.get(&agent_id).copied();
        changed.or(known).unwrap_or("(unknown)")
    }
}

/// The word for what a put did, in the log and in the API.
pub(crate) const fn kind_word(kind: PutKind) -> &'static str {
    match kind {
        PutKind::Created => "created",
        PutKind::Revived => "revived",
        PutKind::Changed => "changed",
        PutKind::Renamed => "renamed",
        PutKind::Unchanged => "unchanged",
    }
}

fn name_of(command: &Command) -> &'static str {
    match command {
        Command::BecomeActive(_) => "become_active",
        Command::PutJob(_) => "put_job",
        Command::DeleteJob(_) => "delete_job",
        Command::PauseJob(_) => "pause_job",
        Command::ResumeJob(_) => "resume_job",
        Command::Fire(_) => "fire",
        Command::Admit(_) => "admit",
        Command::SkipWaiting(_) => "skip_waiting",
        Command::Unplaceable(_) => "unplaceable",
        Command::Grant(_) => "grant",
        Command::MarkStarted(_) => "mark_started",
        Command::Finish(_) => "finish",
        Command::Expire(_) => "expire",
        Command::AttachAgent(_) => "attach_agent",
        Command::EndSession(_) => "end_session",
        Command::Quarantine(_) => "quarantine",
        Command::RevokeAgent(_) => "revoke_agent",
        Command::CordonAgent(_) => "cordon_agent",
        Command::UncordonAgent(_) => "uncordon_agent",
        Command::PutResource(_) => "put_resource",
        Command::DeleteResource(_) => "delete_resource",
        Command::ManualRun(_) => "manual_run",
        Command::Rerun(_) => "rerun",
        Command::Redo(_) => "redo",
        Command::CancelRun(_) => "cancel_run",
        Command::Confirm(_) => "confirm",
        Command::RaiseAlert(_) => "raise_alert",
        Command::Remind(_) => "remind",
        Command::SettleAlerts(_) => "settle_alerts",
        Command::ClearAlert(_) => "clear_alert",
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use coordinator_core::ProposalId;
    use jobs::parse_manifests;
    use ledger::command::{
        AttachAgent, BecomeActive, Expire, Fire, Grant, Proposal, PutJob, RaiseAlert,
    };
    use ledger::{Store, command};
    use protocol::attempt::{AttemptEnd, Exit, Trigger};
    use protocol::message::Incarnation;
    use protocol::{DurationMs, Rules, SessionId, Token, WallMs};

    use super::*;

    const NOON: WallMs = WallMs(1_800_000_000_000);

    const MANIFEST: &str = "
name: t/a
purpose: To be told of.
owner: tester
repeatable: { safe: true, how: it does nothing }
schedule: { cron: \"* * * * *\", timezone: Etc/UTC }
misfire: { policy: run_now }
overlap: queue
expected_duration: 1s
timeout: 1m
run: { exec: [\"/bin/true\"] }
";

    /// A ledger whose every batch is told of.
    struct Teller {
        store: Store,
        set: WorkingSet,
    }

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Teller {
        fn do_all(&mut self, commands: Vec<Command>) -> Vec<Done> {
            let proposal = |command| Proposal {
                epoch: self.set.epoch,
                at: NOON,
                command,
            };
            let proposals: Vec<Proposal> = commands.into_iter().map(proposal).collect();
            let outcomes = self.store.propose(&proposals).unwrap();
            let batch: Vec<Committed> = proposals
                .into_iter()
                .zip(outcomes)
                .map(|(proposal, outcome)| Committed {
                    id: ProposalId(0),
                    proposal,
                    outcome,
                })
                .collect();
            tell(&self.set, &batch);
            batch
                .into_iter()
                .map(|committed| {
                    for change in &committed.outcome.changes {
                        self.set.absorb(change);
                    }
                    committed.outcome.result.unwrap()
                })
                .collect()
        }

        fn grant(&mut self, run_id: RunId, session: SessionId) -> Token {
            let grant = Command::Grant(Grant {
                run_id,
                shard: 0,
                session,
                uses: Vec::new(),
            });
            match self.do_all(vec![grant]).pop() {
                Some(Done::Granted { token, .. }) => token,
                other => panic!("{other:?}"),
            }
        }
    }

    fn end(outcome: AttemptOutcome) -> AttemptEnd {
        AttemptEnd {
            outcome,
            exit: Some(Exit::Code(0)),
            started_at: Some(NOON),
            ended_at: NOON,
            cpu: DurationMs(1),
            memory_bytes_peak: 1,
            out_of_memory: false,
            not_enforced: Vec::new(),
            reason: None,
            tail: String::new(),
        }
    }

    fn a_run_from_its_fire_to_its_end(teller: &mut Teller) {
        let manifest = parse_manifests("m", MANIFEST).unwrap().remove(0);
        let begin = BecomeActive {
            node: "c1".to_owned(),
            incarnation: Incarnation(1),
            tzdata: "2026a".to_owned(),
        };
        teller.do_all(vec![Command::BecomeActive(begin)]);
        let put = PutJob {
            shards: None,

            manifest,
            cut_over: NOON - DurationMs(60_000),
            settle: None,
            expected: None,
            by: "tester".to_owned(),
        };
        let attach = AttachAgent {
            name: "host-1".parse().unwrap(),
            boot_id: "boot".to_owned(),
            agent: Incarnation(1),
            supervisor: Incarnation(2),
            swept: true,
            slots: 4,
            labels: Vec::new(),
            holds: Vec::new(),
        };
        let done = teller.do_all(vec![Command::PutJob(put), Command::AttachAgent(attach)]);
        let [
            Done::JobPut { job_id, .. },
            Done::Attached {
                agent_id, session, ..
            },
        ] = done[..]
        else {
            panic!("{done:?}");
        };
        let decision = Decision::Run {
            fire_time: NOON,
            nominal: vec!["2027-01-15T08:00:00".to_owned()],
            trigger: Trigger::Scheduled,
            start_deadline: None,
        };
        let fire = Fire {
            job_id,
            version: 1,
            from: NOON - DurationMs(60_000),
            through: NOON,
            decisions: vec![decision],
        };
        let done = teller.do_all(vec![Command::Fire(fire)]);
        let [Done::Fired { runs }] = &done[..] else {
            panic!("{done:?}");
        };
        let run_id = runs[0].0;
        let token = teller.grant(run_id, session);
        let expire = Command::Expire(Expire {
            run_id,
            shard: 0,
            token,
            reason: "host-1 was not heard of".to_owned(),
        });
        teller.do_all(vec![expire]);
        let token = teller.grant(run_id, session);
        let finish = Command::Finish(command::Finish {
            agent_id,
            token,
            end: end(AttemptOutcome::Succeeded),
        });
        let alert = Command::RaiseAlert(RaiseAlert {
            kind: command::AlertKind::FlappingLeader,
            on: On::Job(job_id),
            text: "look".to_owned(),
        });
        teller.do_all(vec![finish, alert]);
    }

    #[test]
    fn the_log_tells_a_run_from_its_fire_to_its_end() {
        let lines = Lines::default();
        let written = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || written.clone())
            .with_ansi(false)
            .without_time()
            .with_target(false)
            .finish();
        let mut teller = Teller {
            store: Store::open_in_memory(Rules::all()).unwrap(),
            set: WorkingSet::default(),
        };
        tracing::subscriber::with_default(subscriber, || {
            a_run_from_its_fire_to_its_end(&mut teller);
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let told: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(
            told,
            [
                "INFO this coordinator leads epoch=epoch-1 node=\"c1\"",
                "INFO job changed job=\"t/a\" version=1 kind=\"created\" by=\"tester\"",
                "INFO agent attached agent=\"host-1\" session=session-2 slots=4 holds=0 kill=0 released=0 owed=0",
                "INFO run fired job=\"t/a\" fire_time=2027-01-15T08:00:00Z run=run-1 execution=1 trigger=\"scheduled\" manual=false shards=1 state=\"ready\"",
                "INFO lease expired job=\"t/a\" fire_time=\"2027-01-15T08:00:00Z\" shard=0 token=token-4 agent=\"host-1\" reason=\"host-1 was not heard of\"",
                "INFO run finished job=\"t/a\" fire_time=2027-01-15T08:00:00Z run=run-1 execution=1 state=\"succeeded\"",
                "WARN alert job=\"t/a\" text=\"look\"",
            ]
        );
    }
}
