use protocol::{AgentName, Health};
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop, clip};
use crate::command::AlertKind;
use crate::outcome::Done;
use crate::tables::record::{Audit, On};

/// An operator puts a host back into service. That ends a cordon, a drain and a quarantine: who has
/// seen to it that one process speaks under the name need not issue a new certificate. Should two
/// be found again, both are quarantined again. What was revoked stays so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UncordonAgent {
    pub name: AgentName,
    pub by: String,
    /// How the host fares, as far as the leader knows: so the operator takes it, until it is worse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
}

impl UncordonAgent {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let mut agent = context.known_agent(&self.name)?;
        agent.refuse_revoked()?;
        let changed = agent.row.barred.is_some() || agent.row.cordon.is_some();
        if changed {
            agent.row.barred = None;
            agent.barred_reason = None;
            agent.row.cordon = None;
            agent.cordoned = None;
            agent.row.health = agent.row.health.max(self.health);
            context.write_agent(&agent)?;
            let agent_id = agent.row.agent_id;
            context.settle_alert(AlertKind::DuplicateAgent, On::Agent(agent_id))?;
            context.settle_alert(AlertKind::HostUnwell, On::Agent(agent_id))?;
            context.audit(Audit {
                by: clip(&self.by),
                action: "uncordon agent",
                on: On::Agent(agent_id),
                reason: None,
            })?;
        }
        Ok(Done::AgentUncordoned { changed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Quarantine, RevokeAgent};
    use crate::outcome::Refusal;
    use crate::testing::{Bed, attach};

    fn uncordon(name: &str) -> UncordonAgent {
        UncordonAgent {
            name: name.parse().unwrap(),
            by: "ada".to_owned(),
            health: None,
        }
    }

    fn quarantine() -> Quarantine {
        Quarantine {
            name: "h1".parse().unwrap(),
            reason: "two".to_owned(),
        }
    }

    #[test]
    fn it_lifts_a_quarantine_which_can_come_again() {
        let mut bed = Bed::new();
        bed.attach(attach("h1"));
        bed.ok(quarantine());
        assert_eq!(
            bed.ok(uncordon("h1")),
            Done::AgentUncordoned { changed: true }
        );
        let open = "SELECT count(*) FROM alert_view WHERE cleared_at IS NULL";
        assert_eq!(bed.view(open), ["0"], "its matter is over");
        bed.attach(attach("h1"));
        bed.ok(quarantine());
        assert_eq!(bed.view(open), ["1"]);
        assert!(matches!(
            bed.refused(attach("h1")),
            Refusal::Quarantined { .. }
        ));
    }

    #[test]
    fn a_revocation_stays_and_nothing_is_changed_twice() {
        let mut bed = Bed::new();
        assert!(matches!(
            bed.refused(uncordon("h1")),
            Refusal::NoAgentNamed { .. }
        ));
        bed.attach(attach("h1"));
        assert_eq!(
            bed.ok(uncordon("h1")),
            Done::AgentUncordoned { changed: false }
        );
        bed.ok(RevokeAgent {
            name: "h1".parse().unwrap(),
            by: "ada".to_owned(),
            reason: "sold".to_owned(),
        });
        assert!(matches!(
            bed.refused(uncordon("h1")),
            Refusal::Revoked { .. }
        ));
        assert_eq!(
            bed.view("SELECT action FROM audit_view WHERE agent IS NOT NULL"),
            ["revoke agent"]
        );
    }
}
