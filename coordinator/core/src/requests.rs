//! What people ask for: each request becomes one command, and its outcome the answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use jobs::{Manifest, Shards};
use ledger::command::{
    CancelRun, ChangeGroup, ClearAlert, Command, Confirm, CordonAgent, CreateJoinToken,
    CreateToken, DeleteJob, DeleteResource, Enrol, ManualRun, NoteBackup, PauseJob, PutJob,
    PutResource, Redo, RegisterHost, RenewAgent, Rerun, RerunScope, ResumeJob, RevokeAgent,
    RevokeJoinToken, RevokeToken, Settlement, UncordonAgent, Verdict as Answer,
};
use ledger::{Cordon, Done, JobRow, Proposal, Refusal, ShardState};
use profiles::matching::Ask;
use protocol::{AgentName, AlertId, DurationMs, JobId, JobName, Now, ResourceName, RunId, WallMs};

use crate::clock::{Doubt, Verdict};
use crate::core::{Core, Effect, Flight, RequestId};
use crate::queue::Key;
use crate::{shards, trigger};

/// How often a command that moves a watermark is computed anew when the state moved under it.
const TRIES: u32 = 5;

#[derive(Clone, Debug)]
pub enum Request {
    PutJob {
        manifest: Arc<Manifest>,
        /// Only if this version is in force; 0: only if the job is not in force.
        expected: Option<u32>,
        by: String,
    },
    DeleteJob {
        job: JobName,
        by: String,
    },
    Pause {
        job: JobName,
        by: String,
        reason: String,
    },
    Resume {
        job: JobName,
        by: String,
    },
    Run {
        job: JobName,
        instant: Option<WallMs>,
        params: BTreeMap<String, String>,
        by: String,
        reason: String,
    },
    Redo {
        run_id: RunId,
        by: String,
        reason: String,
        /// Although a second run is not declared harmless.
        force: bool,
    },
    Rerun {
        run_id: RunId,
        scope: RerunScope,
        by: String,
        reason: String,
    },
    Cancel {
        run_id: RunId,
        by: String,
        reason: String,
    },
    Confirm {
        run_id: RunId,
        shard: Option<u32>,
        verdict: Answer,
        by: String,
        reason: String,
    },
    RevokeAgent {
        agent: AgentName,
        by: String,
        reason: String,
    },
    ClearAlert {
        alert: AlertId,
        by: String,
        reason: String,
    },
    Cordon {
        agent: AgentName,
        cordon: Cordon,
        by: String,
        reason: String,
    },
    Uncordon {
        agent: AgentName,
        by: String,
    },
    PutResource {
        resource: ResourceName,
        capacity: u32,
        by: String,
    },
    DeleteResource {
        resource: ResourceName,
        by: String,
    },
    CreateToken(CreateToken),
    RevokeToken(RevokeToken),
    CreateJoinToken(CreateJoinToken),
    RevokeJoinToken(RevokeJoinToken),
    Enrol(Enrol),
    RenewAgent(RenewAgent),
    RegisterHost(Box<RegisterHost>),
    /// What is done next to the control group, which is not the ledger's to do.
    ChangeGroup(ChangeGroup),
    /// What became of a backup that this coordinator was to make by its schedule.
    NoteBackup(NoteBackup),
}

/// A request, and where it came from.
#[derive(Clone, Debug)]
pub struct Asked {
    pub request: Request,
    /// The address of whoever asks, for the record.
    pub source: Option<Box<str>>,
}

/// What nobody's address goes with.
impl From<Request> for Asked {
    fn from(request: Request) -> Asked {
        Asked {
            request,
            source: None,
        }
    }
}

/// Why a request was not carried out. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("this coordinator does not lead (yet); ask again in a moment")]
    NotLeading,
    #[error("there is no job `{0}`")]
    NoSuchJob(JobName),
    #[error("the clock of the coordinator {0}; until then nothing sets a watermark")]
    ClockHeld(Doubt),
    #[error("the schedule of `{job}` in force names no fire at {instant}")]
    NotAnInstant { job: JobName, instant: WallMs },
    #[error(
        "the stored manifest of `{0}` cannot be read, so its schedule is unknown; apply it anew"
    )]
    Unreadable(JobName),
    #[error("`{job}` cannot be run so: {why}")]
    Params { job: JobName, why: jobs::ParamError },
    #[error("the schedule of `{job}` is over: its last fire was at {last}")]
    Over { job: JobName, last: WallMs },
}

