//! Whether a run may start beside the other runs of its job.
//!
//! Judged on runs that are live, by whether something of them may be running, and never by what
//! somebody meant to do with them. A run that waits for a condition stands in nobody's way; one that
//! has met all of them stands in line, in the order in which executions were admitted, so that what
//! a person asks for once more comes after what was there before.

use jobs::{Overlap, Serial};
use protocol::attempt::Trigger;
use protocol::{Rule, RunId};

use crate::admission::{Never, Verdict};
use crate::apply::{Context, Stop};
use crate::rows::{Blocker, RunState};
use crate::tables::job::Policy;
use crate::tables::run::{OpenRun, Run};

impl Context<'_> {
    pub(crate) fn judge_overlap(&self, run: &Run, policy: &Policy) -> Result<Verdict, Stop> {
        if policy.overlap == Overlap::Allow || !self.rules.on(Rule::OverlapJudgedInApply) {
            return Ok(Verdict::Start);
        }
        let mut others = self.open_runs(run.row.job_id)?;
        others.retain(|other| other.run_id != run.row.run_id);
        let live = others.iter().find(|other| counts(other, policy.serial));
        Ok(match (live, policy.overlap) {
            (Some(live), Overlap::Forbid) if is_new(run, &[Trigger::Scheduled]) => {
                Verdict::Skip(Never::Overlap { live: live.run_id })
            }
            (live, Overlap::Forbid) => behind(live),
            (_, Overlap::Replace) if is_new(run, &[Trigger::Scheduled, Trigger::Manual]) => {
                judge_replacing(run, policy, &others)
            }
            (live, _) => behind(last_before(run, &others).or(live)),
        })
    }

    /// The run that waits until nothing of this one is leased, to take its place.
    pub(crate) fn replacing(&self, run: &Run) -> Result<Option<RunId>, Stop> {
        let on = Blocker::Replaced {
            run: run.row.run_id,
        };
        let open = self.open_runs(run.row.job_id)?;
        let waits = open.iter().find(|other| other.waits_on == Some(on));
        Ok(waits.map(|other| other.run_id))
    }
}

/// Whether the run has never left `waiting`, and was written for one of these reasons.
pub(crate) fn is_new(run: &Run, triggers: &[Trigger]) -> bool {
    run.tally.is_empty() && triggers.contains(&run.row.trigger)
}

/// Whether an open run takes up the one place of its job.
pub(crate) const fn counts(other: &OpenRun, serial: Serial) -> bool {
    match other.state {
        RunState::Ready | RunState::Running => true,
        RunState::NeedsConfirmation => matches!(serial, Serial::Strict),
        _ => false,
    }
}

fn behind(other: Option<&OpenRun>) -> Verdict {
    other.map_or(Verdict::Start, |other| {
        Verdict::Wait(Blocker::Overlap { run: other.run_id })
    })
}

/// Who stands in line right before the run.
fn last_before<'a>(run: &Run, others: &'a [OpenRun]) -> Option<&'a OpenRun> {
    others
        .iter()
        .filter(|other| other.waits_on.is_some_and(Blocker::is_line))
        .filter(|other| other.execution_id < run.row.execution_id)
        .max_by_key(|other| other.execution_id)
}

/// The newest run wins: what is live is cancelled, what stands before it in line is given up. A run
/// that waits for a person is that person's to end.
fn judge_replacing(run: &Run, policy: &Policy, others: &[OpenRun]) -> Verdict {
    let asks = |other: &&OpenRun| other.state == RunState::NeedsConfirmation;
    let live = others.iter().filter(|other| counts(other, policy.serial));
    if let Some(asks) = live.clone().find(asks) {
        return behind(Some(asks));
    }
    let waits = |other: &&OpenRun| other.state == RunState::Waiting;
    let older = |other: &&OpenRun| other.execution_id < run.row.execution_id;
    let waiting: Vec<_> = others.iter().filter(waits).filter(older).collect();
    let live: Vec<_> = live.collect();
    if live.is_empty() && waiting.is_empty() {
        return Verdict::Start;
    }
    let ids = |runs: Vec<&OpenRun>| runs.iter().map(|other| other.run_id).collect();
    Verdict::Replace {
        live: ids(live),
        waiting: ids(waiting),
    }
}

#[cfg(test)]
mod tests {
    use protocol::attempt::AttemptOutcome;
    use protocol::{JobId, SessionId, WallMs};

