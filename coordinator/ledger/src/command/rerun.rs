use jobs::Overlap;
use protocol::attempt::{AttemptOutcome, Trigger};
use protocol::{Rule, RunId};
use serde::{Deserialize, Serialize};

use crate::again::Asked;
use crate::apply::{Context, Stop, clip};
use crate::codes::Coded;
use crate::outcome::{Done, Refusal};
use crate::rows::{Lease, RunState, ShardState};
use crate::settle::pending_at;
use crate::tables::run::Run;
use crate::tables::shard::Shard;

/// Carries a run out again in a new execution. Shards that succeeded are not repeated.
///
/// A run that is being cancelled may be rerun at once: each of its leases still ends by receipt or
/// expiry, and its shard is pending again only then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rerun {
    pub run_id: RunId,
    pub scope: RerunScope,
    pub by: String,
    pub reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RerunScope {
    /// Every shard that did not succeed.
    Run,
    /// One shard that did not succeed; the others stay as they are.
    Shard(u32),
    /// The shards that failed: those that need a person, and those that a person gave up. None
    /// that was cancelled.
    Failed,
}

impl Rerun {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let run = context.run(self.run_id)?;
        context.job(run.row.job_id)?;
        let shards = context.shards(self.run_id)?;
        self.check(context, &run, &shards)?;
        let asked = Asked {
            trigger: Trigger::Rerun,
            action: "rerun",
            by: clip(&self.by),
            reason: clip(&self.reason),
        };
        context.carry_out_again(run, asked, |context, run| self.reopen(context, run, shards))
    }

    fn check(&self, context: &Context<'_>, run: &Run, shards: &[Shard]) -> Result<(), Stop> {
        let mut leases = shards.iter().filter_map(Shard::lease).peekable();
        let cancelling = leases.peek().is_some() && leases.all(|lease| lease.cancelling);
        let may = match run.row.state {
            RunState::Waiting => false,
            RunState::Ready | RunState::Running => {
                cancelling || !context.rules.on(Rule::LeaseEndsByReceiptOrExpiry)
            }
            _ => true,
        };
        if !may {
            return Err(run.wrong_state("final, in needs_confirmation, or being cancelled"));
        }
        if cancelling && let Some(newer) = context.replacing(run)? {
            return Err(Refusal::Overlap {
                live: newer,
                policy: Overlap::Replace.word().to_owned(),
            }
            .into());
        }
        if let RerunScope::Shard(shard) = self.scope {
            if shard >= run.row.shards {
                return Err(Refusal::NoSuchShard {
                    run: self.run_id,
                    shard,
                }
                .into());
            }
            let chosen = shards.iter().find(|known| known.row.shard == shard);
            return match chosen {
                Some(chosen) if chosen.row.state == ShardState::Succeeded => {
                    Err(chosen.wrong_state("not succeeded"))
                }
                _ => Ok(()),
            };
        }
        let failed = |shard: &Shard| shard.row.state == ShardState::NeedsConfirmation;
        if self.scope == RerunScope::Failed && !shards.iter().any(failed) {
            return Err(run.wrong_state("one with a shard that failed"));
        }
        let done = |shard: &Shard| shard.row.state == ShardState::Succeeded;
        if !shards.is_empty() && shards.iter().all(done) {
            return Err(run.wrong_state("one with a shard that did not succeed"));
        }
        Ok(())
    }

    /// Makes the chosen shards pending, or pending once their lease has ended. All shards come back
    /// into the working set with their run.
    fn reopen(
        &self,
        context: &mut Context<'_>,
        run: &mut Run,
        shards: Vec<Shard>,
    ) -> Result<(), Stop> {
        let chosen = |shard: u32, state: ShardState| match self.scope {
            RerunScope::Run => state != ShardState::Succeeded,
            RerunScope::Shard(only) => only == shard,
            RerunScope::Failed => state == ShardState::NeedsConfirmation,
        };
        if shards.is_empty() {
            for shard in 0..run.row.shards {
                let pending = pending_at(context.at);
                let state = if chosen(shard, pending) {
                    pending
                } else {
                    ShardState::Cancelled
                };
                context.insert_shard(run, &Shard::new(self.run_id, shard, state))?;
            }
            return Ok(());
        }
        for mut shard in shards {
            context.changes.shard(&shard.row);
            if !chosen(shard.row.shard, shard.row.state) {
                continue;
            }
            shard.restore_retries();
            shard.row.attempts = 0;
            reopen_shard(context, run, &mut shard)?;
        }
        Ok(())
    }
}

