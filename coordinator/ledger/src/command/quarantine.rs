use protocol::AgentName;
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop, clip};
use crate::command::AlertKind;
use crate::outcome::Done;
use crate::rows::Bar;
use crate::tables::agent::Agent;
use crate::tables::record::On;

/// Two processes speak under one name: neither gets work or acknowledgement any more. The name
/// need not be known: two that attach for the first time may find each other out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quarantine {
    pub name: AgentName,
    pub reason: String,
}

impl Quarantine {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let known = context.agent_named(&self.name)?;
        if let Some(refusal) = known.as_ref().and_then(Agent::refusal) {
            return Err(refusal.into());
        }
        let reason = clip(&self.reason);
        let agent_id = context.bar(&self.name, Bar::Quarantined, reason)?;
        let text = format!("{} is quarantined: {reason}", self.name);
        context.raise(AlertKind::DuplicateAgent, On::Agent(agent_id), &text)?;
        Ok(Done::Quarantined)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Refusal;
    use crate::testing::{Bed, attach};

    fn quarantine(name: &str) -> Quarantine {
        Quarantine {
            name: name.parse().unwrap(),
            reason: "two processes".to_owned(),
        }
    }

    #[test]
    fn a_quarantined_agent_loses_its_session_and_keeps_its_leases() {
        let mut bed = Bed::new();
        let job = bed.job("");
        let (agent_id, session) = bed.attach(attach("h1"));
        let (run_id, _) = bed.fire(job, 1);
        bed.grant(run_id, 0, session);
        assert_eq!(bed.ok(quarantine("h1")), Done::Quarantined);
        let agent = &bed.set.agents[&agent_id];
        assert_eq!(agent.barred, Some(Bar::Quarantined));
        assert_eq!(agent.session, None);
        assert_eq!(bed.shard(run_id, 0).state.as_str(), "leased");
        assert_eq!(
            bed.view("SELECT kind, text FROM alert_view"),
            ["duplicate_agent|h1 is quarantined: two processes"]
        );
        assert!(matches!(
            bed.refused(quarantine("h1")),
            Refusal::Quarantined { .. }
        ));
    }

    #[test]
    fn two_that_never_attached_are_quarantined_and_told_of_all_the_same() {
        let mut bed = Bed::new();
        bed.ok(quarantine("h1"));
        assert_eq!(
            bed.view("SELECT name, barred, barred_reason FROM agent_view"),
            ["h1|quarantined|two processes"]
        );
        assert_eq!(bed.view("SELECT kind FROM alert_view"), ["duplicate_agent"]);
        assert!(matches!(
            bed.refused(attach("h1")),
            Refusal::Quarantined { .. }
        ));
    }
}
