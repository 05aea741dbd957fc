use protocol::attempt::{AttemptEnd, AttemptOutcome};
use protocol::{AgentId, Rule, Token};
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop};
use crate::outcome::{Done, Refusal};
use crate::rows::ShardState;
use crate::settle::Ended;
use crate::tables::attempt::Attempt;
use crate::tables::run::Run;
use crate::tables::shard::Shard;

/// A receipt: how an attempt ended. Counts in any epoch while no later lease of the shard was
/// granted; after that it is recorded as stale and changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finish {
    pub agent_id: AgentId,
    pub token: Token,
    pub end: AttemptEnd,
}

impl Finish {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let token = self.token;
        let attempt = context.attempt_of(token, self.agent_id)?;
        if attempt.heard {
            return Err(Refusal::AlreadyEnded { token }.into());
        }
        let mut run = context.run(attempt.run_id)?;
        let mut shard = context.shard(attempt.run_id, attempt.shard)?;
        if shard.lease().is_some_and(|lease| lease.token == token) {
            context.end_attempt_by_receipt(token, &self.end)?;
            context.settle(&mut run, &mut shard, self.ended(&attempt))?;
        } else if shard.token == Some(token) {
            self.correct_presumed_end(context, &mut run, &mut shard)?;
        } else {
            return self.note_stale(context, &attempt, &mut run, &mut shard);
        }
        Ok(Done::Finished { counted: true })
    }

    /// The lease had been given up, but nobody was given another: what the host says is better
    /// than what was presumed. Only success moves the shard; whatever else it says, the expiry
    /// has already seen to the retry.
    fn correct_presumed_end(
        &self,
        context: &mut Context<'_>,
        run: &mut Run,
        shard: &mut Shard,
    ) -> Result<(), Stop> {
        if !context.rules.on(Rule::ReceiptCountsWithCurrentToken) {
            return Err(Refusal::NotCurrent { token: self.token }.into());
        }
        context.end_attempt_by_receipt(self.token, &self.end)?;
        let undecided = matches!(
            shard.row.state,
            ShardState::Pending { .. } | ShardState::NeedsConfirmation
        );
        let succeeded = self.end.outcome == AttemptOutcome::Succeeded;
        if succeeded && undecided && !run.row.state.is_final() {
            context.move_shard(run, shard, ShardState::Succeeded, None)?;
            context.roll_up(run)?;
        }
        Ok(())
    }

    /// Another lease was granted since: the receipt is kept as stale.
    fn note_stale(
        &self,
        context: &mut Context<'_>,
        attempt: &Attempt,
        run: &mut Run,
        shard: &mut Shard,
    ) -> Result<Done, Stop> {
        context.note_stale_receipt(self.token, self.end.outcome)?;
        let settles = !context.rules.on(Rule::StaleReceiptChangesNothing);
        if settles && !run.row.state.is_final() {
            context.settle(run, shard, self.ended(attempt))?;
        }
        Ok(Done::Finished { counted: settles })
    }

    fn ended(&self, attempt: &Attempt) -> Ended {
        Ended {
            outcome: self.end.outcome,
            exit: self.end.exit,
            started: self.end.started_at.is_some() || attempt.started_at.is_some(),
        }
    }
}