    use super::*;
    use crate::command::{Admit, CancelRun, Confirm, Fire, Rerun, RerunScope, Verdict};
    use crate::outcome::{Done, Refusal};
    use crate::testing::{Bed, MINUTE, attach, end, finish, fire, late_at, manual, run_at};

    fn admit(run: i64) -> Admit {
        Admit { run_id: RunId(run) }
    }

    fn rerun(run: i64) -> Rerun {
        Rerun {
            run_id: RunId(run),
            scope: RerunScope::Run,
            by: "ada".to_owned(),
            reason: "again".to_owned(),
        }
    }

    fn states(bed: &Bed) -> Vec<String> {
        bed.view("SELECT state FROM run_view ORDER BY fire_time")
    }

    /// A job of this policy whose first run is leased.
    fn running(policy: &str) -> (Bed, JobId, (protocol::AgentId, SessionId), protocol::Token) {
        let mut bed = Bed::new();
        let job = bed.job(policy);
        let agent = bed.attach(attach("h1"));
        let (run_id, _) = bed.fire(job, 1);
        let token = bed.grant(run_id, 0, agent.1);
        (bed, job, agent, token)
    }

    #[test]
    fn where_overlap_is_allowed_every_run_starts_and_none_has_a_fence() {
        let (mut bed, job, ..) = running("overlap: allow");
        let (second, state) = bed.fire(job, 2);
        assert_eq!(state, RunState::Ready);
        bed.ok(manual(job));
        let fences: Vec<_> = bed.set.runs.values().map(|run| run.fence).collect();
        assert_eq!(fences, [None; 3]);
        assert_eq!(bed.shard(second, 0).state.as_str(), "pending");
    }

    #[test]
    fn a_queue_is_a_chain_and_what_is_asked_for_again_comes_last() {
        let (mut bed, job, agent, token) = running("overlap: queue");
        for minute in 2..=4 {
            bed.fire(job, minute);
        }
        let on = |bed: &Bed, run| bed.run(RunId(run)).waits.map(|wait| wait.on);
        let line = |run| Some(Blocker::Overlap { run: RunId(run) });
        let stand = |bed: &Bed| [2, 3, 4].map(|run| on(bed, run));
        assert_eq!(stand(&bed), [line(1), line(2), line(3)]);
        assert_eq!(
            bed.reason(RunId(3)),
            "overlap: in line behind run-2, which is waiting"
        );
        // One leaves the line; the one behind it closes up, and only that one has to.
        let by = "ada".to_owned();
        let reason = String::new();
        bed.ok(CancelRun {
            run_id: RunId(3),
            by,
            reason,
        });
        bed.ok(rerun(3));
        bed.ok(admit(4));
        assert_eq!(stand(&bed), [line(1), line(4), line(2)]);
        bed.ok(finish(agent.0, token, end(AttemptOutcome::Succeeded)));
        for run in [4, 2, 3] {
            bed.ok(admit(run));
        }
        assert_eq!(states(&bed), ["succeeded", "ready", "waiting", "waiting"]);
        assert_eq!(
            bed.reason(RunId(4)),
            "overlap: in line behind run-2, which is ready"
        );
    }

    #[test]
    fn what_changes_nothing_is_no_change() {
        let (mut bed, job, ..) = running("overlap: queue");
        bed.fire(job, 2);
        let outcome = bed.outcome(admit(2));
        let state = RunState::Waiting;
        assert_eq!(
            (outcome.result, outcome.changes),
            (Ok(Done::Admitted { state }), vec![])
        );
    }

    #[test]
    fn the_newest_replaces_what_is_live_and_what_waits_once_nothing_is_leased() {
        let (mut bed, job, agent, token) = running("overlap: replace\nshards: 2");
        let (second, state) = bed.fire(job, 2);
        assert_eq!(state, RunState::Waiting);
        let lease = match bed.shard(RunId(1), 0).state {
            crate::ShardState::Leased(lease) => lease,
            other => panic!("{other:?}"),
        };
        assert!(lease.cancelling);
        assert_eq!(bed.shard(RunId(1), 1).state.as_str(), "cancelled");
        assert_eq!(
            bed.reason(second),
            "overlap: replaces run-1, and waits until nothing of it runs"
        );
        // Judged at any time, it waits on, and nobody is told twice.
        assert!(bed.outcome(admit(2)).changes.is_empty());
        let (third, _) = bed.fire(job, 3);
        assert_eq!(states(&bed), ["running", "skipped", "waiting"]);
        assert_eq!(bed.reason(second), format!("replaced by {third}"));
        bed.ok(finish(agent.0, token, end(AttemptOutcome::Cancelled)));
        assert_eq!(bed.reason(RunId(1)), format!("replaced by {second}"));
        bed.ok(admit(3));
        assert_eq!(states(&bed), ["cancelled", "skipped", "ready"]);
    }

