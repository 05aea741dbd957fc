use protocol::attempt::{AttemptOutcome, Trigger};
use protocol::{Rule, RunId};
use serde::{Deserialize, Serialize};

use crate::again::Asked;
use crate::apply::{Context, Stop, clip};
use crate::outcome::{Done, Refusal};
use crate::rows::RunState;
use crate::settle::pending_at;
use crate::tables::run::Run;
use crate::tables::shard::Shard;

/// Carries a run out anew in a new execution: all its shards, those that succeeded too.
///
/// What was done is done a second time, so the job must have declared that harmless, or somebody
/// answers for it. And since nobody can tell the old work from the new while both go on, it is
/// refused until every lease of the run has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redo {
    pub run_id: RunId,
    pub by: String,
    pub reason: String,
    /// Although the run's manifest does not declare a second run harmless.
    pub force: bool,
}

impl Redo {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let run = context.run(self.run_id)?;
        let job = context.job(run.row.job_id)?;
        check(context, &run)?;
        let policy = context.policy(run.row.job_id, run.row.version)?;
        if !policy.safe && !self.force && context.rules.on(Rule::RedoNeedsHarmless) {
            return Err(Refusal::NotHarmless {
                run: self.run_id,
                job: job.name.to_string(),
            }
            .into());
        }
        let asked = Asked {
            trigger: Trigger::Redo,
            action: if self.force { "redo by force" } else { "redo" },
            by: clip(&self.by),
            reason: clip(&self.reason),
        };
        context.carry_out_again(run, asked, |context, run| {
            // Whatever a job's own database has noted of its attempts until now counts no more.
            run.row.redo = Some(context.meta.mint_position());
            reopen(context, run)
        })
    }
}

fn check(context: &Context<'_>, run: &Run) -> Result<(), Stop> {
    let may = match run.row.state {
        RunState::Waiting => false,
        // A lease that is being cancelled has not ended yet.
        RunState::Ready | RunState::Running => !context.rules.on(Rule::LeaseEndsByReceiptOrExpiry),
        _ => true,
    };
    if may {
        return Ok(());
    }
    Err(run.wrong_state("final or in needs_confirmation: cancel it and wait for its end"))
}

