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
        narrator.tell_of_command(committed.command(), &committed.outcome);
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
            (Command::NoteHealth(note), Done::HealthNoted { cordoned: true }) => {
                tracing::warn!(
                    agent = %note.name,
                    health = note.health.as_str(),
                    reason = note.reason,
                    "cordoned by its health"
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
            (Command::CreateToken(create), Done::TokenCreated) => {
                tracing::info!(
                    token = create.name.as_str(),
                    role = create.role.as_str(),
                    reach = %create.reach,
                    by = create.by,
                    "a token is made"
                );
            }
            (Command::CreateJoinToken(create), Done::JoinTokenCreated { id }) => {
                let (by, uses, role) = (&create.by, create.uses, create.role);
                tracing::info!(token = %id, by, %role, uses, until = %create.expires_at, "a join token is made");
            }
            (Command::RevokeJoinToken(revoke), Done::JoinTokenRevoked { changed: true }) => {
                let (by, reason) = (&revoke.by, &revoke.reason);
                tracing::info!(token = %revoke.id, by, reason, "a join token is revoked");
            }
            (Command::Enrol(enrol), Done::Enrolled { again, node }) => {
                let role = enrol.role;
                tracing::info!(name = %enrol.name, %role, node, again, "a machine is enrolled");
            }
            (Command::RenewAgent(renew), Done::Renewed) => {
                let (agent, until) = (&renew.name, renew.good_until);
                tracing::info!(%agent, %until, "a host's certificate is renewed");
            }
            (Command::RegisterHost(register), Done::HostRegistered { generation }) => {
                let agent = &register.name;
                tracing::info!(%agent, generation, "a host has registered");
                for difference in &register.differences {
                    tracing::info!(%agent, %difference, "a host is not as it was");
                }
            }
            (Command::RevokeToken(revoke), Done::TokenRevoked { changed: true }) => {
                let (token, by) = (revoke.name.as_str(), &revoke.by);
                tracing::info!(token, by, reason = revoke.reason, "a token is revoked");
            }
            (Command::ChangeGroup(change), Done::GroupChangeNoted) => {
                let by = &change.by;
                tracing::info!(by, change = ?change.change, "the control group is to be changed");
            }
            (Command::ReleaseGrants(_), Done::GrantsReleased) => {
                tracing::info!(
                    "every lease from before the restore has run out: shards are granted again"
                );
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
        Command::Restore(_) => "restore",
        Command::ReleaseGrants(_) => "release_grants",
        Command::NoteBackup(_) => "note_backup",
        Command::NoteHealth(_) => "note_health",
        Command::ChangeGroup(_) => "change_group",
        Command::CreateToken(_) => "create_token",
        Command::RevokeToken(_) => "revoke_token",
        Command::CreateJoinToken(_) => "create_join_token",
        Command::RevokeJoinToken(_) => "revoke_join_token",
        Command::Enrol(_) => "enrol",
        Command::RenewAgent(_) => "renew_agent",
        Command::RegisterHost(_) => "register_host",
    }
}

#[cfg(test)]
mod tests;
