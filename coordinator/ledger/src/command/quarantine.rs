use protocol::AgentId;
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop, clip};
use crate::command::AlertKind;
use crate::outcome::{Done, Refusal};

/// Two processes speak under one identity: neither gets work or acknowledgement any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quarantine {
    pub agent_id: AgentId,
    pub reason: String,
}

impl Quarantine {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let Some(mut agent) = context.agent(self.agent_id)? else {
            return Err(Refusal::NoSuchAgent {
                agent: self.agent_id,
            }
            .into());
        };
        if let Some(reason) = agent.quarantine {
            return Err(Refusal::Quarantined { reason }.into());
        }
        let reason = clip(&self.reason);
        if let Some(session) = agent.row.session.take() {
            context.end_session(session)?;
        }
        agent.row.quarantined = true;
        agent.quarantine = Some(reason.to_owned());
        context.write_agent(&agent)?;
        let text = format!("{} is quarantined: {reason}", agent.row.name);
        context.alert(AlertKind::DuplicateAgent, None, None, &text)?;
        Ok(Done::Quarantined)
    }
}
