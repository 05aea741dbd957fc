use protocol::{JobId, Rule, WallMs};
use serde::{Deserialize, Serialize};

use super::{AlertKind, Decision, Settlement};
use crate::apply::{Context, Stop, clip};
use crate::outcome::Done;
use crate::tables::record::{Audit, On};

/// Ends a job's pause at `cut_over`: it fires again from then on, and never the past. What was due
/// meanwhile becomes one gap, and the watermark moves over it, in this command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumeJob {
    pub job_id: JobId,
    pub cut_over: WallMs,
    /// What the pause has kept from firing, as gaps.
    pub settle: Settlement,
    pub by: String,
}

impl ResumeJob {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let mut job = context.job(self.job_id)?;
        if !job.is_paused() {
            return Ok(Done::Resumed {
                changed: false,
                skipped: 0,
            });
        }
        if context.rules.on(Rule::ResumeSkipsThePast) {
            let through = self.cut_over.max(job.fired_through);
            Settlement::write(Some(&self.settle), context, &job, through)?;
            job.fired_through = through;
            job.in_doubt = false;
            context.update_job(&job)?;
        }
        context.write_pause(&mut job, None)?;
        context.settle_alert(AlertKind::FuseBlown, On::Job(job.job_id))?;
        context.audit(Audit {
            by: clip(&self.by),
            action: "resume",
            on: On::Job(job.job_id),
            reason: None,
        })?;
        Ok(Done::Resumed {
            changed: true,
            skipped: self.settle.skipped(),
        })
    }
}

impl Settlement {
    /// Instants that its gaps hold, as far as they are counted.
    fn skipped(&self) -> u64 {
        let held = self.decisions.iter().map(|decision| match decision {
            Decision::Gap { count, .. } => *count,
            Decision::Run { .. } | Decision::Missed { .. } => 0,
        });
        held.fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{DeleteJob, GapReason, PauseJob, PutJob};
    use crate::outcome::{PutKind, Refusal};
    use crate::testing::{self, Bed, MINUTE, run_at};

    fn pause(bed: &mut Bed, job_id: JobId) {
        bed.ok(PauseJob {
            job_id,
            by: "ada".to_owned(),
            reason: "the bank is shut".to_owned(),
        });
    }

    fn paused_gap(from: i64, through: i64) -> Settlement {
        Settlement {
            version: 1,
            from: WallMs(from * MINUTE),
            decisions: vec![Decision::Gap {
                from: WallMs(from * MINUTE),
                through: WallMs(through * MINUTE),
                count: u64::try_from(through - from).unwrap(),
                reason: GapReason::Paused,
            }],
        }
    }

    fn resume(job_id: JobId, cut_over: i64, settle: Settlement) -> ResumeJob {
        ResumeJob {
            job_id,
            cut_over: WallMs(cut_over * MINUTE),
            settle,
            by: "bob".to_owned(),
        }
    }

    #[test]
    fn what_was_due_meanwhile_becomes_one_gap_that_nobody_is_alarmed_by() {
        let mut bed = Bed::new();
        let job = bed.job("");
        bed.fire(job, 1);
        pause(&mut bed, job);
        let done = bed.ok(resume(job, 50, paused_gap(1, 50)));
        assert_eq!(
            done,
            Done::Resumed {
                changed: true,
                skipped: 49
            }
        );
        assert_eq!(bed.set.jobs[&job].fired_through, WallMs(50 * MINUTE));
        assert!(!bed.set.jobs[&job].is_paused());
        assert_eq!(
            bed.view("SELECT after, through, count, reason FROM gap_view"),
            ["1970-01-01T00:01:00.000Z|1970-01-01T00:50:00.000Z|49|paused"]
        );
        assert_eq!(
            bed.view("SELECT kind FROM alert_view"),
            Vec::<String>::new()
        );
        assert_eq!(bed.view("SELECT paused_by FROM job_view"), ["-"]);
        bed.fire(job, 51);
    }

    #[test]
    fn a_resume_that_was_computed_from_another_watermark_or_runs_the_past_is_refused() {
        let mut bed = Bed::new();
        let job = bed.job("");
        bed.fire(job, 1);
        pause(&mut bed, job);
        assert!(matches!(
            bed.refused(resume(job, 50, paused_gap(0, 50))),
            Refusal::WatermarkMoved { .. }
        ));
        let runs = Settlement {
            decisions: vec![run_at(5)],
            ..paused_gap(1, 50)
        };
        assert!(matches!(
            bed.refused(resume(job, 50, runs)),
            Refusal::Paused { .. }
        ));
        assert!(bed.set.jobs[&job].is_paused());
    }

    #[test]
    fn a_job_that_is_not_paused_is_left_alone() {
        let mut bed = Bed::new();
        let job = bed.job("");
        let done = bed.ok(resume(job, 50, paused_gap(0, 50)));
        assert_eq!(
            done,
            Done::Resumed {
                changed: false,
                skipped: 0
            }
        );
        assert_eq!(bed.set.jobs[&job].fired_through, WallMs(0));
    }

    #[test]
    fn without_the_rule_the_watermark_stays_where_the_pause_began() {
        let mut bed = Bed::without(Rule::ResumeSkipsThePast);
        let job = bed.job("");
        pause(&mut bed, job);
        bed.ok(resume(job, 50, paused_gap(0, 50)));
        assert_eq!(bed.set.jobs[&job].fired_through, WallMs(0));
    }

    #[test]
    fn a_put_keeps_the_pause_and_what_the_version_before_owed_is_a_gap() {
        let mut bed = Bed::new();
        let job = bed.job("");
        pause(&mut bed, job);
        let put = |settle| PutJob {
            cut_over: WallMs(50 * MINUTE),
            settle: Some(settle),
            ..testing::put("team/other", "renamed_from: team/job")
        };
        // Computed before the pause: what it would run must not.
        let runs = Settlement {
            decisions: vec![run_at(5)],
            ..paused_gap(0, 50)
        };
        assert!(matches!(bed.refused(put(runs)), Refusal::Paused { .. }));
        assert!(matches!(
            bed.ok(put(paused_gap(0, 50))),
            Done::JobPut {
                kind: PutKind::Renamed,
                ..
            }
        ));
        assert!(bed.set.jobs[&job].is_paused());
        assert_eq!(
            bed.view("SELECT count, reason FROM gap_view"),
            ["50|paused"]
        );
        assert_eq!(
            bed.view("SELECT name, state, paused_by FROM job_view"),
            ["team/other|paused|ada"]
        );
    }

    #[test]
    fn a_deletion_settles_the_pause_and_ends_it() {
        let mut bed = Bed::new();
        let job = bed.job("");
        pause(&mut bed, job);
        bed.ok(DeleteJob {
            job_id: job,
            cut_over: WallMs(50 * MINUTE),
            settle: paused_gap(0, 50),
            by: "ada".to_owned(),
        });
        assert_eq!(
            bed.view("SELECT count, reason FROM gap_view"),
            ["50|paused"]
        );
        assert_eq!(
            bed.view("SELECT state, paused_by FROM job_view"),
            ["deleted|-"]
        );
    }
}
