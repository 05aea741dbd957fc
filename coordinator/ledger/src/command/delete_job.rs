use protocol::{JobId, WallMs};
use serde::{Deserialize, Serialize};

use super::Settlement;
use crate::apply::{Context, Stop, clip};
use crate::outcome::{Done, Refusal};
use crate::tables::record::{Audit, On};
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
            .map(|open| context.run(open.run_id))
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
        job.in_doubt = false;
        context.update_job(&job)?;
        if job.is_paused() {
            context.write_pause(&mut job, None)?;
        }
        context.settle_alerts_of_job(job.job_id)?;
        context.audit(Audit {
            by: clip(&self.by),
            action: "delete job",
            on: On::Job(job.job_id),
            reason: None,
        })?;
        Ok(Done::JobDeleted)
    }
}

#[cfg(test)]
mod tests {
    use protocol::attempt::AttemptOutcome;
    use protocol::{RunId, WallMs};

    use super::*;
    use crate::command::{AlertKind, RaiseAlert};
    use crate::testing::{Bed, MINUTE, attach, end, finish, run_at};

    fn delete(job_id: JobId, version: u32, from: i64, cut_over: i64, fires: &[i64]) -> DeleteJob {
        DeleteJob {
            job_id,
            cut_over: WallMs(cut_over * MINUTE),
            settle: Settlement {
                version,
                from: WallMs(from * MINUTE),
                decisions: fires.iter().copied().map(run_at).collect(),
            },
            by: "ada".to_owned(),
        }
    }

    #[test]
    fn a_deleted_job_settles_cancels_and_leaves_its_watermark() {
        let mut bed = Bed::new();
        let job = bed.job("overlap: queue");
        let agent = bed.attach(attach("h1"));
        bed.fire(job, 1);
        let token = bed.grant(RunId(1), 0, agent.1);
        bed.fire(job, 2);
        assert_eq!(
            bed.refused(delete(job, 1, 2, 4, &[3])),
            Refusal::LeasesLive { leases: 1 }
        );
        bed.ok(finish(agent.0, token, end(AttemptOutcome::Succeeded)));
        assert!(matches!(
            bed.refused(delete(job, 1, 1, 4, &[3])),
            Refusal::WatermarkMoved { .. }
        ));
        assert_eq!(bed.ok(delete(job, 1, 2, 4, &[3])), Done::JobDeleted);
        assert!(bed.set.jobs.is_empty() && bed.set.runs.is_empty());
        assert!(bed.set.versions.is_empty());
        assert_eq!(
            bed.view("SELECT state, reason FROM run_view"),
            [
                "succeeded|-",
                "cancelled|its job was deleted",
                "cancelled|its job was deleted"
            ]
        );
        assert_eq!(
            bed.view("SELECT state, fired_through FROM job_view"),
            ["deleted|1970-01-01T00:04:00.000Z"]
        );
        assert!(matches!(
            bed.refused(delete(job, 1, 4, 5, &[])),
            Refusal::NoSuchJob { .. }
        ));
    }

    #[test]
    fn what_was_told_of_the_job_is_over_with_it_and_nothing_else_is() {
        let mut bed = Bed::new();
        let job = bed.job("");
        for &kind in AlertKind::ALL {
            let (on, text) = (On::Job(job), String::new());
            bed.ok(RaiseAlert { kind, on, text });
        }
        bed.ok(delete(job, 1, 0, 0, &[]));
        assert_eq!(
            bed.view("SELECT kind FROM alert_view WHERE cleared_at IS NOT NULL ORDER BY kind"),
            [
                "fire_refused",
                "fuse_blown",
                "given_up",
                "overlap_skipped",
                "predecessor_failed",
                "start_deadline_passed",
                "unknown_since_backup",
                "unreadable_job",
            ]
        );
    }
}
