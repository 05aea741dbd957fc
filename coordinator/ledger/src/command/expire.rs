use protocol::attempt::AttemptOutcome;
use protocol::{Rule, RunId, Token};
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop, clip};
use crate::outcome::{Done, Refusal};
use crate::settle::Ended;

/// Ends a lease whose agent was silent for too long. Conditional on the token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expire {
    pub run_id: RunId,
    pub shard: u32,
    pub token: Token,
    pub reason: String,
}

impl Expire {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let mut run = context.run(self.run_id)?;
        let mut shard = context.shard(self.run_id, self.shard)?;
        let named = |token| token == self.token || !context.rules.on(Rule::ExpireNamesToken);
        let lease = shard
            .lease()
            .filter(|lease| named(lease.token))
            .ok_or(Refusal::NotCurrent { token: self.token })?;
        let outcome = AttemptOutcome::Lost;
        context.end_attempt_unheard(lease.token, outcome, clip(&self.reason))?;
        context.settle(&mut run, &mut shard, Ended::unheard(outcome))?;
        Ok(Done::Expired)
    }
}
