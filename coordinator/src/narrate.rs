//! What an operator reads in the log: each committed command, in words.
//!
//! Runs are told of by what became of them, whichever command did it: when they appear and when
//! they come to rest. The rest is told by command.

use std::collections::BTreeMap;

use ledger::command::{Command, Decision};
use ledger::{Change, Done, Namespace, Outcome, PutKind, RunRow, RunState, WorkingSet};
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
            Ok(done) => self.tell_of_done(command, done),
            Err(refusal) => {
                tracing::debug!(command = name_of(command), %refusal, "a command was refused");
            }
        }
    }

    fn tell_of_done(&self, command: &Command, done: &Done) {
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
            (Command::Fire(fire), Done::Fired { .. }) => {
                self.tell_of_gaps(fire.job_id, &fire.decisions);
            }
            (Command::Unplaceable(stuck), Done::GivenToPerson) => {
                let run = self.before.runs.get(&stuck.run_id);
                tracing::warn!(
                    job = run.map(|run| self.job(run.job_id)),
                    fire_time = run.map(|run| run.fire_time.to_rfc3339()),
                    shard = stuck.shard,
                    report = stuck.report,
                    "a shard found no place"
                );
            }
            (Command::Quarantine(quarantine), Done::Quarantined) => {
                tracing::warn!(
                    agent = self.agent(quarantine.agent_id),
                    reason = quarantine.reason,
                    "an agent is quarantined"
                );
            }
            (Command::RaiseAlert(alert), Done::AlertRaised) => {
                tracing::warn!(
                    job = alert.job_id.map(|job| self.job(job)),
                    text = alert.text,
                    "alert"
                );
            }
            _ => self.tell_of_leases(command, done),
        }
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

    fn tell_of_leases(&self, command: &Command, done: &Done) {
        match (command, done) {
            (
                Command::AttachAgent(attach),
                Done::Attached {
                    session,
                    kill,
                    released,
                    ..
                },
            ) => {
                tracing::info!(
                    agent = attach.name.as_str(),
                    %session,
                    slots = attach.slots,
                    holds = attach.holds.len(),
                    kill = kill.len(),
                    released = released.len(),
                    "agent attached"
                );
                for (token, outcome) in released {
                    let outcome = outcome.as_str();
                    let agent = attach.name.as_str();
                    tracing::info!(agent, %token, outcome, "lease released by an attach");
                }
            }
            (Command::EndSession(end), Done::SessionEnded) => {
                tracing::info!(session = %end.session, "a session ended for want of contact");
            }
            (
                Command::Grant(_),
                Done::Granted {
                    token,
                    run_id,
                    shard,
                    attempt,
                },
            ) => {
                let run = self.before.runs.get(run_id);
                tracing::debug!(
                    job = run.map(|run| self.job(run.job_id)),
                    fire_time = run.map(|run| run.fire_time.to_rfc3339()),
                    shard,
                    %token,
                    attempt,
                    "shard granted"
                );
            }
            (Command::Finish(finish), Done::Finished { counted }) => {
                let (outcome, agent) = (finish.end.outcome, self.agent(finish.agent_id));
                let reason = finish.end.reason.as_deref();
                if outcome == AttemptOutcome::Succeeded && *counted {
                    tracing::debug!(token = %finish.token, agent, "attempt succeeded");
                } else {
                    tracing::info!(
                        token = %finish.token,
                        agent,
                        outcome = outcome.as_str(),
                        counted,
                        reason,
                        "attempt ended"
                    );
                }
            }
            (Command::Expire(expire), Done::Expired) => {
                let run = self.before.runs.get(&expire.run_id);
                tracing::info!(
                    job = run.map(|run| self.job(run.job_id)),
                    fire_time = run.map(|run| run.fire_time.to_rfc3339()),
                    shard = expire.shard,
                    token = %expire.token,
                    reason = expire.reason,
                    "lease expired"
                );
            }
            _ => tracing::debug!(command = name_of(command), "a command was carried out"),
        }
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
        Command::ManualRun(_) => "manual_run",
        Command::Rerun(_) => "rerun",
        Command::CancelRun(_) => "cancel_run",
        Command::Confirm(_) => "confirm",
        Command::RaiseAlert(_) => "raise_alert",
    }
}