#[derive(Clone, Debug)]
pub(crate) struct PendingRequest {
    id: RequestId,
    request: Request,
    source: Option<Box<str>>,
    tries: u32,
    /// The job whose watermark the command moves.
    moves: Option<JobId>,
}

impl Core {
    /// Something a person asks; answered by exactly one [`Effect::Reply`].
    pub fn handle_request(&mut self, id: RequestId, asked: impl Into<Asked>, now: Now) {
        let Asked { request, source } = asked.into();
        self.observe(now);
        self.try_request(
            PendingRequest {
                id,
                request,
                source,
                tries: TRIES,
                moves: None,
            },
            now,
        );
        self.stir(now);
    }

    /// The cut-over of a job that is put or deleted now, if that can be done now.
    pub fn cut_over(&self, now: Now) -> Result<WallMs, RequestError> {
        if self.epoch().is_none() {
            return Err(RequestError::NotLeading);
        }
        self.gate_open(now)?;
        Ok(trigger::settles_through(now))
    }

    fn try_request(&mut self, mut pending: PendingRequest, now: Now) {
        if self.epoch().is_none() {
            return self.reply(pending.id, Err(RequestError::NotLeading));
        }
        match self.command_for(&pending.request, now) {
            Err(error) => self.reply(pending.id, Err(error)),
            Ok((command, moves)) => {
                pending.moves = moves;
                if let Some(job_id) = moves {
                    self.firing.begin_move(job_id);
                }
                let proposal = Proposal {
                    epoch: None,
                    at: now.wall,
                    source: pending.source.clone(),
                    command,
                };
                self.enqueue(Flight::Request(pending), proposal);
            }
        }
    }

    pub(crate) fn land_request(
        &mut self,
        mut pending: PendingRequest,
        result: Result<Done, Refusal>,
        now: Now,
    ) {
        if let Some(job_id) = pending.moves {
            self.firing.end_move(job_id);
        }
        if is_outrun(&pending, &result) && pending.tries > 0 {
            pending.tries -= 1;
            return self.try_request(pending, now);
        }
        if let Ok(Done::AgentCordoned { agent_id, .. }) = result {
            self.interrupt_if_drained(agent_id);
        }
        if let (Request::RevokeAgent { agent, .. }, Ok(_)) = (&pending.request, &result) {
            self.refuse_all(
                agent,
                "this agent is revoked: its leases run out and it gets no more work; \
                 to use this host again, issue it a certificate under a name not used before",
            );
        }
        self.reply(pending.id, result.map_err(RequestError::from));
    }

    pub(crate) fn is_cancelling(&self, key: Key) -> bool {
        let shard = self.set.shards.get(&key);
        shard.is_some_and(|s| matches!(s.state, ShardState::Leased(lease) if lease.cancelling))
    }

    fn reply(&mut self, request: RequestId, answer: Result<Done, RequestError>) {
        self.effect(Effect::Reply { request, answer });
    }

