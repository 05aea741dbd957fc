use std::collections::BTreeMap;

use jobs::Overlap;
use protocol::attempt::Trigger;
use protocol::{DurationMs, JobId, Rule, WallMs};
use rusqlite::OptionalExtension;
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop, clip, malformed};
use crate::codes::Coded;
use crate::decisions::NewRun;
use crate::outcome::{Done, Refusal};
use crate::rows::{JobRow, Namespace, RunState};
use crate::tables::record::{Audit, On};

/// A run at a person's wish: of a settled instant that has no run, or of no instant at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManualRun {
    pub job_id: JobId,
    /// The version that instant and parameters were judged by.
    pub version: u32,
    /// An instant of the schedule in the past; the proposer has checked that the schedule names
    /// it. `None`: a run of its own in the manual namespace, its fire time that of the command.
    pub instant: Option<WallMs>,
    pub nominal: Vec<String>,
    pub start_deadline: Option<DurationMs>,
    /// Values instead of the manifest's own, of parameters that it names; the proposer has
    /// checked that.
    pub params: BTreeMap<String, String>,
    pub by: String,
    pub reason: String,
}

/// Most parameters that one run may be given, and the longest value, in bytes.
const PARAMS_MAX: usize = 50;
const PARAM_BYTES_MAX: usize = 1000;

