use protocol::RunId;
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop, clip};
use crate::outcome::Done;
use crate::rows::{RunState, ShardState};
use crate::settle::pending_at;
use crate::tables::record::Audit;
use crate::tables::run::Run;
use crate::tables::shard::Shard;

/// A person's answer for a run (or one shard of it) in `needs_confirmation`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirm {
    pub run_id: RunId,
    /// `None`: every shard of the run that needs confirmation.
    pub shard: Option<u32>,
    pub verdict: Verdict,
    pub by: String,
    pub reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The work is done: count the shard as succeeded.
    Succeeded,
    /// Harmless: run the shard again, with its retries restored.
    Retry,
    /// Give the run up.
    Failed,
}

impl Verdict {
    const fn action(self) -> &'static str {
        match self {
            Verdict::Succeeded => "confirm as succeeded",
            Verdict::Retry => "confirm to retry",
            Verdict::Failed => "confirm as failed",
        }
    }
}

impl Confirm {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let mut run = context.run(self.run_id)?;
        let stands = run.row.state == RunState::NeedsConfirmation;
        if !stands && (self.verdict == Verdict::Failed || !run.row.state.is_live()) {
            return Err(run.wrong_state("in needs_confirmation"));
        }
        let shards = self.chosen(context, &run)?;
        let (by, reason) = (clip(&self.by), clip(&self.reason));
        match self.verdict {
            Verdict::Succeeded => succeed(context, &mut run, shards, by, reason)?,
            Verdict::Retry => retry(context, &mut run, shards, by, reason)?,
            Verdict::Failed => {
                run.row.state = RunState::Failed;
                run.row.reason = Some(format!("given up by {by}: {reason}"));
                context.roll_up(&mut run)?;
            }
        }
        context.settle_plea_of_live(&run)?;
        context.audit(Audit {
            by,
            action: self.verdict.action(),
            on: run.on(),
            reason: Some(reason),
        })?;
        Ok(Done::Confirmed {
            state: run.row.state,
        })
    }

    fn chosen(&self, context: &Context<'_>, run: &Run) -> Result<Vec<Shard>, Stop> {
        let waits = |shard: &Shard| shard.row.state == ShardState::NeedsConfirmation;
        if let Some(shard) = self.shard {
            let shard = context.shard(self.run_id, shard)?;
            return if waits(&shard) {
                Ok(vec![shard])
            } else {
                Err(shard.wrong_state("in needs_confirmation"))
            };
        }
        let mut shards = context.shards(self.run_id)?;
        shards.retain(waits);
        if shards.is_empty() {
            return Err(run.wrong_state("one with a shard in needs_confirmation"));
        }
        Ok(shards)
    }
}

/// Runs the shards again in the same execution. A run that stood still asks for its place
/// anew: others of its job may have begun meanwhile.
fn retry(
    context: &mut Context<'_>,
    run: &mut Run,
    shards: Vec<Shard>,
    by: &str,
    reason: &str,
) -> Result<(), Stop> {
    for mut shard in shards {
        shard.restore_retries();
        let state = pending_at(context.at);
        let why = Some(format!("once more, says {by}: {reason}"));
        context.move_shard(run, &mut shard, state, why)?;
    }
    if run.row.state == RunState::NeedsConfirmation {
        // Counted from an admission long past, it would pass at once.
        run.row.start_deadline = None;
        context.admit(run)?;
    }
    context.settle_alerts_of(run)?;
    context.update_run(run)
}

fn succeed(
    context: &mut Context<'_>,
    run: &mut Run,
    shards: Vec<Shard>,
    by: &str,
    reason: &str,
) -> Result<(), Stop> {
    for mut shard in shards {
        let why = Some(format!("confirmed by {by}: {reason}"));
        context.move_shard(run, &mut shard, ShardState::Succeeded, why)?;
    }
    context.roll_up(run)
}

#[cfg(test)]
mod tests {
    use protocol::attempt::AttemptOutcome;
    use protocol::{AgentId, JobId, SessionId};

    use super::*;
    use crate::command::{Admit, Unplaceable};
    use crate::outcome::Refusal;
    use crate::testing::{Bed, attach, end, finish};

    fn confirm(run_id: RunId, shard: Option<u32>, verdict: Verdict) -> Confirm {
        Confirm {
            run_id,
            shard,
            verdict,
            by: "ada".to_owned(),
            reason: "looked at the table".to_owned(),
        }
    }

    /// A run of two shards that both failed for good.
    fn in_question() -> (Bed, JobId, RunId, (AgentId, SessionId)) {
        let mut bed = Bed::new();
        let job = bed.job("shards: 2\nretry: { at_most: 1, backoff: [1s] }");
        let agent = bed.attach(attach("h1"));
        let (run_id, _) = bed.fire(job, 1);
        for shard in [0, 1, 0, 1] {
            let token = bed.grant(run_id, shard, agent.1);
            bed.ok(finish(agent.0, token, end(AttemptOutcome::Failed)));
        }
        (bed, job, run_id, agent)
    }