    /// The command, and the job whose watermark it moves, if it moves one.
    fn command_for(
        &self,
        request: &Request,
        now: Now,
    ) -> Result<(Command, Option<JobId>), RequestError> {
        let command = match request.clone() {
            Request::PutJob {
                manifest,
                expected,
                by,
            } => return self.put_job(&manifest, expected, by, now),
            Request::DeleteJob { job, by } => {
                let (job_id, cut_over, settle) = self.cut(&job, now)?;
                let delete = DeleteJob {
                    job_id,
                    cut_over,
                    settle,
                    by,
                };
                return Ok((Command::DeleteJob(delete), Some(job_id)));
            }
            Request::Resume { job, by } => {
                let (job_id, cut_over, settle) = self.cut(&job, now)?;
                let resume = ResumeJob {
                    job_id,
                    cut_over,
                    settle,
                    by,
                };
                return Ok((Command::ResumeJob(resume), Some(job_id)));
            }
            // Sets no watermark: nothing that is in doubt about the clock keeps it from its word.
            Request::Pause { job, by, reason } => Command::PauseJob(PauseJob {
                job_id: self.job(&job)?.job_id,
                by,
                reason,
            }),
            Request::Run {
                job,
                instant,
                params,
                by,
                reason,
            } => Command::ManualRun(self.manual_run(&job, instant, params, (by, reason), now)?),
            Request::Redo {
                run_id,
                by,
                reason,
                force,
            } => Command::Redo(Redo {
                run_id,
                by,
                reason,
                force,
            }),
            Request::Rerun {
                run_id,
                scope,
                by,
                reason,
            } => Command::Rerun(Rerun {
                run_id,
                scope,
                by,
                reason,
            }),
            Request::Cancel { run_id, by, reason } => {
                Command::CancelRun(CancelRun { run_id, by, reason })
            }
            Request::Confirm {
                run_id,
                shard,
                verdict,
                by,
                reason,
            } => Command::Confirm(Confirm {
                run_id,
                shard,
                verdict,
                by,
                reason,
            }),
            Request::ClearAlert { alert, by, reason } => Command::ClearAlert(ClearAlert {
                alert_id: alert,
                by,
                reason,
            }),
            Request::RevokeAgent { agent, by, reason } => Command::RevokeAgent(RevokeAgent {
                name: agent,
                by,
                reason,
            }),
            Request::Cordon {
                agent,
                cordon,
                by,
                reason,
            } => Command::CordonAgent(CordonAgent {
                name: agent,
                cordon,
                by,
                reason,
            }),
            Request::Uncordon { agent, by } => {
                let known = self.set.agents.values().find(|known| known.name == agent);
                let health = known.and_then(|known| self.healths.worst(known.agent_id));
                Command::UncordonAgent(UncordonAgent {
                    name: agent,
                    by,
                    health,
                })
            }
            Request::PutResource {
                resource,
                capacity,
                by,
            } => Command::PutResource(PutResource {
                name: resource,
                capacity,
                by,
            }),
            Request::DeleteResource { resource, by } => {
                let name = resource;
                Command::DeleteResource(DeleteResource { name, by })
            }
            Request::CreateToken(create) => Command::CreateToken(create),
            Request::RevokeToken(revoke) => Command::RevokeToken(revoke),
            Request::CreateJoinToken(create) => Command::CreateJoinToken(create),
            Request::RevokeJoinToken(revoke) => Command::RevokeJoinToken(revoke),
            Request::Enrol(enrol) => Command::Enrol(enrol),
            Request::RenewAgent(renew) => Command::RenewAgent(renew),
            Request::RegisterHost(register) => Command::RegisterHost(register),
            Request::ChangeGroup(change) => Command::ChangeGroup(change),
            Request::NoteBackup(note) => Command::NoteBackup(note),
        };
        Ok((command, None))
    }

    fn put_job(
        &self,
        manifest: &Manifest,
        expected: Option<u32>,
        by: String,
        now: Now,
    ) -> Result<(Command, Option<JobId>), RequestError> {
        self.gate_open(now)?;
        let known = self
            .names
            .get(&manifest.name)
            .or_else(|| {
                manifest
                    .renamed_from
                    .as_ref()
                    .and_then(|old| self.names.get(old))
            })
            .and_then(|job_id| self.set.jobs.get(job_id));
        let cut_over = trigger::settles_through(now);
        let in_force = known.and_then(|row| self.owed(row));
        // What is in force already may be over, and may be applied again with all the others.
        if in_force.is_none_or(|owed| owed.manifest != manifest)
            && manifest.schedule().next_after(cut_over, cut_over).is_none()
        {
            let last = manifest
                .schedule()
                .previous_before(cut_over, cut_over + DurationMs(1))
                .expect("a schedule that was read names an instant, and none is to come");
            return Err(RequestError::Over {
                job: manifest.name.clone(),
                last: last.at,
            });
        }
        let settle = known.map(|row| self.settle(row, now));
        let shards = match manifest.shards {
            Shards::Fixed(_) => None,
            Shards::Sized { of, target } => {
                let ask = Ask::of(&manifest.needs);
                let hosts = self.fleet.in_service(&ask.filter, now.boot);
                Some(shards::computed(of, target, hosts))
            }
        };
        let put = PutJob {
            manifest: manifest.clone(),
            shards,
            cut_over,
            settle,
            expected,
            by,
        };
        Ok((Command::PutJob(Box::new(put)), known.map(|row| row.job_id)))
    }