fn reopen_shard(context: &mut Context<'_>, run: &mut Run, shard: &mut Shard) -> Result<(), Stop> {
    if let Some(Lease { token, .. }) = shard.lease() {
        if context.rules.on(Rule::LeaseEndsByReceiptOrExpiry) {
            shard.again = true;
            let (state, reason) = (shard.row.state, shard.row.reason.clone());
            context.move_shard(run, shard, state, reason)?;
            return Ok(());
        }
        context.end_attempt_unheard(token, AttemptOutcome::Cancelled, "rerun")?;
    }
    context.move_shard(run, shard, pending_at(context.at), None)
}

#[cfg(test)]
mod tests {
    use protocol::{AgentId, SessionId, WallMs};

    use super::*;
    use crate::command::{Admit, CancelRun, Confirm, DeleteJob, Settlement, SkipWaiting, Verdict};
    use crate::testing::{Bed, MINUTE, attach, end, finish};

    fn rerun(run_id: RunId, scope: RerunScope) -> Rerun {
        Rerun {
            run_id,
            scope,
            by: "ada".to_owned(),
            reason: "the disk was full".to_owned(),
        }
    }

    fn whole(run_id: RunId) -> Rerun {
        rerun(run_id, RerunScope::Run)
    }

    fn cancel(run_id: RunId) -> CancelRun {
        CancelRun {
            run_id,
            by: "ada".to_owned(),
            reason: String::new(),
        }
    }

    /// A run of three shards, of which the first succeeded and the others ask for a person.
    fn half_done(bed: &mut Bed) -> (RunId, (AgentId, SessionId)) {
        let job = bed.job("shards: 3\nretry: { at_most: 0, backoff: [1s] }");
        let agent = bed.attach(attach("h1"));
        let (run_id, _) = bed.fire(job, 1);
        let outcomes = [
            AttemptOutcome::Succeeded,
            AttemptOutcome::Failed,
            AttemptOutcome::Failed,
        ];
        for (shard, outcome) in (0..).zip(outcomes) {
            let token = bed.grant(run_id, shard, agent.1);
            bed.ok(finish(agent.0, token, end(outcome)));
        }
        assert_eq!(bed.run(run_id).state, RunState::NeedsConfirmation);
        (run_id, agent)
    }

