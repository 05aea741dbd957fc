use protocol::AgentName;
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop, clip};
use crate::command::AlertKind;
use crate::outcome::Done;
use crate::rows::Bar;
use crate::tables::record::{Audit, On};

/// A person takes an agent's certificate its word away: no attach under this name is accepted any
/// more, nor what a session of it still says.
///
/// Its leases end by expiry: that its word counts no more does not stop its processes, and only
/// their time running out does. A name that never attached can be revoked
/// too, for a certificate that was lost before it was used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevokeAgent {
    pub name: AgentName,
    pub by: String,
    pub reason: String,
}

impl RevokeAgent {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let known = context.agent_named(&self.name)?;
        if let Some(agent) = &known {
            agent.refuse_revoked()?;
        }
        let (by, reason) = (clip(&self.by), clip(&self.reason));
        let why = format!("by {by}: {reason}");
        let agent_id = context.bar(&self.name, Bar::Revoked, &why)?;
        let leases = context.leases_of(agent_id)?.len();
        let text = match leases {
            0 => format!("{} is revoked {why}", self.name),
            _ => format!(
                "{} is revoked {why}; it held {leases} shards, which run elsewhere when their \
                 leases have run out",
                self.name
            ),
        };
        context.raise(AlertKind::AgentRevoked, On::Agent(agent_id), &text)?;
        context.audit(Audit {
            by,
            action: "revoke agent",
            on: On::Agent(agent_id),
            reason: Some(reason),
        })?;
        Ok(Done::Revoked {
            known: known.is_some(),
        })
    }
}

#[cfg(test)]
mod tests {
    use protocol::attempt::AttemptOutcome;

    use super::*;
    use crate::command::{Expire, Quarantine};
    use crate::outcome::Refusal;
    use crate::testing::{Bed, attach, end, finish};

    fn revoke(name: &str) -> RevokeAgent {
        RevokeAgent {
            name: name.parse().unwrap(),
            by: "ada".to_owned(),
            reason: "its disk was sold".to_owned(),
        }
    }

    #[test]
    fn a_revoked_agent_is_served_no_more_and_its_leases_end_by_their_time() {
        let mut bed = Bed::new();
        let job = bed.job("shards: 2");
        let (agent_id, session) = bed.attach(attach("h1"));
        let (run_id, _) = bed.fire(job, 1);
        let token = bed.grant(run_id, 0, session);
        assert_eq!(bed.ok(revoke("h1")), Done::Revoked { known: true });
        let agent = &bed.set.agents[&agent_id];
        assert_eq!((agent.barred, agent.session), (Some(Bar::Revoked), None));
        assert_eq!(bed.shard(run_id, 0).state.as_str(), "leased");
        assert!(matches!(bed.refused(attach("h1")), Refusal::Revoked { .. }));
        let expire = Expire {
            run_id,
            shard: 0,
            token,
            reason: "silent".to_owned(),
        };
        assert_eq!(bed.ok(expire), Done::Expired);
        assert_eq!(
            bed.view("SELECT kind, text FROM alert_view"),
            [
                "agent_revoked|h1 is revoked by ada: its disk was sold; it held 1 shards, which \
                 run elsewhere when their leases have run out"
            ]
        );
        assert_eq!(
            bed.view("SELECT by, action, agent, reason FROM audit_view WHERE agent IS NOT NULL"),
            ["ada|revoke agent|h1|its disk was sold"]
        );
    }

    #[test]
    fn once_is_enough_and_quarantine_is_no_protection() {
        let mut bed = Bed::new();
        bed.attach(attach("h1"));
        bed.ok(Quarantine {
            name: "h1".parse().unwrap(),
            reason: "two".to_owned(),
        });
        bed.ok(revoke("h1"));
        assert_eq!(
            bed.view("SELECT barred, barred_reason FROM agent_view"),
            ["revoked|by ada: its disk was sold"]
        );
        let again = bed.refused(revoke("h1"));
        assert!(matches!(again, Refusal::Revoked { .. }), "{again:?}");
    }

    #[test]
    fn a_name_that_never_attached_can_be_revoked() {
        let mut bed = Bed::new();
        assert_eq!(bed.ok(revoke("h9")), Done::Revoked { known: false });
        assert!(matches!(bed.refused(attach("h9")), Refusal::Revoked { .. }));
    }

    #[test]
    fn a_receipt_that_was_on_its_way_counts_no_more() {
        let mut bed = Bed::new();
        let job = bed.job("");
        let (agent_id, session) = bed.attach(attach("h1"));
        let (run_id, _) = bed.fire(job, 1);
        let token = bed.grant(run_id, 0, session);
        bed.ok(revoke("h1"));
        let receipt = finish(agent_id, token, end(AttemptOutcome::Succeeded));
        assert!(matches!(bed.refused(receipt), Refusal::Revoked { .. }));
        assert_eq!(bed.shard(run_id, 0).state.as_str(), "leased");
    }
}
