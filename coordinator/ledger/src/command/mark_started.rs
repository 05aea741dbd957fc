use protocol::{AgentId, Token, WallMs};
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop};
use crate::outcome::{Done, Refusal};

/// The agent's word that the process of a lease runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkStarted {
    pub agent_id: AgentId,
    pub token: Token,
    pub at: WallMs,
}

impl MarkStarted {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let attempt = context.attempt_of(self.token, self.agent_id)?;
        if attempt.ended_at.is_some() {
            return Err(Refusal::AlreadyEnded { token: self.token }.into());
        }
        if attempt.started_at.is_none() {
            context.mark_attempt_started(self.token, self.at)?;
        }
        Ok(Done::Started)
    }
}