    #[test]
    fn what_is_not_leased_is_replaced_at_once_by_a_person_too() {
        let mut bed = Bed::new();
        let job = bed.job("overlap: replace");
        bed.fire(job, 1);
        let state = RunState::Ready;
        let run_id = RunId(2);
        assert_eq!(bed.ok(manual(job)), Done::RunStarted { run_id, state });
        assert_eq!(bed.state(RunId(1)), "cancelled");
        assert_eq!(bed.fire(job, 2).1, RunState::Ready);
        assert_eq!(bed.state(run_id), "cancelled");
    }

    #[test]
    fn a_run_that_is_carried_out_again_replaces_nothing() {
        let (mut bed, job, ..) = running("overlap: replace");
        bed.fire(job, 2);
        // Run 1 is being cancelled: it would take the place that the other waits for.
        assert_eq!(
            bed.refused(rerun(1)),
            Refusal::Overlap {
                live: RunId(2),
                policy: "replace".to_owned()
            }
        );
        bed.fire(job, 3);
        bed.ok(rerun(2));
        assert_eq!(
            bed.reason(RunId(2)),
            "overlap: in line behind run-3, which is waiting"
        );
        assert_eq!(states(&bed), ["running", "waiting", "waiting"]);
    }

    #[test]
    fn of_two_that_waited_for_the_same_one_starts_and_one_is_skipped() {
        let mut bed = Bed::new();
        let import = bed.job_named("team/import", "");
        let job = bed.job("overlap: forbid\nafter: [{ job: team/import, latest_within: 6h }]");
        let agent = bed.attach(attach("h1"));
        let (first, _) = bed.fire(import, 1);
        for minute in [2, 3] {
            assert_eq!(bed.fire(job, minute).1, RunState::Waiting);
        }
        bed.carry_out(first, agent);
        bed.ok(admit(2));
        let state = RunState::Skipped;
        assert_eq!(bed.ok(admit(3)), Done::Admitted { state });
        assert_eq!(
            bed.reason(RunId(3)),
            "overlap: run-2 is live, and the policy is forbid"
        );
        assert_eq!(
            bed.view("SELECT kind, run FROM alert_view"),
            ["overlap_skipped|run-3"]
        );
    }

    #[test]
    fn under_strict_a_run_that_asks_for_a_person_takes_up_the_place() {
        let retries = "retry: { at_most: 0, backoff: [1s] }";
        for (policy, expected) in [
            ("overlap: forbid", "ready"),
            ("overlap: forbid\nserial: strict", "skipped"),
            ("overlap: queue\nserial: strict", "waiting"),
            ("overlap: replace", "ready"),
            ("overlap: replace\nserial: strict", "waiting"),
        ] {
            let (mut bed, job, agent, token) = running(&format!("{policy}\n{retries}"));
            bed.ok(finish(agent.0, token, end(AttemptOutcome::Failed)));
            assert_eq!(bed.state(RunId(1)), "needs_confirmation");
            assert_eq!(bed.fire(job, 2).1.as_str(), expected, "{policy}");
            assert_eq!(bed.state(RunId(1)), "needs_confirmation", "{policy}");
            if expected == "waiting" {
                let (run_id, shard, verdict) = (RunId(1), None, Verdict::Failed);
                let (by, reason) = ("ada".to_owned(), String::new());
                bed.ok(Confirm {
                    run_id,
                    shard,
                    verdict,
                    by,
                    reason,
                });
                bed.ok(admit(2));
                assert_eq!(bed.state(RunId(2)), "ready", "{policy}");
            }
        }
    }

    #[test]
    fn a_late_fire_that_is_caught_up_with_waits_where_another_would_be_skipped() {
        let (mut bed, job, agent, token) = running("overlap: forbid");
        bed.ok(Fire {
            decisions: vec![late_at(2), run_at(3)],
            ..fire(job, 1, WallMs(MINUTE), 3 * MINUTE, [])
        });
        assert_eq!(states(&bed), ["running", "waiting", "skipped"]);
        bed.ok(finish(agent.0, token, end(AttemptOutcome::Succeeded)));
        bed.ok(admit(2));
        assert_eq!(states(&bed), ["succeeded", "ready", "skipped"]);
    }
}