    fn states(bed: &Bed, run_id: RunId) -> Vec<&'static str> {
        bed.set
            .shards_of(run_id)
            .map(|s| s.state.as_str())
            .collect()
    }

    #[test]
    fn a_rerun_repeats_what_did_not_succeed_under_a_new_fence() {
        let mut bed = Bed::new();
        let (run_id, agent) = half_done(&mut bed);
        let fence = bed.run(run_id).fence;
        bed.at = WallMs(9 * MINUTE);
        let done = bed.ok(whole(run_id));
        assert!(matches!(
            done,
            Done::Rerun {
                execution: 2,
                state: RunState::Ready,
                ..
            }
        ));
        let run = bed.run(run_id).clone();
        assert!(run.fence > fence);
        assert_eq!((run.trigger, run.execution), (Trigger::Rerun, 2));
        assert_eq!((run.admitted_at, run.start_deadline), (bed.at, None));
        assert_eq!(states(&bed, run_id), ["succeeded", "pending", "pending"]);
        let shard = bed.shard(run_id, 1);
        assert_eq!((shard.attempts, shard.retries_used), (0, 0));

        bed.grant(run_id, 1, agent.1);
        assert_eq!(
            bed.view("SELECT execution, attempt FROM attempt_view WHERE shard = 1"),
            ["1|1", "2|1"]
        );
        assert_eq!(
            bed.view("SELECT execution, trigger, asked_by, reason FROM execution_view"),
            ["1|scheduled|-|-", "2|rerun|ada|the disk was full"]
        );
        assert_eq!(
            bed.view("SELECT action, run, reason FROM audit_view WHERE action = 'rerun'"),
            ["rerun|run-1|the disk was full"]
        );
    }

    #[test]
    fn a_rerun_has_all_its_retries_again() {
        let mut bed = Bed::new();
        let job = bed.job("retry: { at_most: 1, backoff: [1s] }");
        let agent = bed.attach(attach("h1"));
        let (run_id, _) = bed.fire(job, 1);
        let fail = |bed: &mut Bed| {
            let token = bed.grant(run_id, 0, agent.1);
            bed.ok(finish(agent.0, token, end(AttemptOutcome::Failed)));
            bed.state(run_id)
        };
        assert_eq!(fail(&mut bed), "running");
        assert_eq!(fail(&mut bed), "needs_confirmation");
        bed.ok(whole(run_id));
        assert_eq!(fail(&mut bed), "running");
        assert_eq!(fail(&mut bed), "needs_confirmation");
    }

    #[test]
    fn without_a_fence_per_execution_the_old_one_stays() {
        let mut bed = Bed::without(Rule::FencePerExecution);
        let (run_id, _) = half_done(&mut bed);
        let fence = bed.run(run_id).fence;
        bed.ok(whole(run_id));
        assert_eq!(bed.run(run_id).fence, fence);
    }

    #[test]
    fn one_shard_alone_leaves_the_others_as_they_are() {
        let mut bed = Bed::new();
        let (run_id, agent) = half_done(&mut bed);
        for (shard, refused) in [(0, true), (3, true), (2, false)] {
            let result = bed.outcome(rerun(run_id, RerunScope::Shard(shard))).result;
            assert_eq!(result.is_err(), refused, "{result:?}");
        }
        assert_eq!(
            states(&bed, run_id),
            ["succeeded", "needs_confirmation", "pending"]
        );
        let token = bed.grant(run_id, 2, agent.1);
        bed.ok(finish(agent.0, token, end(AttemptOutcome::Succeeded)));
        assert_eq!(bed.state(run_id), "needs_confirmation");
    }

    #[test]
    fn the_failed_shards_alone_are_repeated_and_none_that_was_cancelled() {
        for give_up in [false, true] {
            let mut bed = Bed::new();
            let (run_id, agent) = half_done(&mut bed);
            if give_up {
                bed.ok(Confirm {
                    run_id,
                    shard: None,
                    verdict: Verdict::Failed,
                    by: "ada".to_owned(),
                    reason: String::new(),
                });
            }
            bed.ok(rerun(run_id, RerunScope::Failed));
            assert_eq!(states(&bed, run_id), ["succeeded", "pending", "pending"]);
            let token = bed.grant(run_id, 1, agent.1);
            bed.ok(finish(agent.0, token, end(AttemptOutcome::Cancelled)));
            let token = bed.grant(run_id, 2, agent.1);
            bed.ok(finish(agent.0, token, end(AttemptOutcome::Failed)));
            assert_eq!(bed.state(run_id), "needs_confirmation");
            bed.ok(rerun(run_id, RerunScope::Failed));
            assert_eq!(states(&bed, run_id), ["succeeded", "cancelled", "pending"]);
            bed.ok(cancel(run_id));
            assert!(matches!(
                bed.refused(rerun(run_id, RerunScope::Failed)),
                Refusal::WrongRunState { .. }
            ));
        }
    }

    #[test]
    fn a_final_run_comes_back_into_the_working_set() {
        let mut bed = Bed::new();
        let (run_id, _) = half_done(&mut bed);
        bed.ok(cancel(run_id));
        assert!(bed.set.runs.is_empty() && bed.set.shards.is_empty());
        bed.ok(whole(run_id));
        assert_eq!(states(&bed, run_id), ["succeeded", "pending", "pending"]);
        assert_eq!(bed.view("SELECT ended_at FROM run_view"), ["-"]);
    }

    #[test]
    fn a_run_that_never_had_shards_gets_them() {
        for (scope, expected) in [
            (RerunScope::Run, ["pending", "pending"]),
            (RerunScope::Shard(1), ["cancelled", "pending"]),
        ] {
            let mut bed = Bed::new();
            let job = bed.job("shards: 2");
            let agent = bed.attach(attach("h1"));
            let (live, _) = bed.fire(job, 1);
            let (skipped, _) = bed.fire(job, 2);
            bed.carry_out(live, agent);
            bed.ok(rerun(skipped, scope));
            assert_eq!(states(&bed, skipped), expected);
        }
    }

    #[test]
    fn beside_another_live_run_it_waits_under_every_policy() {
        let mut bed = Bed::new();
        let job = bed.job("overlap: forbid");
        let agent = bed.attach(attach("h1"));
        let (first, _) = bed.fire(job, 1);
        let (skipped, _) = bed.fire(job, 2);
        bed.ok(whole(skipped));
        let run = bed.run(skipped);
        assert_eq!((run.state, run.fence), (RunState::Waiting, None));
        assert_eq!(
            bed.reason(skipped),
            "overlap: in line behind run-1, which is ready"
        );
        bed.carry_out(first, agent);
        bed.ok(Admit { run_id: skipped });
        bed.carry_out(skipped, agent);
        assert_eq!(bed.state(skipped), "succeeded");
    }

    #[test]
    fn a_waiting_rerun_that_is_skipped_or_cancelled_can_be_rerun() {
        let mut bed = Bed::new();
        let job = bed.job("overlap: forbid");
        bed.fire(job, 1);
        let (run_id, _) = bed.fire(job, 2);
        bed.ok(whole(run_id));
        bed.ok(SkipWaiting { run_id });
        assert_eq!(bed.state(run_id), "skipped");
        bed.ok(whole(run_id));
        assert_eq!(states(&bed, run_id), ["pending"]);
        bed.ok(cancel(run_id));
        assert_eq!(bed.state(run_id), "cancelled");
        bed.ok(whole(run_id));
        assert_eq!(bed.run(run_id).execution, 4);
        assert!(matches!(
            bed.refused(whole(run_id)),
            Refusal::WrongRunState { .. }
        ));
    }

    #[test]
    fn while_a_lease_is_being_cancelled_the_rerun_waits_for_its_end() {
        for outcome in [AttemptOutcome::Cancelled, AttemptOutcome::Lost] {
            let mut bed = Bed::new();
            let job = bed.job("");
            let agent = bed.attach(attach("h1"));
            let (run_id, _) = bed.fire(job, 1);
            assert!(matches!(
                bed.refused(whole(run_id)),
                Refusal::WrongRunState { .. }
            ));
            let token = bed.grant(run_id, 0, agent.1);
            assert!(matches!(
                bed.refused(whole(run_id)),
                Refusal::WrongRunState { .. }
            ));
            bed.ok(cancel(run_id));
            bed.ok(whole(run_id));
            let run = bed.run(run_id);
            assert_eq!((run.state, run.execution), (RunState::Running, 2));
            assert_eq!(states(&bed, run_id), ["leased"]);
            bed.ok(finish(agent.0, token, end(outcome)));
            assert_eq!(states(&bed, run_id), ["pending"]);
            bed.carry_out(run_id, agent);
            assert_eq!(bed.state(run_id), "succeeded");
        }
    }

    #[test]
    fn the_rerun_goes_on_once_and_not_after_every_cancelled_attempt() {
        let mut bed = Bed::new();
        let job = bed.job("");
        let agent = bed.attach(attach("h1"));
        let (run_id, _) = bed.fire(job, 1);
        let first = bed.grant(run_id, 0, agent.1);
        bed.ok(cancel(run_id));
        bed.ok(whole(run_id));
        bed.ok(finish(agent.0, first, end(AttemptOutcome::Cancelled)));
        let second = bed.grant(run_id, 0, agent.1);
        bed.ok(finish(agent.0, second, end(AttemptOutcome::Cancelled)));
        assert_eq!(bed.state(run_id), "cancelled");
    }

    #[test]
    fn a_cancel_after_the_rerun_takes_it_back() {
        let mut bed = Bed::new();
        let job = bed.job("");
        let agent = bed.attach(attach("h1"));
        let (run_id, _) = bed.fire(job, 1);
        let token = bed.grant(run_id, 0, agent.1);
        bed.ok(cancel(run_id));
        bed.ok(whole(run_id));
        bed.ok(cancel(run_id));
        bed.ok(finish(agent.0, token, end(AttemptOutcome::Cancelled)));
        assert_eq!(bed.state(run_id), "cancelled");
    }

    #[test]
    fn without_the_rule_two_processes_may_run() {
        let mut bed = Bed::without(Rule::LeaseEndsByReceiptOrExpiry);
        let job = bed.job("");
        let (_, session) = bed.attach(attach("h1"));
        let (run_id, _) = bed.fire(job, 1);
        let old = bed.grant(run_id, 0, session);
        bed.ok(whole(run_id));
        assert_eq!(states(&bed, run_id), ["pending"]);
        assert!(bed.grant(run_id, 0, session) > old);
    }

    #[test]
    fn nothing_left_to_do_and_no_job_are_refused() {
        let mut bed = Bed::new();
        let job = bed.job("");
        let agent = bed.attach(attach("h1"));
        let (run_id, _) = bed.fire(job, 1);
        bed.carry_out(run_id, agent);
        assert!(matches!(
            bed.refused(whole(run_id)),
            Refusal::WrongRunState { .. }
        ));
        assert!(matches!(
            bed.refused(rerun(run_id, RerunScope::Shard(0))),
            Refusal::WrongShardState { .. }
        ));
        assert!(matches!(
            bed.refused(whole(RunId(9))),
            Refusal::NoSuchRun { .. }
        ));
        let (gone, _) = bed.fire(job, 2);
        bed.ok(DeleteJob {
            job_id: job,
            cut_over: WallMs(2 * MINUTE),
            settle: Settlement {
                version: 1,
                from: WallMs(2 * MINUTE),
                decisions: Vec::new(),
            },
            by: "ada".to_owned(),
        });
        assert_eq!(bed.state(gone), "cancelled");
        assert!(matches!(
            bed.refused(whole(gone)),
            Refusal::NoSuchJob { .. }
        ));
    }
}