    /// A run of this instant, or of none: refuses an instant that the schedule in force does not
    /// name, and values that its manifest does not let a run be given.
    fn manual_run(
        &self,
        job: &JobName,
        instant: Option<WallMs>,
        params: BTreeMap<String, String>,
        (by, reason): (String, String),
        now: Now,
    ) -> Result<ManualRun, RequestError> {
        let row = self.job(job)?;
        let owed = self
            .owed(row)
            .ok_or_else(|| RequestError::Unreadable(job.clone()))?;
        let nominal = match instant {
            None => Vec::new(),
            Some(at) => {
                let before = at - DurationMs(1);
                let named = owed.manifest.schedule().next_after(owed.anchor, before);
                match named.filter(|named| named.at == at) {
                    Some(named) => named.nominal,
                    None => {
                        return Err(RequestError::NotAnInstant {
                            job: job.clone(),
                            instant: at,
                        });
                    }
                }
            }
        };
        owed.manifest
            .judge_params(&params)
            .map_err(|why| RequestError::Params {
                job: job.clone(),
                why,
            })?;
        // Where no host takes it, or another run stands before it, its person hears of it as they
        // would of a fire of the schedule: it must not stand in the schedule's way for ever.
        let deadline = trigger::start_deadline(owed.manifest, owed.anchor, now.wall);
        Ok(ManualRun {
            job_id: row.job_id,
            version: row.version,
            instant,
            nominal,
            start_deadline: Some(deadline),
            params,
            by,
            reason,
        })
    }

    /// Where a job in force is cut off now, and what is settled by that.
    fn cut(&self, job: &JobName, now: Now) -> Result<(JobId, WallMs, Settlement), RequestError> {
        self.gate_open(now)?;
        let row = self.job(job)?;
        let settle = self.settle(row, now);
        Ok((row.job_id, trigger::settles_through(now), settle))
    }

    /// What the version in force owes up to now. Where its manifest cannot be read, nothing can be
    /// decided about its instants: they are recorded as a gap of unknown count. What was due while
    /// the job was paused is a gap too.
    fn settle(&self, row: &JobRow, now: Now) -> Settlement {
        let through = trigger::settles_through(now);
        let decisions = match self.owed(row) {
            Some(owed) if row.in_doubt => trigger::unknown(owed, through),
            Some(owed) if row.is_paused() => trigger::paused(owed, through),
            Some(owed) => trigger::decide(owed, through, self.rules),
            None => trigger::unreadable(row.fired_through, through),
        };
        Settlement {
            version: row.version,
            from: row.fired_through,
            decisions,
        }
    }

    fn job(&self, name: &JobName) -> Result<&JobRow, RequestError> {
        self.names
            .get(name)
            .and_then(|job_id| self.set.jobs.get(job_id))
            .ok_or_else(|| RequestError::NoSuchJob(name.clone()))
    }

    /// Every command that sets a watermark waits while the clock cannot be believed.
    fn gate_open(&self, now: Now) -> Result<(), RequestError> {
        match self.clock_verdict(now) {
            Verdict::Held(doubt) => Err(RequestError::ClockHeld(doubt)),
            _ => Ok(()),
        }
    }
}

/// Whether the state moved under a command that was computed from it. Of a version that a person
/// expected, they must hear instead.
fn is_outrun(pending: &PendingRequest, result: &Result<Done, Refusal>) -> bool {
    match result {
        Err(Refusal::WatermarkMoved { .. }) => true,
        // Another version came between; a person who names the one they expect is told instead.
        Err(Refusal::VersionMoved { .. }) => matches!(pending.request, Request::Run { .. }),
        // It was paused meanwhile; what it owes is then to be decided otherwise.
        Err(Refusal::Paused { .. }) => pending.moves.is_some(),
        _ => false,
    }
}