fn reopen(context: &mut Context<'_>, run: &mut Run) -> Result<(), Stop> {
    let shards = context.shards(run.row.run_id)?;
    if shards.is_empty() {
        for shard in 0..run.row.shards {
            let shard = Shard::new(run.row.run_id, shard, pending_at(context.at));
            context.insert_shard(run, &shard)?;
        }
    }
    for mut shard in shards {
        if let Some(lease) = shard.lease() {
            context.end_attempt_unheard(lease.token, AttemptOutcome::Cancelled, "redo")?;
        }
        shard.restore_retries();
        shard.row.attempts = 0;
        context.move_shard(run, &mut shard, pending_at(context.at), None)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{CancelRun, Rerun, RerunScope};
    use crate::testing::{Bed, attach, end, finish};

    const UNSAFE: &str = "shards: 2\nrepeatable: { safe: false }";

    fn redo(run_id: RunId) -> Redo {
        Redo {
            run_id,
            by: "ada".to_owned(),
            reason: "the rates were wrong".to_owned(),
            force: false,
        }
    }

    fn rerun(run_id: RunId) -> Rerun {
        Rerun {
            run_id,
            scope: RerunScope::Run,
            by: "ada".to_owned(),
            reason: String::new(),
        }
    }

    #[test]
    fn what_succeeded_is_done_again_under_a_new_fence_and_on_record() {
        let mut bed = Bed::new();
        let job = bed.job("shards: 2");
        let agent = bed.attach(attach("h1"));
        let (run_id, _) = bed.fire(job, 1);
        let fence = bed.run(run_id).fence;
        bed.carry_out(run_id, agent);
        let done = bed.ok(redo(run_id));
        assert!(matches!(
            done,
            Done::Rerun {
                execution: 2,
                state: RunState::Ready,
                ..
            }
        ));
        let run = bed.run(run_id).clone();
        assert_eq!((run.trigger, run.execution), (Trigger::Redo, 2));
        assert!(run.redo > fence && run.fence > run.redo);
        let token = bed.grant(run_id, 0, agent.1);
        assert!(Some(token.0) > run.redo);
        assert_eq!(bed.shard(run_id, 0).attempts, 1);
        assert_eq!(bed.shard(run_id, 1).state.as_str(), "pending");
        assert_eq!(
            bed.view("SELECT trigger, asked_by, reason FROM execution_view WHERE execution = 2"),
            ["redo|ada|the rates were wrong"]
        );
        assert_eq!(
            bed.view("SELECT by, run, reason FROM audit_view WHERE action = 'redo'"),
            ["ada|run-1|the rates were wrong"]
        );
    }

    #[test]
    fn a_rerun_after_a_redo_goes_on_with_it() {
        let mut bed = Bed::new();
        let job = bed.job("shards: 2\nretry: { at_most: 0, backoff: [1s] }");
        let agent = bed.attach(attach("h1"));
        let (run_id, _) = bed.fire(job, 1);
        bed.carry_out(run_id, agent);
        bed.ok(redo(run_id));
        let since = bed.run(run_id).redo;
        for (shard, outcome) in [(0, AttemptOutcome::Succeeded), (1, AttemptOutcome::Failed)] {
            let token = bed.grant(run_id, shard, agent.1);
            bed.ok(finish(agent.0, token, end(outcome)));
        }
        bed.ok(rerun(run_id));
        assert_eq!(bed.shard(run_id, 0).state.as_str(), "succeeded");
        assert_eq!(bed.run(run_id).redo, since);
    }

    #[test]
    fn while_a_lease_lives_it_is_refused() {
        let mut bed = Bed::new();
        let job = bed.job("");
        let agent = bed.attach(attach("h1"));
        let (run_id, _) = bed.fire(job, 1);
        let token = bed.grant(run_id, 0, agent.1);
        assert!(matches!(
            bed.refused(redo(run_id)),
            Refusal::WrongRunState { .. }
        ));
        bed.ok(CancelRun {
            run_id,
            by: "ada".to_owned(),
            reason: String::new(),
        });
        assert!(matches!(
            bed.refused(redo(run_id)),
            Refusal::WrongRunState { .. }
        ));
        bed.ok(finish(agent.0, token, end(AttemptOutcome::Cancelled)));
        bed.ok(redo(run_id));
        bed.carry_out(run_id, agent);
        assert_eq!(bed.state(run_id), "succeeded");
    }

    #[test]
    fn without_that_rule_two_processes_may_run() {
        let mut bed = Bed::without(Rule::LeaseEndsByReceiptOrExpiry);
        let job = bed.job("");
        let (_, session) = bed.attach(attach("h1"));
        let (run_id, _) = bed.fire(job, 1);
        let old = bed.grant(run_id, 0, session);
        bed.ok(redo(run_id));
        assert!(bed.grant(run_id, 0, session) > old);
    }

    #[test]
    fn a_second_run_that_nobody_called_harmless_needs_somebody_who_answers_for_it() {
        let mut bed = Bed::new();
        let job = bed.job(UNSAFE);
        let agent = bed.attach(attach("h1"));
        let (run_id, _) = bed.fire(job, 1);
        bed.carry_out(run_id, agent);
        assert_eq!(
            bed.refused(redo(run_id)),
            Refusal::NotHarmless {
                run: run_id,
                job: "team/job".to_owned()
            }
        );
        bed.ok(Redo {
            force: true,
            ..redo(run_id)
        });
        assert_eq!(
            bed.view("SELECT action FROM audit_view WHERE run IS NOT NULL"),
            ["redo by force"]
        );

        let mut bed = Bed::without(Rule::RedoNeedsHarmless);
        let job = bed.job(UNSAFE);
        let agent = bed.attach(attach("h1"));
        let (run_id, _) = bed.fire(job, 1);
        bed.carry_out(run_id, agent);
        bed.ok(redo(run_id));
    }

    #[test]
    fn beside_another_live_run_it_waits_and_one_that_never_ran_is_run() {
        let mut bed = Bed::new();
        let job = bed.job("overlap: forbid");
        let agent = bed.attach(attach("h1"));
        let (live, _) = bed.fire(job, 1);
        let (skipped, _) = bed.fire(job, 2);
        bed.ok(redo(skipped));
        assert_eq!(bed.run(skipped).state, RunState::Waiting);
        assert!(matches!(
            bed.refused(redo(skipped)),
            Refusal::WrongRunState { .. }
        ));
        bed.carry_out(live, agent);
        assert!(matches!(
            bed.refused(redo(RunId(9))),
            Refusal::NoSuchRun { .. }
        ));
    }
}
