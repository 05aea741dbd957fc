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
            Verdict::Succeeded => succeed(context, &mut run, shards, by)?,
            Verdict::Retry => self.retry(context, &mut run, shards)?,
            Verdict::Failed => {
                run.row.state = RunState::Failed;
                run.row.reason = Some(format!("given up by {by}: {reason}"));
                context.roll_up(&mut run)?;
            }
        }
        context.audit(Audit {
            by,
            action: self.verdict.action(),
            job_id: run.row.job_id,
            run_id: Some(self.run_id),
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

    /// Runs the shards again in the same execution. A run that stood still asks for its place
    /// anew: others of its job may have begun meanwhile.
    fn retry(
        &self,
        context: &mut Context<'_>,
        run: &mut Run,
        shards: Vec<Shard>,
    ) -> Result<(), Stop> {
        for mut shard in shards {
            shard.restore_retries();
            let state = pending_at(context.at);
            context.move_shard(run, &mut shard, state, None)?;
        }
        if run.row.state == RunState::NeedsConfirmation {
            // Counted from an admission long past, it would pass at once.
            run.row.start_deadline = None;
            match context.other_live(run.row.job_id, self.run_id)? {
                Some(behind) => context.make_waiting(run, behind),
                None => context.make_ready(run)?,
            }
        }
        context.update_run(run)
    }
}

fn succeed(
    context: &mut Context<'_>,
    run: &mut Run,
    shards: Vec<Shard>,
    by: &str,
) -> Result<(), Stop> {
    for mut shard in shards {
        let why = Some(format!("confirmed by {by}"));
        context.move_shard(run, &mut shard, ShardState::Succeeded, why)?;
    }
    context.roll_up(run)
}
