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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bed, attach};

    #[test]
    fn a_quarantined_agent_loses_its_session_and_keeps_its_leases() {
        let mut bed = Bed::new();
        let job = bed.job("");
        let (agent_id, session) = bed.attach(attach("h1"));
        let (run_id, _) = bed.fire(job, 1);
        bed.grant(run_id, 0, session);
        let quarantine = |agent_id| Quarantine {
            agent_id,
            reason: "two processes".to_owned(),
        };
        assert_eq!(bed.ok(quarantine(agent_id)), Done::Quarantined);
        let agent = &bed.set.agents[&agent_id];
        assert!(agent.quarantined && agent.session.is_none());
        assert_eq!(bed.shard(run_id, 0).state.as_str(), "leased");
        assert_eq!(
            bed.view("SELECT kind, text FROM alert_view"),
            ["duplicate_agent|h1 is quarantined: two processes"]
        );
        assert!(matches!(
            bed.refused(quarantine(agent_id)),
            Refusal::Quarantined { .. }
        ));
        let nobody = AgentId(9);
        assert_eq!(
            bed.refused(quarantine(nobody)),
            Refusal::NoSuchAgent { agent: nobody }
        );
    }
}
