use protocol::{JobId, WallMs};
use serde::{Deserialize, Serialize};

use super::Settlement;
use crate::apply::{Context, Stop, clip};
use crate::outcome::{Done, Refusal};
use crate::tables::record::Audit;
use crate::tables::run::Run;

/// Ends a job at `cut_over`, settling what it owed. The row stays as a tombstone with id, name
/// and watermark for ever. Open runs without a lease are cancelled; refused while a lease lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteJob {
    pub job_id: JobId,
    pub cut_over: WallMs,
    pub settle: Settlement,
    pub by: String,
}

impl DeleteJob {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let mut job = context.job(self.job_id)?;
        let through = self.cut_over.max(job.fired_through);
        Settlement::write(Some(&self.settle), context, &job, through)?;
        let runs = context
            .open_runs(self.job_id)?
            .into_iter()
            .map(|(run_id, _)| context.run(run_id))
            .collect::<Result<Vec<Run>, Stop>>()?;
        let leases = runs.iter().map(|run| run.tally.leased).sum();
        if leases > 0 {
            return Err(Refusal::LeasesLive { leases }.into());
        }
        for mut run in runs {
            context.cancel_open(&mut run, "its job was deleted")?;
        }
        context.end_version(job.job_id, job.version, through)?;
        job.fired_through = through;
        job.deleted = true;
        context.update_job(&job)?;
        context.audit(Audit {
            by: clip(&self.by),
            action: "delete job",
            job_id: job.job_id,
            run_id: None,
            reason: None,
        })?;
        Ok(Done::JobDeleted)
    }
}
