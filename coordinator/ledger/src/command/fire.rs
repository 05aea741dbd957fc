use protocol::attempt::Trigger;
use protocol::{DurationMs, JobId, Rule, WallMs};
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop};
use crate::command::AlertKind;
use crate::decisions::{Stretch, compare};
use crate::outcome::{Done, Refusal};
use crate::tables::record::On;

/// Settles every instant of `version` in (`from`, `through`]: a compare-and-swap on (version,
/// watermark) that writes runs and gaps and moves the watermark in one command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fire {
    pub job_id: JobId,
    pub version: u32,
    /// The watermark that the proposer saw.
    pub from: WallMs,
    /// The new watermark.
    pub through: WallMs,
    /// In the order of their times, which strictly increase and lie in (`from`, `through`].
    pub decisions: Vec<Decision>,
}

/// What becomes of one instant, or of a stretch of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Decision {
    /// To be run. Whether it may start now is judged by the overlap policy when applied.
    Run {
        fire_time: WallMs,
        nominal: Vec<String>,
        trigger: Trigger,
        start_deadline: Option<DurationMs>,
    },
    /// Recorded as `missed`.
    Missed {
        fire_time: WallMs,
        nominal: Vec<String>,
        reason: String,
    },
    /// `count` instants in (`from`, `through`] that do not deserve a row each.
    Gap {
        from: WallMs,
        through: WallMs,
        count: u64,
        reason: GapReason,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GapReason {
    /// Missed while nothing could fire, beyond what the misfire policy runs.
    GivenUpAfterOutage,
    /// The manifest of the version could not be read. Its count is 0 and means "unknown": the only
    /// reason for which 0 is well-formed.
    UnreadableManifest,
    /// A person had paused the job.
    Paused,
    /// It lies between a backup and its restore: what ran nobody knows, until a person has looked.
    Unknown,
}

impl GapReason {
    pub const fn as_str(self) -> &'static str {
        match self {
            GapReason::GivenUpAfterOutage => "given up after an outage",
            GapReason::UnreadableManifest => "the manifest could not be read",
            GapReason::Paused => "paused",
            GapReason::Unknown => "unknown since the backup",
        }
    }
}

impl Fire {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let mut job = context.job(self.job_id)?;
        compare(context, &job, self.version, self.from)?;
        if job.in_doubt {
            job.judge_doubt(&self.decisions)?;
        } else if job.is_paused() && context.rules.on(Rule::PauseJudgedInApply) {
            return Err(Refusal::Paused {
                job: job.name.to_string(),
            }
            .into());
        }
        let stretch = Stretch {
            job_id: self.job_id,
            version: self.version,
            from: self.from,
            through: self.through,
        };
        let runs = context.write_decisions(stretch, &self.decisions)?;
        context.settle_alert(AlertKind::FireRefused, On::Job(self.job_id))?;
        if context.rules.on(Rule::RunAndWatermarkTogether) {
            job.fired_through = self.through;
            job.in_doubt = false;
            context.update_job(&job)?;
        }
        Ok(Done::Fired { runs })
    }
}

#[cfg(test)]
mod tests {
    use protocol::RunId;

    use super::*;
    use crate::rows::RunState;
    use crate::testing::{Bed, MINUTE, attach, fire, run_at};

    const QUEUE: &str = "overlap: queue";

    fn gap(from: i64, through: i64, count: u64, reason: GapReason) -> Decision {
        Decision::Gap {
            from: WallMs(from * MINUTE),
            through: WallMs(through * MINUTE),
            count,
            reason,
        }
    }

    fn missed(minute: i64) -> Decision {
        Decision::Missed {
            fire_time: WallMs(minute * MINUTE),
            nominal: Vec::new(),
            reason: "late by 2h, and the policy is skip".to_owned(),
        }
    }

    #[test]
    fn a_fire_computed_from_another_state_is_refused() {
        for (version, from, refused) in [(1, 5, false), (2, 5, true), (1, 4, true), (1, 6, true)] {
            let mut bed = Bed::new();
            let job = bed.job("");
            bed.fire(job, 5);
            let late = fire(job, version, WallMs(from * MINUTE), 8 * MINUTE, [7]);
            let outcome = bed.outcome(late);
            let moved = Refusal::WatermarkMoved {
                expected_version: version,
                expected_through: WallMs(from * MINUTE),
                version: 1,
                fired_through: WallMs(5 * MINUTE),
            };
            assert_eq!(outcome.result.is_err(), refused);
            if refused {
                assert_eq!(outcome.result, Err(moved));
            }
        }
    }

