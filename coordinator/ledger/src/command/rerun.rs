use protocol::attempt::{AttemptOutcome, Trigger};
use protocol::{Rule, RunId};
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop, clip, malformed};
use crate::outcome::{Done, Refusal};
use crate::rows::{Lease, RunState, ShardState};
use crate::settle::pending_at;
use crate::tables::record::Audit;
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
}

impl Rerun {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let mut run = context.run(self.run_id)?;
        context.job(run.row.job_id)?;
        let shards = context.shards(self.run_id)?;
        self.check(context, &run, &shards)?;
        let (by, reason) = (clip(&self.by), clip(&self.reason));
        begin_execution(context, &mut run, by, reason)?;
        let leased = self.reopen(context, &mut run, shards)?;
        self.start_or_wait(context, &mut run, leased)?;
        context.update_run(&run)?;
        context.audit(Audit {
            by,
            action: "rerun",
            job_id: run.row.job_id,
            run_id: Some(self.run_id),
            reason: Some(reason),
        })?;
        Ok(Done::Rerun {
            execution_id: run.row.execution_id,
            execution: run.row.execution,
            state: run.row.state,
        })
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
        let done = |shard: &Shard| shard.row.state == ShardState::Succeeded;
        if !shards.is_empty() && shards.iter().all(done) {
            return Err(run.wrong_state("one with a shard that did not succeed"));
        }
        Ok(())
    }

    /// Makes the chosen shards pending, or pending once their lease has ended. Answers whether
    /// any is still leased. All shards come back into the working set with their run.
    fn reopen(
        &self,
        context: &mut Context<'_>,
        run: &mut Run,
        shards: Vec<Shard>,
    ) -> Result<bool, Stop> {
        context.show_version(run.row.job_id, run.row.version)?;
        let chosen = |shard: u32| match self.scope {
            RerunScope::Run => true,
            RerunScope::Shard(only) => only == shard,
        };
        if shards.is_empty() {
            for shard in 0..run.row.shards {
                let state = if chosen(shard) {
                    pending_at(context.at)
                } else {
                    ShardState::Cancelled
                };
                context.insert_shard(run, &Shard::new(self.run_id, shard, state))?;
            }
            return Ok(false);
        }
        let mut leased = false;
        for mut shard in shards {
            context.changes.shard(&shard.row);
            if shard.row.state == ShardState::Succeeded || !chosen(shard.row.shard) {
                leased |= shard.lease().is_some();
                continue;
            }
            shard.restore_retries();
            shard.row.attempts = 0;
            leased |= reopen_shard(context, run, &mut shard)?;
        }
        Ok(leased)
    }

    fn start_or_wait(
        &self,
        context: &mut Context<'_>,
        run: &mut Run,
        leased: bool,
    ) -> Result<(), Stop> {
        if let Some(behind) = context.other_live(run.row.job_id, self.run_id)? {
            context.make_waiting(run, behind);
            return Ok(());
        }
        if leased {
            // Its lease of before is live, and so is the run.
            context.take_fence(run);
            run.row.state = RunState::Running;
            return Ok(());
        }
        context.make_ready(run)
    }
}

fn begin_execution(
    context: &mut Context<'_>,
    run: &mut Run,
    by: &str,
    reason: &str,
) -> Result<(), Stop> {
    run.row.execution = run
        .row
        .execution
        .checked_add(1)
        .ok_or_else(|| malformed("an execution beyond the last"))?;
    run.row.execution_id = context.meta.mint_execution();
    run.row.trigger = Trigger::Rerun;
    run.row.admitted_at = context.at;
    run.row.start_deadline = None;
    run.row.reason = None;
    run.ended_at = None;
    context.insert_execution(&run.row, Some(by), Some(reason))
}

fn reopen_shard(context: &mut Context<'_>, run: &mut Run, shard: &mut Shard) -> Result<bool, Stop> {
    if let Some(Lease { token, .. }) = shard.lease() {
        if context.rules.on(Rule::LeaseEndsByReceiptOrExpiry) {
            shard.again = true;
            let (state, reason) = (shard.row.state, shard.row.reason.clone());
            context.move_shard(run, shard, state, reason)?;
            return Ok(true);
        }
        context.end_attempt_unheard(token, AttemptOutcome::Cancelled, "rerun")?;
    }
    context.move_shard(run, shard, pending_at(context.at), None)?;
    Ok(false)
}