    #[test]
    fn a_person_may_say_it_is_done_shard_by_shard() {
        let (mut bed, _, run_id, _) = in_question();
        let some = confirm(run_id, Some(0), Verdict::Succeeded);
        let state = RunState::NeedsConfirmation;
        assert_eq!(bed.ok(some.clone()), Done::Confirmed { state });
        assert!(matches!(bed.refused(some), Refusal::WrongShardState { .. }));
        let rest = confirm(run_id, None, Verdict::Succeeded);
        let state = RunState::Succeeded;
        assert_eq!(bed.ok(rest.clone()), Done::Confirmed { state });
        assert!(matches!(bed.refused(rest), Refusal::WrongRunState { .. }));
        assert_eq!(
            bed.view("SELECT action, run, reason FROM audit_view WHERE run IS NOT NULL"),
            ["confirm as succeeded|run-1|looked at the table"; 2]
        );
        assert_eq!(
            bed.view("SELECT reason FROM shard_view ORDER BY shard"),
            ["confirmed by ada: looked at the table"; 2]
        );
    }

    #[test]
    fn a_retry_restores_the_retries_within_the_execution() {
        let (mut bed, _, run_id, agent) = in_question();
        let fence = bed.run(run_id).fence;
        let state = RunState::Ready;
        let retry = confirm(run_id, Some(1), Verdict::Retry);
        assert_eq!(bed.ok(retry), Done::Confirmed { state });
        let run = bed.run(run_id);
        assert_eq!((run.execution, run.start_deadline), (1, None));
        assert!(run.fence > fence);
        assert_eq!(bed.shard(run_id, 1).retries_used, 0);
        assert_eq!(bed.shard(run_id, 1).attempts, 2);
        assert_eq!(
            bed.shard(run_id, 1).reason.as_deref(),
            Some("once more, says ada: looked at the table")
        );
        let token = bed.grant(run_id, 1, agent.1);
        bed.ok(finish(agent.0, token, end(AttemptOutcome::Failed)));
        assert_eq!(bed.shard(run_id, 1).state.as_str(), "pending");
        assert_eq!(bed.run(run_id).state, RunState::Running);
    }

    #[test]
    fn a_retry_waits_for_a_run_that_began_meanwhile() {
        let (mut bed, job, run_id, agent) = in_question();
        let (other, state) = bed.fire(job, 2);
        assert_eq!(state, RunState::Ready);
        let state = RunState::Waiting;
        let retry = confirm(run_id, None, Verdict::Retry);
        assert_eq!(bed.ok(retry), Done::Confirmed { state });
        assert_eq!(bed.run(run_id).fence, None);
        bed.carry_out(other, agent);
        bed.ok(Admit { run_id });
        bed.carry_out(run_id, agent);
        assert_eq!(bed.state(run_id), "succeeded");
    }

    #[test]
    fn a_run_given_up_is_failed_for_good() {
        let (mut bed, _, run_id, _) = in_question();
        let state = RunState::Failed;
        let failed = confirm(run_id, None, Verdict::Failed);
        assert_eq!(bed.ok(failed.clone()), Done::Confirmed { state });
        assert_eq!(
            bed.view("SELECT state, reason, needs_confirmation, ended_at FROM run_view"),
            ["failed|given up by ada: looked at the table|2|1970-01-01T00:00:00.000Z"]
        );
        assert!(matches!(bed.refused(failed), Refusal::WrongRunState { .. }));
    }

    #[test]
    fn a_shard_of_a_run_that_goes_on_may_be_confirmed_but_the_run_not_given_up() {
        let mut bed = Bed::new();
        let job = bed.job("shards: 2");
        let agent = bed.attach(attach("h1"));
        let (run_id, _) = bed.fire(job, 1);
        let nothing = confirm(run_id, None, Verdict::Succeeded);
        assert!(matches!(
            bed.refused(nothing),
            Refusal::WrongRunState { .. }
        ));
        let report = String::new();
        bed.ok(Unplaceable {
            run_id,
            shard: 0,
            report,
        });
        let give_up = confirm(run_id, None, Verdict::Failed);
        assert!(matches!(
            bed.refused(give_up),
            Refusal::WrongRunState { .. }
        ));
        bed.grant(run_id, 1, agent.1);
        bed.ok(confirm(run_id, None, Verdict::Retry));
        assert_eq!(bed.shard(run_id, 0).state.as_str(), "pending");
        assert_eq!(bed.run(run_id).state, RunState::Running);
        let pending = confirm(run_id, Some(0), Verdict::Retry);
        assert!(matches!(
            bed.refused(pending),
            Refusal::WrongShardState { .. }
        ));
    }
}