impl ManualRun {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let job = context.job(self.job_id)?;
        self.check(&job)?;
        let policy = context.policy(job.job_id, job.version)?;
        let (namespace, fire_time) = self.place(context, &job)?;
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
            params: &self.params,
            asked: Some((by, reason)),
        };
        let (run_id, state) = context.write_admitted(&new)?;
        if policy.overlap == Overlap::Forbid && state == RunState::Waiting {
            let waits = context.run(run_id)?.row.waits;
            return Err(Refusal::Overlap {
                live: waits.and_then(|wait| wait.on.run()).unwrap_or(run_id),
                policy: policy.overlap.word().to_owned(),
            }
            .into());
        }
        context.audit(Audit {
            by,
            action: "run",
            on: On::Run(job.job_id, run_id),
            reason: Some(reason),
        })?;
        Ok(Done::RunStarted { run_id, state })
    }

    fn check(&self, job: &JobRow) -> Result<(), Stop> {
        if job.version != self.version {
            return Err(Refusal::VersionMoved {
                expected: self.version,
                version: job.version,
            }
            .into());
        }
        let long = |text: &String| text.len() > PARAM_BYTES_MAX;
        let too_long = self
            .params
            .iter()
            .any(|(name, value)| long(name) || long(value));
        if self.params.len() > PARAMS_MAX || too_long {
            return Err(malformed(format!(
                "a run has at most {PARAMS_MAX} parameters of at most {PARAM_BYTES_MAX} bytes"
            )));
        }
        Ok(())
    }

    fn place(&self, context: &Context<'_>, job: &JobRow) -> Result<(Namespace, WallMs), Stop> {
        match self.instant {
            None => Ok((Namespace::Manual, context.free_manual_time(job.job_id)?)),
            Some(fire_time)
                if fire_time > job.fired_through
                    && context.rules.on(Rule::ManualRunsStayInThePast) =>
            {
                if job.is_paused() {
                    return Err(Refusal::Paused {
                        job: job.name.to_string(),
                    }
                    .into());
                }
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

#[cfg(test)]
mod tests {
    use protocol::RunId;

    use super::*;
    use crate::testing::{Bed, MINUTE, attach};

    fn manual(job_id: JobId, minute: Option<i64>) -> ManualRun {
        ManualRun {
            job_id,
            version: 1,
            instant: minute.map(|minute| WallMs(minute * MINUTE)),
            nominal: Vec::new(),
            start_deadline: None,
            params: BTreeMap::new(),
            by: "ada".to_owned(),
            reason: "the file came late".to_owned(),
        }
    }

    #[test]
    fn an_instant_of_the_past_that_has_no_run_may_be_named() {
        let mut bed = Bed::new();
        let job = bed.job("overlap: queue");
        bed.fire(job, 5);
        for (minute, refusal) in [
            (
                6,
                Some(Refusal::InFuture {
                    fire_time: WallMs(6 * MINUTE),
                    fired_through: WallMs(5 * MINUTE),
                }),
            ),
            (
                5,
                Some(Refusal::AlreadyHasRun {
                    fire_time: WallMs(5 * MINUTE),
                    run: RunId(1),
                }),
            ),
            (3, None),
            (
                3,
                Some(Refusal::AlreadyHasRun {
                    fire_time: WallMs(3 * MINUTE),
                    run: RunId(2),
                }),
            ),
        ] {
            let result = bed.outcome(manual(job, Some(minute))).result;
            assert_eq!(result.err(), refusal);
        }
        assert_eq!(
            bed.view(
                "SELECT namespace, fire_time, trigger, state FROM run_view WHERE run = 'run-2'"
            ),
            ["scheduled|1970-01-01T00:03:00.000Z|manual|waiting"]
        );
        assert_eq!(
            bed.view("SELECT asked_by, reason FROM execution_view WHERE run = 'run-2'"),
            ["ada|the file came late"]
        );
        assert_eq!(
            bed.view("SELECT by, action, run, reason FROM audit_view WHERE action = 'run'"),
            ["ada|run|run-2|the file came late"]
        );
        let nobody = JobId(9);
        assert!(matches!(
            bed.refused(manual(nobody, None)),
            Refusal::NoSuchJob { .. }
        ));
    }

    #[test]
    fn without_the_rule_tonights_instant_can_be_taken() {
        let mut bed = Bed::without(Rule::ManualRunsStayInThePast);
        let job = bed.job("");
        let agent = bed.attach(attach("h1"));
        bed.ok(manual(job, Some(6)));
        bed.carry_out(RunId(1), agent);
        let tonight = crate::testing::fire(job, 1, WallMs(0), 6 * MINUTE, [6]);
        assert!(matches!(
            bed.refused(tonight),
            Refusal::AlreadyHasRun { .. }
        ));
    }

    #[test]
    fn runs_of_no_instant_never_meet_each_other_or_a_fire() {
        let mut bed = Bed::new();
        let job = bed.job("overlap: queue");
        bed.at = WallMs(5 * MINUTE);
        bed.fire(job, 5);
        for _ in 0..2 {
            bed.ok(manual(job, None));
        }
        bed.at = WallMs(4 * MINUTE);
        bed.ok(manual(job, None));
        assert_eq!(
            bed.view("SELECT namespace, fire_time FROM runs WHERE namespace = 1"),
            ["1|300000", "1|300001", "1|300002"]
        );
    }

    #[test]
    fn its_parameters_stay_with_the_run() {
        let mut bed = Bed::new();
        let job = bed.job("");
        let given = |value: &str| BTreeMap::from([("region".to_owned(), value.to_owned())]);
        let run = |params| ManualRun {
            params,
            ..manual(job, None)
        };
        assert!(matches!(
            bed.refused(run(given(&"x".repeat(1001)))),
            Refusal::Malformed { .. }
        ));
        bed.ok(run(given("east")));
        assert_eq!(bed.run(RunId(1)).params, given("east"));
        assert_eq!(
            bed.view("SELECT params ->> 'region' FROM run_view"),
            ["east"]
        );
        let later = ManualRun {
            version: 2,
            ..manual(job, None)
        };
        assert_eq!(
            bed.refused(later),
            Refusal::VersionMoved {
                expected: 2,
                version: 1
            }
        );
    }

    #[test]
    fn a_paused_job_is_run_for_people_but_not_for_what_the_pause_has_not_settled() {
        let mut bed = Bed::new();
        let job = bed.job("overlap: queue");
        bed.fire(job, 5);
        bed.ok(crate::command::PauseJob {
            job_id: job,
            by: "ada".to_owned(),
            reason: String::new(),
        });
        bed.ok(manual(job, None));
        bed.ok(manual(job, Some(3)));
        assert!(matches!(
            bed.refused(manual(job, Some(6))),
            Refusal::Paused { .. }
        ));
    }

    #[test]
    fn overlap_is_judged_for_people_too() {
        let mut bed = Bed::new();
        let job = bed.job("overlap: forbid");
        assert_eq!(
            bed.ok(manual(job, None)),
            Done::RunStarted {
                run_id: RunId(1),
                state: RunState::Ready
            }
        );
        assert_eq!(
            bed.refused(manual(job, None)),
            Refusal::Overlap {
                live: RunId(1),
                policy: "forbid".to_owned()
            }
        );
        // A fire that meets the manual run is skipped, not run beside it.
        assert_eq!(bed.fire(job, 1).1, RunState::Skipped);
    }
}