    #[test]
    fn without_compare_and_swap_the_watermark_goes_back() {
        let mut bed = Bed::without(Rule::FireComparesAndSwaps);
        let job = bed.job("");
        bed.fire(job, 5);
        bed.ok(fire(job, 1, WallMs(0), 3 * MINUTE, [3]));
        assert_eq!(bed.set.jobs[&job].fired_through, WallMs(3 * MINUTE));
    }

    #[test]
    fn without_the_watermark_in_the_command_an_instant_fires_twice() {
        let mut bed = Bed::without(Rule::RunAndWatermarkTogether);
        let job = bed.job(QUEUE);
        bed.ok(fire(job, 1, WallMs(0), MINUTE, [1]));
        bed.ok(fire(job, 1, WallMs(0), MINUTE, [1]));
        assert_eq!(
            bed.view("SELECT count(*), count(DISTINCT fire_time) FROM runs"),
            ["2|1"]
        );
    }

    #[test]
    fn decisions_out_of_order_out_of_the_stretch_or_absurd_are_refused() {
        let given_up = GapReason::GivenUpAfterOutage;
        let unreadable = GapReason::UnreadableManifest;
        let nothing: Vec<Decision> = Vec::new();
        for (decisions, well_formed) in [
            (nothing, true),
            (vec![run_at(1), run_at(10)], true),
            (vec![run_at(0)], false),
            (vec![run_at(11)], false),
            (vec![run_at(2), run_at(1)], false),
            (vec![run_at(2), run_at(2)], false),
            (vec![run_at(2), missed(2)], false),
            (vec![gap(0, 3, 3, given_up), missed(4), run_at(5)], true),
            (vec![gap(0, 3, 3, given_up), run_at(3)], false),
            (vec![run_at(4), gap(3, 5, 1, given_up)], false),
            (vec![gap(3, 3, 1, given_up)], false),
            (vec![gap(0, 11, 3, given_up)], false),
            (vec![gap(0, 3, 0, given_up)], false),
            (vec![gap(0, 3, u64::MAX, given_up)], false),
            (vec![gap(0, 3, 0, unreadable)], true),
            (vec![gap(i64::MIN / MINUTE, 3, 1, given_up)], false),
            (vec![gap(3, i64::MAX / MINUTE, 1, given_up)], false),
        ] {
            let mut bed = Bed::new();
            let job = bed.job(QUEUE);
            let fire = Fire {
                decisions: decisions.clone(),
                ..fire(job, 1, WallMs(0), 10 * MINUTE, [])
            };
            let result = bed.outcome(fire).result;
            let malformed = matches!(result, Err(Refusal::Malformed { .. }));
            assert_eq!(malformed, !well_formed, "{decisions:?} {result:?}");
            assert_eq!(result.is_ok(), well_formed);
        }
        let mut bed = Bed::new();
        let job = bed.job("");
        assert!(matches!(
            bed.refused(fire(job, 1, WallMs(0), -1, [])),
            Refusal::Malformed { .. }
        ));
        let far_too_many = (1..=20_000).map(run_at).collect();
        let absurd = Fire {
            decisions: far_too_many,
            ..fire(job, 1, WallMs(0), i64::MAX, [])
        };
        assert!(matches!(bed.refused(absurd), Refusal::Malformed { .. }));
        let unknown = fire(JobId(9), 1, WallMs(0), MINUTE, [1]);
        assert!(matches!(bed.refused(unknown), Refusal::NoSuchJob { .. }));
    }

    #[test]
    fn overlap_is_judged_run_by_run() {
        use RunState::{Ready, Skipped, Waiting};
        for (yaml, states) in [
            ("overlap: forbid", [Ready, Skipped, Skipped]),
            ("overlap: queue", [Ready, Waiting, Waiting]),
        ] {
            let mut bed = Bed::new();
            let job = bed.job(yaml);
            let done = bed.ok(fire(job, 1, WallMs(0), 3 * MINUTE, [1, 2, 3]));
            let runs = states.into_iter().zip(1..).map(|(s, id)| (RunId(id), s));
            assert_eq!(
                done,
                Done::Fired {
                    runs: runs.collect()
                }
            );
            let skipped = states.iter().filter(|s| **s == Skipped).count();
            let alerts = bed.view("SELECT kind, count, run, name, text FROM alert_view");
            assert_eq!(alerts.len(), usize::from(skipped > 0));
            if let Some(alert) = alerts.first() {
                assert_eq!(
                    alert,
                    "overlap_skipped|2|run-3|team/job|team/job@1970-01-01T00:03:00Z (run-3) was \
                     skipped: run-1 was still live, and the overlap policy is forbid. See \
                     `matins describe run-1`; to run what was skipped: `matins rerun run-3 --reason WHY`"
                );
                assert_eq!(
                    bed.view("SELECT reason FROM runs WHERE run_id = 2"),
                    ["overlap: run-1 is live, and the policy is forbid"]
                );
            } else {
                assert_eq!(
                    bed.reason(RunId(3)),
                    "overlap: in line behind run-2, which is waiting"
                );
            }
        }
    }

