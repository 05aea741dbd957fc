use protocol::JobId;
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop, clip};
use crate::outcome::Done;
use crate::tables::record::{Audit, On};

/// Keeps a job's schedule from firing until it is resumed, deleted or put anew after a deletion.
///
/// It sets no watermark, so it waits for no clock: whatever has not fired when this is applied does
/// not fire, and lies in the gap that ends the pause. Runs that there are go on, and people may ask
/// for more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseJob {
    pub job_id: JobId,
    pub by: String,
    pub reason: String,
}

impl PauseJob {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let mut job = context.job(self.job_id)?;
        if job.is_paused() {
            return Ok(Done::Paused { changed: false });
        }
        let (by, reason) = (clip(&self.by), clip(&self.reason));
        context.write_pause(&mut job, Some((by, reason)))?;
        context.audit(Audit {
            by,
            action: "pause",
            on: On::Job(job.job_id),
            reason: Some(reason),
        })?;
        Ok(Done::Paused { changed: true })
    }
}

#[cfg(test)]
mod tests {
    use protocol::{Rule, RunId, WallMs};

    use super::*;
    use crate::outcome::Refusal;
    use crate::rows::RunState;
    use crate::testing::{Bed, MINUTE, attach, fire};

    fn pause(job_id: JobId) -> PauseJob {
        PauseJob {
            job_id,
            by: "ada".to_owned(),
            reason: "the bank is shut".to_owned(),
        }
    }

    #[test]
    fn a_paused_job_does_not_fire_and_what_runs_goes_on() {
        let mut bed = Bed::new();
        let job = bed.job("");
        let agent = bed.attach(attach("h1"));
        let (run_id, _) = bed.fire(job, 1);
        bed.at = WallMs(90_000);
        assert_eq!(bed.ok(pause(job)), Done::Paused { changed: true });
        assert_eq!(bed.set.jobs[&job].paused_at, Some(bed.at));
        assert_eq!(
            bed.refused(fire(job, 1, WallMs(MINUTE), 2 * MINUTE, [2])),
            Refusal::Paused {
                job: "team/job".to_owned()
            }
        );
        bed.carry_out(run_id, agent);
        assert_eq!(bed.state(run_id), "succeeded");
        assert_eq!(
            bed.view("SELECT state, paused_at, paused_by, paused_reason FROM job_view"),
            ["paused|1970-01-01T00:01:30.000Z|ada|the bank is shut"]
        );
        assert_eq!(
            bed.view("SELECT by, name, reason FROM audit_view WHERE action = 'pause'"),
            ["ada|team/job|the bank is shut"]
        );
    }

    #[test]
    fn the_first_pause_stands_and_an_unknown_job_is_refused() {
        let mut bed = Bed::new();
        let job = bed.job("");
        bed.ok(pause(job));
        bed.at = WallMs(5);
        let again = PauseJob {
            by: "bob".to_owned(),
            ..pause(job)
        };
        assert_eq!(bed.ok(again), Done::Paused { changed: false });
        assert_eq!(
            bed.view("SELECT paused_at, paused_by FROM job_view"),
            ["1970-01-01T00:00:00.000Z|ada"]
        );
        assert!(matches!(
            bed.refused(pause(JobId(9))),
            Refusal::NoSuchJob { .. }
        ));
    }

    #[test]
    fn without_the_rule_what_was_on_its_way_fires() {
        let mut bed = Bed::without(Rule::PauseJudgedInApply);
        let job = bed.job("");
        bed.ok(pause(job));
        assert_eq!(bed.fire(job, 1), (RunId(1), RunState::Ready));
    }
}
