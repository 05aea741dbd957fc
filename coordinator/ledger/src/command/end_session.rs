use protocol::SessionId;
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop};
use crate::outcome::{Done, Refusal};

/// Ends a session without contact for ever. Its leases end by expiry, not by this.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndSession {
    pub session: SessionId,
}

impl EndSession {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let gone = Refusal::NoSession {
            session: self.session,
        };
        let Some(session) = context.session(self.session)? else {
            return Err(gone.into());
        };
        let Some(mut agent) = context.agent(session.agent_id)? else {
            return Err(gone.into());
        };
        if agent.row.session != Some(self.session) {
            return Err(gone.into());
        }
        agent.row.session = None;
        context.write_agent(&agent)?;
        context.end_session(self.session)?;
        Ok(Done::SessionEnded)
    }
}