    #[test]
    fn without_the_judgement_every_run_starts() {
        let mut bed = Bed::without(Rule::OverlapJudgedInApply);
        let job = bed.job("overlap: forbid");
        bed.ok(fire(job, 1, WallMs(0), 2 * MINUTE, [1, 2]));
        assert_eq!(bed.run(RunId(2)).state, RunState::Ready);
    }

    #[test]
    fn a_ready_run_has_a_fence_and_its_shards_and_the_others_have_neither() {
        let mut bed = Bed::new();
        let job = bed.job("shards: 3\noverlap: queue");
        bed.at = WallMs(61_000);
        bed.ok(fire(job, 1, WallMs(0), 2 * MINUTE, [1, 2]));
        assert!(bed.run(RunId(1)).fence.is_some());
        assert_eq!(bed.set.shards_of(RunId(1)).count(), 3);
        let pending = crate::ShardState::Pending {
            since: WallMs(61_000),
            delay: DurationMs(0),
        };
        assert!(
            bed.set
                .shards_of(RunId(1))
                .all(|shard| shard.state == pending)
        );
        assert_eq!(bed.run(RunId(2)).fence, None);
        assert_eq!(bed.set.shards_of(RunId(2)).count(), 0);
        assert_eq!(bed.run(RunId(2)).admitted_at, WallMs(61_000));
        assert_eq!(bed.run(RunId(2)).start_deadline, Some(DurationMs(MINUTE)));
    }

    #[test]
    fn an_outage_is_one_gap_one_alert_and_the_newest_runs() {
        let mut bed = Bed::new();
        let job = bed.job(QUEUE);
        let fire = Fire {
            decisions: vec![
                gap(0, 3, 3, GapReason::GivenUpAfterOutage),
                missed(4),
                gap(4, 7, 3, GapReason::GivenUpAfterOutage),
                run_at(8),
            ],
            ..fire(job, 1, WallMs(0), 8 * MINUTE, [])
        };
        let states = match bed.ok(fire) {
            Done::Fired { runs } => runs.into_iter().map(|(_, state)| state).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!(states, [RunState::Missed, RunState::Ready]);
        assert_eq!(
            bed.view("SELECT after, through, count, reason FROM gap_view"),
            [
                "1970-01-01T00:00:00.000Z|1970-01-01T00:03:00.000Z|3|given up after an outage",
                "1970-01-01T00:04:00.000Z|1970-01-01T00:07:00.000Z|3|given up after an outage",
            ]
        );
        assert_eq!(
            bed.view("SELECT kind, text FROM alert_view"),
            [
                "given_up|team/job: 6 instants after 1970-01-01T00:00:00Z through \
                 1970-01-01T00:07:00Z were given up. To run one of them: \
                 `matins run team/job --at TIME --reason WHY`"
            ]
        );
        assert_eq!(
            bed.view("SELECT state, reason, ended_at FROM run_view WHERE run = 'run-1'"),
            ["missed|late by 2h, and the policy is skip|1970-01-01T00:00:00.000Z"]
        );
    }

    #[test]
    fn a_gap_whose_count_nobody_knows_says_so() {
        let mut bed = Bed::new();
        let job = bed.job(QUEUE);
        bed.ok(Fire {
            decisions: vec![gap(0, 3, 0, GapReason::UnreadableManifest)],
            ..fire(job, 1, WallMs(0), 3 * MINUTE, [])
        });
        assert_eq!(
            bed.view("SELECT count, reason FROM gap_view"),
            ["0|the manifest could not be read"]
        );
        assert_eq!(
            bed.view("SELECT text FROM alert_view"),
            [
                "team/job: an unknown number of instants after 1970-01-01T00:00:00Z through \
                 1970-01-01T00:03:00Z were given up. To run one of them: \
                 `matins run team/job --at TIME --reason WHY`"
            ]
        );
    }

    #[test]
    fn an_instant_that_has_a_run_gets_no_second() {
        let mut bed = Bed::without(Rule::FireComparesAndSwaps);
        let job = bed.job(QUEUE);
        bed.fire(job, 2);
        assert_eq!(
            bed.refused(fire(job, 1, WallMs(0), 3 * MINUTE, [1, 2])),
            Refusal::AlreadyHasRun {
                fire_time: WallMs(2 * MINUTE),
                run: RunId(1)
            }
        );
        // Nothing of the refused command is left, its ids neither.
        bed.attach(attach("h1"));
        assert_eq!(bed.fire(job, 4).0, RunId(2));
    }
}
