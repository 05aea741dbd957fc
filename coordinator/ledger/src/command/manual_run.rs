use protocol::attempt::Trigger;
use protocol::{DurationMs, JobId, Rule, WallMs};
use rusqlite::OptionalExtension;
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop, clip};
use crate::codes::Coded;
use crate::decisions::NewRun;
use crate::outcome::{Done, Refusal};
use crate::overlap::Admission;
use crate::rows::{JobRow, Namespace};
use crate::tables::record::Audit;

/// A run at a person's wish: of a settled instant that has no run, or of no instant at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManualRun {
    pub job_id: JobId,
    /// An instant of the schedule in the past; the proposer has checked that the schedule names
    /// it. `None`: a run of its own in the manual namespace, its fire time that of the command.
    pub instant: Option<WallMs>,
    pub nominal: Vec<String>,
    pub start_deadline: Option<DurationMs>,
    pub by: String,
    pub reason: String,
}

impl ManualRun {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let job = context.job(self.job_id)?;
        let policy = context.policy(job.job_id, job.version)?;
        let (namespace, fire_time) = self.place(context, &job)?;
        let admission = context.judge_new(job.job_id, policy.overlap)?;
        if let Admission::Refuse(live) = admission {
            return Err(Refusal::Overlap {
                live,
                policy: policy.overlap.word().to_owned(),
            }
            .into());
        }
        let (by, reason) = (clip(&self.by), clip(&self.reason));
        let new = NewRun {
            job_id: job.job_id,
            version: job.version,
            namespace,
            fire_time,
            nominal: &self.nominal,
            trigger: Trigger::Manual,
            start_deadline: self.start_deadline,
            shards: policy.shards,
            asked: Some((by, reason)),
        };
        let (run_id, state) = context.write_admitted(&new, admission)?;
        context.audit(Audit {
            by,
            action: "run",
            job_id: job.job_id,
            run_id: Some(run_id),
            reason: Some(reason),
        })?;
        Ok(Done::RunStarted { run_id, state })
    }

    fn place(&self, context: &Context<'_>, job: &JobRow) -> Result<(Namespace, WallMs), Stop> {
        match self.instant {
            None => Ok((Namespace::Manual, context.free_manual_time(job.job_id)?)),
            Some(fire_time)
                if fire_time > job.fired_through
                    && context.rules.on(Rule::ManualRunsStayInThePast) =>
            {
                Err(Refusal::InFuture {
                    fire_time,
                    fired_through: job.fired_through,
                }
                .into())
            }
            // That the instant has no run yet is checked as its row is written.
            Some(fire_time) => Ok((Namespace::Scheduled, fire_time)),
        }
    }
}

impl Context<'_> {
    /// The command's own time, or the first after the job's newest manual run.
    fn free_manual_time(&self, job_id: JobId) -> Result<WallMs, Stop> {
        let newest: Option<i64> = self
            .conn
            .prepare_cached(
                "SELECT fire_time FROM runs WHERE job_id = ?1 AND namespace = ?2
                 ORDER BY fire_time DESC LIMIT 1",
            )?
            .query_row([job_id.0, Namespace::Manual.code()], |row| row.get(0))
            .optional()?;
        let free = newest.map_or(i64::MIN, |newest| newest.saturating_add(1));
        Ok(WallMs(self.at.0.max(free)))
    }
}
